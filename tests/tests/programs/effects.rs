//! Ordered effects (host callbacks): a program must perform them once and in program order, after every pass and in
//! every transform.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom_backend::accelerator::Machine;
use tapeloom_backend::{Options, Target, compile};
use tapeloom_ir::{FuncId, Module, Tensor, eval, parse_module, print_functions};
use tapeloom_tests::{Heard, Listener};
use tapeloom_transforms::{BEFORE_CODE, PASSES, batch, jvp, linearize, vjp};

/// A program with effects between equations that passes simplify: two equal effects, one in a function that is called
/// twice, one in a function whose result is not read, and one on a constant.
const PROGRAM: &str = "
func @twice(%0: f64[]) -> (f64[]) {
  callback{host=&p1, results=[]} %0
  %2: f64[] = mul %0, 2.0
  return %2
}
func @unread(%0: f64[]) -> (f64[]) {
  callback{host=&p2, results=[]} %0
  %2: f64[] = exp %0
  return %2
}
func @f(%0: f64[]) -> (f64[]) {
  callback{host=&p3, results=[]} %0
  %2: f64[] = call{function=@twice, outline=false, checkpoint=everything} %0
  callback{host=&p3, results=[]} %0
  %4: f64[] = neg %2
  %5: f64[] = neg %4
  callback{host=&p4, results=[]} %5
  %7: f64[] = call{function=@unread, outline=true, checkpoint=everything} %5
  %8: f64[] = call{function=@twice, outline=true, checkpoint=everything} %5
  %9: f64[] = mul %8, 1.0
  callback{host=&p5, results=[]} 0.5
  %11: f64[] = mul %9, 0.5
  return %11
}
";

/// Interprets a program and returns the effects that it performs, in order.
fn effects_of(m: &Module, f: FuncId, args: &[Tensor], log: &Listener) -> Heard {
    let answer = eval(m, f, args);
    assert!(answer.is_ok(), "{answer:?}");
    log.take()
}

/// Returns the effects expected of `PROGRAM` for a batch of arguments: equation by equation, one batch member after the
/// other.
fn want(x: &[f64]) -> Heard {
    let each = |name: &str, factor: f64| {
        x.iter().map(|x| (name.to_owned(), vec![factor * x])).collect::<Heard>()
    };
    let constant = x.iter().map(|_| ("p5".to_owned(), vec![0.5])).collect();
    [
        each("p3", 1.0),
        each("p1", 1.0),
        each("p3", 1.0),
        each("p4", 2.0),
        each("p2", 2.0),
        each("p1", 2.0),
        constant,
    ]
    .concat()
}

fn program() -> (Module, FuncId, Listener) {
    let m = parse_module(PROGRAM).unwrap();
    let (f, log) = (m.iter().last().unwrap().0, Listener::of(&m));
    (m, f, log)
}

#[test]
fn passes_keep_reports_in_order() {
    let x = [Tensor::from(1.5)];
    let rows = PASSES.iter().map(|pass| (pass.name, Some(*pass)));
    for (name, pass) in rows.chain([(BEFORE_CODE.name, None)]) {
        let (mut m, f, log) = program();
        assert_eq!(effects_of(&m, f, &x, &log), want(&[1.5]));
        let g = match pass {
            Some(pass) => pass.apply(&mut m, f),
            None => BEFORE_CODE.run(&mut m, f),
        };
        let g = g.unwrap();
        assert_eq!(
            effects_of(&m, g, &x, &log),
            want(&[1.5]),
            "{name}\n{}",
            print_functions(&m, &[g])
        );
    }
}

#[test]
fn transforms_keep_the_effects_of_a_program() {
    let x = || Tensor::from(1.5);
    let (mut m, f, log) = program();
    let once = want(&[1.5]);
    let of = jvp(&mut m, f, &[true]).unwrap();
    assert_eq!(effects_of(&m, of.function, &[x(), x()], &log), once);
    let of = linearize(&mut m, f, &[true]).unwrap();
    assert_eq!(effects_of(&m, of.fwd, &[x()], &log), once, "{}", print_functions(&m, &[of.fwd]));
    let of = vjp(&mut m, f, &[true]).unwrap();
    assert_eq!(effects_of(&m, of.function, &[x(), x()], &log), once);
    let of = batch(&mut m, f, 2, &[true]).unwrap();
    assert_eq!(effects_of(&m, of.function, &[Tensor::from([1.5, 7.0])], &log), want(&[1.5, 7.0]));
}

