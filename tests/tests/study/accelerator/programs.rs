//! Programs of the public API on the simulated machine: results must equal those of machine code on every system, and
//! counted accesses must equal counts by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tapeloom::accelerator::*;
use tapeloom::prelude::*;
use tapeloom::{Kind, Target};
use tapeloom_tests::suite::{Form, KERNELS, WAYS};
use tapeloom_tests::{Agreement, Sweep};

/// Returns a machine with a small cache and window, so that runs are short and caches fill up.
fn small() -> Machine {
    Machine { window: 64, ..Machine::cal().with_cache(1 << 10, 2) }
}

/// Computes MTTKRP, `A[i,j] += B[i,k,l] D[l,j] C[k,j]`, by loops over i, k, l and j, each of n iterations.
fn mttkrp(n: usize, (b, c, d): (Var, Var, Var)) -> Var {
    let innermost = |(i, k, l): (Var, Var, Var), a: Var| {
        let step = |(j, a): (Var, Var)| {
            let bd = b.index((i, k, l)) * d.index((l, j));
            a.at((i, j)).add(bd * c.index((k, j)))
        };
        fori_loop(n, step, a)
    };
    let rows = |(i, a): (Var, Var)| {
        let blocks =
            |(k, a): (Var, Var)| fori_loop(n, |(l, a): (Var, Var)| innermost((i, k, l), a), a);
        fori_loop(n, blocks, a)
    };
    fori_loop(n, rows, zeros([n, n], Dtype::F64))
}

fn inputs(n: usize) -> (Tensor, Tensor, Tensor) {
    let of = |shape: &[usize], from: usize| {
        let elements = shape.iter().product::<usize>();
        let x: Vec<f64> = (from..from + elements).map(|i| (i as f64).sin()).collect();
        Tensor::new(shape, x).unwrap()
    };
    (of(&[n, n, n], 0), of(&[n, n], 1000), of(&[n, n], 2000))
}

#[test]
fn mttkrp_has_the_accesses_of_its_loops() {
    let (b, c, d) = inputs(8);
    let f = jit(|x| mttkrp(8, x)).on(Target::Accelerator(Machine::cal()));
    let (a, statistics) = f.simulate((&b, &c, &d), Machine::cal()).unwrap();
    assert_eq!(a, f.call((&b, &c, &d)).unwrap());
    // Three loads and a store per innermost iteration, one load of B per iteration of the loop around it, and stores of
    // the initial zeros of A.
    let (others, n) = (statistics.forward.others, 8u64.pow(4));
    assert_eq!((others.loads, others.stores), (3 * n + 512, n + 64));
    // The arrays of 5.6 kB fit in the cache, so each cache line is fetched once.
    assert_eq!(others.misses, (512 + 3 * 64) / 8);
    let State { input, output, tape } = statistics.state;
    assert_eq!((input, tape), (8 * (512 + 2 * 64), 0));
    assert!((512..1024).contains(&output), "the result, and counts of loops: {output}");
    // A program without gradient has one phase, printed as one column.
    assert_eq!(statistics.reverse, Counts::default());
    assert!(statistics.to_string().starts_with("Enzyme_32k                all\n"));
}

/// Returns a run configuration of the machine for every system: through the cache only, with a scratchpad, and others.
fn setups(machine: &Machine) -> impl Iterator<Item = RunConfig> {
    System::ALL.into_iter().map(|system| RunConfig { system, ..machine.clone().into() })
}

#[test]
fn gradients_are_the_same_bits_in_all_systems() {
    // The carry of the loops has two arrays: each iteration replaces the first, and adds an element to the second.
    let iterations = |x: Var| {
        let inner = |c: Var| fori_loop(5, |(_, c): (Var, Var)| (c * x).sin() + c * c, c);
        let outer = |(i, (c, sum)): (Var, (Var, Var))| {
            let c = inner(c).tanh();
            (c, sum.at(i).add(c.sum()))
        };
        fori_loop(4, outer, (x, zeros([4], Dtype::F64))).1.prod()
    };
    let x = inputs(3).1;
    let f = jit(grad(iterations));
    let want = f.call(&x).unwrap();
    let mut taped = Vec::new();
    for setup in setups(&small()) {
        let (got, s) = f.simulate(&x, setup).unwrap();
        assert_eq!(got, want);
        let [stores, loads] = [s.forward.taped(), s.reverse.taped()];
        assert!(stores > 0 && loads >= stores, "{s}");
        assert_eq!(s.lifetimes.len() as u64, loads);
        taped.push(loads);
        // Only values that are loaded once go through the scratchpad, so all accesses to it are of streamed values.
        assert_eq!(s.forward.streamed, s.forward.scratchpad.stores);
        assert_eq!(s.reverse.streamed, s.reverse.scratchpad.loads);
    }
    taped.dedup();
    assert_eq!(taped.len(), 1, "{taped:?}");
}

