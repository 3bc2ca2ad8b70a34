//! Copies of statements with a part of the iterations of some loops.

use crate::loop_ir::shape::Loop;
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Carry, Expr, Extent, IndexId, Kernel, Rewriter,
    ScalarId, Stmt, VarId,
};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::{Code, Dtype, OrderedMap, OrderedSet};

/// The first iteration of a part.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// This iteration.
    Constant(i64),
    /// `each` times the number of the piece.
    Piece { piece: IndexId, each: i64 },
}

impl Start {
    /// Moves an address, which advances by `step` elements in each iteration, to the first iteration.
    pub(super) fn shift(self, address: &mut Address, step: i64) {
        match self {
            Start::Constant(from) => {
                address.offset = address.offset.wrapping_add(from.wrapping_mul(step));
            }
            Start::Piece { piece, each } if step != 0 => {
                address.terms.push((piece, each.wrapping_mul(step)));
            }
            Start::Piece { .. } => {}
        }
    }
}

/// A rewriter that copies statements, and restricts some of their loops to a part of the iterations.
pub(super) struct Copy<'a> {
    pub(super) kernel: &'a mut Kernel,
    /// The indices of the restricted loops.
    cut: &'a OrderedSet<IndexId>,
    start: Start,
    /// The number of the first iteration, for uses outside of addresses.
    from: Arg,
    /// The number of iterations of the restricted loops.
    extent: usize,
    /// The numbers of iterations in the restricted loops, for uses outside of addresses: of each restricted loop, the
    /// scalar, and whether it is used.
    numbers: OrderedMap<IndexId, (ScalarId, bool)>,
    /// Whether the copy reads the number of the first iteration.
    pub(super) counted: bool,
    /// Whether the copy defines scalars, variables and indices of its own.
    pub(super) fresh: bool,
    scalars: SecondaryMap<ScalarId, Option<ScalarId>>,
    pub(super) vars: SecondaryMap<VarId, Option<VarId>>,
    indices: SecondaryMap<IndexId, Option<IndexId>>,
    pub(super) buffers: SecondaryMap<BufferId, Option<Replaced>>,
}

/// The buffer that a copy accesses instead of another buffer.
#[derive(Clone, Copy)]
pub(super) struct Replaced {
    pub(super) buffer: BufferId,
    /// If the buffer has a row of partial values for each piece: the piece, and the elements of a row.
    pub(super) row: Option<(IndexId, i64)>,
}

impl<'a> Copy<'a> {
    pub(super) fn of(
        kernel: &'a mut Kernel,
        cut: &'a OrderedSet<IndexId>,
        (start, from): (Start, Arg),
        extent: usize,
    ) -> Copy<'a> {
        Copy {
            kernel,
            cut,
            start,
            from,
            extent,
            numbers: OrderedMap::default(),
            counted: false,
            fresh: false,
            scalars: SecondaryMap::new(),
            vars: SecondaryMap::new(),
            indices: SecondaryMap::new(),
            buffers: SecondaryMap::new(),
        }
    }

    /// Returns the part of a restricted loop.
    fn part(&mut self, found: Loop<'_>) -> Stmt {
        let Loop { index, parallelism, lanes, body, origins, .. } = found;
        let inner = self.kernel.fresh_index();
        let value = self.kernel.scalars.push(Dtype::I64);
        self.indices[index] = Some(inner);
        self.numbers.insert(index, (value, false));
        let mut body = self.block(body);
        if self.numbers.get(&index).is_some_and(|(_, used)| *used) {
            self.counted = true;
            let expr = Expr::Code(Code::Add, vec![self.from, Arg::Index(inner)]);
            body.insert(0, Stmt::Let { value, expr });
        }
        Stmt::For {
            index: inner,
            extent: Extent::Constant(self.extent),
            parallelism,
            lanes: if self.extent < lanes { 1 } else { lanes },
            carries: Vec::new(),
            body,
            origins: origins.clone(),
        }
    }

    fn held(&self, held: BufferVersion) -> BufferVersion {
        match self.buffers[held.buffer] {
            Some(Replaced { buffer, row: None }) => BufferVersion { buffer, ..held },
            Some(Replaced { buffer, row: Some(_) }) => BufferVersion::first(buffer),
            None => held,
        }
    }
}

impl Rewriter for Copy<'_> {
    fn block(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let mut all = Vec::with_capacity(body.len());
        for stmt in body {
            let restricted = stmt.counted().filter(|l| self.cut.contains(&l.index));
            let new = match restricted {
                Some(found) => self.part(found),
                None => self.stmt(stmt),
            };
            all.push(new);
        }
        all
    }

    fn arg(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Index(index) => match self.numbers.get_mut(&index) {
                Some((number, used)) => {
                    *used = true;
                    Arg::Scalar(*number)
                }
                None => Arg::Index(self.indices[index].unwrap_or(index)),
            },
            Arg::Scalar(s) => Arg::Scalar(self.scalars[s].unwrap_or(s)),
            Arg::Var(v) => Arg::Var(self.vars[v].unwrap_or(v)),
            Arg::Literal(_) => arg,
        }
    }

    fn element(&mut self, held: BufferVersion, address: &Address) -> (BufferVersion, Address) {
        let own = |i: IndexId| self.indices[i].unwrap_or(i);
        let terms = address.terms.iter().map(|(i, stride)| (own(*i), *stride)).collect();
        let dynamic = address.dynamic.map(|d| self.arg(d));
        let mut at = Address { offset: address.offset, terms, dynamic };
        for (index, stride) in &address.terms {
            if self.cut.contains(index) {
                self.start.shift(&mut at, *stride);
            }
        }
        if let Some(Replaced { row: Some(row), .. }) = self.buffers[held.buffer] {
            at.terms.push(row);
        }
        (self.held(held), at)
    }

    fn carries(&mut self, carries: &[Carry]) -> Vec<Carry> {
        let both = |c: &Carry| Carry { input: self.held(c.input), output: self.held(c.output) };
        carries.iter().map(both).collect()
    }

    fn scalar(&mut self, value: ScalarId) -> ScalarId {
        if !self.fresh {
            return value;
        }
        let new = self.kernel.scalars.push(self.kernel.scalars[value]);
        self.scalars[value] = Some(new);
        new
    }

    fn var(&mut self, var: VarId, declared: bool) -> VarId {
        if declared && self.fresh {
            self.vars[var] = Some(self.kernel.vars.push(self.kernel.vars[var]));
        }
        self.vars[var].unwrap_or(var)
    }

    fn index(&mut self, index: IndexId) -> IndexId {
        if self.fresh {
            self.indices[index] = Some(self.kernel.fresh_index());
        }
        self.indices[index].unwrap_or(index)
    }
}
