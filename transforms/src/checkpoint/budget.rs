//! Byte budgets: finds the cheapest plan of a function whose tape has at most a given number of bytes.
//!
//! The tape is everything that is alive between the forward and the reverse pass, namely residuals, carries of loops,
//! residuals of inner loops during the reverse pass of an outer iteration, and, if a stack of all iterations is packed
//! at once, its unpacked form. Arguments and results do not count, nor does the working memory of one iteration of an
//! innermost loop.
//!
//! Plans are tried in this order, the cheapest first:
//!
//! | | loops | other values |
//! |---|---|---|
//! | as planned | save the residuals of each iteration | saved if that is cheaper |
//! | packed | the same, packed in as few bits as possible; if the row of an iteration leaves words partly empty, by blocks of iterations | the same, or the fewest bytes |
//! | expensive results saved | the same | results of contractions and library routines are saved |
//! | segments ([`segments`](super::segments)) | the same | values that cross cuts are saved |
//! | outer loops save carries | enough carries that each iteration runs at most `r` times, by the binomial schedule ([`tapeloom_ir::revolve`]) | the same, or the fewest bytes |
//! | inner loops save carries, too | the same, one level deeper | the same, or values that cross cuts |
//!
//! If all carries fit, the last iterations of the outermost loops save their residuals, as far as the budget
//! allows: they are reversed first, and run once.
//!
//! A carry is saved for each iteration or for each block of iterations. The iterations of a block save their residuals
//! while the block is reversed. For each level and block size, the least `r` is found by bisection, since more
//! repetitions never take more bytes. The best level is the one with the fewest iterations run: each further level
//! multiplies the number of iterations run.
//!
//! Models: Griewank and Walther, "Revolve" (2000), for the schedules; Checkmate (Jain et al., MLSys 2020),
//! which plans straight-line programs within a budget.

use super::isolate::apart;
use super::segments;
use super::strip_mine::{in_blocks, unpacked_bytes};
use super::tape_size::{self, Tape};
use crate::pipeline::BEFORE_BUDGET;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::lang::query::{LinearizeOf, Within};
use tapeloom_ir::prim::{CheckpointPlan, LoopSpec, Regions, Role, TripCount};
use tapeloom_ir::revolve::{reach, steps};
use tapeloom_ir::{
    Amortization, Bits, Builder, FuncId, Kind, Loc, Module, OrderedSet, PlanRequest, Policy,
    Problem, Type, deeper, rebuild,
};

/// The limits on the reruns of one forward iteration that the search tries, in this order. `usize::MAX` means no limit,
/// so that one saved carry suffices.
const TIMES: [usize; 14] = [1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 25, 50, 100, usize::MAX];

/// The search tries this number of interpolated numbers of saved carries between the number for one entry of [`TIMES`]
/// and the number for the next.
const PARTS: usize = 16;

/// The numbers of iterations per saved carry that the search tries, in this order.
const BLOCKS: [usize; 6] = [1, 4, 16, 64, 256, 1024];

/// The denominator of `SearchPoint::share`, the fraction of a loop's last iterations that save their residuals.
const SHARES: usize = 64;

/// If straight-line code before and after loops is reversed in segments, the number of forward runs of iterations may
/// grow by at most this factor.
const MORE: f64 = 1.5;

/// The trip count assumed for a loop whose trip count is dynamic.
const SOME_ITERATIONS: usize = 100_000;

/// A loop with a dynamic trip count saves no more carries than suffice for this number of reruns per iteration.
const LEAST: usize = 2;

/// The value of [`LEAST`] for derivatives of derivatives. Their loops carry the slots (memory for saved carries) of
/// the loops that they reverse, so the memory allocated before the first iteration is a product of two numbers of
/// slots.
const LEAST_OF_DERIVED: usize = 4;

/// The largest number of nested loop levels, counted from the outermost, on which the search sets the number of
/// saved carries.
const DEEPEST: usize = 6;

