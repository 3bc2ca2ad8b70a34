//! What other libraries have and this one has not, so that the search of the documentation finds it, and what to do instead.
//!
//! The modules are empty: each is a place for words.

/// Files of numbers: there are none. A [`Tensor`](crate::Tensor) is made from a `Vec` or a slice and gives one back
/// ([`to_vec`](crate::Tensor::to_vec)), so any crate that reads a format serves: `npyz`, `csv`, `safetensors`, `serde_json`.
/// Trees are flattened by [`ravel_tensors`](crate::ravel_tensors).
#[doc(alias = "load", alias = "save", alias = "savez", alias = "loadtxt", alias = "savetxt")]
#[doc(alias = "genfromtxt", alias = "fromfile", alias = "memmap", alias = "state_dict")]
pub mod files {}

/// Sparse matrices: there are none. A product with one is a gather
/// ([`take`](crate::Var::take)), a product and a scatter (`at(&[rows]).add(..)`) over the places that are not zero; solvers that
/// need products alone are [`cg`](crate::cg), [`gmres`](crate::gmres) and [`bicgstab`](crate::bicgstab).
#[doc(
    alias = "csr_matrix",
    alias = "coo_matrix",
    alias = "csc_matrix",
    alias = "BCOO",
    alias = "spsolve"
)]
#[doc(alias = "sparse_coo_tensor")]
pub mod sparse {}

/// Devices and many cores: a call uses one core of the machine it runs on. Calls of one compiled function from several
/// threads run beside each other, so a batch is spread by `std::thread::scope` over calls.
#[doc(alias = "pmap", alias = "device_put", alias = "sharding", alias = "shard_map")]
#[doc(alias = "cuda", alias = "gpu", alias = "DataParallel", alias = "num_threads")]
pub mod devices {}

/// Layers and modules: a model is a struct of arrays that derives [`Tree`](macro@crate::Tree), and a layer a function of
/// arrays; [`nn`](crate::nn) has initial weights and normalisations. The chapter *Networks* of the book builds one.
#[doc(alias = "Module", alias = "Linear", alias = "Dense", alias = "Sequential", alias = "Conv2d")]
#[doc(
    alias = "LSTM",
    alias = "MultiheadAttention",
    alias = "flax",
    alias = "haiku",
    alias = "keras"
)]
pub mod layers {}

/// Data in batches: shuffle places by [`random::permutation`](crate::random::permutation) and take rows by
/// [`take`](crate::Var::take); the recipe *Minibatches* of the book has it. Reading is Rust's.
#[doc(alias = "DataLoader", alias = "Dataset", alias = "TensorDataset", alias = "random_split")]
pub mod data_loading {}

/// Numbers of 8 and 16 bits: there are none; [`Dtype`](crate::Dtype) lists those that are.
#[doc(
    alias = "float16",
    alias = "bfloat16",
    alias = "half",
    alias = "int8",
    alias = "uint8",
    alias = "autocast"
)]
pub mod narrow_numbers {}

/// Masked arrays: a mask is an array of bools beside the numbers, for [`select`](crate::Var::select); a masked mean is
/// a sum by a sum, and `nanmean` and its relatives leave out nan.
#[doc(alias = "masked_array", alias = "ma", alias = "masked_where")]
pub mod masked_arrays {}

/// Arrays of text, dates and records: there are none. Records are structs that derive [`Tree`](macro@crate::Tree).
#[doc(alias = "datetime64", alias = "recarray", alias = "structured_array", alias = "genfromregex")]
pub mod text_and_dates {}
