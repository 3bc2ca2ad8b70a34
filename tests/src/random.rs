//! Reproducible random numbers by SplitMix64, the same on every machine.

use crate::tensor_of;
use tapeloom_ir::{ArrayType, Dtype, Literal, Tensor};

/// Floats at which functions and rewrites tend to fail: zeros of both signs, infinities, nan, the smallest and the
/// largest number, and repeated numbers.
pub const EDGES: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -0.0,
    f64::NAN,
    -1.0,
    f64::INFINITY,
    2.5,
    0.0,
    5e-324,
    f64::NEG_INFINITY,
    -5e-324,
    2.5,
    f64::MAX,
];

/// Returns tensors of this type whose elements are [`EDGES`] in several orders, and tensors of zeros of one sign; no
/// tensors if the type is not a float type.
pub fn edge_tensors(ty: &ArrayType) -> Vec<Tensor> {
    if !ty.dtype.is_float() {
        return Vec::new();
    }
    let all = |x: &dyn Fn(usize) -> f64| tensor_of(ty, |i| Literal::of(ty.dtype, x(i)));
    // The orders begin at different edges and use different strides. No stride shares a factor with the number of
    // edges, so that each order contains all edges.
    let orders = [(0, 1), (3, 5), (8, 9)];
    let turn = |(from, by): (usize, usize)| all(&|i| edge(ty.dtype, from + i * by));
    let mut tensors: Vec<Tensor> = orders.into_iter().map(turn).collect();
    tensors.extend([0.0, -0.0].map(|zero| all(&|_| zero)));
    tensors
}

/// Returns the edge with index `i` in a dtype. The edges for the smallest and the largest number are those of this
/// dtype.
fn edge(dtype: Dtype, i: usize) -> f64 {
    let x = EDGES[i % EDGES.len()];
    match dtype {
        Dtype::F32 if x == f64::MAX => f64::from(f32::MAX),
        Dtype::F32 if x.abs() == 5e-324 => f64::from(f32::from_bits(1)).copysign(x),
        _ => x,
    }
}

/// A reproducible generator of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns a generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number uniform in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number uniform in `low..high`.
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns an index uniform in `0..n`.
    pub fn index(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// Returns a tensor of random elements: floats in `-1..1`, signed integers in `-8..8`, unsigned ones in `0..8`,
    /// either bool.
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
