//! Transforms of every small length must equal the definition; of long transforms, some entries are compared.

use crate::checks::{Number, call, close, double, norm, random};
use tapeloom_routines::Routine;

/// Returns the number of entries of half a spectrum of `n` real numbers.
fn half(n: usize) -> usize {
    n / 2 + 1
}

/// Returns the root of unity `exp(-2 pi i k / n)`, computed in the first eighth of the circle, where sine and
/// cosine of a small angle are accurate to about the last bit.
fn twiddle(k: usize, n: usize) -> [f64; 2] {
    let k = k % n;
    if 2 * k > n {
        let [re, im] = twiddle(n - k, n);
        return [re, -im];
    }
    if 4 * k > n {
        // Uses the mirrored angle: exp(-i (pi - angle)).
        let angle = std::f64::consts::PI * ((n - 2 * k) as f64 / n as f64);
        return [-angle.cos(), -angle.sin()];
    }
    if 8 * k > n {
        let angle = std::f64::consts::FRAC_PI_2 * ((n - 4 * k) as f64 / n as f64);
        return [angle.sin(), -angle.cos()];
    }
    let angle = 2.0 * std::f64::consts::PI * (k as f64 / n as f64);
    [angle.cos(), -angle.sin()]
}

/// A sum that carries its rounding error (Neumaier), of products that a fused multiply-add splits exactly.
#[derive(Default)]
struct Sum {
    value: f64,
    error: f64,
}

impl Sum {
    fn add(&mut self, a: f64, b: f64) {
        let product = a * b;
        let sum = self.value + product;
        let part = sum - self.value;
        self.error += (self.value - (sum - part)) + (product - part) + a.mul_add(b, -product);
        self.value = sum;
    }

    fn total(&self) -> f64 {
        self.value + self.error
    }
}

/// Returns entry `j` of the transform of `x` by its definition; `table` holds the roots of unity.
fn direct(x: &[f64], j: usize, inverse: bool, table: &[[f64; 2]]) -> [f64; 2] {
    let n = x.len() / 2;
    let (mut re, mut im) = (Sum::default(), Sum::default());
    for k in 0..n {
        let [c, s] = table[j * k % n];
        let s = if inverse { -s } else { s };
        let (a, b) = (x[k], x[n + k]);
        re.add(a, c);
        re.add(-b, s);
        im.add(a, s);
        im.add(b, c);
    }
    [re.total(), im.total()]
}

fn table(n: usize) -> Vec<[f64; 2]> {
    (0..n).map(|k| twiddle(k, n)).collect()
}

/// Returns the whole transform of `x` by its definition, the real parts before the imaginary parts.
fn all_direct(x: &[f64], inverse: bool) -> Vec<f64> {
    let n = x.len() / 2;
    let table = table(n);
    let pairs: Vec<_> = (0..n).map(|j| direct(x, j, inverse, &table)).collect();
    let part = |part: usize| pairs.iter().map(move |pair| pair[part]);
    part(0).chain(part(1)).collect()
}

/// Returns the permitted error of a transform of length `n`, in epsilons of the norm.
fn bound(n: usize) -> f64 {
    4.0 * (n as f64).log2().max(1.0)
}

fn spectrum(whole: &[f64]) -> Vec<f64> {
    let n = whole.len() / 2;
    [&whole[..half(n)], &whole[n..n + half(n)]].concat()
}

fn agrees<T: Number>(n: usize) {
    let x: Vec<T> = random(2 * n, n as u64);
    for inverse in [false, true] {
        let y = call(&Routine::Fft { rows: 1, n, columns: 1, inverse }, &[&x]).double(0);
        let wanted = all_direct(&double(&x), inverse);
        close::<T>(bound(n), &y, &wanted, &format!("n = {n}, {inverse}"));
    }
    // Test the transform of a real sequence, and its inverse from the spectrum. Elements that must not be read
    // are NaN.
    let real = &x[..n];
    let mut complex = double(real);
    complex.resize(2 * n, 0.0);
    let wanted = spectrum(&all_direct(&complex, false));
    let y = call(&Routine::RealFft { rows: 1, n, columns: 1 }, &[real]);
    close::<T>(bound(n), &y.double(0), &wanted, &format!("real, n = {n}"));
    let mut y: Vec<T> = wanted.into_iter().map(T::of).collect();
    y[half(n)] = T::NAN;
    if n.is_multiple_of(2) {
        y[2 * half(n) - 1] = T::NAN;
    }
    let back = call(&Routine::InverseRealFft { rows: 1, n, columns: 1 }, &[&y]).double(0);
    let wanted: Vec<f64> = double(real).iter().map(|x| x * n as f64).collect();
    // The spectrum is an input that has been rounded once, which adds 1 to the permitted error.
    close::<T>(bound(n) + 1.0, &back, &wanted, &format!("back, n = {n}"));
}

