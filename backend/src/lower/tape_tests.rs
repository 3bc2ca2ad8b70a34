//! Tapes: every engine must compute the results of the interpreter of the language.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::tests::check_all;
use tapeloom_ir::{Tensor, parse_module};

/// Functions that programs of several tests run as loop bodies.
const BODIES: &str = "
func @ahead(%0: f64[], %1: f64[]) -> (f64[], f64[], bool[], f64[3]) {
  %2: f64[] = mul %0, %1
  %3: f64[] = sin %2
  %4: bool[] = gt %3, 0.0
  %5: f64[3] = broadcast{shape=[3], dims=[]} %2
  %6: i64[3] = iota{dtype=i64, shape=[3], axis=0}
  %7: f64[3] = convert{to=f64} %6
  %8: f64[3] = add %5, %7
  return %3, %2, %4, %8
}
func @back(%0: i64[], %1: f64[], %2: bool[], %3: f64[3], %4: f64[]) -> (f64[]) {
  %5: f64[] = reduce_sum{axes=[0]} %3
  %6: f64[] = cos %1
  %7: f64[] = select %2, %6, %5
  %8: f64[] = mul %4, 0.5
  %9: f64[] = convert{to=f64} %0
  %10: f64[] = add %8, %7
  %11: f64[] = add %10, %9
  return %11
}
func @small(%0: f64[]) -> (bool[]) {
  %1: bool[] = lt %0, 40.0
  return %1
}
func @grow(%0: f64[]) -> (f64[], f64[]) {
  %1: f64[] = mul %0, 1.5
  %2: f64[] = add %1, 1.0
  return %2, %0
}
func @shrink(%0: f64[], %1: f64[]) -> (f64[]) {
  %2: f64[] = mul %0, %1
  %3: f64[] = sin %2
  return %3
}
";

/// Runs `@f` of `f64[], i64[]` in all engines, for six values of the second argument, which is the trip count, and
/// compares the results with the interpreter's.
#[track_caller]
fn same(functions: &str, body: &str) {
    let module =
        parse_module(&format!("{BODIES}{functions}func @f(%0: f64[], %1: i64[]) -> {body}"))
            .unwrap();
    let args = |i: i64| [Tensor::from(0.75), Tensor::from(i)];
    let all = [0, 1, 2, 5, 40, -3].map(args);
    let f = module.iter().last().unwrap().0;
    check_all(&module, f, &all.each_ref().map(<[Tensor; 2]>::as_slice), 1e-12);
}

#[test]
fn written_in_either_direction_and_read_in_either() {
    for there in ["up", "down"] {
        for back in ["up", "down"] {
            same(
                "",
                &format!(
                    "(f64[], f64[]) {{
  %2: f64[], %3: tape<f64[]>, %4: tape<bool[]>, %5: tape<f64[3]> = loop{{body=@ahead, trip=runtime, direction={there}, takes=[carry0,const]}} %1, %0, 1.25
  %6: f64[] = loop{{body=@back, trip=runtime, direction={back}, takes=[index,xs,xs,xs,carry0]}} %1, %3, %4, %5, 1.0
  return %2, %6
}}"
                ),
            );
        }
    }
}

#[test]
fn conditions_write_and_their_count_reads() {
    same(
        "",
        "(f64[], f64[], i64[]) {
  %2: f64[], %3: tape<f64[]>, %4: i64[] = loop{body=@grow, trip=while, condition=@small, reads=[0], direction=up, takes=[carry0]} %0
  %5: f64[] = loop{body=@shrink, trip=runtime, direction=down, takes=[carry0,xs]} %4, %2, %3
  return %2, %5, %4
}",
    );
}

