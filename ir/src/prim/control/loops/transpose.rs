//! The transpose of a loop: a loop over the transpose of the body, in the other direction.
//!
//! ```text
//! loop:       (k..; consts.., carries.., xs..) -> (carries'.., ys..)
//! transpose:  (k..; ct of carries'.., ct of ys.., totals of consts..) -> (totals.., ct of carries.., ct of xs..)
//! ```
//!
//! Every iteration takes the cotangents of its carries from the iteration after it, and one cotangent for each stacked
//! result. It adds the cotangent of a constant to a running total, which is carried too. So reading one element of a
//! large constant in each of n iterations costs n elements and one array, not n arrays. If each iteration reads its
//! element once, and the array has a cotangent already, the loop adds the element's cotangent to the corresponding
//! element of the array's cotangent. For tapes the loop always does so, because tapes cannot be added outside the loop.

use super::{Binding, Loop, TripCount, tape_of_zeros};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId, Function, ValueId};
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::query::{AccumulateInto, TransposeOf};
use crate::lang::stack::deeper;
use crate::lang::types::Type;
use crate::prim::rules::region_helpers::{called, instantiate};
use crate::prim::{Accumulator, Arg, Cotangents, Op, RuleCx};

pub(super) fn transpose(
    of: &Loop,
    cx: &mut RuleCx<'_, '_>,
    x: &[Arg],
    ct: &[Option<Atom>],
    into: &mut Cotangents,
) -> Result<(), Problem> {
    let known = cx.b.with_module(|m| m.function(of.body).params.len());
    let (known, linear) = of.spec.takes.split_at(known);
    let first = x.len() - linear.len();
    let nonzero: Vec<bool> = ct.iter().map(Option::is_some).collect();
    let transposed = TransposedBody::new(cx, of.body, linear, nonzero, &into.total[first..])?;
    let b = cx.b;
    let mut op = Loop { body: transposed.back.function, ..of.clone() };
    op.spec.direction = of.spec.direction.flipped();
    op.spec.takes = known.to_vec();
    op.spec.takes.extend(transposed.takes(0));
    let mut args: Vec<Atom> = x[..first].iter().filter_map(Arg::known).collect();
    for q in transposed.totals().filter(|q| into.total[first + *q].is_none()).collect::<Vec<_>>() {
        into.total[first + q] = zero_tape(of, b, x, q).map(Accumulator::from);
    }
    args.extend(transposed.operands(b, ct, x, into, first));
    let found = op.emit(b, &args)?;
    transposed.add(b, x, first, &found, into);
    Ok(())
}

/// Emits the initial total for the cotangent of a tape that all iterations read: zeros, with as many records (residuals
/// of one iteration) as the tape has. `q` is the position of the body's linear parameter. Returns `None` if the
/// parameter is not a tape of arrays, or if the number of records is not known outside the loop.
fn zero_tape(of: &Loop, b: &Builder<'_>, x: &[Arg], q: usize) -> Option<Atom> {
    let (count, fields) = b.with_module(|m| {
        let body = m.function(of.body);
        let tape = *body.linear_params.get(q)?;
        let fields = match &body.types[tape] {
            Type::Tape(fields) if fields.iter().all(|ty| ty.as_array().is_some()) => fields.clone(),
            Type::Tape(_) | Type::Array(_) => return None,
        };
        let count = match records(m, body, tape)? {
            count @ Atom::Literal(_) => count,
            Atom::Value(v) => {
                let p = constant(of, body, v)?;
                x[of.spec.lead() + p].known()?
            }
        };
        Some((count, fields))
    })?;
    Some(tape_of_zeros(b, count, &fields))
}

/// Returns the position of the loop's operand, counted after the trip count, whose value the body's parameter `v`
/// has in all iterations; `None` if `v` is not a constant.
fn constant(of: &Loop, body: &Function, v: ValueId) -> Option<usize> {
    let p = body.all_params().position(|p| p == v)?;
    let operand = of.spec.params().position(|q| q == p)?;
    (of.spec.takes[p] == Binding::Const).then_some(operand)
}

