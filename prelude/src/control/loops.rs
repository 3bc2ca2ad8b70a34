//! `scan`, `fori_loop`, `while_loop` and `map`: loops over a closure.

use super::shared::{Shared, single};
use crate::Var;
use crate::function::{Function, one};
use crate::staging::{Staged, WHILE_LOOP, like, rebuild, stage_in, vars};
use crate::tree::{Form, Tree, flatten};
use crate::var::caller;
use tapeloom_ir::prim::{Binding, Direction, Loop, LoopSpec, OutputSource, TripCount};
use tapeloom_ir::trace::{self, Diagnostic, Handle, Note, Param};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Module, Problem};

/// Runs `f: (carry, x) -> (carry, y)` for each element x of `xs`, from the first to the last. Returns the last
/// carry, and all `y` stacked along a new axis 0.
///
/// The leaves of `xs` have the same extent along axis 0; iteration i gets element i of each leaf. The types of the
/// carry must not change. The body is traced and compiled once. Reverse mode saves residuals of every iteration,
/// and its loop runs in the opposite direction. A recursive filter is a scan whose carry is its last outputs.
///
/// ```
/// use tapeloom::prelude::*;
/// // Solves y' = -y by Euler's method, with the step sizes h.
/// let solve = |(y, h): (Var, Var)| scan(|(y, h): (Var, Var)| (y - h * y, y), y, h).0;
/// let f = jit(value_and_grad(solve));
/// let (y, (dy, dh)) = f.call((1.0, [0.5, 0.25]))?;
/// assert_eq!((y.item::<f64>()?, dy.item::<f64>()?), (0.375, 0.375));
/// assert_eq!(dh, Tensor::from([-0.75, -0.5]));
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the leaves of `xs` differ in their extent; `shape` or `dtype` if an iteration changes the
/// type of a carry; `arguments` if it changes its form.
#[doc(alias = "lfilter")]
#[track_caller]
pub fn scan<C, X, Y, F, M>(f: F, init: C, xs: X) -> (C, Y)
where
    C: Tree<Var>,
    X: Tree<Var>,
    Y: Tree<Var>,
    F: Function<(C, X), (C, Y), M>,
{
    over("scan", caller(), Direction::Up, &one(f), &init, &xs)
}

/// Runs [`scan`] from the last element to the first. Element i of the stacked results belongs to element i of `xs`.
/// The errors are those of [`scan`].
///
/// ```
/// use tapeloom::prelude::*;
/// let suffix_sums = jit(|x: Var| scan_reverse(|(s, x): (Var, Var)| (s + x, s + x), zeros([], Dtype::F64), x).1);
/// assert_eq!(suffix_sums.call([1.0, 2.0, 3.0])?, Tensor::from([6.0, 5.0, 3.0]));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn scan_reverse<C, X, Y, F, M>(f: F, init: C, xs: X) -> (C, Y)
where
    C: Tree<Var>,
    X: Tree<Var>,
    Y: Tree<Var>,
    F: Function<(C, X), (C, Y), M>,
{
    over("scan_reverse", caller(), Direction::Down, &one(f), &init, &xs)
}

/// Runs `f` on each element of `xs` and stacks the results.
///
/// The elements are processed one after the other. To process all elements at once, use [`vmap`](crate::vmap).
///
/// Errors: `shape` if the leaves of `xs` differ in their extent.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|x: Var| map(|row: Var| row.dot(row), x));
/// assert_eq!(f.call([[1.0, 2.0], [3.0, 4.0]])?, Tensor::from([5.0, 25.0]));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn map<X: Tree<Var>, Y: Tree<Var>, F: Function<X, Y, M>, M>(f: F, xs: X) -> Y {
    mapped(&one(f), caller(), &xs)
}

fn mapped<X: Tree<Var>, Y: Tree<Var>>(f: &dyn Fn(X) -> Y, at: Loc, xs: &X) -> Y {
    over("map", at, Direction::Up, &|((), x)| ((), f(x)), &(), xs).1
}

