//! Random recurrences over a batch, from [`tapeloom_tests::random_batches`].

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use tapeloom_tests::Sweep;
use tapeloom_tests::random_batches::{Form, Recurrence, failure, pieces};

#[test]
fn pieces_have_the_results_of_whole_loops() {
    for seed in Sweep::Recurrences.seeds() {
        if let Some(failure) = failure(seed) {
            panic!("{failure}");
        }
    }
}

/// Some of the drawn loops must run in pieces, and others must not.
#[test]
fn some_recurrences_run_in_pieces() {
    let alone =
        Recurrence { members: 64, width: 4, times: 7, form: Form::Whole, steps: vec![0, 1] };
    let together = Recurrence { steps: vec![0, 16], ..alone.clone() };
    assert!(pieces(&alone).unwrap());
    assert!(!pieces(&together).unwrap());
}
