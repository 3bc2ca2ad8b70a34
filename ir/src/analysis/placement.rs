//! Where values will lie, before there is a schedule.
//!
//! The scheduler computes elementwise equations and views where they are read, in one loop nest, and gives
//! memory to what crosses from nest to nest. Passes that weigh memory before that (extraction from the e-graph,
//! prices of a checkpoint, segments of a function within a budget) all guess it by these two functions.
//!
//! ```text
//! %2: f64[9] = exp %0                      a map: computed where it is read
//! %3: f64[9] = broadcast{..} %1            a view: read in its place
//! %4: f64[] = reduce_sum{axes=[0]} %2      a reduction: computes %2 where it reads it; has memory itself
//! %5: f64[9,9] = dot{..} %3, %6            memory: reads %3 and %6 in memory and gives memory
//! ```
//!
//! The scheduler decides by more (who reads a value, and how often: `backend/src/lower/rematerialize.rs`), so these
//! are guesses; that both see the same is not tested.

use crate::lang::function::Equation;
use crate::prim::{Binding, Lowering, Region, Role};

/// How an equation takes part in loop nests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Elements of its operands, by index arithmetic.
    View,
    /// Each element from those of its operands at the same place, or from the place alone.
    Map,
    /// Elements at places that are known when the program runs, of an array in memory.
    Element,
    /// What it folds is computed where it reads it; what it gives lies in memory.
    Reduction,
    /// Operands and results lie in memory.
    Memory,
    /// It runs functions, on operands in memory.
    Runs,
}

impl Placement {
    /// That of an equation with this lowering.
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

    /// Whether its operands may be computed where it reads them.
    pub fn takes(self) -> bool {
        match self {
            Placement::View | Placement::Map | Placement::Reduction => true,
            Placement::Element | Placement::Memory | Placement::Runs => false,
        }
    }

    /// Whether it may be computed where it is read.
    pub fn gives(self) -> bool {
        match self {
            Placement::View | Placement::Map | Placement::Element => true,
            Placement::Reduction | Placement::Memory | Placement::Runs => false,
        }
    }
}

/// The operands that an equation reads as whole arrays in memory, whatever makes them: a copy is made of what is
/// computed otherwise.
pub fn whole_operands(e: &Equation, lowering: &Lowering) -> Vec<usize> {
    let all = || (0..e.operands.len()).collect();
    match lowering {
        Lowering::Contract { .. }
        | Lowering::Branch { .. }
        | Lowering::Host(_)
        | Lowering::Routine(_) => all(),
        // What a loop carries it has a place for.
        Lowering::Loop { spec, .. } => {
            let slots = spec.params().map(|p| spec.takes[p]).enumerate();
            let read = slots.filter(|(_, slot)| !matches!(slot, Binding::Carry(_)));
            read.map(|(k, _)| spec.lead() + k).collect()
        }
        // A rule may make a loop of them.
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
