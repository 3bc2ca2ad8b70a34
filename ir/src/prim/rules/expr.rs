//! `Expr`: formulas in derivative rules.
//!
//! An `Expr` is an atom together with its builder. Operators and methods emit equations, and a Rust number gets
//! the dtype of the expression that it is combined with, so that the partial derivatives in the scalar table
//! look like mathematics: `|t, x, _| t * x[0].cos()`.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::types::{Dtype, Type};
use crate::prim::{IntegerPow, Lowering, Op, Operand, Scalar, constant_power};
use smallvec::SmallVec;

/// A value inside a derivative rule, with operators that emit equations.
#[derive(Clone, Copy)]
pub struct Expr<'b, 'm> {
    /// The builder that receives the equations.
    pub b: &'b Builder<'m>,
    /// The value that the expression denotes.
    pub atom: Atom,
}

impl<'b, 'm> Expr<'b, 'm> {
    /// Wraps an atom as an expression whose operators emit equations into `b`.
    pub fn new(b: &'b Builder<'m>, atom: Atom) -> Expr<'b, 'm> {
        Expr { b, atom }
    }

    /// Returns the number `x` as a literal of this expression's dtype.
    pub fn number(self, x: f64) -> Expr<'b, 'm> {
        let literal = Literal::of(self.b.dtype_of(self.atom), x);
        Expr { b: self.b, atom: literal.into() }
    }

    /// Applies an elementwise primitive of one operand.
    pub fn unary(self, op: impl Into<Op>) -> Expr<'b, 'm> {
        self.apply(op.into(), &[self.atom])
    }

    /// Applies an elementwise primitive of two operands.
    pub fn binary(self, op: impl Into<Op>, y: Expr<'b, 'm>) -> Expr<'b, 'm> {
        self.apply(op.into(), &[self.atom, y.atom])
    }

    /// Applies an elementwise primitive of three operands.
    pub fn ternary(self, op: impl Into<Op>, y: Expr<'b, 'm>, z: Expr<'b, 'm>) -> Expr<'b, 'm> {
        self.apply(op.into(), &[self.atom, y.atom, z.atom])
    }

    /// Returns `self ? x : y`.
    pub fn select(self, x: Expr<'b, 'm>, y: Expr<'b, 'm>) -> Expr<'b, 'm> {
        self.apply(Scalar::Select.into(), &[self.atom, x.atom, y.atom])
    }

    /// Returns `|x| < m ? 0 x : x` for this float x, where m is the smallest positive normal number of its dtype: a
    /// subnormal number becomes 0 with its sign.
    pub fn flushed(self) -> Expr<'b, 'm> {
        let smallest = match self.b.dtype_of(self.atom) {
            Dtype::F32 => f64::from(f32::MIN_POSITIVE),
            _ => f64::MIN_POSITIVE,
        };
        let is_subnormal = self.unary(Scalar::Abs).binary(Scalar::Lt, self.number(smallest));
        is_subnormal.select(self * 0.0, self)
    }

    /// Returns `self` to the integer power `n`.
    pub fn powi(self, n: i32) -> Expr<'b, 'm> {
        match n {
            1 => self,
            2 => self * self,
            n => self.unary(IntegerPow { n }),
        }
    }

    /// Returns `self` to the constant power `p`, by the fewest operations.
    pub fn power(self, p: f64) -> Expr<'b, 'm> {
        let p = self.number(p);
        let exponent = p.atom.literal().map(|p| p.to_f64());
        match exponent.and_then(constant_power) {
            Some(Op::IntegerPow(IntegerPow { n })) => self.powi(n),
            Some(op) => self.unary(op),
            None => self.pow(p),
        }
    }

    /// Emits `op` applied to `operands`. If all operands are literals, the result is folded to a
    /// literal, so that it still fits operands of every shape: in `x^2.5` the exponent of the
    /// derivative, `2.5 - 1`, is again a literal.
    fn apply(self, op: Op, operands: &[Atom]) -> Expr<'b, 'm> {
        let literals: Option<SmallVec<[Literal; 3]>> =
            operands.iter().map(|a| a.literal()).collect();
        let folded = literals.and_then(|x| {
            let types: SmallVec<[Type; 3]> = x.iter().map(|x| Type::scalar(x.dtype)).collect();
            let typed: SmallVec<[Operand<'_>; 3]> =
                types.iter().zip(&x).map(|(ty, x)| Operand { ty, literal: Some(*x) }).collect();
            match self.b.with_module(|m| op.lower(m, &typed)) {
                Lowering::Elementwise(code) => Some(code.eval(&x)),
                _ => None,
            }
        });
        let atom = folded.map_or_else(|| self.b.emit1(op, operands), Atom::Literal);
        Expr { b: self.b, atom }
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
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem);

impl<'b, 'm> std::ops::Neg for Expr<'b, 'm> {
    type Output = Expr<'b, 'm>;
    fn neg(self) -> Expr<'b, 'm> {
        self.unary(Scalar::Neg)
    }
}

impl<'b, 'm> std::ops::Not for Expr<'b, 'm> {
    type Output = Expr<'b, 'm>;
    fn not(self) -> Expr<'b, 'm> {
        self.unary(Scalar::Not)
    }
}
