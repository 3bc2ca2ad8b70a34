//! Benchmarks: `bench` prints a table, `bench --json` one object `{"name", "value", "unit"}` per line.
//!
//! - `scalar_grad_call_ns`: a call of a compiled gradient of one number, all costs included;
//! - `unrolled_N_STAGE_ms`: the time of each stage for the gradient of an unrolled program of N scalar operations,
//!   and `unrolled_N_total_ms`;
//! - `gradbench_EVAL_ratio`: time of the gradient over time of the objective, and `gradbench_EVAL_ms`, time of the
//!   gradient; evals with loops are measured at further sizes, which are part of their names. `saddle` and `particle`
//!   are reverse over reverse mode against forward over forward mode. `tests/peers/gradbench.py` prints the same rows
//!   for JAX;
//! - `fit_gmm_step_ms`: one step of descent on the mixture that the example fits;
//! - `transformer_*_ms`: loss and gradient of blocks of a transformer for a batch of sequences;
//!   `tests/peers/transformer.py` prints the same rows for JAX. `transformer_eight_*`: eight blocks, without a budget
//!   (`all`) and with one of 20 MB (`little`), and megabytes of the workspace; JAX has a checkpoint around each block
//!   there;
//! - `iterations_SIZE_FUNCTION_ratio`: a hundred calls of an outlined step over the step written out;
//! - `ode_value_ratio`, `ode_grad_ratio`: a hundred thousand steps of a scalar differential equation, and their
//!   gradient, over the value by a loop in Rust; `ode_limited_ratio`: the value with a handle that may cancel the
//!   call, over the value without;
//! - `while_vmap_N_{value,grad}_ratio`: a loop over N batch members that run 1 to 100 iterations, as one batch over
//!   one member after the other, and `while_vmap_ratio`, the largest of these;
//! - `rnn_STEPS_{value,grad,compile}_ms`: a recurrent network of 32 units, and `rnn_STEPS_little_ms`, its gradient
//!   with a tape of at most 256 kB, whose actual size is `rnn_STEPS_little_tape_kb`; `tests/peers/rnn.py` prints the
//!   same rows for JAX, with checkpoints at every square root of the steps;
//! - `pages_ITERATIONS_ARRAYS_ratio`: the time per iteration of the gradient of a loop that saves ARRAYS arrays of
//!   whole pages, over the time with 300 more iterations, and `pages_ratio`, the largest of these: near 1 if arrays
//!   do not conflict in a cache;
//! - `layouts_KB_LAYOUT_ratio`: forward and reverse pass of loops written by hand in Rust, with a tape of KB kB in
//!   separate arrays (`arrays`), in arrays each shifted by 37 lines (`skewed`), in `records`, or in records of eight
//!   elements (`tiles`), over the first; and `layouts_KB_arrays_ns`, the time per saved number;
//! - `refs_sieve_ratio`, `refs_sums_ratio`: primes and prefix sums by a program that writes to an array, over the
//!   same by a loop in Rust, and `refs_ratio`, the larger of the two;
//! - `record_1e6_s`: a recording of a million scalar operations and its pullback, not compiled;
//!   `record_1e6_{run,pull}_s`, its parts; `record_1e6_peak_mib`, the peak memory of the process during the
//!   recording; and `record_1e6_tape_mib`, the reported size of the tape. `tests/peers/record.py` prints the same
//!   rows for PyTorch;
//! - `linalg_ROUTINE_SIZE_us`, `linalg_ROUTINE_SIZE_grad_us`: a factorization or a solve with a scalar function of
//!   its results, and with the gradient too, for one matrix or a batch; `linalg_gp_N_grad_ms`,
//!   `linalg_kalman_grad_ms`: likelihoods with their gradients; `fft_N_us`, `rfft_N_us`, `fft2_512_us`: transforms.
//!   `tests/peers/linalg.py` prints the same rows for JAX and numpy;
//! - `equations_PROBLEM_TOLERANCE_us`, `.._grad_us`: differential equations at relative tolerances, and their
//!   gradients with respect to the rates; `equations_PROBLEM_TOLERANCE_error`, the relative distance from SciPy's
//!   result at 1e-13; `equations_PROBLEM_compile_ms`. `tests/peers/equations.py` prints the same rows for SciPy and
//!   diffrax;
//! - `networks_NAME_DTYPE_ms`, `networks_NAME_DTYPE_grad_ms`: convolutional networks, the loss alone, and with the
//!   gradient with respect to all weights; and `networks_NAME_DTYPE_grad_mb`, the memory of the call besides its
//!   arguments and results; `tests/peers/networks.py` prints the same rows for JAX and PyTorch;
//! - `vectors_NAME_DTYPE_SIZE_us`: elementwise functions, folds, and their compositions, of SIZE elements;
//!   `tests/peers/vectors.py` prints the same rows for JAX and numpy; more words choose programs by their names;
//! - `wide_FAMILY_FUNCTION_640_ms`: the time to compile a loop or a branch that reads, carries, stacks or returns 640
//!   arrays, and `wide_FAMILY_FUNCTION_growth`, this time over the time for 160 arrays: near 4 if it is proportional
//!   to the size of the program;
//! - `suite_KERNEL_FORM_*`: nine kernels whose gradients need many residuals, at the sizes of a study: bytes of
//!   residuals (`kept`), milliseconds of the value and of the gradient, and both figures of the gradient written by
//!   hand in Rust; `suite_kept_bytes`, the residuals of all mutated forms;
//! - `native_KERNEL_FORM_WAY_*`: the same kernels at sizes whose tape would not fit in a cache, with their gradients
//!   under every checkpoint policy: milliseconds, MB at the peak, MB of residuals, and
//!   `native_KERNEL_FORM_by_hand_ms`.
//!
//! - `threads_NAME_N_ms`: calls of programs on N threads, and `threads_NAME_ratio`, the time on one thread over that on
//!   two; `tests/peers/threads.py` prints the same rows for JAX. More words choose programs by their names;
//!
//! - `adam_N_{call,into,donating}_ns`: a step of Adam on N parameters in f32, in nanoseconds per parameter, with new
//!   results, with results in the memory of the step before, and with donated arguments; `adam_N_moved`, the number of
//!   arrays of N numbers that are not in the memory of the donated arguments. `tests/peers/adam.py` prints the same rows for JAX;
//!
//! - `xla_PROGRAM_SIZE_us`: a program on the plugin of XLA that `TAPELOOM_PJRT_PLUGIN` names, on one device, with arguments
//!   and results on the device, and `xla_PROGRAM_SIZE_native_us` on tapeloom's own engine; `xla_call_N_us`: calls of a
//!   program that adds 1 to N numbers, one after the other. `tests/peers/xla.py` prints the same rows for JAX on the same
//!   plugin. More words choose rows by parts of their names. Without a plugin there are no rows;
//!
//! `bench transformer fit` measures only the named groups: scalar, adam, unrolled, gradbench, fit, transformer, threads,
//! iterations, ode, while, rnn, pages, layouts, refs, record, linalg, equations, networks, vectors, wide, suite, xla; and native, which
//! is measured only if it is named, since it takes minutes and gigabytes. A further word restricts the groups suite and
//! native to the kernels with that word in their names: `bench suite lenet`.
//!
//! `bench --programs` prints the sizes of programs instead (equations, kernels, arithmetic, and the time to compile
//! them): the benchmarked programs, the examples, and the samples of every primitive, each with its derivatives. With
//! `--json`, it prints one object per line.
//!
//! `bench --growth` prints the growth of programs of a size n from n to 4 n, in counted work, workspace, equations
//! and seconds; `bench --growth 16` does so with each n sixteen times as large.
//!
//! Times are medians. Compare ratios within one run only: machines differ, and one machine differs from minute to
//! minute.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tapeloom::Target;
use tapeloom::prelude::*;
use tapeloom::xla::{self, Client, ClientOptions, DeviceArray, PLUGIN_VARIABLE, Plugin};
use tapeloom_tests::cost_rows::{COST_ROWS, CostRow};
use tapeloom_tests::equations::MEASURED;
use tapeloom_tests::gradbench;
use tapeloom_tests::growth::{Counts, GROWING};
use tapeloom_tests::layouts::{Gradient, LAYOUTS, VALUES};
use tapeloom_tests::linear_algebra;
use tapeloom_tests::networks::NETWORKS;
use tapeloom_tests::on_xla::ON_XLA;
use tapeloom_tests::repeated::{prefix_sums, rnn, rnn_arguments, rnn_written_out, sieve};
use tapeloom_tests::size_counters::{Tally, derivatives};
use tapeloom_tests::suite::{Form, Given, Inputs, KERNELS, Kept, Kernel, READINGS, WAYS};
use tapeloom_tests::threaded::{THREADED, Threaded};
use tapeloom_tests::transformer::{self, Extents};
use tapeloom_tests::vectors::{PROGRAMS, Program};
use tapeloom_tests::wide;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let as_json = std::env::args().any(|a| a == "--json");
    if std::env::args().any(|a| a == "--programs") {
        return programs(as_json);
    }
    if let Some(at) = std::env::args().position(|a| a == "--growth") {
        let factor = std::env::args().nth(at + 1).map_or(Ok(1), |factor| factor.parse())?;
        return growth(factor);
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    for (group, measure) in GROUPS {
        let asked = wanted.iter().any(|w| w == group);
        if !asked && (!wanted.is_empty() || LONG.contains(&group)) {
            continue;
        }
        measure(&|name, value, unit| {
            if as_json {
                println!("{}", json!({"name": name, "value": value, "unit": unit}));
            } else {
                println!("{name:36} {value:12.3} {unit}");
            }
        })?;
    }
    Ok(())
}

