//! `promote_reads`: passes to branches the elements that they read of an array, in place of the array.
//!
//! ```text
//! %4 = cond{branches=[@no,@yes]} %3, %0, %1       @yes(%0: f64[100], %1: i64[]) reads %0[%1 + 1]
//! ```
//! becomes
//! ```text
//! %4 = add %1, 1
//! %5 = gather .. %0, %4
//! %6 = cond{branches=[@no,@yes]} %3, %5
//! ```
//!
//! The element is read whichever branch runs. An out-of-range index behaves as in the branch. So an array that the
//! iterations of an enclosing loop change is not an operand of the branches, and its cotangent is not a result of their
//! derivatives.

use super::region_rewriter::{RegionSite, Replacement, Rewrite, inside_out};
use crate::passes::pass::{Pass, Run};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Effects, Exactness, Lowering};
use tapeloom_ir::{
    Atom, Builder, Draft, Equation, FuncId, Function, Module, Problem, Type, ValueId, ValueRemap,
};

/// If a branch reads more than this number of elements of an array, it takes the array, not the elements. The index
/// arithmetic before such a read may use arrays of at most that size.
const FEW: usize = 64;

/// The entry of the pass `promote_reads` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "promote_reads",
    about: "branches take the elements of an array that they read, instead of the array",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| inside_out(module, f, Rewrite::Loops(promoted))),
};

fn promoted(RegionSite { b, op, operands, .. }: &RegionSite<'_>) -> Replacement {
    let Lowering::Branch { branches } = b.with_module(|m| op.lower(m, &[])) else {
        return Ok(None);
    };
    let lifted = lifted(b, &branches, &operands[1..])?;
    Ok(lifted.map(|(branches, given)| {
        let operands = [&operands[..1], &given].concat();
        b.emit(op.with_regions(&branches), &operands).to_vec()
    }))
}

/// The rewritten branches, which take elements in place of arrays, and the operands of the new `cond` after its
/// condition.
type PromotedBranches = (Vec<FuncId>, Vec<Atom>);

/// Rewrites branches to take elements in place of arrays; returns the new branches with their operands, or `None` if no
/// operand qualifies.
fn lifted(
    b: &Builder<'_>,
    branches: &[FuncId],
    arguments: &[Atom],
) -> Result<Option<PromotedBranches>, Problem> {
    let (mut all, mut given, mut changed) = (branches.to_vec(), arguments.to_vec(), false);
    let mut at = 0;
    while at < given.len() {
        let functions: Vec<_> = b.with_module(|m| all.iter().map(|f| m.get(*f)).collect());
        let reads: Option<Vec<Vec<usize>>> =
            b.with_module(|m| functions.iter().map(|f| reads(m, f, at)).collect());
        let Some(reads) = reads else {
            at += 1;
            continue;
        };
        let mut elements = Vec::new();
        for (f, reads) in functions.iter().zip(&reads) {
            elements.extend(outside(b, f, reads, &given));
        }
        let mut before = 0;
        for (id, (f, reads)) in all.iter_mut().zip(functions.iter().zip(&reads)) {
            let types: Vec<Type> = elements.iter().map(|a| b.type_of(*a)).collect();
            *id = b.with_module(|m| inside(m, f, at, reads, before, &types))?;
            before += reads.len();
        }
        given.remove(at);
        let known = b.with_module(|m| m.function(all[0]).params.len()) - elements.len();
        given.splice(known..known, elements);
        changed = true;
    }
    Ok(changed.then_some((all, given)))
}

