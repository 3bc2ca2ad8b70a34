//! Stable argsort along an axis by radix: the indices of all elements in ascending order, or of the first few.
//!
//! Each element is mapped to an integer key with the same order, in which NaN is largest and both zeros are equal. A
//! 64-bit word holds the leading bits of the key, and the index of the element in its low bits. So all words are
//! different, and ascending words are elements in stable order. Words are sorted by radix, short rows by comparisons.
//! If the keys of a row differ in more bits than a word can hold, runs of words with equal leading bits are sorted
//! again by the whole keys.
//!
//! ```
//! use tapeloom_routines::{Key, Argsort};
//!
//! let argsort = Argsort { key: Key::F64, rows: 1, n: 4, columns: 1, first: 4, descending: false };
//! let x = [2.0, f64::NAN, -1.0, 2.0];
//! let (mut places, mut scratch) = ([0; 4], vec![0; argsort.scratch_words()]);
//! assert!(argsort.run(bytemuck::cast_slice(&x), &mut places, &mut scratch));
//! assert_eq!(places, [2, 0, 3, 1]);
//! ```
//!
//! Source: Knuth, *The Art of Computer Programming*, volume 3, section 5.2.5 (sorting by distribution,
//! least significant digits first).

use std::fmt;
use std::ops::Range;

/// The type of the elements that are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// Bools of one byte each; 0 is false.
    Bool,
    /// Signed integers of 32 bits.
    I32,
    /// Signed integers of 64 bits.
    I64,
    /// Unsigned integers of 32 bits.
    U32,
    /// Unsigned integers of 64 bits.
    U64,
    /// Floats in single precision.
    F32,
    /// Floats in double precision.
    F64,
}

impl Key {
    /// All element types.
    pub const ALL: [Key; 7] =
        [Key::Bool, Key::I32, Key::I64, Key::U32, Key::U64, Key::F32, Key::F64];

    /// Returns the word of the element type in the text form of an argsort.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Key::Bool => "bool",
            Key::I32 => "i32",
            Key::I64 => "i64",
            Key::U32 => "u32",
            Key::U64 => "u64",
            Key::F32 => "f32",
            Key::F64 => "f64",
        }
    }

    /// Returns the size in bytes of one element of this type.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Key::Bool => 1,
            Key::I32 | Key::U32 | Key::F32 => 4,
            Key::I64 | Key::U64 | Key::F64 => 8,
        }
    }
}

/// A routine that computes the indices of the elements of `x[rows, n, columns]` in ascending or descending
/// order along the middle axis, and returns the first of these: `y[rows, first, columns]`. Equal elements stay
/// in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Argsort {
    /// The type of the elements that are sorted.
    pub key: Key,
    /// The product of the extents of the axes before the sorted axis.
    pub rows: usize,
    /// The number of elements along the sorted axis.
    pub n: usize,
    /// The product of the extents of the axes after the sorted axis.
    pub columns: usize,
    /// The number of indices that are returned, at most n.
    pub first: usize,
    /// Whether the largest element comes first.
    pub descending: bool,
}

/// The text form: `argsort{key=f64, rows=1, n=9, columns=1, first=9, descending=false}`.
impl fmt::Display for Argsort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Argsort { key, rows, n, columns, first, descending } = self;
        write!(
            f,
            "argsort{{key={}, rows={rows}, n={n}, columns={columns}, first={first}, \
             descending={descending}}}",
            key.word()
        )
    }
}

impl Argsort {
    /// Parses an argsort from its attributes in the text form; `None` if one is missing or invalid.
    #[must_use]
    pub fn named(attributes: &[(&str, &str)]) -> Option<Argsort> {
        let word = |name: &str| Some(attributes.iter().find(|(n, _)| *n == name)?.1);
        let size = |name| word(name)?.parse().ok();
        Some(Argsort {
            key: Key::ALL.into_iter().find(|key| Some(key.word()) == word("key"))?,
            rows: size("rows")?,
            n: size("n")?,
            columns: size("columns")?,
            first: size("first")?,
            descending: word("descending")?.parse().ok()?,
        })
    }
}

