//! The inputs and results of the rules of primitives, as types.

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

/// The types of an equation's outputs.
pub type Types = SmallVec<[Type; 1]>;

/// The type of an operand, and its value if it is a literal, as type inference sees it.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The operand's type; a literal has a scalar type of its dtype.
    pub ty: &'a Type,
    /// The operand's value, if it is a literal.
    pub literal: Option<Literal>,
}

/// Outputs and their tangents; a `None` tangent is zero whatever the tangents of the operands are.
#[derive(Clone, Debug)]
pub struct Dual {
    /// The outputs of the equation.
    pub y: SmallVec<[Atom; 1]>,
    /// Per output: its tangent; `None` is zero.
    pub dy: SmallVec<[Option<Atom>; 1]>,
}

/// The dependence of a value on the linear parameters of its function: none, zero, or linear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linearity {
    /// The value does not depend on the linear parameters.
    Constant,
    /// The value is zero, which is both constant and linear.
    Zero,
    /// The value is a linear function of the linear parameters.
    Linear,
}

/// An operand of an equation under transposition.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// An operand whose value is known in the reverse pass.
    Known(Atom),
    /// A linear operand; only its type is known.
    Linear(Type),
}

impl Arg {
    /// Returns the operand's value if it is known, `None` if it is a linear operand.
    pub fn known(&self) -> Option<Atom> {
        match self {
            Arg::Known(a) => Some(*a),
            Arg::Linear(_) => None,
        }
    }

    /// Returns the extents of the operand; a tape has none (the shape is empty).
    pub(crate) fn shape(&self, b: &Builder<'_>) -> Shape {
        match self {
            Arg::Known(a) => b.shape_of(*a),
            Arg::Linear(Type::Array(a)) => a.shape.clone(),
            Arg::Linear(Type::Tape(_)) => Shape::scalar(),
        }
    }
}

/// A cotangent, or the negative of one. Negation commutes with every linear map, so it is deferred until an
/// addition, which becomes a subtraction at no cost. A total without additions is negated once at the end,
/// often after a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accumulator {
    /// The cotangent, or its negative.
    pub atom: Atom,
    /// Whether the cotangent is the negative of `atom`.
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
    /// Returns the sum of two cotangents. If exactly one of them is stored as its negative, a subtraction is emitted
    /// instead of an addition.
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

    /// Emits the cotangent as one value, with its sign applied.
    pub fn apply_sign(self, b: &Builder<'_>) -> Atom {
        if self.negated { b.emit1(Scalar::Neg, &[self.atom]) } else { self.atom }
    }
}

/// The cotangents of an equation's operands, as they accumulate; `None` is zero.
#[derive(Clone, Debug, Default)]
pub struct Cotangents {
    /// Per operand: the sum of the contributions from the operand's uses that the reverse pass has visited so far.
    pub total: SmallVec<[Option<Accumulator>; 2]>,
    /// Whether the rule was given the negated cotangents. If so, the contributions that it adds are negated as well.
    pub negated: bool,
}

impl Cotangents {
    /// Adds the contribution `ct` to the total of operand `i`.
    pub fn add(&mut self, b: &Builder<'_>, i: usize, ct: impl Into<Accumulator>) {
        let ct = if self.negated { -ct.into() } else { ct.into() };
        self.total[i] = Some(self.total[i].map_or(ct, |before| before.plus(b, ct)));
    }

    /// Returns the arguments of a region that adds its contributions to totals (the sums of cotangents so far) itself:
    /// the cotangents of its results, then the totals of the linear operands from `first` on that `onto` marks as
    /// `Total`. These totals are removed from `self`. Such a region adds cotangents without a sign flag, so signs are
    /// applied before. They are also applied if cotangents are tapes, which cannot be negated.
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
        let mut args: Vec<Atom> = ct
            .iter()
            .flatten()
            .map(|ct| Accumulator { atom: *ct, negated }.apply_sign(b))
            .collect();
        let handed =
            self.total[first..].iter_mut().zip(onto).filter(|(_, o)| **o == AccumulateInto::Total);
        args.extend(handed.filter_map(|(total, _)| Some(total.take()?.apply_sign(b))));
        args
    }

    /// Returns `ct` with its sign applied, and clears the sign flag of the rule. A rule calls this
    /// before a step that is not fused with the following one (a contraction, a scatter), where
    /// negation is cheaper before than after.
    pub(crate) fn apply_sign(&mut self, b: &Builder<'_>, ct: Atom) -> Atom {
        Accumulator { atom: ct, negated: std::mem::take(&mut self.negated) }.apply_sign(b)
    }

    /// Adds `ct` to a part of the total of operand `i`, the sum of its cotangents so far, whose type is `x`. The part
    /// starts at `start`; `read` emits the part of a given array. Only that part of the total is written, so n reads of
    /// single elements cost n elements, not n arrays of zeros.
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
            None => (super::elementwise::zeros(b, x), self.apply_sign(b, ct), false),
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

/// The arguments of a derivative or batching rule besides the operands and their tangents or cotangents.
pub struct RuleCx<'b, 'm> {
    /// The builder that receives the equations.
    pub b: &'b Builder<'m>,
    /// The transforms (jvp, transpose, batch and so on) that a region primitive applies to its functions.
    pub regions: &'b mut dyn Regions,
    /// Per operand: the cost for the linear function if it reads the operand again; operands beyond the list are free.
    pub shares: &'b [Amortization],
    /// Per output: the elements that differentiated equations read; `None` if there are none. Outputs beyond the list
    /// are read whole. A tangent may be zero at all other elements.
    pub reads: &'b [Option<Reads>],
}

