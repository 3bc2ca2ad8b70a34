//! Limits on sizes that depend on the width of addresses.
//!
//! Limits are powers of two that no array reaches on machines with addresses of 64 bits. On narrower machines, such as
//! wasm32, the limit is the largest size of an array in memory instead.

/// Returns 2 to the power `exponent`, or the largest size of an array in bytes if that is less, on this machine.
pub const fn limit(exponent: u32) -> usize {
    // The cast is exact, because the result is at most `isize::MAX`.
    limit_for(exponent, usize::BITS) as usize
}

/// Returns [`limit`] on a machine with addresses of `width` bits.
///
/// ```
/// use tapeloom_ir::address_space::limit_for;
/// assert_eq!([64, 32, 16].map(|width| limit_for(60, width)), [1 << 60, 0x7fff_ffff, 0x7fff]);
/// assert_eq!([64, 32, 16].map(|width| limit_for(24, width)), [1 << 24, 1 << 24, 0x7fff]);
/// ```
pub const fn limit_for(exponent: u32, width: u32) -> u64 {
    let (power, largest) = (1 << exponent, (1 << (width - 1)) - 1);
    if power < largest { power } else { largest }
}
