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
//! The iterations must be independent, with three exceptions. A variable into which iterations fold has a partial value
//! in each piece, and so has an array to whose elements iterations only add; the partial values are combined in the
//! order of the pieces. A buffer that each iteration fills before it reads it becomes private memory of a piece. A
//! contraction is cut along its batches, rows or columns, or along its terms if the result is small. If a serial loop
//! computes all members of a batch in each iteration, each piece runs all iterations of the serial loop for its own
//! members.
//!
//! The number of pieces depends only on trip counts and the estimated work, and not on the number of threads. So the
//! bits of a result do not depend on the number of threads. Iterations that are left over run after the pieces.

mod contraction;
mod copy;
mod division;
mod own_rows;
mod partial_arrays;
mod parts;

use super::pass::{Invariant, Pass, Run, WorkDivision};
use crate::loop_ir::analysis::block_local::block_local;
use crate::loop_ir::analysis::cost::Costs;
use crate::loop_ir::analysis::dependence::{folds, may_run_concurrently, strongest, variables};
use crate::loop_ir::analysis::traffic::bytes;
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Contract, Expr, Extent, IndexId, Kernel, Origins,
    Parallelism, Place, Program, Rewriter, Stmt, VarId, concurrency, visit,
};
use crate::machine::MachineModel;
use contraction::LEAST_MEMBERS;
use copy::{Copy, Replaced};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use division::{Division, IN_LINE, divide, group};
use own_rows::{OwnRows, exchanged};
use partial_arrays::{Accumulated, accumulated};
use parts::{Axis, Members, Start};
use std::slice::from_ref;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, OrderedMap, OrderedSet, Shape};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
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

/// The assumed trip count of a loop whose trip count is known only at run time, for estimates of work.
const ASSUMED_TRIPS: u64 = 16;
/// Different extents may be the number of members of a batch: at most this many of them are tried.
const TRIED_MEMBERS: usize = 3;
/// The number of bytes of memory traffic that take as long as one operation in one vector lane. Arrays of less than a
/// megabyte are often in a cache: the maximum of 100,000 `f64` takes 25 us, too little for several threads.
const BYTES_PER_OPERATION: u64 = 4;

