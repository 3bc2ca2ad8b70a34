//! The fingerprint of what a compile gives: kernels, memory plan, layouts of the tape.
//!
//! See [`tapeloom_ir::fingerprint`] for what counts: structure, and no names, lines, times or texts.

use crate::layout::{Layout, Pipeline, Room};
use crate::loop_ir::Program;
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
    fingerprint::tell("tape", of, || fingerprint::of(&Told(plan)));
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

impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Plan { rows, steps, peak, calls, tapes, keeping: _, again: _, inside: _, works } = self;
        (rows, steps, peak).hash(state);
        for CallRow { name: _, equations, sites, kernel } in calls {
            (equations, sites, kernel).hash(state);
        }
        tapes.values().for_each(|tape| tape.record.hash(state));
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
            tape: _,
            read_back: _,
            kept,
            names,
        } = self;
        (buffer, ty, place, first, last).hash(state);
        (kept.len(), names.len()).hash(state);
    }
}

/// What is told of the tape: no byte of memory depends on it.
struct Told<'p>(&'p Plan);

impl Hash for Told<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let row = |row: &Row, state: &mut H| (row.tape, row.read_back.len()).hash(state);
        self.0.rows.iter().for_each(|r| row(r, state));
        self.0.keeping.iter().for_each(|k| (&k.ty, k.iterations).hash(state));
        self.0.again.iter().for_each(|a| (&a.ty, a.times).hash(state));
        for Inside { step, bytes, rows } in &self.0.inside {
            (step, bytes, rows).hash(state);
            rows.iter().for_each(|r| row(r, state));
        }
    }
}

impl Hash for Layout {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Layout { name: _, regions, inputs } = self;
        regions.hash(state);
        inputs.hash(state);
    }
}
