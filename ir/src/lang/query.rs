//! Questions: what can be asked about a function, and what the answer holds.
//!
//! A question is a transform with all its arguments but the function. Functions never change, so
//! (function, question) is the whole key under which a [`Module`](crate::Module) remembers the answer,
//! and the type of a question says the type of its answer: no answer is read as that of another
//! question.
//!
//! Masks have one entry per parameter or per result, the linear parameters last.

use crate::lang::function::FuncId;
use crate::map::OrderedMap;
use crate::policy::{Amortization, PlanRequest};
use crate::policy_table::Policy;
use std::fmt::Debug;
use std::hash::Hash;

/// Something that can be asked about a function.
pub trait Query: Clone + Eq + Hash + Debug {
    /// What is answered.
    type Answer: Clone + Debug;

    /// The answers known so far.
    fn answers(memo: &mut Memo) -> &mut OrderedMap<(FuncId, Self), Self::Answer>;
}

macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $ty:ty,)* } -> $answer:ident in $table:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Hash, Debug)]
            pub struct $name { $($(#[$about])* pub $field: $ty,)* }

            impl Query for $name {
                type Answer = $answer;
                fn answers(memo: &mut Memo) -> &mut OrderedMap<(FuncId, Self), $answer> {
                    &mut memo.$table
                }
            }
        )*

        /// The answers that a module remembers.
        #[derive(Clone, Debug, Default)]
        pub struct Memo { $($table: OrderedMap<(FuncId, $name), $answer>,)* }
    };
}

questions! {
    /// `(x -> y)` to `(x, dx of the active) -> (y, dy of the active)`.
    Jvp {
        /// Which parameters have a tangent.
        active: Vec<bool>,
        /// Which results have a tangent even where it is zero, if their type has one.
        forced: Vec<bool>,
    } -> JvpOf in jvp,

    /// `(x -> y)` to `fwd: x -> (y, kept)` and `lin: (residuals; dx of the active) -> dy`.
    Linearize {
        /// Which parameters have a tangent.
        active: Vec<bool>,
        /// Which results have a tangent even where it is zero, if their type has one.
        forced: Vec<bool>,
        /// What it costs the linear half to have the parameters again.
        shares: Vec<Amortization>,
    } -> LinearizeOf in linearize,

    /// The same derivative, asked of its forward half, with what is worth keeping as residuals.
    Plan {
        /// The linear half.
        lin: FuncId,
        /// Which outputs have a tangent.
        active_out: Vec<bool>,
        /// What each residual is.
        residuals: Vec<Residual>,
        /// What is worth keeping.
        terms: PlanRequest,
    } -> LinearizeOf in plan,

    /// As [`Linearize`], with loops and all that is in them as a policy says.
    Within {
        /// Which parameters have a tangent.
        active: Vec<bool>,
        /// What it costs the linear half to have the parameters again.
        shares: Vec<Amortization>,
        /// The policy.
        policy: Policy,
    } -> LinearizeOf in within,

    /// `(k; dx) -> dy` to `(k; ct of dy, totals) -> ct of dx`.
    Transpose {
        /// Which results have a cotangent that is not zero.
        nonzero: Vec<bool>,
        /// What the cotangent of each linear parameter is added to.
        onto: Vec<AccumulateInto>,
    } -> TransposeOf in transpose,

    /// `(x -> y)` to `([n, x]) -> [n, y]`.
    Batch {
        /// Extent of the batch.
        size: usize,
        /// Which parameters carry the batch.
        batched: Vec<bool>,
        /// What becomes of each result.
        wanted: Vec<BatchRequest>,
    } -> BatchOf in batch,

    /// The same function with only some of its results.
    Prune {
        /// Which results are read.
        used: Vec<bool>,
        /// Which parameters stay even where they are not read.
        kept: Vec<bool>,
    } -> PruneOf in prune,

    /// The function in two: what depends on some of its parameters alone, and the rest.
    Unzip {
        /// Which parameters are known.
        known: Vec<bool>,
    } -> UnzipOf in unzip,
}

/// What the cotangent of a linear parameter is added to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccumulateInto {
    /// To nothing: it is absent where it is zero.
    Nothing,
    /// To zeros: it is always there.
    Zeros,
    /// To a running total, which the transpose takes as one more parameter. What the function reads
    /// of a large operand is then added in place, and not to zeros as large as the operand.
    Total,
}

/// What becomes of a result of a batched function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BatchRequest {
    /// It stays as it comes: without the batch if it depends on no batched parameter.
    AsIs,
    /// It carries the batch, if need be by repetition.
    Batched,
    /// It is summed over the batch: the cotangent of something that all members share.
    Summed,
}

/// The forward derivative of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JvpOf {
    /// The derived function.
    pub function: FuncId,
    /// Which outputs have a tangent.
    pub active_out: Vec<bool>,
}

/// A derivative in two halves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinearizeOf {
    /// The forward half: `x.. -> (y.., kept..)`.
    pub fwd: FuncId,
    /// The linear half: `(residuals..; dx of the active) -> dy of the active`.
    pub lin: FuncId,
    /// Which outputs have a tangent.
    pub active_out: Vec<bool>,
    /// What each residual is.
    pub residuals: Vec<Residual>,
}

/// What the second half of a function that was cut in two reads of the first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Residual {
    /// A parameter of the first half, by its position: it is there anyway.
    Parameter(usize),
    /// A result that the function has anyhow, by its position among the outputs of the first half.
    Result(usize),
    /// What was kept for the second half alone, by its position among the outputs of the first half.
    Kept(usize),
}

impl Residual {
    /// The residuals, given operands and outputs of the first half.
    pub fn pick<T: Clone>(residuals: &[Residual], x: &[T], outputs: &[T]) -> Vec<T> {
        let one = |residual: &Residual| match residual {
            Residual::Parameter(i) => x.get(*i).cloned(),
            Residual::Result(i) | Residual::Kept(i) => outputs.get(*i).cloned(),
        };
        residuals.iter().filter_map(one).collect()
    }
}

/// The transpose of a linear function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransposeOf {
    /// The derived function.
    pub function: FuncId,
    /// Which linear parameters have a cotangent.
    pub nonzero: Vec<bool>,
}

/// A function over a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchOf {
    /// The derived function.
    pub function: FuncId,
    /// Which outputs are batched.
    pub batched_out: Vec<bool>,
}

/// A function with fewer results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PruneOf {
    /// The smaller function.
    pub function: FuncId,
    /// Which parameters remain.
    pub params: Vec<bool>,
}

/// A function cut in two by what is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnzipOf {
    /// `known parameters.. -> (results that depend on them alone.., kept..)`
    pub known: FuncId,
    /// `(residuals.., other parameters..) -> other results..`
    pub rest: FuncId,
    /// Which results the first half gives.
    pub known_out: Vec<bool>,
    /// What each residual is.
    pub residuals: Vec<Residual>,
}
