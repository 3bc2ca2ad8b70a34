//! Block-local buffers: whether one execution of a block reads only those elements of a buffer that it has written
//! itself.
//!
//! Such a buffer holds no value when the block begins. If no statement outside of the block names the buffer either,
//! its memory is free before and after the block, and in each iteration if the block is the body of a loop:
//!
//! ```text
//! serial i0 in 100 {
//!   for i1 in 8 { store b2[i1], .. }       b2 is local to the body of i0: all elements are written first
//!   for i2 in 8 { %0: f64 = load b2[i2] .. store b3[0], .. }
//!   %1: f64 = load b4[0]                   b4 is not: an iteration reads the element that the previous one stored
//!   store b4[0], ..
//! }
//! ```
//!
//! A read is *covered* if earlier writes of the same execution certainly reach all its elements. Loops that are around
//! the write and also around the read are at the same iteration in the two, so their indices are constants here; the
//! other loops around a write have ended before the read. So a write reaches a [lattice](super::definite_write) of
//! elements (an offset plus multiples of strides). A read is covered if an earlier write has the same lattice, or if
//! earlier writes together fill the buffer. Writes in a branch cover only reads in that branch, unless both branches
//! fill the buffer.

use super::definite_write::{Lattice, fills};
use crate::loop_ir::{
    Access, Address, Arg, BufferId, Carry, Effect, Extent, Flow, IndexId, Kernel, KernelId, Stmt,
};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use tapeloom_ir::fault::{Fault, planted};

/// The largest number of writes of a buffer that the analysis compares with each read.
const MOST_WRITES: usize = 64;

/// Returns, for each of the buffers, whether each execution of a block reads only those elements of the buffer that it
/// has written itself. `callees` says for each callee and each of its results whether the callee
/// [fills](super::definite_write::filled) the result: writes all elements before it reads any.
pub(crate) fn block_local(
    kernel: &Kernel,
    callees: &PrimaryMap<KernelId, Vec<bool>>,
    body: &[Stmt],
    buffers: &[BufferId],
) -> Vec<bool> {
    let search = Search::after(kernel, callees, body, buffers);
    buffers.iter().map(|buffer| search.writes[*buffer].is_some()).collect()
}

/// A loop or branch around a statement, within the block.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Around {
    Loop(IndexId, usize),
    /// A branch, which may not run, with its number in the examined block.
    Branch(usize),
}

/// A write that certainly happens whenever its innermost surrounding branch runs.
#[derive(Clone)]
enum Write {
    /// All elements of the buffer.
    Whole(Vec<Around>),
    Part {
        address: Address,
        reach: Vec<(usize, i64)>,
        around: Vec<Around>,
    },
}

impl Write {
    fn around(&self) -> &[Around] {
        match self {
            Write::Whole(around) | Write::Part { around, .. } => around,
        }
    }
}

struct Search<'a> {
    kernel: &'a Kernel,
    callees: &'a PrimaryMap<KernelId, Vec<bool>>,
    /// Per examined buffer: the writes so far; `None` for other buffers, and after a read that is not covered. Writes
    /// of earlier iterations of a loop that has not ended are not needed: the same statements write again.
    writes: SecondaryMap<BufferId, Option<Vec<Write>>>,
    /// The buffer of each write so far, in order.
    written: Vec<BufferId>,
    around: Vec<Around>,
    branches: usize,
}

