//! Apart: what different statements keep are different arrays.
//!
//! A compiler that differentiates code gives every value that is kept an array of its own, with an element for
//! each time that the statement runs. So copies of an iteration, in unrolled code, fill an array each:
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
//! An array is taken apart where it is filled by several statements, each in loops of constant extent, and where each
//! load reads what one of them has stored, loop by loop in the same order or in the opposite one. Then the record
//! that a [layout](crate::layout) makes of what a block stores is that of the unrolled block.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::{
    Address, Arg, Buffer, BufferId, BufferVersion, Expr, Extent, Flow, IndexId, Kernel,
    Parallelism, Place, Program, Stmt, VarId, visit,
};
use std::collections::{BTreeMap, BTreeSet};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{ArrayType, Code, Literal, Shape};

/// The pass as a row.
pub(super) const PASS: Pass = Pass {
    name: "split_arrays",
    about: "what different statements keep is in different arrays",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Program(|program, _| {
        split_arrays(program);
        Ok(())
    }),
};

/// So many values that straight code keeps are in registers: of the simulated machine of the study, not of a machine
/// model.
const REGISTERS: usize = 64;

/// Larger arrays stay whole.
const MOST_ELEMENTS: usize = 1 << 24;

/// Gives every statement that fills a part of a kept array an array of its own.
fn split_arrays(program: &mut Program) {
    let kernel = &mut program.entry;
    let (mut sites, mut loops) = (Sites::default(), Vec::new());
    kernel.body.iter().for_each(|step| sites.stmt(step, &mut loops, true));
    let ids: Vec<BufferId> = kernel.buffers.keys().filter(|id| is_kept(kernel, *id)).collect();
    let mut parts: Vec<Part> = Vec::new();
    for id in ids.iter().filter(|id| !sites.whole.contains(*id)) {
        let elements = kernel.buffers[*id].ty.shape.elements();
        parts.extend(sites.parts(*id, elements).unwrap_or_default());
    }
    // In the order in which statements stand.
    parts.sort_by_key(|part| part.at);
    let mut homes = BTreeMap::new();
    for part in parts {
        let ty = &kernel.buffers[part.of].ty;
        let ty = ArrayType { shape: Shape::from_iter([part.elements]), dtype: ty.dtype };
        let at = kernel.workspace.next_multiple_of(64);
        kernel.workspace = at + ty.bytes();
        let buffer = kernel.buffers.push(Buffer::new(ty, Place::Workspace(at)));
        let names = kernel.kept.get(&BufferVersion::first(part.of)).cloned();
        names
            .into_iter()
            .flatten()
            .for_each(|name| kernel.keep(BufferVersion::first(buffer), name));
        for (from, to) in part.addresses {
            homes.insert((part.of, key(&from)), (buffer, to));
        }
    }
    kernel.kept.retain(|held, _| !homes.keys().any(|(of, _)| *of == held.buffer));
    rewrite(&mut kernel.body, &homes);
    in_registers(kernel);
}

/// Whether a buffer holds one value, which is kept.
fn is_kept(k: &Kernel, id: BufferId) -> bool {
    matches!(k.buffers[id].place, Place::Workspace(_))
        && k.versions[id].is_empty()
        && k.kept.contains_key(&BufferVersion::first(id))
}

/// What is compared of an address without a scalar.
type Key = (i64, Vec<(IndexId, i64)>);

fn key(address: &Address) -> Key {
    (address.offset, address.terms.clone())
}

/// Where one access is.
struct Site {
    at: usize,
    write: bool,
    /// The loops around it, outer ones first.
    loops: Vec<(IndexId, i64)>,
    address: Address,
}

/// Where buffers are filled and read.
#[derive(Default)]
struct Sites {
    all: BTreeMap<BufferId, Vec<Site>>,
    /// Buffers that stay as they are.
    whole: BTreeSet<BufferId>,
    count: usize,
}

/// What one statement fills: an array to come.
struct Part {
    at: usize,
    of: BufferId,
    elements: usize,
    /// The addresses that read and write it, and what they are there.
    addresses: Vec<(Address, Address)>,
}

