//! Cuts long loops and large contractions into pieces, which several threads run at the same time.
//!
//! ```text
//! fold i0 in 1000000 lanes 16 { .. v0 = add v0, %1 }
//!
//! concurrent i1 in 50 {
//!   var v1: f64 = -0.0
//!   fold i2 in 20000 lanes 16 { .. v1 = add v1, %1 }        with i1*20000 + i2 for i0
//!   store b3[i1], v1
//! }
//! fold i3 in 50 { %2: f64 = load b3[i3]; v0 = add v0, %2 }
//! ```
//!
//! The iterations must be independent, with three exceptions. Variables into which they fold have a partial value in each
//! piece, and so have arrays to whose elements they only add; partial values are combined in the order of the pieces. A
//! buffer that each iteration fills before it reads it becomes private memory of a piece. A contraction is cut along its batches, rows or
//! columns, or along its terms if the result is small.
//!
//! The number of pieces follows from trip counts and the estimated work alone, never from the number of threads. So the
//! bits of a result do not depend on the number of threads. Iterations that are left over run behind the pieces.

use super::pass::{Invariant, Pass, Run, WorkDivision};
use crate::loop_ir::analysis::block_local::block_local;
use crate::loop_ir::analysis::cost::Costs;
use crate::loop_ir::analysis::definite_write::{Lattice, fills};
use crate::loop_ir::analysis::dependence::{folds, variables};
use crate::loop_ir::analysis::traffic::bytes;
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Carry, Contract, Expr, Extent, Flow, IndexId, Kernel,
    Matrix, Origins, Parallelism, Place, Program, Rewriter, ScalarId, Stmt, VarId, concurrency,
    visit,
};
use crate::machine::MachineModel;
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use std::slice::from_ref;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, OrderedMap, OrderedSet, Shape};

/// The table entry of this pass, which `super::PASSES` lists: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "cut_pieces",
    about: "long loops and large contractions are cut into pieces, which threads run at the same time",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Reassociates,
    run: Run::Program(|program, context| {
        let (cut, divisions) = cut_pieces(program, &context.machine);
        context.divisions = divisions;
        Ok(cut)
    }),
};

/// The assumed trip count of loops whose trip count is known only at run time.
const ASSUMED_TRIPS: u64 = 16;
/// The operations of a vector lane in the time of a byte of memory traffic.
const OPERATIONS_PER_BYTE: u64 = 1;
/// The number of rows or columns of a piece of a large contraction, at least. The matrix library copies the other operand
/// for each piece: pieces of 256 rows cost 2 per cent, pieces of 128 rows 5 (f64) to 9 (f32) per cent, pieces of 32 rows 25
/// to 50 per cent of the time on one thread (measured on a transformer block). A contraction with less than
/// twice these rows is cut into pieces of at least half of them.
const LEAST_ROWS: usize = 256;
/// The smallest number of terms of a piece of a contraction: the pieces' results are added one by one.
const LEAST_TERMS: usize = 256;
/// A number of elements of any dtype that fills whole cache lines.
const IN_LINES: usize = 64;
/// Numbers of threads for which pieces are distributed evenly.
const THREADS: [usize; 5] = [2, 4, 8, 16, 32];

/// Cuts the loops and contractions of the entry. Returns whether any was cut, and the report on them.
fn cut_pieces(program: &mut Program, machine: &MachineModel) -> (bool, Vec<WorkDivision>) {
    let costs = Costs::of(program, ASSUMED_TRIPS);
    let mut named: SecondaryMap<BufferId, usize> = SecondaryMap::new();
    let body = &program.entry.body;
    visit(body, &mut |stmt| stmt.buffers(&mut |buffer| named[buffer] += 1));
    let divisions = Vec::new();
    let mut cutter =
        Cutter { kernel: &mut program.entry, costs, machine, named, cut: false, divisions };
    for step in std::mem::take(&mut cutter.kernel.body) {
        // A step must remain one statement, because reports refer to steps by position.
        let origins = step.own_origins();
        let step = match <[Stmt; 1]>::try_from(cutter.block(vec![step])) {
            Ok([step]) => step,
            Err(parts) => Stmt::nest(parts, origins),
        };
        cutter.kernel.body.push(step);
    }
    (cutter.cut, cutter.divisions)
}