impl<'a> Search<'a> {
    /// Walks over a block and returns the search at its end, with the writes to the given buffers.
    fn after(
        kernel: &'a Kernel,
        callees: &'a PrimaryMap<KernelId, Vec<bool>>,
        body: &[Stmt],
        buffers: &[BufferId],
    ) -> Search<'a> {
        let (mut writes, written, around) = (SecondaryMap::new(), Vec::new(), Vec::new());
        buffers.iter().for_each(|buffer| writes[*buffer] = Some(Vec::new()));
        let mut search = Search { kernel, callees, writes, written, around, branches: 0 };
        search.block(body);
        search
    }

    fn block(&mut self, body: &[Stmt]) {
        body.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let shape = stmt.shape();
        match shape.effect {
            Effect::Call(call) => {
                call.operands.iter().for_each(|view| self.read(&view.access(false)));
                for (n, view) in call.outputs.iter().enumerate() {
                    // If it is not proved that the callee fills the output, the callee may leave or read elements that
                    // were written before the call. So the output counts as read.
                    match self.callees.get(call.callee).and_then(|filled| filled.get(n)) {
                        Some(true) => self.write(&view.access(true)),
                        Some(false) | None => self.read(&view.access(true)),
                    }
                }
            }
            Effect::None
            | Effect::External(_)
            | Effect::Tape(_)
            | Effect::Limit(_)
            | Effect::Lap(_) => {
                if let Some(c) = shape.contract.filter(|c| c.accumulate) {
                    let [_, _, out] = c.accesses();
                    self.read(&out);
                }
                // `accesses` reports the reads of a statement before its writes, so a statement's own write covers none
                // of its reads.
                stmt.accesses(&mut |access| match access.write {
                    true => self.write(&access),
                    false => self.read(&access),
                });
            }
        }
        match (shape.flow, shape.blocks.as_slice()) {
            (Flow::Straight, _) | (Flow::For { extent: Extent::Constant(0), .. }, _) => {}
            (Flow::Nest, blocks) => blocks.iter().for_each(|body| self.block(body)),
            (Flow::For { .. } | Flow::While, blocks) => {
                // The body is the last block of a loop. Only a `while` has another block, its head, which runs before
                // the body.
                if let Some((body, heads)) = blocks.split_last() {
                    let around = match shape.flow {
                        Flow::For { index, extent: Extent::Constant(n), .. } => {
                            Around::Loop(index, n)
                        }
                        _ => self.branch(),
                    };
                    self.looped(around, shape.carries, heads, body);
                }
            }
            (Flow::If, branches) => {
                let from = self.written.len();
                let arounds: Vec<Around> = branches.iter().map(|_| self.branch()).collect();
                for (around, body) in arounds.iter().zip(branches) {
                    self.within(*around, body);
                }
                self.join(&arounds, from);
            }
        }
    }

    fn branch(&mut self) -> Around {
        self.branches += 1;
        Around::Branch(self.branches)
    }

    fn within(&mut self, around: Around, body: &[Stmt]) {
        self.around.push(around);
        self.block(body);
        self.around.pop();
    }

    /// Examines a loop. Its heads (the block that computes the condition of a `while`) run before each iteration and
    /// after the last one. The loop may exchange examined buffers for other buffers after each iteration.
    fn looped(&mut self, around: Around, carries: &[Carry], heads: &[&[Stmt]], body: &[Stmt]) {
        let exchanges = carries.iter().filter(|c| c.input.buffer != c.output.buffer);
        let exchanges: Vec<[BufferId; 2]> =
            exchanges.map(|c| [c.input.buffer, c.output.buffer]).collect();
        let examined = exchanges.iter().filter(|[input, _]| self.writes[*input].is_some());
        let outputs: Vec<BufferId> = examined.map(|[_, output]| *output).collect();
        let mut fills: SecondaryMap<BufferId, bool> = SecondaryMap::new();
        if !outputs.is_empty() {
            let iteration = Search::after(self.kernel, self.callees, body, &outputs);
            outputs.iter().for_each(|output| fills[*output] = iteration.is_filled(*output, None));
        }
        self.exchange(&exchanges, &fills);
        heads.iter().for_each(|head| self.block(head));
        self.within(around, body);
        self.exchange(&exchanges, &fills);
    }

    /// Removes the writes that do not survive the exchanges (input, output) of a loop. After each iteration, the input
    /// and the output of an exchange swap their memory. So the input stays filled only if each iteration fills the
    /// output (`fills`), and the output holds no value when an iteration begins.
    fn exchange(&mut self, exchanges: &[[BufferId; 2]], fills: &SecondaryMap<BufferId, bool>) {
        for [input, output] in exchanges {
            if self.writes[*input].is_some() {
                let filled = self.is_filled(*input, None) && fills[*output];
                let whole = filled.then(|| Write::Whole(self.around.clone()));
                self.writes[*input] = Some(whole.into_iter().collect());
            }
            if let Some(writes) = &mut self.writes[*output] {
                writes.clear();
            }
        }
    }

    /// Adds a write of each whole buffer that all `branches` fill. The branches belong to the statement that was
    /// examined last. The buffers that this statement wrote are in `written`, from position `from` on.
    fn join(&mut self, branches: &[Around], from: usize) {
        let mut written = self.written[from..].to_vec();
        written.sort_unstable();
        written.dedup();
        for buffer in written {
            let mut fills = |around: &Around| {
                self.around.push(*around);
                let filled = self.is_filled(buffer, Some(*around));
                self.around.pop();
                filled
            };
            let filled = match planted(Fault::BranchFills) {
                true => branches.iter().any(&mut fills),
                false => branches.iter().all(&mut fills),
            };
            if let Some(writes) = self.writes[buffer].as_mut().filter(|_| filled) {
                writes.push(Write::Whole(self.around.clone()));
            }
        }
    }

    fn elements(&self, buffer: BufferId) -> usize {
        self.kernel.buffers[buffer].ty.shape.elements()
    }

    fn write(&mut self, access: &Access<'_>) {
        let fixed = !matches!(access.address.dynamic, Some(Arg::Var(_)));
        if let Some(writes) = &mut self.writes[access.held.buffer]
            && access.guard.is_none()
            && fixed
            && writes.len() < MOST_WRITES
        {
            let (address, reach) = (access.address.clone(), access.reach.clone());
            writes.push(Write::Part { address, reach, around: self.around.clone() });
            self.written.push(access.held.buffer);
        }
    }

    fn read(&mut self, access: &Access<'_>) {
        let buffer = access.held.buffer;
        let Some(writes) = &self.writes[buffer] else { return };
        let covers = |write: &Write| {
            let shared = self.shared(write)?;
            match write {
                Write::Whole(_) => Some(()),
                Write::Part { address, reach, around } => {
                    let found = reached(address, reach, around, shared)?;
                    let wanted = reached(access.address, &access.reach, &self.around, shared)?;
                    (found == wanted).then_some(())
                }
            }
        };
        if writes.iter().any(|write| covers(write).is_some()) {
            return;
        }
        let filled = self.is_filled(buffer, None).then(|| Write::Whole(self.around.clone()));
        match (&mut self.writes[buffer], filled) {
            (Some(writes), Some(whole)) => writes.push(whole),
            (none, _) => *none = None,
        }
    }

    /// Returns the number of the outermost loops and branches that are around both the current statement and a write;
    /// `None` if the write may not have happened.
    fn shared(&self, write: &Write) -> Option<usize> {
        let around = write.around();
        let both = around.iter().zip(&self.around).take_while(|(a, b)| a == b).count();
        around[both..].iter().all(|a| matches!(a, Around::Loop(..))).then_some(both)
    }

    /// Returns whether the writes that certainly happened before the current statement fill the buffer; if `within` is
    /// given, only the writes inside this branch.
    fn is_filled(&self, buffer: BufferId, within: Option<Around>) -> bool {
        let (mut lattices, mut whole): (Vec<Lattice>, bool) = (Vec::new(), false);
        for write in self.writes[buffer].iter().flatten() {
            if within.is_some_and(|around| !write.around().contains(&around)) {
                continue;
            }
            let Some(shared) = self.shared(write) else { continue };
            match write {
                Write::Whole(_) => whole = true,
                Write::Part { address, reach, around } => {
                    let all = reached(address, reach, around, shared);
                    let all = all.filter(|all| all.fixed.is_empty() && all.dynamic.is_none());
                    lattices.extend(all.map(|all| all.lattice));
                }
            }
        }
        let elements = self.elements(buffer);
        whole || elements == 0 || !lattices.is_empty() && fills(lattices.iter(), elements as u64)
    }
}

