//! Integrals of functions of one number.
//!
//! ```
//! use tapeloom::prelude::*;
//! // ∫ exp(-c x²) dx over all numbers is √(π/c).
//! let area = |c: Var| {
//!     let all = (f64::NEG_INFINITY, f64::INFINITY);
//!     quad(|x: Var| (-c * x * x).exp(), all, Precision::default()).0
//! };
//! assert!((run(area, 2.0)?.item::<f64>()? - (std::f64::consts::PI / 2.0).sqrt()).abs() < 1e-10);
//! check_grads(area, 2.0, 2)?;
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! An integral is a sum over intervals, which are halved until the estimated errors are small. The choice of intervals
//! is a constant for derivatives: the derivative is that of the sum over these intervals, which is computed once more
//! for it. So a derivative is an integral with the same points, and reverse mode saves nothing of the search.
//!
//! Source: QUADPACK's `qag` and `qagi`. Model: SciPy's `quad`.

mod rule;
mod table;

use crate::Var;
use crate::control::{fori_loop, while_loop};
use crate::dtype::epsilon;
use crate::function::{Function, one};
use crate::ops::functions::{concat, constant, full, select, stack, zeros};
use crate::ops::wrong;
use crate::prng::unmarked;
use crate::staging::{Staged, rebuild, stage};
use crate::transform::{custom_jvp, jvp, vmap};
use crate::tree::Tree;
use crate::var::{IntoVar, caller, on_behalf, pair};
use table::{SIZE, table};
use tapeloom_derive::Tree;
use tapeloom_ir::trace::Diagnostic;
use tapeloom_ir::{ArrayType, Dtype, FuncId, Kind, Loc, Problem};

/// The stopping criteria of [`quad`], which stops as soon as one of them is met.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Precision {
    /// The estimated error is at most this multiple of the integral. Values below 50 rounding errors are raised to 50
    /// rounding errors.
    pub relative: f64,
    /// The estimated error is at most this number.
    pub absolute: f64,
    /// The number of intervals has reached this number.
    pub most: usize,
}

impl Default for Precision {
    /// Returns a relative error of 10⁻⁹, an absolute error of 10⁻¹², and 100 intervals.
    fn default() -> Precision {
        Precision { relative: 1e-9, absolute: 1e-12, most: 100 }
    }
}

/// The lower bound of error estimates and of the relative tolerance, in units of the dtype's rounding error. For an
/// estimate it is relative to the integral of |f|.
const ROUNDINGS: f64 = 50.0;

/// The length of the shortest interval of (-1, 1) that is halved, in units of rounding errors. The points of shorter
/// intervals would not be distinct numbers.
const SHORTEST: f64 = 1000.0;

/// Returns the integral of `f` from `a` to `b`, which may be infinite, and an estimate of its error.
///
/// `f` maps a float to a tree of floats, and may use any [`Var`] of the surrounding trace; the integral is
/// differentiable with respect to these and to a and b. `f` is evaluated at 21 points of an interval at once, never
/// at a or b, so it may have a pole there. A kink or a pole inside the interval needs many subintervals: integrate
/// both sides of it separately instead. If the error is larger than requested, all intervals were used. If `f` is
/// nan at a point, the integral is nan.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|b: Var| quad(|x: Var| x.sin(), (0.0, b), Precision::default()));
/// let (area, error) = f.call(2.0)?;
/// assert!((area.item::<f64>()? - (1.0 - 2f64.cos())).abs() < 1e-14);
/// assert!(error.item::<f64>()? < 1e-9);
/// check_grads(|b: Var| quad(|x: Var| x.sin(), (0.0, b), Precision::default()).0, 2.0, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` or `dtype` if a and b are not single floats of one dtype, `dtype` if the result of f has a leaf
/// that is not a float.
#[doc(alias = "simpson", alias = "simps", alias = "romberg", alias = "fixed_quad")]
#[doc(alias = "integrate", alias = "quadgk", alias = "quad_vec", alias = "integral")]
#[track_caller]
pub fn quad<Y: Tree<Var>, F: Function<Var, Y, M>, M>(
    f: F,
    (a, b): (impl IntoVar, impl IntoVar),
    precision: Precision,
) -> (Y, Var) {
    let at = caller();
    let (a, b) = pair(a, b, at);
    let limits = checked(a, b, at);
    let t = limits.as_ref().map_or(Var::literal(tapeloom_ir::Literal::f64(0.0), at), |_| a);
    let (staged, _, structure) = unmarked(|| stage::<Var, Y>("quad", at, &one(f), t));
    let (leaves, error) = match limits {
        Ok(()) => of_staged(&staged, a, b, precision),
        Err(problem) => {
            let error = wrong(problem, &[a, b], ArrayType::new(Dtype::F64, []), at);
            (staged.poison(&staged.result_types()), error)
        }
    };
    (rebuild(&structure, leaves, at), error)
}

