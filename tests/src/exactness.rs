//! Analysis of the accuracy that engines and passes guarantee for each result: equal bits, or agreement up to
//! rounding.
//!
//! Engines and exact passes agree in every bit on programs of elementwise, movement, integer and maximum or minimum
//! operations. The terms of a float sum or product may be combined in another order, so such a result agrees up to
//! rounding. Values computed from a rounded value agree up to rounding too, unless the operation is discontinuous,
//! like a comparison or an index computed from a rounded number. [`trusts`] propagates this through a program by the
//! lowerings of its primitives and the table of scalar codes, without naming any primitive.

use crate::{Agreement, Elements, Failure};
use tapeloom_ir::prim::{
    Binding, Code, Continuity, Fold, LoopSpec, Lowering, Operand, Step, TripCount,
};
use tapeloom_ir::{FuncId, Literal, Module, Tensor, Type};

/// The guaranteed accuracy of a value, when two engines or a pass compute it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Trust {
    /// Equal bits.
    Exact,
    /// Agreement up to rounding.
    Rounded,
    /// No guarantee: the value is a discontinuous function of a value that may be rounded, so two engines may get
    /// unrelated results.
    Open,
}

/// Returns the guaranteed accuracy of every result of a function.
///
/// In a `wild` program values may be infinite, nan or near poles, where an operation on a rounded value may return any
/// number; so only data movement preserves `Trust::Rounded`.
pub fn trusts(m: &Module, f: FuncId, wild: bool) -> Vec<Trust> {
    let params = vec![Trust::Exact; m.function(f).param_types().len()];
    results(m, f, &params, wild)
}

fn results(m: &Module, id: FuncId, params: &[Trust], wild: bool) -> Vec<Trust> {
    let f = m.function(id);
    // The ids of a function's values are consecutive: parameters first, then the outputs of equations in order.
    let mut trust: Vec<Trust> = params.to_vec();
    let of = |trust: &[Trust], a: &tapeloom_ir::Atom| match a.value() {
        Some(v) => trust[v.as_u32() as usize],
        None => Trust::Exact,
    };
    for e in &f.equations {
        let types: Vec<Type> = e.operands.iter().map(|a| f.type_of(*a)).collect();
        let x: Vec<Trust> = e.operands.iter().map(|a| of(&trust, a)).collect();
        let operands: Vec<Operand<'_>> = types
            .iter()
            .zip(&e.operands)
            .map(|(ty, a)| Operand { ty, literal: a.literal() })
            .collect();
        let lowering = e.op.lower(m, &operands);
        match &lowering {
            Lowering::Call(g) => {
                trust.extend(results(m, *g, &x, wild));
                continue;
            }
            Lowering::Branch { branches } => {
                // If the predicate depends on rounded values, engines may select different branches.
                let which = if x[0] == Trust::Exact { Trust::Exact } else { Trust::Open };
                let all = branches.iter().map(|g| results(m, *g, &x[1..], wild));
                let worst =
                    all.reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a.max(b)).collect());
                trust.extend(worst.unwrap_or_default().into_iter().map(|t| t.max(which)));
                continue;
            }
            // A host function may be discontinuous or return an error. A routine may divide by a number near zero.
            Lowering::Host(_) | Lowering::Routine(_) => {
                let exact = x.iter().all(|x| *x == Trust::Exact);
                let each = if exact { Trust::Exact } else { Trust::Open };
                trust.extend(e.outputs.iter().map(|_| each));
                continue;
            }
            Lowering::Loop { body, spec } => {
                trust.extend(after_iterations(m, *body, spec, &x, wild));
                continue;
            }
            _ => {}
        }
        let out = &f.types[e.outputs[0]];
        let float = out.as_array().is_some_and(|t| t.dtype.is_float());
        trust.push(one(&lowering, float, &x, wild));
        trust.extend(e.outputs.iter().skip(1).map(|_| Trust::Rounded));
    }
    f.results.iter().map(|r| of(&trust, r)).collect()
}

/// Returns the guaranteed accuracy of the outputs of a loop: the body is analysed repeatedly, until the accuracy of its
/// carries no longer changes.
fn after_iterations(
    m: &Module,
    body: FuncId,
    spec: &LoopSpec,
    x: &[Trust],
    wild: bool,
) -> Vec<Trust> {
    let mut params = vec![Trust::Exact; spec.takes.len()];
    let lead = spec.lead();
    for (p, x) in spec.params().zip(&x[lead..]) {
        params[p] = *x;
    }
    // If the trip count or the condition is rounded, the number of iterations may differ.
    let counted = |params: &[Trust]| {
        let rounded = match &spec.trip {
            TripCount::Static(_) => false,
            TripCount::Runtime => x[0] != Trust::Exact,
            TripCount::While { condition, reads } => {
                let read: Vec<Trust> = reads.iter().map(|p| params[*p]).collect();
                results(m, *condition, &read, wild)[0] != Trust::Exact
            }
        };
        if rounded { Trust::Open } else { Trust::Exact }
    };
    loop {
        let mut y = results(m, body, &params, wild);
        let mut settled = true;
        for (p, slot) in spec.takes.iter().enumerate() {
            if let Binding::Carry(r) = slot {
                y[*r] = y[*r].max(params[p]);
                settled &= y[*r] == params[p];
                params[p] = y[*r];
            }
        }
        if settled {
            let counted = counted(&params);
            let trips = matches!(spec.trip, TripCount::While { .. }).then_some(Trust::Exact);
            return y.into_iter().chain(trips).map(|t| t.max(counted)).collect();
        }
    }
}

