//! The vocabulary in which rules speak: what they are given and what they answer.

use self::reads::Reads;
use super::{Op, Scalar};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::query::{
    AccumulateInto, BatchOf, BatchRequest, JvpOf, LinearizeOf, PruneOf, TransposeOf, UnzipOf,
};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::policy::{Amortization, PlanContext, PlanRequest};
use crate::policy_table::Policy;
use crate::tensor::Tensor;
use smallvec::SmallVec;

/// Types of the outputs of an equation.
pub type Types = SmallVec<[Type; 1]>;

/// An operand as type inference sees it.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Its type; a literal is a scalar of its dtype.
    pub ty: &'a Type,
    /// Its value, if it is a constant.
    pub literal: Option<Literal>,
}

/// Outputs and their tangents; a `None` tangent is zero whatever the tangents of the operands are.
#[derive(Clone, Debug)]
pub struct Dual {
    /// The outputs.
    pub y: SmallVec<[Atom; 1]>,
    /// Their tangents.
    pub dy: SmallVec<[Option<Atom>; 1]>,
}

/// What a value is in a function with linear parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linearity {
    /// Does not depend on the linear parameters.
    Constant,
    /// Zero, which is both constant and linear.
    Zero,
    /// A linear function of the linear parameters.
    Linear,
}

/// An operand of an equation under transposition.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// Known in the reverse pass.
    Known(Atom),
    /// A linear operand, of which only the type is known.
    Linear(Type),
}

impl Arg {
    /// The atom, if the operand is known.
    pub fn known(&self) -> Option<Atom> {
        match self {
            Arg::Known(a) => Some(*a),
            Arg::Linear(_) => None,
        }
    }

    /// The extents of the operand, which is an array.
    pub(crate) fn shape(&self, b: &Builder<'_>) -> Shape {
        match self {
            Arg::Known(a) => b.shape_of(*a),
            Arg::Linear(Type::Array(a)) => a.shape.clone(),
            Arg::Linear(Type::Tape(_)) => Shape::scalar(),
        }
    }
}

/// A cotangent, or the negative of one. Negation goes through every linear map, so it waits until
/// something is added: then it is a difference, and costs nothing. What is never added to is negated
/// at the end, once, and often that is behind a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accumulator {
    /// The value.
    pub atom: Atom,
    /// Whether its negative is meant.
    pub negated: bool,
}

impl From<Atom> for Accumulator {
    fn from(atom: Atom) -> Accumulator {
        Accumulator { atom, negated: false }
    }
}

impl std::ops::Neg for Accumulator {
    type Output = Accumulator;
    fn neg(self) -> Accumulator {
        Accumulator { negated: !self.negated, ..self }
    }
}

impl Accumulator {
    /// The sum of this and another cotangent.
    pub fn plus(self, b: &Builder<'_>, other: Accumulator) -> Accumulator {
        let [x, y] = [self.atom, other.atom];
        match (self.negated, other.negated) {
            (true, true) | (false, false) => {
                Accumulator { atom: b.emit1(Scalar::Add, &[x, y]), negated: self.negated }
            }
            (false, true) => b.emit1(Scalar::Sub, &[x, y]).into(),
            (true, false) => b.emit1(Scalar::Sub, &[y, x]).into(),
        }
    }

    /// The cotangent as a value.
    pub fn settle(self, b: &Builder<'_>) -> Atom {
        if self.negated { b.emit1(Scalar::Neg, &[self.atom]) } else { self.atom }
    }
}

/// The cotangents of an equation's operands, as they accumulate; `None` is zero.
#[derive(Clone, Debug, Default)]
pub struct Cotangents {
    /// One total per operand. Each starts at what the uses already visited contributed.
    pub total: SmallVec<[Option<Accumulator>; 2]>,
    /// Whether the rule was given the negatives of the cotangents, so that what it adds is negated.
    pub negated: bool,
}

impl Cotangents {
    /// Adds a contribution to operand `i`.
    pub fn add(&mut self, b: &Builder<'_>, i: usize, ct: impl Into<Accumulator>) {
        let ct = if self.negated { -ct.into() } else { ct.into() };
        self.total[i] = Some(self.total[i].map_or(ct, |before| before.plus(b, ct)));
    }

