//! `outline`: a closure that is traced, differentiated and compiled once and called many times.

use crate::Var;
use crate::closure::{Staged, rebuild, stage};
use crate::function::{Function, one};
use crate::random::Rng;
use crate::tree::{Tree, flatten};
use crate::var::caller;
use std::rc::Rc;
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
    let f = one(f);
    let at = caller();
    let number = trace::unique();
    move |x| call_once_traced("outline", number, at, &f, x)
}

/// What is remembered of a traced closure while the trace lasts.
struct Outlined<S, T> {
    structure: S,
    types: Vec<ArrayType>,
    function: FuncId,
    captures: Vec<Handle>,
    /// Which captures are state, of which a call reads what it is then.
    held: Vec<Held>,
    /// Which captures are keys that were drawn for the closure, of which a call draws its own.
    generators: Vec<(usize, Rng)>,
    output: T,
}

impl<S, T> Outlined<S, T> {
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
    f: impl Fn(A) -> B,
    x: A,
) -> B {
    let (structure, args) = flatten(&x);
    let types: Vec<ArrayType> = args.iter().map(|v| v.ty(at)).collect();
    let known = trace::recall::<Rc<Outlined<A::Structure, B::Structure>>>(number, |o| {
        o.structure == structure
            && o.types == types
            // A capture of a frame that is closed by now cannot be passed again.
            && o.captures().is_some()
    });
    let known = known.filter(|_| !crate::random::marks());
    if let Some((known, mut captures)) = known.and_then(|k| k.captures().map(|c| (k, c))) {
        for (capture, rng) in &known.generators {
            captures[*capture] = rng.draw(at).handle;
        }
        let operands: Vec<Handle> = args.iter().map(|v| v.handle).chain(captures).collect();
        let call = tapeloom_ir::prim::Call::outline(known.function);
        let results = trace::bind(call, &operands, at).into_iter().map(Var::new).collect();
        return rebuild(&known.output, results, at);
    }
    let x = rebuild::<A>(&structure, args, at);
    let (staged, structure): (Staged<B::Structure>, _) = stage(transform, at, f, x);
    let Some(function) = staged.function() else {
        return rebuild(staged.output(), staged.poison(&staged.result_types()), at);
    };
    let (output, captures) = (staged.output().clone(), staged.captures().to_vec());
    let held = staged.held().to_vec();
    let drawn = captures.iter().enumerate();
    let generators = drawn.filter_map(|(i, h)| Some((i, Rng::behind(*h)?))).collect();
    let results = staged.call(function, &staged.args, [], true);
    let tree = rebuild(&output, results, at);
    trace::remember(
        number,
        Rc::new(Outlined { structure, types, function, captures, held, generators, output }),
    );
    tree
}
