//! Conformance to golden numbers computed by JAX: values, jvp, vjp and second derivatives of every operation,
//! natively and by the interpreter.
//!
//! A case counts once, and passes if its value and each of its derivatives agree on both engines.

mod data;
mod ops;
mod scalar;

pub use data::{Agreement, disagreement, tensor, tensors};
pub use scalar::run_scalar;

use serde_json::Value;
use std::collections::BTreeMap;
use std::rc::Rc;
use tapeloom::prelude::*;
use tapeloom::xla::Client;
use tapeloom::{Target, stablehlo};

/// An operation of the golden data as a function of tapeloom, from the operation's inputs to its outputs.
pub type Operation = Rc<dyn Fn(&[Var]) -> Vec<Var>>;

/// The outcome of one golden case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The value and all derivatives agree with the golden numbers on both engines.
    Passed,
    /// The golden case failed, with the first difference from the golden numbers, or an error.
    Failed(String),
    /// The library has no function for the operation.
    Skipped,
}

/// The outcomes of golden cases, by operation.
#[derive(Clone, Debug, Default)]
pub struct Score {
    outcomes: BTreeMap<String, Vec<Outcome>>,
}

impl Score {
    /// Adds the outcome of a golden case of the operation `op`.
    pub fn add(&mut self, op: &str, outcome: Outcome) {
        self.outcomes.entry(op.to_owned()).or_default().push(outcome);
    }

    fn count(&self, is: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.values().flatten().filter(|o| is(o)).count()
    }

    /// Returns the number of golden cases that failed.
    pub fn failed(&self) -> usize {
        self.count(|o| matches!(o, Outcome::Failed(_)))
    }

    /// Returns the names of operations for which `ops` has no function.
    pub fn skipped(&self) -> Vec<&str> {
        let unknown = |outcomes: &&Vec<Outcome>| outcomes.contains(&Outcome::Skipped);
        let names = self.outcomes.iter().filter(|(_, outcomes)| unknown(outcomes));
        names.map(|(name, _)| name.as_str()).collect()
    }

    /// Returns a printed line for each operation with failed or skipped cases, then the totals.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (op, outcomes) in &self.outcomes {
            let skipped = outcomes.iter().filter(|o| **o == Outcome::Skipped).count();
            let failures = outcomes.iter().filter_map(|o| match o {
                Outcome::Failed(why) => Some(why.as_str()),
                Outcome::Passed | Outcome::Skipped => None,
            });
            let failures: Vec<&str> = failures.collect();
            if !failures.is_empty() {
                lines.push(format!("{op}: {} failed: {}", failures.len(), failures.join("; ")));
            }
            if skipped > 0 {
                lines.push(format!("{op}: {skipped} unsupported"));
            }
        }
        let passed = self.count(|o| *o == Outcome::Passed);
        let skipped = self.count(|o| *o == Outcome::Skipped);
        lines.push(format!("{passed} passed, {} failed, {skipped} skipped", self.failed()));
        lines
    }
}

/// Runs the golden cases of a file, one JSON object per line.
///
/// # Errors
/// If a line is not a golden case in JSON.
pub fn run_ops(text: &str) -> Result<Score, Box<dyn std::error::Error>> {
    let mut score = Score::default();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let case: Value = serde_json::from_str(line)?;
        let name = case["op"].as_str().ok_or("a case without `op`")?;
        let outcome = match ops::operation(name, &case["params"]) {
            None => Outcome::Skipped,
            Some(f) => match run_case(&case, &f) {
                Ok(()) => Outcome::Passed,
                Err(why) => Outcome::Failed(why),
            },
        };
        score.add(name, outcome);
    }
    Ok(score)
}

/// The results of a run of a program.
type Results = Result<Vec<Tensor>, tapeloom::Error>;

/// The value or the vjp of a golden case, as a program.
pub struct GoldenProgram {
    /// The name of the operation, with `vjp of` before it for derivatives.
    pub name: String,
    /// The program as StableHLO text.
    pub stablehlo: Result<String, tapeloom::Error>,
    /// Runs the program on XLA.
    pub on_xla: Box<dyn Fn(&Client) -> Results>,
    /// The arguments of the program.
    pub args: Vec<Tensor>,
    /// Runs the program in the interpreter.
    pub interpret: Box<dyn Fn() -> Results>,
}

/// Returns the programs of the golden cases of a file: for each case its value, and its vjp if it has derivatives.
///
/// # Errors
/// If a line is not a golden case in JSON.
pub fn golden_programs(
    text: &str,
    options: &stablehlo::Options,
) -> Result<Vec<GoldenProgram>, Box<dyn std::error::Error>> {
    let mut all = Vec::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let case: Value = serde_json::from_str(line)?;
        let name = case["op"].as_str().ok_or("a case without `op`")?;
        let Some(f) = ops::operation(name, &case["params"]) else { continue };
        let x = tensors(&case["inputs"]).ok_or("bad `inputs`")?;
        let value = {
            let f = f.clone();
            move |x: Vec<Var>| f(&x)
        };
        all.push(GoldenProgram {
            name: name.to_owned(),
            stablehlo: jit(value.clone()).stablehlo_with(&x, options),
            on_xla: {
                let (value, x) = (value.clone(), x.clone());
                Box::new(move |client| on_xla(jit(value.clone()), client).call(&x))
            },
            args: x.clone(),
            interpret: {
                let x = x.clone();
                Box::new(move || jit(value.clone()).interpreted().call(&x))
            },
        });
        if case["tangents"].is_null() {
            continue;
        }
        let part = Part::of_case(&case, f);
        let ct = tensors(&case["cotangents"]).ok_or("bad `cotangents`")?;
        let backward = move |(x, ct): (Vec<Var>, Vec<Var>)| vjp(part.of(&x))(part.pick(&x)).1(ct);
        let (args, both) = ([x.clone(), ct.clone()].concat(), (x, ct));
        all.push(GoldenProgram {
            name: format!("vjp of {name}"),
            stablehlo: jit(backward.clone()).stablehlo_with(&both, options),
            on_xla: {
                let (backward, both) = (backward.clone(), both.clone());
                let on = move |client: &Client| on_xla(jit(backward.clone()), client);
                Box::new(move |client| on(client).call(&both))
            },
            args,
            interpret: Box::new(move || jit(backward.clone()).interpreted().call(&both)),
        });
    }
    Ok(all)
}

