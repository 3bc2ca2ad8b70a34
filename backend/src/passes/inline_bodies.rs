//! Inlining of loop and branch bodies.
//!
//! Lowering emits the body of a loop or a branch as a separate kernel and a call of it. So the memory of a body is
//! planned like that of any callee, the call names the memory that the body reads and writes, and
//! [`shadow`](crate::loop_ir::shadow) distinguishes versions of buffers (the values that a buffer holds one after the
//! other) in the body and in the caller. Before code generation, the statements of the body replace the call:
//!
//! ```text
//! kernel k0 @step inline {                        serial i0 in 100 {
//!   buffer b0: f64[] input 0 output 0
//!   buffer b1: f64[] input 1                  ->    %0: f64 = load b0[0]
//!   %0: f64 = load b0[0]                            %1: f64 = load b1[i0]
//!   %1: f64 = load b1[0]                            %2: f64 = mul %0, %1
//!   %2: f64 = mul %0, %1                            store b0[0], %2
//!   store b0[0], %2
//! }                                               }
//! .. serial i0 in 100 { call k0(b0[0; 1], b1[i0; 1]) to (b0[0; 1]) frame 0 }
//! ```
//!
//! Buffer versions were checked before inlining, so in the inlined body each buffer has only one version.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::loop_limits::unlimit;
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Call, Carry, CursorId, IndexId, Kernel, KernelId, Place,
    Program, Rewriter, ScalarId, Stmt, VarId, View, infer_parallelism, visit,
};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "inline_bodies",
    about: "calls of the bodies of loops and branches are inlined",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Program(|program, _| Ok(inline_bodies(program))),
};

/// Inlines the kernels marked `inline`, and drops kernels without a remaining call. A call is kept if an operand's
/// address is known only at run time, or if the callee exchanges its arguments or results. Returns whether the program
/// changed.
pub(super) fn inline_bodies(program: &mut Program) -> bool {
    if !program.callees.values().any(|k| k.inline) {
        return false;
    }
    let (mut changed, before) = (false, program.callees.len());
    let mut callees: PrimaryMap<KernelId, Kernel> = PrimaryMap::new();
    for mut kernel in std::mem::take(&mut program.callees).into_iter().map(|(_, k)| k) {
        changed |= spliced(&mut kernel, &callees);
        callees.push(kernel);
    }
    changed |= spliced(&mut program.entry, &callees);
    program.callees = callees;
    drop_unused(program);
    changed || program.callees.len() < before
}

fn spliced(kernel: &mut Kernel, callees: &PrimaryMap<KernelId, Kernel>) -> bool {
    let changed = kernel.rewrite(|kernel, body| block(kernel, callees, body));
    if changed {
        // After inlining, more trip counts and memory accesses are visible: remove iteration limits that are no longer
        // needed, and infer again which loops are parallel.
        unlimit(kernel);
        infer_parallelism(kernel);
    }
    changed
}

/// Inlines calls in a block and in its nested blocks. Returns whether a call was inlined.
fn block(kernel: &mut Kernel, callees: &PrimaryMap<KernelId, Kernel>, body: &mut [Stmt]) -> bool {
    let mut changed = false;
    for stmt in body {
        match stmt {
            Stmt::Call(c) if callees[c.callee].inline && fits(c, &callees[c.callee]) => {
                let (body, origins) = (Body::of(kernel, &callees[c.callee], c), c.origins.clone());
                *stmt = Stmt::Nest { body, origins };
                changed = true;
            }
            other => {
                for inside in other.blocks_mut() {
                    changed |= block(kernel, callees, inside);
                }
            }
        }
    }
    changed
}

/// Returns whether a call can be inlined: all operands have addresses that depend only on loop indices, and the callee
/// exchanges only buffers of its own workspace. An argument or result may be a part of a larger buffer of the caller,
/// and a part cannot be exchanged.
fn fits(call: &Call, callee: &Kernel) -> bool {
    let mut own = true;
    visit(&callee.body, &mut |s| {
        for Carry { input, output } in
            s.carries().iter().filter(|c| c.input.buffer != c.output.buffer)
        {
            let workspace = |h: &BufferVersion| match callee.buffers[h.buffer].place {
                Place::Workspace(_) => true,
                Place::Input(_)
                | Place::Output(_)
                | Place::Donated { .. }
                | Place::Private(_)
                | Place::Unplaced
                | Place::Record { .. } => false,
            };
            own &= workspace(input) && workspace(output);
        }
    });
    own && call.operands.iter().chain(&call.outputs).all(|v| v.at.dynamic.is_none())
}

/// Drops the kernels that are not called, and renumbers the others.
fn drop_unused(program: &mut Program) {
    let mut called: SecondaryMap<KernelId, bool> = SecondaryMap::new();
    let mark = |kernel: &Kernel| {
        let mut found = Vec::new();
        visit(&kernel.body, &mut |s| {
            if let Stmt::Call(c) = s {
                found.push(c.callee);
            }
        });
        found
    };
    mark(&program.entry).into_iter().for_each(|k| called[k] = true);
    for (id, kernel) in program.callees.iter().rev() {
        if called[id] {
            mark(kernel).into_iter().for_each(|k| called[k] = true);
        }
    }
    let mut new: SecondaryMap<KernelId, KernelId> = SecondaryMap::with_default(KernelId::new(0));
    for (id, mut kernel) in std::mem::take(&mut program.callees) {
        if called[id] {
            renumber(&mut kernel.body, &new);
            new[id] = program.callees.push(kernel);
        }
    }
    renumber(&mut program.entry.body, &new);
}

