//! Methods of `Generator` that emit reductions, searches, sorts, cumulative operations and contractions along axes.

use super::{Gene, Generator, Value};
use tapeloom_ir::prim::{
    ArgReduce, ArgSort, Cumulate, Cumulation, Dot, Extremum, Recurrence, Reduce, Reducer,
};
use tapeloom_ir::{Dtype, Shape};

impl Generator<'_, '_> {
    pub(super) fn reduced(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let axes = self.axes(&x);
        let n: usize = axes.iter().map(|a| x.ty.shape[*a]).product();
        let extremes = [(Reducer::Max, x.bound), (Reducer::Min, x.bound)];
        let mut all = match x.ty.dtype {
            Dtype::Bool => vec![(Reducer::And, 1.0), (Reducer::Or, 1.0)],
            dtype if dtype.is_integer() && self.rng.index(3) == 0 => {
                vec![(Reducer::And, 1.0), (Reducer::Or, 1.0)]
            }
            _ => vec![
                (Reducer::Sum, n as f64 * x.bound),
                (Reducer::Prod, x.bound.max(1.0).powi(n as i32)),
            ],
        };
        // Integers have no maximum of an empty axis.
        if n > 0 {
            all.extend(extremes);
        }
        let (reducer, bound) = all[self.rng.index(all.len())];
        self.push(Reduce { reducer, axes }, &[x.atom], bound.max(1.0));
    }

    pub(super) fn searched(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        if let Some(axis) = self.filled_axis(&x) {
            let extremum = [Extremum::Max, Extremum::Min][self.rng.index(2)];
            self.push(ArgReduce { axis, extremum }, &[x.atom], 0.0);
        }
    }

    pub(super) fn sorted(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        if let Some((axis, n)) = self.some_axis(&x) {
            let descending = self.rng.index(2) == 0;
            let first = if self.rng.index(2) == 0 { n } else { self.rng.index(n + 1) };
            self.push(ArgSort { axis, descending, first }, &[x.atom], n as f64);
        }
    }

    pub(super) fn cumulated(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let Some((axis, n)) = self.some_axis(&x) else { return };
        let mut all = vec![(Cumulation::Max, x.bound), (Cumulation::Min, x.bound)];
        if x.ty.dtype != Dtype::Bool {
            all.push((Cumulation::Sum, n as f64 * x.bound));
            all.push((Cumulation::Prod, x.bound.max(1.0).powi(n as i32)));
        }
        let (cumulation, bound) = all[self.rng.index(all.len())];
        let reverse = self.rng.index(2) == 0;
        self.push(Cumulate { cumulation, axis, reverse }, &[x.atom], bound.max(1.0));
    }

    pub(super) fn recurrence(&mut self, gene: Gene) {
        let x = self.number(gene.operands[0]);
        let Some((axis, n)) = self.some_axis(&x) else { return };
        let a = self.pick(x.ty.dtype, gene.operands[1]);
        let a = self.matching(&a, &x.ty.shape);
        // Factors of magnitude at most 1: the results of a cumulative product must not grow.
        let a = self.within(&a, 1.0);
        let reverse = self.rng.index(2) == 0;
        let bound = (n as f64 * x.bound).max(1.0);
        self.push(Recurrence { axis, reverse }, &[a.atom, x.atom], bound);
    }

    /// Draws an axis of `x`, and returns it with its extent.
    fn some_axis(&mut self, x: &Value) -> Option<(usize, usize)> {
        let rank = x.ty.shape.len();
        let axis = (rank > 0).then(|| self.rng.index(rank))?;
        Some((axis, x.ty.shape[axis]))
    }

    pub(super) fn dot(&mut self, gene: Gene) {
        let x = self.number(gene.operands[0]);
        let mut y = self.pick(x.ty.dtype, gene.operands[1]);
        let pairs = |y: &Value| {
            let (m, n) = (x.ty.shape.len(), y.ty.shape.len());
            let all = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
            all.filter(|(i, j)| x.ty.shape[*i] == y.ty.shape[*j]).collect::<Vec<_>>()
        };
        if pairs(&y).is_empty() {
            y = x.clone();
        }
        let mut free = pairs(&y);
        let (mut batch, mut contract) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            if free.is_empty() {
                break;
            }
            let (i, j) = free.swap_remove(self.rng.index(free.len()));
            free.retain(|(a, b)| *a != i && *b != j);
            if self.rng.index(3) == 0 { batch.push((i, j)) } else { contract.push((i, j)) }
        }
        let rest = |v: &Value, used: Vec<usize>| v.ty.shape.without(&used);
        let left = rest(&x, batch.iter().chain(&contract).map(|p| p.0).collect());
        let right = rest(&y, batch.iter().chain(&contract).map(|p| p.1).collect());
        let shared = batch.iter().map(|p| x.ty.shape[p.0]);
        let shape: Shape =
            shared.chain(left.iter().copied()).chain(right.iter().copied()).collect();
        let n: usize = contract.iter().map(|p| x.ty.shape[p.0]).product();
        // Bound the number of terms of a contraction, because the interpreter computes one term after the other.
        if self.small(&shape) && shape.elements().saturating_mul(n) <= 16 * self.most {
            let bound = (n as f64 * x.bound * y.bound).max(1.0);
            self.push(Dot { batch, contract }, &[x.atom, y.atom], bound);
        }
    }
}
