//! Convolutions and windows: values and derivatives compared with those that `tests/data/conv/record.py` recorded from
//! JAX.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::recorded_values::{RecordedValue, differ, recorded_values, report, weighted};
use serde_json::Value;
use tapeloom::conv::{self, Conv, Windows, windows};
use tapeloom::fft::Mode;
use tapeloom::prelude::*;
use tapeloom::xla::Client;
use tapeloom::{Error, Mesh, PartitionSpec, Target};
use tapeloom_tests::stablehlo_check::check;
use tapeloom_tests::xla::{client_or_skip, devices_or_skip, spec};

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
        // Every seventh case is also checked to second order. Windows without elements are left out of that, because
        // their maximum is infinite.
        let finite = case.out[0].numbers().all(f64::is_finite);
        if i % 7 == 0 && finite && case.args[0].dtype() == Dtype::F64 {
            why = why.or(check_grads(loss, &case.args, 2).err().map(|e| e.to_string()));
        }
        wrong.extend(why.map(|why| format!("{} {how}: {why}", case.name)));
    }
    report(&wrong);
}

/// In StableHLO text, products over windows must be convolutions: one in the program of the value, and three in that of
/// the gradient (the value, and the derivatives with respect to array and kernel). No gather may read windows.
#[test]
fn products_over_windows_are_written_as_convolutions() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (line, case) in cases() {
        let how = &line["how"];
        let f = |x: Vec<Var>| vec![(case.call)(how, &x)];
        let loss = |x: Vec<Var>| weighted(f(x)).sin();
        let texts = [jit(f).stablehlo(&case.args), jit(grad(loss)).stablehlo(&case.args)];
        let [value, gradient] = texts.map(Result::unwrap);
        for text in [&value, &gradient] {
            check(text).unwrap_or_else(|e| panic!("{}: {e}\n{text}", case.name));
        }
        // Skip cases that are not written as convolutions: no spatial axes, a kernel of one element, empty arrays.
        let of_one =
            case.args.get(1).is_none_or(|w| w.shape().iter().rev().take(2).any(|n| *n < 2));
        let is_empty = case.args.iter().chain(&case.out).any(|x| x.elements() == 0);
        let is_flat = case.args[0].shape().len() == 2 && case.name == "conv";
        if case.name.ends_with("pool") || of_one || is_flat || is_empty {
            continue;
        }
        count += 1;
        let convolutions = |text: &str| text.matches("stablehlo.convolution").count();
        let found = (convolutions(&value), convolutions(&gradient));
        if found != (1, 3) || gradient.contains("stablehlo.gather") {
            wrong.push(format!("{} {how}: {found:?} convolutions", case.name));
        }
    }
    report(&wrong);
    assert!(count > 200, "{count} convolutions");
}

/// XLA must compute the recorded values and gradients.
#[test]
fn xla_computes_the_values_of_jax() {
    let Some(client) = client_or_skip() else { return };
    compare_on(&client, None);
}

/// Convolutions on two devices, with arguments that are divided along one axis, must have the recorded values.
#[test]
fn xla_computes_the_values_of_jax_on_two_devices() {
    let Some(client) = devices_or_skip(2) else { return };
    compare_on(&client, Some(&Mesh::new([("data", 2)]).unwrap()));
}

