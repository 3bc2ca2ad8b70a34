//! The study of streamed tapes: its smoke test, what its kernels keep, and the quick form of the command.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;
use tapeloom::accelerator::System;
use tapeloom_tests::Sweep;
use tapeloom_tests::tapeflow::{Places, Run, Runs, STUDIES, Study, acceptance, smallest};

const CACHE: u64 = 32 << 10;

fn within(found: u64, expected: u64, part: f64) {
    let off = found as f64 / expected as f64 - 1.0;
    assert!(off.abs() <= part, "{found} is not about {expected}");
}

/// MTTKRP, written with the public API and compiled as the study's compiler does, replayed with the authors'
/// addresses: what their simulator misses.
#[test]
fn a_program_replayed_misses_what_the_authors_simulator_misses() {
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

/// What the study's compiler keeps, where the paper can be reconciled with its authors' code; of the other
/// kernels the numbers are printed.
#[test]
fn kernels_keep_what_the_study_says() {
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

/// A layer is a block of unrolled code in one execution; the quick form has the paper's numbers for all five kernels
/// of which it can be told how far its loops are unrolled.
#[test]
fn blocks_of_unrolled_loops_are_the_layers_of_the_paper() {
    let mut runs = Runs::new(|_| ());
    let known = ["nn", "mttkrp", "somier"];
    for study in STUDIES.iter().filter(|study| known.contains(&study.name)) {
        let study = Study { size: study.table, ..*study };
        let s = runs.get(&study, Run::of(System::ENZYME, CACHE).unrolled(study.unroll)).unwrap();
        assert_eq!(s.reverse.blocks, study.paper[1], "{}", study.name);
    }
    // What is stored goes through the scratchpad in as many.
    let study = STUDIES.iter().find(|study| study.name == "mttkrp").unwrap();
    let s = runs.get(study, Run::of(System::TFLOW, CACHE).unrolled(study.unroll)).unwrap();
    assert_eq!((s.forward.layers, s.reverse.layers), (512, 512));
}

/// Studies of some names.
fn named(names: &[&str]) -> Vec<Study> {
    STUDIES.into_iter().filter(|s| names.contains(&s.name)).collect()
}

/// Cotangents are added in the same way, so what differs is what is kept and what is read again; the command prints
/// all nine.
#[test]
fn smallest_tapes_on_streams_move_and_take_no_more() {
    let mut runs = Runs::new(|_| ());
    let few = named(&["nn", "logsum", "mttkrp", "somier"]);
    for row in smallest(&mut runs, &few, Places::Own).unwrap() {
        assert_eq!(row.holds(), [true, true], "{row}");
        assert!(row.bytes[0] <= row.bytes[1], "{row}");
    }
    // Where arrays one behind the other meet in the cache, what is read again is fetched again.
    let somier = named(&["somier"]);
    let lines = [Places::Behind, Places::Best]
        .map(|places| smallest(&mut runs, &somier, places).unwrap()[0].holds()[0]);
    assert_eq!(lines, [false, true]);
}

/// Misses, lines and speed are the authors', within their bands, where a program has the accesses of theirs; the command
/// prints all nine.
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
