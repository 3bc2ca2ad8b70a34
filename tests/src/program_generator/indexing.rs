//! Methods of `Generator` that emit reads and writes at computed indices.

use super::{Gene, Generator, Value};
use tapeloom_ir::prim::{Bounds, Combine, DynamicSlice, DynamicUpdateSlice, Gather, Scatter};
use tapeloom_ir::{ArrayType, Atom, Scalar, Shape};

/// The attributes and indices of a gather or scatter: the number of batch axes, the indexed axes, the treatment of
/// indices out of bounds, and the indices.
struct IndexOperands {
    batch: usize,
    axes: Vec<usize>,
    bounds: Bounds,
    indices: Atom,
    /// The shape of the slices that are read or written.
    windows: Shape,
}

impl Generator<'_, '_> {
    pub(super) fn gather(&mut self, gene: Gene) {
        let [i, j] = gene.operands;
        let x = self.any(i);
        let Some(p) = self.addressed(&x, j) else { return };
        let op = Gather { batch: p.batch, axes: p.axes, bounds: p.bounds };
        self.push(op, &[x.atom, p.indices], x.bound);
    }

    pub(super) fn scatter(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        self.scattered(&x, gene.operands[1]);
    }

    pub(super) fn dynamic_slice(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let sizes: Vec<usize> = x.ty.shape.iter().map(|n| n.min(&1) + self.rng.index(*n)).collect();
        let mut operands = vec![x.atom];
        operands.extend(self.starts(&x, gene.operands[1]));
        self.push(DynamicSlice { sizes }, &operands, x.bound);
    }

    pub(super) fn dynamic_update(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        self.boxed(&x, gene.operands[1]);
    }

    /// Emits several updates of one value, with reads before and after. Each operand is the value itself, an update of
    /// the value, or another update of the same value, so that updates in place may conflict.
    pub(super) fn updates(&mut self, gene: Gene) {
        let [i, j] = gene.operands;
        let mut x = self.any(i);
        if self.rng.index(2) == 0 && x.ty.dtype.is_float() {
            // A computed value may be updated in place, a parameter may not.
            let bound = x.bound;
            let Some(own) = self.push(Scalar::Sin, &[x.atom], bound.max(1.0)) else { return };
            x = own;
        }
        for k in 0..2 + self.rng.index(2) as u8 {
            match self.rng.index(4) {
                0 => self.reader(&x),
                1 => self.scattered(&x, j.wrapping_add(k)),
                _ => self.boxed(&x, j.wrapping_add(k)),
            }
            if self.rng.index(4) == 0 {
                x = self.any(0);
            }
        }
        if self.rng.index(2) == 0 {
            self.reader(&x);
        }
    }

    /// Emits an elementwise equation that reads `x`.
    fn reader(&mut self, x: &Value) {
        if x.ty.dtype == tapeloom_ir::Dtype::Bool {
            self.push(Scalar::Not, &[x.atom], 1.0);
        } else {
            self.push(Scalar::Add, &[x.atom, x.atom], 2.0 * x.bound);
        }
    }

    fn addressed(&mut self, x: &Value, back: u8) -> Option<IndexOperands> {
        let rank = x.ty.shape.len();
        let bounds = [Bounds::Clip, Bounds::Drop][self.rng.index(2)];
        let first = self.filled_axis(x)?;
        let batch = if first > 0 && self.rng.index(4) == 0 { 1 } else { 0 };
        let mut axes: Vec<usize> = vec![first];
        for a in batch..rank {
            if a != first && x.ty.shape[a] > 0 && self.rng.index(3) == 0 {
                axes.push(a);
            }
        }
        axes.sort_unstable();
        let mut outer: Vec<usize> = x.ty.shape[..batch].to_vec();
        for _ in 0..self.rng.index(3) {
            outer.push([1, 2, 3, 4, 7, 0, 17, 3][self.rng.index(8)]);
        }
        let windows: Shape = outer
            .iter()
            .copied()
            .chain((batch..rank).filter(|a| !axes.contains(a)).map(|a| x.ty.shape[a]))
            .collect();
        let shape: Shape = outer.iter().copied().chain([axes.len()]).collect();
        if !self.small(&windows) || !self.small(&shape) {
            return None;
        }
        let indices = self.places(back, &shape, x.ty.shape[first]);
        Some(IndexOperands { batch, axes, bounds, indices, windows })
    }

    fn scattered(&mut self, x: &Value, back: u8) {
        let Some(p) = self.addressed(x, back) else { return };
        let ty = ArrayType::new(x.ty.dtype, p.windows.clone());
        let u = self.of_type(back.wrapping_add(1), &ty);
        let n = p.windows.elements() as i32;
        let (combine, bound) = match self.rng.index(6) {
            0 | 1 => (Combine::Set, x.bound.max(u.bound)),
            2 => (Combine::Mul, x.bound * u.bound.max(1.0).powi(n)),
            3 => (Combine::Max, x.bound.max(u.bound)),
            4 => (Combine::Min, x.bound.max(u.bound)),
            _ => (Combine::Add, x.bound + f64::from(n) * u.bound),
        };
        let op = Scatter { combine, batch: p.batch, axes: p.axes, bounds: p.bounds };
        self.push(op, &[x.atom, p.indices, u.atom], bound);
    }

    fn boxed(&mut self, x: &Value, back: u8) {
        let shape: Shape =
            x.ty.shape.iter().map(|n| n.min(&1) + self.rng.index((*n).min(6))).collect();
        let u = self.of_type(back, &ArrayType::new(x.ty.dtype, shape));
        let mut operands = vec![x.atom, u.atom];
        operands.extend(self.starts(x, back));
        self.push(DynamicUpdateSlice, &operands, x.bound.max(u.bound));
    }

    /// Draws the start of a box along each axis, as a scalar of the program or a literal.
    fn starts(&mut self, x: &Value, back: u8) -> Vec<Atom> {
        let extents = x.ty.shape.clone();
        let scalar = Shape::scalar();
        let start = |(k, n): (usize, &usize)| self.places(back.wrapping_add(k as u8), &scalar, *n);
        extents.iter().enumerate().map(start).collect()
    }
}
