//! Requests to the checkpoint planner: a [`Policy`], with the costs of values where the two halves will run.

use crate::policy_table::{Bits, Policy};

/// A request to plan a derivative in two halves: the policy that chooses its residuals, and the cost of each
/// parameter and result where the halves will run.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PlanRequest {
    /// The policy that chooses residuals.
    pub policy: Policy,
    /// The cost of each parameter at the second half; missing entries are [`Price::THERE`].
    pub params: Vec<Price>,
    /// The cost of each result at the second half; missing entries are [`Price::THERE`].
    pub results: Vec<Price>,
    /// If an iteration of a loop is planned: the number of iterations that share a residual saved once.
    pub iterations: usize,
    /// The number of runs of the function in all. Each run saves its own residuals.
    pub runs: usize,
    /// Whether both halves will be in one function. If so, recomputation reads its inputs through barriers, so
    /// that it is not merged with the forward half.
    pub together: bool,
    /// The packing of residuals.
    pub bits: Bits,
}

/// The context of a function and of all functions that it runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct PlanContext {
    /// The meaning of arrays for the planner.
    pub memory: Memory,
    /// The packing of residuals.
    pub bits: Bits,
    /// The number of runs of the function: the product of the trip counts of all enclosing loops.
    pub runs: u32,
}

impl PlanContext {
    /// The context without loops or memory: arrays are values, and the function runs once.
    pub const PLAIN: PlanContext =
        PlanContext { memory: Memory::Values, bits: Bits::Cheap, runs: 1 };

    /// Returns the policy for the bodies of loops and branches. If residuals are stored unpacked, bodies save
    /// everything that the reverse pass reads, in every iteration, too.
    fn policy(self) -> Policy {
        match (self.memory, self.bits) {
            (Memory::Values, Bits::Whole) => Policy::Everything,
            (Memory::Values, Bits::Cheap | Bits::Few | Bits::Rounded) => Policy::default(),
            (Memory::Read | Memory::Written, _) => Policy::OF_MEMORY,
        }
    }
}

impl Default for PlanContext {
    fn default() -> PlanContext {
        PlanContext::PLAIN
    }
}

/// The meaning of arrays for the planner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Memory {
    /// Values, which are never overwritten.
    #[default]
    Values,
    /// Memory that is read and not written ([`Planner::Memory`](crate::Planner)): it can be read again.
    Read,
    /// Memory that is written. Since arrays may overlap, any array may have changed.
    Written,
}

/// The number of loop iterations that share the linear half's cost of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Amortization {
    iterations: u32,
    regime: PlanContext,
}

impl Amortization {
    /// The value costs its bytes in each iteration.
    pub const OWN: Amortization = Amortization { iterations: 1, regime: PlanContext::PLAIN };
    /// The value is free: it is an argument of the whole program, or an element of one.
    pub const FREE: Amortization =
        Amortization { iterations: u32::MAX, regime: PlanContext::PLAIN };

    /// Returns the amortization over `iterations` times as many iterations.
    #[must_use]
    pub fn among(self, iterations: usize) -> Amortization {
        let times = u32::try_from(iterations.max(1)).unwrap_or(u32::MAX);
        Amortization { iterations: self.iterations.saturating_mul(times), ..self }
    }

    /// Returns this amortization in that context.
    #[must_use]
    pub fn with(self, regime: PlanContext) -> Amortization {
        Amortization { regime, ..self }
    }

    /// Returns this amortization in the body of a loop, whose function runs `iterations` times as often.
    #[must_use]
    pub fn inside(self, iterations: usize) -> Amortization {
        let times = u32::try_from(iterations).unwrap_or(u32::MAX);
        self.with(PlanContext { runs: self.regime.runs.saturating_mul(times), ..self.regime })
    }

    /// Returns this amortization for residuals with that packing.
    #[must_use]
    pub fn in_bits(self, bits: Bits) -> Amortization {
        self.with(PlanContext { bits, ..self.regime })
    }

    /// Returns the context (meaning of arrays, packing, number of runs) to which the amortization applies.
    pub fn regime(self) -> PlanContext {
        self.regime
    }

    /// Returns whether the value is free.
    pub fn is_free(self) -> bool {
        self.iterations == u32::MAX
    }

    /// Returns the amortization of one of `parts` parts of a value. If a part is available, the whole value is, so
    /// the part bears the cost of the whole.
    #[must_use]
    pub fn apart(self, parts: usize) -> Amortization {
        if self.is_free() {
            return self;
        }
        let parts = u32::try_from(parts.max(1)).unwrap_or(u32::MAX);
        Amortization { iterations: (self.iterations / parts).max(1), ..self }
    }

    /// Returns the part of `price` that one iteration bears.
    pub fn of(self, price: u64) -> u64 {
        if self.is_free() { 0 } else { price / u64::from(self.iterations) }
    }
}

/// The cost of a value that the second half reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Price {
    /// Its bytes, amortized. Values that follow from such values alone are computed once for all iterations.
    Constant(Amortization),
    /// The value's bytes, spread over the iterations that share them.
    Bytes(Amortization),
}

impl Price {
    /// The price of a value that costs nothing: it is available to the second half anyway.
    pub const THERE: Price = Price::Bytes(Amortization::FREE);
    /// The price of a value that costs all its bytes in each iteration.
    pub const OWN: Price = Price::Bytes(Amortization::OWN);

    /// Returns whether the value costs all its bytes in each iteration.
    pub fn is_own(self) -> bool {
        matches!(self, Price::Bytes(share) if share.iterations == 1)
    }

    /// Returns the number of iterations over which the price is spread.
    pub fn share(self) -> Amortization {
        match self {
            Price::Constant(share) | Price::Bytes(share) => share,
        }
    }
}

impl PlanRequest {
    /// Returns the request for a call: operands and results are free, and both halves are in one function.
    pub fn call(policy: Policy) -> PlanRequest {
        let bits = policy.row().bits;
        let (params, results) = (Vec::new(), Vec::new());
        PlanRequest { policy, params, results, iterations: 1, runs: 1, together: true, bits }
    }

    /// Returns the request for functions whose halves are run by separate equations.
    pub fn apart(params: Vec<Price>, results: Vec<Price>, iterations: usize) -> PlanRequest {
        // A function that is differentiated has at least one parameter.
        let regime = params.iter().map(|price| price.share().regime).max().unwrap_or_default();
        let bits = match regime.memory {
            Memory::Values => regime.bits,
            Memory::Read | Memory::Written => Bits::Whole,
        };
        let (policy, runs) = (regime.policy(), regime.runs as usize);
        PlanRequest { policy, params, results, iterations, runs, together: false, bits }
    }
}
