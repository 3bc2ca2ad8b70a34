//! Tests of `loops`.

use std::collections::BTreeSet;
use tapeloom_ir::prim::{Loop, Primitive};
use tapeloom_ir::{Module, Op};

/// `Loop::samples` must contain each kind of loop, named by its body, and loops that save some of their carries.
#[test]
fn every_sample_is_made() {
    let mut module = Module::new();
    let samples = Loop::samples(&mut module);
    let loops = samples.iter().filter_map(|s| if let Op::Loop(l) = &s.op { Some(l) } else { None });
    let bodies: BTreeSet<(&str, bool)> =
        loops.map(|l| (&*module.function(l.body).name, l.carries.is_some())).collect();
    for body in ["step", "swap", "place", "mixed", "each", "outer", "linear"] {
        assert!(bodies.contains(&(body, false)), "{body}");
    }
    for body in ["step", "swap", "place", "mixed"] {
        assert!(bodies.contains(&(body, true)), "{body}");
    }
    assert!(samples.iter().any(|s| matches!(s.op, Op::Cond(_))));
}
