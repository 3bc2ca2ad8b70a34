//! Rust functions that programs of XLA call: order, values, failures, on one and on several devices. The tests run if
//! `TAPELOOM_PJRT_PLUGIN` is set, and say so if it is not; the tests of `host_calls.rs` run on XLA, too.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tapeloom::prelude::*;
use tapeloom::xla::{self, Client};
use tapeloom::{ArrayType, Kind, Mesh, PartitionSpec, Target};
use tapeloom_tests::xla::{client_or_skip, devices_or_skip};
use tapeloom_tests::{Agreement, Heard, Listener};

fn on<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B>(client: &Client, f: F) -> Jit<A, B, F> {
    jit(f).on(Target::Xla(client.clone()))
}

/// The way in which a test compiles a program for XLA.
struct Setup<'a> {
    client: &'a Client,
    /// The mesh, and the partition spec of the argument; `None` for one device.
    divided: Option<(Mesh, PartitionSpec)>,
    max_steps: Option<u64>,
}

impl Setup<'_> {
    /// Returns the setup for one device, without a limit on iterations.
    fn one(client: &Client) -> Setup<'_> {
        Setup { client, divided: None, max_steps: None }
    }

    fn jit<B: Tree<Var>, F: Fn(Var) -> B>(&self, f: F) -> Jit<Var, B, F> {
        let mut there = on(self.client, f);
        if let Some((mesh, spec)) = &self.divided {
            there = there.mesh(mesh.clone()).argument_shardings(spec.clone());
        }
        match self.max_steps {
            Some(n) => there.max_steps(n),
            None => there,
        }
    }
}

/// Runs a program on XLA and by machine code, checks that results and logs agree, and returns the log.
#[track_caller]
fn same_effects<B: Tree<Var>, F: Fn(Var) -> B>(
    program: impl Fn(Listener) -> F,
    setup: &Setup<'_>,
    x: &Tensor,
) -> Heard {
    let log = Listener::default();
    let (native, there) = (jit(program(log.clone())), setup.jit(program(log.clone())));
    let want = tree_leaves(&native.call(x).unwrap());
    let heard = log.take();
    let got = tree_leaves(&there.call(x).unwrap());
    Agreement::relative(1e-12).check_all(&got, &want).unwrap();
    Agreement::relative(1e-12).check_heard(&log.take(), &heard).unwrap();
    heard
}

/// The plugin runs independent operations on large arrays at once and in any order. Effects must keep the program's order.
#[test]
fn effects_among_large_operations_keep_their_order() {
    let Some(client) = client_or_skip() else { return };
    let program = |log: Listener| {
        move |x: Var| {
            let mut sums = Vec::new();
            for i in 0..24 {
                let y = (x * (0.1 * f64::from(i)) + 0.3).dot(x).sin();
                // Sleep longest in the first effects, so that the operands of later effects are ready before earlier
                // effects have ended.
                let log = log.clone();
                let y = tap(y.index([0, 0]), move |y: Tensor| {
                    std::thread::sleep(Duration::from_millis(5 - i as u64 / 6));
                    log.hear("y", &[y, Tensor::from(f64::from(i))]);
                });
                sums.push(y);
            }
            stack(&sums, 0)
        }
    };
    let x: Tensor = (0..160 * 160).map(|i| (0.37 * f64::from(i)).sin()).collect();
    let x = x.reshape(&[160, 160]).unwrap();
    let setup = Setup::one(&client);
    for _ in 0..5 {
        assert_eq!(same_effects(program, &setup, &x).len(), 24);
    }
}

