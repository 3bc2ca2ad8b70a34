//! `multilinear_call{function, jvp, constants}`: a map that is linear in each of its last operands, with a rule for
//! its derivative with respect to one other operand.
//!
//! The operands are constants `c..`, the point `a`, and zero or more directions `x..`:
//!
//! ```text
//! function: (c.., a, x..) -> y          linear in each x
//! jvp:      (c.., a, x.., da) -> dy     linear in each x, and in da
//! ```
//!
//! The call runs `function`. Its derivative with respect to a direction follows from linearity. Its derivative with
//! respect to the point is `jvp`. Its derivative with respect to a constant is another call with one more direction:
//! the new function is the derivative of `function`, and the new rule the derivative of `jvp`. (The derivative of
//! `function` alone does not read `a`, so it would have no mixed derivative.)
//!
//! A [`CustomCall`](super::custom::CustomCall) is not sufficient, since it is not linear in any operand. The
//! derivative of a function of matrices is linear in its direction, so reverse mode must be able to transpose it. Its
//! derivative with respect to the matrix must come from a rule, because the derivative of its program divides by gaps
//! of eigenvalues. A chain of rules
//!
//! ```text
//! f(a)      D f(a)[x]      D² f(a)[x, y]      ..
//! ```
//!
//! has all modes with this primitive: the transpose of a link in one direction is a link with the transposed function
//! and the transposed rule.
//!
//! The last link of a chain has no rule: its derivative with respect to the point is an error.

use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::query::{AccumulateInto, BatchRequest};
use crate::lang::types::Type;
use crate::lang::value::Value;
use crate::prim::rules::region_helpers::{arrow, called, function, instantiate, signature};
use crate::prim::rules::split_linear::{as_linear, separated};
use crate::prim::{
    Arg, Batched, Call, Cotangents, Doc, Dual, Effects, Family, Linearity, Lowering, Op, Operand,
    Primitive, Prune, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Scalar, Types,
};
use crate::tensor::Tensor;

/// A call of a function that is linear in each of its last operands, with a rule for one more derivative. Its text is
/// `multilinear_call{function, jvp, constants}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct MultilinearCall {
    /// The function that computes the multilinear map: `(c.., a, x..) -> y`, linear in each operand `x`.
    pub function: FuncId,
    /// The function that computes the derivative of the map with respect to the operand `a`: `(c.., a, x.., da) -> dy`.
    /// `None` if taking this derivative is an error.
    pub jvp: Option<FuncId>,
    /// The number of constants `c`, the operands before `a`.
    pub constants: usize,
}

notation!(MultilinearCall = "multilinear_call" { function, jvp, constants });

/// The way in which a rule emits tangents: by forward mode (`Jvp`), or as equations each of which is independent
/// of the tangents or linear in them (`Linearize`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum TangentMode {
    Jvp,
    Linearize,
}

impl MultilinearCall {
    /// Checks that the type of the rule `jvp` fits that of `function`.
    fn check(&self, module: &Module) -> Result<(), Problem> {
        let f = module.function(self.function);
        let (x, y) = (f.param_types(), f.result_types());
        let Some(point) = x.get(self.constants) else {
            return Err(Problem::new(
                Kind::Rule,
                format!("@{} takes no operand after {} constants", f.name, self.constants),
                "a multilinear call takes constants, a point and directions",
            ));
        };
        let floats = x[self.constants..].iter().chain(&y);
        if let Some(ty) = floats.clone().find(|ty| !ty.is_linear()) {
            return Err(Problem::new(
                Kind::Rule,
                format!("the point, a direction or the result of @{} is of type {ty}", f.name),
                "only floats have derivatives; pass others as constants",
            ));
        }
        let Some(jvp) = self.jvp else { return Ok(()) };
        let params = [&x[..], std::slice::from_ref(point)].concat();
        let g = module.function(jvp);
        if g.param_types() == params && g.result_types() == y {
            return Ok(());
        }
        let want = arrow(&params, &y);
        let message = format!(
            "the rule @{} of @{} must have the type {want}, found {}",
            g.name,
            f.name,
            signature(g)
        );
        Err(Problem::new(Kind::Rule, message, "a tangent has the type of its primal"))
    }

