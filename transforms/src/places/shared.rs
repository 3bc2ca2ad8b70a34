//! Constants of a loop that are one value are one parameter.
//!
//! ```text
//! loop{body=@f, trip=9, takes=[const,carry0,const]} %0, %1, %0      @f(a, c, b) = a c + b
//! loop{body=@g, trip=9, takes=[const,carry0]} %0, %1                @g(a, c) = a c + a
//! ```
//!
//! A closure that hands on what it also captures has both. Its cotangent is then one running total, and the
//! order of its sum is that of the rounds, however a plan cuts them into loops.

use super::known::Fact;
use super::walk::inside_out;
use tapeloom_ir::prim::{Rounds, Slot, Trip};
use tapeloom_ir::{Atom, Builder, Copying, Draft, FuncId, Module, Op, OrderedMap, Problem};

/// The same function, whose loops take each constant once.
pub(super) fn shared(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    inside_out(module, f, &[], once, &mut OrderedMap::default())
}

fn once(
    b: &Builder<'_>,
    op: &Op,
    operands: &[Atom],
    _: &[Fact],
) -> Result<Option<Vec<Atom>>, Problem> {
    let Some((body, mut rounds)) = b.with_module(|m| op.as_loop(m)) else { return Ok(None) };
    let f = b.with_module(|m| m.get(body));
    let known = f.params.len();
    let Some((first, again)) = twice(&rounds, operands, known) else { return Ok(None) };
    let mut draft = Draft::new(f.name.clone());
    let mut copying = Copying::new();
    for (at, p) in f.all_params().enumerate() {
        let made = match at {
            _ if at == again => copying.read(f.params[first].into()),
            _ if at < known => draft.param(f.types[p].clone()),
            _ => draft.linear_param(f.types[p].clone()),
        };
        copying.bind(p, made);
    }
    for (i, e) in f.equations.iter().enumerate() {
        let made = draft.copy(&f, i, copying.all(&e.operands));
        copying.define(e, made);
    }
    let body = b.with_module(|m| draft.finish(m, copying.results(&f)))?;
    let place = rounds.lead() + rounds.params().take_while(|p| *p < again).count();
    rounds.takes.remove(again);
    if let Trip::While { reads, .. } = &mut rounds.trip {
        for p in reads.iter_mut() {
            *p = match *p {
                p if p == again => first,
                p if p > again => p - 1,
                p => p,
            };
        }
    }
    let mut given = operands.to_vec();
    given.remove(place);
    let Some(better) = op.with_rounds(body, rounds) else { return Ok(None) };
    Ok(Some(match once(b, &better, &given, &[])? {
        Some(outputs) => outputs,
        None => b.emit(better, &given).to_vec(),
    }))
}

/// Two of the first `known` parameters that are constants of one operand.
fn twice(rounds: &Rounds, operands: &[Atom], known: usize) -> Option<(usize, usize)> {
    let mut seen: OrderedMap<Atom, usize> = OrderedMap::default();
    for (p, operand) in rounds.params().zip(&operands[rounds.lead()..]) {
        if p < known && rounds.takes[p] == Slot::Const {
            if let Some(first) = seen.get(operand) {
                return Some((*first, p));
            }
            seen.insert(*operand, p);
        }
    }
    None
}
