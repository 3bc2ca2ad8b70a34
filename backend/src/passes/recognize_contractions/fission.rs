//! Loop fission (distribution): a loop around products and their uses becomes one loop for each.
//!
//! Lowering fuses the uses of an element into the loop that computes it. That is good for elementwise code, but
//! functions for matrix products need loops that hold nothing else. So a loop around product loops is split into a
//! sequence of loops, each of which runs one part of every iteration. If a later part reads a value of an earlier part,
//! it loads the value from the element where the earlier part stores it, or repeats the load that gave the value. A sum
//! is stored, until its last use, in the element that will receive the result computed from it.
//!
//! ```text
//! for i0 in 32 {                              for i2 in 32 {
//!   var v0: f64 = 0.0                           var v0: f64 = 0.0
//!   fold i1 in 32 {                             fold i1 in 32 {
//!     ..                                          ..
//!     v0 = add v0, %2                             v0 = add v0, %2
//!   }                                           }
//!   %3: f64 = tanh v0                 ->        store b2[i2], v0
//!   store b2[i0], %3                          }
//! }                                           for i3 in 32 {
//!                                               %4: f64 = load b2[i3]
//!                                               %3: f64 = tanh %4
//!                                               store b2[i3], %3
//!                                             }
//! ```

use super::nest::plain;
use crate::loop_ir::analysis::dependence::{disjoint, strongest};
use crate::loop_ir::dead_code::drop_unread;
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{
    Access, Address, Arg, Assign, BufferId, BufferVersion, Expr, Extent, IndexId, Kernel,
    Parallelism, Rewriter, ScalarId, Stmt, VarId, visit,
};
use tapeloom_ir::{Dtype, OrderedMap, OrderedSet};

/// A loop that runs one part of each iteration of the split loop, and whether this part is an inner loop of products.
pub(super) struct SplitLoop {
    pub(super) stmt: Stmt,
    pub(super) is_product: bool,
}

/// Statements of an iteration that get a loop of their own.
#[derive(Default)]
struct FissionGroup<'a> {
    stmts: Vec<&'a Stmt>,
    is_product: bool,
}

/// Splits a loop into a sequence of loops, one for each inner loop and one for each run of statements between inner
/// loops; `None` if that would change results.
pub(super) fn distributed(k: &mut Kernel, stmt: &Stmt) -> Option<Vec<SplitLoop>> {
    let Loop { index, extent, body, origins, .. } = plain(stmt)?;
    let parts = parts(body)?;
    if !parts.iter().any(|part| part.is_product) {
        return None;
    }
    let accesses = Accesses::of(k, &parts);
    if !in_turn(index, &parts, &accesses) {
        return None;
    }
    let homes = ValueHomes::of(k, index, &parts, &accesses)?;
    let mut folded = OrderedSet::default();
    visit(body, &mut |s| {
        if let Stmt::Fold { var, .. } = s {
            folded.insert(*var);
        }
    });
    let mut found = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let new = k.fresh_index();
        let (values, sums) = (OrderedMap::default(), OrderedMap::default());
        let (homes, folded, from, loads) = (&homes, &folded, index, Vec::new());
        let body = Body { k, homes, at, from, to: new, folded, values, sums, loads, failed: false };
        let body = body.part(part)?;
        if body.is_empty() {
            continue;
        }
        let extent = Extent::Constant(extent);
        let (lanes, parallelism, carries) = (1, Parallelism::Serial, Vec::new());
        let (index, origins) = (new, origins.clone());
        let mut alone = Stmt::For { index, extent, parallelism, lanes, carries, body, origins };
        let claim = strongest(k, &alone);
        if let Stmt::For { parallelism, .. } = &mut alone {
            *parallelism = claim;
        }
        found.push(SplitLoop { stmt: alone, is_product: part.is_product });
    }
    Some(found)
}

