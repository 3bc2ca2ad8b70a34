//! Trees of the standard library: unit, arrays, `Vec`, `Option`, `Box`, `BTreeMap`.

use super::{Leaf, Tree, with_segment};
use std::collections::BTreeMap;

impl<L> Tree<L> for () {
    type With<M: Leaf> = ();
    type Structure = ();
    fn structure(&self) {}
    fn has_structure(&self, (): &()) -> bool {
        true
    }
    fn leaves<'a>(&'a self, _: &mut dyn FnMut(&'a L)) {}
    fn leaves_mut<'a>(&'a mut self, _: &mut dyn FnMut(&'a mut L)) {}
    fn from_leaves((): &(), _: &mut dyn FnMut() -> L) {}
    fn with_leaves<M: Leaf>((): &(), _: &mut dyn FnMut() -> M) {}
    fn paths((): &(), _: &mut String, _: &mut dyn FnMut(&str)) {}
    fn differences((): &(), (): &(), _: &mut String, _: &mut dyn FnMut(&str, String, String)) {}
}

impl<L, A: Tree<L>> Tree<L> for Box<A> {
    type With<M: Leaf> = Box<A::With<M>>;
    type Structure = Box<A::Structure>;
    fn structure(&self) -> Box<A::Structure> {
        Box::new((**self).structure())
    }
    fn has_structure(&self, structure: &Self::Structure) -> bool {
        (**self).has_structure(structure)
    }
    fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a L)) {
        (**self).leaves(visit);
    }
    fn leaves_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut L)) {
        (**self).leaves_mut(visit);
    }
    fn from_leaves(structure: &Self::Structure, next: &mut dyn FnMut() -> L) -> Self {
        Box::new(A::from_leaves(structure, next))
    }
    fn with_leaves<M: Leaf>(
        structure: &Self::Structure,
        next: &mut dyn FnMut() -> M,
    ) -> Self::With<M> {
        Box::new(A::with_leaves(structure, next))
    }
    fn paths(structure: &Self::Structure, path: &mut String, visit: &mut dyn FnMut(&str)) {
        A::paths(structure, path, visit);
    }
    fn differences(
        one: &Self::Structure,
        other: &Self::Structure,
        path: &mut String,
        visit: &mut dyn FnMut(&str, String, String),
    ) {
        A::differences(one, other, path, visit);
    }
}

impl<L, A: Tree<L>> Tree<L> for Option<A> {
    type With<M: Leaf> = Option<A::With<M>>;
    type Structure = Option<A::Structure>;
    fn structure(&self) -> Option<A::Structure> {
        self.as_ref().map(A::structure)
    }
    fn has_structure(&self, structure: &Self::Structure) -> bool {
        match (self, structure) {
            (Some(a), Some(s)) => a.has_structure(s),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
    fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a L)) {
        if let Some(a) = self {
            a.leaves(visit);
        }
    }
    fn leaves_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut L)) {
        if let Some(a) = self {
            a.leaves_mut(visit);
        }
    }
    fn from_leaves(structure: &Self::Structure, next: &mut dyn FnMut() -> L) -> Self {
        structure.as_ref().map(|s| A::from_leaves(s, next))
    }
    fn with_leaves<M: Leaf>(
        structure: &Self::Structure,
        next: &mut dyn FnMut() -> M,
    ) -> Self::With<M> {
        structure.as_ref().map(|s| A::with_leaves(s, next))
    }
    fn paths(structure: &Self::Structure, path: &mut String, visit: &mut dyn FnMut(&str)) {
        if let Some(s) = structure {
            A::paths(s, path, visit);
        }
    }
    fn differences(
        one: &Self::Structure,
        other: &Self::Structure,
        path: &mut String,
        visit: &mut dyn FnMut(&str, String, String),
    ) {
        let says = |s: &Self::Structure| if s.is_some() { "there" } else { "absent" }.to_owned();
        match (one, other) {
            (Some(a), Some(b)) => A::differences(a, b, path, visit),
            (None, None) => {}
            (Some(_), None) | (None, Some(_)) => visit(path, says(one), says(other)),
        }
    }
}