#[test]
fn tapes_are_stored_forward_and_loaded_back() {
    // Each iteration saves two numbers: its element x, which is a factor, and the cosine.
    let chain = |x: Var| scan(|(c, x): (Var, Var)| ((c * x).sin(), c), constant(1.0), x).0;
    let x: Vec<f64> = (0..500).map(|i| 0.01 * i as f64).collect();
    let f = jit(grad(chain));
    let want = f.call(&x).unwrap();
    let of = |system| {
        let (got, s) = f.simulate(&x, RunConfig { system, ..Machine::cal().into() }).unwrap();
        assert_eq!(got, want);
        s
    };
    let (cache, ideal, full) = (of(System::ENZYME), of(System::TFLOW_IDEAL), of(System::TFLOW));
    assert_eq!((cache.forward.tape.stores, cache.reverse.tape.loads), (1000, 1000));
    assert_eq!(cache.state.tape, 8000);
    // A tape layer (the entries that are in the scratchpad at one time) of 32 entries holds 16 iterations, so 500
    // iterations need 32 layers.
    assert_eq!((full.forward.layers, full.reverse.layers, full.tiles), (32, 32, 32));
    for s in [&ideal, &full] {
        assert_eq!((s.forward.tape, s.reverse.tape), Default::default());
        assert_eq!((s.forward.streamed, s.reverse.streamed), (1000, 1000));
        assert_eq!(s.forward.others.loads, cache.forward.others.loads);
    }
    assert!(ideal.ticks() <= full.ticks() && full.ticks() <= cache.ticks() + 64);
    // A tape layer of 7 entries holds three iterations, as for a loop unrolled by three, because no iteration is split.
    let unrolled = RunConfig { system: System::TFLOW, layer: 7, ..Machine::cal().into() };
    let (got, s) = f.simulate(&x, unrolled).unwrap();
    assert_eq!(got, want);
    assert_eq!((s.forward.layers, s.reverse.layers, s.tiles), (167, 167, 34));
}

/// Returns the ticks of a program without a reverse pass, and checks its result.
#[track_caller]
fn ticks(f: impl Fn(Var) -> Var, x: f64) -> u64 {
    let (y, s) = jit(&f).simulate(x, Machine::cal()).unwrap();
    assert_eq!(y, jit(&f).call(x).unwrap());
    assert_eq!(s.reverse, Counts::default());
    s.ticks()
}

/// Returns the number of ticks that a hundred more iterations of `f(iterations, x)` add.
#[track_caller]
fn hundred(f: impl Fn(usize, Var) -> Var) -> u64 {
    ticks(|x| f(300, x), 1.0001) - ticks(|x| f(200, x), 1.0001)
}

#[test]
fn operations_wait_for_the_values_that_they_take() {
    // A product takes four ticks and waits for the product before; the loop's own counter takes one tick, in parallel.
    assert_eq!(hundred(|n, x| fori_loop(n, |(_, x): (Var, Var)| x * x, x)), 400);
    // Two independent chains must run in parallel.
    let both = |n, x: Var| {
        let (a, b) = fori_loop(n, |(_, (a, b)): (Var, (Var, Var))| (a * a, b * b), (x, x + 1e-4));
        a + b
    };
    assert_eq!(hundred(both), 400);
    // The next iteration waits for the loop's condition, a comparison that follows the product and takes one tick.
    let until = |n: usize, x: Var| {
        let more = move |(x, k): (Var, Var)| x.gt(0.0) & k.lt(n as i64);
        while_loop(more, |(x, k): (Var, Var)| (x * 1.0001, k + 1), (x, constant(0i64))).0
    };
    assert!(hundred(until) >= 500, "{}", hundred(until));
    // A fold has one accumulator per vector lane, so terms need not wait for each other.
    let sum = |n: usize, x: Var| (arange(n, Dtype::F64) * x).sum();
    assert!(hundred(sum) < 500 / 2, "{}", hundred(sum));
}

/// Checks that all systems of the simulated machine give the same bits, and agree with machine code to `within`.
#[track_caller]
fn same(within: f64, f: impl Fn(Var) -> Var + Copy, x: &Tensor) {
    let native = jit(f).call(x).unwrap();
    let on_machine = jit(f).on(Target::Accelerator(small()));
    let by_target = on_machine.call(x).unwrap();
    for setup in setups(&small()) {
        let (simulated, _) = on_machine.simulate(x, setup).unwrap();
        assert_eq!(simulated, by_target);
    }
    for (a, b) in native.numbers().zip(by_target.numbers()) {
        assert!((a - b).abs() <= within * a.abs(), "{a} natively, {b} on the accelerator");
    }
}

