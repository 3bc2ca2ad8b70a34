//! StableHLO text: every program is written, or is an error of the kind `target`; the list of primitives that cannot be
//! written is `tests/data/stablehlo_missing.txt`.
//!
//! `BLESS=1 cargo test -p tapeloom-tests --test laws stablehlo::` writes the list.

use std::collections::BTreeMap;
use std::path::Path;
use tapeloom::prelude::*;
use tapeloom_backend::stablehlo::{Options, text};
use tapeloom_ir::{FuncId, Kind, Module};
use tapeloom_tests::conformance::golden_programs;
use tapeloom_tests::program_generator::Recipe;
use tapeloom_tests::stablehlo_check::check;
use tapeloom_tests::{EXAMPLES, Sweep, cases};
use tapeloom_transforms::{BEFORE_STABLEHLO, vjp};

/// Options under which all samples can be written.
const ALL: Options = Options {
    custom_calls: true,
    host_calls: true,
    max_steps: Some(8),
    locations: true,
    shardings: None,
};

/// Returns the text of a function after its check, or the message of the error.
fn written(m: &Module, f: FuncId, options: &Options) -> Result<String, String> {
    match text(m, f, options) {
        Ok(text) => match check(&text) {
            Ok(()) => Ok(text),
            Err(wrong) => panic!("{wrong}\n{text}"),
        },
        Err(problem) => {
            assert_eq!(problem.kind, Kind::Target, "{problem}");
            assert!(!problem.help.is_empty(), "{problem}");
            Err(problem.message)
        }
    }
}

#[test]
fn samples_are_written_or_listed() {
    let mut m = Module::new();
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    for case in cases(&mut m) {
        if let Err(message) = written(&m, case.f, &Options::default()) {
            missing.insert(case.name.clone(), message);
        }
        let provided = written(&m, case.f, &ALL);
        assert!(provided.is_ok(), "{}: {provided:?}", case.name);
    }
    let list: String = missing.iter().map(|(name, why)| format!("{name}: {why}\n")).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/stablehlo_missing.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, list).unwrap();
    } else {
        assert_eq!(list, std::fs::read_to_string(file).unwrap());
    }
}

#[test]
fn examples_and_their_gradients_are_written() {
    for example in EXAMPLES {
        let (mut m, case) = example.read().unwrap();
        written(&m, case.f, &ALL).unwrap();
        let of = vjp(&mut m, case.f, &case.floats()).unwrap();
        written(&m, of.function, &ALL).unwrap();
        let f = BEFORE_STABLEHLO.observed(&mut m, of.function, &mut |_| ()).unwrap();
        written(&m, f, &ALL).unwrap();
    }
}

#[test]
fn random_programs_are_written() {
    for seed in Sweep::StableHlo.seeds() {
        let mut m = Module::new();
        let case = Recipe::draw(seed).program(&mut m).unwrap();
        let f = BEFORE_STABLEHLO.observed(&mut m, case.f, &mut |_| ()).unwrap();
        for f in [case.f, f] {
            written(&m, f, &ALL).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
    }
}

/// Writes the programs of the conformance suite with their derivatives, and checks the texts.
#[test]
fn golden_cases_are_written() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/golden/ops.jsonl");
    let cases = std::fs::read_to_string(file).unwrap();
    let mut count = 0;
    for program in golden_programs(&cases, &ALL).unwrap() {
        let name = program.name;
        let text = program.stablehlo.unwrap_or_else(|e| panic!("{name}: {e}"));
        check(&text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        count += 1;
    }
    assert!(count > 300, "{count} programs");
}

#[test]
fn errors_have_the_line() {
    let line = line!() + 1;
    let f = |x: Var| (2.0 * x).bessel_jn(2);
    let error = jit(f).stablehlo(1.0).unwrap_err().to_string();
    assert!(error.contains("no operation for `bessel_j`"), "{error}");
    assert!(error.contains(&format!("{}:{line}:", file!())), "{error}");
    let options = Options { locations: true, custom_calls: true, ..Options::default() };
    let text = jit(f).stablehlo_with(1.0, &options).unwrap();
    assert!(text.contains("stablehlo.custom_call @tapeloom.bessel_j(%2)"), "{text}");
    assert!(text.contains(&format!("loc(\"{}\":{line}:", file!())), "{text}");
}

/// A loop of 20 iterations in a branch saves, in each, the residuals of a loop of unknown length. The branch must return
/// arrays with room for the number of records that `max_steps` allows in both loops.
#[test]
fn branches_return_tapes_of_one_length() {
    let f = |x: Var| {
        let inner = |x: Var| while_loop(|x: Var| x.lt(50.0), |x: Var| x + x.cos() + 2.0, x);
        let outer = |x: Var| fori_loop(20, |(_, x): (Var, Var)| inner(x.sin()), x);
        cond(x.gt(0.0), outer, |x: Var| x, x)
    };
    let of = |steps| jit(grad(f)).max_steps(steps).stablehlo(1.0);
    let text = of(30).unwrap();
    check(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let error = of(8).unwrap_err().to_string();
    assert!(error.contains("of 20 iterations, and `max_steps` allows 8"), "{error}");
    assert!(error.contains("`max_steps(20)`"), "{error}");
}

/// Returns a chain of functions: the first is the sine, and each of the others calls its predecessor twice. The last
/// one has `2^depth` calls if each call is replaced by a copy.
fn recursion(depth: usize) -> Module {
    let mut text = "func @f0(%0: f64[]) -> (f64[]) {
  %1: f64[] = sin %0
  return %1
}
"
    .to_owned();
    for i in 1..=depth {
        let below = i - 1;
        text += &format!(
            "func @f{i}(%0: f64[]) -> (f64[]) {{
  %1: f64[] = call{{function=@f{below}, outline=true}} %0
  %2: f64[] = call{{function=@f{below}, outline=true}} %1
  return %2
}}
"
        );
    }
    tapeloom_ir::parse_module(&text).unwrap()
}

/// A recursion of depth 20 has a million calls if each is replaced by a copy; the text has one function for each depth.
#[test]
fn recursions_are_short() {
    let m = recursion(20);
    let (f, _) = m.iter().last().unwrap();
    let text = written(&m, f, &Options::default()).unwrap();
    assert_eq!(text.matches("func.func").count(), 21);
}
