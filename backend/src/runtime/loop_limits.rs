//! The iterations of a call: counted, limited, and ended from outside.
//!
//! Generated code counts an iteration by a few instructions in a [`Row`](crate::loop_ir::loop_counters::Row), and where
//! the count reaches what it is told to look at, looks whether there may be another one; where a loop begins it calls
//! [`enter`].
//! There is no call in an iteration: it would cost what registers hold.

#![expect(unsafe_code, reason = "is called by generated code, with pointers")]

use crate::loop_ir::LoopLimitId;
use crate::loop_ir::loop_counters::LoopLimits;
use crate::runtime::abi::Context;
use crate::runtime::gemm::PANICKED;
use cranelift_entity::EntityRef;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The status of a call that came to a limit.
pub(crate) const STOPPED: i32 = 4;

/// A loop begins: a status. It will have `trip` iterations, if that is not negative.
///
/// # Safety
/// `context` is that of the call, whose limits nobody else uses meanwhile; there is a loop of that
/// number among them.
pub(crate) unsafe extern "C" fn enter(context: *const Context, limit: i64, trip: i64) -> i32 {
    let entered = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the contract of this function.
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
