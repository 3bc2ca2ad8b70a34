//! Lines (vectors of 64 bytes) in the registers of x86: in one of 512 bits, or two of 256.

use super::{Line, ROWS};
use std::arch::x86_64::*;

/// Defines a line (64 bytes) in one register of 512 bits.
macro_rules! one {
    ($line:ident, $t:ty, $n:literal, $vector:ty, $mask:ty, $splat:ident, $load:ident, $store:ident,
     $load_part:ident, $store_part:ident, $add:ident, $mul:ident, $four:ident) => {
        #[derive(Clone, Copy)]
        pub(super) struct $line($vector);

        // SAFETY (of each block): by the contract of `Line`, the machine has the instructions, and the accessed
        // elements lie in a buffer.
        impl Line for $line {
            type T = $t;
            type Part = $mask;
            const N: usize = $n;

            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                unsafe { $line($splat(x)) }
            }

            #[inline(always)]
            unsafe fn load(at: *const $t) -> Self {
                unsafe { $line($load(at)) }
            }

            #[inline(always)]
            unsafe fn store(self, at: *mut $t) {
                unsafe { $store(at, self.0) }
            }

            #[inline(always)]
            unsafe fn part(n: usize) -> $mask {
                ((1u32 << n) - 1) as $mask
            }

            #[inline(always)]
            unsafe fn load_part(at: *const $t, part: $mask) -> Self {
                unsafe { $line($load_part(part, at)) }
            }

            #[inline(always)]
            unsafe fn store_part(self, at: *mut $t, part: $mask) {
                unsafe { $store_part(at, part, self.0) }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                unsafe { $line($add(self.0, other.0)) }
            }

            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                unsafe { $line($mul(self.0, other.0)) }
            }

            #[inline(always)]
            unsafe fn halves_of_four(lines: [Self; ROWS]) -> [$t; ROWS] {
                unsafe { $four(lines.map(|line| line.0)) }
            }
        }
    };
}

/// Defines a line (64 bytes) in two registers of 256 bits.
macro_rules! two {
    ($line:ident, $t:ty, $n:literal, $int:ty, $vector:ty, $splat:ident, $load:ident, $store:ident,
     $load_part:ident, $store_part:ident, $add:ident, $mul:ident, $four:ident) => {
        #[derive(Clone, Copy)]
        pub(super) struct $line($vector, $vector);

        // SAFETY (of each block): by the contract of `Line`, the machine has the instructions, and the accessed
        // elements lie in a buffer.
        impl Line for $line {
            type T = $t;
            type Part = (__m256i, __m256i);
            const N: usize = $n;

            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                unsafe { $line($splat(x), $splat(x)) }
            }

            #[inline(always)]
            unsafe fn load(at: *const $t) -> Self {
                unsafe { $line($load(at), $load(at.add($n / 2))) }
            }

            #[inline(always)]
            unsafe fn store(self, at: *mut $t) {
                unsafe {
                    $store(at, self.0);
                    $store(at.add($n / 2), self.1);
                }
            }

            #[inline(always)]
            unsafe fn part(n: usize) -> (__m256i, __m256i) {
                let mut mask = [0 as $int; $n];
                mask.iter_mut().take(n).for_each(|x| *x = -1);
                let at = mask.as_ptr().cast::<__m256i>();
                unsafe { (_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))) }
            }

            #[inline(always)]
            unsafe fn load_part(at: *const $t, part: (__m256i, __m256i)) -> Self {
                let next = at.wrapping_add($n / 2);
                unsafe { $line($load_part(at, part.0), $load_part(next, part.1)) }
            }

            #[inline(always)]
            unsafe fn store_part(self, at: *mut $t, part: (__m256i, __m256i)) {
                unsafe {
                    $store_part(at, part.0, self.0);
                    $store_part(at.wrapping_add($n / 2), part.1, self.1);
                }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                unsafe { $line($add(self.0, other.0), $add(self.1, other.1)) }
            }

            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                unsafe { $line($mul(self.0, other.0), $mul(self.1, other.1)) }
            }

            #[inline(always)]
            unsafe fn halves_of_four(lines: [Self; ROWS]) -> [$t; ROWS] {
                unsafe { $four(lines.map(|line| $add(line.0, line.1))) }
            }
        }
    };
}

