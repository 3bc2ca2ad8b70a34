//! Structures whose types are forgotten.
//!
//! What a transform does with a tree is the same for all types: it compares structures, and names places in
//! them. So it is given leaves and a [`Form`], and is compiled once, as a part of this crate. What is left
//! for the crate of the user is to take trees apart and to put them together.

use super::{Tree, flatten};
use crate::Var;
use std::any::Any;
use std::sync::Arc;

/// What is left of a tree without its leaves and its type.
#[derive(Clone)]
pub(crate) struct Form {
    structure: Arc<Structure>,
    methods: &'static Methods,
}

type Structure = dyn Any + Send + Sync;

/// Is called with the path of a leaf.
type Visit<'a> = dyn FnMut(&str) + 'a;

/// Is called with a path, and with what is there in the one and in the other.
type VisitDifference<'a> = dyn FnMut(&str, String, String) + 'a;

/// What is done with a structure, for its type.
struct Methods {
    same: fn(&Structure, &Structure) -> bool,
    paths: fn(&Structure, &mut String, &mut Visit<'_>),
    differences: fn(&Structure, &Structure, &mut String, &mut VisitDifference<'_>),
}

impl Form {
    /// That of a tree of type `A`.
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

    /// As the structure of a tree of type `A`, if it was made of one.
    pub(crate) fn structure<A: Tree<Var>>(&self) -> Option<&A::Structure> {
        self.structure.downcast_ref()
    }

    /// The paths of all leaves.
    pub(crate) fn paths(&self, root: &str) -> Vec<String> {
        let mut paths = Vec::new();
        let visit = &mut |path: &str| paths.push(path.to_owned());
        (self.methods.paths)(&*self.structure, &mut root.to_owned(), visit);
        paths
    }

    /// Calls `visit` for each place where two forms differ, as [`Tree::differences`].
    pub(crate) fn differences(&self, other: &Form, root: &str, visit: &mut VisitDifference<'_>) {
        let (one, other) = (&*self.structure, &*other.structure);
        (self.methods.differences)(one, other, &mut root.to_owned(), visit);
    }

    /// Where two forms differ: "`act`: Relu in the first, Tanh in another".
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

/// A tree taken apart, whatever its type.
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