/// The number of iterations of a [`fori_loop`]: a `usize`, which is a constant of the program, or a [`Var`] (a
/// single `i64`), whose value is known at run time.
pub trait Count {
    /// Returns the number of iterations if it is a constant. If it is a `Var`, returns the `Var` as the error value.
    #[doc(hidden)]
    fn iterations(self) -> Result<usize, Var>;
}

impl Count for usize {
    fn iterations(self) -> Result<usize, Var> {
        Ok(self)
    }
}

impl Count for Var {
    fn iterations(self) -> Result<usize, Var> {
        Err(self)
    }
}

/// Runs `f: (i, carry) -> carry` `n` times, where i is the number of the iteration, an `i64` that starts at 0. Returns
/// the last carry.
///
/// ```
/// use tapeloom::prelude::*;
/// let sqrt = jit(grad(|a: Var| fori_loop(6, |(_, x): (Var, Var)| (x + a / x) / 2.0, a)));
/// assert!((sqrt.call(4.0)?.item::<f64>()? - 0.25).abs() < 1e-12);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// `n` may also be a `Var`, a single `i64` known at run time. Then one program serves all numbers of iterations. A
/// negative number counts as 0.
///
/// ```
/// use tapeloom::prelude::*;
/// let power = jit(|(x, n): (Var, Var)| fori_loop(n, |(_, y): (Var, Var)| x * y, x.ones_like()));
/// assert_eq!(power.call((2.0, 10i64))?.item::<f64>()?, 1024.0);
/// assert_eq!(power.call((2.0, 0i64))?.item::<f64>()?, 1.0);
/// assert_eq!(power.programs(), 1);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` or `dtype` if an iteration changes the type of a carry, or if `n` is not a single `i64`;
/// `arguments` if an iteration changes the form of the carry.
#[track_caller]
pub fn fori_loop<C, F, M>(n: impl Count, f: F, init: C) -> C
where
    C: Tree<Var>,
    F: Function<(Var, C), C, M>,
{
    counted(n.iterations(), &one(f), caller(), &init)
}

fn counted<C: Tree<Var>>(n: Result<usize, Var>, f: &dyn Fn((Var, C)) -> C, at: Loc, init: &C) -> C {
    let (structure, carries) = flatten(init);
    let form = Form::of::<C>(&structure);
    let index = Param::new(ArrayType::new(Dtype::I64, []), at);
    let params: Vec<Param> = std::iter::once(index).chain(like(&carries, at)).collect();
    let opened = trace::body("fori_loop", at, &params);
    // The number of the iteration is a parameter of the body but no operand of the loop. So only its tree structure is
    // passed here, without a value.
    let (staged, output) = stage_in(opened, f, &((), structure), carries);
    rebuild(&output, counted_results(n, &staged, &form), at)
}

fn counted_results(n: Result<usize, Var>, staged: &Staged, form: &Form) -> Vec<Var> {
    let mut fits = same_carry(staged, staged.output(), form);
    let slots = std::iter::once(Binding::Index).chain((0..staged.args.len()).map(Binding::Carry));
    let (trip, lead) = match n {
        Ok(n) => (TripCount::Static(n), None),
        Err(n) => {
            fits &= single("fori_loop", "a number of iterations", Dtype::I64, n, staged.at);
            (TripCount::Runtime, Some(n))
        }
    };
    rolled(staged, fits, trip, lead, Direction::Up, slots.collect())
}

