//! Structured matrices, and products besides `dot`.

use super::axes::{Axis, resolve_axis};
use super::composite::{list, misshapen, number, of_numbers};
use super::{broadcast_together, concat, iota, select, stack, wrong, zeros};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Problem, Shape};

/// Returns an n by m matrix of ones on and below the `k`-th diagonal, zeros above.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|()| tri(2, 3, 0, Dtype::F64), ())?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn tri(n: usize, m: usize, k: i64, dtype: Dtype) -> Var {
    on_behalf("tri", caller(), || {
        // The offset k may be beyond all diagonals. Clamp it to the corner, so that sums with it do not overflow.
        let corner = |extent: usize| i64::try_from(extent).unwrap_or(i64::MAX);
        let k = k.clamp(-corner(n), corner(m));
        let (row, column) = (iota([n, m], 0, Dtype::I64), iota([n, m], 1, Dtype::I64));
        (row + k).ge(column).convert(dtype)
    })
}

/// Returns the indices of a diagonal of n elements: the vector (0, 1, .. n - 1) for each of two axes. Use it as
/// `x.index(diag_indices(n))`.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|x: Var| x.at(diag_indices(2)).set(0.0), [[1.0, 2.0], [3.0, 4.0]])?;
/// assert_eq!(y.to_vec::<f64>()?, [0.0, 2.0, 3.0, 0.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn diag_indices(n: usize) -> (Var, Var) {
    on_behalf("diag_indices", caller(), || {
        let i = super::arange(n, Dtype::I64);
        (i, i)
    })
}

/// Returns the matrix that is constant along its diagonals, with the given first column and first row. The first
/// element of the row is ignored.
///
/// Errors: `shape` if an argument is not a vector.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|(c, r): (Var, Var)| toeplitz(c, r), ([1.0, 2.0], [1.0, 7.0, 8.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 7.0, 8.0, 2.0, 1.0, 7.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn toeplitz(column: Var, row: Var) -> Var {
    let at = caller();
    let (tc, tr) = (column.ty(at), row.ty(at));
    if tc.shape.len() != 1 || tr.shape.len() != 1 {
        let message = format!("`toeplitz` of {tc} and {tr}");
        return misshapen(message, "give two vectors", &[column, row], tc, at);
    }
    on_behalf("toeplitz", at, || {
        let (n, m) = (tc.shape[0], tr.shape[0]);
        if n == 0 || m == 0 {
            return zeros([n, m], tc.dtype);
        }
        // `diagonals` contains the values of the diagonals from the lower left to the upper right. Row i of the matrix
        // is the part of `diagonals` that begins at index `n - 1 - i`. If the vector is repeated and cut into rows that
        // are shorter by one, each row begins one element earlier.
        let diagonals = concat(&[column.flip(0), row.slice_axis(0, 1..)], 0);
        if n == 1 {
            return diagonals.reshape([1, m]);
        }
        let length = n + m - 2;
        let turns = diagonals.tile([n]).slice_axis(0, n - 1..n - 1 + n * length);
        turns.reshape([n, length]).slice_axis(1, ..m)
    })
}

/// Multiplies matrices in the order with the fewest multiplications, which is determined from their shapes. The
/// first factor may be a row and the last one a column, given as vectors.
///
/// Errors: `shape` if there are no factors, or if inner extents differ.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(a, x): (Var, Var)| multi_dot(&[a, a, x]));
/// let y = f.call(([[1.0, 1.0], [0.0, 1.0]], [1.0, 2.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [5.0, 2.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "chain_matmul")]
#[track_caller]
pub fn multi_dot(factors: &[Var]) -> Var {
    let at = caller();
    let types: Vec<ArrayType> = factors.iter().map(|x| x.ty(at)).collect();
    let last = types.len().saturating_sub(1);
    let fits = |(i, t): (usize, &ArrayType)| {
        t.shape.len() == 2 || (t.shape.len() == 1 && (i == 0 || i == last))
    };
    let inner = |w: &[ArrayType]| w[0].shape.last() == w[1].shape.first();
    if types.is_empty() || !types.iter().enumerate().all(fits) || !types.windows(2).all(inner) {
        let message = format!("`multi_dot` of {}", list(&types));
        let help = "give matrices (vectors at the ends) whose inner extents are equal";
        let guess = types.first().cloned().unwrap_or(ArrayType::new(Dtype::F64, []));
        return misshapen(message, help, factors, guess, at);
    }
    // Find the cheapest order of the products by dynamic programming. extents[i] and extents[i + 1] are the numbers of
    // rows and columns of factor i. best[i][j] is the least cost of the product of factors i..=j, and the index of the
    // factor after which this product is split.
    let rows =
        |t: &ArrayType, first: bool| if first && t.shape.len() == 1 { 1 } else { t.shape[0] };
    let mut extents: Vec<usize> = types.iter().enumerate().map(|(i, t)| rows(t, i == 0)).collect();
    extents.push(types.last().and_then(|t| t.shape.get(1)).copied().unwrap_or(1));
    let n = types.len();
    let mut best = vec![vec![(0.0f64, 0usize); n]; n];
    for width in 1..n {
        for i in 0..n - width {
            let j = i + width;
            let cost = |cut: usize| {
                let product = [extents[i], extents[cut + 1], extents[j + 1]];
                let own: f64 = product.iter().map(|n| *n as f64).product();
                (best[i][cut].0 + best[cut + 1][j].0 + own, cut)
            };
            let least = (i..j).map(cost).min_by(|x, y| x.0.total_cmp(&y.0));
            best[i][j] = least.unwrap_or((0.0, i));
        }
    }
    on_behalf("multi_dot", at, || product(factors, &best, 0, n - 1))
}

