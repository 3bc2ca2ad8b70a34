//! Shadow memory: the buffer version that each byte of memory holds.
//!
//! Every byte that a program may write is tagged with the buffer version whose element was stored there last, and
//! every load names the version that it expects. So every memory fault shows at the load that finds a wrong value: an
//! update that takes over memory that is still read, a buffer whose lifetime begins before that of another one at the
//! same place ends, workspace offsets that make two buffers overlap, an element that was never written. Tags are
//! independent of the numbers.
//!
//! A carry renames a value: at the end of an iteration the tags of the elements of `output` become those of `input`,
//! and the rest of its memory loses its tags. A call has tags of its own, which become the caller's for the results.
//!
//! Besides its tag, a byte records the times of its last write and read. If the iterations of a loop are claimed to
//! be independent, no iteration may access bytes that another one has written, nor write bytes that another one has
//! read.

use super::memory::{Memory, Pointer, filled, lengthen};
use crate::loop_ir::{BufferId, BufferVersion, Cursor, Kernel, Place};
use cranelift_entity::SecondaryMap;
use std::fmt;
use tapeloom_ir::Problem;

/// The last stored element of a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag {
    /// The run of a kernel, counted from the beginning.
    run: u32,
    held: BufferVersion,
}

/// The state of a byte.
#[derive(Clone, Copy)]
struct Cell {
    tag: Option<Tag>,
    /// The time of the last write.
    written: u32,
    /// The time of the last read, or of a read in another independent iteration.
    read: u32,
}

/// An unfinished run of a kernel.
struct Run<'a> {
    k: &'a Kernel,
    number: u32,
    /// The time at which the run began.
    began: u32,
    /// For each version of a buffer, the version that continues it, if that has stored an element.
    ended: SecondaryMap<BufferId, Vec<Option<u32>>>,
}

/// An unfinished loop: the times at which the loop and its current iteration began.
struct Loop {
    independent: bool,
    began: u32,
    iteration: u32,
}

/// The tags of a run.
pub(super) struct Shadow<'a> {
    cells: Vec<Vec<Cell>>,
    runs: Vec<Run<'a>>,
    loops: Vec<Loop>,
    /// The number of kernel runs so far.
    number: u32,
    /// The clock: the number of iterations, loops and kernel runs so far.
    clock: u32,
}

