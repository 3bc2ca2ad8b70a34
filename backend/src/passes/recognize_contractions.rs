//! Products of thin matrices, which the scheduler leaves as loops that fuse with others, as contractions.
//!
//! A vector times a matrix, a few rows times a matrix, or an outer product that is added to a matrix are two
//! loops around a multiplication. In those every element that is loaded is used once, and what the code
//! generator has are vectors of 128 bits; functions written for it have wider ones (`runtime/small_gemm`). So
//! a nest of two loops in which nothing happens but products becomes as many contractions, whose sums have as
//! many lanes as the loops would have had:
//!
//! ```text
//! for i0 in 32 {                                          contract f64 1 x 32 x 32 lanes 1:
//!   store b2[i0], 0.0                                       b2[0; 0, 1] = b0[0; 0, 1] * b1[0; 32, 1]
//! }
//! serial i1 in 32 {                                     ->
//!   %0: f64 = load b0[i1]
//!   for i2 in 32 {
//!     %1: f64 = load b1[i1*32 + i2]
//!     %2: f64 = mul %0, %1
//!     %3: f64 = load b2[i2]
//!     %4: f64 = add %3, %2
//!     store b2[i2], %4
//!   }
//! }
//! ```
//!
//! Nothing is rounded otherwise: the same products are added in the same order, or in that of a fold in lanes.
//! Loops with one product inside go into it, and from those that do something else with it, too, it is taken
//! apart (`fission.rs`). Contractions that the functions would do element by element stay
//! loops, and so do those that are too small for a call.
//!
//! The simulated accelerator runs loops as they are written.

use super::fission::{Alone, distributed};
use super::pass::{Invariant, Pass};
use crate::loop_ir::analysis::dependence::disjoint;
use crate::loop_ir::{
    Address, Arg, BufferId, Contract, Expr, Extent, IndexId, Kernel, Matrix, Parallelism, Program,
    ScalarId, Stmt, Sums, VarId, visit,
};
use cranelift_entity::SecondaryMap;
use std::collections::BTreeSet;
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{Code, Dtype};

/// The pass as a row.
pub(super) const PASS: Pass = Pass {
    name: "recognize_contractions",
    about: "loops that are products of thin matrices are contractions",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Reassociates,
    run: |program, _| {
        recognize_contractions(program);
        Ok(())
    },
};

// None of these numbers is one of a machine model: whether a loop is a contraction, and in how many lanes, is what it
// computes, in every bit.

/// Products with fewer multiplications are not worth a call,
const LEAST: usize = 64;

/// nor are those with fewer columns, or terms, side by side.
const NARROWEST: usize = 4;

/// What they sum up in was cleared so few statements before.
const NEAR: usize = 8;

/// Bytes of the partial sums of a contraction: a vector of 512 bits.
const SUMS_BYTES: usize = 64;

/// Makes contractions of the loops of a program that are products.
pub(super) fn recognize_contractions(program: &mut Program) {
    for kernel in program.callees.values_mut().chain([&mut program.entry]) {
        let mut body = std::mem::take(&mut kernel.body);
        block(kernel, &mut body);
        kernel.body = body;
    }
}

fn block(k: &mut Kernel, body: &mut Vec<Stmt>) {
    for mut stmt in std::mem::take(body) {
        let Some(found) = Found::of(k, &stmt, body).or_else(|| Found::apart(k, &stmt, body)) else {
            stmt.blocks_mut().into_iter().for_each(|inside| block(k, inside));
            body.push(around(&stmt).map_or(stmt, Stmt::Contract));
            continue;
        };
        for at in found.fills.into_iter().rev() {
            body.remove(at);
        }
        body.extend(found.stmts);
    }
}

/// What a nest becomes.
#[derive(Default)]
struct Found {
    /// Which statements before it clear what it sums up in, in order.
    fills: BTreeSet<usize>,
    stmts: Vec<Stmt>,
}

