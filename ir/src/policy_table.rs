//! The table of policies: the residuals that reverse mode saves.
//!
//! Planners read a policy's [row](Policy::row); they name no policy that imitates another compiler.
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

/// A policy for choosing residuals. Plain data: it is part of a query, and so of the memo key of a module.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Policy {
    /// Residuals that are cheaper to save than to recompute, by the costs of moving a byte and of an addition.
    /// Recomputation is at most a tenth of the arithmetic, and recomputes no function of the library (`exp`,
    /// `tanh`, ..), no reduction and no contraction.
    #[default]
    Planned,
    /// Every value that the reverse pass reads.
    Everything,
    /// Only the function's arguments: the reverse pass recomputes the rest.
    Nothing,
    /// Results of contractions and library routines (decompositions, transforms); the rest is recomputed.
    Dots,
    /// Values marked with those names; the rest is recomputed.
    Named(Arc<[Arc<str>]>),
    /// At most this number of bytes between the forward and the reverse pass, and during the reverse pass of an
    /// iteration of an outermost loop: the cheapest plan within that budget. Loops save some of their carries
    /// and recompute the others.
    Bytes(u64),
    /// As [`Policy::Bytes`] if a plan within the budget exists, and otherwise the smallest plan. Derivatives of
    /// functions planned by [`Policy::Bytes`] use this, since they also need space for the residuals of the
    /// first reverse pass.
    About(u64),
    /// Every value that the reverse pass reads, except values marked with those names, which are recomputed.
    Except(Arc<[Arc<str>]>),
    /// The residuals of a compiler that transforms loops over memory in place of arrays, and must assume that
    /// arrays overlap. In loops, every read of an array that may be written before the reverse pass saves one
    /// number, reads of inputs included; arithmetic on saved values is recomputed. For comparison only.
    Aliased,
    /// As [`Policy::Aliased`], for arrays known not to overlap: arrays are read again, and of the computed
    /// values the fewest bytes are saved from which arithmetic can recompute the rest.
    Disjoint,
    /// As [`Policy::Planned`], with f64 residuals stored as f32, in half the bytes. So derivatives differ from
    /// those of all other policies: each such residual has a relative error of at most [`ROUNDING`], and one
    /// outside the range of f32 is lost.
    Rounded,
}

/// The largest relative error of an f64 residual under [`Policy::Rounded`], for sizes between 1.2e-38 and
/// 3.4e38: half the distance between two numbers of f32.
pub const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;

/// The packing of residuals: the number of bits of each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Bits {
    /// Unpacked: each element takes the width of its dtype.
    Whole,
    /// Packed in fewer bits where packing costs less than the bytes that it saves.
    #[default]
    Cheap,
    /// Packed in the fewest bits that hold the values, whatever the packing costs.
    Few,
    /// As [`Bits::Cheap`], with 64-bit floats in 32 bits.
    Rounded,
}

/// The properties of a policy, as a row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyRow {
    /// The policy's word in text.
    pub word: &'static str,
    /// The cost of recomputing a value.
    pub again: Again,
    /// The packing of residuals, in the function and in bodies of loops.
    pub bits: Bits,
    /// The algorithm that chooses residuals.
    pub planner: Planner,
    /// Whether the policy lists the residuals exhaustively. If so, neither results of the function nor other
    /// values of its forward half count as available to the reverse pass.
    pub nothing_else: bool,
}

/// The cost of recomputing a value, relative to saving it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// Its arithmetic, weighed against bytes; expensive equations are never recomputed.
    Weighed,
    /// Zero: every value is recomputed rather than saved.
    Free,
    /// Zero, except for results of contractions and library routines, which are saved.
    FreeButContractions,
    /// Zero, except for results of equations that run functions, which are saved.
    FreeButFunctions,
    /// Zero, except for values with one of the policy's names, which are saved.
    FreeButNames,
    /// More than saving: every value that is read is saved, but for values with one of the policy's names.
    DearButNames,
}

/// The algorithm that chooses residuals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planner {
    /// A minimum cut between saved and recomputed values.
    Cut,
    /// A search over plans whose tape fits a number of bytes.
    Budget,
    /// The planning of a compiler of loads and stores: arrays are memory, and loops stay as they are written.
    Memory,
}

