//! Complex arrays: pairs of real arrays with the arithmetic of complex numbers.
//!
//! [`Complex`] is a [`Tree`] of two leaves, so [`jit`](crate::jit()), [`grad`](crate::grad()),
//! [`vmap`](crate::vmap) and loops accept complex arrays like any other tree. Compiled programs contain real arrays
//! only.
//!
//! ```
//! use tapeloom::prelude::*;
//! // Rotates the points (3, 4) and (0, -2) by 90 degrees.
//! let z = Complex::from([(3.0, 4.0), (0.0, -2.0)]);
//! let turned = run(|z: Complex| z * Complex::from_polar(1.0, std::f64::consts::FRAC_PI_2), z)?;
//! assert!((turned.to_pairs::<f64>()?[0].0 + 4.0).abs() < 1e-12);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! # Derivatives
//!
//! A function of complex arrays is a function of their real and imaginary parts. The gradient of a real function
//! `f` at `z = x + i y` is the pair `(∂f/∂x, ∂f/∂y)`, as a `Complex`: the direction in which `f` grows fastest, so
//! `z - rate * gradient` is a descent step. It is the conjugate of the result of JAX's `grad`, which is
//! `∂f/∂x - i ∂f/∂y`.
//!
//! ```
//! use tapeloom::prelude::*;
//! // |z|² = x² + y² has the gradient (2 x, 2 y); the result of `jax.grad` is 6 - 8i.
//! let g = run(grad(|z: Complex| z.abs2()), Complex::from((3.0, 4.0)))?;
//! assert_eq!(g.to_pairs::<f64>()?, [(6.0, 8.0)]);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! The complex derivative of a holomorphic function is its tangent in the direction 1:
//!
//! ```
//! use tapeloom::prelude::*;
//! // d/dz z³ = 3 z², at 1 + 2i.
//! let derivative = |z: Complex| jvp(|z: Complex| z.powi(3))((z, z.re.ones_like().into())).1;
//! let d = run(derivative, Complex::from((1.0, 2.0)))?;
//! assert_eq!(d.to_pairs::<f64>()?, [(-9.0, 12.0)]);
//! # Ok::<(), tapeloom::Error>(())
//! ```

mod arithmetic;
mod data;
mod functions;
mod hermitian;
mod products;
mod shape;

use crate::ops::{broadcast_together, wrong};
use crate::var::{IntoVar, caller, on_behalf};
use crate::{Tree, Var};
use tapeloom_ir::{Kind, Loc, Problem, Tensor};

/// A complex array: real and imaginary parts of the same shape and float dtype. See the [module](crate::complex)
/// documentation.
///
/// The operators `+ - * /` and unary `-` accept another `Complex`, a `Var`, a number or a tensor on either side,
/// and broadcast. Errors are those of the same operators of [`Var`].
#[derive(Tree, Clone, Copy, PartialEq, Debug)]
pub struct Complex<T = Var> {
    /// The real parts.
    pub re: T,
    /// The imaginary parts.
    pub im: T,
}

/// A type that can be used as a complex array: a [`Complex`], or a real [`Var`] or [`Tensor`], whose imaginary
/// parts are zero.
pub trait IntoComplex {
    /// Returns the real parts and the imaginary parts. For a real array, the imaginary parts are `None`.
    #[doc(hidden)]
    fn into_parts(self, at: Loc) -> (Var, Option<Var>);
}

impl IntoComplex for Complex {
    fn into_parts(self, _: Loc) -> (Var, Option<Var>) {
        (self.re, Some(self.im))
    }
}

impl IntoComplex for &Complex {
    fn into_parts(self, _: Loc) -> (Var, Option<Var>) {
        (self.re, Some(self.im))
    }
}

impl IntoComplex for Var {
    fn into_parts(self, _: Loc) -> (Var, Option<Var>) {
        (self, None)
    }
}

impl IntoComplex for Tensor {
    fn into_parts(self, at: Loc) -> (Var, Option<Var>) {
        (&self).into_parts(at)
    }
}

impl IntoComplex for &Tensor {
    fn into_parts(self, at: Loc) -> (Var, Option<Var>) {
        (self.into_var(self.dtype(), at), None)
    }
}