#[test]
fn effects_in_many_iterations_and_their_reverse_pass() {
    let Some(client) = client_or_skip() else { return };
    let setup = Setup::one(&client);
    let x = Tensor::from(0.7);
    let thousand = |log: Listener| {
        move |x: Var| fori_loop(1000, |(_, x): (Var, Var)| log.see("x", (x * 1.1).sin()), x)
    };
    assert_eq!(same_effects(thousand, &setup, &x).len(), 1000);
    let nested = |log: Listener| {
        move |x: Var| {
            let inner = |(i, x): (Var, Var)| {
                let odd = |x: Var| log.see("odd", x * 0.9);
                cond((i % 2).eq(1), odd, |x: Var| log.see("even", x.cos()), x)
            };
            let outer = |(_, x): (Var, Var)| log.see("outer", fori_loop(5, inner, x));
            fori_loop(20, outer, x)
        }
    };
    assert_eq!(same_effects(nested, &setup, &x).len(), 120);
    let gradient = |log: Listener| {
        move |x: Var| {
            let step = |(_, x): (Var, Var)| log.see_back("back", log.see("x", x.sin()));
            value_and_grad(|x: Var| fori_loop(50, step, x))(x)
        }
    };
    assert_eq!(same_effects(gradient, &setup, &x).len(), 100);
    // If iterations are recomputed, under any policy or a byte budget of a few iterations, no effect may be repeated.
    for policy in [Policy::Nothing, Policy::Bytes(400)] {
        let gradient = |log: Listener| {
            let policy = policy.clone();
            move |x: Var| {
                let step = |(_, x): (Var, Var)| log.see_back("back", log.see("x", x.sin()));
                grad(checkpoint(|x: Var| fori_loop(50, step, x), policy.clone()))(x)
            }
        };
        assert_eq!(same_effects(gradient, &setup, &x).len(), 100);
    }
    // A loop on a condition, whose trip count is known only at run time, must have the same effects, too.
    let until = |log: Listener| {
        move |x: Var| {
            let step = |x: Var| log.see_back("back", log.see("x", x * 1.5));
            value_and_grad(|x: Var| while_loop(|x: Var| x.lt(50.0), step, x))(x)
        }
    };
    assert!(same_effects(until, &Setup { max_steps: Some(30), ..setup }, &x).len() > 10);
}

#[test]
fn effects_in_functions_that_are_called() {
    let Some(client) = client_or_skip() else { return };
    let program = |log: Listener| {
        move |x: Var| {
            let leaf = outline(|x: Var| log.see("leaf", x.sin()));
            let middle = outline(|x: Var| log.see("middle", leaf(x) + leaf(x * 2.0)));
            let rows = vmap(|x: Var| middle(x) * middle(x + 1.0))(x);
            fori_loop(2, |(_, x): (Var, Var)| vmap(&middle)(x), rows).sum()
        }
    };
    let x = Tensor::from([0.1, 0.2, 0.3]);
    let heard = same_effects(program, &Setup::one(&client), &x);
    let names: BTreeSet<&str> = heard.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["leaf", "middle"]));
    let second = |log: Listener| {
        let f = program(log);
        move |x: Var| grad(|x: Var| grad(&f)(x).sum())(x)
    };
    assert_eq!(same_effects(second, &Setup::one(&client), &x).len(), heard.len());
}

/// Returns arrays of each dtype: a vector of zero, bounds, infinities or nan of the dtype, a scalar, and an empty array.
fn of_every_dtype() -> Vec<Tensor> {
    let mut all = Vec::new();
    for dtype in
        [Dtype::Bool, Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64, Dtype::F32, Dtype::F64]
    {
        let bits: &[u64] = match dtype {
            Dtype::Bool => &[0, 1, 1],
            Dtype::I32 | Dtype::U32 => &[0, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff],
            Dtype::I64 | Dtype::U64 => &[0, i64::MAX as u64, 1 << 63, u64::MAX],
            Dtype::F32 => &[0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_1234, 0x7f7f_ffff],
            Dtype::F64 => &[1 << 63, f64::INFINITY.to_bits(), 0x7ff8_0000_0000_1234, 1023 << 52],
        };
        let bytes: Vec<u8> =
            bits.iter().flat_map(|bits| bits.to_le_bytes()[..dtype.bytes()].to_vec()).collect();
        for (shape, bytes) in
            [(vec![bits.len()], &bytes[..]), (vec![], &bytes[..dtype.bytes()]), (vec![2, 0], &[])]
        {
            all.push(Tensor::from_bytes(&ArrayType::new(dtype, &shape[..]), bytes).unwrap());
        }
    }
    all
}

