//! Redundant-load and dead-store elimination in straight-line code.
//!
//! ```text
//! %0: f64 = load b0[i0]                    %0: f64 = load b0[i0]
//! store b1[i0 + 1], %0                ->
//! %1: f64 = load b1[i0 + 1]
//! %2: f64 = load b0[i0]
//! %3: f64 = mul %1, %2                     %3: f64 = mul %0, %0
//! store b1[i0 + 1], %3                     store b1[i0 + 1], %3
//! ```
//!
//! The value of an element is known until a store that may alias the element: a store to the same buffer, unless the
//! addresses provably differ. If arrays may *overlap*, it may also be a store to any other array, except tapes, which
//! have their own memory. A store is dead if the same element is stored again before anything may read it. The values
//! known before a branch are also known at its start; at the start of a loop, no value is known.
//!
//! Lowering stores and loads every value once, so the pass finds little until loops are [unrolled](super::unroll).

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Effect, Kernel, Rewriter, ScalarId, Stmt, visit,
};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::OrderedSet;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "redundant_memory",
    about: "repeated loads and overwritten stores in straight-line code are dropped",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, context| redundant_memory(kernel, context.overlap)),
};

/// Removes redundant loads and dead stores from a kernel. Returns whether any load or store was removed.
fn redundant_memory(kernel: &mut Kernel, overlap: bool) -> bool {
    let body = std::mem::take(&mut kernel.body);
    let alike = Alike { overlap, kept: kernel.kept.keys().map(|held| held.buffer).collect() };
    let same = SecondaryMap::new();
    let mut loads = Loads { alike: &alike, known: Vec::new(), same, changed: false };
    let body = loads.block(&body);
    let mut changed = loads.changed;
    kernel.body = stores(&alike, body, &mut changed);
    changed
}

/// The aliasing rules for elements: whether different arrays may overlap, and which arrays are tapes, which overlap
/// nothing.
struct Alike {
    overlap: bool,
    kept: OrderedSet<BufferId>,
}

/// An element of one version of a buffer (one of the values that the buffer holds one after the other).
#[derive(Clone, PartialEq, Debug)]
struct Element {
    held: BufferVersion,
    address: Address,
}

impl Element {
    /// Returns whether the address contains no variable. Two evaluations of an address with a variable may give
    /// different elements, because the variable may change between them.
    fn is_fixed(&self) -> bool {
        !matches!(self.address.dynamic, Some(Arg::Var(_)))
    }
}

impl Alike {
    /// Returns whether two elements may alias. It runs for each pair of a store and a known element.
    #[inline]
    fn may(&self, a: &Element, b: &Element) -> bool {
        let (x, y) = (a.held.buffer, b.held.buffer);
        if x != y {
            return self.overlap && !self.kept.contains(&x) && !self.kept.contains(&y);
        }
        // Addresses with the same terms that differ in the constant offset are different elements.
        let apart = a.address.behind(&b.address).is_some_and(|by| by != 0);
        !(apart && a.is_fixed() || planted(Fault::ReuseAlias))
    }

    /// Returns whether two accesses are certainly to the same element.
    #[inline]
    fn is(&self, a: &Element, b: &Element) -> bool {
        a.held.buffer == b.held.buffer && a.address == b.address && a.is_fixed()
    }
}

/// A rewriter that removes loads of known elements.
struct Loads<'a> {
    alike: &'a Alike,
    /// The elements whose values are known at this point, with the values.
    known: Vec<(Element, Arg)>,
    /// For each removed load: the value that replaces it.
    same: SecondaryMap<ScalarId, Option<Arg>>,
    /// Whether a load was removed.
    changed: bool,
}

