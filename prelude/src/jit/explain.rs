//! `explain`: describes the compilation of a closure.
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
use std::sync::LazyLock;
use std::time::Duration;
#[cfg(feature = "xla")]
use tapeloom_backend::xla;
use tapeloom_backend::{MachineModel, Report, TapePlan, Target, Vectors};
use tapeloom_ir::{FuncId, Module};
use tapeloom_transforms::{Simplification, Step};

/// The program after one stage of compilation.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The name of the stage: `trace`, or the name of a pass.
    pub name: &'static str,
    /// The program after the stage as text. If the stage changed nothing, the text is empty.
    pub text: String,
    /// The number of equations of the outermost function.
    pub equations: usize,
    /// The duration of the stage.
    pub time: Duration,
}

/// The report of simplification by the e-graph: the rules that fired, and the program before and after it. Returned by
/// [`Explanation::simplification`]; `Display` prints it as lines of text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SimplifyReport {
    /// Rules, costs by the cost model, and sizes of e-graphs, summed over all functions of the program.
    pub rules: Simplification,
    /// The number of steps (loop nests, products and calls) of the lowered program, before and after simplification;
    /// `None` if the program cannot be lowered.
    pub steps: Option<(usize, usize)>,
    /// The bytes that the steps read and write, before and after simplification; `None` if the program cannot be lowered.
    pub bytes: Option<(u64, u64)>,
}

impl SimplifyReport {
    /// Returns the report on a simplification of function `before` to `after`.
    pub(super) fn of(
        rules: Simplification,
        module: &Module,
        before: FuncId,
        after: FuncId,
    ) -> SimplifyReport {
        let lowered = |f| {
            let program = tapeloom_backend::lower_to_loops(module, f).ok()?;
            Some((program.entry.body.len(), program.traffic()))
        };
        let was = lowered(before);
        let is = if after == before { was } else { lowered(after) };
        let both = was.zip(is);
        let steps = both.map(|((was, _), (is, _))| (was, is));
        SimplifyReport { rules, steps, bytes: both.map(|((_, was), (_, is))| (was, is)) }
    }
}

impl fmt::Display for SimplifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some((steps, left)), Some((bytes, moved))) = (self.steps, self.bytes) {
            writeln!(f, "lowered: {steps} steps, {bytes} bytes -> {left} steps, {moved} bytes")?;
        }
        write!(f, "{}", self.rules)
    }
}

/// A description of the compilation of a closure: stages, kernels, memory, times, and the reason of each compilation.
/// `Display` prints all parts.
///
/// XLA compiles a program without tapeloom's loop trees, kernels, vectors, steps and tape. For such a program these
/// parts are empty, and [`Explanation::xla`] describes it.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub(super) stages: Vec<Stage>,
    /// The report of simplification by the e-graph; `None` if that is not among the passes.
    pub(super) simplified: Option<SimplifyReport>,
    pub(super) transforming: Duration,
    /// The passes that changed functions before they were differentiated.
    pub(super) derived: Vec<&'static Step>,
    pub(super) product: Product,
    pub(super) misses: Vec<String>,
}

/// The compiled form of a program.
#[derive(Clone, Debug)]
pub(super) enum Product {
    /// A loop program, as machine code or for a simulated accelerator.
    Loops(Box<Loops>),
    /// A program that XLA has compiled.
    #[cfg(feature = "xla")]
    Xla(Box<xla::Report>),
}

/// A loop program.
#[derive(Clone, Debug)]
pub(super) struct Loops {
    pub(super) loop_trees: String,
    pub(super) report: Report,
    /// The size of the arguments and results in bytes. Memory of donated arguments is counted once.
    pub(super) boundary: usize,
    /// For each donated argument whose memory a result takes over: the paths of the argument and of the result.
    pub(super) donated: Vec<(String, String)>,
}

static NO_VECTORS: LazyLock<Vectors> = LazyLock::new(Vectors::default);

impl Explanation {
    fn loops(&self) -> Option<&Loops> {
        match &self.product {
            Product::Loops(loops) => Some(loops),
            #[cfg(feature = "xla")]
            Product::Xla(_) => None,
        }
    }

    /// Returns a text about the loop program; an empty text if there is none.
    fn text_of(&self, text: impl FnOnce(&Report) -> String) -> String {
        self.loops().map(|loops| text(&loops.report)).unwrap_or_default()
    }

