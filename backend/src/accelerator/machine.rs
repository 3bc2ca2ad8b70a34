//! The machine as numbers: what the paper's accelerator is made of.
//!
//! A [`Machine`] is data that prints and parses; two come with the library. [`Machine::cal`]
//! (*calibrated*) is the authors' public simulator as far as it can be reconstructed: an accelerator of
//! 100 MHz, so that memory is 6.6 ticks away. [`Machine::fast`] is another reading of the paper, in which
//! everything runs at 2 GHz and memory is 132 ticks away; it is for studies of sensitivity, never for
//! reproduction. Each row of the table below has both columns. Whence the numbers are: Table III and
//! section VI of the paper for sizes and energies, its authors' repositories for what it leaves out, and
//! a fit to their published cycle counts for the two latencies of the cache.
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

/// A cache of Table III.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheRow {
    /// Its bytes.
    pub bytes: u64,
    /// Its ways. The authors' raw data fit 2 ways at every size.
    pub ways: u64,
    /// The energy of an access, in the unit of the table.
    pub energy: u64,
}

/// Table III of the paper. The text says ten times less pJ than the table (10 and 300 for 100 and 2990),
/// so its unit is taken for a tenth of a pJ; only ratios are reported.
pub const TABLE_III: [CacheRow; 8] = [
    CacheRow { bytes: 1 << 10, ways: 2, energy: 120 },
    CacheRow { bytes: 2 << 10, ways: 2, energy: 440 },
    CacheRow { bytes: 4 << 10, ways: 2, energy: 450 },
    CacheRow { bytes: 8 << 10, ways: 2, energy: 460 },
    CacheRow { bytes: 16 << 10, ways: 2, energy: 470 },
    CacheRow { bytes: 32 << 10, ways: 4, energy: 2_990 },
    // "Fully" associative: as many ways as lines.
    CacheRow { bytes: 64 << 10, ways: 1024, energy: 10_800 },
    CacheRow { bytes: 128 << 10, ways: 8, energy: 11_350 },
];

/// A number of a machine.
struct Field {
    name: &'static str,
    least: u64,
    most: u64,
    get: fn(&Machine) -> u64,
    set: fn(&mut Machine, u64),
}

