//! The meaning of vector lanes, and the check whether a loop may have them.
//!
//! A loop with n lanes executes n iterations side by side: each scalar has one value for each lane, in vectors if the
//! machine has them. A variable outside the loop into which the loop folds has an accumulator for each lane. The lanes
//! are part of the loop program, because the result of a float sum depends on the order of its terms:
//!
//! ```text
//! fold i0 in 11 lanes 4 {          p = (0, 0, 0, 0)                  the neutral element of `add`
//!   %0: f64 = load b0[i0]          p[i % 4] += b0[i]    i = 0 .. 11
//!   v0 = add v0, %0                v0 += (p[0] + p[2]) + (p[1] + p[3])    halves first
//! }
//! ```
//!
//! So a fold gives the same bits on every machine and in the interpreter, whatever the width of the machine's
//! vectors, or without any vectors.
//!
//! Lanes are legal if no iteration accesses elements that another iteration in the same vector writes ([`refused`]);
//! [`vectorize`](crate::passes::vectorize) chooses among the legal numbers.

use super::analysis::dependence;
use super::{Effect, Extent, Flow, Kernel, Parallelism, Stmt, VarId, visit};
use tapeloom_ir::Code;

/// The maximal number of vector lanes of a loop (64): more than the vectors of any machine have, and small enough for
/// code size, which grows with the number of lanes.
pub(crate) const MOST_LANES: usize = 64;

/// Combines the accumulators of all lanes into one: combines the upper half with the lower half until one accumulator
/// is left, so that whole vectors are combined before the lanes of one vector. `None` if there are no accumulators.
pub(crate) fn combine<T: Copy, E>(
    mut partial: impl AsMut<[T]>,
    mut fold: impl FnMut(T, T) -> Result<T, E>,
) -> Result<Option<T>, E> {
    let mut left = partial.as_mut();
    while left.len() > 1 {
        let (low, high) = left.split_at_mut(left.len() / 2);
        for (x, y) in low.iter_mut().zip(high) {
            *x = fold(*x, *y)?;
        }
        left = low;
    }
    Ok(left.first().copied())
}

/// Returns the reason why the loop `stmt` cannot have this number of vector lanes; `None` if it can.
pub(crate) fn refused(k: &Kernel, stmt: &Stmt, lanes: usize) -> Option<String> {
    let Stmt::For { index, extent, parallelism, carries, body, .. } = stmt else {
        return Some("it is no loop".to_owned());
    };
    if *parallelism == Parallelism::Concurrent {
        return Some("it is concurrent".to_owned());
    }
    let Extent::Constant(extent) = *extent else {
        return Some("its trip count is known at run time only".to_owned());
    };
    let most = extent.min(MOST_LANES);
    if !lanes.is_power_of_two() || lanes > most {
        return Some(format!("{lanes} is no power of two up to {most}"));
    }
    if let Some(c) = carries.first() {
        return Some(format!("{c} is carried"));
    }
    // All lanes must take the same control flow: refuse branches and loops whose condition may differ between
    // iterations.
    let mut apart = None;
    visit(body, &mut |stmt| {
        let shape = stmt.shape();
        let runs = match shape.flow {
            Flow::For { extent: Extent::Scalar(_), .. } => {
                Some("the trip count of a loop inside is known at run time only")
            }
            Flow::For { .. } if !shape.carries.is_empty() => Some("a loop inside carries arrays"),
            Flow::For { parallelism: Parallelism::Concurrent, .. } => {
                Some("a loop inside is concurrent")
            }
            Flow::For { lanes, .. } if lanes != 1 => Some("a loop inside has lanes"),
            Flow::While => Some("there is a `while` inside"),
            Flow::If => Some("there is a branch inside"),
            Flow::Straight | Flow::Nest | Flow::For { .. } => None,
        };
        let does = match shape.effect {
            Effect::None => shape.contract.map(|_| "there is a contraction inside"),
            Effect::Call(_) => Some("there is a call inside"),
            Effect::External(_) => Some("there is a call of an external function inside"),
            Effect::Tape(_) => Some("a cursor moves inside"),
            Effect::Limit(_) => Some("a loop inside has an iteration limit"),
            Effect::Lap(_) => Some("a timer is read inside"),
        };
        apart = apart.or(runs).or(does);
    });
    if let Some(why) = apart {
        return Some(why.to_owned());
    }
    if let (Parallelism::Serial, why) = dependence::variables(body) {
        return Some(why);
    }
    let neutral = |(v, code): &(VarId, Code)| k.vars.get(*v).and_then(|d| code.neutral(*d));
    if let Some((v, code)) = dependence::folds(body).iter().find(|f| neutral(f).is_none()) {
        return Some(format!("{v} is folded into by {code}, which has no neutral element"));
    }
    let apart =
        *parallelism != Parallelism::Serial || dependence::may_run_in_lanes(k, *index, lanes, body);
    (!apart).then(|| "iterations may access memory that other iterations write".to_owned())
}
