//! Random nests: the interpreter, Cranelift's code and SIMD code must agree in every bit.
//!
//! A nest has loops around a loop with lanes, arrays of every dtype, strides, guards, variables, folds and
//! functions. The trip counts are near multiples of vector lengths. The bytes of each nest are decoded and checked.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::x86::decoded;
use super::{Compiled, Nest, Refused};
use crate::Executable;
use crate::codegen::clif::tests::{Random, tensor};
use crate::codegen::target_isa::{baseline, isa};
use crate::loop_ir::legal_lanes::refused;
use crate::loop_ir::{
    Address, Arg, Buffer, BufferId, BufferVersion, Expr, Extent, IndexId, Kernel, Origins,
    Parallelism, Place, Program, Stmt, VarId, eval, infer_parallelism, parse, verify, visit,
};
use crate::machine::MachineModel;
use crate::sweeps::Sweep;
use cranelift_entity::EntityRef;
use std::collections::BTreeMap;
use tapeloom_ir::prim::{Continuity, Library, LibraryFn, SignOf};
use tapeloom_ir::{ArrayType, Code, Dtype, Isa, Literal, Scalar, Tensor};
use target_lexicon::Triple;

/// The number of elements of every array in a generated nest.
const SIZE: usize = 700;

/// The trip count of loops inside loops with lanes; no other loop has this trip count.
const INNER: usize = 6;

const DTYPES: [Dtype; 7] =
    [Dtype::F64, Dtype::F32, Dtype::I64, Dtype::I32, Dtype::U32, Dtype::U64, Dtype::Bool];

/// Codes whose results or operands are bools, so that generated nests have many masks.
const DECISIONS: [Code; 8] =
    [Code::Lt, Code::Ge, Code::Ne, Code::And, Code::Or, Code::Xor, Code::Not, Code::Select];

struct Generator<'a> {
    r: &'a mut Random,
    k: Kernel,
    /// The dtypes of the arrays of the generated nest.
    dtypes: Vec<Dtype>,
    codes: &'a [Code],
    /// The buffer of one argument of each dtype in `dtypes`.
    inputs: Vec<BufferId>,
    loops: Vec<(IndexId, usize)>,
    values: Vec<Arg>,
    vars: Vec<VarId>,
    folded: Vec<VarId>,
    /// The number of variables that were declared before the loop with lanes.
    before: usize,
    outputs: usize,
    bare: bool,
}

