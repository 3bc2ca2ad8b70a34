//! Tests of `dynamic_slice`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, DynamicSlice};
use tapeloom_ir::{Dtype, Kind, Tensor, Type};

#[test]
fn reads_a_box_that_is_moved_inside() {
    let v = || Tensor::from([0.0, 1.0, 2.0, 3.0]);
    let at = |size, start: Tensor| eval1(DynamicSlice { sizes: vec![size] }, &[v(), start]);
    assert_eq!(at(2, Tensor::scalar(1i64)), Tensor::from([1.0, 2.0]));
    assert_eq!(at(2, Tensor::scalar(9i64)), Tensor::from([2.0, 3.0]));
    assert_eq!(at(2, Tensor::scalar(-1i32)), Tensor::from([0.0, 1.0]));
    assert_eq!(at(1, Tensor::scalar(u64::MAX)), Tensor::from([3.0]));
    assert_eq!(at(0, Tensor::scalar(4i64)), Tensor::vector::<f64>(&[]));
    let m = Tensor::from([[1i32, 2, 3], [4, 5, 6]]);
    let y =
        eval1(DynamicSlice { sizes: vec![1, 2] }, &[m, Tensor::scalar(1i64), Tensor::scalar(1u32)]);
    assert_eq!(y, Tensor::from([[5i32, 6]]));
}

#[test]
fn laws() {
    check_samples(DynamicSlice::samples());
}

#[test]
fn refuses_boxes_and_starts_that_do_not_fit() {
    let (x, i) = (Type::array(Dtype::F64, &[3]), Type::scalar(Dtype::I64));
    let kind = |sizes: &[usize], operands: &[Type]| {
        problem(DynamicSlice { sizes: sizes.to_vec() }, operands).kind
    };
    assert_eq!(kind(&[4], &[x.clone(), i.clone()]), Kind::Shape);
    assert_eq!(kind(&[1, 1], &[x.clone(), i.clone()]), Kind::Shape);
    assert_eq!(kind(&[1], std::slice::from_ref(&x)), Kind::Arguments);
    assert_eq!(kind(&[1], &[x.clone(), Type::scalar(Dtype::F64)]), Kind::Dtype);
    assert_eq!(kind(&[1], &[x, Type::array(Dtype::I64, &[1])]), Kind::Dtype);
    assert_eq!(kind(&[], &[]), Kind::Arguments);
}
