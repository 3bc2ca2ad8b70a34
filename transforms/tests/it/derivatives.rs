//! Tests of the transforms against derivatives by hand and against each other.
#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom_ir::lang::query::Residual;
use tapeloom_ir::prim::{Broadcast, Call, Reduce, Reducer};
use tapeloom_ir::{
    Atom, Builder, Draft, Dtype, FuncId, Module, Op, Scalar, Tensor, Type, eval, verify_module,
};
use tapeloom_transforms::{batch, by_name, jvp, linearize, transpose, vjp};

/// Applies a pass to a function.
fn after(pass: &str, m: &mut Module, f: FuncId) -> FuncId {
    by_name(pass).unwrap().apply(m, f).unwrap()
}

/// `f(x, y) = Σ (x y + x) / y`
fn quotient(module: &mut Module, n: usize) -> FuncId {
    let mut draft = Draft::new("f");
    let x = draft.param(Type::array(Dtype::F64, &[n]));
    let y = draft.param(Type::array(Dtype::F64, &[n]));
    let b = Builder::new(module, &mut draft);
    let product = b.emit1(Scalar::Mul, &[x, y]);
    let sum = b.emit1(Scalar::Add, &[product, x]);
    let ratio = b.emit1(Scalar::Div, &[sum, y]);
    let total = b.emit1(Reduce { reducer: Reducer::Sum, axes: vec![0] }, &[ratio]);
    draft.finish(module, vec![total]).unwrap()
}

fn run(module: &Module, f: FuncId, args: &[Tensor]) -> Vec<Vec<f64>> {
    assert_eq!(verify_module(module), []);
    eval(module, f, args).unwrap().iter().map(|t| t.to_vec::<f64>().unwrap()).collect()
}

fn close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{a} is not {b}");
    }
}

fn point() -> [Tensor; 2] {
    [Tensor::from([1.0, -2.0, 0.5]), Tensor::from([2.0, 4.0, -1.0])]
}

/// The derivative of `quotient` by x, 1 + 1/y, at the values of `point`.
const DX: [f64; 3] = [1.5, 1.25, 0.0];
/// The derivative of `quotient` by y, -x/y², at the values of `point`.
const DY: [f64; 3] = [-0.25, 0.125, -0.5];

#[test]
fn jvp_of_a_quotient() {
    let mut m = Module::new();
    let f = quotient(&mut m, 3);
    let of = jvp(&mut m, f, &[true, false]).unwrap();
    let [x, y] = point();
    let out = run(&m, of.function, &[x, y, Tensor::from([1.0, 10.0, 100.0])]);
    close(&out[1], &[DX[0] + 10.0 * DX[1] + 100.0 * DX[2]]);
}

#[test]
fn vjp_of_a_quotient() {
    let mut m = Module::new();
    let f = quotient(&mut m, 3);
    let of = vjp(&mut m, f, &[true, true]).unwrap();
    let [x, y] = point();
    let out = run(&m, of.function, &[x, y, Tensor::from(1.0)]);
    close(&out[1], &DX);
    close(&out[2], &DY);
}

#[test]
fn vjp_of_vjp() {
    // g(x, y) = df/dy = -x/y²; d(Σ ct g)/dy = 2 ct x/y³
    let mut m = Module::new();
    let f = quotient(&mut m, 3);
    let first = vjp(&mut m, f, &[false, true]).unwrap();
    let second = vjp(&mut m, first.function, &[true, true, false]).unwrap();
    let [x, y] = point();
    let ct = Tensor::from([1.0, 1.0, 1.0]);
    let zero = Tensor::from(0.0);
    let out = run(&m, second.function, &[x, y, Tensor::from(1.0), zero, ct]);
    close(&out[3], &[0.25, -0.0625, -1.0]);
}

