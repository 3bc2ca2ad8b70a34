//! Recording, or define-by-run: operations are computed while the closure runs.
//!
//! | function | effect |
//! |---|---|
//! | [`record`] | runs a closure on data and returns a [`Tape`] of its operations |
//! | [`record_within`], [`recorded_bytes`] | runs a closure within a budget of bytes; returns the bytes used so far |
//! | [`Var::value`], [`Var::item`] | the value of a `Var`, inside the closure |
//! | [`recorded_vjp`] | [`vjp`] of a closure that reads values, inside a recording |
//!
//! [`jit()`](crate::jit()) traces before there are numbers, so the operations of a program can depend on data only
//! by `select`, `cond` and the loops of the library. A recording computes each operation immediately. The closure
//! may read values and use Rust's own `if`, `while` and recursion, lists that grow, and structures that are built
//! on the way:
//!
//! ```
//! use tapeloom::prelude::*;
//!
//! // The root of x² = a by Newton's method, with steps until convergence.
//! let root = |a: Var| {
//!     let mut x = a;
//!     while (x * x - a).abs().item::<f64>() > 1e-12 {
//!         x = 0.5 * (x + a / x);
//!     }
//!     x
//! };
//! let tape = record(root, 2.0)?;
//! assert!((tape.value().item::<f64>()? - 2.0f64.sqrt()).abs() < 1e-12);
//! let slope = tape.pull(1.0)?;
//! assert!((slope.item::<f64>()? - 0.5 / 2.0f64.sqrt()).abs() < 1e-9);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! The result of [`Var::value`] is a Rust number and a constant for derivatives, as after
//! [`stop_gradient`](Var::stop_gradient): the derivative of a tape is that of the path that was taken.
//!
//! **Execution.** The interpreter runs each operation once, when it is reached. A loop or a `cond` is one
//! operation, whose body is traced as usual. Inside such a body, and in the closure of an inner transform, there
//! are no numbers, and reading a value is an error; values that such a closure captures from the recording do have
//! numbers. The operations of `grad(f)(x)` inside a recording are recorded like all others. Effects happen when
//! they are reached. Random keys and [`Ref`](crate::Ref)s work as in any trace.
//!
//! **Memory.** While the closure runs, every value is stored, since any `Var` may be read later. Afterwards the
//! tape stores only the values that the reverse pass reads; [`Tape::bytes`] counts them. A tape can be pulled back
//! any number of times. [`Tape::once`] converts it to a tape that is consumed by its reverse pass, which frees the
//! memory as it proceeds.
//!
//! **Second order.** Inside a recording, [`recorded_vjp`] computes derivatives, and their operations are recorded.
//! Outside, [`Tape::apply`] is the recorded path as a function, for any transform and for `jit`; [`Tape::compile`]
//! compiles it.

mod tape;
mod value;

pub use tape::{Ephemeral, Persistent, Tape, record, record_within, recorded_bytes};

use crate::Var;
use crate::function::{Function, one};
use crate::ops::zeros_like_type;
use crate::staging::{Side, apply, handles, rebuild, require_floats, vars};
#[cfg(doc)]
use crate::transform::vjp;
use crate::transform::{same_types, vjp_at};
use crate::tree::{Flat, Form, Tree, flatten};
use crate::var::caller;
use tapeloom_ir::trace::{self, Context, Pullback};
use tapeloom_ir::{ArrayType, Loc};

/// Returns a closure that computes value and pullback, as [`vjp`] does: `(A -> B) -> (A -> (B, B -> A))`. Inside a
/// recording, the closure runs immediately, so that it may read values ([`Var::item`]), and the operations of the
/// pullback are recorded. Outside a recording, it is `vjp`.
///
/// ```
/// use tapeloom::prelude::*;
/// // The second derivative of |x|³, which uses a Rust `if`, by two tapes.
/// let f = |x: Var| if x.item::<f64>() < 0.0 { -x * x * x } else { x * x * x };
/// let slope = |x: Var| {
///     let (y, pull) = recorded_vjp(f)(x);
///     pull(y * 0.0 + 1.0)
/// };
/// let tape = record(slope, -2.0)?;
/// assert_eq!(tape.value().item::<f64>()?, -12.0);
/// assert_eq!(tape.pull(1.0)?.item::<f64>()?, 12.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`vjp`].
#[track_caller]
pub fn recorded_vjp<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(
    f: F,
) -> impl Fn(A) -> (B, Box<dyn Fn(B) -> A>) {
    let (f, at) = (one(f), caller());
    move |x| recorded_vjp_at(&f, at, x)
}

fn recorded_vjp_at<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    at: Loc,
    x: A,
) -> (B, Box<dyn Fn(B) -> A>) {
    if !trace::is_recording() {
        return vjp_at(f, at, x);
    }
    let (structure, args) = flatten(&x);
    let form = Form::of::<A>(&structure);
    let arg_types = args.iter().map(|v| v.ty(at)).collect();
    let ok = require_floats(context(at), Side::Argument, &form, &args);
    let (results, output, pullback) =
        trace::level(&handles(&args), at, |h| apply(f, &structure, h, at));
    let results = vars(&results);
    let of = Form::of::<B>(&output);
    let back = Back::of((ok, arg_types), (of, &results), pullback, at);
    let y = rebuild(&output, results, at);
    (y, Box::new(move |ct| rebuild(&structure, back.pull(Flat::of(&ct)), at)))
}

/// Returns the name of the transform and the line of the user's call, for messages.
fn context(at: Loc) -> Context {
    Context { transform: "recorded_vjp", at }
}

/// The reverse pass of a closure that was differentiated by [`recorded_vjp`].
struct Back {
    at: Loc,
    arg_types: Vec<ArrayType>,
    /// The form of the closure's result.
    output: Form,
    /// The types of the leaves of the closure's result.
    types: Vec<ArrayType>,
    pullback: Option<Pullback>,
    /// False after an error in the arguments or results, for example a result that is not of floats; `pull` then
    /// returns placeholders.
    ok: bool,
}

impl Back {
    fn of(
        (ok, arg_types): (bool, Vec<ArrayType>),
        (output, results): (Form, &[Var]),
        pullback: Option<Pullback>,
        at: Loc,
    ) -> Back {
        let types = results.iter().map(|v| v.ty(at)).collect();
        let ok = ok & require_floats(context(at), Side::Result, &output, results);
        Back { at, arg_types, output, types, pullback, ok }
    }

    /// Computes the cotangents of the arguments from the cotangents `ct` of the results.
    fn pull(&self, ct: Flat) -> Vec<Var> {
        let at = self.at;
        let ct = same_types(context(at), &self.output, "cotangent", ct, &self.types);
        let (Some(pullback), Some(ct), true) = (&self.pullback, ct, self.ok) else {
            return self.arg_types.iter().map(|ty| Var::poison(ty.clone(), at)).collect();
        };
        let found = pullback.pull(&handles(&ct), at).into_iter().zip(&self.arg_types);
        found.map(|(ct, ty)| ct.map_or_else(|| zeros_like_type(ty, at), Var::new)).collect()
    }
}
