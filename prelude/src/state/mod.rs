//! Mutable state: [`Ref`], an array that a closure can modify while it is traced.
//!
//! ```
//! use tapeloom::prelude::*;
//! // The running maximum of a sequence, and the number of times that it increased.
//! let f = jit(|x: Var| {
//!     let (most, rises) = (Ref::new(f64::NEG_INFINITY), Ref::new(0));
//!     map(
//!         |x: Var| {
//!             rises.add(x.gt(most.get()).convert(Dtype::I64));
//!             most.max(x);
//!         },
//!         x,
//!     );
//!     (most.get(), rises.get())
//! });
//! let (most, rises) = f.call([2.0, 1.0, 3.0])?;
//! assert_eq!((most.item::<f64>()?, rises.item::<i64>()?), (3.0, 2));
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! The traced program has no state: a read returns the current value, and a write gives a new value to the name. If
//! the body of a loop or a branch writes to a `Ref` from outside, the `Ref` becomes a carry, or an argument and a
//! result. So derivatives and batches of programs with state are those of their pure forms, and updates happen in
//! place under the same conditions as in pure programs.
//!
//! Model: JAX's `Ref`s, and the views of numpy.

mod view;

use crate::Var;
use crate::ops::{Axis, Index, Indices, Ranges, broadcast_shapes, materialize, wrong};
use crate::var::{IntoVar, caller};
use std::fmt;
use std::ops::RangeBounds;
use std::rc::Rc;
use tapeloom_ir::prim::Combine;
use tapeloom_ir::trace::{self, State};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};
use view::View;

/// A mutable array inside a traced program, or a view of a part of one.
///
/// A `Ref` is `Copy`: all copies refer to the same array. Its type never changes. [`Ref::at`], [`Ref::slice_axis`]
/// and the other indexing methods return views, which are `Ref`s, too: a write through a view is visible in the
/// whole array and in every other view, and vice versa.
///
/// Bodies of loops and branches may read and write a `Ref` made outside them. The closures of transforms (`grad`,
/// `vmap`, ..) and of calls (`outline`, [`Jit::apply`](crate::Jit::apply)) may only read it.
///
/// A `Ref` is not a tree: it cannot be an argument or a result of a closure.
///
/// ```compile_fail
/// use tapeloom::prelude::*;
/// let f = jit(|x: Var| Ref::new(x)); // `Ref` is no tree of arrays
/// ```
#[doc(alias = "MutableArray", alias = "variable", alias = "state", alias = "new_ref")]
#[derive(Clone, Copy)]
pub struct Ref {
    state: State,
    /// The number under which the trace stores the view; 0 for the whole array.
    view: u64,
}

