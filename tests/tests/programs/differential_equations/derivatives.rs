//! Derivatives of solutions, compared with finite differences, with closed forms, and between modes.

use super::{near, numbers, status};
use tapeloom::prelude::*;
use tapeloom_tests::equations::{prey_and_predators, robertson};

/// Returns both adaptive methods, with tolerances small enough to compare derivatives with finite differences.
fn methods() -> [ode::Adaptive; 2] {
    [ode::dopri5(), ode::rodas5p()].map(|method| method.rtol(1e-10).atol(1e-12))
}

/// Returns the solution of the predator-prey equations, as a function of rates, initial state and times.
fn animals(method: ode::Adaptive) -> impl Fn((Var, Var, Var)) -> Var + Copy {
    move |(rates, y0, times)| {
        let f = |(t, y): (Var, Var)| {
            prey_and_predators(y, [0, 1, 2, 3].map(|i| rates.index(i))) * (1.0 + 0.1 * t.sin())
        };
        method.solve(f, y0, times).0
    }
}

const ANIMALS: ([f64; 4], [f64; 2], [f64; 4]) =
    ([1.5, 1.0, 1.0, 3.0], [1.0, 0.5], [0.1, 0.3, 0.9, 1.5]);

#[test]
fn adaptive_methods_have_derivatives_of_both_modes_and_orders() {
    for method in methods() {
        check_grads(animals(method), ANIMALS, 2).unwrap();
    }
    // With times in descending order, first derivatives are compared with differences.
    let (rates, y0, _) = ANIMALS;
    let [method, _] = methods();
    check_grads(animals(method), (rates, y0, [1.0, 0.7, 0.6, -0.2]), 1).unwrap();
}

#[test]
fn fixed_steps_have_derivatives() {
    let solve = |(k, start, times): (Var, (Var, Var), Var)| {
        let f = |(t, (x, v)): (Var, (Var, Var))| (v, -k * x.sin() + t);
        ode::rk4().substeps(3).solve(f, start, times).0
    };
    check_grads(solve, (1.5, (0.5, -0.25), [0.0, 0.5, 1.5]), 2).unwrap();
}

#[test]
fn derivatives_are_those_of_the_discrete_steps() {
    // With large steps of fixed size the solution is inaccurate; its derivative must be the derivative of that
    // inaccurate solution, to the last digits.
    let method = ode::dopri5().first_step(0.3).largest_step(0.3).rtol(1e9).atol(1e9);
    let solve = |y0: Var| {
        method.solve(|(_, y): (Var, Var)| -y * y, y0, linspace(0.0, 1.0, 3, Dtype::F64)).0
    };
    let (y, dy) = run(jvp(solve), (1.0, 1.0)).unwrap();
    let h = 1e-5;
    let [above, below] = [1.0 + h, 1.0 - h].map(|y0| run(solve, y0).unwrap());
    let differences: Vec<f64> =
        above.numbers().zip(below.numbers()).map(|(a, b)| (a - b) / (2.0 * h)).collect();
    assert!(near(&numbers(&dy), &differences, 1e-9, 1.0), "{dy:?} and {differences:?}");
    // This solution differs from the exact one by more than 1e-9, so the derivative checked above is not that of the
    // exact solution.
    assert!((numbers(&y)[2] - 0.5).abs() > 1e-9);
}

