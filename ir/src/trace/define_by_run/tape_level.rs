//! Closures inside a recording that have a reverse pass of their own, which is recorded, too.

use super::super::{Handle, bind, bind1, poison1, record as record_problem, with_trace};
use super::reverse_sweep::{Arithmetic, Cotangents, Level, Place, Plan, Program, pull_back};
use super::rules::Back;
use crate::lang::function::Atom;
use crate::lang::problem::{Kind, Problem};
use crate::lang::source_loc::Loc;
use crate::lang::types::Type;
use crate::prim::{Broadcast, Call, Reshape, Scalar};
use crate::trace::diagnostic::Diagnostic;
use crate::trace::frame::Trace;
use smallvec::SmallVec;

/// The pullback of a closure that has run inside a recording (a trace that is evaluated while it grows): the
/// closure's saved operations and the plan of their reverse pass, which can run any number of times.
pub struct Pullback {
    frame: u64,
    level: Level,
    plan: Plan,
    args: Vec<Atom>,
    /// The types of the closure's arguments, in order.
    types: Vec<Type>,
    results: Vec<Atom>,
}

/// Returns whether an equation that is traced now is evaluated at once, as in the outermost frame of a recording.
pub fn is_recording() -> bool {
    with_trace(|t| t.is_recording()).unwrap_or(false)
}

/// Returns the bytes that values and operations of the current recording (the trace that is evaluated while it grows)
/// occupy so far; `None` if there is no recording.
pub fn recorded_bytes() -> Option<u64> {
    with_trace(|t| t.recording.as_ref().map(|r| r.live())).flatten()
}

/// Runs a closure in the current recording and saves its operations for a reverse pass of its own. Returns the
/// closure's results, the value of type `R` that the closure returned besides them, and the pullback (`None` after an
/// error, or without a recording). The closure runs in the recording's frame, on copies of `args`, so that no other
/// closure shares these values.
pub fn level<R>(
    args: &[Handle],
    at: Loc,
    f: impl FnOnce(&[Handle]) -> (Vec<Handle>, R),
) -> (Vec<Handle>, R, Option<Pullback>) {
    /// A guard that removes the closure's level from the recording when the closure ends, even if it panics.
    struct LevelGuard(usize);
    impl LevelGuard {
        fn end(&self) -> Option<Level> {
            let ended = |t: &mut Trace| {
                let levels = &mut t.recording.as_mut()?.levels;
                (self.0 < levels.len()).then(|| levels.split_off(self.0))?.into_iter().next()
            };
            with_trace(ended).flatten()
        }
    }
    impl Drop for LevelGuard {
        fn drop(&mut self) {
            self.end();
        }
    }
    let first = with_trace(|t| t.frames[0].draft.types().len() as u32).unwrap_or(0);
    let own = |x: &Handle| match super::super::type_of(*x, at) {
        Type::Array(ty) => bind1(Reshape { shape: ty.shape }, &[*x], at),
        Type::Tape(_) => *x,
    };
    let args: Vec<Handle> = args.iter().map(own).collect();
    let begun = with_trace(|t| {
        let draft = &t.frames[0].draft;
        let mut level = Level::new(first);
        for v in args.iter().filter_map(|h| h.atom.value()) {
            if draft.types().get(v).is_some_and(Type::has_tangent) {
                level.activate(v);
            }
        }
        let levels = &mut t.recording.as_mut()?.levels;
        levels.push(level);
        Some(levels.len() - 1)
    });
    let Some(number) = begun.flatten() else {
        let (results, output) = f(&args);
        return (results, output, None);
    };
    let under = LevelGuard(number);
    let (results, output) = f(&args);
    let Some(level) = under.end() else { return (results, output, None) };
    let pullback = with_trace(|t| t.plan_reverse_pass(level, &args, &results, at)).flatten();
    (results, output, pullback)
}

