//! f32 functions beside f64 ones: how far a function that is computed in f32 is from its f64 form.

use std::fmt;
use std::ops::Range;
use tapeloom_ir::prim::LibraryFn;
use tapeloom_ir::{Code, Scalar};

/// A function of one argument that has a source of its own.
#[derive(Clone, Copy)]
pub struct F32Function {
    /// Its name in the scalar table.
    pub name: &'static str,
    narrow: extern "C" fn(f32) -> f32,
    wide: extern "C" fn(f64) -> f64,
}

/// The largest error that was found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Worst {
    /// In units of the last place of an f32.
    pub ulp: f64,
    /// The argument.
    pub at: f32,
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} at {:e}", self.ulp, self.at)
    }
}

/// Every function that has a source, in the order of the table.
pub fn all() -> Vec<F32Function> {
    let of = |s: &Scalar| match s.row().code {
        Code::Library(l) => match l.function {
            LibraryFn::Unary { f64: wide, f32: narrow, recording: Some(_), .. } => {
                Some(F32Function { name: l.name, narrow, wide })
            }
            _ => None,
        },
        _ => None,
    };
    Scalar::ALL.iter().filter_map(of).collect()
}

impl F32Function {
    /// The error at an argument.
    pub fn error(&self, x: f32) -> f64 {
        distance((self.narrow)(x), (self.wide)(x.into()))
    }

    /// The largest error over all bit patterns that are multiples of `step`, with 1 over every f32, and the first argument
    /// that has it; on all cores.
    pub fn worst(&self, step: u32) -> Worst {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let arguments = (1u64 << 32).div_ceil(step.into());
        let each = arguments.div_ceil(cores);
        std::thread::scope(|threads| {
            let parts: Vec<_> = (0..cores)
                .map(|i| (i * each)..((i + 1) * each).min(arguments))
                .map(|part| threads.spawn(move || self.worst_of(step, part)))
                .collect();
            let found = parts
                .into_iter()
                .map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            found.fold(NONE, |worst, next| if next.ulp > worst.ulp { next } else { worst })
        })
    }

    /// The same over the multiples of `step` by these numbers.
    fn worst_of(&self, step: u32, multiples: Range<u64>) -> Worst {
        let mut worst = NONE;
        for n in multiples {
            let x = f32::from_bits((n * u64::from(step)) as u32);
            let ulp = self.error(x);
            if ulp > worst.ulp {
                worst = Worst { ulp, at: x };
            }
        }
        worst
    }
}

/// No error.
const NONE: Worst = Worst { ulp: 0.0, at: 0.0 };

/// How far a result is from the one in f64, in units of the last place at the latter; infinite where one is nan, or where
/// only one is infinite after rounding.
fn distance(y: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if y == rounded || y.is_nan() && rounded.is_nan() {
        return if y.is_finite() { (f64::from(y) - want).abs() / unit(want) } else { 0.0 };
    }
    if y.is_finite() && rounded.is_finite() {
        return (f64::from(y) - want).abs() / unit(want);
    }
    f64::INFINITY
}

/// The distance of neighbouring f32 at a number.
fn unit(x: f64) -> f64 {
    let exponent = (x.abs().max(f32::MIN_POSITIVE.into()).to_bits() >> 52) as i32 - 1023;
    2f64.powi(exponent.min(127) - 23)
}
