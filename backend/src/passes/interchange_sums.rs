//! Loop interchange for sums (Allen, Kennedy, 1984) with scalar replacement (Callahan, Carr, Kennedy, 1990): sums
//! that accumulate in memory accumulate in registers.
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
//! If the terms of a sum are not adjacent in memory, the loop over terms is the outer loop, and each result is loaded
//! and stored once for every term. With few terms and many results, these accesses are most of the work, for example in
//! a convolution with few channels or a filter along an axis. After the interchange, each result still adds the same
//! terms in the same order.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::analysis::dependence::disjoint;
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{
    Address, Arg, BufferVersion, Expr, Extent, Kernel, Origins, Parallelism, Rewriter, ScalarId,
    Stmt, VarId,
};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::Literal;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::math::EIGHT;
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "interchange_sums",
    about: "loops over few terms that add to many results in memory become inner loops that add in registers",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, _| kernel.rewrite(block)),
};

/// The largest number of terms of a sum that is interchanged. Each term reads its own rows of the input arrays, and
/// more rows would not fit into a cache.
const MOST_TERMS: usize = 64;

/// The largest number of results that one iteration may add to; each result needs a variable in a register.
const MOST_SUMS: usize = 16;

/// The smallest number of iterations over results for which vectorization is worth it.
const LEAST_RESULTS: usize = 8;

/// Interchanges the loops of sums in a block and in its nested blocks. Returns whether any loops were interchanged.
fn block(kernel: &mut Kernel, body: &mut Vec<Stmt>) -> bool {
    let mut changed = false;
    for mut stmt in std::mem::take(body) {
        let Some(sums) = Sums::of(kernel, &stmt) else {
            stmt.blocks_mut().into_iter().for_each(|inside| changed |= block(kernel, inside));
            body.push(stmt);
            continue;
        };
        let first = body.last().and_then(|fill| sums.filled(kernel, fill));
        if first.is_some() {
            body.pop();
        }
        let interchanged = sums.interchanged(kernel, first);
        body.push(interchanged);
        changed = true;
    }
    changed
}

/// A nest of serial loops over the terms of sums, around parallel loops over the results. Its innermost body adds to
/// elements whose addresses do not depend on the term.
struct Sums<'a> {
    /// The loops over terms, outermost first, each with the statements before its inner loop.
    terms: Vec<(Loop<'a>, &'a [Stmt])>,
    /// The loops over results, outermost first, each with the statements before its inner loop.
    results: Vec<(Loop<'a>, &'a [Stmt])>,
    body: &'a [Stmt],
    /// The elements that the body adds to.
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
                Parallelism::Concurrent | Parallelism::Serial | Parallelism::Fold => return None,
            }
        }
        let worth =
            iterations(&sums.terms) <= MOST_TERMS && iterations(&sums.results) >= LEAST_RESULTS;
        (worth && !sums.terms.is_empty() && sums.adds(kernel)).then_some(sums)
    }

    /// Returns the position in `self.elements` of the element at `address` of `held`; `None` if it is not an
    /// accumulated element.
    fn place(&self, held: BufferVersion, address: &Address) -> Option<usize> {
        self.elements.iter().position(|(h, a)| *h == held && *a == address)
    }

    /// Returns whether the body does nothing except add to elements, each at an address that does not depend on the
    /// term.
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
        // For each value that was loaded from an accumulated element before the element was stored: the position of the
        // element.
        let mut before: SecondaryMap<ScalarId, Option<usize>> = SecondaryMap::new();
        let ahead = self.terms.iter().chain(&self.results).flat_map(|(_, ahead)| *ahead);
        for stmt in ahead.chain(self.body) {
            // Whether the statement reads a value in `before` after the element of this value was stored. Then the
            // variable that replaces the element already holds another value.
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
        if iterations(&self.results) > EIGHT && self.waits(kernel, &before) {
            return false;
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

    /// Returns whether an element depends on its earlier value through a library function that is inlined in vectors,
    /// such as `tanh`. Then the iterations for one element are a long sequence of dependent operations, and the nest is
    /// better not interchanged: with the loop over results inside, the processor overlaps the operations of several
    /// vectors of results, and the additional load and store cost little in comparison.
    fn waits(&self, kernel: &Kernel, before: &SecondaryMap<ScalarId, Option<usize>>) -> bool {
        let mut depends: SecondaryMap<ScalarId, bool> = SecondaryMap::new();
        let mut waits = false;
        for stmt in self.body {
            let Stmt::Let { value, expr } = stmt else { continue };
            let Expr::Code(code, _) = expr else {
                depends[*value] = before[*value].is_some();
                continue;
            };
            stmt.args(&mut |arg| {
                depends[*value] |= matches!(arg, Arg::Scalar(s) if depends[s]);
            });
            waits |= depends[*value] && code.is_inlined_in_vectors(kernel.scalars[*value]);
        }
        waits
    }

    /// If the preceding statement `fill` stores one constant to exactly the accumulated elements, returns this
    /// constant.
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
        // Each iteration of `fill` stores one distinct element. So if there are as many iterations as elements, the
        // fill covers all elements.
        (every && these && fill.extent == whole && results == whole).then_some(*first)
    }

    /// Returns the nest with the loops over terms inside the loops over results. `first` is the constant with
    /// which all sums start; `None` if they start with the elements in memory.
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
        nest.pop().unwrap_or_else(|| Stmt::Nest { body: nest, origins: Origins::default() })
    }
}

/// Returns the product of the trip counts of the loops.
fn iterations(loops: &[(Loop<'_>, &[Stmt])]) -> usize {
    loops.iter().fold(1, |n, (l, _)| n.saturating_mul(l.extent))
}

/// Returns whether a statement is cheap enough to be recomputed for every result: a load, or at most one operation.
fn is_cheap(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Let { expr: Expr::Load { .. }, .. } => true,
        Stmt::Let { expr: Expr::Code(code, _), .. } => code.row().flops <= 1,
        _ => false,
    }
}

fn looped(l: &Loop<'_>, body: Vec<Stmt>) -> Stmt {
    let Loop { index, extent, parallelism, lanes, .. } = *l;
    let (extent, carries, origins) = (Extent::Constant(extent), Vec::new(), l.origins.clone());
    Stmt::For { index, extent, parallelism, lanes, carries, body, origins }
}

/// A rewriter that replaces accumulated elements in memory by variables.
struct InRegisters {
    elements: Vec<(BufferVersion, Address, VarId)>,
    /// Per value that was loaded from an element: the variable of that element.
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
