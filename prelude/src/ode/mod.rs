//! Ordinary differential equations: `dy/dt = f(t, y)`.
//!
//! | method | for | order |
//! |---|---|---|
//! | [`dopri5`] | systems that are not stiff; steps by an error | 5 |
//! | [`rodas5p`] | stiff systems; steps by an error | 5 |
//! | [`rk4`], [`euler`] | steps that are given | 4, 1 |
//!
//! A state is any tree of floats, and `f` a closure of `(t, y)` that gives a tree of the same form; it may use any
//! [`Var`](crate::Var) around it. A solution is asked for at times, the first of which is where it starts, and has an axis of
//! these times in front of every leaf. Beside it come [`Stats`]: what it took, and whether it succeeded.
//!
//! ```
//! use tapeloom::prelude::*;
//! // A pendulum, of which the frequency is asked for: the derivative of the last angle by the length.
//! let angle = |length: Var| {
//!     let f = |(_, (x, v)): (Var, (Var, Var))| (v, -9.81 / length * x.sin());
//!     let start = (constant(0.5), constant(0.0));
//!     let ((x, _), stats) = ode::dopri5().rtol(1e-10).atol(1e-12).solve(f, start, linspace(0.0, 3.0, 4));
//!     (x, stats.status)
//! };
//! let (x, status) = run(angle, 1.0)?;
//! assert_eq!(ode::Status::of(&status)?, ode::Status::Done);
//! assert!((x.to_vec::<f64>()?[3] + 0.492430291669).abs() < 1e-8);
//! check_grads(|length: Var| angle(length).0, 1.0, 2)?;
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! # Derivatives
//!
//! Of every mode and order, straight through the steps that were taken: the derivative of what was computed. The choice of
//! steps is a constant to it. Reverse mode keeps what it needs of every step;
//! [`checkpoint`](crate::checkpoint()) with a budget of bytes keeps the states of some and repeats the others.
//! [`Adaptive::adjoint`] solves the adjoint equation backwards instead, in memory that does not depend on the number of steps.
//!
//! # Failures are values
//!
//! A solution that cannot go on is nan at the times that it has not reached, and [`Stats::status`] says why: in
//! its own member of a batch, as everything about a step is under [`vmap`](crate::vmap).
//!
//! Source: Hairer, Nørsett and Wanner, *Solving Ordinary Differential Equations I* (1993), and Hairer and Wanner, volume II
//! (1996). Models: SciPy's `solve_ivp`, JAX's `odeint`, diffrax.

mod adaptive;
mod adjoint;
mod control;
mod events;
mod fixed;
mod joined;
mod method;
mod pair;
mod problem;
mod rosenbrock;
mod solver;
mod state;
mod stats;
mod tableau;
mod traced;

pub use events::Crossing;
pub use fixed::{Fixed, euler, rk4};
pub use solver::{Adaptive, dopri5, rodas5p};
pub use stats::{Stats, Status};
