//! A loop in blocks of rounds: an outer loop of which a round is so many of the old ones.
//!
//! ```text
//! loop{body=@step, trip=10, ..}      loop{body=@block, trip=3, ..}, then loop{body=@step, trip=1, ..}
//!                                    @block: loop{body=@step, trip=3, ..}
//! ```
//!
//! Where carries are kept, one is kept for a block then, and while a block is undone its rounds keep what
//! they need: so with `s` places and `l` rounds in a block, `s l` rounds run forward once before each is
//! undone, where `s` rounds did. Those rounds that fill no block run last. And where rounds keep a few bits each,
//! those of a block share words, so that the bits of one block at a time lie in bytes.
//!
//! Model: two-level checkpointing; the inner level is small enough for the cache.

use super::places::{calc, few, number};
use super::{Direction, Loop, Rounds, Slot, Trip};
use crate::builder::Builder;
use crate::function::{Atom, FuncId};
use crate::prim::toolbox::function;
use crate::prim::{Concatenate, Op, Reshape, Scalar, Slice};
use crate::problem::Problem;
use crate::types::{Dtype, Type};

impl Op {
    /// Emits a loop of which reverse mode keeps so many carries, one for each block of so many rounds; any
    /// other primitive as it is.
    pub fn emit_keeping(
        &self,
        b: &Builder<'_>,
        x: &[Atom],
        carries: usize,
        block: usize,
    ) -> Vec<Atom> {
        let Op::Loop(of) = self else { return b.emit(self.clone(), x).to_vec() };
        let of = Loop { carries: Some(few(carries)), ..of.clone() };
        let blocks = match of.rounds.trip {
            // One block of all rounds keeps what each needs.
            Trip::Static(n) if block > 1 && block >= n => return b.emit(self.clone(), x).to_vec(),
            // Of two halves each is smaller than what was asked for.
            Trip::Static(n) if block.min(n / 2) > 1 => of.in_blocks(b, x, n, block.min(n / 2)),
            Trip::Static(_) | Trip::Runtime | Trip::While { .. } => None,
        };
        settled(b, blocks).unwrap_or_else(|| b.emit(of, x).to_vec())
    }
}

/// What a loop in blocks gives, if it is one; of a problem nothing comes.
fn settled(b: &Builder<'_>, blocks: Option<Result<Vec<Atom>, Problem>>) -> Option<Vec<Atom>> {
    let failed = |problem| {
        b.fail(problem);
        Vec::new()
    };
    blocks.map(|blocks| blocks.unwrap_or_else(failed))
}

impl Op {
    /// Emits a loop in blocks of so many rounds, if it is known to have two of them; any other primitive as it is.
    pub fn emit_in_blocks(&self, b: &Builder<'_>, x: &[Atom], block: usize) -> Vec<Atom> {
        let Op::Loop(of) = self else { return b.emit(self.clone(), x).to_vec() };
        let blocks = match of.rounds.trip {
            Trip::Static(n) if n >= 2 * block => of.in_blocks(b, x, n, block),
            Trip::Static(_) | Trip::Runtime | Trip::While { .. } => None,
        };
        settled(b, blocks).unwrap_or_else(|| b.emit(self.clone(), x).to_vec())
    }
}

impl Loop {
    /// The same in blocks; nothing if it is linear or has to do with tapes.
    fn in_blocks(
        &self,
        b: &Builder<'_>,
        x: &[Atom],
        n: usize,
        block: usize,
    ) -> Option<Result<Vec<Atom>, Problem>> {
        let f = b.with_module(|m| m.get(self.body));
        let arrays = |types: &[Type]| types.iter().all(|ty| ty.as_array().is_some());
        let fits = arrays(&f.param_types()) && arrays(&f.result_types());
        (fits && f.linear_params.is_empty()).then(|| self.blocks(b, x, n, block, &f.param_types()))
    }

