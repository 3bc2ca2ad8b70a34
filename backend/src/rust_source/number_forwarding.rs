//! Replaces loads of numbers that are stored only once by the stored scalars. Also removes stores of a value that the
//! number already has.

use super::declarations::{is_local, is_number};
use crate::loop_ir::{Arg, BufferId, Carry, Expr, Kernel, Rewriter, ScalarId, Stmt, VarId, visit};
use std::collections::{BTreeMap, BTreeSet};
use tapeloom_ir::{Code, Literal};

/// Removes the stores of numbers to buffers that already hold the same number.
pub(super) fn drop_identities(kernel: &mut Kernel) {
    kernel.rewrite(|kernel, body| identities(kernel, body, &mut BTreeMap::new()));
}

/// Removes, in a block, the stores of numbers that their buffers already hold. `equal` has the scalars that are, at the
/// current statement, equal to the number in a buffer.
fn identities(kernel: &Kernel, body: &mut Vec<Stmt>, equal: &mut BTreeMap<ScalarId, BufferId>) {
    body.retain_mut(|stmt| {
        match stmt {
            Stmt::Let { value, expr: Expr::Load { held, guard: None, .. } }
                if is_number(kernel, held.buffer) =>
            {
                equal.insert(*value, held.buffer);
            }
            Stmt::Store { held, value, guard, .. } if is_number(kernel, held.buffer) => {
                if let Arg::Scalar(value) = value
                    && equal.get(value) == Some(&held.buffer)
                {
                    return false;
                }
                equal.retain(|_, buffer| *buffer != held.buffer);
                if let (Arg::Scalar(value), None) = (value, guard) {
                    equal.insert(*value, held.buffer);
                }
            }
            Stmt::Nest { body, .. } => identities(kernel, body, equal),
            _ => {
                let mut written = BTreeSet::new();
                visit(std::slice::from_ref(stmt), &mut |stmt| {
                    stmt.accesses(&mut |access| {
                        if access.write {
                            written.insert(access.held.buffer);
                        }
                    });
                    for Carry { input, output } in stmt.carries() {
                        written.extend([input.buffer, output.buffer]);
                    }
                });
                // At the start of a branch, the numbers known before it are still known. At the start of an iteration,
                // the numbers that the loop writes are not.
                let is_loop = stmt.shape().flow.is_loop();
                let before = equal.clone();
                equal.retain(|_, buffer| !written.contains(buffer));
                for inside in stmt.blocks_mut() {
                    let mut known = if is_loop { equal.clone() } else { before.clone() };
                    identities(kernel, inside, &mut known);
                }
            }
        }
        true
    });
}

/// Replaces loads of numbers by the stored operands, if the number is stored once and the operand is in scope at the
/// load. Replaces powers with the exponent 0 by 1. Nests have no scope of their own in Rust.
pub(super) fn forward_numbers(kernel: &mut Kernel) {
    let mut found = Found::default();
    let candidates: BTreeSet<BufferId> = {
        let mut stores: BTreeMap<BufferId, usize> = BTreeMap::new();
        let mut others: BTreeSet<BufferId> = BTreeSet::new();
        visit(&kernel.body, &mut |stmt| match stmt {
            Stmt::Store { held, guard: None, .. } => *stores.entry(held.buffer).or_default() += 1,
            Stmt::Let { expr: Expr::Load { guard: None, .. }, .. } => {}
            _ => stmt.buffers(&mut |b| _ = others.insert(b)),
        });
        let once =
            stores.into_iter().filter(|(b, n)| *n == 1 && !others.contains(b)).map(|(b, _)| b);
        once.filter(|b| is_local(kernel, *b) && is_number(kernel, *b)).collect()
    };
    found.block(&kernel.body, &candidates, &mut BTreeMap::new(), &mut BTreeMap::new());
    let Found { mut loads, reached, .. } = found;
    // If any load of a number is outside of the scope of its store, all loads of this number stay.
    loads.retain(|_, (buffer, _)| reached.get(buffer).is_some_and(|known| *known));
    let mut operands: BTreeMap<ScalarId, Arg> =
        loads.iter().map(|(value, (_, arg))| (*value, *arg)).collect();
    // A power with the exponent 0 is printed as the number 1, without its operand.
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::Let { value, expr: Expr::Code(Code::IntegerPow(0), _) } = stmt {
            operands.insert(*value, Arg::Literal(Literal::one(kernel.scalars[*value])));
        }
    });
    kernel.rewrite(|_, body| *body = Replaced(&operands).block(body));
}

