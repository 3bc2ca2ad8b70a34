//! Adaptive methods: the public interface.

use super::adaptive::Integrator;
use super::control::Tolerance;
use super::events::Crossing;
use super::joined::Joined;
use super::method::Method;
use super::pair::DORMAND_PRINCE;
use super::rosenbrock::RODAS5P;
use super::state::State;
use super::traced::{Traced, traced};
use super::{Stats, adjoint, events, problem};
use crate::dtype::epsilon;
use crate::function::{Function, one};
use crate::ops::functions::select;
use crate::staging::{Staged, rebuild};
use crate::tree::{Form, Tree, flatten};
use crate::var::{IntoVar, caller, on_behalf};
use crate::{Dtype, Var};
use tapeloom_ir::trace;
use tapeloom_ir::{Kind, Loc, Problem};

/// A method that chooses its steps by an error estimate, as returned by [`dopri5`] and [`rodas5p`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a method does nothing until it solves"]
pub struct Adaptive {
    method: Method,
    relative: Var,
    absolute: Var,
    first_step: Option<Var>,
    largest_step: Option<Var>,
    max_steps: usize,
    crossing: Crossing,
    adjoint: bool,
    seminorm: bool,
}

/// The smallest relative tolerance that is used, in units of the rounding error of the state's dtype.
const LEAST_SHARE: f64 = 10.0;

/// Converts a setting, an f64 or a `Var`, to a `Var`. [`Adaptive::integrator`] converts it to the dtype of the times.
#[track_caller]
fn float(x: impl IntoVar) -> Var {
    x.into_var(Dtype::F64, caller())
}

#[track_caller]
fn adaptive(method: Method) -> Adaptive {
    Adaptive {
        method,
        relative: float(1e-6),
        absolute: float(1e-9),
        first_step: None,
        largest_step: None,
        max_steps: 100_000,
        crossing: Crossing::Any,
        adjoint: false,
        seminorm: false,
    }
}

/// Returns Dormand and Prince's method of order 5, with dense output of order 4, for systems that are not stiff.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(y0, times): (Var, Var)| ode::dopri5().solve(|(t, y): (Var, Var)| t * y, y0, times));
/// let (y, stats) = f.call((1.0, [0.0, 0.5, 1.0]))?;
/// assert!((y.to_vec::<f64>()?[2] - 0.5f64.exp()).abs() < 1e-6);
/// assert!(stats.accepted.item::<i64>()? < 20);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Dormand and Prince, *A family of embedded Runge–Kutta formulae* (1980).
#[doc(
    alias = "solve_ivp",
    alias = "odeint",
    alias = "diffeqsolve",
    alias = "RK45",
    alias = "ode45"
)]
#[track_caller]
pub fn dopri5() -> Adaptive {
    adaptive(Method::Pair(&DORMAND_PRINCE))
}

/// Returns Steinebach's Rosenbrock method of order 5, with dense output of order 4, for stiff systems: those whose
/// fastest component limits the steps of an explicit method long after the component has decayed.
///
/// Each step computes the Jacobian of the slope, by forward mode, and one LU factorization. All leaves of the state
/// must have the same dtype. Derivatives of the slope with respect to time and state must be finite, at the first
/// time, too: `dy/dt = √t` from t = 0 ends with [`Status::NotFinite`](super::Status::NotFinite).
///
/// ```
/// use tapeloom::prelude::*;
/// // y' = -10⁶ (y - cos t)
/// let f = |(t, y): (Var, Var)| -1e6 * (y - t.cos());
/// let (y, stats) = run(|y0: Var| ode::rodas5p().solve(f, y0, linspace(0.0, 1.0, 2, Dtype::F64)), 0.0)?;
/// assert!((y.to_vec::<f64>()?[1] - 1.0f64.cos()).abs() < 1e-5);
/// assert!(stats.accepted.item::<i64>()? < 100);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Steinebach, *Construction of Rosenbrock–Wanner method Rodas5P and numerical benchmarks within the Julia
/// Differential Equations package* (2023).
#[doc(alias = "ode23s", alias = "ode15s", alias = "Radau", alias = "BDF", alias = "Rosenbrock")]
#[track_caller]
pub fn rodas5p() -> Adaptive {
    adaptive(Method::Rosenbrock(&RODAS5P))
}

