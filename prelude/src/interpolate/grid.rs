//! Interpolation of arrays between the points of their grid.
//!
//! An array is continued beyond its borders, and the value at a place is a weighted sum of the neighbouring elements.
//! The weight of an element is a product of one factor per axis. For the cubic order, the weights are those of a
//! B-spline, whose coefficients are the solution of a tridiagonal system along each axis, so that the spline passes
//! through the elements.

use crate::Var;
use crate::linalg::tridiagonal_solve;
use crate::ops::{Padding, broadcast_shapes, constant, select, wrong};
use crate::var::{caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// The order of an interpolation between the points of a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The nearest element (SciPy's order 0). Halves are rounded up. The derivative in the coordinates is 0.
    Nearest,
    /// A weighted mean of both neighbours along each axis (SciPy's order 1).
    Linear,
    /// The cubic spline through the elements (SciPy's order 3), which has two continuous derivatives.
    Cubic,
}

/// The continuation of an array beyond its borders, in the terms of `scipy.ndimage`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Border {
    /// The interpolated value is this number at every place outside of the outermost points (SciPy's `constant`).
    Constant(f64),
    /// All points of the grid outside of the array have this value, and places near the border are interpolated with
    /// them: SciPy's `grid-constant`, JAX's `constant`, PyTorch's `zeros`.
    GridConstant(f64),
    /// The array continues with the element at the border: `a a | a b c | c c`.
    Nearest,
    /// The array continues mirrored at the outermost points: `c b | a b c | b a`.
    Mirror,
    /// The array continues mirrored half a step beyond the outermost points: `b a | a b c | c b`.
    Reflect,
    /// The array continues periodically: `b c | a b c | a b` (SciPy's `grid-wrap`).
    Wrap,
}

/// The number of points by which an array is extended on each side, as in SciPy, if its continuation has no exact
/// spline. The influence of an element on a spline coefficient at this distance has a factor of about 1e-7.
const MARGIN: usize = 12;

/// Returns the values of `x` at places between its elements. `coordinates` has one array for each axis; a coordinate is
/// an index, which need not be an integer. The arrays are broadcast to the shape of the result. They are differentiable
/// in `x` and in the coordinates; at a coordinate nan they are nan. Continued by [`Mirror`](Border::Mirror),
/// [`Reflect`](Border::Reflect) or [`Wrap`](Border::Wrap), the value at a coordinate beyond ±2⁶³ is that of some
/// element.
///
/// This is SciPy's `map_coordinates`. For PyTorch's `grid_sample`, whose coordinates g run from -1 to 1 with the last
/// axis first, the coordinate along an axis of n elements is `(g + 1) (n - 1) / 2` with `align_corners`, and
/// `((g + 1) n - 1) / 2` without.
///
/// Errors: `dtype` if the arrays are not floats of one dtype; `shape` if there is not one array of coordinates for each
/// axis, if these do not broadcast, or if `x` is a scalar or has no elements.
///
/// ```
/// use tapeloom::prelude::*;
/// use interpolate::{Border, Order, map_coordinates};
/// let at = |(x, r, c): (Var, Var, Var)| map_coordinates(x, &[r, c], Order::Linear, Border::Nearest);
/// let image = [[0.0, 1.0], [2.0, 3.0]];
/// let y = run(at, (image, [0.5, 1.0, 9.0], [0.5, 0.25, 0.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.5, 2.25, 2.0]);
/// // The derivative in the coordinates is the slope of the image.
/// let slope = run(grad(|(r, c): (Var, Var)| at((constant(image), r, c))), (0.5, 0.5))?;
/// assert_eq!((slope.0.item::<f64>()?, slope.1.item::<f64>()?), (2.0, 1.0));
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Unser, Aldroubi and Eden, *B-spline signal processing* (1993).
#[doc(alias = "RegularGridInterpolator", alias = "interpn")]
#[doc(alias = "grid_sample", alias = "resample", alias = "zoom", alias = "warp")]
#[track_caller]
pub fn map_coordinates(x: Var, coordinates: &[Var], order: Order, border: Border) -> Var {
    let at = caller();
    let ty = x.ty(at);
    match places(&ty, coordinates, at) {
        Ok(shape) => on_behalf("map_coordinates", at, || {
            let whole = coordinates.iter().map(|c| c.broadcast_to(shape.clone()));
            interpolated(x, whole.collect(), order, border)
        }),
        Err((problem, shape)) => {
            let operands = [&[x], coordinates].concat();
            wrong(problem, &operands, ArrayType::new(ty.dtype, shape), at)
        }
    }
}