/// The number of bits of one radix digit.
const DIGIT: u32 = 11;
/// The largest number of radix digits by which words (key bits above an index) are sorted.
const DIGITS: u32 = 4;
/// Rows with fewer elements than this are sorted by comparisons, not by radix.
const SHORT: usize = 1024;
/// Rows with more elements than this are first partitioned by the leading bits of their keys.
const LONG: usize = 1 << 16;
/// The number of leading key bits by which a row of more than `LONG` elements is partitioned.
const PART: u32 = 8;
/// If a row is sorted by words (key bits above an index), some elements may agree with their predecessors in all key
/// bits of a word. If more than one element in 16 does, the row is sorted again by all bits of the keys.
const MANY: usize = 16;
/// If more than one element in 8 of a row is requested, the whole row is sorted.
const FEW: usize = 8;
/// The number of elements that are compared at once with the largest of the selected elements.
const BLOCK: usize = 64;

impl Argsort {
    /// Returns the number of 64-bit words of scratch memory that [`Argsort::run`] needs.
    #[must_use]
    pub fn scratch_words(&self) -> usize {
        let words = if self.key.bytes() == 8 { 4 } else { 2 };
        let counts = if self.n >= SHORT { (DIGITS as usize) << (DIGIT - 1) } else { 0 };
        words * self.n + counts
    }

    /// Writes the sorted indices into `places`. Returns false and writes nothing if a buffer does not have the length
    /// that the fields describe.
    #[must_use]
    pub fn run(&self, x: &[u8], places: &mut [i64], scratch: &mut [u64]) -> bool {
        let around = self.rows.checked_mul(self.columns);
        let times = |n: usize| around.and_then(|around| around.checked_mul(n));
        let bytes = times(self.n).and_then(|all| all.checked_mul(self.key.bytes()));
        if bytes != Some(x.len())
            || times(self.first) != Some(places.len())
            || self.first > self.n
            || self.n > i32::MAX as usize
            || scratch.len() < self.scratch_words()
        {
            return false;
        }
        match self.key {
            Key::Bool => self.typed::<u8>(x, places, scratch),
            Key::I32 => self.typed::<i32>(x, places, scratch),
            Key::I64 => self.typed::<i64>(x, places, scratch),
            Key::U32 => self.typed::<u32>(x, places, scratch),
            Key::U64 => self.typed::<u64>(x, places, scratch),
            Key::F32 => self.typed::<f32>(x, places, scratch),
            Key::F64 => self.typed::<f64>(x, places, scratch),
        }
    }

    fn typed<T: Element>(&self, x: &[u8], places: &mut [i64], scratch: &mut [u64]) -> bool {
        let Ok(x) = bytemuck::try_cast_slice::<u8, T>(x) else { return x.is_empty() };
        let Argsort { n, columns, first, descending, .. } = *self;
        if first == 0 {
            return true;
        }
        for row in 0..self.rows {
            for column in 0..columns {
                let x = &x[row * n * columns..];
                let y = &mut places[row * first * columns..];
                let flip = if descending { u64::MAX } else { 0 };
                match columns {
                    1 => sort_row(&Row { x: &x[..n], step: 1, flip }, &mut y[..first], 1, scratch),
                    _ => {
                        let row = Row { x: &x[column..n * columns], step: columns, flip };
                        sort_row(&row, &mut y[column..first * columns], columns, scratch);
                    }
                }
            }
        }
        true
    }
}

/// An element type and its mapping to ordered integer keys.
trait Element: bytemuck::Pod + PartialOrd {
    /// The number of bits of the integer keys to which elements are mapped.
    const BITS: u32;
    /// Returns an integer key: the order of keys is that of the elements.
    fn ordered(self) -> u64;
}

