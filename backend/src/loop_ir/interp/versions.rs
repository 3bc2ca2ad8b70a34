//! What each byte of memory holds: the shadow of a run.
//!
//! Every byte that a program may write is tagged with the value whose element was stored there last
//! (a buffer and one of its versions), and every load says which value it means. So whatever goes
//! wrong with memory shows at the load that suffers: an update that takes over what is still read, a
//! buffer that begins where another one still lives, an offset in the workspace that makes two
//! overlap, an element that nobody has written. Tags do not ask what the numbers are.
//!
//! A carry hands a value on under another name: at the end of an iteration the tags of what `next` holds
//! become those of `now`, and whatever else its memory held is nothing any more. A call has tags of
//! its own, which become the caller's where results are.
//!
//! Beside its tag a byte knows in which iteration it was written last, and read. Where the iterations of a
//! loop are claimed to be independent, none may touch what another has written, nor write what
//! another has read.

use super::memory::{Memory, Pointer, filled, lengthen};
use crate::loop_ir::{BufferId, BufferVersion, Cursor, Kernel, Place};
use cranelift_entity::SecondaryMap;
use std::fmt;
use tapeloom_ir::Problem;

/// What was stored last.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag {
    /// Which run of a kernel, counted from the beginning.
    run: u32,
    held: BufferVersion,
}

/// What is known of a byte.
#[derive(Clone, Copy)]
struct Cell {
    tag: Option<Tag>,
    /// When it was written last, and read.
    written: u32,
    read: u32,
}

/// A run of a kernel that is under way.
struct Run<'a> {
    k: &'a Kernel,
    number: u32,
    /// When it began.
    began: u32,
    /// For each version of a buffer, the one that continues it and has begun to.
    ended: SecondaryMap<BufferId, Vec<Option<u32>>>,
}

/// A loop that is under way: when it began, and its present iteration.
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
    /// Number of runs so far.
    number: u32,
    /// Iterations, loops and runs so far.
    clock: u32,
}

