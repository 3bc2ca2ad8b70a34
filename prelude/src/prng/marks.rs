//! Marks on the keys of draws, for the check that no key is used twice
//! ([`check_keys`](tapeloom_ir::check_keys)).

use crate::Var;
use std::cell::RefCell;
use tapeloom_ir::prim::{KeyUse, Mark};
use tapeloom_ir::{Loc, Op, trace};

/// The state of marking: counters for the draws and conditionals traced so far, and the position of the code that is
/// being traced.
#[derive(Default)]
struct Marks {
    /// The number of draws traced so far.
    draws: u32,
    /// The number of conditionals (`cond` or `switch`) traced so far.
    branchings: u32,
    /// The branches that enclose the current position.
    branches: Branches,
}

/// The branches that enclose a position in the traced code, outermost first. Each is the number of a conditional
/// (`cond` or `switch`) and the number of a branch of that conditional.
type Branches = Vec<(u32, u32)>;

thread_local! {
    static MARKS: RefCell<Option<Marks>> = const { RefCell::new(None) };
}

/// A guard that runs its closure when it is dropped, also while a panic unwinds.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs `trace` and marks the key of every draw inside it.
pub(crate) fn with_marks<T>(trace: impl FnOnce() -> T) -> T {
    let mut before = MARKS.replace(Some(Marks::default()));
    let _restore = OnDrop(|| MARKS.set(before.take()));
    trace()
}

/// Runs `trace` without marking keys. It is for draws that are repeated on purpose: a derivative rule draws the same
/// numbers as its function, and a solver evaluates an equation repeatedly with the same numbers.
pub(crate) fn unmarked<T>(trace: impl FnOnce() -> T) -> T {
    let mut before = MARKS.take();
    let _restore = OnDrop(|| MARKS.set(before.take()));
    trace()
}

/// Returns whether draws are being marked. Then every call of a function is traced separately, since each needs marks
/// of its own.
pub(crate) fn marks() -> bool {
    MARKS.with_borrow(Option::is_some)
}

/// Counts a new conditional (`cond` or `switch`) and returns its number, or 0 if draws are not marked.
pub(crate) fn next_branching() -> u32 {
    MARKS.with_borrow_mut(|marks| {
        marks.as_mut().map_or(0, |marks| {
            marks.branchings += 1;
            marks.branchings
        })
    })
}

/// Traces a closure that is branch number `branch` of the conditional with number `branching`.
pub(crate) fn in_branch<T>(branching: u32, branch: u32, trace: impl FnOnce() -> T) -> T {
    let change = |change: &dyn Fn(&mut Branches)| {
        MARKS.with_borrow_mut(|marks| marks.iter_mut().for_each(|m| change(&mut m.branches)));
    };
    change(&|branches| branches.push((branching, branch)));
    let _restore = OnDrop(|| {
        change(&|branches| {
            branches.pop();
        });
    });
    trace()
}

/// Returns the key of a draw. If draws are being marked, the key is wrapped in a barrier with the mark that `what`
/// makes.
pub(super) fn marked(what: fn(KeyUse) -> Mark, key: Var, at: Loc) -> Var {
    let of = MARKS.with_borrow_mut(|marks| {
        let marks = marks.as_mut()?;
        marks.draws += 1;
        Some(KeyUse { number: marks.draws, branches: marks.branches.as_slice().into() })
    });
    let Some(of) = of else { return key };
    let marked = trace::bind(Op::barrier(what(of)), &[key.handle], at);
    marked.into_iter().next().map_or(key, Var::new)
}
