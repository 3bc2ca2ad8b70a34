//! One trace: its stack of frames, and how operands travel between them.
//!
//! A frame is a function under construction. An operand that belongs to a lower frame is *lifted*: every frame
//! in between gets one parameter for it. A value is lifted once per frame, since `captures` finds the parameter
//! by the value's frame and id. When a frame is closed, its extra parameters are the captures, which the caller
//! passes after the arguments. This is closure conversion, done while the closure runs.

use super::define_by_run::Recording;
use super::diagnostic::{Context, Diagnostic, Note, in_standard_library, place};
use super::state::StateEntry;
use super::{Handle, WITHIN};
use crate::lang::builder::{Draft, infer};
use crate::lang::function::{Atom, ValueId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::phase::Origin;
use crate::lang::problem::{Kind, Problem};
use crate::lang::source_loc::Loc;
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::map::{OrderedMap, OrderedSet};
use crate::prim::{Op, Types};
use crate::tensor::Tensor;
use smallvec::SmallVec;
use std::any::Any;

/// The largest number of diagnostics of one trace. A wrong operation in a Rust loop must not fill the memory.
const MOST_DIAGNOSTICS: usize = 64;

/// The way in which the function of a closure is run, which decides whether the closure may write to state from
/// outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Runs {
    /// The closure becomes a function that transforms may change and that may run any number of times.
    AsFunction,
    /// The closure becomes a function that is never differentiated: the solver of an implicit equation.
    AsSolver,
    /// The closure becomes a part of the surrounding program, at its place in the code: the body of a loop, or a
    /// branch.
    InPlace,
}

impl Runs {
    /// Returns whether the closure becomes a function, which may run many times or never.
    pub(super) fn is_function(self) -> bool {
        match self {
            Runs::AsFunction | Runs::AsSolver => true,
            Runs::InPlace => false,
        }
    }
}

/// The source of an extra parameter of a frame (a function under construction).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Captured {
    /// A value of an enclosing frame, by that frame's number and the value's id.
    Value(u64, ValueId),
    /// The value that a state (a mutable variable) has when the frame first uses it, by the state's number.
    State(u64),
}

/// A function under construction: the closure of one transform, while it is traced.
pub(super) struct Frame {
    /// The frame's number, which no other frame of the process has.
    pub(super) id: u64,
    pub(super) draft: Draft,
    pub(super) context: Context,
    /// Whether a composed operation (one that emits other operations or calls a transform) opened the frame. If so,
    /// contexts name that operation, which the user called, and not the transform that it calls.
    composed: bool,
    pub(super) runs: Runs,
    /// The values captured from enclosing frames (functions under construction), in the order of the extra parameters:
    /// each as a handle of an enclosing frame, and as the parameter of this frame that stands for it.
    pub(super) captures: OrderedMap<Captured, (Handle, Atom)>,
    /// The current value of each state (mutable variable) in this frame, by the state's number.
    pub(super) states: OrderedMap<u64, Handle>,
    /// The placeholders for results of wrong operations in this function.
    pub(super) poison: OrderedSet<ValueId>,
    spoiled: Loc,
}

impl Frame {
    pub(super) fn new(id: u64, context: Context, runs: Runs) -> Frame {
        let within = WITHIN.get();
        Frame {
            id,
            draft: Draft::new(context.transform),
            context: Context { transform: within.unwrap_or(context.transform), ..context },
            composed: within.is_some(),
            runs,
            captures: OrderedMap::default(),
            states: OrderedMap::default(),
            poison: OrderedSet::default(),
            spoiled: None,
        }
    }

    /// Returns the values to pass for the extra parameters: handles of enclosing frames (functions under construction).
    pub(super) fn captures(&self) -> Vec<Handle> {
        self.captures.values().map(|(handle, _)| *handle).collect()
    }

    fn is_poison(&self, a: Atom) -> bool {
        !self.poison.is_empty() && a.value().is_some_and(|v| self.poison.contains(&v))
    }
}

