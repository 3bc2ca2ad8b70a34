//! The result of a recording: its program, the values that the reverse pass reads, and the plan of the reverse
//! pass.

use super::super::{Handle, Param, Stop, lost, outermost, with_trace};
use super::Recording;
use super::reverse_sweep::{Arithmetic, Cotangents, Level, Plan, Program, pull_back};
use super::rules::Back;
use super::value_store::{Stored, Values};
use crate::lang::builder::Draft;
use crate::lang::eval::eval_owned;
use crate::lang::function::{Atom, FuncId, ValueId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::source_loc::Loc;
use crate::lang::types::{ArrayType, Type};
use crate::lang::value::Value;
use crate::prim::{Op, Regions, Scalar};
use crate::tensor::{Element, Tensor};
use crate::text::print_one;
use crate::trace::STACK;
use crate::trace::diagnostic::{Diagnostic, Note};
use crate::trace::frame::Trace;
use smallvec::SmallVec;
use std::fmt;
use std::panic::resume_unwind;

/// A recording that has ended: a closure that has run, with its straight-line program and the plan of its reverse
/// pass.
pub struct Recorded {
    module: Module,
    draft: Draft,
    /// The concrete values that the planned reverse pass reads; all others were dropped.
    values: Values,
    /// The number of the program's parameters that are arguments of the closure. They come first, followed by one
    /// parameter per captured tensor.
    args: usize,
    tensors: Vec<Tensor>,
    results: Vec<Atom>,
    outputs: Vec<Tensor>,
    level: Level,
    plan: Result<Plan, Problem>,
    at: Loc,
}

/// Traces a closure and evaluates it at the same time on the arguments `args`. Returns the tape, and the value of type
/// `R` that the closure returned besides its results. `most` is the budget in bytes for values and operations together,
/// `None` without a limit; `transforms` derives the derivatives of functions.
///
/// # Errors
/// Returns all errors recorded while the closure ran, without those that are consequences of others.
pub fn recording<R>(
    transform: &'static str,
    at: Loc,
    args: &[Tensor],
    most: Option<u64>,
    transforms: Box<dyn Regions>,
    f: impl FnOnce(&[Handle]) -> (Vec<Handle>, R),
) -> Result<(Recorded, R), Vec<Diagnostic>> {
    let params: Vec<Param> = args.iter().map(|x| Param::new(x.ty().clone(), at)).collect();
    let begin = |t: &mut Trace, handles: &[Handle]| {
        let mut recording = Recording::new(transforms, most);
        for (h, x) in handles.iter().zip(args) {
            recording.define(h.atom, x);
            if let Some(v) = h.atom.value().filter(|_| x.dtype().is_float()) {
                recording.levels[0].activate(v);
            }
        }
        t.recording = Some(Box::new(recording));
    };
    let (mut trace, results, output) = outermost(transform, at, &params, begin, f)?;
    if !trace.diagnostics.is_empty() {
        return Err(trace.diagnostics);
    }
    let results: Option<Vec<Atom>> = results.into_iter().collect();
    let tensors = trace.tensors();
    let (Some(results), Some(recording), Some(frame)) =
        (results, trace.recording, trace.frames.pop())
    else {
        return Err(lost(at));
    };
    let (mut module, mut draft) = (trace.module, frame.draft);
    let Recording { mut values, mut levels, mut rules, .. } = *recording;
    let Some(mut level) = levels.pop() else { return Err(lost(at)) };
    let outputs: Result<Vec<Tensor>, Problem> =
        results.iter().map(|r| values.read(*r).tensor()).collect();
    let outputs = outputs.map_err(|problem| vec![Diagnostic::new(problem, at)])?;
    let program = Program::of(&draft);
    let plan = level.plan(&results, &mut rules, &mut module, program);
    let mut keep = vec![false; draft.types().len()];
    for v in plan.iter().flat_map(|plan| level.reads(plan, program)) {
        keep[v.as_u32() as usize] = true;
    }
    values.retain(|i| keep.get(i) == Some(&true));
    draft.shrink();
    level.shrink();
    let args = args.len();
    let recorded =
        Recorded { module, draft, values, args, tensors, results, outputs, level, plan, at };
    Ok((recorded, output))
}

impl Recorded {
    /// Returns the concrete values of the closure's results.
    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }

    /// Returns the number of recorded operations: equations of the program.
    pub fn operations(&self) -> usize {
        self.draft.equations().len()
    }

    /// Returns the types of the arguments.
    pub fn arg_types(&self) -> Vec<ArrayType> {
        let types = self.draft.params().iter().take(self.args);
        types.filter_map(|p| self.draft.types()[*p].as_array().cloned()).collect()
    }

    /// Returns the tensors that the closure captured; they are the last arguments of the program.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Returns the cotangents of the arguments, given the cotangents of the results, each of the type of its result.
    /// The cotangent of an argument that is not a float is zero.
    ///
    /// # Errors
    /// Returns an error if a derivative does not exist, or a Rust function that the program calls fails.
    pub fn pull(&self, cotangents: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        let plan = self.plan.as_ref().map_err(Problem::clone)?;
        let mut numbers = Numbers { module: &self.module, values: &self.values, slots: Vec::new() };
        let mut cts = self.seeds(&mut numbers, cotangents)?;
        let program = Program::of(&self.draft);
        for planned in &plan.steps {
            pull_back(&mut numbers, &self.level, program, plan, *planned, &mut cts)?;
        }
        self.cotangents(&mut cts)
    }

    /// Returns the cotangents of the arguments, as [`Recorded::pull`] does, but frees each saved value as soon as
    /// the reverse pass has read it for the last time.
    ///
    /// # Errors
    /// Those of [`Recorded::pull`].
    pub fn pull_once(mut self, cotangents: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        let plan = std::mem::replace(&mut self.plan, Ok(Plan::default()))?;
        let mut values = std::mem::take(&mut self.values);
        let nothing = Values::default();
        let mut numbers = Numbers { module: &self.module, values: &nothing, slots: Vec::new() };
        let mut cts = self.seeds(&mut numbers, cotangents)?;
        let program = Program::of(&self.draft);
        let mut slots = numbers.slots;
        for planned in &plan.steps {
            let mut numbers = Numbers { module: &self.module, values: &values, slots };
            pull_back(&mut numbers, &self.level, program, &plan, *planned, &mut cts)?;
            slots = numbers.slots;
            // Free the values that the operation of this step and all later operations made: the remaining steps of the
            // reverse pass read only earlier values.
            if let Some(made) = self.level.made(program, &plan, *planned) {
                values.truncate(made);
            }
        }
        self.cotangents(&mut cts)
    }

    fn seeds(
        &self,
        numbers: &mut Numbers<'_>,
        cotangents: &[Tensor],
    ) -> Result<Cotangents<Stored>, Problem> {
        let mut cts = Cotangents::new(&self.level);
        for (r, ct) in self.results.iter().zip(cotangents) {
            if self.level.is_active(*r) {
                cts.add(numbers, *r, ct.into())?;
            }
        }
        Ok(cts)
    }

    fn cotangents(&self, cts: &mut Cotangents<Stored>) -> Result<Vec<Tensor>, Problem> {
        let one = |p: &ValueId| match cts.take((*p).into()) {
            Some(ct) => ct.tensor(),
            None => match &self.draft.types()[*p] {
                Type::Array(ty) => Tensor::zeros_of(ty),
                Type::Tape(_) => Err(Problem::internal("an argument that is a tape")),
            },
        };
        self.draft.params().iter().take(self.args).map(one).collect()
    }

    /// Returns the recorded program in a module of its own: a function of the arguments and the captured data.
    ///
    /// # Errors
    /// Fails only through a fault of tapeloom.
    pub fn program(&self) -> Result<(Module, FuncId), Problem> {
        let mut module = self.module.clone();
        let function = self.draft.clone().finish(&mut module, self.results.clone())?;
        Ok((module, function))
    }

    /// Returns the bytes in memory of the tape: values, operations, the functions that operations run, and the plan
    /// of the reverse pass. Attributes of operations are not counted.
    pub fn bytes(&self) -> usize {
        let results: usize = self.outputs.iter().map(|x| x.bytes().len()).sum();
        let plan = self.plan.as_ref().map_or(0, Plan::bytes);
        let tables = self.draft.bytes() + self.level.bytes() + plan;
        self.values.bytes() + results + tables + self.module.bytes()
    }
}

