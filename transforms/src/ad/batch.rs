//! Vectorization: `batch n : (x -> y) -> ([n, x] -> [n, y])`, the program behind `vmap`.
//!
//! A batched value has the batch on axis 0. A value that depends on no batched parameter is computed once. Each
//! primitive's batching rule emits the primitive over a whole batch.

use cranelift_entity::SecondaryMap;
use tapeloom_ir::lang::query::{Batch, BatchOf, BatchRequest};
use tapeloom_ir::prim::{Effects, Regions, RuleCx, batch_as_requested};
use tapeloom_ir::{
    Atom, Builder, Draft, FuncId, Module, Origin, Problem, Type, ValueId, ValueRemap,
};

/// Returns the type `ty` with the batch as a new axis 0 of extent `size`.
fn leading(ty: &Type, size: usize) -> Result<Type, Problem> {
    match ty {
        Type::Array(a) => Ok(Type::array(a.dtype, &a.shape.with_leading(size))),
        // Every batch member has its own residuals, so each field of the tape gets the batch axis.
        Type::Tape(fields) => {
            let fields = fields.iter().map(|ty| leading(ty, size));
            Ok(Type::Tape(fields.collect::<Result<_, _>>()?))
        }
    }
}

pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
    Batch { size, batched, wanted }: &Batch,
) -> Result<BatchOf, Problem> {
    let size = *size;
    let f = module.get(id);
    let mut draft = Draft::new(format!("{}.batch", f.name));
    let mut map = ValueRemap::new();
    let mut on: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for (i, (p, b)) in f.all_params().zip(batched).enumerate() {
        let ty = if *b { leading(&f.types[p], size)? } else { f.types[p].clone() };
        map.bind(p, draft.param_of(i >= f.params.len(), ty));
        on[p] = *b;
    }
    let b = Builder::new(module, &mut draft);
    for (i, e) in f.equations.iter().enumerate() {
        b.at(f.origin(i));
        let x = map.all(&e.operands);
        let mask: Vec<bool> = e.operands.iter().map(|a| a.value().is_some_and(|v| on[v])).collect();
        // An equation with an ordered effect (a print, a check) must perform the effect once for every batch member,
        // even if no operand is batched.
        let seen = b.with_module(|m| e.op.effects(m)) == Effects::Ordered;
        if !mask.contains(&true) && !seen {
            map.define(e, b.copy(&f, i, x));
            continue;
        }
        let mut cx = RuleCx { b: &b, regions: &mut *regions, shares: &[], reads: &[] };
        let of = e.op.batch(&mut cx, size, &x, &mask).map_err(|p| p.at(f.location(i)))?;
        map.define(e, of.y);
        for (old, lifted) in e.outputs.iter().zip(of.batched) {
            on[*old] = lifted;
        }
    }
    b.at(Origin::default());
    let result = |(r, wanted): (&Atom, &BatchRequest)| {
        let batched = r.value().is_some_and(|v| on[v]);
        batch_as_requested(&b, size, map.read(*r), batched, *wanted)
    };
    let (results, batched_out) = f.results.iter().zip(wanted).map(result).unzip();
    Ok(BatchOf { function: draft.finish(module, results)?, batched_out })
}
