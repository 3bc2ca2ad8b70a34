//! Lists the equations that the reverse pass recomputes, with the source lines that read their results.

use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::Lowering;
use tapeloom_ir::{
    Equation, FuncId, Function, Loc, Module, OrderedMap, OrderedSet, Origin, Type, ValueId,
};

/// An equation that the reverse pass recomputes. Equal equations of one source line are listed once, with a count.
#[doc(alias = "Again")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rematerialized {
    /// The name of the equation's primitive.
    pub what: &'static str,
    /// The type of the equation's first output.
    pub ty: Type,
    /// The user's source line of the equation.
    pub location: Loc,
    /// The equations that read the recomputed results; at most `READERS` are listed.
    pub read_at: Vec<Origin>,
    /// The number of recomputed equations with this primitive, type and source line.
    pub times: usize,
}

/// Returns the equations that a program recomputes, listed once for each primitive, type and source line.
pub(crate) fn rematerialized(module: &Module, function: FuncId) -> Vec<Rematerialized> {
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
            // Marks (barriers and names) compute nothing, so they are not listed.
            let recomputed = at.phase.rematerialized && !is_mark(module, f, e);
            if let Some(y) = e.outputs.first().filter(|_| recomputed) {
                let key = (e.op.name(), f.types[*y].clone(), at);
                let (read, times) = found.entry(key).or_default();
                *times += 1;
                let more = e.outputs.iter().flat_map(|o| readers[*o].iter().copied());
                more.for_each(|at| add_reader(read, at));
            }
            for v in e.operands.iter().filter_map(|a| a.value()) {
                add_reader(&mut readers[v], at);
            }
        }
    }
    let row = |((what, ty, Origin { loc: location, .. }), (read_at, times))| Rematerialized {
        what,
        ty,
        location,
        read_at,
        times,
    };
    found.into_iter().rev().map(row).collect()
}

fn is_mark(module: &Module, f: &Function, e: &Equation) -> bool {
    matches!(e.lower(module, f), Lowering::Alias { .. })
}

/// The most readers (equations that read a value) that a report lists for one value.
pub(crate) const READERS: usize = 5;

/// Adds an equation to the listed readers of a value. Does nothing if a reader with this source line and pass, or
/// `READERS` readers, are listed already.
pub(crate) fn add_reader(readers: &mut Vec<Origin>, at: Origin) {
    let line = |of: &Origin| (of.loc.map(|loc| (loc.file(), loc.line())), of.phase.order);
    let same = |b: &Origin| line(b) == line(&at);
    if readers.len() < READERS && !readers.iter().any(same) {
        readers.push(at);
    }
}
