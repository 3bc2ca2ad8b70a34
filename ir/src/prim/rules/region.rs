//! Regions: the functions that an equation refers to, and what they are to it.

use crate::lang::function::FuncId;
use crate::prim::Op;
use smallvec::SmallVec;

/// A function that an equation refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// The function.
    pub function: FuncId,
    /// What it is to the equation.
    pub role: Role,
}

/// What a function is to an equation that refers to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// What the equation runs; its body may replace the equation at any time.
    Inline,
    /// What the equation runs; its body may replace the equation once no derivative rule is needed any
    /// more.
    Ruled,
    /// What the equation runs; its body may replace the equation once no derivative will be asked
    /// for, since reverse mode keeps what the equation says of it.
    Checkpoint,
    /// What the equation runs, and goes on to run: the user asked for a call.
    Outline,
    /// What the equation runs or leaves out, as its operands say.
    Branch,
    /// What the equation runs any number of times.
    Iteration,
    /// A derivative rule: not run, but opened by the derivative that asks for it.
    Rule,
}

impl Role {
    /// The function in that role.
    pub fn of(self, function: FuncId) -> Region {
        Region { function, role: self }
    }

    /// Whether the equation runs the function.
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

    /// Whether the function is called: it is all that the equation does, and has no rules.
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
    /// The function whose body may take the place of the equation, if `wanted` takes its role.
    pub fn opened(&self, wanted: impl Fn(Role) -> bool) -> Option<FuncId> {
        self.regions().iter().find(|r| wanted(r.role)).map(|r| r.function)
    }
}
