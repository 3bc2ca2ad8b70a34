//! Marks: the purposes of barriers (equations that passes do not look through).
//!
//! | mark | in text | the marked value |
//! |---|---|---|
//! | [`Mark::Rematerialize`] | `mark=rematerialize` | is recomputed in the reverse pass |
//! | [`Mark::AfterForward`] | `mark=after_forward` | is recomputed under a memory budget: its readers run after the forward pass has ended |
//! | [`Mark::Residual`] | `mark=residual` | is a residual, stored in memory of its own size |
//! | [`Mark::Tape`] | `mark=tape` | is stacked by one loop and read by another one in the opposite order |
//! | [`Mark::Packed`], [`Mark::Rounded`] | `mark=packed`, `mark=rounded` | is stored in fewer bytes |
//! | [`Mark::Draw`], [`Mark::Split`] | `draw=[7]`, `split=[8]` | is a random key at a use; see [`check_keys`](crate::check_keys) |
//! | [`Mark::Named`] | `name=h` | has a name given by the user |
//!
//! Names given by users have their own attribute, so they cannot collide with tapeloom's marks.

use crate::lang::problem::{Kind, Problem};
use crate::lex::is_word;
use crate::prim::syntax::{Attr, Attributes, Field, Written};
use std::fmt;
use std::sync::Arc;

/// The purpose of a barrier: a statement about the value that it passes on.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Mark {
    /// The value is recomputed in the reverse pass instead of being saved.
    Rematerialize,
    /// The value is read by the reverse pass under a memory budget: its readers do not run before the forward
    /// pass has ended.
    AfterForward,
    /// The value is a residual, stored in memory of its own size because the checkpointing policy requires it.
    Residual,
    /// The value is stacked by one loop and read by another one in the opposite order.
    Tape,
    /// The value is stored in fewer bytes without loss.
    Packed,
    /// The value is stored in fewer bytes, rounded.
    Rounded,
    /// The value is a random key from which numbers are drawn.
    Draw(KeyUse),
    /// The value is a random key from which keys are derived.
    Split(KeyUse),
    /// The value has this name, a word, given by the user.
    Named(Arc<str>),
}

/// One use of a random key, by a draw or a split.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct KeyUse {
    /// The number that identifies the use within a function; copies of the use have the same number.
    pub number: u32,
    /// The branches that contain the use: for each, the number of its `cond`, and the index of the branch.
    pub branches: Arc<[(u32, u32)]>,
}

impl Mark {
    /// All marks whose text form is a single word.
    const WORDS: [Mark; 6] = [
        Mark::Rematerialize,
        Mark::AfterForward,
        Mark::Residual,
        Mark::Tape,
        Mark::Packed,
        Mark::Rounded,
    ];

    /// Returns the word that is the mark's text form; `None` for uses of keys and for names.
    fn word(&self) -> Option<&'static str> {
        match self {
            Mark::Rematerialize => Some("rematerialize"),
            Mark::AfterForward => Some("after_forward"),
            Mark::Residual => Some("residual"),
            Mark::Tape => Some("tape"),
            Mark::Packed => Some("packed"),
            Mark::Rounded => Some("rounded"),
            Mark::Draw(_) | Mark::Split(_) | Mark::Named(_) => None,
        }
    }

    /// Returns the mark whose text form is `word`; `None` if there is none.
    pub fn of_word(word: &str) -> Option<Mark> {
        Mark::WORDS.into_iter().find(|mark| mark.word() == Some(word))
    }

    /// Returns the name that the user gave the value, if the mark is a name.
    pub fn name(&self) -> Option<&Arc<str>> {
        match self {
            Mark::Named(name) => Some(name),
            Mark::Rematerialize
            | Mark::AfterForward
            | Mark::Residual
            | Mark::Tape
            | Mark::Packed
            | Mark::Rounded
            | Mark::Draw(_)
            | Mark::Split(_) => None,
        }
    }

    /// Returns whether a value with this mark is stored in fewer bytes: packed or rounded.
    pub fn is_packed(&self) -> bool {
        match self {
            Mark::Packed | Mark::Rounded => true,
            Mark::Rematerialize
            | Mark::AfterForward
            | Mark::Residual
            | Mark::Tape
            | Mark::Draw(_)
            | Mark::Split(_)
            | Mark::Named(_) => false,
        }
    }

    /// Returns the use of a random key that the mark describes, if it is a draw or a split.
    pub fn key_use(&self) -> Option<&KeyUse> {
        match self {
            Mark::Draw(of) | Mark::Split(of) => Some(of),
            Mark::Rematerialize
            | Mark::AfterForward
            | Mark::Residual
            | Mark::Tape
            | Mark::Packed
            | Mark::Rounded
            | Mark::Named(_) => None,
        }
    }

    /// Returns whether the mark can be printed and parsed again: a name must be a word.
    pub fn is_well_formed(&self) -> bool {
        self.name().is_none_or(|name| is_word(name))
    }
}