    /// Returns the report about the program of XLA, if [`Jit::on`](crate::Jit::on) chose
    /// [`Target::Xla`](crate::Target::Xla); otherwise `None`.
    ///
    /// ```
    /// use tapeloom::xla::{Client, ClientOptions, Plugin};
    /// use tapeloom::{Target, prelude::*};
    /// # fn main() -> Result<(), tapeloom::Error> {
    /// let Ok(plugin) = Plugin::found() else { return Ok(()) };
    /// let client = Client::new(&plugin, &ClientOptions::new())?;
    /// let f = jit(|(w, x): (Var, Var)| w - 0.1 * x.dot(w).tanh() * x);
    /// let e = f.on(Target::Xla(client)).explain(([1.0, 2.0], [3.0, 4.0]))?;
    /// assert!(e.xla().is_some_and(|report| report.text.contains("stablehlo.dot_general")));
    /// println!("{e}");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "xla")]
    pub fn xla(&self) -> Option<&xla::Report> {
        match &self.product {
            Product::Loops(_) => None,
            Product::Xla(report) => Some(report),
        }
    }

    /// Returns the program after tracing and after each pass.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Returns the names of the passes that changed functions before reverse mode, in execution order.
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

    /// Returns the report of simplification by the e-graph: the rules that fired, costs, and the loops and bytes of the
    /// lowered program before and after it. `None` if the e-graph is not among the passes of the program.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|(x, y): (Var, Var)| (x * y + x * y.sin()).sum()).relaxed();
    /// let x = Tensor::full(&[1000], 0.5)?;
    /// let e = f.explain((&x, &x))?;
    /// let report = e.simplification().ok_or("no e-graph")?;
    /// assert_eq!(report.rules.rules.get("add-factor"), Some(&1), "x y + x z is x (y + z)");
    /// assert!(report.rules.after.flops < report.rules.before.flops);
    /// assert_eq!(report.bytes, Some((2 * 8000 + 8, 2 * 8000 + 8)));
    /// assert!(e.to_string().contains("== simplification\nlowered: 1 steps"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn simplification(&self) -> Option<&SimplifyReport> {
        self.simplified.as_ref()
    }

    /// Returns the target of the machine code as a triple, for instance `x86_64-unknown-linux-gnu`, or the client of a
    /// program of XLA.
    pub fn target(&self) -> String {
        match &self.product {
            Product::Loops(loops) => loops.report.target.to_string(),
            #[cfg(feature = "xla")]
            Product::Xla(report) => report.client.clone(),
        }
    }

    /// Returns the loop trees as text. Loop trees are the intermediate form from which the kernels are made. They show
    /// which equations share a loop and which values are stored in memory.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let e = jit(|x: Var| (x.sin() * 2.0).sum()).explain(Tensor::full(&[100], 0.5)?)?;
    /// let text = e.loop_trees();
    /// assert_eq!(text.matches("for i").count(), 1, "one loop does all of it");
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn loop_trees(&self) -> &str {
        self.loops().map_or("", |loops| &loops.loop_trees)
    }

    /// Returns the kernels as text.
    pub fn kernels(&self) -> String {
        self.text_of(|report| report.program.to_string())
    }

    /// Returns the names of the passes that changed the kernels, in execution order, for instance
    /// `inline_bodies, vectorize`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| x.sin().sum());
    /// let e = f.explain(Tensor::full(&[100], 0.5)?)?;
    /// assert!(e.kernel_passes().contains("vectorize"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn kernel_passes(&self) -> String {
        self.text_of(Report::passes)
    }

    /// Returns, for each vectorized loop, its number of lanes, or why the loop uses vectors of 128 bits.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let e = jit(|x: Var| x.sin()).explain(Tensor::full(&[100], 0.5)?)?;
    /// assert_eq!(e.vectors().loops.len(), 1);
    /// assert!(e.to_string().contains("== vectors"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn vectors(&self) -> &Vectors {
        self.loops().map_or(&NO_VECTORS, |loops| &loops.report.vectors)
    }

    /// Returns a line of text for each loop and product with enough work for several [threads](crate::Jit::threads): the
    /// number of pieces into which it is cut, or the reason why it runs on one thread.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let e = jit(|x: Var| (x.exp().sum(), x.cumsum(0))).explain(Tensor::full(&[1_000_000], 0.5)?)?;
    /// assert!(e.threads().contains("fold i0 in 1000000 lanes 16: 16 pieces"), "{}", e.threads());
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn threads(&self) -> String {
        self.text_of(Report::divisions)
    }

    /// Returns the table of the steps of the program as text: the loop nests, products and calls with their primitives
    /// and your lines. The memory plan states lifetimes by the numbers of these steps.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let e = jit(|x: Var| x.sin().sum()).explain(Tensor::full(&[100], 0.5)?)?;
    /// assert!(e.steps().lines().nth(1).is_some_and(|row| row.contains("sin, reduce_sum")));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn steps(&self) -> String {
        self.text_of(Report::steps)
    }

    /// Returns the table of buffers as text.
    pub fn memory_plan(&self) -> String {
        self.text_of(|report| report.plan.to_string())
    }

    /// Returns the tape: for each of your lines, the values that are in memory between forward and reverse pass, and
    /// the values that are recomputed instead. The tape prints as a table, and [`TapePlan::to_svg`] draws it.
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
        self.loops().map_or_else(TapePlan::empty, |loops| loops.report.tape())
    }

    /// Returns the bytes of workspace of a call, besides arguments and results. The number is known before the call. It
    /// excludes buffers of the matrix library for large products, and residuals of loops whose trip count is known only
    /// at run time, which [`Jit::report`](crate::Jit::report) counts.
    pub fn workspace_bytes(&self) -> usize {
        match &self.product {
            Product::Loops(loops) => loops.report.peak,
            #[cfg(feature = "xla")]
            Product::Xla(report) => bytes(report.memory.unwrap_or_default().temporary),
        }
    }

    /// Returns the work of a call, in units of one addition. An elementary function counts as the number of additions
    /// that take the same time; a load, a store, and a product in a contraction count as 1 each. A library routine
    /// counts the operations of its algorithm. Returns `None` if the trip count of a loop is known only at run time, or
    /// if Rust functions are called. The work compares two sizes, or two implementations of a function, without a
    /// clock.
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
        self.loops().map(|loops| loops.report.program.work()).filter(|work| *work < u64::MAX)
    }

    /// Returns the bytes of arguments (captured data included), results and workspace together, which is the most
    /// memory that a call uses. The number is known before the call; [`workspace_bytes`](Self::workspace_bytes)
    /// lists the exceptions.
    pub fn peak_bytes(&self) -> usize {
        match &self.product {
            Product::Loops(loops) => loops.report.peak + loops.boundary,
            #[cfg(feature = "xla")]
            Product::Xla(report) => bytes(report.memory.unwrap_or_default().total()),
        }
    }

    /// Returns, for a program that takes over arguments ([`Jit::explain_donating`](crate::Jit::explain_donating)), each
    /// argument whose memory a result takes over: the paths of the argument and of the result.
    pub fn donated(&self) -> &[(String, String)] {
        self.loops().map_or(&[], |loops| &loops.donated)
    }

    /// Returns the time of each stage: `trace` (the closure alone), `transform` (derivatives and batching during
    /// tracing), each pass, `lower` (to kernels) and `code` (to machine code); for XLA, `text` and `XLA` at the end.
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
        match &self.product {
            Product::Loops(loops) => {
                timings.push(("lower", loops.report.lower));
                timings.push(("code", loops.report.code));
            }
            #[cfg(feature = "xla")]
            Product::Xla(report) => {
                timings.push(("text", report.write));
                timings.push(("XLA", report.compile));
            }
        }
        timings
    }

    /// Returns, for each program that this `Jit` has compiled, a text on the difference of the arguments that made the
    /// compilation necessary.
    pub fn misses(&self) -> &[String] {
        &self.misses
    }
}