#[test]
fn programs_of_every_kind_run() {
    let x: Tensor = (0..6).map(|i| 0.3 + (i as f64).sin().abs()).collect();
    // These programs have elementwise operations, folds, and matrix products.
    same(0.0, |x| x.exp().sin() / (1.0 + x), &x);
    same(0.0, |x| (x.sum() * x).max(), &x);
    let products = |x: Var| {
        let m = x.reshape([6, 1]) * x;
        m.dot(m.sin()).dot(x)
    };
    same(1e-12, products, &x);
    same(1e-12, |x| grad(|x: Var| products(x).sum())(x), &x);
    // These programs have branches, loops of run-time trip count with dynamic tapes, and batches.
    let branch = |x: Var| cond(x.sum().gt(1.0), |x: Var| x.sin(), |x: Var| x * x, x);
    same(0.0, branch, &x);
    let iterations = |x: Var| {
        while_loop(
            |x: Var| x.lt(100.0),
            |x: Var| x * x.exp() + cond(x.gt(2.0), |x: Var| x, |x: Var| 1.0 - x, x),
            x,
        )
    };
    same(0.0, |x| map(iterations, x), &x);
    same(0.0, |x| vmap(grad(iterations))(x), &x);
    let nested = |x: Var| fori_loop(5, |(_, x): (Var, Var)| x + iterations(x).ln(), x);
    same(0.0, |x| map(grad(nested), x), &x);
    same(0.0, |x| map(grad(grad(nested)), x), &x);
    // Each layer of this program is in a checkpoint, so the reverse pass recomputes it.
    let layers = |x: Var| {
        (0..6).fold(x, |x, _| checkpoint(|x: Var| (x * x.sin()).tanh(), Policy::Nothing)(x))
    };
    same(0.0, |x| grad(|x: Var| layers(x).sum())(x), &x);
    // These programs have an outlined function, a sort, and mutable state.
    let outlined = |x: Var| {
        let f = outline(|x: Var| x.sort(0) * x);
        f(f(f(x)))
    };
    same(0.0, outlined, &x);
    let state = |x: Var| {
        let r = Ref::new(x);
        let step = |(i, c): (Var, Var)| {
            r.at(i).add(c);
            2.0 * c
        };
        fori_loop(3, step, constant(1.0));
        r.get()
    };
    same(0.0, state, &x);
    same(0.0, |x| grad(|x: Var| state(x * x).prod())(x), &x);
}

#[test]
fn callbacks_are_made_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let f = jit(grad(move |x: Var| {
        let count = count.clone();
        let seen = move |x: Var| {
            let count = count.clone();
            tap(x, move |_: Tensor| {
                count.fetch_add(1, Ordering::Relaxed);
            })
        };
        fori_loop(4, |(_, x): (Var, Var)| seen(x).sin(), x)
    }));
    for setup in setups(&small()) {
        calls.store(0, Ordering::Relaxed);
        let (_, s) = f.simulate(0.5, setup).unwrap();
        assert!(s.reverse.ticks > 0);
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }
}

#[test]
fn machines_that_cannot_be_are_errors_of_the_call() {
    let machine = Machine { ways: 3, ..Machine::cal() };
    let error = jit(|x: Var| x).simulate(1.0, machine.clone()).unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
    let error = jit(|x: Var| x).on(Target::Accelerator(machine)).call(1.0).unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
    assert!(error.to_string().contains("is not made of sets of 3 lines"), "{error}");
    // A machine must state the energy of an access for its size of cache.
    let error = jit(|x: Var| x).simulate(1.0, Machine::cal().with_cache(64, 1)).unwrap_err();
    assert!(error.to_string().contains("`energies` has 1024, "), "{error}");
    assert!(error.to_string().contains(" bytes, and no cache of 64"), "{error}");
    let refused = |setup: RunConfig, why: &str| {
        let error = jit(|x: Var| x).simulate(1.0, setup).unwrap_err();
        assert_eq!(error.kind(), Kind::Target);
        assert!(error.to_string().contains(why), "{error}");
    };
    let cal = || RunConfig::from(Machine::cal());
    refused(RunConfig { unroll: vec![2, 0], ..cal() }, "`unroll` takes factors from 1 on, got 0");
    let map = |map| RunConfig { map, ..cal() };
    let word = AddressMap { word: 3, ..AddressMap::default() };
    refused(map(word), "`word` must be 1, 2, 4 or 8 bytes, got 3");
    let tape = AddressMap { tape: u64::MAX, ..AddressMap::default() };
    refused(map(tape), "`tape` must be 0 to 281474976710656, got 18446744073709551615");
    let fixed = AddressMap { fixed: vec![(Place::Input(0), u64::MAX)], ..AddressMap::default() };
    refused(map(fixed), "`fixed` must be 0 to");
    let error = jit(|x: Var| x).interpreted().simulate(1.0, small()).unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
}

