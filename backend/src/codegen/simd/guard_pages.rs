//! Tests of SIMD code between protected pages.
//!
//! The address sanitiser does not see generated code. So each test runs with each array at the end of its pages, and
//! again with each array at the beginning of its pages. The pages before and after are protected: an access to them
//! ends the process. Elements that a mask excludes may have addresses there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![expect(unsafe_code, reason = "calls generated code next to protected pages")]

use super::tests::{arguments, codes, in_lanes, program, same};
use super::{Compiled, Nest, Word};
use crate::codegen::clif::tests::{Random, tensor};
use crate::loop_ir::{Buffer, Place, Program, Stmt, eval, parse, visit};
use crate::sweeps::Sweep;
use cranelift_entity::EntityRef;
use region::{Allocation, Protection};
use tapeloom_ir::prim::{Code, LibraryFn};
use tapeloom_ir::{Dtype, Isa, Literal, Tensor};

/// Memory of an array between two pages on which every access ends the process.
struct Guarded {
    pages: Allocation,
    /// The offset in bytes of the array's first element from the start of the pages.
    at: usize,
}

impl Guarded {
    fn new(bytes: &[u8], at_end: bool) -> Guarded {
        let page = region::page::size();
        let room = bytes.len().next_multiple_of(page);
        let mut pages = region::alloc(room + 2 * page, Protection::READ_WRITE).unwrap();
        let at = if at_end { page + room - bytes.len() } else { page };
        let base = pages.as_mut_ptr::<u8>();
        // SAFETY: `at + bytes.len()` is within the mapped pages, and nothing refers to the two pages that become
        // protected.
        unsafe {
            base.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            for forbidden in [base, base.add(page + room)] {
                region::protect(forbidden, page, Protection::NONE).unwrap();
            }
        }
        Guarded { pages, at }
    }

    fn start(&mut self) -> *mut u8 {
        // SAFETY: the offset is within the mapped pages.
        unsafe { self.pages.as_mut_ptr::<u8>().add(self.at) }
    }
}

fn bytes(t: &Tensor) -> Vec<u8> {
    let size = t.ty().dtype.bytes();
    t.literals().flat_map(|x| x.bits.to_le_bytes()[..size].to_vec()).collect()
}

fn literal(dtype: Dtype, bytes: &[u8]) -> Literal {
    let mut bits = [0; 8];
    bits[..bytes.len()].copy_from_slice(bytes);
    Literal { dtype, bits: u64::from_le_bytes(bits) }
}

/// Returns the address of a library function for elements of a dtype.
fn address(function: LibraryFn, dtype: Dtype) -> usize {
    let narrow = dtype == Dtype::F32;
    match function {
        LibraryFn::Unary { f64, f32, .. } => {
            if narrow {
                f32 as usize
            } else {
                f64 as usize
            }
        }
        LibraryFn::Binary { f64, f32, .. } => {
            if narrow {
                f32 as usize
            } else {
                f64 as usize
            }
        }
        LibraryFn::Ternary { f64, f32 } => {
            if narrow {
                f32 as usize
            } else {
                f64 as usize
            }
        }
        LibraryFn::Indexed { f64, f32, .. } => {
            if narrow {
                f32 as usize
            } else {
                f64 as usize
            }
        }
    }
}

/// Returns the instruction sets (AVX2, AVX-512) that this machine has.
fn sets() -> impl Iterator<Item = Isa> {
    [Isa::Avx2, Isa::Avx512].into_iter().filter(|set| *set <= Isa::of_machine())
}

/// Runs the first nest of a program with one vector and with several vectors in each iteration. Returns false if the
/// nest has no SIMD code.
fn runs(p: &Program, set: Isa, args: &[Tensor], wanted: &[Tensor]) -> bool {
    let mut nest = None;
    visit(&p.entry.body, &mut |s| {
        if nest.is_none() && matches!(s, Stmt::For { .. }) {
            nest = Some(s.clone());
        }
    });
    let nest = nest.unwrap();
    let nest = Nest { kernel: &p.entry, stmt: &nest, isa: set, in_memory: &|_| true };
    let compiled: Vec<Compiled> = (1..=3).filter_map(|n| nest.compile_with(n).ok()).collect();
    compiled.iter().for_each(|compiled| run(p, compiled, args, wanted));
    !compiled.is_empty()
}