/// Checks the arguments of an interpolation. Returns the shape of the result, or an error with a guess of this shape.
fn places(ty: &ArrayType, coordinates: &[Var], at: Loc) -> Result<Shape, (Problem, Shape)> {
    let types: Vec<ArrayType> = coordinates.iter().map(|c| c.ty(at)).collect();
    let shapes = types.iter().map(|t| t.shape.clone());
    let shape = shapes.clone().try_fold(Shape::scalar(), |all, one| broadcast_shapes(&all, &one));
    let guess = shape.clone().or(shapes.clone().next()).unwrap_or_default();
    let names: Vec<String> = types.iter().map(ArrayType::to_string).collect();
    let message = format!("`map_coordinates` of {ty} at {}", names.join(", "));
    let refuse = |kind, help: &str| Err((Problem::new(kind, message.clone(), help), guess.clone()));
    if !ty.dtype.is_float() || types.iter().any(|t| t.dtype != ty.dtype) {
        return refuse(Kind::Dtype, "array and coordinates are floats of one dtype");
    }
    if types.is_empty() || types.len() != ty.shape.len() {
        return refuse(Kind::Shape, "give one array of coordinates for each axis");
    }
    if ty.shape.elements() == 0 {
        return refuse(Kind::Shape, "there is no element to interpolate");
    }
    shape.map_or_else(|| refuse(Kind::Shape, "the coordinates do not broadcast"), Ok)
}

fn interpolated(x: Var, coordinates: Vec<Var>, order: Order, border: Border) -> Var {
    let extents = x.shape();
    // For SciPy's `constant`, a place beyond the outermost points is not interpolated. Its result is the constant.
    let mut outside = None;
    let mut inside = Vec::new();
    for (c, n) in coordinates.into_iter().zip(extents.iter()) {
        let Border::Constant(_) = border else {
            inside.push(c);
            continue;
        };
        let beyond = c.lt(0.0) | c.gt(*n as f64 - 1.0);
        inside.push(select(beyond, 0.0, c));
        outside = Some(outside.map_or(beyond, |outside: Var| outside | beyond));
    }
    let (mut x, mut margin) = (x, 0);
    if order == Order::Cubic {
        (x, margin) = extended(x, border);
        for axis in 0..extents.len() {
            x = coefficients(x, axis, border);
        }
    }
    let axes: Vec<Axis> = inside
        .into_iter()
        .zip(x.shape().iter())
        .map(|(c, n)| neighbours(c + margin as f64, *n, order, border))
        .collect();
    let value = sum_of_neighbours(x, &axes, border);
    match (outside, border) {
        (Some(outside), Border::Constant(constant)) => select(outside, constant, value),
        _ => value,
    }
}

/// Extends an array by margins for the spline. Returns the array and the width of the margins. For a border whose
/// continuation has no exact spline, the margins are those of SciPy. For any other border, the array is unchanged and
/// the width is 0.
fn extended(x: Var, border: Border) -> (Var, usize) {
    let rank = x.rank();
    let margin = MARGIN as i64;
    match border {
        Border::Nearest => (x.pad_like(&vec![(MARGIN, MARGIN); rank], Padding::Edge), MARGIN),
        Border::GridConstant(value) => (x.pad(&vec![(margin, margin); rank], value), MARGIN),
        Border::Constant(_) | Border::Mirror | Border::Reflect | Border::Wrap => (x, 0),
    }
}

/// Returns the coefficients c of the spline through the elements along an axis: (cᵢ₋₁ + 4 cᵢ + cᵢ₊₁) / 6 = xᵢ.
fn coefficients(x: Var, axis: usize, border: Border) -> Var {
    let x = x.move_axis(axis, 0);
    let shape = x.shape();
    let n = shape[0];
    if n == 1 {
        return x.move_axis(0, axis);
    }
    let [mut lower, mut diagonal, mut upper] = [1.0, 4.0, 1.0].map(|number| vec![number; n]);
    // For two points, the periodic continuation equals the mirrored one.
    let periodic = border == Border::Wrap && n > 2;
    match border {
        Border::Reflect | Border::Nearest => (diagonal[0], diagonal[n - 1]) = (5.0, 5.0),
        // The matrix of a periodic system is a tridiagonal matrix plus the outer product of the vectors (-4, 0, .., 1)
        // and (1, 0, .., -1/4).
        Border::Wrap if periodic => (diagonal[0], diagonal[n - 1]) = (8.0, 4.25),
        Border::Wrap | Border::Mirror | Border::Constant(_) | Border::GridConstant(_) => {
            (upper[0], lower[n - 1]) = (2.0, 2.0);
        }
    }
    let mut column = vec![0.0; n];
    (column[0], column[n - 1]) = (-4.0, 1.0);
    let vector = |v: Vec<f64>| constant(v).convert(x.dtype());
    let system = [lower, diagonal, upper].map(vector);
    let [lower, diagonal, upper] = system;
    let solve = |b: Var| tridiagonal_solve(lower, diagonal, upper, b);
    let solution = solve(6.0 * x.reshape([n, shape.elements() / n]));
    let solution = if periodic {
        // Solve the periodic system from the tridiagonal one by the formula of Sherman and Morrison.
        let column = solve(vector(column));
        let ends = |v: Var| v.index(0) - 0.25 * v.index(n - 1);
        solution - column.expand_dims(1) * (ends(solution) / (1.0 + ends(column)))
    } else {
        solution
    };
    solution.reshape(shape).move_axis(0, axis)
}

