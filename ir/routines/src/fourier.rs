//! Discrete Fourier transforms by rustfft and realfft, over separate arrays of real and imaginary
//! parts: `y[j] = sum_k x[k] exp(-2 pi i j k / n)` forward, `exp(+...)` backward, neither scaled.

use std::sync::Arc;

use num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};

use crate::real::{Failed, Real, all_finite};
use crate::routine::{Routine, half};
use crate::scratch::{Need, Scratch};

/// The twiddle factors of one length and the algorithm for it.
pub(crate) enum Tables<T> {
    /// The routine is no transform, or its length is zero.
    None,
    Complex(Arc<dyn Fft<T>>),
    Forward(Arc<dyn RealToComplex<T>>),
    Backward(Arc<dyn ComplexToReal<T>>),
}

impl<T: Real> Tables<T> {
    pub(crate) fn of(routine: &Routine) -> Self {
        match *routine {
            Routine::Fft { n, inverse } if n > 0 => {
                let mut planner = FftPlanner::new();
                Tables::Complex(if inverse {
                    planner.plan_fft_inverse(n)
                } else {
                    planner.plan_fft_forward(n)
                })
            }
            Routine::RealFft { n } if n > 0 => {
                Tables::Forward(RealFftPlanner::new().plan_fft_forward(n))
            }
            Routine::InverseRealFft { n } if n > 0 => {
                Tables::Backward(RealFftPlanner::new().plan_fft_inverse(n))
            }
            _ => Tables::None,
        }
    }

    pub(crate) fn need(&self) -> Need {
        let complex = |need: Need, length| need.array::<Complex<T>>(length);
        match self {
            Tables::None => Need::new(),
            Tables::Complex(fft) => {
                complex(complex(Need::new(), fft.len()), fft.get_inplace_scratch_len())
            }
            Tables::Forward(fft) => complex(
                complex(Need::new().array::<T>(fft.len()), half(fft.len())),
                fft.get_scratch_len(),
            ),
            Tables::Backward(fft) => {
                complex(complex(Need::new(), half(fft.len())), fft.get_scratch_len())
            }
        }
    }

    /// Executes the transform that the tables were made for.
    pub(crate) fn run(&self, x: &[T], y: &mut [T], mut scratch: Scratch<'_>) -> Result<(), Failed> {
        match self {
            Tables::None => Ok(()),
            Tables::Complex(fft) => {
                if !all_finite(x) {
                    return Err(Failed);
                }
                let held = scratch.take::<Complex<T>>(fft.len())?;
                let work = scratch.take::<Complex<T>>(fft.get_inplace_scratch_len())?;
                join(x, held);
                fft.process_with_scratch(held, work);
                separate(held, y);
                Ok(())
            }
            Tables::Forward(fft) => {
                if !all_finite(x) {
                    return Err(Failed);
                }
                let input = scratch.take::<T>(fft.len())?;
                let held = scratch.take::<Complex<T>>(half(fft.len()))?;
                let work = scratch.take::<Complex<T>>(fft.get_scratch_len())?;
                input.copy_from_slice(x);
                fft.process_with_scratch(input, held, work).map_err(|_| Failed)?;
                separate(held, y);
                Ok(())
            }
            Tables::Backward(fft) => {
                let length = half(fft.len());
                let (re, im) = x.split_at(length);
                // The spectrum of a real sequence is real at 0 and, for even lengths, in the middle.
                let even = fft.len().is_multiple_of(2);
                let read = if even { 1..length - 1 } else { 1..length };
                if !all_finite(re) || !all_finite(im.get(read).unwrap_or(&[])) {
                    return Err(Failed);
                }
                let held = scratch.take::<Complex<T>>(length)?;
                let work = scratch.take::<Complex<T>>(fft.get_scratch_len())?;
                join(x, held);
                held[0].im = T::zero();
                if even {
                    held[length - 1].im = T::zero();
                }
                fft.process_with_scratch(held, y, work).map_err(|_| Failed)
            }
        }
    }
}

