//! Systems: which accesses go where.
//!
//! One program runs on all of them, and says of every access whether it is of the tape; a system says
//! what that means. `Enzyme` is the paper's baseline, everything through the cache; `AoS` its first pass
//! alone; `Tflow` all four, and `TflowIdeal` the same with tape and streams that cost no time, which is
//! what the authors' published tables measured. `EnzymePad` and `Prefetch` are ours: the cheap
//! competitors that the paper does not compare with.

use super::arrays::TapeForm;
use super::machine::Machine;
use crate::layout::Pipeline;

/// Where accesses to the tape go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Route {
    /// Through the cache, as all others.
    Cache {
        /// How the tape lies in memory.
        form: TapeForm,
        /// Whether the line behind (backward: before) one of the tape is fetched with it.
        prefetch: bool,
    },
    /// To the scratchpad, which the stream engines fill and drain.
    Scratchpad {
        /// Whether accesses and streams take no time and are only counted.
        ideal: bool,
    },
}

/// A way to treat the tape. Names are those of the paper where it has one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct System {
    /// Its name, without the size of the cache.
    pub name: &'static str,
    /// Where its tape goes,
    pub tape: Route,
    /// and how that of a program is laid out.
    pub layout: Pipeline,
}

impl System {
    /// Arrays, one behind the other, through the cache.
    pub const ENZYME: System = System {
        name: "Enzyme",
        tape: Route::Cache { form: TapeForm::Arrays { skew: 0 }, prefetch: false },
        layout: Pipeline::SOA,
    };
    /// Arrays that begin at different sets of the cache.
    pub const ENZYME_PAD: System = System {
        name: "EnzymePad",
        tape: Route::Cache { form: TapeForm::Arrays { skew: 37 }, prefetch: false },
        layout: Pipeline::SOA,
    };
    /// Records through the cache.
    pub const AOS: System = System {
        name: "AoS",
        tape: Route::Cache { form: TapeForm::Records, prefetch: false },
        layout: Pipeline::AOS,
    };
    /// Records through a cache that fetches ahead.
    pub const PREFETCH: System = System {
        name: "Prefetch",
        tape: Route::Cache { form: TapeForm::Records, prefetch: true },
        layout: Pipeline::AOS,
    };
    /// Layers in the scratchpad, tiles in streams.
    pub const TFLOW: System =
        System { name: "Tflow", tape: Route::Scratchpad { ideal: false }, layout: Pipeline::TFLOW };
    /// The same, free of time.
    pub const TFLOW_IDEAL: System = System {
        name: "TflowIdeal",
        tape: Route::Scratchpad { ideal: true },
        layout: Pipeline::TFLOW,
    };
    /// The same as `Tflow`, with arguments that the reverse phase reads in order streamed from where they lie.
    pub const TFLOW_INPUTS: System = System {
        name: "TflowInputs",
        tape: Route::Scratchpad { ideal: false },
        layout: Pipeline::MINTAPE_TFLOW,
    };

    /// Every system.
    pub const ALL: [System; 7] = [
        System::ENZYME,
        System::ENZYME_PAD,
        System::AOS,
        System::TFLOW,
        System::TFLOW_IDEAL,
        System::TFLOW_INPUTS,
        System::PREFETCH,
    ];

    /// Its name with the size of the cache, as the paper writes it: `Enzyme_32k`.
    pub fn on(self, machine: &Machine) -> String {
        match machine.cache {
            bytes if bytes.is_multiple_of(1024) => format!("{}_{}k", self.name, bytes / 1024),
            bytes => format!("{}_{bytes}", self.name),
        }
    }
}
