//! Methods of `Generator` that emit equations that move elements: views, slices, paddings, broadcasts, concatenations.

use super::{Gene, Generator, Value};
use tapeloom_ir::prim::{
    Broadcast, Concatenate, Diagonal, Move, Pad, Permute, Reshape, Rev, Slice, Window,
};
use tapeloom_ir::{Atom, Shape};

impl Generator<'_, '_> {
    /// Emits an equation that returns the elements of a value in another order or shape.
    pub(super) fn view(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let rank = x.ty.shape.len();
        match self.rng.index(4) {
            0 => {
                let mut permutation: Vec<usize> = (0..rank).collect();
                permutation.rotate_left(self.rng.index(rank));
                if self.rng.index(2) == 0 {
                    permutation.reverse();
                }
                self.push(Permute { permutation }, &[x.atom], x.bound);
            }
            1 if rank > 1 && self.rng.index(2) == 0 => {
                let j = 1 + self.rng.index(rank - 1);
                let i = self.rng.index(j);
                self.push(Diagonal { axes: vec![i, j] }, &[x.atom], x.bound);
            }
            1 => {
                let axes = self.axes(&x);
                self.push(Rev { axes }, &[x.atom], x.bound);
            }
            _ => {
                let n = x.ty.shape.elements();
                let mut shapes: Vec<Shape> = vec![[n].into(), [n, 1].into(), [1, n].into()];
                for k in [2, 3, 5].into_iter().filter(|k| n > 0 && n.is_multiple_of(*k)) {
                    shapes.extend([[k, n / k].into(), [n / k, k].into()]);
                }
                let shape = shapes[self.rng.index(shapes.len())].clone();
                self.push(Reshape { shape }, &[x.atom], x.bound);
            }
        }
    }

    /// Emits a strided slice, sometimes an empty one.
    pub(super) fn sliced(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let mut op = Slice { start: Vec::new(), limit: Vec::new(), strides: Vec::new() };
        for &extent in x.ty.shape.iter() {
            let whole = self.rng.index(3) == 0;
            let start = if whole { 0 } else { self.rng.index(extent) };
            let limit = start + self.rng.index(extent - start + 1);
            let limit = if self.rng.index(16) == 0 { limit } else { limit.max(start + 1) };
            let limit = if whole { extent } else { limit.min(extent) };
            let stride = [1, 1, 2, 3][self.rng.index(4)];
            op.start.push(start);
            op.limit.push(limit);
            op.strides.push(stride);
        }
        self.push(op, &[x.atom], x.bound);
    }

    /// Emits windows along one axis of an array, in any direction, with the position in the window as another axis.
    fn windowed(&mut self, x: &Value) {
        let axis = self.rng.index(x.ty.shape.len());
        let tap = (axis + 1 + self.rng.index(x.ty.shape.len() - 1)) % x.ty.shape.len();
        let window = Move {
            axis,
            tap,
            scale: [1, 2, -1, 3, -2][self.rng.index(5)],
            step: self.rng.index(5) as i64 - 2,
            offset: self.rng.index(7) as i64 - 3,
            divisor: 1 + self.rng.index(2),
            extent: self.rng.index(6),
        };
        let mut shape = x.ty.shape.to_vec();
        shape[axis] = window.extent;
        if self.small(&shape) {
            let fill = self.literal(x.ty.dtype);
            let bound = x.bound.max(fill.to_f64().abs());
            self.push(Window { moves: vec![window] }, &[x.atom, fill.into()], bound);
        }
    }

    /// Emits windows, or a `pad` around and between elements; negative amounts of the `pad` crop.
    pub(super) fn padded(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        if x.ty.shape.len() > 1 && self.rng.index(2) == 0 {
            return self.windowed(&x);
        }
        let mut op = Pad { low: Vec::new(), high: Vec::new(), interior: Vec::new() };
        let mut shape = Vec::new();
        for &extent in x.ty.shape.iter() {
            let interior = self.rng.index(2);
            let (low, high) = (self.rng.index(4) as i64 - 1, self.rng.index(3) as i64 - 1);
            let inner = extent as i64 + (extent.saturating_sub(1) * interior) as i64;
            let (low, high) = if inner + low + high < 0 { (0, 0) } else { (low, high) };
            shape.push((inner + low + high) as usize);
            op.low.push(low);
            op.high.push(high);
            op.interior.push(interior);
        }
        if !self.small(&shape) {
            return;
        }
        let (fill, bound) = match self.rng.index(2) {
            0 => {
                let l = self.literal(x.ty.dtype);
                (l.into(), l.to_f64().abs())
            }
            _ => {
                let y = self.pick(x.ty.dtype, gene.operands[1]);
                let y = self.scalar(&y);
                (y.atom, y.bound)
            }
        };
        self.push(op, &[x.atom, fill], x.bound.max(bound));
    }

    /// Emits a broadcast along a new axis, or along an axis of extent 1.
    pub(super) fn repeated(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let rank = x.ty.shape.len();
        let mut shape = x.ty.shape.to_vec();
        let mut dims: Vec<usize> = (0..rank).collect();
        let times = [0, 1, 2, 3, 8, 9, 17][1 + self.rng.index(6)];
        let times = if self.rng.index(20) == 0 { 0 } else { times };
        match shape.iter().position(|n| *n == 1) {
            Some(axis) if self.rng.index(2) == 0 => shape[axis] = times,
            _ => {
                let axis = self.rng.index(rank + 1);
                dims = (0..rank + 1).filter(|a| *a != axis).collect();
                shape.insert(axis, times);
            }
        }
        if self.small(&shape) {
            self.push(Broadcast { shape: shape.into(), dims }, &[x.atom], x.bound);
        }
    }

    /// Emits a concatenation along an axis of two or three arrays, of different extents if one is a slice.
    pub(super) fn joined(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let rank = x.ty.shape.len();
        if rank == 0 {
            return;
        }
        let axis = self.rng.index(rank);
        let count = 1 + self.rng.index(2);
        if !self.small(&[x.ty.shape.elements(), 1 + count]) {
            return;
        }
        let (mut pieces, mut bound): (Vec<Atom>, f64) = (vec![x.atom], x.bound);
        for k in 0..count {
            let y = self.pick(x.ty.dtype, gene.operands[1].wrapping_add(k as u8));
            let y = self.matching(&y, &x.ty.shape);
            let y = self.cut(&y, axis);
            bound = bound.max(y.bound);
            pieces.push(y.atom);
        }
        if self.rng.index(2) == 0 {
            pieces.reverse();
        }
        self.push(Concatenate { axis }, &pieces, bound);
    }

    /// Returns `x` or, half of the time, a slice from the beginning of an axis.
    fn cut(&mut self, x: &Value, axis: usize) -> Value {
        let extent = x.ty.shape[axis];
        if extent < 2 || self.rng.index(2) == 0 {
            return x.clone();
        }
        let mut limit = x.ty.shape.to_vec();
        limit[axis] = 1 + self.rng.index(extent - 1);
        let rank = limit.len();
        let op = Slice { start: vec![0; rank], limit, strides: vec![1; rank] };
        Value { atom: self.b.emit1(op, &[x.atom]), ..x.clone() }
    }
}
