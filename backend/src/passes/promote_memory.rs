//! Register promotion (Cooper, Lu, 1997): array elements at constant addresses that a loop reads and writes become
//! variables.
//!
//! A scan over scalars carries a few elements. The temporaries of its body are in memory, too, because the body was
//! lowered as a separate kernel. In a serial loop, buffers that are accessed only at constant addresses are promoted:
//! their elements are loaded before the loop, unless the loop stores them first, and stored after the loop if later
//! code may read them.
//!
//! ```text
//!                                        %5: f64 = load b0[0]
//!                                        var v0: f64 = %5
//! serial i0 in 100 {                     serial i0 in 100 {
//!   %0: f64 = load b0[0]           ->      %0: f64 = convert{to=f64} v0
//!   %1: f64 = sin %0                       %1: f64 = sin %0
//!   store b1[0], %1
//!   %2: f64 = load b1[0]
//!   store b0[0], %2                        v0 = %1
//! }                                      }
//!                                        store b0[0], v0
//! ```
//!
//! If an element was stored in the same iteration, its load is replaced by the stored value (`%1` above), so that
//! range proofs of indices remain valid.

use super::pass::{Choice, Invariant, Pass, Run};
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Carry, Expr, Extent, Flow, Kernel, Parallelism, Place,
    Rewriter, ScalarId, Stmt, VarId, infer_parallelism, visit,
};
use crate::machine::MachineModel;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use std::collections::{BTreeMap, BTreeSet};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{Code, Dtype, Literal};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "promote_memory",
    about: "elements at fixed indices that a sequential loop updates become variables of the loop",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, context| {
        promote_memory(kernel, &context.machine, context.choice == Choice::Private)
    }),
};

/// An element of a buffer: the buffer and the offset in elements.
type Element = (BufferId, i64);

/// Promotes memory in the serial loops of a kernel. If `own` is set, only workspace buffers that no other loop accesses
/// are promoted: after loops were split, another range of the same loop may access the buffer, or other values may be
/// at its offset. Returns whether any loop changed.
fn promote_memory(kernel: &mut Kernel, machine: &MachineModel, own: bool) -> bool {
    let mut mentions = SecondaryMap::new();
    count(&kernel.body, &mut mentions);
    let changed =
        kernel.rewrite(|kernel, body| block(kernel, &mentions, (machine, own), false, body));
    if changed {
        infer_parallelism(kernel);
    }
    changed
}

/// Promotes memory in the loops of a block, outer loops first, and then in the loops within them. Returns whether
/// any loop changed.
fn block(
    kernel: &mut Kernel,
    mentions: &SecondaryMap<BufferId, usize>,
    (machine, own): (&MachineModel, bool),
    within: bool,
    body: &mut [Stmt],
) -> bool {
    let mut changed = false;
    for stmt in body {
        let in_order = match stmt.shape().flow {
            // Skip loops without iterations, which must not load elements, and loops of one iteration, where promotion
            // gains nothing.
            Flow::For { parallelism: Parallelism::Serial, extent, .. } => {
                !matches!(extent, Extent::Constant(0 | 1))
            }
            Flow::While => true,
            Flow::For { .. } | Flow::Straight | Flow::Nest | Flow::If => false,
        };
        let around = if in_order {
            in_registers(kernel, mentions, (machine, own), within, stmt)
        } else {
            None
        };
        for inside in stmt.blocks_mut() {
            changed |= block(kernel, mentions, (machine, own), within || in_order, inside);
        }
        if let Some([mut before, behind]) = around {
            let origins = stmt.own_origins();
            let empty = Stmt::Nest { body: Vec::new(), origins: origins.clone() };
            before.push(std::mem::replace(stmt, empty));
            before.extend(behind);
            *stmt = Stmt::Nest { body: before, origins };
            changed = true;
        }
    }
    changed
}

/// Counts how often the statements of a block name each buffer.
fn count(body: &[Stmt], mentions: &mut SecondaryMap<BufferId, usize>) {
    visit(body, &mut |s| s.buffers(&mut |b| mentions[b] += 1));
}

