//! Tests of `svd`.

use crate::test_laws::check_samples;
use tapeloom_ir::prim::{Decomposition, Svd};

#[test]
fn laws_hold() {
    check_samples(Svd::samples());
}
