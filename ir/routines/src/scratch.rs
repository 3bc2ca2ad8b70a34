//! The scratch buffer of a call: typed arrays are taken from its front, and the rest becomes a stack for faer.
//!
//! Unsafe code of the crate is here, in [`Scratch::stack`], and in [`row`](crate::row).

use std::mem::MaybeUninit;

use bytemuck::Pod;
use faer::dyn_stack::{MemStack, StackReq};

use crate::real::Failed;

/// The alignment in bytes of every array that is taken from a scratch buffer: a cache line.
const ALIGNMENT: usize = 64;

/// The rest of a scratch buffer, from which no array has been taken yet.
pub(crate) struct Scratch<'a> {
    rest: &'a mut [u8],
}

impl<'a> Scratch<'a> {
    /// Wraps the whole scratch buffer.
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Scratch { rest: bytes }
    }

    /// Takes the next `length` numbers of the buffer; they hold values of earlier calls.
    pub(crate) fn take<T: Pod>(&mut self, length: usize) -> Result<&'a mut [T], Failed> {
        let bytes = std::mem::take(&mut self.rest);
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        let (_, bytes) = bytes.split_at_mut_checked(start).ok_or(Failed)?;
        let size = length.checked_mul(size_of::<T>()).ok_or(Failed)?;
        let (piece, rest) = bytes.split_at_mut_checked(size).ok_or(Failed)?;
        self.rest = rest;
        bytemuck::try_cast_slice_mut(piece).map_err(|_| Failed)
    }

    /// Turns the rest of the buffer into a stack for faer's functions.
    #[allow(unsafe_code)]
    pub(crate) fn stack(self) -> &'a mut MemStack {
        let bytes: *mut [u8] = self.rest;
        // SAFETY: `bytes` comes from a unique reference of the same lifetime, and `u8` and `MaybeUninit<u8>` have the
        // same layout. All bytes stay initialised, which later borrowers of the buffer as `[u8]` require, because faer
        // stores only numbers and indices without padding on the stack, and does not deinitialise other bytes.
        let bytes = unsafe { &mut *(bytes as *mut [MaybeUninit<u8>]) };
        MemStack::new(bytes)
    }
}

/// The required size of a scratch buffer, computed by listing the arrays that a routine takes from it, in the order of
/// the calls on [`Scratch`].
#[derive(Clone, Copy)]
pub(crate) struct ScratchSize {
    bytes: Option<usize>,
}

impl ScratchSize {
    /// Returns the size of a scratch buffer from which no array is taken: 0 bytes.
    pub(crate) fn new() -> Self {
        ScratchSize { bytes: Some(0) }
    }

    /// Adds the bytes of an array of `length` numbers of type `T`, taken after those that are already listed.
    pub(crate) fn array<T>(self, length: usize) -> Self {
        self.more(length.checked_mul(size_of::<T>()))
    }

    /// Adds the bytes of a stack, of the size that one of faer's functions requests.
    pub(crate) fn stack(self, request: StackReq) -> Self {
        let fits = request.layout().is_ok();
        self.more(fits.then(|| request.unaligned_bytes_required()))
    }

    /// Adds the arrays that are listed in `other`.
    pub(crate) fn and(self, other: ScratchSize) -> Self {
        self.more(other.bytes)
    }

    fn more(self, bytes: Option<usize>) -> Self {
        let sum = || {
            let rounded = bytes?.checked_next_multiple_of(ALIGNMENT)?;
            self.bytes?.checked_add(rounded)
        };
        ScratchSize { bytes: sum() }
    }

    /// Returns the number of bytes of all listed arrays, sufficient for any alignment of the buffer; `None` if it
    /// exceeds `isize::MAX`.
    pub(crate) fn bytes(self) -> Option<usize> {
        match self.bytes? {
            0 => Some(0),
            bytes => {
                bytes.checked_add(ALIGNMENT).filter(|&bytes| bytes <= isize::MAX.unsigned_abs())
            }
        }
    }
}
