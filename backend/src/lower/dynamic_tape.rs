//! Tapes: what the iterations of a loop keep, where only the run knows how many there are.
//!
//! To the graph a tape is an array of two numbers, its handle ([`crate::loop_ir::handle`]), which is
//! passed and stored like any other array. The loop that writes one has a tape of the program to itself,
//! of which a record has a field for each of the loop's results that are tapes: so an iteration writes all
//! that it keeps one behind the other. A loop that reads finds the records by the handle; handles that
//! are results of one loop are known to name one tape, and the fields are read as one record.
//!
//! ```text
//! loop{.. trip=runtime ..} -> tape<{f64[]}>, tape<{bool[]}>
//!
//! %1: i64 = length t0                           the first record
//! store b1[0], handle(t0, 0)   store b1[1], %1
//! store b2[0], handle(t0, 8)   store b2[1], %1
//! serial i0 in (%0) {
//!   %2: i64 = add %1, i0
//!   turn c0 to t0[%2]
//!   call k0(..) to (b3[0; 1], b4[0; 1])         b3: f64[] record c0 0,  b4: bool[] record c0 8
//! }
//! ```
//!
//! A function that gives no tape cuts those that it has written, itself or by whom it calls, to the
//! length that they had: what an iteration of an outer loop keeps for itself is gone when it ends.

use super::graph::NodeId;
use crate::loop_ir::{
    Arg, Kernel, KernelId, LoopLimit, LoopLimitId, Stmt, Tape, TapeId, TapeStmt, visit,
};
use cranelift_entity::{EntityRef, PrimaryMap};
use std::collections::BTreeSet;
use tapeloom_ir::{Dtype, Loc, OrderedMap, Type};

/// The tapes of a program while it is made, and the loops that it limits.
pub(crate) struct Tapes {
    pub(crate) all: PrimaryMap<TapeId, Tape>,
    /// The loops that are limited, if any are to be.
    pub(crate) limited: Option<PrimaryMap<LoopLimitId, LoopLimit>>,
    /// How many belong to kernels that are done.
    done: usize,
    /// The tapes on which a kernel may leave records.
    left: PrimaryMap<KernelId, BTreeSet<TapeId>>,
    /// Of the kernel at hand: the tapes of loops, by their first results, and where the fields of their
    /// results are.
    pub(crate) known: OrderedMap<NodeId, (TapeId, Vec<(usize, usize)>)>,
}

impl Tapes {
    pub(crate) fn new(routines: &PrimaryMap<KernelId, Kernel>, limited: bool) -> Tapes {
        let left = routines.values().map(|_| BTreeSet::new()).collect();
        let limited = limited.then(PrimaryMap::new);
        Tapes { all: PrimaryMap::new(), limited, done: 0, left, known: OrderedMap::default() }
    }

    /// A loop at that line runs a kernel: each of its iterations leaves what the kernel leaves.
    pub(crate) fn repeat(&mut self, body: KernelId, loc: Loc) {
        for tape in &self.left[body] {
            self.all[*tape].within.push(loc);
        }
    }

    /// A kernel is done: if nothing that it gives is a tape, it leaves tapes as they were.
    pub(crate) fn cut(&mut self, kernel: &mut Kernel, results: &[Type]) {
        let mut written: BTreeSet<TapeId> = (self.done..self.all.len()).map(TapeId::new).collect();
        visit(&kernel.body, &mut |s| {
            if let Stmt::Call(c) = s {
                written.extend(&self.left[c.callee]);
            }
        });
        self.done = self.all.len();
        self.known.clear();
        if !written.is_empty() && !results.iter().any(|ty| matches!(ty, Type::Tape(_))) {
            let mut body = Vec::new();
            let mut cuts = Vec::new();
            for tape in &written {
                let value = kernel.scalars.push(Dtype::I64);
                body.push(Stmt::Tape(TapeStmt::Length { value, tape: *tape }));
                cuts.push(Stmt::Tape(TapeStmt::Cut { tape: *tape, to: Arg::Scalar(value) }));
            }
            body.append(&mut kernel.body);
            body.extend(cuts);
            // One step, in which the lengths are known to the end.
            kernel.body.push(Stmt::Nest { body });
            written.clear();
        }
        self.left.push(written);
    }
}