impl Generator<'_> {
    fn buffer(&mut self, dtype: Dtype, place: Place) -> BufferId {
        let mut buffer = Buffer::new(ArrayType::new(dtype, [SIZE]), place);
        buffer.zeroed = place.output().is_some();
        self.k.buffers.push(buffer)
    }

    fn index(&mut self) -> IndexId {
        self.k.indices += 1;
        IndexId::new(self.k.indices as usize - 1)
    }

    fn dtype(&mut self) -> Dtype {
        self.r.of(&self.dtypes.clone())
    }

    /// Returns a random operand of a dtype.
    fn value(&mut self, dtype: Dtype) -> Arg {
        let mut fit: Vec<Arg> =
            self.values.iter().copied().filter(|v| self.k.dtype(*v) == dtype).collect();
        // A variable that the loop folds into is not read elsewhere in the loop.
        let own =
            self.vars.iter().filter(|v| !self.folded.contains(v) && self.k.vars[**v] == dtype);
        fit.extend(own.map(|v| Arg::Var(*v)));
        if dtype == Dtype::I64 && !self.loops.is_empty() {
            fit.extend(self.loops.iter().map(|l| Arg::Index(l.0)));
        }
        match self.r.below(5) {
            0 => Arg::Literal(Literal::of(dtype, self.r.below(7) as f64 - 3.0)),
            _ if fit.is_empty() => Arg::Literal(Literal::of(dtype, 1.5)),
            _ => self.r.of(&fit),
        }
    }

    fn code(&mut self, body: &mut Vec<Stmt>, code: Code, args: Vec<Arg>) -> Arg {
        let last = self.k.dtype(*args.last().unwrap());
        let value = self.k.scalars.push(code.result(last));
        body.push(Stmt::Let { value, expr: Expr::Code(code, args) });
        Arg::Scalar(value)
    }

    /// Returns a random address within the arrays of `SIZE` elements. If `apart`, no two iterations access the same
    /// element.
    fn address(&mut self, apart: bool) -> Address {
        let mut a = Address::default();
        let (mut low, mut high) = (0i64, 0i64);
        let mut inner = 1i64;
        for (index, extent) in self.loops.clone().into_iter().rev() {
            let reach = extent as i64 - 1;
            let stride = if apart {
                let stride = inner * self.r.of(&[1, 1, 1, 2]);
                inner = stride * extent.max(1) as i64;
                stride
            } else {
                self.r.of(&[0, 1, 1, 1, 1, 2, 3, -1, -2, 7])
            };
            let reach = stride * reach;
            if !apart && high - low + reach.abs() >= SIZE as i64 {
                continue;
            }
            low += reach.min(0);
            high += reach.max(0);
            a.terms.push((index, stride));
        }
        let room = (SIZE as i64 - (high - low)).max(1);
        // If the nest is the whole program (as in the tests with guard pages), its accesses reach the first or the last
        // element of the arrays.
        let first =
            if self.bare { self.r.of(&[0, room - 1]) } else { self.r.below(room as usize) as i64 };
        a.offset = first - low;
        a
    }

    fn fits(&self, a: &Address) -> bool {
        let reach: i64 = a
            .terms
            .iter()
            .map(|(i, s)| s * (self.loops.iter().find(|l| l.0 == *i).unwrap().1 as i64 - 1).max(0))
            .sum();
        a.offset + reach < SIZE as i64
    }

    fn guard(&mut self, body: &mut Vec<Stmt>) -> Option<Arg> {
        if self.r.below(4) > 0 {
            return None;
        }
        let dtype = self.dtype();
        let args = vec![self.value(dtype), self.value(dtype)];
        let code = self.r.of(&[Code::Lt, Code::Ge, Code::Ne, Code::Le]);
        Some(self.code(body, code, args))
    }

    fn statement(&mut self, body: &mut Vec<Stmt>, lanes: bool) {
        match self.r.below(10) {
            0..=2 => {
                let (mut address, guard) = (self.address(false), self.guard(body));
                self.compute(body, &mut address);
                let dtype = self.dtype();
                let from = self.inputs[DTYPES.iter().position(|d| *d == dtype).unwrap()];
                let value = self.k.scalars.push(dtype);
                let held = BufferVersion::first(from);
                body.push(Stmt::Let { value, expr: Expr::Load { held, address, guard } });
                self.values.push(Arg::Scalar(value));
            }
            3..=6 => {
                let code = self.r.of(self.codes);
                let dtype = self.dtype();
                if !code.row().domain.has(dtype) {
                    return;
                }
                let takes = code.row().takes;
                let args = (0..takes.arity()).map(|i| self.value(takes.dtype(i, dtype))).collect();
                let value = self.code(body, code, args);
                if self.dtypes.contains(&self.k.dtype(value)) || self.k.dtype(value) == Dtype::Bool
                {
                    self.values.push(value);
                }
            }
            7 => {
                let mut address = self.address(true);
                if !self.fits(&address) {
                    return;
                }
                if self.r.below(4) == 0 {
                    self.compute(body, &mut address);
                }
                let guard = self.guard(body);
                let dtype = self.dtype();
                let value = self.value(dtype);
                let to = self.buffer(dtype, Place::Output(self.outputs));
                self.outputs += 1;
                let held = BufferVersion::first(to);
                body.push(Stmt::Store { held, address, value, guard });
            }
            8 if lanes
                && self.loops.iter().filter(|l| l.1 == INNER).count() < 2
                && self.r.below(3) == 0 =>
            {
                let inner = self.inner();
                body.push(inner);
            }
            8 if !lanes || self.r.below(2) == 0 => {
                let dtype = self.dtype();
                let var = self.k.vars.push(dtype);
                body.push(Stmt::Var { var, init: self.value(dtype) });
                self.vars.push(var);
                if self.r.below(2) == 0 && dtype != Dtype::Bool {
                    let value = self.value(dtype);
                    body.push(Stmt::Fold { var, code: Code::Max, value });
                }
            }
            9 if lanes && self.vars.len() > self.before && self.r.below(2) == 0 => {
                let own = self.vars[self.before..].to_vec();
                let var = self.r.of(&own);
                let dtype = self.k.vars[var];
                let value = self.value(dtype);
                body.push(match self.r.below(2) {
                    0 if dtype != Dtype::Bool => Stmt::Fold { var, code: Code::Add, value },
                    _ => Stmt::Set { var, value },
                });
            }
            _ => {
                let vars = self.folded.clone();
                if lanes && !vars.is_empty() {
                    let var = self.r.of(&vars);
                    let dtype = self.k.vars[var];
                    let value = self.value(dtype);
                    // Each variable is always folded by the same code, because its partial values start with the
                    // neutral element of that code.
                    let codes = match dtype {
                        Dtype::Bool => [Code::And, Code::Or, Code::Max],
                        _ => [Code::Add, Code::Max, Code::Min],
                    };
                    let code = codes[var.index() % 3];
                    body.push(Stmt::Fold { var, code, value });
                }
            }
        }
    }

    /// Adds a computed index to an address, which remains within the arrays.
    fn compute(&mut self, body: &mut Vec<Stmt>, a: &mut Address) {
        if self.r.below(4) > 0 || !self.dtypes.contains(&Dtype::I64) {
            return;
        }
        let reach = |(i, s): &(IndexId, i64)| {
            s.max(&0) * (self.loops.iter().find(|l| l.0 == *i).unwrap().1 as i64 - 1)
        };
        let room = SIZE as i64 - 1 - a.offset - a.terms.iter().map(reach).sum::<i64>();
        let bound = |x: i64| Arg::Literal(Literal::of(Dtype::I64, x as f64));
        let x = self.value(Dtype::I64);
        a.dynamic = Some(self.code(body, Code::Clamp, vec![bound(0), x, bound(room.min(9))]));
    }

    /// Generates a loop of `INNER` iterations inside a loop with lanes.
    fn inner(&mut self) -> Stmt {
        let (index, mut body) = (self.index(), Vec::new());
        self.loops.push((index, INNER));
        let (values, vars) = (self.values.len(), self.vars.len());
        for _ in 0..1 + self.r.below(5) {
            self.statement(&mut body, true);
        }
        self.values.truncate(values);
        self.vars.truncate(vars);
        self.loops.pop();
        let (extent, parallelism) = (Extent::Constant(INNER), Parallelism::Serial);
        let (carries, origins) = (Vec::new(), Origins::default());
        Stmt::For { index, extent, parallelism, lanes: 1, carries, body, origins }
    }

    /// Generates a loop, with the loops inside it; the innermost loop has lanes.
    fn nest(&mut self, depth: usize) -> Stmt {
        let index = self.index();
        let lanes = depth == 0;
        let extent = match lanes {
            true => self.r.of(&[2, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 65, 100, 127, 150]),
            false => self.r.of(&[1, 2, 3, 5]),
        };
        self.loops.push((index, extent));
        let (values, vars) = (self.values.len(), self.vars.len());
        let (mut body, outer) = (Vec::new(), self.folded.clone());
        if lanes {
            self.before = vars;
            self.folded = self.vars.clone();
            // Sometimes generate more values than vector registers, and more arrays than registers for pointers.
            let most = self.r.of(&[14, 14, 14, 90]);
            for _ in 0..2 + self.r.below(most) {
                self.statement(&mut body, true);
            }
        } else {
            for _ in 0..self.r.below(4) {
                self.statement(&mut body, false);
            }
            body.push(self.nest(depth - 1));
            for _ in 0..self.r.below(4) {
                self.statement(&mut body, false);
            }
        }
        (self.folded, self.before) = (outer, 0);
        self.values.truncate(values);
        self.vars.truncate(vars);
        self.loops.pop();
        let extent = Extent::Constant(extent);
        let parallelism = Parallelism::Serial;
        let (carries, origins) = (Vec::new(), Origins::default());
        Stmt::For { index, extent, parallelism, lanes: 1, carries, body, origins }
    }
}