#[test]
fn the_nine_kernels_run_on_every_system() {
    let mut streamed = 0;
    for kernel in KERNELS.iter().filter(|kernel| kernel.form == Form::Mutated) {
        let size = kernel.sizes.test;
        let inputs = (kernel.inputs)(size);
        let (variables, data, seed) = kernel.arguments(&inputs).unwrap();
        let f = jit((WAYS[0].gradient)(kernel, size));
        let by_machine = |setup| f.simulate((&variables, &data, &seed), setup).unwrap();
        // lenet, the largest kernel, runs on one system only, to save time.
        let few = if kernel.name == "lenet" { 1 } else { 5 };
        let (want, cached) = by_machine(RunConfig { system: System::TFLOW, ..small().into() });
        for setup in setups(&small()).take(few) {
            let (got, s) = by_machine(setup);
            assert_eq!(got, want, "{kernel}, {}", s.system);
            let taped = |s: &Statistics| (s.forward.taped(), s.reverse.taped());
            assert_eq!(taped(&s), taped(&cached), "{kernel}, {}", s.system);
        }
        streamed += usize::from(cached.reverse.streamed > 0);
        let native = f.call((&variables, &data, &seed)).unwrap();
        let close = |a: &Tensor, b: &Tensor| {
            Agreement::relative(1e-12).check(a, b).unwrap_or_else(|e| panic!("{kernel}: {e}"));
        };
        close(&native.0, &want.0);
        native.1.iter().zip(&want.1).for_each(|(a, b)| close(a, b));
    }
    assert!(streamed >= 5, "{streamed}");
}

#[test]
fn unrolled_loops_compute_the_same_bits_with_no_more_accesses() {
    let kernels = KERNELS.iter().filter(|kernel| kernel.form == Form::Mutated);
    for kernel in Sweep::Unrolled.all(kernels) {
        let size = kernel.sizes.test;
        let (variables, data, seed) = kernel.arguments(&(kernel.inputs)(size)).unwrap();
        let machine = Machine { entries: 4096, ..small() };
        let written = Target::Accelerator(machine.clone());
        let f = jit(kernel.under(size, Policy::Aliased)).on(written);
        let on = |system, unroll: &[u64], overlap| {
            let (unroll, layer) = (unroll.to_vec(), if overlap { 1 } else { u64::MAX });
            let mirrored = overlap;
            let setup =
                RunConfig { system, unroll, overlap, layer, mirrored, ..machine.clone().into() };
            f.simulate((&variables, &data, &seed), setup).unwrap()
        };
        let count = |s: &Statistics| {
            let phases = [&s.forward, &s.reverse];
            phases.iter().map(|c| c.others.count() + c.taped()).sum::<u64>()
        };
        let (want, as_written) = on(System::ENZYME, &[], false);
        let most: &[u64] = if kernel.name == "lenet" { &[2] } else { &[u64::MAX; 4] };
        for (unroll, overlap) in [(&[2][..], true), (&[3, 2], false), (most, true), (most, false)] {
            for system in [System::ENZYME, System::TFLOW] {
                let (got, s) = on(system, unroll, overlap);
                assert_eq!(got, want, "{kernel} by {unroll:?}, {}", s.system);
                let (few, all) = (count(&s), count(&as_written));
                // If arrays may overlap, unrolled code rereads arguments after stores. So the test that unrolling adds
                // no accesses holds only without overlap.
                assert!(overlap || few <= all, "{kernel} by {unroll:?}: {few}, {all}");
            }
        }
    }
}

/// Computes a convolution along rows by three nested loops.
fn convolution([rows, places, taps]: [usize; 3], x: Var) -> Var {
    let (v, w) = (x.reshape([rows, places + taps]), x.slice_axis(0, 0..taps).sin());
    let tap = |i: Var, j: Var| {
        move |(t, a): (Var, Var)| a.at((i, j)).add(w.index(t) * v.index((i, j + t)))
    };
    let place = |i: Var| move |(j, a): (Var, Var)| fori_loop(taps, tap(i, j), a);
    let row = |(i, a): (Var, Var)| fori_loop(places, place(i), a);
    let a = fori_loop(rows, row, zeros([rows, places], Dtype::F64));
    (a * a).sum()
}

