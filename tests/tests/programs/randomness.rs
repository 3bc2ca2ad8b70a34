//! Random samples compared with recorded ones (`tests/data/random/record.py`): JAX's, or exact values where JAX loses
//! digits; and properties of keys under transforms.

use serde_json::Value;
use std::collections::BTreeMap;
use tapeloom::prelude::*;
use tapeloom_ir::Literal;
use tapeloom_tests::conformance::tensor;
use tapeloom_tests::{Agreement, Elements};

/// For each distribution, the largest distance of a sample from the recorded one, in units in the last place of the
/// number itself (`Own`), or of 1 if 1 is larger (`One`): near a root, a function has the absolute error of its
/// argument.
const ULPS: &[(&str, f64, Place)] = &[
    ("normal", 3.0, Place::Own),
    ("exponential", 1.0, Place::Own),
    ("laplace", 1.0, Place::Own),
    ("gumbel", 2.0, Place::One),
    // JAX rounds the bounds, so there are no exact values: samples are compared with JAX, which uses its own inverse
    // error function.
    ("truncated_normal", 16.0, Place::One),
    // XLA fuses multiply and add if the machine has such an instruction, so the last bit may differ.
    ("uniform_between", 2.0, Place::One),
];

/// The number whose unit in the last place measures an error: the sample itself, or 1 if that is larger.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Own,
    One,
}

fn cases() -> Vec<Value> {
    let text = include_str!("../../data/random/values.jsonl");
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines[0]["jax"], "0.10.2");
    lines[1..].to_vec()
}

