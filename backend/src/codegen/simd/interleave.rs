//! The number of vectors that one iteration of a loop with lanes processes.
//!
//! If each instruction on a vector needs the result of the previous instruction (the steps of a binary search, an inner
//! loop with a carry), most of the time is latency. A processor hides latency by running several iterations at once,
//! but only as far as its reorder buffer reaches. So an iteration of a loop with a long chain processes several vectors
//! with independent chains. Their number changes no bit of a result: a loop that folds processes the number of elements
//! that its program states.

use super::form::{Access, Binary, Inst, Reg, Unary, VectorProgram, When};
use super::regalloc::{Allocation, allocate};
use super::select::{Refused, Unit, select};
use super::x86::emit::{emit, machine};
use crate::loop_ir::{BufferId, Kernel, Stmt};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::Isa;

/// The numbers of vectors that are tried, in this order, for a loop that is bound by latency. In binary searches of
/// 100,000 numbers, four vectors were no faster than three.
const SEVERAL: [usize; 2] = [3, 2];

/// Code that processes several vectors in an iteration is not used if it has more than one spilled register per this
/// number of instructions.
const INSTRUCTIONS_PER_SPILL: usize = 32;

/// The machine code of a nest of loops.
pub(crate) struct Compiled {
    pub(crate) unit: Unit,
    pub(crate) bytes: Vec<u8>,
}

/// A nest of loops to compile, with its kernel and the instruction set.
pub(crate) struct Nest<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) stmt: &'a Stmt,
    pub(crate) isa: Isa,
    /// Returns whether the elements of a buffer are in memory (not promoted to registers).
    pub(crate) in_memory: &'a dyn Fn(BufferId) -> bool,
}

impl Nest<'_> {
    /// Compiles the nest to SIMD code.
    pub(crate) fn compile(&self) -> Result<Compiled, Refused> {
        let one = self.allocated(1)?;
        if Iteration::longest(&one.0.program).waits() {
            let fits = |(unit, allocation): &(Unit, Allocation)| {
                let spills = allocation.slots.0 + allocation.slots.1;
                spills * INSTRUCTIONS_PER_SPILL <= unit.program.body.len()
            };
            let several = SEVERAL.iter().filter_map(|n| self.allocated(*n).ok()).find(fits);
            // Use the code for one vector if there is none for several vectors, which may be too long or need too large
            // a frame.
            if let Some(Ok(compiled)) = several.map(|several| self.emitted(several)) {
                return Ok(compiled);
            }
        }
        self.emitted(one)
    }

    /// Compiles the nest so that an iteration of a loop that does not fold processes at most this number of vectors.
    #[cfg(test)]
    pub(super) fn compile_with(&self, most_vectors: usize) -> Result<Compiled, Refused> {
        self.emitted(self.allocated(most_vectors)?)
    }

    fn allocated(&self, most_vectors: usize) -> Result<(Unit, Allocation), Refused> {
        let machine = machine(self.isa).map_err(Refused)?;
        let bytes = self.isa.vector_bytes();
        let unit = select(self.kernel, self.stmt, bytes, most_vectors, self.in_memory)?;
        let allocation = allocate(&unit.program, machine.vectors, machine.masks);
        Ok((unit, allocation))
    }

    fn emitted(&self, (unit, allocation): (Unit, Allocation)) -> Result<Compiled, Refused> {
        let machine = machine(self.isa).map_err(Refused)?;
        let bytes = emit(&unit.program, allocation, machine).map_err(Refused)?;
        Ok(Compiled { unit, bytes })
    }
}

/// Estimates for one instruction, or for one iteration of a loop with lanes.
#[derive(Clone, Copy, Default)]
struct Iteration {
    /// The cycles of the longest chain of dependent instructions.
    latency: usize,
    /// The operations that occupy the reorder buffer.
    operations: usize,
    /// The half cycles in which the vector units are busy.
    busy: usize,
}

impl Iteration {
    /// The operations that a reorder buffer holds: 320 in AMD Zen 4, 512 in Intel Golden Cove.
    const REORDER_BUFFER: usize = 320;

    /// Returns whether iterations are bound by latency. The reorder buffer overlaps some iterations, which share the
    /// latency of one. The result is true if this share exceeds the time in which an iteration keeps the vector units
    /// busy by more than a fifth.
    fn waits(self) -> bool {
        let latency = self.latency * self.operations.min(Iteration::REORDER_BUFFER);
        10 * latency > 12 * (self.busy / 2) * Iteration::REORDER_BUFFER
    }

    /// Returns rough estimates for an instruction on vectors of 512 bits, as on AMD Zen 4. Single estimates have not
    /// been measured; only sums of them are used. During an element-by-element call, the vector units count as busy.
    fn of(inst: &Inst) -> Iteration {
        let (latency, operations, busy) = match inst {
            Inst::Binary { op: Binary::Div, .. } => (14, 1, 16),
            Inst::Unary { op: Unary::Sqrt, .. } => (20, 1, 20),
            Inst::Load { access: Access::Indexed(_), .. }
            | Inst::LoadTruth { access: Access::Indexed(_), .. } => (28, 40, 24),
            Inst::Load { .. } | Inst::LoadTruth { .. } => (7, 1, 1),
            Inst::Call { when: When::Always, .. } => (400, 400, 800),
            Inst::Unary { .. }
            | Inst::Binary { .. }
            | Inst::Fma { .. }
            | Inst::Compare { .. }
            | Inst::Convert { .. } => (4, 1, 1),
            _ => (1, 1, 1),
        };
        Iteration { latency, operations, busy }
    }

