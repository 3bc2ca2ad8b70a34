//! Elementwise functions.
//!
//! The book's generated page of primitives lists domain, edge cases and derivative of each function. As in Rust,
//! undefined results are nan.

use super::{binary, broadcast_together, emit};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::prim::{Convert, IntegerPow, Polygamma, Sharded, StopGradient, constant_power};
use tapeloom_ir::trace;
use tapeloom_ir::{Dtype, PartitionSpec, Scalar};

macro_rules! unary {
    ($($(#[$doc:meta])+ $name:ident = $op:ident;)*) => {
        /// Functions of one array. The result has the shape and dtype of the operand.
        impl Var {
            $($(#[$doc])+
            #[track_caller]
            pub fn $name(self) -> Var {
                let at = caller();
                trace::within(stringify!($name), || emit(Scalar::$op, &[self], at))
            })*
        }
    };
}
unary! {
    /// Returns |x| for signed numbers. The derivative at 0 is 1, as in JAX.
    #[doc(alias = "absolute")]
    #[doc(alias = "fabs")]
    abs = Abs;
    /// Returns the sign of x: -1, 0 or 1. For nan, the result is nan. The derivative is 0.
    #[doc(alias = "sgn")]
    #[doc(alias = "sign")]
    signum = Sign;
    /// Returns the largest integer not above x. The derivative is 0.
    floor = Floor;
    /// Returns the smallest integer not below x. The derivative is 0.
    ceil = Ceil;
    /// Returns the nearest integer; halves are rounded away from zero (as Rust's `round`). The derivative is 0.
    round = Round;
    /// Returns the nearest integer; halves are rounded to the even one (as numpy's `round`). The derivative is 0.
    #[doc(alias = "rint")]
    #[doc(alias = "around")]
    round_ties_even = RoundEven;
    /// Returns eˣ.
    exp = Exp;
    /// Returns 2ˣ, exact at integers.
    exp2 = Exp2;
    /// Returns eˣ - 1, accurate near 0 (numpy's `expm1`).
    #[doc(alias = "expm1")]
    exp_m1 = Expm1;
    /// Returns the natural logarithm (numpy's `log`). It is -inf at 0 and nan for x < 0.
    #[doc(alias = "log")]
    ln = Log;
    /// Returns ln(1 + x), accurate near 0 (numpy's `log1p`).
    #[doc(alias = "log1p")]
    ln_1p = Log1p;
    /// Returns the logarithm to base 2, exact at powers of 2. It is -inf at 0 and nan for x < 0.
    log2 = Log2;
    /// Returns the logarithm to base 10, exact at powers of 10. It is -inf at 0 and nan for x < 0.
    log10 = Log10;
    /// Returns √x. It is nan for x < 0. The derivative at 0 is inf.
    sqrt = Sqrt;
    /// Returns 1 / √x.
    rsqrt = Rsqrt;
    /// Returns the cube root, also for negative numbers.
    cbrt = Cbrt;
    /// Returns sin x.
    sin = Sin;
    /// Returns cos x.
    cos = Cos;
    /// Returns tan x.
    tan = Tan;
    /// Returns arcsin x, in [-π/2, π/2].
    #[doc(alias = "arcsin")]
    asin = Asin;
    /// Returns arccos x, in [0, π].
    #[doc(alias = "arccos")]
    acos = Acos;
    /// Returns arctan x, in [-π/2, π/2].
    #[doc(alias = "arctan")]
    atan = Atan;
    /// Returns sinh x.
    sinh = Sinh;
    /// Returns cosh x.
    cosh = Cosh;
    /// Returns tanh x.
    tanh = Tanh;
    /// Returns 1 / cosh x, without overflow.
    sech = Sech;
    /// Returns arsinh x.
    #[doc(alias = "arcsinh")]
    asinh = Asinh;
    /// Returns arcosh x.
    #[doc(alias = "arccosh")]
    acosh = Acosh;
    /// Returns artanh x.
    #[doc(alias = "arctanh")]
    atanh = Atanh;
    /// Returns 1 / (1 + e⁻ˣ), without overflow.
    #[doc(alias = "expit")]
    #[doc(alias = "logistic")]
    sigmoid = Logistic;
    /// Returns the error function erf x.
    erf = Erf;
    /// Returns 1 - erf x, accurate for large x.
    erfc = Erfc;
    /// Returns Φ(x), the distribution function of the normal distribution, accurate in its left tail.
    #[doc(alias = "norm.cdf")]
    #[doc(alias = "norm_cdf")]
    ndtr = Ndtr;
    /// Returns the inverse of `erf`.
    #[doc(alias = "erfinv")]
    erf_inv = ErfInv;
    /// Returns ln |Γ(x)|.
    #[doc(alias = "gammaln")]
    lgamma = Lgamma;
    /// Returns ψ(x) = Γ'(x) / Γ(x).
    #[doc(alias = "psi")]
    digamma = Digamma;
    /// Returns whether x is neither infinite nor nan (bool).
    #[doc(alias = "isfinite")]
    is_finite = IsFinite;
}

macro_rules! two {
    ($($(#[$doc:meta])+ $name:ident = $op:ident;)*) => {
        /// Functions of two arrays of one dtype, which are broadcast together. One of the operands may be a number.
        impl Var {
            $($(#[$doc])+
            #[track_caller]
            pub fn $name(self, y: impl IntoVar) -> Var {
                let at = caller();
                let y = y.beside(self, at);
                trace::within(stringify!($name), || binary(Scalar::$op, self, y, at))
            })*
        }
    };
}
two! {
    /// Returns the larger operand, or nan if either is nan. If both are equal, each gets half of the derivative.
    #[doc(alias = "clamp_min")]
    maximum = Max;
    /// Returns the smaller operand, or nan if either is nan. If both are equal, each gets half of the derivative.
    #[doc(alias = "clamp_max")]
    minimum = Min;
    /// Returns √(x² + y²), without overflow. At the origin, first derivatives are 0, and second derivatives are nan.
    hypot = Hypot;
    /// Returns the angle of the point with ordinate `self` and abscissa `x`: `y.atan2(x)`, as in Rust.
    #[doc(alias = "arctan2")]
    atan2 = Atan2;
    /// Returns the next representable float from x towards y. It has no derivative; differentiating it is an error.
    #[doc(alias = "nextafter")]
    next_after = NextAfter;
}

/// Powers, polygamma functions, bounds, conversion to another dtype.
impl Var {
    /// Returns xⁿ for an integer n, by multiplication. Its derivatives are exact at 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.powi(3), 2.0)?;
    /// assert_eq!(y.item::<f64>()?, 8.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "integer_pow")]
    #[track_caller]
    pub fn powi(self, n: i32) -> Var {
        let at = caller();
        trace::within("powi", || emit(IntegerPow { n }, &[self], at))
    }

    /// Returns xᵖ for a number p, within 1 ulp. If p is 2, 3, 4, -1, -1.5, -0.5, 0.5, 1.5 or 2.5, the power is computed
    /// by products, a quotient and a square root, in a fraction of the time. The error is then at most 1 ulp for p = 2,
    /// 0.5 and -1, 1.5 ulp for p = 3, 1.5 and -0.5, and 2.5 ulp for p = 4, 2.5 and -1.5. For all p, the values and
    /// first derivatives at ±0, ±∞ and nan are those of [`pow`](Var::pow) with an array of exponents.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.powf(1.5), [4.0, 0.0, -1.0])?.to_vec::<f64>()?;
    /// assert!(y[..2] == [8.0, 0.0] && y[2].is_nan());
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn powf(self, p: f64) -> Var {
        let at = caller();
        on_behalf("powf", at, || self.pow(p))
    }

    /// Returns xʸ for floats, with an error of at most 1 ulp. If y is a number, the result is that of
    /// [`powf`](Var::powf).
    #[doc(alias = "power")]
    #[doc(alias = "float_power")]
    #[track_caller]
    pub fn pow(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        let (x_type, y_type) = (self.ty(at), y.ty(at));
        let exponent =
            y.known().filter(|_| x_type.dtype.is_float() && x_type.dtype == y_type.dtype);
        trace::within("pow", || match exponent.and_then(constant_power) {
            Some(op) => emit(op, &[self], at),
            None => binary(Scalar::Pow, self, y, at),
        })
    }

    /// Returns x².
    #[track_caller]
    pub fn square(self) -> Var {
        let at = caller();
        trace::within("square", || emit(Scalar::Mul, &[self, self], at))
    }

    /// Returns 1 / x.
    #[doc(alias = "reciprocal")]
    #[track_caller]
    pub fn recip(self) -> Var {
        let at = caller();
        trace::within("recip", || binary(Scalar::Div, 1.0.beside(self, at), self, at))
    }

    /// Returns the n-th derivative of `digamma`.
    #[track_caller]
    pub fn polygamma(self, n: u32) -> Var {
        let at = caller();
        trace::within("polygamma", || emit(Polygamma { n }, &[self], at))
    }

    /// Returns min(max(x, low), high). The derivative with respect to x is 0 where x is outside of the bounds or equal
    /// to one of them.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.clamp(-1.0, 1.0), [-3.0, 0.5, 7.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "clip")]
    #[track_caller]
    pub fn clamp(self, low: impl IntoVar, high: impl IntoVar) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let operands = [low.beside(self, at), self, high.beside(self, at)];
        match broadcast_together("clamp", &operands, at) {
            Ok((operands, _)) => emit(Scalar::Clamp, &operands, at),
            Err(problem) => {
                trace::record(problem, &operands.map(|v| v.handle), at);
                Var::poison(ty, at)
            }
        }
    }

    /// Converts the elements to another dtype. Conversion to a narrower float rounds; conversion to an integer
    /// truncates towards zero; conversion to bool compares with 0. No other operation changes the dtype implicitly.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let n = run(|x: Var| x.convert(Dtype::I64), [1.9, -1.9])?;
    /// assert_eq!(n.to_vec::<i64>()?, [1, -1]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "to")]
    #[doc(alias = "astype")]
    #[doc(alias = "convert_element_type")]
    #[track_caller]
    pub fn convert(self, dtype: Dtype) -> Var {
        let at = caller();
        if self.ty(at).dtype == dtype {
            return self;
        }
        emit(Convert { to: dtype }, &[self], at)
    }

    /// Returns the array unchanged, as a constant for derivatives.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let g = run(grad(|x: Var| x * x.stop_gradient()), 3.0)?;
    /// assert_eq!(g.item::<f64>()?, 3.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "no_grad")]
    #[doc(alias = "detach")]
    #[track_caller]
    pub fn stop_gradient(self) -> Var {
        emit(StopGradient, &[self], caller())
    }

    /// Returns the array unchanged, divided among the devices of a mesh as a partition spec says: one word for each axis,
    /// the name of a mesh axis or `_`. The mesh is that of [`Jit::mesh`](crate::Jit::mesh); without one, and on targets with
    /// one device, this changes nothing. Derivatives are divided like the array; the axis of a batch is divided as the
    /// compiler chooses.
    ///
    /// A word that is no name, a mesh axis that occurs twice, and more words than axes are errors. The other mistakes are
    /// reported where the program is compiled for a mesh: no mesh axis of this name, or one whose size does not divide the
    /// axis.
    ///
    /// ```
    /// use tapeloom::{Mesh, prelude::*};
    /// let f = |x: Var| (x.sharded(["rows", "_"]) * 2.0).sum();
    /// assert_eq!(run(f, [[1.0, 2.0], [3.0, 4.0]])?.item::<f64>()?, 20.0);
    /// # #[cfg(feature = "stablehlo")] {
    /// let text = jit(f).mesh(Mesh::new([("rows", 2)])?).stablehlo([[1.0, 2.0], [3.0, 4.0]])?;
    /// assert!(text.contains("sdy.sharding_constraint %0 <@mesh, [{\"rows\"}, {}]> : tensor<2x2xf64>"));
    /// # }
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: `with_sharding_constraint` of JAX.
    #[doc(alias = "with_sharding_constraint")]
    #[track_caller]
    pub fn sharded(self, spec: impl Into<PartitionSpec>) -> Var {
        emit(Sharded { spec: spec.into() }, &[self], caller())
    }
}