/// Derives the linearization of `f`, planned so that the tape has at most `bytes` bytes.
pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: FuncId,
    Within { active, shares, policy }: &Within,
    bytes: u64,
) -> Result<LinearizeOf, Problem> {
    let f = BEFORE_BUDGET.run_with(regions, module, f, &mut |_| {})?;
    let derived = matches!(policy, Policy::About(_));
    let mut search = Search {
        regions,
        module,
        f,
        active,
        shares,
        bytes,
        derived,
        waits: 0,
        least: None,
        smallest: None,
    };
    if let Some(of) = search.attempt(f, &[Policy::Planned], Bits::Cheap)? {
        return Ok(of);
    }
    if search.waits > 0 {
        let blocks = in_blocks(search.module, f)?;
        if let Some(of) = search.attempt(blocks, &[Policy::Planned], Bits::Cheap)? {
            return Ok(of);
        }
    }
    if let Some(of) = search.packed(f, Policy::Planned)? {
        return Ok(of);
    }
    if let Some(of) = search.packed(f, Policy::Dots)? {
        return Ok(of);
    }
    let whole = search.module.get(f);
    for pieces in segments::plans(search.module, &whole, bytes, bytes) {
        let f = pieces.cut(search.module, &whole)?;
        if let Some(of) = search.attempt(f, &[Policy::Planned], Bits::Few)? {
            return Ok(of);
        }
    }
    if let Some(of) = search.packed(f, Policy::Bytes(bytes))? {
        return Ok(of);
    }
    let mut best = search.fewest(f)?;
    // The plan `best` recomputes straight-line code between loops as a whole. Recompute this code in segments instead,
    // if iterations then run at most `MORE` times as often.
    let pieces = segments::plans(search.module, &whole, bytes / 2, 0).into_iter().next();
    if let (Some(pieces), Some((least, _))) = (pieces, &best) {
        let (f, least) = (pieces.cut(search.module, &whole)?, *least);
        best = search.fewest(f)?.filter(|(iterations, _)| *iterations <= MORE * least).or(best);
    }
    match (best, &search.smallest) {
        (Some((_, of)), _) => Ok(of),
        (None, Some(of)) if derived => Ok(of.clone()),
        (None, _) => Err(search.refused()),
    }
}

/// One point of the search: the parameters that determine how many carries each loop saves.
#[derive(Clone, Copy)]
struct SearchPoint {
    /// The number of loop levels below the outermost one that save carries.
    level: usize,
    /// The number of iterations in a block; one carry is saved per block.
    block: usize,
    /// Selects the number of saved carries: `TIMES[place / PARTS]` is the largest number of reruns per iteration;
    /// the remainder `place % PARTS` interpolates between the number of carries for that entry and for the next.
    place: usize,
    /// The fraction of the iterations of an outermost loop, counted from its last, that save their residuals; in
    /// units of 1 / [`SHARES`].
    share: usize,
    /// A lower bound on the reruns per iteration of loops with a dynamic trip count: such a loop gets no more carries
    /// than suffice for this number.
    least: usize,
}

impl SearchPoint {
    /// Estimates how often an iteration runs forward in all. If the iterations of each loop level run k times, the
    /// iterations of the innermost loops run k to the power of the number of levels.
    fn iterations(self, module: &Module, f: FuncId) -> f64 {
        (1.0 + self.reruns(module, f)).powi(self.level as i32 + 1)
    }

    /// Estimates the reruns per iteration of an outermost loop; returns the largest estimate of these loops.
    fn reruns(self, module: &Module, f: FuncId) -> f64 {
        let loops = module.function(f).equations.iter().filter_map(|e| e.op.as_loop());
        let reruns = |(_, spec): (FuncId, LoopSpec)| {
            let (blocks, _) = self.blocks(&spec.trip);
            steps(blocks, self.carries(blocks, &spec.trip)) as f64 / blocks.max(1) as f64
        };
        let kept = self.share as f64 / SHARES as f64;
        loops.map(reruns).fold(0.0, f64::max) * (1.0 - kept)
    }

