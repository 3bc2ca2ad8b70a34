//! Tree structures with their type erased.

use form::Form;
use tapeloom::{Tree, Var};

#[path = "../../src/tree/form.rs"]
#[allow(dead_code, reason = "it is a private module of the library")]
mod form;

/// Returns the structure of a tree and its leaves, like the function of this name in the library.
fn flatten<L: Clone, A: Tree<L>>(tree: &A) -> (A::Structure, Vec<L>) {
    let mut leaves = Vec::new();
    tree.leaves(&mut |l| leaves.push(l.clone()));
    (tree.structure(), leaves)
}

use std::collections::BTreeMap;

/// Forms of trees of one type compare as their structures; forms of different types are different.
#[test]
fn forms_compare_and_name_as_structures_do() {
    type Pair = (Var, Vec<Var>);
    let of = |n: usize| Form::of::<Pair>(&((), vec![(); n]));
    assert!(of(2) == of(2) && of(2) != of(3));
    assert_eq!(of(2).paths("x"), ["x.0", "x.1[0]", "x.1[1]"]);
    let sides = ["one", "other"];
    let found = of(2).different(&of(3), "x", sides);
    assert_eq!(found, "`x.1`: 2 elements in one, 3 elements in other");
    assert_eq!(of(2).structure::<Pair>().map(|(_, rest)| rest.len()), Some(2));

    let map = Form::of::<BTreeMap<String, Var>>(&BTreeMap::new());
    assert!(of(0) != map && map != of(0));
    assert!(map.structure::<Pair>().is_none());
}
