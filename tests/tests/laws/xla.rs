//! A plugin of XLA computes the results of the interpreter: integers, bools and moved elements exactly, floats to rounding.
//!
//! ```sh
//! TAPELOOM_PJRT_PLUGIN=.. cargo test -p tapeloom-tests --test laws xla:: -- --nocapture
//! ```

use tapeloom::xla::Client;
use tapeloom_backend::stablehlo::{Options, text};
use tapeloom_backend::xla::Program;
use tapeloom_ir::{Dtype, FuncId, Literal, Mesh, Module, Tensor, eval, print_function};
use tapeloom_tests::conformance::golden_programs;
use tapeloom_tests::program_generator::Recipe;
use tapeloom_tests::xla::{client_or_skip, devices_or_skip, divided, has_subnormals};
use tapeloom_tests::{Agreement, EXAMPLES, Failure, Sweep, cases};
use tapeloom_transforms::{BEFORE_STABLEHLO, vjp};

const OPTIONS: Options = Options {
    custom_calls: true,
    host_calls: true,
    max_steps: Some(40),
    locations: true,
    shardings: None,
};

/// Primitives whose results at edge cases differ in XLA, each with the reason for the difference.
const OTHERWISE: &[(&str, &str)] = &[
    ("polygamma", "nan at infinity"),
    ("zeta", "nan at infinity, and other poles"),
    ("triangular_solve", "nan after a division by zero"),
    ("digamma", "-inf at the pole 0 in some versions"),
    ("vjp of lgamma", "digamma at the pole 0"),
    ("vjp of digamma", "polygamma at infinity"),
];

/// The numbers of programs with each outcome, for programs run on a plugin.
#[derive(Default)]
struct Report {
    /// The mesh among whose devices programs are divided, if any.
    mesh: Option<Mesh>,
    equal: usize,
    /// The number of programs that cannot be written as StableHLO.
    unwritten: usize,
    /// The number of programs with subnormal numbers, which XLA treats as zero.
    subnormal: usize,
    wrong: Vec<String>,
}

impl Report {
    /// Compares the results of a program with those of the interpreter.
    fn compare(
        &mut self,
        name: &str,
        args: &[Tensor],
        found: impl FnOnce() -> Result<Vec<Tensor>, Failure>,
        want: &[Tensor],
    ) {
        if args.iter().chain(want).any(has_subnormals) {
            self.subnormal += 1;
            return;
        }
        let checked = match found() {
            Ok(found) => agree(&found, want),
            Err(failure) => Err(failure.to_string()),
        };
        match checked {
            Ok(()) => self.equal += 1,
            Err(wrong) => self.wrong.push(format!("{name}: {wrong}")),
        }
    }

    fn function(
        &mut self,
        client: &Client,
        name: &str,
        m: &mut Module,
        f: FuncId,
        args: &[Tensor],
    ) {
        let count = self.equal + self.unwritten + self.subnormal;
        let (f, shardings) = match &self.mesh {
            Some(mesh) => {
                let (f, shardings) = divided(m, f, mesh, count).unwrap();
                (f, Some(shardings.into()))
            }
            None => (f, None),
        };
        let options = Options { shardings, ..OPTIONS };
        let program = match text(m, f, &options) {
            Ok(_) => Program::compile(m, f, client, &options, &[]),
            Err(_) => {
                self.unwritten += 1;
                return;
            }
        };
        match eval(m, f, args) {
            Ok(want) => {
                let name = format!("{name}\n{}", print_function(m, f));
                let found = || Ok(program?.call(&args.iter().collect::<Vec<_>>())?);
                self.compare(&name, args, found, &want);
            }
            Err(problem) => self.wrong.push(format!("{name}: {problem}")),
        }
    }

    /// Prints the number of programs with each outcome. Fails if a program has wrong results, or if less than `least`
    /// programs agree.
    #[track_caller]
    fn finish(self, least: usize) {
        let Report { equal, unwritten, subnormal, wrong, .. } = self;
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
    let Some(client) = client_or_skip() else { return };
    let (mut m, mut report) = (Module::new(), Report::default());
    for case in cases(&mut m) {
        if case.smooth || !differs(&case.name) {
            report.function(&client, &case.name, &mut m, case.f, &case.args);
        }
    }
    report.finish(2000);
}

#[test]
fn examples_and_their_gradients_agree() {
    let Some(client) = client_or_skip() else { return };
    let mut report = Report::default();
    for example in EXAMPLES {
        let (mut m, case) = example.read().unwrap();
        report.function(&client, &case.name, &mut m, case.f, &case.args);
        let floats = case.floats();
        report.gradient(&client, &case.name, &mut m, case.f, &case.args, &floats);
    }
    report.finish(40);
}

#[test]
fn golden_cases_agree() {
    let Some(client) = client_or_skip() else { return };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/data/golden/ops.jsonl");
    let mut report = Report::default();
    for program in golden_programs(&std::fs::read_to_string(file).unwrap(), &OPTIONS).unwrap() {
        match program.stablehlo {
            Err(_) => report.unwritten += 1,
            Ok(_) if differs(&program.name) => {}
            Ok(_) => {
                let want = (program.interpret)().unwrap();
                let found = || Ok((program.on_xla)(&client)?);
                report.compare(&program.name, &program.args, found, &want);
            }
        }
    }
    report.finish(400);
}

#[test]
fn random_programs_agree() {
    let Some(client) = client_or_skip() else { return };
    let mut report = Report::default();
    for seed in Sweep::Xla.seeds() {
        let mut m = Module::new();
        let case = Recipe::draw(seed).program(&mut m).unwrap();
        let f = BEFORE_STABLEHLO.observed(&mut m, case.f, &mut |_| ()).unwrap();
        let name = format!("seed {seed}");
        report.function(&client, &name, &mut m, f, &case.args);
        let floats = case.floats();
        report.gradient(&client, &name, &mut m, case.f, &case.args, &floats);
    }
    report.finish(100);
}

/// Programs, samples and gradients must have the same values on one device and if they are divided among devices in
/// many ways.
#[test]
fn programs_on_several_devices_agree() {
    for mesh in [vec![("data", 2)], vec![("data", 2), ("model", 2)]] {
        let mesh = Mesh::new(mesh).unwrap();
        let Some(client) = devices_or_skip(mesh.devices()) else { return };
        let mut report = Report { mesh: Some(mesh), ..Report::default() };
        let mut m = Module::new();
        for case in cases(&mut m).into_iter().filter(|case| case.smooth).step_by(11) {
            report.function(&client, &case.name, &mut m, case.f, &case.args);
        }
        for seed in Sweep::Xla.seeds() {
            let case = Recipe::draw(seed).program(&mut m).unwrap();
            let f = BEFORE_STABLEHLO.observed(&mut m, case.f, &mut |_| ()).unwrap();
            let name = format!("seed {seed}");
            report.function(&client, &name, &mut m, f, &case.args);
            let floats = case.floats();
            report.gradient(&client, &name, &mut m, case.f, &case.args, &floats);
        }
        report.finish(250);
    }
}

impl Report {
    /// If a function has a vjp, compares its results, for cotangents of ones, with those of the interpreter.
    fn gradient(
        &mut self,
        client: &Client,
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
        self.function(client, &format!("vjp of {name}"), m, f, &args);
    }
}
