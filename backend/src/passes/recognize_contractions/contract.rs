//! Builds contractions from the products of a nest.

use super::nest::{Element, Nest, is_zero, plain};
use super::{LEAST, NARROWEST, NEAR, NestReplacement, SUMS_BYTES};
use crate::loop_ir::analysis::dependence::disjoint;
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{Address, Arg, Contract, Kernel, Matrix, Stmt, Sums, visit};
use std::collections::BTreeSet;
use tapeloom_ir::Dtype;

impl<'a> Nest<'a> {
    /// Returns the contractions to which the nest is equivalent; `None` if it computes anything else. `before` holds
    /// the statements ahead of the nest.
    pub(super) fn contractions(self, before: &[Stmt]) -> Option<NestReplacement> {
        let mut contracts = Vec::new();
        for (to, value) in &self.inside {
            let added = self.added(*to, *value);
            join(
                &mut contracts,
                match self.strides(*to) {
                    [0, column] if column != 0 => self.added_rows(*to, added?)?,
                    [row, column] if row != 0 && column != 0 => {
                        self.outer_product(*to, added.unwrap_or(*value), added.is_some())?
                    }
                    _ => return None,
                },
            );
        }
        let mut sums = self.sums.clone();
        for (to, value) in &self.behind {
            let added = self.added(*to, *value);
            let Arg::Var(var) = added.unwrap_or(*value) else { return None };
            let at = sums.iter().position(|(v, _)| *v == var)?;
            let (_, term) = sums.remove(at);
            join(&mut contracts, self.folded_rows(*to, term?, added.is_some())?);
        }
        if !sums.is_empty() || contracts.is_empty() || !self.are_disjoint(&contracts) {
            return None;
        }
        let mut found = NestReplacement { fills: BTreeSet::new(), stmts: self.ahead };
        for Summed { contract, cleared } in contracts {
            if cleared {
                found.fills.insert(clearing(self.k, before, &contract)?);
            }
            found.stmts.push(Stmt::Contract(contract));
        }
        Some(found)
    }

    /// Recognizes a sum of scaled rows of a matrix into a cleared vector: `y[j] += x[k] w[k, j]`.
    fn added_rows(&self, to: Element<'a>, added: Arg) -> Option<Summed> {
        let [mut x, mut y] = self.term(added)?;
        if self.strides(x)[1] != 0 {
            (x, y) = (y, x);
        }
        let [x_row, 0] = self.strides(x) else { return None };
        let [y_row, y_column] = self.strides(y);
        let lhs = self.matrix(x, 0, x_row)?;
        let rhs = self.matrix(y, y_row, y_column)?;
        let out = self.matrix(to, 0, self.strides(to)[1])?;
        let contract =
            self.lay([1, self.inner.extent, self.outer.extent], false, [lhs, rhs, out])?;
        Some(Summed { contract, cleared: true })
    }

    /// Recognizes outer products that are stored or added to a matrix: `y[i, j] += x0[i] w0[j] + x1[i] w1[j] + .. +
    /// 0`. The term `+ 0` is required, because it decides the sign of a zero.
    fn outer_product(&self, to: Element<'a>, value: Arg, accumulate: bool) -> Option<Summed> {
        let [row, column] = self.strides(to);
        let (rows, columns) = (self.outer.extent, self.inner.extent);
        if !(beyond(row, column, columns) || beyond(column, row, rows)) {
            return None;
        }
        let (terms, true) = self.terms(value)? else { return None };
        let k = terms.len();
        let mut matrices = Vec::with_capacity(k);
        for [mut x, mut y] in terms {
            if self.strides(x)[1] != 0 {
                (x, y) = (y, x);
            }
            let ([x_row, 0], [0, y_column]) = (self.strides(x), self.strides(y)) else {
                return None;
            };
            matrices.push((self.matrix(x, x_row, 0)?, self.matrix(y, 0, y_column)?));
        }
        let (mut lhs, mut rhs) = matrices.first()?.clone();
        if let Some((x, y)) = matrices.get(1) {
            (lhs.column, rhs.row) = (step(&lhs, x)?, step(&rhs, y)?);
        }
        for (i, (x, y)) in matrices.iter().enumerate() {
            let steps = (step(&lhs, x)?, step(&rhs, y)?);
            let even = steps == (lhs.column * i as i64, rhs.row * i as i64);
            if !even || (x.row, y.column) != (lhs.row, rhs.column) {
                return None;
            }
        }
        let out = self.matrix(to, row, column)?;
        let contract = self.lay([rows, columns, k], accumulate, [lhs, rhs, out])?;
        Some(Summed { contract, cleared: false })
    }