fn one(lowering: &Lowering, float: bool, x: &[Trust], wild: bool) -> Trust {
    let all = x.iter().copied().max().unwrap_or(Trust::Exact);
    // A discontinuous function of a rounded value may return any number.
    let jump = |of: Trust| if of == Trust::Exact { all } else { Trust::Open };
    let folded = if float { all.max(Trust::Rounded) } else { jump(all) };
    match lowering {
        _ if all == Trust::Exact && !lowering.sums() => Trust::Exact,
        Lowering::Elementwise(code) => match code {
            _ if wild || !float => jump(all),
            Code::Select => jump(x[0]),
            _ if code.row().continuity == Continuity::Jumps => jump(all),
            _ => all,
        },
        Lowering::View { .. }
        | Lowering::Reshape
        | Lowering::Alias { .. }
        | Lowering::Iota { .. } => all,
        Lowering::Reduce { .. } if lowering.sums() => {
            if wild && all != Trust::Exact {
                Trust::Open
            } else {
                folded
            }
        }
        Lowering::Reduce { .. } => all,
        Lowering::ArgReduce { .. } | Lowering::ArgSort { .. } => jump(all),
        Lowering::Cumulate { step: Step::Fold(Code::Max | Code::Min), .. } => all,
        Lowering::Cumulate { step: Step::Segments, .. } if x[0] != Trust::Exact => Trust::Open,
        // Here an operand is rounded. (If all operands are exact, a cumulative sum is exact, too, because every engine
        // adds its terms in the same order.)
        Lowering::Cumulate { .. } if wild => Trust::Open,
        Lowering::Cumulate { .. } => folded,
        Lowering::Contract { .. } => {
            if wild && all != Trust::Exact {
                Trust::Open
            } else {
                folded
            }
        }
        Lowering::DynamicSlice => jump(x[1..].iter().copied().max().unwrap_or(Trust::Exact)),
        Lowering::DynamicUpdateSlice => jump(x[2..].iter().copied().max().unwrap_or(Trust::Exact)),
        Lowering::Gather { .. } => jump(x[1]),
        Lowering::Scatter { .. } if x[1] != Trust::Exact => Trust::Open,
        Lowering::Scatter { .. } if lowering.sums() => {
            if wild && all != Trust::Exact {
                Trust::Open
            } else {
                folded
            }
        }
        Lowering::Scatter { .. } => all,
        Lowering::Call(_)
        | Lowering::Host(_)
        | Lowering::Routine(_)
        | Lowering::Branch { .. }
        | Lowering::Loop { .. }
        | Lowering::Missing(_) => all.max(Trust::Rounded),
    }
}

/// Whether a lowering combines float terms in an order that engines may choose, which changes the rounding.
trait Sums {
    fn sums(&self) -> bool;
}

impl Sums for Lowering {
    fn sums(&self) -> bool {
        let order = |code: Code| matches!(code.row().fold, Fold::Rounded(_));
        match self {
            Lowering::Reduce { code, .. } => order(*code),
            Lowering::Scatter { combine, .. } => combine.code().is_some_and(order),
            Lowering::Contract { .. } => true,
            _ => false,
        }
    }
}

/// Compares the results `got` with `want`, each by its guaranteed accuracy; `relative` and `absolute` bound the
/// differences of rounded results. In wild programs (their floats may be infinities, nan and numbers near poles) the
/// order of summation may decide whether a sum overflows, so only finite elements of rounded results are compared
/// there.
///
/// # Errors
/// Names the first result that differs.
pub fn check(
    trust: &[Trust],
    [got, want]: [&[Tensor]; 2],
    [relative, absolute]: [f64; 2],
    wild: bool,
) -> Result<(), Failure> {
    if got.len() != want.len() {
        return Err(format!("got {} tensors, want {}", got.len(), want.len()).into());
    }
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let outcome = match trust.get(i).copied().unwrap_or(Trust::Open) {
            Trust::Exact => Agreement::Exact.check(g, w),
            Trust::Open if g.ty() != w.ty() => Err(format!("got {}, want {}", g.ty(), w.ty())),
            Trust::Open => Ok(()),
            Trust::Rounded => {
                let within = Agreement::Within { relative, absolute };
                if wild { within.check(&numbers(g, w), &numbers(w, g)) } else { within.check(g, w) }
            }
        };
        outcome.map_err(|e| format!("output {i}, {e}"))?;
    }
    Ok(())
}

/// Returns `x` with zeros at the elements where `x` or `y` is not finite.
fn numbers(x: &Tensor, y: &Tensor) -> Tensor {
    let mut z = x.clone();
    for i in 0..x.elements().min(y.elements()) {
        if ![x, y].iter().all(|t| t.at(i).to_f64().is_finite()) {
            z.put(i, Literal::zero(x.dtype()));
        }
    }
    z
}
