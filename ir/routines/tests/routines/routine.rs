//! Tests of the operation counts that cost models use.

use tapeloom_routines::{QrBasis, Routine, SvdVectors};

#[test]
fn arithmetic_follows_the_standard_counts() {
    let n = 300;
    let cube = 27_000_000;
    let flops = |routine: Routine| routine.flops();
    assert_eq!(flops(Routine::Cholesky { n }), cube / 3);
    assert_eq!(flops(Routine::Lu { m: n, n }), 2 * cube / 3);
    assert_eq!(flops(Routine::Qr { m: n, n, basis: QrBasis::Thin }), 8 * cube / 3);
    assert_eq!(flops(Routine::Qr { m: n, n, basis: QrBasis::Full }), 8 * cube / 3);
    assert_eq!(flops(Routine::Eigh { n, vectors: true }), 9 * cube);
    let vectors = SvdVectors::Thin;
    assert_eq!(flops(Routine::Svd { m: n, n, vectors }), 17 * cube);
    assert_eq!(flops(Routine::Fft { rows: 1, n: 1024, columns: 1, inverse: true }), 51_200);
    assert_eq!(flops(Routine::Cholesky { n: usize::MAX }), u64::MAX);
    assert_eq!(flops(Routine::Fft { rows: 1, n: 0, columns: 1, inverse: false }), 0);
}