    /// What a region that adds to totals of its own accord is given: the cotangents of its results, then
    /// the totals of the linear operands, from `first` on, that are to be added to. The region adds
    /// cotangents as they are, so signs are settled before; where cotangents are tapes, too, of which
    /// there are no negatives.
    pub(super) fn hand_over(
        &mut self,
        b: &Builder<'_>,
        ct: &[Option<Atom>],
        x: &[Arg],
        first: usize,
        onto: &[AccumulateInto],
    ) -> Vec<Atom> {
        let tape = |x: &Arg| matches!(x, Arg::Linear(Type::Tape(_)));
        let settled = onto.contains(&AccumulateInto::Total) || x[first..].iter().any(tape);
        let negated = settled && std::mem::take(&mut self.negated);
        let mut args: Vec<Atom> =
            ct.iter().flatten().map(|ct| Accumulator { atom: *ct, negated }.settle(b)).collect();
        let handed =
            self.total[first..].iter_mut().zip(onto).filter(|(_, o)| **o == AccumulateInto::Total);
        args.extend(handed.filter_map(|(total, _)| Some(total.take()?.settle(b))));
        args
    }

    /// From here on the rule works with the cotangent itself: before a step that does not end in a
    /// loop with what comes next (a contraction, a scatter), negation is cheaper than after it.
    pub(crate) fn settle(&mut self, b: &Builder<'_>, ct: Atom) -> Atom {
        Accumulator { atom: ct, negated: std::mem::take(&mut self.negated) }.settle(b)
    }

    /// Adds `ct` to a part of operand `i`, of type `x`: the part that begins at `start`, which
    /// `read` gives. Only that part of the total is touched, so that n reads of single elements
    /// cost what the elements cost, and not n arrays of zeros.
    pub(crate) fn add_part(
        &mut self,
        b: &Builder<'_>,
        i: usize,
        x: &ArrayType,
        read: impl FnOnce(Atom) -> Atom,
        start: &[Atom],
        ct: Atom,
    ) {
        let (total, part, negated) = match self.total[i] {
            None => (super::elementwise::zeros(b, x), self.settle(b, ct), false),
            Some(Accumulator { atom, negated }) => {
                let combine = if negated == self.negated { Scalar::Add } else { Scalar::Sub };
                (atom, b.emit1(combine, &[read(atom), ct]), negated)
            }
        };
        let operands: Vec<Atom> = [total, part].into_iter().chain(start.iter().copied()).collect();
        let atom = b.emit1(super::DynamicUpdateSlice, &operands);
        self.total[i] = Some(Accumulator { atom, negated });
    }
}

/// What a derivative or batching rule works with.
pub struct RuleCx<'b, 'm> {
    /// Where to emit.
    pub b: &'b Builder<'m>,
    /// Transforms of the bodies of region primitives.
    pub regions: &'b mut dyn Regions,
    /// What it costs the linear half to have the operands again; those beyond the list are free.
    pub shares: &'b [Amortization],
    /// Per output: the elements that differentiated equations read; `None` if there are none. Outputs beyond the list
    /// are read whole. A tangent may be zero at all other elements.
    pub reads: &'b [Option<Reads>],
}

impl RuleCx<'_, '_> {
    /// What it costs the linear half to have an operand again.
    pub fn share(&self, operand: usize) -> Amortization {
        self.shares.get(operand).copied().unwrap_or(Amortization::FREE)
    }

    /// What holds of all that is kept here.
    pub fn regime(&self) -> PlanContext {
        self.shares.iter().map(|share| share.regime()).max().unwrap_or_default()
    }

    /// Asks the transforms about a function.
    pub fn ask<T>(
        &mut self,
        question: impl FnOnce(&mut dyn Regions, &mut Module) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let regions = &mut *self.regions;
        self.b.with_module(|m| question(regions, m))
    }
}

/// The transforms, as rules of region primitives see them. `ir` does not know the transforms; they
/// implement this and pass themselves in. The module remembers all answers.
///
/// A list that says more about results or slots than a mask (`forced`, `shares`, `onto`, `wanted`, `kept`)
/// may be shorter than they are: of the rest nothing is asked.
pub trait Regions {
    /// See [`crate::lang::query::Jvp`].
    fn jvp(
        &mut self,
        module: &mut Module,
        f: FuncId,
        active: &[bool],
        forced: &[bool],
    ) -> Result<JvpOf, Problem>;

