//! Scalar code in Cranelift: each [`Code`] on one element, with exactly the meaning of `Code::eval`.
//!
//! If the machine's instruction differs from the IR's definition (division traps, shift amounts wrap), emitted `select`
//! instructions correct the result. The emitted code never branches or traps. For example, `div x, y` on i64 becomes
//!
//! ```text
//! zero = icmp eq y, 0          minus = icmp eq y, -1
//! safe = select zero | minus, 1, y
//! q = sdiv x, safe
//! select zero, -1, (select minus, -x, q)
//! ```

use super::float;
use super::symbols::Functions;
use super::threefry;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{LibraryFn, power};
use tapeloom_ir::{Code, Dtype, Literal, Problem};

/// Returns the Cranelift register type of a dtype. A bool is a byte that is 0 or 1, as in memory.
pub(super) fn register(dtype: Dtype) -> Type {
    match dtype {
        Dtype::Bool => types::I8,
        Dtype::I32 | Dtype::U32 => types::I32,
        Dtype::I64 | Dtype::U64 => types::I64,
        Dtype::F32 => types::F32,
        Dtype::F64 => types::F64,
    }
}

/// Returns the constant with the value of a literal.
pub(super) fn literal(b: &mut FunctionBuilder<'_>, x: Literal) -> Value {
    match x.dtype {
        Dtype::F64 => b.ins().f64const(Ieee64::with_bits(x.bits)),
        Dtype::F32 => b.ins().f32const(Ieee32::with_bits(x.bits as u32)),
        Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => {
            b.ins().iconst(register(x.dtype), x.bits as i64)
        }
    }
}

/// Emits a scalar code (an operation on single elements) on operands, the last of which has the dtype `dtype`.
pub(super) fn emit(
    b: &mut FunctionBuilder<'_>,
    functions: &mut Functions<'_>,
    code: Code,
    dtype: Dtype,
    x: &[Value],
) -> Result<Value, Problem> {
    let (Some(first), Some(last)) = (x.first().copied(), x.last().copied()) else {
        return Err(Problem::internal("scalar code without operands"));
    };
    if let Some(library) = code.called(dtype) {
        let f = functions.library(b.func, library, dtype)?;
        return match library.function {
            LibraryFn::Unary { .. } | LibraryFn::Binary { .. } | LibraryFn::Ternary { .. } => {
                call(b, f, x)
            }
            LibraryFn::Indexed { n, .. } => {
                let n = b.ins().iconst(types::I64, n);
                call(b, f, &[n, first])
            }
        };
    }
    let value = match (code, x) {
        (Code::Select, [c, x, y]) => Some(float::choose(b, b.func.dfg.value_type(*x), *c, *x, *y)),
        (Code::Convert(to), _) => Some(convert(b, first, dtype, to)),
        (Code::Bitcast(to), _) => Some(bitcast(b, first, to)),
        (Code::Clamp, [low, x, high]) => {
            let x = emit(b, functions, Code::Max, dtype, &[*x, *low])?;
            Some(emit(b, functions, Code::Min, dtype, &[x, *high])?)
        }
        _ => match dtype {
            Dtype::Bool => bool_code(b, code, first, last),
            Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => {
                int_code(b, code, dtype, first, last)
            }
            Dtype::F32 | Dtype::F64 => float::emit(b, register(dtype), code, first, last),
        },
    };
    value.ok_or_else(|| Problem::internal(format!("{code:?} is not defined on {dtype}")))
}

fn bool_code(b: &mut FunctionBuilder<'_>, code: Code, x: Value, y: Value) -> Option<Value> {
    Some(match code {
        Code::Eq => b.ins().icmp(IntCC::Equal, x, y),
        Code::Ne | Code::Xor => b.ins().bxor(x, y),
        Code::Lt => b.ins().icmp(IntCC::UnsignedLessThan, x, y),
        Code::Le => b.ins().icmp(IntCC::UnsignedLessThanOrEqual, x, y),
        Code::Gt => b.ins().icmp(IntCC::UnsignedGreaterThan, x, y),
        Code::Ge => b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, x, y),
        Code::And | Code::Min | Code::Mul => b.ins().band(x, y),
        Code::Or | Code::Max | Code::Add => b.ins().bor(x, y),
        Code::Not => b.ins().bxor_imm_u(x, 1),
        Code::Sub
        | Code::Div
        | Code::Rem
        | Code::Neg
        | Code::Abs
        | Code::Sign
        | Code::Floor
        | Code::Ceil
        | Code::Sqrt
        | Code::ShiftLeft
        | Code::ShiftRightArithmetic
        | Code::ShiftRightLogical
        | Code::RandomBits
        | Code::Clamp
        | Code::Select
        | Code::IsFinite
        | Code::Convert(_)
        | Code::Bitcast(_)
        | Code::IntegerPow(_)
        | Code::Library(_) => return None,
    })
}

