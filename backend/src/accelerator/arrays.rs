//! The address map of a simulated run: where arrays and the tape are in memory.
//!
//! A program names an element of an array, and the map gives the element's address. The map belongs to the run and not
//! to the program, because conflicts in a cache depend on addresses: the TapeFlow paper's largest gain (14 times less
//! traffic in MTTKRP) comes from three arrays that a bump allocator places a multiple of the cache size apart. Arrays
//! may overlap, as those of the paper's authors do (see the test of MTTKRP): the map only determines times and traffic,
//! while values are computed by the interpreter.
//!
//! The tape has two layouts. Regions follow one another in the order of the program. Each of the n(b) executions of
//! block b stores k(b) values in region b:
//!
//! ```text
//! structure of arrays   value s of execution n:   base(b, s) + 8 n,           one array for each (b, s)
//! array of structures   value s of execution n:   base(b) + 8 (n k(b) + s)    one array for each b
//! ```

use cranelift_entity::{PrimaryMap, entity_impl};

/// The id of an array of a simulated run. Displays as `a3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArrayId(u32);
entity_impl!(ArrayId, "a");

/// An array of a simulated run and its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    /// The name of the array, for messages.
    pub name: String,
    /// The simulated address of the first element, in bytes.
    pub address: u64,
    /// The number of elements in the array.
    pub elements: u64,
    /// The size of an element in bytes.
    pub width: u64,
}

/// The arrays of a simulated run, with their addresses.
///
/// ```
/// use tapeloom_backend::accelerator::Arrays;
/// let mut arrays = Arrays::bump(Arrays::BASE, 48, 0);
/// let x = arrays.push("x", 4, 8);
/// let y = arrays.push("y", 4, 8);
/// assert_eq!(arrays.address(x, 1), Some(Arrays::BASE + 48 + 8));
/// assert_eq!(arrays.address(y, 0), Some(Arrays::BASE + 48 + 32 + 48));
/// assert_eq!(arrays.address(y, 4), None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrays {
    all: PrimaryMap<ArrayId, Array>,
    /// The address of the first byte after all arrays, where `push` places the next array.
    next: u64,
    header: u64,
    gap: u64,
}

impl Arrays {
    /// The address of the first array in the experiments of the TapeFlow paper's authors.
    pub const BASE: u64 = 0x80c0_0000;

    /// Creates an empty map. Each array is placed after the previous array, with `header` bytes before the elements and
    /// `gap` bytes after the elements.
    pub fn bump(base: u64, header: u64, gap: u64) -> Arrays {
        Arrays { all: PrimaryMap::new(), next: base, header, gap }
    }

    /// Adds an array of `elements` elements of `width` bytes at the next free address.
    pub fn push(&mut self, name: &str, elements: u64, width: u64) -> ArrayId {
        let address = self.next.saturating_add(self.header);
        let end = address.saturating_add(elements.saturating_mul(width));
        self.next = end.saturating_add(self.gap);
        self.place(name, address, elements, width)
    }

    /// Adds an array at the given address, even if it overlaps other arrays.
    pub fn place(&mut self, name: &str, address: u64, elements: u64, width: u64) -> ArrayId {
        self.all.push(Array { name: name.to_owned(), address, elements, width })
    }

    /// Returns the address of an element in bytes; `None` if the index is out of range.
    pub fn address(&self, array: ArrayId, element: u64) -> Option<u64> {
        let Array { name: _, address, elements, width } = self.all.get(array)?;
        let at = element.checked_mul(*width)?.checked_add(*address)?;
        (element < *elements).then_some(at)
    }

    /// Returns the arrays in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (ArrayId, &Array)> {
        self.all.iter()
    }
}

/// A region of the tape: the entries that one statement block stores in all its executions. Displays as `region3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(u32);
entity_impl!(RegionId, "region");

/// The tape entries of one statement block: the number of values that each execution of the block stores, and the
/// number of executions, which is the product of the trip counts around the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Region {
    values: u64,
    executions: u64,
}

/// The layout of the tape in memory, for systems that access it through the cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TapeForm {
    /// One array for each value that a block stores in an execution. The i-th array is shifted by i times `skew`
    /// cache lines.
    Arrays {
        /// The shift per array in cache lines: 0, or an odd number, so that arrays that lie a multiple of the cache
        /// size apart do not compete for the same cache sets.
        skew: u64,
    },
    /// One array of records for each block that stores to the tape; a record holds the values of one execution of the
    /// block.
    Records,
}

/// The tape of a simulated run: its address and its regions (the entries of one statement block each).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tape {
    /// The simulated address of the first tape entry, in bytes.
    pub base: u64,
    regions: PrimaryMap<RegionId, (Region, u64)>,
    entries: u64,
}

impl Tape {
    /// The address of the tape in the experiments of the TapeFlow paper's authors.
    pub const BASE: u64 = 0x80ca_4240;

    /// Creates a tape without regions (entries of one statement block each), whose first entry is at the address
    /// `base`.
    pub fn at(base: u64) -> Tape {
        Tape { base, regions: PrimaryMap::new(), entries: 0 }
    }

    /// Adds a tape region for a block: `values` entries of 8 bytes for each of the block's `executions`.
    pub fn push(&mut self, values: u64, executions: u64) -> RegionId {
        let first = self.entries;
        self.entries = first.saturating_add(values.saturating_mul(executions));
        self.regions.push((Region { values, executions }, first))
    }

    /// Returns the number of tape entries (8-byte words) of all statement blocks together.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the index of a value among all entries of the tape; `None` if the region (the entries of one statement
    /// block) has no such value or execution.
    pub(super) fn number(&self, region: RegionId, value: u64, execution: u64) -> Option<u64> {
        let (Region { values, executions }, first) = *self.regions.get(region)?;
        (value < values && execution < executions).then(|| first + execution * values + value)
    }

    /// Returns the address in bytes of a tape entry, on a tape with the layout `form` and cache lines of `line` bytes;
    /// `None` if the region (the entries of one statement block) has no such value or execution.
    pub(super) fn address(
        &self,
        (region, value, execution): (RegionId, u64, u64),
        form: TapeForm,
        line: u64,
    ) -> Option<u64> {
        let number = self.number(region, value, execution)?;
        let (Region { values: _, executions }, first) = *self.regions.get(region)?;
        let at = match form {
            TapeForm::Arrays { skew } => {
                let before = self.regions.iter().take_while(|r| skew > 0 && r.0 < region);
                let arrays = before.map(|(_, (region, _))| region.values).sum::<u64>() + value;
                let element = first + value * executions + execution;
                let moved = skew.checked_mul(line)?.checked_mul(arrays)?;
                element.checked_mul(8)?.checked_add(moved)?
            }
            TapeForm::Records => number.checked_mul(8)?,
        };
        self.base.checked_add(at)
    }
}
