//! Tests of profiles: positions of timers, counts, traffic, table and picture; timers change no bit.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::instrument::instrument_from;
use super::*;
use crate::Executable;
use crate::codegen::clif::random_tests;
use crate::codegen::clif::tests::{Random, compare, tensor};
use crate::loop_ir::interp::test_hosts::take_recorded_calls;
use crate::loop_ir::{Program, eval, parse, verify};
use crate::passes::{Context, NATIVE};
use crate::sweeps::Sweep;
use tapeloom_ir::{Dtype, Limits, Literal, Tensor};

fn parsed(text: &str) -> Program {
    let program = parse(text, &|_| None).unwrap();
    assert_eq!(verify(&program), []);
    program
}

/// Returns the text of the statements, with a timer behind each statement whose cost is at least `least`.
#[track_caller]
fn timed(least: u64, body: &str) -> String {
    let text = format!(
        "program @x {{
           buffer b0: f64[100] input 0
           buffer b1: f64[100] output 0
           version b1.1 continues b1
           {body} }}"
    );
    let made = instrument_from(&parsed(&text), least).program;
    assert_eq!(verify(&made), [], "{made}");
    assert_eq!(parse(&made.to_string(), &|_| None).unwrap().to_string(), made.to_string());
    let text = made.to_string();
    text.lines()
        .filter(|l| l.contains("lap") || l.contains("{") || l.contains('}'))
        .skip(1)
        .map(|l| format!("{l}\n"))
        .collect()
}

const FIRST: &str = "for i0 in 100 { %0: f64 = load b0[i0] store b1[i0], %0 }";
const SMALL: &str = "for i1 in 2 { %1: f64 = load b0[i1] store b1[i1], %1 }";

#[test]
fn laps_stand_behind_statements_of_much_work() {
    assert_eq!(timed(800, FIRST), "  for i0 in 100 {\n  }\n  lap timer0\n}\n");
    assert_eq!(timed(801, FIRST), "  for i0 in 100 {\n  }\n}\n");
    // A small loop gets no timer of its own: its time counts for the large loop after it. The time of a small loop
    // after the last timer counts for no part.
    let body = format!("{SMALL} {FIRST} {}", SMALL.replace("i1", "i2").replace("%1", "%2"));
    assert_eq!(
        timed(800, &body),
        "  for i1 in 2 {\n  }\n  for i0 in 100 {\n  }\n  lap timer0\n  for i2 in 2 {\n  }\n}\n"
    );
}

#[test]
fn bodies_of_serial_loops_are_entered() {
    let inside = |keyword: &str| format!("{keyword} i2 in 50 {{ {FIRST} }}").replace("b1[", "b1[");
    assert_eq!(
        timed(800, &inside("serial")),
        "  serial i2 in 50 {\n    for i0 in 100 {\n    }\n    lap timer0\n  }\n}\n"
    );
    // If an iteration has less than the least cost, the serial loop must be measured as a whole.
    assert_eq!(
        timed(801, &inside("serial")),
        "  serial i2 in 50 {\n    for i0 in 100 {\n    }\n  }\n  lap timer0\n}\n"
    );
    // The small loop before the serial loop must get a timer, so that no iteration of the serial loop counts its time.
    assert_eq!(
        timed(800, &format!("{SMALL} {}", inside("serial"))),
        "  for i1 in 2 {\n  }\n  lap timer0\n  serial i2 in 50 {\n    for i0 in 100 {\n    }\n    \
         lap timer1\n  }\n}\n"
    );
}

#[test]
fn a_loop_with_a_lap_inside_is_serial() {
    let text = "timers 1
        program @x {
          buffer b0: f64[2] output 0
          for i0 in 2 { store b0[i0], 1.0 lap timer0 }
        }";
    let program = parse(text, &|_| None).unwrap();
    let errors = verify(&program);
    assert!(errors.iter().any(|e| e.to_string().contains("i0")), "{errors:?}");
    assert_eq!(verify(&parse(&text.replace("for", "serial"), &|_| None).unwrap()), []);
}

#[test]
fn a_timer_that_the_program_does_not_have_is_an_error() {
    let program = parse("program @x { nest { lap timer0 } }", &|_| None).unwrap();
    assert!(verify(&program)[0].to_string().contains("timer0 does not exist"));
    let program = parse("timers 1 program @x { nest { lap timer0 } }", &|_| None).unwrap();
    assert_eq!(verify(&program), []);
    assert_eq!(program.to_string(), "timers 1\nprogram @x {\n  nest {\n    lap timer0\n  }\n}\n");
}

