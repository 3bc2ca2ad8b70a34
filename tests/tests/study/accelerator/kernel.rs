//! Support for kernels that are written as sequences of operations: tokens (results of operations), layers of the tape,
//! and a run on a simulated system.

use tapeloom_backend::accelerator::*;
use tapeloom_ir::Problem;

/// A kernel with its gradient, as operations of the forward and of the reverse pass.
pub(crate) trait Kernel {
    /// Returns the arrays that the kernel accesses, with their addresses.
    fn arrays(&self) -> Arrays;
    fn tape(&self) -> Tape;
    fn forward(&self, e: &mut Emit<'_>);
    fn reverse(&self, e: &mut Emit<'_>);
}

/// Passes operations to a simulation. The first problem is stored, and operations after it are ignored.
pub(crate) struct Emit<'a> {
    run: Simulation<'a>,
    problem: Option<Problem>,
}

impl<'a> Emit<'a> {
    pub(crate) fn new(run: Simulation<'a>) -> Emit<'a> {
        Emit { run, problem: None }
    }

    /// Ends the forward pass and begins the reverse pass.
    pub(crate) fn reverse(&mut self) {
        if self.problem.is_none() {
            self.problem = self.run.reverse().err();
        }
    }

    /// Ends the program, after the forward pass or after both passes, and returns its counts.
    pub(crate) fn finish(self) -> Result<Statistics, Problem> {
        match self.problem {
            Some(problem) => Err(problem),
            None => self.run.finish(),
        }
    }

    pub(crate) fn push(&mut self, site: u32, work: Work, operands: &[Token]) -> Token {
        if self.problem.is_some() {
            return Token::READY;
        }
        self.run.push(&Op { site, work, operands }).unwrap_or_else(|problem| {
            self.problem = Some(problem);
            Token::READY
        })
    }

    /// Emits an arithmetic operation that belongs to no particular operation of the program's text (site 0).
    pub(crate) fn op(&mut self, opcode: Opcode, operands: &[Token]) -> Token {
        self.push(0, Work::Compute(opcode), operands)
    }

    pub(crate) fn add(&mut self, a: Token, b: Token) -> Token {
        self.op(Opcode::Add, &[a, b])
    }

    pub(crate) fn mul(&mut self, a: Token, b: Token) -> Token {
        self.op(Opcode::Mul, &[a, b])
    }

    pub(crate) fn load(&mut self, array: ArrayId, element: usize) -> Token {
        self.push(0, Work::Load(array, element as u64), &[])
    }

    pub(crate) fn store(&mut self, array: ArrayId, element: usize, value: Token) {
        self.push(0, Work::Store(array, element as u64), &[value]);
    }

    /// Emits `array[element] += value` as a load, an addition and a store.
    pub(crate) fn accumulate(&mut self, array: ArrayId, element: usize, value: Token) {
        let old = self.load(array, element);
        let new = self.add(old, value);
        self.store(array, element, new);
    }

    /// Emits a load of the cotangent of an element that the forward pass overwrote, and a store of zero to it.
    pub(crate) fn take(&mut self, array: ArrayId, element: usize) -> Token {
        let value = self.load(array, element);
        self.store(array, element, Token::READY);
        value
    }

    pub(crate) fn layer(&mut self, entries: usize, in_array: bool) {
        let layer = Layer { stream: 0, entries: entries as u64, in_array, order: Order::Mirrored };
        self.push(0, Work::Layer(layer), &[]);
    }

    pub(crate) fn barrier(&mut self) {
        self.push(0, Work::Barrier(0), &[]);
    }

    pub(crate) fn tape_store(&mut self, at: At, x: f64, value: Token) {
        self.push(0, Work::TapeStore(at.entry(x)), &[value]);
    }

    pub(crate) fn tape_load(&mut self, at: At, x: f64) -> Token {
        self.push(0, Work::TapeLoad(at.entry(x)), &[])
    }

    /// Emits the increment of a loop's index: operations of the next block must wait for it, one tick.
    pub(crate) fn next(&mut self, index: &mut Token) {
        *index = self.op(Opcode::Integer, &[*index]);
        self.push(0, Work::Branch, &[*index]);
    }
}

/// The identity of a value on the tape, and its offset in its layer (the group of tape entries that are stored
/// together).
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) identity: EntryIdentity,
    pub(crate) offset: usize,
}

impl At {
    pub(crate) fn tape(region: RegionId, value: usize, execution: usize, offset: usize) -> At {
        At { identity: EntryIdentity::Tape(region, value as u64, execution as u64), offset }
    }

    pub(crate) fn entry(self, x: f64) -> Entry {
        Entry::word(self.identity, self.offset as u64, x.to_bits())
    }
}

/// Runs the forward and the reverse pass of a kernel on a simulated machine and system, and returns the counts.
pub(crate) fn run(kernel: &dyn Kernel, machine: &Machine, system: System) -> Statistics {
    try_run(kernel, machine, system).unwrap()
}

pub(crate) fn try_run(
    kernel: &dyn Kernel,
    machine: &Machine,
    system: System,
) -> Result<Statistics, Problem> {
    let (arrays, tape) = (kernel.arrays(), kernel.tape());
    let mut e = Emit::new(Simulation::new(machine, system, &arrays, &tape)?);
    kernel.forward(&mut e);
    e.reverse();
    kernel.reverse(&mut e);
    e.finish()
}

/// Returns a machine with a window of one operation, which runs a trace in order.
pub(crate) fn replay() -> Machine {
    Machine { window: 1, ..Machine::cal() }
}

/// Returns input number `i` of the kernels: frac(sin(12.9898 (i + 1)) 43758.5453) - 1/2.
pub(crate) fn noise(i: usize) -> f64 {
    let x = (12.9898 * (i as f64 + 1.0)).sin() * 43758.5453;
    x - x.floor() - 0.5
}
