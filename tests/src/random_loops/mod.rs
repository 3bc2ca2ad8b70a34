//! Random programs with loops, and what must hold of them under every policy and every budget.
//!
//! A program is a list of [`Step`]s on a state of two vectors, a number and a counter. They contract, so
//! that rounding does not grow in them and derivatives are compared closely. Loops have iterations enough for a
//! tape to be larger than what a gradient works in beside it.
//!
//! | law | |
//! |---|---|
//! | [`policies`] | values, gradients and what is told are the same under every policy |
//! | [`budgets`] | a budget is obeyed, or refused with the least number, with which the plan is |
//! | [`figures`] | beside what is said to be tape a gradient works in no more than what an iteration takes |
//! | [`growth`] | within a budget it is the same however many iterations there are |
//! | [`orders`] | derivatives of the gradient are the same, and those of batches |
//! | [`rounding`] | of what is rounded derivatives are near to those, and values are the same |
//! | [`machines`] | on every simulated machine, however the run is set up, results are the same bits |

mod laws;
mod machines;
mod meaning;
mod program;

pub use laws::{budgets, figures, gradient_under, growth, orders, policies, policy_of, rounding};
pub use machines::machines;
pub use program::{Iterations, Nest, Program, Step};

use crate::fuzz::said;
use crate::{Failure, Rng};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// What must hold for a program.
pub type Law = fn(&Program, &mut Rng) -> Result<(), Failure>;

/// One of them, budgets most often.
pub fn in_turn(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let laws: [Law; 8] = [policies, budgets, budgets, orders, rounding, figures, growth, machines];
    laws[rng.index(laws.len())](program, rng)
}

/// For how long smaller programs are tried.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is wrong with a program, with that seed for the law, shown on the smallest program that breaks it.
pub fn failure(mut program: Program, seed: u64, law: Law) -> Option<String> {
    let broken = |program: &Program| {
        let outcome = catch_unwind(AssertUnwindSafe(|| law(program, &mut Rng::new(seed))));
        match outcome {
            Ok(outcome) => outcome.err().map(|e| e.to_string()),
            Err(panic) => Some(said(&*panic)),
        }
    };
    let mut wrong = broken(&program)?;
    let start = Instant::now();
    'shrink: loop {
        for smaller in program.smaller() {
            if start.elapsed() > PATIENCE {
                break 'shrink;
            }
            if let Some(also) = broken(&smaller) {
                (program, wrong) = (smaller, also);
                continue 'shrink;
            }
        }
        break;
    }
    Some(format!("SWEEP_SEED={seed}: {wrong}\n\n{program:?}"))
}