impl RuleCx<'_, '_> {
    /// Returns the cost for the linear function if it reads this operand of the equation again.
    pub fn share(&self, operand: usize) -> Amortization {
        self.shares.get(operand).copied().unwrap_or(Amortization::FREE)
    }

    /// Returns the planning context of the equation's residuals: the greatest context of its operands, in the order of
    /// [`PlanContext`]; the default if there are none.
    pub fn context(&self) -> PlanContext {
        self.shares.iter().map(|share| share.context()).max().unwrap_or_default()
    }

    /// Derives functions: calls `make` with the transforms and the module, and returns its result. For example,
    /// `cx.derive(|regions, m| regions.jvp(m, ..))`.
    pub fn derive<T>(
        &mut self,
        make: impl FnOnce(&mut dyn Regions, &mut Module) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let regions = &mut *self.regions;
        self.b.with_module(|m| make(regions, m))
    }
}

/// The transforms, as seen by rules of region primitives. `ir` does not depend on the transforms; they
/// implement this trait and pass themselves in. The module memoises all results.
///
/// A list argument with one entry per result or slot (`forced`, `shares`, `onto`, `wanted`, `kept`) may
/// be shorter than the number of results or slots: the others have no requirement.
pub trait Regions {
    /// Differentiates a function by forward mode; see [`crate::lang::query::Jvp`].
    fn jvp(
        &mut self,
        module: &mut Module,
        f: FuncId,
        active: &[bool],
        forced: &[bool],
    ) -> Result<JvpOf, Problem>;

    /// Splits a function into a forward function and a linear function; see [`crate::lang::query::Linearize`].
    fn linearize(
        &mut self,
        module: &mut Module,
        f: FuncId,
        active: &[bool],
        forced: &[bool],
        shares: &[Amortization],
    ) -> Result<LinearizeOf, Problem>;

    /// Plans which residuals are saved; see [`crate::lang::query::Plan`].
    fn plan(
        &mut self,
        module: &mut Module,
        of: LinearizeOf,
        terms: PlanRequest,
    ) -> Result<LinearizeOf, Problem>;

    /// Splits a function into a forward function and a linear function under a checkpointing policy; see
    /// [`crate::lang::query::Within`].
    fn within(
        &mut self,
        module: &mut Module,
        f: FuncId,
        active: &[bool],
        shares: &[Amortization],
        policy: &Policy,
    ) -> Result<LinearizeOf, Problem>;

    /// Transposes a function in its linear parameters; see [`crate::lang::query::Transpose`].
    fn transpose(
        &mut self,
        module: &mut Module,
        f: FuncId,
        nonzero: &[bool],
        onto: &[AccumulateInto],
    ) -> Result<TransposeOf, Problem>;

    /// Derives a function over a batch; see [`crate::lang::query::Batch`].
    fn batch(
        &mut self,
        module: &mut Module,
        f: FuncId,
        size: usize,
        batched: &[bool],
        wanted: &[BatchRequest],
    ) -> Result<BatchOf, Problem>;

    /// Reduces a function to the results that are read; see [`crate::lang::query::Prune`].
    fn prune(
        &mut self,
        module: &mut Module,
        f: FuncId,
        used: &[bool],
        kept: &[bool],
    ) -> Result<PruneOf, Problem>;

    /// Splits a function into a part that depends on known parameters alone and the rest; see
    /// [`crate::lang::query::Unzip`].
    fn unzip(&mut self, module: &mut Module, f: FuncId, known: &[bool])
    -> Result<UnzipOf, Problem>;
}

/// The result of [`super::Primitive::batch`]: outputs, each with or without the batch on axis 0.
#[derive(Clone, Debug)]
pub struct Batched {
    /// The outputs, as values of the batched program.
    pub y: SmallVec<[Atom; 1]>,
    /// Per output: whether it is batched.
    pub batched: SmallVec<[bool; 1]>,
}

/// The part of an equation that remains if only some of its outputs are read.
#[derive(Clone, Debug)]
pub enum Prune {
    /// The equation remains unchanged.
    Whole,
    /// A smaller primitive; the masks mark the operands and outputs of the old one that remain.
    Smaller {
        /// The primitive that replaces the old one.
        op: Op,
        /// Per operand of the old primitive: whether it remains.
        operands: Vec<bool>,
        /// Per output of the old primitive: whether it remains.
        outputs: Vec<bool>,
    },
}

/// The effects of an equation besides defining its outputs; later variants are more restrictive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub enum Effects {
    /// No effects: the equation may be dropped, duplicated, merged and reordered.
    #[default]
    Pure,
    /// The equation is dropped if its outputs are not read. Otherwise it represents a decision about the
    /// program: passes never fold, merge, duplicate or rewrite it, and treat its operands as read and its
    /// outputs as new values.
    Fixed,
    /// An effect that a user can observe: it is performed once, in program order.
    Ordered,
}

/// Sample operands for a primitive, on which the tests over all primitives check its rules.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The primitive of the sample.
    pub op: Op,
    /// The values of the operands. In elementwise primitives a scalar may represent a literal.
    pub operands: Vec<Tensor>,
    /// Whether derivatives at this point are defined and smooth enough for finite differences.
    pub smooth: bool,
}

impl Sample {
    /// Returns a sample at which the tests over all primitives also check derivatives.
    pub fn smooth(op: impl Into<Op>, operands: Vec<Tensor>) -> Sample {
        Sample { op: op.into(), operands, smooth: true }
    }
    /// Returns a sample at which only values are checked: ties, domain edges, integers.
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