impl Adaptive {
    /// Sets the tolerated error of a step relative to the state. The default is 10⁻⁶. Values below ten rounding errors
    /// are raised to ten rounding errors. A tolerance is a number, or, if the state is a single leaf, an array of the
    /// leaf's shape. Tolerances and step sizes are constants for derivatives.
    #[track_caller]
    pub fn rtol(self, share: impl IntoVar) -> Adaptive {
        Adaptive { relative: float(share), ..self }
    }

    /// Sets the tolerated absolute error of a step, which applies where the state is near zero. The default is 10⁻⁹.
    #[track_caller]
    pub fn atol(self, error: impl IntoVar) -> Adaptive {
        Adaptive { absolute: float(error), ..self }
    }

    /// Sets the size of the first step. By default it is estimated from the slope at the start.
    #[doc(alias = "dt0")]
    #[track_caller]
    pub fn first_step(self, length: impl IntoVar) -> Adaptive {
        Adaptive { first_step: Some(float(length)), ..self }
    }

    /// Sets the largest step size. Set it if the slope has short pulses or events are close together: a step can skip a
    /// pulse or an event that is shorter than the step.
    #[doc(alias = "max_step", alias = "dtmax")]
    #[track_caller]
    pub fn largest_step(self, length: impl IntoVar) -> Adaptive {
        Adaptive { largest_step: Some(float(length)), ..self }
    }

    /// Sets the largest number of trial steps. The default is 100,000.
    pub fn max_steps(self, steps: usize) -> Adaptive {
        Adaptive { max_steps: steps, ..self }
    }

    /// Sets which sign changes of the event function end [`Adaptive::solve_until`]. By default all sign changes do.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // The time of the first upward crossing of the middle, after the first downward one.
    /// let swing = |(_, (x, v)): (Var, (Var, Var))| (v, -x);
    /// let back = |x0: Var| {
    ///     let method = ode::dopri5().crossing(ode::Crossing::Up);
    ///     let middle = |(_, (x, _)): (Var, (Var, Var))| x;
    ///     method.solve_until(swing, middle, (x0, 0.0 * x0), linspace(0.0, 9.0, 2, Dtype::F64)).1.0
    /// };
    /// let t = run(back, 1.0)?.item::<f64>()?;
    /// assert!((t - 1.5 * std::f64::consts::PI).abs() < 1e-5);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "direction")]
    pub fn crossing(self, crossing: Crossing) -> Adaptive {
        Adaptive { crossing, ..self }
    }

    /// Solves `dy/dt = f(t, y)` with `y = y0` at the first of the times. Returns the solution at all times, which
    /// is the tree of `y0` with an axis of times in front of each leaf, and the statistics of the integration. The
    /// times are a vector, ascending or descending.
    ///
    /// The solution between the ends of steps is interpolated by the dense output, so additional times are cheap.
    /// The slope is not evaluated beyond the last time.
    ///
    /// Errors: `dtype` if the state or the times are not floats; `shape` if the times are not a vector; `shape`,
    /// `dtype` or `arguments` if the slope differs from the state in types or form; `shape` if a tolerance is an
    /// array of another shape than the state; `arguments` if a tolerance is negative or a step size is not
    /// positive. If such a value is known only at run time, the solution is nan.
    #[track_caller]
    pub fn solve<Y: Tree<Var>, F: Function<(Var, Y), Y, M>, M>(
        self,
        f: F,
        y0: Y,
        times: impl IntoVar,
    ) -> (Y, Stats<Var>) {
        let at = caller();
        let times = times.into_var(Dtype::F64, at);
        let (structure, leaves) = flatten(&y0);
        let t = problem::sample(times, at);
        let staged = traced(self.method.name(), at, &one(f), (t, y0));
        let given = TracedProblem { slope: &staged, event: None, y: &leaves, times };
        let solved = self.solved(&given, &Form::of::<Y>(&structure));
        (rebuild(&structure, solved.rows, at), solved.stats)
    }

