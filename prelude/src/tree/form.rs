//! Tree structures with their type erased.
//!
//! Transforms compare structures and print paths of leaves, in the same way for all types of trees. So they get leaves
//! and a [`Form`], and are compiled once, as a part of this crate. Only flattening and rebuilding trees is compiled in
//! the user's crate.

use super::{Tree, flatten};
use crate::Var;
use std::any::Any;
use std::sync::Arc;

/// The structure of a tree as a value whose Rust type does not depend on the type of the tree.
#[derive(Clone)]
pub(crate) struct Form {
    structure: Arc<Structure>,
    methods: &'static Methods,
}

type Structure = dyn Any + Send + Sync;

/// A function that is called with the path of each leaf.
type Visit<'a> = dyn FnMut(&str) + 'a;

/// A function that is called with a path and descriptions of both sides of a difference.
type VisitDifference<'a> = dyn FnMut(&str, String, String) + 'a;

/// The functions of `Tree` for one type of structure, as pointers, so that code without type parameters can call them.
struct Methods {
    same: fn(&Structure, &Structure) -> bool,
    paths: fn(&Structure, &mut String, &mut Visit<'_>),
    differences: fn(&Structure, &Structure, &mut String, &mut VisitDifference<'_>),
}

impl Form {
    /// Returns the form of a tree of type `A`.
    pub(crate) fn of<A: Tree<Var>>(structure: &A::Structure) -> Form {
        let methods = const {
            &Methods {
                same: |one, other| one.downcast_ref::<A::Structure>() == other.downcast_ref(),
                paths: |structure, path, visit| {
                    if let Some(structure) = structure.downcast_ref() {
                        A::paths(structure, path, visit);
                    }
                },
                differences: |one, other, path, visit| {
                    if let (Some(one), Some(other)) = (one.downcast_ref(), other.downcast_ref()) {
                        A::differences(one, other, path, visit);
                    }
                },
            }
        };
        Form { structure: Arc::new(structure.clone()), methods }
    }

    /// Returns the structure in this form, if it is that of a tree of type `A`; otherwise `None`.
    pub(crate) fn structure<A: Tree<Var>>(&self) -> Option<&A::Structure> {
        self.structure.downcast_ref()
    }

    /// Returns the paths of all leaves.
    pub(crate) fn paths(&self, root: &str) -> Vec<String> {
        let mut paths = Vec::new();
        let visit = &mut |path: &str| paths.push(path.to_owned());
        (self.methods.paths)(&*self.structure, &mut root.to_owned(), visit);
        paths
    }

    /// Calls `visit` for each difference between two forms; see [`Tree::differences`].
    pub(crate) fn differences(&self, other: &Form, root: &str, visit: &mut VisitDifference<'_>) {
        let (one, other) = (&*self.structure, &*other.structure);
        (self.methods.differences)(one, other, &mut root.to_owned(), visit);
    }

    /// Returns a text that describes the differences between two forms, such as "`act`: Relu in the first, Tanh in
    /// another". `sides` are the names of the two forms.
    pub(crate) fn different(&self, other: &Form, root: &str, sides: [&str; 2]) -> String {
        let mut found = Vec::new();
        self.differences(other, root, &mut |path, one, other| {
            let path = if path.is_empty() { "the tree" } else { path.trim_start_matches('.') };
            found.push(format!("`{path}`: {one} in {}, {other} in {}", sides[0], sides[1]));
        });
        found.join("; ")
    }
}

impl PartialEq for Form {
    fn eq(&self, other: &Form) -> bool {
        (self.methods.same)(&*self.structure, &*other.structure)
    }
}

/// A flattened tree: its form and its leaves. Its Rust type does not depend on the type of the tree.
pub(crate) struct Flat {
    pub(crate) form: Form,
    pub(crate) leaves: Vec<Var>,
}

impl Flat {
    pub(crate) fn of<A: Tree<Var>>(tree: &A) -> Flat {
        let (structure, leaves) = flatten(tree);
        Flat { form: Form::of::<A>(&structure), leaves }
    }
}
