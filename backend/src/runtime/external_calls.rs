//! External functions during a call: Rust functions of the user, and library routines.
//!
//! Generated code calls [`call`] with the context of its [record](crate::runtime::abi), the number of the function
//! among those of the program, and a row of pointers: to the operands, then to the results. The context
//! knows the functions. What goes wrong stays there, too, and becomes the error of the whole call.
//!
//! A Rust function is given tensors, which are copies; a routine works on the memory of the program and allocates
//! nothing.

#![expect(unsafe_code, reason = "reads and writes elements through pointers from generated code")]

use crate::loop_ir::{External, ExternalSignature, PlannedRoutine};
use crate::runtime::abi::Context;
use crate::runtime::gemm::{PANICKED, status};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::slice;
use std::sync::Arc;
use tapeloom_ir::{ArrayType, HostCall, Problem, Tensor};

/// The external functions of a program during one call.
pub(crate) struct Outside<'a> {
    /// What the program calls, by number.
    pub(crate) calls: &'a [Arc<ExternalSignature>],
    /// What went wrong first.
    pub(crate) failed: RefCell<Option<Problem>>,
}

/// Calls an external function.
///
/// # Safety
/// `context` is that of the call, whose `outside` is alive and was made for this program; `row` points
/// to a pointer for each operand and then for each result of the function of that number, and each of those
/// to the elements of its type, which nobody writes meanwhile. Those of the results of a routine are
/// nobody else's.
pub(crate) unsafe extern "C" fn call(
    context: *const Context,
    number: i64,
    row: *const *mut u8,
) -> i32 {
    let mut answered = false;
    let caught = status(|| {
        // SAFETY: by the contract of this function.
        let outside = unsafe { &*(*context).outside.cast::<Outside<'_>>() };
        let signature = &outside.calls[number as usize];
        // SAFETY: by the contract of this function.
        let run = unsafe {
            match &signature.function {
                External::Host(call) => ask(call, &signature.operands, row),
                External::Routine(planned) => run(planned, row),
            }
        };
        match run {
            Ok(()) => answered = true,
            Err(problem) => *outside.failed.borrow_mut() = Some(problem.at(signature.location)),
        }
    });
    if answered { caught } else { PANICKED }
}

/// Calls a Rust function.
///
/// # Safety
/// `row` is that of [`call`], for operands of these types.
unsafe fn ask(call: &HostCall, types: &[ArrayType], row: *const *mut u8) -> Result<(), Problem> {
    let mut operands = Vec::with_capacity(types.len());
    for (i, ty) in types.iter().enumerate() {
        // SAFETY: the row has a pointer to the elements of every operand.
        let bytes = unsafe { slice::from_raw_parts(*row.add(i), ty.bytes()) };
        operands.push(Tensor::from_bytes(ty, bytes)?);
    }
    for (i, y) in call.run(&operands)?.iter().enumerate() {
        // SAFETY: then one to the elements of every result, which have the type of `y`: `run`
        // answers what is declared.
        unsafe {
            let to = *row.add(types.len() + i);
            std::ptr::copy_nonoverlapping(y.bytes().as_ptr(), to, y.ty().bytes());
        }
    }
    Ok(())
}

/// Runs a library routine on all members, which lie one behind the other.
///
/// # Safety
/// `row` is that of [`call`], for what `planned` reads and writes; what it writes overlaps nothing else.
unsafe fn run(planned: &PlannedRoutine, row: *const *mut u8) -> Result<(), Problem> {
    let (plan, members) = (planned.plan(), planned.call().members);
    let reads = plan.operand_bytes().len();
    let (mut operands, mut results) =
        (SmallVec::<[&[u8]; 4]>::new(), SmallVec::<[&mut [u8]; 6]>::new());
    for (i, bytes) in plan.operand_bytes().enumerate() {
        // SAFETY: the row has a pointer to the members of every operand.
        operands.push(unsafe { slice::from_raw_parts(*row.add(i), members * bytes) });
    }
    // The scratch memory, if there is any, stands last.
    let scratch = Some(plan.scratch_bytes()).filter(|bytes| *bytes > 0);
    for (i, bytes) in plan.result_bytes().map(|b| members * b).chain(scratch).enumerate() {
        // SAFETY: then one to those of every result, and to the scratch, which overlap nothing else.
        results.push(unsafe { slice::from_raw_parts_mut(*row.add(reads + i), bytes) });
    }
    let scratch = scratch.and_then(|_| results.pop()).unwrap_or_default();
    plan.run(members, &operands, &mut results, scratch)
        .map_err(|wrong| Problem::internal(wrong.to_string()))
}
