//! `linear_solve{solve, transposed, matvec}`: the solution of a linear system.
//!
//! The operands are parameters, then the right-hand side:
//!
//! ```text
//! matvec:     (p.., v..) -> A(p) v        linear in v
//! solve:      (p.., b..) -> v..           A(p) v = b
//! transposed: (p.., c..) -> u..           A(p)ᵀ u = c
//! ```
//!
//! `transposed` may apply a linear map whose transpose alone is known: a [`LinearCall`](super::super::LinearCall)
//! without `apply`. The map itself is derived when the system is transposed.
//!
//! Evaluation runs `solve`. `A v = b` implies `A dv = db - dA v`: the same system with another right-hand side.
//! Whether the solvers solve the system is not checked, as for the rules of a [`super::super::CustomCall`].
//!
//! Source: JAX's `custom_linear_solve`.

use super::super::{
    Arg, Batched, Cotangents, Doc, Dual, Effects, Family, Linearity, Lowering, Op, Operand,
    Primitive, Prune, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Scalar, Types,
    elementwise,
};
use super::{TangentMode, check, check_floats, completed, lift, samples};
use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::value::Value;
use crate::prim::control::call;
use crate::prim::rules::region_helpers::{fits, instantiate};
use crate::prim::rules::split_linear::transposed;
use smallvec::smallvec;

/// The solution of a linear system by a given solver. Its text is `linear_solve{solve, transposed, matvec}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct LinearSolve {
    /// The solver: `(p.., b..) -> v..`, for parameters `p` and right-hand sides `b`.
    pub solve: FuncId,
    /// The solver of the transposed system `Aᵀ u = c`: `(p.., c..) -> u..`.
    pub transposed: FuncId,
    /// The linear map of the system: `(p.., v..) -> A v`.
    pub matvec: FuncId,
}

notation!(LinearSolve = "linear_solve" { solve, transposed, matvec });

impl LinearSolve {
    /// Returns the number of parameters `p` and the number of right-hand sides `b` among the operands.
    fn counts(&self, module: &Module) -> (usize, usize) {
        let f = module.function(self.solve);
        let unknowns = f.results.len();
        (f.params.len().saturating_sub(unknowns), unknowns)
    }

    /// Emits the tangent `dv` of the solution: it solves `A dv = db - dA v`.
    fn derivative(
        &self,
        cx: &mut RuleCx<'_, '_>,
        along: TangentMode,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        let b = cx.b;
        let (parameters, unknowns) = b.with_module(|m| self.counts(m));
        let v = b.emit(self.clone(), x);
        let (p, db) = (&x[..parameters], &dx[parameters..]);
        let (mut moved, mut at) = (dx[..parameters].to_vec(), p.to_vec());
        moved.resize(parameters + unknowns, None);
        at.extend(&v);
        let da = match moved.iter().any(Option::is_some) {
            true => along.of(cx, self.matvec, &at, &moved)?,
            false => vec![None; unknowns],
        };
        let right: Vec<Option<Atom>> = (da.iter().zip(db))
            .map(|terms| match terms {
                (None, db) => *db,
                (Some(da), None) => Some(b.emit1(Scalar::Neg, &[*da])),
                (Some(da), Some(db)) => Some(b.emit1(Scalar::Sub, &[*db, *da])),
            })
            .collect();
        if right.iter().all(Option::is_none) {
            return Ok(Dual { y: v, dy: vec![None; unknowns].into() });
        }
        let right = right.iter().zip(&v).map(|(r, v)| instantiate(b, *r, &b.type_of(*v)));
        let args: Vec<Atom> = p.iter().copied().chain(right).collect();
        let dv = b.emit(self.clone(), &args);
        Ok(Dual { y: v, dy: dv.into_iter().map(Some).collect() })
    }
}

