//! Numerical checks of derivatives: [`check_grads`] and [`check_rule`].
//!
//! Both compare derivatives along a few fixed pseudo-random directions. Along a random direction, a wrong
//! derivative differs from the right one with probability one.

use crate::jit::{Jit, boundary};
use crate::ops::constant;
use crate::staging::{Side, float_types, rebuild};
use crate::transform::{jvp, vjp};
use crate::tree::{Args, Form, TensorRefs, Tree, flatten};
use crate::var::{caller, on_behalf};
use crate::{Error, Var};
use tapeloom_ir::trace::Context;
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Tensor};

/// Checks forward and reverse derivatives of `f` at `args`. Forward mode is compared with central differences, and
/// reverse mode with forward mode (⟨ct, J dx⟩ = ⟨Jᵀ ct, dx⟩). Then the derivative of `f` along a direction, which is a
/// function of `args`, is checked in the same way, up to derivatives of order `order`.
///
/// # Errors
/// `rule`, with both numbers, if they disagree; all errors of tracing `f` and its derivatives.
///
/// ```
/// use tapeloom::prelude::*;
/// check_grads(|x: Var| x.sin() * x.exp(), [0.5, -1.0], 3)?;
///
/// let wrong = custom_jvp(|x: Var| x.sin(), |x: Var, dx: Var| (x.sin(), dx * x));
/// let error = check_grads(wrong, 1.0, 1).unwrap_err();
/// assert!(error.to_string().contains("forward mode gives"));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn check_grads<A: Tree<Var>, B: Tree<Var>>(
    f: impl Fn(A) -> B,
    args: impl Args<A>,
    order: usize,
) -> Result<(), Error> {
    check_grads_at(&f, &args, order, caller())
}

fn check_grads_at<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    args: &dyn Args<A>,
    order: usize,
    at: Loc,
) -> Result<(), Error> {
    let (structure, x) = leaves(args);
    let context = Context { transform: "check_grads", at };
    float_types(context, Side::Argument, &Form::of::<A>(&structure), &types(&x))?;
    // Check only results that are floats. Other results have no derivative.
    let flat = |x: Vec<Var>| floats(flatten(&f(rebuild(&structure, x, at))).1, at);
    check(&flat, &x, order, 1, at)
}

/// Checks that `ruled`, a function with its own derivative rules, has the same values and the same forward and
/// reverse derivatives as `f` at `args`.
///
/// # Errors
/// `rule`, with both numbers, if they disagree; all errors of tracing.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| x.powi(2);
/// let ruled = custom_jvp(f, |x: Var, dx: Var| (x * x, 2.0 * x * dx));
/// check_rule(f, ruled, [1.0, 2.0])?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn check_rule<A: Tree<Var>, B: Tree<Var>>(
    f: impl Fn(A) -> B,
    ruled: impl Fn(A) -> B,
    args: impl Args<A>,
) -> Result<(), Error> {
    check_rule_at(&f, &ruled, &args, caller())
}

fn check_rule_at<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    ruled: &dyn Fn(A) -> B,
    args: &dyn Args<A>,
    at: Loc,
) -> Result<(), Error> {
    let (structure, x) = leaves(args);
    let context = Context { transform: "check_rule", at };
    float_types(context, Side::Argument, &Form::of::<A>(&structure), &types(&x))?;
    let f = |x: Vec<Var>| flatten(&f(rebuild(&structure, x, at))).1;
    let g = |x: Vec<Var>| flatten(&ruled(rebuild(&structure, x, at))).1;
    same_derivatives(&f, &g, &x, at)
}

/// Checks that two functions have the same values and derivatives.
fn same_derivatives(f: Flat<'_>, g: Flat<'_>, x: &[Tensor], at: Loc) -> Result<(), Error> {
    let value = |h: Flat<'_>| boundary("check_rule", h, at).call(x);
    let mut y = value(f)?;
    compare("value", &y, &value(g)?, &y, at)?;
    y.retain(|t| t.dtype().is_float());
    let (dx, ct) = (directions(x, 1), directions(&y, 2));
    let (f, g) = (|x| floats(f(x), at), |x| floats(g(x), at));
    let forward = |h: Flat<'_>| along("check_rule", h, &dx, at).call(x);
    compare("forward derivative", &forward(&f)?, &forward(&g)?, &y, at)?;
    let reverse = |h: Flat<'_>| pulled("check_rule", h, &ct, at).call(x);
    compare("reverse derivative", &reverse(&f)?, &reverse(&g)?, x, at)
}

/// Returns the types of tensors.
fn types(x: &[Tensor]) -> Vec<ArrayType> {
    x.iter().map(|x| x.ty().clone()).collect()
}

/// Returns the leaves that have a float dtype, in order.
fn floats(leaves: Vec<Var>, at: Loc) -> Vec<Var> {
    leaves.into_iter().filter(|v| v.ty(at).dtype.is_float()).collect()
}

/// A function from leaves to leaves.
type Flat<'f> = &'f dyn Fn(Vec<Var>) -> Vec<Var>;

fn leaves<A: Tree<Var>>(args: &dyn Args<A>) -> (A::Structure, Vec<Tensor>) {
    let mut refs = TensorRefs::new();
    args.tensors(&mut refs);
    (args.structure(), refs.into_iter().map(|t| t.into_owned()).collect())
}