/// The neighbouring points of each place along an axis. Each has an index and a weight, and, for borders that need it,
/// a bool: whether the point lies in the array.
type Axis = Vec<(Var, Var, Option<Var>)>;

/// Returns the neighbouring points of the coordinates `c` along an axis of n points.
fn neighbours(c: Var, n: usize, order: Order, border: Border) -> Axis {
    let last = n as f64 - 1.0;
    let c = match border {
        // The spline has coefficients up to the margin only, so clamp coordinates to the extended array.
        Border::Nearest if order == Order::Cubic => c.clamp(0.0, last),
        // All points further outside have equal values. Clamp the coordinates, because an infinite coordinate has no
        // index.
        Border::Nearest | Border::GridConstant(_) => c.clamp(-3.0, last + 3.0),
        Border::Constant(_) | Border::Mirror | Border::Reflect | Border::Wrap => c,
    };
    let below = match (order, border) {
        (Order::Nearest, _) => (c + 0.5).floor(),
        // At the last point, use the interval before it, so that the derivative is that from inside the array.
        (_, Border::Constant(_)) => c.floor().minimum((last - 1.0).max(0.0)),
        _ => c.floor(),
    };
    let t = c - below;
    let u = 1.0 - t;
    let weights = match order {
        Order::Nearest => vec![(0, select(c.is_nan(), c, 1.0))],
        Order::Linear => vec![(0, u), (1, t)],
        Order::Cubic => {
            let inner = |t: Var| (2.0 / 3.0) - t.square() * (1.0 - 0.5 * t);
            let outer = |t: Var| t.square() * t / 6.0;
            vec![(-1, outer(u)), (0, inner(t)), (1, inner(u)), (2, outer(t))]
        }
    };
    let below = below.convert(Dtype::I64);
    let neighbour = |(offset, weight): (i64, Var)| {
        let (index, inside) = continued(below + offset, n as i64, border);
        (index, weight, inside)
    };
    weights.into_iter().map(neighbour).collect()
}

/// Returns the index of the element that the continuation of an axis has at point i. For `GridConstant`, also returns
/// whether the point lies in the array.
fn continued(i: Var, n: i64, border: Border) -> (Var, Option<Var>) {
    match border {
        Border::Nearest => (i.clamp(0, n - 1), None),
        Border::GridConstant(_) => (i.clamp(0, n - 1), Some(i.ge(0) & i.lt(n))),
        Border::Mirror | Border::Constant(_) => {
            let period = (2 * (n - 1)).max(1);
            let i = i.mod_floor(period);
            (i.minimum(period - i).minimum(n - 1), None)
        }
        Border::Reflect => {
            let i = i.mod_floor(2 * n);
            (i.minimum(2 * n - 1 - i), None)
        }
        Border::Wrap => (i.mod_floor(n), None),
    }
}

/// Returns the interpolated values: the weighted sum of the elements at all combinations of neighbours along the axes.
fn sum_of_neighbours(x: Var, axes: &[Axis], border: Border) -> Var {
    let (flat, shape) = (x.flatten(), x.shape());
    let mut points: Axis = Vec::new();
    for (k, axis) in axes.iter().enumerate() {
        let n = shape[k] as i64;
        if k == 0 {
            points.clone_from(axis);
            continue;
        }
        let pairs = points.iter().flat_map(|point| axis.iter().map(move |other| (point, other)));
        points = pairs
            .map(|((i, w, inside), (j, v, more))| {
                let inside = inside.zip(*more).map(|(a, b)| a & b);
                (*i * n + *j, *w * *v, inside)
            })
            .collect();
    }
    let terms = points.into_iter().map(|(i, weight, inside)| {
        let element = flat.take(i, 0);
        let element = match (inside, border) {
            (Some(inside), Border::GridConstant(value)) => select(inside, element, value),
            _ => element,
        };
        weight * element
    });
    terms.reduce(|sum, term| sum + term).unwrap_or(x)
}