#[test]
fn a_try_that_is_no_number_has_no_say_in_a_gradient() {
    // The slope contains the root of y. The first trial step ends below y = 0, where the root is nan, so it must be
    // rejected, and the derivative must not be nan.
    for method in [ode::dopri5(), ode::rodas5p()] {
        let solve = |k: Var| {
            let f = |(_, y): (Var, Var)| -10.0 * k * y.sqrt();
            let times = constant([0.0, 0.15, 0.19]);
            method.first_step(1.0).rtol(1e-8).solve(f, constant(1.0), times)
        };
        let (y, stats) = run(solve, 1.0).unwrap();
        // The solution must agree with the exact one, √y = 1 - 5 k t.
        assert!(near(&numbers(&y), &[1.0, 0.0625, 0.0025], 1e-6, 0.0), "{y:?}");
        assert!(stats.rejected.item::<i64>().unwrap() > 0);
        let slope = run(grad(|k: Var| solve(k).0.index(2)), 1.0).unwrap();
        assert!(near(&numbers(&slope), &[-2.0 * 0.05 * 0.95], 1e-5, 0.0), "{slope:?}");
        let (_, slope) = run(jvp(|k: Var| solve(k).0), (1.0, 1.0)).unwrap();
        assert!(near(&numbers(&slope)[2..], &[-2.0 * 0.05 * 0.95], 1e-5, 0.0), "{slope:?}");
        // The solution fails at t = 1; states at earlier times must have derivatives.
        let early = |k: Var| {
            let f = |(t, y): (Var, Var)| -k * y * (1.0 - t).sqrt();
            let (y, stats) = method.solve(f, constant(1.0), constant([0.0, 0.5, 2.0]));
            (y.index(1), (y.index(2), stats.status))
        };
        let ((y, (late, status)), slope) = run(value_and_grad_aux(early), 1.0).unwrap();
        assert_eq!(ode::Status::of(&status).unwrap(), ode::Status::NotFinite);
        assert!(late.item::<f64>().unwrap().is_nan());
        let (y, slope) = (y.item::<f64>().unwrap(), slope.item::<f64>().unwrap());
        assert!((y.ln() - slope / y).abs() < 1e-6, "{y} {slope}");
    }
}

#[test]
fn reverse_forward_and_adjoint_agree() {
    let loss = |solve: &dyn Fn((Var, Var, Var)) -> Var, x| {
        let y = solve(x);
        (y.square() * arange(y.size(), Dtype::F64).reshape(y.shape()).cos()).sum()
    };
    let method = ode::dopri5().rtol(1e-10).atol(1e-12);
    let of = |method| {
        let gradient = grad(move |x| loss(&animals(method), x));
        let (rates, y0, times) = jit(gradient).call(ANIMALS).unwrap();
        [rates, y0, times].iter().flat_map(numbers).collect::<Vec<f64>>()
    };
    let (discrete, adjoint) = (of(method), of(method.adjoint()));
    assert!(near(&discrete, &adjoint, 1e-7, 1.0), "{discrete:?}\n{adjoint:?}");
    // Forward mode must agree: all directions at once, and one direction through a solution with an adjoint.
    let (rates, y0, times) = run(jacfwd(|x| loss(&animals(method), x)), ANIMALS).unwrap();
    let forward: Vec<f64> = [rates, y0, times].iter().flat_map(numbers).collect();
    assert!(near(&discrete, &forward, 1e-10, 1.0), "{discrete:?}\n{forward:?}");
    let along = jvp(|x| loss(&animals(method.adjoint()), x));
    let ones = ([1.0; 4], [1.0; 2], [1.0; 4]);
    let (_, slope) = run(along, (ANIMALS, ones)).unwrap();
    assert!(near(&numbers(&slope), &[discrete.iter().sum()], 1e-10, 1.0), "{slope:?}");
    // Second derivatives must agree for a solution with an adjoint: the adjoint equation is differentiated as it was
    // solved.
    let second = |method| {
        let f = move |rates: Var| {
            let (_, y0, times) = ANIMALS;
            loss(&animals(method), (rates, constant(y0), constant(times)))
        };
        numbers(&run(hessian(f), ANIMALS.0).unwrap())
    };
    let (discrete, adjoint) = (second(method), second(method.adjoint()));
    assert!(near(&discrete, &adjoint, 1e-5, 1.0), "{discrete:?}\n{adjoint:?}");
}

#[test]
fn transforms_nest() {
    // Reverse over reverse mode must equal forward over reverse mode, and batches of batches of gradients the gradients
    // of their members.
    let place = |method: ode::Adaptive| {
        move |k: Var| {
            let f = |(t, (x, v)): (Var, (Var, Var))| (v, -k * x + t);
            let start = (constant(1.0), constant(0.0));
            method.rtol(1e-8).solve(f, start, linspace(0.0, 2.0, 2, Dtype::F64)).0.0.index(1)
        }
    };
    for method in [ode::dopri5(), ode::dopri5().adjoint()] {
        let twice = numbers(&run(grad(grad(place(method))), 2.0).unwrap());
        assert!(near(&twice, &numbers(&run(hessian(place(method)), 2.0).unwrap()), 1e-9, 0.0));
    }
    for method in [ode::dopri5(), ode::rodas5p()] {
        let slope = jit(grad(place(method)));
        let all = run(vmap(vmap(grad(place(method)))), [[1.0, 2.0], [3.0, 30.0]]).unwrap();
        let each = [1.0, 2.0, 3.0, 30.0].map(|k| numbers(&slope.call(k).unwrap())[0]);
        assert!(near(&numbers(&all), &each, 1e-11, 0.0), "{all:?} {each:?}");
    }
}

