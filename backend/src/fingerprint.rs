//! Fingerprints (hashes) of the results of a compilation: loop program, memory plan, layouts of the tape.
//!
//! A fingerprint covers structure, but no names, lines, times or texts. See [`tapeloom_ir::fingerprint`].

use crate::layout::{Layout, Pipeline, ScratchpadModel};
use crate::loop_ir::Program;
use crate::report::memory_plan::{CallRow, Plan, Row, TapeInStep};
use crate::target::Target;
use std::hash::{Hash, Hasher};
use tapeloom_ir::{FuncId, Module, fingerprint};

/// Writes the fingerprints of a compilation's results (loop program, memory plan, layouts of the tape), if the user
/// requested them.
pub(crate) fn record(
    module: &Module,
    func: FuncId,
    target: &Target,
    program: &Program,
    plan: &Plan,
) {
    let of = || fingerprint::function(module, func);
    let kernels = || fingerprint::of(program);
    fingerprint::record("kernels", of, kernels);
    fingerprint::record("plan", of, || fingerprint::of(plan));
    fingerprint::record("tape", of, || fingerprint::of(&TapeTable(plan)));
    // Only simulated accelerators lay out tapes, so other targets have no layout to fingerprint.
    if matches!(target, Target::Accelerator(_)) && fingerprint::wanted() {
        for pipeline in Pipeline::ALL {
            // A program without residuals has no layout, and therefore no fingerprint of a layout.
            if let Ok(layout) = pipeline.run(program, &ScratchpadModel::default()) {
                fingerprint::record("layout", kernels, || fingerprint::of(&layout));
            }
        }
    }
}

impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Plan {
            rows,
            steps,
            peak,
            calls,
            tapes,
            large_residuals: _,
            rematerialized: _,
            inside: _,
            workspaces,
        } = self;
        (rows, steps, peak).hash(state);
        for CallRow { name: _, equations, sites, kernel } in calls {
            (equations, sites, kernel).hash(state);
        }
        tapes.values().for_each(|tape| tape.record.hash(state));
        workspaces.iter().for_each(|w| (w.step, w.offset, w.bytes).hash(state));
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

/// The fields of a memory plan that are only printed in the table of the tape. They affect no byte of memory, so they
/// have a fingerprint apart from that of the plan.
struct TapeTable<'p>(&'p Plan);

impl Hash for TapeTable<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let row = |row: &Row, state: &mut H| (row.tape, row.read_back.len()).hash(state);
        self.0.rows.iter().for_each(|r| row(r, state));
        self.0.large_residuals.iter().for_each(|k| (&k.ty, k.iterations).hash(state));
        self.0.rematerialized.iter().for_each(|a| (&a.ty, a.times).hash(state));
        for TapeInStep { step, bytes, rows } in &self.0.inside {
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