impl<'a> Shadow<'a> {
    pub(super) fn of(memory: &Memory<'_>) -> Result<Shadow<'a>, Problem> {
        let cells = memory.writable().map(|n| filled(Cell { tag: None, written: 0, read: 0 }, n));
        let cells = cells.collect::<Result<_, _>>()?;
        Ok(Shadow { cells, runs: Vec::new(), loops: Vec::new(), number: 0, clock: 0 })
    }

    /// Begins the run of a kernel.
    pub(super) fn enter(&mut self, k: &'a Kernel) {
        self.tick();
        self.number = self.number.saturating_add(1);
        let mut run = Run { k, number: self.number, began: self.clock, ended: SecondaryMap::new() };
        for id in k.buffers.keys() {
            run.ended[id] = vec![None; k.versions[id].len() + 1];
        }
        self.runs.push(run);
    }

    /// Tags the bytes of a buffer of the program that is zeroed at the start with its first version.
    pub(super) fn zeroed(&mut self, buffer: BufferId, at: Pointer, bytes: usize) {
        let held = BufferVersion::first(buffer);
        let tag = Some(Tag { run: self.number, held });
        self.cells[at.region].iter_mut().skip(at.byte).take(bytes).for_each(|c| c.tag = tag);
    }

    /// Ends the run of a kernel.
    pub(super) fn leave(&mut self) {
        self.runs.pop();
        self.tick();
    }

    /// Adds bytes of a record, which hold no value yet.
    pub(super) fn clear(&mut self, at: Pointer, bytes: usize) -> Result<(), Problem> {
        let nothing = Cell { tag: None, written: 0, read: 0 };
        let cells = &mut self.cells[at.region];
        lengthen(cells, nothing, at.byte.saturating_add(bytes))?;
        cells[at.byte..][..bytes].fill(nothing);
        Ok(())
    }

    pub(super) fn begin_loop(&mut self, independent: bool) {
        self.tick();
        self.loops.push(Loop { independent, began: self.clock, iteration: self.clock });
    }

    pub(super) fn begin_iteration(&mut self) {
        self.tick();
        if let Some(l) = self.loops.last_mut() {
            l.iteration = self.clock;
        }
    }

    pub(super) fn end_loop(&mut self) {
        self.loops.pop();
        self.tick();
    }

    /// Returns the current time.
    pub(super) fn now(&self) -> u32 {
        self.clock
    }

    fn tick(&mut self) {
        self.clock = self.clock.saturating_add(1);
    }

    /// Checks a read of an element of version `meant`. Arguments of the whole program
    /// have no cells, since they are never written.
    pub(super) fn read(
        &mut self,
        meant: BufferVersion,
        at: Pointer,
        i: usize,
    ) -> Result<(), Problem> {
        let Some(run) = self.runs.last() else { return Ok(()) };
        let k = run.k;
        let size = k.buffers[meant.buffer].ty.dtype.bytes();
        if let Some(by) = run.ended(meant) {
            return Err(wrong(k, format!("{meant}[{i}] is read, but {by} has taken it over")));
        }
        let (donated, operand) = match k.buffers[meant.buffer].place {
            Place::Input(_) => (true, true),
            Place::Donated { .. } => (run.continues_to(meant, 0), false),
            // The record may have been written in any run of any kernel.
            Place::Record { cursor, .. } => (false, k.cursors[cursor] == Cursor::Reads),
            Place::Output(_) | Place::Workspace(_) => (false, false),
        };
        let record = operand && !donated;
        let Some(cells) = self.cells[at.region].get_mut(at.byte + i * size..) else {
            return Ok(());
        };
        for cell in cells.iter_mut().take(size) {
            match cell.tag {
                _ if donated && cell.written < run.began => {}
                Some(_) if record => {}
                Some(found) if !operand && run.matches(meant, found) => {}
                Some(found) => {
                    let found = run.name(found);
                    let message = format!("{meant}[{i}] is read where {found} was written since");
                    return Err(wrong(k, message));
                }
                None => {
                    let message = format!("{meant}[{i}] is read before anything was written there");
                    return Err(wrong(k, message));
                }
            }
            if self.loops.iter().any(|l| l.elsewhere(cell.written)) {
                let message = format!(
                    "{meant}[{i}] is read in an iteration that claims to be independent of the one that wrote it"
                );
                return Err(wrong(k, message));
            }
            // Remember a read in another independent iteration: this iteration must not write the byte.
            if !self.loops.iter().any(|l| l.elsewhere(cell.read)) {
                cell.read = self.clock;
            }
        }
        Ok(())
    }

    /// Checks and records a write of an element of version `meant`.
    pub(super) fn write(
        &mut self,
        meant: BufferVersion,
        at: Pointer,
        i: usize,
    ) -> Result<(), Problem> {
        let clock = self.clock;
        let Some(run) = self.runs.last_mut() else { return Ok(()) };
        let k = run.k;
        if let Some(by) = run.ended(meant) {
            return Err(wrong(k, format!("{meant}[{i}] is written, but {by} has taken it over")));
        }
        if let Some(before) = before(k, meant)
            && let Some(by) = run.ended[meant.buffer].get_mut(before.version as usize)
        {
            *by = Some(meant.version);
        }
        let tag = Tag { run: run.number, held: meant };
        let size = k.buffers[meant.buffer].ty.dtype.bytes();
        for cell in self.cells[at.region].iter_mut().skip(at.byte + i * size).take(size) {
            if self.loops.iter().any(|l| l.elsewhere(cell.written) || l.elsewhere(cell.read)) {
                let message = format!(
                    "{meant}[{i}] is written in an iteration that claims to be independent of the one that touched it before"
                );
                return Err(wrong(k, message));
            }
            *cell = Cell { tag: Some(tag), written: clock, read: cell.read };
        }
        Ok(())
    }

    /// After the return of a callee that began at `began`, tags the elements that it wrote as the caller's.
    pub(super) fn adopt_results(
        &mut self,
        held: BufferVersion,
        at: Pointer,
        i: usize,
        began: u32,
    ) -> Result<(), Problem> {
        let Some(run) = self.runs.last() else { return Ok(()) };
        let size = run.k.buffers[held.buffer].ty.dtype.bytes();
        let since = |c: &Cell| c.written > began;
        let mut cells = self.cells[at.region].iter().skip(at.byte + i * size).take(size);
        if cells.all(since) { self.write(held, at, i) } else { Ok(()) }
    }

    /// Ends an iteration: the elements of `output`, in its memory `full`, become elements of `input`. The memory
    /// `other` that held `input`, which may be the same, loses its tags.
    pub(super) fn carry_over(
        &mut self,
        input: BufferVersion,
        output: BufferVersion,
        full: Pointer,
        other: Pointer,
        bytes: usize,
    ) {
        let Some(run) = self.runs.last_mut() else { return };
        let tag = Tag { run: run.number, held: input };
        if full != other {
            self.cells[other.region]
                .iter_mut()
                .skip(other.byte)
                .take(bytes)
                .for_each(|c| c.tag = None);
        }
        for cell in self.cells[full.region].iter_mut().skip(full.byte).take(bytes) {
            match cell.tag {
                Some(found) if run.matches(output, found) => cell.tag = Some(tag),
                Some(found) if found.run == run.number && found.held.buffer == output.buffer => {
                    cell.tag = None;
                }
                Some(_) | None => {}
            }
        }
        for buffer in [input.buffer, output.buffer] {
            run.ended[buffer].fill(None);
        }
    }

    /// Ends a loop: the tags of `from` are copied to `home`, and `other` loses its tags.
    pub(super) fn copy_home(&mut self, from: Pointer, home: Pointer, other: Pointer, bytes: usize) {
        let cells: Vec<Cell> =
            self.cells[from.region].iter().skip(from.byte).take(bytes).copied().collect();
        self.cells[other.region].iter_mut().skip(other.byte).take(bytes).for_each(|c| c.tag = None);
        for (cell, copied) in self.cells[home.region].iter_mut().skip(home.byte).zip(cells) {
            *cell = copied;
        }
    }
}

impl Loop {
    /// Whether the loop is independent and was in an earlier iteration at time `when`.
    fn elsewhere(&self, when: u32) -> bool {
        self.independent && when >= self.began && when < self.iteration
    }
}

impl Run<'_> {
    /// Returns the version that has taken over a value.
    fn ended(&self, held: BufferVersion) -> Option<BufferVersion> {
        let version = self.ended[held.buffer].get(held.version as usize).copied().flatten()?;
        Some(BufferVersion { version, ..held })
    }

    /// Whether a version is `held` or a version that `held` continues.
    fn continues_to(&self, held: BufferVersion, version: u32) -> bool {
        std::iter::successors(Some(held), |held| before(self.k, *held))
            .any(|h| h.version == version)
    }

    /// Whether an element of `found` is an element of `meant`.
    fn matches(&self, meant: BufferVersion, found: Tag) -> bool {
        let mut chain = std::iter::successors(Some(meant), |held| before(self.k, *held));
        found.run == self.number && chain.any(|held| held == found.held)
    }

    fn name(&self, tag: Tag) -> impl fmt::Display {
        let whose = if tag.run == self.number { "" } else { " of another kernel" };
        format!("{}{whose}", tag.held)
    }
}

/// Returns the version that a version updates in place.
fn before(k: &Kernel, held: BufferVersion) -> Option<BufferVersion> {
    let version = held.version.checked_sub(1)?;
    let version = k.versions[held.buffer].get(version as usize)?.continues?;
    Some(BufferVersion { version, ..held })
}

fn wrong(k: &Kernel, message: String) -> Problem {
    Problem::internal(format!("memory of kernel @{}: {message}", k.name))
}
