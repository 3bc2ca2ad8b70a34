//! Random programs: the properties of derivatives, batching and passes must hold for compositions of primitives too.
//!
//! These tests are about the transforms (activity, linearity, batching, sums of cotangents) rather than the primitives.
//! `Sweep` gives the seeds; a failing program is shrunk to few equations.

use crate::{batching, derivatives, native, passes, values};
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use tapeloom_ir::{Module, print_function};
use tapeloom_tests::{Sweep, Vocabulary};

#[test]
fn laws_hold_for_random_programs() {
    let mut module = Module::new();
    let vocabulary = Vocabulary::new(&mut module);
    let config = Config {
        cases: Sweep::Laws.cases() as u32,
        failure_persistence: None,
        ..Config::default()
    };
    let seed = [Sweep::Laws.seed().to_le_bytes(); 4].concat();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let choices = proptest::collection::vec(proptest::num::u64::ANY, 1..24);
    let laws: [crate::Law; 5] =
        [values::text, derivatives::reverse, batching::batched, passes::keep, native::native];
    let outcome = TestRunner::new_with_rng(config, rng).run(&choices, |choices| {
        let mut m = module.clone();
        let fail = |e: String| proptest::test_runner::TestCaseError::fail(e);
        let case = vocabulary.program(&mut m, &choices).map_err(|e| fail(e.to_string()))?;
        for law in laws {
            law(&mut m, &case)
                .map_err(|e| fail(format!("{e}\nin {}", print_function(&m, case.f))))?;
        }
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, choices)) => panic!("{reason}\nchoices {choices:?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}
