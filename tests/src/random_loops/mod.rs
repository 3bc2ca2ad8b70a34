//! Random programs with loops, and properties that must hold for them under every checkpoint policy and every byte
//! budget.
//!
//! A program is a list of [`Step`]s on a state of two vectors, a number and a counter. Steps are contractions, so
//! that rounding errors do not grow and derivatives can be compared closely. Loops have enough iterations for the
//! tape to be larger than the rest of a gradient's workspace.
//!
//! | law | |
//! |---|---|
//! | [`policies`] | values, gradients and effects are the same under every policy |
//! | [`budgets`] | a budget is obeyed, or refused with the smallest sufficient budget, which is then obeyed |
//! | [`figures`] | the workspace of a gradient, without its reported tape, is bounded by the needs of one iteration |
//! | [`growth`] | within a budget, the workspace does not depend on the number of iterations |
//! | [`orders`] | derivatives of the gradient are the same under every policy, and gradients of batches too |
//! | [`rounding`] | with residuals rounded to f32, derivatives are near the exact ones, and values are the same |
//! | [`pieces`] | results are bit-identical on one and on several threads |
//! | [`on_xla`] | a plugin of XLA computes the values, gradients and effects of machine code |
//! | [`machines`] | results are bit-identical on every simulated machine and configuration |

mod laws;
mod machines;
mod meaning;
mod program;

pub use laws::{
    budgets, donated, figures, gradient_under, growth, on_xla, orders, pieces, policies, policy_of,
    rounding,
};
pub use machines::machines;
pub use program::{Iterations, Nest, Program, Step};

use crate::fuzz::said;
use crate::{Failure, Rng};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A property that must hold for a random program; the generator draws policies and budgets.
pub type Law = fn(&Program, &mut Rng) -> Result<(), Failure>;

/// Checks one property of the program, drawn at random; properties of byte budgets are drawn most often.
pub fn in_turn(program: &Program, rng: &mut Rng) -> Result<(), Failure> {
    let laws: [Law; 8] = [policies, budgets, budgets, orders, rounding, figures, growth, machines];
    laws[rng.index(laws.len())](program, rng)
}

/// The time limit for shrinking a failing program.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a report if `program` violates the property `law`; `seed` is the seed of the generator from which the check
/// draws policies and budgets. The report shows the smallest failing program found.
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
