//! Decides which functions are compiled separately: outlined callees, and the bodies of loops and branches.
//!
//! A function that the user marked as outlined is compiled once and called, if inlining would copy it several times and
//! it has [`LEAST_NODES`] equations or more. Other calls are inlined.
//!
//! ```text
//! sites(f) = Σ over the calls of f in g: 1 if g is compiled once itself, else sites(g)
//! size(f)  = Σ over the equations of f: 1, or for a call the size of its callee
//! ```
//!
//! `sites` is the number of copies that inlining would make, and `size` the number of equations after inlining. An
//! outlined function that would be copied several times is compiled once, at every depth of the calls, so the size of
//! the program grows with the text of the functions and not with the tree of their calls.
//!
//! The body of a loop or branch is a kernel during lowering. Afterwards its statements replace the call
//! ([`crate::passes::inline_bodies`]), unless it has more than [`MOST_SPLICED`] equations.

use super::builtin_kernels;
use crate::loop_ir::{self, Kernel, KernelId};
use crate::machine::MachineModel;
use crate::report::memory_plan::{CallRow, Plan};
use cranelift_entity::{EntityRef, PrimaryMap};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tapeloom_ir::prim::{Binding, Effects, LoopSpec, Lowering, Role};
use tapeloom_ir::{ArrayType, FuncId, Module, Op, OrderedMap, Problem, Type, deeper};

/// The least number of equations of an outlined function that is compiled separately. Smaller functions are inlined.
const LEAST_NODES: usize = 4;

/// The largest number of equations of a loop or branch body that is inlined. Larger bodies stay separate kernels, so
/// that machine code is generated in portions.
const MOST_SPLICED: usize = 4_000;

/// A function that is compiled separately, and the arguments that it may overwrite.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Unit {
    pub(crate) function: FuncId,
    pub(crate) donation: Donation,
}

/// The arguments whose memory a function may reuse for its results.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Donation {
    /// The function may reuse the memory of no argument, because it is the entry of the program.
    None,
    /// The function is the entry of a program whose callers donate arguments. It may reuse only the memory of the
    /// arguments that are listed, as (parameter, result).
    Arguments(Vec<(usize, usize)>),
    /// The function may reuse the memory of all arguments that it updates, because only other functions call it.
    Updates,
    /// The function is the body of a loop and may reuse only the memory of the loop's carries, which are listed as
    /// (parameter, result).
    LoopCarries(Vec<(usize, usize)>),
    /// The function is a branch and may reuse only the memory of parameters that every branch returns, changed or not
    /// ([`branch_results`]), which are listed as (parameter, result).
    BranchResults(Vec<(usize, usize)>),
}

impl Donation {
    /// Returns the donation of a program's arguments: the n-th result of a type may lie in the memory of the n-th donated
    /// argument of this type. `donated` states whether the arguments from the first one on are donated.
    pub(crate) fn of_arguments(arguments: &[Type], results: &[Type], donated: &[bool]) -> Donation {
        let mut waiting: BTreeMap<&Type, VecDeque<usize>> = BTreeMap::new();
        for (p, (ty, _)) in arguments.iter().zip(donated).enumerate().filter(|(_, (_, d))| **d) {
            waiting.entry(ty).or_default().push_back(p);
        }
        let results = results.iter().enumerate();
        let pairs = results.filter_map(|(n, ty)| Some((waiting.get_mut(ty)?.pop_front()?, n)));
        Donation::Arguments(pairs.collect())
    }

    /// Returns whether result `result` may be the unchanged argument `param`. This is allowed only for the pairs
    /// (parameter, result) of `BranchResults`.
    pub(crate) fn may_return_unchanged(&self, param: usize, result: usize) -> bool {
        matches!(self, Donation::BranchResults(pairs) if pairs.contains(&(param, result)))
    }

    /// Returns whether the caller donates the memory of argument `param`, so that some result may lie there.
    pub(crate) fn any(&self, param: usize) -> bool {
        match self {
            Donation::None => false,
            Donation::Updates => true,
            Donation::Arguments(pairs)
            | Donation::LoopCarries(pairs)
            | Donation::BranchResults(pairs) => pairs.iter().any(|(p, _)| *p == param),
        }
    }

    /// Returns whether result `result` may lie in the memory of argument `param`.
    pub(crate) fn allows(&self, param: usize, result: usize) -> bool {
        match self {
            Donation::None => false,
            Donation::Updates => true,
            Donation::Arguments(pairs)
            | Donation::LoopCarries(pairs)
            | Donation::BranchResults(pairs) => pairs.contains(&(param, result)),
        }
    }
}

