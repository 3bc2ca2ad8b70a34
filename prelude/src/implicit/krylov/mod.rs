//! Linear systems whose matrix is given by its products with vectors.
//!
//! [`cg`], [`gmres`] and [`bicgstab`] begin at 0 and use no preconditioner. [`cg_with`], [`gmres_with`] and
//! [`bicgstab_with`] take a [`Krylov`] with a start, a preconditioner, and the choice whether to differentiate the
//! equation or the iterations.

mod methods;
mod system;

pub(super) use methods::norm;

use crate::Var;
use crate::tree::{Tree, flatten};
use crate::var::caller;
use methods::{BICGSTAB, CG, GMRES};
use system::solved;
use tapeloom_ir::Dtype;

/// The stopping rule of a solver.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Until {
    /// A solver stops when the residual `|A x - b|` is at most this multiple of `|b|`. Values below 8 rounding errors
    /// of the dtype are raised to 8 rounding errors.
    pub relative: f64,
    /// A solver stops after this many products with the matrix. The product for the residual at a start is not counted.
    /// [`gmres`] takes one more product for its last residual, and [`bicgstab`] takes one more if the number is odd.
    pub most: usize,
}

impl Default for Until {
    /// Returns a relative residual of 10⁻¹⁰ and a thousand products.
    fn default() -> Until {
        Until { relative: 1e-10, most: 1000 }
    }
}

impl Until {
    /// Returns the two bounds of the iteration: the larger of the relative residual and 8 rounding errors, and the
    /// number of products as an i64.
    fn bounds(self, rounding: f64) -> (f64, i64) {
        let most = i64::try_from(self.most).unwrap_or(i64::MAX);
        (self.relative.max(8.0 * rounding), most)
    }
}

/// Options of a solver: its start, its preconditioner, its stopping rule, and whether its iterations are
/// differentiated.
///
/// A preconditioner is a linear map near the inverse of `A`, for example a division by the diagonal, or a solve with a
/// part of the matrix. The preconditioner of [`cg_with`] must be symmetric and positive definite. Stopping rules use
/// the residual of `A x = b`, without the preconditioner.
///
/// ```
/// use tapeloom::prelude::*;
/// let solve = |(d, b): (Var, Var)| {
///     // A matrix with a diagonal of widely different sizes and small off-diagonal elements.
///     let a = |x: Var| d * x + 0.1 * x.roll(1, 0) + 0.1 * x.roll(-1, 0);
///     cg_with(a, b, Krylov::new().precondition(|r: Var| r / d).start(b / d))
/// };
/// let (d, b) = ([1.0, 1e3, 1e6, 1e9], [1.0, 1.0, 1.0, 1.0]);
/// let x = run(solve, (d, b))?.to_vec::<f64>()?;
/// let rest: f64 = (0..4).map(|i| (d[i] * x[i] + 0.1 * (x[(i + 1) % 4] + x[(i + 3) % 4]) - 1.0).abs()).sum();
/// assert!(rest < 1e-9);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[must_use = "options do nothing until they are given to a solver"]
pub struct Krylov<'a, B> {
    until: Until,
    start: Option<B>,
    precondition: Option<Box<dyn Fn(B) -> B + 'a>>,
    through_iterations: bool,
}

impl<B> std::fmt::Debug for Krylov<'_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (start, precondition) = (self.start.is_some(), self.precondition.is_some());
        f.debug_struct("Krylov")
            .field("until", &self.until)
            .field("start", &start)
            .field("precondition", &precondition)
            .field("through_iterations", &self.through_iterations)
            .finish()
    }
}

impl<B> Default for Krylov<'_, B> {
    fn default() -> Self {
        Krylov {
            until: Until::default(),
            start: None,
            precondition: None,
            through_iterations: false,
        }
    }
}

impl<'a, B> Krylov<'a, B> {
    /// Returns the default options: the solver begins at 0, uses no preconditioner, stops by [`Until::default`], and is
    /// differentiated through the equation.
    pub fn new() -> Self {
        Krylov::default()
    }

    /// Sets the start of the iteration, a tree of the form of b. The solution does not depend on the start, so the
    /// derivative with respect to `x` is 0. The linear systems of derivatives begin at 0.
    pub fn start(self, x: B) -> Self {
        Krylov { start: Some(x), ..self }
    }

    /// Sets the preconditioner: a linear map near the inverse of `A` that returns the form of b. Reverse mode uses
    /// its transpose.
    #[doc(alias = "preconditioner")]
    pub fn precondition(self, map: impl Fn(B) -> B + 'a) -> Self {
        Krylov { precondition: Some(Box::new(map)), ..self }
    }

    /// Sets the stopping rule.
    pub fn until(self, until: Until) -> Self {
        Krylov { until, ..self }
    }

    /// Differentiates the iterations of the solver instead of the equation that they solve. Reverse mode saves
    /// residuals of every iteration. The derivative of the iterations differs from that of the solution if the solver
    /// ends early, because few directions happen to suffice, or after [`Until::most`] products.
    ///
    /// The map and the preconditioner run inside the loops of the solver, without becoming functions, so they may
    /// write to state.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // The residual after two iterations, as a function of the matrix and the right-hand side.
    /// let off = |(a, b): (Var, Var)| {
    ///     let two = Krylov::new().until(Until { relative: 1e-10, most: 2 });
    ///     let x = cg_with(|x: Var| a.dot(x), b, two.through_iterations());
    ///     (a.dot(x) - b).square().sum()
    /// };
    /// let a = [[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]];
    /// check_grads(off, (a, [1.0, 2.0, 3.0]), 1)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "unroll")]
    pub fn through_iterations(self) -> Self {
        Krylov { through_iterations: true, ..self }
    }
}