/// The elements that an access reaches, given the values of the indices in `fixed` and of the scalar `dynamic`.
#[derive(PartialEq)]
struct Reached {
    lattice: Lattice,
    fixed: Vec<(IndexId, i64)>,
    dynamic: Option<Arg>,
}

/// Returns the elements that an access reaches while each of the first `shared` loops around it stays at one iteration
/// (`around` has loops and branches); `None` if the access reaches no element.
fn reached(
    address: &Address,
    reach: &[(usize, i64)],
    around: &[Around],
    shared: usize,
) -> Option<Reached> {
    let loops = around[shared..].iter().filter_map(|around| match around {
        Around::Loop(index, n) => Some((*index, *n)),
        Around::Branch(_) => None,
    });
    let ended: SmallVec<[(IndexId, usize); 4]> = loops.collect();
    let terms = ended.iter().map(|(index, n)| (*n, address.stride(*index)));
    let terms = terms.chain(reach.iter().copied()).map(|(n, stride)| (n as u64, stride));
    let lattice = Lattice::new(0, address.offset, terms.collect())?;
    let outside = |(index, _): &&(IndexId, i64)| !ended.iter().any(|(i, _)| i == index);
    let mut fixed: Vec<(IndexId, i64)> =
        address.terms.iter().filter(outside).filter(|t| t.1 != 0).copied().collect();
    fixed.sort_unstable();
    Some(Reached { lattice, fixed, dynamic: address.dynamic })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::loop_ir::parse;

    /// Checks that [`block_local`] returns `expected` for the buffer `b2` of 8 elements, in a loop with this body.
    #[track_caller]
    fn check(body: &str, expected: bool) {
        let text = format!(
            "program @p {{ workspace 128 buffer b0: f64[8] input 0 buffer b1: f64[8] output 0
               buffer b2: f64[8] workspace 0 buffer b3: f64[8] workspace 64 buffer b4: bool[] input 1
               serial i0 in 4 {{ {body} }} }}"
        );
        let program = parse(&text, &|_| None).unwrap();
        let body = program.entry.body[0].blocks()[0];
        let found = block_local(&program.entry, &PrimaryMap::new(), body, &[BufferId::from_u32(2)]);
        assert_eq!(found, [expected], "{program}");
    }

    const FILL: &str = "for i1 in 8 { store b2[i1], 1.0 }";
    const READ: &str = "for i2 in 8 { %0: f64 = load b2[i2] store b1[i2], %0 }";

    #[test]
    fn written_before_it_is_read() {
        check(&format!("{FILL} {READ}"), true);
        check(&format!("{READ} {FILL}"), false);
        check(&format!("nest {{ {FILL} }} nest {{ {READ} }}"), true);
        // The loop writes only half of the elements that `READ` reads, so the read is not covered.
        check(&format!("for i1 in 4 {{ store b2[i1*2], 1.0 }} {READ}"), false);
        check(
            "for i1 in 4 { store b2[i1*2], 1.0 }
             for i2 in 4 { %0: f64 = load b2[i2*2] store b1[i2], %0 }",
            true,
        );
        check(
            &format!(
                "for i1 in 4 {{ store b2[i1*2], 1.0 }} for i3 in 4 {{ store b2[i3*2 + 1], 1.0 }} {READ}"
            ),
            true,
        );
        // A read of the element that the same iteration has written is covered; a read of the element that the next
        // iteration writes is not.
        check("for i1 in 8 { store b2[i1], 1.0 %0: f64 = load b2[i1] store b1[i1], %0 }", true);
        check(
            "for i1 in 7 { store b2[i1], 1.0 %0: f64 = load b2[i1 + 1] store b1[i1], %0 }",
            false,
        );
        check("store b2[i0], 1.0 %0: f64 = load b2[i0] store b1[i0], %0", true);
        check("store b2[i0], 1.0 %0: f64 = load b2[0] store b1[i0], %0", false);
        // If a loop reads before it writes, the first iteration reads elements that only later statements write.
        check(&format!("serial i3 in 2 {{ {READ} {FILL} }}"), false);
        check(&format!("serial i3 in 2 {{ {FILL} {READ} }}"), true);
        check(&format!("{FILL} serial i3 in 2 {{ {READ} {FILL} }}").replace("i1", "i9"), true);
    }

    #[test]
    fn branches_cover_if_both_fill() {
        let other = FILL.replace("i1", "i4");
        let condition = "%9: bool = load b4[0]";
        check(&format!("{condition} if %9 {{ {FILL} }} else {{ {other} }} {READ}"), true);
        check(&format!("{condition} if %9 {{ {FILL} }} {READ}"), false);
        check(&format!("{condition} if %9 {{ {FILL} {READ} }}"), true);
        check(&format!("{condition} {FILL} if %9 {{ {READ} }} else {{ {other} }}"), true);
        check(
            "%9: bool = load b4[0] store b2[0], 1.0 if %9 %0: f64 = load b2[0] store b1[0], %0",
            false,
        );
    }

    #[test]
    fn exchanged_buffers() {
        let step = "for i3 in 8 { %0: f64 = load b2[i3] store b3[i3], %0 }";
        check(&format!("{FILL} serial i5 in 3 carry b2 = b3 {{ {step} }} {READ}"), true);
        check(&format!("serial i5 in 3 carry b2 = b3 {{ {step} }} {READ}"), false);
        let partly = step.replace("in 8", "in 7");
        check(&format!("{FILL} serial i5 in 3 carry b2 = b3 {{ {partly} }} {READ}"), false);
        // `b2` is the output of an exchange here: after the first exchange it no longer holds the elements that `FILL`
        // wrote, so the load in the next iteration is not covered.
        let reversed = step.replace("load b2", "load b0");
        let reads = "%5: f64 = load b2[0] store b1[0], %5";
        check(&format!("{FILL} serial i5 in 3 carry b3 = b2 {{ {reads} {reversed} }}"), false);
    }
}
