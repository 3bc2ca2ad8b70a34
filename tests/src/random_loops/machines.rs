//! A property of simulated machines: results must not depend on the configuration of a run.
//!
//! The addresses of arrays, the placement of the tape, the order in which it is read, and unroll factors are part of a
//! run's configuration. So one compiled program is run under random configurations. Its results and its effects must
//! have the bits of the loop IR interpreter. The counted accesses to memory must be those of a run in which all
//! accesses go through the cache.

use super::Iterations;
use super::laws::{ORDERS, Order};
use super::meaning::meaning;
use super::program::{Program, Step, about, policy};
use crate::{Agreement, Failure, Listener, Rng};
use std::rc::Rc;
use tapeloom::accelerator::*;
use tapeloom::prelude::*;
use tapeloom::{Error, Kind, Target};

/// The number of run configurations that are tried per program.
const SETUPS: usize = 3;
/// If a program runs more operations than this, only one configuration is tried.
const LONG: u64 = 100_000;

/// The transform from a function to its gradient; [`machines`] chooses it for half of the programs, and one of
/// [`ORDERS`] for the others.
const GRADIENT: Order = ("a gradient", |f| Box::new(grad(move |x| f(x))));

/// Draws a policy for the gradient; `Aliased` and `Disjoint`, which model other compilers, are drawn often.
fn kept(rng: &mut Rng) -> Policy {
    match rng.index(5) {
        0 | 1 => Policy::Aliased,
        2 => Policy::Disjoint,
        _ => policy(rng),
    }
}

fn machine(rng: &mut Rng) -> Machine {
    let mut of = |all: &[u64]| all[rng.index(all.len())];
    let row = TABLE_III[of(&[0, 0, 0, 1, 5]) as usize];
    let machine = if of(&[0, 0, 1]) == 0 { Machine::cal() } else { Machine::fast() };
    Machine {
        window: of(&[1, 5, 64, 10_000]),
        units: of(&[1, 16]),
        strict: of(&[0, 0, 0, 1]),
        mshrs: of(&[1, 20]),
        targets: of(&[0, 1, 12]),
        write_buffers: of(&[0, 1, 8]),
        blocking: of(&[0, 1]),
        entries: of(&[2, 16, 64, 64, 256, 4096]),
        halves: of(&[1, 2, 2]),
        banks: of(&[1, 3, 8]),
        request: of(&[8, 64]),
        outstanding: of(&[1, 8]),
        pace: of(&[1, 5]),
        barrier: of(&[0, 1, 7]),
        row: of(&[0, 64, 8192]),
        row_banks: of(&[1, 16]),
        ..machine.with_cache(row.bytes, row.ways)
    }
}

/// A simulated system that streams the tape and the arguments through a scratchpad, at no cost in time.
const INPUTS_IDEAL: System =
    System { tape: Route::Scratchpad { ideal: true }, ..System::TFLOW_INPUTS };

fn setup(rng: &mut Rng) -> RunConfig {
    let machine = machine(rng);
    let mut of = |all: &[u64]| all[rng.index(all.len())];
    let factor = |rng: &mut Rng| if rng.index(8) == 0 { u64::MAX } else { 1 + rng.index(9) as u64 };
    let layer = of(&[1, 2, 7, 30, u64::MAX, u64::MAX]);
    let map = AddressMap {
        header: of(&[0, 48]),
        gap: of(&[0, 8, 1000]),
        word: of(&[1, 8]),
        ..AddressMap::default()
    };
    let unroll = (0..rng.index(4)).map(|_| factor(rng)).collect();
    let mut flag = || rng.index(2) == 1;
    let (prepared, mirrored, overlap, again) = (flag(), flag(), flag(), flag());
    let systems: Vec<System> = System::ALL.into_iter().chain([INPUTS_IDEAL]).collect();
    let streams = |s: &&System| matches!(s.tape, Route::Scratchpad { .. });
    let streaming: Vec<System> = systems.iter().filter(streams).copied().collect();
    // Three quarters of the drawn systems stream the tape.
    let among = if rng.index(4) == 0 { systems } else { streaming };
    let system = among[rng.index(among.len())];
    RunConfig { machine, system, map, layer, unroll, prepared, mirrored, overlap, again }
}

