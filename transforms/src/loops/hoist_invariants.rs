//! `hoist_invariants`: computes equations of a loop's body that read constants alone once, in front of the
//! loop.
//!
//! ```text
//! %4 = loop{body=@f, trip=9, takes=[const,carry0]} %0, %1         @f(%0, %1) = %1 + sin(%0) cos(%0)
//! ```
//! becomes
//! ```text
//! %4 = sin %0
//! %5 = cos %0
//! %6 = mul %4, %5
//! %7 = loop{body=@f, trip=9, takes=[carry0,const]} %1, %6         @f(%0, %1) = %0 + %1
//! ```
//!
//! An equation moves if reading its output in each iteration costs less than computing it in each iteration (see
//! [`Price`]). Cheap equations (views, fills, a single sum) move only along with an expensive one that reads them.
//! Parts of the condition of a `while` loop move in the same way.
//!
//! The following stay in the loop:
//!
//! * equations with an output of which all iterations together read few elements, if the trip count is static and no
//!   other loop encloses the loop: [`slice_operands`](crate::passes::slice_operands) computes these elements alone,
//!   where they are read;
//! * equations with an effect, and barriers, which fix the plan of a reverse pass;
//! * equations with a tape as output: the cotangent of a constant is a sum, and tapes cannot be added;
//! * a `while` loop, and an equation that runs one, if it would then run even though the outer loop has no
//!   iteration: it might not end;
//! * equations in a branch of `cond`: the branch may not run.
//!
//! If a loop has no iteration, the derivative of an equation in its body is not computed. In front of that loop
//! it would be multiplied by a cotangent of zero, and an infinite derivative times zero is nan. So before
//! reverse mode [`GUARDED`] runs: if a loop may have no iteration, the equations move into a branch of `cond`,
//! which runs if the loop has an iteration.
//!
//! ```text
//! %5 = gt %n, 0
//! %6 = cond{branches=[@f.none,@f.invariants]} %5, %0
//! %7 = loop{body=@f, trip=runtime, takes=[carry0,const]} %n, %1, %6
//! ```
//!
//! Which equations move depends on the function alone and not on a policy, so gradients have the same bits under every
//! policy. Source of the rule: loop-invariant code motion (Allen and Cocke 1971).

use super::loop_editor::Looped;
use super::region_rewriter::{RegionSite, Replacement, Rewrite, inside_out};
use crate::passes::cost::{Arithmetic, FLOPS_PER_BYTE, bytes};
use crate::passes::pass::{Pass, Run};
use crate::passes::slice_operands::{LANES, PartialReads};
use cranelift_entity::SecondaryMap;
use std::cell::OnceCell;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Binding, Effects, Exactness, Lowering, TripCount, may_not_end, run_if};
use tapeloom_ir::{
    Atom, Builder, Draft, Equation, FuncId, Function, Module, Problem, Type, ValueId, ValueRemap,
};

/// The entry of this pass in the list `PASSES`: moved equations are computed before the loop unconditionally.
pub(crate) const PASS: Pass = Pass {
    name: "hoist_invariants",
    about: "loop-invariant equations move in front of the loop",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| {
        inside_out(module, f, Rewrite::Loops(|site| hoisted(site, false)))
    }),
};

/// The variant of this pass that runs before reverse mode: if the loop may have no iteration, moved equations are
/// computed in a branch that runs only if the loop has an iteration.
pub(crate) const GUARDED: Pass = Pass {
    name: "hoist_invariants_guarded",
    about: "the same; if the loop may have no iteration, into a branch",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| {
        inside_out(module, f, Rewrite::Loops(|site| hoisted(site, true)))
    }),
};

/// An equation whose arithmetic costs less than this number of additions per output element is not hoisted out of the
/// loop.
const CHEAP: f64 = 2.0;

/// An equation whose whole arithmetic costs less than this number of additions is not hoisted out of the loop, even if
/// its output has only one or two elements.
const CHEAP_SCALAR: f64 = 4.0;

/// The factor by which one element of an elementwise result takes longer to compute in a slice of the result than
/// in the whole array.
const ELEMENTWISE_OF_FEW: usize = 2;

/// The factor by which one element of a matrix product takes longer to compute in a slice than in the whole
/// product, which is computed in blocks.
const PRODUCT_OF_FEW: usize = 32;

