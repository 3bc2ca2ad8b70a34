//! Values and derivatives of the composed functions, compared with numbers that the scripts in `tests/data/vocabulary`
//! recorded from numpy, SciPy and JAX. Derivatives are also compared with finite differences, f32 results with f64
//! results, and batches with loops over their members.

use super::calls::{CALLS, Call};
use crate::recorded_values::{RecordedValue, recorded_values, report};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Deref;
use tapeloom::prelude::*;
use tapeloom_ir::{ArrayType, Literal};
use tapeloom_tests::{Elements, Sweep};

/// Deliberate differences from JAX's derivatives at edges: the functions, the points in words and as a predicate on
/// the arguments, the reason. The book prints this table.
type Intended = (&'static [&'static str], &'static str, fn(&[f64]) -> bool, &'static str);
pub(super) const INTENDED: &[Intended] = &[
    (
        &["heaviside"],
        "x = nan",
        |x| x[0].is_nan(),
        "nan for nan, with derivative 0; JAX: the value at zero",
    ),
    (
        &["xlogy"],
        "(0, 0), in y",
        |x| x[0] == 0.0 && x[1] == 0.0,
        "0 ln y is 0 for every y, so the derivative is 0; JAX: nan",
    ),
    (
        &["xlog1py"],
        "(0, -1), in y",
        |x| x[0] == 0.0 && x[1] == -1.0,
        "0 ln(1 + y) is 0 for every y, so the derivative is 0; JAX: nan",
    ),
    (&["entr"], "x \\< 0", |x| x[0] < 0.0, "constant outside the domain; JAX: nan"),
    (
        &["rel_entr"],
        "infinite x or y",
        |x| x.contains(&f64::INFINITY),
        "nan, since the product rule computes inf · 0; JAX: an infinity",
    ),
    (
        &["kl_div"],
        "outside the domain",
        |x| x.iter().any(|x| x.is_nan() || *x < 0.0) || x[1] == 0.0 && x[0] != 0.0,
        "constant inf; JAX: the derivative of y - x",
    ),
    (
        &["log_ndtr"],
        "x ≤ -10⁴",
        |x| x[0] <= -1e4,
        "all digits are right; JAX has eight right digits, and is wrong from -10¹⁶ on",
    ),
    (
        &["logaddexp2"],
        "equal infinities",
        |x| x[0] == x[1] && x[0].is_infinite(),
        "the derivative goes to the first operand, since no limit defines shares; JAX: nan",
    ),
    (&["ndtri"], "outside the domain", |x| x[0] < 0.0 || x[0] > 1.0, "0, constant nan; JAX: nan"),
    (
        &["ptp_keepdims"],
        "an axis with nan",
        |_| true,
        "0 as of `max_axis`: no element attains nan; JAX: nan",
    ),
    (
        &["relu", "relu6", "hard_sigmoid"],
        "x = nan",
        |x| x[0].is_nan(),
        "nan and its derivative are returned unchanged; JAX: 0",
    ),
];

/// One recorded call: a line of `values.jsonl`.
pub(super) struct Case {
    pub(super) edge: bool,
    recorded: RecordedValue<Call>,
}

impl Deref for Case {
    type Target = RecordedValue<Call>;

    fn deref(&self) -> &RecordedValue<Call> {
        &self.recorded
    }
}

impl Case {
    fn floats(&self) -> Vec<usize> {
        (0..self.args.len()).filter(|i| self.args[*i].dtype().is_float()).collect()
    }

    fn show(&self) -> String {
        let types: Vec<String> = self.args.iter().map(|t| t.ty().to_string()).collect();
        format!(
            "{}({}){}",
            self.name,
            types.join(", "),
            if self.edge { " at the edge" } else { "" }
        )
    }
}

pub(super) fn cases() -> Vec<Case> {
    let files = [
        include_str!("../../../data/vocabulary/values.jsonl"),
        include_str!("../../../data/vocabulary/segments.jsonl"),
        include_str!("../../../data/vocabulary/cells.jsonl"),
        include_str!("../../../data/vocabulary/signals.jsonl"),
        include_str!("../../../data/vocabulary/interpolation.jsonl"),
        include_str!("../../../data/vocabulary/densities.jsonl"),
    ];
    let edge = |line: &Value| line["edge"].as_bool().unwrap();
    let all = files.into_iter().flat_map(|text| recorded_values(text, CALLS));
    all.map(|(line, recorded)| Case { edge: edge(&line), recorded }).collect()
}

