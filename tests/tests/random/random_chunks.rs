//! Random batches of loops of different lengths, from [`tapeloom_tests::random_chunks`].

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use tapeloom_tests::Sweep;
use tapeloom_tests::random_chunks::{Batch, chunks, failure};

#[test]
fn chunks_have_the_results_of_whole_batches() {
    for seed in Sweep::Chunks.seeds() {
        if let Some(failure) = failure(seed) {
            panic!("{failure}");
        }
    }
}

/// The chunks of these batches must run in pieces, and batches without loops have no chunks.
#[test]
fn some_chunks_run_in_pieces() {
    for steps in [vec![0], vec![1, 5, 3], vec![2], vec![11]] {
        let batch = Batch { members: 100, width: 2, steps };
        assert!(chunks(&batch).unwrap(), "{batch:?}");
    }
    let batch = Batch { members: 100, width: 2, steps: vec![5] };
    assert!(!chunks(&batch).unwrap());
}
