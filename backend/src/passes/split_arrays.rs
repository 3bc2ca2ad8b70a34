//! Array splitting: if different statements store different elements of an array, each statement gets an array of its
//! own.
//!
//! A compiler that differentiates code saves each residual in an array of its own, with one element per execution
//! of the statement. In unrolled code, each copy of an iteration therefore fills an array of its own:
//!
//! ```text
//! serial i0 in 25 {                        serial i0 in 25 {
//!   store b2[i0*4], %0                       store b3[i0], %0
//!   store b2[i0*4 + 1], %1          ->       store b4[i0], %1
//!   ..                                       ..
//! serial i1 in 25 {                        serial i1 in 25 {
//!   %8: f64 = load b2[i1*-4 + 96]            %8: f64 = load b3[i1*-1 + 24]
//! ```
//!
//! An array is split if several statements fill it, each in loops with constant trip counts, and each load reads the
//! elements that one of these statements has stored, in the same or in the opposite order. After that, a
//! [layout](crate::layout) that builds a record (the residuals of one iteration) from the stores of a block finds all
//! stores of the unrolled block.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Expr, Extent, Flow, IndexId, Kernel, Parallelism, Place,
    Program, Stmt, VarId, visit,
};
use std::collections::{BTreeMap, BTreeSet};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{ArrayType, Code, Literal, OrderedMap, Shape};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "split_arrays",
    about: "values of different statements are stored in different arrays",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Program(|program, _| Ok(split_arrays(program))),
};

/// The largest number of saved scalars of straight-line code that are promoted to registers. This is a property of the
/// simulated accelerator of the TapeFlow study, so it is not in the machine model of the host.
const REGISTERS: usize = 64;

/// The largest number of elements of an array that is split.
const MOST_ELEMENTS: usize = 1 << 24;

/// For each array of residuals that several statements fill, gives each of these statements an array of its own.
/// Returns whether the program changed.
fn split_arrays(program: &mut Program) -> bool {
    let kernel = &mut program.entry;
    let sites = Sites::of(kernel);
    let ids: Vec<BufferId> = kernel.buffers.keys().filter(|id| is_kept(kernel, *id)).collect();
    let mut new_arrays: Vec<NewArray> = Vec::new();
    for id in ids.iter().filter(|id| !sites.whole.contains(*id)) {
        let elements = kernel.buffers[*id].ty.shape.elements();
        new_arrays.extend(sites.new_arrays(*id, elements).unwrap_or_default());
    }
    let split = !new_arrays.is_empty();
    // Number the new arrays in the order of their statements.
    new_arrays.sort_by_key(|new_array| new_array.at);
    let mut new_addresses = NewAddresses::default();
    for new_array in new_arrays {
        let ty = &kernel.buffers[new_array.old].ty;
        let ty = ArrayType { shape: Shape::from_iter([new_array.elements]), dtype: ty.dtype };
        let buffer = kernel.scratch(ty);
        let names = kernel.kept.get(&BufferVersion::first(new_array.old)).cloned();
        for name in names.into_iter().flatten() {
            kernel.keep(BufferVersion::first(buffer), name);
        }
        let addresses = new_array.addresses.into_iter();
        new_addresses.extend(addresses.map(|(from, to)| ((new_array.old, from), (buffer, to))));
    }
    kernel.kept.retain(|held, _| !new_addresses.keys().any(|(of, _)| *of == held.buffer));
    rewrite(&mut kernel.body, &new_addresses);
    in_registers(kernel) || split
}

/// Returns whether a buffer is an array of residuals in the workspace that has only one version (is never overwritten
/// as a whole).
fn is_kept(k: &Kernel, id: BufferId) -> bool {
    matches!(k.buffers[id].place, Place::Workspace(_))
        && k.versions[id].is_empty()
        && k.kept.contains_key(&BufferVersion::first(id))
}

/// An access to a buffer: a load or a store.
struct Site {
    at: usize,
    write: bool,
    /// The loops around the access with their trip counts, outermost first.
    loops: Vec<(IndexId, i64)>,
    address: Address,
}

/// All accesses of a kernel to buffers.
#[derive(Default)]
struct Sites {
    all: BTreeMap<BufferId, Vec<Site>>,
    /// The buffers that cannot be split.
    whole: BTreeSet<BufferId>,
    count: usize,
}

