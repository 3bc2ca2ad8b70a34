//! Tests of lowering: the kernels of a function must compute the results of the interpreter of the language.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use super::lower_to_loops;
use crate::loop_ir::{self};
use crate::passes::{self, AS_WRITTEN, Context};
use crate::sweeps::Sweep;
use tapeloom_ir::prim::{Attr, Attributes};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Draft, Dtype, FuncId, Kind, Literal, Module, Op, Tensor, Type, eval,
};

/// Builds a function with parameters of these types.
fn function(
    module: &mut Module,
    params: &[Type],
    build: impl FnOnce(&Builder<'_>, &[Atom]) -> Vec<Atom>,
) -> FuncId {
    let mut draft = Draft::new("f");
    let x: Vec<Atom> = params.iter().map(|t| draft.param(t.clone())).collect();
    let results = build(&Builder::new(module, &mut draft), &x);
    draft.finish(module, results).unwrap()
}

fn close(got: &Tensor, want: &Tensor, tolerance: f64) -> bool {
    got.ty() == want.ty()
        && got.literals().zip(want.literals()).all(|(g, w)| {
            let (a, b) = (g.to_f64(), w.to_f64());
            g == w
                || (a.is_nan() && b.is_nan())
                || a == b
                || (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1e-300)
        })
}

#[track_caller]
fn check(module: &Module, f: FuncId, args: &[Tensor], tolerance: f64) {
    check_all(module, f, &[args], tolerance);
}

/// Lowers and verifies a function, runs it on each list of arguments in `all` (interpreted, with tagged memory, and as
/// machine code) and compares the results with the interpreter of the language.
#[track_caller]
pub(super) fn check_all(module: &Module, f: FuncId, all: &[&[Tensor]], tolerance: f64) {
    let mut program = lower_to_loops(module, f).unwrap();
    passes::apply("vectorize", &mut program).unwrap();
    let errors = loop_ir::verify(&program);
    assert!(errors.is_empty(), "{errors:?}\n{program}");
    let mut compiled = program.clone();
    AS_WRITTEN.run(&mut compiled, &mut Context::default()).unwrap();
    let errors = loop_ir::verify(&compiled);
    assert!(errors.is_empty(), "{errors:?}\n{program}\n{compiled}");
    let machine = crate::Executable::new(&compiled).unwrap();
    let options = crate::Options { limited: true, ..Default::default() };
    let limited = crate::compile(module, f, &options).unwrap();
    for args in all {
        let want = eval(module, f, args).unwrap();
        let got = loop_ir::shadow(&program, args).unwrap_or_else(|e| panic!("{e}\n{program}"));
        assert_eq!(got.len(), want.len());
        // The interpreter must run the compiled program, too, because it has fewer lanes than `program`, and so adds
        // floats in another order.
        let few = loop_ir::eval(&compiled, args).unwrap();
        let native = machine.call(&args.iter().collect::<Vec<_>>()).unwrap();
        let counted = limited.call(&args.iter().collect::<Vec<_>>()).unwrap();
        for (i, w) in want.iter().enumerate() {
            let (g, k, n) = (&got[i], &few[i], &native[i]);
            assert!(close(g, w, tolerance), "result {i}: got {g}, want {w}\n{program}");
            let tolerance = if program.contracts() { tolerance } else { 0.0 };
            assert!(close(n, k, tolerance), "result {i}: native {n}, kernels {k}\n{compiled}");
            let (c, limited) = (&counted[i], &limited.report().program);
            assert!(close(c, g, tolerance), "result {i}: counting {c}, kernels {g}\n{limited}");
        }
    }
}

#[test]
fn every_sample_of_every_primitive() {
    let mut module = Module::new();
    for sample in Op::samples(&mut module) {
        let types: Vec<Type> =
            sample.operands.iter().map(|t| Type::Array(t.ty().clone())).collect();
        // Scalar operands of samples are passed as parameters in one run, and as literals in the other.
        let literal = |t: &Tensor| t.shape().is_empty().then(|| t.literals().next().unwrap());
        let build = |module: &mut Module, literals: bool| {
            let mut draft = Draft::new("sample");
            let mut args = Vec::new();
            let x: Vec<Atom> = sample
                .operands
                .iter()
                .zip(&types)
                .map(|(t, ty)| match literal(t).filter(|_| literals) {
                    Some(l) => l.into(),
                    None => {
                        args.push(t.clone());
                        draft.param(ty.clone())
                    }
                })
                .collect();
            let y = Builder::new(module, &mut draft).emit(sample.op.clone(), &x);
            draft.finish(module, y.to_vec()).map(|f| (f, args))
        };
        for literals in [false, true] {
            let Ok((f, args)) = build(&mut module, literals) else { continue };
            // Samples with loops or branches that the target cannot compile are skipped.
            if !lower_to_loops(&module, f).is_err_and(|p| p.kind == Kind::Target) {
                check(&module, f, &args, 1e-12);
            }
        }
    }
}

/// A value that is recomputed through two views is computed twice, and its recomputed operands are computed twice, too.
/// Without a limit, a sum by doubling or a stencil would have as many terms as there are paths to its operands. The
/// test expects loops that grow only with the text of the program.
#[test]
fn views_of_large_arrays_do_not_multiply_recomputation() {
    let lines = |levels: usize| {
        let mut text = String::from("func @f(%0: f64[100000]) -> (f64[100000]) {\n");
        for n in 0..levels {
            let (x, y, z, s) = (2 * n, 2 * n + 1, 2 * n + 2, 1 << n);
            text += &format!(
                "  %{y}: f64[100000] = pad{{low=[{s}], high=[-{s}], interior=[0]}} %{x}, 0.0\n  \
                 %{z}: f64[100000] = add %{x}, %{y}\n"
            );
        }
        text += &format!("  return %{}\n}}", 2 * levels);
        let module = tapeloom_ir::parse_module(&text).unwrap();
        let f = module.iter().last().unwrap().0;
        lower_to_loops(&module, f).unwrap().to_string().lines().count()
    };
    let (few, many) = (lines(4), lines(12));
    assert!(many < 4 * few, "{few} {many}");
}

#[test]
fn literals_parameters_and_nothing_as_results() {
    let mut module = Module::new();
    let vector = Type::array(Dtype::F64, &[3]);
    let x = Tensor::from([1.0, 2.0, 3.0]);
    let f = function(&mut module, std::slice::from_ref(&vector), |_, x| {
        vec![x[0], Literal::f64(2.5).into(), x[0]]
    });
    check(&module, f, std::slice::from_ref(&x), 0.0);
    let f = function(&mut module, &[vector], |_, _| Vec::new());
    check(&module, f, &[x], 0.0);
    let empty = Tensor::new::<f64>(&[0, 3], Vec::new()).unwrap();
    let f = function(&mut module, &[Type::Array(empty.ty().clone())], |b, x| {
        vec![b.emit1(tapeloom_ir::Scalar::Neg, &[x[0]])]
    });
    check(&module, f, &[empty], 0.0);
}

/// A small random generator with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }

    fn tensor(&mut self, ty: &ArrayType) -> Tensor {
        let mut t = Tensor::zeros_of(ty).unwrap();
        for i in 0..t.elements() {
            // Multiples of 1/8 from -2 to 2, so that sums are exact in any order.
            let x = self.below(33) as f64 / 8.0 - 2.0;
            t.set_literal(i, Literal::of(ty.dtype, x)).unwrap();
        }
        t
    }
}

