//! Random programs with loops under random policies and budgets, and on random machines; see [`tapeloom_tests::random_loops`].

#![allow(clippy::panic, reason = "tests")]

use tapeloom_tests::Sweep;
use tapeloom_tests::random_loops::{self, Law, Program, failure};

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

#[test]
fn budgets_are_obeyed_or_refused_with_the_least_number() {
    for_all(Sweep::Budgets, Program::draw, random_loops::budgets);
}

#[test]
fn derivatives_of_gradients_are_those_of_every_policy() {
    for_all(Sweep::Orders, Program::draw, random_loops::orders);
}

#[test]
fn derivatives_of_what_is_rounded_are_near() {
    for_all(Sweep::Rounding, Program::draw, random_loops::rounding);
}

/// Decisions are exact: where values lie on thresholds and in ties, another one would be another derivative.
#[test]
fn what_is_rounded_decides_as_the_forward_pass_did() {
    for_all(Sweep::Thresholds, Program::at_thresholds, random_loops::rounding);
}

#[test]
fn what_is_said_of_the_tape_is_all_of_it() {
    for_all(Sweep::Figures, Program::draw, random_loops::figures);
}

#[test]
fn what_a_gradient_works_in_does_not_grow_with_iterations() {
    for_all(Sweep::Growth, Program::draw, random_loops::growth);
}

#[test]
fn simulated_machines_compute_the_same_bits() {
    for_all(Sweep::Machines, Program::with_nests, random_loops::machines);
}
