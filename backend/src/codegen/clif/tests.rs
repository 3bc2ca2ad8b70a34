//! Tests of machine code against the interpreter: every code on every dtype at edge values, random kernels, loops,
//! guards, kernels that are cut into several functions, contractions, memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use crate::Executable;
use crate::codegen::target_isa::baseline;
use crate::loop_ir::interp::test_hosts::{RecordedCalls, take_recorded_calls};
use crate::loop_ir::{
    Address, Arg, Buffer, BufferId, BufferVersion, Contract, Expr, Extent, IndexId, Kernel, Matrix,
    Origins, Parallelism, Place, Program, ScalarId, Stmt, Sums, VarId, eval, infer_parallelism,
    parse, verify, visit,
};
use crate::machine::MachineModel;
use crate::passes;
use crate::runtime::gemm;
use crate::sweeps::Sweep;
use cranelift_entity::EntityRef;
use tapeloom_ir::prim::{Continuity, Library, LibraryFn, SignOf};
use tapeloom_ir::{ArrayType, Code, Dtype, Isa, Literal, Tensor};
use target_lexicon::Triple;

/// A builder of test programs with one kernel.
struct Make {
    p: Kernel,
}

impl Make {
    fn new(name: &str) -> Make {
        Make { p: Kernel::new(name) }
    }

    fn buffer(&mut self, dtype: Dtype, shape: &[usize], place: Place) -> BufferId {
        self.p.buffers.push(Buffer::new(ArrayType::new(dtype, shape), place))
    }

    fn index(&mut self) -> IndexId {
        self.p.indices += 1;
        IndexId::new(self.p.indices as usize - 1)
    }

    fn code(&mut self, body: &mut Vec<Stmt>, code: Code, args: &[Arg]) -> Arg {
        let last = self.p.dtype(*args.last().unwrap());
        let value = self.p.scalars.push(code.result(last));
        body.push(Stmt::Let { value, expr: Expr::Code(code, args.to_vec()) });
        Arg::Scalar(value)
    }

    fn load(&mut self, body: &mut Vec<Stmt>, buffer: BufferId, address: Address) -> Arg {
        self.load_if(body, buffer, address, None)
    }

    fn load_if(
        &mut self,
        body: &mut Vec<Stmt>,
        buffer: BufferId,
        address: Address,
        guard: Option<Arg>,
    ) -> Arg {
        let value: ScalarId = self.p.scalars.push(self.p.buffers[buffer].ty.dtype);
        body.push(Stmt::Let {
            value,
            expr: Expr::Load { held: BufferVersion::first(buffer), address, guard },
        });
        Arg::Scalar(value)
    }

    /// Returns the program, with the strongest parallelism that can be proved for each loop.
    fn program(mut self) -> Program {
        infer_parallelism(&mut self.p);
        Program { entry: self.p, ..Program::new("") }
    }

    fn step(&mut self, body: Vec<Stmt>) {
        self.p.body.push(Stmt::nest(body, Origins::default()));
    }
}

fn store(buffer: BufferId, address: Address, value: Arg) -> Stmt {
    Stmt::Store { held: BufferVersion::first(buffer), address, value, guard: None }
}

fn loop_(index: IndexId, extent: usize, body: Vec<Stmt>) -> Stmt {
    let (extent, parallelism) = (Extent::Constant(extent), Parallelism::Serial);
    let (carries, origins) = (Vec::new(), Origins::default());
    Stmt::For { index, extent, parallelism, lanes: 1, carries, body, origins }
}

/// Returns the address `b[i]`.
fn at(index: IndexId) -> Address {
    Address { offset: 0, terms: vec![(index, 1)], dynamic: None }
}

/// Returns the program after the pass `vectorize`, which gives lanes to its loops.
fn in_lanes(mut p: Program) -> Program {
    passes::apply("vectorize", &mut p).unwrap();
    assert_eq!(verify(&p), [], "{p}");
    p
}

/// Returns whether `x` and `y` have the same bits, or are both nan, or are floats within the relative `tolerance`.
fn close(x: Literal, y: Literal, tolerance: f64) -> bool {
    if x == y {
        return true;
    }
    let (a, b) = (x.to_f64(), y.to_f64());
    x.dtype.is_float()
        && (a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * a.abs().max(b.abs()))
}

/// Checks that machine code agrees with the interpreter: results of the library's contractions within `tolerance`, all
/// other results in every bit.
#[track_caller]
fn check(p: &Program, args: &[Tensor], tolerance: f64) {
    compare(p, args, &eval(p, args).unwrap(), tolerance, "");
}

