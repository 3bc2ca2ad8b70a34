//! Prices: what it costs to keep a value, and what to compute it again.
//!
//! All in one unit, so that they can be added: a sixteenth of what an addition takes. A byte that is kept is
//! written once and read once, and where it is written its line is read before, so it moves three times.
//!
//! | | costs |
//! |---|---|
//! | a value kept | 3 moves of its bytes |
//! | elementwise, at most [`DEAR`](crate::passes::op_class) an element | its arithmetic |
//! | views, elements of arrays | index arithmetic |
//! | functions of the library, reductions, contractions, what runs functions | not by default |
//! | what calls Rust, and ordered effects | never: they happen once |

use super::decisions::decides;
use super::max_flow::NEVER;
use super::packing::Widths;
use crate::passes::cost::work_of;
use crate::passes::op_class::{OpClass, gives_floats};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Effects, Lowering, Mark};
use tapeloom_ir::{
    Again, ArrayType, Atom, Bits, Equation, Function, Memory, Module, PlanRequest, Policy, Price,
    Type, ValueId,
};

// How many bytes a tape has must not depend on where a program is compiled: none of these is a number of a machine model.

/// Units in an addition.
pub(super) const UNIT: f64 = 16.0;

/// How often a byte that is kept moves between cache and core.
pub(super) const MOVES: f64 = 3.0;

/// What a value costs that is kept for next to nothing: more than computing it again where that is free.
const LEAST: u64 = 1;

/// Up to so many bytes a value that one function makes and reads stays in registers or near them.
const NEAR_BYTES: usize = 4096;

/// A tape has as many records as the run says: more than fits.
const TAPE: u64 = 1 << 40;

/// What each value costs if it is kept, and each equation if it runs again.
pub(super) struct Prices {
    pub(super) keep: SecondaryMap<ValueId, u64>,
    pub(super) again: Vec<u64>,
}

/// What the linear half reads of the forward half.
pub(super) struct Reads<'a> {
    /// The values.
    pub(super) values: &'a [ValueId],
    /// How many results the forward half has that are not kept for the linear half alone.
    pub(super) results: usize,
}

impl Prices {
    /// Those of the forward half `f` on the terms given, with what the linear half reads.
    /// Arithmetic counts `times` over.
    pub(super) fn of(
        module: &Module,
        f: &Function,
        terms: &PlanRequest,
        reads: &Reads<'_>,
        times: u64,
    ) -> Prices {
        // What a function is given that stands with its derivative is there as it was.
        let exact = |v| terms.together && f.params.contains(&v);
        let kept = |e| terms.bits == Bits::Rounded && decides(module, f, e, &exact);
        let again = |e| if kept(e) { NEVER } else { again(module, f, e, &terms.policy, times) };
        let again = f.equations.iter().map(again).collect();
        let mut prices = Prices { keep: SecondaryMap::with_default(0), again };
        prices.keep(module, f, terms, reads);
        prices
    }

    fn keep(&mut self, module: &Module, f: &Function, terms: &PlanRequest, reads: &Reads<'_>) {
        let row = terms.policy.row();
        let weighed = row.again == Again::Weighed;
        let widths = Widths::of(module, f, terms);
        for (v, ty) in &f.types {
            self.keep[v] = match ty {
                Type::Array(ty) if weighed && is_little(ty, terms.together) => LEAST,
                Type::Array(ty) => LEAST.max(widths.price(v, ty)),
                Type::Tape(_) => TAPE,
            };
        }
        let names = terms.policy.names();
        if row.again == Again::DearButNames {
            reads.values.iter().for_each(|v| self.keep[*v] = 0);
        }
        let iterations = terms.iterations.max(1) as u64;
        let constant = constants(module, f, &terms.params);
        for (i, p) in f.params.iter().enumerate() {
            let own = self.keep[*p];
            let share = terms.params.get(i).unwrap_or(&Price::THERE).share();
            // An array that may be overwritten is not there again, but its elements can be kept.
            let array = f.types[*p].as_array().is_some_and(|ty| !ty.shape.is_empty());
            let gone = share.regime().memory == Memory::Written && array;
            self.keep[*p] = if gone { NEVER } else { share.of(own) };
        }
        for e in &f.equations {
            for o in e.outputs.iter().filter(|o| constant[**o]) {
                self.keep[*o] = LEAST.max(self.keep[*o] / iterations);
            }
            match e.lower(module, f) {
                dear if row.again == Again::FreeButContractions && is_cubic(&dear) => {
                    e.outputs.iter().for_each(|o| self.keep[*o] = LEAST);
                }
                Lowering::Alias { mark: Some(Mark::Named(name)) } if names.contains(&name) => {
                    let price = if row.again == Again::DearButNames { NEVER } else { LEAST };
                    self.keep[e.outputs[0]] = price;
                    if let (NEVER, Some(v)) = (price, e.operands[0].value()) {
                        self.keep[v] = NEVER;
                    }
                }
                _ => {}
            }
        }
        self.keep_parts(f, reads);
        // Who wants a result computed again does not want it to live so long.
        let results = if row.nothing_else { 0 } else { reads.results };
        for (i, v) in f.results.iter().enumerate().take(results) {
            let Some(v) = v.value() else { continue };
            match terms.results.get(i).unwrap_or(&Price::THERE) {
                Price::Constant(share) | Price::Bytes(share) => {
                    self.keep[v] = self.keep[v].min(share.of(self.keep[v]));
                }
            }
        }
    }

