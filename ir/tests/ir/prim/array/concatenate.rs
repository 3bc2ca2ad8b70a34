//! Tests of `concatenate`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, Concatenate};
use tapeloom_ir::{Kind, Tensor};

#[test]
fn puts_arrays_one_behind_the_other() {
    let along = |axis, x: &[Tensor]| eval1(Concatenate { axis }, x);
    let v = |x: &[f64]| Tensor::vector(x);
    let y = along(0, &[v(&[1.0]), v(&[]), v(&[2.0, 3.0]), v(&[4.0])]);
    assert_eq!(y, v(&[1.0, 2.0, 3.0, 4.0]));
    let m = Tensor::from([[1i32, 2], [3, 4]]);
    let column = Tensor::from([[5i32], [6]]);
    assert_eq!(along(1, &[m.clone(), column]), Tensor::from([[1i32, 2, 5], [3, 4, 6]]));
    assert_eq!(along(0, std::slice::from_ref(&m)), m);
}

#[test]
fn laws() {
    check_samples(Concatenate::samples());
}

#[test]
fn refuses_arrays_that_do_not_fit() {
    use tapeloom_ir::{
        Dtype::{F32, F64},
        Type,
    };
    let v = Type::array(F64, &[2]);
    let kind = |axis, x: &[Type]| problem(Concatenate { axis }, x).kind;
    assert_eq!(kind(0, &[]), Kind::Arguments);
    assert_eq!(kind(1, std::slice::from_ref(&v)), Kind::Shape);
    assert_eq!(kind(0, &[Type::scalar(F64)]), Kind::Shape);
    assert_eq!(kind(0, &[v.clone(), Type::array(F32, &[2])]), Kind::Dtype);
    assert_eq!(kind(0, &[v.clone(), Type::array(F64, &[2, 1])]), Kind::Shape);
    let m = |n, k| Type::array(F64, &[n, k]);
    assert_eq!(kind(1, &[m(2, 3), m(1, 3)]), Kind::Shape);
    assert_eq!(kind(0, &[m(usize::MAX, 0), m(usize::MAX, 0)]), Kind::TooLarge);
}