/// Prints the growth of the programs `GROWING`, with each size n multiplied by `factor`.
fn growth(factor: usize) -> Outcome<()> {
    let title = ["work", "of 4 n", "ratio", "workspace", "equations", "us", "of 4 n", "ratio"];
    print!("{:40} {:>8} {:>6}", "program", "", "n");
    println!("{}", title.map(|t| format!(" {t:>12}")).concat());
    for row in GROWING {
        for (what, power) in [("value", Some(row.power)), ("gradient", row.gradient)] {
            if power.is_none() {
                continue;
            }
            let n = row.n * factor;
            let at = |n: usize| row.counts(n, what == "gradient", true);
            let (few, many) = (at(n)?, at(4 * n)?);
            let work = |c: Counts| c.work.map_or(f64::NAN, |work| work as f64);
            let us = |c: Counts| c.seconds.map_or(f64::NAN, |s| s * 1e6);
            print!("{:40} {what:>8} {n:6} {:12} {:12}", row.name, work(few), work(many));
            print!(" {:12.2} {:12} {:12}", work(many) / work(few), many.workspace, many.equations);
            println!(" {:12.1} {:12.1} {:12.2}", us(few), us(many), us(many) / us(few));
        }
    }
    Ok(())
}

/// Prints a row of the results: name, value, unit.
type Print<'a> = &'a dyn Fn(&str, f64, &str);

/// The name of a group of benchmarks, and the function that measures the group.
type Group = (&'static str, fn(Print<'_>) -> Outcome<()>);

/// Groups that are measured only if the command line names them, because they take minutes.
const LONG: [&str; 1] = ["native"];

