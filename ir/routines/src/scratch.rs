//! Pieces of the scratch buffer: typed arrays from its front, the rest as a stack for faer.
//!
//! The only unsafe code of the crate is [`Scratch::stack`].

use std::mem::MaybeUninit;

use bytemuck::Pod;
use faer::dyn_stack::{MemStack, StackReq};

use crate::real::Failed;

/// Every piece starts at a multiple of this number of bytes, a cache line.
const ALIGNMENT: usize = 64;

/// The part of a scratch buffer that has not been taken yet.
pub(crate) struct Scratch<'a> {
    rest: &'a mut [u8],
}

impl<'a> Scratch<'a> {
    /// Returns the whole buffer, from which nothing has been taken.
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Scratch { rest: bytes }
    }

    /// Returns the next `length` numbers of the buffer; they may have numbers of an earlier run.
    pub(crate) fn take<T: Pod>(&mut self, length: usize) -> Result<&'a mut [T], Failed> {
        let bytes = std::mem::take(&mut self.rest);
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        let (_, bytes) = bytes.split_at_mut_checked(start).ok_or(Failed)?;
        let size = length.checked_mul(size_of::<T>()).ok_or(Failed)?;
        let (piece, rest) = bytes.split_at_mut_checked(size).ok_or(Failed)?;
        self.rest = rest;
        bytemuck::try_cast_slice_mut(piece).map_err(|_| Failed)
    }

    /// Returns the remaining bytes as a stack for faer's functions.
    #[allow(unsafe_code)]
    pub(crate) fn stack(self) -> &'a mut MemStack {
        let bytes: *mut [u8] = self.rest;
        // SAFETY: the pointer comes from a unique reference of the same lifetime, and the two types have the
        // same layout. A later reader of these bytes requires them to be initialised: faer stores numbers and
        // indices without padding on the stack, and does not deinitialise other bytes.
        let bytes = unsafe { &mut *(bytes as *mut [MaybeUninit<u8>]) };
        MemStack::new(bytes)
    }
}

/// The size of a scratch buffer, piece by piece in the order of the calls on [`Scratch`].
#[derive(Clone, Copy)]
pub(crate) struct Need {
    bytes: Option<usize>,
}

impl Need {
    /// Returns the size of an empty list of pieces.
    pub(crate) fn new() -> Self {
        Need { bytes: Some(0) }
    }

    /// Adds a typed array.
    pub(crate) fn array<T>(self, length: usize) -> Self {
        self.more(length.checked_mul(size_of::<T>()))
    }

    /// Adds a stack for one of faer's functions.
    pub(crate) fn stack(self, request: StackReq) -> Self {
        let fits = request.layout().is_ok();
        self.more(fits.then(|| request.unaligned_bytes_required()))
    }

    /// Returns the pieces of this list, then those of `other`.
    pub(crate) fn and(self, other: Need) -> Self {
        self.more(other.bytes)
    }

    fn more(self, bytes: Option<usize>) -> Self {
        let sum = || {
            let rounded = bytes?.checked_next_multiple_of(ALIGNMENT)?;
            self.bytes?.checked_add(rounded)
        };
        Need { bytes: sum() }
    }

    /// Returns the bytes of all pieces, for any alignment of the buffer; `None` if they exceed `isize::MAX`.
    pub(crate) fn bytes(self) -> Option<usize> {
        match self.bytes? {
            0 => Some(0),
            bytes => {
                bytes.checked_add(ALIGNMENT).filter(|&bytes| bytes <= isize::MAX.unsigned_abs())
            }
        }
    }
}