    /// See [`crate::lang::query::Linearize`].
    fn linearize(
        &mut self,
        module: &mut Module,
        f: FuncId,
        active: &[bool],
        forced: &[bool],
        shares: &[Amortization],
    ) -> Result<LinearizeOf, Problem>;

    /// See [`crate::lang::query::Plan`].
    fn plan(
        &mut self,
        module: &mut Module,
        of: LinearizeOf,
        terms: PlanRequest,
    ) -> Result<LinearizeOf, Problem>;

    /// See [`crate::lang::query::Within`].
    fn within(
        &mut self,
        module: &mut Module,
        f: FuncId,
        active: &[bool],
        shares: &[Amortization],
        policy: &Policy,
    ) -> Result<LinearizeOf, Problem>;

    /// See [`crate::lang::query::Transpose`].
    fn transpose(
        &mut self,
        module: &mut Module,
        f: FuncId,
        nonzero: &[bool],
        onto: &[AccumulateInto],
    ) -> Result<TransposeOf, Problem>;

    /// See [`crate::lang::query::Batch`].
    fn batch(
        &mut self,
        module: &mut Module,
        f: FuncId,
        size: usize,
        batched: &[bool],
        wanted: &[BatchRequest],
    ) -> Result<BatchOf, Problem>;

    /// See [`crate::lang::query::Prune`].
    fn prune(
        &mut self,
        module: &mut Module,
        f: FuncId,
        used: &[bool],
        kept: &[bool],
    ) -> Result<PruneOf, Problem>;

    /// See [`crate::lang::query::Unzip`].
    fn unzip(&mut self, module: &mut Module, f: FuncId, known: &[bool])
    -> Result<UnzipOf, Problem>;
}

/// Answer of [`super::Primitive::batch`]: outputs, each with or without the batch on axis 0.
#[derive(Clone, Debug)]
pub struct Batched {
    /// The outputs.
    pub y: SmallVec<[Atom; 1]>,
    /// Which of them carry the batch.
    pub batched: SmallVec<[bool; 1]>,
}

/// What is left of an equation when only some outputs are read.
#[derive(Clone, Debug)]
pub enum Prune {
    /// All of it.
    Whole,
    /// A smaller primitive; masks say which operands and outputs of the old one remain.
    Smaller {
        /// The replacement.
        op: Op,
        /// Operands kept.
        operands: Vec<bool>,
        /// Outputs kept.
        outputs: Vec<bool>,
    },
}

/// What else an equation does than define its outputs; the later ones forbid what earlier ones do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub enum Effects {
    /// Nothing: it may be dropped, duplicated, merged and reordered.
    #[default]
    Pure,
    /// It is dropped if nobody reads it. Otherwise it stands for a decision about the program: it is
    /// never folded, merged, duplicated or rewritten through, so that to a pass its operands are
    /// read and its outputs are new values.
    Fixed,
    /// Something a user can see: it is kept, once, in order.
    Ordered,
}

/// One use of a primitive, for the laws.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The primitive.
    pub op: Op,
    /// Concrete operands. A scalar may stand for a literal in elementwise primitives.
    pub operands: Vec<Tensor>,
    /// Whether derivatives at this point are defined and smooth enough for finite differences.
    pub smooth: bool,
}

impl Sample {
    /// A sample at which derivatives are checked.
    pub fn smooth(op: impl Into<Op>, operands: Vec<Tensor>) -> Sample {
        Sample { op: op.into(), operands, smooth: true }
    }
    /// A sample of values only: ties, domain edges, integers.
    pub fn edge(op: impl Into<Op>, operands: Vec<Tensor>) -> Sample {
        Sample { op: op.into(), operands, smooth: false }
    }
}
pub(crate) mod array_primitive;
pub(crate) mod attr;
pub(crate) mod axis_helpers;
pub(crate) mod batch_mask;
pub(crate) mod box_addressing;
pub(crate) mod doc;
pub(crate) mod expr;
pub(crate) mod filled_view;
pub(crate) mod index_map;
pub(crate) mod lowering;
pub(crate) mod reads;
pub(crate) mod region;
pub(crate) mod region_helpers;
pub(crate) mod rewrite;
pub(crate) mod sign;
pub(crate) mod slice_access;
pub(crate) mod slice_helpers;
pub(crate) mod split_linear;
pub(crate) mod view;