/// Moves invariant equations in front of a loop, and returns the outputs of the new loop; `None` if no equation
/// moves. If `guarded` is set and the loop may have no iteration, the equations move into a branch.
fn hoisted(site: &RegionSite<'_>, guarded: bool) -> Replacement {
    let (Some(mut at), b) = (site.looped(), site.b) else { return Ok(None) };
    let trips = at.spec.some_iterations();
    let known = matches!(at.spec.trip, TripCount::Static(_));
    let runs = known && trips > 0;
    if trips < 2 {
        return Ok(None);
    }
    let guard = guarded && !runs;
    if guard && b.with_module(|m| asks_with_effects(m, &at)) {
        return Ok(None);
    }
    let slices = known && !site.in_loop;
    let search =
        |constant: Vec<bool>, runs: bool| Search { constant, trips, slices, runs: runs || guarded };
    let body = at.body.clone();
    let of_body = b.with_module(|m| search(constants(&at), runs).moves(m, &body));
    let mut changed = false;
    if !of_body.read.is_empty() {
        let operands: Vec<Option<Atom>> = (0..body.params.len()).map(|p| given(&at, p)).collect();
        let values = match guard {
            true => {
                of_body.emit_guarded(b, &body, &operands, at.spec.has_iteration(b, &at.operands))?
            }
            false => of_body.outside(b, &body, &operands),
        };
        let inside = b.with_module(|m| of_body.inside(m, &body))?;
        at.take(false, &constant_operands(&values));
        at.run(b, inside);
        changed = true;
    }
    // The condition is evaluated at least once even if the loop has no iteration, so its equations need no guard.
    if let TripCount::While { condition, reads } = at.spec.trip.clone() {
        let constant = constants(&at);
        let constant = reads.iter().map(|p| constant[*p]).collect();
        let asked = b.with_module(|m| m.get(condition));
        let search = Search { constant, trips, slices: false, runs: true };
        let of_condition = b.with_module(|m| search.moves(m, &asked));
        if !of_condition.read.is_empty() {
            let operands: Vec<Option<Atom>> = reads.iter().map(|p| given(&at, *p)).collect();
            let values = of_condition.outside(b, &asked, &operands);
            // A condition reads parameters of the body. So the hoisted values that the condition reads become
            // parameters of the body too, which does not read them itself.
            let first = at.end(false);
            let condition = b.with_module(|m| of_condition.inside(m, &asked))?;
            let (body, unread) = (at.body.clone(), |a: &Atom| (None, b.type_of(*a)));
            let more: Vec<(Option<ValueId>, Type)> = values.iter().map(unread).collect();
            let body = b.with_module(|m| taking(m, &body, &more, &|_| true))?;
            let reads = reads.into_iter().chain(first..first + values.len()).collect();
            at.spec.trip = TripCount::While { condition, reads };
            at.take(false, &constant_operands(&values));
            at.run(b, body);
            changed = true;
        }
    }
    Ok(if changed { at.emit(b) } else { None })
}

/// Returns the loop's operand that is bound to a parameter of the body; `None` for the iteration number, which has no
/// operand.
fn given(at: &Looped, param: usize) -> Option<Atom> {
    at.operand(param).map(|k| at.operands[k])
}

fn constant_operands(values: &[Atom]) -> Vec<(Binding, Atom)> {
    values.iter().map(|a| (Binding::Const, *a)).collect()
}

/// Returns whether the loop's condition has effects, so that evaluating it once more would be observable.
fn asks_with_effects(m: &Module, at: &Looped) -> bool {
    match at.spec.trip {
        TripCount::While { condition, .. } => m.effects(condition) != Effects::Pure,
        TripCount::Static(_) | TripCount::Runtime => false,
    }
}

/// Returns, per ordinary (not linear) parameter of the body, whether the parameter has the same value in all
/// iterations.
fn constants(at: &Looped) -> Vec<bool> {
    let params = at.body.params.iter().zip(&at.spec.takes);
    let constant = params.map(|(p, slot)| match *slot {
        Binding::Const => true,
        Binding::Carry(r) => at.body.results[r] == (*p).into() || planted(Fault::CarryHoisted),
        Binding::Index | Binding::Xs => false,
    });
    constant.collect()
}

/// The cost, in each iteration, of computing an invariant value inside the loop.
#[derive(Clone, Copy, Default)]
struct Price {
    /// The arithmetic of the equation and of all invariant equations that it depends on, in additions. An
    /// equation that is read twice counts twice.
    flops: f64,
    /// Bytes of the loop's constants from which the value is computed: an iteration that computes the value reads
    /// them.
    constants: f64,
}

