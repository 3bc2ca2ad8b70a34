//! Engines: loop programs agree with the interpreter, and machine code agrees with loop programs.
//!
//! Results agree bit for bit, signs of zeros included, except for sums and products of many terms. Lowering may choose
//! another order for these, so they agree with the interpreter up to rounding. The loop program fixes the order, so
//! machine code still agrees with it in every bit, unless a library computes the contraction.

use crate::derivatives::derived;
use crate::for_all;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use tapeloom_backend::{Executable, Options, Runnable, Target, compile, loop_ir};
use tapeloom_ir::prim::{Dot, Operand, Reduce, Reducer};
use tapeloom_ir::{
    ArrayType, Builder, Draft, Dtype, FuncId, Literal, Module, Op, Scalar, Tensor, Type,
    print_function,
};
use tapeloom_tests::calculus::precision;
use tapeloom_tests::transform_words::{in_donated_memory, in_pieces, simulated};
use tapeloom_tests::{
    Agreement, Case, EDGES, EXAMPLES, Elements, Failure, cases, edge_tensors, rounded, run,
    tensor_of,
};

#[test]
fn loop_programs_and_machine_code_equal_the_interpreter() {
    for_all(|m, case| compiled(m, case, folds(m, case)));
}

#[test]
fn machine_code_of_derivatives_equals_the_interpreter() {
    for_all(|m, case| {
        let Some(of) = derived(m, case)? else { return Ok(()) };
        native(m, &of.jvp).and_then(|()| native(m, &of.vjp))
    });
}

