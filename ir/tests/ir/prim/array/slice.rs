//! Tests of `slice`.

use crate::test_laws::{check_compose, check_samples, eval1, is_identity, problem, transposed};
use tapeloom_ir::prim::{ArrayPrimitive, Broadcast, Slice};
use tapeloom_ir::{Kind, Tensor, Type};

fn op(start: &[usize], limit: &[usize], strides: &[usize]) -> Slice {
    Slice { start: start.to_vec(), limit: limit.to_vec(), strides: strides.to_vec() }
}

#[test]
fn takes_every_stride_th_element_of_a_box() {
    let v = Tensor::from([0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(eval1(op(&[1], &[5], &[2]), std::slice::from_ref(&v)), Tensor::from([1.0, 3.0]));
    assert_eq!(eval1(op(&[1], &[4], &[2]), std::slice::from_ref(&v)), Tensor::from([1.0, 3.0]));
    assert_eq!(eval1(op(&[4], &[5], &[9]), std::slice::from_ref(&v)), Tensor::from([4.0]));
    assert_eq!(eval1(op(&[2], &[2], &[1]), &[v]), Tensor::vector::<f64>(&[]));
    let m = Tensor::from([[1i32, 2, 3], [4, 5, 6]]);
    assert_eq!(eval1(op(&[0, 0], &[2, 3], &[1, 2]), &[m]), Tensor::from([[1i32, 3], [4, 6]]));
}

#[test]
fn laws() {
    check_samples(Slice::samples());
}

#[test]
fn reads_of_one_array_transpose_to_writes_in_place() {
    let x = Type::array(tapeloom_ir::Dtype::F64, &[1000]);
    let read = |i| Slice::dense(vec![i], vec![i + 1]).into();
    let (first, next) = (["pad"], ["slice", "add", "dynamic_update_slice"]);
    let want = [&first[..], &next, &next].concat();
    assert_eq!(transposed(vec![read(0), read(7), read(7)], &x), want);
    // A slice with stride 2 is not a contiguous box, so no update can write it.
    let apart = op(&[0], &[1000], &[2]);
    assert_eq!(transposed(vec![read(0), apart.into()], &x), ["pad", "pad", "add"]);
}

#[test]
fn refuses_bounds_outside_the_array() {
    let x = [Type::array(tapeloom_ir::Dtype::F64, &[3])];
    for bad in [
        op(&[2], &[1], &[1]),
        op(&[0], &[4], &[1]),
        op(&[0], &[3], &[0]),
        op(&[0], &[3], &[usize::MAX]),
        op(&[usize::MAX], &[usize::MAX], &[1]),
        op(&[], &[], &[]),
        op(&[0], &[3], &[1, 1]),
    ] {
        assert_eq!(problem(bad, &x).kind, Kind::Shape);
    }
    let endless = [Type::array(tapeloom_ir::Dtype::F64, &[0, usize::MAX])];
    let bad = op(&[0, 0], &[0, usize::MAX], &[1, 1]);
    assert_eq!(problem(bad, &endless).kind, Kind::Shape);
    assert_eq!(problem(op(&[], &[], &[]), &[]).kind, Kind::Arguments);
}

#[test]
fn rewrites_are_equalities() {
    let v = Tensor::from([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!(is_identity("slice-everything", op(&[0], &[7], &[1]), &v));
    assert!(!is_identity("slice-everything", op(&[0], &[6], &[1]), &v));
    check_compose("slice-slice", op(&[1], &[3], &[2]), op(&[1], &[7], &[2]), &v);
    check_compose("slice-slice", op(&[1], &[3], &[1]), op(&[2], &[7], &[2]), &v);
    check_compose("slice-slice", op(&[3], &[3], &[1]), op(&[2], &[7], &[2]), &v);
    let row = Tensor::from([[1.0, 2.0, 3.0]]);
    let stretch = Broadcast { shape: [4, 2, 3].into(), dims: vec![1, 2] };
    let cut = op(&[1, 1, 0], &[3, 2, 3], &[1, 1, 2]);
    check_compose("slice-broadcast", cut, stretch.clone(), &row);
    let none = op(&[1, 1, 0], &[3, 1, 3], &[1, 1, 2]);
    check_compose("slice-broadcast", none, stretch, &row);
}
