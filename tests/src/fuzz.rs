//! Properties that random programs must have: their checks, the seeds of the programs, the shrinking of failures, and
//! reports.
//!
//! The table of [`Sweep`] says how many programs a test tries, and from which seed on.

use crate::marks::replaced;
use crate::program_generator::Recipe;
use crate::recorded;
use crate::transform_words::{
    Choice, Demand, Letter, append, in_donated_memory, in_pieces, same_numbers, unchecked,
};
use crate::{Agreement, Case, Failure, Rng, Sweep, run, show_tensors};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{
    Atom, Builder, Dtype, FuncId, Module, Op, Policy, Scalar, Type, ValueRemap, parse_module,
    print_function, print_functions, verify_module,
};
use tapeloom_transforms::PASSES;

/// A property that must hold for a program.
pub type Law = fn(&mut Module, &Case, &Recipe) -> Result<(), Failure>;

/// The bounds on minimising a failing program: the number of smaller programs that are tried, and the time. If each
/// check takes seconds, the program is reported before it is minimal.
const SHRINKS: usize = 4000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks the property `law` on all random programs of a sweep.
///
/// # Panics
/// If a program violates the property; the message has the smallest such program found.
#[track_caller]
#[allow(clippy::panic, reason = "it is an assertion")]
pub fn for_all(sweep: Sweep, law: Law) {
    for seed in sweep.seeds() {
        if let Some(failure) = failure(seed, law) {
            panic!("{failure}");
        }
    }
}

/// Returns the seeds of the command `fuzz`, beginning with `first`. Sequences of seeds for neighbouring values of
/// `first` do not overlap.
pub fn seeds(first: u64) -> impl Iterator<Item = u64> {
    (0..).map(move |i: u64| first.wrapping_add(i << 32))
}

/// Returns a report if the program of a seed violates the property `law`. The report has the seed and the smallest
/// failing program found, as a text test for a file `tests/filetests/run/issue-N.ir`.
pub fn failure(seed: u64, law: Law) -> Option<String> {
    let mut recipe = Recipe::draw(seed);
    let mut wrong = broken(&recipe, law)?;
    let start = Instant::now();
    let mut tried = 0;
    'shrink: while tried < SHRINKS {
        for smaller in recipe.smaller() {
            tried += 1;
            if tried >= SHRINKS || start.elapsed() > PATIENCE {
                break 'shrink;
            }
            if let Some(also) = broken(&smaller, law) {
                (recipe, wrong) = (smaller, also);
                continue 'shrink;
            }
        }
        break;
    }
    let (what, test) = wrong;
    Some(format!("SWEEP_SEED={seed}: {what}\n\n{test}"))
}

/// Builds the random program that `recipe` describes. If the program violates the property `law`, returns the error,
/// and the program as a text test.
fn broken(recipe: &Recipe, law: Law) -> Option<(String, String)> {
    let mut m = Module::new();
    let made = catch_unwind(AssertUnwindSafe(|| recipe.program(&mut m)));
    let case = match made {
        Ok(Ok(case)) => case,
        Ok(Err(problem)) => return Some((problem.to_string(), format!("{recipe:?}"))),
        Err(panic) => return Some((said(&*panic), format!("{recipe:?}"))),
    };
    let (text, args) = (print_functions(&m, &[case.f]), show_tensors(&case.args));
    let outcome = catch_unwind(AssertUnwindSafe(|| law(&mut m, &case, recipe)));
    let what = match outcome {
        Ok(Ok(())) => return None,
        Ok(Err(failure)) => failure.to_string(),
        Err(panic) => said(&*panic),
    };
    Some((what, format!("// test: run\n// args: {args}\n{text}")))
}

/// Returns the message of a caught panic.
pub(crate) fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or_default())
}

// -- Laws -------------------------------------------------------------------------------------------

/// Checks that a printed program parses, prints as the same text again, and has the same results.
pub fn text(m: &mut Module, case: &Case, _: &Recipe) -> Result<(), Failure> {
    let text = print_functions(m, &[case.f]);
    let parsed = parse_module(&text).map_err(|e| e[0].clone())?;
    let broken = verify_module(&parsed);
    if let Some(e) = broken.first() {
        return Err(e.to_string().into());
    }
    let same = parsed.iter().find(|(_, f)| f.name == m.function(case.f).name);
    let (f, _) = same.ok_or("the function is missing")?;
    if print_functions(&parsed, &[f]) != text {
        return Err(format!("prints again as\n{}", print_functions(&parsed, &[f])).into());
    }
    let want = run(m, case.f, &case.args)?;
    Ok(Agreement::Exact.check_all(&run(&parsed, f, &case.args)?, &want)?)
}

