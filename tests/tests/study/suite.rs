//! The suite's nine kernels and their gradients must agree with versions written by hand.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom_tests::suite::{Array, Form, Inputs, KERNELS, Kept, Kernel, READINGS, WAYS, Way};
use tapeloom_tests::{Agreement, Sweep};

fn all() -> impl Iterator<Item = &'static Kernel> {
    KERNELS.iter().chain(READINGS)
}

/// Compares value and gradients of a kernel, natively or interpreted and under a policy, with those by hand.
fn agree(kernel: &Kernel, size: &'static [usize], way: &Way, interpreted: bool) {
    let inputs = (kernel.inputs)(size);
    let (variables, data, seed) = kernel.arguments(&inputs).unwrap();
    let f = jit((way.gradient)(kernel, size));
    let f = if interpreted { f.interpreted() } else { f };
    let got = f.call((&variables, &data, &seed));
    let (value, gradients) = got.unwrap_or_else(|e| panic!("{kernel}, {}: {e}", way.name));
    let by_hand = (kernel.by_hand)(size, &inputs);
    let check = |what: &str, got: &Tensor, want: &Vec<f64>| {
        let want = Tensor::new(got.shape(), want.clone()).unwrap();
        let close = Agreement::CLOSE.check(got, &want);
        let short = |e: String| e[..e.len().min(1000)].to_owned();
        close.unwrap_or_else(|e| panic!("{kernel}, {}, {what}: {}", way.name, short(e)));
    };
    check("value", &value, &by_hand.value);
    assert_eq!(gradients.len(), by_hand.gradients.len(), "{kernel}");
    for (i, (got, want)) in gradients.iter().zip(&by_hand.gradients).enumerate() {
        check(&format!("gradient {i}"), got, want);
    }
}

#[test]
fn small_ones_agree_on_both_engines() {
    for kernel in Sweep::Suite.all(all()) {
        for way in WAYS {
            agree(kernel, kernel.sizes.test, way, true);
            agree(kernel, kernel.sizes.test, way, false);
        }
    }
}

#[test]
fn those_of_the_study_agree() {
    for kernel in all() {
        agree(kernel, kernel.sizes.study, &WAYS[0], false);
    }
}

/// The gradients by hand must predict the change of the value along a direction.
#[test]
fn gradients_by_hand_are_slopes() {
    for kernel in all() {
        let size = kernel.sizes.test;
        let inputs = (kernel.inputs)(size);
        let along = |k: usize, i: usize| (1.0 + 3.0 * k as f64 + i as f64).sin();
        let objective = |step: f64| {
            let moved = |(k, x): (usize, &Array)| {
                let at = |i: usize| x.numbers[i] + step * along(k, i);
                Array::of(&x.shape, at)
            };
            let variables = inputs.variables.iter().enumerate().map(moved).collect();
            let inputs = Inputs { variables, data: inputs.data.clone(), seed: inputs.seed.clone() };
            let value = (kernel.by_hand)(size, &inputs).value;
            value.iter().zip(&inputs.seed.numbers).map(|(y, ct)| y * ct).sum::<f64>()
        };
        let h = 1e-6;
        let want = (objective(h) - objective(-h)) / (2.0 * h);
        let gradients = (kernel.by_hand)(size, &inputs).gradients;
        let got: f64 = (gradients.iter().enumerate())
            .flat_map(|(k, g)| g.iter().enumerate().map(move |(i, g)| g * along(k, i)))
            .sum();
        let scale = want.abs().max(1.0);
        assert!(
            (got - want).abs() < 1e-6 * scale,
            "{kernel}: by hand {got}, by differences {want}"
        );
    }
}

/// The kernel logsum, as the TapeFlow study changed it, must have the gradient 2 - n for the first element and 1 for
/// all others.
#[test]
fn slopes_of_a_logarithm_of_a_product() {
    let kernel = KERNELS.iter().find(|k| k.name == "logsum").unwrap();
    let size = kernel.sizes.study;
    let (variables, data, seed) = kernel.arguments(&(kernel.inputs)(size)).unwrap();
    let (_, slopes) = jit(kernel.gradient(size)).call((&variables, &data, &seed)).unwrap();
    let mut want = vec![1.0; size[0]];
    want[0] = 2.0 - size[0] as f64;
    Agreement::CLOSE.check(&slopes[0], &Tensor::from(want)).unwrap();
}

