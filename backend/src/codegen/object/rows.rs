//! The entry of an object whose number of rows is an argument.
//!
//! ```text
//! int f(size_t n, const double *x, .., double *y, .., void *workspace, tl_arena *tape)
//! ```
//!
//! The object has two programs, each with an [entry](super::entry) of its own: one computes a block of rows, one computes
//! a row. This entry calls them in a loop and moves the pointers to arrays with rows. Sums of a call lie in the workspace,
//! behind that of the programs, and are added to the results:
//!
//! ```text
//! sum = 0
//! for each block of rows:      sum += block(rows, shared)
//! for each row behind them:    sum += row(row, shared)
//! ```

use super::code_module::CodeModule;
use super::emitter::{Emitter, Returns, begin, for_elements, when};
use super::entry::{self, ARENA_NEEDED, ARENA_USED, Memory};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, BlockArg, InstBuilder, MemFlagsData, Signature, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use cranelift_module::{FuncId, Linkage, Module};
use tapeloom_ir::{ArrayType, Dtype, Line, Problem};

/// An argument or a result of the entry.
#[derive(Clone, Debug)]
pub(crate) struct RowArray {
    /// The type of the array; if there is a part for each row, the type of one row's part.
    pub(crate) ty: ArrayType,
    /// Whether the array has a part for each row.
    pub(crate) per_row: bool,
}

/// The arguments and results of an entry with rows. A result without rows is the sum over all rows.
pub(crate) struct RowArrays {
    pub(crate) block_rows: usize,
    pub(crate) arguments: Vec<RowArray>,
    pub(crate) results: Vec<RowArray>,
}

/// One of the two programs: its entry, the number of rows that it computes, and the memory that it needs.
#[derive(Clone, Copy)]
pub(super) struct Called {
    pub(super) entry: FuncId,
    pub(super) rows: usize,
    pub(super) memory: Memory,
}

impl RowArrays {
    /// Returns, for each result that is summed, the offset in bytes of the sum of one call. Offsets count from the end
    /// of the programs' workspace. Also returns the size in bytes of all sums.
    fn sums(&self) -> (Vec<usize>, usize) {
        let mut end = 0;
        let offsets = self.results.iter().map(|of| {
            let at = end;
            if !of.per_row {
                end += of.ty.bytes().next_multiple_of(size_of::<Line>());
            }
            at
        });
        (offsets.collect(), end)
    }
}

/// Emits the entry `name`, which calls the two programs. Returns the memory that its callers provide.
pub(super) fn define(
    module: &mut CodeModule<'_>,
    emitter: &mut Emitter,
    name: &str,
    arrays: &RowArrays,
    (block, row): (Called, Called),
) -> Result<Memory, Problem> {
    let failed = |e| Problem::internal(format!("the entry of @{name}: {e}"));
    let (offsets, bytes) = arrays.sums();
    let used = block.memory.workspace.max(row.memory.workspace);
    let behind = used.next_multiple_of(size_of::<Line>());
    let memory = Memory {
        workspace: if bytes > 0 { behind + bytes } else { used },
        private: 0,
        arena: block.memory.arena || row.memory.arena,
    };
    let mut signature = Signature::new(CallConv::triple_default(module.isa().triple()));
    let words = 1 + arrays.arguments.len() + arrays.results.len() + 2;
    signature.params.extend(std::iter::repeat_n(AbiParam::new(types::I64), words));
    signature.returns.push(AbiParam::new(types::I32));
    let id = module.declare_function(name, Linkage::Export, &signature).map_err(failed)?;
    emitter.function(module, id, |b, module, params| {
        let [n, given @ .., workspace, arena] = params else {
            return Err(Problem::internal("an entry without rows, workspace and arena"));
        };
        let (arguments, results) = given.split_at(arrays.arguments.len());
        if memory.workspace > 0 {
            entry::refuse(b, *workspace, size_of::<Line>());
        }
        let flags = MemFlagsData::trusted();
        let zero = b.ins().iconst(types::I64, 0);
        if memory.arena {
            entry::refuse(b, *arena, size_of::<u64>());
            b.ins().store(flags, zero, *arena, ARENA_USED);
        }
        for (of, result) in arrays.results.iter().zip(results).filter(|(of, _)| !of.per_row) {
            entry::clear(b, *result, of.ty.bytes(), of.ty.dtype.bytes());
        }
        let sums: Vec<Value> = offsets
            .iter()
            .map(|offset| b.ins().iadd_imm_s(*workspace, (behind + offset) as i64))
            .collect();
        let calls =
            Calls { arrays, arguments, results, sums: &sums, n: *n, memory: (*workspace, *arena) };
        let state = calls.emit(b, module, block, [zero, zero]);
        let [_, most] = calls.emit(b, module, row, state);
        if memory.arena {
            b.ins().store(flags, most, *arena, ARENA_USED);
            b.ins().store(flags, most, *arena, ARENA_NEEDED);
        }
        let done = b.ins().iconst(types::I32, 0);
        b.ins().return_(&[done]);
        Ok(())
    })?;
    Ok(memory)
}