    /// Returns how many iterations of a loop, counted from the last, save their residuals; 0 for a dynamic trip
    /// count.
    fn last(self, trip: &TripCount) -> usize {
        match *trip {
            TripCount::Static(n) => n * self.share / SHARES,
            TripCount::Runtime | TripCount::While { .. } => 0,
        }
    }

    /// Returns the number of blocks of a loop, and the number of iterations per block. Blocks are longer than
    /// one iteration only in the innermost loops that save carries, if the trip count is static and large
    /// enough for two blocks.
    fn blocks(self, trip: &TripCount) -> (usize, usize) {
        let TripCount::Static(n) = *trip else { return (SOME_ITERATIONS, 1) };
        let n = n - self.last(trip);
        if self.level == 0 && n >= 2 * self.block { (n / self.block, self.block) } else { (n, 1) }
    }

    /// Returns the number of saved carries of a loop with `iterations` blocks. Memory for saved carries is allocated
    /// before the first iteration. So a loop with a dynamic trip count gets no more carries than suffice for
    /// `self.least` reruns per iteration. Otherwise even a short loop would use up a generous budget.
    fn carries(self, iterations: usize, trip: &TripCount) -> usize {
        let least = match trip {
            TripCount::Static(_) => 1,
            TripCount::Runtime | TripCount::While { .. } => self.least,
        };
        let (row, part) = (self.place / PARTS, self.place % PARTS);
        let many = carries(iterations, TIMES[row].max(least));
        match TIMES.get(row + 1) {
            Some(next) if part > 0 => {
                let few = carries(iterations, *next.max(&least)) as f64;
                let between = many as f64 * (few / many as f64).powf(part as f64 / PARTS as f64);
                between.round() as usize
            }
            _ => many,
        }
    }
}

/// The search for the cheapest plan of `f` whose tape has at most `bytes` bytes.
struct Search<'a> {
    regions: &'a mut dyn Regions,
    module: &'a mut Module,
    f: FuncId,
    active: &'a [bool],
    shares: &'a [Amortization],
    bytes: u64,
    /// Whether `f` is itself a derivative of a function that was planned within the budget.
    derived: bool,
    /// Under the plan tried last: the bytes of stacks (a stack is one residual of all iterations) that lie in memory
    /// unpacked until their loop ends.
    waits: u64,
    /// The smallest tape of all plans tried so far.
    least: Option<Tape>,
    /// The plan that has the tape `least`.
    smallest: Option<LinearizeOf>,
}

