//! Transforms `y` compared with a reference `y'` in double-double arithmetic: `|y - y'| <= 4 eps log2(n) |y'|` in
//! the 2-norm.
//!
//! A double-double is a sum of two doubles, with some 32 digits (T. Dekker, *A floating-point technique for
//! extending the available precision*, 1971). The reference is a fast transform in this arithmetic, so that
//! lengths of a million are feasible: radix 2, and for other lengths a convolution with a chirp (L. Bluestein,
//! 1970). The reference itself is tested against the definition, a direct sum in double-double, and its roots
//! of unity against their products.

use std::ops::{Add, Mul, Neg, Sub};

use crate::checks::{Number, call, close, double, random};
use crate::sweeps::Sweep;
use tapeloom_routines::{Routine, half};

/// A double-double number: the sum of two doubles, of which the second is at most half a unit in the last place
/// of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Long(f64, f64);

/// Returns `a + b` with its rounding error, for `|a| >= |b|`.
fn fast_sum(a: f64, b: f64) -> Long {
    let sum = a + b;
    Long(sum, b - (sum - a))
}

/// Returns `a + b` with its rounding error, for any `a` and `b` (D. Knuth).
fn exact_sum(a: f64, b: f64) -> Long {
    let sum = a + b;
    let part = sum - a;
    Long(sum, (a - (sum - part)) + (b - part))
}

impl Add for Long {
    type Output = Long;
    fn add(self, y: Long) -> Long {
        let (high, low) = (exact_sum(self.0, y.0), exact_sum(self.1, y.1));
        let sum = fast_sum(high.0, high.1 + low.0);
        fast_sum(sum.0, sum.1 + low.1)
    }
}

impl Neg for Long {
    type Output = Long;
    fn neg(self) -> Long {
        Long(-self.0, -self.1)
    }
}

impl Sub for Long {
    type Output = Long;
    fn sub(self, y: Long) -> Long {
        self + -y
    }
}

impl Mul for Long {
    type Output = Long;
    fn mul(self, y: Long) -> Long {
        let product = self.0 * y.0;
        let error = self.0.mul_add(y.0, -product);
        fast_sum(product, error + (self.0 * y.1 + self.1 * y.0))
    }
}

impl Long {
    const ZERO: Long = Long(0.0, 0.0);
    const ONE: Long = Long(1.0, 0.0);
    const PI: Long = Long(std::f64::consts::PI, 1.224_646_799_147_353_2e-16);

    /// Returns the quotient `self / d`.
    fn over(self, d: f64) -> Long {
        let first = self.0 / d;
        let rest = self - Long(first, 0.0) * Long(d, 0.0);
        let second = rest.0 / d;
        let rest = rest - Long(second, 0.0) * Long(d, 0.0);
        fast_sum(first, second) + Long(rest.0 / d, 0.0)
    }
}

/// A complex number, as its real and imaginary part.
type Pair = [Long; 2];

fn plus(x: Pair, y: Pair) -> Pair {
    [x[0] + y[0], x[1] + y[1]]
}

fn minus(x: Pair, y: Pair) -> Pair {
    [x[0] - y[0], x[1] - y[1]]
}

fn times(x: Pair, y: Pair) -> Pair {
    [x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]]
}

fn conjugate([re, im]: Pair) -> Pair {
    [re, -im]
}

/// Returns the root of unity `exp(-2 π i k / n)`. Symmetry reduces the angle to an eighth of the circle, where
/// the series are short.
fn root(k: usize, n: usize) -> Pair {
    let k = k % n;
    if 2 * k > n {
        return conjugate(root(n - k, n));
    }
    // Uses exp(-i (π - a)) = -exp(i a) and exp(-i (π/2 - a)) = -i exp(i a), with the angle a of (n/2 - k) and of
    // (n/4 - k).
    if 4 * k > n {
        let [re, im] = unit(n - 2 * k, 2 * n);
        return [-re, -im];
    }
    if 8 * k > n {
        let [re, im] = unit(n - 4 * k, 4 * n);
        return [im, -re];
    }
    conjugate(unit(k, n))
}

