//! `cond{branches}`: one of several functions, chosen when the program runs.
//!
//! ```text
//! %3: f64[] = cond{branches=[@no,@yes]} %0, %1, %2
//! ```
//!
//! The first operand says which: a `bool[]` (false is the first of two) or an `i64[]` (the nearest
//! that there is); the others are the arguments. One branch runs, the others do not: nothing in them
//! costs time, has an effect or gives a nan.

use super::toolbox::arrow;
use super::{
    Arg, Batched, Cotangents, Doc, Dual, Effects, Linearity, Lowering, Op, Operand, Primitive,
    Prune, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Types,
};
use crate::function::{Atom, FuncId};
use crate::literal::Literal;
use crate::module::Module;
use crate::problem::{Kind, Problem};
use crate::tensor::Tensor;
use crate::types::{Dtype, Type};

/// `cond{branches}`
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Cond {
    /// The functions, all of one type.
    pub branches: Vec<FuncId>,
}

notation!(Cond = "cond" { branches });

/// A rule that is not there yet.
fn missing(rule: &str) -> Problem {
    Problem::new(Kind::NotDifferentiable, format!("`cond` has no {rule} yet"), "")
}

impl Cond {
    /// Which branch a value of the first operand means.
    fn chosen(&self, which: Literal) -> usize {
        match which.dtype {
            Dtype::Bool => usize::from(!which.is_zero()),
            _ => usize::try_from(which.bits as i64).unwrap_or(0).min(self.branches.len() - 1),
        }
    }

    /// All branches have the type of the first.
    fn check(&self, module: &Module) -> Result<(), Problem> {
        let wrong = |message: String| {
            let help = "the branches take the same operands and give results of the same types";
            Err(Problem::new(Kind::Arguments, message, help))
        };
        let Some((first, others)) = self.branches.split_first() else {
            return wrong("`cond` has no branch".to_owned());
        };
        let first = module.function(*first);
        for other in others.iter().map(|f| module.function(*f)) {
            let types = |f: &crate::Function| (f.param_types(), f.result_types());
            if types(first) != types(other) || first.params.len() != other.params.len() {
                let ([x, y], [a, b]) = ([first, other].map(|f| f.param_types()), {
                    [first, other].map(|f| f.result_types())
                });
                return wrong(format!(
                    "the branches @{} and @{} differ: {} and {}",
                    first.name,
                    other.name,
                    arrow(&x, &a),
                    arrow(&y, &b)
                ));
            }
        }
        Ok(())
    }
}

impl Primitive for Cond {
    fn docs() -> Vec<Doc> {
        Vec::new()
    }

    fn outputs(&self, module: &Module) -> usize {
        self.branches.first().map_or(0, |f| module.function(*f).results.len())
    }

    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        self.check(module)?;
        let f = module.function(self.branches[0]);
        let which = match operands.first() {
            Some(Operand { ty: Type::Array(a), .. }) if a.shape.is_empty() => Some(a.dtype),
            _ => None,
        };
        match which {
            Some(Dtype::I64) => {}
            Some(Dtype::Bool) if self.branches.len() == 2 => {}
            Some(Dtype::Bool) => {
                let message = format!(
                    "a truth value chooses between two branches, not {}",
                    self.branches.len()
                );
                return Err(Problem::new(Kind::Arguments, message, "choose by an i64"));
            }
            _ => {
                let found = operands.first().map_or("nothing".to_owned(), |o| o.ty.to_string());
                let message = format!("`cond` chooses by a bool[] or an i64[], found {found}");
                return Err(Problem::new(Kind::Arguments, message, "compare, or convert to i64"));
            }
        }
        super::call::check_arguments(&f.name, &f.param_types(), &operands[1..])?;
        Ok(f.result_types().into())
    }

    fn eval(&self, module: &Module, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        let branch = self.branches[self.chosen(operands[0].at(0))];
        crate::eval::eval(module, branch, &operands[1..])
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
        let known = 1 + module.function(self.branches[0]).params.len();
        operands.iter().enumerate().all(|(i, o)| match o {
            Linearity::Constant => i < known,
            Linearity::Zero => true,
            Linearity::Linear => i >= known,
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
        self.branches.iter().map(|f| Role::Branch.of(*f)).collect()
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        Cond { branches: functions.to_vec() }.into()
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        Ok(Prune::Whole)
    }

    fn lower(&self, _: &Module, _: &[Operand<'_>]) -> Lowering {
        Lowering::Branch { branches: self.branches.clone() }
    }

    fn effects(&self, module: &Module) -> Effects {
        self.branches.iter().map(|f| module.effects(*f)).max().unwrap_or_default()
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples(_: &mut Module) -> Vec<Sample> {
        Vec::new()
    }
}
