//! Special functions compared with recorded values of mpmath (`tests/data/special`), with the error bounds that the
//! book states; also derivatives with respect to parameters, computed as users compute them.
//!
//! An error is counted in units in the last place of the value, or of a larger quantity that limits its accuracy (the
//! amplitude of a wave, or the cancelling terms of a second derivative). Far in a tail, where the value is the
//! exponential of a number in the hundreds, rounding the arguments alone changes the value by a similar number of
//! units. There the unit is multiplied by abs(ln value).

mod data;
mod programs;

use data::{Recorded, recorded};
use std::collections::BTreeMap;
use std::path::Path;
use tapeloom::prelude::*;
use tapeloom_ir::math;

/// A special function of arrays of arguments, one array per parameter.
type Call = fn(&[Var]) -> Var;

/// The type of a function that returns, from the arguments and the value, a magnitude whose rounding limits the
/// accuracy of the value, such as the amplitude of a wave.
type Beside = fn(&[f64], f64) -> f64;

/// A function with the stated bounds on its errors in f64 and in f32, in units in the last place.
struct Stated {
    name: &'static str,
    call: Call,
    beside: Beside,
    /// Whether errors are counted in units in the last place times abs(ln value), because rounding the arguments alone
    /// causes such errors far in a tail.
    tails: bool,
    f64: f64,
    f32: f64,
}

const fn stated(name: &'static str, call: Call, f64: f64) -> Stated {
    Stated { name, call, beside: |_, _| 0.0, tails: false, f64, f32: 1.0 }
}

/// Makes a row like `stated`, for a function with a separate f32 implementation, whose error bound is `f32`.
const fn in_both(name: &'static str, call: Call, f64: f64, f32: f64) -> Stated {
    Stated { f32, ..stated(name, call, f64) }
}

/// Makes a row like `stated`, for a function with tails and with cancelling terms of magnitude `beside`.
const fn tailed(name: &'static str, call: Call, beside: Beside, f64: f64) -> Stated {
    Stated { name, call, beside, tails: true, f64, f32: 1.0 }
}

/// Makes a row like `stated`, for a wave of order n with the amplitude `beside`.
const fn wave(name: &'static str, call: Call, f64: f64, beside: Beside) -> Stated {
    Stated { name, call, beside, tails: false, f64, f32: 1.0 }
}

fn amplitude(n: f64, x: f64) -> f64 {
    if x.abs() > n + 1.0 { (2.0 / (std::f64::consts::PI * x.abs())).sqrt() } else { 0.0 }
}

/// Returns the elementwise derivative of `f` with respect to argument `i`, as the gradient of the sum over elements.
fn slope(f: Call, i: usize, x: &[Var]) -> Var {
    let inner = |d: Var| {
        let mut all = x.to_vec();
        all[i] = d;
        f(&all).sum()
    };
    grad(inner)(x[i])
}

fn gammainc(x: &[Var]) -> Var {
    x[0].gammainc(x[1])
}

fn betainc(x: &[Var]) -> Var {
    x[0].betainc(x[1], x[2])
}

fn hyp1f1(x: &[Var]) -> Var {
    x[0].hyp1f1(x[1], x[2])
}

fn zeta(x: &[Var]) -> Var {
    x[0].zeta(x[1])
}

/// Returns the magnitude of the cancelling terms in a second derivative of the incomplete gamma functions: the variance
/// of the score of the parameter, times the smaller tail.
fn beside_gamma(x: &[f64], _: f64) -> f64 {
    let (p, q) = (math::gammainc(0, x[0], x[1]), math::gammaincc(x[0], x[1]));
    // Up to x = 1 the function sums a series for the lower tail P, even if the upper tail Q is smaller.
    let p = if x[1] <= 1.0 { p } else { p.min(q) };
    p * math::polygamma(1, x[0].max(1.0))
}

fn beside_beta(x: &[f64], i: usize, j: usize) -> f64 {
    let p = math::betainc(0, 0, x[0], x[1], x[2]);
    let information = |a: f64| math::polygamma(1, a.max(1.0));
    p.min(1.0 - p) * (information(x[i]) * information(x[j])).sqrt()
}