const GROUPS: [Group; 24] = [
    ("scalar", |print| {
        print("scalar_grad_call_ns", scalar_call()?, "ns");
        print("scalar_grad_call_into_ns", scalar_call_into()?, "ns");
        Ok(())
    }),
    ("adam", adam_steps),
    ("unrolled", |print| {
        for n in [1_000, 10_000, 100_000] {
            let stages = unrolled(n)?;
            for (stage, ms) in &stages {
                print(&format!("unrolled_{n}_{stage}_ms"), *ms, "ms");
            }
            print(&format!("unrolled_{n}_total_ms"), stages.iter().map(|s| s.1).sum(), "ms");
        }
        Ok(())
    }),
    ("gradbench", |print| {
        for (name, eval, objective, gradient, input) in evals()? {
            let [of, slope] = [objective, gradient].map(|f| seconds(eval, f, &input));
            let (of, slope) = (of?, slope?);
            print(&format!("gradbench_{name}_ratio"), slope / of, "1");
            print(&format!("gradbench_{name}_ms"), slope * 1e3, "ms");
        }
        Ok(())
    }),
    ("fit", |print| {
        print("fit_gmm_step_ms", fit_step()?, "ms");
        Ok(())
    }),
    ("transformer", |print| {
        for (name, size, dtype) in TRANSFORMERS {
            print(name, transformer_step(size, dtype)?, "ms");
        }
        for (way, policy) in [("all", Policy::Planned), ("little", Policy::Bytes(20_000_000))] {
            let [ms, workspace] = deep(policy)?;
            print(&format!("transformer_eight_{way}_ms"), ms, "ms");
            print(&format!("transformer_eight_{way}_mb"), workspace, "MB");
        }
        Ok(())
    }),
    ("threads", threads),
    ("iterations", |print| {
        for (batch, width) in [(1, 16), (8, 32), (32, 64)] {
            let arguments = rnn_arguments(batch, width)?;
            let of = |name: &str, ratio: f64| {
                print(&format!("iterations_{batch}x{width}_{name}_ratio"), ratio, "1");
            };
            of(
                "value",
                iterations(rnn(100), &arguments)? / iterations(rnn_written_out(100), &arguments)?,
            );
            let (called, written) =
                (value_and_grad(rnn(100)), value_and_grad(rnn_written_out(100)));
            of("gradient", iterations(called, &arguments)? / iterations(written, &arguments)?);
        }
        Ok(())
    }),
    ("ode", |print| {
        let [rust, value, gradient, limited] = ode()?;
        print("ode_value_ratio", value / rust, "1");
        print("ode_grad_ratio", gradient / rust, "1");
        print("ode_limited_ratio", limited / value, "1");
        Ok(())
    }),
    ("while", |print| {
        let mut worst = 0.0f64;
        for (name, of) in [("value", of_members as Members), ("grad", of_gradients)] {
            for members in [100, 1_000, 10_000] {
                let ratio = of(members)?;
                print(&format!("while_vmap_{members}_{name}_ratio"), ratio, "1");
                worst = worst.max(ratio);
            }
        }
        print("while_vmap_ratio", worst, "1");
        Ok(())
    }),
    ("rnn", |print| {
        for steps in [1_000, 100_000] {
            let [value, gradient, compile, little, tape] = recurrent(steps)?;
            print(&format!("rnn_{steps}_value_ms"), value, "ms");
            print(&format!("rnn_{steps}_grad_ms"), gradient, "ms");
            print(&format!("rnn_{steps}_compile_ms"), compile, "ms");
            print(&format!("rnn_{steps}_little_ms"), little, "ms");
            print(&format!("rnn_{steps}_little_tape_kb"), tape, "kB");
        }
        Ok(())
    }),
    ("pages", |print| {
        let mut worst: f64 = 0.0;
        for iterations in [1 << 12, 1 << 16] {
            for kept in [8, 20, 80] {
                let [page, odd] = [iterations, iterations + 300].map(|n| keeping(n, kept));
                let ratio = page? / odd?;
                print(&format!("pages_{iterations}_{kept}_ratio"), ratio, "1");
                worst = worst.max(ratio);
            }
        }
        print("pages_ratio", worst, "1");
        Ok(())
    }),
    ("layouts", |print| {
        for (elements, iterations) in [(64, 64), (512, 64), (512, 512), (1024, 1024), (1024, 4096)]
        {
            let kept = elements * iterations * VALUES;
            let mut tape = Vec::new();
            let mut seconds = |gradient: Gradient| {
                median(5, (1 << 22) / kept + 1, || {
                    black_box(gradient(black_box(elements), iterations, &mut tape));
                    Ok(())
                })
            };
            let [(_, arrays), ..] = LAYOUTS;
            let kb = kept * 8 / 1000;
            print(&format!("layouts_{kb}_arrays_ns"), seconds(arrays)? / kept as f64 * 1e9, "ns");
            for (name, gradient) in LAYOUTS.into_iter().skip(1) {
                let ratio = seconds(gradient)? / seconds(arrays)?;
                print(&format!("layouts_{kb}_{name}_ratio"), ratio, "1");
            }
        }
        Ok(())
    }),
    ("refs", |print| {
        let (primes, sums) = (written_primes()?, written_sums()?);
        print("refs_sieve_ratio", primes, "1");
        print("refs_sums_ratio", sums, "1");
        print("refs_ratio", primes.max(sums), "1");
        Ok(())
    }),
    ("record", |print| {
        let [run, pull, tape, peak] = record_and_pull()?;
        print("record_1e6_s", run + pull, "s");
        print("record_1e6_run_s", run, "s");
        print("record_1e6_pull_s", pull, "s");
        print("record_1e6_tape_mib", tape, "MiB");
        print("record_1e6_peak_mib", peak, "MiB");
        Ok(())
    }),
    ("equations", equations),
    ("linalg", linear_algebra_times),
    ("networks", network_times),
    ("cost", cost_times),
    ("vectors", |print| {
        let words: Vec<String> = words().collect();
        let is_chosen = |p: &&Program| words.is_empty() || words.iter().any(|word| word == p.name);
        for program in PROGRAMS.iter().filter(is_chosen) {
            for dtype in [Dtype::F64, Dtype::F32] {
                for n in program.sizes {
                    let (f, x) = (jit(program.run), program.argument(*n, dtype)?);
                    let name = format!("vectors_{}_{dtype}_{n}_us", program.name);
                    print(&name, 1e6 * time(|| f.call(&x))?, "us");
                }
            }
        }
        Ok(())
    }),
    ("xla", on_xla),
    ("wide", |print| {
        for family in wide::FAMILIES {
            for (function, compile) in wide::FUNCTIONS {
                let [few, many] = [160, 640].map(|n| {
                    let x = wide::arguments(n);
                    let once = || {
                        compile(family, &x)?;
                        Ok(())
                    };
                    median(3, 1, once)
                });
                let (name, many) = (family.0, many?);
                print(&format!("wide_{name}_{function}_640_ms"), many * 1e3, "ms");
                print(&format!("wide_{name}_{function}_growth"), many / few?, "1");
            }
        }
        Ok(())
    }),
    ("suite", |print| {
        let mut all = 0;
        for kernel in chosen() {
            let size = kernel.sizes.study;
            let inputs = (kernel.inputs)(size);
            let arguments = kernel.arguments(&inputs)?;
            let of = |what: &str, value: f64, unit: &str| {
                print(&format!("suite_{}_{what}", label(kernel)), value, unit);
            };
            let kept = Kept::of(kernel.gradient(size), &arguments)?.bytes();
            of("kept", kept as f64, "bytes");
            of("kept_by_hand", (kernel.by_hand)(size, &inputs).tape as f64, "bytes");
            let value = jit(kernel.value(size));
            of("value_ms", called(&value, &arguments)?, "ms");
            of("gradient_ms", called(&jit(kernel.gradient(size)), &arguments)?, "ms");
            of("by_hand_ms", by_hand(kernel, size, &inputs)?, "ms");
            let nine = KERNELS.iter().any(|k| std::ptr::eq(k, kernel));
            all += if nine && kernel.form == Form::Mutated { kept } else { 0 };
        }
        print("suite_kept_bytes", all as f64, "bytes");
        Ok(())
    }),
    ("native", |print| {
        for kernel in chosen() {
            let size = kernel.sizes.large;
            let inputs = (kernel.inputs)(size);
            let arguments = kernel.arguments(&inputs)?;
            let of = |way: &str, value: f64, unit: &str| {
                print(&format!("native_{}_{way}", label(kernel)), value, unit);
            };
            for way in WAYS {
                let kept = Kept::of((way.gradient)(kernel, size), &arguments)?;
                of(&format!("{}_peak", way.name), kept.peak as f64 / 1e6, "MB");
                of(&format!("{}_kept", way.name), kept.bytes() as f64 / 1e6, "MB");
            }
            let gradients: Vec<_> =
                WAYS.iter().map(|way| jit((way.gradient)(kernel, size))).collect();
            let call = |way: usize| {
                match gradients.get(way) {
                    Some(f) => {
                        drop(black_box(f.call((&arguments.0, &arguments.1, &arguments.2))?))
                    }
                    None => drop(black_box((kernel.by_hand)(size, &inputs))),
                }
                Ok(())
            };
            let times = by_turns(WAYS.len() + 1, call)?;
            let names = WAYS.iter().map(|way| way.name).chain(["by_hand"]);
            names.zip(times).for_each(|(name, time)| of(&format!("{name}_ms"), time, "ms"));
        }
        Ok(())
    }),
];

/// Returns the words on the command line that are neither options nor names of groups.
fn words() -> impl Iterator<Item = String> {
    let is_word = |w: &String| !w.starts_with("--") && !GROUPS.iter().any(|g| g.0 == w);
    std::env::args().skip(1).filter(is_word)
}

/// Returns the kernels whose names contain one of the words on the command line, or all if there are no words.
fn chosen() -> impl Iterator<Item = &'static Kernel> {
    let words: Vec<String> = words().collect();
    let is_chosen =
        move |k: &&Kernel| words.is_empty() || words.iter().any(|w| label(k).contains(w.as_str()));
    KERNELS.iter().chain(READINGS).filter(is_chosen)
}

/// Returns a kernel's name as part of a row's name.
fn label(kernel: &Kernel) -> String {
    kernel.to_string().replace(' ', "_").replace(['(', ')'], "")
}

/// Returns the milliseconds of a call of `f` with the arguments of a kernel: the median of several calls.
fn called<B: Tree<Var>, F: Fn(Given<Var>) -> B>(
    f: &Jit<Given<Var>, B, F>,
    (variables, data, seed): &Given<Tensor>,
) -> Outcome<f64> {
    patient(|| {
        black_box(f.call((variables, data, seed))?);
        Ok(())
    })
}

/// Returns the median milliseconds of the kernel's gradient that is written by hand in Rust.
fn by_hand(kernel: &Kernel, size: &[usize], inputs: &Inputs) -> Outcome<f64> {
    patient(|| {
        black_box((kernel.by_hand)(size, inputs));
        Ok(())
    })
}

