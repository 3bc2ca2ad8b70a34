//! The type of functions that transforms take: functions of one argument.
//!
//! Any `Fn(A) -> B` is such a function. Transforms require a trait of their own instead of `Fn`, because the
//! compiler's message for a closure of two arguments ("expected to take 1 argument, but it takes 2") does not say
//! that arguments are passed as one tuple.

/// A function of one tree of arrays: any `Fn(A) -> B`.
///
/// `M` is inferred. It exists for error messages: with it, the compiler considers functions of two arguments as
/// failed candidates for this trait, and prints the message of this trait instead of the message of `Fn`.
///
/// ```compile_fail
/// use tapeloom::prelude::*;
/// let f = grad(|x: Var, y: Var| x * y); // several arguments are passed as one tuple
/// ```
///
/// ```
/// use tapeloom::prelude::*;
/// let f = grad(|(x, y): (Var, Var)| x * y);
/// let g = |x: Var, y: Var| x * y;
/// let of_x = jit(|(x, y): (Var, Var)| grad(|x| g(x, y))(x));
/// assert_eq!(of_x.call((2.0, 3.0))?.item::<f64>()?, 3.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "expected a function of one argument, `{A}`, that returns `{B}`",
    label = "not a function of one argument, `{A}`, that returns `{B}`",
    note = "several arguments are passed as one tuple: `|(x, y): (Var, Var)| ..`; the body of `fori_loop` has the index first: `|(i, x): (Var, Var)| ..`",
    note = "to differentiate with respect to one of them only, close over the others: `grad(|x| f(x, y))(x)`"
)]
pub trait Function<A, B, M> {
    /// Returns the value at `x`.
    #[doc(hidden)]
    fn apply(&self, x: A) -> B;
}

/// Marks functions of one argument.
#[doc(hidden)]
#[derive(Debug)]
pub struct One;

/// Marks functions of two arguments, which transforms reject.
#[doc(hidden)]
#[derive(Debug)]
pub struct Two<X, Y>(std::marker::PhantomData<(X, Y)>);

impl<A, B, F: Fn(A) -> B> Function<A, B, One> for F {
    fn apply(&self, x: A) -> B {
        self(x)
    }
}

/// A trait that no type implements. As a bound of an impl, it lets the compiler name functions of two arguments in its
/// message.
#[doc(hidden)]
pub trait Never<'a> {
    fn never<T>(&self) -> T;
}

impl<'a, A, B, X, Y, F: Fn(X, Y) -> B + Never<'a>> Function<A, B, Two<X, Y>> for F {
    fn apply(&self, _: A) -> B {
        self.never()
    }
}

/// Converts a [`Function`] to a closure of one argument.
pub(crate) fn one<A, B, M>(f: impl Function<A, B, M>) -> impl Fn(A) -> B {
    move |x| f.apply(x)
}
