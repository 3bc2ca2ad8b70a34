//! Estimates the memory traffic of statements: the bytes that they read and write at least once.

use crate::loop_ir::{Access, BufferId, Effect, Extent, Flow, IndexId, Kernel, Program, Stmt};
use tapeloom_ir::{OrderedMap, OrderedSet};

impl Program {
    /// Returns the bytes of memory that a run reads and writes, as far as they are known before the run. This is the
    /// sum over the steps (statements of the outermost block), where an element counts once for reading and once for
    /// writing in each step. Memory inside of called kernels does not count.
    ///
    /// ```
    /// let text = "program @double {
    ///   buffer b0: f64[100] input 0
    ///   buffer b1: f64[100] output 0
    ///   for i0 in 100 {
    ///     %0: f64 = load b0[i0]
    ///     %1: f64 = add %0, %0
    ///     store b1[i0], %1
    ///   }
    /// }";
    /// let program = tapeloom_backend::loop_ir::parse(text, &|_| None)?;
    /// assert_eq!(program.traffic(), 2 * 100 * 8);
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn traffic(&self) -> u64 {
        let of = |stmt| bytes(&self.entry, &[stmt]);
        self.entry.body.iter().map(of).fold(0, u64::saturating_add)
    }
}

/// Returns the estimated bytes of memory that one run of these statements reads and writes. An element counts once
/// for reading and once for writing, however often it is accessed. Accesses with an index that is known only at run
/// time are assumed to hit different elements. The memory inside called kernels does not count.
pub(crate) fn bytes(kernel: &Kernel, stmts: &[&Stmt]) -> u64 {
    let mut traffic =
        Traffic { loops: Vec::new(), elements: OrderedMap::default(), seen: OrderedSet::default() };
    stmts.iter().for_each(|s| traffic.stmt(kernel, s));
    let of = |((buffer, _), elements): (&(BufferId, bool), &usize)| {
        let ty = &kernel.buffers[*buffer].ty;
        ((*elements).min(ty.shape.elements()) * ty.dtype.bytes()) as u64
    };
    traffic.elements.iter().map(of).fold(0, u64::saturating_add)
}

/// An access: its buffer, whether it writes, its address, and its reach (extents and strides of its elements). Equal
/// accesses are counted once.
type Seen = (BufferId, bool, crate::loop_ir::Address, Vec<(usize, i64)>);

struct Traffic {
    /// The loops around the current statement: the index, and the trip count if it is constant.
    loops: Vec<(Option<IndexId>, Option<usize>)>,
    /// The number of elements of each buffer that are read (key `false`) and that are written (key `true`).
    elements: OrderedMap<(BufferId, bool), usize>,
    seen: OrderedSet<Seen>,
}

impl Traffic {
    fn stmt(&mut self, kernel: &Kernel, stmt: &Stmt) {
        stmt.accesses(&mut |access| self.access(kernel, &access));
        let shape = stmt.shape();
        let open = match shape.flow {
            Flow::For { index, extent: Extent::Constant(n), .. } => Some((Some(index), Some(n))),
            Flow::For { index, extent: Extent::Scalar(_), .. } => Some((Some(index), None)),
            Flow::While => Some((None, None)),
            Flow::Straight | Flow::Nest | Flow::If => None,
        };
        self.loops.extend(open);
        shape.blocks.iter().flat_map(|b| b.iter()).for_each(|s| self.stmt(kernel, s));
        self.loops.truncate(self.loops.len() - usize::from(open.is_some()));
        debug_assert!(!matches!(shape.effect, Effect::Lap(_)), "programs are measured once");
    }

    fn access(&mut self, kernel: &Kernel, access: &Access<'_>) {
        let (buffer, write) = (access.held.buffer, access.write);
        let seen = (buffer, write, access.address.clone(), access.reach.to_vec());
        if !self.seen.insert(seen) {
            return;
        }
        let whole = kernel.buffers[buffer].ty.shape.elements();
        let reach = access.reach.iter().filter(|(_, stride)| *stride != 0).map(|(n, _)| *n);
        let dynamic = access.address.dynamic.is_some();
        let loops = self.loops.iter().filter_map(|(index, extent)| {
            let moves = dynamic || index.is_some_and(|i| access.address.stride(i) != 0);
            // A loop whose trip count is known only at run time is assumed to access the whole buffer.
            moves.then(|| extent.unwrap_or(whole))
        });
        let elements = reach.chain(loops).fold(1, usize::saturating_mul);
        let all = self.elements.entry((buffer, write)).or_default();
        *all = all.saturating_add(elements);
    }
}
