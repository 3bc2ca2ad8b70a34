//! Splits a loop into blocks of iterations: each iteration of an outer loop runs one block in an inner loop.
//!
//! ```text
//! loop{body=@step, trip=10, ..}      loop{body=@block, trip=3, ..}, then loop{body=@step, trip=1, ..}
//!                                    @block: loop{body=@step, trip=3, ..}
//! ```
//!
//! With checkpointing, one carry is saved per block, and while the reverse pass processes a block, its iterations save
//! their residuals. With `s` slots and blocks of `l` iterations, a loop of `s l` iterations recomputes each iteration
//! only once; without blocks, only a loop of `s` iterations would. The iterations that fill no block run last, together
//! with as many further iterations as fit in memory: they save their residuals and are not recomputed. If iterations
//! save a few bits each, the iterations of a block share words, and only the bits of one block at a time are unpacked
//! to bytes.
//!
//! Model: two-level checkpointing; the inner level is small enough for the cache.

use super::checkpoint_slots::{calc, number, slot_count};
use super::{Binding, Direction, Loop, LoopSpec, TripCount};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::problem::Problem;
use crate::lang::types::{Dtype, Type};
use crate::prim::facet::Facet;
use crate::prim::rules::region_helpers::function;
use crate::prim::{Concatenate, Op, Reshape, Scalar, Slice};
use std::num::NonZeroU32;

/// The checkpointing plan of one loop: which iterations save a carry or their residuals for the reverse pass.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointPlan {
    /// The number of saved carries (checkpoint slots).
    pub carries: usize,
    /// The number of iterations per saved carry (the length of a block), at least one.
    pub block: usize,
    /// The number of last iterations that save their residuals; the reverse pass processes them first.
    pub last: usize,
}

impl Op {
    /// Emits a loop with the checkpointing plan `plan`, if its trip count is static; otherwise a loop with
    /// `plan.carries` slots. Emits any other primitive unchanged.
    pub fn emit_checkpointed(
        &self,
        b: &Builder<'_>,
        x: &[Atom],
        plan: CheckpointPlan,
    ) -> Vec<Atom> {
        let Facet::Loop(of) = self.facet() else { return b.emit(self.clone(), x).to_vec() };
        let of = Loop { carries: Some(slot_count(plan.carries)), ..of.clone() };
        let TripCount::Static(n) = of.spec.trip else { return b.emit(of, x).to_vec() };
        // If one block, or the last iterations, cover all `n` iterations, every iteration saves its residuals, as in a
        // loop without checkpoint slots.
        if plan.block > 1 && plan.block >= n || plan.last > 0 && plan.last >= n {
            return b.emit(self.clone(), x).to_vec();
        }
        let n = n - plan.last;
        // Use at least two blocks: if the requested block is longer than half of the iterations, take halves.
        let block = plan.block.min(n / 2).max(1);
        let plain = block == 1 && plan.last == 0;
        let blocks = if plain { None } else { of.in_blocks(b, x, n / block, block) };
        unwrap_or_fail(b, blocks).unwrap_or_else(|| b.emit(of, x).to_vec())
    }
}

/// Returns the outputs of a loop in blocks, or `None` if the loop cannot be split. On an error, reports it to the
/// builder and returns no outputs.
fn unwrap_or_fail(
    b: &Builder<'_>,
    blocks: Option<Result<Vec<Atom>, Problem>>,
) -> Option<Vec<Atom>> {
    let failed = |problem| {
        b.fail(problem);
        Vec::new()
    };
    blocks.map(|blocks| blocks.unwrap_or_else(failed))
}

impl Op {
    /// Emits a loop in blocks of `block` iterations, if its trip count is static and at least two blocks long.
    /// Emits any other loop, and any other primitive, unchanged.
    pub fn emit_in_blocks(&self, b: &Builder<'_>, x: &[Atom], block: usize) -> Vec<Atom> {
        let Facet::Loop(of) = self.facet() else { return b.emit(self.clone(), x).to_vec() };
        let blocks = match of.spec.trip {
            TripCount::Static(n) if n >= 2 * block => of.in_blocks(b, x, n / block, block),
            TripCount::Static(_) | TripCount::Runtime | TripCount::While { .. } => None,
        };
        unwrap_or_fail(b, blocks).unwrap_or_else(|| b.emit(self.clone(), x).to_vec())
    }
}