/// Returns the median time in milliseconds of a slow run. Times as many runs as take about a second, but at least
/// three.
fn patient(mut run: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    run()?;
    let start = Instant::now();
    run()?;
    let samples = (1.0 / start.elapsed().as_secs_f64()).clamp(3.0, 101.0) as usize;
    Ok(1e3 * median(samples, 1, run)?)
}

/// Returns, for each of `runs` programs, the median milliseconds of a run. The programs are measured in turn, so that
/// other load affects all of them alike. Each time, the first call of a program is not measured, because memory that
/// another program has freed may be slow to get.
fn by_turns(runs: usize, mut run: impl FnMut(usize) -> Outcome<()>) -> Outcome<Vec<f64>> {
    const TURNS: usize = 3;
    const SECONDS: f64 = 0.7;
    let mut times = vec![Vec::new(); runs];
    for _ in 0..TURNS {
        for (i, times) in times.iter_mut().enumerate() {
            run(i)?;
            let (turn, before) = (Instant::now(), times.len());
            while times.len() < before + 3 || turn.elapsed().as_secs_f64() < SECONDS {
                let start = Instant::now();
                run(i)?;
                times.push(1e3 * start.elapsed().as_secs_f64());
            }
        }
    }
    Ok(times.into_iter().map(middle).collect())
}

/// The number of arrays that one step of [`keeping`] saves: an index, the element read at the index, and three computed
/// values.
const KEPT: usize = 5;

/// Returns the seconds per iteration of the gradient of a loop whose iterations save about `arrays` arrays of whole
/// pages.
fn keeping(iterations: usize, arrays: usize) -> Outcome<f64> {
    let steps = arrays / KEPT;
    let f = move |x: Var| {
        let iteration = |(i, c): (Var, Var)| {
            let step = |c: Var, k: usize| {
                let c = c * x.index(i) + 0.001 * k as f64;
                c * (1.0 + 0.5 * c)
            };
            (0..steps).fold(c, step) * 1e-3
        };
        fori_loop(iterations, iteration, constant(0.3))
    };
    let f = jit(grad(checkpoint(f, Policy::Everything)));
    let x: Tensor = (0..iterations).map(|i| 0.5 + 0.1 * (i as f64).sin()).collect();
    let once = || {
        black_box(f.call(&x)?);
        Ok(())
    };
    Ok(median(9, (1 << 18) / iterations / steps.max(1) + 1, once)? / iterations as f64)
}

/// Returns the seconds of a recording of a million scalar operations, the seconds of its pullback, the MiB of the
/// tape, and the peak MiB of the process.
fn record_and_pull() -> Outcome<[f64; 4]> {
    let walk = |x: Var| {
        let mut y = x;
        for _ in 0..250_000 {
            y = (y * x).sin() + y * 0.5;
        }
        y
    };
    // Resets the peak memory of the process, on systems that support it.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let mut seconds = [Vec::new(), Vec::new()];
    let mut bytes = 0;
    for _ in 0..5 {
        let start = Instant::now();
        let tape = record(walk, 0.7)?;
        seconds[0].push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        black_box(tape.pull(1.0)?);
        seconds[1].push(start.elapsed().as_secs_f64());
        bytes = tape.bytes();
    }
    let [run, pull] = seconds.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|kib| kib.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    Ok([run, pull, bytes as f64 / 1048576.0, peak.unwrap_or(f64::NAN) / 1024.0])
}

/// Returns the seconds for 100,000 steps of x' = p x (1 - x) by Euler's method: as a loop in Rust, compiled by
/// tapeloom, compiled with the gradient, and compiled with a handle that may cancel the call.
fn ode() -> Outcome<[f64; 4]> {
    const STEPS: usize = 100_000;
    let (x, p) = (0.01, 1.5);
    let by_rust = || {
        let (mut x, p) = (black_box(x), black_box(p) * 0.0001);
        for _ in 0..STEPS {
            x += x * (1.0 - x) * p;
        }
        black_box(x);
        Ok(())
    };
    let solve = |(x, p): (Var, Var)| {
        let p = p * 0.0001;
        fori_loop(STEPS, |(_, x): (Var, Var)| x + x * (1.0 - x) * p, x)
    };
    let (value, gradient, limited) =
        (jit(solve), jit(grad(solve)), jit(solve).cancelled_by(&Cancel::new()));
    let args = (&Tensor::from(x), &Tensor::from(p));
    let value = || {
        value.call(args)?;
        Ok(())
    };
    let gradient = || {
        gradient.call(args)?;
        Ok(())
    };
    let limited = || {
        limited.call(args)?;
        Ok(())
    };
    let [by_rust, value] = [median(101, 1, by_rust)?, median(101, 1, value)?];
    Ok([by_rust, value, median(101, 1, gradient)?, median(101, 1, limited)?])
}

/// Measures a batch with this number of members, and returns a ratio of times.
type Members = fn(usize) -> Outcome<f64>;

/// Multiplies x by 0.9 until it is at most 1, so that the number of iterations grows with its logarithm; returns a sum
/// over the iterations.
fn shrunk(x: Var) -> Var {
    while_loop(
        |(x, _): (Var, Var)| x.gt(1.0),
        |(x, s): (Var, Var)| (x * 0.9, s * 0.5 + (x * x + 1.0).sqrt()),
        (x, x),
    )
    .1
}

/// Returns the time of a loop over a batch whose members run 1 to 100 iterations, divided by the time of the loop for
/// one member after the other.
fn of_members(members: usize) -> Outcome<f64> {
    beside_map(shrunk, members)
}

/// For the gradient of a loop over a batch, returns the time divided by the time of the gradients of one member after
/// the other.
fn of_gradients(members: usize) -> Outcome<f64> {
    beside_map(|x: Var| grad(shrunk)(x), members)
}

fn beside_map(f: impl Fn(Var) -> Var + Copy, members: usize) -> Outcome<f64> {
    let starts: Vec<f64> = (0..members).map(|i| 0.9f64.powi(-((i % 100) as i32)) * 0.99).collect();
    let starts = Tensor::from(starts);
    let (together, apart) = (jit(vmap(f)), jit(move |x: Var| map(f, x)));
    let samples = 1 + 100_000 / members;
    let time = |f: &dyn Fn() -> Result<Tensor, tapeloom::Error>| {
        median(samples.min(101), 1, || {
            f()?;
            Ok(())
        })
    };
    Ok(time(&|| together.call(&starts))? / time(&|| apart.call(&starts))?)
}

/// Returns the time for the primes below a million, by a program that writes to an array, divided by the time of a loop
/// in Rust.
fn written_primes() -> Outcome<f64> {
    const N: usize = 1_000_000;
    let by_rust = || {
        let mut prime = vec![true; black_box(N)];
        prime[..2].fill(false);
        for p in (2..).take_while(|p| p * p < N) {
            if prime[p] {
                prime[p * p..].iter_mut().step_by(p).for_each(|multiple| *multiple = false);
            }
        }
        black_box(prime);
        Ok(())
    };
    let primes = jit(|(): ()| sieve(N));
    let ours = || {
        black_box(primes.call(())?);
        Ok(())
    };
    Ok(median(31, 1, ours)? / median(31, 1, by_rust)?)
}

