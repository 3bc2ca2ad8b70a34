//! What a [`Jit`](super::Jit) is without its types: settings, the programs that are kept, and what is done
//! with them.
//!
//! It is compiled once, whatever closures and trees there are: it takes arguments as [`Given`] and closures
//! as [`Closure`]s from handles to handles, and gives leaves and forms.

use super::explain::{self, Explanation};
use super::program::{self, Engine, Program};
use super::report::CallReport;
use crate::Error;
use crate::closure::{array, time_in_transforms};
use crate::random::with_marks;
use crate::tree::{Form, TensorRefs};
use smallvec::SmallVec;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;
use tapeloom_backend::accelerator::{Setup, Statistics};
use tapeloom_backend::{Options, Target};
use tapeloom_ir::trace::{self, Handle, Param, Traced};
use tapeloom_ir::{ArrayType, Kind, Limits, Loc, Problem, Tensor, check_keys};

/// Arguments of a call.
pub(super) trait Given {
    /// Appends the leaves, in order.
    fn tensors<'a>(&'a self, out: &mut TensorRefs<'a>);

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
    pub(super) output: Form,
    limits: Option<Limits>,
    /// Why it was compiled: what differs from the program before it.
    why: String,
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
    /// What calls may take, if that is limited.
    limits: Option<Limits>,
    /// Whether programs in which a key is used twice are refused.
    keys: bool,
    cache: RwLock<Vec<Arc<Entry>>>,
}

/// The leaves of arguments.
fn leaves(given: &dyn Given) -> TensorRefs<'_> {
    let mut leaves = TensorRefs::new();
    given.tensors(&mut leaves);
    leaves
}

