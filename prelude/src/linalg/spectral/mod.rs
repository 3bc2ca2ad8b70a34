//! Functions of matrices that do not depend on the choice of eigenvectors or singular vectors.
//!
//! Eigenvectors of equal eigenvalues are any basis of their space. So a program that computes `V f(w) Vᵀ` from
//! [`eigh`](super::eigh) has no derivative at equal eigenvalues, though the function has one. Where eigenvalues
//! differ by rounding only, the derivative of the program would be noise. The functions of this module have
//! derivative rules (Daletskii and Krein):
//!
//! ```text
//! D f(A)[H]     = V (f[w i, w j] ∘ Ĥ) Vᵀ                                     Ĥ = Vᵀ H V
//! D² f(A)[H, K] = V (Σ f[w i, w k, w j] (Ĥ i k K̂ k j + K̂ i k Ĥ k j)) Vᵀ
//! ```
//!
//! with divided differences of `f` ([`differences`]), for three orders. `w` and `V` are constants. Each derivative
//! is linear in each direction and has a rule for the next one ([`chain`](super::chain)), so no program with
//! eigenvectors is differentiated.
//!
//! Sources: Ju. Daletskii and S. Krein (1965); N. Higham, *Functions of Matrices* (2008), chapter 3; L. Noferini,
//! *A formula for the Fréchet derivative of a generalized matrix function* (2017).

mod differences;
mod polar;

pub(super) use polar::nuclear_norm;
pub use polar::polar;

use super::chain::Point;
use super::{eigh, square, symmetric, transposed};
use crate::Var;
use crate::dtype::epsilon;
use crate::ops::functions::{constant, eye, select};
use crate::ops::wrong;
use crate::transform::{jvp, vmap};
use crate::var::{caller, on_behalf, users_code};
use differences::Scalar;
use tapeloom_ir::{ArrayType, Kind, Loc, Problem};

/// The highest order of derivatives that functions of matrices have.
const ORDERS: usize = 3;

/// Eigenvalues or singular values count as equal if they differ by at most this many rounding errors of the largest
/// one.
const CLOSED: f64 = 64.0;

/// Returns `f(A) = V f(w) Vᵀ` for symmetric matrices `a` `[.., n, n]`, floats, and an elementwise function `f`.
///
/// `A` is the symmetric part of `a`, as in [`eigh`](super::eigh). Derivatives of up to three orders are right for
/// all eigenvalues, including equal ones and those that differ by rounding only. `f` is applied to arrays of
/// several shapes, so each of its captures has one element; derivatives with respect to captures exist. If `f`
/// combines elements, as in `x / x.sum()`, the result is nan or an error. `f` may have a kink between eigenvalues.
///
/// A first derivative is as accurate as that of `f`, up to a few rounding errors. Second and third derivatives lose
/// two or three more digits if eigenvalues are close to one another. A value costs `eigh` and a matrix product, and
/// a first derivative two more products. A second derivative needs `n³` elements of memory, a third one `n⁴`.
///
/// ```
/// use tapeloom::prelude::*;
/// let exp = |a: Var| linalg::matrix_function(a, |x: Var| x.exp());
/// // Both eigenvalues are 1: the derivative of the sum is that of exp for each element.
/// let slope = run(grad(|a: Var| exp(a).sum()), [[1.0, 0.0], [0.0, 1.0]])?;
/// assert!(slope.to_vec::<f64>()?.iter().all(|x| (x - 1f64.exp()).abs() < 1e-14));
/// check_grads(exp, [[2.0, 0.5], [0.5, 1.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats; `rule` if `f` changes the type
/// of its argument; `not-differentiable` if a derivative of fourth order is needed.
#[track_caller]
pub fn matrix_function(a: Var, f: impl Fn(Var) -> Var) -> Var {
    of_elements("matrix_function", a, &f, &|w| w, caller())
}

