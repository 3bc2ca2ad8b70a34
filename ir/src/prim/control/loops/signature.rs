//! Iterations: how often a loop runs its body, and what goes in and out of each iteration.
//!
//! Every parameter of the body has a slot that says where its value comes from:
//!
//! | slot | in iteration i | operand |
//! |---|---|---|
//! | `index` | i | none |
//! | `const` | the operand | one value for all iterations |
//! | `carryN` | what result N was in the iteration before | what the first iteration takes |
//! | `xs` | element i of the operand | one element for each iteration |
//!
//! A result that some parameter carries is an output of the loop as the last iteration left it; without
//! any iteration, the output is the operand. The other results are *stacked*: their outputs have one
//! element for each iteration.
//!
//! Where the number of iterations is part of the program, elements are those of an array along axis 0. Else
//! they are the records of a tape, which only derived loops have: element i is what iteration i left, in
//! whichever direction it is read.
//!
//! Since slots are said one by one, a body takes its parameters in any order. So a function derived
//! from a body (with tangents behind, or residuals before, or the cotangents of its results in place of
//! its parameters) is a body as it comes, and no rule rearranges functions.

use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::problem::Kind;
use crate::prim::Scalar;
use crate::prim::syntax::{Attr, Attributes, Field, Problem, SingleField, Word, Written};

/// How often a loop runs its body, and what goes in and out of each iteration.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct LoopSpec {
    /// How many iterations.
    pub trip: TripCount,
    /// In which order they run.
    pub direction: Direction,
    /// Where the parameters of the body come from, the linear ones last.
    pub takes: Vec<Binding>,
}

/// How many iterations a loop has.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum TripCount {
    /// So many.
    Static(usize),
    /// As many as the loop's first operand says, an `i64`; none if it is negative.
    Runtime,
    /// As long as a function of values of the iteration to come says so. The loop has one more output, the
    /// number of iterations that there were.
    While {
        /// The function: `values.. -> bool[]`.
        condition: FuncId,
        /// Which parameters of the body it reads: those in `const` and `carry` slots have values that
        /// it can.
        reads: Vec<usize>,
    },
}

/// The order of the iterations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Direction {
    /// From iteration 0 on.
    Up,
    /// From the last iteration to iteration 0.
    Down,
}

/// Where a parameter of a loop's body comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Binding {
    /// The number of the iteration, an `i64`.
    Index,
    /// An operand, the same in every iteration.
    Const,
    /// In the first iteration an operand, then that result of the iteration before.
    Carry(usize),
    /// The element of an operand that belongs to the iteration.
    Xs,
}

impl LoopSpec {
    /// How many operands stand before those of the slots: the number of iterations, where it is one.
    pub fn lead(&self) -> usize {
        match self.trip {
            TripCount::Runtime => 1,
            TripCount::Static(_) | TripCount::While { .. } => 0,
        }
    }

    /// The parameters of the body that have an operand, in the order of the operands.
    pub fn params(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.takes.len()).filter(|p| self.takes[*p] != Binding::Index)
    }

    /// The parameter that carries a result, unless the result is stacked.
    pub fn carrier(&self, result: usize) -> Option<usize> {
        self.takes.iter().position(|slot| *slot == Binding::Carry(result))
    }

    /// Returns the trip count, or the guess for a loop whose trip count only the run knows.
    pub fn some_iterations(&self) -> usize {
        const SOME_ITERATIONS: usize = 32;
        match self.trip {
            TripCount::Static(n) => n,
            TripCount::Runtime | TripCount::While { .. } => SOME_ITERATIONS,
        }
    }

    /// Emits whether a loop with these operands has an iteration. The condition of a `while` loop is asked once more.
    pub fn has_iteration(&self, b: &Builder<'_>, operands: &[Atom]) -> Atom {
        match &self.trip {
            TripCount::Static(n) => Literal::bool(*n > 0).into(),
            TripCount::Runtime => b.emit1(Scalar::Gt, &[operands[0], Literal::i64(0).into()]),
            TripCount::While { condition, reads } => {
                let operand = |p: &usize| self.params().position(|q| q == *p);
                let args: Vec<Atom> =
                    reads.iter().filter_map(operand).map(|k| operands[k]).collect();
                b.inline(*condition, &args)[0]
            }
        }
    }

    /// The number of the iteration that runs as the `k`-th of `n`.
    pub fn index(&self, k: usize, n: usize) -> usize {
        match self.direction {
            Direction::Up => k,
            Direction::Down => n - 1 - k,
        }
    }
}

