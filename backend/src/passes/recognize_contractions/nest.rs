//! Nests of two loops: finds the products and sums that they compute.

use crate::loop_ir::shape::Loop;
use crate::loop_ir::{Address, Arg, BufferVersion, Expr, Kernel, ScalarId, Stmt, VarId};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::Code;

/// An element of a buffer that is loaded or stored.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Element<'a> {
    pub(super) held: BufferVersion,
    pub(super) address: &'a Address,
}

/// A loop inside a loop, with its statements sorted by their role in sums of products.
pub(super) struct Nest<'a> {
    pub(super) k: &'a Kernel,
    pub(super) outer: Loop<'a>,
    pub(super) inner: Loop<'a>,
    /// Per value that changes from iteration to iteration: the expression that defines it.
    pub(super) values: SecondaryMap<ScalarId, Option<&'a Expr>>,
    /// The statements whose values are the same in all iterations; they are moved ahead of the nest.
    pub(super) ahead: Vec<Stmt>,
    /// Variables that are 0 at the start of each outer iteration, each with the value that the inner loop adds to it.
    pub(super) sums: Vec<(VarId, Option<Arg>)>,
    /// The stores in the inner loop, each with the stored value.
    pub(super) inside: Vec<(Element<'a>, Arg)>,
    /// The stores in the outer loop after the inner loop, each with the stored value.
    pub(super) behind: Vec<(Element<'a>, Arg)>,
}

/// Returns a statement as a counted loop, if it is one that has iterations and no carries.
pub(super) fn plain(stmt: &Stmt) -> Option<Loop<'_>> {
    stmt.counted().filter(|l| l.carries.is_empty() && l.extent > 0)
}

impl<'a> Nest<'a> {
    /// Returns a statement as a nest of two loops, if it is one that contains only statements that may occur in
    /// products.
    pub(super) fn of(k: &'a Kernel, stmt: &'a Stmt) -> Option<Nest<'a>> {
        let outer = plain(stmt)?;
        let inner = outer.body.iter().find_map(plain)?;
        let values = SecondaryMap::new();
        let (ahead, sums, inside, behind) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut nest = Nest { k, outer, inner, values, ahead, sums, inside, behind };
        let mut entered = false;
        for stmt in outer.body {
            match stmt {
                Stmt::Let { value, expr } => nest.define(*value, expr, stmt)?,
                Stmt::Var { var, init } if is_zero(*init) && !entered => {
                    nest.sums.push((*var, None));
                }
                Stmt::Store { held, address, value, guard: None } if entered => {
                    nest.behind.push((Element { held: *held, address }, *value));
                }
                Stmt::For { .. } if !entered => {
                    entered = true;
                    nest.iterations()?;
                }
                _ => return None,
            }
        }
        Some(nest)
    }

    /// Sorts the statements of the inner loop by their role; returns `None` if one of them may not occur in products.
    fn iterations(&mut self) -> Option<()> {
        for stmt in self.inner.body {
            match stmt {
                Stmt::Let { value, expr } => self.define(*value, expr, stmt)?,
                Stmt::Fold { var, code: Code::Add, value } => {
                    let sum = self.sums.iter_mut().find(|(v, term)| v == var && term.is_none())?;
                    sum.1 = Some(*value);
                }
                Stmt::Store { held, address, value, guard: None } => {
                    self.inside.push((Element { held: *held, address }, *value));
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// Records the definition of a value. If no iteration changes the value, its definition moves ahead of the
    /// nest.
    fn define(&mut self, value: ScalarId, expr: &'a Expr, stmt: &Stmt) -> Option<()> {
        match expr {
            Expr::Load { guard: Some(_), .. } => return None,
            Expr::Code(_, args) if !args.iter().any(|a| self.changes(*a)) => {
                self.ahead.push(stmt.clone());
                return Some(());
            }
            Expr::Load { .. } | Expr::Code(..) => {}
        }
        self.values[value] = Some(expr);
        Some(())
    }

    fn changes(&self, arg: Arg) -> bool {
        match arg {
            Arg::Scalar(s) => self.values[s].is_some(),
            Arg::Index(i) => i == self.outer.index || i == self.inner.index,
            // A variable may be set between two iterations, so its value varies.
            Arg::Var(_) => true,
            Arg::Literal(_) => false,
        }
    }

    pub(super) fn loaded(&self, arg: Arg) -> Option<Element<'a>> {
        let Arg::Scalar(s) = arg else { return None };
        match self.values[s]? {
            Expr::Load { held, address, guard: None } => Some(Element { held: *held, address }),
            Expr::Load { .. } | Expr::Code(..) => None,
        }
    }

    /// If a value is computed by a code for which `is` holds, returns the two operands; otherwise `None`.
    fn computed(&self, arg: Arg, is: fn(&Code) -> bool) -> Option<[Arg; 2]> {
        let Arg::Scalar(s) = arg else { return None };
        match self.values[s]? {
            Expr::Code(code, args) if is(code) => <[Arg; 2]>::try_from(args.as_slice()).ok(),
            Expr::Load { .. } | Expr::Code(..) => None,
        }
    }

    /// Returns the pairs of factors in a sum of products (`x0 y0 + x1 y1 + ..`), and whether the constant 0 is added to
    /// the sum.
    pub(super) fn terms(&self, arg: Arg) -> Option<(Vec<[Element<'a>; 2]>, bool)> {
        let sum = |arg| self.computed(arg, |c| matches!(c, Code::Add));
        let product = |arg| {
            let [x, y] = self.computed(arg, |c| matches!(c, Code::Mul))?;
            Some([self.loaded(x)?, self.loaded(y)?])
        };
        let (mut arg, started) = match sum(arg) {
            Some([x, zero] | [zero, x]) if is_zero(zero) => (x, true),
            _ => (arg, false),
        };
        let mut terms = Vec::new();
        while let Some([before, last]) = sum(arg) {
            terms.push(product(last)?);
            arg = before;
        }
        terms.push(product(arg)?);
        terms.reverse();
        Some((terms, started))
    }

    /// If a value is a single product, returns its two factors.
    pub(super) fn term(&self, arg: Arg) -> Option<[Element<'a>; 2]> {
        <[_; 1]>::try_from(self.terms(arg)?.0).ok().map(|[term]| term)
    }

    /// If `value` is the stored element `to` plus another value, returns the other value.
    pub(super) fn added(&self, to: Element<'a>, value: Arg) -> Option<Arg> {
        let [x, y] = self.computed(value, |c| matches!(c, Code::Add))?;
        match (self.loaded(x), self.loaded(y)) {
            (Some(before), _) if before == to => Some(y),
            (_, Some(before)) if before == to => Some(x),
            _ => None,
        }
    }

    /// Returns the strides of an element along the outer and the inner loop.
    pub(super) fn strides(&self, e: Element<'_>) -> [i64; 2] {
        [e.address.stride(self.outer.index), e.address.stride(self.inner.index)]
    }
}

pub(super) fn is_zero(arg: Arg) -> bool {
    matches!(arg, Arg::Literal(zero) if zero.bits == 0)
}
