//! The instructions of AVX2 in SIMD code, by operation and element type, for vectors of 128 and 256 bits.

use super::super::super::form::{Conversion, Lane};
use iced_x86::Code;

/// The operation of an AVX2 instruction, without its element type and vector width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Add,
    Sub,
    Mul,
    /// Multiplies the lower halves of 64-bit elements as unsigned numbers; the products have 64 bits.
    MulHalves,
    Div,
    /// The larger of two floats; the second operand if both are zeros or one is nan.
    Largest,
    /// The smaller of two floats; the second operand if both are zeros or one is nan.
    Smallest,
    And,
    /// The bitwise and of the second operand with the complement of the first.
    AndNot,
    Or,
    Xor,
    Sqrt,
    Round,
    ShiftLeft,
    ShiftRight,
    ShiftLeftBy,
    ShiftRightBy,
    ShiftArithmeticBy,
    /// `to = to * y + z`: the target holds a factor.
    Fma213,
    /// `to = x * y + to`: the target holds the summand.
    Fma231,
    Blend,
    /// Compares floats by a predicate, an immediate operand.
    Compare,
    Equal,
    Greater,
    Load,
    Store,
    MaskedLoad,
    MaskedStore,
    Gather,
    /// Gathers with 64-bit offsets, for elements of 4 or 8 bytes.
    GatherFar,
}

macro_rules! table {
    ($(($operation:ident, $($lane:ident)|+) = $x:ident, $y:ident;)*) => {
        /// Returns the instruction that does `operation` on elements of type `lane` in registers of `bytes` bytes, if
        /// AVX2 has one.
        pub(super) fn code(operation: Operation, lane: Lane, bytes: usize) -> Option<Code> {
            let all = match (operation, lane) {
                $((Operation::$operation, $(Lane::$lane)|+) => [Code::$x, Code::$y],)*
                _ => return None,
            };
            match bytes {
                16 => Some(all[0]),
                32 => Some(all[1]),
                _ => None,
            }
        }
    };
}

