//! Jacobians, Hessians, and their products with vectors.

use super::forward::jvp_at;
use super::gradient::value_and_grad_at;
use crate::Var;
use crate::function::{Function, one};
use crate::ops::{eye_var, move_axis, reshape, zeros_like_type};
use crate::staging::{Staged, rebuild, stage_linearized};
use crate::tree::{Leaf, Tree, leaf_paths, ravel, tree_leaves};
use crate::var::{caller, on_behalf};
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Loc, Shape};
use tapeloom_transforms as transforms;

/// Returns a closure that computes the Jacobian in forward mode: `(A -> Var) -> (A -> A)`. For each leaf of the
/// argument, the Jacobian has the shape (shape of the result, shape of the leaf).
///
/// `f` is linearized once. For each leaf, the linear function runs once, on the batch of all unit tangents of that
/// leaf. Prefer `jacfwd` if the argument has fewer elements than the result.
///
/// Errors: as [`jvp`](crate::jvp()).
///
/// ```
/// use tapeloom::prelude::*;
/// let j = run(jacfwd(|x: Var| x * x.sum()), [1.0, 2.0])?;
/// assert_eq!(j.shape(), [2, 2]);
/// assert_eq!(j.to_vec::<f64>()?, [4.0, 1.0, 2.0, 5.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "jacobian")]
#[track_caller]
pub fn jacfwd<A: Tree<Var>, F: Function<A, Var, M>, M>(f: F) -> impl Fn(A) -> A {
    let (f, at) = (one(f), caller());
    move |x| jacobian("jacfwd", &f, at, x, Mode::Forward)
}

/// Returns a closure that computes the Jacobian in reverse mode: `(A -> Var) -> (A -> A)`. For each leaf of the
/// argument, the Jacobian has the shape (shape of the result, shape of the leaf).
///
/// The pullback runs once, on the batch of all unit cotangents of the result. Prefer `jacrev` if the result has
/// fewer elements than the argument.
///
/// Errors: as [`vjp`](crate::vjp()).
#[doc(alias = "jacobian")]
#[track_caller]
pub fn jacrev<A: Tree<Var>, F: Function<A, Var, M>, M>(f: F) -> impl Fn(A) -> A {
    let (f, at) = (one(f), caller());
    move |x| jacobian("jacrev", &f, at, x, Mode::Reverse)
}

/// Returns a closure that computes the Hessian of a scalar function, by forward mode over reverse mode:
/// `(A -> Var) -> (A -> Var)`.
///
/// If the argument is a single array of shape `s`, the Hessian has the shape `(s, s)`. If the argument is a tree of
/// arrays, the Hessian is a square matrix over all elements in the order of [`ravel`](crate::ravel()), which also
/// returns the function from a vector to the tree.
///
/// Errors: as [`grad`](crate::grad()); `dtype` if the leaves of the tree have different dtypes.
///
/// ```
/// use tapeloom::prelude::*;
/// let h = run(hessian(|x: Var| x.powi(3).sum()), [1.0, 2.0])?;
/// assert_eq!(h.to_vec::<f64>()?, [6.0, 0.0, 0.0, 12.0]);
///
/// // For a tree: the product of the Hessian with the gradient, converted to a tree.
/// let f = |(x, y): (Var, Var)| x * x * y.sum();
/// let curvature = jit(|p: (Var, Var)| {
///     let (v, unravel) = ravel(&grad(f)(p));
///     unravel(hessian(f)(p).dot(v))
/// });
/// let (x, y) = curvature.call((3.0, [1.0, 2.0]))?;
/// assert_eq!(x.item::<f64>()?, 6.0 * 18.0 + 6.0 * 9.0 + 6.0 * 9.0);
/// assert_eq!(y.to_vec::<f64>()?, [6.0 * 18.0, 6.0 * 18.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn hessian<A: Tree<Var>, F: Function<A, Var, M>, M>(f: F) -> impl Fn(A) -> Var {
    let (f, at) = (one(f), caller());
    move |x| hessian_at(&f, at, x)
}

fn hessian_at<A: Tree<Var>>(f: &dyn Fn(A) -> Var, at: Loc, x: A) -> Var {
    let gradient = |x| value_and_grad_at("grad", f, at, x).1;
    // If the tree is a single array, its only leaf has the empty path. Then the shape of the Hessian is the shape of
    // the array, followed by the same shape again.
    if leaf_paths::<Var, A>(&x.structure(), "") == [""] {
        let last = |x: A| tree_leaves(&x).into_iter().next().unwrap_or_else(Var::stand_in);
        return last(jacobian("hessian", &|x: A| last(gradient(x)), at, x, Mode::Forward));
    }
    let (v, unravel) = on_behalf("hessian", at, || ravel(&x));
    let flat = |v: Var| {
        let g = gradient(unravel(v));
        on_behalf("hessian", at, || ravel(&g)).0
    };
    jacobian("hessian", &flat, at, v, Mode::Forward)
}

