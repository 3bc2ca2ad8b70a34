//! `window{axes, taps, scales, steps, offsets, divisors, extents}`: an array read through a moving window.
//!
//! `axes` are the axes that the window moves along, and `taps` the axes of the positions within the window, one
//! for each. Along each pair of axes the array is read at
//!
//! ```text
//! y[.., o, .., k, ..] = x[.., (scale o + step k + offset) / divisor, .., k, ..]
//! ```
//!
//! if the division is exact and the index lies within the array; otherwise the element is the fill. `extents`
//! are the extents of `o`. With an array repeated along `taps`, `scale` is the stride of a convolution, `step`
//! its dilation, `-offset` its padding, and `divisor` the dilation of its input. For `x = [a b c d]`, repeated
//! twice, windows of two with stride 2 and padding 1 are `[0 a] [b c] [d 0]`.
//!
//! For each `k` an element of the array is read at most once, so the transpose is a window too:
//! `divisor i = scale o + step k + offset` implies `o = (divisor i - step k - offset) / scale`.

use super::dot::{AxisOf, Product};
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape};
use crate::prim::rules::attr::Attributes;
use crate::prim::rules::lowering::INDEX_LIMIT;
use crate::prim::syntax::{Field, SingleField, Written};
use crate::prim::{AxisMap, Broadcast, Doc, Family, Filled, FilledView, Op, Pad, Sample};
use crate::tensor::Tensor;
use smallvec::smallvec;

/// An array read through a window that moves along some axes. Its text is
/// `window{axes, taps, scales, steps, offsets, divisors, extents}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Window {
    /// Per axis along which the window moves: its movement.
    pub moves: Vec<Move>,
}

notation!(Window = "window" { moves(axes, taps, scales, steps, offsets, divisors, extents) });

/// The movement of a window along an axis. Position k within window number o reads the array at the index
/// `(scale o + step k + offset) / divisor`. The other letters are the fields of this type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Move {
    /// The axis along which the window moves.
    pub axis: usize,
    /// The axis that holds the positions within the window (the taps).
    pub tap: usize,
    /// The distance between successive windows, in a unit in which elements of the array are `divisor` apart; not
    /// 0.
    pub scale: i64,
    /// The distance between positions within the window, in the unit of `scale`.
    pub step: i64,
    /// The position of the first window, in the unit of `scale`.
    pub offset: i64,
    /// The distance between neighbouring elements of the array, in the unit of `scale`; at least 1.
    pub divisor: usize,
    /// The number of windows: the extent of `axis` in the result.
    pub extent: usize,
}

/// The text form of the moves: seven lists, one for each field of `Move`.
impl Field<7> for Vec<Move> {
    fn write(&self, names: [&'static str; 7]) -> Written {
        let natural =
            |of: fn(&Move) -> usize| self.iter().map(of).collect::<Vec<usize>>().to_attr();
        let integer = |of: fn(&Move) -> i64| self.iter().map(of).collect::<Vec<i64>>().to_attr();
        let all = [
            natural(|m| m.axis),
            natural(|m| m.tap),
            integer(|m| m.scale),
            integer(|m| m.step),
            integer(|m| m.offset),
            natural(|m| m.divisor),
            natural(|m| m.extent),
        ];
        names.into_iter().zip(all).collect()
    }

    fn read(names: [&str; 7], from: &mut Attributes) -> Result<Vec<Move>> {
        let [axes, taps, scales, steps, offsets, divisors, extents] = names;
        let axes: Vec<usize> = Field::read([axes], from)?;
        let taps: Vec<usize> = Field::read([taps], from)?;
        let integers: [Vec<i64>; 3] = [
            Field::read([scales], from)?,
            Field::read([steps], from)?,
            Field::read([offsets], from)?,
        ];
        let naturals: [Vec<usize>; 2] =
            [Field::read([divisors], from)?, Field::read([extents], from)?];
        let n = axes.len();
        let lengths = integers.iter().map(Vec::len).chain(naturals.iter().map(Vec::len));
        if taps.len() != n || lengths.into_iter().any(|m| m != n) {
            let message =
                format!("a window along the axes {axes:?} has attributes of other lengths");
            return Err(Problem::new(
                Kind::Parse,
                message,
                "each list has one entry for each axis",
            ));
        }
        let at = |i: usize| Move {
            axis: axes[i],
            tap: taps[i],
            scale: integers[0][i],
            step: integers[1][i],
            offset: integers[2][i],
            divisor: naturals[0][i],
            extent: naturals[1][i],
        };
        Ok((0..n).map(at).collect())
    }
}

impl Window {
    /// Returns an equivalent pad and window such that the window never reads its own fill: the pad puts the fill
    /// around and between the elements, and the window reads the padded array.
    #[must_use]
    pub fn padded(&self, x: &Shape) -> (Pad, Window) {
        let rank = x.len();
        let mut pad = Pad { low: vec![0; rank], high: vec![0; rank], interior: vec![0; rank] };
        let inside = |m: &Move| {
            let (n, places) = (x[m.axis] as i64, x[m.tap] as i64);
            let spread = if n == 0 { 0 } else { (n - 1) * m.divisor as i64 + 1 };
            let ends = [m.scale * (m.extent as i64 - 1), m.step * (places - 1)];
            let least = m.offset + ends.iter().map(|end| end.min(&0)).sum::<i64>();
            let most = m.offset + ends.iter().map(|end| end.max(&0)).sum::<i64>();
            let nothing = m.extent == 0 || places == 0;
            let low = if nothing { 0 } else { (-least).max(0) };
            pad.low[m.axis] = low;
            pad.high[m.axis] = if nothing { 0 } else { (most - spread + 1).max(0) };
            pad.interior[m.axis] = m.divisor - 1;
            Move { offset: m.offset + low, divisor: 1, ..*m }
        };
        let moves = self.moves.iter().map(inside).collect();
        (pad, Window { moves })
    }

