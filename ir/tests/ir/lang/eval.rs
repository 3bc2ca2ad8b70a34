//! Tests of `eval`.

use tapeloom_ir::{Dtype, Module, Op, Tensor, Value};

#[test]
fn unshared_operands_are_updated_in_place() {
    let mut module = Module::new();
    let mut written = 0;
    let writes = |op: &Op| matches!(op, Op::DynamicUpdateSlice(_) | Op::Scatter(_));
    for sample in Op::samples(&mut module).into_iter().filter(|s| writes(&s.op)) {
        let first = sample.operands[0].clone();
        if first.dtype() == Dtype::Bool || first.elements() == 0 {
            continue;
        }
        let want = sample.op.eval(&module, &sample.operands).unwrap();
        let rest = sample.operands[1..].iter().cloned();
        let given = |x: Tensor| [x].into_iter().chain(rest.clone()).map(Value::from).collect();
        let got = sample.op.run_owned(&module, given(first.clone())).unwrap();
        assert_eq!(Value::arrays(&got).unwrap(), want, "{}", sample.op.name());
        assert_eq!(first, sample.operands[0], "a shared array stays");
        // A tensor with equal elements in a buffer of its own, so that an update may be in place.
        let own = first.map_numbers(|x| x);
        let at = own.address();
        let got = Value::arrays(&sample.op.run_owned(&module, given(own)).unwrap()).unwrap();
        assert_eq!((&got, got[0].address()), (&want, at), "{}", sample.op.name());
        written += 1;
    }
    assert!(written > 10, "{written}");
}