/// Promotes memory in one loop. Returns the statements that declare the variables before the loop, and the statements
/// that store the variables to memory after the loop; `None` if no element is promoted.
fn in_registers(
    kernel: &mut Kernel,
    mentions: &SecondaryMap<BufferId, usize>,
    (machine, own): (&MachineModel, bool),
    within: bool,
    stmt: &mut Stmt,
) -> Option<[Vec<Stmt>; 2]> {
    let alone = std::slice::from_ref(&*stmt);
    let mut chosen = chosen(kernel, machine, alone);
    let mut inside = SecondaryMap::new();
    count(alone, &mut inside);
    let only_here = |b: BufferId| mentions[b] == inside[b];
    if own {
        let mut carried = Vec::new();
        visit(alone, &mut |s| {
            s.carries().iter().for_each(|c| carried.extend([c.input.buffer, c.output.buffer]))
        });
        let workspace = |b: BufferId| matches!(kernel.buffers[b].place, Place::Workspace(_));
        chosen.retain(|e, _| only_here(e.0) && workspace(e.0) && !carried.contains(&e.0));
    }
    if chosen.is_empty() {
        return None;
    }
    // In a nested loop, promote a buffer that only this loop accesses only if each run of the loop stores it first.
    // Otherwise it may hold values from the previous iteration of the surrounding loop.
    let fresh = |e: &Element| stmt.blocks().iter().find_map(|b| stores_first(b, *e)) == Some(true);
    if within && chosen.keys().any(|e| only_here(e.0) && !fresh(e)) {
        return None;
    }
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    let mut vars = BTreeMap::new();
    for (element, (version, stored)) in chosen {
        let (buffer, offset) = element;
        let dtype = kernel.buffers[buffer].ty.dtype;
        let workspace = matches!(kernel.buffers[buffer].place, Place::Workspace(_));
        let var = kernel.vars.push(dtype);
        vars.insert(element, var);
        if workspace && only_here(buffer) {
            before.push(Stmt::Var { var, init: Arg::Literal(Literal::zero(dtype)) });
            continue;
        }
        let (held, address) = (BufferVersion { buffer, version }, Address::constant(offset));
        before.extend(loaded(kernel, held, address.clone(), var));
        behind.extend(stored.then(|| put_back(held, address, var)));
    }
    let mut promote = Promote {
        dtypes: &kernel.vars,
        vars,
        known: BTreeMap::new(),
        scalars: SecondaryMap::new(),
        exchange: Vec::new(),
    };
    *stmt = promote.stmt(stmt);
    Some([before, behind])
}

/// Returns the statements that load an element and declare the variable `var` with its value.
pub(super) fn loaded(
    kernel: &mut Kernel,
    held: BufferVersion,
    address: Address,
    var: VarId,
) -> [Stmt; 2] {
    let value = kernel.scalars.push(kernel.vars[var]);
    let expr = Expr::Load { held, address, guard: None };
    [Stmt::Let { value, expr }, Stmt::Var { var, init: Arg::Scalar(value) }]
}

/// Returns the store of a variable to the element that it replaces.
pub(super) fn put_back(held: BufferVersion, address: Address, var: VarId) -> Stmt {
    Stmt::Store { held, address, value: Arg::Var(var), guard: None }
}

/// Returns the statement that copies the variable of a promoted element into `value`; it replaces a load of the
/// element.
pub(super) fn read(value: ScalarId, dtype: Dtype, var: VarId) -> Stmt {
    Stmt::Let { value, expr: Expr::Code(Code::Convert(dtype), vec![Arg::Var(var)]) }
}

/// Returns true if a block certainly stores an element before it may read it, false if it may read it first, and `None`
/// if it does neither.
fn stores_first(body: &[Stmt], element: Element) -> Option<bool> {
    body.iter().find_map(|stmt| {
        if let Stmt::Nest { body, .. } = stmt {
            return stores_first(body, element);
        }
        let mut met = None;
        visit(std::slice::from_ref(stmt), &mut |s| {
            let carried =
                s.carries().iter().any(|c| [c.input.buffer, c.output.buffer].contains(&element.0));
            if carried {
                met = Some(false);
            }
            s.accesses(&mut |a| {
                if (a.held.buffer, a.address.offset) == element {
                    met.get_or_insert(a.write && stmt.blocks().is_empty());
                }
            });
        });
        met
    })
}

/// The use of a promoted element: the number of its buffer's version after the loop (versions are the values that a
/// buffer holds one after the other), and whether the loop stores the element.
type Use = (u32, bool);

