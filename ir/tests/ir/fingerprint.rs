//! Tests of `fingerprint`.

use tapeloom_ir::fingerprint::{Stage, collect, record, wanted};

#[test]
fn stages_are_collected_from_the_closure_alone() {
    assert!(!wanted());
    record("before", || unreachable!(), || unreachable!());
    let (inner, stages) = collect(|| {
        record("a", || 1, || 2);
        let ((), inner) = collect(|| record("b", || 3, || 4));
        record("c", || 5, || 6);
        inner
    });
    assert_eq!(inner, [Stage { name: "b", input: 3, output: 4 }]);
    let names: Vec<_> = stages.iter().map(|s| s.name).collect();
    assert_eq!(names, ["a", "c"]);
    assert!(!wanted());
}
