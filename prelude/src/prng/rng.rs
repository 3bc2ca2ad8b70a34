//! `Rng`: a random number generator with state, based on keys.
//!
//! The traced program has no state: a generator is a key that the program replaces, as a [`Ref`](crate::Ref) is an
//! array that the program replaces. A draw splits the key into one for the sample and one for the next draw. Bodies
//! of loops and branches carry the key, so every iteration draws other numbers.
//!
//! The closure of a transform is a function, which may run several times or never, and cannot modify the key
//! outside. So at the first draw inside the closure, the outer generator is split once, and the closure gets its
//! own child generator:
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
//! The numbers that the closure draws depend on the child's key only, so recomputation in the reverse pass gives
//! the same numbers. Under `vmap`, each member uses the child's key folded with its position in the batch. An
//! outlined closure, which is traced once, gets a new child at each call.

use super::{key, no_key, split};
use crate::Var;
use crate::ops::{iota, wrong};
use crate::staging::{Staged, WHILE_LOOP};
use crate::var::{IntoVar, caller, on_behalf};
use std::fmt;
use std::sync::LazyLock;
use tapeloom_ir::trace::{self, Handle, State};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// A random number generator: every draw returns new numbers.
///
/// It is `Copy`: all copies are the same generator. It can be used in loops, branches and the closures of
/// transforms, even if it was made outside them.
///
/// ```
/// use tapeloom::prelude::*;
/// use tapeloom::random::Rng;
/// // A random walk with different steps; below, a batch with different noise for each member.
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
/// The condition of a `while_loop` is a function of the carry and cannot advance a generator: a draw inside the
/// condition is a `state` error. Draw in the body instead, and carry the sample.
///
/// A generator belongs to the trace that made it, like a [`Ref`](crate::Ref). To continue in another call, return a
/// [`key`](Rng::key) and start a generator [from it](Rng::from_key) there.
#[doc(alias = "Generator", alias = "RandomState", alias = "nnx.Rngs")]
#[derive(Clone, Copy)]
pub struct Rng {
    state: State,
}

/// The generator that a closure uses in place of a generator from outside. Under `vmap`, its key becomes one key per
/// batch member.
#[derive(Clone, Copy)]
struct Child {
    /// The generator outside the closure.
    of: Rng,
    /// The number of the closure's frame, the scope in which the trace records the closure's equations.
    frame: u64,
    /// The key from which the child started, drawn from `of` in the outer frame.
    given: Handle,
    rng: Rng,
}

/// The key under which a trace stores its child generators.
static CHILDREN: LazyLock<u64> = LazyLock::new(trace::unique);

impl Rng {
    /// Returns a generator that starts with the [`key`] of a seed.
    ///
    /// Errors: `dtype` if the seed is not an integer, `shape` if it is an array.
    #[track_caller]
    pub fn new(seed: impl IntoVar) -> Rng {
        Rng::from_key(key(seed))
    }

    /// Returns a generator that starts with a key. The key must not be used elsewhere.
    ///
    /// Errors: `dtype` or `shape` if `key` is not a single key.
    #[track_caller]
    pub fn from_key(key: Var) -> Rng {
        let at = caller();
        let first = match no_key("Rng", key, at) {
            None => key,
            Some(problem) => wrong(problem, &[key], ArrayType::new(Dtype::U64, []), at),
        };
        Rng { state: State::of("Rng", first.handle, None, at) }
    }

    /// Draws a key, for any function of [`random`](crate::random).
    ///
    /// Errors of all draws: `escaped` if the closure that made the generator has returned; `state` in the condition
    /// of a `while_loop`.
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

    /// Draws random bits; see [`bits`](super::bits).
    #[track_caller]
    pub fn bits(self, shape: impl Into<Shape>, dtype: Dtype) -> Var {
        super::bits(self.draw(caller()), shape, dtype)
    }

    /// Draws numbers in `[0, 1)`; see [`uniform`](super::uniform).
    #[track_caller]
    pub fn uniform(self, shape: impl Into<Shape>, dtype: Dtype) -> Var {
        super::uniform(self.draw(caller()), shape, dtype)
    }

    /// Draws standard normal numbers; see [`normal`](super::normal).
    #[track_caller]
    pub fn normal(self, shape: impl Into<Shape>, dtype: Dtype) -> Var {
        super::normal(self.draw(caller()), shape, dtype)
    }

    /// Draws truth values that are true with probability `p`; see [`bernoulli`](super::bernoulli).
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
        // If the generator has escaped from its closure, `get` has already reported that, and there is no state to
        // update.
        if self.state.now().is_some() {
            self.state.put(next.handle);
        }
        drawn
    }

    /// Returns the child of this generator for a closure, an argument of `transform`, that is traced in the frame
    /// `frame`. The first call in a closure creates the child.
    fn child(self, frame: u64, transform: &'static str, at: Loc) -> Rng {
        let known = |c: &Child| c.of.state == self.state && c.frame == frame;
        if let Some(child) = trace::recall::<Child>(*CHILDREN, known) {
            return child.rng;
        }
        // The body of a `while_loop` may write state and needs no child. So this closure is the condition, and a child
        // would draw with the same key in every iteration.
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

    /// If a capture of a closure is the key of a child generator, returns the generator outside of the closure to which
    /// the child belongs.
    pub(crate) fn outer_generator(capture: Handle) -> Option<Rng> {
        trace::recall::<Child>(*CHILDREN, |c| c.given.is_same(capture)).map(|c| c.of)
    }
}

/// Replaces every captured key of a child generator by an array of `size` different keys, one for each batch member.
pub(crate) fn key_for_each(staged: &mut Staged, size: usize) {
    let at = staged.at;
    staged.lift_captures(|capture| {
        Rng::outer_generator(capture)?;
        let lanes = || super::threefry2x32(Var::new(capture), iota([size], 0, Dtype::U64));
        Some(on_behalf("vmap", at, lanes).handle)
    });
}

impl fmt::Debug for Rng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.state.ty().is_some() { "Rng" } else { "Rng(escaped)" })
    }
}
