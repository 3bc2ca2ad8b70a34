//! Operators: `+ - * / %` and unary `-` between `Var`s, Rust numbers and tensors, on either side. As in Rust, `%` is
//! the remainder of the division truncated towards zero. Numpy's remainder, with the sign of the divisor, is
//! [`mod_floor`](Var::mod_floor). (`& | ^ !` and shifts are in the module of comparisons.)

use super::{binary, emit};
use crate::Var;
use crate::var::{IntoVar, caller};
use std::{iter, ops};
use tapeloom_ir::{Literal, Scalar, Tensor};

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident $op:ident $($alias:literal)*),*) => {$(
        impl<T: IntoVar> ops::$trait<T> for Var {
            type Output = Var;
            $(#[doc(alias = $alias)])*
            #[track_caller]
            fn $method(self, y: T) -> Var {
                let at = caller();
                binary(Scalar::$op, self, y.beside(self, at), at)
            }
        }
        impl<T: IntoVar> ops::$assign<T> for Var {
            #[track_caller]
            fn $assign_method(&mut self, y: T) {
                let at = caller();
                *self = binary(Scalar::$op, *self, y.beside(*self, at), at);
            }
        }
        left!($trait $method $op: f64, i64, &f64, &i64, Tensor, &Tensor, &Var);
        left_of_reference!($trait $method: f64, i64, &f64, &i64, Tensor, &Tensor);
        refused!($trait $method: f32, i32, u32, u64, usize);
    )*};
}

/// Implements `number op var`. Rust needs one impl per type on the left. There is exactly one float and one integer
/// type, so that Rust can infer the type of a literal in `(1.0 - x).ln()`. With two float types, this would be
/// ambiguous.
macro_rules! left {
    ($trait:ident $method:ident $op:ident: $($t:ty),*) => {$(
        impl ops::$trait<Var> for $t {
            type Output = Var;
            #[track_caller]
            fn $method(self, y: Var) -> Var {
                let at = caller();
                binary(Scalar::$op, self.beside(y, at), y, at)
            }
        }
    )*};
}

/// Implements `number op &var`, as in `vars.iter().map(|x| 2.0 * x)`.
macro_rules! left_of_reference {
    ($trait:ident $method:ident: $($t:ty),*) => {$(
        impl ops::$trait<&Var> for $t {
            type Output = Var;
            #[track_caller]
            fn $method(self, y: &Var) -> Var {
                ops::$trait::$method(self, *y)
            }
        }
    )*};
}

/// A number that may be on the left of a `Var`. Only f64 and i64 have these operators. No type implements this trait.
/// It exists for the compiler's message about all other types.
///
/// ```compile_fail
/// use tapeloom::prelude::*;
/// let rate = 0.1f32;
/// let f = jit(move |x: Var| rate * x); // `f32` cannot stand on the left of a `Var`
/// ```
///
/// ```
/// use tapeloom::prelude::*;
/// let (rate, n) = (0.1f32, 3usize);
/// let f = jit(move |x: Var| x * rate + f64::from(rate) * x - n as i64 * x);
/// assert!((f.call(1.0f32)?.item::<f32>()? + 2.8).abs() < 1e-6);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand on the left of a `Var`",
    label = "write the number on the right, or convert it",
    note = "write `x * n`, or convert as in `f64::from(n) * x` or `n as i64 * x`: a number takes the dtype of the array that it meets",
    note = "of the numbers only f64 and i64 stand on the left, so that the type of `1.0` in `(1.0 - x).ln()` is known"
)]
pub trait LeftOfVar<'a> {
    /// Cannot be called, because no type implements this trait.
    #[doc(hidden)]
    fn never(self) -> Var;
}

/// Implements `number op var` for the remaining types, under a condition that never holds: so these impls are no
/// candidates when the type of a literal is inferred. The lifetime parameter of the trait prevents the compiler from
/// rejecting the condition at the impl. If the type is known, the compiler reports the missing condition.
macro_rules! refused {
    ($trait:ident $method:ident: $($t:ty),*) => {$(
        impl<'a> ops::$trait<Var> for $t
        where
            $t: LeftOfVar<'a>,
        {
            type Output = Var;
            fn $method(self, _: Var) -> Var {
                self.never()
            }
        }
        impl<'a> ops::$trait<&Var> for $t
        where
            $t: LeftOfVar<'a>,
        {
            type Output = Var;
            fn $method(self, _: &Var) -> Var {
                self.never()
            }
        }
    )*};
}

operators! {
    Add add AddAssign add_assign Add,
    Sub sub SubAssign sub_assign Sub "subtract",
    Mul mul MulAssign mul_assign Mul "multiply",
    Div div DivAssign div_assign Div "divide" "true_divide",
    Rem rem RemAssign rem_assign Rem
}

impl ops::Neg for Var {
    type Output = Var;
    #[doc(alias = "negative")]
    #[track_caller]
    fn neg(self) -> Var {
        emit(Scalar::Neg, &[self], caller())
    }
}

macro_rules! folds {
    ($($trait:ident $method:ident $op:ident $empty:literal $doc:literal),*) => {$(
        impl iter::$trait for Var {
            #[doc = $doc]
            #[track_caller]
            fn $method<I: Iterator<Item = Var>>(mut vars: I) -> Var {
                let at = caller();
                let first = vars.next().unwrap_or_else(|| Var::literal(Literal::f64($empty), at));
                vars.fold(first, |x, y| binary(Scalar::$op, x, y, at))
            }
        }
        impl<'a> iter::$trait<&'a Var> for Var {
            #[doc = $doc]
            #[track_caller]
            fn $method<I: Iterator<Item = &'a Var>>(vars: I) -> Var {
                iter::$trait::$method(vars.copied())
            }
        }
    )*};
}
folds! {
    Sum sum Add 0.0 "The sum from left to right; `0.0` (f64) if there is nothing.",
    Product product Mul 1.0 "The product from left to right; `1.0` (f64) if there is nothing."
}
