//! Writes scans, for which StableHLO has no operation.
//!
//! A fold (with a neutral element) becomes a `reduce_window`, as in JAX. Its window reaches back to the first element.
//! XLA computes it in blocks, with work in proportion to the number of elements.
//!
//! If the steps of another recurrence can be composed, the scan is computed in `⌈log₂ n⌉` levels of arrays. Each level
//! is half as long as the one before (Blelloch, *Prefix sums and their applications*, 1990), so the work is that of 2n
//! steps. For the steps `x`, their composition `∘` and the result `y`:
//!
//! ```text
//! z[i] = x[2i] ∘ x[2i + 1]        pairs
//! y[2i + 1] = (scan z)[i]
//! y[2i] = y[2i - 1] ∘ x[2i]       for i > 0; y[0] = x[0]
//! ```
//!
//! Steps `a y + x` on floats are not composed, because the product of many factors `a` may overflow even if no element
//! of the result does. For them, a `while` computes one element after the other.

use super::codes;
use super::types::{integers, list};
use super::writer::{Value, Writer};
use tapeloom_ir::prim::Step;
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, Problem, Shape};

/// Appends a scan along `axis`. Returns the result.
pub(super) fn scan(
    w: &mut Writer,
    axis: usize,
    reverse: bool,
    step: Step,
    x: &[Value],
) -> Result<Value, Problem> {
    let last = &x[x.len() - 1];
    if last.ty.shape[axis] < 2 || last.ty.shape.elements() == 0 {
        return Ok(last.clone());
    }
    if let (Step::Fold(code), [x]) = (step, x)
        && let Some(start) = code.neutral(x.ty.dtype)
    {
        return fold(w, axis, reverse, code, start, x);
    }
    let turned =
        |w: &mut Writer, x: &Value| if reverse { w.reverse(x, &[axis]) } else { x.clone() };
    let x: Vec<Value> = x.iter().map(|x| turned(w, x)).collect();
    let y = match (step, x.as_slice()) {
        (Step::Segments, [goes_on, x]) => {
            let start = [goes_on.clone(), x.clone()];
            pairs(w, axis, &start, &mut |w, [goes_on_before, before], [goes_on, own]| {
                let sum = w.same("stablehlo.add", &[&before, &own]);
                let sum = w.select(&goes_on, &sum, &own);
                Ok([w.same("stablehlo.and", &[&goes_on_before, &goes_on]), sum])
            })?[1]
                .clone()
        }
        (Step::Affine, [a, x]) if !x.ty.dtype.is_float() => {
            pairs(w, axis, &[a.clone(), x.clone()], &mut |w, [a_before, before], [a, own]| {
                let handed_on = codes::emit(w, Code::Mul, &[a.clone(), before], false)?;
                let sum = codes::emit(w, Code::Add, &[handed_on, own], false)?;
                Ok([codes::emit(w, Code::Mul, &[a, a_before], false)?, sum])
            })?[1]
                .clone()
        }
        (Step::Affine, [a, x]) => one_by_one(w, axis, a, x),
        (Step::Fold(_) | Step::Segments | Step::Affine, _) => {
            return Err(Problem::internal("a scan of another code, or with other operands"));
        }
    };
    Ok(turned(w, &y))
}

/// Appends a scan by a code: each element of the result is the fold of all elements up to its position along `axis` or,
/// if `reverse`, from its position on. Returns the result.
fn fold(
    w: &mut Writer,
    axis: usize,
    reverse: bool,
    code: Code,
    start: Literal,
    x: &Value,
) -> Result<Value, Problem> {
    let start = w.constant(start, &Shape::scalar());
    let open = w.open("stablehlo.reduce_window", &[x.clone(), start.clone()], vec![x.ty.clone()]);
    let pair = w.block(&[start.ty.clone(), start.ty]);
    let y = codes::emit(w, code, &pair, false)?;
    w.returns(&[y]);
    let (rank, n) = (x.ty.shape.len(), x.ty.shape[axis]);
    let window = integers((0..rank).map(|k| if k == axis { n } else { 1 }));
    let padding = |k: usize| match (k == axis, reverse) {
        (false, _) => list([0, 0]),
        (true, false) => list([n - 1, 0]),
        (true, true) => list([0, n - 1]),
    };
    let padding = list((0..rank).map(padding));
    let text = format!(
        "{{padding = dense<{padding}> : tensor<{rank}x2xi64>, window_dimensions = {window}}}"
    );
    Ok(w.close(open, &text).remove(0))
}

/// A function that appends the composition of two adjacent steps, the earlier one first, and returns it.
type Combine<'a, const N: usize> =
    dyn FnMut(&mut Writer, [Value; N], [Value; N]) -> Result<[Value; N], Problem> + 'a;

