//! Errors of f32 functions, relative to the results of their f64 forms.

use std::fmt;
use std::ops::Range;
use tapeloom_ir::prim::{LibraryFn, Lowering, Operand};
use tapeloom_ir::{Code, Dtype, Module, Op};

/// A scalar function of one argument that has separate implementations in f32 and in f64.
#[derive(Clone)]
pub struct F32Function {
    /// The name of the function in printed loop programs, with its constant number.
    pub name: String,
    function: LibraryFn,
}

/// The largest error found, and its argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Worst {
    /// The error in units in the last place of an f32.
    pub ulp: f64,
    /// The argument at which the error occurs.
    pub at: f32,
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} at {:e}", self.ulp, self.at)
    }
}

/// Returns every function with separate implementations in f32 and f64, in the order of the primitives. A function with
/// a constant number (such as an order) is listed once for each number in the samples.
pub fn all() -> Vec<F32Function> {
    let mut module = Module::new();
    let mut all: Vec<F32Function> = Vec::new();
    for sample in Op::samples(&mut module) {
        let types: Vec<_> = sample.operands.iter().map(|x| x.ty().clone().into()).collect();
        let operands: Vec<_> = types.iter().map(|ty| Operand { ty, literal: None }).collect();
        let Lowering::Elementwise(code) = sample.op.lower(&module, &operands) else { continue };
        let Code::Library(library) = code else { continue };
        let name = code.to_string();
        let is_new = all.iter().all(|f| f.name != name);
        let has_source = library.recording(Dtype::F32).is_some();
        if is_new && has_source && code.row().takes.arity() == 1 {
            all.push(F32Function { name, function: library.function });
        }
    }
    all
}

impl F32Function {
    /// Returns the error of the f32 implementation at `x`, in units in the last place.
    pub fn error(&self, x: f32) -> f64 {
        match self.function {
            LibraryFn::Unary { f32, f64, .. } => distance(f32(x), f64(x.into())),
            LibraryFn::Indexed { n, f32, f64, .. } => distance(f32(n, x), f64(n, x.into())),
            LibraryFn::Binary { .. } | LibraryFn::Ternary { .. } => f64::INFINITY,
        }
    }

    /// Returns the largest error over all f32 whose bit patterns are multiples of `step`, and the first argument that
    /// has this error. With a `step` of 1 these are all f32. The search uses all cores.
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

    /// Returns the largest error over the bit patterns `step * m`, for `m` in `multiples`.
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

/// The start of a search: an error of zero.
const NONE: Worst = Worst { ulp: 0.0, at: 0.0 };

/// Returns the distance of `y` from the f64 result `want`, in units in the last place of an f32 at `want`. The distance
/// is infinite if only one of the two is nan, or only one is infinite after rounding to f32.
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

/// Returns the distance between neighbouring f32 at `x`.
fn unit(x: f64) -> f64 {
    let exponent = (x.abs().max(f32::MIN_POSITIVE.into()).to_bits() >> 52) as i32 - 1023;
    2f64.powi(exponent.min(127) - 23)
}
