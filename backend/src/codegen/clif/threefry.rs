//! Random bits: the block function of Threefry-2x32, on 32-bit registers.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use tapeloom_ir::prim::{Words, threefry2x32};

/// Returns 64 random bits for a key and a counter.
pub(super) fn bits(b: &mut FunctionBuilder<'_>, key: Value, counter: Value) -> Value {
    let (key, counter) = (words(b, key), words(b, counter));
    let [high, low] = threefry2x32(&mut Instructions(b), key, counter);
    let (high, low) = (b.ins().uextend(types::I64, high), b.ins().uextend(types::I64, low));
    let high = b.ins().ishl_imm_u(high, 32);
    b.ins().bor(high, low)
}

/// Splits 64 bits into the high and the low 32-bit word.
fn words(b: &mut FunctionBuilder<'_>, x: Value) -> [Value; 2] {
    let high = b.ins().ushr_imm_u(x, 32);
    [b.ins().ireduce(types::I32, high), b.ins().ireduce(types::I32, x)]
}

struct Instructions<'a, 'f>(&'a mut FunctionBuilder<'f>);

impl Words for Instructions<'_, '_> {
    type Word = Value;
    fn word(&mut self, x: u32) -> Value {
        self.0.ins().iconst(types::I32, i64::from(x))
    }
    fn add(&mut self, x: Value, y: Value) -> Value {
        self.0.ins().iadd(x, y)
    }
    fn xor(&mut self, x: Value, y: Value) -> Value {
        self.0.ins().bxor(x, y)
    }
    fn rotate(&mut self, x: Value, by: u32) -> Value {
        self.0.ins().rotl_imm_u(x, i64::from(by))
    }
}
