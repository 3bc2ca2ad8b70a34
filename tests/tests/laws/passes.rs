//! Passes on functions: each must leave the results of a program unchanged.

use crate::derivatives::derived;
use crate::kernel_passes::check_page;
use crate::{for_all, subsets};
use tapeloom_ir::lang::query::PruneOf;
use tapeloom_ir::prim::{Attr, Exactness};
use tapeloom_ir::{FuncId, Module, Tensor, parse_module, print_function};
use tapeloom_tests::bisect::{Verdict, bisect_function};
use tapeloom_tests::calculus::{finite, marked, precision};
use tapeloom_tests::{Agreement, Case, Failure, run};
use tapeloom_transforms::{BEFORE_CODE, BEFORE_RELAXED_CODE, List, PASSES, Pass, prune};

/// Returns the book's table of passes, and of the pipelines that contain them.
fn table() -> String {
    let mut table = "\n| Pass | What it does | Results |\n|---|---|---|\n".to_owned();
    for Pass { name, about, exactness, .. } in PASSES {
        let bits = match exactness {
            Exactness::Exact => "the same bits",
            Exactness::Reassociates => "the same for real numbers",
            Exactness::Flushes => "0 for subnormal numbers",
        };
        table += &format!("| `{name}` | {about} | {bits} |\n");
    }
    for List { name, about, steps } in List::ALL {
        table +=
            &format!("\n`{name}`: {about}.\n\n| | Step | Why it stands here |\n|---|---|---|\n");
        for (i, step) in steps.iter().enumerate() {
            table += &format!("| {} | `{step}` | {} |\n", i + 1, step.why_here);
        }
    }
    table
        + "\nA step `a if b` is tentative: its result is used only where the next pass `b` then \
           changes the function.\n\n"
}

#[test]
fn the_books_table_is_that_of_the_rows() {
    check_page("passes.md", "passes", &table());
}

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

/// Bisection at an argument where a pass for real arithmetic changes a nan: that pass must be named as wrong, and no
/// exact pass.
#[test]
fn the_step_that_is_wrong_is_named() {
    let text = "func @f(%0: f64[]) -> (f64[]) {
  %1: f64[] = call{function=@g, outline=false} %0
  return %1
}";
    let zero = "func @g(%0: f64[]) -> (f64[]) {\n  %1: f64[] = mul %0, 0.0\n  return %1\n}\n";
    let m = parse_module(&[zero, text].concat()).unwrap();
    let (f, _) = m.iter().last().unwrap();
    let args = [Tensor::from(f64::INFINITY)];
    let verdict = bisect_function(&BEFORE_CODE, &m, f, &args).unwrap();
    assert!(matches!(verdict, Verdict::Right), "{verdict}");
    let verdict = bisect_function(&BEFORE_RELAXED_CODE, &m, f, &args).unwrap();
    let Verdict::Wrong { step, programs: [before, after], .. } = &verdict else {
        panic!("{verdict}")
    };
    assert_eq!(step, "simplify_relaxed");
    assert!(before.contains("mul") && !after.contains("mul"), "{verdict}");
}

/// Compares a program's results before and after every pass on functions.
pub(crate) fn keep(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let want = run(m, case.f, &case.args)?;
    for pass in PASSES {
        let f = pass.apply(m, case.f)?;
        let program = || print_function(m, f);
        let agreement = match pass.exactness {
            Exactness::Exact => Agreement::Exact,
            // A pass for real arithmetic need not preserve infinities or nan.
            Exactness::Reassociates if !want.iter().all(finite) => continue,
            Exactness::Reassociates => Agreement::relative(precision(m, case.f)),
            // A pass that flushes subnormal carries to 0 must also keep every bit, because no sample has a subnormal
            // carry.
            Exactness::Flushes => Agreement::Exact,
        };
        agreement
            .check_all(&run(m, f, &case.args)?, &want)
            .map_err(|e| format!("{}: {e}\n{}", pass.name, program()))?;
    }
    Ok(())
}

#[test]
fn pruning_keeps_results_that_are_read() {
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
fn with_regions_replaces_every_region() {
    for_all(|m, case| {
        let f = m.get(case.f);
        for e in &f.equations {
            let regions = e.op.regions();
            let functions: Vec<FuncId> = regions.iter().map(|r| r.function).collect();
            assert!(e.op.with_regions(&functions) == e.op);
            // After the functions of a primitive are replaced, each of its regions must have the function at its own
            // index, and no attribute may refer to an old function.
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
