//! `root{solve, residual, tangent, cotangent}`: the solution of an equation.
//!
//! ```text
//! solve:     k.. -> y..                   r(k.., y..) = 0
//! residual:  (k.., y..) -> r..
//! tangent:   (k.., y.., b..) -> v..       A v = b,   A = ∂r/∂y at (k, y)
//! cotangent: (k.., y.., c..) -> u..       Aᵀ u = c
//! ```
//!
//! Evaluation runs `solve`. `r(k, y(k)) = 0` implies `A dy = - (∂r/∂k) dk`, a [`super::LinearSolve`] at the
//! solution.
//!
//! Source: JAX's `custom_root`; the implicit function theorem.

use super::super::{
    Arg, Batched, Cotangents, Doc, Dual, Effects, Family, Linearity, Lowering, Op, Operand,
    Primitive, Prune, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Scalar, Types,
};
use super::{LinearSolve, TangentMode, check, check_floats, lift, samples};
use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::value::Value;
use crate::prim::control::call;
use crate::prim::rules::region_helpers::instantiate;
use smallvec::smallvec;

/// The solution of an equation by a given solver. Its text is `root{solve, residual, tangent, cotangent}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Root {
    /// The solver: `k.. -> y..`, for parameters `k` and unknowns `y`.
    pub solve: FuncId,
    /// The equation's residual `r(k, y)`: `(k.., y..) -> r..`, zero at the solution.
    pub residual: FuncId,
    /// The solver of the linear system `A v = b` with `A = ∂r/∂y`: `(k.., y.., b..) -> v..`.
    pub tangent: FuncId,
    /// The solver of `Aᵀ u = c`, which reverse mode needs: `(k.., y.., c..) -> u..`, for parameters `k`, the solution
    /// `y` and `A = ∂r/∂y`.
    pub cotangent: FuncId,
}

notation!(Root = "root" { solve, residual, tangent, cotangent });

impl Root {
    /// Emits the tangent `dy` of the solution `y`: it solves `A dy = - (∂r/∂k) dk` with `A = ∂r/∂y`.
    fn derivative(
        &self,
        cx: &mut RuleCx<'_, '_>,
        along: TangentMode,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        let b = cx.b;
        let y = b.emit(self.clone(), x);
        let at: Vec<Atom> = x.iter().chain(&y).copied().collect();
        let mut moved = dx.to_vec();
        moved.resize(at.len(), None);
        let dr = along.of(cx, self.residual, &at, &moved)?;
        if dr.iter().all(Option::is_none) {
            return Ok(Dual { dy: vec![None; y.len()].into(), y });
        }
        let system = LinearSolve {
            solve: self.tangent,
            transposed: self.cotangent,
            matvec: self.matvec(cx)?,
        };
        let right = dr.iter().zip(&y).map(|(dr, y)| instantiate(b, *dr, &b.type_of(*y)));
        let args: Vec<Atom> = at.iter().copied().chain(right).collect();
        let negated = |v: Atom| Some(b.emit1(Scalar::Neg, &[v]));
        let dy = b.emit(system, &args).into_iter().map(negated).collect();
        Ok(Dual { y, dy })
    }

    /// Returns the function `(k.., y.., v..) -> (∂r/∂y) v`: the derivative of the residual `r(k, y)` in the unknowns
    /// `y`, times a vector `v`. `k` are the parameters of the equation.
    fn matvec(&self, cx: &mut RuleCx<'_, '_>) -> Result<FuncId, Problem> {
        cx.derive(|regions, m| {
            let f = m.function(self.residual);
            let (all, unknowns) = (f.params.len(), f.results.len());
            let active: Vec<bool> = (0..all).map(|i| i + unknowns >= all).collect();
            let of = regions.jvp(m, self.residual, &active, &vec![true; unknowns])?;
            let tangents: Vec<bool> = (0..2 * unknowns).map(|i| i >= unknowns).collect();
            Ok(regions.prune(m, of.function, &tangents, &vec![true; all + unknowns])?.function)
        })
    }
}

impl Primitive for Root {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Calls,
            name: "root{solve, residual, tangent, cotangent}".into(),
            math: "y.. with r(k.., y..) = 0".into(),
            types: "those of the solver; floats out".into(),
            derivative: "(∂r/∂y) dy = - (∂r/∂k) dk, by linear_solve".into(),
            edges: "where ∂r/∂y is singular there is no derivative".into(),
        }]
    }

    fn outputs(&self, module: &Module) -> usize {
        module.function(self.solve).results.len()
    }

    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        let f = module.function(self.solve);
        let (k, y) = (f.param_types(), f.result_types());
        check_floats("root", &y)?;
        check(module, "solver", self.solve, &[&k], &y)?;
        check(module, "equation", self.residual, &[&k, &y], &y)?;
        check(module, "solver of tangents", self.tangent, &[&k, &y, &y], &y)?;
        check(module, "solver of cotangents", self.cotangent, &[&k, &y, &y], &y)?;
        call::check_arguments(&f.name, &k, operands)?;
        Ok(y.into())
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

    fn is_linear(&self, _: &Module, _: &[Linearity]) -> bool {
        false
    }

    fn transpose(
        &self,
        _: &mut RuleCx<'_, '_>,
        _: &[Arg],
        _: &[Option<Atom>],
        _: &mut Cotangents,
    ) -> Result<(), Problem> {
        Err(Problem::internal("`root` is not linear"))
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem> {
        let unknowns = cx.b.with_module(|m| self.outputs(m));
        let with = |times: usize| {
            let more = std::iter::repeat_n(true, times * unknowns);
            batched.iter().copied().chain(more).collect::<Vec<bool>>()
        };
        let op = Root {
            solve: lift(cx, size, self.solve, batched)?,
            residual: lift(cx, size, self.residual, &with(1))?,
            tangent: lift(cx, size, self.tangent, &with(2))?,
            cotangent: lift(cx, size, self.cotangent, &with(2))?,
        };
        Ok(Batched { y: cx.b.emit(op, x), batched: vec![true; unknowns].into() })
    }

    fn regions(&self) -> RegionList {
        let rules = [self.residual, self.tangent, self.cotangent].map(|f| Role::Rule.of(f));
        let mut regions: RegionList = smallvec![Role::Ruled.of(self.solve)];
        regions.extend(rules);
        regions
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        match *functions {
            [solve, residual, tangent, cotangent] => {
                Root { solve, residual, tangent, cotangent }.into()
            }
            _ => self.clone().into(),
        }
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        // Nothing is pruned, because the equation involves all unknowns.
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
        samples::root(module).into_iter().collect()
    }
}