/// The mark for messages: `residual`, `named h`, `draw [7]`.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::Named(name) => write!(f, "named {name}"),
            Mark::Draw(of) => write!(f, "draw {}", of.attr()),
            Mark::Split(of) => write!(f, "split {}", of.attr()),
            Mark::Rematerialize
            | Mark::AfterForward
            | Mark::Residual
            | Mark::Tape
            | Mark::Packed
            | Mark::Rounded => f.write_str(self.word().unwrap_or_default()),
        }
    }
}

impl KeyUse {
    /// Returns the text form of the use of a key: its number, then the pairs (`cond`, branch) of the branches around
    /// it.
    fn attr(&self) -> Attr {
        let branches = self.branches.iter().flat_map(|(cond, branch)| [*cond, *branch]);
        Attr::Ints([self.number].into_iter().chain(branches).map(i64::from).collect())
    }

    fn of(attr: &Attr) -> Option<KeyUse> {
        let Attr::Ints(all) = attr else { return None };
        let all: Option<Vec<u32>> = all.iter().map(|n| u32::try_from(*n).ok()).collect();
        let all = all?;
        let (number, rest) = all.split_first()?;
        let (pairs, []) = rest.as_chunks::<2>() else { return None };
        let branches = pairs.iter().map(|[cond, branch]| (*cond, *branch)).collect();
        Some(KeyUse { number: *number, branches })
    }

    /// Returns whether this use and `other` are in different branches of one `cond`, so that at most one of them
    /// runs.
    pub fn excludes(&self, other: &KeyUse) -> bool {
        let apart = |(cond, branch): &(u32, u32)| {
            other.branches.iter().any(|(of, taken)| of == cond && taken != branch)
        };
        self.branches.iter().any(apart)
    }
}

/// The text form of a mark: one of the four attributes `mark`, `name`, `draw` and `split`.
impl Field<4> for Mark {
    fn write(&self, [word, name, draw, split]: [&'static str; 4]) -> Written {
        vec![match self {
            Mark::Named(given) => (name, Attr::Word(given.to_string().into())),
            Mark::Draw(of) => (draw, of.attr()),
            Mark::Split(of) => (split, of.attr()),
            Mark::Rematerialize
            | Mark::AfterForward
            | Mark::Residual
            | Mark::Tape
            | Mark::Packed
            | Mark::Rounded => (word, Attr::Word(self.word().unwrap_or_default().into())),
        }]
    }

    fn read(names: [&str; 4], from: &mut Attributes) -> Result<Mark, Problem> {
        let [word, name, draw, split] = names;
        let key = |attr: &Attr, of: fn(KeyUse) -> Mark| KeyUse::of(attr).map(of);
        let wanted = || {
            let words = Mark::WORDS.map(|mark| mark.to_string()).join(", ");
            let message =
                format!("a barrier has one of `{word}`, `{name}`, `{draw}` and `{split}`");
            Problem::new(Kind::Parse, message, format!("the words of `{word}` are {words}"))
        };
        let found = names.into_iter().find_map(|n| Some((n, from.take(n)?))).ok_or_else(wanted)?;
        let mark = match &found {
            (n, Attr::Word(given)) if *n == word => Mark::of_word(given),
            (n, Attr::Word(given)) if *n == name => Some(Mark::Named(given.as_ref().into())),
            (n, attr) if *n == draw => key(attr, Mark::Draw),
            (n, attr) if *n == split => key(attr, Mark::Split),
            (_, _) => None,
        };
        mark.ok_or_else(wanted)
    }
}
