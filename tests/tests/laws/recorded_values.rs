//! Values that a script recorded from other libraries: a line with the versions of these libraries, then one line of
//! JSON per call.

use serde_json::Value;
use tapeloom::prelude::*;
use tapeloom_tests::conformance::{tensor, tensors};

/// One recorded call, with its results and gradient.
pub(crate) struct RecordedValue<C> {
    /// The name of the function in the recording script.
    pub(crate) name: String,
    pub(crate) args: Vec<Tensor>,
    pub(crate) out: Vec<Tensor>,
    /// The gradient of the weighted sum of the results with respect to the arguments, if recorded.
    pub(crate) grad: Option<Vec<Tensor>>,
    /// The function of this library that the name denotes.
    pub(crate) call: C,
}

/// Returns all recorded calls, each with its line of JSON.
pub(crate) fn recorded_values<C: Copy>(
    text: &str,
    calls: &[(&str, C)],
) -> Vec<(Value, RecordedValue<C>)> {
    let mut lines = text.lines();
    assert!(lines.next().is_some_and(|l| l.contains("version")), "the first line names versions");
    let read = |line: &str| {
        let v: Value = serde_json::from_str(line).unwrap();
        let name = v["f"].as_str().unwrap().to_owned();
        let call = calls.iter().find(|(n, _)| *n == name);
        let call = call.unwrap_or_else(|| panic!("no call for {name}")).1;
        let (args, out) = (tensors(&v["args"]).unwrap(), tensors(&v["out"]).unwrap());
        let grad = v["grad"].as_array().map(|g| g.iter().map(|t| tensor(t).unwrap()).collect());
        (v, RecordedValue { name, args, out, grad, call })
    };
    lines.map(read).collect()
}

/// Returns a message for the first element that differs from the recorded one by more than `within` times the larger of
/// 1 and the largest finite recorded magnitude.
pub(crate) fn differ(got: &[Tensor], want: &[Tensor], within: f64) -> Option<String> {
    if got.len() != want.len() {
        return Some(format!("{} arrays and not {}", got.len(), want.len()));
    }
    let all = |t: &[Tensor]| t.iter().flat_map(|t| t.numbers().collect::<Vec<_>>()).collect();
    let (x, y): (Vec<f64>, Vec<f64>) = (all(got), all(want));
    let largest = y.iter().filter(|y| y.is_finite()).fold(1.0, |m: f64, y| m.max(y.abs()));
    let near =
        |x: f64, y: f64| (x - y).abs() <= within * largest || x == y || (x.is_nan() && y.is_nan());
    let shapes = got.iter().zip(want).find(|(x, y)| x.shape() != y.shape());
    shapes.map(|(x, y)| format!("{} and not {}", x.ty(), y.ty())).or_else(|| {
        (!x.iter().zip(&y).all(|(x, y)| near(*x, *y))).then(|| format!("{x:?}\n    and not {y:?}"))
    })
}

/// Returns the sum of all float results, with the weights of the recording script: its gradient is compared.
pub(crate) fn weighted(results: Vec<Var>) -> Var {
    let one = |y: Var| {
        let y = y.flatten();
        (y * (arange(y.len(), y.dtype()) + 1.0).cos()).sum()
    };
    let floats = results.into_iter().filter(|y| y.dtype().is_float());
    floats.map(one).reduce(|x, y| x + y).unwrap_or(zeros([], Dtype::F64))
}

/// Panics with a list of all differences, if there are any.
#[track_caller]
pub(crate) fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
