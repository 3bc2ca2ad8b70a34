//! Random programs with loops under random policies and budgets, and on random machines; see [`tapeloom_tests::planned`].

#![allow(clippy::panic, reason = "tests")]

use tapeloom_tests::planned::{self, Law, Program, failure};

/// `FUZZ=n` tries n times as many programs, `FUZZ_SEED=s` others, as for the other random programs.
fn for_all(programs: usize, draw: fn(u64) -> Program, law: Law) {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let programs = programs * number("FUZZ").unwrap_or(1) as usize;
    for seed in tapeloom_tests::fuzz::seeds(number("FUZZ_SEED").unwrap_or(0)).take(programs) {
        if let Some(failure) = failure(draw(seed), seed, law) {
            panic!("{failure}");
        }
    }
}

#[test]
fn values_gradients_and_effects_are_those_of_every_policy() {
    for_all(12, Program::draw, planned::policies);
}

#[test]
fn budgets_are_obeyed_or_refused_with_the_least_number() {
    for_all(12, Program::draw, planned::budgets);
}

#[test]
fn derivatives_of_gradients_are_those_of_every_policy() {
    for_all(8, Program::draw, planned::orders);
}

#[test]
fn derivatives_of_what_is_rounded_are_near() {
    for_all(8, Program::draw, planned::rounding);
}

#[test]
fn what_is_said_of_the_tape_is_all_of_it() {
    for_all(12, Program::draw, planned::figures);
}

#[test]
fn what_a_gradient_works_in_does_not_grow_with_rounds() {
    for_all(20, Program::draw, planned::growth);
}

#[test]
fn simulated_machines_compute_the_same_bits() {
    for_all(6, Program::with_nests, planned::machines);
}