impl Ref {
    /// Returns new state with the initial value `value`. A Rust number becomes an `f64` or an `i64`, according to
    /// its literal.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| {
    ///     let r = Ref::new(x);
    ///     fori_loop(3, |(i, ()): (Var, ())| r.mul(i.convert(Dtype::F64) + 1.0), ());
    ///     r.get()
    /// });
    /// assert_eq!(f.call(2.0)?.item::<f64>()?, 12.0);
    /// assert_eq!(jit(grad(|x| f.apply(x))).call(2.0)?.item::<f64>()?, 6.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn new(value: impl IntoVar) -> Ref {
        let at = caller();
        let dtype = value.firm_dtype(at).unwrap_or(value.default_dtype());
        Ref { state: State::new(value.into_var(dtype, at).handle, at), view: 0 }
    }

    /// Returns the current value.
    ///
    /// Errors of all methods: `escaped` if the closure that made the `Ref` has returned, `state` if the `Ref` was
    /// frozen.
    #[track_caller]
    pub fn get(self) -> Var {
        self.read("get", caller())
    }

    /// Replaces the value. The new value is broadcast to the shape of the `Ref`.
    ///
    /// Errors of all methods that write: `state` in the closure of a transform or a call, if the `Ref` was made
    /// outside it; `shape` or `dtype` if the value has another type.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| {
    ///     let r = Ref::new(x);
    ///     r.at(0).set(0.0);
    ///     r.slice_axis(0, 2..).set(arange(2, Dtype::F64));
    ///     r.get()
    /// });
    /// assert_eq!(f.call([1.0, 2.0, 3.0, 4.0])?, Tensor::from([0.0, 2.0, 0.0, 1.0]));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn set(self, value: impl IntoVar) {
        self.combine(Combine::Set, "set", value, caller());
    }

    /// Replaces the value of the `Ref` and returns the previous value.
    #[track_caller]
    pub fn swap(self, value: impl IntoVar) -> Var {
        let at = caller();
        let before = self.read("swap", at);
        self.combine(Combine::Set, "swap", value, at);
        before
    }

    /// Adds `value` to the value of the `Ref`. In a loop this happens in place, and reverse mode saves no residuals for
    /// the addition.
    #[doc(alias = "addupdate", alias = "accumulate")]
    #[track_caller]
    #[allow(
        clippy::should_implement_trait,
        reason = "the name of `x.at(i).add(v)`; it changes the `Ref`"
    )]
    pub fn add(self, value: impl IntoVar) {
        self.combine(Combine::Add, "add", value, caller());
    }

    /// Multiplies the value of the `Ref` by `value`.
    #[track_caller]
    #[allow(
        clippy::should_implement_trait,
        reason = "the name of `x.at(i).mul(v)`; it changes the `Ref`"
    )]
    pub fn mul(self, value: impl IntoVar) {
        self.combine(Combine::Mul, "mul", value, caller());
    }

    /// Replaces each element by the larger one of itself and the element of `value`.
    #[track_caller]
    pub fn max(self, value: impl IntoVar) {
        self.combine(Combine::Max, "max", value, caller());
    }

    /// Replaces each element by the smaller one of itself and the element of `value`.
    #[track_caller]
    pub fn min(self, value: impl IntoVar) {
        self.combine(Combine::Min, "min", value, caller());
    }

    /// Replaces the value of the `Ref` by the result of a function of this value.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| {
    ///     let r = Ref::new(x);
    ///     r.at(1).update(|row| row.cumsum(0));
    ///     r.get()
    /// });
    /// assert_eq!(f.call([[1.0, 1.0], [1.0, 1.0]])?, Tensor::from([[1.0, 1.0], [1.0, 2.0]]));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn update(self, f: impl FnOnce(Var) -> Var) {
        let at = caller();
        let value = f(self.read("update", at));
        self.combine(Combine::Set, "update", value, at);
    }

    /// Returns the last value, and ends the use of the `Ref`. Any later use of it, or of a view of it, is an error
    /// whose message contains both lines.
    ///
    /// Errors: `state` if the `Ref` was made outside the current closure.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let late = run(|x: Var| {
    ///     let r = Ref::new(x);
    ///     let y = r.freeze();
    ///     r.add(1.0);
    ///     y
    /// }, 2.0);
    /// assert!(late.unwrap_err().to_string().contains("which `freeze` ended at"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "into_inner", alias = "take")]
    #[track_caller]
    pub fn freeze(self) -> Var {
        let at = caller();
        self.part(Var::new(self.state.end("freeze", at)), at)
    }

    /// Returns the shape of the value.
    #[track_caller]
    pub fn shape(self) -> Shape {
        self.ty().shape
    }

    /// Returns the dtype of the value.
    #[track_caller]
    pub fn dtype(self) -> Dtype {
        self.ty().dtype
    }
}

/// Views.
impl Ref {
    /// Returns a view at indices of the leading axes. Reads and writes follow [`Var::at`]: if a run-time index is
    /// out of range, a read returns the nearest element, and a write is dropped.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|(x, i): (Var, Var)| {
    ///     let r = Ref::new(x);
    ///     let row = r.at(i);
    ///     r.add(1.0);
    ///     row.at(0).mul(10.0);
    ///     (row.get(), r.get())
    /// });
    /// let (row, all) = f.call(([[1.0, 2.0], [3.0, 4.0]], 1i64))?;
    /// assert_eq!(row, Tensor::from([40.0, 5.0]));
    /// assert_eq!(all, Tensor::from([[2.0, 3.0], [40.0, 5.0]]));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors of all views: `shape` if an index is out of range or the axis does not exist, `dtype` if an index is
    /// not an integer. A view by index arrays has no views of its own.
    #[doc(alias = "index", alias = "row")]
    #[track_caller]
    pub fn at(self, indices: impl Indices) -> Ref {
        let at = caller();
        self.narrowed(at, |view| view.at(&indices.positions(), at))
    }

    /// Returns a view at an index of one axis.
    #[track_caller]
    pub fn at_axis(self, axis: impl Axis, index: impl Index) -> Ref {
        let at = caller();
        self.narrowed(at, |view| view.at_axis(axis, index.position(), at))
    }

    /// Returns a view of a range, known at tracing, of one axis.
    #[track_caller]
    pub fn slice_axis(self, axis: impl Axis, range: impl RangeBounds<usize>) -> Ref {
        let at = caller();
        self.narrowed(at, |view| view.slice("slice_axis", axis, &range, at))
    }

