//! `Var`: a traced array.
//!
//! A `Var` stands for a value of the program under construction. It has a shape and a dtype, but no numbers. It is
//! `Copy`, so formulas read as in mathematics. It belongs to one trace on one thread:
//!
//! ```compile_fail
//! use tapeloom::prelude::*;
//! let f = jit(|x: Var| {
//!     std::thread::spawn(move || x.sin()); // `*const ()` cannot be sent between threads safely
//!     x
//! });
//! ```
//!
//! A condition on data cannot be a Rust `if`, because there is no data at tracing. So this does not compile:
//!
//! ```compile_fail
//! use tapeloom::prelude::*;
//! let f = jit(|x: Var| if x > 0.0 { x } else { -x }); // binary operation `>` cannot be applied
//! ```
//!
//! Write it as an array operation: `select(x.gt(0.0), x, -x)`. Or run the closure by [`record`](crate::record()),
//! where a `Var` has a [value](Var::item).

use crate::dtype::describe;
use std::cell::Cell;
use std::fmt;
use std::thread::LocalKey;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::trace::{self, Handle};
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem, Shape, Tensor, Type};

/// A traced array. See the [module](crate::var) documentation.
///
/// Its arithmetic is that of Rust's operators: `+ - * / %`, `& | ^ ! << >>`. Its methods are grouped by topic: the
/// type; shapes and parts; functions of each element and comparisons; reductions, cumulative sums, sorting and search;
/// products; activations and losses; special functions; selections whose number of results depends on data.
#[doc(
    alias = "Array",
    alias = "Tracer",
    alias = "add",
    alias = "subtract",
    alias = "multiply",
    alias = "divide",
    alias = "true_divide",
    alias = "negative"
)]
#[doc(
    alias = "bitwise_and",
    alias = "bitwise_or",
    alias = "bitwise_xor",
    alias = "bitwise_not",
    alias = "invert",
    alias = "logical_and",
    alias = "logical_or",
    alias = "logical_xor",
    alias = "logical_not",
    alias = "left_shift",
    alias = "right_shift"
)]
#[derive(Clone, Copy)]
pub struct Var {
    pub(crate) handle: Handle,
}

/// Methods that return the type of the array: its shape and dtype.
impl Var {
    /// Returns the extents, outermost first; they are known at tracing.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let mean = jit(|x: Var| x.sum() / x.shape()[0] as f64);
    /// assert_eq!(mean.call([1.0, 2.0, 6.0])?.item::<f64>()?, 3.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn shape(self) -> Shape {
        self.ty(caller()).shape
    }

    /// Returns the element type.
    #[track_caller]
    pub fn dtype(self) -> Dtype {
        self.ty(caller()).dtype
    }

    /// Returns the shape and the element type.
    #[track_caller]
    pub fn array_type(self) -> ArrayType {
        self.ty(caller())
    }

    /// Returns the number of axes. For a scalar it is 0.
    #[track_caller]
    pub fn rank(self) -> usize {
        self.ty(caller()).shape.len()
    }

    /// Returns the number of elements.
    #[doc(alias = "numel")]
    #[track_caller]
    pub fn size(self) -> usize {
        self.ty(caller()).shape.elements()
    }

    /// Returns the extent of axis 0. For a scalar it is 0.
    #[track_caller]
    #[allow(
        clippy::len_without_is_empty,
        reason = "`is_empty` would read as a question about data"
    )]
    pub fn len(self) -> usize {
        self.ty(caller()).shape.first().copied().unwrap_or(0)
    }

    pub(crate) fn new(handle: Handle) -> Var {
        Var { handle }
    }

    pub(crate) fn ty(self, at: Loc) -> ArrayType {
        match trace::type_of(self.handle, at) {
            Type::Array(a) => a,
            Type::Tape(_) => ArrayType::new(Dtype::F64, Shape::scalar()),
        }
    }

    /// Returns a constant. Constants belong to no trace and can be made anywhere.
    pub(crate) fn literal(literal: Literal, at: Loc) -> Var {
        Var::new(Handle::literal(literal, at))
    }

    /// Returns the value if the `Var` is a literal, whose value is known during tracing; otherwise returns `None`.
    pub(crate) fn known(self) -> Option<f64> {
        self.handle.as_literal().map(|l| l.to_f64())
    }

    /// Returns the placeholder for the result of an invalid operation.
    pub(crate) fn poison(ty: ArrayType, at: Loc) -> Var {
        Var::new(trace::poison1(ty.into(), at))
    }
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.handle.as_literal() {
            Some(l) => write!(f, "Var({l})"),
            None if trace::is_live(self.handle) => {
                write!(f, "Var({})", trace::type_of(self.handle, None))
            }
            None if trace::is_nowhere(self.handle) => write!(f, "Var(made outside any trace)"),
            None => write!(f, "Var(escaped)"),
        }
    }
}

