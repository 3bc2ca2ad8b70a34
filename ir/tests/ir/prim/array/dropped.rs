//! Tests of `dropped`.

use crate::test_laws::{check_samples, eval1, tangents};
use tapeloom_ir::Tensor;
use tapeloom_ir::prim::{ArrayPrimitive, Dropped, Linearity};

#[test]
fn is_the_identity_without_a_tangent_and_linear() {
    let x = Tensor::from([1.0, 2.0]);
    assert_eq!(eval1(Dropped, std::slice::from_ref(&x)), x);
    check_samples(Dropped::samples());
    assert_eq!(tangents(Dropped, std::slice::from_ref(&x)), [None]);
    assert!(Dropped.is_linear(&[Linearity::Linear]));
}
