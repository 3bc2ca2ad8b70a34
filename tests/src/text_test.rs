//! Text tests: a program, a pipeline and the expected output in one file.
//!
//! ```text
//! // test: linearize | lin | transpose
//! func @f(%0: f64[], %1: f64[]) -> (f64[]) {
//!   %2: f64[] = mul %0, %1
//!   return %2
//! }
//!
//! // expect:
//! // func @f.bwd(..) ..
//! ```
//!
//! The pipeline starts at the last function of the text. Its steps are separated by `|`:
//!
//! | step | meaning |
//! |---|---|
//! | `print` | nothing; the program is parsed and printed |
//! | `verify` | the output is the list of mistakes in the text (alone in its pipeline) |
//! | `jvp`, `linearize`, `vjp` | with `active=[true,false]`; without, all float parameters |
//! | `plan policy=planned` | linearize and plan; with `params=[bytes,constant]`, `results=[bytes]` and `together=true` |
//! | `fwd`, `lin`, `bwd` | selects one of the functions that the previous step made |
//! | `linear count=1` | the last parameters become linear |
//! | `transpose` | with `nonzero=[true]`; without, all results |
//! | `batch size=3` | with `batched=[true,false]`; without, all parameters; with `operations=1`, in chunks if members run loops of different lengths |
//! | a pass of [`tapeloom_transforms::PASSES`] | by its name |
//! | `loop_trees` | the output is the loop trees from lowering (the last step) |
//! | `lower` | the output is the loop program from lowering, before any pass on it (the last step) |
//! | `stablehlo` | the output is the function as StableHLO text (the last step); with `custom_calls=true`, `host_calls=true`, `max_steps=8` |
//! | `timers` | the output is the loop program with the timers of a profile, and the part of each timer (the last step) |
//! | `kernels` | the text is a loop program, and so is the output |
//! | a pass of [`PASSES`](tapeloom_backend::passes::PASSES), `unroll by=[4,2]`, `redundant_memory overlap=true` | passes on it; the lists say `index_set_split write_out=true` and `promote_memory private=true`, too; parameters of the machine model, as in `cut_pieces piece_operations=8`, are set for one step |
//! | `layout pipeline=tflow` | of a loop program: the layout of its tape; passes on layouts may follow |
//! | `run` | the output is the results for each line `// args: 1.0; f64[2] {1.0, 2.0}` |
//!
//! If a pipeline has only passes and there are lines `// args: ..`, the results are compared after each pass.
//!
//! The output may also be the error of a step. Programs are verified after each step, printed text is parsed and
//! printed again, and `run` also compares with machine code.

use crate::{Agreement, Failure, read_tensors, run, stablehlo_check};
use std::collections::BTreeMap;
use tapeloom_backend::layout::{Layout, PASSES, Pipeline as Layouts, ScratchpadModel};
use tapeloom_backend::passes::{Choice, Context, Invariant, by_name};
use tapeloom_backend::{
    Executable, MachineModel, Options, compile, loop_ir, loop_trees, lower_to_loops, stablehlo,
    timed_parts,
};
use tapeloom_ir::prim::{Exactness, Library, Regions};
use tapeloom_ir::{
    Amortization, FuncId, Module, PlanRequest, Policy, Price, Problem, Scalar, Tensor, fingerprint,
    parse_module, print_functions, print_module,
};
use tapeloom_transforms::{
    Pass, Transforms, as_linear, batch, by_name as function_pass, jvp, linearize, transpose, vjp,
};

/// A step of a pipeline, and its options by name.
type Step<'t> = (&'t str, BTreeMap<&'t str, &'t str>);

/// A parsed text test.
#[derive(Debug)]
pub struct TextTest<'t> {
    /// The steps with their options.
    pipeline: Vec<Step<'t>>,
    /// The arguments of each `// args:` line.
    args: Vec<Vec<Tensor>>,
    /// The text of the file before the expected output.
    input: &'t str,
    /// The expected output, without comment signs.
    pub expected: String,
}

/// The line that separates the program from the expected output.
const EXPECT: &str = "// expect:\n";

