//! The greatest common divisor and the least common multiple, by Euclid's algorithm as a loop.

use super::while_loop;
use crate::Var;
use crate::ops::{of_integers, select};
use crate::var::{IntoVar, caller};

/// Divisors and multiples of integers of one dtype, broadcast together.
impl Var {
    /// The greatest common divisor of |x| and |y|, never negative (but of the least integer, whose size has no place in
    /// the dtype); gcd(x, 0) = |x|.
    ///
    /// Integers have no tangents. Errors: `dtype` if an operand is no integer.
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

    /// The least common multiple of |x| and |y|, which wraps where it has no place in the dtype; 0 if either is 0.
    ///
    /// Integers have no tangents. Errors: `dtype` if an operand is no integer.
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

/// Euclid's algorithm on every pair at once, as long as one goes on.
fn divisor(x: Var, y: Var) -> Var {
    // Literals become arrays: what a loop carries keeps its shape.
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

/// |x|, of which unsigned dtypes have nothing.
fn size(x: Var) -> Var {
    if x.dtype().is_signed() { x.abs() } else { x }
}
