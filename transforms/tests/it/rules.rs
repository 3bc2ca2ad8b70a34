//! Tests of compiled rewrite rows.

use tapeloom_ir::Op;
use tapeloom_ir::prim::{Equality, Exactness, Rewrite, When};
use tapeloom_transforms::unusable;

#[test]
fn every_row_compiles() {
    assert_eq!(unusable(&Op::rewrites()), [""; 0]);
}

#[test]
fn rows_that_are_no_patterns_are_refused() {
    let row = |lhs, rhs| Rewrite {
        name: "row",
        rule: Equality::Pattern { lhs, rhs },
        when: When::Always,
        exactness: Exactness::Exact,
        why: "",
    };
    assert_eq!(unusable(&[row("(add ?x 0)", "?x")]), [""; 0]);
    for text in ["", "(add ?x", "(add ?x ?x))", "(nothing ?x)", "(add ?x zero)"] {
        assert_eq!(unusable(&[row(text, "?x")]), ["row"], "{text}");
        assert_eq!(unusable(&[row("(add ?x 0)", text)]), ["row"], "{text}");
    }
    // Both rows must be reported as unusable: the first has a variable as left-hand side, the second an unknown
    // variable in the right-hand side.
    assert_eq!(unusable(&[row("?x", "?x"), row("(add ?x 0)", "?y")]), ["row"; 2]);
}
