//! Programs as Rust source: the results are those of `jit(f).call` to rounding, and rustc compiles the programs of this
//! file, which are not random, without warnings.
//!
//! `BLESS=1 cargo test -p tapeloom-tests --test programs rust_source::` writes the source of two derivatives to
//! `data/rust_source.txt`.

use std::collections::BTreeSet;
use std::path::Path;
use tapeloom::prelude::*;
use tapeloom::tree::{Args, TensorRefs};
use tapeloom::{ArrayType, Jit, Kind, Tree};
use tapeloom_backend::rust_source::{self, Interface};
use tapeloom_ir::{FuncId, Module, Problem};
use tapeloom_tests::gradbench::{Mixture, gmm_objective};
use tapeloom_tests::program_generator::Recipe;
use tapeloom_tests::random_loops;
use tapeloom_tests::rust_source::{SourceCase, check};

use tapeloom_tests::{Agreement, Sweep, library_functions};
use tapeloom_transforms::{BEFORE_CODE, vjp};

/// The allowed difference by rounding: printed source calls functions of the standard library instead of ours, and sums
/// in another order.
const ROUNDING: Agreement = Agreement::Within { relative: 1e-10, absolute: 1e-13 };

/// The allowed difference by rounding in f32.
const SINGLE: Agreement = Agreement::Within { relative: 1e-4, absolute: 1e-5 };

/// Prints a function, with the arguments and results of a call.
fn case<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B>(
    name: &str,
    f: &Jit<A, B, F>,
    args: &impl Args<A>,
) -> SourceCase {
    let text = f.rust(args, name).unwrap();
    let mut leaves = TensorRefs::new();
    args.tensors(&mut leaves);
    let want = tree_leaves(&f.call(args).unwrap());
    let args = leaves.iter().map(|x| (**x).clone()).collect();
    SourceCase {
        name: name.to_owned(),
        text,
        args,
        want,
        agreement: ROUNDING,
        may_have_unused: false,
    }
}

fn numbers(shape: &[usize], scale: f64) -> Tensor {
    let n = shape.iter().product::<usize>();
    let all: Tensor = (0..n).map(|i| scale * ((i * 7919 % 211) as f64 / 105.0 - 1.0)).collect();
    all.reshape(shape).unwrap()
}

/// Returns a gradient of a mixture of Gaussians.
fn gmm() -> SourceCase {
    let (k, d) = (4, 3);
    let mixture = Mixture {
        alpha: numbers(&[k], 1.0),
        mu: numbers(&[k, d], 2.0),
        q: numbers(&[k, d], 0.3),
        l: numbers(&[k, d * (d - 1) / 2], 0.2),
    };
    let loss = |(p, x): (Mixture<Var>, Var)| gmm_objective(&p, x, 1.0, 0);
    let f = jit(move |(p, x): (Mixture<Var>, Var)| value_and_grad(move |p| loss((p, x)))(p));
    case("gmm", &f, &(mixture, numbers(&[37, d], 3.0)))
}