/// Generates a program with a nest. If `bare`, the program contains nothing but the nest.
pub(super) fn program(seed: u64, codes: &[Code], bare: bool) -> Program {
    let mut r = Random(seed);
    // Sometimes generate only codes on bools, so that more masks are live than there are mask registers.
    let decisions = r.below(6) == 0;
    let codes = if decisions { &DECISIONS } else { codes };
    let dtypes = match r.below(5) {
        _ if decisions => vec![r.of(&[Dtype::F64, Dtype::F32, Dtype::U64]), Dtype::Bool],
        0 => vec![Dtype::F64],
        1 => vec![Dtype::F32],
        2 => vec![Dtype::F32, Dtype::I32, Dtype::U32, Dtype::Bool],
        3 => vec![Dtype::F64, Dtype::I64, Dtype::Bool],
        _ => DTYPES.to_vec(),
    };
    let mut g = Generator {
        r: &mut r,
        k: Kernel::new("nest"),
        dtypes,
        codes,
        inputs: Vec::new(),
        loops: Vec::new(),
        values: Vec::new(),
        vars: Vec::new(),
        folded: Vec::new(),
        before: 0,
        outputs: 0,
        bare,
    };
    g.inputs = (0..DTYPES.len()).map(|n| g.buffer(DTYPES[n], Place::Input(n))).collect();
    let mut body = Vec::new();
    for _ in 0..if bare { 0 } else { g.r.below(4) } {
        g.statement(&mut body, false);
    }
    let depth = g.r.below(3);
    let nest = g.nest(depth);
    body.push(nest);
    // The final values of variables are stored as results.
    for var in g.vars.clone() {
        let to = g.buffer(g.k.vars[var], Place::Output(g.outputs));
        g.outputs += 1;
        let (held, address) = (BufferVersion::first(to), Address::default());
        body.push(Stmt::Store { held, address, value: Arg::Var(var), guard: None });
    }
    g.k.body = vec![Stmt::Nest { body, origins: Origins::default() }];
    let mut k = g.k;
    infer_parallelism(&mut k);
    Program { entry: k, ..Program::new("") }
}

