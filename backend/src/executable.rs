//! Executables: compiled programs that are called with tensors.
//!
//! A call checks the types of the arguments, allocates the results, takes the workspace of an earlier call, and calls
//! the machine code. It allocates nothing else. A call of a scalar function takes about as long as the allocation of
//! its result. If the caller gives memory for the results ([`crate::Runnable::call_into`]), a call allocates nothing.
//!
//! ```
//! use tapeloom_backend::loop_ir::{Address, Arg, Buffer, BufferVersion, Expr, Place, Program, Stmt};
//! use tapeloom_backend::Executable;
//! use tapeloom_ir::{ArrayType, Code, Dtype, Shape, Tensor};
//!
//! // program @double { nest { %0: f64 = load b0[0]; %1: f64 = add %0, %0; store b1[0], %1 } }
//! let mut program = Program::new("double");
//! let p = &mut program.entry;
//! let ty = ArrayType::new(Dtype::F64, Shape::scalar());
//! let x = p.buffers.push(Buffer::new(ty.clone(), Place::Input(0)));
//! let y = p.buffers.push(Buffer::new(ty, Place::Output(0)));
//! let (a, b) = (p.scalars.push(Dtype::F64), p.scalars.push(Dtype::F64));
//! let address = Address::default();
//! let load = Expr::Load { held: BufferVersion::first(x), address: address.clone(), guard: None };
//! let sum = Expr::Code(Code::Add, vec![Arg::Scalar(a), Arg::Scalar(a)]);
//! p.body = vec![
//!     Stmt::Let { value: a, expr: load },
//!     Stmt::Let { value: b, expr: sum },
//!     Stmt::Store { held: BufferVersion::first(y), address, value: Arg::Scalar(b), guard: None },
//! ];
//! let double = Executable::new(&program)?;
//! assert_eq!(double.call(&[&Tensor::scalar(2.5)])?, [Tensor::scalar(5.0)]);
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

#![expect(unsafe_code, reason = "hands buffers to generated code")]

use crate::codegen::clif::CodeReport;
use crate::codegen::jit::MachineCode;
use crate::codegen::target_isa::isa;
use crate::codegen::vectors::Vectors;
use crate::loop_ir::loop_counters::LoopLimits;
use crate::loop_ir::timers::Timers;
use crate::loop_ir::{self, ExternalSignature, LoopLimit, LoopLimitId, Program, Timed};
use crate::machine::MachineModel;
use crate::no_memory;
use crate::results::{CallResources, Results, wrong_results};
use crate::runtime::abi::Context;
use crate::runtime::external_calls::ExternalCalls;
use crate::runtime::gemm;
use crate::runtime::loop_limits::STOPPED;
use crate::runtime::tape_memory::{self, NO_RECORD, NO_ROOM, Records};
use crate::runtime::threads::Threads;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{ArrayType, Fresh, Isa, Kind, Limits, Line, Loc, Problem, Tensor, try_zeros};
use target_lexicon::Triple;

fn references(tensors: &[Tensor]) -> SmallVec<[&Tensor; 8]> {
    tensors.iter().collect()
}

/// Returns a number of bytes rounded up to whole cache lines.
fn aligned(bytes: usize) -> usize {
    bytes.div_ceil(size_of::<Line>()).saturating_mul(size_of::<Line>())
}

/// The largest number of workspaces that an executable keeps for later calls.
const POOLED: usize = 64;

/// If all results together have at most this number of bytes, they are zeroed before a call, even if the call
/// overwrites all of them; [`Executable::append_results`] states the reason.
const SMALL_RESULTS: usize = 1024;

/// A result of the program: its type, and how its memory is allocated.
struct Output {
    ty: ArrayType,
    /// The donated argument whose memory the result takes over ([`loop_ir::Place::Donated`]). The memory of the result
    /// holds the argument when the call begins: that of the argument itself, or a copy.
    argument: Option<usize>,
    /// Whether every call writes all elements before it reads any of them, so that the memory need not be zeroed.
    filled: bool,
}

