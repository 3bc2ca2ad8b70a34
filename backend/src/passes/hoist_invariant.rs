//! Loop-invariant code motion with array expansion: values of an inner loop that are equal in all iterations of the
//! outer loop are computed once, into an array.
//!
//! ```text
//! serial i0 in 10 {                                nest {
//!   for i1 in 800 {                                  for i2 in 800 {
//!     %0: f64 = load b0[i1]                            %3: f64 = load b0[i2]
//!     %1: f64 = div %0, 255.0                          %4: f64 = div %3, 255.0
//!     %2: f64 = load b1[i0*800 + i1]        ->         store b3[i2], %4
//!     %3: f64 = mul %1, %2                           }
//!     ..                                             serial i0 in 10 {
//!                                                      for i1 in 800 {
//!                                                        %1: f64 = load b3[i1]
//!                                                        ..
//! ```
//!
//! Such values arise where scalar code computes a value in the innermost loop that depends on one counter only, and
//! where a checkpointing plan recomputes a residual in each iteration of the reverse pass. The array is in the
//! workspace. It is worth its memory if the arithmetic costs more than a load, the outer
//! loop has enough iterations, and either there are no more loads than before or the array fits into the cache. Loops
//! inside parallel loops are excluded, because parallel iterations would write to the same array.

use super::pass::{Hoisted, Invariant, Pass, Run};
use crate::loop_ir::analysis::invariance::VaryingValues;
use crate::loop_ir::analysis::value_range::ValueRanges;
use crate::loop_ir::dead_code::{drop_unread, slice};
use crate::loop_ir::{
    Address, Arg, BufferVersion, Expr, Extent, Flow, IndexId, Kernel, Origins, Parallelism,
    Rewriter, ScalarId, Stmt, visit,
};
use crate::machine::MachineModel;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, OrderedMap, OrderedSet};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "hoist_invariant",
    about: "values of an inner loop that are the same in every iteration of the outer loop are computed once, into an array",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Program(|program, context| {
        let mut changed = false;
        for kernel in program.callees.values_mut() {
            changed |= !hoist_invariant(kernel, context.machine).is_empty();
        }
        context.hoisted = hoist_invariant(&mut program.entry, context.machine);
        // Hoisted arrays enlarge the workspaces of called kernels, so plan the memory of all kernels again.
        if changed {
            program.renew_frames();
        }
        Ok(changed || !context.hoisted.is_empty())
    }),
};

/// Hoists values out of the loops of a kernel. Returns the arrays that hold them.
fn hoist_invariant(kernel: &mut Kernel, machine: MachineModel) -> Vec<Hoisted> {
    let mut body = std::mem::take(&mut kernel.body);
    let mut hoist = Hoist { kernel, machine, made: Vec::new(), side_by_side: false };
    for stmt in &mut body {
        let first = hoist.stmt(stmt);
        if !first.is_empty() {
            // Reports refer to top-level statements by position, so the replacement must be one statement (a nest).
            let origins = stmt.own_origins();
            let rest = std::mem::replace(stmt, Stmt::Nest { body: first, origins });
            if let Stmt::Nest { body, .. } = stmt {
                body.push(rest);
            }
        }
    }
    let Hoist { kernel, made, .. } = hoist;
    kernel.body = body;
    made
}

struct Hoist<'a> {
    kernel: &'a mut Kernel,
    machine: MachineModel,
    made: Vec<Hoisted>,
    /// Whether a surrounding loop is not serial. Nothing is hoisted inside such a loop, because all its iterations
    /// would write to the same array.
    side_by_side: bool,
}

