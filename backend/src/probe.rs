//! Probes: what a program reports while it runs.
//!
//! A `probe` statement hands elements to whoever called the program, in the order in which statements
//! run. It shows that order is kept; what else needs the outside world during a call can go the same
//! way: generated code calls [`probe`] with the context of its [record](crate::record), and the context
//! knows who listens.

#![expect(unsafe_code, reason = "reads elements through pointers from generated code")]

use crate::gemm::status;
use crate::kernel::Listener;
use crate::record::Context;
use tapeloom_ir::{Dtype, Literal};

/// Reports consecutive elements.
///
/// # Safety
/// `context` is that of the call, whose listener, if there is one, nobody else uses meanwhile; `data`
/// points to so many elements of the dtype of that name ([`code`]).
pub(crate) unsafe extern "C" fn probe(
    context: *const Context,
    number: i64,
    dtype: i64,
    data: *const u8,
    elements: i64,
) -> i32 {
    status(|| {
        // SAFETY: by the contract of this function.
        let (listener, bytes, dtype) = unsafe {
            let listener = (*context).listener.cast::<Listener<'_>>().as_mut();
            let dtype = Dtype::ALL[dtype as usize];
            let bytes = std::slice::from_raw_parts(data, elements as usize * dtype.bytes());
            (listener, bytes, dtype)
        };
        let literal = |x: &[u8]| {
            let mut bits = [0; 8];
            bits[..x.len()].copy_from_slice(x);
            Literal { dtype, bits: u64::from_le_bytes(bits) }
        };
        if let Some(listener) = listener {
            let all: Vec<Literal> = bytes.chunks_exact(dtype.bytes()).map(literal).collect();
            listener(number as u32, &all);
        }
    })
}

/// The number by which generated code names a dtype.
pub(crate) fn code(dtype: Dtype) -> i64 {
    Dtype::ALL.iter().position(|d| *d == dtype).unwrap_or(0) as i64
}
