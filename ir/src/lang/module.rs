//! Modules: an append-only arena of immutable functions.
//!
//! A transform never edits a function. It appends a new one. So the pair (function, query) is a sound key, and the
//! module memoizes the answers: differentiating the same callee a second time is a lookup. Equal functions are stored
//! once (hash-consing). A module belongs to one trace, or to one file of text, and is dropped with it.

use crate::lang::function::{FuncId, Function};
use crate::lang::host::Host;
use crate::lang::phase::Phase;
use crate::lang::problem::Problem;
use crate::lang::query::{Memo, Query};
use crate::lang::stack::{DEEPEST_CALL, deeper, too_deep};
use crate::map::{OrderedMap, OrderedSet};
use crate::prim::{Effects, Op, Region};
use cranelift_entity::{EntityRef, SecondaryMap};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// An arena of functions, with a memo of derived functions.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// All functions; the index of a function is its id. Equal functions are stored once.
    functions: OrderedSet<Arc<Function>>,
    /// Per function: the first function of the module that equals it if the phases (forward or reverse pass) of
    /// equations, also in callees, are ignored. `None` if no earlier function equals it in this way.
    alike: SecondaryMap<FuncId, Option<FuncId>>,
    /// Copies of functions in which all equations have the default phase. Each maps to the first function of the module
    /// that equals the copy if phases (forward or reverse pass) are ignored. A copy that is itself a function of the
    /// module is not listed.
    unphased: OrderedMap<Arc<Function>, FuncId>,
    /// The memoized answers to queries; boxed because the memo is larger than all other fields together.
    memo: Box<Memo>,
    effects: SecondaryMap<FuncId, Effects>,
    /// Per function: whether a user can observe that the function, or a derivative of it, runs
    /// ([`Module::is_seen`]).
    seen: SecondaryMap<FuncId, bool>,
    /// Per function: whether running it calls a Rust function of the user.
    outside: SecondaryMap<FuncId, bool>,
    /// Per function: whether running it runs a loop whose trip count is known only at run time.
    dynamic: SecondaryMap<FuncId, bool>,
    /// Per function: the nesting depth of its calls, 0 for a function without calls.
    depths: SecondaryMap<FuncId, usize>,
    /// The bytes in memory of all functions, without the heap memory of their primitives.
    bytes: usize,
    /// The number of operations for which batches are divided into chunks; see [`Module::divide_batches`].
    chunk_operations: Option<NonZeroUsize>,
}

impl Module {
    /// Makes an empty module.
    pub fn new() -> Module {
        Module::default()
    }

    /// Adds a function and returns its id. If the module already has an equal function, adds nothing and returns the id
    /// of that function.
    ///
    /// # Errors
    /// [`Kind::TooLarge`](crate::Kind::TooLarge) if the function's calls nest deeper than [`DEEPEST_CALL`].
    pub fn add(&mut self, function: Function) -> Result<FuncId, Problem> {
        let function = Arc::new(function);
        let (index, new) = self.functions.insert_full(function.clone());
        let id = FuncId::new(index);
        if !new {
            return Ok(id);
        }
        let depth = self.depth_of(&function);
        if depth > DEEPEST_CALL {
            self.functions.pop();
            return Err(too_deep(&format!("the calls of @{}", function.name), depth, DEEPEST_CALL));
        }
        let effects = function.equations.iter().map(|e| e.op.effects(self)).max();
        self.effects[id] = effects.unwrap_or_default();
        let inside = |f: FuncId| self.seen[f];
        self.seen[id] = self.effects[id] == Effects::Ordered
            || function.equations.iter().flat_map(|e| e.op.regions()).any(|r| inside(r.function));
        self.outside[id] = function.equations.iter().any(|e| self.calls_out(&e.op));
        self.dynamic[id] = function.equations.iter().any(|e| self.runs_dynamic_loop(&e.op));
        self.depths[id] = depth;
        self.bytes += function.bytes();
        self.alike[id] = self.first_alike(id, &function);
        Ok(id)
    }

    /// Returns the first function in the module that equals the new function `id` if phases (forward or reverse pass)
    /// are ignored; `None` if the new one is the first.
    fn first_alike(&mut self, id: FuncId, function: &Arc<Function>) -> Option<FuncId> {
        let phased = function.phases.iter().any(|phase| *phase != Phase::FORWARD);
        let mut callees = function.equations.iter().flat_map(|e| e.op.regions());
        if !phased && callees.all(|r| self.alike[r.function].is_none()) {
            return self.unphased.get(function).copied();
        }
        let mut plain = (**function).clone();
        plain.phases.fill(Phase::FORWARD);
        plain.equations.iter_mut().for_each(|e| e.op = self.unphased(&e.op));
        if let Some(index) = self.functions.get_index_of(&plain) {
            let first = FuncId::new(index);
            return Some(self.alike[first].unwrap_or(first));
        }
        let first = *self.unphased.entry(Arc::new(plain)).or_insert(id);
        (first != id).then_some(first)
    }

    /// Returns the primitive as a key for merging equal equations: each function that the primitive refers to is
    /// replaced by the first function of the module that equals this function if phases (forward or reverse pass) are
    /// ignored.
    pub fn unphased(&self, op: &Op) -> Op {
        let regions = op.regions();
        if regions.iter().all(|r| self.alike[r.function].is_none()) {
            return op.clone();
        }
        let alike = regions.iter().map(|r| self.alike[r.function].unwrap_or(r.function));
        op.with_regions(&alike.collect::<Vec<_>>())
    }

