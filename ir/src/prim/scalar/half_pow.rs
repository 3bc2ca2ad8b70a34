//! `half_pow{n}`: a power with a constant exponent n/2, for an odd n; and the choice among the primitives for a constant
//! exponent.
//!
//! A square root and a few products or quotients take a tenth of the time of `pow`. `half_pow` has the edges of `pow`, not
//! those of its parts (√-0 is -0, but the power is 0), and one derivative instead of theirs: at 0, the derivative of
//! `x · √x` would be a product of 0 and ∞.

use super::integer_pow::IntegerPow;
use super::special_function::{SpecialFunction, indexed, samples_at};
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::Dtype;
use crate::math;
use crate::prim::rules::expr::Expr;
use crate::prim::{Code, Doc, Family, Library, Op, Sample, SignOf, StableHlo};

/// A power with the constant exponent n/2. Its text is `half_pow{n}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct HalfPow {
    /// Twice the exponent: one of [`HalfPow::NUMBERS`].
    pub n: i32,
}

notation!(HalfPow = "half_pow" { n });

impl HalfPow {
    /// The numbers n that the primitive supports. For other n, the power would take more factors, each with a rounding
    /// error.
    pub const NUMBERS: &'static [i32] = &[-3, -1, 1, 3, 5];
}

impl SpecialFunction for HalfPow {
    const ARITY: usize = 1;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Exponential,
            name: "half_pow{n}".into(),
            math: "xⁿᐟ²".into(),
            types: "floats".into(),
            derivative: "∂x: t · n/2 · half_pow{n-2}(x); t · n/2 · f · half_pow{-1}(x)² for n = -3"
                .into(),
            edges:
                "those of pow: nan below 0, but 0 or inf at -inf; the powers of -0 are those of 0"
                    .into(),
        }]
    }

    fn code(self) -> Result<Code> {
        if !HalfPow::NUMBERS.contains(&self.n) {
            return Err(Problem::new(
                Kind::Arguments,
                format!("`half_pow` is defined for n in {:?}, got {}", HalfPow::NUMBERS, self.n),
                "write `pow` with the exponent n/2",
            ));
        }
        let code = indexed!(
            "half_pow", 12, self.n, StableHlo::Recording, math::half_pow,
            parted -3 => math::HalfPow<-3>, -1 => math::HalfPow<-1>, 1 => math::HalfPow<1>,
                3 => math::HalfPow<3>, 5 => math::HalfPow<5>
        );
        Ok(match code {
            Code::Library(library) => Code::Library(Library { sign: SignOf::Plus, ..library }),
            code => code,
        })
    }

    fn partial<'b, 'm>(
        self,
        _: usize,
        t: Expr<'b, 'm>,
        x: &[Expr<'b, 'm>],
        y: Expr<'b, 'm>,
    ) -> Result<Expr<'b, 'm>> {
        let p = 0.5 * f64::from(self.n);
        let less = if HalfPow::NUMBERS.contains(&(self.n - 2)) || self.n > 0 {
            x[0].power(p - 1.0)
        } else {
            // The quotient f / x would have the sign of x at -0, so multiply f by two inverse roots instead.
            let root = x[0].unary(HalfPow { n: -1 });
            y * root * root
        };
        Ok(t * (p * less))
    }

    fn samples() -> Vec<Sample> {
        let smooth = [[0.05], [0.9], [2.5], [12.0]];
        let edge = [
            [0.0],
            [-0.0],
            [-1.5],
            [f64::INFINITY],
            [f64::NEG_INFINITY],
            [f64::NAN],
            [5e-324],
            [1e-206],
            [1e206],
        ];
        HalfPow::NUMBERS
            .iter()
            .flat_map(|n| samples_at(HalfPow { n: *n }, &smooth, &edge))
            .collect()
    }
}

/// Returns the primitive for a power with the constant exponent `p`, which must be a number of the operand's dtype, if it
/// takes fewer operations than `pow`: products for 2, 3 and 4, a quotient for -1, and `half_pow`. Further products would
/// be less accurate than `pow`; and the square in `1 / x²` overflows and underflows before the power does.
pub fn constant_power(p: f64) -> Option<Op> {
    let twice = 2.0 * p;
    let n = twice as i32;
    if f64::from(n) != twice {
        return None;
    }
    match n {
        -2 | 0 | 2 | 4 | 6 | 8 => Some(IntegerPow { n: n / 2 }.into()),
        n if HalfPow::NUMBERS.contains(&n) => Some(HalfPow { n }.into()),
        _ => None,
    }
}
