//! Which calls stay calls.
//!
//! A function that the user outlined is compiled once and called, if that saves code: if it would be
//! written out several times, and has [`LEAST_NODES`] equations or more. Other calls are inlined.
//!
//! ```text
//! sites(f) = Σ over the calls of f in g: 1 if g is compiled once itself, else sites(g)
//! size(f)  = Σ over the equations of f: 1, or for a call the size of its callee
//! ```
//!
//! A function that updates an argument is inlined as long as no more than [`MOST_WRITTEN_OUT`] equations
//! come of it: its caller may have no more need of the argument, and only code that knows updates it in
//! place.
//!
//! So a function of two calls of a large one is large, however deep they nest: what is written out
//! grows with the text of the functions, never with the tree of their calls.

use super::routine;
use crate::kernel::{self, Kernel, KernelId};
use crate::plan::CallRow;
use cranelift_entity::EntityRef;
use std::collections::BTreeMap;
use tapeloom_ir::prim::{Effects, Lowering, Operand, Role};
use tapeloom_ir::{
    ArrayType, Atom, Equation, FuncId, Function, Module, Op, OrderedMap, Problem, Type,
};

/// Functions with fewer equations are inlined.
const LEAST_NODES: usize = 4;

/// Functions that update an argument are inlined up to this many equations in all.
const MOST_WRITTEN_OUT: usize = 10_000;

/// The functions that are compiled once.
#[derive(Default)]
pub(crate) struct Calls {
    kernels: OrderedMap<FuncId, KernelId>,
    routines: OrderedMap<String, KernelId>,
    /// The kernels of routines, which have the first numbers.
    pub(crate) made: Vec<Kernel>,
    /// In the order of their numbers: callees before those that call them.
    pub(crate) kept: Vec<FuncId>,
    /// What was decided of each outlined function, and why.
    pub(crate) rows: Vec<CallRow>,
}

/// What is known of a function.
#[derive(Default)]
struct Known {
    /// The functions that its equations run, and whether the user asked for a call.
    runs: Vec<(FuncId, bool)>,
    size: usize,
    sites: usize,
    outlined: bool,
    kept: bool,
    /// Whether each parameter is updated.
    updates: Vec<bool>,
}

impl Calls {
    /// What an entry calls.
    pub(crate) fn of(module: &Module, entry: FuncId) -> Result<Calls, Problem> {
        let mut known: BTreeMap<FuncId, Known> = BTreeMap::new();
        let mut work = vec![entry];
        while let Some(f) = work.pop() {
            if known.contains_key(&f) {
                continue;
            }
            let mut runs = Vec::new();
            for e in &module.function(f).equations {
                for region in e.op.regions().iter().filter(|r| r.role.runs()) {
                    if region.function >= f {
                        return Err(Problem::internal("a function runs a later one"));
                    }
                    runs.push((region.function, region.role == Role::Outline));
                }
            }
            work.extend(runs.iter().map(|(callee, _)| *callee));
            known.insert(f, Known { runs, ..Known::default() });
        }
        // A module grows: whom a function runs is older.
        let oldest_first: Vec<FuncId> = known.keys().copied().collect();
        for f in &oldest_first {
            let runs = |op: &Op| op.opened(Role::runs).is_some();
            let equations = &module.function(*f).equations;
            let own = equations.iter().filter(|e| !runs(&e.op)).count();
            let of_callees = known[f].runs.iter().map(|(callee, _)| known[callee].size);
            let size = of_callees.fold(own, usize::saturating_add);
            let updates = updated(module, *f, &known);
            let own = known.entry(*f).or_default();
            (own.size, own.updates) = (size, updates);
        }
        known.entry(entry).or_default().sites = 1;
        for f in oldest_first.iter().rev() {
            let own = known.entry(*f).or_default();
            own.kept = own.outlined
                && own.sites > 1
                && own.size >= LEAST_NODES
                && *f != entry
                && (!own.updates.contains(&true)
                    || own.sites.saturating_mul(own.size) > MOST_WRITTEN_OUT)
                && has_elements(module, *f);
            let times = if own.kept { 1 } else { own.sites };
            for (callee, outlined) in std::mem::take(&mut own.runs) {
                let callee = known.entry(callee).or_default();
                callee.sites = callee.sites.saturating_add(times);
                callee.outlined |= outlined;
            }
        }
        let mut calls = Calls::default();
        for f in &oldest_first {
            calls.make_routines(module, *f)?;
        }
        for f in oldest_first.iter().filter(|f| known[f].outlined) {
            let Known { size, sites, kept, ref updates, .. } = known[f];
            let updates = updates.contains(&true);
            if kept {
                calls.kernels.insert(*f, KernelId::new(calls.made.len() + calls.kept.len()));
                calls.kept.push(*f);
            }
            let name = module.function(*f).name.clone();
            let kernel = calls.kernel(*f);
            calls.rows.push(CallRow { name, equations: size, sites, updates, kernel });
        }
        Ok(calls)
    }