    /// Adds function `f` of the module `from`, together with all functions that it runs or refers to; returns its
    /// id in this module.
    ///
    /// # Errors
    /// Those of [`Module::add`].
    pub fn import(&mut self, from: &Module, f: FuncId) -> Result<FuncId, Problem> {
        let mut needed: BTreeSet<FuncId> = BTreeSet::from([f]);
        let mut pending = vec![f];
        while let Some(f) = pending.pop() {
            for e in &from.function(f).equations {
                let callees = e.op.regions().into_iter().map(|r| r.function);
                pending.extend(callees.filter(|callee| needed.insert(*callee)));
            }
        }
        // Functions refer only to functions added before them, so callees come first.
        let mut here: OrderedMap<FuncId, FuncId> = OrderedMap::default();
        for old in needed {
            let mut function = (*from.get(old)).clone();
            for e in &mut function.equations {
                let regions = e.op.regions();
                if !regions.is_empty() {
                    let inside: Vec<FuncId> = regions.iter().map(|r| here[&r.function]).collect();
                    e.op = e.op.with_regions(&inside);
                }
            }
            here.insert(old, self.add(function)?);
        }
        Ok(here[&f])
    }

    /// Returns the nesting depth of a function's calls: one more than that of its deepest callee, 0 without
    /// callees. Callees were added before, so their depths are known.
    fn depth_of(&self, function: &Function) -> usize {
        let callees = function.equations.iter().flat_map(|e| e.op.regions());
        callees.map(|r| self.depths[r.function] + 1).max().unwrap_or(0)
    }

    /// Returns the nesting depth of a function's calls: 0 for a function without calls.
    pub fn depth(&self, id: FuncId) -> usize {
        self.depths[id]
    }

    /// Returns the function with that id. The handle is reference-counted, so it can be held while the module
    /// grows.
    pub fn get(&self, id: FuncId) -> Arc<Function> {
        self.functions[id.index()].clone()
    }

    /// Borrows the function with that id.
    pub fn function(&self, id: FuncId) -> &Function {
        &self.functions[id.index()]
    }

    /// Returns the effects of running a function: the strongest effect among its equations, computed when the function
    /// was added.
    pub fn effects(&self, id: FuncId) -> Effects {
        self.effects[id]
    }

    /// Returns whether a user can observe that the function, or a derivative of it, runs. This is so if the function
    /// has an ordered effect, or refers to a derivative rule with an ordered effect.
    pub fn is_seen(&self, id: FuncId) -> bool {
        self.seen[id]
    }

    /// Returns whether running a function calls a Rust function of the user.
    pub fn runs_outside(&self, id: FuncId) -> bool {
        self.outside[id]
    }

    /// Returns whether running an equation of the primitive `op` calls a Rust function of the user, directly or in
    /// a function that it runs.
    pub fn calls_out(&self, op: &Op) -> bool {
        let inside = |r: &Region| r.role.runs() && self.outside[r.function];
        op.host().is_some() || op.regions().iter().any(inside)
    }

    /// Returns whether running an equation of the primitive `op` runs a loop whose trip count is known only at run time,
    /// directly or in a function that it runs.
    pub fn runs_dynamic_loop(&self, op: &Op) -> bool {
        let inside = |r: &Region| r.role.runs() && self.dynamic[r.function];
        op.is_dynamic_loop() || op.regions().iter().any(inside)
    }

    /// From now on, `vmap` of this module's functions divides a batch into chunks where each chunk then waits for its own
    /// slowest member alone. One iteration of such a chunk has about `operations` operations. Without this call, and for
    /// 0, batches are not divided.
    pub fn divide_batches(&mut self, operations: usize) {
        self.chunk_operations = NonZeroUsize::new(operations);
    }

    /// Returns the number of operations of an iteration of a chunk, or `None` if batches are not divided.
    pub fn chunk_operations(&self) -> Option<NonZeroUsize> {
        self.chunk_operations
    }

    /// Returns the bytes in memory of all functions, without the heap memory of their primitives.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the module has a function with that id.
    pub fn contains(&self, id: FuncId) -> bool {
        id.index() < self.functions.len()
    }

    /// Iterates over all functions in the order in which they were added; callees come before callers.
    pub fn iter(&self) -> impl Iterator<Item = (FuncId, &Function)> {
        self.functions.iter().enumerate().map(|(i, f)| (FuncId::new(i), &**f))
    }

    /// Returns the Rust functions that the functions of this module call, without repetition.
    pub fn hosts(&self) -> Vec<Host> {
        let mut hosts = Vec::new();
        for host in self.iter().flat_map(|(_, f)| &f.equations).filter_map(|e| e.op.host()) {
            if !hosts.contains(host) {
                hosts.push(host.clone());
            }
        }
        hosts
    }

    /// Returns the answer to `query` about function `f`. The first time, `make` computes the answer;
    /// later calls return the memoized answer.
    ///
    /// # Errors
    /// Any error of `make`.
    pub fn answer<Q: Query>(
        &mut self,
        f: FuncId,
        query: Q,
        make: impl FnOnce(&mut Module, &Q) -> Result<Q::Answer, Problem>,
    ) -> Result<Q::Answer, Problem> {
        let key = (f, query);
        if let Some(known) = Q::answers(&mut self.memo).get(&key) {
            return Ok(known.clone());
        }
        let answer = deeper(|| make(self, &key.1))?;
        Q::answers(&mut self.memo).insert(key, answer.clone());
        Ok(answer)
    }
}
