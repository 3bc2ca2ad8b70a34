//! Budgets: of the plans of a function the cheapest whose tape has so many bytes at most.
//!
//! What counts is alive between the forward pass and the way back: kept values, carries of loops, what the iterations
//! of inner loops keep while an outer iteration is undone, and what is packed of all iterations at once, as large as it was
//! before. Arguments and results do not count, nor
//! does what one iteration of an innermost loop works in.
//!
//! Plans are tried from the cheapest on:
//!
//! | | loops | other values |
//! |---|---|---|
//! | as planned | keep what each iteration needs | what is cheaper to keep |
//! | packed | the same, in as few bits as it has, in blocks of iterations whose bits share words if those of one do not | the same, or as few bytes as can be |
//! | dear kept | the same | what contractions and library routines give |
//! | in pieces ([`segments`](super::segments)) | the same | what crosses cuts |
//! | outer loops keep carries | as many as let each iteration run `r` times at most, by the binomial schedule ([`tapeloom_ir::revolve`]) | the same, or as few bytes as can be |
//! | loops in their iterations, too | the same, one level deeper | the same, or what crosses cuts |
//!
//! Where all carries fit, the last iterations of the outermost loops keep what they need, as many as there is room for:
//! they are undone first, and run once.
//!
//! A carry is kept for an iteration or for a block of them, whose iterations keep what they need while the block is
//! undone. For a level and a size of blocks the least `r` is found by bisection, since more repetitions never take more bytes. Which
//! level is best is a matter of iterations run: a level more multiplies them.
//!
//! Models: Griewank and Walther, "Revolve" (2000), whose schedules these are; Checkmate (Jain et al., MLSys
//! 2020), which plans straight-line programs within a budget.

use super::isolate::apart;
use super::segments;
use super::strip_mine::{in_blocks, waiting};
use super::tape_size::{self, Tape};
use crate::pipeline::BEFORE_BUDGET;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::lang::query::{LinearizeOf, Within};
use tapeloom_ir::prim::{Keeps, LoopSpec, Regions, Role, TripCount};
use tapeloom_ir::revolve::{reach, steps};
use tapeloom_ir::{
    Amortization, Bits, Builder, FuncId, Kind, Loc, Module, OrderedSet, PlanRequest, Policy,
    Problem, Type, deeper, rebuild,
};

/// How often iterations may run again, in the order in which that is tried.
const TIMES: [usize; 14] = [1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 25, 50, 100, usize::MAX];

/// How many numbers of carries are tried between two times.
const PARTS: usize = 16;

/// How many iterations a carry is kept for, in the order in which that is tried.
const BLOCKS: [usize; 6] = [1, 4, 16, 64, 256, 1024];

/// In how many parts all iterations are, of which the last are kept.
const SHARES: usize = 64;

/// How many times as many iterations may run, so that straight code beside loops is undone in pieces.
const MORE: f64 = 1.5;

/// How many iterations a loop is taken to have, of which only the run knows.
const SOME_ITERATIONS: usize = 100_000;

/// How often iterations may run again at least, where only the run knows how many there are.
const LEAST: usize = 2;

/// The same in derivatives of derivatives, whose loops carry the places of those that they undo: what is there before
/// the first iteration is a product.
const LEAST_OF_DERIVED: usize = 4;

/// How deep loops within loops are told what to keep.
const DEEPEST: usize = 6;

