//! Transforms: functions from closures to closures.
//!
//! | transform | argument `f` | returned closure |
//! |---|---|---|
//! | [`grad`] | `A -> Var` | `A -> A`, the gradient |
//! | [`value_and_grad`] | `A -> Var` | `A -> (Var, A)` |
//! | [`jvp`] | `A -> B` | `(A, A) -> (B, B)`, value and derivative along a tangent |
//! | [`vjp`] | `A -> B` | `A -> (B, pullback: B -> A)` |
//! | [`linearize`] | `A -> B` | `A -> (B, pushforward: A -> B)` |
//! | [`linear_transpose`] | `A -> B`, linear | `B -> A`, its transpose |
//! | [`jacfwd`], [`jacrev`] | `A -> Var` | `A -> A`, the Jacobian |
//! | [`hessian`], [`hvp`] | `A -> Var` | second derivatives |
//! | [`vmap`] | `A -> B` | `f` over a batch |
//! | [`checkpoint`] | `A -> B` | `f`, whose reverse pass saves or recomputes values by a [`Policy`](crate::Policy) |
//! | [`checkpoint_carries`] | `A -> B` | `f`, whose loops save a fixed number of carries for the reverse pass |
//! | [`outline`] | `A -> B` | `f`, traced and differentiated once |
//! | [`custom_jvp`], [`custom_vjp`], [`custom_rules`] | `A -> B` | `f`, with your own derivative rules |
//!
//! Each transform traces its closure into a closed function of the IR, derives a new function from it and calls
//! the new function. So transforms compose in any order: `grad(grad(f))`, `vmap(grad(f))`, `jvp` of `vjp`. A
//! closure may use any `Var` of the surrounding trace.

mod checkpoint;
mod custom;
mod forward;
mod gradient;
mod jacobian;
mod outline;
mod reverse;
mod vectorize;

pub use checkpoint::{checkpoint, checkpoint_carries};
pub use custom::{custom_jvp, custom_rules, custom_vjp};
pub use forward::{jvp, linearize};
pub use gradient::{grad, grad_aux, value_and_grad, value_and_grad_aux};
pub use jacobian::{hessian, hvp, jacfwd, jacrev};
pub use outline::outline;
pub use reverse::{linear_transpose, vjp};
#[doc(hidden)]
pub use vectorize::axes_of_struct;
pub(crate) use vectorize::vectorize;
pub use vectorize::{AxisLeaf, BatchAxes, vmap, vmap_axes};

pub(crate) use forward::{other_structure, other_type, same_types};
#[cfg(feature = "object")]
pub(crate) use gradient::value_and_grad_at;
pub(crate) use outline::call_once_traced;
pub(crate) use reverse::vjp_at;
