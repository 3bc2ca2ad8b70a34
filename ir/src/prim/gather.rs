//! `gather`: to be filled.
/// What an index outside the array means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Bounds {
    /// It is moved to the nearest index inside.
    Clip,
    /// A read gives zero, a write is dropped.
    Drop,
}
