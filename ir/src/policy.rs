//! Requests to the checkpoint planner: a [`Policy`], with the costs of reading values in the linear function.

use crate::policy_table::{Bits, Policy};

/// A request to plan a linearization (a forward function and a linear function): the policy that chooses its residuals,
/// and the costs, for the linear function, of reading the parameters and results of the forward function.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PlanRequest {
    /// The policy that chooses residuals.
    pub policy: Policy,
    /// Per parameter: the cost, for the linear function, of reading it; missing entries are [`Price::THERE`].
    pub params: Vec<Price>,
    /// Per result: the cost, for the linear function, of reading it; missing entries are [`Price::THERE`].
    pub results: Vec<Price>,
    /// The number of iterations that share a loop-invariant residual, if the function is the body of a loop.
    pub iterations: usize,
    /// The number of runs of the function during the whole program. Each run saves its own residuals.
    pub runs: usize,
    /// Whether the forward function and the linear function will become parts of one function. If so, recomputation
    /// reads its inputs through barriers, so that CSE does not merge the recomputation with the forward function.
    pub together: bool,
    /// The packing of residuals: the number of bits of each.
    pub bits: Bits,
}

/// The planning context of a function and of all functions that it runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct PlanContext {
    /// Whether the planner treats arrays as immutable values or as memory that may be overwritten.
    pub memory: Memory,
    /// The packing of residuals: the number of bits of each.
    pub bits: Bits,
    /// The number of runs of the function during the program: the product of the trip counts of all enclosing
    /// loops.
    pub runs: u32,
}

impl PlanContext {
    /// The context of a function outside loops: arrays are values, and the function runs once.
    pub const PLAIN: PlanContext =
        PlanContext { memory: Memory::Values, bits: Bits::Cheap, runs: 1 };

    /// Returns the policy for the bodies of loops and branches in this context. If residuals are stored unpacked,
    /// bodies save all values that the reverse pass reads.
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

/// The planner's model of arrays: immutable values, or memory. It determines whether an array can be read again in the
/// reverse pass.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Memory {
    /// Arrays are values, which are never overwritten, so they can be read again.
    #[default]
    Values,
    /// Arrays are memory that the function does not write ([`Planner::Memory`](crate::Planner)), so it can be read
    /// again.
    Read,
    /// Arrays are memory that the function writes. Since arrays may overlap, any array may have changed since it
    /// was read.
    Written,
}

/// The number of iterations over which the cost of saving a value is spread, in a planning context.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Amortization {
    iterations: u32,
    context: PlanContext,
}

impl Amortization {
    /// The amortization of a value that costs all its bytes in each iteration.
    pub const OWN: Amortization = Amortization { iterations: 1, context: PlanContext::PLAIN };
    /// The amortization of a value that is free to read: an argument of the whole program, or an element of one.
    pub const FREE: Amortization =
        Amortization { iterations: u32::MAX, context: PlanContext::PLAIN };

    /// Returns this amortization, spread over `iterations` times the number of iterations.
    #[must_use]
    pub fn among(self, iterations: usize) -> Amortization {
        let times = u32::try_from(iterations.max(1)).unwrap_or(u32::MAX);
        Amortization { iterations: self.iterations.saturating_mul(times), ..self }
    }

    /// Returns this amortization in the planning context `context`.
    #[must_use]
    pub fn with(self, context: PlanContext) -> Amortization {
        Amortization { context, ..self }
    }

    /// Returns this amortization in the body of a loop that runs its body `iterations` times in each run of the
    /// function around the loop.
    #[must_use]
    pub fn inside(self, iterations: usize) -> Amortization {
        let times = u32::try_from(iterations).unwrap_or(u32::MAX);
        self.with(PlanContext { runs: self.context.runs.saturating_mul(times), ..self.context })
    }

    /// Returns this amortization for residuals packed as `bits` says.
    #[must_use]
    pub fn in_bits(self, bits: Bits) -> Amortization {
        self.with(PlanContext { bits, ..self.context })
    }

    /// Returns the planning context (meaning of arrays, packing, number of runs) of the amortization.
    pub fn context(self) -> PlanContext {
        self.context
    }

    /// Returns whether the value is free to read.
    pub fn is_free(self) -> bool {
        self.iterations == u32::MAX
    }

    /// Returns the amortization of one of `parts` parts of a value. The whole value must be available for the part
    /// to be read, so the part bears the cost of the whole.
    #[must_use]
    pub fn apart(self, parts: usize) -> Amortization {
        if self.is_free() {
            return self;
        }
        let parts = u32::try_from(parts.max(1)).unwrap_or(u32::MAX);
        Amortization { iterations: (self.iterations / parts).max(1), ..self }
    }

    /// Returns the share of `price` that one iteration bears; 0 for a free value.
    pub fn of(self, price: u64) -> u64 {
        if self.is_free() { 0 } else { price / u64::from(self.iterations) }
    }
}

/// The cost, for the linear function, of reading a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Price {
    /// A value that is the same in all iterations costs its bytes, spread over the iterations. A value that depends
    /// only on values of this kind is computed once for all iterations.
    Constant(Amortization),
    /// A value that is not the same in all iterations costs its bytes, spread over the iterations that share the value.
    Bytes(Amortization),
}

impl Price {
    /// The price of a value that costs nothing, since it is available to the linear function anyway.
    pub const THERE: Price = Price::Bytes(Amortization::FREE);
    /// The price of a value that costs all its bytes in each iteration.
    pub const OWN: Price = Price::Bytes(Amortization::OWN);

    /// Returns whether the value costs all its bytes in each iteration, since no other iteration shares it.
    pub fn is_own(self) -> bool {
        matches!(self, Price::Bytes(share) if share.iterations == 1)
    }

    /// Returns the number of iterations over which the price is spread, with its planning context.
    pub fn share(self) -> Amortization {
        match self {
            Price::Constant(share) | Price::Bytes(share) => share,
        }
    }
}

impl PlanRequest {
    /// Returns the plan request for a call: the forward function and the linear function become parts of one function,
    /// so operands and results are free to read.
    pub fn call(policy: Policy) -> PlanRequest {
        let bits = policy.row().bits;
        let (params, results) = (Vec::new(), Vec::new());
        PlanRequest { policy, params, results, iterations: 1, runs: 1, together: true, bits }
    }

    /// Returns the plan request for a function such as a loop's body, whose forward function and linear function are
    /// run by two different equations.
    pub fn apart(params: Vec<Price>, results: Vec<Price>, iterations: usize) -> PlanRequest {
        // Take the planning context from the parameters' prices. There is at least one, since a function that is
        // differentiated has a parameter.
        let context = params.iter().map(|price| price.share().context).max().unwrap_or_default();
        let bits = match context.memory {
            Memory::Values => context.bits,
            Memory::Read | Memory::Written => Bits::Whole,
        };
        let (policy, runs) = (context.policy(), context.runs as usize);
        PlanRequest { policy, params, results, iterations, runs, together: false, bits }
    }
}