#[test]
fn convolutions_run_unrolled_and_mirrored() {
    for extents in [[3, 2, 17], [2, 3, 9], [1, 1, 9], [1, 1, 1]] {
        let [rows, places, taps] = extents;
        let x: Tensor = (0..rows * (places + taps)).map(|i| 0.5 + (i as f64).sin()).collect();
        let f = checkpoint(move |x: Var| convolution(extents, x), Policy::Aliased);
        let f = jit(grad(f)).on(Target::Accelerator(small()));
        let want = f.call(&x).unwrap();
        for setup in setups(&small()) {
            for unroll in [vec![2], vec![8], vec![8, 2, 2]] {
                for mirrored in [false, true] {
                    let setup = RunConfig { unroll: unroll.clone(), mirrored, ..setup.clone() };
                    let (got, _) = f.simulate(&x, setup).unwrap();
                    assert_eq!(got, want, "{extents:?}, {unroll:?}");
                }
            }
        }
    }
}

/// Runs a loop program, whose second statement reads the tape of the first, on every system: results must be the same,
/// and with a scratchpad this number of tape entries must be streamed through it.
#[track_caller]
fn streams(text: &str, streamed: u64) {
    let program = tapeloom_backend::loop_ir::parse(text, &|_| None).unwrap();
    let x: Vec<f64> = (0..192).map(|i| (i as f64).sin()).collect();
    let x = Tensor::new(&[192], x).unwrap();
    let mut results = Vec::new();
    for setup in setups(&small()) {
        let scratchpad = matches!(setup.system.tape, Route::Scratchpad { .. });
        let (y, s) = simulate(&program, std::slice::from_ref(&x), &setup).unwrap();
        let expected = if scratchpad { streamed } else { 0 };
        assert_eq!((s.forward.streamed, s.reverse.streamed), (expected, expected), "{s}");
        results.push(y);
    }
    results.dedup();
    assert_eq!(results.len(), 1);
}

fn kept(store: &str, load: &str) -> String {
    format!(
        "program @kept {{
  workspace 1536
  buffer b0: f64[192] input 0
  buffer b1: f64[192] output 0
  buffer b2: f64[192] workspace 0 kept tape
  for i0 in 64 {{
    for i1 in 3 {{
      %0: f64 = load b0[i0*3 + i1]
      store b2[{store}], %0
    }}
  }}
  for i2 in 64 {{
    for i3 in 3 {{
      %1: f64 = load b2[{load}]
      store b1[i2*3 + i3], %1
    }}
  }}
}}"
    )
}

/// Returns a loop program whose first loop saves two arrays as tape, followed by the reverse pass `back`.
fn two_kept(back: &str) -> String {
    format!(
        "program @two {{
  workspace 3072
  buffer b0: f64[192] input 0
  buffer b1: f64[192] output 0
  buffer b2: f64[192] output 1
  buffer b3: f64[192] workspace 0 kept tape
  buffer b4: f64[192] workspace 1536 kept tape
  for i0 in 192 {{
    %0: f64 = load b0[i0]
    store b3[i0], %0
    %1: f64 = neg %0
    store b4[i0], %1
  }}
{back}}}"
    )
}

/// If two statements read the tape of one loop, the tape must be two streams, each as long as the statement that reads
/// it.
#[test]
fn a_tape_with_two_readers_is_two_streams() {
    let back = "  for i1 in 192 {
    %2: f64 = load b3[i1*-1 + 191]
    store b1[i1], %2
  }
  for i2 in 192 {
    %3: f64 = load b4[i2*-1 + 191]
    store b2[i2], %3
  }
";
    streams(&two_kept(back), 384);
}

#[test]
fn tapes_are_streamed_last_in_first_out_or_first_in_first_out() {
    streams(&kept("i0*3 + i1", "i2*-3 + i3*-1 + 191"), 192);
    streams(&kept("i0*3 + i1", "i2*3 + i3"), 192);
    // The outer loop reads in order and the inner one backward, and vice versa.
    streams(&kept("i0*3 + i1", "i2*3 + i3*-1 + 2"), 192);
    streams(&kept("i0*3 + i1", "i2*-3 + i3 + 189"), 192);
    // A tape that an inner loop stores backward and the reverse pass reads in order must be streamed, too.
    streams(&kept("i0*3 + i1*-1 + 2", "i2*3 + i3"), 192);
    // Reads or stores by columns cannot be streamed: the tape goes through the cache.
    streams(&kept("i0*3 + i1", "i2 + i3*64"), 0);
    streams(&kept("i0 + i1*64", "i2*3 + i3"), 0);
}

