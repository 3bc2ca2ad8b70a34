//! Memory of machine code: one mapping of pages for each program.
//!
//! Instructions address functions and constants of their own program by 32-bit distances. In a process that holds
//! large arrays and has freed small ones, two mappings may be terabytes apart. So all functions and constants of a
//! program are in one mapping of at most [`LARGEST`] bytes. The mapping is writable while the program is copied
//! into it and executable afterwards, never both. Constants are next to the code: Cranelift puts constants of
//! vectors there anyway, and mappings of neighbouring programs then have equal protection, so that the system
//! merges them. Tens of thousands of programs are a few dozen mappings; a process may have 65,530.

#![expect(unsafe_code, reason = "memory that becomes executable")]

use cranelift_jit::{BranchProtection, JITMemoryKind, JITMemoryProvider};
use cranelift_module::{ModuleError, ModuleResult};
use region::{Allocation, Protection};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest size of a program's code and constants, in bytes: distances within it fit in 32-bit signed integers.
pub(super) const LARGEST: usize = 1 << 30;

/// Pages for the functions and constants of one program; freed on drop.
pub(super) struct CodeMemory {
    pages: Allocation,
    used: usize,
}

// SAFETY: an `Allocation` is an address and a size. Any thread may read these, and only the owner frees the pages.
unsafe impl Send for CodeMemory {}
// SAFETY: no method changes the pages or the other fields through a shared reference.
unsafe impl Sync for CodeMemory {}

impl CodeMemory {
    /// Maps memory of at least `bytes` writable bytes, rounded up to whole pages.
    pub(super) fn new(bytes: usize) -> io::Result<CodeMemory> {
        if bytes > LARGEST {
            return Err(io::Error::other(format!("a program has at most {LARGEST} bytes of code")));
        }
        let pages = region::alloc(bytes, Protection::READ_WRITE).map_err(io::Error::other)?;
        Ok(CodeMemory { pages, used: 0 })
    }

    /// Returns the address of `bytes` unused bytes of the mapping, aligned to `align` bytes; `None` if too few bytes
    /// are left or `align` exceeds a page.
    pub(super) fn take(&mut self, bytes: usize, align: usize) -> Option<*mut u8> {
        // The mapping itself begins at a page, so offsets can be aligned to at most a page.
        let aligned = align <= region::page::size();
        let start = self.used.checked_next_multiple_of(align).filter(|_| aligned)?;
        let end = start.checked_add(bytes).filter(|end| *end <= self.pages.len())?;
        self.used = end;
        Some(self.pages.as_mut_ptr::<u8>().wrapping_add(start))
    }

    /// Makes the mapping executable, and no longer writable.
    fn finish(&mut self) -> io::Result<()> {
        let (start, bytes) = (self.pages.as_ptr::<u8>(), self.pages.len());
        clear_cache(start, bytes)?;
        // SAFETY: `self` owns the pages, and nothing writes to them from here on, since `take` is only called before
        // `finish`.
        unsafe { region::protect(start, bytes, Protection::READ_EXECUTE) }
            .map_err(io::Error::other)?;
        flush_pipelines()
    }
}

/// The code memory of a module; empty until the size of the module is known. The module and the program's code share
/// it, so that the memory outlives the module.
#[derive(Clone, Default)]
pub(super) struct SharedMemory(Arc<Mutex<Option<CodeMemory>>>);

impl SharedMemory {
    /// Stores the memory that the module allocates from.
    pub(super) fn put(&self, memory: CodeMemory) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
    }

    /// Removes and returns the memory, after the module is finished.
    pub(super) fn take(&self) -> Option<CodeMemory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn with<T>(&self, f: impl FnOnce(&mut CodeMemory) -> io::Result<T>) -> io::Result<T> {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.as_mut().map_or_else(|| Err(io::Error::other("a module without memory")), f)
    }
}

impl JITMemoryProvider for SharedMemory {
    fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
        match kind {
            JITMemoryKind::Executable | JITMemoryKind::ReadOnly => {}
            JITMemoryKind::Writable => return Err(io::Error::other("code has no variables")),
        }
        let align = usize::try_from(align).map_err(io::Error::other)?;
        let full = || io::Error::other("a module has more bytes than were counted");
        self.with(|memory| memory.take(size, align).ok_or_else(full))
    }

    // SAFETY: the caller guarantees that no code of the module runs any more (the contract of
    // `JITModule::free_memory`), so the pages may be freed.
    unsafe fn free_memory(&mut self) {
        drop(self.take());
    }

    // Branch protection is ignored: no target here has it switched on (`crate::target`).
    fn finalize(&mut self, _: BranchProtection) -> ModuleResult<()> {
        self.with(CodeMemory::finish).map_err(|err| ModuleError::Allocation { err })
    }
}

/// Clears the instruction cache, except on x86 and s390x, whose instruction caches are coherent with data.
#[cfg(any(target_arch = "x86_64", target_arch = "s390x"))]
fn clear_cache(_: *const u8, _: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(any(target_arch = "x86_64", target_arch = "s390x"))]
fn flush_pipelines() -> io::Result<()> {
    Ok(())
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "s390x")))]
fn clear_cache(start: *const u8, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller passes a mapping of `bytes` bytes that it owns, and calls `flush_pipelines` next.
    unsafe { wasmtime_jit_icache_coherence::clear_cache(start.cast(), bytes) }
        .map_err(|e| io::Error::other(e.to_string()))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "s390x")))]
fn flush_pipelines() -> io::Result<()> {
    wasmtime_jit_icache_coherence::pipeline_flush_mt().map_err(|e| io::Error::other(e.to_string()))
}