/// Returns the closure compiled for XLA. Each loop may save residuals of at most 40 iterations.
fn on_xla<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B>(
    of: Jit<A, B, F>,
    client: &Client,
) -> Jit<A, B, F> {
    of.on(Target::Xla(client.clone())).max_steps(40)
}

/// Operations whose derivatives at edges (ties, zeros, infinities, nan) deliberately differ from JAX's, each with the
/// reason.
const OTHERWISE: &[(&str, &str)] =
    &[("bessel_i1e", "the derivative at nan is nan; JAX has the derivative at 0")];

/// Compares the value, jvp, vjp and second derivatives of one golden case with the recorded ones.
fn run_case(case: &Value, f: &Operation) -> Result<(), String> {
    let edge = case["tag"] == "edge";
    let name = case["op"].as_str().unwrap_or("");
    let list = |field: &str| tensors(&case[field]).ok_or_else(|| format!("bad `{field}`"));
    let x = list("inputs")?;
    let exact = ["nextafter", "floor", "ceil", "round", "sign"].contains(&name);
    let value = if exact { Agreement::Exact } else { Agreement::Close };
    let compute = {
        let f = f.clone();
        move |x: Vec<Var>| f(&x)
    };
    check("value", compute, &x, &list("outputs")?, value)?;
    if case["tangents"].is_null() || (edge && OTHERWISE.iter().any(|(f, _)| *f == name)) {
        return Ok(());
    }

    let how = if edge { Agreement::CloseWhereFinite } else { Agreement::Close };
    let part = Part::of_case(case, f.clone());
    let (dx, ct) = (list("tangents")?, list("cotangents")?);

    let p = part.clone();
    let forward = move |(x, dx): (Vec<Var>, Vec<Var>)| jvp(p.of(&x))((p.pick(&x), dx)).1;
    check("jvp", forward, &(x.clone(), dx.clone()), &list("out_tangents")?, how)?;

    let p = part.clone();
    let backward = move |(x, ct): (Vec<Var>, Vec<Var>)| vjp(p.of(&x))(p.pick(&x)).1(ct);
    check("vjp", backward, &(x.clone(), ct.clone()), &list("in_cotangents")?, how)?;

    if !case["hvp"].is_null() {
        let second = move |(x, dx, ct): (Vec<Var>, Vec<Var>, Vec<Var>)| {
            let f = part.of(&x);
            let inner = |d: Vec<Var>| {
                let terms = f(d).into_iter().zip(&ct).map(|(y, ct)| (y * *ct).sum());
                terms.reduce(|a, b| a + b).unwrap_or(zeros([], Dtype::F64))
            };
            jvp(grad(inner))((part.pick(&x), dx)).1
        };
        check("hvp", second, &(x, dx, ct), &list("hvp")?, how)?;
    }
    Ok(())
}

/// An operation with the inputs that are not differentiated held fixed: a function from the differentiated inputs to
/// the differentiated outputs.
#[derive(Clone)]
struct Part {
    f: Operation,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

impl Part {
    fn of_case(case: &Value, f: Operation) -> Part {
        let indices = |field: &str| -> Vec<usize> {
            let all = case[field].as_array();
            all.into_iter().flatten().filter_map(Value::as_u64).map(|i| i as usize).collect()
        };
        Part { f, inputs: indices("diff_inputs"), outputs: indices("diff_outputs") }
    }

    fn pick(&self, x: &[Var]) -> Vec<Var> {
        self.inputs.iter().map(|i| x[*i]).collect()
    }

    fn of<'a>(&'a self, x: &'a [Var]) -> impl Fn(Vec<Var>) -> Vec<Var> + 'a {
        move |some| {
            let mut all = x.to_vec();
            for (i, v) in self.inputs.iter().zip(some) {
                all[*i] = v;
            }
            let y = (self.f)(&all);
            self.outputs.iter().map(|i| y[*i]).collect()
        }
    }
}

/// Runs a closure natively and by the interpreter, and compares both results with the expected tensors.
fn check<A: Tree<Var>>(
    what: &str,
    f: impl Fn(A) -> Vec<Var> + Clone,
    args: &impl Args<A>,
    expected: &[Tensor],
    how: Agreement,
) -> Result<(), String> {
    let engines =
        [("native", jit(f.clone()).call(args)), ("interpreter", jit(f).interpreted().call(args))];
    for (engine, result) in engines {
        let got: Vec<Tensor> = result.map_err(|e| format!("{what} ({engine}): {e}"))?;
        if got.len() != expected.len() {
            return Err(format!("{what} ({engine}): {} results", got.len()));
        }
        for (i, (got, want)) in got.iter().zip(expected).enumerate() {
            if let Some(why) = disagreement(got, want, how) {
                return Err(format!("{what} {i} ({engine}) {why}"));
            }
        }
    }
    Ok(())
}
