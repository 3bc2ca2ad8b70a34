//! `Expr`: formulas in derivative rules.
//!
//! An `Expr` is an atom together with the builder that it lives in. Operators and methods emit
//! equations, and a Rust number takes the dtype of the expression it meets, so that the partial
//! derivatives in the scalar table read as on paper: `|t, x, _| t * x[0].cos()`.

use super::Scalar;
use crate::builder::Builder;
use crate::function::Atom;
use crate::literal::Literal;
use crate::prim::Op;

/// A value inside a rule, with operators that emit equations.
#[derive(Clone, Copy)]
pub struct Expr<'b, 'm> {
    /// Where to emit.
    pub b: &'b Builder<'m>,
    /// The value.
    pub atom: Atom,
}

impl<'b, 'm> Expr<'b, 'm> {
    /// An atom as an expression.
    pub fn new(b: &'b Builder<'m>, atom: Atom) -> Expr<'b, 'm> {
        Expr { b, atom }
    }

    /// A number in the dtype of this expression.
    pub fn number(self, x: f64) -> Expr<'b, 'm> {
        let literal = Literal::of(self.b.dtype_of(self.atom), x);
        Expr { b: self.b, atom: literal.into() }
    }

    /// A primitive of one operand.
    pub fn unary(self, op: impl Into<Op>) -> Expr<'b, 'm> {
        Expr { b: self.b, atom: self.b.emit1(op, &[self.atom]) }
    }

    /// A primitive of two operands.
    pub fn binary(self, op: impl Into<Op>, y: Expr<'b, 'm>) -> Expr<'b, 'm> {
        Expr { b: self.b, atom: self.b.emit1(op, &[self.atom, y.atom]) }
    }

    /// `self ? x : y`
    pub fn select(self, x: Expr<'b, 'm>, y: Expr<'b, 'm>) -> Expr<'b, 'm> {
        Expr { b: self.b, atom: self.b.emit1(Scalar::Select, &[self.atom, x.atom, y.atom]) }
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl<'b, 'm> std::ops::$trait for Expr<'b, 'm> {
            type Output = Expr<'b, 'm>;
            fn $method(self, y: Expr<'b, 'm>) -> Expr<'b, 'm> { self.binary(Scalar::$op, y) }
        }
        impl<'b, 'm> std::ops::$trait<f64> for Expr<'b, 'm> {
            type Output = Expr<'b, 'm>;
            fn $method(self, y: f64) -> Expr<'b, 'm> { self.binary(Scalar::$op, self.number(y)) }
        }
        impl<'b, 'm> std::ops::$trait<Expr<'b, 'm>> for f64 {
            type Output = Expr<'b, 'm>;
            fn $method(self, y: Expr<'b, 'm>) -> Expr<'b, 'm> { y.number(self).binary(Scalar::$op, y) }
        }
    )*};
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div);

impl<'b, 'm> std::ops::Neg for Expr<'b, 'm> {
    type Output = Expr<'b, 'm>;
    fn neg(self) -> Expr<'b, 'm> {
        self.unary(Scalar::Neg)
    }
}