/// The functions that are compiled separately.
#[derive(Default)]
pub(crate) struct Calls {
    /// The machine for which the functions are lowered.
    pub(crate) machine: MachineModel,
    kernels: OrderedMap<Unit, KernelId>,
    routines: OrderedMap<String, KernelId>,
    /// The built-in kernels, which have the first kernel numbers.
    pub(crate) made: Vec<Kernel>,
    /// The other kernels in the order of their numbers (callees before callers), each with a flag that says whether its
    /// statements replace its calls (`inline`).
    pub(crate) kept: Vec<(Unit, bool)>,
    /// Rows for the report: for each function that the user outlined, whether it is compiled separately.
    pub(crate) rows: Vec<CallRow>,
}

/// The facts about a function that decide whether it is compiled separately.
#[derive(Default)]
struct UnitFacts {
    /// The functions that the equations of this function run, and the way in which each is run.
    runs: Vec<(FuncId, Run)>,
    size: usize,
    sites: usize,
    outlined: bool,
    kept: bool,
    /// The donations (the arguments that a body may overwrite) with which loops and branches run this function as their
    /// body.
    bodies: BTreeSet<Donation>,
}

/// The ways in which an equation runs a function.
enum Run {
    Inlined,
    Outlined,
    Body(Donation),
}

impl Calls {
    /// Decides which of the functions that run when `entry` runs are compiled separately.
    pub(crate) fn of(module: &Module, entry: FuncId) -> Result<Calls, Problem> {
        let mut known: BTreeMap<FuncId, UnitFacts> = BTreeMap::new();
        let mut work = vec![entry];
        while let Some(f) = work.pop() {
            if known.contains_key(&f) {
                continue;
            }
            let mut runs = Vec::new();
            for e in &module.function(f).equations {
                for region in e.op.regions().iter().filter(|r| r.role.runs()) {
                    if region.function >= f {
                        return Err(Problem::internal("a function calls a later one"));
                    }
                    let how = match region.role {
                        Role::Branch | Role::Iteration => {
                            Run::Body(carried(module, &e.op, region.function))
                        }
                        Role::Outline => Run::Outlined,
                        Role::Inline | Role::Ruled | Role::Checkpoint | Role::Rule => Run::Inlined,
                    };
                    runs.push((region.function, how));
                }
            }
            work.extend(runs.iter().map(|(callee, _)| *callee));
            known.insert(f, UnitFacts { runs, ..UnitFacts::default() });
        }
        // The keys of `known` are sorted by id, so callees come first: a function runs only functions that were added
        // to the module before it.
        let oldest_first: Vec<FuncId> = known.keys().copied().collect();
        for f in &oldest_first {
            let runs = |op: &Op| op.opened(Role::runs).is_some();
            let equations = &module.function(*f).equations;
            let own = equations.iter().filter(|e| !runs(&e.op)).count();
            let of_callees = known[f].runs.iter().map(|(callee, _)| known[callee].size);
            let size = of_callees.fold(own, usize::saturating_add);
            known.entry(*f).or_default().size = size;
        }
        known.entry(entry).or_default().sites = 1;
        for f in oldest_first.iter().rev() {
            let own = known.entry(*f).or_default();
            own.kept = own.outlined
                && own.sites > 1
                && own.size >= LEAST_NODES
                && *f != entry
                && has_elements(module, *f);
            let times = if own.kept { 1 } else { own.sites };
            let times = times.saturating_add(own.bodies.len());
            for (callee, how) in std::mem::take(&mut own.runs) {
                let callee = known.entry(callee).or_default();
                match how {
                    Run::Body(donation) => {
                        callee.bodies.insert(donation);
                        continue;
                    }
                    Run::Outlined => callee.outlined = true,
                    Run::Inlined => {}
                }
                callee.sites = callee.sites.saturating_add(times);
            }
        }
        let mut calls = Calls::default();
        for f in &oldest_first {
            calls.make_routines(module, *f)?;
        }
        for f in &oldest_first {
            let UnitFacts { size, sites, kept, outlined, ref bodies, .. } = known[f];
            let called = kept.then_some(&Donation::Updates);
            for donation in called.into_iter().chain(bodies) {
                let unit = Unit { function: *f, donation: donation.clone() };
                let inline = *donation != Donation::Updates && size <= MOST_SPLICED;
                let number = calls.made.len() + calls.kept.len();
                calls.kernels.insert(unit.clone(), KernelId::new(number));
                calls.kept.push((unit, inline));
            }
            if outlined {
                let name = module.function(*f).name.clone();
                let kernel = calls.kernel(*f, Donation::Updates);
                calls.rows.push(CallRow { name, equations: size, sites, kernel });
            }
        }
        Ok(calls)
    }

    /// Parses the built-in kernels that the equations of a function need, unless they are parsed already.
    fn make_routines(&mut self, module: &Module, function: FuncId) -> Result<(), Problem> {
        let f = module.function(function);
        for e in &f.equations {
            let Some(Type::Array(y)) = e.outputs.first().map(|o| &f.types[*o]) else { continue };
            let x = e.operands.first().map(|x| f.type_of(*x));
            let x = x.as_ref().and_then(Type::as_array);
            let Some(text) = builtin_kernels::text(&e.lower(module, f), x, y) else { continue };
            if !self.routines.contains_key(&text) {
                self.made.push(loop_ir::parse(&text, &|_| None)?.entry);
                self.routines.insert(text, KernelId::new(self.made.len() - 1));
            }
        }
        Ok(())
    }