fn numbers(t: &Tensor) -> Vec<f64> {
    t.numbers().collect()
}

/// Returns the first difference larger than `relative` times the expected number plus `relative` / 100 times the
/// largest expected number, because terms of sums may cancel.
fn differ(
    got: &[f64],
    want: &[f64],
    relative: f64,
    skip: impl Fn(usize) -> bool,
) -> Option<String> {
    let finite = want.iter().filter(|x| x.is_finite() && x.abs() < 1e100);
    let largest = finite.fold(0.0, |m: f64, x| m.max(x.abs()));
    let near = |x: f64, y: f64| {
        (x - y).abs() <= relative * (y.abs() + 0.01 * largest)
            || x == y
            || (x.is_nan() && y.is_nan())
    };
    let wrong: Vec<String> = (0..want.len().max(got.len()))
        .filter(|i| !skip(*i))
        .filter_map(|i| match (got.get(i), want.get(i)) {
            (Some(x), Some(y)) if near(*x, *y) => None,
            (x, y) => Some(format!("element {i} is {x:?} and not {y:?}")),
        })
        .collect();
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

#[test]
fn values_are_those_of_numpy() {
    let mut wrong = Vec::new();
    for case in cases() {
        let f = |x: Vec<Var>| (case.call)(&x);
        for (engine, got) in [
            ("native", jit(f).call(&case.args)),
            ("interpreter", jit(f).interpreted().call(&case.args)),
        ] {
            let got = match got {
                Ok(got) => got,
                Err(e) => {
                    wrong.push(format!("{} ({engine}): {e}", case.show()));
                    continue;
                }
            };
            if got.len() != case.out.len() {
                wrong.push(format!("{} ({engine}) gives {} arrays", case.show(), got.len()));
            }
            for (got, want) in got.iter().zip(&case.out) {
                if got.ty() != want.ty() {
                    wrong.push(format!("{} is {} and not {}", case.show(), got.ty(), want.ty()));
                } else if let Some(why) = differ(&numbers(got), &numbers(want), 1e-12, |_| false) {
                    wrong.push(format!("{} ({engine}): {why}", case.show()));
                }
            }
        }
    }
    report(&wrong);
}

/// Returns the sum of all float results, with the weights of the recording script: its gradient is compared.
fn weighted(results: Vec<Var>) -> Var {
    let one = |y: Var| {
        let y = y.flatten();
        (y * (arange(y.len(), y.dtype()) + 1.0).cos()).sum()
    };
    results.into_iter().map(one).reduce(|x, y| x + y).unwrap_or(zeros([], Dtype::F64))
}

/// Returns the recorded function as a function of its float arguments alone, with the other arguments constant.
fn of_floats<'a>(case: &'a Case, fixed: &'a [Var]) -> impl Fn(Vec<Var>) -> Vec<Var> + 'a {
    move |x| {
        let mut all = fixed.to_vec();
        for (i, v) in case.floats().into_iter().zip(x) {
            all[i] = v;
        }
        (case.call)(&all)
    }
}

#[test]
fn derivatives_are_those_of_jax() {
    let mut wrong = Vec::new();
    for case in cases() {
        let Some(want) = &case.grad else { continue };
        let got = jit(|x: Vec<Var>| {
            let floats: Vec<Var> = case.floats().iter().map(|i| x[*i]).collect();
            grad(|d: Vec<Var>| weighted(of_floats(&case, &x)(d)))(floats)
        })
        .call(&case.args);
        let got = match got {
            Ok(got) => got,
            Err(e) => {
                wrong.push(format!("{}: {e}", case.show()));
                continue;
            }
        };
        for (k, (got, want)) in got.iter().zip(want).enumerate() {
            // In a case of edges (zeros, infinities, nan), all arguments of an elementwise function have one shape:
            // point i is element i of each argument.
            let points: Vec<Vec<f64>> = case.args.iter().map(numbers).collect();
            let intended = |i: usize| {
                let here: Vec<f64> = points.iter().filter_map(|p| p.get(i).copied()).collect();
                let listed =
                    |(names, _, at, _): &Intended| names.contains(&&*case.name) && at(&here);
                case.edge && INTENDED.iter().any(listed)
            };
            if let Some(why) = differ(&numbers(got), &numbers(want), 1e-9, intended) {
                wrong.push(format!("{} by argument {k}: {why}", case.show()));
            }
        }
    }
    report(&wrong);
}

#[test]
fn derivatives_are_those_of_differences() {
    let mut wrong = Vec::new();
    for case in Sweep::Vocabulary.all(cases()).iter().filter(|c| !c.edge && c.grad.is_some()) {
        let fixed: Vec<&Tensor> = case.args.iter().collect();
        let floats: Vec<Tensor> = case.floats().iter().map(|i| case.args[*i].clone()).collect();
        let f = |x: Vec<Var>| {
            let fixed: Vec<Var> = fixed.iter().map(|t| constant(*t)).collect();
            of_floats(case, &fixed)(x)
        };
        // Elementwise functions are also checked to second order: a formula with two branches may be right only to
        // first order.
        let elementwise = floats.iter().all(|t| t.elements() > 1)
            && case.out.len() == 1
            && floats.iter().any(|t| t.shape() == case.out[0].shape());
        if let Err(e) = check_grads(f, &floats, if elementwise { 2 } else { 1 }) {
            wrong.push(format!("{}: {e}", case.show()));
        }
    }
    report(&wrong);
}

#[test]
fn single_precision_follows_double() {
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|c| !c.edge && !c.floats().is_empty()) {
        let narrow = |t: &Tensor| {
            if t.dtype() != Dtype::F64 {
                return t.clone();
            }
            let mut n = Tensor::zeros_of(&ArrayType::new(Dtype::F32, t.shape())).unwrap();
            for i in 0..t.elements() {
                n.put(i, Literal::of(Dtype::F32, t.at(i).to_f64()));
            }
            n
        };
        let args: Vec<Tensor> = case.args.iter().map(narrow).collect();
        match jit(|x: Vec<Var>| (case.call)(&x)).interpreted().call(&args) {
            Err(e) => wrong.push(format!("{} in f32: {e}", case.show())),
            Ok(got) => {
                for (got, want) in got.iter().zip(&case.out) {
                    let same = narrow(want).ty() == got.ty();
                    let why = differ(&numbers(got), &numbers(want), 2e-4, |_| false);
                    if let Some(why) = why.or((!same).then(|| format!("gives {}", got.ty()))) {
                        wrong.push(format!("{} in f32: {why}", case.show()));
                    }
                }
            }
        }
    }
    report(&wrong);
}

