//! The description of a library routine: its name, and the arrays that it reads and writes.

/// The element type of a routine's floating-point arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Float {
    /// Single precision, 4 bytes.
    F32,
    /// Double precision, 8 bytes.
    F64,
}

impl Float {
    /// Returns the size in bytes of one number of this type.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Float::F32 => 4,
            Float::F64 => 8,
        }
    }
}

/// The element type of one array of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Element {
    /// Floating-point numbers of the type for which the routine is planned.
    Float,
    /// Row indices as `i32`.
    Index,
}

impl Element {
    /// Returns the size of one element in bytes, if `float` is the plan's type.
    #[must_use]
    pub fn bytes(self, float: Float) -> usize {
        match self {
            Element::Float => float.bytes(),
            Element::Index => 4,
        }
    }
}

/// One operand or result of a routine: an array without gaps, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Array {
    /// The lengths of the axes for one batch member.
    pub shape: Vec<usize>,
    /// The kind of elements: floating-point numbers or indices.
    pub element: Element,
}

impl Array {
    /// Returns the number of bytes of the array; `None` if it exceeds `isize::MAX`.
    #[must_use]
    pub fn bytes(&self, float: Float) -> Option<usize> {
        let size = self.element.bytes(float);
        let bytes =
            self.shape.iter().try_fold(size, |product, &length| product.checked_mul(length))?;
        (bytes <= isize::MAX.unsigned_abs()).then_some(bytes)
    }
}

/// The singular vectors that a decomposition returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SvdVectors {
    /// Only singular values, no vectors.
    None,
    /// The first `min(m, n)` left and right singular vectors.
    Thin,
    /// All `m` left and `n` right singular vectors: orthogonal bases of both spaces.
    Full,
}

/// The columns of the orthogonal factor `q` that a QR factorisation returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QrBasis {
    /// No columns: the factorisation returns only `r`.
    None,
    /// The first `min(m, n)` columns.
    Thin,
    /// All `m` columns: an orthogonal basis of the whole space.
    Full,
}

impl QrBasis {
    /// Returns the number of rows of `r` for a matrix of `m` rows and `n` columns; `q`, if it is returned, has as many
    /// columns.
    #[must_use]
    pub fn rows_of_r(self, m: usize, n: usize) -> usize {
        match self {
            QrBasis::None | QrBasis::Thin => m.min(n),
            QrBasis::Full => m,
        }
    }
}

