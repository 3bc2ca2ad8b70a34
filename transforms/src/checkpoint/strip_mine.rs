//! Loops in blocks of iterations whose bits share words.
//!
//! An iteration that keeps a truth value leaves 31 bits of a word empty, so the stack of all iterations is packed, and until
//! then every bit lies in a byte. Within a budget such a loop is one over blocks of iterations: the rows of a block
//! fill words together, whatever a row has, and the bits of one block at a time lie in bytes.
//!
//! ```text
//! loop{trip=2000, ..} keeps bool[2000,7]      loop{trip=62, ..}, of loop{trip=32, ..}, keeps u32[62,7]
//! ```

use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Binding, LoopSpec, Lowering};
use tapeloom_ir::{
    Builder, FuncId, Function, Module, OrderedSet, Problem, Type, ValueId, deeper, rebuild,
};

/// How many iterations have rows that fill words together: a bit each does.
const WORD: usize = 32;

/// Up to so many bytes may wait until they are packed.
const UNPACKED_BYTES: usize = 512;

/// Bytes of what is packed of all iterations of a loop at once, here or in what is run, because a row of it fills no words:
/// it lies in memory as it is until it is packed, and when it is unpacked. What is little counts nothing.
pub(super) fn waiting(module: &Module, f: FuncId) -> u64 {
    let mut open = OrderedSet::default();
    open.insert(f);
    let (mut next, mut bytes) = (0, 0u64);
    while let Some(f) = open.get_index(next).map(|f| module.function(*f)) {
        bytes = bytes.saturating_add(waiting_here(module, f));
        let regions = f.equations.iter().flat_map(|e| e.op.regions());
        open.extend(regions.filter(|r| r.role.runs()).map(|r| r.function));
        next += 1;
    }
    bytes
}

fn waiting_here(module: &Module, f: &Function) -> u64 {
    // Of what follows from the stack of a loop, the value that is the stack.
    let mut stack: SecondaryMap<ValueId, Option<ValueId>> =
        SecondaryMap::with_capacity(f.types.len());
    let array = |v: ValueId| f.types[v].as_array();
    let mut waiting = 0u64;
    for e in &f.equations {
        if let Some((_, spec)) = e.op.as_loop() {
            for (r, o) in e.outputs.iter().enumerate() {
                let large = array(*o).is_some_and(|ty| ty.bytes() > UNPACKED_BYTES);
                stack[*o] = Some(*o).filter(|_| spec.carrier(r).is_none() && large);
            }
            continue;
        }
        let of = e.operands.first().and_then(|a| a.value()).and_then(|v| stack[v]);
        let follows = of.filter(|_| e.op.regions().is_empty());
        e.outputs.iter().for_each(|o| stack[*o] = follows);
        if let Some(stack) = of.and_then(array)
            && let Some(bits) = e.outputs.first().and_then(|o| array(*o))
            && matches!(e.lower(module, f), Lowering::Alias { mark: Some(mark) } if mark.is_packed())
        {
            // What comes out of words is in numbers of their size first.
            let words = bits.shape.elements() < stack.shape.elements();
            let first = if words && stack.dtype.bytes() > bits.dtype.bytes() {
                stack.shape.elements().saturating_mul(bits.dtype.bytes())
            } else {
                0
            };
            // Its places before and behind are seldom one.
            let both = stack.bytes().saturating_mul(2).saturating_add(first);
            waiting = waiting.saturating_add(both as u64);
        }
    }
    waiting
}

/// The same function, whose loops run in blocks of iterations of which the rows fill words, whatever they are.
pub(super) fn in_blocks(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let f = module.get(f);
    let copy = rebuild(&f, |draft, i, operands| {
        let op = &f.equations[i].op;
        let op = op.with_runs(|inside| deeper(|| in_blocks(module, inside)))?;
        if !op.as_loop().is_some_and(|(body, spec)| carries_most(module, body, &spec)) {
            return Ok(draft.copy_as(op, &f, i, operands));
        }
        let b = Builder::new(module, draft);
        b.at(f.origin(i));
        Ok(op.emit_in_blocks(&b, &operands, WORD).into())
    })?;
    module.add(copy)
}

/// Whether iterations carry more than twice the bytes that they are given and give, element by element: in blocks the
/// cotangents of elements are put together from those of blocks, which takes more than bits that wait.
fn carries_most(module: &Module, body: FuncId, spec: &LoopSpec) -> bool {
    let f = module.function(body);
    let bytes = |ty: &Type| ty.as_array().map_or(0, |ty| ty.bytes());
    let (mut carried, mut elements) = (0, 0);
    for (slot, ty) in spec.takes.iter().zip(f.param_types()) {
        match slot {
            Binding::Carry(_) => carried += bytes(&ty),
            Binding::Xs => elements += bytes(&ty),
            Binding::Index | Binding::Const => {}
        }
    }
    let given = f.result_types().into_iter().enumerate();
    let stacked = given.filter(|(r, _)| spec.carrier(*r).is_none());
    elements += stacked.map(|(_, ty)| bytes(&ty)).sum::<usize>();
    2 * elements <= carried
}
