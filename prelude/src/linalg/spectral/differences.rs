//! Divided differences of a function at the eigenvalues of a symmetric matrix, of first to third order.
//!
//! ```text
//! f[x] = f(x)        f[x0, .., xk] = (f[x0, .., x(k-1)] - f[x1, .., xk]) / (x0 - xk)        f[x, .., x] = f⁽ᵏ⁾(x) / k!
//! ```
//!
//! The quotient loses digits where `x0` and `xk` are near, and has none where they are equal. There the difference is computed as a
//! weighted mean of the k-th derivative (Hermite and Genocchi): with the coefficients `c[p]` of the polynomial that agrees with
//! `f⁽ᵏ⁾` at [`NODES`] points between the smallest and the largest argument, and the complete symmetric polynomials `h[p]` of
//! all arguments, in the coordinate that is -1 at the smallest and 1 at the largest,
//!
//! ```text
//! f[x0, .., xk] = Σ c[p] p! / (p + k)! h[p](y0, .., yk)
//! ```
//!
//! No scale on which `f` varies is known. So both forms are computed, with an estimate of the error of each: that of the quotient by
//! rounding, that of the polynomial by its last coefficients. The smaller one decides, as long as both agree as far as rounding
//! lets them. So a function with a kink between two eigenvalues has the quotient.
//!
//! Arguments are sorted first, so that the quotient is over the largest gap (N. Higham, *Functions of Matrices* (2008), B.16; the
//! tables of eigenvalues are ascending, so their indices are sorted).

use crate::Var;
use crate::dtype::epsilon;
use crate::ops::functions::{concat, constant, iota, select};
use crate::transform::jvp;
use crate::var::users_code;
use tapeloom_ir::{Dtype, Tensor};

/// How many points stand for a derivative between two eigenvalues. An even number: the middle, where a function of symmetric
/// eigenvalues may have a pole, is none of them.
const NODES: usize = 8;

/// A function of one number, for differences.
#[derive(Clone, Copy)]
pub(super) enum Scalar<'a> {
    /// A function of the elements of an array.
    Smooth(&'a dyn Fn(Var) -> Var),
    /// 1 at so many of the lowest eigenvalues, 0 at the others.
    Lowest(usize),
}

impl Scalar<'_> {
    /// `f(w)`, of ascending eigenvalues `[n]`.
    pub(super) fn values(self, w: Var) -> Var {
        match self {
            Scalar::Smooth(f) => users_code(|| f(w)),
            Scalar::Lowest(k) => iota(w.shape(), 0, Dtype::I64).lt(k as i64).convert(w.dtype()),
        }
    }

    /// The table of differences of order `k` at all combinations of eigenvalues: `[n; k + 1]`.
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
                // Within the lowest, and within the others, the function is constant.
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
                // Second derivatives on both sides of a kink say nothing of it: their polynomial is right only if it is within
                // the error of the quotient, of which the differences below have their share.
                let off = (near - quotient).stop_gradient().abs();
                let agree = off.le(rounding / epsilon(w.dtype()).sqrt());
                // Of equal arguments there is no quotient, whatever the polynomial is.
                let is_near = !apart | (all.of_pair(polynomial.error).le(rounding) & agree);
                select(is_near, near, quotient)
            }
        }
    }
}

/// The k-th derivative of a function of elements.
fn derivative<'a>(f: &'a dyn Fn(Var) -> Var, k: usize) -> Box<dyn Fn(Var) -> Var + 'a> {
    (0..k).fold(Box::new(move |x: Var| users_code(|| f(x))), |f, _| {
        Box::new(move |x: Var| jvp(|x: Var| f(x))((x, x.ones_like())).1)
    })
}

/// All combinations of `k + 1` of `n` indices, with repetition, in every order.
struct Combinations {
    n: usize,
    /// i64 `[n; k + 1]` each: the smallest index of a combination, the next one, and so on. Pairs are not sorted, since
    /// everything that is read of them is symmetric: row and column.
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

    /// The elements of a vector at the i-th indices.
    fn of_one(&self, x: Var, i: usize) -> Var {
        match (self.sorted.len(), i) {
            (2, 0) => x.expand_dims(1),
            (2, _) => x,
            _ => x.take(self.sorted[i], 0),
        }
    }

    /// The elements of a table at all indices but the last (`from` 0) or the first (`from` 1).
    fn of_most(&self, table: Var, from: usize) -> Var {
        match self.sorted.len() {
            2 => self.of_one(table, from),
            all => self.read(table, &self.sorted[from..from + all - 1]),
        }
    }

    /// The elements of a matrix at the smallest and the largest index.
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

/// The polynomials that agree with a function at points between each pair of eigenvalues.
struct Polynomial {
    /// Matrices `[n, n]` of the coefficients, by ascending powers.
    coefficients: Vec<Var>,
    /// The largest absolute value of the coefficients, and an estimate of the error: constants.
    size: Var,
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
        // The rows of the matrix sum to 0 but for rounding, all but the first; so one sample is subtracted from all. Of equal eigenvalues
        // nothing is left, and the result is that sample.
        let one = samples.slice_axis(0, NODES / 2..NODES / 2 + 1);
        let rest = (samples - one).reshape([NODES, n * n]);
        let rest = matrix.matmul(rest).reshape([NODES, n, n]);
        let all = concat(&[rest.slice_axis(0, 0..1) + one, rest.slice_axis(0, 1..)], 0);
        let coefficients: Vec<Var> = (0..NODES).map(|p| all.index_axis(0, p)).collect();
        let sizes = all.stop_gradient().abs();
        let size = sizes.max_axis(0);
        let tail = sizes.slice_axis(0, NODES - 2..NODES).max_axis(0);
        // The next coefficients are smaller again: between the last ones and their square over the largest.
        let some = size.gt(0.0);
        let ratio = tail / select(some, size, size.ones_like());
        Polynomial { coefficients, size, error: tail * ratio.sqrt() }
    }

    /// `Σ c[p] p! / (p + k)! h[p](-1, inside.., 1)`
    fn mean(&self, all: &Combinations, k: usize, inside: &[Var]) -> Var {
        // Of the arguments so far: h[p] of one more, `y`, is h[p] + y h'[p - 1], where h' is that of all.
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

/// The zeros of a Chebyshev polynomial: interpolation there is as stable as it can be.
fn nodes() -> [f64; NODES] {
    let step = std::f64::consts::PI / (2 * NODES) as f64;
    std::array::from_fn(|q| -((2 * q + 1) as f64 * step).cos())
}

/// The matrix from values at nodes to coefficients of powers, by rows: its columns are the polynomials of Lagrange.
fn interpolation(nodes: &[f64; NODES]) -> Vec<f64> {
    let mut matrix = vec![0.0; NODES * NODES];
    for (q, own) in nodes.iter().enumerate() {
        let mut powers = vec![0.0; NODES];
        powers[0] = 1.0;
        for other in nodes.iter().enumerate().filter(|(i, _)| *i != q).map(|(_, x)| x) {
            // Times (y - other) / (own - other).
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
