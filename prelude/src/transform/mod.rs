//! Transforms: closures to closures.
//!
//! | transform | of `f: A -> B` | gives |
//! |---|---|---|
//! | [`grad`] | `A -> Var` | `A -> A`, the gradient |
//! | [`value_and_grad`] | `A -> Var` | `A -> (Var, A)` |
//! | [`jvp`] | `A -> B` | `(A, A) -> (B, B)`, value and derivative along a tangent |
//! | [`vjp`] | `A -> B` | `A -> (B, pullback: B -> A)` |
//! | [`linearize`] | `A -> B` | `A -> (B, pushforward: A -> B)` |
//! | [`linear_transpose`] | `A -> B`, linear | `B -> A`, its transpose |
//! | [`jacfwd`], [`jacrev`] | `A -> Var` | `A -> A`, the Jacobian |
//! | [`hessian`], [`hvp`] | `A -> Var` | second derivatives |
//! | [`vmap`] | `A -> B` | the same over a batch |
//! | [`checkpoint`] | `A -> B` | the same, of which reverse mode keeps what a [`Policy`](crate::Policy) says |
//! | [`checkpoint_carries`] | `A -> B` | the same, of whose loops reverse mode keeps so many carries |
//! | [`outline`] | `A -> B` | the same, traced and differentiated once |
//! | [`custom_jvp`], [`custom_vjp`], [`custom_rules`] | `A -> B` | the same, with derivative rules of its own |
//!
//! Each traces its closure into a closed function, derives another function from that and calls it.
//! So they compose in any order: `grad(grad(f))`, `vmap(grad(f))`, `jvp` of `vjp`, and a closure may
//! use any `Var` around it.

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
pub(crate) use outline::call_once_traced;
pub(crate) use reverse::vjp_at;
