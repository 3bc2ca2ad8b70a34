//! Tests of `argreduce`.

use crate::test_laws::{check_samples, eval1};
use tapeloom_ir::prim::{ArgReduce, ArrayPrimitive, Extremum, Operand};
use tapeloom_ir::{ArrayType, Dtype, Tensor, Type};

#[test]
fn laws_hold() {
    check_samples(ArgReduce::samples());
}

#[test]
fn the_first_extremum_wins_and_nan_is_extreme() {
    let x = Tensor::from([
        [1.0, 3.0, 3.0, -1.0],
        [0.0, -0.0, 0.0, -0.0],
        [5.0, f64::NAN, f64::NAN, f64::INFINITY],
    ]);
    let along = |axis, extremum| eval1(ArgReduce { axis, extremum }, std::slice::from_ref(&x));
    assert_eq!(along(1, Extremum::Max), Tensor::from([1i64, 0, 1]));
    assert_eq!(along(1, Extremum::Min), Tensor::from([3i64, 0, 1]));
    assert_eq!(along(0, Extremum::Max), Tensor::from([2i64, 2, 2, 2]));
    assert_eq!(along(0, Extremum::Min), Tensor::from([1i64, 2, 2, 0]));
}

#[test]
fn an_empty_axis_has_no_extremum() {
    let ty = Type::array(Dtype::F64, &[2, 0]);
    let infer = |axis| {
        let operands = [Operand { ty: &ty, literal: None }];
        ArgReduce { axis, extremum: Extremum::Max }.infer(&operands)
    };
    assert_eq!(
        infer(1).unwrap_err().to_string(),
        "[shape] `argmax` along axis 1 of f64[2,0], which is empty (only a non-empty axis has an \
         extremum)"
    );
    assert!(infer(2).unwrap_err().to_string().contains("along axis 2 of f64[2,0]"));
    assert_eq!(infer(0).unwrap(), ArrayType::new(Dtype::I64, [0]));
}
