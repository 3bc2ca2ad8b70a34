//! Sums over windows, without the terms that are zeros inserted between elements.
//!
//! The transpose of a convolution with stride `s` reads `x[(i - k) / s]` where the division is exact. Of `s` adjacent
//! positions in a window, `s - 1` lie between elements of `x`. A direct loop would test them or multiply by zero. With
//! `k = s q + r` and `i = s j + r` there is no division, and the remainder `r` becomes an axis:
//!
//! ```text
//! y[s j + r] = Σ_q x[j - q] w[s q + r]
//! ```
//!
//! A reshape of `[j, r]` interleaves the results. Remainders below `K mod s` have `ceil(K / s)` terms, the
//! others `floor(K / s)`. Each of the two groups is a separate sum: padding the kernel to equal numbers of
//! terms would multiply an infinite element by zero. If the array has fewer elements than the kernel has taps,
//! the sum is over the elements:
//!
//! ```text
//! y[i] = Σ_o x[o] w[i - s o]
//! ```
//!
//! If the stride and the dilation along an axis have a common divisor, the results at all positions but its
//! multiples are 0. Source: the polyphase decomposition of filter banks (Vaidyanathan, 1990), along each axis.

mod axis;
mod emit;

use super::dot::Side;
use super::window::Move;
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, Equation, Operands, ValueId};
use crate::map::OrderedMap;
use crate::prim::{Dot, Filled, Op, Reduce, Reducer, Window};
use axis::{AxisPlan, AxisSum};

/// Matrix products come before the sums over windows for speed only if there are fewer results than this for each
/// pair of an element and a tap.
const FEW_RESULTS: usize = 8;

/// Matrix products come before the sums over windows for speed only if each product sums at least this number of
/// terms.
const MANY_TERMS: usize = 16;

/// The largest allowed ratio of the number of elements of the intermediate matrix products to that of operands
/// and result together.
const PRODUCTS: usize = 4;

/// Intermediate matrix products of at most this number of elements are always allowed.
const SMALL: usize = 1 << 16;

/// The definitions of values that sums over windows may read (windows, pads, permutes, broadcasts), keyed by the
/// value.
#[derive(Debug, Default)]
pub struct WindowSums {
    views: OrderedMap<ValueId, Equation>,
}

/// The role of an array's axis in a sum over windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Label {
    /// An axis along which no window moves: the axis with this index of the product's left operand.
    Left(usize),
    /// An axis along which no window moves: the axis with this index of the product's right operand.
    Right(usize),
    /// The axis of the batch pair with this index in a product.
    Batch(usize),
    /// The axis of the elements under the windows, for the i-th axis along which windows move.
    Element(usize),
    /// The axis of the windows' taps, for the i-th axis along which windows move.
    Tap(usize),
    /// The axis of the sum's terms, for the i-th axis along which windows move.
    Term(usize),
    /// The axis of the sum's terms if there is only one term, for the i-th axis along which windows move. It has extent
    /// 1 and is removed later.
    Dropped(usize),
    /// The axis of the result indices' remainders, for the i-th axis along which windows move.
    Remainder(usize),
    /// The axis of the results' positions, for the i-th axis along which windows move. A position is the result index
    /// divided by the number of remainders.
    Place(usize),
}

/// An array with a label for the role of each axis.
#[derive(Clone, Debug)]
struct Labelled {
    atom: Atom,
    labels: Vec<Label>,
}

impl Sizes {
    /// Returns the plan of each axis, and whether matrix products come before the sums over windows.
    ///
    /// Windows over the taps read zeros beyond the taps. Such a zero times an infinite element would be NaN, where the
    /// sum as written has no term. If the matrix products come first, the zeros are added instead of multiplied. If
    /// these products are too large, the windows are over the elements.
    fn plans(&self, lines: &[AxisSum]) -> Option<(Vec<AxisPlan>, bool)> {
        let all = |plan: &dyn Fn(&AxisSum) -> Option<AxisPlan>| {
            lines.iter().map(plan).collect::<Option<Vec<AxisPlan>>>()
        };
        let best = all(&|line| line.best())?;
        let product = |of: fn(&AxisSum) -> usize| lines.iter().map(of).product::<usize>();
        let taps = product(|line| line.extents[1]);
        let alike = self.others.saturating_mul(self.columns);
        let pairs = product(|line| line.extents[0]).saturating_mul(taps);
        let (products, results) =
            (alike.saturating_mul(pairs), alike.saturating_mul(product(|line| line.results)));
        let fits = products <= PRODUCTS.saturating_mul(self.operands.saturating_add(results));
        let over_taps = best.iter().any(|plan| plan.over_taps);
        let faster = self.columns < FEW_RESULTS
            && self.terms >= MANY_TERMS
            && self.columns * taps >= FEW_RESULTS
            && pairs as f64 <= 2.0 * best.iter().map(AxisPlan::work).product::<f64>();
        if fits && (faster || over_taps) || products <= SMALL && over_taps {
            return Some((best, true));
        }
        Some((if over_taps { all(&|line| line.plan(false))? } else { best }, false))
    }
}

