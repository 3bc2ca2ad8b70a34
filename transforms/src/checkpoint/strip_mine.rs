//! Loops in blocks of iterations whose bits share words.
//!
//! An iteration that saves one truth value would leave 31 bits of a word empty, so the stack of all iterations is
//! packed, and until then every truth value takes a byte. Within a budget, such a loop becomes a loop over blocks of
//! iterations. The rows of a block fill words together, whatever the size of a row, and only one block at a time is
//! unpacked.
//!
//! ```text
//! loop{trip=2000, ..} saves bool[2000,7]      loop{trip=62, ..}, of loop{trip=32, ..}, saves u32[62,7]
//! ```

use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Binding, LoopSpec, Lowering};
use tapeloom_ir::{
    Builder, FuncId, Function, Module, OrderedSet, Problem, Type, ValueId, deeper, rebuild,
};

/// The number of iterations in a block: the number of bits of a 32-bit word, so that the rows (one iteration's residual
/// each) of a block fill whole words even if each has one bit.
const WORD: usize = 32;

/// The size in bytes up to which a stack (one residual of all iterations) is not counted, although it stays unpacked
/// until its loop ends.
const UNPACKED_BYTES: usize = 512;

/// Returns the bytes that stacks of loops (one residual of all iterations each) take while they are unpacked, in `f`
/// and in all functions that it runs. A stack whose rows do not fill words is packed as a whole, so it is in memory
/// unpacked before its packing and after its unpacking. Stacks of at most `UNPACKED_BYTES` do not count.
pub(super) fn unpacked_bytes(module: &Module, f: FuncId) -> u64 {
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
    // Per value computed from the stack of a loop (all iterations of one residual): that stack.
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
            && matches!(e.lower(module, f), Lowering::Alias { mark: Some(mark), .. } if mark.is_packed())
        {
            // Rows (one iteration's residual each) are unpacked from words through an array with one word-sized integer
            // per element.
            let words = bits.shape.elements() < stack.shape.elements();
            let first = if words && stack.dtype.bytes() > bits.dtype.bytes() {
                stack.shape.elements().saturating_mul(bits.dtype.bytes())
            } else {
                0
            };
            // Count the unpacked stack (one residual of all iterations) twice: the memory before packing is seldom used
            // again after unpacking.
            let both = stack.bytes().saturating_mul(2).saturating_add(first);
            waiting = waiting.saturating_add(both as u64);
        }
    }
    waiting
}

/// Returns a copy of `f` whose loops run in blocks of `WORD` iterations, so that the packed residuals of a block fill
/// words.
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

/// Returns whether the carries of a loop have at least twice the bytes of the elements that one iteration reads and
/// writes. If so, blocks do not pay: the cotangents of elements are assembled from the cotangents of blocks, which
/// takes more memory than unpacked bits.
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
