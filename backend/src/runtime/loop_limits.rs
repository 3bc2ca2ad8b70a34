//! Limits on the iterations of a call's loops, and cancellation of a call.
//!
//! Generated code counts iterations in a [`Row`](crate::loop_ir::loop_counters::Row) by a few instructions. If the
//! count reaches `Row::until`, the code checks whether another iteration is allowed. The code calls [`enter`] only
//! where a loop begins: a call in each iteration would force values out of registers.

#![expect(unsafe_code, reason = "is called by generated code, with pointers")]

use crate::loop_ir::LoopLimitId;
use crate::loop_ir::loop_counters::LoopLimits;
use crate::runtime::abi::Context;
use crate::runtime::gemm::PANICKED;
use cranelift_entity::EntityRef;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The status that machine code returns for a call that reached its limit on iterations, or was cancelled.
pub(crate) const STOPPED: i32 = 4;

/// Checks a limited loop (a loop with a limit on its iterations) before it starts: `trip` is its number of iterations
/// (negative if unknown). Returns the status 0, or `STOPPED` if the limit does not allow the loop.
///
/// # Safety
/// `context` is that of the call, and no other code uses the call's loop limits meanwhile. `limit` is the number of a
/// limited loop of the program.
pub(crate) unsafe extern "C" fn enter(context: *const Context, limit: i64, trip: i64) -> i32 {
    let entered = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the contract of this function, `context` is that of the call, and no other code uses its limits
        // meanwhile.
        let loop_limits = unsafe { &mut *(*context).loop_limits.cast::<LoopLimits>() };
        let entered = loop_limits.enter(LoopLimitId::new(limit as usize), u64::try_from(trip).ok());
        loop_limits.refused = entered.err();
        loop_limits.refused.is_none()
    }));
    match entered {
        Ok(true) => 0,
        Ok(false) => STOPPED,
        Err(_) => PANICKED,
    }
}
