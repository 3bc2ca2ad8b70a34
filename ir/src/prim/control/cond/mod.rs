//! `cond{branches}`: one of several functions, selected at run time.
//!
//! ```text
//! %3: f64[] = cond{branches=[@no,@yes]} %0, %1, %2
//! ```
//!
//! The first operand selects the branch. It is a `bool[]` (false selects the first of two) or an `i64[]` (clamped to
//! the valid range). The other operands are the arguments. Only the selected branch runs: the others take no time,
//! perform no effects and produce no NaN.

mod residual_union;
mod samples;

use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId, Function};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::query::{AccumulateInto, BatchRequest, Residual, TransposeOf};
use crate::lang::types::{Dtype, Type};
use crate::lang::value::Value;
use crate::policy::{Amortization, PlanRequest, Price};
use crate::prim::rules::batch_mask::{Lanes, one_by_one, skipped};
use crate::prim::rules::region_helpers::{fits, function, scatter_tangents, signature};
use crate::prim::{
    Arg, Batched, Call, Cotangents, Doc, Dual, Effects, Family, Linearity, Lowering, Op, Operand,
    Primitive, Prune, RegionList, Regions, Rewrite, Role, RuleCx, Sample, Scalar, Types,
};
use residual_union::Record;

/// A branch: runs one of several functions, selected at run time. Its text is `cond{branches}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Cond {
    /// The functions of the branches, all of one type.
    pub branches: Vec<FuncId>,
}

/// Emits a `cond` that runs `f` on `args` if `on` is true, and otherwise returns zeros. All parameters of `f`
/// must be ordinary ones.
///
/// # Errors
/// Never fails for functions of a module that the verifier accepts.
pub fn run_if(b: &Builder<'_>, on: Atom, f: FuncId, args: &[Atom]) -> Result<Vec<Atom>, Problem> {
    let none = b.with_module(|m| skipped(m, f, &[]))?;
    Ok(b.emit(Cond { branches: vec![none, f] }, &[&[on], args].concat()).to_vec())
}

notation!(Cond = "cond" { branches });

impl Cond {
    /// Returns the index of the branch that the first operand's value `which` selects.
    fn chosen(&self, which: Literal) -> usize {
        match which.dtype {
            Dtype::Bool => usize::from(!which.is_zero()),
            _ => (which.bits as i64).clamp(0, self.branches.len() as i64 - 1) as usize,
        }
    }

    /// Derives every branch by `derive` so that all derived branches have one signature: if one branch has a parameter
    /// or result that others lack, every branch is derived again with it. Returns the derived branches and the mask of
    /// these parameters or results, which `there` reads from one branch.
    fn fixed_point<T>(
        &self,
        mut derive: impl FnMut(FuncId, &[bool]) -> Result<T, Problem>,
        there: impl Fn(&T) -> &Vec<bool>,
    ) -> Result<(Vec<T>, Vec<bool>), Problem> {
        let mut all = |forced: &[bool]| -> Result<Vec<T>, Problem> {
            self.branches.iter().map(|f| derive(*f, forced)).collect()
        };
        let some = union(all(&[])?.iter().map(|of| there(of).as_slice()));
        Ok((all(&some)?, some))
    }

