//! Library functions of objects, emitted from their recordings: lists of the operations that compute them.
//!
//! A function is part of an object if it has a [whole](tapeloom_ir::math::Recording::whole) recording, a list of
//! operations for all arguments. In f32, results for arguments outside of the recording's interval are computed in f64
//! and rounded, as in all engines. A remainder of floats is a function of the C library. Other functions are in the
//! library that objects link (`tapeloom-runtime`).

use super::code_module::CodeModule;
use super::emitter::{Emitter, begin, signature};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use cranelift_module::{FuncId, Linkage, Module};
use tapeloom_ir::math::{Noted, Operation, Recording};
use tapeloom_ir::prim::Library;
use tapeloom_ir::{Dtype, Problem};

/// Returns the symbol of a library function that objects do not contain, because the C library or the library
/// `tapeloom-runtime` has it; otherwise `None`. A remainder is exact, so the C library's function has the same bits.
pub(super) fn outside(library: &Library, dtype: Dtype) -> Option<String> {
    match (library.name, dtype) {
        ("rem", Dtype::F64) => Some("fmod".to_owned()),
        ("rem", _) => Some("fmodf".to_owned()),
        // A function with a constant number, such as the n of `half_pow`, has a recording (a list of operations) for
        // some numbers, so it may be part of the object.
        _ if library.number().is_some() || library.whole().is_some() => None,
        (name, _) => Some(runtime_symbol(&format!("{name}_{dtype}"))),
    }
}

/// Returns the symbol of a function of the library that objects link: `tapeloom_0_1_0_lgamma_f64`.
pub(super) fn runtime_symbol(name: &str) -> String {
    const VERSION: [&str; 3] = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ];
    format!("tapeloom_{}_{name}", VERSION.join("_"))
}

/// Emits a function of single elements. `used` has all library functions of the program. Functions with one name and
/// several constant numbers n, such as `half_pow`, become one function, whose first argument is n.
pub(super) fn one(
    module: &mut CodeModule<'_>,
    emitter: &mut Emitter,
    id: FuncId,
    (library, dtype): (Library, Dtype),
    used: &[Library],
) -> Result<(), Problem> {
    let signature = signature(module, id);
    emitter.function(module, id, |b, module, args| {
        if library.number().is_none() {
            return result(b, &library, dtype, args);
        }
        let same = || used.iter().filter(|of| of.name == library.name);
        for of_number in same().filter(|of| of.whole().is_some()) {
            let Some(n) = of_number.number() else { continue };
            let is_n = b.ins().icmp_imm_s(IntCC::Equal, args[0], n);
            let (here, next) = (b.create_block(), b.create_block());
            b.ins().brif(is_n, here, &[], next, &[]);
            begin(b, here);
            result(b, of_number, dtype, &args[1..])?;
            begin(b, next);
        }
        let value = if same().all(|of| of.whole().is_some()) {
            // The program calls the function with none but the numbers above, so this result is never used.
            match dtype {
                Dtype::F64 => b.ins().f64const(f64::NAN),
                _ => b.ins().f32const(f32::NAN),
            }
        } else {
            let symbol = runtime_symbol(&format!("{}_{dtype}", library.name));
            let other =
                module.import(&symbol, &signature).map_err(|e| Problem::internal(e.to_string()))?;
            let other = module.declare_func_in_func(other, b.func);
            let call = b.ins().call(other, args);
            b.inst_results(call)[0]
        };
        b.ins().return_(&[value]);
        Ok(())
    })
}

/// Emits the return of a function's value. For f32 arguments inside of the interval of the f32 recording (a list of
/// operations), that recording computes the value; otherwise the f64 recording does.
fn result(
    b: &mut FunctionBuilder<'_>,
    library: &Library,
    dtype: Dtype,
    args: &[Value],
) -> Result<(), Problem> {
    let missing =
        || Problem::internal(format!("`{}` has no recording for all arguments", library.name));
    let whole = library.whole().ok_or_else(missing)?;
    if dtype == Dtype::F64 {
        let (_, value) = operations(b, whole, args);
        b.ins().return_(&[value]);
        return Ok(());
    }
    let (inside, value) = operations(b, library.recording(dtype).ok_or_else(missing)?, args);
    let (near, far) = (b.create_block(), b.create_block());
    b.set_cold_block(far);
    b.ins().brif(inside, near, &[], far, &[]);
    begin(b, near);
    b.ins().return_(&[value]);
    begin(b, far);
    let args: Vec<Value> = args.iter().map(|x| b.ins().fpromote(types::F64, *x)).collect();
    let (_, value) = operations(b, whole, &args);
    let value = b.ins().fdemote(types::F32, value);
    b.ins().return_(&[value]);
    Ok(())
}

