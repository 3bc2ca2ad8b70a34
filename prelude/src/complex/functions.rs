//! Elementwise functions: absolute values, angles, exponentials, roots, powers, comparisons.

use super::{Complex, IntoComplex};
use crate::Var;
use crate::var::{caller, on_behalf};
use tapeloom_ir::Dtype;

/// Returns the largest finite number, the smallest normal number, and the number of significant bits of the dtype
/// of `x`.
fn limits(x: Var) -> (f64, f64, i32) {
    match x.dtype() {
        Dtype::F32 => (f32::MAX.into(), f32::MIN_POSITIVE.into(), 24),
        _ => (f64::MAX, f64::MIN_POSITIVE, 53),
    }
}

/// Returns `(c, 1 / √c)` for a power of four `c` that brings numbers near the ends of the range toward 1: sums and
/// roots of numbers of size `c · size` neither overflow nor lose digits to underflow. For numbers of other sizes, `c`
/// is 1.
fn toward_one(size: Var) -> (Var, Var) {
    let (most, least, digits) = limits(size);
    let (large, small) = (size.gt(most / 4.0), size.lt(least * 2f64.powi(digits)));
    let one = size.ones_like();
    let choose = |down: f64, up: f64| large.select(down, small.select(up, one));
    let up = 2f64.powi(digits + digits % 2);
    (choose(1.0 / 16.0, up * up), choose(4.0, 1.0 / up))
}

/// Elementwise functions.
impl Complex {
    /// Returns `|z|`, without overflow. At 0 the function is not differentiable: first derivatives are 0 there, and
    /// second derivatives nan.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let z = Complex::from([(3.0, 4.0), (0.0, 0.0)]);
    /// assert_eq!(run(|z: Complex| z.abs(), &z)?.to_vec::<f64>()?, [5.0, 0.0]);
    /// let g = run(grad(|z: Complex| z.abs().sum()), &z)?;
    /// assert_eq!(g.to_pairs::<f64>()?[1], (0.0, 0.0));
    /// check_grads(|z: Complex| z.abs(), Complex::from((3.0, 4.0)), 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "absolute")]
    #[must_use]
    #[track_caller]
    pub fn abs(self) -> Var {
        on_behalf("abs", caller(), || self.re.hypot(self.im))
    }