impl Loads<'_> {
    fn of(&mut self, held: BufferVersion, address: &Address) -> Element {
        let (held, address) = self.element(held, address);
        Element { held, address }
    }

    /// Removes the known elements that may alias a stored one.
    fn invalidate(&mut self, stored: &Element) {
        let alike = self.alike;
        self.known.retain(|(known, _)| !alike.may(known, stored));
    }

    /// Removes the known elements that a statement, or a statement nested in it, may store.
    fn forget_all(&mut self, stmt: &Stmt) {
        let (mut stored, mut all) = (Vec::new(), false);
        visit(std::slice::from_ref(stmt), &mut |s| {
            // After a loop, the buffers that it carries may have been exchanged, so no known element is valid.
            let shape = s.shape();
            all |= !shape.carries.is_empty() || matches!(shape.effect, Effect::Tape(_));
            s.accesses(&mut |a| {
                all |= a.write && shape.element.is_none();
                stored.extend(a.write.then(|| self.of(a.held, a.address)));
            });
        });
        match all {
            true => self.known.clear(),
            false => stored.iter().for_each(|element| self.invalidate(element)),
        }
    }
}

impl Rewriter for Loads<'_> {
    fn arg(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Scalar(s) => self.same[s].unwrap_or(arg),
            Arg::Var(_) | Arg::Index(_) | Arg::Literal(_) => arg,
        }
    }

    /// Rewrites a block. The elements in `known` are also known at the start of the block; elements that become known
    /// inside the block are unknown after it.
    fn block(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let before = self.known.clone();
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            let shape = stmt.shape();
            if let Some(e) = &shape.element
                && (e.write || e.guard.is_none())
            {
                let (element, alike) = (self.of(e.held, e.address), self.alike);
                if let Some(value) = shape.defines {
                    let known = self.known.iter().find(|(known, _)| alike.is(known, &element));
                    if let Some((_, arg)) = known {
                        self.same[value] = Some(*arg);
                        self.changed = true;
                        continue;
                    }
                    self.known.push((element, Arg::Scalar(value)));
                } else {
                    self.invalidate(&element);
                    let value = shape.operands.first().map(|a| self.arg(*a));
                    let value = value.filter(|a| e.guard.is_none() && !matches!(a, Arg::Var(_)));
                    self.known.extend(value.map(|value| (element, value)));
                }
                out.push(self.stmt(stmt));
                continue;
            }
            // An iteration must not rely on known elements, since an earlier iteration may have stored to them.
            let known = shape.flow.is_loop().then(|| std::mem::take(&mut self.known));
            out.push(self.stmt(stmt));
            if let Some(known) = known {
                self.known = known;
            }
            self.forget_all(stmt);
        }
        self.known = before;
        out
    }
}

/// Returns the statements of `body` without dead stores. Sets `changed` if there were any.
fn stores(alike: &Alike, body: Vec<Stmt>, changed: &mut bool) -> Vec<Stmt> {
    let (mut kept, mut again): (Vec<Stmt>, Vec<Element>) = (Vec::new(), Vec::new());
    for mut stmt in body.into_iter().rev() {
        for inside in stmt.blocks_mut() {
            *inside = stores(alike, std::mem::take(inside), changed);
            again.clear();
        }
        match is_stored_again(alike, &stmt, &mut again) {
            true => *changed = true,
            false => kept.push(stmt),
        }
    }
    kept.reverse();
    kept
}