/// The derivative of a function with a tape of `bytes` at most.
pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: FuncId,
    Within { active, shares, policy }: &Within,
    bytes: u64,
) -> Result<LinearizeOf, Problem> {
    let f = BEFORE_BUDGET.run_with(regions, module, f, &mut |_, _, _| {})?;
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
    // Straight code between loops, all of which is computed again, is so in pieces, where iterations do not run much
    // more often for it.
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

/// How many carries loops keep.
#[derive(Clone, Copy)]
struct Few {
    /// The loops of so many levels below the outermost do.
    level: usize,
    /// One for each block of so many iterations.
    block: usize,
    /// As many as let iterations run again as often as that place in the table of times says, in parts: between
    /// two times the number of carries is between.
    place: usize,
    /// So many of [`SHARES`] of the iterations of the outermost loops keep what they need, the last ones.
    share: usize,
    /// Where only the run knows how many iterations there are, carries are few enough for iterations to run so often again.
    least: usize,
}

impl Few {
    /// About how often iterations run. Who runs each iteration so often more at every level runs it that often to the power
    /// of levels.
    fn iterations(self, module: &Module, f: FuncId) -> f64 {
        (1.0 + self.again(module, f)).powi(self.level as i32 + 1)
    }

    /// How often iterations of the outermost loops run again, at most.
    fn again(self, module: &Module, f: FuncId) -> f64 {
        let loops = module.function(f).equations.iter().filter_map(|e| e.op.as_loop());
        let again = |(_, spec): (FuncId, LoopSpec)| {
            let (blocks, _) = self.blocks(&spec.trip);
            steps(blocks, self.carries(blocks, &spec.trip)) as f64 / blocks.max(1) as f64
        };
        let kept = self.share as f64 / SHARES as f64;
        loops.map(again).fold(0.0, f64::max) * (1.0 - kept)
    }

    /// How many of the last iterations of a loop keep what they need.
    fn last(self, trip: &TripCount) -> usize {
        match *trip {
            TripCount::Static(n) => n * self.share / SHARES,
            TripCount::Runtime | TripCount::While { .. } => 0,
        }
    }

    /// How many blocks a loop has, and of how many iterations: more than one only in the innermost loops that
    /// keep carries, where it is known how many iterations there are, and enough for two blocks.
    fn blocks(self, trip: &TripCount) -> (usize, usize) {
        let TripCount::Static(n) = *trip else { return (SOME_ITERATIONS, 1) };
        let n = n - self.last(trip);
        if self.level == 0 && n >= 2 * self.block { (n / self.block, self.block) } else { (n, 1) }
    }

    /// The carries of a loop with so many blocks. Places for them are there before the first iteration, so a loop
    /// of which only the run knows the iterations has no more than let iterations run [`LEAST`] times again: else a generous
    /// budget would be taken whole, whatever the run needs.
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

/// The search for a plan.
struct Search<'a> {
    regions: &'a mut dyn Regions,
    module: &'a mut Module,
    f: FuncId,
    active: &'a [bool],
    shares: &'a [Amortization],
    bytes: u64,
    /// Whether this is the derivative of one that was within the budget.
    derived: bool,
    /// Bytes that would have waited to be packed under the last plan that was tried.
    waits: u64,
    /// The smallest tape so far, and its plan.
    least: Option<Tape>,
    smallest: Option<LinearizeOf>,
}

impl Search<'_> {
    /// The derivative with what is kept in as few bits as it has, by iterations or blocks of iterations if that fits as well.
    fn packed(&mut self, f: FuncId, policy: Policy) -> Result<Option<LinearizeOf>, Problem> {
        let policies = [policy];
        let whole = self.attempt(f, &policies, Bits::Few)?;
        if self.waits == 0 {
            return Ok(whole);
        }
        let blocks = in_blocks(self.module, f)?;
        Ok(self.attempt(blocks, &policies, Bits::Few)?.or(whole))
    }

    /// The derivative of what does the same whose loops keep some carries, such that iterations run as rarely as can be,
    /// and about how often they run.
    fn fewest(&mut self, f: FuncId) -> Result<Option<(f64, LinearizeOf)>, Problem> {
        let mut best: Option<(f64, Few, LinearizeOf)> = None;
        let least = if self.derived { LEAST_OF_DERIVED } else { LEAST };
        for (level, block) in (0..levels(self.module, f)).flat_map(|l| BLOCKS.map(|b| (l, b))) {
            let last = TIMES.len() - 1;
            let at = |place: usize| Few { level, place, block, share: 0, least };
            if !has_known_iterations(self.module, f, level) {
                // Blocks are of loops of which it is known how many iterations there are.
                if block > 1 {
                    continue;
                }
                // Nor do the last iterations of others keep what they need, so nothing runs iterations more rarely.
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
        let Some((iterations, few, found)) = best else { return Ok(None) };
        // Where all carries fit there may be room for more.
        if few.place > 0 {
            Ok(Some((iterations, found)))
        } else {
            self.ending(f, few, found).map(Some)
        }
    }

    /// The same with as many of the last iterations keeping what they need as there is room for, and about how often iterations
    /// run. Of blocks that leave room for more of them, those.
    fn ending(
        &mut self,
        f: FuncId,
        few: Few,
        found: LinearizeOf,
    ) -> Result<(f64, LinearizeOf), Problem> {
        let mut best = (few, found);
        for block in BLOCKS {
            let (mut low, mut high) = (best.0.share, SHARES);
            let mut share = low + 1;
            while low + 1 < high {
                let at = Few { block, share, ..few };
                match self.loops(f, at)? {
                    Some(of) => (best, low) = ((at, of), share),
                    // One that is no better than what there is.
                    None if low + 1 == share => break,
                    None => high = share,
                }
                share = usize::midpoint(low, high);
            }
        }
        let (few, found) = best;
        Ok((few.iterations(self.module, f), found))
    }

    /// The derivative with loops keeping so many carries, if its tape is small enough.
    fn loops(&mut self, f: FuncId, few: Few) -> Result<Option<LinearizeOf>, Problem> {
        let f = marked(self.module, f, few)?;
        self.attempt(f, &[Policy::Planned, Policy::Bytes(self.bytes)], Bits::Few)
    }

    /// The derivative of what does the same, if its tape is small enough under one of the policies, with
    /// what is kept in so many bits.
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
            if planned && !self.ample(&of) {
                of = apart(self.module, of, true)?;
            }
            // What is packed of all iterations at once, and unpacked, is there as it was meanwhile.
            let late = !planted(Fault::LateBits);
            self.waits = if late { waiting(self.module, of.fwd) } else { 0 };
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
                // As many as one likes.
                Tape::Unbounded(_) => self.bytes == u64::MAX,
            };
            if enough {
                return Ok(Some(of));
            }
        }
        Ok(None)
    }

    /// Whether all that the forward half makes has room together with what the way back records. Then whatever of it
    /// is read there is within the budget, and a mark would only hold what need not be in memory at all.
    fn ample(&self, of: &LinearizeOf) -> bool {
        let f = self.module.function(of.fwd);
        // Inside of a call there may be more.
        let whole = f.equations.iter().all(|e| e.op.opened(Role::is_call).is_none());
        let bytes = |ty: &Type| ty.as_array().map_or(u64::MAX, |ty| ty.bytes() as u64);
        let made = f.equations.iter().flat_map(|e| &e.outputs).map(|o| bytes(&f.types[*o]));
        let made = made.fold(0u64, u64::saturating_add);
        match tape_size::tape_of(self.module, of) {
            Tape::Bytes(tape) => whole && made.saturating_add(tape) <= self.bytes,
            // As many as one likes.
            Tape::Unbounded(_) => self.bytes == u64::MAX,
        }
    }

    /// What the smallest plan keeps.
    fn largest(&self) -> String {
        self.smallest.as_ref().map_or(String::new(), |of| tape_size::largest(self.module, of))
    }

    /// Where an iteration takes what Rust gives, which is why all iterations are kept.
    fn once(&self) -> String {
        let f = self.module.function(self.f);
        let mut loops = f.equations.iter().filter_map(|e| e.op.as_loop());
        let Some(at) = loops.find_map(|(body, _)| called(self.module, body)) else {
            return String::new();
        };
        let (file, line) = (at.file(), at.line());
        format!(
            "; iterations that call Rust, as at {file}:{line}, run once, and what they need is kept"
        )
    }

    fn refused(&self) -> Problem {
        let name = &self.module.function(self.f).name;
        match self.least {
            Some(Tape::Unbounded(at)) => Problem::new(
                Kind::Budget,
                "how many iterations this loop has only the run knows, and what they keep cannot be made again",
                // Else a loop reads what another one keeps, as the linear loops of a rule do.
                match called(self.module, self.f).is_some() {
                    true => "Rust is called once: take that out of the loop, or the loop out of the checkpoint",
                    false => {
                        "take the loop out of the checkpoint, or say how many iterations it has; if a derivative is taken \
                         inside, allow more bytes: its loops have a third of them"
                    }
                },
            )
            .at(at),
            Some(Tape::Bytes(least)) => Problem::new(
                Kind::Budget,
                format!("the tape of `{name}` takes at least {least} bytes, and may have {}", self.bytes),
                format!("allow as many, or checkpoint a smaller piece; {}{}", self.largest(), self.once()),
            ),
            None => Problem::internal("a budget without a plan"),
        }
    }
}

