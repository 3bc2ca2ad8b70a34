//! Objects: C programs call functions that were compiled to objects, and get the bits of machine code in memory.
//!
//! Skipped with a message where there is no C compiler. `BLESS=1 cargo test -p tapeloom-tests --test programs objects::`
//! writes the list of undefined symbols.

use super::object_rows;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use tapeloom::files::Arrays;
use tapeloom::object::{Isa, Object, Options};
use tapeloom::prelude::*;
use tapeloom::tree::{Args, TensorRefs};
use tapeloom::{ArrayType, Jit, Kind, Tree};
use tapeloom_backend::object::{self, Interface};
use tapeloom_ir::{FuncId, Module, Problem};
use tapeloom_tests::gradbench::{Mixture, gmm_objective};
use tapeloom_tests::objects::{ObjectCase, Scratch, Toolchain, check, runtime, skipped};
use tapeloom_tests::program_generator::Recipe;

use tapeloom_tests::{Agreement, Sweep, library_functions};
use tapeloom_transforms::{BEFORE_CODE, vjp};

/// A target for which objects are made: the triple and the instruction set.
#[derive(Clone, Copy)]
pub(super) struct Machine {
    triple: &'static str,
    isa: Isa,
}

#[cfg(feature = "cross")]
const AARCH64: Machine = Machine { triple: "aarch64-unknown-linux-gnu", isa: Isa::Baseline };

impl Machine {
    pub(super) const fn x86(isa: Isa) -> Machine {
        Machine { triple: "x86_64-unknown-linux-gnu", isa }
    }

    /// Returns the targets whose code can run on this machine, from the baseline on.
    pub(super) fn here() -> Vec<Machine> {
        let sets = Isa::ALL.into_iter().filter(|isa| *isa <= Isa::of_machine());
        sets.map(Machine::x86).collect()
    }

    /// Returns the options of an object named `name`, with the machine's name at its end.
    pub(super) fn options(self, name: &str) -> Options {
        let Machine { triple, isa } = self;
        let of = if triple.starts_with("aarch64") { "aarch64" } else { isa.name() };
        Options { name: format!("{name}_{of}"), triple: triple.parse().unwrap(), isa }
    }
}

/// Returns the object of a function, with the arguments and results of a call.
fn case<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B>(
    name: &str,
    machine: Machine,
    f: &Jit<A, B, F>,
    args: &impl Args<A>,
) -> ObjectCase {
    let object = f.object(args, machine.options(name)).unwrap();
    let mut leaves = TensorRefs::new();
    args.tensors(&mut leaves);
    let want = tree_leaves(&f.call(args).unwrap());
    ObjectCase { object, args: leaves.iter().map(|x| (**x).clone()).collect(), want }
}

pub(super) fn numbers(shape: &[usize], scale: f64) -> Tensor {
    let n = shape.iter().product::<usize>();
    let all: Tensor = (0..n).map(|i| scale * ((i * 7919 % 211) as f64 / 105.0 - 1.0)).collect();
    all.reshape(shape).unwrap()
}

pub(super) fn mixture() -> (Mixture<Tensor>, Tensor) {
    let (k, d) = (4, 3);
    let mixture = Mixture {
        alpha: numbers(&[k], 1.0),
        mu: numbers(&[k, d], 2.0),
        q: numbers(&[k, d], 0.3),
        l: numbers(&[k, d * (d - 1) / 2], 0.2),
    };
    (mixture, numbers(&[37, d], 3.0))
}

/// The gradient of a mixture of Gaussians, which captures a tensor of positions.
fn gmm(machine: Machine) -> ObjectCase {
    let loss = |(p, x): (Mixture<Var>, Var)| gmm_objective(&p, x, 1.0, 0);
    let f = jit(move |(p, x): (Mixture<Var>, Var)| value_and_grad(move |p| loss((p, x)))(p));
    case("gmm", machine, &f, &mixture())
}

/// The gradient of a loop whose trip count only the run knows: its residuals are on a tape.
fn until_far(machine: Machine) -> ObjectCase {
    let far = |x: Var| {
        while_loop(|x: Var| x.square().sum().lt(1e4), |x: Var| x * 1.01 + x.exp(), x).sum()
    };
    let f = jit(value_and_grad(far));
    case("until_far", machine, &f, &Tensor::from([0.001, -3.0, 0.02]))
}

/// The loss of a fit of damped oscillations, with functions that most programs call: sine, exponential and power.
fn waves(x: Var) -> Var {
    let wave = |x: Var, n: f64| (x * n).sin() * (-0.1 * x.abs()).exp() + x.abs().powf(1.3);
    (wave(x, 1.0) + wave(x.cos(), 3.0)).square().sum()
}

