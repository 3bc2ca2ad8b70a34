//! Programs with mutable state (`Ref`), compared with the same programs in pure form.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::rc::Rc;
use tapeloom::Explanation;
use tapeloom::prelude::*;
use tapeloom_tests::Sweep;
use tapeloom_tests::equivalences::{
    F, FIRST, HIGHER, Transform, differences, recorded_differences,
};
use tapeloom_tests::imperative::{Statement, draw, model, mutated, pure};
use tapeloom_tests::repeated::{prefix_sums, sieve};

fn points() -> [Tensor; 2] {
    [Tensor::from([0.5, -1.25, 2.0, 0.75]), Tensor::from([-0.5, -1.5, 0.3, -0.75])]
}

/// Returns messages for the differences between three evaluations of a random program: with state, in pure form, and by
/// a model on plain vectors.
fn wrong(program: &Rc<Vec<Statement>>, transforms: &[Transform]) -> Vec<String> {
    let (p, q) = (program.clone(), program.clone());
    let f: F = Rc::new(move |x| mutated(&p, x));
    let g: F = Rc::new(move |x| pure(&q, x));
    let mut wrong = differences("random", &f, &g, transforms, &points());
    let numbers = jit(|x: Var| f(x)).interpreted();
    for x in points() {
        let v = x.to_vec::<f64>().unwrap();
        let table = v.iter().map(|x| x.sin());
        let table = table.chain(v.iter().map(|x| x * 0.5)).chain(v.iter().map(|x| x.cos()));
        let sum = v.iter().sum::<f64>() * 0.25;
        let ends = model(program, vec![v.clone(), table.collect(), vec![sum]]);
        let weighted = |(i, a): (usize, &Vec<f64>)| -> f64 {
            let weight = |k: usize| (k as f64 * 0.7 + i as f64).cos();
            a.iter().enumerate().map(|(k, a)| a * weight(k)).sum()
        };
        let want: f64 = ends.iter().enumerate().map(weighted).sum();
        let got = numbers.call(&x).map_err(|e| e.to_string());
        match got.map(|y| y.item::<f64>().unwrap()) {
            Ok(got) if (got - want).abs() <= 1e-9 * (1.0 + want.abs()) => {}
            got => wrong.push(format!("numbers: {got:?}, and by the model {want}")),
        }
    }
    wrong
}

/// Shrinks a failing program as long as it still fails: statements are left out, or replaced by their bodies. Returns
/// the smallest failing program and its failures.
fn shrunk(mut program: Vec<Statement>, transforms: &[Transform]) -> (Vec<Statement>, Vec<String>) {
    let mut found = wrong(&Rc::new(program.clone()), transforms);
    let mut i = 0;
    while i < program.len() {
        let mut smaller = vec![];
        let mut without = program.clone();
        let taken = without.remove(i);
        smaller.push(without.clone());
        let inside = match taken {
            Statement::Write(..) => vec![],
            Statement::Iterations(kind, n, body) => (0..body.len())
                .map(|k| {
                    let mut body = body.clone();
                    body.remove(k);
                    Statement::Iterations(kind, n, body)
                })
                .collect(),
            Statement::Branch(w, yes, no) => vec![
                Statement::Branch(w.clone(), vec![], no.clone()),
                Statement::Branch(w, yes, vec![]),
            ],
            Statement::Local(value, body) => vec![Statement::Local(value, body[1..].to_vec())],
        };
        smaller.extend(inside.into_iter().map(|s| {
            let mut with = without.clone();
            with.insert(i, s);
            with
        }));
        let still = smaller.into_iter().find_map(|p| {
            let found = wrong(&Rc::new(p.clone()), transforms);
            (!found.is_empty() && format!("{p:?}") != format!("{program:?}")).then_some((p, found))
        });
        match still {
            Some((p, f)) => (program, found) = (p, f),
            None => i += 1,
        }
    }
    (program, found)
}