/// Returns the time for the prefix sums of a million numbers, by a program that writes to an array, divided by the time
/// of a loop in Rust.
fn written_sums() -> Outcome<f64> {
    const N: usize = 1_000_000;
    let numbers: Vec<f64> = (0..N).map(|i| (i as f64).sin()).collect();
    let by_rust = || {
        let mut x = black_box(&numbers).clone();
        for i in 1..x.len() {
            x[i] += x[i - 1];
        }
        black_box(x);
        Ok(())
    };
    let (sums, x) = (jit(prefix_sums), Tensor::from(numbers.clone()));
    let ours = || {
        black_box(sums.call(&x)?);
        Ok(())
    };
    Ok(median(31, 1, ours)? / median(31, 1, by_rust)?)
}

/// Runs a recurrent network of 32 units for `steps` iterations. Returns milliseconds for the value, for the gradient,
/// for the compilation of the gradient, and for the gradient under a budget of 256 kB; then the size of that last tape
/// in kB.
fn recurrent(steps: usize) -> Outcome<[f64; 5]> {
    let numbers = |n: usize, scale: f64| -> Tensor {
        (0..n).map(|i| scale * (i as f64 * 0.7 + (i as f64).sqrt()).sin()).collect()
    };
    let w = numbers(32 * 32, 0.2).reshape(&[32, 32])?;
    let xs = numbers(steps * 32, 1.0).reshape(&[steps, 32])?;
    let loss = |(w, xs): (Var, Var)| {
        let iteration = |(h, x): (Var, Var)| ((h.dot(w) + x).tanh(), ());
        let (h, ()) = scan(iteration, zeros([32], Dtype::F64), xs);
        (h * h).mean()
    };
    let (value, gradient) = (jit(loss), jit(grad(loss)));
    let start = Instant::now();
    gradient.compile((&w, &xs))?;
    let compile = start.elapsed().as_secs_f64();
    let value = || {
        value.call((&w, &xs))?;
        Ok(())
    };
    let gradient = || {
        gradient.call((&w, &xs))?;
        Ok(())
    };
    let within = jit(grad(checkpoint(loss, Policy::Bytes(256_000))));
    let tape = within.explain((&w, &xs))?.tape().bytes() as f64;
    let little = || {
        within.call((&w, &xs))?;
        Ok(())
    };
    let samples = 11;
    let [value, gradient] = [median(samples, 1, value)?, median(samples, 1, gradient)?];
    let little = median(samples, 1, little)?;
    Ok([value * 1e3, gradient * 1e3, compile * 1e3, little * 1e3, tape / 1e3])
}

/// Returns the seconds of a call of `f`, a program that repeats an outlined step, with that program's arguments.
fn iterations<B: Tree<Var>>(
    f: impl Fn((Var, Var, Var)) -> B,
    (w, u, x): &(Tensor, Tensor, Tensor),
) -> Outcome<f64> {
    let f = jit(f);
    let call = || {
        f.call((w, u, x))?;
        Ok(())
    };
    median(31, 5, call)
}

/// The measured transformers by row name: a block whose matrix products are large, in f64 and in f32, and two small
/// blocks in f64.
const TRANSFORMERS: [(&str, Extents, Dtype); 3] = {
    let block = Extents { batch: 4, tokens: 128, width: 256, heads: 8, blocks: 1 };
    let small = Extents { batch: 8, tokens: 32, width: 64, heads: 4, blocks: 2 };
    [
        ("transformer_block_f64_ms", block, Dtype::F64),
        ("transformer_block_f32_ms", block, Dtype::F32),
        ("transformer_two_blocks_ms", small, Dtype::F64),
    ]
};

fn transformer_step(size: Extents, dtype: Dtype) -> Outcome<f64> {
    let (blocks, x) = transformer::data(size, dtype)?;
    let step = jit(transformer::step(size));
    let call = || {
        step.call((&blocks, &x))?;
        Ok(())
    };
    Ok(1e3 * median(31, 1, call)?)
}

/// Returns the milliseconds of the gradient of eight transformer blocks under a policy, and the megabytes of its
/// workspace.
fn deep(policy: Policy) -> Outcome<[f64; 2]> {
    let size = Extents { blocks: 8, ..TRANSFORMERS[0].1 };
    let (blocks, x) = transformer::data(size, Dtype::F64)?;
    let loss = move |(blocks, x): (Vec<_>, Var)| transformer::loss(size, &blocks, x);
    let step = jit(move |(blocks, x): (transformer::Blocks<Var>, Var)| {
        let loss = checkpoint(loss, policy.clone());
        value_and_grad(move |blocks: transformer::Blocks<Var>| loss((blocks, x)))(blocks)
    });
    let workspace = step.explain((&blocks, &x))?.workspace_bytes() as f64;
    let call = || {
        step.call((&blocks, &x))?;
        Ok(())
    };
    Ok([1e3 * median(11, 1, call)?, workspace / 1e6])
}

/// Prints the numbers of equations, loop nests and operations, and the compile time, of each benchmarked program and of
/// all primitives' samples, as a table or as JSON objects.
fn programs(as_json: bool) -> Outcome<()> {
    let mut all = vec![
        ("scalar_grad".to_owned(), Tally::explained(&jit(scalar()).explain(0.5)?)?),
        ("fit_gmm_step".to_owned(), {
            let (mixture, x) = fit_data()?;
            Tally::explained(&jit(fit).explain((&mixture, &x))?)?
        }),
    ];
    for n in [1_000, 10_000] {
        let explained = jit(grad(move |x| chain(x, n))).explain(0.5)?;
        all.push((format!("unrolled_{n}"), Tally::explained(&explained)?));
    }
    for (name, eval, objective, gradient, input) in evals()? {
        for function in [objective, gradient] {
            let explained = gradbench::explain(eval, function, &input)?;
            all.push((format!("gradbench {name} {function}"), Tally::explained(&explained)?));
        }
    }
    all.extend(derivatives()?);
    let whole = all.iter().fold(Tally::default(), |sum, (_, t)| sum.plus(*t));
    all.push(("all".to_owned(), whole));
    if !as_json {
        println!(
            "{:40} {:>9} {:>7} {:>12} {:>10}",
            "program", "equations", "kernels", "flops", "ms"
        );
    }
    for (name, t) in &all {
        let ms = t.time.as_secs_f64() * 1e3;
        if as_json {
            let row = json!({
                "name": name, "emitted": t.emitted, "equations": t.equations,
                "kernels": t.kernels, "flops": t.cost.flops, "bytes": t.cost.bytes, "ms": ms,
            });
            println!("{row}");
        } else {
            let (equations, kernels, flops) = (t.equations, t.kernels, t.cost.flops);
            println!("{name:40} {equations:9} {kernels:7} {flops:12.0} {ms:10.3}");
        }
    }
    Ok(())
}

/// Returns the median of `samples` timings in seconds per run; each sample times `batch` runs.
fn median(samples: usize, batch: usize, mut run: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    run()?;
    let mut times = Vec::with_capacity(samples);
    for _ in 0..samples {
        let start = Instant::now();
        for _ in 0..batch {
            run()?;
        }
        times.push(start.elapsed().as_secs_f64() / batch as f64);
    }
    Ok(middle(times))
}

