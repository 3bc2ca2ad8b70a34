//! The form of a library function in StableHLO, the language of other engines.
//!
//! Every row of a library function states one of four forms, so that a new function without a form does not compile:
//!
//! 1. an operation of StableHLO or of CHLO, its library of composed operations, if there is one with our values at
//!    edges: engines have fast code for it, exact to a few ulp;
//! 2. otherwise a formula of functions that have a form, with a relative error of a few ulp;
//! 3. otherwise the arithmetic of the function's own source, if its straight-line part is valid for all arguments
//!    ([`crate::math::Recording`]);
//! 4. otherwise a call of a function that the client of the engine has to provide.

use crate::prim::Expr;

/// The form of a library function in StableHLO.
#[derive(Clone, Copy, Debug)]
pub enum StableHlo {
    /// An operation with the function's operands. Its name has the dialect: `stablehlo.sine`, `chlo.lgamma`. If the
    /// function has a constant whole number n, the first operand is n as a float.
    Operation(&'static str),
    /// A formula: emits equations of scalar functions for the function's operands.
    Formula(Formula),
    /// The arithmetic of the function's recording. A fused multiply-add becomes a product and a sum, because StableHLO
    /// has none, so the last bits differ.
    Recording,
    /// A call of a function that the client provides.
    CustomCall,
}

/// A formula for a function of floats: returns the expression of its value, given those of its operands.
pub type Formula = for<'b, 'm> fn(&[Expr<'b, 'm>]) -> Expr<'b, 'm>;
