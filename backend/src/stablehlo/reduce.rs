//! Writes reductions, positions of extrema, sorts and contractions.

use super::codes;
use super::types::{integers, list, tensor, tensors};
use super::writer::{Value, Writer};
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, Problem, Shape};

/// Appends the fold of `x` along `axes` with a code. Returns the result.
pub(super) fn reduce(
    w: &mut Writer,
    code: Code,
    identity: Literal,
    axes: &[usize],
    x: &Value,
) -> Result<Value, Problem> {
    if axes.is_empty() {
        return Ok(x.clone());
    }
    let start = w.constant(identity, &Shape::scalar());
    let ty = ArrayType::new(x.ty.dtype, x.ty.shape.without(axes));
    let open = w.open("stablehlo.reduce", &[x.clone(), start.clone()], vec![ty]);
    let pair = w.block(&[start.ty.clone(), start.ty]);
    let y = codes::emit(w, code, &pair, false)?;
    w.returns(&[y]);
    Ok(w.close(open, &format!("{{dimensions = {}}}", integers(axes))).remove(0))
}

/// Appends the search for the first extremum along `axis`, and returns its index. A nan is more extreme than every
/// number.
///
/// The engine combines pairs of (element, index) in any order: of two equal elements, or two nans, the one with the
/// lower index wins.
pub(super) fn arg_reduce(w: &mut Writer, axis: usize, largest: bool, x: &Value) -> Value {
    let end = if largest { f64::NEG_INFINITY } else { f64::INFINITY };
    let worst = match x.ty.dtype {
        Dtype::Bool => Literal::bool(!largest),
        dtype => Literal::of(dtype, end),
    };
    let worst = w.constant(worst, &Shape::scalar());
    let last = w.constant(Literal::i64(i64::MAX), &Shape::scalar());
    let indices = w.iota(ArrayType::new(Dtype::I64, x.ty.shape.clone()), axis);
    let shape = x.ty.shape.without(&[axis]);
    let types = [x.ty.dtype, Dtype::I64].map(|dtype| ArrayType::new(dtype, shape.clone()));
    let operands = [x.clone(), indices, worst.clone(), last.clone()];
    let open = w.open("stablehlo.reduce", &operands, types.to_vec());
    let block = w.block(&[&worst, &last, &worst, &last].map(|x| x.ty.clone()));
    let [x, i, y, j] = [0, 1, 2, 3].map(|k| block[k].clone());
    let better = w.compare(if largest { "GT" } else { "LT" }, &x, &y);
    let equal = w.compare("EQ", &x, &y);
    let (better, equal) = match x.ty.dtype.is_float() {
        true => {
            let [x_nan, y_nan] = [&x, &y].map(|x| w.compare("NE", x, x));
            let y_number = w.same("stablehlo.not", &[&y_nan]);
            let only_x = w.same("stablehlo.and", &[&x_nan, &y_number]);
            let both = w.same("stablehlo.and", &[&x_nan, &y_nan]);
            let better = w.same("stablehlo.or", &[&better, &only_x]);
            (better, w.same("stablehlo.or", &[&equal, &both]))
        }
        false => (better, equal),
    };
    let first = w.compare("LT", &i, &j);
    let first = w.same("stablehlo.and", &[&equal, &first]);
    let wins = w.same("stablehlo.or", &[&better, &first]);
    let (x, i) = (w.select(&wins, &x, &y), w.select(&wins, &i, &j));
    w.returns(&[x, i]);
    w.close(open, &format!("{{dimensions = {}}}", integers([axis]))).remove(1)
}

/// Appends a stable sort along `axis`, and returns the first few indices of the sorted order. A nan is larger than
/// every number.
pub(super) fn arg_sort(
    w: &mut Writer,
    axis: usize,
    descending: bool,
    first: usize,
    x: &Value,
) -> Value {
    let indices = w.iota(ArrayType::new(Dtype::I64, x.ty.shape.clone()), axis);
    let types = vec![x.ty.clone(), indices.ty.clone()];
    let open = w.open("stablehlo.sort", &[x.clone(), indices], types);
    let scalar = |dtype| ArrayType::new(dtype, Shape::scalar());
    let [key, index] = [x.ty.dtype, Dtype::I64].map(scalar);
    let block = w.block(&[key.clone(), key, index.clone(), index]);
    let (x, y) = (&block[0], &block[1]);
    let before = w.compare(if descending { "GT" } else { "LT" }, x, y);
    let before = match x.ty.dtype.is_float() {
        true => {
            let [x_nan, y_nan] = [x, y].map(|x| w.compare("NE", x, x));
            // Nan comes last in an ascending sort, and first in a descending one.
            let (early, late) = if descending { (x_nan, y_nan) } else { (y_nan, x_nan) };
            let late = w.same("stablehlo.not", &[&late]);
            let only = w.same("stablehlo.and", &[&early, &late]);
            w.same("stablehlo.or", &[&before, &only])
        }
        false => before,
    };
    w.returns(&[before]);
    let attributes = format!("{{dimension = {axis} : i64, is_stable = true}}");
    let sorted = w.close(open, &attributes).remove(1);
    w.part(&sorted, axis, 0, first)
}

/// Appends the contraction of two arrays, computed in the precision of their dtype. Returns the result.
pub(super) fn contract(
    w: &mut Writer,
    batch: &[(usize, usize)],
    contract: &[(usize, usize)],
    x: [&Value; 2],
) -> Value {
    let sides = |pairs: &[(usize, usize)]| {
        format!("{} x {}", list(pairs.iter().map(|p| p.0)), list(pairs.iter().map(|p| p.1)))
    };
    let free = |i: usize| -> Vec<usize> {
        let of = |p: &(usize, usize)| if i == 0 { p.0 } else { p.1 };
        let used: Vec<usize> = batch.iter().chain(contract).map(of).collect();
        let shape = &x[i].ty.shape;
        (0..shape.len()).filter(|axis| !used.contains(axis)).map(|axis| shape[axis]).collect()
    };
    let kept = batch.iter().map(|p| x[0].ty.shape[p.0]);
    let shape: Shape = kept.chain(free(0)).chain(free(1)).collect();
    let ty = ArrayType::new(x[0].ty.dtype, shape);
    let batched = match batch {
        [] => String::new(),
        batch => format!("batching_dims = {}, ", sides(batch)),
    };
    let (a, b, types) = (x[0], x[1], tensors([&x[0].ty, &x[1].ty]));
    let text = format!(
        "stablehlo.dot_general {a}, {b}, {batched}contracting_dims = {}, precision = [HIGHEST, HIGHEST] : ({types}) -> {}",
        sides(contract),
        tensor(&ty)
    );
    w.free(&text, vec![ty]).remove(0)
}