/// The number of first operations and the number of last operations that the text of a long tape shows.
const SHOWN: [usize; 2] = [20, 10];

/// Prints one line per operation: the equation, the saved bytes of its results, and the user's source line. If the
/// tape has more than 30 operations, prints the first 20 and the last 10.
impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.operations();
        let plural = if n == 1 { "" } else { "s" };
        write!(f, "tape of {n} operation{plural}, {} bytes", self.bytes())?;
        self.at.map_or(Ok(()), |at| write!(f, ", recorded at {at}"))?;
        let kept = |v: ValueId| self.values.bytes_of(v.as_u32());
        let bytes = |kept: usize| if kept == 0 { String::new() } else { format!("{kept} bytes") };
        let types = self.draft.types();
        let mut rows: Vec<[String; 3]> = Vec::new();
        for (i, p) in self.draft.params().iter().enumerate() {
            let what = if i < self.args { "argument" } else { "data" };
            rows.push([format!("{p}: {}", types[*p]), bytes(kept(*p)), what.to_owned()]);
        }
        let mut is_param = vec![false; types.len()];
        self.draft.params().iter().for_each(|p| is_param[p.as_u32() as usize] = true);
        let hidden = SHOWN[0]..n.saturating_sub(SHOWN[1]).max(SHOWN[0]);
        for (i, e) in self.draft.equations().iter().enumerate().filter(|(i, _)| !hidden.contains(i))
        {
            if i == hidden.end && !hidden.is_empty() {
                rows.push([format!(".. {} more ..", hidden.len()), String::new(), String::new()]);
            }
            let at = self.draft.locations().get(i).copied().flatten();
            // The residuals of the equation's forward function are numbered after the outputs, up to the outputs of the
            // next equation.
            let end = self.draft.equations().get(i + 1).and_then(|e| e.outputs.first());
            let first = e.outputs.first().map_or(0, |y| y.as_u32());
            let end = end.map_or(types.len() as u32, |y| y.as_u32());
            let end = if e.outputs.is_empty() { first } else { end };
            let mine = (first..end).filter(|v| !is_param[*v as usize]);
            rows.push([
                print_one(&self.module, types, e),
                bytes(mine.map(|v| self.values.bytes_of(v)).sum()),
                at.map_or(String::new(), |at| at.to_string()),
            ]);
        }
        let width = |k: usize| rows.iter().map(|row| row[k].chars().count()).max().unwrap_or(0);
        let (first, second) = (width(0), width(1));
        for [what, bytes, line] in &rows {
            write!(f, "\n  {}", format!("{what:first$}  {bytes:second$}  {line}").trim_end())?;
        }
        let results: Vec<String> = self
            .results
            .iter()
            .map(|r| match r {
                Atom::Value(v) => v.to_string(),
                Atom::Literal(l) => l.to_string(),
            })
            .collect();
        write!(f, "\n  return {}", results.join(", "))
    }
}

