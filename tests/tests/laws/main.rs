//! Properties ("laws") that hold for every primitive at each of its samples, and for random programs; also comparisons
//! with tables recorded from other libraries, and text tests of each step.
//!
//! A new primitive is tested by its samples. No law refers to a primitive by name. A law reports all primitives that
//! break it, with the program, in one failure.

mod batching;
mod compose;
mod conformance;
mod convolutions;
mod cost;
mod derivatives;
mod edges;
mod empty;
mod filetests;
mod golden_transforms;
mod kernel_passes;
mod matrices;
mod mutations;
mod native;
mod passes;
mod primitives_page;
mod products;
mod queries;
mod random;
mod recorded_values;
mod rewrites;
mod signs;
mod special;
mod spectra;
mod stablehlo;
mod values;
mod vocabulary;
mod window_sums;
mod xla;

use std::panic::{AssertUnwindSafe, catch_unwind};
use tapeloom_ir::{Module, print_function};
use tapeloom_tests::{Case, Failure, Sweep, cases};

pub(crate) type Law = fn(&mut Module, &Case) -> Result<(), Failure>;

/// Checks a property at every sample of every primitive, and reports all failures.
#[track_caller]
pub(crate) fn for_all(law: Law) {
    for_each(|m| Sweep::Samples.all(cases(m)), law);
}

/// Checks a property at each case that `cases` returns, and reports all failures.
#[track_caller]
pub(crate) fn for_each(cases: fn(&mut Module) -> Vec<Case>, law: Law) {
    let mut module = Module::new();
    let mut failures = Vec::new();
    let cases = cases(&mut module);
    for case in &cases {
        let outcome = catch_unwind(AssertUnwindSafe(|| law(&mut module, case)));
        let message = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(failure)) => failure.to_string(),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                format!("panicked: {}", text.unwrap_or_default())
            }
        };
        let program = print_function(&module, case.f);
        failures.push((case.name.as_str(), format!("{program}at {:?}\n{message}", case.args)));
    }
    if failures.is_empty() {
        return;
    }
    let mut report = String::new();
    let mut names: Vec<&str> = failures.iter().map(|(name, _)| *name).collect();
    names.dedup();
    for name in &names {
        // Print only the first failure per primitive.
        let of_name = || failures.iter().filter(|(n, _)| n == name);
        if let Some((_, first)) = of_name().next() {
            report += &format!(
                "\n-- {name}: {} of its samples, the first:\n{first}\n",
                of_name().count()
            );
        }
    }
    panic!(
        "{} of {} samples break the law: {}\n{report}",
        failures.len(),
        cases.len(),
        names.join(", ")
    );
}

/// Returns non-empty subsets of the marked elements: all subsets if few are marked, otherwise the set of all marked
/// elements and each marked element alone.
pub(crate) fn subsets(mask: &[bool]) -> Vec<Vec<bool>> {
    let marked: Vec<usize> = (0..mask.len()).filter(|i| mask[*i]).collect();
    let n = marked.len();
    let choices: Vec<usize> = match n {
        0..=3 => (1..1 << n).collect(),
        _ => (0..n).map(|i| 1 << i).chain([(1 << n) - 1]).collect(),
    };
    let subset = |bits: usize| {
        let mut s = vec![false; mask.len()];
        for (k, i) in marked.iter().enumerate() {
            s[*i] = bits >> k & 1 == 1;
        }
        s
    };
    choices.into_iter().map(subset).collect()
}