impl Found {
    /// The contractions that a nest is; `before` are the statements ahead of it.
    fn of(k: &Kernel, stmt: &Stmt, before: &[Stmt]) -> Option<Found> {
        Nest::of(k, stmt)?.contractions(before)
    }

    /// The contractions among what a loop becomes where each inner one is alone, if all of those are.
    fn apart(k: &mut Kernel, stmt: &Stmt, before: &[Stmt]) -> Option<Found> {
        let mut found = Found::default();
        for Alone { stmt, is_product } in distributed(k, stmt)? {
            if is_product {
                let product = Found::of(k, &stmt, before)?;
                found.fills.extend(product.fills);
                found.stmts.extend(product.stmts);
            } else {
                found.stmts.push(stmt);
            }
        }
        Some(found)
    }
}

/// An element that is loaded or stored.
#[derive(Clone, Copy)]
struct Element<'a> {
    buffer: BufferId,
    version: u32,
    address: &'a Address,
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        let same = (self.buffer, self.version) == (other.buffer, other.version);
        same && self.address == other.address
    }
}

/// Two loops, one in the other.
struct Nest<'a> {
    k: &'a Kernel,
    outer: Loop<'a>,
    inner: Loop<'a>,
    /// What changes from iteration to iteration.
    values: SecondaryMap<ScalarId, Option<&'a Expr>>,
    /// What does not.
    ahead: Vec<Stmt>,
    /// Variables that begin with 0 in an iteration of the outer loop, and what is folded into them.
    sums: Vec<(VarId, Option<Arg>)>,
    /// What is stored in iterations of the inner loop, and of the outer one behind it.
    inside: Vec<(Element<'a>, Arg)>,
    behind: Vec<(Element<'a>, Arg)>,
}

#[derive(Clone, Copy)]
struct Loop<'a> {
    index: IndexId,
    extent: usize,
    parallelism: Parallelism,
    body: &'a [Stmt],
}

impl<'a> Loop<'a> {
    fn of(stmt: &'a Stmt) -> Option<Loop<'a>> {
        match stmt {
            Stmt::For {
                index,
                extent: Extent::Constant(extent),
                parallelism,
                carries,
                body,
                ..
            } if carries.is_empty() && *extent > 0 => {
                Some(Loop { index: *index, extent: *extent, parallelism: *parallelism, body })
            }
            _ => None,
        }
    }
}

impl<'a> Nest<'a> {
    /// The nest that a statement is, if nothing else happens in it than may be in one of products.
    fn of(k: &'a Kernel, stmt: &'a Stmt) -> Option<Nest<'a>> {
        let outer = Loop::of(stmt)?;
        let inner = outer.body.iter().find_map(Loop::of)?;
        let values = SecondaryMap::new();
        let (ahead, sums, inside, behind) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut nest = Nest { k, outer, inner, values, ahead, sums, inside, behind };
        let mut entered = false;
        for stmt in outer.body {
            match stmt {
                Stmt::Let { value, expr } => nest.define(*value, expr, stmt)?,
                Stmt::Var { var, init } if is_zero(*init) && !entered => {
                    nest.sums.push((*var, None));
                }
                Stmt::Store { buffer, version, address, value, guard: None } if entered => {
                    let to = Element { buffer: *buffer, version: *version, address };
                    nest.behind.push((to, *value));
                }
                Stmt::For { .. } if !entered => {
                    entered = true;
                    nest.iterations()?;
                }
                _ => return None,
            }
        }
        Some(nest)
    }