impl Hoist<'_> {
    fn block(&mut self, body: &mut Vec<Stmt>) {
        for mut stmt in std::mem::take(body) {
            body.append(&mut self.stmt(&mut stmt));
            body.push(stmt);
        }
    }

    /// Hoists values out of a loop. Returns the loops that fill the arrays, which must run before `stmt`.
    fn stmt(&mut self, stmt: &mut Stmt) -> Vec<Stmt> {
        let mut first = Vec::new();
        if let (Stmt::For { extent: Extent::Constant(_), .. }, false) = (&*stmt, self.side_by_side)
        {
            let varies = VaryingValues::of(std::slice::from_ref(stmt));
            self.inner(stmt, 1, &varies, &mut first);
        }
        let before = self.side_by_side;
        self.side_by_side |=
            matches!(stmt, Stmt::For { parallelism, .. } if *parallelism != Parallelism::Serial);
        stmt.blocks_mut().into_iter().for_each(|inside| self.block(inside));
        self.side_by_side = before;
        first
    }

    /// Hoists values out of the inner loops that certainly run. `times` is the number of times that `stmt` runs: the
    /// product of the trip counts from the outer loop inwards.
    fn inner(
        &mut self,
        stmt: &mut Stmt,
        times: usize,
        varies: &VaryingValues,
        first: &mut Vec<Stmt>,
    ) {
        let (flow, origins) = (stmt.shape().flow, stmt.own_origins());
        for body in stmt.blocks_mut() {
            let times = match flow {
                Flow::Nest => times,
                Flow::For { index, extent: Extent::Constant(n), .. } => {
                    if times >= self.machine.hoisted_iterations {
                        first.extend(self.common((index, n), body, varies, &origins));
                    }
                    times.saturating_mul(n)
                }
                // Skip blocks that run conditionally or whose trip count is not constant.
                Flow::Straight
                | Flow::For { extent: Extent::Scalar(_), .. }
                | Flow::While
                | Flow::If => return,
            };
            body.iter_mut().for_each(|s| self.inner(s, times, varies, first));
        }
    }

    /// Moves the expensive invariant values of an inner loop into an array. Returns the loop that fills the array; it
    /// has the origins (equations with the user's lines) of the inner loop.
    fn common(
        &mut self,
        (index, iterations): (IndexId, usize),
        body: &mut Vec<Stmt>,
        varies: &VaryingValues,
        origins: &Origins,
    ) -> Option<Stmt> {
        // This function runs for each pair of nested loops, so return early for the common body without expensive
        // arithmetic.
        let costs = |code: Code| code.row().flops as usize > self.machine.recomputed_flops;
        if !body.iter().any(|stmt| stmt.shape().code.is_some_and(costs)) {
            return None;
        }
        let varies = varies.clone().fix_index(index);
        let invariant = InvariantValues::of(self.kernel, self.machine, body, varies);
        let wanted = invariant.wanted(body);
        if wanted.is_empty()
            || !(iterations <= self.machine.cached_elements
                || wanted.len() <= invariant.saved_loads(body, &wanted))
        {
            return None;
        }
        let is_same = |s: &&Stmt| s.defined().is_some_and(|v| invariant.values.contains(&v));
        let mut needed: Vec<Stmt> = body.iter().filter(is_same).cloned().collect();
        slice(&mut needed, &wanted);
        let bounds = address_bounds(self.kernel, (index, iterations), &needed, &wanted, body);
        let mut fresh = Fresh {
            kernel: self.kernel,
            index,
            own: IndexId::from_u32(0),
            names: OrderedMap::default(),
        };
        fresh.own = fresh.kernel.fresh_index();
        let mut ahead = fresh.block(&needed);
        let (own, names) = (fresh.own, fresh.names);
        for value in &wanted {
            let ty = ArrayType::new(self.kernel.scalars[*value], [iterations]);
            let buffer = self.kernel.scratch(ty);
            let element = |i: IndexId| Address { terms: vec![(i, 1)], ..Address::default() };
            let given = Arg::Scalar(names[value]);
            let (held, guard) = (BufferVersion::first(buffer), None);
            ahead.push(Stmt::Store { held, address: element(own), value: given, guard });
            let Some(at) = body.iter().position(|stmt| stmt.defined() == Some(*value)) else {
                continue;
            };
            if let Stmt::Let { expr: Expr::Code(code, _), .. } = &body[at] {
                self.made.push(Hoisted { buffer, operation: code.row().name });
            }
            let load = Expr::Load { held, address: element(index), guard };
            match bounds.iter().find(|(bounded, _)| bounded == value) {
                None => body[at] = Stmt::Let { value: *value, expr: load },
                Some((_, [least, most])) => {
                    let loaded = self.kernel.scalars.push(self.kernel.scalars[*value]);
                    let args = vec![*least, Arg::Scalar(loaded), *most];
                    body[at] = Stmt::Let { value: loaded, expr: load };
                    let clamped = Expr::Code(Code::Clamp, args);
                    body.insert(at + 1, Stmt::Let { value: *value, expr: clamped });
                }
            }
        }
        drop_unread(body, &|v| invariant.values.contains(&v));
        let (extent, carries) = (Extent::Constant(iterations), Vec::new());
        Some(Stmt::For {
            index: own,
            extent,
            parallelism: Parallelism::Parallel,
            lanes: 1,
            carries,
            body: ahead,
            origins: origins.clone(),
        })
    }
}

/// The values of an inner loop that are equal in all iterations of the outer loop.
struct InvariantValues {
    values: OrderedSet<ScalarId>,
    /// The invariant values whose arithmetic costs more than a load.
    expensive: OrderedSet<ScalarId>,
}

