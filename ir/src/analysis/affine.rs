//! Affine forms: a number plus multiples of atoms.
//!
//! ```text
//! for i0 in 8 { for i1 in 3 { .. x[24 - 3 i0 + i1] .. } }       offset 24, terms (i0, -3), (i1, 1)
//! ```
//!
//! An atom is any integer that an analysis treats as opaque, for example the counter of a loop, a scalar, or an element
//! of an array. Equal forms are equal values, so forms can be compared and used as keys.
//!
//! There are two kinds of arithmetic. [`Affine::plus`], [`Affine::times`] and [`Affine::moved`] wrap as the
//! arithmetic of programs does, so a form stays congruent to the value that the program computes.
//! [`Affine::checked_plus`] and [`Affine::checked_times`] return `None` on overflow, so their result equals the
//! sum over the integers and may be compared. [`Affine::interval`] is computed without a limit: if the interval
//! lies within `i64`, the form does not wrap.

use super::interval::Interval;
use crate::lang::types::gcd;
use smallvec::SmallVec;
use std::fmt;

/// The atoms (unknown integers) of an affine form, each with its factor.
type Terms<A> = SmallVec<[(A, i64); 2]>;

/// The affine form `offset + Σ atom * factor`, an integer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Affine<A> {
    offset: i64,
    /// The atoms with their factors, in ascending order of the atoms; no factor is 0.
    terms: Terms<A>,
}

impl<A> Default for Affine<A> {
    fn default() -> Affine<A> {
        Affine::constant(0)
    }
}

impl<A> Affine<A> {
    /// Makes the form without atoms whose value is `offset`.
    pub fn constant(offset: i64) -> Affine<A> {
        Affine { offset, terms: SmallVec::new() }
    }

    /// Returns the number that is added to the multiples of atoms.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Returns the atoms of the form in ascending order, with their nonzero factors.
    pub fn terms(&self) -> &[(A, i64)] {
        &self.terms
    }

    /// Returns the form's constant value; `None` if the form has atoms.
    pub fn value(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.offset)
    }

    /// Returns the form `self + by`; the offset wraps on overflow.
    #[must_use]
    pub fn moved(mut self, by: i64) -> Affine<A> {
        self.offset = self.offset.wrapping_add(by);
        self
    }
}

impl<A: Copy + Ord> Affine<A> {
    /// Makes the form that equals one atom: offset 0, factor 1.
    pub fn atom(atom: A) -> Affine<A> {
        Affine { offset: 0, terms: SmallVec::from_iter([(atom, 1)]) }
    }

    /// Returns the factor of `atom` in the form; 0 if it does not occur.
    pub fn factor(&self, atom: A) -> i64 {
        self.terms.iter().find(|t| t.0 == atom).map_or(0, |t| t.1)
    }

    /// Returns the form without the term of `atom`, and the factor of that atom.
    pub fn without(&self, atom: A) -> (Affine<A>, i64) {
        let (these, rest) = self.partition(|a| a == atom);
        (rest, these.factor(atom))
    }

    /// Splits the form in two: the terms whose atom `of` accepts, with offset 0, and the other terms, with the offset.
    pub fn partition(&self, of: impl Fn(A) -> bool) -> (Affine<A>, Affine<A>) {
        let (these, others) = self.terms.iter().copied().partition(|(a, _)| of(*a));
        (Affine { offset: 0, terms: these }, Affine { offset: self.offset, terms: others })
    }

    /// Returns the form `self + factor other`; numbers wrap on overflow.
    #[must_use]
    pub fn plus(&self, other: &Affine<A>, factor: i64) -> Affine<A> {
        self.overflowing_plus(other, factor).0
    }

    /// Returns the form `factor self`; numbers wrap on overflow.
    #[must_use]
    pub fn times(&self, factor: i64) -> Affine<A> {
        Affine::default().plus(self, factor)
    }

    /// Returns the form `self + factor other`; `None` if the offset or a factor overflows `i64`.
    pub fn checked_plus(&self, other: &Affine<A>, factor: i64) -> Option<Affine<A>> {
        let (sum, wrapped) = self.overflowing_plus(other, factor);
        (!wrapped).then_some(sum)
    }

    /// Returns the form `factor self`; `None` if the offset or a factor overflows `i64`.
    pub fn checked_times(&self, factor: i64) -> Option<Affine<A>> {
        Affine::default().checked_plus(self, factor)
    }

    /// Returns the form `self + factor other`, and whether the offset or a factor wrapped.
    fn overflowing_plus(&self, other: &Affine<A>, factor: i64) -> (Affine<A>, bool) {
        let mut wrapped = false;
        let mut sum = |a: i64, b: i64| {
            let (product, high) = b.overflowing_mul(factor);
            let (sum, carry) = a.overflowing_add(product);
            wrapped |= high || carry;
            sum
        };
        let offset = sum(self.offset, other.offset);
        let mut terms = Terms::new();
        let mut own = self.terms.iter().copied().peekable();
        for (atom, f) in &other.terms {
            terms.extend(std::iter::from_fn(|| own.next_if(|t| t.0 < *atom)));
            let before = own.next_if(|t| t.0 == *atom).map_or(0, |t| t.1);
            let f = sum(before, *f);
            terms.extend((f != 0).then_some((*atom, f)));
        }
        terms.extend(own);
        (Affine { offset, terms }, wrapped)
    }

    /// Returns an interval that contains the form's value, given an interval for each atom.
    pub fn interval(&self, mut of: impl FnMut(A) -> Interval) -> Interval {
        let offset = Interval::number(self.offset);
        self.terms.iter().fold(offset, |sum, (atom, f)| sum.plus(of(*atom).times(*f)))
    }

