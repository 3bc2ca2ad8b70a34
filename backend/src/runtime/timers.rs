//! Timers of profiled programs, which generated code stops by a call.
//!
//! The clock is that of the standard library, which is portable. A call that reads the clock takes some 40 ns, so
//! program parts that run for 2 microseconds and more are measured within two per cent.

#![expect(unsafe_code, reason = "is called by generated code, with pointers")]

use crate::loop_ir::TimerId;
use crate::loop_ir::timers::Timers;
use crate::runtime::abi::Context;
use cranelift_entity::EntityRef;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Adds the time since the previous reading of the clock in this call to a timer, and increases the timer's count of
/// runs by one. If the clock fails, nothing is added.
///
/// # Safety
/// `context` is that of the call, and no other code uses its timers meanwhile.
pub(crate) unsafe extern "C" fn lap(context: *const Context, timer: i64) {
    // If the clock goes backwards, the subtraction of times panics; a panic must not unwind through generated code.
    _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the contract of this function, no other code uses the timers of `context` meanwhile. A call
        // without timers has a null pointer here.
        let timers = unsafe { (*context).timers.cast::<Timers>().as_mut() };
        if let Some(timers) = timers {
            timers.lap(TimerId::new(timer as usize));
        }
    }));
}
