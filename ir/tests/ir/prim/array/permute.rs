//! Tests of `permute`.

use crate::test_laws::{check_compose, check_samples, eval1, is_identity, problem};
use tapeloom_ir::prim::{ArrayPrimitive, Broadcast, Permute, Reshape};
use tapeloom_ir::{Kind, Tensor, Type};

fn op(permutation: &[usize]) -> Permute {
    Permute { permutation: permutation.to_vec() }
}

#[test]
fn reorders_axes() {
    let m = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let t = Tensor::from([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]);
    assert_eq!(eval1(op(&[1, 0]), &[m]), t);
    let x = Tensor::new(&[2, 1, 3], (0..6i64).collect()).unwrap();
    let y = Tensor::new(&[3, 2, 1], vec![0i64, 3, 1, 4, 2, 5]).unwrap();
    assert_eq!(eval1(op(&[2, 0, 1]), &[x]), y);
}

#[test]
fn laws() {
    check_samples(Permute::samples());
}

#[test]
fn refuses_lists_that_are_no_permutation() {
    let x = [Type::array(tapeloom_ir::Dtype::F64, &[2, 3])];
    for bad in [op(&[0]), op(&[0, 0]), op(&[0, 2]), op(&[0, usize::MAX])] {
        assert_eq!(problem(bad, &x).kind, Kind::Shape);
    }
}

#[test]
fn rewrites_are_equalities() {
    let x = Tensor::new(&[2, 1, 3], (0..6i64).collect()).unwrap();
    assert!(is_identity("permute-nothing", op(&[0, 1, 2]), &x));
    assert!(!is_identity("permute-nothing", op(&[1, 0, 2]), &x));
    check_compose("permute-permute", op(&[1, 2, 0]), op(&[2, 1, 0]), &x);
    check_compose("permute-permute", op(&[1, 2, 0]), op(&[2, 0, 1]), &x);
    let m = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let spread = Broadcast { shape: [2, 4, 3].into(), dims: vec![0, 2] };
    check_compose("permute-broadcast", op(&[1, 2, 0]), spread.clone(), &m);
    check_compose("permute-broadcast", op(&[0, 2, 1]), spread, &m);
    let wide = Reshape { shape: [1, 2, 1, 3].into() };
    check_compose("permute-reshape", op(&[1, 0, 3, 2]), wide, &m);
    check_compose("reshape-permute", Reshape { shape: [6].into() }, op(&[1, 0, 2]), &x);
}