impl From<Var> for Complex {
    /// Converts a real array; the imaginary parts are zero.
    #[track_caller]
    fn from(re: Var) -> Complex {
        Complex { re, im: on_behalf("complex", caller(), || re.zeros_like()) }
    }
}

impl From<(Var, Var)> for Complex {
    /// Returns the complex array of the given real and imaginary parts, which are broadcast to a common shape.
    #[track_caller]
    fn from((re, im): (Var, Var)) -> Complex {
        Complex::new(re, im)
    }
}

/// Returns the complex array of two parts of one float dtype, broadcast to a common shape. Returns an error if the
/// dtypes or shapes do not fit.
fn together(re: Var, im: Var, at: Loc) -> Result<Complex, Problem> {
    let (first, second) = (re.ty(at), im.ty(at));
    if first.dtype != second.dtype {
        let message = format!("`complex` needs parts of one dtype, got {first} and {second}");
        let help = crate::dtype::conversions(first.dtype, second.dtype);
        return Err(Problem::new(Kind::Dtype, message, help));
    }
    if !first.dtype.is_float() {
        let help = "convert first, as in `x.convert(Dtype::F64)`";
        return Err(Problem::new(
            Kind::Dtype,
            format!("`complex` needs floats, got {first}"),
            help,
        ));
    }
    let (parts, shape) = broadcast_together("complex", &[re, im], at)?;
    Ok(on_behalf("complex", at, || {
        Complex { re: parts[0], im: parts[1] }.map(|x| x.broadcast_to(&shape))
    }))
}

impl Complex {
    /// Returns the array `re + i im`. Both parts are arrays of one float dtype, or one of them is a number; they are
    /// broadcast together.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let z = run(|x: Var| Complex::new(x, 1.0), [3.0, 4.0])?;
    /// assert_eq!(z.to_pairs::<f64>()?, [(3.0, 1.0), (4.0, 1.0)]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: `shape` if they do not broadcast, `dtype` if they are not floats of one dtype.
    #[track_caller]
    pub fn new(re: impl IntoVar, im: impl IntoVar) -> Complex {
        let at = caller();
        let (re, im) = crate::var::pair(re, im, at);
        match together(re, im, at) {
            Ok(z) => z,
            Err(problem) => Complex { re: wrong(problem, &[re, im], re.ty(at), at), im },
        }
    }

    /// Returns the array with the given absolute values and angles, `radius (cos angle + i sin angle)`, both
    /// broadcast together.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(r, a): (Var, Var)| Complex::from_polar(r, a);
    /// let z = run(f, (2.0, 0.0))?;
    /// assert_eq!(z.to_pairs::<f64>()?, [(2.0, 0.0)]);
    /// check_grads(f, (2.0, 0.7), 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: those of the product.
    #[track_caller]
    pub fn from_polar(radius: impl IntoVar, angle: impl IntoVar) -> Complex {
        let at = caller();
        let (radius, angle) = crate::var::pair(radius, angle, at);
        on_behalf("from_polar", at, || Complex {
            re: radius * angle.cos(),
            im: radius * angle.sin(),
        })
    }

    /// Returns the real parts.
    #[must_use]
    pub fn real(self) -> Var {
        self.re
    }

    /// Returns the imaginary parts.
    #[must_use]
    pub fn imag(self) -> Var {
        self.im
    }

    /// Returns the conjugate `re - i im`.
    #[doc(alias = "conjugate")]
    #[must_use]
    #[track_caller]
    pub fn conj(self) -> Complex {
        let at = caller();
        on_behalf("conj", at, || Complex { re: self.re, im: -self.im })
    }

    /// Returns an error if the parts, which are public fields, have different types.
    fn uniform(self, name: &str, at: Loc) -> Result<Complex, Problem> {
        let (re, im) = (self.re.ty(at), self.im.ty(at));
        if re == im {
            return Ok(self);
        }
        let kind = if re.dtype == im.dtype { Kind::Shape } else { Kind::Dtype };
        let message = format!("`{name}` of a complex array with parts of the types {re} and {im}");
        Err(Problem::new(kind, message, "both parts have one type; `Complex::new` broadcasts them"))
    }

    /// Returns the complex array of the given parts. If there are no imaginary parts, they are zero.
    pub(crate) fn of((re, im): (Var, Option<Var>)) -> Complex {
        Complex { re, im: im.unwrap_or_else(|| re.zeros_like()) }
    }
}