struct Cutter<'a> {
    kernel: &'a mut Kernel,
    costs: Costs,
    machine: &'a MachineModel,
    /// The number of times that statements of the original kernel name each buffer.
    named: SecondaryMap<BufferId, usize>,
    /// Whether a loop or contraction was cut.
    cut: bool,
    divisions: Vec<WorkDivision>,
}

/// The reason why a statement is not cut.
type Refused = String;

/// The division of a number of iterations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Division {
    pieces: usize,
    /// The iterations of each piece.
    each: usize,
    /// The iterations that are left over.
    rest: usize,
}

impl Division {
    /// Returns the division of `extent` iterations, if this is the division of groups of `by` iterations.
    fn times(self, by: usize, extent: usize) -> Division {
        let each = self.each * by;
        Division { each, rest: extent - self.pieces * each, ..self }
    }
}

impl Cutter<'_> {
    fn block(&mut self, body: Vec<Stmt>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(body.len());
        for mut stmt in body {
            let most = self.most_pieces(&stmt);
            if most < 2 {
                out.push(stmt);
                continue;
            }
            if let Stmt::Nest { .. } | Stmt::If { .. } = stmt {
                for inside in stmt.blocks_mut() {
                    *inside = self.block(std::mem::take(inside));
                }
                out.push(stmt);
                continue;
            }
            let declared = Declared::of(self.kernel);
            let parts = match &stmt {
                Stmt::Contract(c) => self.contract(c, most),
                Stmt::For { .. } => {
                    let own = self.cut_loop(&stmt, most);
                    own.or_else(|why| self.cut_around(&stmt, most).ok_or(why))
                }
                Stmt::While { .. } => Err("its trip count is known at run time only".to_owned()),
                Stmt::Call(_) => Err("it calls another kernel".to_owned()),
                Stmt::CallExternal(_) => Err("it calls a library or Rust function".to_owned()),
                _ => Err("it has an order".to_owned()),
            };
            let (header, origins) = (header(&stmt), stmt.own_origins());
            let report = self.divisions.len();
            self.divisions.push(WorkDivision { header, origins, pieces: Ok(0) });
            match parts {
                Ok(parts) => {
                    self.cut = true;
                    self.divisions[report].pieces = Ok(pieces_of(&parts));
                    out.extend(parts);
                }
                Err(why) => {
                    declared.restore(self.kernel);
                    self.divisions[report].pieces = Err(why);
                    let cut = std::mem::take(&mut self.cut);
                    let in_lanes = matches!(stmt, Stmt::For { lanes: 2.., .. });
                    for inside in stmt.blocks_mut().into_iter().filter(|_| !in_lanes) {
                        *inside = self.block(std::mem::take(inside));
                    }
                    if self.cut {
                        // The report names the loops inside.
                        self.divisions.remove(report);
                    } else {
                        self.divisions.truncate(report + 1);
                    }
                    self.cut |= cut;
                    out.push(stmt);
                }
            }
        }
        out
    }

    /// Returns the largest number of pieces of a statement, a power of two, so that threads are busy. Pieces may have three
    /// quarters of the machine's number of operations.
    fn most_pieces(&self, stmt: &Stmt) -> usize {
        let operations = self.costs.block(from_ref(stmt));
        let work = operations.max(bytes(self.kernel, &[stmt]).saturating_mul(OPERATIONS_PER_BYTE));
        let pieces = work.saturating_add(work / 3) / self.machine.piece_operations as u64;
        let pieces = usize::try_from(pieces).unwrap_or(usize::MAX).min(self.machine.pieces);
        pieces.checked_ilog2().map_or(0, |log| 1 << log)
    }

    /// Returns the statements that replace a loop whose iterations are independent; an error if it cannot be cut.
    fn cut_loop(&mut self, stmt: &Stmt, most: usize) -> Result<Vec<Stmt>, Refused> {
        let Some(Loop { index, extent, lanes, carries, body, .. }) = stmt.counted() else {
            return Err("its trip count is known at run time only".to_owned());
        };
        if let Some(c) = carries.first() {
            return Err(format!("{c} is carried"));
        }
        if let (Parallelism::Serial, why) = variables(body) {
            return Err(why);
        }
        let mut partials = Vec::new();
        for (var, code) in folds(body) {
            let neutral = code.neutral(self.kernel.vars[var]);
            let neutral = neutral.ok_or_else(|| format!("{code} has no neutral element"))?;
            partials.push((var, code, neutral));
        }
        let group = if partials.is_empty() { group(lanes, extent, most) } else { lanes };
        let division = divide(extent / group, most).ok_or("it has too few iterations")?;
        let division = division.times(group, extent);
        self.cut(stmt, &[index].into_iter().collect(), division, &partials)
    }

    /// Returns the statements that replace a serial loop around loops over the members of a batch; `None` if it is no such
    /// loop. Each piece runs all iterations of the serial loop for its own members:
    ///
    /// ```text
    /// serial i0 in 100 { for i1 in 10000 { .. } }    concurrent i2 in 50 { serial i0 in 100 { for i3 in 200 { .. } } }
    /// ```
    fn cut_around(&mut self, stmt: &Stmt, most: usize) -> Option<Vec<Stmt>> {
        let Stmt::For { lanes: 1, carries, body, .. } = stmt else { return None };
        // Exchanged buffers are copied as a whole after the loop.
        if carries.iter().any(|c| c.input.buffer != c.output.buffer) {
            return None;
        }
        let mut loops = Vec::new();
        outermost_loops(body, &mut loops);
        let mut costs: OrderedMap<usize, u64> = OrderedMap::default();
        for inner in &loops {
            let Some(Loop { extent, .. }) = inner.counted() else { continue };
            let cost = costs.entry(extent).or_default();
            *cost = cost.saturating_add(self.costs.block(from_ref(inner)));
        }
        let (members, _) = costs.into_iter().max_by_key(|(_, cost)| *cost)?;
        let batch = loops.iter().filter_map(|l| l.counted()).filter(|l| l.extent == members);
        let lanes = batch.clone().map(|l| l.lanes).max()?;
        let indices = batch.map(|l| l.index).collect();
        let group = group(lanes, members, most);
        let division = divide(members / group, most)?.times(group, members);
        self.cut(stmt, &indices, division, &[]).ok()
    }

    /// Cuts the loops of these indices, in the statement or the statement itself, and makes pieces of the statement; an
    /// error if it is not proved that pieces access different memory.
    fn cut(
        &mut self,
        stmt: &Stmt,
        indices: &OrderedSet<IndexId>,
        division: Division,
        partials: &[(VarId, Code, Literal)],
    ) -> Result<Vec<Stmt>, Refused> {
        let private = self.private(stmt, indices).ok_or("private memory is not addressable")?;
        let most = self.costs.block(from_ref(stmt)) / 16 / division.pieces as u64;
        let mut arrays = accumulated(self.kernel, stmt, indices);
        arrays.retain(|array| array.elements as u64 <= most);
        let mut out = self.pieces(stmt, indices, division, partials, &arrays);
        if let Some(why) = out.first().and_then(|all| concurrency::refused(self.kernel, all)) {
            for (buffer, place) in private {
                self.kernel.buffers[buffer].place = place;
            }
            return Err(why);
        }
        let Division { pieces, each, rest } = division;
        if rest > 0 && !planted(Fault::LeftOver) {
            let start = Start::Constant((pieces * each) as i64);
            let mut copy = Copy::of(self.kernel, indices, start, rest);
            copy.fresh = true;
            for (buffer, _) in &private {
                let ty = copy.kernel.buffers[*buffer].ty.clone();
                let new = copy.kernel.scratch(ty);
                copy.kernel.versions[new] = copy.kernel.versions[*buffer].clone();
                copy.buffers[*buffer] = Some(Replaced { buffer: new, row: None });
            }
            out.extend(copy.block(from_ref(stmt)));
        }
        Ok(out)
    }

    /// Moves the buffers that iterations of a loop fill before they read them to private memory, if no other statement
    /// names them, and if no address of them has one of the `indices`: otherwise, pieces access different elements.
    /// Returns them with their places before; `None` if they are not addressable.
    fn private(
        &mut self,
        stmt: &Stmt,
        indices: &OrderedSet<IndexId>,
    ) -> Option<Vec<(BufferId, Place)>> {
        let mut here: OrderedMap<BufferId, usize> = OrderedMap::default();
        let mut moved: OrderedSet<BufferId> = OrderedSet::default();
        visit(from_ref(stmt), &mut |stmt| {
            stmt.buffers(&mut |b| *here.entry(b).or_default() += 1);
            stmt.accesses(&mut |a| {
                if a.address.terms.iter().any(|(i, stride)| *stride != 0 && indices.contains(i)) {
                    moved.insert(a.held.buffer);
                }
            });
        });
        here.retain(|buffer, _| !moved.contains(buffer));
        let kernel = &mut *self.kernel;
        let only = |(b, n): (&BufferId, &usize)| {
            let workspace = matches!(kernel.buffers[*b].place, Place::Workspace(_));
            (workspace && self.named[*b] == *n).then_some(*b)
        };
        let buffers: Vec<BufferId> = here.iter().filter_map(only).collect();
        let bodies = stmt.blocks();
        let body = bodies.first().copied().unwrap_or(&[]);
        let local = block_local(kernel, &PrimaryMap::new(), body, &buffers);
        let mut moved = Vec::new();
        for (buffer, _) in buffers.into_iter().zip(local).filter(|(_, local)| *local) {
            moved.push((buffer, kernel.buffers[buffer].place));
            kernel.make_private(buffer)?;
        }
        Some(moved)
    }

    /// Returns the concurrent loop of the pieces of a statement, and the loops that combine the partial values of folds.
    fn pieces(
        &mut self,
        stmt: &Stmt,
        indices: &OrderedSet<IndexId>,
        Division { pieces, each, rest: _ }: Division,
        partials: &[(VarId, Code, Literal)],
        arrays: &[Accumulated],
    ) -> Vec<Stmt> {
        let (kernel, origins) = (&mut *self.kernel, stmt.own_origins());
        let piece = kernel.fresh_index();
        let (mut concurrent, mut behind) = (Vec::new(), Vec::new());
        let from = kernel.scalars.push(Dtype::I64);
        let start = Start::Piece { piece, each: each as i64, from };
        let mut copy = Copy::of(kernel, indices, start, each);
        let mut stores = Vec::new();
        for (var, code, neutral) in partials {
            let dtype = neutral.dtype;
            let own = copy.kernel.vars.push(dtype);
            copy.vars[*var] = Some(own);
            concurrent.push(Stmt::Var { var: own, init: Arg::Literal(*neutral) });
            let ty = ArrayType::new(dtype, Shape::from([pieces]));
            let held = BufferVersion::first(copy.kernel.scratch(ty));
            let at = |index| Address { terms: vec![(index, 1)], ..Address::default() };
            let value = Arg::Var(own);
            stores.push(Stmt::Store { held, address: at(piece), value, guard: None });
            let (number, value) = (copy.kernel.fresh_index(), copy.kernel.scalars.push(dtype));
            let expr = Expr::Load { held, address: at(number), guard: None };
            behind.push(Stmt::For {
                index: number,
                extent: Extent::Constant(pieces),
                parallelism: Parallelism::Fold,
                lanes: 1,
                carries: Vec::new(),
                body: vec![
                    Stmt::Let { value, expr },
                    Stmt::Fold { var: *var, code: *code, value: Arg::Scalar(value) },
                ],
                origins: origins.clone(),
            });
        }
        for array in arrays {
            let [ahead, after] = array.partial(&mut copy, piece, pieces, &origins);
            concurrent.push(ahead);
            behind.push(after);
        }
        let body = copy.block(from_ref(stmt));
        if copy.counted {
            let by = [Arg::Index(piece), Arg::Literal(Literal::i64(each as i64))];
            let expr = Expr::Code(Code::Mul, by.to_vec());
            concurrent.insert(0, Stmt::Let { value: from, expr });
        }
        concurrent.extend(body);
        concurrent.extend(stores);
        let mut out = vec![concurrent_loop(piece, pieces, concurrent, &origins)];
        out.extend(behind);
        out
    }

    /// Returns the statements that replace a contraction; an error if it cannot be cut.
    fn contract(&mut self, c: &Contract, most: usize) -> Result<Vec<Stmt>, Refused> {
        let batches = c.batch.iter().enumerate().filter(|(_, (n, .., out))| *n > 1 && *out != 0);
        let axes = batches.map(|(at, (n, ..))| (Axis::Batch(at), *n, 1));
        let side = |axis, extent: usize| (axis, extent, least_rows(extent));
        let sides = [side(Axis::Rows, c.m), side(Axis::Columns, c.n)];
        let axes = axes.chain(sides).chain([(Axis::Terms, c.k, LEAST_TERMS)]);
        let mut best: Option<(Axis, Division)> = None;
        for (axis, extent, least) in axes {
            let Some(division) = divide(extent / least, most.min(extent / least)) else { continue };
            let each = if least == 1 { division.each } else { extent / division.pieces };
            let rest = extent - division.pieces * each;
            let division = Division { pieces: division.pieces, each, rest };
            if best.is_none_or(|(_, best)| best.pieces < division.pieces.min(8)) {
                best = Some((axis, division));
            }
        }
        let (axis, Division { pieces, each, rest }) =
            best.ok_or("it has too few rows, columns and terms")?;
        if axis == Axis::Terms {
            let parts = self.terms(c, pieces, each, rest);
            return parts.ok_or_else(|| "its partial results would be too large".to_owned());
        }
        let piece = self.kernel.fresh_index();
        let part = Stmt::Contract(axis.range(c, At::Piece { piece, each: each as i64 }, each));
        let all = concurrent_loop(piece, pieces, vec![part], &c.origins);
        if let Some(why) = concurrency::refused(self.kernel, &all) {
            return Err(why);
        }
        let start = At::Constant((pieces * each) as i64);
        let left = (rest > 0).then(|| Stmt::Contract(axis.range(c, start, rest)));
        Ok([all].into_iter().chain(left).collect())
    }

    /// Cuts a contraction along its terms: the pieces' results are added in order.
    fn terms(
        &mut self,
        c: &Contract,
        pieces: usize,
        each: usize,
        rest: usize,
    ) -> Option<Vec<Stmt>> {
        let (kernel, size) = (&mut *self.kernel, c.m.checked_mul(c.n)?);
        if !c.batch.is_empty() {
            return None;
        }
        let ty = ArrayType::new(c.dtype, Shape::from([pieces, c.m, c.n]));
        ty.checked_bytes()?;
        let held = BufferVersion::first(kernel.scratch(ty));
        let piece = kernel.fresh_index();
        let part = Axis::Terms.range(c, At::Piece { piece, each: each as i64 }, each);
        let at = Address { terms: vec![(piece, size as i64)], ..Address::default() };
        let out = Matrix { held, at, row: c.n as i64, column: 1 };
        let part = Stmt::Contract(Contract { out, accumulate: false, ..part });
        let all = concurrent_loop(piece, pieces, vec![part], &c.origins);
        if concurrency::refused(kernel, &all).is_some() {
            return None;
        }
        let [row, column, number] = [(); 3].map(|()| kernel.fresh_index());
        let sum = kernel.vars.push(c.dtype);
        let [old, term, new] = [(); 3].map(|()| kernel.scalars.push(c.dtype));
        let target = Address {
            terms: [&[(row, c.out.row), (column, c.out.column)], c.out.at.terms.as_slice()]
                .concat(),
            ..c.out.at.clone()
        };
        let size = size as i64;
        let address = Address {
            terms: vec![(number, size), (row, c.n as i64), (column, 1)],
            ..Address::default()
        };
        let fold = vec![
            Stmt::Let { value: term, expr: Expr::Load { held, address, guard: None } },
            Stmt::Fold { var: sum, code: Code::Add, value: Arg::Scalar(term) },
        ];
        let looped = |index, extent, parallelism, body| Stmt::For {
            index,
            extent: Extent::Constant(extent),
            parallelism,
            lanes: 1,
            carries: Vec::new(),
            body,
            origins: c.origins.clone(),
        };
        let neutral = Arg::Literal(Code::Add.neutral(c.dtype)?);
        let mut element = vec![Stmt::Var { var: sum, init: neutral }];
        element.push(looped(number, pieces, Parallelism::Fold, fold));
        let mut value = Arg::Var(sum);
        if c.accumulate {
            let expr = Expr::Load { held: c.out.held, address: target.clone(), guard: None };
            element.push(Stmt::Let { value: old, expr });
            let expr = Expr::Code(Code::Add, vec![Arg::Scalar(old), Arg::Var(sum)]);
            element.push(Stmt::Let { value: new, expr });
            value = Arg::Scalar(new);
        }
        element.push(Stmt::Store { held: c.out.held, address: target, value, guard: None });
        let columns = looped(column, c.n, Parallelism::Parallel, element);
        let add = looped(row, c.m, Parallelism::Parallel, vec![columns]);
        let left = (rest > 0).then(|| {
            let start = At::Constant((pieces * each) as i64);
            let left = Axis::Terms.range(c, start, rest);
            Stmt::Contract(Contract { accumulate: true, ..left })
        });
        Some([all, add].into_iter().chain(left).collect())
    }
}