    /// Recognizes rows of a matrix times a vector: `y[i] = Σ_k x[i, k] w[k]`.
    fn folded_rows(&self, to: Element<'a>, term: Arg, accumulate: bool) -> Option<Summed> {
        let [mut x, mut y] = self.term(term)?;
        if self.strides(y)[0] != 0 {
            (x, y) = (y, x);
        }
        let ([row, 0], [x_row, x_term], [0, y_term]) =
            (self.strides(to), self.strides(x), self.strides(y))
        else {
            return None;
        };
        let lhs = self.matrix(x, x_row, x_term)?;
        let rhs = self.matrix(y, y_term, 0)?;
        let out = self.matrix(to, row, 0)?;
        let sizes = [self.outer.extent, 1, self.inner.extent];
        let contract = self.lay(sizes, accumulate, [lhs, rhs, out])?;
        (row != 0).then_some(Summed { contract, cleared: false })
    }

    /// Returns a matrix with the strides `row` (from row to row) and `column` (from column to column). It begins at the
    /// element that `e` is in the first iterations of both loops. Returns `None` if the address of `e` has a run-time
    /// index.
    fn matrix(&self, e: Element<'_>, row: i64, column: i64) -> Option<Matrix> {
        let mut at = e.address.clone();
        at.terms.retain(|(i, _)| *i != self.outer.index && *i != self.inner.index);
        let here = at.dynamic.is_none();
        here.then_some(Matrix { held: e.held, at, row, column })
    }

    /// Returns the contraction of an m x k and a k x n matrix; `None` if it has fewer than `LEAST` multiplications, or
    /// no fast function supports its strides.
    fn lay(
        &self,
        [m, n, k]: [usize; 3],
        accumulate: bool,
        [lhs, rhs, out]: [Matrix; 3],
    ) -> Option<Contract> {
        let dtype = self.k.buffers[out.held.buffer].ty.dtype;
        let columns = n >= NARROWEST && rhs.column == 1 && out.column == 1;
        let rows = m >= NARROWEST && lhs.row == 1 && out.row == 1;
        let lanes = SUMS_BYTES / dtype.bytes();
        let terms = k >= lanes && lhs.column == 1 && rhs.row == 1;
        let sums = match (columns || rows, terms) {
            (true, _) => Sums::Lanes(1),
            (false, true) => Sums::Lanes(lanes),
            (false, false) => return None,
        };
        let float = matches!(dtype, Dtype::F64 | Dtype::F32);
        let worth = m.saturating_mul(n).saturating_mul(k) >= LEAST;
        let (batch, origins) = (Vec::new(), self.outer.origins.clone());
        let product = Contract { dtype, sums, m, n, k, accumulate, lhs, rhs, out, batch, origins };
        (float && worth).then_some(product)
    }

    /// Returns whether the output of each contraction is disjoint from its own operands, and from the operands and
    /// outputs of all the others.
    fn are_disjoint(&self, contracts: &[Summed]) -> bool {
        contracts.iter().enumerate().all(|(i, Summed { contract: c, .. })| {
            contracts.iter().enumerate().all(|(j, Summed { contract: other, .. })| {
                let alone = |b| disjoint(self.k, c.out.held.buffer, b);
                let reads = alone(other.lhs.held.buffer) && alone(other.rhs.held.buffer);
                reads && (i == j || alone(other.out.held.buffer))
            })
        })
    }
}

/// A contraction, and whether an earlier statement must clear its result (store zeros to it).
struct Summed {
    contract: Contract,
    cleared: bool,
}