    /// Returns the index of the first direction among the operands.
    fn directions(&self) -> usize {
        self.constants + 1
    }

    /// Returns the error for a derivative with respect to the point of a call without a `jvp` rule.
    fn ended(&self, module: &Module) -> Problem {
        Problem::new(
            Kind::NotDifferentiable,
            format!("the derivative rules of `{}` end here", module.function(self.function).name),
            "it has derivatives up to the order that its documentation states",
        )
    }

    /// Emits the tangent `dy = Σ y(.., dx, ..) + jvp(.., da) + ∂y/∂c dc` for tangents of the directions `x`, of
    /// the point `a` and of the constants `c`.
    fn derivative(
        &self,
        cx: &mut RuleCx<'_, '_>,
        along: TangentMode,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        let b = cx.b;
        let y = b.emit1(self.clone(), x);
        let mut terms = Vec::new();
        for (i, dx) in dx.iter().enumerate().skip(self.directions()) {
            if let Some(dx) = dx {
                let mut args = x.to_vec();
                args[i] = *dx;
                terms.push(b.emit1(self.clone(), &args));
            }
        }
        if let Some(da) = dx[self.constants] {
            let jvp = self.jvp.ok_or_else(|| b.with_module(|m| self.ended(m)))?;
            let args = [x, &[da]].concat();
            let dy = match along {
                TangentMode::Jvp => b.emit(Call::inline(jvp), &args),
                TangentMode::Linearize => {
                    // Inline the rule, so that the caller sees which of its equations are linear in `da`.
                    let linear: Vec<bool> = (0..args.len()).map(|i| i == x.len()).collect();
                    let apart = cx.derive(|regions, m| separated(regions, m, jvp, &linear, 0))?;
                    b.open(apart, &args, called).into()
                }
            };
            terms.extend(dy);
        }
        for (i, dc) in dx.iter().enumerate().take(self.constants) {
            if let Some(dc) = dc
                && let Some(along) = self.along_constant(cx, i)?
            {
                terms.push(b.emit1(along, &[x, &[*dc]].concat()));
            }
        }
        let dy = terms.into_iter().reduce(|x, y| b.emit1(Scalar::Add, &[x, y]));
        Ok(Dual { y: [y].into_iter().collect(), dy: [dy].into_iter().collect() })
    }

    /// Returns the call for the derivative with respect to the constant at position `i`; `None` if the derivative is 0.
    /// The constant's tangent becomes the last direction of the returned call.
    fn along_constant(
        &self,
        cx: &mut RuleCx<'_, '_>,
        i: usize,
    ) -> Result<Option<MultilinearCall>, Problem> {
        let Some(function) = moved(cx, self.function, i, None)? else { return Ok(None) };
        let jvp = match self.jvp {
            Some(jvp) => {
                let last = cx.b.with_module(|m| m.function(jvp).param_types().len() - 1);
                match moved(cx, jvp, i, Some(last))? {
                    Some(jvp) => Some(jvp),
                    None => Some(zero_rule(cx, function, self.constants)?),
                }
            }
            None => None,
        };
        Ok(Some(MultilinearCall { function, jvp, constants: self.constants }))
    }

    /// Returns the call for the transpose in the direction at position `i`. The last direction of the returned call is
    /// a cotangent of `y`, and its result is the cotangent of direction `i`.
    fn transposed(&self, cx: &mut RuleCx<'_, '_>, i: usize) -> Result<MultilinearCall, Problem> {
        let function = back(cx, self.function, i, None)?;
        let jvp = match self.jvp {
            Some(jvp) => {
                let last = cx.b.with_module(|m| m.function(jvp).param_types().len() - 1);
                Some(back(cx, jvp, i, Some(last))?)
            }
            None => None,
        };
        Ok(MultilinearCall { function, jvp, constants: self.constants })
    }
}