impl InvariantValues {
    /// Returns the values in `body` that are equal in all iterations of the outer loop; `varies` holds the
    /// values that the outer loop changes.
    fn of(
        kernel: &Kernel,
        machine: MachineModel,
        body: &[Stmt],
        mut varies: VaryingValues,
    ) -> InvariantValues {
        let mut invariant =
            InvariantValues { values: OrderedSet::default(), expensive: OrderedSet::default() };
        for stmt in body {
            let Stmt::Let { value, expr } = stmt else { continue };
            if !varies.is_all_fixed(stmt) {
                continue;
            }
            match expr {
                Expr::Code(code, args) => {
                    let costs = code.row().flops as usize > machine.recomputed_flops;
                    let within =
                        |a: &Arg| matches!(a, Arg::Scalar(s) if invariant.expensive.contains(s));
                    if costs || args.iter().any(within) {
                        invariant.expensive.insert(*value);
                    }
                }
                Expr::Load { address, guard, .. } => {
                    let plain = address.dynamic.is_none() && guard.is_none();
                    let kept = stmt
                        .shape()
                        .element
                        .is_some_and(|e| varies.is_unchanged(kernel, e.held.buffer));
                    if !plain || !(kept || planted(Fault::AheadOfWrites)) {
                        continue;
                    }
                }
            }
            varies.fix(Some(*value));
            invariant.values.insert(*value);
        }
        invariant
    }

    /// Returns the expensive invariant values that statements with varying values read.
    fn wanted(&self, body: &[Stmt]) -> Vec<ScalarId> {
        let mut read = OrderedSet::default();
        visit(body, &mut |s| {
            if !s.defined().is_some_and(|v| self.values.contains(&v)) {
                s.args(&mut |a| read.extend(scalar(a)));
            }
        });
        self.expensive.iter().copied().filter(|v| read.contains(v)).collect()
    }

    /// Returns the number of loads per iteration that become dead if the `wanted` values are loaded from the array
    /// instead of computed.
    fn saved_loads(&self, body: &[Stmt], wanted: &[ScalarId]) -> usize {
        let mut rest = body.to_vec();
        rest.retain(|s| !s.defined().is_some_and(|v| wanted.contains(&v)));
        let loads = |body: &[Stmt]| {
            body.iter().filter(|s| matches!(s, Stmt::Let { expr: Expr::Load { .. }, .. })).count()
        };
        let before = loads(&rest);
        drop_unread(&mut rest, &|v| self.values.contains(&v));
        before - loads(&rest)
    }
}

/// Returns the least and the greatest value of each `wanted` integer with which `body` addresses memory, as computed by
/// `needed` in a loop. A number that is loaded from an array has no range, so it is clamped to these values: then the
/// accesses stay proved.
fn address_bounds(
    kernel: &Kernel,
    (index, iterations): (IndexId, usize),
    needed: &[Stmt],
    wanted: &[ScalarId],
    body: &[Stmt],
) -> Vec<(ScalarId, [Arg; 2])> {
    let mut addressed = OrderedSet::default();
    visit(body, &mut |stmt| {
        stmt.accesses(&mut |access| addressed.extend(access.address.dynamic.and_then(scalar)));
    });
    let mut ranges = ValueRanges::of(kernel);
    ranges.count(index, Extent::Constant(iterations));
    for stmt in needed {
        if let Stmt::Let { value, expr } = stmt {
            ranges.define(*value, expr);
        }
    }
    let bounds = |value: &ScalarId| {
        let address = Address { dynamic: Some(Arg::Scalar(*value)), ..Address::default() };
        let Interval { least, most } = ranges.address(&address, None)?;
        let number = |n: i128| Some(Arg::Literal(Literal::i64(i64::try_from(n).ok()?)));
        let narrow = kernel.scalars[*value] == Dtype::I64 && (least, most) != ALL;
        narrow.then_some((*value, [number(least)?, number(most)?]))
    };
    wanted.iter().filter(|value| addressed.contains(*value)).filter_map(bounds).collect()
}

/// The ends of the range of an i64 of which nothing is known.
const ALL: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);

fn scalar(arg: Arg) -> Option<ScalarId> {
    if let Arg::Scalar(s) = arg { Some(s) } else { None }
}

/// A rewriter that copies straight-line code with new names for its values, into a loop with another index.
struct Fresh<'a> {
    kernel: &'a mut Kernel,
    index: IndexId,
    own: IndexId,
    names: OrderedMap<ScalarId, ScalarId>,
}