/// Extents of random programs: 1, small primes, and 12, which several of them divide.
const EXTENTS: [usize; 5] = [1, 2, 3, 5, 12];

/// Adds a random equation on the values so far.
fn random_equation(r: &mut Random, b: &Builder<'_>, values: &mut Vec<Atom>) {
    let shape_of = |a: Atom| b.shape_of(a).to_vec();
    let x = values[r.below(values.len())];
    let shape = shape_of(x);
    let rank = shape.len();
    let ints = |v: &[usize]| Attr::Ints(v.iter().map(|n| *n as i64).collect());
    let op = |name: &str, attributes: Vec<(&str, Attr)>| {
        let entries = attributes.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        Op::parse(name, &mut Attributes::new(entries)).unwrap().unwrap()
    };
    // This closure emits an index that is known only at run time and is sometimes out of range.
    let position = || b.emit1(op("convert", vec![("to", Attr::Dtype(Dtype::I64))]), &[values[0]]);
    let y = match r.below(14) {
        0 | 1 => {
            let same: Vec<Atom> =
                values.iter().copied().filter(|v| shape_of(*v) == shape).collect();
            let y = same[r.below(same.len())];
            let name = ["add", "mul", "sub", "max"][r.below(4)];
            let product = b.emit1(op(name, vec![]), &[x, y]);
            // Clamp the product: products of products would leave the range in which sums are exact.
            b.emit1(
                op("clamp", vec![]),
                &[Literal::f64(-4.0).into(), product, Literal::f64(4.0).into()],
            )
        }
        2 => b.emit1(op(["neg", "abs", "floor"][r.below(3)], vec![]), &[x]),
        3 if rank > 0 => {
            let axis = r.below(rank);
            let name = ["reduce_sum", "reduce_max"][r.below(2)];
            let y = b.emit1(op(name, vec![("axes", ints(&[axis]))]), &[x]);
            b.emit1(op("clamp", vec![]), &[Literal::f64(-4.0).into(), y, Literal::f64(4.0).into()])
        }
        4 if rank < 3 => {
            let at = r.below(rank + 1);
            let mut to = shape.clone();
            to.insert(at, EXTENTS[r.below(EXTENTS.len())]);
            let dims: Vec<usize> = (0..=rank).filter(|d| *d != at).collect();
            b.emit1(op("broadcast", vec![("shape", ints(&to)), ("dims", ints(&dims))]), &[x])
        }
        5 if rank > 1 => {
            let mut p: Vec<usize> = (0..rank).collect();
            p.swap(r.below(rank), r.below(rank));
            b.emit1(op("permute", vec![("permutation", ints(&p))]), &[x])
        }
        6 if rank > 0 => {
            let mut to = shape.clone();
            if r.below(2) == 0 && rank > 1 {
                let axis = r.below(rank - 1);
                to[axis] *= to.remove(axis + 1);
            } else {
                let axis = r.below(rank);
                let part = [2, 3][r.below(2)];
                if to[axis] % part != 0 || rank > 3 {
                    return;
                }
                to[axis] /= part;
                to.insert(axis + r.below(2), part);
            }
            b.emit1(op("reshape", vec![("shape", ints(&to))]), &[x])
        }
        7 if rank > 0 => {
            let start: Vec<usize> = shape.iter().map(|n| r.below(*n)).collect();
            let limit: Vec<usize> =
                shape.iter().zip(&start).map(|(n, s)| s + 1 + r.below(n - s)).collect();
            let strides: Vec<usize> = shape.iter().map(|_| 1 + r.below(2)).collect();
            b.emit1(
                op(
                    "slice",
                    vec![
                        ("start", ints(&start)),
                        ("limit", ints(&limit)),
                        ("strides", ints(&strides)),
                    ],
                ),
                &[x],
            )
        }
        8 if rank > 0 => b.emit1(op("rev", vec![("axes", ints(&[r.below(rank)]))]), &[x]),
        9 if rank > 0 => {
            let axis = r.below(rank);
            let fits = |v: &Atom| {
                let s = shape_of(*v);
                s.len() == rank && (0..rank).all(|a| a == axis || s[a] == shape[a])
            };
            let same: Vec<Atom> = values.iter().copied().filter(fits).collect();
            let y = same[r.below(same.len())];
            if shape[axis] + shape_of(y)[axis] > 24 {
                return;
            }
            b.emit1(op("concatenate", vec![("axis", Attr::Int(axis as i64))]), &[x, y])
        }
        10 if rank > 0 => {
            let signed = |r: &mut Random, from: i64, n: usize| -> Vec<i64> {
                shape.iter().map(|_| from + r.below(n) as i64).collect()
            };
            let (low, interior) = (signed(r, -1, 3), signed(r, 0, 2));
            let high: Vec<i64> = shape.iter().zip(&low).map(|_| r.below(2) as i64).collect();
            let pad = op(
                "pad",
                vec![
                    ("low", Attr::Ints(low)),
                    ("high", Attr::Ints(high)),
                    ("interior", Attr::Ints(interior)),
                ],
            );
            match b.try_emit(pad, &[x, Literal::f64(0.5).into()]) {
                Ok(y) if (1..500).contains(&shape_of(y[0]).iter().product::<usize>()) => y[0],
                _ => return,
            }
        }
        11 if rank > 0 => {
            let sizes: Vec<usize> = shape.iter().map(|n| 1 + r.below(*n)).collect();
            let starts: Vec<Atom> = shape.iter().map(|_| position()).collect();
            b.emit1(op("dynamic_slice", vec![("sizes", ints(&sizes))]), &[&[x], &*starts].concat())
        }
        12 if rank > 0 => {
            let small: Vec<Atom> = values
                .iter()
                .copied()
                .filter(|v| {
                    let s = shape_of(*v);
                    s.len() == rank && s.iter().zip(&shape).all(|(a, b)| a <= b)
                })
                .collect();
            let y = small[r.below(small.len())];
            let starts: Vec<Atom> = shape.iter().map(|_| position()).collect();
            b.emit1(op("dynamic_update_slice", vec![]), &[&[x, y], &*starts].concat())
        }
        13 if rank > 0 => {
            let axis = r.below(rank);
            let fits = |v: &Atom| shape_of(*v).contains(&shape[axis]);
            let same: Vec<Atom> = values.iter().copied().filter(fits).collect();
            let y = same[r.below(same.len())];
            let other = shape_of(y).iter().position(|n| *n == shape[axis]).unwrap();
            let dot = op(
                "dot",
                vec![
                    ("lhs_batch", ints(&[])),
                    ("rhs_batch", ints(&[])),
                    ("lhs_contract", ints(&[axis])),
                    ("rhs_contract", ints(&[other])),
                ],
            );
            let rank = rank + shape_of(y).len() - 2;
            if rank > 3 {
                return;
            }
            let y = b.emit1(dot, &[x, y]);
            b.emit1(op("clamp", vec![]), &[Literal::f64(-4.0).into(), y, Literal::f64(4.0).into()])
        }
        _ => return,
    };
    values.push(y);
}