/// A program compiled to machine code. Cloning shares the code, which is freed with the last clone.
#[derive(Clone)]
pub struct Executable {
    inner: Arc<Inner>,
    /// The largest number of threads on which the pieces of a call's concurrent loops run at the same time.
    threads: usize,
}

struct Inner {
    name: String,
    code: MachineCode,
    /// Per argument: its type; `None` if the program has no buffer for the argument.
    inputs: Vec<Option<ArrayType>>,
    outputs: Vec<Output>,
    /// Whether the results have at most [`SMALL_RESULTS`] bytes.
    small_results: bool,
    /// The size of the workspace of a call in bytes.
    workspace: usize,
    /// The size in bytes of the private memory that each thread needs to run pieces of concurrent loops.
    private: usize,
    /// The workspaces of earlier calls, in 64-byte lines, which later calls reuse. Calls that ran at the same time had
    /// different workspaces; at most [`POOLED`] are kept.
    pool: Mutex<Vec<Vec<Line>>>,
    /// Per dynamic tape: the bytes of a record (the residuals of one iteration), and the source line of the loop that
    /// writes the records.
    tapes: (Vec<usize>, Vec<Loc>),
    records: Mutex<Option<Records>>,
    /// The loops that count their iterations, because the program was compiled with limits.
    limited: PrimaryMap<LoopLimitId, LoopLimit>,
    /// The number of timers of the program, 0 unless a profile was requested.
    timers: usize,
    /// The external (Rust) functions that the program calls. Machine code names each function by its index in this
    /// list.
    calls: Vec<Arc<ExternalSignature>>,
    report: CodeReport,
}

/// The array of pointers that is passed to an entry kernel: context and frame (workspace), then the arguments, then the
/// results.
type CallRecord = SmallVec<[*mut u8; 24]>;

/// The bytes of tape records that a run used, and the times that its timers measured.
#[derive(Default)]
struct RunResources {
    records: usize,
    timed: Option<Timed>,
}

impl Executable {
    /// Compiles a program for this machine, by [`Executable::on`].
    ///
    /// # Errors
    /// Those of [`Executable::on`].
    pub fn new(program: &Program) -> Result<Executable, Problem> {
        Executable::on(program, &Triple::host())
    }

    /// Compiles a program for the machine named by `triple`, which must be this one.
    ///
    /// Machine code checks nothing at run time, so the program is verified here. A program is refused unless every
    /// access is proved to stay within its buffer for all arguments. A load from memory that was not written, or
    /// that holds another buffer version, returns an arbitrary number ([`loop_ir::shadow`] detects such loads), but
    /// never accesses memory out of bounds.
    ///
    /// # Errors
    /// [`Kind::Verify`] if the program breaks an invariant; [`Kind::Target`] if this machine cannot run the
    /// program.
    pub fn on(program: &Program, triple: &Triple) -> Result<Executable, Problem> {
        loop_ir::check(program)?;
        Executable::verified(program, triple, MachineModel::MEASURED)
    }

    /// Compiles a program for the machine named by `triple`, which must be this one. Unlike [`Executable::on`],
    /// requires that the caller has verified the program.
    pub(crate) fn verified(
        program: &Program,
        triple: &Triple,
        machine: MachineModel,
    ) -> Result<Executable, Problem> {
        Executable::made(program, machine, isa(triple)?, Isa::here())
    }