/// Returns the sums `[..]` of `f(w)` over the eigenvalues `w` of symmetric matrices `a` `[.., n, n]`, floats: the
/// traces of [`matrix_function`].
///
/// The gradient is `f'(A)`, without divisions by differences of eigenvalues. Derivatives of up to three orders are
/// right also where eigenvalues are equal.
///
/// ```
/// use tapeloom::prelude::*;
/// let entropy = |a: Var| linalg::spectral_sum(a, |x: Var| -x * x.ln());
/// let a = [[0.5, 0.0], [0.0, 0.5]];
/// assert!((run(entropy, a)?.item::<f64>()? - 2f64.ln()).abs() < 1e-15);
/// check_grads(entropy, a, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`matrix_function`].
#[track_caller]
pub fn spectral_sum(a: Var, f: impl Fn(Var) -> Var) -> Var {
    let (name, at) = ("spectral_sum", caller());
    let of_one = |a: Var| {
        let a = symmetric(a);
        let (w, v) = eigh(a.stop_gradient());
        let (f, w) = match Elements::of(name, &f, w, at) {
            Ok(both) => both,
            Err(poison) => return poison.sum_axis(-1),
        };
        let f = |x: Var| f.at(x);
        let slope = |x: Var| jvp(|x: Var| f(x))((x, x.ones_like())).1;
        let value = |c: &[Var], _: &[Var]| match c {
            [w, ..] => f(*w).sum(),
            [] => constant(0.0),
        };
        let rule = |c: &[Var], a: Var, _: &[Var], da: Var| {
            let point = Point { name, at, constants: c, a };
            (family(Scalar::Smooth(&slope), point, &[], ORDERS - 1) * da).sum()
        };
        Point { name, at, constants: &[w, v], a }.link(&[], &value, Some(&rule))
    };
    match square(name, a, at) {
        Ok(0) => on_behalf(name, at, || a.sum_axis([-2, -1])),
        Ok(_) => on_behalf(name, at, || each_matrix(a, &of_one)),
        Err(problem) => {
            let shape = a.ty(at).shape;
            let ty = ArrayType::new(a.ty(at).dtype, &shape[..shape.len().saturating_sub(2)]);
            wrong(problem, &[a], ty, at)
        }
    }
}

/// Returns the symmetric square roots of symmetric matrices `a` `[.., n, n]`, floats, without negative eigenvalues.
///
/// This is [`matrix_function`] with `f = √`, for the symmetric part of `a`. At singular matrices the root exists, and
/// its derivative is not finite. [`sqrtm`](super::sqrtm), which is for general matrices, gives nan there. Negative
/// eigenvalues within rounding errors of the largest one count as 0; other negative eigenvalues give nan.
///
/// ```
/// use tapeloom::prelude::*;
/// let root = run(linalg::sqrtm_psd, [[5.0, 4.0], [4.0, 5.0]])?.to_vec::<f64>()?;
/// assert!(root.iter().zip([2.0, 1.0, 1.0, 2.0]).all(|(x, want)| (x - want).abs() < 1e-14));
/// check_grads(linalg::sqrtm_psd, [[4.0, 0.0], [0.0, 4.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`matrix_function`].
#[track_caller]
pub fn sqrtm_psd(a: Var) -> Var {
    let no_rounding = |w: Var| {
        let largest = w.abs().max() * (w.len() as f64 * epsilon(w.dtype()));
        select(w.lt(0.0) & w.ge(-largest), w.zeros_like(), w)
    };
    of_elements("sqrtm_psd", a, &|x: Var| x.sqrt(), &no_rounding, caller())
}

/// Returns the inverse square roots `A^(-1/2)` of symmetric positive definite matrices `a` `[.., n, n]`, floats. They
/// whiten vectors of covariance `A`. Computed by [`matrix_function`]. Other powers are
/// `matrix_function(a, |x| x.pow(p))`.
///
/// ```
/// use tapeloom::prelude::*;
/// let white = run(linalg::inv_sqrtm_psd, [[0.25, 0.0], [0.0, 4.0]])?.to_vec::<f64>()?;
/// assert!(white.iter().zip([2.0, 0.0, 0.0, 0.5]).all(|(x, want)| (x - want).abs() < 1e-15));
/// check_grads(linalg::inv_sqrtm_psd, [[4.0, 0.0], [0.0, 4.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`matrix_function`]. A matrix that is not positive definite gives inf or nan.
#[track_caller]
pub fn inv_sqrtm_psd(a: Var) -> Var {
    of_elements("inv_sqrtm_psd", a, &|x: Var| 1.0 / x.sqrt(), &|w| w, caller())
}

