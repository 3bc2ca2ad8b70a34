//! The entry of an object: the function that callers see. It builds the context and the call record on its stack.
//!
//! ```text
//! int f(const double *x, .., double *y, .., void *workspace, tl_arena *tape)
//! ```
//!
//! Captured tensors are read-only data of the object. Results that the program does not fill are cleared first. The states
//! of dynamic tapes lie on the stack; their records lie in the caller's arena, from its beginning on.

use super::code_module::CodeModule;
use super::emitter::{Emitter, Returns, bits, for_elements, when};
use crate::codegen::clif::CodeReport;
use crate::loop_ir::{self, Program};
use crate::runtime::abi::{self, Context, State};
use crate::runtime::tape_memory;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module};
use std::mem::offset_of;
use tapeloom_ir::{Line, Problem, Tensor};

// The offsets in bytes of the fields of a `tl_arena`: the pointer to the caller's memory, its size, the size that the
// tapes of the last call took, and the size that a call needs at least.
pub(super) const ARENA_MEMORY: i32 = 0;
pub(super) const ARENA_BYTES: i32 = 8;
pub(super) const ARENA_USED: i32 = 16;
pub(super) const ARENA_NEEDED: i32 = 24;

/// The status of a call without memory: the workspace or the arena (memory for tapes) is null or not aligned.
pub(crate) const NO_MEMORY: i32 = 4;

/// The status of a call that failed by a bug of the compiler, such as a missing record of a tape.
pub(super) const INTERNAL: i32 = tape_memory::NO_RECORD;

/// The memory that the caller of an object's entry provides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Memory {
    /// The size of the workspace in bytes, a multiple of a cache line.
    pub(crate) workspace: usize,
    /// The offset in bytes, in the workspace, of the private memory of pieces (iterations of concurrent loops).
    pub(super) private: usize,
    /// Whether the program has dynamic tapes, whose records are stored in the caller's arena.
    pub(crate) arena: bool,
}

impl Memory {
    /// Returns the memory that calls of a program need.
    pub(super) fn of(program: &Program, report: &CodeReport) -> Memory {
        let line = size_of::<Line>();
        let private = report.workspace_bytes.next_multiple_of(line);
        let workspace = match report.private_bytes {
            0 => report.workspace_bytes,
            bytes => private + bytes.next_multiple_of(line),
        };
        Memory { workspace, private, arena: !program.tapes.is_empty() }
    }
}

/// Emits the entry `name`, which runs the function `kernel`. The last arguments of the program are the data `captured`.
pub(super) fn define(
    module: &mut CodeModule<'_>,
    emitter: &mut Emitter,
    program: &Program,
    (kernel, name, linkage): (FuncId, &str, Linkage),
    captured: &[DataId],
    memory: Memory,
) -> Result<FuncId, Problem> {
    let failed = |e| Problem::internal(format!("the entry of @{name}: {e}"));
    let (inputs, results) = (program.entry.inputs().len(), program.entry.outputs());
    let arguments = inputs.saturating_sub(captured.len());
    let mut signature = Signature::new(CallConv::triple_default(module.isa().triple()));
    let pointers = arguments + results.len() + 2;
    signature.params.extend(std::iter::repeat_n(AbiParam::new(types::I64), pointers));
    signature.returns.push(AbiParam::new(types::I32));
    let id = module.declare_function(name, linkage, &signature).map_err(failed)?;
    let filled = loop_ir::filled(program);
    let records = tape_memory::sizes(program);
    emitter.function(module, id, |b, module, params| {
        let (given, rest) = params.split_at(arguments);
        let (outputs, rest) = rest.split_at(results.len());
        let [workspace, arena] = *rest else {
            return Err(Problem::internal("an entry without workspace and arena"));
        };
        if memory.workspace > 0 {
            refuse(b, workspace, size_of::<Line>());
        }
        if memory.arena {
            refuse(b, arena, size_of::<u64>());
        }
        for (((_, ty), filled), output) in results.iter().zip(&filled).zip(outputs) {
            if !filled {
                clear(b, *output, ty.bytes(), ty.dtype.bytes());
            }
        }
        let context = context(b, workspace, memory);
        if memory.arena {
            tapes(b, context, arena, &records);
        }
        let mut words = vec![context, workspace];
        words.extend(given);
        for id in captured {
            let data = module.declare_data_in_func(*id, b.func);
            words.push(b.ins().symbol_value(types::I64, data));
        }
        words.extend(outputs);
        let record = stack(b, words.len() * abi::WORD);
        for (i, word) in words.iter().enumerate() {
            b.ins().store(MemFlagsData::trusted(), *word, record, (i * abi::WORD) as i32);
        }
        let kernel = module.declare_func_in_func(kernel, b.func);
        let call = b.ins().call(kernel, &[record]);
        let status = b.inst_results(call)[0];
        if memory.arena {
            let succeeded = b.ins().icmp_imm_u(IntCC::Equal, status, 0);
            when(b, succeeded, |b| {
                let flags = MemFlagsData::trusted();
                let used = b.ins().load(types::I64, flags, arena, ARENA_USED);
                b.ins().store(flags, used, arena, ARENA_NEEDED);
                Returns::No
            });
        }
        b.ins().return_(&[status]);
        Ok(())
    })?;
    Ok(id)
}