/// Checks that machine code returns the results `want`. Returns the effects that were performed.
#[track_caller]
pub(crate) fn compare(
    p: &Program,
    args: &[Tensor],
    want: &[Tensor],
    tolerance: f64,
    what: &str,
) -> RecordedCalls {
    let code = Executable::new(p).unwrap_or_else(|e| panic!("{what} {e}\n{p}"));
    let refs: Vec<&Tensor> = args.iter().collect();
    if p.entry.body.iter().any(any_concurrent) {
        let one = code.call(&refs).unwrap();
        for threads in [2, 3, 7] {
            let many = code.clone().with_threads(threads).call(&refs).unwrap();
            assert_eq!(many, one, "{what} on {threads} threads\n{p}");
        }
    }
    take_recorded_calls();
    let got = code.call(&refs).unwrap();
    assert_eq!(got.len(), want.len());
    for (n, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got.ty(), want.ty());
        for (i, (got, want)) in got.literals().zip(want.literals()).enumerate() {
            assert!(
                close(got, want, tolerance),
                "{what} output {n} element {i}: got {got}, want {want}\n{p}\nargs {args:?}"
            );
        }
    }
    take_recorded_calls()
}

/// Returns whether a statement is or contains a concurrent loop.
fn any_concurrent(stmt: &Stmt) -> bool {
    let mut found = false;
    visit(std::slice::from_ref(stmt), &mut |s| {
        found |= matches!(s, Stmt::For { parallelism: Parallelism::Concurrent, .. });
    });
    found
}

fn edges(dtype: Dtype) -> Vec<Literal> {
    let of = |xs: &[f64]| xs.iter().map(|x| Literal::of(dtype, *x)).collect::<Vec<_>>();
    let bits = |xs: &[u64]| xs.iter().map(|b| Literal { dtype, bits: *b }).collect::<Vec<_>>();
    match dtype {
        Dtype::Bool => bits(&[0, 1]),
        Dtype::I32 | Dtype::U32 => bits(&[
            0,
            1,
            2,
            3,
            7,
            31,
            32,
            33,
            100,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0xffff_fffe,
        ]),
        Dtype::I64 | Dtype::U64 => bits(&[
            0,
            1,
            2,
            3,
            7,
            63,
            64,
            65,
            1 << 31,
            1 << 32,
            (1 << 53) + 1,
            i64::MAX as u64,
            1 << 63,
            u64::MAX,
            u64::MAX - 6,
            (1 << 63) + 1025,
        ]),
        Dtype::F32 | Dtype::F64 => {
            let mut x = of(&[
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                -0.5,
                1.5,
                2.5,
                -2.5,
                3.7,
                -3.7,
                1e-3,
                7.0,
                1e10,
                -1e10,
                2147483647.0,
                2147483648.0,
                -2147483649.0,
                4294967296.0,
                9.3e18,
                -9.3e18,
                1.9e19,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                1e30,
                -1e30,
            ]);
            let tiny: &[u64] = if dtype == Dtype::F64 {
                &[1, 0x000f_ffff_ffff_ffff, 0x7fef_ffff_ffff_ffff, 1 << 63 | 1]
            } else {
                &[1, 0x007f_ffff, 0x7f7f_ffff, 0x8000_0001]
            };
            x.extend(bits(tiny));
            x
        }
    }
}

pub(crate) fn tensor(dtype: Dtype, elements: &[Literal]) -> Tensor {
    let mut t = Tensor::zeros_of(&ArrayType::new(dtype, [elements.len()])).unwrap();
    elements.iter().enumerate().for_each(|(i, x)| t.set_literal(i, *x).unwrap());
    t
}

extern "C" fn half(x: f64) -> f64 {
    x / 2.0
}
extern "C" fn half_f32(x: f32) -> f32 {
    x / 2.0
}
extern "C" fn hypot(x: f64, y: f64) -> f64 {
    x.hypot(y)
}
extern "C" fn hypot_f32(x: f32, y: f32) -> f32 {
    x.hypot(y)
}
extern "C" fn times(n: i64, x: f64) -> f64 {
    n as f64 * x
}
extern "C" fn times_f32(n: i64, x: f32) -> f32 {
    n as f32 * x
}

const HALF: Code = Code::Library(Library {
    flops: 1,
    name: "half",
    continuity: Continuity::Continuous,
    sign: SignOf::Unknown,
    stablehlo: tapeloom_ir::prim::StableHlo::CustomCall,
    function: LibraryFn::Unary { f64: half, f32: half_f32, eight: None, recording: |_| None },
});
const HYPOT: Code = Code::Library(Library {
    flops: 1,
    name: "hypot",
    continuity: Continuity::Continuous,
    sign: SignOf::Unknown,
    stablehlo: tapeloom_ir::prim::StableHlo::CustomCall,
    function: LibraryFn::Binary { f64: hypot, f32: hypot_f32, recording: |_| None },
});
const TIMES: Code = Code::Library(Library {
    flops: 1,
    name: "times",
    continuity: Continuity::Continuous,
    sign: SignOf::Unknown,
    stablehlo: tapeloom_ir::prim::StableHlo::CustomCall,
    function: LibraryFn::Indexed { n: 3, f64: times, f32: times_f32, recording: |_, _| None },
});