table! {
    (Add, F64) = VEX_Vaddpd_xmm_xmm_xmmm128, VEX_Vaddpd_ymm_ymm_ymmm256;
    (Add, F32) = VEX_Vaddps_xmm_xmm_xmmm128, VEX_Vaddps_ymm_ymm_ymmm256;
    (Add, I64) = VEX_Vpaddq_xmm_xmm_xmmm128, VEX_Vpaddq_ymm_ymm_ymmm256;
    (Add, I32) = VEX_Vpaddd_xmm_xmm_xmmm128, VEX_Vpaddd_ymm_ymm_ymmm256;
    (Sub, F64) = VEX_Vsubpd_xmm_xmm_xmmm128, VEX_Vsubpd_ymm_ymm_ymmm256;
    (Sub, F32) = VEX_Vsubps_xmm_xmm_xmmm128, VEX_Vsubps_ymm_ymm_ymmm256;
    (Sub, I64) = VEX_Vpsubq_xmm_xmm_xmmm128, VEX_Vpsubq_ymm_ymm_ymmm256;
    (Sub, I32) = VEX_Vpsubd_xmm_xmm_xmmm128, VEX_Vpsubd_ymm_ymm_ymmm256;
    (Mul, F64) = VEX_Vmulpd_xmm_xmm_xmmm128, VEX_Vmulpd_ymm_ymm_ymmm256;
    (Mul, F32) = VEX_Vmulps_xmm_xmm_xmmm128, VEX_Vmulps_ymm_ymm_ymmm256;
    (Mul, I32) = VEX_Vpmulld_xmm_xmm_xmmm128, VEX_Vpmulld_ymm_ymm_ymmm256;
    (MulHalves, I64) = VEX_Vpmuludq_xmm_xmm_xmmm128, VEX_Vpmuludq_ymm_ymm_ymmm256;
    (Div, F64) = VEX_Vdivpd_xmm_xmm_xmmm128, VEX_Vdivpd_ymm_ymm_ymmm256;
    (Div, F32) = VEX_Vdivps_xmm_xmm_xmmm128, VEX_Vdivps_ymm_ymm_ymmm256;
    (Largest, F64) = VEX_Vmaxpd_xmm_xmm_xmmm128, VEX_Vmaxpd_ymm_ymm_ymmm256;
    (Largest, F32) = VEX_Vmaxps_xmm_xmm_xmmm128, VEX_Vmaxps_ymm_ymm_ymmm256;
    (Smallest, F64) = VEX_Vminpd_xmm_xmm_xmmm128, VEX_Vminpd_ymm_ymm_ymmm256;
    (Smallest, F32) = VEX_Vminps_xmm_xmm_xmmm128, VEX_Vminps_ymm_ymm_ymmm256;
    (And, F64) = VEX_Vandpd_xmm_xmm_xmmm128, VEX_Vandpd_ymm_ymm_ymmm256;
    (And, F32) = VEX_Vandps_xmm_xmm_xmmm128, VEX_Vandps_ymm_ymm_ymmm256;
    (And, I64 | I32) = VEX_Vpand_xmm_xmm_xmmm128, VEX_Vpand_ymm_ymm_ymmm256;
    (AndNot, I64 | I32) = VEX_Vpandn_xmm_xmm_xmmm128, VEX_Vpandn_ymm_ymm_ymmm256;
    (Or, F64) = VEX_Vorpd_xmm_xmm_xmmm128, VEX_Vorpd_ymm_ymm_ymmm256;
    (Or, F32) = VEX_Vorps_xmm_xmm_xmmm128, VEX_Vorps_ymm_ymm_ymmm256;
    (Or, I64 | I32) = VEX_Vpor_xmm_xmm_xmmm128, VEX_Vpor_ymm_ymm_ymmm256;
    (Xor, F64) = VEX_Vxorpd_xmm_xmm_xmmm128, VEX_Vxorpd_ymm_ymm_ymmm256;
    (Xor, F32) = VEX_Vxorps_xmm_xmm_xmmm128, VEX_Vxorps_ymm_ymm_ymmm256;
    (Xor, I64 | I32) = VEX_Vpxor_xmm_xmm_xmmm128, VEX_Vpxor_ymm_ymm_ymmm256;
    (Sqrt, F64) = VEX_Vsqrtpd_xmm_xmmm128, VEX_Vsqrtpd_ymm_ymmm256;
    (Sqrt, F32) = VEX_Vsqrtps_xmm_xmmm128, VEX_Vsqrtps_ymm_ymmm256;
    (Round, F64) = VEX_Vroundpd_xmm_xmmm128_imm8, VEX_Vroundpd_ymm_ymmm256_imm8;
    (Round, F32) = VEX_Vroundps_xmm_xmmm128_imm8, VEX_Vroundps_ymm_ymmm256_imm8;
    (ShiftLeft, F64 | I64) = VEX_Vpsllq_xmm_xmm_imm8, VEX_Vpsllq_ymm_ymm_imm8;
    (ShiftLeft, F32 | I32) = VEX_Vpslld_xmm_xmm_imm8, VEX_Vpslld_ymm_ymm_imm8;
    (ShiftRight, F64 | I64) = VEX_Vpsrlq_xmm_xmm_imm8, VEX_Vpsrlq_ymm_ymm_imm8;
    (ShiftRight, F32 | I32) = VEX_Vpsrld_xmm_xmm_imm8, VEX_Vpsrld_ymm_ymm_imm8;
    (ShiftLeftBy, I64) = VEX_Vpsllvq_xmm_xmm_xmmm128, VEX_Vpsllvq_ymm_ymm_ymmm256;
    (ShiftLeftBy, I32) = VEX_Vpsllvd_xmm_xmm_xmmm128, VEX_Vpsllvd_ymm_ymm_ymmm256;
    (ShiftRightBy, I64) = VEX_Vpsrlvq_xmm_xmm_xmmm128, VEX_Vpsrlvq_ymm_ymm_ymmm256;
    (ShiftRightBy, I32) = VEX_Vpsrlvd_xmm_xmm_xmmm128, VEX_Vpsrlvd_ymm_ymm_ymmm256;
    (ShiftArithmeticBy, I32) = VEX_Vpsravd_xmm_xmm_xmmm128, VEX_Vpsravd_ymm_ymm_ymmm256;
    (Fma213, F64) = VEX_Vfmadd213pd_xmm_xmm_xmmm128, VEX_Vfmadd213pd_ymm_ymm_ymmm256;
    (Fma213, F32) = VEX_Vfmadd213ps_xmm_xmm_xmmm128, VEX_Vfmadd213ps_ymm_ymm_ymmm256;
    (Fma231, F64) = VEX_Vfmadd231pd_xmm_xmm_xmmm128, VEX_Vfmadd231pd_ymm_ymm_ymmm256;
    (Fma231, F32) = VEX_Vfmadd231ps_xmm_xmm_xmmm128, VEX_Vfmadd231ps_ymm_ymm_ymmm256;
    (Blend, F64 | I64) = VEX_Vblendvpd_xmm_xmm_xmmm128_xmm, VEX_Vblendvpd_ymm_ymm_ymmm256_ymm;
    (Blend, F32 | I32) = VEX_Vblendvps_xmm_xmm_xmmm128_xmm, VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
    (Compare, F64) = VEX_Vcmppd_xmm_xmm_xmmm128_imm8, VEX_Vcmppd_ymm_ymm_ymmm256_imm8;
    (Compare, F32) = VEX_Vcmpps_xmm_xmm_xmmm128_imm8, VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
    (Equal, I64) = VEX_Vpcmpeqq_xmm_xmm_xmmm128, VEX_Vpcmpeqq_ymm_ymm_ymmm256;
    (Equal, I32) = VEX_Vpcmpeqd_xmm_xmm_xmmm128, VEX_Vpcmpeqd_ymm_ymm_ymmm256;
    (Greater, I64) = VEX_Vpcmpgtq_xmm_xmm_xmmm128, VEX_Vpcmpgtq_ymm_ymm_ymmm256;
    (Greater, I32) = VEX_Vpcmpgtd_xmm_xmm_xmmm128, VEX_Vpcmpgtd_ymm_ymm_ymmm256;
    (Load, F64 | I64 | F32 | I32) = VEX_Vmovups_xmm_xmmm128, VEX_Vmovups_ymm_ymmm256;
    (Store, F64 | I64 | F32 | I32) = VEX_Vmovups_xmmm128_xmm, VEX_Vmovups_ymmm256_ymm;
    (MaskedLoad, F64 | I64) = VEX_Vmaskmovpd_xmm_xmm_m128, VEX_Vmaskmovpd_ymm_ymm_m256;
    (MaskedLoad, F32 | I32) = VEX_Vmaskmovps_xmm_xmm_m128, VEX_Vmaskmovps_ymm_ymm_m256;
    (MaskedStore, F64 | I64) = VEX_Vmaskmovpd_m128_xmm_xmm, VEX_Vmaskmovpd_m256_ymm_ymm;
    (MaskedStore, F32 | I32) = VEX_Vmaskmovps_m128_xmm_xmm, VEX_Vmaskmovps_m256_ymm_ymm;
    // `Gather` takes offsets of the elements' width: 64 bits here.
    (Gather, F64 | I64) = VEX_Vgatherqpd_xmm_vm64x_xmm, VEX_Vgatherqpd_ymm_vm64y_ymm;
    (Gather, F32 | I32) = VEX_Vgatherdps_xmm_vm32x_xmm, VEX_Vgatherdps_ymm_vm32y_ymm;
    (GatherFar, F64 | I64) = VEX_Vgatherqpd_xmm_vm64x_xmm, VEX_Vgatherqpd_ymm_vm64y_ymm;
    // Four 64-bit offsets fill a 256-bit register, so there is no gather of more than four elements.
    (GatherFar, F32 | I32) = VEX_Vgatherqps_xmm_vm64y_xmm, INVALID;
}

