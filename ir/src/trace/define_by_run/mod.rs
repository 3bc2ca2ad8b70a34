//! Recording: a closure is traced and evaluated at the same time.
//!
//! A recording is a trace whose outermost frame (function under construction) has a concrete array for each of its
//! values, because every equation is evaluated when it is added. So the closure may read a value and branch on it, by
//! Rust's own `if`, `while` and recursion. The result is a tape: the straight-line program of the path that was taken,
//! with the concrete values that it computed. A tape can be pulled back, printed, and compiled.
//!
//! ```text
//! while x.value() > 1.0 { x = x * 0.5 }        %1: f64[] = mul %0, 0.5    2.0
//!                                              %2: f64[] = mul %1, 0.5    1.0
//! ```
//!
//! **Which frame records.** The outermost one alone. A closure of an inner transform is traced as usual, since it
//! becomes a function of arguments that do not exist yet. Inside such a closure, only captures have concrete values;
//! reading any other value is an error. After the closure has returned, the transform emits a call of the derived
//! function into the recording. A call is recorded as the equations of the called function ([`Trace::emit`]), so the
//! operations that `grad` emits are part of the tape. A loop or a branch stays one equation, which the interpreter
//! runs, and both branches stay in the program. Random draws and effects are equations, and state leaves no equation,
//! so none of these needs a special case.
//!
//! **How it is differentiated.** Each equation is differentiated by the rules of its primitive: [`rules`] derives the
//! equation's step of the reverse pass from these, and [`reverse_sweep`] combines the steps. Neither depends on
//! concrete values. The same holds for a closure *inside* a recording whose operations are saved for a reverse pass
//! ([`level()`]): the closure is a [`Level`], runs in the same frame, and the equations of its reverse pass are
//! recorded, too. An equation belongs to each level on which it depends. Where a rule replaces an equation by a forward
//! function that saves residuals, the forward function is recorded in the enclosing levels. (The outermost level has no
//! enclosing one; its residuals are values outside the program.) So derivatives of any order are exact, and
//! perturbations cannot be confused: the arguments of a level are values of their own, which no other level shares.
//!
//! **Which values are saved.** While the closure runs, all of them, since a handle is `Copy` and may be read at
//! any time. Afterwards, only those that the plan of the reverse pass reads ([`tape`]).
//!
//! Model: autograd's and PyTorch's tapes; the rules are those of linearize and transpose, one per primitive.

mod reverse_sweep;
mod rules;
mod scalar_program;
mod tape;
mod tape_level;
mod value_store;

pub(super) use rules::has_body;
pub use tape::{Recorded, item, recording, value};
pub use tape_level::{Pullback, is_recording, level, recorded_bytes};

