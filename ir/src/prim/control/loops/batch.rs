//! The batching rule of a loop: the result is one loop, each iteration of which runs for all batch members.
//!
//! A carry is batched if its start is batched or if an iteration makes it batched. An unbatched start is then repeated.
//! Elements and stacked results have the iterations on axis 0 and the batch on axis 1.

use super::{Binding, Loop, TripCount, repeated};
use crate::lang::function::Atom;
use crate::lang::problem::Problem;
use crate::lang::query::BatchRequest;
use crate::lang::types::Type;
use crate::prim::{Batched, Permute, RuleCx};

pub(super) fn batch(
    of: &Loop,
    cx: &mut RuleCx<'_, '_>,
    size: usize,
    x: &[Atom],
    batched: &[bool],
) -> Result<Batched, Problem> {
    let (derived, on) = of.fixed_point(
        of.of_params(batched.iter().copied()),
        |on, forced| {
            let wanted = |on: &bool| if *on { BatchRequest::Batched } else { BatchRequest::AsIs };
            let wanted: Vec<BatchRequest> = forced.iter().map(wanted).collect();
            cx.derive(|regions, m| regions.batch(m, of.body, size, on, &wanted))
        },
        |derived| &derived.batched_out,
    )?;
    let differs = match &of.spec.trip {
        TripCount::Static(_) => false,
        TripCount::Runtime => batched[0],
        TripCount::While { reads, .. } => reads.iter().any(|p| on[*p]),
    };
    if differs {
        return super::masked_batch::batch(of, cx, size, x, batched);
    }
    let (b, lead) = (cx.b, of.spec.lead());
    let mut args = x[..lead].to_vec();
    for ((p, x), lifted) in of.spec.params().zip(&x[lead..]).zip(&batched[lead..]) {
        args.push(match of.spec.takes[p] {
            Binding::Xs if *lifted => inside(cx, *x),
            Binding::Carry(_) if on[p] && !lifted => repeated(b, size, *x),
            Binding::Index | Binding::Const | Binding::Carry(_) | Binding::Xs => *x,
        });
    }
    let y = b.emit(Loop { body: derived.function, ..of.clone() }, &args);
    let stacked = |r: usize| derived.batched_out[r] && of.spec.carrier(r).is_none();
    let mut lifted = derived.batched_out.clone();
    lifted.resize(y.len(), false);
    let output = |(r, y): (usize, &Atom)| match r < derived.batched_out.len() && stacked(r) {
        true => inside(cx, *y),
        false => *y,
    };
    Ok(Batched { y: y.iter().enumerate().map(output).collect(), batched: lifted.into() })
}

/// Exchanges the batch axis (0) and the axis of iterations (1) of a stacked array. A tape is returned unchanged: each
/// of its records, the residuals of one iteration, has the batch axis inside.
fn inside(cx: &RuleCx<'_, '_>, x: Atom) -> Atom {
    let Type::Array(ty) = cx.b.type_of(x) else { return x };
    let permutation = [1, 0].into_iter().chain(2..ty.shape.len()).collect();
    cx.b.emit1(Permute { permutation }, &[x])
}
