//! Random programs with loops under random policies and budgets, and on random simulated machines; see
//! [`tapeloom_tests::random_loops`] for the programs and their checks.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use tapeloom::Policy;
use tapeloom_tests::Sweep;
use tapeloom_tests::random_loops::{self, Iterations, Law, Program, Step, failure};

fn for_all(sweep: Sweep, draw: fn(u64) -> Program, law: Law) {
    for seed in sweep.seeds() {
        if let Some(failure) = failure(draw(seed), seed, law) {
            panic!("{failure}");
        }
    }
}

#[test]
fn values_gradients_and_effects_are_those_of_every_policy() {
    for_all(Sweep::Policies, Program::draw, random_loops::policies);
}

/// The test is skipped without a plugin of XLA.
#[test]
fn programs_of_xla_have_the_same_effects() {
    for_all(Sweep::LoopsOnXla, Program::draw, random_loops::on_xla);
}

#[test]
fn donated_arguments_change_no_bit() {
    for_all(Sweep::DonatedLoops, Program::draw, random_loops::donated);
}

#[test]
fn threads_change_no_bit() {
    for_all(Sweep::Pieces, Program::draw, random_loops::pieces);
}

/// Regression: a call under `checkpoint_carries` is inlined into its caller under every policy. Gradients must have the
/// same bits. So if the call reads an element of an array, the element's cotangent must be added after the cotangents
/// of the whole array.
#[test]
fn checkpoint_carries_changes_no_bit() {
    let until = Step::Iterations(Iterations::Until, 1, vec![Step::Code(13), Step::Code(11)]);
    for (extent, steps) in [
        (16, vec![Step::Carries(2, 1, vec![Step::Code(18)])]),
        (3, vec![Step::Carries(1, 8, vec![]), until]),
    ] {
        let program = Program { extent, steps };
        let under = |policy| {
            let gradient = random_loops::gradient_under(&program, policy).interpreted();
            gradient.call(program.argument()).unwrap().1
        };
        let want = under(Policy::Everything);
        for policy in [Policy::Planned, Policy::Dots, Policy::Nothing, Policy::About(3000)] {
            assert_eq!(under(policy.clone()), want, "{policy}: {program:?}");
        }
    }
}

/// Regression: a loop takes one value twice, as a constant and as an invariant carry, and a budget splits the loop into
/// two. The cotangents of the value must be added in the same order as without a budget.
#[test]
fn cuts_of_loops_that_take_a_value_twice_change_no_bit() {
    let series = Step::Iterations(Iterations::Series, 0, vec![]);
    let map = Step::Iterations(Iterations::Map, 1, vec![Step::Code(24)]);
    let program = Program {
        extent: 16,
        steps: vec![
            Step::Iterations(Iterations::Known, 2, vec![series, map]),
            Step::Code(5),
            Step::Iterations(Iterations::Counted, 3, vec![Step::Code(25)]),
        ],
    };
    let under = |policy| {
        let gradient = random_loops::gradient_under(&program, policy).interpreted();
        gradient.call(program.argument()).unwrap().1
    };
    let want = under(Policy::Everything);
    for policy in [Policy::Bytes(100_000), Policy::About(100_000), Policy::Bytes(10_000)] {
        assert_eq!(under(policy.clone()), want, "{policy}");
    }
}

#[test]
fn budgets_are_obeyed_or_refused_with_the_least_number() {
    for_all(Sweep::Budgets, Program::draw, random_loops::budgets);
}

/// Regression: in a checkpoint inside a budget, the reverse pass of the first loop stands behind two barriers, and the
/// reverse pass of the second loop behind one. The cotangent that passes from one reverse pass to the other must not
/// count as tape, so the tape must be within the budget.
#[test]
fn cotangents_between_loops_of_one_reverse_pass_are_no_tape() {
    let reverse = Step::Iterations(Iterations::Reverse, 5, vec![Step::Code(8)]);
    let carries = Step::Carries(3, 1, vec![Step::Code(7), Step::Code(22)]);
    let body = vec![Step::Code(21), reverse, carries];
    let program = Program {
        extent: 33,
        steps: vec![
            Step::Iterations(Iterations::Map, 1, vec![]),
            Step::Code(9),
            Step::Code(9),
            Step::Iterations(Iterations::Series, 2, vec![]),
            Step::Iterations(Iterations::Known, 2, body),
        ],
    };
    for budget in [9000, 13380] {
        let gradient = random_loops::gradient_under(&program, Policy::Bytes(budget));
        let tape = gradient.explain(program.argument()).unwrap().tape().bytes();
        assert!(tape as u64 <= budget, "{tape} bytes of {budget}");
    }
}

#[test]
fn budgets_of_programs_that_factor_matrices_are_obeyed_or_refused() {
    for_all(Sweep::Factors, Program::with_factors, random_loops::budgets);
}

#[test]
fn derivatives_of_gradients_are_those_of_every_policy() {
    for_all(Sweep::Orders, Program::draw, random_loops::orders);
}

#[test]
fn derivatives_under_rounding_are_near() {
    for_all(Sweep::Rounding, Program::draw, random_loops::rounding);
}

/// Under `Policy::Rounded`, decisions must be those of the forward pass: arguments lie on thresholds and at ties, where
/// another decision would give another derivative.
#[test]
fn rounded_residuals_keep_all_decisions() {
    for_all(Sweep::Thresholds, Program::at_thresholds, random_loops::rounding);
}

#[test]
fn the_tape_table_is_complete() {
    for_all(Sweep::Figures, Program::draw, random_loops::figures);
}

#[test]
fn workspace_does_not_grow_with_the_trip_count() {
    for_all(Sweep::Growth, Program::draw, random_loops::growth);
}

#[test]
fn simulated_machines_compute_the_same_bits() {
    for_all(Sweep::Machines, Program::with_nests, random_loops::machines);
}