#[test]
fn an_adjoint_reaches_all_that_the_slope_captures() {
    // The slope captures a table of integers, a matrix and a vector. The matrix and the vector must have derivatives;
    // the integers have none.
    let solve = |adjoint: bool| {
        move |(w, b, y0): (Var, Var, (Var, Var))| {
            let order = constant([1i64, 0]);
            let f = |(t, (x, v)): (Var, (Var, Var))| {
                let s = (w.dot(x.take(order, 0)) + b * t).tanh();
                (s - 0.1 * v, x * v)
            };
            let method = ode::dopri5().rtol(1e-9).atol(1e-10);
            let method = if adjoint { method.adjoint() } else { method };
            let (x, v) = method.solve(f, y0, linspace(0.0, 1.0, 3, Dtype::F64)).0;
            (x * v).sum()
        }
    };
    let x = ([[0.5, -0.2], [0.3, 0.1]], [0.1, 0.4], ([1.0, -0.5], [0.2, 0.7]));
    let both = [true, false].map(|adjoint| {
        let (w, b, (x, v)) = run(grad(solve(adjoint)), x).unwrap();
        [w, b, x, v].iter().flat_map(numbers).collect::<Vec<f64>>()
    });
    assert!(near(&both[0], &both[1], 1e-7, 1.0), "{both:?}");
}

#[test]
fn adjoints_of_members_are_those_alone() {
    let loss = |k: Var| {
        let f = |(t, (x, v)): (Var, (Var, Var))| (v, -k * x + 0.1 * t);
        let ends = linspace(0.0, 4.0, 3, Dtype::F64);
        let method = ode::dopri5().adjoint();
        method.solve(f, (constant(1.0), constant(0.0)), ends).0.0.square().sum()
    };
    let k = [0.5, 20.0];
    let all = numbers(&run(vmap(grad(loss)), k).unwrap());
    let each = k.map(|k| numbers(&run(grad(loss), k).unwrap())[0]);
    assert!(near(&all, &each, 1e-12, 0.0), "{all:?} {each:?}");
    // A loop computes the gradient of a solution in each iteration. The loop must be differentiable.
    let summed = |k: Var| fori_loop(2, |(_, s): (Var, Var)| s + loss(k + s), 0.0 * k);
    let slope = numbers(&run(grad(summed), 0.5).unwrap())[0];
    let [above, below] = [0.5 + 1e-5, 0.5 - 1e-5].map(|k| numbers(&run(summed, k).unwrap())[0]);
    assert!((slope - (above - below) / 2e-5).abs() < 1e-3 * slope.abs(), "{slope} {above} {below}");
}

#[test]
fn the_steps_of_an_adjoint_are_chosen_by_its_own_error() {
    // At rest, x(0) = 0, the error estimate is 0 and determines no step size. The derivative of x(t) with respect to
    // x(0) must still be cos 3t.
    let place = |x0: Var| {
        let f = |(_, (x, v)): (Var, (Var, Var))| (v, -9.0 * x);
        let method = ode::dopri5().rtol(1e-9).atol(1e-9).adjoint();
        method.solve(f, (x0, 0.0 * x0), linspace(0.0, 5.0, 2, Dtype::F64)).0.0.index(1)
    };
    let slope = run(grad(place), 0.0).unwrap().item::<f64>().unwrap();
    assert!((slope - 15f64.cos()).abs() < 1e-6, "{slope}");
}

