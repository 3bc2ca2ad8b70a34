//! The functions of the runtime that an object contains if it needs them: growth of tapes, and pieces of concurrent
//! loops.

use super::code_module::CodeModule;
use super::emitter::{Emitter, Returns, begin, when};
use super::entry::{ARENA_BYTES, ARENA_MEMORY, ARENA_NEEDED, ARENA_USED};
use crate::codegen::clif::piece_signature;
use crate::runtime::abi::{self, State};
use crate::runtime::tape_memory::NO_ROOM;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, types};
use cranelift_module::FuncId;
use std::mem::offset_of;
use tapeloom_ir::Problem;

const CAPACITY: i32 = offset_of!(State, capacity) as i32;
const CHUNKS: i32 = offset_of!(State, chunks) as i32;
const RECORD: i32 = offset_of!(State, record) as i32;

/// Emits `grow(context, tape, index)`: gives a tape chunks (blocks of records) of the caller's arena, up to the chunk
/// that holds record `index`. Returns a status: 0, or that the arena is full.
///
/// The sizes of chunks are those of [`tape_chunks`](crate::loop_ir::tape_chunks).
pub(super) fn grow(
    module: &mut CodeModule<'_>,
    emitter: &mut Emitter,
    id: FuncId,
) -> Result<(), Problem> {
    emitter.function(module, id, |b, _, params| {
        let [context, tape, index] = *params else {
            return Err(Problem::internal("the growth of a tape has three arguments"));
        };
        let flags = MemFlagsData::trusted();
        let states = b.ins().load(types::I64, flags, context, abi::TAPES as i32);
        let arena = b.ins().load(types::I64, flags, context, abi::RECORDS as i32);
        let state = b.ins().imul_imm_s(tape, size_of::<State>() as i64);
        let state = b.ins().iadd(states, state);
        let record = b.ins().load(types::I64, flags, state, RECORD);
        let chunks = b.ins().load(types::I64, flags, state, CHUNKS);
        let again = b.create_block();
        b.ins().jump(again, &[]);
        b.switch_to_block(again);
        let capacity = b.ins().load(types::I64, flags, state, CAPACITY);
        let enough = b.ins().icmp(IntCC::UnsignedLessThan, index, capacity);
        when(b, enough, |b| {
            let done = b.ins().iconst(types::I32, 0);
            b.ins().return_(&[done]);
            Returns::Yes
        });
        // The next chunk begins at record `capacity`, the first record without memory. If bit s + 2 is the highest bit
        // of n = `capacity + 4`, the number of this chunk is `4 s + (n >> s) - 4`, and the chunk has 2^s records.
        let n = b.ins().iadd_imm_s(capacity, 4);
        let zeros = b.ins().clz(n);
        let most = b.ins().iconst(types::I64, 61);
        let s = b.ins().isub(most, zeros);
        let top = b.ins().ushr(n, s);
        let four = b.ins().ishl_imm_u(s, 2);
        let number = b.ins().iadd(four, top);
        let one = b.ins().iconst(types::I64, 1);
        let records = b.ins().ishl(one, s);
        let bytes = b.ins().imul(records, record);
        let high = b.ins().umulhi(records, record);
        let used = b.ins().load(types::I64, flags, arena, ARENA_USED);
        let all = b.ins().load(types::I64, flags, arena, ARENA_BYTES);
        let left = b.ins().isub(all, used);
        let fits = b.ins().icmp(IntCC::UnsignedLessThanOrEqual, bytes, left);
        let small = b.ins().icmp_imm_u(IntCC::Equal, high, 0);
        let fits = b.ins().band(fits, small);
        let full = b.ins().bxor_imm_u(fits, 1);
        let end = b.ins().iadd(used, bytes);
        when(b, full, |b| {
            b.ins().store(flags, end, arena, ARENA_NEEDED);
            let status = b.ins().iconst(types::I32, i64::from(NO_ROOM));
            b.ins().return_(&[status]);
            Returns::Yes
        });
        let memory = b.ins().load(types::I64, flags, arena, ARENA_MEMORY);
        let chunk = b.ins().iadd(memory, used);
        let at = b.ins().ishl_imm_u(number, 3);
        let at = b.ins().iadd(chunks, at);
        // `at` was computed without the `- 4` of the chunk's number, so the chunk's pointer is 4 * 8 = 32 bytes before
        // `at`.
        b.ins().store(flags, chunk, at, -32);
        b.ins().store(flags, end, arena, ARENA_USED);
        let capacity = b.ins().iadd(capacity, records);
        b.ins().store(flags, capacity, state, CAPACITY);
        b.ins().jump(again, &[]);
        b.seal_block(again);
        Ok(())
    })
}

/// Emits `run_pieces(context, piece, captured, pieces)`: runs the pieces of a concurrent loop one after the other. Returns
/// the status of the first one that fails, or 0.
pub(super) fn run_pieces(
    module: &mut CodeModule<'_>,
    emitter: &mut Emitter,
    id: FuncId,
) -> Result<(), Problem> {
    let signature = piece_signature(module);
    emitter.function(module, id, |b, _, params| {
        let [context, piece, captured, pieces] = *params else {
            return Err(Problem::internal("pieces have four arguments"));
        };
        let signature = b.import_signature(signature);
        let private =
            b.ins().load(types::I64, MemFlagsData::trusted(), context, abi::THREADS as i32);
        let again = b.create_block();
        let i = b.append_block_param(again, types::I64);
        let zero = b.ins().iconst(types::I64, 0);
        b.ins().jump(again, &[BlockArg::Value(zero)]);
        b.switch_to_block(again);
        let done = b.ins().icmp(IntCC::SignedGreaterThanOrEqual, i, pieces);
        when(b, done, |b| {
            let done = b.ins().iconst(types::I32, 0);
            b.ins().return_(&[done]);
            Returns::Yes
        });
        let call = b.ins().call_indirect(signature, piece, &[captured, i, private]);
        let status = b.inst_results(call)[0];
        let (bad, good) = (b.create_block(), b.create_block());
        b.ins().brif(status, bad, &[], good, &[]);
        begin(b, bad);
        b.ins().return_(&[status]);
        begin(b, good);
        let next = b.ins().iadd_imm_s(i, 1);
        b.ins().jump(again, &[BlockArg::Value(next)]);
        b.seal_block(again);
        Ok(())
    })
}
