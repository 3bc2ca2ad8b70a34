//! Random programs: checks of text, passes, machine code, derivatives and batches; see
//! [`tapeloom_tests::program_generator`] for the programs and [`tapeloom_tests::fuzz`] for the checks.
//!
//! A failure is shrunk to few equations and shown as a text test, ready for a file `tests/filetests/run/issue-N.ir`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tapeloom_ir::prim::TripCount;
use tapeloom_ir::{Atom, Dtype, Module, Op};
use tapeloom_tests::Sweep;
use tapeloom_tests::fuzz::{self, for_all};
use tapeloom_tests::program_generator::Recipe;
use tapeloom_tests::stress;

#[test]
fn text_says_everything() {
    for_all(Sweep::Text, fuzz::text);
}

#[test]
fn passes_kernels_and_machine_code_keep_the_values() {
    for_all(Sweep::Values, fuzz::values);
}

#[test]
fn no_pass_looks_through_a_mark() {
    for_all(Sweep::Marks, fuzz::marks);
}

#[test]
fn forward_and_reverse_are_transposes() {
    for_all(Sweep::Derivatives, fuzz::derivatives);
}

#[test]
fn batch_is_map() {
    for_all(Sweep::Batches, fuzz::batches);
}

#[test]
fn words_of_two_letters() {
    for_all(Sweep::WordsOfTwo, fuzz::words);
}

#[test]
fn policies_change_no_bit() {
    for_all(Sweep::KeptOrNot, fuzz::policies);
}

#[test]
fn donated_arguments_change_no_bit() {
    for_all(Sweep::Donated, fuzz::donated);
}

#[test]
fn recordings_are_their_programs() {
    for_all(Sweep::Recordings, fuzz::recordings);
}

#[test]
fn many_callers_get_the_results_of_one_thread() {
    let calls = stress::callers(Sweep::Callers.seeds(), Duration::from_secs(1)).unwrap();
    assert!(calls > 16, "{calls} calls");
}

#[test]
fn recipes_shrink_to_nothing() {
    let mut recipe = Recipe::draw(1);
    let mut steps = 0;
    while let Some(next) = recipe.smaller().pop() {
        recipe = next;
        steps += 1;
        assert!(steps < 10_000, "goes round at {recipe:?}");
    }
    assert_eq!(recipe.genes, []);
}

#[test]
fn the_generator_draws_every_primitive() {
    let (mut names, mut dtypes) = (BTreeSet::new(), BTreeMap::new());
    let (mut large, mut empty, mut repeated, mut passed) = (0, 0, 0, 0);
    let (mut rewritten, mut several) = (0, 0);
    let (mut loops, mut counted, mut branches) = (0, 0, 0);
    for seed in Sweep::Met.seeds() {
        let mut m = Module::new();
        let case = Recipe::draw(seed).program(&mut m).unwrap();
        for (_, f) in m.iter() {
            let mut bases = BTreeSet::new();
            for e in &f.equations {
                names.insert(e.op.name());
                if let Some(ty) = f.types[e.outputs[0]].as_array() {
                    *dtypes.entry(ty.dtype).or_insert(0) += 1;
                    large += usize::from(ty.shape.elements() > 100);
                    empty += usize::from(ty.shape.contains(&0));
                }
                match &e.op {
                    Op::Loop(of) if of.spec.trip == TripCount::Runtime => counted += 1,
                    Op::Gather(g) => several += usize::from(g.axes.len() > 1),
                    Op::Scatter(s) => several += usize::from(s.axes.len() > 1),
                    Op::DynamicUpdateSlice(_) => {}
                    Op::Loop(_) => loops += 1,
                    Op::Cond(_) => branches += 1,
                    _ => continue,
                }
                if matches!(e.op, Op::Scatter(_) | Op::DynamicUpdateSlice(_)) {
                    rewritten += usize::from(!bases.insert(e.operands[0]));
                }
            }
        }
        let f = m.function(case.f);
        let results: BTreeSet<_> = f.results.iter().collect();
        repeated += usize::from(results.len() < f.results.len());
        let params = f.params.iter().map(|p| Atom::from(*p));
        passed += params.filter(|p| results.contains(p)).count().min(1);
    }
    assert!(names.len() >= 80, "only {} primitives: {names:?}", names.len());
    assert!(Dtype::ALL.iter().all(|d| dtypes.get(d) > Some(&200)), "{dtypes:?}");
    let counts = [large, empty, repeated, passed, rewritten, several, loops, branches];
    assert!(counts.iter().all(|n| *n >= 50) && counted >= 3, "{counts:?} {counted}");
}
