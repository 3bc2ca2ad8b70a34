//! Schedules: how a long chain of iterations is undone from the last one to the first, though only a few
//! of the carries between them are kept.
//!
//! Whoever undoes iteration k needs the carry that it began with. A carry that is not kept is made again
//! from the last one before it that is, and of what is met on the way some is kept in the places that
//! have become free. With `s` carries and at most `r` times through each iteration, chains of
//!
//! ```text
//! reach(s, r) = C(s + r, s)
//! ```
//!
//! iterations can be undone, and `n` of them take at least `steps(n, s) = r n - C(s + r, r - 1)` iterations
//! forward, with the least r that reaches n. [`split`] says where the next carry to keep is, from the
//! lengths alone: so a schedule is no table but a rule, which a program follows by arithmetic on
//! integers, also where n is known only when it runs (the loops in [`crate::prim::Loop`] that have
//! `carries` do). As data it prints:
//!
//! ```
//! use tapeloom_ir::Schedule;
//! let of_five = Schedule::binomial(5, 2);
//! assert_eq!(
//!     of_five.to_string(),
//!     "keep 0, ahead 3, keep 1, ahead 1, back 4, take 1, back 3, take 0, ahead 1, keep 1, ahead 1, \
//!      back 2, take 1, back 1, take 0, back 0"
//! );
//! assert_eq!((of_five.steps(), of_five.highest()), (6, 2));
//! assert_eq!(of_five.to_string().parse(), Ok(of_five));
//! ```
//!
//! Source: Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse
//! automatic differentiation" (1992); Griewank and Walther, "Revolve" (ACM TOMS 2000). Their counts
//! are of iterations ahead of the one that is undone, which itself runs once more where it is undone; the
//! carry at the start is one of those kept.

use crate::lang::problem::{Kind, Problem};
use std::fmt;
use std::str::FromStr;

/// What a schedule does next with the carry at hand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Keeps it at that place.
    Keep(usize),
    /// Goes so many iterations on.
    Ahead(usize),
    /// Takes the one kept at that place instead.
    Take(usize),
    /// Undoes that iteration, which begins with it.
    Back(usize),
}

/// The way through a chain of iterations and back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// What is done, in order.
    pub actions: Vec<Action>,
}

/// How many iterations can be undone with so many carries kept, the one at the start among them, if each
/// iteration runs forward at most so often before it is undone: `C(carries + times, carries)`.
pub fn reach(carries: usize, times: usize) -> usize {
    let (mut all, mut one) = (1u128, 0);
    while one < times.min(carries) {
        one += 1;
        let factor = (carries + times + 1 - one) as u128;
        let Some(more) = all.checked_mul(factor) else { return usize::MAX };
        all = more / one as u128;
    }
    usize::try_from(all).unwrap_or(usize::MAX)
}

/// The least number of times through an iteration with which so many iterations can be undone.
fn times(iterations: usize, carries: usize) -> usize {
    let mut times = 0;
    while reach(carries, times) < iterations {
        times += 1;
    }
    times
}

/// The least number of iterations forward with which so many are undone, if so many carries are kept
/// (at least one, that at the start).
pub fn steps(iterations: usize, carries: usize) -> u128 {
    let carries = carries.max(1);
    let times = match carries {
        1 => iterations.saturating_sub(1),
        _ => times(iterations, carries),
    };
    match times {
        0 => 0,
        // C(carries + times, times - 1) = C((carries + 1) + (times - 1), times - 1)
        _ if carries == 1 => (iterations as u128) * (iterations as u128 - 1) / 2,
        _ => (times as u128 * iterations as u128) - reach(carries + 1, times - 1) as u128,
    }
}

/// How many iterations from a carry that is kept to the next one that is, if from the first on so many
/// iterations are to be undone, with so many carries in all. It makes sense to keep another one where there
/// are at least three iterations and two carries; then it lies before the last iteration.
pub fn split(iterations: usize, carries: usize) -> usize {
    let (mut times, mut before, mut now) = (0, 0, 1);
    while now < iterations {
        times += 1;
        before = now;
        now = now * (carries + times) / times;
    }
    // Behind it are those that one carry less undoes in as many times, before it those that all of
    // them undo in one time less; neither may fall short, or the other would take too long.
    let least_behind = before * carries / (carries + times - 1).max(1);
    before.min(iterations - least_behind)
}