fn library(name: &str) -> Option<Library> {
    [HALF, HYPOT, TIMES].into_iter().find_map(|code| match code {
        Code::Library(l) if l.name == name => Some(l),
        _ => None,
    })
}

fn all_codes() -> Vec<Code> {
    let mut all = Code::PLAIN.to_vec();
    all.extend(Dtype::ALL.map(Code::Convert));
    all.extend([0, 1, 2, 3, 5, 10, -1, -2, -3, i32::MAX, i32::MIN].map(Code::IntegerPow));
    all.extend([HALF, HYPOT, TIMES]);
    all
}

/// Returns the program `z[i] = code(x[i], ..)` on arrays of `n` elements.
fn map_program(code: Code, dtype: Dtype, n: usize) -> Program {
    let mut m = Make::new("map");
    let arity = code.row().takes.arity();
    let i = m.index();
    let mut body = Vec::new();
    let args: Vec<Arg> = (0..arity)
        .map(|a| {
            let choice = matches!(code, Code::Select) && a == 0;
            let b = m.buffer(if choice { Dtype::Bool } else { dtype }, &[n], Place::Input(a));
            m.load(&mut body, b, at(i))
        })
        .collect();
    let z = m.buffer(code.result(dtype), &[n], Place::Output(0));
    let value = m.code(&mut body, code, &args);
    body.push(store(z, at(i), value));
    m.step(vec![loop_(i, n, body)]);
    m.program()
}

#[test]
fn every_code_at_the_edges() {
    for code in all_codes() {
        for dtype in Dtype::ALL {
            if !code.row().domain.has(dtype) {
                continue;
            }
            let values = edges(dtype);
            // Each pair of edge values is at one index of the two operand arrays.
            let n = values.len() * values.len();
            let first: Vec<_> = (0..n).map(|i| values[i / values.len()]).collect();
            let second: Vec<_> = (0..n).map(|i| values[i % values.len()]).collect();
            let args = match code.row().takes.arity() {
                1 => vec![tensor(dtype, &second)],
                2 => vec![tensor(dtype, &first), tensor(dtype, &second)],
                _ if matches!(code, Code::Clamp) => {
                    let x: Vec<_> = (0..n).map(|i| values[(i * 7 + 3) % values.len()]).collect();
                    vec![tensor(dtype, &first), tensor(dtype, &x), tensor(dtype, &second)]
                }
                _ => {
                    let c: Vec<_> = (0..n).map(|i| Literal::bool(i % 3 == 0)).collect();
                    vec![tensor(Dtype::Bool, &c), tensor(dtype, &first), tensor(dtype, &second)]
                }
            };
            let one_by_one = map_program(code, dtype, n);
            check(&one_by_one, &args, 0.0);
            check(&in_lanes(one_by_one), &args, 0.0);
        }
    }
}

/// A selection between a value and zero, by a condition from memory, is compiled to bit operations. Machine code must
/// give the interpreter's bits at edge values.
#[test]
fn choices_of_nothing_at_the_edges() {
    for dtype in [Dtype::F64, Dtype::F32] {
        for zero in [0.0, -0.0] {
            for first in [true, false] {
                let values = edges(dtype);
                let n = 2 * values.len();
                let mut m = Make::new("choices");
                let i = m.index();
                let mut body = Vec::new();
                let of = m.buffer(Dtype::Bool, &[n], Place::Input(0));
                let truth = m.load(&mut body, of, at(i));
                let of = m.buffer(dtype, &[n], Place::Input(1));
                let x = m.load(&mut body, of, at(i));
                let zero = Arg::Literal(Literal::of(dtype, zero));
                let args = if first { [truth, zero, x] } else { [truth, x, zero] };
                let value = m.code(&mut body, Code::Select, &args);
                let z = m.buffer(dtype, &[n], Place::Output(0));
                body.push(store(z, at(i), value));
                m.step(vec![loop_(i, n, body)]);
                let program = m.program();
                let truths: Vec<_> = (0..n).map(|i| Literal::bool(i % 2 == 0)).collect();
                let values: Vec<_> = (0..n).map(|i| values[i / 2]).collect();
                let args = [tensor(Dtype::Bool, &truths), tensor(dtype, &values)];
                check(&program, &args, 0.0);
                check(&in_lanes(program), &args, 0.0);
            }
        }
    }
}

/// The programs of the edge tests must have lanes: otherwise the tests would not reach vector instructions.
#[test]
fn maps_of_floats_are_in_lanes() {
    for (dtype, lanes) in [(Dtype::F64, "in 9 lanes 2 {"), (Dtype::F32, "in 9 lanes 4 {")] {
        let p = in_lanes(map_program(Code::Add, dtype, 9)).to_string();
        assert!(p.contains(lanes), "{p}");
    }
}

