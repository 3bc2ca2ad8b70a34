//! Tests of `fingerprint`.

use tapeloom_ir::fingerprint::{Stage, collect, tell, wanted};

#[test]
fn stages_are_collected_from_the_closure_alone() {
    assert!(!wanted());
    tell("before", || unreachable!(), || unreachable!());
    let (inner, stages) = collect(|| {
        tell("a", || 1, || 2);
        let ((), inner) = collect(|| tell("b", || 3, || 4));
        tell("c", || 5, || 6);
        inner
    });
    assert_eq!(inner, [Stage { name: "b", input: 3, output: 4 }]);
    let names: Vec<_> = stages.iter().map(|s| s.name).collect();
    assert_eq!(names, ["a", "c"]);
    assert!(!wanted());
}
