//! Divided differences of a function at the eigenvalues of a symmetric matrix, of first to third order.
//!
//! ```text
//! f[x] = f(x)        f[x0, .., xk] = (f[x0, .., x(k-1)] - f[x1, .., xk]) / (x0 - xk)        f[x, .., x] = f⁽ᵏ⁾(x) / k!
//! ```
//!
//! The quotient that defines a difference loses digits where the arguments `x0` and `xk` are close, and is 0/0 where
//! they are equal. There the difference is computed as a weighted mean of the k-th derivative of `f` (Hermite and
//! Genocchi). It is computed from the coefficients `c[p]` of the polynomial that agrees with `f⁽ᵏ⁾` at [`NODES`] points
//! between the smallest and the largest argument, and from the complete symmetric polynomials `h[p]` of all arguments,
//! in the coordinate that is -1 at the smallest and 1 at the largest argument:
//!
//! ```text
//! f[x0, .., xk] = Σ c[p] p! / (p + k)! h[p](y0, .., yk)
//! ```
//!
//! The scale on which `f` varies is unknown. So both forms are computed, with an estimate of the error of each: for
//! the quotient from rounding errors, for the polynomial from its last coefficients. The form with the smaller error
//! is used, but the polynomial only if both forms agree within an error of rounding. Otherwise `f` may have a kink
//! between the eigenvalues, and the quotient is used.
//!
//! Arguments are sorted first, so that the quotient divides by the largest gap (N. Higham, *Functions of Matrices*
//! (2008), B.16). Eigenvalues are ascending, so their indices are sorted instead.

use crate::Var;
use crate::dtype::epsilon;
use crate::ops::functions::{concat, constant, iota, select};
use crate::transform::jvp;
use tapeloom_ir::{Dtype, Tensor};

/// The number of points between two eigenvalues at which a derivative of `f` is sampled. The number is even, so that
/// the midpoint is not sampled: between eigenvalues w and -w the midpoint is 0, where `f` may have a pole.
const NODES: usize = 8;

/// The function of one number whose differences are computed.
#[derive(Clone, Copy)]
pub(super) enum Scalar<'a> {
    /// The user's function, which is applied to each element of an array.
    Smooth(&'a dyn Fn(Var) -> Var),
    /// The function that is 1 at the given number of lowest eigenvalues and 0 at all others.
    Lowest(usize),
}

impl Scalar<'_> {
    /// Returns `f(w)` for ascending eigenvalues `w` `[n]`.
    pub(super) fn values(self, w: Var) -> Var {
        match self {
            Scalar::Smooth(f) => f(w),
            Scalar::Lowest(k) => iota(w.shape(), 0, Dtype::I64).lt(k as i64).convert(w.dtype()),
        }
    }

    /// Returns the divided differences of order `k` at all combinations of `k + 1` of the eigenvalues `w`: an array
    /// with `k + 1` axes of extent `n`.
    pub(super) fn differences(self, w: Var, k: usize) -> Var {
        if k == 0 {
            return self.values(w);
        }
        let lower = self.differences(w, k - 1);
        let all = Combinations::of(w.len(), k);
        let (low, high) = (all.of_one(w, 0), all.of_one(w, k));
        let gap = high - low;
        let apart = gap.ne(0.0);
        let divisor = select(apart, gap, gap.ones_like());
        let (first, last) = (all.of_most(lower, 0), all.of_most(lower, 1));
        let quotient = (last - first) / divisor;
        match self {
            Scalar::Lowest(count) => {
                let below = |i: usize| all.sorted[i].lt(count as i64);
                let apart = below(0) ^ below(k);
                // The function is constant among the lowest eigenvalues and constant among the others, so only
                // differences between the two groups are nonzero.
                select(apart, (last - first) / gap, gap.zeros_like())
            }
            Scalar::Smooth(f) => {
                let polynomial = Polynomial::of(&derivative(f, k), w);
                let inside: Vec<Var> = (1..k)
                    .map(|i| {
                        let x = all.of_one(w, i);
                        ((x - low) - (high - x)) / divisor
                    })
                    .collect();
                let near = polynomial.mean(&all, k, &inside);
                let rounding = {
                    let [low, high, divisor, first, last] =
                        [low, high, divisor, first, last].map(Var::stop_gradient);
                    let moved = (low.abs() + high.abs()) * all.of_pair(polynomial.size);
                    (first.abs() + last.abs() + moved) * epsilon(w.dtype()) / divisor.abs()
                };
                // If `f` has a kink between two nodes, the samples of its derivative do not show the kink, and the
                // polynomial is wrong. So use the polynomial only if it agrees with the quotient within the error of
                // the quotient, which includes errors of the differences of lower order.
                let off = (near - quotient).stop_gradient().abs();
                let agree = off.le(rounding / epsilon(w.dtype()).sqrt());
                // For equal arguments the quotient is 0/0. Then use the polynomial, whether it agrees or not.
                let is_near = !apart | (all.of_pair(polynomial.error).le(rounding) & agree);
                select(is_near, near, quotient)
            }
        }
    }
}

