//! Straight-line code within a budget, also before and after loops: segments that are reversed one after the other.
//!
//! ```text
//! x -> f1 -> y1 -> f2 -> y2 -> f3 -> y3 -> f4 -> y          saved: y1, y2 and the residuals of the last piece
//!      `call{checkpoint=nothing}`          saved
//! ```
//!
//! If the reverse pass recomputed the whole function at once, all recomputed values would be in memory at once. So the
//! function is cut into pieces, and becomes calls of these pieces: values that cross the cuts are saved, and while a
//! piece is reversed, only that piece's recomputed values are in memory. As many pieces as the budget allows save their
//! residuals instead: the last ones, since they are reversed first.
//!
//! The memory of a value is estimated: results of contractions, reductions and similar equations and operands of
//! contractions are in memory; results of other arithmetic are computed where they are read. Whether a plan meets its
//! budget is not estimated, but counted after the plan has been made.
//!
//! Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost" (2016).

use crate::ad::transpose::reads_late;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::analysis::placement::Placement;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Lowering, Role};
use tapeloom_ir::{
    Atom, Builder, Draft, Equation, FuncId, Function, Module, Op, OrderedMap, OrderedSet, Policy,
    Problem, ValueId, ValueRemap,
};

/// The largest number of segments into which a function is cut, to recompute them one by one in the reverse pass.
const MOST_PIECES: usize = 64;

/// The largest number of plans (choices of cuts) that `plans` returns; the caller tries each.
const TRIED: usize = 8;

/// A plan that cuts the equations of a function into consecutive pieces, which the reverse pass recomputes one at a
/// time: the cuts, and the number of recomputed pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pieces {
    /// The indices of the equations before which the function is cut, in ascending order.
    cuts: Vec<usize>,
    /// The number of pieces of the function, from the first on, that the reverse pass recomputes. Later pieces save
    /// their residuals.
    recomputed: usize,
}

/// The estimated memory of a plan (a choice of cuts), in bytes.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// Bytes that are alive between the forward and the reverse pass: values that cross cuts, and saved residuals.
    tape: u64,
    /// The largest number of bytes alive during the reverse pass: `tape`, and the recomputed values of the largest
    /// piece of the function.
    peak: u64,
    /// The bytes of all recomputed values, as the measure of the amount of recomputation.
    recomputed: u64,
}

/// Returns plans that cut `f` into pieces with a tape of at most `bytes` bytes, the best first: first those that
/// need at most `peak` bytes in the reverse pass, by rising amount of recomputation; then the others, by rising
/// need of memory. Returns no plans if recomputing the whole function at once takes no more memory. Equations that
/// run functions belong to no piece.
pub(super) fn plans(module: &Module, f: &Function, bytes: u64, peak: u64) -> Vec<Pieces> {
    if !f.linear_params.is_empty() {
        return Vec::new();
    }
    let code = Code::of(module, f);
    let heavy = code.before.windows(2).filter(|at| at[0] < at[1]).count();
    let whole = code.whole();
    let mut all: Vec<(Estimate, Pieces)> = Vec::new();
    for n in 2..=MOST_PIECES.min(heavy) {
        let cuts = code.cuts(n);
        for (of, recomputed) in code.estimates(&cuts).into_iter().zip(1..) {
            if of.tape <= bytes && of.peak < whole {
                all.push((of, Pieces { cuts: cuts.clone(), recomputed }));
            }
        }
    }
    let over = |of: &Estimate| of.peak.saturating_sub(peak);
    all.sort_by_key(|(of, _)| (over(of), of.recomputed, of.peak));
    all.into_iter().map(|(_, pieces)| pieces).take(TRIED).collect()
}

/// The estimated bytes of a function's values and equations, on which plans depend.
struct Code {
    /// Per equation: the bytes of all equations before it, as far as their outputs would be in memory if they were
    /// recomputed.
    before: Vec<u64>,
    /// Per value that is read: its bytes, and the indices of the equation that defines it and of its last reader.
    spans: Vec<(u64, usize, usize)>,
    /// Per equation: the bytes of values defined before it and read by it or by a later equation.
    crossing: Vec<u64>,
}

/// Returns whether an equation runs functions that cannot be replaced by their equations: a checkpoint, a branch, a
/// loop. A function with derivative rules can be replaced by its equations.
fn runs(e: &Equation) -> bool {
    e.op.regions().iter().any(|r| !matches!(r.role, Role::Ruled | Role::Rule))
}

