//! `custom_call{function, jvp, fwd, bwd}`: a function with its own derivative rules.
//!
//! Evaluation runs `function`. Derivatives use the rules instead of the function's program:
//!
//! ```text
//! function: x.. -> y..
//! jvp:      (x.., dx..) -> (y.., dy..)
//! fwd:      x.. -> (y.., residuals..)
//! bwd:      (residuals.., ct of y..) -> ct of x..
//! ```
//!
//! Tangents and cotangents are those of the operands and outputs that have any (floats), in order.
//! The user writes a rule for all of them. If the rule is linear in them, it is specialised to the nonzero ones
//! ([`present`]): the tangent of an operand is absent if the operand is constant to the derivative, and the cotangent
//! of an output if nothing depends on the output. A rule that is not linear gets zeros in place of absent ones.
//!
//! The rule used by each mode:
//!
//! | given | forward mode | reverse mode |
//! |---|---|---|
//! | `jvp` | `jvp` | `jvp`, transposed |
//! | `fwd`, `bwd` | `bwd`, transposed | `fwd` and `bwd` |
//! | all | `jvp` | `fwd` and `bwd` |
//! | none | the function's program | the function's program |
//!
//! A jvp rule must be linear in the tangents. A bwd rule need not be linear in the cotangents (it may clip
//! them); then forward mode needs a jvp rule and is an error without one. Rules are ordinary programs: higher
//! derivatives differentiate the rules, and batching the function batches every rule.
//!
//! ```text
//! %2: f64[], %3: f64[] = custom_call{function=@f, jvp=@f.rule} %0, %1
//! ```
//!
//! Models: JAX's `custom_jvp` and `custom_vjp`, on one function.

use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::query::BatchRequest;
use crate::lang::types::Type;
use crate::lang::value::Value;
use crate::prim::rules::region_helpers::{
    self, arrow, as_operands, called, instantiate, scatter_tangents, signature,
};
use crate::prim::rules::split_linear::{
    Present, as_linear, depends, present, separated, transposed, with_results,
};
use crate::prim::{
    Arg, Batched, Call, Cotangents, Doc, Dual, Effects, Family, LinearCall, Linearity, Lowering,
    Op, Operand, Primitive, Prune, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Types,
};
use crate::tensor::Tensor;

/// A call of a function that has its own derivative rules. Its text is `custom_call{function, jvp, fwd, bwd}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct CustomCall {
    /// The function that evaluation runs: `x.. -> y..`.
    pub function: FuncId,
    /// The forward rule: `(x.., dx..) -> (y.., dy..)`.
    pub jvp: Option<FuncId>,
    /// The forward function of the reverse rule: `x.. -> (y.., residuals..)`. Given together with `bwd`.
    pub fwd: Option<FuncId>,
    /// The function of the reverse rule that the reverse pass runs: `(residuals.., ct of y..) -> ct of x..`.
    pub bwd: Option<FuncId>,
}

notation!(CustomCall = "custom_call" { function, jvp, fwd, bwd });

/// Returns the types of the tangents of values of these types, without those that have no tangent.
fn tangents(types: &[Type]) -> Vec<Type> {
    types.iter().filter_map(Type::tangent).collect()
}

/// A jvp rule as it is called: if possible, specialised to the operands whose tangents are not zero.
struct Ruled {
    function: FuncId,
    /// The tangents that are passed to the rule. Absent tangents are left out.
    tangents: Vec<Atom>,
    /// Per tangent that the rule returns: whether it may be nonzero.
    nonzero: Vec<bool>,
}

/// Returns, for each operand that can have a tangent, the type of its tangent, and the tangent unless it is zero.
fn tangent_slots(
    cx: &RuleCx<'_, '_>,
    x: &[Atom],
    dx: &[Option<Atom>],
) -> Vec<(Type, Option<Atom>)> {
    let types = x.iter().map(|a| cx.b.type_of(*a));
    types.zip(dx).filter_map(|(ty, dx)| Some((ty.tangent()?, *dx))).collect()
}

fn call(function: FuncId) -> Call {
    Call::inline(function)
}

/// Returns the error for a jvp rule that is not linear in its tangents. If `reason` is a budget error in the rule,
/// returns `reason` unchanged.
fn not_linear_in_tangents(module: &Module, jvp: FuncId, reason: Problem) -> Problem {
    if reason.kind == Kind::Budget {
        return reason;
    }
    Problem::new(
        Kind::NotLinear,
        format!(
            "the jvp rule @{} is not linear in the tangents: {}",
            module.function(jvp).name,
            reason.message
        ),
        "a tangent is a linear function of the tangents of the operands",
    )
}

