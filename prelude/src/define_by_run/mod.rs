//! Recording: define-by-run, with numbers while the closure runs.
//!
//! | function | what it does |
//! |---|---|
//! | [`record`] | runs a closure on data and keeps what it did: a [`Tape`] |
//! | [`record_within`], [`recorded_bytes`] | the same within a budget of bytes; how many there are so far |
//! | [`Var::value`], [`Var::item`] | the value of a `Var`, in the closure |
//! | [`recorded_vjp`] | [`vjp`] of a closure that asks for values, inside a recording |
//!
//! [`jit()`](crate::jit()) traces before there are numbers, so what a program does cannot depend on them but by
//! `select`, `cond` and loops of the language. A recording computes every operation at once. The closure may
//! ask for values and go on by Rust's own `if`, `while` and recursion, with lists that grow and structures
//! that are built on the way:
//!
//! ```
//! use tapeloom::prelude::*;
//!
//! // The root of x² = a by Newton's method, as many steps as it takes.
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
//! What [`Var::value`] gave is a Rust number from then on, and a constant to derivatives, as
//! [`stop_gradient`](Var::stop_gradient) is: the tape is the derivative of the path that was taken.
//!
//! **What is run how.** An operation is run by the interpreter when it is reached, once. A loop or a `cond`
//! is one operation, with its body traced as ever: inside, and in the closure of an inner transform, there
//! are no numbers, and asking for one is an error. What such a closure captures has them. What `grad(f)(x)`
//! does inside a recording is recorded like anything else. Effects happen when they are reached; random keys
//! and [`Ref`](crate::Ref)s are values, as everywhere.
//!
//! **What is kept.** While the closure runs, every value, since a `Var` may be asked at any time; then what
//! pulling back reads, and no more: [`Tape::bytes`] counts it. A tape is persistent; [`Tape::once`] makes it
//! one that is pulled back by value, and gives its memory back on the way.
//!
//! **Second order.** Inside a recording [`recorded_vjp`] pulls back, and what that does is recorded. Outside,
//! [`Tape::apply`] is the recorded path as a function, for any transform and for `jit`; [`Tape::compile`]
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
use tapeloom_ir::trace::{self, Context, Undo};
use tapeloom_ir::{ArrayType, Loc};

/// The value and the pullback, as [`vjp`]: `(A -> B) -> (A -> (B, B -> A))`; inside a recording the closure
/// runs where it stands, so that it may ask for values ([`Var::item`]), and what the pullback does is
/// recorded. Elsewhere it is `vjp`.
///
/// ```
/// use tapeloom::prelude::*;
/// // |x|³ by a Rust `if`, its second derivative by two tapes.
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
    let (results, output, undo) =
        trace::level(&handles(&args), at, |h| apply(f, &structure, h, at));
    let results = vars(&results);
    let of = Form::of::<B>(&output);
    let back = Back::of((ok, arg_types), (of, &results), undo, at);
    let y = rebuild(&output, results, at);
    (y, Box::new(move |ct| rebuild(&structure, back.pull(Flat::of(&ct)), at)))
}

/// The transform, for messages.
fn context(at: Loc) -> Context {
    Context { transform: "recorded_vjp", at }
}

/// The way back through a closure that was recorded.
struct Back {
    at: Loc,
    arg_types: Vec<ArrayType>,
    /// Of the result, and the types of its leaves.
    output: Form,
    types: Vec<ArrayType>,
    undo: Option<Undo>,
    /// Whether there is a derivative.
    ok: bool,
}

impl Back {
    fn of(
        (ok, arg_types): (bool, Vec<ArrayType>),
        (output, results): (Form, &[Var]),
        undo: Option<Undo>,
        at: Loc,
    ) -> Back {
        let types = results.iter().map(|v| v.ty(at)).collect();
        let ok = ok & require_floats(context(at), Side::Result, &output, results);
        Back { at, arg_types, output, types, undo, ok }
    }

    /// The cotangents of the arguments.
    fn pull(&self, ct: Flat) -> Vec<Var> {
        let at = self.at;
        let ct = same_types(context(at), &self.output, "cotangent", ct, &self.types);
        let (Some(undo), Some(ct), true) = (&self.undo, ct, self.ok) else {
            return self.arg_types.iter().map(|ty| Var::poison(ty.clone(), at)).collect();
        };
        let found = undo.pull(&handles(&ct), at).into_iter().zip(&self.arg_types);
        found.map(|(ct, ty)| ct.map_or_else(|| zeros_like_type(ty, at), Var::new)).collect()
    }
}