/// Returns `exp(2 π i k / n)` by the series of cosine and sine, for an angle of at most a quarter of the circle.
fn unit(k: usize, n: usize) -> Pair {
    // An angle in the second eighth of the circle is replaced by its complement: sine and cosine are exchanged.
    if 8 * k > n {
        let [re, im] = unit(n - 4 * k, 4 * n);
        return [im, re];
    }
    let angle = (Long::PI * Long(2.0 * k as f64, 0.0)).over(n as f64);
    let mut sums = [Long::ZERO; 2];
    let (mut term, mut power) = (Long::ONE, 0);
    while term.0 > 1e-36 {
        let sign = if power & 2 == 0 { term } else { -term };
        sums[power & 1] = sums[power & 1] + sign;
        power += 1;
        term = (term * angle).over(power as f64);
    }
    sums
}

/// Computes the forward transform of a power-of-two length in place; `roots` are the roots of unity of a multiple
/// of that length.
fn radix_two(x: &mut [Pair], roots: &[Pair]) {
    let n = x.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) };
        if i < j {
            x.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        let stride = roots.len() / (2 * half);
        for block in x.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let turned = times(*b, roots[k * stride]);
                (*a, *b) = (plus(*a, turned), minus(*a, turned));
            }
        }
        half *= 2;
    }
}

fn roots(n: usize) -> Vec<Pair> {
    (0..n).map(|k| root(k, n)).collect()
}

/// Computes the forward transform of any length, in double-double arithmetic.
///
/// ```text
/// j k = (j² + k² - (j - k)²) / 2        y[j] = c[j] Σ_k (x[k] c[k]) conj(c[j - k])        c[k] = exp(-π i k² / n)
/// ```
fn fast(x: &[Pair]) -> Vec<Pair> {
    let n = x.len();
    if n.is_power_of_two() {
        let mut y = x.to_vec();
        radix_two(&mut y, &roots(n));
        return y;
    }
    let chirp: Vec<Pair> = (0..n).map(|k| root(k * k % (2 * n), 2 * n)).collect();
    let length = (2 * n - 1).next_power_of_two();
    let roots = roots(length);
    let zero = [Long::ZERO; 2];
    let mut a: Vec<Pair> = x.iter().zip(&chirp).map(|(x, c)| times(*x, *c)).collect();
    a.resize(length, zero);
    let mut b = vec![zero; length];
    for (k, c) in chirp.iter().enumerate() {
        b[k] = conjugate(*c);
        b[(length - k) % length] = conjugate(*c);
    }
    radix_two(&mut a, &roots);
    radix_two(&mut b, &roots);
    // `radix_two` computes forward transforms only: the inverse is the conjugate of the transform of the
    // conjugate, divided by the length, a power of two.
    let mut product: Vec<Pair> = a.iter().zip(&b).map(|(a, b)| conjugate(times(*a, *b))).collect();
    radix_two(&mut product, &roots);
    let size = 1.0 / length as f64;
    let scaled = |x: Pair| x.map(|x| Long(x.0 * size, x.1 * size));
    let turned = product.iter().zip(&chirp);
    turned.map(|(y, c)| times(scaled(conjugate(*y)), *c)).collect()
}

/// Computes the forward transform by its definition, to test `fast`.
fn direct(x: &[Pair]) -> Vec<Pair> {
    let n = x.len();
    let roots = roots(n);
    let entry = |j: usize| {
        let terms = x.iter().enumerate().map(|(k, x)| times(*x, roots[j * k % n]));
        terms.fold([Long::ZERO; 2], plus)
    };
    (0..n).map(entry).collect()
}

/// Returns `n` complex numbers from `parts`, which has the real parts, then the imaginary parts. Missing numbers are
/// zero.
fn joined(n: usize, parts: &[f64]) -> Vec<Pair> {
    let part = |place: usize| Long(parts.get(place).copied().unwrap_or(0.0), 0.0);
    (0..n).map(|k| [part(k), part(n + k)]).collect()
}

/// Returns the real parts in double precision, then the imaginary parts.
fn parted(pairs: &[Pair]) -> Vec<f64> {
    (0..2).flat_map(|part| pairs.iter().map(move |pair| pair[part].0)).collect()
}

/// Returns the reference transform in either direction: the inverse transform of `x` is the conjugate of the
/// transform of its conjugate.
fn reference(x: &[Pair], inverse: bool) -> Vec<Pair> {
    if !inverse {
        return fast(x);
    }
    let mirrored: Vec<Pair> = x.iter().copied().map(conjugate).collect();
    fast(&mirrored).into_iter().map(conjugate).collect()
}