#[test]
fn a_batch_is_a_loop() {
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|c| !c.args.is_empty()) {
        // The batch has two members: the arguments, and the arguments with their elements in reverse order.
        let both = |x: Vec<Var>| -> Vec<Vec<Var>> {
            let turned = x.iter().map(|v| v.flatten().flip(0).reshape(v.shape())).collect();
            vec![x, turned]
        };
        let batch = |x: Vec<Var>| {
            let sets = both(x);
            let stacked: Vec<Var> =
                (0..sets[0].len()).map(|i| stack(&[sets[0][i], sets[1][i]], 0)).collect();
            vmap(|x: Vec<Var>| (case.call)(&x))(stacked)
        };
        let each = |x: Vec<Var>| {
            let results: Vec<Vec<Var>> = both(x).iter().map(|x| (case.call)(x)).collect();
            results[0].iter().zip(&results[1]).map(|(x, y)| stack(&[*x, *y], 0)).collect::<Vec<_>>()
        };
        let batched = jit(batch).interpreted().call(&case.args);
        let looped = jit(each).interpreted().call(&case.args);
        match (batched, looped) {
            (Ok(batched), Ok(looped)) => {
                for (x, y) in batched.iter().zip(&looped) {
                    let why = differ(&numbers(x), &numbers(y), 1e-13, |_| false);
                    if let Some(why) = why.or((x.ty() != y.ty()).then(|| format!("is {}", x.ty())))
                    {
                        wrong.push(format!("{} in a batch: {why}", case.show()));
                    }
                }
            }
            (Err(e), _) | (_, Err(e)) => wrong.push(format!("{} in a batch: {e}", case.show())),
        }
    }
    report(&wrong);
}

/// Every function in the table of calls must occur in the recorded values: otherwise it would not be tested.
#[test]
fn every_call_has_a_case() {
    let recorded: BTreeSet<String> = cases().into_iter().map(|c| c.recorded.name).collect();
    let missing: Vec<&str> =
        CALLS.iter().map(|(name, _)| *name).filter(|name| !recorded.contains(*name)).collect();
    assert_eq!(missing, [""; 0]);
}
