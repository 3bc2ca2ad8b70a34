//! Sequences of transforms ("words"), in which the program after each transform is tested against the program before
//! it.
//!
//! A transform of a function is a function, so transforms compose: `vmap(vjp(jvp(f)))` is a program like any other.
//! [`append`] adds a transform (a letter) to such a word, and checks the new program against the one before it by
//! definition, not by formula: tangents are limits of differences, cotangents satisfy `<ct, J dx> = <Jᵀ ct, dx>`, a
//! batch is a map. The transform of the simplified program must give the same results.
//!
//! [`same_numbers`] checks the word after every pipeline, its loop programs and its machine code, bit for bit where
//! that is guaranteed ([`crate::exactness`]). Loop programs and machine code agree in every bit unless a library
//! computes a contraction.

use crate::Elements;
use crate::calculus::{
    check_batch, check_differences, check_products, largest, marked, precision, rounding, split,
    stack,
};
use crate::exactness::{self, Trust, trusts};
use crate::{Agreement, Case, Failure, Rng, run, values};
use tapeloom_backend::accelerator::Machine;
use tapeloom_backend::loop_ir::{External, Parallelism, Program, Stmt, visit};
use tapeloom_backend::{MachineModel, Options, Report, Runnable, Target, compile};
use tapeloom_ir::prim::{Exactness, Lowering, Region, Role};
use tapeloom_ir::{
    Equation, FuncId, Kind, Literal, Module, Op, Tensor, Type, print_function, verify,
};
use tapeloom_transforms::{BEFORE_CODE, PASSES, batch, by_name, changes, jvp, vjp};

/// The number of batch members under `vmap`.
const BATCH: usize = 2;
/// A pipeline that preserves derivatives even at ties, because it only drops and merges equations. Rewrites are left
/// out: `max(x, max(x, 1))` equals `max(x, 1)`, but has another slope at 1.
const TIDY: [&str; 3] = ["inline", "cse", "dce"];

/// A transform of a function, as one element (letter) of a sequence of transforms (word).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Letter {
    /// Forward mode.
    Jvp,
    /// Reverse mode.
    Vjp,
    /// Batching.
    Vmap,
}

impl Letter {
    /// All transforms.
    pub const ALL: [Letter; 3] = [Letter::Jvp, Letter::Vjp, Letter::Vmap];

    /// Returns the name of the transform.
    pub fn name(self) -> &'static str {
        match self {
            Letter::Jvp => "jvp",
            Letter::Vjp => "vjp",
            Letter::Vmap => "vmap",
        }
    }
}

/// The choice of the arguments with respect to which a transform differentiates, or which it batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// All arguments that can be active or batched are chosen.
    All,
    /// Each argument is chosen with probability 3/4, and at least one is chosen.
    Some,
}

/// Returns the function after the passes of `TIDY`: with calls inlined, equal equations merged and dead ones removed.
fn tidied(m: &mut Module, f: FuncId) -> Result<FuncId, Failure> {
    TIDY.iter().try_fold(f, |f, name| Ok(by_name(name)?.apply(m, f)?))
}

/// Applies one more transform to a case, and tests the new case against the given one, by the definition of the
/// transform.
///
/// # Errors
/// The failed check, with the program.
pub fn append(
    m: &mut Module,
    case: &Case,
    letter: Letter,
    choice: Choice,
    rng: &mut Rng,
) -> Result<Case, Failure> {
    let functions = m.iter().count();
    let tidy = tidied(m, case.f)?;
    let next = match letter {
        Letter::Jvp => forward(m, case, tidy, &chosen(&case.floats(), choice, rng), rng)?,
        Letter::Vjp => reverse(m, case, tidy, &chosen(&case.floats(), choice, rng), rng)?,
        Letter::Vmap => {
            let batched = chosen(&vec![true; case.args.len()], choice, rng);
            mapped(m, case, tidy, &batched, rng, false)?
        }
    };
    let added: Vec<FuncId> = m.iter().skip(functions).map(|(f, _)| f).collect();
    for f in added {
        if let Some(broken) = verify(m, f).first() {
            return Err(format!("{broken}\nin\n{}", print_function(m, f)).into());
        }
    }
    Ok(next)
}

