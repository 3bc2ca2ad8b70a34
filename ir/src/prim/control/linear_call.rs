//! `linear_call{apply, transpose, residuals}`: a linear map given by two programs, one for the map and one for
//! its transpose.
//!
//! The operands are the residuals, followed by the linear operands.
//!
//! ```text
//! apply:     (residuals.., x..) -> y..
//! transpose: (residuals.., ct of y..) -> ct of x..
//! ```
//!
//! Evaluation runs `apply`; transposition exchanges the two programs. That both represent the same matrix is
//! not checked. The reverse rule of a custom function enters derivative programs in this way (see
//! [`crate::prim::CustomCall`]). One of the two may be absent; then using it is an error. This is right for a
//! reverse rule that is not linear (one that clips gradients, for example) and so has no forward counterpart.
//!
//! Source: JAX's `custom_derivatives.linear_call`.

use crate::lang::builder::{Builder, Draft};
use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::types::Type;
use crate::lang::value::Value;
use crate::prim::rules::region_helpers::{as_operands, fits, instantiate, signature};
use crate::prim::rules::split_linear::{Present, present, with_results};
use crate::prim::{
    Arg, Batched, Call, Cotangents, Doc, Dual, Effects, Family, Linearity, Lowering, Op, Operand,
    Primitive, Prune, Reduce, Reducer, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Types,
};
use crate::tensor::Tensor;

/// A linear map given by a function and a function for its transpose. Its text is
/// `linear_call{apply, transpose, residuals}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct LinearCall {
    /// The function that computes the linear map: `(residuals.., x..) -> y..`.
    pub apply: Option<FuncId>,
    /// The function that computes the transpose of the linear map:
    /// `(residuals.., cotangents of y..) -> cotangents of x..`.
    pub transpose: Option<FuncId>,
    /// The number of operands that are residuals.
    pub residuals: usize,
}

notation!(LinearCall = "linear_call" { apply, transpose, residuals });

/// The types of a linear map's residuals, linear operands and outputs, in this order.
type Signature = (Vec<Type>, Vec<Type>, Vec<Type>);

impl LinearCall {
    /// Returns the types of residuals, linear operands and results, from the function `apply` or else from `transpose`;
    /// an error if the two disagree or both are absent.
    fn signature(&self, module: &Module) -> Result<Signature, Problem> {
        let of = |f: FuncId, forward: bool| {
            let f = module.function(f);
            let (mut k, results) = (f.param_types(), f.result_types());
            if k.len() < self.residuals {
                return Err(Problem::new(
                    Kind::Rule,
                    format!(
                        "@{} takes {} arguments, fewer than {} residuals",
                        f.name,
                        k.len(),
                        self.residuals
                    ),
                    "a linear map takes its residuals, then its linear operands",
                ));
            }
            let rest = k.split_off(self.residuals);
            Ok(if forward { (k, rest, results) } else { (k, results, rest) })
        };
        match (self.apply, self.transpose) {
            (Some(apply), None) => of(apply, true),
            (None, Some(transpose)) => of(transpose, false),
            (None, None) => Err(Problem::new(
                Kind::Rule,
                "`linear_call` has neither a map nor a transpose",
                "give it at least one",
            )),
            (Some(apply), Some(transpose)) => {
                let (one, other) = (of(apply, true)?, of(transpose, false)?);
                if one == other {
                    return Ok(one);
                }
                let (f, g) = (module.function(apply), module.function(transpose));
                Err(Problem::new(
                    Kind::Rule,
                    format!(
                        "@{} and @{} are not of transposed types: {} and {}",
                        f.name,
                        g.name,
                        signature(f),
                        signature(g),
                    ),
                    "a map from (k, x) to y has a transpose from (k, y) to x",
                ))
            }
        }
    }

    /// Returns an ordinary call of the function `apply`, which computes this linear map, or an error if only the map's
    /// transpose was given.
    fn call(&self, module: &Module) -> Result<Call, Problem> {
        let function = self.apply.ok_or_else(|| self.missing(module))?;
        Ok(Call::inline(function))
    }

    fn missing(&self, module: &Module) -> Problem {
        let name = self.transpose.map_or("", |t| &*module.function(t).name);
        Problem::new(
            Kind::NotDifferentiable,
            format!(
                "the reverse rule @{name} cannot be run forward: it is not linear in the cotangents"
            ),
            "give the function a jvp rule for forward mode, or use reverse mode only",
        )
    }

    /// Returns whether `apply` has passed the check that it is linear (it then has linear parameters), or is
    /// absent.
    fn is_verified(&self, module: &Module) -> bool {
        self.apply.is_none_or(|f| !module.function(f).linear_params.is_empty())
    }

