//! Properties of primitives that passes need in addition to the rules.
//!
//! Passes do not name primitives. They ask for the *facet* of a primitive: its special property, if it has one.
//! [`Op::facet`] is the only place that maps primitives to facets. Its match is exhaustive, so a new primitive does not
//! compile until it is added there.

use super::rules::slice_access::Boxed;
use super::{Barrier, Call, Callback, Loop, Op, Replay};

/// A property of a primitive that some passes need besides its rules; see [`Op::facet`].
pub(super) enum Facet<'a> {
    /// No special property. Passes assume that the primitive reads all of its operands as a whole.
    Plain,
    /// The primitive applies one function to corresponding elements of its operands.
    Elementwise {
        /// Whether the function has two operands that may be exchanged, as in `x + y`.
        commutes: bool,
    },
    /// The primitive reads or writes a box (a range of indices along each axis) of its first operand.
    Box(&'a dyn Boxed),
    /// An eigen- or singular value decomposition. If only some columns of the outputs are read, the derivative is
    /// computed only for these columns.
    ByColumns,
    /// Differentiation treats the primitive's value as a constant (`stop_gradient`).
    Constant,
    /// A barrier: passes do not look through it.
    Barrier(&'a Barrier),
    /// A call of a function of the module, possibly with a checkpointing policy.
    Call(&'a Call),
    /// A loop (the primitive `loop`).
    Loop(&'a Loop),
    /// A loop in the linear function of a linearization that recomputes iterations from checkpoint slots.
    Replay(&'a Replay),
    /// A call of a Rust function.
    Host(&'a Callback),
}

impl Op {
    /// Returns whether the derivative rule needs to know which elements of the outputs are read
    /// ([`super::RuleCx::reads`]).
    pub fn needs_reads(&self) -> bool {
        matches!(self.facet(), Facet::ByColumns)
    }

    /// Returns whether differentiation treats the value as a constant although it depends on variables.
    pub fn is_constant_by_decree(&self) -> bool {
        matches!(self.facet(), Facet::Constant)
    }

    pub(super) fn facet(&self) -> Facet<'_> {
        match self {
            Op::Scalar(s) => Facet::Elementwise { commutes: s.row().code.row().commutes },
            Op::IntegerPow(_)
            | Op::Polygamma(_)
            | Op::Bessel(_)
            | Op::Expn(_)
            | Op::Spence(_)
            | Op::HalfPow(_)
            | Op::ScaledBessel(_)
            | Op::ScaledErf(_)
            | Op::Zeta(_)
            | Op::Gammainc(_)
            | Op::Betainc(_)
            | Op::Convert(_)
            | Op::Bitcast(_) => Facet::Elementwise { commutes: false },
            Op::Slice(of) => Facet::Box(of),
            Op::DynamicSlice(of) => Facet::Box(of),
            Op::DynamicUpdateSlice(of) => Facet::Box(of),
            Op::Gather(of) => Facet::Box(of),
            Op::Scatter(of) => Facet::Box(of),
            Op::Eigh(_) | Op::Svd(_) | Op::Eig(_) => Facet::ByColumns,
            Op::StopGradient(_) | Op::Dropped(_) => Facet::Constant,
            Op::Barrier(of) => Facet::Barrier(of),
            Op::Sharded(_) => Facet::Plain,
            Op::Call(of) => Facet::Call(of),
            Op::Loop(of) => Facet::Loop(of),
            Op::Replay(of) => Facet::Replay(of),
            Op::Callback(of) => Facet::Host(of),
            Op::Broadcast(_)
            | Op::Reshape(_)
            | Op::Permute(_)
            | Op::Pad(_)
            | Op::Window(_)
            | Op::Concatenate(_)
            | Op::Rev(_)
            | Op::Diagonal(_)
            | Op::Iota(_)
            | Op::Reduce(_)
            | Op::ArgReduce(_)
            | Op::Dot(_)
            | Op::Cumulate(_)
            | Op::Recurrence(_)
            | Op::ArgSort(_)
            | Op::Cholesky(_)
            | Op::TriangularSolve(_)
            | Op::TridiagonalSolve(_)
            | Op::Fft(_)
            | Op::Rfft(_)
            | Op::Irfft(_)
            | Op::Lu(_)
            | Op::Qr(_)
            | Op::Schur(_)
            | Op::CustomCall(_)
            | Op::LinearCall(_)
            | Op::MultilinearCall(_)
            | Op::LinearSolve(_)
            | Op::Root(_)
            | Op::Cond(_) => Facet::Plain,
        }
    }
}