#[test]
fn lowering_keeps_the_meaning_of_random_programs() {
    let mut module = Module::new();
    for seed in Sweep::Scheduled.seeds() {
        let mut r = Random(seed);
        let mut types = vec![ArrayType::new(Dtype::F64, [])];
        for _ in 0..2 {
            let rank = 1 + r.below(2);
            let shape: Vec<usize> = (0..rank).map(|_| EXTENTS[r.below(5)]).collect();
            types.push(ArrayType::new(Dtype::F64, shape));
        }
        let args: Vec<Tensor> = types.iter().map(|t| r.tensor(t)).collect();
        let params: Vec<Type> = types.into_iter().map(Type::Array).collect();
        let equations = 3 + r.below(25);
        let f = function(&mut module, &params, |b, x| {
            let mut values = x.to_vec();
            for _ in 0..equations {
                random_equation(&mut r, b, &mut values);
            }
            (0..1 + r.below(4))
                .map(|_| values[values.len() - 1 - r.below(values.len().min(6))])
                .collect()
        });
        check(&module, f, &args, 1e-12);
    }
}

#[test]
fn a_hundred_thousand_scalar_equations() {
    let mut module = Module::new();
    let scalar = Type::scalar(Dtype::F64);
    let f = function(&mut module, &[scalar], |b, x| {
        let mut y = x[0];
        for _ in 0..100_000 {
            y = b.emit1(tapeloom_ir::Scalar::Add, &[y, x[0]]);
        }
        vec![y]
    });
    check(&module, f, &[Tensor::scalar(1.0)], 0.0);
}