extern "C" fn times(n: i64, x: f64) -> f64 {
    n as f64 * x
}

extern "C" fn times_f32(n: i64, x: f32) -> f32 {
    n as f32 * x
}

/// Returns codes of every kind for random nests, including library functions.
pub(super) fn codes() -> Vec<Code> {
    let mut all = Code::PLAIN.to_vec();
    all.extend(DTYPES.map(Code::Convert));
    all.extend([-2, 3].map(Code::IntegerPow));
    // Library functions of at most 40 operations, which are cheap to interpret.
    let cheap = |code: &Code| code.row().library.is_some_and(|l| l.flops <= 40);
    all.extend(Scalar::ALL.iter().map(|s| s.row().code).filter(cheap));
    // Library functions with a constant number `n`: two numbers give two different functions.
    all.extend([2, 3].map(|n| {
        let function = LibraryFn::Indexed { n, f64: times, f32: times_f32, recording: |_, _| None };
        let (continuity, sign) = (Continuity::Continuous, SignOf::Unknown);
        Code::Library(Library {
            name: "times",
            flops: 1,
            continuity,
            sign,
            stablehlo: tapeloom_ir::prim::StableHlo::CustomCall,
            function,
        })
    }));
    all
}

pub(super) fn arguments(r: &mut Random) -> Vec<Tensor> {
    DTYPES
        .iter()
        .map(|d| {
            let element = |r: &mut Random| {
                // Most numbers are multiples of a third, so that a change in the order of a sum changes bits. Some are
                // values at which functions have special cases.
                let x = match r.below(40) {
                    0 => r.of(&[0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]),
                    1 => r.of(&[1e-310, -800.0, 1e30, 1e7, -1.0, 1e300]),
                    _ => (r.below(61) as f64 - 30.0) / 3.0,
                };
                Literal::of(*d, if d.is_float() { x } else { x.clamp(-9.0, 9.0).trunc() })
            };
            tensor(*d, &(0..SIZE).map(|_| element(r)).collect::<Vec<_>>())
        })
        .collect()
}