/// Measures programs on a plugin of XLA, and on tapeloom's machine code.
fn on_xla(print: Print<'_>) -> Outcome<()> {
    if std::env::var_os(PLUGIN_VARIABLE).is_none_or(|path| path.is_empty()) {
        eprintln!("no rows of XLA, because {PLUGIN_VARIABLE} is not set");
        return Ok(());
    }
    let client = Client::new(&Plugin::found()?, &ClientOptions::new().cpu_device_count(1))?;
    let words: Vec<String> = words().collect();
    let is_chosen =
        |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    for of in &ON_XLA {
        for size in of.sizes {
            let extents: Vec<String> = size.iter().map(ToString::to_string).collect();
            let name = format!("xla_{}_{}", of.name, extents.join("x"));
            if !is_chosen(&name) {
                continue;
            }
            let arguments = (of.arguments)(size)?;
            let program = |v: Vec<Var>| (of.program)(size, &v);
            let f = jit(program).on(Target::Xla(client.clone()));
            let resident = xla::upload(&client, &arguments)?;
            let call = || {
                let results = f.call_on_device(resident.clone())?;
                results.iter().try_for_each(DeviceArray::wait)?;
                Ok(results)
            };
            print(&format!("{name}_us"), 1e6 * time(call)?, "us");
            let native = jit(program);
            print(&format!("{name}_native_us"), 1e6 * time(|| native.call(&arguments))?, "us");
        }
    }
    for n in [1, 4, 40, 400] {
        let name = format!("xla_call_{n}");
        if is_chosen(&name) {
            print(&format!("{name}_us"), 1e6 * calls_on_device(&client, n)?, "us");
        }
    }
    Ok(())
}

/// Returns the time in seconds of a call that adds 1 to n numbers on the device. Each call gets the results of the
/// previous call.
fn calls_on_device(client: &Client, n: usize) -> Outcome<f64> {
    let f = jit(|x: Vec<Var>| x.into_iter().map(|x| x + 1.0).collect::<Vec<_>>());
    let f = f.on(Target::Xla(client.clone()));
    let mut x = xla::upload(client, &vec![Tensor::from(0.0); n])?;
    // The number of calls between two waits. Only the last call of them is waited for.
    let batch = 8000 / n.max(8);
    let seconds = median(9, 1, || {
        for _ in 0..batch {
            x = f.call_on_device(std::mem::take(&mut x))?;
        }
        Ok(x.iter().try_for_each(DeviceArray::wait)?)
    })?;
    Ok(seconds / batch as f64)
}

/// Measures programs on one thread, on two threads, and on all threads of the machine.
fn threads(print: Print<'_>) -> Outcome<()> {
    let all = tapeloom_backend::threads(0).get();
    let words: Vec<String> = words().collect();
    let chosen =
        |of: &&Threaded| words.is_empty() || words.iter().any(|w| of.name.contains(w.as_str()));
    for of in THREADED.iter().filter(chosen) {
        let args = (of.arguments)()?;
        let counts: BTreeSet<usize> =
            [1, 2, all].into_iter().filter(|n| *n <= all.max(2)).collect();
        let programs: Vec<_> =
            counts.iter().map(|n| (*n, jit(|v: Vec<Var>| (of.program)(&v)).threads(*n))).collect();
        // Run the programs in turns, so that a change of the machine's speed affects all of them alike.
        let mut times = vec![Vec::new(); programs.len()];
        let mut results = Vec::new();
        for round in 0..6 {
            for ((_, program), times) in programs.iter().zip(&mut times) {
                // In each turn, the first call of a program is not timed: it wakes sleeping threads, as the first step
                // of a training loop does.
                let result = program.call(&args)?;
                if round == 0 {
                    results.push(result);
                }
                for _ in 0..2 {
                    let start = Instant::now();
                    program.call(&args)?;
                    times.push(start.elapsed().as_secs_f64());
                }
            }
        }
        if results.iter().any(|result| result != &results[0]) {
            return Err(format!("{} has other results on other threads", of.name).into());
        }
        let times: Vec<f64> = times.into_iter().map(middle).collect();
        for ((n, _), time) in programs.iter().zip(&times) {
            print(&format!("threads_{}_{n}_ms", of.name), 1e3 * time, "ms");
        }
        print(&format!("threads_{}_ratio", of.name), times[0] / times[1], "1");
    }
    callers(print)
}

/// Measures the cost of threads where they do not help: in calls of a program that is too small to be cut into pieces,
/// and in calls of one program by sixteen threads at the same time.
fn callers(print: Print<'_>) -> Outcome<()> {
    let f = |x: Var| (x.sin() * x).sum();
    let x = Tensor::full(&[1000], 0.5)?;
    let [one, many] = [1, 2].map(|n| jit(grad(f)).threads(n));
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..21 {
        for (program, times) in [&one, &many].into_iter().zip(&mut times) {
            times.push(median(1, 2000, || {
                program.call(&x)?;
                Ok(())
            })?);
        }
    }
    let [alone, together] = times.map(middle);
    print("threads_too_small_us", 1e6 * alone, "us");
    print("threads_too_small_lost_us", 1e6 * (together - alone), "us");
    let over = |callers: usize| -> Outcome<f64> {
        let (start, time) = (Instant::now(), Duration::from_millis(400));
        let count = || {
            let mut calls = 0_u64;
            while start.elapsed() < time {
                one.call(&x).map_err(|e| e.to_string())?;
                calls += 1;
            }
            Ok::<u64, String>(calls)
        };
        let calls: Result<Vec<u64>, String> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..callers).map(|_| scope.spawn(count)).collect();
            let dead = || "a caller died".to_owned();
            running.into_iter().map(|c| c.join().map_err(|_| dead())?).collect()
        });
        Ok(calls?.iter().sum::<u64>() as f64 / start.elapsed().as_secs_f64())
    };
    let rates: [Vec<f64>; 2] = [
        (0..5).map(|_| over(1)).collect::<Outcome<_>>()?,
        (0..5).map(|_| over(16)).collect::<Outcome<_>>()?,
    ];
    let [single, sixteen] = rates.map(middle);
    print("threads_cores", tapeloom_backend::threads(0).get() as f64, "1");
    print("threads_callers_16_over_1", sixteen / single, "1");
    Ok(())
}

/// Measures convolutional networks: the loss, and the loss with its gradient.
fn network_times(print: Print<'_>) -> Outcome<()> {
    for network in &NETWORKS {
        for dtype in [Dtype::F64, Dtype::F32] {
            let name = format!("networks_{}_{dtype}", network.name);
            let (weights, x) = network.arguments(dtype)?;
            let loss = jit(|(w, x): (Vec<Var>, Var)| (network.loss)(&w, x));
            print(&format!("{name}_ms"), 1e3 * time(|| loss.call((&weights, &x)))?, "ms");
            let step = jit(|(w, x): (Vec<Var>, Var)| {
                value_and_grad(|w: Vec<Var>| (network.loss)(&w, x))(w)
            });
            print(&format!("{name}_grad_ms"), 1e3 * time(|| step.call((&weights, &x)))?, "ms");
            let workspace = step.explain((&weights, &x))?.workspace_bytes();
            print(&format!("{name}_grad_mb"), workspace as f64 / 1e6, "MB");
        }
    }
    Ok(())
}

/// Measures programs whose time depends on where equations are computed, and their gradients. Words on the command line
/// that name no group select rows.
fn cost_times(print: Print<'_>) -> Outcome<()> {
    let words: Vec<String> = words().collect();
    let is_chosen =
        |row: &&CostRow| words.is_empty() || words.iter().any(|w| row.name.contains(w.as_str()));
    for row in COST_ROWS.iter().filter(is_chosen) {
        let arguments = (row.arguments)();
        let value = jit(|v: Vec<Var>| (row.program)(&v));
        print(&format!("cost_{}_us", row.name), 1e6 * time(|| value.call(&arguments))?, "us");
        if row.differentiated > 0 {
            let gradient = jit(|v: Vec<Var>| row.gradient(&v));
            let seconds = time(|| gradient.call(&arguments))?;
            print(&format!("cost_{}_grad_us", row.name), 1e6 * seconds, "us");
        }
    }
    Ok(())
}

