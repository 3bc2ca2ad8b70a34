//! A double pendulum, derived from its Lagrangian alone, and an ensemble of pendulums that shows its chaos.
//!
//! ```text
//! cargo run --release --example double_pendulum
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::prelude::*;

/// Returns kinetic minus potential energy, for two unit masses on unit rods with angles q and angular velocities v.
fn lagrangian((q, v): (Var, Var)) -> Var {
    kinetic(q, v) - potential(q)
}

fn kinetic(q: Var, v: Var) -> Var {
    let (v1, v2) = (v.index(0), v.index(1));
    v1.square() + 0.5 * v2.square() + v1 * v2 * (q.index(0) - q.index(1)).cos()
}

fn potential(q: Var) -> Var {
    -9.81 * (2.0 * q.index(0).cos() + q.index(1).cos())
}

/// Returns the velocities `v` and the accelerations `a` at the angles `q`. The accelerations solve the Euler–Lagrange
/// equation (d²L/dv dv) a = dL/dq - (d²L/dq dv) v of the Lagrangian L, here two linear equations.
fn motion((q, v): (Var, Var)) -> (Var, Var) {
    let momentum = |q: Var, v: Var| grad(|v| lagrangian((q, v)))(v);
    let force = grad(|q| lagrangian((q, v)))(q) - jvp(|q| momentum(q, v))((q, v)).1;
    let mass = hessian(|v: Var| lagrangian((q, v)))(v);
    let [a, b, d] = [(0, 0), (0, 1), (1, 1)].map(|(i, j)| mass.index((i, j)));
    let (x, y) = (force.index(0), force.index(1));
    (v, stack(&[d * x - b * y, a * y - b * x], 0) / (a * d - b * b))
}

/// Returns the state after one Runge–Kutta step of length `dt` of the equation x' = f(x). The state may be any tree.
fn rk4<P: Tree<Var> + Clone>(f: impl Fn(P) -> P, x: P, dt: f64) -> P {
    let along = |k: &P, by: f64| tree_map2(|x, k| x + by * dt * k, &x, k);
    let k1 = f(x.clone());
    let k2 = f(along(&k1, 0.5));
    let k3 = f(along(&k2, 0.5));
    let k4 = f(along(&k3, 1.0));
    let middle = tree_map2(|a, b| a + b, &k2, &k3);
    let slope = tree_map3(|a, b, c| (a + 2.0 * b + c) / 6.0, &k1, &middle, &k4);
    along(&slope, 1.0)
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    // One program moves five pendulums whose initial angles differ by 1e-6.
    let step = jit(vmap(|x: (Var, Var)| rk4(motion, x, 0.01)));
    let energy = jit(vmap(|(q, v): (Var, Var)| kinetic(q, v) + potential(q)));
    let start: Vec<[f64; 2]> = (0..5).map(|i| [2.0 + 1e-6 * f64::from(i), 2.5]).collect();
    let mut x = (Tensor::from(start), Tensor::from([[0.0; 2]; 5]));
    let before = energy.call(&x)?;
    for t in 1..=1000 {
        x = step.call(&x)?;
        if t % 250 == 0 {
            println!("after {:4.1} s the angles are\n{:.4}", 0.01 * f64::from(t), x.0);
        }
    }
    let after = energy.call(&x)?;
    println!("energies before {before:.6}\n          after {after:.6}");
    for (a, b) in before.to_vec::<f64>()?.iter().zip(after.to_vec::<f64>()?) {
        assert!((a - b).abs() < 1e-2, "{a} {b}");
    }
    Ok(())
}