/// Gives lanes, at most `most`, to each loop whose inner loops all have [`INNER`] iterations.
pub(super) fn in_lanes(k: &Kernel, body: &mut [Stmt], most: usize) {
    for stmt in body {
        let inner =
            |s: &Stmt| matches!(s, Stmt::For { extent, .. } if *extent == Extent::Constant(INNER));
        let of = |b: &[Stmt]| b.iter().all(|s| s.blocks().is_empty() || inner(s));
        if matches!(stmt, Stmt::For { .. }) && stmt.blocks().iter().all(|b| of(b)) {
            let fits = std::iter::successors(Some(most), |n| (*n > 2).then_some(n / 2))
                .find(|n| refused(k, stmt, *n).is_none());
            if let (Stmt::For { lanes, .. }, Some(n)) = (stmt, fits) {
                *lanes = n;
            }
        } else {
            stmt.blocks_mut().into_iter().for_each(|b| in_lanes(k, b, most));
        }
    }
}

/// Returns whether `x` and `y` have the same bits, or are both nan.
pub(super) fn same(x: Literal, y: Literal) -> bool {
    x == y || x.dtype.is_float() && x.to_f64().is_nan() && y.to_f64().is_nan()
}

#[test]
fn random_nests() {
    let codes = codes();
    let args = arguments(&mut Random(5));
    let refs: Vec<&Tensor> = args.iter().collect();
    let host = Triple::host();
    let widest = Isa::of_machine();
    let (mut taken, mut all) = (0, 0);
    let mut reasons: BTreeMap<(Isa, &str), usize> = BTreeMap::new();
    for seed in Sweep::WideNests.seeds() {
        let mut p = program(seed, &codes, false);
        let most = Random(seed).of(&[2, 4, 8, 16, 16, 32, 32]);
        p.entry.rewrite(|k, body| in_lanes(k, body, most));
        assert_eq!(verify(&p), [], "seed {seed}\n{p}");
        let mut nests = Vec::new();
        visit(&p.entry.body, &mut |s| {
            if matches!(s, Stmt::For { .. }) {
                nests.push(s.clone());
            }
        });
        for set in [Isa::Avx2, Isa::Avx512] {
            let nest = Nest { kernel: &p.entry, stmt: &nests[0], isa: set, in_memory: &|_| true };
            match nest.compile() {
                Ok(Compiled { bytes, .. }) => {
                    taken += 1;
                    let checked = decoded::check(&bytes, set);
                    checked.unwrap_or_else(|e| panic!("seed {seed} {set}: {e}\n{p}"));
                }
                Err(Refused(why)) => *reasons.entry((set, why)).or_default() += 1,
            }
            all += 1;
        }
        let want = eval(&p, &args).unwrap();
        let made = |isa, set| Executable::made(&p, MachineModel::MEASURED, isa, set).unwrap();
        let mut codes = vec![("baseline", made(baseline(&host).unwrap(), Isa::Baseline))];
        for set in [Isa::Avx2, Isa::Avx512].into_iter().filter(|set| *set <= widest) {
            codes.push((set.name(), made(isa(&host).unwrap(), set)));
        }
        for (name, code) in codes {
            let got = code.call(&refs).unwrap();
            for (n, (got, want)) in got.iter().zip(&want).enumerate() {
                for (i, (x, y)) in got.literals().zip(want.literals()).enumerate() {
                    assert!(
                        same(x, y),
                        "seed {seed} {name} output {n} element {i}: {x}, want {y}\n{p}"
                    );
                }
            }
        }
    }
    assert!(taken * 3 > all, "{taken} of {all} nests are accepted: {reasons:?}");
}

/// Offsets between 4-byte elements of a vector have 32 bits. A nest whose elements are further apart must be refused.
#[test]
fn elements_that_are_far_apart() {
    for set in [Isa::Avx2, Isa::Avx512] {
        let n = set.vector_bytes() / 4;
        let furthest = i32::MAX as usize / 4 / (n - 1);
        for (stride, taken) in [(furthest, true), (furthest + 1, false)] {
            let text = format!(
                "program @nest {{
  buffer b0: f32[{}] input 0
  buffer b1: f32[64] output 0
  nest {{
    for i0 in 4 {{
      for i1 in 16 lanes 16 {{
        %0: f32 = load b0[i0 + i1*{stride}]
        %1: f32 = add %0, %0
        store b1[i0*16 + i1], %1
      }}
    }}
  }}
}}",
                16 * stride
            );
            let p = parse(&text, &|_| None).unwrap();
            assert_eq!(verify(&p), []);
            let Stmt::Nest { body, .. } = &p.entry.body[0] else { panic!("{p}") };
            let nest = Nest { kernel: &p.entry, stmt: &body[0], isa: set, in_memory: &|_| true };
            assert_eq!(nest.compile().is_ok(), taken, "{set}");
        }
    }
}