/// Splits an iteration into parts: each inner loop, with the declarations of the variables that it folds into, and the
/// statements between inner loops. Returns `None` if a variable prevents the split.
fn parts(body: &[Stmt]) -> Option<Vec<FissionGroup<'_>>> {
    let mut parts: Vec<FissionGroup<'_>> = vec![FissionGroup::default()];
    let mut owner: OrderedMap<VarId, usize> = OrderedMap::default();
    for stmt in body {
        match stmt {
            Stmt::For { extent: Extent::Constant(_), carries, body, .. } if carries.is_empty() => {
                for stmt in body {
                    match stmt.assigned() {
                        Some((var, Assign::Fold(_))) => _ = owner.insert(var, parts.len()),
                        None if stmt.shape().is_scalar() => {}
                        None | Some((_, Assign::Declare | Assign::Set)) => return None,
                    }
                }
                parts.push(FissionGroup { stmts: vec![stmt], is_product: true });
                parts.push(FissionGroup::default());
            }
            other => {
                let sets = matches!(other.assigned(), Some((_, Assign::Set)));
                if sets || !other.shape().is_scalar() {
                    return None;
                }
                parts.last_mut()?.stmts.push(other);
            }
        }
    }
    // Move the declaration of each sum to the inner loop that folds it. Any other variable prevents the split.
    let mut sums = Vec::new();
    for part in parts.iter_mut().filter(|p| !p.is_product) {
        let mut left = false;
        part.stmts.retain(|stmt| match stmt {
            Stmt::Var { var, .. } => {
                match owner.get(var) {
                    Some(of) => sums.push((*of, *stmt)),
                    None => left = true,
                }
                false
            }
            _ => true,
        });
        let folded = |s: &&Stmt| matches!(s, Stmt::Fold { var, .. } if owner.contains_key(var));
        if left || part.stmts.iter().any(folded) {
            return None;
        }
    }
    if sums.len() != owner.len() {
        return None;
    }
    sums.into_iter().for_each(|(of, var)| parts[of].stmts.insert(0, var));
    Some(parts)
}

/// The accesses of an iteration to one buffer.
#[derive(Default)]
struct BufferAccesses<'a> {
    /// The accesses, each with the index of the part of the iteration (a group of its statements) in which it is.
    all: Vec<(usize, Access<'a>)>,
    /// The other accessed buffers that may share bytes with this one.
    beside: Vec<BufferId>,
}

impl BufferAccesses<'_> {
    fn writes(&self) -> usize {
        self.all.iter().filter(|(_, a)| a.write).count()
    }
}

/// The accesses of an iteration, by buffer.
struct Accesses<'a>(OrderedMap<BufferId, BufferAccesses<'a>>);

