//! Which pass on kernels is wrong: a list of passes is run step by step, and what the program computes is compared with
//! what it computed before.
//!
//! ```
//! use tapeloom_backend::{lower::schedule, passes::NATIVE};
//! use tapeloom_ir::{Tensor, parse_module};
//! use tapeloom_tests::bisect::{Verdict, bisect};
//! let text = "func @f(%0: f64[4]) -> (f64[4]) {\n  %1: f64[4] = sin %0\n  return %1\n}";
//! let module = parse_module(text).map_err(|e| e[0].clone())?;
//! let (f, _) = module.iter().last().ok_or("no function")?;
//! let args = [Tensor::from([1.0, 2.0, 3.0, 4.0])];
//! let verdict = bisect(&NATIVE, &schedule(&module, f)?, &args)?;
//! assert!(matches!(verdict, Verdict::Right));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{Agreement, Failure};
use std::fmt;
use tapeloom_backend::loop_ir::{self, Program};
use tapeloom_backend::passes::{Context, List, Step, by_name};
use tapeloom_ir::Tensor;
use tapeloom_ir::prim::Exactness;

/// What was found.
#[derive(Debug)]
pub enum Verdict {
    /// The program computes the same behind every step.
    Right,
    /// A step after which it does not.
    Wrong {
        /// Its place in the list, from 0 on.
        at: usize,
        /// The step.
        step: &'static Step,
        /// What differs.
        why: String,
        /// The program that it was given, and what it made.
        programs: [String; 2],
    },
    /// The passes refuse the program.
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

/// Runs a list of passes on a program, and finds the first step behind which it computes something else: other bits, or
/// numbers that are far apart where a pass may take sums in another order.
///
/// # Errors
/// Where the program itself cannot be run.
pub fn bisect(list: &List, program: &Program, args: &[Tensor]) -> Result<Verdict, Failure> {
    let want = loop_ir::shadow(&proved(program)?, args)?;
    let (mut made, mut last, mut verdict) = (program.clone(), program.to_string(), None);
    let (mut at, mut exact, mut before) = (0, true, want.clone());
    let mut after = |step: &'static Step, made: &Program| {
        if verdict.is_some() {
            return;
        }
        exact = step.pass.exactness == Exactness::Exact;
        let found = proved(made).and_then(|p| Ok(loop_ir::eval(&p, args)?));
        let compared = found.and_then(|found| {
            let near = Agreement::relative(1e-9);
            near.check_all(&found, &want)?;
            if exact {
                Agreement::Exact.check_all(&found, &before)?;
            }
            Ok(found)
        });
        match compared {
            Ok(found) => before = found,
            Err(why) => {
                let programs = [std::mem::take(&mut last), made.to_string()];
                verdict = Some(Verdict::Wrong { at, step, why: why.to_string(), programs });
            }
        }
        last = made.to_string();
        at += 1;
    };
    let ran = list.observed(&mut made, &mut Context::default(), &mut after);
    Ok(match (verdict, ran) {
        (Some(wrong), _) => wrong,
        (None, Err(problem)) => Verdict::Refused(problem.to_string()),
        (None, Ok(())) => Verdict::Right,
    })
}

/// The program with a proof for each access, as the interpreter wants it.
fn proved(program: &Program) -> Result<Program, Failure> {
    let mut program = program.clone();
    if loop_ir::check(&program).is_err() {
        by_name("clamp_bounds")?.apply(&mut program, &mut Context::default())?;
    }
    Ok(program)
}
