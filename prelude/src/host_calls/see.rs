//! Values seen on the way.

use super::callback::tree;
use super::lines::lines;
use crate::Var;
use crate::transform::custom_vjp;
use crate::tree::{Tree, flatten, leaf_paths};
use crate::var::{caller, on_behalf};
use std::io::Write as _;
use std::sync::Arc;
use tapeloom_ir::prim::Callback;
use tapeloom_ir::{Host, Lane, Loc, Tensor, trace};

/// Prints a value to the standard error, whenever the program comes by: its name, the member of a batch
/// that it belongs to, the line.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|x: Var| {
///     let y = x.sin();
///     debug_print("y", y);
///     y * y
/// });
/// f.call(0.5)?; // y = 0.479425538604203 (src/main.rs:4:5)
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// When things are seen, and how often: [the module](crate::host_calls) says.
#[track_caller]
pub fn debug_print<A: Tree<Var>>(name: &str, x: A) {
    let at = caller();
    let paths = leaf_paths::<Var, A>(&x.structure(), name);
    see("debug_print", &x, at, move |lane, x| {
        let text = lines(&paths, lane, x, at);
        // A closed standard error does not end the program.
        let _ = std::io::stderr().write_all(text.as_bytes());
    });
}

/// `x`, which is shown to `f` whenever the program comes by.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use tapeloom::prelude::*;
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = seen.clone();
/// let f = jit(grad(move |x: Var| {
///     let log = log.clone();
///     let y = tap(x.exp(), move |y: Tensor| log.lock().unwrap().extend(y.item::<f64>()));
///     y * y
/// }));
/// assert_eq!(f.call(0.0)?.item::<f64>()?, 2.0);
/// assert_eq!(*seen.lock().unwrap(), [1.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// When things are seen, and how often: [the module](crate::host_calls) says. A panic of `f` is a `callback`
/// error of the call.
#[track_caller]
#[doc(alias = "debug_callback")]
pub fn tap<A: Tree<Var>>(x: A, f: impl Fn(A::With<Tensor>) + Send + Sync + 'static) -> A {
    let structure = x.structure();
    let at = caller();
    see("tap", &x, at, move |_, x| {
        if let Ok(x) = tree::<A>(&structure, x) {
            f(x);
        }
    });
    x
}

/// `x`, whose cotangent is shown to `f` when reverse mode comes by, on its way back: the derivative of
/// what is differentiated by this use of `x`.
///
/// Nothing is shown where there is no reverse mode, or where `x` has no part in what is differentiated.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use tapeloom::prelude::*;
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = seen.clone();
/// let f = jit(grad(move |x: Var| {
///     let log = log.clone();
///     let y = tap_cotangent(x.sin(), move |ct: Tensor| log.lock().unwrap().extend(ct.item::<f64>()));
///     3.0 * y
/// }));
/// assert_eq!(f.call(0.0)?.item::<f64>()?, 3.0);
/// assert_eq!(*seen.lock().unwrap(), [3.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn tap_cotangent<A: Tree<Var>>(x: A, f: impl Fn(A::With<Tensor>) + Send + Sync + 'static) -> A {
    let (f, at) = (Arc::new(f), caller());
    let shown = move |(), ct: A| {
        let f = f.clone();
        tap(ct, move |ct| f(ct))
    };
    on_behalf("tap_cotangent", at, || custom_vjp(|x: A| x, |x: A| (x, ()), shown)(x))
}

/// Emits an effect that is given the leaves of `x`.
fn see<A: Tree<Var>>(
    name: &str,
    x: &A,
    at: Loc,
    f: impl Fn(Lane, &[Tensor]) + Send + Sync + 'static,
) {
    let answer = move |lane: Lane, x: &[Tensor]| {
        f(lane, x);
        Ok(Vec::new())
    };
    let operands: Vec<_> = flatten(x).1.iter().map(|v| v.handle).collect();
    trace::bind(Callback::new(Host::new(name, answer, None), Vec::new()), &operands, at);
}
