//! Parses mutated program texts: the parser must accept or refuse each text, and must not panic or end the process.
//!
//! Tokens of programs are dropped, duplicated, exchanged, and replaced by unknown names and by the largest numbers.
//! The number of cases and the first seed are those of `Sweep::KernelTexts`, a row of the table of random tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::tests::{CONTROL, EVERYTHING, SOFTMAX_SUM, library};
use super::{ExternalSignature, Program, check, check_form, eval, parse, verify};
use crate::codegen::clif::random_tests::program;
use crate::codegen::clif::tests::Random;
use crate::passes::{Context, NATIVE};
use crate::sweeps::Sweep;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tapeloom_ir::prim::RoutineCall;
use tapeloom_ir::{Dtype, Kind, Tensor};
use tapeloom_routines::Routine;

const NUMBERS: [&str; 17] = [
    "0",
    "1",
    "3",
    "63",
    "64",
    "255",
    "16777215",
    "16777216",
    "100000000000",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "-1",
    "-9223372036854775808",
    "0.5",
];

const NAMES: [&str; 26] = [
    "b0", "b1", "b9", "b99", "b0.1", "b1.7", "%0", "%1", "%999", "v0", "v1", "v5", "v999", "i0",
    "i1", "i99", "k0", "k1", "k9", "c0", "c7", "t0", "t5", "w0", "true", "@x",
];

const WORDS: [&str; 43] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "=",
    "*",
    "+",
    ";",
    "x",
    "f64",
    "f32",
    "i64",
    "u64",
    "bool",
    "load",
    "store",
    "if",
    "else",
    "for",
    "fold",
    "serial",
    "nest",
    "while",
    "var",
    "carry",
    "lanes",
    "input",
    "output",
    "workspace",
    "version",
    "continues",
    "kept",
    "call",
    "to",
    "frame",
    "add",
    "div",
    "select",
    "record",
];

/// Splits a program text into its tokens: words and punctuation characters.
fn tokens(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut rest = word;
        while let Some(end) = rest.find(|c: char| "{}[](),:=*+;".contains(c)) {
            all.extend((end > 0).then(|| rest[..end].to_owned()));
            all.push(rest[end..=end].to_owned());
            rest = &rest[end + 1..];
        }
        all.extend((!rest.is_empty()).then(|| rest.to_owned()));
    }
    all
}

/// Returns the text of a program that calls library routines on two batch members, each with its scratch memory.
fn routines() -> String {
    let (mut buffers, mut calls) = ("  buffer b0: f64[2,3,3] input 0\n".to_owned(), String::new());
    let (mut next, mut workspace) = (1, 0);
    let all = [
        "cholesky{n=3}",
        "eigh{n=3, vectors=true}",
        "lu{m=3, n=3}",
        "real_fft{rows=1, n=9, columns=1}",
    ];
    for (n, routine) in all.into_iter().enumerate() {
        let (name, attributes) = routine.split_once('{').unwrap();
        let pairs: Vec<(&str, &str)> = attributes
            .trim_end_matches('}')
            .split(", ")
            .map(|a| a.split_once('=').unwrap())
            .collect();
        let routine = Routine::named(name, &pairs).unwrap();
        let call = RoutineCall::new(routine.clone(), Dtype::F64, &[2]);
        let (mut views, mut place) = (Vec::new(), format!("output {n}"));
        for ty in ExternalSignature::routine(call, None).unwrap().results() {
            views.push(format!("b{next}[0; {}]", ty.shape.elements()));
            buffers += &format!("  buffer b{next}: {ty} {place}\n");
            if place.starts_with("workspace") {
                workspace += ty.bytes().next_multiple_of(64);
            }
            (next, place) = (next + 1, format!("workspace {workspace}"));
        }
        let to = views.join(", ");
        calls += &format!("  routine {routine} f64 members 2 (b0[0; 18]) to ({to})\n");
    }
    format!("program @routines {{\n  workspace {workspace}\n{buffers}{calls}}}\n")
}

#[test]
fn routines_are_programs() {
    let text = routines();
    assert_eq!(all_of(&text), (true, true), "{text}");
    // The verifier must refuse this program: the result of a routine must not overlap the operand.
    let beside = text.replace("to (b1[0; 18]", "to (b0[0; 18]");
    assert_eq!(all_of(&beside), (true, false));
    let less = text.replace("(b0[0; 18]) to (b1", "(b0[0; 17]) to (b1");
    assert_eq!(all_of(&less), (true, false));
    for (small, large) in [("{n=3}", "{n=4294967296}"), (" n=9,", " n=1073741825,")] {
        let changed = text.replace(small, large);
        assert_ne!(changed, text, "no `{small}`");
        assert_eq!(all_of(&changed), (false, false), "{changed}");
    }
}