/// The state of one trace, from its outermost closure to the finished program.
pub(super) struct Trace {
    pub(super) module: Module,
    /// The functions under construction, whose closures are running, innermost last. Never empty while user code runs.
    pub(super) frames: Vec<Frame>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// The captured tensors, by address and type, in the order of the hidden parameters of the outermost frame.
    /// Each tensor is held here, so that its address is not reused during the trace.
    captured: OrderedMap<(usize, ArrayType), (Tensor, Atom)>,
    /// The contexts of the closures whose tracing has ended, by the number of their frames (functions under
    /// construction). The error about a handle that escaped from a closure reads the closure's name here.
    pub(super) closed: OrderedMap<u64, Context>,
    /// All states (mutable variables) of the trace, by the state's number.
    pub(super) states: OrderedMap<u64, StateEntry>,
    /// Whether the trace has a boundary: a call of `jit`, `run` or `record`, which returns the errors of the trace.
    pub(super) bounded: bool,
    /// The recording, if the equations of the outermost frame (function under construction) are evaluated as they are
    /// added; else `None`.
    pub(super) recording: Option<Box<Recording>>,
    /// Values that callers store by `remember` until the trace ends, by the caller's number.
    pub(super) memo: OrderedMap<u64, Vec<Box<dyn Any>>>,
}

/// The reason why a handle cannot be used in the function that is being traced.
struct Escape(Problem);

impl Trace {
    pub(super) fn new(frame: Frame) -> Trace {
        Trace { frames: vec![frame], ..Trace::placeholder() }
    }

    /// Makes an empty trace without frames: a placeholder on the stack while the real trace is off it.
    pub(super) fn placeholder() -> Trace {
        Trace {
            module: Module::new(),
            frames: Vec::new(),
            diagnostics: Vec::new(),
            captured: OrderedMap::default(),
            closed: OrderedMap::default(),
            states: OrderedMap::default(),
            bounded: false,
            recording: None,
            memo: OrderedMap::default(),
        }
    }

    /// Returns whether an equation that is added now is evaluated at once. This is so if the top frame (the innermost
    /// function under construction) is the outermost frame of a recording.
    pub(super) fn is_recording(&self) -> bool {
        self.recording.is_some() && self.frames.len() == 1
    }

    /// Returns whether adding an equation of the primitive `op` may run user code.
    pub(super) fn runs(&self, op: &Op) -> bool {
        self.is_recording() && super::define_by_run::has_body(op)
    }

