//! The composition matrix: every example under every word of up to three transforms.
//!
//! A transform of a function is a function, so transforms compose: `vmap(vjp(jvp(f)))` is a program
//! like any other. Here each word over {jvp, vjp, vmap} is spelled letter by letter, and after each
//! letter the program is held against the one before it, by definition and not by formula: tangents
//! are limits of differences, cotangents satisfy `<ct, J dx> = <Jᵀ ct, dx>`, a batch is a map. Then
//! the tidied program and the machine code must give the same numbers, and the letter applied to
//! the tidied program, too.
//!
//! Which arguments are active or batched is drawn with a fixed seed for all letters but the first,
//! which takes all. Everything that fails is reported at once, with its program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use tapeloom_backend::{Options, compile};
use tapeloom_ir::prim::{Body, Exactness};
use tapeloom_ir::{FuncId, Module, Tensor, print_function, verify};
use tapeloom_tests::calculus::{
    check_batch, check_differences, check_products, largest, marked, precision, split, stack,
};
use tapeloom_tests::{Agreement, Case, EXAMPLES, Failure, Rng, run, show_tensors};
use tapeloom_transforms::{BEFORE_CODE, PASSES, Pipeline, batch, jvp, vjp};

/// Letters of the longest words.
const LENGTH: usize = 3;
/// Extent of a batch.
const BATCH: usize = 2;
/// What a user's program goes through between transforms.
const TIDY: &str = "inline, cse, dce, peephole";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Letter {
    Jvp,
    Vjp,
    Vmap,
}

const LETTERS: [Letter; 3] = [Letter::Jvp, Letter::Vjp, Letter::Vmap];

impl Letter {
    fn name(self) -> &'static str {
        match self {
            Letter::Jvp => "jvp",
            Letter::Vjp => "vjp",
            Letter::Vmap => "vmap",
        }
    }
}

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
    let mut bodies = Vec::new();
    for example in EXAMPLES {
        let (m, case) = example.read().unwrap();
        bodies.extend(m.function(case.f).equations.iter().map(|e| e.op.body()));
    }
    assert!(bodies.iter().any(|b| matches!(b, Body::Outline(_))));
    assert!(bodies.iter().any(|b| matches!(b, Body::Inline(_))));
    assert!(bodies.iter().any(|b| matches!(b, Body::Ruled(_))));
}

/// All words with that first letter, on all examples.
#[track_caller]
fn spell(first: Letter) {
    let mut failures = Vec::new();
    let mut words = 0;
    for example in EXAMPLES {
        let (mut m, case) = example.read().unwrap();
        let mut rng = Rng::new(first as u64);
        words += walk(&mut m, &case, first, 1, &mut rng, &mut failures);
    }
    let n: usize = (0..LENGTH).map(|k| LETTERS.len().pow(k as u32)).sum();
    if failures.is_empty() {
        assert_eq!(words, n * EXAMPLES.len());
        return;
    }
    panic!("{} of {words} programs:\n\n{}", failures.len(), failures.join("\n"));
}