/// The facts about a loop that decide which of its equations move in front of it.
struct Search {
    /// Per parameter of the body: whether the parameter has the same value in all iterations.
    constant: Vec<bool>,
    /// The trip count, or an estimate of it if it is dynamic.
    trips: usize,
    /// Whether an equation may stay in the loop because all iterations together read few elements of its output. True
    /// if the trip count is static and no other loop encloses this loop (an enclosing loop would read the elements
    /// again).
    slices: bool,
    /// Whether the loop is certain to have at least one iteration.
    runs: bool,
}

/// The choice of the equations of a function (a body or a condition) that move in front of the loop.
struct Moves {
    /// Per equation: whether the equation is computed in front of the loop.
    out: Vec<bool>,
    /// Per equation: whether the equation is computed in the loop. A cheap equation may be computed both in front of
    /// the loop and inside it.
    stays: Vec<bool>,
    /// The values computed in front of the loop that the loop reads; they become parameters of the body.
    read: Vec<ValueId>,
}

impl Search {
    /// Returns the choice of equations that move. The walk is backwards, so that all readers of an equation are
    /// decided before the equation itself.
    fn moves(&self, m: &Module, f: &Function) -> Moves {
        let n = f.equations.len();
        let mut moves = Moves { out: vec![false; n], stays: vec![false; n], read: Vec::new() };
        let prices = self.prices(m, f);
        if prices.iter().all(Option::is_none) {
            return moves;
        }
        let reads = OnceCell::new();
        let sliced = |e: &Equation| {
            self.slices && {
                let reads = reads.get_or_init(|| PartialReads::of(m, f));
                self.reads_less(reads, m, f, e)
            }
        };
        let mut inside: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
        let mut outside = inside.clone();
        f.results.iter().filter_map(|r| r.value()).for_each(|v| inside[v] = true);
        for (i, e) in f.equations.iter().enumerate().rev() {
            let read = e.outputs.iter().any(|o| inside[*o]);
            moves.out[i] = e.outputs.iter().any(|o| outside[*o]);
            moves.stays[i] = read;
            match prices[i] {
                None => moves.stays[i] = true,
                Some(price) if read && self.pays(f, e, price) && !sliced(e) => {
                    (moves.out[i], moves.stays[i]) = (true, false);
                    moves.read.extend(e.outputs.iter().filter(|o| inside[**o]));
                }
                Some(_) => {}
            }
            for v in e.operands.iter().filter_map(|a| a.value()) {
                inside[v] |= moves.stays[i];
                outside[v] |= moves.out[i];
            }
        }
        moves
    }

    /// Returns, per equation, the cost of computing it in each iteration; `None` if the equation depends on the
    /// iteration or must not move.
    fn prices(&self, m: &Module, f: &Function) -> Vec<Option<Price>> {
        let mut known: SecondaryMap<ValueId, Option<Price>> =
            SecondaryMap::with_capacity(f.types.len());
        let mut all = 0.0;
        for (p, _) in f.params.iter().zip(&self.constant).filter(|(_, on)| **on) {
            let bytes = bytes(&f.types[*p]);
            all += bytes;
            known[*p] = Some(Price { flops: 0.0, constants: bytes });
        }
        let mut arithmetic = Arithmetic::new(self.trips);
        let mut price = |e: &Equation, known: &SecondaryMap<ValueId, Option<Price>>| {
            let movable = e.op.effects(m) == Effects::Pure
                && e.outputs.iter().all(|o| f.types[*o].as_array().is_some())
                && (self.runs || !may_not_end(m, &e.op));
            if !movable {
                return None;
            }
            let mut price = Price::default();
            for v in e.operands.iter().filter_map(|a| a.value()) {
                let of = known[v]?;
                price.flops += of.flops;
                price.constants += of.constants;
            }
            price.flops += arithmetic.of(m, f, e);
            price.constants = price.constants.min(all);
            Some(price)
        };
        let mut prices = Vec::with_capacity(f.equations.len());
        for e in &f.equations {
            let price = price(e, &known);
            e.outputs.iter().for_each(|o| known[*o] = price);
            prices.push(price);
        }
        prices
    }

    /// Returns whether it takes less time to compute, in each iteration, only the elements of the output that the
    /// iteration reads than to compute all elements once.
    fn reads_less(&self, reads: &PartialReads<'_>, m: &Module, f: &Function, e: &Equation) -> bool {
        let dearer = match e.lower(m, f) {
            Lowering::Contract { .. } => PRODUCT_OF_FEW,
            _ => ELEMENTWISE_OF_FEW,
        };
        e.outputs.iter().all(|o| {
            let all = f.types[*o].as_array().map_or(0, |ty| ty.shape.elements());
            let pays = |read: usize| {
                let read = read.next_multiple_of(LANES).saturating_mul(self.trips);
                read.saturating_mul(dearer) < all
            };
            reads.elements(*o).is_some_and(pays)
        })
    }