/// Measures factorizations, solves, likelihoods and Fourier transforms.
fn linear_algebra_times(print: Print<'_>) -> Outcome<()> {
    for (name, f) in linear_algebra::ROUTINES {
        for (batch, n) in linear_algebra::SIZES {
            let a = linear_algebra::matrices(batch, n)?;
            let size = batch.map_or(n.to_string(), |batch| format!("{batch}x{n}"));
            let (value, gradient) = (jit(f), jit(grad(f)));
            print(&format!("linalg_{name}_{size}_us"), time(|| value.call(&a))? * 1e6, "us");
            print(
                &format!("linalg_{name}_{size}_grad_us"),
                time(|| gradient.call(&a))? * 1e6,
                "us",
            );
        }
    }
    for n in [200, 1000] {
        let arguments = linear_algebra::gaussian_process_arguments(n)?;
        let process = jit(value_and_grad(linear_algebra::gaussian_process));
        print(&format!("linalg_gp_{n}_grad_ms"), time(|| process.call(&arguments))? * 1e3, "ms");
    }
    let arguments = linear_algebra::kalman_arguments(10_000)?;
    let filter = jit(value_and_grad(linear_algebra::kalman));
    print("linalg_kalman_grad_ms", time(|| filter.call(&arguments))? * 1e3, "ms");
    for n in [1 << 10, 1 << 16, 1_000_000] {
        let x = run(move |()| arange(n, Dtype::F64).sin(), ())?;
        let z = Complex { re: x.clone(), im: x.clone() };
        let (half, whole) = (jit(|x: Var| fft::rfft(x, -1)), jit(|z: Complex| fft::fft(z, -1)));
        print(&format!("fft_{n}_us"), time(|| whole.call(&z))? * 1e6, "us");
        print(&format!("rfft_{n}_us"), time(|| half.call(&x))? * 1e6, "us");
    }
    let x = run(|()| arange(512 * 512, Dtype::F64).sin().reshape([512, 512]), ())?;
    let z = Complex { re: x.clone(), im: x };
    let plane = jit(|z: Complex| fft::fft2(z));
    print("fft2_512_us", time(|| plane.call(&z))? * 1e6, "us");
    Ok(())
}

/// Measures differential equations: errors, times of values and of gradients.
fn equations(print: Print<'_>) -> Outcome<()> {
    for problem in MEASURED {
        let name = problem.name;
        let rates = Tensor::from(problem.rates.to_vec());
        let value = jit(problem.solve);
        let gradient = jit(|(rates, tolerance): (Var, Var)| {
            grad(|rates: Var| (problem.solve)((rates, tolerance)).sum())(rates)
        });
        let start = Instant::now();
        value.call((&rates, 1e-4))?;
        print(&format!("equations_{name}_compile_ms"), start.elapsed().as_secs_f64() * 1e3, "ms");
        for tolerance in [1e-4, 1e-6, 1e-8, 1e-10] {
            let of = |what: &str| format!("equations_{name}_{tolerance:e}_{what}");
            let found = value.call((&rates, tolerance))?;
            let off = found.numbers().zip(problem.want).map(|(y, want)| (y / want - 1.0).abs());
            print(&of("error"), off.fold(0.0, f64::max), "1");
            print(&of("us"), time(|| value.call((&rates, tolerance)))? * 1e6, "us");
            print(&of("grad_us"), time(|| gradient.call((&rates, tolerance)))? * 1e6, "us");
        }
    }
    Ok(())
}

/// Returns the median time of a call in seconds, from calls over one second but at least three; short calls are timed
/// in samples of a hundred.
fn time<T>(call: impl Fn() -> Result<T, tapeloom::Error>) -> Outcome<f64> {
    let once = || -> Outcome<()> {
        call()?;
        Ok(())
    };
    let rough = median(1, 1, once)?;
    let batch = if rough < 1e-4 { 100 } else { 1 };
    median(((1.0 / (rough * batch as f64)) as usize).clamp(3, 15), batch, once)
}

/// Returns the median of a list of times.
fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the gradient of x sin x, a scalar function.
fn scalar() -> impl Fn(Var) -> Var {
    grad(|x: Var| x.sin() * x)
}

fn scalar_call() -> Outcome<f64> {
    let f = jit(scalar());
    let x = Tensor::from(0.5);
    let call = || {
        f.call(&x)?;
        Ok(())
    };
    Ok(1e9 * median(101, 10_000, call)?)
}

/// Returns the time in nanoseconds of a call that allocates nothing: a `Compiled`, which skips the search for a
/// program, writes to existing results.
fn scalar_call_into() -> Outcome<f64> {
    let x = Tensor::from(0.5);
    let f = jit(scalar()).compile(&x)?;
    let mut y = f.call(&x)?;
    let call = || {
        f.call_into(&x, &mut y)?;
        Ok(())
    };
    Ok(1e9 * median(101, 10_000, call)?)
}

/// Measures steps of Adam that allocate new results, that write to results of the step before, and that update donated
/// arguments in place.
fn adam_steps(print: Print<'_>) -> Outcome<()> {
    let adam = optim::adam(1e-3);
    let init = jit(|w: Var| (w, adam.init(&w)));
    let step = jit(|((w, state), x): ((Var, optim::State<optim::Adam, Var>), Var)| {
        let slope = grad(|w: Var| (w * x - 1.0).square().mean())(w);
        adam.step(&slope, &state, &w)
    });
    for n in [10_000, 100_000, 1_000_000, 10_000_000] {
        let (w, x) = (Tensor::zeros(&[n], Dtype::F32)?, Tensor::full(&[n], 2.0_f32)?);
        let mut now = init.call(&w)?;
        let (mut before, mut next) = (now.clone(), step.call((&now, &x))?);
        let mut donated = Some(step.call((&now, &x))?);
        let addresses = |state: &Option<_>| {
            let mut all = Vec::new();
            Tree::<Tensor>::leaves(state, &mut |x: &Tensor| {
                if x.elements() == n {
                    all.push(x.address());
                }
            });
            all
        };
        let memory = addresses(&donated);
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        let batch = (3_000_000 / n).max(1);
        // Run the kinds of calls in turns, so that a change of the machine's speed affects all of them alike.
        for _ in 0..9 {
            times[0].push(median(1, batch, || {
                now = step.call((&now, &x))?;
                Ok(())
            })?);
            times[1].push(median(1, batch, || {
                step.call_into((&before, &x), &mut next)?;
                std::mem::swap(&mut before, &mut next);
                Ok(())
            })?);
            times[2].push(median(1, batch, || {
                let state = donated.take().ok_or("a step failed")?;
                donated = Some(step.call_donating((state, &x))?);
                Ok(())
            })?);
        }
        for (name, times) in ["call", "into", "donating"].iter().zip(times) {
            print(&format!("adam_{n}_{name}_ns"), 1e9 * middle(times) / n as f64, "ns");
        }
        let moved = memory.iter().zip(addresses(&donated)).filter(|(a, b)| **a != *b).count();
        print(&format!("adam_{n}_moved"), moved as f64, "1");
    }
    Ok(())
}

/// Applies `n` scalar operations to `x`, unrolled by a loop in Rust.
fn chain(x: Var, n: usize) -> Var {
    (0..n / 4).fold(x, |y, i| (y * (1.0 + 1e-6 * i as f64)).sin() * 0.5 + x)
}

