//! Tuples of up to twelve trees as trees. A tuple passes several arguments to a closure.

use super::{Leaf, Tree, with_segment};

macro_rules! tuple {
    ($($T:ident $i:tt),+) => {
        impl<L, $($T: Tree<L>),+> Tree<L> for ($($T,)+) {
            type With<M: Leaf> = ($($T::With<M>,)+);
            type Structure = ($($T::Structure,)+);
            fn structure(&self) -> Self::Structure {
                ($(self.$i.structure(),)+)
            }
            fn has_structure(&self, structure: &Self::Structure) -> bool {
                $(self.$i.has_structure(&structure.$i))&&+
            }
            fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a L)) {
                $(self.$i.leaves(visit);)+
            }
            fn leaves_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut L)) {
                $(self.$i.leaves_mut(visit);)+
            }
            fn from_leaves(structure: &Self::Structure, next: &mut dyn FnMut() -> L) -> Self {
                ($($T::from_leaves(&structure.$i, next),)+)
            }
            fn with_leaves<M: Leaf>(
                structure: &Self::Structure,
                next: &mut dyn FnMut() -> M,
            ) -> Self::With<M> {
                ($($T::with_leaves(&structure.$i, next),)+)
            }
            fn paths(
                structure: &Self::Structure,
                path: &mut String,
                visit: &mut dyn FnMut(&str),
            ) {
                $(with_segment(path, concat!(".", $i), |path| {
                    $T::paths(&structure.$i, path, visit)
                });)+
            }
            fn differences(
                one: &Self::Structure,
                other: &Self::Structure,
                path: &mut String,
                visit: &mut dyn FnMut(&str, String, String),
            ) {
                $(with_segment(path, concat!(".", $i), |path| {
                    $T::differences(&one.$i, &other.$i, path, visit)
                });)+
            }
        }
    };
}
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, N 11);
