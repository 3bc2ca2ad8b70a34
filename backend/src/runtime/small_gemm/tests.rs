//! Compares the contraction of every instruction set of this machine with the definition, bit by bit.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::{Element, Function, plain};
use crate::codegen::clif::tests::Random;
use crate::sweeps::Sweep;
use std::fmt::Debug;
use tapeloom_ir::Isa;

/// The contraction functions for f64 and f32, a pair for each instruction set of this machine.
type Versions = Vec<(Function<f64>, Function<f32>)>;

fn versions() -> Versions {
    let mut all: Versions = vec![(plain::wide, plain::narrow)];
    #[cfg(target_arch = "x86_64")]
    {
        if Isa::of_machine() >= Isa::Avx2 {
            all.push((super::avx2::wide, super::avx2::narrow));
        }
        if Isa::of_machine() >= Isa::Avx512 {
            all.push((super::avx512::wide, super::avx512::narrow));
        }
    }
    all
}

/// The row and column strides of a matrix in elements, and the number of elements of an array that holds the matrix.
#[derive(Clone, Copy, Debug)]
struct Layout {
    row: usize,
    column: usize,
    elements: usize,
}

impl Layout {
    fn of(r: &mut Random, rows: usize, columns: usize) -> Layout {
        let gap = 1 + r.below(3) / 2;
        let (row, column) = match r.below(3) {
            0 => (1, rows.max(1) * gap),
            1 => (columns.max(1) * gap, 1),
            _ => (columns.max(1) * 2 + gap, 2),
        };
        Layout { row, column, elements: row * rows + column * columns + 1 }
    }

    fn at(self, row: usize, column: usize) -> usize {
        row * self.row + column * self.column
    }
}

/// Runs the functions of all instruction sets on a random contraction; each must give the same bits as the definition.
fn check<T: Element + PartialEq + Debug>(
    r: &mut Random,
    functions: &[Function<T>],
    of: fn(f64) -> T,
) {
    let extent = |r: &mut Random| match r.below(4) {
        0 => r.below(3),
        1 => [4, 8, 16, 32, 64, 65][r.below(6)],
        _ => r.below(40),
    };
    let [m, n, k] = [(); 3].map(|()| extent(r));
    let lanes = [1, 1, 1, 8, 8, 16, 16, 2, 64][r.below(9)];
    let accumulate = r.below(2) == 1;
    let mut batches = vec![];
    if r.below(4) == 0 {
        batches.extend([r.below(4), r.below(3)]);
    }
    let count: usize = batches.iter().product();
    let shapes = [(m, k), (k, n), (m, n)];
    let layouts = shapes.map(|(rows, columns)| Layout::of(r, rows, columns));
    let [lhs, rhs, out] = layouts;
    let numbers = |r: &mut Random, layout: Layout| -> Vec<T> {
        let number = |r: &mut Random| match r.below(8) {
            0 => -0.0,
            _ => r.below(2001) as f64 / 700.0 - 1.4,
        };
        (0..layout.elements * count).map(|_| of(number(r))).collect()
    };
    let (x, y) = (numbers(r, lhs), numbers(r, rhs));
    let before = numbers(r, out);
    let mut want = before.clone();
    for item in 0..count {
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let mut sums = vec![T::default(); lanes];
            for term in 0..k {
                let x = x[item * lhs.elements + lhs.at(row, term)];
                let y = y[item * rhs.elements + rhs.at(term, column)];
                sums[term % lanes] = sums[term % lanes] + x * y;
            }
            while sums.len() > 1 {
                let high = sums.split_off(sums.len() / 2);
                sums.iter_mut().zip(high).for_each(|(x, y)| *x = *x + y);
            }
            let to = &mut want[item * out.elements + out.at(row, column)];
            *to = if accumulate { *to + sums[0] } else { sums[0] };
        }
    }
    let mut description = [m, n, k].to_vec();
    description.extend(layouts.iter().flat_map(|l| [l.row, l.column]));
    description.extend([usize::from(accumulate), lanes, batches.len()]);
    for (i, extent) in batches.iter().enumerate() {
        let inner: usize = batches[i + 1..].iter().product();
        description.push(*extent);
        description.extend(layouts.map(|l| l.elements * inner));
    }
    let description: Vec<i64> = description.into_iter().map(|n| n as i64).collect();
    for function in functions {
        let mut got = before.clone();
        // SAFETY: `description` is a contraction within these arrays, which do not overlap.
        unsafe { function(description.as_ptr(), x.as_ptr(), y.as_ptr(), got.as_mut_ptr()) };
        let bits = |all: &[T]| format!("{all:?}");
        assert_eq!(
            bits(&got),
            bits(&want),
            "{m} x {n} x {k} lanes {lanes}: {layouts:?} {batches:?}"
        );
    }
}

#[test]
fn versions_agree_with_the_definition() {
    let mut r = Random(Sweep::Thin.seed());
    let (wide, narrow): (Vec<_>, Vec<_>) = versions().into_iter().unzip();
    for _ in 0..if cfg!(miri) { 20 } else { Sweep::Thin.cases() } {
        check(&mut r, &wide, |x| x);
        check(&mut r, &narrow, |x| x as f32);
    }
}