fn renumber(body: &mut [Stmt], new: &SecondaryMap<KernelId, KernelId>) {
    for stmt in body {
        if let Stmt::Call(c) = stmt {
            c.callee = new[c.callee];
        }
        stmt.blocks_mut().into_iter().for_each(|b| renumber(b, new));
    }
}

/// A rewriter that copies a callee's body into the calling kernel.
struct Body<'a> {
    kernel: &'a mut Kernel,
    callee: &'a Kernel,
    call: &'a Call,
    /// For each buffer of the callee in its workspace or in a tape record: the new buffer in the caller.
    own: SecondaryMap<BufferId, Option<BufferId>>,
    scalars: SecondaryMap<ScalarId, Option<ScalarId>>,
    vars: SecondaryMap<VarId, Option<VarId>>,
    indices: SecondaryMap<IndexId, Option<IndexId>>,
    cursors: SecondaryMap<CursorId, Option<CursorId>>,
}

impl Body<'_> {
    fn of(kernel: &mut Kernel, callee: &Kernel, call: &Call) -> Vec<Stmt> {
        let (own, scalars) = (SecondaryMap::new(), SecondaryMap::new());
        let (vars, indices) = (SecondaryMap::new(), SecondaryMap::new());
        let cursors = SecondaryMap::new();
        let mut body = Body { kernel, callee, call, own, scalars, vars, indices, cursors };
        for (held, names) in &callee.kept {
            let (held, _) = body.place(held.buffer);
            names.iter().for_each(|name| body.kernel.keep(held, name.clone()));
        }
        body.block(&callee.body)
    }

    /// Returns the caller's buffer, and the address in it, at which a buffer of the callee begins.
    fn place(&mut self, buffer: BufferId) -> (BufferVersion, Address) {
        let place = |v: &View| (v.held, v.at.clone());
        let b = &self.callee.buffers[buffer];
        match b.place {
            Place::Input(n) => place(&self.call.operands[n]),
            Place::Output(n) | Place::Donated { output: n, .. } => place(&self.call.outputs[n]),
            Place::Workspace(offset) => {
                self.own(buffer, Place::Workspace(self.call.frame + offset))
            }
            Place::Record { cursor, offset } => {
                let cursor = self.cursor(cursor);
                self.own(buffer, Place::Record { cursor, offset })
            }
            // Only the entry has buffers in private memory, and it is never inlined.
            place @ (Place::Private(_) | Place::Unplaced) => self.own(buffer, place),
        }
    }
}

impl Body<'_> {
    /// Returns the caller's copy of a buffer in the callee's workspace or in a tape record; creates the copy at the
    /// first use.
    fn own(&mut self, buffer: BufferId, place: Place) -> (BufferVersion, Address) {
        let new = self.own[buffer].unwrap_or_else(|| {
            let ty = self.callee.buffers[buffer].ty.clone();
            self.kernel.buffers.push(crate::loop_ir::Buffer::new(ty, place))
        });
        self.own[buffer] = Some(new);
        (BufferVersion::first(new), Address::default())
    }
}

impl Rewriter for Body<'_> {
    fn arg(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Scalar(s) => Arg::Scalar(self.scalars[s].unwrap_or(s)),
            Arg::Var(v) => Arg::Var(self.vars[v].unwrap_or(v)),
            Arg::Index(i) => Arg::Index(self.indices[i].unwrap_or(i)),
            Arg::Literal(_) => arg,
        }
    }

    fn element(&mut self, held: BufferVersion, address: &Address) -> (BufferVersion, Address) {
        let (held, mut at) = self.place(held.buffer);
        at.offset = at.offset.wrapping_add(address.offset);
        let index = |(i, stride): &(IndexId, i64)| (self.indices[*i].unwrap_or(*i), *stride);
        at.terms.extend(address.terms.iter().map(index));
        at.dynamic = address.dynamic.map(|d| self.arg(d));
        (held, at)
    }

    /// Returns the carries with the caller's buffers. Carries whose both sides are the same buffer after inlining are
    /// left out, since they exchange nothing.
    fn carries(&mut self, carries: &[Carry]) -> Vec<Carry> {
        let mut held = |h: BufferVersion| self.place(h.buffer).0;
        let carries =
            carries.iter().map(|c| Carry { input: held(c.input), output: held(c.output) });
        carries.filter(|c| c.input.buffer != c.output.buffer).collect()
    }

    fn frame(&mut self, frame: usize) -> usize {
        self.call.frame + frame
    }

    fn scalar(&mut self, value: ScalarId) -> ScalarId {
        let fresh = self.kernel.scalars.push(self.callee.scalars[value]);
        self.scalars[value] = Some(fresh);
        fresh
    }

    fn var(&mut self, var: VarId, fresh: bool) -> VarId {
        if fresh {
            self.vars[var] = Some(self.kernel.vars.push(self.callee.vars[var]));
        }
        self.vars[var].unwrap_or(var)
    }

    fn index(&mut self, index: IndexId) -> IndexId {
        let fresh = self.kernel.fresh_index();
        self.indices[index] = Some(fresh);
        fresh
    }

    fn cursor(&mut self, cursor: CursorId) -> CursorId {
        let does = self.callee.cursors[cursor];
        let new = self.cursors[cursor].unwrap_or_else(|| self.kernel.cursors.push(does));
        self.cursors[cursor] = Some(new);
        new
    }
}