impl<'a> Shadow<'a> {
    pub(super) fn of(memory: &Memory<'_>) -> Result<Shadow<'a>, Problem> {
        let cells = memory.writable().map(|n| filled(Cell { tag: None, written: 0, read: 0 }, n));
        let cells = cells.collect::<Result<_, _>>()?;
        Ok(Shadow { cells, runs: Vec::new(), loops: Vec::new(), number: 0, clock: 0 })
    }

    /// A kernel begins to run.
    pub(super) fn enter(&mut self, k: &'a Kernel) {
        self.tick();
        self.number = self.number.saturating_add(1);
        let mut run = Run { k, number: self.number, began: self.clock, ended: SecondaryMap::new() };
        for id in k.buffers.keys() {
            run.ended[id] = vec![None; k.versions[id].len() + 1];
        }
        self.runs.push(run);
    }

    /// A buffer of the program holds zeros, which are its first value.
    pub(super) fn zeroed(&mut self, buffer: BufferId, at: Pointer, bytes: usize) {
        let held = BufferVersion::first(buffer);
        let tag = Some(Tag { run: self.number, held });
        self.cells[at.region].iter_mut().skip(at.byte).take(bytes).for_each(|c| c.tag = tag);
    }

    /// It has run.
    pub(super) fn leave(&mut self) {
        self.runs.pop();
        self.tick();
    }

    /// Bytes of a record that are there from now on, and hold nothing yet.
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

    /// The present moment; what happens later has later ones.
    pub(super) fn now(&self) -> u32 {
        self.clock
    }

    fn tick(&mut self) {
        self.clock = self.clock.saturating_add(1);
    }

    /// An element is read that is meant to belong to that version. Arguments of the whole program
    /// have no cells, since nobody writes them.
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
        let (given, operand) = match k.buffers[meant.buffer].place {
            Place::Input(_) => (true, true),
            Place::Given { .. } => (run.is(meant, 0), false),
            // Whoever wrote what is read again, some run of some kernel did.
            Place::Record { cursor, .. } => (false, k.cursors[cursor] == Cursor::Reads),
            Place::Output(_) | Place::Workspace(_) => (false, false),
        };
        let record = operand && !given;
        let Some(cells) = self.cells[at.region].get_mut(at.byte + i * size..) else {
            return Ok(());
        };
        for cell in cells.iter_mut().take(size) {
            match cell.tag {
                _ if given && cell.written < run.began => {}
                Some(_) if record => {}
                Some(found) if !operand && run.means(meant, found) => {}
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
            // The read that another iteration may not write over is kept.
            if !self.loops.iter().any(|l| l.elsewhere(cell.read)) {
                cell.read = self.clock;
            }
        }
        Ok(())
    }

    /// An element of that version is written.
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

    /// A callee that `began` then has returned: what it wrote is the caller's. The rest is as before.
    pub(super) fn take_over(
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

    /// The end of an iteration: what `next` holds becomes what `now` holds, in the memory where `next` was
    /// (`full`); where `now` was (`other`, maybe the same) nothing is left.
    pub(super) fn hand_on(
        &mut self,
        now: BufferVersion,
        next: BufferVersion,
        full: Pointer,
        other: Pointer,
        bytes: usize,
    ) {
        let Some(run) = self.runs.last_mut() else { return };
        let tag = Tag { run: run.number, held: now };
        if full != other {
            self.cells[other.region]
                .iter_mut()
                .skip(other.byte)
                .take(bytes)
                .for_each(|c| c.tag = None);
        }
        for cell in self.cells[full.region].iter_mut().skip(full.byte).take(bytes) {
            match cell.tag {
                Some(found) if run.means(next, found) => cell.tag = Some(tag),
                Some(found) if found.run == run.number && found.held.buffer == next.buffer => {
                    cell.tag = None;
                }
                Some(_) | None => {}
            }
        }
        for buffer in [now.buffer, next.buffer] {
            run.ended[buffer].fill(None);
        }
    }

    /// The end of a loop: what is in `from` has been copied to `home`, and `other` holds nothing.
    pub(super) fn settle(&mut self, from: Pointer, home: Pointer, other: Pointer, bytes: usize) {
        let cells: Vec<Cell> =
            self.cells[from.region].iter().skip(from.byte).take(bytes).copied().collect();
        self.cells[other.region].iter_mut().skip(other.byte).take(bytes).for_each(|c| c.tag = None);
        for (cell, copied) in self.cells[home.region].iter_mut().skip(home.byte).zip(cells) {
            *cell = copied;
        }
    }
}

impl Loop {
    /// Whether that happened in another iteration.
    fn elsewhere(&self, when: u32) -> bool {
        self.independent && when >= self.began && when < self.iteration
    }
}

impl Run<'_> {
    /// What has taken a value over.
    fn ended(&self, held: BufferVersion) -> Option<BufferVersion> {
        let version = self.ended[held.buffer].get(held.version as usize).copied().flatten()?;
        Some(BufferVersion { version, ..held })
    }

    /// Whether elements of that version are elements of this value.
    fn is(&self, held: BufferVersion, version: u32) -> bool {
        std::iter::successors(Some(held), |held| before(self.k, *held))
            .any(|h| h.version == version)
    }

    /// Whether an element of `found` is one of `meant`.
    fn means(&self, meant: BufferVersion, found: Tag) -> bool {
        let mut chain = std::iter::successors(Some(meant), |held| before(self.k, *held));
        found.run == self.number && chain.any(|held| held == found.held)
    }

    fn name(&self, tag: Tag) -> impl fmt::Display {
        let whose = if tag.run == self.number { "" } else { " of another kernel" };
        format!("{}{whose}", tag.held)
    }
}

/// What a value updates in place.
fn before(k: &Kernel, held: BufferVersion) -> Option<BufferVersion> {
    let version = held.version.checked_sub(1)?;
    let version = k.versions[held.buffer].get(version as usize)?.continues?;
    Some(BufferVersion { version, ..held })
}

fn wrong(k: &Kernel, message: String) -> Problem {
    Problem::internal(format!("memory of kernel @{}: {message}", k.name))
}
