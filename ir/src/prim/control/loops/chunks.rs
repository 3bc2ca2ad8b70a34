//! Batches in chunks: a loop, each iteration of which runs a function on some members of a batch.
//!
//! A loop over a batch runs until its last member ends ([`super::masked_batch`]), so every member waits for the slowest
//! one of the batch. In chunks, a member waits for the slowest one of its chunk alone. The iterations over chunks are
//! independent, so several threads may run them.
//!
//! ```text
//! loop{body=@f of 10000 members, trip=while}     loop{body=@chunk, trip=50, takes=[xs..]}
//!                                                @chunk: loop{body=@f of 200 members, trip=while}
//! ```
//!
//! If the chunks have more members than the batch, the last member is repeated.

use super::strip_mine::rows;
use super::{Binding, Direction, Loop, LoopSpec, TripCount};
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, Equation, FuncId, Function};
use crate::lang::module::Module;
use crate::lang::query::BatchOf;
use crate::lang::types::{Dtype, Type};
use crate::map::OrderedSet;
use crate::prim::{Batched, Broadcast, Concatenate, Dropped, Op, Reduce, Reducer, Reshape};

/// The division of a batch into chunks of equal size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunks {
    /// The number of members of the batch.
    pub size: usize,
    /// The number of members of each chunk, at least one.
    pub each: usize,
}

impl Chunks {
    /// Returns the number of chunks.
    pub fn count(self) -> usize {
        self.size.div_ceil(self.each)
    }

    /// Emits a loop that runs `of`, a function over a batch of `each` members, on all chunks. `batched` says which of the
    /// arguments have the batch axis; the others are the same for all chunks.
    pub fn emit(self, b: &Builder<'_>, of: &BatchOf, x: &[Atom], batched: &[bool]) -> Batched {
        let count = self.count();
        let operand = |(x, on): (&Atom, &bool)| if *on { self.divided(b, *x) } else { *x };
        let args: Vec<Atom> = x.iter().zip(batched).map(operand).collect();
        let slot = |on: &bool| if *on { Binding::Xs } else { Binding::Const };
        let takes = batched.iter().map(slot).collect();
        let spec = LoopSpec { trip: TripCount::Static(count), direction: Direction::Up, takes };
        let y = b.emit(Loop::new(of.function, spec), &args);
        let result = |(y, on): (&Atom, &bool)| match on {
            true => self.joined(b, *y),
            // All chunks have the same value: take that of the first one.
            false => {
                let one = rows(b, *y, 0, 1);
                let shape = b.shape_of(one)[1..].into();
                b.emit1(Reshape { shape }, &[one])
            }
        };
        let y = y.iter().zip(&of.batched_out).map(result).collect();
        Batched { y, batched: of.batched_out.iter().copied().collect() }
    }

    /// Splits the batch axis of `x` into an axis of chunks and an axis of the members of a chunk.
    fn divided(self, b: &Builder<'_>, x: Atom) -> Atom {
        let inner = b.shape_of(x).get(1..).unwrap_or_default().to_vec();
        let more = self.count() * self.each - self.size;
        let mut all = x;
        if more > 0 {
            let last = rows(b, x, self.size - 1, 1);
            // No derivative belongs to the repeated member, whose results are dropped.
            let last = b.emit1(Dropped, &[last]);
            let last = b.emit1(Reshape { shape: inner.clone().into() }, &[last]);
            let dims = (1..=inner.len()).collect();
            let shape = [&[more], &inner[..]].concat().into();
            let repeated = b.emit1(Broadcast { shape, dims }, &[last]);
            all = b.emit1(Concatenate { axis: 0 }, &[x, repeated]);
        }
        let shape = [&[self.count(), self.each], &inner[..]].concat().into();
        b.emit1(Reshape { shape }, &[all])
    }

    /// Joins the axis of chunks and the axis of their members, and drops repeated members.
    fn joined(self, b: &Builder<'_>, y: Atom) -> Atom {
        let inner = b.shape_of(y).get(2..).unwrap_or_default().to_vec();
        let all = self.count() * self.each;
        let y = b.emit1(Reshape { shape: [&[all], &inner[..]].concat().into() }, &[y]);
        let first = if planted(Fault::RepeatedMembers) { all - self.size } else { 0 };
        if all == self.size { y } else { rows(b, y, first, self.size) }
    }
}

impl Op {
    /// Returns whether the primitive is a loop whose trip count is known only at run time.
    pub fn is_dynamic_loop(&self) -> bool {
        let Op::Loop(of) = self else { return false };
        match of.spec.trip {
            TripCount::Runtime | TripCount::While { .. } => true,
            TripCount::Static(_) => false,
        }
    }
}

/// Returns the bodies of all loops that running `f` runs, at any depth, and whose trip counts are known only at run time.
pub fn bodies_of_dynamic_loops(module: &Module, f: FuncId) -> Vec<FuncId> {
    let mut bodies = Vec::new();
    each_equation(module, f, &mut |_, e| {
        if let Op::Loop(of) = &e.op
            && e.op.is_dynamic_loop()
        {
            bodies.push(of.body);
        }
    });
    bodies
}

/// Returns whether `f`, a function over a batch of `size` members, runs a loop that runs as long as any member needs an
/// iteration, as the batching rule of loops makes it.
pub fn waits_for_members(module: &Module, f: FuncId, size: usize) -> bool {
    let of_all = |dtype| Type::array(dtype, &[size]);
    let mut waits = false;
    each_equation(module, f, &mut |f, e| {
        let Op::Loop(of) = &e.op else { return };
        waits |= match &of.spec.trip {
            TripCount::Static(_) => false,
            TripCount::Runtime => {
                let most = Op::from(Reduce { reducer: Reducer::Max, axes: vec![0] });
                let count = e.operands[0];
                let gives = |e: &&Equation| e.outputs.iter().any(|o| Atom::Value(*o) == count);
                let of_members = |e: &Equation| f.type_of(e.operands[0]) == of_all(Dtype::I64);
                f.equations.iter().find(gives).is_some_and(|e| e.op == most && of_members(e))
            }
            TripCount::While { reads, .. } => match reads[..] {
                [mask] => module.function(of.body).param_types()[mask] == of_all(Dtype::Bool),
                _ => false,
            },
        };
    });
    waits
}

/// Calls `each` with all equations that running `f` runs, at any depth, and their functions.
fn each_equation(module: &Module, f: FuncId, each: &mut dyn FnMut(&Function, &Equation)) {
    let mut met = OrderedSet::default();
    let mut left = vec![f];
    while let Some(f) = left.pop() {
        if !met.insert(f) {
            continue;
        }
        let f = module.function(f);
        for e in &f.equations {
            each(f, e);
            left.extend(e.op.regions().iter().filter(|r| r.role.runs()).map(|r| r.function));
        }
    }
}
