//! Shadow memory: records for each byte of memory which buffer version it holds.
//!
//! Every byte that a program may write is tagged with the buffer version whose element was stored there last, and
//! every load names the version that it expects. So every memory fault shows at the load that finds a wrong value: an
//! update in place of memory that is still read, a buffer whose lifetime begins before that of another buffer at the
//! same place ends, workspace offsets that make two buffers overlap, an element that was never written. Tags do not
//! depend on the values of elements.
//!
//! A carry renames a value: at the end of an iteration the tags of the elements of `output` become tags of `input`,
//! and the rest of that memory loses its tags. A called kernel has tags of its own; when it returns, those of its
//! results become tags of the caller.
//!
//! Besides its tag, a byte records the times of its last write and read. If the iterations of a loop are claimed to
//! be independent, no iteration may access bytes that another iteration has written, nor write bytes that another
//! iteration has read.

use super::memory::{Memory, Pointer, filled, lengthen};
use crate::loop_ir::{BufferId, BufferVersion, Cursor, Kernel, Place};
use cranelift_entity::SecondaryMap;
use std::fmt;
use tapeloom_ir::Problem;

/// The tag of a byte of memory: the buffer version to which the last store to the byte belongs, and the run of a kernel
/// that executed this store.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag {
    /// The number of the kernel run, counted from the start of the program run.
    run: u32,
    held: BufferVersion,
}

/// The shadow state of one byte of memory: its tag, and the times of its last accesses.
#[derive(Clone, Copy)]
struct Cell {
    tag: Option<Tag>,
    /// The time (`Shadow::clock`) of the last write to the byte.
    written: u32,
    /// The time (`Shadow::clock`) of the last read of the byte. If an earlier read was in another iteration of an
    /// independent loop, the time of that earlier read.
    read: u32,
}

/// A run of a kernel that has not returned yet.
struct Run<'a> {
    k: &'a Kernel,
    number: u32,
    /// The time (`Shadow::clock`) at which the run of the kernel began.
    began: u32,
    /// For each version of a buffer: the number of the version that updates it in place, once an element of the
    /// update has been stored.
    ended: SecondaryMap<BufferId, Vec<Option<u32>>>,
}

/// A loop that has not ended yet, and the times (`Shadow::clock`) at which it and its current iteration began.
struct Loop {
    independent: bool,
    began: u32,
    iteration: u32,
}

/// The shadow memory of a program run: a tag for each byte, and the unfinished kernel runs and loops.
pub(super) struct Shadow<'a> {
    cells: Vec<Vec<Cell>>,
    runs: Vec<Run<'a>>,
    loops: Vec<Loop>,
    /// The number of kernel runs that have begun so far in the program run.
    number: u32,
    /// The clock, which advances whenever an iteration begins, and whenever a loop or a kernel run begins or ends.
    clock: u32,
}

