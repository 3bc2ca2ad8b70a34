//! Systems: each states the layout of the tape and the route of tape accesses (cache or scratchpad).
//!
//! The same program runs on all systems. It marks each access that is to the tape, and the system decides where these
//! accesses go. `Enzyme` is the baseline of the TapeFlow paper: everything goes through the cache. `AoS` is the
//! paper's first pass alone, `Tflow` all four passes. `TflowIdeal` is `Tflow` with tape and streams that cost no
//! time, which the authors' published tables measured. `EnzymePad` and `Prefetch` are ours: simple competitors that
//! the paper does not compare with.

use super::arrays::TapeForm;
use super::machine::Machine;
use crate::layout::Pipeline;

/// The route of tape accesses: through the cache or to the scratchpad.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Route {
    /// Tape accesses go through the cache, like all other accesses.
    Cache {
        /// The layout of the tape in memory.
        form: TapeForm,
        /// Whether an access to the tape also prefetches the next cache line (in the reverse phase: the previous
        /// cache line).
        prefetch: bool,
    },
    /// Tape accesses go to the scratchpad, which stream engines fill and drain.
    Scratchpad {
        /// Whether accesses and streams of the tape take no time and are only counted.
        ideal: bool,
    },
}

/// A system: the layout of the tape, and the route of accesses to it. A system that occurs in the TapeFlow paper has
/// the paper's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct System {
    /// The name of the system, without the size of the cache: `Enzyme`.
    pub name: &'static str,
    /// The route of tape accesses.
    pub tape: Route,
    /// The passes that lay out the tape of a program.
    pub layout: Pipeline,
}

impl System {
    /// The TapeFlow paper's baseline: tape arrays one after the other, accessed through the cache.
    pub const ENZYME: System = System {
        name: "Enzyme",
        tape: Route::Cache { form: TapeForm::Arrays { skew: 0 }, prefetch: false },
        layout: Pipeline::SOA,
    };
    /// The baseline `Enzyme`, but with tape arrays that begin at different sets of the cache (the i-th array is shifted
    /// by 37 i cache lines).
    pub const ENZYME_PAD: System = System {
        name: "EnzymePad",
        tape: Route::Cache { form: TapeForm::Arrays { skew: 37 }, prefetch: false },
        layout: Pipeline::SOA,
    };
    /// The TapeFlow paper's first pass alone: a tape of records, accessed through the cache.
    pub const AOS: System = System {
        name: "AoS",
        tape: Route::Cache { form: TapeForm::Records, prefetch: false },
        layout: Pipeline::AOS,
    };
    /// A tape of records, accessed through a cache that prefetches the next cache line.
    pub const PREFETCH: System = System {
        name: "Prefetch",
        tape: Route::Cache { form: TapeForm::Records, prefetch: true },
        layout: Pipeline::AOS,
    };
    /// The TapeFlow paper's four passes: the tape goes through the scratchpad, which stream engines fill and drain.
    pub const TFLOW: System =
        System { name: "Tflow", tape: Route::Scratchpad { ideal: false }, layout: Pipeline::TFLOW };
    /// The system `Tflow`, but with tape accesses and streams that take no time and are only counted.
    pub const TFLOW_IDEAL: System = System {
        name: "TflowIdeal",
        tape: Route::Scratchpad { ideal: true },
        layout: Pipeline::TFLOW,
    };
    /// The system `Tflow`, in which arguments that the reverse phase reads in order are also streamed to the
    /// scratchpad, directly from their arrays.
    pub const TFLOW_INPUTS: System = System {
        name: "TflowInputs",
        tape: Route::Scratchpad { ideal: false },
        layout: Pipeline::MINTAPE_TFLOW,
    };

    /// All systems that can be simulated.
    pub const ALL: [System; 7] = [
        System::ENZYME,
        System::ENZYME_PAD,
        System::AOS,
        System::TFLOW,
        System::TFLOW_IDEAL,
        System::TFLOW_INPUTS,
        System::PREFETCH,
    ];

    /// Returns the system's name with the machine's cache size, as the TapeFlow paper writes it: `Enzyme_32k`.
    pub fn on(self, machine: &Machine) -> String {
        match machine.cache {
            bytes if bytes.is_multiple_of(1024) => format!("{}_{}k", self.name, bytes / 1024),
            bytes => format!("{}_{bytes}", self.name),
        }
    }
}