/// Returns the symmetric logarithms of symmetric positive definite matrices `a` `[.., n, n]`, floats: the inverse of
/// [`expm`](super::expm) for those matrices. Computed by [`matrix_function`], for the symmetric part of `a`.
///
/// ```
/// use tapeloom::prelude::*;
/// let log = run(|a: Var| linalg::logm_psd(linalg::expm(a)), [[1.0, 0.5], [0.5, 1.0]])?.to_vec::<f64>()?;
/// assert!(log.iter().zip([1.0, 0.5, 0.5, 1.0]).all(|(x, want)| (x - want).abs() < 1e-14));
/// check_grads(linalg::logm_psd, [[4.0, 0.0], [0.0, 4.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`matrix_function`]. A matrix that is not positive definite gives inf or nan.
#[doc(alias = "logm")]
#[track_caller]
pub fn logm_psd(a: Var) -> Var {
    of_elements("logm_psd", a, &|x: Var| x.ln(), &|w| w, caller())
}

/// Returns the orthogonal projectors `[.., n, n]` onto the eigenvectors of the `k` lowest eigenvalues of symmetric
/// matrices `a` `[.., n, n]`, floats.
///
/// The projector depends on the space of these eigenvectors only. So it has derivatives of three orders, even if some
/// of the `k` lowest eigenvalues are equal, or some of the higher ones. If the k-th eigenvalue and the next one are
/// equal or differ by rounding only, the space is not determined, and the projector is nan. The projector onto the
/// highest `k` is `spectral_projector(-a, k)`.
///
/// ```
/// use tapeloom::prelude::*;
/// let lowest = |a: Var| linalg::spectral_projector(a, 2);
/// let a = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]];
/// assert_eq!(run(lowest, a)?.to_vec::<f64>()?, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
/// check_grads(lowest, a, 2)?;
/// assert!(run(|a: Var| linalg::spectral_projector(a, 1), a)?.to_vec::<f64>()?[0].is_nan());
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square or have fewer than `k` rows, `dtype` if they are not of floats;
/// `not-differentiable` if a derivative of fourth order is needed.
#[track_caller]
pub fn spectral_projector(a: Var, k: usize) -> Var {
    let (name, at) = ("spectral_projector", caller());
    let n = match square(name, a, at) {
        Ok(n) if k <= n => n,
        Ok(n) => {
            let message = format!("`{name}` onto {k} eigenvectors of {}, which have {n}", a.ty(at));
            let problem = Problem::new(Kind::Shape, message, "ask for at most that number");
            return wrong(problem, &[a], a.ty(at), at);
        }
        Err(problem) => return wrong(problem, &[a], a.ty(at), at),
    };
    let of_one = |a: Var| {
        if k == 0 {
            return a.zeros_like();
        }
        if k == n {
            return eye(n, a.dtype());
        }
        let a = symmetric(a);
        let (w, v) = eigh(a.stop_gradient());
        let gap = w.index_axis(0, k) - w.index_axis(0, k - 1);
        let open = gap.gt(w.abs().max() * (CLOSED * epsilon(w.dtype())));
        let v = select(open, v, f64::NAN);
        family(Scalar::Lowest(k), Point { name, at, constants: &[w, v], a }, &[], ORDERS)
    };
    on_behalf(name, at, || each_matrix(a, &of_one))
}

/// Returns `V f(w) Vᵀ` for the elementwise function `f`. `seen` maps the computed eigenvalues to the values `w` that
/// replace them, for example to clamp negative ones.
fn of_elements(
    name: &'static str,
    a: Var,
    f: &dyn Fn(Var) -> Var,
    seen: &dyn Fn(Var) -> Var,
    at: Loc,
) -> Var {
    let of_one = |a: Var| {
        let a = symmetric(a);
        let (w, v) = eigh(a.stop_gradient());
        let w = seen(w);
        match Elements::of(name, f, w, at) {
            Ok((f, w)) => {
                let (f, point) = (|x: Var| f.at(x), Point { name, at, constants: &[w, v], a });
                family(Scalar::Smooth(&f), point, &[], ORDERS)
            }
            Err(poison) => poison.expand_dims(-1) * poison,
        }
    };
    match square(name, a, at) {
        Ok(0) => a,
        Ok(_) => on_behalf(name, at, || each_matrix(a, &of_one)),
        Err(problem) => wrong(problem, &[a], a.ty(at), at),
    }
}

/// The user's function, which is applied by `vmap` to each element of an array, so that it cannot combine elements.
/// This matters because derivatives at equal eigenvalues are computed from samples between eigenvalues: at these arrays
/// a function that combines elements would have other values.
struct Elements<'a> {
    f: &'a dyn Fn(Var) -> Var,
}

