//! Tests of `barrier`.

use crate::test_laws::{check_samples, problem};
use tapeloom_ir::prim::{ArrayPrimitive, Barrier, Effects, Mark};
use tapeloom_ir::{Builder, Dtype, Kind, Op, Type, parse_module, print_module};

#[test]
fn laws() {
    check_samples(Barrier::samples());
}

#[test]
fn a_name_is_a_word() {
    let x = [Type::array(Dtype::F64, &[2])];
    for bad in ["", "two words", "f64", "true", "2nd", "a{b"] {
        assert_eq!(
            problem(Op::barrier(Mark::Named(bad.into())), &x).kind,
            Kind::Arguments,
            "{bad:?}"
        );
    }
}

#[test]
fn marks_are_numbered_and_equality_does_not_ask_how() {
    let marked = |ids: [u32; 2]| {
        let [a, b] = ids;
        format!(
            "func @f(%0: f64[]) -> (f64[]) {{
  %1: f64[] = barrier{{name=a, id={a}}} %0
  %2: f64[] = barrier{{name=b, id={b}}} %1
  return %2
}}
"
        )
    };
    let again = marked([7, 3]).replace("@f", "@g");
    let module = parse_module(&[marked([0, 1]), again].concat()).unwrap();
    assert_eq!(print_module(&module), marked([0, 1]));
}

#[test]
fn an_inlined_mark_is_a_new_one() {
    let mut module = parse_module(
        "func @f(%0: f64[]) -> (f64[]) {
               %1: f64[] = barrier{name=a, id=0} %0
               return %1
             }
             func @g(%0: f64[]) -> (f64[], f64[]) {
               %1: f64[] = call{function=@f, outline=false} %0
               %2: f64[] = call{function=@f, outline=false} %0
               return %1, %2
             }",
    )
    .unwrap();
    let ids: Vec<_> = module.iter().map(|(id, _)| id).collect();
    assert_eq!(ids.iter().map(|f| module.effects(*f)).collect::<Vec<_>>(), [Effects::Fixed; 2]);
    let mut draft = tapeloom_ir::Draft::new("h");
    let x = draft.param(Type::scalar(Dtype::F64));
    let b = Builder::new(&mut module, &mut draft);
    let results = [b.inline(ids[0], &[x]), b.inline(ids[0], &[x])].concat();
    let h = draft.finish(&mut module, results).unwrap();
    let [first, second] = &module.function(h).equations[..] else { panic!("two marks") };
    assert_ne!(first.op, second.op);
}