macro_rules! integers {
    ($($t:ty, $unsigned:ty, $flip:expr;)*) => {$(
        impl Element for $t {
            const BITS: u32 = <$unsigned>::BITS;
            #[inline(always)]
            fn ordered(self) -> u64 {
                u64::from(self as $unsigned ^ $flip)
            }
        }
    )*};
}
integers! {
    u8, u8, 0;
    u32, u32, 0;
    u64, u64, 0;
    i32, u32, 1 << 31;
    i64, u64, 1 << 63;
}

macro_rules! floats {
    ($($t:ty, $signed:ty, $unsigned:ty;)*) => {$(
        impl Element for $t {
            const BITS: u32 = <$unsigned>::BITS;
            #[inline(always)]
            fn ordered(self) -> u64 {
                // Adding 0 turns -0 into 0; all NaNs are replaced by the same NaN.
                let bits = (self + 0.0).to_bits();
                let negative = (bits as $signed >> (<$signed>::BITS - 1)) as $unsigned;
                let ordered = bits ^ (negative | 1 << (<$unsigned>::BITS - 1));
                u64::from(if self.is_nan() { <$unsigned>::MAX } else { ordered })
            }
        }
    )*};
}
floats! {
    f32, i32, u32;
    f64, i64, u64;
}

/// One row of elements along the sorted axis.
struct Row<'a, T> {
    x: &'a [T],
    /// The distance in elements between neighbours along the sorted axis.
    step: usize,
    /// The mask that is exclusive-ored to keys to reverse their order: all ones if the largest element comes
    /// first, otherwise zero.
    flip: u64,
}

impl<T: Element> Row<'_, T> {
    fn len(&self) -> usize {
        self.x.len().div_ceil(self.step)
    }

    #[inline(always)]
    fn key(&self, place: usize) -> u64 {
        self.x[place * self.step].ordered() ^ (self.flip >> (64 - T::BITS))
    }

    /// Returns whether at least one element at `places` comes before the element at index `other` in the sorting order.
    /// Compares the numbers themselves, which takes fewer instructions than comparing their integer keys.
    #[inline(always)]
    fn any_before(&self, places: Range<usize>, other: usize) -> bool {
        let other = self.x[other * self.step];
        #[expect(clippy::eq_op, reason = "only nan differs from itself")]
        let (is_nan, descending) = (other != other, self.flip != 0);
        match (descending, is_nan) {
            (false, false) => self.any(places, |x| x < other),
            #[expect(clippy::eq_op, reason = "only nan differs from itself")]
            (false, true) => self.any(places, |x| x == x),
            // In descending order NaN comes before all numbers, so `x` comes first if it is not `<= other`.
            #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "true of nan")]
            (true, false) => self.any(places, |x| !(x <= other)),
            (true, true) => false,
        }
    }

    #[inline(always)]
    fn any(&self, places: Range<usize>, holds: impl Fn(T) -> bool) -> bool {
        // The loop has no early exit, so that it is vectorised.
        match self.step {
            1 => self.x[places].iter().fold(false, |any, x| any | holds(*x)),
            step => places.fold(false, |any, place| any | holds(self.x[place * step])),
        }
    }

    #[inline(always)]
    fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        let flip = self.flip >> (64 - T::BITS);
        self.x.iter().step_by(self.step).map(move |x| x.ordered() ^ flip)
    }
}