impl Sites {
    /// Of a statement in those loops, that certainly happens in each iteration or may not.
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
        // What takes turns with another one has two names.
        for carry in shape.carries {
            self.whole.extend([carry.now.buffer, carry.next.buffer]);
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

    /// The parts of a buffer, if there are several, each filled by one statement, element by element.
    fn parts(&self, id: BufferId, elements: usize) -> Option<Vec<Part>> {
        let sites = self.all.get(&id)?;
        let (stores, loads): (Vec<&Site>, Vec<&Site>) = sites.iter().partition(|site| site.write);
        if stores.len() < 2 || elements > MOST_ELEMENTS {
            return None;
        }
        let mut filled = vec![false; elements];
        let mut parts = Vec::with_capacity(stores.len());
        for store in &stores {
            let nest = Nest::of(store)?;
            nest.fill(&mut filled)?;
            let elements = nest.terms.iter().map(|term| term.iterations).product::<i64>() as usize;
            let addresses = vec![(store.address.clone(), nest.of_load(&nest)?)];
            parts.push((nest, Part { at: store.at, of: id, elements, addresses }));
        }
        for load in loads {
            let read = Nest::of(load)?;
            let mut from =
                parts.iter_mut().filter_map(|(nest, part)| Some((nest.of_load(&read)?, part)));
            let (address, part) = from.next()?;
            part.addresses.push((load.address.clone(), address));
        }
        Some(parts.into_iter().map(|(_, part)| part).collect())
    }
}

/// A loop around an access, and how far that goes with it.
#[derive(Clone, Copy)]
struct Term {
    index: IndexId,
    iterations: i64,
    stride: i64,
}

/// Where an access goes, outer loops first; of one iteration none.
struct Nest {
    offset: i64,
    terms: Vec<Term>,
}

impl Nest {
    /// `None` where it is at one place in several iterations, or goes with a loop whose iterations only the run knows.
    fn of(site: &Site) -> Option<Nest> {
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
        moves.then_some(Nest { offset: site.address.offset, terms })
    }

    /// Marks what is stored; `None` where something is stored twice.
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

    /// What a load that reads what this stores, loop by loop in the same order or in the opposite one, reads of an
    /// array of only that.
    fn of_load(&self, load: &Nest) -> Option<Address> {
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

fn rewrite(body: &mut [Stmt], homes: &BTreeMap<(BufferId, Key), (BufferId, Address)>) {
    for stmt in body {
        if let Some(element) = stmt.shape_mut().element
            && let Some((to, at)) = homes.get(&(element.held.buffer, key(element.address)))
        {
            (element.held.buffer, *element.address) = (*to, at.clone());
        }
        stmt.blocks_mut().into_iter().for_each(|inside| rewrite(inside, homes));
    }
}

/// What straight code keeps, outside of loops, is a value like any other: in a register, as long as there are some.
fn in_registers(kernel: &mut Kernel) {
    let (mut sites, mut loops) = (Sites::default(), Vec::new());
    kernel.body.iter().for_each(|step| sites.stmt(step, &mut loops, true));
    let alone = |id: &BufferId| {
        let sites = sites.all.get(id).map(Vec::as_slice).unwrap_or_default();
        kernel.buffers[*id].ty.shape.elements() == 1
            && sites.iter().filter(|site| site.write).count() == 1
            && sites.iter().all(|site| site.loops.iter().all(|l| l.1 == 1))
    };
    let ids = kernel.buffers.keys().filter(|id| is_kept(kernel, *id) && !sites.whole.contains(id));
    let ids: Vec<BufferId> = ids.filter(alone).collect();
    if ids.len() > REGISTERS {
        return;
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
        // Parallelism that set a variable from outside depend on each other, even if there is one.
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

    /// The program with its arrays apart; it is valid, and gives the same.
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
    fn loops_that_are_turned_iteration_read_what_they_have_stored() {
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
    fn what_is_read_otherwise_stays_whole() {
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
    fn what_takes_turns_stays_whole() {
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
        // So does a single iteration, which is in order then, since it sets what lies outside.
        for (around, then) in [("nest", "nest"), ("for i0 in 1", "serial i0 in 1")] {
            let text = taken(&format!("{around} {{ {stores} }} nest {{ {loads} }}"));
            assert!(!text.contains("kept") && text.contains("convert{to=f64} v23"), "{text}");
            assert!(text.contains(then), "{text}");
        }
    }
}
