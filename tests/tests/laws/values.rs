//! Values of primitives have the inferred types, and the text of a program represents it completely.

use crate::for_all;
use tapeloom_ir::{Module, Op, Type, eval, parse_module, print_function};
use tapeloom_tests::{Case, Failure};

#[test]
fn every_primitive_brings_samples() {
    let sampled: Vec<&str> = Op::samples(&mut Module::new()).iter().map(|s| s.op.name()).collect();
    // Documentation adds attributes to the name, as in `reduce_sum{axes}`; samples have the name alone.
    let names = Op::docs().into_iter().map(|d| d.name.split('{').next().unwrap_or("").to_owned());
    let bare: Vec<String> = names.filter(|n| !sampled.contains(&n.as_str())).collect();
    assert_eq!(bare, [""; 0], "a law is empty without samples");
}

#[test]
fn inferred_types_are_those_of_the_values() {
    for_all(|m, case| {
        let y = eval(m, case.f, &case.args)?;
        let got: Vec<Type> = y.iter().map(|t| t.ty().clone().into()).collect();
        let want = m.function(case.f).result_types();
        if got == want {
            Ok(())
        } else {
            Err(format!("inferred {want:?}, computed {got:?}").into())
        }
    });
}

#[test]
fn parse_is_inverse_to_print() {
    for_all(text);
}

/// Checks that a printed program parses, and prints as the same text again.
pub(crate) fn text(m: &mut Module, case: &Case) -> Result<(), Failure> {
    let text = print_function(m, case.f);
    let parsed = parse_module(&text).map_err(|e| e[0].clone())?;
    let (last, _) = parsed.iter().last().ok_or("no function")?;
    let again = print_function(&parsed, last);
    if again == text { Ok(()) } else { Err(format!("printed again:\n{again}").into()) }
}
