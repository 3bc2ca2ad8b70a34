//! The value of a `Var` during a recording.

use crate::Var;
use crate::var::caller;
use tapeloom_ir::trace;
use tapeloom_ir::{Element, Tensor};

/// Values during a recording.
impl Var {
    /// Returns the value, inside the closure given to [`record`](crate::record()). The value is a Rust value and a
    /// constant for derivatives.
    ///
    /// A `Var` has no value inside a closure that is traced before there are numbers (the closure of `jit`, of a
    /// transform inside a recording, of a loop or of a branch). There it is a `no-value` error, which ends the closure
    /// and is returned at its boundary.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let tape = record(|x: Var| {
    ///     let signs: Vec<f64> = x.value().to_vec().unwrap_or_default();
    ///     let wanted = signs.iter().filter(|s| **s > 0.0).count();
    ///     x.sum() / wanted as f64
    /// }, [1.0, -1.0, 3.0])?;
    /// assert_eq!(tape.value().item::<f64>()?, 1.5);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn value(self) -> Tensor {
        trace::value(self.handle, "value", caller())
    }

    /// Returns the value of a scalar as a Rust number: [`Var::value`] and [`Tensor::item`] in one.
    ///
    /// Errors: those of [`Var::value`]; `shape` if the value does not have exactly one element; `dtype` if `T` is
    /// not its element type.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |x: Var| if x.item::<f64>() > 0.0 { x.ln() } else { x * 0.0 };
    /// assert_eq!(record(f, 2.0)?.pull(1.0)?.item::<f64>()?, 0.5);
    /// assert_eq!(record(f, -2.0)?.pull(1.0)?.item::<f64>()?, 0.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn item<T: Element>(self) -> T {
        trace::item(self.handle, caller())
    }
}