/// Appends a scan whose steps can be composed: composes pairs of neighbours, scans the pairs, and computes the elements
/// between from that scan. Returns the result.
fn pairs<const N: usize>(
    w: &mut Writer,
    axis: usize,
    x: &[Value; N],
    combine: &mut Combine<'_, N>,
) -> Result<[Value; N], Problem> {
    let n = x[0].ty.shape[axis];
    if n < 2 {
        return Ok(x.clone());
    }
    let every_second = |w: &mut Writer, x: &Value, start: usize, limit: usize| {
        let range = |(k, n): (usize, &usize)| match k == axis {
            true => (start, limit, 2),
            false => (0, *n, 1),
        };
        w.slice(x, &x.ty.shape.iter().enumerate().map(range).collect::<Vec<_>>())
    };
    let before = x.each_ref().map(|x| every_second(w, x, 0, n - 1));
    let own = x.each_ref().map(|x| every_second(w, x, 1, n));
    let both = combine(w, before, own)?;
    let odd = tapeloom_ir::deeper(|| pairs(w, axis, &both, combine))?;
    let first = x.each_ref().map(|x| w.part(x, axis, 0, 1));
    if n == 2 {
        let joined = (0..N).map(|k| w.concatenate(&[&first[k], &odd[k]], axis));
        return joined.collect::<Vec<_>>().try_into().map_err(|_| lost());
    }
    let own = x.each_ref().map(|x| every_second(w, x, 2, n));
    let before = odd.each_ref().map(|y| w.part(y, axis, 0, own[0].ty.shape[axis]));
    let rest = combine(w, before, own)?;
    let joined = (0..N).map(|k| {
        let even = w.concatenate(&[&first[k], &rest[k]], axis);
        alternating(w, axis, &even, &odd[k])
    });
    joined.collect::<Vec<_>>().try_into().map_err(|_| lost())
}

fn lost() -> Problem {
    Problem::internal("a scan with another number of arrays")
}

/// Appends operations that interleave `even` and `odd` along `axis`, beginning with `even`. Returns the result.
fn alternating(w: &mut Writer, axis: usize, even: &Value, odd: &Value) -> Value {
    let mut shape = even.ty.shape.clone();
    shape[axis] += odd.ty.shape[axis];
    // Pad floats with -0: `x + -0` is x for every x, while `-0 + 0` would be 0.
    let zero = if even.ty.dtype.is_float() { -0.0 } else { 0.0 };
    let fill = w.constant(Literal::of(even.ty.dtype, zero), &Shape::scalar());
    let mut spread = |x: &Value, start: usize| {
        let along = |n: usize| list((0..shape.len()).map(|k| if k == axis { n } else { 0 }));
        let count = x.ty.shape[axis];
        let high = shape[axis] - start - (2 * count - 1);
        let rest =
            format!(", low = {}, high = {}, interior = {}", along(start), along(high), along(1));
        w.op("stablehlo.pad", &[x, &fill], &rest, ArrayType::new(x.ty.dtype, shape.clone()))
    };
    let (even, odd) = (spread(even, 0), spread(odd, 1));
    match even.ty.dtype {
        Dtype::Bool => w.same("stablehlo.or", &[&even, &odd]),
        _ => w.same("stablehlo.add", &[&even, &odd]),
    }
}

/// Appends a loop that computes `y[i] = a[i] y[i - 1] + x[i]` along `axis`, one element after the other. Returns `y`.
fn one_by_one(w: &mut Writer, axis: usize, a: &Value, x: &Value) -> Value {
    let n = x.ty.shape[axis];
    let first = w.part(x, axis, 0, 1);
    let start = w.index(1);
    let state = [start, first, x.clone(), a.clone(), x.clone()];
    let types = state.each_ref().map(|x| x.ty.clone());
    let open = w.open("stablehlo.while", &state, types.to_vec());
    let block = w.block(&types);
    let end = w.index(n);
    let goes_on = w.compare("LT", &block[0], &end);
    w.returns(&[goes_on]);
    let block = w.next_block(&types);
    let [i, before, y, a, x] = [0, 1, 2, 3, 4].map(|k| block[k].clone());
    let zero = w.index(0);
    let starts: Vec<&Value> =
        (0..x.ty.shape.len()).map(|k| if k == axis { &i } else { &zero }).collect();
    let sizes: Shape = super::types::with_extent(&x.ty.shape, axis, 1);
    let [factor, own] = [&a, &x].map(|of| w.dynamic_slice(of, &starts, &sizes));
    let handed_on = w.same("stablehlo.multiply", &[&factor, &before]);
    let element = w.same("stablehlo.add", &[&handed_on, &own]);
    let y = w.dynamic_update(&y, &element, &starts);
    let one = w.index(1);
    let next = w.same("stablehlo.add", &[&i, &one]);
    w.returns(&[next, element, y, a, x]);
    w.close(open, "").remove(2)
}