/// Returns the indices of the equations that read elements of parameter `param`; `None` unless all its uses are
/// reads of at most `FEW` elements, at indices computed from other parameters.
fn reads(module: &Module, f: &Function, param: usize) -> Option<Vec<usize>> {
    let p = Atom::Value(*f.params.get(param)?);
    let all = match f.type_of(p) {
        Type::Array(ty) if !ty.shape.is_empty() => ty.shape.elements(),
        _ => return None,
    };
    if f.results.contains(&p) {
        return None;
    }
    let users = f.equations.iter().enumerate().filter(|(_, e)| e.operands.contains(&p));
    let users: Vec<usize> = users.map(|(i, _)| i).collect();
    let reads = |e: &Equation| {
        let lowering = e.lower(module, f);
        matches!(lowering, Lowering::Gather { .. } | Lowering::DynamicSlice)
            && e.operands[0] == p
            && !e.operands[1..].contains(&p)
    };
    let elements = |o: &ValueId| f.types[*o].as_array().map_or(all, |ty| ty.shape.elements());
    let sum: usize = users.iter().flat_map(|i| &f.equations[*i].outputs).map(elements).sum();
    let fine = users.iter().all(|i| reads(&f.equations[*i])) && sum <= FEW && 2 * sum < all;
    (fine && slice(module, f, &users).is_some()).then_some(users)
}

/// Returns, in order, the indices of the equations `wanted` and of all equations that compute their operands; `None`
/// unless the equations that compute operands are index arithmetic on parameters.
fn slice(module: &Module, f: &Function, wanted: &[usize]) -> Option<Vec<usize>> {
    let mut live: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    let mut needed = Vec::new();
    for (i, e) in f.equations.iter().enumerate().rev() {
        let is_wanted = wanted.contains(&i);
        if !is_wanted && !e.outputs.iter().any(|o| live[*o]) {
            continue;
        }
        let index = |ty: &Type| {
            ty.as_array().is_some_and(|ty| !ty.dtype.is_float() && ty.shape.elements() <= FEW)
        };
        let simple = matches!(
            e.lower(module, f),
            Lowering::Elementwise(_) | Lowering::View { .. } | Lowering::Reshape
        );
        let fine = simple && e.outputs.iter().all(|o| index(&f.types[*o]));
        if e.op.effects(module) != Effects::Pure || !(is_wanted || fine) {
            return None;
        }
        needed.push(i);
        e.operands.iter().filter_map(|a| a.value()).for_each(|v| live[v] = true);
    }
    needed.reverse();
    Some(needed)
}

/// Emits, in front of the `cond`, the equations `reads` of a branch and all equations that compute their operands;
/// returns the elements that `reads` read.
fn outside(b: &Builder<'_>, f: &Function, reads: &[usize], given: &[Atom]) -> Vec<Atom> {
    let needed = b.with_module(|m| slice(m, f, reads)).unwrap_or_default();
    let mut copying = ValueRemap::with(f, given.iter().copied());
    for i in needed {
        let e = &f.equations[i];
        copying.define(e, b.copy(f, i, copying.all(&e.operands)));
    }
    reads.iter().map(|i| copying.read(f.equations[*i].outputs[0].into())).collect()
}

/// Returns the branch without parameter `param`, the array. The elements that all branches read become the last
/// parameters; the elements of this branch begin at index `first` among these parameters.
fn inside(
    module: &mut Module,
    f: &Function,
    param: usize,
    reads: &[usize],
    first: usize,
    types: &[Type],
) -> Result<FuncId, Problem> {
    let mut draft = Draft::new(f.name.clone());
    let mut copying = ValueRemap::new();
    for (_, p) in f.params.iter().enumerate().filter(|(at, _)| *at != param) {
        copying.bind(*p, draft.param(f.types[*p].clone()));
    }
    let elements: Vec<Atom> = types.iter().map(|ty| draft.param(ty.clone())).collect();
    for p in &f.linear_params {
        copying.bind(*p, draft.linear_param(f.types[*p].clone()));
    }
    for (i, e) in f.equations.iter().enumerate() {
        match reads.iter().position(|read| *read == i) {
            Some(k) => copying.define(e, [elements[first + k]]),
            None => {
                copying.define(e, draft.copy(f, i, copying.all(&e.operands)));
            }
        }
    }
    draft.finish(module, copying.results(f))
}
