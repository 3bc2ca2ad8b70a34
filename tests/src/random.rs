//! Reproducible random numbers: SplitMix64, twelve lines, the same on every machine.

use crate::tensor_of;
use tapeloom_ir::{ArrayType, Dtype, Literal, Tensor};

/// A generator with a fixed seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `low..high`.
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform in `0..n`.
    pub fn index(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// Floats in `-1..1`, signed integers in `-8..8`, unsigned ones in `0..8`, coins for bool.
    pub fn tensor(&mut self, ty: &ArrayType) -> Tensor {
        tensor_of(ty, |_| {
            let x = match ty.dtype {
                Dtype::Bool => self.index(2) as f64,
                Dtype::I32 | Dtype::I64 => self.index(16) as f64 - 8.0,
                Dtype::U32 | Dtype::U64 => self.index(8) as f64,
                Dtype::F32 | Dtype::F64 => self.range(-1.0, 1.0),
            };
            Literal::of(ty.dtype, x)
        })
    }
}