/// The elements of an array that one statement fills, which become an array of their own.
struct NewArray {
    at: usize,
    old: BufferId,
    elements: usize,
    /// The old addresses that read or write these elements, each with its new address.
    addresses: Vec<(Address, Address)>,
}

impl Sites {
    fn of(kernel: &Kernel) -> Sites {
        let mut sites = Sites::default();
        kernel.body.iter().for_each(|step| sites.stmt(step, &mut Vec::new(), true));
        sites
    }

    /// Collects the accesses of a statement. `always` says whether the statement runs in each iteration of all `loops`.
    fn stmt(&mut self, stmt: &Stmt, loops: &mut Vec<(IndexId, i64)>, always: bool) {
        let shape = stmt.shape();
        let single = shape.element.is_some_and(|e| !e.write || e.guard.is_none());
        stmt.accesses(&mut |a| {
            self.count += 1;
            let plain = single && a.held.version == 0 && a.address.dynamic.is_none();
            if !plain || a.write && !always {
                self.whole.insert(a.held.buffer);
                return;
            }
            let (at, loops, address) = (self.count, loops.clone(), a.address.clone());
            let site = Site { at, write: a.write, loops, address };
            self.all.entry(a.held.buffer).or_default().push(site);
        });
        // Carried buffers that are exchanged have two names, so they are not split.
        for carry in shape.carries {
            self.whole.extend([carry.input.buffer, carry.output.buffer]);
        }
        let mut counted = None;
        if let Flow::For { index, extent: Extent::Constant(n), .. } = shape.flow {
            counted = Some((index, n as i64));
        }
        let known = shape.flow == Flow::Nest || counted.is_some();
        loops.extend(counted);
        for inside in shape.blocks {
            inside.iter().for_each(|stmt| self.stmt(stmt, loops, always && known));
        }
        if counted.is_some() {
            loops.pop();
        }
    }

    /// Returns the arrays that replace a buffer; `None` if only one statement fills it, or an element is not filled by
    /// exactly one statement.
    fn new_arrays(&self, id: BufferId, elements: usize) -> Option<Vec<NewArray>> {
        let sites = self.all.get(&id)?;
        let (stores, loads): (Vec<&Site>, Vec<&Site>) = sites.iter().partition(|site| site.write);
        if stores.len() < 2 || elements > MOST_ELEMENTS {
            return None;
        }
        let mut filled = vec![false; elements];
        let mut new_arrays = Vec::with_capacity(stores.len());
        for store in &stores {
            let pattern = AccessPattern::of(store)?;
            pattern.fill(&mut filled)?;
            let elements =
                pattern.terms.iter().map(|term| term.iterations).product::<i64>() as usize;
            let addresses = vec![(store.address.clone(), pattern.of_load(&pattern)?)];
            new_arrays.push((pattern, NewArray { at: store.at, old: id, elements, addresses }));
        }
        for load in loads {
            let read = AccessPattern::of(load)?;
            let mut from = new_arrays
                .iter_mut()
                .filter_map(|(pattern, new_array)| Some((pattern.of_load(&read)?, new_array)));
            let (address, new_array) = from.next()?;
            new_array.addresses.push((load.address.clone(), address));
        }
        Some(new_arrays.into_iter().map(|(_, new_array)| new_array).collect())
    }
}

/// A loop around an access, and the stride in elements of the access along the loop.
#[derive(Clone, Copy)]
struct Term {
    index: IndexId,
    iterations: i64,
    stride: i64,
}

/// The address pattern of an access: an offset, and a stride for each loop around the access, outer loops first. Loops
/// with one iteration are left out.
struct AccessPattern {
    offset: i64,
    terms: Vec<Term>,
}

impl AccessPattern {
    /// Returns the address pattern of an access; `None` if the address is the same in several iterations of a loop, or
    /// depends on a loop with unknown trip count.
    fn of(site: &Site) -> Option<AccessPattern> {
        let known = |index: IndexId| site.loops.iter().any(|around| around.0 == index);
        if !site.address.terms.iter().all(|term| known(term.0)) {
            return None;
        }
        let of = |(index, iterations): &(IndexId, i64)| {
            let stride = site.address.stride(*index);
            Term { index: *index, iterations: *iterations, stride }
        };
        let terms: Vec<Term> =
            site.loops.iter().map(of).filter(|term| term.iterations != 1).collect();
        let moves = terms.iter().all(|term| term.stride != 0);
        moves.then_some(AccessPattern { offset: site.address.offset, terms })
    }

