//! Primitives: what an equation can do, and everything that the system knows about it.
//!
//! **One primitive, one place.** A scalar function is a row of the table in [`scalar`]; every other
//! primitive is one file with a struct (its attributes) and one `impl Primitive` (its rules). The
//! `primitives!` list below makes the closed enum [`Op`] and dispatch, nothing else. Adding a
//! primitive is one file (or row) and one list line; the printer, parser, verifier, interpreter,
//! both AD modes, batching, code generation, the e-graph, the generated book page and the law tests
//! follow. [`Primitive`] has one defaulted method, `linearize`, whose default (jvp, split by
//! linearity) is always right for a primitive without regions; a forgotten rule does not compile.
//!
//! Passes never name a primitive: they ask through [`Op`]. Model: ripgrep's flags, and the rule
//! clusters of JAX's `lax` brought into one place.

mod argreduce;
mod attr;
mod broadcast;
mod call;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod checks;
mod code;
mod concatenate;
mod convert;
mod custom;
mod doc;
mod dot;
mod dot_rows;
mod dynamic_slice;
mod dynamic_update_slice;
pub mod elementwise;
mod expr;
mod gather;
mod integer_pow;
mod iota;
mod linear_call;
mod lower;
mod pad;
mod permute;
mod polygamma;
mod reduce;
mod reduce_rows;
mod reshape;
mod rev;
mod rewrite;
mod rules;
pub mod scalar;
mod scatter;
mod sign;
mod slice;
mod stop_gradient;
mod toolbox;

pub use argreduce::ArgReduce;
pub use attr::{Attr, Attributes};
pub use broadcast::Broadcast;
pub use call::{Body, Call};
pub use code::{Code, Library, LibraryFn};
pub use concatenate::Concatenate;
pub use convert::Convert;
pub use custom::CustomCall;
pub use doc::{Doc, Family};
pub use dot::Dot;
pub use dynamic_slice::DynamicSlice;
pub use dynamic_update_slice::DynamicUpdateSlice;
pub use expr::Expr;
pub use gather::{Bounds, Gather};
pub use integer_pow::IntegerPow;
pub use iota::Iota;
pub use linear_call::LinearCall;
pub(crate) use lower::step as step_index;
pub use lower::{AxisMap, Lowering, Piece};
pub use pad::Pad;
pub use permute::Permute;
pub use polygamma::Polygamma;
pub use reduce::{Reduce, Reducer};
pub use reshape::Reshape;
pub use rev::Rev;
pub use rewrite::{Definition, Exactness, Rewrite, Rule, Site, SiteOperand, Term, When};
pub use rules::{
    Arg, BatchOf, Batched, Cotangents, Discharge, Dual, Effects, JvpOf, Linearity, LinearizeOf,
    Operand, Prune, Regions, RuleCx, Sample, Total, TransposeOf, Types,
};
pub use scalar::Scalar;
pub use scatter::{Combine, Scatter};
pub use sign::{Given, Sign, SignOf};
pub use slice::Slice;
pub use stop_gradient::StopGradient;
pub use toolbox::as_linear;

use crate::fault::{Fault, planted};
use crate::function::Atom;
use crate::module::Module;
use crate::problem::Problem;
use crate::tensor::Tensor;

/// What the system must know about a primitive. The value of the implementing type holds the
/// attributes.
pub trait Primitive: Sized + Clone {
    /// Its entries on the generated page of primitives: one, or one per row of a table.
    fn docs() -> Vec<Doc>;

    /// Name in the text format.
    fn name(&self) -> &'static str;

