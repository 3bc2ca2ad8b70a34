//! Puts timers into a program: `lap` statements behind the statements whose time is measured.
//!
//! ```text
//! for i0 in 100000 { .. }                    for i0 in 100000 { .. }
//!                                            lap timer0
//! serial i1 in 100 {                         serial i1 in 100 {
//!   for i2 in 10 { .. }                        for i2 in 10 { .. }
//!   for i3 in 100000 { .. }                    for i3 in 100000 { .. }
//! }                                            lap timer1
//!                                            }
//! ```
//!
//! A statement is measured if its estimated cost is at least [`LEAST_COST`]. Statements of less cost are counted with
//! the measured statement after them, or together if their sum is large enough. If one iteration of a serial loop has
//! at least this cost, the statements in its body are measured instead of the loop; so are those of branches, and those
//! of kernels that are called. Bodies of parallel loops and of loops with vector lanes get no timers, so that these
//! loops and the bits of their results do not change.
//!
//! Model: the profiling statements of Halide (`profiling.cpp`), which stand around the loops of each stage.

use crate::loop_ir::analysis::cost::Costs;
use crate::loop_ir::analysis::traffic::bytes;
use crate::loop_ir::{
    Call, Computed, Effect, Extent, Flow, Kernel, KernelId, Origins, Parallelism, Program, Shape,
    Stmt, TimerId, visit,
};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use std::slice::from_ref;

/// The least cost of a measured part, in operations of a vector lane: 2 microseconds at 16 per nanosecond, the rate of
/// the fastest loops. Stopping a timer takes some 40 nanoseconds, so a timer slows its part down by at most 2 per cent.
const LEAST_COST: u64 = 1 << 15;

/// The assumed trip count of an inner loop whose trip count is known only at run time.
pub(super) const ASSUMED_TRIPS: u64 = 64;

/// A measured part of a program.
#[derive(Clone, Debug)]
pub(crate) struct TimedPart {
    /// The kind and size of the largest statement of the part, such as `for 8 x 100`.
    pub(crate) what: String,
    /// The index in [`Instrumented::around`] of the innermost loop, branch or kernel around the part.
    pub(crate) within: Option<usize>,
    /// The equations that the largest statement of the measured part computes.
    pub(crate) origins: Origins,
    /// The estimated bytes of memory that one run of the part reads and writes.
    pub(crate) bytes: u64,
    /// The number of further loops, contractions and calls of the part, which have less cost.
    pub(crate) smaller: usize,
    /// The equations that these further statements compute.
    pub(crate) smaller_origins: Origins,
}

/// A loop, branch or kernel whose statements are measured one by one.
#[derive(Clone, Debug)]
pub(crate) struct EnclosingStmt {
    /// The kind and size of the statement, such as `serial 100`, or the name of the kernel.
    pub(crate) what: String,
    /// The index in [`Instrumented::around`] of the statement around this one, if there is one.
    pub(crate) within: Option<usize>,
}

/// A program with timers, and the part that each timer measures.
#[derive(Debug)]
pub(crate) struct Instrumented {
    pub(crate) program: Program,
    pub(crate) parts: PrimaryMap<TimerId, TimedPart>,
    pub(crate) around: Vec<EnclosingStmt>,
}

/// Returns the program with a timer behind each statement of large cost, and the part that each timer measures.
pub(crate) fn instrument(program: &Program) -> Instrumented {
    instrument_from(program, LEAST_COST)
}

/// Returns the program with timers behind statements of at least the cost `least`, and the part that each timer
/// measures.
pub(super) fn instrument_from(program: &Program, least: u64) -> Instrumented {
    let costs = Costs::of(program, ASSUMED_TRIPS);
    let (parts, around) = (PrimaryMap::new(), Vec::new());
    let mut timed = program.clone();
    let mut sites = SecondaryMap::new();
    let mut pass = Instrument { program, least, costs, parts, around, sites: &mut sites };
    timed.entry.body = pass.kernel(&program.entry, None);
    // Visit callers before their callees, so that all calls of a kernel are known before its statements get timers.
    for (id, kernel) in program.callees.iter().rev() {
        if let Some(site) = pass.sites[id].clone() {
            timed.callees[id].body = pass.kernel(kernel, Some(site));
        }
    }
    // A program without parts has one timer, which measures nothing, so that the program's calls are counted.
    timed.timers = pass.parts.len().max(1);
    Instrumented { parts: pass.parts, around: pass.around, program: timed }
}

/// The calls of one kernel whose statements are measured one by one.
#[derive(Clone, Default)]
struct Site {
    /// The innermost statement around the call; `None` if there are several calls.
    within: Option<usize>,
    /// The equations that the calls compute.
    origins: Origins,
}

struct Instrument<'a> {
    program: &'a Program,
    least: u64,
    costs: Costs,
    parts: PrimaryMap<TimerId, TimedPart>,
    around: Vec<EnclosingStmt>,
    sites: &'a mut SecondaryMap<KernelId, Option<Site>>,
}

/// The statements after the last `lap` (timer stop), which the next `lap` will measure, and their cost.
#[derive(Default)]
struct Pending<'a> {
    cost: u64,
    stmts: Vec<&'a Stmt>,
}

