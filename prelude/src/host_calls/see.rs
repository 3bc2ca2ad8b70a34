//! Effects that show values while a program runs.

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

/// Prints a value to the standard error each time the program reaches it, with its name, the number of the batch
/// member, and the line.
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
/// [The module](crate::host_calls) describes order and number of calls.
#[track_caller]
pub fn debug_print<A: Tree<Var>>(name: &str, x: A) {
    let at = caller();
    let paths = leaf_paths::<Var, A>(&x.structure(), name);
    emit_effect("debug_print", &x, at, move |lane, x| {
        let text = lines(&paths, lane, x, at);
        // Ignore errors, so that a closed standard error does not end the program.
        let _ = std::io::stderr().write_all(text.as_bytes());
    });
}

/// Returns `x`, and passes its value to `f` each time the program reaches it.
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
/// [The module](crate::host_calls) describes order and number of calls. A panic of `f` is a `callback` error of the
/// call.
#[track_caller]
#[doc(alias = "debug_callback")]
pub fn tap<A: Tree<Var>>(x: A, f: impl Fn(A::With<Tensor>) + Send + Sync + 'static) -> A {
    let structure = x.structure();
    let at = caller();
    emit_effect("tap", &x, at, move |_, x| {
        if let Ok(x) = tree::<A>(&structure, x) {
            f(x);
        }
    });
    x
}

/// Returns `x`, and passes its cotangent to `f` when the reverse pass reaches it. The cotangent is the derivative
/// of the differentiated result with respect to this use of `x`.
///
/// Without reverse mode, or if the differentiated result does not depend on `x`, `f` is not called.
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

/// Emits an effect that calls `f` with the leaves of `x` and the number of the batch member.
fn emit_effect<A: Tree<Var>>(
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
