//! A log of ordered effects: the callbacks of a module are bound to functions that log their operands.

use crate::Agreement;
use std::sync::{Arc, Mutex, PoisonError};
use tapeloom::{Var, tap, tap_cotangent};
use tapeloom_ir::{Module, Tensor};

/// The log: for each call of a callback, its name and the elements of all its operands.
pub type Heard = Vec<(String, Vec<f64>)>;

impl Agreement {
    /// Checks that both logs have the same calls in the same order, with operands that agree.
    ///
    /// # Errors
    /// The difference between the logs.
    pub fn check_heard(&self, got: &Heard, want: &Heard) -> Result<(), String> {
        let names = |heard: &Heard| heard.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        if names(got) != names(want) {
            return Err(format!("got {got:?}, want {want:?}"));
        }
        let array = |x: &[f64]| x.iter().copied().collect::<Tensor>();
        let mut pairs = got.iter().zip(want);
        let agree = pairs.try_for_each(|((_, a), (_, b))| self.check(&array(a), &array(b)));
        agree.map_err(|e| format!("effects: {e}"))
    }
}

/// A log that several callbacks share. Clones refer to the same log.
#[derive(Clone, Debug, Default)]
pub struct Listener(Arc<Mutex<Heard>>);

impl Listener {
    /// Binds every callback of a module that was parsed from text to a function that logs its operands and returns no
    /// results; returns the log.
    pub fn of(module: &Module) -> Listener {
        let all = Listener::default();
        for host in module.hosts() {
            let (name, to) = (host.name().to_owned(), all.clone());
            host.bind(move |x| {
                to.hear(&name, x);
                Ok(Vec::new())
            });
        }
        all
    }

    /// Appends a call of the callback `name` with the operands `x` to the log.
    pub fn hear(&self, name: &str, x: &[Tensor]) {
        let elements = x.iter().flat_map(|x| x.literals().map(|l| l.to_f64())).collect();
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push((name.to_owned(), elements));
    }

    /// Logs the value of `x` under `name` when the program runs, and returns `x`.
    pub fn see(&self, name: &'static str, x: Var) -> Var {
        let log = self.clone();
        tap(x, move |x: Tensor| log.hear(name, &[x]))
    }

    /// Logs the cotangent of `x` under `name` in a reverse pass, and returns `x`.
    pub fn see_back(&self, name: &'static str, x: Var) -> Var {
        let log = self.clone();
        tap_cotangent(x, move |x: Tensor| log.hear(name, &[x]))
    }

    /// Returns the calls logged since the last `take`, and clears the log.
    pub fn take(&self) -> Heard {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
