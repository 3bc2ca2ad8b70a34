//! The iterations of the solvers, for an unknown that is one vector: conjugate gradients, stabilized biconjugate
//! gradients, minimal residuals (GMRES).

use crate::Var;
use crate::control::{fori_loop, while_loop};
use crate::ops::functions::{eye, select, stack, zeros};
use crate::var::caller;
use tapeloom_ir::Literal;

/// A solver of linear systems whose unknown is one vector, with its public name.
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) solve: fn(&System<'_>) -> Var,
}

pub(super) const CG: Method = Method { name: "cg", solve: conjugate_gradients };
pub(super) const GMRES: Method = Method { name: "gmres", solve: minimal_residual };
pub(super) const BICGSTAB: Method = Method { name: "bicgstab", solve: stabilized };

/// A linear map of vectors.
pub(super) type Map<'a> = dyn Fn(Var) -> Var + 'a;

/// A linear system whose unknown is one vector: the map `A`, the preconditioner (a map near `A⁻¹`), the right side b,
/// and the start of the iteration (0 if absent).
pub(super) struct System<'a> {
    pub(super) a: &'a Map<'a>,
    pub(super) near: Option<&'a Map<'a>>,
    pub(super) b: Var,
    pub(super) start: Option<Var>,
    /// The relative residual at which to stop, and the largest number of products.
    pub(super) bounds: (f64, i64),
    pub(super) rounding: f64,
}

impl System<'_> {
    fn near(&self, r: Var) -> Var {
        self.near.map_or(r, |near| near(r))
    }

    /// Divides the system by the largest absolute value of b. Returns the scaled b, the scaled start, the residual at
    /// this start, and the divisor. If b is 0, the start is replaced by 0, which is the solution.
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
    // The state of the iteration, in the letters of van der Vorst's method: the vectors x, r, p, v; the numbers rho,
    // alpha, omega; the number of products with A, and whether the method broke down.
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
        // The method has broken down if the residual or the image of the direction is orthogonal to the shadow
        // residual, or if omega is 0 while the residual is above the limit.
        let broken = next.eq(0.0) | along.eq(0.0) | (omega.eq(0.0) & norm(s).gt(limit));
        ((x, r, p, v), (next, alpha, omega), (n + 2, broken))
    };
    let zero = b.zeros_like();
    let count = Var::literal(Literal::i64(0), at);
    let start = ((x, r, zero, zero), (one(), one(), one()), (count, count.ne(0)));
    let ((x, r, ..), _, (_, broken)) = while_loop(going, step, start);
    select(broken & !norm(r).le(limit), f64::NAN, x) * size
}

/// A system counts as singular only if the residual exceeds this many rounding errors of `A x`. A smaller residual may
/// consist of rounding errors.
const SLACK: f64 = 100.0;

/// The number of directions after which [`gmres`] restarts.
const RESTART: usize = 30;

#[track_caller]
fn minimal_residual(system: &System<'_>) -> Var {
    let at = caller();
    let ((relative, most), rounding) = (system.bounds, system.rounding);
    let (b, begun, rest, size) = system.scaled();
    // For a start x' and a preconditioner M, the iteration solves A M u = b - A x' for u. The solution is x = x' + M u.
    let a = |u: Var| (system.a)(system.near(u));
    let ty = b.ty(at);
    let n = ty.shape.elements();
    let m = n.clamp(1, RESTART);
    let limit = norm(b) * relative;
    let none = || Var::literal(Literal::i64(0), at);
    let no = || Var::literal(Literal::bool(false), at);

    // The columns of V are orthonormal directions, and A V = V' H, where V' has one more column. Rotations Q make H
    // triangular: Q H = R. The least norm of b - A x that k directions reach is |Q[k, 0]| |r|, where r is the residual
    // at the start. `columns` holds R by columns. The last pair of the tuple is whether the Krylov space is exhausted,
    // and the largest |A v|.
    type Iteration = (Var, Var, Var, Var, (Var, Var));
    let iteration = |(k, directions, rotations, columns, (_, scale)): Iteration| {
        let mut w = a(directions.index(k));
        let before = norm(w);
        // The bound on the length of `w` after its components along all directions are subtracted: a shorter remainder
        // consists of rounding errors.
        let little = before * ((m + 1) as f64 * rounding);
        let mut h = zeros([m + 1], ty.dtype);
        // Orthogonalise twice: if the remainder is short, the rounding errors of one pass are large compared to it.
        for _ in 0..2 {
            let along = directions.dot(w);
            (w, h) = (w - along.dot(directions), h + along);
        }
        let length = norm(w);
        // A remainder of at most `little` means that the Krylov space is exhausted.
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
        // Solve the triangular system R y = Q[.., 0] |r|, from the last row to the first.
        let back = |(i, y): (Var, Var)| {
            let i = k - 1 - i;
            let rho = columns.index((i, i));
            let rest = rotations.index((i, 0)) * size - y.dot(columns.t().index(i));
            y.at(i).set(divided(rest, rho, !rho.eq(0.0)))
        };
        let y = fori_loop(k, back, zeros([m], ty.dtype));
        let x = x + y.dot(directions.slice_axis(0, ..m));
        let r = rest - a(x);
        // The Krylov space is also exhausted if there are as many directions as the vector has elements.
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

/// Returns the vector divided by its largest absolute value, and this value. If an element is not finite, the quotient
/// contains nan. Then comparisons with the residual are false, no iteration runs, and the solution is nan.
fn scaled(b: Var) -> (Var, Var) {
    let size = largest(b);
    (b / select(size.eq(0.0), 1.0, size), size)
}

/// Returns the Euclidean length of a vector. The result is right even if squares of elements overflow or underflow.
pub(crate) fn norm(v: Var) -> Var {
    let (unit, size) = scaled(v);
    size * unit.dot(unit).sqrt()
}

/// Returns the largest absolute value of an element, as a constant for derivatives. This is exact, because callers
/// first divide by this value and finally multiply by it.
fn largest(v: Var) -> Var {
    let none = v.shape().elements() == 0;
    let size = if none { v.sum() } else { v.abs().max() };
    size.stop_gradient()
}

/// Returns `x / y` where `some` is true, and 0 elsewhere.
fn divided(x: Var, y: Var, some: Var) -> Var {
    select(some, x / select(some, y, 1.0), 0.0)
}