/// Two arrays are read in reverse order, but in turns: between two reads of one array, more entries of the other are
/// read than a layer holds. Each array must be a stream of its own.
#[test]
fn arrays_that_are_read_one_after_the_other_are_in_two_streams() {
    let back = "  for i1 in 8 {
    for i2 in 24 {
      %2: f64 = load b4[i1*-24 + i2*-1 + 191]
      store b1[i1*24 + i2], %2
    }
    for i3 in 24 {
      %3: f64 = load b3[i1*-24 + i3*-1 + 191]
      store b2[i1*24 + i3], %3
    }
  }
";
    streams(&two_kept(back), 384);
}

/// With `prepared`, copies of arguments on the tape are assumed to be there and no operation reads the argument, so no
/// stream may wait for it.
#[test]
fn prepared_copies_are_not_streamed() {
    let text = "program @copied {
  workspace 1536
  buffer b0: f64[192] input 0
  buffer b1: f64[192] output 0
  buffer b2: f64[192] output 1
  buffer b3: f64[192] workspace 0 kept tape
  for i0 in 192 {
    %0: f64 = load b0[i0]
    store b3[i0], %0
  }
  for i1 in 192 {
    %1: f64 = load b3[i1*-1 + 191]
    store b1[i1], %1
  }
  for i2 in 192 {
    %2: f64 = load b0[i2]
    store b2[i2], %2
  }
}";
    let program = tapeloom_backend::loop_ir::parse(text, &|_| None).unwrap();
    let x: Tensor = (0..192).map(f64::from).collect();
    let counts = |prepared, again| {
        let system = System::TFLOW_INPUTS;
        let setup = RunConfig { system, prepared, again, ..Machine::cal().into() };
        let (y, s) = simulate(&program, std::slice::from_ref(&x), &setup).unwrap();
        assert_eq!(y[1], x);
        (s.reverse.inputs, s.whole().blocks)
    };
    assert_eq!((counts(false, false), counts(true, false)), ((192, 384), (0, 384)));
    // With `again`, an argument that the reverse pass rereads counts as tape. The rereads add 192 blocks, except if
    // copies of the argument are `prepared`.
    assert_eq!((counts(false, true), counts(true, true)), ((192, 576), (0, 384)));
}

#[test]
fn reread_arguments_can_count_as_tape() {
    let body = "
  for i0 in 192 {
    %0: f64 = load b0[i0]
    store b2[i0], %0
  }
  for i1 in 192 {
    %1: f64 = load b2[i1*-1 + 191]
    %2: f64 = load b0[i1*-1 + 191]
    %3: f64 = mul %1, %2
    store b1[i1], %3
  }
";
    let loads = |again: bool| {
        let counts = counts(&RunConfig { again, ..Machine::cal().into() }, body);
        (counts.others.loads, counts.tape.loads)
    };
    assert_eq!((loads(false), loads(true)), ((384, 192), (192, 384)));
}

#[test]
fn a_layer_has_one_record_at_least() {
    let body = "
  for i0 in 64 {
    for i1 in 3 {
      %0: f64 = load b0[i0*3 + i1]
      store b2[i0*3 + i1], %0
    }
  }
  for i2 in 64 {
    for i3 in 3 {
      %1: f64 = load b2[i2*-3 + i3 + 189]
      store b1[i2*3 + i3], %1
    }
  }
";
    let layers = |layer: u64| {
        let setup = RunConfig { layer, system: System::TFLOW, ..Machine::cal().into() };
        counts(&setup, body).layers
    };
    // A layer is a group of tape entries for which the scratchpad is allocated at once. It holds whole records of three
    // entries, one record per iteration, so limits of 1 and of 3 entries give the same layers: 64 layers are stored and
    // 64 are loaded. Without a limit a layer may take half of the scratchpad, 32 entries; it holds eight records,
    // because eight records fill whole cache lines.
    assert_eq!([1, 3, 6, u64::MAX].map(layers), [128, 128, 64, 16]);
}

/// Under a budget, iterations are recomputed during the reverse pass, so there is one phase; their stores and loads
/// must still count as tape.
#[test]
fn runs_of_one_phase_read_the_tape() {
    let f = |x: Var| fori_loop(200, |(_, x): (Var, Var)| x + 0.1 * (x * x).sin(), x).sum();
    let x = Tensor::full(&[20], 0.5).unwrap();
    for bytes in [5_000, 1_000] {
        let g = jit(grad(checkpoint(f, Policy::Bytes(bytes))));
        let (_, s) = g.simulate(&x, Machine::cal()).unwrap();
        let tape = s.whole().tape;
        assert_eq!(s.phases(), 1);
        assert!(tape.loads + 100 > tape.stores && tape.loads > 0, "{s}");
    }
}

