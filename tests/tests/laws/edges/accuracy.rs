//! The error of elementwise functions, in units in the last place of the exact result rounded to f64.

use super::functions::{FUNCTIONS, Form};
use serde_json::Value;
use std::path::Path;
use tapeloom::prelude::*;

/// The bound on the error of each function on the recorded arguments, in units in the last place.
pub const BOUNDS: &[(&str, f64)] = &[
    ("exp", 1.0),
    ("exp2", 1.0),
    ("exp_m1", 1.0),
    ("ln", 1.0),
    ("log2", 1.0),
    ("log10", 1.0),
    ("ln_1p", 1.0),
    ("sqrt", 1.0),
    ("rsqrt", 1.0),
    ("cbrt", 1.0),
    ("square", 1.0),
    ("recip", 1.0),
    ("powi(3)", 1.0),
    ("powi(-2)", 1.0),
    ("powf(2.5)", 2.0),
    ("powf(2)", 1.0),
    ("sin", 1.0),
    ("cos", 1.0),
    ("tan", 1.0),
    ("asin", 1.0),
    ("acos", 1.0),
    ("atan", 1.0),
    ("sinh", 1.0),
    ("cosh", 1.0),
    ("tanh", 3.0),
    ("sech", 1.0),
    ("asinh", 1.0),
    ("acosh", 1.0),
    ("atanh", 1.0),
    ("erf", 1.0),
    ("erfc", 2.0),
    ("erf_inv", 2.0),
    ("ndtr", 2.0),
    ("lgamma", 16.0),
    ("digamma", 5.0),
    ("polygamma(1)", 3.0),
    ("polygamma(2)", 3.0),
    ("sigmoid", 2.0),
    ("gelu", 16.0),
    ("gelu_tanh", 550.0),
    ("silu", 3.0),
    ("elu_with(1.5)", 1.0),
    ("softplus", 1.0),
    ("log_sigmoid", 1.0),
    ("entr", 1.0),
    ("logit", 1.0),
    ("ndtri", 3.0),
    ("log_ndtr", 2.0),
    ("celu(1.5)", 1.0),
    ("selu", 1.0),
    ("mish", 1.0),
    ("add", 1.0),
    ("sub", 1.0),
    ("mul", 1.0),
    ("div", 1.0),
    ("pow", 1.0),
    ("hypot", 1.0),
    ("atan2", 1.0),
    ("logaddexp", 8.0),
    ("xlogy", 1.0),
    ("xlog1py", 1.0),
    ("logaddexp2", 1.0),
    ("logsumexp", 3.0),
];

/// Returns the measured errors: the function's name, its largest error in units in the last place, and the arguments at
/// which it occurs.
pub fn measured() -> Vec<(String, f64, Vec<f64>)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/edges/ulp.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let entries = text.lines().skip(1).map(|l| serde_json::from_str::<Value>(l).unwrap());
    entries.map(|e| measure(&e)).collect()
}

fn measure(entry: &Value) -> (String, f64, Vec<f64>) {
    let name = entry["name"].as_str().unwrap().to_owned();
    let numbers = |v: &Value| -> Vec<f64> {
        v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let points: Vec<Vec<f64>> = entry["x"].as_array().unwrap().iter().map(numbers).collect();
    let truth = numbers(&entry["y"]);
    let (count, n) = (points.len(), points[0].len());
    let column = |i: usize| Tensor::from(points.iter().map(|p| p[i]).collect::<Vec<f64>>());
    let (_, form) = FUNCTIONS.iter().find(|(f, _)| *f == name).expect("a recorded function");
    let y: Tensor = match *form {
        Form::One(f) => run(f, column(0)),
        Form::Two(f) => run(move |(x, y): (Var, Var)| f(x, y), (column(0), column(1))),
        Form::Row(f) => run(f, Tensor::new(&[count, n], points.concat()).unwrap()),
    }
    .unwrap_or_else(|e| panic!("{name}: {e}"));
    let each = y.elements() / count;
    let y: Vec<f64> = y.to_vec::<f64>().unwrap().into_iter().step_by(each).collect();
    let mut worst = (0.0, 0);
    for (i, (got, want)) in y.iter().zip(&truth).enumerate() {
        let error = ulps(*got, *want);
        if error > worst.0 {
            worst = (error, i);
        }
    }
    (name, worst.0, points[worst.1].clone())
}

/// Returns the distance of `got` from the exact result `want`, in units in the last place of `want`.
fn ulps(got: f64, want: f64) -> f64 {
    if got == want {
        return 0.0;
    }
    let size = want.abs();
    let error = (got - want).abs() / (size.next_up() - size);
    if error.is_nan() { f64::INFINITY } else { error }
}

/// Returns the book's table of the largest errors, with the functions that reach each.
pub fn table() -> String {
    let mut text = "| Largest error, ulp | Functions |\n|---|---|\n".to_owned();
    let mut bounds: Vec<f64> = BOUNDS.iter().map(|(_, b)| *b).collect();
    bounds.sort_by(f64::total_cmp);
    bounds.dedup();
    for bound in bounds {
        let names: Vec<String> =
            BOUNDS.iter().filter(|(_, b)| *b == bound).map(|(n, _)| format!("`{n}`")).collect();
        text += &format!("| {bound} | {} |\n", names.join(", "));
    }
    text
}