/// The surroundings of a statement block: its kernel, and the measured statement around it.
#[derive(Clone)]
struct Scope<'a> {
    kernel: &'a Kernel,
    within: Option<usize>,
    /// Whether the block runs once in a call of the program.
    once: bool,
    /// The equations of the enclosing statement, for parts whose statements have no equations of their own.
    origins: Origins,
}

impl<'a> Instrument<'a> {
    /// Returns the body of a kernel with its timers; `site` has the equations of the kernel's calls, and is `None` for
    /// the entry.
    fn kernel(&mut self, kernel: &'a Kernel, site: Option<Site>) -> Vec<Stmt> {
        let mut scope = Scope { kernel, within: None, once: true, origins: Origins::NONE };
        if let Some(Site { within, origins }) = site {
            let what = format!("@{}", kernel.name);
            scope = Scope { within: self.enter(what, within), once: false, origins, ..scope };
        }
        let mut pending = Pending::default();
        self.block(&scope, &kernel.body, &mut pending)
    }

    fn enter(&mut self, what: String, within: Option<usize>) -> Option<usize> {
        self.around.push(EnclosingStmt { what, within });
        Some(self.around.len() - 1)
    }

    /// Returns the statements of a block with their timers. The statements after the last `lap` (timer stop) stay in
    /// `pending`.
    fn block(
        &mut self,
        scope: &Scope<'a>,
        body: &'a [Stmt],
        pending: &mut Pending<'a>,
    ) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            if self.is_entered_loop(stmt) && pending.stmts.iter().any(|s| s.origins().is_some()) {
                // Stop the timer before the loop, so that the first iteration does not count the statements before the
                // loop.
                out.push(Stmt::Lap(self.part(scope, std::mem::take(pending))));
            }
            match self.entered(scope, stmt, pending) {
                Some(entered) => out.push(entered),
                None => {
                    out.push(stmt.clone());
                    pending.cost = pending.cost.saturating_add(self.cost(scope, stmt));
                    pending.stmts.push(stmt);
                }
            }
            if pending.cost >= self.least {
                out.push(Stmt::Lap(self.part(scope, std::mem::take(pending))));
            }
        }
        out
    }

    /// Returns whether `stmt` is a loop whose iterations are measured statement by statement.
    fn is_entered_loop(&self, stmt: &Stmt) -> bool {
        let shape = stmt.shape();
        let serial = match shape.flow {
            Flow::For { parallelism, lanes, .. } => {
                parallelism == Parallelism::Serial && lanes == 1
            }
            Flow::While => true,
            Flow::Straight | Flow::Nest | Flow::If => false,
        };
        serial && self.has_large_block(stmt)
    }

    /// Returns whether a block of `stmt` costs enough to be measured.
    fn has_large_block(&self, stmt: &Stmt) -> bool {
        stmt.blocks().iter().any(|b| self.costs.block(b) >= self.least)
    }

    /// If the statements inside `stmt` are measured one by one instead of `stmt` as a whole, returns `stmt` with their
    /// timers.
    fn entered(
        &mut self,
        scope: &Scope<'a>,
        stmt: &'a Stmt,
        pending: &mut Pending<'a>,
    ) -> Option<Stmt> {
        let blocks = stmt.blocks();
        let shape = stmt.shape();
        let compound = |s: &Stmt| s.origins().is_some();
        let first = self.parts.next_key();
        let origins = stmt.own_origins();
        let scope = match shape.flow {
            // Scalar statements have no origins (computed equations) of their own, so their parts get the origins of
            // the nest.
            Flow::Nest
                if blocks[0].iter().any(compound) && (scope.once || self.has_large_block(stmt)) =>
            {
                Scope { origins, ..scope.clone() }
            }
            Flow::If if self.has_large_block(stmt) => {
                let within = self.enter(what(self.program, &self.costs, stmt), scope.within);
                Scope { within, origins, ..scope.clone() }
            }
            Flow::For { .. } | Flow::While if self.is_entered_loop(stmt) => {
                let within = self.enter(what(self.program, &self.costs, stmt), scope.within);
                Scope { within, once: false, origins, ..scope.clone() }
            }
            Flow::Straight => {
                let Effect::Call(call) = shape.effect else { return None };
                return self.called(scope, call).then(|| stmt.clone());
            }
            Flow::For { .. } | Flow::While | Flow::If | Flow::Nest => return None,
        };
        let mut inside = Vec::new();
        for block in &blocks {
            inside.push(self.block(&scope, block, pending));
        }
        if shape.flow.is_loop() {
            // The statements after the last `lap` (timer stop) of an iteration are counted in the first part of the
            // next iteration.
            let rest = std::mem::take(pending);
            let origins = self.origins(&rest.stmts);
            if let Some(part) = self.parts.get_mut(first) {
                part.smaller += rest.stmts.iter().filter(|s| compound(s)).count();
                part.bytes = part.bytes.saturating_add(bytes(scope.kernel, &rest.stmts));
                part.smaller_origins = part.smaller_origins.united(&origins);
            }
        }
        let mut made = stmt.clone();
        made.blocks_mut().into_iter().zip(inside).for_each(|(block, timed)| *block = timed);
        Some(made)
    }

    /// If the statements of the called kernel are measured, records the call and returns true.
    fn called(&mut self, scope: &Scope<'a>, call: &Call) -> bool {
        let kernel = &self.program.callees[call.callee];
        // Built-in kernels, such as the argsort, compute one equation, so they are measured as a whole.
        let one = kernel.argsort.is_some() || kernel.origins().iter().next().is_none();
        if one || self.costs.kernel(call.callee) < self.least {
            return false;
        }
        let origins = scope.origins.united(&call.origins);
        self.sites[call.callee] = Some(match self.sites[call.callee].take() {
            None => Site { within: scope.within, origins },
            Some(site) => Site { within: None, origins: site.origins.united(&origins) },
        });
        true
    }

    /// Adds the measured part that consists of the pending statements, and returns its timer.
    fn part(&mut self, scope: &Scope<'a>, Pending { stmts, .. }: Pending<'a>) -> TimerId {
        let kernel = scope.kernel;
        let mut compound: Vec<&Stmt> =
            stmts.iter().copied().filter(|s| s.origins().is_some()).collect();
        let by_cost = |i: &usize| self.cost(scope, compound[*i]);
        let largest = (0..compound.len()).max_by_key(by_cost).map(|i| compound.remove(i));
        let own = self.origins(largest.as_slice());
        let origins = if own.iter().next().is_none() { scope.origins.clone() } else { own };
        self.parts.push(TimedPart {
            what: largest.map_or("scalars".to_owned(), |s| what(self.program, &self.costs, s)),
            within: scope.within,
            origins,
            bytes: bytes(kernel, &stmts),
            smaller: compound.len(),
            smaller_origins: self.origins(&compound),
        })
    }

    /// Returns the equations that statements and the kernels that they call compute.
    fn origins(&self, stmts: &[&Stmt]) -> Origins {
        let mut all: Vec<Computed> = Vec::new();
        for stmt in stmts {
            all.extend(stmt.origins().into_iter().flat_map(Origins::iter));
            visit(from_ref(*stmt), &mut |s| {
                if let Effect::Call(call) = s.shape().effect {
                    all.extend(self.program.callees[call.callee].origins().iter());
                }
            });
        }
        Origins::of(all)
    }

    /// Returns the cost of a statement. In a block that runs only once, a loop whose trip count is known only at run
    /// time is assumed to be large, because stopping its timer once costs little.
    fn cost(&self, scope: &Scope<'_>, stmt: &Stmt) -> u64 {
        if scope.once { self.costs.once(stmt) } else { self.costs.block(from_ref(stmt)) }
    }
}

