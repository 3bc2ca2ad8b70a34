//! Lowers the tapes of a loop to cursors and views. A record holds the residuals of one iteration, and a cursor points
//! to a record. Each iteration moves the cursors to its records; a view shows one field of the record at a cursor.
//!
//! See [`tapes`](super::dynamic_tape) for an example.

use super::emit::Convert;
use crate::loop_ir::{
    Address, Arg, Buffer, BufferVersion, Cursor, CursorId, CursorTarget, Expr, KernelId, Place,
    Stmt, Tape, TapeStmt, View, handle,
};
use crate::lower::graph::{NodeId, NodeKind};
use crate::lower::trees::loop_tree::RegionStep;
use tapeloom_ir::prim::LoopSpec;
use tapeloom_ir::{ArrayType, Code, Dtype, Kind, Literal, Problem};

/// The tape accesses of the iterations of a loop.
#[derive(Default)]
pub(super) struct TapeAccesses {
    /// The cursors (pointers to a tape record) that an iteration moves, each with its tape and the number of the record
    /// of iteration 0.
    cursors: Vec<(CursorId, CursorTarget, Arg)>,
    /// For each result that an iteration writes to a tape record: the number of the result, and the view of its field.
    pub(super) written: Vec<(usize, View)>,
    /// For each operand that an iteration reads from a tape record: the number of the operand, and the view of its
    /// field.
    pub(super) read: Vec<(usize, View)>,
}

impl TapeAccesses {
    pub(super) fn is_empty(&self) -> bool {
        self.cursors.is_empty()
    }
}

