//! Binomial checkpointing schedules: the reverse pass of a long chain of iterations, with only a few of the
//! carries between them saved.
//!
//! The reverse of iteration k needs the carry with which k began. If that carry is not saved, it is recomputed
//! from the last saved one before it, and some of the carries on the way are saved in slots that are free by
//! then. With `s` saved carries, and each iteration run forward at most `r` times, the reverse pass can process
//! chains of
//!
//! ```text
//! reach(s, r) = C(s + r, s)
//! ```
//!
//! iterations, and for `n` iterations it runs at least `steps(n, s) = r n - C(s + r, r - 1)` iterations
//! forward, with the smallest r for which `reach(s, r)` is at least n. [`split`] computes the position of the
//! next carry to save from the lengths alone. So a schedule needs no table: a program follows the rule by
//! integer arithmetic, also if n is known only at run time (the loops in [`crate::prim::Loop`] with `carries`
//! do so). As data a schedule prints:
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
//! Source: Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
//! differentiation" (1992); Griewank and Walther, "Revolve" (ACM TOMS 2000). As there, the counts include only the
//! iterations run forward to reach the iteration that is reversed. The reversed iteration runs forward once more as
//! part of its own reverse; this run is not counted. The carry at the start counts as a saved carry.

use crate::lang::problem::{Kind, Problem};
use std::fmt;
use std::str::FromStr;

/// An action of a checkpointing schedule. The schedule holds one carry, the current one, and saves others in slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Saves the current carry in this slot.
    Keep(usize),
    /// Runs a number of iterations forward from the current carry.
    Ahead(usize),
    /// Loads the current carry from this slot.
    Take(usize),
    /// Reverses the iteration with this index; the current carry must be the carry with which this iteration begins.
    Back(usize),
}

/// A checkpointing schedule: the actions that run a chain of iterations forward and then process them in reverse order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// The actions, in the order in which they are performed.
    pub actions: Vec<Action>,
}

/// Returns the largest number of iterations that can be reversed with `carries` saved carries, the carry at the start
/// included, if each iteration runs forward at most `times` times before it is reversed. This number is the binomial
/// coefficient `C(carries + times, carries)`.
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

/// Returns the smallest number of forward runs per iteration with which `iterations` iterations can be reversed by
/// `carries` saved carries.
fn times(iterations: usize, carries: usize) -> usize {
    let mut times = 0;
    while reach(carries, times) < iterations {
        times += 1;
    }
    times
}

/// Returns the smallest total number of iterations that must run forward to reverse a chain of `iterations` iterations
/// with `carries` saved carries. The carry at the start is one of the saved carries.
pub fn steps(iterations: usize, carries: usize) -> u128 {
    let carries = carries.max(1);
    let times = match carries {
        1 => iterations.saturating_sub(1),
        _ => times(iterations, carries),
    };
    match times {
        0 => 0,
        // If only the carry at the start is saved, the iteration with index k is reached by k forward runs, and the sum
        // of all k below n is n (n - 1) / 2.
        _ if carries == 1 => (iterations as u128) * (iterations as u128 - 1) / 2,
        // For n iterations, s saved carries and at most r forward runs of each iteration, the number is
        // `r n - C(s + r, r - 1)`. The binomial coefficient is `reach(s + 1, r - 1)`.
        _ => (times as u128 * iterations as u128) - reach(carries + 1, times - 1) as u128,
    }
}

/// Returns the distance, in iterations, from a saved carry to the next carry to save. `iterations` is the number of
/// iterations to reverse, beginning at the saved carry; `carries` is the number of carries that may be saved, the saved
/// one included. Saving a second carry pays off only for three or more iterations and two or more carries; the second
/// carry then lies before the last iteration.
pub fn split(iterations: usize, carries: usize) -> usize {
    let (mut times, mut before, mut now) = (0, 0, 1);
    while now < iterations {
        times += 1;
        before = now;
        now = now * (carries + times) / times;
    }
    // The iterations behind the split must be reversible with one carry less and `times` forward runs each. The
    // iterations before the split must be reversible with all carries and one forward run less. So each of the two
    // sides has a largest length, and therefore the other side has a smallest one.
    let least_behind = before * carries / (carries + times - 1).max(1);
    before.min(iterations - least_behind)
}

impl Schedule {
    /// Returns the schedule that runs the fewest iterations forward, with at most `carries` saved carries.
    pub fn binomial(iterations: usize, carries: usize) -> Schedule {
        let mut actions = vec![Action::Keep(0)];
        // The iterations whose initial carries are saved, in ascending order; iteration 0 begins with the carry at
        // the start.
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

    /// Returns the number of iterations that the schedule runs forward; runs that are part of a reversal do not
    /// count.
    pub fn steps(&self) -> u128 {
        let ahead = |a: &Action| match a {
            Action::Ahead(n) => *n as u128,
            Action::Keep(_) | Action::Take(_) | Action::Back(_) => 0,
        };
        self.actions.iter().map(ahead).sum()
    }

    /// Returns the number of slots: the largest number of carries saved at a time.
    pub fn highest(&self) -> usize {
        let place = |a: &Action| match a {
            Action::Keep(place) => place + 1,
            Action::Ahead(_) | Action::Take(_) | Action::Back(_) => 0,
        };
        self.actions.iter().map(place).max().unwrap_or_default()
    }

    /// Checks that the schedule reverses `iterations` iterations: one after the other, from the last to the first,
    /// each from the carry with which it begins.
    ///
    /// # Errors
    /// [`Kind::Arguments`], with the first wrong action.
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
                let help = "the reverse pass of an iteration needs the carry at its start, and \
                            follows the reverse pass of the next iteration";
                return Err(Problem::new(Kind::Arguments, message, help));
            }
        }
        match left {
            0 => Ok(()),
            _ => Err(Problem::new(
                Kind::Arguments,
                format!("the reverse pass of {left} iterations is missing"),
                "",
            )),
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
