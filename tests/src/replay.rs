//! Replay: the fingerprints of all programs of the repository at every stage, to find out whether a change of the code
//! changed any program.
//!
//! A change that only moves or renames code leaves every line as it is. A change that is meant to affect loop programs
//! changes the lines that its commit announces, and no others. See [`tapeloom_ir::fingerprint`] for the contents of a
//! fingerprint.
//!
//! | family | programs | compiled for |
//! |---|---|---|
//! | `example` | [`EXAMPLES`] with their derivatives | machine code, the simulated accelerator |
//! | `sample` | the samples of every primitive with their derivatives | machine code |
//! | `suite` | the nine kernels under every planner, and at the extents of the study | machine code, the simulated accelerator |
//! | `gradbench` | every function of the recorded evals | machine code |
//! | `filetest` | every text test by its path, step by step | as the test says |
//! | `random` | random programs with their derivatives | machine code |
//! | `loops` | gradients of random programs with loops under policies and budgets | machine code, the simulated accelerator |

use crate::program_generator::Recipe;
use crate::random_loops::{self, Program};
use crate::size_counters::words;
use crate::suite::{KERNELS, Kernel, READINGS, WAYS};
use crate::{Case, EXAMPLES, Failure, TextTest, cases, gradbench};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use tapeloom::accelerator::Machine;
use tapeloom::{Target, jit};
use tapeloom_backend::{Options, compile};
use tapeloom_ir::fingerprint::{Stage, collect};
use tapeloom_ir::{FuncId, Module};
use tapeloom_transforms::{BEFORE_ACCELERATOR, BEFORE_CODE, List};

/// The number of random programs without loops, and of random programs with loops.
const RANDOM: u64 = 250;
/// The first seeds of random programs without loops, and with loops.
const SEEDS: [u64; 2] = [26_000, 27_000];

/// For each program, under the name `family/program`: the stages of its compilation, or that it was refused.
pub type Replay = BTreeMap<String, Vec<Line>>;

/// A line of a program's replay: a stage of its compilation, or an error.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Line {
    /// A stage of the compilation, with the fingerprints of its input and output.
    Stage(Stage),
    /// The program is refused. The error message is not compared.
    Refused,
}

/// Compiles all programs, or those of the named families, and returns their fingerprints.
///
/// # Errors
/// If programs cannot be read at all.
pub fn replay(families: &[String]) -> Result<Replay, Failure> {
    let all: [(&str, Family); 7] = [
        ("example", examples),
        ("sample", samples),
        ("suite", suite),
        ("gradbench", evals),
        ("filetest", filetests),
        ("random", random),
        ("loops", loops),
    ];
    let mut replay = Replay::new();
    for (name, family) in all {
        if families.is_empty() || families.iter().any(|f| f == name) {
            let mut add = |program: String, run: &mut dyn FnMut() -> Result<(), Failure>| {
                let (result, stages) = collect(run);
                let lines = replay.entry(format!("{name}/{program}")).or_default();
                lines.extend(stages.into_iter().map(Line::Stage));
                lines.extend(result.is_err().then_some(Line::Refused));
            };
            family(&mut add)?;
        }
    }
    Ok(replay)
}