    /// Returns the form's value if each atom has the value that `of` returns for it; `None` if `of` returns `None` for
    /// an atom, or if a number overflows `i64`.
    pub fn at(&self, of: impl Fn(A) -> Option<i64>) -> Option<i64> {
        let (mut terms, start) = (self.terms.iter(), self.offset);
        terms.try_fold(start, |sum, (atom, f)| sum.checked_add(of(*atom)?.checked_mul(*f)?))
    }

    /// Divides the form by a positive number d: returns the quotient rounded down, and the remainder in `0..d`. The
    /// division is done at compile time as far as the intervals that `of` gives for the atoms decide it. The rest is
    /// left for run time.
    ///
    /// For any forms w, x and r, and positive integers c and g:
    ///
    /// ```text
    /// (d w + x) / d = w + x / d          (d w + x) % d = x % d
    /// r / d = 0                          r % d = r                        where 0 <= r < d
    /// (g x + r) / (g c) = x / c          (g x + r) % (g c) = g (x % c) + r    where 0 <= r < g
    /// ```
    ///
    /// The third row leaves fewer terms to divide at run time, and these terms belong to outer loops. The caller
    /// guarantees that the program computes the form without wrapping. If d is not positive, the whole division is left
    /// for run time.
    pub fn divide(&self, d: i64, of: impl Fn(A) -> Interval) -> Division<A> {
        if d < 1 {
            let inner = Some((self.clone(), d));
            return Division { quotient: Affine::default(), remainder: Affine::default(), inner };
        }
        let (w, x) = self.split(d, |f| (f / d, f % d));
        if let Some((c, remainder)) = x.within(d, &of) {
            return Division { quotient: w.moved(c), remainder, inner: None };
        }
        let mut factors: SmallVec<[i64; 2]> = x.terms.iter().map(|(_, f)| gcd(d, *f)).collect();
        factors.sort_by_key(|g| -g);
        for g in factors {
            let (outer, r) = x.split(g, |f| if f % g == 0 { (f / g, 0) } else { (0, f) });
            if let Some((c, remainder)) = r.within(g, &of) {
                let inner = Some((outer.moved(c), d / g));
                return Division { quotient: w, remainder, inner };
            }
        }
        Division { quotient: w, remainder: Affine::default(), inner: Some((x, d)) }
    }

    /// Splits the form as `self = d w + x`, and returns w and x. The offset of x lies in `0..d`; `factor` splits
    /// each factor into its shares of w and x.
    fn split(&self, d: i64, factor: impl Fn(i64) -> (i64, i64)) -> (Affine<A>, Affine<A>) {
        let mut w = Affine::constant(self.offset.div_euclid(d));
        let mut x = Affine::constant(self.offset.rem_euclid(d));
        for (atom, f) in &self.terms {
            let (whole, rest) = factor(*f);
            w.terms.extend((whole != 0).then_some((*atom, whole)));
            x.terms.extend((rest != 0).then_some((*atom, rest)));
        }
        (w, x)
    }

    /// Returns the quotient c and the remainder r (`self = d c + r`, `0 <= r < d`); `None` unless c is the same for all
    /// values of the atoms.
    fn within(&self, d: i64, of: impl Fn(A) -> Interval) -> Option<(i64, Affine<A>)> {
        let Interval { least, most } = self.interval(of);
        let c = least.div_euclid(d.into());
        let c = i64::try_from(c).ok().filter(|_| c == most.div_euclid(d.into()))?;
        Some((c, self.clone().moved(c.wrapping_mul(-d))))
    }
}

/// Prints the form, such as `i0*3 + i1 - 5`.
impl<A: fmt::Display> fmt::Display for Affine<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (atom, factor)) in self.terms.iter().enumerate() {
            let plus = if n > 0 { " + " } else { "" };
            match factor {
                1 => write!(f, "{plus}{atom}")?,
                factor => write!(f, "{plus}{atom}*{factor}")?,
            }
        }
        match (self.terms.is_empty(), self.offset) {
            (true, offset) => write!(f, "{offset}"),
            (false, 0) => Ok(()),
            (false, offset @ ..0) => write!(f, " - {}", offset.unsigned_abs()),
            (false, offset) => write!(f, " + {offset}"),
        }
    }
}

/// The result of dividing an affine form a by a positive number d. The part of the division that cannot be done at
/// compile time is `inner`, with this meaning:
///
/// ```text
/// a / d = quotient + x / c           a % d = remainder + d/c (x % c)        inner = (x, c)
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Division<A> {
    /// The part of the quotient that is known at compile time.
    pub quotient: Affine<A>,
    /// The part of the remainder that is known at compile time.
    pub remainder: Affine<A>,
    /// The division that is left for run time: the dividend x and the divisor c.
    pub inner: Option<(Affine<A>, i64)>,
}

impl<A> Division<A> {
    /// Returns quotient and remainder; `None` if a division is left for run time.
    pub fn exact(self) -> Option<(Affine<A>, Affine<A>)> {
        self.inner.is_none().then_some((self.quotient, self.remainder))
    }
}

/// Returns the row-major position, in elements, of an index into an array of shape `shape`. The index has one form per
/// axis.
pub fn flatten<A: Copy + Ord>(index: &[Affine<A>], shape: &[usize]) -> Affine<A> {
    let steps = index.iter().zip(shape);
    steps.fold(Affine::default(), |flat, (a, extent)| flat.times(*extent as i64).plus(a, 1))
}
