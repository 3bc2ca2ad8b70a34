//! Tests of `lu`.

use crate::test_laws::check_samples;
use tapeloom_ir::prim::{Decomposition, Lu};

#[test]
fn laws_hold() {
    check_samples(Lu::samples());
}
