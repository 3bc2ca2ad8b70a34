//! Primitives: the operations of equations, with all their rules.
//!
//! **One primitive, one place.** A scalar function is a row of the table of functions in [`scalar`]. Every other
//! primitive is one file with a struct (its attributes) and one `impl` of its rules. There are two kinds. An *array
//! primitive* has one array as output and no region: it implements [`ArrayPrimitive`], which requires one type, one
//! tensor and one tangent, and nothing about regions. One that only moves elements implements [`Movement`], which
//! requires even less. A *region primitive* runs other functions and implements every method of [`Primitive`]. No trait
//! has default methods, so a forgotten rule does not compile.
//!
//! The `primitives!` list below defines the closed enum [`Op`]. Adding a primitive takes one file (or row) and one line
//! in the list; the printer, parser, verifier, interpreter, both AD modes, batching, code generation, the e-graph, the
//! generated book page and the tests over all primitives follow.
//!
//! Passes never name a primitive: they use [`Op`], which is a [`Primitive`] whatever its kind; special
//! properties of a few primitives are in `facet`. Model: ripgrep's flags, and the rule clusters of JAX's `lax`
//! brought into one place.

#[macro_use]
mod syntax;

pub(crate) mod array;
pub(crate) mod control;
pub(crate) mod fourier;
pub(crate) mod linalg;
pub(crate) mod memory;

mod code;
pub mod elementwise;
mod facet;
mod implicit;
mod rules;
pub mod scalar;

pub use array::argreduce::{ArgReduce, Extremum};
pub use array::argsort::ArgSort;
pub use array::broadcast::Broadcast;
pub use array::concatenate::Concatenate;
pub use array::cumulate::{Cumulate, Cumulation};
pub use array::diagonal::Diagonal;
pub use array::dot::Dot;
pub use array::dropped::Dropped;
pub use array::dynamic_slice::DynamicSlice;
pub use array::dynamic_update_slice::DynamicUpdateSlice;
pub use array::gather::Gather;
pub use array::iota::Iota;
pub use array::pad::Pad;
pub use array::permute::Permute;
pub use array::polyphase::WindowSums;
pub use array::recurrence::Recurrence;
pub use array::reduce::{Reduce, Reducer};
pub use array::reshape::Reshape;
pub use array::rev::Rev;
pub use array::scatter::{Combine, Scatter};
pub use array::slice::Slice;
pub use array::stop_gradient::StopGradient;
pub use array::window::{Move, Window};
pub use code::{
    Code, CodeRow, Continuity, Domain, Fold, Formula, Library, LibraryFn, Neutral, OperandDtypes,
    Parameter, ResultDtype, StableHlo, Words, power, threefry2x32,
};
pub use control::call::Call;
pub use control::callback::Callback;
pub use control::cond::{Cond, run_if};
pub use control::custom::CustomCall;
pub use control::linear_call::LinearCall;
pub use control::loops::{
    Binding, CheckpointPlan, Chunks, Direction, Loop, LoopSpec, OutputSource, Replay, SlotSize,
    TripCount, bodies_of_dynamic_loops, may_not_end, waits_for_members,
};
pub use control::multilinear::MultilinearCall;
pub use fourier::fft::Fft;
pub use fourier::irfft::Irfft;
pub use fourier::rfft::Rfft;
pub use implicit::{LinearSolve, Root};
pub use linalg::cholesky::Cholesky;
pub use linalg::decomposition::{Decomposed, Decomposition, Tangents};
pub use linalg::eig::Eig;
pub use linalg::eigh::Eigh;
pub use linalg::lu::Lu;
pub use linalg::qr::Qr;
pub use linalg::routine_call::RoutineCall;
pub use linalg::schur::Schur;
pub use linalg::svd::Svd;
pub use linalg::triangular_solve::TriangularSolve;
pub use linalg::tridiagonal_solve::TridiagonalSolve;
pub use memory::barrier::{Barrier, apart_from};
pub use memory::mark::{KeyUse, Mark};
pub use memory::packing::Packing;
pub use memory::sharded::Sharded;
pub use rules::array_primitive::{ArrayPrimitive, Tangent};
pub use rules::attr::{Attr, Attributes};
pub use rules::doc::{Doc, Family};
pub use rules::expr::Expr;
pub use rules::filled_view::{Filled, FilledView};
pub use rules::index_map::Bounds;
pub use rules::lowering::{AxisMap, Lowering, Piece, Step};
pub use rules::reads::{Ranges, Reads};
pub use rules::region::{Region, RegionList, Role};
pub use rules::region_helpers::{batch_as_requested, instantiate};
pub use rules::rewrite::{Definition, Equality, Exactness, Rewrite, Site, SiteOperand, Term, When};
pub use rules::sign::{Given, Sign, SignOf};
pub use rules::slice_access::{SliceAccess, Start, Within, Write};
pub use rules::slice_helpers::{
    component, first_axis_to, linear, put_box, reshaped, sum, take_box,
};
pub use rules::split_linear::as_linear;
pub use rules::view::{Movement, View};
pub use rules::{
    Accumulator, Arg, Batched, Cotangents, Dual, Effects, Linearity, Operand, Prune, Regions,
    RuleCx, Sample, Types,
};
pub use scalar::Scalar;
pub use scalar::bessel::{Bessel, BesselKind};
pub use scalar::betainc::Betainc;
pub use scalar::bitcast::Bitcast;
pub use scalar::convert::Convert;
pub use scalar::expn::Expn;
pub use scalar::gammainc::Gammainc;
pub use scalar::half_pow::{HalfPow, constant_power};
pub use scalar::integer_pow::IntegerPow;
pub use scalar::polygamma::Polygamma;
pub use scalar::scaled_bessel::{ScaledBessel, ScaledBesselKind};
pub use scalar::scaled_erf::{ScaledErf, ScaledErfKind};
pub use scalar::spence::Spence;
pub use scalar::zeta::Zeta;
pub use syntax::{Notation, Written};
pub use tapeloom_routines::{QrBasis, SvdVectors};