/// Each equation reads the previous one with its inner axis reversed. If this axis were unrolled in the loop over the
/// outer axis, the body would have ten thousand scalars, for which the register allocator takes many seconds. The test
/// expects fewer than 6,000 lines of loop IR.
#[test]
fn bodies_of_loops_are_not_unrolled_without_end() {
    for steps in [80, 400] {
        let mut lines = String::new();
        for i in 0..steps {
            let (x, y, z) = (2 * i, 2 * i + 1, 2 * i + 2);
            lines += &format!("  %{y}: f64[30,24] = rev{{axes=[1]}} %{x}\n");
            lines += &format!("  %{z}: f64[30,24] = max %{y}, %{x}\n");
        }
        let last = 2 * steps;
        let text =
            format!("func @f(%0: f64[30,24]) -> (f64[30,24]) {{\n{lines}  return %{last}\n}}\n");
        let module = tapeloom_ir::parse_module(&text).unwrap();
        let (f, _) = module.iter().next().unwrap();
        let statements = lower_to_loops(&module, f).unwrap().to_string().lines().count();
        assert!(statements < 3 * 2000, "{steps} steps became {statements} statements");
        let x: Vec<f64> = (0..30 * 24).map(|i| f64::from(i % 7) * 0.125).collect();
        check(&module, f, &[Tensor::new(&[30, 24], x).unwrap()], 1e-12);
    }
}