/// The reverse pass of a whole recording, which computes with concrete values.
struct Numbers<'a> {
    module: &'a Module,
    values: &'a Values,
    slots: Vec<Literal>,
}

impl Arithmetic for Numbers<'_> {
    type Value = Stored;

    fn read(&mut self, a: Atom, ty: &Type) -> Result<Stored, Problem> {
        match (a, ty) {
            (Atom::Literal(l), Type::Array(ty)) if !ty.shape.is_empty() => {
                Ok((&Tensor::full(&ty.shape, l)?).into())
            }
            (Atom::Literal(_) | Atom::Value(_), _) => Ok(self.values.read(a)),
        }
    }

    fn run(
        &mut self,
        back: &Back,
        args: SmallVec<[Stored; 6]>,
        loc: Loc,
    ) -> Result<SmallVec<[Stored; 2]>, Problem> {
        if let Some(kernel) = &back.kernel {
            self.slots.clear();
            self.slots.extend(args.iter().filter_map(Stored::scalar));
            if self.slots.len() == args.len() {
                return Ok(kernel.run(&mut self.slots).into_iter().map(Stored::Scalar).collect());
            }
        }
        // The running total in `args` is moved, not shared, so the transpose adds to it in place.
        let args: Vec<Value> =
            args.into_iter().map(Stored::into_value).collect::<Result<_, Problem>>()?;
        let found = eval_owned(self.module, back.function, args).map_err(|p| p.at(loc))?;
        Ok(found.into_iter().map(Stored::from).collect())
    }

    fn add(&mut self, x: Stored, y: Stored) -> Result<Stored, Problem> {
        let sum = Op::from(Scalar::Add).run(self.module, &[x.value()?, y.value()?])?;
        Ok(sum.into_iter().map(Stored::from).next().unwrap_or(Stored::Gone))
    }
}

