//! Values that a script recorded from other libraries: one line of JSON for each call, behind a line that says which
//! versions recorded them.

use serde_json::Value;
use tapeloom::Tensor;
use tapeloom_tests::conformance::{tensor, tensors};

/// One recorded call.
pub(crate) struct RecordedValue<C> {
    /// The name of the function.
    pub(crate) name: String,
    pub(crate) args: Vec<Tensor>,
    pub(crate) out: Vec<Tensor>,
    /// The gradient with respect to the arguments, where it was recorded.
    pub(crate) grad: Option<Vec<Tensor>>,
    /// The same function here.
    pub(crate) call: C,
}

/// All recorded calls, each with its line.
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

/// Fails with all that differs, if anything does.
#[track_caller]
pub(crate) fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
