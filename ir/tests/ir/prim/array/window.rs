//! Tests of `window`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{FilledView, Move, Window};
use tapeloom_ir::{Dtype, Kind, Tensor, Type};

fn op(scale: i64, step: i64, offset: i64, divisor: usize, extent: usize) -> Window {
    Window { moves: vec![Move { axis: 0, tap: 1, scale, step, offset, divisor, extent }] }
}

#[test]
fn laws_hold() {
    check_samples(Window::samples());
}

#[test]
fn windows_of_a_row() {
    let twice = Tensor::from([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]);
    let read = |w: Window| eval1(w, &[twice.clone(), Tensor::from(0.0)]);
    assert_eq!(read(op(2, 1, -1, 1, 3)), Tensor::from([[0.0, 1.0], [2.0, 3.0], [4.0, 0.0]]));
    assert_eq!(read(op(1, 3, 0, 1, 2)), Tensor::from([[1.0, 4.0], [2.0, 0.0]]));
    assert_eq!(read(op(-1, 0, 3, 1, 2)), Tensor::from([[4.0, 4.0], [3.0, 3.0]]));
    assert_eq!(read(op(1, 1, 0, 2, 3)), Tensor::from([[1.0, 0.0], [0.0, 2.0], [2.0, 0.0]]));
}

#[test]
fn refuses_windows_that_do_not_fit() {
    let both = [Type::array(Dtype::F64, &[4, 2]), Type::scalar(Dtype::F64)];
    for bad in [
        op(0, 1, 0, 1, 3),
        op(1, 1, 0, 0, 3),
        op(i64::MAX, 1, 0, 1, 3),
        op(1, i64::MIN, 0, 1, 3),
        op(1, 1, i64::MIN, 1, 3),
        op(1, 1, 0, usize::MAX, 3),
        // The limit of index arithmetic is 2^60. The divisor 2^59 is below the limit, but the distance of the 4
        // elements, 4 times the divisor, is not.
        op(1, 1, 0, 1 << 59, 3),
        op(1, 1, 0, 1, usize::MAX),
        Window { moves: vec![Move { axis: 2, ..op(1, 1, 0, 1, 3).moves[0] }] },
        Window { moves: vec![Move { tap: 0, ..op(1, 1, 0, 1, 3).moves[0] }] },
    ] {
        assert_eq!(problem(bad, &both).kind, Kind::Shape);
    }
}