/// Appends a letter to the word whose program is `case`, then every letter to that. A word is not
/// continued where it is wrong. Returns how many programs were made.
fn walk(
    m: &mut Module,
    case: &Case,
    letter: Letter,
    depth: usize,
    rng: &mut Rng,
    failures: &mut Vec<String>,
) -> usize {
    let name = format!("{}({})", letter.name(), case.name);
    let outcome = catch_unwind(AssertUnwindSafe(|| step(m, case, letter, depth, rng)));
    let failure = match outcome {
        Ok(Ok(mut next)) => {
            next.name = name;
            if depth == LENGTH {
                return 1;
            }
            let longer = LETTERS.map(|l| walk(m, &next, l, depth + 1, rng, failures));
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

/// The case after one more transform, tested against the case before.
fn step(
    m: &mut Module,
    case: &Case,
    letter: Letter,
    depth: usize,
    rng: &mut Rng,
) -> Result<Case, Failure> {
    let all = depth == 1;
    let functions = m.iter().count();
    let tidy = TIDY.parse::<Pipeline>()?.run(m, case.f, |_, _, _| {})?;
    let next = match letter {
        Letter::Jvp => forward(m, case, tidy, &chosen(&case.floats(), all, rng), rng)?,
        Letter::Vjp => reverse(m, case, tidy, &chosen(&case.floats(), all, rng), rng)?,
        Letter::Vmap => {
            mapped(m, case, tidy, &chosen(&vec![true; case.args.len()], all, rng), rng)?
        }
    };
    let added: Vec<FuncId> = m.iter().skip(functions).map(|(f, _)| f).collect();
    for f in added {
        if let Some(broken) = verify(m, f).first() {
            return Err(format!("{broken}\nin\n{}", print_function(m, f)).into());
        }
    }
    if outlined(m, case.f) != outlined(m, next.f) {
        return Err("an outlined call was lost or made".into());
    }
    same_numbers(m, &next, depth)?;
    Ok(next)
}

/// A subset of the marked: all of them, or each with probability 3/4 but at least one.
fn chosen(mask: &[bool], all: bool, rng: &mut Rng) -> Vec<bool> {
    let mut chosen: Vec<bool> = mask.iter().map(|on| *on && (all || rng.index(4) > 0)).collect();
    if !chosen.contains(&true)
        && let Some(first) = mask.iter().position(|on| *on)
    {
        chosen[first] = true;
    }
    chosen
}

/// jvp: the values are those of the function, the tangents limits of differences.
fn forward(
    m: &mut Module,
    case: &Case,
    tidy: FuncId,
    active: &[bool],
    rng: &mut Rng,
) -> Result<Case, Failure> {
    let want = run(m, case.f, &case.args)?;
    let of = jvp(m, case.f, active)?;
    let dx = case.directions(rng, active);
    let args = [&case.args[..], &dx].concat();
    let (y, dy) = split(run(m, of.function, &args)?, &of.active_out, want.len());
    Agreement::Exact.check_all(&y, &want)?;
    check_differences(m, case.f, &case.args, active, &dx, &dy)
        .map_err(|e| format!("{e}\nactive {active:?}\n{}", print_function(m, of.function)))?;

    let other = jvp(m, tidy, active)?;
    let (_, tidied) = split(run(m, other.function, &args)?, &other.active_out, want.len());
    agree(m, of.function, &args, &dense(&tidied, &y), &dense(&dy, &y))
        .map_err(|e| format!("jvp of the tidied program: {e}\n{}", print_function(m, tidy)))?;
    Ok(Case { f: of.function, args, ..case.clone() })
}

/// vjp: `<ct, J dx> = <Jᵀ ct, dx>`.
fn reverse(
    m: &mut Module,
    case: &Case,
    tidy: FuncId,
    active: &[bool],
    rng: &mut Rng,
) -> Result<Case, Failure> {
    let want = run(m, case.f, &case.args)?;
    let of = vjp(m, case.f, active)?;
    let cts: Vec<Tensor> = want.iter().map(|y| rng.tensor(y.ty())).collect();
    let seeds = marked(&cts, &of.active_out);
    let args = [&case.args[..], &seeds].concat();
    let (y, ctx) = split(run(m, of.function, &args)?, &of.nonzero, want.len());
    Agreement::Exact.check_all(&y, &want)?;

    let forward = jvp(m, case.f, active)?;
    let dx = case.directions(rng, active);
    let both = [&case.args[..], &dx].concat();
    let (_, dy) = split(run(m, forward.function, &both)?, &forward.active_out, want.len());
    let dy = marked(&dense(&dy, &y), &of.active_out);
    let mut dx = dx.into_iter();
    let dx: Vec<Tensor> = active
        .iter()
        .zip(&of.nonzero)
        .filter(|(on, _)| **on)
        .filter_map(|(_, nonzero)| dx.next().filter(|_| *nonzero))
        .collect();
    let back: Vec<Tensor> = ctx.iter().flatten().cloned().collect();
    let slack = 1e-13 * largest(m, of.function, &args)?;
    check_products(precision(m, case.f), [&seeds, &dy], [&back, &dx], slack)
        .map_err(|e| format!("{e}\nactive {active:?}\n{}", print_function(m, of.function)))?;

    let other = vjp(m, tidy, active)?;
    let seeds = marked(&cts, &other.active_out);
    let tidied = run(m, other.function, &[&case.args[..], &seeds].concat())?;
    let (_, tidied) = split(tidied, &other.nonzero, want.len());
    let (got, want) = (dense(&tidied, &case.args), dense(&ctx, &case.args));
    agree(m, of.function, &args, &got, &want)
        .map_err(|e| format!("vjp of the tidied program: {e}\n{}", print_function(m, tidy)))?;
    Ok(Case { f: of.function, args, ..case.clone() })
}

/// vmap: the function on each.
fn mapped(
    m: &mut Module,
    case: &Case,
    tidy: FuncId,
    batched: &[bool],
    rng: &mut Rng,
) -> Result<Case, Failure> {
    let mut inputs = vec![case.args.clone()];
    for _ in 1..BATCH {
        let near = |(x, on): (&Tensor, &bool)| if *on { nearby(x, rng) } else { x.clone() };
        inputs.push(case.args.iter().zip(batched).map(near).collect());
    }
    let whole = |i: usize| match batched[i] {
        true => stack(&case.args[i], inputs.iter().map(|x| &x[i])),
        false => case.args[i].clone(),
    };
    let args: Vec<Tensor> = (0..batched.len()).map(whole).collect();
    for (f, name) in [(case.f, "program"), (tidy, "tidied program")] {
        let of = batch(m, f, BATCH, batched)?;
        let got = run(m, of.function, &args)?;
        check_batch(m, f, &case.args, &inputs, &got, &of.batched_out).map_err(|e| {
            format!("vmap of the {name}: {e}\n{batched:?}\n{}", print_function(m, of.function))
        })?;
    }
    Ok(Case { f: batch(m, case.f, BATCH, batched)?.function, args, ..case.clone() })
}

/// Floats a little away, so that the function is as smooth there; integers as they are.
fn nearby(x: &Tensor, rng: &mut Rng) -> Tensor {
    let mut y = x.clone();
    for i in (0..x.elements()).filter(|_| x.dtype().is_float()) {
        let at = x.get(i).to_f64() + rng.range(-0.05, 0.05);
        y.set(i, tapeloom_ir::Literal::of(x.dtype(), at));
    }
    y
}

/// Every pipeline and the machine code against the interpreter.
fn same_numbers(m: &mut Module, case: &Case, depth: usize) -> Result<(), Failure> {
    let want = run(m, case.f, &case.args)?;
    // Relaxed passes take long, and meet nothing new in the longest words.
    let relaxed = PASSES.iter().filter(|p| p.exactness == Exactness::Reassociates);
    let relaxed: Vec<&str> = relaxed.map(|p| p.name).filter(|_| depth < LENGTH).collect();
    for pipeline in relaxed.into_iter().chain([TIDY, BEFORE_CODE]) {
        let f = pipeline.parse::<Pipeline>()?.run(m, case.f, |_, _, _| {})?;
        let got = run(m, f, &case.args)?;
        let outcome = match pipeline {
            TIDY | BEFORE_CODE => Agreement::Equal.check_all(&got, &want).map_err(Failure::from),
            _ => agree(m, case.f, &case.args, &got, &want),
        };
        outcome.map_err(|e| format!("after `{pipeline}`: {e}\n{}", print_function(m, f)))?;
        if pipeline == BEFORE_CODE {
            let code = compile(m, f, &Options::default())?;
            let got = code.call(&case.args.iter().collect::<Vec<_>>())?;
            agree(m, f, &case.args, &got, &want)
                .map_err(|e| format!("machine code: {e}\n{}", print_function(m, f)))?;
        }
    }
    Ok(())
}

/// Agreement up to the rounding of the largest number that `f` computes.
fn agree(
    m: &mut Module,
    f: FuncId,
    args: &[Tensor],
    got: &[Tensor],
    want: &[Tensor],
) -> Result<(), Failure> {
    let absolute = 1e-14 * largest(m, f, args)?;
    Ok(Agreement::Within { relative: 1e-12, absolute }.check_all(got, want)?)
}

/// Derivatives that are not there as zeros, of the types of the model; integers have none.
fn dense(derivatives: &[Option<Tensor>], model: &[Tensor]) -> Vec<Tensor> {
    let zero = |(d, x): (&Option<Tensor>, &Tensor)| match d {
        Some(d) => d.clone(),
        None => Tensor::zeros(x.ty()),
    };
    derivatives.iter().zip(model).map(zero).collect()
}

/// Whether a function keeps calls when the others are inlined.
fn outlined(m: &Module, f: FuncId) -> bool {
    m.function(f).equations.iter().any(|e| match e.op.body() {
        Body::Outline(_) => true,
        Body::Inline(g) => outlined(m, g),
        Body::None | Body::Ruled(_) => false,
    })
}
