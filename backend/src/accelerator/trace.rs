//! Trace generation: runs a program in the interpreter and passes its operations to the simulated machine.
//!
//! The interpreter of the loop IR runs the program with real values. This module's observer of the interpreter passes
//! every operation to a [`Simulation`]. Each value carries its token, so the machine gets the data flow of this run,
//! through variables and indices. The machine itself orders accesses to memory. The costs are:
//!
//! | in the loop program | on the machine |
//! |---|---|
//! | a scalar code | [`Opcode::of`], one after the other; nothing if it is a wire ([`address_only_scalars`]) |
//! | a load, a store | an access, which waits for the operands of its address; an address itself is wires |
//! | an iteration of a loop | the count, an integer operation, and a branch after it |
//! | `if`, `while`, an extent, the position of a record, a call | a branch |
//! | a guard that does not hold | nothing |
//! | a contraction | its loop nest: two loads, a product and a sum for each term, in order |
//! | the end of a loop whose carry changes its buffer | a load and a store for each element |
//! | a callback | loads of its operands, a branch, stores of its results; the function itself costs nothing |
//!
//! An access is *to the tape* if the buffer is kept ([`Kernel::kept`](crate::loop_ir::Kernel::kept)) or is a record of
//! a dynamic tape. This holds for the buffer's stores, and for its loads in the reverse phase. The reverse phase begins
//! with the first step (top-level statement) of the program that reads values kept by an earlier step and keeps nothing
//! itself. (Loads of kept values in the forward phase are ordinary loads.) A program without such a step, for example
//! with both halves fused into one loop, has one phase. In that phase, all loads of kept values are to the tape, and
//! nothing is streamed.
//!
//! The [layout](crate::layout) of the tape, which the system's passes compute for the program, states which values go
//! through the scratchpad, in which layers and where. The scratchpad checks that every load gets the stored value. A
//! program with dynamic tapes runs twice: once to observe the order in which records are read
//! ([`super::tape_trace`]), and then on the machine. Callbacks are called only in the first run.

use super::address_slice::address_only_scalars;
use super::arrays::{Arrays, RegionId, Tape};
use super::config::{self, Addresses, InRegion, RunConfig, Step};
use super::op::{Entry, EntryIdentity, Op, Token, Work};
use super::opcode::Opcode;
use super::scratchpad::InputTile;
use super::simulation::Simulation;
use super::statistics::{State, Statistics};
use super::stream_schedule::{Move, Moves, StreamSchedule};
use super::system::Route;
use super::tape_trace::{RecordAccess, reading_order};
use crate::layout::{self, Layout, reverse_pass_start};
use crate::loop_ir::interp::observer::{MemoryAccess, Observer, Site};
use crate::loop_ir::{
    self, Buffer, BufferId, BufferVersion, Call, External, ExternalSignature, Kernel, KernelId,
    Program, ScalarId, TapeId, View, observed,
};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use std::collections::VecDeque;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{Code, Dtype, Kind, Limits, OrderedMap, OrderedSet, Problem, Tensor};

/// Runs a program on a simulated machine. Returns the results of the program and the statistics of the run.
///
/// ```
/// use tapeloom_backend::accelerator::{Machine, simulate};
/// use tapeloom_backend::loop_ir;
/// use tapeloom_ir::{Literal, Tensor};
/// let program = loop_ir::parse("program @double {
///   buffer b0: f64[16] input 0
///   buffer b1: f64[16] output 0
///   for i0 in 16 {
///     %0: f64 = load b0[i0]
///     %1: f64 = add %0, %0
///     store b1[i0], %1
///   }
/// }", &|_| None)?;
/// let x: Tensor = (0..16).map(|i| i as f64).collect();
/// let (y, statistics) = simulate(&program, &[x], &Machine::cal().into())?;
/// assert_eq!(y[0].literal(15)?, Literal::f64(30.0));
/// let cached = statistics.forward.cached();
/// assert_eq!((cached.loads, cached.stores, cached.misses), (16, 16, 4));
/// # Ok::<(), tapeloom_ir::Problem>(())
/// ```
///
/// # Errors
/// Those of [`loop_ir::eval`](crate::loop_ir::eval) and of [`RunConfig::check`].
pub fn simulate(
    program: &Program,
    args: &[Tensor],
    setup: &RunConfig,
) -> Result<(Vec<Tensor>, Statistics), Problem> {
    simulate_within(program, args, setup, &Limits::default())
}

