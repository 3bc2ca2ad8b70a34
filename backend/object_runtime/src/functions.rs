//! The special functions that objects do not contain, because their source branches.
//!
//! The results have the bits of the functions that programs in memory call. In f32, the f64 function is computed and rounded,
//! unless the function has an f32 source of its own. The first argument of a function with a number n, such as
//! `bessel_j`, is that number.

#![expect(unsafe_code, reason = "exports functions by their symbols")]

use crate::symbol;
use tapeloom_math as math;
use tapeloom_math::PartedIn;

/// Exports the f64 and the f32 version of each function, and lists the names.
macro_rules! functions {
    ($($name:literal $([$n:ident])? ($($x:ident),+) = $wide:expr $(, f32 $narrow:expr)?;)+) => {
        /// The names of the functions, without the suffix for the dtype.
        pub const NAMES: &[&str] = &[$($name),+];

        $(const _: () = {
            #[unsafe(export_name = symbol!($name, "_f64"))]
            extern "C" fn wide($($n: i64,)? $($x: f64),+) -> f64 {
                $wide
            }

            #[unsafe(export_name = symbol!($name, "_f32"))]
            extern "C" fn narrow($($n: i64,)? $($x: f32),+) -> f32 {
                functions!(@narrow ($($x),+) $wide $(, $narrow)?)
            }
        };)+
    };
    (@narrow ($($x:ident),+) $wide:expr) => {{
        $(let $x = f64::from($x);)+
        $wide as f32
    }};
    (@narrow ($($x:ident),+) $wide:expr, $narrow:expr) => { $narrow };
}

/// Returns the value of a function with the number n, and NaN for a number that the function does not have.
fn of_number(n: i64, f: impl FnOnce(u32) -> f64) -> f64 {
    n.try_into().map_or(f64::NAN, f)
}

functions! {
    "lgamma"(x) = math::lgamma(x), f32 math::Lgamma::here(x);
    "digamma"(x) = math::digamma(x), f32 math::Digamma::here(x);
    "erfc_inv"(x) = math::erfc_inv(x);
    "expi"(x) = math::expi(x);
    "nextafter"(x, y) = math::nextafter(x, y), f32 math::nextafter_f32(x, y);
    "gammaincc"(a, x) = math::gammaincc(a, x);
    "gamma_density"(a, x) = math::gamma_density(a, x);
    "beta_density"(a, b, x) = math::beta_density(a, b, x);
    "hyp1f1"(a, b, x) = math::hyp1f1(a, b, x);

    "polygamma"[n](x) = of_number(n, |n| math::polygamma(n, x));
    "bessel_j"[n](x) = of_number(n, |n| math::bessel_j(n, x));
    "bessel_y"[n](x) = of_number(n, |n| math::bessel_y(n, x));
    "bessel_i"[n](x) = of_number(n, |n| math::bessel_i(n, x));
    "i0e"[n](x) = of_number(n, |n| math::i0e(n, x));
    "i1e"[n](x) = of_number(n, |n| math::i1e(n, x));
    "expn"[n](x) = of_number(n, |n| math::expn(n, x));
    "erfcx"[n](x) = of_number(n, |n| math::erfcx(n, x));
    "dawsn"[n](x) = of_number(n, |n| math::dawsn(n, x));
    "spence"[n](x) = of_number(n, |n| math::spence(n, x));

    "gammainc"(a, x) = math::gammainc(0, a, x);
    "gammainc_1"(a, x) = math::gammainc(1, a, x);
    "gammainc_2"(a, x) = math::gammainc(2, a, x);
    "gammainc_3"(a, x) = math::gammainc(3, a, x);
    "gammainc_4"(a, x) = math::gammainc(4, a, x);

    "zeta"(s, q) = math::zeta(0, s, q);
    "zeta_1"(s, q) = math::zeta(1, s, q);
    "zeta_2"(s, q) = math::zeta(2, s, q);
    "zeta_3"(s, q) = math::zeta(3, s, q);
    "zeta_4"(s, q) = math::zeta(4, s, q);

    "betainc"(a, b, x) = math::betainc(0, 0, a, b, x);
    "betainc_1_0"(a, b, x) = math::betainc(1, 0, a, b, x);
    "betainc_0_1"(a, b, x) = math::betainc(0, 1, a, b, x);
    "betainc_2_0"(a, b, x) = math::betainc(2, 0, a, b, x);
    "betainc_1_1"(a, b, x) = math::betainc(1, 1, a, b, x);
    "betainc_0_2"(a, b, x) = math::betainc(0, 2, a, b, x);
    "betainc_3_0"(a, b, x) = math::betainc(3, 0, a, b, x);
    "betainc_2_1"(a, b, x) = math::betainc(2, 1, a, b, x);
    "betainc_1_2"(a, b, x) = math::betainc(1, 2, a, b, x);
    "betainc_0_3"(a, b, x) = math::betainc(0, 3, a, b, x);
    "betainc_4_0"(a, b, x) = math::betainc(4, 0, a, b, x);
    "betainc_3_1"(a, b, x) = math::betainc(3, 1, a, b, x);
    "betainc_2_2"(a, b, x) = math::betainc(2, 2, a, b, x);
    "betainc_1_3"(a, b, x) = math::betainc(1, 3, a, b, x);
    "betainc_0_4"(a, b, x) = math::betainc(0, 4, a, b, x);
}