impl Rewriter for Fresh<'_> {
    fn arg(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Scalar(s) => Arg::Scalar(self.names.get(&s).copied().unwrap_or(s)),
            Arg::Index(i) if i == self.index => Arg::Index(self.own),
            Arg::Index(_) | Arg::Var(_) | Arg::Literal(_) => arg,
        }
    }

    fn scalar(&mut self, value: ScalarId) -> ScalarId {
        let fresh = self.kernel.scalars.push(self.kernel.scalars[value]);
        self.names.insert(value, fresh);
        fresh
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{Hoisted, hoist_invariant};
    use crate::loop_ir::{Buffer, Place, eval, parse, shadow, verify};
    use crate::machine::MachineModel;
    use tapeloom_ir::Tensor;

    /// Runs the pass, checks that results stay bit-identical, and expects `expected` hoisted arrays.
    #[track_caller]
    fn check(body: &str, expected: usize) -> String {
        let text = format!(
            "program @x {{ workspace 40 buffer b0: f64[8] input 0 buffer b1: f64[5,8] output 0
               buffer b2: f64[5] workspace 0 {body} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        assert_eq!(verify(&program), []);
        let x = [Tensor::from([1.0, 2.0, 4.0, 8.0, 0.3, 0.7, -5.0, 1e300])];
        let (want, steps) = (eval(&program, &x).unwrap(), program.entry.body.len());
        let made = hoist_invariant(&mut program.entry, MachineModel::MEASURED);
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(eval(&program, &x).unwrap(), want, "{program}");
        assert_eq!(shadow(&program, &x).unwrap(), want, "{program}");
        assert_eq!(program.entry.body.len(), steps);
        assert_eq!(made.len(), expected, "{program}");
        // The program has a buffer of 40 bytes, and the arrays are placed behind it, so the workspace ends behind the
        // arrays.
        let end = |hoisted: &Hoisted| {
            let Buffer { ty, place, .. } = &program.entry.buffers[hoisted.buffer];
            let Place::Workspace(offset) = place else { panic!("{program}") };
            assert!(*offset >= 64, "{program}");
            offset + ty.bytes()
        };
        assert_eq!(program.entry.workspace, made.iter().map(end).max().unwrap_or(40));
        program.to_string()
    }

    #[test]
    fn invariant_values_are_hoisted() {
        let divided = "%0: f64 = load b0[i1] %1: f64 = div %0, 255.0 %2: f64 = convert{to=f64} i0
            %3: f64 = mul %1, %2 store b1[i0*8 + i1], %3";
        let text = check(&format!("for i0 in 5 {{ for i1 in 8 {{ {divided} }} }}"), 1);
        assert!(
            text.contains("for i0 in 5 {\n      for i1 in 8 {\n        %1: f64 = load b3[i1]\n"),
            "{text}"
        );
        // A value that depends on the inner counter alone is hoisted out of a serial sum.
        check(
            "serial i0 in 5 { var v0: f64 = 0.0 serial i1 in 8 { %0: f64 = convert{to=f64} i1 %1: f64 = sqrt %0
               %2: f64 = add v0, %1 v0 = %2 store b1[i0*8 + i1], %2 } }",
            1,
        );
        // In three nested loops, a value is hoisted once, out of the outermost loop; two different values give two
        // arrays.
        check(
            &format!("for i2 in 4 {{ for i0 in 5 {{ for i1 in 8 {{ {divided} }} }} }}")
                .replace("for i2", "serial i2")
                .replace("for i0", "serial i0"),
            1,
        );
        check(
            "for i0 in 5 { for i1 in 8 { %0: f64 = load b0[i1] %1: f64 = div %0, 3.0 %2: f64 = load b0[i1*-1 + 7]
               %3: f64 = sqrt %2 %4: f64 = convert{to=f64} i0 %5: f64 = mul %4, %3 %6: f64 = add %5, %1
               store b1[i0*8 + i1], %6 } }",
            2,
        );
    }

    #[test]
    fn cheap_rare_and_varying_values_stay() {
        let with = |outer: usize, what: &str| {
            format!(
                "for i0 in {outer} {{ for i1 in 8 {{ %0: f64 = load b0[i1] {what}
                   %2: f64 = convert{{to=f64}} i0 %3: f64 = mul %1, %2 store b1[i0*8 + i1], %3 }} }}"
            )
        };
        check(&with(5, "%1: f64 = mul %0, 3.0"), 0);
        check(&with(3, "%1: f64 = div %0, 3.0").replace("f64[5,8]", "f64[3,8]"), 0);
        check(&with(5, "%9: f64 = convert{to=f64} i0 %1: f64 = div %0, %9"), 0);
        // A parallel loop around both loops prevents hoisting, because its iterations would share the array.
        let within = "i2 in 2 { serial i0 in 4 { serial i1 in 5 { %0: f64 = load b0[i1 + i2] %1: f64 = div %0, 3.0
            %2: f64 = convert{to=f64} i0 %3: f64 = mul %1, %2 store b1[i2*20 + i0*5 + i1], %3 } } }";
        check(&format!("for {within}"), 0);
        check(&format!("serial {within}"), 1);
        // Each iteration reads a value that the previous one has stored, so nothing is hoisted.
        check(
            "for i9 in 8 { store b1[i9], 2.0 } serial i0 in 4 { serial i1 in 8 { %0: f64 = load b1[i1]
               %1: f64 = div %0, 3.0 store b1[i1], %1 store b1[i0*8 + i1 + 8], %1 } }",
            0,
        );
    }
}
