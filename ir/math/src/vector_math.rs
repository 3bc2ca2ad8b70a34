//! The evaluation of functions at eight arguments at once.
//!
//! An elementary function costs a few dozen operations, each of which depends on the one before. If the
//! operations are the same for every argument (no branch, no table), eight arguments take the time of two or
//! three, in whichever vectors the machine has. So a function has two parts ([`Parted`]): straight-line code
//! for an interval that contains nearly all arguments, and longer straight-line code for the other arguments.
//!
//! ```text
//! eight(y, x0 .. x7):
//!   all eight inside?  y[i] = straight(x[i])      one vector instruction per operation
//!   otherwise          y[i] = at(x[i])            one by one
//! ```
//!
//! Both run the same operations in the same order, and each operation rounds by itself (IEEE 754);
//! multiply-adds are fused only where the source says so. So one argument and eight, all vector widths and all
//! machines give the same bits.
//!
//! Arguments are passed in registers, one each: a vector load from memory that was just written piecewise would
//! wait until the stores reach the cache.

#![allow(
    unsafe_code,
    reason = "calls functions whose instructions the machine was found to have, if there are any"
)]

use super::number::{Format, Number};
use crate::fault::{Fault, planted};
use crate::isa::Isa;

/// The number of arguments that a vectorised call evaluates at once.
pub const EIGHT: usize = 8;

/// A function of one float argument in two parts. The first part is generic over [`Number`].
pub trait Parted: 'static {
    /// Returns whether the straight-line part is valid for `x`; false for NaN if NaN needs the general part.
    fn inside<N: Number>(x: N) -> N::Mask;

    /// Computes the function for an `x` inside the interval, by arithmetic and selects only: the same operations
    /// for every argument.
    fn straight<N: Number>(x: N) -> N;

    /// Computes the f64 function for an `x` outside the interval, by arithmetic and selects only.
    fn beyond<N: Number<Float = f64>>(x: N) -> N;

    /// Computes the f64 function for any `x` by arithmetic and selects only.
    #[inline(always)]
    fn whole<N: Number<Float = f64>>(x: N) -> N {
        N::pick(Self::inside(x), Self::straight(x), Self::beyond(x))
    }

    /// Computes the f32 function for an `x` outside the interval: in f64 by default, rounded once.
    fn beyond_f32(x: f32) -> f32 {
        Self::at(f64::from(x)) as f32
    }

    /// Computes the function for any `x`; inlined, so compiled with the instruction set of its caller.
    #[inline(always)]
    fn at(x: f64) -> f64 {
        if Self::inside(x) { Self::straight(x) } else { Self::beyond(x) }
    }

    /// Computes the f32 function for any `x`; inlined, so compiled with the instruction set of its caller.
    #[inline(always)]
    fn at_f32(x: f32) -> f32 {
        if Self::inside(x) { Self::straight(x) } else { Self::beyond_f32(x) }
    }

    /// Computes the function for any `x`, with the instruction set of [`Isa::here`].
    #[inline]
    fn here(x: f64) -> f64 {
        #[cfg(target_arch = "x86_64")]
        if Isa::here() >= Isa::Avx2 {
            // SAFETY: `wide` needs AVX2 and FMA; `Isa::here` returns `Avx2` or a higher set only if the machine has
            // both.
            return unsafe { one::wide::<Self>(x) };
        }
        Self::at(x)
    }

    /// Computes the f32 function for any `x`, with the instruction set of [`Isa::here`].
    #[inline]
    fn here_f32(x: f32) -> f32 {
        #[cfg(target_arch = "x86_64")]
        if Isa::here() >= Isa::Avx2 {
            // SAFETY: `narrow` needs AVX2 and FMA; `Isa::here` returns `Avx2` or a higher set only if the machine
            // has both.
            return unsafe { one::narrow::<Self>(x) };
        }
        Self::at_f32(x)
    }
}

/// A function of two float arguments that is written in two parts, a straight-line part and a general part, as
/// [`Parted`] is for one argument.
pub trait PartedPair: 'static {
    /// Returns whether the straight-line part is valid for `x` and `y`; false for NaN if NaN needs the general part.
    fn inside<N: Number>(x: N, y: N) -> N::Mask;

    /// Computes the function for arguments that `inside` accepts, by arithmetic and selects only.
    fn straight<N: Number>(x: N, y: N) -> N;

    /// Computes the f64 function for arguments that `inside` rejects, by arithmetic and selects only.
    fn beyond<N: Number<Float = f64>>(x: N, y: N) -> N;

    /// Computes the f64 function for any arguments by arithmetic and selects only.
    #[inline(always)]
    fn whole<N: Number<Float = f64>>(x: N, y: N) -> N {
        N::pick(Self::inside(x, y), Self::straight(x, y), Self::beyond(x, y))
    }

    /// Computes the f32 function for arguments that `inside` rejects: in f64, rounded once.
    fn beyond_f32(x: f32, y: f32) -> f32 {
        Self::at(f64::from(x), f64::from(y)) as f32
    }

    /// Computes the function for any arguments; inlined, so compiled with the instruction set of its caller.
    #[inline(always)]
    fn at(x: f64, y: f64) -> f64 {
        if Self::inside(x, y) { Self::straight(x, y) } else { Self::beyond(x, y) }
    }

    /// Computes the f32 function for any arguments; inlined, so compiled with the instruction set of its caller.
    #[inline(always)]
    fn at_f32(x: f32, y: f32) -> f32 {
        if Self::inside(x, y) { Self::straight(x, y) } else { Self::beyond_f32(x, y) }
    }

    /// Computes the function for any arguments, with the instruction set of [`Isa::here`].
    #[inline]
    fn here(x: f64, y: f64) -> f64 {
        #[cfg(target_arch = "x86_64")]
        if Isa::here() >= Isa::Avx2 {
            // SAFETY: `wide_pair` needs AVX2 and FMA; `Isa::here` returns `Avx2` or a higher set only if the machine
            // has both.
            return unsafe { one::wide_pair::<Self>(x, y) };
        }
        Self::at(x, y)
    }

    /// Computes the f32 function for any arguments, with the instruction set of [`Isa::here`].
    #[inline]
    fn here_f32(x: f32, y: f32) -> f32 {
        #[cfg(target_arch = "x86_64")]
        if Isa::here() >= Isa::Avx2 {
            // SAFETY: `narrow_pair` needs AVX2 and FMA; `Isa::here` returns `Avx2` or a higher set only if the
            // machine has both.
            return unsafe { one::narrow_pair::<Self>(x, y) };
        }
        Self::at_f32(x, y)
    }
}

