//! Differential equations, integrals, roots and curves: exact and recorded solutions, orders of convergence,
//! derivatives in every mode, and edge cases.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod convergence;
mod derivatives;
mod edges;
mod recorded;
mod relatives;

use tapeloom::prelude::*;

/// Returns whether each pair of numbers differs by at most `share` times the pair's largest magnitude, or by at most
/// `least`.
fn near(x: &[f64], y: &[f64], share: f64, least: f64) -> bool {
    let close = |(x, y): (&f64, &f64)| (x - y).abs() <= share * x.abs().max(y.abs()).max(least);
    x.len() == y.len() && x.iter().zip(y).all(close)
}

/// Returns the elements of an array as f64.
fn numbers(x: &Tensor) -> Vec<f64> {
    x.numbers().collect()
}

/// Returns the status in the statistics of a solution.
fn status(stats: &ode::Stats<Tensor>) -> ode::Status {
    ode::Status::of(&stats.status).unwrap()
}
