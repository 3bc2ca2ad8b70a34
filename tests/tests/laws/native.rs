//! Engines: machine code computes what the interpreter computes.
//!
//! Bit for bit where the primitive is exact, within 4 units in the last place for library functions,
//! within rounding for sums and products of many terms, whose order may differ.

use crate::derivatives::derived;
use crate::for_all;
use tapeloom_backend::{Engine, Options, compile};
use tapeloom_ir::prim::{Code, Lowering, Operand};
use tapeloom_ir::{Module, Tensor, Type, print_function};
use tapeloom_tests::calculus::precision;
use tapeloom_tests::{Agreement, Case, Failure, run};

#[test]
fn kernels_compute_what_the_interpreter_computes() {
    for_all(|m, case| compiled(m, case, Engine::Interpreter, of_equation(m, case)));
}

#[test]
fn machine_code_computes_what_the_interpreter_computes() {
    for_all(|m, case| compiled(m, case, Engine::Native, of_equation(m, case)));
}

#[test]
fn machine_code_of_derivatives_computes_what_the_interpreter_computes() {
    for_all(|m, case| {
        let Some(of) = derived(m, case)? else { return Ok(()) };
        native(m, &of.jvp).and_then(|()| native(m, &of.vjp))
    });
}

/// Machine code of a program of many equations.
pub(crate) fn native(m: &mut Module, case: &Case) -> Result<(), Failure> {
    compiled(m, case, Engine::Native, Agreement::relative(precision(m, case.f)))
}

fn compiled(m: &Module, case: &Case, engine: Engine, agree: Agreement) -> Result<(), Failure> {
    let executable = compile(m, case.f, &Options { engine })?;
    let args: Vec<&Tensor> = case.args.iter().collect();
    // Twice, so that workspace left over from the first call is met.
    for _ in 0..2 {
        agree.check_all(&executable.call(&args)?, &run(m, case.f, &case.args)?).map_err(|e| {
            format!("{e}\n{}{}", print_function(m, case.f), executable.report().program)
        })?;
    }
    Ok(())
}

/// How exact the primitive of a sample is.
fn of_equation(m: &Module, case: &Case) -> Agreement {
    let f = m.function(case.f);
    let e = &f.equations[0];
    let types: Vec<Type> = e.operands.iter().map(|a| f.type_of(*a)).collect();
    let operands: Vec<Operand<'_>> =
        types.iter().zip(&e.operands).map(|(ty, a)| Operand { ty, literal: a.literal() }).collect();
    match e.op.lower(m, &operands) {
        Lowering::Elementwise(Code::Library(_)) => Agreement::Ulps(4),
        Lowering::Reduce { .. }
        | Lowering::Contract { .. }
        | Lowering::Scatter { .. }
        | Lowering::Call(_) => Agreement::relative(precision(m, case.f) / 100.0),
        _ => Agreement::Exact,
    }
}