impl Schedule {
    /// The one that goes forward least, of those with so many carries.
    pub fn binomial(iterations: usize, carries: usize) -> Schedule {
        let mut actions = vec![Action::Keep(0)];
        // Where the carries are that are kept.
        let mut kept = vec![0];
        for iteration in (0..iterations).rev() {
            let Some(mut at) = kept.last().copied() else { break };
            if iteration + 1 < iterations {
                actions.push(Action::Take(kept.len() - 1));
            }
            while kept.len() < carries && iteration + 1 - at >= 3 {
                let ahead = split(iteration + 1 - at, carries - kept.len() + 1);
                at += ahead;
                actions.extend([Action::Ahead(ahead), Action::Keep(kept.len())]);
                kept.push(at);
            }
            if at < iteration {
                actions.push(Action::Ahead(iteration - at));
            }
            actions.push(Action::Back(iteration));
            kept.pop_if(|at| *at == iteration);
        }
        Schedule { actions }
    }

    /// How many iterations forward.
    pub fn steps(&self) -> u128 {
        let ahead = |a: &Action| match a {
            Action::Ahead(n) => *n as u128,
            Action::Keep(_) | Action::Take(_) | Action::Back(_) => 0,
        };
        self.actions.iter().map(ahead).sum()
    }

    /// How many carries are kept at a time, at most.
    pub fn highest(&self) -> usize {
        let place = |a: &Action| match a {
            Action::Keep(place) => place + 1,
            Action::Ahead(_) | Action::Take(_) | Action::Back(_) => 0,
        };
        self.actions.iter().map(place).max().unwrap_or_default()
    }

    /// What is wrong with it, if it is to undo so many iterations: one after the other, from the last to the
    /// first, each from the carry that it began with.
    ///
    /// # Errors
    /// [`Kind::Arguments`], with the first action that is wrong.
    pub fn check(&self, iterations: usize) -> Result<(), Problem> {
        let (mut at, mut left) = (0, iterations);
        let mut kept: Vec<Option<usize>> = vec![None; self.highest()];
        for (i, action) in self.actions.iter().enumerate() {
            let right = match action {
                Action::Keep(place) => {
                    kept[*place] = Some(at);
                    true
                }
                Action::Ahead(n) => {
                    at += n;
                    at < iterations
                }
                Action::Take(place) => match kept.get(*place).copied().flatten() {
                    Some(iteration) => {
                        at = iteration;
                        true
                    }
                    None => false,
                },
                Action::Back(iteration) => {
                    let right = *iteration == at && *iteration + 1 == left;
                    left = *iteration;
                    right
                }
            };
            if !right {
                let message = format!("action {i}, `{action}`, finds the carry of iteration {at}");
                let help =
                    "an iteration is undone from the carry that it began with, after the next one";
                return Err(Problem::new(Kind::Arguments, message, help));
            }
        }
        match left {
            0 => Ok(()),
            _ => {
                Err(Problem::new(Kind::Arguments, format!("{left} iterations are not undone"), ""))
            }
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Keep(place) => write!(f, "keep {place}"),
            Action::Ahead(iterations) => write!(f, "ahead {iterations}"),
            Action::Take(place) => write!(f, "take {place}"),
            Action::Back(iteration) => write!(f, "back {iteration}"),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, action) in self.actions.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{action}")?;
        }
        Ok(())
    }
}

impl FromStr for Action {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Action, Problem> {
        let read = text.trim().split_once(' ').and_then(|(word, number)| {
            let number = number.parse().ok()?;
            match word {
                "keep" => Some(Action::Keep(number)),
                "ahead" => Some(Action::Ahead(number)),
                "take" => Some(Action::Take(number)),
                "back" => Some(Action::Back(number)),
                _ => None,
            }
        });
        read.ok_or_else(|| {
            let message = format!("`{text}` is no action of a schedule");
            Problem::new(
                Kind::Parse,
                message,
                "actions are keep, ahead, take and back, with a number",
            )
        })
    }
}

impl FromStr for Schedule {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Schedule, Problem> {
        let actions = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Schedule { actions })
    }
}