#[test]
fn every_length_agrees_with_the_definition() {
    let primes = [67, 97, 127, 251, 509, 1009, 1999];
    let others = [100, 128, 243, 256, 360, 512, 625, 1000, 1024, 2047];
    for n in (1..=64).chain(primes).chain(others) {
        agrees::<f32>(n);
        agrees::<f64>(n);
    }
}

fn long<T: Number>(n: usize) {
    let x: Vec<T> = random(2 * n, n as u64);
    let y = call(&Routine::Fft { rows: 1, n, columns: 1, inverse: false }, &[&x]);
    let what = format!("n = {n}");
    // By Parseval's theorem the norm must grow by the factor √n.
    let grown = norm(&double(&x)) * (n as f64).sqrt();
    close::<T>(bound(n), &[norm(&y.double(0))], &[grown], &what);
    // For long transforms, only some entries are compared with the definition. Their error is relative to the typical
    // size of an entry.
    let table = table(n);
    let x = double(&x);
    for j in [0, 1, n / 3, n / 2, n - 1] {
        let wanted = direct(&x, j, false, &table);
        let y = y.double(0);
        let error = (y[j] - wanted[0]).hypot(y[n + j] - wanted[1]);
        assert!(error <= bound(n) * T::EPSILON * grown / (n as f64).sqrt() * 4.0, "{what}: {j}");
    }
    let back =
        call(&Routine::Fft { rows: 1, n, columns: 1, inverse: true }, &[&y.floats[0]]).double(0);
    let wanted: Vec<f64> = x.iter().map(|x| x * n as f64).collect();
    close::<T>(2.0 * bound(n), &back, &wanted, &what);
}

#[test]
fn long_transforms_agree_in_some_entries_and_return() {
    for n in [2048, 4093, 4096, 8192, 10_007, 16_384, 32_768, 65_521, 65_536] {
        long::<f32>(n);
        long::<f64>(n);
    }
}

/// Returns the indices of the numbers of sequence `(r, c)`, part `part` (0 real, 1 imaginary), in an array
/// `[parts, rows, n, columns]`.
fn places(
    [rows, n, columns]: [usize; 3],
    part: usize,
    [r, c]: [usize; 2],
) -> impl Iterator<Item = usize> {
    (0..n).map(move |k| ((part * rows + r) * n + k) * columns + c)
}

/// Tests that every sequence of an array has the same bits as when it is transformed alone, and that a NaN
/// affects only its own sequence.
fn every_sequence_is_by_itself<T: Number>(n: usize, columns: usize) {
    let rows = 2;
    let kinds = [
        (Routine::Fft { rows, n, columns, inverse: false }, [2, n], [2, n]),
        (Routine::RealFft { rows, n, columns }, [1, n], [2, half(n)]),
        (Routine::InverseRealFft { rows, n, columns }, [2, half(n)], [1, n]),
    ];
    for (routine, [parts, read], [into, written]) in kinds {
        let mut x: Vec<T> = random(parts * rows * read * columns, (n * columns) as u64);
        let spoilt = [rows - 1, columns / 2];
        // Spoil the last number that is read: the inverse of a real transform does not read the first number of
        // the imaginary part.
        let of = places([rows, read, columns], 0, spoilt).last().unwrap();
        x[of] = T::NAN;
        let y = call(&routine, &[&x]);
        let alone = match routine {
            Routine::Fft { .. } => Routine::Fft { rows: 1, n, columns: 1, inverse: false },
            Routine::RealFft { .. } => Routine::RealFft { rows: 1, n, columns: 1 },
            _ => Routine::InverseRealFft { rows: 1, n, columns: 1 },
        };
        for (r, c) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
            let sequence = |extent, part| places([rows, extent, columns], part, [r, c]);
            let own: Vec<T> =
                (0..parts).flat_map(|p| sequence(read, p)).map(|place| x[place]).collect();
            let wanted = call(&alone, &[&own]);
            let found: Vec<T> =
                (0..into).flat_map(|p| sequence(written, p)).map(|at| y.floats[0][at]).collect();
            if [r, c] == spoilt {
                assert!(found.iter().all(|y| y.double().is_nan()), "{routine}: {r}, {c}");
            } else {
                assert_eq!(found, wanted.floats[0], "{routine}: {r}, {c}");
            }
        }
    }
}

#[test]
fn sequences_of_an_array_are_as_alone() {
    for n in [1, 2, 5, 8, 16, 33] {
        for columns in [1, 2, 7, 8, 9, 16, 21, 33] {
            every_sequence_is_by_itself::<f32>(n, columns);
            every_sequence_is_by_itself::<f64>(n, columns);
        }
    }
}
