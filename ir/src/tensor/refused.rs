//! Arithmetic that tensors do not have. It cannot be called; the compiler's message says what to write instead.
//!
//! An operator cannot return an error, and tensors of different shapes or dtypes have no sum. Inside of a closure
//! that is traced, such a mistake is recorded with its line, so arithmetic belongs there: the operations on arrays
//! exist once. Without these operators and methods, the compiler would only say that they are missing.
//!
//! Each operator and method here has a trait bound that no type fulfils; the trait's message for the compiler is the
//! advice. The trait has a lifetime, which prevents the compiler from deciding the bound at the definition.
//!
//! ```compile_fail
//! use tapeloom_ir::Tensor;
//! let twice = 2.0 * Tensor::from([1.0, 2.0]); // write `run(|x: Var| 2.0 * x, x)?`
//! ```

use super::Tensor;
use std::ops;

/// The trait bound of the operators of tensors. No type implements it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `Tensor` has no operators: it holds data, and arrays are computed in closures",
    label = "write `run(|x: Var| 2.0 * x, &x)?`, or `run(|(x, y): (Var, Var)| x + y, (&x, &y))?`",
    note = "for many calls write `let f = jit(|x: Var| 2.0 * x)` once, and `f.call(&x)?`",
    note = "to compute with Rust's numbers, read elements by `x.item::<f64>()?` or `x.to_vec::<f64>()?`"
)]
pub trait OperatorsAreInClosures<'a> {}

/// The trait bound of the arithmetic methods of tensors. No type implements it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `Tensor` has no arithmetic: it holds data, and arrays are computed in closures",
    label = "write `run(|x: Var| x.mean(), &x)?`, and any other method of `Var` in place of `mean`",
    note = "for many calls write `let f = jit(|x: Var| x.mean())` once, and `f.call(&x)?`",
    note = "to compute with Rust's numbers, write `x.numbers().sum::<f64>()` or `x.map_numbers(f64::sqrt)`"
)]
pub trait FunctionsAreInClosures<'a> {}

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident),*) => {$(
        left!($trait $method Tensor: f64, i64, Tensor, &Tensor);
        left!($trait $method &Tensor: f64, i64, Tensor, &Tensor);
        right!($trait $method Tensor: f64, i64);
        right!($trait $method &Tensor: f64, i64);
        assign!($assign $assign_method: f64, i64, Tensor, &Tensor);
    )*};
}

macro_rules! left {
    ($trait:ident $method:ident $left:ty: $($right:ty),*) => {$(
        impl ops::$trait<$right> for $left
        where
            for<'a> Tensor: OperatorsAreInClosures<'a>,
        {
            type Output = Tensor;
            fn $method(self, _: $right) -> Tensor {
                self.clone()
            }
        }
    )*};
}

macro_rules! right {
    ($trait:ident $method:ident $right:ty: $($left:ty),*) => {$(
        impl ops::$trait<$right> for $left
        where
            for<'a> Tensor: OperatorsAreInClosures<'a>,
        {
            type Output = Tensor;
            fn $method(self, y: $right) -> Tensor {
                y.clone()
            }
        }
    )*};
}

macro_rules! assign {
    ($trait:ident $method:ident: $($right:ty),*) => {$(
        impl ops::$trait<$right> for Tensor
        where
            for<'a> Tensor: OperatorsAreInClosures<'a>,
        {
            fn $method(&mut self, _: $right) {}
        }
    )*};
}

operators! {
    Add add AddAssign add_assign,
    Sub sub SubAssign sub_assign,
    Mul mul MulAssign mul_assign,
    Div div DivAssign div_assign
}

macro_rules! negation {
    ($($t:ty),*) => {$(
        impl ops::Neg for $t
        where
            for<'a> Tensor: OperatorsAreInClosures<'a>,
        {
            type Output = Tensor;
            fn neg(self) -> Tensor {
                self.clone()
            }
        }
    )*};
}
negation!(Tensor, &Tensor);

macro_rules! functions {
    ($($name:ident($($arg:ident),*)),*) => {
        #[doc(hidden)]
        impl Tensor {
            $(
                pub fn $name(&self $(, $arg: impl Sized)*) -> Tensor
                where
                    for<'a> Tensor: FunctionsAreInClosures<'a>,
                {
                    $(let _ = $arg;)*
                    self.clone()
                }
            )*
        }
    };
}
functions! {
    sum(), mean(), std(), var(), max(), min(), argmax(), argmin(),
    abs(), exp(), ln(), sqrt(), map(f), dot(y), matmul(y), t()
}