/// Returns the first line of a statement with enough work, as its text has it.
fn header(stmt: &Stmt) -> String {
    match stmt {
        Stmt::For { index, extent, parallelism, lanes: 1, .. } => {
            format!("{parallelism} {index} in {extent}")
        }
        Stmt::For { index, extent, parallelism, lanes, .. } => {
            format!("{parallelism} {index} in {extent} lanes {lanes}")
        }
        Stmt::Contract(c) => format!("contract {} {} x {} x {}", c.dtype, c.m, c.n, c.k),
        Stmt::While { .. } => "while".to_owned(),
        Stmt::Call(c) => format!("call {}", c.callee),
        Stmt::CallExternal(c) => c.signature.name().to_owned(),
        _ => "statements".to_owned(),
    }
}

/// Returns the number of pieces of the concurrent loop with which statements begin.
fn pieces_of(parts: &[Stmt]) -> usize {
    parts.first().and_then(Stmt::counted).map_or(1, |l| l.extent)
}

fn concurrent_loop(index: IndexId, pieces: usize, body: Vec<Stmt>, origins: &Origins) -> Stmt {
    Stmt::For {
        index,
        extent: Extent::Constant(pieces),
        parallelism: Parallelism::Concurrent,
        lanes: 1,
        carries: Vec::new(),
        body,
        origins: origins.clone(),
    }
}

