//! Two halves in one function that share what is kept and nothing else.
//!
//! Constants, which follow from no parameter, are made in both halves. Where both stand in one function, equal
//! equations are one, and weights by position or the noise of a fixed key would live from the forward pass to
//! the way back after all. So whoever wants less memory has the linear half compute them from a literal behind
//! `keep`, which no pass looks through:
//!
//! ```text
//! %2: f64[4] = cos %1                %2: f64[] = keep{name=recompute} 1.0
//!                                    %3: f64[4] = broadcast{shape=[4], dims=[]} %2
//!                                    %4: f64[4] = mul %1, %3
//!                                    %5: f64[4] = cos %4
//! ```
//!
//! What is kept is given behind `keep{name=held}`, and a backend has memory for it and nothing larger: else it
//! keeps what the value follows from, the array of which it is a part, say.

use super::prices::moves;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Effects, HELD, Lowering, Op, apart_from};
use tapeloom_ir::question::{LinearizeOf, Residual};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Copying, Dtype, FuncId, Module, Problem, Shape, Type, ValueId,
    rebuild,
};

/// What follows from no parameter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Constant {
    /// It is none.
    #[default]
    No,
    /// One number over and over, which costs nothing.
    Uniform,
    /// Others at other places.
    Varied,
}

/// The same derivative, in halves that share what is kept.
pub(super) fn apart(module: &mut Module, mut of: LinearizeOf) -> Result<LinearizeOf, Problem> {
    of.fwd = held(module, of.fwd, &of.residuals)?;
    of.lin = unlike(module, of.lin)?;
    Ok(of)
}

/// The forward half, which gives what is kept behind a mark.
fn held(module: &mut Module, id: FuncId, residuals: &[Residual]) -> Result<FuncId, Problem> {
    let f = module.get(id);
    let kept = residuals.iter().filter_map(|residual| match *residual {
        Residual::Parameter(_) => None,
        Residual::Result(i) | Residual::Kept(i) => Some(i),
    });
    let array = |i: &usize| f.results[*i].value().is_some_and(|v| f.types[v].as_array().is_some());
    let kept: Vec<usize> = kept.filter(array).collect();
    if kept.is_empty() {
        return Ok(id);
    }
    let (mut draft, mut copying) = Copying::same_signature(&f);
    for (i, e) in f.equations.iter().enumerate() {
        copying.define(e, draft.copy(&f, i, copying.all(&e.operands)));
    }
    let mut results = copying.results(&f);
    for i in kept {
        let b = Builder::new(module, &mut draft);
        results[i] = b.emit1(Op::keep(HELD), &[results[i]]);
    }
    let copy = draft.close(results)?;
    module.add(copy)
}

/// The linear half, of which no constant is one of the forward half.
fn unlike(module: &mut Module, id: FuncId) -> Result<FuncId, Problem> {
    let id = crate::inline(module, id)?;
    let f = module.get(id);
    let mut constants: SecondaryMap<ValueId, Constant> = SecondaryMap::with_capacity(f.types.len());
    // What is hidden, and of elementwise equations the shape.
    let mut hidden: Vec<Option<Option<Shape>>> = vec![None; f.equations.len()];
    for (e, hidden) in f.equations.iter().zip(&mut hidden) {
        let of = |a: &Atom| a.value().map_or(Constant::Uniform, |v| constants[v]);
        let operands: Vec<Constant> = e.operands.iter().map(of).collect();
        if operands.contains(&Constant::No) || e.op.effects(module) != Effects::Pure {
            continue;
        }
        let all = match operands.iter().max() {
            Some(all) if e.op.regions().is_empty() => *all,
            Some(_) | None => Constant::Varied,
        };
        e.outputs.iter().for_each(|o| constants[*o] = all);
        let sized = e.outputs.iter().find_map(|o| computed(&f.types[*o]));
        *hidden = sized.filter(|_| all == Constant::Varied && !moves(module, &f, e)).map(|ty| {
            let elementwise = matches!(e.lower(module, &f), Lowering::Elementwise(_));
            elementwise.then(|| ty.shape.clone())
        });
    }
    if hidden.iter().all(Option::is_none) {
        return Ok(id);
    }
    let copy = rebuild(&f, |draft, i, mut operands| {
        if let Some(elementwise) = &hidden[i] {
            let b = Builder::new(module, draft);
            b.at(f.location(i));
            hide(&b, elementwise.as_ref(), &mut operands);
        }
        Ok(draft.copy(&f, i, operands))
    })?;
    module.add(copy)
}

/// An array of neither indices nor truth values, which are worked out where they are read.
fn computed(ty: &Type) -> Option<&ArrayType> {
    let of = |ty: &&ArrayType| match ty.dtype {
        Dtype::F32 | Dtype::F64 | Dtype::U32 | Dtype::U64 => true,
        Dtype::Bool | Dtype::I32 | Dtype::I64 => false,
    };
    ty.as_array().filter(of)
}

/// Makes operands others than those of the same equation elsewhere: a literal of an elementwise one, or a float.
fn hide(b: &Builder<'_>, elementwise: Option<&Shape>, operands: &mut [Atom]) {
    let literal = operands.iter_mut().find(|a| a.literal().is_some());
    if let (Some(shape), Some(a)) = (elementwise, literal) {
        *a = apart_from(b, *a, shape);
        return;
    }
    let array = |a: Atom| a.value().and_then(|_| b.type_of(a).as_array().cloned());
    let float = |a: Atom| array(a).filter(|ty| ty.dtype.is_float());
    if let Some((a, ty)) = operands.iter_mut().find_map(|a| float(*a).map(|ty| (a, ty))) {
        *a = apart_from(b, *a, &ty.shape);
    }
}