/// Returns AVX2's instruction for a conversion of `n` elements, if there is one, and the sizes in bytes of the
/// operand's vector and of the result's.
pub(super) fn conversion(by: Conversion, n: usize) -> Option<(Code, usize, usize)> {
    let (from, to) = by.lanes();
    let codes = match by {
        Conversion::F32ToF64 => [Code::VEX_Vcvtps2pd_xmm_xmmm64, Code::VEX_Vcvtps2pd_ymm_xmmm128],
        Conversion::F64ToF32 => [Code::VEX_Vcvtpd2ps_xmm_xmmm128, Code::VEX_Vcvtpd2ps_xmm_ymmm256],
        Conversion::I32ToF64 => [Code::VEX_Vcvtdq2pd_xmm_xmmm64, Code::VEX_Vcvtdq2pd_ymm_xmmm128],
        Conversion::I32ToF32 => [Code::VEX_Vcvtdq2ps_xmm_xmmm128, Code::VEX_Vcvtdq2ps_ymm_ymmm256],
        Conversion::I32ToI64 => [Code::VEX_Vpmovsxdq_xmm_xmmm64, Code::VEX_Vpmovsxdq_ymm_xmmm128],
        Conversion::U32ToI64 => [Code::VEX_Vpmovzxdq_xmm_xmmm64, Code::VEX_Vpmovzxdq_ymm_xmmm128],
        Conversion::F64ToI32 => {
            [Code::VEX_Vcvttpd2dq_xmm_xmmm128, Code::VEX_Vcvttpd2dq_xmm_ymmm256]
        }
        Conversion::F32ToI32 => {
            [Code::VEX_Vcvttps2dq_xmm_xmmm128, Code::VEX_Vcvttps2dq_ymm_ymmm256]
        }
        Conversion::I64ToF64
        | Conversion::U64ToF64
        | Conversion::I64ToF32
        | Conversion::U64ToF32
        | Conversion::U32ToF64
        | Conversion::U32ToF32
        | Conversion::I64ToI32
        | Conversion::F64ToI64
        | Conversion::F64ToU64
        | Conversion::F32ToI64
        | Conversion::F32ToU64
        | Conversion::F64ToU32
        | Conversion::F32ToU32 => return None,
    };
    let place = match from.bytes().max(to.bytes()) * n {
        16 => 0,
        32 => 1,
        _ => return None,
    };
    Some((codes[place], from.bytes() * n, to.bytes() * n))
}