/// The numbers of declarations of a kernel, which a refused division restores.
struct Declared {
    buffers: usize,
    scalars: usize,
    vars: usize,
    indices: u32,
    workspace: usize,
    private: usize,
}

impl Declared {
    fn of(kernel: &Kernel) -> Declared {
        Declared {
            buffers: kernel.buffers.len(),
            scalars: kernel.scalars.len(),
            vars: kernel.vars.len(),
            indices: kernel.indices,
            workspace: kernel.workspace,
            private: kernel.private,
        }
    }

    fn restore(self, kernel: &mut Kernel) {
        truncate(&mut kernel.buffers, self.buffers);
        truncate(&mut kernel.scalars, self.scalars);
        truncate(&mut kernel.vars, self.vars);
        kernel.indices = self.indices;
        (kernel.workspace, kernel.private) = (self.workspace, self.private);
    }
}

fn truncate<K: EntityRef, V>(map: &mut PrimaryMap<K, V>, len: usize) {
    if map.len() > len {
        let mut all = Vec::from(std::mem::take(map));
        all.truncate(len);
        *map = PrimaryMap::from(all);
    }
}

/// Returns the smallest number of rows or columns of a piece of a contraction that has so many of them.
fn least_rows(extent: usize) -> usize {
    if extent < 2 * LEAST_ROWS { LEAST_ROWS / 2 } else { LEAST_ROWS }
}

