//! The language of tapeloom.
//!
//! A program is a [`Function`]: straight-line equations over typed arrays, in A-normal form, closed
//! and immutable, in the arena of a [`Module`]. Equations apply *primitives* ([`Op`]); everything
//! the system knows about a primitive stands in one place, in [`prim`]. Transforms (in the crate
//! `tapeloom-transforms`) map functions to functions; backends compile them; both ask primitives
//! for what they need and name none.
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

pub mod prim;

mod builder;
mod copying;
mod depth;
mod eval;
#[doc(hidden)]
pub mod fault;
pub mod fingerprint;
mod finite;
mod function;
mod host;
mod keys;
mod limits;

mod literal;
mod maker;
pub mod map;
pub mod math;
mod module;
mod pages;
mod policy;
mod problem;
pub mod question;
pub mod schedule;
mod spot;
mod tensor;
mod text;
pub mod trace;
mod types;
mod value;
mod verify;

pub use builder::{Builder, Draft};
pub use copying::{Atoms, Copying, rebuild};
pub use depth::{DEEPEST_CALL, DEEPEST_CLOSURE, deeper};
pub use eval::{eval, eval_values};
pub use finite::eval_finite;
pub use function::{Atom, Equation, FuncId, Function, Operands, Outputs, ValueId};
pub use host::{Answer, Batch, Failure, Host, HostCall, Lane};
pub use keys::{DRAW, KEYS, check_keys};
pub use limits::{Cancel, LOOK_EVERY, LimitedLoop, Limits, LoopCount, eval_within};
pub use literal::Literal;
pub use maker::{Maker, maker};
pub use map::{OrderedMap, OrderedSet};
pub use module::Module;
pub use pages::{LARGE_BYTES, try_zeros};
pub use policy::{Bits, Memory, Policy, Price, ROUNDING, Regime, Share, Terms};
pub use prim::{Code, Op, Scalar};
pub use problem::{Kind, Problem};
pub use schedule::Schedule;
pub use spot::{Loc, Spot};
pub use tensor::{Buffer, Element, Fresh, Line, Tensor};
pub use text::{
    ParseError, is_word, parse_module, parse_type, print_equation, print_function, print_functions,
    print_module,
};
pub use types::{ArrayType, Dtype, Shape, Type};
pub use value::{Tape, Value};
pub use verify::{VerifyError, verify, verify_module};