    fn blocks(
        &self,
        b: &Builder<'_>,
        x: &[Atom],
        n: usize,
        block: usize,
        types: &[Type],
    ) -> Result<Vec<Atom>, Problem> {
        let (blocks, rest) = (n / block, n % block);
        // Elements of what runs in blocks and of what runs last.
        let (first, last) = match self.rounds.direction {
            Direction::Up => (0, blocks * block),
            Direction::Down => (rest, 0),
        };
        let is = |slot: Slot| self.rounds.takes.contains(&slot);
        let params: Vec<usize> = self.rounds.params().collect();
        let inner = |p: usize| match (self.rounds.takes[p], types[p].as_array()) {
            (Slot::Xs, Some(ty)) => Type::array(ty.dtype, &ty.shape.with_leading(block)),
            _ => types[p].clone(),
        };
        let given: Vec<Type> = params.iter().map(|p| inner(*p)).collect();
        let body = b.with_module(|m| {
            let at = b.location();
            let given = [&[Type::scalar(Dtype::I64)], &given[..]].concat();
            function(m, "block", [&given, &[]], |b, p, _| {
                b.at(at);
                let begun = calc(b, Scalar::Mul, p[0], number(block));
                let begun = calc(b, Scalar::Add, begun, number(first));
                self.part(b, begun, block, &p[1..])
            })
        })?;
        let slots = params.iter().map(|p| self.rounds.takes[*p]);
        let takes = [Slot::Index].into_iter().chain(slots).collect();
        let rounds = Rounds { trip: Trip::Static(blocks), takes, ..self.rounds.clone() };
        let operand = |p: &usize, x: &Atom| match self.rounds.takes[*p] {
            Slot::Xs => {
                let rows = rows(b, *x, first, blocks * block);
                let inner = b.shape_of(rows).get(1..).unwrap_or_default().to_vec();
                let shape = [&[blocks, block], &inner[..]].concat().into();
                b.emit1(Reshape { shape }, &[rows])
            }
            Slot::Index | Slot::Const | Slot::Carry(_) => *x,
        };
        let args: Vec<Atom> = params.iter().zip(x).map(|(p, x)| operand(p, x)).collect();
        let mut y = b.emit(Loop { body, rounds, carries: self.carries }, &args).to_vec();
        for (r, y) in y.iter_mut().enumerate() {
            if !is(Slot::Carry(r)) {
                let inner = b.shape_of(*y).get(2..).unwrap_or_default().to_vec();
                let shape = [&[blocks * block], &inner[..]].concat().into();
                *y = b.emit1(Reshape { shape }, &[*y]);
            }
        }
        if rest == 0 {
            return Ok(y);
        }
        let operand = |p: &usize, x: &Atom| match self.rounds.takes[*p] {
            Slot::Xs => rows(b, *x, last, rest),
            Slot::Carry(r) => y[r],
            Slot::Index | Slot::Const => *x,
        };
        let args: Vec<Atom> = params.iter().zip(x).map(|(p, x)| operand(p, x)).collect();
        let ends = self.part(b, number(last), rest, &args);
        let all = y.iter().zip(ends).enumerate().map(|(r, (before, end))| {
            let both = match self.rounds.direction {
                Direction::Up => [*before, end],
                Direction::Down => [end, *before],
            };
            if is(Slot::Carry(r)) { end } else { b.emit1(Concatenate { axis: 0 }, &both) }
        });
        Ok(all.collect())
    }

    /// So many of its rounds, of which the first element is that; their operands are those of all rounds.
    fn part(&self, b: &Builder<'_>, first: Atom, n: usize, x: &[Atom]) -> Vec<Atom> {
        let trip = Trip::Static(n);
        if !self.rounds.takes.contains(&Slot::Index) {
            let rounds = Rounds { trip, ..self.rounds.clone() };
            return b.emit(Loop::new(self.body, rounds), x).to_vec();
        }
        match b.with_module(|m| self.from(m, b)) {
            Ok(body) => {
                let takes = [&[Slot::Const], &self.rounds.takes[..]].concat();
                let rounds = Rounds { trip, takes, ..self.rounds.clone() };
                b.emit(Loop::new(body, rounds), &[&[first], x].concat()).to_vec()
            }
            Err(problem) => {
                b.fail(problem);
                Vec::new()
            }
        }
    }

    /// The body, where the number of the round counts from a first one, its new first parameter.
    fn from(&self, m: &mut crate::Module, b: &Builder<'_>) -> Result<FuncId, Problem> {
        let (f, at) = (m.get(self.body), b.location());
        let types = [&[Type::scalar(Dtype::I64)], &f.param_types()[..]].concat();
        function(m, &f.name, [&types, &[]], |b, p, _| {
            b.at(at);
            let arg = |(slot, x): (&Slot, &Atom)| match slot {
                Slot::Index => calc(b, Scalar::Add, p[0], *x),
                Slot::Const | Slot::Carry(_) | Slot::Xs => *x,
            };
            let args: Vec<Atom> = self.rounds.takes.iter().zip(&p[1..]).map(arg).collect();
            b.inline(self.body, &args)
        })
    }
}

/// So many elements along axis 0.
fn rows(b: &Builder<'_>, x: Atom, first: usize, n: usize) -> Atom {
    let shape = b.shape_of(x);
    let mut start = vec![0; shape.len()];
    let mut limit = shape.to_vec();
    (start[0], limit[0]) = (first, first + n);
    b.emit1(Slice { start, limit, strides: vec![1; shape.len()] }, &[x])
}