    /// Compiles a verified program. `isa` is Cranelift's target, and `set` the instruction set for the loop nests that
    /// use 256-bit or 512-bit vectors.
    pub(crate) fn made(
        program: &Program,
        machine: MachineModel,
        isa: OwnedTargetIsa,
        set: Isa,
    ) -> Result<Executable, Problem> {
        // Cranelift reports its internal errors by panicking. Catch the panics and return them as errors.
        let compiled =
            catch_unwind(AssertUnwindSafe(|| MachineCode::new(program, machine, isa, set)));
        let (code, report) = compiled.unwrap_or_else(|_| {
            Err(Problem::internal(format!(
                "the code generator panicked on @{}",
                program.entry.name
            )))
        })?;
        let filled = loop_ir::filled(program);
        let (name, entry) = (program.entry.name.clone(), &program.entry);
        let results = entry.outputs().into_iter().zip(filled);
        let outputs: Vec<Output> = results
            .map(|((id, ty), filled)| {
                let argument = entry.buffers[id].place.input();
                Output { ty: ty.clone(), argument, filled }
            })
            .collect();
        let bytes = outputs.iter().fold(0, |n: usize, output| n.saturating_add(output.ty.bytes()));
        let inner = Arc::new(Inner {
            name,
            code,
            inputs: entry.inputs().into_iter().map(|ty| ty.cloned()).collect(),
            outputs,
            small_results: bytes <= SMALL_RESULTS,
            workspace: report.workspace_bytes,
            private: report.private_bytes,
            pool: Mutex::new(Vec::new()),
            tapes: (tape_memory::sizes(program), program.tapes.values().map(|t| t.loc).collect()),
            records: Mutex::new(None),
            limited: program.limited.clone(),
            timers: program.timers,
            calls: program.externals(),
            report,
        });
        Ok(Executable { inner, threads: 1 })
    }

