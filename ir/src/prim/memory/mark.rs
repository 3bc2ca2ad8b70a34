//! Marks: why a value stands behind a barrier.
//!
//! | mark | in text | what it is of |
//! |---|---|---|
//! | [`Mark::Rematerialize`] | `mark=rematerialize` | what the reverse pass computes again |
//! | [`Mark::AfterForward`] | `mark=after_forward` | the same under a budget: what reads it runs when the forward pass has ended |
//! | [`Mark::Residual`] | `mark=residual` | what the forward pass gives to the reverse pass: it has memory of its own size |
//! | [`Mark::Tape`] | `mark=tape` | what one loop stacks and another one takes up in the opposite order |
//! | [`Mark::Packed`], [`Mark::Rounded`] | `mark=packed`, `mark=rounded` | what is kept in fewer bytes |
//! | [`Mark::Draw`], [`Mark::Split`] | `draw=[7]`, `split=[8]` | a random key that is used; see [`check_keys`](crate::check_keys) |
//! | [`Mark::Named`] | `name=h` | what the user gave a name |
//!
//! So no name that a user gives is one of tapeloom's own.

use crate::lang::problem::{Kind, Problem};
use crate::lex::is_word;
use crate::prim::syntax::{Attr, Attributes, Field, Written};
use std::fmt;
use std::sync::Arc;

/// Why a value stands behind a barrier.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Mark {
    /// It is computed again.
    Rematerialize,
    /// It is what the reverse pass reads, where memory is counted that is taken between the passes: nothing that reads
    /// it runs before the forward pass has ended.
    AfterForward,
    /// It is what the forward pass gives to the reverse pass under a policy that says so: it has memory of its own
    /// size.
    Residual,
    /// One loop stacks it and another one takes it up in the opposite order.
    Tape,
    /// It is kept in fewer bytes.
    Packed,
    /// It is kept in fewer bytes, as other numbers near to its own.
    Rounded,
    /// It is a random key of which numbers are drawn.
    Draw(KeyUse),
    /// It is a random key of which keys are made.
    Split(KeyUse),
    /// The user gave it that name: a word.
    Named(Arc<str>),
}

/// A use of a random key, which every copy of it has.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct KeyUse {
    /// Its number.
    pub number: u32,
    /// The branches around it: the number of a `cond`, and which of its branches that is.
    pub branches: Arc<[(u32, u32)]>,
}

impl Mark {
    /// Those that are a word.
    const WORDS: [Mark; 6] = [
        Mark::Rematerialize,
        Mark::AfterForward,
        Mark::Residual,
        Mark::Tape,
        Mark::Packed,
        Mark::Rounded,
    ];

    /// Its word, if it is one.
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

    /// The mark of that word.
    pub fn of_word(word: &str) -> Option<Mark> {
        Mark::WORDS.into_iter().find(|mark| mark.word() == Some(word))
    }

    /// The name that the user gave.
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

    /// Whether the value is kept in fewer bytes.
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

    /// The use of a random key that it is of.
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

    /// Whether its name, if it has one, is a word.
    pub fn is_well_formed(&self) -> bool {
        self.name().is_none_or(|name| is_word(name))
    }
}

/// `residual`, `named h`, `draw [7]`
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
    /// Its number, and the pairs of its branches.
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

    /// Whether two uses stand in two branches of one `cond`.
    pub fn excludes(&self, other: &KeyUse) -> bool {
        let apart = |(cond, branch): &(u32, u32)| {
            other.branches.iter().any(|(of, taken)| of == cond && taken != branch)
        };
        self.branches.iter().any(apart)
    }
}

/// One of four attributes.
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
