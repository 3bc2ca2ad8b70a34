//! Simulations of the kernels of the TapeFlow study; each configuration is simulated once.

use super::study::Study;
use crate::Failure;
use crate::suite::{Form, Given, Gradient};
use std::collections::BTreeMap;
use std::rc::Rc;
use tapeloom::Target;
use tapeloom::accelerator::{AddressMap, Machine, RunConfig, Statistics, System};
use tapeloom::prelude::*;

/// The checkpoint policy under which a kernel's gradient is planned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TapePolicy {
    /// The policy that models the compiler of the TapeFlow study: [`Policy::Aliased`].
    Enzyme,
    /// Among the policies that accumulate cotangents like the compiler of the TapeFlow study, the one with the smallest
    /// tape: [`Policy::Disjoint`].
    Minimal,
    /// The default policy.
    Clean,
}

/// The configuration of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Run {
    /// The policy of the gradient.
    pub tape_policy: TapePolicy,
    /// The name of one of [`System::ALL`].
    pub system: &'static str,
    /// The size of the cache in bytes.
    pub cache: u64,
    /// The associativity of the cache.
    pub ways: u64,
    /// The number of entries of the scratchpad.
    pub entries: u64,
    /// The largest number of values in a layer (a group of tape entries for which the scratchpad is allocated at once);
    /// `None` for the layers of the TapeFlow study.
    pub layer: Option<u64>,
    /// The size of the instruction window; 1 replays the trace in order.
    pub window: u64,
    /// Unroll factors, inner loops first; empty for loops as written.
    pub unroll: &'static [u64],
    /// The number of unused bytes behind each array.
    pub gap: u64,
}

/// The gap in bytes between arrays in runs with the smallest tape: an odd number of cache lines, as in
/// [`System::ENZYME_PAD`].
const APART: u64 = 37 * 64;

impl Run {
    /// Returns the configuration that models the compiler of the TapeFlow study, with a 2-way cache of this size in
    /// bytes.
    pub fn of(system: System, cache: u64) -> Run {
        let Machine { entries, window, .. } = Machine::cal();
        let (tape_policy, ways, layer) = (TapePolicy::Enzyme, 2, None);
        let (system, unroll, gap) = (system.name, [].as_slice(), 0);
        Run { tape_policy, system, cache, ways, entries, layer, window, unroll, gap }
    }

    /// Returns the configuration with the smallest tape on streams, streamed arguments, and arrays padded by `APART`.
    pub fn smallest(cache: u64) -> Run {
        let streamed = Run::of(System::TFLOW_INPUTS, cache);
        Run { tape_policy: TapePolicy::Minimal, gap: APART, ..streamed }
    }

    /// Returns the configuration with loops unrolled; a layer is then one execution of a block of unrolled code.
    pub fn unrolled(self, unroll: &'static [u64]) -> Run {
        Run { layer: Some(1), unroll, ..self }
    }
}

type Compiled = (Given<Tensor>, Jit<Given<Var>, (Var, Vec<Var>), Gradient>);

/// A compiled kernel: its name, its form and its size.
type Which = (&'static str, Form, &'static [usize]);

/// A store of compiled kernels and of finished simulations.
pub struct Runs {
    compiled: BTreeMap<(Which, TapePolicy), Rc<Compiled>>,
    done: BTreeMap<(Which, Run), Rc<Statistics>>,
    /// A function that is called with the description of each new simulation, to report progress.
    heard: Box<dyn Fn(&str)>,
}

impl Runs {
    /// Returns an empty store; `heard` is called with a description before each new simulation.
    pub fn new(heard: impl Fn(&str) + 'static) -> Runs {
        Runs { compiled: BTreeMap::new(), done: BTreeMap::new(), heard: Box::new(heard) }
    }

    /// Returns the number of simulations in the store.
    pub fn made(&self) -> usize {
        self.done.len()
    }

    /// Returns the statistics of a kernel with this configuration, which is simulated if it is new.
    ///
    /// # Errors
    /// The errors of the compiler and the simulator.
    pub fn get(&mut self, study: &Study, run: Run) -> Result<Rc<Statistics>, Failure> {
        let which = (study.name, study.form, study.size);
        if let Some(done) = self.done.get(&(which, run)) {
            return Ok(done.clone());
        }
        (self.heard)(&format!("{} on {}_{}k", study.name, run.system, run.cache >> 10));
        let compiled = self.compiled(study, run.tape_policy)?;
        let ((variables, data, seed), f) = &*compiled;
        let machine = Machine { entries: run.entries, window: run.window, ..Machine::cal() };
        let system = System::ALL.into_iter().find(|system| system.name == run.system);
        let mut map = AddressMap { gap: run.gap, ..study.map() };
        if run.tape_policy != TapePolicy::Enzyme {
            // The compiler of the TapeFlow study stores each value on the tape as a word of eight bytes; with other
            // policies bools take one byte.
            map.word = 1;
        }
        let setup = RunConfig {
            system: system.ok_or("no such system")?,
            map,
            layer: run.layer.unwrap_or(study.block),
            unroll: run.unroll.to_vec(),
            prepared: true,
            mirrored: true,
            overlap: run.tape_policy == TapePolicy::Enzyme,
            again: run.tape_policy == TapePolicy::Enzyme,
            ..machine.with_cache(run.cache, run.ways).into()
        };
        let (_, statistics) = f.simulate((variables, data, seed), setup)?;
        let statistics = Rc::new(statistics);
        self.done.insert((which, run), statistics.clone());
        Ok(statistics)
    }

    fn compiled(
        &mut self,
        study: &Study,
        tape_policy: TapePolicy,
    ) -> Result<Rc<Compiled>, Failure> {
        let which = ((study.name, study.form, study.size), tape_policy);
        if let Some(compiled) = self.compiled.get(&which) {
            return Ok(compiled.clone());
        }
        let kernel = study.kernel();
        let gradient = match tape_policy {
            TapePolicy::Enzyme => kernel.under(study.size, Policy::Aliased),
            TapePolicy::Minimal => kernel.under(study.size, Policy::Disjoint),
            TapePolicy::Clean => kernel.gradient(study.size),
        };
        let arguments = kernel.arguments(&(kernel.inputs)(study.size))?;
        // For the simulated accelerator, loops are compiled as they are written: no pass narrows their carries.
        let machine = Target::Accelerator(Machine::cal());
        let compiled = Rc::new((arguments, jit(gradient).on(machine)));
        self.compiled.insert(which, compiled.clone());
        Ok(compiled)
    }
}
