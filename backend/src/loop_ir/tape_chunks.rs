//! The positions of the records of a dynamic tape, which lie in chunks of growing size.
//!
//! Records lie in chunks and never move. There are four chunks of one record, four of two, four
//! of four, and so on. Each new chunk has about a quarter of the records allocated so far, so little memory is unused.
//! A few instructions compute the chunk of a record from its index:
//!
//! ```text
//! n = index + 4,  s = 61 - leading zeros of n:       chunk 4 s + (n >> s) - 4, record n mod 2^s of it
//!
//! index   0 1 2 3   4 5   6 7   8 9   10 11   12 13 14 15   16 ..
//! chunk   0 1 2 3   4     5     6     7       8             9
//! ```

/// Returns the number of the chunk (block of records) that holds record `index`.
pub(crate) fn chunk(index: u64) -> usize {
    place_in_chunk(index).0
}

/// Returns the number of the chunk that holds record `index`, and the record's index within the chunk.
pub(crate) fn place_in_chunk(index: u64) -> (usize, u64) {
    let n = index + 4;
    let s = 61 - n.leading_zeros() as usize;
    (4 * s + (n >> s) as usize - 4, n & ((1 << s) - 1))
}

/// Returns the index of the first record in chunk number `chunk`.
pub(crate) fn first(chunk: usize) -> u64 {
    let (s, quarter) = (chunk as u64 / 4, chunk as u64 % 4);
    ((quarter + 4) << s) - 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records must fill the chunks without gaps, and a new chunk may have at most a quarter of the records before it.
    #[test]
    fn records_have_places() {
        let (mut chunk_of, mut first) = (0, 0);
        for index in 0..100_000 {
            let c = chunk(index);
            if c != chunk_of {
                assert_eq!(c, chunk_of + 1);
                assert_eq!(index - first, 1 << (chunk_of / 4));
                assert_eq!(place_in_chunk(index).1, 0);
                assert!(c < 8 || (1 << (c / 4)) * 4 <= index + 4, "{c}");
                (chunk_of, first) = (c, index);
            }
            let n = index + 4;
            assert_eq!(n & ((1 << (c / 4)) - 1), index - first, "{index}");
        }
    }
}