/// Returns an error unless `a` and `b` are single floats of one dtype.
fn checked(a: Var, b: Var, at: Loc) -> Result<(), Problem> {
    let (ta, tb) = (a.ty(at), b.ty(at));
    let message = || format!("`quad` from {ta} to {tb}");
    if !ta.dtype.is_float() || ta.dtype != tb.dtype {
        return Err(Problem::new(Kind::Dtype, message(), "give floats of one dtype"));
    }
    if ta.shape.is_empty() && tb.shape.is_empty() {
        return Ok(());
    }
    let help = "give two numbers; `vmap` integrates for each member of a batch";
    Err(Problem::new(Kind::Shape, message(), help))
}

fn of_staged(staged: &Staged, a: Var, b: Var, precision: Precision) -> (Vec<Var>, Var) {
    let at = staged.at;
    let types = staged.result_types();
    let poison = || (staged.poison(&types), Var::poison(a.ty(at), at));
    if let Some(ty) = types.iter().find(|ty| !ty.dtype.is_float()) {
        if !staged.poisoned_results().contains(&true) {
            let message = format!("`quad` needs a function that gives floats, got {ty}");
            let help = "convert its result, as in `y.convert(Dtype::F64)`";
            staged.report(Diagnostic::new(Problem::new(Kind::Dtype, message, help), at));
        }
        return poison();
    }
    let Some(function) = staged.function() else { return poison() };
    on_behalf("quad", at, || integral(&Integrand { staged, function }, (a, b), precision))
}

/// Returns the integral and its estimated error. Derivatives of the integral are those of the sum over the intervals
/// that were found.
fn integral(f: &Integrand<'_>, (a, b): (Var, Var), precision: Precision) -> (Vec<Var>, Var) {
    let given = f.staged.floats();
    let constants: Vec<Var> = given.iter().map(|p| p.stop_gradient()).collect();
    let range = Range::of(a.stop_gradient(), b.stop_gradient());
    let found = f.intervals(&range, &constants, precision);
    // If both limits are the same infinity, the integral is 0 for every f.
    let values = found.values.iter().map(|v| {
        let sum = v.sum_axis(0) * range.sign.convert(v.dtype());
        select(range.none, 0.0, sum)
    });
    let sum = |(a, b, given): Point| {
        let range = Range::of(a, b);
        let parts = f.sum(&range, &given, &found).into_iter();
        parts.map(|y| y * range.sign.convert(y.dtype())).collect::<Vec<Var>>()
    };
    let ruled = custom_jvp(
        |(_, values): (Point, Vec<Var>)| values,
        |(from, _), (moved, _)| jvp(sum)((from, moved)),
    );
    let error = select(range.sign.is_nan(), f64::NAN, found.errors.sum());
    (ruled(((a, b, given), values.collect())), select(range.none, 0.0, error))
}

/// The inputs of an integral with respect to which it has derivatives: the two limits, and the floats that the
/// integrand captures.
type Point = (Var, Var, Vec<Var>);

/// The limits of an integral in ascending order. Infinite limits are replaced by zeros.
#[derive(Clone, Copy)]
struct Range {
    a: Var,
    b: Var,
    /// For each limit, whether it is finite.
    finite: [Var; 2],
    /// The sign of the integral: 1, or -1 if the user's limits are in descending order; nan if a limit is nan.
    sign: Var,
    /// Whether both limits are the same infinity.
    none: Var,
}

