//! Features of other libraries that tapeloom does not have, with the alternatives. Their names are aliases here, so
//! that the search of the documentation finds them.
//!
//! The modules are empty. Each has only documentation.

/// Sparse matrices: not supported. A product with a sparse matrix is a gather ([`take`](crate::Var::take)), a
/// product and a scatter (`at(&[rows]).add(..)`) over the nonzero elements. Solvers that need only products are
/// [`cg`](crate::cg), [`gmres`](crate::gmres) and [`bicgstab`](crate::bicgstab).
#[doc(
    alias = "csr_matrix",
    alias = "coo_matrix",
    alias = "csc_matrix",
    alias = "BCOO",
    alias = "spsolve"
)]
#[doc(alias = "sparse_coo_tensor")]
pub mod sparse {}

/// Devices and multiple cores: a call runs on one core of the CPU by default, and on several with
/// [`Jit::threads`](crate::Jit::threads). With the feature `xla`, the target of [`Jit::on`](crate::Jit::on) may be
/// XLA, and [`Jit::mesh`](crate::Jit::mesh) divides the arrays of a program among several of its devices.
#[doc(alias = "pmap", alias = "device_put", alias = "sharding", alias = "shard_map")]
#[doc(alias = "cuda", alias = "gpu", alias = "DataParallel", alias = "num_threads")]
pub mod devices {}

/// Layers and modules: a model is a struct of arrays that derives [`Tree`](macro@crate::Tree), and a layer is a
/// function of arrays. [`nn`](crate::nn) has initial weights and normalisations. The chapter *Networks* of the book
/// builds a model.
#[doc(alias = "Module", alias = "Linear", alias = "Dense", alias = "Sequential", alias = "Conv2d")]
#[doc(
    alias = "LSTM",
    alias = "MultiheadAttention",
    alias = "flax",
    alias = "haiku",
    alias = "keras"
)]
pub mod layers {}

/// Data in batches: shuffle indices by [`random::permutation`](crate::random::permutation) and select rows by
/// [`take`](crate::Var::take); see the recipe *Minibatches* of the book. To read data, use other Rust crates.
#[doc(alias = "DataLoader", alias = "Dataset", alias = "TensorDataset", alias = "random_split")]
pub mod data_loading {}

/// Numbers of 8 and 16 bits: not supported. [`Dtype`](crate::Dtype) lists the supported dtypes.
#[doc(
    alias = "float16",
    alias = "bfloat16",
    alias = "half",
    alias = "int8",
    alias = "uint8",
    alias = "autocast"
)]
pub mod narrow_numbers {}

/// Masked arrays: use an array of bools as a mask beside the numbers, with [`select`](crate::Var::select). A masked
/// mean is the quotient of two sums. `nanmean` and its variants ignore nan.
#[doc(alias = "masked_array", alias = "ma", alias = "masked_where")]
#[doc(alias = "nanstd", alias = "nanvar", alias = "nanmedian", alias = "nanpercentile")]
pub mod masked_arrays {}

/// Arrays of text, dates and records: not supported. Records are structs that derive [`Tree`](macro@crate::Tree).
#[doc(alias = "datetime64", alias = "recarray", alias = "structured_array", alias = "genfromregex")]
pub mod text_and_dates {}

/// Gradients that arrays accumulate: there are none. A gradient is the result of [`grad`](crate::grad), and the next
/// call begins at zero. Gradients of several batches are added by [`optim::accumulate`](crate::optim::accumulate).
#[doc(alias = "zero_grad", alias = "grad_fn", alias = "retain_graph", alias = "retain_grad")]
pub mod accumulated_gradients {}

/// Global settings: there are none. Random functions take a [key](crate::random) as an argument, and an array has the
/// dtype of its data.
#[doc(alias = "set_default_dtype", alias = "use_deterministic_algorithms", alias = "enable_x64")]
pub mod global_settings {}