/// Emits a function of eight elements. Its parameters are the address for the results, then the elements.
pub(super) fn eight(
    module: &mut CodeModule<'_>,
    emitter: &mut Emitter,
    id: FuncId,
    library: Library,
    dtype: Dtype,
) -> Result<(), Problem> {
    let float = if dtype == Dtype::F64 { types::F64 } else { types::F32 };
    let name = format!("library_{}_{dtype}", library.name);
    let mut of_one = signature(module, id);
    of_one.params.drain(2..);
    of_one.params.remove(0);
    of_one.returns.push(cranelift_codegen::ir::AbiParam::new(float));
    let one = module
        .declare_function(&name, Linkage::Import, &of_one)
        .map_err(|e| Problem::internal(format!("declaring {name}: {e}")))?;
    emitter.function(module, id, |b, module, params| {
        let one = module.declare_func_in_func(one, b.func);
        let Some((results, elements)) = params.split_first() else {
            return Err(Problem::internal("a function of eight elements without a result"));
        };
        for (i, x) in elements.iter().enumerate() {
            let call = b.ins().call(one, &[*x]);
            let value = b.inst_results(call)[0];
            let at = i as i32 * float.bytes() as i32;
            b.ins().store(MemFlagsData::trusted(), value, *results, at);
        }
        b.ins().return_(&[]);
        Ok(())
    })
}

/// Emits the operations of a recording of a library function. Returns two values: whether the result is valid for the
/// arguments, and the result.
fn operations(
    b: &mut FunctionBuilder<'_>,
    recording: &Recording,
    args: &[Value],
) -> (Value, Value) {
    let (float, bits) =
        if recording.narrow { (types::F32, types::I32) } else { (types::F64, types::I64) };
    let mut made: Vec<Value> = Vec::with_capacity(recording.list.len());
    for operation in &recording.list {
        let of = |n: Noted| made[n.0 as usize];
        let value = match *operation {
            Operation::Argument(i) => args[usize::from(i)],
            Operation::Constant(value) => {
                let value = b.ins().iconst(bits, value as i64);
                cast(b, float, value)
            }
            Operation::Add(x, y) => b.ins().fadd(of(x), of(y)),
            Operation::Sub(x, y) => b.ins().fsub(of(x), of(y)),
            Operation::Mul(x, y) => b.ins().fmul(of(x), of(y)),
            Operation::Div(x, y) => b.ins().fdiv(of(x), of(y)),
            Operation::Fma(x, y, z) => b.ins().fma(of(x), of(y), of(z)),
            Operation::Sqrt(x) => b.ins().sqrt(of(x)),
            Operation::Lt(x, y) => b.ins().fcmp(FloatCC::LessThan, of(x), of(y)),
            Operation::Le(x, y) => b.ins().fcmp(FloatCC::LessThanOrEqual, of(x), of(y)),
            Operation::Eq(x, y) => b.ins().fcmp(FloatCC::Equal, of(x), of(y)),
            Operation::Always(holds) => b.ins().iconst(types::I8, i64::from(holds)),
            Operation::Both(x, y) => b.ins().band(of(x), of(y)),
            Operation::Either(x, y) => b.ins().bor(of(x), of(y)),
            Operation::Not(x) => b.ins().bxor_imm_u(of(x), 1),
            Operation::Pick(mask, x, y) => b.ins().select(of(mask), of(x), of(y)),
            Operation::PlusBits(x, y) => {
                in_bits(b, (float, bits), [of(x), of(y)], |b, [x, y]| b.ins().iadd(x, y))
            }
            Operation::And(x, y) => {
                in_bits(b, (float, bits), [of(x), of(y)], |b, [x, y]| b.ins().band(x, y))
            }
            Operation::Or(x, y) => {
                in_bits(b, (float, bits), [of(x), of(y)], |b, [x, y]| b.ins().bor(x, y))
            }
            Operation::Xor(x, y) => {
                in_bits(b, (float, bits), [of(x), of(y)], |b, [x, y]| b.ins().bxor(x, y))
            }
            Operation::ShiftLeft(x, by) => {
                in_bits(b, (float, bits), [of(x)], |b, [x]| b.ins().ishl_imm_u(x, i64::from(by)))
            }
            Operation::ShiftRight(x, by) => {
                in_bits(b, (float, bits), [of(x)], |b, [x]| b.ins().ushr_imm_u(x, i64::from(by)))
            }
        };
        made.push(value);
    }
    (made[recording.inside.0 as usize], made[recording.result.0 as usize])
}

/// Emits an operation on the bit patterns of floats.
fn in_bits<const N: usize>(
    b: &mut FunctionBuilder<'_>,
    (float, bits): (Type, Type),
    x: [Value; N],
    emit: impl FnOnce(&mut FunctionBuilder<'_>, [Value; N]) -> Value,
) -> Value {
    let x = x.map(|x| cast(b, bits, x));
    let value = emit(b, x);
    cast(b, float, value)
}

fn cast(b: &mut FunctionBuilder<'_>, to: Type, x: Value) -> Value {
    b.ins().bitcast(to, MemFlagsData::new().with_endianness(Endianness::Little), x)
}