/// Their types.
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
        let (tensors, output, limits, why) = (traced.tensors, traced.output, None, String::new());
        Ok(Entry { form, types, program, tensors, output, limits, why })
    }

    /// Whether this program is for such arguments.
    fn takes(&self, given: &dyn Given, leaves: &TensorRefs<'_>) -> bool {
        self.types.len() == leaves.len()
            && self.types.iter().zip(leaves).all(|(t, x)| t == x.ty())
            && given.matches(&self.form)
    }

    /// Runs the program.
    fn run(&self, leaves: &TensorRefs<'_>, at: Loc) -> Result<Vec<Tensor>, Error> {
        let results = self.program.run(&self.operands(leaves), self.limits.as_ref());
        results.map_err(|p| Error::at(p, at))
    }

    /// What the program takes.
    fn operands<'a>(&'a self, leaves: &'a TensorRefs<'_>) -> SmallVec<[&'a Tensor; 8]> {
        leaves.iter().map(|t| &**t).chain(&self.tensors).collect()
    }

    /// Runs the program on arguments, which must be of the kind that it was compiled for.
    pub(super) fn call(&self, given: &dyn Given, at: Loc) -> Result<Vec<Tensor>, Error> {
        let leaves = leaves(given);
        if self.takes(given, &leaves) {
            return self.run(&leaves, at);
        }
        let problem = Problem::new(
            Kind::Arguments,
            format!(
                "a program compiled for other arguments: {}",
                self.difference(&given.form(), &types(&leaves))
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
            limits: None,
            keys: false,
            cache: RwLock::new(Vec::new()),
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

    pub(super) fn set_key_check(&mut self) {
        self.keys = true;
        self.forget();
    }

    pub(super) fn limits(&mut self) -> &mut Limits {
        self.forget();
        self.limits.get_or_insert_default()
    }

    fn forget(&mut self) {
        self.cache = RwLock::new(Vec::new());
    }

    /// The results for these arguments, and the program that gave them.
    pub(super) fn call(
        &self,
        given: &dyn Given,
        closure: &Closure<'_>,
    ) -> Result<(Vec<Tensor>, Arc<Entry>), Error> {
        let leaves = leaves(given);
        let entry = self.program(given, &leaves, closure)?;
        Ok((entry.run(&leaves, self.at)?, entry))
    }

    /// The program for these arguments.
    pub(super) fn entry(
        &self,
        given: &dyn Given,
        closure: &Closure<'_>,
    ) -> Result<Arc<Entry>, Error> {
        self.program(given, &leaves(given), closure)
    }

    /// Runs the program on a simulated accelerator.
    pub(super) fn simulate(
        &self,
        given: &dyn Given,
        closure: &Closure<'_>,
        on: &Setup,
    ) -> Result<(Vec<Tensor>, Arc<Entry>, Statistics), Error> {
        let leaves = leaves(given);
        let entry = self.program(given, &leaves, closure)?;
        let simulated = entry.program.simulate(&entry.operands(&leaves), on);
        let (results, statistics) = simulated.map_err(|p| Error::at(p, self.at))?;
        Ok((results, entry, statistics))
    }

    /// Runs a program that is compiled so that loops count.
    pub(super) fn report(
        &self,
        given: &dyn Given,
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
        let leaves = leaves(given);
        let traced = self.traced(&types(&leaves), closure)?;
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
        given: &dyn Given,
        closure: &Closure<'_>,
    ) -> Result<Explanation, Error> {
        let types = types(&leaves(given));
        let (start, before) = (Instant::now(), time_in_transforms());
        let traced = self.traced(&types, closure)?;
        let time = start.elapsed();
        let transforming = time_in_transforms().saturating_sub(before);
        let f = traced.module.function(traced.function);
        let ends = f.param_types().into_iter().chain(f.result_types());
        let boundary = ends.map(|t| array(&t).bytes()).sum();
        let mut stages = vec![program::stage("trace", &traced.module, traced.function, time)];
        let stages_too = Some(&mut stages);
        let options = self.options(self.limits.is_some());
        let (module, function) = (traced.module, traced.function);
        let program = Program::compile(self.compiled(), &options, module, function, stages_too);
        let Program::Native(compiled) = program.map_err(|p| Error::at(p, self.at))? else {
            return Err(Problem::internal("explained an interpreted program").into());
        };
        let report = compiled.report().clone();
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let misses = cache.iter().map(|e| e.why.clone()).collect();
        Ok(Explanation { stages, transforming, report, boundary, misses })
    }

    /// How many programs are kept.
    pub(super) fn programs(&self) -> usize {
        self.cache.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn options(&self, watched: bool) -> Options {
        Options { target: self.target.clone(), watched }
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

    /// The program for arguments of that kind. Few kinds are the rule, so a list is searched.
    fn program(
        &self,
        given: &dyn Given,
        leaves: &TensorRefs<'_>,
        closure: &Closure<'_>,
    ) -> Result<Arc<Entry>, Error> {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let known = cache.iter().find(|e| e.takes(given, leaves)).cloned();
        drop(cache);
        match known {
            Some(entry) => Ok(entry),
            None => self.prepare(given.form(), types(leaves), closure),
        }
    }

    fn prepare(
        &self,
        form: Form,
        types: Vec<ArrayType>,
        closure: &Closure<'_>,
    ) -> Result<Arc<Entry>, Error> {
        // The cache is not locked meanwhile: the closure may call this very function. Of threads that
        // compile the same program the first one keeps it, and the others use that.
        let traced = self.traced(&types, closure)?;
        let (limits, module, function) = (self.limits.clone(), traced.module, traced.function);
        let options = self.options(limits.is_some());
        let program = Program::compile(self.engine, &options, module, function, None)
            .map_err(|p| Error::at(p, self.at))?;
        let (tensors, output) = (traced.tensors, traced.output);
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        let same = |e: &&Arc<Entry>| e.form == form && e.types == types;
        if let Some(known) = cache.iter().find(same) {
            return Ok(known.clone());
        }
        let why = match cache.last() {
            None => "first call".to_owned(),
            Some(e) => e.difference(&form, &types),
        };
        let entry = Arc::new(Entry { form, types, program, tensors, output, limits, why });
        cache.push(entry.clone());
        Ok(entry)
    }
}