/// Returns the number of iterations of which pieces consist of multiples. Pieces of a loop with lanes begin at a cache
/// line, if they are large: stores across two lines take twice as long.
fn group(lanes: usize, extent: usize, most: usize) -> usize {
    let aligned = lanes.max(IN_LINES);
    if lanes > 1 && extent / aligned >= most { aligned } else { lanes }
}

/// Divides iterations into at most `most` equal pieces and a rest; `None` if there would be only one piece. Chooses the
/// number of pieces, more than half of `most`, with which threads wait the least for one another.
fn divide(iterations: usize, most: usize) -> Option<Division> {
    let most = most.min(iterations);
    if most < 2 {
        return None;
    }
    let division = |pieces: usize| {
        let each = iterations / pieces;
        Division { pieces, each, rest: iterations - pieces * each }
    };
    // The time in iterations, times the number of threads, summed over numbers of threads.
    let time = |d: &Division| {
        let rounds = |threads: usize| d.pieces.div_ceil(threads) as u128;
        let of =
            |threads: usize| threads as u128 * (rounds(threads) * d.each as u128 + d.rest as u128);
        THREADS.iter().map(|threads| of(*threads)).sum::<u128>()
    };
    let all = (most / 2 + 1..=most).map(division);
    // A rest is another copy of the loop, so it must gain a sixteenth.
    let with_copy = |d: &Division| time(d) + if d.rest > 0 { time(d) / 16 } else { 0 };
    all.min_by_key(|d| (with_copy(d), usize::MAX - d.pieces))
}