use super::frame::Trace;
use crate::fault::{Fault, planted};
use crate::lang::builder::Draft;
use crate::lang::eval::eval_values;
use crate::lang::function::{Atom, Equation, FuncId, Operands, ValueId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::phase::{Origin, Phase};
use crate::lang::problem::{Kind, Problem};
use crate::lang::remap::{Atoms, ValueRemap};
use crate::lang::source_loc::Loc;
use crate::lang::stack::deeper;
use crate::lang::types::Type;
use crate::lang::value::Value;
use crate::limits;
use crate::prim::{Call, Op, Regions, Reshape, Role};
use crate::tensor::Tensor;
use reverse_sweep::{Level, Own, Place, Step};
use rules::{Mask, Rules};
use smallvec::{SmallVec, smallvec};
use value_store::{Stored, Values};

/// The state of a recording: a trace whose outermost frame (function under construction) is evaluated while it grows.
pub(super) struct Recording {
    values: Values,
    /// The levels under way, innermost last. A level is a closure whose operations are saved for a reverse pass of
    /// its own.
    levels: Vec<Level>,
    rules: Rules,
    /// The bytes of all operations recorded so far: the equations of the program, and the steps of all reverse passes.
    written: usize,
    /// The bytes of the functions that recorded operations or their reverse steps run.
    functions: usize,
    /// The budget in bytes for values and operations together; `None` without a limit.
    most: Option<u64>,
    /// Whether the budget was exceeded; the recording then takes no more operations.
    pub(super) full: bool,
}

impl Recording {
    fn new(transforms: Box<dyn Regions>, most: Option<u64>) -> Recording {
        Recording {
            values: Values::default(),
            levels: vec![Level::new(0)],
            rules: Rules::new(transforms),
            written: 0,
            functions: 0,
            most,
            full: false,
        }
    }

    /// Sets the concrete array that the parameter `a` of the recording stands for.
    pub(super) fn define(&mut self, a: Atom, value: &Tensor) {
        if let Atom::Value(v) = a {
            self.values.set(v.as_u32(), value.into());
        }
    }

    /// Returns the bytes that the recording's values and operations occupy now.
    fn live(&self) -> u64 {
        (self.values.live() + self.written + self.functions) as u64
    }

    /// Counts the bytes of the draft's last equation, which defines `values` values, and the bytes of the module's
    /// functions.
    fn count_equation(&mut self, draft: &Draft, values: usize, module: &Module) {
        let equation = draft.equations().last().map_or(0, Equation::bytes);
        self.written +=
            equation + size_of::<Loc>() + size_of::<Phase>() + values * size_of::<Type>();
        self.functions = module.bytes();
    }

    /// Checks that the bytes of the recording, plus `more`, are within the budget; if not, ends the recording and
    /// returns the error.
    fn within(&mut self, more: u64) -> Result<(), Problem> {
        let all = self.live().saturating_add(more);
        let Some(most) = self.most.filter(|most| all > *most) else { return Ok(()) };
        self.full = true;
        let holds = if more > 0 { "would hold" } else { "holds" };
        Err(Problem::new(
            Kind::Budget,
            format!("this recording {holds} {all} bytes, and may hold {most}"),
            "record a smaller piece, or use a traced loop such as `scan`, which saves only its \
             residuals; of a Rust loop, every value is recorded",
        ))
    }

    /// Calls `run`, which computes values of the types `types` from the operands `x`, if the budget has room for
    /// these values. Only bytes beyond those of the operands are checked before the run: the values may reuse the
    /// operands' buffers.
    fn run<T>(
        &mut self,
        x: &[Value],
        types: &[Type],
        run: impl FnOnce() -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let Some(most) = self.most else { return run() };
        let bytes = |ty: &Type| ty.as_array().map_or(0, |ty| ty.bytes() as u64);
        let given = x.iter().filter_map(|x| x.array().ok());
        let given = given.fold(0, |all: u64, x| all.saturating_add(x.bytes().len() as u64));
        let gives = types.iter().map(bytes).fold(0, u64::saturating_add);
        self.within(gives.saturating_sub(given))?;
        let y = limits::keeping(most.saturating_sub(self.live()), run);
        if let Err(problem) = &y {
            self.full |= problem.kind == Kind::Budget;
        }
        y
    }

    /// Returns the concrete array of an atom; `None` if it has none (after an error, or a tape).
    pub(super) fn value(&self, a: Atom) -> Option<Tensor> {
        self.values.read(a).tensor().ok()
    }
}

impl Trace {
    /// Adds an equation to the recording (the trace that is evaluated while it grows) and evaluates the equation.
    pub(super) fn record_equation(
        &mut self,
        op: Op,
        operands: Operands,
        types: &[Type],
        at: Loc,
    ) -> Result<Atoms, Problem> {
        let levels = self.recording.as_ref().map_or(0, |r| r.levels.len());
        self.emit(op, operands, types, at, levels)
    }

    /// Adds an equation and evaluates it. Only the outermost `levels` levels (closures that are differentiated) record
    /// the equation for their reverse passes. In place of a call, adds the equations of the called function. In place
    /// of another equation with regions that a level differentiates, adds its forward function.
    fn emit(
        &mut self,
        op: Op,
        operands: Operands,
        types: &[Type],
        at: Loc,
        levels: usize,
    ) -> Result<Atoms, Problem> {
        let is_plain = |role| matches!(role, Role::Inline | Role::Outline);
        if let Some(callee) = op.opened(is_plain) {
            return deeper(|| self.open(callee, &operands, at, levels));
        }
        let Some(recording) = &mut self.recording else { return Err(no_recording()) };
        let active = |level: &Level| operands.iter().any(|a| level.is_active(*a));
        let Some(inner) = recording.levels[..levels].iter().rposition(active) else {
            return self.evaluate(op, operands, types, at);
        };
        // Slices at different positions share the rule of the equivalent dynamic slice, which has fewer attributes.
        let general = rules::general(&op, &operands);
        let (asked, given) = general.as_ref().map_or((&op, &operands), |(op, given)| (op, given));
        let mask: Mask = given.iter().map(|a| recording.levels[inner].is_active(*a)).collect();
        let draft = &self.frames[0].draft;
        let operand_types = rules::operand_types(&self.module, asked, given, types, draft);
        let number = recording.rules.number(&mut self.module, asked, operand_types, mask);
        let (forward, active_out): (Option<FuncId>, Mask) = match recording.rules.rule(number) {
            Ok(rule) => (rule.forward, rule.active_out.clone()),
            // If the derivative does not exist, keep the error: it is reported only when the reverse pass needs the
            // derivative.
            Err(_) => (None, types.iter().map(Type::has_tangent).collect()),
        };
        if !active_out.contains(&true) {
            return self.emit(op, operands, types, at, inner);
        }
        let mut outputs = match forward {
            None if !has_body(&op) => {
                let outputs = self.emit(op, operands, types, at, inner)?;
                let place = match general {
                    None => Place::Equation(self.frames[0].draft.equations().len() as u32 - 1),
                    Some((_, operands)) => {
                        Place::Own(Box::new(Own { operands, outputs: outputs.to_vec(), loc: at }))
                    }
                };
                self.step(inner, number, place, &outputs, &active_out);
                return Ok(outputs);
            }
            None => self.emit(op, operands.clone(), types, at, inner)?,
            Some(forward) if inner == 0 => self.run_ahead(forward, op, &operands, types, at)?,
            Some(forward) => {
                let types = self.module.function(forward).result_types();
                self.emit(Call::inline(forward).into(), operands.clone(), &types, at, inner)?
            }
        };
        self.tell_apart(&mut outputs, &operands, &active_out, at, inner)?;
        let own = Own { operands, outputs: outputs.to_vec(), loc: at };
        self.step(inner, number, Place::Own(Box::new(own)), &outputs, &active_out);
        outputs.truncate(types.len());
        Ok(outputs)
    }

    /// Gives a new value number to each differentiated output that is the same atom as an operand or another output. So
    /// the reverse pass differentiates this use of the value and no other.
    fn tell_apart(
        &mut self,
        outputs: &mut Atoms,
        operands: &[Atom],
        active_out: &Mask,
        at: Loc,
        levels: usize,
    ) -> Result<(), Problem> {
        for i in 0..outputs.len().min(active_out.len()) {
            let y = outputs[i];
            let shared = y.literal().is_some()
                || operands.contains(&y)
                || outputs[..i].contains(&y)
                || outputs[i + 1..].contains(&y);
            if active_out[i] && shared && !planted(Fault::RecordedUse) {
                outputs[i] = self.alias(y, at, levels)?;
            }
        }
        Ok(())
    }

    /// Emits a copy of an array, which has a value number of its own; returns a tape unchanged.
    fn alias(&mut self, x: Atom, at: Loc, levels: usize) -> Result<Atom, Problem> {
        let ty = self.frames[0].draft.type_of(x);
        let Type::Array(array) = &ty else { return Ok(x) };
        let same = Reshape { shape: array.shape.clone() };
        let made = self.emit(same.into(), smallvec![x], std::slice::from_ref(&ty), at, levels)?;
        Ok(made.first().copied().unwrap_or(x))
    }

    /// Records an operation as a step of level `level` (a closure that is differentiated). The reverse pass runs the
    /// steps in reverse order.
    fn step(&mut self, level: usize, rule: usize, place: Place, outputs: &[Atom], active: &Mask) {
        let Some(recording) = &mut self.recording else { return };
        let level = &mut recording.levels[level];
        let step = Step { rule: rule as u32, place };
        recording.written += step.bytes();
        level.steps.push(step);
        for (y, _) in outputs.iter().zip(active).filter(|(_, on)| **on) {
            if let Atom::Value(v) = y {
                level.activate(*v);
            }
        }
    }

    /// Records the equations of a called function in place of the call; returns the function's results.
    fn open(
        &mut self,
        callee: FuncId,
        args: &[Atom],
        at: Loc,
        levels: usize,
    ) -> Result<Atoms, Problem> {
        let f = self.module.get(callee);
        let mut copying = ValueRemap::with(&f, args.iter().copied());
        for (i, e) in f.equations.iter().enumerate() {
            let types: SmallVec<[Type; 1]> =
                e.outputs.iter().map(|y| f.types[*y].clone()).collect();
            let operands = copying.all(&e.operands);
            let outputs =
                self.emit(e.op.clone(), operands, &types, f.location(i).or(at), levels)?;
            copying.define(e, outputs);
        }
        Ok(copying.results(&f).into())
    }

    /// Adds an equation as the user wrote it, with its custom rules, but evaluates the forward function of its
    /// derivative in its place. The residuals become values that no equation of the program defines.
    fn run_ahead(
        &mut self,
        forward: FuncId,
        op: Op,
        operands: &[Atom],
        types: &[Type],
        at: Loc,
    ) -> Result<Atoms, Problem> {
        let Some(recording) = &mut self.recording else { return Err(no_recording()) };
        let x = recording.values.all(operands)?;
        let types_ahead = self.module.function(forward).result_types();
        let run = || eval_values(&self.module, forward, &x);
        let y = recording.run(&x, &types_ahead, run).map_err(|p| p.at(at))?;
        let draft = &mut self.frames[0].draft;
        let mut outputs = draft.push(op, operands.into(), types, Origin::forward(at));
        let kept = y[outputs.len().min(y.len())..].iter().map(|y| draft.undefined(y.ty()));
        outputs.extend(kept.collect::<Vec<ValueId>>());
        recording.count_equation(draft, outputs.len(), &self.module);
        for (v, value) in outputs.iter().zip(y) {
            recording.values.set(v.as_u32(), value.into());
        }
        recording.within(0).map_err(|p| p.at(at))?;
        Ok(outputs.into_iter().map(Atom::Value).collect())
    }

    /// Adds an equation unchanged, and computes its outputs from the concrete values of its operands.
    fn evaluate(
        &mut self,
        op: Op,
        operands: Operands,
        types: &[Type],
        at: Loc,
    ) -> Result<Atoms, Problem> {
        let Some(recording) = &mut self.recording else { return Err(no_recording()) };
        let values = match scalars(&self.module, &recording.values, &op, &operands, types) {
            Some(y) => smallvec![Stored::Scalar(y)],
            None => {
                let x = recording.values.all(&operands)?;
                let run = || op.run(&self.module, &x);
                let y = recording.run(&x, types, run).map_err(|p| p.at(at))?;
                y.into_iter().map(Stored::from).collect::<SmallVec<[Stored; 1]>>()
            }
        };
        let draft = &mut self.frames[0].draft;
        let outputs = draft.push(op, operands, types, Origin::forward(at));
        recording.count_equation(draft, outputs.len(), &self.module);
        for (v, value) in outputs.iter().zip(values) {
            recording.values.set(v.as_u32(), value);
        }
        recording.within(0).map_err(|p| p.at(at))?;
        Ok(outputs.into_iter().map(Atom::Value).collect())
    }
}

/// Returns the result of an elementwise equation on scalars, computed without arrays; `None` for any other
/// equation.
fn scalars(
    module: &Module,
    values: &Values,
    op: &Op,
    operands: &[Atom],
    types: &[Type],
) -> Option<Literal> {
    let [Type::Array(y)] = types else { return None };
    if !y.shape.is_empty() || has_body(op) {
        return None;
    }
    let x: SmallVec<[Literal; 3]> =
        operands.iter().map(|a| values.scalar(*a)).collect::<Option<_>>()?;
    let types: SmallVec<[Type; 3]> = x.iter().map(|x| Type::scalar(x.dtype)).collect();
    Some(scalar_program::elementwise(module, op, operands, &types)?.eval(&x))
}

fn no_recording() -> Problem {
    Problem::internal("a trace that is no recording was asked to record")
}
