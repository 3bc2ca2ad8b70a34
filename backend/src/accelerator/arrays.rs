//! Where arrays lie: the address map of a run.
//!
//! A program says which element of which array it reads; the map says where that is. It is data of the
//! run and nothing of the program, since conflicts in a cache depend on it: the paper's largest gain
//! (14 times less traffic in MTTKRP) comes from three arrays that a bump allocator puts a multiple of the
//! cache apart. Arrays may overlap (the authors' do, see the test of MTTKRP): a map is for times and
//! traffic, while values are computed elsewhere.
//!
//! The tape has two layouts. With the regions of a program in order, and of region b the k(b) values
//! that each of its n(b) executions stores,
//!
//! ```text
//! structure of arrays   value s of execution n:   base(b, s) + 8 n,           one array for each (b, s)
//! array of structures   value s of execution n:   base(b) + 8 (n k(b) + s)    one array for each b
//! ```

use cranelift_entity::{PrimaryMap, entity_impl};

/// An array of a run. Displays as `a3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArrayId(u32);
entity_impl!(ArrayId, "a");

/// An array and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    /// What it is called.
    pub name: String,
    /// Where its first element is.
    pub address: u64,
    /// How many it has,
    pub elements: u64,
    /// and their bytes.
    pub width: u64,
}

/// The arrays of a run.
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
    /// The first byte that is free.
    next: u64,
    header: u64,
    gap: u64,
}

impl Arrays {
    /// Where the authors' arrays begin.
    pub const BASE: u64 = 0x80c0_0000;

    /// No array yet: each goes behind the one before, with so many bytes before its elements and behind.
    pub fn bump(base: u64, header: u64, gap: u64) -> Arrays {
        Arrays { all: PrimaryMap::new(), next: base, header, gap }
    }

    /// One array more, where there is room.
    pub fn push(&mut self, name: &str, elements: u64, width: u64) -> ArrayId {
        let address = self.next.saturating_add(self.header);
        let end = address.saturating_add(elements.saturating_mul(width));
        self.next = end.saturating_add(self.gap);
        self.place(name, address, elements, width)
    }

    /// One array more, at that address, whatever else is there.
    pub fn place(&mut self, name: &str, address: u64, elements: u64, width: u64) -> ArrayId {
        self.all.push(Array { name: name.to_owned(), address, elements, width })
    }

    /// Where an element is, if it exists.
    pub fn address(&self, array: ArrayId, element: u64) -> Option<u64> {
        let Array { name: _, address, elements, width } = self.all.get(array)?;
        let at = element.checked_mul(*width)?.checked_add(*address)?;
        (element < *elements).then_some(at)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (ArrayId, &Array)> {
        self.all.iter()
    }
}

/// A region of the tape. Displays as `region3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(u32);
entity_impl!(RegionId, "region");

/// What the executions of one block store: how many values each of them, and how many they are, the
/// product of the trip counts around the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Region {
    values: u64,
    executions: u64,
}

/// How the tape lies in memory, where it is read and written through the cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TapeForm {
    /// One array for each value of a region, the i-th array moved on by i times so many lines.
    Arrays {
        /// 0, or an odd number so that arrays that are a multiple of the cache apart meet no more.
        skew: u64,
    },
    /// One array for each region, of records of its values.
    Records,
}

/// The tape of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tape {
    /// Where it begins.
    pub base: u64,
    regions: PrimaryMap<RegionId, (Region, u64)>,
    entries: u64,
}

impl Tape {
    /// Where the authors' tape begins.
    pub const BASE: u64 = 0x80ca_4240;

    /// A tape of no regions yet.
    pub fn at(base: u64) -> Tape {
        Tape { base, regions: PrimaryMap::new(), entries: 0 }
    }

    /// One region more: so many values for each of so many executions of a block.
    pub fn push(&mut self, values: u64, executions: u64) -> RegionId {
        let first = self.entries;
        self.entries = first.saturating_add(values.saturating_mul(executions));
        self.regions.push((Region { values, executions }, first))
    }

    /// How many values are stored in all.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The number of an entry among all, if it exists.
    pub(super) fn number(&self, region: RegionId, value: u64, execution: u64) -> Option<u64> {
        let (Region { values, executions }, first) = *self.regions.get(region)?;
        (value < values && execution < executions).then(|| first + execution * values + value)
    }

    /// Where an entry lies, if it exists.
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
