//! The book's page of primitives is printed from the primitives; this test fails if the page is out of date.
//!
//! `BLESS=1 cargo test -p tapeloom-tests --test laws primitives_page::` writes it.

use std::collections::BTreeSet;
use std::path::Path;
use tapeloom_ir::prim::{Doc, Family};
use tapeloom_ir::{Kind, Module, Op};
use tapeloom_tests::cases;
use tapeloom_transforms::jvp;

/// The text of the page before its tables of primitives.
const INTRODUCTION: &str = "\
# Primitives

<!-- Printed from the primitives themselves. To change a row, change the primitive, then run
`BLESS=1 cargo test -p tapeloom-tests --test laws primitives_page::`. -->

You read a program that `explain` printed, or see an unexpected number, and want the definition of a primitive.
Every equation of a program applies one of the primitives below. The source of a primitive states its meaning, types, derivative and conventions at the edges in one place.
This page is printed from there, and a test fails when the two differ.

## How to read a row

*Primitive* is the name in [program text](ir.md), with the names of its attributes in braces.
*Computes* is the mathematics; x, y and z are the operands in order.
*Edges* defines the result where mathematics has none or more than one: at ties, at poles, beyond the range.
Otherwise floats follow IEEE 754, and a nan in an operand gives nan.

*Derivative* is the change of the result for a small change of an operand.
`∂x` is the part of operand x: if x changes by t, the result changes by the term after `∂x:`, and the terms of all operands are added.
For an elementwise function, f is its value.
So the row of `mul`, `∂x: t · y` and `∂y: t · x`, is the product rule, and this is the forward derivative of a product, with dx and dy for the two t:

```ir
func @product.jvp(%0: f64[], %1: f64[], %2: f64[], %3: f64[]) -> (f64[], f64[]) {
  %4: f64[] = mul %0, %1
  %5: f64[] = mul %2, %1
  %6: f64[] = mul %3, %0
  %7: f64[] = add %5, %6
  return %4, %7
}
```

The term after `∂x:` is always linear in t, and reverse mode is its transpose: it maps a cotangent of the result to a cotangent of x.
For elementwise functions the transpose is the same formula with the cotangent for t; for other primitives the row describes the transpose.
One entry serves both modes, so they cannot disagree.

Two answers look alike and are not.
*0, because* is a derivative: the result does not depend on small changes of the operand.
*none, because* means that there is no derivative; a program that needs it is refused with your line and this reason. A missing derivative is never replaced by zero.
A test derives every primitive and compares the result with the row.

## Where the rows come from

The formulas of elementwise functions are not typed by hand.
A rule is a Rust function on expressions; it is run on the symbols x, y, z, f and t, and the equations that it emits are written back as mathematics.
The other entries are sentences in the source of their rules.
Tests check both: at sample points of every primitive, they compare forward mode with finite differences of the primitive itself, reverse mode with forward mode through ⟨ct, J·dx⟩ = ⟨Jᵀ·ct, dx⟩, both again at second order, and a batch with a loop over its elements.
";

#[test]
fn page_is_fresh() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/primitives.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, page).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let differing = found.lines().zip(page.lines()).find(|(found, page)| found != page);
    assert!(
        found == page,
        "book/src/primitives.md differs from the primitives; {:?}; rewrite it with `BLESS=1 cargo \
         test -p tapeloom-tests --test laws primitives_page::`",
        differing
    );
}

#[test]
fn every_primitive_has_one_row() {
    let docs = Op::docs();
    let mut names: Vec<&str> = docs.iter().map(|d| head(&d.name)).collect();
    assert_eq!(page().lines().filter(|l| l.starts_with("| `")).count(), docs.len());
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|w| w[0] == w[1]).collect();
    assert!(twice.is_empty(), "two rows with the same name: {twice:?}");
    for d in docs {
        for (what, text) in [("math", &d.math), ("types", &d.types), ("derivative", &d.derivative)]
        {
            assert!(!text.trim().is_empty(), "{} has an empty column {what}", d.name);
        }
    }
}

/// The page must say "none" for the derivative of a primitive exactly if differentiation of the primitive is refused.
#[test]
fn the_page_lists_every_missing_derivative() {
    let mut module = Module::new();
    let mut refused: BTreeSet<String> = BTreeSet::new();
    for case in cases(&mut module) {
        let floats = case.floats();
        if floats.contains(&true)
            && let Err(problem) = jvp(&mut module, case.f, &floats)
        {
            assert_eq!(problem.kind, Kind::NotDifferentiable, "{}: {problem}", case.name);
            refused.insert(case.name.clone());
        }
    }
    let words = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|w| w == "none");
    let said = Op::docs().into_iter().filter(|d| words(&d.derivative));
    let said: BTreeSet<String> = said.map(|d| head(&d.name).to_owned()).collect();
    assert_eq!(said, refused);
}

/// Returns the whole text of the book's page of primitives.
fn page() -> String {
    let docs = Op::docs();
    let mut page = INTRODUCTION.to_owned();
    for family in Family::ALL {
        page += &format!("\n## {}\n\n{}\n\n", family.title(), family.about());
        page += "| Primitive | Computes | Types | Derivative | Edges |\n|---|---|---|---|---|\n";
        for d in docs.iter().filter(|d| d.family == *family) {
            page += &row(d);
        }
    }
    page
}

fn row(d: &Doc) -> String {
    // In the table cell, the derivative with respect to each operand gets a line of its own.
    let derivative = cell(&d.derivative).replace("; ∂", "<br>∂");
    let (math, types, edges) = (cell(&d.math), cell(&d.types), cell(&d.edges));
    format!("| `{}` | {math} | {types} | {derivative} | {edges} |\n", d.name)
}

/// Escapes plain text for a Markdown table, except between backticks.
fn cell(text: &str) -> String {
    let mut escaped = String::new();
    let mut code = false;
    for c in text.chars() {
        code ^= c == '`';
        if c == '|' || (!code && "\\*_<>[]".contains(c)) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns the primitive's name without the list of attributes in braces.
fn head(name: &str) -> &str {
    name.split('{').next().unwrap_or(name)
}

#[test]
fn cells_are_escaped() {
    assert_eq!(cell("|x| of x_i * [2] is `a_b|c`"), r"\|x\| of x\_i \* \[2\] is `a_b\|c`");
}