fn product(factors: &[Var], best: &[Vec<(f64, usize)>], i: usize, j: usize) -> Var {
    if i == j {
        return factors[i];
    }
    let cut = best[i][j].1;
    product(factors, best, i, cut).dot(product(factors, best, cut + 1, j))
}

/// Structured matrices, and products besides `dot`.
impl Var {
    /// For a vector, returns the matrix with it on the `k`-th diagonal and zeros elsewhere. For a matrix, returns its
    /// `k`-th diagonal (numpy's `diag`). For positive `k` the diagonal is above the main diagonal.
    ///
    /// Errors: `shape` for other numbers of axes.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| (x.diag(1), x.diag(1).diag(1)));
    /// let (matrix, vector) = f.call([5.0])?;
    /// assert_eq!(matrix.to_vec::<f64>()?, [0.0, 5.0, 0.0, 0.0]);
    /// assert_eq!(vector.to_vec::<f64>()?, [5.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "diag_embed")]
    #[track_caller]
    pub fn diag(self, k: i64) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let off = k.unsigned_abs() as usize;
        match *ty.shape {
            [n] => {
                let size = n.saturating_add(off);
                if size.checked_mul(size).is_none() {
                    let message = format!("`diag` of {ty} on diagonal {k}");
                    return misshapen(
                        message,
                        "the matrix exceeds the address space",
                        &[self],
                        ty,
                        at,
                    );
                }
                on_behalf("diag", at, || {
                    let (row, column) = (iota([n, n], 0, Dtype::I64), iota([n, n], 1, Dtype::I64));
                    let square = select(row.eq(column), self, number(self, 0.0));
                    let (before, behind) = (k.max(0), (-k).max(0));
                    let widths = [(behind, before), (before, behind)];
                    square.pad(&widths, number(self, 0.0))
                })
            }
            [n, m] => on_behalf("diag", at, || {
                let (down, right) = if k < 0 { (off, 0) } else { (0, off) };
                if down >= n || right >= m {
                    return zeros([0], ty.dtype);
                }
                let size = (n - down).min(m - right);
                self.slice_axis(0, down..down + size).slice_axis(1, right..right + size).diagonal()
            }),
            _ => {
                let message = format!("`diag` of {ty}");
                misshapen(message, "give a vector or a matrix", &[self], ty, at)
            }
        }
    }

    /// Returns the matrix whose `k`-th diagonal contains all elements of the array in row-major order, with zeros
    /// elsewhere.
    #[track_caller]
    pub fn diagflat(self, k: i64) -> Var {
        on_behalf("diagflat", caller(), || self.flatten().diag(k))
    }

    /// Returns the matrices (of the last two axes) with the diagonal replaced by `value`, a number or a vector of
    /// the diagonal elements.
    ///
    /// Errors: `shape` for fewer than two axes, or if the value does not broadcast to the diagonal.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.fill_diagonal(9.0), [[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [9.0, 2.0, 3.0, 9.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn fill_diagonal(self, value: impl IntoVar) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let value = value.beside(self, at);
        let tv = value.ty(at);
        let [.., n, m] = *ty.shape else {
            let message = format!("`fill_diagonal` of {ty}");
            return misshapen(message, "give a matrix", &[self, value], ty, at);
        };
        let size = n.min(m);
        if tv.shape.len() > 1 || tv.shape.iter().any(|e| *e != size && *e != 1) {
            let message = format!("`fill_diagonal` of {ty} with {tv}");
            let help = "give a number, or one element per place of the diagonal";
            return misshapen(message, help, &[self, value], ty, at);
        }
        on_behalf("fill_diagonal", at, || {
            let (row, column) = (iota([n, m], 0, Dtype::I64), iota([n, m], 1, Dtype::I64));
            // A vector `value` broadcasts along the columns: its element i is the diagonal element of row i.
            let line = if tv.shape.first().is_some_and(|e| *e > 1) && size < m {
                value.pad(&[(0, (m - size) as i64)], number(self, 0.0))
            } else {
                value
            };
            select(row.eq(column), line, self)
        })
    }

    /// Returns Kronecker's product: each element of x is replaced by a block, the product of this element and y. The
    /// axes of x and y are aligned at the last axis.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|(x, y): (Var, Var)| x.kron(y), ([1.0, 2.0], [1.0, 10.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 10.0, 2.0, 20.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn kron(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        let (tx, ty) = (self.ty(at), y.ty(at));
        // Check the dtypes here: an error of the product would name the shapes of reshaped operands.
        if tx.dtype != ty.dtype {
            let message = format!("`kron` needs operands of one dtype, got {tx} and {ty}");
            let help = crate::dtype::conversions(tx.dtype, ty.dtype);
            return wrong(Problem::new(Kind::Dtype, message, help), &[self, y], tx, at);
        }
        let (sx, sy) = (tx.shape, ty.shape);
        let rank = sx.len().max(sy.len());
        let extent = |s: &Shape, i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
        let (mut left, mut right, mut joined) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..rank {
            let (n, m) = (extent(&sx, i), extent(&sy, i));
            left.extend([n, 1]);
            right.extend([1, m]);
            joined.push(n.saturating_mul(m));
        }
        let (x, y) = on_behalf("kron", at, || (self.reshape(left), y.reshape(right)));
        of_numbers("kron", [x, y], at, |[x, y]| (x * y).reshape(joined))
    }

    /// Returns the cross product along the last axis, whose extent is 3; other axes are broadcast together.
    ///
    /// Errors: `shape` for another extent, or if axes do not broadcast.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let z = run(|(x, y): (Var, Var)| x.cross(y), ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]))?;
    /// assert_eq!(z.to_vec::<f64>()?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn cross(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        let (tx, ty) = (self.ty(at), y.ty(at));
        if tx.shape.last() != Some(&3) || ty.shape.last() != Some(&3) {
            let message = format!("`cross` of {tx} and {ty}");
            let help = "the last axis of both must have extent 3";
            return misshapen(message, help, &[self, y], tx, at);
        }
        of_numbers("cross", [self, y], at, |[x, y]| {
            let x = [0, 1, 2].map(|i| x.index_axis(-1, i));
            let y = [0, 1, 2].map(|i| y.index_axis(-1, i));
            let part = |i: usize, j: usize| x[i] * y[j] - x[j] * y[i];
            stack(&[part(1, 2), part(2, 0), part(0, 1)], -1)
        })
    }

    /// Returns the product summed over the last axis of `self` and the last axis of `y`: the inner product of vectors
    /// (numpy's `inner`). If one operand is a scalar, returns the elementwise product.
    #[track_caller]
    pub fn inner(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        let (p, q) = (self.ty(at).shape.len(), y.ty(at).shape.len());
        on_behalf("inner", at, || {
            if p == 0 || q == 0 { self * y } else { self.tensordot(y, &[(p - 1, q - 1)]) }
        })
    }

    /// Returns the sum of the products of corresponding elements in row-major order, for any two shapes.
    ///
    /// Errors: `shape` if the numbers of elements differ.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|(x, y): (Var, Var)| x.vdot(y), ([[1.0, 2.0]], [3.0, 4.0]))?;
    /// assert_eq!(y.item::<f64>()?, 11.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn vdot(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        let (tx, ty) = (self.ty(at), y.ty(at));
        if tx.shape.elements() != ty.shape.elements() {
            let guess = ArrayType::new(tx.dtype, []);
            let message = format!("`vdot` of {tx} and {ty}");
            let help = "give arrays with the same number of elements";
            return misshapen(message, help, &[self, y], guess, at);
        }
        on_behalf("vdot", at, || self.flatten().dot(y.flatten()))
    }

    /// Broadcasts two arrays together, and returns the sum of the products of their elements along one axis, which is
    /// removed.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|(x, y): (Var, Var)| x.vecdot(y, -1), ([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [21.0, 43.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn vecdot(self, y: impl IntoVar, axis: impl Axis) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        let shape = match broadcast_together("vecdot", &[self, y], at) {
            Ok((_, shape)) => shape,
            Err(problem) => return wrong(problem, &[self, y], self.ty(at), at),
        };
        match resolve_axis("vecdot", axis, &shape) {
            Ok(axis) => of_numbers("vecdot", [self, y], at, |[x, y]| (x * y).sum_axis(axis)),
            Err(problem) => wrong(problem, &[self, y], self.ty(at), at),
        }
    }

    /// Returns the `n`-th power of square matrices (of the last two axes), by repeated squaring; for n = 0, the
    /// identity.
    ///
    /// Errors: `shape` if the matrices are not square.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.matrix_power(5), [[1.0, 1.0], [1.0, 0.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [8.0, 5.0, 5.0, 3.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_power(self, n: u32) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let square = matches!(*ty.shape, [.., n, m] if n == m);
        if !square {
            let message = format!("`matrix_power` of {ty}");
            return misshapen(message, "give a square matrix", &[self], ty, at);
        }
        of_numbers("matrix_power", [self], at, |[x]| {
            let mut power: Option<Var> = None;
            let (mut square, mut rest) = (x, n);
            while rest > 0 {
                if rest % 2 == 1 {
                    power = Some(power.map_or(square, |p| p.matmul(square)));
                }
                rest /= 2;
                if rest > 0 {
                    square = square.matmul(square);
                }
            }
            let size = ty.shape[ty.shape.len() - 1];
            power.unwrap_or_else(|| super::eye(size, ty.dtype).broadcast_to(&ty.shape))
        })
    }
}
