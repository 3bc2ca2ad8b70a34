//! Properties that a random program with loops must have under every checkpoint policy and every byte budget.

use super::meaning::{NARROW, meaning};
use super::program::{ITERATIONS, Iterations, Program, Step, about, each, policy, within};
use crate::xla::client_or_skip;
use crate::{Agreement, Failure, Heard, Listener, Rng};
use std::rc::Rc;
use std::sync::LazyLock;
use tapeloom::prelude::*;
use tapeloom::xla::Client;
use tapeloom::{Error, Explanation, Jit, Kind, MachineModel, Target};
use tapeloom_ir::{parse_module, print_module};

/// The value and the gradient of a scalar function.
pub type Gradient = (Var, Var);

/// Compiles a function that returns the value and the gradient of `f`.
fn gradient(f: impl Fn(Var) -> Var) -> Jit<Var, Gradient, impl Fn(Var) -> Gradient> {
    jit(move |x: Var| value_and_grad(&f)(x))
}

/// Compiles the value and the gradient of a program under a policy; checkpoint names in the policy must occur in the
/// program.
pub fn gradient_under(
    program: &Program,
    policy: Policy,
) -> Jit<Var, Gradient, impl Fn(Var) -> Gradient> {
    let f = meaning(Rc::new(program.clone()), Listener::default(), false);
    gradient(checkpoint(f, policy))
}

/// Returns the policy that a seed draws for a program.
pub fn policy_of(program: &Program, seed: u64) -> Policy {
    about(&policy(&mut Rng::new(seed)), &program.steps)
}