    /// Emits the window of `x` with zero as the fill. The zeros are padded around the array first, so that
    /// readers of the window read an array at constant strides.
    fn of(&self, b: &Builder<'_>, x: Atom) -> Atom {
        if let Some(product) = self.of_product(b, x) {
            return product;
        }
        let fill = Literal::zero(b.dtype_of(x)).into();
        let (pad, inside) = self.padded(&b.shape_of(x));
        let x = if pad.is_nothing() { x } else { b.emit1(pad, &[x, fill]) };
        b.emit1(inside, &[x, fill])
    }
}

impl Window {
    /// Emits the window of a product whose axes come from one factor and whose taps come from the other factor. The
    /// result is the product of the first factor's window and the second factor, with the taps as batch axes. For the
    /// factors x and w, at position o and tap k, with c as the contracted axes:
    ///
    /// ```text
    /// Σ_c x[o + k, c] w[k, c] = Σ_c x'[o, k, c] w[k, c],   x'[o, k, c] = x[o + k, c]
    /// ```
    ///
    /// So the transpose of a convolution is a convolution. The operation that reads the result sums over k, and the
    /// product at every position and tap is never materialised.
    fn of_product(&self, b: &Builder<'_>, x: Atom) -> Option<Atom> {
        let product = Product::of(b, x)?;
        // `of_product` handles windows over the left factor; exchange the factors if the windows are over the
        // right one.
        let product = match self.moves.first().map(|m| product.axes[m.axis])? {
            AxisOf::Right(_) => product.turned(),
            AxisOf::Left(_) | AxisOf::Batch(_) => product,
        };
        let Product { mut dot, operands: [left, right], mut axes } = product;
        let (rank, shape) = (b.shape_of(left).len(), b.shape_of(x));
        let (mut moves, mut taps) = (Vec::new(), Vec::new());
        for m in &self.moves {
            let (AxisOf::Left(axis), AxisOf::Right(tap)) = (axes[m.axis], axes[m.tap]) else {
                return None;
            };
            let own = rank + moves.len();
            moves.push(Move { axis, tap: own, ..*m });
            taps.push(shape[m.tap]);
            axes[m.tap] = AxisOf::Batch(dot.batch.len());
            dot.batch.push((own, tap));
        }
        let windows = Window { moves }.over(b, left, &taps);
        Product::emit(b, dot, [windows, right], &axes)
    }