/// Converts a number of bytes that a plugin of XLA reports to usize. A number that does not fit becomes `usize::MAX`.
#[cfg(feature = "xla")]
fn bytes(stated: u64) -> usize {
    usize::try_from(stated).unwrap_or(usize::MAX)
}

impl Explanation {
    /// Prints the sections about a loop program.
    fn print_loops(&self, f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
        if report.machine != MachineModel::MEASURED {
            writeln!(f, "machine model: {}", report.machine)?;
        }
        writeln!(f, "== kernels\n{}", self.kernels().trim_end())?;
        writeln!(f, "== passes on kernels\n{}", self.kernel_passes())?;
        if let Target::Native(_) = report.target {
            writeln!(f, "== vectors\n{}", self.vectors().to_string().trim_end())?;
            writeln!(f, "== threads\n{}", self.threads().trim_end())?;
        }
        writeln!(f, "== steps\n{}", self.steps().trim_end())?;
        writeln!(f, "== memory\n{}", self.memory_plan().trim_end())?;
        for (argument, result) in self.donated() {
            writeln!(f, "{result} is in the memory of {argument}")?;
        }
        writeln!(f, "{} bytes at most, arguments and results included", self.peak_bytes())
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
        if let Some(report) = &self.simplified {
            writeln!(f, "== simplification\n{}", report.to_string().trim_end())?;
        }
        writeln!(f, "== target\n{}", self.target())?;
        match &self.product {
            Product::Loops(loops) => self.print_loops(f, &loops.report)?,
            #[cfg(feature = "xla")]
            Product::Xla(report) => write!(f, "{report}")?,
        }
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

/// Returns a text that describes the first difference between two lists of argument types. `paths` are the paths of the
/// arguments.
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