impl Range {
    fn of(a: Var, b: Var) -> Range {
        let ordered = a.le(b);
        let (low, high) = (select(ordered, a, b), select(ordered, b, a));
        let finite = [low.is_finite(), high.is_finite()];
        let sign = select(ordered, a.ones_like(), -a.ones_like());
        let none = (a.eq(b) & a.is_infinite()).stop_gradient();
        let sign = select(a.is_nan() | b.is_nan(), f64::NAN, sign);
        // Replace infinite limits by 0: in expressions that are not selected, their derivatives would be infinity times
        // zero, which is nan.
        let limit = |x: Var, finite: Var| select(finite, x, x.zeros_like());
        Range { a: limit(low, finite[0]), b: limit(high, finite[1]), finite, sign, none }
    }

    /// Returns the places x for points u of (-1, 1), and dx/du. The distance of x from a finite limit is quadratic in
    /// the distance of u from its end. So an integrand with a root or pole at the limit, such as `1 / √x`, becomes a
    /// smooth function of u.
    fn places(&self, u: Var) -> (Var, Var) {
        let (a, b, [left, right]) = (self.a, self.b, self.finite);
        let quarter = 0.25 * (b - a);
        let pick = |between: Var, from: Var, to: Var, all: Var| {
            select(left, select(right, between, from), select(right, to, all))
        };
        let (below, above) = (1.0 + u, 1.0 - u);
        let (both, up, down) = (below * above, below / above, above / below);
        // Places in each half of the range are computed from the end of that half, so that they keep their digits near
        // an end at 0.
        let first = a + quarter * below.square() * (1.0 + above);
        let second = b - quarter * above.square() * (1.0 + below);
        let x =
            pick(select(u.lt(0.0), first, second), a + up.square(), b - down.square(), u / both);
        let stretch = pick(
            3.0 * quarter * both,
            4.0 * up / above.square(),
            4.0 * down / below.square(),
            (1.0 + u * u) / both.square(),
        );
        (x, stretch)
    }
}

/// A subdivision of (-1, 1) into intervals, with the error of the integral over each. Arrays have a row for each
/// possible interval; the first n rows are used.
#[derive(Tree, Clone, Debug)]
struct Intervals<T> {
    left: T,
    right: T,
    errors: T,
    n: T,
    /// The integrals over the intervals, for each leaf of the integrand. Their sum determines the tolerance.
    values: Vec<T>,
}

/// The traced function.
struct Integrand<'a> {
    staged: &'a Staged,
    function: FuncId,
}