/// Returns programs with loops and branches, and their gradients.
fn control() -> Vec<SourceCase> {
    let far = |x: Var| {
        while_loop(|x: Var| x.square().sum().lt(1e4), |x: Var| x * 1.01 + x.exp(), x).sum()
    };
    // An inner loop of unknown length in an outer one: each loop saves its residuals on a dynamic tape.
    let nested = |x: Var| {
        let halve = |x: Var| {
            while_loop(|x: Var| x.abs().sum().gt(1.0), |x: Var| x * 0.5 + x.sin() * 0.1, x)
        };
        let again = |(n, x): (Var, Var)| (n - 1, halve(x * 3.0).exp());
        while_loop(|(n, _): (Var, Var)| n.gt(0), again, (full([], 4i64), x)).1.sum()
    };
    let heat = |x: Var| {
        let step = |(_, u): (Var, Var)| u + 0.1 * (u.roll(1, 0) - 2.0 * u + u.roll(-1, 0)).tanh();
        fori_loop(20, step, x).square().sum()
    };
    let horner = |(a, x): (Var, Var)| scan(|(y, a): (Var, Var)| (y * x + a, y), x * 0.0, a).0.sum();
    let sides = |x: Var| {
        let huber = |x: Var| cond(x.abs().lt(1.0), |x: Var| 0.5 * x * x, |x: Var| x.abs() - 0.5, x);
        let both = cond(x.sum().gt(0.0), |x: Var| x.sin(), |x: Var| x * 2.0, x);
        huber(x.index(0)) + huber(x.index(1)) + both.sum()
    };
    let outlined = |x: Var| {
        let f = outline(|x: Var| x.sin() * x.cumsum(0) + x.sum());
        f(f(x * 0.1)).sum()
    };
    vec![
        case("until_far", &jit(value_and_grad(far)), &Tensor::from([0.001, -3.0, 0.02])),
        case("nested", &jit(value_and_grad(nested)), &Tensor::from([0.3, -2.0, 0.7])),
        case("heat", &jit(value_and_grad(heat)), &numbers(&[30], 1.0)),
        case("horner", &jit(grad(horner)), &(numbers(&[6], 1.0), numbers(&[4], 0.5))),
        case("sides", &jit(value_and_grad(sides)), &Tensor::from([0.5, -2.0, 1.0])),
        case("other_sides", &jit(value_and_grad(sides)), &Tensor::from([-3.0, 0.25, 1.0])),
        case("outlined", &jit(value_and_grad(outlined)), &numbers(&[12], 1.0)),
    ]
}

/// Returns programs with products, movement, sums and sorts of arrays.
fn arrays() -> Vec<SourceCase> {
    let thin = jit(grad(|(a, x): (Var, Var)| a.dot(x).tanh().sum()));
    let filter =
        |(x, w): (Var, Var)| conv::conv(x, w, conv::Conv::new().same()).relu().square().sum();
    let table = numbers(&[11, 4], 1.0);
    let captured = jit(move |(x, i): (Var, Var)| {
        let row = constant(table.clone()).take(i, 0);
        (row * x).exp().sum_axis(1)
    });
    let counts = jit(grad(|(x, y): (Var, Var)| {
        let i = (y * 4.0).convert(Dtype::I64);
        let (sums, products) = (x.at(i).add(y * y), x.at(i).mul(y));
        (sums.sin() + products.take(i, 0).sum()).sum()
    }));
    let window = jit(value_and_grad(|(x, i): (Var, Var)| {
        let i = i.stop_gradient().convert(Dtype::I64);
        let part = x.dynamic_slice(&[i], [3]);
        (x.dynamic_update_slice(part * part, &[i + 1]) * x).sum()
    }));
    let sort = jit(|x: Var| (x.sort(0), x.argsort(0), x.sort_descending(1)));
    // An array of one element is printed as a number.
    let sort_of_one = jit(|x: Var| (x.argsort(0), x.sort(0)));
    let largest = jit(|x: Var| x.top_k(1));
    let sums = jit(value_and_grad(|x: Var| {
        let rows = x.max_axis(1) + x.min_axis(1) + x.prod_axis(1) + x.cumprod(1).mean_axis(1);
        rows.sum() + x.cumsum(0).square().mean() + x.argmax(1).convert(Dtype::F64).sum() + x.var()
    }));
    let ragged = numbers(&[7, 5], 1.0);
    let empty = jit(|(x, y): (Var, Var)| (x.sin(), x.sum(), y + 1.0));
    let same = jit(|(x, y): (Var, Var)| (y, x, y, ones([3], Dtype::I32)));
    vec![
        case("thin", &thin, &(numbers(&[40, 30], 0.1), numbers(&[30, 7], 1.0))),
        case("filter", &jit(grad(filter)), &(numbers(&[2, 3, 9], 1.0), numbers(&[4, 3, 3], 1.0))),
        case("captured", &captured, &(numbers(&[4], 1.0), Tensor::from([10i64, 0, 3, -1, 7, 300]))),
        case("counts", &counts, &(numbers(&[5], 1.0), numbers(&[9], 1.1))),
        case("window", &window, &(numbers(&[8], 1.0), 6.5)),
        case("sorts", &sort, &ragged),
        case("sort_of_one", &sort_of_one, &Tensor::from([3.0])),
        case("largest", &largest, &numbers(&[5], 1.0)),
        case("sums", &sums, &ragged),
        case("empty", &empty, &(Tensor::zeros(&[0, 3], Dtype::F64).unwrap(), 2.0)),
        case("same", &same, &(true, numbers(&[2], 1.0))),
    ]
}

