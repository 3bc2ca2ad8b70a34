//! Golden numbers computed by JAX: no case may fail, and every recorded operation must have a function here.

use std::fs;
use tapeloom_tests::conformance::{Score, run_ops, run_scalar};

fn golden(name: &str) -> String {
    fs::read_to_string(format!("{}/data/golden/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Panics if a case fails, or if a recorded name has no function here: its cases would be skipped although the library
/// may have the function.
fn no_failures(report: &Score) {
    assert_eq!(report.failed(), 0, "{}", report.lines().join("\n"));
    let skipped = report.skipped();
    assert!(
        skipped.is_empty(),
        "name the functions of these in `tests/src/conformance`: {skipped:?}"
    );
}

#[test]
fn operations() {
    no_failures(&run_ops(&golden("ops.jsonl")).unwrap());
}

#[test]
fn scalar_functions_to_order_four() {
    no_failures(&run_scalar(&golden("scalar.json")).unwrap());
}