/// Returns the elements that a loop's body accesses and that are promoted, each with its use.
fn chosen(kernel: &Kernel, machine: &MachineModel, body: &[Stmt]) -> BTreeMap<Element, Use> {
    let mut found: BTreeMap<BufferId, BTreeMap<i64, Use>> = BTreeMap::new();
    let mut refused: BTreeSet<BufferId> = BTreeSet::new();
    let mut carried: Vec<Carry> = Vec::new();
    visit(body, &mut |s| {
        carried.extend(s.carries());
        let element = s.shape().element.is_some();
        s.accesses(&mut |a| {
            // Each iteration accesses another record of a dynamic tape (the residuals of one iteration), so elements of
            // records are not promoted.
            let record = matches!(kernel.buffers[a.held.buffer].place, Place::Record { .. });
            let constant = a.address.terms.is_empty() && a.address.dynamic.is_none();
            if record || !element || !constant || a.guard.is_some() {
                refused.insert(a.held.buffer);
                return;
            }
            let of = found.entry(a.held.buffer).or_default();
            let known = of.entry(a.address.offset).or_insert((a.held.version, false));
            *known = (known.0.max(a.held.version), known.1 | a.write);
        });
    });
    // If two buffers are exchanged, promote the same elements of both.
    for Carry { input, output } in &carried {
        if input.buffer != output.buffer {
            let elements: Vec<i64> =
                found.get(&output.buffer).into_iter().flat_map(|e| e.keys().copied()).collect();
            let of = found.entry(input.buffer).or_default();
            elements
                .into_iter()
                .for_each(|e| of.entry(e).or_insert((input.version, true)).1 = true);
        }
    }
    for Carry { input, .. } in &carried {
        found.entry(input.buffer).or_default().values_mut().for_each(|of| of.0 = input.version);
    }
    let mut taken = 0;
    for (buffer, elements) in &found {
        let n = elements.len();
        let few = n <= machine.promoted_elements_of_one && taken + n <= machine.promoted_elements;
        if few && !refused.contains(buffer) {
            taken += n;
        } else {
            refused.insert(*buffer);
        }
    }
    // Of two buffers that are exchanged, promote both or neither.
    for _ in 0..carried.len() {
        let before = refused.len();
        for [a, b] in carried.iter().map(|c| [c.input.buffer, c.output.buffer]) {
            if refused.contains(&a) || refused.contains(&b) {
                refused.extend([a, b]);
            }
        }
        if refused.len() == before {
            break;
        }
    }
    let found = found.into_iter().filter(|(b, _)| !refused.contains(b));
    found.flat_map(|(b, e)| e.into_iter().map(move |(offset, of)| ((b, offset), of))).collect()
}

/// A rewriter that replaces elements by variables.
struct Promote<'a> {
    dtypes: &'a PrimaryMap<VarId, Dtype>,
    vars: BTreeMap<Element, VarId>,
    /// The elements whose values are known at this point, with the values.
    known: BTreeMap<Element, Arg>,
    /// Per removed load: the value that replaces it.
    scalars: SecondaryMap<ScalarId, Option<Arg>>,
    /// The statements to append to the body of the next loop: they exchange the variables of buffers that the loop
    /// carries.
    exchange: Vec<Stmt>,
}

impl Promote<'_> {
    fn var(&self, buffer: BufferId, address: &Address) -> Option<(Element, VarId)> {
        let element = (buffer, address.offset);
        self.vars.get(&element).map(|v| (element, *v))
    }

    /// Removes from `known` the elements that a statement, or a statement nested in it, stores.
    fn invalidate(&mut self, stmt: &Stmt) {
        if planted(Fault::Registers) {
            return;
        }
        visit(std::slice::from_ref(stmt), &mut |s| {
            s.accesses(&mut |a| {
                if a.write {
                    self.known.remove(&(a.held.buffer, a.address.offset));
                }
            });
            for Carry { input, output } in s.carries() {
                self.known.retain(|(b, _), _| *b != input.buffer && *b != output.buffer);
            }
        });
    }

    fn exchanges(&self, input: BufferId, output: BufferId) -> Vec<Stmt> {
        let of = self.vars.range((output, i64::MIN)..=(output, i64::MAX));
        let set = |((_, offset), from): (&Element, &VarId)| {
            let var = *self.vars.get(&(input, *offset))?;
            Some(Stmt::Set { var, value: Arg::Var(*from) })
        };
        of.filter_map(set).collect()
    }
}

