//! Tests of `gather`.

use crate::elements::Elements;
use crate::test_laws::{check_samples, cotangents, eval1};
use tapeloom_ir::prim::{ArrayPrimitive, Bounds, Gather, Operand};
use tapeloom_ir::{Dtype, Literal, Tensor, Type};

#[test]
fn laws_hold() {
    check_samples(Gather::samples());
}

#[test]
fn bounds_clip_or_drop() {
    let x = Tensor::from([1.0, 2.0, 3.0]);
    let places = Tensor::from([[-1i64], [1], [3]]);
    let read =
        |bounds| eval1(Gather { batch: 0, axes: vec![0], bounds }, &[x.clone(), places.clone()]);
    assert_eq!(read(Bounds::Clip), Tensor::from([1.0, 2.0, 3.0]));
    assert_eq!(read(Bounds::Drop), Tensor::from([0.0, 2.0, 0.0]));
}

#[test]
fn remaining_axes_follow_the_places() {
    let mut x = Tensor::from([[[0i64; 4]; 3]; 2]);
    for i in 0..x.elements() {
        x.put(i, Literal::i64(i as i64));
    }
    // Axes 0 and 2 are indexed, axis 1 remains: y[i, d] = x[p[i], d, q[i]].
    let op = Gather { batch: 0, axes: vec![0, 2], bounds: Bounds::Clip };
    let places = Tensor::from([[1i64, 3], [0, 2]]);
    assert_eq!(eval1(op, &[x, places]), Tensor::from([[15i64, 19, 23], [2, 6, 10]]));
}

#[test]
fn the_transpose_adds_repeated_reads() {
    let op = Gather { batch: 0, axes: vec![0], bounds: Bounds::Drop };
    let x = [Tensor::from([0.0, 0.0, 0.0]), Tensor::from([[1i64], [1], [5]])];
    let ct = Tensor::from([2.0, 3.0, 4.0]);
    let back = cotangents(op, &x, &[true, false], &ct);
    assert_eq!(back, [Tensor::from([0.0, 5.0, 0.0])]);
}

#[test]
fn errors_name_a_remedy() {
    let infer = |op: Gather, x: &[usize], dtype: Dtype, indices: &[usize]| {
        let (x, indices) = (Type::array(Dtype::F64, x), Type::array(dtype, indices));
        let operands = [&x, &indices].map(|ty| Operand { ty, literal: None });
        op.infer(&operands).unwrap_err().to_string()
    };
    let op = |batch, axes: &[usize]| Gather { batch, axes: axes.to_vec(), bounds: Bounds::Clip };
    let cases = [
        (infer(op(0, &[0]), &[3], Dtype::F64, &[2, 1]), "needs integer indices, got f64[2,1]"),
        (infer(op(0, &[1]), &[3], Dtype::I64, &[2, 1]), "indexes axes [1] of f64[3]"),
        (infer(op(1, &[0]), &[3], Dtype::I64, &[2, 1]), "after 1 batch axes"),
        (infer(op(0, &[0]), &[3], Dtype::I64, &[2]), "cannot use indices i64[2]"),
        (infer(op(0, &[0]), &[3], Dtype::I64, &[]), "cannot use indices i64[]"),
        (infer(op(1, &[1]), &[3, 2], Dtype::I64, &[4, 1]), "the 1 batch axes differ"),
        (infer(op(3, &[]), &[3], Dtype::I64, &[3, 1, 1, 0]), "the 3 batch axes differ"),
        (infer(op(0, &[0]), &[0], Dtype::I64, &[1, 1]), "has no element to clip to"),
    ];
    for (message, want) in cases {
        assert!(message.contains(want), "{message}");
    }
}