impl<'t> TextTest<'t> {
    /// Parses a text test.
    ///
    /// # Errors
    /// If the first line is not `// test: ..`, or if arguments do not parse.
    pub fn read(text: &'t str) -> Result<TextTest<'t>, Failure> {
        let (input, expected) = text.split_once(EXPECT).unwrap_or((text, ""));
        let first = input.lines().next().unwrap_or_default();
        let steps = first.strip_prefix("// test:").ok_or("the first line must be `// test: ..`")?;
        let args = input.lines().filter_map(|l| l.strip_prefix("// args:"));
        let uncomment = |line: &str| {
            let line = line.strip_prefix("//").unwrap_or(line);
            format!("{}\n", line.strip_prefix(' ').unwrap_or(line))
        };
        Ok(TextTest {
            pipeline: steps.split('|').map(step).collect::<Result<_, _>>()?,
            args: args.map(read_tensors).collect::<Result<_, _>>()?,
            input,
            expected: expected.lines().map(uncomment).collect(),
        })
    }

    /// Returns the text of the test file with `output` in place of its expected output.
    pub fn blessed(&self, output: &str) -> String {
        let comment = |line: &str| format!("// {line}").trim_end().to_owned() + "\n";
        let expected: String = output.lines().map(comment).collect();
        format!("{}\n\n{EXPECT}{expected}", self.input.trim_end())
    }

    /// Runs the pipeline and returns its output.
    ///
    /// # Errors
    /// If a program does not parse, a step does not exist, or an invariant is broken.
    pub fn output(&self) -> Result<String, Failure> {
        self.watched(&mut |_, _| {})
    }

    /// Returns the names of the pipeline's passes on functions that change the function.
    ///
    /// # Errors
    /// The errors of [`TextTest::output`].
    pub fn changes(&self) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        self.watched(&mut |name, changed| names.extend(changed.then(|| name.to_owned())))?;
        Ok(names)
    }

    fn watched(&self, after: &mut dyn FnMut(&str, bool)) -> Result<String, Failure> {
        if let [("layout" | "kernels", _), ..] = self.pipeline.as_slice() {
            return self.kernels();
        }
        let parsed = parse_module(self.input);
        if let [("verify", _)] = self.pipeline.as_slice() {
            let list = |errors: Vec<_>| errors.iter().map(|e| format!("{e}\n")).collect();
            return Ok(parsed.map_or_else(list, |_| "no mistakes\n".to_owned()));
        }
        let mut module = parsed.map_err(|e| e[0].clone())?;
        same_again(&print_module(&module))?;
        // The last function of the text need not be the last of the module: equal functions are stored once.
        let name = self.input.rsplit("func @").next().unwrap_or_default();
        let name = name.split('(').next().unwrap_or_default();
        let last = module.iter().filter(|(_, f)| *f.name == *name).last();
        let mut at = vec![last.ok_or("no function, or one that equals an earlier one")?.0];
        let passes = self.pipeline.iter().map(|(name, _)| function_pass(name).ok());
        let kept = Kept::of(&module, at[0], passes.collect(), &self.args)?;
        for (i, (name, options)) in self.pipeline.iter().enumerate() {
            if *name == "loop_trees" {
                return Ok(loop_trees(&module, at[0])?);
            }
            if *name == "lower" {
                let program = lower_to_loops(&module, at[0])?;
                let mistakes = loop_ir::verify(&program);
                if !mistakes.is_empty() {
                    return Err(format!("the loop program is not valid: {mistakes:?}").into());
                }
                return Ok(program.to_string());
            }
            if *name == "stablehlo" {
                let max_steps = options.get("max_steps").map(|n| n.parse()).transpose()?;
                let is_on = |name: &str| options.get(name).is_some_and(|on| *on == "true");
                let (custom_calls, host_calls) = (is_on("custom_calls"), is_on("host_calls"));
                let mesh =
                    options.get("mesh").map(|mesh| mesh.replace(':', "=").parse()).transpose()?;
                let shardings = mesh.map(|mesh| stablehlo::Shardings {
                    mesh,
                    arguments: Vec::new(),
                    results: Vec::new(),
                });
                let shardings = shardings.map(Into::into);
                let options = stablehlo::Options {
                    max_steps,
                    custom_calls,
                    host_calls,
                    shardings,
                    ..stablehlo::Options::default()
                };
                return match stablehlo::text(&module, at[0], &options) {
                    Ok(text) => stablehlo_check::check(&text).map(|()| text),
                    Err(problem) => Ok(format!("error: {problem}\n")),
                };
            }
            if *name == "timers" {
                return Ok(timed_parts(&module, at[0])?);
            }
            if *name == "run" {
                if i + 1 < self.pipeline.len() {
                    return Err("`run` must be the last step".into());
                }
                return self.runs(&module, at[0]);
            }
            let before = at[0];
            match (at.as_slice(), *name) {
                ([fwd, _] | [_, fwd, _], "fwd") => at = vec![*fwd],
                ([_, lin], "lin") => at = vec![*lin],
                ([_, _, bwd], "bwd") => at = vec![*bwd],
                (_, name) => match apply(&mut module, before, name, options) {
                    Some(Ok(functions)) => {
                        at = functions;
                        after(name, at[..] != [before]);
                        kept.check(&module, at[0], i)?;
                    }
                    Some(Err(problem)) => return Ok(format!("error: {problem}\n")),
                    None => return Err(format!("there is no step `{name}` here").into()),
                },
            }
            for f in &at {
                let of = |f| fingerprint::function(&module, f);
                fingerprint::record("step", || of(before), || of(*f));
                if let Some(broken) = tapeloom_ir::verify(&module, *f).first() {
                    let program = print_functions(&module, &at);
                    return Err(format!("after `{name}`: {broken}\n{program}").into());
                }
            }
        }
        kept.check_code(&module, at[0])?;
        // The derivative of one function is three functions; the first contains the other two (forward and reverse)
        // inlined. Print only the first, because the others would repeat it.
        let shown = if at.len() == 3 { &at[..1] } else { &at[..] };
        let printed = print_functions(&module, shown);
        same_again(&printed)?;
        Ok(printed)
    }