    /// Sets the largest number of threads of a call: at most `threads` pieces of a concurrent loop run at the same
    /// time. Results have the same bits with any number of threads; 0 means 1.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Executable {
        Executable { threads: threads.max(1), ..self }
    }

    /// Returns the bytes of memory that a call uses besides arguments and results: the workspace, and the private memory
    /// of each thread.
    pub(crate) fn memory(&self) -> usize {
        let Inner { workspace, private, .. } = *self.inner;
        match private {
            0 => workspace,
            _ => aligned(workspace).saturating_add(aligned(private).saturating_mul(self.threads)),
        }
    }

    /// Runs the program on arguments, and returns its results.
    ///
    /// # Errors
    /// [`Kind::Arguments`] if an argument is missing or has another type; [`Kind::TooLarge`] if there is not enough
    /// memory for results or workspace; [`Kind::Callback`] if a Rust function that the program calls fails or
    /// returns wrong results.
    pub fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>, Problem> {
        let mut results = Results::new();
        self.run(args, None, &mut results)?;
        Ok(results.into_vec())
    }

    /// Runs the program on arguments, and appends its results to `results`. If the program was compiled with limits,
    /// `limits` are the limits of this run; `None` means no limits.
    ///
    /// # Errors
    /// Those of [`Executable::call`], [`Kind::Limit`], [`Kind::Cancelled`].
    #[inline]
    pub(crate) fn run(
        &self,
        args: &[&Tensor],
        limits: Option<&Limits>,
        results: &mut Results,
    ) -> Result<(), Problem> {
        let mut loop_limits = self.loop_limits(limits);
        self.append_results(args, loop_limits.as_mut(), results, None)
    }

    /// Runs the program on arguments, and writes its results to `results`, one tensor for each result. If a tensor has
    /// the result's type and no clone shares its memory, it keeps its memory; otherwise it is replaced by a new tensor.
    /// If the program was compiled with limits, `limits` are the limits of this run.
    ///
    /// If the call fails, each tensor of `results` is still a valid tensor of its type. The tensors that keep their
    /// memory have a mixture of old and new elements.
    ///
    /// # Errors
    /// Those of [`Executable::call`], [`Kind::Limit`], [`Kind::Cancelled`]; [`Kind::Arguments`] if `results` has more or
    /// fewer tensors than the program has results.
    pub(crate) fn call_into(
        &self,
        args: &[&Tensor],
        results: &mut [&mut Tensor],
        limits: Option<&Limits>,
    ) -> Result<(), Problem> {
        let outputs = &self.inner.outputs;
        if results.len() != outputs.len() {
            return Err(wrong_results(&self.inner.name, outputs.len(), results.len()));
        }
        let mut loop_limits = self.loop_limits(limits);
        let mut record = CallRecord::new();
        self.begin_record(args, &mut record)?;
        let mut allocated: SmallVec<[(usize, Fresh); 4]> = SmallVec::new();
        for (i, (output, result)) in outputs.iter().zip(results.iter_mut()).enumerate() {
            let same = *result.ty() == output.ty;
            match result.unshared_lines().filter(|_| same) {
                Some(lines) => {
                    if let Some(argument) = output.argument {
                        lines.copy_from_slice(args[argument].lines());
                    } else if !output.filled {
                        lines.fill(Line::ZERO);
                    }
                    record.push(lines.as_mut_ptr().cast());
                }
                None => {
                    let mut lines = output.allocate(args)?;
                    record.push(lines.lines().as_mut_ptr().cast());
                    allocated.push((i, lines));
                }
            }
        }
        // SAFETY: `record` has a pointer for each argument and each result. Each result is either new memory, or the
        // memory of a tensor that is borrowed exclusively and shares its memory with no other tensor, so with no
        // argument. Each has the size of the program's type.
        let ran = unsafe { self.run_code(&mut record, loop_limits.as_mut(), None) };
        let mut wrong = Ok(());
        for result in results.iter_mut() {
            // A tensor must stay valid after an error, so a bool that is neither 0 nor 1 makes the whole result zero.
            if let Err(problem) = result.check_truth() {
                result.unshared_lines().unwrap_or_default().fill(Line::ZERO);
                wrong = Err(problem);
            }
        }
        ran.and(wrong)?;
        for (i, lines) in allocated {
            // SAFETY: as in `append_large_results`: the buffer was zeroed, or the call wrote every element.
            let lines = unsafe { lines.assume_init() };
            *results[i] = Tensor::from_lines(outputs[i].ty.clone(), lines)?;
        }
        Ok(())
    }

    /// Runs the program on arguments, like [`Executable::call`], and writes each result with a donated argument to the
    /// memory of this argument, if no other tensor shares it. If the program was compiled with limits, `limits` are the
    /// limits of this run.
    ///
    /// # Errors
    /// Those of [`Executable::call`], [`Kind::Limit`], [`Kind::Cancelled`].
    pub(crate) fn call_donating(
        &self,
        mut args: Vec<Tensor>,
        limits: Option<&Limits>,
    ) -> Result<Vec<Tensor>, Problem> {
        let outputs = &self.inner.outputs;
        let mut loop_limits = self.loop_limits(limits);
        let mut record = CallRecord::new();
        self.begin_record(&references(&args), &mut record)?;
        let mut allocated: Vec<Option<Fresh>> = Vec::with_capacity(outputs.len());
        for output in outputs {
            let donated = output.argument.and_then(|n| {
                let held = planted(Fault::HeldTaken).then(|| args[n].as_ptr().cast_mut());
                let lines = args[n].unshared_lines();
                lines.map(|lines| lines.as_mut_ptr().cast()).or(held)
            });
            match donated {
                Some(memory) => {
                    record.push(memory);
                    allocated.push(None);
                }
                None => {
                    let mut lines = output.allocate(&references(&args))?;
                    record.push(lines.lines().as_mut_ptr().cast());
                    allocated.push(Some(lines));
                }
            }
        }
        // SAFETY: `record` has a pointer for each argument and each result. A result is either new memory, or the
        // memory of its donated argument, which this call owns and no other tensor shares. No two results have the same
        // donated argument, because the verifier requires that one buffer alone holds it.
        unsafe { self.run_code(&mut record, loop_limits.as_mut(), None) }?;
        let results = outputs.iter().zip(allocated).map(|(output, lines)| match lines {
            Some(lines) => {
                // SAFETY: as in `append_large_results`; a copied argument fills all lines.
                let lines = unsafe { lines.assume_init() };
                Tensor::from_lines(output.ty.clone(), lines)
            }
            None => {
                let result = output.argument.map(|n| args[n].clone());
                let result = result.ok_or_else(|| Problem::internal("a result without memory"))?;
                result.check_truth()?;
                Ok(result)
            }
        });
        results.collect()
    }

    /// Runs the program on arguments, like [`Executable::call`]. If the program was compiled with limits, `limits` are
    /// the limits of this run. Also returns the resources that the run used.
    ///
    /// # Errors
    /// Those of [`Executable::call`], [`Kind::Limit`], [`Kind::Cancelled`].
    pub(crate) fn call_within(
        &self,
        args: &[&Tensor],
        limits: &Limits,
    ) -> Result<(Vec<Tensor>, CallResources), Problem> {
        let mut loop_limits = self.loop_limits(Some(limits));
        let (mut results, mut taken) = (Results::new(), RunResources::default());
        self.append_results(args, loop_limits.as_mut(), &mut results, Some(&mut taken))?;
        let RunResources { records, timed } = taken;
        let loops = loop_limits.map_or(Vec::new(), LoopLimits::counts);
        let taken = CallResources { loops, workspace: self.memory(), records, timed };
        Ok((results.into_vec(), taken))
    }

    #[inline]
    fn loop_limits(&self, limits: Option<&Limits>) -> Option<LoopLimits> {
        if self.inner.limited.is_empty() {
            return None;
        }
        Some(LoopLimits::of(&self.inner.limited, limits.unwrap_or(&Limits::default())))
    }

    /// Appends the beginning of a call record (the pointers that the entry kernel gets) to `record`: null for context
    /// and frame, and the arguments, whose types are checked here. (A new list as return value would be moved, which
    /// costs a tenth of a small call.)
    #[inline]
    fn begin_record(&self, args: &[&Tensor], record: &mut CallRecord) -> Result<(), Problem> {
        let inputs = &self.inner.inputs;
        if args.len() != inputs.len() {
            return Err(self.wrong_count(args.len()));
        }
        record.push(std::ptr::null_mut());
        record.push(std::ptr::null_mut());
        for (i, (arg, want)) in args.iter().zip(inputs).enumerate() {
            if want.as_ref().is_some_and(|want| want != arg.ty()) {
                return Err(self.wrong_type(i, arg));
            }
            record.push(arg.as_ptr().cast_mut());
        }
        Ok(())
    }

    /// Runs the program on arguments, and appends its results, in new memory, to `results`. If `taken` is given, stores
    /// there the resources that the run used.
    #[inline]
    fn append_results(
        &self,
        args: &[&Tensor],
        loop_limits: Option<&mut LoopLimits>,
        results: &mut Results,
        taken: Option<&mut RunResources>,
    ) -> Result<(), Problem> {
        let Inner { outputs, small_results, .. } = &*self.inner;
        let mut record = CallRecord::new();
        self.begin_record(args, &mut record)?;
        if !small_results {
            return self.append_large_results(args, &mut record, loop_limits, results, taken);
        }
        // Allocate small results as tensors of zeros before the call. The alternative, uninitialized memory that
        // becomes a tensor after the call, would be moved several times, which costs more than zeroing it.
        let first = results.len();
        for output in outputs {
            let mut result = Tensor::zeros_of(&output.ty)?;
            if let (Some(argument), Some(lines)) = (output.argument, result.unshared_lines()) {
                lines.copy_from_slice(args[argument].lines());
            }
            record.push(result.as_ptr().cast_mut());
            results.push(result);
        }
        // SAFETY: the results are new memory of the sizes of the program's types. Nothing else refers to it, and it does
        // not move when the tensors move.
        let ran = unsafe { self.run_code(&mut record, loop_limits, taken) };
        let valid = || results[first..].iter().try_for_each(Tensor::check_truth);
        let ran = ran.and_then(|()| valid());
        if ran.is_err() {
            results.truncate(first);
        }
        ran
    }

    /// Runs the program on a call record with arguments, as [`Executable::append_results`] does, but does not zero the
    /// memory of results that the program overwrites completely.
    fn append_large_results(
        &self,
        args: &[&Tensor],
        record: &mut CallRecord,
        loop_limits: Option<&mut LoopLimits>,
        results: &mut Results,
        taken: Option<&mut RunResources>,
    ) -> Result<(), Problem> {
        let outputs = &self.inner.outputs;
        let mut buffers: SmallVec<[Fresh; 4]> = SmallVec::new();
        for output in outputs {
            let mut lines = output.allocate(args)?;
            record.push(lines.lines().as_mut_ptr().cast());
            buffers.push(lines);
        }
        // SAFETY: the results are new memory of the sizes of the program's types, to which nothing else refers, and
        // `record` points to it.
        unsafe { self.run_code(record, loop_limits, taken) }?;
        for (output, lines) in outputs.iter().zip(buffers) {
            // SAFETY: the buffer was zeroed, or the call wrote every element (`filled` says so, and the call did not
            // fail) and `allocate` wrote the bytes after the elements. Any bytes are a valid `Line`.
            let lines = unsafe { lines.assume_init() };
            results.push(Tensor::from_lines(output.ty.clone(), lines)?);
        }
        Ok(())
    }

    /// Runs the machine code on a call record, and sets the record's pointers to context and frame. If `taken` is
    /// given, stores there the resources that the run used.
    ///
    /// # Safety
    /// After context and frame, `record` has one pointer per input of the program, to buffers of the program's types, and
    /// one pointer per output, to buffers of the program's types that overlap neither each other nor an input, except
    /// that an output with a donated argument may be this argument's memory. It holds the donated argument in any case.
    /// All buffers are alive during the call, and nothing else accesses the outputs. They are aligned to 64 bytes, as tensors
    /// and `Line` are.
    unsafe fn run_code(
        &self,
        record: &mut CallRecord,
        mut loop_limits: Option<&mut LoopLimits>,
        taken: Option<&mut RunResources>,
    ) -> Result<(), Problem> {
        let Inner { code, workspace, pool, tapes, records: kept, calls, .. } = &*self.inner;
        let memory = self.memory();
        let mut space = Vec::new();
        if memory > 0 {
            let pooled = || pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let lines = memory.div_ceil(size_of::<Line>());
            // A workspace in the pool may be too small if it comes from a call with fewer threads, because it includes
            // the threads' private memory.
            space = match pooled().filter(|space| space.len() >= lines) {
                Some(space) => space,
                None => {
                    try_zeros(lines).ok_or_else(|| no_memory("intermediate results", memory))?
                }
            };
        }
        let frame = space.as_mut_ptr().cast::<u8>();
        let private = frame.wrapping_add(aligned(*workspace));
        let threads = Threads::new(self.threads, private, aligned(self.inner.private));
        let answers = ExternalCalls { calls, failed: RefCell::new(None) };
        let external_calls = (&raw const answers).cast();
        let mut records = None;
        if !tapes.0.is_empty() {
            let last = kept.try_lock().ok().and_then(|mut kept| kept.take());
            records = Some(last.unwrap_or_else(|| Records::of(&tapes.0)));
        }
        let all = records.as_mut().map_or(std::ptr::null_mut(), |r| (&raw mut *r).cast());
        let states = records.as_mut().map_or(std::ptr::null_mut(), |r| r.states.as_mut_ptr());
        let rows = loop_limits.as_mut().map_or(std::ptr::null_mut(), |w| w.rows.as_mut_ptr());
        let mut context = Context {
            zeros: [0; 2],
            workspace: frame,
            external_calls,
            tapes: states,
            records: all,
            rows,
            flag: loop_limits.as_ref().map_or(std::ptr::null(), |w| w.flag()),
            loop_limits: loop_limits
                .as_mut()
                .map_or(std::ptr::null_mut(), |w| (&raw mut **w).cast()),
            timers: std::ptr::null_mut(),
            threads: &raw const threads,
        };
        let mut timers = (self.inner.timers > 0).then(|| Timers::start(self.inner.timers));
        if let Some(timers) = &mut timers {
            context.timers = (&raw mut *timers).cast();
        }
        record[0] = (&raw mut context).cast();
        record[1] = frame;
        // SAFETY: `record` has the layout of the entry's call record. Its first pointer is the context, which lives on
        // this stack, as does everything that the context points to. The second is `space`, which this call owns; it
        // has the size in the code's report, including the private memory of each thread, and is aligned to 64 bytes.
        // The inputs and outputs follow, and are valid by the contract of this function. Inputs are never written,
        // although their pointers are mutable: the code accesses a donated input through the pointer of its output.
        let status = unsafe { code.call(record.as_ptr()) };
        let timed = timers.map(Timers::end);
        if memory > 0 {
            let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
            if pool.len() < POOLED {
                pool.push(space);
            }
        }
        let refused = records.as_ref().filter(|_| status == NO_ROOM).map(|r| r.problem(&tapes.1));
        let mut bytes = 0;
        if let Some(mut records) = records {
            bytes = records.bytes();
            records.empty();
            if let Ok(mut kept) = kept.try_lock() {
                *kept = Some(records);
            }
        }
        if let Some(problem) = refused {
            return Err(problem);
        }
        if status == STOPPED
            && let Some(loop_limits) = loop_limits
        {
            return Err(loop_limits.stopped());
        }
        if status == NO_RECORD {
            let message =
                format!("an iteration of @{} reads a record that does not exist", self.inner.name);
            return Err(Problem::internal(message));
        }
        if status != gemm::DONE {
            let panicked = || {
                Problem::internal(format!("a library function panicked in @{}", self.inner.name))
            };
            return Err(answers.failed.into_inner().unwrap_or_else(panicked));
        }
        if let Some(taken) = taken {
            *taken = RunResources { records: bytes, timed };
        }
        Ok(())
    }

    /// Returns the bytes of memory for tape records (residuals of loop iterations) that stay allocated for the next
    /// call.
    #[cfg(test)]
    pub(crate) fn records(&self) -> Option<usize> {
        Some(self.inner.records.lock().ok()?.as_ref()?.bytes())
    }

    /// Returns the name of the program.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the types of the results.
    pub fn outputs(&self) -> impl Iterator<Item = &ArrayType> {
        self.inner.outputs.iter().map(|o| &o.ty)
    }

    /// Returns the vector width of each vectorized loop.
    pub(crate) fn vectors(&self) -> &Vectors {
        &self.inner.report.vectors
    }

    /// Returns the report of the code generator.
    pub fn report(&self) -> &CodeReport {
        &self.inner.report
    }

    #[cold]
    fn wrong_count(&self, got: usize) -> Problem {
        let (name, want) = (&self.inner.name, self.inner.inputs.len());
        Problem::new(Kind::Arguments, format!("@{name} takes {want} arguments, got {got}"), "")
    }

    #[cold]
    fn wrong_type(&self, i: usize, arg: &Tensor) -> Problem {
        let want = self.inner.inputs[i].as_ref().map(ToString::to_string).unwrap_or_default();
        let name = &self.inner.name;
        let message = format!("argument {i} of @{name} must be {want}, got {}", arg.ty());
        Problem::new(Kind::Arguments, message, "")
    }
}

