//! The iterations, of one vector: conjugate gradients, stabilized biconjugate gradients, the minimal residual.

use crate::Var;
use crate::control::{fori_loop, while_loop};
use crate::ops::functions::{eye, select, stack, zeros};
use crate::var::caller;
use tapeloom_ir::Literal;

/// A solver of systems of vectors, and the name under which users know it.
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) solve: fn(&System<'_>) -> Var,
}

pub(super) const CG: Method = Method { name: "cg", solve: conjugate_gradients };
pub(super) const GMRES: Method = Method { name: "gmres", solve: minimal_residual };
pub(super) const BICGSTAB: Method = Method { name: "bicgstab", solve: stabilized };

/// A linear map of vectors.
pub(super) type Map<'a> = dyn Fn(Var) -> Var + 'a;

/// A system of one vector: `A`, a map near its inverse, b, where to begin (0 if nowhere).
pub(super) struct System<'a> {
    pub(super) a: &'a Map<'a>,
    pub(super) near: Option<&'a Map<'a>>,
    pub(super) b: Var,
    pub(super) start: Option<Var>,
    /// The share of the residual, and the products at most.
    pub(super) bounds: (f64, i64),
    pub(super) rounding: f64,
}

impl System<'_> {
    fn near(&self, r: Var) -> Var {
        self.near.map_or(r, |near| near(r))
    }

    /// b and the start, scaled so that the largest element of b is 1, and that scale; and what is left of
    /// b at the start. Where b is 0, so is the start: the solution is known.
    fn scaled(&self) -> (Var, Var, Var, Var) {
        let (b, size) = scaled(self.b);
        match self.start {
            None => (b, b.zeros_like(), b, size),
            Some(x) => {
                let x = divided(x, size, !size.eq(0.0));
                (b, x, b - (self.a)(x), size)
            }
        }
    }
}

#[track_caller]
fn conjugate_gradients(system: &System<'_>) -> Var {
    let at = caller();
    let (relative, most) = system.bounds;
    let (b, x, r, size) = system.scaled();
    let limit = b.dot(b) * (relative * relative);
    let z = system.near(r);
    let (x, ..) = while_loop(
        |(_, _, _, (rr, _), n): (Var, Var, Var, (Var, Var), Var)| rr.gt(limit) & n.lt(most),
        |(x, r, p, (_, rz), n): (Var, Var, Var, (Var, Var), Var)| {
            let ap = (system.a)(p);
            let alpha = rz / p.dot(ap);
            let (x, r) = (x + alpha * p, r - alpha * ap);
            let z = system.near(r);
            let next = r.dot(z);
            (x, r, z + (next / rz) * p, (r.dot(r), next), n + 1)
        },
        (x, r, z, (r.dot(r), r.dot(z)), Var::literal(Literal::i64(0), at)),
    );
    x * size
}

#[track_caller]
fn stabilized(system: &System<'_>) -> Var {
    let at = caller();
    let (relative, most) = system.bounds;
    let (b, x, r, size) = system.scaled();
    let limit = norm(b) * relative;
    let shadow = r;
    let one = || limit.ones_like();
    // x, r, p, v; rho, alpha, omega; products, and whether it broke down.
    type Iteration = ((Var, Var, Var, Var), (Var, Var, Var), (Var, Var));
    let going = |((_, r, ..), _, (n, broken)): Iteration| norm(r).gt(limit) & n.lt(most) & !broken;
    let step = |((x, r, p, v), (rho, alpha, omega), (n, _)): Iteration| {
        let next = shadow.dot(r);
        let beta = (next / rho) * (alpha / omega);
        let p = r + beta * (p - omega * v);
        let y = system.near(p);
        let v = (system.a)(y);
        let along = shadow.dot(v);
        let alpha = next / along;
        let s = r - alpha * v;
        let z = system.near(s);
        let t = (system.a)(z);
        let tt = t.dot(t);
        let omega = divided(t.dot(s), tt, tt.gt(0.0));
        let x = x + alpha * y + omega * z;
        let r = s - omega * t;
        // A direction that the shadow does not see, or a step of no length that leaves something.
        let broken = next.eq(0.0) | along.eq(0.0) | (omega.eq(0.0) & norm(s).gt(limit));
        ((x, r, p, v), (next, alpha, omega), (n + 2, broken))
    };
    let zero = b.zeros_like();
    let count = Var::literal(Literal::i64(0), at);
    let start = ((x, r, zero, zero), (one(), one(), one()), (count, count.ne(0)));
    let ((x, r, ..), _, (_, broken)) = while_loop(going, step, start);
    select(broken & !norm(r).le(limit), f64::NAN, x) * size
}

/// So many rounding errors of `A x` an `x` is off that nothing better is known of.
const SLACK: f64 = 100.0;

/// How many directions [`gmres`] keeps before it starts anew.
const RESTART: usize = 30;

