//! Modules: an append-only arena of immutable functions.
//!
//! A transform never edits a function; it appends a new one. So the pair (transform, function) is a
//! sound key, and the module remembers what was derived from what: differentiating the same callee
//! twice costs nothing. Equal functions are stored once (hash-consing). A module belongs to one
//! trace, or to one file of text, and is dropped with it.

use crate::function::{FuncId, Function};
use crate::prim::{Attr, Effects};
use crate::problem::{Kind, Problem};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use std::collections::HashMap;
use std::sync::Arc;

/// What a derived function depends on: the transform's name, the function, and every other choice
/// (active set, batched axes, policy), written as numbers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// The name of the transform: `jvp`, `batch`, ...
    pub transform: &'static str,
    /// The function transformed.
    pub function: FuncId,
    /// All its other arguments.
    pub detail: Vec<u64>,
}

impl Key {
    /// A key whose detail is one mask.
    pub fn masked(transform: &'static str, function: FuncId, mask: &[bool]) -> Key {
        let detail = mask.iter().map(|b| u64::from(*b)).collect();
        Key { transform, function, detail }
    }
}

/// What a transform answered: the functions it made and which outputs they have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Derived {
    /// The derived functions, in an order that the transform defines.
    pub functions: Vec<FuncId>,
    /// A mask over outputs or inputs, with a meaning that the transform defines.
    pub mask: Vec<bool>,
}

/// How deep calls may nest. The interpreter and the transforms walk from a function to those that it
/// calls by recursion, and a level takes up to 12 KiB of stack in a debug build; a hundred fit into
/// the 2 MiB that a thread has unless it was given more.
pub const DEEPEST_CALL: usize = 100;

/// The problem of calls that nest deeper than [`DEEPEST_CALL`].
pub(crate) fn too_deep(what: &str, depth: usize) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("{what} nest {depth} deep, and {DEEPEST_CALL} is the most that can"),
        "apply some of the closures directly, without a transform, an outline or a jit around each",
    )
}

/// An arena of functions with a memo of derived ones.
#[derive(Clone, Debug, Default)]
pub struct Module {
    functions: PrimaryMap<FuncId, Arc<Function>>,
    interned: HashMap<Arc<Function>, FuncId>,
    memo: HashMap<Key, Derived>,
    effects: SecondaryMap<FuncId, Effects>,
    /// How deep the calls of each function nest: 0 for one that calls nothing.
    depths: SecondaryMap<FuncId, usize>,
}

impl Module {
    /// An empty module.
    pub fn new() -> Module {
        Module::default()
    }

    /// Adds a function; an equal one that is already there is returned instead.
    ///
    /// # Errors
    /// [`Kind::TooLarge`] when its calls nest deeper than [`DEEPEST_CALL`].
    pub fn add(&mut self, function: Function) -> Result<FuncId, Problem> {
        let function = Arc::new(function);
        if let Some(&id) = self.interned.get(&function) {
            return Ok(id);
        }
        let depth = self.depth_of(&function);
        if depth > DEEPEST_CALL {
            return Err(too_deep(&format!("the calls of @{}", function.name), depth));
        }
        let effects = function.equations.iter().map(|e| e.op.effects(self)).max();
        let id = self.functions.push(function.clone());
        self.effects[id] = effects.unwrap_or_default();
        self.depths[id] = depth;
        self.interned.insert(function, id);
        Ok(id)
    }

    /// One more than the deepest function that it calls. Known from when those were added.
    fn depth_of(&self, function: &Function) -> usize {
        let attributes = function.equations.iter().flat_map(|e| e.op.attributes());
        let callees = attributes.filter_map(|(_, attribute)| match attribute {
            Attr::Func(f) => Some(f),
            _ => None,
        });
        callees.map(|f| self.depths[f] + 1).max().unwrap_or(0)
    }

    /// How deep the calls of a function nest: 0 for one that calls nothing.
    pub fn depth(&self, id: FuncId) -> usize {
        self.depths[id]
    }

    /// The function of that id. The handle is counted, so it can be held while the module grows.
    pub fn get(&self, id: FuncId) -> Arc<Function> {
        self.functions[id].clone()
    }

    /// The function of that id, borrowed.
    pub fn function(&self, id: FuncId) -> &Function {
        &self.functions[id]
    }

    /// Whether running a function does more than compute its results. Known from when it was added,
    /// so that asking costs nothing however deep its calls nest.
    pub fn effects(&self, id: FuncId) -> Effects {
        self.effects[id]
    }

    /// Whether an id belongs to this module.
    pub fn contains(&self, id: FuncId) -> bool {
        self.functions.is_valid(id)
    }

    /// Every function, in the order in which they were added (callees before callers).
    pub fn iter(&self) -> impl Iterator<Item = (FuncId, &Function)> {
        self.functions.iter().map(|(id, f)| (id, &**f))
    }

    /// What was derived under that key, if anything.
    pub fn recall(&self, key: &Key) -> Option<&Derived> {
        self.memo.get(key)
    }

    /// Remembers what was derived under that key.
    pub fn remember(&mut self, key: Key, derived: Derived) {
        self.memo.insert(key, derived);
    }
}
