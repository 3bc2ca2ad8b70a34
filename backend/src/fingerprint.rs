//! The fingerprint of what a compile gives: kernels, memory plan, layouts of the tape.
//!
//! See [`tapeloom_ir::fingerprint`] for what counts: structure, and no names, lines, times or texts.

use crate::layout::{Layout, Pipeline, Room};
use crate::loop_ir::{HostSignature, Kernel, Program};
use crate::report::memory_plan::{CallRow, Inside, Plan, Row};
use crate::target::Target;
use std::hash::{Hash, Hasher};
use tapeloom_ir::{FuncId, Module, fingerprint};

/// Tells the stages of a compile to whoever wants them.
pub(crate) fn tell(module: &Module, func: FuncId, target: &Target, program: &Program, plan: &Plan) {
    let of = || fingerprint::function(module, func);
    let kernels = || fingerprint::of(program);
    fingerprint::tell("kernels", of, kernels);
    fingerprint::tell("plan", of, || fingerprint::of(plan));
    // Only the simulated machine lays tapes out.
    if matches!(target, Target::Accelerator(_)) && fingerprint::wanted() {
        for pipeline in Pipeline::ALL {
            // Some programs keep nothing that a layout could be made of, which is the same before and after.
            if let Ok(layout) = pipeline.run(program, &Room::default()) {
                fingerprint::tell("layout", kernels, || fingerprint::of(&layout));
            }
        }
    }
}

/// The fingerprint of what is printed of a program: not of ids that nothing uses.
pub(crate) fn printed(program: &Program) -> u64 {
    fingerprint::of(&Printed(program))
}

struct Printed<'a>(&'a Program);

impl Hash for Printed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Program { tapes, watched, callees: _, entry: _ } = self.0;
        (tapes.len(), watched.len()).hash(state);
        for (_, kernel) in self.0.kernels() {
            let Kernel { inline, buffers, body, workspace, versions, kept, .. } = kernel;
            (inline, buffers, body, workspace).hash(state);
            buffers.keys().for_each(|b| versions[b].hash(state));
            kept.keys().for_each(|held| held.hash(state));
        }
    }
}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Program { tapes, watched, callees, entry } = self;
        tapes.values().for_each(|tape| (tape.record, tape.within.len()).hash(state));
        watched.values().for_each(|w| w.runtime.hash(state));
        callees.hash(state);
        entry.hash(state);
    }
}

impl Hash for Kernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Kernel {
            name: _,
            inline,
            buffers,
            body,
            scalars,
            vars,
            indices,
            cursors,
            versions,
            kept,
            workspace,
        } = self;
        (inline, buffers, body, scalars, vars, indices, cursors, workspace).hash(state);
        buffers.keys().for_each(|b| versions[b].hash(state));
        // Under which names values are kept may be said otherwise.
        kept.iter().for_each(|(held, names)| (held, names.len()).hash(state));
    }
}

/// Rust functions are numbered by the process, so what counts is of what types they are.
impl Hash for HostSignature {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let HostSignature { call, operands, location: _ } = self;
        (&call.results, operands).hash(state);
    }
}

impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Plan { rows, steps, peak, calls, tapes, keeping, again, inside, works } = self;
        (rows, steps, peak).hash(state);
        for CallRow { name: _, equations, sites, kernel } in calls {
            (equations, sites, kernel).hash(state);
        }
        tapes.values().for_each(|tape| tape.record.hash(state));
        keeping.iter().for_each(|k| (&k.ty, k.rounds).hash(state));
        again.iter().for_each(|a| (&a.ty, a.times).hash(state));
        for Inside { step, bytes, rows } in inside {
            (step, bytes, rows).hash(state);
        }
        works.iter().for_each(|w| (w.step, w.offset, w.bytes).hash(state));
    }
}

impl Hash for Row {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Row {
            buffer,
            ty,
            place,
            first,
            last,
            primitive: _,
            location: _,
            tape,
            read_back,
            kept,
            names,
        } = self;
        (buffer, ty, place, first, last, tape).hash(state);
        (read_back.len(), kept.len(), names.len()).hash(state);
    }
}

impl Hash for Layout {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Layout { name: _, regions, inputs } = self;
        regions.hash(state);
        inputs.hash(state);
    }
}
