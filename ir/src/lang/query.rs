//! Queries about functions, and their answers.
//!
//! A query is a transform with all its arguments but the function. Functions never change, so (function, query)
//! is the whole key under which a [`Module`](crate::Module) memoizes the answer. The type of a query determines
//! the type of its answer, so answers of different queries cannot be confused.
//!
//! Masks have one entry per parameter or per result, the linear parameters last.

use crate::lang::function::FuncId;
use crate::map::OrderedMap;
use crate::policy::{Amortization, PlanRequest};
use crate::policy_table::Policy;
use std::fmt::Debug;
use std::hash::Hash;

/// A query about a function: a transform with its arguments other than the function.
pub trait Query: Clone + Eq + Hash + Debug {
    /// The type of the query's answer.
    type Answer: Clone + Debug;

    /// Returns the memo's table for this type of query: from a function and a query to the answer.
    fn answers(memo: &mut Memo) -> &mut OrderedMap<(FuncId, Self), Self::Answer>;
}

macro_rules! queries {
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

        /// The memo of a module: all answers computed so far, in one table per type of query.
        #[derive(Clone, Debug, Default)]
        pub struct Memo { $($table: OrderedMap<(FuncId, $name), $answer>,)* }
    };
}

queries! {
    /// The forward derivative of `x -> y`: `(x, dx of active parameters) -> (y, dy of active results)`.
    Jvp {
        /// Per parameter: whether it has a tangent.
        active: Vec<bool>,
        /// Per result: whether its tangent is materialized even when it is zero. Ignored for types without
        /// tangents.
        forced: Vec<bool>,
    } -> JvpOf in jvp,

    /// The linearization of a function `x -> y`. Its forward function `fwd` maps `x` to `(y, saved residuals)`. Its
    /// linear function `lin` maps the residuals and `dx` of the active parameters to `dy`.
    Linearize {
        /// Per parameter: whether it has a tangent.
        active: Vec<bool>,
        /// Per result: whether its tangent is materialized even when it is zero. Ignored for types without
        /// tangents.
        forced: Vec<bool>,
        /// Per parameter: the number of iterations over which the cost of saving it as a residual is spread.
        shares: Vec<Amortization>,
    } -> LinearizeOf in linearize,

    /// The linearization in which the checkpoint planner chooses the residuals. The function of this query is the
    /// forward function of a [`Linearize`] answer; the fields hold the rest of that answer and the request to the
    /// planner.
    Plan {
        /// The linear function of the linearization for which the planner chooses residuals.
        lin: FuncId,
        /// Per output: whether it has a tangent.
        active_out: Vec<bool>,
        /// Per residual: whether it is a parameter, a result or a saved value of the forward function.
        residuals: Vec<Residual>,
        /// The request to the planner: a policy, and the costs of values.
        terms: PlanRequest,
    } -> LinearizeOf in plan,

    /// A linearization of the function, like [`Linearize`], for which a checkpoint policy plans the function's loops
    /// and all functions inside the loops.
    Within {
        /// Per parameter: whether it has a tangent.
        active: Vec<bool>,
        /// Per parameter: the number of iterations over which the cost of saving it as a residual is spread.
        shares: Vec<Amortization>,
        /// The policy that plans the function's loops and all functions inside the loops.
        policy: Policy,
    } -> LinearizeOf in within,

    /// The transpose of a linear function from ordinary parameters `k` and linear parameters `dx` to `dy`. The
    /// transpose maps `k`, the cotangent of `dy` and running totals, to which it adds, to the cotangent of `dx`.
    Transpose {
        /// Per result: whether its cotangent is nonzero. Only nonzero cotangents are parameters of the transpose.
        nonzero: Vec<bool>,
        /// Per linear parameter: the value to which its cotangent is added.
        onto: Vec<AccumulateInto>,
    } -> TransposeOf in transpose,

    /// The function `x -> y` over a batch of n members: `([n, x]) -> [n, y]`.
    Batch {
        /// The number of batch members.
        size: usize,
        /// Per parameter: whether it has the batch axis.
        batched: Vec<bool>,
        /// Per result: the form in which it is requested.
        wanted: Vec<BatchRequest>,
    } -> BatchOf in batch,

    /// The function with only some of its results, and without the equations that only the dropped results need.
    Prune {
        /// Per result: whether it is requested.
        used: Vec<bool>,
        /// Per parameter: whether it stays even if the requested results do not need it.
        kept: Vec<bool>,
    } -> PruneOf in prune,

    /// The function split in two: the equations that depend on known parameters alone, and the other equations.
    Unzip {
        /// Per parameter: whether it is known, that is, a parameter of the first of the two functions.
        known: Vec<bool>,
    } -> UnzipOf in unzip,
}