/// Runs `f: carry -> carry` as long as `condition(carry)` is true. Returns the last carry. The number of iterations is
/// known only at run time.
///
/// ```
/// use tapeloom::prelude::*;
/// let small = |(x, _): (Var, Var)| x.lt(100.0);
/// let squares = move |x: Var| while_loop(small, |(x, n)| (x * x, n + 1), (x, constant(0i64)));
/// let (x, n) = jit(squares).call(3.0)?;
/// assert_eq!((x.item::<f64>()?, n.item::<i64>()?), (6561.0, 3));
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Derivatives are those of the iterations that ran. Under [`vmap`](crate::vmap), members may have different
/// numbers of iterations; the carry of a member that has ended does not change any more.
///
/// Errors: `shape` or `dtype` if an iteration changes the type of a carry, or if the condition is not a single
/// truth value; `arguments` if an iteration changes the form of the carry, or if the condition has an effect;
/// `state` if the condition writes to a `Ref`.
#[track_caller]
pub fn while_loop<C, P, F, M, N>(condition: P, f: F, init: C) -> C
where
    C: Tree<Var>,
    P: Function<C, Var, M>,
    F: Function<C, C, N>,
{
    conditional(&one(condition), &one(f), caller(), &init)
}

fn conditional<C: Tree<Var>>(
    condition: &dyn Fn(C) -> Var,
    f: &dyn Fn(C) -> C,
    at: Loc,
    init: &C,
) -> C {
    let (form, carries) = flatten(init);
    let params = like(&carries, at);
    let opened = trace::frame(WHILE_LOOP, at, &params);
    let (asked, ()) = stage_in(opened, condition, &form, carries.clone());
    let opened = trace::body(WHILE_LOOP, at, &params);
    let (staged, output) = stage_in(opened, f, &form, carries);
    rebuild(&output, conditional_results(&asked, &staged), at)
}

fn conditional_results(asked: &Staged, staged: &Staged) -> Vec<Var> {
    let at = staged.at;
    let fits = same_carry(staged, staged.output(), staged.form()) && answers(asked, at);
    let functions = asked.function().zip(staged.function()).filter(|_| fits);
    let bound = functions.and_then(|(condition, body)| {
        let shared = Shared::of(&[staged.taken(), asked.taken()], at);
        let whole = |m: &mut Module| {
            let n = staged.args.len();
            Ok((shared.with_written_state(m, body, staged, 0)?, shared.with(m, condition, n, 1)?))
        };
        let (body, condition) = match trace::with_module(whole)? {
            Ok(functions) => functions,
            Err(problem) => {
                staged.report(Diagnostic::new(problem, at));
                return None;
            }
        };
        let slots = (0..staged.args.len()).map(Binding::Carry);
        let own = staged.args.len();
        let place =
            |i| shared.written.get_index_of(&i).map_or(Binding::Const, |k| Binding::Carry(own + k));
        let takes: Vec<Binding> = slots.chain((0..shared.captures.len()).map(place)).collect();
        let trip = TripCount::While { condition, reads: (0..takes.len()).collect() };
        let spec = LoopSpec { trip, direction: Direction::Up, takes };
        let operands: Vec<Handle> =
            staged.args.iter().map(|v| v.handle).chain(shared.captures.iter().copied()).collect();
        let mut results = bind(Loop::new(body, spec), &operands, at);
        // The last result of the loop is the number of its iterations, which `while_loop` does not return.
        results.pop();
        Some(shared.store_state(results))
    });
    match bound {
        Some(results) => vars(&results),
        None => {
            staged.spoil();
            staged.poison(&staged.result_types())
        }
    }
}

/// Checks that the condition of a `while_loop` returns a single bool. Otherwise reports an error and returns false.
fn answers(asked: &Staged, at: Loc) -> bool {
    let (types, want) = (asked.result_types(), ArrayType::new(Dtype::Bool, []));
    if types == [want] || asked.poisoned_results().contains(&true) {
        return !asked.poisoned_results().contains(&true);
    }
    let found = types.first().map(ToString::to_string).unwrap_or_default();
    let message =
        format!("the condition of `while_loop` must return a single bool, and returns {found}");
    let help = "reduce it with `.all()` or `.any()`, or compare";
    let kind = match types.first() {
        Some(ty) if ty.dtype == Dtype::Bool => Kind::Shape,
        _ => Kind::Dtype,
    };
    let note = Note { role: "condition".to_owned(), what: found, born: asked.result_born(0) };
    let problem = Problem::new(kind, message, help);
    asked.report(Diagnostic { problem, at, notes: vec![note], context: Vec::new() });
    false
}