const FUNCTIONS: &[Stated] = &[
    in_both("i0", |x| x[0].i0(), 4.0, 4.0),
    in_both("i1", |x| x[0].i1(), 5.0, 4.0),
    in_both("i0e", |x| x[0].i0e(), 4.0, 3.0),
    in_both("i1e", |x| x[0].i1e(), 4.0, 3.0),
    wave("bessel_j0", |x| x[0].bessel_j0(), 2.0, |x, _| amplitude(0.0, x[0])),
    wave("bessel_j1", |x| x[0].bessel_j1(), 2.0, |x, _| amplitude(1.0, x[0])),
    wave("bessel_jn(2)", |x| x[0].bessel_jn(2), 8.0, |x, _| amplitude(2.0, x[0])),
    wave("bessel_jn(7)", |x| x[0].bessel_jn(7), 9.0, |x, _| amplitude(7.0, x[0])),
    wave("bessel_y0", |x| x[0].bessel_y0(), 3.0, |x, _| amplitude(-0.5, x[0])),
    wave("bessel_y1", |x| x[0].bessel_y1(), 3.0, |x, _| amplitude(0.0, x[0])),
    stated("exp1", |x| x[0].exp1(), 3.0),
    stated("expn(3)", |x| x[0].expn(3), 3.0),
    stated("expi", |x| x[0].expi(), 8.0),
    stated("spence", |x| x[0].spence(), 3.0),
    stated("erfc_inv", |x| x[0].erfc_inv(), 2.0),
    tailed("gammainc", gammainc, |_, _| 0.0, 8.0),
    tailed("gammaincc", |x| x[0].gammaincc(x[1]), |_, _| 0.0, 7.0),
    tailed("betainc", betainc, |_, _| 0.0, 17.0),
    stated("zeta", zeta, 4.0),
    tailed("gammainc, ∂a", |x| slope(gammainc, 0, x), |_, _| 0.0, 6.0),
    tailed("gammainc, ∂a²", |x| slope(|x| slope(gammainc, 0, x), 0, x), beside_gamma, 10.0),
    tailed("gammainc, ∂x", |x| slope(gammainc, 1, x), |_, _| 0.0, 3.0),
    tailed("betainc, ∂a", |x| slope(betainc, 0, x), |_, _| 0.0, 13.0),
    tailed("betainc, ∂b", |x| slope(betainc, 1, x), |_, _| 0.0, 19.0),
    tailed(
        "betainc, ∂a²",
        |x| slope(|x| slope(betainc, 0, x), 0, x),
        |x, _| beside_beta(x, 0, 0),
        58.0,
    ),
    tailed(
        "betainc, ∂b²",
        |x| slope(|x| slope(betainc, 1, x), 1, x),
        |x, _| beside_beta(x, 1, 1),
        35.0,
    ),
    tailed(
        "betainc, ∂a∂b",
        |x| slope(|x| slope(betainc, 0, x), 1, x),
        |x, _| beside_beta(x, 0, 1),
        12.0,
    ),
    tailed("betainc, ∂x", |x| slope(betainc, 2, x), |_, _| 0.0, 25.0),
    stated("zeta, ∂s", |x| slope(zeta, 0, x), 10.0),
    stated("zeta, ∂s²", |x| slope(|x| slope(zeta, 0, x), 0, x), 4.0),
    stated("spence, ∂x²", |x| slope(|x| slope(|x| x[0].spence(), 0, x), 0, x), 5.0),
    stated("erfcx", |x| x[0].erfcx(), 3.0),
    stated("dawsn", |x| x[0].dawsn(), 4.0),
    tailed("hyp1f1", hyp1f1, |_, _| 0.0, 140.0),
    stated("erfcx, ∂x", |x| slope(|x| x[0].erfcx(), 0, x), 5.0),
    stated("dawsn, ∂x", |x| slope(|x| x[0].dawsn(), 0, x), 90.0),
    // The f32 bound is large because the derivative calls `hyp1f1` with the parameters a + 1 and b + 1, which are
    // rounded to f32.
    Stated { f32: 2005.0, ..tailed("hyp1f1, ∂x", |x| slope(hyp1f1, 2, x), |_, _| 0.0, 5.0) },
    in_both("i0e, ∂x", |x| slope(|x| x[0].i0e(), 0, x), 4.0, 4.0),
    in_both("i1e, ∂x", |x| slope(|x| x[0].i1e(), 0, x), 4.0, 4.0),
    stated("i0e, ∂x²", |x| slope(|x| slope(|x| x[0].i0e(), 0, x), 0, x), 8.0),
];

/// Returns the largest error in f64, the largest error in f32, and the arguments at which the f64 error occurs.
fn measure(stated: &Stated, recorded: &Recorded) -> (f64, f64, Vec<f64>) {
    let all: Vec<usize> = (0..recorded.rows.len()).collect();
    let narrow: Vec<usize> = all.iter().copied().filter(|i| i % 2 == 1).collect();
    let (wide, at) = worst(stated, recorded, Dtype::F64, &all);
    (wide, worst(stated, recorded, Dtype::F32, &narrow).0, at)
}