impl CustomCall {
    /// Checks that the types of the rules fit the function; each error states the type that the rule must have.
    pub fn check(&self, module: &Module) -> Result<(), Problem> {
        let f = module.function(self.function);
        let (x, y) = (f.param_types(), f.result_types());
        let (dx, dy) = (tangents(&x), tangents(&y));
        let wrong = |rule: &str, g: FuncId, want: String| {
            let g = module.function(g);
            Problem::new(
                Kind::Rule,
                format!(
                    "the {rule} rule @{} of @{} must have the type {want}, found {}",
                    g.name,
                    f.name,
                    signature(g)
                ),
                "tangents and cotangents are those of float operands and outputs, in order",
            )
        };
        if let Some(jvp) = self.jvp {
            let (params, results) = ([&x[..], &dx].concat(), [&y[..], &dy].concat());
            let g = module.function(jvp);
            if g.param_types() != params || g.result_types() != results {
                return Err(wrong("jvp", jvp, arrow(&params, &results)));
            }
        }
        let (fwd, bwd) = match (self.fwd, self.bwd) {
            (None, None) => return Ok(()),
            (Some(fwd), Some(bwd)) => (fwd, bwd),
            (one, _) => {
                let (given, other) = if one.is_some() { ("fwd", "bwd") } else { ("bwd", "fwd") };
                return Err(Problem::new(
                    Kind::Rule,
                    format!("@{} has a {given} rule without a {other} rule", f.name),
                    "give both halves of the reverse rule, or a jvp rule",
                ));
            }
        };
        let kept = module.function(fwd).result_types();
        if module.function(fwd).param_types() != x || !kept.starts_with(&y) {
            let residuals = [&y[..], &kept[y.len().min(kept.len())..]].concat();
            return Err(wrong("fwd", fwd, arrow(&x, &residuals)));
        }
        let params = [&kept[y.len()..], &dy].concat();
        let back = module.function(bwd);
        if back.param_types() != params || back.result_types() != dx {
            return Err(wrong("bwd", bwd, arrow(&params, &dx)));
        }
        Ok(())
    }