/// Draws the sample of a recorded case with this library.
fn sample(case: &Value) -> Result<Tensor, tapeloom::Error> {
    let args = case["args"].clone();
    let seed = case["seed"].as_i64().unwrap();
    let dtype = Dtype::from_name(case["dtype"].as_str().unwrap()).unwrap();
    let shape: Vec<usize> =
        case["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
    let of = args["of"].as_str().and_then(Dtype::from_name).unwrap_or(dtype);
    let float = |name: &str| Tensor::from(Literal::of(of, args[name].as_f64().unwrap()));
    let whole = |name: &str| args[name].as_i64().unwrap();
    let n = args["n"].as_u64().unwrap_or(0) as usize;
    let name = case["f"].as_str().unwrap().to_owned();
    let (p, low, high) = match name.as_str() {
        "bernoulli" => (float("p"), float("p"), float("p")),
        "uniform_between" | "truncated_normal" => (float("low"), float("low"), float("high")),
        _ => (Tensor::from(0.0), Tensor::from(0.0), Tensor::from(0.0)),
    };
    let integer = |name: &str| {
        Tensor::from(Literal::exact_integer(dtype, args[name].as_i64().unwrap().into()).unwrap())
    };
    let bounds = match name.as_str() {
        "randint" => Some((integer("low"), integer("high"))),
        _ => None,
    };
    let data = args["data"].as_i64().unwrap_or(0);
    let axis = if name == "shuffle" { whole("axis") } else { 0 };
    let logits: Vec<f64> = (0..600).map(|i| f64::from(i).cos()).collect();
    let logits = Tensor::new(&[100, 6], logits)?;
    let rows = Tensor::new(&[4, 3], (0..12).map(f64::from).collect::<Vec<_>>())?;
    run(
        move |seed: Var| {
            let key = random::key(seed);
            match name.as_str() {
                "key" => key,
                "split_n" => random::split_n(key, n),
                "fold_in" => random::fold_in(key, data),
                "bits" => random::bits(key, shape.clone(), dtype),
                "uniform" => random::uniform(key, shape.clone(), dtype),
                "uniform_between" => random::uniform_between(key, shape.clone(), &low, &high),
                "normal" => random::normal(key, shape.clone(), dtype),
                "gumbel" => random::gumbel(key, shape.clone(), dtype),
                "exponential" => random::exponential(key, shape.clone(), dtype),
                "laplace" => random::laplace(key, shape.clone(), dtype),
                "truncated_normal" => random::truncated_normal(key, shape.clone(), &low, &high),
                "bernoulli" => random::bernoulli(key, &p, shape.clone()),
                "categorical" => random::categorical(key, constant(&logits).convert(of), -1),
                "permutation" => random::permutation(key, n),
                "shuffle" => random::shuffle(key, constant(&rows), axis),
                "choice" => random::choice(key, constant(&rows), [2, 5]),
                "randint" => {
                    let (low, high) = bounds.as_ref().unwrap();
                    random::randint(key, shape.clone(), low, high, dtype)
                }
                "rademacher" => random::rademacher(key, shape.clone(), dtype),
                other => panic!("no function {other}"),
            }
        },
        seed,
    )
}

/// Returns the distance of `got` from `want`, in units in the last place of `want` (or of 1) in this dtype.
fn ulps(got: f64, want: f64, dtype: Dtype, place: Place) -> f64 {
    let size = if place == Place::One { want.abs().max(1.0) } else { want.abs() };
    let place = match dtype {
        Dtype::F32 => f64::from((size as f32).next_up()) - f64::from(size as f32),
        _ => size.next_up() - size,
    };
    if got == want { 0.0 } else { (got - want).abs() / place }
}

#[test]
fn samples_are_those_of_jax() {
    let (mut worst, mut wrong) = (BTreeMap::<String, f64>::new(), Vec::new());
    for case in cases() {
        let name = case["f"].as_str().unwrap();
        let what = format!("{name} of seed {} with {}", case["seed"], case["args"]);
        let (got, want) = (sample(&case).unwrap(), tensor(&case).unwrap());
        assert_eq!(got.ty(), want.ty(), "{what}");
        let Some((_, allowed, place)) = ULPS.iter().find(|(f, ..)| *f == name) else {
            if got != want {
                wrong.push(format!("{what}: {got:?}, JAX {want:?}"));
            }
            continue;
        };
        for i in 0..got.elements() {
            let (x, y) = (got.at(i).to_f64(), want.at(i).to_f64());
            let off = ulps(x, y, got.dtype(), *place);
            let so_far = worst.entry(format!("{name} {}", got.dtype())).or_default();
            *so_far = so_far.max(off);
            if off > *allowed {
                wrong.push(format!("{what}: element {i} is {x:e}, recorded {y:e}: {off} ulp"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{worst:?}", wrong.join("\n"));
}

/// A batch over keys must give the samples of each key, and samples under a derivative must be the same as without.
#[test]
fn samples_are_the_same_under_transforms() {
    let normal = |key: Var| random::normal(key, [7], Dtype::F64);
    let keys = |seed: Var| random::split_n(random::key(seed), 4);
    let batch = run(move |seed: Var| vmap(normal)(keys(seed)), 3i64).unwrap();
    let one_by_one = move |seed: Var| {
        let all = keys(seed);
        stack(&(0..4).map(|i| normal(all.index(i))).collect::<Vec<_>>(), 0)
    };
    assert_eq!(batch, run(one_by_one, 3i64).unwrap());
    // The derivative of Σ s z with respect to s is Σ z: both passes must draw the same z, whether it is saved or
    // recomputed.
    let scaled = |s: Var| (s * random::normal(random::key(3), [7], Dtype::F64)).sum();
    let total = run(|()| random::normal(random::key(3), [7], Dtype::F64).sum(), ()).unwrap();
    assert_eq!(run(grad(scaled), 2.0).unwrap(), total);
    assert_eq!(run(grad(checkpoint(scaled, Policy::Nothing)), 2.0).unwrap(), total);
}

/// Samples must have derivatives with respect to parameters, to second order, also with respect to bounds and in tails.
#[test]
fn samples_move_with_their_parameters() {
    let bounds = |(low, high): (Var, Var)| {
        random::uniform_between(random::key(1), [5], low, high).square().sum()
    };
    check_grads(bounds, (0.5, 2.0), 2).unwrap();
    let truncated = |(low, high): (Var, Var)| {
        random::truncated_normal(random::key(1), [5], low, high).sin().sum()
    };
    check_grads(truncated, (-0.5, 1.5), 2).unwrap();
}

/// Wrong keys, seeds, dtypes and bounds must each give an error that names the user's line.
#[test]
fn mistakes_are_errors_with_the_line() {
    type Draw = fn(Var) -> Var;
    let cases: &[(Draw, u32, &str)] = &[
        (|x| random::normal(x, [2], Dtype::F64), line!(), "`normal` needs a key, got f64[3]"),
        (|x| random::key(x), line!(), "`key` of a seed that is f64[3]"),
        (|x| random::fold_in(random::key(0), x), line!(), "`fold_in` of f64[3] into a key"),
        (
            |_| random::uniform(random::split_n(random::key(0), 2), [], Dtype::F64),
            line!() - 1,
            "`uniform` needs one key, got u64[2]",
        ),
        (|_| random::uniform(random::key(0), [2], Dtype::I64), line!(), "`uniform` in i64"),
        (|_| random::bits(random::key(0), [2], Dtype::I32), line!(), "`bits` in i32"),
        (|x| random::bernoulli(random::key(0), x, [2]), line!(), "with a parameter f64[3]"),
        (|_| random::bernoulli(random::key(0), true, [2]), line!(), "a parameter that is bool[]"),
        (|x| random::categorical(random::key(0), x, 1), line!(), "along axis 1 of shape [3]"),
        (
            |x| random::categorical(random::key(0), x.gt(0.0), 0),
            line!() - 1,
            "`categorical` in bool",
        ),
        (
            |x| random::randint(random::key(0), [2], x, 3, Dtype::I64),
            line!() - 1,
            "with a bound that is f64[3]",
        ),
        (
            |_| random::randint(random::key(0), [2], 0, 3, Dtype::F32),
            line!() - 1,
            "`randint` in f32",
        ),
        (|_| random::rademacher(random::key(0), [2], Dtype::U32), line!(), "`rademacher` in u32"),
        (|x| random::shuffle(random::key(0), x, 2), line!(), "along axis 2 of shape [3]"),
        (|x| random::choice(random::key(0), x.sum(), [2]), line!(), "`choice` from f64[]"),
        (
            |_| random::uniform(random::key(0), [1 << 40, 1 << 40], Dtype::F64),
            line!() - 1,
            "`uniform` of shape",
        ),
    ];
    for (draw, line, want) in cases {
        let error = run(*draw, [1.0, 2.0, 3.0]).expect_err(want).to_string();
        assert!(error.contains(want), "{error}\nwanted {want}");
        assert!(error.contains(&format!("{}:{line}:", file!())), "{error}\nwanted line {line}");
        assert!(!error.contains("prelude/src"), "{error}");
    }
}

/// Samples drawn inside loops must depend on their keys only, also if the reverse pass recomputes them.
#[test]
fn samples_in_loops_are_those_of_their_keys() {
    let draw = |key: Var| random::normal(key, [2], Dtype::F64);
    let keys = || random::split_n(random::key(5), 4);
    let one_by_one = run(
        |()| {
            let samples: Vec<Var> = (0..4).map(|i| draw(keys().index(i))).collect();
            stack(&samples, 0)
        },
        (),
    );
    let want = one_by_one.unwrap();
    assert_eq!(run(|()| map(draw, keys()), ()).unwrap(), want);
    assert_eq!(run(|()| vmap(draw)(keys()), ()).unwrap(), want);
    let noisy = |x: Var| scan(|(c, key): (Var, Var)| (c + x * draw(key), draw(key)), x, keys());
    let (sum, samples) = run(noisy, [0.0, 1.0]).unwrap();
    assert_eq!(samples, want);
    let folded = |i: Var| draw(random::fold_in(random::key(5), i));
    let counted = |()| fori_loop(3, |(i, s): (Var, Var)| s + folded(i), zeros([2], Dtype::F64));
    let by_hand = |()| folded(iota([3], 0, Dtype::I64).index(0)) + folded(constant(1i64));
    let by_hand = move |()| by_hand(()) + folded(constant(2i64));
    Agreement::CLOSE.check(&run(counted, ()).unwrap(), &run(by_hand, ()).unwrap()).unwrap();
    let kept = run(grad(|x: Var| noisy(x).0.sum()), [0.0, 1.0]).unwrap();
    let again =
        run(grad(checkpoint(|x: Var| noisy(x).0.sum(), Policy::Nothing)), [0.0, 1.0]).unwrap();
    assert_eq!(kept, again);
    let column: f64 = want.to_vec::<f64>().unwrap().iter().skip(1).step_by(2).sum();
    assert!((sum.at(1).to_f64() - 1.0 - column).abs() < 1e-12);
    assert!((kept.at(1).to_f64() - 1.0 - column).abs() < 1e-12);
}
