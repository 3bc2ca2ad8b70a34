//! Programs in StableHLO on a plugin of XLA compute what the interpreter computes: integers, bools and everything that only
//! moves elements exactly, floats to rounding.
//!
//! ```sh
//! TAPELOOM_PJRT_PLUGIN=.. cargo test -p tapeloom-tests --test laws xla:: -- --nocapture
//! ```

use std::collections::BTreeSet;
use tapeloom_backend::stablehlo::{Options, text};
use tapeloom_ir::{Dtype, FuncId, Literal, Module, Tensor, eval, print_function};
use tapeloom_tests::conformance::golden_programs;
use tapeloom_tests::program_generator::Recipe;
use tapeloom_tests::xla::{Xla, has_subnormals};
use tapeloom_tests::{Agreement, EXAMPLES, Sweep, cases};
use tapeloom_transforms::{BEFORE_STABLEHLO, vjp};

const OPTIONS: Options = Options { custom_calls: false, max_steps: Some(40), locations: true };

/// Primitives whose results at edges differ in XLA, each with the reason.
const OTHERWISE: &[(&str, &str)] = &[
    ("polygamma", "nan at infinity"),
    ("zeta", "nan at infinity, and other poles"),
    ("triangular_solve", "nan after a division by zero"),
    ("digamma", "-inf at the pole 0 in some versions"),
    ("vjp of lgamma", "digamma at the pole 0"),
    ("vjp of digamma", "polygamma at infinity"),
];

/// The outcomes of many programs on a plugin.
#[derive(Default)]
struct Report {
    equal: usize,
    /// Programs that cannot be written.
    unwritten: usize,
    /// Programs with subnormal numbers, which XLA takes for zero.
    subnormal: usize,
    wrong: Vec<String>,
}

impl Report {
    /// Compares the results of a text with those of the interpreter.
    fn compare(&mut self, xla: &Xla, name: &str, text: &str, args: &[Tensor], want: &[Tensor]) {
        if args.iter().chain(want).any(has_subnormals) {
            self.subnormal += 1;
            return;
        }
        let checked = match xla.run(text, args) {
            Ok(found) => agree(&found, want),
            Err(failure) => Err(failure.to_string()),
        };
        match checked {
            Ok(()) => self.equal += 1,
            Err(wrong) => self.wrong.push(format!("{name}: {wrong}\n{text}")),
        }
    }

    fn function(&mut self, xla: &Xla, name: &str, m: &Module, f: FuncId, args: &[Tensor]) {
        let Ok(text) = text(m, f, &OPTIONS) else {
            self.unwritten += 1;
            return;
        };
        match eval(m, f, args) {
            Ok(want) => {
                let name = format!("{name}\n{}", print_function(m, f));
                self.compare(xla, &name, &text, args, &want);
            }
            Err(problem) => self.wrong.push(format!("{name}: {problem}")),
        }
    }

    /// Prints the numbers, and fails if a program is wrong.
    #[track_caller]
    fn finish(self, least: usize) {
        let Report { equal, unwritten, subnormal, wrong } = self;
        println!(
            "{equal} programs agree, {} differ, {unwritten} cannot be written, {subnormal} have subnormal numbers",
            wrong.len()
        );
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(equal >= least, "only {equal} programs agree");
    }
}

fn agree(found: &[Tensor], want: &[Tensor]) -> Result<(), String> {
    if found.len() != want.len() {
        return Err(format!("{} results in place of {}", found.len(), want.len()));
    }
    for (found, want) in found.iter().zip(want) {
        let how = match want.dtype() {
            Dtype::F32 => Agreement::relative(1e-4),
            Dtype::F64 => Agreement::relative(1e-9),
            Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => Agreement::Exact,
        };
        how.check(found, want)?;
    }
    Ok(())
}

fn differs(name: &str) -> bool {
    OTHERWISE.iter().any(|(of, _)| *of == name)
}

#[test]
fn samples_agree() {
    let Some(xla) = Xla::or_skip() else { return };
    let (mut m, mut report) = (Module::new(), Report::default());
    for case in cases(&mut m) {
        if case.smooth || !differs(&case.name) {
            report.function(&xla, &case.name, &m, case.f, &case.args);
        }
    }
    report.finish(2000);
}

/// The plugin understands calls of functions of the client, and asks for the function by its name.
#[test]
fn functions_of_the_client_are_asked_for() {
    let Some(xla) = Xla::or_skip() else { return };
    let (mut m, mut names) = (Module::new(), BTreeSet::new());
    for case in cases(&mut m) {
        let options = Options { custom_calls: true, ..OPTIONS };
        let Ok(text) = text(&m, case.f, &options) else { continue };
        let Some((_, call)) = text.split_once("custom_call @") else { continue };
        let name = call.split('(').next().unwrap_or_default();
        if names.insert(name.to_owned()) {
            let failure = xla.run(&text, &case.args).unwrap_err().to_string();
            assert!(failure.contains(name) && failure.contains("registered"), "{failure}\n{text}");
        }
    }
    println!("{} functions", names.len());
    assert!(names.len() > 25, "{names:?}");
}

#[test]
fn examples_and_their_gradients_agree() {
    let Some(xla) = Xla::or_skip() else { return };
    let mut report = Report::default();
    for example in EXAMPLES {
        let (mut m, case) = example.read().unwrap();
        report.function(&xla, &case.name, &m, case.f, &case.args);
        let floats = case.floats();
        report.gradient(&xla, &case.name, &mut m, case.f, &case.args, &floats);
    }
    report.finish(40);
}

#[test]
fn golden_cases_agree() {
    let Some(xla) = Xla::or_skip() else { return };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/data/golden/ops.jsonl");
    let mut report = Report::default();
    for program in golden_programs(&std::fs::read_to_string(file).unwrap(), &OPTIONS).unwrap() {
        match program.stablehlo {
            Err(_) => report.unwritten += 1,
            Ok(_) if differs(&program.name) => {}
            Ok(text) => {
                let want = (program.interpret)().unwrap();
                report.compare(&xla, &program.name, &text, &program.args, &want);
            }
        }
    }
    report.finish(400);
}

#[test]
fn random_programs_agree() {
    let Some(xla) = Xla::or_skip() else { return };
    let mut report = Report::default();
    for seed in Sweep::Xla.seeds() {
        let mut m = Module::new();
        let case = Recipe::draw(seed).program(&mut m).unwrap();
        let f = BEFORE_STABLEHLO.observed(&mut m, case.f, &mut |_| ()).unwrap();
        let name = format!("seed {seed}");
        report.function(&xla, &name, &m, f, &case.args);
        let floats = case.floats();
        report.gradient(&xla, &name, &mut m, case.f, &case.args, &floats);
    }
    report.finish(100);
}

impl Report {
    /// Compares the vjp of a function, for cotangents of ones, if the function has one.
    fn gradient(
        &mut self,
        xla: &Xla,
        name: &str,
        m: &mut Module,
        f: FuncId,
        args: &[Tensor],
        active: &[bool],
    ) {
        let Ok(of) = vjp(m, f, active) else { return };
        let f = BEFORE_STABLEHLO.observed(m, of.function, &mut |_| ()).unwrap();
        let mut args = args.to_vec();
        for ty in &m.function(f).param_types()[args.len()..] {
            let ty = ty.as_array().unwrap();
            args.push(Tensor::full(&ty.shape, Literal::of(ty.dtype, 1.0)).unwrap());
        }
        self.function(xla, &format!("vjp of {name}"), m, f, &args);
    }
}
