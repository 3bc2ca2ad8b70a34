//! Merges the constants of a linear loop that are the same value into one constant.
//!
//! The cotangent of a constant is a running total, to which each iteration adds a term. Two constants that are the same
//! value would have two totals, which are added after the loop. If a plan splits the iterations into two loops, the
//! totals would be added after each of the two. The terms would be added in another order than without the split, and
//! the gradient would have other bits.
//!
//! ```text
//! %2 = loop{body=@f, trip=9, takes=[const,const,carry0]} %0, %0, %1      @f(; a, b, c) = a + b + c
//! %2 = loop{body=@f, trip=9, takes=[const,carry0]} %0, %1                @f(; a, c) = a + a + c
//! ```

use super::{Binding, Loop, Replay};
use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::prim::Op;
use crate::prim::facet::Facet;
use crate::prim::rules::region_helpers::function;

impl Op {
    /// Returns the loop and its operands with each value passed to at most one linear parameter as a constant;
    /// `None` if no value is passed to two.
    ///
    /// # Errors
    /// Never fails for a loop of a module that the verifier accepts.
    pub fn with_constants_once(
        &self,
        module: &mut Module,
        x: &[Atom],
    ) -> Result<Option<(Op, Vec<Atom>)>, Problem> {
        match self.facet() {
            Facet::Loop(of) => of.constants_once(module, x),
            Facet::Replay(of) => of.constants_once(module, x),
            Facet::Plain
            | Facet::Elementwise { .. }
            | Facet::Box(_)
            | Facet::Barrier(_)
            | Facet::Call(_)
            | Facet::ByColumns
            | Facet::Constant
            | Facet::Host(_) => Ok(None),
        }
    }
}

impl Loop {
    fn constants_once(
        &self,
        module: &mut Module,
        x: &[Atom],
    ) -> Result<Option<(Op, Vec<Atom>)>, Problem> {
        let known = module.function(self.body).params.len();
        let (_, linear) = self.spec.takes.split_at(known);
        let Some(first) = x.len().checked_sub(linear.len()) else { return Ok(None) };
        let Some(same) = FirstUses::of(linear, &x[first..]) else { return Ok(None) };
        let mut of = self.clone();
        of.body = same.merged(module, self.body, known)?;
        of.spec.takes = same.without_repeats(&self.spec.takes, known);
        Ok(Some((of.into(), same.without_repeats(x, first))))
    }
}

impl Replay {
    fn constants_once(
        &self,
        module: &mut Module,
        x: &[Atom],
    ) -> Result<Option<(Op, Vec<Atom>)>, Problem> {
        let known = module.function(self.step).params.len();
        let (_, linear) = self.spec.takes.split_at(known);
        let Some(first) = x.len().checked_sub(linear.len()) else { return Ok(None) };
        let Some(same) = FirstUses::of(linear, &x[first..]) else { return Ok(None) };
        let mut of = self.clone();
        of.lin = same.merged(module, self.lin, known)?;
        of.ahead = same.merged(module, self.ahead, first)?;
        of.spec.takes = same.without_repeats(&self.spec.takes, known);
        Ok(Some((of.into(), same.without_repeats(x, first))))
    }
}

/// For each linear parameter of a loop's body, the position of the first linear parameter to which the loop passes the
/// same loop-invariant value. If no earlier parameter takes that value, the entry is the parameter's own position.
struct FirstUses(Vec<usize>);

impl FirstUses {
    /// Compares the operands `x` of the linear parameters, whose slots (sources) are `slots`. Returns `None` if no
    /// parameter repeats another one.
    fn of(slots: &[Binding], x: &[Atom]) -> Option<FirstUses> {
        let constant = |q: usize| slots[q] == Binding::Const && x[q].value().is_some();
        let first = |q: usize| (0..q).find(|p| constant(*p) && constant(q) && x[*p] == x[q]);
        let same: Vec<usize> = (0..slots.len()).map(|q| first(q).unwrap_or(q)).collect();
        same.iter().enumerate().any(|(q, p)| *p != q).then_some(FirstUses(same))
    }

    /// Returns `all` without the entries of repeated parameters. The entries before position `first` belong to no
    /// linear parameter and stay.
    fn without_repeats<T: Clone>(&self, all: &[T], first: usize) -> Vec<T> {
        let repeats = |i: usize| i.checked_sub(first).is_some_and(|q| self.0[q] != q);
        let kept = all.iter().enumerate().filter(|(i, _)| !repeats(*i));
        kept.map(|(_, of)| of.clone()).collect()
    }

    /// Returns `f` without its repeated parameters. Its parameters from position `first` on are the loop's linear
    /// ones.
    fn merged(&self, module: &mut Module, f: FuncId, first: usize) -> Result<FuncId, Problem> {
        let of = module.get(f);
        let (types, plain) = (of.param_types(), of.params.len());
        let kept = self.without_repeats(&types, first);
        // `params` are the ordinary parameters that remain, and `linear` the linear ones. If `f` has linear parameters,
        // all removed parameters are among them.
        let (params, linear) = kept.split_at(plain.min(kept.len()));
        function(module, &of.name, [params, linear], |b, p, dp| {
            let given = [p, dp].concat();
            let place = |q: &usize| first + (0..*q).filter(|p| self.0[*p] == *p).count();
            let args: Vec<Atom> = given[..first]
                .iter()
                .copied()
                .chain(self.0.iter().map(|q| given[place(q)]))
                .collect();
            b.inline(f, &args)
        })
    }
}