/// Runs the code of a nest with its arrays at the end, and then at the start, of their pages, and compares the results
/// with `wanted`.
fn run(p: &Program, compiled: &Compiled, args: &[Tensor], wanted: &[Tensor]) {
    let Compiled { unit, bytes: code } = compiled;
    let mut text = region::alloc(code.len(), Protection::READ_WRITE).unwrap();
    // SAFETY: the code fits in its pages, which become executable and are not written afterwards. SIMD code is a
    // function of System V with one pointer as argument.
    let f: extern "sysv64" fn(*mut u64) = unsafe {
        text.as_mut_ptr::<u8>().copy_from_nonoverlapping(code.as_ptr(), code.len());
        region::protect(text.as_ptr::<u8>(), code.len(), Protection::READ_EXECUTE).unwrap();
        std::mem::transmute(text.as_ptr::<u8>())
    };
    for at_end in [true, false] {
        let content = |b: &Buffer| match b.place {
            Place::Input(n) => bytes(&args[n]),
            _ => vec![0; b.ty.shape.elements() * b.ty.dtype.bytes()],
        };
        let guarded = |b| Guarded::new(&content(b), at_end);
        let mut arrays: Vec<Guarded> = p.entry.buffers.values().map(guarded).collect();
        let mut row = Vec::new();
        for word in &unit.row {
            row.push(match word {
                Word::Pointer(buffer, address) => {
                    let size = p.entry.buffers[*buffer].ty.dtype.bytes();
                    assert!(address.terms.is_empty() && address.dynamic.is_none());
                    let start = arrays[buffer.index()].start() as u64;
                    start.wrapping_add_signed(address.offset * size as i64)
                }
                Word::Function(_, of) => address(of.library.function, of.dtype) as u64,
                Word::Scalar(_) | Word::Var { .. } => panic!("a bare nest has no values"),
            });
        }
        f(row.as_mut_ptr());
        for (id, b) in &p.entry.buffers {
            let Some(n) = b.place.output() else { continue };
            let size = b.ty.dtype.bytes();
            let start = arrays[id.index()].start();
            for (i, want) in wanted[n].literals().enumerate() {
                let mut element = [0; 8];
                // SAFETY: the output has more than `i` elements of `size` bytes, which lie between the protected
                // pages.
                unsafe { start.add(i * size).copy_to_nonoverlapping(element.as_mut_ptr(), size) };
                let got = literal(b.ty.dtype, &element[..size]);
                assert!(same(got, want), "output {n} element {i}: {got}, want {want}\n{p}");
            }
        }
    }
}

#[test]
fn nothing_outside_of_arrays_is_touched() {
    let codes = codes();
    let args = arguments(&mut Random(5));
    let (mut taken, mut all) = (0, 0);
    for seed in Sweep::GuardedNests.seeds() {
        let mut p = program(seed, &codes, true);
        let most = Random(seed).of(&[2, 4, 8, 16, 16, 32, 32]);
        p.entry.rewrite(|k, body| in_lanes(k, body, most));
        let wanted = eval(&p, &args).unwrap();
        for set in sets() {
            taken += u32::from(runs(&p, set, &args, &wanted));
            all += 1;
        }
    }
    assert!(4 * taken >= all, "only {taken} of {all} nests are accepted");
}

/// The guard `%1` holds only for the inactive elements of the last vector, whose loads give zero. For these elements
/// the load of `b1[4]`, an element behind the end of the array, must read nothing. (The verifier would refuse this
/// program.)
#[test]
fn a_guard_of_elements_that_are_not_active_reads_nothing() {
    for (dtype, one) in [(Dtype::F64, "f64"), (Dtype::Bool, "bool")] {
        let text = format!(
            "program @nest {{
  buffer b0: f64[33] input 0
  buffer b1: {one}[4] input 1
  buffer b2: {one}[33] output 0
  nest {{
    for i0 in 33 lanes 8 {{
      %0: f64 = load b0[i0]
      %1: bool = eq %0, 0.0
      %2: {one} = load b1[4] if %1
      store b2[i0], %2
    }}
  }}
}}"
        );
        let p = parse(&text, &|_| None).unwrap();
        let ones = |dtype, n| tensor(dtype, &vec![Literal::one(dtype); n]);
        let nothing = tensor(dtype, &[Literal::zero(dtype); 33]);
        for set in sets() {
            let args = [ones(Dtype::F64, 33), ones(dtype, 4)];
            assert!(runs(&p, set, &args, std::slice::from_ref(&nothing)));
        }
    }
}

/// A bool must be stored correctly at an address that depends on a value without a register: the constants of the
/// exponential take all registers. In a past fault, loading that value overwrote the register of the stored byte.
#[test]
fn a_truth_is_stored_at_an_index_without_a_register() {
    let text = "program @nest {
  buffer b0: f64[700] input 0
  buffer b1: bool[700] output 0 zeroed
  nest {
    serial i0 in 2 {
      %0: i64 = clamp 0, i0, 0
      serial i1 in 2 {
        %1: i64 = clamp 0, i0, 0
        store b1[i1 + i0*2 + 696 + (%1)], true
        %2: i64 = clamp 0, -3, 0
        %3: f64 = load b0[i1*3 + i0*-1 + 696 + (%2)]
        for i2 in 47 lanes 4 {
          %4: f64 = exp %3
        }
        %5: bool = ne i0, i1
      }
    }
  }
}";
    let exp = codes().into_iter().find_map(|code| match code {
        Code::Library(l) if l.name == "exp" => Some(l),
        _ => None,
    });
    let p = parse(text, &|name| exp.filter(|l| l.name == name)).unwrap();
    let args = &arguments(&mut Random(5))[..1];
    let wanted = eval(&p, args).unwrap();
    for set in sets() {
        assert!(runs(&p, set, args, &wanted));
    }
}
