//! What the way back computes again instead of reading it, and the lines that read a value.

use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::Lowering;
use tapeloom_ir::{
    Equation, FuncId, Function, Loc, Module, OrderedMap, OrderedSet, Origin, Type, ValueId,
};

/// What the way back computes again at one line.
#[doc(alias = "Again")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rematerialized {
    /// The primitive.
    pub what: &'static str,
    /// What it gives.
    pub ty: Type,
    /// The line.
    pub location: Loc,
    /// What reads it.
    pub read_at: Vec<Origin>,
    /// In how many places of the program.
    pub times: usize,
}

/// What a program computes again, each primitive of each line once.
pub(crate) fn again(module: &Module, function: FuncId) -> Vec<Rematerialized> {
    let mut found: OrderedMap<(&'static str, Type, Origin), (Vec<Origin>, usize)> =
        OrderedMap::default();
    let (mut seen, mut open) = (OrderedSet::default(), vec![function]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let f = module.function(id);
        let mut readers: SecondaryMap<ValueId, Vec<Origin>> = SecondaryMap::new();
        for (i, e) in f.equations.iter().enumerate().rev() {
            open.extend(e.op.regions().iter().filter(|r| r.role.runs()).map(|r| r.function));
            let at = f.origin(i);
            // A mark computes nothing.
            let again = at.phase.rematerialized && !is_mark(module, f, e);
            if let Some(y) = e.outputs.first().filter(|_| again) {
                let key = (e.op.name(), f.types[*y].clone(), at);
                let (read, times) = found.entry(key).or_default();
                *times += 1;
                let more = e.outputs.iter().flat_map(|o| readers[*o].iter().copied());
                more.for_each(|at| tell(read, at));
            }
            for v in e.operands.iter().filter_map(|a| a.value()) {
                tell(&mut readers[v], at);
            }
        }
    }
    let again = |((what, ty, Origin { loc: location, .. }), (read_at, times))| Rematerialized {
        what,
        ty,
        location,
        read_at,
        times,
    };
    found.into_iter().rev().map(again).collect()
}

fn is_mark(module: &Module, f: &Function, e: &Equation) -> bool {
    matches!(e.lower(module, f), Lowering::Alias { .. })
}

/// How many lines that read a value are told.
pub(crate) const READERS: usize = 5;

/// Adds a line to those that read a value, each once.
pub(crate) fn tell(readers: &mut Vec<Origin>, at: Origin) {
    let line = |of: &Origin| (of.loc.map(|loc| (loc.file(), loc.line())), of.phase.order);
    let same = |b: &Origin| line(b) == line(&at);
    if readers.len() < READERS && !readers.iter().any(same) {
        readers.push(at);
    }
}