/// Compiles the gradient of [`chain`] and runs it once; returns the milliseconds of each stage of compilation.
fn unrolled(n: usize) -> Outcome<Vec<(&'static str, f64)>> {
    let f = jit(grad(move |x| chain(x, n)));
    let x = Tensor::from(0.5);
    let explanation = f.explain(&x)?;
    let mut stages =
        vec![("trace", 0.0), ("transform", 0.0), ("simplify", 0.0), ("lower", 0.0), ("code", 0.0)];
    for (name, time) in explanation.timings() {
        // The benchmark has one row for simplification, which sums the times of all stages between transforms and
        // lowering.
        let i = stages.iter().position(|s| s.0 == name).unwrap_or(2);
        stages[i].1 += time.as_secs_f64() * 1e3;
    }
    let slope = f.call(&x)?.item::<f64>()?;
    if !slope.is_finite() {
        return Err("the gradient of the chain is not finite".into());
    }
    Ok(stages)
}

/// Returns numbers in `[0, 1)` from a linear congruential generator with a fixed seed.
fn uniform(n: usize) -> Vec<f64> {
    let mut state = 31_337_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..n).map(|_| next()).collect()
}

fn rows(rows: usize, columns: usize) -> Vec<Vec<f64>> {
    uniform(rows * columns).chunks(columns.max(1)).map(<[f64]>::to_vec).take(rows).collect()
}

/// A row of the GradBench measurements: its name, the eval (a benchmark of the suite), the functions for the objective
/// and the gradient, and the input.
type Row = (String, &'static str, &'static str, &'static str, Value);

/// Returns the measured functions of GradBench's evals, with inputs.
fn evals() -> Outcome<Vec<Row>> {
    let (d, k, n) = (10, 50, 1000);
    let points = rows(10_000, 8);
    let mut all = vec![
        ("lse".to_owned(), "lse", "primal", "gradient", json!({"x": uniform(100_000)})),
        ("llsq".to_owned(), "llsq", "primal", "gradient", json!({"x": uniform(128), "n": 4096})),
        (
            "kmeans".to_owned(),
            "kmeans",
            "cost",
            "dir",
            json!({"points": points, "centroids": points[..100]}),
        ),
        (
            "gmm".to_owned(),
            "gmm",
            "objective",
            "jacobian",
            json!({
                "d": d, "k": k, "n": n, "m": 0, "gamma": 1.0,
                "x": rows(n, d), "alpha": uniform(k), "mu": rows(k, d), "q": rows(k, d),
                "l": rows(k, d * (d - 1) / 2),
            }),
        ),
        (
            "ba".to_owned(),
            "ba",
            "objective",
            "jacobian",
            json!({
                "n": 49, "m": 7776, "p": 31843, "w": 0.417022,
                "cam": [-0.758453, -1.109613, -0.845551, 34.556073, 39.676747, 53.881673,
                        419.194514, 5.864426, -8.51887, 0.087812, 0.002739],
                "x": [7.203245, 0.001144, 3.023326], "feat": [271.760969, 834.209256],
            }),
        ),
        ("ht".to_owned(), "ht", "objective", "jacobian", recorded("ht_c")?),
        ("saddle".to_owned(), "saddle", "ff", "rr", json!({"start": [1.0, 1.0]})),
        ("particle".to_owned(), "particle", "ff", "rr", json!({"w": 0.0})),
    ];
    // The name of a benchmark's row contains the sizes of its input, except for the first input that is measured.
    let named = |eval: &str, sizes: &[usize], first: bool| match first {
        true => eval.to_owned(),
        false => {
            format!("{eval}_{}", sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("x"))
        }
    };
    for (i, [n, s]) in
        [[1000, 100], [100, 100], [10_000, 100], [1000, 1000]].into_iter().enumerate()
    {
        let input = json!({"x": uniform(n), "s": s});
        all.push((named("ode", &[n, s], i == 0), "ode", "primal", "gradient", input));
    }
    for (i, [l, c]) in [[2, 1024], [1, 100], [4, 1024], [2, 4096]].into_iter().enumerate() {
        let b = 14;
        let bits: Vec<Vec<f64>> =
            rows(c, b).into_iter().map(|r| r.into_iter().map(f64::round).collect()).collect();
        let input = json!({
            "main_params": rows(2 * l, 4 * b), "extra_params": rows(3, b), "state": rows(2 * l, b),
            "sequence": bits,
        });
        all.push((named("lstm", &[l, c], i == 0), "lstm", "objective", "jacobian", input));
    }
    for (i, n) in [9, 5, 7].into_iter().enumerate() {
        let input = json!({"A": uniform(n * n), "ell": n});
        all.push((named("det", &[n], i == 0), "det", "primal", "gradient", input));
    }
    Ok(all)
}

/// Returns the input of the first request in the recorded conversation of an eval.
fn recorded(name: &str) -> Outcome<Value> {
    let path = format!("{}/data/gradbench/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    for line in std::fs::read_to_string(path)?.lines() {
        let mut entry: Value = serde_json::from_str(line)?;
        if entry["message"]["kind"] == "evaluate" {
            return Ok(entry["message"]["input"].take());
        }
    }
    Err("nothing is recorded".into())
}

/// Returns the median time in seconds of a run of a function of an eval.
fn seconds(eval: &str, function: &str, input: &Value) -> Outcome<f64> {
    let mut input = input.clone();
    input["min_runs"] = json!(15);
    input["min_seconds"] = json!(0.2);
    let message =
        json!({"id": 0, "kind": "evaluate", "module": eval, "function": function, "input": input});
    let answer = gradbench::answer(&message);
    let timings = answer["timings"].as_array().ok_or_else(|| answer["error"].to_string())?;
    let evaluate = timings.iter().filter(|t| t["name"] == "evaluate");
    let mut times: Vec<f64> = evaluate.filter_map(|t| t["nanoseconds"].as_f64()).collect();
    times.sort_by(f64::total_cmp);
    Ok(times.get(times.len() / 2).ok_or("no timings")? * 1e-9)
}

/// Returns the mixture of five components that is fitted, and two hundred points in the plane.
fn fit_data() -> Outcome<(gradbench::Mixture<Tensor>, Tensor)> {
    let (k, d, n) = (5, 2, 200);
    let table =
        |rows: usize, columns: usize| Tensor::new(&[rows, columns], uniform(rows * columns));
    let mixture = gradbench::Mixture {
        alpha: Tensor::from(uniform(k)),
        mu: table(k, d)?,
        q: table(k, d)?,
        l: table(k, 1)?,
    };
    Ok((mixture, table(n, d)?))
}

/// Computes one step of gradient descent on the parameters of the mixture, and the objective.
fn fit((p, x): (gradbench::Mixture<Var>, Var)) -> (Var, gradbench::Mixture<Var>) {
    let n = x.len() as f64;
    let loss = |p: gradbench::Mixture<Var>| -gradbench::gmm_objective(&p, x, 1.0, 0) / n;
    let (value, g) = value_and_grad(loss)(p.clone());
    let next = gradbench::Mixture {
        alpha: p.alpha - 1e-3 * g.alpha,
        mu: p.mu - 1e-3 * g.mu,
        q: p.q - 1e-3 * g.q,
        l: p.l - 1e-3 * g.l,
    };
    (value, next)
}

fn fit_step() -> Outcome<f64> {
    let (mixture, x) = fit_data()?;
    let step = jit(fit);
    let call = || {
        step.call((&mixture, &x))?;
        Ok(())
    };
    Ok(1e3 * median(101, 20, call)?)
}
