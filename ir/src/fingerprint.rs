//! Fingerprints of the stages of a compile, to detect whether a change of the code changed any program.
//!
//! A refactoring must not change compiled programs. So each stage of a compile can be reduced to a number that depends
//! on the structure of a program alone (ids, offsets, types, literals), never on names, source lines, times or texts,
//! which may be renamed. Two compiles are the same if every stage has the same number.
//!
//! To get the fingerprints of the compiles in one closure, [collect] them. To get those of a whole process, name a
//! file in the environment variable [`FILE`]: then every compile of the process appends a line for each stage,
//! `stage input output`, to be compared as a set with the lines of another build. Otherwise no fingerprint is
//! computed.
//!
//! ```
//! use tapeloom_ir::{fingerprint, parse_module};
//! let of = |text: &str| {
//!     let module = parse_module(text).map_err(|e| e[0].clone())?;
//!     let (f, _) = module.iter().last().ok_or("no function")?;
//!     Ok::<u64, Box<dyn std::error::Error>>(fingerprint::function(&module, f))
//! };
//! let square = "func @f(%0: f64[]) -> (f64[]) {\n  %1: f64[] = mul %0, %0\n  return %1\n}";
//! assert_eq!(of(square)?, of(&square.replace("@f", "@renamed"))?);
//! assert_ne!(of(square)?, of(&square.replace("mul", "add"))?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Numbers of two builds are comparable on one machine and with one version of the hasher; they are no lasting
//! ids.
//!
//! Model: process replay of tinygrad, where a refactoring must generate the same kernels to the byte.

use crate::lang::function::FuncId;
use crate::lang::module::Module;
use crate::map::OrderedMap;
use crate::prim::Op;
use cranelift_entity::EntityRef;
use rustc_hash::FxHasher;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The environment variable that names the file to which every compile of a process appends its fingerprints.
pub const FILE: &str = "TAPELOOM_FINGERPRINTS";

/// One stage of a compile, with the fingerprints of its input and output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stage {
    /// The name of the stage.
    pub name: &'static str,
    /// The fingerprint of the stage's input.
    pub input: u64,
    /// The fingerprint of the stage's output.
    pub output: u64,
}

thread_local! {
    static COLLECTED: RefCell<Option<Vec<Stage>>> = const { RefCell::new(None) };
}

/// Returns the file that the environment variable [`FILE`] names, opened once per process; `None` if it is not set.
fn file() -> Option<&'static Mutex<File>> {
    static OPEN: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    let open = || {
        let path = std::env::var_os(FILE)?;
        OpenOptions::new().create(true).append(true).open(path).ok().map(Mutex::new)
    };
    OPEN.get_or_init(open).as_ref()
}

/// Returns whether fingerprints are collected on this thread, or written to a file; else they need not be computed.
pub fn wanted() -> bool {
    COLLECTED.with_borrow(Option::is_some) || file().is_some()
}

/// Records a stage of a compile, if fingerprints are [wanted]: only then calls `input` and `output`, which compute
/// its fingerprints.
pub fn record(name: &'static str, input: impl FnOnce() -> u64, output: impl FnOnce() -> u64) {
    if !wanted() {
        return;
    }
    let stage = Stage { name, input: input(), output: output() };
    COLLECTED.with_borrow_mut(|list| list.iter_mut().for_each(|list| list.push(stage)));
    if let Some(file) = file() {
        let Stage { name, input, output } = stage;
        let line = format!("{name} {input:016x} {output:016x}\n");
        // Write each line by one call, so that lines of several processes do not mix.
        let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}

/// Calls `f`; returns its result, and the stages of all compiles that ran during the call on this thread.
pub fn collect<T>(f: impl FnOnce() -> T) -> (T, Vec<Stage>) {
    let before = COLLECTED.replace(Some(Vec::new()));
    let result = f();
    let stages = COLLECTED.replace(before).unwrap_or_default();
    (result, stages)
}

/// Returns the fingerprint of a value: a hash that does not depend on the process.
pub fn of(value: &impl Hash) -> u64 {
    let mut state = FxHasher::default();
    value.hash(&mut state);
    state.finish()
}

/// Returns the fingerprint of a function. It depends also on all functions to which the function refers.
pub fn function(module: &Module, f: FuncId) -> u64 {
    let mut known: OrderedMap<FuncId, u64> = OrderedMap::default();
    let mut pending = vec![f];
    while let Some(&next) = pending.last() {
        let regions = module.function(next).equations.iter().flat_map(|e| e.op.regions());
        let missing: Vec<FuncId> =
            regions.map(|r| r.function).filter(|callee| !known.contains_key(callee)).collect();
        if missing.is_empty() {
            pending.pop();
            let fingerprint = alone(module, next, &known);
            known.insert(next, fingerprint);
        } else {
            pending.extend(missing);
        }
    }
    known[&f]
}

/// Returns the fingerprint of function `f`, given the fingerprints of its callees.
fn alone(module: &Module, f: FuncId, callees: &OrderedMap<FuncId, u64>) -> u64 {
    let f = module.function(f);
    let mut state = FxHasher::default();
    f.params.hash(&mut state);
    f.linear_params.hash(&mut state);
    for e in &f.equations {
        e.outputs.hash(&mut state);
        primitive(&e.op, callees, &mut state);
        e.operands.hash(&mut state);
    }
    f.results.hash(&mut state);
    f.phases.hash(&mut state);
    f.types.values().for_each(|ty| ty.hash(&mut state));
    state.finish()
}

fn primitive(op: &Op, callees: &OrderedMap<FuncId, u64>, state: &mut FxHasher) {
    if op.host().is_some() || matches!(op, Op::Barrier(_)) {
        // For a call of a Rust function and for a barrier, hash only the kind of primitive: the numbers of Rust
        // functions depend on the process, and a barrier's marks are names.
        return std::mem::discriminant(op).hash(state);
    }
    let regions = op.regions();
    if regions.is_empty() {
        return op.hash(state);
    }
    // The ids of callees depend on the module, so hash the callees' fingerprints instead.
    let places: Vec<FuncId> = (0..regions.len()).map(FuncId::new).collect();
    op.with_regions(&places).hash(state);
    regions.iter().for_each(|r| callees[&r.function].hash(state));
}
