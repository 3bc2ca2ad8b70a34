//! Passes on the loop IR: the table of the book is printed from their rows, and bisection names a wrong pass.
//!
//! `BLESS=1 cargo test -p tapeloom-tests --test laws kernel_passes::` writes the table.

use std::path::Path;
use tapeloom_backend::loop_ir::{self, Arg, Stmt};
use tapeloom_backend::passes::{Choice, Invariant, List, NATIVE, PASSES, Pass, Step, by_name};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{Literal, Tensor};
use tapeloom_tests::bisect::{Verdict, bisect};

/// The line that ends a printed table in a page of the book.
const END: &str = "<!-- End of the printed table. -->\n";

fn table() -> String {
    let mut table =
        "\n| Pass | What it does | Results | Requires | Ensures |\n|---|---|---|---|---|\n"
            .to_owned();
    for Pass { name, about, requires, ensures, exactness, .. } in PASSES {
        let bits = match exactness {
            Exactness::Exact => "the same bits",
            Exactness::Reassociates => "sums in another order",
            Exactness::Flushes => "0 for subnormal numbers",
        };
        let ensures = ensures.map_or("unchanged", Invariant::name);
        let requires = requires.name();
        table += &format!("| `{name}` | {about} | {bits} | {requires} | {ensures} |\n");
    }
    for List { name, about, begins, steps } in List::ALL {
        let begins = begins.name();
        table += &format!(
            "\n`{name}`: {about}. It begins with programs that are {begins}.\n\n\
             | | Step | Why it stands here |\n|---|---|---|\n"
        );
        for (i, step) in steps.iter().enumerate() {
            table += &format!("| {} | `{step}` | {} |\n", i + 1, step.why_here);
        }
    }
    table + "\n"
}

#[test]
fn the_books_table_is_that_of_the_rows() {
    check_page("backend.md", "kernel_passes", &table());
}

/// Compares the table printed in a page of the book with `table`, or writes it if `BLESS` is set; the page must name
/// the command that runs the tests of `module`.
pub(crate) fn check_page(page: &str, module: &str, table: &str) {
    let command = format!("`BLESS=1 cargo test -p tapeloom-tests --test laws {module}::`");
    let begin = format!("<!-- Printed from the rows of the passes: {command}. -->\n");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src").join(page);
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(&begin).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, format!("{before}{begin}{table}{END}{after}")).unwrap();
        return;
    }
    assert!(
        found == table,
        "book/src/{page}: the table differs from the rows; write it with {command}"
    );
}

/// A loop program with a sum of 20 numbers, and an array of zeros.
const SUM: &str = "program @sum {
  buffer b0: f64[20] input 0
  buffer b1: f64[] output 0
  buffer b2: f64[524288] output 1
  nest {
    var v0: f64 = 0.0
    fold i0 in 20 {
      %0: f64 = load b0[i0]
      v0 = add v0, %0
    }
    store b1[0], v0
  }
  for i1 in 524288 {
    store b2[i1], 0.0
  }
}
";

#[test]
fn a_list_that_is_right_is_found_to_be() {
    let program = loop_ir::parse(SUM, &|_| None).unwrap();
    let args = [(0..20).map(|i| f64::from(i).sqrt()).collect::<Tensor>()];
    let verdict = bisect(&NATIVE, &program, &args).unwrap();
    assert!(matches!(verdict, Verdict::Right), "{verdict}");
}

/// Bisection of a list with a wrong pass in the middle: the pass, which changes the initial value of a fold, must be
/// named, with the programs before and after it.
#[test]
fn the_step_that_is_wrong_is_named() {
    let step = |pass| Step { pass, choice: Choice::Plain, why_here: "" };
    static FORGETS: Pass = Pass::custom("forgets", |program, _| {
        let Some(Stmt::Nest { body, .. }) = program.entry.body.first_mut() else {
            return Ok(false);
        };
        let Some(Stmt::Var { init, .. }) = body.first_mut() else { return Ok(false) };
        *init = Arg::Literal(Literal::from(1.0));
        Ok(true)
    });
    let named = |name| step(by_name(name).unwrap());
    let steps = [named("vectorize"), step(&FORGETS), named("simplify_indices")];
    let wrong: &'static List = Box::leak(Box::new(List {
        name: "wrong",
        about: "",
        begins: Invariant::Form,
        steps: Vec::leak(Vec::from(steps)),
    }));
    let program = loop_ir::parse(SUM, &|_| None).unwrap();
    let args = [(0..20).map(|i| f64::from(i).sqrt()).collect::<Tensor>()];
    let verdict = bisect(wrong, &program, &args).unwrap();
    let Verdict::Wrong { at: 1, step, programs: [before, after], .. } = &verdict else {
        panic!("{verdict}")
    };
    assert_eq!(step, "forgets");
    assert!(before.contains("lanes 16") && before.contains("var v0: f64 = 0.0"), "{before}");
    assert!(after.contains("var v0: f64 = 1.0"), "{after}");
}