#[test]
fn every_size() {
    for n in [0, 1, 2, 3, 4, 5, 7, 8, 17] {
        for code in [Code::Add, Code::Max, Code::Lt, HALF, Code::Convert(Dtype::I32)] {
            for dtype in [Dtype::F64, Dtype::F32, Dtype::I64] {
                if !code.row().domain.has(dtype) {
                    continue;
                }
                let values: Vec<_> = edges(dtype).into_iter().cycle().take(n).collect();
                let turned: Vec<_> = edges(dtype).into_iter().cycle().skip(5).take(n).collect();
                let args: Vec<_> = [tensor(dtype, &values), tensor(dtype, &turned)]
                    .into_iter()
                    .take(code.row().takes.arity())
                    .collect();
                check(&in_lanes(map_program(code, dtype, n)), &args, 0.0);
            }
        }
    }
}

/// Reductions with lanes and without, with every number of remaining iterations, must agree with the interpreter.
#[test]
fn every_size_of_reduction() {
    let mut r = Random(9);
    for n in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100] {
        for (dtype, tolerance) in
            [(Dtype::F64, 1e-13), (Dtype::F32, 1e-5), (Dtype::I64, 0.0), (Dtype::U32, 0.0)]
        {
            for code in [Code::Add, Code::Mul, Code::Max, Code::Min] {
                let mut m = Make::new("reduce");
                let x = m.buffer(dtype, &[n], Place::Input(0));
                let y = m.buffer(dtype, &[], Place::Output(0));
                let (i, mut body) = (m.index(), Vec::new());
                let var = m.p.vars.push(dtype);
                let value = m.load(&mut body, x, at(i));
                let square = m.code(&mut body, Code::Mul, &[value, value]);
                body.push(Stmt::Fold { var, code, value: square });
                m.step(vec![
                    Stmt::Var { var, init: Arg::Literal(Literal::of(dtype, 3.0)) },
                    loop_(i, n, body),
                    store(y, Address::default(), Arg::Var(var)),
                ]);
                let mut number = || Literal::of(dtype, (r.below(300) as f64 + 700.0) / 900.0 + 0.2);
                let x: Vec<_> = (0..n).map(|_| number()).collect();
                let (p, args) = (m.program(), [tensor(dtype, &x)]);
                check(&p, &args, 0.0);
                let lanes = in_lanes(p.clone());
                check(&lanes, &args, 0.0);
                let [x, y] =
                    [&p, &lanes].map(|p| eval(p, &args).unwrap()[0].literals().next().unwrap());
                let tolerance = if matches!(code, Code::Max | Code::Min) { 0.0 } else { tolerance };
                assert!(close(x, y, tolerance), "{x} in order, {y} in lanes\n{lanes}");
            }
        }
    }
}

/// A generator of small numbers from a fixed seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    pub(crate) fn of<T: Copy>(&mut self, xs: &[T]) -> T {
        xs[self.below(xs.len())]
    }
}

/// The number of elements of every buffer of a random program.
const SIZE: usize = 200;
const DTYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::I64, Dtype::Bool];

/// A generator of random programs: nests of up to three loops with loads, codes, folds, guards and stores, some of
/// which load from and store to one buffer.
struct Generator {
    r: Random,
    m: Make,
    inputs: Vec<BufferId>,
    outputs: Vec<BufferId>,
    /// The loops around the statement being generated, with their trip counts.
    loops: Vec<(IndexId, usize)>,
    /// The values in scope.
    values: Vec<Arg>,
    /// The accumulators in scope, with the number of loops around their declarations.
    vars: Vec<(VarId, usize)>,
    /// Whether only codes are used that keep numbers small.
    tame: bool,
    /// The last generated address, with the number of loops around it, and the least and greatest offset with which it
    /// stays in bounds.
    last: Option<(usize, Address, (i64, i64))>,
}

impl Generator {
    fn new(seed: u64) -> Generator {
        let mut r = Random(seed);
        let mut m = Make::new("random");
        let inputs: Vec<_> = DTYPES
            .iter()
            .enumerate()
            .map(|(n, d)| m.buffer(*d, &[SIZE], Place::Input(n)))
            .collect();
        let mut outputs: Vec<_> = DTYPES
            .iter()
            .enumerate()
            .map(|(n, d)| m.buffer(*d, &[SIZE], Place::Output(n)))
            .collect();
        // One buffer in the workspace, which is filled first.
        let w = m.buffer(Dtype::F64, &[SIZE], Place::Workspace(64));
        m.p.workspace = 64 + SIZE * 8;
        let i = m.index();
        let mut body = Vec::new();
        let x = m.load(&mut body, inputs[0], at(i));
        body.push(store(w, at(i), x));
        m.step(vec![loop_(i, SIZE, body)]);
        outputs.push(w);
        let tame = r.below(2) == 0;
        Generator {
            r,
            m,
            inputs,
            outputs,
            loops: Vec::new(),
            values: Vec::new(),
            vars: Vec::new(),
            tame,
            last: None,
        }
    }