    /// Solves the equation of [`Adaptive::solve`] until an event. An event is a sign change of the number `g(t, y)`,
    /// the result of the closure `event`. Returns the solution, the time and state at the end, and the statistics.
    ///
    /// The integration ends at the event, at the last time, or where it cannot continue; [`Stats::status`] has the
    /// reason. At times after the event the solution is nan. The event is located on the dense output, to the last
    /// bits of the time; time and state of the event have derivatives. If g is zero at the start, that is not an
    /// event. Two sign changes within one step are not detected ([`Adaptive::largest_step`]).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // The flight time of a stone that is thrown upwards with a given speed.
    /// let flight = |speed: Var| {
    ///     let f = |(_, (_, v)): (Var, (Var, Var))| (v, -9.81 * v.ones_like());
    ///     let start = (constant(0.0), speed);
    ///     let height = |(_, (x, _)): (Var, (Var, Var))| x;
    ///     let (_, (t, _), stats) = ode::dopri5().solve_until(f, height, start, linspace(0.0, 100.0, 2, Dtype::F64));
    ///     (t, stats.status)
    /// };
    /// let (t, status) = run(flight, 10.0)?;
    /// assert!((t.item::<f64>()? - 20.0 / 9.81).abs() < 1e-9);
    /// assert_eq!(ode::Status::of(&status)?, ode::Status::Event);
    /// let slope = run(grad(|speed: Var| flight(speed).0), 10.0)?.item::<f64>()?;
    /// assert!((slope - 2.0 / 9.81).abs() < 1e-9);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: those of [`Adaptive::solve`]; `shape` if the event is not a single float; `arguments` with
    /// [`Adaptive::adjoint`].
    #[doc(alias = "events", alias = "terminal")]
    #[track_caller]
    pub fn solve_until<Y, F, G, M, N>(
        self,
        f: F,
        event: G,
        y0: Y,
        times: impl IntoVar,
    ) -> (Y, (Var, Y), Stats<Var>)
    where
        Y: Tree<Var>,
        F: Function<(Var, Y), Y, M>,
        G: Function<(Var, Y), Var, N>,
    {
        let at = caller();
        let times = times.into_var(Dtype::F64, at);
        let (structure, leaves) = flatten(&y0);
        let (t, name) = (problem::sample(times, at), self.method.name());
        let again = rebuild(&structure, leaves.clone(), at);
        let event = traced(name, at, &one(event), (t, again));
        let staged = traced(name, at, &one(f), (t, y0));
        let given = TracedProblem { slope: &staged, event: Some(&event), y: &leaves, times };
        let solved = self.solved(&given, &Form::of::<Y>(&structure));
        let tree = |leaves| rebuild::<Y>(&structure, leaves, at);
        (tree(solved.rows), (solved.t, tree(solved.y)), solved.stats)
    }

    /// Sets reverse mode to the adjoint equation, which is solved backwards in time. The memory of reverse mode then
    /// does not depend on the number of steps. The error of the gradient is of the size of the tolerance, not of
    /// rounding errors.
    ///
    /// The backward steps are chosen by the errors of the state, of its cotangent, and of the gradient with respect
    /// to captures of the slope; [`Adaptive::seminorm`] ignores the errors of that gradient.
    ///
    /// Between the requested times, the state is integrated backwards, too. If that is unstable, as in systems that
    /// dissipate energy fast, the gradient is wrong unless the times are close together; use
    /// [`checkpoint`](crate::checkpoint()) with a byte budget instead. For this reason, methods for stiff systems
    /// have no adjoint.
    ///
    /// Forward mode along a tangent, [`jvp`](crate::jvp()), differentiates the steps.
    /// [`linearize`](crate::linearize()) and [`jacfwd`](crate::jacfwd()), which derive from the reverse rule, are
    /// an error.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let loss = |k: Var| {
    ///     let swing = |(_, (x, v)): (Var, (Var, Var))| (v, -k * x);
    ///     let start = (constant(1.0), constant(0.0));
    ///     let method = ode::dopri5().rtol(1e-10).atol(1e-10);
    ///     method.adjoint().solve(swing, start, linspace(0.0, 20.0, 2, Dtype::F64)).0.0.index(1)
    /// };
    /// let slope = run(grad(loss), 4.0)?.item::<f64>()?; // d/dk cos(√k t) = -sin(√k t) t / (2 √k)
    /// assert!((slope + 40f64.sin() * 5.0).abs() < 1e-7);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: `arguments` at [`Adaptive::solve`] for a stiff method, and at [`Adaptive::solve_until`].
    pub fn adjoint(self) -> Adaptive {
        Adaptive { adjoint: true, ..self }
    }

