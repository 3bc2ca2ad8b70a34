//! Library routines, which objects call by a description in text: `cholesky{n=9} f64 members 2 scratch 640`.

#![expect(unsafe_code, reason = "reads and writes arrays through pointers from generated code")]

use crate::symbol;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use tapeloom_routines::{Float, Plan, Routine};

/// The status of a routine that has run.
const OK: i32 = 0;
/// The status of a routine that could not run, because this library does not implement it. Headers of objects name the
/// status `TAPELOOM_ROUTINE`.
pub const FAILED: i32 = 5;

/// A routine of an object, prepared for its calls.
pub struct Prepared {
    plan: Plan,
    members: usize,
    /// The number of bytes of scratch memory that the object passes: the size that the routine needed on the machine on
    /// which the object was made. A machine with longer vectors may need more.
    scratch: usize,
}

impl Prepared {
    /// Prepares the routine that a text describes; `None` if the text is no description, or if this library lacks the
    /// routine.
    pub fn new(text: &str) -> Option<Prepared> {
        let (routine, rest) = text.split_at(text.find('}')? + 1);
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [float, "members", members, "scratch", scratch] = *words else { return None };
        let float = match float {
            "f64" => Float::F64,
            "f32" => Float::F32,
            _ => return None,
        };
        let plan = routine.parse::<Routine>().ok()?.plan(float).ok()?;
        Some(Prepared { plan, members: members.parse().ok()?, scratch: scratch.parse().ok()? })
    }
}

/// Runs a routine. `prepared` is a word of the object, which is null before the first call; `text` describes the routine; `row`
/// points to the pointers to the operands, to the results and, if the object gives any, to the scratch memory. Returns a status:
/// 0, or [`FAILED`].
///
/// # Safety
/// `prepared` points to an aligned word that only this function writes, and that belongs to this text. `text` ends with a null
/// byte. The pointers of `row` point to the arrays of the routine; the results overlap nothing else, and no other thread
/// accesses them.
#[unsafe(export_name = symbol!("routine"))]
pub unsafe extern "C" fn run(
    prepared: *const AtomicPtr<Prepared>,
    text: *const c_char,
    row: *const *mut u8,
) -> i32 {
    let run = || {
        // SAFETY: by the contract of this function, `prepared` and `text` are valid.
        let (prepared, text) = unsafe { (&*prepared, CStr::from_ptr(text)) };
        let Prepared { plan, members, scratch } = once(prepared, text.to_str().ok()?)?;
        // SAFETY: by the contract of this function, `row` has the pointers of this routine.
        unsafe { plan.run_at(*members, row, *scratch) }.ok()
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Some(())) => OK,
        Ok(None) | Err(_) => FAILED,
    }
}

/// Returns the routine to which a word points. The first caller prepares the routine, which is never freed.
fn once<'a>(word: &'a AtomicPtr<Prepared>, text: &str) -> Option<&'a Prepared> {
    let mut known = word.load(Ordering::Acquire);
    if known.is_null() {
        let new = Box::into_raw(Box::new(Prepared::new(text)?));
        match word.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => known = new,
            Err(of_other) => {
                // SAFETY: another thread has stored its routine first, so nothing else points to `new`.
                drop(unsafe { Box::from_raw(new) });
                known = of_other;
            }
        }
    }
    // SAFETY: the word is null or points to a `Prepared` that is never freed.
    Some(unsafe { &*known })
}