/// Returns an error for programs that call library routines: the machine has only arithmetic and memory.
fn refuse_routines(program: &Program) -> Result<(), Problem> {
    for external in program.externals() {
        if let External::Routine(_) = external.function {
            let message = format!(
                "`{}` is a library routine, and an accelerator has no libraries",
                external.name()
            );
            let help =
                "run the program on this machine, or write the routine as operations on arrays";
            return Err(Problem::new(Kind::Target, message, help).at(external.location));
        }
    }
    Ok(())
}

/// Runs a program on a simulated machine like [`simulate`], within the given limits of the interpreter.
pub(crate) fn simulate_within(
    program: &Program,
    args: &[Tensor],
    setup: &RunConfig,
    limits: &Limits,
) -> Result<(Vec<Tensor>, Statistics), Problem> {
    setup.check()?;
    refuse_routines(program)?;
    let program = &setup.program(program)?;
    let (layout, reverse_start) =
        (setup.system.layout.run(program, &setup.scratchpad_model())?, reverse_pass_start(program));
    let (mut schedule, mut answers) = (StreamSchedule::default(), VecDeque::new());
    if let Route::Scratchpad { .. } = setup.system.tape {
        let unknown = |r: &layout::Region| r.is_streamed() && r.read == layout::Read::Run;
        let mut accesses = Vec::new();
        if layout.regions.values().any(unknown) {
            let recorder = Receiver::Recorder(Vec::new());
            let mut first = Driver::new(
                program,
                setup,
                &layout,
                reverse_start,
                recorder,
                StreamSchedule::default(),
            );
            observed(program, args, false, limits, &mut first)?;
            answers = first.answers;
            if let Receiver::Recorder(seen) = first.receiver {
                accesses = seen;
            }
        }
        schedule = StreamSchedule::of(&layout, |id| {
            reading_order(&accesses, id, layout.regions[id].width)
        });
    }
    let (arrays, mut tape) = (Arrays::bump(0, 0, 0), Tape::at(setup.map.tape));
    for (id, region) in &layout.regions {
        let records = schedule.region(id).map_or(0, |stream| schedule.records(stream));
        tape.push(region.width, records);
    }
    let run = Simulation::new(&setup.machine, setup.system, &arrays, &tape)?;
    let run = Box::new(run.with_streams(&schedule.slots()));
    let mut driver =
        Driver::new(program, setup, &layout, reverse_start, Receiver::Machine(run), schedule);
    driver.answers = answers;
    let results = observed(program, args, false, limits, &mut driver)?;
    driver.end(true)?;
    let [input, output, tape] = driver.addresses.state;
    let Receiver::Machine(run) = driver.receiver else {
        return Err(Problem::internal("a simulation ended without its machine"));
    };
    let mut statistics = run.finish()?;
    statistics.state = State { input, output, tape };
    Ok((results, statistics))
}

/// The receiver of a run's operations: the recorder of tape accesses, or the machine.
enum Receiver<'a> {
    /// Collects the accesses to dynamic tapes, from which the order of these accesses is inferred.
    Recorder(Vec<RecordAccess>),
    /// Runs the operations on the simulated machine.
    Machine(Box<Simulation<'a>>),
}

/// Whether no, some or all versions (contents at different times) of a buffer are *kept*, that is, stored on the tape
/// for the reverse phase.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Taped {
    /// No version of the buffer is kept on the tape.
    #[default]
    Never,
    /// Some versions of the buffer are kept on the tape, others are not.
    Some,
    /// All versions of the buffer are on the tape: the buffer is on a dynamic tape, or the caller of the kernel keeps
    /// the buffer.
    All,
}

/// A kernel that is being executed: the entry of the program or a called kernel.
struct Frame<'a> {
    k: &'a Kernel,
    /// The kernel's index among all kernels of the program; the entry has the last index.
    number: usize,
    /// The first site number of the kernel's statements. (A site number identifies an operation of the program's text.)
    site: u32,
    taped: SecondaryMap<BufferId, Taped>,
}