macro_rules! machine {
    ($($(#[$doc:meta])* $field:ident = $cal:literal, $fast:literal, $least:literal..=$most:expr;)*) => {
        /// An accelerator with a cache, a scratchpad and two stream engines.
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct Machine {
            /// What it is called.
            pub name: String,
            $($(#[$doc])* pub $field: u64,)*
            /// Ticks of each opcode.
            pub latencies: Latencies,
            /// Energy of an access to a cache of so many bytes, in the unit of [`TABLE_III`].
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
            /// The authors' simulator, as far as it can be reconstructed, with a cache of 32 kB in 2 ways.
            pub fn cal() -> Machine {
                Machine { name: "cal".into(), $($field: $cal,)* ..Machine::blank() }
            }

            /// The same at 2 GHz, with ports that do not block.
            pub fn fast() -> Machine {
                Machine { name: "fast".into(), $($field: $fast,)* ..Machine::blank() }
            }

            /// A machine whose numbers are still to be said.
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

/// More than any machine has, and little enough that there is memory for it, and that ticks stay numbers.
const MANY: u64 = 1 << 16;
/// More than an access takes, and little enough that sums stay numbers.
const MOST_ENERGY: u64 = 1 << 24;

machine! {
    /// Picoseconds of a tick.
    tick = 10_000, 500, 1..=1_000_000;
    /// Function units, each of which does any operation: a CGRA of 4 x 4.
    units = 16, 16, 1..=MANY;
    /// Operations that are known and not finished. With 1 they run one after the other, in the order of
    /// the program: the replay of a trace.
    window = 10_000, 10_000, 1..=1 << 20;
    /// 1 where an operation of the program has at most one instance under way, 0 where it may have many.
    strict = 0, 0, 0..=1;
    /// Bytes of the cache: LRU, write-back, write-allocate.
    cache = 32_768, 32_768, 1..=1 << 26;
    /// Lines of a set.
    ways = 2, 2, 1..=1 << 20;
    /// Bytes of a line.
    line = 64, 64, 8..=MANY;
    /// Lines that may be missing at the same time.
    mshrs = 20, 20, 1..=MANY;
    /// Accesses that wait for one of them, the first one included; 0 where a line is there for others as
    /// soon as one access has asked for it.
    targets = 12, 12, 0..=MANY;
    /// Lines that wait to be written back; one more has to be written before a line is read.
    write_buffers = 8, 8, 0..=MANY;
    /// Ticks of an access that hits.
    hit = 3, 4, 1..=MANY;
    /// Picoseconds that an access which misses takes longer, where a row of memory has to be opened for it.
    miss = 66_000, 66_000, 0..=1_000_000_000;
    /// Bytes of a row of memory. A bank has one row open at a time; it stays open (DDR4-2400: open pages). 0 where
    /// every line is as far away.
    row = 8_192, 8_192, 0..=1 << 30;
    /// Banks of memory: row r is in bank r mod this.
    row_banks = 16, 16, 1..=MANY;
    /// Picoseconds to open a row, and to close one: a line of an open row is there sooner by this, and one in whose
    /// bank another row is open later.
    row_opens = 14_160, 14_160, 0..=1_000_000_000;
    /// Ways from the units to the cache.
    ports = 2, 2, 1..=MANY;
    /// 1 where a port has one read and one write under way and waits for their answers, 0 where it takes
    /// a request each tick.
    blocking = 1, 0, 0..=1;
    /// Picoseconds in which memory moves a line: 19.2 GB/s.
    burst = 3_333, 3_333, 0..=1_000_000_000;
    /// Entries of 8 bytes in the scratchpad.
    entries = 64, 64, 1..=1 << 20;
    /// Parts of it that are filled and drained while another one is in use: 2 is double buffering, 1 is
    /// none.
    halves = 2, 2, 1..=2;
    /// Its banks: each takes one access in a tick. Entry e is in bank e mod this (an assumption).
    banks = 8, 8, 1..=MANY;
    /// Ticks of an access to it.
    scratchpad = 1, 1, 1..=MANY;
    /// Bytes of one request of a stream engine.
    request = 64, 64, 8..=MANY;
    /// Requests that an engine has under way.
    outstanding = 8, 8, 1..=MANY;
    /// Ticks between its requests.
    pace = 1, 1, 1..=MANY;
    /// Ticks of a barrier, from the last access of its layer on.
    barrier = 1, 1, 0..=MANY;
    /// Energy of an access to the scratchpad, in the unit of Table III.
    scratchpad_energy = 100, 100, 0..=MANY;
}

impl Machine {
    /// With another cache: of a size whose energy is among [`Machine::energies`], as are those of [`TABLE_III`].
    pub fn with_cache(self, bytes: u64, ways: u64) -> Machine {
        Machine { cache: bytes, ways, ..self }
    }

    /// Ticks of an access that misses, where memory is free and opens a row: a tick that has begun is waited for.
    pub fn missed(&self) -> u64 {
        self.hit + self.miss.div_ceil(self.tick.max(1))
    }

    /// Entries that lie together in the scratchpad: the largest layer, and the largest tile.
    pub fn capacity(&self) -> u64 {
        self.entries / self.halves.max(1)
    }

    /// Energy of an access to its cache.
    pub fn cache_energy(&self) -> Option<u64> {
        self.energies.iter().find(|(bytes, _)| *bytes == self.cache).map(|(_, energy)| *energy)
    }

    /// Whether it can be built.
    ///
    /// # Errors
    /// [`Kind::Target`] with everything that does not fit.
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
                wrong.push(format!("the energy of a cache of {bytes} bytes is said twice"));
            }
        }
        if wrong.is_empty() {
            let (cache, ways, line) = (self.cache, self.ways, self.line);
            if !line.is_multiple_of(8) {
                wrong.push(format!("a line of {line} bytes does not hold whole words of 8"));
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
        let message = format!("the machine {} cannot be: {}", self.name, wrong.join("; "));
        Err(Problem::new(Kind::Target, message, "begin with `Machine::cal()`"))
    }

    /// Reads what a machine prints.
    ///
    /// # Errors
    /// [`Kind::Parse`] with the line that makes no sense, [`Kind::Target`] where the machine cannot be.
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
                return Err(problem(at, format!("`{said}` is said twice")));
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
