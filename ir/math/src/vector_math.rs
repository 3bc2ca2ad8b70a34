//! Functions that take eight arguments at once.
//!
//! An elementary function costs a few dozen operations, each waiting for the one before it. Where those are
//! the same for every argument (no branch, no table), eight arguments go through them in the time of two or
//! three, in whatever vectors the machine has. So a function comes in two parts ([`Parted`]): a straight one,
//! for an interval that holds nearly all arguments, and one for what lies beyond.
//!
//! ```text
//! eight(y, x0 .. x7):
//!   all eight inside?  y[i] = straight(x[i])      one vector instruction per operation
//!   otherwise          y[i] = at(x[i])            one by one
//! ```
//!
//! Both write down the same operations in the same order, and each is rounded by itself (IEEE 754), a multiply-add where
//! the source says so: so one argument and eight, every width of vectors and every machine give the same bits.
//!
//! Arguments come in registers, one in each: what was stored in pieces and is read as a whole would have to
//! wait until it is in the cache.

#![expect(unsafe_code, reason = "calls functions whose instructions the machine was found to have")]

use super::number::Number;
use crate::fault::{Fault, planted};
use crate::isa::Isa;

/// How many.
pub const EIGHT: usize = 8;

/// A function of one argument in two parts, of which the first is written for every [`Number`].
pub trait Parted: 'static {
    /// Whether the straight part holds for `x`; false where that is NaN and NaN needs care.
    fn inside<N: Number>(x: N) -> N::Mask;

    /// The function inside: arithmetic alone, the same for every argument, choices between values.
    fn straight<N: Number>(x: N) -> N;

    /// The function beyond.
    fn beyond(x: f64) -> f64;

    /// The function beyond, of f32: that of f64 unless a function knows better.
    fn beyond_f32(x: f32) -> f32 {
        Self::at(f64::from(x)) as f32
    }

    /// The function, in the instructions of whatever it becomes a part of.
    #[inline(always)]
    fn at(x: f64) -> f64 {
        if Self::inside(x) { Self::straight(x) } else { Self::beyond(x) }
    }

    /// The function of f32.
    #[inline(always)]
    fn at_f32(x: f32) -> f32 {
        if Self::inside(x) { Self::straight(x) } else { Self::beyond_f32(x) }
    }

    /// The function, in the instructions of [`Isa::here`].
    #[inline]
    fn here(x: f64) -> f64 {
        #[cfg(target_arch = "x86_64")]
        if Isa::here() >= Isa::Avx2 {
            // SAFETY: the machine has the instructions.
            return unsafe { one::wide::<Self>(x) };
        }
        Self::at(x)
    }

    /// The function of f32, in the instructions of [`Isa::here`].
    #[inline]
    fn here_f32(x: f32) -> f32 {
        #[cfg(target_arch = "x86_64")]
        if Isa::here() >= Isa::Avx2 {
            // SAFETY: the machine has the instructions.
            return unsafe { one::narrow::<Self>(x) };
        }
        Self::at_f32(x)
    }
}

/// One argument, where a fused multiply-add is an instruction; elsewhere `mul_add` emulates it, with the same bits.
#[cfg(target_arch = "x86_64")]
mod one {
    use super::Parted;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn wide<F: Parted + ?Sized>(x: f64) -> f64 {
        F::at(x)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn narrow<F: Parted + ?Sized>(x: f32) -> f32 {
        F::at_f32(x)
    }
}

/// Of eight f64: where results go, and the arguments.
pub type Wide = unsafe extern "C" fn(&mut [f64; EIGHT], f64, f64, f64, f64, f64, f64, f64, f64);

/// Of eight f32: where results go, and the arguments.
pub type Narrow = unsafe extern "C" fn(&mut [f32; EIGHT], f32, f32, f32, f32, f32, f32, f32, f32);

/// A [`Parted`] function of eight arguments, in a version for each kind of machine.
///
/// Calling a version is unsafe, for a machine that lacks its instructions; [`Eight::here`] gives one
/// that this machine has.
#[derive(Clone, Copy, Debug)]
pub struct Eight {
    plain: (Wide, Narrow),
    #[cfg(target_arch = "x86_64")]
    avx2: (Wide, Narrow),
    #[cfg(target_arch = "x86_64")]
    avx512: (Wide, Narrow),
}

impl Eight {
    /// Of that function.
    pub const fn of<F: Parted>() -> Eight {
        Eight {
            plain: (plain::wide::<F>, plain::narrow::<F>),
            #[cfg(target_arch = "x86_64")]
            avx2: (avx2::wide::<F>, avx2::narrow::<F>),
            #[cfg(target_arch = "x86_64")]
            avx512: (avx512::wide::<F>, avx512::narrow::<F>),
        }
    }

    /// The version with the widest vectors of [`Isa::here`].
    pub fn here(&self) -> (Wide, Narrow) {
        match Isa::here() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => self.avx512,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => self.avx2,
            _ => self.plain,
        }
    }
}

/// Eight arguments, in the vectors of the function that this becomes a part of.
macro_rules! eight {
    ($eight:ident, $one_by_one:ident, $float:ident, $here:ident) => {
        #[inline(always)]
        fn $eight<F: Parted>(y: &mut [$float; EIGHT], x: [$float; EIGHT]) {
            // No `all`, which would leave at the first one; and no `for_each`, which may stay a function of its own,
            // and that would not have these vectors.
            let inside = x.iter().fold(true, |inside, x| inside & F::inside(*x));
            if inside || planted(Fault::EightInside) {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = F::straight(x);
                }
            } else {
                let [a, b, c, d, e, f, g, h] = x;
                $one_by_one::<F>(y, a, b, c, d, e, f, g, h);
            }
        }

        /// Eight arguments of which some are beyond. Not a part of the above, and its arguments come in registers, too:
        /// what is in memory for a loop here would be so there.
        #[cold]
        #[inline(never)]
        #[expect(clippy::too_many_arguments, reason = "they are one each")]
        fn $one_by_one<F: Parted>(
            y: &mut [$float; EIGHT],
            a: $float,
            b: $float,
            c: $float,
            d: $float,
            e: $float,
            f: $float,
            g: $float,
            h: $float,
        ) {
            for (y, x) in y.iter_mut().zip([a, b, c, d, e, f, g, h]) {
                *y = F::$here(x);
            }
        }
    };
}

eight!(wide, one_by_one, f64, here);
eight!(narrow, one_by_one_narrow, f32, here_f32);

/// The two functions, compiled with these instructions.
macro_rules! versions {
    ($name:ident $(, $enable:literal)?) => {
        mod $name {
            use super::{EIGHT, Parted};

            $(#[target_feature(enable = $enable)])?
            pub(super) extern "C" fn wide<F: Parted>(
                y: &mut [f64; EIGHT], a: f64, b: f64, c: f64, d: f64, e: f64, f: f64, g: f64, h: f64,
            ) {
                super::wide::<F>(y, [a, b, c, d, e, f, g, h]);
            }

            $(#[target_feature(enable = $enable)])?
            pub(super) extern "C" fn narrow<F: Parted>(
                y: &mut [f32; EIGHT], a: f32, b: f32, c: f32, d: f32, e: f32, f: f32, g: f32, h: f32,
            ) {
                super::narrow::<F>(y, [a, b, c, d, e, f, g, h]);
            }
        }
    };
}

versions!(plain);
#[cfg(target_arch = "x86_64")]
versions!(avx2, "avx2,fma");
#[cfg(target_arch = "x86_64")]
versions!(avx512, "avx512f,avx512dq,avx512bw,avx512vl,fma");