impl Frame<'_> {
    fn taped(&self, held: BufferVersion) -> bool {
        match self.taped[held.buffer] {
            Taped::Never => false,
            Taped::Some => self.k.kept.contains_key(&held),
            Taped::All => true,
        }
    }

    /// Returns the first site number (an identifier of an operation of the program's text) of a statement. Each
    /// statement has four numbers, because it may become several operations.
    fn site(&self, site: Site) -> u32 {
        let (scalars, vars) = (self.k.scalars.len() as u32, self.k.vars.len() as u32);
        let n = match site {
            Site::Scalar(n) => n,
            Site::Var(n) => scalars + n,
            Site::Index(n) => scalars + vars + n,
            Site::Contract(n, part) => scalars + vars + self.k.indices + 3 * n + part,
        };
        self.site + 4 * n
    }
}

/// Returns the first site number (an identifier of an operation of the program's text) of each kernel of the program;
/// the entry comes last.
fn sites(program: &Program) -> PrimaryMap<KernelId, u32> {
    let mut next = 0;
    let first = |(_, k): (_, &Kernel)| {
        let statements = k.scalars.len() + k.vars.len() + 3 * k.buffers.len();
        let first = next;
        next += 4 * (statements as u32 + k.indices);
        first
    };
    program.kernels().map(first).collect()
}

struct Driver<'a> {
    receiver: Receiver<'a>,
    setup: &'a RunConfig,
    layout: &'a Layout,
    schedule: StreamSchedule,
    addresses: Addresses,
    sites: PrimaryMap<KernelId, u32>,
    /// The kernels that are being executed, the innermost last.
    frames: Vec<Frame<'a>>,
    /// The index of the step (top-level statement of the program) with which the reverse phase begins.
    reverse_start: Option<usize>,
    /// The number of steps (top-level statements) begun so far.
    step: usize,
    /// Whether the reverse phase has begun.
    reverse: bool,
    /// For each step (top-level statement) of the program: whether the step is done before the machine starts, at no
    /// cost.
    prepared: Vec<bool>,
    /// Whether the current step (top-level statement) is done before the machine starts.
    before: bool,
    /// Whether the current block (a loop iteration or straight-line code) has used the tape.
    used: bool,
    /// The tape values that this iteration has stored or loaded, by address. These values are in registers, so the
    /// iteration does not load them again.
    held: OrderedMap<u64, Token>,
    /// The arguments that this iteration has loaded, by address. These values are in registers until a store to an
    /// array that may overlap the argument.
    arguments: OrderedMap<u64, Token>,
    /// The addresses of arguments that the forward phase has read. The addresses are collected only if
    /// `RunConfig::again` is set.
    read: Option<OrderedSet<u64>>,
    /// Per kernel, the entry last: which scalars are wires (used only in addresses, guards and branches).
    wires: Vec<SecondaryMap<ScalarId, bool>>,
    /// The results of callbacks in the first run of a program with dynamic tapes. The second run takes these results,
    /// so that each callback is called once.
    answers: VecDeque<Vec<Tensor>>,
}

