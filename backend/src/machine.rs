//! Machines as numbers: what the scheduler must know of one to choose well.
//!
//! Every choice is right on every machine; these say which is fast. A [`Target`](crate::Target) says which
//! machine it is. They were measured on one, x86-64 with vectors of 128 bits, by the programs of the
//! benchmarks, and stand for all, so that kernels are the same everywhere, and snapshots with them.
//!
//! Numbers that bound what a pass costs to run, or what Cranelift does, stand with the pass; those of
//! the cost model of rewrites do, too, since which form a program takes must not depend on where it is
//! compiled. So do those of lanes: how a fold is taken apart is what the kernel computes, not how fast.

/// What is fast on a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Machine {
    /// Arrays of at most this many elements (in each item of a batch) are held in registers: they are
    /// unrolled, updated and concatenated there.
    pub(crate) registers: usize,
    /// The inner axes of an array are unrolled where together they have at most this many elements,
    pub(crate) unrolled: usize,
    /// and axes that are at most so long are inner ones.
    pub(crate) tiny: usize,
    /// A loop of at most so many iterations, and of at most so many statements in all of them, is written out.
    pub(crate) written_out: (usize, usize),
    /// So many values and so many addresses that a loop does not change stay in registers.
    pub(crate) held_values: usize,
    pub(crate) held_addresses: usize,
    /// So many pointers to buffers do, too.
    pub(crate) held_pointers: usize,
    /// This many elements stay in the cache until whoever comes next reads them.
    pub(crate) cached: usize,
    /// Matrices with a smaller extent are not worth a call of the matrix library,
    pub(crate) call_extent: usize,
    /// nor are those with fewer multiplications.
    pub(crate) call_work: usize,
    /// An operand that the library cannot read is copied where each element is read at least so often.
    pub(crate) copied_reads: usize,
    /// A value is computed again where that takes at most so many loads instead of the one,
    pub(crate) recomputed_loads: u32,
    /// so many operations,
    pub(crate) recomputed_operations: u32,
    /// and none that costs more than this, in additions.
    pub(crate) recomputed_flops: u32,
    /// What costs more than that, and is the same in so many iterations of a loop, is computed ahead of it.
    pub(crate) ahead_iterations: usize,
}

impl Machine {
    /// The machine that everything was measured on.
    pub(crate) const MEASURED: Machine = Machine {
        registers: 64,
        unrolled: 9,
        tiny: 4,
        written_out: (4, 16),
        held_values: 8,
        held_addresses: 4,
        held_pointers: 12,
        cached: 1 << 16,
        call_extent: 8,
        call_work: 4096,
        copied_reads: 16,
        recomputed_loads: 2,
        recomputed_operations: 3,
        recomputed_flops: 2,
        ahead_iterations: 4,
    };
}

impl Default for Machine {
    fn default() -> Machine {
        Machine::MEASURED
    }
}
