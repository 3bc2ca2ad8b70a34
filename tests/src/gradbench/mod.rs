//! GradBench: its evals (evaluations) written with the public API, and its protocol.
//!
//! GradBench (a benchmark suite for automatic differentiation) talks to a tool in JSON, one message per line. The
//! message `define` names a module, and `evaluate` requests one of its functions at an input. The answer has the output
//! and the time of each run. Tracing and compiling is timed as `prepare`; each run of the compiled function is timed as
//! `evaluate`.
//!
//! Each eval is one file: the objective as a user would write it, with derivatives by the library alone.

mod ba;
mod descent;
mod det;
mod gmm;
mod hello;
mod ht;
mod kmeans;
mod llsq;
mod lse;
mod lstm;
mod ode;
mod particle;
mod saddle;

pub use gmm::{Mixture, objective as gmm_objective};

use serde_json::{Value, json};
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};
use tapeloom::{Error, Explanation, Tensor};

/// The error of a request, as text for the protocol's answer.
pub type Failure = Box<dyn std::error::Error>;

/// The result of running a function of an eval.
pub struct Answer {
    /// The function's output, as the protocol's JSON.
    pub output: Value,
    /// The time of tracing, compiling and a first run.
    pub prepare: Duration,
    /// The times of the runs after the first.
    pub evaluate: Vec<Duration>,
    /// The compiler's report on the program, if the input requests it with `explain`.
    pub explanation: Option<Explanation>,
}

/// A function of an eval: from the protocol's input to its answer.
pub type Function = fn(&Value) -> Result<Answer, Failure>;

/// An eval of GradBench: its module name and its functions.
pub struct Eval {
    /// The module's name in the protocol.
    pub module: &'static str,
    /// The functions, each with its name in the protocol.
    pub functions: &'static [(&'static str, Function)],
}

/// All evals that are implemented here.
pub const EVALS: &[Eval] = &[
    hello::EVAL,
    lse::EVAL,
    llsq::EVAL,
    kmeans::EVAL,
    gmm::EVAL,
    ba::EVAL,
    ode::EVAL,
    lstm::EVAL,
    det::EVAL,
    ht::EVAL,
    saddle::EVAL,
    particle::EVAL,
];

/// Compiles a function of an eval for an input, and returns the explanation of the compilation.
///
/// # Errors
/// If there is no such function, or the input does not fit it.
pub fn explain(module: &str, function: &str, input: &Value) -> Result<Explanation, Failure> {
    let mut input = input.clone();
    if let Some(fields) = input.as_object_mut() {
        fields.insert("explain".to_owned(), json!(true));
    }
    let functions = EVALS.iter().filter(|e| e.module == module).flat_map(|e| e.functions);
    let mut named = functions.filter(|(name, _)| *name == function);
    let (_, run) = named.next().ok_or(format!("no function {module}.{function}"))?;
    Ok(run(&input)?.explanation.ok_or("the function does not explain itself")?)
}

/// Returns the protocol's answer to a message.
pub fn answer(message: &Value) -> Value {
    let id = &message["id"];
    let eval = || EVALS.iter().find(|e| Some(e.module) == message["module"].as_str());
    match message["kind"].as_str() {
        Some("start") => json!({"id": id, "tool": "tapeloom"}),
        Some("define") => json!({"id": id, "success": eval().is_some()}),
        Some("evaluate") => {
            let name = message["function"].as_str();
            let function = eval().and_then(|e| e.functions.iter().find(|f| Some(f.0) == name));
            let result = match function {
                Some((_, run)) => run(&message["input"]),
                None => Err(format!("no function {name:?}").into()),
            };
            match result {
                Err(error) => json!({"id": id, "success": false, "error": error.to_string()}),
                Ok(answer) => {
                    let timing = |name: &str, t: &Duration| json!({"name": name, "nanoseconds": t.as_nanos() as u64});
                    let mut timings = vec![timing("prepare", &answer.prepare)];
                    timings.extend(answer.evaluate.iter().map(|t| timing("evaluate", t)));
                    json!({"id": id, "success": true, "output": answer.output, "timings": timings})
                }
            }
        }
        _ => json!({"id": id}),
    }
}

/// Serves GradBench's protocol, one line per message, until the input ends.
///
/// # Errors
/// Errors of reading and writing, and lines that are not JSON.
pub fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    for line in input.lines() {
        let message: Value = serde_json::from_str(&line?)?;
        serde_json::to_writer(&mut output, &answer(&message))?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

/// Returns the answer to a request: calls `run` once to prepare, then repeatedly until the input's `min_runs` and
/// `min_seconds` are reached, and takes the time of each call. `write` converts the last result to the protocol's
/// output. If the input has `explain`, the answer contains the explanation of the compilation.
///
/// # Errors
/// The errors of the runs.
pub fn measure<T, E: Into<Failure>>(
    input: &Value,
    explain: impl FnOnce() -> Result<Explanation, Error>,
    mut run: impl FnMut() -> Result<T, E>,
    write: impl FnOnce(T) -> Result<Value, Failure>,
) -> Result<Answer, Failure> {
    let least = input["min_runs"].as_u64().unwrap_or(1);
    let seconds = input["min_seconds"].as_f64().unwrap_or(0.0);
    let explanation = if input["explain"] == true { Some(explain()?) } else { None };
    let start = Instant::now();
    run().map_err(Into::into)?;
    let prepare = start.elapsed();
    let mut evaluate = Vec::new();
    let begin = Instant::now();
    loop {
        let start = Instant::now();
        let result = run().map_err(Into::into)?;
        evaluate.push(start.elapsed());
        if evaluate.len() as u64 >= least && begin.elapsed().as_secs_f64() >= seconds {
            return Ok(Answer { output: write(result)?, prepare, evaluate, explanation });
        }
    }
}

/// Parses a list of numbers.
///
/// # Errors
/// If the value is something else.
pub fn numbers(value: &Value) -> Result<Vec<f64>, Failure> {
    let list = value.as_array().ok_or("a list is missing")?;
    list.iter().map(|x| x.as_f64().ok_or_else(|| "a number is missing".into())).collect()
}

/// Parses a list of lists of numbers of equal length; returns the numbers in row-major order, the number of rows, and
/// the number of columns.
///
/// # Errors
/// If the value is something else.
pub fn matrix(value: &Value) -> Result<(Vec<f64>, usize, usize), Failure> {
    let rows = value.as_array().ok_or("a list is missing")?;
    let rows: Vec<Vec<f64>> = rows.iter().map(numbers).collect::<Result<_, _>>()?;
    let columns = rows.first().map_or(0, Vec::len);
    if rows.iter().any(|r| r.len() != columns) {
        return Err("rows differ in length".into());
    }
    Ok((rows.concat(), rows.len(), columns))
}

/// Parses a natural number.
///
/// # Errors
/// If the value is something else.
pub fn natural(value: &Value) -> Result<usize, Failure> {
    Ok(usize::try_from(value.as_u64().ok_or("a natural number is missing")?)?)
}

/// Returns the rows of a matrix as JSON lists of numbers.
///
/// # Errors
/// If the tensor is not f64.
pub fn rows(t: &Tensor) -> Result<Value, Failure> {
    let rows = t.shape().first().copied().unwrap_or(0);
    let width = t.shape().last().copied().unwrap_or(0);
    let flat = t.as_slice::<f64>()?;
    Ok((0..rows).map(|i| json!(flat[i * width..][..width])).collect())
}