/// Checks that compiled programs on every target perform the same effects as the interpreter, before and after the
/// passes.
#[track_caller]
fn reports_when_compiled(m: &mut Module, f: FuncId, args: &[Tensor], log: &Listener) {
    let want = effects_of(m, f, args, log);
    assert!(!want.is_empty());
    let simpler = BEFORE_CODE.run(m, f).unwrap();
    let all: Vec<&Tensor> = args.iter().collect();
    for g in [f, simpler] {
        for target in [Target::host(), Target::Interpreter, Target::Accelerator(Machine::cal())] {
            compile(m, g, &Options { target, ..Options::default() }).unwrap().call(&all).unwrap();
            assert_eq!(log.take(), want, "{}", print_functions(m, &[g]));
        }
    }
}

/// A program with effects between loops and updates that lowering may move. It has outlined calls, one without results
/// and one with an unread result. It has effects on views, slices, constants and empty arrays, and an effect on the
/// array that an update overwrites.
const ARRAYS: &str = "
func @log(%0: f64[3]) -> () {
  %1: f64[3] = exp %0
  callback{host=&p1, results=[]} %1
  %3: f64[3] = sin %1
  callback{host=&p2, results=[]} %3
  return
}
func @step(%0: f64[3], %1: f64[]) -> (f64[3], f64[]) {
  %2: f64[3] = broadcast{shape=[3], dims=[]} %1
  %3: f64[3] = mul %0, %2
  callback{host=&p3, results=[]} %3
  %5: f64[3] = neg %3
  %6: f64[] = reduce_sum{axes=[0]} %5
  call{function=@log, outline=true, checkpoint=everything} %5
  return %5, %6
}
func @f(%0: f64[2,3], %1: i64[], %2: f64[0]) -> (f64[3], f64[2,3]) {
  %3: f64[1,3] = slice{start=[1,0], limit=[2,3], strides=[1,1]} %0
  %4: f64[3] = reshape{shape=[3]} %3
  callback{host=&p4, results=[]} %4
  %6: f64[3] = rev{axes=[0]} %4
  callback{host=&p5, results=[]} %6
  callback{host=&p6, results=[]} %2
  %9: f64[2,3] = exp %0
  %10: f64[1,1] = broadcast{shape=[1,1], dims=[]} 0.5
  %11: f64[2,3] = dynamic_update_slice %9, %10, %1, 0
  callback{host=&p7, results=[]} %9
  callback{host=&p8, results=[]} %11
  %14: f64[3], %15: f64[] = call{function=@step, outline=true, checkpoint=everything} %4, 2.0
  %16: f64[3], %17: f64[] = call{function=@step, outline=true, checkpoint=everything} %4, %15
  call{function=@log, outline=true, checkpoint=everything} %4
  %18: f64[3] = broadcast{shape=[3], dims=[]} 0.25
  callback{host=&p9, results=[]} %18
  %20: f64[3], %21: f64[] = call{function=@step, outline=true, checkpoint=everything} %18, 1.0
  callback{host=&p10, results=[]} %1
  return %16, %9
}
";

#[test]
fn compiled_programs_report_in_order() {
    let (mut m, f, log) = program();
    reports_when_compiled(&mut m, f, &[Tensor::from(1.5)], &log);
    let mut m = parse_module(ARRAYS).unwrap();
    let (f, log) = (m.iter().last().unwrap().0, Listener::of(&m));
    let x = Tensor::from([[1.0, 2.0, 3.0], [0.5, -0.5, 0.25]]);
    let args = [x, Tensor::from(1_i64), Tensor::vector(&[0.0; 0])];
    reports_when_compiled(&mut m, f, &args, &log);
}

#[test]
fn compiled_transforms_report_in_order() {
    let (mut m, f, log) = program();
    let x = || Tensor::from(1.5);
    let of = jvp(&mut m, f, &[true]).unwrap();
    reports_when_compiled(&mut m, of.function, &[x(), x()], &log);
    let of = vjp(&mut m, f, &[true]).unwrap();
    reports_when_compiled(&mut m, of.function, &[x(), x()], &log);
    let of = batch(&mut m, f, 2, &[true]).unwrap();
    reports_when_compiled(&mut m, of.function, &[Tensor::from([1.5, 7.0])], &log);
}