/// A function that returns its arguments in the reverse order, and an effect, get the bits of arrays of all dtypes.
#[test]
fn arrays_of_every_dtype_have_their_bits() {
    let Some(client) = client_or_skip() else { return };
    let x = of_every_dtype();
    let expected: Vec<Vec<u8>> = x.iter().map(|x| x.bytes().to_vec()).collect();
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    let f = move |x: Vec<Var>| {
        let (expected, seen) = (expected.clone(), counted.clone());
        let x = tap(x, move |x: Vec<Tensor>| {
            assert!(x.iter().map(|x| x.bytes()).eq(&expected), "{x:?}");
            seen.fetch_add(1, Ordering::Relaxed);
        });
        let types: Vec<ArrayType> = x.iter().rev().map(|x| x.array_type()).collect();
        callback("größer \"than\" \\ %1\n", x, types, |x: Vec<Tensor>| {
            Ok(x.into_iter().rev().collect())
        })
    };
    for got in [jit(f.clone()).call(&x).unwrap(), on(&client, f).call(&x).unwrap()] {
        assert_eq!(got.len(), x.len());
        for (got, want) in got.iter().rev().zip(&x) {
            assert_eq!((got.ty(), got.bytes()), (want.ty(), want.bytes()));
        }
    }
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}

/// Calls with arrays on the device must have performed their effects when they return, and must take over memory as programs
/// without effects do.
#[test]
fn resident_arrays_and_donated_ones() {
    let Some(client) = client_or_skip() else { return };
    let log = Listener::default();
    let inside = log.clone();
    let step = move |(w, x): (Var, Var)| {
        let (loss, slope) = value_and_grad(|w: Var| (x.dot(w) - 1.0).square().mean())(w);
        inside.see("loss", loss);
        w - 0.1 * slope
    };
    let (start, x) = (Tensor::full(&[4], 0.2).unwrap(), Tensor::full(&[8, 4], 0.5).unwrap());
    let (native, there) = (jit(step.clone()), on(&client, step));
    let mut w = start.clone();
    for _ in 0..20 {
        w = native.call((&w, &x)).unwrap();
    }
    let want = log.take();
    let (mut resident, batch) =
        (xla::upload(&client, &start).unwrap(), xla::upload(&client, &x).unwrap());
    let before = client.transfers();
    for i in 0..20 {
        resident = there.call_on_device((resident, batch.clone())).unwrap();
        let found = log.take();
        Agreement::relative(1e-12).check_heard(&found, &want[i..=i].to_vec()).unwrap();
    }
    assert_eq!(client.transfers().to_host, before.to_host);
    // Each of the 20 calls may copy only 8 bytes to the device: the number of the execution, to which calls of Rust
    // functions belong.
    assert_eq!(client.transfers().to_devices - before.to_devices, 20 * 8);
    Agreement::relative(1e-12).check(&xla::download(&resident).unwrap(), &w).unwrap();
    let report = there.explain((&start, &x)).unwrap();
    let report = report.xla().unwrap();
    let arguments: Vec<_> = report.arguments.iter().map(|x| (&*x.path, x.result)).collect();
    assert_eq!(arguments, [("argument.0", Some(0)), ("argument.1", None)]);
    assert!(report.captured.is_empty());
    assert_eq!(report.calls["tapeloom.host"], 1);
}

