//! Bessel functions of integer order: J and Y, and the modified ones of the first kind, I.
//!
//! J and Y come from the `libm` crate, a port of Sun's fdlibm.
//!
//! I of the orders 0 and 1 is `e^|x|` times the scaled function of [`scaled_bessel`](super::scaled_bessel). I of other
//! orders is computed by
//!
//! * the power series for |x| ≤ 20, whose terms are all positive;
//! * Hankel's asymptotic series (DLMF 10.40.1) for |x| > 20 and n² ≤ |x|;
//! * elsewhere, the product of I₀ and the ratios of neighbouring orders, by the backward recurrence
//!   `Iₖ/Iₖ₋₁ = 1 / (2k/x + Iₖ₊₁/Iₖ)` (Gautschi, "Computational aspects of three-term recurrence relations",
//!   1967).

use super::exponential::{Exp, NORMAL};
use super::number::{Format, Number};
use super::scaled_bessel::ScaledBessel;
use super::vector_math::Parted;
use super::{exp, hypot};
use std::f64::consts::TAU;

/// The implementation of [`bessel_i`] for the order `ORDER`, 0 or 1, which evaluates one argument or a vector of eight,
/// or lists its operations for the code generator.
pub struct BesselI<const ORDER: u32>;

impl<const ORDER: u32> Parted for BesselI<ORDER> {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().le(N::constant(NORMAL))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        Exp::straight(x.abs()) * ScaledBessel::<ORDER>::straight(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        // Multiply by √(e^|x|) twice, since e^|x| overflows before the function does.
        let root = Exp::whole(N::of(f64::HALF) * x.abs());
        let product = ScaledBessel::<ORDER>::straight(x.abs()) * root * root;
        let value = N::pick(root.same(N::of(f64::INFINITY)), root, product);
        if ORDER.is_multiple_of(2) { value } else { value.copysign(x) }
    }
}

/// Returns the Bessel function of the first kind, `Jₙ(x)`.
///
/// Domain: all reals; 0 at ±∞. The error is a few ulp of the amplitude, `√(2/(π|x|))` for |x| > n, also at the roots.
#[must_use]
pub fn bessel_j(n: u32, x: f64) -> f64 {
    match n {
        0 => libm::j0(x),
        1 => libm::j1(x),
        _ => libm::jn(n.min(i32::MAX as u32) as i32, x),
    }
}

/// Returns the Bessel function of the second kind, `Yₙ(x)`.
///
/// Domain: `x ≥ 0`; NaN below. -inf at 0, 0 at inf. The error is a few ulp of the amplitude, also at the roots.
#[must_use]
pub fn bessel_y(n: u32, x: f64) -> f64 {
    if x < 0.0 {
        return f64::NAN;
    }
    match n {
        0 => libm::y0(x),
        1 => libm::y1(x),
        _ => libm::yn(n.min(i32::MAX as u32) as i32, x),
    }
}

/// Returns the modified Bessel function of the first kind, `Iₙ(x)`; it overflows from |x| ≈ 714 on.
///
/// Domain: all reals; ±∞ at ±∞ by the parity of n, NaN for NaN. For the orders 0 and 1 within 5 ulp (in f32 6.5).
#[must_use]
pub fn bessel_i(n: u32, x: f64) -> f64 {
    match n {
        0 => return BesselI::<0>::here(x),
        1 => return BesselI::<1>::here(x),
        _ => {}
    }
    let size = x.abs();
    let value = if size <= SERIES {
        series(n, size)
    } else {
        let root = exp(0.5 * size);
        if root == f64::INFINITY { root } else { scaled(n, size) * root * root }
    };
    with_parity(n, x, value)
}

/// The largest |x| at which the power series is used.
const SERIES: f64 = 20.0;

/// Returns `value` with the sign of `x` if the order `n` is odd, since functions of odd order are odd.
fn with_parity(n: u32, x: f64, value: f64) -> f64 {
    if n.is_multiple_of(2) { value } else { value.copysign(x) }
}

/// Returns `Iₙ(x)` by its power series `(x/2)ⁿ/n! Σ (x²/4)ᵏ / (k! (n + 1) … (n + k))`.
fn series(n: u32, x: f64) -> f64 {
    let (half, order) = (0.5 * x, f64::from(n));
    let mut front = 1.0;
    for i in 1..=n {
        front *= half / f64::from(i);
        if front == 0.0 {
            return 0.0;
        }
    }
    let (square, mut term, mut sum, mut k) = (half * half, 1.0, 1.0, 0.0);
    while term > sum * (f64::EPSILON / 64.0) {
        k += 1.0;
        term *= square / (k * (order + k));
        sum += term;
    }
    front * sum
}

/// Returns `e⁻ˣ Iₙ(x)` for `x > 20`, by Hankel's series or the backward recurrence.
fn scaled(n: u32, x: f64) -> f64 {
    let order = f64::from(n);
    if x == f64::INFINITY {
        return 0.0;
    }
    if x.is_nan() {
        return x;
    }
    if order * order <= x {
        return hankel(order, x);
    }
    // Start the recurrence at an order k so high that the ratio 0 assumed there does not matter: its effect
    // decays like Kₙ/Iₙ.
    let mut k = (hypot(order, (40.0 * x).sqrt()) + 10.0).floor();
    let (mut ratio, mut product) = (0.0, 1.0);
    while k > 0.0 {
        ratio = 1.0 / (2.0 * k / x + ratio);
        if k <= order {
            product *= ratio;
        }
        k -= 1.0;
    }
    product * hankel(0.0, x)
}

/// Returns `e⁻ˣ Iₙ(x)` for the order n, by Hankel's asymptotic series
/// `1/√(2πx) Σ (-1)ᵏ (4n² - 1) (4n² - 9) … (4n² - (2k - 1)²) / (k! (8x)ᵏ)`.
fn hankel(order: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut k): (f64, f64, f64) = (1.0, 1.0, 0.0);
    while term.abs() > f64::EPSILON / 64.0 * sum.abs() && k < 60.0 {
        k += 1.0;
        let odd = 2.0 * k - 1.0;
        term *= (odd - 2.0 * order) * (odd + 2.0 * order) / (8.0 * k * x);
        sum += term;
    }
    sum / (TAU * x).sqrt()
}