fn worst(stated: &Stated, recorded: &Recorded, dtype: Dtype, rows: &[usize]) -> (f64, Vec<f64>) {
    let rows: Vec<usize> = rows.iter().copied().filter(|i| !recorded.values[*i].is_nan()).collect();
    let column = |i: usize| {
        let numbers: Vec<f64> = rows.iter().map(|r| recorded.rows[*r][i]).collect();
        match dtype {
            Dtype::F32 => Tensor::from(numbers.iter().map(|x| *x as f32).collect::<Vec<f32>>()),
            _ => Tensor::from(numbers),
        }
    };
    let columns: Vec<Tensor> = (0..recorded.rows[0].len()).map(column).collect();
    let call = stated.call;
    let found = run(|x: Vec<Var>| call(&x), columns);
    let found = found.unwrap_or_else(|e| panic!("{}: {e}", stated.name));
    let mut worst = (0.0, Vec::new());
    for (row, got) in rows.iter().zip(found.numbers()) {
        let (x, want) = (&recorded.rows[*row], recorded.values[*row]);
        let error = error(stated, dtype, x, got, want);
        if error > worst.0 {
            worst = (error, x.clone());
        }
    }
    worst
}

fn error(stated: &Stated, dtype: Dtype, x: &[f64], got: f64, want: f64) -> f64 {
    if dtype == Dtype::F32 {
        // Most f32 results are computed in f64 and rounded once, so the expected value is rounded too.
        let (got, want) = (got as f32, want as f32);
        if got == want || want.is_subnormal() || want == 0.0 || want.is_infinite() {
            return 0.0;
        }
        let size = want.abs().max((stated.beside)(x, f64::from(want)) as f32);
        return f64::from((got - want).abs() / (size.next_up() - size));
    }
    let size = want.abs().max((stated.beside)(x, want));
    let unit = size.next_up() - size;
    let tail = if stated.tails { want.abs().ln().abs().max(1.0) } else { 1.0 };
    let error = (got - want).abs() / (unit * tail);
    if error.is_nan() { f64::INFINITY } else { error }
}

#[test]
fn values_and_derivatives_are_as_accurate_as_stated() {
    let recorded = recorded();
    let names: Vec<&str> = recorded.iter().map(|r| r.name.as_str()).collect();
    let stated: Vec<&str> = FUNCTIONS.iter().map(|s| s.name).collect();
    assert_eq!(names, stated, "the order is that of the script");
    let mut wrong = Vec::new();
    for (stated, recorded) in FUNCTIONS.iter().zip(&recorded) {
        let (wide, narrow, at) = measure(stated, recorded);
        for (dtype, error, bound) in [("f64", wide, stated.f64), ("f32", narrow, stated.f32)] {
            if error > bound {
                wrong.push(format!(
                    "{} in {dtype}: {error:.2} ulp, more than {bound}, at {at:?}",
                    stated.name
                ));
            } else if bound > 2.0 && bound > 2.0 * error {
                // If an error is far below its bound, the bound must be tightened.
                wrong.push(format!("{} in {dtype}: {error:.2} ulp; tighten {bound}", stated.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Compares the table of errors in `special-functions.md` with the measured errors, or writes it if `BLESS` is set.
#[test]
fn page_is_fresh() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/special-functions.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (start, end) = ("<!-- accuracy -->\n", "<!-- end of accuracy -->");
    let (before, rest) = page.split_once(start).expect("a mark before the table");
    let (found, after) = rest.split_once(end).expect("a mark after the table");
    let table = table();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, [before, start, &table, end, after].concat()).unwrap();
        return;
    }
    assert!(
        found == table,
        "rewrite the table with `BLESS=1 cargo test -p tapeloom-tests --test laws special::`"
    );
}

fn table() -> String {
    let mut table = "\n| Function | Arguments compared | Largest error in f64, ulp | beside |\n|---|---|---|---|\n".to_owned();
    let counts: BTreeMap<String, usize> = recorded()
        .into_iter()
        .map(|r| (r.name, r.values.iter().filter(|x| !x.is_nan()).count()))
        .collect();
    for stated in FUNCTIONS {
        let beside = match (stated.tails, (stated.beside)(&[3.0, 3.0, 0.5], 0.1) > 0.0) {
            (true, true) => "terms that cancel, and abs(ln value)",
            (true, false) => "abs(ln value)",
            (false, _) if stated.name.starts_with("bessel") => "amplitude",
            (false, _) => "",
        };
        table += &format!(
            "| `{}` | {} | {} | {beside} |\n",
            stated.name, counts[stated.name], stated.f64
        );
    }
    table + "\n"
}
