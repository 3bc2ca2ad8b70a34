//! Text tests of the peephole pass.
#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom_ir::{Module, Tensor, eval, parse_module, print_function, verify_module};
use tapeloom_transforms::by_name;

/// Parses a body of a function of `%x: f64[]`, `%v: f64[3]`, `%n: i64[]` and `%p: bool[]`, runs the pass, and
/// compares the body. Parameters are `%0` to `%3` in the result.
#[track_caller]
fn check(results: &str, before: &str, after: &str) {
    let head = format!("func @f(%x: f64[], %v: f64[3], %n: i64[], %p: bool[]) -> ({results}) {{\n");
    let mut module = parse_module(&format!("{head}{before}\n}}")).unwrap();
    let f = module.iter().last().unwrap().0;
    let g = by_name("peephole").unwrap().apply(&mut module, f).unwrap();
    assert_eq!(verify_module(&module), []);
    let printed = print_function(&module, g);
    let body: Vec<&str> = printed.lines().filter(|l| l.starts_with("  ")).map(str::trim).collect();
    let want: Vec<&str> = after.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    assert_eq!(body, want);
    let args = [
        Tensor::from(1.5),
        Tensor::from([1.0, -2.0, 0.5]),
        Tensor::scalar(3i64),
        Tensor::scalar(true),
    ];
    assert_eq!(eval(&module, f, &args).unwrap(), eval(&module, g, &args).unwrap());
}

#[test]
fn literals_fold() {
    check(
        "f64[]",
        "%a: f64[] = add 1.0, 2.0
                    %b: f64[] = mul %a, %x
                    return %b",
        "%4: f64[] = mul %0, 3.0
                    return %4",
    );
}

#[test]
fn a_fold_may_be_the_result() {
    check("f64[]", "%a: f64[] = add 1.0, 2.0\n return %a", "return 3.0");
}

#[test]
fn zero_and_one_vanish() {
    check(
        "f64[3]",
        "%a: f64[3] = mul 1.0, %v
                     %b: f64[3] = sub %a, 0.0
                     return %b",
        "return %1",
    );
}

#[test]
fn a_zero_that_is_added_stays_where_it_can_be_seen() {
    // -0 + 0 is 0, so `add %v, 0.0` is not the identity.
    check(
        "f64[3]",
        "%a: f64[3] = add %v, 0.0
                     return %a",
        "%4: f64[3] = add %1, 0.0
                     return %4",
    );
    check(
        "f64[3]",
        "%a: f64[3] = exp %v
                     %b: f64[3] = slice{start=[0], limit=[3], strides=[1]} %a
                     %c: f64[3] = add %b, 0.0
                     %d: f64[3] = add %c, 0.0
                     return %d",
        "%4: f64[3] = exp %1
                     return %4",
    );
    check(
        "f64[3]",
        "%a: f64[3] = add %v, 0.0
                     %b: f64[3] = add %a, 0.0
                     return %b",
        "%4: f64[3] = add %1, 0.0
                     return %4",
    );
}

#[test]
fn arrays_of_one_constant_become_literals() {
    check(
        "f64[3]",
        "%a: f64[3] = broadcast{shape=[3], dims=[]} 2.0
                     %b: f64[3] = mul %a, %v
                     return %b",
        "%4: f64[3] = mul %1, 2.0
                     return %4",
    );
}

#[test]
fn an_array_stays_an_array() {
    check(
        "f64[3]",
        "%a: f64[3] = broadcast{shape=[3], dims=[]} 2.0
                     %b: f64[3] = add %a, %a
                     return %b",
        "%4: f64[3] = broadcast{shape=[3], dims=[]} 4.0
                     return %4",
    );
}

#[test]
fn reductions_of_constants_fold() {
    check(
        "f64[]",
        "%a: f64[3] = broadcast{shape=[3], dims=[]} 2.0
                    %b: f64[] = reduce_sum{axes=[0]} %a
                    return %b",
        "return 6.0",
    );
}

#[test]
fn equal_up_to_order_is_equal() {
    check(
        "f64[]",
        "%a: f64[3] = mul %v, %v
                    %b: f64[] = reduce_sum{axes=[0]} %a
                    %c: f64[] = mul %x, %b
                    %d: f64[] = mul %b, %x
                    %e: f64[] = add %c, %d
                    return %e",
        "%4: f64[3] = mul %1, %1
                    %5: f64[] = reduce_sum{axes=[0]} %4
                    %6: f64[] = mul %0, %5
                    %7: f64[] = mul %6, 2.0
                    return %7",
    );
}

#[test]
fn movement_composes() {
    check(
        "f64[2,3]",
        "%a: f64[1,3] = reshape{shape=[1,3]} %v
                       %b: f64[3] = reshape{shape=[3]} %a
                       %c: f64[2,3] = broadcast{shape=[2,3], dims=[1]} %b
                       return %c",
        "%4: f64[2,3] = broadcast{shape=[2,3], dims=[1]} %1
                       return %4",
    );
}

#[test]
fn unread_values_are_removed() {
    check("f64[]", "%a: f64[] = mul %x, %x\n return %x", "return %0");
}

#[test]
fn a_long_chain_is_linear_and_flat() {
    // Parsing is slow in debug builds, so the chain is shorter there.
    const N: usize = if cfg!(debug_assertions) { 20_000 } else { 100_000 };
    let mut text = String::from("func @f(%0: f64[]) -> (f64[]) {\n");
    for i in 0..N / 2 {
        let (a, b, c) = (2 * i, 2 * i + 1, 2 * i + 2);
        text.push_str(&format!("  %{b}: f64[] = mul %{a}, 1.0\n  %{c}: f64[] = add %{b}, %0\n"));
    }
    text.push_str(&format!("  return %{N}\n}}"));
    let mut module: Module = parse_module(&text).unwrap();
    let f = module.iter().last().unwrap().0;
    let g = by_name("peephole").unwrap().apply(&mut module, f).unwrap();
    assert_eq!(module.function(g).equations.len(), N / 2);
}
