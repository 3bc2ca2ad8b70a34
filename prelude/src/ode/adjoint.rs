//! The continuous adjoint method: reverse mode by solving the adjoint differential equation.
//!
//! ```text
//! dy/dt = f(t, y, p)      dλ/dt = -λᵀ ∂f/∂y      dq/dt = -λᵀ ∂f/∂p
//! ```
//!
//! These equations are solved from the last time to the first. At every requested time, the cotangent of the state
//! there is added to λ, and y restarts from the known state. At the first time, λ is the cotangent of the first state,
//! and q is the cotangent of the values that the slope captures. The forward pass saves only the solution itself.
//!
//! An error of q does not grow, but it is an error of the gradient. So errors of q count in the choice of steps,
//! unless the user chooses a *seminorm* of the errors of y and λ alone (Kidger, Chen and Lyons, *"Hey, that's not an
//! ODE"*, 2021).
//!
//! Intervals whose end was not reached are left out: no known value depends on them.
//!
//! Source: Chen, Rubanova, Bettencourt and Duvenaud, *Neural ordinary differential equations* (2018).

use super::adaptive::Integrator;
use super::state::{Open, State, sum};
use super::stats::Stats;
use crate::Var;
use crate::control::{cond, scan_reverse};
use crate::ops::functions::{concat, stack};
use crate::transform::{custom_rules, jvp, vjp};

/// The inputs of a solution: the first state, the times, and the floats that the slope captures.
type Given = (State, Var, State);

/// A solution and its statistics.
type Solved = (State, Stats<Var>);

/// Integrates as [`Integrator::solve`] does. Reverse mode of the result solves the adjoint equation; forward mode
/// differentiates the steps.
pub(super) fn solve(
    integrator: &Integrator,
    seminorm: bool,
    f: Open<'_>,
    given: &[Var],
    y: &[Var],
    times: Var,
) -> Solved {
    let forward = |(y, times, p): Given| -> (Solved, Var) {
        let (rows, integration) = integrator.solve((f, &p), None, &y, times);
        let direction = (times.index(-1) - times.index(0)).stop_gradient().signum();
        let reached = integration.reached(direction, times);
        ((rows, integration.stats), reached.stop_gradient())
    };
    let values = |x: Given| forward(x).0;
    let solve = custom_rules(
        values,
        |x: Given, dx: Given| jvp(values)((x, dx)),
        |x: Given| {
            let ((rows, stats), reached) = forward(x.clone());
            ((rows.clone(), stats), ((rows, reached), x))
        },
        |((rows, reached), (y, times, p)): ((State, Var), Given), (ct, _): Solved| {
            let back = Back { integrator, seminorm, f, rows: &rows, reached, ct: &ct };
            back.cotangents(&y, times, &p)
        },
    );
    solve((y.to_vec(), times, given.to_vec()))
}

/// The values that the reverse pass passes from interval to interval: the adjoint state λ, the integral q of the
/// cotangents of captured values, and the sums of |Δq| so far. These sums are empty if errors of q do not count.
type Sums = (State, State, State);

/// The state at the end of an interval between requested times, and the cotangent of this state.
type EndState = (State, State);

/// The two ends of an interval between requested times, the later one first, and whether the forward pass reached the
/// later one. The adjoint equation is integrated from the first to the second of these ends.
type IntervalEnds = (Var, Var, Var);

/// The reverse pass of one solution: its inputs, the solution `rows`, and its cotangents `ct`.
struct Back<'a> {
    integrator: &'a Integrator,
    seminorm: bool,
    f: Open<'a>,
    rows: &'a [Var],
    reached: Var,
    ct: &'a [Var],
}

impl Back<'_> {
    fn cotangents(&self, y: &[Var], times: Var, p: &[Var]) -> Given {
        let (n, leaves) = (times.len(), y.len());
        let zeros = |x: &[Var]| x.iter().map(|x| x.zeros_like()).collect::<State>();
        let cut = |x: &[Var], range: std::ops::Range<usize>| {
            x.iter().map(|x| x.slice_axis(0, range.clone())).collect::<State>()
        };
        let first: State = self.ct.iter().map(|ct| ct.index(0)).collect();
        if n == 1 {
            return (first, times.zeros_like(), zeros(p));
        }
        // The right-hand side of the adjoint equation for y, λ and q, in this order.
        let slope = |t: Var, all: &[Var], p: &[Var]| {
            let (y, lambda) = (all[..leaves].to_vec(), all[leaves..2 * leaves].to_vec());
            let f = |(y, p): (State, State)| (self.f)(t, &y, &p);
            let (dy, pull) = vjp(f)((y, p.to_vec()));
            let (dl, dq) = pull(lambda);
            let minus = |x: State| x.into_iter().map(|x| -x);
            dy.into_iter().chain(minus(dl)).chain(minus(dq)).collect::<State>()
        };
        let tolerance = self.integrator.tolerance.of_states(2 * leaves, !self.seminorm);
        let integrator = Integrator { tolerance, ..*self.integrator };
        let back = |((lambda, q, moved), ((from, to), (y, ct))): (Sums, ((Var, Var), EndState))| {
            let speed = (self.f)(from, &y, p);
            let by_time = dot(&ct, &speed, from);
            let begin: State = [y, sum(&lambda, &ct), q].concat();
            let times = stack(&[from, to], 0);
            let (ends, end) = integrator.solve_on((&slope, p), None, (&begin, &moved), times);
            let last: State = ends.iter().map(|x| x.index(1)).collect();
            let (lambda, q) = last[leaves..].split_at(leaves);
            ((lambda.to_vec(), q.to_vec(), end.moved), by_time)
        };
        // If the forward pass did not reach a time, the state there is nan and no result depends on it. Leave out the
        // interval that ends there.
        let left_out =
            |(sums, ((from, _), _)): (Sums, ((Var, Var), EndState))| (sums, from.zeros_like());
        let interval = |(sums, ((from, to, reached), known)): (Sums, (IntervalEnds, EndState))| {
            cond(reached, back, left_out, (sums, ((from, to), known)))
        };
        let reached = self.reached.slice_axis(0, 1..);
        let ends = (times.slice_axis(0, 1..), times.slice_axis(0, ..n - 1), reached);
        let states = (cut(self.rows, 1..n), cut(self.ct, 1..n));
        let none = (zeros(y), zeros(p), if self.seminorm { State::new() } else { zeros(p) });
        let ((lambda, q, _), by_times) = scan_reverse(interval, none, (ends, states));
        // The cotangent of the first time. The state at the first time is given and does not depend on it, but the
        // states at all later times do.
        let start = times.index(0);
        let by_start =
            |(lambda, y, p): (State, State, State)| -dot(&lambda, &(self.f)(start, &y, &p), start);
        let not_at_all = |_: (State, State, State)| start.zeros_like();
        let given = (lambda.clone(), y.to_vec(), p.to_vec());
        let by_start = cond(reached.index(0), by_start, not_at_all, given);
        (sum(&lambda, &first), concat(&[by_start.expand_dims(0), by_times], 0), q)
    }
}

/// Returns the scalar product of two states, summed over all leaves, in the dtype of `like`.
fn dot(x: &[Var], y: &[Var], like: Var) -> Var {
    let parts = x.iter().zip(y).map(|(x, y)| (*x * *y).sum().convert(like.dtype()));
    parts.reduce(|x, y| x + y).unwrap_or_else(|| like.zeros_like())
}
