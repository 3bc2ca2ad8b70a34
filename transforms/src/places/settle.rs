//! The pass `ranges`: what integers can only be, they are.
//!
//! ```text
//! func @round(%0: i64[], %1: f64[10]) ..        %0 the number of one of ten rounds
//!   %2: bool[] = lt %0, 0                        false
//!   %3: i64[] = add %0, 10
//!   %4: i64[] = select %2, %3, %0                %0
//! ```
//!
//! So indices that count from the end where they are negative cost nothing where they never are, and are
//! sums for whoever asks where a loop reads and writes. What a body's parameters can be follows from
//! where it is run, so a body that is run in two places becomes two.

use super::known::{Fact, Known};
use smallvec::smallvec;
use tapeloom_ir::prim::{Effects, Lowering};
use tapeloom_ir::{Atom, Code, FuncId, Module, OrderedMap, Problem, deeper, rebuild};

/// The same function, with integers and truth values that can only be one thing replaced by it.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn ranges(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    visit(module, f, &[], &mut OrderedMap::default())
}

/// Functions seen, with what is known of their parameters.
type Seen = OrderedMap<(FuncId, Vec<Fact>), FuncId>;

fn visit(
    module: &mut Module,
    id: FuncId,
    facts: &[Fact],
    seen: &mut Seen,
) -> Result<FuncId, Problem> {
    let key = (id, facts.to_vec());
    if let Some(done) = seen.get(&key) {
        return Ok(*done);
    }
    let f = module.get(id);
    let known = Known::of(module, &f, facts);
    let mut changed = false;
    let new = rebuild(&f, |draft, i, operands| {
        let e = &f.equations[i];
        if let ([y], Effects::Pure) = (e.outputs.as_slice(), e.op.effects(module)) {
            if let Some(x) = known.only(*y) {
                changed = true;
                return Ok(smallvec![x.into()]);
            }
            if let Lowering::Elementwise(Code::Select) = e.lower(module, &f)
                && let Some(which) = known.range(e.operands[0]).only()
            {
                let arm = operands[if which == 0 { 2 } else { 1 }];
                if matches!(arm, Atom::Value(_))
                    || f.types[*y].as_array().is_some_and(|ty| ty.shape.is_empty())
                {
                    changed = true;
                    return Ok(smallvec![arm]);
                }
            }
        }
        let regions = e.op.regions();
        if regions.iter().all(|r| !r.role.runs()) {
            return Ok(draft.copy(&f, i, operands));
        }
        let mut functions = Vec::with_capacity(regions.len());
        for region in &regions {
            functions.push(match region.role.runs() {
                true => {
                    let facts = known.facts(module, e, region);
                    deeper(|| visit(module, region.function, &facts, seen))?
                }
                false => region.function,
            });
        }
        changed |= regions.iter().zip(&functions).any(|(r, f)| r.function != *f);
        Ok(draft.copy_as(e.op.with_regions(&functions), &f, i, operands))
    })?;
    let done = if changed { module.add(new)? } else { id };
    seen.insert(key, done);
    Ok(done)
}
