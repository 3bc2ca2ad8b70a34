//! Sign analysis: the claimed sign of a result holds for every number.
//!
//! Operands are edges (zeros of both signs, infinities, subnormals, nan) and random numbers. They are used unchanged,
//! and changed to satisfy a claim about the operand: never -0, or never below zero.

use crate::for_all;
use tapeloom_ir::prim::{Given, Operand, Sign};
use tapeloom_ir::{Literal, Module, Tensor, Type};
use tapeloom_tests::{Case, Elements, Failure, Rng, edge_tensors, tensor_of};

#[test]
fn signs_hold_for_values() {
    for_all(|m, case| {
        let mut rng = Rng::new(11);
        for claims in 0..9 {
            // Draw one of nine pairs of sign claims: a claim about the first operand, and a claim about all other
            // operands.
            let claim = |k: usize| {
                [Sign::Any, Sign::NeverMinusZero, Sign::Plus][match k {
                    0 => claims % 3,
                    _ => claims / 3,
                }]
            };
            let mut variants: Vec<Vec<Tensor>> = vec![case.args.clone()];
            let edges: Vec<Vec<Tensor>> = case.args.iter().map(|t| edge_tensors(t.ty())).collect();
            for n in 0..edges.iter().map(Vec::len).max().unwrap_or(0) {
                let at = |(k, t): (usize, &Tensor)| match edges[k].len() {
                    0 => t.clone(),
                    many => edges[k][(n + 3 * k) % many].clone(),
                };
                variants.push(case.args.iter().enumerate().map(at).collect());
            }
            variants.push(case.args.iter().map(|t| random(&mut rng, t)).collect());
            for args in variants {
                let fitted: Vec<Tensor> =
                    args.iter().enumerate().map(|(k, t)| fit(t, claim(k))).collect();
                said(m, case, &fitted, &claim)?;
            }
        }
        Ok(())
    });
}

/// Returns random floats of all magnitudes for a float tensor; returns other tensors unchanged.
fn random(rng: &mut Rng, t: &Tensor) -> Tensor {
    if !t.dtype().is_float() {
        return t.clone();
    }
    tensor_of(t.ty(), |_| {
        let size = 10f64.powf(rng.range(-330.0, 310.0));
        Literal::of(t.dtype(), rng.range(-1.0, 1.0) * size)
    })
}

/// Returns the tensor with each number that violates the claim replaced by its absolute value.
fn fit(t: &Tensor, claim: Sign) -> Tensor {
    tensor_of(t.ty(), |i| {
        let x = t.at(i);
        match x.dtype.is_float() && Sign::of(x) < claim {
            true => Literal::of(x.dtype, x.to_f64().abs()),
            false => x,
        }
    })
}

/// Checks that the sign that the analysis claims for the result of one equation holds for its value at these arguments.
fn said(
    m: &Module,
    case: &Case,
    args: &[Tensor],
    claim: &dyn Fn(usize) -> Sign,
) -> Result<(), Failure> {
    let f = m.function(case.f);
    let e = &f.equations[0];
    let [y] = e.outputs.as_slice() else { return Ok(()) };
    let types: Vec<Type> = e.operands.iter().map(|a| f.type_of(*a)).collect();
    let operands: Vec<Operand<'_>> =
        types.iter().zip(&e.operands).map(|(ty, a)| Operand { ty, literal: a.literal() }).collect();
    // Operands that are not literals are the parameters, in order.
    let given: Vec<Given> = (types.iter().zip(&e.operands))
        .map(|(ty, a)| match a.literal() {
            Some(x) => Given::literal(x),
            None => {
                let k = f.params.iter().position(|p| a.value() == Some(*p)).unwrap_or_default();
                let float = args[k].dtype().is_float();
                Given::of(ty, if float { claim(k) } else { Sign::Any }, None)
            }
        })
        .collect();
    let same = args.len() == e.operands.len() && args.windows(2).all(|w| w[0] == w[1]);
    for same in [false, same] {
        let sign = e.op.sign(m, &operands, &given, &f.types[*y], same);
        let value = &tapeloom_ir::eval(m, case.f, args)?[0];
        let broken = (0..value.elements()).map(|i| value.at(i)).find(|x| Sign::of(*x) < sign);
        if let Some(x) = broken {
            let known: Vec<Sign> = given.iter().map(|g| g.sign).collect();
            let message = format!("{:?} of {known:?} is {sign:?}, found {x} at {args:?}", e.op);
            return Err(message.into());
        }
    }
    Ok(())
}