#[derive(Default)]
struct Found {
    /// For each loaded scalar: the buffer from which it is loaded, and the operand that was stored in this buffer.
    loads: BTreeMap<ScalarId, (BufferId, Arg)>,
    /// For each buffer: whether all loads of the buffer are in the scope of its store.
    reached: BTreeMap<BufferId, bool>,
}

impl Found {
    /// Collects the loads and stores in a block. `stored` has the values that the candidates hold at the current
    /// statement, by stores in this block and the blocks around it; `declared` has the variables that are declared in
    /// this block.
    fn block(
        &mut self,
        block: &[Stmt],
        candidates: &BTreeSet<BufferId>,
        stored: &mut BTreeMap<BufferId, Arg>,
        declared: &mut BTreeMap<VarId, ()>,
    ) {
        for stmt in block {
            match stmt {
                Stmt::Nest { body, .. } => self.block(body, candidates, stored, declared),
                Stmt::Var { var, .. } => _ = declared.insert(*var, ()),
                Stmt::Set { var, .. } | Stmt::Fold { var, .. } => self.assigned(*var, stored),
                Stmt::Store { held, value, .. } if candidates.contains(&held.buffer) => {
                    let in_scope = match value {
                        Arg::Var(var) => declared.contains_key(var),
                        Arg::Scalar(_) | Arg::Index(_) | Arg::Literal(_) => true,
                    };
                    self.reached.entry(held.buffer).or_insert(true);
                    if in_scope {
                        stored.insert(held.buffer, *value);
                    } else {
                        self.reached.insert(held.buffer, false);
                    }
                }
                Stmt::Let { value, expr: Expr::Load { held, .. } }
                    if candidates.contains(&held.buffer) =>
                {
                    match stored.get(&held.buffer) {
                        Some(arg) => _ = self.loads.insert(*value, (held.buffer, *arg)),
                        None => _ = self.reached.insert(held.buffer, false),
                    }
                }
                _ => {
                    // An inner block may assign a variable after its value was stored in a buffer. So the buffer must
                    // not be replaced by this variable.
                    let mut assigned = BTreeSet::new();
                    for inside in stmt.blocks() {
                        visit(inside, &mut |s| assigned.extend(s.assigned().map(|(var, _)| var)));
                    }
                    for var in assigned {
                        self.assigned(var, stored);
                    }
                    for inside in stmt.blocks() {
                        // Definitions in the head of a `while` are in the scope of its body, so the same maps are used
                        // for both.
                        let (mut stored, mut declared) = (stored.clone(), BTreeMap::new());
                        self.block(inside, candidates, &mut stored, &mut declared);
                    }
                }
            }
        }
    }

    fn assigned(&mut self, var: VarId, stored: &mut BTreeMap<BufferId, Arg>) {
        let stale: Vec<BufferId> =
            stored.iter().filter(|(_, arg)| **arg == Arg::Var(var)).map(|(b, _)| *b).collect();
        for buffer in stale {
            stored.remove(&buffer);
            self.reached.insert(buffer, false);
        }
    }
}

/// A rewriter that replaces scalars by other operands, and removes the definitions of the replaced scalars.
struct Replaced<'a>(&'a BTreeMap<ScalarId, Arg>);

impl Rewriter for Replaced<'_> {
    fn arg(&mut self, mut arg: Arg) -> Arg {
        while let Arg::Scalar(value) = arg
            && let Some(next) = self.0.get(&value)
        {
            arg = *next;
        }
        arg
    }

    fn block(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let is_left =
            |stmt: &&Stmt| stmt.defined().is_none_or(|value| !self.0.contains_key(&value));
        let left: Vec<&Stmt> = body.iter().filter(is_left).collect();
        left.into_iter().map(|stmt| self.stmt(stmt)).collect()
    }
}
