//! Random programs: text, passes, machine code, derivatives and batches of programs that nobody
//! wrote; see [`tapeloom_tests::genes`] for how they are made.
//!
//! A failure is shrunk to few equations and shown as a text test, ready for a file
//! `tests/filetests/run/issue-N.ir`. Seeds are fixed; `FUZZ=20` in the environment tries twenty times
//! as many programs.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tapeloom_ir::{Module, parse_module, print_functions, verify_module};
use tapeloom_tests::genes::{Gene, KINDS, program};
use tapeloom_tests::words::{Choice, Letter, append, same_numbers};
use tapeloom_tests::{Agreement, Case, Failure, Rng, run, show_tensors};

/// Most genes of a program.
const LENGTH: usize = 16;

#[test]
fn text_says_everything() {
    for_all(400, |m, case| {
        let text = print_functions(m, &[case.f]);
        let parsed = parse_module(&text).map_err(|e| e[0].clone())?;
        let broken = verify_module(&parsed);
        if let Some(e) = broken.first() {
            return Err(e.to_string().into());
        }
        let same = parsed.iter().find(|(_, f)| f.name == m.function(case.f).name);
        let (f, _) = same.ok_or("the function is not there")?;
        if print_functions(&parsed, &[f]) != text {
            return Err(format!("prints again as\n{}", print_functions(&parsed, &[f])).into());
        }
        let want = run(m, case.f, &case.args)?;
        Ok(Agreement::Exact.check_all(&run(&parsed, f, &case.args)?, &want)?)
    });
}

#[test]
fn passes_and_machine_code_keep_the_values() {
    for_all(250, |m, case| same_numbers(m, case, true));
}

#[test]
fn forward_and_reverse_are_transposes() {
    for_all(150, |m, case| {
        let mut rng = Rng::new(1);
        for letter in [Letter::Jvp, Letter::Vjp] {
            let next = append(m, case, letter, Choice::Some, &mut rng)?;
            same_numbers(m, &next, false)?;
        }
        Ok(())
    });
}

#[test]
fn batch_is_map() {
    for_all(150, |m, case| {
        let mut rng = Rng::new(2);
        let next = append(m, case, Letter::Vmap, Choice::Some, &mut rng)?;
        same_numbers(m, &next, false)
    });
}

#[test]
fn words_of_two_letters() {
    for_all(60, |m, case| {
        let mut rng = Rng::new(3);
        let mut letter = || Letter::ALL[rng.index(3)];
        let (first, second) = (letter(), letter());
        let next = append(m, case, first, Choice::Some, &mut Rng::new(4))?;
        let last = append(m, &next, second, Choice::Some, &mut Rng::new(5))?;
        same_numbers(m, &last, false)
    });
}

#[test]
fn the_generator_meets_most_primitives() {
    let mut met = BTreeSet::new();
    let mut rng = Rng::new(6);
    for _ in 0..300 {
        let mut m = Module::new();
        let mut gene = || Gene {
            kind: rng.bits() as u8,
            operands: [rng.bits() as u8, rng.bits() as u8],
            seed: rng.bits() as u16,
        };
        let genes: Vec<Gene> = (0..LENGTH).map(|_| gene()).collect();
        program(&mut m, &genes[..4], &genes[4..]).unwrap();
        met.extend(m.iter().flat_map(|(_, f)| f.equations.iter().map(|e| e.op.name())));
    }
    assert!(met.len() >= 70, "only {} primitives: {met:?}", met.len());
}

/// Checks a law on that many programs; the smallest program found that breaks it is reported.
#[track_caller]
fn for_all(cases: u32, law: fn(&mut Module, &Case) -> Result<(), Failure>) {
    let scale: u32 = std::env::var("FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let config = Config {
        cases: cases * scale,
        failure_persistence: None,
        max_shrink_iters: 4096,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let gene = (0..KINDS, any::<[u8; 2]>(), any::<u16>()).prop_map(|(kind, operands, seed)| Gene {
        kind,
        operands,
        seed,
    });
    let genes = (vec(gene.clone(), 0..4), vec(gene, 1..LENGTH));
    let outcome = TestRunner::new_with_rng(config, rng).run(&genes, |(callee, genes)| {
        let mut m = Module::new();
        let fail = |e: String| TestCaseError::fail(e);
        let case = program(&mut m, &callee, &genes).map_err(|e| fail(e.to_string()))?;
        let text = print_functions(&m, &[case.f]);
        let outcome = catch_unwind(AssertUnwindSafe(|| law(&mut m, &case)));
        let failure = match outcome {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure.to_string(),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                format!("panicked: {}", text.unwrap_or_default())
            }
        };
        let args = show_tensors(&case.args);
        Err(fail(format!("{failure}\n\n// test: run\n// args: {args}\n{text}")))
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{}", reason.message()),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}
