//! Tests of `reshape`.

use crate::test_laws::{check_compose, eval1, is_identity, problem};
use tapeloom_ir::Dtype::F64;
use tapeloom_ir::prim::{Broadcast, Reshape};
use tapeloom_ir::{Kind, Tensor, Type};

fn op(shape: &[usize]) -> Reshape {
    Reshape { shape: shape.into() }
}

#[test]
fn keeps_the_row_major_order() {
    let m = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let y = Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    assert_eq!(eval1(op(&[3, 2]), &[m]), y);
}

#[test]
fn refuses_another_number_of_elements() {
    let kind = |from: &[usize], to: &[usize]| problem(op(to), &[Type::array(F64, from)]).kind;
    assert_eq!(kind(&[2, 3], &[5]), Kind::Shape);
    assert_eq!(kind(&[0], &[]), Kind::Shape);
    let huge = usize::MAX;
    assert_eq!(kind(&[huge, huge], &[huge, 2]), Kind::Shape);
}

#[test]
fn rewrites_are_equalities() {
    let m = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    assert!(is_identity("reshape-nothing", op(&[2, 3]), &m));
    check_compose("reshape-reshape", op(&[3, 2]), op(&[6]), &m);
    let wide = Broadcast { shape: [1, 2, 1, 3].into(), dims: vec![1, 3] };
    check_compose("reshape-broadcast", op(&[6]), wide, &m);
}
