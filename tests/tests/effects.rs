//! Ordered effects: what a program reports, it reports after every pass and in every transform, once
//! and in order.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom_ir::prim::reports;
use tapeloom_ir::{FuncId, Module, Tensor, eval, parse_module, print_functions};
use tapeloom_transforms::{BEFORE_CODE, PASSES, Pipeline, batch, jvp, linearize, vjp};

/// Probes that nobody reads, two that are equal, one in a function that is called twice, one in a
/// function of which no result is read, one of a constant, between equations that simplify.
const PROGRAM: &str = "
func @twice(%0: f64[]) -> (f64[]) {
  %1: f64[] = probe{number=1} %0
  %2: f64[] = mul %0, 2.0
  return %2
}
func @unread(%0: f64[]) -> (f64[]) {
  %1: f64[] = probe{number=2} %0
  %2: f64[] = exp %1
  return %2
}
func @f(%0: f64[]) -> (f64[]) {
  %1: f64[] = probe{number=3} %0
  %2: f64[] = call{function=@twice, outline=false, checkpoint=everything} %0
  %3: f64[] = probe{number=3} %0
  %4: f64[] = neg %2
  %5: f64[] = neg %4
  %6: f64[] = probe{number=4} %5
  %7: f64[] = call{function=@unread, outline=true, checkpoint=everything} %6
  %8: f64[] = call{function=@twice, outline=true, checkpoint=everything} %6
  %9: f64[] = mul %8, 1.0
  %10: f64[] = probe{number=5} 0.5
  %11: f64[] = mul %9, %10
  return %11
}
";

/// The numbers of what is reported, with the first element of each.
fn told(m: &Module, f: FuncId, args: &[Tensor]) -> Vec<(u32, f64)> {
    let (answer, told) = reports(|| eval(m, f, args));
    assert!(answer.is_ok(), "{answer:?}");
    told.iter().map(|(number, x)| (*number, x.literals().next().unwrap().to_f64())).collect()
}

/// What the program reports at 1.5.
const WANT: [(u32, f64); 7] =
    [(3, 1.5), (1, 1.5), (3, 1.5), (4, 3.0), (2, 3.0), (1, 3.0), (5, 0.5)];

fn program() -> (Module, FuncId) {
    let m = parse_module(PROGRAM).unwrap();
    let f = m.iter().last().unwrap().0;
    (m, f)
}

#[test]
fn passes_keep_reports_in_order() {
    let x = [Tensor::from(1.5)];
    for pass in PASSES.iter().map(|p| p.name).chain([BEFORE_CODE]) {
        let (mut m, f) = program();
        assert_eq!(told(&m, f, &x), WANT);
        let pipeline: Pipeline = pass.parse().unwrap();
        let g = pipeline.run(&mut m, f, |_, _, _| {}).unwrap();
        assert_eq!(told(&m, g, &x), WANT, "{pass}\n{}", print_functions(&m, &[g]));
    }
}

#[test]
fn transforms_report_what_the_program_does() {
    let x = || Tensor::from(1.5);
    let (mut m, f) = program();
    let of = jvp(&mut m, f, &[true]).unwrap();
    assert_eq!(told(&m, of.function, &[x(), x()]), WANT);
    let of = linearize(&mut m, f, &[true]).unwrap();
    assert_eq!(told(&m, of.fwd, &[x()]), WANT, "{}", print_functions(&m, &[of.fwd]));
    let of = vjp(&mut m, f, &[true]).unwrap();
    assert_eq!(told(&m, of.function, &[x(), x()]), WANT);
    let of = batch(&mut m, f, 2, &[true]).unwrap();
    assert_eq!(told(&m, of.function, &[Tensor::from([1.5, 7.0])]), WANT);
}