impl<'a> Shadow<'a> {
    pub(super) fn of(memory: &Memory<'_>) -> Result<Shadow<'a>, Problem> {
        let cells = memory.writable().map(|n| filled(Cell { tag: None, written: 0, read: 0 }, n));
        let cells = cells.collect::<Result<_, _>>()?;
        Ok(Shadow { cells, runs: Vec::new(), loops: Vec::new(), number: 0, clock: 0 })
    }

    /// Begins the run of a kernel, in which no buffer version has been updated in place yet.
    pub(super) fn enter(&mut self, k: &'a Kernel) {
        self.tick();
        self.number = self.number.saturating_add(1);
        let mut run = Run { k, number: self.number, began: self.clock, ended: SecondaryMap::new() };
        for id in k.buffers.keys() {
            run.ended[id] = vec![None; k.versions[id].len() + 1];
        }
        self.runs.push(run);
    }

    /// Tags the bytes of a buffer, which the caller has cleared, with version 0 (the first value) of the buffer.
    pub(super) fn zeroed(&mut self, buffer: BufferId, at: Pointer, bytes: usize) {
        let held = BufferVersion::first(buffer);
        let tag = Some(Tag { run: self.number, held });
        self.cells[at.region].iter_mut().skip(at.byte).take(bytes).for_each(|c| c.tag = tag);
    }

    /// Ends the innermost run of a kernel.
    pub(super) fn leave(&mut self) {
        self.runs.pop();
        self.tick();
    }

    /// Adds the bytes of new records of a dynamic tape, without tags, since the records hold no value yet.
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

    /// Returns the current time (`Shadow::clock`).
    pub(super) fn now(&self) -> u32 {
        self.clock
    }

    fn tick(&mut self) {
        self.clock = self.clock.saturating_add(1);
    }

    /// Returns an error if bytes of an element that is read have another tag than version `meant` or a version that
    /// `meant` continues. Arguments of the program have no shadow state, since they are never written.
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
            // A record of a dynamic tape may have been written in any run of any kernel, so the versions in its tags
            // are not compared.
            Place::Record { cursor, .. } => (false, k.cursors[cursor] == Cursor::Reads),
            Place::Output(_) | Place::Workspace(_) | Place::Private(_) | Place::Unplaced => {
                (false, false)
            }
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
            if self.loops.iter().any(|l| l.in_earlier_iteration(cell.written)) {
                let message = format!(
                    "{meant}[{i}] is read in an iteration that claims to be independent of the one that wrote it"
                );
                return Err(wrong(k, message));
            }
            // Do not replace the time of a read in an earlier iteration of an independent loop: a later write of the
            // byte in this iteration is then found to be an error.
            if !self.loops.iter().any(|l| l.in_earlier_iteration(cell.read)) {
                cell.read = self.clock;
            }
        }
        Ok(())
    }

    /// Tags the bytes of an element with version `meant`, which is written. Returns an error if the version has been
    /// updated in place, or if the write conflicts with another iteration of an independent loop.
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
            if self
                .loops
                .iter()
                .any(|l| l.in_earlier_iteration(cell.written) || l.in_earlier_iteration(cell.read))
            {
                let message = format!(
                    "{meant}[{i}] is written in an iteration that claims to be independent of the one that touched it before"
                );
                return Err(wrong(k, message));
            }
            *cell = Cell { tag: Some(tag), written: clock, read: cell.read };
        }
        Ok(())
    }

    /// After a callee that began at time `began` has returned, tags element `i` of a result with the caller's version,
    /// if the callee has written the element.
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

    /// Ends an iteration for one carry, which makes the value of `output` the value of `input`: the tags of `output`,
    /// in the memory `full`, become tags of `input`. The memory `other` loses its tags; it held `input`, and may be
    /// `full`.
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

    /// Ends a loop for one carry: the tags of the memory `from` are copied to `home`, the memory of `input` at the
    /// start of the loop, and the memory `other` loses its tags.
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
    /// Returns whether the loop's iterations are claimed to be independent, and time `when` lies in an earlier
    /// iteration of this run of the loop.
    fn in_earlier_iteration(&self, when: u32) -> bool {
        self.independent && when >= self.began && when < self.iteration
    }
}

impl Run<'_> {
    /// Returns the version that has updated `held` in place, so that `held` must not be accessed any more; `None` if
    /// no version has.
    fn ended(&self, held: BufferVersion) -> Option<BufferVersion> {
        let version = self.ended[held.buffer].get(held.version as usize).copied().flatten()?;
        Some(BufferVersion { version, ..held })
    }

    /// Returns whether `held` has the number `version`, or continues the version with this number directly or through
    /// other versions.
    fn continues_to(&self, held: BufferVersion, version: u32) -> bool {
        std::iter::successors(Some(held), |held| before(self.k, *held))
            .any(|h| h.version == version)
    }

    /// Returns whether the tag `found` is of this kernel run, and names version `meant` or a version that `meant`
    /// continues.
    fn matches(&self, meant: BufferVersion, found: Tag) -> bool {
        let mut chain = std::iter::successors(Some(meant), |held| before(self.k, *held));
        found.run == self.number && chain.any(|held| held == found.held)
    }

    fn name(&self, tag: Tag) -> impl fmt::Display {
        let whose = if tag.run == self.number { "" } else { " of another kernel" };
        format!("{}{whose}", tag.held)
    }
}

/// Returns the version that `held` continues (updates in place); `None` if it continues none.
fn before(k: &Kernel, held: BufferVersion) -> Option<BufferVersion> {
    let version = held.version.checked_sub(1)?;
    let version = k.versions[held.buffer].get(version as usize)?.continues?;
    Some(BufferVersion { version, ..held })
}

fn wrong(k: &Kernel, message: String) -> Problem {
    Problem::internal(format!("memory of kernel @{}: {message}", k.name))
}
