//! Tests of `pad`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{FilledView, Pad};
use tapeloom_ir::{Kind, Tensor, Type};

fn op(low: &[i64], high: &[i64], interior: &[usize]) -> Pad {
    Pad { low: low.to_vec(), high: high.to_vec(), interior: interior.to_vec() }
}

#[test]
fn puts_the_fill_around_and_between() {
    let pad = |p: Pad| eval1(p, &[Tensor::from([1.0, 2.0, 3.0]), Tensor::from(9.0)]);
    assert_eq!(pad(op(&[1], &[2], &[0])), Tensor::from([9.0, 1.0, 2.0, 3.0, 9.0, 9.0]));
    assert_eq!(pad(op(&[0], &[0], &[1])), Tensor::from([1.0, 9.0, 2.0, 9.0, 3.0]));
    assert_eq!(pad(op(&[-1], &[2], &[1])), Tensor::from([9.0, 2.0, 9.0, 3.0, 9.0, 9.0]));
    assert_eq!(pad(op(&[-1], &[-1], &[0])), Tensor::from([2.0]));
    assert_eq!(pad(op(&[-4], &[2], &[0])), Tensor::from([9.0]));
    assert_eq!(pad(op(&[-2], &[-1], &[0])), Tensor::vector::<f64>(&[]));
    let m = [Tensor::from([[1i32, 2], [3, 4]]), Tensor::scalar(0i32)];
    let y = Tensor::from([[2i32, 0], [0, 0], [4, 0]]);
    assert_eq!(eval1(op(&[0, -1], &[0, 1], &[1, 0]), &m), y);
}

#[test]
fn laws() {
    check_samples(Pad::samples());
}

#[test]
fn refuses_windows_that_do_not_fit() {
    use tapeloom_ir::Dtype::{F32, F64};
    let (x, scalar) = (Type::array(F64, &[3]), Type::scalar(F64));
    let both = [x.clone(), scalar.clone()];
    for bad in [
        op(&[-2], &[-2], &[0]),
        op(&[i64::MIN], &[0], &[0]),
        op(&[i64::MIN], &[i64::MAX], &[0]),
        op(&[0], &[i64::MAX], &[0]),
        op(&[0], &[0], &[usize::MAX]),
        op(&[0, 0], &[0], &[0]),
        op(&[0], &[0], &[]),
    ] {
        assert_eq!(problem(bad, &both).kind, Kind::Shape);
    }
    let none = op(&[0], &[0], &[0]);
    assert_eq!(problem(none.clone(), &[x.clone(), x.clone()]).kind, Kind::Shape);
    assert_eq!(problem(none.clone(), &[x.clone(), Type::scalar(F32)]).kind, Kind::Dtype);
    assert_eq!(problem(none, &[x]).kind, Kind::Arguments);
}
