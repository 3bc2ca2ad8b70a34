//! `outline`: a closure that is traced, differentiated and compiled once, and called any number of times.

use crate::Var;
use crate::function::{Function, one};
use crate::prng::Rng;
use crate::staging::{Staged, rebuild, stage, vars};
use crate::tree::{Flat, Form, Tree};
use crate::var::caller;
use std::rc::Rc;
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace::{self, CapturedState, Handle};
use tapeloom_ir::{ArrayType, FuncId, Loc};

/// Returns `f` as a closure that is traced once for each kind of argument (structure, shapes and dtypes). Later uses
/// emit calls of the traced function: `(A -> B) -> (A -> B)`.
///
/// A Rust loop or recursion copies its body into the program at every repetition. An outlined body exists once, in
/// the program, in its derivatives and in the machine code, so the size of programs with repetition or with
/// recursion over sizes grows only linearly. A function that is called once, or is smaller than a call, is inlined
/// after all; `explain` shows that.
///
/// Calls may nest a hundred deep, other transforms included; deeper nesting is a `too-large` error.
///
/// Rust values that the closure captures are read when it is traced, as in every transform.
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

/// A traced closure, which is stored until the end of the surrounding trace.
struct Outlined {
    /// The structure of the argument.
    form: Form,
    types: Vec<ArrayType>,
    function: FuncId,
    captures: Vec<Handle>,
    /// The captures that are state: each call reads their current values.
    held: Vec<CapturedState>,
    /// The captures that are random keys drawn for the closure, with their generators. Each call draws new keys.
    generators: Vec<(usize, Rng)>,
    /// The structure of the result.
    output: Form,
}

impl Outlined {
    /// If a function is stored under `number` for arguments of this structure and these types, returns it and the
    /// current values of its captures.
    fn lookup_traced(number: u64, args: &Flat, at: Loc) -> Option<(Rc<Outlined>, Vec<Handle>)> {
        if crate::prng::marks() {
            return None;
        }
        let types: Vec<ArrayType> = args.leaves.iter().map(|v| v.ty(at)).collect();
        // Use a stored function only if all of its captures are still in scope: a value that belongs to a closure which
        // has returned cannot be passed again.
        let known =
            |o: &Rc<Outlined>| o.form == args.form && o.types == types && o.captures().is_some();
        let known = trace::recall::<Rc<Outlined>>(number, known)?;
        let captures = known.captures()?;
        Some((known, captures))
    }

    /// Emits a call of a closure that was just traced. If tracing had no errors, stores the closure for later calls.
    fn store_traced(number: u64, staged: &Staged) -> Vec<Var> {
        let Some(function) = staged.function() else {
            return staged.poison(&staged.result_types());
        };
        let (form, output) = (staged.form().clone(), staged.output().clone());
        let (types, captures) = (staged.arg_types(), staged.captures().to_vec());
        let held = staged.held().to_vec();
        let drawn = captures.iter().enumerate();
        let generators = drawn.filter_map(|(i, h)| Some((i, Rng::outer_generator(*h)?))).collect();
        let results = staged.call(function, &staged.args, [], true);
        trace::remember(
            number,
            Rc::new(Outlined { form, types, function, captures, held, generators, output }),
        );
        results
    }

    /// Emits another call of the stored function. Random keys among the captures are drawn anew.
    fn call(&self, args: &[Var], mut captures: Vec<Handle>, at: Loc) -> Vec<Var> {
        for (capture, rng) in &self.generators {
            captures[*capture] = rng.draw(at).handle;
        }
        let operands: Vec<Handle> = args.iter().map(|v| v.handle).chain(captures).collect();
        vars(&trace::bind(Call::outline(self.function), &operands, at))
    }

    /// Returns the current values of the captures, or `None` if one of them is out of scope.
    fn captures(&self) -> Option<Vec<Handle>> {
        let mut captures = self.captures.clone();
        for held in &self.held {
            captures[held.capture] = held.state.now()?;
        }
        captures.iter().all(|h| trace::is_live(*h)).then_some(captures)
    }
}

/// Emits a call of `f`. If no function for arguments of this kind is stored under `number` in this trace, traces `f`
/// first.
pub(crate) fn call_once_traced<A: Tree<Var>, B: Tree<Var>>(
    transform: &'static str,
    number: u64,
    at: Loc,
    f: &dyn Fn(A) -> B,
    x: A,
) -> B {
    let args = Flat::of(&x);
    if let Some((known, captures)) = Outlined::lookup_traced(number, &args, at)
        && let Some(output) = known.output.structure::<B>()
    {
        return rebuild(output, known.call(&args.leaves, captures, at), at);
    }
    let (staged, _, output) = stage(transform, at, f, x);
    rebuild(&output, Outlined::store_traced(number, &staged), at)
}