    fn program(mut self) -> Program {
        for _ in 0..1 + self.r.below(3) {
            let body = self.block();
            self.m.step(body);
        }
        // Store to every output at least once.
        for n in 0..DTYPES.len() {
            let b = self.outputs[n];
            let mut body = Vec::new();
            let zero = Address { offset: 7, ..Address::default() };
            let x = self.m.load(&mut body, b, zero.clone());
            body.push(store(b, zero, x));
            self.m.step(body);
        }
        self.m.program()
    }

    fn address(&mut self) -> Address {
        if let Some((depth, address, room)) = self.last.clone()
            && depth == self.loops.len()
            && self.r.below(2) == 0
        {
            // Change the last address by at most 2 elements, so that accesses overlap.
            let shift = self.r.below(5) as i64 - 2;
            let offset = (address.offset + shift).clamp(room.0, room.1);
            return Address { offset, ..address };
        }
        let mut a = Address::default();
        let (mut low, mut high) = (0i64, 0i64);
        for (depth, (index, extent)) in self.loops.clone().into_iter().enumerate() {
            let innermost = depth + 1 == self.loops.len();
            let strides: &[i64] =
                if innermost { &[1, 1, 1, 0, 2, -1, 3] } else { &[0, 1, 5, 17, -3] };
            let stride = self.r.of(strides);
            let reach = stride * (extent as i64 - 1).max(0);
            if high - low + reach.abs() < SIZE as i64 - 4 {
                low += reach.min(0);
                high += reach.max(0);
                a.terms.push((index, stride));
            }
        }
        let room = SIZE as i64 - (high - low);
        // Often use the same offset, so that stores and loads touch the same elements.
        a.offset = -low + if self.r.below(3) > 0 { 1 } else { self.r.below(room as usize) as i64 };
        self.last = Some((self.loops.len(), a.clone(), (-low, -low + room - 1)));
        a
    }

    fn value(&mut self, dtype: Dtype) -> Arg {
        let fit: Vec<Arg> =
            self.values.iter().copied().filter(|v| self.m.p.dtype(*v) == dtype).collect();
        match self.r.below(8) {
            0 if dtype == Dtype::I64 && !self.loops.is_empty() => {
                let i = self.r.below(self.loops.len());
                Arg::Index(self.loops[i].0)
            }
            1 => Arg::Literal(Literal::of(dtype, self.r.below(4) as f64 - 1.0)),
            _ if fit.is_empty() => Arg::Literal(Literal::of(dtype, 1.0)),
            _ => self.r.of(&fit),
        }
    }

    fn guard(&mut self, body: &mut Vec<Stmt>) -> Option<Arg> {
        if self.r.below(4) > 0 || self.loops.is_empty() {
            return None;
        }
        let (index, extent) = self.loops[self.r.below(self.loops.len())];
        let limit = Literal::i64(self.r.below(extent + 2) as i64);
        let code = self.r.of(&[Code::Lt, Code::Ge, Code::Ne]);
        Some(self.m.code(body, code, &[Arg::Index(index), Arg::Literal(limit)]))
    }

