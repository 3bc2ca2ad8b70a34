//! Writes views, whose elements are found by index arithmetic, as slices, transpositions, broadcasts, pads and
//! concatenations.
//!
//! A piece of a view reads one operand. It is a *box* if each axis of the operand is read along one axis of the output
//! or at one index, and no two axes of the operand are read along the same axis of the output. Along each output axis,
//! the output indices `o` of a box are a progression, and so are the operand's indices `i` that are read:
//!
//! ```text
//! o = first, first + step, ..            i = start, start + stride, ..
//! ```
//!
//! So a box is a slice of the operand, reversed along axes with negative stride, with its axes in another order,
//! repeated along the output's other axes, and padded (with `step - 1` fill elements between two of its elements).
//! Boxes that lie one after the other along an axis are concatenated; otherwise each element selects its box by masks.
//! A piece that is no box is written as several boxes, one for each index of an output axis, if this axis has a small
//! extent, as in the windows of a convolution. Otherwise it becomes a gather.

use super::gather;
use super::types::list;
use super::writer::{Value, Writer};
use smallvec::SmallVec;
use tapeloom_ir::prim::{AxisMap, Piece};
use tapeloom_ir::{ArrayType, Dtype, Literal, Problem, Shape};

/// The largest extent of an output axis for which a piece of a view (the elements from one operand) is written index by
/// index.
const FEW: usize = 32;

/// Appends a view of the type `ty`, and returns the result. An element comes from the first piece that has it; an
/// element in no piece is the scalar `fill`.
pub(super) fn view(
    w: &mut Writer,
    pieces: &[Piece],
    fill: Option<&Value>,
    operands: &[Value],
    ty: &ArrayType,
) -> Result<Value, Problem> {
    if ty.shape.elements() == 0 {
        return Ok(w.constant(Literal::zero(ty.dtype), &ty.shape));
    }
    written(w, pieces, &Fill { given: fill, dtype: ty.dtype }, operands, &ty.shape)
}

/// The value of the elements that no piece provides: `given`, or zero if it is `None`.
struct Fill<'a> {
    given: Option<&'a Value>,
    dtype: Dtype,
}

impl Fill<'_> {
    fn scalar(&self, w: &mut Writer) -> Value {
        match self.given {
            Some(fill) => fill.clone(),
            None => w.constant(Literal::zero(self.dtype), &Shape::scalar()),
        }
    }

    fn of_shape(&self, w: &mut Writer, shape: &Shape) -> Value {
        match self.given {
            Some(fill) => w.broadcast(fill, &[], shape),
            None => w.constant(Literal::zero(self.dtype), shape),
        }
    }
}

/// Appends a view that has at least one element. Returns the result.
fn written(
    w: &mut Writer,
    pieces: &[Piece],
    fill: &Fill<'_>,
    operands: &[Value],
    shape: &Shape,
) -> Result<Value, Problem> {
    let mut boxes = Vec::new();
    for piece in pieces {
        match Box::of(piece, &operands[piece.operand].ty.shape, shape) {
            Form::Empty => {}
            Form::Box(found) => boxes.push((piece, Some(found))),
            Form::Other => boxes.push((piece, None)),
        }
    }
    let all: Option<Vec<(&Value, &Box)>> = (boxes.iter())
        .map(|(piece, found)| Some((&operands[piece.operand], found.as_ref()?)))
        .collect();
    match all.as_deref() {
        Some([]) => return Ok(fill.of_shape(w, shape)),
        Some([(x, of)]) => {
            let inside = of.elements(w, x);
            return Ok(of.padded(w, &inside, fill, shape));
        }
        Some(all) => {
            if let Some(axis) = concatenated(all, shape) {
                return Ok(concatenation(w, all, axis, fill, shape));
            }
        }
        None => {
            if let Some(axis) = small_axis(&boxes, shape) {
                return index_by_index(w, pieces, axis, fill, operands, shape);
            }
        }
    }
    // An element comes from the first piece that has it. Each `select` overwrites earlier results, so apply the pieces
    // in reverse order.
    let mut y: Option<Value> = None;
    for (piece, found) in boxes.iter().rev() {
        let x = &operands[piece.operand];
        let (mask, inside) = match found {
            Some(of) => {
                let inside = of.elements(w, x);
                let zero = Fill { given: None, dtype: x.ty.dtype };
                let inside = of.padded(w, &inside, &zero, shape);
                let holds = w.constant(Literal::bool(true), &of.counts());
                let fails = Fill { given: None, dtype: Dtype::Bool };
                (Some(of.padded(w, &holds, &fails, shape)), inside)
            }
            None => gathered(w, piece, x, shape),
        };
        y = Some(match mask {
            None => inside,
            Some(mask) => {
                let rest = match y {
                    Some(rest) => rest,
                    None => fill.of_shape(w, shape),
                };
                w.select(&mask, &inside, &rest)
            }
        });
    }
    y.ok_or_else(|| Problem::internal("a view without pieces"))
}

