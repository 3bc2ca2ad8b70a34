//! Trees: the arguments and results of transforms.
//!
//! A tree holds *leaves* of one kind, [`Var`](crate::Var)s while tracing or [`Tensor`](crate::Tensor)s outside, in
//! tuples, arrays, `Vec`, `Option`, `Box`, `BTreeMap<String, _>`, `()` and structs with
//! [`#[derive(Tree)]`](derive@crate::Tree). The same type constructor serves both kinds: `Params<Var>` in the
//! closure, `Params<Tensor>` at the boundary. The [`Structure`](Tree::Structure) of a tree is everything except its
//! leaves: lengths, which options are present, static fields. A compiled program is stored under the structure of
//! its arguments and the types of their leaves.
//!
//! Operations on all leaves work for any tree: [`tree_map`] and its variants, [`ravel`] (all elements as one
//! vector, with the inverse function), [`tree_sum`], [`global_norm`].
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
mod form;
mod leaf;
mod map;
mod ravel;
mod statics;
mod tuples;

pub use args::{Args, TensorRefs};
pub use leaf::{ArrayLeaf, DataLeaf, Leaf};
pub(crate) use map::Length;
pub use map::{
    clip_by_global_norm, global_norm, ones_like, tree_dot, tree_leaves, tree_map, tree_map2,
    tree_map3, tree_paths, tree_sum, zeros_like,
};
pub(crate) use ravel::Parts;
pub use ravel::{ravel, ravel_tensors};
pub use statics::{Bits, ByBits};

pub(crate) use form::{Flat, Form};
pub(crate) use map::different;

use std::fmt::Debug;
use std::hash::Hash;

/// A tree with leaves of type `L`.
///
/// Implement it with [`#[derive(Tree)]`](derive@crate::Tree). All methods visit the leaves in the same order.
#[doc(alias = "pytree")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tree of arrays",
    label = "no tree of `{L}`",
    note = "in a closure a number or an array is one as `constant(1.0)`; trees are `Var` and `Tensor`; tuples, arrays, `Vec`, `Option`, `Box` and `BTreeMap<String, _>` of trees; and structs with `#[derive(Tree)]`",
    note = "a field of such a struct that holds no arrays is marked `#[tree(static)]`",
    note = "a `Ref` is neither argument nor result: closures capture it, and return the value of `get`"
)]
pub trait Tree<L>: Sized {
    /// The same tree type with leaves of type `M`.
    type With<M: Leaf>: Tree<M>;

    /// The type of the tree's structure: all data of the tree except its leaves.
    type Structure: Clone + Eq + Hash + Debug + Send + Sync + 'static;

    /// Returns the structure of this tree.
    fn structure(&self) -> Self::Structure;

    /// Returns whether this tree has the structure `structure`. Its own structure is not built for this.
    fn has_structure(&self, structure: &Self::Structure) -> bool;

    /// Calls `visit` with each leaf, in order.
    fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a L));

    /// Calls `visit` with a mutable reference to each leaf, in order.
    fn leaves_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut L));

    /// Builds the tree with the given structure; `next` returns its leaves, in order.
    fn from_leaves(structure: &Self::Structure, next: &mut dyn FnMut() -> L) -> Self;

    /// Builds a tree with the given structure whose leaves have the type `M`; `next` returns the leaves, in order.
    fn with_leaves<M: Leaf>(
        structure: &Self::Structure,
        next: &mut dyn FnMut() -> M,
    ) -> Self::With<M>;

    /// Calls `visit` with the path of each leaf, in order. A path is `path` followed by the segments that lead to
    /// the leaf, for instance `argument.0.layers[2].w`.
    fn paths(structure: &Self::Structure, path: &mut String, visit: &mut dyn FnMut(&str));

    /// Calls `visit` for each difference between two structures, with its path and descriptions of both sides, for
    /// instance `layers`, `2 elements`, `3 elements`.
    fn differences(
        one: &Self::Structure,
        other: &Self::Structure,
        path: &mut String,
        visit: &mut dyn FnMut(&str, String, String),
    );
}

/// Returns the structure of a tree and its leaves.
pub(crate) fn flatten<L: Clone, A: Tree<L>>(tree: &A) -> (A::Structure, Vec<L>) {
    let mut leaves = Vec::new();
    tree.leaves(&mut |l| leaves.push(l.clone()));
    (tree.structure(), leaves)
}

/// Builds the tree with the given structure and leaves. If there are fewer leaves than the structure has, which is a
/// bug in tapeloom, `missing` returns a placeholder for each missing one.
pub(crate) fn unflatten<L, A: Tree<L>>(
    structure: &A::Structure,
    leaves: impl IntoIterator<Item = L>,
    missing: impl Fn() -> L,
) -> A {
    let mut leaves = leaves.into_iter();
    A::from_leaves(structure, &mut || leaves.next().unwrap_or_else(&missing))
}

/// Returns the paths of all leaves.
pub(crate) fn leaf_paths<L, A: Tree<L>>(structure: &A::Structure, root: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut path = root.to_owned();
    A::paths(structure, &mut path, &mut |p| paths.push(p.to_owned()));
    paths
}

/// Appends a segment to a path, runs `f`, and removes the segment again.
#[doc(hidden)]
pub fn with_segment(path: &mut String, segment: &str, f: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(segment);
    f(path);
    path.truncate(length);
}
