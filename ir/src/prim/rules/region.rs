//! Regions: the functions that an equation refers to, and their roles.

use crate::lang::function::FuncId;
use crate::prim::Op;
use smallvec::SmallVec;

/// A function that an equation refers to, with its role in the equation.
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
    /// The equation runs the function once; the function's body may replace the equation at any time.
    Inline,
    /// The equation runs the function once; the body may replace the equation once no pass can need the
    /// equation's derivative rule any more.
    Ruled,
    /// The equation runs the function once, under a checkpointing policy; the body may replace the
    /// equation once no derivative can be requested any more.
    Checkpoint,
    /// The equation runs the function once and is never replaced by the body: the user asked for a call
    /// (`outline`).
    Outline,
    /// The equation runs the function or not, depending on the value of its first operand.
    Branch,
    /// The equation runs the function once per iteration, any number of times.
    Iteration,
    /// The function is a derivative rule: the equation does not run it; a derivative that uses the rule
    /// inlines it.
    Rule,
}

impl Role {
    /// Returns a region: the function together with this role.
    pub fn of(self, function: FuncId) -> Region {
        Region { function, role: self }
    }

    /// Returns whether the equation itself runs a function of this role: all but derivative rules.
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

    /// Returns whether an equation with a function of this role is a plain call, without derivative
    /// rules, branches or iterations.
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
    /// Returns the function whose body may replace the equation: the first one whose role `wanted`
    /// accepts.
    pub fn opened(&self, wanted: impl Fn(Role) -> bool) -> Option<FuncId> {
        self.regions().iter().find(|r| wanted(r.role)).map(|r| r.function)
    }
}