fn for_all(sweep: Sweep, transforms: &[Transform]) {
    for seed in sweep.seeds() {
        let program = draw(seed);
        if !wrong(&Rc::new(program.clone()), transforms).is_empty() {
            let (program, wrong) = shrunk(program, transforms);
            panic!("SWEEP_SEED={seed}: {}\n{program:#?}", wrong.join("\n"));
        }
    }
}

/// Values of random programs with state, in which views alias, must equal the results of the same operations on plain
/// vectors.
#[test]
fn random_programs_with_state_equal_plain_rust() {
    for_all(Sweep::WritesMean, &FIRST[..1]);
}

#[test]
fn random_programs_have_the_derivatives_of_their_pure_forms() {
    for_all(Sweep::WritesFirst, FIRST);
}

#[test]
fn random_programs_have_higher_derivatives() {
    for_all(Sweep::WritesHigher, HIGHER);
}

/// Returns triples: a name, a function with state, and the same function in pure form.
fn pairs() -> Vec<(&'static str, F, F)> {
    let mut pairs: Vec<(&'static str, F, F)> = Vec::new();
    macro_rules! pair {
        ($name:literal, $mutated:expr, $pure:expr) => {
            pairs.push(($name, Rc::new($mutated), Rc::new($pure)))
        };
    }
    pair!(
        "a branch in a loop",
        |x: Var| {
            let (r, s) = (Ref::new(x), Ref::new(0.0));
            let iteration = |(i, ()): (Var, ())| {
                let (x, before) = (r.at(i), r.at((i + 3) % 4));
                x.add(before.get().sin());
                cond(x.get().gt(0.5), |()| s.add(x.get()), |()| r.at(0).set(0.25), ());
            };
            fori_loop(4, iteration, ());
            (r.get() * r.get()).sum() + s.get()
        },
        |x: Var| {
            let iteration = |(i, (r, s)): (Var, (Var, Var))| {
                let r = r.at(i).add(r.index((i + 3) % 4).sin());
                let yes = |(r, s): (Var, Var)| (r, s + r.index(i));
                cond(r.index(i).gt(0.5), yes, |(r, s): (Var, Var)| (r.at(0).set(0.25), s), (r, s))
            };
            let (r, s) = fori_loop(4, iteration, (x, zeros([], Dtype::F64)));
            (r * r).sum() + s
        }
    );
    pair!(
        "the grandchild writes",
        |x: Var| {
            let r = Ref::new(x.sum());
            let inner = |e: Var| fori_loop(2, |_: (Var, ())| r.set(r.get() * e + e.cos()), ());
            map(|e: Var| inner(e), x);
            r.get()
        },
        |x: Var| {
            let inner = |c: Var, e: Var| fori_loop(2, |(_, c): (Var, Var)| c * e + e.cos(), c);
            scan(|(c, e): (Var, Var)| (inner(c, e), ()), x.sum(), x).0
        }
    );
    pair!(
        "state in a gradient in a loop of the same state",
        |x: Var| {
            let r = Ref::new(x);
            let energy = |y: Var| {
                let s = Ref::new(y);
                map(|e: Var| s.mul(e.sin() + 1.5), r.get());
                (s.get() * s.get()).sum()
            };
            fori_loop(2, |_: (Var, ())| r.add(grad(energy)(r.get()) * -0.05), ());
            r.get().sum()
        },
        |x: Var| {
            let energy = |y: Var, r: Var| {
                let s = y * (r.sin() + 1.5).prod();
                (s * s).sum()
            };
            let iteration = |(_, r): (Var, Var)| r + grad(|y: Var| energy(y, r))(r) * -0.05;
            fori_loop(2, iteration, x).sum()
        }
    );
    pair!(
        "a read returns the value at the time of the read",
        |x: Var| {
            let r = Ref::new(x);
            let before = r.get();
            fori_loop(3, |_: (Var, ())| r.set(r.get() * before + 0.5), ());
            (r.swap(before) * r.freeze()).sum()
        },
        |x: Var| (fori_loop(3, |(_, r): (Var, Var)| r * x + 0.5, x) * x).sum()
    );
    pair!(
        "outlined readers read the value at the time of the call",
        |x: Var| {
            let r = Ref::new(x);
            let read = outline(|y: Var| (r.get() * y).sin());
            let one = read(x);
            r.set(x * 2.0);
            fori_loop(2, |_: (Var, ())| r.set(read(x)), ());
            (one + read(x)).sum()
        },
        |x: Var| {
            let read = |r: Var| (r * x).sin();
            (read(x) + read(fori_loop(2, |(_, r): (Var, Var)| read(r), x * 2.0))).sum()
        }
    );
    pair!(
        "transforms read",
        |x: Var| {
            let r = Ref::new(x.sin());
            let f = |y: Var| (r.get() * y * y).sum();
            let kept = checkpoint(f, Policy::Nothing);
            let ruled = custom_jvp(
                |y: Var| y * r.at(0).get(),
                |y: Var, dy: Var| (y * r.at(0).get(), dy * 2.0),
            );
            let all = vmap(|e: Var| e * r.get().sum())(x).sum();
            let (_, slope) = jvp(f)((x, x.cos()));
            grad(f)(x).sum() + kept(x) + ruled(x).sum() + all + slope
        },
        |x: Var| {
            let r = x.sin();
            let f = |y: Var| (r * y * y).sum();
            let ruled =
                custom_jvp(|y: Var| y * r.index(0), |y: Var, dy: Var| (y * r.index(0), dy * 2.0));
            let (_, slope) = jvp(f)((x, x.cos()));
            grad(f)(x).sum() + f(x) + ruled(x).sum() + (x * r.sum()).sum() + slope
        }
    );
    pair!(
        "a switch of three branches, two of which write different values",
        |x: Var| {
            let (a, b) = (Ref::new(x), Ref::new(x.cos()));
            let iteration = |i: Var| {
                let (first, second) = (|()| a.at(1).mul(b.at(0).get()), |()| b.add(a.get()));
                switch(i, [&first, &second, &|()| ()], ())
            };
            map(iteration, constant([1i64, 0, 2, 1]));
            (a.get() * b.get()).sum()
        },
        |x: Var| {
            let add = |a: Var, b: Var| b + a;
            let b = add(x, x.cos());
            let a = x.at(1).mul(b.index(0));
            (a * add(a, b)).sum()
        }
    );
    pair!(
        "while",
        |x: Var| {
            let (r, n) = (Ref::new(x), Ref::new(0));
            let turn = |()| {
                r.mul(1.5);
                n.add(1);
            };
            while_loop(|()| (r.get() * r.get()).sum().lt(60.0), turn, ());
            r.get().sum() + n.get().convert(Dtype::F64)
        },
        |x: Var| {
            let more = |(r, _): (Var, Var)| (r * r).sum().lt(60.0);
            let turn = |(r, n): (Var, Var)| (r * 1.5, n + 1);
            let (r, n) = while_loop(more, turn, (x, constant(0i64)));
            r.sum() + n.convert(Dtype::F64)
        }
    );
    pair!(
        "rows by index arrays",
        |x: Var| {
            let r = Ref::new(x.outer(x));
            let i = constant([2i64, 0, 2]);
            r.at(i).add(x);
            r.slice([1..3, 0..2]).at(i - 1).mul(0.5);
            r.at((1, i)).set(x.index(0));
            (r.get() * r.at(i).get().sum()).sum()
        },
        |x: Var| {
            let i = constant([2i64, 0, 2]);
            let r = x.outer(x).at(i).add(x);
            let part = r.slice([1..3, 0..2]).at(i - 1).mul(0.5);
            let r = r.dynamic_update_slice(part, &[1, 0]);
            let r = r.at((1, i)).set(x.index(0));
            (r * r.index(i).sum()).sum()
        }
    );
    pair!(
        "no iteration and one",
        |x: Var| {
            let r = Ref::new(x);
            fori_loop(0, |_: (Var, ())| r.set(0.0), ());
            fori_loop(1, |_: (Var, ())| r.at(2).set(r.at(0).get().exp()), ());
            r.get().sin().sum()
        },
        |x: Var| x.at(2).set(x.index(0).exp()).sin().sum()
    );
    pair!(
        "unused, constant, stopped",
        |x: Var| {
            let (unused, same, stopped) = (Ref::new(x), Ref::new(x.sin()), Ref::new(x));
            let iteration = |_: (Var, ())| {
                unused.mul(3.0);
                same.set(same.get());
                stopped.set(stopped.get().stop_gradient() * same.get());
            };
            fori_loop(3, iteration, ());
            stopped.get().sum()
        },
        |x: Var| {
            let s = x.sin();
            ((x * s * s).stop_gradient() * s).sum()
        }
    );
    pairs
}

#[test]
fn mutated_programs_are_their_pure_forms() {
    pure_forms(FIRST);
}

#[test]
fn mutated_programs_have_the_higher_derivatives_of_their_pure_forms() {
    pure_forms(HIGHER);
}

#[track_caller]
fn pure_forms(transforms: &[Transform]) {
    let check = |(name, f, g): &(&str, F, F)| differences(name, f, g, transforms, &points());
    let wrong: Vec<String> = Sweep::Written.all(pairs()).iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn mutated_programs_are_recorded() {
    let check = |(name, f, g): &(&str, F, F)| recorded_differences(name, f, g, &points()[..1]);
    let wrong: Vec<String> = pairs().iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Writes in loops and branches must be in place: the program has no further array of that size, and no copy.
#[test]
fn arrays_are_written_in_place() {
    const N: usize = 10_000;
    let primes = jit(|(): ()| sieve(N));
    let found = primes.call(()).unwrap().to_vec::<bool>().unwrap();
    let by_division =
        |n: usize| n > 1 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    assert!((0..N).all(|n| found[n] == by_division(n)));
    let explained = primes.explain(()).unwrap();
    assert!(explained.workspace_bytes() < 1000, "{explained}");
    // Leave out the table of steps: it also lists copies of single elements, which need no array.
    let copies = |e: &Explanation| {
        e.to_string().split("== steps").next().is_some_and(|stages| stages.contains("copy"))
    };
    assert!(!copies(&explained), "{explained}");

    let x = Tensor::full(&[N], 0.5).unwrap();
    let (sums, slope) = (jit(prefix_sums), jit(grad(|x| prefix_sums(x).index(-1))));
    assert_eq!(sums.call(&x).unwrap().literal(N - 1).unwrap().to_f64(), 0.5 * N as f64);
    let explained = sums.explain(&x).unwrap();
    assert!(explained.workspace_bytes() < 1000, "{explained}");
    assert!(!copies(&explained), "{explained}");
    // Reverse mode may save two elements per iteration, but no array per iteration.
    assert!(slope.explain(&x).unwrap().workspace_bytes() < 8 * 5 * N);
    assert_eq!(slope.call(&x).unwrap(), Tensor::full(&[N], 1.0).unwrap());
}

/// For an update of a `Ref` in a loop, reverse mode may save the index of the update and the elements that the reverse
/// pass reads, but never the array: the workspace must be below 200 bytes per iteration.
#[test]
fn iterations_keep_elements_and_no_arrays() {
    const N: usize = 1000;
    type Write = fn(Ref, Var, Var);
    let writes: [(&str, Write); 10] = [
        ("set", |r, i, x| r.at(i).set(x.sin())),
        ("add", |r, i, x| r.at(i).add(x.sin())),
        ("mul", |r, i, x| r.at(i).mul(x.sin())),
        ("max", |r, i, x| r.at(i).max(x.sin())),
        ("update", |r, i, x| r.at(i).update(|y| (y * x).sin())),
        ("swap", |r, i, x| r.at((i * 7) % 1000).add(r.at(i).swap(x))),
        ("row", |r, i, x| r.at_axis(0, i).set(r.at_axis(0, i - 1).get() * x)),
        ("window", |r, i, x| r.dynamic_slice(&[i], [3]).add(x.sin())),
        ("part", |r, i, x| r.slice_axis(0, 5..).at(i).set(x.sin())),
        ("window of a part", |r, i, x| r.slice_axis(0, 5..).dynamic_slice(&[i], [2]).mul(x)),
    ];
    for (name, write) in writes {
        let f = move |x: Var| {
            let r = Ref::new(x.cos());
            fori_loop(N, |(i, ()): (Var, ())| write(r, i, x.index(i)), ());
            (r.get() * r.get()).sum()
        };
        let explained = jit(grad(f)).explain(Tensor::full(&[N], 0.5).unwrap()).unwrap();
        let bytes = explained.workspace_bytes();
        println!("{name}: {bytes}");
        assert!(bytes < 200 * N, "{name}: {bytes} bytes");
    }
}

/// If iterations only add to an array, the cotangent of the array is the same in every iteration: iterations of the
/// reverse pass must read it in place, and not copy it.
#[test]
fn iterations_that_add_copy_no_cotangents() {
    const N: usize = 1000;
    let squares = |x: Var| {
        let r = Ref::new(x.zeros_like());
        let row = |i: Var| {
            fori_loop(2, |_: (Var, ())| r.at(i).add(x.index(i) * x.index(i)), ());
        };
        fori_loop(N, |(i, ()): (Var, ())| row(i), ());
        r.get()
    };
    let pulled = jit(move |(x, ct): (Var, Var)| vjp(squares)(x).1(ct));
    let (x, ct) = (Tensor::full(&[N], 0.5).unwrap(), Tensor::full(&[N], 3.0).unwrap());
    let explained = pulled.explain((&x, &ct)).unwrap();
    let kernels = explained.kernels();
    // The reverse loops carry only the cotangent of x, and contain no loop over an array.
    let (_, iterations) = kernels.split_once("carry").unwrap();
    assert!(!iterations.contains("for i"), "{kernels}");
    assert_eq!(pulled.call((&x, &ct)).unwrap(), Tensor::full(&[N], 6.0).unwrap());
}

/// Each iteration sums a row, starting from the sum of an earlier row: iterations depend on each other, so they must
/// run in order, with the same bits on both engines.
#[test]
fn sums_wait_for_sums_that_they_begin_with() {
    const N: usize = 12;
    let rows: Tensor = (0..N * 20).map(|i| (i as f64 * 0.7).sin()).collect();
    let f = |x: Var| {
        let (x, sums) = (x.reshape([N, 20]), Ref::new(ones([N + 1], Dtype::F64)));
        let iteration = |(i, ()): (Var, ())| {
            let add = |(j, s): (Var, Var)| s * 0.5 + x.index((i, j));
            sums.at(i + 1).set(fori_loop(20, add, sums.at(i / 2).get()));
        };
        fori_loop(N, iteration, ());
        sums.get()
    };
    let want = jit(f).interpreted().call(&rows).unwrap();
    assert_eq!(jit(f).call(&rows).unwrap(), want);
    // The sums must also equal those of a loop in Rust, which adds in the same order.
    let x: Vec<f64> = rows.to_vec().unwrap();
    let mut sums = vec![1.0];
    for (i, row) in x.chunks(20).enumerate() {
        sums.push(row.iter().fold(sums[i / 2], |s, x| s * 0.5 + x));
    }
    assert_eq!(want.to_vec::<f64>().unwrap(), sums);
}