    /// Parallelism of the inner loop.
    fn iterations(&mut self) -> Option<()> {
        for stmt in self.inner.body {
            match stmt {
                Stmt::Let { value, expr } => self.define(*value, expr, stmt)?,
                Stmt::Fold { var, code: Code::Add, value } => {
                    let sum = self.sums.iter_mut().find(|(v, term)| v == var && term.is_none())?;
                    sum.1 = Some(*value);
                }
                Stmt::Store { buffer, version, address, value, guard: None } => {
                    let to = Element { buffer: *buffer, version: *version, address };
                    self.inside.push((to, *value));
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// A value of an iteration. What no iteration changes is computed ahead.
    fn define(&mut self, value: ScalarId, expr: &'a Expr, stmt: &Stmt) -> Option<()> {
        match expr {
            Expr::Load { guard: Some(_), .. } => return None,
            Expr::Code(_, args) if !args.iter().any(|a| self.changes(*a)) => {
                self.ahead.push(stmt.clone());
                return Some(());
            }
            Expr::Load { .. } | Expr::Code(..) => {}
        }
        self.values[value] = Some(expr);
        Some(())
    }

    fn changes(&self, arg: Arg) -> bool {
        match arg {
            Arg::Scalar(s) => self.values[s].is_some(),
            Arg::Index(i) => i == self.outer.index || i == self.inner.index,
            // Which may be set between here and there.
            Arg::Var(_) => true,
            Arg::Literal(_) => false,
        }
    }

    fn loaded(&self, arg: Arg) -> Option<Element<'a>> {
        let Arg::Scalar(s) = arg else { return None };
        match self.values[s]? {
            Expr::Load { buffer, version, address, guard: None } => {
                Some(Element { buffer: *buffer, version: *version, address })
            }
            Expr::Load { .. } | Expr::Code(..) => None,
        }
    }

    /// The operands of what has two, if it is that.
    fn computed(&self, arg: Arg, is: fn(&Code) -> bool) -> Option<[Arg; 2]> {
        let Arg::Scalar(s) = arg else { return None };
        match self.values[s]? {
            Expr::Code(code, args) if is(code) => <[Arg; 2]>::try_from(args.as_slice()).ok(),
            Expr::Load { .. } | Expr::Code(..) => None,
        }
    }

    /// The products in `x0 y0 + x1 y1 + ..`, and whether 0 is added to that.
    fn terms(&self, arg: Arg) -> Option<(Vec<[Element<'a>; 2]>, bool)> {
        let sum = |arg| self.computed(arg, |c| matches!(c, Code::Add));
        let product = |arg| {
            let [x, y] = self.computed(arg, |c| matches!(c, Code::Mul))?;
            Some([self.loaded(x)?, self.loaded(y)?])
        };
        let (mut arg, started) = match sum(arg) {
            Some([x, zero] | [zero, x]) if is_zero(zero) => (x, true),
            _ => (arg, false),
        };
        let mut terms = Vec::new();
        while let Some([before, last]) = sum(arg) {
            terms.push(product(last)?);
            arg = before;
        }
        terms.push(product(arg)?);
        terms.reverse();
        Some((terms, started))
    }

    /// The product that is added up in iterations.
    fn term(&self, arg: Arg) -> Option<[Element<'a>; 2]> {
        <[_; 1]>::try_from(self.terms(arg)?.0).ok().map(|[term]| term)
    }

    /// What is added to the element that is stored: `y = y + x`.
    fn added(&self, to: Element<'a>, value: Arg) -> Option<Arg> {
        let [x, y] = self.computed(value, |c| matches!(c, Code::Add))?;
        match (self.loaded(x), self.loaded(y)) {
            (Some(before), _) if before == to => Some(y),
            (_, Some(before)) if before == to => Some(x),
            _ => None,
        }
    }

    /// Strides of an element along both loops.
    fn strides(&self, e: Element<'_>) -> [i64; 2] {
        [e.address.stride(self.outer.index), e.address.stride(self.inner.index)]
    }

    /// The contractions that the nest is, if it is nothing else; `before` are the statements ahead of it.
    fn contractions(self, before: &[Stmt]) -> Option<Found> {
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
        if !sums.is_empty() || contracts.is_empty() || !self.apart(&contracts) {
            return None;
        }
        let mut found = Found { fills: BTreeSet::new(), stmts: self.ahead };
        for Summed { contract, cleared } in contracts {
            if cleared {
                found.fills.insert(clearing(self.k, before, &contract)?);
            }
            found.stmts.push(Stmt::Contract(contract));
        }
        Some(found)
    }

    /// Rows of a matrix, each times a number, are added up in what was 0: `y[j] += x[k] w[k, j]`.
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

    /// Outer products are stored, or added to a matrix: `y[i, j] += x0[i] w0[j] + x1[i] w1[j] + .. + 0`. The 0
    /// shows in signs of zeros.
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

    /// Rows of a matrix times a vector: `y[i] = Σ_k x[i, k] w[k]`.
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

    /// A matrix that begins in the first iterations.
    fn matrix(&self, e: Element<'_>, row: i64, column: i64) -> Option<Matrix> {
        let mut at = e.address.clone();
        at.terms.retain(|(i, _)| *i != self.outer.index && *i != self.inner.index);
        let here = at.dynamic.is_none();
        here.then_some(Matrix { buffer: e.buffer, version: e.version, at, row, column })
    }

    /// The contraction, if there is a fast way to do it.
    fn lay(
        &self,
        [m, n, k]: [usize; 3],
        accumulate: bool,
        [lhs, rhs, out]: [Matrix; 3],
    ) -> Option<Contract> {
        let dtype = self.k.buffers[out.buffer].ty.dtype;
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
        let batch = Vec::new();
        let product = Contract { dtype, sums, m, n, k, accumulate, lhs, rhs, out, batch };
        (float && worth).then_some(product)
    }

    /// Whether no contraction writes what another one touches, or what it reads itself.
    fn apart(&self, contracts: &[Summed]) -> bool {
        contracts.iter().enumerate().all(|(i, Summed { contract: c, .. })| {
            contracts.iter().enumerate().all(|(j, Summed { contract: other, .. })| {
                let alone = |b| disjoint(self.k, c.out.buffer, b);
                let reads = alone(other.lhs.buffer) && alone(other.rhs.buffer);
                reads && (i == j || alone(other.out.buffer))
            })
        })
    }
}

/// A contraction, and whether statements before clear what it sums up in.
struct Summed {
    contract: Contract,
    cleared: bool,
}

/// Adds a contraction to others, or to one of them as one more row or column.
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

/// How far behind one matrix another one begins, of the same array.
fn step(from: &Matrix, to: &Matrix) -> Option<i64> {
    let same = (from.buffer, from.version) == (to.buffer, to.version);
    let terms = (&from.at.terms, from.at.dynamic) == (&to.at.terms, to.at.dynamic);
    (same && terms).then(|| to.at.offset - from.at.offset)
}

/// Whether steps of one kind are beyond so many of another.
fn beyond(step: i64, other: i64, n: usize) -> bool {
    step.unsigned_abs() >= other.unsigned_abs().saturating_mul(n as u64).max(1)
}

fn is_zero(arg: Arg) -> bool {
    matches!(arg, Arg::Literal(zero) if zero.bits == 0)
}

/// Which statement clears what a contraction writes; what is between touches nothing of it.
fn clearing(k: &Kernel, before: &[Stmt], c: &Contract) -> Option<usize> {
    for (at, stmt) in before.iter().enumerate().rev().take(NEAR) {
        if clears(stmt, c) {
            return Some(at);
        }
        let mut touched = false;
        visit(std::slice::from_ref(stmt), &mut |s| {
            s.accesses(&mut |a| touched |= !disjoint(k, a.buffer, c.out.buffer));
            touched |= !s.carries().is_empty();
        });
        if touched {
            return None;
        }
    }
    None
}

/// Whether a statement clears what a contraction writes, and does nothing else.
fn clears(stmt: &Stmt, c: &Contract) -> bool {
    let (mut stmt, mut loops) = (stmt, Vec::new());
    let store = loop {
        match (Loop::of(stmt), stmt) {
            (Some(Loop { index, extent, body: [inside], .. }), _) => {
                loops.push((index, extent));
                stmt = inside;
            }
            (None, Stmt::Nest { body }) if body.len() == 1 => stmt = &body[0],
            (None, Stmt::Store { buffer, version, address, value, guard: None })
                if (*buffer, *version) == (c.out.buffer, c.out.version) && is_zero(*value) =>
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

/// Steps upwards, those of a row that goes on as one.
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

/// A loop with one product inside, as one: more rows or columns, or a batch.
fn around(stmt: &Stmt) -> Option<Contract> {
    let Loop { index, extent, parallelism, body: [Stmt::Contract(c)] } = Loop::of(stmt)? else {
        return None;
    };
    if c.sums == Sums::Library {
        return None;
    }
    let mut c = c.clone();
    let mut strides = [0; 3];
    for (stride, matrix) in strides.iter_mut().zip([&mut c.lhs, &mut c.rhs, &mut c.out]) {
        *stride = matrix.at.stride(index);
        matrix.at.terms.retain(|(i, _)| *i != index);
    }
    let [lhs, rhs, out] = strides;
    let more = c.batch.is_empty() && parallelism == Parallelism::Parallel;
    if more && c.m == 1 && rhs == 0 {
        (c.m, c.lhs.row, c.out.row) = (extent, lhs, out);
    } else if more && c.n == 1 && lhs == 0 {
        (c.n, c.rhs.column, c.out.column) = (extent, rhs, out);
    } else {
        c.batch.insert(0, (extent, lhs, rhs, out));
    }
    Some(c)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::vectorize::vectorize;
    use super::recognize_contractions;
    use crate::loop_ir::{eval, parse, verify};
    use tapeloom_ir::{Literal, Tensor};

    /// The program with its products as contractions, which gives the same bits.
    #[track_caller]
    fn products(text: &str) -> String {
        let mut program = parse(text, &|_| None).unwrap();
        assert_eq!(verify(&program), [], "{program}");
        let inputs: Vec<_> = program.entry.inputs().into_iter().flatten().cloned().collect();
        let mut args = Vec::new();
        for (i, ty) in inputs.iter().enumerate() {
            let mut x = Tensor::zeros_of(ty).unwrap();
            for n in 0..x.elements() {
                let value = ((n * 7 + i * 3) as f64 * 0.37).sin();
                x.set_literal(n, Literal::of(ty.dtype, value)).unwrap();
            }
            args.push(x);
        }
        let mut loops = program.clone();
        vectorize(&mut loops);
        recognize_contractions(&mut program);
        vectorize(&mut program);
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(eval(&program, &args).unwrap(), eval(&loops, &args).unwrap(), "{program}");
        program.to_string()
    }

    const BUFFERS: &str = "program @f {
  buffer b0: f64[8] input 0
  buffer b1: f64[8,8] input 1
  buffer b2: f64[8] output 0
";

    #[track_caller]
    fn one(body: &str, contraction: &str) {
        let text = products(&format!("{BUFFERS}{body}\n}}"));
        let lines: Vec<&str> = text.lines().filter(|l| l.contains("contract")).collect();
        assert_eq!(lines.iter().map(|l| l.trim()).collect::<Vec<_>>(), [contraction], "{text}");
        assert!(!text.contains("for i") && !text.contains("serial"), "{text}");
    }

    #[track_caller]
    fn none(body: &str) {
        let text = products(&format!("{BUFFERS}{body}\n}}"));
        assert!(!text.contains("contract"), "{text}");
    }

    const CLEARED: &str = "for i0 in 8 { store b2[i0], 0.0 }";

    const ROW: &str = "serial i1 in 8 { %0: f64 = load b0[i1] for i2 in 8 {
      %1: f64 = load b1[i1*8 + i2] %2: f64 = mul %0, %1
      %3: f64 = load b2[i2] %4: f64 = add %3, %2 store b2[i2], %4 } }";

    #[test]
    fn rows_times_numbers_are_a_product() {
        one(
            &format!("nest {{ {CLEARED} {ROW} }}"),
            "contract f64 1 x 8 x 8 lanes 1: b2[0; 0, 1] = b0[0; 0, 1] * b1[0; 8, 1]",
        );
    }

    #[test]
    fn folds_of_rows_are_a_product() {
        one(
            "for i0 in 8 { var v0: f64 = 0.0 fold i1 in 8 {
              %0: f64 = load b1[i0*8 + i1] %1: f64 = load b0[i1] %2: f64 = mul %0, %1
              v0 = add v0, %2 } store b2[i0], v0 }",
            "contract f64 8 x 1 x 8 lanes 8: b2[0; 1, 0] = b1[0; 8, 1] * b0[0; 1, 0]",
        );
    }

    #[test]
    fn folds_of_columns_are_a_product() {
        one(
            "for i0 in 8 { var v0: f64 = 0.0 serial i1 in 8 {
              %0: f64 = load b1[i1*8 + i0] %1: f64 = load b0[i1] %2: f64 = mul %1, %0
              v0 = add v0, %2 } store b2[i0], v0 }",
            "contract f64 8 x 1 x 8 lanes 1: b2[0; 1, 0] = b1[0; 1, 8] * b0[0; 1, 0]",
        );
    }

    #[test]
    fn loops_around_go_into_it() {
        let text = products(
            "program @f {
  buffer b0: f64[3,8] input 0
  buffer b1: f64[8,8] input 1
  buffer b2: f64[3,8] output 0
  buffer b3: f64[5,8,8] output 1
  version b3.1 continues b3
  for i3 in 3 {
    for i0 in 8 { store b2[i3*8 + i0], 0.0 }
    serial i1 in 8 { %0: f64 = load b0[i3*8 + i1] for i2 in 8 {
      %1: f64 = load b1[i1*8 + i2] %2: f64 = mul %0, %1
      %3: f64 = load b2[i3*8 + i2] %4: f64 = add %3, %2 store b2[i3*8 + i2], %4 } }
  }
  for i4 in 320 { store b3[i4], 0.5 }
  serial i5 in 3 { for i6 in 8 { %5: f64 = load b0[i5*8 + i6] for i7 in 8 {
    %6: f64 = load b0[i7] %10: f64 = mul %5, %6 %7: f64 = add %10, 0.0
    %8: f64 = load b3.1[i6*8 + i7] %9: f64 = add %7, %8 store b3.1[i6*8 + i7], %9 } } }
}",
        );
        let rows = "contract f64 3 x 8 x 8 lanes 1: b2[0; 8, 1] = b0[0; 8, 1] * b1[0; 8, 1]\n";
        let added = "contract f64 8 x 8 x 1 lanes 1: b3.1[0; 8, 1] += b0[0; 1, 0] * b0[0; 0, 1] \
                     for 3 steps 0 = 8 * 0\n";
        assert!(text.contains(rows) && text.contains(added), "{text}");
    }