/// Returns programs that call functions of numbers, in all dtypes.
fn functions() -> Vec<SourceCase> {
    let all = |x: Var| {
        let inside = x.tanh() * 0.9;
        let positive = x.square() + 0.1;
        vec![
            x.exp() + x.exp2() + x.exp_m1() + x.sigmoid() + x.softplus() + x.logaddexp(0.3),
            positive.ln()
                + positive.log2()
                + positive.log10()
                + positive.ln_1p()
                + positive.powf(1.5),
            positive.sqrt() + positive.rsqrt() + x.cbrt() + x.hypot(1.5) + positive.powf(0.3),
            x.sin() + x.cos() + x.tan() + inside.asin() + inside.acos() + x.atan() + x.atan2(0.7),
            inside.sinh()
                + inside.cosh()
                + x.tanh()
                + x.sech()
                + x.asinh()
                + (positive + 1.0).acosh(),
            inside.atanh() + x.erf() + inside.erf_inv() + x.powi(3) + positive.powi(-2),
            x.floor()
                + x.ceil()
                + x.round()
                + x.signum()
                + x.abs()
                + x.rem(0.7)
                + x.stop_gradient().next_after(2.0),
            x.maximum(0.25).minimum(x * x) + x.clamp(-0.5, 0.75) + x.is_finite().select(x, 0.0),
        ]
    };
    let both = move |x: Var| {
        let slopes = grad(move |x: Var| all(x).into_iter().fold(x * 0.0, |sum, y| sum + y).sum());
        (all(x), slopes(x))
    };
    let edges = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 1e300];
    let at_edges = jit(move |x: Var| (all(x), x.convert(Dtype::I64), x.convert(Dtype::U32)));
    let single = numbers(&[50], 3.0).to_vec::<f64>().unwrap();
    let single: Tensor = single.into_iter().map(|x| x as f32).collect();
    let integers = jit(|(a, b): (Var, Var)| {
        let remainders = (a / b, a % b, a / 3, a % -b.ones_like());
        (
            remainders,
            a * b,
            a.minimum(b),
            (a - b).abs(),
            a.gt(b),
            -a,
            a.signum(),
            a.powi(5),
            a & b,
            a << 3,
            a >> b,
        )
    });
    let ints = |k: i64| -> Tensor { (0..33).map(|i| (i - 16) * k % 7).collect() };
    let large = Tensor::from([i64::MIN, i64::MAX, -1, 0, 1, 1 << 62]);
    let masks = jit(|(mask, on, x): (Var, Var, Var)| {
        let both = (mask & x.gt(0.0)) | on;
        (select(mask, x.exp(), -x), both, mask, mask.convert(Dtype::F64).sum(), !on, both ^ mask)
    });
    let mask: Tensor = (0..101).map(|i| i % 3 == 0).collect();
    let noise = jit(|seed: Var| {
        let [first, second] = random::split(random::key(seed));
        let uniform = random::uniform(first, [5], Dtype::F64);
        (random::normal(second, [7], Dtype::F64), uniform, random::key(seed), uniform.gt(0.5))
    });
    let mut all = vec![
        case("functions", &jit(both), &numbers(&[50], 3.0)),
        case("edges", &at_edges, &Tensor::from(edges)),
        case("single", &jit(both), &single),
        case("integers", &integers, &(ints(3), ints(5))),
        case("large_integers", &integers, &(&large, large.clone())),
        case("masks", &masks, &(mask, true, numbers(&[101], 3.0))),
        case("noise", &noise, &7i64),
    ];
    all[2].agreement = SINGLE;
    // Regression: the memory of the result holds a value of the reverse pass before the result is written.
    let program = random_loops::Program::draw(729_660);
    let f = random_loops::gradient_under(&program, Policy::Everything);
    all.push(case("other_values_in_a_result", &f, &program.argument()));
    all
}

