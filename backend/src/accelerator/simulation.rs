//! A simulated run: takes the operations of a program, and returns the statistics of the machine.

use super::arrays::{ArrayId, Arrays, RegionId, Tape};
use super::instruction_window::{AccessKind, Task};
use super::issue::Issue;
use super::machine::Machine;
use super::op::{Entry, EntryIdentity, Op, Token, Work};
use super::scratchpad::InputTile;
use super::scratchpad_slots::{Pads, Slot};
use super::statistics::{Energy, Phase, State, Statistics};
use super::system::{Route, System};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::Problem;

/// A simulated run of a program on a machine, to which the operations are passed one by one.
///
/// ```
/// use tapeloom_backend::accelerator::*;
/// let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
/// let (x, y) = (arrays.push("x", 16, 8), arrays.push("y", 16, 8));
/// let tape = Tape::at(Tape::BASE);
/// let machine = Machine::cal();
/// let mut run = Simulation::new(&machine, System::ENZYME, &arrays, &tape)?;
/// // y[i] = 2 x[i]
/// for i in 0..16 {
///     let load = run.push(&Op { site: 0, work: Work::Load(x, i), operands: &[] })?;
///     let twice = run.push(&Op { site: 1, work: Work::Compute(Opcode::Mul), operands: &[load] })?;
///     run.push(&Op { site: 2, work: Work::Store(y, i), operands: &[twice] })?;
/// }
/// let statistics = run.finish()?;
/// assert_eq!(statistics.forward.others, Accesses { loads: 16, stores: 16, misses: 4 });
/// # Ok::<(), tapeloom_ir::Problem>(())
/// ```
pub struct Simulation<'a> {
    m: &'a Machine,
    system: System,
    arrays: &'a Arrays,
    tape: &'a Tape,
    issue: Issue<'a>,
    /// The tick at which the current phase (forward or reverse) began, and the sequence number of its first
    /// operation.
    began: (u64, u64),
    written: SecondaryMap<ArrayId, bool>,
}