    fn block(&mut self) -> Vec<Stmt> {
        let (values, vars) = (self.values.len(), self.vars.len());
        let mut body = Vec::new();
        if self.loops.len() < 3 && self.r.below(2) == 0 {
            let dtype = self.r.of(&DTYPES);
            let var = self.m.p.vars.push(dtype);
            body.push(Stmt::Var { var, init: self.value(dtype) });
            self.vars.push((var, self.loops.len()));
        }
        for _ in 0..2 + self.r.below(7) {
            match self.r.below(13) {
                0..3 => {
                    let buffer = if self.r.below(3) == 0 {
                        self.r.of(&self.outputs)
                    } else {
                        self.r.of(&self.inputs)
                    };
                    let mut address = self.address();
                    let guard = self.guard(&mut body);
                    if self.r.below(6) == 0 {
                        // Compute an index at run time, clamped to the buffer.
                        let i = self.value(Dtype::I64);
                        let bound = |x: usize| Arg::Literal(Literal::i64(x as i64));
                        let i =
                            self.m.code(&mut body, Code::Clamp, &[bound(0), i, bound(SIZE - 1)]);
                        address = Address { dynamic: Some(i), ..Address::default() };
                    }
                    let x = self.m.load_if(&mut body, buffer, address, guard);
                    self.values.push(x);
                }
                3..6 => {
                    let dtype = self.r.of(&DTYPES);
                    let code = if self.tame {
                        self.r.of(&[
                            Code::Sub,
                            Code::Neg,
                            Code::Abs,
                            Code::Max,
                            Code::Select,
                            Code::Lt,
                        ])
                    } else {
                        self.r.of(&all_codes())
                    };
                    if code.row().domain.has(dtype) {
                        let arity = code.row().takes.arity();
                        let args: Vec<Arg> = (0..arity)
                            .map(|a| {
                                let choice = matches!(code, Code::Select) && a == 0;
                                self.value(if choice { Dtype::Bool } else { dtype })
                            })
                            .collect();
                        let x = self.m.code(&mut body, code, &args);
                        self.values.push(x);
                    }
                }
                6..9 if !self.vars.is_empty() => {
                    let (var, _) = self.r.of(&self.vars);
                    let dtype = self.m.p.vars[var];
                    let value = self.value(dtype);
                    let mut codes = vec![Code::Max, Code::Min, Code::Add];
                    if dtype == Dtype::I64 {
                        codes.extend([Code::Mul, Code::Xor]);
                    }
                    if dtype == Dtype::Bool {
                        codes.extend([Code::And, Code::Or]);
                    }
                    body.push(match self.r.below(12) {
                        0 => Stmt::Set { var, value },
                        _ => Stmt::Fold { var, code: self.r.of(&codes), value },
                    });
                }
                9 if !self.vars.is_empty() => {
                    let (var, _) = self.r.of(&self.vars);
                    self.values.push(Arg::Var(var));
                    let dtype = self.m.p.vars[var];
                    if dtype != Dtype::Bool {
                        let x = self.m.code(&mut body, Code::Neg, &[Arg::Var(var)]);
                        self.values.push(x);
                    }
                }
                10 | 11 => {
                    let buffer = self.r.of(&self.outputs);
                    let value = self.value(self.m.p.buffers[buffer].ty.dtype);
                    let (address, guard) = (self.address(), self.guard(&mut body));
                    body.push(Stmt::Store {
                        held: BufferVersion::first(buffer),
                        address,
                        value,
                        guard,
                    });
                }
                _ if self.loops.len() < 3 => {
                    let index = self.m.index();
                    let extent = self.r.of(&[0, 1, 2, 3, 4, 5, 7, 8, 9, 17]);
                    self.loops.push((index, extent));
                    self.last = None;
                    let inner = self.block();
                    self.loops.pop();
                    self.last = None;
                    body.push(loop_(index, extent, inner));
                }
                _ => {}
            }
        }
        self.values.truncate(values);
        self.vars.truncate(vars);
        body
    }
}

#[test]
fn random_kernels() {
    let mut r = Random(1);
    // Floats are multiples of a third, so that a change in the order of a sum changes bits.
    let third = |d: Dtype, x: f64| if d.is_float() { x / 3.0 } else { x };
    let mut element = |d: Dtype| Literal::of(d, third(d, r.below(9) as f64 - 4.0));
    let args: Vec<Tensor> = DTYPES
        .iter()
        .map(|d| tensor(*d, &(0..SIZE).map(|_| element(*d)).collect::<Vec<_>>()))
        .collect();
    for seed in Sweep::Elementwise.seeds() {
        let p = Generator::new(seed).program();
        assert_eq!(verify(&p), [], "{p}");
        let p = if seed % 4 == 0 { p } else { in_lanes(p) };
        assert_eq!(parse(&p.to_string(), &library).unwrap().to_string(), p.to_string());
        check(&p, &args, 0.0);
        if seed % 8 == 1 {
            without_vectors(&p, &args);
        }
    }
}

/// Checks that code for a machine without vector instructions computes the interpreter's bits: the program itself
/// determines its lanes.
#[track_caller]
fn without_vectors(p: &Program, args: &[Tensor]) {
    let code = Executable::made(
        p,
        MachineModel::MEASURED,
        baseline(&Triple::host()).unwrap(),
        Isa::Baseline,
    )
    .unwrap();
    let got = code.call(&args.iter().collect::<Vec<_>>()).unwrap();
    for (got, want) in got.iter().zip(eval(p, args).unwrap()) {
        assert!(got.literals().zip(want.literals()).all(|(x, y)| close(x, y, 0.0)), "{p}");
    }
}