/// All functions of this file and random ones run in one program, because most of this test's time is spent in rustc.
#[test]
fn printed_programs_have_the_results_of_calls() {
    let written = [vec![gmm()], control(), arrays(), functions()];
    let cases: Vec<SourceCase> = written.into_iter().flatten().chain(random_sources()).collect();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len());
    if let Err(problem) = check(&cases) {
        panic!("{problem}");
    }
}

/// Prints a random program; `None` if Rust source cannot express it.
fn random_source(
    m: &mut Module,
    f: FuncId,
    name: String,
    args: &[Tensor],
) -> Result<Option<SourceCase>, Problem> {
    let f = BEFORE_CODE.observed(m, f, &mut |_| ())?;
    let paths = |of: &str, n: usize| (0..n).map(|i| format!("{of}.{i}")).collect::<Vec<_>>();
    let interface = Interface {
        arguments: paths("argument", args.len()),
        results: paths("result", m.function(f).results.len()),
        captured: &[],
        line: None,
    };
    let options = tapeloom_backend::Options::default();
    let text = match rust_source::text(m, f, &options, &interface, &name) {
        Err(problem) if problem.kind == Kind::Target => return Ok(None),
        text => text?,
    };
    let want = tapeloom_backend::compile(m, f, &options)?.call(&args.iter().collect::<Vec<_>>())?;
    let is_single = args.iter().chain(&want).any(|x| x.dtype() == Dtype::F32);
    let agreement = if is_single { SINGLE } else { ROUNDING };
    Ok(Some(SourceCase { name, text, args: args.to_vec(), want, agreement, may_have_unused: true }))
}

fn all_ones(ty: &ArrayType) -> Tensor {
    Tensor::full(&ty.shape, tapeloom_ir::Literal::one(ty.dtype)).unwrap()
}

/// Prints random programs and their gradients, and gradients of random programs with loops.
fn random_sources() -> Vec<SourceCase> {
    let (mut cases, mut tried) = (Vec::new(), 0);
    for seed in Sweep::RustSource.seeds() {
        let program = random_loops::Program::draw(seed);
        let f = random_loops::gradient_under(&program, Policy::Everything);
        let x = program.argument();
        if let (Ok(text), Ok((y, g))) = (f.rust(&x, &format!("loops_{seed}")), f.call(&x)) {
            let (name, agreement) = (format!("loops_{seed}"), Agreement::relative(1e-6));
            cases.push(SourceCase {
                name,
                text,
                args: vec![x],
                want: vec![y, g],
                agreement,
                may_have_unused: true,
            });
        }
        let mut m = Module::new();
        let recipe = Recipe::draw(seed);
        let Ok(case) = recipe.program(&mut m) else { continue };
        if recipe.wild {
            continue;
        }
        tried += 1;
        let name = |of: &str| format!("{of}_{seed}");
        cases.extend(random_source(&mut m, case.f, name("random"), &case.args).unwrap());
        let Ok(of) = vjp(&mut m, case.f, &case.floats()) else { continue };
        let results = m.function(case.f).result_types();
        let seeds = results.iter().zip(&of.active_out).filter(|(_, on)| **on);
        let seeds = seeds.filter_map(|(ty, _)| Some(all_ones(ty.as_array()?)));
        let args: Vec<Tensor> = case.args.iter().cloned().chain(seeds).collect();
        cases.extend(random_source(&mut m, of.function, name("gradient"), &args).unwrap());
    }
    assert!(cases.len() > tried, "{} programs of {tried}", cases.len());
    cases
}

/// Replaces the lines of this file in `text` by lines of a program whose first line is at `start`.
fn of_main(text: &str, start: u32) -> String {
    let mut parts = text.split("tests/tests/programs/rust_source.rs:");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        let (line, rest) = part.split_at(digits);
        let line: u32 = line.parse().unwrap();
        all += &format!("src/main.rs:{}{rest}", line - start);
    }
    all
}

