//! The language of tapeloom.
//!
//! A program is a [`Function`]: straight-line equations over typed arrays, in A-normal form, closed and
//! immutable, in the arena of a [`Module`]. Equations apply *primitives* ([`Op`]). All rules of a primitive are
//! in one place, in [`prim`]. Transforms (in the crate `tapeloom-transforms`) map functions to functions;
//! backends compile them; both query primitives through `Op` and name none.
//!
//! ```text
//! func @loss(%0: f64[3], %1: f64[3]) -> (f64[]) {
//!   %2: f64[3] = mul %0, %1
//!   %3: f64[] = reduce_sum{axes=[0]} %2
//!   return %3
//! }
//! ```
//!
//! Invariants, checked by [`verify`]: every value is defined once, before its uses; types are those
//! that the primitives infer; elementwise operands have equal shapes (literals have none); linear
//! parameters (after `;`) are used linearly; functions refer only to functions added before them.

pub mod address_space;
pub mod analysis;
pub mod lang;
mod lex;
pub(crate) mod lints;
pub mod prim;

pub mod fingerprint;
mod limits;

pub mod map;
mod policy;
mod policy_table;
pub mod revolve;
mod sharding;
mod stopwatch;
mod tensor;
mod text;
pub mod trace;

pub use analysis::provenance::{Maker, maker};
pub use lang::builder::{Builder, Draft};
pub use lang::eval::{eval, eval_values};
pub use lang::function::{Atom, Equation, FuncId, Function, Operands, Outputs, ValueId};
pub use lang::host::{Answer, Batch, Failure, Host, HostCall, Lane};
pub use lang::literal::Literal;
pub use lang::module::Module;
pub use lang::phase::{Origin, Phase};
pub use lang::problem::{Kind, Problem};
pub use lang::remap::{Atoms, ValueRemap, rebuild};
pub use lang::source_loc::Loc;
pub use lang::spelling::closest_name;
pub use lang::stack::{DEEPEST_CALL, DEEPEST_CLOSURE, deeper};
pub use lang::types::{ArrayType, Dtype, Shape, Type};
pub use lang::value::{Tape, Value};
pub use lang::verify::{VerifyError, verify, verify_module};
pub use lex::is_word;
pub use limits::{Cancel, LOOK_EVERY, LimitedLoop, Limits, LoopCount, eval_within};
pub use lints::finite::eval_finite;
pub use lints::key_reuse::check_keys;
pub use map::{OrderedMap, OrderedSet};
pub use policy::{Amortization, Memory, PlanContext, PlanRequest, Price};
pub use policy_table::{Bits, Planner, Policy, PolicyRow, ROUNDING, RecomputePrice};
pub use prim::{Code, Op, Scalar};
pub use revolve::Schedule;
pub use sharding::{Mesh, PartitionSpec, Parts};
pub use stopwatch::Stopwatch;
pub use tapeloom_math as math;
#[doc(hidden)]
pub use tapeloom_math::fault;
pub use tapeloom_math::isa::{Isa, WrongIsa};
pub use tensor::huge_pages::{LARGE_BYTES, try_zeros};
pub use tensor::{Buffer, Element, Fresh, Line, Tensor};
pub use text::{
    ParseError, parse_module, parse_type, print_equation, print_function, print_functions,
    print_module,
};
