//! Tests of `schur`.

use crate::test_laws::check_samples;
use tapeloom_ir::prim::{Decomposition, Schur};

#[test]
fn laws_hold() {
    check_samples(Schur::samples());
}