/// Returns the machine epsilon of the dtype of a tree's first leaf. For a tree without leaves, returns that of f64.
pub(super) fn epsilon<B: Tree<Var>>(tree: &B) -> f64 {
    let at = caller();
    let (_, leaves) = flatten(tree);
    crate::dtype::epsilon(leaves.first().map_or(Dtype::F64, |v| v.ty(at).dtype))
}

/// Returns `x` with `A x = b` for a symmetric positive definite `A`, by conjugate gradients. `x` and the result of
/// `matvec` have the form, shapes and dtype of `b`.
///
/// Derivatives are those of the solution, not of the iterations, with respect to `b` and to the captures of `matvec`.
/// Each tangent or cotangent is the solution of one more system, by the same method. Reverse mode needs `matvec` to
/// have a transpose; values and forward mode do not. [`Krylov::through_iterations`] differentiates the iterations.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(a, b): (Var, Var)| cg(|x: Var| a.dot(x), b, Until::default()));
/// let x = f.call(([[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0]))?.to_vec::<f64>()?;
/// assert!((x[0] - 1.0 / 11.0).abs() < 1e-12 && (x[1] - 7.0 / 11.0).abs() < 1e-12);
/// // d(sum x)/dA = -u xᵀ, where Aᵀ u = (1, 1). This also holds at the identity, where one iteration finds x.
/// let sum = |a: Var| cg(|x: Var| a.dot(x), constant([1.0, 3.0]), Until::default()).sum();
/// let slope = run(grad(sum), [[1.0, 0.0], [0.0, 1.0]])?;
/// assert_eq!(slope.to_vec::<f64>()?, [-1.0, -3.0, -1.0, -3.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if the leaves of `b` have different dtypes or are not floats; `rule` if `matvec` gives another form
/// or type than `b` has; `not-linear` in reverse mode if `matvec` is not linear; `state` if `matvec` writes to state.
///
/// Source: Hestenes and Stiefel, 1952; for derivatives Griewank and Walther, "Evaluating Derivatives", chapter 15.
#[doc(alias = "conjugate_gradient")]
#[track_caller]
pub fn cg<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, until: Until) -> B {
    solved(&CG, caller(), &matvec, b, Krylov::new().until(until))
}

/// Returns the solution of [`cg`], computed with options: a start, a preconditioner, or derivatives through the
/// iterations.
///
/// Errors: those of [`cg`], of the preconditioner as of `matvec`; `shape` or `dtype` if the start is of another
/// form than `b`.
#[track_caller]
pub fn cg_with<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, how: Krylov<'_, B>) -> B {
    solved(&CG, caller(), &matvec, b, how)
}

/// Returns `x` with `A x = b` for any invertible `A`, by stabilized biconjugate gradients. An iteration takes two
/// products. The memory is a few vectors for any number of iterations, where [`gmres`] stores one vector per iteration.
/// If the method breaks down before the residual is small, `x` is nan. `x` and the result of `matvec` have the form,
/// shapes and dtype of `b`.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(a, b): (Var, Var)| bicgstab(|x: Var| a.dot(x), b, Until::default()));
/// let x = f.call(([[2.0, 1.0], [-1.0, 3.0]], [3.0, 2.0]))?.to_vec::<f64>()?;
/// assert!((x[0] - 1.0).abs() < 1e-12 && (x[1] - 1.0).abs() < 1e-12);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Derivatives are those of [`cg`].
///
/// Errors: those of [`cg`].
///
/// Source: van der Vorst, 1992.
#[track_caller]
pub fn bicgstab<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, until: Until) -> B {
    solved(&BICGSTAB, caller(), &matvec, b, Krylov::new().until(until))
}

/// Returns the solution of [`bicgstab`], computed with options: a start, a preconditioner, or derivatives through the
/// iterations.
///
/// Errors: as [`cg_with`].
#[track_caller]
pub fn bicgstab_with<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, how: Krylov<'_, B>) -> B {
    solved(&BICGSTAB, caller(), &matvec, b, how)
}

/// Returns `x` with `A x = b` for any invertible `A`, by minimal residuals: among all vectors of the Krylov space, the
/// solver chooses the one with the smallest residual. The method restarts every 30 products. With restarts it may not
/// converge if more directions are needed at once (for instance for a permutation of 31 or more elements); then it
/// returns the best `x` so far. A singular system may have a solution in its Krylov space, which is returned. If the
/// Krylov space is exhausted and contains no solution, `x` is nan, as in the other solvers. `x` and the result of
/// `matvec` have the form, shapes and dtype of `b`.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(a, b): (Var, Var)| gmres(|x: Var| a.dot(x), b, Until::default()));
/// let x = f.call(([[0.0, 1.0], [-1.0, 0.0]], [1.0, 2.0]))?.to_vec::<f64>()?;
/// assert!((x[0] + 2.0).abs() < 1e-12 && (x[1] - 1.0).abs() < 1e-12);
/// let none = f.call(([[1.0, 2.0], [2.0, 4.0]], [1.0, 0.0]))?.to_vec::<f64>()?;
/// assert!(none[0].is_nan() && none[1].is_nan());
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Derivatives are those of [`cg`].
///
/// Errors: those of [`cg`].
///
/// Source: Saad and Schultz, 1986.
#[track_caller]
pub fn gmres<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, until: Until) -> B {
    solved(&GMRES, caller(), &matvec, b, Krylov::new().until(until))
}

/// Returns the solution of [`gmres`], computed with options: a start, a preconditioner, or derivatives through the
/// iterations.
///
/// Errors: as [`cg_with`].
#[track_caller]
pub fn gmres_with<B: Tree<Var>>(matvec: impl Fn(B) -> B, b: B, how: Krylov<'_, B>) -> B {
    solved(&GMRES, caller(), &matvec, b, how)
}