/// The value to which the cotangent of a linear parameter is added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccumulateInto {
    /// The cotangent is added to nothing. If it is zero, it is absent from the results.
    Nothing,
    /// The cotangent is added to zeros, so it is always among the results, even if it is zero.
    Zeros,
    /// A running total, which the transpose takes as an extra parameter. The cotangent of a slice of a large
    /// operand is then added in place, and not to zeros as large as the operand.
    Total,
}

/// The form in which a result of a batched function is returned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BatchRequest {
    /// The result as it is computed: without the batch axis if it depends on no batched parameter.
    AsIs,
    /// The result with the batch axis, repeated along it if the result depends on no batched parameter.
    Batched,
    /// The sum of the result over the batch: for the cotangent of a value that all batch members share.
    Summed,
}

/// The forward derivative of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JvpOf {
    /// The forward derivative: `(x.., dx of active parameters) -> (y.., dy of active results)`.
    pub function: FuncId,
    /// Per output: whether it has a tangent. Only these tangents are results of the derivative.
    pub active_out: Vec<bool>,
}

/// A linearization: a derivative, split into a forward function and a linear function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinearizeOf {
    /// The forward function: `x.. -> (y.., saved residuals..)`.
    pub fwd: FuncId,
    /// The linear function: `(residuals..; dx of the active parameters) -> dy of the active results`. Active
    /// parameters and results have tangents.
    pub lin: FuncId,
    /// Per output: whether it has a tangent.
    pub active_out: Vec<bool>,
    /// Per residual: whether it is a parameter, a result or a saved value of the forward function.
    pub residuals: Vec<Residual>,
}

/// The origin of a value that the second function of a split reads. A split divides a function in two: the second
/// function reads parameters and outputs of the first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Residual {
    /// A parameter of the first function, by its index: it needs no saving.
    Parameter(usize),
    /// A result of the original function, by its index among the outputs of the first function.
    Result(usize),
    /// A value saved for the second function alone, by its index among the outputs of the first function.
    Kept(usize),
}

impl Residual {
    /// Returns the values of the residuals, which the second function of a split reads. `x` has the arguments and
    /// `outputs` the outputs of the first function.
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
    /// The transpose: `(k..; ct of the nonzero results.., totals..) -> ct of the linear parameters..`.
    pub function: FuncId,
    /// Per linear parameter: whether the transpose returns its cotangent.
    pub nonzero: Vec<bool>,
}

/// A function over a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchOf {
    /// The function over a batch; its batched parameters and results have the members on axis 0.
    pub function: FuncId,
    /// Per output: whether it has the batch axis.
    pub batched_out: Vec<bool>,
}

/// A function with fewer results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PruneOf {
    /// The function with only the requested results and the parameters that remain.
    pub function: FuncId,
    /// Per parameter of the original function: whether it remains in the new one.
    pub params: Vec<bool>,
}

/// A function split in two: the equations that depend on known parameters alone, and the other equations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnzipOf {
    /// The first function: `known parameters.. -> (results that depend on them alone.., saved residuals..)`.
    pub known: FuncId,
    /// The second function: `(residuals.., other parameters..) -> other results..`.
    pub rest: FuncId,
    /// Per result of the original function: whether the function `known` returns it; otherwise `rest` does.
    pub known_out: Vec<bool>,
    /// Per residual: whether it is a parameter, a result or a saved value of the first function.
    pub residuals: Vec<Residual>,
}
