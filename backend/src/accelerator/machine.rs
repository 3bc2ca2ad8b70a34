//! The machine model: the parameters of the accelerator of the TapeFlow paper.
//!
//! A [`Machine`] is data that prints and parses. The library has two machines. [`Machine::cal`] (*calibrated*) is the
//! simulator that the authors of the TapeFlow paper published, as far as it can be reconstructed: an accelerator at 100
//! MHz, with a memory latency of 6.6 ticks. [`Machine::fast`] is another reading of the paper: everything runs at 2
//! GHz, and the memory latency is 132 ticks. It is for studies of sensitivity, not for reproduction. Each parameter in
//! the source below has a default for each of the two. The sources of the numbers are Table III and section VI of the
//! paper for sizes and energies, its authors' repositories for numbers that the paper leaves out, and a fit to their
//! published cycle counts for the two latencies of the cache.
//!
//! ```
//! use tapeloom_backend::accelerator::Machine;
//! let small = Machine::cal().with_cache(2 << 10, 2);
//! let text = small.to_string();
//! assert!(text.contains("\n  cache 2048\n"));
//! assert_eq!(Machine::parse(&text)?, small);
//! let problem = Machine::parse(&text.replace("ways 2", "ways 3")).unwrap_err();
//! assert!(problem.message.contains("a cache of 2048 bytes is not made of sets of 3 lines of 64"));
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use super::opcode::{Latencies, Opcode};
use std::fmt;
use tapeloom_ir::{Kind, Problem, is_word};

/// A row of Table III of the TapeFlow paper: a cache and its energy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheRow {
    /// The size of the cache in bytes.
    pub bytes: u64,
    /// The number of ways (cache lines per set) that the TapeFlow paper's table of caches states. The authors' raw data
    /// fit 2 ways at every size.
    pub ways: u64,
    /// The energy of one access to the cache, in the unit of the TapeFlow paper's Table III (assumed to be 0.1 pJ).
    pub energy: u64,
}

/// Table III of the TapeFlow paper: caches and their energies. The text gives a tenth of the table's energies in pJ (10
/// and 300 for 100 and 2990), so the table's unit is assumed to be 0.1 pJ. Only ratios are reported.
pub const TABLE_III: [CacheRow; 8] = [
    CacheRow { bytes: 1 << 10, ways: 2, energy: 120 },
    CacheRow { bytes: 2 << 10, ways: 2, energy: 440 },
    CacheRow { bytes: 4 << 10, ways: 2, energy: 450 },
    CacheRow { bytes: 8 << 10, ways: 2, energy: 460 },
    CacheRow { bytes: 16 << 10, ways: 2, energy: 470 },
    CacheRow { bytes: 32 << 10, ways: 4, energy: 2_990 },
    // "Fully" associative: the number of ways equals the number of lines.
    CacheRow { bytes: 64 << 10, ways: 1024, energy: 10_800 },
    CacheRow { bytes: 128 << 10, ways: 8, energy: 11_350 },
];

/// A numeric parameter of a machine, described for the printer, the parser and the checks.
struct Field {
    name: &'static str,
    least: u64,
    most: u64,
    get: fn(&Machine) -> u64,
    set: fn(&mut Machine, u64),
}

