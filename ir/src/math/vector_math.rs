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
//! Both write down the same operations in the same order, none is fused or regrouped, and each is rounded by
//! itself (IEEE 754): so one argument and eight, every width of vectors and every machine give the same bits.
//!
//! Arguments come in registers, one in each: what was stored in pieces and is read as a whole would have to
//! wait until it is in the cache.

use crate::Isa;
use crate::fault::{Fault, planted};

/// How many.
pub const EIGHT: usize = 8;

/// A function of one argument in two parts.
pub trait Parted: 'static {
    /// Whether the straight part holds for `x`; false where that is NaN and NaN needs care.
    fn inside(x: f64) -> bool;

    /// The function inside: arithmetic alone, the same for every argument, choices by `if` between values.
    fn straight(x: f64) -> f64;

    /// The function beyond.
    fn beyond(x: f64) -> f64;

    /// The function.
    #[inline(always)]
    fn at(x: f64) -> f64 {
        if Self::inside(x) { Self::straight(x) } else { Self::beyond(x) }
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

/// Eight f64, in the vectors of the function that this becomes a part of.
#[inline(always)]
fn wide<F: Parted>(y: &mut [f64; EIGHT], x: [f64; EIGHT]) {
    // No `all`, which would leave at the first one; and no `for_each`, which may stay a function of its own, and
    // that would not have these vectors.
    if x.iter().fold(true, |inside, x| inside & F::inside(*x)) || planted(Fault::EightInside) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = F::straight(x);
        }
    } else {
        let [a, b, c, d, e, f, g, h] = x;
        one_by_one::<F>(y, a, b, c, d, e, f, g, h);
    }
}

/// Eight f64 of which some are beyond. Not a part of [`wide`], and its arguments come in registers, too: what is
/// in memory for a loop here would be so there.
#[cold]
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "they are one each")]
fn one_by_one<F: Parted>(
    y: &mut [f64; EIGHT],
    a: f64,
    b: f64,
    c: f64,
    d: f64,
    e: f64,
    f: f64,
    g: f64,
    h: f64,
) {
    for (y, x) in y.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *y = F::at(x);
    }
}

/// Eight f32: worked out on f64 and rounded once.
#[inline(always)]
fn narrow<F: Parted>(y: &mut [f32; EIGHT], x: [f32; EIGHT]) {
    let [a, b, c, d, e, f, g, h] = x;
    let x = [a.into(), b.into(), c.into(), d.into(), e.into(), f.into(), g.into(), h.into()];
    let mut z = [0.0; EIGHT];
    wide::<F>(&mut z, x);
    for (y, z) in y.iter_mut().zip(z) {
        *y = z as f32;
    }
}

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
versions!(avx2, "avx2");
#[cfg(target_arch = "x86_64")]
versions!(avx512, "avx512f");
