//! Functions in f32 compared with themselves in f64: values, gradients and Hessians.
//!
//! Most functions are composed of others, each of which rounds to f32. An intermediate value may leave the range of
//! f32 long before the result does, for example 1/Φ(x)² at -10. So every function is computed in both dtypes, at
//! arguments that are representable in both. The f32 result must be right in some digits, and must not be nan,
//! infinite or 0 unless the f64 result is.

use super::functions::{FUNCTIONS, Form};
use super::table::{Entry, Table, compute_in};
use tapeloom::prelude::*;

/// Functions in whose derivatives terms cancel, with the lowest order of such a derivative. Their error is relative to
/// the largest term, not to the result.
const CANCEL: &[(&str, usize)] =
    &[("sinc", 0), ("hypot", 2), ("atan2", 2), ("beta", 2), ("betaln", 1)];

/// The error of a function in `CANCEL` is at most the first of these numbers times the larger of 1 and the arguments,
/// plus the second number times the result.
const CANCELLED: [f64; 2] = [1e-6, 1e-2];

/// Functions that are compared in f32 and f64 in addition to those with recorded edge cases.
const MORE: &[(&str, Form)] = &[
    ("powi(-5)", Form::One(|x| x.powi(-5))),
    ("powi(7)", Form::One(|x| x.powi(7))),
    ("log_beta", Form::Two(|x, y| x.abs().betaln(y.abs()))),
];

/// The largest relative difference of a value, of an element of a gradient, and of an element of a Hessian.
const NEAR: [f64; 3] = [1e-5, 1e-4, 1e-3];

/// A difference that is always allowed, because results of this magnitude underflow to 0 in f32.
const SMALL: f64 = 1e-33;

/// If an f64 result exceeds this magnitude, the f32 result may be infinite.
const LARGE: f64 = 1e36;

fn points(form: Form) -> Vec<Vec<f64>> {
    match form {
        Form::One(_) => {
            let near = (-56..=56).map(|i| f64::from(i) * 0.25 + 0.0625);
            near.chain([-40.0, -20.0, -1e-3, 1e-3, 20.0, 40.0])
                .map(|x| vec![f64::from(x as f32)])
                .collect()
        }
        Form::Two(_) => {
            let x = [-20.0, -9.5, -2.25, -0.75, -0.0625, 0.0625, 0.5, 1.25, 3.0, 12.0, 40.0];
            let y = [-19.5, -8.0, -2.5, -0.6875, -0.125, 0.03125, 0.75, 1.5, 4.0, 11.0, 30.0];
            x.iter().flat_map(|x| y.map(|y| vec![*x, y])).collect()
        }
        Form::Row(_) => {
            let rows =
                [[0.5, -2.25, 3.0], [-12.0, 0.25, 9.0], [0.125, 0.25, -0.5], [30.0, 11.0, -20.0]];
            rows.into_iter().map(Vec::from).collect()
        }
    }
}

/// Returns a message for each f32 result that differs from the f64 result by more than the tolerance.
pub fn wrong(table: &Table) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut used = vec![false; CANCEL.len()];
    let order = |name: &str| table.entries.iter().find(|e| e.name == name).map_or(2, |e| e.order);
    for (name, form) in FUNCTIONS.iter().chain(MORE) {
        let (jax, exact) = (Vec::new(), Vec::new());
        let (name, order) = ((*name).to_owned(), order(name));
        let entry = Entry { name, order, points: points(*form), jax, exact };
        let [half, full] =
            [Dtype::F32, Dtype::F64].map(|d| compute_in(d, &entry, *form, &table.weights));
        for ((point, got), want) in entry.points.iter().zip(half).zip(full) {
            let n = point.len();
            let values = if entry.order == 0 { want.len() } else { want.len() - n - n * n };
            for (k, (got, want)) in got.iter().zip(&want).enumerate() {
                let order = usize::from(k >= values) + usize::from(k >= values + n);
                // Terms of a row's sum may cancel: the error is relative to the row's largest element.
                let scale = match form {
                    Form::Row(_) => point.iter().fold(1.0, |m: f64, x| m.max(x.abs())),
                    Form::One(_) | Form::Two(_) => 0.0,
                };
                let near = match want {
                    _ if want.is_nan() => got.is_nan(),
                    _ if want.abs() > LARGE => got.abs() > LARGE / 10.0,
                    _ => (got - want).abs() <= NEAR[order] * want.abs().max(scale) + SMALL,
                };
                if near {
                    continue;
                }
                let size = point.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
                let cancelled = CANCELLED[0] * size + CANCELLED[1] * want.abs();
                let cancels = |(name, of): &(&str, usize)| *name == entry.name && *of <= order;
                match CANCEL.iter().position(cancels) {
                    Some(i) if (got - want).abs() <= cancelled => used[i] = true,
                    Some(_) | None => wrong.push(format!(
                        "{}, order {order}, at {point:?}: {got:e}, not {want:e}",
                        entry.name
                    )),
                }
            }
        }
    }
    let unused = CANCEL.iter().zip(used).filter(|(_, used)| !used);
    wrong.extend(unused.map(|((name, _), _)| format!("{name} is not off any more")));
    wrong
}
