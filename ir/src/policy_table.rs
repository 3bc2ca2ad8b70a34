//! The table of policies: the residuals that reverse mode saves.
//!
//! Planners read a policy's properties from its [row](Policy::row), so they contain no special case for a policy that
//! imitates another compiler.
//!
//! ```
//! use tapeloom_ir::Policy;
//! assert_eq!("everything".parse(), Ok(Policy::Everything));
//! assert_eq!(Policy::named(["act"]).to_string(), "named(act)");
//! assert_eq!("except(act, mask)".parse::<Policy>()?.to_string(), "except(act, mask)");
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::lang::problem::{Kind, Problem};
use crate::lex::is_word;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A policy that chooses the residuals of reverse mode. It is plain data: part of a query, and so of the memo key
/// of a module.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Policy {
    /// Residuals are saved if that is cheaper than to recompute them, where saving costs moves of bytes and recomputing
    /// costs arithmetic, counted in additions. Recomputation is at most a tenth of the arithmetic, and recomputes no
    /// function of the library (`exp`, `tanh`, ..), no reduction and no contraction.
    #[default]
    Planned,
    /// Every value that the reverse pass reads is saved.
    Everything,
    /// Nothing but the function's arguments is available to the reverse pass, which recomputes all other values.
    Nothing,
    /// Results of contractions and library routines (decompositions, transforms) are saved; other values are
    /// recomputed.
    Dots,
    /// Values marked with one of these names are saved; other values are recomputed.
    Named(Arc<[Arc<str>]>),
    /// The cheapest plan whose residuals stay within this number of bytes. The limit holds between the forward and the
    /// reverse pass, and during the reverse pass of one iteration of an outermost loop. Loops save some of their
    /// carries and recompute the others.
    Bytes(u64),
    /// Plans a tape within this number of bytes like [`Policy::Bytes`]; if no such plan exists, the plan with the
    /// smallest tape is used instead of an error. Derivatives of functions planned by [`Policy::Bytes`] use this
    /// policy, since they also need space for the residuals of the first reverse pass.
    About(u64),
    /// Every value that the reverse pass reads is saved, except values marked with one of these names, which are
    /// recomputed.
    Except(Arc<[Arc<str>]>),
    /// The residuals of a compiler that differentiates loops of loads and stores, and must assume that arrays overlap.
    /// In loops, every read of an array that may be written before the reverse pass saves one number, reads of inputs
    /// included; arithmetic on saved values is recomputed. For comparison only.
    Aliased,
    /// The residuals of the same compiler as [`Policy::Aliased`] if arrays are known not to overlap: arrays are read
    /// again. Among the computed values, the planner saves the smallest set, in bytes, from which arithmetic can
    /// recompute the rest.
    Disjoint,
    /// The residuals of [`Policy::Planned`], where f64 residuals are stored as f32, in half the bytes. So derivatives
    /// differ from those of all other policies. Each rounded residual has a relative error of at most [`ROUNDING`], and
    /// a residual outside the range of f32 is lost.
    Rounded,
}

/// The largest relative error of an f64 residual under [`Policy::Rounded`], if its magnitude lies between 1.2e-38
/// and 3.4e38: half the relative distance between two neighbouring f32 numbers.
pub const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;

/// The packing of residuals: the number of bits of each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Bits {
    /// Unpacked: each element takes the width of its dtype.
    Whole,
    /// Packed in fewer bits where packing costs less than the bytes that it saves.
    #[default]
    Cheap,
    /// Packed in the fewest bits that hold the values, even if packing costs more than it saves.
    Few,
    /// Packed as by [`Bits::Cheap`], and 64-bit floats stored as 32-bit floats.
    Rounded,
}

/// The properties of one policy: its row in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyRow {
    /// The policy's word in its text form, such as `planned`.
    pub word: &'static str,
    /// The price of recomputing a value, compared with saving it.
    pub recompute: RecomputePrice,
    /// The packing of residuals, in the function and in the bodies of its loops.
    pub bits: Bits,
    /// The algorithm that chooses residuals.
    pub planner: Planner,
    /// Whether the policy lists all residuals. If so, results of the function and other values of its forward function
    /// do not count as available to the reverse pass.
    pub nothing_else: bool,
}

/// The price that the planner puts on recomputing a value, compared with saving it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecomputePrice {
    /// The price is the arithmetic, weighed against the bytes saved; expensive equations are never recomputed.
    Weighed,
    /// Recomputation is free: every value is recomputed rather than saved.
    Free,
    /// Recomputation is free, except of the results of contractions and library routines: these are always saved.
    FreeButContractions,
    /// Recomputation is free, except of the results of equations that run functions: these are always saved.
    FreeButFunctions,
    /// Recomputation is free, except of the values with one of the policy's names: these are always saved.
    FreeButNames,
    /// Recomputation costs more than saving: every value that the reverse pass reads is saved, except values with one
    /// of the policy's names.
    DearButNames,
}

/// The algorithm that chooses residuals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planner {
    /// The planner computes a minimum cut between saved and recomputed values, by their prices.
    Cut,
    /// The planner searches for a plan whose tape fits a given number of bytes.
    Budget,
    /// The planning of a compiler of loads and stores: arrays are memory, and loops stay as they are written.
    Memory,
}

/// The arguments of a policy, which its text form shows in parentheses, as `act` in `named(act)`.
enum Arguments<'a> {
    None,
    Names(&'a [Arc<str>]),
    Bytes(u64),
}

