//! The outside world during a call: Rust functions that a program calls while it runs.
//!
//! Generated code calls [`ask`] with the context of its [record](crate::runtime::abi), the number of the call
//! among those of the program, and a row of pointers: to the operands, then to the results. The context
//! knows who answers. What goes wrong stays there, too, and becomes the error of the whole call.

#![expect(unsafe_code, reason = "reads and writes elements through pointers from generated code")]

use crate::loop_ir::HostSignature;
use crate::runtime::abi::Context;
use crate::runtime::gemm::{PANICKED, status};
use std::cell::RefCell;
use std::sync::Arc;
use tapeloom_ir::{Problem, Tensor};

/// Who answers during one call of a program.
pub(crate) struct Outside<'a> {
    /// What the program calls, by number.
    pub(crate) calls: &'a [Arc<HostSignature>],
    /// What went wrong first.
    pub(crate) failed: RefCell<Option<Problem>>,
}

/// Calls a Rust function.
///
/// # Safety
/// `context` is that of the call, whose `outside` is alive and was made for this program; `row` points
/// to a pointer for each operand and then for each result of the call of that number, and each of those
/// to the elements of its type, which nobody writes meanwhile.
pub(crate) unsafe extern "C" fn ask(
    context: *const Context,
    number: i64,
    row: *const *mut u8,
) -> i32 {
    let mut answered = false;
    let caught = status(|| {
        // SAFETY: by the contract of this function.
        let outside = unsafe { &*(*context).outside.cast::<Outside<'_>>() };
        let asked = &outside.calls[number as usize];
        let run = || -> Result<(), Problem> {
            let mut operands = Vec::with_capacity(asked.operands.len());
            for (i, ty) in asked.operands.iter().enumerate() {
                // SAFETY: the row has a pointer to the elements of every operand.
                let bytes = unsafe { std::slice::from_raw_parts(*row.add(i), ty.bytes()) };
                operands.push(Tensor::from_bytes(ty, bytes)?);
            }
            for (i, y) in asked.call.run(&operands)?.iter().enumerate() {
                // SAFETY: then one to the elements of every result, which have the type of `y`: `run`
                // answers what is declared.
                unsafe {
                    let to = *row.add(asked.operands.len() + i);
                    std::ptr::copy_nonoverlapping(y.bytes().as_ptr(), to, y.ty().bytes());
                }
            }
            Ok(())
        };
        match run() {
            Ok(()) => answered = true,
            Err(problem) => *outside.failed.borrow_mut() = Some(problem.at(asked.location)),
        }
    });
    if answered { caught } else { PANICKED }
}
