//! Tests of `buffer`.

#![expect(unsafe_code, reason = "what is written elsewhere")]

use crate::elements::Elements;
use tapeloom_ir::{ArrayType, Buffer, Dtype, Fresh, LARGE_BYTES, Line, Literal, Tensor};

/// Allocates `lines` lines of zeros.
pub(super) fn zeros(lines: usize) -> Buffer {
    // SAFETY: `Fresh::zeros` fills the lines with zeros.
    unsafe { Fresh::zeros(lines).unwrap().assume_init() }
}

fn fill(t: &mut Tensor, x: bool) {
    (0..t.elements()).for_each(|i| t.put(i, Literal::bool(x)));
}

fn page(t: &Tensor) -> usize {
    t.bytes().as_ptr().addr() % 4096
}

#[test]
fn large_arrays_begin_in_different_lines_of_a_page() {
    let large = || Tensor::zeros(&[LARGE_BYTES / 8], Dtype::F64).unwrap();
    let all: Vec<Tensor> = (0..8).map(|_| large()).collect();
    let mut begins: Vec<usize> = all.iter().map(page).collect();
    assert!(begins.iter().all(|at| at.is_multiple_of(size_of::<Line>())), "{begins:?}");
    begins.sort_unstable();
    begins.dedup();
    // Other tests allocate at the same time and also advance the offset of the next buffer, so some of the eight
    // buffers may begin at the same offset.
    assert!(begins.len() >= 6, "{begins:?}");
}

#[test]
fn buffers_of_every_size_begin_on_a_line_and_are_zero() {
    for lines in [0, 1, 2, 63, 64, 65, LARGE_BYTES / 64 - 1, LARGE_BYTES / 64, LARGE_BYTES / 64 + 1]
    {
        let mut t = Tensor::zeros(&[lines * 64], Dtype::Bool).unwrap();
        assert_eq!(t.bytes().as_ptr().addr() % size_of::<Line>(), 0);
        assert!(t.bytes().len() == lines * 64 && t.bytes().iter().all(|b| *b == 0));
        let before = t.clone();
        fill(&mut t, true);
        assert!(before.bytes().iter().all(|b| *b == 0), "{lines}: a shared buffer was written");
        assert!(t.bytes().iter().all(|b| *b == 1));
        let own = t.bytes().as_ptr();
        fill(&mut t, false);
        assert_eq!(own, t.bytes().as_ptr(), "{lines}: an unshared buffer was copied");
    }
}

/// A large buffer takes the memory of a dropped one of its size, unless a clone holds it. Zeros are zeros there, too.
#[test]
fn large_memory_is_recycled() {
    // No other test may have arrays of this size, or it could take the kept memory.
    let shape = [LARGE_BYTES / 8 + 1234];
    let zeros = || Tensor::zeros(&shape, Dtype::F64).unwrap();
    let x = Tensor::full(&shape, 7.0).unwrap();
    let (memory, clone) = (x.address(), x.clone());
    drop(x);
    let other = zeros();
    assert_ne!(other.address(), memory);
    drop(clone);
    let next = zeros();
    assert_eq!(next.address(), memory);
    assert!(next.bytes().iter().all(|byte| *byte == 0));
    assert!(other.bytes().iter().all(|byte| *byte == 0));
}

/// If no clone shares the memory of a tensor, an engine must be able to write to it; otherwise it must get `None`.
#[test]
fn only_unshared_lines_are_written() {
    let mut x = Tensor::from([1.0, 2.0, 3.0]);
    let clone = x.clone();
    assert!(x.unshared_lines().is_none());
    drop(clone);
    let begin = x.as_ptr();
    let lines = x.unshared_lines().unwrap();
    assert_eq!((lines.len(), lines.as_ptr().cast()), (1, begin));
    lines.copy_from_slice(&[bytemuck::cast([4.0, 5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0])]);
    assert_eq!(x, Tensor::from([4.0, 5.0, 6.0]));
}

#[test]
fn written_lines_become_a_tensor() {
    let mut fresh = Fresh::new(2).unwrap();
    for (i, line) in fresh.lines().iter_mut().enumerate() {
        line.write(bytemuck::cast([i as u64 + 1; 8]));
    }
    // SAFETY: the loop above has written both lines.
    let lines = unsafe { fresh.assume_init() };
    let t = Tensor::from_lines(ArrayType::new(Dtype::I64, [12]), lines).unwrap();
    let want: Vec<i64> = (0..12).map(|i| i / 8 + 1).collect();
    assert_eq!(t, Tensor::from(want));
}
