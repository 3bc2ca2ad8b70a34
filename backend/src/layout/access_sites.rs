//! Lists every load and store of a program, each with the loops around it.
//!
//! Programs clamp indices that are not proved to be in range, and reverse loop counters by subtraction. The clamped
//! index and the reversed counter are scalars. [`ValueRanges`] follows such a scalar to its definition and returns an
//! affine form of loop counters, if the scalar depends on no value that is known only at run time.

use super::affine::Loop;
use crate::loop_ir::analysis::value_range::ValueRanges;
use crate::loop_ir::{
    Address, Arg, BufferId, CursorTarget, Effect, Extent, Flow, IndexId, Program, ScalarId, Stmt,
    TapeId, TapeStmt,
};
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::{Dtype, OrderedSet};

/// A *site*: one load or store statement, or one access of a statement that reads or writes an array as a whole.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The index of this load or store in `Sites::all`, which is in program order.
    pub(super) number: usize,
    pub(super) step: usize,
    /// The index of the statement block (body of a loop or branch) in which the access occurs.
    pub(super) block: usize,
    /// The number of loops that began or ended before this load or store, in program order. If two loads of one element
    /// have the same epoch, no loop lies between them and the second load finds the element in a register.
    pub(super) epoch: usize,
    /// The scalar that the load defines; `None` for a store.
    pub(super) value: Option<ScalarId>,
    pub(super) buffer: BufferId,
    pub(super) write: bool,
    /// The loops around the load or store, outer ones first.
    pub(super) loops: Vec<Loop>,
    /// The index of the accessed element in its buffer, if it is an affine form of the counters of `loops`.
    pub(super) address: Option<Affine<IndexId>>,
    /// Whether every iteration of the innermost loop executes the access (no branch or guard may skip it).
    pub(super) always: bool,
}

/// All load and store sites of the entry kernel of a program, in program order.
pub(super) struct Sites {
    pub(super) all: Vec<Site>,
    /// For each statement that moves a cursor to a record (one iteration's residuals) of a dynamic tape: the tape, and
    /// the number of loops around the statement.
    pub(super) records: Vec<(TapeId, usize)>,
    /// Buffers of double-buffered loop carries: each iteration exchanges the names of two buffers, so a name does not
    /// identify a buffer's contents.
    pub(super) turned: OrderedSet<BufferId>,
}

impl Sites {
    pub(super) fn of(program: &Program) -> Sites {
        let k = &program.entry;
        let mut walk = Walk {
            ranges: ValueRanges::of(k),
            loops: Vec::new(),
            known: true,
            always: true,
            step: 0,
            block: 0,
            blocks: 0,
            epoch: 0,
            sites: Sites { all: Vec::new(), records: Vec::new(), turned: OrderedSet::default() },
        };
        for (step, stmt) in k.body.iter().enumerate() {
            (walk.step, walk.epoch, walk.blocks) = (step, walk.epoch + 1, walk.blocks + 1);
            walk.block = walk.blocks;
            walk.stmt(stmt);
        }
        walk.sites
    }

    /// Returns the load and store sites that access `buffer`.
    pub(super) fn accessing(&self, buffer: BufferId) -> impl Iterator<Item = &Site> {
        self.all.iter().filter(move |s| s.buffer == buffer)
    }
}

struct Walk<'k> {
    ranges: ValueRanges<'k>,
    loops: Vec<Loop>,
    /// Whether the trip counts of all loops around the current statement are known affine forms.
    known: bool,
    /// Whether every iteration of the enclosing loops executes the current statement (no branch around it).
    always: bool,
    step: usize,
    block: usize,
    blocks: usize,
    epoch: usize,
    sites: Sites,
}

impl<'k> Walk<'k> {
    fn block(&mut self, body: &'k [Stmt]) {
        self.blocks += 1;
        let outer = std::mem::replace(&mut self.block, self.blocks);
        body.iter().for_each(|stmt| self.stmt(stmt));
        self.block = outer;
    }

    /// Visits the statements of `body`. If `always` is false, iterations of the enclosing loops may skip them.
    fn maybe(&mut self, body: &'k [Stmt], always: bool) {
        let outer = self.always;
        self.always &= always;
        self.block(body);
        self.always = outer;
    }

