//! Tests of the cost model.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom_transforms::Cost;

#[track_caller]
fn bytes_of(text: &str) -> f64 {
    let module = tapeloom_ir::parse_module(text).unwrap();
    let f = module.iter().last().unwrap().1;
    Cost::of(&module, f).bytes
}

#[test]
fn one_nest_moves_only_its_ends() {
    let text = "func @f(%x: f64[100]) -> (f64[]) {
      %a: f64[100] = exp %x
      %b: f64[100] = mul %a, %a
      %c: f64[] = reduce_sum{axes=[0]} %b
      return %c
    }";
    assert_eq!(bytes_of(text), 800.0);
}

#[test]
fn two_readers_share_through_memory() {
    let text = "func @f(%x: f64[100]) -> (f64[], f64[]) {
      %a: f64[100] = exp %x
      %c: f64[] = reduce_sum{axes=[0]} %a
      %d: f64[] = reduce_max{axes=[0]} %a
      return %c, %d
    }";
    // An array has 800 bytes; x is read once, a is written once and read twice: 4 × 800 bytes.
    assert_eq!(bytes_of(text), 3200.0);
}