/// A type that can be the other operand of an operation on a [`Var`]: another `Var`, a Rust number, or data.
///
/// A number takes the dtype of the `Var`, and must be representable in it: `0.5` is not an i64. A [`Tensor`] is
/// captured: it becomes a hidden argument of the program, never a constant in it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the other operand of a `Var`",
    label = "no `Var`, number or tensor",
    note = "convert an array or a vector of numbers by `constant([1.0, 2.0])`, or pass a `Tensor`"
)]
pub trait IntoVar {
    /// Converts to a `Var`; a number gets the dtype `dtype`.
    #[doc(hidden)]
    fn into_var(self, dtype: Dtype, at: Loc) -> Var;

    /// Converts a value to the second operand of an operation on `x`. A number gets the dtype of `x`. If `x` is a
    /// placeholder after an error, its dtype is a guess. Then a number gets its default dtype, so that it causes no
    /// further errors.
    #[doc(hidden)]
    fn beside(self, x: Var, at: Loc) -> Var
    where
        Self: Sized,
    {
        let dtype = x.firm_dtype(at).unwrap_or(self.default_dtype());
        self.into_var(dtype, at)
    }

    /// Returns the dtype of a `Var` or of a tensor. Returns `None` for a number, and for a `Var` that is a placeholder
    /// after an error.
    #[doc(hidden)]
    fn firm_dtype(&self, at: Loc) -> Option<Dtype>;

    /// Returns the dtype of a number if nothing else determines it.
    #[doc(hidden)]
    fn default_dtype(&self) -> Dtype;
}

/// Converts two operands to `Var`s. A number gets the dtype of the other operand.
pub(crate) fn pair(x: impl IntoVar, y: impl IntoVar, at: Loc) -> (Var, Var) {
    let dtype = x.firm_dtype(at).or(y.firm_dtype(at)).unwrap_or(x.default_dtype());
    (x.into_var(dtype, at), y.into_var(dtype, at))
}

impl IntoVar for Var {
    fn into_var(self, _: Dtype, _: Loc) -> Var {
        self
    }
    fn firm_dtype(&self, at: Loc) -> Option<Dtype> {
        (!trace::is_poison(self.handle, at)).then(|| self.ty(at).dtype)
    }
    fn default_dtype(&self) -> Dtype {
        Dtype::F64
    }
}

impl IntoVar for &Var {
    fn into_var(self, _: Dtype, _: Loc) -> Var {
        *self
    }
    fn firm_dtype(&self, at: Loc) -> Option<Dtype> {
        (!trace::is_poison(self.handle, at)).then(|| self.ty(at).dtype)
    }
    fn default_dtype(&self) -> Dtype {
        Dtype::F64
    }
}

impl IntoVar for &Tensor {
    fn into_var(self, _: Dtype, at: Loc) -> Var {
        Var::new(trace::capture(self, at))
    }
    fn firm_dtype(&self, _: Loc) -> Option<Dtype> {
        Some(self.dtype())
    }
    fn default_dtype(&self) -> Dtype {
        Dtype::F64
    }
}

impl IntoVar for Tensor {
    fn into_var(self, dtype: Dtype, at: Loc) -> Var {
        (&self).into_var(dtype, at)
    }
    fn firm_dtype(&self, _: Loc) -> Option<Dtype> {
        Some(self.dtype())
    }
    fn default_dtype(&self) -> Dtype {
        Dtype::F64
    }
}

impl IntoVar for bool {
    fn into_var(self, _: Dtype, at: Loc) -> Var {
        Var::literal(Literal::bool(self), at)
    }
    fn firm_dtype(&self, _: Loc) -> Option<Dtype> {
        Some(Dtype::Bool)
    }
    fn default_dtype(&self) -> Dtype {
        Dtype::Bool
    }
}