impl<'a> Simulation<'a> {
    /// Creates a run of a machine that starts at tick zero.
    ///
    /// # Errors
    /// [`tapeloom_ir::Kind::Target`] if the machine is invalid; [`tapeloom_ir::Kind::TooLarge`] if there is not
    /// enough memory for the tape.
    pub fn new(
        m: &'a Machine,
        system: System,
        arrays: &'a Arrays,
        tape: &'a Tape,
    ) -> Result<Simulation<'a>, Problem> {
        m.check()?;
        let issue = Issue::new(m, system.tape, tape)?;
        Ok(Simulation {
            m,
            system,
            arrays,
            tape,
            issue,
            began: (0, 1),
            written: SecondaryMap::new(),
        })
    }

    /// Returns the run with a scratchpad that several streams share; `slots` has the range of entries of each stream.
    pub fn with_streams(mut self, slots: &[Slot]) -> Simulation<'a> {
        self.issue.pad = Pads::of(self.m, slots);
        self
    }

    /// Sets the tiles that a stream brings from the array of an argument, before the stream's first layer. Loads name
    /// these entries by [`EntryIdentity::Streamed`]. A line that is in the cache is taken from the cache, as with
    /// coherent engines.
    ///
    /// # Errors
    /// [`tapeloom_ir::Kind::Internal`] if the stream still has tiles to bring.
    pub fn set_tiles(&mut self, stream: u32, tiles: Vec<InputTile>) -> Result<(), Problem> {
        self.issue.pad.set_tiles(stream, tiles)
    }

    /// Counts, in the statistics, one execution of a block (a loop iteration or straight-line code) that uses the
    /// tape.
    pub fn block(&mut self) {
        self.issue.counts().blocks += 1;
    }

    /// Adds the next operation of the program, and runs the machine until there is room for the operation. Returns the
    /// token of the operation's result.
    ///
    /// # Errors
    /// [`tapeloom_ir::Kind::Internal`] if the program names an array or an element that does not exist, uses the
    /// tape outside of layers, or loads an entry that was not stored.
    pub fn push(&mut self, op: &Op<'_>) -> Result<Token, Problem> {
        if op.operands.iter().any(|operand| operand.sequence > self.issue.window.sequence) {
            return Err(Problem::internal("an operand is a token of another run"));
        }
        let Some(task) = self.task(op)? else { return Ok(Token::READY) };
        let counts = self.issue.counts();
        // The operands of a request for a layer (a group of tape entries) only state after which operations the layer
        // begins, so do not count them as uses of values.
        let taken = if let Task::Layer(_) = task { &[] } else { op.operands };
        for operand in taken.iter().filter(|t| **t != Token::READY) {
            match operand.sequence >= self.began.1 {
                true => counts.edges += 1,
                false => counts.crossing += 1,
            }
        }
        self.issue.push(op.site, task, op.operands)
    }

    /// Counts an operation, and returns its task on this system; `None` if the system has nothing to do for the
    /// operation.
    fn task(&mut self, op: &Op<'_>) -> Result<Option<Task>, Problem> {
        let cached = matches!(self.system.tape, Route::Cache { .. });
        let counts = self.issue.counts();
        Ok(Some(match op.work {
            Work::Compute(opcode) => {
                counts.operations += 1;
                Task::Compute(opcode)
            }
            Work::Load(array, element) => {
                counts.others.loads += 1;
                let address = self.address(array, element)?;
                Task::Access { address, write: false, kind: AccessKind::Other }
            }
            Work::Store(array, element) => {
                counts.others.stores += 1;
                let address = self.address(array, element)?;
                self.written[array] = true;
                Task::Access { address, write: true, kind: AccessKind::Other }
            }
            Work::Touch { address, write, tape } => {
                let of = if tape { &mut counts.tape } else { &mut counts.others };
                of.stores += u64::from(write);
                of.loads += u64::from(!write);
                counts.crossing += u64::from(tape && !write);
                let kind = if tape { AccessKind::Kept } else { AccessKind::Other };
                Task::Access { address, write, kind }
            }
            Work::Rematerialized { address } => {
                counts.crossing += 1;
                if self.system.tape == (Route::Scratchpad { ideal: true }) {
                    counts.scratchpad.loads += 1;
                    counts.streamed += 1;
                    return Ok(None);
                }
                counts.tape.loads += 1;
                Task::Access { address, write: false, kind: AccessKind::Kept }
            }
            Work::TapeStore(entry) => return self.tape_task(entry, true),
            Work::TapeLoad(entry) => return self.tape_task(entry, false),
            Work::Layer(layer) => {
                counts.layers += 1;
                if cached {
                    return Ok(None);
                }
                Task::Layer(layer)
            }
            Work::Barrier(_) if cached => return Ok(None),
            Work::Barrier(stream) => Task::Barrier(stream),
            Work::Branch => {
                self.issue.window.branch(op.operands);
                return Ok(None);
            }
        }))
    }

    fn tape_task(&mut self, entry: Entry, write: bool) -> Result<Option<Task>, Problem> {
        if entry.identity == EntryIdentity::Streamed {
            self.issue.counts().inputs += 1;
            return Ok(Some(Task::Scratchpad { entry, write }));
        }
        let phase = if write { Phase::Forward } else { Phase::Reverse };
        if phase != self.issue.phase {
            let message =
                format!("{:?} is used in the phase {:?}", entry.identity, self.issue.phase);
            return Err(Problem::internal(message));
        }
        let address = self.tape_address(entry.identity)?;
        let remark = write && matches!(entry.identity, EntryIdentity::Array(..));
        let counts = self.issue.counts();
        let task = match self.system.tape {
            Route::Cache { .. } if remark => return Ok(None),
            Route::Cache { .. } => Task::Access { address, write, kind: AccessKind::Entry(entry) },
            Route::Scratchpad { .. } => Task::Scratchpad { entry, write },
        };
        if !remark {
            let place = match self.system.tape {
                Route::Cache { .. } => &mut counts.tape,
                Route::Scratchpad { .. } => &mut counts.scratchpad,
            };
            place.stores += u64::from(write);
            place.loads += u64::from(!write);
            counts.crossing += u64::from(!write);
        }
        Ok(Some(task))
    }

    fn address(&self, array: ArrayId, element: u64) -> Result<u64, Problem> {
        let missing = || Problem::internal(format!("{array} has no element {element}"));
        self.arrays.address(array, element).ok_or_else(missing)
    }

    /// Returns the memory address of a tape value; on systems with a scratchpad, which need no address, the index of
    /// the value on the tape. Returns an error if there is no such value.
    fn tape_address(&self, identity: EntryIdentity) -> Result<u64, Problem> {
        let (region, value, execution) = match identity {
            EntryIdentity::Array(array, element) => return self.address(array, element),
            EntryIdentity::Tape(region, value, execution) => (region, value, execution),
            EntryIdentity::Streamed => return Ok(0),
        };
        let address = match self.system.tape {
            Route::Cache { form, prefetch: _ } => {
                self.tape.address((region, value, execution), form, self.m.line)
            }
            Route::Scratchpad { .. } => self.tape.number(region, value, execution),
        };
        let missing = |region: RegionId| format!("{region} has no value {value} of {execution}");
        address.ok_or_else(|| Problem::internal(missing(region)))
    }

    /// Begins the reverse phase: finishes all operations, and streams the scratchpad to memory. The contents of the
    /// cache stay.
    ///
    /// # Errors
    /// Errors of [`Simulation::push`].
    pub fn reverse(&mut self) -> Result<(), Problem> {
        if self.issue.phase == Phase::Reverse {
            return Err(Problem::internal("the reverse phase begins twice"));
        }
        self.end_phase()?;
        self.issue.begin_reverse_pass()
    }

    fn end_phase(&mut self) -> Result<(), Problem> {
        self.issue.drain()?;
        match self.issue.phase {
            Phase::Forward => self.issue.flush()?,
            Phase::Reverse => {}
        }
        let now = self.issue.now;
        self.issue.counts().ticks = now - self.began.0;
        self.began = (now, self.issue.window.sequence + 1);
        Ok(())
    }

    /// Ends the run, and returns its statistics.
    ///
    /// # Errors
    /// Errors of [`Simulation::push`]; also an error if the reverse phase has not read all of the tape.
    pub fn finish(mut self) -> Result<Statistics, Problem> {
        self.end_phase()?;
        if self.issue.phase == Phase::Reverse {
            self.issue.pad.check_empty()?;
        }
        let mut state = State { input: 0, output: 0, tape: self.tape.entries().saturating_mul(8) };
        for (id, array) in self.arrays.iter() {
            let bytes = array.elements.saturating_mul(array.width);
            match self.written[id] {
                true => state.output = state.output.saturating_add(bytes),
                false => state.input = state.input.saturating_add(bytes),
            }
        }
        let m = self.m;
        let Some(cache) = m.cache_energy() else {
            return Err(Problem::internal("the energy of a cache was not checked"));
        };
        let energy = Energy::of(&self.issue.counts, cache, m.scratchpad_energy);
        let [forward, reverse] = self.issue.counts;
        Ok(Statistics {
            system: self.system.on(m),
            forward,
            reverse,
            left: self.issue.memory.changed(),
            tiles: self.issue.pad.tiles(),
            state,
            energy,
            line: m.line,
            lifetimes: self.issue.lifetimes,
        })
    }
}