/// If arrays may overlap, an iteration must load a pointer to find the record (its residuals on the dynamic tape) that
/// it stores or loads.
#[test]
fn records_are_found_again_where_arrays_may_overlap() {
    let f = |(x, n): (Var, Var)| fori_loop(n, |(_, x): (Var, Var)| x.sin(), x);
    let slope = jit(|(x, n): (Var, Var)| grad(|x: Var| f((x, n)))(x));
    let others = |overlap: bool| {
        let setup = RunConfig { overlap, ..Machine::cal().into() };
        let (_, s) = slope.simulate((0.5, 100i64), setup).unwrap();
        assert!(s.forward.taped() >= 100 && s.reverse.taped() >= 100, "{s}");
        [s.forward.others.loads, s.reverse.others.loads]
    };
    let ([few, fewer], [all, more]) = (others(false), others(true));
    assert_eq!((all - few, more - fewer), (100, 100));
}

#[test]
fn a_tape_may_be_of_words() {
    let gradient = jit(grad(|x: Var| {
        fori_loop(64, |(_, x): (Var, Var)| select(x.gt(0.5), x * 0.5, x * 1.5), x)
    }));
    let bytes = |word: u64| {
        let map = AddressMap { word, ..AddressMap::default() };
        let setup = RunConfig { map, ..Machine::cal().into() };
        gradient.simulate(0.3, setup).unwrap().1.state.tape
    };
    assert_eq!((bytes(8) / bytes(1), bytes(8) % bytes(1)), (8, 0));
}

#[test]
fn arguments_that_are_read_again_come_from_where_they_lie() {
    let rows = |x: Var| {
        let x = x.reshape([2, 96]);
        let (x, w) = (x.index(0), x.index(1));
        let step = |(c, (x, w)): (Var, (Var, Var))| ((c * x + w).sin(), ());
        scan(step, constant(1.0), (x, w)).0
    };
    let x: Tensor = (0..192).map(|i| 0.01 * i as f64).collect();
    let gradient = jit(grad(checkpoint(rows, Policy::Disjoint))).on(Target::Accelerator(small()));
    let want = gradient.call(&x).unwrap();
    let mut fetched = Vec::new();
    for setup in setups(&small()) {
        let (got, s) = gradient.simulate(&x, setup).unwrap();
        assert_eq!(got, want, "{s}");
        fetched.push(s.reverse.inputs);
    }
    assert!(fetched.iter().any(|n| *n > 0), "{fetched:?}");
}

/// Returns the text of a loop program with this body, one argument b0 of 192 numbers, a result b1, and a tape b2 of the
/// same size.
fn counted(body: &str) -> String {
    format!(
        "program @counted {{
  workspace 1536
  buffer b0: f64[192] input 0
  buffer b1: f64[192] output 0
  buffer b2: f64[192] workspace 0 kept tape
{body}}}"
    )
}

/// Runs the program with this body, and returns the counts of both passes together.
fn counts(setup: &RunConfig, body: &str) -> Counts {
    let program = tapeloom_backend::loop_ir::parse(&counted(body), &|_| None).unwrap();
    let x: Tensor = (0..192).map(f64::from).collect();
    simulate(&program, &[x], setup).unwrap().1.whole()
}

#[test]
fn a_row_that_many_iterations_read_is_moved_once() {
    let body = "
  for i0 in 192 {
    %0: f64 = load b0[i0]
    store b1[i0], %0
  }
  for i1 in 6 {
    for i2 in 5 {
      for i3 in 32 {
        %1: f64 = load b0[i1*-32 + i3*-1 + 191]
        store b1[i3], %1
      }
    }
  }
";
    let setup = RunConfig { system: System::TFLOW_INPUTS, ..Machine::cal().into() };
    let counts = counts(&setup, body);
    // The rows are read five times, but moved once: six rows of four cache lines.
    assert_eq!((counts.inputs, counts.fetched + counts.snooped), (6 * 5 * 32, 6 * 4));
}

#[test]
fn prepared_arrays_need_no_stores() {
    let body = "
  nest {
    for i0 in 96 {
      store b1[i0], 0.0
    }
    for i1 in 96 {
      %0: f64 = load b0[i1]
      store b1[i1 + 96], %0
    }
  }
  for i2 in 192 {
    %1: f64 = load b1[i2]
    store b1[i2], %1
  }
  for i3 in 192 {
    store b1[i3], 0.0
  }
";
    let accesses = |prepared: bool| {
        let counts = counts(&RunConfig { prepared, ..Machine::cal().into() }, body);
        (counts.others.loads, counts.others.stores)
    };
    assert_eq!(accesses(false), (288, 576));
    // `prepared` covers initial contents of an array only, not contents stored later.
    assert_eq!(accesses(true), (192, 384));
}

