//! Tests of `dot`.

use crate::elements::Elements;
use crate::test_laws::{check_samples, eval1};
use tapeloom_ir::prim::{ArrayPrimitive, Dot, Operand};
use tapeloom_ir::{Dtype, Tensor, Type};

fn matmul() -> Dot {
    Dot { batch: vec![], contract: vec![(1, 0)] }
}

/// Returns an array of shape `[K, M, N]` with elements between -1 and 1.5.
fn cube<const K: usize, const M: usize, const N: usize>() -> Tensor {
    let element = |i: usize| ((i * 7) % 11) as f64 * 0.25 - 1.0;
    let row = |i: usize| std::array::from_fn::<f64, N, _>(|j| element(N * i + j));
    let matrix = |i: usize| std::array::from_fn::<_, M, _>(|j| row(M * i + j));
    Tensor::from(std::array::from_fn::<_, K, _>(matrix))
}

#[test]
fn laws_hold() {
    check_samples(Dot::samples());
}

#[test]
fn matrix_product_by_hand() {
    let (x, y) = (Tensor::from([[1.0, 2.0], [3.0, 4.0]]), Tensor::from([[5.0], [6.0]]));
    assert_eq!(eval1(matmul(), &[x, y]), Tensor::from([[17.0], [39.0]]));
}

#[test]
fn axes_come_as_batch_left_right() {
    // With one batch axis b and one contracted axis k:
    // z[b, m, n] = Σ_k x[k, b, m] y[n, k, b].
    let op = Dot { batch: vec![(1, 2)], contract: vec![(0, 1)] };
    let (x, y) = (cube::<2, 3, 4>(), cube::<5, 2, 3>());
    let z = &eval1(op, &[x.clone(), y.clone()]);
    assert_eq!(z.shape(), [3, 4, 5]);
    let at = |t: &Tensor, i: usize| t.at(i).to_f64();
    for (b, m, n) in [(0, 0, 0), (1, 3, 2), (2, 1, 4)] {
        let want: f64 =
            (0..2).map(|k| at(&x, (k * 3 + b) * 4 + m) * at(&y, (n * 2 + k) * 3 + b)).sum();
        assert_eq!(at(z, (b * 4 + m) * 5 + n), want);
    }
}

#[test]
fn an_empty_sum_is_zero() {
    let x = Tensor::from([[0i64; 0]; 2]);
    let y = Tensor::from([[0i64; 1]; 0]);
    assert_eq!(eval1(matmul(), &[x, y]), Tensor::from([[0i64], [0]]));
}

#[test]
fn errors_name_a_remedy() {
    let infer = |op: &Dot, x: Type, y: Type| {
        let operands = [&x, &y].map(|ty| Operand { ty, literal: None });
        op.infer(&operands).unwrap_err().to_string()
    };
    let f64s = |shape: &[usize]| Type::array(Dtype::F64, shape);
    assert_eq!(
        infer(&matmul(), f64s(&[2, 3]), f64s(&[4, 5])),
        "[shape] `dot` of f64[2,3] and f64[4,5]: contracted axes 1 and 0 have extents 3 and 4 \
         (paired axes have equal extents; transpose an operand, or pair other axes)"
    );
    assert_eq!(
        infer(&matmul(), f64s(&[2]), f64s(&[2])),
        "[shape] `dot` names axes [1] of its left operand f64[2] (an axis is smaller than the \
         rank and is named once, as batch or as contracted)"
    );
    assert_eq!(
        infer(&matmul(), Type::array(Dtype::Bool, &[2, 2]), f64s(&[2, 2])),
        "[dtype] `dot` needs two arrays of numbers of one dtype, got bool[2,2] and f64[2,2] \
         (convert one of them)"
    );
}
