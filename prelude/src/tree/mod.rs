//! Trees: the values that transforms take and return.
//!
//! A tree holds *leaves* of one kind, [`Var`](crate::Var)s while tracing or
//! [`Tensor`](crate::Tensor)s outside, in tuples, arrays, `Vec`, `Option`, `Box`,
//! `BTreeMap<String, _>`, `()` and structs with [`#[derive(Tree)]`](derive@crate::Tree). The same type
//! constructor serves both kinds: `Params<Var>` in the closure, `Params<Tensor>` at the boundary. What
//! is left of a tree without its leaves is its [`Structure`](Tree::Structure): lengths, which options
//! are present, static fields. It is part of the key under which a compiled program is kept.
//!
//! What is done to every leaf is written once, for any tree: [`tree_map`] and its relatives,
//! [`ravel`] (all elements as one vector, and back), [`tree_sum`], [`global_norm`].
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
/// Implement it with [`#[derive(Tree)]`](derive@crate::Tree). The leaves have an order, the same in
/// every method.
#[doc(alias = "pytree")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tree of arrays",
    label = "no tree of `{L}`",
    note = "in a closure a number or an array is one as `constant(1.0)`; trees are `Var` and `Tensor`; tuples, arrays, `Vec`, `Option`, `Box` and `BTreeMap<String, _>` of trees; and structs with `#[derive(Tree)]`",
    note = "a field of such a struct that holds no arrays is marked `#[tree(static)]`",
    note = "a `Ref` is no argument and no result: closures use those around them, and return what `get` gives"
)]
pub trait Tree<L>: Sized {
    /// The same tree with other leaves.
    type With<M: Leaf>: Tree<M>;

    /// All but the leaves.
    type Structure: Clone + Eq + Hash + Debug + Send + Sync + 'static;

    /// What this tree is without its leaves.
    fn structure(&self) -> Self::Structure;

    /// Whether that is `structure`; like comparing, without building anything.
    fn has_structure(&self, structure: &Self::Structure) -> bool;

    /// The leaves, in order.
    fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a L));

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

    /// Calls `visit` for each place where two structures differ, with its path and with what is there
    /// in the one and in the other: `layers`, `2 elements`, `3 elements`.
    fn differences(
        one: &Self::Structure,
        other: &Self::Structure,
        path: &mut String,
        visit: &mut dyn FnMut(&str, String, String),
    );
}

/// The leaves of a tree and its structure.
pub(crate) fn flatten<L: Clone, A: Tree<L>>(tree: &A) -> (A::Structure, Vec<L>) {
    let mut leaves = Vec::new();
    tree.leaves(&mut |l| leaves.push(l.clone()));
    (tree.structure(), leaves)
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
