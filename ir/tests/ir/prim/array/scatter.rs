//! Tests of `scatter`.

use crate::test_laws::{check_samples, cotangents, eval1, tangent};
use tapeloom_ir::prim::{ArrayPrimitive, Bounds, Combine, Operand, Scatter};
use tapeloom_ir::{Dtype, Tensor, Type};

fn op(combine: Combine) -> Scatter {
    Scatter { combine, batch: 0, axes: vec![0], bounds: Bounds::Drop }
}

/// Four updates of three elements: the first and the last share index 1, and one has an index out of range.
fn operands(u: [f64; 4]) -> Vec<Tensor> {
    let places = Tensor::from([[1i64], [0], [5], [1]]);
    vec![Tensor::from([10.0, 20.0, 30.0]), places, Tensor::from(u)]
}

#[test]
fn laws_hold() {
    check_samples(Scatter::samples());
}

#[test]
fn values_by_hand() {
    let x = operands([2.0, 3.0, 99.0, 25.0]);
    let cases = [
        (Combine::Set, [3.0, 25.0, 30.0]),
        (Combine::Add, [13.0, 47.0, 30.0]),
        (Combine::Mul, [30.0, 1000.0, 30.0]),
        (Combine::Max, [10.0, 25.0, 30.0]),
        (Combine::Min, [3.0, 2.0, 30.0]),
    ];
    for (combine, want) in cases {
        assert_eq!(eval1(op(combine), &x), Tensor::from(want), "{combine:?}");
    }
}

#[test]
fn an_overwritten_update_has_no_cotangent() {
    let x = operands([2.0, 3.0, 99.0, 25.0]);
    let ct = Tensor::from([1.0, 2.0, 4.0]);
    let back = cotangents(op(Combine::Set), &x, &[true, false, true], &ct);
    assert_eq!(back[0], Tensor::from([0.0, 0.0, 4.0]));
    assert_eq!(back[1], Tensor::from([0.0, 1.0, 0.0, 2.0]));
}

#[test]
fn a_product_with_zeros_has_its_derivative() {
    let tangent = |u: [f64; 4]| {
        let du = Some(Tensor::from([1.0, 10.0, 100.0, 1000.0]));
        tangent(op(Combine::Mul), &operands(u), &[None, None, du])
    };
    // With the updates u and their tangents du, the tangent is 20 (du0 u3 + u0 du3) at index 1, and 10 du1
    // at index 0.
    assert_eq!(tangent([2.0, 0.0, 0.0, 3.0]), Tensor::from([100.0, 40060.0, 0.0]));
    assert_eq!(tangent([0.0, 3.0, 1.0, 3.0]), Tensor::from([100.0, 60.0, 0.0]));
    assert_eq!(tangent([0.0, 3.0, 1.0, 0.0]), Tensor::from([100.0, 0.0, 0.0]));
}

#[test]
fn ties_of_an_extremum_share() {
    let x = operands([20.0, 3.0, 0.0, 20.0]);
    let dx = Some(Tensor::from([1.0, 3.0, 5.0]));
    let du = Some(Tensor::from([6.0, 8.0, 9.0, 12.0]));
    let dy = tangent(op(Combine::Max), &x, &[dx, None, du]);
    assert_eq!(dy, Tensor::from([1.0, 7.0, 5.0]));
}

#[test]
fn errors_name_a_remedy() {
    let infer = |combine: Combine, x: Type, u: Type| {
        let indices = Type::array(Dtype::I64, &[2, 1]);
        let operands = [&x, &indices, &u].map(|ty| Operand { ty, literal: None });
        op(combine).infer(&operands).unwrap_err().to_string()
    };
    assert_eq!(
        infer(Combine::Set, Type::array(Dtype::F64, &[3]), Type::array(Dtype::F64, &[3])),
        "[shape] `scatter_set` into f64[3] at i64[2,1] needs updates f64[2], got f64[3] (updates \
         have the shape of the result of a gather at the same indices)"
    );
    assert_eq!(
        infer(Combine::Max, Type::array(Dtype::F64, &[3]), Type::array(Dtype::F32, &[2])),
        "[dtype] `scatter_max` into f64[3] needs updates of f64, got f32[2] (convert the \
         updates)"
    );
    assert_eq!(
        infer(Combine::Add, Type::array(Dtype::Bool, &[3]), Type::array(Dtype::Bool, &[2])),
        "[dtype] `scatter_add` is not defined for bool[3] (convert the array to numbers, or take \
         `max` for or, `min` for and)"
    );
}