/// Returns the k-th derivative of an elementwise function.
fn derivative<'a>(f: &'a dyn Fn(Var) -> Var, k: usize) -> Box<dyn Fn(Var) -> Var + 'a> {
    (0..k)
        .fold(Box::new(f), |f, _| Box::new(move |x: Var| jvp(|x: Var| f(x))((x, x.ones_like())).1))
}

/// All tuples of `k + 1` of `n` indices, including tuples with repeated indices.
struct Combinations {
    n: usize,
    /// The i-th array contains, for each combination, its i-th smallest index: i64, with `k + 1` axes of extent `n`.
    /// For k = 1, the pairs of row and column indices are not sorted, because all tables that are read at pairs are
    /// symmetric.
    sorted: Vec<Var>,
}

impl Combinations {
    fn of(n: usize, k: usize) -> Combinations {
        if k == 1 {
            let sorted = vec![iota([n, 1], 0, Dtype::I64), iota([n], 0, Dtype::I64)];
            return Combinations { n, sorted };
        }
        let shape = vec![n; k + 1];
        let mut sorted: Vec<Var> = (0..=k).map(|axis| iota(&shape[..], axis, Dtype::I64)).collect();
        for end in (1..=k).rev() {
            for i in 0..end {
                let (x, y) = (sorted[i], sorted[i + 1]);
                (sorted[i], sorted[i + 1]) = (x.minimum(y), x.maximum(y));
            }
        }
        Combinations { n, sorted }
    }

    /// Returns, for each combination, the element of the vector `x` at the i-th smallest index.
    fn of_one(&self, x: Var, i: usize) -> Var {
        match (self.sorted.len(), i) {
            (2, 0) => x.expand_dims(1),
            (2, _) => x,
            _ => x.take(self.sorted[i], 0),
        }
    }

    /// Returns, for each tuple of `k + 1` indices, an element of `table`, an array with one axis for each of `k`
    /// indices. If `from` is 0, the element is read at all indices of the tuple but the largest; if `from` is 1, at all
    /// but the smallest.
    fn of_most(&self, table: Var, from: usize) -> Var {
        match self.sorted.len() {
            2 => self.of_one(table, from),
            all => self.read(table, &self.sorted[from..from + all - 1]),
        }
    }

    /// Returns, for each combination, the element of a matrix at its smallest and its largest index.
    fn of_pair(&self, table: Var) -> Var {
        match self.sorted.len() {
            2 => table,
            all => self.read(table, &[self.sorted[0], self.sorted[all - 1]]),
        }
    }

    fn read(&self, table: Var, indices: &[Var]) -> Var {
        let flat = indices.iter().copied().reduce(|all, i| all * self.n as i64 + i);
        match flat {
            Some(flat) => table.reshape([table.size()]).take(flat, 0),
            None => table,
        }
    }
}

/// For each pair of eigenvalues, the polynomial that interpolates a function at the [`nodes`] between the two.
struct Polynomial {
    /// For each power, in ascending order, the coefficients for all pairs of eigenvalues: `[n, n]`.
    coefficients: Vec<Var>,
    /// For each pair, the largest absolute value of the coefficients, a constant for derivatives.
    size: Var,
    /// For each pair, an estimate of the error of the polynomial, a constant for derivatives.
    error: Var,
}