/// Checks that passes, the loop program and machine code give the interpreter's results.
pub fn values(m: &mut Module, case: &Case, recipe: &Recipe) -> Result<(), Failure> {
    let relaxed = !recipe.wild && recipe.genes.len().is_multiple_of(4);
    same_numbers(m, case, Demand { relaxed, wild: recipe.wild, ..Demand::default() })
}

/// Checks that no pass looks through a `barrier`, by the test of [`crate::marks`].
pub fn marks(m: &mut Module, case: &Case, _: &Recipe) -> Result<(), Failure> {
    let other = replaced(m, case.f)?;
    let want = run(m, other, &case.args)?;
    for pass in PASSES.iter().filter(|pass| pass.exactness == Exactness::Exact) {
        let f = pass.apply(m, case.f)?;
        let other = replaced(m, f)?;
        let blame =
            |e| format!("{} looks through a mark: {e}\n{}", pass.name, print_function(m, f));
        Agreement::Exact.check_all(&run(m, other, &case.args)?, &want).map_err(blame)?;
    }
    Ok(())
}

/// Checks that forward and reverse mode are transposes of each other, and that engines agree on both.
pub fn derivatives(m: &mut Module, case: &Case, recipe: &Recipe) -> Result<(), Failure> {
    let (mut rng, demand) = (Rng::new(1), demand(recipe));
    [Letter::Jvp, Letter::Vjp]
        .into_iter()
        .try_for_each(|letter| transformed(m, case, demand, letter, &mut rng).map(|_| ()))
}

/// Checks that a batched program gives the same results as the program applied to each batch member.
pub fn batches(m: &mut Module, case: &Case, recipe: &Recipe) -> Result<(), Failure> {
    transformed(m, case, demand(recipe), Letter::Vmap, &mut Rng::new(2)).map(|_| ())
}

/// Applies two random transforms (derivatives, batches), one after the other, and checks the program after each.
pub fn words(m: &mut Module, case: &Case, recipe: &Recipe) -> Result<(), Failure> {
    let mut rng = Rng::new(recipe.genes.len() as u64);
    let mut letter = || Letter::ALL[rng.index(3)];
    let (first, second, demand) = (letter(), letter(), demand(recipe));
    let Some(next) = transformed(m, case, demand, first, &mut Rng::new(4))? else { return Ok(()) };
    transformed(m, &next, demand, second, &mut Rng::new(5)).map(|_| ())
}

/// Checks that the derivative is equal under every checkpoint policy, up to the signs of zeros. Signs of zeros may
/// differ because negation is delayed until a sum or the end of a function: where cotangents cancel, `-(a - a)` and
/// `a - a` are different zeros.
pub fn policies(m: &mut Module, case: &Case, recipe: &Recipe) -> Result<(), Failure> {
    if recipe.wild {
        return Ok(());
    }
    let Some(want) = unchecked(m, case, Letter::Vjp, &mut Rng::new(6))? else { return Ok(()) };
    let values = run(m, want.f, &want.args)?;
    let mut rng = Rng::new(recipe.genes.len() as u64);
    let mut about = || Policy::About([0, 50, 200, 1000, 5000][rng.index(5)]);
    for policy in [Policy::Nothing, Policy::Dots, about(), about()] {
        let f = m.get(case.f);
        let (mut draft, copying) = ValueRemap::same_signature(&f);
        let operands: Vec<Atom> = f.all_params().map(|p| copying.read(p.into())).collect();
        let call = Op::checkpoint(case.f, policy.clone());
        let results = Builder::new(m, &mut draft).emit(call, &operands).to_vec();
        let of = Case { f: draft.finish(m, results)?, args: case.args.clone(), ..case.clone() };
        let blame = |e: String, m: &Module, f| format!("{policy}: {e}\n{}", print_function(m, f));
        let Some(next) = unchecked(m, &of, Letter::Vjp, &mut Rng::new(6))? else {
            return Err(blame("has no derivative".into(), m, of.f).into());
        };
        let same = Agreement::Equal.check_all(&run(m, next.f, &next.args)?, &values);
        same.map_err(|e| blame(e.to_string(), m, next.f))?;
        same_numbers(m, &next, Demand::default())?;
    }
    Ok(())
}