    /// Emits a product of windows, cropped by `low` in front of its axes and `high` behind (negative numbers, as in
    /// [`Pad`]) and then sliced with `strides`. The result has fewer windows, of an array with fewer zeros around it.
    /// Returns `None` unless only axes of windows are cropped. For the array x and the kernel w, at result index o and
    /// tap k:
    ///
    /// ```text
    /// y[stride o - low] = Σ_k x[scale (stride o - low) + k] w[k]
    /// ```
    ///
    /// So the transpose of a convolution of a padded array never computes the cotangent of the padding, and the
    /// transpose of a convolution whose array has zeros between its elements is a convolution with a stride.
    pub(super) fn cropped(
        b: &Builder<'_>,
        y: Atom,
        low: &[i64],
        high: &[i64],
        strides: &[usize],
    ) -> Option<Atom> {
        let cut =
            || (0..low.len()).filter(|axis| (low[*axis], high[*axis], strides[*axis]) != (0, 0, 1));
        let (first, product) = (cut().next()?, Product::of(b, y)?);
        let product = match product.axes[first] {
            AxisOf::Right(_) => product.turned(),
            AxisOf::Left(_) | AxisOf::Batch(_) => product,
        };
        let Product { dot, operands: [windows, right], axes } = product;
        let made = b.recent_definition(windows)?;
        let (Op::Window(Filled(window)), [repeated, zero]) = (&made.op, &made.operands[..]) else {
            return None;
        };
        let made = b.recent_definition(*repeated)?;
        let (Op::Broadcast(broadcast), [array]) = (&made.op, &made.operands[..]) else {
            return None;
        };
        let own = b.shape_of(*array).len();
        let repeats = broadcast.dims.iter().copied().eq(0..own)
            && zero.literal().is_some_and(|fill| fill.is_zero())
            && window.moves.iter().all(|m| m.divisor == 1 && m.axis < own && m.tap >= own);
        if !repeats {
            return None;
        }
        let mut moves = window.moves.clone();
        for axis in cut() {
            let AxisOf::Left(at) = axes[axis] else { return None };
            let m = moves.iter_mut().find(|m| m.axis == at)?;
            let fewer = usize::try_from((-low[axis]).checked_sub(high[axis])?).ok()?;
            if low[axis] > 0 || high[axis] > 0 || fewer > m.extent {
                return None;
            }
            let front = if planted(Fault::CroppedSide) { high[axis] } else { low[axis] };
            (m.offset, m.extent) =
                (m.offset - m.scale * front, (m.extent - fewer).div_ceil(strides[axis]));
            m.scale *= strides[axis] as i64;
        }
        // If the array is a pad with zeros, only windows that are now cropped may have read these zeros. Then read the
        // unpadded array.
        let array = match b.recent_definition(*array) {
            Some(around) => match (&around.op, &around.operands[..]) {
                (Op::Pad(Filled(pad)), [inner, zero])
                    if zero.literal().is_some_and(|fill| fill.is_zero())
                        && pad.surrounds_only(moves.iter().map(|m| m.axis)) =>
                {
                    for m in &mut moves {
                        (m.offset, m.divisor) =
                            (m.offset - pad.low[m.axis], pad.interior[m.axis] + 1);
                    }
                    *inner
                }
                _ => *array,
            },
            None => *array,
        };
        let windows = Window { moves }.over(b, array, &broadcast.shape[own..]);
        Product::emit(b, dot, [windows, right], &axes)
    }

    /// Repeats `x` along new last axes of extents `taps`, and emits the window of the repeated array. Elements that the
    /// window reads outside the array are 0.
    pub(super) fn over(&self, b: &Builder<'_>, x: Atom, taps: &[usize]) -> Atom {
        let own = b.shape_of(x).len();
        let zero = Literal::zero(b.dtype_of(x)).into();
        let repeated = |x: &Shape| x.iter().copied().chain(taps.iter().copied()).collect::<Shape>();
        let (mut pad, inside) = self.padded(&repeated(&b.shape_of(x)));
        for edges in [&mut pad.low, &mut pad.high] {
            edges.truncate(own);
        }
        pad.interior.truncate(own);
        let x = if pad.is_nothing() { x } else { b.emit1(pad, &[x, zero]) };
        let repeated = Broadcast { shape: repeated(&b.shape_of(x)), dims: (0..own).collect() };
        b.emit1(inside, &[b.emit1(repeated, &[x]), zero])
    }
}

impl Move {
    /// Returns the move of the transpose, along an axis of this extent: it writes an element to the position
    /// where this move reads it.
    fn inverse(&self, extent: usize) -> Move {
        // The inverse's divisor must be positive, so signs go into its scale, step and offset.
        let sign = self.scale.signum();
        Move {
            axis: self.axis,
            tap: self.tap,
            scale: sign * self.divisor as i64,
            step: if planted(Fault::WindowBack) { sign } else { -sign } * self.step,
            offset: -sign * self.offset,
            divisor: self.scale.unsigned_abs() as usize,
            extent,
        }
    }
}

impl FilledView for Window {
    fn doc() -> Doc {
        Doc {
            family: Family::Movement,
            name: "window{axes, taps, scales, steps, offsets, divisors, extents}".into(),
            math: "y[.., o, .., k, ..] = x[.., (scale o + step k + offset) / divisor, .., k, ..], o along \
                   axes and k along taps; the fill where that is no index"
                .into(),
            types: "any array and a scalar of its dtype; the extents of axes become those given"
                .into(),
            derivative: "∂(x, fill): window of t by the tangent of the fill; its transpose is the \
                         window with scale and divisor exchanged, and sums the cotangents of \
                         filled elements"
                .into(),
            edges: "the fill where the division has a remainder or the index is outside".into(),
        }
    }