macro_rules! machine {
    ($($(#[$doc:meta])* $field:ident = $cal:literal, $fast:literal, $least:literal..=$most:expr;)*) => {
        /// The parameters of an accelerator with a cache, a scratchpad and two stream engines.
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct Machine {
            /// The name of the machine, a word.
            pub name: String,
            $($(#[$doc])* pub $field: u64,)*
            /// The latency of each opcode (class of operations), in ticks.
            pub latencies: Latencies,
            /// Pairs of a cache size in bytes and the energy of an access to it, in the unit of [`TABLE_III`].
            pub energies: Vec<(u64, u64)>,
        }

        const FIELDS: &[Field] = &[$(Field {
            name: stringify!($field),
            least: $least,
            most: $most,
            get: |m| m.$field,
            set: |m, x| m.$field = x,
        },)*];

        impl Machine {
            /// Returns the simulator of the TapeFlow paper's authors, as far as it can be reconstructed, with a cache
            /// of 32 kB in 2 ways.
            pub fn cal() -> Machine {
                Machine { name: "cal".into(), $($field: $cal,)* ..Machine::blank() }
            }

            /// Returns another reading of the TapeFlow paper: a machine at 2 GHz, with cache ports that accept a
            /// request in each tick.
            pub fn fast() -> Machine {
                Machine { name: "fast".into(), $($field: $fast,)* ..Machine::blank() }
            }

            /// Returns a machine with all numeric parameters 0, and the default latencies and energies; `parse` then
            /// replaces the parameters that its text contains.
            fn blank() -> Machine {
                Machine {
                    name: String::new(),
                    $($field: 0,)*
                    latencies: Latencies::DEFAULTS,
                    energies: TABLE_III.iter().map(|row| (row.bytes, row.energy)).collect(),
                }
            }
        }
    };
}

/// The upper limit of many machine parameters (65,536): larger than in any real machine, and small enough for the
/// simulator's memory and for tick counts in 64 bits.
const MANY: u64 = 1 << 16;
/// The upper limit of energies (2^24, in the unit of [`TABLE_III`]): larger than any access needs, and small enough
/// that sums do not overflow.
const MOST_ENERGY: u64 = 1 << 24;

machine! {
    /// The length of a tick (clock cycle) in picoseconds.
    tick = 10_000, 500, 1..=1_000_000;
    /// The number of function units, each of which performs any operation: a CGRA of 4 x 4.
    units = 16, 16, 1..=MANY;
    /// The largest number of unfinished operations in the instruction window. With 1, operations run one after the
    /// other in program order, like the replay of a trace.
    window = 10_000, 10_000, 1..=1 << 20;
    /// 1 if each operation of the program text has at most one unfinished instance, 0 if it may have several.
    strict = 0, 0, 0..=1;
    /// The size of the cache in bytes. The cache is LRU, write-back and write-allocate.
    cache = 32_768, 32_768, 1..=1 << 26;
    /// The number of ways of the cache: cache lines per set.
    ways = 2, 2, 1..=1 << 20;
    /// The size of a cache line in bytes.
    line = 64, 64, 8..=MANY;
    /// The largest number of unfinished cache misses.
    mshrs = 20, 20, 1..=MANY;
    /// The largest number of accesses that wait for one cache miss, including the access that missed. 0 if a cache
    /// line counts as present as soon as one access has requested it.
    targets = 12, 12, 0..=MANY;
    /// The largest number of replaced cache lines that wait to be written back. If more wait, one of them is written
    /// before the next read.
    write_buffers = 8, 8, 0..=MANY;
    /// The latency of a cache hit in ticks.
    hit = 3, 4, 1..=MANY;
    /// The additional latency of a cache miss in picoseconds, if a row of memory has to be opened for the line.
    miss = 66_000, 66_000, 0..=1_000_000_000;
    /// The size of a memory row in bytes. A memory bank has one row open at a time, which stays open (DDR4-2400 with
    /// open pages). 0 if all cache lines have the same latency.
    row = 8_192, 8_192, 0..=1 << 30;
    /// The number of memory banks: memory row r is in bank r mod this number.
    row_banks = 16, 16, 1..=MANY;
    /// The time to open a memory row, and to close one, in picoseconds. A cache line in an open row arrives earlier
    /// by this time. If another row of the line's bank is open, the line arrives later by this time.
    row_opens = 14_160, 14_160, 0..=1_000_000_000;
    /// The number of ports between the function units and the cache.
    ports = 2, 2, 1..=MANY;
    /// 1 if a port has at most one read and one write in flight and waits for their answers, 0 if it accepts a
    /// request in each tick.
    blocking = 1, 0, 0..=1;
    /// The time to transfer a cache line to or from memory, in picoseconds: 3,333 for 64 bytes are 19.2 GB/s.
    burst = 3_333, 3_333, 0..=1_000_000_000;
    /// The size of the scratchpad in entries of 8 bytes.
    entries = 64, 64, 1..=1 << 20;
    /// The number of parts of the scratchpad that are filled and drained independently: 2 is double buffering, 1 is
    /// no double buffering.
    halves = 2, 2, 1..=2;
    /// The number of banks of the scratchpad. Each bank performs one access per tick. Entry e is in bank e mod this
    /// number (an assumption).
    banks = 8, 8, 1..=MANY;
    /// The latency of an access to the scratchpad, in ticks.
    scratchpad = 1, 1, 1..=MANY;
    /// The size of one memory request of a stream engine, in bytes.
    request = 64, 64, 8..=MANY;
    /// The largest number of unfinished requests of a stream engine.
    outstanding = 8, 8, 1..=MANY;
    /// The number of ticks between two requests of a stream engine.
    pace = 1, 1, 1..=MANY;
    /// The latency of a barrier (the end of a layer) in ticks, counted from the last access of its layer.
    barrier = 1, 1, 0..=MANY;
    /// The energy of an access to the scratchpad, in the unit of [`TABLE_III`].
    scratchpad_energy = 100, 100, 0..=MANY;
}

impl Machine {
    /// Returns the machine with a cache of `bytes` bytes and `ways` ways. The size must be among
    /// [`Machine::energies`], such as the sizes of [`TABLE_III`].
    pub fn with_cache(self, bytes: u64, ways: u64) -> Machine {
        Machine { cache: bytes, ways, ..self }
    }

    /// Returns the latency in ticks of a cache miss that opens a memory row while memory is idle. A partial tick
    /// counts as a whole one.
    pub fn missed(&self) -> u64 {
        self.hit + self.miss.div_ceil(self.tick.max(1))
    }

    /// Returns the number of 8-byte entries of a half of the scratchpad, which limits each layer (entries that are
    /// allocated at one time) and each tile (entries that are streamed together).
    pub fn capacity(&self) -> u64 {
        self.entries / self.halves.max(1)
    }

    /// Returns the energy of an access to the machine's cache, in the unit of [`TABLE_III`]; `None` if `energies` lacks
    /// the cache's size.
    pub fn cache_energy(&self) -> Option<u64> {
        self.energies.iter().find(|(bytes, _)| *bytes == self.cache).map(|(_, energy)| *energy)
    }

    /// Checks that each parameter is within its limits and that the parameters fit together.
    ///
    /// # Errors
    /// [`Kind::Target`], with a message that lists all invalid parameters.
    pub fn check(&self) -> Result<(), Problem> {
        let mut wrong = Vec::new();
        if !is_word(&self.name) {
            wrong.push(format!("its name must be a word, got `{}`", self.name));
        }
        for Field { name, least, most, get, set: _ } in FIELDS {
            let found = get(self);
            if found < *least || found > *most {
                wrong.push(format!("`{name}` must be {least} to {most}, got {found}"));
            }
        }
        for opcode in Opcode::ALL {
            let latency = self.latencies[*opcode];
            if latency > MANY {
                wrong.push(format!("`latency {opcode}` must be 0 to {MANY}, got {latency}"));
            }
        }
        for (at, (bytes, energy)) in self.energies.iter().enumerate() {
            if *energy > MOST_ENERGY {
                wrong.push(format!("`energy {bytes}` must be 0 to {MOST_ENERGY}, got {energy}"));
            }
            if self.energies[..at].iter().any(|before| before.0 == *bytes) {
                wrong.push(format!("the energy of a cache of {bytes} bytes is given twice"));
            }
        }
        if wrong.is_empty() {
            let (cache, ways, line) = (self.cache, self.ways, self.line);
            if !line.is_multiple_of(8) {
                wrong.push(format!("a line of {line} bytes is no multiple of words of 8"));
            }
            if !cache.is_multiple_of(ways * line) {
                let sets = format!("is not made of sets of {ways} lines of {line}");
                wrong.push(format!("a cache of {cache} bytes {sets}"));
            }
            if !self.entries.is_multiple_of(self.halves) {
                wrong.push(format!("{} entries are not {} halves", self.entries, self.halves));
            }
            if !self.request.is_multiple_of(8) {
                wrong.push(format!("a request of {} bytes is not entries of 8", self.request));
            }
            if self.row_opens > self.miss {
                let (opens, miss) = (self.row_opens, self.miss);
                wrong.push(format!("a row opens in {opens} ps, within the {miss} ps of a miss"));
            }
            if self.cache_energy().is_none() {
                let known: Vec<String> = self.energies.iter().map(|e| e.0.to_string()).collect();
                let known = known.join(", ");
                wrong.push(format!("`energies` has {known} bytes, and no cache of {cache}"));
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let message = format!("the machine {} is invalid: {}", self.name, wrong.join("; "));
        Err(Problem::new(Kind::Target, message, "begin with `Machine::cal()`"))
    }

    /// Parses the printed form of a machine, the output of `Display`.
    ///
    /// # Errors
    /// [`Kind::Parse`] with the line that cannot be parsed; [`Kind::Target`] if a parameter is invalid.
    pub fn parse(text: &str) -> Result<Machine, Problem> {
        let mut machine = Machine::blank();
        machine.energies.clear();
        let mut missing: Vec<String> = FIELDS.iter().map(|f| f.name.to_owned()).collect();
        missing.extend(Opcode::ALL.iter().map(|o| format!("latency {o}")));
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let problem = |at: usize, message: String| {
            Problem::new(Kind::Parse, format!("text of a machine, line {}: {message}", at + 1), "")
        };
        let opening = lines.next().map(|(_, line)| line.split_whitespace().collect::<Vec<_>>());
        let Some(["machine", name, "{"]) = opening.as_deref() else {
            return Err(problem(0, "expected `machine name {`".into()));
        };
        machine.name = (*name).to_owned();
        let mut closed = false;
        for (at, line) in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |word: &str| {
                word.parse::<u64>()
                    .map_err(|_| problem(at, format!("expected a number, found `{word}`")))
            };
            let said = match words.as_slice() {
                _ if closed => {
                    return Err(problem(at, format!("expected the end, found `{line}`")));
                }
                ["}"] => {
                    closed = true;
                    continue;
                }
                ["energy", bytes, energy] => {
                    machine.energies.push((number(bytes)?, number(energy)?));
                    continue;
                }
                ["latency", name, ticks] => {
                    let Some(opcode) = Opcode::ALL.iter().find(|o| o.name() == *name) else {
                        return Err(problem(at, format!("there is no opcode `{name}`")));
                    };
                    machine.latencies[*opcode] = number(ticks)?;
                    format!("latency {name}")
                }
                [name, value] => {
                    let Some(field) = FIELDS.iter().find(|f| f.name == *name) else {
                        return Err(problem(at, format!("a machine has no `{name}`")));
                    };
                    (field.set)(&mut machine, number(value)?);
                    (*name).to_owned()
                }
                _ => return Err(problem(at, format!("expected `name number`, found `{line}`"))),
            };
            let Some(found) = missing.iter().position(|m| *m == said) else {
                return Err(problem(at, format!("`{said}` is given twice")));
            };
            missing.remove(found);
        }
        if !closed || !missing.is_empty() {
            let what = if closed { missing.join(", ") } else { "`}`".into() };
            return Err(problem(text.lines().count(), format!("the text ends without {what}")));
        }
        machine.check()?;
        Ok(machine)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "machine {} {{", self.name)?;
        for field in FIELDS {
            writeln!(f, "  {} {}", field.name, (field.get)(self))?;
        }
        for opcode in Opcode::ALL {
            writeln!(f, "  latency {opcode} {}", self.latencies[*opcode])?;
        }
        for (bytes, energy) in &self.energies {
            writeln!(f, "  energy {bytes} {energy}")?;
        }
        writeln!(f, "}}")
    }
}