    /// Returns a view of a range, known at tracing, of each leading axis: an array of ranges, or a tuple of ranges of
    /// several types.
    #[track_caller]
    pub fn slice(self, ranges: impl Ranges) -> Ref {
        let at = caller();
        let mut axes = 0..;
        ranges.bounds().iter().fold(self, |r, range| {
            let axis: i32 = axes.next().unwrap_or(i32::MAX);
            r.narrowed(at, |view| view.slice("slice", axis, range, at))
        })
    }

    /// Returns a view of the box with extents `sizes` that begins at `starts` (one integer scalar per axis;
    /// negative ones count from the end). If the box does not fit at that position, it is moved until it fits.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|(x, i): (Var, Var)| {
    ///     let r = Ref::new(x);
    ///     r.dynamic_slice(&[i], [2]).add(10.0);
    ///     r.get()
    /// });
    /// assert_eq!(f.call(([1.0, 2.0, 3.0], 1i64))?, Tensor::from([1.0, 12.0, 13.0]));
    /// assert_eq!(f.call(([1.0, 2.0, 3.0], 7i64))?, Tensor::from([1.0, 12.0, 13.0]));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn dynamic_slice<I: Index>(self, starts: &[I], sizes: impl Into<Shape>) -> Ref {
        let at = caller();
        let starts: Vec<_> = starts.iter().map(|i| i.position()).collect();
        self.narrowed(at, |view| view.dynamic_slice(&starts, &sizes.into(), at))
    }

    /// Returns a `Ref` for the part of this view that `narrow` selects. If `narrow` fails, reports the error.
    fn narrowed(self, at: Loc, narrow: impl FnOnce(&View) -> Result<View, Problem>) -> Ref {
        let base = self.base_type();
        let whole = || Rc::new(View::whole(&base, at));
        let view = self.seen().unwrap_or_else(whole);
        match narrow(&view) {
            Ok(mut view) => {
                let number = trace::unique();
                view.born = at;
                trace::remember(number, Rc::new(view));
                Ref { state: self.state, view: number }
            }
            Err(problem) => {
                let value = self.state.now().map(|_| self.read("view", at).handle);
                trace::record(problem, value.as_slice(), at);
                Ref { state: State::new(Var::poison(view.ty(&base), at).handle, at), view: 0 }
            }
        }
    }

    fn base_type(self) -> ArrayType {
        let known = self.state.ty().and_then(|ty| ty.as_array().cloned());
        known.unwrap_or(ArrayType::new(Dtype::F64, Shape::scalar()))
    }

    fn ty(self) -> ArrayType {
        let base = self.base_type();
        self.seen().map_or(base.clone(), |view| view.ty(&base))
    }

    /// Returns the view of this `Ref`, or `None` if it refers to the whole array.
    fn seen(self) -> Option<Rc<View>> {
        match self.view {
            0 => None,
            number => trace::recall::<Rc<View>>(number, |_| true),
        }
    }

    fn read(self, what: &'static str, at: Loc) -> Var {
        self.part(Var::new(self.state.get(what, at)), at)
    }

    /// Returns the part of `whole`, the value of the state, to which this `Ref` refers.
    fn part(self, whole: Var, at: Loc) -> Var {
        let Some(view) = self.seen() else { return whole };
        match view.scope_error() {
            None => view.read(whole, at),
            Some(problem) => wrong(problem, &[], view.ty(&self.base_type()), at),
        }
    }

    fn combine(self, combine: Combine, what: &'static str, value: impl IntoVar, at: Loc) {
        let whole = Var::new(self.state.get(what, at));
        let ty = self.ty();
        let value = value.beside(whole, at);
        let given = value.ty(at);
        let fits = broadcast_shapes(&given.shape, &ty.shape).as_ref() == Some(&ty.shape);
        let view = self.seen();
        let stale = view.as_ref().and_then(|view| view.scope_error());
        let problem = stale.or_else(|| {
            (!fits || given.dtype != ty.dtype).then(|| {
                Problem::new(
                    if fits { Kind::Dtype } else { Kind::Shape },
                    format!("`{what}` writes {given} to a `Ref` of {ty}"),
                    "a `Ref` has one type: convert or reshape the value, or begin with another type",
                )
            })
        });
        if let Some(problem) = problem {
            trace::record(problem, &[whole.handle, value.handle], at);
            return self.state.spoil(at);
        }
        let value = materialize(value, &ty.shape, at);
        let whole = match view {
            Some(view) => view.write(whole, combine, value, at),
            None => view::combined(combine, whole, value, at),
        };
        self.state.set(whole.handle, what, at);
    }
}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state.ty() {
            Some(_) => write!(f, "Ref({})", self.ty()),
            None => write!(f, "Ref(escaped)"),
        }
    }
}
