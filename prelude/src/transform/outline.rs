//! `outline`: a closure that is traced, differentiated and compiled once and called many times.

use crate::Var;
use crate::function::{Function, one};
use crate::prng::Rng;
use crate::staging::{Staged, rebuild, stage, vars};
use crate::tree::{Flat, Form, Tree};
use crate::var::caller;
use std::rc::Rc;
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace::{self, Handle, Held};
use tapeloom_ir::{ArrayType, FuncId, Loc};

/// The same function, traced once per kind of argument and then called: `(A -> B) -> (A -> B)`.
///
/// A Rust loop or recursion copies what it runs into the program. Outlined, the body is there once,
/// in the program, in its derivatives and in the compiled code, so that repeated and size-recursive
/// programs stay linear in size. What is called once, or is smaller than a call, is inlined after all;
/// `explain` says so.
///
/// Calls may nest a hundred deep, other transforms counted; more is a `too-large` error.
///
/// What the closure captures is read when it is traced, as always.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|x: Var| {
///     let step = outline(|x: Var| x + 0.1 * x.sin());
///     (0..100).fold(x, |x, _| step(x))
/// });
/// assert!((f.call(1.0)?.item::<f64>()? - 3.14).abs() < 0.01);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn outline<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(f: F) -> impl Fn(A) -> B {
    let (f, at) = (one(f), caller());
    let number = trace::unique();
    move |x| call_once_traced("outline", number, at, &f, x)
}

/// What is remembered of a traced closure while the trace lasts.
struct Outlined {
    /// Of the argument.
    form: Form,
    types: Vec<ArrayType>,
    function: FuncId,
    captures: Vec<Handle>,
    /// Which captures are state, of which a call reads what it is then.
    held: Vec<Held>,
    /// Which captures are keys that were drawn for the closure, of which a call draws its own.
    generators: Vec<(usize, Rng)>,
    /// Of the result.
    output: Form,
}

impl Outlined {
    /// What was traced under that number for such arguments, and what to pass for the captures now.
    fn recall(number: u64, args: &Flat, at: Loc) -> Option<(Rc<Outlined>, Vec<Handle>)> {
        if crate::prng::marks() {
            return None;
        }
        let types: Vec<ArrayType> = args.leaves.iter().map(|v| v.ty(at)).collect();
        // A capture of a frame that is closed by now cannot be passed again.
        let known =
            |o: &Rc<Outlined>| o.form == args.form && o.types == types && o.captures().is_some();
        let known = trace::recall::<Rc<Outlined>>(number, known)?;
        let captures = known.captures()?;
        Some((known, captures))
    }

    /// Remembers a closure that was traced, unless there was an error: a call of it.
    fn remember(number: u64, staged: &Staged) -> Vec<Var> {
        let Some(function) = staged.function() else {
            return staged.poison(&staged.result_types());
        };
        let (form, output) = (staged.form().clone(), staged.output().clone());
        let (types, captures) = (staged.arg_types(), staged.captures().to_vec());
        let held = staged.held().to_vec();
        let drawn = captures.iter().enumerate();
        let generators = drawn.filter_map(|(i, h)| Some((i, Rng::behind(*h)?))).collect();
        let results = staged.call(function, &staged.args, [], true);
        trace::remember(
            number,
            Rc::new(Outlined { form, types, function, captures, held, generators, output }),
        );
        results
    }

    /// A call more.
    fn call(&self, args: &[Var], mut captures: Vec<Handle>, at: Loc) -> Vec<Var> {
        for (capture, rng) in &self.generators {
            captures[*capture] = rng.draw(at).handle;
        }
        let operands: Vec<Handle> = args.iter().map(|v| v.handle).chain(captures).collect();
        vars(&trace::bind(Call::outline(self.function), &operands, at))
    }

    /// What to pass for the captures now; `None` if there is one that has no value any more.
    fn captures(&self) -> Option<Vec<Handle>> {
        let mut captures = self.captures.clone();
        for held in &self.held {
            captures[held.capture] = held.state.now()?;
        }
        captures.iter().all(|h| trace::is_live(*h)).then_some(captures)
    }
}

/// Calls `f`, tracing it unless this `number` has been traced for such arguments in this trace.
pub(crate) fn call_once_traced<A: Tree<Var>, B: Tree<Var>>(
    transform: &'static str,
    number: u64,
    at: Loc,
    f: &dyn Fn(A) -> B,
    x: A,
) -> B {
    let args = Flat::of(&x);
    if let Some((known, captures)) = Outlined::recall(number, &args, at)
        && let Some(output) = known.output.structure::<B>()
    {
        return rebuild(output, known.call(&args.leaves, captures, at), at);
    }
    let (staged, _, output) = stage(transform, at, f, x);
    rebuild(&output, Outlined::remember(number, &staged), at)
}