    /// Returns the built-in kernel of an equation, given the types of its first operand and its output; `None` if it
    /// has none.
    pub(crate) fn routine(
        &self,
        lowering: &Lowering,
        x: Option<&ArrayType>,
        y: &ArrayType,
    ) -> Option<KernelId> {
        self.routines.get(&builtin_kernels::text(lowering, x, y)?).copied()
    }

    /// Returns the kernel of a function that may overwrite the arguments in `donation`; `None` if the function is not
    /// compiled separately.
    pub(crate) fn kernel(&self, function: FuncId, donation: Donation) -> Option<KernelId> {
        self.kernels.get(&Unit { function, donation }).copied()
    }
}

/// Returns the arguments whose memory a loop or branch body may reuse.
fn carried(module: &Module, op: &Op, body: FuncId) -> Donation {
    match op.lower(module, &[]) {
        Lowering::Loop { body: of, spec } if of == body => Donation::LoopCarries(carries(&spec)),
        Lowering::Branch { branches } => Donation::BranchResults(branch_results(module, &branches)),
        _ => Donation::LoopCarries(Vec::new()),
    }
}

/// Returns pairs (parameter, result) such that every branch returns the parameter as this result, updated or unchanged,
/// and at least one branch updates it. The result of such a pair stays in the parameter's memory.
pub(crate) fn branch_results(module: &Module, branches: &[FuncId]) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let results = branches.first().map_or(0, |f| module.function(*f).results.len());
    for result in 0..results {
        if let Some((p, true)) = common_origin(module, branches, result)
            && pairs.iter().all(|(known, _)| *known != p)
        {
            pairs.push((p, result));
        }
    }
    pairs
}

/// Returns the parameter that every branch returns as this result, updated or unchanged, and whether a branch updates
/// it; `None` if there is no such parameter.
fn common_origin(module: &Module, branches: &[FuncId], result: usize) -> Option<(usize, bool)> {
    let origins = branches.iter().map(|f| origin(module, *f, result));
    let origins = origins.collect::<Option<Vec<(usize, bool)>>>()?;
    let (first, _) = *origins.first()?;
    let changed = origins.iter().any(|(_, changed)| *changed);
    origins.iter().all(|(p, _)| *p == first).then_some((first, changed))
}

/// Returns the parameter that the function returns as this result, updated or unchanged, and whether the function
/// updates it; `None` if there is no such parameter.
fn origin(module: &Module, function: FuncId, result: usize) -> Option<(usize, bool)> {
    let f = module.get(function);
    let mut value = f.results.get(result)?.value()?;
    let mut changed = false;
    for e in f.equations.iter().rev() {
        let Some(n) = e.outputs.iter().position(|o| *o == value) else { continue };
        let operand = match e.lower(module, &f) {
            Lowering::DynamicUpdateSlice | Lowering::Scatter { .. } => {
                changed = true;
                0
            }
            Lowering::Branch { branches } => {
                let (p, inside) = deeper(|| common_origin(module, &branches, n))?;
                changed |= inside;
                1 + p
            }
            Lowering::Loop { spec, .. } => {
                let (p, _) = carries(&spec).into_iter().find(|(_, result)| *result == n)?;
                changed = true;
                spec.lead() + spec.params().take_while(|q| *q < p).count()
            }
            _ => return None,
        };
        value = e.operands.get(operand)?.value()?;
    }
    f.all_params().position(|p| p == value).map(|p| (p, changed))
}

/// Returns the carries of a loop's body, as (parameter, result).
pub(crate) fn carries(spec: &LoopSpec) -> Vec<(usize, usize)> {
    let carry = |(p, slot): (usize, &Binding)| match slot {
        Binding::Carry(result) => Some((p, *result)),
        Binding::Index | Binding::Const | Binding::Xs => None,
    };
    spec.takes.iter().enumerate().filter_map(carry).collect()
}

/// Returns whether a function has results or effects, and all its arrays have elements.
fn has_elements(module: &Module, function: FuncId) -> bool {
    let f = module.function(function);
    let mut types = f.param_types().into_iter().chain(f.result_types());
    (!f.results.is_empty() || module.effects(function) == Effects::Ordered)
        && types.all(|ty| match ty {
            Type::Array(a) => a.shape.elements() > 0,
            Type::Tape(_) => true,
        })
}

/// The functions that are compiled separately, and the kernels and memory plans of those lowered so far.
#[derive(Clone, Copy)]
pub(crate) struct CompiledUnits<'a> {
    pub(crate) calls: &'a Calls,
    pub(crate) callees: &'a PrimaryMap<KernelId, Kernel>,
    pub(crate) plans: &'a PrimaryMap<KernelId, Plan>,
}