    fn result(&self, x: &ArrayType) -> Result<Shape> {
        let wrong = |message: String, help: &str| Err(Problem::new(Kind::Shape, message, help));
        let rank = x.shape.len();
        let mut named: Vec<usize> = self.moves.iter().flat_map(|m| [m.axis, m.tap]).collect();
        named.sort_unstable();
        if named.iter().any(|axis| *axis >= rank) || named.windows(2).any(|two| two[0] == two[1]) {
            let pairs: Vec<(usize, usize)> = self.moves.iter().map(|m| (m.axis, m.tap)).collect();
            return wrong(
                format!("`window` of {x} along axes with taps {pairs:?}"),
                "axes and taps are different axes of the array",
            );
        }
        let mut shape = x.shape.to_vec();
        for at in &self.moves {
            let (o, k) = (at.extent as i128, x.shape[at.tap] as i128);
            let steps = k * i128::from(at.step).abs();
            // The largest absolute values of the numerators in the index formulas of this window and of its transpose.
            // They must not exceed `INDEX_LIMIT`, so that no index overflows.
            let reach = o * i128::from(at.scale).abs() + steps;
            let back = x.shape[at.axis].max(1) as i128 * at.divisor as i128 + steps;
            let all = [reach, back, i128::from(at.offset).abs(), o];
            if at.scale == 0 || at.divisor == 0 || all.iter().any(|n| *n > INDEX_LIMIT as i128) {
                return wrong(
                    format!(
                        "`window` of {x} along axis {} reads ({} o + {} k + {}) / {} for {} o",
                        at.axis, at.scale, at.step, at.offset, at.divisor, at.extent
                    ),
                    "a scale is not 0, a divisor is at least 1, and positions do not exceed the \
                     largest index",
                );
            }
            shape[at.axis] = at.extent;
        }
        Ok(shape.into())
    }

    fn view(&self, x: &Shape) -> Vec<AxisMap> {
        let mut maps: Vec<AxisMap> = (0..x.len()).map(AxisMap::same).collect();
        for at in &self.moves {
            let map = &mut maps[at.axis];
            map.terms = smallvec![(at.axis, at.scale)];
            if at.step != 0 {
                map.terms.push((at.tap, at.step));
            }
            (map.offset, map.divisor) = (at.offset, at.divisor as i64);
        }
        maps
    }

    fn adjoint(&self, b: &Builder<'_>, ct: Atom, x: &ArrayType) -> Atom {
        let moves = self.moves.iter().map(|m| m.inverse(x.shape[m.axis])).collect();
        Window { moves }.of(b, ct)
    }

    fn batched(&self) -> Window {
        let moved = |m: &Move| Move { axis: m.axis + 1, tap: m.tap + 1, ..*m };
        Window { moves: self.moves.iter().map(moved).collect() }
    }

    fn samples() -> Vec<Sample> {
        let one = |scale, step, offset, divisor, extent| Window {
            moves: vec![Move { axis: 0, tap: 1, scale, step, offset, divisor, extent }],
        };
        let two = Window {
            moves: vec![
                Move { axis: 2, tap: 1, scale: 1, step: 2, offset: -1, divisor: 1, extent: 3 },
                Move { axis: 0, tap: 3, scale: 2, step: -1, offset: 1, divisor: 1, extent: 2 },
            ],
        };
        let x = || Tensor::from([[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25], [4.0, 2.5]]);
        let fill = || Tensor::from(0.75);
        let count: Vec<f64> = (0..36).map(|i| f64::from(i * i % 17) - 8.0).collect();
        let many = Tensor::from(count).reshape(&[3, 2, 3, 2]).unwrap_or(Tensor::from(0.0));
        let integers = Tensor::from([[1i32, 2], [3, 4]]);
        vec![
            Sample::smooth(one(2, 1, -1, 1, 3), vec![x(), fill()]),
            Sample::smooth(one(1, -1, 0, 2, 5), vec![x(), fill()]),
            Sample::smooth(one(-3, 2, 5, 2, 4), vec![x(), fill()]),
            Sample::smooth(one(1, 0, 0, 1, 4), vec![x(), fill()]),
            Sample::smooth(two, vec![many, fill()]),
            Sample::edge(one(1, 1, 9, 1, 2), vec![x(), fill()]),
            Sample::edge(one(1, 1, 0, 1, 0), vec![x(), fill()]),
            Sample::edge(one(1, 1, -1, 1, 3), vec![integers, Tensor::scalar(7i32)]),
        ]
    }
}
