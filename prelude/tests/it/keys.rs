//! The key check finds every key that is used twice, and reports no correct use of keys.
#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom::{Error, Kind};

type F = Box<dyn Fn(Var) -> Var>;

fn noise(key: Var) -> Var {
    random::normal(key, [3], Dtype::F64).sum()
}

fn halves(key: Var) -> [Var; 2] {
    random::split(key)
}

fn zero() -> Var {
    constant(0.0)
}

/// Runs a closure of a key with the key check.
fn checked(f: impl Fn(Var) -> Var) -> Result<Tensor, Error> {
    jit(|seed: Var| f(random::key(seed))).key_check().call(3i64)
}

#[test]
fn keys_used_twice_are_found() {
    let bad: Vec<(&str, F)> = vec![
        ("two draws", Box::new(|k| noise(k) + noise(k))),
        ("draws of other sizes", Box::new(|k| noise(k) + random::uniform(k, [], Dtype::F64))),
        ("drawn and split", Box::new(|k| noise(halves(k)[0]) + noise(k))),
        ("split twice", Box::new(|k| noise(halves(k)[0]) + noise(halves(k)[0]))),
        (
            "split in two ways",
            Box::new(|k| noise(halves(k)[0]) + noise(random::split_n(k, 3).index(1))),
        ),
        (
            "an element taken twice",
            Box::new(|k| {
                let all = random::split_n(k, 3);
                noise(all.index(1)) + noise(all.index(1))
            }),
        ),
        (
            "folded with one number twice",
            Box::new(|k| noise(random::fold_in(k, 4)) + noise(random::fold_in(k, 2 + 2))),
        ),
        ("folded with a drawn number", Box::new(|k| noise(random::fold_in(k, 2)) + noise(k))),
        ("one seed, two keys", Box::new(|_| noise(random::key(1)) + noise(random::key(1)))),
        ("a loop in Rust", Box::new(|k| (0..3).fold(zero(), |s, _| s + noise(k)))),
        ("every iteration", Box::new(|k| fori_loop(3, |(_, s): (Var, Var)| s + noise(k), zero()))),
        (
            "every iteration, folded with a constant",
            Box::new(|k| {
                fori_loop(3, |(_, s): (Var, Var)| s + noise(random::fold_in(k, 5)), zero())
            }),
        ),
        (
            "a carry that stays",
            Box::new(|k| {
                let iteration = |(_, (k, s)): (Var, (Var, Var))| (k, s + noise(k));
                fori_loop(3, iteration, (k, zero())).1
            }),
        ),
        (
            "iterations of two loops",
            Box::new(|k| {
                let of = |k: Var| {
                    fori_loop(3, move |(i, s): (Var, Var)| s + noise(random::fold_in(k, i)), zero())
                };
                of(k) + of(k)
            }),
        ),
        (
            "iterations of an inner loop",
            Box::new(|k| {
                let inner = move |s: Var| {
                    fori_loop(2, move |(i, s): (Var, Var)| s + noise(random::fold_in(k, i)), s)
                };
                fori_loop(2, |(_, s): (Var, Var)| inner(s), zero())
            }),
        ),
        (
            "carried in and drawn before",
            Box::new(|k| {
                let before = noise(k);
                let iteration = |(_, (k, s)): (Var, (Var, Var))| {
                    let [k, own] = halves(k);
                    (k, s + noise(own))
                };
                fori_loop(3, iteration, (k, before)).1
            }),
        ),
        (
            "the iterations of a while",
            Box::new(|k| while_loop(|s: Var| s.lt(1.0), |s: Var| s + 1.0 + noise(k).abs(), zero())),
        ),
        (
            "the elements of one array, twice",
            Box::new(|k| {
                let all = random::split_n(k, 4);
                map(noise, all).sum() + map(noise, all).sum()
            }),
        ),
        (
            "a branch and before",
            Box::new(|k| {
                let before = noise(k);
                cond(before.gt(0.0), |k: Var| noise(k), |_| zero(), k) + before
            }),
        ),
        (
            "a branch and after it",
            Box::new(|k| cond(k.gt(constant(7u64)), |k: Var| noise(k), |_| zero(), k) + noise(k)),
        ),
        (
            "twice in a branch",
            Box::new(|k| cond(k.gt(constant(7u64)), |k: Var| noise(k) + noise(k), |_| zero(), k)),
        ),
        ("in a gradient", Box::new(|k| grad(|x: Var| x * noise(k) * noise(k))(constant(2.0)))),
        (
            "in and around a gradient",
            Box::new(|k| grad(|x: Var| (x * noise(k)).sin())(constant(2.0)) + noise(k)),
        ),
        (
            "in a batch",
            Box::new(|k| vmap(|k: Var| noise(k) + noise(k))(random::split_n(k, 3)).sum()),
        ),
        (
            "two batches",
            Box::new(|k| {
                let all = random::split_n(k, 3);
                (vmap(noise)(all) * vmap(noise)(all)).sum()
            }),
        ),
        (
            "two calls of one function",
            Box::new(|k| {
                let f = outline(noise);
                f(k) + f(k)
            }),
        ),
        (
            "all of an array and one of it",
            Box::new(|k| {
                let all = random::split_n(k, 3);
                vmap(noise)(all).sum() + noise(all.index(0))
            }),
        ),
        (
            "one of an array and all of it",
            Box::new(|k| {
                let all = random::split_n(k, 3);
                noise(all.index(0)) + map(noise, all).sum()
            }),
        ),
        (
            "all of an array in iterations and in a batch",
            Box::new(|k| {
                let all = random::split_n(k, 3);
                vmap(noise)(all).sum() + map(noise, all).sum()
            }),
        ),
        (
            "one number in two dtypes",
            Box::new(|k| noise(random::fold_in(k, 5i64)) + noise(random::fold_in(k, 5i32))),
        ),
        (
            "a key derived twice",
            Box::new(|k| {
                fori_loop(
                    3,
                    |(i, s): (Var, Var)| {
                        let of = |k: Var| noise(random::fold_in(random::fold_in(k, 7), i));
                        s + of(k) * of(k)
                    },
                    zero(),
                )
            }),
        ),
        (
            "branches in two iterations",
            Box::new(|k| {
                let iteration = |(i, s): (Var, Var)| {
                    s + cond((i % 2).eq(0), |k: Var| noise(k), |k: Var| -noise(k), k)
                };
                fori_loop(3, iteration, zero())
            }),
        ),
        (
            "in a checkpoint",
            Box::new(|k| {
                grad(checkpoint(move |x: Var| (x * noise(k)).sin() * noise(k), Policy::Nothing))(
                    constant(2.0),
                )
            }),
        ),
    ];
    for (name, f) in bad {
        let error = checked(f).expect_err(name);
        assert_eq!(error.kind(), Kind::KeyReuse, "{name}: {error}");
        assert!(error.to_string().contains("keys.rs:"), "{name}: {error}");
    }
    // The check applies to all operations that compile.
    let twice = || jit(|seed: Var| noise(random::key(seed)) * noise(random::key(seed))).key_check();
    let report = if cfg!(feature = "native") { Kind::KeyReuse } else { Kind::Target };
    assert_eq!(twice().report(3i64).err().map(|e| e.kind()), Some(report));
    assert_eq!(twice().explain(3i64).err().map(|e| e.kind()), Some(Kind::KeyReuse));
    assert_eq!(twice().compile(3i64).err().map(|e| e.kind()), Some(Kind::KeyReuse));
    // The error must name both lines at which the key is used.
    let error = checked(|k| {
        let first = noise(k);
        first + random::uniform(k, [2], Dtype::F64).sum()
    });
    let text = error.unwrap_err().to_string();
    assert_eq!(text.matches("keys.rs:").count(), 2, "{text}");
}

