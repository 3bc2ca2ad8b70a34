//! After the first call, no routine may allocate, for either element type.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tapeloom_routines::{Element, Float, QrBasis, Routine, SvdVectors};

/// The system's allocator, which also counts the allocating calls of the current thread.
struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // While a thread ends, its counter may have been dropped already. Allocating calls after that are not counted.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every method forwards its arguments to the system's allocator, which has the same contract.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller of this method guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller of this method guarantees what the system's allocator requires.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller of this method guarantees what the system's allocator requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller of this method guarantees what the system's allocator requires.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn routines(n: usize) -> Vec<Routine> {
    let m = 2 * n + 1;
    let mut all = vec![
        Routine::Cholesky { n },
        Routine::TridiagonalSolve { n, columns: 3 },
        Routine::Lu { m: n, n },
        Routine::Lu { m, n },
        Routine::Lu { m: n, n: m },
        Routine::Schur { n },
        Routine::RealFft { rows: 1, n, columns: 1 },
        Routine::InverseRealFft { rows: 1, n, columns: 1 },
    ];
    for flag in [false, true] {
        all.push(Routine::TriangularSolve {
            n,
            columns: 3,
            lower: flag,
            transposed: false,
            unit_diagonal: flag,
        });
        all.push(Routine::Eigh { n, vectors: flag });
        all.push(Routine::Eig { n, vectors: flag });
        all.push(Routine::Fft { rows: 1, n, columns: 1, inverse: flag });
    }
    all.extend(QrBasis::ALL.map(|basis| Routine::Qr { m, n, basis }));
    for vectors in [SvdVectors::None, SvdVectors::Thin, SvdVectors::Full] {
        all.push(Routine::Svd { m, n, vectors });
        all.push(Routine::Svd { m: n, n, vectors });
    }
    all
}

/// Returns an operand of fixed numbers of both signs near 1 or smaller, none of them zero; a matrix gets a large
/// diagonal.
fn operand(shape: &[usize], float: Float) -> Vec<u8> {
    let length: usize = shape.iter().product();
    let number = |place: usize| {
        let columns = shape.last().copied().unwrap_or(1);
        let diagonal = shape.len() == 2 && place / columns == place % columns;
        let wave = ((place * 37 % 101) as f64 / 50.0) - 0.99;
        wave + if diagonal { 2.0 * length as f64 } else { 0.0 }
    };
    let numbers = (0..length).map(number);
    match float {
        Float::F32 => numbers.flat_map(|x| (x as f32).to_ne_bytes()).collect(),
        Float::F64 => numbers.flat_map(f64::to_ne_bytes).collect(),
    }
}

/// A buffer of bytes whose address is a multiple of eight.
struct Aligned {
    words: Vec<u64>,
    length: usize,
}

impl Aligned {
    fn of(bytes: &[u8]) -> Self {
        let mut aligned = Aligned { words: vec![0; bytes.len().div_ceil(8)], length: bytes.len() };
        aligned.bytes_mut().copy_from_slice(bytes);
        aligned
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
    }
}

#[test]
fn a_warm_call_allocates_nothing() {
    for float in [Float::F32, Float::F64] {
        for routine in [4, 33, 150].into_iter().flat_map(routines) {
            let plan = routine.plan(float).unwrap();
            let operands: Vec<Aligned> = routine
                .operands()
                .iter()
                .map(|array| Aligned::of(&operand(&array.shape, float)))
                .collect();
            let mut results: Vec<Aligned> = routine
                .results()
                .iter()
                .map(|array| Aligned::of(&vec![0; array.bytes(float).unwrap()]))
                .collect();
            let operands: Vec<&[u8]> = operands.iter().map(Aligned::bytes).collect();
            let mut results: Vec<&mut [u8]> = results.iter_mut().map(Aligned::bytes_mut).collect();
            let mut scratch = vec![0; plan.scratch_bytes()];
            plan.run(1, &operands, &mut results, &mut scratch).unwrap();
            let before = CALLS.get();
            plan.run(1, &operands, &mut results, &mut scratch).unwrap();
            assert_eq!(CALLS.get() - before, 0, "{routine:?}, {float:?}");
            // Check that the call succeeded: a failure takes a shorter path, which might not allocate.
            let arrays = routine.results();
            for (array, result) in arrays.iter().zip(&results) {
                let nan = match (array.element, float) {
                    (Element::Index, _) => false,
                    (_, Float::F32) => {
                        let numbers: &[f32] = bytemuck::cast_slice(result);
                        numbers.iter().any(|x| x.is_nan())
                    }
                    (_, Float::F64) => {
                        let numbers: &[f64] = bytemuck::cast_slice(result);
                        numbers.iter().any(|x| x.is_nan())
                    }
                };
                assert!(!nan, "{routine:?}, {float:?}");
            }
        }
    }
}
