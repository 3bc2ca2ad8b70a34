//! The memory of a run of the interpreter: the workspace, arguments, results.

use std::borrow::Cow;
use tapeloom_ir::{Dtype, Literal, Problem};

/// Where something lies: a place in a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Pointer {
    /// Which region; the workspace is the first.
    pub(super) region: usize,
    /// Bytes from its beginning.
    pub(super) byte: usize,
    /// Where that is for whoever observes the run.
    pub(super) address: u64,
}

impl Pointer {
    /// So many bytes behind it.
    pub(super) fn at(self, bytes: usize) -> Pointer {
        let (byte, address) = (self.byte + bytes, self.address.wrapping_add(bytes as u64));
        Pointer { byte, address, ..self }
    }
}

/// Regions of bytes, one for each argument and result.
pub(super) struct Memory<'a> {
    regions: Vec<Cow<'a, [u8]>>,
}

impl<'a> Memory<'a> {
    pub(super) fn new(workspace: Vec<u8>) -> Memory<'a> {
        Memory { regions: vec![Cow::Owned(workspace)] }
    }

    /// A region that may be written.
    pub(super) fn add(&mut self, bytes: Vec<u8>) -> Pointer {
        self.regions.push(Cow::Owned(bytes));
        Pointer { region: self.regions.len() - 1, ..Pointer::default() }
    }

    /// Makes a region that may be written longer.
    pub(super) fn grow(&mut self, region: usize, bytes: usize) -> Result<(), Problem> {
        let Cow::Owned(all) = &mut self.regions[region] else {
            return Err(Problem::internal("an argument grows"));
        };
        lengthen(all, 0xa5, bytes)
    }

    /// A region that is only read.
    pub(super) fn lend(&mut self, bytes: &'a [u8]) -> Pointer {
        self.regions.push(Cow::Borrowed(bytes));
        Pointer { region: self.regions.len() - 1, ..Pointer::default() }
    }

    /// Bytes of each region that may be written; 0 for others.
    pub(super) fn writable(&self) -> impl Iterator<Item = usize> {
        self.regions.iter().map(|r| match r {
            Cow::Owned(bytes) => bytes.len(),
            Cow::Borrowed(_) => 0,
        })
    }

    /// The i-th element of an array.
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

/// That many of one value.
pub(super) fn filled<T: Clone>(value: T, n: usize) -> Result<Vec<T>, Problem> {
    let mut all = Vec::new();
    lengthen(&mut all, value, n)?;
    Ok(all)
}

/// Makes it that long, if it is shorter.
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