/// Runs a program, and returns its results and its log of effects; `None` if the program contains a byte budget that the
/// planner refuses.
fn outcome<F: Fn(Var) -> Gradient>(
    f: &Jit<Var, Gradient, F>,
    x: &Tensor,
    log: &Listener,
) -> Result<Option<([Tensor; 2], Heard)>, Failure> {
    match f.call(x) {
        Ok((y, g)) => Ok(Some(([y, g], log.take()))),
        Err(e) if e.kind() == Kind::Budget => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Checks that values, gradients and effects do not depend on the policy: in every bit when interpreted, up to
/// rounding in machine code.
pub fn policies(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let policy = about(&policy(rng), &program.steps);
    // Both compared programs must have the same calls, because calls determine the order in which cotangents are
    // summed.
    let all = checkpoint(meaning(program.clone(), log.clone(), true), Policy::Everything);
    let under = checkpoint(meaning(program, log.clone(), false), policy.clone());
    let (all, under) = (Rc::new(all), Rc::new(under));
    for interpreted in [true, false] {
        let (f, g) = (all.clone(), under.clone());
        let (f, g) = (gradient(move |x| f(x)), gradient(move |x| g(x)));
        let (f, g) = if interpreted { (f.interpreted(), g.interpreted()) } else { (f, g) };
        let Some((want, heard)) = outcome(&f, &x, &log)? else {
            return Err("a budget where there is none".into());
        };
        let Some((got, effects)) = outcome(&g, &x, &log)? else { return Ok(()) };
        let how = if interpreted { Agreement::Exact } else { Agreement::CLOSE };
        let engine = if interpreted { "interpreted" } else { "native" };
        how.check_all(&got, &want).map_err(|e| format!("{policy}, {engine}: {e}"))?;
        how.check_heard(&effects, &heard).map_err(|e| format!("{policy}, {engine}: {e}"))?;
    }
    Ok(())
}

/// A client of XLA, if a plugin is set.
static CLIENT: LazyLock<Option<Client>> = LazyLock::new(client_or_skip);

/// Checks that a plugin of XLA computes the value and the gradient of machine code under a policy, up to rounding, and performs
/// the same effects in the same order. Loops have room for the residuals of more iterations than any of these has; a program
/// whose nested loops then need more memory than there is passes.
pub fn on_xla(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let Some(client) = &*CLIENT else { return Ok(()) };
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let policy = about(&policy(rng), &program.steps);
    let f = Rc::new(checkpoint(meaning(program, log.clone(), false), policy.clone()));
    let native = f.clone();
    let native = gradient(move |x| native(x));
    let Some((want, heard)) = outcome(&native, &x, &log)? else { return Ok(()) };
    let there = gradient(move |x| f(x)).on(Target::Xla(client.clone()));
    let there = there.max_steps(ITERATIONS as u64 + 20);
    let (got, effects) = match there.call(&x) {
        Ok((y, g)) => ([y, g], log.take()),
        Err(e) if e.kind() == Kind::TooLarge => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    Agreement::relative(1e-5).check_all(&got, &want).map_err(|e| format!("{policy}: {e}"))?;
    Agreement::relative(1e-7)
        .check_heard(&effects, &heard)
        .map_err(|e| format!("{policy}: {e}"))?;
    Ok(())
}

/// Returns the smallest sufficient budget in bytes that the error of a refused budget names, or `None` if the residuals
/// have no bound, because a trip count is unknown.
fn least(error: &Error) -> Result<Option<u64>, Failure> {
    let text = error.to_string();
    if error.kind() != Kind::Budget || !text.contains("random_loops/laws.rs:") {
        return Err(format!("a budget is refused with\n{text}").into());
    }
    match text.split_once("at least ") {
        Some((_, rest)) => Ok(Some(rest.split(' ').next().unwrap_or_default().parse()?)),
        None if text.contains("trip count of this loop is not known") => Ok(None),
        None => Err(format!("no least number in\n{text}").into()),
    }
}

/// Returns whether a loop of the program contains, at any depth, a loop whose trip count is known only at run time.
fn nests_unknown_length(program: &Program) -> bool {
    use Iterations::{Counted, Runtime, Until};
    let unknown = |s: &Step| matches!(s, Step::Iterations(Runtime | Counted | Until, ..));
    program.has(&|s| matches!(s, Step::Iterations(_, _, body) if within(body, &unknown)))
}

/// Returns the bytes of a gradient's tape, and of the rest of its workspace.
fn taken(e: &Explanation) -> (u64, u64) {
    let tape = e.tape().bytes();
    (tape as u64, (e.workspace_bytes() - tape) as u64)
}

/// Returns the size in bytes of the rows that loops of the program read, stack and write. If the reverse pass of a loop
/// runs inside an iteration of another loop, the rows count in the reported tape and also in the workspace of that
/// iteration.
fn rows(program: &Program) -> usize {
    let (mut program, mut bytes) = (program.clone(), 0);
    let extent = program.extent;
    each(&mut program.steps, &mut |step| {
        if let Step::Iterations(kind, n, _) = step {
            bytes += 8 * match kind {
                Iterations::Known
                | Iterations::Runtime
                | Iterations::Counted
                | Iterations::Until => 0,
                Iterations::Scan => *n,
                // Each iteration of these loops stacks a vector, or writes a row of a `Ref`.
                Iterations::Map | Iterations::Reverse | Iterations::Table => *n * extent,
                // A series is a loop that computes each row of an array from the three rows before, so the array has
                // three initial rows.
                Iterations::Series => (*n + 3) * extent,
            };
        }
    });
    bytes
}

/// Returns a bound in bytes on the workspace, without the tape, of a gradient under a budget. The bound allows three
/// times the workspace with one iteration in every loop (for recomputed values), the arrays that all iterations read
/// and write, and the matrices of a recomputed iteration.
fn work(program: &Program) -> Result<u64, Failure> {
    let mut once = program.clone();
    each(&mut once.steps, &mut |step| {
        if let Step::Iterations(_, n, _) = step {
            *n = 1;
        }
    });
    let log = Listener::default();
    let e = gradient(meaning(Rc::new(once), log, true)).explain(program.argument())?;
    let matrices = 4 * 8 * program.extent * program.extent;
    Ok((3 * e.workspace_bytes() + 8 * rows(program) + matrices + 8192) as u64)
}

/// Checks that the tape is within the budget, or that the budget is refused. If the error names a sufficient budget, a
/// budget of that number must be obeyed, and a budget of one byte less must be refused with an error that names the
/// same number.
pub fn budgets(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let plain = gradient(meaning(program.clone(), log.clone(), true));
    let (all, _) = taken(&plain.explain(&x)?);
    let work = work(&program)?;
    let mut budget = match rng.index(6) {
        0 => [0, 1, u64::MAX][rng.index(3)],
        1 => all,
        _ => ((2 * all + 64) as f64).powf(rng.range(0.3, 1.0)) as u64,
    };
    let under = |budget: u64| {
        gradient(checkpoint(meaning(program.clone(), log.clone(), true), Policy::Bytes(budget)))
    };
    let (mut g, mut refused) = (under(budget), false);
    if let Err(error) = g.explain(&x) {
        refused = true;
        let Some(enough) = least(&error)? else { return Ok(()) };
        if enough <= budget {
            return Err(format!("{budget} bytes are refused: {error}").into());
        }
        match under(enough - 1).explain(&x) {
            Ok(_) => return Err(format!("{} bytes are enough, but {error}", enough - 1).into()),
            Err(e) if least(&e)? == Some(enough) => {}
            Err(e) => {
                return Err(format!("{budget} bytes: {error}\n{} bytes: {e}", enough - 1).into());
            }
        }
        (budget, g) = (enough, under(enough));
    }
    let e = g.explain(&x).map_err(|e| format!("in {budget} bytes: {e}"))?;
    let (tape, beside) = taken(&e);
    if budget < u64::MAX && e.tape().to_string().contains("more for each iteration") {
        return Err(format!("no bound in {budget} bytes:\n{}", e.tape()).into());
    }
    // The error names the bytes of the planned tape. The compiled tape may be smaller, because later passes remove
    // residuals that are not read: in calls, which are inlined after planning, and in iterations that save all
    // products.
    let own = program.has(&|s| matches!(s, Step::Rule(_)));
    let called = program.has(&|s| matches!(s, Step::Call(_) | Step::Carries(..)));
    // If a step has its own checkpoint policy, all values of that step's function may be saved, matrix products
    // included.
    let under = program.has(&|s| matches!(s, Step::Under(..)));
    let products = if under { 4 * 8 * (program.extent * program.extent) as u64 } else { 0 };
    let about = 3 * tape + 512 + products + 2 * rows(&program) as u64;
    if refused && budget > about && !own && !called {
        return Err(format!("{budget} bytes are promised, and {tape} used:\n{}", e.tape()).into());
    }
    // The tape may exceed the budget by 64 bytes, for numbers with which the program begins.
    let room = budget.saturating_add(64);
    // A branch in the reverse pass, or an iteration of an enclosing loop, may write to a copy of the carries' memory.
    let branches = program.has(&|s| matches!(s, Step::Branch(..)));
    let copies = if branches || nests_unknown_length(&program) { budget } else { 0 };
    let most = budget.saturating_add(copies).saturating_add(work);
    // A custom rule may need any amount of memory in the reverse pass.
    if tape > room && !own || tape.saturating_add(beside) > most {
        let text =
            format!("{tape} bytes of tape and {beside} other bytes in {budget}:\n{}", e.tape());
        return Err(text.into());
    }
    let Some((want, heard)) = outcome(&plain, &x, &log)? else { return Ok(()) };
    let Some((got, effects)) = outcome(&g, &x, &log)? else { return Ok(()) };
    let failed = |e| format!("in {budget} bytes: {e}");
    Agreement::CLOSE.check_all(&got, &want).map_err(failed)?;
    Agreement::CLOSE.check_heard(&effects, &heard).map_err(failed)?;
    let (plain, g) = (plain.interpreted(), g.interpreted());
    let Some((want, _)) = outcome(&plain, &x, &log)? else { return Ok(()) };
    let Some((got, _)) = outcome(&g, &x, &log)? else { return Ok(()) };
    Agreement::Exact
        .check_all(&got, &want)
        .map_err(|e| format!("interpreted, {}", failed(e)).into())
}

/// Checks the report of a gradient's program: the text of each stage must parse and print the same, and the reported
/// tape must be complete, that is, the rest of the workspace must not grow with the number of iterations. For the
/// derivative of a gradient, the rest may include the gradient's own tape, which is recomputed, and its cotangents.
pub fn figures(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let policy = about(&policy(rng), &program.steps);
    // A custom rule may need any amount of memory in the reverse pass.
    if program.has(&|s| matches!(s, Step::Rule(_))) {
        return Ok(());
    }
    let (work, branches) = (work(&program)?, program.has(&|s| matches!(s, Step::Branch(..))));
    let nests = nests_unknown_length(&program);
    let f = checkpoint(meaning(program, log, false), policy.clone());
    let twice = rng.index(2) == 1;
    let explained = if twice {
        gradient(move |x| (grad(&f)(x) * x.sin()).sum()).explain(&x)
    } else {
        gradient(f).explain(&x)
    };
    let e = match explained {
        Ok(e) => e,
        Err(e) if e.kind() == Kind::Budget => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    for stage in e.stages().iter().filter(|stage| !stage.text.is_empty()) {
        let again = parse_module(&stage.text).map(|m| print_module(&m));
        if again.as_ref() != Ok(&stage.text) {
            return Err(format!("{policy}, `{}`: {again:?} of\n{}", stage.name, stage.text).into());
        }
    }
    let (tape, beside) = taken(&e);
    // A branch in the reverse pass copies carries that other equations may still read.
    let copies = if twice || branches { tape } else { 0 };
    // The tape of a loop of unknown trip count has as many slots as the budget allows. If the loop runs again, in a
    // second derivative or in a recomputed iteration of an enclosing loop, that tape adds to the reported one.
    let recomputed = twice || nests;
    let slots = match &policy {
        Policy::Bytes(n) | Policy::About(n) if recomputed => (*n).min(1 << 20),
        _ => 0,
    };
    let room = copies + slots + if twice { 3 * work } else { work };
    if beside > room {
        let order = if twice { "second" } else { "first" };
        let text = format!(
            "{policy}, {order} order: a tape of {tape} bytes and {beside} other bytes, more than \
             {room}"
        );
        return Err(format!("{text}\n{}\n{}", e.memory_plan(), e.tape()).into());
    }
    Ok(())
}

/// Checks that the workspace of a gradient under a budget, as far as it exceeds the budget, does not depend on the
/// number of iterations, except for the rows that loops read and write. The budget is a share of the tape without a
/// budget.
pub fn growth(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    // A custom rule may need any amount of memory in the reverse pass.
    if program.has(&|s| matches!(s, Step::Rule(_))) {
        return Ok(());
    }
    let (share, x) = ([0.9, 0.5, 0.3, 0.1, 0.03][rng.index(5)], program.argument());
    let beyond = |n: usize| {
        let mut many = program.clone();
        for step in &mut many.steps {
            if let Step::Iterations(_, iterations, _) = step {
                *iterations = n;
            }
        }
        let (rows, many, log) = (rows(&many) as u64, Rc::new(many), Listener::default());
        let (all, _) = taken(&gradient(meaning(many.clone(), log.clone(), true)).explain(&x)?);
        let budget = 512 + (all as f64 * share) as u64;
        let g = gradient(checkpoint(meaning(many, log, true), Policy::Bytes(budget)));
        match g.explain(&x) {
            Ok(e) => {
                Ok(Some(((e.workspace_bytes() as u64).saturating_sub(budget), budget, rows, e)))
            }
            Err(e) if e.kind() == Kind::Budget => Ok(None),
            Err(e) => Err(Failure::from(e)),
        }
    };
    let (Some((few, _, few_rows, _)), Some((many, budget, many_rows, e))) =
        (beyond(FEW_ITERATIONS)?, beyond(8 * FEW_ITERATIONS)?)
    else {
        return Ok(());
    };
    // The tolerance covers fragmentation: arrays whose lifetimes are disjoint need not share memory.
    let room = 2 * few + 4 * (many_rows - few_rows) + budget / 4 + 4096;
    if many > room {
        let text = format!(
            "{few} bytes beyond the budget, and with eight times as many iterations {many}"
        );
        return Err(format!(
            "{text} of {budget}, more than {room}\n{}\n{}",
            e.memory_plan(),
            e.tape()
        )
        .into());
    }
    Ok(())
}

/// The trip count of the smaller of two compared programs: large enough for memory per iteration to dominate.
const FEW_ITERATIONS: usize = 500;

/// A transform of a function of a vector, with its name.
pub(super) type Order = (&'static str, fn(Rc<dyn Fn(Var) -> Var>) -> Box<dyn Fn(Var) -> Var>);

pub(super) const ORDERS: &[Order] = &[
    ("a derivative along a direction of the gradient", |f| {
        Box::new(move |x| hvp(|x| f(x))((x, x.cos())))
    }),
    ("a gradient of the gradient", |f| {
        Box::new(grad(move |x: Var| (grad(|x| f(x))(x) * x.sin()).sum()))
    }),
    ("a batch of gradients", |f| Box::new(move |x| vmap(grad(|x| f(x)))(stack(&[x, x * 0.5], 0)))),
    ("the gradient of a batch", |f| {
        Box::new(grad(move |x: Var| vmap(|x| f(x))(stack(&[x, x * 0.5, x.sin()], 0)).sum()))
    }),
    ("a gradient in a loop", |f| {
        Box::new(move |x| fori_loop(3, |(_, x): (Var, Var)| x * 0.9 + grad(|x| f(x))(x) * 0.01, x))
    }),
];

/// Checks that derivatives of the gradient, and gradients of batches, are the same under a random policy and without
/// one.
pub fn orders(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    // Programs with ordered effects are left out, because a batch performs effects in another order.
    let is_effect = |s: &Step| matches!(s, Step::Effect);
    if program.has(&is_effect) {
        return policies(program, rng);
    }
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let policy = about(&policy(rng), &program.steps);
    let (name, order) = ORDERS[rng.index(ORDERS.len())];
    let f = meaning(program.clone(), log.clone(), true);
    let g = meaning(program.clone(), log, false);
    let g = checkpoint(g, policy.clone());
    let (f, g) = (order(Rc::new(f)), order(Rc::new(g)));
    let got = match jit(move |x: Var| g(x)).call(&x) {
        Ok(y) => y,
        Err(e) if e.kind() == Kind::Budget => return Ok(()),
        Err(e) => return Err(format!("{name}, {policy}: {e}").into()),
    };
    let want = jit(move |x: Var| f(x)).call(&x)?;
    let narrow = program.has(&|s| *s == Step::Code(NARROW));
    let near = if narrow { 1e-5 } else { 1e-11 };
    let close = Agreement::Within { relative: near, absolute: near };
    close.check(&got, &want).map_err(|e| format!("{name}, {policy}: {e}").into())
}

/// Checks that under `Policy::Rounded`, which rounds residuals to f32, values are the same and derivatives are close:
/// the program's steps contract, so rounding errors do not grow.
pub fn rounding(program: &Program, _: &mut Rng) -> Result<(), Failure> {
    // A custom rule runs any code on rounded residuals in the reverse pass, so its effects may be rounded too.
    let rule = program.has(&|s| matches!(s, Step::Rule(_)));
    let (program, log, x) = (Rc::new(program.clone()), Listener::default(), program.argument());
    let f = meaning(program.clone(), log.clone(), true);
    let g = checkpoint(meaning(program, log.clone(), true), Policy::Rounded);
    let (f, g) = (Rc::new(f), Rc::new(g));
    for interpreted in [true, false] {
        let (f, g) = (f.clone(), g.clone());
        let (f, g) = (gradient(move |x| f(x)), gradient(move |x| g(x)));
        let (f, g) = if interpreted { (f.interpreted(), g.interpreted()) } else { (f, g) };
        let Some(([y, dy], heard)) = outcome(&f, &x, &log)? else {
            return Err("a budget where there is none".into());
        };
        let Some(([z, dz], effects)) = outcome(&g, &x, &log)? else {
            return Err("a budget where there is none".into());
        };
        Agreement::CLOSE.check(&z, &y)?;
        // Skip derivatives beyond 1e30: a residual may exceed the largest f32, 3.4e38.
        if dy.to_vec::<f64>()?.iter().any(|x| x.abs() > 1e30) {
            return Ok(());
        }
        let near = Agreement::Within { relative: 1e-4, absolute: 1e-4 };
        near.check(&dz, &dy).map_err(|e| format!("rounded: {e}"))?;
        let how = match (rule, interpreted) {
            (true, _) => near,
            (false, true) => Agreement::Exact,
            (false, false) => Agreement::CLOSE,
        };
        how.check_heard(&effects, &heard).map_err(|e| format!("rounded: {e}"))?;
    }
    Ok(())
}

/// Values and gradients of a program and of a batch of it must have the same bits on one and on several threads, even
/// if loops are cut into tiny pieces.
pub fn pieces(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let policy = about(&policy(rng), &program.steps);
    let log = Listener::default();
    let f = Rc::new(checkpoint(meaning(Rc::new(program.clone()), log.clone(), false), policy));
    let pieces = 2 + rng.index(8);
    let machine = MachineModel { piece_operations: 1, pieces, ..MachineModel::MEASURED };
    let x = program.argument();
    let members: Vec<Tensor> = [1.0, 0.5, -0.3, 0.9, 0.1]
        .map(|a| run(move |x: Var| x * a, &x))
        .into_iter()
        .collect::<Result<_, _>>()?;
    let members = run(|x: Vec<Var>| stack(&x, 0), members)?;
    for batched in [false, true] {
        let on = |threads: usize| {
            let f = f.clone();
            let g = move |x: Var| {
                let f = f.clone();
                value_and_grad(move |x| f(x))(x)
            };
            let of = move |x: Var| if batched { vmap(&g)(x) } else { g(x) };
            let of = jit(of).machine(machine).threads(threads);
            outcome(&of, if batched { &members } else { &x }, &log)
        };
        let Some((want, heard)) = on(1)? else { return Ok(()) };
        for threads in [2, 3, 7] {
            let Some((got, effects)) = on(threads)? else {
                return Err("a budget where there is none".into());
            };
            let wrong = |e| format!("{threads} threads, {pieces} pieces, batched {batched}: {e}");
            Agreement::Exact.check_all(&got, &want).map_err(wrong)?;
            Agreement::Exact.check_heard(&effects, &heard).map_err(wrong)?;
        }
    }
    Ok(())
}

/// A step of descent has the same bits and effects if its argument is donated, on one and on several threads, and if another
/// handle of the argument is alive.
pub fn donated(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let policy = about(&policy(rng), &program.steps);
    let log = Listener::default();
    let f = Rc::new(checkpoint(meaning(Rc::new(program.clone()), log.clone(), false), policy));
    let machine = MachineModel { piece_operations: 1, pieces: 3, ..MachineModel::MEASURED };
    let step = move |x: Var| {
        let f = f.clone();
        let (y, slope) = value_and_grad(move |x| f(x))(x);
        (y, x - 0.1 * slope)
    };
    let x = program.argument();
    let own = || {
        let mut own = x.clone();
        own.unshare();
        own
    };
    for threads in [1, 2] {
        let step = jit(step.clone()).machine(machine).threads(threads);
        let Some((want, heard)) = outcome(&step, &x, &log)? else { return Ok(()) };
        let before = own();
        for donated in [own(), x.clone()] {
            let (y, next) = step.call_donating(donated)?;
            let wrong = |e| format!("donated, {threads} threads: {e}");
            Agreement::Exact.check_all(&[y, next], &want).map_err(wrong)?;
            Agreement::Exact.check_heard(&log.take(), &heard).map_err(wrong)?;
        }
        Agreement::Exact.check(&x, &before)?;
    }
    Ok(())
}