/// The form of a piece of a view (the elements that it reads from one operand).
enum Form {
    /// No element of the output is in the piece.
    Empty,
    /// The piece is a box.
    Box(Box),
    /// The piece has elements, but they form no box.
    Other,
}

/// A piece whose output indices are a progression along each output axis.
struct Box {
    /// For each output axis: the progression of the box's output indices.
    axes: Vec<Progression>,
    /// For each axis of the operand: the output axis along which it is read, or the one index at which it is read.
    reads: Vec<Read>,
}

/// The output indices of a box along an output axis: `first + step k` for `k < count`.
#[derive(Clone, Copy)]
struct Progression {
    first: usize,
    step: usize,
    count: usize,
}

/// The indices of an axis of the operand at which a box reads.
enum Read {
    /// One index.
    At(usize),
    /// The indices `start + stride k`, for the k-th element along an output axis.
    Along { axis: usize, start: usize, stride: i64 },
}

impl Progression {
    fn all(extent: usize) -> Progression {
        Progression { first: 0, step: 1, count: extent }
    }

    /// Returns whether the progression is all indices of an axis.
    fn is_all(&self, extent: usize) -> bool {
        self.count == extent && (self.step == 1 || extent == 1)
    }

    fn last(&self) -> usize {
        self.first + (self.count - 1) * self.step
    }
}

impl Box {
    fn of(piece: &Piece, operand: &Shape, output: &Shape) -> Form {
        let mut axes: Vec<Option<Progression>> = vec![None; output.len()];
        let mut reads = Vec::new();
        let mut is_box = true;
        for (map, extent) in piece.axes.iter().zip(operand.iter()) {
            match map.terms.as_slice() {
                [] => match map.apply(&[], *extent) {
                    Some(i) => reads.push(Read::At(i)),
                    None => return Form::Empty,
                },
                [(axis, _)] => {
                    let Some((found, start, stride)) = progression(map, *extent, output[*axis])
                    else {
                        return Form::Empty;
                    };
                    is_box &= axes[*axis].replace(found).is_none();
                    reads.push(Read::Along { axis: *axis, start, stride });
                }
                _ => is_box = false,
            }
        }
        if !is_box {
            return Form::Other;
        }
        let axes = axes.into_iter().zip(output.iter());
        let axes = axes.map(|(found, n)| found.unwrap_or(Progression::all(*n))).collect();
        Form::Box(Box { axes, reads })
    }

    /// Returns the number of the box's elements along each output axis, without padding.
    fn counts(&self) -> Shape {
        self.axes.iter().map(|axis| axis.count).collect()
    }

    /// Appends operations that read the box's elements from `x`, without padding between and around them. Returns the
    /// result.
    fn elements(&self, w: &mut Writer, x: &Value) -> Value {
        let mut reversed = Vec::new();
        let mut kept = Shape::scalar();
        let mut order: Vec<usize> = Vec::new();
        let mut ranges = Vec::new();
        for (k, read) in self.reads.iter().enumerate() {
            match *read {
                Read::At(i) => ranges.push((i, i + 1, 1)),
                Read::Along { axis, start, stride } => {
                    let count = self.axes[axis].count;
                    let by = if count == 1 { 1 } else { stride.unsigned_abs() as usize };
                    let span = (count - 1) * by;
                    if count > 1 && stride < 0 {
                        reversed.push(k);
                        ranges.push((start - span, start + 1, by));
                    } else {
                        ranges.push((start, start + span + 1, by));
                    }
                    kept = kept.iter().copied().chain([count]).collect();
                    order.push(axis);
                }
            }
        }
        let x = w.slice(x, &ranges);
        let x = w.reverse(&x, &reversed);
        let x = w.reshape(&x, kept);
        // Order the axes as in the output.
        let mut by: Vec<usize> = (0..order.len()).collect();
        by.sort_by_key(|k| order[*k]);
        let x = transpose(w, &x, &by);
        order.sort_unstable();
        w.broadcast(&x, &order, &self.counts())
    }

