//! Checks of generated SIMD code: the bytes are decoded, and only expected instructions are allowed.
//!
//! The address sanitiser does not see generated code, so this test checks the instructions instead. There is no
//! legacy SSE, which would wait for the upper halves of registers; no instruction changes the state of the machine;
//! and memory is addressed only through the row, the frame, the constants and the streams.

use iced_x86::{
    Code, Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction, OpKind, Register,
};
use tapeloom_ir::Isa;

/// The registers that may be the base of a memory operand's address.
const BASES: [Register; 17] = [
    Register::RSP,
    Register::RBP,
    Register::RIP,
    Register::RDI,
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::RBX,
    Register::R14,
    Register::R15,
];

/// Checks that the code before the constants has only instructions of `set`, and accesses memory only through permitted
/// base registers.
pub(crate) fn check(bytes: &[u8], set: Isa) -> Result<(), String> {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut targets = Vec::new();
    let mut starts = Vec::new();
    let (mut returns, mut cold) = (0, false);
    while decoder.can_decode() {
        let i: Instruction = decoder.decode();
        if i.code() == Code::Int3 {
            break;
        }
        if i.is_invalid() {
            // An invalid instruction after a return is a constant: without padding, constants follow the code
            // immediately.
            if cold || returns > 0 {
                break;
            }
            return Err(format!("bytes at {:#x} are no instruction", i.ip()));
        }
        starts.push(i.ip());
        let vectors = (0..i.op_count())
            .any(|n| i.op_kind(n) == OpKind::Register && i.op_register(n).is_vector_register());
        if i.encoding() == EncodingKind::Legacy && vectors {
            return Err(format!("legacy SSE at {:#x}: {:?}", i.ip(), i.code()));
        }
        let beyond = (0..i.op_count()).any(|n| {
            i.op_kind(n) == OpKind::Register
                && (i.op_register(n).is_zmm() || i.op_register(n).is_k())
        });
        if set < Isa::Avx512 && (beyond || i.encoding() == EncodingKind::EVEX) {
            return Err(format!("AVX-512 at {:#x}: {:?}", i.ip(), i.code()));
        }
        if (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory)
            && !BASES.contains(&i.memory_base())
        {
            return Err(format!("an address of {:?} at {:#x}", i.memory_base(), i.ip()));
        }
        match i.flow_control() {
            FlowControl::Next | FlowControl::IndirectCall => {}
            FlowControl::Return => returns += 1,
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                targets.push(i.near_branch_target());
                cold |= returns > 0;
            }
            other => return Err(format!("{other:?} at {:#x}", i.ip())),
        }
    }
    if returns != 1 {
        return Err(format!("it returns in {returns} places"));
    }
    match targets.iter().find(|t| !starts.contains(t)) {
        Some(t) => Err(format!("a jump to {t:#x}, where no instruction begins")),
        None => Ok(()),
    }
}
