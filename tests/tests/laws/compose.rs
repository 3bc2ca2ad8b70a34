//! The composition matrix: every example under every sequence of up to three transforms.
//!
//! Each sequence ("word") of the transforms jvp, vjp and vmap is applied transform by transform. For the checks after
//! each transform see [`tapeloom_tests::transform_words`].
//!
//! The first transform takes all arguments as active or batched; later ones take a choice drawn from a fixed seed.
//! All failures are reported together, each with its program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use tapeloom_ir::prim::{Call, Role};
use tapeloom_ir::{Atom, Builder, Draft, Module, Policy, print_function};
use tapeloom_tests::transform_words::{Choice, Demand, Letter, append, outlined, same_numbers};
use tapeloom_tests::{Case, EXAMPLES, Failure, Rng, Sweep, show_tensors};

/// The largest number of transforms that are applied one after the other.
const LENGTH: usize = 3;

#[test]
fn words_that_begin_with_jvp() {
    spell(Letter::Jvp);
}

#[test]
fn words_that_begin_with_vjp() {
    spell(Letter::Vjp);
}

#[test]
fn words_that_begin_with_vmap() {
    spell(Letter::Vmap);
}

#[test]
fn some_examples_keep_a_call_and_some_have_rules() {
    let mut roles = Vec::new();
    for example in EXAMPLES {
        let (m, case) = example.read().unwrap();
        let regions = m.function(case.f).equations.iter().flat_map(|e| e.op.regions());
        roles.extend(regions.map(|r| r.role));
    }
    for role in [Role::Outline, Role::Inline, Role::Ruled, Role::Rule] {
        assert!(roles.contains(&role), "{role:?}");
    }
}

/// Every sequence of one or two transforms is checked on a call of each example inside a checkpoint.
#[test]
fn words_of_checkpoints() {
    let mut failures = Vec::new();
    for example in EXAMPLES {
        let (mut m, case) = example.read().unwrap();
        let mut draft = Draft::new(example.name);
        let params: Vec<Atom> =
            m.function(case.f).param_types().into_iter().map(|ty| draft.param(ty)).collect();
        let call = Call::checkpoint(case.f, Policy::Nothing);
        let results = Builder::new(&mut m, &mut draft).emit(call, &params).to_vec();
        let case = Case { f: draft.finish(&mut m, results).unwrap(), ..case };
        let mut rng = Rng::new(11);
        for letter in Letter::ALL {
            walk(&mut m, &case, letter, LENGTH - 1, &mut rng, &mut failures);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Checks all words (sequences of up to `LENGTH` transforms) that begin with this transform, on all examples.
#[track_caller]
fn spell(first: Letter) {
    let mut failures = Vec::new();
    let mut words = 0;
    for example in Sweep::Words.all(EXAMPLES) {
        let (mut m, case) = example.read().unwrap();
        let mut rng = Rng::new(first as u64);
        words += walk(&mut m, &case, first, 1, &mut rng, &mut failures);
    }
    let n: usize = (0..LENGTH).map(|k| Letter::ALL.len().pow(k as u32)).sum();
    if failures.is_empty() {
        assert_eq!(words, n * EXAMPLES.len());
        return;
    }
    panic!("{} of {words} programs:\n\n{}", failures.len(), failures.join("\n"));
}

/// Applies the transform `letter` to the program `case`, checks the result, and continues with every further transform
/// until `LENGTH` are applied. After a failure no further transform is applied. Returns the number of programs made.
fn walk(
    m: &mut Module,
    case: &Case,
    letter: Letter,
    depth: usize,
    rng: &mut Rng,
    failures: &mut Vec<String>,
) -> usize {
    let name = format!("{}({})", letter.name(), case.name);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let choice = if depth == 1 { Choice::All } else { Choice::Some };
        let next = append(m, case, letter, choice, rng)?;
        if outlined(m, case.f) != outlined(m, next.f) {
            return Err("an outlined call was lost".into());
        }
        // Sequences of `LENGTH` transforms contain few new patterns for passes and engines, which are slow: run them on a
        // third of these sequences, and passes that may reassociate on none.
        if depth < LENGTH || rng.index(3) == 0 {
            let relaxed = depth < LENGTH;
            same_numbers(m, &next, Demand { relaxed, ..Demand::default() })?;
        }
        Ok::<_, Failure>(next)
    }));
    let failure = match outcome {
        Ok(Ok(next)) => {
            if depth == LENGTH {
                return 1;
            }
            let longer = Letter::ALL.map(|l| walk(m, &next, l, depth + 1, rng, failures));
            return 1 + longer.iter().sum::<usize>();
        }
        Ok(Err(failure)) => failure.to_string(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("panicked: {}", text.unwrap_or_default())
        }
    };
    let program = print_function(m, case.f);
    failures.push(format!(
        "-- {name}: {failure}\nof\n{program}// args: {}\n",
        show_tensors(&case.args)
    ));
    1
}