    /// Appends padding with `fill` between and around the elements `inside` of the box. Returns the padded array, which
    /// has the shape of the output.
    fn padded(&self, w: &mut Writer, inside: &Value, fill: &Fill<'_>, shape: &Shape) -> Value {
        if self.axes.iter().zip(shape.iter()).all(|(axis, n)| axis.is_all(*n)) {
            return inside.clone();
        }
        let low = list(self.axes.iter().map(|axis| axis.first));
        let high = list(self.axes.iter().zip(shape.iter()).map(|(axis, n)| n - 1 - axis.last()));
        let between = self.axes.iter().map(|axis| if axis.count == 1 { 0 } else { axis.step - 1 });
        let mut between: Vec<usize> = between.collect();
        let ty = ArrayType::new(inside.ty.dtype, shape.clone());
        let fill = fill.scalar(w);
        let mut inside = inside.clone();
        if w.is_divided() {
            // XLA's partitioner misplaces elements if a pad puts elements between them (versions of the C API up to
            // 0.115), so `spread` separates them.
            for (i, between) in between.iter_mut().enumerate() {
                inside = spread(w, &inside, &fill, i, std::mem::take(between));
            }
        }
        let rest = format!(", low = {low}, high = {high}, interior = {}", list(&between));
        w.op("stablehlo.pad", &[&inside, &fill], &rest, ty)
    }
}

/// Appends operations that put `between` elements `fill` after each element along an axis except the last, and returns
/// the result: each element becomes a row of itself and padding, and the rows are joined.
fn spread(w: &mut Writer, x: &Value, fill: &Value, axis: usize, between: usize) -> Value {
    if between == 0 {
        return x.clone();
    }
    let (n, rank) = (x.ty.shape[axis], x.ty.shape.len());
    let mut joined = x.ty.shape.clone();
    joined[axis] = n * (1 + between);
    let of = |element: usize| {
        let axes = x.ty.shape.iter().enumerate();
        let rows = axes.flat_map(|(i, k)| if i == axis { vec![*k, element] } else { vec![*k] });
        rows.collect::<Shape>()
    };
    let rows = of(1 + between);
    let x = w.reshape(x, of(1));
    let zeros = list(vec![0; rank + 1]);
    let high = list((0..=rank).map(|i| if i == axis + 1 { between } else { 0 }));
    let rest = format!(", low = {zeros}, high = {high}, interior = {zeros}");
    let ty = ArrayType::new(x.ty.dtype, rows);
    let rows = w.op("stablehlo.pad", &[&x, fill], &rest, ty);
    let x = w.reshape(&rows, joined);
    w.part(&x, axis, 0, n + (n - 1) * between)
}

/// Appends the array with its axes in another order, and returns it: axis `i` of the result is axis `by[i]` of `x`.
pub(super) fn transpose(w: &mut Writer, x: &Value, by: &[usize]) -> Value {
    if by.is_sorted() {
        return x.clone();
    }
    let shape: Shape = by.iter().map(|axis| x.ty.shape[*axis]).collect();
    let ty = ArrayType::new(x.ty.dtype, shape);
    w.op("stablehlo.transpose", &[x], &format!(", dims = {}", list(by)), ty)
}