    /// Returns `|z|² = re² + im²`, which is smooth everywhere.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|z: Complex| z.abs2(), Complex::from((3.0, 4.0)))?;
    /// assert_eq!(y.item::<f64>()?, 25.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn abs2(self) -> Var {
        on_behalf("abs2", caller(), || self.re * self.re + self.im * self.im)
    }

    /// Returns the angle in `[-π, π]`, by `atan2`. On the branch cut along the negative real numbers, the angle is π or
    /// -π: it has the sign of the zero imaginary part. The derivative at 0 is nan.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|z: Complex| z.angle(), Complex::from([(1.0, 1.0), (-1.0, -0.0)]))?;
    /// let pi = std::f64::consts::PI;
    /// assert_eq!(y.to_vec::<f64>()?, [pi / 4.0, -pi]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "arg")]
    #[must_use]
    #[track_caller]
    pub fn angle(self) -> Var {
        on_behalf("angle", caller(), || self.im.atan2(self.re))
    }

    /// Returns `eᶻ = e^re (cos im + i sin im)`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let z = Complex::from((0.3, -0.5));
    /// check_grads(|z: Complex| z.exp(), &z, 2)?;
    /// check_grads(|z: Complex| z.ln(), &z, 2)?;
    /// let same = run(|z: Complex| z.exp().ln(), &z)?.to_pairs::<f64>()?[0];
    /// assert!((same.0 - 0.3).abs() < 1e-15 && (same.1 + 0.5).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn exp(self) -> Complex {
        on_behalf("exp", caller(), || {
            // If e^re overflows, its product with a small cosine or sine may still be in range. So multiply by e^(re -
            // k) first, then by e^k.
            let (end, k): (f64, f64) =
                if self.re.dtype() == Dtype::F32 { (88.0, 24.0) } else { (709.0, 64.0) };
            let large = self.re.gt(end);
            let size = large.select(self.re - k, self.re).exp();
            let rest = large.select(size.full_like(k.exp()), 1.0);
            // If the imaginary part is 0, the exponential is real: clamp the factor of the sine, because infinity times
            // 0 would be nan.
            let finite = size.minimum(limits(size).0);
            let turned = self.im.eq(0.0).select(finite, size);
            Complex { re: size * self.im.cos() * rest, im: turned * self.im.sin() * rest }
        })
    }

    /// Returns the principal logarithm `ln |z| + i angle`, with a branch cut along the negative real numbers. At 0 the
    /// real part is `-inf`.
    #[doc(alias = "log")]
    #[must_use]
    #[track_caller]
    pub fn ln(self) -> Complex {
        on_behalf("ln", caller(), || Complex {
            re: self.re.hypot(self.im).ln(),
            im: self.im.atan2(self.re),
        })
    }

    /// Returns the principal square root: its real part is not negative, and its imaginary part has the sign of the
    /// imaginary part of `z`. No square overflows. At 0 it is not differentiable, and derivatives are not finite.
    ///
    /// Source: W. Kahan, *Branch cuts for complex elementary functions* (1987).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let z = Complex::from([(-4.0, 0.0), (-4.0, -0.0), (3.0, 4.0), (0.0, 0.0)]);
    /// let y = run(|z: Complex| z.sqrt(), z)?.to_pairs::<f64>()?;
    /// assert_eq!(y, [(0.0, 2.0), (0.0, -2.0), (2.0, 1.0), (0.0, 0.0)]);
    /// check_grads(|z: Complex| z.sqrt(), Complex::from([(-4.0, 0.5), (3.0, -4.0)]), 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sqrt(self) -> Complex {
        on_behalf("sqrt", caller(), || {
            // t = sqrt((|z| + |re|) / 2) is the larger part, and im / (2 t) the other one. Cases are selected by
            // comparison, so that at a zero `re` or `im` the derivative is that of one side instead of nan.
            let right = self.re.ge(0.0);
            let size = right.select(self.re, -self.re);
            let (scale, root) = toward_one(size.maximum(self.im.abs()).stop_gradient());
            let (re, im) = (scale * size, scale * self.im);
            let t = (0.5 * re.hypot(im) + 0.5 * re).sqrt() * root;
            let other = self.im / t.eq(0.0).select(1.0, 2.0 * t);
            let side = self.re.ones_like().copysign(self.im.stop_gradient());
            Complex { re: right.select(t, side * other), im: right.select(other, side * t) }
        })
    }

    /// Returns `1 / z`. The result is right even if `|z|²` overflows or underflows; at 0 it is nan.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|z: Complex| z.recip(), Complex::from((0.0, 2.0)))?;
    /// assert_eq!(y.to_pairs::<f64>()?, [(0.0, -0.5)]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "reciprocal")]
    #[must_use]
    #[track_caller]
    pub fn recip(self) -> Complex {
        let at = caller();
        on_behalf("recip", at, || 1.0 / self)
    }

    /// Returns `zⁿ` for an integer `n`, by multiplication. Derivatives are exact, also at 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |z: Complex| (z.powi(3), z.powi(-2));
    /// let z = Complex::from((1.0, 1.0));
    /// let (cube, inverse) = run(f, &z)?;
    /// assert_eq!(cube.to_pairs::<f64>()?, [(-2.0, 2.0)]);
    /// assert_eq!(inverse.to_pairs::<f64>()?, [(0.0, -0.5)]);
    /// check_grads(f, &z, 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn powi(self, n: i32) -> Complex {
        let at = caller();
        on_behalf("powi", at, || {
            let one = Complex { re: self.re.ones_like(), im: self.im.zeros_like() };
            // For negative n, compute powers of the reciprocal. The reciprocal of a power that overflows would be nan.
            let base = if n < 0 { one / self } else { self };
            let (mut power, mut square, mut left) = (None, base, n.unsigned_abs());
            while left > 0 {
                if left % 2 == 1 {
                    power = Some(power.map_or(square, |power: Complex| power * square));
                }
                left /= 2;
                if left > 0 {
                    square = square * square;
                }
            }
            power.unwrap_or(one)
        })
    }

    /// Returns `zᵖ = |z|ᵖ (cos pφ + i sin pφ)`, where `φ` is the angle of `z`, with a branch cut along the negative
    /// numbers. The derivative at 0 is nan. For integer powers, [`powi`](Complex::powi) has a derivative at 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let z = Complex::from((3.0, 4.0));
    /// let y = run(|z: Complex| z.powf(0.5), &z)?.to_pairs::<f64>()?[0];
    /// assert!((y.0 - 2.0).abs() < 1e-15 && (y.1 - 1.0).abs() < 1e-15);
    /// check_grads(|z: Complex| z.powf(1.7), &z, 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn powf(self, p: f64) -> Complex {
        let at = caller();
        on_behalf("powf", at, || {
            let angle = p * self.im.atan2(self.re);
            let size = self.re.hypot(self.im).powf(p);
            Complex { re: size * angle.cos(), im: size * angle.sin() }
        })
    }

    /// Returns `zʷ = exp(w ln z)`. At `z = 0` the result is nan.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // i^i = e^(-π/2)
    /// let y = run(|z: Complex| z.pow(z), Complex::from((0.0, 1.0)))?.to_pairs::<f64>()?[0];
    /// assert!((y.0 - (-std::f64::consts::FRAC_PI_2).exp()).abs() < 1e-15 && y.1 == 0.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "power")]
    #[must_use]
    #[track_caller]
    pub fn pow(self, w: impl IntoComplex) -> Complex {
        let at = caller();
        let w = w.into_parts(at);
        on_behalf("pow", at, || (Complex::of(w) * self.ln()).exp())
    }

    /// Returns whether the real parts are equal and the imaginary parts are equal (bool).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let z = Complex::from([(1.0, 2.0), (1.0, 0.0)]);
    /// let y = run(|z: Complex| (z.eq(z.conj()), z.ne(z.conj())), z)?;
    /// assert_eq!((y.0.to_vec::<bool>()?, y.1.to_vec::<bool>()?), (vec![false, true], vec![true, false]));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn eq(self, w: impl IntoComplex) -> Var {
        let at = caller();
        let w = w.into_parts(at);
        on_behalf("eq", at, || {
            let w = Complex::of(w);
            self.re.eq(w.re) & self.im.eq(w.im)
        })
    }

    /// Returns whether the real or the imaginary parts differ (bool). The result is true if a part is nan.
    #[must_use]
    #[track_caller]
    pub fn ne(self, w: impl IntoComplex) -> Var {
        let at = caller();
        let w = w.into_parts(at);
        on_behalf("ne", at, || {
            let w = Complex::of(w);
            self.re.ne(w.re) | self.im.ne(w.im)
        })
    }

    /// Returns whether `|z - w| <= absolute + relative |w|` (bool).
    #[must_use]
    #[track_caller]
    pub fn is_close(self, w: impl IntoComplex, relative: f64, absolute: f64) -> Var {
        let at = caller();
        let w = w.into_parts(at);
        on_behalf("is_close", at, || {
            let w = Complex::of(w);
            (self - w).abs().le(absolute + relative * w.abs())
        })
    }

    /// Returns whether the real and the imaginary part are finite (bool).
    #[must_use]
    #[track_caller]
    pub fn is_finite(self) -> Var {
        on_behalf("is_finite", caller(), || self.re.is_finite() & self.im.is_finite())
    }

    /// Returns `z` where the condition is true, and `w` elsewhere.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |z: Complex| Complex::select(z.re.lt(0.0), -z, z);
    /// let y = run(f, Complex::from([(-1.0, 2.0), (1.0, 2.0)]))?;
    /// assert_eq!(y.to_pairs::<f64>()?, [(1.0, -2.0), (1.0, 2.0)]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn select(condition: Var, z: impl IntoComplex, w: impl IntoComplex) -> Complex {
        let at = caller();
        let (z, w) = (z.into_parts(at), w.into_parts(at));
        on_behalf("select", at, || {
            let (z, w) = (Complex::of(z), Complex::of(w));
            Complex { re: condition.select(z.re, w.re), im: condition.select(z.im, w.im) }
        })
    }
}
