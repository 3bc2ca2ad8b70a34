//! The argsort that generated code calls. A kernel in the loop IR defines its meaning; the interpreters run that kernel
//! instead.

#![expect(unsafe_code, reason = "reads and writes elements through pointers from generated code")]

use crate::runtime::gemm::{PANICKED, status};
use std::slice;
use tapeloom_routines::{Argsort, Key};

/// Returns the six numbers (key, sizes, order) that generated code passes to [`argsort`] as `description`.
pub(crate) fn describe(of: Argsort) -> Vec<i64> {
    let Argsort { key, rows, n, columns, first, descending } = of;
    let key = Key::ALL.iter().position(|k| *k == key).unwrap_or(Key::ALL.len());
    let sizes = [key, rows, n, columns, first].map(|size| size as i64);
    sizes.into_iter().chain([i64::from(descending)]).collect()
}

/// Writes to `places` the indices of the elements in sorted order, and returns a status (0: success).
///
/// # Safety
/// `description` points to the words of [`describe`]. `x`, `places` and `scratch` point to memory of the sizes that the
/// description gives, aligned to their types. No other access to `places` and `scratch` happens meanwhile.
pub(crate) unsafe extern "C" fn argsort(
    description: *const i64,
    x: *const u8,
    places: *mut i64,
    scratch: *mut u64,
) -> i32 {
    let mut found = false;
    let caught = status(|| {
        // SAFETY: by the contract of this function, `description` points to the six words of [`describe`].
        let words: [i64; 6] = unsafe { *description.cast() };
        let [key, rows, n, columns, first, descending] = words.map(|word| word as usize);
        let Some(key) = Key::ALL.get(key).copied() else { return };
        let of = Argsort { key, rows, n, columns, first, descending: descending != 0 };
        // The verifier has checked that the number of sorted sequences, `rows * columns`, does not overflow.
        let around = rows * columns;
        // SAFETY: by the contract of this function, `x`, `places` and `scratch` point to memory of these sizes, and no
        // other code accesses `places` and `scratch`.
        let (x, places, scratch) = unsafe {
            (
                slice::from_raw_parts(x, around * n * key.bytes()),
                slice::from_raw_parts_mut(places, around * first),
                slice::from_raw_parts_mut(scratch, of.scratch_words()),
            )
        };
        found = of.run(x, places, scratch);
    });
    if found { caught } else { PANICKED }
}
