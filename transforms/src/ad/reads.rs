//! Read analysis: the elements of each value that the differentiated part of a function reads.
//!
//! One walk backwards over the equations. All elements of the function's results count as read. For an equation whose
//! outputs have tangents, the lowering determines which elements of its operands are read: a view reads the elements
//! that it shows, an elementwise operation the same elements, a sum whole axes. Other equations with tangents read
//! their operands whole. Equations without tangents (comparisons, `stop_gradient`) read nothing.
//!
//! ```text
//! func @f(%0: f64[9,9]) -> (f64[9]) {
//!   %1: f64[9], %2: f64[9,9] = eigh{vectors=true} %0      %1: not read; %2: rows 0..9, columns 8..9
//!   %3: f64[9,9] = mul %2, %2                             rows 0..9, columns 8..9
//!   %4: f64[9,1] = slice{start=[0,8], ..} %3              rows 0..9, columns 0..1
//!   %5: f64[9] = reshape %4                               0..9
//!   return %5
//! }
//! ```
//!
//! Model: the access analysis of loops ([`crate::loops`]), which finds the elements of a carry that iterations
//! read.

use super::activity::Activity;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{AxisMap, Lowering, Piece, Ranges, Reads};
use tapeloom_ir::{Atom, Equation, Function, Module, Shape, Tensor, ValueId};

/// The largest number of elements of an index array that the read analysis evaluates at compile time. The analysis also
/// lists at most that many indices one by one along an axis.
const INDICES: usize = 1024;

/// Per value: the box of its elements that the differentiated part reads; `None` if that part reads no element.
pub(crate) type ReadsOf = SecondaryMap<ValueId, Option<Reads>>;

/// Returns, per value, the elements that the differentiated part of `f` reads; `None` for the whole function if no
/// active equation has a derivative rule that depends on which elements of its outputs are read.
pub(crate) fn reads(module: &Module, f: &Function, activity: &Activity) -> Option<ReadsOf> {
    let needs =
        |e: &Equation| e.op.needs_reads() && e.outputs.iter().any(|o| activity.is_active(*o));
    let first = f.equations.iter().position(needs)?;
    let known = known_indices(module, f);
    let mut all = ReadsOf::with_capacity(f.types.len());
    for v in f.results.iter().filter_map(|a| a.value()) {
        add(&mut all, f, v, None);
    }
    for e in f.equations[first..].iter().rev() {
        let active = e.outputs.iter().any(|o| activity.is_active(*o) && all[*o].is_some());
        if active && !e.op.is_constant_by_decree() {
            read(module, f, e, &known, &mut all);
        }
    }
    Some(all)
}

/// Adds the elements `places` of value `v` to those that `all` lists as read; `None` means all elements of `v`.
fn add(all: &mut ReadsOf, f: &Function, v: ValueId, places: Option<Reads>) {
    let Some(ty) = f.types[v].as_array() else { return };
    let places = places.unwrap_or_else(|| Reads::all(&ty.shape));
    if places.is_empty() && !ty.shape.contains(&0) {
        return;
    }
    all[v] = Some(match all[v].take() {
        Some(before) => before.or(&places),
        None => places,
    });
}

