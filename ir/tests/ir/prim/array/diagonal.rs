//! Tests of `diagonal`.

use crate::test_laws::{check_compose, check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, Diagonal, Permute};
use tapeloom_ir::{Dtype, Kind, Tensor, Type};

fn op(i: usize, j: usize) -> Diagonal {
    Diagonal { axes: vec![i, j] }
}

#[test]
fn reads_where_indices_are_equal() {
    let m = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    assert_eq!(eval1(op(0, 1), &[m]), Tensor::from([1.0, 5.0]));
    let cube = Tensor::from([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]);
    assert_eq!(eval1(op(0, 2), std::slice::from_ref(&cube)), Tensor::from([[1, 3], [6, 8]]));
    assert_eq!(eval1(op(0, 1), &[cube]), Tensor::from([[1, 2], [7, 8]]));
}

#[test]
fn laws() {
    check_samples(Diagonal::samples());
}

#[test]
fn refuses_axes_that_do_not_exist() {
    let x = [Type::array(Dtype::F64, &[2, 3])];
    for axes in [vec![], vec![0], vec![0, 0], vec![1, 0], vec![0, 2], vec![0, 1, 2]] {
        assert_eq!(problem(Diagonal { axes }, &x).kind, Kind::Shape);
    }
}

#[test]
fn rewrites_are_equalities() {
    let m = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    check_compose("diagonal-permute", op(0, 1), Permute { permutation: vec![1, 0] }, &m);
}
