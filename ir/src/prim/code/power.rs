//! Powers by repeated squaring. The interpreter and code generators share this function, so that all multiply
//! in the same order and round alike.

/// Returns `x^n`, processing the low bits of `n` first; `None` for `n = 0`.
pub fn power<T: Copy>(x: T, n: u32, mut multiply: impl FnMut(T, T) -> T) -> Option<T> {
    let (mut left, mut square, mut product) = (n, x, None);
    while left > 0 {
        if left & 1 == 1 {
            product = Some(match product {
                Some(p) => multiply(p, square),
                None => square,
            });
        }
        left >>= 1;
        if left > 0 {
            square = multiply(square, square);
        }
    }
    product
}

/// Returns the cost of `x^n`: the number of its products, and the cost of a division if `n` is negative.
pub(super) const fn flops(n: i32) -> u32 {
    let squares = if n == 0 { 0 } else { n.unsigned_abs().ilog2() };
    let products = n.unsigned_abs().count_ones().saturating_sub(1) + squares;
    (if products == 0 { 1 } else { products }) + (if n < 0 { 4 } else { 0 })
}
