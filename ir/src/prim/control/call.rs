//! `call{function, outline, checkpoint}`: calls another function.
//!
//! Transforms inside a trace emit calls, so that the size of a program grows linearly with the nesting of derivatives.
//! A pass inlines these calls. A call marked `outline` is not inlined: the user asked for one copy of the function. Its
//! derivatives are calls of the derived functions, marked likewise. Callers that read different results share one
//! function, unless a function with fewer results saves real work. Callers with different sets of nonzero tangents do
//! not share one, because a materialised zero tangent differs from an absent one: at a pole it gives `0 · inf`.
//!
//! A call marked `checkpoint` is the boundary of a policy: reverse mode saves the function's residuals that the
//! policy names ([`Policy`]). The call is not inlined as long as it may still be differentiated.

use crate::OrderedSet;
use crate::lang::function::{Atom, Equation, FuncId, ValueId};
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::query::{AccumulateInto, PruneOf, Residual};
use crate::lang::types::Type;
use crate::lang::value::Value;
use crate::policy::{Amortization, PlanRequest};
use crate::policy_table::{Planner, Policy};
use crate::prim::facet::Facet;
use crate::prim::rules::region_helpers::{fits, function, scatter_tangents};
use crate::prim::{
    Arg, Batched, Cotangents, Doc, Dual, Effects, Family, Linearity, Lowering, Op, Operand,
    Primitive, Prune, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Types,
};
use crate::tensor::Tensor;
use smallvec::smallvec;

/// A call of another function. Its text is `call{function, outline, checkpoint}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Call {
    /// The called function; the call's operands are its arguments.
    pub function: FuncId,
    /// Whether the call stays a call in the compiled program instead of being inlined.
    pub outline: bool,
    /// The checkpointing policy for the residuals of the function. If there is none, the plan of the calling program
    /// chooses the residuals.
    pub checkpoint: Option<Policy>,
}

notation!(Call = "call" { function, outline, checkpoint });

impl Op {
    /// Returns a call of `function` that is the boundary of a checkpointing policy: reverse mode saves the residuals
    /// that `policy` names.
    pub fn checkpoint(function: FuncId, policy: Policy) -> Op {
        Call::checkpoint(function, policy).into()
    }

    /// Returns the checkpointing policy, if the primitive is a call that has one.
    pub fn policy(&self) -> Option<&Policy> {
        let Facet::Call(call) = self.facet() else { return None };
        call.checkpoint.as_ref()
    }
}

impl Call {
    /// Returns a call of `function` that a pass may replace by the function's body.
    pub fn inline(function: FuncId) -> Call {
        Call { function, outline: false, checkpoint: None }
    }

    /// Returns a call of `function` that no pass replaces by the function's body.
    pub fn outline(function: FuncId) -> Call {
        Call { function, outline: true, checkpoint: None }
    }

    /// Returns a call of `function` that is the boundary of a checkpointing policy: reverse mode saves the residuals
    /// that `policy` names.
    pub fn checkpoint(function: FuncId, policy: Policy) -> Call {
        Call { function, outline: false, checkpoint: Some(policy) }
    }

    fn to(&self, function: FuncId) -> Call {
        Call { function, ..self.clone() }
    }
}