    /// Returns the jvp rule, specialised to the operands with nonzero tangents `dx`.
    fn ruled(
        &self,
        cx: &mut RuleCx<'_, '_>,
        jvp: FuncId,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Ruled, Problem> {
        let slots = tangent_slots(cx, x, dx);
        let outputs = cx.b.with_module(|m| self.outputs(m));
        let linear: Vec<bool> = (0..x.len() + slots.len()).map(|i| i >= x.len()).collect();
        let there = slots.iter().map(|(_, dx)| dx.is_some());
        let there: Vec<bool> = x.iter().map(|_| false).chain(there).collect();
        let of = cx.derive(|regions, m| present(regions, m, jvp, [&linear, &there], outputs))?;
        let Present { function, nonzero } = of;
        let tangents = match function {
            Some(_) => slots.iter().filter_map(|(_, dx)| *dx).collect(),
            None => slots.iter().map(|(ty, dx)| instantiate(cx.b, *dx, ty)).collect(),
        };
        Ok(Ruled { function: function.unwrap_or(jvp), tangents, nonzero })
    }

    /// Pairs the outputs `y` with the tangents `dy` of the float outputs. `nonzero` says, per float output,
    /// whether its tangent may be nonzero.
    fn dual(&self, cx: &RuleCx<'_, '_>, y: &[Atom], dy: &[Atom], nonzero: &[bool]) -> Dual {
        let float: Vec<bool> = y.iter().map(|a| cx.b.type_of(*a).has_tangent()).collect();
        let mut dy = scatter_tangents(&float, dy);
        let slots = dy.iter_mut().zip(&float).filter(|(_, float)| **float);
        for ((dy, _), _) in slots.zip(nonzero).filter(|(_, on)| !**on) {
            *dy = None;
        }
        Dual { y: y.into(), dy: dy.into() }
    }

    /// Emits forward mode by the reverse rule: `y, k = fwd x` and `dy = bwdᵀ(k) dx`, with residuals `k`. The transpose
    /// of the map from `dx` to `dy` is `bwd`, restricted to the cotangents of operands with nonzero tangents. `run`
    /// says whether the map will be evaluated and not only transposed.
    fn through_reverse(
        &self,
        cx: &mut RuleCx<'_, '_>,
        (fwd, bwd): (FuncId, FuncId),
        x: &[Atom],
        dx: &[Option<Atom>],
        run: bool,
    ) -> Result<Dual, Problem> {
        let outputs = cx.b.with_module(|m| m.function(self.function).results.len());
        let residuals = cx.b.with_module(|m| m.function(fwd).results.len()) - outputs;
        let slots = tangent_slots(cx, x, dx);
        let there: Vec<bool> = slots.iter().map(|(_, dx)| dx.is_some()).collect();
        let back = cx.derive(|regions, m| with_results(regions, m, bwd, &there))?;
        let both = match transposed(cx, back, residuals) {
            Ok(apply) => LinearCall { apply: Some(apply), transpose: Some(back), residuals },
            Err(reason) if run => return Err(self.forward_missing(cx, bwd, &reason)),
            Err(_) => {
                let rules = |jvp| self.as_the_rules_say(cx, jvp, back, residuals, &there);
                match self.jvp.map(rules) {
                    Some(Ok(both)) => both,
                    // `bwd` is not linear, so forward mode emits a linear call that has only a transpose, `bwd`.
                    // Reverse mode uses the transpose; evaluating the call itself is an error.
                    Some(Err(_)) | None => {
                        LinearCall { apply: None, transpose: Some(back), residuals }
                    }
                }
            }
        };
        let y = cx.b.emit(call(fwd), x);
        let (y, k) = y.split_at(outputs);
        let operands = if both.residuals == residuals { &[] } else { x };
        let tangents: Vec<Atom> = slots.iter().filter_map(|(_, dx)| *dx).collect();
        let nonzero = cx.b.with_module(|m| both.apply.map(|f| depends(m, f, both.residuals)));
        let args = [k, operands, &tangents].concat();
        let dy = cx.b.emit(both, &args);
        let nonzero = nonzero.transpose()?.unwrap_or_else(|| vec![true; dy.len()]);
        Ok(self.dual(cx, y, &dy, &nonzero))
    }

    /// Returns the linear map `(k.., x..; dx..) -> dy..` of the jvp rule, with the bwd rule as its transpose,
    /// both restricted to the operands with nonzero tangents. The bwd rule is not linear in the cotangents here,
    /// so it is not the transpose of the jvp rule, and both are needed.
    fn as_the_rules_say(
        &self,
        cx: &mut RuleCx<'_, '_>,
        jvp: FuncId,
        bwd: FuncId,
        residuals: usize,
        there: &[bool],
    ) -> Result<LinearCall, Problem> {
        let function = self.function;
        cx.derive(|regions, m| {
            let (of, back) = (m.get(function), m.get(bwd));
            let x = of.param_types();
            let all = tangents(&x);
            let linear: Vec<bool> = (0..x.len() + all.len()).map(|i| i >= x.len()).collect();
            let some: Vec<bool> = x.iter().map(|_| false).chain(there.iter().copied()).collect();
            let rule = present(regions, m, jvp, [&linear, &some], of.results.len())?;
            let dx: Vec<Type> =
                all.into_iter().zip(there).filter(|(_, on)| **on).map(|(ty, _)| ty).collect();
            let (rule, linear) = match rule.function {
                Some(rule) => (rule, &linear[..x.len() + dx.len()]),
                None => (jvp, &linear[..]),
            };
            let map = as_linear(regions, m, rule, linear, of.results.len())
                .map_err(|reason| not_linear_in_tangents(m, jvp, reason))?;
            let back_types = back.param_types();
            let (k, ct) = back_types.split_at(residuals);
            let known = [k, &x].concat();
            let apply = region_helpers::function(
                m,
                &m.get(jvp).name.clone(),
                [&known, &dx],
                |b, known, dx| b.inline(map, &[&known[residuals..], dx].concat()),
            )?;
            let transpose = region_helpers::function(
                m,
                &back.name,
                [&[&known, ct].concat(), &[]],
                |b, args, _| {
                    let (k, rest) = args.split_at(residuals);
                    b.inline(bwd, &[k, &rest[x.len()..]].concat())
                },
            )?;
            Ok(LinearCall {
                apply: Some(apply),
                transpose: Some(transpose),
                residuals: residuals + x.len(),
            })
        })
    }

    fn forward_missing(&self, cx: &RuleCx<'_, '_>, bwd: FuncId, reason: &Problem) -> Problem {
        let name = |f: FuncId| cx.b.with_module(|m| m.function(f).name.clone());
        Problem::new(
            Kind::NotDifferentiable,
            format!(
                "@{} has a reverse rule only, and its forward derivative cannot be derived from @{}: {}",
                name(self.function),
                name(bwd),
                reason.message
            ),
            "give the function a jvp rule, or differentiate it in reverse mode",
        )
    }
}

impl Primitive for CustomCall {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Calls,
            name: "custom_call{function, jvp, fwd, bwd}".into(),
            math: "y.. = f(x..)".into(),
            types: "those of the function".into(),
            derivative: "the given rules; a missing rule is derived from them".into(),
            edges: "a bwd rule that is not linear in the cotangents has no forward mode, unless a jvp rule is given".into(),
        }]
    }

    fn outputs(&self, module: &Module) -> usize {
        module.function(self.function).results.len()
    }

    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        self.check(module)?;
        call(self.function).infer(module, operands)
    }

    fn run(&self, module: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem> {
        call(self.function).run(module, operands)
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        if let Some(jvp) = self.jvp {
            let rule = self.ruled(cx, jvp, x, dx)?;
            let out = cx.b.emit(call(rule.function), &[x, &rule.tangents].concat());
            let outputs = cx.b.with_module(|m| self.outputs(m));
            let (y, dy) = out.split_at(outputs);
            return Ok(self.dual(cx, y, dy, &rule.nonzero));
        }
        match self.fwd.zip(self.bwd) {
            Some(reverse) => self.through_reverse(cx, reverse, x, dx, true),
            None => call(self.function).jvp(cx, x, dx),
        }
    }

    fn linearize(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        if let Some(reverse) = self.fwd.zip(self.bwd) {
            return self.through_reverse(cx, reverse, x, dx, false);
        }
        let Some(jvp) = self.jvp else { return call(self.function).linearize(cx, x, dx) };
        let b = cx.b;
        let outputs = b.with_module(|m| self.outputs(m));
        let rule = self.ruled(cx, jvp, x, dx)?;
        // Inline the rule, so that the caller sees which of its equations depend on the tangents.
        let apart = cx.derive(|regions, m| {
            let params = m.function(rule.function).params.len();
            let linear: Vec<bool> = (0..params).map(|i| i >= x.len()).collect();
            separated(regions, m, rule.function, &linear, outputs)
        });
        let apart =
            apart.map_err(|reason| b.with_module(|m| not_linear_in_tangents(m, jvp, reason)))?;
        let out = b.open(apart, &[x, &rule.tangents].concat(), called);
        let (y, dy) = out.split_at(outputs);
        Ok(self.dual(cx, y, dy, &rule.nonzero))
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
        Err(Problem::internal("`custom_call` is not linear"))
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem> {
        let b = cx.b;
        let (inputs, outputs) = b.with_module(|m| {
            let f = m.function(self.function);
            (f.param_types(), f.result_types())
        });
        // Make every output batched, in the function and in all rules. If all members share an operand, they share its
        // tangent, and its cotangent is summed over the batch.
        let slots = inputs.iter().zip(batched).filter(|(ty, _)| ty.has_tangent());
        let moved: Vec<bool> = slots.map(|(_, on)| *on).collect();
        let float = tangents(&outputs).len();
        // In a branch that only some batch members take, batching masks linear values, such as tangents, in another way
        // than other values. So separate the tangents from the values first. If that fails because a rule is not
        // linear, the derivative that uses the rule reports the error.
        let mut lift =
            |f: FuncId, on: &[bool], wanted: &[BatchRequest], values: Option<[usize; 2]>| {
                cx.derive(|regions, m| {
                    let params = m.function(f).params.len();
                    let apart = values.map(|[values, first]| {
                        let linear: Vec<bool> = (0..params).map(|i| i >= values).collect();
                        separated(regions, m, f, &linear, first)
                    });
                    let f = apart.and_then(Result::ok).unwrap_or(f);
                    regions.batch(m, f, size, on, wanted)
                })
            };

        let mut op = self.clone();
        let lifted = vec![BatchRequest::Batched; outputs.len()];
        op.function = lift(self.function, batched, &lifted, None)?.function;
        if let Some(jvp) = self.jvp {
            let wanted = vec![BatchRequest::Batched; outputs.len() + float];
            let values = Some([inputs.len(), outputs.len()]);
            op.jvp = Some(lift(jvp, &[batched, &moved].concat(), &wanted, values)?.function);
        }
        if let Some((fwd, bwd)) = self.fwd.zip(self.bwd) {
            // The batched `fwd` decides which residuals are batched; `bwd` takes them in the same form.
            let of = lift(fwd, batched, &lifted, None)?;
            op.fwd = Some(of.function);
            let residuals = &of.batched_out[outputs.len()..];
            let mask = [residuals, &vec![true; float]].concat();
            let values = Some([residuals.len(), 0]);
            op.bwd = Some(lift(bwd, &mask, &as_operands(&moved), values)?.function);
        }
        let batched = std::iter::repeat_n(true, outputs.len()).collect();
        Ok(Batched { y: b.emit(op, x), batched })
    }

    fn regions(&self) -> RegionList {
        let rules = [self.jvp, self.fwd, self.bwd].into_iter().flatten().map(|f| Role::Rule.of(f));
        std::iter::once(Role::Ruled.of(self.function)).chain(rules).collect()
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        let mut next = functions.iter().copied();
        let function = next.next().unwrap_or(self.function);
        let mut rule = |old: Option<FuncId>| old.and_then(|_| next.next());
        CustomCall { function, jvp: rule(self.jvp), fwd: rule(self.fwd), bwd: rule(self.bwd) }
            .into()
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        // Nothing is pruned, because the rules refer to all operands and outputs.
        Ok(Prune::Whole)
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
        samples::all(module)
    }
}

/// Samples of `(x, n, w) -> (x w, n, x²)`, with an integer operand and output, and its rules.
mod samples {
    use super::*;
    use crate::lang::builder::{Builder, Draft};
    use crate::lang::literal::Literal;
    use crate::lang::types::Dtype;
    use crate::prim::{Reduce, Reducer, Scalar};

    fn function(
        module: &mut Module,
        name: &str,
        params: &[Type],
        body: impl Fn(&Builder<'_>, &[Atom]) -> Vec<Atom>,
    ) -> Option<FuncId> {
        let mut draft = Draft::new(name);
        let params: Vec<Atom> = params.iter().map(|t| draft.param(t.clone())).collect();
        let results = body(&Builder::new(module, &mut draft), &params);
        draft.finish(module, results).ok()
    }

    pub(super) fn all(module: &mut Module) -> Vec<Sample> {
        let (x, n, w) = (
            Type::array(Dtype::F64, &[2]),
            Type::array(Dtype::I64, &[3]),
            Type::scalar(Dtype::F64),
        );
        let mul = |b: &Builder<'_>, x: Atom, y: Atom| b.emit1(Scalar::Mul, &[x, y]);
        let add = |b: &Builder<'_>, x: Atom, y: Atom| b.emit1(Scalar::Add, &[x, y]);
        let spread = |b: &Builder<'_>, w: Atom| {
            b.emit1(crate::prim::Broadcast { shape: [2].into(), dims: vec![] }, &[w])
        };
        let twice = |b: &Builder<'_>, x: Atom| mul(b, x, Literal::f64(2.0).into());
        let y = |b: &Builder<'_>, p: &[Atom]| {
            vec![mul(b, p[0], spread(b, p[2])), p[1], mul(b, p[0], p[0])]
        };
        let operands = [x.clone(), n, w.clone()];
        let Some(function) = function(module, "f", &operands, y) else { return Vec::new() };
        let with_tangents = [&operands[..], &[x.clone(), w.clone()]].concat();
        let jvp = self::function(module, "f.jvp_rule", &with_tangents, |b, p| {
            let (x, w, dx, dw) = (p[0], p[2], p[3], p[4]);
            let first = add(b, mul(b, dx, spread(b, w)), mul(b, x, spread(b, dw)));
            [y(b, p), vec![first, mul(b, twice(b, x), dx)]].concat()
        });
        let fwd = self::function(module, "f.fwd_rule", &operands, |b, p| {
            [y(b, p), vec![p[0], p[2]]].concat()
        });
        let bwd_params = [x.clone(), w, x.clone(), x];
        let bwd = self::function(module, "f.bwd_rule", &bwd_params, |b, p| {
            let (x, w, ct0, ct1) = (p[0], p[1], p[2], p[3]);
            let ct_x = add(b, mul(b, ct0, spread(b, w)), mul(b, twice(b, x), ct1));
            let sum = Reduce { reducer: Reducer::Sum, axes: vec![0] };
            vec![ct_x, b.emit1(sum, &[mul(b, ct0, x)])]
        });
        let operands =
            vec![Tensor::from([1.5, -2.0]), Tensor::from([4i64, 5, 6]), Tensor::from(0.75)];
        [(None, None, None), (jvp, None, None), (None, fwd, bwd), (jvp, fwd, bwd)]
            .map(|(jvp, fwd, bwd)| {
                Sample::smooth(CustomCall { function, jvp, fwd, bwd }, operands.clone())
            })
            .into()
    }
}
