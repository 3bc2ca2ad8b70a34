//! Tests of `eig`.

use crate::test_laws::check_samples;
use tapeloom_ir::prim::{Decomposition, Eig};

#[test]
fn laws_hold() {
    check_samples(Eig::samples());
}