impl Primitive for Call {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Calls,
            name: "call{function, outline, checkpoint}".into(),
            math: "y.. = f(x..)".into(),
            types: "those of the function".into(),
            derivative: "calls of the derived functions".into(),
            edges: "linear parameters of the function come last; `checkpoint` is the policy for \
                    the residuals that reverse mode saves"
                .into(),
        }]
    }

    fn outputs(&self, module: &Module) -> usize {
        module.function(self.function).results.len()
    }

    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        let f = module.function(self.function);
        check_arguments(&f.name, &f.param_types(), operands)?;
        Ok(f.result_types().into())
    }

    fn run(&self, module: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem> {
        crate::lang::eval::eval_values(module, self.function, operands)
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        let active: Vec<bool> = dx.iter().map(Option::is_some).collect();
        let of = cx.derive(|regions, m| regions.jvp(m, self.function, &active, &[]))?;
        let args: Vec<Atom> = x.iter().copied().chain(dx.iter().flatten().copied()).collect();
        let outputs = cx.b.emit(self.to(of.function), &args);
        let (y, dy) = outputs.split_at(of.active_out.len());
        Ok(Dual { y: y.into(), dy: scatter_tangents(&of.active_out, dy).into() })
    }

    fn linearize(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        let active: Vec<bool> = dx.iter().map(Option::is_some).collect();
        let bits = self.checkpoint.as_ref().map_or(cx.context().bits, |p| p.row().bits);
        let shares: Vec<Amortization> = (0..x.len()).map(|i| cx.share(i).in_bits(bits)).collect();
        let of = cx.derive(|regions, m| {
            if let Some(policy) = &self.checkpoint
                && policy.row().planner != Planner::Cut
            {
                return regions.within(m, self.function, &active, &shares, policy);
            }
            let of = regions.linearize(m, self.function, &active, &[], &shares)?;
            match &self.checkpoint {
                Some(policy) => regions.plan(m, of, PlanRequest::call(policy.clone())),
                None => Ok(of),
            }
        })?;
        let checkpoint = self.checkpoint.as_ref().map(Policy::derived);
        let half =
            |function| Call { function, outline: self.outline, checkpoint: checkpoint.clone() };
        let mut y = cx.b.emit(half(of.fwd), x);
        let mut args = Residual::pick(&of.residuals, x, &y);
        let (lin, tangents) = cx.b.with_module(|m| each_once(m, of.lin, dx))?;
        args.extend(&tangents);
        let mut dy = cx.b.emit(half(lin), &args);
        // If the linear function returns one of its tangents unchanged, use the operand directly. Then its cotangents
        // are added in the same order as without the call.
        let lin = cx.b.with_module(|m| m.get(lin));
        for (result, dy) in lin.results.iter().zip(dy.iter_mut()) {
            let mut params = lin.linear_params.iter().zip(&tangents);
            if let Some((_, dx)) = params.find(|(p, _)| result.value() == Some(**p)) {
                *dy = *dx;
            }
        }
        y.truncate(of.active_out.len());
        Ok(Dual { y, dy: scatter_tangents(&of.active_out, &dy).into() })
    }

    fn is_linear(&self, module: &Module, operands: &[Linearity]) -> bool {
        let known = module.function(self.function).params.len();
        fits(known, operands.iter().copied().enumerate())
    }

    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<(), Problem> {
        let b = cx.b;
        let nonzero: Vec<bool> = ct.iter().map(Option::is_some).collect();
        let known = x.len() - b.with_module(|m| m.function(self.function).linear_params.len());
        // If cotangents of an operand have already been added up, pass this total into the callee, which then adds to
        // the elements that it reads instead of returning a whole array.
        let running =
            |i: usize, into: &Cotangents| matches!(x[i], Arg::Linear(_)) && into.total[i].is_some();
        let onto: Vec<AccumulateInto> = (known..x.len())
            .map(|i| if running(i, into) { AccumulateInto::Total } else { AccumulateInto::Nothing })
            .collect();
        let of = cx.derive(|regions, m| regions.transpose(m, self.function, &nonzero, &onto))?;
        let mut args: Vec<Atom> = x[..known].iter().filter_map(Arg::known).collect();
        args.extend(into.hand_over(b, ct, x, known, &onto));
        let slots = (known..x.len()).zip(&of.nonzero).filter(|(_, on)| **on).map(|(i, _)| i);
        for (i, back) in slots.zip(b.emit(self.to(of.function), &args)) {
            if let Arg::Linear(_) = x[i] {
                into.add(b, i, back);
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
        let of = cx.derive(|regions, m| regions.batch(m, self.function, size, batched, &[]))?;
        // The policy's budget is in bytes per batch member, so multiply it by the batch size.
        let checkpoint = self.checkpoint.as_ref().map(|policy| policy.times(size));
        let y = cx.b.emit(Call { checkpoint, ..self.to(of.function) }, x);
        Ok(Batched { y, batched: of.batched_out.into() })
    }

    fn regions(&self) -> RegionList {
        let role = match (self.outline, &self.checkpoint) {
            (true, _) => Role::Outline,
            (false, Some(_)) => Role::Checkpoint,
            (false, None) => Role::Inline,
        };
        smallvec![role.of(self.function)]
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        self.to(functions.first().copied().unwrap_or(self.function)).into()
    }

    fn prune(
        &self,
        regions: &mut dyn Regions,
        module: &mut Module,
        used: &[bool],
    ) -> Result<Prune, Problem> {
        let of = regions.prune(module, self.function, used, &[])?;
        if self.outline && !saves(module, self.function, &of) {
            return Ok(Prune::Whole);
        }
        let op = self.to(of.function).into();
        Ok(Prune::Smaller { op, operands: of.params, outputs: used.to_vec() })
    }

    fn lower(&self, _: &Module, _: &[Operand<'_>]) -> Lowering {
        Lowering::Call(self.function)
    }

    fn effects(&self, module: &Module) -> Effects {
        module.effects(self.function)
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples(module: &mut Module) -> Vec<Sample> {
        use crate::lang::builder::{Builder, Draft};
        use crate::lang::types::Dtype;
        use crate::prim::Scalar;
        let mut draft = Draft::new("sample");
        let x = draft.param(Type::array(Dtype::F64, &[2]));
        let y = draft.param(Type::array(Dtype::F64, &[2]));
        let b = Builder::new(module, &mut draft);
        let product = b.emit1(Scalar::Mul, &[x, y]);
        let sum = b.emit1(Scalar::Add, &[product, x]);
        let Ok(function) = draft.finish(module, vec![product, sum]) else { return Vec::new() };
        let operands = vec![Tensor::from([1.5, -2.0]), Tensor::from([0.5, 3.0])];
        // Rounded residuals are excluded: a derivative computed from them would not match finite differences.
        let exact = Policy::samples().into_iter().filter(|policy| *policy != Policy::Rounded);
        let kept = exact.map(|policy| Call::checkpoint(function, policy));
        let calls = [Call::inline(function), Call::outline(function)].into_iter().chain(kept);
        calls.map(|call| Sample::smooth(call, operands.clone())).collect()
    }
}

/// Merges those linear parameters of a call's linear function that take the same tangent. Returns the new linear
/// function and the distinct tangents. All reads of a tangent in the callee then add to one total, in the same order as
/// without the call.
fn each_once(
    module: &mut Module,
    lin: FuncId,
    dx: &[Option<Atom>],
) -> Result<(FuncId, Vec<Atom>), Problem> {
    let all: Vec<Atom> = dx.iter().flatten().copied().collect();
    let once: OrderedSet<Atom> = all.iter().copied().collect();
    if once.len() == all.len() {
        return Ok((lin, all));
    }
    let f = module.get(lin);
    let types = |all: &[ValueId]| all.iter().map(|p| f.types[*p].clone()).collect::<Vec<Type>>();
    let at = |a: &Atom| once.get_index_of(a).unwrap_or(0);
    let places: Vec<usize> = all.iter().map(at).collect();
    let first = |i: usize| places.iter().position(|place| *place == i).unwrap_or(0);
    let own: Vec<ValueId> = (0..once.len()).map(|i| f.linear_params[first(i)]).collect();
    let merged = function(module, &f.name, [&types(&f.params), &types(&own)], |b, k, dx| {
        let args: Vec<Atom> = k.iter().copied().chain(places.iter().map(|i| dx[*i])).collect();
        b.inline(lin, &args).to_vec()
    })?;
    Ok((merged, once.into_iter().collect()))
}

/// Returns whether a part of an outlined function, with fewer results, is worth a separate function: it needs
/// fewer parameters, calls other functions, or saves more than [`LEAST_SAVED`] of the work. Otherwise callers
/// that read different results share the whole function.
fn saves(module: &Module, whole: FuncId, part: &PruneOf) -> bool {
    let called = |f: FuncId| {
        let equations = module.function(f).equations.iter();
        equations.flat_map(|e| e.op.regions()).map(|r| r.function).collect::<Vec<_>>()
    };
    let (before, after) = (work(module, whole), work(module, part.function));
    part.params.contains(&false)
        || called(whole) != called(part.function)
        || before - after > before * LEAST_SAVED
}

/// The fraction of a function's work that a variant with fewer results must save to be worth a separate function.
const LEAST_SAVED: f64 = 0.125;

/// Returns the work of a function: the number of elements that its equations read and write, and that it returns.
fn work(module: &Module, f: FuncId) -> f64 {
    let f = module.function(f);
    let elements = |ty: &Type| ty.as_array().map_or(0.0, |a| a.shape.elements() as f64);
    let value = |v: ValueId| elements(&f.types[v]);
    let read = |e: &Equation| e.operands.iter().filter_map(|a| a.value()).map(value).sum::<f64>();
    let made = |e: &Equation| e.outputs.iter().copied().map(value).sum::<f64>();
    let returned = f.result_types().iter().map(elements).sum::<f64>();
    f.equations.iter().map(|e| read(e) + made(e)).sum::<f64>() + returned
}

/// Checks that the operands of a call have the types of the function's parameters.
pub(crate) fn check_arguments(
    name: &str,
    params: &[Type],
    operands: &[Operand<'_>],
) -> Result<(), Problem> {
    if params.len() != operands.len() {
        return Err(Problem::new(
            Kind::Arguments,
            format!("@{name} takes {} arguments, got {}", params.len(), operands.len()),
            "",
        ));
    }
    for (i, (want, got)) in params.iter().zip(operands).enumerate() {
        if want != got.ty {
            return Err(Problem::new(
                Kind::Arguments,
                format!("argument {i} of @{name} must be {want}, got {}", got.ty),
                "",
            ));
        }
    }
    Ok(())
}
