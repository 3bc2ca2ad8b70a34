//! What programs tell the world outside: their callbacks given functions that write down what they see.

use crate::Agreement;
use std::sync::{Arc, Mutex, PoisonError};
use tapeloom_ir::{Module, Tensor};

/// What was seen: by whom, and the elements of all operands.
pub type Heard = Vec<(String, Vec<f64>)>;

impl Agreement {
    /// The same was heard, in the same order, of numbers that agree.
    ///
    /// # Errors
    /// What differs.
    pub fn check_heard(&self, got: &Heard, want: &Heard) -> Result<(), String> {
        let names = |heard: &Heard| heard.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        if names(got) != names(want) {
            return Err(format!("told {got:?}, want {want:?}"));
        }
        let array = |x: &[f64]| x.iter().copied().collect::<Tensor>();
        let mut pairs = got.iter().zip(want);
        let agree = pairs.try_for_each(|((_, a), (_, b))| self.check(&array(a), &array(b)));
        agree.map_err(|e| format!("told {e}"))
    }
}

/// A list that callbacks write to.
#[derive(Clone, Debug, Default)]
pub struct Listener(Arc<Mutex<Heard>>);

impl Listener {
    /// Listens to the callbacks of a module that was read from text, which have no results.
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

    /// Writes something down.
    pub fn hear(&self, name: &str, x: &[Tensor]) {
        let elements = x.iter().flat_map(|x| x.literals().map(|l| l.to_f64())).collect();
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push((name.to_owned(), elements));
    }

    /// What was written since it was last asked.
    pub fn take(&self) -> Heard {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
