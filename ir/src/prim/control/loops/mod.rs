//! `loop{body, trip, direction, takes, carries}`: runs a function in every iteration.
//!
//! ```text
//! func @step(%0: f64[], %1: f64[], %2: f64[]) -> (f64[], f64[]) {
//!   %3: f64[] = mul %0, %1
//!   %4: f64[] = add %3, %2
//!   return %4, %3
//! }
//!
//! func @f(%0: f64[], %1: f64[], %2: f64[8]) -> (f64[], f64[8]) {
//!   %3: f64[], %4: f64[8] = loop{body=@step, trip=8, direction=up, takes=[const,carry0,xs]} %0, %1, %2
//!   return %3, %4
//! }
//! ```
//!
//! [`LoopSpec`] defines the inputs and outputs of an iteration. This one primitive is `scan` (carries and
//! elements), `fori_loop` (carries, and a trip count that may be known only at run time), `while_loop` (a
//! condition) and `map` (elements alone).
//!
//! Values reach an iteration only through slots: a loop reads no values but its operands, and carries are the results
//! of the preceding iteration.

mod batch;
mod checkpoint_slots;
mod checkpointed;
mod chunks;
mod eval;
mod infer;
mod invariant_carries;
mod linearize;
mod masked_batch;
mod prune;
mod repeated_constants;
mod samples;
mod signature;
mod strip_effects;
mod strip_mine;
mod transpose;

pub use checkpointed::{Replay, SlotSize};
pub use chunks::{Chunks, bodies_of_dynamic_loops, waits_for_members};
pub use invariant_carries::OutputSource;
pub use linearize::may_not_end;
pub use signature::{Binding, Direction, LoopSpec, TripCount};
pub use strip_mine::CheckpointPlan;

use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId, Function};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::query::BatchRequest;
use crate::lang::types::{ArrayType, Type};
use crate::lang::value::Value;
use crate::prim::elementwise::materialize_lead;
use crate::prim::facet::Facet;
use crate::prim::rules::region_helpers::{batch_as_requested, fits, function, instantiate};
use crate::prim::{
    Arg, Batched, Cotangents, Doc, Dual, Effects, Family, Linearity, Lowering, Op, Operand,
    Primitive, Prune, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Types,
};
use std::num::NonZeroU32;

/// A loop: runs a function in every iteration. Its text is `loop{body, trip, direction, takes, carries}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Loop {
    /// The function that runs in every iteration.
    pub body: FuncId,
    /// The trip count, the direction, and the source (slot) of each of the body's parameters.
    pub spec: LoopSpec,
    /// The number of checkpoint slots in reverse mode, if the program gives one: carries that are not saved are
    /// recomputed ([`crate::revolve`]). Otherwise every iteration saves its residuals.
    pub carries: Option<NonZeroU32>,
}

notation!(Loop = "loop" { body, spec(trip, condition, reads, direction, takes), carries });

impl Loop {
    /// Returns a loop whose iterations save their residuals in reverse mode.
    pub fn new(body: FuncId, spec: LoopSpec) -> Loop {
        Loop { body, spec, carries: None }
    }

    /// Returns the number of outputs that are trip counts: 1 for a loop with a condition, otherwise 0.
    fn trips(&self) -> usize {
        usize::from(matches!(self.spec.trip, TripCount::While { .. }))
    }
}

/// Emits a tape without records (one per iteration), as a loop without iterations writes it.
pub(crate) fn empty_tape(b: &Builder<'_>, fields: &[Type]) -> Atom {
    constant_tape(b, "no_iteration", Literal::i64(0).into(), fields)
}

/// Emits the number of records (one per iteration) of `tape` if an equation of the function under construction writes
/// the tape; otherwise returns `None`.
fn written(b: &Builder<'_>, tape: Atom) -> Option<Atom> {
    b.definition(tape).and_then(|e| {
        let Op::Loop(of) = &e.op else { return None };
        match of.spec.trip {
            TripCount::Runtime => e.operands.first().copied(),
            TripCount::While { .. } => e.outputs.last().map(|v| Atom::Value(*v)),
            TripCount::Static(_) => None,
        }
    })
}