/// If more masks are live than AVX-512 has mask registers, and each is read together with a mask in the stack frame,
/// the code must give the interpreter's bits.
#[test]
fn more_masks_than_registers() {
    const N: usize = 16;
    let (mut buffers, mut body) = (String::new(), String::new());
    for i in 0..N {
        body += &format!("      %{}: bool = lt %0, {}.0\n", i + 1, i as i64 - 8);
    }
    for i in 0..N / 2 {
        buffers += &format!("  buffer b{}: bool[61] output {i}\n", i + 1);
        body += &format!("      %{}: bool = xor %{}, %{}\n", N + 1 + i, i + 1, N - i);
        body += &format!("      store b{}[i0], %{}\n", i + 1, N + 1 + i);
    }
    agrees(&format!(
        "program @nest {{
  buffer b0: f64[61] input 0
{buffers}  nest {{
    for i0 in 61 lanes 8 {{
      %0: f64 = load b0[i0]
{body}    }}
  }}
}}"
    ));
}

/// An operation that emits no instruction, such as a bitcast of a variable, must return the variable's value at that
/// time, even if the variable is set later.
#[test]
fn a_value_is_not_the_variable_that_it_came_from() {
    agrees(
        "program @nest {
  buffer b0: f64[61] input 0
  buffer b1: i64[61] output 0
  buffer b2: f64[61] output 1
  nest {
    for i0 in 61 lanes 8 {
      %0: f64 = load b0[i0]
      var v0: f64 = %0
      %1: i64 = bitcast{to=i64} v0
      v0 = add v0, 1.0
      store b1[i0], %1
      store b2[i0], v0
    }
  }
}",
    );
}

/// Checks that a program of one nest with one f64 input gives the interpreter's bits in every instruction set of this
/// machine.
fn agrees(text: &str) {
    let p = parse(text, &|_| None).unwrap();
    assert_eq!(verify(&p), [], "{p}");
    let Place::Input(0) = p.entry.buffers[BufferId::new(0)].place else { panic!("{p}") };
    let n = p.entry.buffers[BufferId::new(0)].ty.shape.elements();
    let element = |i: usize| Literal::of(Dtype::F64, (i * 7 % 19) as f64 - 9.5);
    let arg = tensor(Dtype::F64, &(0..n).map(element).collect::<Vec<_>>());
    let want = eval(&p, std::slice::from_ref(&arg)).unwrap();
    for set in [Isa::Avx2, Isa::Avx512].into_iter().filter(|set| *set <= Isa::of_machine()) {
        let host = isa(&Triple::host()).unwrap();
        let made = Executable::made(&p, MachineModel::MEASURED, host, set).unwrap();
        assert_eq!(made.report().vectors.simd_loops(), 1, "{set}\n{p}");
        assert_eq!(made.call(&[&arg]).unwrap(), want, "{set}\n{p}");
    }
}

/// Returns the edge values of a dtype at which instructions differ; every dtype has 12.
fn edges(dtype: Dtype) -> [Literal; 12] {
    let floats = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1.5,
        -2.5,
        3e9,
        -5e9,
        1e19,
        2.5e-320,
        -7.0,
    ];
    let integers: [i64; 12] = [
        0,
        1,
        -1,
        3,
        31,
        33,
        64,
        i64::MIN,
        i64::MAX,
        0x8000_0000,
        0x7fff_ffff_0000_0001,
        -0x1234_5678_9abc,
    ];
    std::array::from_fn(|i| match dtype {
        Dtype::F64 | Dtype::F32 => Literal::of(dtype, floats[i]),
        Dtype::Bool => Literal::bool(i % 2 == 0),
        Dtype::I64 | Dtype::U64 => Literal { dtype, bits: integers[i] as u64 },
        Dtype::I32 | Dtype::U32 => Literal { dtype, bits: integers[i] as u64 & 0xffff_ffff },
    })
}

/// The number of elements of an operand: all pairs of the 12 edge values, and three more, so that the last vector is
/// not full.
const PAIRS: usize = 12 * 12 + 3;