fn compare_on(client: &Client, mesh: Option<&Mesh>) {
    let mut wrong = Vec::new();
    for (i, (line, case)) in cases().into_iter().enumerate() {
        if mesh.is_some() && i % 3 != 0 {
            continue;
        }
        let how = &line["how"];
        let f = |x: Vec<Var>| vec![(case.call)(how, &x)];
        let loss = |x: Vec<Var>| weighted(f(x));
        let mut compare = |found: Result<Vec<Tensor>, Error>, want: &[Tensor]| {
            let why = match found {
                Ok(found) => differ(&found, want, within(&case).max(1e-11)),
                Err(error) => Some(error.to_string()),
            };
            wrong.extend(why.map(|why| format!("{} {how}: {why}", case.name)));
        };
        let target = || Target::Xla(client.clone());
        let specs = |mesh: &Mesh| -> Vec<PartitionSpec> {
            let of = |(k, x): (usize, &Tensor)| spec(&x.ty().shape, mesh, i / 3 + k);
            case.args.iter().enumerate().map(of).collect()
        };
        let (mut f, mut g) = (jit(f).on(target()), jit(grad(loss)).on(target()));
        if let Some(mesh) = mesh {
            f = f.mesh(mesh.clone()).argument_shardings(specs(mesh));
            g = g.mesh(mesh.clone()).argument_shardings(specs(mesh));
        }
        compare(f.call(&case.args), &case.out);
        if let Some(want) = &case.grad {
            compare(g.call(&case.args), want);
        }
    }
    report(&wrong);
}

/// A batch of arrays, of kernels, or of both gives the same results as a call for each batch member.
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

/// Large convolutions, which the matrix library computes from padded arrays or from copies of the windows, must have
/// the values and gradients of the interpreter, which does not use the library.
#[test]
fn large_ones_are_those_of_the_interpreter() {
    let numbers = |shape: &[usize], dtype: Dtype| {
        let shape = shape.to_vec();
        let n: usize = shape.iter().product();
        let make = move |()| (arange(n, Dtype::F64) * 1.7).sin().reshape(&shape[..]).convert(dtype);
        run(make, ()).unwrap()
    };
    let cases: [(Conv, [usize; 4], [usize; 4]); 11] = [
        (Conv::new().same(), [2, 16, 9, 11], [24, 16, 3, 3]),
        (Conv::new().strides([2, 1]).same(), [2, 16, 9, 11], [16, 16, 3, 2]),
        (Conv::new().dilation([2]).padding([(1, 2)]), [1, 20, 10, 9], [16, 20, 2, 3]),
        (Conv::new().groups(2).same(), [2, 32, 8, 9], [32, 16, 3, 3]),
        (Conv::new().channels_last(), [2, 11, 12, 16], [3, 3, 16, 17]),
        (Conv::new().channels_last().strides([2]).same(), [1, 12, 13, 16], [3, 2, 16, 16]),
        (Conv::new().channels_last().input_dilation([2]), [1, 7, 8, 16], [2, 3, 16, 16]),
        (Conv::new().strides([8]), [2, 3, 32, 24], [24, 3, 8, 8]),
        (Conv::new().strides([2]).padding([(3, 3)]), [2, 3, 33, 36], [16, 3, 7, 7]),
        (Conv::new().strides([2]).padding([(1, 1)]), [2, 12, 19, 22], [24, 12, 3, 3]),
        (Conv::new().strides([2]).dilation([3]).groups(2), [2, 12, 24, 23], [16, 6, 4, 3]),
    ];
    let mut library = 0;
    for (how, x, w) in cases {
        for (dtype, within) in [(Dtype::F64, 1e-12), (Dtype::F32, 1e-4)] {
            let args = [numbers(&x, dtype), numbers(&w, dtype)].to_vec();
            let how = how.clone();
            let f = move |x: Vec<Var>| {
                let loss = |x: Vec<Var>| weighted(vec![conv::conv(x[0], x[1], how.clone())]);
                let (value, slopes) = value_and_grad(loss)(x);
                [vec![value], slopes].concat()
            };
            let native = jit(f.clone());
            library += native.explain(&args).unwrap().kernels().matches(" steps 0 = ").count();
            let got = native.call(&args).unwrap();
            let want = jit(f).interpreted().call(&args).unwrap();
            assert_eq!(differ(&got, &want, within), None, "{x:?} {w:?} {dtype}");
        }
    }
    assert!(library > 0);
}