pub(super) fn over<C: Tree<Var>, X: Tree<Var>, Y: Tree<Var>>(
    transform: &'static str,
    at: Loc,
    direction: Direction,
    f: &dyn Fn((C, X)) -> (C, Y),
    init: &C,
    xs: &X,
) -> (C, Y) {
    let (carry, carries) = flatten(init);
    let (element, elements) = flatten(xs);
    let form = Form::of::<C>(&carry);
    let over = ElementLoop::of(transform, carries.len(), &elements, at);
    let params = over.params(&carries, &elements, at);
    let opened = trace::body(transform, at, &params);
    let args = [carries, elements].concat();
    let (staged, output) = stage_in(opened, f, &(carry, element), args);
    let given = Form::of::<C>(&output.0);
    rebuild(&output, over.results(&staged, &given, &form, direction), at)
}

/// A loop with one iteration for each element of its arrays along axis 0.
struct ElementLoop {
    carries: usize,
    /// The number of elements of each array; `None` after an error, for example if the arrays have different numbers of
    /// elements.
    extent: Option<usize>,
}

impl ElementLoop {
    fn of(transform: &'static str, carries: usize, elements: &[Var], at: Loc) -> ElementLoop {
        ElementLoop { carries, extent: common_extent(transform, elements, at) }
    }

    /// Returns the parameters of the loop body: the carries, then one element of each array.
    fn params(&self, carries: &[Var], elements: &[Var], at: Loc) -> Vec<Param> {
        let element = |v: &Var| {
            let ty = v.ty(at);
            let inner = ty.shape.get(1..).unwrap_or(&[]);
            Param { ty: ArrayType::new(ty.dtype, inner).into(), ..Param::like(v.handle, at) }
        };
        like(carries, at).into_iter().chain(elements.iter().map(element)).collect()
    }

    /// Returns the last carries and the stacked results. `taken` is the structure of the carry as the body's argument,
    /// `given` its structure as the body's result. If they differ, reports an error and returns placeholders.
    fn results(
        self,
        staged: &Staged,
        given: &Form,
        taken: &Form,
        direction: Direction,
    ) -> Vec<Var> {
        let fits = self.extent.is_some() && same_carry(staged, given, taken);
        let elements = (self.carries..staged.args.len()).map(|_| Binding::Xs);
        let slots = (0..self.carries).map(Binding::Carry).chain(elements);
        let trip = TripCount::Static(self.extent.unwrap_or(0));
        rolled(staged, fits, trip, None, direction, slots.collect())
    }
}

/// Returns the extent that all leaves have along axis 0. If they have different extents, or if there is no leaf,
/// reports an error and returns `None`.
pub(super) fn common_extent(transform: &'static str, elements: &[Var], at: Loc) -> Option<usize> {
    let wrong = |message: String, handles: &[Handle]| {
        let help = "every leaf has one element for each iteration, along axis 0";
        trace::record(Problem::new(Kind::Shape, message, help), handles, at);
        None
    };
    let Some(first) = elements.first() else {
        let message = format!("`{transform}` has no array to go over");
        let help = "`fori_loop` counts; `iota` gives the numbers of the iterations as an array";
        trace::record(Problem::new(Kind::Shape, message, help), &[], at);
        return None;
    };
    let extent = |v: &Var| v.ty(at).shape.first().copied();
    for v in elements {
        match (extent(first), extent(v)) {
            (Some(n), Some(m)) if n == m => {}
            (Some(n), Some(m)) => {
                let message = format!("`{transform}` goes over arrays of {n} and of {m} elements");
                return wrong(message, &[first.handle, v.handle]);
            }
            (None, _) => {
                return wrong(format!("`{transform}` goes over a scalar"), &[first.handle]);
            }
            (_, None) => return wrong(format!("`{transform}` goes over a scalar"), &[v.handle]),
        }
    }
    extent(first)
}

