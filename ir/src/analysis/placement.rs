//! Predicts where values will lie, before lowering.
//!
//! Lowering computes elementwise equations and views where they are read, in one loop nest, and allocates memory for
//! values that cross between loop nests. Passes before lowering that need the cost of memory (extraction from the
//! e-graph, the cost model of checkpointing, segments of a function within a budget) all use [`Placement::of`] and
//! [`whole_operands`] to guess it.
//!
//! ```text
//! %2: f64[9] = exp %0                      a map: computed where it is read
//! %3: f64[9] = broadcast{..} %1            a view: read by index arithmetic
//! %4: f64[] = reduce_sum{axes=[0]} %2      a reduction: computes %2 where it reads it; its result is in memory
//! %5: f64[9,9] = dot{..} %3, %6            memory: operands and result are in memory
//! ```
//!
//! Lowering decides by more facts (the readers of a value and how often each reads it:
//! `backend/src/lower/elements/rematerialize.rs`), so these functions only guess. A test (`laws::cost`) compares the cost
//! model that stands on them with the lowered programs.

use crate::lang::function::Equation;
use crate::prim::{Binding, Lowering, Region, Role};

/// A prediction of the place in which lowering computes the result of an equation: in the loop nests of its readers, or
/// in a loop nest of its own that writes the result to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// A view: reads elements of its operands by index arithmetic.
    View,
    /// Computes each element from the operands' elements at the same index, or from the index alone.
    Map,
    /// Reads single elements or slices of an array in memory, at indices known only at run time.
    Element,
    /// A reduction: its operand is computed where it is read; its result is in memory.
    Reduction,
    /// A primitive whose operands and results are in memory, such as a contraction.
    Memory,
    /// Runs functions (a call, a branch, a loop) on operands in memory.
    Runs,
}

impl Placement {
    /// Returns the placement of an equation whose primitive is lowered as `lowering` says.
    pub fn of(lowering: &Lowering) -> Placement {
        match lowering {
            Lowering::View { .. } | Lowering::Reshape | Lowering::Alias { .. } => Placement::View,
            Lowering::Elementwise(_) | Lowering::Iota { .. } => Placement::Map,
            Lowering::DynamicSlice | Lowering::Gather { .. } => Placement::Element,
            Lowering::Reduce { .. } | Lowering::ArgReduce { .. } => Placement::Reduction,
            Lowering::ArgSort { .. }
            | Lowering::Cumulate { .. }
            | Lowering::Contract { .. }
            | Lowering::DynamicUpdateSlice
            | Lowering::Scatter { .. }
            | Lowering::Host(_)
            | Lowering::Routine(_)
            | Lowering::Missing(_) => Placement::Memory,
            Lowering::Call(_) | Lowering::Branch { .. } | Lowering::Loop { .. } => Placement::Runs,
        }
    }

    /// Returns whether operands of the equation may be computed in its own loop nest where it reads them, without
    /// memory.
    pub fn takes(self) -> bool {
        match self {
            Placement::View | Placement::Map | Placement::Reduction => true,
            Placement::Element | Placement::Memory | Placement::Runs => false,
        }
    }

    /// Returns whether the result of the equation may be computed in the loop nests of its readers, without memory.
    pub fn gives(self) -> bool {
        match self {
            Placement::View | Placement::Map | Placement::Element => true,
            Placement::Reduction | Placement::Memory | Placement::Runs => false,
        }
    }
}

/// Returns the indices of the operands that an equation reads as whole arrays in memory. If such an operand would
/// otherwise be computed where it is read, it is first written to memory.
pub fn whole_operands(e: &Equation, lowering: &Lowering) -> Vec<usize> {
    let all = || (0..e.operands.len()).collect();
    match lowering {
        Lowering::Contract { .. }
        | Lowering::Branch { .. }
        | Lowering::Host(_)
        | Lowering::Routine(_) => all(),
        // A loop copies its initial carries into buffers of its own, so they need not be in memory before.
        Lowering::Loop { spec, .. } => {
            let slots = spec.params().map(|p| spec.takes[p]).enumerate();
            let read = slots.filter(|(_, slot)| !matches!(slot, Binding::Carry(_)));
            read.map(|(k, _)| spec.lead() + k).collect()
        }
        // The function of an outlined call or of a rule may contain a loop that reads the operands, so count all
        // operands as read in memory.
        Lowering::Call(_) => {
            let reads = |r: &Region| matches!(r.role, Role::Outline | Role::Rule);
            if e.op.regions().iter().any(reads) { all() } else { Vec::new() }
        }
        Lowering::Elementwise(_)
        | Lowering::View { .. }
        | Lowering::Reshape
        | Lowering::Alias { .. }
        | Lowering::Iota { .. }
        | Lowering::DynamicSlice
        | Lowering::Gather { .. }
        | Lowering::DynamicUpdateSlice
        | Lowering::Scatter { .. }
        | Lowering::Reduce { .. }
        | Lowering::ArgReduce { .. }
        | Lowering::Cumulate { .. }
        | Lowering::ArgSort { .. }
        | Lowering::Missing(_) => Vec::new(),
    }
}
