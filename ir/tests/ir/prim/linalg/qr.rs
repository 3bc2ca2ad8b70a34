//! Tests of `qr`.

use crate::test_laws::check_samples;
use tapeloom_ir::prim::{Decomposition, Qr};

#[test]
fn laws_hold() {
    check_samples(Qr::samples());
}
