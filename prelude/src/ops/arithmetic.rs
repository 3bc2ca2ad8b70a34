//! Operators: `+ - * / %` and unary `-` between `Var`s, Rust numbers and tensors, on either side;
//! `%` is the remainder of the division truncated towards zero, as Rust's. (`& | ^ !` and shifts
//! stand with the comparisons.)

use super::{binary, emit};
use crate::Var;
use crate::var::{IntoVar, caller};
use std::ops;
use tapeloom_ir::{Scalar, Tensor};

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident $op:ident),*) => {$(
        impl<T: IntoVar> ops::$trait<T> for Var {
            type Output = Var;
            #[track_caller]
            fn $method(self, y: T) -> Var {
                let at = caller();
                binary(Scalar::$op, self, y.into_var(self.ty(at).dtype, at), at)
            }
        }
        impl<T: IntoVar> ops::$assign<T> for Var {
            #[track_caller]
            fn $assign_method(&mut self, y: T) {
                let at = caller();
                *self = binary(Scalar::$op, *self, y.into_var(self.ty(at).dtype, at), at);
            }
        }
        left!($trait $method $op: f64, i64, Tensor, &Tensor, &Var);
    )*};
}

/// `number op var`: Rust wants an impl per type on the left. There is one float and one integer type
/// among them, so that Rust knows the type of a literal in `(1.0 - x).ln()`.
macro_rules! left {
    ($trait:ident $method:ident $op:ident: $($t:ty),*) => {$(
        impl ops::$trait<Var> for $t {
            type Output = Var;
            #[track_caller]
            fn $method(self, y: Var) -> Var {
                let at = caller();
                binary(Scalar::$op, self.into_var(y.ty(at).dtype, at), y, at)
            }
        }
    )*};
}

operators! {
    Add add AddAssign add_assign Add,
    Sub sub SubAssign sub_assign Sub,
    Mul mul MulAssign mul_assign Mul,
    Div div DivAssign div_assign Div,
    Rem rem RemAssign rem_assign Rem
}

impl ops::Neg for Var {
    type Output = Var;
    #[track_caller]
    fn neg(self) -> Var {
        emit(Scalar::Neg, &[self], caller())
    }
}

impl std::iter::Sum for Var {
    /// The sum from left to right; `0.0` (f64) if there is nothing.
    #[track_caller]
    fn sum<I: Iterator<Item = Var>>(mut vars: I) -> Var {
        let at = caller();
        let zero = || Var::literal(tapeloom_ir::Literal::f64(0.0), at);
        let first = vars.next().unwrap_or_else(zero);
        vars.fold(first, |x, y| binary(Scalar::Add, x, y, at))
    }
}