    /// Applies the pipeline's passes to a loop program, and returns the program's text, or the layout of its tape. If
    /// there are lines `// args: ..`, the interpreter runs the program after each pass, and machine code runs the final
    /// program. All results must agree.
    fn kernels(&self) -> Result<String, Failure> {
        let lines = self.input.lines().filter(|line| !line.starts_with("//"));
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        let mut program = loop_ir::parse(&text, &library)?;
        // If the file has lines `// args: ..`, compare the results after each pass with those of the original program.
        let proved = loop_ir::check(&program).is_ok();
        let (mut holds, mut exact) =
            (if proved { Invariant::Proved } else { Invariant::Form }, true);
        let mut wanted = Vec::new();
        for args in &self.args {
            let mut proved = program.clone();
            by_name("clamp_bounds")?.apply(&mut proved, &mut Context::default())?;
            wanted.push(loop_ir::shadow(&proved, args)?);
        }
        for (i, (name, options)) in self.pipeline.iter().enumerate() {
            holds.check(&program)?;
            let before = fingerprint::of(&program);
            let option = |key: &str| options.get(key).copied();
            match *name {
                "kernels" => {}
                "layout" => {
                    let name = option("pipeline").unwrap_or("soa");
                    return TextTest::layout(&program, name, &self.pipeline[i + 1..]);
                }
                name => {
                    let pass = by_name(name)?;
                    pass.apply(&mut program, &mut context(options)?)?;
                    holds = pass.ensures.map_or(holds, |ensured| ensured.max(holds));
                    exact &= pass.exactness == Exactness::Exact;
                    let agreement =
                        if exact { Agreement::Exact } else { Agreement::relative(1e-10) };
                    if holds <= Invariant::Proved {
                        for (args, want) in self.args.iter().zip(&wanted) {
                            let found = loop_ir::eval(&program, args)?;
                            agreement
                                .check_all(&found, want)
                                .map_err(|e| format!("after `{name}`: {e}\n{program}"))?;
                        }
                    }
                }
            }
            fingerprint::record("step", || before, || fingerprint::of(&program));
        }
        holds.check(&program)?;
        for (args, want) in self.args.iter().zip(&wanted) {
            let args: Vec<&Tensor> = args.iter().collect();
            if holds == Invariant::Proved {
                let code = Executable::new(&program)?;
                let found = code.call(&args)?;
                Agreement::relative(1e-10)
                    .check_all(&found, want)
                    .map_err(|e| format!("machine code disagrees: {e}\n{program}"))?;
                let threads = code.with_threads(3).call(&args)?;
                Agreement::Exact
                    .check_all(&threads, &found)
                    .map_err(|e| format!("three threads disagree: {e}\n{program}"))?;
            }
        }
        let printed = program.to_string();
        match loop_ir::parse(&printed, &library)?.to_string() == printed {
            true => Ok(printed),
            false => Err(format!("{printed}\nprints differently the second time").into()),
        }
    }

