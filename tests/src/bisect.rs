//! Bisection of a pass list: runs the passes on a function or on a loop program one by one, evaluates the program
//! after each, and reports the first pass that changes the results.
//!
//! ```
//! use tapeloom_backend::{lower::lower_to_loops, passes::NATIVE};
//! use tapeloom_ir::{Tensor, parse_module};
//! use tapeloom_tests::bisect::{Verdict, bisect};
//! let text = "func @f(%0: f64[4]) -> (f64[4]) {\n  %1: f64[4] = sin %0\n  return %1\n}";
//! let module = parse_module(text).map_err(|e| e[0].clone())?;
//! let (f, _) = module.iter().last().ok_or("no function")?;
//! let args = [Tensor::from([1.0, 2.0, 3.0, 4.0])];
//! let verdict = bisect(&NATIVE, &lower_to_loops(&module, f)?, &args)?;
//! assert!(matches!(verdict, Verdict::Right));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{Agreement, Failure};
use std::fmt;
use tapeloom_backend::loop_ir::{self, Program};
use tapeloom_backend::passes::{Context, List, Step, by_name};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{FuncId, Module, Tensor, eval, print_functions};
use tapeloom_transforms as transforms;

/// The outcome of a search for the first pass that changes results.
#[derive(Debug)]
pub enum Verdict {
    /// The results are the same after every pass of the list.
    Right,
    /// The first pass that changes the results.
    Wrong {
        /// The position of the wrong pass in the list, from 0.
        at: usize,
        /// The name of the wrong pass, with its options.
        step: String,
        /// The difference of the results after the wrong pass, or the error of evaluating the program after it.
        why: String,
        /// The program before the wrong pass and after it, printed.
        programs: [String; 2],
    },
    /// The pass list stopped with this error.
    Refused(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Right => writeln!(f, "every step computes the same"),
            Verdict::Refused(why) => writeln!(f, "the list ends early: {why}"),
            Verdict::Wrong { at, step, why, programs: [before, after] } => {
                writeln!(f, "== before\n{before}\n== after\n{after}")?;
                writeln!(f, "step {}, `{step}`, is the first that differs: {why}", at + 1)
            }
        }
    }
}

/// The state of a search for the first step (a pass in a list) that changes the results of a program.
struct Search {
    want: Vec<Tensor>,
    /// The results of the program after the previous pass, and the program's text.
    before: (Vec<Tensor>, String),
    steps: usize,
    wrong: Option<Verdict>,
}

impl Search {
    fn new(want: Vec<Tensor>, program: String) -> Search {
        Search { before: (want.clone(), program), want, steps: 0, wrong: None }
    }

    /// Compares the results after a pass with the results before the pass. After an exact pass every bit must be equal;
    /// after any pass the results must agree with those of the original program to 1e-9.
    fn step(
        &mut self,
        step: &dyn fmt::Display,
        exactness: Exactness,
        program: String,
        found: Result<Vec<Tensor>, Failure>,
    ) {
        if self.wrong.is_some() {
            return;
        }
        let compared = found.and_then(|found| {
            Agreement::relative(1e-9).check_all(&found, &self.want)?;
            if exactness == Exactness::Exact {
                Agreement::Exact.check_all(&found, &self.before.0)?;
            }
            Ok(found)
        });
        match compared {
            Ok(found) => self.before = (found, program),
            Err(why) => {
                let programs = [std::mem::take(&mut self.before.1), program];
                let (at, step, why) = (self.steps, step.to_string(), why.to_string());
                self.wrong = Some(Verdict::Wrong { at, step, why, programs });
            }
        }
        self.steps += 1;
    }

    /// Returns the verdict after the whole list ran, or failed with an error.
    fn verdict<E: fmt::Display>(self, ran: Result<(), E>) -> Verdict {
        match (self.wrong, ran) {
            (Some(wrong), _) => wrong,
            (None, Err(problem)) => Verdict::Refused(problem.to_string()),
            (None, Ok(())) => Verdict::Right,
        }
    }
}

/// Runs a list of passes on a loop program, pass by pass, and returns the first pass that changes the results.
///
/// # Errors
/// If the program itself cannot be run.
pub fn bisect(list: &List, program: &Program, args: &[Tensor]) -> Result<Verdict, Failure> {
    let want = loop_ir::shadow(&proved(program)?, args)?;
    let (mut made, mut search) = (program.clone(), Search::new(want, program.to_string()));
    let mut after = |step: &'static Step, made: &Program| {
        let found = proved(made).and_then(|p| Ok(loop_ir::eval(&p, args)?));
        search.step(step, step.pass.exactness, made.to_string(), found);
    };
    let ran = list.observed(&mut made, &mut Context::default(), &mut after);
    Ok(search.verdict(ran))
}

/// Runs a list of passes on a function, pass by pass, and returns the first pass that changes the results.
///
/// # Errors
/// If the function itself cannot be run.
pub fn bisect_function(
    list: &transforms::List,
    module: &Module,
    f: FuncId,
    args: &[Tensor],
) -> Result<Verdict, Failure> {
    let mut search = Search::new(eval(module, f, args)?, print_functions(module, &[f]));
    let mut after = |done: transforms::Observed<'_>| {
        let transforms::Observed { step, module: m, function: f, simplification: _ } = done;
        let found = eval(m, f, args).map_err(Failure::from);
        search.step(step, step.pass.exactness, print_functions(m, &[f]), found);
    };
    let ran = list.observed(&mut module.clone(), f, &mut after);
    Ok(search.verdict(ran.map(|_| ())))
}

/// Returns the program after a proof that every access lies in its buffer, which the interpreter requires. If the proof
/// fails, the indices in the returned program are clamped.
fn proved(program: &Program) -> Result<Program, Failure> {
    let mut program = program.clone();
    if loop_ir::check(&program).is_err() {
        by_name("clamp_bounds")?.apply(&mut program, &mut Context::default())?;
    }
    Ok(program)
}
