//! Operators: `+ - * /` and unary `-` between complex arrays, `Var`s, Rust numbers and tensors, on either side.

use super::Complex;
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use std::{iter, ops};
use tapeloom_ir::{Dtype, Literal, Tensor};

/// Returns `z + w`.
fn add(z: Complex, w: Complex) -> Complex {
    Complex { re: z.re + w.re, im: z.im + w.im }
}

fn add_real(z: Complex, x: Var) -> Complex {
    // Adding zeros broadcasts the imaginary part to the shape of the real part.
    Complex { re: z.re + x, im: z.im + x.zeros_like() }
}

fn add_to_real(x: Var, z: Complex) -> Complex {
    Complex { re: x + z.re, im: x.zeros_like() + z.im }
}

fn sub(z: Complex, w: Complex) -> Complex {
    Complex { re: z.re - w.re, im: z.im - w.im }
}

fn sub_real(z: Complex, x: Var) -> Complex {
    Complex { re: z.re - x, im: z.im - x.zeros_like() }
}

fn sub_from_real(x: Var, z: Complex) -> Complex {
    Complex { re: x - z.re, im: x.zeros_like() - z.im }
}

/// Returns `(a + i b)(c + i d) = a c - b d + i (a d + b c)`.
fn mul(z: Complex, w: Complex) -> Complex {
    Complex { re: z.re * w.re - z.im * w.im, im: z.re * w.im + z.im * w.re }
}

fn mul_real(z: Complex, x: Var) -> Complex {
    Complex { re: z.re * x, im: z.im * x }
}

fn mul_of_real(x: Var, z: Complex) -> Complex {
    Complex { re: x * z.re, im: x * z.im }
}

/// Returns `z / w = z conj(v) / |v|² / s`, where `v = w / s` and `s = max(|Re w|, |Im w|)`, so that no square
/// overflows.
///
/// The quotient does not depend on `s`, so `s` is a constant for derivatives. The division by `s` is a separate step,
/// because the derivative of a quotient by `|v|² s` would contain the square of this divisor, which may overflow.
fn div(z: Complex, w: Complex) -> Complex {
    let (u, s) = scaled(w);
    Complex { re: (z.re * u.re + z.im * u.im) / s, im: (z.im * u.re - z.re * u.im) / s }
}

fn div_real(z: Complex, x: Var) -> Complex {
    Complex { re: z.re / x, im: z.im / x }
}

fn div_of_real(x: Var, w: Complex) -> Complex {
    let (u, s) = scaled(w);
    Complex { re: x * u.re / s, im: -(x * u.im / s) }
}

/// Returns `v / |v|²` and `s`, where `s = max(|Re w|, |Im w|)` and `v = w / s`.
fn scaled(w: Complex) -> (Complex, Var) {
    let s = w.re.abs().maximum(w.im.abs()).stop_gradient();
    let v = Complex { re: w.re / s, im: w.im / s };
    let inverse = 1.0 / (v.re * v.re + v.im * v.im);
    (Complex { re: v.re * inverse, im: v.im * inverse }, s)
}

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident
        $both:ident $real:ident $of_real:ident),*) => {$(
        impl ops::$trait<Complex> for Complex {
            type Output = Complex;
            #[track_caller]
            fn $method(self, w: Complex) -> Complex {
                let at = caller();
                on_behalf(stringify!($method), at, || $both(self, w))
            }
        }
        impl<T: IntoVar> ops::$trait<T> for Complex {
            type Output = Complex;
            #[track_caller]
            fn $method(self, x: T) -> Complex {
                let at = caller();
                let x = x.beside(self.re, at);
                on_behalf(stringify!($method), at, || $real(self, x))
            }
        }
        impl ops::$assign<Complex> for Complex {
            #[track_caller]
            fn $assign_method(&mut self, w: Complex) {
                let at = caller();
                *self = on_behalf(stringify!($method), at, || $both(*self, w));
            }
        }
        impl<T: IntoVar> ops::$assign<T> for Complex {
            #[track_caller]
            fn $assign_method(&mut self, x: T) {
                let at = caller();
                let x = x.beside(self.re, at);
                *self = on_behalf(stringify!($method), at, || $real(*self, x));
            }
        }
        left!($trait $method $of_real: Var, f64, i64, Tensor, &Tensor);
    )*};
}

/// Implements `number op complex`. Rust needs one impl per type of the number. The types are the ones that may also be
/// on the left of a `Var`.
macro_rules! left {
    ($trait:ident $method:ident $of_real:ident: $($t:ty),*) => {$(
        impl ops::$trait<Complex> for $t {
            type Output = Complex;
            #[track_caller]
            fn $method(self, z: Complex) -> Complex {
                let at = caller();
                let x = self.beside(z.re, at);
                on_behalf(stringify!($method), at, || $of_real(x, z))
            }
        }
    )*};
}

operators! {
    Add add AddAssign add_assign add add_real add_to_real,
    Sub sub SubAssign sub_assign sub sub_real sub_from_real,
    Mul mul MulAssign mul_assign mul mul_real mul_of_real,
    Div div DivAssign div_assign div div_real div_of_real
}

impl ops::Neg for Complex {
    type Output = Complex;
    #[track_caller]
    fn neg(self) -> Complex {
        on_behalf("neg", caller(), || Complex { re: -self.re, im: -self.im })
    }
}

impl iter::Sum for Complex {
    /// Adds complex arrays from left to right. The sum of no arrays is `0` (f64).
    #[track_caller]
    fn sum<I: Iterator<Item = Complex>>(mut all: I) -> Complex {
        let at = caller();
        let zero = || Var::literal(Literal::zero(Dtype::F64), at);
        let first = all.next().unwrap_or_else(|| Complex { re: zero(), im: zero() });
        all.fold(first, |z, w| on_behalf("add", at, || add(z, w)))
    }
}