/// A long sequence of scalar steps, cut into parts (values are in registers within a part, in memory between parts),
/// must agree with the interpreter.
#[test]
fn many_steps_and_one_long_nest() {
    for one_nest in [false, true] {
        let mut m = Make::new("long");
        let x = m.buffer(Dtype::F64, &[], Place::Input(0));
        let y = m.buffer(Dtype::F64, &[], Place::Output(0));
        let steps = 7000;
        let at = Address::default;
        let mut body = Vec::new();
        let mut values = vec![m.load(&mut body, x, at())];
        let mut buffers = vec![x];
        let mut r = Random(3);
        for n in 0..steps {
            let code = [Code::Add, Code::Mul, Code::Sub, Code::Max][r.below(4)];
            let far = r.below(values.len().min(3000)) + 1;
            if one_nest {
                let args = [values[values.len() - 1], values[values.len() - far]];
                let z = m.code(&mut body, code, &args);
                // Clamp the number to at most 2, so that it does not grow.
                values.push(m.code(&mut body, Code::Min, &[z, Arg::Literal(Literal::f64(2.0))]));
            } else {
                let mut body = Vec::new();
                let a = m.load(&mut body, buffers[buffers.len() - 1], at());
                let b = m.load(&mut body, buffers[buffers.len() - far.min(buffers.len())], at());
                let z = m.code(&mut body, code, &[a, b]);
                let z = m.code(&mut body, Code::Min, &[z, Arg::Literal(Literal::f64(2.0))]);
                let to = m.buffer(Dtype::F64, &[], Place::Workspace(n * 64));
                m.p.workspace = (n + 1) * 64;
                body.push(store(to, at(), z));
                m.step(body);
                buffers.push(to);
            }
        }
        let mut last = Vec::new();
        if one_nest {
            body.push(store(y, at(), values[values.len() - 1]));
            m.step(body);
        } else {
            let z = m.load(&mut last, buffers[buffers.len() - 1], at());
            last.push(store(y, at(), z));
            m.step(last);
        }
        let p = m.program();
        check(&p, &[Tensor::scalar(1.25)], 0.0);
        let report = Executable::new(&p).unwrap().report().clone();
        assert!(report.functions > 5, "{report}");
    }
}

/// Kernels that call kernels to the largest allowed depth, 500, must not overflow the stack of a thread with 2 MiB;
/// the verifier must refuse one call more.
#[test]
fn chains_of_calls() {
    let chain = |n: usize| {
        let body = |call: String| {
            format!(
                "buffer b0: f64[] input 0 buffer b1: f64[] output 0 buffer b2: f64[] workspace 0 \
                 {call} nest {{ %0: f64 = load b2[0] %1: f64 = add %0, 1.0 store b1[0], %1 }} }} "
            )
        };
        let call = |n: usize| format!("call k{n}(b0[0; 1]) to (b2[0; 1]) frame 64");
        let first = "nest { %9: f64 = load b0[0] store b2[0], %9 }".to_owned();
        let mut text = format!("kernel k0 @f {{ workspace 64 {}", body(first));
        for i in 1..n {
            text += &format!("kernel k{i} @f {{ workspace {} {}", 64 * (i + 1), body(call(i - 1)));
        }
        text += &format!("program @f {{ workspace {} {}", 64 * (n + 1), body(call(n - 1)));
        parse(&text, &library).unwrap()
    };
    let p = chain(500);
    let run = move || check(&p, &[Tensor::scalar(1.0)], 0.0);
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    let errors = verify(&chain(501));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].to_string(), "calls nest 501 deep, more than 500");
}

fn contraction(dtype: Dtype, m: usize, n: usize, k: usize, batch: usize) -> Program {
    let mut make = Make::new("contraction");
    let x = make.buffer(dtype, &[batch, m, k], Place::Input(0));
    // The second operand is transposed, so that not all strides are row-major.
    let y = make.buffer(dtype, &[batch, n, k], Place::Input(1));
    let z = make.buffer(dtype, &[batch, m, n], Place::Output(0));
    let [m1, n1, k1] = [m, n, k].map(|d| d as i64);
    let matrix = |buffer, row, column| Matrix {
        held: BufferVersion::first(buffer),
        at: Address::default(),
        row,
        column,
    };
    make.p.body.push(Stmt::Contract(Contract {
        dtype,
        sums: Sums::Library,
        accumulate: false,
        m,
        n,
        k,
        lhs: matrix(x, k1, 1),
        rhs: matrix(y, 1, k1),
        out: matrix(z, n1, 1),
        batch: vec![(batch, m1 * k1, n1 * k1, m1 * n1)],
        origins: Origins::default(),
    }));
    make.program()
}

fn contraction_args(p: &Program) -> Vec<Tensor> {
    let mut r = Random(5);
    let fill = |r: &mut Random, ty: &ArrayType| {
        let mut t = Tensor::zeros_of(ty).unwrap();
        (0..t.elements()).for_each(|i| {
            let x = r.below(1000) as f64 / 500.0 + 0.1;
            t.set_literal(i, Literal::of(ty.dtype, x)).unwrap();
        });
        t
    };
    p.entry.buffers.values().take(2).map(|b| fill(&mut r, &b.ty)).collect()
}

