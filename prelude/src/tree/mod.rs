//! Trees: the values that transforms take and return.
//!
//! A tree holds *leaves* of one kind, [`Var`]s while tracing or [`Tensor`]s outside, in tuples,
//! arrays, `Vec`, `Option`, `Box`, `BTreeMap<String, _>`, `()` and structs with
//! [`#[derive(Tree)]`](derive@crate::Tree). The same type constructor serves both kinds:
//! `Params<Var>` in the closure, `Params<Tensor>` at the boundary. What is left of a tree without
//! its leaves is its [`Structure`](Tree::Structure): lengths, which options are present, static
//! fields. It is part of the key under which a compiled program is kept.
//!
//! ```
//! use tapeloom::prelude::*;
//! #[derive(Tree, Clone)]
//! struct Params<T> {
//!     w: T,
//!     b: Vec<T>,
//! }
//! let predict = jit(|(p, x): (Params<Var>, Var)| p.w * x + p.b[0]);
//! let p = Params { w: Tensor::from(2.0), b: vec![Tensor::from(1.0)] };
//! assert_eq!(predict.call((&p, 3.0))?.item::<f64>()?, 7.0);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! Model: JAX's pytrees, with the structure as a Rust type instead of a run-time description.

mod args;
mod containers;
mod tuples;

pub use args::{Args, TensorRefs};

use crate::Var;
use std::fmt::Debug;
use std::hash::Hash;
use tapeloom_ir::Tensor;

/// What trees hold: [`Var`] or [`Tensor`] (or a reference to one).
pub trait Leaf: Tree<Self, Structure = ()> + Clone {}

/// A tree with leaves of type `L`.
///
/// Implement it with [`#[derive(Tree)]`](derive@crate::Tree). The leaves have an order, the same in
/// every method.
#[doc(alias = "pytree")]
pub trait Tree<L>: Sized {
    /// The same tree with other leaves.
    type With<M: Leaf>: Tree<M>;

    /// All but the leaves.
    type Structure: Clone + Eq + Hash + Debug + Send + Sync + 'static;

    /// What this tree is without its leaves.
    fn structure(&self) -> Self::Structure;

    /// The leaves, in order.
    fn into_leaves(self, visit: &mut dyn FnMut(L));

    /// The tree of that structure whose leaves are what `next` gives.
    fn from_leaves(structure: &Self::Structure, next: &mut dyn FnMut() -> L) -> Self;

    /// The tree of that structure with leaves of another type.
    fn with_leaves<M: Leaf>(
        structure: &Self::Structure,
        next: &mut dyn FnMut() -> M,
    ) -> Self::With<M>;

    /// Calls `visit` with the path of each leaf, in order: `path` and what leads to the leaf, as in
    /// `argument.0.layers[2].w`.
    fn paths(structure: &Self::Structure, path: &mut String, visit: &mut dyn FnMut(&str));
}

macro_rules! leaf {
    ($($t:ty),*) => {$(
        impl Leaf for $t {}

        impl Tree<$t> for $t {
            type With<M: Leaf> = M;
            type Structure = ();
            fn structure(&self) {}
            fn into_leaves(self, visit: &mut dyn FnMut($t)) {
                visit(self);
            }
            fn from_leaves((): &(), next: &mut dyn FnMut() -> $t) -> $t {
                next()
            }
            fn with_leaves<M: Leaf>((): &(), next: &mut dyn FnMut() -> M) -> M {
                next()
            }
            fn paths((): &(), path: &mut String, visit: &mut dyn FnMut(&str)) {
                visit(path);
            }
        }
    )*};
}
leaf!(Var, Tensor);

/// The leaves of a tree and its structure.
pub(crate) fn flatten<L, A: Tree<L>>(tree: A) -> (A::Structure, Vec<L>) {
    let structure = tree.structure();
    let mut leaves = Vec::new();
    tree.into_leaves(&mut |l| leaves.push(l));
    (structure, leaves)
}

/// The tree of that structure from exactly its leaves; `missing` stands in for leaves that a fault
/// of tapeloom left out.
pub(crate) fn unflatten<L, A: Tree<L>>(
    structure: &A::Structure,
    leaves: impl IntoIterator<Item = L>,
    missing: impl Fn() -> L,
) -> A {
    let mut leaves = leaves.into_iter();
    A::from_leaves(structure, &mut || leaves.next().unwrap_or_else(&missing))
}

/// The paths of all leaves.
pub(crate) fn leaf_paths<L, A: Tree<L>>(structure: &A::Structure, root: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut path = root.to_owned();
    A::paths(structure, &mut path, &mut |p| paths.push(p.to_owned()));
    paths
}

/// Extends a path for the length of a call.
#[doc(hidden)]
pub fn with_segment(path: &mut String, segment: &str, f: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(segment);
    f(path);
    path.truncate(length);
}
