//! The order of elements, called by generated code in place of the kernel that says what it is.

#![expect(unsafe_code, reason = "reads and writes elements through pointers from generated code")]

use crate::runtime::gemm::{PANICKED, status};
use std::slice;
use tapeloom_routines::{Key, Order};

/// The words that generated code hands over to [`order`].
pub(crate) fn describe(order: Order) -> Vec<i64> {
    let Order { key, rows, n, columns, first, descending } = order;
    let key = Key::ALL.iter().position(|k| *k == key).unwrap_or(Key::ALL.len());
    let sizes = [key, rows, n, columns, first].map(|size| size as i64);
    sizes.into_iter().chain([i64::from(descending)]).collect()
}

/// Writes the places of elements in order, and gives a status.
///
/// # Safety
/// `description` points to the words of [`describe`]; `x` to the elements of that order, `places` to as many
/// places and `scratch` to as many words as it needs, aligned to their types. No byte of the latter two is
/// anybody else's.
pub(crate) unsafe extern "C" fn order(
    description: *const i64,
    x: *const u8,
    places: *mut i64,
    scratch: *mut u64,
) -> i32 {
    let mut found = false;
    let caught = status(|| {
        // SAFETY: by the contract of this function.
        let words: [i64; 6] = unsafe { *description.cast() };
        let [key, rows, n, columns, first, descending] = words.map(|word| word as usize);
        let Some(key) = Key::ALL.get(key).copied() else { return };
        let order = Order { key, rows, n, columns, first, descending: descending != 0 };
        // The verifier has multiplied them.
        let around = rows * columns;
        // SAFETY: by the contract of this function.
        let (x, places, scratch) = unsafe {
            (
                slice::from_raw_parts(x, around * n * key.bytes()),
                slice::from_raw_parts_mut(places, around * first),
                slice::from_raw_parts_mut(scratch, order.scratch_words()),
            )
        };
        found = order.run(x, places, scratch);
    });
    if found { caught } else { PANICKED }
}