/// Cuts the loops and contractions of the entry kernel. Returns whether any was cut, and a report on each loop or
/// contraction with enough work for several threads.
fn cut_pieces(program: &mut Program, machine: &MachineModel) -> (bool, Vec<WorkDivision>) {
    let costs = Costs::of(program, ASSUMED_TRIPS);
    let mut named: SecondaryMap<BufferId, usize> = SecondaryMap::new();
    let body = &program.entry.body;
    visit(body, &mut |stmt| stmt.buffers(&mut |buffer| named[buffer] += 1));
    let divisions = Vec::new();
    let mut cutter =
        Cutter { kernel: &mut program.entry, costs, machine, named, cut: false, divisions };
    for step in std::mem::take(&mut cutter.kernel.body) {
        // Reports refer to top-level statements by position, so the replacement must be one statement (a nest).
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

/// A variable into which iterations fold, the code that combines its values, and the neutral element of the code, with
/// which each piece of the cut loop starts.
type Partial = (VarId, Code, Literal);

/// The reason why a statement is not cut.
type Refused = String;

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
                    let inside = self.loop_inside_is_better(&stmt, most);
                    let first = inside.then(|| self.cut_around(&stmt, most)).flatten();
                    first.map_or_else(|| self.cut_loop(&stmt, most), Ok).or_else(|why| {
                        declared.restore(self.kernel);
                        let around = if inside { None } else { self.cut_around(&stmt, most) };
                        around.ok_or(why)
                    })
                }
                Stmt::While { .. } => Err("its trip count is known at run time only".to_owned()),
                Stmt::Call(_) => Err("it calls another kernel".to_owned()),
                Stmt::CallExternal(_) => Err("it calls a library or Rust function".to_owned()),
                _ => Err("it must run in order".to_owned()),
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
                        // Remove the report on the statement itself: the loops inside it were cut and have reports of
                        // their own. These loops run one after the other, so their partial values share memory.
                        self.divisions.remove(report);
                        let proved = strongest(self.kernel, &stmt);
                        if let Stmt::For { parallelism, .. } = &mut stmt {
                            *parallelism = proved.max(*parallelism);
                        }
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

    /// Returns the largest number of pieces into which a statement may be cut, a power of two. Each piece (the share of
    /// one thread) has at least three quarters of `piece_operations` operations, so that it is worth the cost of a
    /// thread.
    fn most_pieces(&self, stmt: &Stmt) -> usize {
        let operations = self.costs.block(from_ref(stmt));
        let work = operations.max(bytes(self.kernel, &[stmt]) / BYTES_PER_OPERATION);
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
        let mut group = if partials.is_empty() { group(lanes, extent, most) } else { lanes };
        if extent >= 2 * IN_LINE && accesses_neighbours(index, body) {
            group = group.next_multiple_of(IN_LINE);
        }
        let division = divide(extent / group, most).ok_or("it has too few iterations")?;
        let division = division.times(group, extent);
        self.cut(stmt, &Members::iterations_of(index), division, &partials, &[])
    }

    /// Returns whether a loop inside is the better one to cut. This is so if pieces of the outer loop would have few
    /// neighbouring elements: machine code computes these in vectors, every piece loads whole cache lines, and threads
    /// that write to one line wait for each other. Every piece of the inner loop repeats the other statements of the
    /// outer loop's body, which must be little work.
    ///
    /// ```text
    /// for i0 in 64 { for i1 in 32 { store b1[i1*64 + i0], .. } }        pieces of i1: each has 64 elements in a row
    /// ```
    fn loop_inside_is_better(&self, stmt: &Stmt, most: usize) -> bool {
        let Some(Loop { index, extent, body, .. }) = stmt.counted() else { return false };
        let mut loops = Vec::new();
        outermost_loops(body, &mut loops);
        let all = self.costs.block(body);
        let inside =
            loops.iter().map(|l| self.costs.block(from_ref(l))).fold(0, u64::saturating_add);
        let repeated = all.saturating_sub(inside).saturating_mul(most as u64);
        extent / IN_LINE < most && repeated <= all / 16 && accesses_neighbours(index, body)
    }

    /// Returns the statements that replace a serial loop around loops over the members of a batch; `None` if it is no such
    /// loop. Each piece runs all iterations of the serial loop for its own members:
    ///
    /// ```text
    /// serial i0 in 100 { for i1 in 10000 { .. } }    concurrent i2 in 50 { serial i0 in 100 { for i3 in 200 { .. } } }
    /// ```
    ///
    /// The program does not state the number of members. Candidates are the trip counts of loops and the extents of
    /// contractions that divide the trip counts of other loops; the candidates that cover the most work are tried.
    fn cut_around(&mut self, stmt: &Stmt, most: usize) -> Option<Vec<Stmt>> {
        let Stmt::For { lanes, parallelism, body, .. } = stmt else { return None };
        if *lanes > 1 && *parallelism != Parallelism::Parallel {
            return None;
        }
        let (mut loops, mut contractions) = (Vec::new(), Vec::new());
        outermost_loops(body, &mut loops);
        visit(body, &mut |stmt| {
            if let Stmt::Contract(c) = stmt {
                contractions.push((c, self.costs.block(from_ref(stmt))));
            }
        });
        let loops: Vec<(Loop<'_>, u64)> = loops
            .into_iter()
            .filter_map(|l| Some((l.counted()?, self.costs.block(from_ref(l)))))
            .filter(|(l, _)| l.extent > 0)
            .collect();
        let extents = loops.iter().map(|(l, _)| l.extent);
        let sides = contractions
            .iter()
            .flat_map(|(c, _)| [c.m, c.n].into_iter().chain(c.batch.iter().map(|(n, ..)| *n)));
        let all: OrderedSet<usize> = extents.chain(sides).filter(|n| *n > 1).collect();
        let covered = |members: usize| {
            let of = |l: &Loop<'_>| l.extent.is_multiple_of(members);
            let by_loops = loops.iter().filter(|(l, _)| of(l)).map(|(_, cost)| *cost);
            let along = |c: &Contract| Axis::of_extent(c, members).is_some();
            let by_products = contractions.iter().filter(|(c, _)| along(c)).map(|(_, cost)| *cost);
            by_loops.chain(by_products).fold(0, u64::saturating_add)
        };
        let mut all: Vec<(u64, usize)> = all.into_iter().map(|n| (covered(n), n)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        for (_, members) in all.into_iter().take(TRIED_MEMBERS) {
            let batch = loops.iter().map(|(l, _)| l).filter(|l| l.extent.is_multiple_of(members));
            let lanes = batch.clone().map(|l| l.lanes * members / l.extent).max().unwrap_or(1);
            let along = Members {
                loops: batch.map(|l| (l.index, l.extent / members)).collect(),
                contracted: (!contractions.is_empty()).then_some(members),
            };
            let multiplied = contractions.iter().any(|(c, _)| along.axis(c).is_some());
            let most = if multiplied { most.min(members / LEAST_MEMBERS) } else { most };
            let group = group(lanes.max(1), members, most.max(1));
            let Some(division) = divide(members / group, most) else { continue };
            let Some(rows) = exchanged(self.kernel, stmt, &along, members, &self.named) else {
                continue;
            };
            let declared = Declared::of(self.kernel);
            match self.cut(stmt, &along, division.times(group, members), &[], &rows) {
                Ok(parts) => return Some(parts),
                Err(_) => declared.restore(self.kernel),
            }
        }
        None
    }

    /// Cuts a statement along `members`: restricts its loops and contractions over members to the members of one piece.
    /// Returns an error if it is not proved that pieces access different memory.
    fn cut(
        &mut self,
        stmt: &Stmt,
        members: &Members,
        division: Division,
        partials: &[Partial],
        rows: &[OwnRows],
    ) -> Result<Vec<Stmt>, Refused> {
        let private = self.private(stmt, members);
        let most = self.costs.block(from_ref(stmt)) / 16 / division.pieces as u64;
        let mut arrays = accumulated(self.kernel, stmt, members);
        arrays.retain(|array| array.elements as u64 <= most);
        let together = self.joined_members(stmt, members, &arrays);
        let mut out = self.pieces(stmt, members, division, (partials, &arrays, rows));
        let refused = || out.first().and_then(|all| concurrency::refused(self.kernel, all));
        if let Some(why) = together.or_else(refused) {
            for (buffer, place) in private {
                self.kernel.buffers[buffer].place = place;
            }
            return Err(why);
        }
        let Division { pieces, each, rest } = division;
        if rest > 0 && !planted(Fault::LeftOver) {
            let start = (pieces * each) as i64;
            let from = (Start::Constant(start), Arg::Literal(Literal::i64(start)));
            let mut copy = Copy::of(self.kernel, members, from, rest);
            copy.fresh = true;
            for (buffer, _) in &private {
                let ty = copy.kernel.buffers[*buffer].ty.clone();
                let new = copy.kernel.scratch(ty);
                copy.kernel.versions[new] = copy.kernel.versions[*buffer].clone();
                copy.buffers[*buffer] = Some(Replaced { buffer: new, row: None, relative: false });
            }
            let [ahead, behind] = own_rows::copies(
                &mut copy,
                rows,
                Start::Constant(start),
                rest,
                &stmt.own_origins(),
            );
            out.extend(ahead);
            out.extend(copy.block(from_ref(stmt)));
            out.extend(behind);
        }
        Ok(out)
    }

    /// Returns an error if iterations of the loops over members, inside the statement, use values of other members,
    /// such as a sum over all members: a piece has the values of its own members alone. Arrays to which iterations only
    /// add have partial values for each piece, so they are exempt. Private memory that a loop over members writes must
    /// be written before it is read in every iteration, and used only inside these loops.
    fn joined_members(
        &self,
        stmt: &Stmt,
        members: &Members,
        arrays: &[Accumulated],
    ) -> Option<Refused> {
        let kernel = &*self.kernel;
        let mut loops = Vec::new();
        for block in stmt.blocks() {
            visit(block, &mut |stmt| {
                loops.extend(stmt.counted().filter(|l| members.loops.contains_key(&l.index)));
            });
        }
        let private = |b: BufferId| matches!(kernel.buffers[b].place, Place::Private(_));
        let mut scratch: OrderedSet<BufferId> = OrderedSet::default();
        for found in &loops {
            visit(found.body, &mut |stmt| {
                stmt.accesses(&mut |a| {
                    if a.write && private(a.held.buffer) {
                        scratch.insert(a.held.buffer);
                    }
                });
            });
        }
        let mentions = |body: &[Stmt]| {
            let mut found: OrderedMap<BufferId, usize> = OrderedMap::default();
            visit(body, &mut |stmt| stmt.buffers(&mut |b| *found.entry(b).or_default() += 1));
            found.retain(|b, _| scratch.contains(b));
            found
        };
        let mut outside = mentions(from_ref(stmt));
        let added = |b: BufferId| arrays.iter().any(|array| array.buffer() == b);
        for Loop { index, extent, body, .. } in loops {
            let here = mentions(body);
            for (buffer, n) in &here {
                outside.entry(*buffer).and_modify(|all| *all -= n);
            }
            let here: Vec<BufferId> = here.into_keys().collect();
            let own = block_local(kernel, &PrimaryMap::new(), body, &here);
            if own.contains(&false) || !may_run_concurrently(kernel, index, extent, body, &added) {
                return Some(format!("iterations of {index} depend on one another"));
            }
        }
        let (buffer, _) = outside.iter().find(|(_, n)| **n > 0)?;
        Some(format!("{buffer} is used after the loop over members that writes it"))
    }

    /// Moves buffers to the private memory of a piece, if each iteration of the loop fills them before it reads them,
    /// no other statement names them, and their addresses do not depend on the member (otherwise pieces access
    /// different elements anyway). Returns each moved buffer with its `Place` before the move.
    fn private(&mut self, stmt: &Stmt, members: &Members) -> Vec<(BufferId, Place)> {
        let mut here: OrderedMap<BufferId, usize> = OrderedMap::default();
        let mut moved: OrderedSet<BufferId> = OrderedSet::default();
        visit(from_ref(stmt), &mut |stmt| {
            stmt.buffers(&mut |b| *here.entry(b).or_default() += 1);
            stmt.accesses(&mut |a| {
                let moves =
                    |(i, stride): &(IndexId, i64)| *stride != 0 && members.loops.contains_key(i);
                if a.address.terms.iter().any(moves) {
                    moved.insert(a.held.buffer);
                }
            });
            if let Stmt::Contract(c) = stmt
                && let Some(axis) = members.axis(c)
            {
                let along = c.accesses().into_iter().zip(axis.steps(c));
                moved.extend(along.filter(|(_, step)| *step != 0).map(|(a, _)| a.held.buffer));
            }
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
            kernel.make_private(buffer);
        }
        moved
    }

    /// Returns the statements that replace `stmt`: a concurrent loop, each iteration of which runs one piece of `stmt`,
    /// and the loops that combine the partial values of folds.
    fn pieces(
        &mut self,
        stmt: &Stmt,
        members: &Members,
        Division { pieces, each, rest: _ }: Division,
        (partials, arrays, rows): (&[Partial], &[Accumulated], &[OwnRows]),
    ) -> Vec<Stmt> {
        let (kernel, origins) = (&mut *self.kernel, stmt.own_origins());
        let piece = kernel.fresh_index();
        let (mut concurrent, mut behind) = (Vec::new(), Vec::new());
        let from = kernel.scalars.push(Dtype::I64);
        let start = (Start::Piece { piece, each: each as i64 }, Arg::Scalar(from));
        let mut copy = Copy::of(kernel, members, start, each);
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
            let fold = vec![
                Stmt::Let { value, expr },
                Stmt::Fold { var: *var, code: *code, value: Arg::Scalar(value) },
            ];
            behind.push(looped(number, pieces, Parallelism::Fold, fold, &origins));
        }
        for array in arrays {
            let [ahead, after] = array.partial(&mut copy, piece, pieces, &origins);
            concurrent.push(ahead);
            behind.push(after);
        }
        let [ahead, after] = own_rows::copies(&mut copy, rows, start.0, each, &origins);
        for of in rows {
            if let Some(Replaced { buffer, .. }) = copy.buffers[of.buffer] {
                copy.kernel.make_private(buffer);
            }
        }
        let body = copy.block(from_ref(stmt));
        concurrent.extend(ahead);
        if copy.counted {
            let by = [Arg::Index(piece), Arg::Literal(Literal::i64(each as i64))];
            let expr = Expr::Code(Code::Mul, by.to_vec());
            concurrent.insert(0, Stmt::Let { value: from, expr });
        }
        concurrent.extend(body);
        concurrent.extend(after);
        concurrent.extend(stores);
        let mut out = vec![looped(piece, pieces, Parallelism::Concurrent, concurrent, &origins)];
        out.extend(behind);
        out
    }
}

/// Returns the first line of a statement's text, to identify the statement in the report.
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
        Stmt::Nest { .. }
        | Stmt::If { .. }
        | Stmt::Let { .. }
        | Stmt::Var { .. }
        | Stmt::Set { .. }
        | Stmt::Fold { .. }
        | Stmt::Store { .. }
        | Stmt::Tape(_)
        | Stmt::Limit(_)
        | Stmt::Lap(_) => "a statement".to_owned(),
    }
}

