//! Arguments of a compiled function: trees of concrete data, owned or borrowed.
//!
//! `Args<A>` is implemented by everything that may be passed to a closure that takes the tree `A` of [`Var`]s. For
//! a leaf, that is a tensor, a reference to one, or a Rust number, vector or array. For other trees, it is tuples,
//! arrays, slices, maps and derived structs of these, and references to any of them.

use super::Tree;
use crate::Var;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tapeloom_ir::Tensor;

/// The leaves of arguments as tensors. Leaves that are already tensors are borrowed.
pub type TensorRefs<'a> = SmallVec<[Cow<'a, Tensor>; 4]>;

/// Concrete data that can be passed as an argument for a tree of type `A`.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(x, y): (Var, [Var; 2])| x * y[0] + y[1]);
/// let x = Tensor::from(2.0);
/// assert_eq!(f.call((&x, [3.0, 4.0]))?.item::<f64>()?, 10.0);
/// assert_eq!(f.call(&(x, [&Tensor::from(3.0), &Tensor::from(5.0)]))?.item::<f64>()?, 11.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed where the closure takes `{A}`",
    note = "pass tensors (owned or borrowed) or Rust numbers in the same tuples, arrays and structs",
    note = "inside a closure that is being traced there are no tensors yet: call the function itself, or `f.apply(x)`"
)]
pub trait Args<A: Tree<Var>> {
    /// Returns the structure of the arguments.
    fn structure(&self) -> A::Structure;

    /// Returns whether the arguments have the structure `structure`. Their own structure is not built for this.
    fn matches(&self, structure: &A::Structure) -> bool;

    /// Appends the leaves, in order.
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>);

    /// Visits the leaves in order, and states for each of them whether the arguments own it. A call of
    /// [`Jit::call_donating`](crate::Jit::call_donating) may overwrite the tensors that its arguments own, and keeps
    /// those that are references.
    fn owned(&self, visit: &mut dyn FnMut(bool));
}

impl<A: Tree<Var>, T: Args<A> + ?Sized> Args<A> for &T {
    fn structure(&self) -> A::Structure {
        (**self).structure()
    }
    fn matches(&self, structure: &A::Structure) -> bool {
        (**self).matches(structure)
    }
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
        (**self).tensors(out);
    }
    fn owned(&self, visit: &mut dyn FnMut(bool)) {
        (**self).owned(&mut |_| visit(false));
    }
}

impl Args<Var> for Tensor {
    fn structure(&self) {}
    #[inline]
    fn matches(&self, (): &()) -> bool {
        true
    }
    #[inline]
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
        out.push(Cow::Borrowed(self));
    }
    fn owned(&self, visit: &mut dyn FnMut(bool)) {
        visit(true);
    }
}

macro_rules! leaf_data {
    ($({$($generics:tt)*} $t:ty, $x:ident => $tensor:expr;)*) => {$(
        impl<$($generics)*> Args<Var> for $t {
            fn structure(&self) {}
            #[inline]
            fn matches(&self, (): &()) -> bool {
                true
            }
            #[inline]
            fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
                let $x = self;
                out.push(Cow::Owned($tensor));
            }
            fn owned(&self, visit: &mut dyn FnMut(bool)) {
                visit(true);
            }
        }
    )*};
}

/// Implements `Args` for Rust data as a leaf: numbers, vectors, slices, arrays, arrays of arrays.
macro_rules! element {
    ($($t:ty),*) => {$(
        leaf_data! {
            {} $t, x => Tensor::scalar(*x);
            {} Vec<$t>, x => Tensor::vector(x);
            {} [$t], x => Tensor::vector(x);
            {const N: usize} [$t; N], x => Tensor::vector(x);
            {const N: usize, const M: usize} [[$t; N]; M], x => Tensor::from(*x);
            {const N: usize, const M: usize, const K: usize} [[[$t; N]; M]; K], x => Tensor::from(*x);
        }
    )*};
}
element!(bool, i32, i64, u32, u64, f32, f64);

impl Args<()> for () {
    fn structure(&self) {}
    fn matches(&self, (): &()) -> bool {
        true
    }
    fn tensors<'a>(&'a self, _: &mut TensorRefs<'a>) {}
    fn owned(&self, _: &mut dyn FnMut(bool)) {}
}

impl<A: Tree<Var>, T: Args<A>> Args<Box<A>> for Box<T> {
    fn structure(&self) -> Box<A::Structure> {
        Box::new((**self).structure())
    }
    fn matches(&self, structure: &Box<A::Structure>) -> bool {
        (**self).matches(structure)
    }
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
        (**self).tensors(out);
    }
    fn owned(&self, visit: &mut dyn FnMut(bool)) {
        (**self).owned(visit);
    }
}

impl<A: Tree<Var>, T: Args<A>> Args<Option<A>> for Option<T> {
    fn structure(&self) -> Option<A::Structure> {
        self.as_ref().map(T::structure)
    }
    fn matches(&self, structure: &Option<A::Structure>) -> bool {
        match (self, structure) {
            (Some(a), Some(s)) => a.matches(s),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
        if let Some(a) = self {
            a.tensors(out);
        }
    }
    fn owned(&self, visit: &mut dyn FnMut(bool)) {
        if let Some(a) = self {
            a.owned(visit);
        }
    }
}

impl<A: Tree<Var>, T: Args<A>> Args<Vec<A>> for [T] {
    fn structure(&self) -> Vec<A::Structure> {
        self.iter().map(T::structure).collect()
    }
    fn matches(&self, structure: &Vec<A::Structure>) -> bool {
        self.len() == structure.len() && self.iter().zip(structure).all(|(a, s)| a.matches(s))
    }
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
        for a in self {
            a.tensors(out);
        }
    }
    fn owned(&self, visit: &mut dyn FnMut(bool)) {
        for a in self {
            a.owned(visit);
        }
    }
}