impl Search<'_> {
    /// Plans `f` with residuals packed in as few bits as possible. Returns the plan in which blocks of iterations
    /// share words if its tape fits the budget, else the plan in which each iteration has words of its own.
    fn packed(&mut self, f: FuncId, policy: Policy) -> Result<Option<LinearizeOf>, Problem> {
        let policies = [policy];
        let whole = self.attempt(f, &policies, Bits::Few)?;
        if self.waits == 0 {
            return Ok(whole);
        }
        let blocks = in_blocks(self.module, f)?;
        Ok(self.attempt(blocks, &policies, Bits::Few)?.or(whole))
    }

    /// Plans `f` with loops that save some of their carries, so that iterations are rerun as rarely as the budget
    /// allows. Returns the estimated runs per iteration with the plan.
    fn fewest(&mut self, f: FuncId) -> Result<Option<(f64, LinearizeOf)>, Problem> {
        let mut best: Option<(f64, SearchPoint, LinearizeOf)> = None;
        let least = if self.derived { LEAST_OF_DERIVED } else { LEAST };
        for (level, block) in (0..levels(self.module, f)).flat_map(|l| BLOCKS.map(|b| (l, b))) {
            let last = TIMES.len() - 1;
            let at = |place: usize| SearchPoint { level, place, block, share: 0, least };
            if !has_known_iterations(self.module, f, level) {
                // Only loops with a static trip count can run in blocks of more than one iteration.
                if block > 1 {
                    continue;
                }
                // If no loop has a static trip count, the last iterations cannot save their residuals, because their
                // number is not known. So no other plan has fewer reruns.
                if let (0, Some(of)) = (level, self.loops(f, at(0))?) {
                    return Ok(Some((at(0).iterations(self.module, f), of)));
                }
            }
            let Some(mut found) = self.loops(f, at(last * PARTS))? else { continue };
            let (mut low, mut high) = (0, last * PARTS);
            while low < high {
                let middle = (low + high) / 2;
                match self.loops(f, at(middle))? {
                    Some(of) => (found, high) = (of, middle),
                    None => low = middle + 1,
                }
            }
            let iterations = at(high).iterations(self.module, f);
            if best.as_ref().is_none_or(|(least, ..)| iterations < *least) {
                best = Some((iterations, at(high), found));
            }
        }
        let Some((iterations, point, found)) = best else { return Ok(None) };
        // If all carries fit, spend the rest of the budget on residuals of the last iterations.
        if point.place > 0 {
            Ok(Some((iterations, found)))
        } else {
            self.ending(f, point, found).map(Some)
        }
    }

    /// Improves the plan `found`: as many last iterations as the budget allows save their residuals, with the block
    /// size for which that number is largest. Returns the estimated runs per iteration with the improved plan.
    fn ending(
        &mut self,
        f: FuncId,
        point: SearchPoint,
        found: LinearizeOf,
    ) -> Result<(f64, LinearizeOf), Problem> {
        let mut best = (point, found);
        for block in BLOCKS {
            let (mut low, mut high) = (best.0.share, SHARES);
            let mut share = low + 1;
            while low + 1 < high {
                let at = SearchPoint { block, share, ..point };
                match self.loops(f, at)? {
                    Some(of) => (best, low) = ((at, of), share),
                    // If the next larger share does not fit, the current share is the largest for this block size.
                    None if low + 1 == share => break,
                    None => high = share,
                }
                share = usize::midpoint(low, high);
            }
        }
        let (point, found) = best;
        Ok((point.iterations(self.module, f), found))
    }

    /// Plans `f` with loops that save the number of carries that `point` selects; returns the plan if its tape fits
    /// the budget.
    fn loops(&mut self, f: FuncId, point: SearchPoint) -> Result<Option<LinearizeOf>, Problem> {
        let f = marked(self.module, f, point)?;
        self.attempt(f, &[Policy::Planned, Policy::Bytes(self.bytes)], Bits::Few)
    }

    /// Plans `f` under each of the policies in turn, with residuals packed as `bits` says; returns the first plan
    /// whose tape fits the budget.
    fn attempt(
        &mut self,
        f: FuncId,
        policies: &[Policy],
        bits: Bits,
    ) -> Result<Option<LinearizeOf>, Problem> {
        let shares: Vec<Amortization> =
            self.shares.iter().map(|share| share.in_bits(bits)).collect();
        let all = self.regions.linearize(self.module, f, self.active, &[], &shares)?;
        for policy in policies {
            let planned = *policy == Policy::Planned;
            let terms = PlanRequest { bits, ..PlanRequest::call(policy.clone()) };
            let mut of = self.regions.plan(self.module, all.clone(), terms)?;
            if planned && !self.everything_fits(&of) {
                of = apart(self.module, of, true)?;
            }
            // A stack that is packed as a whole is in memory in unpacked form until it is packed, and again from its
            // unpacking to its last read.
            let late = !planted(Fault::LateBits);
            self.waits = if late { unpacked_bytes(self.module, of.fwd) } else { 0 };
            let tape = match tape_size::tape_of(self.module, &of) {
                Tape::Bytes(bytes) => Tape::Bytes(bytes.saturating_add(self.waits)),
                Tape::Unbounded(at) => Tape::Unbounded(at),
            };
            let smaller = match (self.least, tape) {
                (Some(Tape::Bytes(least)), Tape::Bytes(bytes)) => bytes < least,
                (None | Some(Tape::Unbounded(_)), Tape::Bytes(_)) | (None, Tape::Unbounded(_)) => {
                    true
                }
                (Some(_), Tape::Unbounded(_)) => false,
            };
            if smaller {
                (self.least, self.smallest) = (Some(tape), Some(of.clone()));
            }
            let enough = match tape {
                Tape::Bytes(bytes) => bytes <= self.bytes,
                // A dynamic tape fits an unlimited budget only, since the size of the tape is not known.
                Tape::Unbounded(_) => self.bytes == u64::MAX,
            };
            if enough {
                return Ok(Some(of));
            }
        }
        Ok(None)
    }

    /// Returns whether all values of the forward function and the tape together fit the budget. If so, the linear
    /// function need not be isolated from the forward function: any values that the reverse pass reads fit, and
    /// barriers would only force values into memory.
    fn everything_fits(&self, of: &LinearizeOf) -> bool {
        let f = self.module.function(of.fwd);
        // The sum below counts the outputs of the equations of the forward function, but no values inside called
        // functions. So it is complete only without calls.
        let whole = f.equations.iter().all(|e| e.op.opened(Role::is_call).is_none());
        let bytes = |ty: &Type| ty.as_array().map_or(u64::MAX, |ty| ty.bytes() as u64);
        let made = f.equations.iter().flat_map(|e| &e.outputs).map(|o| bytes(&f.types[*o]));
        let made = made.fold(0u64, u64::saturating_add);
        match tape_size::tape_of(self.module, of) {
            Tape::Bytes(tape) => whole && made.saturating_add(tape) <= self.bytes,
            // A dynamic tape fits an unlimited budget only, since the size of the tape is not known.
            Tape::Unbounded(_) => self.bytes == u64::MAX,
        }
    }

    /// Returns a text that lists the largest residuals of the smallest plan; empty if there is no plan.
    fn largest(&self) -> String {
        self.smallest.as_ref().map_or(String::new(), |of| tape_size::largest(self.module, of))
    }

    /// If an iteration reads the result of a Rust function, returns the explanation, for an error message, that the
    /// residuals of such iterations must be saved; else an empty text.
    fn host_call_note(&self) -> String {
        let f = self.module.function(self.f);
        let mut loops = f.equations.iter().filter_map(|e| e.op.as_loop());
        let Some(at) = loops.find_map(|(body, _)| called(self.module, body)) else {
            return String::new();
        };
        let (file, line) = (at.file(), at.line());
        format!(
            "; iterations that call Rust functions, as at {file}:{line}, are not recomputed, so \
             their residuals are saved"
        )
    }

    fn refused(&self) -> Problem {
        let name = &self.module.function(self.f).name;
        match self.least {
            Some(Tape::Unbounded(at)) => Problem::new(
                Kind::Budget,
                "the trip count of this loop is not known before the run, and its residuals cannot be recomputed",
                // If no Rust function is called, then a loop reads the records (one iteration's residuals each) of
                // another loop, as the linear loops of a derivative rule do.
                match called(self.module, self.f).is_some() {
                    true => "Rust functions are called once: move the call out of the loop, or the \
                             loop out of the checkpoint",
                    false => {
                        "move the loop out of the checkpoint, or give it a static trip count; if a \
                         derivative is taken inside, allow more bytes: its loops may use a third \
                         of them"
                    }
                },
            )
            .at(at),
            Some(Tape::Bytes(least)) => Problem::new(
                Kind::Budget,
                format!("the tape of `{name}` takes at least {least} bytes, and may have {}", self.bytes),
                format!("allow that many bytes, or checkpoint a smaller piece; {}{}", self.largest(), self.host_call_note()),
            ),
            None => Problem::internal("a budget without a plan"),
        }
    }
}