/// Returns the text with one or two tokens dropped, duplicated, exchanged or replaced.
fn mutated(r: &mut Random, text: &str) -> String {
    let mut all = tokens(text);
    for _ in 0..1 + r.below(8) / 6 {
        let (at, other) = (r.below(all.len()), r.below(all.len()));
        match r.below(10) {
            0 => _ = all.remove(at),
            1 => all.insert(at, all[other].clone()),
            2 => all.swap(at, other),
            3 => all[at] = r.of(&WORDS).to_owned(),
            4 => all[at] = all[other].clone(),
            // For the random numbers 5 to 7, replace a number by a number; for larger ones, a name by a name. Such
            // texts parse more often.
            5..=7 => {
                let numbers = |(i, t): (usize, &String)| t.parse::<i64>().is_ok().then_some(i);
                let all_numbers: Vec<usize> = all.iter().enumerate().filter_map(numbers).collect();
                if !all_numbers.is_empty() {
                    all[r.of(&all_numbers)] = r.of(&NUMBERS).to_owned();
                }
            }
            _ => {
                let is_name = |t: &str| {
                    let rest = t.trim_start_matches(|c: char| "bvik%ctw".contains(c));
                    rest.len() < t.len() && rest.starts_with(|c: char| c.is_ascii_digit())
                };
                let names = all.iter().enumerate().filter(|(_, t)| is_name(t)).map(|(i, _)| i);
                let names: Vec<usize> = names.collect();
                if !names.is_empty() {
                    all[r.of(&names)] = r.of(&NAMES).to_owned();
                }
            }
        }
        if all.is_empty() {
            break;
        }
    }
    all.join(" ")
}

/// Returns whether a run of the program is cheap: less than 64 KiB for each kernel's buffers, and work of less than
/// 2^14 additions.
fn is_little(p: &Program) -> bool {
    let bytes = |k: &super::Kernel| k.buffers.values().map(|b| b.ty.bytes()).sum::<usize>();
    let fits =
        |k: &super::Kernel| bytes(k) < 1 << 16 && k.workspace < 1 << 16 && k.inputs().len() < 100;
    p.kernels().all(|(_, k)| fits(k)) && p.work() < 1 << 14
}

/// Parses, prints and verifies a text, and runs the program if that is cheap. Returns whether the text is a program,
/// and whether the program is valid.
fn all_of(text: &str) -> (bool, bool) {
    let Ok(mut p) = parse(text, &library) else { return (false, false) };
    let printed = p.to_string();
    let again =
        parse(&printed, &library).unwrap_or_else(|e| panic!("it prints as\n{printed}\n{e}"));
    assert_eq!(again.to_string(), printed);
    let errors = verify(&p);
    assert_eq!(check(&p).is_ok(), errors.is_empty());
    assert_eq!(check_form(&p).is_ok(), errors.iter().all(|e| e.unproved.is_some()));
    if !errors.is_empty() {
        return (true, false);
    }
    if is_little(&p) {
        let types: Vec<_> = p.entry.inputs().into_iter().map(|ty| ty.cloned()).collect();
        let zeros = |ty: &Option<_>| ty.as_ref().map_or(Ok(Tensor::from(0.0)), Tensor::zeros_of);
        let args: Vec<Tensor> = types.iter().map(|ty| zeros(ty).unwrap()).collect();
        // Ignore the result: a valid program fails only at Rust functions that are not bound.
        let _ = eval(&p, &args);
        match NATIVE.run(&mut p, &mut Context::default()) {
            Ok(()) => assert_eq!(verify(&p), [], "{p}"),
            Err(problem) => assert_ne!(problem.kind, Kind::Internal, "{problem}"),
        }
    }
    (true, true)
}

#[test]
fn no_text_is_too_wrong() {
    let (mut count, mut programs, mut right) = (0, 0, 0);
    for seed in Sweep::KernelTexts.seeds() {
        count += 1;
        let mut r = Random(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let text = match r.below(7) {
            0 => SOFTMAX_SUM.to_owned(),
            1 => EVERYTHING.replace("    v0 = i64_of_no_such_thing\n", "    v0 = %6\n"),
            2 | 3 => CONTROL.to_owned(),
            4 => routines(),
            _ => program(seed % 16).0.to_string(),
        };
        let text = mutated(&mut r, &text);
        match catch_unwind(AssertUnwindSafe(|| all_of(&text))) {
            Ok((program, is_right)) => {
                programs += u64::from(program);
                right += u64::from(is_right);
            }
            Err(_) => panic!("seed {seed}:\n{text}"),
        }
    }
    assert!(programs > count / 8 && right > count / 50, "{programs}, {right}");
}

#[track_caller]
fn refused(text: &str, want: &str) {
    let error = check(&parse(text, &library).unwrap()).unwrap_err();
    assert!(error.message.contains(want), "{error}");
}

#[test]
fn uses_before_definitions_are_refused() {
    let body = "buffer b0: f64[4] input 0 buffer b1: f64[] output 0";
    let load = "%0: f64 = load b0[(v5)] store b1[0], %0";
    refused(&format!("program @f {{ {body} {load} }}"), "v5 is used before it is defined");
    let set = "for i0 in 4 lanes 2 { v5 = 1.0 } store b1[0], 0.0";
    refused(&format!("program @f {{ {body} {set} }}"), "v5 is used before it is defined");
    let code = "for i0 in 4 lanes 2 { %0: f64 = neg v5 } store b1[0], 0.0";
    refused(&format!("program @f {{ {body} {code} }}"), "v5 is used before it is defined");
}

#[test]
fn numbers_of_inputs_have_an_end() {
    let callee = "kernel k0 @g { buffer b0: f64[] input 100000000000 buffer b1: f64[] output 0
      %0: f64 = load b0[0] store b1[0], %0 }";
    let body = "buffer b0: f64[] input 0 buffer b1: f64[] output 0 call k0(b0[0; 1]) to (b1[0; 1]) frame 0";
    refused(&format!("{callee} program @f {{ {body} }}"), "is input 100000000000");
}