/// Sorts one row and writes the indices of its first elements into `y`, `step` positions apart.
fn sort_row<T: Element>(row: &Row<'_, T>, y: &mut [i64], step: usize, scratch: &mut [u64]) {
    let n = row.len();
    let first = y.len().div_ceil(step);
    let mut put = |words: &[u64], mask: u64| {
        for (y, word) in y.iter_mut().step_by(step).zip(words) {
            *y = (word & mask) as i64;
        }
    };
    if first <= n / FEW {
        let few = first_few(row, first, scratch);
        for (y, [_, place]) in y.iter_mut().step_by(step).zip(few) {
            *y = *place as i64;
        }
        return;
    }
    let place_bits = usize::BITS - (n - 1).leading_zeros();
    let mask = (1 << place_bits) - 1;
    let given = row.key(0);
    let (least, most, differ) = row.keys().fold((given, given, 0), |(least, most, differ), key| {
        (least.min(key), most.max(key), differ | (key ^ given))
    });
    // `low` is the lowest bit in which keys differ, and `bits` the number of differing bits from there on. Small
    // integers as floats end in zeros, so the lowest differing bit matters too.
    let low = differ.trailing_zeros() % u64::BITS;
    let bits = u64::BITS - ((most - least) >> low).leading_zeros();
    // Each word holds an index and, above it, `room` of the differing key bits. If more bits differ, the lowest of them
    // are lost.
    let room = if bits <= DIGIT * DIGITS { bits } else { DIGIT * (DIGITS - 1) };
    let room = room.min(u64::BITS - place_bits);
    let lost = bits - room;
    let (words, rest) = scratch.split_at_mut(n);
    for (place, (word, key)) in words.iter_mut().zip(row.keys()).enumerate() {
        *word = ((key - least) >> (low + lost)) << place_bits | place as u64;
    }
    let (other, rest) = rest.split_at_mut(n);
    radix(words, other, bytemuck::cast_slice_mut(rest), place_bits, room);
    let sorted = words;
    if lost > 0 && !sort_ties(row, sorted, place_bits) {
        put(&by_all_bits(row, (least, low), bits, scratch)[..first], u64::MAX);
        return;
    }
    put(&sorted[..first], mask);
}

/// Sorts each run of words (leading key bits above an index) that agree in their key bits by the whole keys. Returns
/// false and leaves the words as they are if more than one word in `MANY` agrees with its predecessor.
fn sort_ties<T: Element>(row: &Row<'_, T>, words: &mut [u64], place_bits: u32) -> bool {
    let alike = |a: u64, b: u64| (a ^ b) >> place_bits == 0;
    let many = words.windows(2).filter(|w| alike(w[0], w[1])).count();
    if many > words.len() / MANY {
        return false;
    }
    if many > 0 {
        let mask = (1 << place_bits) - 1;
        for run in words.chunk_by_mut(|a, b| alike(*a, *b)).filter(|run| run.len() > 1) {
            run.sort_unstable_by_key(|word| (row.key((word & mask) as usize), *word));
        }
    }
    true
}

/// Returns the indices of all elements in order, sorted by all bits in which keys differ; `bits` is the number of
/// these bits.
fn by_all_bits<'a, T: Element>(
    row: &Row<'_, T>,
    (least, low): (u64, u32),
    bits: u32,
    scratch: &'a mut [u64],
) -> &'a [u64] {
    let n = row.len();
    let (pairs, rest) = scratch.split_at_mut(2 * n);
    let (other, rest) = rest.split_at_mut(2 * n);
    let (mut pairs, _) = pairs.as_chunks_mut::<2>();
    let (mut other, _) = other.as_chunks_mut::<2>();
    for (place, (pair, key)) in pairs.iter_mut().zip(row.keys()).enumerate() {
        *pair = [(key - least) >> low, place as u64];
    }
    if n < SHORT {
        pairs.sort_unstable();
    } else {
        let counts = &mut rest[..1 << DIGIT];
        let mask = counts.len() as u64 - 1;
        for shift in (0..bits).step_by(DIGIT as usize) {
            counts.fill(0);
            for [key, _] in &*pairs {
                counts[(key >> shift & mask) as usize] += 1;
            }
            let mut sum = 0;
            for count in counts.iter_mut() {
                sum += std::mem::replace(count, sum);
            }
            for pair in &*pairs {
                let to = &mut counts[(pair[0] >> shift & mask) as usize];
                other[*to as usize] = *pair;
                *to += 1;
            }
            std::mem::swap(&mut pairs, &mut other);
        }
    }
    // Write the indices one after the other to the front of the scratch memory.
    let words = pairs.as_flattened_mut();
    for i in 0..n {
        words[i] = words[2 * i + 1];
    }
    &words[..n]
}

