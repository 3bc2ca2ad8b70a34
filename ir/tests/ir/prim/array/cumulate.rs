//! Tests of `cumulate`.

use crate::elements::Elements;
use crate::test_laws::{check_samples, eval1, problem, tangent};
use tapeloom_ir::prim::{ArrayPrimitive, Cumulate, Cumulation, Recurrence};
use tapeloom_ir::{Dtype, Literal, Tensor, Type};

#[test]
fn laws_hold() {
    check_samples(Cumulate::samples());
}

fn op(cumulation: Cumulation, reverse: bool) -> Cumulate {
    Cumulate { cumulation, axis: 0, reverse }
}

#[test]
fn folds_begin_at_either_end() {
    let x = [Tensor::from([1i64, 2, 3, 4])];
    let of = |c, reverse| eval1(op(c, reverse), &x);
    assert_eq!(of(Cumulation::Sum, false), Tensor::from([1i64, 3, 6, 10]));
    assert_eq!(of(Cumulation::Sum, true), Tensor::from([10i64, 9, 7, 4]));
    assert_eq!(of(Cumulation::Prod, true), Tensor::from([24i64, 24, 12, 4]));
    let x = [Tensor::from([1.0, 3.0, f64::NAN, 4.0])];
    assert_eq!(eval1(op(Cumulation::Max, false), &x).at(1), Literal::f64(3.0));
    assert!(eval1(op(Cumulation::Max, false), &x).at(3).to_f64().is_nan());
}

/// Equal maxima must share the tangent of a result evenly, as in `reduce_max`: at index 3, three elements get a third
/// each.
#[test]
fn ties_share_evenly() {
    let x = [Tensor::from([2.0, 1.0, 2.0, 2.0, 3.0])];
    let along = |i: usize| {
        let mut dx = Tensor::from([0.0; 5]);
        dx.put(i, Literal::f64(6.0));
        tangent(op(Cumulation::Max, false), &x, &[Some(dx)])
    };
    assert_eq!(along(0), Tensor::from([6.0, 6.0, 3.0, 2.0, 0.0]));
    assert_eq!(along(1), Tensor::from([0.0, 0.0, 0.0, 0.0, 0.0]));
    assert_eq!(along(3), Tensor::from([0.0, 0.0, 0.0, 2.0, 0.0]));
}

/// An infinite tangent must reach only the results whose extremum is the element with this tangent; at other results,
/// the tangent times a factor of 0 would be nan.
#[test]
fn infinite_tangents_stay_where_they_are() {
    let x = [Tensor::from([-1.0, 0.0, 2.0])];
    let dx = Tensor::from([1.0, f64::INFINITY, 0.25]);
    let op = op(Cumulation::Max, false);
    assert_eq!(tangent(op.clone(), &x, &[Some(dx.clone())]), dx);
    let back = Recurrence { axis: 0, reverse: true };
    let none = Tensor::from([false; 3]);
    assert_eq!(eval1(back, &[none, dx.clone()]), dx);
}

#[test]
fn errors_name_a_remedy() {
    let wrong = |c, dtype| problem(op(c, false), &[Type::array(dtype, &[])]).to_string();
    let message = wrong(Cumulation::Sum, Dtype::F64);
    assert!(message.contains("`cumsum` along axis 0 of f64[]"), "{message}");
    let message = wrong(Cumulation::Prod, Dtype::Bool);
    assert!(message.contains("`cumprod` is not defined for bool[]"), "{message}");
}