/// Checks that a program, its derivatives and its batches have the same bits on one and on several threads.
pub fn pieces(m: &mut Module, case: &Case, _: &Recipe) -> Result<(), Failure> {
    in_pieces(m, case.f, &case.args.iter().collect::<Vec<_>>())?;
    for letter in Letter::ALL {
        let Some(next) = unchecked(m, case, letter, &mut Rng::new(6))? else { continue };
        in_pieces(m, next.f, &next.args.iter().collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Checks that a program, its derivatives and its batches have the same bits if arguments are donated, and that this also
/// holds for programs that update and exchange their arguments, as the steps of a training or a simulation do.
pub fn donated(m: &mut Module, case: &Case, recipe: &Recipe) -> Result<(), Failure> {
    let mut rng = Rng::new(recipe.genes.len() as u64);
    let mut all = vec![(case.f, case.args.clone())];
    for letter in Letter::ALL {
        let next = unchecked(m, case, letter, &mut Rng::new(6))?;
        all.extend(next.map(|next| (next.f, next.args)));
    }
    for (f, args) in all {
        in_donated_memory(m, f, &args)?;
        if m.function(f).linear_params.is_empty() {
            let step = step_of(m, f, &mut rng)?;
            in_donated_memory(m, step, &args)?;
        }
    }
    Ok(())
}

/// Returns a function with the results of `f` and one more result for each parameter, of the parameter's type: a
/// parameter, a result of `f`, or the sum of two of them. The results are in a random order.
fn step_of(m: &mut Module, f: FuncId, rng: &mut Rng) -> Result<FuncId, Failure> {
    let of = m.get(f);
    let (mut draft, copying) = ValueRemap::same_signature(&of);
    let params: Vec<Atom> = of.all_params().map(|p| copying.read(p.into())).collect();
    let mut results = Builder::new(m, &mut draft).inline(f, &params);
    let types = of.param_types().into_iter().chain(of.result_types());
    let values: Vec<(Atom, Type)> = params.iter().chain(&results).copied().zip(types).collect();
    for (_, ty) in &values[..params.len()] {
        let alike: Vec<Atom> = values.iter().filter(|(_, t)| t == ty).map(|(x, _)| *x).collect();
        let (x, y) = (alike[rng.index(alike.len())], alike[rng.index(alike.len())]);
        let sums = ty.as_array().is_some_and(|ty| ty.dtype != Dtype::Bool) && rng.index(3) > 0;
        results.push(match sums {
            true => Builder::new(m, &mut draft).emit1(Scalar::Add, &[x, y]),
            false => x,
        });
    }
    for last in (1..results.len()).rev() {
        results.swap(last, rng.index(last + 1));
    }
    Ok(draft.finish(m, results)?)
}

/// Checks that a recording of a program has the program's values, and that its pullbacks give the program's first and
/// second derivatives in reverse mode.
pub fn recordings(m: &mut Module, case: &Case, recipe: &Recipe) -> Result<(), Failure> {
    if recipe.wild {
        // In wild programs (their floats may be infinities, nan and numbers near poles) compare values only: where
        // numbers overflow, an absent tangent differs from a product of zero and infinity.
        return recorded::values(m, case);
    }
    recorded::first_order(m, case)?;
    recorded::second_order(m, case)
}

/// Returns the options with which the results of a random program are compared between the interpreter, the pipelines
/// and machine code.
fn demand(recipe: &Recipe) -> Demand {
    Demand { wild: recipe.wild, ..Demand::default() }
}

/// Applies one more transform to a case, and compares the engines on the new program. If the program is tame (without
/// infinities, nan and poles), the result is also checked against the definition of the transform. Returns `None` if
/// the program has no derivative.
///
/// # Errors
/// The failed check, with the program.
pub fn transformed(
    m: &mut Module,
    case: &Case,
    demand: Demand,
    letter: Letter,
    rng: &mut Rng,
) -> Result<Option<Case>, Failure> {
    let next = if demand.wild {
        let Some(next) = unchecked(m, case, letter, rng)? else { return Ok(None) };
        next
    } else {
        append(m, case, letter, Choice::Some, rng)?
    };
    same_numbers(m, &next, demand)?;
    Ok(Some(next))
}
