//! Scalar codes on floats that are single instructions, for scalars and vectors.
//!
//! Cranelift has the same instructions for scalars and vectors, so the type `ty` selects between them. Codes that
//! [`Code::called`] names are calls instead. Selections, clamps and conversions are expressed by other operations
//! before they get here.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{
    Endianness, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, Value, types,
};
use cranelift_frontend::FunctionBuilder;
use tapeloom_ir::Code;
use tapeloom_ir::prim::power;

/// Emits a scalar code on floats of type `ty`, a scalar or a vector; returns `None` if the code is not a single
/// instruction. A comparison gives 0 or 1 for scalars, and all bits or no bits of each lane for vectors.
pub(super) fn emit(
    b: &mut FunctionBuilder<'_>,
    ty: Type,
    code: Code,
    x: Value,
    y: Value,
) -> Option<Value> {
    Some(match code {
        Code::Add => b.ins().fadd(x, y),
        Code::Sub => b.ins().fsub(x, y),
        Code::Mul => b.ins().fmul(x, y),
        Code::Div => b.ins().fdiv(x, y),
        Code::Neg => b.ins().fneg(x),
        Code::Abs => b.ins().fabs(x),
        Code::Floor => b.ins().floor(x),
        Code::Ceil => b.ins().ceil(x),
        Code::Sqrt => b.ins().sqrt(x),
        Code::Max => b.ins().fmax(x, y),
        Code::Min => b.ins().fmin(x, y),
        Code::Sign => {
            let [zero, one, minus_one] = [0.0, 1.0, -1.0].map(|c| constant(b, ty, c));
            let below = b.ins().fcmp(FloatCC::LessThan, x, zero);
            let above = b.ins().fcmp(FloatCC::GreaterThan, x, zero);
            let low = choose(b, ty, below, minus_one, x);
            choose(b, ty, above, one, low)
        }
        Code::IntegerPow(n) => {
            let power = power(x, n.unsigned_abs(), |x, y| b.ins().fmul(x, y));
            match power {
                Some(power) if n >= 0 => power,
                Some(power) => {
                    let one = constant(b, ty, 1.0);
                    b.ins().fdiv(one, power)
                }
                None => constant(b, ty, 1.0),
            }
        }
        Code::IsFinite => {
            let size = b.ins().fabs(x);
            let infinity = constant(b, ty, f64::INFINITY);
            b.ins().fcmp(FloatCC::LessThan, size, infinity)
        }
        // All comparisons except `ne` are false if an operand is nan.
        Code::Eq => b.ins().fcmp(FloatCC::Equal, x, y),
        Code::Ne => b.ins().fcmp(FloatCC::NotEqual, x, y),
        Code::Lt => b.ins().fcmp(FloatCC::LessThan, x, y),
        Code::Le => b.ins().fcmp(FloatCC::LessThanOrEqual, x, y),
        Code::Gt => b.ins().fcmp(FloatCC::GreaterThan, x, y),
        Code::Ge => b.ins().fcmp(FloatCC::GreaterThanOrEqual, x, y),
        Code::Rem
        | Code::Library(_)
        | Code::And
        | Code::Or
        | Code::Xor
        | Code::Not
        | Code::ShiftLeft
        | Code::ShiftRightArithmetic
        | Code::ShiftRightLogical
        | Code::RandomBits
        | Code::Clamp
        | Code::Select
        | Code::Convert(_)
        | Code::Bitcast(_) => return None,
    })
}

/// Returns the constant `x`; for a vector type, in every lane.
fn constant(b: &mut FunctionBuilder<'_>, ty: Type, x: f64) -> Value {
    let x =
        if ty.lane_type() == types::F64 { b.ins().f64const(x) } else { b.ins().f32const(x as f32) };
    if ty.is_vector() { b.ins().splat(ty, x) } else { x }
}

/// Emits `truth ? x : y`, lane by lane.
pub(super) fn choose(
    b: &mut FunctionBuilder<'_>,
    ty: Type,
    truth: Value,
    x: Value,
    y: Value,
) -> Value {
    let little = MemFlagsData::new().with_endianness(Endianness::Little);
    if !ty.is_vector() {
        // Cranelift compiles a selection between floats to a jump, which is mispredicted if the condition is data
        // from memory. A selection between their bits needs no jump.
        if ty.is_float() && is_loaded(b, truth) {
            let (bits, zeros) = (ty.as_int(), [x, y].map(|x| is_zero(b, x)));
            let [x, y] = [x, y].map(|x| b.ins().bitcast(bits, little, x));
            let chosen = if zeros[0] == zeros[1] {
                b.ins().select(truth, x, y)
            } else {
                // Either x or y is the constant zero. The result is the bitwise `and` of the other operand and a mask,
                // which has all bits set if the other operand is chosen, and none if zero is chosen.
                let wide = b.ins().uextend(bits, truth);
                let (other, mask) = match zeros[1] {
                    true => (x, b.ins().ineg(wide)),
                    false => (y, b.ins().iadd_imm_s(wide, -1)),
                };
                b.ins().band(other, mask)
            };
            return b.ins().bitcast(ty, little, chosen);
        }
        return b.ins().select(truth, x, y);
    }
    let mask = b.ins().bitcast(ty, little, truth);
    b.ins().bitselect(mask, x, y)
}

/// Returns whether a float is the constant 0.
fn is_zero(b: &FunctionBuilder<'_>, x: Value) -> bool {
    let dfg = &b.func.dfg;
    dfg.value_def(x).inst().is_some_and(|inst| match dfg.insts[inst] {
        InstructionData::UnaryIeee32 { imm, .. } => imm.bits() == 0,
        InstructionData::UnaryIeee64 { imm, .. } => imm.bits() == 0,
        _ => false,
    })
}

/// Returns whether a condition was loaded from memory: it is a loaded byte, or a comparison of a loaded byte with 0.
fn is_loaded(b: &FunctionBuilder<'_>, truth: Value) -> bool {
    let dfg = &b.func.dfg;
    let made = |value: Value| dfg.value_def(value).inst();
    let loads = |inst| dfg.insts[inst].opcode().can_load();
    made(truth).is_some_and(|inst| {
        let compares = matches!(dfg.insts[inst].opcode(), Opcode::Icmp);
        let of = compares.then(|| dfg.inst_args(inst).first().and_then(|x| made(*x))).flatten();
        loads(inst) || of.is_some_and(loads)
    })
}
