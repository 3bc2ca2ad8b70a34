//! On what terms a derivative is planned: a [`Policy`], and what is there for nothing where its halves will stand.

use crate::policy_table::{Bits, Policy};

/// On what terms a derivative in two halves keeps values: whose decision it is, and what is there for
/// nothing where the halves will stand.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PlanRequest {
    /// What is kept.
    pub policy: Policy,
    /// What each parameter costs where the second half stands; the rest is [`Price::THERE`].
    pub params: Vec<Price>,
    /// What each result costs; the rest is [`Price::THERE`].
    pub results: Vec<Price>,
    /// How many iterations share what is kept once, where an iteration of a loop is planned.
    pub iterations: usize,
    /// How often the function runs in all, so how many times over what it keeps lies in memory.
    pub runs: usize,
    /// Whether both halves will stand in one function, where what is computed again has to be told from
    /// what it was computed from.
    pub together: bool,
    /// In how many bits values are kept.
    pub bits: Bits,
}

/// What holds of all that a function keeps, and of all that it runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct PlanContext {
    /// What arrays are taken for.
    pub memory: Memory,
    /// In how many bits values are kept.
    pub bits: Bits,
    /// How often the function runs: the iterations of all loops around it.
    pub runs: u32,
}

impl PlanContext {
    /// Nothing in particular.
    pub const PLAIN: PlanContext =
        PlanContext { memory: Memory::Values, bits: Bits::Cheap, runs: 1 };

    /// What is kept of bodies. Who keeps values as they are keeps all of them, in every iteration, too.
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

/// What arrays are taken for, where values are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Memory {
    /// Values, which nobody overwrites.
    #[default]
    Values,
    /// Memory that is read and not written ([`Planner::Memory`](crate::Planner)): it can be read again.
    Read,
    /// Memory that is written, and since arrays may overlap, any of it.
    Written,
}

/// How many iterations of loops share what it costs to have a value once more, in the linear half.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Amortization {
    iterations: u32,
    regime: PlanContext,
}

impl Amortization {
    /// It costs its bytes in each iteration.
    pub const OWN: Amortization = Amortization { iterations: 1, regime: PlanContext::PLAIN };
    /// It costs next to nothing: it is an argument of the whole, or an element of one.
    pub const FREE: Amortization =
        Amortization { iterations: u32::MAX, regime: PlanContext::PLAIN };

    /// The same, where each of those iterations is so many iterations of a loop.
    #[must_use]
    pub fn among(self, iterations: usize) -> Amortization {
        let times = u32::try_from(iterations.max(1)).unwrap_or(u32::MAX);
        Amortization { iterations: self.iterations.saturating_mul(times), ..self }
    }

    /// The same, where that holds.
    #[must_use]
    pub fn with(self, regime: PlanContext) -> Amortization {
        Amortization { regime, ..self }
    }

    /// The same, in the body of a loop of so many iterations.
    #[must_use]
    pub fn inside(self, iterations: usize) -> Amortization {
        let times = u32::try_from(iterations).unwrap_or(u32::MAX);
        self.with(PlanContext { runs: self.regime.runs.saturating_mul(times), ..self.regime })
    }

    /// The same, where values are kept in so many bits.
    #[must_use]
    pub fn in_bits(self, bits: Bits) -> Amortization {
        self.with(PlanContext { bits, ..self.regime })
    }

    /// What holds there.
    pub fn regime(self) -> PlanContext {
        self.regime
    }

    /// Whether it costs next to nothing.
    pub fn is_free(self) -> bool {
        self.iterations == u32::MAX
    }

    /// That of one of so many parts of a value, which is there if all of it is.
    #[must_use]
    pub fn apart(self, parts: usize) -> Amortization {
        if self.is_free() {
            return self;
        }
        let parts = u32::try_from(parts.max(1)).unwrap_or(u32::MAX);
        Amortization { iterations: (self.iterations / parts).max(1), ..self }
    }

    /// A price in that share.
    pub fn of(self, price: u64) -> u64 {
        if self.is_free() { 0 } else { price / u64::from(self.iterations) }
    }
}

/// What it costs that the second half of a function reads a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Price {
    /// A share of its bytes, and what follows from such values alone is computed once for all iterations.
    Constant(Amortization),
    /// A share of its bytes.
    Bytes(Amortization),
}

impl Price {
    /// Nothing.
    pub const THERE: Price = Price::Bytes(Amortization::FREE);
    /// All of its bytes.
    pub const OWN: Price = Price::Bytes(Amortization::OWN);

    /// Whether all of its bytes lie in memory for that, in each iteration.
    pub fn is_own(self) -> bool {
        matches!(self, Price::Bytes(share) if share.iterations == 1)
    }

    /// The share.
    pub fn share(self) -> Amortization {
        match self {
            Price::Constant(share) | Price::Bytes(share) => share,
        }
    }
}

impl PlanRequest {
    /// Those of a call: its operands and its results are there, and both halves with them.
    pub fn call(policy: Policy) -> PlanRequest {
        let bits = policy.row().bits;
        let (params, results) = (Vec::new(), Vec::new());
        PlanRequest { policy, params, results, iterations: 1, runs: 1, together: true, bits }
    }

    /// Those of functions that are run, each half by an equation of its own.
    pub fn apart(params: Vec<Price>, results: Vec<Price>, iterations: usize) -> PlanRequest {
        // Whatever has a derivative has a parameter.
        let regime = params.iter().map(|price| price.share().regime).max().unwrap_or_default();
        let bits = match regime.memory {
            Memory::Values => regime.bits,
            Memory::Read | Memory::Written => Bits::Whole,
        };
        let (policy, runs) = (regime.policy(), regime.runs as usize);
        PlanRequest { policy, params, results, iterations, runs, together: false, bits }
    }
}
