//! States: the leaves of a tree, and what methods do with all of them at once.
//!
//! A step works leaf by leaf, so that a state of numbers is numbers in the compiled loop, and leaves may have
//! different dtypes. Times have a dtype of their own; a leaf takes them in its own.

use crate::Var;
use crate::ops::functions::select;

/// The leaves of a state, or of its derivative.
pub(super) type State = Vec<Var>;

/// `dy/dt` as a function of time and state.
pub(super) type Slope<'a> = &'a dyn Fn(Var, &[Var]) -> State;

/// The same as a function of floats that it captures, too.
pub(super) type Open<'a> = &'a dyn Fn(Var, &[Var], &[Var]) -> State;

/// `w₁ k₁ + w₂ k₂ + ..`, leaf by leaf; a weight of zero has no term.
pub(super) fn weighted(weights: &[f64], slopes: &[State]) -> State {
    let Some(first) = slopes.first() else { return State::new() };
    let terms = || weights.iter().zip(slopes).filter(|(w, _)| **w != 0.0);
    let leaf = |i: usize| {
        let term = |(w, k): (&f64, &State)| if *w == 1.0 { k[i] } else { k[i] * *w };
        terms().map(term).reduce(|sum, k| sum + k).unwrap_or_else(|| first[i].zeros_like())
    };
    (0..first.len()).map(leaf).collect()
}

/// `y + h k`, leaf by leaf.
pub(super) fn advanced(y: &[Var], h: Var, k: &[Var]) -> State {
    sum(y, &scaled(h, k))
}

/// `h x`, leaf by leaf.
pub(super) fn scaled(h: Var, x: &[Var]) -> State {
    x.iter().map(|x| h.convert(x.dtype()) * *x).collect()
}

/// `x + y`, leaf by leaf.
pub(super) fn sum(x: &[Var], y: &[Var]) -> State {
    x.iter().zip(y).map(|(x, y)| *x + *y).collect()
}

/// `x - y`, leaf by leaf.
pub(super) fn difference(x: &[Var], y: &[Var]) -> State {
    x.iter().zip(y).map(|(x, y)| *x - *y).collect()
}

/// `x` if the condition, a single truth value, holds, `y` if not.
pub(super) fn chosen(condition: Var, x: &[Var], y: &[Var]) -> State {
    x.iter().zip(y).map(|(x, y)| select(condition, *x, *y)).collect()
}

/// As constants of derivatives.
pub(super) fn constants(x: &[Var]) -> State {
    x.iter().map(|x| x.stop_gradient()).collect()
}