/// Adds to `all` the elements of `e`'s operands from which the read elements of its outputs are computed.
fn read(
    module: &Module,
    f: &Function,
    e: &Equation,
    known: &SecondaryMap<ValueId, Option<Tensor>>,
    all: &mut ReadsOf,
) {
    let shape = |a: &Atom| a.value().and_then(|v| Some(f.types[v].as_array()?.shape.clone()));
    let output = match e.outputs[..] {
        [y] => all[y].clone().zip(f.types[y].as_array().map(|ty| ty.shape.clone())),
        _ => None,
    };
    let of = |k: usize, x: &Shape| {
        let (y, y_shape) = output.as_ref()?;
        match e.lower(module, f) {
            Lowering::Elementwise(_) | Lowering::Alias { .. } => Some(y.clone()),
            Lowering::View { pieces, .. } => {
                let pieces = pieces.iter().filter(|piece| piece.operand == k);
                let shown = pieces.map(|piece| shown(piece, y, x));
                shown
                    .reduce(|a, b| a.or(&b))
                    .or_else(|| Some(Reads(vec![Ranges::default(); x.len()])))
            }
            Lowering::Reshape => Some(reshaped(y, y_shape, x)),
            Lowering::Reduce { axes, .. } => {
                let mut kept = y.0.iter();
                let along = |(axis, extent): (usize, &usize)| match axes.contains(&axis) {
                    true => Some(Ranges::all(*extent)),
                    false => kept.next().cloned(),
                };
                x.iter().enumerate().map(along).collect::<Option<_>>().map(Reads)
            }
            Lowering::Cumulate { axis, .. } if x.len() == y.0.len() => {
                let mut y = y.clone();
                y.0[axis] = Ranges::all(x[axis]);
                Some(y)
            }
            Lowering::Contract { batch, contract } => {
                let side = |pair: &(usize, usize)| if k == 0 { pair.0 } else { pair.1 };
                let own =
                    |pairs: &[(usize, usize)], axis| pairs.iter().position(|p| side(p) == axis);
                // The axes of a product's result are the batch axes, then the free axes of the left operand, then the
                // free axes of the right operand.
                let shared = batch.len() + contract.len();
                let mut free = match k {
                    0 => batch.len(),
                    _ => batch.len() + shape(&e.operands[0])?.len() - shared,
                };
                let along = |(axis, extent): (usize, &usize)| {
                    if let Some(i) = own(&batch, axis) {
                        return y.0.get(i).cloned();
                    }
                    if own(&contract, axis).is_some() {
                        return Some(Ranges::all(*extent));
                    }
                    free += 1;
                    y.0.get(free - 1).cloned()
                };
                x.iter().enumerate().map(along).collect::<Option<_>>().map(Reads)
            }
            Lowering::DynamicSlice if k == 0 => {
                let start = |(axis, extent): (usize, &usize)| {
                    let (start, size) = (number(e.operands.get(axis + 1)?, known)?, y_shape[axis]);
                    let most = extent.checked_sub(size)? as i128;
                    let start = start.clamp(0, most) as usize;
                    Some(Ranges::of(y.0[axis].iter().map(|r| r.start + start..r.end + start)))
                };
                x.iter().enumerate().map(start).collect::<Option<_>>().map(Reads)
            }
            Lowering::Gather { batch: 0, axes, .. } if k == 0 => {
                gathered(&axes, known[e.operands.get(1)?.value()?].as_ref()?, y, x)
            }
            _ => None,
        }
    };
    let operands = e.operands.iter().enumerate();
    let places: Vec<(ValueId, Option<Reads>)> = operands
        .filter_map(|(k, a)| Some((a.value()?, shape(a).and_then(|x| of(k, &x)))))
        .collect();
    for (v, places) in places {
        add(all, f, v, places);
    }
}

/// Returns the elements of an operand of shape `x` that a view reads to compute the elements `y` of its result. `piece`
/// (the index map of the view) maps indices of the result to indices of the operand.
fn shown(piece: &Piece, y: &Reads, x: &Shape) -> Reads {
    let along = |(map, extent): (&AxisMap, &usize)| {
        let inside = |least: i64, most: i64| {
            let within = |i: i64| i.clamp(0, *extent as i64) as usize;
            within(least)..within(most + 1)
        };
        let (offset, divisor) = (map.offset, map.divisor);
        match map.terms[..] {
            [] => Ranges::of([inside(offset, offset)]),
            [(axis, 1 | -1)] if divisor == 1 => {
                let factor = map.terms[0].1;
                Ranges::of(y.0[axis].iter().map(|r| {
                    let ends = [r.start, r.end - 1].map(|i| factor * i as i64 + offset);
                    inside(ends[0].min(ends[1]), ends[0].max(ends[1]))
                }))
            }
            [(axis, factor)] if divisor == 1 && y.0[axis].len() <= INDICES => {
                let places = y.0[axis].iter().flatten().map(|i| factor * i as i64 + offset);
                Ranges::of(places.map(|i| inside(i, i)))
            }
            _ => {
                let mut ends = [offset, offset];
                for (axis, factor) in &map.terms {
                    let (first, last) = (y.0[*axis].iter().next(), y.0[*axis].iter().last());
                    let (Some(first), Some(last)) = (first, last) else { return Ranges::default() };
                    let moves = [first.start, last.end - 1].map(|i| factor * i as i64);
                    ends[0] += moves[0].min(moves[1]);
                    ends[1] += moves[0].max(moves[1]);
                }
                Ranges::of([inside(ends[0].div_euclid(divisor), ends[1].div_euclid(divisor))])
            }
        }
    };
    Reads(piece.axes.iter().zip(x.iter()).map(along).collect())
}

