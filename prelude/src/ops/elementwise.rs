//! Functions applied element by element.
//!
//! Domains, edges and derivatives stand with each function in the generated page of primitives of
//! the book; what is undefined is nan, as in Rust.

use super::{binary, broadcast_together, emit};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::prim::{Convert, IntegerPow, Polygamma, StopGradient};
use tapeloom_ir::trace;
use tapeloom_ir::{Dtype, Scalar};

macro_rules! unary {
    ($($(#[$doc:meta])+ $name:ident = $op:ident;)*) => {
        /// Functions of one array; same shape, same dtype.
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
    /// |x|; numbers with a sign. The derivative at 0 is 1, as in JAX.
    #[doc(alias = "absolute")]
    #[doc(alias = "fabs")]
    abs = Abs;
    /// -1, 0 or 1 by the sign of x; nan stays. The derivative is 0.
    #[doc(alias = "sign")]
    signum = Sign;
    /// The largest integer not above x. The derivative is 0.
    floor = Floor;
    /// The smallest integer not below x. The derivative is 0.
    ceil = Ceil;
    /// The nearest integer, halves away from zero (as Rust's). The derivative is 0.
    round = Round;
    /// The nearest integer, halves to the even one (as numpy's `round`). The derivative is 0.
    #[doc(alias = "rint")]
    #[doc(alias = "around")]
    round_ties_even = RoundEven;
    /// eˣ
    exp = Exp;
    /// 2ˣ, exact at integers.
    exp2 = Exp2;
    /// eˣ - 1, exact near 0 (numpy's `expm1`).
    #[doc(alias = "expm1")]
    exp_m1 = Expm1;
    /// The natural logarithm (numpy's `log`); -inf at 0, nan below.
    #[doc(alias = "log")]
    ln = Log;
    /// ln(1 + x), exact near 0 (numpy's `log1p`).
    #[doc(alias = "log1p")]
    ln_1p = Log1p;
    /// The logarithm to base 2, exact at powers of 2; -inf at 0, nan below.
    log2 = Log2;
    /// The logarithm to base 10, exact at powers of 10; -inf at 0, nan below.
    log10 = Log10;
    /// √x; nan below 0. The derivative at 0 is inf.
    sqrt = Sqrt;
    /// 1 / √x
    rsqrt = Rsqrt;
    /// The cube root, also of negative numbers.
    cbrt = Cbrt;
    /// sin x
    sin = Sin;
    /// cos x
    cos = Cos;
    /// tan x
    tan = Tan;
    /// arcsin x, in [-π/2, π/2]
    #[doc(alias = "arcsin")]
    asin = Asin;
    /// arccos x, in [0, π]
    #[doc(alias = "arccos")]
    acos = Acos;
    /// arctan x, in [-π/2, π/2]
    #[doc(alias = "arctan")]
    atan = Atan;
    /// sinh x
    sinh = Sinh;
    /// cosh x
    cosh = Cosh;
    /// tanh x
    tanh = Tanh;
    /// 1 / cosh x, without overflow
    sech = Sech;
    /// arsinh x
    #[doc(alias = "arcsinh")]
    asinh = Asinh;
    /// arcosh x
    #[doc(alias = "arccosh")]
    acosh = Acosh;
    /// artanh x
    #[doc(alias = "arctanh")]
    atanh = Atanh;
    /// 1 / (1 + e⁻ˣ), without overflow
    #[doc(alias = "expit")]
    #[doc(alias = "logistic")]
    sigmoid = Logistic;
    /// The error function.
    erf = Erf;
    /// 1 - erf x, exact for large x.
    erfc = Erfc;
    /// Φ(x), the normal distribution function, exact in its left tail.
    #[doc(alias = "norm_cdf")]
    ndtr = Ndtr;
    /// The inverse of `erf`.
    #[doc(alias = "erfinv")]
    erf_inv = ErfInv;
    /// ln |Γ(x)|
    #[doc(alias = "gammaln")]
    lgamma = Lgamma;
    /// ψ(x) = Γ'(x) / Γ(x)
    #[doc(alias = "psi")]
    digamma = Digamma;
    /// Whether x is neither infinite nor nan (bool).
    #[doc(alias = "isfinite")]
    is_finite = IsFinite;
}

macro_rules! two {
    ($($(#[$doc:meta])+ $name:ident = $op:ident;)*) => {
        /// Functions of two arrays of one dtype, broadcast together; either may be a number.
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
    /// The larger of both; nan if either is. At a tie each takes half of the derivative.
    maximum = Max;
    /// The smaller of both; nan if either is. At a tie each takes half of the derivative.
    minimum = Min;
    /// xʸ for floats.
    #[doc(alias = "power")]
    #[doc(alias = "float_power")]
    pow = Pow;
    /// √(x² + y²), without overflow. Both derivatives at the origin are 0, and second ones nan.
    hypot = Hypot;
    /// The angle of the point whose ordinate is `self` and whose abscissa is the argument:
    /// `y.atan2(x)`, as Rust's.
    #[doc(alias = "arctan2")]
    atan2 = Atan2;
    /// The next representable float from x towards y. It has no derivative: asking for one is an error.
    #[doc(alias = "nextafter")]
    next_after = NextAfter;
}

impl Var {
    /// xⁿ for an integer n, by multiplication; its derivatives are exact at 0.
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

    /// xᵖ for a number p.
    #[track_caller]
    pub fn powf(self, p: f64) -> Var {
        let at = caller();
        on_behalf("powf", at, || self.pow(p))
    }

    /// x²
    #[track_caller]
    pub fn square(self) -> Var {
        let at = caller();
        trace::within("square", || emit(Scalar::Mul, &[self, self], at))
    }

    /// 1 / x
    #[doc(alias = "reciprocal")]
    #[track_caller]
    pub fn recip(self) -> Var {
        let at = caller();
        trace::within("recip", || binary(Scalar::Div, 1.0.beside(self, at), self, at))
    }

    /// The n-th derivative of `digamma`.
    #[track_caller]
    pub fn polygamma(self, n: u32) -> Var {
        let at = caller();
        trace::within("polygamma", || emit(Polygamma { n }, &[self], at))
    }

    /// min(max(x, low), high). The derivative outside, and at the edges, is 0.
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

    /// The elements in another dtype: rounded to narrower floats, truncated towards zero to
    /// integers, compared with 0 to bool. The only way between dtypes.
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

    /// The same values, which derivatives take for constants.
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
}
