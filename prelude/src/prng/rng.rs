//! A generator: random numbers with state, made of keys.
//!
//! What is traced has no state, and neither has this: a generator is a key that a program replaces, as a
//! [`Ref`](crate::Ref) is an array that it replaces. A draw splits the key in two, one for the sample and
//! one to go on with. Bodies of loops and branches carry it, so every iteration draws other numbers.
//!
//! The closure of a transform is a function, which may run many times or never, and cannot leave
//! anything to those that run after it. So where it first draws, the generator around it is split once,
//! and the closure gets a child of its own:
//!
//! ```text
//! let rng = Rng::new(0);                    k0
//! let a = rng.normal([], F64);              k1, d0 = split k0                a of d0
//! let g = grad(|x: Var| {                   k2, c0 = split k1
//!     x * rng.normal([], F64)               |  c1, d1 = split c0             the sample of d1
//! })(a);
//! let b = rng.normal([], F64);              k3, d2 = split k2                b of d2
//! ```
//!
//! What the closure draws is a function of the child's key: the same where the backward pass computes it
//! again. Under `vmap` every member has the child's key folded with its place in the batch, and an
//! outlined closure, which is traced once, gets another child whenever it is called.

use super::{key, no_key, split};
use crate::Var;
use crate::ops::{iota, wrong};
use crate::staging::{Staged, WHILE_LOOP};
use crate::var::{IntoVar, caller, on_behalf};
use std::fmt;
use std::sync::LazyLock;
use tapeloom_ir::trace::{self, Handle, State};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// A generator of random numbers: every draw gives others.
///
/// It is `Copy`, and so a name: all copies are the same generator. It may be used in loops, branches and
/// the closures of transforms, also where it was made outside of them.
///
/// ```
/// use tapeloom::prelude::*;
/// use tapeloom::random::Rng;
/// // A walk, whose steps differ, and the mean of a sum over lanes, whose noise differs.
/// let walk = jit(|seed: Var| {
///     let rng = Rng::new(seed);
///     fori_loop(10, |(_, x): (Var, Var)| x + rng.normal([], Dtype::F64), zeros([], Dtype::F64))
/// });
/// assert_eq!(walk.call(3i64)?, walk.call(3i64)?);
/// assert_ne!(walk.call(3i64)?, walk.call(4i64)?);
///
/// let noisy = jit(|x: Var| {
///     let rng = Rng::new(0);
///     vmap(|x: Var| x + rng.uniform([], Dtype::F64))(x)
/// });
/// let y = noisy.call([0.0, 0.0])?.to_vec::<f64>()?;
/// assert_ne!(y[0], y[1]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// The condition of a `while_loop` is a function of the carry and has no generator to go on with: a draw there is a
/// `state` error. Draw in the body, and carry.
///
/// A generator belongs to the trace that made it, as a [`Ref`](crate::Ref) does. To go on in another
/// call, return a [`key`](Rng::key) and begin there [from it](Rng::from_key).
#[doc(alias = "Generator", alias = "RandomState", alias = "nnx.Rngs")]
#[derive(Clone, Copy)]
pub struct Rng {
    state: State,
}

/// A closure's own generator.
#[derive(Clone, Copy)]
struct Child {
    /// The one around it.
    of: Rng,
    /// The frame of the closure.
    frame: u64,
    /// The key that it got, in the frame around.
    given: Handle,
    rng: Rng,
}

/// Under this number traces remember children.
static CHILDREN: LazyLock<u64> = LazyLock::new(trace::unique);

impl Rng {
    /// A generator that begins with the [`key`] of a seed.
    ///
    /// Errors: `dtype` if the seed is no integer, `shape` if it is an array of them.
    #[track_caller]
    pub fn new(seed: impl IntoVar) -> Rng {
        Rng::from_key(key(seed))
    }