    fn stmt(&mut self, stmt: &'k Stmt) {
        let shape = stmt.shape();
        for carry in shape.carries.iter().filter(|c| c.input.buffer != c.output.buffer) {
            self.sites.turned.extend([carry.input.buffer, carry.output.buffer]);
        }
        let known = self.known;
        if shape.flow.is_loop() {
            shape.blocks.iter().for_each(|body| self.ranges.invalidate_all(body));
        }
        match shape.flow {
            // `Nest` only scopes names: its statements belong to the surrounding block.
            Flow::Nest => shape.blocks.iter().copied().flatten().for_each(|stmt| self.stmt(stmt)),
            Flow::For { index, extent, .. } => {
                self.ranges.count(index, extent);
                let extent = match extent {
                    Extent::Constant(n) => i64::try_from(n).ok().map(Affine::constant),
                    Extent::Scalar(n) => {
                        let sum = self.ranges.counters(n);
                        self.ranges.below.push((index, n));
                        sum
                    }
                };
                self.known &= extent.is_some();
                self.loops.push(Loop { index, extent: extent.unwrap_or_default() });
                self.epoch += 1;
                shape.blocks.iter().for_each(|body| self.block(body));
                self.epoch += 1;
                self.loops.pop();
                self.ranges.below.retain(|(i, _)| *i != index);
            }
            Flow::While => {
                self.known = false;
                self.epoch += 1;
                for body in &shape.blocks {
                    self.maybe(body, false);
                    self.epoch += 1;
                }
            }
            Flow::If => {
                let holds = shape.operands.first().and_then(|c| self.truth(*c));
                for (body, side) in shape.blocks.iter().zip([true, false]) {
                    if holds != Some(!side) {
                        self.maybe(body, holds.is_some());
                    }
                }
            }
            Flow::Straight => {
                if let Stmt::Let { value, expr } = stmt {
                    self.ranges.simplify(*value, expr);
                }
                if let Some((var, _)) = shape.assigns {
                    self.ranges.invalidate(var);
                }
                if let Effect::Tape(TapeStmt::MoveCursor { to: CursorTarget::Tape(tape), .. }) =
                    shape.effect
                {
                    self.sites.records.push((*tape, self.loops.len()));
                }
                self.accesses(stmt);
            }
        }
        self.known = known;
        shape.blocks.iter().for_each(|body| self.ranges.invalidate_all(body));
    }

    /// Returns the value of a condition that is a constant; `None` if it is known only at run time.
    fn truth(&self, condition: Arg) -> Option<bool> {
        let Arg::Literal(l) = self.ranges.simplified(condition) else { return None };
        (l.dtype == Dtype::Bool).then_some(l.bits != 0)
    }

    /// Returns the element index of an address as an affine form of loop counters; `None` if it depends on other
    /// values.
    fn address(&self, address: &Address) -> Option<Affine<IndexId>> {
        let start = match address.dynamic {
            Some(dynamic) => self.ranges.counters(dynamic)?,
            None => Affine::default(),
        };
        let all = start.checked_plus(&Affine::constant(address.offset), 1);
        address
            .terms
            .iter()
            .fold(all, |all, (index, stride)| all?.checked_plus(&Affine::atom(*index), *stride))
    }

    fn accesses(&mut self, stmt: &'k Stmt) {
        let shape = stmt.shape();
        let (single, value) = (shape.element.is_some(), shape.defines);
        let mut found = Vec::new();
        stmt.accesses(&mut |a| {
            let guard = a.guard.map_or(Some(true), |g| self.truth(g));
            if guard == Some(false) {
                return;
            }
            found.push(Site {
                number: self.sites.all.len() + found.len(),
                step: self.step,
                block: self.block,
                epoch: self.epoch,
                value,
                buffer: a.held.buffer,
                write: a.write,
                loops: self.loops.clone(),
                address: self.address(a.address).filter(|_| single && self.known),
                always: self.always && guard == Some(true),
            });
        });
        self.sites.all.extend(found);
    }
}
