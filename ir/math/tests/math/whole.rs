//! Tests of recordings that are valid for all arguments, and of those whose functions branch for some arguments.

use super::test_support::same;
use tapeloom_math::*;

/// Floats at which functions change their form, and floats of every exponent, with many bit patterns.
fn arguments() -> Vec<f64> {
    let mut state = 7_u64;
    let random = std::iter::repeat_with(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let near = f64::from((state >> 32) as u32) / f64::from(1_u32 << 30) - 2.0;
        [f64::from_bits(state ^ (state >> 29)), 400.0 * near, near]
    });
    let edges = [
        0.0,
        1e-320,
        f64::MIN_POSITIVE,
        1e-300,
        0.5,
        1.0,
        2.0,
        21.9,
        22.1,
        26.1,
        27.2,
        37.2,
        38.4,
        39.0,
        344.0,
        345.5,
        354.0,
        356.0,
        372.0,
        374.0,
        707.9,
        708.1,
        709.7,
        709.9,
        710.4,
        711.0,
        712.5,
        744.0,
        745.1,
        745.2,
        746.5,
        749.0,
        751.0,
        1021.9,
        1022.5,
        1023.9,
        1024.0,
        1074.0,
        1074.6,
        1075.5,
        1081.0,
        1e5,
        1e6,
        1_000_001.0,
        1e22,
        1e149,
        1e154,
        1e300,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    edges.into_iter().flat_map(|x| [x, -x]).chain(random.take(3_000).flatten()).collect()
}

#[track_caller]
fn check<S: Parted>() {
    for narrow in [false, true] {
        let recording = Recording::of::<S>(narrow);
        let whole = recording.whole.as_ref().unwrap();
        for x in arguments() {
            let (inside, y) = whole.evaluate(&[x.to_bits()]);
            let (y, want) = (f64::from_bits(y), S::here(x));
            assert!(inside && same(y, want), "at {x:e}: {y:e}, expected {want:e}");
            // In f32, where the recording (the list of a function's operations) is not valid, the
            // result must be that of the f64 function, rounded.
            let x = x as f32;
            if narrow && !recording.evaluate(&[x.to_bits().into()]).0 {
                let y = f64::from_bits(whole.evaluate(&[f64::from(x).to_bits()]).1) as f32;
                let want = S::here_f32(x);
                assert!(same(y.into(), want.into()), "in f32 at {x:e}: {y:e}, expected {want:e}");
            }
        }
    }
}

/// Compares the recordings of a function with its values at the arguments at which they are valid. At least a quarter of
/// the arguments must be such.
#[track_caller]
fn check_branching<S: PartedIn<f64> + PartedIn<f32>>() {
    let [wide, narrow] = [false, true].map(Recording::of_branching::<S>);
    assert!(wide.whole.is_none() && narrow.whole.is_none());
    let (mut of_wide, mut of_narrow) = (0, 0);
    let all = arguments();
    for &x in &all {
        let (inside, y) = wide.evaluate(&[x.to_bits()]);
        let (y, want) = (f64::from_bits(y), S::here(x));
        assert!(!inside || same(y, want), "at {x:e}: {y:e}, expected {want:e}");
        of_wide += usize::from(inside);
        let x = x as f32;
        let (inside, y) = narrow.evaluate(&[x.to_bits().into()]);
        let (y, want) = (f32::from_bits(y as u32), S::here(x));
        assert!(!inside || same(y.into(), want.into()), "in f32 at {x:e}: {y:e}, not {want:e}");
        of_narrow += usize::from(inside);
    }
    assert!(4 * of_wide > all.len() && 4 * of_narrow > all.len(), "{of_wide}, {of_narrow}");
}

#[track_caller]
fn check_pair<S: PartedPair>() {
    let whole = Recording::of_pair::<S>(false).whole.unwrap();
    let some: Vec<f64> = arguments().into_iter().take(300).collect();
    for &x in &some {
        for &y in &some {
            let (z, want) =
                (f64::from_bits(whole.evaluate(&[x, y].map(f64::to_bits)).1), S::here(x, y));
            assert!(same(z, want), "at {x:e}, {y:e}: {z:e}, expected {want:e}");
        }
    }
}

#[test]
fn exponentials_are_whole() {
    check::<Exp>();
    check::<Exp2>();
    check::<Expm1>();
    check::<Logistic>();
    check::<LogisticDensity>();
}

#[test]
fn hyperbolic_functions_are_whole() {
    check::<Sinh>();
    check::<Cosh>();
    check::<Tanh>();
    check::<Sech>();
    check::<SechSquare>();
}

#[test]
fn logarithms_are_whole() {
    check::<Log>();
    check::<Log2>();
    check::<Log10>();
    check::<Log1p>();
    check::<Softplus>();
    check_pair::<LogAddExp>();
}

#[test]
fn others_are_whole() {
    check::<Erf>();
    check::<ErfInv>();
    check::<Atan>();
    check::<Asin>();
    check::<Acos>();
    check::<Rsqrt>();
    check_pair::<Atan2>();
}

#[test]
fn roots_and_inverse_hyperbolic_functions_are_whole() {
    check::<Cbrt>();
    check::<HalfPow<3>>();
    check::<Asinh>();
    check::<Acosh>();
    check::<Atanh>();
    check_pair::<Hypot>();
}

#[test]
fn trigonometric_functions_are_whole() {
    check::<Sin>();
    check::<Cos>();
    check::<Tan>();
}

#[test]
fn tails_and_bessel_functions_are_whole() {
    check::<Erfc>();
    check::<Ndtr>();
    check::<BesselI<0>>();
    check::<BesselI<1>>();
    check::<ScaledBessel<1>>();
}

#[test]
fn recordings_of_functions_of_gamma_have_their_bits() {
    check_branching::<Lgamma>();
    check_branching::<Digamma>();
}

#[test]
fn powers_are_whole() {
    check_pair::<Pow>();
}