    #[test]
    fn what_is_not_cleared_or_has_other_work_stays() {
        none(&format!("nest {{ for i0 in 8 {{ store b2[i0], 1.0 }} {ROW} }}"));
        none(&format!("nest {{ {CLEARED} nest {{ {ROW} }} }}"));
        // Half of it.
        none(&format!("nest {{ {CLEARED} for i3 in 4 {{ store b2[i3], 0.0 }} {ROW} }}"));
        // Neither operand is a vector.
        none(
            "for i0 in 8 { var v0: f64 = 0.0 fold i1 in 8 {
              %0: f64 = load b1[i0*8 + i1] %1: f64 = load b1[i1*8 + i0] %2: f64 = mul %0, %1
              v0 = add v0, %2 } store b2[i0], v0 }",
        );
    }

    const FOLD: &str = "var v0: f64 = 0.0 fold i1 in 8 {
      %0: f64 = load b1[i0*8 + i1] %1: f64 = load b0[i1] %2: f64 = mul %0, %1 v0 = add v0, %2 }";

    #[test]
    fn what_follows_from_a_product_has_a_loop_of_its_own() {
        let text = products(&format!(
            "{BUFFERS}for i0 in 8 {{ %3: f64 = load b0[i0] {FOLD}
              %4: f64 = add %3, v0 %5: f64 = neg %4 store b2[i0], %5 }} }}"
        ));
        let product = "  contract f64 8 x 1 x 8 lanes 8: b2[0; 1, 0] = b1[0; 8, 1] * b0[0; 1, 0]
  for i4 in 8 lanes 2 {
    %6: f64 = load b0[i4]
    %7: f64 = load b2[i4]
    %4: f64 = add %6, %7
    %5: f64 = neg %4
    store b2[i4], %5
  }