/// Returns the elements of the operand, of shape `x`, that a reshape reads for the elements `y` of its result. If
/// an axis of the operand corresponds to an axis of the result, the indices along both are equal; other axes of the
/// operand are read whole.
fn reshaped(y: &Reads, y_shape: &Shape, x: &Shape) -> Reads {
    let mut places: Vec<Ranges> = x.iter().map(|extent| Ranges::all(*extent)).collect();
    // Axis i of the operand and axis j of the result correspond if they have equal extents, and if the axes before i
    // have as many elements as the axes before j.
    let (mut before_x, mut j, mut before_y) = (1, 0, 1);
    for (i, extent) in x.iter().enumerate() {
        while j < y_shape.len() && (before_y < before_x || y_shape[j] == 1) {
            before_y *= y_shape[j];
            j += 1;
        }
        if *extent != 1 && before_y == before_x && y_shape.get(j) == Some(extent) {
            places[i] = y.0[j].clone();
        }
        before_x *= extent;
    }
    Reads(places)
}

/// Returns the elements of an array of shape `x` that a gather at known `indices` reads for the elements `y` of its
/// result.
fn gathered(axes: &[usize], indices: &Tensor, y: &Reads, x: &Shape) -> Option<Reads> {
    let places: Vec<i128> = indices.literals().map(|i| i.to_integer()).collect::<Option<_>>()?;
    // The last axes of the result are those of the window, so skip the axes of the indices.
    let mut window = y.0.iter().skip(y.0.len().checked_sub(x.len() - axes.len())?);
    let along = |(axis, extent): (usize, &usize)| match axes.iter().position(|a| *a == axis) {
        None => window.next().cloned(),
        Some(component) => {
            let most = extent.checked_sub(1)? as i128;
            let own = places.iter().skip(component).step_by(axes.len());
            Some(Ranges::of(own.map(|i| {
                let i = (*i).clamp(0, most) as usize;
                i..i + 1
            })))
        }
    };
    x.iter().enumerate().map(along).collect::<Option<_>>().map(Reads)
}

/// Returns the value of an integer atom, if it is a literal or a value in `known`.
fn number(a: &Atom, known: &SecondaryMap<ValueId, Option<Tensor>>) -> Option<i128> {
    match a {
        Atom::Literal(l) => l.to_integer(),
        Atom::Value(v) => known[*v].as_ref()?.literal(0).ok()?.to_integer(),
    }
}

/// Evaluates the integer and boolean values of `f` that depend on no parameter and have at most [`INDICES`]
/// elements: the indices of slices and gathers.
fn known_indices(module: &Module, f: &Function) -> SecondaryMap<ValueId, Option<Tensor>> {
    let mut known: SecondaryMap<ValueId, Option<Tensor>> = SecondaryMap::new();
    for e in &f.equations {
        let [y] = e.outputs[..] else { continue };
        let small = f.types[y].as_array().filter(|ty| ty.shape.elements() <= INDICES);
        let Some(ty) = small else { continue };
        if ty.dtype.is_float() || !e.op.regions().is_empty() || e.op.host().is_some() {
            continue;
        }
        let operand = |a: &Atom| match a {
            Atom::Literal(l) => Tensor::full(&Shape::scalar(), *l).ok(),
            Atom::Value(v) => known[*v].clone(),
        };
        let operands: Option<Vec<Tensor>> = e.operands.iter().map(operand).collect();
        let value = operands.and_then(|operands| e.op.eval(module, &operands).ok());
        known[y] = value.and_then(|value| value.into_iter().next());
    }
    known
}