    /// Saves parts of decompositions instead of the whole, if some columns are constants to differentiation: a loop
    /// passes saved values from one body to another, where a second derivative could not see which columns are read.
    fn keep_parts(&mut self, f: &Function, reads: &Reads<'_>) {
        for v in f.equations.iter().filter(|e| e.op.asks_reads()).flat_map(|e| &e.outputs) {
            let mut readers = f.equations.iter().filter(|e| e.operands.contains(&Atom::Value(*v)));
            if readers.any(|e| e.op.is_constant_by_decree()) && !reads.values.contains(v) {
                self.keep[*v] = NEVER;
            }
        }
    }
}

/// Whether keeping an array costs nothing to speak of, in one function with who reads it or not.
pub(super) fn is_little(ty: &ArrayType, together: bool) -> bool {
    together && ty.bytes() <= NEAR_BYTES
}

/// What follows from parameters that are the same in all iterations, and from nothing else.
pub(super) fn constants(
    module: &Module,
    f: &Function,
    params: &[Price],
) -> SecondaryMap<ValueId, bool> {
    let mut constant: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    for (p, price) in f.params.iter().zip(params) {
        // An array that may be overwritten is not there again.
        let array = f.types[*p].as_array().is_some_and(|ty| !ty.shape.is_empty());
        let gone = price.share().regime().memory == Memory::Written && array;
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

/// What it costs to run an equation again, as a policy says, with arithmetic so many times over.
fn again(module: &Module, f: &Function, e: &Equation, policy: &Policy, times: u64) -> u64 {
    let once = e.op.effects(module) == Effects::Ordered || module.calls_out(&e.op);
    if once && !planted(Fault::EffectTwice) {
        return NEVER;
    }
    let lowering = e.lower(module, f);
    let free_unless = |kept: bool| if kept { NEVER } else { 0 };
    match policy.row().again {
        Again::Weighed => {}
        Again::Free => return 0,
        Again::FreeButContractions => {
            return free_unless(is_cubic(&lowering));
        }
        Again::FreeButFunctions => return free_unless(!e.op.regions().is_empty()),
        Again::FreeButNames => {
            let Lowering::Alias { mark: Some(Mark::Named(name)) } = &lowering else { return 0 };
            return free_unless(policy.names().contains(name));
        }
        Again::DearButNames => return 2 * LEAST,
    }
    let cost = (flops_of(module, f, e) * UNIT).ceil() as u64;
    // What is computed on indices and truth values is no arithmetic of the derivative.
    let times = if arithmetic(module, f, e) > 0.0 { times } else { 1 };
    match OpClass::of(&lowering) {
        OpClass::Moves => cost,
        OpClass::Cheap => cost.saturating_mul(times).min(NEVER),
        OpClass::Writes | OpClass::Dear => NEVER,
    }
}

/// Whether there is more arithmetic than elements: contractions, and routines as decompositions.
fn is_cubic(lowering: &Lowering) -> bool {
    let routine = !planted(Fault::RoutineAgain);
    matches!(lowering, Lowering::Contract { .. })
        || routine && matches!(lowering, Lowering::Routine(_))
}

/// Whether an equation only reads elements, or moves them.
pub(super) fn moves(module: &Module, f: &Function, e: &Equation) -> bool {
    OpClass::of(&e.lower(module, f)) == OpClass::Moves
}

/// The cost of an equation, in additions.
fn flops_of(module: &Module, f: &Function, e: &Equation) -> f64 {
    let outputs: Vec<Type> = e.outputs.iter().map(|o| f.types[*o].clone()).collect();
    e.with_operands(f, |operands| work_of(module, &e.op, operands, &outputs).1)
}

/// The arithmetic of one equation that runs no function, in additions of floats: moving elements is none,
/// and computing where they lie is none.
pub(super) fn arithmetic(module: &Module, f: &Function, e: &Equation) -> f64 {
    if !gives_floats(f, e) {
        return 0.0;
    }
    match OpClass::of(&e.lower(module, f)) {
        OpClass::Moves | OpClass::Writes => 0.0,
        OpClass::Cheap | OpClass::Dear => flops_of(module, f, e),
    }
}