/// Effects before the failure must be performed, and none after it. The error must be that of machine code, and the program
/// must run again.
#[test]
fn a_failure_ends_the_call() {
    let Some(client) = client_or_skip() else { return };
    let log = Listener::default();
    let program = |log: Listener| {
        move |x: Var| {
            let step = |(_, x): (Var, Var)| {
                let x = log.see("before", x + 1.0);
                let y =
                    callback("small", x, x.array_type(), |x: Tensor| match x.item::<f64>()? {
                        x if x < 5.0 => Ok(Tensor::from(x)),
                        x if x < 100.0 => Err(format!("{x} is large").into()),
                        x => panic!("{x} is far too large"),
                    });
                log.see("behind", y)
            };
            log.see("end", fori_loop(3, step, x))
        }
    };
    let (native, there) = (jit(program(log.clone())), on(&client, program(log.clone())));
    for x in [0.0, 2.5, 3.5, 4.5, 200.0, 1.0] {
        let want = native.call(x).map_err(|e| (e.kind(), e.to_string()));
        let heard = log.take();
        let got = there.call(x).map_err(|e| (e.kind(), e.to_string()));
        assert_eq!(got, want);
        assert_eq!(log.take(), heard);
        let resident = xla::upload(&client, &Tensor::from(x)).unwrap();
        let got = there.call_on_device(resident).and_then(|y| xla::download(&y));
        assert_eq!(got.map_err(|e| (e.kind(), e.to_string())), want);
        assert_eq!(log.take(), heard);
    }
    // A loop with effects that exceeds its limit must give an error, after the effects of the allowed iterations.
    let endless = |log: Listener| {
        move |x: Var| while_loop(|x: Var| x.ge(0.0), |x: Var| log.see("x", x + 1.0), x)
    };
    for f in [jit(endless(log.clone())), on(&client, endless(log.clone()))] {
        assert_eq!(f.max_steps(5).call(0.0).unwrap_err().kind(), Kind::Limit);
        assert_eq!(log.take().len(), 5);
    }
    let error = there.call(4.5).unwrap_err();
    assert_eq!(error.kind(), Kind::Callback);
    assert!(error.to_string().contains("`small` failed: 5.5 is large"), "{error}");
    assert!(error.to_string().contains("xla_host_calls.rs:"), "{error}");
}

