//! The cost model: the prices of saving a value and of recomputing it.
//!
//! All prices have one unit, so that they can be added. The unit is a sixteenth of an addition. A saved byte is written
//! once and read once, and its cache line is read before it is written, so the byte moves three times.
//!
//! | | price |
//! |---|---|
//! | a saved value | 3 moves of its bytes |
//! | elementwise, at most [`DEAR`](crate::passes::op_class) per element | its arithmetic |
//! | views, elements of arrays | index arithmetic |
//! | functions of the library, reductions, contractions, equations that run functions | not recomputed by default |
//! | calls of Rust, and ordered effects | never recomputed: they happen once |

use super::decisions::decides;
use super::max_flow::NEVER;
use super::packing::Widths;
use crate::passes::cost::work_of;
use crate::passes::op_class::{OpClass, gives_floats};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Effects, Lowering, Mark};
use tapeloom_ir::{
    ArrayType, Atom, Bits, Equation, Function, Memory, Module, PlanRequest, Policy, Price,
    RecomputePrice, Type, ValueId,
};

// The size of a tape must not depend on the machine of the compile, so none of these numbers is from a machine
// model.

/// Units of price per addition: prices are in sixteenths of an addition.
pub(super) const UNIT: f64 = 16.0;

/// The number of times that a saved byte moves between cache and core: it is written once and read once, and its cache
/// line is read before the write.
pub(super) const MOVES: f64 = 3.0;

/// The lowest price of saving a value, in sixteenths of an addition. This price is above 0, the price of free
/// recomputation, so that values that are free to recompute are not saved.
const LEAST: u64 = 1;

/// The largest size in bytes of a value that, if one function computes and reads it, stays in registers or in the
/// first-level cache.
const NEAR_BYTES: usize = 4096;

/// The price of saving a dynamic tape, in sixteenths of an addition: more than any array, since its length is not
/// known.
const TAPE: u64 = 1 << 40;

/// The prices by which the planner chooses, in sixteenths of an addition: `save` of saving each value, `recompute` of
/// recomputing each equation.
pub(super) struct Prices {
    pub(super) save: SecondaryMap<ValueId, u64>,
    pub(super) recompute: Vec<u64>,
}

/// The reads of the forward function's values by the linear function.
pub(super) struct Reads<'a> {
    /// The values that the linear function reads.
    pub(super) values: &'a [ValueId],
    /// The number of results of the forward function that are results of the original function; these results come
    /// first, then the residuals.
    pub(super) results: usize,
}

impl Prices {
    /// Computes the prices of saving the values and of recomputing the equations of the forward function `f`, for the
    /// plan request `terms`. `times` multiplies the price of recomputing arithmetic, so that a larger `times` saves
    /// more and recomputes less.
    pub(super) fn of(
        module: &Module,
        f: &Function,
        terms: &PlanRequest,
        reads: &Reads<'_>,
        times: u64,
    ) -> Prices {
        // If function and derivative are one program, the linear function reads the function's arguments directly, not
        // copies that were rounded for the tape.
        let exact = |v| terms.together && f.params.contains(&v);
        let kept = |e| terms.bits == Bits::Rounded && decides(module, f, e, &exact);
        let price =
            |e| if kept(e) { NEVER } else { recompute_price(module, f, e, &terms.policy, times) };
        let recompute = f.equations.iter().map(price).collect();
        let mut prices = Prices { save: SecondaryMap::with_default(0), recompute };
        prices.price_saves(module, f, terms, reads);
        prices
    }

    fn price_saves(
        &mut self,
        module: &Module,
        f: &Function,
        terms: &PlanRequest,
        reads: &Reads<'_>,
    ) {
        let row = terms.policy.row();
        let weighed = row.recompute == RecomputePrice::Weighed;
        let widths = Widths::of(module, f, terms);
        for (v, ty) in &f.types {
            self.save[v] = match ty {
                Type::Array(ty) if weighed && is_little(ty, terms.together) => LEAST,
                Type::Array(ty) => LEAST.max(widths.price(v, ty)),
                Type::Tape(_) => TAPE,
            };
        }
        let names = terms.policy.names();
        if row.recompute == RecomputePrice::DearButNames {
            reads.values.iter().for_each(|v| self.save[*v] = 0);
        }
        let iterations = terms.iterations.max(1) as u64;
        let constant = constants(module, f, &terms.params);
        for (i, p) in f.params.iter().enumerate() {
            let own = self.save[*p];
            let share = terms.params.get(i).unwrap_or(&Price::THERE).share();
            // An array that may be overwritten cannot be read again in the reverse pass, but its elements can be
            // saved.
            let array = f.types[*p].as_array().is_some_and(|ty| !ty.shape.is_empty());
            let gone = share.context().memory == Memory::Written && array;
            self.save[*p] = if gone { NEVER } else { share.of(own) };
        }
        for e in &f.equations {
            for o in e.outputs.iter().filter(|o| constant[**o]) {
                self.save[*o] = LEAST.max(self.save[*o] / iterations);
            }
            match e.lower(module, f) {
                dear if row.recompute == RecomputePrice::FreeButContractions && is_cubic(&dear) => {
                    e.outputs.iter().for_each(|o| self.save[*o] = LEAST);
                }
                Lowering::Alias { mark: Some(Mark::Named(name)), .. } if names.contains(&name) => {
                    let price =
                        if row.recompute == RecomputePrice::DearButNames { NEVER } else { LEAST };
                    self.save[e.outputs[0]] = price;
                    if let (NEVER, Some(v)) = (price, e.operands[0].value()) {
                        self.save[v] = NEVER;
                    }
                }
                _ => {}
            }
        }
        self.keep_parts(f, reads);
        // If the policy names every residual that may be saved, price results of the function like other values. At
        // their lower price, results would be kept alive until the reverse pass.
        let results = if row.nothing_else { 0 } else { reads.results };
        for (i, v) in f.results.iter().enumerate().take(results) {
            let Some(v) = v.value() else { continue };
            match terms.results.get(i).unwrap_or(&Price::THERE) {
                Price::Constant(share) | Price::Bytes(share) => {
                    self.save[v] = self.save[v].min(share.of(self.save[v]));
                }
            }
        }
    }