#[test]
fn an_adjoint_keeps_nothing_of_its_steps() {
    let kept = |adjoint: bool, end: f64| {
        let loss = move |k: Var| {
            let f = |(_, (x, v)): (Var, (Var, Var))| (v, -k * x);
            let method = if adjoint { ode::dopri5().adjoint() } else { ode::dopri5() };
            let ends = linspace(0.0, end, 2, Dtype::F64);
            method.solve(f, (constant(1.0), constant(0.0)), ends).0.0.index(1)
        };
        let (_, report) = jit(grad(loss)).report(1.0).unwrap();
        report.records
    };
    assert!(kept(false, 2000.0) > kept(false, 500.0) + 100_000);
    assert_eq!((kept(true, 500.0), kept(true, 2000.0)), (0, 0));
}

/// If `select` leaves failed batch members out of a sum, the derivatives of the other members must not depend on the
/// failed ones. The derivatives of failed members must be 0, in a batch and alone, even if the slope is infinite at the
/// end.
#[test]
fn derivatives_of_failures_are_zero() {
    type F = fn(Var, Var, Var) -> Var;
    let pole: F = |_, y, k| k * y * y;
    let logarithm: F = |_, y, k| k * y.ln();
    let root: F = |t, y, k| k * y * (1.0 - t).sqrt();
    let cases = [
        (ode::dopri5(), logarithm, [1.5, -1.0]),
        (ode::dopri5(), root, [0.1, 1.0]),
        (ode::rodas5p(), logarithm, [1.5, -1.0]),
        (ode::dopri5().adjoint(), pole, [0.1, 1.0]),
        (ode::dopri5().adjoint(), logarithm, [1.5, -1.0]),
        (ode::dopri5().max_steps(3).adjoint(), root, [0.1, 1.0]),
    ];
    for (i, (method, f, y0)) in cases.into_iter().enumerate() {
        let loss = move |(y0, k, times): (Var, Var, Var)| {
            let (y, stats) = method.solve(|(t, y): (Var, Var)| f(t, y, k), y0, times);
            select(stats.status.eq(ode::Status::Done as i64), y.index(2), 0.0)
        };
        let members = move |(y0, k, times): (Var, Var, Var)| {
            vmap(move |y0: Var| ravel(&grad(loss)((y0, k, times))).0)(y0)
        };
        let x = |y0: Tensor| (y0, 1.0, [0.0, 1.0, 1.5]);
        let all = jit(members).interpreted().call(x(Tensor::from(y0))).unwrap();
        let alone = jit(|x| ravel(&grad(loss)(x)).0).interpreted();
        let alone = numbers(&alone.call(x(Tensor::from(y0[1]))).unwrap());
        assert!(numbers(&all)[..5].iter().all(|x| x.is_finite()), "{i}: {all:?}");
        assert_eq!((&numbers(&all)[5..], &alone[..]), (&[0.0; 5][..], &[0.0; 5][..]), "{i}");
        let (_, slope) = run(jvp(loss), (x(Tensor::from(y0[1])), (1.0, 1.0, [1.0; 3]))).unwrap();
        assert_eq!(numbers(&slope), [0.0], "{i}");
    }
    // For failed members, the derivative of a gradient must also be 0, not nan.
    let twice = |y0: Var| {
        let loss = |y0: Var| {
            let method = ode::dopri5().adjoint();
            let (y, stats) =
                method.solve(|(_, y): (Var, Var)| y * y, y0, constant([0.0, 0.5, 1.5]));
            select(stats.status.eq(ode::Status::Done as i64), y.index(2), 0.0)
        };
        vmap(move |y0: Var| grad(grad(loss))(y0))(y0)
    };
    // The gradient of the gradient must be that of the exact solution y(t) = y0 / (1 - y0 t).
    let found = numbers(&run(twice, [0.1, 1.0]).unwrap());
    assert!(near(&found, &[3.0 / 0.85f64.powi(3), 0.0], 1e-4, 0.0), "{found:?}");
}

