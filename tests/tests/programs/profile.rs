//! Profiles of compiled programs: a profile must find the slow part, with the user's line, and count runs exactly; the
//! results must equal those of an ordinary call.

use std::process::Command;
use tapeloom::prelude::*;
use tapeloom::{Kind, Profile, ProfileRow, Target, accelerator};
use tapeloom_ir::fingerprint;

/// Returns the first part (loop nest or library call) of the profile that computes the given primitive.
#[track_caller]
fn part<'p>(profile: &'p Profile, primitive: &str) -> &'p ProfileRow {
    let mut rows = profile.rows.iter().filter(|row| row.equations.contains(&primitive));
    rows.next().unwrap_or_else(|| panic!("no part computes {primitive}:\n{profile}"))
}

/// Returns the line numbers of the part, and checks that all of them are in this file.
#[track_caller]
fn lines(row: &ProfileRow) -> Vec<u32> {
    assert!(row.lines.iter().all(|line| line.file == file!()), "{row:?}");
    row.lines.iter().map(|line| line.line).collect()
}

fn numbers(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let numbers: Vec<f64> = (0..n).map(|i| (i % 7) as f64 * 0.01).collect();
    Tensor::new(shape, numbers).unwrap()
}

/// The matrix product has hundreds of times the work of every other loop, so it must be the slowest part.
#[test]
fn the_slow_one_of_three_loops_is_found() {
    let at = line!();
    let f = |(x, y): (Var, Var)| {
        let first = (y + 1.0).sin().cumsum(0);
        let product = x.dot(x.t());
        let last = product.index(0).cos().cumsum(0);
        (first, product, last)
    };
    let (x, y) = (numbers(&[256, 256]), numbers(&[4096]));
    let measure = |_| jit(f).profile((&x, &y)).unwrap();
    // Measure several times: another process may interrupt a small loop for longer than the product takes, but not in
    // every profile.
    let mut profiles = (0..20).map(measure);
    let found = profiles
        .find(|(_, p)| p.slowest().is_some_and(|s| s.time * 2 > p.total && s.equations == ["dot"]));
    let (results, profile) = found.unwrap_or_else(|| panic!("{}", measure(0).1));
    let slowest = profile.slowest().unwrap();
    assert_eq!((lines(slowest), slowest.calls), (vec![at + 3], 1), "{profile}");
    assert_eq!(slowest.what, "contract 128x256x256 in 2 pieces");
    // Expected traffic: one array, read as both operands of the product, and the result, written.
    assert_eq!(slowest.bytes, 2 * 256 * 256 * 8, "{profile}");
    assert_eq!(lines(part(&profile, "sin")), [at + 2], "{profile}");
    assert!(profile.rows.iter().all(|row| !row.reverse && row.within.is_empty()), "{profile}");
    assert_eq!(results, jit(f).call((&x, &y)).unwrap());
    let svg = profile.svg();
    assert!(svg.starts_with("<svg") && svg.contains(": dot; ") && svg.ends_with("</svg>\n"));
}

/// Statements inside a scan are parts that run once in each iteration, also in the reverse pass.
#[test]
fn parts_of_a_scan_run_once_in_each_iteration() {
    let at = line!();
    let f = |(x, w): (Var, Var)| {
        let step = move |(x, _): (Var, Var)| {
            let y = x.dot(w);
            let y = y.tanh();
            (y, y.index(0).index(0))
        };
        scan(step, x, zeros([100], Dtype::F64))
    };
    // With twice the rows, the scan would be cut into pieces that run all iterations for some rows, and would count as
    // one part.
    let (x, w) = (numbers(&[31, 128]), numbers(&[128, 128]));
    let (results, profile) = jit(f).profile((&x, &w)).unwrap();
    for (primitive, line) in [("dot", at + 3), ("tanh", at + 4)] {
        let row = part(&profile, primitive);
        assert_eq!((row.calls, lines(row)), (100, vec![line]), "{profile}");
        assert_eq!(row.within, ["serial 100"], "{profile}");
    }
    assert_eq!(results, jit(f).call((&x, &w)).unwrap());
    let slope = grad(move |(x, w): (Var, Var)| f((x, w)).0.sum());
    let (results, profile) = jit(&slope).profile((&x, &w)).unwrap();
    let (forward, reverse): (Vec<_>, Vec<_>) = profile.rows.iter().partition(|row| !row.reverse);
    for rows in [forward, reverse] {
        assert!(rows.iter().any(|row| row.calls == 100), "{profile}");
    }
    assert_eq!(results, jit(&slope).call((&x, &w)).unwrap());
    let (_, profile) =
        jit(vmap(&slope)).profile((numbers(&[3, 31, 128]), numbers(&[3, 128, 128]))).unwrap();
    assert!(profile.rows.iter().any(|row| row.reverse && row.calls == 100), "{profile}");
}

/// A `while_loop` is one part of the profile; a long computation in its body is a part of its own.
#[test]
fn loops_of_unknown_length_are_parts() {
    let halves = |x: Var| while_loop(|x: Var| x.gt(1.0), |x: Var| x / 2.0, x);
    let (_, profile) = jit(halves).profile(1024.0).unwrap();
    assert_eq!((&*profile.rows[0].what, profile.rows[0].calls), ("while", 1), "{profile}");
    let sums = |x: Var| while_loop(|x: Var| x.max().gt(1.0), |x: Var| x.cumsum(0) / 1e9, x);
    let (_, profile) = jit(sums).profile(Tensor::full(&[100_000], 1e7).unwrap()).unwrap();
    let row = part(&profile, "cumsum");
    assert_eq!((row.calls, &row.within[..]), (2, &["while".to_owned()][..]), "{profile}");
}