    /// Returns the estimates for the loop with lanes that has the most operations in an iteration.
    fn longest(program: &VectorProgram) -> Iteration {
        let mut longest = Iteration::default();
        let mut all = Iteration::default();
        // `ready` is the cycle in which each register is ready. `inner` has the open loops inside the loop with lanes,
        // each with the estimates and the ready cycles at its start.
        let mut ready: SecondaryMap<Reg, usize> = SecondaryMap::new();
        let mut inner: Vec<(usize, Iteration, SecondaryMap<Reg, usize>)> = Vec::new();
        let mut in_lanes = false;
        for (at, inst) in program.body.iter().enumerate() {
            match inst {
                Inst::Lanes { .. } => {
                    (in_lanes, all) = (true, Iteration::default());
                    ready.clear();
                }
                Inst::LanesEnd { .. } => {
                    in_lanes = false;
                    if all.operations > longest.operations {
                        longest = all;
                    }
                }
                Inst::Loop { .. } if in_lanes => inner.push((at, all, ready.clone())),
                Inst::LoopEnd { extent, .. } if in_lanes => {
                    let Some((start, before, at_start)) = inner.pop() else { continue };
                    let again = extent.saturating_sub(1);
                    let assigned =
                        || program.body[start..at].iter().filter_map(|i| i.registers().0);
                    // A register that has a value before the loop is a carry: each iteration depends on the one before.
                    let carried = assigned().filter(|reg| at_start[*reg] > 0);
                    let wait = carried.map(|reg| ready[reg].saturating_sub(at_start[reg]));
                    let wait = wait.max().unwrap_or(0);
                    let assigned: Vec<Reg> = assigned().collect();
                    for reg in assigned {
                        ready[reg] += wait * again;
                    }
                    all.latency += wait * again;
                    all.operations += (all.operations - before.operations) * again;
                    all.busy += (all.busy - before.busy) * again;
                }
                _ if in_lanes => {
                    let (to, read) = inst.registers();
                    let of = Iteration::of(inst);
                    let start = read.iter().map(|reg| ready[*reg]).max().unwrap_or(0);
                    if let Some(to) = to {
                        ready[to] = start + of.latency;
                    }
                    all.latency = all.latency.max(start + of.latency);
                    all.operations += of.operations;
                    all.busy += of.busy;
                }
                _ => {}
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::{Inst, Nest};
    use crate::loop_ir::{Stmt, parse, verify};
    use tapeloom_ir::Isa;

    /// Returns the number of vectors of eight f64 that an iteration of a loop with this body processes.
    fn vectors(body: &str) -> usize {
        let text = format!(
            "program @nest {{
  buffer b0: f64[800] input 0
  buffer b1: i64[800] input 1
  buffer b2: f64[800] output 0
  nest {{
    for i0 in 800 lanes 8 {{
      %0: f64 = load b0[i0]
      {body}
    }}
  }}
}}"
        );
        let p = parse(&text, &|_| None).unwrap();
        assert_eq!(verify(&p), []);
        let Stmt::Nest { body, .. } = &p.entry.body[0] else { panic!("{p}") };
        let (kernel, stmt) = (&p.entry, &body[0]);
        let compiled =
            Nest { kernel, stmt, isa: Isa::Avx512, in_memory: &|_| true }.compile().unwrap();
        let by = compiled.unit.program.body.iter().find_map(|inst| match inst {
            Inst::Lanes { by, .. } => Some(by / 8),
            _ => None,
        });
        by.unwrap()
    }

    /// Only loops that are bound by latency must be interleaved: a gather after a gather, and an inner loop with a
    /// carry.
    #[test]
    fn loops_that_wait_process_several_vectors() {
        assert_eq!(vectors("%1: f64 = mul %0, %0\n store b2[i0], %1"), 1);
        let polynomial = (1..30).map(|i| format!("%{i}: f64 = mul %{}, %0\n", i - 1));
        assert_eq!(vectors(&(polynomial.collect::<String>() + "store b2[i0], %29")), 1);
        let gather = |i: usize| {
            let (loaded, clamped, place) = (3 * i + 1, 3 * i + 2, 3 * i + 3);
            let at = if i == 0 { "i0".to_owned() } else { format!("(%{})", 3 * i) };
            format!(
                "%{loaded}: i64 = load b1[{at}]
                 %{clamped}: i64 = max %{loaded}, 0
                 %{place}: i64 = min %{clamped}, 799\n"
            )
        };
        let searched = (0..12).map(gather).collect::<String>();
        assert_eq!(vectors(&(searched + "%40: f64 = load b0[(%36)]\n store b2[i0], %40")), 3);
        let carried = "var v0: f64 = %0
      serial i1 in 100 {
        %1: f64 = mul v0, %0
        %2: f64 = add %1, 1.0
        v0 = %2
      }
      store b2[i0], v0";
        assert_eq!(vectors(carried), 3);
    }
}
