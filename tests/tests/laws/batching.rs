//! Batching: a function over a batch is the function on each.

use crate::derivatives::{Second, derived};
use crate::{for_all, subsets, tolerance};
use tapeloom_ir::{Literal, Module, Tensor, print_function};
use tapeloom_tests::{Agreement, Case, Failure, run};
use tapeloom_transforms::batch;

#[test]
fn batch_is_map() {
    for_all(batched);
}

#[test]
fn batch_of_a_derivative_is_map() {
    for_all(|m, case| match derived(m, case)? {
        Some(Second { jvp, vjp }) => batched(m, &jvp).and_then(|()| batched(m, &vjp)),
        None => Ok(()),
    });
}

/// The function over a batch against the function on each, for every set of batched arguments.
pub(crate) fn batched(m: &mut Module, case: &Case) -> Result<(), Failure> {
    for size in [0, 1, 3] {
        let inputs: Vec<Vec<Tensor>> =
            (0..size).map(|k| case.args.iter().map(|t| rotated(t, k)).collect()).collect();
        for mask in subsets(&vec![true; case.args.len()]) {
            let of = batch(m, case.f, size, &mask)?;
            let args: Vec<Tensor> = (0..case.args.len())
                .map(|i| match mask[i] {
                    true => stack(&case.args[i], inputs.iter().map(|x| &x[i])),
                    false => case.args[i].clone(),
                })
                .collect();
            let got = run(m, of.function, &args)?;
            let mut each = Vec::new();
            for input in &inputs {
                let choose = |i: usize| if mask[i] { &input[i] } else { &case.args[i] };
                let x: Vec<Tensor> = (0..mask.len()).map(|i| choose(i).clone()).collect();
                each.push(run(m, case.f, &x)?);
            }
            let model = run(m, case.f, &case.args)?;
            for (i, lifted) in of.batched_out.iter().enumerate() {
                let want = match lifted {
                    true => stack(&model[i], each.iter().map(|y| &y[i])),
                    false => each.first().map_or(&model[i], |y| &y[i]).clone(),
                };
                Agreement::relative(tolerance(m, case)).check(&got[i], &want).map_err(|e| {
                    let program = print_function(m, of.function);
                    format!("batch of {size}, batched {mask:?}, output {i}: {e}\n{program}")
                })?;
            }
        }
    }
    Ok(())
}

/// The same elements in another order: they stay within the domain, whatever it is.
fn rotated(t: &Tensor, by: usize) -> Tensor {
    let mut rotated = t.clone();
    for i in 0..t.elements() {
        rotated.set(i, t.get((i + by) % t.elements()));
    }
    rotated
}

fn stack<'t>(model: &Tensor, parts: impl ExactSizeIterator<Item = &'t Tensor>) -> Tensor {
    let shape = model.ty().shape.with_leading(parts.len());
    let mut whole = Tensor::full(&shape, Literal::zero(model.dtype()));
    for (k, part) in parts.enumerate() {
        for i in 0..part.elements() {
            whole.set(k * part.elements() + i, part.get(i));
        }
    }
    whole
}