impl<A: Tree<Var>, T: Args<A>> Args<Vec<A>> for Vec<T> {
    fn structure(&self) -> Vec<A::Structure> {
        self.as_slice().structure()
    }
    fn matches(&self, structure: &Vec<A::Structure>) -> bool {
        self.as_slice().matches(structure)
    }
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
        self.as_slice().tensors(out);
    }
    fn owned(&self, visit: &mut dyn FnMut(bool)) {
        self.as_slice().owned(visit);
    }
}

impl<A: Tree<Var>, T: Args<A>, const N: usize> Args<Vec<A>> for [T; N] {
    fn structure(&self) -> Vec<A::Structure> {
        self.as_slice().structure()
    }
    fn matches(&self, structure: &Vec<A::Structure>) -> bool {
        self.as_slice().matches(structure)
    }
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
        self.as_slice().tensors(out);
    }
    fn owned(&self, visit: &mut dyn FnMut(bool)) {
        self.as_slice().owned(visit);
    }
}

impl<A: Tree<Var>, T: Args<A>, const N: usize> Args<[A; N]> for [T; N] {
    fn structure(&self) -> [A::Structure; N] {
        self.each_ref().map(T::structure)
    }
    fn matches(&self, structure: &[A::Structure; N]) -> bool {
        self.iter().zip(structure).all(|(a, s)| a.matches(s))
    }
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
        for a in self {
            a.tensors(out);
        }
    }
    fn owned(&self, visit: &mut dyn FnMut(bool)) {
        for a in self {
            a.owned(visit);
        }
    }
}

impl<A: Tree<Var>, T: Args<A>> Args<BTreeMap<String, A>> for BTreeMap<String, T> {
    fn structure(&self) -> BTreeMap<String, A::Structure> {
        self.iter().map(|(k, a)| (k.clone(), a.structure())).collect()
    }
    fn matches(&self, structure: &BTreeMap<String, A::Structure>) -> bool {
        let same =
            |((k, a), (l, s)): ((&String, &T), (&String, &A::Structure))| k == l && a.matches(s);
        self.len() == structure.len() && self.iter().zip(structure).all(same)
    }
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
        for a in self.values() {
            a.tensors(out);
        }
    }
    fn owned(&self, visit: &mut dyn FnMut(bool)) {
        for a in self.values() {
            a.owned(visit);
        }
    }
}

macro_rules! tuple {
    ($($A:ident $T:ident $i:tt),+) => {
        impl<$($A: Tree<Var>, $T: Args<$A>),+> Args<($($A,)+)> for ($($T,)+) {
            fn structure(&self) -> ($($A::Structure,)+) {
                ($(self.$i.structure(),)+)
            }
            fn matches(&self, structure: &($($A::Structure,)+)) -> bool {
                $(self.$i.matches(&structure.$i))&&+
            }
            fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>) {
                $(self.$i.tensors(out);)+
            }
            fn owned(&self, visit: &mut dyn FnMut(bool)) {
                $(self.$i.owned(visit);)+
            }
        }
    };
}
tuple!(A0 T0 0);
tuple!(A0 T0 0, A1 T1 1);
tuple!(A0 T0 0, A1 T1 1, A2 T2 2);
tuple!(A0 T0 0, A1 T1 1, A2 T2 2, A3 T3 3);
tuple!(A0 T0 0, A1 T1 1, A2 T2 2, A3 T3 3, A4 T4 4);
tuple!(A0 T0 0, A1 T1 1, A2 T2 2, A3 T3 3, A4 T4 4, A5 T5 5);
tuple!(A0 T0 0, A1 T1 1, A2 T2 2, A3 T3 3, A4 T4 4, A5 T5 5, A6 T6 6);
tuple!(A0 T0 0, A1 T1 1, A2 T2 2, A3 T3 3, A4 T4 4, A5 T5 5, A6 T6 6, A7 T7 7);
tuple!(A0 T0 0, A1 T1 1, A2 T2 2, A3 T3 3, A4 T4 4, A5 T5 5, A6 T6 6, A7 T7 7, A8 T8 8);
tuple!(A0 T0 0, A1 T1 1, A2 T2 2, A3 T3 3, A4 T4 4, A5 T5 5, A6 T6 6, A7 T7 7, A8 T8 8, A9 T9 9);
tuple!(A0 T0 0, A1 T1 1, A2 T2 2, A3 T3 3, A4 T4 4, A5 T5 5, A6 T6 6, A7 T7 7, A8 T8 8, A9 T9 9, A10 T10 10);
tuple!(A0 T0 0, A1 T1 1, A2 T2 2, A3 T3 3, A4 T4 4, A5 T5 5, A6 T6 6, A7 T7 7, A8 T8 8, A9 T9 9, A10 T10 10, A11 T11 11);