    /// A generator that begins with a key, which is used up.
    ///
    /// Errors: `dtype` or `shape` if the key is none.
    #[track_caller]
    pub fn from_key(key: Var) -> Rng {
        let at = caller();
        let first = match no_key("Rng", key, at) {
            None => key,
            Some(problem) => wrong(problem, &[key], ArrayType::new(Dtype::U64, []), at),
        };
        Rng { state: State::of("Rng", first.handle, None, at) }
    }

    /// A key that nothing else uses, for any function of [`random`](crate::random).
    ///
    /// Errors, as of all draws: `escaped` when the closure that made the generator has returned, `state` in the
    /// condition of a `while_loop` that stands in that closure.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let order = run(|seed: Var| random::permutation(random::Rng::new(seed).key(), 5), 1i64)?;
    /// assert_eq!(order.shape(), [5]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn key(self) -> Var {
        self.draw(caller())
    }

    /// Random bits; see [`bits`](super::bits).
    #[track_caller]
    pub fn bits(self, shape: impl Into<Shape>, dtype: Dtype) -> Var {
        super::bits(self.draw(caller()), shape, dtype)
    }

    /// Numbers in `[0, 1)`; see [`uniform`](super::uniform).
    #[track_caller]
    pub fn uniform(self, shape: impl Into<Shape>, dtype: Dtype) -> Var {
        super::uniform(self.draw(caller()), shape, dtype)
    }

    /// Standard normal numbers; see [`normal`](super::normal).
    #[track_caller]
    pub fn normal(self, shape: impl Into<Shape>, dtype: Dtype) -> Var {
        super::normal(self.draw(caller()), shape, dtype)
    }

    /// Truth values that are true with probability `p`; see [`bernoulli`](super::bernoulli).
    #[track_caller]
    pub fn bernoulli(self, p: impl IntoVar, shape: impl Into<Shape>) -> Var {
        super::bernoulli(self.draw(caller()), p, shape)
    }

    pub(crate) fn draw(self, at: Loc) -> Var {
        if let Some((frame, closure)) = self.state.barred() {
            return self.child(frame, closure.transform, at).draw(at);
        }
        let now = Var::new(self.state.get("key", at));
        let [next, drawn] = on_behalf("Rng::key", at, || split(now));
        // An escaped one was told when it was read.
        if self.state.now().is_some() {
            self.state.put(next.handle);
        }
        drawn
    }

    /// The generator of the closure of that frame, which was given to that transform.
    fn child(self, frame: u64, transform: &'static str, at: Loc) -> Rng {
        let known = |c: &Child| c.of.state == self.state && c.frame == frame;
        if let Some(child) = trace::recall::<Child>(*CHILDREN, known) {
            return child.rng;
        }
        // The body of a loop is no function, so this is the condition, which runs with one key in every iteration.
        if transform == WHILE_LOOP {
            let message = "a draw from an `Rng` in the condition of `while_loop`, which would give the same numbers \
                           in every iteration";
            let problem =
                Problem::new(Kind::State, message, "draw in the body, and carry the sample");
            self.state.refuse(problem, at);
        }
        let given = trace::around(frame, || self.draw(at)).handle;
        let rng = Rng { state: State::of("Rng", given, Some(frame), at) };
        trace::remember(*CHILDREN, Child { of: self, frame, given, rng });
        rng
    }

    /// The generator around a closure, if this capture of the closure is the key that its child got.
    pub(crate) fn behind(capture: Handle) -> Option<Rng> {
        trace::recall::<Child>(*CHILDREN, |c| c.given.is_same(capture)).map(|c| c.of)
    }
}

/// Keys for the members of a batch, for every capture that is the key of a closure's generator.
pub(crate) fn key_for_each(staged: &mut Staged, size: usize) {
    let at = staged.at;
    staged.lift_captures(|capture| {
        Rng::behind(capture)?;
        let lanes = || super::threefry2x32(Var::new(capture), iota([size], 0, Dtype::U64));
        Some(on_behalf("vmap", at, lanes).handle)
    });
}

impl fmt::Debug for Rng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.state.ty().is_some() { "Rng" } else { "Rng(escaped)" })
    }
}
