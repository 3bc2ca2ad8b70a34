//! Routines for small matrices, unrolled into elementwise operations.
//!
//! Each element of the matrix becomes an array with the batch axes. A factorization of a batch of small matrices is
//! then one vectorised loop over its members, fused with the surrounding code. For one matrix the elements are scalars
//! in registers.
//!
//! ```text
//! cholesky of f64[1000,2,2]   ->   l00 = sqrt a00, l10 = a10 (1 / l00), l11 = sqrt(a11 - l10 l10): f64[1000] each
//! ```
//!
//! Whether a routine is unrolled depends on the routine and its order alone, never on the batch. The operations
//! and their order are those of the library's routine at these orders, so the results have the same bits.

use super::routine_call::RoutineCall;
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::types::{Dtype, Shape};
use crate::prim::{Concatenate, Op, Scalar, Slice, elementwise, reshaped};
use tapeloom_routines::Routine;

/// The largest order of a Cholesky factor or triangular system that is unrolled, and the largest number of
/// columns on the right-hand side.
const MOST: usize = 8;

/// The largest order of an LU factorization that is unrolled. It is smaller because an exchange of rows is a
/// select for every element.
const MOST_EXCHANGED: usize = 4;

impl RoutineCall {
    /// Emits the routine's results as elementwise operations on the elements of the operands; `None` if the order
    /// of the matrices is too large (`MOST`, `MOST_EXCHANGED`).
    pub fn unrolled(&self, b: &Builder<'_>, x: &[Atom]) -> Option<Vec<Atom>> {
        match self.routine {
            Routine::Cholesky { n } if (1..=MOST).contains(&n) => {
                let a = Grid::of(b, x[0], n, n);
                Some(vec![cholesky(b, &a).joined(b)])
            }
            Routine::TriangularSolve { n, columns, lower, transposed, unit_diagonal }
                if (1..=MOST).contains(&n) && (1..=MOST).contains(&columns) =>
            {
                let (t, right) = (Grid::of(b, x[0], n, n), Grid::of(b, x[1], n, columns));
                let how = Triangle { lower, transposed, unit_diagonal };
                Some(vec![triangular_solve(b, &t, how, right).joined(b)])
            }
            Routine::Lu { m, n } if m == n && (1..=MOST_EXCHANGED).contains(&n) => {
                Some(lu(b, Grid::of(b, x[0], n, n)))
            }
            Routine::Cholesky { .. }
            | Routine::TriangularSolve { .. }
            | Routine::TridiagonalSolve { .. }
            | Routine::Lu { .. }
            | Routine::Qr { .. }
            | Routine::Eigh { .. }
            | Routine::Svd { .. }
            | Routine::Eig { .. }
            | Routine::Schur { .. }
            | Routine::Fft { .. }
            | Routine::RealFft { .. }
            | Routine::InverseRealFft { .. } => None,
        }
    }
}

/// The elements of a batch of matrices in row-major order, each an array with the batch axes.
struct Grid {
    batch: Shape,
    rows: usize,
    columns: usize,
    elements: Vec<Atom>,
}

impl Grid {
    /// Splits the matrices `x` into elements. If `x` was assembled by [`Grid::joined`], returns the elements from
    /// which it was assembled.
    fn of(b: &Builder<'_>, x: Atom, rows: usize, columns: usize) -> Grid {
        let shape = b.shape_of(x);
        let batch = Shape::from(&shape[..shape.len() - 2]);
        let elements = parts(b, x, rows * columns).unwrap_or_else(|| {
            let place = |at: usize| {
                let (mut start, mut limit) = (vec![0; shape.len()], shape.to_vec());
                for (axis, i) in [(shape.len() - 2, at / columns), (shape.len() - 1, at % columns)]
                {
                    (start[axis], limit[axis]) = (i, i + 1);
                }
                reshaped(b, b.emit1(Slice::dense(start, limit), &[x]), &batch[..])
            };
            (0..rows * columns).map(place).collect()
        });
        Grid { batch, rows, columns, elements }
    }

    fn at(&self, row: usize, column: usize) -> Atom {
        self.elements[row * self.columns + column]
    }