/// The values that the calls of the two programs have in common.
struct Calls<'a> {
    arrays: &'a RowArrays,
    arguments: &'a [Value],
    results: &'a [Value],
    /// For each result that is summed, the address to which a call writes the sum of its rows.
    sums: &'a [Value],
    /// The total number of rows.
    n: Value,
    /// The pointers to the workspace and to the arena, the memory for tapes.
    memory: (Value, Value),
}

impl Calls<'_> {
    /// Emits a loop that calls a program as long as enough rows are left. `state` has two values: the number of rows
    /// that are done, and the largest number of bytes that a call took of the arena (memory for tapes). The function
    /// takes them before the loop and returns them after the loop.
    fn emit(
        &self,
        b: &mut FunctionBuilder<'_>,
        module: &mut CodeModule<'_>,
        called: Called,
        state: [Value; 2],
    ) -> [Value; 2] {
        let (again, body, end) = (b.create_block(), b.create_block(), b.create_block());
        let [done, most] = state.map(|_| b.append_block_param(again, types::I64));
        b.ins().jump(again, &state.map(BlockArg::Value));
        b.switch_to_block(again);
        let left = b.ins().isub(self.n, done);
        let enough =
            b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, left, called.rows as i64);
        b.ins().brif(enough, body, &[], end, &[]);
        begin(b, body);
        let at = |b: &mut FunctionBuilder<'_>, of: &RowArray, array: Value| {
            let offset = b.ins().imul_imm_s(done, of.ty.bytes() as i64);
            b.ins().iadd(array, offset)
        };
        let (workspace, arena) = self.memory;
        let mut words = Vec::new();
        for (of, array) in self.arrays.arguments.iter().zip(self.arguments) {
            words.push(if of.per_row { at(b, of, *array) } else { *array });
        }
        for ((of, array), sum) in self.arrays.results.iter().zip(self.results).zip(self.sums) {
            words.push(if of.per_row { at(b, of, *array) } else { *sum });
        }
        words.extend([workspace, arena]);
        let entry = module.declare_func_in_func(called.entry, b.func);
        let call = b.ins().call(entry, &words);
        let status = b.inst_results(call)[0];
        when(b, status, |b| {
            b.ins().return_(&[status]);
            Returns::Yes
        });
        let summed = self.arrays.results.iter().zip(self.results).zip(self.sums);
        for ((of, result), sum) in summed.filter(|((of, _), _)| !of.per_row) {
            add(b, &of.ty, *result, *sum);
        }
        let mut largest = most;
        if called.memory.arena {
            let used = b.ins().load(types::I64, MemFlagsData::trusted(), arena, ARENA_USED);
            largest = b.ins().umax(most, used);
        }
        let next = b.ins().iadd_imm_s(done, called.rows as i64);
        b.ins().jump(again, &[next, largest].map(BlockArg::Value));
        b.seal_block(again);
        begin(b, end);
        [done, most]
    }
}

/// Emits `total += sum` for all elements.
fn add(b: &mut FunctionBuilder<'_>, ty: &ArrayType, total: Value, sum: Value) {
    let flags = MemFlagsData::trusted();
    let (float, of) = match ty.dtype {
        Dtype::F64 => (true, types::F64),
        Dtype::F32 => (true, types::F32),
        Dtype::I64 | Dtype::U64 => (false, types::I64),
        Dtype::I32 | Dtype::U32 => (false, types::I32),
        // Callers of this module have refused sums of bools, so this case does not occur.
        Dtype::Bool => (false, types::I8),
    };
    for_elements(b, (ty.bytes(), ty.dtype.bytes()), |b, i| {
        let [total, sum] = [total, sum].map(|at| b.ins().iadd(at, i));
        let [x, y] = [total, sum].map(|at| b.ins().load(of, flags, at, 0));
        let z = if float { b.ins().fadd(x, y) } else { b.ins().iadd(x, y) };
        b.ins().store(flags, z, total, 0);
    });
}