/// The axis along which a contraction is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Axis {
    Rows,
    Columns,
    Terms,
    /// The batch loop at this position.
    Batch(usize),
}

impl Axis {
    /// Returns the part of a contraction with `extent` rows (columns, terms, iterations of a batch loop) from `start`.
    fn range(self, c: &Contract, start: At, extent: usize) -> Contract {
        let mut part = c.clone();
        let steps = match self {
            Axis::Rows => {
                part.m = extent;
                [c.lhs.row, 0, c.out.row]
            }
            Axis::Columns => {
                part.n = extent;
                [0, c.rhs.column, c.out.column]
            }
            Axis::Terms => {
                part.k = extent;
                [c.lhs.column, c.rhs.row, 0]
            }
            Axis::Batch(at) => {
                let (_, lhs, rhs, out) = c.batch[at];
                part.batch[at].0 = extent;
                [lhs, rhs, out]
            }
        };
        for (matrix, step) in [&mut part.lhs, &mut part.rhs, &mut part.out].into_iter().zip(steps) {
            start.shift(&mut matrix.at, step);
        }
        part
    }
}

/// The position of the first iteration of a part.
#[derive(Clone, Copy)]
enum At {
    /// This iteration.
    Constant(i64),
    /// `each` times the number of the piece.
    Piece { piece: IndexId, each: i64 },
}