/// Emits the zero tangent of a loop's operand `x`. The zero tangent of a tape is a tape with as many records (one per
/// iteration) as `x`, if that number is known, because iterations read the records.
fn zero_tangent(b: &Builder<'_>, x: Atom) -> Atom {
    let ty = b.type_of(x);
    match (&ty, written(b, x)) {
        (Type::Tape(fields), Some(count)) if fields.iter().all(|ty| ty.as_array().is_some()) => {
            tape_of_zeros(b, count, fields)
        }
        _ => instantiate(b, None, &ty),
    }
}

/// Emits a tape of `count` records (one per iteration) whose fields, of these types, are zeros.
fn tape_of_zeros(b: &Builder<'_>, count: Atom, fields: &[Type]) -> Atom {
    constant_tape(b, "zeros", count, fields)
}

fn constant_tape(b: &Builder<'_>, name: &str, count: Atom, fields: &[Type]) -> Atom {
    let body = b.with_module(|m| {
        function(m, name, [&[], &[]], |b, _, _| {
            fields.iter().map(|ty| instantiate(b, None, ty)).collect()
        })
    });
    let spec = LoopSpec { trip: TripCount::Runtime, direction: Direction::Up, takes: Vec::new() };
    match body {
        Ok(body) => b.emit1(Loop::new(body, spec), &[count]),
        Err(problem) => {
            b.fail(problem);
            Literal::i64(0).into()
        }
    }
}

/// Returns whether the result `tape` of a function is certain to be an empty tape: one written by a loop with a literal
/// trip count of 0.
pub(super) fn is_empty_tape(f: &Function, tape: Atom) -> bool {
    let Some(value) = tape.value() else { return false };
    let written = f.equations.iter().rev().find(|e| e.outputs.contains(&value));
    let none = Some(&Atom::Literal(Literal::i64(0)));
    let is = |op: &Op| matches!(op, Op::Loop(of) if of.spec.trip == TripCount::Runtime);
    written.is_some_and(|e| is(&e.op) && e.operands.first() == none)
}

impl Op {
    /// Returns whether every iteration of a loop reads this operand, so that the reverse pass carries a total
    /// for its cotangent.
    pub fn is_constant(&self, module: &Module, operand: usize) -> bool {
        self.takes(module, operand) == Some(Binding::Const)
    }

    /// Returns whether each iteration of a loop reads its own row (element along axis 0) of this operand.
    pub fn is_rows(&self, module: &Module, operand: usize) -> bool {
        self.takes(module, operand) == Some(Binding::Xs)
    }

    /// Returns the slot, that is, the source of a body parameter, through which a loop or the linear function of a loop
    /// takes this operand; `None` for other primitives.
    fn takes(&self, module: &Module, operand: usize) -> Option<Binding> {
        match self.facet() {
            Facet::Loop(Loop { spec, .. }) => {
                let param = operand.checked_sub(spec.lead()).and_then(|k| spec.params().nth(k));
                param.map(|p| spec.takes[p])
            }
            Facet::Replay(of) => of.takes(module, operand),
            Facet::Plain
            | Facet::Elementwise { .. }
            | Facet::Box(_)
            | Facet::Barrier(_)
            | Facet::Call(_)
            | Facet::ByColumns
            | Facet::Constant
            | Facet::Host(_) => None,
        }
    }
}

/// Returns the type with a batch axis of `size` in front of every array; in a tape, of every field.
fn with_batch(ty: &Type, size: usize) -> Type {
    match ty {
        Type::Array(ty) => ArrayType::new(ty.dtype, ty.shape.with_leading(size)).into(),
        Type::Tape(fields) => Type::Tape(fields.iter().map(|ty| with_batch(ty, size)).collect()),
    }
}

/// Emits the initial value of a carry, repeated for every member of a batch.
fn repeated(b: &Builder<'_>, size: usize, start: Atom) -> Atom {
    match b.type_of(start) {
        Type::Array(_) => materialize_lead(b, size, start),
        Type::Tape(_) => spread_tape(b, size, start),
    }
}

