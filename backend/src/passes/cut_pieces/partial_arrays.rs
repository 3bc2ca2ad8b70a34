//! Arrays to whose elements a loop only adds: each piece of the loop, which runs on one thread, has an array of partial
//! sums.

use super::copy::{Copy, Replaced};
use super::looped;
use super::parts::Members;
use crate::loop_ir::analysis::definite_write::{Lattice, fills};
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Expr, Extent, Flow, IndexId, Kernel, Origins,
    Parallelism, ScalarId, Stmt, visit,
};
use std::slice::from_ref;
use tapeloom_ir::{ArrayType, Code, Literal, OrderedMap, Shape};

/// An array to whose elements a statement only adds, or which it combines by another code with a neutral element, such
/// as `max`.
pub(super) struct Accumulated {
    held: BufferVersion,
    code: Code,
    neutral: Literal,
    pub(super) elements: usize,
}

impl Accumulated {
    pub(super) fn buffer(&self) -> BufferId {
        self.held.buffer
    }

    /// Gives each piece (a thread's share of the statement) a row of partial values. Returns two loops: the first sets
    /// a piece's row to the neutral element, and the second combines all rows into the array after the pieces have run.
    pub(super) fn partial(
        &self,
        copy: &mut Copy<'_>,
        piece: IndexId,
        pieces: usize,
        origins: &Origins,
    ) -> [Stmt; 2] {
        let Accumulated { held, code, neutral, elements } = *self;
        let (kernel, size) = (&mut *copy.kernel, elements as i64);
        let ty = ArrayType::new(neutral.dtype, Shape::from([pieces, elements]));
        let rows = kernel.scratch(ty);
        copy.buffers[held.buffer] =
            Some(Replaced { buffer: rows, row: Some((piece, size)), relative: false });
        let rows = BufferVersion::first(rows);
        let [first, element, number] = [(); 3].map(|()| kernel.fresh_index());
        let [term, old, new] = [(); 3].map(|()| kernel.scalars.push(neutral.dtype));
        let sum = kernel.vars.push(neutral.dtype);
        let row = |of, i| Address { terms: vec![(of, size), (i, 1)], ..Address::default() };
        let at = Address { terms: vec![(element, 1)], ..Address::default() };
        let looped =
            |index, extent, parallelism, body| looped(index, extent, parallelism, body, origins);
        let neutral = Arg::Literal(neutral);
        let clear =
            Stmt::Store { held: rows, address: row(piece, first), value: neutral, guard: None };
        let load = Expr::Load { held: rows, address: row(number, element), guard: None };
        let fold = vec![
            Stmt::Let { value: term, expr: load },
            Stmt::Fold { var: sum, code, value: Arg::Scalar(term) },
        ];
        let combine = vec![
            Stmt::Var { var: sum, init: neutral },
            looped(number, pieces, Parallelism::Fold, fold),
            Stmt::Let { value: old, expr: Expr::Load { held, address: at.clone(), guard: None } },
            Stmt::Let { value: new, expr: Expr::Code(code, vec![Arg::Scalar(old), Arg::Var(sum)]) },
            Stmt::Store { held, address: at, value: Arg::Scalar(new), guard: None },
        ];
        [
            looped(first, elements, Parallelism::Parallel, vec![clear]),
            looped(element, elements, Parallelism::Parallel, combine),
        ]
    }
}

/// Returns the arrays to whose elements a statement only adds: all accesses are pairs of a load and a store of one
/// element, and the stored value is the loaded one, combined with another value. The addresses must not depend on the
/// batch member, and the statement must certainly access all elements.
pub(super) fn accumulated(kernel: &Kernel, stmt: &Stmt, members: &Members) -> Vec<Accumulated> {
    let mut uses: OrderedMap<ScalarId, usize> = OrderedMap::default();
    let mut accesses: OrderedMap<BufferId, usize> = OrderedMap::default();
    visit(from_ref(stmt), &mut |stmt| {
        stmt.args(&mut |arg| {
            if let Arg::Scalar(s) = arg {
                *uses.entry(s).or_default() += 1;
            }
        });
        stmt.buffers(&mut |buffer| *accesses.entry(buffer).or_default() += 1);
    });
    let once = |s: ScalarId| uses.get(&s) == Some(&1);
    let mut search =
        Pairs { once: &once, members, loops: Vec::new(), found: OrderedMap::default() };
    search.block(from_ref(stmt));
    let mut arrays = Vec::new();
    for (buffer, pairs) in search.found {
        let Some(first) = pairs.first() else { continue };
        let ty = &kernel.buffers[buffer].ty;
        let name = first.code.row().name;
        let same = pairs.iter().all(|p| p.held == first.held && p.code.row().name == name);
        let all = accesses.get(&buffer) == Some(&(2 * pairs.len()));
        let lattices: Vec<Lattice> = pairs.iter().filter_map(|p| p.lattice.clone()).collect();
        let elements = ty.shape.elements();
        let Some(neutral) = first.code.neutral(ty.dtype) else { continue };
        if same && all && fills(lattices.iter(), elements as u64) {
            arrays.push(Accumulated { held: first.held, code: first.code, neutral, elements });
        }
    }
    arrays
}

/// A load and a store of one element, where the stored value is the loaded one combined with another value.
struct Pair {
    held: BufferVersion,
    code: Code,
    /// The elements that all iterations together access.
    lattice: Option<Lattice>,
}

/// The search for pairs of loads and stores.
struct Pairs<'a> {
    /// A function that returns whether a scalar has a single use.
    once: &'a dyn Fn(ScalarId) -> bool,
    members: &'a Members,
    /// The loops around the current statement, with their trip counts.
    loops: Vec<(IndexId, usize)>,
    found: OrderedMap<BufferId, Vec<Pair>>,
}

impl Pairs<'_> {
    fn block(&mut self, body: &[Stmt]) {
        let mut defined: OrderedMap<ScalarId, &Expr> = OrderedMap::default();
        for stmt in body {
            if let Stmt::Let { value, expr } = stmt {
                defined.insert(*value, expr);
            }
            if let Stmt::Store { held, address, value: Arg::Scalar(sum), guard: None } = stmt
                && (self.once)(*sum)
                && let Some(Expr::Code(code, args)) = defined.get(sum)
                && address.dynamic.is_none()
                && !address.terms.iter().any(|(i, s)| *s != 0 && self.members.loops.contains_key(i))
            {
                let loads = |arg: &Arg| match arg {
                    Arg::Scalar(x) if (self.once)(*x) => matches!(
                        defined.get(x),
                        Some(Expr::Load { held: h, address: a, guard: None }) if h == held && a == address
                    ),
                    _ => false,
                };
                if args.len() == 2 && args.iter().any(loads) {
                    let reach = self.loops.iter().map(|(i, n)| (*n as u64, address.stride(*i)));
                    let lattice = Lattice::new(0, address.offset, reach.collect());
                    let pair = Pair { held: *held, code: *code, lattice };
                    self.found.entry(held.buffer).or_default().push(pair);
                }
            }
            // Statements in a branch or in a loop of unknown trip count may not run, so their pairs do not count.
            let shape = stmt.shape();
            match shape.flow {
                Flow::Nest => shape.blocks.iter().for_each(|block| self.block(block)),
                Flow::For { index, extent: Extent::Constant(n), .. } if n > 0 => {
                    self.loops.push((index, n));
                    shape.blocks.iter().for_each(|block| self.block(block));
                    self.loops.pop();
                }
                Flow::For { .. } | Flow::While | Flow::If | Flow::Straight => {}
            }
        }
    }
}