#[test]
fn a_loop_that_stores_on_the_tape_reads_again_where_arrays_may_overlap() {
    let body = "
  for i0 in 4 {
    for i1 in 48 {
      %0: f64 = load b0[i0]
      store b2[i0*48 + i1], %0
    }
  }
  for i2 in 192 {
    %1: f64 = load b2[i2*-1 + 191]
    store b1[i2], %1
  }
";
    let loads = |overlap: bool| {
        let setup = RunConfig { overlap, ..Machine::cal().into() };
        counts(&setup, body).others.loads
    };
    assert_eq!((loads(false), loads(true)), (4, 192));
}

/// A tape array that begins with zeros must be stored, even if the run configuration assumes other arrays as prepared.
#[test]
fn tape_arrays_are_never_prepared() {
    let counts = |x: Var| {
        let (hits, a) = (Ref::new(zeros([31], Dtype::I32)), Ref::new(x));
        let iteration = |(_, ()): (Var, ())| {
            let on = a.get().gt(0.1);
            hits.add(on.convert(Dtype::I32));
            a.set(select(on, a.get() * 1.3, a.get()));
        };
        fori_loop(0, iteration, ());
        (a.get() * hits.get().convert(Dtype::F64)).sum()
    };
    let once = jit(grad(checkpoint(counts, Policy::About(0))));
    for system in [System::TFLOW, System::TFLOW_INPUTS] {
        let setup = RunConfig { system, prepared: true, ..Machine::cal().into() };
        let x = Tensor::full(&[31], 0.3).unwrap();
        let (y, _) = once.simulate(&x, setup).unwrap();
        assert_eq!(y, once.call(&x).unwrap());
    }
}

/// Random nests of loops read the elements of an argument several times, at random strides, with or without a tape
/// array in the same nest. If the argument is streamed, the scratchpad checks that each streamed word is the word that
/// the program reads; the result must equal that of the system that has only a cache.
#[test]
fn random_nests_read_streamed_words() {
    let mut streamed = 0;
    for seed in Sweep::Nests.seeds() {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        };
        let extents = [1 + below(4), 1 + below(5), 2 + below(15)];
        let mut loads = String::new();
        for n in 0..1 + below(4) {
            // The argument is read forward from its start or backward from its end.
            let (mut most, mut terms) = (0, String::new());
            let back = below(2) == 0;
            for (i, extent) in extents.iter().enumerate() {
                let stride = [0, 1, 1, 2, 3, 16][below(6) as usize];
                if stride > 0 && most + stride * (extent - 1) < 192 {
                    most += stride * (extent - 1);
                    let sign = if back { "-" } else { "" };
                    terms += &format!("i{}*{sign}{stride} + ", i + 1);
                }
            }
            let at = below(192 - most) + if back { most } else { 0 };
            loads += &format!("        %{}: f64 = load b0[{terms}{at}]\n", 2 * n + 2);
            loads += &format!("        v0 = add v0, %{}\n", 2 * n + 2);
        }
        let kept = if below(2) == 0 {
            "    %1: f64 = load b2[i1*-1 + 191]\n    v0 = add v0, %1\n"
        } else {
            ""
        };
        let [a, b, c] = extents;
        let body = format!(
            "
  for i0 in 192 {{
    %0: f64 = load b0[i0]
    store b2[i0], %0
  }}
  nest {{
    var v0: f64 = 0.0
    serial i1 in {a} {{
{kept}      serial i2 in {b} {{
        serial i3 in {c} {{
{loads}        }}
      }}
    }}
    store b1[0], v0
  }}
"
        );
        let text = counted(&body);
        let program = tapeloom_backend::loop_ir::parse(&text, &|_| None)
            .unwrap_or_else(|p| panic!("{p}: {text}"));
        let x: Tensor = (0..192).map(|i| (f64::from(i)).sin()).collect();
        let machine = Machine { entries: [16, 64][below(2) as usize], ..small() };
        let on = |system| {
            let setup = RunConfig { system, ..machine.clone().into() };
            simulate(&program, std::slice::from_ref(&x), &setup)
                .unwrap_or_else(|p| panic!("{p}: {text}"))
        };
        let ((want, _), (got, s)) = (on(System::ENZYME), on(System::TFLOW_INPUTS));
        assert_eq!(got[0].literal(0), want[0].literal(0), "{text}");
        streamed += s.whole().inputs;
    }
    assert!(streamed > 5_000, "{streamed}");
}
