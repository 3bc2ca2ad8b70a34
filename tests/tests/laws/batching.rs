//! Batching: a batched function agrees with the function applied to each batch member.

use crate::derivatives::{Second, derived};
use crate::{for_all, subsets};
use tapeloom_ir::{Module, Tensor, print_function};
use tapeloom_tests::Elements;
use tapeloom_tests::calculus::{check_batch, stack};
use tapeloom_tests::{Case, Failure, run};
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

/// Compares the batched function with the function applied to each batch member, for batches of 0, 1 and 3 members and
/// for every choice of the arguments that are batched.
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
            let choose =
                |x: &[Tensor], i: usize| if mask[i] { &x[i] } else { &case.args[i] }.clone();
            let inputs: Vec<Vec<Tensor>> =
                inputs.iter().map(|x| (0..mask.len()).map(|i| choose(x, i)).collect()).collect();
            check_batch(m, case.f, &case.args, &inputs, &got, &of.batched_out, false).map_err(
                |e| {
                    let program = print_function(m, of.function);
                    format!("batch of {size}, batched {mask:?}, {e}\n{program}")
                },
            )?;
        }
    }
    Ok(())
}

/// Returns the elements of `t` moved by `by` positions. Batch members are made in this way, so that their elements stay
/// in the function's domain.
fn rotated(t: &Tensor, by: usize) -> Tensor {
    let mut rotated = t.clone();
    for i in 0..t.elements() {
        rotated.put(i, t.at((i + by) % t.elements()));
    }
    rotated
}