/// The printed source of two derivatives must equal the recorded text.
#[test]
fn the_source_of_a_derivative_is_readable() {
    let start = line!();
    let loss = |(w, x, y): (Var, Var, Var)| {
        let p = x.dot(w).sigmoid();
        -(y * p.ln() + (1.0 - y) * (1.0 - p).ln()).mean()
    };
    let f = move |(w, x, y): (Var, Var, Var)| value_and_grad(move |w| loss((w, x, y)))(w);
    let until = |x: Var| while_loop(|x: Var| x.lt(10.0), |x: Var| x + x.sin().square() + 0.1, x);
    let (w, x, y) = (numbers(&[3], 0.0), numbers(&[40, 3], 0.0), numbers(&[40], 0.0));
    let text = format!(
        "{}\n{}",
        jit(f).rust((w, x, y), "logistic").unwrap(),
        jit(value_and_grad(until)).rust(0.0, "until").unwrap()
    );
    let text = of_main(&text, start);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/rust_source.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, text).unwrap();
    } else {
        assert_eq!(text, std::fs::read_to_string(file).unwrap());
    }
}

/// The source of the derivative in the book's tutorial must be the printed one.
#[test]
fn the_tutorial_shows_printed_source() {
    let start = line!() - 2;
    let text = jit(grad(|x: Var| (x * x.sin()).sum())).rust([0.0; 3], "slope").unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/tour.md");
    let chapter = std::fs::read_to_string(file).unwrap();
    let text = of_main(&text, start);
    assert!(chapter.contains(&format!("```rust\n{text}```\n")), "{text}");
}

#[track_caller]
fn refused(result: Result<String, tapeloom::Error>, says: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
    let text = error.to_string();
    assert!(text.contains(says) && text.contains("rust_source.rs:"), "{text}");
}

#[test]
fn what_cannot_be_printed_is_an_error_with_its_line() {
    let printed = |x: Var| {
        debug_print("x", x);
        x + 1.0
    };
    refused(jit(printed).rust(1.0, "f"), "cannot call the Rust function");
    let a = Tensor::full(&[40, 40], 0.5).unwrap();
    let cholesky = |a: Var| linalg::cholesky(a + 20.0 * eye(40, Dtype::F64));
    refused(jit(cholesky).rust(&a, "f"), "cannot call the library routine `cholesky`");
    let line = line!() + 1;
    let gamma = |x: Var| x.exp() * x.lgamma();
    let text = jit(gamma).rust([1.0, 2.0], "f").unwrap_err().to_string();
    assert!(text.contains("has no function `lgamma`"), "{text}");
    assert!(text.contains(&format!("rust_source.rs:{line}:")), "{text}");
    let halved = || jit(|x: Var| while_loop(|x: Var| x.gt(1.0), |x| x / 2, x));
    refused(halved().max_steps(9).rust(4.0, "f"), "has no limit on the iterations");
    refused(halved().cancelled_by(&Cancel::new()).rust(4.0, "f"), "cannot be cancelled");
    refused(halved().nan_check().rust(4.0, "f"), "does not look for values that stop being finite");
    for name in ["two words", "fn", "2x", ""] {
        refused(halved().rust(4.0, name), "is no name of a function in Rust");
    }
}

/// Lists the functions that cannot be printed. A new function must be added to `rust_source/library_functions.rs`, or
/// to this list.
#[test]
fn functions_without_a_form_in_rust_are_listed() {
    let all = library_functions();
    let missing = all.iter().filter(|library| !rust_source::is_printable(library));
    // The numbers in a name such as `betainc_0_1` are orders of derivatives, so functions that differ in them belong to
    // one family.
    let family = |mut name: &'static str| {
        while let Some((head, "0" | "1" | "2" | "3" | "4")) = name.rsplit_once('_') {
            name = head;
        }
        name
    };
    let families: BTreeSet<&str> = missing.map(|library| family(library.name)).collect();
    let listed = "bessel_i bessel_j bessel_y beta_density betainc dawsn digamma erfc_inv erfcx expi expn gamma_density \
                  gammainc gammaincc hyp1f1 i0e i1e lgamma polygamma spence zeta";
    assert_eq!(families, listed.split(' ').collect());
}