/// A function that is compiled once must occur once in the profile, with times summed over all calls.
#[test]
fn parts_of_a_called_function_count_all_calls() {
    let f = |x: Var| {
        let step = outline(|x: Var| (x.sin() + x.cos() * x.exp()).cumsum(0).tanh());
        (0..3).fold(x, |x, _| step(x))
    };
    let x = numbers(&[30_000]);
    let (results, profile) = jit(f).profile(&x).unwrap();
    let row = part(&profile, "sin");
    assert_eq!(row.calls, 3, "{profile}");
    assert!(row.within[0].starts_with('@'), "{profile}");
    assert_eq!(results, jit(f).call(&x).unwrap());
}

/// `explain` must list the steps (loop nests and library calls) of a program in order, with the user's lines that each
/// computes.
#[test]
fn explain_names_the_lines_of_steps() {
    let at = line!();
    let f = |x: Var| {
        let y = x.sin().sum_axis(1);
        y.cumsum(0)
    };
    let steps = jit(f).explain(numbers(&[8, 100])).unwrap().steps();
    let rows: Vec<&str> = steps.lines().skip(1).collect();
    assert_eq!(rows.len(), 2, "{steps}");
    for (row, (names, line)) in rows.iter().zip([("sin, reduce_sum", at + 2), ("cumsum", at + 3)]) {
        assert!(row.contains(names) && row.ends_with(&format!("{}:{line}", file!())), "{steps}");
    }
}

#[test]
fn small_programs_have_no_parts_and_all_time_is_the_rest() {
    let (y, profile) = jit(|x: Var| x + 1.0).profile(1.0).unwrap();
    assert_eq!(y.item::<f64>().unwrap(), 2.0);
    assert!(profile.rows.is_empty() && profile.slowest().is_none());
    assert_eq!(profile.rest(), profile.total);
    assert!(profile.to_string().contains("(rest)"), "{profile}");
    assert!(profile.svg().contains("<rect"));
}

/// A program that calls Rust functions must run only once per profile, so that effects are not repeated.
#[test]
fn effects_happen_once() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let f = |x: Var| tap(x.sin(), |_| _ = TOLD.fetch_add(1, Ordering::Relaxed)) * 2.0;
    let (_, profile) = jit(f).profile(numbers(&[10])).unwrap();
    assert_eq!(TOLD.load(Ordering::Relaxed), 1);
    assert_eq!(profile.rows.len(), 1, "{profile}");
}

#[test]
fn other_engines_have_no_profile() {
    let f = |x: Var| x * 2.0;
    let cal = accelerator::Machine::cal();
    let refused = [
        jit(f).on(Target::Interpreter).profile(1.0),
        jit(f).on(Target::Accelerator(cal)).profile(1.0),
        jit(f).interpreted().profile(1.0),
        jit(f).nan_check().profile(1.0),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), Kind::Target);
        let text = error.to_string();
        assert!(text.contains("a profile needs machine code"), "{text}");
        assert!(text.contains("profile.rs") && text.contains("without `on`"), "{text}");
    }
    let mistake = jit(|x: Var| x.dot(zeros([3], Dtype::F64))).profile([1.0, 2.0]).unwrap_err();
    assert_eq!(mistake.kind(), Kind::Shape);
    let stopped = jit(|x: Var| while_loop(|x: Var| x.gt(0.0), |x| x + 1.0, x)).max_steps(10);
    assert_eq!(stopped.profile(1.0).unwrap_err().kind(), Kind::Limit);
}

/// The profiled program must be the program of an ordinary call, which has no timers.
#[test]
fn the_program_is_that_of_a_call() {
    let f = |x: Var| (x.sin().cumsum(0) * x).sum();
    let x = numbers(&[50_000]);
    let (call, stages) = fingerprint::collect(|| jit(f).call(&x).unwrap());
    let ((profiled, _), same) = fingerprint::collect(|| jit(f).profile(&x).unwrap());
    assert_eq!((call, stages), (profiled, same));
    let kernels = jit(f).explain(&x).unwrap().kernels();
    assert!(!kernels.contains("lap") && !kernels.contains("timers"), "{kernels}");
}

/// The environment variable that requests profiles is read once per process, so this test runs in a process of its own.
#[test]
fn an_environment_variable_profiles_all_programs() {
    const FILE: &str = "TAPELOOM_PROFILE";
    const TEST: &str = "profile::an_environment_variable_profiles_all_programs";
    if std::env::var_os(FILE).is_some() {
        let big = jit(|x: Var| x.exp().cumsum(0));
        let x = numbers(&[100_000]);
        let results: Vec<Tensor> = (0..5).map(|_| big.call(&x).unwrap()).collect();
        assert!(results.iter().all(|y| *y == results[0]));
        jit(|x: Var| x + 1.0).call(1.0).unwrap();
        return;
    }
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("profile.txt");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST])
        .env(FILE, &file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    let text = std::fs::read_to_string(&file).unwrap();
    let calls: Vec<&str> = text.lines().filter(|line| line.starts_with('@')).collect();
    assert_eq!(calls.len(), 2, "{text}");
    for times in ["in 5 calls", "in 1 call"] {
        assert!(calls.iter().any(|line| line.ends_with(times)), "{text}");
    }
    assert!(text.contains("exp") && text.contains("profile.rs:"), "{text}");
}
