//! What several closures use from outside: functions that run in each other's place, or on each other's
//! values, take what any of them uses.

use tapeloom_ir::trace::{self, Handle};
use tapeloom_ir::{Atom, Builder, Draft, FuncId, Loc, Module, Problem, Type};

/// The captures of several closures, each once.
pub(super) struct Shared {
    pub(super) captures: Vec<Handle>,
    types: Vec<Type>,
    /// For each closure, which of those its own are.
    picks: Vec<Vec<usize>>,
}

impl Shared {
    pub(super) fn of(closures: &[&[Handle]], at: Loc) -> Shared {
        let mut captures: Vec<Handle> = Vec::new();
        let mut place = |h: &Handle| {
            captures.iter().position(|known| known.is_same(*h)).unwrap_or_else(|| {
                captures.push(*h);
                captures.len() - 1
            })
        };
        let picks = closures.iter().map(|own| own.iter().map(&mut place).collect()).collect();
        let types = captures.iter().map(|h| trace::type_of(*h, at)).collect();
        Shared { captures, types, picks }
    }

    /// The function of the n-th closure, which has so many arguments, taking all captures behind them.
    pub(super) fn with(
        &self,
        m: &mut Module,
        f: FuncId,
        args: usize,
        n: usize,
    ) -> Result<FuncId, Problem> {
        let function = m.get(f);
        let mut draft = Draft::new(function.name.clone());
        let params =
            function.param_types().into_iter().take(args).chain(self.types.iter().cloned());
        let params: Vec<Atom> = params.map(|ty| draft.param(ty)).collect();
        let (own, captures) = params.split_at(args);
        let picked = self.picks[n].iter().map(|i| captures[*i]);
        let all: Vec<Atom> = own.iter().copied().chain(picked).collect();
        let results = Builder::new(m, &mut draft).inline(f, &all);
        draft.finish(m, results)
    }
}