impl Direction {
    /// The other one.
    pub fn flipped(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

impl Word for Direction {
    const ALL: &'static [Direction] = &[Direction::Up, Direction::Down];
    fn word(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

impl SingleField for Vec<Binding> {
    fn wanted() -> String {
        "a list of index, const, xs and carryN, N a result of the body".to_owned()
    }

    fn to_attr(&self) -> Attr {
        let word = |slot: &Binding| match slot {
            Binding::Index => "index".into(),
            Binding::Const => "const".into(),
            Binding::Carry(result) => format!("carry{result}").into(),
            Binding::Xs => "xs".into(),
        };
        Attr::Words(self.iter().map(word).collect())
    }

    fn from_attr(attr: &Attr) -> Option<Vec<Binding>> {
        let slot = |word: &str| match word {
            "index" => Some(Binding::Index),
            "const" => Some(Binding::Const),
            "xs" => Some(Binding::Xs),
            _ => word.strip_prefix("carry")?.parse().ok().map(Binding::Carry),
        };
        match attr {
            Attr::Words(words) => words.iter().map(|word| slot(word)).collect(),
            Attr::Ints(none) if none.is_empty() => Some(Vec::new()),
            _ => None,
        }
    }
}

/// `trip=8`, `trip=runtime`, or `trip=while` with `condition` and `reads`; `direction`; `takes`.
impl Field<5> for LoopSpec {
    fn write(&self, [trip, condition, reads, direction, takes]: [&'static str; 5]) -> Written {
        let word = |word: &'static str| vec![(trip, Attr::Word(word.into()))];
        let mut all = match &self.trip {
            TripCount::Static(n) => n.write([trip]),
            TripCount::Runtime => word("runtime"),
            TripCount::While { condition: function, reads: read } => {
                [word("while"), function.write([condition]), read.write([reads])].concat()
            }
        };
        all.extend(self.direction.write([direction]));
        all.extend(self.takes.write([takes]));
        all
    }

    fn read(
        [trip, condition, reads, direction, takes]: [&str; 5],
        from: &mut Attributes,
    ) -> Result<LoopSpec, Problem> {
        let trip = match from.take(trip) {
            Some(Attr::Word(word)) if word == "runtime" => TripCount::Runtime,
            Some(Attr::Word(word)) if word == "while" => {
                let condition = Field::read([condition], from)?;
                TripCount::While { condition, reads: Field::read([reads], from)? }
            }
            found => match found.as_ref().and_then(usize::from_attr) {
                Some(n) => TripCount::Static(n),
                None => {
                    let found = found.map_or("nothing".to_owned(), |found| found.to_string());
                    let message = format!(
                        "attribute `{trip}` must be a number of iterations, runtime or while, found {found}"
                    );
                    return Err(Problem::new(Kind::Parse, message, ""));
                }
            },
        };
        let direction = Field::read([direction], from)?;
        Ok(LoopSpec { trip, direction, takes: Field::read([takes], from)? })
    }
}

/// The same where they lie elsewhere.
impl Field<5> for Box<LoopSpec> {
    fn write(&self, names: [&'static str; 5]) -> Written {
        LoopSpec::write(self, names)
    }

    fn read(names: [&str; 5], from: &mut Attributes) -> Result<Box<LoopSpec>, Problem> {
        LoopSpec::read(names, from).map(Box::new)
    }
}
