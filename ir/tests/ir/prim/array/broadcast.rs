//! Tests of `broadcast`.

use crate::test_laws::{check_compose, compose, eval1, is_identity, problem};
use tapeloom_ir::Dtype::F64;
use tapeloom_ir::prim::{Broadcast, Reshape};
use tapeloom_ir::{Kind, Tensor, Type};

fn op(shape: &[usize], dims: &[usize]) -> Broadcast {
    Broadcast { shape: shape.into(), dims: dims.to_vec() }
}

#[test]
fn repeats_along_new_and_stretched_axes() {
    let v = Tensor::from([1.0, 2.0]);
    let eval = |op: Broadcast| eval1(op, std::slice::from_ref(&v));
    assert_eq!(eval(op(&[3, 2], &[1])), Tensor::from([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]));
    assert_eq!(eval(op(&[2, 2], &[0])), Tensor::from([[1.0, 1.0], [2.0, 2.0]]));
    let column = Tensor::from([[1i32], [2]]);
    assert_eq!(eval1(op(&[2, 2], &[0, 1]), &[column]), Tensor::from([[1i32, 1], [2, 2]]));
    assert_eq!(eval1(op(&[0], &[]), &[Tensor::from(1.0)]), Tensor::vector::<f64>(&[]));
}

#[test]
fn refuses_places_that_do_not_fit() {
    let x = [Type::array(F64, &[2, 3])];
    for bad in [
        op(&[2, 3], &[0]),
        op(&[2, 3], &[1, 0]),
        op(&[3, 3], &[0, 1]),
        op(&[2, 3], &[0, 2]),
        op(&[2, 3], &[0, usize::MAX]),
    ] {
        assert_eq!(problem(bad, &x).kind, Kind::Shape);
    }
}

#[test]
fn rewrites_are_equalities() {
    let m = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    assert!(is_identity("broadcast-nothing", op(&[2, 3], &[0, 1]), &m));
    let wide = op(&[2, 1, 3], &[0, 2]);
    check_compose("broadcast-broadcast", op(&[2, 4, 3], &[0, 1, 2]), wide, &m);
    let wide = Reshape { shape: [1, 2, 1, 3].into() };
    check_compose("broadcast-reshape", op(&[5, 2, 4, 3], &[0, 1, 2, 3]), wide, &m);
    // A reshape that only inserts axes of extent 1 is a broadcast.
    let inserted_ones = |from: &[usize], to: &[usize]| {
        let reshape = Reshape { shape: to.into() };
        let all: Vec<usize> = (0..to.len()).collect();
        compose("broadcast-reshape", op(to, &all), reshape, &Type::array(F64, from))
    };
    assert_eq!(
        inserted_ones(&[2, 3], &[2, 1, 3, 1]),
        Some(vec![op(&[2, 1, 3, 1], &[0, 2]).into()])
    );
    assert_eq!(inserted_ones(&[1, 3], &[1, 1, 3]), Some(vec![op(&[1, 1, 3], &[0, 2]).into()]));
    assert_eq!(inserted_ones(&[2, 3], &[3, 2]), None);
    assert_eq!(inserted_ones(&[2, 1], &[2]), None);
}
