//! Index simplification: clamps, guards and branches are removed if value ranges decide them.
//!
//! Reads at data-dependent indices take the nearest element, so lowering clamps indices; accesses that may be out of
//! bounds get a guard (a condition of the load or store). In loops, most indices are sums of counters, whose range is
//! known (`loop_ir/analysis/value_range.rs`). Then a clamp equals its operand, a guard is constant, a branch always
//! takes the same side, and the address is the sum itself. From such addresses, later passes see whether iterations
//! conflict, and load adjacent elements as vectors.
//!
//! ```text
//! serial i0 in 100 {                            for i0 in 100 {
//!   %0: i64 = add i0, 1
//!   %1: i64 = max %0, 0
//!   %2: i64 = min %1, 100
//!   %3: f64 = load b0[(%2)]              ->       %3: f64 = load b0[i0 + 1]
//!   store b1[i0], %3                              store b1[i0], %3
//! }                                             }
//! ```
//!
//! If arrays are concatenated, an element is loaded from each of the arrays under a guard. A guard may allow only one
//! value of the scalar in the address; then the address becomes a sum of counters. For example,
//! `load b0[i0 + -8 + (%1)] if %2` becomes `load b0[i0] if %2`, if `%2` is true only when `%1` is 8.
//!
//! A comparison of such a sum with a constant becomes a comparison of the counter, at which the loop can be split
//! ([`super::index_set_split`]). Known values of variables are propagated, so that iterations that set a variable
//! before they read it become independent.
//!
//! The verifier proves again, from the simplified address, that each access is in bounds.

use super::index_set_split::moves_cursor;
use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::analysis::constants::fold;
use crate::loop_ir::analysis::value_range::ValueRanges;
use crate::loop_ir::dead_code::drop_dead;
use crate::loop_ir::{
    Address, Arg, BufferVersion, Expr, Extent, Kernel, Rewriter, ScalarId, Stmt, VarId,
    infer_parallelism, visit,
};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{Code, Literal, OrderedMap};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "simplify_indices",
    about: "clamps, guards, branches and comparisons are decided where value ranges allow, and addresses become sums of counters",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, _| simplify_indices(kernel)),
};

/// Simplifies the indices of a kernel. Returns whether that changed the kernel.
fn simplify_indices(kernel: &mut Kernel) -> bool {
    let body = std::mem::take(&mut kernel.body);
    let (ranges, vars) = (ValueRanges::of(kernel), OrderedMap::default());
    let mut straight = Simplifier { kernel, ranges, vars, changed: false };
    let mut new = straight.block(&body);
    let changed = straight.changed;
    if changed {
        drop_dead(&mut new);
        kernel.body = new;
        infer_parallelism(kernel);
    } else {
        kernel.body = body;
    }
    changed
}

/// A rewriter that removes computations whose value is known.
struct Simplifier<'a> {
    kernel: &'a Kernel,
    ranges: ValueRanges<'a>,
    /// The known values of variables at this point.
    vars: OrderedMap<VarId, Arg>,
    changed: bool,
}

impl<'a> Simplifier<'a> {
    fn block(&mut self, body: &'a [Stmt]) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(body.len());
        self.append(body, &mut out);
        // Scalars of the block are out of scope after it, so forget the known values of variables that the block
        // assigned.
        self.invalidate(body);
        out
    }

    /// Removes the known values of variables that a block assigns.
    fn invalidate(&mut self, body: &[Stmt]) {
        visit(body, &mut |stmt| {
            if let Some((var, _)) = stmt.assigned() {
                self.vars.swap_remove(&var);
            }
        });
    }