use crate::fault::{Fault, planted};
use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::value::Value;
use crate::tensor::Tensor;

/// The rules of a primitive. Primitives with regions implement this trait directly; for others
/// [`ArrayPrimitive`] is shorter. The value of the implementing type holds the attributes.
pub trait Primitive: Notation {
    /// Returns the primitive's entries on the generated page of primitives: one, or one per row of a table.
    fn docs() -> Vec<Doc>
    where
        Self: Sized;

    /// Returns the number of the primitive's outputs.
    fn outputs(&self, module: &Module) -> usize;

    /// Returns the types of the outputs for these operands, or the error in the operands.
    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem>;

    /// Evaluates the primitive: returns outputs for concrete operands. Literal operands of elementwise
    /// primitives are passed as scalars.
    fn run(&self, module: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem>;

    /// Forward mode: emits the outputs and their tangents. `dx[i]` is `None` if operand i does not depend on the
    /// variables of differentiation. A `None` tangent of an output means the same.
    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem>;

    /// Emits the outputs and their tangents like `jvp`, but every emitted equation is either independent of `dx` or
    /// linear in it. So the program can be split in two: region primitives linearize their bodies.
    fn linearize(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem>;

    /// Returns whether the equation is a linear map of the operands marked [`Linearity::Linear`] together (at
    /// least one is), for fixed other operands.
    fn is_linear(&self, module: &Module, operands: &[Linearity]) -> bool;

    /// Reverse mode: adds to `into` the cotangents of the operands that are [`Arg::Linear`], given the
    /// cotangents of the outputs (`None` is zero). Called only if `is_linear` holds.
    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<(), Problem>;

    /// vmap: emits the primitive over a batch of `size`. Batched operands (at least one) have the batch on axis 0. The
    /// outputs that are marked batched must have the batch on axis 0, too.
    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem>;

    /// Returns the functions that the equation refers to, each with its role (called, branch, loop
    /// body, derivative rule).
    fn regions(&self) -> RegionList;

    /// Returns the same primitive with other functions: `functions[i]` replaces the i-th of
    /// `regions()`.
    fn with_regions(&self, functions: &[FuncId]) -> Op;

    /// Returns the smaller equation that remains if only the outputs marked in `used` are read.
    fn prune(
        &self,
        regions: &mut dyn Regions,
        module: &mut Module,
        used: &[bool],
    ) -> Result<Prune, Problem>;

    /// Lowers the primitive to the target-neutral instruction that backends implement.
    fn lower(&self, module: &Module, operands: &[Operand<'_>]) -> Lowering;

    /// Returns the class of effects, which decides whether an equation may be dropped, moved or merged.
    fn effects(&self, module: &Module) -> Effects;

    /// Returns the primitive's rewrite rules for the e-graph and the peephole pass.
    fn rewrites() -> Vec<Rewrite>
    where
        Self: Sized;

    /// Returns sample operands, typical and edge cases, on which the tests over all primitives run.
    fn samples(module: &mut Module) -> Vec<Sample>
    where
        Self: Sized;
}

/// Defines [`Op`] from the list of primitives.
macro_rules! primitives {
    (
        arrays: $($array:ident),*; views: $($view:ident),*; decompositions: $($several:ident),*;
        regions: $($region:ident),*;
    ) => {
        $(const _: fn() -> Vec<Sample> = <$array as ArrayPrimitive>::samples;)*
        $(impl From<$view> for Op {
            fn from(p: $view) -> Op { Op::$view(Filled(p)) }
        })*
        $(impl From<$several> for Op {
            fn from(p: $several) -> Op { Op::$several(Decomposed(p)) }
        })*
        primitives! {
            $($array $array,)* $($view Filled<$view>,)* $($several Decomposed<$several>,)*
            $($region $region,)*
        }
    };
    ($($name:ident $prim:ty,)*) => {
        /// A primitive with its attributes. Its methods are those of [`Primitive`].
        #[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum Op {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($prim),)*
        }

        $(impl From<$prim> for Op {
            fn from(p: $prim) -> Op { Op::$name(p) }
        })*

        impl std::ops::Deref for Op {
            type Target = dyn Primitive;
            fn deref(&self) -> &Self::Target {
                match self { $(Op::$name(p) => p),* }
            }
        }

        /// The table of the static functions (catalogue, parser, rewrites, samples) of all primitives.
        const ALL: &[Entry] = &[$(Entry::of::<$prim>()),*];
    };
}

primitives! {
    arrays:
        Scalar, IntegerPow, HalfPow, Polygamma, Bessel, Expn, Spence, ScaledBessel, ScaledErf, Zeta, Gammainc, Betainc, Convert, Bitcast,
        Broadcast, Reshape, Permute, Slice, DynamicSlice, DynamicUpdateSlice, Concatenate, Rev, Diagonal, Iota,
        Reduce, ArgReduce, Dot,
        Cumulate, Recurrence, ArgSort,
        Gather, Scatter,
        Cholesky, TriangularSolve, TridiagonalSolve,
        Fft, Rfft, Irfft,
        StopGradient, Dropped, Barrier, Sharded;
    views:
        Pad, Window;
    decompositions:
        Lu, Qr, Eigh, Svd, Eig, Schur;
    regions:
        Call, CustomCall, LinearCall, MultilinearCall, LinearSolve, Root, Cond, Loop, Replay, Callback;
}

/// The functions of one primitive that need no value of its type, as function pointers.
struct Entry {
    docs: fn() -> Vec<Doc>,
    parse: fn(&str, &mut Attributes) -> Option<Result<Op, Problem>>,
    rewrites: fn() -> Vec<Rewrite>,
    samples: fn(&mut Module) -> Vec<Sample>,
}

impl Entry {
    const fn of<P: Primitive + Into<Op>>() -> Entry {
        Entry {
            docs: P::docs,
            parse: |name, attributes| Some(P::parse(name, attributes)?.map(Into::into)),
            rewrites: P::rewrites,
            samples: P::samples,
        }
    }
}

impl Op {
    /// Returns the entries of all primitives on the book's generated page, in the order of the
    /// `primitives!` list.
    pub fn docs() -> Vec<Doc> {
        ALL.iter().flat_map(|p| (p.docs)()).collect()
    }

    /// Parses a primitive from its name and attributes in the text format; `None` if no primitive has
    /// this name.
    pub fn parse(name: &str, attributes: &mut Attributes) -> Option<Result<Op, Problem>> {
        ALL.iter().find_map(|p| (p.parse)(name, attributes))
    }

    /// Returns the rewrite rules of all primitives.
    pub fn rewrites() -> Vec<Rewrite> {
        let mut all: Vec<Rewrite> = ALL.iter().flat_map(|p| (p.rewrites)()).collect();
        if planted(Fault::RewriteRow) {
            for row in all.iter_mut().filter(|row| row.name == "sub-neg") {
                row.rule = Equality::Pattern { lhs: "(sub ?x (neg ?y))", rhs: "(sub ?x ?y)" };
            }
        }
        all
    }

    /// Evaluates the primitive on arrays.
    ///
    /// # Errors
    /// The errors of the primitive.
    pub fn eval(&self, module: &Module, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        let operands: Vec<Value> = operands.iter().cloned().map(Value::from).collect();
        Value::arrays(&self.run(module, &operands)?)
    }

    /// Evaluates the primitive like `run`, but overwrites the first operand of an update or a scatter in place if
    /// nothing else refers to that array.
    ///
    /// # Errors
    /// The errors of the primitive.
    pub fn run_owned(
        &self,
        module: &Module,
        mut operands: Vec<Value>,
    ) -> Result<Vec<Value>, Problem> {
        let rest = operands.split_off(operands.len().min(1));
        match (self, operands.pop()) {
            (Op::DynamicUpdateSlice(_), Some(Value::Array(x))) => {
                let rest = Value::arrays(&rest)?;
                Ok(vec![array::dynamic_update_slice::write(x, &rest[0], &rest[1..]).into()])
            }
            (Op::Scatter(scatter), Some(Value::Array(x))) => {
                Ok(vec![scatter.combined(x, rest[0].array()?, rest[1].array()?).into()])
            }
            (_, first) => {
                let operands: Vec<Value> = first.into_iter().chain(rest).collect();
                self.run(module, &operands)
            }
        }
    }

    /// Returns the samples of all primitives; the functions that they need are added to `module`.
    pub fn samples(module: &mut Module) -> Vec<Sample> {
        ALL.iter().flat_map(|p| (p.samples)(module)).collect()
    }
}
