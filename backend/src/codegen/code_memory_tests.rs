//! Tests that programs compile and run although the address space is fragmented.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::code_memory::{CodeMemory, LARGEST};
use crate::codegen::clif::random_tests::program;
use crate::executable::Executable;
use crate::loop_ir::parse;
use region::{Allocation, Protection};
use std::process::Command;
use tapeloom_ir::Tensor;

/// A program with a loop and a matrix product, whose extents are constants in memory.
const PRODUCT: &str = "program @f {
  buffer b0: f64[4,4] input 0
  buffer b1: f64[4,4] output 0
  buffer b2: f64[16] output 1
  contract f64 4 x 4 x 4: b1[0; 4, 1] = b0[0; 4, 1] * b0[0; 4, 1]
  for i0 in 16 {
    %0: f64 = load b0[i0]
    %1: f64 = mul %0, %0
    store b2[i0], %1
  }
}";

/// Runs the test named `test` in a process of its own, because it changes the address space; `within` is the test's
/// body.
fn in_a_process(test: &str, within: fn()) {
    const WITHIN: &str = "TAPELOOM_TEST_WITHIN";
    if std::env::var(WITHIN).is_ok_and(|name| name == test) {
        return within();
    }
    let name = format!("codegen::code_memory_tests::{test}");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(WITHIN, test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complaint}");
}

/// Fragments the address space: large mappings, with small holes between them. Returns the mappings to keep. The holes
/// are one to sixteen pages long and gigabytes apart.
fn with_holes() -> Vec<Allocation> {
    const LARGE: usize = 6 << 30;
    let none = |bytes| region::alloc(bytes, Protection::NONE).unwrap();
    let page = region::page::size();
    let mut held: Vec<Allocation> = Vec::new();
    for i in 0..500 {
        let both = none(LARGE + (1 + i % 16) * page);
        let start = both.as_ptr::<u8>();
        drop(both);
        held.push(region::alloc_at(start, LARGE, Protection::NONE).unwrap());
    }
    // The system maps the highest free pages first. These mappings fill the space above the large arrays.
    let top = held[0].as_ptr_range::<u8>().end;
    for bytes in [1 << 30, 1 << 26, 1 << 22, 1 << 18, 1 << 14, page] {
        held.extend(std::iter::repeat_with(|| none(bytes)).take_while(|a| a.as_ptr() > top));
    }
    held
}

#[test]
#[cfg(target_os = "linux")]
fn programs_compile_between_large_arrays() {
    in_a_process("programs_compile_between_large_arrays", || {
        let large = with_holes();
        let mut programs: Vec<Executable> =
            (0..199).map(|seed| Executable::new(&program(seed).0).unwrap()).collect();
        programs.push(Executable::new(&parse(PRODUCT, &|_| None).unwrap()).unwrap());
        let x = Tensor::new(&[4, 4], (0..16).map(|i| f64::from(u8::from(i % 5 == 0))).collect())
            .unwrap();
        let results = programs[199].call(&[&x]).unwrap();
        assert_eq!(results[0], x);
        drop(large);
    });
}

#[test]
fn allocations_beyond_the_capacity_fail() {
    let page = region::page::size();
    let mut memory = CodeMemory::new(page).unwrap();
    let start = memory.take(1, 1).unwrap();
    assert_eq!(memory.take(1, 64), Some(start.wrapping_add(64)));
    assert_eq!(memory.take(1, 2 * page), None);
    assert_eq!(memory.take(usize::MAX, 1), None);
    assert_eq!(memory.take(page - 65, 1), Some(start.wrapping_add(65)));
    assert_eq!(memory.take(1, 1), None);
    let refused = CodeMemory::new(LARGEST + 1).err().unwrap();
    assert_eq!(refused.to_string(), "a program has at most 1073741824 bytes of code");
    assert!(CodeMemory::new(0).is_err());
}

/// A process may have 65,530 mappings, and mappings of neighbouring programs merge: thousands of programs that exist at
/// once must add only few mappings.
#[test]
#[cfg(target_os = "linux")]
fn programs_alive_are_few_mappings() {
    in_a_process("programs_alive_are_few_mappings", || {
        let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap();
        let program = parse(PRODUCT, &|_| None).unwrap();
        let before = mappings().lines().count();
        let alive: Vec<Executable> = (0..200).map(|_| Executable::new(&program).unwrap()).collect();
        let after = mappings();
        let more = after.lines().count() - before;
        assert!(more < 20, "{more} mappings for {} programs", alive.len());
        assert!(!after.contains(" rwx"), "writable and executable:\n{after}");
    });
}
