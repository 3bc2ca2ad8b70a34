//! The common interface of adaptive methods: a step with an error estimate and a dense output.

use super::pair::Pair;
use super::rosenbrock::Rosenbrock;
use super::state::{Slope, State, difference, scaled, sum};
use crate::Var;
use tapeloom_derive::Tree;

/// An adaptive method.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method {
    Pair(&'static Pair),
    Rosenbrock(&'static Rosenbrock),
}

/// The end of a step.
#[derive(Tree, Clone, Debug)]
pub(super) struct StepEnd<T> {
    pub(super) y: Vec<T>,
    /// The slope at the end of the step, with which the next step begins.
    pub(super) slope: Vec<T>,
    /// Coefficients from which [`Method::between`] computes states within the step. Each method defines its own.
    pub(super) terms: Vec<Vec<T>>,
}

/// The data of an accepted step from which states within the step are computed. The state at its end is stored
/// elsewhere.
#[derive(Tree, Clone, Debug)]
pub(super) struct Interpolant<T> {
    /// The time at the beginning of the step.
    pub(super) t: T,
    /// The step size.
    pub(super) h: T,
    /// The state at the beginning of the step.
    pub(super) y: Vec<T>,
    pub(super) terms: Vec<Vec<T>>,
}

impl Method {
    /// Returns the name of the method in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Pair(pair) => pair.name,
            Method::Rosenbrock(method) => method.name,
        }
    }

    /// Returns the order of accuracy of the method.
    pub(super) fn order(self) -> i32 {
        match self {
            Method::Pair(pair) => pair.order,
            Method::Rosenbrock(method) => method.order,
        }
    }

    /// Returns the number of evaluations of the slope per step, including the one at the end of the step.
    pub(super) fn evaluations(self) -> usize {
        match self {
            Method::Pair(pair) => pair.method.b.len(),
            Method::Rosenbrock(method) => method.alpha.len(),
        }
    }

    /// Returns the number of Jacobians per step.
    pub(super) fn jacobians(self) -> usize {
        match self {
            Method::Pair(_) => 0,
            Method::Rosenbrock(_) => 1,
        }
    }

    /// Computes a step of size `h` from `y` at time `t`, where the slope is `slope`. Returns the end of the step
    /// and the estimated error of its state.
    pub(super) fn step(
        self,
        f: Slope<'_>,
        (t, h): (Var, Var),
        y: &[Var],
        slope: &[Var],
    ) -> (StepEnd<Var>, State) {
        match self {
            Method::Pair(pair) => pair.step(f, (t, h), y, slope),
            Method::Rosenbrock(method) => method.step(f, (t, h), y, slope),
        }
    }

    /// Returns the interpolant of the time before the first step. It is evaluated at its beginning only, where its
    /// value is `y` and its slope is `slope`. Its length is 1, to avoid a division by zero.
    pub(super) fn before(self, t: Var, y: &[Var], slope: &[Var]) -> Interpolant<Var> {
        let mut terms = self.zero_end(y).terms;
        terms[0] = slope.to_vec();
        Interpolant { t, h: t.ones_like(), y: y.to_vec(), terms }
    }

    /// Returns zeros in the structure of this method's [`StepEnd`]: the initial value for the loop over trials.
    pub(super) fn zero_end(self, y: &[Var]) -> StepEnd<Var> {
        let zeros = || y.iter().map(|y| y.zeros_like()).collect::<State>();
        let terms = match self {
            Method::Pair(_) => 2,
            Method::Rosenbrock(_) => 3,
        };
        StepEnd { y: zeros(), slope: zeros(), terms: (0..terms).map(|_| zeros()).collect() }
    }

    /// Returns the state at time `at` within a step, which is at the fraction θ of the step. `end` contains the state
    /// and the slope at the end of the step. c₁ is the change of the state in the step, and the method defines the
    /// other coefficients:
    ///
    /// ```text
    /// y(t + θ h) = y + θ (c₁ + (1-θ) (c₂ + θ (c₃ + (1-θ) c₄)))
    /// ```
    pub(super) fn between(
        self,
        interpolant: &Interpolant<Var>,
        end: (&[Var], &[Var]),
        at: Var,
    ) -> State {
        let first = difference(end.0, &interpolant.y);
        let rest = match self {
            Method::Pair(_) => Pair::coefficients(interpolant, &first, end.1),
            Method::Rosenbrock(_) => interpolant.terms.clone(),
        };
        let theta = (at - interpolant.t) / interpolant.h;
        let back = 1.0 - theta;
        let factors = [theta, back, theta, back];
        let terms: Vec<&State> = [&first].into_iter().chain(&rest).collect();
        let pairs = terms.iter().zip(factors).rev();
        let inner = pairs.fold(None, |inner: Option<State>, (c, factor)| {
            let c = match inner {
                Some(inner) => sum(c, &inner),
                None => (*c).clone(),
            };
            Some(scaled(factor, &c))
        });
        inner.map_or_else(|| interpolant.y.clone(), |inner| sum(&interpolant.y, &inner))
    }
}
