//! Tests of `threefry`.

use tapeloom_ir::{Code, Dtype, Literal};

fn random_bits(key: u64, counter: u64) -> u64 {
    let wide = |bits| Literal { dtype: Dtype::U64, bits };
    Code::RandomBits.eval(&[wide(key), wide(counter)]).bits
}

/// Results must equal the known answers of the authors' implementation (Random123, 20 rounds).
#[test]
fn known_answers() {
    assert_eq!(random_bits(0, 0), 0x6b20_0159_99ba_4efe);
    assert_eq!(random_bits(u64::MAX, u64::MAX), 0x1cb9_96fc_bb00_2be7);
    let (key, counter) = (0x1319_8a2e_0370_7344, 0x243f_6a88_85a3_08d3);
    assert_eq!(random_bits(key, counter), 0xc492_3a9c_483d_f7a0);
}
