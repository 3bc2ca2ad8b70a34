//! What the way back computes again instead of reading it, and the lines that read a value.

use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::Lowering;
use tapeloom_ir::{
    Equation, FuncId, Function, Loc, Module, OrderedMap, OrderedSet, Spot, Type, ValueId,
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
    /// The lines that read it.
    pub read_at: Vec<Spot>,
    /// In how many places of the program.
    pub times: usize,
}

/// What a program computes again, each primitive of each line once.
pub(crate) fn again(module: &Module, function: FuncId) -> Vec<Rematerialized> {
    let mut found: OrderedMap<(&'static str, Type, Loc), (Vec<Spot>, usize)> =
        OrderedMap::default();
    let (mut seen, mut open) = (OrderedSet::default(), vec![function]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let f = module.function(id);
        let mut readers: SecondaryMap<ValueId, Vec<Spot>> = SecondaryMap::new();
        for (i, e) in f.equations.iter().enumerate().rev() {
            open.extend(e.op.regions().iter().filter(|r| r.role.runs()).map(|r| r.function));
            let at = f.location(i);
            // A mark computes nothing.
            let again = at.filter(|at| at.again && !is_mark(module, f, e));
            if let (Some(at), Some(y)) = (again, e.outputs.first()) {
                let key = (e.op.name(), f.types[*y].clone(), Some(at));
                let (read, times) = found.entry(key).or_default();
                *times += 1;
                let more = e.outputs.iter().flat_map(|o| readers[*o].iter().copied());
                more.for_each(|at| tell(read, at));
            }
            for v in e.operands.iter().filter_map(|a| a.value()) {
                at.into_iter().for_each(|at| tell(&mut readers[v], at));
            }
        }
    }
    let again = |((what, ty, location), (read_at, times))| Rematerialized {
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
pub(crate) fn tell(readers: &mut Vec<Spot>, at: Spot) {
    let same = |b: &Spot| (b.file(), b.line(), b.back) == (at.file(), at.line(), at.back);
    if readers.len() < READERS && !readers.iter().any(same) {
        readers.push(at);
    }
}
