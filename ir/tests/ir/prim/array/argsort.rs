//! Tests of `argsort`.

use crate::test_laws::{check_samples, eval1};
use tapeloom_ir::Tensor;
use tapeloom_ir::prim::{ArgSort, ArrayPrimitive};

#[test]
fn laws_hold() {
    check_samples(ArgSort::samples());
}

#[test]
fn equal_elements_keep_their_order_and_nan_is_largest() {
    let x = [Tensor::from([2.0, f64::NAN, 0.0, 2.0, -0.0, f64::INFINITY, f64::NAN])];
    let of = |descending, first| eval1(ArgSort { axis: 0, descending, first }, &x);
    assert_eq!(of(false, 7), Tensor::from([2i64, 4, 0, 3, 5, 1, 6]));
    assert_eq!(of(true, 7), Tensor::from([1i64, 6, 5, 0, 3, 2, 4]));
    assert_eq!(of(true, 3), Tensor::from([1i64, 6, 5]));
    assert_eq!(of(false, 0), Tensor::from([0i64; 0]));
}
