//! Functions that all elementwise primitives share: shapes, evaluation, derivatives from partials, batching.
//!
//! An elementwise primitive applies one [`Code`] to corresponding elements of operands of equal shape.
//! Literals, and only literals, have no shape. Broadcasting is explicit in the language, so a transpose never
//! has to sum over an implicit broadcast.
//!
//! Derivatives come from partials: for `y = f(x0, x1)` the i-th partial gives `∂f/∂xi · t` as a formula that is
//! linear in `t`. `jvp` is the sum of the partials at the tangents. The Jacobian of an elementwise function is
//! diagonal and so equals its transpose, so the cotangent of a linear operand is the same formula at the
//! cotangent.

use super::code::{Number, Outcome};
use super::{Accumulator, Arg, Broadcast, Code, Cotangents, Expr, Operand, Scalar, Tangent};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Shape, Type};
use crate::prim::{Linearity, Op};
use crate::tensor::{Element, Tensor};
use smallvec::SmallVec;

/// A function that emits `∂f/∂xi · t`, given `t`, the operands and the output.
pub type PartialFn =
    for<'b, 'm> fn(t: Expr<'b, 'm>, x: &[Expr<'b, 'm>], y: Expr<'b, 'm>) -> Expr<'b, 'm>;

/// The partial derivative of an elementwise function with respect to one operand.
#[derive(Clone, Copy)]
pub enum Partial {
    /// The partial is zero wherever it exists, or the operand's dtype has no tangents; the text gives
    /// the reason.
    Zero(&'static str),
    /// The formula that emits the partial derivative times the tangent t, `∂f/∂xi · t`.
    Of(PartialFn),
    /// A formula that emits `-∂f/∂xi · t`: it is subtracted in the sum of the partials.
    Minus(PartialFn),
    /// The partial of a quotient `x/y` with respect to `y`, as two formulas. The first is subtracted in
    /// the sum of the partials, as `Minus`. If `x` has a tangent `s` too, the sum is instead the
    /// partial of `x` with `s` minus the second formula as its tangent: `(s - t · (x/y)) / y`, which
    /// divides once, in reverse mode too.
    MinusJoined(PartialFn, PartialFn),
    /// The partial is not available. A derivative with respect to this operand is an error with this reason.
    Missing(&'static str),
}

/// The operands in which an elementwise function is linear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linear {
    /// The function is linear in no operand.
    No,
    /// The function is linear in each of these operands alone, with the others fixed (a product).
    Each(&'static [usize]),
    /// The function is linear in all of these operands together (a sum).
    Joint(&'static [usize]),
}

impl Linear {
    /// Returns whether the function is linear in the operands marked `Linearity::Linear` together.
    pub fn admits(self, operands: &[Linearity]) -> bool {
        let linear = |i: usize| operands[i] == Linearity::Linear;
        let count = (0..operands.len()).filter(|i| linear(*i)).count();
        match self {
            Linear::No => false,
            Linear::Each(slots) => count == 1 && slots.iter().any(|i| linear(*i)),
            Linear::Joint(slots) => {
                let outside = (0..operands.len()).any(|i| !slots.contains(&i) && linear(i));
                let affine = slots.iter().any(|i| operands[*i] == Linearity::Constant);
                !outside && !affine
            }
        }
    }
}

/// Returns the common shape of the operands that are not literals (scalar if all are literals), and the
/// dtypes of all operands.
pub fn common_shape(name: &str, operands: &[Operand<'_>]) -> Result<(Shape, SmallVec<[Dtype; 3]>)> {
    let mut shape: Option<&Shape> = None;
    let mut dtypes = SmallVec::new();
    for o in operands {
        let Type::Array(ty) = o.ty else {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`{name}` works on arrays, got {}", o.ty),
                "",
            ));
        };
        dtypes.push(ty.dtype);
        match shape {
            _ if o.literal.is_some() => {}
            None => shape = Some(&ty.shape),
            Some(s) if *s == ty.shape => {}
            Some(_) => {
                let list: Vec<String> = operands.iter().map(|o| o.ty.to_string()).collect();
                return Err(Problem::new(
                    Kind::Shape,
                    format!("`{name}` needs equal shapes, got {}", list.join(" and ")),
                    "make the shapes equal or broadcastable",
                ));
            }
        }
    }
    Ok((shape.cloned().unwrap_or_default(), dtypes))
}

/// Evaluates `code` at corresponding elements of the operands; returns the tensor of the results.
pub fn eval(code: Code, operands: &[Tensor]) -> Result<Tensor> {
    // Literals are passed as scalars; the shape is that of an operand that is not a scalar.
    let model = operands.iter().find(|t| !t.shape().is_empty()).or(operands.last());
    let (Some(model), Some(last)) = (model, operands.last()) else {
        return Err(Problem::internal("an elementwise primitive without operands"));
    };
    let mut y = Tensor::zeros_of(&ArrayType::new(code.result(last.dtype()), model.shape()))?;
    match (code, operands, last.dtype()) {
        (Code::Convert(_) | Code::Bitcast(_), ..) | (_, _, Dtype::Bool) => {
            by_literals(code, operands, &mut y)
        }
        (Code::Select, [c, a, b], dtype) => match dtype {
            Dtype::F32 | Dtype::I32 | Dtype::U32 => choose::<u32>(c, a, b, &mut y),
            _ => choose::<u64>(c, a, b, &mut y),
        },
        (_, _, Dtype::I32) => map::<i32>(code, operands, &mut y),
        (_, _, Dtype::I64) => map::<i64>(code, operands, &mut y),
        (_, _, Dtype::U32) => map::<u32>(code, operands, &mut y),
        (_, _, Dtype::U64) => map::<u64>(code, operands, &mut y),
        (_, _, Dtype::F32) => map::<f32>(code, operands, &mut y),
        (_, _, Dtype::F64) => map::<f64>(code, operands, &mut y),
    }
    Ok(y)
}

/// Returns the step through an operand's elements from one element of the result to the next: 1 for an
/// array, 0 for a scalar, which is read for every element of the result.
fn stride(t: &Tensor) -> usize {
    usize::from(!t.shape().is_empty())
}

/// Applies `code` to each element of operands of one dtype, directly on the buffers; the result `y` has
/// the operands' dtype or bool.
fn map<T: Number>(code: Code, operands: &[Tensor], y: &mut Tensor) {
    let operand = |k: usize| &operands[k.min(operands.len() - 1)];
    let [(a, i), (b, j), (c, k)] =
        [0, 1, 2].map(|n| (operand(n).stored::<T>(), stride(operand(n))));
    let apply = |at: usize| T::apply(code, [a[at * i], b[at * j], c[at * k]]);
    if y.dtype() == Dtype::Bool {
        for (at, slot) in y.stored_mut::<bool>().iter_mut().enumerate() {
            *slot = u8::from(matches!(apply(at), Outcome::Truth(true)));
        }
    } else {
        for (at, slot) in y.stored_mut::<T>().iter_mut().enumerate() {
            if let Outcome::Number(v) = apply(at) {
                *slot = v;
            }
        }
    }
}

/// Evaluates a select: elements of `a` where `condition` is true, of `b` elsewhere. `T` has the size of an element.
fn choose<T: Element<Stored = T>>(condition: &Tensor, a: &Tensor, b: &Tensor, y: &mut Tensor) {
    let [i, j, k] = [condition, a, b].map(stride);
    let (condition, a, b) = (condition.stored::<bool>(), a.stored::<T>(), b.stored::<T>());
    for (at, slot) in y.stored_mut::<T>().iter_mut().enumerate() {
        *slot = if condition[at * i] != 0 { a[at * j] } else { b[at * k] };
    }
}

/// Applies `code` to operands of different dtypes, element by element; each element is read and written
/// as a literal.
fn by_literals(code: Code, operands: &[Tensor], y: &mut Tensor) {
    let mut x: SmallVec<[Literal; 3]> = SmallVec::new();
    for at in 0..y.elements() {
        x.clear();
        x.extend(operands.iter().map(|t| t.at(at * stride(t))));
        y.put(at, code.eval(&x));
    }
}

/// Emits the tangent of the output `y`: the sum of the partials at the operands' tangents `dx`.
pub fn jvp(
    b: &Builder<'_>,
    op: Op,
    (partials, linear): (&[Partial], Linear),
    x: &[Atom],
    y: Atom,
    dx: &[Tangent],
) -> Result<Tangent> {
    // A function that is linear in several operands together is its own derivative in them: the tangent of a select is
    // one select of tangents, not the sum of two selects with zeros.
    if let Linear::Joint(slots) = linear
        && slots.iter().all(|i| dx[*i].is_some())
    {
        let at = |(i, x): (usize, &Atom)| dx[i].filter(|_| slots.contains(&i)).unwrap_or(*x);
        let tangents: SmallVec<[Atom; 3]> = x.iter().enumerate().map(at).collect();
        return Ok(Some(b.emit1(op, &tangents)));
    }
    let exprs: SmallVec<[Expr<'_, '_>; 3]> = x.iter().map(|a| Expr::new(b, *a)).collect();
    if let ([Partial::Of(first), Partial::MinusJoined(_, joined)], [Some(s), Some(t)]) =
        (partials, dx)
    {
        let y = Expr::new(b, y);
        let inside = Expr::new(b, *s) - joined(Expr::new(b, *t), &exprs, y);
        return Ok(Some(first(inside, &exprs, y).atom));
    }
    let mut total: Option<Accumulator> = None;
    for (t, partial) in dx.iter().zip(partials) {
        let Some(t) = t else { continue };
        let term = |f: &PartialFn| f(Expr::new(b, *t), &exprs, Expr::new(b, y)).atom;
        let term = match partial {
            Partial::Zero(_) => continue,
            Partial::Of(f) => Accumulator::from(term(f)),
            Partial::Minus(f) | Partial::MinusJoined(f, _) => -Accumulator::from(term(f)),
            Partial::Missing(why) => return Err(missing(op.name(), why)),
        };
        total = Some(total.map_or(term, |sum| sum.plus(b, term)));
    }
    Ok(total.map(|t| t.apply_sign(b)))
}

/// Adds to `into` the cotangent of each linear operand: the operand's partial at `ct`, since the Jacobian is diagonal.
/// The partial must not use a linear operand or the output, so NaN literals stand for these here.
pub fn transpose(
    b: &Builder<'_>,
    name: &str,
    partials: &[Partial],
    x: &[Arg],
    ct: Atom,
    into: &mut Cotangents,
) -> Result<()> {
    let placeholder = || Expr::new(b, Literal::of(b.dtype_of(ct), f64::NAN).into());
    let exprs: SmallVec<[Expr<'_, '_>; 3]> =
        x.iter().map(|a| a.known().map_or_else(placeholder, |a| Expr::new(b, a))).collect();
    for (i, (arg, partial)) in x.iter().zip(partials).enumerate() {
        let Arg::Linear(_) = arg else { continue };
        let back =
            |f: &PartialFn| Accumulator::from(f(Expr::new(b, ct), &exprs, placeholder()).atom);
        match partial {
            Partial::Zero(_) => {}
            Partial::Of(f) => into.add(b, i, back(f)),
            Partial::Minus(f) | Partial::MinusJoined(f, _) => into.add(b, i, -back(f)),
            Partial::Missing(why) => return Err(missing(name, why)),
        }
    }
    Ok(())
}

/// Emits the primitive over a batch of `size`: unbatched arrays are broadcast along the batch axis,
/// literals are unchanged.
pub fn batch(b: &Builder<'_>, op: Op, size: usize, x: &[Atom], batched: &[bool]) -> Result<Atom> {
    let lifted: SmallVec<[Atom; 3]> =
        x.iter().zip(batched).map(|(a, on)| if *on { *a } else { lead(b, size, *a) }).collect();
    Ok(b.emit1(op, &lifted))
}

/// Broadcasts an array along a new axis 0 of extent `size`; returns a literal unchanged.
pub fn lead(b: &Builder<'_>, size: usize, a: Atom) -> Atom {
    if a.literal().is_some() {
        return a;
    }
    materialize_lead(b, size, a)
}

/// Broadcasts an array or a literal along a new axis 0 of extent `size`; the result is always an array.
pub fn materialize_lead(b: &Builder<'_>, size: usize, a: Atom) -> Atom {
    let inner = b.shape_of(a);
    let dims = (1..=inner.len()).collect();
    b.emit1(Broadcast { shape: inner.with_leading(size), dims }, &[a])
}

/// Emits an array (or a literal, if scalar) of zeros of type `ty`.
pub fn zeros(b: &Builder<'_>, ty: &ArrayType) -> Atom {
    full(b, &ty.shape, Literal::zero(ty.dtype))
}

/// Emits zeros of the type of `x`.
pub fn zeros_like(b: &Builder<'_>, x: Atom) -> Atom {
    full(b, &b.shape_of(x), Literal::zero(b.dtype_of(x)))
}

/// Emits an array whose elements are all `x`; a scalar shape gives the literal `x`.
pub fn full(b: &Builder<'_>, shape: &Shape, x: Literal) -> Atom {
    if shape.is_empty() {
        return x.into();
    }
    b.emit1(Broadcast { shape: shape.clone(), dims: Vec::new() }, &[x.into()])
}

/// Returns the tangents `dx` of the operands `x`. An absent tangent is replaced by zeros of the operand's type.
pub fn tangents_or_zeros(b: &Builder<'_>, x: &[Atom], dx: &[Tangent]) -> SmallVec<[Atom; 3]> {
    x.iter().zip(dx).map(|(x, dx)| dx.unwrap_or_else(|| zeros_like(b, *x))).collect()
}

/// Returns the tangent `x + y`; an absent tangent is zero.
pub fn add_tangents(b: &Builder<'_>, x: Option<Atom>, y: Option<Atom>) -> Option<Atom> {
    match (x, y) {
        (Some(x), Some(y)) => Some(b.emit1(Scalar::Add, &[x, y])),
        (one, None) | (None, one) => one,
    }
}

fn missing(name: &str, why: &str) -> Problem {
    Problem::new(
        Kind::NotDifferentiable,
        format!("`{name}` has no derivative here: {why}"),
        "stop the gradient with `stop_gradient`, or give the function a custom rule",
    )
}