#[test]
fn transposing_twice_gives_the_map_back() {
    let mut m = Module::new();
    let f = quotient(&mut m, 3);
    let of = linearize(&mut m, f, &[true, true]).unwrap();
    let back = transpose(&mut m, of.lin, &[true]).unwrap();
    let again = transpose(&mut m, back.function, &[true, true]).unwrap();
    let [x, y] = point();
    let x = [x, y];
    let residuals = Residual::pick(&of.residuals, &x, &eval(&m, of.fwd, &x).unwrap());
    let tangents = [Tensor::from([1.0, 2.0, 3.0]), Tensor::from([-1.0, 0.5, 2.0])];
    let args = [residuals, tangents.to_vec()].concat();
    close(&run(&m, again.function, &args)[0], &run(&m, of.lin, &args)[0]);
}

#[test]
fn derivatives_go_through_calls() {
    let mut m = Module::new();
    let f = quotient(&mut m, 3);
    let mut draft = Draft::new("outer");
    let x = draft.param(Type::array(Dtype::F64, &[3]));
    let y = draft.param(Type::array(Dtype::F64, &[3]));
    let b = Builder::new(&mut m, &mut draft);
    let v = b.emit1(Call::inline(f), &[x, y]);
    let v = b.emit1(Scalar::Mul, &[v, v]);
    let outer = draft.finish(&mut m, vec![v]).unwrap();
    let flat = after("inline", &mut m, outer);
    let [x, y] = point();
    let args = [x, y, Tensor::from(1.0)];
    let through = vjp(&mut m, outer, &[true, true]).unwrap();
    let direct = vjp(&mut m, flat, &[true, true]).unwrap();
    let a = run(&m, through.function, &args);
    let b = run(&m, direct.function, &args);
    // Both derivatives add cotangents in the same order, so they must agree in every bit.
    assert_eq!(a, b);
    let calls = |f: FuncId, m: &Module| {
        m.function(f).equations.iter().filter(|e| matches!(e.op, Op::Call(_))).count()
    };
    let forward = jvp(&mut m, outer, &[true, true]).unwrap();
    assert!(calls(forward.function, &m) > 0);
    let flat = after("inline", &mut m, forward.function);
    assert_eq!(calls(flat, &m), 0);
}

#[test]
fn batch_is_map() {
    let mut m = Module::new();
    let f = quotient(&mut m, 2);
    let of = batch(&mut m, f, 3, &[true, false]).unwrap();
    assert_eq!(of.batched_out, [true]);
    let rows = Tensor::from([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]]);
    let y = Tensor::from([2.0, -4.0]);
    let lifted = run(&m, of.function, &[rows, y.clone()]);
    let single: Vec<f64> = [[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]]
        .iter()
        .map(|row| run(&m, f, &[Tensor::from(*row), y.clone()])[0][0])
        .collect();
    close(&lifted[0], &single);
}

#[test]
fn constants_are_not_residuals() {
    // y = x * broadcast(2): the linear function computes the constant itself, so no residual is saved.
    let mut m = Module::new();
    let mut draft = Draft::new("scale");
    let x = draft.param(Type::array(Dtype::F64, &[4]));
    let b = Builder::new(&mut m, &mut draft);
    let two: Atom = tapeloom_ir::Literal::f64(2.0).into();
    let twos = b.emit1(Broadcast { shape: [4].into(), dims: vec![] }, &[two]);
    let y = b.emit1(Scalar::Mul, &[x, twos]);
    let f = draft.finish(&mut m, vec![y]).unwrap();
    let of = linearize(&mut m, f, &[true]).unwrap();
    assert_eq!(m.function(of.fwd).results.len(), 1);
}

#[test]
fn dead_and_equal_equations_go() {
    let mut m = Module::new();
    let mut draft = Draft::new("twice");
    let x = draft.param(Type::scalar(Dtype::F64));
    let b = Builder::new(&mut m, &mut draft);
    let a = b.emit1(Scalar::Mul, &[x, x]);
    let c = b.emit1(Scalar::Mul, &[x, x]);
    b.emit1(Scalar::Neg, &[a]);
    let y = b.emit1(Scalar::Add, &[a, c]);
    let f = draft.finish(&mut m, vec![y]).unwrap();
    let f = after("dce", &mut m, f);
    assert_eq!(m.function(f).equations.len(), 3);
    let f = after("cse", &mut m, f);
    assert_eq!(m.function(f).equations.len(), 2);
}
