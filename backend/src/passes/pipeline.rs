//! Pipelines: the passes that kernels go through, and their order.
//!
//! The lists stand here once, so that tests run the passes that users run. A pass of machine code may move, merge
//! and drop statements; a program whose [`shadow`](crate::loop_ir::shadow) run was right before is right after each of them,
//! and computes the same bits as long as no pass says in how many lanes a sum is taken (`contract`,
//! `choose_lanes`).

use super::{
    Ahead, ahead, apart, choose_lanes, confine, contract, in_place, jam, localize, own_registers,
    registers, reuse, roll, splice, split_loops, straighten, unroll, upward,
};
use crate::loop_ir::Program;
use crate::machine::Machine;
use tapeloom_ir::Problem;

/// What passes have to tell beside the program.
#[derive(Default)]
pub(crate) struct Passed {
    /// The arrays that steps compute ahead of their loops.
    pub(crate) ahead: Vec<Ahead>,
    /// How many loads and stores are confined to their buffers.
    pub(crate) confined: usize,
}

/// A pass and its name.
pub(crate) struct Pass {
    pub(crate) name: &'static str,
    does: Does,
}

enum Does {
    Plain(fn(&mut Program)),
    /// The pass may fail, asks for the machine, or has something to tell.
    Told(fn(&mut Program, Machine, &mut Passed) -> Result<(), Problem>),
}

const fn plain(name: &'static str, does: fn(&mut Program)) -> Pass {
    Pass { name, does: Does::Plain(does) }
}

const fn told(
    name: &'static str,
    does: fn(&mut Program, Machine, &mut Passed) -> Result<(), Problem>,
) -> Pass {
    Pass { name, does: Does::Told(does) }
}

const CONFINE: Pass = told("confine", |p, _, passed| {
    passed.confined = confine(p)?;
    Ok(())
});

/// Before machine code.
pub(crate) const NATIVE: [Pass; 16] = [
    plain("splice", splice),
    plain("registers", registers),
    plain("straighten", straighten),
    told("split_loops", |p, _, _| split_loops(p, true)),
    // In a range of a loop more is known.
    plain("straighten", straighten),
    plain("own_registers", own_registers),
    plain("in_place", in_place),
    plain("reuse", |p| reuse(p, false)),
    plain("localize", localize),
    plain("upward", upward),
    plain("roll", roll),
    told("ahead", |p, machine, passed| {
        passed.ahead = ahead(p, machine);
        Ok(())
    }),
    plain("contract", contract),
    plain("choose_lanes", choose_lanes),
    plain("jam", jam),
    CONFINE,
];

/// For a machine that runs loops as they are written: the simulated one.
pub(crate) const AS_WRITTEN: [Pass; 5] = [
    plain("splice", splice),
    plain("registers", registers),
    told("split_loops", |p, _, _| split_loops(p, false)),
    plain("choose_lanes", choose_lanes),
    CONFINE,
];

/// Runs passes, and calls `after` behind each.
///
/// # Errors
/// Those of [`confine`].
pub(crate) fn through(
    passes: &[Pass],
    program: &mut Program,
    machine: Machine,
    after: &mut dyn FnMut(&'static str, &Program),
) -> Result<Passed, Problem> {
    let mut passed = Passed::default();
    for pass in passes {
        match pass.does {
            Does::Plain(does) => does(program),
            Does::Told(does) => does(program, machine, &mut passed)?,
        }
        after(pass.name, program);
    }
    Ok(passed)
}

/// What machine code is made of.
///
/// # Errors
/// Those of [`confine`].
pub(crate) fn native(program: &mut Program, machine: Machine) -> Result<Passed, Problem> {
    through(&NATIVE, program, machine, &mut |_, _| {})
}

/// What a machine runs on which loops stay as they are written.
///
/// # Errors
/// Those of [`confine`].
pub(crate) fn as_written(program: &mut Program, machine: Machine) -> Result<Passed, Problem> {
    through(&AS_WRITTEN, program, machine, &mut |_, _| {})
}

/// What that machine runs where loops are unrolled by some factors; what arrays that may `overlap`
/// hold is read again behind each store.
///
/// # Errors
/// None but faults of tapeloom.
pub(crate) fn unrolled(
    program: &mut Program,
    factors: &[u64],
    overlap: bool,
) -> Result<(), Problem> {
    // Where loops are cut, and which addresses are alike, is seen of straight indices.
    straighten(program);
    split_loops(program, false)?;
    unroll(program, factors);
    straighten(program);
    reuse(program, overlap);
    apart(program);
    Ok(())
}