/// Checks that results have the same bits on every machine and configuration, and that each run counts the accesses to
/// memory of a run in which all accesses go through the cache.
pub fn machines(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let (log, x) = (Listener::default(), program.argument());
    let policy = about(&kept(rng), &program.steps);
    let (name, order) = if rng.index(2) == 0 { GRADIENT } else { ORDERS[rng.index(ORDERS.len())] };
    let target = match rng.index(2) {
        0 => Target::Interpreter,
        _ => Target::Accelerator(machine(rng)),
    };
    let setups: Vec<RunConfig> = (0..SETUPS).map(|_| setup(rng)).collect();
    let f = checkpoint(meaning(Rc::new(program.clone()), log.clone(), false), policy.clone());
    let f = order(Rc::new(f));
    let f = jit(move |x: Var| f(x)).on(target.clone());
    let want = match f.call(&x) {
        Ok(y) => y,
        Err(e) if e.kind() == Kind::Budget || keeps_a_tape_a_member(&e) => return Ok(()),
        Err(e) => return Err(format!("{name}, {policy}, {target}: {e}").into()),
    };
    let heard = log.take();
    for setup in setups {
        let wrong = |e: String| format!("{name}, {policy}, {target}, on\n{setup:?}: {e}");
        let run = |setup: &RunConfig| {
            let (y, s) = f.simulate(&x, setup.clone()).map_err(|e| wrong(e.to_string()))?;
            Agreement::Exact.check(&y, &want).map_err(wrong)?;
            Agreement::Exact.check_heard(&log.take(), &heard).map_err(wrong)?;
            Ok::<Statistics, String>(s)
        };
        let cached = RunConfig { system: System::ENZYME, ..setup.clone() };
        let (found, cached) = (run(&setup)?, run(&cached)?);
        counted(program, &setup, &found, &cached)
            .map_err(|e| wrong(format!("{e}\n{found}\n{cached}")))?;
        if cached.whole().operations > LONG {
            break;
        }
    }
    Ok(())
}

/// Returns whether an error refuses a batch because each of its members would save a dynamic tape of its own length.
/// Such members run one after the other, because they perform ordered effects in a loop of unknown trip count.
fn keeps_a_tape_a_member(error: &Error) -> bool {
    let text = error.to_string();
    error.kind() == Kind::Target
        && text.contains("members of a batch that run one after the other save")
}

/// Compares the memory accesses that a simulated system counts with those of a run in which all accesses go through the
/// cache.
fn counted(
    program: &Program,
    setup: &RunConfig,
    found: &Statistics,
    cached: &Statistics,
) -> Result<(), String> {
    let same = |what: &str, a: u64, b: u64| match a == b {
        true => Ok(()),
        false => Err(format!("{what}: {a}, and {b}")),
    };
    for (a, b) in [(&found.forward, &cached.forward), (&found.reverse, &cached.reverse)] {
        // An argument's value that is streamed through the scratchpad counts as a load, as it does through the cache.
        let accesses = |c: &Counts| c.others.count() + c.taped() + c.inputs;
        same("accesses", accesses(a), accesses(b))?;
        same("stores", a.others.stores, b.others.stores)?;
        // If an argument is reread from its own memory, it is not on the tape. So compare the blocks that use the tape
        // only if no argument is reread.
        let taped = a.inputs == 0;
        if taped {
            same("blocks", a.blocks, b.blocks)?;
        }
        // If arguments are not reread, the number of operations must be the same. Rereads do not count as operations on
        // systems with free streams.
        if !setup.again {
            if taped {
                same("accesses to the tape", a.taped(), b.taped())?;
            }
            same("operations", a.operations, b.operations)?;
            same("edges", a.edges, b.edges)?;
        }
    }
    let (forward, reverse) = (&found.forward, &found.reverse);
    if found.phases() == 1 || setup.again {
        return Ok(());
    }
    same("entries that come back", reverse.streamed, forward.streamed)?;
    if forward.streamed > forward.scratchpad.stores {
        return Err(format!("{} entries of {}", forward.streamed, forward.scratchpad.stores));
    }
    if setup.system.layout != System::TFLOW_INPUTS.layout {
        same("layers that come back", reverse.layers, forward.layers)?;
    }
    // Loops with unknown trip counts save residuals on dynamic tapes, whose sizes are not compared.
    let unknown_counts = [Iterations::Runtime, Iterations::Counted, Iterations::Until];
    let recorded =
        program.has(&|s| matches!(s, Step::Iterations(kind, ..) if unknown_counts.contains(kind)));
    if setup.map.word == 8 && !recorded {
        same("entries", forward.streamed, forward.scratchpad.stores)?;
    }
    Ok(())
}
