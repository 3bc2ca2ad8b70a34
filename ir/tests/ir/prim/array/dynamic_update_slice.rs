//! Tests of `dynamic_update_slice`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, DynamicUpdateSlice};
use tapeloom_ir::{Kind, Tensor, Type};

#[test]
fn writes_a_box_that_is_moved_inside() {
    let at = |start: Tensor| {
        let x = Tensor::from([0.0, 1.0, 2.0, 3.0]);
        eval1(DynamicUpdateSlice, &[x, Tensor::from([8.0, 9.0]), start])
    };
    assert_eq!(at(Tensor::scalar(1i64)), Tensor::from([0.0, 8.0, 9.0, 3.0]));
    assert_eq!(at(Tensor::scalar(9u32)), Tensor::from([0.0, 1.0, 8.0, 9.0]));
    assert_eq!(at(Tensor::scalar(i64::MIN)), Tensor::from([8.0, 9.0, 2.0, 3.0]));
}

#[test]
fn laws() {
    check_samples(DynamicUpdateSlice::samples());
}

#[test]
fn refuses_updates_that_do_not_fit() {
    use tapeloom_ir::Dtype::{F32, F64, I64};
    let (x, i) = (Type::array(F64, &[3]), Type::scalar(I64));
    let kind = |operands: &[Type]| problem(DynamicUpdateSlice, operands).kind;
    assert_eq!(kind(&[x.clone(), Type::array(F64, &[4]), i.clone()]), Kind::Shape);
    assert_eq!(kind(&[x.clone(), Type::array(F64, &[1, 1]), i.clone()]), Kind::Shape);
    assert_eq!(kind(&[x.clone(), Type::array(F32, &[1]), i]), Kind::Dtype);
    assert_eq!(kind(&[x.clone(), x.clone()]), Kind::Arguments);
    assert_eq!(kind(&[x.clone(), x.clone(), x.clone()]), Kind::Dtype);
    assert_eq!(kind(&[x]), Kind::Arguments);
}