/// Emits a tape with a batch axis in its records (the residuals of an iteration) from an unbatched tape: needed if one
/// branch over a batch writes a tape and the other branches leave it empty. The loop that wrote the tape gives the
/// number of records.
pub(crate) fn spread_tape(b: &Builder<'_>, size: usize, tape: Atom) -> Atom {
    let written = written(b, tape);
    if let (Some(Atom::Literal(none)), Type::Tape(fields)) = (written, b.type_of(tape))
        && none.is_zero()
    {
        let fields: Vec<Type> = fields.iter().map(|ty| with_batch(ty, size)).collect();
        return empty_tape(b, &fields);
    }
    let spread = |m: &mut Module, ty: Type| {
        function(m, "spread", [&[ty], &[]], |b, x, _| {
            vec![batch_as_requested(b, size, x[0], false, BatchRequest::Batched).0]
        })
    };
    let (trip, Type::Tape(mut fields)) = (written, b.type_of(tape)) else { return tape };
    let body = match (trip, fields.pop()) {
        (Some(trip), Some(ty)) => b.with_module(|m| spread(m, ty)).map(|body| (trip, body)),
        _ => Err(Problem::new(
            Kind::Target,
            "a batched loop carries the tape of a loop whose trip count is unknown",
            "call the linear function outside of the inner loop, or `map` over the members",
        )),
    };
    match body {
        Ok((trip, body)) => {
            let takes = vec![Binding::Xs];
            let spec = LoopSpec { trip: TripCount::Runtime, direction: Direction::Up, takes };
            b.emit1(Loop::new(body, spec), &[trip, tape])
        }
        Err(problem) => {
            b.fail(problem);
            tape
        }
    }
}

impl Primitive for Loop {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Control,
            name: "loop{body, trip, direction, takes, carries}".into(),
            math:
                "(c.., y_i..) = f(c.., x_i..) for every i, c.. carried from iteration to iteration"
                    .into(),
            types: "an i64 if the trip count is an operand, then the operands that `takes` lists: \
                    constants, initial carries, arrays with one element for each iteration"
                .into(),
            derivative: "the loop of the derived body; reverse mode runs in the opposite \
                         direction, over the residuals of the iterations"
                .into(),
            edges:
                "without iterations, the results are the initial carries; a negative trip count \
                 counts as 0; `carries` is the number of carries that reverse mode saves instead \
                 of the residuals of each iteration"
                    .into(),
        }]
    }

    fn outputs(&self, module: &Module) -> usize {
        module.function(self.body).results.len() + self.trips()
    }

    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        infer::infer(self, module, operands)
    }

    fn run(&self, module: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem> {
        eval::eval(self, module, operands)
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        linearize::jvp(self, cx, x, dx)
    }

    fn linearize(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        linearize::linearize(self, cx, x, dx)
    }

    fn is_linear(&self, module: &Module, operands: &[Linearity]) -> bool {
        // The trip count depends on the values that the condition reads, so the loop is not a linear map of them.
        if let TripCount::While { .. } = self.spec.trip {
            return false;
        }
        let known = module.function(self.body).params.len();
        // Skip the trip count operand: it is an integer, which is never linear.
        let given = operands[self.spec.lead()..].iter().copied();
        fits(known, self.spec.params().zip(given))
    }

    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<(), Problem> {
        transpose::transpose(self, cx, x, ct, into)
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem> {
        batch::batch(self, cx, size, x, batched)
    }

    fn regions(&self) -> RegionList {
        let mut regions = RegionList::from_slice(&[Role::Iteration.of(self.body)]);
        if let TripCount::While { condition, .. } = &self.spec.trip {
            regions.push(Role::Iteration.of(*condition));
        }
        regions
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        let mut next = functions.iter().copied();
        let mut of = self.clone();
        of.body = next.next().unwrap_or(of.body);
        if let TripCount::While { condition, .. } = &mut of.spec.trip {
            *condition = next.next().unwrap_or(*condition);
        }
        of.into()
    }

    fn prune(
        &self,
        regions: &mut dyn Regions,
        module: &mut Module,
        used: &[bool],
    ) -> Result<Prune, Problem> {
        prune::prune(self, regions, module, used)
    }

    fn lower(&self, _: &Module, _: &[Operand<'_>]) -> Lowering {
        Lowering::Loop { body: self.body, spec: self.spec.clone() }
    }

    fn effects(&self, module: &Module) -> Effects {
        self.regions().iter().map(|r| module.effects(r.function)).max().unwrap_or_default()
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples(module: &mut Module) -> Vec<Sample> {
        samples::all(module)
    }
}
