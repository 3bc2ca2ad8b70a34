//! Programs on the devices of XLA, the compiler of JAX.
//!
//! A [`Client`] has the devices of a [`Plugin`], a library that is loaded when the program runs. [`Jit::on`] with
//! [`Target::Xla`] compiles a closure for the first of them. [`Jit::call`] then copies arguments to the device and
//! results to the host; [`Jit::call_on_device`] takes and returns trees of [`DeviceArray`]s, which stay there:
//!
//! ```
//! use tapeloom::xla::{self, Client, ClientOptions, Plugin};
//! use tapeloom::{Target, prelude::*};
//! # fn main() -> Result<(), tapeloom::Error> {
//! // Without a plugin the error says how to get one.
//! let Ok(plugin) = Plugin::found() else { return Ok(()) };
//! let client = Client::new(&plugin, &ClientOptions::new())?;
//! let loss = |w: Var, x: Var| (x * w - 1.0).square().mean();
//! let step = jit(move |(w, x): (Var, Var)| w - 0.1 * grad(|w| loss(w, x))(w));
//! let step = step.on(Target::Xla(client.clone()));
//! let x = xla::upload(&client, &Tensor::full(&[1000], 2.0)?)?;
//! let mut w = xla::upload(&client, &Tensor::zeros(&[1000], Dtype::F64)?)?;
//! for _ in 0..10 {
//!     w = step.call_on_device((w, x.clone()))?;
//! }
//! assert_eq!(client.transfers().to_host, 0);
//! assert!(xla::download(&w)?.to_vec::<f64>()?[0] > 0.0);
//! # Ok(())
//! # }
//! ```
//!
//! Settings for tapeloom's own code generator (`threads`, `machine`, `relaxed`) have no effect on these programs.
//!
//! [`Jit::on`]: crate::Jit::on
//! [`Jit::call`]: crate::Jit::call
//! [`Jit::call_on_device`]: crate::Jit::call_on_device
//! [`Target::Xla`]: crate::Target::Xla

pub use tapeloom_backend::xla::{
    Client, ClientOptions, DeviceArray, ExecutionMemory, NamedValue, PLUGIN_VARIABLE, Plugin,
    Report, Transfers,
};

use crate::tree::Tree;
use crate::var::caller;
use crate::{Error, Tensor};
use tapeloom_ir::Problem;

/// Copies a tree of tensors to the first device of a client.
///
/// # Errors
/// Those of the plugin, for example if the device has too little memory.
#[track_caller]
pub fn upload<T: Tree<Tensor>>(client: &Client, tree: &T) -> Result<T::With<DeviceArray>, Error> {
    let mut arrays: Vec<Result<DeviceArray, Problem>> = Vec::new();
    tree.leaves(&mut |x| arrays.push(DeviceArray::upload(client, x)));
    let at = caller();
    let arrays: Result<Vec<DeviceArray>, Problem> = arrays.into_iter().collect();
    let arrays = arrays.map_err(|p| Error::at(p, at))?;
    let mut arrays = arrays.into_iter();
    Ok(T::with_leaves(&tree.structure(), &mut || {
        arrays.next().unwrap_or_else(DeviceArray::missing)
    }))
}

/// Copies a tree of arrays to the host, after they are computed.
///
/// # Errors
/// The execution that computes an array failed.
#[track_caller]
pub fn download<T: Tree<DeviceArray>>(tree: &T) -> Result<T::With<Tensor>, Error> {
    let mut tensors: Vec<Result<Tensor, Problem>> = Vec::new();
    tree.leaves(&mut |x| tensors.push(x.download()));
    let at = caller();
    let tensors: Result<Vec<Tensor>, Problem> = tensors.into_iter().collect();
    let tensors = tensors.map_err(|p| Error::at(p, at))?;
    let mut tensors = tensors.into_iter();
    Ok(T::with_leaves(&tree.structure(), &mut || {
        tensors.next().unwrap_or_else(|| Tensor::from(false))
    }))
}