#[test]
fn machine_code_counts_runs_and_times() {
    let text = "timers 3
        program @x {
          buffer b0: f64[2] output 0
          serial i0 in 7 {
            serial i1 in 3 { store b0[0], 1.0 lap timer1 }
            lap timer0
          }
          nest { store b0[1], 2.0 }
          lap timer2
        }";
    let code = Executable::new(&parsed(text)).unwrap();
    let (results, taken) = code.call_within(&[], &Limits::default()).unwrap();
    assert_eq!(results, [Tensor::from([1.0, 2.0])]);
    let timed = taken.timed.unwrap();
    let runs: Vec<u64> = timed.timers.iter().map(|timer| timer.runs).collect();
    assert_eq!(runs, [7, 21, 1]);
    assert!(timed.timers.iter().map(|timer| timer.time).sum::<Duration>() <= timed.total);
    assert_eq!(code.call(&[]).unwrap(), results);
}

#[test]
fn traffic_counts_each_element_once() {
    let text = "program @x {
        buffer b0: f64[100] input 0
        buffer b1: f32[10] output 0
        serial i0 in 10 {
          serial i1 in 10 {
            %0: f64 = load b0[i0*10 + i1]
            %1: f64 = load b0[i0*10 + i1]
            %2: f64 = add %0, %1
            %3: f32 = convert{to=f32} %2
            store b1[i0], %3
          }
        }
      }";
    let made = instrument_from(&parsed(text), 500);
    assert_eq!(made.parts.values().map(|p| p.bytes).collect::<Vec<_>>(), [100 * 8 + 10 * 4]);
    let made = instrument_from(&parsed(text), 10);
    assert_eq!(made.parts.values().next().unwrap().what, "scalars");
}

/// The table and the picture of a profile with given times must show each part, and the time that belongs to no part.
#[test]
fn tables_and_pictures_show_each_part() {
    let text = format!(
        "program @x {{
           buffer b0: f64[100] input 0
           buffer b1: f64[100] output 0
           version b1.1 continues b1
           {FIRST} serial i3 in 9 {{ {} {SMALL} }} }}",
        FIRST.replace("i0", "i2").replace("%0", "%2")
    );
    let made = instrument_from(&parsed(&text), 800);
    let ms = Duration::from_millis;
    let timers = vec![TimerTotals { time: ms(1), runs: 1 }, TimerTotals { time: ms(8), runs: 9 }];
    let profile = Profile::of("x", &made, &Timed { timers, total: ms(10) }, 1);
    let table = profile.to_string();
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows[0], "@x: 10.000 ms in 1 call");
    assert_eq!(
        rows[1..5],
        [
            "time    ms     calls  MB   GB/s  part                            equations  lines",
            "80.0 %  8.000  9      0.0  0.0   serial 9 > for 100 + 1 smaller",
            "10.0 %  1.000  1      0.0  0.0   for 100",
            "10.0 %  1.000                    (rest)",
        ]
    );
    assert!(rows[6].starts_with("the clock was read 10 times"), "{table}");
    assert_eq!((profile.readings(), profile.rest()), (10, ms(1)));
    assert_eq!(profile.slowest().unwrap().within, ["serial 9"]);
    let svg = profile.svg();
    assert_eq!(svg.matches("<rect").count(), 4, "{svg}");
    let frame =
        "<title>serial 9: 8.000 ms, 80.0 %</title><rect x=\"100.00\" y=\"22.0\" width=\"800.00\"";
    assert!(svg.contains(frame), "{svg}");
}

/// Timers must change no result and no performed effect, in the interpreter and in machine code.
#[test]
fn timers_change_no_bit() {
    let mut r = Random(7);
    let mut numbers = |dtype| {
        let n = random_tests::ENTRY;
        let x: Vec<_> = (0..n).map(|_| Literal::of(dtype, r.below(9) as f64 - 3.0)).collect();
        tensor(dtype, &x)
    };
    let args = [numbers(Dtype::F64), numbers(Dtype::I64)];
    let mut parts = 0;
    for seed in Sweep::Timers.seeds() {
        let (mut program, _) = random_tests::program(seed);
        NATIVE.run(&mut program, &mut Context::default()).unwrap();
        let want = (eval(&program, &args).unwrap(), take_recorded_calls());
        let made = instrument_from(&program, 1 + seed % 40);
        let what = format!("seed {seed}\n{}", made.program);
        assert_eq!(verify(&made.program), [], "{what}");
        assert_eq!((eval(&made.program, &args).unwrap(), take_recorded_calls()), want, "{what}");
        assert_eq!(compare(&made.program, &args, &want.0, 0.0, &what), want.1, "{what}");
        parts += made.parts.len();
    }
    assert!(parts > 100, "{parts}");
}
