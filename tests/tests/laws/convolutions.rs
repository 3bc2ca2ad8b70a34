//! Convolutions and windows beside JAX: values and derivatives that `tests/data/conv/record.py` recorded.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::recorded_values::{RecordedValue, differ, recorded_values, report, weighted};
use serde_json::Value;
use tapeloom::conv::{self, Conv, Windows, windows};
use tapeloom::fft::Mode;
use tapeloom::prelude::*;

type Call = fn(&Value, &[Var]) -> Var;

const CALLS: &[(&str, Call)] = &[
    ("conv", |how, x| conv::conv(x[0], x[1], convolution(how))),
    ("conv_transpose", |how, x| conv::conv_transpose(x[0], x[1], convolution(how))),
    ("max_pool", |how, x| conv::max_pool(x[0], pooled(how))),
    ("min_pool", |how, x| conv::min_pool(x[0], pooled(how))),
    ("sum_pool", |how, x| conv::sum_pool(x[0], pooled(how))),
    ("convolve", |how, x| conv::convolve(x[0], x[1], mode(how))),
    ("correlate", |how, x| conv::correlate(x[0], x[1], mode(how))),
];

fn integers(list: &Value) -> Vec<i64> {
    list.as_array().into_iter().flatten().map(|n| n.as_i64().unwrap()).collect()
}

fn naturals(list: &Value) -> Vec<usize> {
    integers(list).into_iter().map(|n| n as usize).collect()
}

fn pairs(list: &Value) -> Vec<(i64, i64)> {
    let pair = |p: &Value| (p[0].as_i64().unwrap(), p[1].as_i64().unwrap());
    list.as_array().into_iter().flatten().map(pair).collect()
}

fn convolution(how: &Value) -> Conv {
    let mut c = Conv::new().strides(naturals(&how["strides"])).dilation(naturals(&how["dilation"]));
    c = c.input_dilation(naturals(&how["input_dilation"]));
    if let Some(groups) = how["groups"].as_u64() {
        c = c.groups(groups as usize);
    }
    if let Some([input, kernel, output]) = how["layout"].as_array().map(Vec::as_slice) {
        let text = |t: &Value| t.as_str().unwrap().to_owned();
        c = c.layout(&text(input), &text(kernel), &text(output));
    }
    match how["padding"].as_str() {
        Some("VALID") => c,
        Some("SAME") => c.same(),
        Some(_) => c.same_lower(),
        None => c.padding(pairs(&how["padding"])),
    }
}

fn pooled(how: &Value) -> Windows {
    let w = windows(naturals(&how["sizes"])).along(integers(&how["axes"]));
    let w = w.strides(naturals(&how["strides"])).dilation(naturals(&how["dilation"]));
    let w = w.input_dilation(naturals(&how["input_dilation"]));
    match how["padding"].as_str() {
        Some("VALID") => w,
        Some("SAME") => w.same(),
        Some(_) => w.same_lower(),
        None => w.padding(pairs(&how["padding"])),
    }
}

fn mode(how: &Value) -> Mode {
    match how["mode"].as_str() {
        Some("full") => Mode::Full,
        Some("same") => Mode::Same,
        _ => Mode::Valid,
    }
}

fn cases() -> Vec<(Value, RecordedValue<Call>)> {
    recorded_values(include_str!("../../data/conv/values.jsonl"), CALLS)
}

fn within(case: &RecordedValue<Call>) -> f64 {
    if case.args[0].dtype() == Dtype::F32 { 1e-5 } else { 1e-12 }
}

#[test]
fn values_are_those_of_jax() {
    let mut wrong = Vec::new();
    for (line, case) in cases() {
        let how = &line["how"];
        let f = |x: Vec<Var>| vec![(case.call)(how, &x)];
        for (engine, got) in [
            ("native", jit(f).call(&case.args)),
            ("interpreter", jit(f).interpreted().call(&case.args)),
        ] {
            let why = match got {
                Ok(got) => differ(&got, &case.out, within(&case)),
                Err(e) => Some(e.to_string()),
            };
            wrong.extend(why.map(|why| format!("{} {how} ({engine}): {why}", case.name)));
        }
    }
    report(&wrong);
}

#[test]
fn derivatives_are_those_of_jax_and_of_differences() {
    let mut wrong = Vec::new();
    for (i, (line, case)) in cases().into_iter().enumerate() {
        let how = &line["how"];
        let loss = |x: Vec<Var>| weighted(vec![(case.call)(how, &x)]);
        let mut why = case.grad.as_ref().and_then(|want| match jit(grad(loss)).call(&case.args) {
            Ok(got) => differ(&got, want, within(&case)),
            Err(e) => Some(e.to_string()),
        });
        // Of second order for some of each kind; a window without elements has an infinite extremum.
        let finite = case.out[0].numbers().all(f64::is_finite);
        if i % 7 == 0 && finite && case.args[0].dtype() == Dtype::F64 {
            why = why.or(check_grads(loss, &case.args, 2).err().map(|e| e.to_string()));
        }
        wrong.extend(why.map(|why| format!("{} {how}: {why}", case.name)));
    }
    report(&wrong);
}

/// Batches of arrays, of kernels and of both are the members.
#[test]
fn a_batch_is_its_members() {
    let how = || Conv::new().strides([2, 1]).same().groups(2);
    let f = move |(x, w): (Var, Var)| conv::conv(x, w, how());
    let numbers = |shape: &[usize]| {
        let shape = shape.to_vec();
        let n: usize = shape.iter().product();
        run(move |()| arange(n, Dtype::F64).sin().reshape(&shape[..]), ()).unwrap()
    };
    let (x, w) = (numbers(&[3, 2, 4, 5, 4]), numbers(&[3, 6, 2, 3, 2]));
    let both = run(vmap(f), (&x, &w)).unwrap();
    for ((x, w), y) in x.rows().zip(w.rows()).zip(both.rows()) {
        assert_eq!(differ(&[y], &[run(f, (&x, &w)).unwrap()], 1e-14), None);
    }
    let pool = |x: Var| conv::max_pool(x, windows([2, 3]).strides([2, 2]).same());
    for (x, y) in x.rows().zip(run(vmap(pool), &x).unwrap().rows()) {
        assert_eq!(y, run(pool, &x).unwrap());
    }
}
