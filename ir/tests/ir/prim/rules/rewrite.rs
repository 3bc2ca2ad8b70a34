//! Tests of `rewrite`.

use tapeloom_ir::prim::{Operand, Reduce, Reducer};
use tapeloom_ir::{Dtype, Literal, Module, Op, Type};

/// Returns the sum of `n` equal numbers, if it does not depend on the order of summation.
fn times(x: Literal, n: usize) -> Option<Literal> {
    let sum = Op::from(Reduce { reducer: Reducer::Sum, axes: vec![0] });
    let ty = Type::array(x.dtype, &[n]);
    sum.uniform(&Module::new(), &[Operand { ty: &ty, literal: None }], &[x])
}

#[test]
fn sums_of_one_number_are_known_where_no_part_is_rounded() {
    let of = |x: f64, n: usize| times(Literal::f64(x), n).map(Literal::to_f64);
    assert_eq!(of(1.0, 1 << 53), Some(9_007_199_254_740_992.0));
    assert_eq!(of(1.0, (1 << 53) + 1), None);
    assert_eq!(of(-0.75, 1000), Some(-750.0));
    assert_eq!(of(0.1, 2), Some(0.2));
    assert_eq!(of(0.1, 3), None);
    assert_eq!(of(f64::MAX, 2), None);
    assert!(of(f64::NAN, 2).is_none_or(f64::is_nan));
    let narrow = |n: usize| times(Literal::of(Dtype::F32, 1.0), n).map(Literal::to_f64);
    assert_eq!(narrow(1 << 24), Some(16_777_216.0));
    assert_eq!(narrow((1 << 24) + 1), None);
}
