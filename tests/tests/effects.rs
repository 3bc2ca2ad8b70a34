//! Ordered effects: what a program reports, it reports after every pass and in every transform, once
//! and in order.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom_backend::{Options, Target, compile};
use tapeloom_ir::prim::reports;
use tapeloom_ir::{FuncId, Literal, Module, Tensor, eval, parse_module, print_functions};
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

/// What compiled code reports: numbers with their elements.
fn compiled(m: &Module, f: FuncId, args: &[Tensor], target: Target) -> Vec<(u32, Vec<f64>)> {
    let mut told = Vec::new();
    let options = Options { target };
    let program = compile(m, f, &options).unwrap();
    let all: Vec<&Tensor> = args.iter().collect();
    let mut hear =
        |number, x: &[Literal]| told.push((number, x.iter().map(|l| l.to_f64()).collect()));
    program.listen(&all, &mut hear).unwrap();
    told
}

/// Every target reports what the interpreter does, before and after the passes.
#[track_caller]
fn reports_when_compiled(m: &mut Module, f: FuncId, args: &[Tensor]) {
    let (answer, told) = reports(|| eval(m, f, args));
    assert!(answer.is_ok(), "{answer:?}");
    let elements = |x: &Tensor| x.literals().map(|l| l.to_f64()).collect();
    let want: Vec<(u32, Vec<f64>)> = told.iter().map(|(n, x)| (*n, elements(x))).collect();
    assert!(!want.is_empty());
    let before_code: Pipeline = BEFORE_CODE.parse().unwrap();
    let simpler = before_code.run(m, f, |_, _, _| {}).unwrap();
    for g in [f, simpler] {
        for target in [Target::host(), Target::Interpreter] {
            let text = print_functions(m, &[g]);
            assert_eq!(compiled(m, g, args, target), want, "{text}");
        }
    }
}

/// Between loops and updates that may be moved: kept calls, one of them of no results and one of results
/// that nobody reads; views, parts, constants and arrays without elements; the base of an update.
const ARRAYS: &str = "
func @log(%0: f64[3]) -> () {
  %1: f64[3] = exp %0
  %2: f64[3] = probe{number=1} %1
  %3: f64[3] = sin %2
  %4: f64[3] = probe{number=2} %3
  return
}
func @step(%0: f64[3], %1: f64[]) -> (f64[3], f64[]) {
  %2: f64[3] = broadcast{shape=[3], dims=[]} %1
  %3: f64[3] = mul %0, %2
  %4: f64[3] = probe{number=3} %3
  %5: f64[3] = neg %4
  %6: f64[] = reduce_sum{axes=[0]} %5
  call{function=@log, outline=true, checkpoint=everything} %5
  return %5, %6
}
func @f(%0: f64[2,3], %1: i64[], %2: f64[0]) -> (f64[3], f64[2,3]) {
  %3: f64[1,3] = slice{start=[1,0], limit=[2,3], strides=[1,1]} %0
  %4: f64[3] = reshape{shape=[3]} %3
  %5: f64[3] = probe{number=4} %4
  %6: f64[3] = rev{axes=[0]} %4
  %7: f64[3] = probe{number=5} %6
  %8: f64[0] = probe{number=6} %2
  %9: f64[2,3] = exp %0
  %10: f64[1,1] = broadcast{shape=[1,1], dims=[]} 0.5
  %11: f64[2,3] = dynamic_update_slice %9, %10, %1, 0
  %12: f64[2,3] = probe{number=7} %9
  %13: f64[2,3] = probe{number=8} %11
  %14: f64[3], %15: f64[] = call{function=@step, outline=true, checkpoint=everything} %4, 2.0
  %16: f64[3], %17: f64[] = call{function=@step, outline=true, checkpoint=everything} %5, %15
  call{function=@log, outline=true, checkpoint=everything} %4
  %18: f64[3] = broadcast{shape=[3], dims=[]} 0.25
  %19: f64[3] = probe{number=9} %18
  %20: f64[3], %21: f64[] = call{function=@step, outline=true, checkpoint=everything} %19, 1.0
  %22: i64[] = probe{number=10} %1
  return %16, %12
}
";

#[test]
fn compiled_programs_report_in_order() {
    let (mut m, f) = program();
    reports_when_compiled(&mut m, f, &[Tensor::from(1.5)]);
    let mut m = parse_module(ARRAYS).unwrap();
    let f = m.iter().last().unwrap().0;
    let x = Tensor::from([[1.0, 2.0, 3.0], [0.5, -0.5, 0.25]]);
    let args = [x, Tensor::from(1_i64), Tensor::vector(&[0.0; 0])];
    reports_when_compiled(&mut m, f, &args);
}

#[test]
fn compiled_transforms_report_in_order() {
    let (mut m, f) = program();
    let x = || Tensor::from(1.5);
    let of = jvp(&mut m, f, &[true]).unwrap();
    reports_when_compiled(&mut m, of.function, &[x(), x()]);
    let of = vjp(&mut m, f, &[true]).unwrap();
    reports_when_compiled(&mut m, of.function, &[x(), x()]);
    let of = batch(&mut m, f, 2, &[true]).unwrap();
    reports_when_compiled(&mut m, of.function, &[Tensor::from([1.5, 7.0])]);
}