impl Polynomial {
    fn of(f: &dyn Fn(Var) -> Var, w: Var) -> Polynomial {
        let dtype = w.dtype();
        let nodes = nodes();
        let table = |rows: Vec<f64>, shape: [usize; 3]| {
            constant(Tensor::from(rows)).reshape(shape).convert(dtype)
        };
        let (low, high) = (w.expand_dims(1), w);
        let (middle, half) = (low * 0.5 + high * 0.5, high * 0.5 - low * 0.5);
        let x = middle + half * table(nodes.to_vec(), [NODES, 1, 1]);
        let samples = f(x);
        let n = w.len();
        let matrix = table(interpolation(&nodes), [1, NODES, NODES]).reshape([NODES, NODES]);
        // All rows of the matrix but the first sum to 0 up to rounding. To remove this rounding error, one sample is
        // subtracted from all samples and added again to the constant coefficient. For equal eigenvalues the
        // differences are 0, and the result is exactly that sample.
        let one = samples.slice_axis(0, NODES / 2..NODES / 2 + 1);
        let rest = (samples - one).reshape([NODES, n * n]);
        let rest = matrix.matmul(rest).reshape([NODES, n, n]);
        let all = concat(&[rest.slice_axis(0, 0..1) + one, rest.slice_axis(0, 1..)], 0);
        let coefficients: Vec<Var> = (0..NODES).map(|p| all.index_axis(0, p)).collect();
        let sizes = all.stop_gradient().abs();
        let size = sizes.max_axis(0);
        let tail = sizes.slice_axis(0, NODES - 2..NODES).max_axis(0);
        // The error of the interpolation is about the first omitted coefficient. Its estimate is `tail`, the larger of
        // the last two computed coefficients, times the square root of the ratio of `tail` to the largest coefficient.
        let some = size.gt(0.0);
        let ratio = tail / select(some, size, size.ones_like());
        Polynomial { coefficients, size, error: tail * ratio.sqrt() }
    }

    /// Returns the divided difference of order `k`, `Σ c[p] p! / (p + k)! h[p](-1, inside.., 1)`; see the documentation
    /// of this module.
    fn mean(&self, all: &Combinations, k: usize, inside: &[Var]) -> Var {
        // Add the arguments to the symmetric polynomials h[p] one by one: with the next argument `y`, h[p] becomes h[p]
        // + y h'[p - 1], where h' includes `y`.
        let mut last: Vec<Option<Var>> = vec![None; inside.len()];
        let mut total: Option<Var> = None;
        for (p, c) in self.coefficients.iter().enumerate() {
            let ends = if p % 2 == 0 { 1.0 } else { 0.0 };
            let mut h: Option<Var> = None;
            for (y, last) in inside.iter().zip(&mut last) {
                let before = match h {
                    Some(h) => h,
                    None => y.full_like(ends),
                };
                let now = match *last {
                    Some(last) => *y * last + before,
                    None => before,
                };
                (*last, h) = (Some(now), Some(now));
            }
            let weight: f64 = (1..=k).map(|i| 1.0 / (p + i) as f64).product();
            let term = match h {
                Some(h) => all.of_pair(*c) * h * weight,
                None if ends == 0.0 => continue,
                None => all.of_pair(*c) * weight,
            };
            total = Some(total.map_or(term, |total| total + term));
        }
        total.unwrap_or_else(|| all.of_pair(self.size).zeros_like())
    }
}

/// Returns the interpolation points in -1..1: the zeros of a Chebyshev polynomial, at which interpolation is well
/// conditioned.
fn nodes() -> [f64; NODES] {
    let step = std::f64::consts::PI / (2 * NODES) as f64;
    std::array::from_fn(|q| -((2 * q + 1) as f64 * step).cos())
}

/// Returns the matrix, by rows, that maps values at the nodes to coefficients of powers. Its columns are the
/// coefficients of the Lagrange polynomials.
fn interpolation(nodes: &[f64; NODES]) -> Vec<f64> {
    let mut matrix = vec![0.0; NODES * NODES];
    for (q, own) in nodes.iter().enumerate() {
        let mut powers = vec![0.0; NODES];
        powers[0] = 1.0;
        for other in nodes.iter().enumerate().filter(|(i, _)| *i != q).map(|(_, x)| x) {
            // Multiply the Lagrange polynomial of the node `own`, a polynomial in y, by (y - other) / (own - other).
            for p in (0..NODES).rev() {
                let shifted = if p == 0 { 0.0 } else { powers[p - 1] };
                powers[p] = (shifted - other * powers[p]) / (own - other);
            }
        }
        for (p, power) in powers.into_iter().enumerate() {
            matrix[p * NODES + q] = power;
        }
    }
    matrix
}
