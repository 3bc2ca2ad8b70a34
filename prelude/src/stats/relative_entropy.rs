//! Terms of relative entropies, element by element, with rules for their derivatives.
//!
//! Value and gradient take one logarithm, ln(p / q), and the gradient is right even if p / q or its square overflows.
//! Derivatives that are derived from the formula of the value would contain p² / q or p / q².

use crate::Var;
use crate::ops::{horner, of_floats, select};
use crate::transform::custom_jvp;
use crate::var::{IntoVar, caller};
use std::f64::consts::LN_2;
use tapeloom_ir::Dtype;

/// Terms of relative entropies.
impl Var {
    /// Returns x ln(x / y), one term of a relative entropy. It is 0 for x = 0 and y ≥ 0. It is inf if x or y is
    /// negative, or if only y is 0.
    #[track_caller]
    pub fn rel_entr(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_floats("rel_entr", [self, y], at, |[x, y]| {
            let inside = x.gt(0.0) & y.gt(0.0);
            let (p, q) = (select(inside, x, 1.0), select(inside, y, 1.0));
            let edge = select(x.eq(0.0) & y.ge(0.0), 0.0, outside(x, y));
            // The rule computes one logarithm for the value and all derivatives.
            let term = |(p, q): (Var, Var)| p * log_ratio(log_of_quotient, p, q, ORDERS);
            let rule = |(p, q): (Var, Var), (dp, dq): (Var, Var)| {
                let log = log_ratio(log_of_quotient, p, q, ORDERS);
                (p * log, (log + 1.0) * dp - p * (dq / q))
            };
            select(inside, custom_jvp(term, rule)((p, q)), edge)
        })
    }

    /// Returns x ln(x / y) - x + y, a nonnegative term of a Kullback-Leibler divergence, without cancellation for
    /// close x and y. It is y for x = 0 and y ≥ 0, and inf if x or y is negative or only y is 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let d = run(|(p, q): (Var, Var)| p.kl_div(q), ([1.0, 0.0, 1.0], [1.0, 2.0, 0.0]))?;
    /// assert_eq!(d.to_vec::<f64>()?, [0.0, 2.0, f64::INFINITY]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn kl_div(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_floats("kl_div", [self, y], at, |[x, y]| {
            let inside = x.gt(0.0) & y.gt(0.0);
            let (p, q) = (select(inside, x, 1.0), select(inside, y, 1.0));
            let edge = select(x.eq(0.0) & y.ge(0.0), y - x, outside(x, y));
            // The rule takes one logarithm for the value and the derivatives. It divides dq before the product, since
            // (q - p) / q may be infinite where dq is 0.
            let rule = |(p, q): (Var, Var), (dp, dq): (Var, Var)| {
                let slope = log_ratio(log_of_close, p, q, ORDERS);
                (divergence(p, q), slope * dp + (q - p) * (dq / q))
            };
            let term = custom_jvp(|(p, q): (Var, Var)| divergence(p, q), rule);
            select(inside, term((p, q)), edge)
        })
    }
}

/// The largest order of derivatives for which [`log_ratio`] computes a single logarithm.
const ORDERS: usize = 2;

/// Returns ln(p / q) for positive p and q, with the value that `log` computes and the derivatives 1 / p and -1 / q.
/// Derivatives up to the given order take one logarithm, further ones three.
fn log_ratio(log: fn(Var, Var) -> Var, p: Var, q: Var, order: usize) -> Var {
    // The derivatives of ln(p / q) contain the square of p / q in one of forward and reverse mode, and p² / q in the
    // other. Both may overflow, so this logarithm has a rule. The value that the rule returns needs a rule itself, for
    // the next derivative.
    if order == 0 {
        let difference = p.ln() - q.ln();
        return difference + (log(p, q) - difference).stop_gradient();
    }
    let value = |(p, q): (Var, Var)| log(p, q);
    let rule = |(p, q): (Var, Var), (dp, dq): (Var, Var)| {
        (log_ratio(log, p, q, order - 1), dp / p - dq / q)
    };
    custom_jvp(value, rule)((p, q))
}

/// Returns ln(p / q) like [`log_of_quotient`], without cancellation for close p and q.
fn log_of_close(p: Var, q: Var) -> Var {
    let (near, w, cubic) = closeness(p, q);
    select(near, -(2.0 * w + cubic), log_of_quotient(p, q))
}

/// Returns ln(p / q) for positive p and q, also if the quotient overflows or underflows. Its derivatives may overflow.
fn log_of_quotient(p: Var, q: Var) -> Var {
    // If the quotient may overflow or underflow, scale both operands by a power of two each, which is exact.
    let [least, half, scale]: [i32; 3] =
        if p.dtype() == Dtype::F32 { [100, 64, 75] } else { [1000, 512, 600] };
    let two = |k: i32| 2f64.powi(k);
    let exceeds = |x: Var, y: Var| (x * two(-half)).gt(y * two(least - half));
    let (large, small) = (exceeds(p, q), exceeds(q, p));
    let by = select(large, two(-scale), select(small, two(scale), p.ones_like()));
    let back = select(large, two(scale), select(small, two(-scale), p.ones_like()));
    let shift = f64::from(2 * scale) * LN_2;
    let shift = select(large, shift, select(small, -shift, p.zeros_like()));
    ((p * by) / (q * back)).ln() + shift
}

/// Returns p ln(p / q) - p + q for positive p and q.
fn divergence(p: Var, q: Var) -> Var {
    let (near, w, cubic) = closeness(p, q);
    // For close p and q, p (u - ln(1 + u)) with u = (q - p) / p is (q - p) w - p 2 (w³/3 + w⁵/5 + ..), with w = (q - p)
    // / (q + p).
    let close = (q - p) * w - p * cubic;
    select(near, close, p * log_ratio(log_of_quotient, p, q, ORDERS) - p + q)
}

/// Returns whether p and q are close, w = (q - p) / (q + p), and 2 (w³/3 + w⁵/5 + ..), with ln(q / p) = 2 (w + w³/3 +
/// w⁵/5 + ..). For distant p and q the numbers are 0.
fn closeness(p: Var, q: Var) -> (Var, Var, Var) {
    let near = (q - p).abs().lt(0.25 * p);
    let (a, b) = (select(near, p, 1.0), select(near, q, 1.0));
    // Add halves, because the sum of both operands may overflow.
    let w = (0.5 * (b - a)) / (0.5 * a + 0.5 * b);
    let series: Vec<f64> = (0..10).rev().map(|k| 2.0 / f64::from(2 * k + 3)).collect();
    (near, w, w * w.square() * horner(w.square(), &series))
}

/// Returns the value of a term of a relative entropy outside of its domain: inf, or nan if an operand is nan.
fn outside(x: Var, y: Var) -> Var {
    let sum = (x + y).stop_gradient();
    select(sum.is_nan(), sum, f64::INFINITY)
}