    /// Attributes in the text format, in print order.
    fn attributes(&self) -> Vec<(&'static str, Attr)>;

    /// The primitive of that name with those attributes; `None` if the name is not one of its own.
    fn parse(name: &str, attributes: &mut Attributes) -> Option<Result<Self, Problem>>;

    /// Number of outputs.
    fn outputs(&self, module: &Module) -> usize;

    /// Types of the outputs, or what is wrong with the operands.
    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem>;

    /// The meaning: outputs from concrete operands. Literal operands of elementwise primitives come
    /// as scalars.
    fn eval(&self, module: &Module, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem>;

    /// Forward mode: emits the outputs and their tangents. `dx[i]` is `None` where operand i does
    /// not depend on the variables of differentiation; a `None` tangent of an output means the same.
    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem>;

    /// Like `jvp`, with every emitted equation either independent of `dx` or linear in it, so that
    /// the program can be split in two. The default is right for primitives without regions; region
    /// primitives linearize their bodies.
    fn linearize(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        self.jvp(cx, x, dx)
    }

    /// Whether the equation is a linear map of the operands marked [`Linearity::Linear`] together
    /// (at least one is), given what the others are.
    fn is_linear(&self, module: &Module, operands: &[Linearity]) -> bool;

    /// Reverse mode: adds to `into` the cotangents of the operands that are [`Arg::Linear`], given
    /// those of the outputs (`None` is zero). Called only where `is_linear` holds.
    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<(), Problem>;

    /// vmap: emits the primitive over a batch of `size`. Batched operands carry the batch on axis 0
    /// (at least one does), and so must the outputs that are marked batched.
    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem>;

    /// How the primitive is rewritten when mutable state is turned into values.
    fn discharge(&self) -> Discharge;

    /// The function that the equation runs, and whether its body may replace it.
    fn body(&self) -> Body;

    /// Which operands and outputs remain when only the `used` outputs are read.
    fn prune(
        &self,
        regions: &mut dyn Regions,
        module: &mut Module,
        used: &[bool],
    ) -> Result<Prune, Problem>;

    /// What a backend has to do, in target-neutral terms.
    fn lower(&self, module: &Module, operands: &[Operand<'_>]) -> Lowering;

    /// Whether an equation may be dropped, moved or merged.
    fn effects(&self, module: &Module) -> Effects;

    /// Its rows for the e-graph and the peephole pass.
    fn rewrites() -> Vec<Rewrite>;

    /// Typical and edge uses; the law tests run every one.
    fn samples(module: &mut Module) -> Vec<Sample>;
}

/// Makes [`Op`] and its dispatch from the list of primitives.
macro_rules! primitives {
    ($($prim:ident),* $(,)?) => {
        /// A primitive with its attributes.
        #[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum Op {
            $(#[doc = concat!("See [`", stringify!($prim), "`].")] $prim($prim),)*
        }

        $(impl From<$prim> for Op {
            fn from(p: $prim) -> Op { Op::$prim(p) }
        })*

        impl Op {
            /// The primitive of that name with those attributes.
            pub fn parse(name: &str, attributes: &mut Attributes) -> Option<Result<Op, Problem>> {
                None$(.or_else(|| $prim::parse(name, attributes).map(|r| r.map(Op::$prim))))*
            }
            /// The catalogue of all primitives, in the order of the list.
            pub fn docs() -> Vec<Doc> {
                let mut all = Vec::new();
                $(all.extend($prim::docs());)*
                all
            }
            /// All rewrite rows.
            pub fn rewrites() -> Vec<Rewrite> {
                let mut all = Vec::new();
                $(all.extend($prim::rewrites());)*
                if planted(Fault::RewriteRow) {
                    for row in all.iter_mut().filter(|row: &&mut Rewrite| row.name == "sub-neg") {
                        row.rule = Rule::Pattern { lhs: "(sub ?x (neg ?y))", rhs: "(sub ?x ?y)" };
                    }
                }
                all
            }
            /// The samples of all primitives; regions they need are added to `module`.
            pub fn samples(module: &mut Module) -> Vec<Sample> {
                let mut all = Vec::new();
                $(all.extend($prim::samples(module));)*
                all
            }
            /// See [`Primitive::name`].
            pub fn name(&self) -> &'static str {
                match self { $(Op::$prim(p) => p.name()),* }
            }
            /// See [`Primitive::attributes`].
            pub fn attributes(&self) -> Vec<(&'static str, Attr)> {
                match self { $(Op::$prim(p) => p.attributes()),* }
            }
            /// See [`Primitive::outputs`].
            pub fn outputs(&self, module: &Module) -> usize {
                match self { $(Op::$prim(p) => p.outputs(module)),* }
            }
            /// See [`Primitive::infer`].
            pub fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
                match self { $(Op::$prim(p) => p.infer(module, operands)),* }
            }
            /// See [`Primitive::eval`].
            pub fn eval(&self, module: &Module, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
                match self { $(Op::$prim(p) => p.eval(module, operands)),* }
            }
            /// See [`Primitive::jvp`].
            pub fn jvp(&self, cx: &mut RuleCx<'_, '_>, x: &[Atom], dx: &[Option<Atom>]) -> Result<Dual, Problem> {
                match self { $(Op::$prim(p) => p.jvp(cx, x, dx)),* }
            }
            /// See [`Primitive::linearize`].
            pub fn linearize(&self, cx: &mut RuleCx<'_, '_>, x: &[Atom], dx: &[Option<Atom>]) -> Result<Dual, Problem> {
                match self { $(Op::$prim(p) => p.linearize(cx, x, dx)),* }
            }
            /// See [`Primitive::is_linear`].
            pub fn is_linear(&self, module: &Module, operands: &[Linearity]) -> bool {
                match self { $(Op::$prim(p) => p.is_linear(module, operands)),* }
            }
            /// See [`Primitive::transpose`].
            pub fn transpose(&self, cx: &mut RuleCx<'_, '_>, x: &[Arg], ct: &[Option<Atom>], into: &mut Cotangents) -> Result<(), Problem> {
                match self { $(Op::$prim(p) => p.transpose(cx, x, ct, into)),* }
            }
            /// See [`Primitive::batch`].
            pub fn batch(&self, cx: &mut RuleCx<'_, '_>, size: usize, x: &[Atom], batched: &[bool]) -> Result<Batched, Problem> {
                match self { $(Op::$prim(p) => p.batch(cx, size, x, batched)),* }
            }
            /// See [`Primitive::discharge`].
            pub fn discharge(&self) -> Discharge {
                match self { $(Op::$prim(p) => p.discharge()),* }
            }
            /// See [`Primitive::body`].
            pub fn body(&self) -> Body {
                match self { $(Op::$prim(p) => p.body()),* }
            }
            /// See [`Primitive::prune`].
            pub fn prune(&self, regions: &mut dyn Regions, module: &mut Module, used: &[bool]) -> Result<Prune, Problem> {
                match self { $(Op::$prim(p) => p.prune(regions, module, used)),* }
            }
            /// See [`Primitive::lower`].
            pub fn lower(&self, module: &Module, operands: &[Operand<'_>]) -> Lowering {
                match self { $(Op::$prim(p) => p.lower(module, operands)),* }
            }
            /// See [`Primitive::effects`].
            pub fn effects(&self, module: &Module) -> Effects {
                match self { $(Op::$prim(p) => p.effects(module)),* }
            }
        }
    };
}

primitives! {
    Scalar,
    IntegerPow,
    Polygamma,
    Convert,
    Broadcast,
    Reshape,
    Permute,
    Slice,
    DynamicSlice,
    DynamicUpdateSlice,
    Pad,
    Concatenate,
    Rev,
    Iota,
    Reduce,
    ArgReduce,
    Dot,
    Gather,
    Scatter,
    StopGradient,
    Call,
    CustomCall,
    LinearCall,
}
