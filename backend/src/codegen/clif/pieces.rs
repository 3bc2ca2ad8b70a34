//! Concurrent loops: the body becomes a function, which threads call with the number of a piece (an iteration).
//!
//! The values that the body reads from outside are stored in an array on the caller's stack (*captured*), and loaded
//! when a piece begins. Spilled values of a piece are stored behind its private buffers, since pieces run at the same
//! time.
//!
//! ```text
//! concurrent i3 in 8 { .. }        run_pieces(context, piece_i3, [record, captured values ..], 8)
//! ```

use super::loops::Exchanged;
use super::partition::{Parts, Promotion};
use super::spill::SpillSet;
use super::translate::{At, Counter, Translator, call};
use super::vector_value::Lanes;
use crate::loop_ir::{Arg, BufferId, Extent, IndexId, Kernel, ScalarId, Stmt, VarId, visit};
use crate::machine::MachineModel;
use crate::runtime::abi;
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature, Type, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_entity::SecondaryMap;
use cranelift_module::{Linkage, Module};
use smallvec::SmallVec;
use tapeloom_ir::{OrderedSet, Problem};

/// The function of a concurrent loop's pieces. It is declared and called, and its body is still to be emitted.
pub(super) struct PieceFunction {
    /// The index of the concurrent loop.
    pub(super) index: IndexId,
    captured: Vec<(Captured, Type)>,
}

/// A value from outside of a concurrent loop that a piece (an iteration) reads.
#[derive(Clone, Copy)]
enum Captured {
    Scalar(ScalarId),
    Var(VarId),
    Index(IndexId),
    /// The address of a buffer that an enclosing loop exchanges with another one.
    Exchanged(BufferId),
}

/// Returns the signature of the functions that run a piece (an iteration of a concurrent loop). Parameters: the
/// address of the captured values, the number of the piece, its private memory. Result: a status.
pub(crate) fn signature(module: &dyn Module) -> Signature {
    let mut signature = Signature::new(CallConv::triple_default(module.isa().triple()));
    signature.params.extend([AbiParam::new(types::I64); 3]);
    signature.returns.push(AbiParam::new(types::I32));
    signature
}

/// Returns the name of the function that runs a piece (an iteration) of a concurrent loop.
pub(super) fn name(kernel: &Kernel, index: IndexId) -> String {
    format!("@{}.{index}", kernel.name)
}

/// Returns the body of a concurrent loop of a kernel.
pub(super) fn body(kernel: &Kernel, index: IndexId) -> Result<&[Stmt], Problem> {
    let mut found = None;
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::For { index: of, body, .. } = stmt
            && *of == index
        {
            found = Some(body.as_slice());
        }
    });
    found.ok_or_else(|| Problem::internal(format!("no loop has the index {index}")))
}

/// Returns the partition of the body of a concurrent loop: one part (function), whose buffers are in memory. Spilled
/// values begin at the offset `spills`, in bytes, of the private memory. The field `workspace` is the end of the
/// private memory.
pub(super) fn cut<'a>(
    kernel: &Kernel,
    machine: &MachineModel,
    body: &'a [Stmt],
    spills: usize,
) -> Parts<'a> {
    let statements: Vec<&Stmt> = body.iter().collect();
    let mut parts = Parts {
        buffers: SecondaryMap::with_default(Promotion::Memory),
        workspace: spills,
        ..Parts::default()
    };
    parts.spill(SpillSet::of(kernel, machine, &statements, false));
    parts
}