/// A library routine. Each variant describes the work for one member of a batch: the extents of the arrays that
/// it reads and writes (`operands -> results`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Routine {
    /// `a[n, n] -> l[n, n]` with `a = l l^T`, zeros above the diagonal. Reads the lower triangle. If `a` is not
    /// positive definite, the lower triangle is NaN.
    Cholesky {
        /// The order of the matrix.
        n: usize,
    },
    /// `t[n, n], b[n, columns] -> x[n, columns]` with `t x = b` (`t^T x = b` if `transposed`). Reads one
    /// triangle of `t`. A zero on the diagonal has the effect of a division by zero.
    TriangularSolve {
        /// The order of the matrix.
        n: usize,
        /// The number of right-hand sides.
        columns: usize,
        /// Whether the lower triangle of `t` is read instead of the upper one.
        lower: bool,
        /// Whether the system is `t^T x = b` instead of `t x = b`.
        transposed: bool,
        /// Whether the diagonal of `t` is not read, and ones are used instead.
        unit_diagonal: bool,
    },
    /// `lower[n], diagonal[n], upper[n], b[n, columns] -> x[n, columns]` with
    /// `lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = b[i]`. `lower[0]` and `upper[n-1]`
    /// are not read. Rows are exchanged for stability, as in LAPACK's `gtsv`.
    TridiagonalSolve {
        /// The order of the matrix.
        n: usize,
        /// The number of right-hand sides.
        columns: usize,
    },
    /// `a[m, n] -> packed[m, n], pivots[k], permutation[m]` with `k = min(m, n)` and `a[permutation] = l u`.
    /// `l` has a unit diagonal and is stored below the diagonal of `packed`, `u` on and above it. Row `i` was
    /// exchanged with row `pivots[i] >= i`. A singular `a` has factors too, with zeros on the diagonal of `u`.
    Lu {
        /// The number of rows.
        m: usize,
        /// The number of columns.
        n: usize,
    },
    /// `a[m, n] -> r[k, n]` or `q[m, k], r[k, n]` (thin) with `k = min(m, n)`, or `q[m, m], r[m, n]` (full); the
    /// diagonal of `r` is non-negative.
    Qr {
        /// The number of rows.
        m: usize,
        /// The number of columns.
        n: usize,
        /// The columns of `q` that are computed.
        basis: QrBasis,
    },
    /// `a[n, n] -> values[n]`, and `vectors[n, n]` in columns if `vectors` is set. `a` is symmetric; its lower
    /// triangle is read. Values ascend. In each vector the component of largest absolute value (the first of
    /// several) is positive.
    Eigh {
        /// The order of the matrix.
        n: usize,
        /// Whether the eigenvectors are computed.
        vectors: bool,
    },
    /// `a[m, n] -> s[k]` or `u[m, k], s[k], vt[k, n]` (thin), `u[m, m], s[k], vt[n, n]` (full), with
    /// `k = min(m, n)` and `a = u diag(s) vt`. Values descend. Signs are chosen by the columns of `u` as for
    /// `Eigh`, and for rows of `vt` without a column of `u` by the row.
    Svd {
        /// The number of rows.
        m: usize,
        /// The number of columns.
        n: usize,
        /// The singular vectors that are computed.
        vectors: SvdVectors,
    },
    /// `a[n, n] -> values_re[n], values_im[n]`, and `vectors_re[n, n], vectors_im[n, n]` in columns if
    /// `vectors` is set. Vectors have norm 1, and the component of largest absolute value (the first of
    /// several) is real and positive. Conjugate values are neighbours, the positive imaginary part first.
    Eig {
        /// The order of the matrix.
        n: usize,
        /// Whether the eigenvectors are computed.
        vectors: bool,
    },
    /// `a[n, n] -> t[n, n], z[n, n]` with `a = z t z^T`, `z` orthogonal, `t` upper triangular except for 2 x 2
    /// blocks with conjugate eigenvalues and equal diagonal entries. Signs are chosen by the columns of `z` as
    /// for `Eigh`.
    Schur {
        /// The order of the matrix.
        n: usize,
    },
    /// `x[2, rows, n, columns] -> y[2, rows, n, columns]`, real parts first, then imaginary parts, with
    /// `y[r, j, c] = sum_k x[r, k, c] exp(-+ 2 pi i j k / n)`; the upper sign is forward. Neither direction
    /// scales. In all transforms, a NaN or an infinity makes only its own sequence NaN.
    Fft {
        /// The product of the extents of the axes before the transformed axis.
        rows: usize,
        /// The number of elements along the transformed axis.
        n: usize,
        /// The product of the extents of the axes after the transformed axis.
        columns: usize,
        /// Whether the transform is the inverse one, with `exp(+2 pi i j k / n)`.
        inverse: bool,
    },
    /// `x[rows, n, columns] -> y[2, rows, n/2 + 1, columns]`, the first halves of the forward transforms of
    /// real sequences.
    RealFft {
        /// The product of the extents of the axes before the transformed axis.
        rows: usize,
        /// The number of real numbers in a sequence.
        n: usize,
        /// The product of the extents of the axes after the transformed axis.
        columns: usize,
    },
    /// `y[2, rows, n/2 + 1, columns] -> x[rows, n, columns]`, the unscaled inverse transforms of half spectra;
    /// the other halves are the mirrored conjugates of the halves in `y`. The imaginary parts of entry 0 and,
    /// for even `n`, of entry `n/2` are not read.
    InverseRealFft {
        /// The product of the extents of the axes before the transformed axis.
        rows: usize,
        /// The number of real numbers in a sequence.
        n: usize,
        /// The product of the extents of the axes after the transformed axis.
        columns: usize,
    },
}

fn floats<const N: usize>(shape: [usize; N]) -> Array {
    Array { shape: shape.to_vec(), element: Element::Float }
}