/// Applies one more transform to a case of a wild program (its floats may be infinities, nan and numbers near poles).
/// Derivatives are not compared with finite differences, which are wrong near poles; a batch is compared with the map
/// over its members. Returns `None` if there is no derivative.
///
/// # Errors
/// Other errors of a transform, or a batch that differs from the map.
pub fn unchecked(
    m: &mut Module,
    case: &Case,
    letter: Letter,
    rng: &mut Rng,
) -> Result<Option<Case>, Failure> {
    let active = chosen(&case.floats(), Choice::Some, rng);
    let (function, more) = match letter {
        Letter::Jvp => match jvp(m, case.f, &active) {
            Ok(of) => (of.function, case.directions(rng, &active)),
            Err(p) if p.kind == Kind::NotDifferentiable => return Ok(None),
            Err(p) => return Err(p.into()),
        },
        Letter::Vjp => match vjp(m, case.f, &active) {
            Ok(of) => {
                let types = m.function(case.f).result_types();
                let marked = types.iter().zip(&of.active_out).filter(|(_, on)| **on);
                let types = marked.filter_map(|(ty, _)| ty.as_array());
                (of.function, types.map(|ty| rng.tensor(ty)).collect())
            }
            Err(p) if p.kind == Kind::NotDifferentiable => return Ok(None),
            Err(p) => return Err(p.into()),
        },
        Letter::Vmap => {
            let batched = chosen(&vec![true; case.args.len()], Choice::Some, rng);
            return mapped(m, case, case.f, &batched, rng, true).map(Some);
        }
    };
    let args = [&case.args[..], &more].concat();
    Ok(Some(Case { f: function, args, ..named(case, letter.name()) }))
}

/// Returns a subset of the mask: the whole mask, or each marked element with probability 3/4 but at least one.
fn chosen(mask: &[bool], choice: Choice, rng: &mut Rng) -> Vec<bool> {
    let mut chosen: Vec<bool> =
        mask.iter().map(|on| *on && (choice == Choice::All || rng.index(4) > 0)).collect();
    if !chosen.contains(&true)
        && let Some(first) = mask.iter().position(|on| *on)
    {
        chosen[first] = true;
    }
    chosen
}

/// Checks a jvp: its values must be the function's, and its tangents limits of finite differences.
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
    if case.smooth {
        check_differences(m, case.f, &case.args, active, &dx, &dy)
            .map_err(|e| format!("{e}\nactive {active:?}\n{}", print_function(m, of.function)))?;
    }

    let other = jvp(m, tidy, active)?;
    let (_, tidied) = split(run(m, other.function, &args)?, &other.active_out, want.len());
    let trust = spread(&trusts(m, of.function, false), &of.active_out, want.len());
    agree(m, of.function, &args, &trust, &dense(&tidied, &y), &dense(&dy, &y))
        .map_err(|e| format!("jvp of the tidied program: {e}\n{}", print_function(m, tidy)))?;
    Ok(Case { f: of.function, args, ..named(case, "jvp") })
}

/// Checks a vjp: its values must be the function's, and `<ct, J dx> = <Jᵀ ct, dx>`.
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
    let slack = rounding(m, of.function) / 10.0 * largest(m, of.function, &values(&args))?;
    check_products(precision(m, case.f), [&seeds, &dy], [&back, &dx], slack)
        .map_err(|e| format!("{e}\nactive {active:?}\n{}", print_function(m, of.function)))?;

    let other = vjp(m, tidy, active)?;
    let seeds = marked(&cts, &other.active_out);
    let tidied = run(m, other.function, &[&case.args[..], &seeds].concat())?;
    let (_, tidied) = split(tidied, &other.nonzero, want.len());
    let trust = spread(&trusts(m, of.function, false), &of.nonzero, want.len());
    let (got, want) = (dense(&tidied, &case.args), dense(&ctx, &case.args));
    agree(m, of.function, &args, &trust, &got, &want)
        .map_err(|e| format!("vjp of the tidied program: {e}\n{}", print_function(m, tidy)))?;
    Ok(Case { f: of.function, args, ..named(case, "vjp") })
}

/// Checks a vmap: its results must be the function's on each batch member.
fn mapped(
    m: &mut Module,
    case: &Case,
    tidy: FuncId,
    batched: &[bool],
    rng: &mut Rng,
    wild: bool,
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
        check_batch(m, f, &case.args, &inputs, &got, &of.batched_out, wild).map_err(|e| {
            format!("vmap of the {name}: {e}\n{batched:?}\n{}", print_function(m, of.function))
        })?;
    }
    Ok(Case { f: batch(m, case.f, BATCH, batched)?.function, args, ..named(case, "vmap") })
}

/// Returns a tensor with floats moved by at most 0.05, so that a function is still smooth there; integers are
/// unchanged.
fn nearby(x: &Tensor, rng: &mut Rng) -> Tensor {
    let mut y = x.clone();
    for i in (0..x.elements()).filter(|_| x.dtype().is_float()) {
        let at = x.at(i).to_f64() + rng.range(-0.05, 0.05);
        y.put(i, Literal::of(x.dtype(), at));
    }
    y
}