    /// Emits the array of matrices assembled from the elements.
    fn joined(&self, b: &Builder<'_>) -> Atom {
        let mut one = self.batch.to_vec();
        let axis = one.len();
        one.push(1);
        let parts: Vec<Atom> = self.elements.iter().map(|e| reshaped(b, *e, &one)).collect();
        let flat = match &parts[..] {
            [only] => *only,
            _ => b.emit1(Concatenate { axis }, &parts),
        };
        let mut shape = self.batch.to_vec();
        shape.extend([self.rows, self.columns]);
        reshaped(b, flat, &shape)
    }
}

/// Emits an array of vectors assembled from their elements, each an array of shape `batch`.
fn vector(b: &Builder<'_>, batch: &Shape, elements: Vec<Atom>) -> Atom {
    let grid = Grid { batch: batch.clone(), rows: 1, columns: elements.len(), elements };
    let joined = grid.joined(b);
    let mut shape = batch.to_vec();
    shape.push(grid.columns);
    reshaped(b, joined, &shape)
}

/// Methods that emit elementwise operations on matrix elements.
#[derive(Clone, Copy)]
struct Emit<'b, 'm>(&'b Builder<'m>);

impl Emit<'_, '_> {
    fn of(self, op: Scalar, x: &[Atom]) -> Atom {
        self.0.emit1(op, x)
    }

    /// Emits `x - y z`.
    fn less(self, x: Atom, y: Atom, z: Atom) -> Atom {
        self.of(Scalar::Sub, &[x, self.of(Scalar::Mul, &[y, z])])
    }

    /// Returns the number `x` as a literal in the dtype of `like`.
    fn number(self, like: Atom, x: f64) -> Atom {
        Literal::of(self.0.dtype_of(like), x).into()
    }

    /// Emits the logical and of all values of `each`; `None` if `each` is empty.
    fn all(self, each: impl IntoIterator<Item = Atom>) -> Option<Atom> {
        each.into_iter().reduce(|x, y| self.of(Scalar::And, &[x, y]))
    }

    /// Replaces the elements by NaN for the batch members for which `ok` does not hold.
    fn only_if(self, ok: Option<Atom>, elements: &mut [Atom]) {
        let Some(ok) = ok else { return };
        for e in elements {
            *e = self.of(Scalar::Select, &[ok, *e, self.number(*e, f64::NAN)]);
        }
    }
}

/// Emits the Cholesky factor L of A column by column: `l[j, j] = sqrt(s)` and `l[i, j] = s (1 / l[j, j])`, each
/// with `s = a[i, j] - Σ l[i, k] l[j, k]` over k < j.
fn cholesky(b: &Builder<'_>, a: &Grid) -> Grid {
    let (n, e) = (a.rows, Emit(b));
    let zero = elementwise::full(b, &a.batch, Literal::zero(b.dtype_of(a.at(0, 0))));
    let mut l = Grid { batch: a.batch.clone(), rows: n, columns: n, elements: vec![zero; n * n] };
    let mut positive = Vec::new();
    for j in 0..n {
        let rest =
            |i: usize, l: &Grid| (0..j).fold(a.at(i, j), |s, k| e.less(s, l.at(i, k), l.at(j, k)));
        let pivot = rest(j, &l);
        positive.push(e.of(Scalar::Gt, &[pivot, e.number(pivot, 0.0)]));
        positive.push(e.of(Scalar::IsFinite, &[pivot]));
        let root = e.of(Scalar::Sqrt, &[pivot]);
        let reciprocal = e.of(Scalar::Div, &[e.number(root, 1.0), root]);
        l.elements[j * n + j] = root;
        for i in j + 1..n {
            l.elements[i * n + j] = e.of(Scalar::Mul, &[rest(i, &l), reciprocal]);
        }
    }
    let ok = e.all(positive);
    for i in 0..n {
        e.only_if(ok, &mut l.elements[i * n..=i * n + i]);
    }
    l
}

/// The flags of a triangular solve: which triangle of the matrix is read, whether it is transposed, and whether
/// its diagonal is ones.
struct Triangle {
    lower: bool,
    transposed: bool,
    unit_diagonal: bool,
}

