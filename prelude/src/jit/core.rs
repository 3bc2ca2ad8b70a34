//! What a [`Jit`](super::Jit) is without its types: settings, the programs that are kept, and what is done
//! with them.
//!
//! It is compiled once, whatever closures and trees there are: it takes arguments as [`Given`] and closures
//! as [`Closure`]s from handles to handles, and gives leaves and forms.

use super::explain::{self, Explanation};
use super::program::{self, Engine, Program, Seen};
use super::report::CallReport;
use crate::Error;
use crate::prng::with_marks;
use crate::staging::{array, time_in_transforms};
use crate::tree::{Form, TensorRefs};
use smallvec::SmallVec;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tapeloom_backend::accelerator::{RunConfig, Statistics};
use tapeloom_backend::{MachineModel, Options, Target};
use tapeloom_ir::trace::{self, Handle, Param, Traced};
use tapeloom_ir::{ArrayType, Kind, Limits, Loc, Problem, Tensor, check_keys};
use tapeloom_transforms::changes;

/// Arguments of a call, but for their leaves.
pub(super) trait Given {
    /// What they are without their leaves.
    fn form(&self) -> Form;

    /// Whether that is `form`; like comparing, without building anything.
    fn matches(&self, form: &Form) -> bool;
}

/// A closure at arguments of some form: from handles of their leaves to those of the results, and the form of
/// these.
pub(super) type Closure<'a> = dyn Fn(&[Handle]) -> (Vec<Handle>, Form) + 'a;

/// One compiled program.
pub(super) struct Entry {
    /// The key: what the arguments are without their leaves, and the types of those.
    form: Form,
    types: Vec<ArrayType>,
    program: Program,
    /// Data that the closure captured; the program's last arguments.
    tensors: Vec<Tensor>,
    /// What the results are without their leaves.
    output: Form,
    limits: Option<Limits>,
}

/// Settings, and programs.
pub(super) struct Core {
    /// `jit` or `run`, for messages.
    name: &'static str,
    pub(super) at: Loc,
    /// Under this number a trace remembers what it has traced for [`Jit::apply`](super::Jit::apply).
    pub(super) number: u64,
    engine: Engine,
    target: Target,
    machine: MachineModel,
    /// What calls may take, if that is limited.
    limits: Option<Limits>,
    /// Whether programs in which a key is used twice are refused.
    keys: bool,
    programs: Programs,
}

/// Programs in the order in which they were kept: a list that only grows, so that it is read without a lock.
#[derive(Default)]
struct Programs {
    first: OnceLock<Box<Link>>,
}

struct Link {
    entry: Arc<Entry>,
    /// Why it was compiled: what differs from the program before it.
    why: String,
    rest: Programs,
}

impl Programs {
    fn iter(&self) -> impl Iterator<Item = &Link> {
        std::iter::successors(self.next(), |link| link.rest.next())
    }

    fn next(&self) -> Option<&Link> {
        self.first.get().map(|link| &**link)
    }

    /// Keeps a program, unless one for the same arguments came first: the one that is kept.
    fn keep(&self, new: Arc<Entry>) -> &Arc<Entry> {
        let mut rest = self;
        let mut last: Option<&Entry> = None;
        loop {
            let link = rest.first.get_or_init(|| {
                let differs = |last: &Entry| last.difference(&new.form, &new.types);
                let why = last.map_or("first call".to_owned(), differs);
                Box::new(Link { entry: new.clone(), why, rest: Programs::default() })
            });
            let entry = &link.entry;
            let same = entry.form == new.form && entry.types == new.types;
            if Arc::ptr_eq(entry, &new) || same {
                return entry;
            }
            (rest, last) = (&link.rest, Some(&**entry));
        }
    }
}

// A panic on the way leaves the list as it was, so a `Jit` may be called again after one was caught.
impl UnwindSafe for Programs {}
impl RefUnwindSafe for Programs {}

/// One after the other, and not one inside the other, which would take stack for each.
impl Drop for Programs {
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(mut link) = next {
            next = link.rest.first.take();
        }
    }
}

/// The types of leaves.
fn types(leaves: &TensorRefs<'_>) -> Vec<ArrayType> {
    leaves.iter().map(|t| t.ty().clone()).collect()
}

impl Entry {
    /// A program for arguments of that kind, compiled for this machine.
    pub(super) fn of(
        form: Form,
        types: Vec<ArrayType>,
        traced: Traced<Form>,
    ) -> Result<Entry, Problem> {
        let (module, function) = (traced.module, traced.function);
        let program =
            Program::compile(Engine::Native, &Options::default(), module, function, None)?;
        let (tensors, output, limits) = (traced.tensors, traced.output, None);
        Ok(Entry { form, types, program, tensors, output, limits })
    }