/// Programs that call functions of the library that objects link: decompositions, Fourier transforms, special functions.
fn with_runtime(machine: Machine) -> Vec<ObjectCase> {
    // Distances between eigenvalues, and between singular values, decide how precisely their vectors are determined. So
    // make them large.
    let ramp: Tensor = (0..40).map(|i| 50.0 + 5.0 * f64::from(i)).collect();
    let spread = move |a: Var| a + eye(40, Dtype::F64) * constant(ramp.clone());
    let with_vectors = spread.clone();
    let definite = move |a: Var| spread(0.5 * (a + a.t()));
    let log_determinant = move |a: Var| linalg::cholesky(definite(a)).diagonal().ln().sum();
    let several = move |(a, b): (Var, Var)| {
        let a = with_vectors(a);
        (linalg::solve(a, b), linalg::eigh(0.5 * (a + a.t())), linalg::svd(a), fft::rfft(b, 0))
    };
    let special = |x: Var| {
        let gamma =
            (x.lgamma(), x.digamma(), x.polygamma(2), x.gammainc(x + 1.0), x.next_after(0.0));
        // Code for the orders 0 and 1 of a Bessel function is part of the object; functions of other orders, such as 3,
        // are in the linked library.
        let bessel = (x.i0(), x.bessel_jn(2), x.bessel_yn(1), x.i0e(), x.dawsn());
        (gamma, bessel)
    };
    let density = |(a, x): (Var, Var)| a.betainc(2.0 * a, x).sum() + a.lgamma().sum();
    let (a, b) = (numbers(&[40, 40], 1.0), numbers(&[40, 3], 1.0));
    let positive: Vec<f64> =
        vec![1e-300, 0.2, 1.0, 1.5, 2.0, 3.7, 12.5, 80.0, 170.0, 1e5, f64::INFINITY, f64::NAN];
    let single: Vec<f32> = positive.iter().map(|x| *x as f32).collect();
    let (shapes, x) = (Tensor::from([0.5, 1.0, 3.0]), Tensor::from([0.1, 0.5, 0.95]));
    vec![
        in_order("log_determinant", machine, value_and_grad(log_determinant), &a),
        in_order("several", machine, several, &(a.clone(), b)),
        in_order("special", machine, special, &Tensor::from(positive)),
        in_order("special_f32", machine, special, &Tensor::from(single)),
        in_order("density", machine, value_and_grad(density), &(shapes, x)),
    ]
}

/// Returns the object of a function with the results of the interpreter of the loop IR, which adds the terms of
/// products in the same order as an object.
fn in_order<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B>(
    name: &str,
    machine: Machine,
    f: F,
    args: &impl Args<A>,
) -> ObjectCase {
    let case = case(name, machine, &jit(&f), args);
    let exact = tree_leaves(&jit(&f).on(tapeloom::Target::Interpreter).call(args).unwrap());
    Agreement::CLOSE.check_all(&exact, &case.want).unwrap();
    ObjectCase { want: exact, ..case }
}

#[test]
fn calls_of_the_runtime_have_the_same_bits() {
    let Some(toolchain) = Toolchain::here() else { return };
    let cases: Vec<ObjectCase> = Machine::here().into_iter().flat_map(with_runtime).collect();
    assert!(cases.iter().all(|case| case.object.needs_runtime()));
    let status = format!("TAPELOOM_ROUTINE = {} ", tapeloom_runtime::routines::FAILED);
    assert!(cases.iter().all(|case| case.object.header().contains(&status)), "{status}");
    check(&toolchain, &cases).unwrap();
}

/// A text that describes no routine, or a routine that is too large, must not be prepared. The status of a call tells
/// its caller so.
#[test]
fn wrong_descriptions_of_routines_are_not_prepared() {
    use tapeloom_runtime::routines::Prepared;
    assert!(Prepared::new("cholesky{n=9} f64 members 2 scratch 640").is_some());
    for text in [
        "",
        "}",
        "cholesky",
        "cholesky{n=9}",
        "cholesky{n=9} f64 members 2",
        "cholesky{n=9} i32 members 2 scratch 640",
        "cholesky{n=nine} f64 members 2 scratch 640",
        "cholesky{m=9} f64 members 2 scratch 640",
        "choleski{n=9} f64 members 2 scratch 640",
        "cholesky{n=99999999999} f64 members 2 scratch 640",
        "cholesky{n=9} f64 members -2 scratch 640",
        "cholesky{n=9} f64 members 2 scratch 640 more",
    ] {
        assert!(Prepared::new(text).is_none(), "{text}");
    }
}

