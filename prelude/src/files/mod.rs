//! Files of tensors: parameters, states of optimisers, keys, data.
//!
//! Any tree of tensors is saved in one file and loaded again. The names in the file are the paths of the leaves, as
//! [`tree_paths`](crate::tree_paths) prints them. To load, pass a tree with the expected structure, shapes and
//! dtypes: one of tensors, as it was before training, or one of [`ArrayType`]s from
//! [`eval_shape`](crate::eval_shape()).
//!
#![cfg_attr(feature = "safetensors", doc = "```")]
#![cfg_attr(not(feature = "safetensors"), doc = "```ignore")]
//! use tapeloom::{files, prelude::*};
//!
//! #[derive(Tree, Clone)]
//! struct Layer<T> { w: T, b: T }
//!
//! let path = std::env::temp_dir().join(format!("layer-{}.safetensors", std::process::id()));
//! let trained = Layer { w: Tensor::from([[1.0, 2.0]]), b: Tensor::from([0.5, 0.5]) };
//! files::save_safetensors(&path, &trained)?;
//!
//! let start = Layer { w: Tensor::from([[0.0, 0.0]]), b: Tensor::from([0.0, 0.0]) };
//! let loaded = files::load_safetensors(&path, &start)?;
//! assert_eq!(loaded.w, trained.w);
//! # std::fs::remove_file(path).ok();
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! | format | functions | feature | holds |
//! |---|---|---|---|
//! | safetensors | `save_safetensors`, `load_safetensors` | `safetensors` | named tensors, and texts about them |
//! | `.npz` of numpy | `save_npz`, `load_npz` | `npz` | named tensors, also compressed ones when it is read |
//! | `.npy` of numpy | `save_npy`, `load_npy` | `npy` | one tensor |
//!
//! [`Arrays`] is the content of a file as a map from names to tensors: to look into a file, to load a part of it, to
//! rename arrays of another library, to read and write metadata. The feature `serde` implements `Serialize` and
//! `Deserialize` for [`Tensor`].
//!
//! # Checkpoints
//!
//! A run is resumed with the same bits if everything that a step reads is in the file: parameters, the state of the
//! optimiser (its counts of steps are tensors too, so a [`Schedule`](crate::optim::Schedule) goes on where it was),
//! [keys](crate::random), running means. Put them into one tree, and save that.
//!
//! A save replaces the file as a whole ([`replace`]): a program that is killed leaves the previous file or the new
//! one. A file has the bytes of its tensors in memory once more while it is saved or loaded.
//!
//! # Dtypes
//!
//! Tensors are written with their dtype. Files of other libraries may hold narrower numbers, which are widened to the
//! same value: float16 and bfloat16 to f32, int8 and int16 to i32, uint8 and uint16 to u32. Other dtypes are errors.
//! Arrays in Fortran order and in either byte order are read.
//!
//! # Errors
//!
//! All errors have the kind [`Kind::File`](crate::Kind). If the arrays of a file do not fit the tree, one error lists
//! all differences. Damaged files are errors, too: no size in a file is believed before it has been compared with the
//! size of the file.

mod arrays;
#[cfg(any(feature = "safetensors", feature = "npy"))]
mod elements;
#[cfg(feature = "npy")]
mod npy;
#[cfg(feature = "npz")]
mod npz;
mod replace;
#[cfg(feature = "safetensors")]
mod safetensors;

pub use arrays::{Arrays, TypedLeaf};
#[cfg(feature = "npy")]
pub use npy::{from_npy, load_npy, save_npy, to_npy};
#[cfg(feature = "npz")]
pub use npz::{load_npz, save_npz};
pub use replace::replace;
#[cfg(feature = "safetensors")]
pub use safetensors::{load_safetensors, save_safetensors};

#[cfg(doc)]
use crate::{ArrayType, Tensor};
use tapeloom_ir::{Kind, Problem};

/// Returns the error for a file that is damaged or uses features that are not supported.
#[cfg(any(feature = "safetensors", feature = "npy"))]
fn damaged(message: impl Into<String>) -> Problem {
    Problem::new(Kind::File, message, "")
}

/// Puts the path of the file in front of the message.
fn in_file(path: &std::path::Path, problem: Problem) -> Problem {
    Problem::new(Kind::File, format!("`{}`: {}", path.display(), problem.message), problem.help)
}