/// Returns a closure that computes the product of the Hessian with a vector without forming the Hessian:
/// `(A -> Var) -> ((A, A) -> A)`. It uses forward mode over reverse mode, and costs a small multiple of `f`. Point,
/// vector and product are trees of the same structure.
///
/// Errors: as [`grad`](crate::grad()) and [`jvp`](crate::jvp()).
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(hvp(|x: Var| x.powi(3).sum()));
/// let y = f.call(([1.0, 2.0], [1.0, 1.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [6.0, 12.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn hvp<A: Tree<Var>, F: Function<A, Var, M>, M>(f: F) -> impl Fn((A, A)) -> A {
    let (f, at) = (one(f), caller());
    move |(x, v)| hvp_at(&f, at, x, &v)
}

fn hvp_at<A: Tree<Var>>(f: &dyn Fn(A) -> Var, at: Loc, x: A, v: &A) -> A {
    jvp_at(&|x| value_and_grad_at("grad", f, at, x).1, at, x, v).1
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Forward,
    Reverse,
}

fn jacobian<A: Tree<Var>>(
    transform: &'static str,
    f: &dyn Fn(A) -> Var,
    at: Loc,
    x: A,
    mode: Mode,
) -> A {
    let (staged, structure, ()) = stage_linearized::<A, Var>(transform, at, f, x);
    rebuild(&structure, derivatives(&staged, mode), at)
}

/// Returns, for each leaf of the argument, the Jacobian of the first result with respect to this leaf.
fn derivatives(staged: &Staged, mode: Mode) -> Vec<Var> {
    let at = staged.at;
    let arg_types = staged.arg_types();
    let types = staged.result_types();
    let ty = types.first().cloned().unwrap_or(ArrayType::new(crate::Dtype::F64, []));
    let shapes: Vec<ArrayType> = arg_types
        .iter()
        .map(|a| ArrayType::new(a.dtype, [&ty.shape[..], &a.shape[..]].concat()))
        .collect();
    let ok = staged.require_floats() & staged.require_float_results();
    let active = staged.all_args();
    let leaves = match mode {
        Mode::Forward => {
            let of = staged.derive(|m, f| transforms::linearize(m, f, &active));
            of.filter(|_| ok).and_then(|of| {
                if of.active_out != [true] {
                    return Some(shapes.iter().map(|t| zeros_like_type(t, at)).collect());
                }
                let (_, residuals) = staged.first_half(of.fwd, &of.residuals);
                let columns = (0..arg_types.len()).map(|leaf| {
                    // The batch of tangents: all unit vectors for one leaf, zeros for the other leaves.
                    let n = arg_types[leaf].shape.elements();
                    let tangents = arg_types.iter().enumerate().map(|(i, t)| {
                        if i == leaf { units(t, at) } else { zeros_like_type(t, at) }
                    });
                    let on = (0..arg_types.len()).map(|i| i == leaf);
                    let mask: Vec<bool> = residuals.iter().map(|_| false).chain(on).collect();
                    let batched = staged.derive(|m, _| transforms::batch(m, of.lin, n, &mask))?;
                    let call = Call::inline(batched.function);
                    let operands: Vec<_> =
                        residuals.iter().copied().chain(tangents).map(|v| v.handle).collect();
                    let dy = Var::new(trace::bind1(call, &operands, at));
                    if batched.batched_out != [true] {
                        return Some(zeros_like_type(&shapes[leaf], at));
                    }
                    // `dy` has the shape [n, result..]. Move the batch axis to the end and split it into the axes of
                    // the leaf.
                    let last = move_axis(dy, 0, ty.shape.len(), at);
                    Some(reshape(last, shapes[leaf].shape.clone(), at))
                });
                columns.collect::<Option<Vec<Var>>>()
            })
        }
        Mode::Reverse => {
            let of = staged.derive(|m, f| super::checkpoint::vjp(m, f, &active));
            of.filter(|_| ok).and_then(|of| {
                if of.active_out != [true] {
                    return Some(shapes.iter().map(|t| zeros_like_type(t, at)).collect());
                }
                let (_, residuals) = staged.first_half(of.fwd, &of.residuals);
                let n = ty.shape.elements();
                let mask: Vec<bool> = residuals.iter().map(|_| false).chain([true]).collect();
                let batched = staged.derive(|m, _| transforms::batch(m, of.bwd, n, &mask))?;
                let call = Call::inline(batched.function);
                let operands: Vec<_> =
                    residuals.iter().copied().chain([units(&ty, at)]).map(|v| v.handle).collect();
                let outputs = trace::bind(call, &operands, at);
                let mut found = outputs.into_iter().zip(&batched.batched_out);
                let rows = shapes.iter().zip(&of.nonzero).map(|(t, on)| {
                    let row = if *on { found.next() } else { None };
                    match row {
                        Some((h, true)) => reshape(Var::new(h), t.shape.clone(), at),
                        Some((_, false)) | None => zeros_like_type(t, at),
                    }
                });
                Some(rows.collect())
            })
        }
    };
    leaves.unwrap_or_else(|| staged.poison(&shapes))
}

/// Returns the `n` unit vectors of an array type with `n` elements, stacked along a new first axis: `[n, shape..]`.
fn units(ty: &ArrayType, at: Loc) -> Var {
    let n = ty.shape.elements();
    let shape: Shape = ty.shape.with_leading(n);
    reshape(eye_var(n, ty.dtype, at), shape, at)
}