/// Real parts, then imaginary parts, to pairs.
fn join<T: Real>(parts: &[T], pairs: &mut [Complex<T>]) {
    let (re, im) = parts.split_at(pairs.len());
    for ((pair, &re), &im) in pairs.iter_mut().zip(re).zip(im) {
        *pair = Complex { re, im };
    }
}

/// Pairs to real parts, then imaginary parts.
fn separate<T: Real>(pairs: &[Complex<T>], parts: &mut [T]) {
    let (re, im) = parts.split_at_mut(pairs.len());
    for ((pair, re), im) in pairs.iter().zip(re).zip(im) {
        *re = pair.re;
        *im = pair.im;
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::{Number, call, close, double, norm, random};
    use crate::routine::{Routine, half};

    /// The twiddle `exp(-2 pi i k / n)` from the first eighth of the circle, where sine and cosine
    /// of a small angle are accurate to the last bit or so.
    fn twiddle(k: usize, n: usize) -> [f64; 2] {
        let k = k % n;
        if 2 * k > n {
            let [re, im] = twiddle(n - k, n);
            return [re, -im];
        }
        if 4 * k > n {
            // exp(-i (pi - angle)) of the mirrored angle.
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

    /// A sum with its rounding error kept beside it (Neumaier), of products split exactly by a
    /// fused multiplication.
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

    /// Entry `j` of the transform by its definition.
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

    /// The rows of `y` from the definition.
    fn all_direct(x: &[f64], inverse: bool) -> Vec<f64> {
        let n = x.len() / 2;
        let table = table(n);
        let pairs: Vec<_> = (0..n).map(|j| direct(x, j, inverse, &table)).collect();
        let part = |part: usize| pairs.iter().map(move |pair| pair[part]);
        part(0).chain(part(1)).collect()
    }

    /// The permitted error in epsilons of the norm.
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
            let y = call(&Routine::Fft { n, inverse }, &[&x]).double(0);
            let wanted = all_direct(&double(&x), inverse);
            close::<T>(bound(n), &y, &wanted, &format!("n = {n}, {inverse}"));
        }
        // A real sequence, and back from its spectrum. What is not read may be nan.
        let real = &x[..n];
        let mut complex = double(real);
        complex.resize(2 * n, 0.0);
        let wanted = spectrum(&all_direct(&complex, false));
        let y = call(&Routine::RealFft { n }, &[real]);
        close::<T>(bound(n), &y.double(0), &wanted, &format!("real, n = {n}"));
        let mut y: Vec<T> = wanted.into_iter().map(T::of).collect();
        y[half(n)] = T::NAN;
        if n.is_multiple_of(2) {
            y[2 * half(n) - 1] = T::NAN;
        }
        let back = call(&Routine::InverseRealFft { n }, &[&y]).double(0);
        let wanted: Vec<f64> = double(real).iter().map(|x| x * n as f64).collect();
        // The spectrum was rounded once.
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
        let y = call(&Routine::Fft { n, inverse: false }, &[&x]);
        let what = format!("n = {n}");
        // Parseval: the norm grows by the square root of the length.
        let grown = norm(&double(&x)) * (n as f64).sqrt();
        close::<T>(bound(n), &[norm(&y.double(0))], &[grown], &what);
        // Some entries by their definition, their error beside the typical size of an entry.
        let table = table(n);
        let x = double(&x);
        for j in [0, 1, n / 3, n / 2, n - 1] {
            let wanted = direct(&x, j, false, &table);
            let y = y.double(0);
            let error = (y[j] - wanted[0]).hypot(y[n + j] - wanted[1]);
            assert!(
                error <= bound(n) * T::EPSILON * grown / (n as f64).sqrt() * 4.0,
                "{what}: {j}"
            );
        }
        let back = call(&Routine::Fft { n, inverse: true }, &[&y.floats[0]]).double(0);
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
}
