//! Loops and branches with more live values than the machine has registers: values and derivatives by machine code are
//! compared with the interpreter.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom_backend::{Options, compile};
use tapeloom_ir::{Dtype, Tensor, parse_module};
use tapeloom_tests::wide::{Compile, FAMILIES, FUNCTIONS, Family, arguments};
use tapeloom_tests::{Agreement, run};

/// A loop over fourteen arrays has more buffers than there are registers.
#[test]
fn of_few_values() {
    for family in FAMILIES {
        FUNCTIONS.into_iter().for_each(|function| agree(family, function, 14));
    }
}

/// With 150 arrays, a loop has enough values for the code generator to split live ranges before it calls Cranelift.
#[test]
fn of_many_values() {
    for family in FAMILIES {
        agree(family, FUNCTIONS[1], 150);
    }
}

fn agree(family: Family, (name, explain): Compile, n: usize) {
    let explanation = explain(family, &arguments(n)).unwrap();
    let texts = explanation.stages().iter().rev().map(|s| &s.text);
    let m = parse_module(texts.clone().find(|t| !t.is_empty()).unwrap()).unwrap();
    let (id, f) = m.iter().last().unwrap();
    let args: Vec<Tensor> = f.param_types().iter().enumerate().map(numbers).collect();
    let compiled = compile(&m, id, &Options::default()).unwrap();
    let got = compiled.call(&args.iter().collect::<Vec<_>>()).unwrap();
    let wrong = |e| format!("{name} of {}: {e}", family.0);
    Agreement::CLOSE.check_all(&got, &run(&m, id, &args).unwrap()).map_err(wrong).unwrap();
}

/// Returns an argument of type `ty` with numbers between 0 and 1, which depend on the index `i` of the argument.
fn numbers((i, ty): (usize, &tapeloom_ir::Type)) -> Tensor {
    let ty = ty.as_array().unwrap();
    assert_eq!(ty.dtype, Dtype::F64);
    let number = |k: usize| (0.1 + 0.37 * (i + 7 * k) as f64).fract();
    Tensor::new(&ty.shape, (0..ty.shape.elements()).map(number).collect::<Vec<f64>>()).unwrap()
}