/// The policies that have no arguments.
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
    /// The policy for the bodies of loops and branches if the planner treats arrays as memory.
    pub(crate) const OF_MEMORY: Policy = Policy::Aliased;

    /// Returns the policy's row in the table.
    pub fn row(&self) -> PolicyRow {
        let row = |word, recompute, bits, planner, nothing_else| PolicyRow {
            word,
            recompute,
            bits,
            planner,
            nothing_else,
        };
        // The policies that imitate other compilers save values unpacked, because those compilers have no packing.
        match self {
            Policy::Planned => {
                row("planned", RecomputePrice::Weighed, Bits::Cheap, Planner::Cut, false)
            }
            Policy::Rounded => {
                row("rounded", RecomputePrice::Weighed, Bits::Rounded, Planner::Cut, false)
            }
            Policy::Everything => {
                row("everything", RecomputePrice::DearButNames, Bits::Whole, Planner::Cut, false)
            }
            Policy::Except(_) => {
                row("except", RecomputePrice::DearButNames, Bits::Whole, Planner::Cut, false)
            }
            Policy::Nothing => row("nothing", RecomputePrice::Free, Bits::Few, Planner::Cut, true),
            Policy::Dots => {
                row("dots", RecomputePrice::FreeButContractions, Bits::Few, Planner::Cut, true)
            }
            Policy::Named(_) => {
                row("named", RecomputePrice::FreeButNames, Bits::Few, Planner::Cut, true)
            }
            Policy::Bytes(_) => {
                row("bytes", RecomputePrice::FreeButFunctions, Bits::Few, Planner::Budget, false)
            }
            Policy::About(_) => {
                row("about", RecomputePrice::FreeButFunctions, Bits::Few, Planner::Budget, false)
            }
            Policy::Aliased => row(
                "aliased",
                RecomputePrice::FreeButFunctions,
                Bits::Whole,
                Planner::Memory,
                false,
            ),
            Policy::Disjoint => row(
                "disjoint",
                RecomputePrice::FreeButFunctions,
                Bits::Whole,
                Planner::Memory,
                false,
            ),
        }
    }

    fn arguments(&self) -> Arguments<'_> {
        match self {
            Policy::Named(names) | Policy::Except(names) => Arguments::Names(names),
            Policy::Bytes(bytes) | Policy::About(bytes) => Arguments::Bytes(*bytes),
            Policy::Planned
            | Policy::Everything
            | Policy::Nothing
            | Policy::Dots
            | Policy::Aliased
            | Policy::Disjoint
            | Policy::Rounded => Arguments::None,
        }
    }

    /// Returns every policy without arguments, and one example of each policy with arguments.
    pub fn samples() -> Vec<Policy> {
        let names = ["a", "b.c"];
        let more = [Policy::Bytes(8000), Policy::About(8000)];
        let more = more.into_iter().chain([Policy::named(names), Policy::except(names)]);
        PLAIN.into_iter().chain(more).collect()
    }

    /// Makes [`Policy::Named`]: values marked with one of these names are saved.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Policy {
        Policy::Named(names.into_iter().map(Arc::from).collect())
    }

    /// Makes [`Policy::Except`]: values marked with one of these names are recomputed.
    pub fn except<'n>(names: impl IntoIterator<Item = &'n str>) -> Policy {
        Policy::Except(names.into_iter().map(Arc::from).collect())
    }

    /// Returns the policy's word in its text form, without arguments.
    pub fn word(&self) -> &'static str {
        self.row().word
    }

    /// Returns the names among the policy's arguments; none if it has no names.
    pub fn names(&self) -> &[Arc<str>] {
        match self.arguments() {
            Arguments::Names(names) => names,
            Arguments::None | Arguments::Bytes(_) => &[],
        }
    }

    /// Returns the number of bytes among the policy's arguments; `None` if it has no budget.
    pub fn bytes(&self) -> Option<u64> {
        match self.arguments() {
            Arguments::Bytes(bytes) => Some(bytes),
            Arguments::None | Arguments::Names(_) => None,
        }
    }

    /// Returns the policy for a batch of `n` members: a byte budget is multiplied by `n`.
    #[must_use]
    pub fn times(&self, n: usize) -> Policy {
        match self {
            Policy::Bytes(bytes) => Policy::Bytes(bytes.saturating_mul(n as u64)),
            Policy::About(bytes) => Policy::About(bytes.saturating_mul(n as u64)),
            other => other.clone(),
        }
    }

    /// Returns the policy for derivatives of functions that have been planned by this policy.
    #[must_use]
    pub fn derived(&self) -> Policy {
        match self {
            Policy::Bytes(bytes) => Policy::About(*bytes),
            other => other.clone(),
        }
    }

    /// Returns the policy with this word and with this number of bytes as argument. Returns `None` if no policy has
    /// this word and such an argument.
    pub fn of_bytes(word: &str, bytes: u64) -> Option<Policy> {
        [Policy::Bytes(bytes), Policy::About(bytes)].into_iter().find(|p| p.word() == word)
    }

    /// Returns the policy with this word and with these names as arguments. Returns `None` if no policy has this word
    /// and such arguments.
    pub fn of(word: &str, names: Vec<Arc<str>>) -> Option<Policy> {
        let none = names.is_empty();
        let names: Arc<[Arc<str>]> = names.into();
        let named = [Policy::Named(names.clone()), Policy::Except(names)];
        let plain = PLAIN.into_iter().filter(|_| none);
        named.into_iter().chain(plain).find(|p| p.word() == word)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self.arguments() {
            Arguments::None => Ok(()),
            Arguments::Names(names) => write!(f, "({})", names.join(", ")),
            Arguments::Bytes(bytes) => write!(f, "({bytes})"),
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