    /// Marks in `filled` the elements that a store with this pattern fills; returns `None` if an element is stored
    /// twice.
    fn fill(&self, filled: &mut [bool]) -> Option<()> {
        let mut at = vec![self.offset];
        for term in &self.terms {
            at = at
                .iter()
                .flat_map(|at| (0..term.iterations).map(move |n| at + n * term.stride))
                .collect();
        }
        at.into_iter().try_for_each(|at| {
            let seen = filled.get_mut(usize::try_from(at).ok()?)?;
            (!std::mem::replace(seen, true)).then_some(())
        })
    }

    /// Returns the address of a load in the new array of this store, if the load reads the stored elements in the same
    /// or in the opposite order along each loop; otherwise `None`.
    fn of_load(&self, load: &AccessPattern) -> Option<Address> {
        let (mut address, mut offset) = (Address::default(), self.offset);
        let (mut left, mut weight) = (load.terms.clone(), 1);
        for store in self.terms.iter().rev() {
            let like =
                |t: &Term| t.stride.abs() == store.stride.abs() && t.iterations == store.iterations;
            let term = left.remove(left.iter().position(like)?);
            let last = store.iterations - 1;
            match term.stride == store.stride {
                true => address.terms.push((term.index, weight)),
                false => {
                    offset += store.stride * last;
                    address.offset +=
                        weight * if planted(Fault::ApartLast) { last - 1 } else { last };
                    address.terms.push((term.index, -weight));
                }
            }
            weight *= store.iterations;
        }
        address.terms.sort_unstable();
        (left.is_empty() && offset == load.offset).then_some(address)
    }
}

/// For each array and address that a statement accesses before the split: the new array, and the address in it.
type NewAddresses = OrderedMap<(BufferId, Address), (BufferId, Address)>;

fn rewrite(body: &mut [Stmt], new_addresses: &NewAddresses) {
    for stmt in body {
        if let Some(element) = stmt.shape_mut().element
            && let Some((to, at)) =
                new_addresses.get(&(element.held.buffer, element.address.clone()))
        {
            (element.held.buffer, *element.address) = (*to, at.clone());
        }
        stmt.blocks_mut().into_iter().for_each(|inside| rewrite(inside, new_addresses));
    }
}

/// Promotes saved scalars of straight-line code to variables, if there are at most `REGISTERS` of them. Returns whether
/// there were any.
fn in_registers(kernel: &mut Kernel) -> bool {
    let sites = Sites::of(kernel);
    let alone = |id: &BufferId| {
        let sites = sites.all.get(id).map(Vec::as_slice).unwrap_or_default();
        kernel.buffers[*id].ty.shape.elements() == 1
            && sites.iter().filter(|site| site.write).count() == 1
            && sites.iter().all(|site| site.loops.iter().all(|l| l.1 == 1))
    };
    let ids = kernel.buffers.keys().filter(|id| is_kept(kernel, *id) && !sites.whole.contains(id));
    let ids: Vec<BufferId> = ids.filter(alone).collect();
    if ids.is_empty() || ids.len() > REGISTERS {
        return false;
    }
    let mut vars = BTreeMap::new();
    for id in ids {
        let dtype = kernel.buffers[id].ty.dtype;
        let var = kernel.vars.push(dtype);
        kernel.kept.shift_remove(&BufferVersion::first(id));
        let declared = Stmt::Var { var, init: Arg::Literal(Literal::zero(dtype)) };
        kernel.body.insert(vars.len(), declared);
        vars.insert(id, var);
    }
    kernel.rewrite(|kernel, body| as_variables(kernel, body, &vars));
    true
}

