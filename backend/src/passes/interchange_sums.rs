//! Loops over the terms of a sum, inside: what was added up in memory is added up in registers.
//!
//! ```text
//! serial i0 in 25 {                          for i1 in 800 {
//!   %0: f64 = load b1[i0]                      %5: f64 = load b2[i1]
//!   for i1 in 800 {                            var v0: f64 = %5
//!     %1: f64 = load b0[i0 + i1]               serial i0 in 25 {
//!     %2: f64 = mul %0, %1             ->        %0: f64 = load b1[i0]
//!     %3: f64 = load b2[i1]                      %1: f64 = load b0[i0 + i1]
//!     %4: f64 = add %3, %2                       %2: f64 = mul %0, %1
//!     store b2[i1], %4                           %4: f64 = add v0, %2
//!   }                                            v0 = %4
//! }                                            }
//!                                              store b2[i1], v0
//!                                            }
//! ```
//!
//! A sum whose terms do not lie side by side has its loop over terms outside, and its results are loaded and stored once
//! for every term. Where terms are few and results many, that is most of the work: of a convolution with few channels,
//! of a filter along an axis. Every result still gets the same terms in the same order.
//!
//! Known to compilers as loop interchange (Allen, Kennedy, 1984) with scalar replacement (Callahan, Carr, Kennedy,
//! 1990).

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::analysis::dependence::disjoint;
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{
    Address, Arg, BufferVersion, Expr, Extent, Kernel, Parallelism, Rewriter, ScalarId, Stmt, VarId,
};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::Literal;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;

/// The pass as a row.
pub(super) const PASS: Pass = Pass {
    name: "interchange_sums",
    about: "loops over few terms, which add to many results in memory, go inside, and add in registers",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, _| kernel.rewrite(block)),
};

/// Terms at most: each has rows of its own in the arrays that are read, which would not stay in a cache.
const MOST_TERMS: usize = 64;

/// Results at most that an iteration adds to: as many variables.
const MOST_SUMS: usize = 16;

/// Iterations over results at least, which is what lanes need.
const LEAST_RESULTS: usize = 8;

fn block(kernel: &mut Kernel, body: &mut Vec<Stmt>) {
    for mut stmt in std::mem::take(body) {
        let Some(sums) = Sums::of(kernel, &stmt) else {
            stmt.blocks_mut().into_iter().for_each(|inside| block(kernel, inside));
            body.push(stmt);
            continue;
        };
        let first = body.last().and_then(|fill| sums.filled(kernel, fill));
        if first.is_some() {
            body.pop();
        }
        let interchanged = sums.interchanged(kernel, first);
        body.push(interchanged);
    }
}

/// Loops in order around independent ones, whose innermost body adds to the same elements in every iteration of the
/// former.
struct Sums<'a> {
    /// Those over terms, from the outermost, and what is computed in each of them ahead of the next.
    terms: Vec<(Loop<'a>, &'a [Stmt])>,
    /// Those over results.
    results: Vec<(Loop<'a>, &'a [Stmt])>,
    body: &'a [Stmt],
    /// The elements that are added to.
    elements: Vec<(BufferVersion, &'a Address)>,
}