impl Translator<'_, '_, '_> {
    /// Emits the call of the runtime function that runs the pieces of a concurrent loop.
    pub(super) fn concurrent(&mut self, stmt: &Stmt) -> Result<(), Problem> {
        let Stmt::For { index, extent: Extent::Constant(pieces), body, .. } = stmt else {
            return Err(Problem::internal("a concurrent loop without a constant extent"));
        };
        let module = self.functions.module();
        let signature = signature(module);
        let id = module
            .declare_function(&name(self.p, *index), Linkage::Local, &signature)
            .map_err(|e| Problem::internal(format!("declaring the pieces of {index}: {e}")))?;
        let (mut captured, mut words) = (Vec::new(), vec![self.record]);
        for of in self.captured(body) {
            let word = match of {
                Captured::Scalar(s) => self.uniform(Arg::Scalar(s))?,
                Captured::Var(v) => self.uniform(Arg::Var(v))?,
                Captured::Index(i) => self.uniform(Arg::Index(i))?,
                Captured::Exchanged(buffer) => match self.exchanged.get(&buffer).copied() {
                    Some(at) => self.current_address(buffer, at),
                    None => continue,
                },
            };
            captured.push((of, self.b.func.dfg.value_type(word)));
            words.push(word);
        }
        let slot = self.stack(words.len() * abi::WORD);
        let at = self.b.ins().stack_addr(types::I64, slot, 0);
        for (i, word) in words.iter().enumerate() {
            self.b.ins().store(MemFlagsData::trusted(), *word, at, (i * abi::WORD) as i32);
        }
        let piece = self.functions.import(self.b.func, id);
        let piece = self.b.ins().func_addr(types::I64, piece);
        let run = self.functions.run_pieces(self.b.func)?;
        let pieces = self.b.ins().iconst(types::I64, *pieces as i64);
        call(self.b, run, &[self.context, piece, at, pieces]);
        self.state.pieces.push(PieceFunction { index: *index, captured });
        Ok(())
    }

    /// Returns the values that the body of a concurrent loop reads from outside, each once.
    fn captured(&self, body: &[Stmt]) -> Vec<Captured> {
        let (mut scalars, mut vars) = (OrderedSet::default(), OrderedSet::default());
        let (mut indices, mut buffers) = (OrderedSet::default(), OrderedSet::default());
        let (mut defined, mut declared) = (OrderedSet::default(), OrderedSet::default());
        visit(body, &mut |stmt| {
            defined.extend(stmt.defined());
            declared.extend(stmt.assigned().map(|(var, _)| var));
            stmt.args(&mut |arg| match arg {
                Arg::Scalar(s) => _ = scalars.insert(s),
                Arg::Var(v) => _ = vars.insert(v),
                Arg::Index(i) => _ = indices.insert(i),
                Arg::Literal(_) => {}
            });
            stmt.buffers(&mut |buffer| _ = buffers.insert(buffer));
        });
        // A concurrent loop sets no variable that is declared outside, so variables that it only reads remain in the
        // list.
        scalars.retain(|s| !defined.contains(s));
        vars.retain(|v| !declared.contains(v));
        indices.retain(|i| self.loops.iter().any(|of| of.index == *i));
        buffers.retain(|b| self.exchanged.contains_key(b));
        let scalars = scalars.into_iter().map(Captured::Scalar);
        let all = scalars.chain(vars.into_iter().map(Captured::Var));
        let all = all.chain(indices.into_iter().map(Captured::Index));
        all.chain(buffers.into_iter().map(Captured::Exchanged)).collect()
    }

    /// Emits the body of a piece (an iteration of a concurrent loop): loads the captured values from `words`, then
    /// translates the body.
    pub(super) fn piece(
        &mut self,
        of: &PieceFunction,
        words: Value,
        number: Value,
        body: &[Stmt],
    ) -> Result<(), Problem> {
        let flags = MemFlagsData::trusted().with_readonly();
        for (i, (captured, ty)) in of.captured.iter().enumerate() {
            let value = self.b.ins().load(*ty, flags, words, ((i + 1) * abi::WORD) as i32);
            match *captured {
                Captured::Scalar(s) => {
                    self.state.scalars[s] = Some(Lanes::One(value));
                    self.state.made[s] = self.state.clock;
                }
                Captured::Var(v) => {
                    self.state.vars[v] = Some(self.declare(v));
                    self.set(v, &Lanes::One(value))?;
                }
                Captured::Index(index) => self.count_from(index, value),
                Captured::Exchanged(buffer) => {
                    let place = self.b.declare_var(types::I64);
                    self.b.def_var(place, value);
                    self.exchanged.insert(buffer, Exchanged::At(place));
                }
            }
        }
        self.count_from(of.index, number);
        self.with_hoisted_values(&[body], |piece| piece.block(body))?;
        self.finish();
        Ok(())
    }

    /// Sets the value of the index of a loop that is outside of this function.
    fn count_from(&mut self, index: IndexId, value: Value) {
        self.loops.push(Counter { index, at: At::Value(value), scaled: SmallVec::new() });
    }
}