    /// Returns the captured tensors, in the order of the hidden parameters of the outermost frame.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        self.captured.values().map(|(tensor, _)| tensor.clone()).collect()
    }

    fn handle(&self, frame: usize, atom: Atom, born: Loc) -> Handle {
        Handle::new(self.frames[frame].id, atom, born)
    }

    fn top(&self) -> usize {
        self.frames.len() - 1
    }

    /// Returns the type of a handle; `None` if its frame (function under construction) is not open in this trace.
    pub(super) fn type_of(&self, h: Handle) -> Option<Type> {
        match h.atom {
            Atom::Literal(l) => Some(Type::scalar(l.dtype)),
            Atom::Value(_) => {
                let frame = self.frames.iter().rev().find(|f| f.id == h.frame)?;
                Some(frame.draft.type_of(h.atom))
            }
        }
    }

    /// Returns the atom in the top frame (the innermost function under construction) that stands for `h`. If `h`
    /// belongs to a lower frame, captures it: each frame in between gets an extra parameter.
    fn resolve(&mut self, h: Handle) -> Result<Atom, Escape> {
        let top = self.top();
        let value = match h.atom {
            Atom::Literal(_) => return Ok(h.atom),
            Atom::Value(_) if self.frames[top].id == h.frame => return Ok(h.atom),
            Atom::Value(v) => v,
        };
        let key = Captured::Value(h.frame, value);
        if let Some((_, atom)) = self.frames[top].captures.get(&key) {
            return Ok(*atom);
        }
        let Some(home) = self.frames.iter().rposition(|f| f.id == h.frame) else {
            return Err(Escape(self.escaped(h)));
        };
        let mut atom = h.atom;
        for i in home + 1..=top {
            if let Some((_, known)) = self.frames[i].captures.get(&key) {
                atom = *known;
                continue;
            }
            let below = &self.frames[i - 1];
            let (ty, poison) = (below.draft.type_of(atom), below.is_poison(atom));
            let frame = &mut self.frames[i];
            atom = frame.draft.param(ty);
            frame.captures.insert(key, (h, atom));
            if let (true, Atom::Value(v)) = (poison, atom) {
                frame.poison.insert(v);
            }
        }
        Ok(atom)
    }

    /// Returns a description of the owner of a handle whose frame (function under construction) is not open: a closure
    /// that has returned, or another trace.
    pub(super) fn owner_of(&self, frame: u64) -> String {
        match self.closed.get(&frame) {
            Some(context) => format!("{context}, which has returned"),
            None => "another trace".to_owned(),
        }
    }

    fn escaped(&self, h: Handle) -> Problem {
        let from = self.owner_of(h.frame);
        let made = h.born.map_or(String::new(), |l| format!(" made {}", place(l)));
        if h.frame == super::NOWHERE {
            return Problem::new(
                Kind::Escaped,
                format!("a value{made} was made outside any trace, where no operation computes"),
                "make it in the closure given to `jit` or `run`; outside, work with `Tensor` and numbers",
            );
        }
        Problem::new(
            Kind::Escaped,
            format!("a value{made} is used outside the trace it belongs to: {from}"),
            "return the value from the closure instead of storing it elsewhere",
        )
    }

    /// Emits an equation into the top frame (the innermost function under construction), and returns its outputs. If
    /// the equation is wrong, records a problem and returns poison, that is, placeholders.
    pub(super) fn bind(&mut self, op: Op, operands: &[Handle], at: Loc) -> SmallVec<[Handle; 1]> {
        let mut atoms: SmallVec<[Atom; 2]> = SmallVec::new();
        let mut poisoned = false;
        for h in operands {
            match self.resolve(*h) {
                Ok(a) => {
                    poisoned |= self.frames[self.top()].is_poison(a);
                    atoms.push(a);
                }
                Err(Escape(problem)) => {
                    self.record(problem, &[], at);
                    poisoned = true;
                    atoms.push(Literal::zero(Dtype::F64).into());
                }
            }
        }
        let top = self.top();
        let types: SmallVec<[Type; 2]> =
            atoms.iter().map(|a| self.frames[top].draft.type_of(*a)).collect();
        let inferred = infer(&self.module, &op, &atoms, &types).and_then(sized);
        // An operation called by an iterator has a source line of the standard library, so take the line of an
        // operand.
        let born = match in_standard_library(at) {
            true => {
                operands.iter().map(|h| h.born).find(|b| !in_standard_library(*b)).unwrap_or(at)
            }
            false => at,
        };
        match inferred {
            // If the recording (the trace that is evaluated while it grows) is full, return placeholders: the error
            // that its budget is exceeded has been recorded already.
            Ok(types) if self.recording.as_ref().is_some_and(|r| r.full) => self.poison(&types, at),
            Ok(types) if !poisoned && self.is_recording() => {
                let id = self.frames[top].id;
                match self.record_equation(op, atoms, &types, at) {
                    Ok(outputs) => outputs.into_iter().map(|a| Handle::new(id, a, born)).collect(),
                    Err(problem) => {
                        self.push(Diagnostic::new(problem, at));
                        self.poison(&types, at)
                    }
                }
            }
            Ok(types) if !poisoned => {
                let frame = &mut self.frames[top];
                let outputs = frame.draft.push(op, atoms, &types, Origin::forward(at));
                let id = frame.id;
                outputs.into_iter().map(|v| Handle::new(id, v.into(), born)).collect()
            }
            Ok(types) => self.poison(&types, at),
            Err(problem) => {
                if !poisoned {
                    self.record(problem, operands, at);
                }
                let guess = types.first().cloned().unwrap_or(Type::scalar(Dtype::F64));
                let outputs = op.outputs(&self.module);
                self.poison(&vec![guess; outputs], at)
            }
        }
    }

    /// Returns a handle of the hidden parameter of the outermost function that stands for `tensor`; adds the
    /// parameter if there is none.
    pub(super) fn capture(&mut self, tensor: &Tensor, at: Loc) -> Handle {
        let key = (tensor.address(), tensor.ty().clone());
        let outermost = &mut self.frames[0].draft;
        let new = || (tensor.clone(), outermost.param(tensor.ty().clone().into()));
        let (_, atom) = *self.captured.entry(key).or_insert_with(new);
        if let Some(recording) = &mut self.recording {
            recording.define(atom, tensor);
        }
        self.handle(0, atom, at)
    }

    /// Returns whether a handle stands for a captured tensor.
    pub(super) fn is_data(&self, h: Handle) -> bool {
        let outermost = self.frames.first().is_some_and(|f| f.id == h.frame);
        outermost && self.captured.values().any(|(_, atom)| *atom == h.atom)
    }

    /// Returns poison of these types: placeholders for the results of a wrong operation in the top frame.
    pub(super) fn poison(&mut self, types: &[Type], at: Loc) -> SmallVec<[Handle; 1]> {
        let top = self.top();
        let frame = &mut self.frames[top];
        if frame.poison.is_empty() {
            frame.spoiled = at;
        }
        let one = |ty: &Type| {
            let v = frame.draft.undefined(ty.clone());
            frame.poison.insert(v);
            Handle::new(frame.id, v.into(), at)
        };
        types.iter().map(one).collect()
    }

    /// Records an internal error if the top frame has poison (placeholders for results of wrong operations) but no
    /// diagnostic was recorded: otherwise the frame would not become a function, and the user would see no reason.
    pub(super) fn tell_cause(&mut self) {
        let Some(frame) = self.frames.last() else { return };
        if self.diagnostics.is_empty() && !frame.poison.is_empty() {
            let message = "a value stands for the result of a failed operation, and no error was \
                           reported";
            let at = self.frames.iter().find_map(|f| f.spoiled);
            self.push(Diagnostic::new(Problem::internal(message), at));
        }
    }

    /// Returns the type of a handle. If the handle's frame (function under construction) is not open in this trace,
    /// records that error at `at` and returns `None`.
    pub(super) fn type_or_escape(&mut self, h: Handle, at: Loc) -> Option<Type> {
        let known = self.type_of(h);
        if known.is_none() {
            // Call `results` for its effect: it records the error that the handle's frame is not open.
            let _ = self.results(&[h], at);
        }
        known
    }

    /// Returns whether a handle is poison (a placeholder for the result of a wrong operation), or its frame (function
    /// under construction) is not open.
    pub(super) fn is_poison(&self, h: Handle) -> bool {
        let frame = self.frames.iter().rev().find(|f| f.id == h.frame);
        h.atom.value().is_some() && frame.is_none_or(|f| f.is_poison(h.atom))
    }

    /// Records a problem, unless an operand is a placeholder for the result of a wrong operation: the problem is then a
    /// consequence of an earlier one.
    pub(super) fn record(&mut self, mut problem: Problem, operands: &[Handle], at: Loc) {
        if operands.iter().any(|h| self.type_of(*h).is_some() && self.is_poison(*h)) {
            return;
        }
        if let Some(name) = WITHIN.get()
            && !problem.message.contains(&format!("`{name}`"))
        {
            problem.message += &format!(" (in `{name}`)");
        }
        let notes = operands.iter().enumerate().map(|(i, h)| Note {
            role: match (operands.len(), i) {
                (1, _) => "operand".to_owned(),
                (2, 0) => "left".to_owned(),
                (2, _) => "right".to_owned(),
                _ => format!("operand {i}"),
            },
            what: match (h.atom, self.type_of(*h)) {
                (Atom::Literal(l), _) => format!("{l} (a literal)"),
                (_, Some(ty)) => ty.to_string(),
                (_, None) => "an escaped value".to_owned(),
            },
            born: h.born,
        });
        let notes = notes.collect();
        self.push(Diagnostic { problem, at, notes, context: Vec::new() });
    }

    /// Returns the contexts of all frames (functions under construction), innermost first. Frames that one composed
    /// operation opened inside each other are listed once.
    pub(super) fn contexts(&self) -> Vec<Context> {
        let mut listed: Vec<&Frame> = self.frames.iter().rev().collect();
        listed.dedup_by(|outer, inner| {
            outer.composed && inner.composed && outer.context == inner.context
        });
        listed.into_iter().map(|f| f.context).collect()
    }

    /// Stores a diagnostic with the transforms under way. Drops the diagnostic if an equal one is stored already, or if
    /// `MOST_DIAGNOSTICS` diagnostics are stored.
    pub(super) fn push(&mut self, mut diagnostic: Diagnostic) {
        if diagnostic.context.is_empty() {
            diagnostic.context = self.contexts();
        }
        let same = |d: &Diagnostic| d.at == diagnostic.at && d.problem == diagnostic.problem;
        if self.diagnostics.len() < MOST_DIAGNOSTICS && !self.diagnostics.iter().any(same) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Returns the results as atoms of the top frame (the innermost function under construction); `None` for a
    /// placeholder after an error, and for a value used outside its trace.
    pub(super) fn results(&mut self, results: &[Handle], at: Loc) -> Vec<Option<Atom>> {
        let mut atoms = Vec::with_capacity(results.len());
        for h in results {
            match self.resolve(*h) {
                Ok(a) => atoms.push((!self.frames[self.top()].is_poison(a)).then_some(a)),
                Err(Escape(problem)) => {
                    self.record(problem, &[], at);
                    atoms.push(None);
                }
            }
        }
        atoms
    }
}

/// Returns the types unchanged; an error if the bytes of an array exceed the address space.
fn sized(types: Types) -> Result<Types, Problem> {
    let too_large = |a: &&ArrayType| a.checked_bytes().is_none();
    match types.iter().filter_map(Type::as_array).find(too_large) {
        None => Ok(types),
        Some(a) => Err(Problem::new(
            Kind::TooLarge,
            format!("an array of type {a} is larger than memory can be"),
            "reduce an extent, or process the data in parts",
        )),
    }
}