/// The options of [`same_numbers`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// Whether passes that treat floats as real numbers are run too.
    pub relaxed: bool,
    /// Whether the program is wild: floats may be anything, so that a rounded value may become anything.
    pub wild: bool,
    /// The machine model that loop programs are compiled for.
    pub machine: MachineModel,
}

/// Compares the results of every pipeline, of the loop programs and of machine code with the interpreter's, and checks
/// bounds on program size and memory.
///
/// # Errors
/// The first difference or exceeded budget, with its program.
pub fn same_numbers(m: &mut Module, case: &Case, demand: Demand) -> Result<(), Failure> {
    let want = run(m, case.f, &case.args)?;
    let bounds = bounds(m, case.f, &case.args)?;
    let trust = trusts(m, case.f, demand.wild);
    let exact = |got: &[Tensor]| exactness::check(&trust, [got, &want], bounds, demand.wild);
    let rounded: Vec<Trust> = trust.iter().map(|t| (*t).max(Trust::Rounded)).collect();
    let inexact =
        PASSES.iter().filter(|p| demand.relaxed && p.exactness == Exactness::Reassociates);
    for pass in inexact {
        let f = pass.apply(m, case.f)?;
        exactness::check(&rounded, [&run(m, f, &case.args)?, &want], bounds, demand.wild)
            .map_err(|e| format!("after `{pass:?}`: {e}\n{}", print_function(m, f)))?;
    }
    // The interpreter defines the order of a sum, so passes that do not reassociate must preserve every bit.
    let tidy = tidied(m, case.f)?;
    let (f, steps) = changes(|| BEFORE_CODE.run(m, case.f));
    let f = f?;
    let reassociated = steps.iter().any(|s| s.pass.exactness == Exactness::Reassociates);
    for (passes, f, rounds) in [("tidy", tidy, false), (BEFORE_CODE.name, f, reassociated)] {
        let got = run(m, f, &case.args)?;
        let agreement = match rounds {
            true => exactness::check(&rounded, [&got, &want], bounds, demand.wild),
            false => Agreement::Exact.check_all(&got, &want).map_err(Failure::from),
        };
        agreement.map_err(|e| format!("after `{passes}`: {e}\n{}", print_function(m, f)))?;
    }
    let args: Vec<&Tensor> = case.args.iter().collect();
    let (mut in_order, mut by_kernels): (bool, Option<Vec<Tensor>>) = (false, None);
    // Machine code is also run with iterations counted (`limited`) and with timers, which must not change the results.
    for (target, limited) in
        [(Target::Interpreter, false), (Target::host(), false), (Target::host(), true)]
    {
        if limited && !in_order {
            continue;
        }
        let code = compile(
            m,
            f,
            &Options {
                target: target.clone(),
                limited,
                profiled: limited,
                donated: Vec::new(),
                threads: None,
                machine: demand.machine,
            },
        )?;
        let program =
            |e: String| format!("{target}: {e}\n{}{}", print_function(m, f), code.report().program);
        if demand.machine == MachineModel::MEASURED {
            within_budget(m, case.f, f, code.report()).map_err(program)?;
        }
        let got = code.call(&args)?;
        exact(&got).map_err(|e| program(e.to_string()))?;
        if target == Target::Interpreter {
            simulated(&code, &args, &got).map_err(|e| program(e.to_string()))?;
        }
        // The loop program fixes the order of each fold, so all engines that run it agree in every bit.
        let exact = !code.report().program.contracts();
        if let Some(want) = by_kernels.take_if(|_| exact) {
            let wrong = |e| program(format!("the interpreter of kernels has another result: {e}"));
            Agreement::Exact.check_all(&got, &want).map_err(wrong)?;
        }
        by_kernels = Some(got);
        in_order = goes_in_order(&code.report().program);
    }
    in_pieces(m, f, &args)?;
    Ok(())
}

