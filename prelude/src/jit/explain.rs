//! `explain`: what compiling a closure did.
//!
//! ```
//! use tapeloom::prelude::*;
//! let f = jit(grad(|x: Var| (x * x).sum()));
//! f.call([1.0, 2.0])?;
//! f.call([1.0, 2.0, 3.0])?;
//! let e = f.explain([1.0, 2.0, 3.0])?;
//! assert_eq!(e.stages()[0].name, "trace");
//! assert!(e.stages()[0].text.contains("call"));
//! assert_eq!(e.workspace_bytes(), 0, "one fused loop needs no memory beside its result");
//! assert_eq!(e.misses(), ["first call", "`argument` was f64[2] and is f64[3]"]);
//! println!("{e}");
//! # Ok::<(), tapeloom::Error>(())
//! ```

use std::fmt;
use std::time::Duration;
use tapeloom_backend::{MachineModel, Report, TapePlan, Target, Vectors};
use tapeloom_transforms::Step;

/// The program after one stage of compilation.
#[derive(Clone, Debug)]
pub struct Stage {
    /// `trace`, or the name of a pass.
    pub name: &'static str,
    /// The program as text; empty where the stage changed nothing.
    pub text: String,
    /// Equations of the outermost function.
    pub equations: usize,
    /// Time that the stage took.
    pub time: Duration,
}

/// What compiling a closure did: stages, kernels, memory, times, and why it was compiled at all. Shows
/// everything when displayed.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub(super) stages: Vec<Stage>,
    pub(super) transforming: Duration,
    /// The passes that changed functions before they were differentiated.
    pub(super) derived: Vec<&'static Step>,
    pub(super) loop_trees: String,
    pub(super) report: Report,
    pub(super) boundary: usize,
    pub(super) misses: Vec<String>,
}

impl Explanation {
    /// The program after tracing and after each pass.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The passes that changed functions before reverse mode, in their order.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(grad(|x: Var| {
    ///     let step = |(i, y): (Var, Var)| y.dynamic_update_slice(y.index(i).broadcast_to([1]), &[8]);
    ///     fori_loop(3, step, x).sum()
    /// }));
    /// let e = f.explain(Tensor::full(&[9], 0.5)?)?;
    /// assert_eq!(e.reverse_passes(), "fold_ranges, narrow_carries_eager");
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn reverse_passes(&self) -> String {
        let names: Vec<&str> = self.derived.iter().map(|step| step.pass.name).collect();
        names.join(", ")
    }

    /// The machine that the code is for: `x86_64-unknown-linux-gnu`.
    pub fn target(&self) -> String {
        self.report.target.to_string()
    }

    /// The loop trees as text: between the program and its kernels, which equations share a loop, and which of their
    /// values have memory.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let e = jit(|x: Var| (x.sin() * 2.0).sum()).explain(Tensor::full(&[100], 0.5)?)?;
    /// let text = e.loop_trees();
    /// assert_eq!(text.matches("for i").count(), 1, "one loop does all of it");
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn loop_trees(&self) -> &str {
        &self.loop_trees
    }

    /// The kernels as text.
    pub fn kernels(&self) -> String {
        self.report.program.to_string()
    }