/// The library `tapeloom-runtime` must contain every function that objects call and do not contain.
#[test]
fn the_runtime_has_every_other_function() {
    let (mut recorded, mut others) = (BTreeSet::new(), BTreeSet::new());
    for library in library_functions() {
        let list = if library.whole().is_some() { &mut recorded } else { &mut others };
        list.insert(library.name);
    }
    assert!(recorded.len() >= 40, "{recorded:?}");
    let names: BTreeSet<&str> = tapeloom_runtime::functions::NAMES.iter().copied().collect();
    let missing: Vec<_> = others.difference(&names).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // Names for other orders of a known function than the programs use are not unused.
    let known = |name: &str| {
        let family = name.split('_').next().unwrap();
        recorded.contains(name) || others.contains(family)
    };
    let unused: Vec<_> = names.difference(&others).filter(|name| !known(name)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

/// Returns the objects of the programs above and of more programs, for one machine.
fn all(machine: Machine) -> Vec<ObjectCase> {
    let table = numbers(&[11, 4], 1.0);
    let other = numbers(&[11, 4], 0.5);
    let captured = jit(move |(x, i): (Var, Var)| {
        let row = |table: &Tensor| constant(table.clone()).take(i, 0);
        (row(&table) * x).exp().sum_axis(1) + row(&other).sum_axis(1)
    });
    let indices = Tensor::from([10i64, 0, 3, -1, 7, 300]);
    let masks = jit(|(mask, on, x): (Var, Var, Var)| {
        let both = (mask & x.gt(0.0)) | on;
        (select(mask, x.exp(), -x), both, mask, mask.convert(Dtype::F64).sum(), !on)
    });
    let mask: Tensor = (0..101).map(|i| i % 3 == 0).collect();
    let single = jit(value_and_grad(|x: Var| {
        (x.exp() + x.square().ln() + x.tanh() * x.sigmoid() + x.softplus().sqrt()).sum()
    }));
    let wild = (0..60).map(|i| 7.3 * (i - 30) as f32).collect::<Tensor>();
    let integers =
        jit(|(a, b): (Var, Var)| (a / b, a % b, a * b, a.minimum(b), (a - b).abs(), a.gt(b)));
    let ints = |k: i64| -> Tensor { (0..33).map(|i| (i - 16) * k % 7).collect() };
    let many = jit(|xs: Vec<Var>| {
        let sum = xs.iter().skip(1).fold(xs[0], |sum, x| sum * 0.5 + *x);
        let each: Vec<Var> = xs.iter().map(|x| x * sum).collect();
        each
    });
    let inputs: Vec<Tensor> = (0..70).map(|i| Tensor::from(0.1 * f64::from(i) - 3.0)).collect();
    let empty = jit(|(x, y): (Var, Var)| (x.sin(), x.sum(), y + 1.0));
    // Call every function that has separate code for usual and for other arguments, in both dtypes, at both kinds of
    // arguments.
    let functions = |x: Var| {
        let trigonometric = (x.sin(), x.cos(), x.tan(), x.atan2(1.0 - x), x.hypot(2.0 * x));
        let hyperbolic = (x.sinh(), x.asinh(), x.acosh(), x.atanh(), x.cbrt());
        let powers = (x.pow(x), x.powf(1.7), x.powf(1.5), x.powf(-0.5), x.logaddexp(1.0));
        let tails = (x.erfc(), x.ndtr(), x.erf_inv(), x.i0(), x.i1e());
        ((trigonometric, hyperbolic), (powers, tails))
    };
    let far: Vec<f64> = vec![
        0.0,
        -0.0,
        5e-324,
        1e-310,
        0.3,
        -0.7,
        1.0,
        -1.0,
        2.0,
        -3.0,
        12.5,
        27.0,
        -38.2,
        700.0,
        -720.0,
        1e5,
        2e6,
        -1e22,
        1e155,
        -3e160,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let far_f32: Vec<f32> = far.iter().map(|x| *x as f32).collect();
    let sort = jit(|x: Var| (x.sort(0), x.argsort(0)));
    let thin = jit(grad(|(a, x): (Var, Var)| a.dot(x).tanh().sum()));
    let long = jit(value_and_grad(|x: Var| (x.exp() * x).sum()));
    let padded = jit(grad(|x: Var| x.index((0, 1)) * 3.0));
    vec![
        gmm(machine),
        until_far(machine),
        case("captured", machine, &captured, &(numbers(&[4], 1.0), indices)),
        case("masks", machine, &masks, &(mask, true, numbers(&[101], 3.0))),
        case("single", machine, &single, &wild),
        case("integers", machine, &integers, &(ints(3), ints(5))),
        case("many", machine, &many, &inputs),
        case("functions", machine, &jit(functions), &Tensor::from(far)),
        case("functions_f32", machine, &jit(functions), &Tensor::from(far_f32)),
        case("waves", machine, &jit(value_and_grad(waves)), &numbers(&[200], 30.0)),
        case("empty", machine, &empty, &(Tensor::zeros(&[0, 3], Dtype::F64).unwrap(), 2.0)),
        case("sorts", machine, &sort, &numbers(&[100], 1.0)),
        case("thin", machine, &thin, &(numbers(&[40, 30], 0.1), numbers(&[30], 1.0))),
        case("long", machine, &long, &numbers(&[100_000], 1.0)),
        case("padded", machine, &padded, &numbers(&[50, 60], 1.0)),
    ]
}

#[test]
fn c_programs_get_the_same_bits() {
    let Some(toolchain) = Toolchain::here() else { return };
    let cases: Vec<ObjectCase> = Machine::here().into_iter().flat_map(all).collect();
    check(&toolchain, &cases).unwrap();
}

/// Machine code in memory multiplies matrices by the matrix library, which adds the terms of a product in another order
/// than objects. So products agree to rounding.
#[test]
fn products_are_equal_to_rounding() {
    let Some(toolchain) = Toolchain::here() else { return };
    let product = jit(|(a, b): (Var, Var)| a.dot(b));
    let (a, b) = (numbers(&[30, 40], 1.0), numbers(&[40, 50], 1.0));
    let ObjectCase { object, args, want } = case("product", Machine::here()[0], &product, &(a, b));
    let interpreted = jit(|(a, b): (Var, Var)| a.dot(b)).on(tapeloom::Target::Interpreter);
    let exact = vec![interpreted.call((&args[0], &args[1])).unwrap()];
    Agreement::CLOSE.check_all(&exact, &want).unwrap();
    // The compiled object and the loop IR interpreter add the terms in the same order, so their bits must agree.
    check(&toolchain, &[ObjectCase { object, args, want: exact }]).unwrap();
}

/// Returns an array of ones.
fn ones(ty: &ArrayType) -> Tensor {
    Tensor::full(&ty.shape, tapeloom_ir::Literal::one(ty.dtype)).unwrap()
}

/// Compiles a random program to an object; `None` if an object cannot contain it.
fn random_object(
    m: &mut Module,
    f: FuncId,
    options: &Options,
    args: &[Tensor],
) -> Result<Option<ObjectCase>, Problem> {
    let f = BEFORE_CODE.observed(m, f, &mut |_| ())?;
    let function = m.function(f);
    let names = |of: &str, n: usize| (0..n).map(|i| format!("{of}{i}")).collect::<Vec<_>>();
    let interface = Interface {
        arguments: names("x", args.len()),
        results: names("y", function.results.len()),
        captured: &[],
    };
    let code = tapeloom_backend::Options::default();
    let object = match object::compile(m, f, &code, &interface, options) {
        Err(problem) if problem.kind == Kind::Target => return Ok(None),
        object => object?,
    };
    let compiled = tapeloom_backend::compile(m, f, &code)?;
    // Products by the matrix library are summed in another order than in objects, so skip programs with them.
    if compiled
        .report()
        .program
        .to_string()
        .lines()
        .any(|l| l.contains("contract") && !l.contains("lanes"))
    {
        return Ok(None);
    }
    let want = compiled.call(&args.iter().collect::<Vec<_>>())?;
    Ok(Some(ObjectCase { object, args: args.to_vec(), want }))
}

/// Returns the objects of random programs and their gradients, for these machines in turn.
fn random_objects(machines: &[Machine]) -> Vec<ObjectCase> {
    let (mut cases, mut tried) = (Vec::new(), 0);
    for seed in Sweep::Objects.seeds() {
        let mut m = Module::new();
        let Ok(case) = Recipe::draw(seed).program(&mut m) else { continue };
        tried += 1;
        let options = |n: usize| machines[n % machines.len()].options(&format!("random_{n}"));
        cases.extend(random_object(&mut m, case.f, &options(cases.len()), &case.args).unwrap());
        let Ok(of) = vjp(&mut m, case.f, &case.floats()) else { continue };
        let results = m.function(case.f).result_types();
        let seeds = results.iter().zip(&of.active_out).filter(|(_, on)| **on);
        let seeds = seeds.filter_map(|(ty, _)| Some(ones(ty.as_array()?)));
        let args: Vec<Tensor> = case.args.iter().cloned().chain(seeds).collect();
        cases.extend(random_object(&mut m, of.function, &options(cases.len()), &args).unwrap());
    }
    assert!(cases.len() * 3 > tried * 2, "{} objects of {tried} programs", cases.len());
    cases
}

#[test]
fn random_programs_have_the_same_bits() {
    let Some(toolchain) = Toolchain::here() else { return };
    let cases = random_objects(&Machine::here());
    if let Err(problem) = check(&toolchain, &cases) {
        panic!("{problem}");
    }
}

/// Objects for aarch64 that link with nothing, in an emulator: the same bits as on x86-64. With the feature `cross`:
/// `cargo test -p tapeloom-tests --features cross --test programs objects::`.
#[cfg(feature = "cross")]
#[test]
fn another_machine_computes_the_same_bits() {
    let compiler = ["aarch64-linux-gnu-gcc", "-std=c11", "-O1", "-Wall", "-static"];
    let Some(toolchain) = Toolchain::of(&compiler, &[], &["qemu-aarch64"]) else { return };
    let mut cases = all(AARCH64);
    cases.extend(random_objects(&[AARCH64]));
    cases.extend(object_rows::each(AARCH64, |rows| rows));
    cases.retain(|case| case.object.undefined().is_empty());
    assert!(cases.len() >= 50, "{} objects", cases.len());
    if let Err(problem) = check(&toolchain, &cases) {
        panic!("{problem}");
    }
}

/// Objects for the baseline of x86-64 on an emulated processor without AVX.
#[test]
fn the_baseline_runs_on_a_machine_without_avx() {
    let compiler = ["cc", "-std=c11", "-O1", "-Wall", "-static"];
    let emulator = ["qemu-x86_64", "-cpu", "core2duo"];
    let Some(toolchain) = Toolchain::of(&compiler, &["-lm"], &emulator) else { return };
    if cfg!(target_arch = "x86_64") {
        check(&toolchain, &all(Machine::x86(Isa::Baseline))).unwrap();
    }
}

/// Returns the body of the first code block with the info string `fence`, in this section of the book's chapter.
pub(super) fn block(section: &str, fence: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/shipping.md");
    let text = std::fs::read_to_string(file).unwrap();
    let (_, rest) = text.split_once(&format!("\n## {section}\n")).unwrap();
    let (_, rest) = rest.split_once(&format!("```{fence}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Compiles a Rust program with objects to link, runs it, and returns its output.
pub(super) fn run_rust(folder: &Path, objects: &[String]) -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition=2024", "-lm", "-o", "ours", "main.rs"]).current_dir(folder);
    command.args(objects.iter().map(|object| format!("-Clink-arg={object}")));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    succeeds(Command::new(folder.join("ours")).env_remove("LD_LIBRARY_PATH"))
}

/// Runs a command and returns its output; fails if the command fails.
pub(super) fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The C, Rust and Python programs of the chapter *Shipping a gradient*, with the object of its first program.
#[test]
fn the_program_of_the_book_prints_what_the_page_says() {
    let Some(_) = Toolchain::here() else { return };
    let loss = |w: Var, x: Var, y: Var| {
        let p = x.dot(w).sigmoid();
        -(y * p.ln() + (1.0 - y) * (1.0 - p).ln()).mean()
    };
    let f = jit(move |(w, x, y): (Var, Var, Var)| value_and_grad(move |w| loss(w, x, y))(w));
    let zeros = |shape: &[usize]| Tensor::zeros(shape, Dtype::F64).unwrap();
    let folder = Scratch::new().unwrap();
    let object = f.object(&(zeros(&[2]), zeros(&[4, 2]), zeros(&[4])), "logistic").unwrap();
    object.save(folder.path()).unwrap();
    let (c, others) = ("A C program that calls it", "From Python and from Rust");
    std::fs::write(folder.path().join("main.c"), block(c, "c")).unwrap();
    let text = block(c, "text");
    let built = ["-c", &block(c, "sh")];
    assert_eq!(succeeds(Command::new("sh").args(built).current_dir(folder.path())), text);

    std::fs::write(folder.path().join("main.rs"), block(others, "rust,ignore")).unwrap();
    assert_eq!(run_rust(folder.path(), &["logistic.o".into()]), text);

    if has_numpy() {
        let script = ["-c", &block(others, "python")];
        assert_eq!(succeeds(Command::new("python3").args(script).current_dir(folder.path())), text);
    }
}

/// Returns whether Python has numpy; prints a message if not.
pub(super) fn has_numpy() -> bool {
    let numpy = Command::new("python3").args(["-c", "import numpy"]).output();
    let found = numpy.is_ok_and(|output| output.status.success());
    if !found {
        skipped("python3 has no numpy");
    }
    found
}

/// A Python function that compares arrays bit by bit, except for the bits of nan.
pub(super) const SAME: &str = r#"
import importlib, sys
import numpy as np

def bits(x):
    x = np.array(x)
    if x.dtype.kind == "f":
        x[np.isnan(x)] = np.nan
    return x.tobytes()

def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape, (got, want)
    assert bits(got) == bits(want), (got, want)
"#;

/// Calls objects from Python, with numpy, and compares the results in every bit.
const PYTHON: &str = r#"
for name in sys.argv[1:]:
    f = getattr(importlib.import_module(name), name)
    of = np.load(name + ".npz")
    args = [of[f"a{i}"] for i in range(len(of.files)) if f"a{i}" in of]
    want = [of[f"r{i}"] for i in range(len(of.files)) if f"r{i}" in of]
    for _ in range(2):
        got = f(*args)
        got = got if isinstance(got, tuple) else (got,)
        assert len(got) == len(want)
        list(map(same, got, want))
    out = tuple(np.empty_like(x) for x in want)
    f(*args, out=out)
    list(map(same, out, want))
    wide = [np.repeat(x[..., None], 2, -1)[..., 0] for x in args]
    list(map(same, f(*wide) if len(want) > 1 else (f(*wide),), want))
    for wrong in [args[:-1], [args[0][None]] + args[1:], [args[0].astype(np.int8)] + args[1:]]:
        try:
            f(*wrong)
        except TypeError as e:
            assert len(wrong) < len(args) or "`argument" in str(e), e
        else:
            raise AssertionError("a wrong argument")
"#;

#[test]
fn python_programs_get_the_same_bits() {
    let Some(_) = Toolchain::here() else { return };
    if !has_numpy() {
        return;
    }
    let folder = Scratch::new().unwrap();
    let mut names = Vec::new();
    for ObjectCase { object, args, want } in all(Machine::here()[0]) {
        let name = object.name().to_owned();
        object.save(folder.path()).unwrap();
        let link = format!("cc -shared -o lib{name}.so {name}.o -lm");
        let linked = Command::new("sh").args(["-c", &link]).current_dir(folder.path()).status();
        assert!(linked.unwrap().success(), "{link}");
        let mut all = Arrays::new();
        for (of, tensors) in [("a", args), ("r", want)] {
            for (i, x) in tensors.into_iter().enumerate() {
                all.insert(format!("{of}{i}"), x);
            }
        }
        all.save_npz(folder.path().join(format!("{name}.npz"))).unwrap();
        names.push(name);
    }
    let mut command = Command::new("python3");
    succeeds(
        command.args(["-c", &format!("{SAME}{PYTHON}")]).args(names).current_dir(folder.path()),
    );
}

/// A Rust program that does not depend on this library gets the same bits, through the safe functions of the modules.
#[test]
fn rust_programs_get_the_same_bits() {
    let Some(_) = Toolchain::here() else { return };
    let folder = Scratch::new().unwrap();
    let machine = Machine::here()[0];
    let (mut modules, mut calls, mut objects) = (String::new(), String::new(), Vec::new());
    let mut want = String::new();
    for case in [gmm(machine), until_far(machine)] {
        let ObjectCase { object, args, want: results } = case;
        object.save(folder.path()).unwrap();
        let name = object.name();
        objects.push(format!("{name}.o"));
        modules += &format!("mod {name};\n");
        calls += &format!("    let mut w = {name}::Workspace::new();\n    for _ in 0..2 {{\n");
        let bits = |x: &Tensor| {
            x.to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        let mut all = String::new();
        for (i, x) in args.iter().enumerate() {
            calls += &format!("        let a{i} = {:?}.map(f64::from_bits);\n", bits(x));
            all += &format!("&a{i}, ");
        }
        for (i, y) in results.iter().enumerate() {
            calls += &format!("        let mut r{i} = [7.0; {}];\n", y.elements());
            all += &format!("&mut r{i}, ");
        }
        calls += &format!("        {name}::{name}({all}&mut w).unwrap();\n");
        for i in 0..results.len() {
            calls += &format!("        println!(\"{{:?}}\", r{i}.map(f64::to_bits));\n");
        }
        calls += "    }\n";
        let lines: String = results.iter().map(|y| format!("{:?}\n", bits(y))).collect();
        want += &lines.repeat(2);
    }
    let text = format!("#![deny(warnings)]\n{modules}\nfn main() {{\n{calls}}}\n");
    std::fs::write(folder.path().join("main.rs"), text).unwrap();
    assert_eq!(run_rust(folder.path(), &objects), want);
}

/// Threads that call an object at the same time for the first time prepare its routines once and get the same bits. The
/// program is in Rust, and links the library behind the object.
#[test]
fn threads_of_a_rust_program_share_routines() {
    let Some(_) = Toolchain::here() else { return };
    let cases = &with_runtime(Machine::here()[0])[..1];
    let ObjectCase { object, args, want } = &cases[0];
    let folder = Scratch::new().unwrap();
    object.save(folder.path()).unwrap();
    let bits = |x: &Tensor| -> Vec<u64> {
        x.to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect()
    };
    let text = format!(
        "mod {name};
use std::sync::Barrier;
const X: [u64; 1600] = {:?};
const WANT: [u64; 1601] = {:?};

fn main() {{
    let start = Barrier::new(8);
    std::thread::scope(|scope| {{
        for _ in 0..8 {{
            scope.spawn(|| {{
                let (mut value, mut gradient) = ([7.0], [7.0; 1600]);
                let mut workspace = {name}::Workspace::new();
                let x = X.map(f64::from_bits);
                start.wait();
                for _ in 0..3 {{
                    {name}::{name}(&x, &mut value, &mut gradient, &mut workspace).unwrap();
                    let got = value.iter().chain(&gradient).map(|x| x.to_bits());
                    assert!(got.eq(WANT));
                }}
            }});
        }}
    }});
}}
",
        bits(&args[0]),
        want.iter().flat_map(bits).collect::<Vec<_>>(),
        name = object.name(),
    );
    std::fs::write(folder.path().join("main.rs"), text).unwrap();
    let mut linked = vec![format!("{}.o", object.name())];
    linked.extend(runtime(cases).unwrap());
    run_rust(folder.path(), &linked);
    for _ in 0..20 {
        succeeds(&mut Command::new(folder.path().join("ours")));
    }
}

/// If a routine fails because the linked library lacks it, the call of the object's function must return the status of
/// the routine.
#[test]
fn the_status_of_a_routine_is_that_of_the_call() {
    let Some(_) = Toolchain::here() else { return };
    let ObjectCase { object, .. } = with_runtime(Machine::here()[0]).swap_remove(0);
    let folder = Scratch::new().unwrap();
    object.save(folder.path()).unwrap();
    let name = object.name();
    let routine = object.undefined().iter().find(|symbol| symbol.ends_with("_routine")).unwrap();
    let text = format!(
        "mod {name};

#[unsafe(no_mangle)]
extern \"C\" fn {routine}() -> i32 {{
    5
}}

fn main() {{
    let (mut value, mut gradient) = ([7.0], [7.0; 1600]);
    let mut workspace = {name}::Workspace::new();
    let status = {name}::{name}(&[1.0; 1600], &mut value, &mut gradient, &mut workspace);
    println!(\"{{status:?}}\");
}}
"
    );
    std::fs::write(folder.path().join("main.rs"), text).unwrap();
    assert_eq!(run_rust(folder.path(), &[format!("{name}.o")]), "Err(Failed(5))\n");
}

/// Returns the undefined symbols of an object, by the command `nm`; `None` without that command.
fn undefined(object: &Object) -> Option<Vec<String>> {
    let folder = Scratch::new().unwrap();
    object.save(folder.path()).unwrap();
    let file = folder.path().join(format!("{}.o", object.name()));
    let output = Command::new("nm").arg("--undefined-only").arg(file).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.retain(|name| name != "_GLOBAL_OFFSET_TABLE_");
    names.sort_unstable();
    Some(names)
}

/// The list `data/object_symbols.txt` has the undefined symbols of each object above. Objects without any are linked
/// with nothing.
#[test]
fn undefined_symbols_are_listed() {
    let mut list = BTreeMap::new();
    for machine in Isa::ALL.map(Machine::x86) {
        let rows = object_rows::each(machine, |n| &n[..1]);
        for ObjectCase { object, .. } in
            all(machine).into_iter().chain(with_runtime(machine)).chain(rows)
        {
            match undefined(&object) {
                Some(names) => assert_eq!(names, object.undefined(), "{}", object.name()),
                None => skipped("there is no command `nm`"),
            }
            list.insert(object.name().to_owned(), object.undefined().join(" "));
        }
    }
    let list: String = list.iter().map(|(name, symbols)| format!("{name}: {symbols}\n")).collect();
    let list = list.replace(": \n", ":\n");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/object_symbols.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, list).unwrap();
    } else {
        assert_eq!(list, std::fs::read_to_string(file).unwrap());
    }
}

#[track_caller]
fn refused(result: Result<Object, tapeloom::Error>, says: &str) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
    let text = error.to_string();
    assert!(text.contains(says) && text.contains("objects.rs:"), "{text}");
    text
}

#[test]
fn what_cannot_be_shipped_is_an_error_with_its_line() {
    let printed = |x: Var| {
        debug_print("x", x);
        x + 1.0
    };
    let text = refused(jit(printed).object(1.0, "f"), "cannot call the Rust function");
    assert!(text.contains("part of this process"), "{text}");
    let halved = || jit(|x: Var| while_loop(|x: Var| x.gt(1.0), |x| x / 2, x));
    refused(halved().max_steps(9).object(4.0, "f"), "has no limit on the iterations");
    refused(halved().cancelled_by(&Cancel::new()).object(4.0, "f"), "cannot be cancelled");
    refused(halved().interpreted().object(4.0, "f"), "runs on another engine");
    refused(halved().object(4.0, "two words"), "`two words` is no name of a function in C");
    let triple =
        |text: &str, isa| Options { triple: text.parse().unwrap(), isa, ..Options::new("f") };
    let baseline = Isa::Baseline;
    refused(
        halved().object(4.0, triple("x86_64-pc-windows-msvc", baseline)),
        "not of the format ELF",
    );
    refused(
        halved().object(4.0, triple("riscv64gc-unknown-linux-gnu", baseline)),
        "is not supported",
    );
    refused(halved().object(4.0, triple("aarch64-unknown-linux-gnu", Isa::Avx2)), "it has no avx2");
    let other = halved().object(4.0, triple("aarch64-unknown-linux-gnu", baseline));
    if cfg!(feature = "cross") || cfg!(target_arch = "aarch64") {
        other.unwrap();
    } else {
        refused(other, "build with the feature `cross`");
    }
}

/// The command of a crate must make the objects that its arguments name, and refuse wrong arguments.
#[test]
fn a_command_makes_the_objects_of_a_crate() {
    let (square, count) = (jit(|x: Var| x * x), jit(|x: Var| debug_print("x", x)));
    let command = object::Command::new()
        .add("square", |options| square.object([0.0; 2], options))
        .add("rows", |options| {
            let f = jit(|(x, w): (Var, Var)| Stacked(x * w));
            f.object_rows((1.0, 2.0), options)
        });
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path().to_str().unwrap();
    let report = command
        .run_with(["--triple", "x86_64-unknown-linux-gnu", "--isa", "avx2", "--out", folder])
        .unwrap();
    assert_eq!(report.lines().count(), 2, "{report}");
    assert!(report.contains("square.o: ") && report.contains("calls nothing\n"), "{report}");
    for file in ["square.o", "square.h", "square.py", "square.rs", "rows.o"] {
        assert!(scratch.path().join(file).exists(), "{file}");
    }
    assert_eq!(command.run_with(["--list"]).unwrap(), "square\nrows\n");
    assert!(command.run_with(["--help"]).unwrap().starts_with("usage: "));
    let error = |arguments: &[&str]| command.run_with(arguments.to_vec()).unwrap_err().to_string();
    assert!(error(&["sqare"]).contains("did you mean `square`?"));
    assert!(error(&["--ouy", "x"]).contains("`--ouy` is no option"));
    assert!(error(&["--out"]).contains("`--out` has no value"));
    assert!(error(&["--triple", "toaster"]).contains("`--triple toaster` names no machine"));
    assert!(error(&["--out", "/nowhere/at/all", "square"]).contains("cannot write"));
    let twice = object::Command::new()
        .add("f", |o| square.object(1.0, o))
        .add("f", |o| square.object(2.0, o));
    assert!(twice.run_with(["--list"]).unwrap_err().to_string().contains("two functions"));
    // If one function fails, the error must name the line of its closure, and the other objects must be made.
    let one_fails = object::Command::new()
        .add("count", |options| count.object(1.0, options))
        .add("later", |options| square.object(1.0, options));
    let text = one_fails.run_with(["--out", folder]).unwrap_err().to_string();
    assert!(text.contains("`count`: ") && text.contains("objects.rs:"), "{text}");
    assert!(scratch.path().join("later.o").exists());
}

/// The names of parameters must come from their paths, and differ from one another.
#[test]
fn headers_name_arguments_by_their_paths() {
    let f = jit(|(x, p): (Var, Vec<Var>)| (p[0] * x, p[1].gt(0.0)));
    let object = f.object(&(1.0, vec![Tensor::from([1.0, 2.0]), Tensor::from(1.0)]), "f").unwrap();
    let header = object.header();
    for line in [
        " * argument_0: argument `argument.0`, f64[], 1 elements in rows",
        " * argument_1_0: argument `argument.1[0]`, f64[2], 2 elements in rows",
        " * result_1: result `result.1`, bool[], 1 elements in rows",
        "#define F_WORKSPACE_BYTES 0",
        "#define F_USES_TAPE 0",
    ] {
        assert!(header.lines().any(|l| l == line), "{line} in\n{header}");
    }
}