/// Returns whether a statement is a dead store, given `again`: the elements that later statements store before anything
/// may read them. Updates `again` for the position before the statement.
fn is_stored_again(alike: &Alike, stmt: &Stmt, again: &mut Vec<Element>) -> bool {
    let shape = stmt.shape();
    let Some(e) = &shape.element else {
        let alone = matches!(shape.effect, Effect::None | Effect::Limit(_) | Effect::Lap(_));
        if shape.contract.is_some() || !alone {
            again.clear();
        }
        return false;
    };
    let element = Element { held: e.held, address: e.address.clone() };
    if !e.write {
        again.retain(|a| !alike.may(a, &element));
    } else if e.guard.is_none() {
        if again.iter().any(|a| a.held == element.held && alike.is(a, &element)) {
            return true;
        }
        again.push(element);
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::redundant_memory;
    use crate::loop_ir::{eval, parse, shadow, verify};
    use tapeloom_ir::Tensor;

    /// Runs the pass without and with `overlap`, checks the results, and expects these numbers of `[loads, stores]`,
    /// first without `overlap`, then with it.
    #[track_caller]
    fn check(body: &str, expected: [[usize; 2]; 2]) {
        let text = format!(
            "program @x {{ workspace 32 buffer b0: f64[4] input 0 buffer b1: i64[] input 1
               buffer b2: f64[4] output 0 buffer b3: f64[4] workspace 0 kept tape
               for i9 in 4 {{ store b2[i9], 0.5 }} {body} }}"
        );
        let program = parse(&text, &|_| None).unwrap();
        let args = [Tensor::from([1.0, 2.0, 4.0, 8.0]), Tensor::scalar(2_i64)];
        let want = shadow(&program, &args).unwrap();
        let found = [false, true].map(|overlap| {
            let mut program = program.clone();
            program.kernels_mut().for_each(|kernel| _ = redundant_memory(kernel, overlap));
            assert_eq!(verify(&program), [], "{program}");
            assert_eq!(shadow(&program, &args).unwrap(), want, "{program}");
            assert_eq!(eval(&program, &args).unwrap(), want, "{program}");
            let text = program.to_string();
            // Do not count the store that fills the result.
            [text.matches("= load").count(), text.matches("store").count() - 1]
        });
        assert_eq!(found, expected, "{program}");
    }

    #[test]
    fn redundant_loads_are_removed() {
        check(
            "nest { %0: f64 = load b0[1] %1: f64 = load b0[1] %2: f64 = mul %0, %1 store b2[0], %2 }",
            [[1, 1]; 2],
        );
        check(
            "nest { %0: f64 = load b0[1] store b2[0], %0 %1: f64 = load b2[0] store b2[1], %1 }",
            [[1, 2]; 2],
        );
    }

    #[test]
    fn stores_to_other_arrays_matter_where_arrays_overlap() {
        let body =
            "nest { %0: f64 = load b0[1] store b2[0], %0 %1: f64 = load b0[1] store b2[1], %1 }";
        check(body, [[1, 2], [2, 2]]);
        // A tape array has its own memory, so it does not overlap others.
        let kept =
            "nest { %0: f64 = load b0[1] store b3[0], %0 %1: f64 = load b0[1] store b2[1], %1 }";
        check(kept, [[1, 2]; 2]);
    }

    #[test]
    fn stores_to_unknown_places_matter() {
        check(
            "nest { %9: i64 = load b1[0] %8: i64 = clamp 0, %9, 3 store b2[1], 1.0 store b2[(%8)], 2.0
               %0: f64 = load b2[1] store b2[0], %0 }",
            [[2, 3]; 2],
        );
        check(
            "nest { store b2[1], 1.0 for i0 in 2 { store b2[i0], 2.0 } %0: f64 = load b2[1] store b2[0], %0 }",
            [[1, 3]; 2],
        );
        // The two addresses of `b2` have the same terms and differ in the constant, so the store does not
        // change the loaded element.
        check(
            "serial i0 in 3 { %0: f64 = load b2[i0] store b2[i0 + 1], 3.0 %1: f64 = load b2[i0]
               %2: f64 = add %0, %1 store b2[i0], %2 }",
            [[1, 2]; 2],
        );
    }

    #[test]
    fn stores_in_branches_and_loops_are_not_forwarded() {
        check(
            "nest { %9: i64 = load b1[0] %8: bool = gt %9, 0 store b2[1], 1.0
               if %8 { %0: f64 = load b2[1] store b2[0], %0 store b2[1], 2.0 } else { }
               %1: f64 = load b2[1] store b2[2], %1 }",
            [[2, 4]; 2],
        );
        check(
            "serial i0 in 3 { %0: f64 = load b2[1] %1: f64 = add %0, 1.0 store b2[1], %1 }",
            [[1, 1]; 2],
        );
    }

    #[test]
    fn stores_that_nobody_sees_go() {
        check("nest { store b2[0], 1.0 store b2[1], 2.0 store b2[0], 3.0 }", [[0, 2]; 2]);
        check("nest { store b2[0], 1.0 %0: f64 = load b0[1] store b2[0], %0 }", [[1, 1], [1, 2]]);
        check(
            "nest { store b2[0], 1.0 for i0 in 4 { %0: f64 = load b2[i0] store b2[i0], %0 } store b2[0], 3.0 }",
            [[1, 3]; 2],
        );
    }
}