    /// Applies passes to the layout of a loop program's tape, and returns the layout as text.
    fn layout(
        program: &loop_ir::Program,
        name: &str,
        more: &[Step<'_>],
    ) -> Result<String, Failure> {
        let pipeline = Layouts::ALL.into_iter().find(|p| p.name == name);
        let names = pipeline.ok_or("no such pipeline")?.passes.iter().copied();
        let passes = names.chain(more.iter().map(|(name, _)| *name)).map(|name| {
            PASSES.iter().find(|pass| pass.name == name).ok_or(format!("there is no pass `{name}`"))
        });
        let layout = Layout::run_passes(
            program,
            &ScratchpadModel::default(),
            passes.collect::<Result<Vec<_>, _>>()?,
        )?;
        fingerprint::record("layout", || fingerprint::of(program), || fingerprint::of(&layout));
        let printed = layout.to_string();
        match Layout::parse(&printed)? == layout {
            true => Ok(printed),
            false => Err(format!("the text is another layout:\n{printed}").into()),
        }
    }

    fn runs(&self, module: &Module, f: FuncId) -> Result<String, Failure> {
        let mut all = String::new();
        for args in &self.args {
            match tapeloom_ir::eval(module, f, args) {
                Ok(_) => {
                    let results = run(module, f, args)?;
                    let args: Vec<&Tensor> = args.iter().collect();
                    let native = compile(module, f, &Options::default())?.call(&args)?;
                    Agreement::relative(1e-10)
                        .check_all(&native, &results)
                        .map_err(|e| format!("machine code disagrees: {e}"))?;
                    for y in results {
                        all += &format!("{}\n", crate::show_tensor(&y));
                    }
                }
                Err(problem) => all += &format!("error: {problem}\n"),
            }
        }
        Ok(all)
    }
}

/// The results of the function for the test's arguments, which passes must preserve.
struct Kept<'t> {
    passes: Vec<&'static Pass>,
    args: &'t [Vec<Tensor>],
    wanted: Vec<Vec<Tensor>>,
}

impl<'t> Kept<'t> {
    /// Computes the expected results, or none if a step of the pipeline is no pass.
    fn of(
        module: &Module,
        f: FuncId,
        passes: Vec<Option<&'static Pass>>,
        args: &'t [Vec<Tensor>],
    ) -> Result<Kept<'t>, Failure> {
        let passes: Option<Vec<_>> = passes.into_iter().collect();
        let args = if passes.is_some() { args } else { &[] };
        let wanted = args.iter().map(|args| run(module, f, args)).collect::<Result<_, _>>()?;
        Ok(Kept { passes: passes.unwrap_or_default(), args, wanted })
    }

    /// Returns the tolerance for the results after the first `passes` passes: equal bits if all of them are exact.
    fn agreement(&self, passes: usize) -> Agreement {
        match self.passes.iter().take(passes).all(|pass| pass.exactness == Exactness::Exact) {
            true => Agreement::Exact,
            false => Agreement::relative(1e-10),
        }
    }

    fn check(&self, module: &Module, f: FuncId, step: usize) -> Result<(), Failure> {
        for (args, want) in self.args.iter().zip(&self.wanted) {
            let found = run(module, f, args)?;
            let checked = self.agreement(step + 1).check_all(&found, want);
            checked.map_err(|e| format!("after `{:?}`: {e}", self.passes[step]))?;
        }
        Ok(())
    }

    fn check_code(&self, module: &Module, f: FuncId) -> Result<(), Failure> {
        for (args, want) in self.args.iter().zip(&self.wanted) {
            let args: Vec<&Tensor> = args.iter().collect();
            let found = compile(module, f, &Options::default())?.call(&args)?;
            let checked = Agreement::relative(1e-10).check_all(&found, want);
            checked.map_err(|e| format!("machine code disagrees: {e}"))?;
        }
        Ok(())
    }
}

/// Returns the context of a pass on the loop IR, from the options of its step.
fn context(options: &BTreeMap<&str, &str>) -> Result<Context, Failure> {
    let mut context = Context::default();
    for (key, value) in options {
        let asked = Choice::ALL.into_iter().find(|choice| choice.name() == *key);
        let number = MachineModel::NUMBERS.iter().find(|number| number.name == *key);
        match (*key, asked) {
            (_, None) if let Some(number) = number => {
                (number.set)(&mut context.machine, value.parse()?);
            }
            ("by", _) => {
                let numbers = value.trim_matches(['[', ']']).split(',').map(str::parse);
                context.factors = numbers.collect::<Result<Vec<u64>, _>>()?;
            }
            ("overlap", _) => context.overlap = value.parse()?,
            (_, Some(choice)) if *value == "true" => context.choice = choice,
            (key, _) => return Err(format!("no pass takes `{key}={value}`").into()),
        }
    }
    Ok(context)
}