/// Checks that an iteration returns a carry with the form and types of its argument. Otherwise reports an error and
/// returns false.
fn same_carry(staged: &Staged, given: &Form, taken: &Form) -> bool {
    same_form(staged, given, taken) && same_types(staged, taken)
}

fn same_form(staged: &Staged, given: &Form, taken: &Form) -> bool {
    if given == taken {
        return true;
    }
    let found = taken.different(given, "carry", ["the start", "an iteration"]);
    let help = "an iteration returns a carry of the form of its argument";
    let problem =
        Problem::new(Kind::Arguments, format!("an iteration changes the carry: {found}"), help);
    staged.report(Diagnostic::new(problem, staged.at));
    false
}

fn same_types(staged: &Staged, form: &Form) -> bool {
    let at = staged.at;
    let paths = form.paths("carry");
    let (taken, given) = (staged.arg_types(), staged.result_types());
    let mut same = true;
    for (i, path) in paths.iter().enumerate() {
        let (before, after) = (&taken[i], &given[i]);
        if before == after || staged.poisoned_results()[i] {
            continue;
        }
        same = false;
        let kind = if before.dtype == after.dtype { Kind::Shape } else { Kind::Dtype };
        let message = format!("`{path}` starts as {before}, and an iteration makes it {after}");
        let help = "a carry has one type: convert or reshape it, at the start or in the iteration";
        let note = |role: &str, ty: &ArrayType, born| Note {
            role: role.to_owned(),
            what: ty.to_string(),
            born,
        };
        let notes = vec![
            note("start", before, staged.args[i].handle.born()),
            note("after an iteration", after, staged.result_born(i)),
        ];
        let problem = Problem::new(kind, message, help);
        staged.report(Diagnostic { problem, at, notes, context: Vec::new() });
    }
    same
}

/// Emits a loop whose body is a traced closure, and returns its outputs. `takes` binds the closure's parameters. Its
/// captures become constants of the loop, or carries if they are state that the closure writes. If the number of
/// iterations is known only at run time, `lead` is that number.
fn rolled(
    staged: &Staged,
    fits: bool,
    trip: TripCount,
    lead: Option<Var>,
    direction: Direction,
    mut takes: Vec<Binding>,
) -> Vec<Var> {
    let Some(body) = staged.function().filter(|_| fits) else {
        staged.spoil();
        return staged.poison(&staged.result_types());
    };
    let own = takes.len();
    takes.extend(staged.captures().iter().map(|_| Binding::Const));
    for (k, held) in staged.written().enumerate() {
        takes[own + held.capture] = Binding::Carry(staged.result_types().len() + k);
    }
    let spec = LoopSpec { trip, direction, takes };
    let operands = lead.iter().chain(&staged.args).map(|v| v.handle);
    let operands: Vec<Handle> = operands.chain(staged.captures().iter().copied()).collect();
    staged.store_state(bind(Loop::new(body, spec), &operands, staged.at))
}

/// Emits a loop and returns its outputs. A carry that no iteration changes is made a constant, and its output is its
/// initial value.
fn bind(op: Loop, operands: &[Handle], at: Loc) -> Vec<Handle> {
    let (op, sources) = match trace::with_module(|m| op.clone().with_constant_carries(m)) {
        Some(Ok(sources)) => sources,
        // If there is no active trace, or the loop is invalid, let `trace::bind` report the error.
        Some(Err(_)) | None => return trace::bind(op, operands, at).to_vec(),
    };
    let outputs = trace::bind(op, operands, at);
    let output = |sources: &OutputSource| match sources {
        OutputSource::Output(n) => outputs[*n],
        OutputSource::Operand(n) => operands[*n],
    };
    sources.iter().map(output).collect()
}