    /// Sets reverse mode to [`Adaptive::adjoint`], with step sizes chosen by the errors of the state and of its
    /// cotangent only. If the slope has many captures, this takes fewer steps. The gradient with respect to captures is
    /// an integral whose own error is not checked. Its error is small if the derivative of the slope with respect to
    /// its captures is as smooth in time as that with respect to the state, as in a neural network. Otherwise the error
    /// of the gradient exceeds the tolerance.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // The derivative of the slope with respect to p, √t, is not smooth in time: dy/dp = ∫ √t dt.
    /// let end = |method: ode::Adaptive| move |p: Var| {
    ///     let slope = |(t, y): (Var, Var)| p * t.sqrt() + 0.0 * y;
    ///     method.solve(slope, constant(1.0), constant([0.0, 0.008])).0.index(1)
    /// };
    /// let exact = 0.008f64.powf(1.5) / 1.5;
    /// let error = |method| -> Result<f64, tapeloom::Error> {
    ///     Ok((run(grad(end(method)), 1.0)?.item::<f64>()? / exact - 1.0).abs())
    /// };
    /// assert!(error(ode::dopri5().adjoint())? < 1e-4);
    /// assert!(error(ode::dopri5().seminorm())? > 1e-3);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: those of [`Adaptive::adjoint`].
    ///
    /// Source: Kidger, Chen and Lyons, *"Hey, that's not an ODE": faster ODE adjoints via seminorms* (2021).
    pub fn seminorm(self) -> Adaptive {
        Adaptive { adjoint: true, seminorm: true, ..self }
    }

    /// Integrates a traced problem, and returns the leaves of the solution.
    fn solved(self, given: &TracedProblem<'_>, form: &Form) -> Solved {
        let TracedProblem { slope, event, y, times } = *given;
        let (name, at) = (self.method.name(), slope.at);
        let ok = problem::checked(name, form, y, times, at)
            & self.has_settings(y, at)
            & self.has_adjoint(event.is_some(), at);
        let types: Vec<_> = y.iter().map(|y| y.ty(at)).collect();
        let slope = Traced::slope(slope, form, &types);
        let event = event.map(Traced::event);
        let (Some(slope), true) = (slope, ok && !matches!(event, Some(None))) else {
            return Solved::poison(y, times, at);
        };
        if times.ty(at).shape[0] == 0 {
            return Solved::nothing(y, times, at);
        }
        on_behalf(name, at, || self.integrated(slope, event.flatten(), y, times, at))
    }

    fn integrated(
        self,
        slope: Traced<'_>,
        event: Option<Traced<'_>>,
        y: &[Var],
        times: Var,
        at: Loc,
    ) -> Solved {
        let joined = Joined::of(y, at);
        let integrator = self.integrator(y, times);
        let y = joined.join(y.to_vec());
        let f = |t: Var, y: &[Var], floats: &[Var]| {
            joined.join(slope.call_with(t, &joined.split(y), floats))
        };
        let floats = slope.floats();
        let last = times.index(-1);
        if self.adjoint {
            let (rows, stats) = adjoint::solve(&integrator, self.seminorm, &f, &floats, &y, times);
            let end: State = rows.iter().map(|row| row.index(-1)).collect();
            let rows = joined.split_rows(&rows, times.len());
            return Solved { rows, t: last, y: joined.split(&end), stats };
        }
        let Some(event) = event else {
            let (rows, integration) = integrator.solve((&f, &floats), None, &y, times);
            let rows = joined.split_rows(&rows, times.len());
            return Solved {
                rows,
                t: last,
                y: joined.split(&integration.y),
                stats: integration.stats,
            };
        };
        let event = |t: Var, y: &[Var]| {
            let value = event.call(t, &joined.split(y)).first().copied().unwrap_or(t);
            value.convert(t.dtype())
        };
        let (rows, integration) = integrator.solve((&f, &floats), Some(&event), &y, times);
        let (t, y) = events::end(self.method, &event, &integration, last, at);
        let rows = events::until(&integration, t, times, &rows);
        let rows = joined.split_rows(&rows, times.len());
        Solved { rows, t, y: joined.split(&y), stats: integration.stats }
    }