/// If a program needs more memory than the system has, planning or allocation must return an error, and the process
/// must not abort.
#[test]
fn more_memory_than_there_is() {
    let run = |extent: usize| {
        let text = format!(
            "func @f(%0: f64[]) -> (f64[]) {{
  %1: f64[{extent}] = broadcast{{shape=[{extent}], dims=[]}} %0
  %2: f64[{extent}] = iota{{shape=[{extent}], axis=0, dtype=f64}}
  %3: f64[{extent}] = sin %2
  %4: f64[{extent}] = exp %2
  %5: f64[] = reduce_sum{{axes=[0]}} %3
  %6: f64[] = reduce_sum{{axes=[0]}} %4
  %7: f64[] = mul %5, %6
  %8: f64[{extent}] = broadcast{{shape=[{extent}], dims=[]}} %7
  %9: f64[{extent}] = div %3, %8
  %10: f64[{extent}] = div %4, %9
  %11: f64[{extent}] = mul %10, %1
  %12: f64[] = reduce_sum{{axes=[0]}} %11
  return %12
}}"
        );
        let module = tapeloom_ir::parse_module(&text).unwrap();
        let f = module.iter().last().unwrap().0;
        for target in [crate::Target::host(), crate::Target::Interpreter] {
            let code = crate::compile(&module, f, &crate::Options { target, ..Default::default() });
            let problem = code.and_then(|code| code.call(&[&Tensor::scalar(1.0)])).unwrap_err();
            assert_eq!(problem.kind, Kind::TooLarge, "{problem}");
        }
    };
    run(1 << 58);
    run(1 << 59);
}

/// The time of lowering must not depend on extents. A dependence would show as a test that does not terminate.
#[test]
fn extents_are_not_counted() {
    let text = "func @f(%0: f64[1099511627776]) -> (f64[1649267441663]) {
  %1: f64[1649267441663] = pad{low=[-549755813888], high=[0], interior=[1]} %0, 0.5
  return %1
}";
    let module = tapeloom_ir::parse_module(text).unwrap();
    let program = lower_to_loops(&module, module.iter().last().unwrap().0).unwrap();
    assert_eq!(loop_ir::verify(&program), []);
}