impl<L, A: Tree<L>> Tree<L> for Vec<A> {
    type With<M: Leaf> = Vec<A::With<M>>;
    type Structure = Vec<A::Structure>;
    fn structure(&self) -> Vec<A::Structure> {
        self.iter().map(A::structure).collect()
    }
    fn has_structure(&self, structure: &Self::Structure) -> bool {
        self.len() == structure.len() && self.iter().zip(structure).all(|(a, s)| a.has_structure(s))
    }
    fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a L)) {
        for a in self {
            a.leaves(visit);
        }
    }
    fn leaves_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut L)) {
        for a in self {
            a.leaves_mut(visit);
        }
    }
    fn from_leaves(structure: &Self::Structure, next: &mut dyn FnMut() -> L) -> Self {
        structure.iter().map(|s| A::from_leaves(s, next)).collect()
    }
    fn with_leaves<M: Leaf>(
        structure: &Self::Structure,
        next: &mut dyn FnMut() -> M,
    ) -> Self::With<M> {
        structure.iter().map(|s| A::with_leaves(s, next)).collect()
    }
    fn paths(structure: &Self::Structure, path: &mut String, visit: &mut dyn FnMut(&str)) {
        for (i, s) in structure.iter().enumerate() {
            with_segment(path, &format!("[{i}]"), |path| A::paths(s, path, visit));
        }
    }
    fn differences(
        one: &Self::Structure,
        other: &Self::Structure,
        path: &mut String,
        visit: &mut dyn FnMut(&str, String, String),
    ) {
        if one.len() != other.len() {
            visit(path, elements(one.len()), elements(other.len()));
        }
        for (i, (a, b)) in one.iter().zip(other).enumerate() {
            with_segment(path, &format!("[{i}]"), |path| A::differences(a, b, path, visit));
        }
    }
}

impl<L, A: Tree<L>, const N: usize> Tree<L> for [A; N] {
    type With<M: Leaf> = [A::With<M>; N];
    type Structure = [A::Structure; N];
    fn structure(&self) -> [A::Structure; N] {
        self.each_ref().map(A::structure)
    }
    fn has_structure(&self, structure: &Self::Structure) -> bool {
        self.iter().zip(structure).all(|(a, s)| a.has_structure(s))
    }
    fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a L)) {
        for a in self {
            a.leaves(visit);
        }
    }
    fn leaves_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut L)) {
        for a in self {
            a.leaves_mut(visit);
        }
    }
    fn from_leaves(structure: &Self::Structure, next: &mut dyn FnMut() -> L) -> Self {
        structure.each_ref().map(|s| A::from_leaves(s, next))
    }
    fn with_leaves<M: Leaf>(
        structure: &Self::Structure,
        next: &mut dyn FnMut() -> M,
    ) -> Self::With<M> {
        structure.each_ref().map(|s| A::with_leaves(s, next))
    }
    fn paths(structure: &Self::Structure, path: &mut String, visit: &mut dyn FnMut(&str)) {
        for (i, s) in structure.iter().enumerate() {
            with_segment(path, &format!("[{i}]"), |path| A::paths(s, path, visit));
        }
    }
    fn differences(
        one: &Self::Structure,
        other: &Self::Structure,
        path: &mut String,
        visit: &mut dyn FnMut(&str, String, String),
    ) {
        for (i, (a, b)) in one.iter().zip(other).enumerate() {
            with_segment(path, &format!("[{i}]"), |path| A::differences(a, b, path, visit));
        }
    }
}

impl<L, A: Tree<L>> Tree<L> for BTreeMap<String, A> {
    type With<M: Leaf> = BTreeMap<String, A::With<M>>;
    type Structure = BTreeMap<String, A::Structure>;
    fn structure(&self) -> BTreeMap<String, A::Structure> {
        self.iter().map(|(k, a)| (k.clone(), a.structure())).collect()
    }
    fn has_structure(&self, structure: &Self::Structure) -> bool {
        let same = |((k, a), (l, s)): ((&String, &A), (&String, &A::Structure))| {
            k == l && a.has_structure(s)
        };
        self.len() == structure.len() && self.iter().zip(structure).all(same)
    }
    fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a L)) {
        for a in self.values() {
            a.leaves(visit);
        }
    }
    fn leaves_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut L)) {
        for a in self.values_mut() {
            a.leaves_mut(visit);
        }
    }
    fn from_leaves(structure: &Self::Structure, next: &mut dyn FnMut() -> L) -> Self {
        structure.iter().map(|(k, s)| (k.clone(), A::from_leaves(s, next))).collect()
    }
    fn with_leaves<M: Leaf>(
        structure: &Self::Structure,
        next: &mut dyn FnMut() -> M,
    ) -> Self::With<M> {
        structure.iter().map(|(k, s)| (k.clone(), A::with_leaves(s, next))).collect()
    }
    fn paths(structure: &Self::Structure, path: &mut String, visit: &mut dyn FnMut(&str)) {
        for (k, s) in structure {
            with_segment(path, &format!("[{k:?}]"), |path| A::paths(s, path, visit));
        }
    }
    fn differences(
        one: &Self::Structure,
        other: &Self::Structure,
        path: &mut String,
        visit: &mut dyn FnMut(&str, String, String),
    ) {
        let keys = |s: &Self::Structure| format!("keyed {:?}", s.keys().collect::<Vec<_>>());
        if !one.keys().eq(other.keys()) {
            visit(path, keys(one), keys(other));
        }
        for (k, a) in one {
            let Some(b) = other.get(k) else { continue };
            with_segment(path, &format!("[{k:?}]"), |path| A::differences(a, b, path, visit));
        }
    }
}

fn elements(n: usize) -> String {
    format!("{n} element{}", if n == 1 { "" } else { "s" })
}