    /// Whether this program is for such arguments.
    fn takes(&self, given: &dyn Given, leaves: &TensorRefs<'_>) -> bool {
        self.types.len() == leaves.len()
            && self.types.iter().zip(leaves).all(|(t, x)| t == x.ty())
            && given.matches(&self.form)
    }

    /// Runs the program.
    fn run(&self, leaves: &TensorRefs<'_>, at: Loc) -> Result<Vec<Tensor>, Error> {
        let mut operands = SmallVec::new();
        self.operands(leaves, &mut operands);
        let results = self.program.run(&operands, self.limits.as_ref());
        results.map_err(|p| Error::at(p, at))
    }

    /// Runs it on a simulated accelerator.
    fn simulate(
        &self,
        leaves: &TensorRefs<'_>,
        on: &RunConfig,
        at: Loc,
    ) -> Result<(Vec<Tensor>, Statistics), Error> {
        let mut operands = SmallVec::new();
        self.operands(leaves, &mut operands);
        self.program.simulate(&operands, on).map_err(|p| Error::at(p, at))
    }

    /// Appends what the program takes. (A call that appends where the list lies is a tenth faster than one that
    /// moves it.)
    fn operands<'a>(&'a self, leaves: &'a TensorRefs<'_>, out: &mut SmallVec<[&'a Tensor; 8]>) {
        leaves.iter().for_each(|t| out.push(t));
        self.tensors.iter().for_each(|t| out.push(t));
    }

    /// Runs the program on arguments, which must be of the kind that it was compiled for.
    pub(super) fn call(
        &self,
        given: &dyn Given,
        leaves: &TensorRefs<'_>,
        at: Loc,
    ) -> Result<(Vec<Tensor>, &Form), Error> {
        if self.takes(given, leaves) {
            return Ok((self.run(leaves, at)?, &self.output));
        }
        let problem = Problem::new(
            Kind::Arguments,
            format!(
                "a program compiled for other arguments: {}",
                self.difference(&given.form(), &types(leaves))
            ),
            "pass arguments of that kind, or call the `Jit`, which compiles for each kind",
        );
        Err(Error::at(problem, at))
    }

    /// How arguments differ from those that this program is for.
    fn difference(&self, form: &Form, types: &[ArrayType]) -> String {
        let mut first = None;
        self.form.differences(form, "argument", &mut |path, was, is| {
            first.get_or_insert_with(|| format!("`{path}` was {was} and is {is}"));
        });
        first.unwrap_or_else(|| explain::difference(&form.paths("argument"), &self.types, types))
    }
}

impl Core {
    /// A boundary of that name in messages, asked for at that line. Inlined, it would be in the user's crate for
    /// every closure.
    #[inline(never)]
    pub(super) fn new(name: &'static str, at: Loc) -> Core {
        Core {
            name,
            at,
            number: trace::unique(),
            engine: Engine::Native,
            target: Target::default(),
            machine: MachineModel::MEASURED,
            limits: None,
            keys: false,
            programs: Programs::default(),
        }
    }

    // What is set is set for new programs: none of those that there are is kept.

    pub(super) fn set_engine(&mut self, engine: Engine) {
        self.engine = engine;
        self.forget();
    }

    pub(super) fn set_target(&mut self, target: Target) {
        self.target = target;
        self.forget();
    }

    pub(super) fn set_machine(&mut self, machine: MachineModel) {
        self.machine = machine;
        self.forget();
    }

    pub(super) fn set_key_check(&mut self) {
        self.keys = true;
        self.forget();
    }

    pub(super) fn limits(&mut self) -> &mut Limits {
        self.forget();
        self.limits.get_or_insert_default()
    }

    fn forget(&mut self) {
        self.programs = Programs::default();
    }

    /// The results for these arguments, and their form.
    pub(super) fn call(
        &self,
        given: &dyn Given,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
    ) -> Result<(Vec<Tensor>, &Form), Error> {
        let entry = self.program(given, leaves, closure)?;
        Ok((entry.run(leaves, self.at)?, &entry.output))
    }

    /// Runs the program on a simulated accelerator.
    pub(super) fn simulate(
        &self,
        given: &dyn Given,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
        on: &RunConfig,
    ) -> Result<(Vec<Tensor>, &Form, Statistics), Error> {
        let entry = self.program(given, leaves, closure)?;
        let (results, statistics) = entry.simulate(leaves, on, self.at)?;
        Ok((results, &entry.output, statistics))
    }

