//! The greatest common divisor and the least common multiple, by Euclid's algorithm as a loop.

use super::while_loop;
use crate::Var;
use crate::ops::{of_integers, select};
use crate::var::{IntoVar, caller};

/// The greatest common divisor and the least common multiple of two arrays of integers of one dtype, which are
/// broadcast together.
impl Var {
    /// Returns the greatest common divisor of |x| and |y|; gcd(x, 0) = |x|. The result is not negative, except for
    /// the smallest integer of the dtype, whose absolute value is not representable.
    ///
    /// Integers have no tangents. Errors: `dtype` if an operand is not an integer.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let d = run(|(x, y): (Var, Var)| x.gcd(y), ([12i64, -18, 0, 0], [18i64, 27, -4, 0]))?;
    /// assert_eq!(d.to_vec::<i64>()?, [6, 9, 4, 0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn gcd(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_integers("gcd", [self, y], at, |[x, y]| divisor(x, y))
    }

    /// Returns the least common multiple of |x| and |y|. If either is 0, the result is 0. If the result is not
    /// representable in the dtype, it wraps.
    ///
    /// Integers have no tangents. Errors: `dtype` if an operand is not an integer.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let m = run(|(x, y): (Var, Var)| x.lcm(y), ([4i64, -6, 0], [6i64, 4, 5]))?;
    /// assert_eq!(m.to_vec::<i64>()?, [12, 12, 0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn lcm(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_integers("lcm", [self, y], at, |[x, y]| {
            let d = divisor(x, y);
            let zero = d.eq(0);
            size(x / select(zero, 1, d) * y)
        })
    }
}

/// Runs Euclid's algorithm on all pairs at once, until it has ended for each of them.
fn divisor(x: Var, y: Var) -> Var {
    // Broadcast both operands to one shape, because a carry of a loop must not change its shape.
    let (x, y) = (x + y.zeros_like(), y + x.zeros_like());
    let (d, _) = while_loop(
        |(_, y): (Var, Var)| y.ne(0).any(),
        |(x, y): (Var, Var)| {
            let ended = y.eq(0);
            (select(ended, x, y), select(ended, y, x % y))
        },
        (size(x), size(y)),
    );
    size(d)
}

/// Returns the absolute value of x. An unsigned x is returned unchanged.
fn size(x: Var) -> Var {
    if x.dtype().is_signed() { x.abs() } else { x }
}
