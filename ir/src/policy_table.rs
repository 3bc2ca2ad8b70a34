//! Policies: what reverse mode keeps of the forward pass, as a table of which this file is the one place.
//!
//! Whoever plans asks for the [row](Policy::row), and names no policy that stands for what another compiler does.
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
    /// What contractions and library routines (decompositions, transforms) give; the rest is computed again.
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

/// What a policy says, as a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyRow {
    /// Its word in text.
    pub word: &'static str,
    /// What it costs to compute a value again.
    pub again: Again,
    /// In how many bits it keeps values, here and in bodies of loops.
    pub bits: Bits,
    /// Who chooses what is kept.
    pub planner: Planner,
    /// Whether it says what is kept, so that nothing else is: neither results nor what stands beside them in one
    /// function.
    pub nothing_else: bool,
}

/// What it costs to compute a value again, beside keeping it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// Its arithmetic, weighed against bytes; nothing that is dear is computed again.
    Weighed,
    /// Nothing.
    Free,
    /// Nothing, but contractions and library routines are kept.
    FreeButContractions,
    /// Nothing, but what runs functions is kept.
    FreeButFunctions,
    /// Nothing, but what has one of the policy's names is kept.
    FreeButNames,
    /// More than keeping it, so whatever is read is kept, but for what has one of the policy's names.
    DearButNames,
}

/// Who chooses what is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planner {
    /// One minimum cut.
    Cut,
    /// A search over plans of which the tape has so many bytes.
    Budget,
    /// What a compiler of loads and stores would: arrays are memory, and loops stay as they are written.
    Memory,
}

/// What is written behind a policy's word.
enum Arguments<'a> {
    None,
    Names(&'a [Arc<str>]),
    Bytes(u64),
}

/// The policies without arguments.
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
    /// What is kept of bodies where arrays are memory.
    pub(crate) const OF_MEMORY: Policy = Policy::Aliased;

    /// What it says.
    pub fn row(&self) -> PolicyRow {
        let row = |word, again, bits, planner, nothing_else| PolicyRow {
            word,
            again,
            bits,
            planner,
            nothing_else,
        };
        // Those that stand for what others do keep what is read, as it is.
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

    /// Every policy without arguments, and the others with some.
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

    /// Its word, without arguments.
    pub fn word(&self) -> &'static str {
        self.row().word
    }

    /// The names that it is about.
    pub fn names(&self) -> &[Arc<str>] {
        match self.arguments() {
            Arguments::Names(names) => names,
            Arguments::None | Arguments::Bytes(_) => &[],
        }
    }

    /// The bytes that it is about.
    pub fn bytes(&self) -> Option<u64> {
        match self.arguments() {
            Arguments::Bytes(bytes) => Some(bytes),
            Arguments::None | Arguments::Names(_) => None,
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
        [Policy::Bytes(bytes), Policy::About(bytes)].into_iter().find(|p| p.word() == word)
    }

    /// The policy of that word and those names, if there is one.
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
