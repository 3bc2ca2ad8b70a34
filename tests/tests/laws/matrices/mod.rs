//! Linear algebra and Fourier transforms at their edges: values and derivatives compared with the ones that
//! `tests/data/matrices/record.py` recorded from JAX. [`INTENDED`] gives a reason for each difference.

mod calls;

use crate::recorded_values::{RecordedValue, differ, recorded_values, report, weighted};
use calls::{CALLS, Call};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Deref;
use tapeloom::prelude::*;

/// The part of a case that is not compared, because it is not unique: its values or its gradient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Not {
    Value,
    Derivative,
}

/// Deliberate differences from JAX: the function, the kind of edge, the part that differs (value or gradient), and the
/// reason.
const INTENDED: &[(&str, &str, Not, &str)] = &[
    (
        "slogdet",
        "zero",
        Not::Derivative,
        "the derivative does not exist, and no number is finite; whether a number is infinite or \
         nan has no meaning",
    ),
    (
        "lstsq",
        "zero",
        Not::Derivative,
        "the derivative among matrices of the same rank, here only one matrix; JAX: nan",
    ),
    (
        "polyfit",
        "a cubic",
        Not::Derivative,
        "the derivative exists at x = 0; JAX: nan, from a power of 0",
    ),
];

struct Case {
    /// The kind of edge, such as "zero", in the words of the recording script.
    at: String,
    recorded: RecordedValue<Call>,
}

impl Deref for Case {
    type Target = RecordedValue<Call>;

    fn deref(&self) -> &RecordedValue<Call> {
        &self.recorded
    }
}

impl Case {
    fn show(&self) -> String {
        format!("{}, {}", self.name, self.at)
    }

    /// Returns whether `INTENDED` lists this part of the case as a deliberate difference.
    fn is_intended(&self, what: Not) -> bool {
        INTENDED.iter().any(|(f, at, not, _)| *f == self.name && *at == self.at && *not == what)
    }
}

fn cases() -> Vec<Case> {
    let text = include_str!("../../../data/matrices/values.jsonl");
    let at = |line: &Value| line["at"].as_str().unwrap().to_owned();
    let all = recorded_values(text, CALLS).into_iter();
    all.map(|(line, recorded)| Case { at: at(&line), recorded }).collect()
}

#[test]
fn values_are_those_of_jax() {
    let mut wrong = Vec::new();
    for case in cases() {
        let f = |x: Vec<Var>| (case.call)(&x);
        for (engine, got) in [
            ("native", jit(f).call(&case.args)),
            ("interpreter", jit(f).interpreted().call(&case.args)),
        ] {
            let why = match got {
                Ok(got) => differ(&got, &case.out, 1e-11),
                Err(e) => Some(e.to_string()),
            };
            match (why, case.is_intended(Not::Value)) {
                (Some(why), false) => wrong.push(format!("{} ({engine}): {why}", case.show())),
                (None, true) => wrong.push(format!("{}: no longer differs", case.show())),
                _ => {}
            }
        }
    }
    report(&wrong);
}

#[test]
fn derivatives_are_those_of_jax() {
    let mut wrong = Vec::new();
    for case in cases() {
        let Some(want) = &case.grad else { continue };
        let got = jit(grad(|x: Vec<Var>| weighted((case.call)(&x)))).call(&case.args);
        let why = match got {
            Ok(got) => differ(&got, want, 1e-9),
            Err(e) => Some(e.to_string()),
        };
        match (why, case.is_intended(Not::Derivative)) {
            (Some(why), false) => wrong.push(format!("{}: {why}", case.show())),
            (None, true) => wrong.push(format!("{}: no longer differs", case.show())),
            _ => {}
        }
    }
    report(&wrong);
}

#[test]
fn every_call_has_a_case_and_every_decision_too() {
    let cases = cases();
    let recorded: BTreeSet<&str> = cases.iter().map(|c| c.name.as_str()).collect();
    let missing: Vec<&str> =
        CALLS.iter().map(|(name, _)| *name).filter(|name| !recorded.contains(name)).collect();
    assert_eq!(missing, [""; 0]);
    for (name, at, _, _) in INTENDED {
        assert!(cases.iter().any(|c| c.name == *name && c.at == *at), "no case {name}, {at}");
    }
}
