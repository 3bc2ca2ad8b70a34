//! Functions computed in f32: at no sampled argument may the error exceed the one that the recorded table of errors
//! states. The first line of the table gives the number of arguments from which the table was made.
//!
//! `cargo run --release -p tapeloom-tests --bin ulp -- 7 --write tests/data/edges/f32_ulp.txt` makes the table.

use std::collections::BTreeMap;
use std::path::Path;
use tapeloom_tests::f32_errors::all;

/// The step between sampled bit patterns of f32 arguments: one argument in about 50,000 is tried.
const STEP: u32 = 49_999;

#[test]
fn f32_functions_are_as_near_as_the_table_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/edges/f32_ulp.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let row = |line: &'_ str| -> (String, (f64, f32)) {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0].to_owned(), (words[1].parse().unwrap(), words[3].parse().unwrap()))
    };
    let table: BTreeMap<String, (f64, f32)> =
        text.lines().filter(|l| !l.starts_with('#')).map(row).collect();
    assert_eq!(table.len(), all().len(), "a row for each function");
    for f in all() {
        let (bound, at) = table[&f.name];
        let there = f.error(at);
        assert!(
            (there - bound).abs() < 2e-3,
            "{}: {there} at {at:e}, in the table {bound}",
            f.name
        );
        let worst = f.worst(STEP);
        assert!(worst.ulp < bound + 1e-3, "{}: {worst}, in the table {bound}", f.name);
    }
}
