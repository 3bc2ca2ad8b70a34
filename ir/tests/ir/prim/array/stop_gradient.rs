//! Tests of `stop_gradient`.

use crate::test_laws::{check_compose, check_samples, eval1, tangents};
use tapeloom_ir::Tensor;
use tapeloom_ir::prim::{ArrayPrimitive, StopGradient};

#[test]
fn is_the_identity_without_a_tangent() {
    let x = Tensor::from([1.0, 2.0]);
    assert_eq!(eval1(StopGradient, std::slice::from_ref(&x)), x);
    check_samples(StopGradient::samples());
    assert_eq!(tangents(StopGradient, std::slice::from_ref(&x)), [None]);
    check_compose("stop_gradient-stop_gradient", StopGradient, StopGradient, &x);
}
