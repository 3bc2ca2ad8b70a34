//! Counts of the sizes of compiled programs, to compare before and after a change of the compiler.
//!
//! A change of a rewrite row or of a derivative rule shows here first: in the numbers of equations, loops and
//! operations of the derivatives of all examples and of every primitive's samples, added up by name.

use crate::{Case, EXAMPLES, Failure, cases};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tapeloom::Explanation;
use tapeloom_backend::{Options, compile};
use tapeloom_ir::{FuncId, Module, parse_module};
use tapeloom_transforms::{BEFORE_CODE, Cost, jvp, vjp};

/// The sizes and costs of a program, or their sums over several programs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tally {
    /// The number of equations after inlining, before other passes.
    pub emitted: usize,
    /// The number of equations that are compiled.
    pub equations: usize,
    /// The number of top-level statements of the loop program: loop nests and contractions.
    pub kernels: usize,
    /// Arithmetic and memory traffic, by the cost model of the passes.
    pub cost: Cost,
    /// The time of passes, lowering and code generation.
    pub time: Duration,
}

impl Tally {
    /// Returns the sum of the sizes and costs of two programs, count by count.
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            emitted: self.emitted + other.emitted,
            equations: self.equations + other.equations,
            kernels: self.kernels + other.kernels,
            cost: self.cost.plus(other.cost),
            time: self.time + other.time,
        }
    }

    /// Compiles a function that no pass has changed yet, and returns the sizes and costs of the compiled program.
    ///
    /// # Errors
    /// The error of a pass or of the backend.
    pub fn of(module: &Module, f: FuncId) -> Result<Tally, Failure> {
        let mut m = module.clone();
        let start = Instant::now();
        let mut emitted = None;
        let f = BEFORE_CODE.observed(&mut m, f, &mut |done| {
            emitted.get_or_insert(done.module.function(done.function).equations.len());
        })?;
        let compiled = compile(&m, f, &Options::default())?;
        let time = start.elapsed();
        let body = m.function(f);
        Ok(Tally {
            emitted: emitted.unwrap_or_default(),
            equations: body.equations.len(),
            kernels: compiled.report().program.entry.body.len(),
            cost: Cost::of(&m, body),
            time,
        })
    }

    /// Returns the sizes and costs of a program, read from the compiler's report on it.
    ///
    /// # Errors
    /// If its texts do not parse.
    pub fn explained(e: &Explanation) -> Result<Tally, Failure> {
        let texts = e.stages().iter().rev().map(|s| &s.text);
        let text = texts.clone().find(|t| !t.is_empty()).ok_or("no program")?;
        let m = parse_module(text).map_err(|e| e[0].clone())?;
        let (id, f) = m.iter().last().ok_or("no function")?;
        let stage = |i: usize| e.stages().get(i).map_or(0, |s| s.equations);
        let timings = e.timings();
        Ok(Tally {
            emitted: stage(1),
            equations: stage(e.stages().len() - 1),
            kernels: compile(&m, id, &Options::default())?.report().program.entry.body.len(),
            cost: Cost::of(&m, f),
            time: timings.iter().filter(|(name, _)| *name != "trace").map(|(_, t)| *t).sum(),
        })
    }
}

/// Returns the sizes and costs of all examples, and sums over the samples of each primitive. Functions are counted with
/// their derivatives: jvp, vjp, and jvp of vjp.
///
/// # Errors
/// The error of a transform, of a pass or of the backend.
pub fn derivatives() -> Result<Vec<(String, Tally)>, Failure> {
    let mut all = Vec::new();
    for example in EXAMPLES {
        let (mut m, case) = example.read()?;
        for (letters, f) in words(&mut m, &case)? {
            all.push((format!("{letters}{}", case.name), Tally::of(&m, f)?));
        }
    }
    let mut m = Module::new();
    let mut by_name: BTreeMap<String, Tally> = BTreeMap::new();
    for case in cases(&mut m) {
        if case.smooth {
            for (letters, f) in words(&mut m, &case)? {
                let slot = by_name.entry(format!("{letters}{}", case.name)).or_default();
                *slot = slot.plus(Tally::of(&m, f)?);
            }
        }
    }
    all.extend(by_name);
    Ok(all)
}

/// Returns a function and its derivatives with respect to all float arguments, each with the name of the transform.
///
/// # Errors
/// The error of a transform.
pub fn words(m: &mut Module, case: &Case) -> Result<Vec<(&'static str, FuncId)>, Failure> {
    let mut words = vec![("", case.f)];
    words.push(("jvp ", jvp(m, case.f, &case.floats())?.function));
    let reverse = vjp(m, case.f, &case.floats())?.function;
    words.push(("vjp ", reverse));
    let floats: Vec<bool> = {
        let types = m.function(reverse).param_types();
        types.iter().map(|t| t.as_array().is_some_and(|a| a.dtype.is_float())).collect()
    };
    words.push(("jvp vjp ", jvp(m, reverse, &floats)?.function));
    Ok(words)
}