/// Emits the solution of `T x = b` row by row: `x[i] = (b[i] - Σ t[i, j] x[j]) / t[i, i]`, where the sum is over
/// the rows j that are solved already, in the order of the matrix.
fn triangular_solve(b: &Builder<'_>, t: &Grid, how: Triangle, mut x: Grid) -> Grid {
    let (n, e) = (t.rows, Emit(b));
    let forward = how.lower != how.transposed;
    for step in 0..n {
        let i = if forward { step } else { n - 1 - step };
        let solved = if forward { 0..i } else { i + 1..n };
        for column in 0..x.columns {
            let mut value = x.at(i, column);
            for j in solved.clone() {
                let across = how.transposed && !planted(Fault::UnrolledTriangle);
                let entry = if across { t.at(j, i) } else { t.at(i, j) };
                value = e.less(value, entry, x.at(j, column));
            }
            if !how.unit_diagonal {
                value = e.of(Scalar::Div, &[value, t.at(i, i)]);
            }
            x.elements[i * x.columns + column] = value;
        }
    }
    x
}

/// Emits Gaussian elimination with partial pivoting: the packed factors, the exchanges and the permutation. If
/// all candidates for a pivot are zero, the column is not divided.
fn lu(b: &Builder<'_>, mut a: Grid) -> Vec<Atom> {
    let (n, e) = (a.rows, Emit(b));
    let index = |i: usize| Atom::from(Literal::of(Dtype::I32, i as f64));
    let finite = e.all(a.elements.iter().map(|x| e.of(Scalar::IsFinite, &[*x])));
    let (mut pivots, mut order): (Vec<Atom>, Vec<Atom>) = (Vec::new(), (0..n).map(index).collect());
    let swapped = |here: Atom, x: Atom, y: Atom| {
        (e.of(Scalar::Select, &[here, y, x]), e.of(Scalar::Select, &[here, x, y]))
    };
    for j in 0..n {
        let (mut largest, mut pivot) = (e.of(Scalar::Abs, &[a.at(j, j)]), index(j));
        for i in j + 1..n {
            let size = e.of(Scalar::Abs, &[a.at(i, j)]);
            let more = e.of(Scalar::Gt, &[size, largest]);
            largest = e.of(Scalar::Select, &[more, size, largest]);
            pivot = e.of(Scalar::Select, &[more, index(i), pivot]);
        }
        for i in j + 1..n {
            let here = e.of(Scalar::Eq, &[pivot, index(i)]);
            for column in 0..n {
                let (above, below) = swapped(here, a.at(j, column), a.at(i, column));
                a.elements[j * n + column] = above;
                a.elements[i * n + column] = below;
            }
            (order[j], order[i]) = swapped(here, order[j], order[i]);
        }
        pivots.push(pivot);
        let zero = e.of(Scalar::Eq, &[a.at(j, j), e.number(a.at(j, j), 0.0)]);
        for i in j + 1..n {
            let ratio = e.of(Scalar::Div, &[a.at(i, j), a.at(j, j)]);
            let multiplier = e.of(Scalar::Select, &[zero, a.at(i, j), ratio]);
            a.elements[i * n + j] = multiplier;
            for column in j + 1..n {
                a.elements[i * n + column] = e.less(a.at(i, column), multiplier, a.at(j, column));
            }
        }
    }
    e.only_if(finite, &mut a.elements);
    let kept = |all: Vec<Atom>| -> Vec<Atom> {
        let or_own = |(i, x): (usize, Atom)| match finite {
            Some(ok) => e.of(Scalar::Select, &[ok, x, index(i)]),
            None => x,
        };
        all.into_iter().enumerate().map(or_own).collect()
    };
    let (pivots, order) = (kept(pivots), kept(order));
    vec![a.joined(b), vector(b, &a.batch, pivots), vector(b, &a.batch, order)]
}

/// Returns the `count` arrays from which `x` was joined; `None` if `x` was not made by joining.
fn parts(b: &Builder<'_>, x: Atom, count: usize) -> Option<Vec<Atom>> {
    let joined = b.definition(x).filter(|e| matches!(e.op, Op::Reshape(_)))?;
    let flat = b.definition(joined.operands[0]).filter(|e| matches!(e.op, Op::Concatenate(_)))?;
    let element = |part: &Atom| {
        let of = b.definition(*part).filter(|e| matches!(e.op, Op::Reshape(_)))?;
        let (own, wide) = (b.shape_of(of.operands[0]), b.shape_of(*part));
        (own.len() + 1 == wide.len()).then_some(of.operands[0])
    };
    if flat.operands.len() != count {
        return None;
    }
    flat.operands.iter().map(element).collect()
}
