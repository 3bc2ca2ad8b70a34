//! Methods of features that are off: a call is an error of the compiler that names the feature.
//!
//! Each method has a bound that no type satisfies. The doctests of this file run only where a feature is off:
//! `cargo test -p tapeloom --doc missing_features`.

use super::Jit;
use crate::tree::Tree;
use crate::{Error, Var};

#[cfg(not(feature = "object"))]
#[diagnostic::on_unimplemented(
    message = "this method of `Jit` needs the feature `object` of the crate `tapeloom`",
    label = "the feature `object` is off",
    note = "write `features = [\"object\"]` for `tapeloom` in Cargo.toml"
)]
pub trait FeatureObject {
    fn absent<T>(&self) -> T;
}

/// ```compile_fail,E0277
/// let _ = tapeloom::jit(|x: tapeloom::Var| x + 1.0).object(1.0, "f");
/// ```
#[cfg(not(feature = "object"))]
#[doc(hidden)]
impl<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B> Jit<A, B, F> {
    pub fn object(&self, _: impl Sized, _: impl Sized) -> Result<(), Error>
    where
        F: FeatureObject,
    {
        self.f.absent()
    }

    pub fn object_rows(&self, _: impl Sized, _: impl Sized) -> Result<(), Error>
    where
        F: FeatureObject,
    {
        self.f.absent()
    }

    pub fn object_rows_value_and_grad(&self, _: impl Sized, _: impl Sized) -> Result<(), Error>
    where
        F: FeatureObject,
    {
        self.f.absent()
    }
}

#[cfg(not(feature = "rust"))]
#[diagnostic::on_unimplemented(
    message = "this method of `Jit` needs the feature `rust` of the crate `tapeloom`",
    label = "the feature `rust` is off",
    note = "write `features = [\"rust\"]` for `tapeloom` in Cargo.toml"
)]
pub trait FeatureRust {
    fn absent<T>(&self) -> T;
}

/// ```compile_fail,E0277
/// let _ = tapeloom::jit(|x: tapeloom::Var| x + 1.0).rust(1.0, "f");
/// ```
#[cfg(not(feature = "rust"))]
#[doc(hidden)]
impl<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B> Jit<A, B, F> {
    pub fn rust(&self, _: impl Sized, _: impl Sized) -> Result<String, Error>
    where
        F: FeatureRust,
    {
        self.f.absent()
    }
}

#[cfg(not(feature = "stablehlo"))]
#[diagnostic::on_unimplemented(
    message = "this method of `Jit` needs the feature `stablehlo` of the crate `tapeloom`",
    label = "the feature `stablehlo` is off",
    note = "write `features = [\"stablehlo\"]` for `tapeloom` in Cargo.toml"
)]
pub trait FeatureStableHlo {
    fn absent<T>(&self) -> T;
}

/// ```compile_fail,E0277
/// let _ = tapeloom::jit(|x: tapeloom::Var| x + 1.0).stablehlo(1.0);
/// ```
#[cfg(not(feature = "stablehlo"))]
#[doc(hidden)]
impl<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B> Jit<A, B, F> {
    pub fn stablehlo(&self, _: impl Sized) -> Result<String, Error>
    where
        F: FeatureStableHlo,
    {
        self.f.absent()
    }

    pub fn stablehlo_with(&self, _: impl Sized, _: impl Sized) -> Result<String, Error>
    where
        F: FeatureStableHlo,
    {
        self.f.absent()
    }
}
