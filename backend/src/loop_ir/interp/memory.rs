//! The memory of an interpreter run: workspace, arguments, results and dynamic tapes.

use std::borrow::Cow;
use tapeloom_ir::{Dtype, Literal, Problem};

/// The address of a byte in a memory region of the interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Pointer {
    /// The index of the region in `Memory::regions`; the workspace is region 0.
    pub(super) region: usize,
    /// The offset in the region, in bytes.
    pub(super) byte: usize,
    /// The address that the observer assigned to this byte; it does not affect results.
    pub(super) address: u64,
}

impl Pointer {
    /// Returns the address of the byte that lies `bytes` bytes after this byte.
    pub(super) fn at(self, bytes: usize) -> Pointer {
        let (byte, address) = (self.byte + bytes, self.address.wrapping_add(bytes as u64));
        Pointer { byte, address, ..self }
    }
}

/// Regions of bytes: the workspace, and one region for each argument, result and dynamic tape.
pub(super) struct Memory<'a> {
    regions: Vec<Cow<'a, [u8]>>,
}

impl<'a> Memory<'a> {
    pub(super) fn new(workspace: Vec<u8>) -> Memory<'a> {
        Memory { regions: vec![Cow::Owned(workspace)] }
    }

    /// Adds a writable region, and returns the address of its first byte.
    pub(super) fn add(&mut self, bytes: Vec<u8>) -> Pointer {
        self.regions.push(Cow::Owned(bytes));
        Pointer { region: self.regions.len() - 1, ..Pointer::default() }
    }

    /// Grows a writable region to at least `bytes` bytes; the new bytes have the value 0xa5.
    pub(super) fn grow(&mut self, region: usize, bytes: usize) -> Result<(), Problem> {
        let Cow::Owned(all) = &mut self.regions[region] else {
            return Err(Problem::internal("an argument grows"));
        };
        lengthen(all, 0xa5, bytes)
    }

    /// Adds a read-only region, which borrows the bytes of an argument. Returns the address of its first byte.
    pub(super) fn add_read_only(&mut self, bytes: &'a [u8]) -> Pointer {
        self.regions.push(Cow::Borrowed(bytes));
        Pointer { region: self.regions.len() - 1, ..Pointer::default() }
    }

    /// Returns the number of bytes of each region that is writable, and 0 for each read-only region.
    pub(super) fn writable(&self) -> impl Iterator<Item = usize> {
        self.regions.iter().map(|r| match r {
            Cow::Owned(bytes) => bytes.len(),
            Cow::Borrowed(_) => 0,
        })
    }

    /// Returns the `i`-th element of the array that begins at the address `at`.
    pub(super) fn read(&self, at: Pointer, dtype: Dtype, i: usize) -> Literal {
        let size = dtype.bytes();
        let mut bits = [0; 8];
        bits[..size].copy_from_slice(&self.regions[at.region][at.byte + i * size..][..size]);
        Literal { dtype, bits: u64::from_le_bytes(bits) }
    }

    pub(super) fn write(&mut self, at: Pointer, i: usize, x: Literal) -> Result<(), Problem> {
        let size = x.dtype.bytes();
        let Cow::Owned(bytes) = &mut self.regions[at.region] else {
            return Err(Problem::internal("an argument is written"));
        };
        bytes[at.byte + i * size..][..size].copy_from_slice(&x.bits.to_le_bytes()[..size]);
        Ok(())
    }

    pub(super) fn copy(&mut self, from: Pointer, to: Pointer, count: usize) {
        let bytes = self.regions[from.region][from.byte..][..count].to_vec();
        if let Cow::Owned(target) = &mut self.regions[to.region] {
            target[to.byte..][..count].copy_from_slice(&bytes);
        }
    }
}

/// Returns a vector of `n` copies of `value`; an error if there is not enough memory.
pub(super) fn filled<T: Clone>(value: T, n: usize) -> Result<Vec<T>, Problem> {
    let mut all = Vec::new();
    lengthen(&mut all, value, n)?;
    Ok(all)
}

/// If a vector is shorter than `n` elements, extends it to this length by copies of `value`; returns an error if
/// there is not enough memory.
pub(super) fn lengthen<T: Clone>(all: &mut Vec<T>, value: T, n: usize) -> Result<(), Problem> {
    if all.try_reserve(n.saturating_sub(all.len())).is_err() {
        let bytes = n.saturating_mul(size_of::<T>());
        return Err(crate::no_memory("the interpreter of kernels", bytes));
    }
    if n > all.len() {
        all.resize(n, value);
    }
    Ok(())
}
