//! The tally: how large programs are when they are compiled, to compare before and after a change.
//!
//! A change of a rewrite row or of a derivative rule shows here first: in equations, loops and
//! arithmetic of the derivatives of everything that is at hand (the examples, and the samples of
//! every primitive, added up by name).

use crate::{Case, EXAMPLES, Failure, cases};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tapeloom::Explanation;
use tapeloom_backend::{Options, compile};
use tapeloom_ir::{FuncId, Module, parse_module};
use tapeloom_transforms::{BEFORE_CODE, Cost, jvp, vjp};

/// What a program, or several together, come to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tally {
    /// Equations before the passes, calls expanded.
    pub emitted: usize,
    /// Equations that are compiled.
    pub equations: usize,
    /// Steps of the kernel program: loop nests and contractions.
    pub kernels: usize,
    /// Arithmetic and traffic, by the model of the passes.
    pub cost: Cost,
    /// Passes, lowering and code.
    pub time: Duration,
}

impl Tally {
    /// Both together.
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            emitted: self.emitted + other.emitted,
            equations: self.equations + other.equations,
            kernels: self.kernels + other.kernels,
            cost: Cost {
                flops: self.cost.flops + other.cost.flops,
                bytes: self.cost.bytes + other.cost.bytes,
            },
            time: self.time + other.time,
        }
    }

    /// Of a function as it comes from a transform.
    ///
    /// # Errors
    /// What a pass or the backend reports.
    pub fn of(module: &Module, f: FuncId) -> Result<Tally, Failure> {
        let mut m = module.clone();
        let start = Instant::now();
        let mut emitted = None;
        let f = BEFORE_CODE.observed(&mut m, f, &mut |_, m, f| {
            emitted.get_or_insert(m.function(f).equations.len());
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

    /// Of a program that a `Jit` explains.
    ///
    /// # Errors
    /// When its texts do not parse.
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

/// The examples and the samples of primitives with their derivatives: jvp, vjp, and jvp of vjp.
///
/// # Errors
/// What a transform, a pass or the backend reports.
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

/// A function and its derivatives in all floats.
///
/// # Errors
/// What a transform reports.
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
