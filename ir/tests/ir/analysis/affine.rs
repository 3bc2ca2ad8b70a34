//! Tests of `affine`.

use crate::sweeps::Sweep;
use tapeloom_ir::analysis::affine::{Affine, flatten};
use tapeloom_ir::analysis::interval::Interval;

fn i(n: usize) -> Affine<usize> {
    Affine::atom(n)
}

/// A generator of random numbers.
struct Random(u64);

impl Random {
    fn number(&mut self, least: i64, most: i64) -> i64 {
        let next = self.0.wrapping_mul(6364136223846793005);
        self.0 = next.wrapping_add(1442695040888963407);
        least + ((self.0 >> 33) % (most - least + 1) as u64) as i64
    }

    fn of(&mut self, all: &[i64]) -> i64 {
        all[self.number(0, all.len() as i64 - 1) as usize]
    }

    fn interval(&mut self) -> Interval {
        let least = self.number(-3, 2);
        Interval::new(least, least + self.number(0, 5))
    }
}

/// Returns all combinations of values of three atoms.
fn values(of: [Interval; 3]) -> Vec<[i64; 3]> {
    let [a, b, c] = of.map(|r| r.least as i64..=r.most as i64);
    let pairs = a.flat_map(|a| b.clone().map(move |b| (a, b)));
    pairs.flat_map(|(a, b)| c.clone().map(move |c| [a, b, c])).collect()
}

/// Evaluates a form at these values of the atoms.
fn at(a: &Affine<usize>, v: &[i64; 3]) -> i128 {
    let terms = a.terms().iter().map(|(n, f)| i128::from(v[*n]) * i128::from(*f));
    i128::from(a.offset()) + terms.sum::<i128>()
}

#[test]
fn addition_keeps_terms_sorted_and_drops_zeros() {
    let a = i(1).times(3).moved(2).plus(&i(0), 1);
    assert_eq!(a, i(0).plus(&i(1).times(3).moved(2), 1));
    assert_eq!(a.plus(&i(1), -3), i(0).moved(2));
    assert_eq!((a.times(0), a.factor(1), a.factor(2)), (Affine::default(), 3, 0));
    assert_eq!(
        (a.to_string(), a.times(-1).to_string()),
        ("0 + 1*3 + 2".into(), "0*-1 + 1*-3 - 2".into())
    );
    assert_eq!(
        (i(0).to_string(), Affine::<usize>::default().to_string()),
        ("0".into(), "0".into())
    );
}

#[test]
fn a_row_major_position_is_taken_apart_again() {
    let extents = |n: usize| Interval::below([8, 100][n]);
    let flat = flatten(&[i(0), i(1)], &[8, 100]);
    assert_eq!(flat.divide(100, extents).exact(), Some((i(0), i(1))));
    assert_eq!(flat.divide(50, extents).exact(), None);
    assert_eq!(flat.clone().moved(1).divide(100, extents).exact(), None);
    for d in [0, -1, i64::MIN] {
        assert_eq!(flat.divide(d, extents).inner, Some((flat.clone(), d)));
    }
}

/// Checks sums of random forms of three atoms against integer arithmetic, at values of the atoms; factors have
/// any size.
#[test]
fn forms_are_the_numbers_that_they_say() {
    const FACTORS: [i64; 10] = [0, 1, -1, 2, 7, -12, 1 << 40, i64::MAX, i64::MIN, i64::MAX / 3 + 1];
    let mut random = Random(Sweep::Forms.seed());
    let (mut exact, mut lost) = (0, 0);
    for _ in 0..Sweep::Forms.cases() {
        let mut form = |most: i64| {
            let mut factor = || random.of(&FACTORS[..most as usize]);
            let start = Affine::constant(factor());
            (0..3).fold(start, |a, n| a.plus(&i(n), factor()))
        };
        let (small, a, b) = (form(7), form(10), form(10));
        let (by, of) =
            (random.of(&FACTORS), [random.interval(), random.interval(), random.interval()]);
        let (sum, checked) = (a.plus(&b, by), a.checked_plus(&b, by));
        assert!(sum.terms().is_sorted_by(|s, t| s.0 < t.0), "{sum:?}");
        assert!(sum.terms().iter().all(|t| t.1 != 0), "{sum:?}");
        let (odd, rest) = sum.partition(|n| n % 2 == 1);
        assert_eq!(odd.plus(&rest, 1), sum);
        let (without, factor) = sum.without(2);
        assert_eq!((without.factor(2), without.plus(&i(2), factor)), (0, sum.clone()));
        match &checked {
            Some(checked) => {
                exact += 1;
                assert_eq!((checked, b.checked_times(by)), (&sum, Some(b.times(by))));
            }
            None => lost += 1,
        }
        for v in values(of) {
            let interval = small.interval(|n| of[n]);
            assert!(Interval::number(at(&small, &v)).within(interval), "{small:?}");
            if let Some(found) = sum.at(|n| Some(v[n])) {
                assert_eq!(i128::from(found), at(&sum, &v), "{sum:?}");
            }
            assert_eq!(small.at(|n| Some(v[n])).map(i128::from), Some(at(&small, &v)));
            // A sum that wraps must be congruent to the exact sum modulo 2^64.
            let number = at(&a, &v) as i64;
            let number = number.wrapping_add((at(&b, &v) as i64).wrapping_mul(by));
            assert_eq!(at(&sum, &v) as i64, number, "{a:?} + {by} {b:?}");
            if checked.is_some() {
                let number = at(&a, &v) + at(&b, &v) * i128::from(by);
                assert_eq!(at(&sum, &v), number, "{a:?} + {by} {b:?}");
            }
        }
    }
    assert!(exact > 500 && lost > 500, "{exact} {lost}");
}

/// Checks quotients and remainders of random forms of three atoms, at every value of the atoms.
#[test]
fn quotients_and_remainders_are_those_of_numbers() {
    let mut random = Random(Sweep::Quotients.seed());
    let (mut exact, mut smaller) = (0, 0);
    for _ in 0..Sweep::Quotients.cases() {
        let of = [random.interval(), random.interval(), random.interval()];
        let d = random.of(&[1, 2, 3, 4, 6, 8, 12, 16, 32]);
        let start = Affine::constant(random.number(-40, 40));
        let factors = [0, 1, -1, 2, 3, 4, -4, 6, 8, 12, 32, 33];
        let a = (0..3).fold(start, |a, n| a.plus(&i(n), random.of(&factors)));
        let division = a.divide(d, |n| of[n]);
        match &division.inner {
            None => exact += 1,
            Some((x, c)) => smaller += usize::from(*c < d && x.terms().len() < a.terms().len()),
        }
        for v in values(of) {
            let (mut quotient, mut rest) =
                (at(&division.quotient, &v), at(&division.remainder, &v));
            if let Some((x, c)) = &division.inner {
                quotient += at(x, &v).div_euclid((*c).into());
                rest += i128::from(d / c) * at(x, &v).rem_euclid((*c).into());
            }
            let (n, d) = (at(&a, &v), i128::from(d));
            assert_eq!((quotient, rest), (n.div_euclid(d), n.rem_euclid(d)), "{a:?} / {d}");
        }
    }
    assert!(exact > 1000 && smaller > 200, "{exact} {smaller}");
}