fn int_code(
    b: &mut FunctionBuilder<'_>,
    code: Code,
    dtype: Dtype,
    x: Value,
    y: Value,
) -> Option<Value> {
    let (ty, signed) = (register(dtype), dtype.is_signed());
    let bits = i64::from(ty.bits());
    let compare = |b: &mut FunctionBuilder<'_>, signed_cc: IntCC| {
        b.ins().icmp(if signed { signed_cc } else { signed_cc.unsigned() }, x, y)
    };
    Some(match code {
        Code::Add => b.ins().iadd(x, y),
        Code::Sub => b.ins().isub(x, y),
        Code::Mul => b.ins().imul(x, y),
        Code::Div => divide(b, ty, signed, x, y),
        Code::Rem => remainder(b, ty, signed, x, y),
        Code::Neg => b.ins().ineg(x),
        Code::Abs if signed => b.ins().iabs(x),
        Code::Abs => x,
        Code::Sign => {
            let zero = b.ins().iconst(ty, 0);
            let above = if signed { IntCC::SignedGreaterThan } else { IntCC::NotEqual };
            let above = b.ins().icmp(above, x, zero);
            let above = b.ins().uextend(ty, above);
            if !signed {
                return Some(above);
            }
            let below = b.ins().icmp(IntCC::SignedLessThan, x, zero);
            let below = b.ins().uextend(ty, below);
            b.ins().isub(above, below)
        }
        Code::Max => {
            let c = compare(b, IntCC::SignedGreaterThan);
            b.ins().select(c, x, y)
        }
        Code::Min => {
            let c = compare(b, IntCC::SignedLessThan);
            b.ins().select(c, x, y)
        }
        Code::And => b.ins().band(x, y),
        Code::Or => b.ins().bor(x, y),
        Code::Xor => b.ins().bxor(x, y),
        Code::Not => b.ins().bnot(x),
        Code::ShiftLeft | Code::ShiftRightLogical => {
            let left = matches!(code, Code::ShiftLeft);
            let shifted = if left { b.ins().ishl(x, y) } else { b.ins().ushr(x, y) };
            let width = b.ins().iconst(ty, bits);
            let zero = b.ins().iconst(ty, 0);
            let fits = b.ins().icmp(IntCC::UnsignedLessThan, y, width);
            b.ins().select(fits, shifted, zero)
        }
        Code::ShiftRightArithmetic => {
            let most = b.ins().iconst(ty, bits - 1);
            let fits = b.ins().icmp(IntCC::UnsignedLessThan, y, most);
            let by = b.ins().select(fits, y, most);
            b.ins().sshr(x, by)
        }
        Code::RandomBits => threefry::bits(b, x, y),
        Code::IntegerPow(n) => {
            let power = power(x, n.unsigned_abs(), |x, y| b.ins().imul(x, y));
            let one = b.ins().iconst(ty, 1);
            let power = power.unwrap_or(one);
            if n < 0 { divide(b, ty, signed, one, power) } else { power }
        }
        Code::Eq => compare(b, IntCC::Equal),
        Code::Ne => compare(b, IntCC::NotEqual),
        Code::Lt => compare(b, IntCC::SignedLessThan),
        Code::Le => compare(b, IntCC::SignedLessThanOrEqual),
        Code::Gt => compare(b, IntCC::SignedGreaterThan),
        Code::Ge => compare(b, IntCC::SignedGreaterThanOrEqual),
        Code::Floor
        | Code::Ceil
        | Code::Sqrt
        | Code::Clamp
        | Code::Select
        | Code::IsFinite
        | Code::Convert(_)
        | Code::Bitcast(_)
        | Code::Library(_) => return None,
    })
}

/// Returns a divisor with which division cannot trap, and the tests for 0 and -1 that select the corrected results.
fn safe_divisor(
    b: &mut FunctionBuilder<'_>,
    ty: Type,
    signed: bool,
    y: Value,
) -> (Value, Value, Value) {
    let zero = b.ins().iconst(ty, 0);
    let one = b.ins().iconst(ty, 1);
    let is_zero = b.ins().icmp(IntCC::Equal, y, zero);
    if !signed {
        return (b.ins().select(is_zero, one, y), is_zero, is_zero);
    }
    let minus_one = b.ins().bnot(zero);
    let is_minus_one = b.ins().icmp(IntCC::Equal, y, minus_one);
    let trouble = b.ins().bor(is_zero, is_minus_one);
    (b.ins().select(trouble, one, y), is_zero, is_minus_one)
}

