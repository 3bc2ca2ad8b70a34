//! Golden numbers computed by JAX, as a test: nothing may fail, and what is unsupported is listed.

use std::fs;
use tapeloom_tests::conformance::{Score, run_ops, run_scalar};

fn golden(name: &str) -> String {
    fs::read_to_string(format!("{}/data/golden/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn no_failures(report: &Score) {
    assert_eq!(report.failed(), 0, "{}", report.lines().join("\n"));
}

#[test]
fn operations() {
    no_failures(&run_ops(&golden("ops.jsonl")).unwrap());
}

#[test]
fn scalar_functions_to_order_four() {
    no_failures(&run_scalar(&golden("scalar.json")).unwrap());
}