    /// Returns whether writing the outputs of an equation once and reading them in each iteration costs less than
    /// computing them in each iteration.
    fn pays(&self, f: &Function, e: &Equation, price: Price) -> bool {
        let elements = |o: &ValueId| f.types[*o].as_array().map_or(0, |ty| ty.shape.elements());
        let size = e.outputs.iter().map(elements).sum::<usize>() as f64;
        let moved: f64 = e.outputs.iter().map(|o| bytes(&f.types[*o])).sum();
        if price.flops < (CHEAP * size).max(CHEAP_SCALAR) {
            return false;
        }
        let saved = price.flops + FLOPS_PER_BYTE * (price.constants - 2.0 * moved);
        saved > 0.0 && (self.trips - 1) as f64 * saved > FLOPS_PER_BYTE * moved
    }
}

impl Moves {
    /// Emits the equations that move, in front of the loop, and returns the values among their outputs that the
    /// loop reads.
    fn outside(&self, b: &Builder<'_>, f: &Function, operands: &[Option<Atom>]) -> Vec<Atom> {
        let mut copying = ValueRemap::new();
        for (p, operand) in f.params.iter().zip(operands) {
            if let Some(operand) = operand {
                copying.bind(*p, *operand);
            }
        }
        let origin = b.origin();
        for (i, e) in f.equations.iter().enumerate().filter(|(i, _)| self.out[*i]) {
            b.at(f.origin(i).within(origin));
            copying.define(e, b.emit(e.op.clone(), &copying.all(&e.operands)));
        }
        b.at(origin);
        self.read.iter().map(|v| copying.read((*v).into())).collect()
    }

    /// Emits a `cond` in front of the loop and returns its outputs, the values that the loop reads: computed if
    /// `runs` (the loop has an iteration) is true, else zeros.
    fn emit_guarded(
        &self,
        b: &Builder<'_>,
        f: &Function,
        operands: &[Option<Atom>],
        runs: Atom,
    ) -> Result<Vec<Atom>, Problem> {
        let mut read: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
        for (_, e) in f.equations.iter().enumerate().filter(|(i, _)| self.out[*i]) {
            e.operands.iter().filter_map(|a| a.value()).for_each(|v| read[v] = true);
        }
        let params = f.params.iter().zip(operands).filter(|(p, _)| read[**p]);
        let (params, given): (Vec<ValueId>, Vec<Atom>) =
            params.filter_map(|(p, operand)| Some((*p, (*operand)?))).unzip();
        let mut draft = Draft::new(format!("{}.invariants", f.name));
        let mut copying = ValueRemap::new();
        params.iter().for_each(|p| copying.bind(*p, draft.param(f.types[*p].clone())));
        for (i, e) in f.equations.iter().enumerate().filter(|(i, _)| self.out[*i]) {
            copying.define(e, draft.copy(f, i, copying.all(&e.operands)));
        }
        let values = self.read.iter().map(|v| copying.read((*v).into())).collect();
        let computed = b.with_module(|m| draft.finish(m, values))?;
        run_if(b, runs, computed, &given)
    }

    /// Returns the body without the moved equations. The outputs of moved equations that the loop reads become
    /// additional parameters of the body.
    fn inside(&self, m: &mut Module, f: &Function) -> Result<FuncId, Problem> {
        let more = self.read.iter().map(|v| (Some(*v), f.types[*v].clone())).collect::<Vec<_>>();
        taking(m, f, &more, &|i| self.stays[i])
    }
}

/// Returns `f` with the additional parameters `more`, in front of the linear ones, and with only the equations that
/// `stays` accepts. An additional parameter with a value replaces that value, the output of a dropped equation.
fn taking(
    m: &mut Module,
    f: &Function,
    more: &[(Option<ValueId>, Type)],
    stays: &dyn Fn(usize) -> bool,
) -> Result<FuncId, Problem> {
    let mut draft = Draft::new(f.name.clone());
    let mut copying = ValueRemap::new();
    f.params.iter().for_each(|p| copying.bind(*p, draft.param(f.types[*p].clone())));
    for (value, ty) in more {
        let param = draft.param(ty.clone());
        value.iter().for_each(|v| copying.bind(*v, param));
    }
    f.linear_params.iter().for_each(|p| copying.bind(*p, draft.linear_param(f.types[*p].clone())));
    for (i, e) in f.equations.iter().enumerate().filter(|(i, _)| stays(*i)) {
        copying.define(e, draft.copy(f, i, copying.all(&e.operands)));
    }
    draft.finish(m, copying.results(f))
}