#[test]
fn keys_used_once_are_left_alone() {
    let good: Vec<(&str, F)> = vec![
        (
            "split",
            Box::new(|k| {
                let [a, b] = halves(k);
                noise(a) + noise(b)
            }),
        ),
        (
            "elements",
            Box::new(|k| {
                let all = random::split_n(k, 3);
                noise(all.index(0)) + noise(all.index(2))
            }),
        ),
        ("numbers", Box::new(|k| noise(random::fold_in(k, 1)) + noise(random::fold_in(k, 2)))),
        ("a number beyond the drawn ones", Box::new(|k| noise(random::fold_in(k, 3)) + noise(k))),
        ("seeds", Box::new(|_| noise(random::key(1)) + noise(random::key(2)))),
        ("nothing of it", Box::new(|k| random::normal(k, [0], Dtype::F64).sum() + noise(k))),
        (
            "iterations",
            Box::new(|k| {
                fori_loop(3, |(i, s): (Var, Var)| s + noise(random::fold_in(k, i)), zero())
            }),
        ),
        (
            "iterations backwards, nested",
            Box::new(|k| {
                let inner = |k: Var, s: Var| {
                    fori_loop(2, move |(i, s): (Var, Var)| s + noise(random::fold_in(k, i)), s)
                };
                let iteration = |(s, i): (Var, Var)| (inner(random::fold_in(k, i), s), zero());
                scan_reverse(iteration, zero(), arange(4, Dtype::I64)).0
            }),
        ),
        ("one iteration", Box::new(|k| fori_loop(1, |(_, s): (Var, Var)| s + noise(k), zero()))),
        (
            "a carry that is split",
            Box::new(|k| {
                let iteration = |(k, s): (Var, Var)| {
                    let [k, own] = halves(k);
                    (k, s + noise(own).abs() + 0.1)
                };
                let (k, s) = while_loop(|(_, s): (Var, Var)| s.lt(3.0), iteration, (k, zero()));
                s + noise(k)
            }),
        ),
        ("an array of keys", Box::new(|k| map(noise, random::split_n(k, 4)).sum())),
        (
            "two branches",
            Box::new(|k| cond(k.gt(constant(7u64)), noise, |k: Var| noise(k) * 2.0, k)),
        ),
        (
            "switch",
            Box::new(|k| {
                let side = |k: Var| noise(k) + 1.0;
                let one = Tensor::from(1i64);
                switch(constant(&one), [&noise as &dyn Fn(Var) -> Var, &side, &side], k)
            }),
        ),
        ("a batch of them", Box::new(|k| vmap(noise)(random::split_n(k, 3)).sum())),
        (
            "shared by a batch",
            Box::new(|k| vmap(|x: Var| x * noise(k))(arange(3, Dtype::F64)).sum()),
        ),
        (
            "two calls",
            Box::new(|k| {
                let ([a, b], f) = (halves(k), outline(noise));
                f(a) + f(b)
            }),
        ),
        // A draw that a derivative repeats counts as one draw.
        (
            "a key derived in every iteration",
            Box::new(|k| {
                let of = |k: Var, i: Var| random::fold_in(k, i);
                fori_loop(
                    3,
                    |(i, s): (Var, Var)| {
                        fori_loop(3, |(j, s): (Var, Var)| s + noise(of(of(k, i), j)), s)
                    },
                    zero(),
                )
            }),
        ),
        (
            "a key with a name, and iterations",
            Box::new(|k| {
                let of = |i: Var| noise(random::fold_in(random::fold_in(k, 7), i));
                fori_loop(3, |(i, s): (Var, Var)| s + of(i), zero())
            }),
        ),
        (
            "a batch of branches",
            Box::new(|k| {
                let member =
                    move |x: Var| cond(x.gt(1.0), |x: Var| x * noise(k), |x: Var| x + noise(k), x);
                vmap(member)(arange(3, Dtype::F64)).sum()
            }),
        ),
        (
            "numbers elsewhere",
            Box::new(|k| {
                let some = |i: Var| noise(random::fold_in(k, i + 100));
                noise(k) + vmap(some)(arange(3, Dtype::I64)).sum()
            }),
        ),
        (
            "a rule that draws again",
            Box::new(|k| {
                let f = custom_vjp(
                    move |x: Var| x * noise(k),
                    move |x: Var| (x * noise(k), ()),
                    move |(), ct: Var| ct * noise(k),
                );
                grad(f)(constant(2.0))
            }),
        ),
        (
            "keys in solvers",
            Box::new(|k| {
                let [a, b] = halves(k);
                let x = fixed_point(|x: Var| x * 0.5 + noise(a), zero());
                let until = Until::default();
                x + cg(|x: Var| x * (noise(b).abs() + 1.0), ones([2], Dtype::F64), until).sum()
            }),
        ),
        ("gradient", Box::new(|k| grad(|x: Var| (x * noise(k)).sin())(constant(2.0)))),
        (
            "third derivative",
            Box::new(|k| grad(grad(grad(move |x: Var| (x * noise(k)).sin())))(constant(2.0))),
        ),
        (
            "checkpoint",
            Box::new(|k| {
                grad(checkpoint(move |x: Var| (x * noise(k)).sin().exp(), Policy::Nothing))(
                    constant(2.0),
                )
            }),
        ),
        (
            "checkpointed iterations",
            Box::new(|k| {
                let iteration = |(i, x): (Var, Var)| (x * noise(random::fold_in(k, i))).sin();
                let f = move |x: Var| {
                    fori_loop(
                        3,
                        move |ix: (Var, Var)| checkpoint(iteration, Policy::Nothing)(ix),
                        x,
                    )
                };
                hvp(f)((constant(2.0), constant(1.0)))
            }),
        ),
        (
            "a batch of gradients",
            Box::new(|k| {
                let f = |(x, k): (Var, Var)| grad(|x: Var| x * noise(k))(x);
                let x = arange(3, Dtype::F64);
                vmap(f)((x, random::split_n(k, 3))).sum()
            }),
        ),
        (
            "a gradient of a while",
            Box::new(|k| {
                let iteration = |(k, x): (Var, Var)| {
                    let [k, own] = halves(k);
                    (k, x * (1.5 + noise(own).abs()))
                };
                let f = |x: Var| while_loop(|(_, x): (Var, Var)| x.lt(10.0), iteration, (k, x)).1;
                grad(f)(constant(1.0))
            }),
        ),
    ];
    for (name, f) in good {
        let want = jit(|seed: Var| f(random::key(seed))).call(3i64).unwrap();
        let found = checked(&f).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(found, want, "{name}: looking changes nothing");
    }
}

/// A generator splits its key at every draw, including draws in iterations and batches.
#[test]
fn generators_use_no_key_twice() {
    let f = |seed: Var| {
        let rng = random::Rng::new(random::key(seed));
        let draw = || rng.normal([2], Dtype::F64).sum();
        let a = draw() + draw();
        let b = fori_loop(3, |(_, s): (Var, Var)| s + draw() * draw(), a);
        let c = vmap(|x: Var| x * draw() + draw())(arange(3, Dtype::F64)).sum();
        let d = grad(|x: Var| (x * draw()).sin() * draw())(constant(2.0));
        let e = while_loop(|s: Var| s.lt(3.0), |s: Var| s + draw().abs() + 0.5, zero());
        a + b + c + d + e + draw()
    };
    assert_eq!(jit(f).key_check().call(1i64).unwrap(), jit(f).call(1i64).unwrap());
}
