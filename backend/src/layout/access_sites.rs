//! Where a program touches memory, and how often: every load and store, with the loops around it.

use super::affine::{Loop, Scalars};
use crate::loop_ir::{
    BufferId, CursorTarget, Effect, Flow, IndexId, Program, ScalarId, Stmt, TapeId, TapeStmt,
};
use tapeloom_ir::OrderedSet;
use tapeloom_ir::analysis::affine::Affine;

/// A load, a store, or what a statement as a whole reads or writes.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Its place among all.
    pub(super) number: usize,
    pub(super) step: usize,
    /// Which block it stands in.
    pub(super) block: usize,
    /// How many loops have begun and ended before: what is read twice with the same number is in registers.
    pub(super) epoch: usize,
    /// What a load gives.
    pub(super) value: Option<ScalarId>,
    pub(super) buffer: BufferId,
    pub(super) write: bool,
    /// The loops around it, outer ones first.
    pub(super) loops: Vec<Loop>,
    /// Which element, if that is a sum of their counters.
    pub(super) address: Option<Affine<IndexId>>,
    /// Whether it happens once in every iteration of the innermost loop.
    pub(super) always: bool,
}

/// All sites of the entry of a program, in its order.
pub(super) struct Sites {
    pub(super) all: Vec<Site>,
    /// Of each store of a record, the tape and how many loops are around it.
    pub(super) records: Vec<(TapeId, usize)>,
    /// Buffers that take turns with others: what they hold is not said by their names.
    pub(super) turned: OrderedSet<BufferId>,
}

impl Sites {
    pub(super) fn of(program: &Program) -> Sites {
        let k = &program.entry;
        let mut walk = Walk {
            scalars: Scalars::new(k),
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

    /// Those of a buffer.
    pub(super) fn touching(&self, buffer: BufferId) -> impl Iterator<Item = &Site> {
        self.all.iter().filter(move |s| s.buffer == buffer)
    }
}

struct Walk<'k> {
    scalars: Scalars<'k>,
    loops: Vec<Loop>,
    /// Whether the number of iterations of all loops around is known,
    known: bool,
    /// and what is here happens in each of them.
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

    /// What may not happen.
    fn maybe(&mut self, body: &'k [Stmt], always: bool) {
        let outer = self.always;
        self.always &= always;
        self.block(body);
        self.always = outer;
    }

    fn stmt(&mut self, stmt: &'k Stmt) {
        let shape = stmt.shape();
        for carry in shape.carries.iter().filter(|c| c.now.buffer != c.next.buffer) {
            self.sites.turned.extend([carry.now.buffer, carry.next.buffer]);
        }
        let known = self.known;
        match shape.flow {
            // A block of its own is one for names only.
            Flow::Nest => shape.blocks.into_iter().flatten().for_each(|stmt| self.stmt(stmt)),
            Flow::For { index, extent, .. } => {
                let extent = self.scalars.extent(&extent);
                self.known &= extent.is_some();
                self.loops.push(Loop { index, extent: extent.unwrap_or_default() });
                self.epoch += 1;
                shape.blocks.into_iter().for_each(|body| self.block(body));
                self.epoch += 1;
                self.loops.pop();
            }
            Flow::While => {
                self.known = false;
                self.epoch += 1;
                for body in shape.blocks {
                    self.maybe(body, false);
                    self.epoch += 1;
                }
            }
            Flow::If => {
                let holds = shape.operands.first().and_then(|c| self.scalars.truth(*c));
                for (body, side) in shape.blocks.into_iter().zip([true, false]) {
                    if holds != Some(!side) {
                        self.maybe(body, holds.is_some());
                    }
                }
            }
            Flow::Straight => {
                if let Stmt::Let { value, expr } = stmt {
                    self.scalars.define(*value, expr, &self.loops);
                }
                if let Effect::Tape(TapeStmt::Turn { to: CursorTarget::Tape(tape), .. }) =
                    shape.effect
                {
                    self.sites.records.push((*tape, self.loops.len()));
                }
                self.accesses(stmt);
            }
        }
        self.known = known;
    }

    fn accesses(&mut self, stmt: &'k Stmt) {
        let shape = stmt.shape();
        let (single, value) = (shape.element.is_some(), shape.defines);
        let mut found = Vec::new();
        stmt.accesses(&mut |a| {
            let guard = a.guard.map_or(Some(true), |g| self.scalars.truth(g));
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
                address: self.scalars.address(a.address).filter(|_| single && self.known),
                always: self.always && guard == Some(true),
            });
        });
        self.sites.all.extend(found);
    }
}
