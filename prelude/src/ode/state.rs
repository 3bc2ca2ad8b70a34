//! States as lists of leaves, with arithmetic on all leaves.
//!
//! A step works leaf by leaf, so that scalar states stay scalars in the compiled loop, and leaves may have different
//! dtypes. Times have a dtype of their own and are converted to the dtype of each leaf.

use crate::Var;
use crate::ops::functions::select;

/// The leaves of a state, or of a derivative of a state.
pub(super) type State = Vec<Var>;

/// The slope `dy/dt` as a function of time and state.
pub(super) type Slope<'a> = &'a dyn Fn(Var, &[Var]) -> State;

/// The slope `dy/dt` as a function of time, state, and the floats that the user's closure captures.
pub(super) type Open<'a> = &'a dyn Fn(Var, &[Var], &[Var]) -> State;

/// Returns `w₁ k₁ + w₂ k₂ + ..` for each leaf, without the terms whose weight is zero.
pub(super) fn weighted(weights: &[f64], slopes: &[State]) -> State {
    let Some(first) = slopes.first() else { return State::new() };
    let terms = || weights.iter().zip(slopes).filter(|(w, _)| **w != 0.0);
    let leaf = |i: usize| {
        let term = |(w, k): (&f64, &State)| if *w == 1.0 { k[i] } else { k[i] * *w };
        terms().map(term).reduce(|sum, k| sum + k).unwrap_or_else(|| first[i].zeros_like())
    };
    (0..first.len()).map(leaf).collect()
}

/// Returns `y + h k` for each leaf.
pub(super) fn advanced(y: &[Var], h: Var, k: &[Var]) -> State {
    sum(y, &scaled(h, k))
}

/// Returns `h x` for each leaf.
pub(super) fn scaled(h: Var, x: &[Var]) -> State {
    x.iter().map(|x| h.convert(x.dtype()) * *x).collect()
}

/// Returns `x + y` for each leaf.
pub(super) fn sum(x: &[Var], y: &[Var]) -> State {
    x.iter().zip(y).map(|(x, y)| *x + *y).collect()
}

/// Returns `x - y` for each leaf.
pub(super) fn difference(x: &[Var], y: &[Var]) -> State {
    x.iter().zip(y).map(|(x, y)| *x - *y).collect()
}

/// Returns `x` if `condition`, a single truth value, is true, and `y` otherwise.
pub(super) fn chosen(condition: Var, x: &[Var], y: &[Var]) -> State {
    x.iter().zip(y).map(|(x, y)| select(condition, *x, *y)).collect()
}

/// Returns the leaves as constants for derivatives.
pub(super) fn constants(x: &[Var]) -> State {
    x.iter().map(|x| x.stop_gradient()).collect()
}