/// A kernel `[spatial.., inputs, outputs]` must give the same results if its axes are given in another order.
#[test]
fn kernels_come_in_every_layout() {
    let layouts: [(Conv, &[i64]); 3] = [
        (Conv::new(), &[0, 3, 1, 2]),
        (Conv::new().channels_last(), &[0, 1, 2, 3]),
        (Conv::new().layout("HCNW", "WIHO", "CWHN"), &[1, 3, 0, 2]),
    ];
    let numbers = |shape: [usize; 4]| {
        let n = shape.iter().product::<usize>();
        run(move |()| (arange(n, Dtype::F64) * 1.7).sin().reshape(shape), ()).unwrap()
    };
    let (x, w) = (numbers([2, 7, 6, 3]), numbers([3, 2, 3, 4]));
    let plain = |(x, w): (Var, Var)| conv::conv(x, w, Conv::new().channels_last());
    let want = run(plain, (&x, &w)).unwrap();
    for (how, order) in layouts {
        let f = |(x, w): (Var, Var)| {
            let y = conv::conv(x.permute(order), how.kernel(w), how.clone());
            let back: &[i64] = match order[0] {
                0 if order[1] == 3 => &[0, 2, 3, 1],
                0 => &[0, 1, 2, 3],
                _ => &[3, 2, 1, 0],
            };
            y.permute(back)
        };
        let got = run(f, (&x, &w)).unwrap();
        assert_eq!(differ(&[got], std::slice::from_ref(&want), 1e-13), None, "{how:?}");
    }
    let short = run(|w: Var| Conv::new().kernel(w), [1.0]).unwrap_err();
    assert!(short.to_string().contains("convolutions.rs"), "{short}");
}

/// An error of a convolution must name the user's line, the types that were found, and a fix.
#[test]
fn mistakes_are_errors_with_the_line() {
    let (x, w) = (Tensor::zeros(&[2, 3, 8], Dtype::F64).unwrap(), [[[0.5; 3]; 3]; 4]);
    let of = |how: Conv| {
        run(move |(x, w): (Var, Var)| conv::conv(x, w, how.clone()), (&x, w)).unwrap_err()
    };
    let pool = |f: fn(Var) -> Var| run(f, &x).unwrap_err();
    let huge = usize::MAX;
    for (error, what) in [
        (of(Conv::new().groups(2)), "groups 2: 3 channels, kernels for 3 channels"),
        (of(Conv::new().layout("NHWC", "HWIO", "NHWC")), "the axes \"NHWC\""),
        (of(Conv::new().layout("NCW", "OIX", "NCW")), "the axes \"OIX\""),
        (of(Conv::new().strides([1, 2])), "1 spatial axes with the strides [1, 2]"),
        (of(Conv::new().dilation([0])), "the dilation [0]"),
        (of(Conv::new().strides([huge])), "over 8 elements"),
        (of(Conv::new().padding([(i64::MIN, 0)])), "over 8 elements"),
        (pool(|x| conv::max_pool(x, windows([0]))), "the sizes [0]"),
        (pool(|x| conv::max_pool(x, windows([2]).along([7]))), "axis 7"),
        (pool(|x| conv::max_pool(x, windows([2, 2]).along([0]))), "the sizes [2, 2]"),
        (pool(|x| conv::avg_pool(x.convert(Dtype::I64), windows([2]))), "needs floats, got i64"),
        (
            pool(|x| conv::reduce_window(x, windows([2]), 0.0, |x, y| (x + y).sum())),
            "returns f64[]",
        ),
        (
            pool(|x| conv::reduce_window(x, windows([2, 9]), 0.0, |x, y| (x + y).sum())),
            "returns f64[]",
        ),
        (pool(|x| conv::conv(x.gt(0.0), x.gt(0.0), Conv::new())), "it is of numbers"),
        (pool(|x| conv::convolve(x, x, Mode::Full)), "sequences of one axis"),
        (
            pool(|x| conv::conv_transpose(x, x, Conv::new().input_dilation([2]))),
            "strides are its input dilation",
        ),
    ] {
        let text = error.to_string();
        assert!(text.contains(what), "{what}: {text}");
        assert!(text.contains("convolutions.rs") && !text.contains("/src/conv/"), "{text}");
    }
}