/// Returns the source line of an equation of `f`, or of a function that `f` runs, that reads the result of a Rust
/// function.
fn called(module: &Module, f: FuncId) -> Loc {
    if !module.runs_outside(f) {
        return None;
    }
    let f = module.function(f);
    f.equations.iter().enumerate().find_map(|(i, e)| {
        if e.op.host().is_some() && !e.outputs.is_empty() {
            return f.location(i);
        }
        let regions = e.op.regions();
        let mut run = regions.iter().filter(|r| r.role.runs());
        run.find_map(|r| deeper(|| called(module, r.function)))
    })
}

/// Returns the number of levels of nested loops in `f`, at most `DEEPEST`.
fn levels(module: &Module, f: FuncId) -> usize {
    let (mut deepest, mut seen, mut open) = (0, OrderedSet::default(), vec![(f, 0)]);
    while let Some((f, above)) = open.pop() {
        if !seen.insert((f, above)) {
            continue;
        }
        deepest = deepest.max(above);
        for region in module.function(f).equations.iter().flat_map(|e| e.op.regions()) {
            let level = above + usize::from(region.role == Role::Iteration);
            if region.role.runs() && level < DEEPEST {
                open.push((region.function, level));
            }
        }
    }
    deepest
}

/// Returns whether some loop at most `level` levels below the outermost loop has a static trip count.
fn has_known_iterations(module: &Module, f: FuncId, level: usize) -> bool {
    let mut open: OrderedSet<(FuncId, usize)> = OrderedSet::default();
    open.insert((f, level));
    let mut next = 0;
    while let Some((f, level)) = open.get_index(next).copied() {
        next += 1;
        for e in &module.function(f).equations {
            let trip = e.op.as_loop().map(|(_, spec)| spec.trip);
            if matches!(trip, Some(TripCount::Static(_))) {
                return true;
            }
            if let Some(level) = level.checked_sub(usize::from(trip.is_some())) {
                open.extend(e.runs().map(|g| (g, level)));
            }
        }
    }
    false
}