impl<'a> Sums<'a> {
    fn of(kernel: &Kernel, stmt: &'a Stmt) -> Option<Sums<'a>> {
        let mut sums =
            Sums { terms: Vec::new(), results: Vec::new(), body: &[], elements: Vec::new() };
        let mut next = Some(stmt);
        while let Some(stmt) = next {
            let found = stmt.counted().filter(|l| l.carries.is_empty() && l.extent > 0)?;
            let (last, ahead) = found.body.split_last()?;
            next = (!last.blocks().is_empty()).then_some(last);
            let ahead = if next.is_some() { ahead } else { &[] };
            sums.body = found.body;
            if !ahead.iter().all(is_cheap) {
                return None;
            }
            match found.parallelism {
                Parallelism::Serial if sums.results.is_empty() => sums.terms.push((found, ahead)),
                Parallelism::Parallel => sums.results.push((found, ahead)),
                Parallelism::Serial | Parallelism::Fold => return None,
            }
        }
        let worth =
            iterations(&sums.terms) <= MOST_TERMS && iterations(&sums.results) >= LEAST_RESULTS;
        (worth && !sums.terms.is_empty() && sums.adds(kernel)).then_some(sums)
    }

    /// Which of the elements it is.
    fn place(&self, held: BufferVersion, address: &Address) -> Option<usize> {
        self.elements.iter().position(|(h, a)| *h == held && *a == address)
    }

    /// Whether nothing happens but that elements are added to, each in one place.
    fn adds(&mut self, kernel: &Kernel) -> bool {
        for stmt in self.body {
            if let Stmt::Store { held, address, guard, .. } = stmt {
                let moves = self.terms.iter().any(|(l, _)| address.stride(l.index) != 0);
                let twice = self.elements.iter().any(|(h, a)| {
                    h.buffer == held.buffer
                        && (a.terms != address.terms || a.offset == address.offset)
                });
                let moves = moves && !planted(Fault::InterchangedStores);
                if moves || twice || address.dynamic.is_some() || guard.is_some() {
                    return false;
                }
                self.elements.push((*held, address));
            }
        }
        let mut loaded = vec![false; self.elements.len()];
        let mut stored = vec![false; self.elements.len()];
        // Values that are elements as they were before the iteration.
        let mut before: SecondaryMap<ScalarId, Option<usize>> = SecondaryMap::new();
        let ahead = self.terms.iter().chain(&self.results).flat_map(|(_, ahead)| *ahead);
        for stmt in ahead.chain(self.body) {
            // The variable holds another value by then.
            let mut late = false;
            stmt.args(&mut |arg| {
                late |= matches!(arg, Arg::Scalar(s) if before[s].is_some_and(|e| stored[e]));
            });
            if late {
                return false;
            }
            match stmt {
                Stmt::Let { value, expr: Expr::Load { held, address, guard } } => {
                    if self.elements.iter().all(|(h, _)| disjoint(kernel, h.buffer, held.buffer)) {
                        continue;
                    }
                    let Some(e) = self.place(*held, address) else { return false };
                    if guard.is_some() || stored[e] {
                        return false;
                    }
                    (before[*value], loaded[e]) = (Some(e), true);
                }
                Stmt::Let { expr: Expr::Code(..), .. } => {}
                Stmt::Store { held, address, .. } => {
                    let Some(e) = self.place(*held, address) else { return false };
                    stored[e] = true;
                }
                _ => return false,
            }
        }
        let apart = |i: usize| {
            let (held, _) = self.elements[i];
            self.elements[..i].iter().all(|(h, _)| {
                h == &held || (h.buffer != held.buffer && disjoint(kernel, h.buffer, held.buffer))
            })
        };
        (1..=MOST_SUMS).contains(&loaded.len())
            && loaded.iter().all(|l| *l)
            && (0..self.elements.len()).all(apart)
    }

    /// What every element begins with, if the statement before stores just that, and in no other ones.
    fn filled(&self, kernel: &Kernel, fill: &Stmt) -> Option<Literal> {
        let fill = fill.counted().filter(|l| l.carries.is_empty())?;
        let [Stmt::Store { held, address, value: Arg::Literal(first), guard: None }] = fill.body
        else {
            return None;
        };
        let whole = kernel.buffers[held.buffer].ty.shape.elements();
        let every = *address == Address { offset: 0, terms: vec![(fill.index, 1)], dynamic: None };
        let results = iterations(&self.results).saturating_mul(self.elements.len());
        let these = self.elements.iter().all(|(h, _)| h == held);
        // No two iterations store in one element, so as many as there are are all of them.
        (every && these && fill.extent == whole && results == whole).then_some(*first)
    }

    /// The loops over terms in those over results.
    fn interchanged(&self, kernel: &mut Kernel, first: Option<Literal>) -> Stmt {
        let mut inner = InRegisters { elements: Vec::new(), values: SecondaryMap::new() };
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        for (held, address) in &self.elements {
            let dtype = kernel.buffers[held.buffer].ty.dtype;
            let var = kernel.vars.push(dtype);
            let (held, address) = (*held, (*address).clone());
            inner.elements.push((held, address.clone(), var));
            let init = match first {
                Some(first) => Arg::Literal(first),
                None => {
                    let value = kernel.scalars.push(dtype);
                    let expr = Expr::Load { held, address: address.clone(), guard: None };
                    begin.push(Stmt::Let { value, expr });
                    Arg::Scalar(value)
                }
            };
            begin.push(Stmt::Var { var, init });
            end.push(Stmt::Store { held, address, value: Arg::Var(var), guard: None });
        }
        let ahead = self.results.iter().flat_map(|(_, ahead)| *ahead);
        let mut body = inner.statements(ahead.chain(self.body));
        for (l, ahead) in self.terms.iter().rev() {
            let mut around = inner.statements(ahead.iter());
            around.extend(std::mem::take(&mut body));
            body = vec![looped(l, around)];
        }
        begin.extend(body);
        begin.extend(end);
        let results = self.results.iter().rev();
        let mut nest = results.fold(begin, |body, (l, _)| vec![looped(l, body)]);
        nest.pop().unwrap_or(Stmt::Nest { body: nest })
    }
}

/// How often the innermost of these loops runs.
fn iterations(loops: &[(Loop<'_>, &[Stmt])]) -> usize {
    loops.iter().fold(1, |n, (l, _)| n.saturating_mul(l.extent))
}

/// Whether a statement costs little where it is computed for every result.
fn is_cheap(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Let { expr: Expr::Load { .. }, .. } => true,
        Stmt::Let { expr: Expr::Code(code, _), .. } => code.row().flops <= 1,
        _ => false,
    }
}

fn looped(l: &Loop<'_>, body: Vec<Stmt>) -> Stmt {
    let Loop { index, extent, parallelism, lanes, .. } = *l;
    Stmt::For { index, extent: Extent::Constant(extent), parallelism, lanes, carries: vec![], body }
}

/// A copy in which elements are variables.
struct InRegisters {
    elements: Vec<(BufferVersion, Address, VarId)>,
    /// What was loaded of them.
    values: SecondaryMap<ScalarId, Option<VarId>>,
}

impl InRegisters {
    fn variable(&self, held: BufferVersion, address: &Address) -> Option<VarId> {
        let same = |e: &&(BufferVersion, Address, VarId)| e.0 == held && e.1 == *address;
        self.elements.iter().find(same).map(|e| e.2)
    }

    fn statements<'s>(&mut self, stmts: impl Iterator<Item = &'s Stmt>) -> Vec<Stmt> {
        let mut out = Vec::new();
        for stmt in stmts {
            match stmt {
                Stmt::Let { value, expr: Expr::Load { held, address, .. } }
                    if let Some(var) = self.variable(*held, address) =>
                {
                    self.values[*value] = Some(var);
                }
                Stmt::Store { held, address, value, .. }
                    if let Some(var) = self.variable(*held, address) =>
                {
                    out.push(Stmt::Set { var, value: self.arg(*value) });
                }
                _ => out.push(self.stmt(stmt)),
            }
        }
        out
    }
}

impl Rewriter for InRegisters {
    fn arg(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Scalar(s) => self.values[s].map_or(arg, Arg::Var),
            Arg::Var(_) | Arg::Index(_) | Arg::Literal(_) => arg,
        }
    }
}