/// If the slope of a batch member is not finite at its initial state, its integration fails. Like its first
/// derivatives, its second derivatives must then be 0.
#[test]
fn second_derivatives_of_failures_at_the_start_are_zero() {
    let methods = [ode::dopri5(), ode::rodas5p(), ode::dopri5().adjoint()];
    for (i, method) in methods.into_iter().enumerate() {
        // The exact solution is y(t) = y0 / (1 - k y0 t).
        let one = move |y0: Var, k: Var| {
            let f = |(_, y): (Var, Var)| k * y * y;
            let (y, stats) = method.rtol(1e-9).solve(f, y0, constant([0.0, 1.0]));
            select(stats.status.eq(ode::Status::Done as i64), y.index(1), 0.0)
        };
        let sum = move |(y0, k): (Var, Var)| vmap(move |y0: Var| one(y0, k))(y0).sum();
        let second = move |x: (Var, Var)| grad(move |x| grad(sum)(x).1)(x);
        let (y0, k) = run(second, ([0.5, f64::NAN, f64::INFINITY], 1.0)).unwrap();
        let found = [numbers(&y0), numbers(&k)].concat();
        assert!(near(&found, &[8.0, 0.0, 0.0, 2.0], 1e-5, 0.0), "{i}: {found:?}");
        let alone = move |k: Var| grad(grad(move |k: Var| one(constant(f64::NAN), k)))(k);
        assert_eq!(numbers(&run(alone, 1.0).unwrap()), [0.0], "{i}");
    }
}

/// Tolerances may be arrays in the shape of the state, although the parameters in the adjoint equation have other
/// shapes.
#[test]
fn an_adjoint_takes_arrays_of_tolerances() {
    for method in [ode::dopri5().adjoint(), ode::dopri5().seminorm()] {
        let loss = move |(y0, p): (Var, Var)| {
            let f = |(_, y): (Var, Var)| {
                let (x, z) = (y.index(0), y.index(1));
                stack(&[-p.index(0) * x, p.index(1) * x - p.index(2) * z], 0)
            };
            let method = method.rtol(constant([1e-8, 1e-7])).atol(constant([1e-10, 1e-9]));
            method.solve(f, y0, constant([0.0, 1.0])).0.index(1).sum()
        };
        check_grads(loss, ([1.0, 0.5], [1.0, 2.0, 0.5]), 1).unwrap();
    }
}

/// The step size of an adjoint equation must depend on the error of the gradient too: here the slope's derivative with
/// respect to a captured value is not smooth in time, although states and their cotangents are.
#[test]
fn steps_of_an_adjoint_look_at_the_error_of_the_gradient() {
    let off = |method: ode::Adaptive, end: f64| {
        let solve = move |p: Var| {
            let f = |(t, y): (Var, Var)| p * t.sqrt() + y.zeros_like();
            method.solve(f, constant(1.0), constant([0.0, end])).0.index(1)
        };
        let slope = run(grad(solve), 1.0).unwrap().item::<f64>().unwrap();
        (slope / (end.powf(1.5) / 1.5) - 1.0).abs()
    };
    for end in [8e-3, 1.0, 100.0] {
        assert!(off(ode::dopri5().adjoint(), end) < 2e-5, "{}", off(ode::dopri5().adjoint(), end));
    }
    assert!(off(ode::dopri5().seminorm(), 8e-3) > 1e-3);
    // The integral returns to 0 at the end, so its error must be measured relative to its values at earlier times.
    let turn = |p: Var| {
        let f = |(t, y): (Var, Var)| p * t.cos() + y.zeros_like();
        let times = constant([0.0, 2.0 * std::f64::consts::PI]);
        ode::dopri5().adjoint().solve(f, constant(1.0), times).0.index(1)
    };
    let slope = run(grad(turn), 1.0).unwrap().item::<f64>().unwrap();
    assert!(slope.abs() < 1e-5, "{slope}");
}

#[test]
fn a_stiff_gradient_under_a_budget_is_the_same() {
    let loss = |rates: Var| {
        let f = |(_, y): (Var, Var)| robertson(y, [0, 1, 2].map(|i| rates.index(i)));
        let start = constant([1.0, 0.0, 0.0]);
        let method = ode::rodas5p().rtol(1e-7).atol(1e-11);
        let (y, stats) = method.solve(f, start, constant([0.0, 40.0]));
        (y.index((1, 2)), stats)
    };
    let rates = [0.04, 1e4, 3e7];
    let all = jit(value_and_grad_aux(loss));
    let ((value, stats), gradient) = all.call(rates).unwrap();
    let steps = stats.accepted.item::<i64>().unwrap();
    assert!(status(&stats) == ode::Status::Done && steps > 50, "{stats:?}");
    assert!((value.item::<f64>().unwrap() - 0.2841637).abs() < 1e-6);

    let budget = 4000usize;
    let little = checkpoint(move |rates: Var| loss(rates).0, Policy::Bytes(budget as u64));
    let little = jit(grad(little));
    assert!(little.explain(rates).unwrap().tape().bytes() <= budget);
    let (found, report) = little.report(rates).unwrap();
    assert!(report.records < all.report(rates).unwrap().1.records / 10, "{report}");
    let found = numbers(&found);
    assert!(near(&found, &numbers(&gradient), 1e-10, 0.0), "{found:?} and {gradient:?}");
    // Forward mode must give the derivatives that reverse mode gave.
    let forward = numbers(&run(jacfwd(|rates: Var| loss(rates).0), rates).unwrap());
    assert!(near(&found, &forward, 1e-9, 0.0), "{found:?} and {forward:?}");
}

