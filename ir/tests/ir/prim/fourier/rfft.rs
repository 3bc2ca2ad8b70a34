//! Tests of `rfft`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, Rfft};
use tapeloom_ir::{Dtype, Tensor, Type};

#[test]
fn laws_hold() {
    check_samples(Rfft::samples());
}

#[test]
fn the_half_of_an_impulse_is_a_rotation() {
    let y = eval1(Rfft { rank: 1, axis: 0 }, &[Tensor::from([0.0, 1.0, 0.0, 0.0])]);
    assert_eq!(y, Tensor::from([[1.0, 0.0, -1.0], [0.0, -1.0, 0.0]]));
}

#[test]
fn errors_name_a_remedy() {
    let wrong = |x: Type| problem(Rfft { rank: 1, axis: 0 }, &[x]).to_string();
    assert!(wrong(Type::array(Dtype::I64, &[4])).contains("convert them"));
    assert!(wrong(Type::array(Dtype::F64, &[])).contains("axis 0 of the last 1"));
}
