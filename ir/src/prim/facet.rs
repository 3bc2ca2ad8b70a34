//! Properties of primitives that passes need in addition to the rules.
//!
//! Passes name no primitive. The property of a few primitives that some passes need is the *facet*, and
//! [`Op::facet`] is the only place that maps primitives to facets. Its match is exhaustive, so a new primitive
//! does not compile until it is added there.

use super::rules::slice_access::Boxed;
use super::{Barrier, Call, Callback, Loop, Op, Replay};

/// A property of a primitive that some passes need, besides its rules.
pub(super) enum Facet<'a> {
    /// No special property. The primitive is assumed to read and write all of its operands.
    Plain,
    /// It applies one function to corresponding elements.
    Elementwise {
        /// Whether the two operands may be exchanged.
        commutes: bool,
    },
    /// It reads or writes a box of its first operand.
    Box(&'a dyn Boxed),
    /// A decomposition whose derivative is computed only in the columns that are read.
    ByColumns,
    /// Its value is a constant to differentiation.
    Constant,
    /// A boundary that passes do not look through.
    Barrier(&'a Barrier),
    /// A call, which may have a checkpointing policy.
    Call(&'a Call),
    /// A loop (`loop`).
    Loop(&'a Loop),
    /// The linear half of a loop with checkpoint slots.
    Replay(&'a Replay),
    /// A call of a Rust function.
    Host(&'a Callback),
}

impl Op {
    /// Returns whether the derivative depends on which elements of the outputs are read
    /// ([`super::RuleCx::reads`]).
    pub fn asks_reads(&self) -> bool {
        matches!(self.facet(), Facet::ByColumns)
    }

    /// Returns whether the value is a constant to differentiation.
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
