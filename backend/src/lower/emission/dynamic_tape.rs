//! Dynamic tapes: the residuals of a loop whose trip count is known only at run time.
//!
//! In the graph a tape is an array of two numbers, its handle ([`crate::loop_ir::handle`]), which is passed and stored
//! like any other array. Each loop that writes tapes has its own tape in the program. A record of this tape (the
//! residuals of one iteration) has a field for each result of the loop that is a tape, so the residuals of an iteration
//! are adjacent in memory. A loop that reads tapes finds the records by the handles. Handles that are results of the
//! same loop name one tape, and their fields are read from one record.
//!
//! ```text
//! loop{.. trip=runtime ..} -> tape<{f64[]}>, tape<{bool[]}>
//!
//! %1: i64 = length t0                           the first record
//! store b1[0], handle(t0, 0)   store b1[1], %1
//! store b2[0], handle(t0, 8)   store b2[1], %1
//! serial i0 in (%0) {
//!   %2: i64 = add %1, i0
//!   seek c0 to t0[%2]                           moves cursor c0 to the record of the iteration
//!   call k0(..) to (b3[0; 1], b4[0; 1])         b3: f64[] record c0 0,  b4: bool[] record c0 8
//! }
//! ```
//!
//! A function that returns no tape truncates the tapes that it or its callees have written to the length that these
//! tapes had at its start. So the residuals that an iteration of an outer loop saves for its own inner loops are freed
//! when the iteration ends.

use crate::loop_ir::{
    Arg, Kernel, KernelId, LoopLimit, LoopLimitId, Stmt, Tape, TapeId, TapeStmt, visit,
};
use crate::lower::graph::NodeId;
use cranelift_entity::{EntityRef, PrimaryMap};
use std::collections::BTreeSet;
use tapeloom_ir::{Dtype, Loc, OrderedMap, Type};

/// The tapes of a program under construction, and the loops whose iterations are counted against a limit.
pub(crate) struct Tapes {
    pub(crate) all: PrimaryMap<TapeId, Tape>,
    /// The loops whose iterations are counted against a limit; `None` if the compilation options request no limit.
    pub(crate) limited: Option<PrimaryMap<LoopLimitId, LoopLimit>>,
    /// The number of tapes of finished kernels. These tapes are the first ones in `all`.
    done: usize,
    /// For each finished kernel, the tapes on which records (residuals of one iteration) may remain when the kernel
    /// ends.
    left: PrimaryMap<KernelId, BTreeSet<TapeId>>,
    /// The tape of each loop of the current kernel, keyed by the node of the loop's first result. The list has an entry
    /// for each result that is a tape: the result's number, and the offset in bytes of its field in a record.
    pub(crate) known: OrderedMap<NodeId, (TapeId, Vec<(usize, usize)>)>,
}

impl Tapes {
    pub(crate) fn new(routines: &PrimaryMap<KernelId, Kernel>, limited: bool) -> Tapes {
        let left = routines.values().map(|_| BTreeSet::new()).collect();
        let limited = limited.then(PrimaryMap::new);
        Tapes { all: PrimaryMap::new(), limited, done: 0, left, known: OrderedMap::default() }
    }

    /// Notes that a loop at source line `loc` runs the kernel `body`. If the kernel leaves records (residuals of one
    /// iteration) on tapes, these then remain once for each iteration of this loop.
    pub(crate) fn repeat(&mut self, body: KernelId, loc: Loc) {
        for tape in &self.left[body] {
            self.all[*tape].within.push(loc);
        }
    }

    /// Finishes a kernel. If no result of the kernel is a tape, appends statements that truncate the tapes written by
    /// the kernel and its callees to the length that each tape had when the kernel began.
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
            let origins = kernel.origins();
            body.append(&mut kernel.body);
            body.extend(cuts);
            // Put all statements into one nest, so that the scalars that hold the lengths stay in scope.
            kernel.body.push(Stmt::Nest { body, origins });
            written.clear();
        }
        self.left.push(written);
    }
}