/// Returns the progression of indices along an output axis of extent `output` for which a map with one term gives an
/// index within `0..operand`. Also returns the first operand index that is read, and the distance between operand
/// indices. Returns `None` if there are no elements.
///
/// ```text
/// i = (f o + c) / d,  exact:  f o = -c mod d, so o = o0 mod t, where t = d / gcd(f, d)
/// 0 <= f o + c <= d (n - 1):  bounds on o
/// ```
fn progression(map: &AxisMap, operand: usize, output: usize) -> Option<(Progression, usize, i64)> {
    let (_, factor) = *map.terms.first()?;
    let [f, c, d, n] = [i128::from(factor), map.offset.into(), map.divisor.into(), operand as i128];
    if n == 0 || output == 0 {
        return None;
    }
    let t = d / gcd(f.unsigned_abs(), d.unsigned_abs()) as i128;
    let (low, high) = match f > 0 {
        true => (ceil_div(-c, f), (d * (n - 1) - c).div_euclid(f)),
        false => (ceil_div(c - d * (n - 1), -f), c.div_euclid(-f)),
    };
    let (low, high) = (low.max(0), high.min(output as i128 - 1));
    let first =
        (low..=high).take(usize::try_from(t).ok()?).find(|o| (f * o + c).rem_euclid(d) == 0)?;
    let count = (high - first) / t + 1;
    let progression = Progression {
        first: usize::try_from(first).ok()?,
        step: usize::try_from(t).ok()?,
        count: usize::try_from(count).ok()?,
    };
    let start = usize::try_from((f * first + c) / d).ok()?;
    Some((progression, start, i64::try_from(f * t / d).ok()?))
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns `a / b` rounded up, for positive b.
fn ceil_div(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

/// Returns the axis along which the boxes lie one after the other, without overlap and with all indices of the other
/// axes; `None` if there is none.
fn concatenated(boxes: &[(&Value, &Box)], shape: &Shape) -> Option<usize> {
    (0..shape.len()).find(|axis| {
        let others = |of: &Box| {
            let all = of.axes.iter().zip(shape.iter()).enumerate();
            all.filter(|(k, _)| k != axis).all(|(_, (of, n))| of.is_all(*n))
        };
        let dense = |of: &Box| of.axes[*axis].step == 1 || of.axes[*axis].count == 1;
        let mut spans: Vec<(usize, usize)> =
            boxes.iter().map(|(_, of)| (of.axes[*axis].first, of.axes[*axis].last())).collect();
        spans.sort_unstable();
        let apart = spans.windows(2).all(|pair| pair[0].1 < pair[1].0);
        apart && boxes.iter().all(|(_, of)| others(of) && dense(of))
    })
}

/// Appends the concatenation of boxes that lie one after the other along `axis`, with `fill` in the gaps. Returns the
/// result.
fn concatenation(
    w: &mut Writer,
    boxes: &[(&Value, &Box)],
    axis: usize,
    fill: &Fill<'_>,
    shape: &Shape,
) -> Value {
    let mut order: Vec<&(&Value, &Box)> = boxes.iter().collect();
    order.sort_by_key(|(_, of)| of.axes[axis].first);
    let (mut parts, mut end) = (Vec::new(), 0);
    let gap = |w: &mut Writer, extent: usize| {
        fill.of_shape(w, &super::types::with_extent(shape, axis, extent))
    };
    for (x, of) in order {
        let span = of.axes[axis];
        if span.first > end {
            parts.push(gap(w, span.first - end));
        }
        parts.push(of.elements(w, x));
        end = span.last() + 1;
    }
    if end < shape[axis] {
        parts.push(gap(w, shape[axis] - end));
    }
    w.concatenate(&parts.iter().collect::<Vec<_>>(), axis)
}

/// Returns an output axis of small extent whose index occurs in a sum of indices, or for two operand axes, in a piece
/// that is no box. If the view is written index by index along this axis, the piece becomes boxes.
fn small_axis(boxes: &[(&Piece, Option<Box>)], shape: &Shape) -> Option<usize> {
    let others = boxes.iter().filter(|(_, of)| of.is_none());
    let mut axes: Vec<usize> = Vec::new();
    for (piece, _) in others {
        let reads = |axis: usize| {
            piece.axes.iter().filter(move |map| map.terms.iter().any(|t| t.0 == axis))
        };
        let sums = |axis: usize| reads(axis).any(|map| map.terms.len() > 1);
        axes.extend((0..shape.len()).filter(|axis| sums(*axis) || reads(*axis).count() > 1));
    }
    let elements = shape.elements();
    let small = |axis: &usize| shape[*axis] <= FEW && shape[*axis].pow(2) <= elements;
    axes.into_iter().filter(small).min_by_key(|axis| shape[*axis])
}

/// Appends a view index by index along `axis`: a view for each index, and their concatenation. Returns the result.
fn index_by_index(
    w: &mut Writer,
    pieces: &[Piece],
    axis: usize,
    fill: &Fill<'_>,
    operands: &[Value],
    shape: &Shape,
) -> Result<Value, Problem> {
    let at = |map: &AxisMap, i: i64| {
        let is = |term: &&(usize, i64)| term.0 == axis;
        let fixed: i64 = map.terms.iter().filter(is).map(|term| term.1 * i).sum();
        let terms =
            map.terms.iter().filter(|term| term.0 != axis).copied().collect::<SmallVec<_>>();
        AxisMap { terms, offset: map.offset + fixed, divisor: map.divisor }
    };
    let one = super::types::with_extent(shape, axis, 1);
    let mut parts = Vec::new();
    for i in 0..shape[axis] {
        let fixed = |piece: &Piece| Piece {
            operand: piece.operand,
            axes: piece.axes.iter().map(|map| at(map, i as i64)).collect(),
        };
        let pieces: Vec<Piece> = pieces.iter().map(fixed).collect();
        parts.push(tapeloom_ir::deeper(|| written(w, &pieces, fill, operands, &one))?);
    }
    Ok(w.concatenate(&parts.iter().collect::<Vec<_>>(), axis))
}

/// Appends a gather that reads the elements of a piece, for all elements of the output. Returns the mask of the
/// output's elements that are in the piece (`None` if all are), and the gathered elements.
fn gathered(w: &mut Writer, piece: &Piece, x: &Value, shape: &Shape) -> (Option<Value>, Value) {
    let index_type = ArrayType::new(Dtype::I64, shape.clone());
    let (mut tests, mut indices) = (Vec::new(), Vec::new());
    for (map, extent) in piece.axes.iter().zip(x.ty.shape.iter()) {
        let ends = || map.terms.iter().map(|(axis, f)| f * (shape[*axis] as i64 - 1));
        let least = map.offset + ends().map(|end| end.min(0)).sum::<i64>();
        let most = map.offset + ends().map(|end| end.max(0)).sum::<i64>();
        let is_inside = least >= 0 && map.divisor == 1 && most < *extent as i64;
        let mut sum: Option<Value> = None;
        for (axis, factor) in &map.terms {
            let mut index = w.iota(index_type.clone(), *axis);
            if *factor != 1 {
                let factor = w.constant(Literal::i64(*factor), shape);
                index = w.same("stablehlo.multiply", &[&index, &factor]);
            }
            sum = Some(match sum {
                Some(sum) => w.same("stablehlo.add", &[&sum, &index]),
                None => index,
            });
        }
        let mut index = match sum {
            Some(sum) if map.offset == 0 => sum,
            sum => {
                let offset = w.constant(Literal::i64(map.offset), shape);
                sum.map_or(offset.clone(), |sum| w.same("stablehlo.add", &[&sum, &offset]))
            }
        };
        if !is_inside {
            let zero = w.number(0.0, &index);
            tests.push(w.compare("GE", &index, &zero));
            if map.divisor > 1 {
                let divisor = w.constant(Literal::i64(map.divisor), shape);
                let rest = w.same("stablehlo.remainder", &[&index, &divisor]);
                tests.push(w.compare("EQ", &rest, &zero));
                index = w.same("stablehlo.divide", &[&index, &divisor]);
            }
            let last = w.constant(Literal::i64(*extent as i64 - 1), shape);
            tests.push(w.compare("LE", &index, &last));
            let raised = w.same("stablehlo.maximum", &[&index, &zero]);
            index = w.same("stablehlo.minimum", &[&raised, &last]);
        }
        indices.push(index);
    }
    let mask = tests.into_iter().reduce(|a, b| w.same("stablehlo.and", &[&a, &b]));
    (mask, gather::points(w, x, &indices))
}