    /// Emits the branches over a batch whose members may select different branches. Each branch runs if at least
    /// one member takes it, and only those members get its results and effects ([`Lanes`]).
    fn masked(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem> {
        let b = cx.b;
        let (outputs, known, seen) = b.with_module(|m| {
            let f = m.function(self.branches[0]);
            let seen = self.branches.iter().any(|f| m.is_seen(*f));
            (f.results.len(), f.params.len(), seen)
        });
        if seen && size > 0 {
            let on = [&[true], batched].concat();
            let y = one_by_one(b, size, &self.clone().into(), x, &on, known + 1)?;
            return Ok(Batched { y: y.into(), batched: vec![true; outputs].into() });
        }
        let mut lifted = vec![true; outputs];
        let mut y: Option<Vec<Atom>> = None;
        // A tape holds the residuals of a loop's iterations. If a result of the `cond` is a tape, one branch writes the
        // tape, and the other branches leave it empty or return a parameter.
        let tapes = b.with_module(|m| self.tapes(m));
        let given: Vec<Option<usize>> =
            tapes.iter().map(|of| TapeOrigin::given(of.as_slice())).collect();
        let mut written = vec![false; outputs];
        for (k, branch) in self.branches.iter().enumerate() {
            let tapes: Vec<Option<TapeOrigin>> =
                tapes.iter().map(|of| of.get(k).copied()).collect();
            let of = cx.derive(|regions, m| {
                let f = m.function(*branch);
                let mut wanted = vec![BatchRequest::Batched; outputs];
                for (i, ty) in f.result_types().iter().enumerate() {
                    let Some(of) = tapes[i] else { continue };
                    // The equations that read the tape expect the form in which it was written, so do not change its
                    // batching.
                    wanted[i] = BatchRequest::AsIs;
                    if of == TapeOrigin::Own && std::mem::replace(&mut written[i], true) {
                        return Err(Problem::internal(format!("two branches write one {ty}")));
                    }
                }
                regions.batch(m, *branch, size, batched, &wanted)
            })?;
            if size == 0 {
                let args = &x[1..];
                let y = b.emit(Call::inline(of.function), args);
                return Ok(Batched { y, batched: of.batched_out.into() });
            }
            for (i, tape) in tapes.iter().enumerate() {
                if y.is_none() && tape.is_some() || *tape == Some(TapeOrigin::Own) {
                    lifted[i] = of.batched_out[i];
                }
            }
            let lanes = Lanes::new(b, self.takes(b, x[0], k));
            // If no member takes the branch that writes the tape, return the tape that the other branches would
            // return.
            let skipped = b.with_module(|m| skipped(m, of.function, &given))?;
            let mut args = vec![lanes.any()];
            args.extend(x[1..].iter().zip(batched).enumerate().map(|(i, (x, on))| match on {
                true if i < known => lanes.safe(*x),
                true => lanes.zero(*x),
                false => *x,
            }));
            let found = b.emit(Cond { branches: vec![skipped, of.function] }, &args);
            y = Some(match y {
                None => found.to_vec(),
                Some(y) => {
                    let choose = |((x, y), tape): ((&Atom, Atom), &Option<TapeOrigin>)| match tape {
                        None => lanes.choose(*x, y),
                        Some(TapeOrigin::Own) => *x,
                        Some(TapeOrigin::Given(_) | TapeOrigin::Empty) => y,
                    };
                    found.iter().zip(y).zip(&tapes).map(choose).collect()
                }
            });
        }
        let mut y = y.unwrap_or_default();
        for (i, p) in given.iter().enumerate().filter(|(i, _)| !written[*i]) {
            if let Some(p) = *p {
                (y[i], lifted[i]) = (x[1 + p], batched[p]);
            }
        }
        Ok(Batched { y: y.into(), batched: lifted.into() })
    }

    /// Returns, for every result that is a tape, the origin of the tape in each branch; for other results an
    /// empty list.
    fn tapes(&self, m: &Module) -> Vec<Vec<TapeOrigin>> {
        let of = |f: &Function, result: Atom| match f.all_params().position(|p| result == p.into())
        {
            Some(p) => TapeOrigin::Given(p),
            None if super::loops::is_empty_tape(f, result) => TapeOrigin::Empty,
            None => TapeOrigin::Own,
        };
        let one = |(i, ty): (usize, Type)| match ty {
            Type::Array(_) => Vec::new(),
            Type::Tape(_) => {
                let branches = self.branches.iter().map(|f| m.function(*f));
                branches.map(|f| of(f, f.results[i])).collect()
            }
        };
        m.function(self.branches[0]).result_types().into_iter().enumerate().map(one).collect()
    }

    /// Emits, for each batch member, a bool: whether the member takes branch `k`.
    fn takes(&self, b: &Builder<'_>, which: Atom, k: usize) -> Atom {
        match b.dtype_of(which) {
            Dtype::Bool if k == 0 => b.emit1(Scalar::Not, &[which]),
            Dtype::Bool => which,
            _ => {
                let number = |n: usize| Atom::from(Literal::i64(n as i64));
                let least = b.emit1(Scalar::Max, &[which, number(0)]);
                let near = b.emit1(Scalar::Min, &[least, number(self.branches.len() - 1)]);
                b.emit1(Scalar::Eq, &[near, number(k)])
            }
        }
    }

    /// Checks that there is a branch, and that all branches have the type of the first one.
    fn check(&self, module: &Module) -> Result<(), Problem> {
        let wrong = |message: String| {
            let help = "all branches take the same operands and return results of the same types";
            Err(Problem::new(Kind::Arguments, message, help))
        };
        let Some((first, others)) = self.branches.split_first() else {
            return wrong("`cond` has no branch".to_owned());
        };
        let first = module.function(*first);
        for other in others.iter().map(|f| module.function(*f)) {
            let types = |f: &Function| (f.params.len(), f.param_types(), f.result_types());
            if types(first) != types(other) {
                return wrong(format!(
                    "the branches @{} and @{} differ: {} and {}",
                    first.name,
                    other.name,
                    signature(first),
                    signature(other)
                ));
            }
        }
        Ok(())
    }
}

/// The origin of a tape that a branch returns as a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TapeOrigin {
    /// The tape that the `cond` returns is written by this branch itself.
    Own,
    /// The tape that the `cond` returns is the branch's parameter with this index.
    Given(usize),
    /// The tape that the `cond` returns is empty if this branch runs.
    Empty,
}

