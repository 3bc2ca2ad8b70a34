//! Policies: what reverse mode keeps of the forward pass.
//!
//! ```
//! use tapeloom_ir::Policy;
//! assert_eq!("everything".parse(), Ok(Policy::Everything));
//! assert_eq!(Policy::named(["act"]).to_string(), "named(act)");
//! assert_eq!("except(act, mask)".parse::<Policy>()?.to_string(), "except(act, mask)");
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::lang::problem::{Kind, Problem};
use crate::text::is_word;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What reverse mode keeps of the forward pass. Plain data: a part of the question that is asked of
/// a function, and so of the key under which a module remembers the answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Policy {
    /// What is cheaper to keep than to compute again, beside the numbers that moving a byte and an
    /// addition cost. What is computed again is at most a tenth of the arithmetic, and neither a
    /// function from the library (`exp`, `tanh`, ..) nor a reduction nor a contraction.
    #[default]
    Planned,
    /// Every value that the backward pass reads.
    Everything,
    /// Nothing but the function's arguments: the backward pass computes the rest again.
    Nothing,
    /// What contractions give; the rest is computed again.
    Dots,
    /// Values marked with those names; the rest is computed again.
    Named(Arc<[Arc<str>]>),
    /// So many bytes between the forward pass and the way back, and while an outer iteration of loops is undone:
    /// the cheapest plan that has no more. Loops keep some of their carries and make the others again.
    Bytes(u64),
    /// The same if there is such a plan, and otherwise as few bytes as there are: what derivatives keep of
    /// those within [`Policy::Bytes`], which need room for what the first way back has to have.
    About(u64),
    /// What the backward pass reads but for values marked with those names, which are computed again.
    Except(Arc<[Arc<str>]>),
    /// What a compiler keeps that sees loops over memory in place of arrays, and must assume that arrays
    /// overlap: in loops, whatever is read of an array that may be written before the way back is kept, one
    /// number for each read, inputs included; arithmetic on what is kept is done again. It is there to be
    /// compared with.
    Aliased,
    /// The same, where it is known that arrays do not overlap: they are read again, and of what is computed so
    /// few bytes are kept as arithmetic can do without.
    Disjoint,
    /// As planned, with what is kept of f64 as f32, in half the bytes. Derivatives are not those of every other
    /// policy: each number that is kept is rounded, by [`ROUNDING`] of itself at most, and one beyond what f32
    /// has is lost.
    Rounded,
}

/// By how much of itself a number is changed at most that [`Policy::Rounded`] keeps, if it is between 1.2e-38
/// and 3.4e38 in size: half the distance between two numbers of f32.
pub const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;

/// What is written of the policies without names.
const PLAIN: [Policy; 7] = [
    Policy::Planned,
    Policy::Everything,
    Policy::Nothing,
    Policy::Dots,
    Policy::Aliased,
    Policy::Disjoint,
    Policy::Rounded,
];

impl Policy {
    /// Every policy without names, and those with names with two each.
    pub fn samples() -> Vec<Policy> {
        let names = ["a", "b.c"];
        let more = [Policy::Bytes(8000), Policy::About(8000)];
        let more = more.into_iter().chain([Policy::named(names), Policy::except(names)]);
        PLAIN.into_iter().chain(more).collect()
    }