/// The residuals of the nine kernels as the TapeFlow study changed them, at the study's sizes, must together be at most
/// 900,000 bytes: near the current size, so that growth is noticed.
#[test]
fn residuals_of_all_kernels_stay_small() {
    let mut sum = 0;
    for kernel in KERNELS.iter().filter(|k| k.form == Form::Mutated) {
        let size = kernel.sizes.study;
        let inputs = (kernel.inputs)(size);
        let kept = Kept::of(kernel.gradient(size), &kernel.arguments(&inputs).unwrap()).unwrap();
        let by_hand = (kernel.by_hand)(size, &inputs).tape;
        println!("{:24} {:>10} bytes, by hand {by_hand}", kernel.to_string(), kept.bytes());
        sum += kept.bytes();
    }
    println!("{sum} bytes in all");
    assert!(sum <= 900_000, "{sum} bytes");
}

/// The number of lenet's residuals must equal the number in the tables of the TapeFlow paper's authors. Each product of
/// an input and a weight saves two numbers, or one if the input is not differentiated. In the last two layers, each
/// iteration of the outer loop saves one weight, which all iterations of its inner loop read.
#[test]
fn residuals_of_lenet_equal_the_authors() {
    let kernel = KERNELS.iter().find(|k| k.name == "lenet" && k.form == Form::Mutated).unwrap();
    let size = kernel.sizes.study;
    let given = kernel.arguments(&(kernel.inputs)(size)).unwrap();
    let kept = Kept::of(kernel.under(size, Policy::Aliased), &given).unwrap();
    assert_eq!(kept.planned, 8 * 43_944);
}

/// The textbook pathfinder must save the direction of each step in two bits per cell, if a budget asks for packing; each
/// row of bits is packed by the iteration that computes it.
#[test]
fn a_way_down_a_grid_takes_two_bits_a_cell() {
    let kernel =
        KERNELS.iter().find(|k| k.name == "pathfinder" && k.form == Form::Textbook).unwrap();
    let size = kernel.sizes.study;
    let given = kernel.arguments(&(kernel.inputs)(size)).unwrap();
    let kept = |f| Kept::of(f, &given).unwrap().planned;
    let cells = (size[0] - 1) * size[1];
    assert_eq!(kept(kernel.gradient(size)), 2 * cells);
    // Each row of 100 cells saves two masks of 100 bits, each in four words of 32 bits, 16 bytes.
    assert_eq!(kept(kernel.under(size, Policy::Bytes(8_000))), 2 * (size[0] - 1) * 16);
    // The pathfinder that the TapeFlow study changed also saves the costs of the chosen cells, but no masks, which can
    // be computed from the column.
    let mutated =
        KERNELS.iter().find(|k| k.name == "pathfinder" && k.form == Form::Mutated).unwrap();
    let of_mutated = mutated.arguments(&(mutated.inputs)(size)).unwrap();
    let within = Kept::of(mutated.under(size, Policy::Bytes(90_000)), &of_mutated).unwrap();
    assert_eq!(within.planned, 8 * cells + 2 * (size[0] - 1) * 16);
    // `Policy::Everything` models another system, so it must not pack bits.
    assert!(kept(kernel.under(size, Policy::Everything)) >= 2 * cells);
    let arguments = (&given.0, &given.1, &given.2);
    let (value, gradients) = jit(kernel.gradient(size)).call(arguments).unwrap();
    let (again, others) = jit(kernel.under(size, Policy::Bytes(8_000))).call(arguments).unwrap();
    Agreement::Exact.check(&again, &value).unwrap();
    Agreement::Exact.check_all(&others, &gradients).unwrap();
}

