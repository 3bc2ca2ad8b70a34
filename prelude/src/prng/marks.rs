//! Marks on the keys of draws, while somebody asks whether a key is used twice
//! ([`check_keys`](tapeloom_ir::check_keys)).

use crate::Var;
use std::cell::RefCell;
use tapeloom_ir::prim::{KeyUse, Mark};
use tapeloom_ir::{Loc, Op, trace};

/// What is known of the place where a closure draws.
#[derive(Default)]
struct Marks {
    /// Draws so far, and branchings.
    draws: u32,
    branchings: u32,
    /// The branches around.
    branches: Branches,
}

/// Branchings, and which branch of each.
type Branches = Vec<(u32, u32)>;

thread_local! {
    static MARKS: RefCell<Option<Marks>> = const { RefCell::new(None) };
}

/// Undoes something, also where a closure panics.
struct Undo<F: FnMut()>(F);

impl<F: FnMut()> Drop for Undo<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs something that traces with a mark on the key of every draw.
pub(crate) fn with_marks<T>(trace: impl FnOnce() -> T) -> T {
    let mut before = MARKS.replace(Some(Marks::default()));
    let _undo = Undo(|| MARKS.set(before.take()));
    trace()
}

/// Runs something whose draws are repeated by right: a rule that draws what its function draws, an
/// equation that a solver asks again and again.
pub(crate) fn unmarked<T>(trace: impl FnOnce() -> T) -> T {
    let mut before = MARKS.take();
    let _undo = Undo(|| MARKS.set(before.take()));
    trace()
}

/// Whether draws are marked: each trace of a function has its own then.
pub(crate) fn marks() -> bool {
    MARKS.with_borrow(Option::is_some)
}

/// A number for something that runs one of several closures.
pub(crate) fn next_branching() -> u32 {
    MARKS.with_borrow_mut(|marks| {
        marks.as_mut().map_or(0, |marks| {
            marks.branchings += 1;
            marks.branchings
        })
    })
}

/// Runs a closure that is one of several.
pub(crate) fn in_branch<T>(branching: u32, branch: u32, trace: impl FnOnce() -> T) -> T {
    let change = |change: &dyn Fn(&mut Branches)| {
        MARKS.with_borrow_mut(|marks| marks.iter_mut().for_each(|m| change(&mut m.branches)));
    };
    change(&|branches| branches.push((branching, branch)));
    let _undo = Undo(|| {
        change(&|branches| {
            branches.pop();
        });
    });
    trace()
}

/// The key of a draw, marked as `what` if anybody wants to know.
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
