//! What every adaptive method does: a step with an estimate of its error, and what is between its ends.

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

/// Where a step ended.
#[derive(Tree, Clone, Debug)]
pub(super) struct StepEnd<T> {
    pub(super) y: Vec<T>,
    /// The slope there, with which the next step begins.
    pub(super) slope: Vec<T>,
    /// What the dense output needs beside the states at both ends.
    pub(super) terms: Vec<Vec<T>>,
}

/// A step that was taken, but for the state at its end.
#[derive(Tree, Clone, Debug)]
pub(super) struct Interpolant<T> {
    /// When it began.
    pub(super) t: T,
    /// How long it was.
    pub(super) h: T,
    /// The state at its beginning.
    pub(super) y: Vec<T>,
    pub(super) terms: Vec<Vec<T>>,
}

impl Method {
    /// The name that messages know.
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Pair(pair) => pair.name,
            Method::Rosenbrock(method) => method.name,
        }
    }

    /// The order of the solution.
    pub(super) fn order(self) -> i32 {
        match self {
            Method::Pair(pair) => pair.order,
            Method::Rosenbrock(method) => method.order,
        }
    }

    /// How often a step evaluates the slope, at its end among them.
    pub(super) fn evaluations(self) -> usize {
        match self {
            Method::Pair(pair) => pair.method.b.len(),
            Method::Rosenbrock(method) => method.alpha.len(),
        }
    }

    /// How many Jacobians a step takes.
    pub(super) fn jacobians(self) -> usize {
        match self {
            Method::Pair(_) => 0,
            Method::Rosenbrock(_) => 1,
        }
    }

    /// A step of length h from y at time t, where the slope is known, and by how much the state at its end is wrong.
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

    /// Before the first step: an interpolant of length 1, whose dense output has the right value and slope at its
    /// beginning, where alone it is asked.
    pub(super) fn before(self, t: Var, y: &[Var], slope: &[Var]) -> Interpolant<Var> {
        let mut terms = self.nowhere(y).terms;
        terms[0] = slope.to_vec();
        Interpolant { t, h: t.ones_like(), y: y.to_vec(), terms }
    }

    /// The end of a step of that form, of zeros.
    pub(super) fn nowhere(self, y: &[Var]) -> StepEnd<Var> {
        let zeros = || y.iter().map(|y| y.zeros_like()).collect::<State>();
        let terms = match self {
            Method::Pair(_) => 2,
            Method::Rosenbrock(_) => 3,
        };
        StepEnd { y: zeros(), slope: zeros(), terms: (0..terms).map(|_| zeros()).collect() }
    }

    /// The state at a time within a step, given state and slope at its end:
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