#[test]
fn vector_code_equals_the_interpreter() {
    // The extent covers vectors of every width with a remainder, and every pair of edges (zeros, infinities, nan, ..).
    let extent = EDGES.len() * EDGES.len() + 1;
    let mut m = Module::new();
    let elementwise: BTreeSet<Op> = cases(&mut m)
        .iter()
        .map(|case| m.function(case.f).equations[0].op.clone())
        .filter(Op::is_elementwise)
        .collect();
    let mut failures = Vec::new();
    for op in elementwise {
        for dtype in Dtype::ALL {
            let mut applied = None;
            for arity in 1..=3 {
                // The first operand of `select` is a bool; the other operands, and all operands of other primitives,
                // have the dtype.
                for first in [dtype, Dtype::Bool] {
                    let dtypes: Vec<Dtype> =
                        (0..arity).map(|k| if k == 0 { first } else { dtype }).collect();
                    let types = dtypes.iter().map(|d| ArrayType::new(*d, [extent])).collect();
                    applied = applied.or_else(|| apply(&mut m, &op, types));
                }
            }
            let Some((f, types)) = applied else { continue };
            for arguments in [pairs, magnitudes] {
                let args = types.iter().enumerate().map(|(k, ty)| arguments(ty, k)).collect();
                let case = Case { name: op.name().to_owned(), f, args, smooth: false };
                if let Err(e) = exactly(&m, &case, Target::host()) {
                    failures.push(format!("{op:?} of {dtype}: {e}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// For all primitives, all examples and their derivatives, machine code must have the same bits on several threads as on
/// one.
#[test]
fn threads_change_no_bit() {
    static CUT: AtomicUsize = AtomicUsize::new(0);
    let check = |m: &mut Module, case: &Case| {
        let mut all = vec![(case.f, case.args.clone())];
        if let Some(of) = derived(m, case)? {
            all.extend([of.jvp, of.vjp].map(|case| (case.f, case.args)));
        }
        for (f, args) in all {
            let args: Vec<&Tensor> = args.iter().collect();
            CUT.fetch_add(usize::from(in_pieces(m, f, &args)?), Ordering::Relaxed);
        }
        Ok(())
    };
    for_all(check);
    let primitives = CUT.load(Ordering::Relaxed);
    assert!(primitives > 100, "only {primitives} programs are cut");
    for example in EXAMPLES {
        let checked = example.read().and_then(|(mut m, case)| check(&mut m, &case));
        checked.unwrap_or_else(|e| panic!("{}: {e}", example.name));
    }
    let examples = CUT.load(Ordering::Relaxed) - primitives;
    assert!(examples > 10, "only {examples} programs of examples are cut");
}

/// For all primitives and their derivatives, programs that take over the memory of arguments must have the same bits.
#[test]
fn donated_arguments_change_no_bit() {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    for_all(|m, case| {
        let mut all = vec![(case.f, case.args.clone())];
        if let Some(of) = derived(m, case)? {
            all.extend([of.jvp, of.vjp].map(|case| (case.f, case.args)));
        }
        for (f, args) in all {
            TAKEN.fetch_add(in_donated_memory(m, f, &args)?, Ordering::Relaxed);
        }
        Ok(())
    });
    let taken = TAKEN.load(Ordering::Relaxed);
    assert!(taken > 1000, "only {taken} results take over the memory of arguments");
}

/// Pieces that run at the same time must use different private memory. Each piece fills its private array 100 times and
/// sums it in the other direction, so threads that shared an array would read each other's numbers.
#[test]
fn threads_share_no_private_memory() {
    let text = "program @fills {
  private 4096
  buffer b0: f64[64] output 0
  buffer b1: f64[512] private 0
  concurrent i0 in 64 {
    store b0[i0], 0.0
    serial i1 in 100 {
      for i2 in 512 {
        %0: f64 = convert{to=f64} i0
        store b1[i2], %0
      }
      %1: f64 = load b0[i0]
      var v0: f64 = %1
      fold i3 in 512 {
        %2: f64 = load b1[i3*-1 + 511]
        v0 = add v0, %2
      }
      store b0[i0], v0
    }
  }
}
";
    let program = loop_ir::parse(text, &|_| None).unwrap();
    let code = Executable::new(&program).unwrap();
    let want: Tensor = (0..64).map(|piece| 51_200.0 * f64::from(piece)).collect();
    for threads in [1, 2, 4] {
        let code = code.clone().with_threads(threads);
        for _ in 0..20 {
            let got = code.call(&[]).unwrap();
            Agreement::Exact.check_all(&got, std::slice::from_ref(&want)).unwrap();
        }
    }
}

#[test]
fn sums_start_at_zero() {
    let mut m = Module::new();
    let mut failures = Vec::new();
    let mut check = |m: &mut Module, op: &Op, types: Vec<ArrayType>| {
        let Some((f, types)) = apply(m, op, types) else { return failures.push(format!("{op:?}")) };
        let zeros = |(k, ty): (usize, &ArrayType)| {
            // Zeros of both signs: products of 0 and -0 are -0.
            let zero = Literal::of(ty.dtype, if k == 0 { -0.0 } else { 0.0 });
            tensor_of(ty, |_| zero)
        };
        let args: Vec<Tensor> = types.iter().enumerate().map(zeros).collect();
        let case = Case { name: op.name().to_owned(), f, args, smooth: false };
        for target in [Target::host(), Target::Interpreter] {
            let outcome = exactly(m, &case, target.clone()).and_then(|()| {
                let y = run(m, f, &case.args)?;
                let plus = (0..y[0].elements()).all(|i| y[0].at(i).bits == 0);
                if plus { Ok(()) } else { Err(format!("a sum is -0: {}", y[0]).into()) }
            });
            failures.extend(outcome.err().map(|e| format!("{target}: {op:?} of {types:?}: {e}")));
        }
    };
    for dtype in [Dtype::F64, Dtype::F32] {
        for shape in [&[1][..], &[2], &[5], &[8, 1], &[1, 7], &[67], &[9, 31], &[31, 9]] {
            for axes in [vec![0], vec![1], vec![0, 1]] {
                if axes.iter().all(|a| *a < shape.len()) {
                    let op = Reduce { reducer: Reducer::Sum, axes }.into();
                    check(&mut m, &op, vec![ArrayType::new(dtype, shape)]);
                }
            }
        }
        // The extents cover loops and the matrix library, including its special paths for small and for thin products.
        let extents = [1, 2, 5, 16, 40];
        for rows in extents {
            for columns in extents {
                for terms in extents {
                    let op = Dot { batch: vec![], contract: vec![(1, 0)] }.into();
                    let of = |shape: [usize; 2]| ArrayType::new(dtype, shape);
                    check(&mut m, &op, vec![of([rows, terms]), of([terms, columns])]);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn vector_folds_equal_the_interpreter() {
    let mut m = Module::new();
    let mut failures = Vec::new();
    for dtype in Dtype::ALL {
        for reducer in Reducer::ALL {
            for extent in [8, 9, 10, 11, 67] {
                let Some(f) = chosen_and_folded(&mut m, reducer, dtype, extent) else { continue };
                // If all elements have one sign, an accumulator with a wrong initial value changes an extreme.
                for sign in [1.0, -1.0] {
                    let float = ArrayType::new(Dtype::F64, [extent]);
                    let x = tensor_of(&float, |i| Literal::f64((i as f64).sin()));
                    // Multiples of 1/7 are rounded, so a sum of floats depends on its order.
                    let by = if dtype.is_float() { 7.0 } else { 1.0 };
                    let number =
                        |i: usize, k| Literal::of(dtype, sign * ((i * k) % 7 + 3) as f64 / by);
                    let ty = ArrayType::new(dtype, [extent]);
                    let args =
                        vec![x, tensor_of(&ty, |i| number(i, 3)), tensor_of(&ty, |i| number(i, 5))];
                    let case = Case { name: "folded".into(), f, args, smooth: false };
                    if let Err(e) = native(&mut m, &case) {
                        failures.push(format!("{reducer:?} of {dtype}[{extent}]: {e}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Maxima and minima of rows. In each row the extreme lies at another position, and no position may be skipped.
#[test]
fn extremes_see_every_number() {
    let mut m = Module::new();
    let mut failures = Vec::new();
    for dtype in [Dtype::F64, Dtype::F32] {
        for reducer in [Reducer::Max, Reducer::Min] {
            for n in [5, 16, 67, 131] {
                let op: Op = Reduce { reducer, axes: vec![1] }.into();
                let types = vec![ArrayType::new(dtype, [n, n])];
                let (f, types) = apply(&mut m, &op, types).unwrap();
                let pairs = [(f64::NAN, 1.0), (0.0, -0.0), (-0.0, 0.0), (2.0, -3.0), (-3.0, 2.0)];
                for (one, others) in pairs {
                    let x = |i: usize| if i / n == i % n { one } else { others };
                    let args = vec![tensor_of(&types[0], |i| Literal::of(dtype, x(i)))];
                    let case = Case { name: op.name().to_owned(), f, args, smooth: false };
                    if let Err(e) = exactly(&m, &case, Target::host()) {
                        failures
                            .push(format!("{reducer:?} of {n} {dtype}, {one} in {others}: {e}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns a program that selects elements from two arrays by a comparison of floats, and reduces the selected ones.
/// The arithmetic on floats makes vectorization worthwhile for every dtype of the reduction. Returns `None` if the
/// reduction does not take the dtype.
fn chosen_and_folded(
    m: &mut Module,
    reducer: Reducer,
    dtype: Dtype,
    extent: usize,
) -> Option<FuncId> {
    let mut draft = Draft::new("folded");
    let x = draft.param(ArrayType::new(Dtype::F64, [extent]).into());
    let [y, z] = [(); 2].map(|()| draft.param(ArrayType::new(dtype, [extent]).into()));
    let b = Builder::new(m, &mut draft);
    let mut power = x;
    for _ in 0..4 {
        let square = b.emit1(Scalar::Mul, &[power, x]);
        power = b.emit1(Scalar::Add, &[square, x]);
    }
    let which = b.emit1(Scalar::Lt, &[power, x]);
    let choice = b.emit1(Scalar::Select, &[which, y, z]);
    let folded = b.try_emit(Reduce { reducer, axes: vec![0] }.into(), &[choice]).ok()?;
    draft.finish(m, folded.to_vec()).ok()
}

/// Returns a function whose only equation applies `op` to parameters of these types, or `None` if the equation does not
/// type-check.
fn apply(m: &mut Module, op: &Op, types: Vec<ArrayType>) -> Option<(FuncId, Vec<ArrayType>)> {
    let all: Vec<Type> = types.iter().cloned().map(Type::from).collect();
    let operands: Vec<Operand<'_>> = all.iter().map(|ty| Operand { ty, literal: None }).collect();
    op.infer(m, &operands).ok()?;
    let mut draft = Draft::new(op.name());
    let params: Vec<_> = all.iter().map(|ty| draft.param(ty.clone())).collect();
    let y = Builder::new(m, &mut draft).try_emit(op.clone(), &params).ok()?;
    Some((draft.finish(m, y.to_vec()).ok()?, types))
}

/// Returns edges (zeros, infinities, nan, ..) as operand `k`, such that operands 0 and 1 together take all pairs of
/// edges.
fn pairs(ty: &ArrayType, k: usize) -> Tensor {
    let n = EDGES.len();
    tensor_of(ty, |i| {
        let edge = EDGES[(if k == 1 { i / n } else { i + 5 * k }) % n];
        let least = Literal { dtype: ty.dtype, bits: 1 };
        match ty.dtype {
            // The smallest positive f64 is 0 in f32, so use the smallest f32. Conversion of infinities to integers
            // saturates.
            Dtype::F32 if edge == 5e-324 => least,
            Dtype::Bool => Literal::bool((i / 3 + k).is_multiple_of(2)),
            dtype => Literal::of(dtype, edge),
        }
    })
}

/// Returns ordinary numbers as operand `k`, in groups of sixteen of about equal magnitude; the numbers of every other
/// group are positive.
fn magnitudes(ty: &ArrayType, k: usize) -> Tensor {
    tensor_of(ty, |i| {
        let wave = (i as f64 * 0.7 + k as f64).sin() * 10f64.powi((i / 16 % 7) as i32 - 3);
        Literal::of(ty.dtype, if i / 16 % 2 == 0 { wave.abs() } else { wave })
    })
}

/// Compares the engines on a program of many equations; the rounding errors of the equations add up.
pub(crate) fn native(m: &mut Module, case: &Case) -> Result<(), Failure> {
    compiled(m, case, Agreement::relative(precision(m, case.f)))
}

/// Returns the tolerance for sums and products that lowering may compute in another order than the interpreter.
fn folds(m: &Module, case: &Case) -> Agreement {
    Agreement::relative(precision(m, case.f) / 100.0)
}

/// Compares the engines at the arguments of the case; then at edges (zeros, infinities, nan), where only results
/// without rounding are compared; and at zeros, where all results are compared, because there the order of rounding
/// does not matter.
fn compiled(m: &Module, case: &Case, agree: Agreement) -> Result<(), Failure> {
    let of = |target| compile(m, case.f, &Options { target, ..Options::default() });
    let (kernels, machine) = (of(Target::Interpreter)?, of(Target::host())?);
    let program = || format!("{}{}", print_function(m, case.f), kernels.report().program);
    let same = if kernels.report().program.contracts() { agree } else { Agreement::Exact };
    // Returns the results of the interpreted loop program and of machine code.
    let called = |args: &[Tensor]| -> Result<[Vec<Tensor>; 2], Failure> {
        let args: Vec<&Tensor> = args.iter().collect();
        let results = machine.call(&args)?;
        in_given_memory(&machine, &args, &results)?;
        Ok([kernels.call(&args)?, results])
    };
    let args: Vec<&Tensor> = case.args.iter().collect();
    simulated(&kernels, &args, &kernels.call(&args)?).map_err(|e| format!("{e}\n{}", program()))?;
    // The second call runs on the workspace that the first call has left.
    for _ in 0..2 {
        let [kernels, machine] = called(&case.args)?;
        let want = run(m, case.f, &case.args)?;
        let by_kernels = agree.check_promised(m, case.f, &kernels, &want);
        let by_machine = same.check_promised(m, case.f, &machine, &kernels);
        by_kernels.and(by_machine).map_err(|e| format!("{e}\n{}", program()))?;
    }
    let edges: Vec<Vec<Tensor>> = case.args.iter().map(|t| edge_tensors(t.ty())).collect();
    for n in 0..edges.iter().map(Vec::len).max().unwrap_or(0) {
        let at = |(k, (t, edges)): (usize, (&Tensor, &Vec<Tensor>))| match edges.len() {
            0 => t.clone(),
            all => edges[(n + 2 * k) % all].clone(),
        };
        let args: Vec<Tensor> = case.args.iter().zip(&edges).enumerate().map(at).collect();
        let zero = |t: &Tensor| (0..t.elements()).all(|i| t.at(i).is_zero());
        let floats = args.iter().filter(|t| t.dtype().is_float());
        let ([kernels, machine], want) = (called(&args)?, run(m, case.f, &args)?);
        let all = floats.into_iter().all(zero);
        for (i, rounds) in rounded(m, case.f).into_iter().enumerate() {
            let wrong = |e| format!("output {i}, {e}\nat {args:?}\n{}", program());
            if all || !rounds {
                Agreement::Exact.check(&kernels[i], &want[i]).map_err(wrong)?;
            }
            if all || !rounds || same == Agreement::Exact {
                Agreement::Exact.check(&machine[i], &kernels[i]).map_err(wrong)?;
            }
        }
    }
    Ok(())
}

/// Runs machine code into tensors that hold other numbers, and compares them with the results `want` in new memory. The
/// tensors must keep their memory.
fn in_given_memory(code: &Runnable, args: &[&Tensor], want: &[Tensor]) -> Result<(), Failure> {
    let other = |ty: &ArrayType| match ty.dtype {
        Dtype::Bool => Literal::bool(true),
        dtype => Literal::of(dtype, 77.0),
    };
    let filled = |y: &Tensor| tensor_of(y.ty(), |_| other(y.ty()));
    let mut given: Vec<Tensor> = want.iter().map(filled).collect();
    let memory: Vec<usize> = given.iter().map(Tensor::address).collect();
    code.call_into(args, &mut given.iter_mut().collect::<Vec<_>>(), None)?;
    if given != want {
        return Err(format!("{given:?} in given memory, {want:?} in new memory").into());
    }
    let kept = given.iter().map(Tensor::address).eq(memory);
    if kept { Ok(()) } else { Err("a result is not in the given memory".into()) }
}

fn exactly(m: &Module, case: &Case, target: Target) -> Result<(), Failure> {
    let executable = compile(m, case.f, &Options { target, ..Options::default() })?;
    let got = executable.call(&case.args.iter().collect::<Vec<_>>())?;
    Ok(Agreement::Exact.check_all(&got, &run(m, case.f, &case.args)?)?)
}
