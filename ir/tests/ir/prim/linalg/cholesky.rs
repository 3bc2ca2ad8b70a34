//! Tests of `cholesky`.

use crate::test_laws::{check_samples, eval1};
use tapeloom_ir::Tensor;
use tapeloom_ir::prim::{ArrayPrimitive, Cholesky};

#[test]
fn laws_hold() {
    check_samples(Cholesky::samples());
}

#[test]
fn a_failure_stays_in_its_member() {
    let a = Tensor::from([[[1.0, 2.0], [2.0, 1.0]], [[4.0, 2.0], [2.0, 5.0]]]);
    let l = eval1(Cholesky {}, &[a]);
    assert!(l.get::<f64>(&[0, 1, 1]).unwrap().is_nan());
    assert_eq!(l.get::<f64>(&[0, 0, 1]).unwrap(), 0.0);
    assert_eq!(l.row(1).unwrap(), Tensor::from([[2.0, 0.0], [1.0, 2.0]]));
}
