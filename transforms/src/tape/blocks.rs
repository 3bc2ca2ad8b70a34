//! Loops in blocks of rounds whose bits share words.
//!
//! A round that keeps a truth value leaves 31 bits of a word empty, so the stack of all rounds is packed, and until
//! then every bit lies in a byte. Within a budget such a loop is one over blocks of rounds: the rows of a block
//! fill words together, whatever a row has, and the bits of one block at a time lie in bytes.
//!
//! ```text
//! loop{trip=2000, ..} keeps bool[2000,7]      loop{trip=62, ..}, of loop{trip=32, ..}, keeps u32[62,7]
//! ```

use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Lowering, Region, Rounds, Slot, is_packed};
use tapeloom_ir::{
    Builder, FuncId, Function, Module, OrderedSet, Problem, Type, ValueId, deeper, rebuild,
};

/// How many rounds have rows that fill words together: a bit each does.
const WORD: usize = 32;

/// Up to so many bytes may wait until they are packed.
const LITTLE: usize = 512;

/// Whether something of some size is packed of all rounds of a loop at once, here or in what is run: because a row of
/// it fills no words. Until then it lies there as it is.
pub(super) fn packs_stacks(module: &Module, f: FuncId) -> bool {
    let mut open = OrderedSet::default();
    open.insert(f);
    let mut next = 0;
    while let Some(f) = open.get_index(next).map(|f| module.function(*f)) {
        if packs_own_stacks(module, f) {
            return true;
        }
        let regions = f.equations.iter().flat_map(|e| e.op.regions());
        open.extend(regions.filter(|r| r.role.runs()).map(|r| r.function));
        next += 1;
    }
    false
}

fn packs_own_stacks(module: &Module, f: &Function) -> bool {
    let mut stack: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    f.equations.iter().any(|e| {
        if let Some((_, rounds)) = e.op.as_loop(module) {
            let outputs = e.outputs.iter().enumerate();
            let large = |o| f.types[o].as_array().is_some_and(|ty| ty.bytes() > LITTLE);
            outputs.for_each(|(r, o)| stack[*o] = rounds.carrier(r).is_none() && large(*o));
            return false;
        }
        let of_stack = e.operands.first().and_then(|a| a.value()).is_some_and(|v| stack[v]);
        e.outputs.iter().for_each(|o| stack[*o] = of_stack && e.op.regions().is_empty());
        let packed = |name: &str| is_packed(name) && of_stack;
        matches!(e.lower(module, f), Lowering::Alias { kept: Some(name) } if packed(&name))
    })
}

/// The same function, whose loops run in blocks of rounds of which the rows fill words, whatever they are.
pub(super) fn in_blocks(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let f = module.get(f);
    let copy = rebuild(&f, |draft, i, operands| {
        let op = &f.equations[i].op;
        let inside = |r: &Region| match r.role.runs() {
            true => deeper(|| in_blocks(module, r.function)),
            false => Ok(r.function),
        };
        let functions: Result<Vec<FuncId>, Problem> = op.regions().iter().map(inside).collect();
        let op = op.with_regions(&functions?);
        if !op.as_loop(module).is_some_and(|(body, rounds)| carries_most(module, body, &rounds)) {
            return Ok(draft.copy_as(op, &f, i, operands));
        }
        let b = Builder::new(module, draft);
        b.at(f.location(i));
        Ok(op.emit_in_blocks(&b, &operands, WORD).into())
    })?;
    module.add(copy)
}

/// Whether rounds carry more than twice the bytes that they are given and give, element by element: in blocks the
/// cotangents of elements are put together from those of blocks, which takes more than bits that wait.
fn carries_most(module: &Module, body: FuncId, rounds: &Rounds) -> bool {
    let f = module.function(body);
    let bytes = |ty: &Type| ty.as_array().map_or(0, |ty| ty.bytes());
    let (mut carried, mut elements) = (0, 0);
    for (slot, ty) in rounds.takes.iter().zip(f.param_types()) {
        match slot {
            Slot::Carry(_) => carried += bytes(&ty),
            Slot::Xs => elements += bytes(&ty),
            Slot::Index | Slot::Const => {}
        }
    }
    let given = f.result_types().into_iter().enumerate();
    let stacked = given.filter(|(r, _)| rounds.carrier(*r).is_none());
    elements += stacked.map(|(_, ty)| bytes(&ty)).sum::<usize>();
    2 * elements <= carried
}