impl At {
    /// Moves an address, which advances by `step` elements in each iteration, to the first iteration.
    fn shift(self, address: &mut Address, step: i64) {
        match self {
            At::Constant(from) => {
                address.offset = address.offset.wrapping_add(from.wrapping_mul(step));
            }
            At::Piece { piece, each } if step != 0 => {
                address.terms.push((piece, each.wrapping_mul(step)));
            }
            At::Piece { .. } => {}
        }
    }
}

/// The first iteration of the loops of a copy.
#[derive(Clone, Copy)]
enum Start {
    Constant(i64),
    /// `each` times the number of the piece; `from` holds this number if the copy reads it ([`Copy::counted`]).
    Piece {
        piece: IndexId,
        each: i64,
        from: ScalarId,
    },
}

impl Start {
    fn at(self) -> At {
        match self {
            Start::Constant(from) => At::Constant(from),
            Start::Piece { piece, each, from: _ } => At::Piece { piece, each },
        }
    }

    fn number(self) -> Arg {
        match self {
            Start::Constant(from) => Arg::Literal(Literal::i64(from)),
            Start::Piece { from, .. } => Arg::Scalar(from),
        }
    }
}

/// An array to whose elements a statement only adds (or combines by another code with a neutral element).
struct Accumulated {
    held: BufferVersion,
    code: Code,
    neutral: Literal,
    elements: usize,
}

