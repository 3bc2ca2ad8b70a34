//! Loop signatures: the trip count of a loop, and the inputs and outputs of each iteration.
//!
//! Every parameter of the body has a slot that says where its value comes from:
//!
//! | slot | in iteration i | operand |
//! |---|---|---|
//! | `index` | i | none |
//! | `const` | the operand | one value for all iterations |
//! | `carryN` | result N of the iteration before | the value in the first iteration |
//! | `xs` | element i of the operand | one element for each iteration |
//!
//! If a parameter carries a result, the output of the loop is that result of the last iteration; without
//! iterations, the output is the operand. The other results are *stacked*: their outputs have one element for
//! each iteration.
//!
//! If the trip count is static, elements are the rows of an array along axis 0. Otherwise they are the records
//! of a tape, which only derived loops have: element i belongs to iteration i, in whichever direction the tape
//! is read.
//!
//! Each parameter has its own slot, so a body takes its parameters in any order. A function derived from a body
//! (with tangents appended, residuals prepended, or cotangents in place of parameters) can be the body of the
//! derived loop directly, and no rule reorders parameters.

use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::problem::Kind;
use crate::prim::Scalar;
use crate::prim::syntax::{Attr, Attributes, Field, Problem, SingleField, Word, Written};

/// The trip count of a loop, the order of its iterations, and the source of each of the body's parameters.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct LoopSpec {
    /// The number of iterations: static, an operand, or decided by a condition.
    pub trip: TripCount,
    /// The order of the iterations.
    pub direction: Direction,
    /// The slot (source) of each of the body's parameters, the linear ones last.
    pub takes: Vec<Binding>,
}

/// The trip count of a loop.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum TripCount {
    /// A static trip count.
    Static(usize),
    /// The loop's first operand, an `i64`; a negative value means no iterations.
    Runtime,
    /// The loop runs another iteration while a function of that iteration's parameters returns true. The loop has
    /// one more output, its trip count.
    While {
        /// The condition: a function `values.. -> bool[]`.
        condition: FuncId,
        /// The parameters of the body that the condition reads; they must have `const` or `carry` slots.
        reads: Vec<usize>,
    },
}

/// The order of the iterations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Direction {
    /// The iterations run from 0 to the last one.
    Up,
    /// The iterations run from the last one to 0.
    Down,
}

/// The source of a parameter of a loop's body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Binding {
    /// The iteration number, an `i64`.
    Index,
    /// The parameter takes an operand of the loop, the same value in every iteration.
    Const,
    /// The parameter takes an operand of the loop in the first iteration, and then the result with this index of the
    /// preceding iteration.
    Carry(usize),
    /// The parameter takes the element (row or record) that belongs to the iteration, of an operand.
    Xs,
}

impl LoopSpec {
    /// Returns the number of operands that precede those of the body's parameters: 1 if the trip count is an
    /// operand, otherwise 0.
    pub fn lead(&self) -> usize {
        match self.trip {
            TripCount::Runtime => 1,
            TripCount::Static(_) | TripCount::While { .. } => 0,
        }
    }

    /// Returns the parameters of the body that take an operand of the loop (all but `index`), in the order of the
    /// operands.
    pub fn params(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.takes.len()).filter(|p| self.takes[*p] != Binding::Index)
    }

    /// Returns the parameter that carries result `result`; `None` if the result is stacked.
    pub fn carrier(&self, result: usize) -> Option<usize> {
        self.takes.iter().position(|slot| *slot == Binding::Carry(result))
    }

    /// Returns the static trip count; if it is known only at run time, the guess 32.
    pub fn some_iterations(&self) -> usize {
        const SOME_ITERATIONS: usize = 32;
        match self.trip {
            TripCount::Static(n) => n,
            TripCount::Runtime | TripCount::While { .. } => SOME_ITERATIONS,
        }
    }

    /// Emits a bool: whether a loop with these operands has at least one iteration. For a `while` loop this
    /// evaluates the condition one more time.
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

    /// Returns the number of the iteration that runs as the `k`-th (from 0) of `n`: `k`, or `n - 1 - k`
    /// downwards.
    pub fn index(&self, k: u64, n: u64) -> u64 {
        match self.direction {
            Direction::Up => k,
            Direction::Down => n - 1 - k,
        }
    }
}

impl Direction {
    /// Returns the opposite direction.
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

/// The text form of a loop's signature: `trip=8`, `trip=runtime`, or `trip=while` with `condition` and `reads`;
/// then `direction` and `takes`.
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

/// The text form of a boxed `LoopSpec` is that of the `LoopSpec`.
impl Field<5> for Box<LoopSpec> {
    fn write(&self, names: [&'static str; 5]) -> Written {
        LoopSpec::write(self, names)
    }

    fn read(names: [&str; 5], from: &mut Attributes) -> Result<Box<LoopSpec>, Problem> {
        LoopSpec::read(names, from).map(Box::new)
    }
}