one!(
    F64x8,
    f64,
    8,
    __m512d,
    __mmask8,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_maskz_loadu_pd,
    _mm512_mask_storeu_pd,
    _mm512_add_pd,
    _mm512_mul_pd,
    wide_of_512
);
one!(
    F32x16,
    f32,
    16,
    __m512,
    __mmask16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_maskz_loadu_ps,
    _mm512_mask_storeu_ps,
    _mm512_add_ps,
    _mm512_mul_ps,
    narrow_of_512
);
two!(
    F64x4,
    f64,
    8,
    i64,
    __m256d,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_maskload_pd,
    _mm256_maskstore_pd,
    _mm256_add_pd,
    _mm256_mul_pd,
    wide_of_256
);
two!(
    F32x8,
    f32,
    16,
    i32,
    __m256,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_maskload_ps,
    _mm256_maskstore_ps,
    _mm256_add_ps,
    _mm256_mul_ps,
    narrow_of_256
);

// Each function below adds up the elements of four lines `a`, `b`, `c`, `d`, in the order of `halves`: each step adds
// the upper to the lower halves of two lines, in one register.

#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn wide_of_512([a, b, c, d]: [__m512d; ROWS]) -> [f64; ROWS] {
    let fold = |x: __m512d, y: __m512d| {
        // `low` has the lower halves, x0 x1 x2 x3 y0 y1 y2 y3; the next line adds the upper halves to `low`.
        let low = _mm512_shuffle_f64x2::<0x44>(x, y);
        _mm512_add_pd(low, _mm512_shuffle_f64x2::<0xee>(x, y))
    };
    let (ab, cd) = (fold(a, b), fold(c, d));
    // `low` has lanes 0 and 1 of each sum, a0 a1 b0 b1 c0 c1 d0 d1; the next line adds lanes 2 and 3 to `low`.
    let low = _mm512_shuffle_f64x2::<0x88>(ab, cd);
    let all = _mm512_add_pd(low, _mm512_shuffle_f64x2::<0xdd>(ab, cd));
    let (low, high) = (_mm512_castpd512_pd256(all), _mm512_extractf64x4_pd::<1>(all));
    // `sums` has the sums of the four lines, in the order a, c, b, d.
    let sums = _mm256_add_pd(_mm256_unpacklo_pd(low, high), _mm256_unpackhi_pd(low, high));
    let mut out = [0.0; ROWS];
    // SAFETY: `out` is an array of four f64.
    unsafe { _mm256_storeu_pd(out.as_mut_ptr(), sums) };
    [out[0], out[2], out[1], out[3]]
}

#[target_feature(enable = "avx2")]
#[inline]
unsafe fn wide_of_256([a, b, c, d]: [__m256d; ROWS]) -> [f64; ROWS] {
    let fold = |x: __m256d, y: __m256d| {
        let low = _mm256_permute2f128_pd::<0x20>(x, y);
        _mm256_add_pd(low, _mm256_permute2f128_pd::<0x31>(x, y))
    };
    // `ab` has lanes 0 and 1 of lines a and b, in the order a0 a1 b0 b1; `cd` is c0 c1 d0 d1.
    let (ab, cd) = (fold(a, b), fold(c, d));
    // `sums` has the sums of the four lines, in the order a, c, b, d.
    let sums = _mm256_add_pd(_mm256_unpacklo_pd(ab, cd), _mm256_unpackhi_pd(ab, cd));
    let mut out = [0.0; ROWS];
    // SAFETY: `out` is an array of four f64.
    unsafe { _mm256_storeu_pd(out.as_mut_ptr(), sums) };
    [out[0], out[2], out[1], out[3]]
}

#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn narrow_of_512(lines: [__m512; ROWS]) -> [f32; ROWS] {
    let half = |x: __m512| {
        let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(x)));
        _mm256_add_ps(_mm512_castps512_ps256(x), high)
    };
    let [a, b, c, d] = lines;
    // SAFETY: a machine with AVX-512 has AVX2.
    unsafe { narrow_of_256([half(a), half(b), half(c), half(d)]) }
}

#[target_feature(enable = "avx2")]
#[inline]
unsafe fn narrow_of_256([a, b, c, d]: [__m256; ROWS]) -> [f32; ROWS] {
    let half = |x: __m256| _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let fold = |x: __m128, y: __m128| _mm_add_ps(_mm_movelh_ps(x, y), _mm_movehl_ps(y, x));
    // `ab` has lanes 0 and 1 of lines a and b, in the order a0 a1 b0 b1; `cd` is c0 c1 d0 d1.
    let (ab, cd) = (fold(half(a), half(b)), fold(half(c), half(d)));
    // `even` and `odd` have lanes 0 and 1 of the four lines, in the order a, b, c, d.
    let (even, odd) = (_mm_shuffle_ps::<0x88>(ab, cd), _mm_shuffle_ps::<0xdd>(ab, cd));
    let mut out = [0.0; ROWS];
    // SAFETY: `out` is an array of four f32.
    unsafe { _mm_storeu_ps(out.as_mut_ptr(), _mm_add_ps(even, odd)) };
    out
}