impl Accumulated {
    /// Gives each piece a row of partial values. Returns the loop that sets a row to the neutral element, and the loop that
    /// combines the rows.
    fn partial(
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
        copy.buffers[held.buffer] = Some(Replaced { buffer: rows, row: Some((piece, size)) });
        let rows = BufferVersion::first(rows);
        let [first, element, number] = [(); 3].map(|()| kernel.fresh_index());
        let [term, old, new] = [(); 3].map(|()| kernel.scalars.push(neutral.dtype));
        let sum = kernel.vars.push(neutral.dtype);
        let row = |of, i| Address { terms: vec![(of, size), (i, 1)], ..Address::default() };
        let at = Address { terms: vec![(element, 1)], ..Address::default() };
        let looped = |index, extent, parallelism, body| Stmt::For {
            index,
            extent: Extent::Constant(extent),
            parallelism,
            lanes: 1,
            carries: Vec::new(),
            body,
            origins: origins.clone(),
        };
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

/// Returns the arrays to whose elements a statement only adds: all accesses are pairs of a load and a store of one element,
/// and the stored value is the loaded one, combined with another value. No address has one of the `indices`, and the
/// statement certainly accesses all elements.
fn accumulated(kernel: &Kernel, stmt: &Stmt, indices: &OrderedSet<IndexId>) -> Vec<Accumulated> {
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
        Pairs { once: &once, indices, loops: Vec::new(), found: OrderedMap::default() };
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

/// A load and a store of one element, between which a value is combined with it.
struct Pair {
    held: BufferVersion,
    code: Code,
    /// The elements that all iterations access.
    lattice: Option<Lattice>,
}

/// The search for pairs of loads and stores.
struct Pairs<'a> {
    /// Whether a scalar has one use.
    once: &'a dyn Fn(ScalarId) -> bool,
    indices: &'a OrderedSet<IndexId>,
    /// The loops around, with their trip counts.
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
                && !address.terms.iter().any(|(i, s)| *s != 0 && self.indices.contains(i))
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
            // A store in a branch may not happen, and a loop of unknown trip count may have no iterations.
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

/// Collects the loops of a block that are in no other loop with independent iterations.
fn outermost_loops<'a>(body: &'a [Stmt], found: &mut Vec<&'a Stmt>) {
    for stmt in body {
        let parallel =
            |l: &Loop<'_>| l.carries.is_empty() && variables(l.body).0 == Parallelism::Parallel;
        match stmt.counted().filter(parallel) {
            Some(_) => found.push(stmt),
            None => stmt.blocks().into_iter().for_each(|block| outermost_loops(block, found)),
        }
    }
}

/// A rewriter that copies statements, and restricts some of their loops to a part of the iterations.
struct Copy<'a> {
    kernel: &'a mut Kernel,
    /// The indices of the restricted loops.
    cut: &'a OrderedSet<IndexId>,
    start: Start,
    /// The number of iterations of the restricted loops.
    extent: usize,
    /// The numbers of iterations in the restricted loops, for uses outside of addresses: of each restricted loop, the
    /// scalar, and whether it is used.
    numbers: OrderedMap<IndexId, (ScalarId, bool)>,
    /// Whether the copy reads the number of the first iteration.
    counted: bool,
    /// Whether the copy defines scalars, variables and indices of its own.
    fresh: bool,
    scalars: SecondaryMap<ScalarId, Option<ScalarId>>,
    vars: SecondaryMap<VarId, Option<VarId>>,
    indices: SecondaryMap<IndexId, Option<IndexId>>,
    buffers: SecondaryMap<BufferId, Option<Replaced>>,
}

/// The buffer that a copy accesses instead of another buffer.
#[derive(Clone, Copy)]
struct Replaced {
    buffer: BufferId,
    /// If the buffer has a row of partial values for each piece: the piece, and the elements of a row.
    row: Option<(IndexId, i64)>,
}

impl<'a> Copy<'a> {
    fn of(
        kernel: &'a mut Kernel,
        cut: &'a OrderedSet<IndexId>,
        start: Start,
        extent: usize,
    ) -> Copy<'a> {
        Copy {
            kernel,
            cut,
            start,
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
            let expr = Expr::Code(Code::Add, vec![self.start.number(), Arg::Index(inner)]);
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
                self.start.at().shift(&mut at, *stride);
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
