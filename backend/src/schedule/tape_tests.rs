//! Tapes: every engine computes what the interpreter of the language computes.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::tests::check_all;
use tapeloom_ir::{Tensor, parse_module};

/// Functions that several programs run.
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

/// `@f` of `f64[], i64[]`, at several numbers of rounds.
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
