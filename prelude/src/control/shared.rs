//! Several closures with a common interface: each function takes the captures of all closures and returns the new
//! values of the state that any of them writes. Also checks that the value that selects a branch is a scalar.

use crate::Var;
use crate::staging::Staged;
use tapeloom_ir::trace::{self, CapturedState, Handle, State};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Draft, Dtype, FuncId, Kind, Loc, Module, OrderedMap, OrderedSet,
    Problem, Type,
};

/// The captures of several closures, merged into one list.
#[derive(Default)]
pub(crate) struct Shared {
    /// The captures of all closures, without duplicates.
    pub(crate) captures: Vec<Handle>,
    types: Vec<Type>,
    /// For each capture that is state, its index in `captures` and the state.
    states: OrderedMap<usize, State>,
    /// The indices in `captures` of the state that any closure writes.
    pub(super) written: OrderedSet<usize>,
    /// For each closure, the indices in `captures` of its own captures.
    picks: Vec<Vec<usize>>,
}

impl Shared {
    pub(crate) fn of(closures: &[(&[Handle], &[CapturedState])], at: Loc) -> Shared {
        let mut shared = Shared::default();
        for (captures, held) in closures {
            let held = |i: usize| held.iter().find(|held| held.capture == i);
            let places = captures.iter().enumerate();
            let picks = places.map(|(i, h)| shared.place(*h, held(i))).collect();
            shared.picks.push(picks);
        }
        shared.types = shared.captures.iter().map(|h| trace::type_of(*h, at)).collect();
        shared
    }

    /// Returns the index of a capture in the list, and appends the capture if it is new. A state has an index of its
    /// own, even if its initial value is also captured as a plain value.
    fn place(&mut self, h: Handle, held: Option<&CapturedState>) -> usize {
        let state = held.map(|held| held.state);
        let same = |(i, known): (usize, &Handle)| {
            known.is_same(h) && self.states.get(&i).copied() == state
        };
        let place = self.captures.iter().enumerate().position(same).unwrap_or_else(|| {
            self.captures.push(h);
            self.captures.len() - 1
        });
        if let Some(held) = held {
            self.states.insert(place, held.state);
            if held.written {
                self.written.insert(place);
            }
        }
        place
    }

    /// Returns the function `f` of closure `i` with new parameters: its own `args` arguments, then the captures of all
    /// closures.
    pub(super) fn with(
        &self,
        m: &mut Module,
        f: FuncId,
        args: usize,
        i: usize,
    ) -> Result<FuncId, Problem> {
        self.widened(m, f, args, i, false, |results, _| results)
    }

    /// Returns the function of [`Shared::with`] with another order of parameters: the captures of all closures, then
    /// the arguments.
    pub(crate) fn led(
        &self,
        m: &mut Module,
        f: FuncId,
        args: usize,
        i: usize,
    ) -> Result<FuncId, Problem> {
        self.widened(m, f, args, i, true, |results, _| results)
    }

    /// Returns the function of [`Shared::with`] with more results: the new values of all state that any of the closures
    /// writes are appended.
    pub(super) fn with_written_state(
        &self,
        m: &mut Module,
        f: FuncId,
        staged: &Staged,
        i: usize,
    ) -> Result<FuncId, Problem> {
        let own = staged.result_types().len();
        self.widened(m, f, staged.args.len(), i, false, |mut results, captures| {
            let last = results.split_off(own);
            let mut now = captures.to_vec();
            for (held, last) in staged.written().zip(last) {
                now[self.picks[i][held.capture]] = last;
            }
            results.extend(self.written.iter().map(|place| now[*place]));
            results
        })
    }

    fn widened(
        &self,
        m: &mut Module,
        f: FuncId,
        args: usize,
        i: usize,
        captures_lead: bool,
        results: impl FnOnce(Vec<Atom>, &[Atom]) -> Vec<Atom>,
    ) -> Result<FuncId, Problem> {
        let function = m.get(f);
        let mut draft = Draft::new(function.name.clone());
        let own = function.param_types().into_iter().take(args);
        let mut types: Vec<Type> = own.chain(self.types.iter().cloned()).collect();
        if captures_lead {
            types.rotate_left(args);
        }
        let mut params: Vec<Atom> = types.into_iter().map(|ty| draft.param(ty)).collect();
        if captures_lead {
            params.rotate_right(args);
        }
        let (own, captures) = params.split_at(args);
        let picked = self.picks[i].iter().map(|i| captures[*i]);
        let all: Vec<Atom> = own.iter().copied().chain(picked).collect();
        let found = Builder::new(m, &mut draft).inline(f, &all);
        draft.finish(m, results(found, captures))
    }

    /// Removes the new values of state from the end of `results`, stores them in the state, and returns the other
    /// results.
    pub(super) fn store_state(&self, mut results: Vec<Handle>) -> Vec<Handle> {
        let own = results.len() - self.written.len().min(results.len());
        for (place, value) in self.written.iter().zip(results.split_off(own)) {
            if let Some(state) = self.states.get(place) {
                state.put(value);
            }
        }
        results
    }
}

/// Checks that the value that selects a branch, or the number of iterations, is a scalar of the given dtype. Otherwise
/// reports an error and returns false.
pub(super) fn single(transform: &str, what: &str, dtype: Dtype, v: Var, at: Loc) -> bool {
    if trace::is_poison(v.handle, at) {
        return false;
    }
    let ty = v.ty(at);
    if ty == ArrayType::new(dtype, []) {
        return true;
    }
    let message = format!("`{transform}` takes {what}, a single {dtype}, and got {ty}");
    let (kind, help) = match (ty.dtype == dtype, dtype) {
        (true, _) => {
            (Kind::Shape, "take one element of it, or map over them with `vmap`".to_owned())
        }
        (false, Dtype::Bool) => {
            (Kind::Dtype, "compare, as in `x.gt(0)`; `switch` chooses by a number".to_owned())
        }
        (false, _) => (Kind::Dtype, format!("convert it: `n.convert(Dtype::{dtype:?})`")),
    };
    trace::record(Problem::new(kind, message, help), &[v.handle], at);
    false
}
