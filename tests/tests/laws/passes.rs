//! Passes: a program means the same before and after.

use crate::derivatives::derived;
use crate::{for_all, subsets};
use tapeloom_ir::lang::query::PruneOf;
use tapeloom_ir::prim::{Attr, Exactness};
use tapeloom_ir::{FuncId, Module, print_function};
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
            let PruneOf { function: f, params: kept } = prune(m, case.f, &used)?;
            let got = run(m, f, &marked(&case.args, &kept))?;
            Agreement::Exact.check_all(&got, &marked(&y, &used))?;
        }
        Ok(())
    });
}

#[test]
fn regions_are_what_they_are_set_to() {
    for_all(|m, case| {
        let f = m.get(case.f);
        for e in &f.equations {
            let regions = e.op.regions();
            let functions: Vec<FuncId> = regions.iter().map(|r| r.function).collect();
            assert!(e.op.with_regions(&functions) == e.op);
            // Each in its own place, and no attribute is left behind.
            let others: Vec<FuncId> = m.iter().map(|(id, _)| id).take(functions.len()).collect();
            let other = e.op.with_regions(&others);
            assert_eq!(other.regions().iter().map(|r| r.function).collect::<Vec<_>>(), others);
            assert!(other.regions().iter().zip(&regions).all(|(a, b)| a.role == b.role));
            let attributes = e.op.attributes();
            let written = attributes.iter().flat_map(|(_, a)| match a {
                Attr::Func(f) => vec![*f],
                Attr::Funcs(all) => all.clone(),
                _ => Vec::new(),
            });
            assert_eq!(written.collect::<Vec<_>>(), functions);
        }
        Ok(())
    });
}