/// Returns whether an access is to neighbouring elements in neighbouring iterations of a loop, and to distant ones in
/// those of a loop inside.
fn accesses_neighbours(index: IndexId, body: &[Stmt]) -> bool {
    let mut inside: OrderedSet<IndexId> = OrderedSet::default();
    let mut found = false;
    visit(body, &mut |stmt| {
        inside.extend(stmt.counted().map(|l| l.index));
        stmt.accesses(&mut |a| {
            let terms = &a.address.terms;
            let next = terms.iter().any(|(i, stride)| *i == index && stride.abs() == 1);
            let distant = |(i, stride): &(IndexId, i64)| inside.contains(i) && stride.abs() > 1;
            found |= next && terms.iter().any(distant);
        });
    });
    found
}

/// Returns the number of pieces: the trip count of the concurrent loop, which is the first statement of `parts`.
fn pieces_of(parts: &[Stmt]) -> usize {
    parts.first().and_then(Stmt::counted).map_or(1, |l| l.extent)
}

/// Returns a serial or parallel loop without lanes and carries.
fn looped(
    index: IndexId,
    extent: usize,
    parallelism: Parallelism,
    body: Vec<Stmt>,
    origins: &Origins,
) -> Stmt {
    Stmt::For {
        index,
        extent: Extent::Constant(extent),
        parallelism,
        lanes: 1,
        carries: Vec::new(),
        body,
        origins: origins.clone(),
    }
}

/// The numbers of scalars, variables, indices and buffers of a kernel before it is cut. If the cut is refused, the
/// kernel gets these numbers back.
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

    fn restore(&self, kernel: &mut Kernel) {
        for buffer in kernel.buffers.keys().skip(self.buffers) {
            kernel.versions[buffer] = Default::default();
        }
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

/// Collects the outermost loops of a block that have independent iterations.
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
