//! A reference model of issue, as the TapeFlow paper's authors describe it: each tick scans the whole instruction
//! window in program order. It is slow and short. The test checks that [`Simulation`] takes the same number of ticks.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::arrays::{Arrays, Tape};
use super::machine::Machine;
use super::memory::Memory;
use super::op::{Op, Token, Work};
use super::opcode::Opcode;
use super::simulation::Simulation;
use super::system::System;
use crate::sweeps::Sweep;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Waiting,
    Runs { until: u64 },
    Done,
}

struct Scan<'a> {
    m: &'a Machine,
    ops: &'a [(u32, Work, Vec<usize>)],
    states: Vec<State>,
    memory: Memory,
    now: u64,
}

impl Scan<'_> {
    /// Returns the ticks that a run of `ops` takes. Each operation has the number of its statement (its site), its
    /// work, and the indices of its operands.
    fn run(m: &Machine, ops: &[(u32, Work, Vec<usize>)]) -> u64 {
        let states = Vec::new();
        let mut scan = Scan { m, ops, states, memory: Memory::new(m), now: 0 };
        let mut last = 0;
        loop {
            for state in &mut scan.states {
                if matches!(state, State::Runs { until } if *until <= scan.now) {
                    (*state, last) = (State::Done, scan.now);
                }
            }
            let (mut started, mut requested) = (0, 0);
            while scan.fetch() || scan.tick(&mut started, &mut requested) {}
            if scan.states.len() == ops.len() && scan.states.iter().all(|s| *s == State::Done) {
                return last;
            }
            scan.now += 1;
        }
    }

    /// Adds the next operation to the window, if the window has a free slot and no earlier branch waits for operands.
    /// Returns whether an operation was added.
    fn fetch(&mut self) -> bool {
        let at = self.states.len();
        let open = self.states.iter().filter(|s| **s != State::Done).count() as u64;
        // Whether later operations may enter: a branch does no work, but later operations wait for the branch's
        // operands.
        let known = |(site, work, operands): &(u32, Work, Vec<usize>)| {
            let _ = site;
            *work != Work::Branch || operands.iter().all(|o| self.states[*o] == State::Done)
        };
        let fits = at < self.ops.len() && open < self.m.window;
        if !fits || !self.ops[..at].iter().all(known) {
            // A branch needs no slot of the instruction window.
            if at < self.ops.len() && self.ops[at].1 == Work::Branch {
                self.states.push(State::Done);
                return true;
            }
            return false;
        }
        let branch = self.ops[at].1 == Work::Branch;
        self.states.push(if branch { State::Done } else { State::Waiting });
        true
    }

    /// Starts the first operation, in program order, that can start in this tick. Returns whether an operation was
    /// started.
    fn tick(&mut self, started: &mut u64, requested: &mut u64) -> bool {
        let Scan { m, ops, now, .. } = *self;
        let running = |test: &dyn Fn(usize) -> bool, states: &[State]| {
            let runs = |at: &usize| matches!(states[*at], State::Runs { .. }) && test(*at);
            (0..states.len()).filter(runs).count() as u64
        };
        let mut full = false;
        for at in 0..self.states.len() {
            let (site, work, operands) = &ops[at];
            let states = &self.states;
            if states[at] != State::Waiting || operands.iter().any(|o| states[*o] != State::Done) {
                continue;
            }
            let until = match work {
                Work::Compute(opcode) => {
                    let latency = m.latencies[*opcode];
                    let is = |at: usize| matches!(ops[at].1, Work::Compute(_));
                    let busy = |at: usize| matches!(ops[at].1, Work::Compute(o) if !o.pipelined());
                    let again = |at: usize| is(at) && ops[at].0 == *site;
                    let strict = m.strict == 1 && running(&again, states) > 0;
                    let room = running(&busy, states) + *started < m.units;
                    if latency > 0 && (strict || !room) {
                        continue;
                    }
                    *started += u64::from(latency > 0 && opcode.pipelined());
                    now + latency
                }
                Work::Load(_, element) | Work::Store(_, element) => {
                    let write = matches!(work, Work::Store(..));
                    let clash = |before: &usize| match ops[*before].1 {
                        Work::Load(_, e) => write && e == *element,
                        Work::Store(_, e) => e == *element,
                        _ => false,
                    };
                    let open = |before: &usize| states[*before] != State::Done;
                    if full || (0..at).filter(open).any(|before| clash(&before)) {
                        continue;
                    }
                    let same = |at: usize| match ops[at].1 {
                        Work::Load(..) => !write,
                        Work::Store(..) => write,
                        _ => false,
                    };
                    let room = match m.blocking {
                        0 => *requested < m.ports,
                        _ => running(&same, states) < m.ports,
                    };
                    if !room {
                        continue;
                    }
                    let address = Arrays::BASE + 8 * element;
                    let Some(answer) = self.memory.access(m, now, address, write, None) else {
                        full = true;
                        continue;
                    };
                    *requested += 1;
                    answer.done
                }
                _ => continue,
            };
            self.states[at] = if until == now { State::Done } else { State::Runs { until } };
            return true;
        }
        false
    }
}

/// A linear congruential generator of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[test]
fn queues_issue_like_a_scan_of_the_window() {
    let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
    let (x, tape) = (arrays.push("x", 1024, 8), Tape::at(Tape::BASE));
    let small = Machine { units: 2, window: 12, mshrs: 2, ..Machine::cal() }.with_cache(1 << 10, 2);
    let machines = [
        Machine::cal(),
        Machine { blocking: 0, ..small.clone() },
        Machine { strict: 1, ports: 1, ..small.clone() },
        Machine { targets: 1, ..small },
        Machine::fast(),
        Machine { window: 1, ..Machine::cal() },
    ];
    for seed in Sweep::Scans.seeds() {
        let mut random = Random(seed);
        let mut ops: Vec<(u32, Work, Vec<usize>)> = Vec::new();
        for at in 0..200_usize {
            let before = |random: &mut Random| {
                let near = random.below(12) as usize + 1;
                at.checked_sub(near).into_iter().collect::<Vec<usize>>()
            };
            let element = random.below(1 + seed % 60 * 4);
            let work = match random.below(20) {
                0..8 => Work::Compute(Opcode::ALL[random.below(9) as usize]),
                8..14 => Work::Load(x, element),
                14..19 => Work::Store(x, element),
                _ => Work::Branch,
            };
            let mut operands = before(&mut random);
            operands.extend(before(&mut random));
            ops.push((random.below(9) as u32, work, operands));
        }
        for machine in &machines {
            let mut run = Simulation::new(machine, System::ENZYME, &arrays, &tape).unwrap();
            let mut tokens: Vec<Token> = Vec::new();
            for (site, work, operands) in &ops {
                let operands: Vec<Token> = operands.iter().map(|o| tokens[*o]).collect();
                let op = Op { site: *site, work: *work, operands: &operands };
                tokens.push(run.push(&op).unwrap());
            }
            let found = run.finish().unwrap().forward.ticks;
            assert_eq!(found, Scan::run(machine, &ops), "seed {seed} on {machine}");
        }
    }
}
