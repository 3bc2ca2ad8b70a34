//! Loops and branches, compared with their unrolled bodies, under every transform and on both engines.
//!
//! Each pair is one function of `f64[4]`, once with `scan`, `fori_loop`, `while_loop`, `map`, `cond` and `switch`,
//! and once with Rust's own loops, which unroll the iterations into the program.

use std::rc::Rc;
use tapeloom::prelude::*;
use tapeloom_tests::equivalences::{
    F, FIRST, HIGHER, Transform, differences, recorded_differences,
};
use tapeloom_tests::{Agreement, Sweep};

fn element(x: Var, i: usize) -> Var {
    x.index(i as i64)
}

/// Returns triples: a name, a function with loops or branches, and the same function with its iterations written out.
fn pairs() -> Vec<(&'static str, F, F)> {
    let mut pairs: Vec<(&'static str, F, F)> = Vec::new();
    macro_rules! pair {
        ($name:literal, $looped:expr, $written:expr) => {
            pairs.push(($name, Rc::new($looped), Rc::new($written)))
        };
    }
    pair!(
        "carry and results",
        |x: Var| scan(|(c, x): (Var, Var)| ((c + x).sin() * x, c * c), x.sum(), x).1.sum(),
        |x: Var| {
            let mut c = x.sum();
            let mut t = c * 0.0;
            for i in 0..4 {
                t += c * c;
                let e = element(x, i);
                c = (c + e).sin() * e;
            }
            t
        }
    );
    pair!(
        "swap",
        |x: Var| {
            let (a, b) = fori_loop(5, |(_, (a, b)): (Var, (Var, Var))| (b, a), (x.sin(), x.exp()));
            (a * 2.0 + b).sum()
        },
        |x: Var| (x.exp() * 2.0 + x.sin()).sum()
    );
    pair!(
        "index",
        |x: Var| fori_loop(
            4,
            |(i, c): (Var, Var)| c * x.index(i) + i.convert(Dtype::F64),
            x.index(0)
        ),
        |x: Var| {
            let mut c = element(x, 0);
            for i in 0..4 {
                c = c * element(x, i) + i as f64;
            }
            c
        }
    );
    pair!(
        "set in place",
        |x: Var| fori_loop(
            4,
            |(i, c): (Var, Var)| c.at(i).set(c.index((i + 1).rem(4)).sin()),
            x * x
        )
        .dot(x),
        |x: Var| {
            let mut c = x * x;
            for i in 0..4usize {
                c = c.at(i as i64).set(element(c, (i + 1) % 4).sin());
            }
            c.dot(x)
        }
    );
    pair!(
        "added in place",
        |x: Var| fori_loop(
            6,
            |(i, c): (Var, Var)| c.at(i.rem(4)).add(c.index((i * 3).rem(4)) * x.index(i.rem(3))),
            x
        )
        .dot(x),
        |x: Var| {
            let mut c = x;
            for i in 0..6usize {
                c = c.at((i % 4) as i64).add(element(c, i * 3 % 4) * element(x, i % 3));
            }
            c.dot(x)
        }
    );
    pair!(
        "zero trips",
        |x: Var| fori_loop(0, |(_, c): (Var, Var)| c.sin() * x, x).sum(),
        |x: Var| x.sum()
    );
    pair!(
        "one trip",
        |x: Var| fori_loop(1, |(_, c): (Var, Var)| c.sin() * x, x).sum(),
        |x: Var| (x.sin() * x).sum()
    );
    pair!(
        "int carry",
        |x: Var| {
            let (_, s) = fori_loop(
                5,
                |(i, (k, s)): (Var, (Var, Var))| ((k + i * 3).rem(4), s * x.index(k) + 1.0),
                (ones([], Dtype::I64), x.sum()),
            );
            s
        },
        |x: Var| {
            let mut k = 1usize;
            let mut s = x.sum();
            for i in 0..5 {
                s = s * element(x, k) + 1.0;
                k = (k + i * 3) % 4;
            }
            s
        }
    );
    pair!(
        "bool carry",
        |x: Var| {
            let (_, s) = scan(
                |((b, s), e): ((Var, Var), Var)| ((!b, select(b, s * e, s + e.sin())), ()),
                (x.sum().gt(100.0), x.sum()),
                x,
            )
            .0;
            s
        },
        |x: Var| {
            let mut s = x.sum();
            for i in 0..4 {
                let e = element(x, i);
                s = if i % 2 == 1 { s * e } else { s + e.sin() };
            }
            s
        }
    );
    pair!(
        "nested",
        |x: Var| scan(
            |(c, e): (Var, Var)| {
                let y = scan(|(d, g): (Var, Var)| (d * g.cos() + e, d), c, x);
                (y.0, y.1.sum())
            },
            x.index(1),
            x
        )
        .1
        .dot(x),
        |x: Var| {
            let mut c = element(x, 1);
            let mut t = c * 0.0;
            for i in 0..4 {
                let e = element(x, i);
                let mut d = c;
                let mut s = c * 0.0;
                for j in 0..4 {
                    s += d;
                    d = d * element(x, j).cos() + e;
                }
                c = d;
                t += s * element(x, i);
            }
            t
        }
    );
    pair!(
        "reverse",
        |x: Var| {
            let (c, y) = scan_reverse(|(c, e): (Var, Var)| (c * e.cos() + e, c + e), x.index(2), x);
            (y * x).sum() * c
        },
        |x: Var| {
            let mut c = element(x, 2);
            let mut t = c * 0.0;
            for i in (0..4).rev() {
                let e = element(x, i);
                t += (c + e) * e;
                c = c * e.cos() + e;
            }
            t * c
        }
    );
    pair!(
        "cond in scan",
        |x: Var| scan(
            |(c, e): (Var, Var)| (
                cond(e.gt(0.0), move |c: Var| c * e.ln(), move |c: Var| c.sin() + e, c),
                c * e
            ),
            x.sum(),
            x
        )
        .1
        .sum(),
        |x: Var| {
            let mut c = x.sum();
            let mut t = c * 0.0;
            for i in 0..4 {
                let e = element(x, i);
                t += c * e;
                let safe = select(e.gt(0.0), e, 1.0);
                c = select(e.gt(0.0), c * safe.ln(), c.sin() + e);
            }
            t
        }
    );
    pair!(
        "scan in cond",
        |x: Var| cond(
            x.sum().gt(0.0),
            |x: Var| scan(|(c, e): (Var, Var)| (c * e, c), x.index(0), x).1.sum(),
            |x: Var| scan(|(c, e): (Var, Var)| (c + e.exp(), c.sin()), x.index(0), x).1.sum(),
            x
        ),
        |x: Var| {
            let mut a = element(x, 0);
            let mut t = a * 0.0;
            let mut b = a;
            let mut s = t;
            for i in 0..4 {
                let e = element(x, i);
                t += a;
                a *= e;
                s += b.sin();
                b += e.exp();
            }
            select(x.sum().gt(0.0), t, s)
        }
    );
    pair!(
        "switch in loop",
        |x: Var| fori_loop(
            5,
            |(i, c): (Var, Var)| switch(
                i - 1,
                [&|c: Var| c.sin(), &|c: Var| c * x, &|c: Var| c * c * 0.5],
                c
            ),
            x
        )
        .sum(),
        |x: Var| {
            let mut c = x;
            for i in 0..5i64 {
                c = match i - 1 {
                    -1 | 0 => c.sin(),
                    1 => c * x,
                    _ => c * c * 0.5,
                };
            }
            c.sum()
        }
    );
    pair!(
        "checkpoint body",
        |x: Var| scan(
            |(c, e): (Var, Var)| {
                let y = checkpoint(|(c, e): (Var, Var)| (c * e).sin() * c.exp(), Policy::Nothing)(
                    (c, e),
                );
                (y, y * y)
            },
            x.index(0),
            x
        )
        .1
        .sum(),
        |x: Var| {
            let mut c = element(x, 0);
            let mut t = c * 0.0;
            for i in 0..4 {
                c = (c * element(x, i)).sin() * c.exp();
                t += c * c;
            }
            t
        }
    );
    pair!(
        "outline body",
        |x: Var| {
            let f = outline(|(c, e): (Var, Var)| (c * e).sin() * (c + x.sum()));
            let g = |c: Var| scan(|(c, e): (Var, Var)| (f((c, e)), c), c, x).0;
            g(x.index(0)) * g(x.index(1))
        },
        |x: Var| {
            let g = |mut c: Var| {
                for i in 0..4 {
                    c = (c * element(x, i)).sin() * (c + x.sum());
                }
                c
            };
            g(element(x, 0)) * g(element(x, 1))
        }
    );
    pair!(
        "custom in body",
        |x: Var| {
            let f = |c: Var| {
                custom_jvp(
                    |c: Var| c.sin() * c,
                    |c: Var, dc: Var| (c.sin() * c, (c.sin() + c * c.cos()) * dc),
                )(c)
            };
            fori_loop(4, |(_, c): (Var, Var)| f(c) + x, x).sum()
        },
        |x: Var| {
            let mut c = x;
            for _ in 0..4 {
                c = c.sin() * c + x;
            }
            c.sum()
        }
    );
    pair!(
        "grad in body",
        |x: Var| fori_loop(
            3,
            |(_, c): (Var, Var)| c - 0.1 * grad(|c: Var| ((c * x).sin() * c).sum())(c),
            x
        )
        .sum(),
        |x: Var| {
            let mut c = x;
            for _ in 0..3 {
                c = c - 0.1 * grad(|c: Var| ((c * x).sin() * c).sum())(c);
            }
            c.sum()
        }
    );
    pair!(
        "vmap in body",
        |x: Var| fori_loop(
            3,
            |(i, c): (Var, Var)| vmap(|e: Var| e.sin() * c.sum() * 0.1 + i.convert(Dtype::F64))(c),
            x
        )
        .sum(),
        |x: Var| {
            let mut c = x;
            for i in 0..3 {
                c = c.sin() * c.sum() * 0.1 + i as f64;
            }
            c.sum()
        }
    );
    pair!(
        "matrix carry",
        |x: Var| {
            let a = x.expand_dims(0) * x.expand_dims(1).sin();
            fori_loop(3, |(_, m): (Var, Var)| m.dot(a) * 0.5 + m.t(), a).sum()
        },
        |x: Var| {
            let a = x.expand_dims(0) * x.expand_dims(1).sin();
            let mut m = a;
            for _ in 0..3 {
                m = m.dot(a) * 0.5 + m.t();
            }
            m.sum()
        }
    );
    pair!("map", |x: Var| map(|e: Var| (e * x).sin().sum() * e, x).dot(x), |x: Var| {
        let y: Vec<Var> = (0..4).map(|i| (element(x, i) * x).sin().sum() * element(x, i)).collect();
        stack(&y, 0).dot(x)
    });
    pair!(
        "stop_gradient",
        |x: Var| scan(|(c, e): (Var, Var)| (c.stop_gradient() * e, c * e), x.sum(), x).1.sum(),
        |x: Var| {
            let mut c = x.sum();
            let mut t = c * 0.0;
            for i in 0..4 {
                let e = element(x, i);
                t += c * e;
                c = c.stop_gradient() * e;
            }
            t
        }
    );
    pair!(
        "constant carry",
        |x: Var| {
            let (_, s) =
                fori_loop(3, |(_, (k, s)): (Var, (Var, Var))| (k, s * k + x), (x.sin(), x));
            s.sum()
        },
        |x: Var| {
            let k = x.sin();
            let mut s = x;
            for _ in 0..3 {
                s = s * k + x;
            }
            s.sum()
        }
    );
    pair!(
        "dynamic positions",
        |x: Var| scan(
            |(c, e): (Var, Var)| {
                let i = (e * 3.0).floor().convert(Dtype::I64).abs().rem(4);
                (c.at(i).add(e * c.index((i + 1).rem(4))), c.index(i))
            },
            x,
            x
        )
        .1
        .sum(),
        |x: Var| {
            let mut c = x;
            let mut t = x.sum() * 0.0;
            for k in 0..4 {
                let e = element(x, k);
                let i = (e * 3.0).floor().convert(Dtype::I64).abs().rem(4);
                t += c.index(i);
                c = c.at(i).add(e * c.index((i + 1).rem(4)));
            }
            t
        }
    );
    pair!(
        "a dynamic trip count",
        |x: Var| fori_loop(number(4), |(i, c): (Var, Var)| (c * x.index(i)).sin() + c * x, x).sum(),
        |x: Var| {
            let mut c = x;
            for i in 0..4 {
                c = (c * element(x, i)).sin() + c * x;
            }
            c.sum()
        }
    );
    pair!(
        "dynamic trip counts 0 and 1",
        |x: Var| {
            let iteration = |(_, c): (Var, Var)| c.sin() * x;
            fori_loop(number(-2), iteration, fori_loop(number(1), iteration, x)).sum()
        },
        |x: Var| (x.sin() * x).sum()
    );
    pair!(
        "a condition on a counter",
        |x: Var| {
            let below = |(n, _): (Var, Var)| n.lt(3);
            let iteration = |(n, c): (Var, Var)| (n + 1, c.sin() * x + c.index(n) * 0.5);
            while_loop(below, iteration, (number(0), x)).1.dot(x)
        },
        |x: Var| {
            let mut c = x;
            for n in 0..3 {
                c = c.sin() * x + element(c, n) * 0.5;
            }
            c.dot(x)
        }
    );
    pair!(
        "a condition on data",
        |x: Var| while_loop(|c: Var| c.dot(c).lt(9.0), |c: Var| c * 1.5 + c.sin(), x).sum(),
        |x: Var| {
            let mut c = x;
            for _ in 0..6 {
                c = select(c.dot(c).lt(9.0), c * 1.5 + c.sin(), c);
            }
            c.sum()
        }
    );
    pair!(
        "a while in a scan in a while",
        |x: Var| {
            let inner = |(c, e): (Var, Var)| {
                let small = |(c, _): (Var, Var)| (c * c).lt(4.0);
                let (c, d) = while_loop(small, |(c, d)| (c * 1.75 + e.sin(), c * d), (c, e));
                (c * 0.25, d)
            };
            let below = |(n, _, _): (Var, Var, Var)| n.lt(2);
            let outer = |(n, c, t): (Var, Var, Var)| {
                let (c, ds) = scan(inner, c, x);
                (n + 1, c, t + ds.sum())
            };
            let (_, c, t) = while_loop(below, outer, (number(0), x.sum() * 0.125, x.sum()));
            c + t
        },
        |x: Var| {
            let (mut c, mut t) = (x.sum() * 0.125, x.sum());
            for _ in 0..2 {
                for i in 0..4 {
                    let (e, mut d) = (element(x, i), element(x, i));
                    for _ in 0..12 {
                        let small = (c * c).lt(4.0);
                        let next = (c * 1.75 + e.sin(), c * d);
                        (c, d) = (select(small, next.0, c), select(small, next.1, d));
                    }
                    c *= 0.25;
                    t += d;
                }
            }
            c + t
        }
    );
    pair!(
        "a loop in one side of a branch in a loop",
        |x: Var| {
            let iteration = |(i, c): (Var, Var)| {
                let looped = |c: Var| fori_loop(i, |(k, c): (Var, Var)| c * x.index(k).cos(), c);
                cond(i.rem(2).eq(1), looped, |c: Var| c.sin(), c) + x
            };
            fori_loop(number(4), iteration, x).sum()
        },
        |x: Var| {
            let mut c = x;
            for i in 0..4 {
                if i % 2 == 1 {
                    for k in 0..i {
                        c *= element(x, k).cos();
                    }
                } else {
                    c = c.sin();
                }
                c += x;
            }
            c.sum()
        }
    );
    pair!(
        "a loop in a side of a dynamic branch",
        |x: Var| {
            let iteration = |(i, c): (Var, Var)| {
                let small = |c: Var| c.dot(c).lt(9.0);
                let looped = |c: Var| while_loop(small, |c: Var| c * 1.5 + c.sin(), c);
                cond(c.index(i).gt(0.3), looped, |c: Var| c.sin() * 0.7, c) * 0.5
            };
            fori_loop(number(4), iteration, x).sum()
        },
        |x: Var| {
            let mut c = x;
            for i in 0..4 {
                let mut grown = c;
                for _ in 0..8 {
                    let next = grown * 1.5 + grown.sin();
                    grown = select(grown.dot(grown).lt(9.0), next, grown);
                }
                c = select(element(c, i).gt(0.3), grown, c.sin() * 0.7) * 0.5;
            }
            c.sum()
        }
    );
    pair!(
        "a gradient in every iteration",
        |x: Var| {
            let energy = |y: Var| {
                let iteration = |(_, c): (Var, Var)| c.sin() * y + c;
                fori_loop(number(3), iteration, y).square().sum()
            };
            fori_loop(number(3), |(_, y): (Var, Var)| y - 0.01 * grad(energy)(y), x).sum()
        },
        |x: Var| {
            let energy = |y: Var| (0..3).fold(y, |c, _| c.sin() * y + c).square().sum();
            (0..3).fold(x, |y, _| y - 0.01 * grad(energy)(y)).sum()
        }
    );
    pair!(
        "an outlined function with a loop",
        |x: Var| {
            let power = outline(|(n, y): (Var, Var)| {
                fori_loop(n, |(i, c): (Var, Var)| c * y.cos() + x.index(i), y)
            });
            (power((number(3), x)) + power((number(2), x * 0.5)) + power((number(0), x))).sum()
        },
        |x: Var| {
            let power = |n: usize, y: Var| (0..n).fold(y, |c, i| c * y.cos() + element(x, i));
            (power(3, x) + power(2, x * 0.5) + power(0, x)).sum()
        }
    );
    // In these pairs, custom rules pass values and tangents through the same loop or the same branch.
    pair!(
        "jvp of a loop as its own rule",
        |x: Var| {
            let f = |x: Var| fori_loop(3, |(i, c): (Var, Var)| (c * x.index(i)).sin() + x, x);
            custom_jvp(f, |x: Var, dx: Var| jvp(f)((x, dx)))(x).sum()
        },
        |x: Var| {
            let mut c = x;
            for i in 0..3 {
                c = (c * element(x, i)).sin() + x;
            }
            c.sum()
        }
    );
    pair!(
        "rule with a loop and branches",
        |x: Var| {
            let last = |e: Var, d: Var| {
                let iteration = |(c, d, s): (Var, Var, Var)| {
                    let grown = |(c, d): (Var, Var)| (c.sin(), d * c.cos());
                    let kept = |(c, d): (Var, Var)| (c, d * 1.0);
                    let (c, d) = cond(c.gt(0.0), grown, kept, (c, d));
                    (c, d, s + d)
                };
                let zero = full([], 0.0);
                fori_loop(4, |(_, c): (Var, (Var, Var, Var))| iteration(c), (e, d, zero))
            };
            let f = |e: Var| last(e, full([], 0.0)).0;
            let g = custom_jvp(f, |e: Var, d: Var| {
                let (y, dy, _) = last(e, d);
                (y, dy)
            });
            let each: Vec<Var> = (0..4).map(|i| g(element(x, i) * x.sum())).collect();
            stack(&each, 0).dot(x)
        },
        |x: Var| {
            let each: Vec<Var> = (0..4)
                .map(|i| {
                    let mut c = element(x, i) * x.sum();
                    for _ in 0..4 {
                        c = select(c.gt(0.0), c.sin(), c);
                    }
                    c
                })
                .collect();
            stack(&each, 0).dot(x)
        }
    );
    pair!(
        "reverse rule with a loop",
        |x: Var| {
            // The recurrence y[i] = x[i] + y[i-1] sin y[i-1]; its reverse rule is a recurrence from the end.
            let run = |x: Var| scan(|(y, x): (Var, Var)| (x + y * y.sin(), y), full([], 0.0), x);
            let f = custom_vjp(
                move |x: Var| run(x).0,
                move |x: Var| run(x),
                |ys: Var, ct: Var| {
                    scan_reverse(|(ct, y): (Var, Var)| (ct * (y.sin() + y * y.cos()), ct), ct, ys).1
                },
            );
            f(x.sin()) * f(x)
        },
        |x: Var| {
            let f = |x: Var| {
                let mut y = element(x, 0) * 0.0;
                for i in 0..4 {
                    y = element(x, i) + y * y.sin();
                }
                y
            };
            f(x.sin()) * f(x)
        }
    );
    pair!(
        "transpose of a loop",
        |x: Var| {
            let filter = |v: Var| {
                scan(|(s, (v, x)): (Var, (Var, Var))| (s * x.sin() + v, s), full([], 0.0), (v, x)).1
            };
            linear_transpose(filter, x)(x * x).dot(x)
        },
        |x: Var| {
            // The expected gradient of the recurrence s[i+1] = s[i] sin x[i] + v[i] with outputs y[i] = s[i].
            let mut ct = element(x, 0) * 0.0;
            let mut total = ct;
            for i in (0..4).rev() {
                let e = element(x, i);
                total += ct * e;
                ct = ct * e.sin() + e * e;
            }
            total
        }
    );
    pairs
}

/// Returns `n` as a run-time value, so that a loop with this trip count has no static trip count.
fn number(n: i64) -> Var {
    constant([n]).sum()
}

#[test]
fn loops_are_their_bodies_written_out() {
    written_out(FIRST);
}

#[test]
fn derivatives_of_second_order_are_those_of_bodies_written_out() {
    written_out(&HIGHER[..3]);
}

#[test]
fn derivatives_of_batches_and_of_hessians_are_those_of_bodies_written_out() {
    written_out(&HIGHER[3..]);
}

#[track_caller]
fn written_out(transforms: &[Transform]) {
    let points = [Tensor::from([0.5, -1.25, 2.0, 0.75]), Tensor::from([-0.5, -1.5, 0.3, -0.75])];
    let check = |(name, looped, written): &(&str, F, F)| {
        differences(name, looped, written, transforms, &points)
    };
    let wrong: Vec<String> = Sweep::WrittenOut.all(pairs()).iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn loops_and_their_bodies_written_out_are_recorded() {
    let points = [Tensor::from([0.5, -1.25, 2.0, 0.75])];
    let check = |(name, looped, written): &(&str, F, F)| {
        let mut wrong = recorded_differences(name, looped, written, &points);
        wrong.extend(recorded_differences(name, written, looped, &points));
        wrong
    };
    let wrong: Vec<String> = pairs().iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The program and the loop program of a value and gradient must have the same number of lines for any trip count. Trip
/// counts are compared in pairs, because arrays beyond the size of the cache are lowered differently, and long loops are
/// cut into pieces.
#[test]
fn a_hundred_thousand_iterations_are_as_small_a_program_as_a_hundred() {
    let lines = |n: usize| {
        let iteration = |(c, x): (Var, Var)| ((c * x).sin() + x, c);
        let f = jit(value_and_grad(move |x: Var| scan(iteration, x.index(0), x).1.sum()));
        f.explain(Tensor::full(&[n], 0.5).unwrap()).unwrap().to_string().lines().count()
    };
    assert_eq!(lines(100), lines(4_000));
    assert_eq!(lines(1_000_000), lines(4_000_000));
}

/// A carry that the closure returns unchanged must become a constant of the loop, in the forward and in the reverse
/// pass.
#[test]
fn invariant_carries_become_constants() {
    let iteration = |(i, (s, w, k)): (Var, (Var, Var, Var))| (s + w.index(i).sin() * s.cos(), w, k);
    let f = move |w: Var| {
        let k = full([], 3i64);
        let (s, w, k) = fori_loop(8, iteration, (full([], 0.0), w, k));
        s + w.index(k)
    };
    let x = Tensor::full(&[8], 0.5).unwrap();
    let text = jit(f).explain(&x).unwrap().stages()[0].text.clone();
    assert!(text.contains("takes=[index,carry0,const,const]"), "{text}");
    let written = |w: Var| {
        let mut s = element(w, 0) * 0.0;
        for i in 0..8 {
            s += element(w, i).sin() * s.cos();
        }
        s + element(w, 3)
    };
    let (got, want) = (run(hessian(f), &x).unwrap(), run(hessian(written), &x).unwrap());
    Agreement::relative(1e-12).check(&got, &want).unwrap();
    // The gradient with respect to an invariant carry that the loop's condition reads must be right, and a loop without
    // iterations must return its initial carry.
    let below = |(x, most): (Var, Var)| x.lt(most);
    let g = |x: Var| while_loop(below, |(x, most): (Var, Var)| (x * x, most), (x, x + 90.0)).1;
    assert_eq!(run(grad(g), 3.0).unwrap().item::<f64>().unwrap(), 1.0);
    let same = |x: Var| fori_loop(0, |(_, x): (Var, Var)| x, x);
    assert_eq!(run(same, 3.0).unwrap().item::<f64>().unwrap(), 3.0);
}
