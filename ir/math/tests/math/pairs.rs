//! Functions of two arguments that have a straight-line part: edges, errors and recordings.

use tapeloom_math::{Atan2, Hypot, LogAddExp, Operation, PartedPair, Pow, Recording};

/// Floats at which functions of two arguments change their behaviour, with both signs.
const EDGES: &[f64] = &[
    0.0,
    5e-324,
    1e-310,
    1e-200,
    1e-45,
    1e-40,
    1e-17,
    0.3,
    0.5,
    1.0,
    1.5,
    2.0,
    3.0,
    87.5,
    104.5,
    709.0,
    746.5,
    1e10,
    9007199254740993.0,
    1e30,
    3.5e38,
    1e200,
    1e308,
    f64::INFINITY,
    f64::NAN,
];

fn signed() -> impl Iterator<Item = f64> + Clone {
    EDGES.iter().flat_map(|x| [*x, -x])
}

/// Returns whether `got` and `want` are both NaN, or differ by at most `most` times `unit` and, if they are zeros, have
/// the same sign.
fn near(got: f64, want: f64, unit: f64, most: f64) -> bool {
    if want.is_nan() || want.is_infinite() || want == 0.0 {
        return got.is_nan() && want.is_nan()
            || got == want && got.is_sign_negative() == want.is_sign_negative();
    }
    (got - want).abs() <= most * unit
}

fn unit_of_f32(want: f64) -> f64 {
    let y = (want as f32).abs();
    f64::from(y.next_up()) - f64::from(y)
}

/// Compares both precisions of a function with a reference in f64, at all pairs of [`EDGES`] with both signs. The error
/// is at most `most` units in the last place of the larger of the result and `terms`.
fn agrees<F: PartedPair>(
    reference: impl Fn(f64, f64) -> f64,
    terms: impl Fn(f64, f64) -> f64,
    most: f64,
) {
    for x in signed() {
        for y in signed() {
            let (got, want) = (F::here(x, y), reference(x, y));
            let size = want.abs().max(terms(x, y));
            let unit = size.next_up() - size;
            assert!(near(got, want, unit, most), "f64 at {x:e}, {y:e}: {got:e}, expected {want:e}");
            let (a, b) = (x as f32, y as f32);
            let (got, wide) = (F::here_f32(a, b), reference(a.into(), b.into()));
            // If the reference rounds to 0 or ∞ in f32, the result must equal that 0 or ∞.
            let want = if (wide as f32).is_finite() && wide as f32 != 0.0 {
                wide
            } else {
                f64::from(wide as f32)
            };
            let got = f64::from(got);
            assert!(
                near(got, want, unit_of_f32(want.abs().max(terms(x, y))), most),
                "f32 at {a:e}, {b:e}: {got:e}, expected {want:e}"
            );
        }
    }
}

/// Compares the recorded operations of a function of two arguments with the Rust function, bit by bit, in f64 and f32,
/// at all pairs of ordinary numbers and of [`EDGES`] with both signs. Returns the number of evaluations with arguments
/// for which the recording is valid.
fn recorded<F: PartedPair>() -> usize {
    let [wide, narrow] = [false, true].map(Recording::of_pair::<F>);
    let ordinary = (0..60).map(|i| (f64::from(i) * 0.7).sin() * 3.0);
    let all: Vec<f64> = signed().chain(ordinary).collect();
    let mut count = 0;
    for x in &all {
        for y in &all {
            let (inside, z) = wide.evaluate(&[x.to_bits(), y.to_bits()]);
            count += usize::from(inside);
            assert!(!inside || z == F::here(*x, *y).to_bits(), "f64 at {x:e}, {y:e}");
            let (a, b) = (*x as f32, *y as f32);
            let (inside, z) = narrow.evaluate(&[a.to_bits().into(), b.to_bits().into()]);
            count += usize::from(inside);
            assert!(!inside || z == u64::from(F::here_f32(a, b).to_bits()), "f32 at {a:e}, {b:e}");
        }
    }
    count
}

#[test]
fn powers() {
    agrees::<Pow>(libm::pow, |_, _| 0.0, 1.5);
    assert!(recorded::<Pow>() > 3000);
}

/// In f32, the error is within 1 ulp also where it is largest: at x near the bounds between the factors of the
/// logarithm's argument, with powers near the ends of the range.
#[test]
fn powers_in_f32_near_bounds() {
    for i in 0..200_000u64 {
        let at = |n: u64| (i * n % 199_999) as f64 / 199_999.0;
        let x = (0.65 + 0.8 * at(7919)) as f32;
        let log = f64::from(x).ln();
        let y = ((80.0 + 7.0 * at(104_729)) * if i % 2 == 0 { 1.0 } else { -1.0 } / log) as f32;
        let want = libm::pow(x.into(), y.into());
        if y.is_finite() && (want as f32).is_normal() {
            let got = f64::from(Pow::here_f32(x, y));
            assert!(near(got, want, unit_of_f32(want), 1.0), "{x:e}, {y:e}: {got:e}, not {want:e}");
        }
    }
}

#[test]
fn distances() {
    agrees::<Hypot>(libm::hypot, |_, _| 0.0, 2.0);
    assert!(recorded::<Hypot>() > 6000);
}

#[test]
fn angles() {
    agrees::<Atan2>(libm::atan2, |_, _| 0.0, 2.5);
    assert!(recorded::<Atan2>() > 10000);
}

#[test]
fn logarithms_of_sums() {
    let reference = |x: f64, y: f64| {
        if x == y {
            return x + std::f64::consts::LN_2;
        }
        let least_and_most =
            if x.is_nan() || y.is_nan() { [f64::NAN; 2] } else { [x.min(y), x.max(y)] };
        let [least, most] = least_and_most;
        most + libm::log1p(libm::exp(least - most))
    };
    // Where the result passes through 0, its terms cancel, so the error is relative to the larger operand there.
    agrees::<LogAddExp>(
        reference,
        |x, y| if (x - y).abs() < 800.0 { x.abs().max(y.abs()) } else { 0.0 },
        2.0,
    );
    assert!(recorded::<LogAddExp>() > 6000);
}

/// `pow` uses only a part of the results of its logarithm. A recording (list of operations) of `pow` must not contain
/// the operations of the unused results, among them a second division.
#[test]
fn recordings_have_no_unused_operations() {
    let recording = Recording::of_pair::<Pow>(false);
    let divisions = recording.list.iter().filter(|o| matches!(o, Operation::Div(..)));
    assert_eq!(divisions.count(), 1);
}