    /// [`Policy::Named`]: what is marked with one of those names is kept.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Policy {
        Policy::Named(names.into_iter().map(Arc::from).collect())
    }

    /// [`Policy::Except`]: what is marked with one of those names is not kept.
    pub fn except<'n>(names: impl IntoIterator<Item = &'n str>) -> Policy {
        Policy::Except(names.into_iter().map(Arc::from).collect())
    }

    /// Its word, without names.
    pub fn word(&self) -> &'static str {
        match self {
            Policy::Planned => "planned",
            Policy::Everything => "everything",
            Policy::Nothing => "nothing",
            Policy::Dots => "dots",
            Policy::Bytes(_) => "bytes",
            Policy::About(_) => "about",
            Policy::Named(_) => "named",
            Policy::Except(_) => "except",
            Policy::Aliased => "aliased",
            Policy::Disjoint => "disjoint",
            Policy::Rounded => "rounded",
        }
    }

    /// The names that it is about.
    pub fn names(&self) -> &[Arc<str>] {
        match self {
            Policy::Named(names) | Policy::Except(names) => names,
            Policy::Planned
            | Policy::Everything
            | Policy::Nothing
            | Policy::Dots
            | Policy::Aliased
            | Policy::Disjoint
            | Policy::Rounded
            | Policy::Bytes(_)
            | Policy::About(_) => &[],
        }
    }

    /// Whether it weighs bytes against arithmetic.
    pub fn is_planned(&self) -> bool {
        match self {
            Policy::Planned | Policy::Rounded => true,
            Policy::Everything
            | Policy::Nothing
            | Policy::Dots
            | Policy::Named(_)
            | Policy::Bytes(_)
            | Policy::About(_)
            | Policy::Except(_)
            | Policy::Aliased
            | Policy::Disjoint => false,
        }
    }

    /// In how many bits it keeps values, here and in bodies of loops.
    pub fn bits(&self) -> Bits {
        match self {
            Policy::Planned => Bits::Cheap,
            // Those that stand for what others do keep what is read, as it is.
            Policy::Everything | Policy::Except(_) | Policy::Aliased | Policy::Disjoint => {
                Bits::Whole
            }
            Policy::Nothing
            | Policy::Dots
            | Policy::Named(_)
            | Policy::Bytes(_)
            | Policy::About(_) => Bits::Few,
            Policy::Rounded => Bits::Rounded,
        }
    }

    /// The same for so many at once.
    #[must_use]
    pub fn times(&self, n: usize) -> Policy {
        match self {
            Policy::Bytes(bytes) => Policy::Bytes(bytes.saturating_mul(n as u64)),
            Policy::About(bytes) => Policy::About(bytes.saturating_mul(n as u64)),
            other => other.clone(),
        }
    }

    /// What is kept of the derivatives that it leads to, if they are differentiated.
    #[must_use]
    pub fn derived(&self) -> Policy {
        match self {
            Policy::Bytes(bytes) => Policy::About(*bytes),
            other => other.clone(),
        }
    }

    /// The policy of that word about so many bytes, if there is one.
    pub fn of_bytes(word: &str, bytes: u64) -> Option<Policy> {
        match word {
            "bytes" => Some(Policy::Bytes(bytes)),
            "about" => Some(Policy::About(bytes)),
            _ => None,
        }
    }

    /// The bytes that it is about.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Policy::Bytes(bytes) | Policy::About(bytes) => Some(*bytes),
            Policy::Planned
            | Policy::Everything
            | Policy::Nothing
            | Policy::Dots
            | Policy::Named(_)
            | Policy::Except(_)
            | Policy::Aliased
            | Policy::Disjoint
            | Policy::Rounded => None,
        }
    }

    /// The policy of that word and those names, if there is one.
    pub fn of(word: &str, names: Vec<Arc<str>>) -> Option<Policy> {
        match word {
            "named" => Some(Policy::Named(names.into())),
            "except" => Some(Policy::Except(names.into())),
            _ if names.is_empty() => PLAIN.into_iter().find(|p| p.word() == word),
            _ => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Named(names) | Policy::Except(names) => {
                write!(f, "{}({})", self.word(), names.join(", "))
            }
            Policy::Bytes(bytes) | Policy::About(bytes) => write!(f, "{}({bytes})", self.word()),
            Policy::Planned
            | Policy::Everything
            | Policy::Nothing
            | Policy::Dots
            | Policy::Aliased
            | Policy::Disjoint
            | Policy::Rounded => f.write_str(self.word()),
        }
    }
}

impl FromStr for Policy {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Policy, Problem> {
        let (word, names): (_, Vec<&str>) =
            match text.strip_suffix(')').and_then(|t| t.split_once('(')) {
                Some((word, "")) => (word, Vec::new()),
                Some((word, names)) => (word, names.split(',').map(str::trim).collect()),
                None => (text, Vec::new()),
            };
        if let [bytes] = names.as_slice()
            && let Ok(bytes) = bytes.parse()
            && let Some(policy) = Policy::of_bytes(word, bytes)
        {
            return Ok(policy);
        }
        let named: Option<Vec<Arc<str>>> =
            names.into_iter().map(|name| is_word(name).then(|| name.into())).collect();
        named.and_then(|names| Policy::of(word, names)).ok_or_else(|| {
            let all: Vec<String> = Policy::samples().iter().map(Policy::to_string).collect();
            Problem::new(
                Kind::Parse,
                format!("there is no policy `{text}`"),
                format!("policies are written {}", all.join(", ")),
            )
        })
    }
}

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

/// In how many bits values are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Bits {
    /// In those of their dtype.
    Whole,
    /// In fewer where that is cheaper.
    #[default]
    Cheap,
    /// In as few as they have.
    Few,
    /// As [`Bits::Cheap`], and floats of 64 bits in 32.
    Rounded,
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
            (Memory::Read | Memory::Written, _) => Policy::Aliased,
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
    /// Memory that is read and not written ([`Policy::Aliased`]): it can be read again.
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
        let bits = policy.bits();
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
