//! `loop{body, trip, direction, takes}`: a function run round after round.
//!
//! ```text
//! func @step(%0: f64[], %1: f64[], %2: f64[]) -> (f64[], f64[]) {
//!   %3: f64[] = mul %0, %1
//!   %4: f64[] = add %3, %2
//!   return %4, %3
//! }
//!
//! func @f(%0: f64[], %1: f64[], %2: f64[8]) -> (f64[], f64[8]) {
//!   %3: f64[], %4: f64[8] = loop{body=@step, trip=8, direction=up, takes=[const,carry0,xs]} %0, %1, %2
//!   return %3, %4
//! }
//! ```
//!
//! [`Rounds`] says what goes in and out of a round. One primitive is `scan` (carries and elements),
//! `fori_loop` (carries, and a number of rounds that may be known only at run time), `while_loop` (a
//! condition decides) and `map` (elements alone).
//!
//! Nothing is carried but what a slot says: a loop reads no value but its operands, and every round
//! begins with what the one before it left.

mod eval;
mod infer;
mod rounds;

pub use rounds::{Direction, Rounds, Slot, Trip};

use super::{
    Arg, Batched, Cotangents, Doc, Dual, Effects, Linearity, Lowering, Op, Operand, Primitive,
    Prune, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Types,
};
use crate::function::{Atom, FuncId};
use crate::module::Module;
use crate::problem::{Kind, Problem};
use crate::tensor::Tensor;

/// `loop{body, trip, direction, takes}`
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Loop {
    /// What is run in every round.
    pub body: FuncId,
    /// How often, and what goes in and out of each round.
    pub rounds: Rounds,
}

notation!(Loop = "loop" { body, rounds(trip, condition, reads, direction, takes) });

/// A rule that is not there yet.
fn missing(rule: &str) -> Problem {
    Problem::new(Kind::NotDifferentiable, format!("`loop` has no {rule} yet"), "")
}

impl Primitive for Loop {
    fn docs() -> Vec<Doc> {
        Vec::new()
    }

    fn outputs(&self, module: &Module) -> usize {
        let trips = usize::from(matches!(self.rounds.trip, Trip::While { .. }));
        module.function(self.body).results.len() + trips
    }

    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        infer::infer(self, module, operands)
    }

    fn eval(&self, module: &Module, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        eval::eval(self, module, operands)
    }

    fn jvp(&self, _: &mut RuleCx<'_, '_>, _: &[Atom], _: &[Option<Atom>]) -> Result<Dual, Problem> {
        Err(missing("forward derivative"))
    }

    fn linearize(
        &self,
        _: &mut RuleCx<'_, '_>,
        _: &[Atom],
        _: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        Err(missing("reverse derivative"))
    }

    fn is_linear(&self, module: &Module, operands: &[Linearity]) -> bool {
        let known = module.function(self.body).params.len();
        let params = (0..self.rounds.lead()).map(|_| 0).chain(self.rounds.params());
        params.zip(operands).all(|(p, o)| match o {
            Linearity::Constant => p < known,
            Linearity::Zero => true,
            Linearity::Linear => p >= known,
        })
    }

    fn transpose(
        &self,
        _: &mut RuleCx<'_, '_>,
        _: &[Arg],
        _: &[Option<Atom>],
        _: &mut Cotangents,
    ) -> Result<(), Problem> {
        Err(missing("transpose"))
    }

    fn batch(
        &self,
        _: &mut RuleCx<'_, '_>,
        _: usize,
        _: &[Atom],
        _: &[bool],
    ) -> Result<Batched, Problem> {
        Err(missing("batching rule"))
    }

    fn regions(&self) -> RegionList {
        let mut regions = RegionList::from_slice(&[Role::Round.of(self.body)]);
        if let Trip::While { condition, .. } = &self.rounds.trip {
            regions.push(Role::Round.of(*condition));
        }
        regions
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        let mut next = functions.iter().copied();
        let mut of = self.clone();
        of.body = next.next().unwrap_or(of.body);
        if let Trip::While { condition, .. } = &mut of.rounds.trip {
            *condition = next.next().unwrap_or(*condition);
        }
        of.into()
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        Ok(Prune::Whole)
    }

    fn lower(&self, _: &Module, _: &[Operand<'_>]) -> Lowering {
        Lowering::Loop { body: self.body, rounds: self.rounds.clone() }
    }

    fn effects(&self, module: &Module) -> Effects {
        module.effects(self.body)
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples(_: &mut Module) -> Vec<Sample> {
        Vec::new()
    }
}
