//! Simulations, each made once.

use super::study::Study;
use crate::Failure;
use crate::suite::{Form, Given, Gradient};
use std::collections::BTreeMap;
use std::rc::Rc;
use tapeloom::Target;
use tapeloom::accelerator::{AddressMap, Machine, RunConfig, Statistics, System};
use tapeloom::prelude::*;

/// What the compiler makes of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Emission {
    /// What the study's compiler does: [`Policy::Aliased`].
    Enzyme,
    /// The fewest bytes, with cotangents added as the study's compiler adds them: [`Policy::Disjoint`].
    Minimal,
    /// What is planned.
    Clean,
}

/// A simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Run {
    /// What is run,
    pub emission: Emission,
    /// on which of [`System::ALL`],
    pub system: &'static str,
    /// with a cache of so many bytes
    pub cache: u64,
    /// in so many ways,
    pub ways: u64,
    /// a scratchpad of so many entries,
    pub entries: u64,
    /// and layers of so many at most; none for those of the study.
    pub layer: Option<u64>,
    /// Operations that are under way: 1 is a replay.
    pub window: u64,
    /// How many iterations become straight code, of inner loops first; none for loops as they are written.
    pub unroll: &'static [u64],
    /// How many bytes are left free behind each array.
    pub gap: u64,
}

/// The smallest tape has its arrays so far apart: an odd number of lines, as [`System::ENZYME_PAD`] has them.
const APART: u64 = 37 * 64;

impl Run {
    /// The study's compiler on a system, with a cache of two ways.
    pub fn of(system: System, cache: u64) -> Run {
        let Machine { entries, window, .. } = Machine::cal();
        let (emission, ways, layer) = (Emission::Enzyme, 2, None);
        let (system, unroll, gap) = (system.name, [].as_slice(), 0);
        Run { emission, system, cache, ways, entries, layer, window, unroll, gap }
    }

    /// The smallest tape on streams, those of arguments, too, with its arrays apart.
    pub fn smallest(cache: u64) -> Run {
        let streamed = Run::of(System::TFLOW_INPUTS, cache);
        Run { emission: Emission::Minimal, gap: APART, ..streamed }
    }

    /// The same with loops unrolled, where a layer is what a block stores.
    pub fn unrolled(self, unroll: &'static [u64]) -> Run {
        Run { layer: Some(1), unroll, ..self }
    }
}

type Compiled = (Given<Tensor>, Jit<Given<Var>, (Var, Vec<Var>), Gradient>);

/// A kernel, its form and its size.
type Which = (&'static str, Form, &'static [usize]);

/// Simulations that were made.
pub struct Runs {
    compiled: BTreeMap<(Which, Emission), Rc<Compiled>>,
    done: BTreeMap<(Which, Run), Rc<Statistics>>,
    /// Hears of each new one.
    heard: Box<dyn Fn(&str)>,
}

impl Runs {
    /// None yet. Each new one is told to somebody.
    pub fn new(heard: impl Fn(&str) + 'static) -> Runs {
        Runs { compiled: BTreeMap::new(), done: BTreeMap::new(), heard: Box::new(heard) }
    }

    /// How many were made.
    pub fn made(&self) -> usize {
        self.done.len()
    }

    /// What a run comes to.
    ///
    /// # Errors
    /// What the compiler and the machine say.
    pub fn get(&mut self, study: &Study, run: Run) -> Result<Rc<Statistics>, Failure> {
        let which = (study.name, study.form, study.size);
        if let Some(done) = self.done.get(&(which, run)) {
            return Ok(done.clone());
        }
        (self.heard)(&format!("{} on {}_{}k", study.name, run.system, run.cache >> 10));
        let compiled = self.compiled(study, run.emission)?;
        let ((variables, data, seed), f) = &*compiled;
        let machine = Machine { entries: run.entries, window: run.window, ..Machine::cal() };
        let system = System::ALL.into_iter().find(|system| system.name == run.system);
        let mut map = AddressMap { gap: run.gap, ..study.map() };
        if run.emission != Emission::Enzyme {
            // Bytes are bytes.
            map.word = 1;
        }
        let setup = RunConfig {
            system: system.ok_or("no such system")?,
            map,
            layer: run.layer.unwrap_or(study.block),
            unroll: run.unroll.to_vec(),
            prepared: true,
            mirrored: true,
            overlap: run.emission == Emission::Enzyme,
            again: run.emission == Emission::Enzyme,
            ..machine.with_cache(run.cache, run.ways).into()
        };
        let (_, statistics) = f.simulate((variables, data, seed), setup)?;
        let statistics = Rc::new(statistics);
        self.done.insert((which, run), statistics.clone());
        Ok(statistics)
    }

    fn compiled(&mut self, study: &Study, emission: Emission) -> Result<Rc<Compiled>, Failure> {
        let which = ((study.name, study.form, study.size), emission);
        if let Some(compiled) = self.compiled.get(&which) {
            return Ok(compiled.clone());
        }
        let kernel = study.kernel();
        let gradient = match emission {
            Emission::Enzyme => kernel.under(study.size, Policy::Aliased),
            Emission::Minimal => kernel.under(study.size, Policy::Disjoint),
            Emission::Clean => kernel.gradient(study.size),
        };
        let arguments = kernel.arguments(&(kernel.inputs)(study.size))?;
        // As written: no pass makes loops carry less.
        let machine = Target::Accelerator(Machine::cal());
        let compiled = Rc::new((arguments, jit(gradient).on(machine)));
        self.compiled.insert(which, compiled.clone());
        Ok(compiled)
    }
}