/// Returns, per equation, the bytes that its outputs take in memory if the equation is recomputed; 0 if the readers of
/// the outputs compute them in place.
fn sizes(module: &Module, f: &Function) -> Vec<u64> {
    let lowered: Vec<Lowering> = f.equations.iter().map(|e| e.lower(module, f)).collect();
    let mut read: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    for (e, lowering) in f.equations.iter().zip(&lowered) {
        if matches!(lowering, Lowering::Contract { .. }) {
            e.operands.iter().filter_map(|a| a.value()).for_each(|v| read[v] = true);
        }
    }
    let size = |(i, lowering): (usize, &Lowering)| {
        let outputs = &f.equations[i].outputs;
        let inside = match lowering {
            Lowering::Call(g) if !runs(&f.equations[i]) => {
                sizes(module, &module.get(*g)).into_iter().fold(0u64, u64::saturating_add)
            }
            _ => 0,
        };
        let in_place = match Placement::of(lowering) {
            Placement::View => true,
            Placement::Map => !outputs.iter().any(|o| read[*o]),
            Placement::Element | Placement::Reduction | Placement::Memory => false,
            // An equation that runs functions (a loop, branch or call) belongs to no piece of the function and counts 0
            // bytes. The exception is a call of a function with rules, whose result is in memory if a contraction reads
            // it.
            Placement::Runs => runs(&f.equations[i]) || !outputs.iter().any(|o| read[*o]),
        };
        inside + if in_place { 0 } else { outputs.iter().map(|o| bytes(f, *o)).sum::<u64>() }
    };
    lowered.iter().enumerate().map(size).collect()
}

fn bytes(f: &Function, v: ValueId) -> u64 {
    f.types[v].as_array().map_or(0, |ty| ty.bytes() as u64)
}

impl Code {
    fn of(module: &Module, f: &Function) -> Code {
        let mut last: SecondaryMap<ValueId, usize> = SecondaryMap::with_capacity(f.types.len());
        for (i, e) in f.equations.iter().enumerate() {
            e.operands.iter().filter_map(|a| a.value()).for_each(|v| last[v] = i);
        }
        let made = f.equations.iter().enumerate();
        let made = made.flat_map(|(i, e)| e.outputs.iter().map(move |o| (*o, i)));
        let spans = made.map(|(v, i)| (bytes(f, v), i, last[v])).filter(|(_, i, last)| last > i);
        let spans: Vec<_> = spans.collect();
        let mut change = vec![0i128; f.equations.len() + 1];
        for (bytes, made, last) in &spans {
            change[made + 1] += i128::from(*bytes);
            change[last + 1] -= i128::from(*bytes);
        }
        let alive = change.iter().scan(0, |all, by| {
            *all += by;
            u64::try_from(*all).ok()
        });
        let sums = sizes(module, f).into_iter().scan(0u64, |all, size| {
            *all = all.saturating_add(size);
            Some(*all)
        });
        Code { before: [0].into_iter().chain(sums).collect(), crossing: alive.collect(), spans }
    }