    /// Checks the tolerances and the step sizes that the user has set. Reports an error for each invalid one, and
    /// returns whether all are valid.
    fn has_settings(self, y: &[Var], at: Loc) -> bool {
        let name = self.method.name();
        let tolerance = |what, given| problem::tolerance(name, what, given, y, at);
        let length =
            |what, given: Option<Var>| given.is_none_or(|h| problem::length(name, what, h, at));
        tolerance("relative tolerance", self.relative)
            & tolerance("absolute tolerance", self.absolute)
            & length("first step", self.first_step)
            & length("largest step", self.largest_step)
    }

    /// Returns false and reports an error if the adjoint is requested and the method, or an integration until an event,
    /// does not support it.
    fn has_adjoint(self, event: bool, at: Loc) -> bool {
        let (name, why) = match self.method {
            _ if !self.adjoint => return true,
            Method::Rosenbrock(method) => {
                (method.name, "a stiff system is unstable if integrated backwards")
            }
            Method::Pair(_) if !event => return true,
            Method::Pair(pair) => (pair.name, "the integration ends at an event"),
        };
        let message = format!("`{name}` has no adjoint method here: {why}");
        let help = "leave out `.adjoint()`; `checkpoint(f, Policy::Bytes(n))` bounds the memory of \
                    reverse mode";
        trace::record(Problem::new(Kind::Arguments, message, help), &[], at);
        false
    }

    /// Returns the integrator, with its settings in the dtype of times.
    fn integrator(self, y: &[Var], times: Var) -> Integrator {
        let own = |x: Var| x.convert(times.dtype()).stop_gradient();
        // Settings may be run-time values, which tracing cannot check. An invalid one is replaced by nan, which makes
        // the steps and the solution nan.
        let checked = |x: Var, right: Var| match x.known() {
            Some(_) => x,
            None => select(right, x, f64::NAN),
        };
        let tolerance = |x: Var| checked(own(x), x.ge(0.0));
        let length = |x: Var| checked(own(x), x.gt(0.0));
        // Raise tolerances that are below a few rounding errors: no step would be small enough for them.
        let rounding = y.iter().map(|y| epsilon(y.dtype())).fold(0.0, f64::max);
        let relative = tolerance(self.relative).maximum(LEAST_SHARE * rounding);
        Integrator {
            method: self.method,
            tolerance: Tolerance {
                relative,
                absolute: tolerance(self.absolute),
                states: usize::MAX,
                integrals: false,
            },
            first_step: self.first_step.map(length),
            largest_step: self.largest_step.map(length),
            max_steps: self.max_steps,
            crossing: self.crossing,
        }
    }
}

/// An initial value problem: the leaves of its state, and its closures after tracing.
#[derive(Clone, Copy)]
struct TracedProblem<'a> {
    slope: &'a Staged,
    event: Option<&'a Staged>,
    y: &'a [Var],
    times: Var,
}

/// A solution as leaves.
struct Solved {
    rows: State,
    /// The time at the end of the integration.
    t: Var,
    y: State,
    stats: Stats<Var>,
}

impl Solved {
    /// Returns placeholders for a solution after an error.
    fn poison(y: &[Var], times: Var, at: Loc) -> Solved {
        let (rows, stats) = problem::poison(y, times, at);
        let y = y.iter().map(|y| Var::poison(y.ty(at), at)).collect();
        Solved { rows, t: Var::poison(problem::sample(times, at).ty(at), at), y, stats }
    }

    /// Returns the solution for an empty vector of times: no rows, the first state, and nan as the end time.
    fn nothing(y: &[Var], times: Var, at: Loc) -> Solved {
        let (rows, stats) = problem::nothing(y, at);
        let t = on_behalf("ode", at, || times.sum() + f64::NAN);
        Solved { rows, t, y: y.to_vec(), stats }
    }
}
