//! [`RoutineCall`]: a library routine over the members of a batch, as every engine runs it.
//!
//! The interpreter, the interpreter of the loop IR and machine code call the same [`Plan::run`], so they return
//! the same bits, including the signs of singular vectors. The routines select instructions by processor;
//! except for small matrices, bits may differ between machines.

use crate::address_space;
use crate::lang::problem::{Kind, Problem};
use crate::lang::types::{ArrayType, Dtype, Shape};
use crate::prim::Lowering;
use crate::tensor::Tensor;
use smallvec::SmallVec;
use tapeloom_routines::{Array, Element, Float, Plan, Routine, Unavailable};

/// The largest number of bytes of an operand or result. It exceeds the memory of every machine, and is small enough
/// that the size of scratch memory, a few times as large, does not overflow a u64.
const MOST_BYTES: usize = address_space::limit(48);

/// The call of a library routine for each member of a batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct RoutineCall {
    /// The routine that is called.
    pub routine: Routine,
    /// The float dtype of the routine's arrays.
    pub float: Float,
    /// The number of batch members, whose matrices follow each other in every operand and result.
    pub members: usize,
}

impl RoutineCall {
    /// Creates the call of the routine for every member of the batch axes with these extents.
    pub fn new(routine: Routine, dtype: Dtype, batch: &[usize]) -> RoutineCall {
        let float = if dtype == Dtype::F32 { Float::F32 } else { Float::F64 };
        // If an extent is zero, the others may be arbitrarily large, so saturate the product. If a member has no
        // elements, there may be any number of members.
        let nothing = routine.results().iter().all(|a| a.shape.contains(&0));
        let all = batch.iter().fold(1, |members: usize, n| members.saturating_mul(*n));
        let members = if nothing || batch.contains(&0) { 0 } else { all };
        RoutineCall { routine, float, members }
    }

    /// Returns the types of the operands: the number of members, then the routine's extents.
    pub fn operand_types(&self) -> Vec<ArrayType> {
        self.routine.operands().iter().map(|a| self.all(a)).collect()
    }

    /// Returns the types of the results: the number of members, then the routine's extents.
    pub fn result_types(&self) -> Vec<ArrayType> {
        self.routine.results().iter().map(|a| self.all(a)).collect()
    }

    /// Returns the dtype of the routine's floating-point arrays.
    pub fn dtype(&self) -> Dtype {
        match self.float {
            Float::F32 => Dtype::F32,
            Float::F64 => Dtype::F64,
        }
    }

    /// Returns whether every operand and every result has at most `MOST_BYTES` (2⁴⁸) bytes.
    pub fn fits(&self) -> bool {
        let all = |a: &Array| a.bytes(self.float)?.checked_mul(self.members);
        let (operands, results) = (self.routine.operands(), self.routine.results());
        operands.iter().chain(&results).all(|a| all(a).is_some_and(|bytes| bytes <= MOST_BYTES))
    }

    /// Returns the number of floating-point operations for all batch members together.
    pub fn flops(&self) -> u64 {
        self.routine.flops().saturating_mul(self.members as u64)
    }

    /// Returns the routine's plan: the size of its scratch memory and its precomputed tables.
    ///
    /// # Errors
    /// [`Kind::Target`] in a build without the feature `linalg`, [`Kind::TooLarge`] for arrays beyond memory.
    pub fn plan(&self) -> Result<Plan, Problem> {
        self.routine.plan(self.float).map_err(|unavailable| RoutineCall::without_plan(&unavailable))
    }

    /// Returns the error for a routine whose plan is unavailable for this reason.
    pub fn without_plan(unavailable: &Unavailable) -> Problem {
        let (kind, help) = match unavailable {
            Unavailable::Missing { .. } => (
                Kind::Target,
                "build tapeloom with its default features, or with `linalg` among them",
            ),
            Unavailable::TooLarge { .. } => (Kind::TooLarge, "work on smaller arrays"),
        };
        Problem::new(kind, unavailable.to_string(), help)
    }

    /// Computes the results for operands with any batch axes in front. In the results, all members are on axis 0.
    ///
    /// # Errors
    /// The errors of [`plan`](RoutineCall::plan), and too little memory for the results.
    pub fn run(&self, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        let types = self.result_types();
        let mut results: Vec<Tensor> =
            types.iter().map(Tensor::zeros_of).collect::<Result<_, _>>()?;
        // If the results are empty, return before making a plan. There may be any number of empty members, too large
        // for a plan's tables.
        if results.iter().all(|y| y.elements() == 0) {
            return Ok(results);
        }
        let plan = self.plan()?;
        let words = plan.scratch_bytes().div_ceil(Dtype::F64.bytes());
        let mut scratch = Tensor::zeros(&[words], Dtype::F64)?;
        let x: SmallVec<[&[u8]; 4]> = operands.iter().map(Tensor::bytes).collect();
        let mut y: SmallVec<[&mut [u8]; 5]> = results.iter_mut().map(Tensor::bytes_mut).collect();
        plan.run(self.members, &x, &mut y, scratch.bytes_mut())
            .map_err(|wrong| Problem::internal(wrong.to_string()))?;
        drop(y);
        Ok(results)
    }

    /// Computes the single result of a routine, in the given shape; see [`run`](RoutineCall::run).
    pub(crate) fn run_one(&self, operands: &[Tensor], shape: &[usize]) -> Result<Tensor, Problem> {
        match &self.run(operands)?[..] {
            [y] => y.reshape(shape),
            several => {
                let (name, n) = (self.routine.name(), several.len());
                Err(Problem::internal(format!("expected one result, `{name}` has {n}")))
            }
        }
    }

    /// Returns the lowering of a primitive to this call. `call` is `None` only if an operand is no array, which no
    /// verified program contains.
    pub(crate) fn lowering(call: Option<RoutineCall>) -> Lowering {
        call.map_or_else(
            || Lowering::Missing(Problem::internal("a routine with an operand that is no array")),
            Lowering::Routine,
        )
    }

    fn all(&self, array: &Array) -> ArrayType {
        let dtype = match array.element {
            Element::Float => self.dtype(),
            Element::Index => Dtype::I32,
        };
        ArrayType::new(dtype, Shape::from(&array.shape[..]).with_leading(self.members))
    }
}
