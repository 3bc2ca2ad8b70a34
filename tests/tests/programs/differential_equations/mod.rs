//! Differential equations, integrals, roots and curves: exact solutions and recorded ones, orders of convergence,
//! derivatives of every kind beside one another, and what is at the edges.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod convergence;
mod derivatives;
mod edges;
mod recorded;
mod relatives;

use tapeloom::prelude::*;

/// Whether two lists of numbers differ by at most that share of the larger of both, or of that number.
fn near(x: &[f64], y: &[f64], share: f64, least: f64) -> bool {
    let close = |(x, y): (&f64, &f64)| (x - y).abs() <= share * x.abs().max(y.abs()).max(least);
    x.len() == y.len() && x.iter().zip(y).all(close)
}

/// The numbers of an array.
fn numbers(x: &Tensor) -> Vec<f64> {
    x.numbers().collect()
}

/// The status of a solution.
fn status(stats: &ode::Stats<Tensor>) -> ode::Status {
    ode::Status::of(&stats.status).unwrap()
}
