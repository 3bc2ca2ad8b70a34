//! Transposition: `transpose : (k; dx -o dy) -> (k; ct of dy -o ct of dx)`.
//!
//! A linear program is a network of linear maps; its transpose is the same network with every arrow
//! reversed. Equations that do not depend on the linear parameters run first, as they are; then the
//! linear ones run backwards, each through its primitive's transpose rule, and the cotangents of a
//! value that was read several times add up.
//!
//! ```text
//! func @f.lin(%0: f64[3]; %1: f64[3]) -> (f64[]) {   func @f.bwd(%0: f64[3]; %1: f64[]) -> (f64[3]) {
//!   %2: f64[3] = mul %1, %0                            %2: f64[3] = broadcast{shape=[3], dims=[]} %1
//!   %3: f64[] = reduce_sum{axes=[0]} %2                %3: f64[3] = mul %2, %0
//!   return %3                                          return %3
//! }                                                  }
//! ```

use crate::regions::Transforms;
use crate::sweep::sweep;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{self, Arg, Cotangents, Regions, RuleCx, Total, instantiate};
use tapeloom_ir::question::{Onto, Transpose, TransposeOf};
use tapeloom_ir::{Atom, Builder, Copying, Draft, FuncId, Kind, Module, Problem, ValueId};

/// The same function with the marked ordinary parameters linear (and so last), and calls inlined, if it
/// is linear in them.
///
/// # Errors
/// [`Kind::NotLinear`], with the line of the primitive at fault.
pub fn as_linear(module: &mut Module, f: FuncId, linear: &[bool]) -> Result<FuncId, Problem> {
    prim::as_linear(&mut Transforms, module, f, linear, 0)
}

pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
    Transpose { nonzero, onto }: &Transpose,
) -> Result<TransposeOf, Problem> {
    let f = module.get(id);
    let base = f.name.strip_suffix(".lin").unwrap_or(&f.name);
    let mut draft = Draft::new(format!("{base}.bwd"));
    let mut known = Copying::new();
    for p in &f.params {
        known.bind(*p, draft.param(f.types[*p].clone()));
    }
    let seeds: Vec<Option<Atom>> = f
        .results
        .iter()
        .zip(nonzero)
        .map(|(r, on)| on.then(|| draft.linear_param(f.type_of(*r))))
        .collect();
    let mut ct: SecondaryMap<ValueId, Option<Total>> = SecondaryMap::new();
    let mut linear: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for (p, onto) in f.linear_params.iter().zip(onto) {
        linear[*p] = true;
        if *onto == Onto::Total {
            ct[*p] = Some(draft.linear_param(f.types[*p].clone()).into());
        }
    }
    let b = Builder::new(module, &mut draft);

    // What does not depend on the linear parameters runs forward, unchanged.
    for (i, e) in f.equations.iter().enumerate() {
        if e.operands.iter().any(|a| a.value().is_some_and(|v| linear[v])) {
            for o in &e.outputs {
                linear[*o] = true;
            }
            continue;
        }
        known.define(e, b.copy(&f, i, known.all(&e.operands)));
    }

    // The rest runs backwards.
    for (r, seed) in f.results.iter().zip(seeds) {
        match (r, seed) {
            (Atom::Value(v), Some(seed)) if linear[*v] => {
                accumulate(&b, &mut ct[*v], seed.into());
            }
            _ => {}
        }
    }
    for (i, e) in f.equations.iter().enumerate().rev() {
        if !e.outputs.iter().any(|o| linear[*o]) {
            continue;
        }
        let outputs: Vec<Option<Total>> = e.outputs.iter().map(|o| ct[*o]).collect();
        if outputs.iter().all(Option::is_none) {
            continue;
        }
        b.at(f.location(i));
        // A negation that all cotangents share goes through the rule: it is given their negatives, and
        // what it adds is negated.
        let negated = outputs.iter().flatten().all(|t| t.negated);
        let given = |t: Total| if negated { t.atom } else { t.settle(&b) };
        let outputs: Vec<Option<Atom>> = outputs.into_iter().map(|t| t.map(given)).collect();
        let arg = |a: &Atom| match a {
            Atom::Value(v) if linear[*v] => Arg::Linear(f.types[*v].clone()),
            _ => Arg::Known(known.read(*a)),
        };
        let args: Vec<Arg> = e.operands.iter().map(arg).collect();
        // A total moves into the rule and back out; a value read twice moves in once.
        let mut into = Cotangents { negated, ..Cotangents::default() };
        for a in &e.operands {
            into.total.push(a.value().filter(|v| linear[*v]).and_then(|v| ct[v].take()));
        }
        let mut cx = RuleCx { b: &b, regions: &mut *regions };
        e.op.transpose(&mut cx, &args, &outputs, &mut into).map_err(|p| p.at(f.location(i)))?;
        for (a, total) in e.operands.iter().zip(into.total) {
            if let (Atom::Value(v), Some(total)) = (a, total)
                && linear[*v]
            {
                accumulate(&b, &mut ct[*v], total);
            }
        }
    }
    let total = |(p, onto): (&ValueId, &Onto)| match (ct[*p], onto) {
        (Some(total), Onto::Nothing | Onto::Zeros | Onto::Total) => Some(total.settle(&b)),
        (None, Onto::Zeros | Onto::Total) => Some(instantiate(&b, None, &f.types[*p])),
        (None, Onto::Nothing) => None,
    };
    let totals: Vec<Option<Atom>> = f.linear_params.iter().zip(onto).map(total).collect();
    let results: Vec<Atom> = totals.iter().flatten().copied().collect();
    if draft.problem().is_none() && f.linear_params.is_empty() {
        let message = format!("@{} has no linear parameters to transpose", f.name);
        return Err(Problem::new(Kind::NotLinear, message, "mark them after `;`"));
    }
    let function = sweep(regions, module, draft.close(results)?)?;
    let nonzero = totals.iter().map(Option::is_some).collect();
    Ok(TransposeOf { function: module.add(function)?, nonzero })
}

fn accumulate(b: &Builder<'_>, total: &mut Option<Total>, ct: Total) {
    let before = if planted(Fault::CotangentSum) { None } else { *total };
    *total = Some(before.map_or(ct, |before| before.plus(b, ct)));
}
