//! External functions, which loop programs call: Rust functions of the user, and library routines.
//!
//! A call of a Rust function or of a routine is one statement with views of its operands and results, each contiguous
//! in memory, so passes treat both kinds of calls alike.
//!
//! ```text
//! ask spline lanes 4 (shared b0[0; 3]: f64[3], b1[0; 4]: f64[4]) to (b2[0; 4]: f64[4])
//! routine cholesky{n=9} f64 members 2 (b0[0; 162]) to (b1[0; 162], b2[0; 20])
//! ```
//!
//! If a routine needs scratch memory, its last result is the scratch memory: an f64 array that is never read. So the
//! scratch memory lies in the workspace, is part of the memory plan, and a call allocates nothing.

use std::fmt;
use tapeloom_ir::prim::RoutineCall;
use tapeloom_ir::{ArrayType, Dtype, HostCall, Loc, Problem, Tensor};
use tapeloom_routines::Plan;

/// An external function that is called, with the types of the call's operands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalSignature {
    /// The function that is called, with its results and batching.
    pub function: External,
    /// The types of the operands of the call.
    pub operands: Vec<ArrayType>,
    /// The user's source line of the call.
    pub location: Loc,
}

/// A function outside the loop program that the program calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum External {
    /// A Rust function of the user, called with its operands as tensors.
    Host(HostCall),
    /// A library routine, such as a matrix factorisation, with its plan.
    Routine(PlannedRoutine),
}

/// A library routine with its plan (tables and sizes), which is prepared before the first call.
#[derive(Clone)]
pub struct PlannedRoutine {
    call: RoutineCall,
    plan: Plan,
}

impl PlannedRoutine {
    /// Prepares the plan of a library routine.
    ///
    /// # Errors
    /// If the build does not contain the library of the routine.
    pub fn new(call: RoutineCall) -> Result<PlannedRoutine, Problem> {
        let plan = call.plan()?;
        Ok(PlannedRoutine { call, plan })
    }

    /// Returns the call of the routine: attributes, dtype and the number of batch members.
    pub fn call(&self) -> &RoutineCall {
        &self.call
    }

    /// Returns the prepared plan; one run of it computes one batch member.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the type of the scratch memory that the plan needs; `None` if it needs none.
    pub fn scratch(&self) -> Option<ArrayType> {
        let words = self.plan.scratch_bytes().div_ceil(Dtype::F64.bytes());
        (words > 0).then(|| ArrayType::new(Dtype::F64, [words]))
    }
}

/// Planned routines are equal if their calls are equal, since the call determines the plan.
impl PartialEq for PlannedRoutine {
    fn eq(&self, other: &PlannedRoutine) -> bool {
        self.call == other.call
    }
}

impl Eq for PlannedRoutine {}

impl fmt::Debug for PlannedRoutine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

impl ExternalSignature {
    /// Returns the signature of a call of a library routine, with the operand types that the routine takes.
    ///
    /// # Errors
    /// If the build does not contain the library of the routine.
    pub fn routine(call: RoutineCall, location: Loc) -> Result<ExternalSignature, Problem> {
        let operands = call.operand_types();
        let function = External::Routine(PlannedRoutine::new(call)?);
        Ok(ExternalSignature { function, operands, location })
    }

    /// Returns the name of the Rust function or library routine.
    pub fn name(&self) -> &str {
        match &self.function {
            External::Host(call) => call.host.name(),
            External::Routine(planned) => planned.call.routine.name(),
        }
    }

    /// Returns the types of the results; for a routine that needs scratch memory, followed by the type of that
    /// memory.
    pub fn results(&self) -> Vec<ArrayType> {
        match &self.function {
            External::Host(call) => call.result_types(),
            External::Routine(planned) => {
                let mut types = planned.call.result_types();
                types.extend(planned.scratch());
                types
            }
        }
    }

    /// Calls the function on tensors and returns its results, without the scratch memory.
    ///
    /// # Errors
    /// The error of the called function, with the user's source line of the call.
    pub fn run(&self, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        let run = match &self.function {
            External::Host(call) => call.run(operands),
            External::Routine(planned) => planned.call.run(operands),
        };
        run.map_err(|problem| problem.at(self.location))
    }

    /// Returns the number of flops of one call of a routine; `None` for Rust functions, whose work is unknown.
    pub fn flops(&self) -> Option<u64> {
        match &self.function {
            External::Host(_) => None,
            External::Routine(planned) => Some(planned.call.flops()),
        }
    }
}