fn indices(length: usize) -> Array {
    Array { shape: vec![length], element: Element::Index }
}

/// Returns the number of frequencies of half the spectrum of `n` real numbers: `n/2 + 1`, or 0 for an empty
/// sequence.
#[must_use]
pub fn half(n: usize) -> usize {
    if n == 0 { 0 } else { n / 2 + 1 }
}

impl Routine {
    /// Returns the name of the routine in the text form, in snake case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Routine::Cholesky { .. } => "cholesky",
            Routine::TriangularSolve { .. } => "triangular_solve",
            Routine::TridiagonalSolve { .. } => "tridiagonal_solve",
            Routine::Lu { .. } => "lu",
            Routine::Qr { .. } => "qr",
            Routine::Eigh { .. } => "eigh",
            Routine::Svd { .. } => "svd",
            Routine::Eig { .. } => "eig",
            Routine::Schur { .. } => "schur",
            Routine::Fft { .. } => "fft",
            Routine::RealFft { .. } => "real_fft",
            Routine::InverseRealFft { .. } => "inverse_real_fft",
        }
    }

    /// Returns the arrays that the routine reads, in order.
    #[must_use]
    pub fn operands(&self) -> Vec<Array> {
        match *self {
            Routine::Cholesky { n }
            | Routine::Eigh { n, vectors: _ }
            | Routine::Eig { n, vectors: _ }
            | Routine::Schur { n } => vec![floats([n, n])],
            Routine::TriangularSolve { n, columns, lower: _, transposed: _, unit_diagonal: _ } => {
                vec![floats([n, n]), floats([n, columns])]
            }
            Routine::TridiagonalSolve { n, columns } => {
                vec![floats([n]), floats([n]), floats([n]), floats([n, columns])]
            }
            Routine::Lu { m, n }
            | Routine::Qr { m, n, basis: _ }
            | Routine::Svd { m, n, vectors: _ } => vec![floats([m, n])],
            Routine::Fft { rows, n, columns, inverse: _ } => vec![floats([2, rows, n, columns])],
            Routine::RealFft { rows, n, columns } => vec![floats([rows, n, columns])],
            Routine::InverseRealFft { rows, n, columns } => {
                vec![floats([2, rows, half(n), columns])]
            }
        }
    }

    /// Returns the arrays that the routine writes, in order.
    #[must_use]
    pub fn results(&self) -> Vec<Array> {
        match *self {
            Routine::Cholesky { n } => vec![floats([n, n])],
            Routine::TriangularSolve { n, columns, lower: _, transposed: _, unit_diagonal: _ }
            | Routine::TridiagonalSolve { n, columns } => vec![floats([n, columns])],
            Routine::Lu { m, n } => vec![floats([m, n]), indices(m.min(n)), indices(m)],
            Routine::Qr { m, n, basis } => {
                let k = basis.rows_of_r(m, n);
                match basis {
                    QrBasis::None => vec![floats([k, n])],
                    QrBasis::Thin | QrBasis::Full => vec![floats([m, k]), floats([k, n])],
                }
            }
            Routine::Eigh { n, vectors: false } => vec![floats([n])],
            Routine::Eigh { n, vectors: true } => vec![floats([n]), floats([n, n])],
            Routine::Svd { m, n, vectors } => {
                let k = m.min(n);
                match vectors {
                    SvdVectors::None => vec![floats([k])],
                    SvdVectors::Thin => vec![floats([m, k]), floats([k]), floats([k, n])],
                    SvdVectors::Full => vec![floats([m, m]), floats([k]), floats([n, n])],
                }
            }
            Routine::Eig { n, vectors: false } => vec![floats([n]), floats([n])],
            Routine::Eig { n, vectors: true } => {
                vec![floats([n]), floats([n]), floats([n, n]), floats([n, n])]
            }
            Routine::Schur { n } => vec![floats([n, n]), floats([n, n])],
            Routine::Fft { rows, n, columns, inverse: _ } => vec![floats([2, rows, n, columns])],
            Routine::RealFft { rows, n, columns } => vec![floats([2, rows, half(n), columns])],
            Routine::InverseRealFft { rows, n, columns } => vec![floats([rows, n, columns])],
        }
    }
}
