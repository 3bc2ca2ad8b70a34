//! Index arithmetic: affine forms in loop indices and run-time scalars.
//!
//! An element of an array is named by one [`Affine`] per axis. Views map affine forms to affine
//! forms, so that a chain of slices, permutations and broadcasts costs nothing at run time: with
//! `y = rev(x)[2:]` the element `y[i]` is `x[n - 3 - i]`.

use crate::loop_ir::{IndexId, ScalarId};
use smallvec::SmallVec;

/// What an affine form is affine in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Term {
    /// A loop index.
    Index(IndexId),
    /// An i64 scalar.
    Scalar(ScalarId),
}

/// `offset + Σ term * factor`; terms are sorted and no factor is zero, so equal forms are equal
/// values.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Affine {
    pub(crate) offset: i64,
    pub(crate) terms: SmallVec<[(Term, i64); 2]>,
}

/// One affine form per axis of an array.
pub(crate) type Index = SmallVec<[Affine; 4]>;

/// The least and the largest value of something.
pub(crate) type Range = (i64, i64);

impl Affine {
    pub(crate) fn constant(offset: i64) -> Affine {
        Affine { offset, terms: SmallVec::new() }
    }

    pub(crate) fn term(term: Term) -> Affine {
        Affine { offset: 0, terms: SmallVec::from_slice(&[(term, 1)]) }
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.terms.is_empty()
    }

    /// `self * factor + offset`
    pub(crate) fn scale(&self, factor: i64, offset: i64) -> Affine {
        if factor == 0 {
            return Affine::constant(offset);
        }
        let terms = self.terms.iter().map(|(t, f)| (*t, f * factor)).collect();
        Affine { offset: self.offset * factor + offset, terms }
    }

    pub(crate) fn add(&self, other: &Affine) -> Affine {
        let mut terms: SmallVec<[(Term, i64); 2]> = SmallVec::new();
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some((s, f)), Some((t, g))) if s == t => {
                    let sum = (*s, f + g);
                    a.next();
                    b.next();
                    sum
                }
                (Some(x), Some(y)) if x.0 < y.0 => {
                    let x = **x;
                    a.next();
                    x
                }
                (Some(x), None) => {
                    let x = **x;
                    a.next();
                    x
                }
                (_, Some(y)) => {
                    let y = **y;
                    b.next();
                    y
                }
                (None, None) => break,
            };
            if next.1 != 0 {
                terms.push(next);
            }
        }
        Affine { offset: self.offset + other.offset, terms }
    }

    /// The only loop index that this is, if it is nothing else.
    pub(crate) fn as_index(&self) -> Option<IndexId> {
        match (self.offset, self.terms.as_slice()) {
            (0, [(Term::Index(i), 1)]) => Some(*i),
            _ => None,
        }
    }

    /// Least and largest value, given those of the terms; saturating.
    pub(crate) fn range(&self, of: &impl Fn(Term) -> Range) -> Range {
        let mut range = (self.offset, self.offset);
        for (t, f) in &self.terms {
            let (lo, hi) = of(*t);
            let (a, b) = (lo.saturating_mul(*f), hi.saturating_mul(*f));
            range = (range.0.saturating_add(a.min(b)), range.1.saturating_add(a.max(b)));
        }
        range
    }

    /// This divided by a positive d, rounded down, and the remainder in `0..d`. What the ranges of the
    /// terms decide is decided here; the rest is left for the program to do when it runs.
    ///
    /// With w and x whatever they are, c and g positive:
    ///
    /// ```text
    /// (d w + x) / d = w + x / d          (d w + x) % d = x % d
    /// r / d = 0                          r % d = r                        where 0 <= r < d
    /// (g x + r) / (g c) = x / c          (g x + r) % (g c) = g (x % c) + r    where 0 <= r < g
    /// ```
    ///
    /// The third row leaves fewer terms to divide, and those of the outer loops.
    pub(crate) fn divide(&self, d: i64, of: &impl Fn(Term) -> Range) -> Division {
        let (w, x) = self.split(d, |f| (f / d, f % d));
        if let Some((c, remainder)) = x.within(d, of) {
            return Division { quotient: w.scale(1, c), remainder, inner: None };
        }
        let mut factors: SmallVec<[i64; 2]> = x.terms.iter().map(|(_, f)| gcd(d, *f)).collect();
        factors.sort_by_key(|g| -g);
        for g in factors {
            let (outer, r) = x.split(g, |f| if f % g == 0 { (f / g, 0) } else { (0, f) });
            if let Some((c, remainder)) = r.within(g, of) {
                let inner = Some((outer.scale(1, c), d / g));
                return Division { quotient: w, remainder, inner };
            }
        }
        Division { quotient: w, remainder: Affine::default(), inner: Some((x, d)) }
    }

    /// `(w, x)` with `self = d w + x`: the offset of x lies in `0..d`, its factors are chosen.
    fn split(&self, d: i64, factor: impl Fn(i64) -> (i64, i64)) -> (Affine, Affine) {
        let mut w = Affine::constant(self.offset.div_euclid(d));
        let mut x = Affine::constant(self.offset.rem_euclid(d));
        for (t, f) in &self.terms {
            let (whole, rest) = factor(*f);
            w.terms.extend((whole != 0).then_some((*t, whole)));
            x.terms.extend((rest != 0).then_some((*t, rest)));
        }
        (w, x)
    }

    /// `(c, r)` with `self = d c + r` and `0 <= r < d`, if c is one number whatever the terms are.
    fn within(&self, d: i64, of: &impl Fn(Term) -> Range) -> Option<(i64, Affine)> {
        let (lo, hi) = self.range(of);
        let c = lo.div_euclid(d);
        (c == hi.div_euclid(d)).then(|| (c, self.scale(1, -c * d)))
    }
}

