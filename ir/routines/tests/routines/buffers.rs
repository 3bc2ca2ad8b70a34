//! Buffers with wrong lengths or alignments must give errors; results must not depend on the buffers' addresses.

use crate::checks::random;
use crate::hostile::{benign, routines};
use tapeloom_routines::WrongBuffers;
use tapeloom_routines::{Float, Routine};

#[test]
fn buffers_that_do_not_fit_are_errors() {
    let plan = Routine::Lu { m: 2, n: 2 }.plan(Float::F64).unwrap();
    let a: Vec<f64> = random(5, 1);
    let a: &[u8] = bytemuck::cast_slice(&a);
    let mut packed = [[0_u64; 4]; 2];
    let [packed, other] = packed.each_mut().map(|x| bytemuck::cast_slice_mut(x));
    let (pivots, permutation) = other.split_at_mut(8);
    let mut results = [packed, pivots, &mut permutation[..8]];
    let mut scratch = vec![0; plan.scratch_bytes()];
    plan.run(1, &[&a[..32]], &mut results, &mut scratch).unwrap();

    let mut fails = |operands: &[&[u8]], scratch: &mut [u8]| {
        let error = plan.run(1, operands, &mut results, scratch).unwrap_err();
        (error.to_string(), error)
    };
    let (message, error) = fails(&[], &mut scratch);
    assert_eq!(message, "0 operand buffers where the routine has 1");
    assert!(matches!(error, WrongBuffers::Count { .. }));
    let (message, error) = fails(&[&a[..24]], &mut scratch);
    assert_eq!(message, "operand buffer 0 has 24 bytes where the routine needs 32");
    assert!(matches!(error, WrongBuffers::Length { .. }));
    let (message, error) = fails(&[&a[1..33]], &mut scratch);
    assert_eq!(message, "operand buffer 0 is not aligned to its elements");
    assert!(matches!(error, WrongBuffers::Alignment { .. }));
    let (_, error) = fails(&[&a[..32]], &mut []);
    assert!(matches!(error, WrongBuffers::Length { what: "scratch", .. }));
    let (results, _) = results.split_at_mut(2);
    let error = plan.run(1, &[&a[..32]], results, &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "2 result buffers where the routine has 3");
}

/// Returns the bytes of all results. Each operand and result begins `shift` bytes after a multiple of 64, and scratch
/// memory begins `odd` bytes after a multiple of 64.
fn shifted(routine: &Routine, operands: &[Vec<f64>], shift: usize, odd: usize) -> Vec<u8> {
    let plan = routine.plan(Float::F64).unwrap();
    let place = |bytes: &[u8]| {
        let mut buffer = vec![0_u8; bytes.len() + 128];
        let start = buffer.as_ptr().align_offset(64) + shift;
        buffer[start..start + bytes.len()].copy_from_slice(bytes);
        (buffer, start..start + bytes.len())
    };
    let operands: Vec<_> = operands.iter().map(|x| place(bytemuck::cast_slice(x))).collect();
    let operands: Vec<&[u8]> = operands.iter().map(|(x, range)| &x[range.clone()]).collect();
    let mut results: Vec<_> = routine
        .results()
        .iter()
        .map(|array| place(&vec![7; array.bytes(Float::F64).unwrap()]))
        .collect();
    let mut results: Vec<&mut [u8]> =
        results.iter_mut().map(|(x, range)| &mut x[range.clone()]).collect();
    let mut scratch = vec![shift as u8; plan.scratch_bytes() + 64];
    let start = scratch.as_ptr().align_offset(64) + odd;
    plan.run(1, &operands, &mut results, &mut scratch[start..]).unwrap();
    results.concat()
}

#[test]
fn the_bits_do_not_depend_on_where_the_buffers_lie() {
    for routine in [3, 20, 65, 130].into_iter().flat_map(routines) {
        let operands = benign(&routine);
        let usual = shifted(&routine, &operands, 0, 0);
        for (shift, odd) in [(8, 0), (24, 1), (56, 33)] {
            let found = shifted(&routine, &operands, shift, odd.min(63 - shift % 64));
            assert!(found == usual, "{routine:?}, {shift}");
        }
    }
}
