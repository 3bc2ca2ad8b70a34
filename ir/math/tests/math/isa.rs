//! Tests of `isa`.

use tapeloom_math::isa::*;

#[test]
fn the_environment_names_an_instruction_set_of_the_machine() {
    assert_eq!(chosen(None).unwrap(), Isa::of_machine());
    assert_eq!(chosen(Some("baseline")).unwrap(), Isa::Baseline);
    let problem = chosen(Some("sse9")).unwrap_err();
    assert_eq!(problem.message, "TAPELOOM_ISA=sse9 is no instruction set");
    assert!(problem.help.contains("`baseline`"), "{}", problem.help);
    for isa in Isa::ALL.into_iter().filter(|isa| *isa > Isa::of_machine()) {
        assert!(chosen(Some(isa.name())).unwrap_err().message.contains("lacks"));
    }
}