/// Returns the transpose of the function `f` in its parameter `i`. The cotangent is the last parameter, or
/// precedes the parameter `last`.
fn back(
    cx: &mut RuleCx<'_, '_>,
    f: FuncId,
    i: usize,
    last: Option<usize>,
) -> Result<FuncId, Problem> {
    cx.derive(|regions, m| {
        let name = m.function(f).name.clone();
        let linear: Vec<bool> = (0..m.function(f).param_types().len()).map(|p| p == i).collect();
        let map = as_linear(regions, m, f, &linear, 0)?;
        let results = m.function(map).results.len();
        let zeros = [AccumulateInto::Zeros];
        let of = regions.transpose(m, map, &vec![true; results], &zeros)?.function;
        with_last(m, &name, of, last.map(|last| last - usize::from(last > i)), 0)
    })
}

/// Returns the derivative of the function `f` with respect to its parameter `i`; `None` if it is 0. The tangent
/// is the last parameter, or precedes the parameter `last`.
fn moved(
    cx: &mut RuleCx<'_, '_>,
    f: FuncId,
    i: usize,
    last: Option<usize>,
) -> Result<Option<FuncId>, Problem> {
    cx.derive(|regions, m| {
        let (name, results) = (m.function(f).name.clone(), m.function(f).results.len());
        let active: Vec<bool> = (0..m.function(f).param_types().len()).map(|p| p == i).collect();
        let of = regions.jvp(m, f, &active, &[])?;
        match of.active_out.contains(&true) {
            true => with_last(m, &name, of.function, last, results).map(Some),
            false => Ok(None),
        }
    })
}

/// Returns a jvp rule whose results are zero, for the function `f`. Parameter `point` of `f` is the point with respect
/// to which the rule differentiates.
fn zero_rule(cx: &mut RuleCx<'_, '_>, f: FuncId, point: usize) -> Result<FuncId, Problem> {
    cx.b.with_module(|m| {
        let of = m.get(f);
        let (mut types, results) = (of.param_types(), of.result_types());
        types.extend(types.get(point).cloned());
        function(m, &of.name, [&types, &[]], |b, _, _| {
            results.iter().map(|ty| instantiate(b, None, ty)).collect()
        })
    })
}

/// Returns a function with only the results of `f` from `first` on. If `last` is given, the last parameter of `f`
/// moves to position `last`. All parameters become ordinary ones, so that the function can be transposed in each
/// of them.
fn with_last(
    m: &mut Module,
    name: &str,
    f: FuncId,
    last: Option<usize>,
    first: usize,
) -> Result<FuncId, Problem> {
    let mut types = m.function(f).param_types();
    let last = last.filter(|last| *last < types.len());
    if let Some(last) = last {
        let ty = types.remove(last);
        types.push(ty);
    }
    function(m, name, [&types, &[]], |b, args, _| {
        let mut args = args.to_vec();
        if let Some(last) = last
            && let Some(moved) = args.pop()
        {
            args.insert(last, moved);
        }
        b.inline(f, &args)[first..].to_vec()
    })
}

