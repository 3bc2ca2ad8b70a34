//! Blocks under construction: the definitions of scalars and the known facts about them.
//!
//! A scalar is defined in the outermost block in which its operands are defined, so loop-invariant code is computed
//! before the loop. Code on constants is evaluated at compile time, and an element that a block has already computed is
//! reused.

use super::fusion_state::{FusionState, Key, ScalarInfo};
use crate::loop_ir::{Arg, VarId};
use crate::lower::graph::NodeId;
use crate::lower::trees::affine::{Affine, Index, Term};
use crate::lower::trees::loop_tree::{Def, Tree};
use smallvec::SmallVec;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::prim::{Given, Sign};
use tapeloom_ir::{Code, Dtype, Literal};

impl FusionState<'_> {
    pub(crate) fn push(&mut self, tree: Tree) {
        if let Some(block) = self.blocks.last_mut() {
            block.code.push(tree);
        }
    }

    pub(crate) fn var(&mut self, dtype: Dtype, init: Literal) -> VarId {
        let var = self.vars.push(dtype);
        self.var_levels[var] = self.blocks.len() - 1;
        self.var_nodes[var] = self.computing;
        self.push(Tree::Var { var, init: Arg::Literal(init) });
        var
    }

    /// Returns the level of the block in which an argument is defined; 0 is the outermost.
    pub(crate) fn level(&self, arg: Arg) -> usize {
        match arg {
            Arg::Scalar(s) => self.scalars[s].level,
            Arg::Var(v) => self.var_levels[v],
            Arg::Index(i) => self.indices[i].1,
            Arg::Literal(_) => 0,
        }
    }

    pub(crate) fn dtype(&self, arg: Arg) -> Dtype {
        match arg {
            Arg::Scalar(s) => self.scalars[s].dtype,
            Arg::Var(v) => self.vars[v],
            Arg::Index(_) => Dtype::I64,
            Arg::Literal(l) => l.dtype,
        }
    }

    /// Returns the range of values of a loop index or i64 scalar.
    pub(crate) fn range_of(&self, term: Term) -> Interval {
        match term {
            Term::Index(i) => Interval::below(self.indices[i].0),
            Term::Scalar(s) => self.scalars[s].range.unwrap_or(Interval::of(Dtype::I64)),
        }
    }

    pub(crate) fn range(&self, a: &Affine) -> Interval {
        a.interval(|t| self.range_of(t))
    }

    pub(crate) fn let_at(&mut self, level: usize, dtype: Dtype, expr: Def) -> Arg {
        let sign = self.sign_of(dtype, &expr);
        let value =
            self.scalars.push(ScalarInfo { dtype, level, range: None, sign, node: self.computing });
        self.blocks[level].code.push(Tree::Let { value, expr });
        Arg::Scalar(value)
    }

    /// Returns the known sign of an argument of scalar code.
    pub(crate) fn sign(&self, arg: Arg) -> Sign {
        match arg {
            Arg::Scalar(s) => self.scalars[s].sign,
            Arg::Literal(l) => Sign::of(l),
            Arg::Var(_) | Arg::Index(_) => Sign::of_dtype(self.dtype(arg)),
        }
    }

    fn sign_of(&self, dtype: Dtype, value: &Def) -> Sign {
        let Def::Code(code, args) = value else { return Sign::of_dtype(dtype) };
        let given = args.iter().map(|a| {
            let value = if let Arg::Literal(l) = a { Some(*l) } else { None };
            Given { dtype: self.dtype(*a), sign: self.sign(*a), value }
        });
        let given: SmallVec<[Given; 3]> = given.collect();
        code.sign(&given, args.windows(2).all(|w| w[0] == w[1]))
    }

    /// Emits scalar code, in the outermost block in which its operands are defined, and returns its result. Code on
    /// constants is evaluated at compile time, and operations that do not change any bit are omitted.
    pub(crate) fn code(&mut self, code: Code, args: &[Arg]) -> Arg {
        let constants: Option<SmallVec<[Literal; 3]>> = args
            .iter()
            .map(|a| match a {
                Arg::Literal(l) => Some(*l),
                Arg::Scalar(_) | Arg::Var(_) | Arg::Index(_) => None,
            })
            .collect();
        if let Some(constants) = constants {
            return Arg::Literal(code.eval(&constants));
        }
        if let Some(same) = self.unchanged(code, args) {
            return same;
        }
        let level = args.iter().map(|a| self.level(*a)).max().unwrap_or(0);
        let dtype = args.last().map_or(Dtype::Bool, |a| code.result(self.dtype(*a)));
        self.let_at(level, dtype, Def::Code(code, SmallVec::from_slice(args)))
    }

    fn unchanged(&self, code: Code, args: &[Arg]) -> Option<Arg> {
        let truth = |a: Arg| match a {
            Arg::Literal(l) if l.dtype == Dtype::Bool => Some(l.bits != 0),
            _ => None,
        };
        let integer = |a: Arg| !self.dtype(a).is_float();
        match (code, args) {
            (Code::Select, [c, x, y]) => truth(*c).map(|c| if c { *x } else { *y }),
            (Code::Convert(to), [x]) if self.dtype(*x) == to => Some(*x),
            (Code::Mul, [x, Arg::Literal(l)] | [Arg::Literal(l), x]) if l.is_one() => Some(*x),
            (Code::Add, [x, Arg::Literal(l)] | [Arg::Literal(l), x])
                if l.is_zero() && (integer(*x) || l.bits != 0) =>
            {
                Some(*x)
            }
            (Code::Sub, [x, Arg::Literal(l)]) if l.is_zero() && l.bits == 0 => Some(*x),
            (Code::And, [x, y] | [y, x]) if truth(*x) == Some(true) => Some(*y),
            (Code::Or, [x, y] | [y, x]) if truth(*x) == Some(false) => Some(*y),
            _ => None,
        }
    }

    pub(crate) fn lookup_scalar(
        &self,
        node: NodeId,
        index: &Index,
        guard: Option<Arg>,
    ) -> Option<Arg> {
        let plain = (node, index.clone(), None);
        let find = |key: &Key| self.blocks.iter().rev().find_map(|b| b.memo.get(key)).copied();
        if let Some(found) = find(&plain) {
            return Some(found);
        }
        for (pattern, value) in self.blocks.iter().filter_map(|b| b.uniform.get(&node)) {
            if pattern.iter().zip(index).all(|(p, i)| p.as_ref().is_none_or(|p| p == i)) {
                return Some(*value);
            }
        }
        match guard {
            Some(Arg::Scalar(g)) => find(&(plain.0, plain.1, Some(g))),
            _ => None,
        }
    }

    pub(crate) fn store_scalar(
        &mut self,
        node: NodeId,
        index: &Index,
        guard: Option<Arg>,
        value: Arg,
    ) {
        let guard = match guard {
            Some(Arg::Scalar(g)) => Some(g),
            Some(_) => return,
            None => None,
        };
        let level = self.level(value).max(guard.map_or(0, |g| self.scalars[g].level));
        self.blocks[level].memo.insert((node, index.clone(), guard), value);
    }
}
