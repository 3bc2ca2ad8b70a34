//! Zero-fill elimination: zeros are not stored to a large result, because its memory is zeroed when it is
//! allocated.
//!
//! ```text
//! buffer b1: f64[4,8192] output 0              buffer b1: f64[4,8192] output 0 zeroed
//! for i0 in 32768 { store b1[i0], 0.0 }   ->
//! for i1 in 8192 { .. adds to b1 .. }          for i1 in 8192 { .. adds to b1 .. }
//! ```
//!
//! Every sum over the iterations of a loop begins with such a fill, and the fill takes as long as the allocation by the
//! system. The caller provides zeroed memory for a result that is marked `zeroed`: pages that are new from the system
//! are zero already, and the caller clears memory that an earlier call used.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::{Arg, Buffer, BufferId, BufferVersion, Place, Program, Stmt};
use cranelift_entity::PrimaryMap;
use std::collections::BTreeSet;
use tapeloom_ir::LARGE_BYTES;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "elide_zero_fill",
    about: "initial zeros of a large result are not stored, because its memory is new",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Program(|program, _| Ok(elide_zero_fill(program))),
};

/// Removes the statements that fill a large result with zeros before any other access, and marks the result `zeroed`,
/// so that the caller provides zeroed memory for it. Returns whether a statement was removed.
fn elide_zero_fill(program: &mut Program) -> bool {
    let kernel = &mut program.entry;
    let mut steps = std::mem::take(&mut kernel.body);
    let mut search =
        Search { buffers: &kernel.buffers, touched: BTreeSet::new(), zeroed: Vec::new() };
    let changed = search.steps(&mut steps);
    let zeroed = search.zeroed;
    zeroed.into_iter().for_each(|id| kernel.buffers[id].zeroed = true);
    kernel.body = steps;
    changed
}

struct Search<'a> {
    buffers: &'a PrimaryMap<BufferId, Buffer>,
    /// The results that an earlier statement loads or stores, so that their memory no longer holds the
    /// caller's zeros.
    touched: BTreeSet<BufferId>,
    /// The results whose fill with zeros has been removed.
    zeroed: Vec<BufferId>,
}

impl Search<'_> {
    /// Drops the loops that only store zeros to large results that no earlier statement has touched.
    /// Statements inside loops are not considered, since they run more than once. Returns whether a statement was
    /// removed.
    fn steps(&mut self, steps: &mut Vec<Stmt>) -> bool {
        let (mut changed, before) = (false, steps.len());
        steps.retain_mut(|step| {
            if let Stmt::Nest { body, .. } = step {
                changed |= self.steps(body);
                return !body.is_empty();
            }
            let mut stored = Vec::new();
            let clears = self.clears(step, &mut stored);
            if clears {
                self.zeroed.extend(stored);
            } else {
                touched(step, &mut self.touched);
            }
            !clears
        });
        changed || steps.len() < before
    }

    /// Returns whether a statement only stores zeros to large results (`LARGE_BYTES` or more) that nothing accessed
    /// before. For a small result, zeroing by the caller would cost the same as the stores.
    fn clears(&self, stmt: &Stmt, stored: &mut Vec<BufferId>) -> bool {
        match stmt {
            Stmt::Nest { body, .. } => body.iter().all(|s| self.clears(s, stored)),
            Stmt::For { carries, body, .. } => {
                carries.is_empty() && body.iter().all(|s| self.clears(s, stored))
            }
            Stmt::Store {
                held: BufferVersion { buffer, version: 0 },
                value: Arg::Literal(zero),
                ..
            } => {
                stored.push(*buffer);
                let of = &self.buffers[*buffer];
                let new = matches!(of.place, Place::Output(_))
                    && (!self.touched.contains(buffer) || planted(Fault::TouchedZeroed));
                zero.bits == 0 && new && of.ty.bytes() >= LARGE_BYTES
            }
            _ => false,
        }
    }
}

/// Collects the buffers that a statement loads, stores or carries.
fn touched(stmt: &Stmt, all: &mut BTreeSet<BufferId>) {
    stmt.buffers(&mut |b| _ = all.insert(b));
    stmt.blocks().into_iter().flatten().for_each(|s| touched(s, all));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::Executable;
    use crate::loop_ir::{eval, parse, shadow};
    use tapeloom_ir::Tensor;

    /// Runs the pass on a program with these top-level statements. Returns the remaining ones, and whether the large
    /// result is `zeroed`.
    fn left(steps: &str) -> (String, bool) {
        let text = format!(
            "program @p {{\n  buffer b0: f64[524288] output 0\n  buffer b1: f64[8] output 1\n  \
             buffer b2: f64[524288] input 0\n{steps}{OTHER}}}\n"
        );
        let program = parse(&text, &|_| None).unwrap();
        let mut cleared = program.clone();
        super::elide_zero_fill(&mut cleared);
        let x = Tensor::full(&[1 << 19], 2.0).unwrap();
        let want = eval(&program, std::slice::from_ref(&x)).unwrap();
        assert_eq!(shadow(&cleared, std::slice::from_ref(&x)).unwrap(), want);
        let code = Executable::new(&cleared).unwrap();
        // Call twice: the second call reuses the memory of the first call's results, which the caller must clear.
        (0..2).for_each(|_| assert_eq!(code.call(&[&x]).unwrap(), want));
        let all = cleared.to_string();
        assert_eq!(parse(&all, &|_| None).unwrap().to_string(), all);
        let steps = all.lines().skip_while(|l| l.contains("program") || l.contains("buffer"));
        let steps = steps.map(|l| format!("{l}\n")).collect::<String>();
        (steps.replace(&format!("{OTHER}}}\n"), ""), all.contains("output 0 zeroed"))
    }

    const OTHER: &str = "  for i9 in 8 {\n    store b1[i9], 1.0\n  }\n";
    const CLEARS: &str = "  for i0 in 524288 lanes 2 {\n    store b0[i0], 0.0\n  }\n";
    const ADDS: &str = "  for i1 in 524288 {\n    %0: f64 = load b0[i1]\n    %1: f64 = load b2[i1]\n    \
                        %2: f64 = add %0, %1\n    store b0[i1], %2\n  }\n";

    const SETS: &str =
        "  for i1 in 524288 {\n    %1: f64 = load b2[i1]\n    store b0[i1], %1\n  }\n";

    #[test]
    fn zeros_of_new_memory_are_not_stored() {
        let (steps, zeroed) = left(&format!("{CLEARS}{ADDS}"));
        assert_eq!((&steps[..], zeroed), (ADDS, true));
        // A fill with no use after it is removed; of a nest of a fill and another statement, only the fill is
        // removed.
        assert_eq!(left(CLEARS).0, "");
        let part = "  nest {\n    for i2 in 524287 {\n      store b0[i2], 0.0\n    }\n    store b0[524287], 1.0\n  }\n";
        let (steps, _) = left(part);
        assert_eq!(steps, "  nest {\n    store b0[524287], 1.0\n  }\n");
    }

    #[test]
    fn other_zeros_are_stored() {
        let minus = CLEARS.replace("0.0", "-0.0");
        let small = format!("  for i0 in 8 {{\n    store b1[i0], 0.0\n  }}\n{SETS}");
        let late = format!("{SETS}{CLEARS}");
        let again = format!("  serial i3 in 2 {{\n{CLEARS}{ADDS}  }}\n").replace("i0", "i4");
        for kept in [&minus, &small, &late, &again] {
            let (steps, zeroed) = left(kept);
            assert!(!zeroed, "{steps}");
            assert_eq!(steps.matches("store").count(), kept.matches("store").count(), "{steps}");
        }
    }
}
