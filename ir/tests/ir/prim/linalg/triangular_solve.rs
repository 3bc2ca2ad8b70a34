//! Tests of `triangular_solve`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, TriangularSolve};
use tapeloom_ir::{Dtype, Tensor, Type};

#[test]
fn laws_hold() {
    check_samples(TriangularSolve::samples());
}

#[test]
fn the_other_triangle_is_not_read() {
    let (t, b) = (Tensor::from([[2.0, f64::NAN], [1.0, 4.0]]), Tensor::from([[2.0], [9.0]]));
    assert_eq!(eval1(TriangularSolve::LOWER, &[t, b]), Tensor::from([[1.0], [2.0]]));
    let (t, b) = (Tensor::from([[7.0, 3.0], [f64::NAN, 7.0]]), Tensor::from([[7.0], [2.0]]));
    let unit = TriangularSolve { lower: false, transposed: false, unit_diagonal: true };
    assert_eq!(eval1(unit, &[t, b]), Tensor::from([[1.0], [2.0]]));
}

#[test]
fn errors_name_a_remedy() {
    let ty = |dtype, shape: &[usize]| Type::array(dtype, shape);
    let wrong = |t: Type, b: Type| problem(TriangularSolve::LOWER, &[t, b]).to_string();
    let (t, b) = (ty(Dtype::F64, &[2, 2]), ty(Dtype::F64, &[2, 1]));
    assert!(wrong(ty(Dtype::F64, &[2, 3]), b.clone()).contains("2 rows and 3 columns"));
    assert!(wrong(ty(Dtype::I64, &[2, 2]), b.clone()).contains("[dtype]"));
    assert!(wrong(t.clone(), ty(Dtype::F32, &[2, 1])).contains("[dtype]"));
    assert!(wrong(t.clone(), ty(Dtype::F64, &[2])).contains("[shape]"));
    assert!(wrong(t, ty(Dtype::F64, &[3, 1])).contains("[.., 2, columns]"));
}
