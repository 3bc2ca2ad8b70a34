//! Tests of `recurrence`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, Recurrence};
use tapeloom_ir::{Dtype, Tensor, Type};

#[test]
fn laws_hold() {
    check_samples(Recurrence::samples());
}

#[test]
fn the_first_factor_is_never_read() {
    let (a, x) = (Tensor::from([f64::NAN, 2.0, 3.0]), Tensor::from([1.0, 1.0, 1.0]));
    let op = Recurrence { axis: 0, reverse: false };
    assert_eq!(eval1(op, &[a.clone(), x.clone()]), Tensor::from([1.0, 3.0, 10.0]));
    let a = Tensor::from([2.0, 3.0, f64::NAN]);
    let op = Recurrence { axis: 0, reverse: true };
    assert_eq!(eval1(op, &[a, x]), Tensor::from([9.0, 4.0, 1.0]));
}

#[test]
fn errors_name_a_remedy() {
    let op = Recurrence { axis: 1, reverse: false };
    let ty = |dtype, shape: &[usize]| Type::array(dtype, shape);
    let (x, y) = (ty(Dtype::F64, &[2]), ty(Dtype::F64, &[3]));
    let wrong = |x: &Type, y: &Type| problem(op.clone(), &[x.clone(), y.clone()]).to_string();
    assert!(wrong(&x, &y).contains("[shape] `recurrence` of f64[2] and f64[3]"));
    assert!(wrong(&x, &ty(Dtype::F32, &[2])).contains("[dtype] `recurrence` of f64[2] and f32[2]"));
    assert!(wrong(&x, &x).contains("`recurrence` along axis 1 of f64[2]"));
}