/// Executions on several threads have their own functions, arguments and errors, and functions live as long as their program.
#[test]
fn threads_and_programs_do_not_meet() {
    let Some(client) = client_or_skip() else { return };
    let alive = Arc::new(());
    let program = |k: f64| {
        let held = alive.clone();
        move |x: Var| {
            let held = held.clone();
            let add = move |x: Tensor| {
                let (x, _) = (x.item::<f64>()?, &held);
                if x < 0.0 { Err(format!("{x}").into()) } else { Ok(Tensor::from(x + k)) }
            };
            fori_loop(10, |(_, x): (Var, Var)| callback("add", x, x.array_type(), add.clone()), x)
        }
    };
    let all: Vec<_> = (0..4).map(|k| on(&client, program(f64::from(k)))).collect();
    std::thread::scope(|scope| {
        for (i, f) in all.iter().enumerate().chain(all.iter().enumerate()) {
            scope.spawn(move || {
                for j in 0..25_u8 {
                    let x = f64::from(j) - 5.0;
                    match f.call(x) {
                        Ok(y) => assert_eq!(y, Tensor::from(x + 10.0 * i as f64)),
                        Err(e) => assert!(e.to_string().contains(&format!("failed: {x}")), "{e}"),
                    }
                }
            });
        }
    });
    drop(all);
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// A program without results, whose only effects are calls of Rust functions, must have made them when the call returns.
#[test]
fn programs_without_results() {
    let Some(client) = client_or_skip() else { return };
    let log = Listener::default();
    let inside = log.clone();
    let f = on(&client, move |x: Var| {
        inside.see("x", x);
    });
    f.call([1.0, 2.0]).unwrap();
    assert_eq!(log.take(), [("x".to_owned(), vec![1.0, 2.0])]);
    f.call_on_device(xla::upload(&client, &Tensor::from([3.0])).unwrap()).unwrap();
    assert_eq!(log.take(), [("x".to_owned(), vec![3.0])]);
    // The text alone belongs to no process whose functions it could call, so this is an error.
    let error = jit(|x: Var| tap(x, |_: Tensor| ())).stablehlo(1.0).unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
    assert!(error.to_string().contains("xla_host_calls.rs:"), "{error}");
}

/// On four devices, each effect must be performed once, with the whole array, in program order.
#[test]
fn effects_happen_once_on_several_devices() {
    let Some(client) = devices_or_skip(4) else { return };
    let x: Tensor = (0..32).map(|i| (0.9 * f64::from(i)).sin()).collect();
    let x = x.reshape(&[8, 4]).unwrap();
    for (mesh, spec) in [("data=4", vec!["data"]), ("data=2, model=2", vec!["data", "model"])] {
        let mesh: Mesh = mesh.parse().unwrap();
        let divided = Some((mesh, PartitionSpec::new(spec)));
        let setup = Setup { divided, ..Setup::one(&client) };
        let straight = |log: Listener| {
            move |x: Var| {
                let y = log.see("y", x.sin());
                let z = log.see("z", y.t().dot(y));
                log.see("x", x) + z.sum()
            }
        };
        assert_eq!(same_effects(straight, &setup, &x).len(), 3);
        let loops = |log: Listener| {
            move |x: Var| {
                let step = |(i, x): (Var, Var)| {
                    let odd = |x: Var| log.see("odd", x * 0.9);
                    let x = cond((i % 2).eq(1), odd, |x: Var| x.cos(), x);
                    log.see("x", x.sharded(["_", "data"]))
                };
                let half = outline(|x: Var| log.see("half", x * 0.5));
                half(fori_loop(20, step, half(x)))
            }
        };
        assert_eq!(same_effects(loops, &setup, &x).len(), 32);
        let gradient = |log: Listener| {
            move |x: Var| {
                let step = |(_, x): (Var, Var)| log.see_back("back", log.see("x", x.sin()));
                value_and_grad(|x: Var| fori_loop(5, step, x).square().sum())(x)
            }
        };
        assert_eq!(same_effects(gradient, &setup, &x).len(), 10);
        let until = |log: Listener| {
            move |x: Var| {
                let step = |x: Var| log.see_back("back", log.see("x", x * 1.5));
                let end = |x: Var| while_loop(|x: Var| x.square().sum().lt(900.0), step, x);
                value_and_grad(|x: Var| end(x).square().sum())(x)
            }
        };
        let setup = Setup { max_steps: Some(20), ..setup };
        assert_eq!(same_effects(until, &setup, &x).len(), 10);
    }
}

/// Results of Rust functions must reach all devices with the same bits.
#[test]
fn results_have_their_bits_on_several_devices() {
    let Some(client) = devices_or_skip(4) else { return };
    let x = of_every_dtype();
    let f = |x: Vec<Var>| {
        let types: Vec<ArrayType> = x.iter().rev().map(|x| x.array_type()).collect();
        callback("reverse", x, types, |x: Vec<Tensor>| Ok(x.into_iter().rev().collect()))
    };
    let there = on(&client, f).mesh(Mesh::new([("data", 4)]).unwrap());
    let got = there.call(&x).unwrap();
    for (got, want) in got.iter().rev().zip(&x) {
        assert_eq!((got.ty(), got.bytes()), (want.ty(), want.bytes()));
    }
    // The elements of a divided argument and of a divided result must keep their bits, too.
    let x = Tensor::from([-0.0, f64::INFINITY, 1e-200, -1.0]);
    let same = |x: Var| callback("same", x, x.array_type(), |x: Tensor| Ok(x));
    let there = on(&client, same)
        .mesh(Mesh::new([("data", 4)]).unwrap())
        .argument_shardings(PartitionSpec::new(["data"]))
        .result_shardings(PartitionSpec::new(["data"]));
    assert_eq!(there.call(&x).unwrap().bytes(), x.bytes());
}

/// If a function fails on one device, the call must end with its error, and not the process. Later calls of Rust functions
/// must do nothing, and loops must end.
#[test]
fn failures_end_calls_on_several_devices() {
    let Some(client) = devices_or_skip(4) else { return };
    let log = Listener::default();
    let program = |log: Listener| {
        move |x: Var| {
            let step = |x: Var| {
                let y =
                    callback("grow", x, x.array_type(), |x: Tensor| match x.to_vec::<f64>()?[0] {
                        first if first < 0.0 => panic!("negative"),
                        first if first > 8.0 => Err(format!("{first} is large").into()),
                        _ => Ok(x.map_numbers(|x| x + 1.0)),
                    });
                log.see("y", y)
            };
            // After a failure the results of calls are zeros, so x stays zero, and the loop must be ended in another
            // way.
            let x = while_loop(|x: Var| x.sum().lt(1000.0), step, x);
            // After a failure x is zero, which gives the largest trip count. This loop must be ended, too.
            let n = select(x.sum().gt(500.0), constant(2i64), constant(i64::MAX));
            fori_loop(n, |(_, x): (Var, Var)| log.see("z", x * 2.0), x)
        }
    };
    let native = jit(program(log.clone()));
    let there = on(&client, program(log.clone()))
        .mesh(Mesh::new([("data", 4)]).unwrap())
        .argument_shardings(PartitionSpec::new(["data"]));
    for x in [[0.0, 0.0, 998.5, 0.0], [0.0; 4], [-1.0, 0.0, 0.0, 2000.0], [-1.0; 4], [7.0; 4]] {
        let want = native.call(x).map_err(|e| (e.kind(), e.to_string()));
        let heard = log.take();
        let start = Instant::now();
        let got = there.call(x).map_err(|e| (e.kind(), e.to_string()));
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(got, want);
        assert_eq!(log.take(), heard);
    }
    let condition = |x: Var| {
        let more = |x: Var| {
            callback("more", x, ArrayType::new(Dtype::Bool, []), |_: Tensor| {
                Ok(Tensor::from(false))
            })
        };
        while_loop(more, |x: Var| x * 2.0, x)
    };
    let there = on(&client, condition).mesh(Mesh::new([("data", 4)]).unwrap());
    let error = there.call(1.0).unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
    assert!(error.to_string().contains("the condition of this loop calls"), "{error}");
    assert!(error.to_string().contains("xla_host_calls.rs:"), "{error}");
    // On one device, the condition of a loop may call a Rust function.
    assert_eq!(on(&client, condition).call(1.0).unwrap(), Tensor::from(1.0));
}

/// Steps with an effect on four devices, with arrays that stay there.
#[test]
fn steps_on_several_devices_show_their_losses() {
    let Some(client) = devices_or_skip(4) else { return };
    let log = Listener::default();
    let inside = log.clone();
    let step = move |(w, x): (Var, Var)| {
        let (loss, slope) = value_and_grad(|w: Var| (x.dot(w) - 1.0).square().mean())(w);
        inside.see("loss", loss);
        w - 0.1 * slope
    };
    let there = on(&client, step.clone())
        .mesh(Mesh::new([("data", 4)]).unwrap())
        .argument_shardings((PartitionSpec::replicated(), PartitionSpec::new(["data"])));
    let x: Tensor = (0..64).map(|i| (0.9 * f64::from(i)).sin()).collect();
    let (start, x) = (Tensor::full(&[4], 0.2).unwrap(), x.reshape(&[16, 4]).unwrap());
    let (mut w, batch) = there.upload((&start, &x)).unwrap();
    for _ in 0..100 {
        w = there.call_on_device((w, batch.clone())).unwrap();
    }
    let found = log.take();
    let (native, mut want) = (jit(step), start);
    for _ in 0..100 {
        want = native.call((&want, &x)).unwrap();
    }
    Agreement::relative(1e-9).check_heard(&found, &log.take()).unwrap();
    Agreement::relative(1e-9).check(&xla::download(&w).unwrap(), &want).unwrap();
}