/// Returns the lengths that are tested: all up to 64, then primes and powers of two up to 2^20. `cargo test` runs only
/// the first of these lengths. The nightly run takes all.
fn lengths() -> impl Iterator<Item = usize> {
    let mixed = [67, 128, 127, 256, 251, 512, 509, 1024, 1021, 2048, 2039, 4096];
    let large = [4093, 8191, 8192, 16_381, 16_384, 32_749, 32_768, 65_521, 65_536, 131_071];
    let largest = [131_072, 262_139, 262_144, 524_287, 524_288, 1_048_573, 1_048_576];
    (1..=64).chain(mixed).chain(large).chain(largest)
}

fn bound(n: usize) -> f64 {
    4.0 * (n as f64).log2()
}

fn is_accurate<T: Number>(n: usize) {
    let x: Vec<T> = random(2 * n, n as u64);
    let wide = joined(n, &double(&x));
    for inverse in [false, true] {
        let routine = Routine::Fft { rows: 1, n, columns: 1, inverse };
        let y = call(&routine, &[&x]).double(0);
        close::<T>(bound(n), &y, &parted(&reference(&wide, inverse)), &format!("{routine}"));
    }
    let routine = Routine::RealFft { rows: 1, n, columns: 1 };
    let y = call(&routine, &[&x[..n]]).double(0);
    let whole = reference(&joined(n, &double(&x[..n])), false);
    close::<T>(bound(n), &y, &parted(&whole[..half(n)]), &format!("{routine}"));

    // Any numbers serve as half a spectrum. The reference transform gets the mirrored other half, too.
    let h = half(n);
    let spectrum = &x[..2 * h.min(n)];
    let mut whole = joined(h, &double(spectrum));
    whole[0][1] = Long::ZERO;
    if n.is_multiple_of(2) {
        whole[h - 1][1] = Long::ZERO;
    }
    let mirrored: Vec<Pair> = (h..n).map(|j| conjugate(whole[n - j])).collect();
    whole.extend(mirrored);
    let routine = Routine::InverseRealFft { rows: 1, n, columns: 1 };
    let y = call(&routine, &[spectrum]).double(0);
    let wanted = &parted(&reference(&whole, true))[..n];
    close::<T>(bound(n), &y, wanted, &format!("{routine}"));
}

#[test]
fn the_reference_is_the_definition_to_thirty_digits() {
    for n in (1..=64).chain([97, 128, 243, 256]) {
        let x = joined(n, &random::<f64>(2 * n, 7 * n as u64));
        let (fast, direct) = (fast(&x), direct(&x));
        let size = |x: &[Pair]| x.iter().flatten().map(|x| x.0 * x.0).sum::<f64>().sqrt();
        let off: Vec<Pair> = fast.iter().zip(&direct).map(|(x, y)| minus(*x, *y)).collect();
        assert!(size(&off) <= 1e-29 * size(&direct), "n = {n}: {:e}", size(&off) / size(&direct));
    }
}

#[test]
fn roots_of_unity_multiply_as_their_angles_add() {
    for n in [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 60, 64, 1009, 1 << 20] {
        for k in (0..n).step_by(1 + n / 50) {
            let [re, im] = root(k, n);
            let angle = 2.0 * std::f64::consts::PI * (k as f64 / n as f64);
            assert!((re.0 - angle.cos()).abs() < 2e-15 && (im.0 + angle.sin()).abs() < 2e-15);
            for j in [k, n / 3, n - 1] {
                let off = minus(times([re, im], root(j, n)), root(j + k, n));
                assert!(off.iter().all(|x| x.0.abs() < 4e-31), "{j} and {k} of {n}: {off:?}");
            }
        }
    }
}

#[test]
fn transforms_are_as_accurate_as_their_order() {
    let all: Vec<usize> = lengths().collect();
    let cases = usize::try_from(Sweep::TransformLengths.cases()).unwrap();
    assert!(cases <= all.len(), "{} lengths of {cases}", all.len());
    for &n in &all[..cases] {
        is_accurate::<f32>(n);
        is_accurate::<f64>(n);
    }
}