impl Labelled {
    fn place(&self, label: Label) -> Option<usize> {
        self.labels.iter().position(|l| *l == label)
    }
}

/// The operands of a sum over windows: a product of two arrays or a single array.
#[derive(Clone, Debug)]
enum Source {
    /// The sum of a product: its pairs of labels and its operands. The first operand has the elements, the second
    /// the taps.
    Product { batch: Vec<(Label, Label)>, contract: Vec<(Label, Label)>, of: [Labelled; 2] },
    /// The sum of a single array over its taps and over the axes labelled `over`.
    Array { of: Labelled, over: Vec<Label> },
}

/// A sum over windows in its original form, with the plan of each of its axes.
struct Sum {
    source: Source,
    /// The labels of the result's axes, in order.
    target: Vec<Label>,
    plans: Vec<AxisPlan>,
    /// Whether the matrix products are computed before the sums over windows.
    products_first: bool,
}

/// The sizes of a sum of a product that decide whether matrix products come before the sums over windows.
struct Sizes {
    /// The number of elements of both operands of the product together.
    operands: usize,
    /// The number of terms of each sum, not counting the taps.
    terms: usize,
    /// The number of columns of the matrix product: its results for one element of the array under the windows and one
    /// tap.
    columns: usize,
    /// The number of times that the same computation is repeated: batch members and axes without windows.
    others: usize,
}

/// The windows that an operand of a sum reads, and the array under the windows.
struct WindowedArray {
    array: Atom,
    moves: Vec<Move>,
    /// For each axis of the array under the windows, the axis of the sum's operand in which it appears.
    axes: Vec<usize>,
    /// For each move of the windows, the tap axis in the sum's operand, and the number of taps.
    taps: Vec<(usize, usize)>,
}

impl WindowSums {
    /// Returns whether `op` is a window primitive. A function without this primitive has no sums over windows, so the
    /// pass can skip it.
    #[must_use]
    pub fn may_be_in(op: &Op) -> bool {
        matches!(op, Op::Window(_))
    }

    /// Records the equation of a value if a sum over windows may read through it.
    pub fn note(&mut self, op: &Op, operands: &[Atom], outputs: &[Atom]) {
        let [Atom::Value(made)] = outputs else { return };
        if let Op::Window(_) | Op::Broadcast(_) | Op::Pad(_) | Op::Permute(_) = op {
            let operands: Operands = operands.iter().copied().collect();
            let e = Equation { outputs: [*made].into_iter().collect(), op: op.clone(), operands };
            self.views.insert(*made, e);
        }
    }

    fn definition(&self, x: Atom) -> Option<&Equation> {
        self.views.get(&x.value()?)
    }

    /// If the equation is a sum over windows and the polyphase form saves enough terms, emits it in that form and
    /// returns its result; otherwise `None`.
    pub fn rewritten(&self, b: &Builder<'_>, op: &Op, operands: &[Atom]) -> Option<Atom> {
        let sum = match (op, operands) {
            (Op::Dot(dot), [left, right]) => [Side::Left, Side::Right]
                .into_iter()
                .find_map(|side| self.product(b, dot, [*left, *right], side)),
            (Op::Reduce(r), [x]) if r.reducer == Reducer::Sum => self.array(b, r, *x),
            _ => None,
        }?;
        if sum.pays() { sum.emit(b) } else { None }
    }

    /// If `x`, of this rank, is a window with zero as its fill, possibly permuted, returns the window, its array
    /// and the order of the axes.
    fn window(&self, x: Atom, rank: usize) -> Option<(&Window, Atom, Vec<usize>)> {
        let (mut order, mut at): (Vec<usize>, Atom) = ((0..rank).collect(), x);
        loop {
            let e = self.definition(at)?;
            match (&e.op, &e.operands[..]) {
                (Op::Permute(p), [from]) => {
                    order = order.iter().map(|axis| p.permutation[*axis]).collect();
                    at = *from;
                }
                (Op::Window(Filled(w)), [x, fill]) if is_zero(fill) => return Some((w, *x, order)),
                _ => return None,
            }
        }
    }