/// Adds a contraction to the list, or extends the last one of the list by one row or column.
fn join(all: &mut Vec<Summed>, next: Summed) {
    let more = |Summed { contract: c, cleared }: &mut Summed| {
        let n = &next.contract;
        let same =
            (*cleared, c.sums, c.accumulate, c.k) == (next.cleared, n.sums, n.accumulate, n.k);
        let columns = (n.lhs.column, n.out.column) == (c.lhs.column, c.out.column);
        let rows = (n.rhs.row, n.out.row) == (c.rhs.row, c.out.row);
        if same && columns && n.m == 1 && n.n == c.n && n.rhs == c.rhs {
            let (lhs, out) = (step(&c.lhs, &n.lhs)?, step(&c.out, &n.out)?);
            if c.m == 1 && beyond(out, c.out.column, c.n) {
                (c.lhs.row, c.out.row) = (lhs, out);
            }
            let m = c.m as i64;
            ((c.lhs.row * m, c.out.row * m) == (lhs, out)).then(|| c.m += 1)
        } else if same && rows && n.n == 1 && n.m == c.m && n.lhs == c.lhs {
            let (rhs, out) = (step(&c.rhs, &n.rhs)?, step(&c.out, &n.out)?);
            if c.n == 1 && beyond(out, c.out.row, c.m) {
                (c.rhs.column, c.out.column) = (rhs, out);
            }
            let n = c.n as i64;
            ((c.rhs.column * n, c.out.column * n) == (rhs, out)).then(|| c.n += 1)
        } else {
            None
        }
    };
    if all.last_mut().and_then(more).is_none() {
        all.push(next);
    }
}

/// Returns the offset in elements from one matrix to another one in the same array; `None` if they are in different
/// arrays or the offset is not constant.
fn step(from: &Matrix, to: &Matrix) -> Option<i64> {
    (from.held == to.held).then(|| to.at.behind(&from.at))?
}

/// Returns whether the absolute stride `step` is at least `n` times the stride `other`, so that rows of `n`
/// elements do not overlap.
fn beyond(step: i64, other: i64, n: usize) -> bool {
    step.unsigned_abs() >= other.unsigned_abs().saturating_mul(n as u64).max(1)
}

/// Returns the position in `before` of the statement that stores zeros to the result of a contraction. It must be one
/// of the last `NEAR` statements, and no statement after it may touch the result; otherwise `None`.
fn clearing(k: &Kernel, before: &[Stmt], c: &Contract) -> Option<usize> {
    for (at, stmt) in before.iter().enumerate().rev().take(NEAR) {
        if clears(stmt, c) {
            return Some(at);
        }
        let mut touched = false;
        visit(std::slice::from_ref(stmt), &mut |s| {
            s.accesses(&mut |a| touched |= !disjoint(k, a.held.buffer, c.out.held.buffer));
            touched |= !s.carries().is_empty();
        });
        if touched {
            return None;
        }
    }
    None
}

/// Returns whether a statement stores zeros to exactly the result of a contraction, and does nothing else.
fn clears(stmt: &Stmt, c: &Contract) -> bool {
    let (mut stmt, mut loops) = (stmt, Vec::new());
    let store = loop {
        match (plain(stmt), stmt) {
            (Some(Loop { index, extent, body: [inside], .. }), _) => {
                loops.push((index, extent));
                stmt = inside;
            }
            (None, Stmt::Nest { body, .. }) if body.len() == 1 => stmt = &body[0],
            (None, Stmt::Store { held, address, value, guard: None })
                if *held == c.out.held && is_zero(*value) =>
            {
                break address;
            }
            _ => return false,
        }
    };
    let rest = |address: &Address| {
        let mut terms = address.terms.clone();
        terms.retain(|(i, _)| !loops.iter().any(|(index, _)| index == i));
        terms.sort_unstable();
        (address.offset, terms, address.dynamic)
    };
    let cleared = loops.iter().map(|(index, extent)| (*extent, store.stride(*index)));
    let written = [(c.m, c.out.row), (c.n, c.out.column)].into_iter();
    let lattice = lattice(cleared);
    rest(store) == rest(&c.out.at) && lattice.is_some() && lattice == self::lattice(written)
}

/// Normalizes (extent, stride) pairs: sorts them by stride, and merges dimensions that are contiguous.
fn lattice(steps: impl Iterator<Item = (usize, i64)>) -> Option<Vec<(usize, i64)>> {
    let mut steps: Vec<(usize, i64)> = steps.filter(|(extent, _)| *extent != 1).collect();
    steps.sort_unstable_by_key(|(_, stride)| *stride);
    let mut found: Vec<(usize, i64)> = Vec::new();
    for (extent, stride) in steps {
        match found.last_mut() {
            Some((n, step)) if *step * *n as i64 == stride => *n *= extent,
            _ => found.push((extent, stride)),
        }
    }
    found.iter().all(|(_, stride)| *stride > 0).then_some(found)
}
