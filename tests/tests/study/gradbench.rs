//! Recorded conversations with GradBench's evaluations: our answers must agree with the recorded ones of the reference.

use serde_json::Value;
use std::fs;
use tapeloom_tests::gradbench::answer;

/// Compares two answers as GradBench does: equal structure, equal integers, and floats within a relative tolerance,
/// here 1e-8 instead of 1e-4.
fn agree(path: &str, ours: &Value, theirs: &Value) -> Result<(), String> {
    const TOLERANCE: f64 = 1e-8;
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .try_for_each(|(i, (a, b))| agree(&format!("{path}[{i}]"), a, b)),
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().zip(b.values()).try_for_each(|((k, a), b)| agree(&format!("{path}.{k}"), a, b))
        }
        (Value::Number(a), Value::Number(b)) => {
            let (x, y) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            let exact = a.is_u64() && b.is_u64();
            let close = (x - y).abs() <= TOLERANCE * f64::max(1.0, x.abs() + y.abs());
            if (exact && x == y) || (!exact && close) {
                return Ok(());
            }
            Err(format!("{path}: {a} is not {b}"))
        }
        _ => Err(format!("{path}: structures differ")),
    }
}

fn replay(eval: &str) {
    let path = format!("{}/data/gradbench/{eval}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let mut pending: Option<Value> = None;
    let mut answered = 0;
    for line in fs::read_to_string(path).unwrap().lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        if let Some(message) = entry.get("message") {
            pending = (message["kind"] == "evaluate").then(|| message.clone());
        } else if let Some(message) = pending.take() {
            let ours = answer(&message);
            assert_eq!(ours["success"], true, "{} {}", message["function"], ours["error"]);
            let name = format!("{eval}.{}", message["function"]);
            agree(&name, &ours["output"], &entry["response"]["output"]).unwrap();
            answered += 1;
        }
    }
    assert!(answered > 0);
}

#[test]
fn hello() {
    replay("hello");
}

#[test]
fn lse() {
    replay("lse");
}

#[test]
fn llsq() {
    replay("llsq");
}

#[test]
fn kmeans() {
    replay("kmeans");
}

#[test]
fn gmm() {
    replay("gmm");
}

#[test]
fn ba() {
    replay("ba");
}

#[test]
fn ode() {
    replay("ode");
}

#[test]
fn lstm() {
    replay("lstm");
}

#[test]
fn det() {
    replay("det");
}

#[test]
fn ht_c() {
    replay("ht_c");
}

#[test]
fn ht_s() {
    replay("ht_s");
}

#[test]
fn saddle() {
    replay("saddle");
}

#[test]
fn particle() {
    replay("particle");
}