impl Rewriter for Promote<'_> {
    fn arg(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Scalar(s) => self.scalars[s].unwrap_or(arg),
            Arg::Var(_) | Arg::Index(_) | Arg::Literal(_) => arg,
        }
    }

    fn carries(&mut self, carries: &[Carry]) -> Vec<Carry> {
        let mut left = Vec::new();
        for Carry { input, output } in carries {
            let variables = self.vars.range((input.buffer, i64::MIN)..=(input.buffer, i64::MAX));
            if variables.count() == 0 {
                left.push(Carry { input: *input, output: *output });
            } else if input.buffer != output.buffer {
                let exchanges = self.exchanges(input.buffer, output.buffer);
                self.exchange.extend(exchanges);
            }
        }
        left
    }

    fn block(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let (exchange, known) = (std::mem::take(&mut self.exchange), self.known.clone());
        let mut out = Vec::with_capacity(body.len());
        self.statements(body, &mut out);
        out.extend(exchange);
        // Values that became known inside the block are unknown after it. Elements that the block stores were removed
        // from `known` before the block was rewritten.
        self.known = known;
        out
    }
}

impl Promote<'_> {
    fn statements(&mut self, body: &[Stmt], out: &mut Vec<Stmt>) {
        for stmt in body {
            match stmt {
                // A nest runs unconditionally, so the values that become known inside remain known.
                Stmt::Nest { body, .. } => self.statements(body, out),
                Stmt::Let { value, expr: Expr::Load { held, address, .. } }
                    if let Some((element, var)) = Promote::var(self, held.buffer, address) =>
                {
                    if let Some(known) = self.known.get(&element) {
                        self.scalars[*value] = Some(*known);
                        continue;
                    }
                    out.push(read(*value, self.dtypes[var], var));
                    self.known.insert(element, Arg::Scalar(*value));
                }
                Stmt::Store { held, address, value, .. }
                    if let Some((element, var)) = Promote::var(self, held.buffer, address) =>
                {
                    let value = self.arg(*value);
                    out.push(Stmt::Set { var, value });
                    self.known.remove(&element);
                    if !matches!(value, Arg::Var(_)) {
                        self.known.insert(element, value);
                    }
                }
                other if other.blocks().is_empty() => out.push(self.stmt(other)),
                other => {
                    self.invalidate(other);
                    out.push(self.stmt(other));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::inline_bodies::inline_bodies;
    use super::*;
    use crate::loop_ir::interp::test_hosts::bind_recorders;
    use crate::loop_ir::{parse, shadow, verify};

    /// Runs the passes on a program and returns its text. Checks that it is valid and computes the same
    /// results.
    fn promoted(text: &str) -> String {
        let mut program = parse(text, &|_| None).unwrap();
        assert_eq!(verify(&program), []);
        bind_recorders(&program);
        let want = shadow(&program, &[]).unwrap();
        inline_bodies(&mut program);
        program
            .kernels_mut()
            .for_each(|kernel| _ = promote_memory(kernel, &MachineModel::MEASURED, false));
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(shadow(&program, &[]).unwrap(), want, "{program}");
        program.to_string()
    }

    /// Returns the number of stores to a buffer in the text.
    fn stores(text: &str, buffer: &str) -> usize {
        text.matches(&format!("store {buffer}[")).count()
    }

    #[test]
    fn a_scan_runs_in_registers() {
        let text = promoted(
            "kernel k0 @step inline { workspace 64 buffer b0: f64[] input 0 output 0
               buffer b1: i64[] input 1 buffer b2: f64[] workspace 0
               nest { %0: f64 = load b0[0] %1: i64 = load b1[0] %2: f64 = convert{to=f64} %1
                      %3: f64 = add %0, %2 store b2[0], %3 }
               nest { %4: f64 = load b2[0] %5: f64 = mul %4, 0.5 store b0[0], %5 } }
             program @x { workspace 192 buffer b0: f64[] workspace 0 version b0.1 continues b0
               version b0.2 continues b0.1 buffer b1: i64[] workspace 64 buffer b2: f64[] output 0
               nest { store b0[0], 1.0 }
               serial i0 in 10 carry b0.1 = b0.2 {
                 store b1[0], i0
                 call k0(b0.1[0; 1], b1[0; 1]) to (b0.2[0; 1]) frame 128
               }
               nest { %0: f64 = load b0.1[0] store b2[0], %0 } }",
        );
        let inside = &text[text.find("serial").unwrap()..];
        let inside = &inside[..inside.find("\n    }").unwrap()];
        assert!(!inside.contains("load") && !inside.contains("store"), "{text}");
        // The temporaries of the body (`b1` and `b3`) are never in memory, and the index is used directly.
        assert_eq!((stores(&text, "b1"), stores(&text, "b3")), (0, 0), "{text}");
        assert!(inside.contains("= convert{to=f64} i0"), "{text}");
    }

    #[test]
    fn swapped_buffers_become_swapped_variables() {
        let text = promoted(
            "program @x { workspace 256 buffer b0: f64[2] workspace 0 buffer b1: f64[2] workspace 64
               buffer b2: f64[2] output 0
               nest { store b0[0], 1.0 store b0[1], 2.0 }
               serial i0 in 3 carry b0 = b1 {
                 nest { %0: f64 = load b0[0] %1: f64 = load b0[1]
                        store b1[0], %1 store b1[1], %0 } }
               nest { %2: f64 = load b0[0] store b2[0], %2 %3: f64 = load b0[1] store b2[1], %3 } }",
        );
        assert!(!text.contains("carry") && stores(&text, "b1") == 0, "{text}");
    }

    /// The outer loop accesses `b0` with a dynamic address, so only the inner loop can promote it.
    #[test]
    fn loops_within_have_their_own() {
        let text = promoted(
            "program @x { workspace 64 buffer b0: f64[2] workspace 0 buffer b1: f64[2] output 0
               for i3 in 2 { store b1[i3], 0.5 }
               serial i0 in 3 {
                 for i2 in 2 { %7: f64 = load b1[i2] store b0[i2], %7 }
                 serial i1 in 4 {
                   nest { %0: f64 = load b0[0] %1: f64 = add %0, 1.0 store b0[0], %1 }
                   nest { %2: f64 = load b0[0] store b1[1], %2 } } } }",
        );
        let inside = &text[text.find("serial i1").unwrap()..];
        assert!(!inside[..inside.find('}').unwrap()].contains("store"), "{text}");
    }

    /// A nested loop must not promote elements that carry values from one iteration of the outer loop to the next,
    /// if the outer loop has too many elements to promote them itself.
    #[test]
    fn elements_carried_by_an_outer_loop_stay() {
        let (most, of_one) = (
            MachineModel::MEASURED.promoted_elements,
            MachineModel::MEASURED.promoted_elements_of_one,
        );
        let all = || (0..most).map(|i| (i / of_one, i % of_one));
        let buffers: String = (0..most / of_one)
            .map(|b| format!("buffer b{b}: f64[{of_one}] workspace {}\n", 128 * b))
            .collect();
        let fill: String = all().map(|(b, e)| format!("store b{b}[{e}], 1.0\n")).collect();
        let text = promoted(&format!(
            "program @x {{ workspace 1024 {buffers} buffer b4: f64[] workspace 512
               buffer b5: f64[] output 0
               nest {{ store b5[0], 0.5 }}
               serial i0 in 3 {{ serial i1 in 4 {{
                 nest {{ {fill} %4: i64 = mul i0, 4 %5: i64 = add %4, i1 %6: bool = gt %5, 0
                         if %6 {{ %0: f64 = load b4[0] store b5[0], %0 }} else {{ }} }}
                 nest {{ %1: f64 = convert{{to=f64}} i1 store b4[0], %1 }} }} }} }}"
        ));
        assert_eq!(stores(&text, "b4"), 1, "{text}");
    }

    /// Elements at dynamic addresses, parts of buffers that are passed to a call, and guarded stores are not
    /// promoted.
    #[test]
    fn elements_with_other_accesses_stay() {
        let keep = "nest { %0: f64 = load b0[0] store b1[0], %0 } }";
        for body in [
            "serial i0 in 3 { nest { %1: f64 = load b0[0] %2: f64 = add %1, 1.0 store b0[0], %2 }
               for i1 in 2 { store b0[i1], 1.0 } }",
            "serial i0 in 3 { nest { %1: f64 = load b0[0] store b0[0], 1.0 ask &f (b0[0; 2]: f64[2]) to () } }",
            "serial i0 in 3 { nest { %1: f64 = load b0[0] %3: bool = lt i0, 1
               store b0[0], 2.0 if %3 } }",
        ] {
            let text = format!(
                "program @x {{ workspace 64 buffer b0: f64[2] workspace 0 buffer b1: f64[] output 0
                 nest {{ store b0[0], 1.0 store b0[1], 1.0 }} {body} {keep}"
            );
            assert!(!promoted(&text).contains("var"), "{text}");
        }
    }
}