impl Loop {
    /// Emits the loop as `blocks` blocks of `block` iterations, then the remaining iterations. Returns `None` if
    /// the loop is linear, has values that are not arrays, or if its trip count is not static.
    fn in_blocks(
        &self,
        b: &Builder<'_>,
        x: &[Atom],
        blocks: usize,
        block: usize,
    ) -> Option<Result<Vec<Atom>, Problem>> {
        let TripCount::Static(n) = self.spec.trip else { return None };
        let f = b.with_module(|m| m.get(self.body));
        let arrays = |types: &[Type]| types.iter().all(|ty| ty.as_array().is_some());
        let fits = arrays(&f.param_types()) && arrays(&f.result_types());
        let rest = n.checked_sub(blocks * block)?;
        (fits && f.linear_params.is_empty()).then(|| self.blocks(b, x, [blocks, block, rest]))
    }

    fn blocks(
        &self,
        b: &Builder<'_>,
        x: &[Atom],
        [blocks, block, rest]: [usize; 3],
    ) -> Result<Vec<Atom>, Problem> {
        // `first` is the index of the first row that the iterations in blocks read, and `last` the index of the first
        // row that the remaining iterations read.
        let (first, last) = match self.spec.direction {
            Direction::Up => (0, blocks * block),
            Direction::Down => (rest, 0),
        };
        let params: Vec<usize> = self.spec.params().collect();
        // Returns the loop's operands, of which `xs` operands (arrays with one row per iteration) are cut to the `n`
        // rows from `first` on.
        let some = |first: usize, n: usize| -> Vec<Atom> {
            let operand = |(p, x): (&usize, &Atom)| match self.spec.takes[*p] {
                Binding::Xs => rows(b, *x, first, n),
                Binding::Index | Binding::Const | Binding::Carry(_) => *x,
            };
            params.iter().zip(x).map(operand).collect()
        };
        let given = some(first, blocks * block);
        // Emit the rows of the remaining iterations before all iterations. Then the reverse pass adds the cotangents of
        // these rows after all iterations, in the same order as for the unsplit loop. The order matters if a value is
        // read both by rows and as a whole.
        let mut behind = if rest == 0 { Vec::new() } else { some(last, rest) };
        let y = match block {
            1 => self.part(b, number(first), blocks, &given, self.carries),
            _ => self.outer(b, &given, first, [blocks, block])?,
        };
        if rest == 0 {
            return Ok(y);
        }
        for (p, x) in params.iter().zip(&mut behind) {
            if let Binding::Carry(r) = self.spec.takes[*p] {
                *x = y[r];
            }
        }
        let ends = self.part(b, number(last), rest, &behind, None);
        let all = y.iter().zip(ends).enumerate().map(|(r, (before, end))| {
            let both = match self.spec.direction {
                Direction::Up => [*before, end],
                Direction::Down => [end, *before],
            };
            let carried = self.spec.takes.contains(&Binding::Carry(r));
            if carried { end } else { b.emit1(Concatenate { axis: 0 }, &both) }
        });
        Ok(all.collect())
    }

