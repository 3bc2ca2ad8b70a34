//! Marks on the keys of draws, for the check that no key is used twice
//! ([`check_keys`](tapeloom_ir::check_keys)).

use crate::Var;
use std::cell::RefCell;
use tapeloom_ir::prim::{KeyUse, Mark};
use tapeloom_ir::{Loc, Op, trace};

/// The position of the traced code for marks.
#[derive(Default)]
struct Marks {
    /// The number of draws so far.
    draws: u32,
    /// The number of conditionals (`cond` or `switch`) so far.
    branchings: u32,
    /// The branches that enclose the current position.
    branches: Branches,
}

/// The branches around a position, outermost first: for each, the number of its conditional (`cond` or `switch`) and
/// the number of the branch in that conditional.
type Branches = Vec<(u32, u32)>;

thread_local! {
    static MARKS: RefCell<Option<Marks>> = const { RefCell::new(None) };
}

/// Runs its closure when dropped, even after a panic.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Traces with a mark on the key of every draw.
pub(crate) fn with_marks<T>(trace: impl FnOnce() -> T) -> T {
    let mut before = MARKS.replace(Some(Marks::default()));
    let _restore = OnDrop(|| MARKS.set(before.take()));
    trace()
}

/// Traces without marks, for draws that may be repeated: a rule that draws the same numbers as its function, an
/// equation that a solver evaluates repeatedly.
pub(crate) fn unmarked<T>(trace: impl FnOnce() -> T) -> T {
    let mut before = MARKS.take();
    let _restore = OnDrop(|| MARKS.set(before.take()));
    trace()
}

/// Returns whether draws are marked. If so, every use of a function is traced separately.
pub(crate) fn marks() -> bool {
    MARKS.with_borrow(Option::is_some)
}

/// Returns the number of a new conditional (`cond` or `switch`).
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

/// Returns the key of a draw, marked as `what` if draws are marked.
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