    /// Looks through a pad with zeros: returns the array under the pad, and equivalent moves that read that
    /// array.
    fn unpadded(
        &self,
        b: &Builder<'_>,
        x: Atom,
        moves: &[(Move, usize)],
    ) -> Option<(Atom, Vec<Move>)> {
        let plain = || (x, moves.iter().map(|(m, _)| *m).collect::<Vec<_>>());
        let Some(e) = self.definition(x) else { return Some(plain()) };
        let (Op::Pad(Filled(pad)), [inner, fill]) = (&e.op, &e.operands[..]) else {
            return Some(plain());
        };
        let along = |axis: usize| moves.iter().any(|(m, _)| m.axis == axis);
        let others = (0..pad.low.len()).filter(|axis| !along(*axis));
        let untouched = |a: usize| (pad.low[a], pad.high[a], pad.interior[a]) == (0, 0, 0);
        if !is_zero(fill) || !others.into_iter().all(untouched) {
            return Some(plain());
        }
        let shape = b.shape_of(x);
        let beneath = |(m, taps): &(Move, usize)| {
            let ends = [m.scale * (m.extent as i64 - 1), m.step * (*taps as i64 - 1)];
            let least = m.offset + ends.iter().map(|end| end.min(&0)).sum::<i64>();
            let most = m.offset + ends.iter().map(|end| end.max(&0)).sum::<i64>();
            let divisor = m.divisor as i64;
            // If a window reaches an element that the pad removes, it must read zero there: do not look through
            // this pad.
            let (low, high) = (pad.low[m.axis], pad.high[m.axis]);
            let cropped =
                (low < 0 && least < 0) || (high < 0 && most > divisor * (shape[m.axis] as i64 - 1));
            (!cropped).then(|| Move {
                offset: m.offset - low * divisor,
                divisor: m.divisor * (pad.interior[m.axis] + 1),
                ..*m
            })
        };
        match moves.iter().map(beneath).collect::<Option<Vec<Move>>>() {
            Some(moves) => Some((*inner, moves)),
            None => Some(plain()),
        }
    }

    /// If the product's operand `x` consists of windows of an array that is repeated along the taps, returns these
    /// windows and the array; otherwise `None`.
    fn repeated(&self, b: &Builder<'_>, x: Atom) -> Option<WindowedArray> {
        let seen = b.shape_of(x);
        let (window, repeated, order) = self.window(x, seen.len())?;
        let e = self.definition(repeated)?;
        let (Op::Broadcast(broadcast), [array]) = (&e.op, &e.operands[..]) else { return None };
        let own = |axis: usize| broadcast.dims.iter().position(|d| *d == axis);
        let reader = |axis: usize| order.iter().position(|o| *o == axis);
        let shape = b.shape_of(*array);
        if broadcast.dims.iter().enumerate().any(|(i, d)| broadcast.shape[*d] != shape[i]) {
            return None;
        }
        let moves = window.moves.iter().map(|m| {
            let moved = Move { axis: own(m.axis)?, ..*m };
            own(m.tap).is_none().then_some((moved, broadcast.shape[m.tap]))
        });
        let moves = moves.collect::<Option<Vec<(Move, usize)>>>()?;
        if broadcast.dims.len() + moves.len() != seen.len() {
            return None;
        }
        let taps = window.moves.iter().zip(&moves).map(|(m, (_, n))| Some((reader(m.tap)?, *n)));
        let taps = taps.collect::<Option<Vec<_>>>()?;
        let axes = broadcast.dims.iter().map(|d| reader(*d)).collect::<Option<Vec<_>>>()?;
        let (array, moves) = self.unpadded(b, *array, &moves)?;
        Some(WindowedArray { array, moves, axes, taps })
    }

