//! Tests of `iota`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, Iota};
use tapeloom_ir::{Dtype, Kind, Tensor};

#[test]
fn counts_along_its_axis() {
    let eval = |shape: &[usize], axis, dtype| eval1(Iota { shape: shape.into(), axis, dtype }, &[]);
    assert_eq!(eval(&[2, 3], 1, Dtype::I64), Tensor::from([[0i64, 1, 2], [0, 1, 2]]));
    assert_eq!(eval(&[2, 3], 0, Dtype::F64), Tensor::from([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]));
    assert_eq!(eval(&[0], 0, Dtype::U32), Tensor::vector::<u32>(&[]));
}

#[test]
fn laws() {
    check_samples(Iota::samples());
}

#[test]
fn refuses_dtypes_without_counting() {
    let kind =
        |shape: &[usize], axis, dtype| problem(Iota { shape: shape.into(), axis, dtype }, &[]).kind;
    assert_eq!(kind(&[2], 1, Dtype::I64), Kind::Shape);
    assert_eq!(kind(&[], 0, Dtype::I64), Kind::Shape);
    assert_eq!(kind(&[2], 0, Dtype::Bool), Kind::Dtype);
    assert_eq!(kind(&[0, 1 << 40], 1, Dtype::I32), Kind::Dtype);
    assert_eq!(kind(&[0, usize::MAX], 1, Dtype::F64), Kind::Dtype);
}