/// A function of one float argument with two parts for the float type `F`, as in [`Parted`]. The general part may branch.
pub trait PartedIn<F: Format>: 'static {
    /// Returns whether the straight-line part is valid for `x`; false for NaN if NaN needs the general part.
    fn inside<N: Number<Float = F>>(x: N) -> N::Mask;

    /// Computes the function for an `x` inside the interval, by arithmetic and selects only.
    fn straight<N: Number<Float = F>>(x: N) -> N;

    /// Computes the function for an `x` outside the interval.
    fn beyond(x: F) -> F;

    /// Computes the function for any `x`; inlined, so compiled with the instruction set of its caller.
    #[inline(always)]
    fn at(x: F) -> F {
        if Self::inside(x) { Self::straight(x) } else { Self::beyond(x) }
    }

    /// Computes the function for any `x`, with the instruction set of [`Isa::here`].
    #[inline]
    fn here(x: F) -> F {
        #[cfg(target_arch = "x86_64")]
        if Isa::here() >= Isa::Avx2 {
            // SAFETY: `of_format` needs AVX2 and FMA; `Isa::here` returns `Avx2` or a higher set only if the machine
            // has both.
            return unsafe { one::of_format::<F, Self>(x) };
        }
        Self::at(x)
    }
}

/// The functions of single arguments, compiled with fused multiply-add. On a machine without that instruction,
/// `mul_add` emulates it with the same bits.
#[cfg(target_arch = "x86_64")]
mod one {
    use super::{Format, Parted, PartedIn, PartedPair};

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn wide<F: Parted + ?Sized>(x: f64) -> f64 {
        F::at(x)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn narrow<F: Parted + ?Sized>(x: f32) -> f32 {
        F::at_f32(x)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn of_format<F: Format, S: PartedIn<F> + ?Sized>(x: F) -> F {
        S::at(x)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn wide_pair<F: PartedPair + ?Sized>(x: f64, y: f64) -> f64 {
        F::at(x, y)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn narrow_pair<F: PartedPair + ?Sized>(x: f32, y: f32) -> f32 {
        F::at_f32(x, y)
    }
}

/// A compiled function of eight f64 arguments: its parameters are the array of results, then the arguments.
pub type Wide = unsafe extern "C" fn(&mut [f64; EIGHT], f64, f64, f64, f64, f64, f64, f64, f64);

/// A compiled function of eight f32 arguments: its parameters are the array of results, then the arguments.
pub type Narrow = unsafe extern "C" fn(&mut [f32; EIGHT], f32, f32, f32, f32, f32, f32, f32, f32);

/// The versions of a [`Parted`] function for eight arguments, one for each instruction set.
///
/// Calling a version is unsafe if the machine lacks its instructions; [`Eight::here`] returns the version for
/// this machine.
#[derive(Clone, Copy, Debug)]
pub struct Eight {
    plain: (Wide, Narrow),
    #[cfg(target_arch = "x86_64")]
    avx2: (Wide, Narrow),
    #[cfg(target_arch = "x86_64")]
    avx512: (Wide, Narrow),
}

impl Eight {
    /// Returns the versions of the function `F`.
    pub const fn of<F: Parted>() -> Eight {
        Eight {
            plain: (plain::wide::<F>, plain::narrow::<F>),
            #[cfg(target_arch = "x86_64")]
            avx2: (avx2::wide::<F>, avx2::narrow::<F>),
            #[cfg(target_arch = "x86_64")]
            avx512: (avx512::wide::<F>, avx512::narrow::<F>),
        }
    }

    /// Returns the f64 and the f32 version for the instruction set of [`Isa::here`].
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

/// Defines the generic function of eight arguments, to be inlined into a caller that fixes the instruction set.
macro_rules! eight {
    ($eight:ident, $one_by_one:ident, $float:ident, $here:ident) => {
        #[inline(always)]
        fn $eight<F: Parted>(y: &mut [$float; EIGHT], x: [$float; EIGHT]) {
            // Use `fold`, not `all`, which would branch at the first argument outside the interval, and not
            // `for_each`, which may stay a separate function, compiled without the vector instructions.
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

        /// Computes eight arguments one by one, because for some of them the straight-line part is not valid. This
        /// is a separate function with its arguments in registers: if it were inlined, its loop would force the
        /// arguments into memory on the fast path as well.
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

/// Compiles the f64 and the f32 function of eight arguments for one instruction set.
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