/// Returns the number of records (one per iteration) of a tape that is a parameter of the function `f`: a literal, or
/// another parameter of `f`.
fn records(m: &Module, f: &Function, tape: ValueId) -> Option<Atom> {
    let known = |a: Atom| match a {
        Atom::Literal(_) => Some(a),
        Atom::Value(v) => f.params.contains(&v).then_some(a),
    };
    let readers =
        f.equations.iter().flat_map(|e| e.operands.iter().enumerate().map(move |o| (e, o)));
    readers.filter(|(_, (_, a))| a.value() == Some(tape)).find_map(|(e, (i, _))| {
        // The number of the tape's records, as the function `g` shows it. The equation `e` runs `g`, and the tape is
        // parameter `p` of `g`.
        let inside =
            |g: FuncId, p: usize, operand: &dyn Fn(&Function, ValueId) -> Option<usize>| {
                let g = m.function(g);
                let tape = g.all_params().nth(p)?;
                match deeper(|| records(m, g, tape))? {
                    count @ Atom::Literal(_) => Some(count),
                    Atom::Value(v) => known(e.operands[operand(g, v)?]),
                }
            };
        let param = |g: &Function, v: ValueId| g.all_params().position(|p| p == v);
        match &e.op {
            Op::Loop(of) => {
                let lead = of.spec.lead();
                let p = of.spec.params().nth(i.checked_sub(lead)?)?;
                match (of.spec.takes[p], &of.spec.trip) {
                    (Binding::Xs, TripCount::Runtime) => known(e.operands[0]),
                    (Binding::Const, _) => {
                        inside(of.body, p, &|g, v| Some(lead + constant(of, g, v)?))
                    }
                    (Binding::Xs | Binding::Carry(_) | Binding::Index, _) => None,
                }
            }
            Op::Cond(of) => of
                .branches
                .iter()
                .find_map(|g| inside(*g, i.checked_sub(1)?, &|g, v| Some(1 + param(g, v)?))),
            op => inside(called(op)?, i, &param),
        }
    })
}

/// The transpose of a linear body, with the slots (sources of the body's parameters) of the transposed loop.
pub(super) struct TransposedBody {
    /// The transpose of the body.
    pub(super) back: TransposeOf,
    /// For each linear parameter of the body: its slot (source) in the loop, and its type.
    linear: Vec<(Binding, Type)>,
    /// The types of the results of the body.
    results: Vec<Type>,
    /// Per result of the body: whether it has a cotangent.
    pub(super) nonzero: Vec<bool>,
    /// Per linear parameter of the body: the initial value to which its cotangent is added, either zeros or the total
    /// of the cotangents added so far.
    pub(super) onto: Vec<AccumulateInto>,
}

/// Returns whether exactly one operand of exactly one equation without regions reads linear parameter `q`. Then a
/// single cotangent is added to the total, which gives the same bits inside the loop as after it. (A loop that a plan
/// splits into blocks reads slices of its arrays, and no cotangents have been added up for a slice.)
fn read_once(f: &Function, q: usize) -> bool {
    let Some(p) = f.linear_params.get(q) else { return false };
    let reads = |a: &Atom| a.value() == Some(*p);
    let mut readers =
        f.equations.iter().flat_map(|e| e.operands.iter().filter(|a| reads(a)).map(move |_| e));
    let first = readers.next().is_none_or(|e| e.op.regions().is_empty());
    first && readers.next().is_none() && !f.results.iter().any(reads)
}

