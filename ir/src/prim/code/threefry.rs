//! Threefry-2x32: the block cipher behind random bits.
//!
//! It mixes a counter of two words with a key of two words by twenty rounds of additions, rotations and exclusive ors.
//! So every bit of the result depends on every bit of the counter and of the key. Equal counters give equal bits, and
//! different counters give unrelated bits, so a random array needs no state.
//!
//! Source: Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3* (2011), as JAX
//! uses it.

/// The left rotation of the second word, in bits, for each of eight rounds; the list repeats after them.
const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// The exclusive or of this constant and the two key words is the third word of the key.
const PARITY: u32 = 0x1bd1_1bda;

/// The arithmetic of 32-bit words: on numbers in the interpreter, as instructions in a code generator.
pub trait Words {
    /// The type of a 32-bit word: a number or a value of generated code.
    type Word: Copy;
    /// Returns a word with the constant value `x`.
    fn word(&mut self, x: u32) -> Self::Word;
    /// Returns `x + y`, wrapping.
    fn add(&mut self, x: Self::Word, y: Self::Word) -> Self::Word;
    /// Returns `x xor y`.
    fn xor(&mut self, x: Self::Word, y: Self::Word) -> Self::Word;
    /// Returns `x` rotated to the left by `by` bits.
    fn rotate(&mut self, x: Self::Word, by: u32) -> Self::Word;
}

/// Returns the two words of random bits of Threefry-2x32 for a key and a counter.
pub fn threefry2x32<W: Words>(w: &mut W, key: [W::Word; 2], counter: [W::Word; 2]) -> [W::Word; 2] {
    let parity = w.word(PARITY);
    let both = w.xor(key[0], key[1]);
    let keys = [key[0], key[1], w.xor(both, parity)];
    let mut x = [w.add(counter[0], keys[0]), w.add(counter[1], keys[1])];
    for i in 0..5u32 {
        for by in ROTATIONS[i as usize % 2] {
            x[0] = w.add(x[0], x[1]);
            let turned = w.rotate(x[1], by);
            x[1] = w.xor(x[0], turned);
        }
        let (next, after, count) = ((i + 1) as usize % 3, (i + 2) as usize % 3, w.word(i + 1));
        x[0] = w.add(x[0], keys[next]);
        x[1] = w.add(x[1], keys[after]);
        x[1] = w.add(x[1], count);
    }
    x
}

/// The arithmetic of words in the interpreter, on plain `u32` numbers.
struct Numbers;

impl Words for Numbers {
    type Word = u32;
    fn word(&mut self, x: u32) -> u32 {
        x
    }
    fn add(&mut self, x: u32, y: u32) -> u32 {
        x.wrapping_add(y)
    }
    fn xor(&mut self, x: u32, y: u32) -> u32 {
        x ^ y
    }
    fn rotate(&mut self, x: u32, by: u32) -> u32 {
        x.rotate_left(by)
    }
}

/// Returns 64 random bits for a 64-bit key and a 64-bit counter; the block function's first word is the high
/// half.
pub(crate) fn random_bits(key: u64, counter: u64) -> u64 {
    let words = |x: u64| [(x >> 32) as u32, x as u32];
    let [high, low] = threefry2x32(&mut Numbers, words(key), words(counter));
    u64::from(high) << 32 | u64::from(low)
}
