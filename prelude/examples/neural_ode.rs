//! A neural differential equation learns the motion of a damped spring from its trajectory: an unrolled Runge–Kutta
//! method, Adam.
//!
//! ```text
//! cargo run --release --example neural_ode
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::prelude::*;

#[derive(Tree, Clone)]
struct Field<T> {
    w1: T,
    b1: T,
    w2: T,
    /// The step size. It is static, so another step size needs another program.
    #[tree(static)]
    dt: f64,
}

type State<T> = (Field<T>, Field<T>, Field<T>);

/// Returns the state after one step of length `dt` of the Runge–Kutta method of order four, for the equation x' = f(x).
fn rk4(f: impl Fn(Var) -> Var, x: Var, dt: f64) -> Var {
    let k1 = f(x);
    let k2 = f(x + 0.5 * dt * k1);
    let k3 = f(x + 0.5 * dt * k2);
    let k4 = f(x + dt * k3);
    x + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
}

/// Returns the trajectory that starts at x, as an array [points, 2].
fn path(p: &Field<Var>, x: Var, points: usize) -> Var {
    let field = |x: Var| (x.dot(p.w1) + p.b1).tanh().dot(p.w2);
    let next = |x: &Var| Some(rk4(field, *x, p.dt));
    stack(&std::iter::successors(Some(x), next).take(points).collect::<Vec<_>>(), 0)
}

/// Takes one step of Adam: Kingma and Ba, "Adam: a method for stochastic optimization" (2015).
fn adam<P: Tree<Var>>(p: &P, m: &P, v: &P, g: &P, t: Var) -> (P, P, P) {
    let m = tree_map2(|m, g| 0.9 * m + 0.1 * g, m, g);
    let v = tree_map2(|v, g| 0.999 * v + 0.001 * g * g, v, g);
    let rate = 0.03 * (1.0 - (0.999_f64.ln() * t).exp()).sqrt() / (1.0 - (0.9_f64.ln() * t).exp());
    (tree_map3(|p, m, v| p - rate * m / (v.sqrt() + 1e-8), p, &m, &v), m, v)
}

fn step(((p, m, v), t, seen): (State<Var>, Var, Var)) -> (Var, State<Var>) {
    let loss = |p: Field<Var>| (path(&p, seen.index(0), seen.len()) - seen).square().mean();
    let (loss, g) = value_and_grad(loss)(p.clone());
    (loss, adam(&p, &m, &v, &g, t))
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    let dt = 0.25;
    let spring = |x: Var| x.dot(constant([[-0.2, -1.5], [1.5, -0.2]]));
    let truth = |x: Var| {
        let next = |x: &Var| Some(rk4(spring, *x, dt));
        stack(&std::iter::successors(Some(x), next).take(12).collect::<Vec<_>>(), 0)
    };
    let seen = run(truth, [1.0, 0.0])?;

    let numbers = |n: usize, by: f64| (0..n).map(|i| by * ((7 * i % 11) as f64 - 5.0)).collect();
    let p = Field {
        w1: Tensor::new(&[2, 12], numbers(24, 0.1))?,
        b1: Tensor::new(&[12], numbers(12, 0.05))?,
        w2: Tensor::new(&[12, 2], numbers(24, 0.08))?,
        dt,
    };
    let step = jit(step);
    let mut state = (p.clone(), zeros_like(&p), zeros_like(&p));
    let mut loss = Tensor::from(0.0);
    for t in 1..=300 {
        (loss, state) = step.call((&state, f64::from(t), &seen))?;
    }
    let found = run(|(p, x): (Field<Var>, Var)| path(&p, x, 12), (&state.0, [1.0, 0.0]))?;
    println!(
        "loss {loss:.2e}\nseen\n{:.2}\nfound\n{:.2}",
        seen.slice_axis(0, 8..)?,
        found.slice_axis(0, 8..)?
    );
    assert!(loss.item::<f64>()? < 1e-3);
    Ok(())
}