impl Output {
    /// Allocates the memory of a result: with a copy of the donated argument, if there is one; otherwise zeroed, unless
    /// the call overwrites all of it.
    fn allocate(&self, args: &[&Tensor]) -> Result<Fresh, Problem> {
        let bytes = self.ty.bytes();
        let count = bytes.div_ceil(size_of::<Line>());
        let written = self.filled || self.argument.is_some();
        let mut lines = if written { Fresh::new(count) } else { Fresh::zeros(count) }
            .ok_or_else(|| no_memory(&format!("a result of type {}", self.ty), bytes))?;
        if let Some(argument) = self.argument {
            match planted(Fault::CopyDropped) {
                true => lines.lines().fill(MaybeUninit::zeroed()),
                false => _ = lines.lines().write_copy_of_slice(args[argument].lines()),
            }
            return Ok(lines);
        }
        // A tensor requires that the bytes after its last element, up to the end of the 64-byte line, are zero.
        lines.lines()[bytes / size_of::<Line>()..].fill(MaybeUninit::zeroed());
        Ok(lines)
    }
}

impl std::fmt::Debug for Executable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Executable(@{}, {} bytes)", self.inner.name, self.inner.report.code_bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::loop_ir::parse;

    /// A program with two results: it writes one of the three elements of result 0, and all elements of result 1.
    const TEXT: &str = "program @f {
  buffer b0: f64[2] input 0
  buffer b1: f64[3] output 0
  buffer b2: f64[2] output 1
  nest {
    %0: f64 = load b0[1]
    store b1[1], %0
    store b2[0], %0
    store b2[1], %0
  }
}";

    fn sevens(n: usize) -> Tensor {
        Tensor::full(&[n], 7.0).unwrap()
    }

    /// A result is written to the memory of the given tensor if no clone shares that memory and the types are equal.
    /// Elements that the program does not write must be zero.
    #[test]
    fn results_are_written_to_given_memory() {
        let f = Executable::new(&parse(TEXT, &|_| None).unwrap()).unwrap();
        let x = Tensor::from([1.0, 2.0]);
        let want = [Tensor::from([0.0, 2.0, 0.0]), Tensor::from([2.0, 2.0])];
        let (mut y, mut z) = (sevens(3), sevens(2));
        let memory = [y.address(), z.address()];
        f.call_into(&[&x], &mut [&mut y, &mut z], None).unwrap();
        assert_eq!(([y.clone(), z.clone()], [y.address(), z.address()]), (want.clone(), memory));

        // The second tensor in `results` shares its memory with an argument, so its memory must not be reused.
        let (clone, mut x) = (x.clone(), x);
        f.call_into(&[&clone], &mut [&mut y, &mut x], None).unwrap();
        assert_eq!(([y.clone(), x], clone), (want.clone(), Tensor::from([1.0, 2.0])));

        // Tensors in `results` that have other types than the program's results must be replaced.
        let (mut y, mut z) = (Tensor::from(1.0), Tensor::from([1_i64, 2]));
        f.call_into(&[&sevens(2)], &mut [&mut y, &mut z], None).unwrap();
        assert_eq!((y, z), (Tensor::from([0.0, 7.0, 0.0]), sevens(2)));
    }

    /// A donated argument is updated in its own memory if no clone shares it, and in a copy in all other calls. `@f`
    /// changes one element of the first argument, which its result takes over.
    #[test]
    fn donated_arguments_are_updated_in_place() {
        for n in [4_usize, 1000] {
            let text = format!(
                "program @f {{
  buffer b0: f64[{n}] input 0 output 0
  buffer b1: f64[{n}] output 1
  nest {{
    %0: f64 = load b0[1]
    %1: f64 = add %0, 1.0
    store b0[1], %1
    store b1[0], %0
  }}
}}"
            );
            let f = Executable::new(&parse(&text, &|_| None).unwrap()).unwrap();
            let mut want = vec![7.0; n];
            want[1] = 8.0;
            let want = Tensor::new(&[n], want).unwrap();
            let x = sevens(n);
            assert_eq!(f.call(&[&x]).unwrap()[0], want);
            assert_eq!(f.call_donating(vec![x.clone()], None).unwrap()[0], want);
            let (mut y, mut z) = (Tensor::from(1.0), sevens(n));
            for _ in 0..2 {
                f.call_into(&[&x], &mut [&mut y, &mut z], None).unwrap();
                assert_eq!((&y, z.get::<f64>(&[1]).unwrap()), (&want, 0.0));
            }
            assert_eq!(x, sevens(n));
            let memory = x.address();
            let results = f.call_donating(vec![x], None).unwrap();
            assert_eq!((&results[0], results[0].address()), (&want, memory));
        }
    }

    #[test]
    fn a_wrong_number_of_results_is_an_error() {
        let f = Executable::new(&parse(TEXT, &|_| None).unwrap()).unwrap();
        let mut y = sevens(3);
        let problem = f.call_into(&[&sevens(2)], &mut [&mut y], None).unwrap_err();
        assert_eq!(problem.message, "@f has 2 results, and there is memory for 1");
        assert_eq!(y, sevens(3));
    }
}
