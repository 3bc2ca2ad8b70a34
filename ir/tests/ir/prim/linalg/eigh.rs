//! Tests of `eigh`.

use crate::test_laws::check_samples;
use tapeloom_ir::prim::{Decomposition, Eigh};

#[test]
fn laws_hold() {
    check_samples(Eigh::samples());
}