    /// Runs a program that is compiled so that loops count.
    pub(super) fn report(
        &self,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
    ) -> Result<(Vec<Tensor>, Form, CallReport), Error> {
        if !matches!(self.target, Target::Native(_)) {
            let problem = Problem::new(
                Kind::Target,
                "a report is of machine code, and this function is for another target",
                "report without `on`; on an accelerator, `simulate` gives statistics",
            );
            return Err(Error::at(problem, self.at));
        }
        let traced = self.traced(&types(leaves), closure)?;
        let at = |p: Problem| Error::at(p, self.at);
        let (options, module, function) = (self.options(true), traced.module, traced.function);
        let program = Program::compile(self.compiled(), &options, module, function, None);
        let Program::Native(compiled) = program.map_err(at)? else {
            return Err(Problem::internal("reported on an interpreted program").into());
        };
        let operands: Vec<&Tensor> = leaves.iter().map(|t| &**t).chain(&traced.tensors).collect();
        let limits = self.limits.clone().unwrap_or_default();
        let (results, taken) = compiled.call_within(&operands, &limits).map_err(at)?;
        let bytes = |all: &mut dyn Iterator<Item = &Tensor>| all.map(|x| x.ty().bytes()).sum();
        let arguments = bytes(&mut operands.iter().copied());
        let report = CallReport::of(taken, arguments, bytes(&mut results.iter()));
        Ok((results, traced.output, report))
    }

    /// What compiling for these arguments does.
    pub(super) fn explain(
        &self,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
    ) -> Result<Explanation, Error> {
        let types = types(leaves);
        let (start, before) = (Instant::now(), time_in_transforms());
        let (traced, derived) = changes(|| self.traced(&types, closure));
        let (traced, time) = (traced?, start.elapsed());
        let transforming = time_in_transforms().saturating_sub(before);
        let f = traced.module.function(traced.function);
        let ends = f.param_types().into_iter().chain(f.result_types());
        let boundary = ends.map(|t| array(&t).bytes()).sum();
        let first = program::stage("trace", &traced.module, traced.function, time);
        let mut seen = Seen { stages: vec![first], ..Seen::default() };
        let options = self.options(self.limits.is_some());
        let (module, function) = (traced.module, traced.function);
        let program =
            Program::compile(self.compiled(), &options, module, function, Some(&mut seen));
        let Program::Native(compiled) = program.map_err(|p| Error::at(p, self.at))? else {
            return Err(Problem::internal("explained an interpreted program").into());
        };
        let report = compiled.report().clone();
        let misses = self.programs.iter().map(|link| link.why.clone()).collect();
        let Seen { stages, loop_trees } = seen;
        Ok(Explanation { stages, loop_trees, transforming, derived, report, boundary, misses })
    }

    /// How many programs are kept.
    pub(super) fn programs(&self) -> usize {
        self.programs.iter().count()
    }

    fn options(&self, limited: bool) -> Options {
        Options { target: self.target.clone(), limited, machine: self.machine }
    }

    /// The engine for what has to be compiled.
    fn compiled(&self) -> Engine {
        if self.engine == Engine::Relaxed { Engine::Relaxed } else { Engine::Native }
    }

    /// The closure as a program; an error if it uses a key twice and somebody wants to know.
    fn traced(&self, types: &[ArrayType], closure: &Closure<'_>) -> Result<Traced<Form>, Error> {
        let params: Vec<Param> = types.iter().map(|t| Param::new(t.clone(), self.at)).collect();
        let trace = || {
            trace::trace(self.name, self.at, &params, |h| closure(h))
                .map_err(Error::from_diagnostics)
        };
        if self.keys {
            let Traced { module, function, .. } = with_marks(trace)?;
            check_keys(&module, function).map_err(|p| Error::at(p, self.at))?;
        }
        trace()
    }

    /// The types of the results for these arguments, and their form.
    pub(super) fn results(
        &self,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
    ) -> Result<(Vec<ArrayType>, Form), Error> {
        let Traced { module, function, output, .. } = self.traced(&types(leaves), closure)?;
        let types = module.function(function).result_types().iter().map(array).collect();
        Ok((types, output))
    }

    /// The program for arguments of that kind. Few kinds are the rule, so a list is searched.
    pub(super) fn program(
        &self,
        given: &dyn Given,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
    ) -> Result<&Arc<Entry>, Error> {
        match self.programs.iter().find(|link| link.entry.takes(given, leaves)) {
            Some(link) => Ok(&link.entry),
            None => self.prepare(given.form(), types(leaves), closure),
        }
    }

    fn prepare(
        &self,
        form: Form,
        types: Vec<ArrayType>,
        closure: &Closure<'_>,
    ) -> Result<&Arc<Entry>, Error> {
        // The closure may call this very function. Of threads that compile the same program the first one
        // keeps it, and the others use that.
        let traced = self.traced(&types, closure)?;
        let (limits, module, function) = (self.limits.clone(), traced.module, traced.function);
        let options = self.options(limits.is_some());
        let program = Program::compile(self.engine, &options, module, function, None)
            .map_err(|p| Error::at(p, self.at))?;
        let (tensors, output) = (traced.tensors, traced.output);
        let entry = Entry { form, types, program, tensors, output, limits };
        Ok(self.programs.keep(Arc::new(entry)))
    }
}