    /// Emits the outer loop; each of its iterations runs one block. The arguments are the operands for all iterations
    /// in blocks and the index of the first row.
    fn outer(
        &self,
        b: &Builder<'_>,
        x: &[Atom],
        first: usize,
        [blocks, block]: [usize; 2],
    ) -> Result<Vec<Atom>, Problem> {
        let params: Vec<usize> = self.spec.params().collect();
        let types = b.with_module(|m| m.function(self.body).param_types());
        let inner = |p: usize| match (self.spec.takes[p], types[p].as_array()) {
            (Binding::Xs, Some(ty)) => Type::array(ty.dtype, &ty.shape.with_leading(block)),
            _ => types[p].clone(),
        };
        let given: Vec<Type> = params.iter().map(|p| inner(*p)).collect();
        let body = b.with_module(|m| {
            let at = b.origin();
            let given = [&[Type::scalar(Dtype::I64)], &given[..]].concat();
            function(m, "block", [&given, &[]], |b, p, _| {
                b.at(at);
                let begun = calc(b, Scalar::Mul, p[0], number(block));
                let begun = calc(b, Scalar::Add, begun, number(first));
                self.part(b, begun, block, &p[1..], None)
            })
        })?;
        let slots = params.iter().map(|p| self.spec.takes[*p]);
        let takes = [Binding::Index].into_iter().chain(slots).collect();
        let spec = LoopSpec { trip: TripCount::Static(blocks), takes, ..self.spec.clone() };
        // Replaces the first `one` axes of `x` by axes of extents `both`: splits the axis of iterations into
        // blocks and iterations within a block, or joins these two.
        let split = |x: Atom, both: &[usize], one: usize| {
            let inner = b.shape_of(x).get(one..).unwrap_or_default().to_vec();
            b.emit1(Reshape { shape: [both, &inner[..]].concat().into() }, &[x])
        };
        let operand = |p: &usize, x: &Atom| match self.spec.takes[*p] {
            Binding::Xs => split(*x, &[blocks, block], 1),
            Binding::Index | Binding::Const | Binding::Carry(_) => *x,
        };
        let args: Vec<Atom> = params.iter().zip(x).map(|(p, x)| operand(p, x)).collect();
        let mut y = b.emit(Loop { body, spec, carries: self.carries }, &args).to_vec();
        for (r, y) in y.iter_mut().enumerate() {
            if !self.spec.takes.contains(&Binding::Carry(r)) {
                *y = split(*y, &[blocks * block], 2);
            }
        }
        Ok(y)
    }

    /// Emits a loop of `n` iterations of the body, given their operands; `first` is the iteration number of their
    /// first row.
    fn part(
        &self,
        b: &Builder<'_>,
        first: Atom,
        n: usize,
        x: &[Atom],
        carries: Option<NonZeroU32>,
    ) -> Vec<Atom> {
        let trip = TripCount::Static(n);
        let run = |body: FuncId, spec: LoopSpec, x: &[Atom]| {
            b.emit(Loop { body, spec, carries }, x).to_vec()
        };
        if !self.spec.takes.contains(&Binding::Index) {
            return run(self.body, LoopSpec { trip, ..self.spec.clone() }, x);
        }
        match b.with_module(|m| self.from(m, b)) {
            Ok(body) => {
                let takes = [&[Binding::Const], &self.spec.takes[..]].concat();
                let spec = LoopSpec { trip, takes, ..self.spec.clone() };
                run(body, spec, &[&[first], x].concat())
            }
            Err(problem) => {
                b.fail(problem);
                Vec::new()
            }
        }
    }

    /// Returns the body with an additional first parameter, an offset that is added to the iteration number.
    fn from(&self, m: &mut crate::Module, b: &Builder<'_>) -> Result<FuncId, Problem> {
        let (f, at) = (m.get(self.body), b.origin());
        let types = [&[Type::scalar(Dtype::I64)], &f.param_types()[..]].concat();
        function(m, &f.name, [&types, &[]], |b, p, _| {
            b.at(at);
            let arg = |(slot, x): (&Binding, &Atom)| match slot {
                Binding::Index => calc(b, Scalar::Add, p[0], *x),
                Binding::Const | Binding::Carry(_) | Binding::Xs => *x,
            };
            let args: Vec<Atom> = self.spec.takes.iter().zip(&p[1..]).map(arg).collect();
            b.inline(self.body, &args)
        })
    }
}

/// Emits the `n` rows of `x` from row `first` on, along axis 0.
pub(super) fn rows(b: &Builder<'_>, x: Atom, first: usize, n: usize) -> Atom {
    let shape = b.shape_of(x);
    let mut start = vec![0; shape.len()];
    let mut limit = shape.to_vec();
    (start[0], limit[0]) = (first, first + n);
    b.emit1(Slice { start, limit, strides: vec![1; shape.len()] }, &[x])
}