    /// If operand `side` of a product is a window whose taps the product sums over, returns the product as a sum
    /// over windows; otherwise `None`.
    fn product(&self, b: &Builder<'_>, dot: &Dot, operands: [Atom; 2], side: Side) -> Option<Sum> {
        let (x, w) = match side {
            Side::Left => (operands[0], operands[1]),
            Side::Right => (operands[1], operands[0]),
        };
        let beneath = self.repeated(b, x)?;
        let turned = if side == Side::Left { dot.clone() } else { dot.swapped() };
        let partner = |tap: usize| turned.contract.iter().find(|(l, _)| *l == tap).map(|p| p.1);
        let mut right: Vec<Label> = (0..b.shape_of(w).len()).map(Label::Right).collect();
        let mut left: Vec<Label> = beneath.axes.iter().map(|axis| Label::Left(*axis)).collect();
        let shape = b.shape_of(beneath.array);
        let free = turned.free(Side::Left, b.shape_of(x).len());
        let (mut lines, mut summed, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (i, (m, (tap, taps))) in beneath.moves.iter().zip(&beneath.taps).enumerate() {
            let axis = beneath.axes[m.axis];
            // The product sums either over the taps, with a result for each window, or over the windows, with a
            // result for each tap.
            let (over, of, line) = match (free.contains(&axis), free.contains(tap)) {
                (true, false) => (*tap, axis, AxisSum::of(m, shape[m.axis], *taps)?),
                (false, true) => (axis, *tap, AxisSum::of_places(m, shape[m.axis], *taps)?),
                _ => return None,
            };
            right[partner(over)?] = Label::Tap(i);
            left[m.axis] = Label::Element(i);
            lines.push(line);
            summed.push(over);
            kept.push(of);
        }
        let is_tap = |l: usize| summed.iter().position(|over| *over == l);
        let pair = |(l, r): &(usize, usize)| match is_tap(*l) {
            Some(i) => (Label::Term(i), Label::Term(i)),
            None => (Label::Left(*l), Label::Right(*r)),
        };
        let of = |axis: usize| {
            kept.iter().position(|k| *k == axis).map_or(Label::Left(axis), Label::Place)
        };
        let mut rows: Vec<Label> = free.iter().map(|axis| of(*axis)).collect();
        let columns = turned.free(Side::Right, right.len()).into_iter().map(Label::Right);
        let mut target: Vec<Label> = (0..dot.batch.len()).map(Label::Batch).collect();
        if side == Side::Left {
            target.extend(rows);
            target.extend(columns);
        } else {
            target.extend(columns);
            target.append(&mut rows);
        }
        let source = Source::Product {
            batch: turned.batch.iter().map(pair).collect(),
            contract: turned.contract.iter().map(pair).collect(),
            of: [
                Labelled { atom: beneath.array, labels: left },
                Labelled { atom: w, labels: right },
            ],
        };
        let own = b.shape_of(w);
        let columns = turned.free(Side::Right, own.len()).iter().map(|axis| own[*axis]).product();
        let extent = |l: &usize| b.shape_of(x)[*l];
        let terms = turned.contract.iter().map(|(l, _)| l).filter(|l| is_tap(**l).is_none());
        let terms: usize = terms.map(extent).product();
        let windowed: usize = lines.iter().map(|line| line.extents[0]).product();
        let sizes = Sizes {
            operands: shape.elements() + own.elements(),
            terms,
            columns,
            others: shape.elements() / (windowed * terms).max(1),
        };
        let (plans, products_first) = sizes.plans(&lines)?;
        Some(Sum { source, target, plans, products_first })
    }

    /// If a reduction sums over the taps of a window, returns it as a sum over windows; otherwise `None`.
    fn array(&self, b: &Builder<'_>, r: &Reduce, x: Atom) -> Option<Sum> {
        let seen = b.shape_of(x);
        let (window, array, order) = self.window(x, seen.len())?;
        let inner = b.shape_of(array);
        let moves: Vec<(Move, usize)> = window.moves.iter().map(|m| (*m, inner[m.tap])).collect();
        let (array, moves) = self.unpadded(b, array, &moves)?;
        let shape = b.shape_of(array);
        let mut labels = vec![Label::Batch(0); seen.len()];
        for (reader, own) in order.iter().enumerate() {
            labels[*own] = Label::Left(reader);
        }
        let mut target: Vec<Label> =
            (0..seen.len()).filter(|axis| !r.axes.contains(axis)).map(Label::Left).collect();
        let mut plans = Vec::new();
        for (i, m) in moves.iter().enumerate() {
            let (Label::Left(place), Label::Left(tap)) = (labels[m.axis], labels[m.tap]) else {
                return None;
            };
            if r.axes.contains(&place) || !r.axes.contains(&tap) {
                return None;
            }
            target
                .iter_mut()
                .filter(|l| **l == Label::Left(place))
                .for_each(|l| *l = Label::Place(i));
            (labels[m.axis], labels[m.tap]) = (Label::Element(i), Label::Tap(i));
            plans.push(AxisSum::of(m, shape[m.axis], shape[m.tap])?.best()?);
        }
        let over = labels.iter().copied().filter(|l| match l {
            Label::Left(axis) => r.axes.contains(axis),
            _ => false,
        });
        let source = Source::Array { over: over.collect(), of: Labelled { atom: array, labels } };
        Some(Sum { source, target, plans, products_first: false })
    }
}

fn is_zero(fill: &Atom) -> bool {
    fill.literal().is_some_and(|fill| fill.is_zero())
}
