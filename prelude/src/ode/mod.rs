//! Ordinary differential equations: `dy/dt = f(t, y)`.
//!
//! | method | for | order |
//! |---|---|---|
//! | [`dopri5`] | nonstiff systems, adaptive steps | 5 |
//! | [`rodas5p`] | stiff systems, adaptive steps | 5 |
//! | [`rk4`], [`euler`] | fixed steps | 4, 1 |
//!
//! A state is any tree of floats. `f` is a closure of `(t, y)` that returns a tree of the same form; it may use any
//! [`Var`](crate::Var) of the surrounding trace. The solution is returned at a vector of times, the first of which
//! is the start; each leaf of the solution has an axis of these times in front. The solvers also return [`Stats`]:
//! the number of steps and evaluations, and whether the integration succeeded.
//!
//! ```
//! use tapeloom::prelude::*;
//! // A pendulum, and the derivative of its last angle with respect to its length.
//! let angle = |length: Var| {
//!     let f = |(_, (x, v)): (Var, (Var, Var))| (v, -9.81 / length * x.sin());
//!     let start = (constant(0.5), constant(0.0));
//!     let ((x, _), stats) = ode::dopri5().rtol(1e-10).atol(1e-12).solve(f, start, linspace(0.0, 3.0, 4, Dtype::F64));
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
//! Derivatives of every mode and order are supported. They are derivatives of the computed numbers through the
//! steps that were taken; the choice of steps is a constant. Reverse mode saves residuals of every step.
//! [`checkpoint`](crate::checkpoint()) with a byte budget saves the states of some steps and recomputes the others.
//! [`Adaptive::adjoint`] solves the adjoint equation backwards instead; its memory does not depend on the number of
//! steps.
//!
//! # Failures are values
//!
//! If an integration cannot continue, the solution is nan at the times that were not reached, and [`Stats::status`]
//! has the reason. Under [`vmap`](crate::vmap), each batch member has its own steps and its own status.
//!
//! Source: Hairer, Nørsett and Wanner, *Solving Ordinary Differential Equations I* (1993), and Hairer and Wanner,
//! volume II (1996). Models: SciPy's `solve_ivp`, JAX's `odeint`, diffrax.

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