#[track_caller]
fn minimal_residual(system: &System<'_>) -> Var {
    let at = caller();
    let ((relative, most), rounding) = (system.bounds, system.rounding);
    let (b, begun, rest, size) = system.scaled();
    // The unknown is u with A M u = b - A x', for a start x' and a map M near the inverse: x = x' + M u.
    let a = |u: Var| (system.a)(system.near(u));
    let ty = b.ty(at);
    let n = ty.shape.elements();
    let m = n.clamp(1, RESTART);
    let limit = norm(b) * relative;
    let none = || Var::literal(Literal::i64(0), at);
    let no = || Var::literal(Literal::bool(false), at);

    // A V = V' H for orthonormal directions V, and one more in V'. Rotations Q bring H to a triangle,
    // Q H = R, so |b - A x| = |Q[k, 0]| |r| for the best x of k directions. R is kept by columns. Beside them, whether
    // the space is all that there is, and the largest |A v|.
    type Iteration = (Var, Var, Var, Var, (Var, Var));
    let iteration = |(k, directions, rotations, columns, (_, scale)): Iteration| {
        let mut w = a(directions.index(k));
        let before = norm(w);
        // No more than the rounding errors of a sum over the directions.
        let little = before * ((m + 1) as f64 * rounding);
        let mut h = zeros([m + 1], ty.dtype);
        // Once is not enough where little is left.
        for _ in 0..2 {
            let along = directions.dot(w);
            (w, h) = (w - along.dot(directions), h + along);
        }
        let length = norm(w);
        // Nothing new: the space is all that there is.
        let new = !length.le(little);
        let directions = directions.at(k + 1).set(divided(w, length, new));
        let h = h.at(k + 1).set(select(new, length, 0.0));
        let column = rotations.dot(h);
        let (c, s) = (column.index(k), column.index(k + 1));
        let rho = norm(stack(&[c, s], 0));
        let some = rho.gt(little);
        let rho = select(some, rho, 0.0);
        let (c, s) = (select(some, divided(c, rho, some), 1.0), divided(s, rho, some));
        let (upper, lower) = (rotations.index(k), rotations.index(k + 1));
        let rotations = rotations.at(k).set(c * upper + s * lower);
        let rotations = rotations.at(k + 1).set(c * lower - s * upper);
        let columns = columns.at(k).set(column.at(k).set(rho));
        (k + 1, directions, rotations, columns, (!new, scale.maximum(before.stop_gradient())))
    };
    let cycle = |(x, r, count, _): (Var, Var, Var, Var)| {
        let size = norm(r);
        let start = (
            none(),
            zeros([m + 1, n], ty.dtype).at(0).set(r / size),
            eye(m + 1, ty.dtype),
            zeros([m, m + 1], ty.dtype),
            (no(), zeros([], ty.dtype)),
        );
        let more = |(k, _, rotations, _, (whole, _)): Iteration| {
            let left = rotations.index((k, 0)).abs() * size;
            k.lt(m as i64) & left.gt(limit) & (count + k).lt(most) & !whole
        };
        let (k, directions, rotations, columns, (whole, scale)) =
            while_loop(more, iteration, start);
        // R y = Q[.., 0] |r|, from the last row.
        let back = |(i, y): (Var, Var)| {
            let i = k - 1 - i;
            let rho = columns.index((i, i));
            let rest = rotations.index((i, 0)) * size - y.dot(columns.t().index(i));
            y.at(i).set(divided(rest, rho, !rho.eq(0.0)))
        };
        let y = fori_loop(k, back, zeros([m], ty.dtype));
        let x = x + y.dot(directions.slice_axis(0, ..m));
        let r = rest - a(x);
        // As many directions as there are numbers are all, too.
        let whole = whole | (k.ge(n as i64));
        let off = norm(r).gt(limit) & norm(r).gt(scale * norm(x) * (SLACK * rounding));
        (x, r, count + k + 1, whole & off)
    };
    let (x, _, _, singular) = while_loop(
        |(_, r, count, singular): (Var, Var, Var, Var)| {
            norm(r).gt(limit) & count.lt(most) & !singular
        },
        cycle,
        (b.zeros_like(), rest, none(), no()),
    );
    let x = match (system.start, system.near) {
        (None, None) => x,
        _ => begun + system.near(x),
    };
    select(singular, f64::NAN, x) * size
}

/// A vector whose largest element is of size 1, and that size. Of what is not finite no iteration is made, and
/// the solution is not a number.
fn scaled(b: Var) -> (Var, Var) {
    let size = largest(b);
    (b / select(size.eq(0.0), 1.0, size), size)
}

/// The length of a vector whose squares need not be numbers.
pub(crate) fn norm(v: Var) -> Var {
    let (unit, size) = scaled(v);
    size * unit.dot(unit).sqrt()
}

/// The size of the largest element, as a constant of derivatives: whoever divides by it multiplies again.
fn largest(v: Var) -> Var {
    let none = v.shape().elements() == 0;
    let size = if none { v.sum() } else { v.abs().max() };
    size.stop_gradient()
}

/// `x / y` where there is something to divide by, and 0 elsewhere.
fn divided(x: Var, y: Var, some: Var) -> Var {
    select(some, x / select(some, y, 1.0), 0.0)
}