impl TapeOrigin {
    /// Returns the index of the parameter that one of the branches returns as this tape; `None` if no branch returns a
    /// parameter.
    fn given(branches: &[TapeOrigin]) -> Option<usize> {
        branches.iter().find_map(|of| match of {
            TapeOrigin::Given(p) => Some(*p),
            TapeOrigin::Own | TapeOrigin::Empty => None,
        })
    }
}

/// Returns the mask that is true at each index at which at least one of the given masks is true.
fn union<'a>(masks: impl Iterator<Item = &'a [bool]>) -> Vec<bool> {
    masks.fold(Vec::new(), |all, mask| {
        (0..mask.len()).map(|i| mask[i] || all.get(i) == Some(&true)).collect()
    })
}

/// Returns the function of each derived branch, for a new `cond`.
fn functions<T>(derived: &[T], function: impl Fn(&T) -> FuncId) -> Vec<FuncId> {
    derived.iter().map(function).collect()
}

impl Primitive for Cond {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Control,
            name: "cond{branches}".into(),
            math: "y.. = fₓ(z..), where operand 0 selects f".into(),
            types: "bool (of two) or i64, then the operands of the branches, which have one type"
                .into(),
            derivative: "that of the branch taken; residuals take the memory of the largest branch"
                .into(),
            edges: "a number out of range selects the nearest branch; if the members of a batch \
                    select different branches, each selected branch runs, and members that do not \
                    take it do not affect its results"
                .into(),
        }]
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
                let message =
                    format!("a bool chooses between two branches, not {}", self.branches.len());
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

    fn run(&self, module: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem> {
        let branch = self.branches[self.chosen(operands[0].array()?.at(0))];
        crate::lang::eval::eval_values(module, branch, &operands[1..])
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        let active: Vec<bool> = dx[1..].iter().map(Option::is_some).collect();
        let (derived, active_out) = self.fixed_point(
            |f, forced| cx.derive(|regions, m| regions.jvp(m, f, &active, forced)),
            |of| &of.active_out,
        )?;
        let args: Vec<Atom> = x.iter().copied().chain(dx.iter().flatten().copied()).collect();
        let outputs = cx.b.emit(Cond { branches: functions(&derived, |of| of.function) }, &args);
        let (y, dy) = outputs.split_at(active_out.len());
        Ok(Dual { y: y.into(), dy: scatter_tangents(&active_out, dy).into() })
    }

    fn linearize(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        let active: Vec<bool> = dx[1..].iter().map(Option::is_some).collect();
        let shares: Vec<Amortization> = (1..x.len()).map(|i| cx.share(i)).collect();
        let (derived, active_out) = self.fixed_point(
            |f, forced| cx.derive(|regions, m| regions.linearize(m, f, &active, forced, &shares)),
            |of| &of.active_out,
        )?;
        let prices = || shares.iter().map(|share| Price::Bytes(*share)).collect();
        let terms = || PlanRequest::apart(prices(), Vec::new(), 1);
        let plan = |of| cx.derive(|regions, m| regions.plan(m, of, terms()));
        let derived = derived.into_iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        let record = Record::new(cx, &derived);
        let y = cx.b.emit(Cond { branches: record.written(cx, &derived)? }, x);
        let mut args = vec![x[0]];
        args.extend(Residual::pick(&record.read, &x[1..], &y));
        let branches = record.reading(cx, &derived, &args[1..])?;
        args.extend(dx.iter().flatten());
        let dy = cx.b.emit(Cond { branches }, &args);
        let y = y[..active_out.len()].into();
        Ok(Dual { y, dy: scatter_tangents(&active_out, &dy).into() })
    }

    fn is_linear(&self, module: &Module, operands: &[Linearity]) -> bool {
        let known = 1 + module.function(self.branches[0]).params.len();
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
        let known = x.len() - b.with_module(|m| m.function(self.branches[0]).linear_params.len());
        let mut transposed = |onto: &[AccumulateInto]| -> Result<Vec<TransposeOf>, Problem> {
            let derive =
                |f: &FuncId| cx.derive(|regions, m| regions.transpose(m, *f, &nonzero, onto));
            self.branches.iter().map(derive).collect()
        };
        // If one branch gives an operand a cotangent, all branches must return one. If cotangents of the operand have
        // already been added up, this total is passed into the branches, which add to it.
        let some = union(transposed(&[])?.iter().map(|of| of.nonzero.as_slice()));
        let onto = (known..x.len()).zip(&some).map(|(i, some)| match (some, &x[i]) {
            (false, _) => AccumulateInto::Nothing,
            (true, Arg::Linear(_)) if into.total[i].is_some() => AccumulateInto::Total,
            (true, Arg::Linear(_) | Arg::Known(_)) => AccumulateInto::Zeros,
        });
        let onto: Vec<AccumulateInto> = onto.collect();
        let derived = transposed(&onto)?;
        let mut args: Vec<Atom> = x[..known].iter().filter_map(Arg::known).collect();
        args.extend(into.hand_over(b, ct, x, known, &onto));
        let back = b.emit(Cond { branches: functions(&derived, |of| of.function) }, &args);
        let slots = (known..x.len()).zip(&some).filter(|(_, some)| **some).map(|(i, _)| i);
        for (i, back) in slots.zip(back) {
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
        if batched[0] {
            return self.masked(cx, size, x, &batched[1..]);
        }
        let (derived, batched) = self.fixed_point(
            |f, lifted| {
                let wanted =
                    |on: &bool| if *on { BatchRequest::Batched } else { BatchRequest::AsIs };
                let wanted: Vec<BatchRequest> = lifted.iter().map(wanted).collect();
                cx.derive(|regions, m| regions.batch(m, f, size, &batched[1..], &wanted))
            },
            |of| &of.batched_out,
        )?;
        let y = cx.b.emit(Cond { branches: functions(&derived, |of| of.function) }, x);
        Ok(Batched { y, batched: batched.into() })
    }

    fn regions(&self) -> RegionList {
        self.branches.iter().map(|f| Role::Branch.of(*f)).collect()
    }

    fn with_regions(&self, functions: &[FuncId]) -> Op {
        Cond { branches: functions.to_vec() }.into()
    }

    fn prune(
        &self,
        regions: &mut dyn Regions,
        module: &mut Module,
        used: &[bool],
    ) -> Result<Prune, Problem> {
        let (derived, params) =
            self.fixed_point(|f, kept| regions.prune(module, f, used, kept), |of| &of.params)?;
        let op = Cond { branches: functions(&derived, |of| of.function) }.into();
        let operands = std::iter::once(true).chain(params).collect();
        Ok(Prune::Smaller { op, operands, outputs: used.to_vec() })
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

    fn samples(module: &mut Module) -> Vec<Sample> {
        samples::all(module)
    }
}