    /// The kernels of the equations of a function that are routines.
    fn make_routines(&mut self, module: &Module, function: FuncId) -> Result<(), Problem> {
        let f = module.function(function);
        for e in &f.equations {
            let Some(Type::Array(y)) = e.outputs.first().map(|o| &f.types[*o]) else { continue };
            let x = e.operands.first().map(|x| f.type_of(*x));
            let x = x.as_ref().and_then(Type::as_array);
            let Some(text) = routine::text(&lowering(module, f, e), x, y) else { continue };
            if !self.routines.contains_key(&text) {
                self.made.push(kernel::parse(&text, &|_| None)?.entry);
                self.routines.insert(text, KernelId::new(self.made.len() - 1));
            }
        }
        Ok(())
    }

    /// The kernel of an equation that is a routine, given the types of its first operand and its output.
    pub(crate) fn routine(
        &self,
        lowering: &Lowering,
        x: Option<&ArrayType>,
        y: &ArrayType,
    ) -> Option<KernelId> {
        self.routines.get(&routine::text(lowering, x, y)?).copied()
    }

    /// The kernel of a function that is compiled once.
    pub(crate) fn kernel(&self, function: FuncId) -> Option<KernelId> {
        self.kernels.get(&function).copied()
    }
}

/// Which parameters a function updates, by itself or in what it calls.
fn updated(module: &Module, function: FuncId, known: &BTreeMap<FuncId, Known>) -> Vec<bool> {
    let f = module.function(function);
    let params: Vec<Atom> = f.all_params().map(Atom::from).collect();
    let mut updates = vec![false; params.len()];
    let mut mark = |atom: Atom| {
        if let Some(p) = params.iter().position(|p| *p == atom) {
            updates[p] = true;
        }
    };
    for e in &f.equations {
        match lowering(module, f, e) {
            Lowering::DynamicUpdateSlice | Lowering::Scatter { .. } => mark(e.operands[0]),
            Lowering::Call(callee) => {
                let of_callee = known.get(&callee).map_or(&[][..], |k| &k.updates);
                e.operands.iter().zip(of_callee).filter(|(_, on)| **on).for_each(|(a, _)| mark(*a));
            }
            Lowering::Elementwise(_)
            | Lowering::View { .. }
            | Lowering::Reshape
            | Lowering::Alias { .. }
            | Lowering::Iota { .. }
            | Lowering::Reduce { .. }
            | Lowering::ArgReduce { .. }
            | Lowering::Cumulate { .. }
            | Lowering::ArgSort { .. }
            | Lowering::Contract { .. }
            | Lowering::DynamicSlice
            | Lowering::Gather { .. }
            | Lowering::Report { .. }
            | Lowering::Branch { .. }
            | Lowering::Loop { .. }
            | Lowering::Missing(_) => {}
        }
    }
    updates
}

/// What an equation asks for.
fn lowering(module: &Module, f: &Function, e: &Equation) -> Lowering {
    let types: Vec<Type> = e.operands.iter().map(|a| f.type_of(*a)).collect();
    let operand = |(ty, a): (_, &Atom)| Operand { ty, literal: a.literal() };
    let operands: Vec<Operand<'_>> = types.iter().zip(&e.operands).map(operand).collect();
    e.op.lower(module, &operands)
}

/// Whether a function does something, and all that it takes and gives is arrays with elements.
fn has_elements(module: &Module, function: FuncId) -> bool {
    let f = module.function(function);
    let mut types = f.param_types().into_iter().chain(f.result_types());
    (!f.results.is_empty() || module.effects(function) == Effects::Ordered)
        && types.all(|ty| match ty {
            Type::Array(a) => a.shape.elements() > 0,
            Type::Tape(_) | Type::Ref(_) => false,
        })
}