    /// If only some columns of a decomposition's output are differentiated, forbids saving the whole output (price
    /// `NEVER`), so that these columns are saved instead. A loop passes saved values from its forward body to its
    /// linear body, and there a second derivative could not see which columns are read.
    fn keep_parts(&mut self, f: &Function, reads: &Reads<'_>) {
        for v in f.equations.iter().filter(|e| e.op.needs_reads()).flat_map(|e| &e.outputs) {
            let mut readers = f.equations.iter().filter(|e| e.operands.contains(&Atom::Value(*v)));
            if readers.any(|e| e.op.is_constant_by_decree()) && !reads.values.contains(v) {
                self.save[*v] = NEVER;
            }
        }
    }
}

/// Returns whether saving an array costs next to nothing: it has at most `NEAR_BYTES` bytes, and one function
/// both computes and reads it (`together`).
pub(super) fn is_little(ty: &ArrayType, together: bool) -> bool {
    together && ty.bytes() <= NEAR_BYTES
}

/// Returns, per value of a loop's body, whether the value is the same in all iterations: whether it depends only on
/// parameters that are the same in all iterations.
pub(super) fn constants(
    module: &Module,
    f: &Function,
    params: &[Price],
) -> SecondaryMap<ValueId, bool> {
    let mut constant: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    for (p, price) in f.params.iter().zip(params) {
        // An array that may be overwritten is not constant for the reverse pass.
        let array = f.types[*p].as_array().is_some_and(|ty| !ty.shape.is_empty());
        let gone = price.share().context().memory == Memory::Written && array;
        constant[*p] = matches!(price, Price::Constant(_)) && !gone;
    }
    for e in &f.equations {
        let known = |a: &Atom| a.value().is_none_or(|v| constant[v]);
        if e.operands.iter().all(known) && e.op.effects(module) == Effects::Pure {
            for o in e.outputs.iter().filter(|o| f.types[**o].as_array().is_some()) {
                constant[*o] = true;
            }
        }
    }
    constant
}

/// Returns the price of recomputing the equation `e` under a policy; `NEVER` if it is not to be recomputed.
/// `times` multiplies the price of arithmetic.
fn recompute_price(
    module: &Module,
    f: &Function,
    e: &Equation,
    policy: &Policy,
    times: u64,
) -> u64 {
    let once = e.op.effects(module) == Effects::Ordered || module.calls_out(&e.op);
    if once && !planted(Fault::EffectTwice) {
        return NEVER;
    }
    let lowering = e.lower(module, f);
    let free_unless = |kept: bool| if kept { NEVER } else { 0 };
    match policy.row().recompute {
        RecomputePrice::Weighed => {}
        RecomputePrice::Free => return 0,
        RecomputePrice::FreeButContractions => {
            return free_unless(is_cubic(&lowering));
        }
        RecomputePrice::FreeButFunctions => return free_unless(!e.op.regions().is_empty()),
        RecomputePrice::FreeButNames => {
            let Lowering::Alias { mark: Some(Mark::Named(name)), .. } = &lowering else { return 0 };
            return free_unless(policy.names().contains(name));
        }
        RecomputePrice::DearButNames => return 2 * LEAST,
    }
    let cost = (flops_of(module, f, e) * UNIT).ceil() as u64;
    // `times` applies to arithmetic on floats alone, not to equations on indices and truth values.
    let times = if arithmetic(module, f, e) > 0.0 { times } else { 1 };
    match OpClass::of(&lowering) {
        OpClass::Moves => cost,
        OpClass::Cheap => cost.saturating_mul(times).min(NEVER),
        OpClass::Writes | OpClass::Dear => NEVER,
    }
}

/// Returns whether an equation does more than a constant number of operations per element: whether it is a
/// contraction or a routine such as a decomposition.
fn is_cubic(lowering: &Lowering) -> bool {
    let routine = !planted(Fault::RoutineAgain);
    matches!(lowering, Lowering::Contract { .. })
        || routine && matches!(lowering, Lowering::Routine(_))
}

/// Returns whether an equation only reads or moves elements, without arithmetic on floats.
pub(super) fn moves(module: &Module, f: &Function, e: &Equation) -> bool {
    OpClass::of(&e.lower(module, f)) == OpClass::Moves
}

/// Returns the cost of an equation, in additions of floats.
fn flops_of(module: &Module, f: &Function, e: &Equation) -> f64 {
    let outputs: Vec<Type> = e.outputs.iter().map(|o| f.types[*o].clone()).collect();
    e.with_operands(f, |operands| work_of(module, &e.op, operands, &outputs).1)
}

/// Returns the arithmetic of an equation without regions, in additions of floats. Moving elements and computing
/// indices count nothing.
pub(super) fn arithmetic(module: &Module, f: &Function, e: &Equation) -> f64 {
    if !gives_floats(f, e) {
        return 0.0;
    }
    match OpClass::of(&e.lower(module, f)) {
        OpClass::Moves | OpClass::Writes => 0.0,
        OpClass::Cheap | OpClass::Dear => flops_of(module, f, e),
    }
}