/// Returns a copy of `f` in which each loop has the number of saved carries that `point` selects.
fn marked(module: &mut Module, f: FuncId, point: SearchPoint) -> Result<FuncId, Problem> {
    let f = module.get(f);
    if f.equations.iter().all(|e| e.op.regions().is_empty()) {
        return module.add((*f).clone());
    }
    let copy = rebuild(&f, |draft, i, operands| {
        let mut op = f.equations[i].op.clone();
        let regions = op.regions();
        let trip = op.as_loop().map(|(_, spec)| spec.trip);
        let inside = point.level.checked_sub(usize::from(trip.is_some()));
        if let (Some(level), true) = (inside, regions.iter().any(|r| r.role.runs())) {
            let share = if trip.is_some() { 0 } else { point.share };
            let point = SearchPoint { level, share, ..point };
            op = op.with_runs(|inside| deeper(|| marked(module, inside, point)))?;
        }
        let Some(trip) = trip else { return Ok(draft.copy_as(op, &f, i, operands)) };
        let (blocks, block) = point.blocks(&trip);
        let b = Builder::new(module, draft);
        b.at(f.origin(i));
        let keeps = CheckpointPlan {
            carries: point.carries(blocks, &trip),
            block,
            last: point.last(&trip),
        };
        Ok(op.emit_checkpointed(&b, &operands, keeps).into())
    })?;
    module.add(copy)
}

/// Returns the smallest number of saved carries with which a loop of `iterations` iterations can be reversed so
/// that each iteration is rerun at most `times` times.
fn carries(iterations: usize, times: usize) -> usize {
    if times == usize::MAX {
        return 1;
    }
    let (mut low, mut high) = (1, iterations.max(1));
    while low < high {
        let middle = low + (high - low) / 2;
        match reach(middle, times) >= iterations {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}