/// The line at which a function takes what Rust gives.
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

/// How many levels of loops a function has.
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

/// Whether it is known how many iterations there are of some loop that is no more levels below the outermost.
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

/// The same function, of whose loops reverse mode keeps so many carries.
fn marked(module: &mut Module, f: FuncId, few: Few) -> Result<FuncId, Problem> {
    let f = module.get(f);
    if f.equations.iter().all(|e| e.op.regions().is_empty()) {
        return module.add((*f).clone());
    }
    let copy = rebuild(&f, |draft, i, operands| {
        let mut op = f.equations[i].op.clone();
        let regions = op.regions();
        let trip = op.as_loop().map(|(_, spec)| spec.trip);
        let inside = few.level.checked_sub(usize::from(trip.is_some()));
        if let (Some(level), true) = (inside, regions.iter().any(|r| r.role.runs())) {
            let share = if trip.is_some() { 0 } else { few.share };
            let few = Few { level, share, ..few };
            op = op.with_runs(|inside| deeper(|| marked(module, inside, few)))?;
        }
        let Some(trip) = trip else { return Ok(draft.copy_as(op, &f, i, operands)) };
        let (blocks, block) = few.blocks(&trip);
        let b = Builder::new(module, draft);
        b.at(f.origin(i));
        let keeps = Keeps { carries: few.carries(blocks, &trip), block, last: few.last(&trip) };
        Ok(op.emit_keeping(&b, &operands, keeps).into())
    })?;
    module.add(copy)
}

/// The fewest carries with which iterations can be undone that run so often again at most.
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