    /// Emits forward mode for a call of a linear map: its outputs at the operands x, and as their tangents the same map
    /// at the tangents `dx`. Returns `None` if the map is not verified to be linear, or a residual has a tangent.
    fn itself(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Option<Dual>, Problem> {
        let moved = dx[..self.residuals].iter().any(Option::is_some);
        if moved || !cx.b.with_module(|m| self.is_verified(m)) {
            return Ok(None);
        }
        let b = cx.b;
        let y = b.emit(self.clone(), x);
        let (some, nonzero) = self.of_operands(cx, &dx[self.residuals..])?;
        let mut args = x[..self.residuals].to_vec();
        args.extend(dx[self.residuals..].iter().flatten());
        let dy = b.emit(some, &args).into_iter().zip(nonzero);
        Ok(Some(Dual { y, dy: dy.map(|(dy, on)| on.then_some(dy)).collect() }))
    }

    /// Returns the linear map restricted to the operands whose tangents `dx` are not zero, and for each output whether
    /// its tangent may be nonzero.
    fn of_operands(
        &self,
        cx: &mut RuleCx<'_, '_>,
        dx: &[Option<Atom>],
    ) -> Result<(LinearCall, Vec<bool>), Problem> {
        let there: Vec<bool> = dx.iter().map(Option::is_some).collect();
        let transpose = self.transpose;
        let transpose =
            transpose.map(|f| cx.derive(|regions, m| with_results(regions, m, f, &there)));
        let transpose = transpose.transpose()?;
        let Some(apply) = self.apply else {
            let outputs = cx.b.with_module(|m| self.outputs(m));
            return Ok((LinearCall { transpose, ..self.clone() }, vec![true; outputs]));
        };
        let Present { function, nonzero } = self.specialised(cx, apply, &there)?;
        // `apply` was verified to be linear, so `None` here is a bug.
        let unknown = || Problem::internal("a linear map is not linear in some of its operands");
        let apply = Some(function.ok_or_else(unknown)?);
        Ok((LinearCall { apply, transpose, ..self.clone() }, nonzero))
    }

    /// Specialises the function `apply` or `transpose` to the linear operands marked in `there`; the other linear
    /// operands are zero.
    fn specialised(
        &self,
        cx: &mut RuleCx<'_, '_>,
        program: FuncId,
        there: &[bool],
    ) -> Result<Present, Problem> {
        let of_all = |on: &dyn Fn(usize) -> bool| -> Vec<bool> {
            let known = (0..self.residuals).map(|_| false);
            known.chain((0..there.len()).map(on)).collect()
        };
        let (linear, some) = (of_all(&|_| true), of_all(&|i| there[i]));
        cx.derive(|regions, m| present(regions, m, program, [&linear, &some], 0))
    }
}

impl Primitive for LinearCall {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Calls,
            name: "linear_call{apply, transpose, residuals}".into(),
            math: "y.. = A(k..) x..".into(),
            types: "those of apply; transpose maps (k.., ct of y..) to ct of x..".into(),
            derivative:
                "∂x: itself; its transpose exchanges apply and transpose; ∂k: that of apply".into(),
            edges: "where apply is absent, running it is an error; likewise transpose".into(),
        }]
    }

    fn outputs(&self, module: &Module) -> usize {
        self.signature(module).map_or(0, |(_, _, y)| y.len())
    }

    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        let (k, x, y) = self.signature(module)?;
        if let Some(ty) = x.iter().chain(&y).find(|t| !t.is_linear()) {
            return Err(Problem::new(
                Kind::Rule,
                format!("a linear map has a linear operand or an output of type {ty}"),
                "only floats are linear; make it a residual",
            ));
        }
        super::call::check_arguments("linear_call", &[k, x].concat(), operands)?;
        Ok(y.into())
    }

    fn run(&self, module: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem> {
        self.call(module)?.run(module, operands)
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        let call = cx.b.with_module(|m| self.call(m))?;
        match self.itself(cx, x, dx)? {
            Some(dual) => Ok(dual),
            None => call.jvp(cx, x, dx),
        }
    }

    fn linearize(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        match self.itself(cx, x, dx)? {
            Some(dual) => Ok(dual),
            None => cx.b.with_module(|m| self.call(m))?.linearize(cx, x, dx),
        }
    }

    fn is_linear(&self, _: &Module, operands: &[Linearity]) -> bool {
        fits(self.residuals, operands.iter().copied().enumerate())
    }

    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<(), Problem> {
        let b = cx.b;
        let (_, _, y) = b.with_module(|m| self.signature(m))?;
        let mut args: Vec<Atom> = x[..self.residuals].iter().filter_map(Arg::known).collect();
        let there: Vec<bool> = ct.iter().map(Option::is_some).collect();
        let of = match self.transpose {
            Some(transpose) => self.specialised(cx, transpose, &there)?,
            None => Present { function: None, nonzero: vec![true; x.len() - self.residuals] },
        };
        let back = match of.function {
            // A zero cotangent is absent, so the transposed map has no parameter for it.
            Some(function) => {
                args.extend(ct.iter().flatten());
                let apply = self.apply;
                let apply =
                    apply.map(|f| cx.derive(|regions, m| with_results(regions, m, f, &there)));
                LinearCall { apply: Some(function), transpose: apply.transpose()?, ..self.clone() }
            }
            // If `transpose` is not linear, it cannot be specialised: pass zeros for absent cotangents.
            None => {
                args.extend(ct.iter().zip(&y).map(|(ct, ty)| instantiate(b, *ct, ty)));
                LinearCall { apply: self.transpose, transpose: self.apply, ..self.clone() }
            }
        };
        let slots = (self.residuals..x.len()).zip(of.nonzero);
        for ((i, on), ct) in slots.zip(b.emit(back, &args)) {
            if let (Arg::Linear(_), true) = (&x[i], on) {
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
        let (_, _, y) = cx.b.with_module(|m| self.signature(m))?;
        let every = vec![true; y.len()];
        let mut op = self.clone();
        if let Some(apply) = self.apply {
            let wanted = as_operands(&every);
            let of = cx.derive(|regions, m| regions.batch(m, apply, size, batched, &wanted))?;
            op.apply = Some(of.function);
        }
        if let Some(transpose) = self.transpose {
            // The cotangent of a linear operand that all batch members share is the sum over the members.
            let (k, x) = batched.split_at(self.residuals);
            let (mask, wanted) = ([k, &every].concat(), as_operands(x));
            let of = cx.derive(|regions, m| regions.batch(m, transpose, size, &mask, &wanted))?;
            op.transpose = Some(of.function);
        }
        Ok(Batched { y: cx.b.emit(op, x), batched: every.into() })
    }

    fn regions(&self) -> RegionList {
        let apply = self.apply.map(|f| Role::Ruled.of(f));
        apply.into_iter().chain(self.transpose.map(|f| Role::Rule.of(f))).collect()
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        let mut next = functions.iter().copied();
        let mut program = |old: Option<FuncId>| old.and_then(|_| next.next());
        let (apply, transpose) = (program(self.apply), program(self.transpose));
        LinearCall { apply, transpose, residuals: self.residuals }.into()
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        // `apply` and `transpose` must have matching signatures, so no operand or output is pruned.
        Ok(Prune::Whole)
    }

    fn lower(&self, module: &Module, _: &[Operand<'_>]) -> Lowering {
        match self.apply {
            Some(apply) => Lowering::Call(apply),
            None => Lowering::Missing(self.missing(module)),
        }
    }

    fn effects(&self, module: &Module) -> Effects {
        self.apply.map_or(Effects::Pure, |f| module.effects(f))
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples(module: &mut Module) -> Vec<Sample> {
        // Sample: the linear map of x0 and x1 to `k * x0 + sum(x1)`, where k is a residual, and its transpose.
        let mut make = |name: &str, params: &[&[usize]], forward: bool| {
            use crate::prim::{Broadcast, Scalar};
            let mut draft = Draft::new(name);
            let f64s = |shape: &[usize]| Type::array(crate::lang::types::Dtype::F64, shape);
            let p: Vec<Atom> = params.iter().map(|s| draft.param(f64s(s))).collect();
            let b = Builder::new(module, &mut draft);
            let scaled = b.emit1(Scalar::Mul, &[p[0], p[1]]);
            let results = if forward {
                let spread = Broadcast { shape: [2].into(), dims: vec![] };
                let sum = b.emit1(Reduce { reducer: Reducer::Sum, axes: vec![0] }, &[p[2]]);
                vec![b.emit1(Scalar::Add, &[scaled, b.emit1(spread, &[sum])])]
            } else {
                let sum = b.emit1(Reduce { reducer: Reducer::Sum, axes: vec![0] }, &[p[1]]);
                vec![scaled, b.emit1(Broadcast { shape: [3].into(), dims: vec![] }, &[sum])]
            };
            draft.finish(module, results).ok()
        };
        let apply = make("apply", &[&[2], &[2], &[3]], true);
        let transpose = make("transpose", &[&[2], &[2]], false);
        let operands = vec![
            Tensor::from([1.5, -2.0]),
            Tensor::from([0.5, 3.0]),
            Tensor::from([0.25, -1.0, 2.0]),
        ];
        let op = LinearCall { apply, transpose, residuals: 1 };
        vec![Sample::smooth(op, operands)]
    }
}