macro_rules! number {
    ($($t:ty, $default:expr, $exact:expr;)*) => {$(
        impl IntoVar for $t {
            fn into_var(self, dtype: Dtype, at: Loc) -> Var {
                let exact: fn($t, Dtype) -> Option<Literal> = $exact;
                let literal = exact(self, dtype).filter(|_| dtype != Dtype::Bool);
                literal.map_or_else(|| misfit(&self.to_string(), dtype, at), |l| Var::literal(l, at))
            }
            fn firm_dtype(&self, _: Loc) -> Option<Dtype> {
                None
            }
            fn default_dtype(&self) -> Dtype {
                $default
            }
        }
    )*};
}
number! {
    f64, Dtype::F64, |x, dtype| {
        let l = Literal::of(dtype, x);
        // A number may be rounded to the float dtype, but a finite number must not become infinite.
        let rounded = dtype.is_float() && l.to_f64().is_infinite() == x.is_infinite();
        (rounded || l.to_f64() == x).then_some(l)
    };
    f32, Dtype::F32, |x, dtype| {
        let l = Literal::of(dtype, f64::from(x));
        (dtype.is_float() || l.to_f64() == f64::from(x)).then_some(l)
    };
    i32, Dtype::I64, |x, dtype| Literal::exact_integer(dtype, x.into());
    i64, Dtype::I64, |x, dtype| Literal::exact_integer(dtype, x.into());
    u32, Dtype::U32, |x, dtype| Literal::exact_integer(dtype, x.into());
    u64, Dtype::U64, |x, dtype| Literal::exact_integer(dtype, x.into());
    usize, Dtype::I64, |x, dtype| Literal::exact_integer(dtype, x as i128);
}

/// Reports that `number` is not representable in `dtype`, and returns a placeholder.
fn misfit(number: &str, dtype: Dtype, at: Loc) -> Var {
    // The dtype that the message suggests. If number and array are of the same kind (integers or floats), a wider dtype
    // of this kind suffices.
    let (wider, or) = match number.parse::<i128>() {
        Ok(n) if dtype.is_integer() && n > i64::MAX.into() => (Dtype::U64, String::new()),
        Ok(_) if dtype.is_integer() => (Dtype::I64, String::new()),
        Err(_) if dtype.is_float() => (Dtype::F64, String::new()),
        _ => (Dtype::F64, format!(", or write a number of {}", describe(dtype))),
    };
    let problem = Problem::new(
        Kind::Dtype,
        format!("the number {number} meets an array of {dtype}, which cannot hold it"),
        format!("convert the array first, as in `x.convert(Dtype::{wider:?})`{or}"),
    );
    trace::record(problem, &[], at);
    Var::poison(ArrayType::new(dtype, Shape::scalar()), at)
}

thread_local! {
    /// While a composite operation runs, the user's line that called it.
    static LINE: Cell<Loc> = const { Cell::new(None) };
    /// While code runs that may belong to the library or to the user, the user's line that called it.
    static OUTER: Cell<Loc> = const { Cell::new(None) };
}

/// Returns the user's line, for messages. If a composite operation is running, this is the line of its call. Otherwise
/// it is the line that called the `#[track_caller]` function from which `caller` is called.
#[track_caller]
pub(crate) fn caller() -> Loc {
    let here = std::panic::Location::caller();
    LINE.get().or_else(|| OUTER.get().filter(|_| is_own(here))).or(Some(here))
}

/// Returns whether a line belongs to the source of this library.
fn is_own(at: &std::panic::Location<'_>) -> bool {
    let folder = file!().strip_suffix("var.rs").unwrap_or(file!());
    at.file().starts_with(folder)
}

/// Runs `body`, a composite operation that is written with `Var`'s public methods. Errors inside are reported at the
/// user's line `at`, as errors of the operation `name`. `body` must call the user's code through [`users_code`] only.
pub(crate) fn on_behalf<T>(name: &'static str, at: Loc, body: impl FnOnce() -> T) -> T {
    let at = if planted(Fault::LibraryPlace) { None } else { at };
    restored(&LINE, at, || trace::within(name, body))
}

/// Runs code that may belong to the library or to the user, such as a method of a trait that both implement. Errors at
/// lines of the library are reported at `at`, and errors at lines of the user at these lines.
pub(crate) fn for_either<T>(at: Loc, body: impl FnOnce() -> T) -> T {
    restored(&OUTER, at, body)
}

/// Runs a closure of the user inside a composite operation. Errors in the closure are reported at the closure's own
/// lines.
pub(crate) fn users_code<T>(body: impl FnOnce() -> T) -> T {
    restored(&LINE, None, || trace::outside(body))
}

/// Stores `line` in `place` while `body` runs, and restores the previous line afterwards.
fn restored<T>(place: &'static LocalKey<Cell<Loc>>, line: Loc, body: impl FnOnce() -> T) -> T {
    /// Restores the line even if the body panics.
    struct Restore(&'static LocalKey<Cell<Loc>>, Loc);
    impl Drop for Restore {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _restore = Restore(place, place.replace(line));
    body()
}