/// A quotient and a remainder, as far as they are affine:
///
/// ```text
/// a / d = quotient + x / c           a % d = remainder + d/c (x % c)        inner = (x, c)
/// ```
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Division {
    pub(crate) quotient: Affine,
    pub(crate) remainder: Affine,
    /// What is divided when the program runs.
    pub(crate) inner: Option<(Affine, i64)>,
}

impl Division {
    /// Quotient and remainder, if nothing is left to divide.
    pub(crate) fn exact(self) -> Option<(Affine, Affine)> {
        self.inner.is_none().then_some((self.quotient, self.remainder))
    }
}

/// The greatest common divisor of a positive number and another.
fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b.abs(), a % b.abs()) }
}

/// The row-major position of an index.
pub(crate) fn flatten(index: &[Affine], shape: &[usize]) -> Affine {
    let mut flat = Affine::default();
    for (a, extent) in index.iter().zip(shape) {
        flat = flat.scale(*extent as i64, 0).add(a);
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweeps::Sweep;
    use cranelift_entity::EntityRef;

    fn i(n: usize) -> Affine {
        Affine::term(Term::Index(IndexId::new(n)))
    }

    #[test]
    fn addition_keeps_terms_sorted_and_drops_zeros() {
        let a = i(1).scale(3, 2).add(&i(0));
        assert_eq!(a, i(0).add(&i(1).scale(3, 2)));
        assert_eq!(a.add(&i(1).scale(-3, 0)), i(0).scale(1, 2));
    }

    #[test]
    fn a_row_major_position_is_taken_apart_again() {
        let extents = |t: Term| match t {
            Term::Index(i) if i.index() == 0 => (0, 7),
            _ => (0, 99),
        };
        let flat = flatten(&[i(0), i(1)], &[8, 100]);
        assert_eq!(flat.divide(100, &extents).exact(), Some((i(0), i(1))));
        assert_eq!(flat.divide(50, &extents).exact(), None);
        assert_eq!(flat.scale(1, 1).divide(100, &extents).exact(), None);
    }

    /// Random forms of three terms, divided by random numbers, at every value of the terms.
    #[test]
    fn quotients_and_remainders_are_those_of_numbers() {
        let mut state = Sweep::Quotients.seed();
        let mut random = |least: i64, most: i64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            least + ((state >> 33) % (most - least + 1) as u64) as i64
        };
        let (mut exact, mut smaller) = (0, 0);
        for _ in 0..Sweep::Quotients.cases() {
            let mut range = || {
                let lo = random(-3, 2);
                (lo, lo + random(0, 5))
            };
            let ranges = [range(), range(), range()];
            let of = |t: Term| match t {
                Term::Index(i) => ranges[i.index()],
                Term::Scalar(_) => (i64::MIN, i64::MAX),
            };
            let d = [1, 2, 3, 4, 6, 8, 12, 16, 32][random(0, 8) as usize];
            let factors: Vec<i64> = (0..3)
                .map(|_| [0, 1, -1, 2, 3, 4, -4, 6, 8, 12, 32, 33][random(0, 11) as usize])
                .collect();
            let a = (0..3)
                .fold(Affine::constant(random(-40, 40)), |a, n| a.add(&i(n).scale(factors[n], 0)));
            let division = a.divide(d, &of);
            match &division.inner {
                None => exact += 1,
                Some((x, c)) => smaller += usize::from(*c < d && x.terms.len() < a.terms.len()),
            }
            let values = ranges.iter().fold(vec![vec![]], |all: Vec<Vec<i64>>, (lo, hi)| {
                let longer = |v: &Vec<i64>| {
                    let v = v.clone();
                    (*lo..=*hi).map(move |i| [&v[..], &[i]].concat())
                };
                all.iter().flat_map(longer).collect()
            });
            for v in values {
                let at = |a: &Affine| {
                    a.range(&|t| match t {
                        Term::Index(i) => (v[i.index()], v[i.index()]),
                        Term::Scalar(_) => (0, 0),
                    })
                    .0
                };
                let (mut quotient, mut rest) = (at(&division.quotient), at(&division.remainder));
                if let Some((x, c)) = &division.inner {
                    quotient += at(x).div_euclid(*c);
                    rest += d / c * at(x).rem_euclid(*c);
                }
                let n = at(&a);
                assert_eq!((quotient, rest), (n.div_euclid(d), n.rem_euclid(d)), "{a:?} / {d}");
            }
        }
        assert!(exact > 1000 && smaller > 200, "{exact} {smaller}");
    }
}