/// Compiles a function with loops cut into tiny pieces, and checks that the loop IR interpreter and machine code on one,
/// two, three and seven threads agree in every bit; the interpreter also checks every access to memory. Returns whether
/// any loop was cut.
///
/// # Errors
/// The first difference, with the program.
pub fn in_pieces(m: &Module, f: FuncId, args: &[&Tensor]) -> Result<bool, Failure> {
    let machine = MachineModel { piece_operations: 1, pieces: 4, ..MachineModel::MEASURED };
    let of = |target| compile(m, f, &Options { target, machine, ..Options::default() });
    let kernels = of(Target::Interpreter)?;
    if !kernels.report().passes.iter().any(|step| step.pass.name == "cut_pieces") {
        return Ok(false);
    }
    let program =
        |e: String| format!("in pieces: {e}\n{}{}", print_function(m, f), kernels.report().program);
    let want = kernels.call(args).map_err(|e| program(e.to_string()))?;
    let code = of(Target::host())?.with_threads(1);
    let one = code.call(args)?;
    if !kernels.report().program.contracts() {
        Agreement::Exact.check_all(&one, &want).map_err(&program)?;
    }
    for threads in [2, 3, 7] {
        let many = code.clone().with_threads(threads).call(args)?;
        let wrong = |e| program(format!("{threads} threads: {e}"));
        Agreement::Exact.check_all(&many, &one).map_err(wrong)?;
    }
    Ok(true)
}

/// Compiles a function whose results may take over the memory of arguments, and returns how many do. Runs it in the loop
/// interpreter and as machine code, with arguments that it takes over, with arguments of which other handles are alive,
/// and with memory that the caller gives for the results. All results must have the bits of a program that takes over no
/// memory, and arguments with other handles must be unchanged.
///
/// # Errors
/// A difference, with the program; errors of engines.
pub fn in_donated_memory(m: &Module, f: FuncId, args: &[Tensor]) -> Result<usize, Failure> {
    let of = |target, donated| {
        let donated = vec![donated; args.len()];
        compile(m, f, &Options { target, donated, ..Options::default() })
    };
    let checked = of(Target::Interpreter, true)?;
    let taken: Vec<(usize, usize)> = checked.report().program.entry.donated().collect();
    if taken.is_empty() {
        return Ok(0);
    }
    let program =
        |e: String| format!("donated: {e}\n{}{}", print_function(m, f), checked.report().program);
    let references: Vec<&Tensor> = args.iter().collect();
    let copies = || args.iter().map(copy).collect::<Vec<Tensor>>();
    let separate = of(Target::Interpreter, false)?.call(&references)?;
    let exact = |what: &str, got: &[Tensor], want: &[Tensor]| {
        Agreement::Exact.check_all(got, want).map_err(|e| program(format!("{what}: {e}")))
    };
    exact("interpreter", &checked.call_donating(copies(), None)?, &separate)?;
    let want = of(Target::host(), false)?.call(&references)?;
    let code = of(Target::host(), true)?;
    let before = copies();
    exact("copied arguments", &code.call(&references)?, &want)?;
    exact("arguments with other handles", &code.call_donating(args.to_vec(), None)?, &want)?;
    exact("copied arguments", args, &before)?;
    let mut given = want.iter().map(copy).collect::<Vec<Tensor>>();
    code.call_into(&references, &mut given.iter_mut().collect::<Vec<_>>(), None)?;
    exact("given memory", &given, &want)?;
    let donated = copies();
    let memory: Vec<usize> = donated.iter().map(Tensor::address).collect();
    let results = code.call_donating(donated, None)?;
    exact("donated arguments", &results, &want)?;
    if let Some((argument, result)) =
        taken.iter().find(|(argument, result)| memory[*argument] != results[*result].address())
    {
        let message = format!("result {result} is not in the memory of argument {argument}");
        return Err(program(message).into());
    }
    Ok(taken.len())
}

/// Returns an equal tensor with memory of its own.
fn copy(x: &Tensor) -> Tensor {
    let mut own = x.clone();
    own.unshare();
    own
}

/// Checks that the simulated accelerator agrees with the loop IR interpreter in every bit.
///
/// # Errors
/// The difference.
pub fn simulated(code: &Runnable, args: &[&Tensor], want: &[Tensor]) -> Result<(), Failure> {
    let machine = Machine { window: 64, ..Machine::cal().with_cache(1 << 10, 2) };
    let externals = code.report().program.externals();
    if externals.iter().any(|e| matches!(e.function, External::Routine(_))) {
        return match code.simulate(args, &machine.into()) {
            Err(problem) if problem.kind == Kind::Target => Ok(()),
            other => Err(format!("an accelerator runs a library: {:?}", other.err()).into()),
        };
    }
    let (got, _) = code.simulate(args, &machine.into())?;
    let wrong = |e| format!("on the accelerator: {e}");
    Ok(Agreement::Exact.check_all(&got, want).map_err(wrong)?)
}