/// Tapes whose records hold other tapes (a record has the residuals of one iteration) are passed through calls and
/// branches, also in loops of static trip count.
#[test]
fn tapes_are_passed_on() {
    let functions = "
func @there(%0: i64[], %1: f64[], %2: f64[]) -> (f64[], tape<f64[]>, tape<bool[]>, tape<f64[3]>) {
  %3: f64[], %4: tape<f64[]>, %5: tape<bool[]>, %6: tape<f64[3]> = loop{body=@ahead, trip=runtime, direction=down, takes=[carry0,const]} %0, %1, %2
  return %3, %4, %5, %6
}
func @home(%0: i64[], %1: tape<f64[]>, %2: tape<bool[]>, %3: tape<f64[3]>, %4: f64[]) -> (f64[]) {
  %5: f64[] = loop{body=@back, trip=runtime, direction=up, takes=[index,xs,xs,xs,carry0]} %0, %1, %2, %3, %4
  %6: f64[] = sin %5
  %7: f64[] = mul %6, 1.5
  %8: f64[] = add %7, %5
  return %8
}
func @record() -> (f64[], bool[], f64[3]) {
  %0: f64[3] = broadcast{shape=[3], dims=[]} 1.0
  return 1.0, true, %0
}
func @no(%0: i64[], %1: f64[], %2: f64[]) -> (f64[], tape<f64[]>, tape<bool[]>, tape<f64[3]>) {
  %3: tape<f64[]>, %4: tape<bool[]>, %5: tape<f64[3]> = loop{body=@record, trip=runtime, direction=up, takes=[]} 0
  return %2, %3, %4, %5
}
func @outer(%0: i64[], %1: f64[]) -> (f64[], i64[], tape<f64[]>, tape<bool[]>, tape<f64[3]>) {
  %2: i64[] = rem %0, 3
  %3: bool[] = eq %2, 1
  %4: f64[], %5: tape<f64[]>, %6: tape<bool[]>, %7: tape<f64[3]> = cond{branches=[@there,@no]} %3, %0, %1, 0.75
  %8: i64[] = convert{to=i64} %3
  %9: i64[] = sub 1, %8
  %10: i64[] = mul %9, %0
  return %4, %10, %5, %6, %7
}
func @reverse(%0: i64[], %1: tape<f64[]>, %2: tape<bool[]>, %3: tape<f64[3]>, %4: f64[]) -> (f64[]) {
  %5: f64[] = call{function=@home, outline=true} %0, %1, %2, %3, %4
  %6: f64[] = cos %5
  return %6
}
";
    for trip in ["runtime", "5"] {
        let (lead, count) = match trip {
            "runtime" => ("%1, ", "tape<i64[]>"),
            _ => ("", "i64[5]"),
        };
        same(
            functions,
            &format!(
                "(f64[], f64[], f64[]) {{
  %2: f64[], %3: {count}, %4: tape<tape<f64[]>>, %5: tape<tape<bool[]>>, %6: tape<tape<f64[3]>> = loop{{body=@outer, trip={trip}, direction=up, takes=[index,carry0]}} {lead}%0
  %7: f64[] = loop{{body=@reverse, trip={trip}, direction=down, takes=[xs,xs,xs,xs,carry0]}} {lead}%3, %4, %5, %6, 1.0
  %8: f64[], %9: tape<f64[]>, %10: tape<bool[]>, %11: tape<f64[3]> = call{{function=@there, outline=true}} %1, %0, 0.5
  %12: f64[] = call{{function=@home, outline=true}} %1, %9, %10, %11, 1.0
  return %2, %7, %12
}}"
            ),
        );
    }
}

/// The tape records that an iteration writes for its own inner loops are freed when it ends. So 100 iterations must
/// need no more tape memory than one iteration, which needs 1000 records of 40 bytes and the rest of a chunk.
#[test]
fn records_of_inner_loops_are_freed() {
    let functions = "
func @iteration(%0: i64[], %1: f64[]) -> (f64[]) {
  %2: f64[], %3: tape<f64[]>, %4: tape<bool[]>, %5: tape<f64[3]> = loop{body=@ahead, trip=runtime, direction=up, takes=[carry0,const]} 1000, %1, 0.5
  %6: f64[] = loop{body=@back, trip=runtime, direction=down, takes=[index,xs,xs,xs,carry0]} 1000, %3, %4, %5, %2
  %7: f64[] = sin %6
  return %7
}
";
    let text = format!(
        "{BODIES}{functions}func @f(%0: f64[], %1: i64[]) -> (f64[]) {{
  %2: f64[] = loop{{body=@iteration, trip=runtime, direction=up, takes=[index,carry0]}} %1, %0
  return %2
}}"
    );
    let module = parse_module(&text).unwrap();
    let f = module.iter().last().unwrap().0;
    let compiled = crate::compile(&module, f, &crate::Options::default()).unwrap();
    let plan = &compiled.report().plan;
    assert_eq!(plan.tapes.values().map(|t| t.record).collect::<Vec<_>>(), [40]);
    assert!(
        plan.to_string().contains("t0: 40 bytes more for each iteration of the loop"),
        "{plan}"
    );
    let call = |n: i64| compiled.call(&[&Tensor::from(0.75), &Tensor::from(n)]).unwrap();
    let most = |n: i64| {
        call(n);
        compiled.records().unwrap()
    };
    let once = most(1);
    assert!((40_000..60_000).contains(&once), "{once}");
    assert_eq!(most(100), once);
}