    /// Returns the bytes that all equations take in memory if all are recomputed at once.
    fn whole(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// Cuts a function into `n` pieces of about equal bytes, and returns the indices of the equations at which all
    /// pieces but the first begin. Near each multiple of a piece's bytes, the cut is placed where the fewest bytes are
    /// live.
    fn cuts(&self, n: usize) -> Vec<usize> {
        let piece = (self.whole() / n as u64).max(1);
        let (mut end, mut cuts) = (piece, Vec::new());
        // The equations whose distance from the boundary `end` is at most a quarter of a piece's bytes.
        let mut near: Vec<usize> = Vec::new();
        for (i, sums) in self.before.windows(2).enumerate() {
            if i > 0 && sums[0] >= end - piece / 4 {
                near.push(i);
            }
            let at = sums[1];
            if at > end.saturating_add(piece / 4) {
                cuts.extend(near.drain(..).min_by_key(|i| self.crossing[*i]));
                while end.saturating_add(piece / 4) < at {
                    end = end.saturating_add(piece);
                }
            }
        }
        cuts
    }

    /// Estimates, for these cuts, the plans in which the first 1, 2, .., all pieces are recomputed.
    fn estimates(&self, cuts: &[usize]) -> Vec<Estimate> {
        // Per cut: the bytes of the values that cross this cut and no earlier cut. A value that crosses several cuts is
        // saved once.
        let mut crossing = vec![0u64; cuts.len() + 1];
        for (bytes, made, last) in &self.spans {
            let first = cuts.partition_point(|at| at <= made);
            if cuts.get(first).is_some_and(|at| at <= last) {
                crossing[first] = crossing[first].saturating_add(*bytes);
            }
        }
        let (mut begun, mut largest, mut kept) = (0, 0, 0u64);
        let all = cuts.iter().copied().chain([self.before.len() - 1]).zip(crossing);
        let one = |(end, crossing): (usize, u64)| {
            let recomputed = self.before[end];
            largest = (recomputed - begun).max(largest);
            begun = recomputed;
            kept = kept.saturating_add(crossing);
            let tape = kept.saturating_add(self.whole() - recomputed);
            Estimate { tape, peak: tape.saturating_add(largest), recomputed }
        };
        all.map(one).collect()
    }
}

impl Pieces {
    /// Returns a copy of `f` in which each piece that the reverse pass recomputes is moved into a function of its own,
    /// called under a checkpoint.
    pub(super) fn cut(&self, module: &mut Module, f: &Function) -> Result<FuncId, Problem> {
        let end = self.cuts.get(self.recomputed - 1).copied().unwrap_or(f.equations.len());
        // The transpose adds cotangents of late reads (at dynamic indices, after another read of the array:
        // [`reads_late`]) to the array's total last. This must also hold inside a piece, since sums of floats must
        // not depend on the cuts. So such reads are in no piece, and no reader of the array is in the piece that
        // defines the array.
        let late = match planted(Fault::LatePlaces) {
            true => vec![None; f.equations.len()],
            false => reads_late(module, f, |_| true),
        };
        let arrays: OrderedSet<ValueId> = late.iter().flatten().copied().collect();
        let (mut draft, mut copying) = ValueRemap::same_signature(f);
        let mut own: Vec<usize> = Vec::new();
        // The index of the first equation that reads an array: a late read (a read at dynamic indices after another
        // read) moved before it would no longer be late.
        let first = |v: ValueId| {
            f.equations.iter().position(|e| e.operands.iter().any(|a| a.value() == Some(v)))
        };
        let firsts: OrderedMap<ValueId, usize> =
            arrays.iter().filter_map(|v| Some((*v, first(*v)?))).collect();
        for (i, e) in f.equations.iter().enumerate() {
            let there = |a: &Atom| a.value().is_none_or(|v| copying.knows(v));
            let stays =
                |array: ValueId| firsts.get(&array).is_none_or(|first| !own.contains(first));
            let before = late[i].is_some_and(stays) && e.operands.iter().all(there);
            let alone = i >= end || runs(e) || late[i].is_some();
            if alone && !before || self.cuts.contains(&i) {
                piece(module, f, &mut own, &mut draft, &mut copying)?;
            }
            if alone {
                let made = draft.copy(f, i, copying.all(&e.operands));
                copying.define(e, made);
                continue;
            }
            own.push(i);
            if e.outputs.iter().any(|o| arrays.contains(o)) {
                piece(module, f, &mut own, &mut draft, &mut copying)?;
            }
        }
        piece(module, f, &mut own, &mut draft, &mut copying)?;
        draft.finish(module, copying.results(f))
    }
}

/// Emits a call of a function that consists of the equations `own`, and clears `own`.
fn piece(
    module: &mut Module,
    f: &Function,
    own: &mut Vec<usize>,
    draft: &mut Draft,
    copying: &mut ValueRemap,
) -> Result<(), Problem> {
    let own = std::mem::take(own);
    let (Some(first), Some(last)) = (own.first().copied(), own.last().copied()) else {
        return Ok(());
    };
    let all = || own.iter().map(|i| &f.equations[*i]);
    let made: OrderedSet<ValueId> = all().flat_map(|e| e.outputs.iter().copied()).collect();
    let read: OrderedSet<ValueId> =
        all().flat_map(|e| &e.operands).filter_map(|a| a.value()).collect();
    let later = f.equations[last + 1..].iter().flat_map(|e| &e.operands).chain(&f.results);
    let later: OrderedSet<ValueId> = later.filter_map(|a| a.value()).collect();
    let params: Vec<ValueId> = read.into_iter().filter(|v| !made.contains(v)).collect();
    let results: Vec<ValueId> = made.into_iter().filter(|v| later.contains(v)).collect();

    let (mut inner, mut inside) = (Draft::new(f.name.clone()), ValueRemap::new());
    for p in &params {
        inside.bind(*p, inner.param(f.types[*p].clone()));
    }
    for i in own.iter().copied() {
        let made = inner.copy(f, i, inside.all(&f.equations[i].operands));
        inside.define(&f.equations[i], made);
    }
    let function =
        inner.finish(module, results.iter().map(|v| inside.read((*v).into())).collect())?;
    let b = Builder::new(module, draft);
    b.at(f.origin(first));
    let operands: Vec<Atom> = params.iter().map(|v| copying.read((*v).into())).collect();
    let outputs = b.emit(Op::checkpoint(function, Policy::Nothing), &operands);
    for (v, made) in results.iter().zip(&outputs) {
        copying.bind(*v, *made);
    }
    Ok(())
}