impl Trace {
    /// Plans the reverse pass of a closure that has ended. After an error, records the error and returns `None`.
    fn plan_reverse_pass(
        &mut self,
        mut level: Level,
        args: &[Handle],
        results: &[Handle],
        at: Loc,
    ) -> Option<Pullback> {
        let results: Option<Vec<Atom>> = self.results(results, at).into_iter().collect();
        let results = results?;
        let frame = self.frames.first()?;
        let program = Program::of(&frame.draft);
        let rules = &mut self.recording.as_mut()?.rules;
        match level.plan(&results, rules, &mut self.module, program) {
            Ok(plan) => {
                // The reverse pass is recorded while the recording grows, so it cannot borrow the equations: each
                // step gets a list of its own operands and outputs.
                for step in &mut level.steps {
                    step.place = Place::Own(Box::new(step.own(program)));
                }
                let args: Vec<Atom> = args.iter().map(|h| h.atom).collect();
                let types = args.iter().map(|a| frame.draft.type_of(*a)).collect();
                Some(Pullback { frame: frame.id, level, plan, args, types, results })
            }
            Err(problem) => {
                self.push(Diagnostic::new(problem, at));
                None
            }
        }
    }
}

impl Pullback {
    /// Returns the cotangents of the arguments, given the cotangents of the results; `None` stands for zero. The
    /// equations of the reverse pass are added to the recording or, if a closure is being traced in the recording, to
    /// that closure.
    pub fn pull(&self, cotangents: &[Handle], at: Loc) -> Vec<Option<Handle>> {
        let here = |t: &mut Trace| t.frames.first().is_some_and(|f| f.id == self.frame);
        if with_trace(here) != Some(true) {
            let problem = Problem::new(
                Kind::Escaped,
                "a pullback is used outside the recording in which its closure ran",
                "pull back inside the closure given to `record`",
            );
            record_problem(problem, &[], at);
            return self.types.iter().map(|ty| Some(poison1(ty.clone(), at))).collect();
        }
        match self.walk(cotangents) {
            Ok(found) => found,
            Err(problem) => {
                record_problem(problem, &[], at);
                self.args.iter().map(|_| None).collect()
            }
        }
    }

    fn walk(&self, cotangents: &[Handle]) -> Result<Vec<Option<Handle>>, Problem> {
        let mut traced = Traced { frame: self.frame };
        let mut cts = Cotangents::new(&self.level);
        for (r, ct) in self.results.iter().zip(cotangents) {
            if self.level.is_active(*r) {
                cts.add(&mut traced, *r, *ct)?;
            }
        }
        let program = Program { equations: &[], locations: &[] };
        for planned in &self.plan.steps {
            pull_back(&mut traced, &self.level, program, &self.plan, *planned, &mut cts)?;
        }
        Ok(self.args.iter().map(|a| cts.take(*a)).collect())
    }
}

/// The reverse pass on handles of a trace: its equations are themselves recorded or traced.
struct Traced {
    /// The number of the recording's frame (function under construction).
    frame: u64,
}

impl Arithmetic for Traced {
    type Value = Handle;

    fn read(&mut self, a: Atom, ty: &Type) -> Result<Handle, Problem> {
        let handle = Handle::new(self.frame, a, None);
        Ok(match (a, ty) {
            (Atom::Literal(_), Type::Array(ty)) if !ty.shape.is_empty() => {
                bind1(Broadcast { shape: ty.shape.clone(), dims: Vec::new() }, &[handle], None)
            }
            (Atom::Literal(_) | Atom::Value(_), _) => handle,
        })
    }

    fn run(
        &mut self,
        back: &Back,
        args: SmallVec<[Handle; 6]>,
        loc: Loc,
    ) -> Result<SmallVec<[Handle; 2]>, Problem> {
        Ok(bind(Call::inline(back.function), &args, loc).into_iter().collect())
    }

    fn add(&mut self, x: Handle, y: Handle) -> Result<Handle, Problem> {
        Ok(bind1(Scalar::Add, &[x, y], x.born()))
    }
}