impl TransposedBody {
    /// Transposes a linear body, given the slots (sources) of its linear parameters. `nonzero` marks the results that
    /// have a cotangent, and `running` holds the totals of cotangents that exist already.
    pub(super) fn new(
        cx: &mut RuleCx<'_, '_>,
        body: FuncId,
        linear: &[Binding],
        mut nonzero: Vec<bool>,
        running: &[Option<Accumulator>],
    ) -> Result<TransposedBody, Problem> {
        // If the transpose gives a carry a cotangent, the result that it carries has one in the next iteration of
        // the reverse pass; repeat until no mark is added.
        let some = loop {
            let some = cx.derive(|regions, m| regions.transpose(m, body, &nonzero, &[]))?.nonzero;
            let made = linear.iter().zip(&some).filter_map(|(slot, some)| match slot {
                Binding::Carry(r) if *some => Some(*r),
                Binding::Index | Binding::Const | Binding::Carry(_) | Binding::Xs => None,
            });
            let before = nonzero.clone();
            made.for_each(|r| nonzero[r] = true);
            if nonzero == before {
                break some;
            }
        };
        // Tapes cannot be added outside the loop, so a total that is a tape is passed into the loop.
        let tape = |total: &Accumulator| matches!(cx.b.type_of(total.atom), Type::Tape(_));
        let within = |q: usize| {
            let once = || cx.b.with_module(|m| read_once(m.function(body), q));
            running[q].as_ref().is_some_and(|total| tape(total) || once())
        };
        let onto = |q: usize| match linear[q] {
            Binding::Const if some[q] => AccumulateInto::Total,
            Binding::Carry(r) if nonzero[r] => AccumulateInto::Zeros,
            Binding::Xs if some[q] && within(q) => AccumulateInto::Total,
            Binding::Index | Binding::Const | Binding::Carry(_) | Binding::Xs => {
                AccumulateInto::Nothing
            }
        };
        let onto: Vec<AccumulateInto> = (0..linear.len()).map(onto).collect();
        let back = cx.derive(|regions, m| regions.transpose(m, body, &nonzero, &onto))?;
        let (types, results) = cx.b.with_module(|m| {
            let f = m.function(body);
            (f.param_types().split_off(f.params.len()), f.result_types())
        });
        let linear = linear.iter().copied().zip(types).collect();
        Ok(TransposedBody { back, linear, results, nonzero, onto })
    }

    /// Returns the position of the cotangent of linear parameter `q` among the results of the body's transpose.
    fn rank(&self, q: usize) -> usize {
        self.back.nonzero[..q].iter().filter(|on| **on).count()
    }

    /// Returns the linear parameters of the body whose cotangents are added to a total that is passed into the
    /// loop.
    pub(super) fn totals(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.linear.len()).filter(|q| self.onto[*q] == AccumulateInto::Total)
    }

    /// Returns the slots (sources) of the linear parameters of the body's transpose, whose results in the new loop's
    /// body start at position `first`.
    pub(super) fn takes(&self, first: usize) -> Vec<Binding> {
        let carried = |q: usize| Binding::Carry(first + self.rank(q));
        let cotangents = (0..self.nonzero.len()).filter(|r| self.nonzero[*r]).map(|r| {
            let carrier = self.linear.iter().position(|(slot, _)| *slot == Binding::Carry(r));
            carrier.map_or(Binding::Xs, carried)
        });
        let totals = self.totals().map(|q| match self.linear[q].0 {
            Binding::Xs => Binding::Xs,
            Binding::Index | Binding::Const | Binding::Carry(_) => carried(q),
        });
        cotangents.chain(totals).collect()
    }

    /// Emits the operands for the slots of `TransposedBody::takes`: the cotangents of the loop's outputs, then the
    /// totals of its operands, which start at position `first`.
    pub(super) fn operands(
        &self,
        b: &Builder<'_>,
        ct: &[Option<Atom>],
        x: &[Arg],
        into: &mut Cotangents,
        first: usize,
    ) -> Vec<Atom> {
        for q in self.totals() {
            let zeros = || instantiate(b, None, &self.linear[q].1).into();
            into.total[first + q].get_or_insert_with(zeros);
        }
        let seed = |r: usize| self.nonzero[r].then(|| instantiate(b, ct[r], &self.results[r]));
        let seeds: Vec<Option<Atom>> = (0..self.nonzero.len()).map(seed).collect();
        into.hand_over(b, &seeds, x, first, &self.onto)
    }

    /// Adds the transposed loop's results `found` to the cotangents of the loop's linear operands, which start at
    /// position `first`.
    pub(super) fn add(
        &self,
        b: &Builder<'_>,
        x: &[Arg],
        first: usize,
        found: &[Atom],
        into: &mut Cotangents,
    ) {
        for (q, _) in self.back.nonzero.iter().enumerate().filter(|(_, on)| **on) {
            if let Arg::Linear(_) = x[first + q] {
                into.add(b, first + q, found[self.rank(q)]);
            }
        }
    }
}