impl<'a> Driver<'a> {
    fn new(
        program: &'a Program,
        setup: &'a RunConfig,
        layout: &'a Layout,
        reverse_start: Option<usize>,
        receiver: Receiver<'a>,
        schedule: StreamSchedule,
    ) -> Driver<'a> {
        let mut driver = Driver {
            receiver,
            setup,
            layout,
            schedule,
            addresses: Addresses::new(program, setup, layout),
            sites: sites(program),
            frames: Vec::new(),
            reverse_start,
            step: 0,
            reverse: false,
            prepared: config::steps(program)
                .into_iter()
                .map(|step| setup.prepared && step != Step::Other)
                .collect(),
            before: false,
            used: false,
            held: OrderedMap::default(),
            arguments: OrderedMap::default(),
            read: setup.again.then(OrderedSet::default),
            wires: program.kernels().map(|(_, k)| address_only_scalars(k)).collect(),
            answers: VecDeque::new(),
        };
        driver.frames.push(driver.frame(&program.entry, None, |_| false));
        driver
    }

    /// Returns the frame of a kernel that is entered. `given` says which arguments and results the kernel's caller
    /// keeps on the tape.
    fn frame(
        &self,
        k: &'a Kernel,
        id: Option<KernelId>,
        given: impl Fn(loop_ir::Place) -> bool,
    ) -> Frame<'a> {
        let mut taped = SecondaryMap::new();
        for held in k.kept.keys() {
            taped[held.buffer] = Taped::Some;
        }
        for (id, b) in &k.buffers {
            if matches!(b.place, loop_ir::Place::Record { .. }) || given(b.place) {
                taped[id] = Taped::All;
            }
        }
        let site = id.map_or(self.sites.values().next_back(), |id| self.sites.get(id));
        let number = id.map_or(self.sites.len() - 1, |id| id.as_u32() as usize);
        Frame { k, number, site: site.copied().unwrap_or(0), taped }
    }

    fn push(&mut self, site: u32, work: Work, operands: &[Token]) -> Result<Token, Problem> {
        match &mut self.receiver {
            Receiver::Recorder(_) => Ok(Token::READY),
            Receiver::Machine(_) if self.before => Ok(Token::READY),
            Receiver::Machine(run) => run.push(&Op { site, work, operands }),
        }
    }

    /// Returns a token that is ready when all `operands` are ready: the operand itself, or a free operation.
    fn join(&mut self, operands: &[Token]) -> Result<Token, Problem> {
        let mut waits: SmallVec<[Token; 4]> = SmallVec::new();
        for token in operands.iter().filter(|t| **t != Token::READY) {
            if !waits.contains(token) {
                waits.push(*token);
            }
        }
        match waits[..] {
            [] => Ok(Token::READY),
            [one] => Ok(one),
            _ => self.push(0, Work::Compute(Opcode::Free), &waits),
        }
    }

    /// Passes to the machine the `moves` of a stream: operations that begin and end layers (tape entries for which
    /// the scratchpad is allocated at one time).
    fn moves(&mut self, stream: u32, moves: Moves) -> Result<(), Problem> {
        for step in moves {
            match step {
                Move::Open(layer) => {
                    let before = self.schedule.before(stream, self.setup.machine.halves);
                    self.push(0, Work::Layer(layer), &before)?;
                }
                Move::Close => {
                    let by = self.push(0, Work::Barrier(stream), &[])?;
                    self.schedule.ended(stream, by);
                }
            }
        }
        Ok(())
    }

    /// Ends the layers (tape entries allocated in the scratchpad) of all streams that must end with the current step
    /// (top-level statement). If `run` is true, the whole run ends, and with it all streams.
    fn end(&mut self, run: bool) -> Result<(), Problem> {
        for stream in 0..self.schedule.count() {
            let moves = self.schedule.end(stream, self.reverse, run)?;
            self.moves(stream, moves)?;
        }
        Ok(())
    }

    /// Loads or stores a tape value in the scratchpad, in the layer (group of entries in the scratchpad) of its stream
    /// that contains the value.
    fn stream(
        &mut self,
        stream: u32,
        InRegion { region, record, byte }: InRegion,
        touch: MemoryAccess,
        operands: &[Token],
    ) -> Result<Token, Problem> {
        let (layer, first) = self.schedule.layer(stream, record);
        let moves = self.schedule.to(stream, layer, self.reverse)?;
        self.moves(stream, moves)?;
        let identity = EntryIdentity::Tape(RegionId::from_u32(region.as_u32()), byte, record);
        let buffer = touch.held.buffer;
        let dtype = self.frames.last().map(|frame| frame.k.buffers[buffer].ty.dtype);
        let width = dtype.map_or(8, Dtype::bytes) as u64;
        let offset = first + byte / 8;
        let entry = Entry { identity, stream, offset, byte: byte % 8, width, bits: touch.bits };
        let work = if touch.write { Work::TapeStore(entry) } else { Work::TapeLoad(entry) };
        self.push(0, work, operands)
    }

    /// Loads an element of an argument that a stream brings from its array to the scratchpad.
    fn load_input(
        &mut self,
        (stream, layer, offset): (u32, u64, u64),
        address: u64,
        operands: &[Token],
    ) -> Result<Token, Problem> {
        let moves = self.schedule.to(stream, layer, self.reverse)?;
        self.moves(stream, moves)?;
        let entry = Entry { stream, ..Entry::word(EntryIdentity::Streamed, offset, address) };
        self.push(0, Work::TapeLoad(entry), operands)
    }

    /// Sets, for each argument that is streamed in the current step (top-level statement), the tiles of elements that
    /// its stream brings.
    fn set_tiles(&mut self) -> Result<(), Problem> {
        let Receiver::Machine(run) = &mut self.receiver else { return Ok(()) };
        for (stream, input) in self.schedule.inputs.clone() {
            let input = &self.layout.inputs[input];
            let Some(base) = self.addresses.place(input.buffer).filter(|_| input.step == self.step)
            else {
                continue;
            };
            let line = self.setup.machine.line;
            let width = self.frames[0].k.buffers[input.buffer].ty.dtype.bytes() as u64;
            let at = |element: i64| base.wrapping_add_signed(element * width as i64);
            let words: Vec<u64> =
                input.elements().unwrap_or_default().into_iter().map(at).collect();
            let apart = |a: u64, b: u64| a / line != b / line;
            let tiles =
                layout::cut(&words, self.schedule.tile_words(stream), input.loads.len(), apart);
            let brought = tiles.iter().map(|tile| InputTile {
                words: tile.words.clone(),
                lines: tile.lines(apart).collect(),
            });
            let brought = brought.collect();
            self.schedule.set_tiles(stream, tiles);
            run.set_tiles(stream, brought)?;
        }
        Ok(())
    }

    /// If arrays may overlap, loads the pointer to the chunk (block of memory) of a dynamic tape that holds the
    /// accessed record: each access must load the pointer again.
    fn load_chunk_pointer(
        &mut self,
        touch: MemoryAccess,
        address: u64,
    ) -> Result<Option<Token>, Problem> {
        let place = self.frames.last().map(|frame| frame.k.buffers[touch.held.buffer].place);
        let record = matches!(place, Some(loop_ir::Place::Record { .. })) && self.setup.overlap;
        let Some(address) = self.addresses.pointer(address).filter(|_| record) else {
            return Ok(None);
        };
        self.push(0, Work::Touch { address, write: false, tape: false }, &[]).map(Some)
    }

    /// Passes a load or a store of the program to the machine, as an access to the tape or as an ordinary access.
    fn access(
        &mut self,
        touch: MemoryAccess,
        (address, inside): (u64, Option<InRegion>),
        operands: &[Token],
    ) -> Result<Token, Problem> {
        let (reverse, write) = (self.reverse, touch.write);
        let taped = self.frames.last().is_some_and(|frame| frame.taped(touch.held));
        let tape = taped && (write || reverse || self.reverse_start.is_none());
        self.uses(tape);
        let noted = if tape { self.load_chunk_pointer(touch, address)? } else { None };
        let both: SmallVec<[Token; 4]>;
        let operands = match noted {
            Some(noted) => {
                both = operands.iter().copied().chain([noted]).collect();
                &both
            }
            None => operands,
        };
        let inside = inside.filter(|_| tape);
        match (&mut self.receiver, inside) {
            (Receiver::Recorder(accesses), Some(at)) => {
                accesses.push(RecordAccess { at, write, reverse, step: self.step });
                Ok(Token::READY)
            }
            (Receiver::Recorder(_), None) => Ok(Token::READY),
            (Receiver::Machine(_), _) => {
                match inside.and_then(|at| Some((self.schedule.region(at.region)?, at))) {
                    Some((stream, at)) => self.stream(stream, at, touch, operands),
                    None => self.push(0, Work::Touch { address, write, tape }, operands),
                }
            }
        }
    }

    /// Begins an iteration or a block of straight-line code: no value is in a register, so values are loaded again.
    fn block(&mut self) {
        self.held.clear();
        self.arguments.clear();
        self.used = false;
    }

    /// If `tape` is true (the access is to the tape), counts the current block as one that uses the tape; each block is
    /// counted once.
    fn uses(&mut self, tape: bool) {
        if let (Receiver::Machine(run), true, false) =
            (&mut self.receiver, tape, self.used || self.before)
        {
            run.block();
            self.used = true;
        }
    }

    fn site(&self, site: Site) -> u32 {
        self.frames.last().map_or(0, |frame| frame.site(site))
    }
}

