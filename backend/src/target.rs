//! Targets: the engines that run loop programs.
//!
//! A target is a value that can be printed. [`compile`](crate::compile()) takes a target, and the report of the
//! compilation names it. The text of a native target is its target triple.
//!
//! ```
//! use tapeloom_backend::Target;
//! let here = Target::host();
//! assert!(here.to_string().starts_with(std::env::consts::ARCH));
//! assert_eq!(Target::Interpreter.to_string(), "interpreter");
//! let machine = tapeloom_backend::accelerator::Machine::cal();
//! assert_eq!(Target::Accelerator(machine).to_string(), "accelerator cal");
//! ```

use crate::accelerator;
use crate::machine::MachineModel;
use std::fmt;
use std::num::NonZeroUsize;
use tapeloom_ir::{Kind, Problem};
use target_lexicon::Triple;

/// An engine that runs programs: machine code, the interpreter, a simulated accelerator, or XLA.
#[expect(
    clippy::large_enum_variant,
    reason = "there are few targets, and a box would make patterns harder to read"
)]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// Machine code for a target triple, with the instruction set of this machine
    /// ([`Isa::here`](tapeloom_ir::Isa::here)). Without the feature `native`, compiling for this target is an error.
    Native(Triple),
    /// The interpreter of the loop IR, which checks every access to memory. It is slow and meant for tests.
    Interpreter,
    /// A simulated accelerator on which every memory access goes through the cache. It computes the same results as
    /// machine code, and [returns](crate::Runnable::simulate) statistics.
    Accelerator(accelerator::Machine),
    /// The first device of an XLA plugin. This target runs no loop programs: [`crate::xla::Program`] compiles functions
    /// for it.
    #[cfg(feature = "xla")]
    Xla(crate::xla::Client),
}

impl Target {
    /// Returns the target that is machine code for this computer.
    pub fn host() -> Target {
        Target::Native(Triple::host())
    }
}

/// Machine code for this computer; without the feature `native`, the interpreter.
impl Default for Target {
    fn default() -> Target {
        if cfg!(feature = "native") { Target::host() } else { Target::Interpreter }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Native(triple) => write!(f, "{triple}"),
            Target::Interpreter => f.write_str("interpreter"),
            Target::Accelerator(machine) => write!(f, "accelerator {}", machine.name),
            #[cfg(feature = "xla")]
            Target::Xla(client) => write!(f, "{client:?}"),
        }
    }
}

/// Options of a compilation: the engine, limits, and the machine model.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    /// The engine that runs the program.
    pub target: Target,
    /// Whether calls can have limits, and report the resources that they used. If so, loops count their iterations.
    pub limited: bool,
    /// Whether calls measure the time of each loop nest and call of the program
    /// ([`Runnable::profile`](crate::Runnable::profile)). Only machine code has timers.
    pub profiled: bool,
    /// For each argument, whether a result of its type may take over its memory: the n-th result of a type takes that of
    /// the n-th donated argument of this type. [`Runnable::call_donating`](crate::Runnable::call_donating) then updates
    /// arguments in place. All other calls copy these arguments first. Arguments beyond the end of the list are not
    /// donated.
    pub donated: Vec<bool>,
    /// The largest number of threads that run the pieces of a call's concurrent loops. `None` means the number in the
    /// environment variable `TAPELOOM_THREADS`, or 1 without this variable. The number does not change results.
    pub threads: Option<NonZeroUsize>,
    /// The machine model, which applies to every target: the interpreter and the simulator run the same loop programs
    /// as machine code.
    pub machine: MachineModel,
}

impl Options {
    /// Returns the largest number of threads that a call may use.
    pub(crate) fn threads(&self) -> Result<usize, Problem> {
        let asked = || match std::env::var("TAPELOOM_THREADS") {
            Ok(text) => number_of_threads(&text),
            Err(_) => Ok(NonZeroUsize::MIN),
        };
        Ok(self.threads.map_or_else(asked, Ok)?.get())
    }
}

/// Parses the value of `TAPELOOM_THREADS`, and returns the number of threads.
fn number_of_threads(text: &str) -> Result<NonZeroUsize, Problem> {
    text.trim().parse().map(threads).map_err(|_| {
        let message = format!("TAPELOOM_THREADS is `{text}`, which is no number of threads");
        Problem::new(Kind::Target, message, "set it to a number such as 4, or to 0 for all cores")
    })
}

/// Returns `n`, or for `n` = 0 the number of threads that this process may use, given its CPU affinity and control
/// group.
pub fn threads(n: usize) -> NonZeroUsize {
    let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    NonZeroUsize::new(n).unwrap_or_else(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn numbers_of_threads_are_read_from_text() {
        assert_eq!(number_of_threads(" 3 ").unwrap().get(), 3);
        assert_eq!(number_of_threads("0").unwrap(), threads(0));
        let problem = number_of_threads("all").unwrap_err();
        assert_eq!(problem.message, "TAPELOOM_THREADS is `all`, which is no number of threads");
    }
}
