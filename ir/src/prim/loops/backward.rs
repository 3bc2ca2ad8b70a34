//! The transpose of a loop: the rounds of its body's transpose, in the other direction.
//!
//! ```text
//! loop:       (k..; consts.., carries.., xs..) -> (carries'.., ys..)
//! transpose:  (k..; ct of carries'.., ct of ys.., totals of consts..) -> (totals.., ct of carries.., ct of xs..)
//! ```
//!
//! Every round takes the cotangents that the round behind it left in the carries, and one for each
//! stacked result. What a round takes of a constant it adds to a running total, which is carried, too:
//! so reading one element of a large constant in each of n rounds costs n elements and one array, not n
//! arrays. What it takes of elements that have a cotangent already it adds to that, element by element:
//! outside, tapes could not be added.

use super::{Loop, Slot};
use crate::function::Atom;
use crate::prim::toolbox::instantiate;
use crate::prim::{Arg, Cotangents, RuleCx};
use crate::problem::Problem;
use crate::question::Onto;

pub(super) fn transpose(
    of: &Loop,
    cx: &mut RuleCx<'_, '_>,
    x: &[Arg],
    ct: &[Option<Atom>],
    into: &mut Cotangents,
) -> Result<(), Problem> {
    let b = cx.b;
    let body = b.with_module(|m| m.get(of.body));
    let (known, linear) = of.rounds.takes.split_at(body.params.len());
    let first = x.len() - linear.len();

    // A carry whose cotangent a round makes has one from then on.
    let mut nonzero: Vec<bool> = ct.iter().map(Option::is_some).collect();
    let some = loop {
        let some = cx.ask(|regions, m| regions.transpose(m, of.body, &nonzero, &[]))?.nonzero;
        let made = linear.iter().zip(&some).filter_map(|(slot, some)| match slot {
            Slot::Carry(r) if *some => Some(*r),
            Slot::Index | Slot::Const | Slot::Carry(_) | Slot::Xs => None,
        });
        let before = nonzero.clone();
        made.for_each(|r| nonzero[r] = true);
        if nonzero == before {
            break some;
        }
    };
    let onto = |q: usize| match linear[q] {
        Slot::Const if some[q] => Onto::Total,
        Slot::Carry(r) if nonzero[r] => Onto::Zeros,
        Slot::Xs if some[q] && into.total[first + q].is_some() => Onto::Total,
        Slot::Index | Slot::Const | Slot::Carry(_) | Slot::Xs => Onto::Nothing,
    };
    let onto: Vec<Onto> = (0..linear.len()).map(onto).collect();
    let back = cx.ask(|regions, m| regions.transpose(m, of.body, &nonzero, &onto))?;

    // The place of a linear parameter's cotangent among the results.
    let rank = |q: usize| back.nonzero[..q].iter().filter(|on| **on).count();
    let carried = |q: usize| Slot::Carry(rank(q));
    let mut op = Loop { body: back.function, rounds: of.rounds.clone() };
    op.rounds.direction = of.rounds.direction.flipped();
    op.rounds.takes = known.to_vec();
    op.rounds.takes.extend((0..nonzero.len()).filter(|r| nonzero[*r]).map(|r| {
        let carrier = linear.iter().position(|slot| *slot == Slot::Carry(r));
        carrier.map_or(Slot::Xs, carried)
    }));
    let totals = (0..linear.len()).filter(|q| onto[*q] == Onto::Total);
    op.rounds.takes.extend(totals.clone().map(|q| match linear[q] {
        Slot::Xs => Slot::Xs,
        Slot::Index | Slot::Const | Slot::Carry(_) => carried(q),
    }));

    let zeros = |q: usize| instantiate(b, None, &body.types[body.linear_params[q]]);
    for q in totals {
        into.total[first + q].get_or_insert_with(|| zeros(q).into());
    }
    let seed = |r: usize| {
        let ty = body.type_of(body.results[r]);
        nonzero[r].then(|| instantiate(b, ct[r], &ty))
    };
    let seeds: Vec<Option<Atom>> = (0..nonzero.len()).map(seed).collect();
    let mut args: Vec<Atom> = x[..first].iter().filter_map(Arg::known).collect();
    args.extend(into.hand_over(b, &seeds, first, &onto));
    let found = b.emit(op, &args);
    for (q, _) in back.nonzero.iter().enumerate().filter(|(_, on)| **on) {
        if let Arg::Linear(_) = x[first + q] {
            into.add(b, first + q, found[rank(q)]);
        }
    }
    Ok(())
}