impl Convert<'_> {
    /// Emits the tape accesses of a loop that runs kernel `body`: creates the handles (the values that name a tape) of
    /// tapes that the loop writes, and opens the handles of tapes that it reads.
    pub(super) fn tape_accesses(
        &mut self,
        r: &RegionStep,
        (body, lead): (KernelId, usize),
        spec: &LoopSpec,
        out: &mut Vec<Stmt>,
    ) -> Result<TapeAccesses, Problem> {
        let (region, callee) = (&self.graph.regions[r.region], &self.memory.callees[body]);
        let mut tape_accesses = TapeAccesses::default();
        self.tapes.repeat(body, self.graph.nodes[r.first].origin.loc);
        if !region.written.is_empty() {
            let outputs = callee.outputs();
            let types: Vec<&ArrayType> = region.written.iter().map(|n| outputs[*n].1).collect();
            let (record, offsets) = layout(&types)?;
            let loc = self.graph.nodes[r.first].origin.loc;
            let tape = self.tapes.all.push(Tape { record, loc, within: Vec::new() });
            let first = self.kernel.scalars.push(Dtype::I64);
            out.push(Stmt::Tape(TapeStmt::Length { value: first, tape }));
            let cursor = self.kernel.cursors.push(Cursor::Writes);
            tape_accesses.cursors.push((cursor, CursorTarget::Tape(tape), Arg::Scalar(first)));
            let fields: Vec<(usize, usize)> =
                region.written.iter().copied().zip(offsets.iter().copied()).collect();
            for ((n, offset), ty) in fields.iter().zip(types) {
                tape_accesses.written.push((*n, self.field(cursor, *offset, ty)));
                let held = self.held(r.results[*n])?;
                let word = Arg::Literal(Literal::i64(handle(tape, *offset)));
                for (k, value) in [word, Arg::Scalar(first)].into_iter().enumerate() {
                    let address = Address::constant(k as i64);
                    out.push(Stmt::Store { held, address, value, guard: None });
                }
            }
            self.tapes.known.insert(r.first, (tape, fields));
        }
        // Operands that are fields of one record are read through one cursor. `open` has the cursors created so far,
        // each with the first result of the loop that wrote its tape.
        let mut open: Vec<(NodeId, CursorId)> = Vec::new();
        let inputs = callee.inputs();
        for slot in &region.read {
            let param = spec.params().nth(slot - lead);
            let ty = param.and_then(|p| inputs.get(p).copied().flatten());
            // A tape that the body does not read has no type among the body's inputs.
            let Some(ty) = ty else { continue };
            let span = &r.operands[*slot];
            let held = self.held(span.node)?;
            let address = |k| Address::constant(span.offset + k);
            let word = |k: i64| Expr::Load { held, address: address(k), guard: None };
            let from = self.from(span.node);
            let known = from.and_then(|(first, n)| {
                let (tape, fields) = self.tapes.known.get(&first)?;
                let (_, offset) = fields.iter().find(|(of, _)| *of == n)?;
                Some((first, *tape, *offset))
            });
            let before = known.and_then(|(node, ..)| open.iter().find(|(of, _)| *of == node));
            let offset = known.map_or(0, |(.., offset)| offset);
            let cursor = match before {
                Some((_, cursor)) => *cursor,
                None => {
                    let [start, tag] = [1, 0].map(|k| (k, self.kernel.scalars.push(Dtype::I64)));
                    out.push(Stmt::Let { value: start.1, expr: word(start.0) });
                    let to = match known {
                        Some((_, tape, _)) => Arg::Literal(Literal::i64(handle(tape, 0))),
                        None => {
                            out.push(Stmt::Let { value: tag.1, expr: word(tag.0) });
                            Arg::Scalar(tag.1)
                        }
                    };
                    let cursor = self.kernel.cursors.push(Cursor::Reads);
                    let start = Arg::Scalar(start.1);
                    tape_accesses.cursors.push((cursor, CursorTarget::Handle(to), start));
                    open.extend(known.map(|(node, ..)| (node, cursor)));
                    cursor
                }
            };
            tape_accesses.read.push((*slot, self.field(cursor, offset, ty)));
        }
        Ok(tape_accesses)
    }

    /// Emits statements that move the cursors (pointers to tape records) to the records of iteration `number`.
    pub(super) fn move_cursors(
        &mut self,
        tape_accesses: &TapeAccesses,
        number: Arg,
        out: &mut Vec<Stmt>,
    ) {
        for (cursor, to, first) in &tape_accesses.cursors {
            let index = self.integer(Code::Add, *first, number, out);
            out.push(Stmt::Tape(TapeStmt::MoveCursor { cursor: *cursor, to: *to, index }));
        }
    }

    /// Returns a view of a whole field of the tape record to which a cursor points; `offset` is the offset of the field
    /// in bytes.
    fn field(&mut self, cursor: CursorId, offset: usize, ty: &ArrayType) -> View {
        let place = Place::Record { cursor, offset };
        let buffer = self.kernel.buffers.push(Buffer::new(ty.clone(), place));
        View::whole(BufferVersion::first(buffer), ty.shape.elements())
    }

    /// If a node is a result of a region (a call, branch or loop), returns the node of the region's first result, and
    /// the result's number.
    fn from(&self, node: NodeId) -> Option<(NodeId, usize)> {
        let of = &self.graph.nodes[node];
        let NodeKind::Result { n, .. } = of.kind else { return None };
        Some((of.first_result().unwrap_or(node), n))
    }
}

/// Returns the size in bytes of a tape record with fields of these types, and the offset in bytes of each field. Fields
/// are sorted by decreasing element size, so that there is no padding between them.
fn layout(types: &[&ArrayType]) -> Result<(usize, Vec<usize>), Problem> {
    let mut order: Vec<usize> = (0..types.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(types[*i].dtype.bytes()));
    let (mut offsets, mut end) = (vec![0; types.len()], 0usize);
    for i in order {
        offsets[i] = end;
        end = end.saturating_add(types[i].bytes());
    }
    match end.checked_next_multiple_of(8).filter(|n| *n <= MOST_RECORD_BYTES) {
        Some(record) => Ok((record, offsets)),
        None => Err(Problem::new(
            Kind::TooLarge,
            format!(
                "an iteration saves {end} bytes for the reverse pass, and at most {MOST_RECORD_BYTES} are possible"
            ),
            "put `checkpoint` around the body of the loop",
        )),
    }
}

/// The largest size of a tape record in bytes: a handle, which names a tape and a field, has 32 bits for the offset of
/// the field.
const MOST_RECORD_BYTES: usize = i32::MAX as usize & !7;
