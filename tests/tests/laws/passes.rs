//! Passes: a program means the same before and after.

use crate::derivatives::derived;
use crate::{for_all, subsets};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{Module, print_function};
use tapeloom_tests::calculus::{finite, marked, precision};
use tapeloom_tests::{Agreement, Case, Failure, run};
use tapeloom_transforms::{PASSES, prune};

#[test]
fn passes_keep_the_values() {
    for_all(|m, case| {
        let derived = derived(m, case)?.map(|of| [of.jvp, of.vjp]);
        for case in derived.iter().flatten().chain([case]) {
            keep(m, case)?;
        }
        Ok(())
    });
}

/// The values before and after every pass.
pub(crate) fn keep(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let want = run(m, case.f, &case.args)?;
    for pass in PASSES {
        let f = (pass.run)(m, case.f)?;
        let program = || print_function(m, f);
        let agreement = match pass.exactness {
            Exactness::Exact => Agreement::Exact,
            // Real arithmetic knows neither infinities nor nan.
            Exactness::Reassociates if !want.iter().all(finite) => continue,
            Exactness::Reassociates => Agreement::relative(precision(m, case.f)),
        };
        agreement
            .check_all(&run(m, f, &case.args)?, &want)
            .map_err(|e| format!("{}: {e}\n{}", pass.name, program()))?;
    }
    Ok(())
}

#[test]
fn pruning_keeps_what_is_read() {
    for_all(|m, case| {
        let y = run(m, case.f, &case.args)?;
        for used in subsets(&vec![true; y.len()]) {
            let (f, kept) = prune(m, case.f, &used)?;
            let got = run(m, f, &marked(&case.args, &kept))?;
            Agreement::Exact.check_all(&got, &marked(&y, &used))?;
        }
        Ok(())
    });
}