fn divide(b: &mut FunctionBuilder<'_>, ty: Type, signed: bool, x: Value, y: Value) -> Value {
    let (safe, is_zero, is_minus_one) = safe_divisor(b, ty, signed, y);
    let zero = b.ins().iconst(ty, 0);
    let ones = b.ins().bnot(zero);
    if !signed {
        let q = b.ins().udiv(x, safe);
        return b.ins().select(is_zero, ones, q);
    }
    let q = b.ins().sdiv(x, safe);
    let minus_x = b.ins().ineg(x);
    let q = b.ins().select(is_minus_one, minus_x, q);
    b.ins().select(is_zero, ones, q)
}

fn remainder(b: &mut FunctionBuilder<'_>, ty: Type, signed: bool, x: Value, y: Value) -> Value {
    // A divisor of -1 was replaced by 1; the remainder is 0 for both divisors.
    let (safe, is_zero, _) = safe_divisor(b, ty, signed, y);
    let r = if signed { b.ins().srem(x, safe) } else { b.ins().urem(x, safe) };
    b.ins().select(is_zero, x, r)
}

fn convert(b: &mut FunctionBuilder<'_>, x: Value, from: Dtype, to: Dtype) -> Value {
    let ty = register(to);
    if from == to {
        return x;
    }
    match (from, to) {
        (Dtype::F32, Dtype::F64) => b.ins().fpromote(ty, x),
        (Dtype::F64, Dtype::F32) => b.ins().fdemote(ty, x),
        (Dtype::F32 | Dtype::F64, Dtype::Bool) => {
            let zero = literal(b, Literal::zero(from));
            b.ins().fcmp(FloatCC::NotEqual, x, zero)
        }
        (Dtype::F32 | Dtype::F64, Dtype::I32) if planted(Fault::ConvertSaturation) => {
            let wide = b.ins().fcvt_to_sint_sat(types::I64, x);
            b.ins().ireduce(ty, wide)
        }
        (Dtype::F32 | Dtype::F64, Dtype::I32 | Dtype::I64) => b.ins().fcvt_to_sint_sat(ty, x),
        (Dtype::F32 | Dtype::F64, _) => b.ins().fcvt_to_uint_sat(ty, x),
        (_, Dtype::Bool) => b.ins().icmp_imm_u(IntCC::NotEqual, x, 0),
        (Dtype::U64, Dtype::F32 | Dtype::F64) => b.ins().fcvt_from_uint(ty, x),
        (_, Dtype::F32 | Dtype::F64) => {
            let wide = widen(b, x, from);
            b.ins().fcvt_from_sint(ty, wide)
        }
        (_, Dtype::I64 | Dtype::U64) => widen(b, x, from),
        (Dtype::I64 | Dtype::U64, _) => b.ins().ireduce(ty, x),
        (Dtype::Bool, _) => b.ins().uextend(ty, x),
        // A conversion between i32 and u32 does not change the bits.
        _ => x,
    }
}

/// Reinterprets the bits of `x` as another dtype of equal width. Between two integer dtypes nothing is emitted.
fn bitcast(b: &mut FunctionBuilder<'_>, x: Value, to: Dtype) -> Value {
    let ty = register(to);
    if b.func.dfg.value_type(x) == ty {
        return x;
    }
    b.ins().bitcast(ty, MemFlagsData::new().with_endianness(Endianness::Little), x)
}

/// Extends an integer or bool to 64 bits; signed integers are sign-extended.
fn widen(b: &mut FunctionBuilder<'_>, x: Value, from: Dtype) -> Value {
    match from {
        Dtype::I32 => b.ins().sextend(types::I64, x),
        Dtype::Bool | Dtype::U32 => b.ins().uextend(types::I64, x),
        Dtype::I64 | Dtype::U64 | Dtype::F32 | Dtype::F64 => x,
    }
}

fn call(
    b: &mut FunctionBuilder<'_>,
    function: cranelift_codegen::ir::FuncRef,
    args: &[Value],
) -> Result<Value, Problem> {
    let inst = b.ins().call(function, args);
    let result = b.inst_results(inst).first().copied();
    result.ok_or_else(|| Problem::internal("a function without a result"))
}
