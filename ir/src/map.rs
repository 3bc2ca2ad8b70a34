//! Maps and sets that are fast and keep the order of insertion.
//!
//! A compiler looks up small, trusted keys millions of times. The standard library's hash, which resists
//! attackers, took a third of the time to compile a long program. And iteration must have the same order in
//! every run, or two runs would produce two programs. An insertion-ordered table with rustc's hasher serves
//! both needs. Names in untrusted text are looked up in the standard library's tables.
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

/// A hash map that iterates in the order of insertion.
pub type OrderedMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// A hash set that iterates in the order of insertion. The index of an element is a dense number for this value.
pub type OrderedSet<T> = IndexSet<T, FxBuildHasher>;