impl Primitive for MultilinearCall {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Calls,
            name: "multilinear_call{function, jvp, constants}".into(),
            math: "y = f(c.., a, x..), linear in each x".into(),
            types: "those of the function; jvp maps (c.., a, x.., da) to dy".into(),
            derivative:
                "∂x: itself; ∂a: the rule; ∂c: that of the function; its transpose in one x \
                         transposes function and rule"
                    .into(),
            edges: "where the rule is absent, a derivative with respect to a is an error".into(),
        }]
    }

    fn outputs(&self, _: &Module) -> usize {
        1
    }

    fn infer(&self, module: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        self.check(module)?;
        Call::inline(self.function).infer(module, operands)
    }

    fn run(&self, module: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem> {
        Call::inline(self.function).run(module, operands)
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

    /// The call is linear in a single direction, if all other operands are fixed.
    fn is_linear(&self, _: &Module, operands: &[Linearity]) -> bool {
        let (known, directions) = operands.split_at(self.directions().min(operands.len()));
        let count = |of: Linearity| directions.iter().filter(|given| **given == of).count();
        let (linear, zero) = (count(Linearity::Linear), count(Linearity::Zero));
        !known.contains(&Linearity::Linear) && linear <= 1 && linear + zero > 0
    }

    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<(), Problem> {
        let b = cx.b;
        let Some(i) = x.iter().position(|x| matches!(x, Arg::Linear(_))) else { return Ok(()) };
        let types = b.with_module(|m| m.function(self.function).result_types());
        let op = self.transposed(cx, i)?;
        let mut args: Vec<Atom> = x.iter().filter_map(Arg::known).collect();
        args.extend(ct.iter().zip(&types).map(|(ct, ty)| instantiate(b, *ct, ty)));
        into.add(b, i, b.emit1(op, &args));
        Ok(())
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem> {
        let wanted = [BatchRequest::Batched];
        let of = cx
            .derive(|regions, m| regions.batch(m, self.function, size, batched, &wanted))?
            .function;
        let jvp = match self.jvp {
            Some(jvp) => Some(cx.derive(|regions, m| {
                // Batching masks the values of a branch that only some members take, and masks tangents in
                // another way. So separate the tangents of the rule from its other values first.
                let linear: Vec<bool> = (0..=x.len()).map(|i| i == x.len()).collect();
                let jvp = separated(regions, m, jvp, &linear, 0).unwrap_or(jvp);
                let mask = [batched, &[batched[self.constants]]].concat();
                regions.batch(m, jvp, size, &mask, &wanted)
            })?),
            None => None,
        };
        let op = MultilinearCall {
            function: of,
            jvp: jvp.map(|of| of.function),
            constants: self.constants,
        };
        Ok(Batched { y: cx.b.emit(op, x), batched: [true].into_iter().collect() })
    }

    fn regions(&self) -> RegionList {
        let rule = self.jvp.map(|f| Role::Rule.of(f));
        std::iter::once(Role::Ruled.of(self.function)).chain(rule).collect()
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        let mut next = functions.iter().copied();
        let function = next.next().unwrap_or(self.function);
        let jvp = self.jvp.and_then(|_| next.next());
        MultilinearCall { function, jvp, constants: self.constants }.into()
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
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

/// Samples of `(c, a, x, y, ..) -> c sin(a) x y ..`, for a given number of directions.
mod samples {
    use super::*;
    use crate::lang::types::Dtype;

    pub(super) fn all(module: &mut Module) -> Vec<Sample> {
        let ty = Type::array(Dtype::F64, &[2]);
        let operands = [[1.5, -2.0], [0.5, 0.75], [2.0, -1.0], [0.25, 3.0]].map(Tensor::from);
        let mut all = Vec::new();
        for directions in 0..=2 {
            let types = vec![ty.clone(); directions + 3];
            let product = |b: &crate::lang::builder::Builder<'_>, of: Scalar, args: &[Atom]| {
                let first = b.emit1(Scalar::Mul, &[args[0], b.emit1(of, &[args[1]])]);
                args[2..].iter().fold(first, |y, x| b.emit1(Scalar::Mul, &[y, *x]))
            };
            let of = types[..directions + 2].to_vec();
            let f = function(module, "wave", [&of, &[]], |b, args, _| {
                vec![product(b, Scalar::Sin, args)]
            });
            let jvp = function(module, "wave.jvp", [&types, &[]], |b, args, _| {
                vec![product(b, Scalar::Cos, args)]
            });
            if let (Ok(function), Ok(jvp)) = (f, jvp) {
                let op = MultilinearCall { function, jvp: Some(jvp), constants: 1 };
                all.push(Sample::smooth(op, operands[..directions + 2].to_vec()));
            }
        }
        all
    }
}
