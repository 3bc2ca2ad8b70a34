//! Smooth curves through points, cubic splines and monotone cubics, and interpolation of arrays.
//!
//! | function | result |
//! |---|---|
//! | [`cubic_spline`] | a curve with two continuous derivatives, with one of the end conditions [`Ends`] |
//! | [`pchip`] | a curve with one continuous derivative that is monotone where the values are |
//! | [`interp`](crate::interp()) | the polygon |
//! | [`map_coordinates`] | an array between the points of its grid, in any number of dimensions |
//!
//! The points of a curve are a vector, and its values are any array with one value per point along axis 0. The result
//! is a [`Curve`], a tree that [`jit`](crate::jit()) and loops accept. Its values and derivatives are differentiable
//! with respect to points, values, and the places of evaluation.
//!
//! ```
//! use tapeloom::prelude::*;
//! let at = |(x, y, p): (Var, Var, Var)| interpolate::cubic_spline(x, y, interpolate::Ends::NotAKnot).at(p);
//! // The spline of a cubic polynomial is that polynomial.
//! let (x, y) = ([0.0, 1.0, 2.5, 4.0], [0.0, 1.0, 15.625, 64.0]);
//! assert!((run(at, (x, y, 3.0))?.item::<f64>()? - 27.0).abs() < 1e-12);
//! check_grads(at, (x, y, 3.0), 2)?;
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! Source: de Boor, *A practical guide to splines* (1978); Fritsch and Butland, *A method for constructing local
//! monotone piecewise cubic interpolants* (1984). Models: SciPy's `CubicSpline` and `PchipInterpolator`.

mod cubic;
mod curve;
mod grid;
mod monotone;

pub use cubic::{Ends, cubic_spline};
pub use curve::Curve;
pub use grid::{Border, Order, map_coordinates};
pub use monotone::pchip;
