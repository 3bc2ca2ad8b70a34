//! The walk of passes on loops: innermost loops first, each with what is known of its rounds.

use super::known::{Fact, Known};
use tapeloom_ir::{
    Atom, Builder, FuncId, Module, Op, OrderedMap, Policy, Problem, deeper, rebuild,
};

/// The outputs of an equation that does the same as one that runs functions, if there is one: the
/// equation's primitive, its operands, and what is known of the parameters of the first function it runs.
pub(super) type Better =
    fn(&Builder<'_>, &Op, &[Atom], &[Fact]) -> Result<Option<Vec<Atom>>, Problem>;

/// Functions seen, with what is known of their parameters.
pub(super) type Seen = OrderedMap<(FuncId, Vec<Fact>), FuncId>;

/// The same function, with what is better in the place of what runs functions.
pub(super) fn inside_out(
    module: &mut Module,
    id: FuncId,
    facts: &[Fact],
    better: Better,
    seen: &mut Seen,
) -> Result<FuncId, Problem> {
    let key = (id, facts.to_vec());
    if let Some(done) = seen.get(&key) {
        return Ok(*done);
    }
    let f = module.get(id);
    if f.equations.iter().all(|e| e.op.regions().is_empty()) {
        return Ok(id);
    }
    let known = Known::of(module, &f, facts);
    let mut changed = false;
    let new = rebuild(&f, |draft, i, operands| {
        let e = &f.equations[i];
        let regions = e.op.regions();
        let Some(first) = regions.first() else { return Ok(draft.copy(&f, i, operands)) };
        // Who takes arrays for memory wants all of it.
        if let Some(Policy::Aliased | Policy::Disjoint) = e.op.policy() {
            return Ok(draft.copy(&f, i, operands));
        }
        let mut functions = Vec::with_capacity(regions.len());
        for region in &regions {
            functions.push(match region.role.runs() {
                true => {
                    let facts = known.facts(module, e, region);
                    deeper(|| inside_out(module, region.function, &facts, better, seen))?
                }
                false => region.function,
            });
        }
        changed |= regions.iter().zip(&functions).any(|(r, f)| r.function != *f);
        let op = e.op.with_regions(&functions);
        let inside = known.facts(module, e, first);
        let b = Builder::new(module, draft);
        b.at(f.location(i));
        let outputs = better(&b, &op, &operands, &inside)?;
        changed |= outputs.is_some();
        Ok(match outputs {
            Some(outputs) => outputs.into(),
            None => draft.copy_as(op, &f, i, operands),
        })
    })?;
    let done = if changed { module.add(new)? } else { id };
    seen.insert(key, done);
    Ok(done)
}
