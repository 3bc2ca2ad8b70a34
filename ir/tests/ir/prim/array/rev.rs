//! Tests of `rev`.

use crate::test_laws::{check_compose, check_samples, eval1, is_identity, problem};
use tapeloom_ir::prim::{ArrayPrimitive, Rev};
use tapeloom_ir::{Kind, Tensor, Type};

fn op(axes: &[usize]) -> Rev {
    Rev { axes: axes.to_vec() }
}

#[test]
fn reverses_axes() {
    let m = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let eval = |op: Rev| eval1(op, std::slice::from_ref(&m));
    assert_eq!(eval(op(&[1])), Tensor::from([[3.0, 2.0, 1.0], [6.0, 5.0, 4.0]]));
    assert_eq!(eval(op(&[0, 1])), Tensor::from([[6.0, 5.0, 4.0], [3.0, 2.0, 1.0]]));
    assert_eq!(eval(op(&[])), m);
}

#[test]
fn laws() {
    check_samples(Rev::samples());
}

#[test]
fn refuses_axes_that_do_not_exist() {
    let x = [Type::array(tapeloom_ir::Dtype::F64, &[2, 3])];
    for bad in [op(&[2]), op(&[1, 0]), op(&[0, 0])] {
        assert_eq!(problem(bad, &x).kind, Kind::Shape);
    }
}

#[test]
fn rewrites_are_equalities() {
    let m = Tensor::from([[1.0, 2.0, 3.0]]);
    assert!(is_identity("rev-nothing", op(&[0]), &m));
    assert!(!is_identity("rev-nothing", op(&[1]), &m));
    check_compose("rev-rev", op(&[0, 1]), op(&[1]), &m);
    check_compose("rev-rev", op(&[1]), op(&[1]), &m);
    let spread = tapeloom_ir::prim::Broadcast { shape: [2, 2, 3].into(), dims: vec![1, 2] };
    check_compose("rev-broadcast", op(&[0, 1]), spread.clone(), &m);
    check_compose("rev-broadcast", op(&[0, 2]), spread, &m);
}