#[test]
fn events_have_derivatives() {
    // A stone lands on a hill x = 1 - s²/2: the time and place of landing (an event) depend on its speed and on gravity
    // g.
    let landing = |(speed, gravity): (Var, Var)| {
        let f = |(_, (_, v)): (Var, ([Var; 2], [Var; 2]))| (v, [v[0] * 0.0, -gravity + v[1] * 0.0]);
        let ground = |(_, (x, _)): (Var, ([Var; 2], [Var; 2]))| x[1] + 0.5 * x[0].square() - 1.0;
        let start = ([constant(0.0), constant(2.0)], [speed, 0.5 * speed]);
        let (_, (t, (x, _)), stats) =
            ode::dopri5().solve_until(f, ground, start, linspace(0.0, 9.0, 2, Dtype::F64));
        (t, x[0], stats.status)
    };
    // The event function 1 + t/2 - g t²/2 + t²/2 is zero at t = 2 for g = 2.
    let (t, x, status) = run(landing, (1.0, 2.0)).unwrap();
    assert_eq!(ode::Status::of(&status).unwrap(), ode::Status::Event);
    assert!(near(&[numbers(&t), numbers(&x)].concat(), &[2.0, 2.0], 1e-9, 0.0), "{t:?} {x:?}");
    check_grads(|x: (Var, Var)| (landing(x).0, landing(x).1), (1.0, 2.0), 2).unwrap();
    // The expected derivative follows from the implicit function theorem: dt/dg = (t²/2) / (1/2 - g t + t).
    let slope = run(grad(|g: Var| landing((constant(1.0), g)).0), 2.0).unwrap();
    assert!((slope.item::<f64>().unwrap() - 2.0 / -1.5).abs() < 1e-8, "{slope:?}");
}