    /// Rewrites statements. Each statement must be given to `ValueRanges` in program order, as the verifier does,
    /// because the facts about ranges depend on the order.
    fn append(&mut self, body: &'a [Stmt], out: &mut Vec<Stmt>) {
        for stmt in body {
            match stmt {
                Stmt::Nest { body, origins } => {
                    out.push(Stmt::Nest { body: self.block(body), origins: origins.clone() });
                }
                Stmt::For { index, extent, parallelism, lanes, carries, body, origins } => {
                    let (index, parallelism, lanes) = (*index, *parallelism, *lanes);
                    self.ranges.count(index, *extent);
                    let extent = match extent {
                        Extent::Constant(n) => Extent::Constant(*n),
                        Extent::Scalar(a) => Extent::Scalar(self.arg(*a)),
                    };
                    self.ranges.invalidate_all(body);
                    self.invalidate(body);
                    let inside = self.block(body);
                    self.ranges.invalidate_all(body);
                    let carries = carries.clone();
                    out.push(Stmt::For {
                        index,
                        extent,
                        parallelism,
                        lanes,
                        carries,
                        body: inside,
                        origins: origins.clone(),
                    });
                }
                Stmt::While { head, condition, carries, body, origins } => {
                    let all = |ranges: &mut ValueRanges<'a>| {
                        ranges.invalidate_all(head);
                        ranges.invalidate_all(body);
                    };
                    all(&mut self.ranges);
                    self.invalidate(head);
                    self.invalidate(body);
                    let mut again = Vec::with_capacity(head.len());
                    self.append(head, &mut again);
                    self.ranges.facts.push((*condition, true));
                    let inside = self.block(body);
                    self.ranges.facts.pop();
                    all(&mut self.ranges);
                    self.invalidate(head);
                    let (condition, carries) = (self.arg(*condition), carries.clone());
                    let (head, body, origins) = (again, inside, origins.clone());
                    out.push(Stmt::While { head, condition, carries, body, origins });
                }
                Stmt::If { condition, then, otherwise, origins } => match self.arg(*condition) {
                    Arg::Literal(holds) => {
                        self.changed = true;
                        let side = if holds.bits != 0 { then } else { otherwise };
                        if moves_cursor(side) {
                            // Keep the side as a nest: a tape cursor (a position on a dynamic tape) may move only once
                            // in a block, and a neighbouring branch may move it, too.
                            let body = self.block(side);
                            out.push(Stmt::Nest { body, origins: origins.clone() });
                        } else {
                            self.append(side, out);
                        }
                    }
                    mapped => {
                        let before = self.vars.clone();
                        let mut side = |body: &'a [Stmt], holds| {
                            self.vars.clone_from(&before);
                            self.ranges.facts.push((*condition, holds));
                            let inside = self.block(body);
                            self.ranges.facts.pop();
                            self.ranges.invalidate_all(body);
                            inside
                        };
                        let sides = (side(then, true), side(otherwise, false));
                        self.invalidate(then);
                        let (then, otherwise) = sides;
                        let (condition, origins) = (mapped, origins.clone());
                        out.push(Stmt::If { condition, then, otherwise, origins });
                    }
                },
                Stmt::Let { value, expr } => {
                    let known = self.only(*value, expr);
                    match known {
                        Some(_) => self.changed = true,
                        None => out.push(self.plain(stmt)),
                    }
                    self.ranges.same[*value] = known;
                    self.ranges.define(*value, expr);
                }
                Stmt::Var { var, init: value } | Stmt::Set { var, value } => {
                    out.push(self.stmt(stmt));
                    match self.arg(*value) {
                        Arg::Var(_) => self.vars.swap_remove(var),
                        held => self.vars.insert(*var, held),
                    };
                    self.ranges.invalidate(*var);
                }
                Stmt::Fold { var, .. } => {
                    out.push(self.stmt(stmt));
                    self.vars.swap_remove(var);
                    self.ranges.invalidate(*var);
                }
                Stmt::Store { guard, .. } => {
                    if guard.is_none_or(|g| !never(self.arg(g))) {
                        out.push(self.plain(stmt));
                    }
                }
                Stmt::Contract(_)
                | Stmt::Call(_)
                | Stmt::Tape(_)
                | Stmt::Limit(_)
                | Stmt::Lap(_)
                | Stmt::CallExternal(_) => out.push(self.stmt(stmt)),
            }
        }
    }

    /// Rewrites a load, a store or an arithmetic statement, and removes a guard that always holds. If the conditions
    /// around an access allow only one value of the scalar in its address, the address becomes a sum of counters.
    fn plain(&mut self, original: &Stmt) -> Stmt {
        let mut stmt = self.stmt(original);
        if let Stmt::Let { expr: Expr::Code(code, args), .. } = &mut stmt
            && let Some((compares, index, number)) = self.ranges.compared(*code, args)
        {
            self.changed = true;
            (*code, *args) = (compares, vec![index, number]);
        }
        if let Some(element) = stmt.shape_mut().element {
            let guard = original.shape().element.and_then(|e| e.guard);
            if let Some(dynamic) = element.address.dynamic
                && let Some(n) = self.ranges.decided(dynamic, guard)
                && let Some(offset) = element.address.offset.checked_add(n)
            {
                self.changed = true;
                (element.address.offset, element.address.dynamic) = (offset, None);
            }
            *element.guard = element.guard.filter(|g| !matches!(g, Arg::Literal(_)));
        }
        stmt
    }

    /// If a value always equals an operand or a constant, returns this operand or constant.
    fn only(&mut self, value: ScalarId, expr: &'a Expr) -> Option<Arg> {
        match expr {
            Expr::Code(code, args) => {
                let known = self.ranges.constant_or_operand(*code, args).map(|a| self.arg(a));
                let known = known.or_else(|| {
                    let args: Vec<Arg> = args.iter().map(|a| self.arg(*a)).collect();
                    if let (Code::Convert(to), [x]) = (code, args.as_slice())
                        && self.kernel.dtype(*x) == *to
                    {
                        return Some(*x);
                    }
                    let whole = |a: &Arg| !self.kernel.dtype(*a).is_float();
                    if args.iter().all(whole) || matches!(args[0], Arg::Literal(_)) {
                        fold(*code, &args)
                    } else {
                        None
                    }
                });
                // Do not return a variable, whose value may change before the use.
                known.filter(|a| !matches!(a, Arg::Var(_)))
            }
            Expr::Load { guard, .. } => {
                let zero = Literal::zero(self.kernel.scalars[value]);
                guard.filter(|g| never(self.arg(*g))).map(|_| Arg::Literal(zero))
            }
        }
    }
}

