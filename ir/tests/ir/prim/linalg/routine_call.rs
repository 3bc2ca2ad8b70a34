//! Tests of `routine_call`.

use tapeloom_ir::Kind;
use tapeloom_ir::prim::RoutineCall;
use tapeloom_routines::Unavailable;

/// Tests are built with the feature `linalg`; without it, `tapeloom-routines` returns [`Unavailable::Missing`]
/// for every plan.
#[test]
fn a_build_without_the_library_names_its_feature() {
    let missing = Unavailable::Missing { routine: "cholesky", feature: "linalg" };
    let problem = RoutineCall::without_plan(&missing);
    assert_eq!(problem.kind, Kind::Target);
    let text = problem.to_string();
    assert!(text.contains("cholesky") && text.contains("feature `linalg`"), "{text}");
}
