//! Copies statements, and restricts some of their loops to the iterations of one piece, which runs on one thread.

use super::parts::{Members, Start};
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Carry, Expr, Extent, IndexId, Kernel, Rewriter,
    ScalarId, Stmt, VarId,
};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::{Code, Dtype, Literal, OrderedMap};

/// A rewriter that copies statements, and restricts some of their loops to a part of the iterations.
pub(super) struct Copy<'a> {
    pub(super) kernel: &'a mut Kernel,
    /// The loops and contractions that are restricted to some members of a batch.
    members: &'a Members,
    start: Start,
    /// The number of the batch's first member that the copy computes, as an operand for uses outside of addresses.
    from: Arg,
    /// The number of batch members that the copy computes.
    extent: usize,
    /// For each restricted loop: the scalar with the number of the iteration in the original loop, and whether the copy
    /// uses this scalar outside of addresses.
    numbers: OrderedMap<IndexId, (ScalarId, bool)>,
    /// The number of restricted loops around the current statement. A contraction inside a restricted loop belongs to
    /// one member, so it is not restricted itself.
    inside: usize,
    /// Whether the copy reads `from`, the number of the first batch member that it computes.
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
    /// If the buffer has a row of partial values for each piece: the index of the piece, and the number of elements of
    /// a row.
    pub(super) row: Option<(IndexId, i64)>,
    /// Whether the buffer contains only the elements of the batch members that the copy computes, so that addresses
    /// start from the first of these members.
    pub(super) relative: bool,
}

impl<'a> Copy<'a> {
    pub(super) fn of(
        kernel: &'a mut Kernel,
        members: &'a Members,
        (start, from): (Start, Arg),
        extent: usize,
    ) -> Copy<'a> {
        Copy {
            kernel,
            members,
            start,
            from,
            extent,
            numbers: OrderedMap::default(),
            inside: 0,
            counted: false,
            fresh: false,
            scalars: SecondaryMap::new(),
            vars: SecondaryMap::new(),
            indices: SecondaryMap::new(),
            buffers: SecondaryMap::new(),
        }
    }

    /// Returns a loop over those iterations of `found` that belong to the batch members that the copy computes.
    fn part(&mut self, found: Loop<'_>, iterations: usize) -> Stmt {
        let Loop { index, parallelism, lanes, body, origins, .. } = found;
        let inner = self.kernel.fresh_index();
        let value = self.kernel.scalars.push(Dtype::I64);
        self.indices[index] = Some(inner);
        self.numbers.insert(index, (value, false));
        self.inside += 1;
        let mut body = self.block(body);
        self.inside -= 1;
        if self.numbers.get(&index).is_some_and(|(_, used)| *used) {
            self.counted = true;
            let mut first = self.from;
            let mut lets = Vec::new();
            if iterations != 1 {
                let number = self.kernel.scalars.push(Dtype::I64);
                let by = Arg::Literal(Literal::i64(iterations as i64));
                let expr = Expr::Code(Code::Mul, vec![first, by]);
                lets.push(Stmt::Let { value: number, expr });
                first = Arg::Scalar(number);
            }
            let expr = Expr::Code(Code::Add, vec![first, Arg::Index(inner)]);
            lets.push(Stmt::Let { value, expr });
            body.splice(0..0, lets);
        }
        let extent = self.extent * iterations;
        Stmt::For {
            index: inner,
            extent: Extent::Constant(extent),
            parallelism,
            lanes: if extent < lanes { 1 } else { lanes },
            carries: Vec::new(),
            body,
            origins: origins.clone(),
        }
    }

    fn is_relative(&self, buffer: BufferId) -> bool {
        self.buffers[buffer].is_some_and(|of| of.relative)
    }

    fn held(&self, held: BufferVersion) -> BufferVersion {
        match self.buffers[held.buffer] {
            Some(Replaced { buffer, row: None, .. }) => BufferVersion { buffer, ..held },
            Some(Replaced { buffer, row: Some(_), .. }) => BufferVersion::first(buffer),
            None => held,
        }
    }
}

impl Rewriter for Copy<'_> {
    fn block(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let mut all = Vec::with_capacity(body.len());
        for stmt in body {
            let iterations = |l: &Loop<'_>| self.members.loops.get(&l.index).copied();
            let restricted = stmt.counted().and_then(|l| iterations(&l).map(|n| (l, n)));
            let new = match (restricted, stmt) {
                (Some((found, iterations)), _) => self.part(found, iterations),
                (None, Stmt::Contract(c)) => match self.members.axis(c) {
                    Some(axis) if self.inside == 0 => {
                        let relative = |b| self.is_relative(b);
                        let part = axis.range(c, self.start, self.extent, relative);
                        self.stmt(&Stmt::Contract(part))
                    }
                    Some(_) | None => self.stmt(stmt),
                },
                (None, _) => self.stmt(stmt),
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
            if let Some(iterations) = self.members.loops.get(index)
                && !self.is_relative(held.buffer)
            {
                self.start.shift(&mut at, stride.wrapping_mul(*iterations as i64));
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
