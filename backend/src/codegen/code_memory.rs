//! Memory of machine code: one mapping for each program.
//!
//! Instructions reach functions and constants of their own program by distances of 32 bits. So everything
//! that a program consists of lies in one mapping of at most [`LARGEST`] bytes, however the rest of the
//! address space is laid out: two mappings may lie terabytes apart once a process holds large arrays and has
//! freed small ones. The mapping is writable while the program is copied into it and then executable, never
//! both. Constants lie beside the code, where Cranelift puts those of vectors, too, so that mappings of
//! neighbouring programs have equal protection and the system merges them: tens of thousands of programs
//! are a few dozen mappings, of which a process may have 65,530.

#![expect(unsafe_code, reason = "memory that becomes executable")]

use cranelift_jit::{BranchProtection, JITMemoryKind, JITMemoryProvider};
use cranelift_module::{ModuleError, ModuleResult};
use region::{Allocation, Protection};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes of a program: distances within it fit in 32 bits with a sign.
pub(super) const LARGEST: usize = 1 << 30;

/// Pages for the functions and constants of one program; freed on drop.
pub(super) struct CodeMemory {
    pages: Allocation,
    used: usize,
}

// SAFETY: an `Allocation` is an address and a size, which any thread may read and which one owner frees.
unsafe impl Send for CodeMemory {}
// SAFETY: behind a shared reference nothing of it changes.
unsafe impl Sync for CodeMemory {}

impl CodeMemory {
    /// Maps writable pages of that many bytes.
    pub(super) fn new(bytes: usize) -> io::Result<CodeMemory> {
        if bytes > LARGEST {
            return Err(io::Error::other(format!("a program has at most {LARGEST} bytes of code")));
        }
        let pages = region::alloc(bytes, Protection::READ_WRITE).map_err(io::Error::other)?;
        Ok(CodeMemory { pages, used: 0 })
    }

    /// Takes bytes of the mapping that were not taken before.
    pub(super) fn take(&mut self, bytes: usize, align: usize) -> Option<*mut u8> {
        // Larger alignments than that of the mapping itself are not kept by an offset.
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
        // SAFETY: the pages belong to `self` alone, and nothing writes to them from here on: `take` is
        // only called before.
        unsafe { region::protect(start, bytes, Protection::READ_EXECUTE) }
            .map_err(io::Error::other)?;
        flush_pipelines()
    }
}

/// The memory of a module: absent until it is known how many bytes the module has. The module and the
/// program hold it together, so that the program has it when the module is gone.
#[derive(Clone, Default)]
pub(super) struct SharedMemory(Arc<Mutex<Option<CodeMemory>>>);

impl SharedMemory {
    /// Gives the module its memory.
    pub(super) fn put(&self, memory: CodeMemory) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
    }

    /// Takes the memory out, when the module is finished.
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

    // SAFETY: `JITModule::free_memory` asks its caller that no code of the module runs.
    unsafe fn free_memory(&mut self) {
        drop(self.take());
    }

    // No target has branch protection switched on (`crate::target`).
    fn finalize(&mut self, _: BranchProtection) -> ModuleResult<()> {
        self.with(CodeMemory::finish).map_err(|err| ModuleError::Allocation { err })
    }
}

/// x86 and s390x see new instructions where they are written; other processors need to be asked.
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
    // SAFETY: the bytes are mapped; `flush_pipelines` follows.
    unsafe { wasmtime_jit_icache_coherence::clear_cache(start.cast(), bytes) }
        .map_err(|e| io::Error::other(e.to_string()))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "s390x")))]
fn flush_pipelines() -> io::Result<()> {
    wasmtime_jit_icache_coherence::pipeline_flush_mt().map_err(|e| io::Error::other(e.to_string()))
}