/// Adds a program to the replay, given its name and a closure that compiles the program.
type Add<'a> = dyn FnMut(String, &mut dyn FnMut() -> Result<(), Failure>) + 'a;
type Family = fn(&mut Add<'_>) -> Result<(), Failure>;

/// Returns the simulated machine for which programs are compiled.
fn accelerator() -> Target {
    Target::Accelerator(Machine::cal())
}

fn run(m: &Module, f: FuncId, passes: &List, target: Target) -> Result<(), Failure> {
    let mut m = m.clone();
    let f = passes.observed(&mut m, f, &mut |_| {})?;
    compile(&m, f, &Options { target, ..Options::default() })?;
    Ok(())
}

/// Adds a function and its derivatives, compiled to machine code and, if `both`, for the accelerator.
fn derivatives(add: &mut Add<'_>, m: &mut Module, case: &Case, both: bool) -> Result<(), Failure> {
    let Ok(words) = words(m, case) else {
        add(case.name.clone(), &mut || Err("a derivative is refused".into()));
        return Ok(());
    };
    for (letters, f) in words {
        let name = format!("{letters}{}", case.name);
        add(name.clone(), &mut || run(m, f, &BEFORE_CODE, Target::default()));
        if both {
            add(name, &mut || run(m, f, &BEFORE_ACCELERATOR, accelerator()));
        }
    }
    Ok(())
}

fn examples(add: &mut Add<'_>) -> Result<(), Failure> {
    EXAMPLES.iter().try_for_each(|example| {
        let (mut m, case) = example.read()?;
        derivatives(add, &mut m, &case, true)
    })
}

fn samples(add: &mut Add<'_>) -> Result<(), Failure> {
    let mut m = Module::new();
    let all = cases(&mut m);
    all.iter().filter(|case| case.smooth).try_for_each(|c| derivatives(add, &mut m, c, false))
}

fn suite(add: &mut Add<'_>) -> Result<(), Failure> {
    for kernel in KERNELS.iter().chain(READINGS) {
        for way in WAYS {
            let name = format!("{kernel} {}", way.name);
            let on = |target: Target| of_suite(kernel, kernel.sizes.test, way.gradient, target);
            add(name.clone(), &mut || on(Target::default()));
            add(name, &mut || on(accelerator()));
        }
        let study = || of_suite(kernel, kernel.sizes.study, Kernel::gradient, Target::default());
        add(format!("{kernel} study"), &mut || study());
    }
    Ok(())
}

fn of_suite(
    kernel: &Kernel,
    extents: &'static [usize],
    gradient: fn(&Kernel, &'static [usize]) -> crate::suite::Gradient,
    target: Target,
) -> Result<(), Failure> {
    let inputs = (kernel.inputs)(extents);
    jit(gradient(kernel, extents)).on(target).explain(kernel.arguments(&inputs)?)?;
    Ok(())
}

fn evals(add: &mut Add<'_>) -> Result<(), Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/gradbench");
    for file in files(&folder, "jsonl")? {
        let mut seen = BTreeSet::new();
        for line in fs::read_to_string(&file)?.lines() {
            let message = &serde_json::from_str::<Value>(line)?["message"];
            let [module, function] = ["module", "function"].map(|key| message[key].as_str());
            let (Some(module), Some(function)) = (module, function) else { continue };
            if seen.insert(function.to_owned()) {
                add(format!("{module}.{function}"), &mut || {
                    gradbench::explain(module, function, &message["input"]).map(|_| ())
                });
            }
        }
    }
    Ok(())
}

fn filetests(add: &mut Add<'_>) -> Result<(), Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    for file in files(&root, "ir")? {
        let text = fs::read_to_string(&file)?;
        // Programs are named by relative path, because file names repeat across folders.
        let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        add(name, &mut || TextTest::read(&text)?.output().map(|_| ()));
    }
    Ok(())
}

fn random(add: &mut Add<'_>) -> Result<(), Failure> {
    for seed in SEEDS[0]..SEEDS[0] + RANDOM {
        let mut m = Module::new();
        let mut case = Recipe::draw(seed).program(&mut m)?;
        case.name = seed.to_string();
        derivatives(add, &mut m, &case, false)?;
    }
    Ok(())
}

fn loops(add: &mut Add<'_>) -> Result<(), Failure> {
    for seed in SEEDS[1]..SEEDS[1] + RANDOM {
        let program = Program::draw(seed);
        let policy = random_loops::policy_of(&program, seed);
        add(format!("{seed}"), &mut || {
            let f = random_loops::gradient_under(&program, policy.clone());
            f.explain(program.argument())?;
            Ok(())
        });
        let program = Program::with_nests(seed);
        add(format!("{seed} simulated"), &mut || {
            let f =
                random_loops::gradient_under(&program, tapeloom::Policy::Planned).on(accelerator());
            f.explain(program.argument())?;
            Ok(())
        });
    }
    Ok(())
}

/// Returns the files with this extension in a folder and its subfolders, sorted by path.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Prints a replay as text, one line per stage: `family/program: stage input output`.
pub fn print(replay: &Replay) -> String {
    let mut text = String::new();
    for (name, lines) in replay {
        for line in lines {
            let _ = match line {
                Line::Stage(Stage { name: stage, input, output }) => {
                    writeln!(text, "{name}: {stage} {input:016x} {output:016x}")
                }
                Line::Refused => writeln!(text, "{name}: refused"),
            };
        }
    }
    text
}

/// Returns the differences between two replays, given as texts of [`print()`]. Each message names a program, and the
/// stages whose fingerprints differ, or says that the program is in only one of the replays. If `only` is not empty,
/// only the outputs of these stages are compared.
pub fn differences(before: &str, now: &str, only: &[String]) -> Vec<String> {
    let (before, now) = (by_program(before), by_program(now));
    let names: BTreeSet<&str> = before.keys().chain(now.keys()).copied().collect();
    let mut all = Vec::new();
    for name in names {
        match (before.get(name), now.get(name)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => {
                let count = |lines: &[&str], stage: &str| {
                    lines.iter().filter(|l| l.split(' ').next() == Some(stage)).count()
                };
                let stages: BTreeSet<&str> =
                    a.iter().chain(b).filter_map(|l| l.split(' ').next()).collect();
                let of = |list: &Vec<&str>, stage: &str| -> Vec<String> {
                    let of = list.iter().filter(|l| l.split(' ').next() == Some(stage));
                    of.map(|l| l.rsplit(' ').next().unwrap_or_default().to_owned()).collect()
                };
                let differ: Vec<String> = stages
                    .into_iter()
                    .filter(|stage| only.is_empty() || only.iter().any(|name| name == stage))
                    .filter(|stage| of(a, stage) != of(b, stage))
                    .map(|stage| format!("{stage} ({} and {})", count(a, stage), count(b, stage)))
                    .collect();
                if differ.is_empty() && !only.is_empty() {
                    continue;
                }
                // If the outputs of all stages are equal, the inputs differ.
                let what = if differ.is_empty() { "inputs".to_owned() } else { differ.join(", ") };
                all.push(format!("{name}: {what}"));
            }
            (Some(_), None) => all.push(format!("{name}: is missing now")),
            (None, _) => all.push(format!("{name}: is new")),
        }
    }
    all
}

fn by_program(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, line) in text.lines().filter_map(|l| l.split_once(": ")) {
        all.entry(name).or_default().push(line);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_program_and_the_stage() {
        let a = "suite/x: passes 01 02\nsuite/x: kernels 02 03\nsuite/y: refused\n";
        assert_eq!(differences(a, a, &[]), Vec::<String>::new());
        let b = "suite/x: passes 01 02\nsuite/x: kernels 02 04\nsuite/z: refused\n";
        let found = differences(a, b, &[]);
        let want = ["suite/x: kernels (1 and 1)", "suite/y: is missing now", "suite/z: is new"];
        assert_eq!(found, want);
        assert_eq!(differences(a, b, &["passes".to_owned()]), want[1..]);
    }

    #[test]
    fn a_program_has_the_same_fingerprints_again() -> Result<(), Failure> {
        let families = ["example".to_owned()];
        let first = print(&replay(&families)?);
        assert!(first.lines().count() > 4 * EXAMPLES.len());
        assert_eq!(differences(&first, &print(&replay(&families)?), &[]), Vec::<String>::new());
        Ok(())
    }
}
