//! Sums over windows without the terms that are zeros between elements.
//!
//! The transpose of a convolution with the stride `s` reads `x[(i - k) / s]` where the division is exact. Of `s` places in a
//! window, `s - 1` lie between elements of `x`: they would be tested, or multiplied by a zero. With `k = s q + r` and
//! `i = s j + r` there is no division, and the remainder `r` is an axis:
//!
//! ```text
//! y[s j + r] = Σ_q x[j - q] w[s q + r]
//! ```
//!
//! A reshape of `[j, r]` interleaves the results. Remainders below `K mod s` have `ceil(K / s)` terms, the others
//! `floor(K / s)`. Each kind is a sum of its own: a kernel padded to equal numbers of terms would multiply an infinite
//! element by zero. If the array has fewer elements than the kernel has places, the sum is over the elements:
//!
//! ```text
//! y[i] = Σ_o x[o] w[i - s o]
//! ```
//!
//! If the stride and the dilation along an axis have a common divisor, results at other places than its multiples are 0.
//! Source: the polyphase decomposition of filter banks (Vaidyanathan, 1990), along each axis.

mod axis;
mod emit;

use super::dot::Side;
use super::window::Move;
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, Equation, Operands, ValueId};
use crate::map::OrderedMap;
use crate::prim::{Dot, Filled, Op, Reduce, Reducer, Window};
use axis::{AxisPlan, AxisSum};

/// Products of matrices come before sums over places only if each product has fewer results than this.
const FEW_RESULTS: usize = 8;

/// Products of matrices come before sums over places only if each has at least this number of terms.
const MANY_TERMS: usize = 16;

/// The most elements of the products of matrices before sums over places, for each element of operands and result.
const PRODUCTS: usize = 4;

/// Fewer products than this are small, whatever the operands are.
const SMALL: usize = 1 << 16;

/// The views of a function that sums over windows may read, by the values that they define.
#[derive(Debug, Default)]
pub struct WindowSums {
    views: OrderedMap<ValueId, Equation>,
}

/// The meaning of an axis of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Label {
    /// That axis of the left operand, which the sum leaves as it is.
    Left(usize),
    /// That axis of the right operand.
    Right(usize),
    /// That pair of the batch of a product.
    Batch(usize),
    /// The elements of the array beneath the windows, along that axis of windows.
    Element(usize),
    /// The places in a window.
    Tap(usize),
    /// The terms of the sum.
    Term(usize),
    /// The only term of the sum.
    Dropped(usize),
    /// The remainders.
    Remainder(usize),
    /// The results, divided by the number of remainders.
    Place(usize),
}

/// An array with the meaning of each axis.
#[derive(Clone, Debug)]
struct Labelled {
    atom: Atom,
    labels: Vec<Label>,
}

impl Sizes {
    /// The plans of the axes, and whether products of matrices come before the sums over windows.
    ///
    /// Windows over the taps have zeros beyond them, and an infinite element times such a zero is nan where the sum has no
    /// term. Behind products of matrices the zeros are added. If there are too many products, windows are over the elements.
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

/// The operands of a sum.
#[derive(Clone, Debug)]
enum Source {
    /// The sum of a product: its pairs and its operands, of which the first has elements and the second taps.
    Product { batch: Vec<(Label, Label)>, contract: Vec<(Label, Label)>, of: [Labelled; 2] },
    /// The sum of an array over taps and over those axes.
    Array { of: Labelled, over: Vec<Label> },
}

/// A sum over windows as it was written.
struct Sum {
    source: Source,
    /// The axes of the result.
    target: Vec<Label>,
    plans: Vec<AxisPlan>,
    /// Products of matrices come before the sums over windows.
    products_first: bool,
}

/// Sizes of a sum of a product, from which the order of products and sums follows.
struct Sizes {
    /// The elements of both operands.
    operands: usize,
    /// The terms of a product that are not places of windows.
    terms: usize,
    /// The results of an element, for each place.
    columns: usize,
    /// What is computed alike for each: members of a batch and axes without windows.
    others: usize,
}

/// The windows that a sum reads, and the array beneath them.
struct Beneath {
    array: Atom,
    moves: Vec<Move>,
    /// For each axis of the array, the axis of the operand of the sum.
    axes: Vec<usize>,
    /// For each move, the axis of taps in the operand of the sum, and their number.
    taps: Vec<(usize, usize)>,
}

impl WindowSums {
    /// Whether a primitive is one that sums over windows read.
    #[must_use]
    pub fn may_be_in(op: &Op) -> bool {
        matches!(op, Op::Window(_))
    }

    /// Remembers an equation that sums over windows may read.
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

    /// The result of an equation that is a sum over windows, computed without the zeros between elements; none if it is no
    /// such sum, or if that saves too little.
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

    /// The window that an atom is, with its axes in that order, if it has zeros for a fill.
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

    /// The array beneath a pad with zeros, with the windows that read it instead.
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
            // Elements that a pad crops are zeros to windows, too.
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

    /// The windows of a repeated array that one side of a product reads.
    fn repeated(&self, b: &Builder<'_>, x: Atom) -> Option<Beneath> {
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
        Some(Beneath { array, moves, axes, taps })
    }

    /// A product with windows on that side, over whose taps it sums.
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
            // The sum is over the places, for each window, or over the windows, for each place.
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

    /// The sum of an array over the taps of its windows.
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
