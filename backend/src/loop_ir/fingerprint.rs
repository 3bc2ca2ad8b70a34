//! The fingerprint of a loop program: a hash of its structure, without names and source lines.
//!
//! See [`tapeloom_ir::fingerprint`] for the properties that are hashed.

use super::{Buffer, External, ExternalSignature, Kernel, Program};
use std::hash::{Hash, Hasher};
use tapeloom_ir::fingerprint;

/// Returns the fingerprint of those parts of a program that its text form prints. Ids of scalars, variables and
/// versions that are neither defined nor used do not count.
pub(crate) fn printed(program: &Program) -> u64 {
    fingerprint::of(&Printed(program))
}

struct Printed<'a>(&'a Program);

impl Hash for Printed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Program { tapes, limited, timers, callees: _, entry: _ } = self.0;
        (tapes.len(), limited.len()).hash(state);
        hash_timers(*timers, state);
        for (_, kernel) in self.0.kernels() {
            let Kernel { inline, argsort, buffers, body, workspace, versions, kept, .. } = kernel;
            (inline, argsort, buffers, body, workspace).hash(state);
            buffers.keys().for_each(|b| versions[b].hash(state));
            kept.keys().for_each(|held| held.hash(state));
        }
    }
}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Program { tapes, limited, timers, callees, entry } = self;
        tapes.values().for_each(|tape| (tape.record, tape.within.len()).hash(state));
        limited.values().for_each(|w| w.runtime.hash(state));
        hash_timers(*timers, state);
        callees.hash(state);
        entry.hash(state);
    }
}

/// Hashes the number of timers, if there are any. A program without timers hashes nothing here, so that its fingerprint
/// does not depend on the existence of timers.
fn hash_timers<H: Hasher>(timers: usize, state: &mut H) {
    if timers > 0 {
        ("timers", timers).hash(state);
    }
}

impl Hash for Buffer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Buffer { ty, place, zeroed } = self;
        (ty, place).hash(state);
        if *zeroed {
            "zeroed".hash(state);
        }
    }
}

impl Hash for Kernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Kernel {
            name: _,
            inline,
            argsort,
            buffers,
            body,
            scalars,
            vars,
            indices,
            cursors,
            versions,
            kept,
            workspace,
            private,
        } = self;
        (inline, argsort, buffers, body, scalars, vars, indices, cursors).hash(state);
        (workspace, private).hash(state);
        buffers.keys().for_each(|b| versions[b].hash(state));
        // Hash only the number of marks of each buffer version that is saved for the reverse pass, not the names in the
        // marks.
        kept.iter().for_each(|(held, names)| (held, names.len()).hash(state));
    }
}

/// The numbers of Rust functions differ between processes, so only the types of a call of a Rust function are hashed.
impl Hash for ExternalSignature {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ExternalSignature { function, operands, location: _ } = self;
        match function {
            External::Host(call) => (&call.results, operands).hash(state),
            External::Routine(planned) => (planned.call(), operands).hash(state),
        }
    }
}