impl<'a> Elements<'a> {
    /// Checks that the function returns the type of its argument, for the vector `w` of eigenvalues and for one
    /// eigenvalue. If the type changes, reports that and returns a placeholder of the type of `w`. Otherwise returns
    /// the function and the eigenvalues `w`, or nan instead of `w` if the function combines elements.
    fn of(
        name: &str,
        f: &'a dyn Fn(Var) -> Var,
        w: Var,
        at: Loc,
    ) -> Result<(Elements<'a>, Var), Var> {
        let mut all = w;
        for x in [w.index_axis(0, 0), w] {
            let (want, y) = (x.ty(at), users_code(|| f(x)));
            let got = y.ty(at);
            if got != want {
                let message = format!("the function of `{name}` gives {got} for {want}");
                let help = "it is a function of each element, of any shape, in one dtype";
                return Err(wrong(Problem::new(Kind::Rule, message, help), &[y], w.ty(at), at));
            }
            all = y;
        }
        let elements = Elements { f };
        let (all, each) = (all.stop_gradient(), elements.at(w).stop_gradient());
        // The two results may differ by rounding although the function is elementwise: inside the function, a sum for
        // each element may be computed in another order.
        let within = (all.abs() + each.abs()) * epsilon(w.dtype()).sqrt();
        let same = all.eq(each) | (all - each).abs().le(within) | (all.is_nan() & each.is_nan());
        Ok((elements, select(same.all(), w, f64::NAN)))
    }

    /// Returns the array of `f` of each element of `x`.
    fn at(&self, x: Var) -> Var {
        let one = |x: Var| users_code(|| (self.f)(x));
        vmap(one)(x.reshape([x.size()])).reshape(x.shape())
    }
}

/// Applies `of_one`, a function of one matrix, to each matrix of `a` by `vmap`.
fn each_matrix(a: Var, of_one: &dyn Fn(Var) -> Var) -> Var {
    let shape = a.shape();
    let (lead, own) = shape.split_at(shape.len() - 2);
    if lead.is_empty() {
        return of_one(a);
    }
    let members = lead.iter().product::<usize>();
    let y = vmap(of_one)(a.reshape([&[members], own].concat()));
    y.reshape([lead, &y.shape()[1..]].concat())
}

/// Returns `f(A)`, or, if there are `directions`, its derivative along them; up to order `orders` the result has a
/// derivative rule. The constants of `point` are the eigenvalues and eigenvectors of `A`.
fn family(f: Scalar<'_>, point: Point<'_>, directions: &[Var], orders: usize) -> Var {
    let value = |c: &[Var], x: &[Var]| along(f, c, x);
    let rule = |c: &[Var], a: Var, x: &[Var], da: Var| {
        family(f, Point { constants: c, a, ..point }, &[x, &[da]].concat(), orders)
    };
    let more = directions.len() < orders;
    point.link(directions, &value, if more { Some(&rule) } else { None })
}

/// Returns the k-th derivative of `f(A)` along k directions, computed from the eigenvalues and eigenvectors of `A`,
/// which are `constants`.
fn along(f: Scalar<'_>, constants: &[Var], directions: &[Var]) -> Var {
    let &[w, v] = constants else { return constant(f64::NAN) };
    let vt = transposed(v);
    let differences = f.differences(w, directions.len());
    let x: Vec<Var> = directions.iter().map(|x| vt.matmul(x.matmul(v))).collect();
    let inside = match x[..] {
        [] => return (v * differences).matmul(vt),
        [x] => differences * x,
        [x, y] => {
            let product = |x: Var, y: Var| x.expand_dims(2) * y;
            (differences * (product(x, y) + product(y, x))).sum_axis(1)
        }
        [x, y, z] => {
            let product =
                |[x, y, z]: [Var; 3]| x.expand_dims(2).expand_dims(3) * y.expand_dims(2) * z;
            let orders = [[x, y, z], [x, z, y], [y, x, z], [y, z, x], [z, x, y], [z, y, x]];
            let all = orders.map(product).into_iter().reduce(|sum, term| sum + term);
            all.map_or(w, |all| (differences * all).sum_axis([1, 2]))
        }
        _ => return constant(f64::NAN),
    };
    v.matmul(inside).matmul(vt)
}
