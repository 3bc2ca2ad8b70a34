//! Calls of external functions: Rust functions of the user, and library routines.
//!
//! Generated code calls [`call`] with the context of its [call record](crate::runtime::abi), the number of the function
//! in the program, and a row of pointers to the operands and then to the results. The context points to the
//! [`ExternalCalls`]. The first error is stored in `ExternalCalls::failed`, and becomes the error of the whole call.
//!
//! A Rust function receives copies of its operands as tensors. A routine works on the memory of the program and
//! allocates nothing.

#![expect(unsafe_code, reason = "reads and writes elements through pointers from generated code")]

use crate::loop_ir::{External, ExternalSignature, PlannedRoutine};
use crate::runtime::abi::Context;
use crate::runtime::gemm::{PANICKED, status};
use std::cell::RefCell;
use std::slice;
use std::sync::Arc;
use tapeloom_ir::{ArrayType, HostCall, Problem, Tensor};

/// The external functions of a program (the user's Rust functions, library routines) during one call.
pub(crate) struct ExternalCalls<'a> {
    /// The external functions that the program calls, indexed by the number that generated code passes.
    pub(crate) calls: &'a [Arc<ExternalSignature>],
    /// The error of the first external function that failed.
    pub(crate) failed: RefCell<Option<Problem>>,
}

/// Calls the external function `number` of the program, and returns a status (0: success).
///
/// # Safety
/// `context` is that of the call, whose `external_calls` is alive and was made for this program. `row` points
/// to a pointer for each operand and then for each result of function `number`. Each pointer points
/// to the elements of its type, which no other code writes meanwhile. No other code accesses the results of a
/// routine.
pub(crate) unsafe extern "C" fn call(
    context: *const Context,
    number: i64,
    row: *const *mut u8,
) -> i32 {
    let mut answered = false;
    let caught = status(|| {
        // SAFETY: by the contract of this function, `context` is that of the call, whose `external_calls` is alive.
        let external_calls = unsafe { &*(*context).external_calls.cast::<ExternalCalls<'_>>() };
        let signature = &external_calls.calls[number as usize];
        // SAFETY: by the contract of this function, `row` has the pointers to the operands and results of this
        // signature.
        let run = unsafe {
            match &signature.function {
                External::Host(call) => call_host(call, &signature.operands, row),
                External::Routine(planned) => call_routine(planned, row),
            }
        };
        match run {
            Ok(()) => answered = true,
            Err(problem) => {
                *external_calls.failed.borrow_mut() = Some(problem.at(signature.location))
            }
        }
    });
    if answered { caught } else { PANICKED }
}

/// Calls a user's Rust function on copies of its operands, and copies its results to their buffers.
///
/// # Safety
/// `row` is the pointer that [`call`] got, for a function with operands of these types.
unsafe fn call_host(
    call: &HostCall,
    types: &[ArrayType],
    row: *const *mut u8,
) -> Result<(), Problem> {
    let mut operands = Vec::with_capacity(types.len());
    for (i, ty) in types.iter().enumerate() {
        // SAFETY: by the contract of this function, the row has a pointer to the elements of every operand.
        let bytes = unsafe { slice::from_raw_parts(*row.add(i), ty.bytes()) };
        operands.push(Tensor::from_bytes(ty, bytes)?);
    }
    for (i, y) in call.run(&operands)?.iter().enumerate() {
        // SAFETY: by the contract of this function, the row has a pointer to the elements of every result, and `run`
        // returns results of the declared types, so `y` has the type of its result.
        unsafe {
            let to = *row.add(types.len() + i);
            std::ptr::copy_nonoverlapping(y.bytes().as_ptr(), to, y.ty().bytes());
        }
    }
    Ok(())
}

/// Runs a library routine on all batch members, which are contiguous in memory.
///
/// # Safety
/// `row` is the pointer that [`call`] got, for the operands and results of `planned`; the results overlap nothing else.
unsafe fn call_routine(planned: &PlannedRoutine, row: *const *mut u8) -> Result<(), Problem> {
    let (plan, members) = (planned.plan(), planned.call().members);
    // SAFETY: by the contract of this function, the row has the pointers to the operands, to the results and, if the
    // routine needs any, to its scratch memory.
    let ran = unsafe { plan.run_at(members, row, plan.scratch_bytes()) };
    ran.map_err(|wrong| Problem::internal(wrong.to_string()))
}
