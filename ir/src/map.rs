//! Maps and sets: fast, and in the order of insertion.
//!
//! A compiler asks its tables millions of times, with small keys that nobody chooses to do harm; the
//! hash of the standard library, which defends against that, was a third of the time to compile a
//! long program. And what is walked over must come in the same order in every run, or two runs give
//! two programs. One table answers both: in the order of insertion, with the hasher of rustc. Names
//! in text that somebody else may have written are looked up with the standard library's.
//!
//! ```
//! use tapeloom_ir::OrderedMap;
//! let mut first = OrderedMap::default();
//! for (at, word) in ["b", "a", "b"].into_iter().enumerate() {
//!     first.entry(word).or_insert(at);
//! }
//! assert_eq!(first.into_iter().collect::<Vec<_>>(), [("b", 0), ("a", 1)]);
//! ```

pub use indexmap::map::Entry;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;

/// A map in the order of insertion.
pub type OrderedMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// A set in the order of insertion: also a list of different things, by number.
pub type OrderedSet<T> = IndexSet<T, FxBuildHasher>;