#[test]
fn contractions() {
    for dtype in [Dtype::F64, Dtype::F32] {
        for (m, n, k, batch) in [
            (1, 1, 1, 1),
            (3, 5, 7, 2),
            (17, 4, 9, 3),
            (1, 9, 20, 1),
            (8, 1, 20, 2),
            (33, 31, 40, 1),
            (2, 3, 0, 2),
            (0, 3, 2, 1),
            (2, 2, 2, 0),
        ] {
            let p = contraction(dtype, m, n, k, batch);
            let tolerance = if dtype == Dtype::F64 { 1e-13 } else { 1e-5 };
            check(&p, &contraction_args(&p), tolerance);
        }
    }
}

#[test]
fn a_panic_in_a_callback_is_an_error() {
    let p = contraction(Dtype::F64, 3, 3, 3, 1);
    let (code, args) = (Executable::new(&p).unwrap(), contraction_args(&p));
    let refs: Vec<&Tensor> = args.iter().collect();
    gemm::tests::PANIC.set(true);
    let failed = code.call(&refs);
    gemm::tests::PANIC.set(false);
    assert!(failed.unwrap_err().message.contains("panicked"));
    assert!(code.call(&refs).is_ok());
}

/// If a piece (an iteration of a concurrent loop) has more values than registers, it must store values in private
/// memory. Scalars from outside, and arrays that an enclosing loop exchanges, must be passed to the pieces.
#[test]
fn values_of_pieces_are_spilled_to_private_memory() {
    let many = 160;
    let mut body = String::new();
    for k in 0..many {
        body += &format!("%{}: f64 = load b2[i1*{many} + {k}]\n", 2 * k + 1);
        body += &format!("%{}: f64 = half %{}\n", 2 * k + 2, 2 * k + 1);
    }
    body += "var v0: f64 = %0\n";
    for k in (0..many).rev() {
        body += &format!("v0 = add v0, %{}\n", 2 * k + 2);
        body += &format!("store b3[i1*{many} + {k}], v0\n");
    }
    let (size, first, second) = (8 * many, 2 * many + 1, 2 * many + 2);
    let text = format!(
        "program @long {{
          workspace {}
          buffer b0: f64[{size}] input 0
          buffer b1: f64[{size}] output 0
          buffer b2: f64[{size}] workspace 0
          buffer b3: f64[{size}] workspace {}
          for i2 in {size} {{ %{first}: f64 = load b0[i2] store b2[i2], %{first} }}
          nest {{
            %0: f64 = load b0[3]
            serial i0 in 3 carry b2 = b3 {{ concurrent i1 in 8 {{ {body} }} }}
          }}
          for i3 in {size} {{ %{second}: f64 = load b2[i3] store b1[i3], %{second} }}
        }}",
        16 * size,
        8 * size,
    );
    let p = parse(&text, &library).unwrap();
    let spilled = Executable::new(&p).unwrap().report().private_bytes;
    assert!(spilled >= 8 * many / 2, "{spilled} bytes");
    let x: Vec<f64> = (0..size).map(|k| 0.01 * k as f64).collect();
    check(&p, &[Tensor::vector(&x)], 0.0);
}

#[test]
fn wrong_arguments_are_errors() {
    let code = Executable::new(&map_program(Code::Add, Dtype::F64, 3)).unwrap();
    let (three, four) = (Tensor::vector(&[1.0; 3]), Tensor::vector(&[1.0; 4]));
    assert!(code.call(&[&three]).is_err());
    assert!(code.call(&[&three, &four]).unwrap_err().message.contains("f64[3]"));
    assert!(code.call(&[&three, &three]).is_ok());
}

#[test]
fn executables_run_on_threads_and_free_their_memory() {
    let p = map_program(Code::Mul, Dtype::F64, 33);
    let shared = Executable::new(&p).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let code = shared.clone();
            scope.spawn(move || {
                let x = Tensor::vector(&[f64::from(t); 33]);
                for _ in 0..100 {
                    let y = code.call(&[&x, &x]).unwrap();
                    assert_eq!(y[0], Tensor::vector(&[f64::from(t * t); 33]));
                }
            });
        }
    });
    // The bytes of executable memory of this process that belongs to no file. Other tests may have some at this time.
    let code = || -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let ours = maps.lines().filter(|l| l.contains("r-xp") && !l.contains(['/', '[']));
        let size = |line: &str| {
            let (from, to) = line.split_once(' ')?.0.split_once('-')?;
            let hex = |x| usize::from_str_radix(x, 16).ok();
            Some(hex(to)? - hex(from)?)
        };
        ours.filter_map(size).sum()
    };
    let before = code();
    for _ in 0..1000 {
        Executable::new(&p).unwrap();
    }
    // If code were not freed, at least one page per program would remain.
    let after = code();
    assert!(after < before + 500 * 4096, "{before} -> {after}");
}
