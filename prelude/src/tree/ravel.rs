//! All elements of a tree as one vector, and the inverse.
//!
//! Line searches, Newton's method, conjugate gradients and external libraries work on one vector. [`ravel`] builds
//! it inside a trace, [`ravel_tensors`] from concrete data. Both also return the inverse function, from a vector to
//! a tree. The elements are in the order of the leaves, and in row-major order within each leaf. Rows and columns
//! of the [`hessian`](crate::hessian) of a tree have the same order.

use super::map::common_dtype;
use super::{Flat, Leaf, Tree, leaf_paths};
use crate::ops::{concat, reshape, slice_axis, wrong};
use crate::var::{caller, on_behalf};
use crate::{Error, Var};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Tensor};

/// Returns the elements of all leaves as one vector, and the inverse function: `A -> (Var, Var -> A)`.
///
/// Errors: `dtype` if the leaves have different dtypes. Errors of the inverse function: `shape` or `dtype` if its
/// argument is not a vector of the same length and dtype.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|p: (Var, Vec<Var>)| {
///     let (v, unravel) = ravel(&p);
///     (v, unravel(10.0 * v))
/// });
/// let (v, (x, y)) = f.call((1.0, vec![[2.0, 3.0], [4.0, 5.0]]))?;
/// assert_eq!(v.to_vec::<f64>()?, [1.0, 2.0, 3.0, 4.0, 5.0]);
/// assert_eq!(x.item::<f64>()?, 10.0);
/// assert_eq!(y[1].to_vec::<f64>()?, [40.0, 50.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "ravel_pytree", alias = "tree_flatten", alias = "unravel")]
#[track_caller]
pub fn ravel<A: Tree<Var>>(tree: &A) -> (Var, impl Fn(Var) -> A + use<A>) {
    let at = caller();
    let structure = tree.structure();
    let (vector, parts) = Parts::of(Flat::of(tree), at);
    (vector, move |v: Var| {
        let mut leaves = parts.leaves(v).into_iter();
        A::from_leaves(&structure, &mut || leaves.next().unwrap_or_else(Var::stand_in))
    })
}

/// The layout of a vector that joins the elements of all leaves: the types of the leaves, in order.
pub(crate) struct Parts {
    types: Vec<ArrayType>,
    /// The type of the vector.
    want: ArrayType,
    at: Loc,
}

impl Parts {
    /// Returns the vector of all elements of a tree, and its layout.
    pub(crate) fn of(tree: Flat, at: Loc) -> (Var, Parts) {
        let types: Vec<ArrayType> = tree.leaves.iter().map(|v| v.ty(at)).collect();
        // If the number of elements overflows a usize, the sum saturates, and `concat` reports the error.
        let n = types.iter().fold(0, |n: usize, t| n.saturating_add(t.shape.elements()));
        let (dtype, vector) = match common_dtype("ravel", tree, at) {
            Ok((dtype, leaves)) if leaves.is_empty() => {
                (dtype, super::map::zeros_of(&[ArrayType::new(dtype, [0])], at)[0])
            }
            Ok((dtype, leaves)) => {
                let flat: Vec<Var> = leaves
                    .into_iter()
                    .zip(&types)
                    .map(|(v, t)| reshape(v, [t.shape.elements()].into(), at))
                    .collect();
                let joined = || on_behalf("ravel", at, || concat(&flat, 0));
                (dtype, if flat.len() == 1 { flat[0] } else { joined() })
            }
            Err(poison) => {
                let ty = ArrayType::new(poison.ty(at).dtype, [n]);
                (ty.dtype, Var::poison(ty, at))
            }
        };
        (vector, Parts { types, want: ArrayType::new(dtype, [n]), at })
    }

    /// Splits a vector into leaves.
    pub(crate) fn leaves(&self, v: Var) -> Vec<Var> {
        let Parts { types, want, at } = self;
        let (mut v, mut start) = (v, 0usize);
        if v.ty(*at) != *want {
            v = wrong(misfit(&v.ty(*at), want), &[v], want.clone(), *at);
        }
        let mut part = |ty: &ArrayType| {
            let end = start.saturating_add(ty.shape.elements());
            let part = slice_axis(v, 0, start, end, *at);
            start = end;
            reshape(part, ty.shape.clone(), *at)
        };
        types.iter().map(&mut part).collect()
    }
}

/// Returns the elements of all leaves of concrete data as one vector, and the inverse function; see [`ravel`].
///
/// # Errors
/// `dtype` if the leaves have different dtypes. The inverse function: `shape` or `dtype` if its argument is not a
/// vector of the same length and dtype.
///
/// ```
/// use tapeloom::prelude::*;
/// let p = (Tensor::from(1.0), vec![Tensor::from([2.0, 3.0])]);
/// let (v, unravel) = ravel_tensors(&p)?;
/// assert_eq!(v.to_vec::<f64>()?, [1.0, 2.0, 3.0]);
/// let q = unravel(&Tensor::from([5.0, 6.0, 7.0]))?;
/// assert_eq!(q.1[0].to_vec::<f64>()?, [6.0, 7.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "ravel_pytree", alias = "tree_flatten", alias = "unravel")]
#[expect(clippy::type_complexity, reason = "a type alias cannot name a closure's type")]
#[track_caller]
pub fn ravel_tensors<A: Tree<Tensor>>(
    tree: &A,
) -> Result<(Tensor, impl Fn(&Tensor) -> Result<A, Error> + use<A>), Error> {
    let at = caller();
    let (structure, leaves) = super::flatten(tree);
    let dtype = leaves.first().map_or(Dtype::F64, Tensor::dtype);
    if let Some(i) = leaves.iter().position(|t| t.dtype() != dtype) {
        let paths = leaf_paths::<Tensor, A>(&structure, "tree");
        let problem = Problem::new(
            Kind::Dtype,
            format!(
                "`ravel_tensors` needs leaves of one dtype: `{}` is {}, `{}` is {}",
                paths[0],
                leaves[0].ty(),
                paths[i],
                leaves[i].ty()
            ),
            "ravel the leaves of each dtype separately",
        );
        return Err(Error::at(problem, at));
    }
    let want = ArrayType::new(dtype, [leaves.iter().map(Tensor::elements).sum::<usize>()]);
    let vector = Tensor::joined(dtype, &leaves).map_err(|problem| Error::at(problem, at))?;
    let types: Vec<ArrayType> = leaves.iter().map(|t| t.ty().clone()).collect();
    let back = move |v: &Tensor| {
        if *v.ty() != want {
            return Err(Error::at(misfit(v.ty(), &want), at));
        }
        let (mut types, mut start) = (types.iter(), 0);
        Ok(A::from_leaves(&structure, &mut || {
            let Some(ty) = types.next() else { return Tensor::stand_in() };
            let part = start..start + ty.shape.elements();
            start = part.end;
            let leaf = v.slice(&[part]).and_then(|part| part.reshape(&ty.shape));
            leaf.unwrap_or_else(|_| Tensor::stand_in())
        }))
    };
    Ok((vector, back))
}

fn misfit(got: &ArrayType, want: &ArrayType) -> Problem {
    let kind = if got.dtype == want.dtype { Kind::Shape } else { Kind::Dtype };
    Problem::new(
        kind,
        format!("the tree was ravelled to {want}, and cannot be rebuilt from {got}"),
        "give a vector with the same number of elements and the same dtype",
    )
}
