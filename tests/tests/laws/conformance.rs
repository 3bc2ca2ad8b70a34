//! Golden numbers computed by JAX: no case may fail, and every recorded operation must have a function here.

use std::fs;
use tapeloom_tests::conformance::{Score, run_ops, run_scalar};

fn golden(name: &str) -> String {
    fs::read_to_string(format!("{}/data/golden/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Panics if a golden case fails, or if a recorded operation is not mapped to a function of the library: its cases
/// would be skipped silently.
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