impl Integrand<'_> {
    /// Returns the integrand's values at the 21 quadrature points of each interval of u, multiplied by dx/du and by
    /// half of the interval's length. For intervals of shape `[k]`, each leaf of the result has the shape `[k, ..,
    /// 21]`.
    fn values(&self, range: &Range, given: &[Var], left: Var, right: Var) -> Vec<Var> {
        let [points, ..] = table();
        let points = constant(points.to_vec()).convert(left.dtype());
        let half = 0.5 * (right - left).expand_dims(1);
        let u = left.expand_dims(1) + half * (1.0 + points);
        let (k, all) = (left.len(), left.len() * SIZE);
        let (x, stretch) = range.places(u);
        let stretch = (stretch * half).reshape([all]);
        let f = |x: Var| self.staged.call_with(self.function, &[x], given);
        let one = |y: Var| {
            let mut shape = vec![1; y.rank()];
            shape[0] = all;
            let wide = stretch.convert(y.dtype()).reshape(shape);
            let rest = y.shape()[1..].to_vec();
            (y * wide).reshape([&[k, SIZE], &rest[..]].concat()).move_axis(1, -1)
        };
        vmap(f)(x.reshape([all])).into_iter().map(one).collect()
    }

    /// Returns the estimated errors of the integrals over k intervals, `[k]`, and these integrals, `[k, ..]` for each
    /// leaf.
    fn estimates(&self, range: &Range, given: &[Var], left: Var, right: Var) -> (Var, Vec<Var>) {
        let k = left.len();
        let values = self.values(range, given, left, right).into_iter();
        let of = |y: Var| {
            let error = rule::error(y).reshape([k, y.size() / (k * SIZE)]);
            let worst = if error.size() == 0 { zeros([k], y.dtype()) } else { error.max_axis(1) };
            (worst.convert(left.dtype()), rule::integral(y))
        };
        let (errors, values): (Vec<Var>, Vec<Var>) = values.map(of).unzip();
        let worst = errors.into_iter().reduce(|x, y| x.maximum(y));
        (worst.unwrap_or_else(|| left.zeros_like()), values)
    }

    /// Halves the interval with the largest error until the sum of the errors is within the tolerance, and returns all
    /// intervals.
    fn intervals(&self, range: &Range, given: &[Var], precision: Precision) -> Intervals<Var> {
        let dtype = range.a.dtype();
        let most = precision.most.max(1);
        let (left, right) = (full([1], -1.0).convert(dtype), full([1], 1.0).convert(dtype));
        let (errors, values) = self.estimates(range, given, left, right);
        let start = Intervals {
            left: wide_rows(left, most),
            right: wide_rows(right, most),
            errors: wide_rows(errors, most),
            n: constant(1i64),
            values: values.into_iter().map(|v| wide_rows(v, most)).collect(),
        };
        let relative = precision.relative.max(ROUNDINGS * epsilon(dtype));
        while_loop(
            |s: Intervals<Var>| {
                let sizes = s.values.iter().map(|v| {
                    let total = v.sum_axis(0).abs();
                    if total.size() == 0 { zeros([], dtype) } else { total.max().convert(dtype) }
                });
                let size = sizes.reduce(|x, y| x.maximum(y)).unwrap_or(zeros([], dtype));
                let may = (relative * size).maximum(precision.absolute);
                let worst = s.errors.argmax(0);
                let wide =
                    (s.right.index(worst) - s.left.index(worst)).gt(SHORTEST * epsilon(dtype));
                let asked = !range.none & !range.sign.is_nan();
                s.errors.sum().gt(may) & s.n.lt(most as i64) & wide & asked
            },
            |s: Intervals<Var>| {
                let worst = s.errors.argmax(0);
                let (left, right) = (s.left.index(worst), s.right.index(worst));
                let middle = 0.5 * (left + right);
                let (left, right) = (stack(&[left, middle], 0), stack(&[middle, right], 0));
                let (errors, values) = self.estimates(range, given, left, right);
                let put =
                    |all: Var, two: Var| all.at(worst).set(two.index(0)).at(s.n).set(two.index(1));
                Intervals {
                    left: put(s.left, left),
                    right: put(s.right, right),
                    errors: put(s.errors, errors),
                    n: s.n + 1,
                    values: s.values.iter().zip(values).map(|(v, two)| put(*v, two)).collect(),
                }
            },
            start,
        )
    }

    /// Returns the integral over all intervals.
    fn sum(&self, range: &Range, given: &[Var], s: &Intervals<Var>) -> Vec<Var> {
        let part = |i: Var| {
            let (left, right) = (s.left.index(i), s.right.index(i));
            let values = self.values(range, given, left.expand_dims(0), right.expand_dims(0));
            values.into_iter().map(|y| rule::integral(y).index(0)).collect()
        };
        let none: Vec<Var> = s.values.iter().map(|v| v.index(0).zeros_like()).collect();
        let add = |(i, sum): (Var, Vec<Var>)| -> Vec<Var> {
            let part: Vec<Var> = part(i);
            sum.iter().zip(part).map(|(sum, y)| *sum + y).collect()
        };
        fori_loop(select(range.none, 0, s.n), add, none)
    }
}

/// Appends rows of zeros to the single row of `x`, up to `most` rows.
fn wide_rows(x: Var, most: usize) -> Var {
    let mut shape = x.shape().to_vec();
    shape[0] = most - 1;
    concat(&[x, zeros(shape, x.dtype())], 0)
}
