//! Vectorization: `batch n : (x -> y) -> ([n, x] -> [n, y])`, the program behind `vmap`.
//!
//! A batched value carries the batch on axis 0. A value that depends on no batched parameter is
//! computed once. Each primitive's batching rule says what it is over a whole batch.

use crate::regions::Transforms;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{BatchOf, RuleCx};
use tapeloom_ir::{
    Builder, Copying, Derived, Draft, FuncId, Function, Key, Module, Problem, Type, ValueId,
};

/// `f` over a batch of `size`: parameters marked `batched` get a new axis 0 of that extent.
///
/// # Errors
/// What a batching rule reports.
pub fn batch(
    module: &mut Module,
    f: FuncId,
    size: usize,
    batched: &[bool],
) -> Result<BatchOf, Problem> {
    let mut key = Key::masked("batch", f, batched);
    key.detail.push(size as u64);
    if let Some(Derived { functions, mask }) = module.recall(&key) {
        return Ok(BatchOf { function: functions[0], batched_out: mask.clone() });
    }
    let (function, batched_out) = lift(module, f, size, batched)?;
    let function = module.add(function)?;
    module.remember(key, Derived { functions: vec![function], mask: batched_out.clone() });
    Ok(BatchOf { function, batched_out })
}

/// The type with a leading axis.
fn leading(ty: &Type, size: usize) -> Result<Type, Problem> {
    match ty {
        Type::Array(a) => Ok(Type::array(a.dtype, &a.shape.with_leading(size))),
        Type::Tape(_) | Type::Ref(_) => {
            Err(Problem::internal(format!("a parameter of type {ty} cannot be batched")))
        }
    }
}

fn lift(
    module: &mut Module,
    id: FuncId,
    size: usize,
    batched: &[bool],
) -> Result<(Function, Vec<bool>), Problem> {
    let f = module.get(id);
    let mut draft = Draft::new(format!("{}.batch", f.name));
    let mut map = Copying::new();
    let mut on: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for (i, (p, b)) in f.all_params().zip(batched).enumerate() {
        let ty = if *b { leading(&f.types[p], size)? } else { f.types[p].clone() };
        let linear = i >= f.params.len();
        map.bind(p, if linear { draft.linear_param(ty) } else { draft.param(ty) });
        on[p] = *b;
    }
    let b = Builder::new(module, &mut draft);
    for (i, e) in f.equations.iter().enumerate() {
        b.at(f.location(i));
        let x = map.all(&e.operands);
        let mask: Vec<bool> = e.operands.iter().map(|a| a.value().is_some_and(|v| on[v])).collect();
        if !mask.contains(&true) {
            map.define(e, b.copy(&f, i, x));
            continue;
        }
        let mut transforms = Transforms;
        let mut cx = RuleCx { b: &b, regions: &mut transforms };
        let of = e.op.batch(&mut cx, size, &x, &mask).map_err(|p| p.at(f.location(i)))?;
        map.define(e, of.y);
        for (old, lifted) in e.outputs.iter().zip(of.batched) {
            on[*old] = lifted;
        }
    }
    let batched_out = f.results.iter().map(|r| r.value().is_some_and(|v| on[v])).collect();
    Ok((draft.close(map.results(&f))?, batched_out))
}