/// Returns whether a loop program has sequential loops: only their iterations can be counted and limited.
fn goes_in_order(program: &Program) -> bool {
    let mut found = false;
    for (_, kernel) in program.kernels() {
        visit(&kernel.body, &mut |s| {
            found |= matches!(
                s,
                Stmt::While { .. } | Stmt::For { parallelism: Parallelism::Serial, .. }
            );
        });
    }
    found
}

/// Checks bounds: passes must not grow a program much, and machine code and workspace must be proportional to its size.
fn within_budget(m: &Module, written: FuncId, f: FuncId, report: &Report) -> Result<(), String> {
    let size = |f: FuncId| total(m, f);
    let (before, after) = (size(written), size(f));
    // A pass may unroll a library routine into equations: up to eight for each operation of the routine.
    let unrolled = 8 * routine_flops(m, written);
    let scalars = report.program.entry.scalars.len();
    let bytes: usize =
        m.function(f).types.values().filter_map(Type::as_array).map(|t| t.bytes()).sum();
    let limits = [
        ("equations after passes", after, 2 * before + unrolled + 40),
        ("scalars in kernels", scalars, 150 * (after + 10)),
        ("bytes of workspace", report.peak, 4 * bytes + (1 << 16)),
    ];
    for (what, found, limit) in limits {
        if found > limit {
            return Err(format!("{found} {what}, more than {limit}"));
        }
    }
    Ok(())
}

/// Returns the number of operations of the library routines in a function and its callees, each for one batch member;
/// routines without arithmetic count as a few operations.
fn routine_flops(m: &Module, f: FuncId) -> usize {
    let function = m.function(f);
    let of = |e: &Equation| -> usize {
        let own = match e.lower(m, function) {
            Lowering::Routine(call) => call.routine.flops() as usize + 10,
            _ => 0,
        };
        own + e.runs().map(|inside| routine_flops(m, inside)).sum::<usize>()
    };
    function.equations.iter().map(of).sum()
}

/// Returns the number of equations of a function and of its callees, counted once per call.
pub fn total(m: &Module, f: FuncId) -> usize {
    let of = |op: &Op| -> usize {
        op.regions().iter().filter(|r| r.role.runs()).map(|r| total(m, r.function)).sum()
    };
    m.function(f).equations.iter().map(|e| 1 + of(&e.op)).sum()
}

/// Returns the bounds on the difference of rounded results: one relative to their magnitude, and an absolute one, the
/// rounding error of the largest number that `f` computes.
fn bounds(m: &mut Module, f: FuncId, args: &[Tensor]) -> Result<[f64; 2], Failure> {
    let relative = rounding(m, f);
    Ok([relative, relative / 100.0 * largest(m, f, &values(args))?])
}

/// Checks that two lists of results agree up to the rounding of the largest number that `f` computes.
fn agree(
    m: &mut Module,
    f: FuncId,
    args: &[Tensor],
    trust: &[Trust],
    got: &[Tensor],
    want: &[Tensor],
) -> Result<(), Failure> {
    let bounds = bounds(m, f, args)?;
    let rounded: Vec<Trust> = trust.iter().map(|t| (*t).max(Trust::Rounded)).collect();
    exactness::check(&rounded, [got, want], bounds, false)
}

/// Returns the guaranteed accuracy of the derivatives among a function's results, one per element of the mask;
/// derivatives that are absent are zeros, which are exact.
fn spread(trust: &[Trust], mask: &[bool], own: usize) -> Vec<Trust> {
    let mut rest = trust[own.min(trust.len())..].iter().copied();
    let one = |on: &bool| if *on { rest.next().unwrap_or(Trust::Open) } else { Trust::Rounded };
    mask.iter().map(one).collect()
}

/// Returns the derivatives with zeros, of the type of the model's tensor, in place of absent ones.
fn dense(derivatives: &[Option<Tensor>], model: &[Tensor]) -> Vec<Tensor> {
    let zero = |(d, x): (&Option<Tensor>, &Tensor)| match d {
        Some(d) => d.clone(),
        None => x.zeros_like(),
    };
    derivatives.iter().zip(model).map(zero).collect()
}

/// Returns whether a function still has calls after inlining.
pub fn outlined(m: &Module, f: FuncId) -> bool {
    let kept = |r: &Region| match r.role {
        Role::Outline => true,
        Role::Inline => outlined(m, r.function),
        Role::Ruled | Role::Checkpoint | Role::Branch | Role::Iteration | Role::Rule => false,
    };
    m.function(f).equations.iter().any(|e| e.op.regions().iter().any(kept))
}

/// Returns the test case with the name of a transform appended to its name.
fn named(case: &Case, letter: &str) -> Case {
    Case { name: format!("{letter}({})", case.name), ..case.clone() }
}
