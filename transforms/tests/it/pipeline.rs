//! Tests of the lists of passes.

use std::collections::BTreeSet;
use tapeloom_transforms::{List, PASSES};

/// In each list, every step that repeats a pass must have a reason that begins with "again: ".
#[test]
fn repetitions_have_their_reason() {
    for list in List::ALL {
        for (i, step) in list.steps.iter().enumerate() {
            let again = list.steps[..i].iter().any(|s| s.pass.name == step.pass.name);
            assert_eq!(again, step.why_here.starts_with("again: "), "{}: {step}", list.name);
        }
    }
}

#[test]
fn steps_wait_for_one_that_follows() {
    for list in List::ALL {
        for (i, step) in list.steps.iter().enumerate() {
            let next = list.steps[i..].iter().find(|step| step.kept_if.is_none());
            if let Some(pass) = step.kept_if {
                assert_eq!(next.map(|next| next.pass.name), Some(pass.name), "{}", list.name);
            }
        }
    }
}

#[test]
fn every_pass_has_its_place() {
    let rows: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
    // The e-graph with exact rules changed the loops of few programs and made none faster, so it is no step of a list. It
    // can be called by its name, and is the same code as `simplify_relaxed`.
    let by_name_only = ["simplify"];
    let used = List::ALL.iter().flat_map(|list| list.steps).map(|step| step.pass.name);
    let used: BTreeSet<&str> = used.chain(by_name_only).collect();
    assert_eq!(rows, used.into_iter().collect::<Vec<_>>());
}