impl<'a> Observer<'a> for Driver<'a> {
    type Mark = Token;

    fn workspace(&mut self, _: usize) -> u64 {
        self.addresses.workspace
    }

    fn place(&mut self, id: BufferId, _: &Buffer) -> Option<u64> {
        self.addresses.place(id)
    }

    fn record(&mut self, program: &Program, tape: TapeId, index: usize) -> u64 {
        self.addresses.record((program, self.layout), tape, index)
    }

    fn step(&mut self) -> Result<(), Problem> {
        self.end(false)?;
        if self.reverse_start == Some(self.step) {
            if let Receiver::Machine(run) = &mut self.receiver {
                run.reverse()?;
            }
            self.reverse = true;
            self.schedule.begin_reverse_pass();
        }
        self.before = self.prepared.get(self.step) == Some(&true);
        if !self.before {
            self.set_tiles()?;
        }
        self.block();
        self.step += 1;
        Ok(())
    }

    fn enter(&mut self, program: &'a Program, call: &Call) {
        let outer = self.frames.last();
        let kept = |view: Option<&View>| {
            let held = view.map(|v| v.held);
            outer.zip(held).is_some_and(|(outer, held)| outer.taped(held))
        };
        let given = |place: loop_ir::Place| match place {
            loop_ir::Place::Input(n) => kept(call.operands.get(n)),
            loop_ir::Place::Output(n) | loop_ir::Place::Donated { output: n, .. } => {
                kept(call.outputs.get(n))
            }
            loop_ir::Place::Workspace(_)
            | loop_ir::Place::Private(_)
            | loop_ir::Place::Unplaced
            | loop_ir::Place::Record { .. } => false,
        };
        let frame = self.frame(&program.callees[call.callee], Some(call.callee), given);
        self.frames.push(frame);
    }

    fn leave(&mut self) {
        self.frames.pop();
    }

    fn code(
        &mut self,
        site: Site,
        code: Code,
        dtype: Dtype,
        operands: &[Token],
    ) -> Result<Token, Problem> {
        if let (Site::Scalar(n), Some(frame)) = (site, self.frames.last())
            && self.wires[frame.number][ScalarId::from_u32(n)]
        {
            return self.join(operands);
        }
        let site = self.site(site);
        let mut done: Option<Token> = None;
        for (n, opcode) in (0..).zip(Opcode::of(code, dtype)) {
            let operands = done.as_ref().map_or(operands, std::slice::from_ref);
            done = Some(self.push(site + n.min(3), Work::Compute(opcode), operands)?);
        }
        Ok(done.filter(|_| !planted(Fault::ValueEarly)).unwrap_or_default())
    }

    fn touch(&mut self, touch: MemoryAccess, operands: &[Token]) -> Result<Token, Problem> {
        let write = touch.write;
        let to = self.addresses.translate(touch.address);
        let (address, _) = to;
        let Some(frame) = self.frames.last() else { return self.access(touch, to, operands) };
        let place = frame.k.buffers[touch.held.buffer].place;
        let argument = matches!(place, loop_ir::Place::Input(_)) && self.frames.len() == 1;
        if !argument && !frame.taped(touch.held) {
            if write && self.setup.overlap {
                self.arguments.clear();
            }
            return self.access(touch, to, operands);
        }
        let streamed = touch.value.filter(|_| argument);
        let streamed = streamed.and_then(|value| self.schedule.load(self.step - 1, value));
        if write {
            let done = self.access(touch, to, operands)?;
            let value = self.join(operands)?;
            self.held.insert(address, value);
            return Ok(done);
        }
        let held = if argument { &self.arguments } else { &self.held };
        if let Some(token) = held.get(&address) {
            return Ok(*token);
        }
        let again = argument
            && match &mut self.read {
                Some(read) if !self.reverse => {
                    read.insert(address);
                    false
                }
                Some(read) => read.contains(&address),
                None => false,
            };
        self.uses(again);
        let token = match streamed {
            Some(at) => self.load_input(at, address, operands)?,
            None if again => self.push(0, Work::Rematerialized { address }, operands)?,
            None => self.access(touch, to, operands)?,
        };
        let held = if argument { &mut self.arguments } else { &mut self.held };
        held.insert(address, token);
        Ok(token)
    }

    fn external(
        &mut self,
        signature: &ExternalSignature,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>, Problem> {
        match &self.receiver {
            Receiver::Recorder(_) => {
                let answer = signature.run(operands)?;
                self.answers.push_back(answer.clone());
                Ok(answer)
            }
            Receiver::Machine(_) => {
                self.answers.pop_front().map_or_else(|| signature.run(operands), Ok)
            }
        }
    }

    fn branch(&mut self, operands: &[Token]) -> Result<(), Problem> {
        self.push(0, Work::Branch, operands).map(|_| ())
    }

    fn begin(&mut self) {
        self.used = false;
    }

    fn iteration(&mut self, site: Site, index: Token) -> Result<Token, Problem> {
        self.block();
        let next = self.push(self.site(site), Work::Compute(Opcode::Integer), &[index])?;
        self.branch(&[next])?;
        Ok(next)
    }
}