";
        assert!(text.contains(product), "{text}");
    }

    /// Where one waits the other one is stored, so both are read first.
    #[test]
    fn sums_that_wait_in_each_others_places() {
        let text = products(&format!(
            "{BUFFERS}buffer b3: f64[8] output 1
             for i0 in 8 {{ var v1: f64 = 0.0 {FOLD} fold i2 in 8 {{
               %3: f64 = load b1[i0*8 + i2] %4: f64 = load b0[i2] %5: f64 = mul %3, %4 v1 = add v1, %5 }}
               %6: f64 = neg v0 store b2[i0], %6 %7: f64 = add v0, v1 %8: f64 = neg %7 store b3[i0], %8 }} }}"
        ));
        assert_eq!(text.matches("contract").count(), 2, "{text}");
    }

    /// A layer and the way back through it, in one loop over its rows.
    #[test]
    fn products_before_and_behind_are_taken_apart() {
        let text = products(&format!(
            "{BUFFERS}
  buffer b3: f64[8] output 1
  buffer b4: f64[8,8] output 2
  nest {{
    for i2 in 8 {{ store b3[i2], 0.0 }}
    serial i0 in 8 {{
      {FOLD}
      %4: f64 = neg v0
      store b2[i0], %4
      for i3 in 8 {{
        %5: f64 = load b1[i0*8 + i3] %6: f64 = mul %4, %5
        %7: f64 = load b3[i3] %8: f64 = add %7, %6 store b3[i3], %8
        %9: f64 = load b0[i3] %10: f64 = mul %4, %9 %11: f64 = add %10, 0.0 store b4[i0*8 + i3], %11
      }}
    }}
  }}
}}"
        ));
        assert_eq!(text.matches("contract").count(), 3, "{text}");
        assert_eq!(text.matches("for i").count(), 1, "{text}");
    }

    /// Two rows, written out.
    #[test]
    fn rows_side_by_side_are_one_product() {
        let text = products(
            "program @f {
  buffer b0: f64[2,8] input 0
  buffer b1: f64[8,8] input 1
  buffer b2: f64[2,8] output 0
  buffer b3: f64[2,8] output 1
  buffer b4: f64[8,8] output 2
  nest {
    serial i0 in 8 { for i1 in 2 { store b2[i0 + i1*8], 0.0 } }
    serial i2 in 8 {
      %0: f64 = load b0[i2] %1: f64 = load b0[i2 + 8]
      for i3 in 8 {
        %2: f64 = load b1[i2*8 + i3] %3: f64 = mul %0, %2 %4: f64 = load b2[i3]
        %5: f64 = add %4, %3 store b2[i3], %5
        %6: f64 = mul %1, %2 %7: f64 = load b2[i3 + 8]
        %8: f64 = add %7, %6 store b2[i3 + 8], %8
      }
    }
  }
  for i4 in 8 {
    var v0: f64 = 0.0 var v1: f64 = 0.0
    %10: f64 = load b0[i4] %11: f64 = load b0[i4 + 8]
    fold i5 in 8 {
      %12: f64 = load b2[i5] %13: f64 = mul %10, %12 %14: f64 = load b2[i5 + 8] %15: f64 = mul %11, %14
      %16: f64 = add %13, %15 %17: f64 = add %16, 0.0 store b4[i4*8 + i5], %17
      %18: f64 = load b1[i4*8 + i5] %19: f64 = mul %12, %18 v0 = add v0, %19
      %20: f64 = mul %14, %18 v1 = add v1, %20
    }
    store b3[i4], v0 store b3[i4 + 8], v1
  }
}",
        );
        for contraction in [
            "contract f64 2 x 8 x 8 lanes 1: b2[0; 8, 1] = b0[0; 8, 1] * b1[0; 8, 1]\n",
            "contract f64 8 x 8 x 2 lanes 1: b4[0; 8, 1] = b0[0; 1, 8] * b2[0; 8, 1]\n",
            "contract f64 8 x 2 x 8 lanes 8: b3[0; 1, 8] = b1[0; 8, 1] * b2[0; 1, 8]\n",
        ] {
            assert!(text.contains(contraction), "{text}");
        }
        assert!(!text.contains("for i") && !text.contains("serial"), "{text}");
    }

    #[test]
    fn signs_of_zeros_stay() {
        none(
            "buffer b3: f64[8,8] output 1
             nest { for i0 in 8 { store b2[i0], 1.0 } } for i1 in 8 { %0: f64 = load b0[i1] for i2 in 8 {
               %1: f64 = load b0[i2] %2: f64 = mul %0, %1 store b3[i1*8 + i2], %2 } }",
        );
    }

    #[test]
    fn what_cannot_be_taken_apart_stays() {
        // The sum has no place to wait in: somebody reads what is stored there.
        none(&format!(
            "for i2 in 8 {{ store b2[i2], 1.0 }} for i0 in 8 {{ {FOLD}
              %4: f64 = load b2[i0] %5: f64 = mul %4, v0 store b2[i0], %5 }}"
        ));
        // Parallelism read what the one before has stored.
        none(&format!(
            "nest {{ store b2[0], 1.0 serial i0 in 7 {{ {FOLD} %4: f64 = load b2[i0]
              %5: f64 = add %4, v0 store b2[i0 + 1], %5 }} }}"
        ));
        // What makes the number lies nowhere.
        none(&format!(
            "nest {{ {CLEARED} serial i1 in 8 {{ %9: f64 = load b0[i1] %0: f64 = neg %9 for i2 in 8 {{
              %1: f64 = load b1[i1*8 + i2] %2: f64 = mul %0, %1
              %3: f64 = load b2[i2] %4: f64 = add %3, %2 store b2[i2], %4 }} }} }}"
        ));
    }

    #[test]
    fn what_is_read_while_it_is_written_stays() {
        let text = products(
            "program @f {
  buffer b0: f64[16,8] input 0
  buffer b1: f64[16,8] output 0
  version b1.1 continues b1
  for i0 in 128 { %0: f64 = load b0[i0] store b1[i0], %0 }
  nest {
    for i1 in 8 { store b1.1[i1 + 120], 0.0 }
    serial i2 in 8 { %1: f64 = load b0[i2] for i3 in 8 {
      %2: f64 = load b1.1[i2*8 + i3] %3: f64 = mul %1, %2
      %4: f64 = load b1.1[i3 + 120] %5: f64 = add %4, %3 store b1.1[i3 + 120], %5 } }
  }
}",
        );
        assert!(!text.contains("contract"), "{text}");
    }
}
