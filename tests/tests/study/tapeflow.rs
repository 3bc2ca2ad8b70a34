//! Tests of the reproduction of the TapeFlow paper on streamed tapes: a test of its command, the residuals of its
//! kernels, and the quick form of its tables.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;
use tapeloom::accelerator::System;
use tapeloom_tests::Sweep;
use tapeloom_tests::tapeflow::{ArrayPlacement, Run, Runs, STUDIES, Study, acceptance, smallest};

const CACHE: u64 = 32 << 10;

fn within(found: u64, expected: u64, part: f64) {
    let off = found as f64 / expected as f64 - 1.0;
    assert!(off.abs() <= part, "{found} is not about {expected}");
}

/// MTTKRP, written with the public API, is compiled with the options that model the TapeFlow authors' compiler, and
/// replayed at the authors' addresses. Its misses must be within 2 % of those of their simulator.
#[test]
fn a_program_replayed_has_the_misses_of_the_authors() {
    let mut runs = Runs::new(|_| ());
    let study = STUDIES.iter().find(|study| study.name == "mttkrp").unwrap();
    let mut replay = |system| {
        let run = Run { window: 1, ..Run::of(system, CACHE) };
        let s = runs.get(study, run).unwrap();
        let streamed = s.reverse.streamed.div_ceil(8);
        (s.forward.fills(), s.reverse.fills(), streamed)
    };
    let (forward, reverse, _) = replay(System::ENZYME);
    within(forward, 12_452, 0.02);
    within(reverse, 12_002, 0.02);
    let (forward, reverse, streamed) = replay(System::TFLOW);
    within(forward + reverse, 128, 0.02);
    assert_eq!(streamed, 1_536);
}

/// For kernels whose figure in the TapeFlow paper agrees with the authors' code, the number of tape loads must be
/// within 0.5 % of the paper's; the numbers of the other kernels are printed.
#[test]
fn residuals_of_kernels_equal_the_study() {
    let mut runs = Runs::new(|_| ());
    for study in Sweep::Studies.all(&STUDIES) {
        let s = runs.get(study, Run::of(System::ENZYME, CACHE)).unwrap();
        let (stored, loaded) = (s.forward.taped(), s.reverse.taped());
        let expected = study.values;
        println!("{:12} {stored:7} stored {loaded:7} loaded, the study {expected:7}", study.name);
        if study.certain {
            within(loaded, expected, 0.005);
        }
    }
}

/// A layer is one execution of a block of unrolled code: the number of blocks must be the TapeFlow paper's number of
/// layers, for three of the kernels whose unroll factors are known.
#[test]
fn blocks_of_unrolled_loops_are_the_layers_of_the_paper() {
    let mut runs = Runs::new(|_| ());
    let known = ["nn", "mttkrp", "somier"];
    for study in STUDIES.iter().filter(|study| known.contains(&study.name)) {
        let study = Study { size: study.table, ..*study };
        let s = runs.get(&study, Run::of(System::ENZYME, CACHE).unrolled(study.unroll)).unwrap();
        assert_eq!(s.reverse.blocks, study.paper[1], "{}", study.name);
    }
    // Streamed through the scratchpad, MTTKRP's tape must have the same number of layers: 512.
    let study = STUDIES.iter().find(|study| study.name == "mttkrp").unwrap();
    let s = runs.get(study, Run::of(System::TFLOW, CACHE).unrolled(study.unroll)).unwrap();
    assert_eq!((s.forward.layers, s.reverse.layers), (512, 512));
}

/// Returns the kernels of the TapeFlow study with these names.
fn named(names: &[&str]) -> Vec<Study> {
    STUDIES.into_iter().filter(|s| names.contains(&s.name)).collect()
}

/// With the smallest tapes on streams, four of the kernels must move no more lines and take no more time than with the
/// tapes of the TapeFlow study. The two tapes differ only in the values that are saved or reread; the command prints
/// all nine kernels.
#[test]
fn smallest_tapes_on_streams_move_and_take_no_more() {
    let mut runs = Runs::new(|_| ());
    let few = named(&["nn", "logsum", "mttkrp", "somier"]);
    for row in smallest(&mut runs, &few, ArrayPlacement::Own).unwrap() {
        assert_eq!(row.holds(), [true, true], "{row}");
        assert!(row.bytes[0] <= row.bytes[1], "{row}");
    }
    // If adjacent arrays conflict in the cache, reread values are fetched again, so somier moves more lines; with the
    // best addresses it does not.
    let somier = named(&["somier"]);
    let lines = [ArrayPlacement::Behind, ArrayPlacement::Best]
        .map(|places| smallest(&mut runs, &somier, places).unwrap()[0].holds()[0]);
    assert_eq!(lines, [false, true]);
}

/// For programs with the memory accesses of the TapeFlow paper's authors, cache misses, cache lines moved and speed
/// must be within a tolerance of the authors' figures. The command prints all nine kernels.
#[test]
fn programs_with_the_authors_accesses_are_inside_their_bands() {
    let mut runs = Runs::new(|_| ());
    let mut studies = named(&["mttkrp"]);
    studies.extend(named(&["nn", "somier"]).into_iter().filter_map(Study::measured));
    let rows = acceptance(&mut runs, &studies).unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!(row.inside(), [true; 3], "{row}");
    }
}

#[test]
fn the_quick_form_is_lines_of_json() {
    let command = env!("CARGO_BIN_EXE_tapeflow");
    let output = Command::new(command).args(["--quick", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut claims = Vec::new();
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(record["value"].is_number() && record["system"].is_string(), "{line}");
        assert_eq!(record["reproduced"], true, "{line}");
        claims.push(record["claim"].as_u64().unwrap());
    }
    claims.dedup();
    assert_eq!(claims, [7, 14, 20]);
}