impl Primitive for LinearSolve {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Calls,
            name: "linear_solve{solve, transposed, matvec}".into(),
            math: "v.. with A(p..) v.. = b..".into(),
            types: "parameters, then floats of the types of the results".into(),
            derivative: "A dv = db - dA v; its transpose exchanges the solvers".into(),
            edges: "for a singular system, the result is that of the solver".into(),
        }]
    }

    fn outputs(&self, module: &Module) -> usize {
        module.function(self.solve).results.len()
    }

    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        let f = module.function(self.solve);
        let (all, v) = (f.param_types(), f.result_types());
        let parameters = &all[..self.counts(module).0];
        check_floats("linear_solve", &v)?;
        for (what, f) in [
            ("solver", self.solve),
            ("transposed solver", self.transposed),
            ("linear system", self.matvec),
        ] {
            check(module, what, f, &[parameters, &v], &v)?;
        }
        call::check_arguments(&f.name, &all, operands)?;
        Ok(v.into())
    }

    fn run(&self, module: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem> {
        crate::lang::eval::eval_values(module, self.solve, operands)
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        self.derivative(cx, TangentMode::Jvp, x, dx)
    }

    fn linearize(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        self.derivative(cx, TangentMode::Linearize, x, dx)
    }

    fn is_linear(&self, module: &Module, operands: &[Linearity]) -> bool {
        fits(self.counts(module).0, operands.iter().copied().enumerate())
    }

    /// Adds `A⁻ᵀ ct`, with the cotangent `ct` of the solution, to the cotangent of the right-hand side `b`.
    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<(), Problem> {
        let b = cx.b;
        let (parameters, _) = b.with_module(|m| self.counts(m));
        let types = b.with_module(|m| m.function(self.solve).result_types());
        let back = LinearSolve {
            matvec: transposed(cx, self.matvec, parameters)?,
            solve: cx.derive(|regions, m| completed(regions, m, self.transposed))?,
            transposed: self.solve,
        };
        let mut args: Vec<Atom> = x[..parameters].iter().filter_map(Arg::known).collect();
        args.extend(ct.iter().zip(&types).map(|(ct, ty)| instantiate(b, *ct, ty)));
        for (i, ct) in (parameters..x.len()).zip(b.emit(back, &args)) {
            if let Arg::Linear(_) = x[i] {
                into.add(b, i, ct);
            }
        }
        Ok(())
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem> {
        let b = cx.b;
        let (parameters, unknowns) = b.with_module(|m| self.counts(m));
        // Batch all right-hand sides, because every batch member has its own solution.
        let mut mask = batched.to_vec();
        mask[parameters..].fill(true);
        let args: Vec<Atom> = (x.iter().zip(batched).zip(&mask))
            .map(|((x, is), must)| match must & !is {
                true => elementwise::materialize_lead(b, size, *x),
                false => *x,
            })
            .collect();
        let op = LinearSolve {
            solve: lift(cx, size, self.solve, &mask)?,
            transposed: lift(cx, size, self.transposed, &mask)?,
            matvec: lift(cx, size, self.matvec, &mask)?,
        };
        Ok(Batched { y: b.emit(op, &args), batched: vec![true; unknowns].into() })
    }

    fn regions(&self) -> RegionList {
        let rules = [self.transposed, self.matvec].map(|f| Role::Rule.of(f));
        let mut regions: RegionList = smallvec![Role::Ruled.of(self.solve)];
        regions.extend(rules);
        regions
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        match *functions {
            [solve, transposed, matvec] => LinearSolve { solve, transposed, matvec }.into(),
            _ => self.clone().into(),
        }
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        // Solving for some of the unknowns needs the others too, so nothing is pruned.
        Ok(Prune::Whole)
    }

    fn lower(&self, _: &Module, _: &[Operand<'_>]) -> Lowering {
        Lowering::Call(self.solve)
    }

    fn effects(&self, module: &Module) -> Effects {
        module.effects(self.solve)
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples(module: &mut Module) -> Vec<Sample> {
        samples::linear_solve(module).into_iter().collect()
    }
}