/// Applies a step to a function, and returns the functions that the step makes, or `None` if there is no such step.
fn apply(
    module: &mut Module,
    f: FuncId,
    name: &str,
    options: &BTreeMap<&str, &str>,
) -> Option<Result<Vec<FuncId>, Problem>> {
    let function = module.get(f);
    let floats: Vec<bool> = function.param_types().iter().map(|t| t.has_tangent()).collect();
    let mask = |key: &str, default: Vec<bool>| match options.get(key) {
        Some(list) => {
            list.trim_matches(['[', ']']).split(',').map(|b| b.trim() == "true").collect()
        }
        None => default,
    };
    let number = |key: &str, default: usize| {
        options.get(key).and_then(|n| n.parse().ok()).unwrap_or(default)
    };
    Some(match name {
        "print" => Ok(vec![f]),
        "jvp" => jvp(module, f, &mask("active", floats)).map(|of| vec![of.function]),
        "linearize" => linearize(module, f, &mask("active", floats)).map(|of| vec![of.fwd, of.lin]),
        "plan" => {
            let of = linearize(module, f, &mask("active", floats));
            let terms = terms(options).ok()?;
            of.and_then(|of| Transforms.plan(module, of, terms)).map(|of| vec![of.fwd, of.lin])
        }
        "vjp" => {
            vjp(module, f, &mask("active", floats)).map(|of| vec![of.function, of.fwd, of.bwd])
        }
        "linear" => {
            // The last `count` parameters become linear.
            let (params, count) = (module.get(f).params.len(), number("count", 1));
            let linear: Vec<bool> = (0..params).map(|i| i + count >= params).collect();
            as_linear(module, f, &linear).map(|f| vec![f])
        }
        "transpose" => {
            let all = vec![true; function.results.len()];
            transpose(module, f, &mask("nonzero", all)).map(|of| vec![of.function])
        }
        "batch" => {
            let all = vec![true; floats.len()];
            module.divide_batches(number("operations", 0));
            let of = batch(module, f, number("size", 3), &mask("batched", all));
            of.map(|of| vec![of.function])
        }
        other => function_pass(other).ok()?.apply(module, f).map(|f| vec![f]),
    })
}

/// Returns the request to the checkpoint planner (policy, packing) that the options of a `plan` step describe.
fn terms(options: &BTreeMap<&str, &str>) -> Result<PlanRequest, Failure> {
    let prices = |key: &str| -> Result<Vec<Price>, Failure> {
        let list = options.get(key).map_or("", |list| list.trim_matches(['[', ']']));
        let price = |word: &str| match word {
            "constant" => Ok(Price::Constant(Amortization::FREE)),
            "once" => Ok(Price::Constant(Amortization::OWN.among(8))),
            "there" => Ok(Price::THERE),
            "bytes" => Ok(Price::OWN),
            other => Err(format!("`{other}` is no price").into()),
        };
        list.split(',').filter(|w| !w.is_empty()).map(price).collect()
    };
    let policy: Policy = options.get("policy").unwrap_or(&"planned").parse()?;
    Ok(PlanRequest {
        bits: policy.row().bits,
        policy,
        params: prices("params")?,
        results: prices("results")?,
        iterations: 8,
        runs: options.get("runs").map_or(Ok(8), |n| n.parse())?,
        together: options.get("together") == Some(&"true"),
    })
}

fn step(text: &str) -> Result<(&str, BTreeMap<&str, &str>), Failure> {
    let mut words = text.split_whitespace();
    let name = words.next().ok_or("an empty step")?;
    let options = words.map(|w| w.split_once('=').ok_or(format!("`{w}` is not `key=value`")));
    Ok((name, options.collect::<Result<_, _>>()?))
}

/// Returns the library function of this name that computes a scalar function.
fn library(name: &str) -> Option<Library> {
    Scalar::ALL.iter().find_map(|scalar| scalar.row().code.row().library.filter(|l| l.name == name))
}

/// Checks that printed text parses and prints as the same text.
fn same_again(text: &str) -> Result<(), Failure> {
    let module = parse_module(text).map_err(|e| format!("{} in\n{text}", e[0]))?;
    let again = print_module(&module);
    if again == text { Ok(()) } else { Err(format!("{text}\nprints again as\n{again}").into()) }
}