/// Returns the kind and size of a statement, such as `for 8 x 100`, `contract 64x64x64` or `for 500 in 8 pieces`.
pub(super) fn what(program: &Program, costs: &Costs, stmt: &Stmt) -> String {
    let shape = stmt.shape();
    if let Some(c) = shape.contract {
        let batch = c.batch.iter().map(|b| format!(" x {}", b.0)).collect::<String>();
        return format!("contract {}x{}x{}{batch}", c.m, c.k, c.n);
    }
    match (shape.effect, shape.flow) {
        (Effect::Call(call), _) => format!("call @{}", program.callees[call.callee].name),
        (Effect::External(c), _) => c.signature.name().to_owned(),
        (_, Flow::For { parallelism: Parallelism::Concurrent, extent, .. }) => {
            format!("{} in {extent} pieces", largest(program, costs, &shape))
        }
        (_, Flow::For { parallelism, .. }) => format!("{parallelism} {}", extents(stmt)),
        (_, Flow::While) => "while".to_owned(),
        (_, Flow::If) => "if".to_owned(),
        (_, Flow::Nest) => largest(program, costs, &shape),
        (_, Flow::Straight) => "scalars".to_owned(),
    }
}

/// Returns the kind and size of the largest statement in the blocks of a statement.
fn largest(program: &Program, costs: &Costs, shape: &Shape<'_>) -> String {
    let inner = shape.blocks.iter().flat_map(|b| b.iter()).filter(|s| s.origins().is_some());
    let largest = inner.max_by_key(|s| costs.block(from_ref(*s)));
    largest.map_or("scalars".to_owned(), |s| what(program, costs, s))
}

/// Returns the trip counts of a loop and of the loops directly inside it: `8 x 100`; a trip count that is known only at
/// run time is `?`.
fn extents(stmt: &Stmt) -> String {
    let shape = stmt.shape();
    let own = match shape.flow {
        Flow::For { extent: Extent::Constant(n), .. } => n.to_string(),
        _ => "?".to_owned(),
    };
    let mut loops = shape.blocks.iter().flat_map(|b| b.iter());
    let mut inner = loops.by_ref().filter(|s| matches!(s.shape().flow, Flow::For { .. }));
    match (inner.next(), inner.next()) {
        (Some(only), None) => format!("{own} x {}", extents(only)),
        _ => own,
    }
}
