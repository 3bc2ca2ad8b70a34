//! Laws of the schedule: what a function's kernels compute is what the function means.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use super::schedule;
use crate::kernel;
use tapeloom_ir::{Atom, Builder, Draft, FuncId, Literal, Module, Op, Tensor, Type, eval};

/// A function made by `build` from parameters of these types.
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
        && (0..want.elements()).all(|i| {
            let (g, w) = (got.get(i), want.get(i));
            let (a, b) = (g.to_f64(), w.to_f64());
            g == w
                || (a.is_nan() && b.is_nan())
                || a == b
                || (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1e-300)
        })
}

/// Schedules, verifies, runs and compares with the interpreter of the language.
#[track_caller]
fn check(module: &Module, f: FuncId, args: &[Tensor], tolerance: f64) {
    let program = schedule(module, f).unwrap();
    let errors = kernel::verify(&program);
    assert!(errors.is_empty(), "{errors:?}\n{program}");
    let want = eval(module, f, args).unwrap();
    let got = kernel::eval(&program, args).unwrap();
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        assert!(close(g, w, tolerance), "result {i}: got {g}, want {w}\n{program}");
    }
}

#[test]
fn every_sample_of_every_primitive() {
    let mut module = Module::new();
    for sample in Op::samples(&mut module) {
        let types: Vec<Type> =
            sample.operands.iter().map(|t| Type::Array(t.ty().clone())).collect();
        // Scalars may stand for literals.
        let literal = |t: &Tensor| t.shape().is_empty().then(|| t.get(0));
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
            check(&module, f, &args, 1e-12);
        }
    }
}

#[test]
fn literals_parameters_and_nothing_as_results() {
    let mut module = Module::new();
    let vector = Type::array(tapeloom_ir::Dtype::F64, &[3]);
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
