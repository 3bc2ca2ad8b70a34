//! Regions: the functions that an equation refers to, and their roles.

use crate::lang::function::FuncId;
use crate::prim::Op;
use smallvec::SmallVec;

/// A function that an equation refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// The function that the equation refers to.
    pub function: FuncId,
    /// The role of the function in the equation.
    pub role: Role,
}

/// The role of a function in an equation that refers to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The equation runs it; its body may replace the equation at any time.
    Inline,
    /// The equation runs it; its body may replace the equation once no derivative rule is needed any more.
    Ruled,
    /// The equation runs it; its body may replace the equation once no derivative can be requested any more,
    /// because the equation has a checkpointing policy for it.
    Checkpoint,
    /// The equation runs it and is never replaced: the user asked for a call.
    Outline,
    /// The equation runs the function or not, depending on its operands.
    Branch,
    /// The equation runs it any number of times.
    Iteration,
    /// A derivative rule: not run by the equation, but inlined by a derivative that uses it.
    Rule,
}

impl Role {
    /// Returns a region: the function together with this role.
    pub fn of(self, function: FuncId) -> Region {
        Region { function, role: self }
    }

    /// Returns whether the equation runs the function.
    pub fn runs(self) -> bool {
        match self {
            Role::Inline
            | Role::Ruled
            | Role::Checkpoint
            | Role::Outline
            | Role::Branch
            | Role::Iteration => true,
            Role::Rule => false,
        }
    }

    /// Returns whether the equation is a plain call of the function, without rules.
    pub fn is_call(self) -> bool {
        match self {
            Role::Inline | Role::Checkpoint | Role::Outline => true,
            Role::Ruled | Role::Branch | Role::Iteration | Role::Rule => false,
        }
    }
}

/// The functions that an equation refers to, in an order that its primitive defines.
pub type RegionList = SmallVec<[Region; 1]>;

impl Op {
    /// Returns the function whose body may replace the equation, if `wanted` accepts its role.
    pub fn opened(&self, wanted: impl Fn(Role) -> bool) -> Option<FuncId> {
        self.regions().iter().find(|r| wanted(r.role)).map(|r| r.function)
    }
}