/// The captured tensors as data of an object. If tensors of several programs have the same bits, they are stored once.
#[derive(Default)]
pub(super) struct Constants {
    stored: Vec<(Tensor, DataId)>,
}

impl Constants {
    /// Returns the read-only data with the bits of each tensor; adds data to the object for bits that it does not have
    /// yet.
    pub(super) fn of(
        &mut self,
        module: &mut CodeModule<'_>,
        captured: &[Tensor],
    ) -> Result<Vec<DataId>, Problem> {
        captured.iter().map(|x| self.one(module, x)).collect()
    }

    fn one(&mut self, module: &mut CodeModule<'_>, x: &Tensor) -> Result<DataId, Problem> {
        let same = |y: &Tensor| y.ty() == x.ty() && y.bytes() == x.bytes();
        if let Some((_, id)) = self.stored.iter().find(|(y, _)| same(y)) {
            return Ok(*id);
        }
        let id = constant(module, x)?;
        self.stored.push((x.clone(), id));
        Ok(id)
    }
}

/// Defines a tensor as read-only data.
fn constant(module: &mut CodeModule<'_>, x: &Tensor) -> Result<DataId, Problem> {
    let failed = |e| Problem::internal(format!("a captured tensor: {e}"));
    let id = module.declare_anonymous_data(false, false).map_err(failed)?;
    let mut data = DataDescription::new();
    data.set_align(size_of::<Line>() as u64);
    let mut bytes = x.bytes().to_vec();
    // All supported targets of objects store the lowest byte first, so convert from a host that does not.
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(x.ty().dtype.bytes()).for_each(<[u8]>::reverse);
    }
    // Data without bytes would have no address of its own, so it gets one byte.
    bytes.resize(bytes.len().max(1), 0);
    data.define(bytes.into_boxed_slice());
    module.define_data(id, &data).map_err(failed)?;
    Ok(id)
}

/// Emits a return of [`NO_MEMORY`] if a pointer is null or not aligned.
pub(super) fn refuse(b: &mut FunctionBuilder<'_>, pointer: Value, align: usize) {
    let low = b.ins().band_imm_u(pointer, align as i64 - 1);
    let misaligned = b.ins().icmp_imm_u(IntCC::NotEqual, low, 0);
    let null = b.ins().icmp_imm_u(IntCC::Equal, pointer, 0);
    let wrong = b.ins().bor(misaligned, null);
    when(b, wrong, |b| {
        let status = b.ins().iconst(types::I32, i64::from(NO_MEMORY));
        b.ins().return_(&[status]);
        Returns::Yes
    });
}

/// Emits a loop that clears `bytes` bytes, a multiple of the size of an element.
pub(super) fn clear(b: &mut FunctionBuilder<'_>, at: Value, bytes: usize, element: usize) {
    let zero = b.ins().iconst(bits(element), 0);
    for_elements(b, (bytes, element), |b, i| {
        let place = b.ins().iadd(at, i);
        b.ins().store(MemFlagsData::trusted(), zero, place, 0);
    });
}

/// Emits code that builds the context of a call on the stack, and returns the context's address.
fn context(b: &mut FunctionBuilder<'_>, workspace: Value, memory: Memory) -> Value {
    let context = stack(b, size_of::<Context>());
    let flags = MemFlagsData::trusted();
    let zero = b.ins().iconst(types::I64, 0);
    for at in (0..size_of::<Context>()).step_by(abi::WORD) {
        b.ins().store(flags, zero, context, at as i32);
    }
    b.ins().store(flags, workspace, context, abi::WORKSPACE as i32);
    let private = b.ins().iadd_imm_s(workspace, memory.private as i64);
    b.ins().store(flags, private, context, abi::THREADS as i32);
    context
}

/// Emits code that builds the states of dynamic tapes, without records, on the stack.
fn tapes(b: &mut FunctionBuilder<'_>, context: Value, arena: Value, records: &[usize]) {
    let flags = MemFlagsData::trusted();
    let states = stack(b, records.len() * size_of::<State>());
    let zero = b.ins().iconst(types::I64, 0);
    for (i, record) in records.iter().enumerate() {
        let table = stack(b, tape_memory::CHUNKS * abi::WORD);
        let at = |field: usize| (i * size_of::<State>() + field) as i32;
        let record = b.ins().iconst(types::I64, *record as i64);
        b.ins().store(flags, zero, states, at(offset_of!(State, length)));
        b.ins().store(flags, zero, states, at(offset_of!(State, capacity)));
        b.ins().store(flags, table, states, at(offset_of!(State, chunks)));
        b.ins().store(flags, record, states, at(offset_of!(State, record)));
    }
    b.ins().store(flags, states, context, abi::TAPES as i32);
    b.ins().store(flags, arena, context, abi::RECORDS as i32);
    b.ins().store(flags, zero, arena, ARENA_USED);
    b.ins().store(flags, zero, arena, ARENA_NEEDED);
}

/// Allocates bytes on the stack, aligned to a word, and returns their address.
fn stack(b: &mut FunctionBuilder<'_>, bytes: usize) -> Value {
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, 3);
    let slot = b.create_sized_stack_slot(slot);
    b.ins().stack_addr(types::I64, slot, 0)
}
