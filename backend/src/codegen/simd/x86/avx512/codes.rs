//! The instructions of AVX-512 in SIMD code, by operation and element type, for vectors of 128, 256 and 512 bits.

use super::super::super::form::{Conversion, Lane};
use iced_x86::Code;

/// The operation of an AVX-512 instruction, without its element type and vector width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    Range,
    /// The larger of two floats; the second operand if both are zeros or one is nan.
    Largest,
    /// The smaller of two floats; the second operand if both are zeros or one is nan.
    Smallest,
    And,
    Or,
    Xor,
    Sqrt,
    Round,
    ShiftLeft,
    ShiftRight,
    Rotate,
    ShiftLeftBy,
    ShiftRightBy,
    ShiftArithmeticBy,
    /// `to = to * y + z`: the target holds a factor.
    Fma213,
    /// `to = x * y + to`: the target holds the summand.
    Fma231,
    Blend,
    Load,
    Store,
    Compare,
    CompareUnsigned,
    Gather,
    Scatter,
    /// Gathers with 64-bit offsets, for elements of 4 or 8 bytes.
    GatherFar,
    /// Scatters with 64-bit offsets, for elements of 4 or 8 bytes.
    ScatterFar,
}

macro_rules! table {
    ($($(#[$doc:meta])* ($operation:ident, $lane:ident) = $x:ident, $y:ident, $z:ident;)*) => {
        /// Returns the instruction that does `operation` on elements of type `lane` in registers of `bytes` bytes, if
        /// AVX-512 has one.
        pub(super) fn code(operation: Operation, lane: Lane, bytes: usize) -> Option<Code> {
            let all = match (operation, lane) {
                $((Operation::$operation, Lane::$lane) => [Code::$x, Code::$y, Code::$z],)*
                _ => return None,
            };
            match bytes {
                16 => Some(all[0]),
                32 => Some(all[1]),
                64 => Some(all[2]),
                _ => None,
            }
        }
    };
}

table! {
    (Add, F64) = EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vaddpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er;
    (Add, F32) = EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32, EVEX_Vaddps_ymm_k1z_ymm_ymmm256b32, EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er;
    (Add, I64) = EVEX_Vpaddq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpaddq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
    (Add, I32) = EVEX_Vpaddd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpaddd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
    (Sub, F64) = EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vsubpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er;
    (Sub, F32) = EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32, EVEX_Vsubps_ymm_k1z_ymm_ymmm256b32, EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er;
    (Sub, I64) = EVEX_Vpsubq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpsubq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64;
    (Sub, I32) = EVEX_Vpsubd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpsubd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
    (Mul, F64) = EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vmulpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er;
    (Mul, F32) = EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32, EVEX_Vmulps_ymm_k1z_ymm_ymmm256b32, EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
    (Mul, I64) = EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpmullq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64;
    (Mul, I32) = EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32, EVEX_Vpmulld_ymm_k1z_ymm_ymmm256b32, EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32;
    (Div, F64) = EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vdivpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er;
    (Div, F32) = EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32, EVEX_Vdivps_ymm_k1z_ymm_ymmm256b32, EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er;
    (Range, F64) = EVEX_Vrangepd_xmm_k1z_xmm_xmmm128b64_imm8, EVEX_Vrangepd_ymm_k1z_ymm_ymmm256b64_imm8, EVEX_Vrangepd_zmm_k1z_zmm_zmmm512b64_imm8_sae;
    (Range, F32) = EVEX_Vrangeps_xmm_k1z_xmm_xmmm128b32_imm8, EVEX_Vrangeps_ymm_k1z_ymm_ymmm256b32_imm8, EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae;
    (Largest, F64) = EVEX_Vmaxpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vmaxpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae;
    (Largest, F32) = EVEX_Vmaxps_xmm_k1z_xmm_xmmm128b32, EVEX_Vmaxps_ymm_k1z_ymm_ymmm256b32, EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae;
    (Smallest, F64) = EVEX_Vminpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vminpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae;
    (Smallest, F32) = EVEX_Vminps_xmm_k1z_xmm_xmmm128b32, EVEX_Vminps_ymm_k1z_ymm_ymmm256b32, EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae;
    (And, F64) = EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpandq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64;
    (And, F32) = EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpandd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
    (And, I64) = EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpandq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64;
    (And, I32) = EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpandd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
    (Or, F64) = EVEX_Vporq_xmm_k1z_xmm_xmmm128b64, EVEX_Vporq_ymm_k1z_ymm_ymmm256b64, EVEX_Vporq_zmm_k1z_zmm_zmmm512b64;
    (Or, F32) = EVEX_Vpord_xmm_k1z_xmm_xmmm128b32, EVEX_Vpord_ymm_k1z_ymm_ymmm256b32, EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
    (Or, I64) = EVEX_Vporq_xmm_k1z_xmm_xmmm128b64, EVEX_Vporq_ymm_k1z_ymm_ymmm256b64, EVEX_Vporq_zmm_k1z_zmm_zmmm512b64;
    (Or, I32) = EVEX_Vpord_xmm_k1z_xmm_xmmm128b32, EVEX_Vpord_ymm_k1z_ymm_ymmm256b32, EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
    (Xor, F64) = EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpxorq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
    (Xor, F32) = EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32, EVEX_Vpxord_ymm_k1z_ymm_ymmm256b32, EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
    (Xor, I64) = EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpxorq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
    (Xor, I32) = EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32, EVEX_Vpxord_ymm_k1z_ymm_ymmm256b32, EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
    (Sqrt, F64) = EVEX_Vsqrtpd_xmm_k1z_xmmm128b64, EVEX_Vsqrtpd_ymm_k1z_ymmm256b64, EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er;
    (Sqrt, F32) = EVEX_Vsqrtps_xmm_k1z_xmmm128b32, EVEX_Vsqrtps_ymm_k1z_ymmm256b32, EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er;
    (Round, F64) = EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8, EVEX_Vrndscalepd_ymm_k1z_ymmm256b64_imm8, EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae;
    (Round, F32) = EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8, EVEX_Vrndscaleps_ymm_k1z_ymmm256b32_imm8, EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae;
    (ShiftLeft, F64) = EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8, EVEX_Vpsllq_ymm_k1z_ymmm256b64_imm8, EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8;
    (ShiftLeft, F32) = EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8, EVEX_Vpslld_ymm_k1z_ymmm256b32_imm8, EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
    (ShiftLeft, I64) = EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8, EVEX_Vpsllq_ymm_k1z_ymmm256b64_imm8, EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8;
    (ShiftLeft, I32) = EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8, EVEX_Vpslld_ymm_k1z_ymmm256b32_imm8, EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
    (ShiftRight, F64) = EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8, EVEX_Vpsrlq_ymm_k1z_ymmm256b64_imm8, EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8;
    (ShiftRight, F32) = EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8, EVEX_Vpsrld_ymm_k1z_ymmm256b32_imm8, EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
    (ShiftRight, I64) = EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8, EVEX_Vpsrlq_ymm_k1z_ymmm256b64_imm8, EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8;
    (ShiftRight, I32) = EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8, EVEX_Vpsrld_ymm_k1z_ymmm256b32_imm8, EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
    (Fma213, F64) = EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfmadd213pd_ymm_k1z_ymm_ymmm256b64, EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er;
    (Fma213, F32) = EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfmadd213ps_ymm_k1z_ymm_ymmm256b32, EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er;
    (Fma231, F64) = EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64, EVEX_Vfmadd231pd_ymm_k1z_ymm_ymmm256b64, EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er;
    (Fma231, F32) = EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32, EVEX_Vfmadd231ps_ymm_k1z_ymm_ymmm256b32, EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er;
    (Blend, F64) = EVEX_Vblendmpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vblendmpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64;
    (Blend, F32) = EVEX_Vblendmps_xmm_k1z_xmm_xmmm128b32, EVEX_Vblendmps_ymm_k1z_ymm_ymmm256b32, EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
    (Blend, I64) = EVEX_Vblendmpd_xmm_k1z_xmm_xmmm128b64, EVEX_Vblendmpd_ymm_k1z_ymm_ymmm256b64, EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64;
    (Blend, I32) = EVEX_Vblendmps_xmm_k1z_xmm_xmmm128b32, EVEX_Vblendmps_ymm_k1z_ymm_ymmm256b32, EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
    (Load, F64) = EVEX_Vmovupd_xmm_k1z_xmmm128, EVEX_Vmovupd_ymm_k1z_ymmm256, EVEX_Vmovupd_zmm_k1z_zmmm512;
    (Load, F32) = EVEX_Vmovups_xmm_k1z_xmmm128, EVEX_Vmovups_ymm_k1z_ymmm256, EVEX_Vmovups_zmm_k1z_zmmm512;
    (Load, I64) = EVEX_Vmovupd_xmm_k1z_xmmm128, EVEX_Vmovupd_ymm_k1z_ymmm256, EVEX_Vmovupd_zmm_k1z_zmmm512;
    (Load, I32) = EVEX_Vmovups_xmm_k1z_xmmm128, EVEX_Vmovups_ymm_k1z_ymmm256, EVEX_Vmovups_zmm_k1z_zmmm512;
    (Store, F64) = EVEX_Vmovupd_xmmm128_k1z_xmm, EVEX_Vmovupd_ymmm256_k1z_ymm, EVEX_Vmovupd_zmmm512_k1z_zmm;
    (Store, F32) = EVEX_Vmovups_xmmm128_k1z_xmm, EVEX_Vmovups_ymmm256_k1z_ymm, EVEX_Vmovups_zmmm512_k1z_zmm;
    (Store, I64) = EVEX_Vmovupd_xmmm128_k1z_xmm, EVEX_Vmovupd_ymmm256_k1z_ymm, EVEX_Vmovupd_zmmm512_k1z_zmm;
    (Store, I32) = EVEX_Vmovups_xmmm128_k1z_xmm, EVEX_Vmovups_ymmm256_k1z_ymm, EVEX_Vmovups_zmmm512_k1z_zmm;
    (Compare, F64) = EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8, EVEX_Vcmppd_kr_k1_ymm_ymmm256b64_imm8, EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae;
    (Compare, F32) = EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8, EVEX_Vcmpps_kr_k1_ymm_ymmm256b32_imm8, EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
    (Compare, I64) = EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8, EVEX_Vpcmpq_kr_k1_ymm_ymmm256b64_imm8, EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8;
    (Compare, I32) = EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8, EVEX_Vpcmpd_kr_k1_ymm_ymmm256b32_imm8, EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8;
    (CompareUnsigned, I64) = EVEX_Vpcmpuq_kr_k1_xmm_xmmm128b64_imm8, EVEX_Vpcmpuq_kr_k1_ymm_ymmm256b64_imm8, EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8;
    (CompareUnsigned, I32) = EVEX_Vpcmpud_kr_k1_xmm_xmmm128b32_imm8, EVEX_Vpcmpud_kr_k1_ymm_ymmm256b32_imm8, EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
    (ShiftLeftBy, I64) = EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpsllvq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64;
    (ShiftRightBy, I64) = EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpsrlvq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64;
    (ShiftArithmeticBy, I64) = EVEX_Vpsravq_xmm_k1z_xmm_xmmm128b64, EVEX_Vpsravq_ymm_k1z_ymm_ymmm256b64, EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64;
    (ShiftLeftBy, I32) = EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpsllvd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32;
    (ShiftRightBy, I32) = EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpsrlvd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32;
    (ShiftArithmeticBy, I32) = EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32, EVEX_Vpsravd_ymm_k1z_ymm_ymmm256b32, EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32;
    (Rotate, I32) = EVEX_Vprold_xmm_k1z_xmmm128b32_imm8, EVEX_Vprold_ymm_k1z_ymmm256b32_imm8, EVEX_Vprold_zmm_k1z_zmmm512b32_imm8;
    // `Gather` takes offsets of the elements' width: 64 bits here.
    (Gather, F64) = EVEX_Vgatherqpd_xmm_k1_vm64x, EVEX_Vgatherqpd_ymm_k1_vm64y, EVEX_Vgatherqpd_zmm_k1_vm64z;
    (Gather, I64) = EVEX_Vgatherqpd_xmm_k1_vm64x, EVEX_Vgatherqpd_ymm_k1_vm64y, EVEX_Vgatherqpd_zmm_k1_vm64z;
    (Gather, F32) = EVEX_Vgatherdps_xmm_k1_vm32x, EVEX_Vgatherdps_ymm_k1_vm32y, EVEX_Vgatherdps_zmm_k1_vm32z;
    (Gather, I32) = EVEX_Vgatherdps_xmm_k1_vm32x, EVEX_Vgatherdps_ymm_k1_vm32y, EVEX_Vgatherdps_zmm_k1_vm32z;
    (GatherFar, F64) = EVEX_Vgatherqpd_xmm_k1_vm64x, EVEX_Vgatherqpd_ymm_k1_vm64y, EVEX_Vgatherqpd_zmm_k1_vm64z;
    (GatherFar, I64) = EVEX_Vgatherqpd_xmm_k1_vm64x, EVEX_Vgatherqpd_ymm_k1_vm64y, EVEX_Vgatherqpd_zmm_k1_vm64z;
    (GatherFar, F32) = EVEX_Vgatherqps_xmm_k1_vm64y, EVEX_Vgatherqps_ymm_k1_vm64z, EVEX_Vgatherqps_ymm_k1_vm64z;
    (GatherFar, I32) = EVEX_Vgatherqps_xmm_k1_vm64y, EVEX_Vgatherqps_ymm_k1_vm64z, EVEX_Vgatherqps_ymm_k1_vm64z;
    (ScatterFar, F64) = EVEX_Vscatterqpd_vm64x_k1_xmm, EVEX_Vscatterqpd_vm64y_k1_ymm, EVEX_Vscatterqpd_vm64z_k1_zmm;
    (ScatterFar, I64) = EVEX_Vscatterqpd_vm64x_k1_xmm, EVEX_Vscatterqpd_vm64y_k1_ymm, EVEX_Vscatterqpd_vm64z_k1_zmm;
    (ScatterFar, F32) = EVEX_Vscatterqps_vm64y_k1_xmm, EVEX_Vscatterqps_vm64z_k1_ymm, EVEX_Vscatterqps_vm64z_k1_ymm;
    (ScatterFar, I32) = EVEX_Vscatterqps_vm64y_k1_xmm, EVEX_Vscatterqps_vm64z_k1_ymm, EVEX_Vscatterqps_vm64z_k1_ymm;
    (Scatter, F64) = EVEX_Vscatterqpd_vm64x_k1_xmm, EVEX_Vscatterqpd_vm64y_k1_ymm, EVEX_Vscatterqpd_vm64z_k1_zmm;
    (Scatter, I64) = EVEX_Vscatterqpd_vm64x_k1_xmm, EVEX_Vscatterqpd_vm64y_k1_ymm, EVEX_Vscatterqpd_vm64z_k1_zmm;
    (Scatter, F32) = EVEX_Vscatterdps_vm32x_k1_xmm, EVEX_Vscatterdps_vm32y_k1_ymm, EVEX_Vscatterdps_vm32z_k1_zmm;
    (Scatter, I32) = EVEX_Vscatterdps_vm32x_k1_xmm, EVEX_Vscatterdps_vm32y_k1_ymm, EVEX_Vscatterdps_vm32z_k1_zmm;
}

/// Returns AVX-512's instruction for a conversion of `n` elements, if there is one, and the sizes in bytes of the
/// operand's vector and of the result's.
pub(super) fn conversion(by: Conversion, n: usize) -> Option<(Code, usize, usize)> {
    let (from, to) = by.lanes();
    let wide = from.bytes().max(to.bytes()) * n;
    let codes = match by {
        Conversion::F32ToF64 => [
            Code::EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32,
            Code::EVEX_Vcvtps2pd_ymm_k1z_xmmm128b32,
            Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae,
        ],
        Conversion::F64ToF32 => [
            Code::EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64,
            Code::EVEX_Vcvtpd2ps_xmm_k1z_ymmm256b64,
            Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er,
        ],
        Conversion::I64ToF64 => [
            Code::EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64,
            Code::EVEX_Vcvtqq2pd_ymm_k1z_ymmm256b64,
            Code::EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er,
        ],
        Conversion::U64ToF64 => [
            Code::EVEX_Vcvtuqq2pd_xmm_k1z_xmmm128b64,
            Code::EVEX_Vcvtuqq2pd_ymm_k1z_ymmm256b64,
            Code::EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er,
        ],
        Conversion::I64ToF32 => [
            Code::EVEX_Vcvtqq2ps_xmm_k1z_xmmm128b64,
            Code::EVEX_Vcvtqq2ps_xmm_k1z_ymmm256b64,
            Code::EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er,
        ],
        Conversion::U64ToF32 => [
            Code::EVEX_Vcvtuqq2ps_xmm_k1z_xmmm128b64,
            Code::EVEX_Vcvtuqq2ps_xmm_k1z_ymmm256b64,
            Code::EVEX_Vcvtuqq2ps_ymm_k1z_zmmm512b64_er,
        ],
        Conversion::I32ToF64 => [
            Code::EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32,
            Code::EVEX_Vcvtdq2pd_ymm_k1z_xmmm128b32,
            Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er,
        ],
        Conversion::U32ToF64 => [
            Code::EVEX_Vcvtudq2pd_xmm_k1z_xmmm64b32,
            Code::EVEX_Vcvtudq2pd_ymm_k1z_xmmm128b32,
            Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er,
        ],
        Conversion::I32ToF32 => [
            Code::EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32,
            Code::EVEX_Vcvtdq2ps_ymm_k1z_ymmm256b32,
            Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er,
        ],
        Conversion::U32ToF32 => [
            Code::EVEX_Vcvtudq2ps_xmm_k1z_xmmm128b32,
            Code::EVEX_Vcvtudq2ps_ymm_k1z_ymmm256b32,
            Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er,
        ],
        Conversion::I32ToI64 => [
            Code::EVEX_Vpmovsxdq_xmm_k1z_xmmm64,
            Code::EVEX_Vpmovsxdq_ymm_k1z_xmmm128,
            Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256,
        ],
        Conversion::U32ToI64 => [
            Code::EVEX_Vpmovzxdq_xmm_k1z_xmmm64,
            Code::EVEX_Vpmovzxdq_ymm_k1z_xmmm128,
            Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256,
        ],
        Conversion::I64ToI32 => [
            Code::EVEX_Vpmovqd_xmmm64_k1z_xmm,
            Code::EVEX_Vpmovqd_xmmm128_k1z_ymm,
            Code::EVEX_Vpmovqd_ymmm256_k1z_zmm,
        ],
        Conversion::F64ToI64 => [
            Code::EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64,
            Code::EVEX_Vcvttpd2qq_ymm_k1z_ymmm256b64,
            Code::EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae,
        ],
        Conversion::F64ToU64 => [
            Code::EVEX_Vcvttpd2uqq_xmm_k1z_xmmm128b64,
            Code::EVEX_Vcvttpd2uqq_ymm_k1z_ymmm256b64,
            Code::EVEX_Vcvttpd2uqq_zmm_k1z_zmmm512b64_sae,
        ],
        Conversion::F32ToI64 => [
            Code::EVEX_Vcvttps2qq_xmm_k1z_xmmm64b32,
            Code::EVEX_Vcvttps2qq_ymm_k1z_xmmm128b32,
            Code::EVEX_Vcvttps2qq_zmm_k1z_ymmm256b32_sae,
        ],
        Conversion::F32ToU64 => [
            Code::EVEX_Vcvttps2uqq_xmm_k1z_xmmm64b32,
            Code::EVEX_Vcvttps2uqq_ymm_k1z_xmmm128b32,
            Code::EVEX_Vcvttps2uqq_zmm_k1z_ymmm256b32_sae,
        ],
        Conversion::F64ToI32 => [
            Code::EVEX_Vcvttpd2dq_xmm_k1z_xmmm128b64,
            Code::EVEX_Vcvttpd2dq_xmm_k1z_ymmm256b64,
            Code::EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae,
        ],
        Conversion::F64ToU32 => [
            Code::EVEX_Vcvttpd2udq_xmm_k1z_xmmm128b64,
            Code::EVEX_Vcvttpd2udq_xmm_k1z_ymmm256b64,
            Code::EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae,
        ],
        Conversion::F32ToI32 => [
            Code::EVEX_Vcvttps2dq_xmm_k1z_xmmm128b32,
            Code::EVEX_Vcvttps2dq_ymm_k1z_ymmm256b32,
            Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae,
        ],
        Conversion::F32ToU32 => [
            Code::EVEX_Vcvttps2udq_xmm_k1z_xmmm128b32,
            Code::EVEX_Vcvttps2udq_ymm_k1z_ymmm256b32,
            Code::EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae,
        ],
    };
    let place = match wide {
        16 => 0,
        32 => 1,
        64 => 2,
        _ => return None,
    };
    Some((codes[place], from.bytes() * n, to.bytes() * n))
}