/// Generates a nest that applies a code to pairs of edge values, optionally with elements of eight bytes beside them,
/// and optionally under a guard.
fn one_code(
    code: Code,
    dtype: Dtype,
    beside: bool,
    guarded: bool,
) -> Option<(Program, Vec<Tensor>)> {
    let row = code.row();
    if !row.domain.has(dtype) {
        return None;
    }
    let mut k = Kernel::new("code");
    let index = IndexId::new(0);
    k.indices = 1;
    let (mut body, mut args, mut data) = (Vec::new(), Vec::new(), Vec::new());
    let at = || Address { offset: 0, terms: vec![(index, 1)], dynamic: None };
    let mut load = |k: &mut Kernel, body: &mut Vec<Stmt>, of: Dtype, by: usize, guard| {
        let place = Place::Input(data.len());
        let from = k.buffers.push(Buffer::new(ArrayType::new(of, [PAIRS]), place));
        let element = |i: usize| edges(of)[[i % 12, i / 12 % 12, 5 * i % 12][by]];
        data.push(tensor(of, &(0..PAIRS).map(element).collect::<Vec<_>>()));
        let (value, held) = (k.scalars.push(of), BufferVersion::first(from));
        body.push(Stmt::Let { value, expr: Expr::Load { held, address: at(), guard } });
        Arg::Scalar(value)
    };
    let guard = guarded.then(|| load(&mut k, &mut body, Dtype::Bool, 2, None));
    for j in 0..row.takes.arity() {
        args.push(load(&mut k, &mut body, row.takes.dtype(j, dtype), j, guard));
    }
    let last = k.dtype(*args.last()?);
    let value = k.scalars.push(code.result(last));
    body.push(Stmt::Let { value, expr: Expr::Code(code, args) });
    let mut stored = vec![(Arg::Scalar(value), code.result(last))];
    if beside {
        stored.push((load(&mut k, &mut body, Dtype::F64, 1, None), Dtype::F64));
    }
    for (n, (value, dtype)) in stored.into_iter().enumerate() {
        let mut to = Buffer::new(ArrayType::new(dtype, [PAIRS]), Place::Output(n));
        to.zeroed = true;
        let held = BufferVersion::first(k.buffers.push(to));
        body.push(Stmt::Store { held, address: at(), value, guard });
    }
    let (extent, parallelism) = (Extent::Constant(PAIRS), Parallelism::Serial);
    let (carries, origins) = (Vec::new(), Origins::default());
    let nest = Stmt::For { index, extent, parallelism, lanes: 1, carries, body, origins };
    k.body = vec![Stmt::Nest { body: vec![nest], origins: Origins::default() }];
    infer_parallelism(&mut k);
    Some((Program { entry: k, ..Program::new("") }, data))
}

/// Every code on every dtype, at pairs of edge values, must give the interpreter's bits in every instruction set of
/// this machine.
#[test]
fn every_code_at_edges() {
    let host = Triple::host();
    let (mut taken, mut all) = (0, 0);
    for code in codes() {
        for dtype in DTYPES {
            for (beside, guarded) in [(false, false), (true, false), (true, true), (false, true)] {
                let Some((mut p, args)) = one_code(code, dtype, beside, guarded) else { continue };
                p.entry.rewrite(|k, body| in_lanes(k, body, 8));
                assert_eq!(verify(&p), [], "{p}");
                let refs: Vec<&Tensor> = args.iter().collect();
                let want = eval(&p, &args).unwrap();
                for set in [Isa::Avx2, Isa::Avx512] {
                    if set > Isa::of_machine() {
                        continue;
                    }
                    let made =
                        Executable::made(&p, MachineModel::MEASURED, isa(&host).unwrap(), set);
                    let made = made.unwrap();
                    taken += made.report().vectors.simd_loops();
                    all += 1;
                    for (got, want) in made.call(&refs).unwrap().iter().zip(&want) {
                        for (i, (x, y)) in got.literals().zip(want.literals()).enumerate() {
                            assert!(same(x, y), "{set} element {i}: {x}, want {y}\n{p}");
                        }
                    }
                }
            }
        }
    }
    assert!(4 * taken >= 3 * all, "{taken} of {all} are accepted");
}
