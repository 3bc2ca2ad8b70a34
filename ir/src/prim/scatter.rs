//! `scatter`: to be filled.
/// How an update meets what is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Combine {
    /// Overwrites (the last one wins).
    Set,
    /// Adds.
    Add,
    /// Multiplies.
    Mul,
    /// Keeps the larger.
    Max,
    /// Keeps the smaller.
    Min,
}