/// Returns the concrete value of a recorded handle or of a literal. A handle without a concrete value is an error
/// at the line `at`: unwinds to the boundary (`jit`, `run`, `record`), which returns the error. Without a boundary,
/// returns nan or 0.
pub fn value(h: Handle, what: &str, at: Loc) -> Tensor {
    if let Atom::Literal(l) = h.atom {
        return l.into();
    }
    let known = STACK.with_borrow(|stack| {
        let holds = |t: &&Trace| t.frames.first().is_some_and(|f| f.id == h.frame);
        stack.iter().rev().find(holds)?.recording.as_ref()?.value(h.atom)
    });
    known.unwrap_or_else(|| {
        with_trace(|t| t.no_value(h, what, at));
        stop(&crate::trace::type_of(h, at))
    })
}

/// Returns the concrete value of a scalar handle, as [`value`] does. A handle of another type or shape is an error,
/// too.
pub fn item<T: Element>(h: Handle, at: Loc) -> T {
    value(h, "item", at).item().unwrap_or_else(|problem| {
        crate::trace::record(problem, &[h], at);
        let nothing = stop(&Type::scalar(T::DTYPE));
        nothing.item().unwrap_or(T::load(bytemuck::Zeroable::zeroed()))
    })
}

/// Unwinds the running closures to their boundary (`jit`, `run`, `record`), which returns the recorded errors.
/// Without a boundary, returns an array of type `ty`, full of nan or 0.
fn stop(ty: &Type) -> Tensor {
    if with_trace(|t| t.bounded) == Some(true) {
        resume_unwind(Box::new(Stop));
    }
    let full = |ty: &ArrayType| {
        let x = if ty.dtype.is_float() { f64::NAN } else { 0.0 };
        Tensor::full(&ty.shape, Literal::of(ty.dtype, x)).ok()
    };
    ty.as_array().and_then(full).unwrap_or(Tensor::from(f64::NAN))
}

impl Trace {
    /// Records the error that the handle `h` has no concrete value; `what` is the method that asked for it.
    fn no_value(&mut self, h: Handle, what: &str, at: Loc) {
        let Some(ty) = self.type_or_escape(h, at) else { return };
        if self.is_poison(h) {
            return;
        }
        let recorded = self.recording.is_some();
        let home = self.frames.iter().find(|f| f.id == h.frame).map(|f| f.context);
        let place = home.map_or(String::new(), |context| format!(" in {context}"));
        let message = format!("`{what}` of {ty}{place}, which is traced before there are numbers");
        let help = match recorded {
            true => {
                "read the value outside of it, in the closure given to `record`, or decide in the \
                 program: by `select`, `cond` or `while_loop`; `recorded_vjp` differentiates a \
                 closure that reads values"
            }
            false => {
                "run the closure by `record`, or decide in the program: by `select`, `cond` or \
                 `while_loop`"
            }
        };
        let problem = Problem::new(Kind::NoValue, message, help);
        let notes = vec![Note { role: "operand".to_owned(), what: ty.to_string(), born: h.born }];
        self.push(Diagnostic { problem, at, notes, context: Vec::new() });
    }
}
