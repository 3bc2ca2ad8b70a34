//! Tests of `tridiagonal_solve`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, TridiagonalSolve};
use tapeloom_ir::{Dtype, Tensor, Type};

#[test]
fn laws_hold() {
    check_samples(TridiagonalSolve::samples());
}

#[test]
fn the_matrix_of_ones_and_twos() {
    // The system whose solution is 1, 4, 9: its rows are second differences, and the boundary values 0 and 16 are moved
    // to the right-hand side.
    let [lower, diagonal, upper] =
        [[f64::NAN, 1.0, 1.0], [-2.0; 3], [1.0, 1.0, f64::NAN]].map(Tensor::from);
    let b = Tensor::from([[2.0], [2.0], [-14.0]]);
    let x = eval1(TridiagonalSolve {}, &[lower, diagonal, upper, b]);
    let x = x.to_vec::<f64>().unwrap();
    assert!(x.iter().zip([1.0, 4.0, 9.0]).all(|(x, y)| (x - y).abs() < 1e-13), "{x:?}");
}

#[test]
fn errors_name_a_remedy() {
    let ty = |dtype, shape: &[usize]| Type::array(dtype, shape);
    let wrong =
        |d: Type, b: Type| problem(TridiagonalSolve {}, &[d.clone(), d.clone(), d, b]).to_string();
    let (d, b) = (ty(Dtype::F64, &[3]), ty(Dtype::F64, &[3, 1]));
    assert!(wrong(d.clone(), ty(Dtype::F64, &[3])).contains("[.., n, columns]"));
    assert!(wrong(ty(Dtype::F64, &[2]), b.clone()).contains("[.., n, columns]"));
    assert!(wrong(ty(Dtype::F64, &[]), ty(Dtype::F64, &[1])).contains("[.., n, columns]"));
    assert!(wrong(ty(Dtype::F32, &[3]), b).contains("one dtype"));
    assert!(wrong(ty(Dtype::I64, &[3]), ty(Dtype::I64, &[3, 1])).contains("floats"));
    assert!(wrong(d, ty(Dtype::F32, &[3, 1])).contains("one dtype"));
}