/// Returns the first `k` elements of a row in order, each as its key and its index.
///
/// It collects 2k elements and drops the half that comes later in the order. From then on it collects only
/// elements that come before all dropped ones, and drops the later half again whenever it holds 2k.
fn first_few<'a, T: Element>(row: &Row<'_, T>, k: usize, scratch: &'a mut [u64]) -> &'a [[u64; 2]] {
    let (pairs, _) = scratch.as_chunks_mut::<2>();
    let pairs = &mut pairs[..2 * k];
    let n = row.len();
    let mut found = 0;
    let mut last = None;
    let mut block = 0;
    while block < n {
        let end = n.min(block + BLOCK);
        if last.is_none_or(|last| row.any_before(block..end, last)) {
            for place in block..end {
                let key = row.key(place);
                if last.is_some_and(|last| key >= row.key(last)) {
                    continue;
                }
                pairs[found] = [key, place as u64];
                found += 1;
                if found == 2 * k {
                    let (_, [_, place], _) = pairs.select_nth_unstable(k - 1);
                    (last, found) = (Some(*place as usize), k);
                }
            }
        }
        block = end;
    }
    let pairs = &mut pairs[..found];
    pairs.sort_unstable();
    &pairs[..k]
}

/// Sorts words (key bits above an index), which are all different, by their `bits` bits from bit `from` on; the words
/// ascend by the lower bits already.
///
/// A row that is larger than a cache is partitioned by its leading bits first, so that each part is sorted
/// within the cache.
fn radix(words: &mut [u64], other: &mut [u64], counts: &mut [u32], from: u32, bits: u32) {
    if words.len() < SHORT {
        return words.sort_unstable();
    }
    if words.len() <= LONG || bits <= PART {
        return by_digits(words, other, counts, from, bits);
    }
    let rest = bits - PART;
    let part = |word: u64| (word >> (from + rest)) as usize & ((1 << PART) - 1);
    let mut ends = [0usize; 1 << PART];
    words.iter().for_each(|word| ends[part(*word)] += 1);
    let mut sum = 0;
    ends.iter_mut().for_each(|end| sum += std::mem::replace(end, sum));
    for word in words.iter() {
        let to = &mut ends[part(*word)];
        other[*to] = *word;
        *to += 1;
    }
    words.copy_from_slice(other);
    let mut start = 0;
    for end in ends {
        radix(&mut words[start..end], &mut other[start..end], counts, from, rest);
        start = end;
    }
}

/// Sorts words (key bits above an index) like [`radix`], but without partitioning them. Sorts by one digit after the
/// other, from the least significant digit on.
fn by_digits(words: &mut [u64], other: &mut [u64], counts: &mut [u32], from: u32, bits: u32) {
    let digits = bits.div_ceil(DIGIT);
    if digits == 0 {
        return;
    }
    let width = bits.div_ceil(digits);
    let size = 1usize << width;
    let mask = size as u64 - 1;
    let counts = &mut counts[..size * digits as usize];
    counts.fill(0);
    for word in words.iter() {
        let mut key = word >> from;
        for of in counts.chunks_exact_mut(size) {
            of[(key & mask) as usize] += 1;
            key >>= width;
        }
    }
    let (mut now, mut next) = (&mut *words, &mut *other);
    for (digit, of) in counts.chunks_exact_mut(size).enumerate() {
        let mut sum = 0;
        of.iter_mut().for_each(|count| sum += std::mem::replace(count, sum));
        let shift = from + digit as u32 * width;
        for word in now.iter() {
            let to = &mut of[(word >> shift & mask) as usize];
            next[*to as usize] = *word;
            *to += 1;
        }
        std::mem::swap(&mut now, &mut next);
    }
    if digits % 2 == 1 {
        words.copy_from_slice(other);
    }
}
