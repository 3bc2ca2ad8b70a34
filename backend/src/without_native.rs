//! Replaces `executable.rs` in a build without the feature `native`, in which there is no machine code.
//!
//! Compiling returns an error that names the feature. No value of `Executable` exists, so the methods are never called;
//! they exist so that `compile.rs` is the same in both builds.

use crate::codegen::vectors::Vectors;
use crate::loop_ir::Program;
use crate::machine::MachineModel;
use crate::results::{CallResources, Results};
use std::convert::Infallible;
use tapeloom_ir::{Kind, Limits, Problem, Tensor};
use target_lexicon::Triple;

/// The machine code of a program. No value of this type exists in this build.
#[derive(Clone)]
pub(crate) struct Executable {
    none: Infallible,
}

impl Executable {
    /// Returns the error that this build cannot generate machine code.
    pub(crate) fn verified(
        _: &Program,
        triple: &Triple,
        _: MachineModel,
    ) -> Result<Executable, Problem> {
        Err(Problem::new(
            Kind::Target,
            format!(
                "machine code for {triple} needs the feature `native`, without which this library is built"
            ),
            "build with the feature `native`, or use `Target::Interpreter`, the default of such a build",
        ))
    }

    pub(crate) fn with_threads(self, _: usize) -> Executable {
        match self.none {}
    }

    pub(crate) fn memory(&self) -> usize {
        match self.none {}
    }

    pub(crate) fn vectors(&self) -> &Vectors {
        match self.none {}
    }

    pub(crate) fn run(
        &self,
        _: &[&Tensor],
        _: Option<&Limits>,
        _: &mut Results,
    ) -> Result<(), Problem> {
        match self.none {}
    }

    pub(crate) fn call_into(
        &self,
        _: &[&Tensor],
        _: &mut [&mut Tensor],
        _: Option<&Limits>,
    ) -> Result<(), Problem> {
        match self.none {}
    }

    pub(crate) fn call_donating(
        &self,
        _: Vec<Tensor>,
        _: Option<&Limits>,
    ) -> Result<Vec<Tensor>, Problem> {
        match self.none {}
    }

    pub(crate) fn call_within(
        &self,
        _: &[&Tensor],
        _: &Limits,
    ) -> Result<(Vec<Tensor>, CallResources), Problem> {
        match self.none {}
    }
}