/// Returns whether an operand is the constant `false`.
fn never(guard: Arg) -> bool {
    matches!(guard, Arg::Literal(l) if l.bits == 0)
}

impl Rewriter for Simplifier<'_> {
    fn arg(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Scalar(s) => self.ranges.same[s].unwrap_or(arg),
            Arg::Var(v) => match self.vars.get(&v) {
                Some(held) => {
                    self.changed = true;
                    *held
                }
                None => arg,
            },
            Arg::Index(_) | Arg::Literal(_) => arg,
        }
    }

    fn element(&mut self, held: BufferVersion, address: &Address) -> (BufferVersion, Address) {
        if let Some(sum) = self.ranges.sum(address) {
            self.changed = true;
            return (held, sum);
        }
        (held, address.renamed(&mut |a| self.arg(a)))
    }

    /// Copies blocks as they are; [`Simplifier::append`] rewrites them.
    fn block(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        body.to_vec()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::simplify_indices;
    use crate::loop_ir::{eval, parse, verify};
    use tapeloom_ir::Tensor;

    /// Returns the program after the pass. Checks that it is valid and computes the same results.
    fn straight(body: &str) -> String {
        let text = format!(
            "program @x {{ buffer b0: f64[6] input 0 buffer b1: i64[] input 1
               buffer b2: f64[6] output 0 for i9 in 6 {{ store b2[i9], 0.5 }} {body} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        assert_eq!(verify(&program), []);
        program.kernels_mut().for_each(|kernel| _ = simplify_indices(kernel));
        assert_eq!(verify(&program), [], "{program}");
        for n in [-2_i64, 0, 3, 9] {
            let args = [Tensor::from([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), Tensor::scalar(n)];
            let before = parse(&text, &|_| None).unwrap();
            assert_eq!(eval(&program, &args).unwrap(), eval(&before, &args).unwrap(), "{program}");
        }
        program.to_string()
    }

    #[test]
    fn clamps_that_never_bite_go() {
        let text = straight(
            "serial i0 in 2 { serial i1 in 3 {
               %0: i64 = mul i0, 3 %1: i64 = add %0, i1 %2: i64 = max %1, 0 %3: i64 = min %2, 5
               %4: f64 = load b0[(%3)] store b2[(%3)], %4 } }",
        );
        assert!(text.contains("store b2[i0*3 + i1], %4"), "{text}");
        assert!(!text.contains("min") && !text.contains("serial"), "{text}");
    }

    #[test]
    fn clamps_that_may_bite_stay() {
        let text = straight(
            "serial i0 in 6 {
               %0: i64 = add i0, 1 %1: i64 = min %0, 5 %2: f64 = load b0[(%1)] store b2[i0], %2 }
             nest { %3: i64 = load b1[0] %4: i64 = max %3, 0 %5: i64 = min %4, 5
               %6: f64 = load b0[(%5)] store b2[0], %6 }",
        );
        assert!(text.contains("min %0, 5") && text.contains("min %4, 5"), "{text}");
    }

    #[test]
    fn guards_branches_and_choices_are_settled() {
        let text = straight(
            "serial i0 in 5 {
               %0: bool = ge i0, 0 %1: bool = lt i0, 5 %2: bool = and %0, %1
               %3: f64 = load b0[i0 + 1] if %2
               if %1 { store b2[i0], %3 if %2 } else { store b2[i0], -1.0 }
               %4: i64 = sub i0, 7 %5: bool = lt %4, 0 %6: i64 = select %5, i0, %4
               %7: f64 = load b0[(%6)] store b2[i0 + 1], %7 if %5 }",
        );
        for word in ["if", "select", "bool"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn conditions_decide_indices() {
        let text = straight(
            "serial i0 in 3 { %0: i64 = load b1[0] %1: i64 = clamp 0, %0, 1 %2: i64 = mul %1, 3
               %3: bool = lt %1, 1 %4: f64 = load b0[i0 + (%2)] if %3
               %5: bool = ge %1, 1 %6: f64 = load b0[i0 + (%2)] if %5
               if %5 { %7: f64 = load b0[i0 + (%2)] store b2[i0], %7 } else { store b2[i0 + (%2)], %4 }
               store b2[i0 + 3], %6 }",
        );
        for address in
            ["load b0[i0] if %3", "load b0[i0 + 3] if %5", "load b0[i0 + 3]\n", "store b2[i0], %4"]
        {
            assert!(text.contains(address), "{address}: {text}");
        }
        // The guard leaves two possible values for the index, so the clamp stays.
        let text = straight(
            "serial i0 in 2 { %0: i64 = load b1[0] %1: i64 = clamp 0, %0, 2 %2: i64 = mul %1, 2
               %3: bool = lt %1, 2 %4: f64 = load b0[i0 + (%2)] if %3 store b2[i0], %4 }",
        );
        assert!(text.contains("load b0[i0 + (%2)] if %3"), "{text}");
    }

    /// A value computed from a variable must not be replaced by the variable, which may change later.
    #[test]
    fn variables_are_not_handed_on() {
        let text = straight(
            "nest { %0: i64 = load b1[0] %1: i64 = clamp 0, %0, 2 var v0: i64 = %1
               serial i0 in 2 { %2: i64 = clamp 0, v0, 5 v0 = 4 %3: f64 = load b0[(%2)]
                 store b2[i0], %3 } }",
        );
        assert!(text.contains("clamp 0, v0, 5"), "{text}");
    }

    #[test]
    fn iterations_with_variables_of_their_own_are_independent() {
        let text = straight(
            "nest { var v0: f64 = 0.0 serial i0 in 6 { %0: f64 = load b0[i0] v0 = %0
               %1: f64 = convert{to=f64} v0 %2: bool = lt %1, 3.0
               if %2 { v0 = 7.0 } else { store b2[i0], %1 }
               %3: f64 = convert{to=f64} v0 store b2[i0], %3 } }",
        );
        assert!(
            text.contains("convert{to=f64} v0") && !text.contains("convert{to=f64} %0"),
            "{text}"
        );
        let text = straight(
            "nest { var v0: f64 = 0.0 serial i0 in 6 { %0: f64 = load b0[i0] v0 = %0
               %1: f64 = convert{to=f64} v0 store b2[i0], %1 } }",
        );
        assert!(text.contains("for i0 in 6") && text.contains("store b2[i0], %0"), "{text}");
    }

    /// A parallel loop over rows must stay parallel. It stores the first columns of a row in an inner loop and the last
    /// column after that loop, at addresses with different indices. The analysis cannot prove from such addresses that
    /// rows are independent.
    #[test]
    fn parallel_loops_stay_parallel() {
        let text = straight(
            "for i0 in 2 lanes 2 { %0: i64 = max i0, 0 %1: f64 = convert{to=f64} %0
               for i1 in 2 { store b2[i0*3 + i1], %1 } store b2[i0*3 + 2], 1.0 }",
        );
        assert!(text.contains("for i0 in 2 lanes 2") && !text.contains("max"), "{text}");
    }

    #[test]
    fn counters_are_compared() {
        let text = straight(
            "serial i0 in 6 { %0: i64 = sub 5, i0 %1: bool = gt %0, 2 %2: i64 = add i0, 2
               %3: bool = le %2, 6 %4: f64 = select %1, 3.0, 4.0 %5: f64 = select %3, %4, 5.0
               store b2[i0], %5 }",
        );
        assert!(text.contains("lt i0, 3") && text.contains("le i0, 4"), "{text}");
    }

    #[test]
    fn variables_that_nobody_reads_go() {
        let text = straight(
            "nest { var v0: i64 = 0 serial i0 in 6 { v0 = i0 %0: i64 = max i0, 0
               %1: f64 = load b0[(%0)] store b2[i0], %1 } }",
        );
        assert!(!text.contains("v0") && !text.contains("serial"), "{text}");
    }
}
