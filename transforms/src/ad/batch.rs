//! Vectorization: `batch n : (x -> y) -> ([n, x] -> [n, y])`, the program behind `vmap`.
//!
//! A batched value has the batch on axis 0. A value that depends on no batched parameter is computed once. Each
//! primitive's batching rule emits the primitive over a whole batch.

use cranelift_entity::SecondaryMap;
use tapeloom_ir::lang::query::{Batch, BatchOf, BatchRequest};
use tapeloom_ir::prim::{Effects, Regions, RuleCx, batch_as_requested};
use tapeloom_ir::{
    Atom, Builder, Draft, FuncId, Function, Module, Origin, Problem, Type, ValueId, ValueRemap,
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
    let f = module.get(id);
    let (mut draft, mut batching) = Batching::begin(&f, *size, batched)?;
    let b = Builder::new(module, &mut draft);
    for i in 0..f.equations.len() {
        batching.equation(regions, &b, i)?;
    }
    let (results, batched_out) = batching.results(&b, wanted);
    Ok(BatchOf { function: draft.finish(module, results)?, batched_out })
}

/// A function, while its equations are batched one after the other.
pub(super) struct Batching<'f> {
    f: &'f Function,
    size: usize,
    /// The values of the batched function for those of `f`.
    pub(super) map: ValueRemap,
    /// Per value of `f`: whether it is batched.
    pub(super) on: SecondaryMap<ValueId, bool>,
}

impl<'f> Batching<'f> {
    /// Returns a draft with the parameters of the batched function.
    pub(super) fn begin(
        f: &'f Function,
        size: usize,
        batched: &[bool],
    ) -> Result<(Draft, Batching<'f>), Problem> {
        let mut draft = Draft::new(format!("{}.batch", f.name));
        let mut map = ValueRemap::new();
        let mut on: SecondaryMap<ValueId, bool> = SecondaryMap::new();
        for (i, (p, b)) in f.all_params().zip(batched).enumerate() {
            let ty = if *b { leading(&f.types[p], size)? } else { f.types[p].clone() };
            map.bind(p, draft.param_of(i >= f.params.len(), ty));
            on[p] = *b;
        }
        Ok((draft, Batching { f, size, map, on }))
    }

    /// Emits equation `i` for the whole batch, by the batching rule of its primitive.
    pub(super) fn equation(
        &mut self,
        regions: &mut dyn Regions,
        b: &Builder<'_>,
        i: usize,
    ) -> Result<(), Problem> {
        let (f, on) = (self.f, &mut self.on);
        let e = &f.equations[i];
        b.at(f.origin(i));
        let x = self.map.all(&e.operands);
        let mask: Vec<bool> = e.operands.iter().map(|a| a.value().is_some_and(|v| on[v])).collect();
        // An equation with an ordered effect (a print, a check) must perform the effect once for every batch member,
        // even if no operand is batched.
        let seen = b.with_module(|m| e.op.effects(m)) == Effects::Ordered;
        if !mask.contains(&true) && !seen {
            self.map.define(e, b.copy(f, i, x));
            return Ok(());
        }
        let mut cx = RuleCx { b, regions, shares: &[], reads: &[] };
        let of = e.op.batch(&mut cx, self.size, &x, &mask).map_err(|p| p.at(f.location(i)))?;
        self.map.define(e, of.y);
        for (old, lifted) in e.outputs.iter().zip(of.batched) {
            on[*old] = lifted;
        }
        Ok(())
    }

    /// Returns the results of the batched function in the requested forms, and which of them are batched.
    pub(super) fn results(
        &self,
        b: &Builder<'_>,
        wanted: &[BatchRequest],
    ) -> (Vec<Atom>, Vec<bool>) {
        b.at(Origin::default());
        let result = |(r, wanted): (&Atom, &BatchRequest)| {
            let batched = r.value().is_some_and(|v| self.on[v]);
            batch_as_requested(b, self.size, self.map.read(*r), batched, *wanted)
        };
        self.f.results.iter().zip(wanted).map(result).unzip()
    }
}