#[test]
fn batch_members_equal_single_solutions() {
    // Batch members need very different numbers of steps, and one member's solution ends early. Derivatives must equal
    // those of each member alone.
    let y0 = [0.1, 1.0, 30.0, -1.0];
    for method in [ode::dopri5(), ode::rodas5p()] {
        let solve = move |y0: Var| {
            let f = |(t, y): (Var, Var)| -y * y + 0.1 * t.sin();
            method.solve(f, y0, linspace(0.0, 3.0, 4, Dtype::F64))
        };
        let (all, stats) = run(vmap(solve), y0).unwrap();
        let slopes = run(vmap(grad(move |y0: Var| solve(y0).0.index(1).tanh())), y0).unwrap();
        let mut steps = Vec::new();
        for (i, y0) in y0.into_iter().enumerate() {
            let (alone, own) = run(solve, y0).unwrap();
            let member = &numbers(&all)[4 * i..4 * i + 4];
            for (x, y) in member.iter().zip(numbers(&alone)) {
                let same = (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-12 * y.abs();
                assert!(same, "{y0}: {member:?} and {alone:?}");
            }
            let count = |x: &Tensor, i: usize| x.to_vec::<i64>().unwrap()[i];
            assert_eq!(count(&stats.accepted, i), count(&own.accepted, 0), "{y0}");
            assert_eq!(count(&stats.rejected, i), count(&own.rejected, 0), "{y0}");
            assert_eq!(count(&stats.status, i), count(&own.status, 0), "{y0}");
            steps.push(count(&own.accepted, 0));
            let slope = run(grad(move |y0: Var| solve(y0).0.index(1).tanh()), y0).unwrap();
            let (one, other) = (numbers(&slopes)[i], numbers(&slope)[0]);
            let same = (one - other).abs() <= 1e-10 * other.abs().max(1e-3);
            // The member without a solution has a derivative of nan in the batch and alone.
            assert!(same || (y0 < 0.0 && one.is_nan() && other.is_nan()), "{y0}: {one} {other}");
        }
        assert!(steps[2] > 2 * steps[0], "{steps:?}");
    }
}

#[test]
fn a_loop_around_a_solution_is_compiled_once() {
    // A single program must run gradient descent on a decay rate that is fitted to data.
    let fit = |(rate, data): (Var, Var)| {
        let loss = |rate: Var| {
            let f = |(_, y): (Var, Var)| -rate * y;
            let y = ode::dopri5().solve(f, constant(1.0), linspace(0.0, 2.0, 5, Dtype::F64)).0;
            (y - data).square().sum()
        };
        fori_loop(40, |(_, rate): (Var, Var)| rate - 0.5 * grad(loss)(rate), rate)
    };
    let data: Vec<f64> = (0..5).map(|i| (-0.7 * 0.5 * f64::from(i)).exp()).collect();
    let rate = run(fit, (0.2, Tensor::from(data))).unwrap().item::<f64>().unwrap();
    assert!((rate - 0.7).abs() < 1e-6, "{rate}");
}

#[test]
fn equations_in_equations() {
    // Solutions must be differentiable if the slope solves an equation and runs a loop, if it reads a `Ref`, and inside
    // a recording.
    let inner = |(k, y): (Var, Var)| {
        let f = |(_, z): (Var, Var)| -k * z;
        ode::rk4().solve(f, y, linspace(0.0, 0.1, 2, Dtype::F64)).0.index(1)
    };
    let outer = |k: Var| {
        let slope = |(t, y): (Var, Var)| {
            let doubled = |(x, n): (Var, Var)| (2.0 * x, n + k);
            let (_, n) =
                while_loop(|(x, _): (Var, Var)| x.lt(2.0), doubled, (1.0 + 0.1 * t, 0.0 * t));
            -inner((k, y)) * n
        };
        ode::dopri5().rtol(1e-10).solve(slope, constant(1.0), linspace(0.0, 1.0, 3, Dtype::F64)).0
    };
    // The equation is y' = -k y e^(-0.1 k).
    let want = (-0.3 * (-0.03f64).exp()).exp();
    assert!((numbers(&run(outer, 0.3).unwrap())[2] - want).abs() < 1e-8);
    check_grads(outer, 0.3, 2).unwrap();

    let of_state = |k: Var| {
        let rate = Ref::new(2.0 * k);
        let f = |(_, y): (Var, Var)| -rate.get() * y;
        let y = ode::dopri5().solve(f, constant(1.0), linspace(0.0, 1.0, 2, Dtype::F64)).0.index(1);
        rate.set(0.0 * k);
        y
    };
    let tape = record(of_state, 0.5).unwrap();
    let value = tape.value().item::<f64>().unwrap();
    assert!((value - (-1f64).exp()).abs() < 1e-6);
    let slope = tape.pull(1.0).unwrap().item::<f64>().unwrap();
    assert!((slope + 2.0 * (-1f64).exp()).abs() < 1e-5, "{slope}");
    let compiled = run(grad(of_state), 0.5).unwrap().item::<f64>().unwrap();
    assert!((slope - compiled).abs() < 1e-12);
}

#[test]
fn no_number_on_the_way_is_none() {
    // `nan_check`, which tests the result of every equation for nan and infinity, must find none in a solution.
    let swing = |(_, (x, v)): (Var, (Var, Var))| (v, -x);
    for method in [ode::dopri5(), ode::rodas5p()] {
        let solve = move |k: Var| {
            let start = (k, 0.0 * k);
            let level = |(_, (x, _)): (Var, (Var, Var))| x;
            let (_, (t, _), _) =
                method.solve_until(swing, level, start, linspace(0.0, 5.0, 3, Dtype::F64));
            t
        };
        let t = jit(solve).nan_check().call(1.0).unwrap().item::<f64>().unwrap();
        assert!((t - std::f64::consts::FRAC_PI_2).abs() < 1e-4);
    }
    let area = |b: Var| quad(|x: Var| x.sqrt(), (0.0, b), Precision::default()).0;
    assert!(jit(area).nan_check().call(1.0).is_ok());
}