    /// The passes that changed the kernels, in their order: `inline_bodies, vectorize`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| x.sin().sum());
    /// let e = f.explain(Tensor::full(&[100], 0.5)?)?;
    /// assert!(e.kernel_passes().contains("vectorize"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn kernel_passes(&self) -> String {
        self.report.passes()
    }

    /// The vectors of the loops in lanes: elements at once, or why a loop has vectors of 128 bits.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let e = jit(|x: Var| x.sin()).explain(Tensor::full(&[100], 0.5)?)?;
    /// assert_eq!(e.vectors().loops.len(), 1);
    /// assert!(e.to_string().contains("== vectors"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn vectors(&self) -> &Vectors {
        &self.report.vectors
    }

    /// The table of memory as text.
    pub fn memory_plan(&self) -> String {
        self.report.plan.to_string()
    }

    /// What lies in memory between the forward pass and the way back, line by line, and what is computed
    /// again instead: a table, and a picture ([`TapePlan::to_svg`]).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let layer = |x: Var| x.dot(x.t()).tanh().dot(x);
    /// let f = jit(grad(|x: Var| layer(layer(x)).sum()));
    /// let e = f.explain(Tensor::full(&[40, 40], 0.1)?)?;
    /// let tape = e.tape();
    /// assert!(tape.to_string().contains("tanh") && tape.bytes() < e.workspace_bytes());
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn tape(&self) -> TapePlan<'_> {
        self.report.tape()
    }

    /// Bytes that a call works in beside arguments and results, known before it. What the matrix library packs
    /// operands of large products in is its own, and what iterations keep of loops of which only the run knows how
    /// many there are comes on top ([`Jit::report`](crate::Jit::report) counts it).
    pub fn workspace_bytes(&self) -> usize {
        self.report.peak
    }

    /// The counted work of a call, in additions. An elementary function counts the additions that take as long, a load,
    /// a store and a product in a contraction count one each, a library routine the operations of its algorithm. `None`
    /// if the number of iterations of a loop is known only in the run, or if Rust functions are called. Two sizes, or
    /// two ways to write a function, can be compared so without a clock.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| x.sin().index(0));
    /// let work = |n: usize| f.explain(Tensor::zeros(&[n], Dtype::F64)?).map(|e| e.work());
    /// assert_eq!(work(1_000)?, work(1_000_000)?);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Source: the cost analysis of XLA, which JAX shows as `compiled.cost_analysis()`.
    pub fn work(&self) -> Option<u64> {
        Some(self.report.program.work()).filter(|work| *work < u64::MAX)
    }

    /// Bytes of arguments (captured data included), results and workspace together: the most memory
    /// that a call uses, known before it; see [`workspace_bytes`](Self::workspace_bytes) for what is not counted.
    pub fn peak_bytes(&self) -> usize {
        self.report.peak + self.boundary
    }

    /// Time by stage: `trace` (the closure alone), `transform` (derivatives and batching, asked for
    /// while tracing), each pass, `lower` (to kernels) and `code` (to machine code).
    pub fn timings(&self) -> Vec<(&'static str, Duration)> {
        let mut timings = Vec::new();
        for (i, stage) in self.stages.iter().enumerate() {
            if i == 0 {
                timings.push((stage.name, stage.time.saturating_sub(self.transforming)));
                timings.push(("transform", self.transforming));
            } else {
                timings.push((stage.name, stage.time));
            }
        }
        timings.push(("lower", self.report.lower));
        timings.push(("code", self.report.code));
        timings
    }

    /// For each program that this `Jit` has compiled, why: what differed from the one before.
    pub fn misses(&self) -> &[String] {
        &self.misses
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, stage) in self.stages.iter().enumerate() {
            if i == 1 && !self.derived.is_empty() {
                writeln!(f, "== passes before reverse mode\n{}", self.reverse_passes())?;
            }
            let plural = if stage.equations == 1 { "" } else { "s" };
            writeln!(f, "== {} ({} equation{plural})", stage.name, stage.equations)?;
            if stage.text.is_empty() {
                writeln!(f, "(unchanged)")?;
            } else {
                writeln!(f, "{}", stage.text.trim_end())?;
            }
        }
        writeln!(f, "== target\n{}", self.target())?;
        if self.report.machine != MachineModel::MEASURED {
            writeln!(f, "machine model: {}", self.report.machine)?;
        }
        writeln!(f, "== kernels\n{}", self.kernels().trim_end())?;
        writeln!(f, "== passes on kernels\n{}", self.kernel_passes())?;
        if let Target::Native(_) = self.report.target {
            writeln!(f, "== vectors\n{}", self.vectors().to_string().trim_end())?;
        }
        writeln!(f, "== memory\n{}", self.memory_plan().trim_end())?;
        writeln!(f, "{} bytes at most, arguments and results included", self.peak_bytes())?;
        writeln!(f, "== time")?;
        for (name, time) in self.timings() {
            writeln!(f, "{name:12} {:10.3} ms", time.as_secs_f64() * 1e3)?;
        }
        writeln!(f, "== programs")?;
        if self.misses.is_empty() {
            writeln!(f, "(none yet: no call)")?;
        }
        for (i, why) in self.misses.iter().enumerate() {
            writeln!(f, "{}. {why}", i + 1)?;
        }
        Ok(())
    }
}

/// Why arguments of the same structure need a new program.
pub(super) fn difference<T: fmt::Display + PartialEq>(
    paths: &[String],
    old_types: &[T],
    types: &[T],
) -> String {
    let leaf = old_types.iter().zip(types).zip(paths).find(|((a, b), _)| a != b);
    match leaf {
        Some(((was, is), path)) => format!("`{path}` was {was} and is {is}"),
        None => "nothing differs".to_owned(),
    }
}