impl<'a> Accesses<'a> {
    fn of(k: &Kernel, parts: &[FissionGroup<'a>]) -> Accesses<'a> {
        let mut found: OrderedMap<BufferId, BufferAccesses<'a>> = OrderedMap::default();
        for (at, part) in parts.iter().enumerate() {
            for stmt in &part.stmts {
                visit(std::slice::from_ref(*stmt), &mut |s| {
                    s.accesses(&mut |a| found.entry(a.held.buffer).or_default().all.push((at, a)));
                });
            }
        }
        let buffers: Vec<BufferId> = found.keys().copied().collect();
        for (buffer, of) in &mut found {
            let beside = |b: &&BufferId| *b != buffer && !disjoint(k, *buffer, **b);
            of.beside = buffers.iter().filter(beside).copied().collect();
        }
        Accesses(found)
    }

    /// Returns the accesses that may touch the memory of a buffer.
    fn near(&self, buffer: BufferId) -> impl Iterator<Item = &Access<'a>> {
        let of = self.0.get(&buffer);
        let beside = of.into_iter().flat_map(|of| &of.beside).filter_map(|b| self.0.get(b));
        of.into_iter().chain(beside).flat_map(|of| &of.all).map(|(_, a)| a)
    }
}

/// Parts are the groups of statements of an iteration that get loops of their own. Returns whether all iterations of
/// one part may run before all iterations of the next part. If two parts access the same memory and one of them writes
/// it, they must access an element that only this iteration accesses.
fn in_turn(index: IndexId, parts: &[FissionGroup<'_>], accesses: &Accesses<'_>) -> bool {
    let folds = |p: &FissionGroup<'_>| p.stmts.iter().any(|s| matches!(s, Stmt::Fold { .. }));
    // A fold into a variable from outside the loop must not be split into two loops.
    if parts.iter().filter(|p| !p.is_product && folds(p)).count() > 1 {
        return false;
    }
    let conflict = |(i, x): &(usize, Access<'_>), (j, y): &(usize, Access<'_>)| {
        let own = x.held.buffer == y.held.buffer && x.address == y.address;
        i != j && (x.write || y.write) && !(own && is_private(index, x.address))
    };
    let mut all = accesses.0.values();
    all.all(|of| {
        let beside = of.beside.iter().filter_map(|b| accesses.0.get(b));
        let mut others = std::iter::once(of).chain(beside);
        others.all(|other| {
            let read_only = of.writes() == 0 && other.writes() == 0;
            read_only || !of.all.iter().any(|x| other.all.iter().any(|y| conflict(x, y)))
        })
    })
}

/// Returns whether an address is a different element in each iteration of the loop over `index`.
fn is_private(index: IndexId, address: &Address) -> bool {
    let fixed = address.dynamic.is_none() && address.terms.iter().all(|(i, _)| *i == index);
    fixed && address.stride(index) != 0
}

/// For each value that one part of an iteration computes and another part reads: the element in which it is stored.
struct ValueHomes {
    /// Per value: the part of the iteration that computes it, and the element from which other parts can load it.
    values: OrderedMap<ScalarId, (usize, Option<(BufferVersion, Address)>)>,
    /// Per sum: the element where the sum is stored between the part of the iteration that folds it and the part that
    /// reads it.
    sums: OrderedMap<VarId, (BufferVersion, Address)>,
}

impl ValueHomes {
    fn of(
        k: &Kernel,
        index: IndexId,
        parts: &[FissionGroup<'_>],
        accesses: &Accesses<'_>,
    ) -> Option<ValueHomes> {
        // Returns whether more than one access for which `also` holds may touch the memory of a stored array.
        let others = |held: BufferVersion, also: fn(&Access<'_>) -> bool| {
            accesses.near(held.buffer).filter(|a| also(a)).nth(1).is_some()
        };
        let mut homes = ValueHomes { values: OrderedMap::default(), sums: OrderedMap::default() };
        for (at, part) in parts.iter().enumerate().filter(|(_, p)| !p.is_product) {
            for stmt in &part.stmts {
                match stmt {
                    Stmt::Let { value, expr } => {
                        let place = match expr {
                            Expr::Load { held, address, guard: None }
                                if address.dynamic.is_none()
                                    && !accesses.near(held.buffer).any(|a| a.write) =>
                            {
                                Some((*held, address.clone()))
                            }
                            Expr::Load { .. } | Expr::Code(..) => None,
                        };
                        homes.values.insert(*value, (at, place));
                    }
                    Stmt::Store { held, address, value, guard: None } => {
                        if !is_private(index, address) {
                            continue;
                        }
                        // Other parts of the iteration can load the value only if the part that computes it also stores
                        // it, and nothing else writes that array.
                        if let Arg::Scalar(s) = value
                            && let Some((of, place @ None)) = homes.values.get_mut(s)
                            && *of == at
                            && !others(*held, |a| a.write)
                        {
                            *place = Some((*held, address.clone()));
                        }
                    }
                    _ => {}
                }
            }
        }
        // Store a sum in the element in which a later part of the iteration stores a result, if no other access touches
        // that array, and no part after that store reads the sum.
        let mut taken: OrderedSet<BufferVersion> = OrderedSet::default();
        let last_reads = last_reads(parts);
        for (at, part) in parts.iter().enumerate().filter(|(_, p)| p.is_product) {
            for stmt in &part.stmts {
                let Stmt::Var { var, .. } = stmt else { continue };
                let last = last_reads.get(var).copied().filter(|last| *last > at)?;
                let stores = parts[last..].iter().filter(|p| !p.is_product).flat_map(|p| &p.stmts);
                let mut free = stores.filter_map(|stmt| match stmt {
                    Stmt::Store { held, address, value, guard: None } => {
                        let fits = k.buffers[held.buffer].ty.dtype == k.vars[*var];
                        let free = is_private(index, address) && !others(*held, |_| true);
                        let itself = *value == Arg::Var(*var);
                        (fits && free && !taken.contains(held)).then_some((itself, *held, address))
                    }
                    _ => None,
                });
                let first = free.next()?;
                let best = if first.0 { first } else { free.find(|f| f.0).unwrap_or(first) };
                taken.insert(best.1);
                homes.sums.insert(*var, (best.1, best.2.clone()));
            }
        }
        Some(homes)
    }
}

/// Returns, for each variable, the index of the last part of the iteration that reads it.
fn last_reads(parts: &[FissionGroup<'_>]) -> OrderedMap<VarId, usize> {
    let mut last = OrderedMap::default();
    for (at, part) in parts.iter().enumerate() {
        for stmt in &part.stmts {
            visit(std::slice::from_ref(*stmt), &mut |s| {
                s.args(&mut |a| {
                    if let Arg::Var(var) = a {
                        last.insert(var, at);
                    }
                });
            });
        }
    }
    last
}

/// A rewriter that copies one part of an iteration into a loop with another index.
struct Body<'a> {
    k: &'a mut Kernel,
    homes: &'a ValueHomes,
    at: usize,
    from: IndexId,
    to: IndexId,
    /// The variables that the loop folds into.
    folded: &'a OrderedSet<VarId>,
    /// The new scalar for each value that the part loads, because another part computes it.
    values: OrderedMap<ScalarId, ScalarId>,
    /// For each sum that another part folds and this part reads: the scalar into which this part loads it.
    sums: OrderedMap<VarId, ScalarId>,
    /// The loads of the values and sums, which run before the other statements of the part.
    loads: Vec<Stmt>,
    /// Whether the part reads a value that another part computes and that is stored nowhere, so that the loop cannot be
    /// split.
    failed: bool,
}

impl Body<'_> {
    /// Returns the statements of the part of an iteration, without dead ones; `None` if it reads a value of another
    /// part that is stored in no element.
    fn part(mut self, part: &FissionGroup<'_>) -> Option<Vec<Stmt>> {
        let mut needed: Vec<Stmt> = part.stmts.iter().copied().cloned().collect();
        drop_unread(&mut needed, &|_| true);
        let mut body = Vec::new();
        for stmt in &needed {
            if let Stmt::Store { held: stored, value: Arg::Var(var), .. } = stmt
                && let Some((held, _)) = self.homes.sums.get(var)
                && held == stored
            {
                // The part that folds the sum has already stored it in this element.
                continue;
            }
            body.push(self.stmt(stmt));
        }
        if part.is_product {
            for stmt in &part.stmts {
                let Stmt::Var { var, .. } = stmt else { continue };
                let (held, address) = self.homes.sums.get(var)?.clone();
                let (held, address) = self.element(held, &address);
                body.push(Stmt::Store { held, address, value: Arg::Var(*var), guard: None });
            }
        }
        // Put the loads first, because the element that holds a sum is overwritten at the end of the iteration.
        body.splice(0..0, self.loads);
        (!self.failed).then_some(body)
    }

    /// Adds a load of an element to the loads that run before the part, and returns the loaded value.
    fn load(&mut self, dtype: Dtype, (held, address): (BufferVersion, Address)) -> ScalarId {
        let value = self.k.scalars.push(dtype);
        let (held, address) = self.element(held, &address);
        let expr = Expr::Load { held, address, guard: None };
        self.loads.push(Stmt::Let { value, expr });
        value
    }
}

impl Rewriter for Body<'_> {
    fn arg(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Scalar(s) => match self.homes.values.get(&s).cloned() {
                Some((at, place)) if at != self.at => {
                    let known = self.values.get(&s).copied();
                    let value = known.or_else(|| Some(self.load(self.k.scalars[s], place?)));
                    self.failed |= value.is_none();
                    self.values.extend(value.map(|value| (s, value)));
                    Arg::Scalar(value.unwrap_or(s))
                }
                _ => arg,
            },
            Arg::Var(v) => match self.homes.sums.get(&v).cloned() {
                Some(place) => {
                    let known = self.sums.get(&v).copied();
                    let value = known.unwrap_or_else(|| self.load(self.k.vars[v], place));
                    self.sums.insert(v, value);
                    Arg::Scalar(value)
                }
                None => {
                    self.failed |= self.folded.contains(&v);
                    arg
                }
            },
            Arg::Index(i) if i == self.from => Arg::Index(self.to),
            Arg::Index(_) | Arg::Literal(_) => arg,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::recognize_contractions;
    use crate::loop_ir::{eval, parse, verify};
    use tapeloom_ir::Tensor;

    const FOLD: &str = "var v0: f64 = 0.0 fold i1 in 8 {
      %0: f64 = load b1[i0*8 + i1] %1: f64 = load b0[i1] %2: f64 = mul %0, %1 v0 = add v0, %2 }";

    /// Runs the pass, checks that results stay equal, and expects `contractions` contractions.
    #[track_caller]
    fn check(body: &str, contractions: usize) {
        let text = format!(
            "program @f {{ buffer b0: f64[8] input 0 buffer b1: f64[8,8] input 1
               buffer b2: f64[8] output 0 buffer b3: f64[8] output 1 buffer b4: f64[8,8] output 2
               for i20 in 8 {{ store b2[i20], 0.5 store b3[i20], 0.5 }}
               for i21 in 64 {{ store b4[i21], 0.5 }} {body} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        assert_eq!(verify(&program), [], "{program}");
        // Sums of small integers are exact in every order.
        let number = |n: usize| ((n * 7 + 3) % 11) as f64 - 5.0;
        let x: Tensor = (0..8).map(number).collect();
        let rows: Vec<[f64; 8]> =
            (0..8).map(|row| std::array::from_fn(|k| number(row * 8 + k))).collect();
        let rows = Tensor::from(<[[f64; 8]; 8]>::try_from(rows).unwrap());
        let args = [x, rows];
        let want = eval(&program, &args).unwrap();
        program.kernels_mut().for_each(|kernel| _ = recognize_contractions(kernel));
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(eval(&program, &args).unwrap(), want, "{program}");
        let text = program.to_string();
        assert_eq!(text.matches("contract").count(), contractions, "{text}");
    }

    /// A loop is split only if a value that another part reads is stored by the part that computes it. It is not split
    /// if only a later part stores the value.
    #[test]
    fn values_wait_where_they_are_stored_at_once() {
        let make = "%9: f64 = load b0[i0] %10: f64 = neg %9";
        let reads = "%11: f64 = add %10, v0 store b2[i0], %11";
        check(&format!("for i0 in 8 {{ {make} store b3[i0], %10 {FOLD} {reads} }}"), 1);
        check(&format!("for i0 in 8 {{ {make} {FOLD} {reads} store b3[i0], %10 }}"), 0);
        check(&format!("for i0 in 8 {{ {make} {FOLD} store b3[i0], %10 {reads} }}"), 0);
    }
}