fn check(f: Flat<'_>, x: &[Tensor], order: usize, level: u64, at: Loc) -> Result<(), Error> {
    if order == 0 {
        return Ok(());
    }
    let dx = directions(x, level);
    let run = boundary("check_grads", f, at);
    let y = run.call(x)?;
    let forward = along("check_grads", f, &dx, at).call(x)?;
    let (h, tolerance) = step(x);
    let (above, below) = (run.call(shift(x, &dx, h))?, run.call(shift(x, &dx, -h))?);
    for (i, dy) in forward.iter().enumerate() {
        let scale = 1.0 + largest(&y[i]) + largest(dy);
        if !dy.dtype().is_float() {
            continue;
        }
        let differences = above[i].numbers().zip(below[i].numbers());
        for (k, ((above, below), symbolic)) in differences.zip(dy.numbers()).enumerate() {
            let numeric = (above - below) / (2.0 * h);
            if !near(numeric, symbolic, tolerance * scale) {
                return Err(disagree(
                    format!(
                        "derivative of order {level}, result {i}, element {k}: forward mode gives \
                         {symbolic}, central differences give {numeric}"
                    ),
                    at,
                ));
            }
        }
    }
    let ct = directions(&y, level + 100);
    let back = pulled("check_grads", f, &ct, at).call(x)?;
    let (left, right) = (inner(&ct, &forward), inner(&back, &dx));
    if !near(left, right, tolerance * (1.0 + left.abs() + right.abs())) {
        return Err(disagree(
            format!(
                "derivative of order {level}: forward mode gives <ct, J dx> = {left}, reverse mode \
                 gives <ct J, dx> = {right}"
            ),
            at,
        ));
    }
    let next = |x: Vec<Var>| directional(f, x, &dx, at);
    check(&next, x, order - 1, level + 1, at)
}

/// Returns the derivative of `f` at `x` along the tangents `dx`, which are constants.
fn directional(f: Flat<'_>, x: Vec<Var>, dx: &[Tensor], at: Loc) -> Vec<Var> {
    // Call `jvp` on behalf of the user's call, so that its errors have the line of that call. `f` runs later, so its
    // errors have their own lines.
    let (derivative, dx) =
        on_behalf("check_grads", at, || (jvp(f), dx.iter().map(constant).collect()));
    derivative((x, dx)).1
}

fn along(
    name: &'static str,
    f: Flat<'_>,
    dx: &[Tensor],
    at: Loc,
) -> Jit<Vec<Var>, Vec<Var>, impl Fn(Vec<Var>) -> Vec<Var>> {
    boundary(name, move |x| directional(f, x, dx, at), at)
}

fn pulled(
    name: &'static str,
    f: Flat<'_>,
    ct: &[Tensor],
    at: Loc,
) -> Jit<Vec<Var>, Vec<Var>, impl Fn(Vec<Var>) -> Vec<Var>> {
    let pull = move |x| {
        let reverse = on_behalf("check_grads", at, || vjp(f));
        let (_, pull) = reverse(x);
        pull(on_behalf("check_grads", at, || ct.iter().map(constant).collect()))
    };
    boundary(name, pull, at)
}

/// Returns pseudo-random numbers between -1 and 1 in the shapes of the given tensors (splitmix64).
fn directions(like: &[Tensor], seed: u64) -> Vec<Tensor> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as f64 / u64::MAX as f64 * 2.0 - 1.0
    };
    let one = |t: &Tensor| match t.dtype().is_float() {
        true => t.map_numbers(|_| next()),
        false => t.zeros_like(),
    };
    like.iter().map(one).collect()
}

/// Returns the step of the central differences, and the relative tolerance of the comparison.
fn step(x: &[Tensor]) -> (f64, f64) {
    let single = x.iter().any(|t| t.dtype() == Dtype::F32);
    if single { (1e-2, 3e-2) } else { (1e-5, 1e-6) }
}

fn shift(x: &[Tensor], dx: &[Tensor], h: f64) -> Vec<Tensor> {
    let one = |(x, dx): (&Tensor, &Tensor)| {
        let mut dx = dx.numbers();
        match x.dtype().is_float() {
            true => x.map_numbers(|x| x + h * dx.next().unwrap_or(0.0)),
            false => x.clone(),
        }
    };
    x.iter().zip(dx).map(one).collect()
}

/// Returns whether two numbers differ by at most `tolerance`. If one of them is nan, returns false.
fn near(x: f64, y: f64, tolerance: f64) -> bool {
    (x - y).abs() <= tolerance
}

fn largest(t: &Tensor) -> f64 {
    t.numbers().map(f64::abs).fold(0.0, f64::max)
}

fn inner(x: &[Tensor], y: &[Tensor]) -> f64 {
    let one = |(x, y): (&Tensor, &Tensor)| {
        let products = x.numbers().zip(y.numbers()).map(|(x, y)| x * y);
        if x.dtype().is_float() { products.sum() } else { 0.0 }
    };
    x.iter().zip(y).map(one).sum()
}

fn compare(
    what: &str,
    want: &[Tensor],
    got: &[Tensor],
    scale: &[Tensor],
    at: Loc,
) -> Result<(), Error> {
    for (i, ((want, got), scale)) in want.iter().zip(got).zip(scale).enumerate() {
        let single = want.dtype() == Dtype::F32;
        let tolerance = if single { 1e-4 } else { 1e-8 } * (1.0 + largest(scale) + largest(want));
        for (k, (x, y)) in want.numbers().zip(got.numbers()).enumerate() {
            if x.to_bits() != y.to_bits() && !near(x, y, tolerance) {
                return Err(disagree(
                    format!("{what} {i}, element {k}: the function gives {x}, its rule gives {y}"),
                    at,
                ));
            }
        }
    }
    Ok(())
}

fn disagree(message: String, at: Loc) -> Error {
    let help = "check the rule's formula, or the point: derivatives must exist there";
    Error::at(Problem::new(Kind::Rule, message, help), at)
}