fn as_variables(kernel: &Kernel, body: &mut [Stmt], vars: &BTreeMap<BufferId, VarId>) {
    for stmt in body {
        if let Stmt::Let { value, expr } = stmt
            && let Expr::Load { held, .. } = expr
            && let Some(var) = vars.get(&held.buffer)
        {
            *expr = Expr::Code(Code::Convert(kernel.scalars[*value]), vec![Arg::Var(*var)]);
        }
        if let Stmt::Store { held, value, .. } = stmt
            && let Some(var) = vars.get(&held.buffer)
        {
            *stmt = Stmt::Set { var: *var, value: *value };
        }
        for inside in stmt.blocks_mut() {
            as_variables(kernel, inside, vars);
        }
        // A loop whose iterations set a variable declared outside must be serial, even if it has one iteration.
        if let Stmt::For { parallelism, body, .. } = stmt {
            visit(body, &mut |stmt| {
                if let Stmt::Set { var, .. } = stmt
                    && vars.values().any(|kept| kept == var)
                {
                    *parallelism = Parallelism::Serial;
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::split_arrays;
    use crate::loop_ir::{eval, parse, shadow, verify};
    use tapeloom_ir::Tensor;

    /// Returns the program after the pass. Checks that it is valid and computes the same results.
    #[track_caller]
    fn taken(body: &str) -> String {
        let text = format!(
            "program @x {{ workspace 384 buffer b0: f64[24] input 0 buffer b1: f64[24] output 0
               buffer b2: f64[24] workspace 0 kept tape {body} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        let x = [(0..24).map(|i| f64::from(i).sqrt()).collect::<Tensor>()];
        let want = shadow(&program, &x).unwrap();
        split_arrays(&mut program);
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(shadow(&program, &x).unwrap(), want, "{program}");
        assert_eq!(eval(&program, &x).unwrap(), want, "{program}");
        program.to_string()
    }

    const PAIRS: &str = "serial i0 in 3 { serial i1 in 4 {
        %0: f64 = load b0[i0*8 + i1*2] store b2[i0*8 + i1*2], %0
        %1: f64 = load b0[i0*8 + i1*2 + 1] store b2[i0*8 + i1*2 + 1], %1 } }";

    #[test]
    fn reversed_loops_read_their_own_stores() {
        let text = taken(&format!(
            "{PAIRS} serial i2 in 3 {{ serial i3 in 4 {{
               %2: f64 = load b2[i2*-8 + i3*-2 + 23] store b1[i2*8 + i3*2], %2
               %3: f64 = load b2[i2*-8 + i3*-2 + 22] store b1[i2*8 + i3*2 + 1], %3 }} }}"
        ));
        assert!(text.contains("store b4[i0*4 + i1], %1"), "{text}");
        assert!(text.contains("%2: f64 = load b4[i2*-4 + i3*-1 + 11]"), "{text}");
        assert!(text.contains("%3: f64 = load b3[i2*-4 + i3*-1 + 11]"), "{text}");
    }

    #[test]
    fn arrays_with_other_accesses_stay_whole() {
        for body in [
            "for i2 in 24 { %2: f64 = load b2[i2] store b1[i2], %2 }",
            "for i2 in 4 { for i3 in 6 { %2: f64 = load b2[i3*4 + i2] store b1[i2*6 + i3], %2 } }",
            "for i2 in 3 { for i3 in 4 { for i4 in (2) { %2: f64 = load b2[i2*8 + i3*2 + i4]
               store b1[i2*8 + i3*2 + i4], %2 } } }",
        ] {
            let text = taken(&format!("{PAIRS} {body}"));
            assert!(!text.contains("buffer b3"), "{text}");
        }
    }

    #[test]
    fn swapped_arrays_stay_whole() {
        let body = "buffer b3: f64[24] workspace 192 for i9 in 24 { store b3[i9], 0.5 }
            serial i0 in 1 carry b3 = b2 { serial i1 in 12 {
              %0: f64 = load b3[i1*2] store b2[i1*2], %0 %1: f64 = load b0[i1] store b2[i1*2 + 1], %1 } }
            for i2 in 24 { %2: f64 = load b3[i2] store b1[i2], %2 }";
        let text = taken(body);
        assert!(!text.contains("buffer b4"), "{text}");
    }

    #[test]
    fn straight_code_keeps_in_registers() {
        let (mut stores, mut loads) = (String::new(), String::new());
        for n in 0..24 {
            stores += &format!("%{n}: f64 = load b0[{n}] store b2[{n}], %{n} ");
            loads += &format!("%{0}: f64 = load b2[{n}] store b1[{n}], %{0} ", n + 24);
        }
        // A loop of one iteration is promoted, too. It becomes serial, since it sets a variable from outside.
        for (around, then) in [("nest", "nest"), ("for i0 in 1", "serial i0 in 1")] {
            let text = taken(&format!("{around} {{ {stores} }} nest {{ {loads} }}"));
            assert!(!text.contains("kept") && text.contains("convert{to=f64} v23"), "{text}");
            assert!(text.contains(then), "{text}");
        }
    }
}