/// `Policy::Rounded` must save the same residuals in half the bytes, for the two kernels with many residuals in loops.
#[test]
fn rounding_halves_the_residuals() {
    for kernel in KERNELS.iter().filter(|k| ["somier", "mass spring"].contains(&k.name)) {
        let size = kernel.sizes.study;
        let given = kernel.arguments(&(kernel.inputs)(size)).unwrap();
        let [all, half] = [Policy::Planned, Policy::Rounded]
            .map(|policy| Kept::of(kernel.under(size, policy), &given).unwrap().planned);
        println!("{:24} {all:>10} bytes, rounded {half}", kernel.to_string());
        // Masks and indices are not rounded, so they may add a fiftieth to half of the bytes.
        assert!(2 * half <= all + all / 50, "{kernel}: {all} {half}");
    }
}

/// With a budget of 8,000 bytes, far below the default tape, values and gradients of every kernel must have the same
/// bits.
#[test]
fn eight_thousand_bytes_are_enough() {
    let budget = 8_000;
    let mut sum = 0;
    for kernel in KERNELS.iter().filter(|k| k.form == Form::Mutated) {
        let size = kernel.sizes.study;
        let arguments = kernel.arguments(&(kernel.inputs)(size)).unwrap();
        let within = || kernel.under(size, Policy::Bytes(budget));
        let kept = Kept::of(within(), &arguments).unwrap_or_else(|e| panic!("{kernel}: {e}"));
        println!("{:24} {:>10} bytes", kernel.to_string(), kept.bytes());
        assert!(kept.bytes() as u64 <= budget, "{kernel}: {} bytes", kept.bytes());
        sum += kept.bytes();
        let arguments = (&arguments.0, &arguments.1, &arguments.2);
        let (value, gradients) = jit(kernel.gradient(size)).call(arguments).unwrap();
        let (again, others) = jit(within()).call(arguments).unwrap();
        Agreement::Exact.check(&again, &value).unwrap();
        Agreement::Exact.check_all(&others, &gradients).unwrap_or_else(|e| panic!("{kernel}: {e}"));
    }
    println!("{sum} bytes in all");
}

/// If the residuals of a loop do not fit in the cache, the default plan must recompute them, because saving costs
/// memory traffic: somier saves residuals for 10 points per axis and none for 40. `Policy::Everything` saves residuals
/// in every iteration.
#[test]
fn residuals_beyond_the_cache_are_recomputed() {
    let of =
        |name: &str| KERNELS.iter().find(|k| k.name == name && k.form == Form::Mutated).unwrap();
    let kept = |kernel: &Kernel, size, policy| {
        let given = kernel.arguments(&(kernel.inputs)(size)).unwrap();
        Kept::of(kernel.under(size, policy), &given).unwrap().planned
    };
    let somier = of("somier");
    assert_eq!(kept(somier, &[10], Policy::Planned), 6 * 8 * 8 * 8 * 8);
    assert_eq!(kept(somier, &[40], Policy::Planned), 0);
    let mttkrp = of("mttkrp");
    assert_eq!(kept(mttkrp, mttkrp.sizes.study, Policy::Planned), 0);
    assert!(kept(mttkrp, mttkrp.sizes.study, Policy::Everything) >= 3 * 8 * 8 * 8 * 8 * 8);
}

/// In nn's loops over labels and pixels, each pass must divide a pixel once, not once per label: the quotients are in
/// memory for one statement of the program, and are no tape.
#[test]
fn quotients_are_computed_once_per_pixel() {
    const SIZE: &[usize] = &[1 << 15, 10];
    let kernel = KERNELS.iter().find(|k| k.name == "nn" && k.form == Form::Mutated).unwrap();
    let (variables, data, seed) = kernel.arguments(&(kernel.inputs)(SIZE)).unwrap();
    let e = jit(kernel.gradient(SIZE)).explain((&variables, &data, &seed)).unwrap();
    let plan = e.memory_plan();
    assert_eq!(
        plan.lines().filter(|l| l.contains(" div ") && l.contains("f64[32768]")).count(),
        2,
        "{plan}"
    );
    assert!(e.tape().bytes() < 1000, "{}", e.tape());
    assert_eq!(e.kernels().matches(", 255.0").count(), 2);
}