/// The arguments in parentheses after a policy's word.
enum Arguments<'a> {
    None,
    Names(&'a [Arc<str>]),
    Bytes(u64),
}

/// All policies without arguments.
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
    /// The policy for bodies if arrays are memory.
    pub(crate) const OF_MEMORY: Policy = Policy::Aliased;

    /// Returns the policy's row.
    pub fn row(&self) -> PolicyRow {
        let row = |word, again, bits, planner, nothing_else| PolicyRow {
            word,
            again,
            bits,
            planner,
            nothing_else,
        };
        // The policies that imitate other compilers save values unpacked.
        match self {
            Policy::Planned => row("planned", Again::Weighed, Bits::Cheap, Planner::Cut, false),
            Policy::Rounded => row("rounded", Again::Weighed, Bits::Rounded, Planner::Cut, false),
            Policy::Everything => {
                row("everything", Again::DearButNames, Bits::Whole, Planner::Cut, false)
            }
            Policy::Except(_) => {
                row("except", Again::DearButNames, Bits::Whole, Planner::Cut, false)
            }
            Policy::Nothing => row("nothing", Again::Free, Bits::Few, Planner::Cut, true),
            Policy::Dots => row("dots", Again::FreeButContractions, Bits::Few, Planner::Cut, true),
            Policy::Named(_) => row("named", Again::FreeButNames, Bits::Few, Planner::Cut, true),
            Policy::Bytes(_) => {
                row("bytes", Again::FreeButFunctions, Bits::Few, Planner::Budget, false)
            }
            Policy::About(_) => {
                row("about", Again::FreeButFunctions, Bits::Few, Planner::Budget, false)
            }
            Policy::Aliased => {
                row("aliased", Again::FreeButFunctions, Bits::Whole, Planner::Memory, false)
            }
            Policy::Disjoint => {
                row("disjoint", Again::FreeButFunctions, Bits::Whole, Planner::Memory, false)
            }
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

    /// Returns every policy without arguments, and one sample of each other policy.
    pub fn samples() -> Vec<Policy> {
        let names = ["a", "b.c"];
        let more = [Policy::Bytes(8000), Policy::About(8000)];
        let more = more.into_iter().chain([Policy::named(names), Policy::except(names)]);
        PLAIN.into_iter().chain(more).collect()
    }

    /// Makes [`Policy::Named`]: values marked with one of those names are saved.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Policy {
        Policy::Named(names.into_iter().map(Arc::from).collect())
    }

    /// Makes [`Policy::Except`]: values marked with one of those names are recomputed.
    pub fn except<'n>(names: impl IntoIterator<Item = &'n str>) -> Policy {
        Policy::Except(names.into_iter().map(Arc::from).collect())
    }

    /// Returns the policy's word, without arguments.
    pub fn word(&self) -> &'static str {
        self.row().word
    }

    /// Returns the names in the policy's arguments.
    pub fn names(&self) -> &[Arc<str>] {
        match self.arguments() {
            Arguments::Names(names) => names,
            Arguments::None | Arguments::Bytes(_) => &[],
        }
    }

    /// Returns the bytes in the policy's arguments.
    pub fn bytes(&self) -> Option<u64> {
        match self.arguments() {
            Arguments::Bytes(bytes) => Some(bytes),
            Arguments::None | Arguments::Names(_) => None,
        }
    }

    /// Returns the policy for a batch of `n`: a byte budget is multiplied by `n`.
    #[must_use]
    pub fn times(&self, n: usize) -> Policy {
        match self {
            Policy::Bytes(bytes) => Policy::Bytes(bytes.saturating_mul(n as u64)),
            Policy::About(bytes) => Policy::About(bytes.saturating_mul(n as u64)),
            other => other.clone(),
        }
    }

    /// Returns the policy for derivatives of functions that this policy planned.
    #[must_use]
    pub fn derived(&self) -> Policy {
        match self {
            Policy::Bytes(bytes) => Policy::About(*bytes),
            other => other.clone(),
        }
    }

    /// Returns the policy of that word with a number of bytes, if there is one.
    pub fn of_bytes(word: &str, bytes: u64) -> Option<Policy> {
        [Policy::Bytes(bytes), Policy::About(bytes)].into_iter().find(|p| p.word() == word)
    }

    /// Returns the policy of that word with those names, if there is one.
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
