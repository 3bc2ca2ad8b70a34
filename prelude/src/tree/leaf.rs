//! Leaves of trees.
//!
//! A leaf is a tree by itself. [`Var`]s are leaves while tracing, [`Tensor`]s outside. Types that can be passed for
//! a tensor ([`DataLeaf`]: references and Rust numbers) are leaves, too, and so are types that describe an array
//! (an axis of [`vmap_axes`](crate::vmap_axes), the result type of a [`callback`](crate::callback())). So
//! `Params<&Tensor>`, `Params<f64>` and `Params<Option<i32>>` are trees with the structure of `Params<Var>`.

use super::Tree;
use crate::Var;
use std::borrow::Cow;
#[cfg(feature = "xla")]
use tapeloom_backend::xla::DeviceArray;
use tapeloom_ir::{ArrayType, Dtype, Literal, PartitionSpec, Problem, Tensor};

/// A leaf of a tree: [`Var`] or [`Tensor`], a value that can be passed for a tensor, an axis.
pub trait Leaf: Tree<Self, Structure = ()> + Clone {
    /// Returns a placeholder for a leaf that is missing because of a faulty implementation of `Tree`.
    #[doc(hidden)]
    fn stand_in() -> Self;
}

/// A leaf that is an array: [`Var`] or [`Tensor`].
pub trait ArrayLeaf: Leaf {
    /// Returns an array of the shape and dtype of this leaf, filled with ones if `one` is true, else with zeros.
    #[doc(hidden)]
    fn filled(&self, one: bool) -> Self;
}

/// A leaf that can be passed for a tensor: a tensor, a reference to one, a Rust number.
pub trait DataLeaf: Leaf {
    /// Returns the leaf as a tensor.
    #[doc(hidden)]
    fn tensor(&self) -> Cow<'_, Tensor>;

    /// Whether the leaf is no reference ([`Args::owned`](crate::Args::owned)).
    #[doc(hidden)]
    const OWNED: bool;
}

macro_rules! leaf {
    ($($(#[$advice:meta])? $t:ty $(where $life:lifetime)?, $stand_in:expr;)*) => {$(
        impl$(<$life>)? Leaf for $t {
            fn stand_in() -> $t {
                $stand_in
            }
        }

        $(#[$advice])?
        impl$(<$life>)? Tree<$t> for $t {
            type With<M: Leaf> = M;
            type Structure = ();
            fn structure(&self) {}
            fn has_structure(&self, (): &()) -> bool {
                true
            }
            fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a $t)) {
                visit(self);
            }
            fn leaves_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut $t)) {
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
            fn differences(
                (): &(),
                (): &(),
                _: &mut String,
                _: &mut dyn FnMut(&str, String, String),
            ) {
            }
        }
    )*};
}
leaf! {
    Var, {
        let lost = Problem::internal("a tree has fewer leaves than its structure");
        crate::ops::wrong(lost, &[], ArrayType::new(Dtype::F64, []), None)
    };
    Tensor, Tensor::scalar(f64::NAN);
    // If a type is no tree, the compiler's message should suggest only arrays as leaves, not batch axes.
    #[diagnostic::do_not_recommend]
    Option<i32>, None;
    // `ArrayType` is a leaf of the result types that a callback declares.
    #[diagnostic::do_not_recommend]
    ArrayType, ArrayType::new(Dtype::F64, []);
    // Trees of partition specs describe how arguments and results are divided.
    #[diagnostic::do_not_recommend]
    PartitionSpec, PartitionSpec::replicated();
}

#[cfg(feature = "xla")]
leaf! {
    DeviceArray, DeviceArray::missing();
}

impl ArrayLeaf for Var {
    #[track_caller]
    fn filled(&self, one: bool) -> Var {
        let at = crate::var::caller();
        let ty = self.ty(at);
        crate::ops::full_var(&ty.shape, number(ty.dtype, one), at)
    }
}

impl ArrayLeaf for Tensor {
    fn filled(&self, one: bool) -> Tensor {
        self.map_numbers(|_| f64::from(u8::from(one)))
    }
}

fn number(dtype: Dtype, one: bool) -> Literal {
    if one { Literal::one(dtype) } else { Literal::zero(dtype) }
}

impl DataLeaf for Tensor {
    const OWNED: bool = true;
    fn tensor(&self) -> Cow<'_, Tensor> {
        Cow::Borrowed(self)
    }
}

/// The tensor to which a missing leaf refers if leaves are references.
static LOST: std::sync::LazyLock<Tensor> = std::sync::LazyLock::new(|| Tensor::scalar(f64::NAN));

leaf! {
    #[diagnostic::do_not_recommend]
    &'t Tensor where 't, &LOST;
}

impl DataLeaf for &Tensor {
    const OWNED: bool = false;
    fn tensor(&self) -> Cow<'_, Tensor> {
        Cow::Borrowed(self)
    }
}

macro_rules! number {
    ($($t:ty)*) => {$(
        leaf! {
            #[diagnostic::do_not_recommend]
            $t, <$t>::default();
        }

        impl DataLeaf for $t {
            const OWNED: bool = true;
            fn tensor(&self) -> Cow<'_, Tensor> {
                Cow::Owned(Tensor::scalar(*self))
            }
        }
    )*};
}
number!(bool i32 i64 u32 u64 f32 f64);
