//! Machine code against the interpreter: every code on every dtype at the edges, random kernels,
//! loops, guards, parts, contractions, memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use crate::Executable;
use crate::kernel::{
    Address, Arg, Buffer, BufferId, Expr, IndexId, Place, Program, ScalarId, Step, Stmt, codes,
    eval,
};
use cranelift_entity::EntityRef;
use tapeloom_ir::prim::{Library, LibraryFn};
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, Tensor};

/// Builds programs in few words.
struct Make {
    p: Program,
}

impl Make {
    fn new(name: &str) -> Make {
        Make { p: Program::new(name) }
    }

    fn buffer(&mut self, dtype: Dtype, shape: &[usize], place: Place) -> BufferId {
        self.p.buffers.push(Buffer { ty: ArrayType::new(dtype, shape), place })
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
        body.push(Stmt::Let { value, expr: Expr::Load { buffer, address, guard } });
        Arg::Scalar(value)
    }

    fn step(&mut self, body: Vec<Stmt>) {
        self.p.steps.push(Step::Nest(body));
    }
}

fn store(buffer: BufferId, address: Address, value: Arg) -> Stmt {
    Stmt::Store { buffer, address, value, guard: None }
}

/// `b[i]`
fn at(index: IndexId) -> Address {
    Address { offset: 0, terms: vec![(index, 1)], dynamic: None }
}

/// Bits are equal, or both are nan; `tolerance` relative for floats.
fn close(x: Literal, y: Literal, tolerance: f64) -> bool {
    if x == y {
        return true;
    }
    let (a, b) = (x.to_f64(), y.to_f64());
    x.dtype.is_float()
        && (a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * a.abs().max(b.abs()))
}

/// Machine code = interpreter.
#[track_caller]
fn check(p: &Program, args: &[Tensor], tolerance: f64) {
    let code = Executable::new(p).unwrap_or_else(|e| panic!("{e}\n{p}"));
    let refs: Vec<&Tensor> = args.iter().collect();
    let (got, want) = (code.call(&refs).unwrap(), eval(p, args).unwrap());
    assert_eq!(got.len(), want.len());
    for (n, (got, want)) in got.iter().zip(&want).enumerate() {
        assert_eq!(got.ty(), want.ty());
        for i in 0..got.elements() {
            assert!(
                close(got.get(i), want.get(i), tolerance),
                "output {n} element {i}: got {}, want {}\n{p}\nargs {args:?}",
                got.get(i),
                want.get(i)
            );
        }
    }
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

fn tensor(dtype: Dtype, elements: &[Literal]) -> Tensor {
    let mut t = Tensor::zeros(&ArrayType::new(dtype, [elements.len()]));
    elements.iter().enumerate().for_each(|(i, x)| t.set(i, *x));
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
extern "C" fn times(n: u32, x: f64) -> f64 {
    f64::from(n) * x
}
extern "C" fn times_f32(n: u32, x: f32) -> f32 {
    n as f32 * x
}

const HALF: Code = Code::Library(Library {
    name: "half",
    function: LibraryFn::Unary { f64: half, f32: half_f32 },
});
const HYPOT: Code = Code::Library(Library {
    name: "hypot",
    function: LibraryFn::Binary { f64: hypot, f32: hypot_f32 },
});
const TIMES: Code = Code::Library(Library {
    name: "times",
    function: LibraryFn::Indexed { n: 3, f64: times, f32: times_f32 },
});

fn all_codes() -> Vec<Code> {
    let mut all = codes::PLAIN.to_vec();
    all.extend(Dtype::ALL.map(Code::Convert));
    all.extend([0, 1, 2, 3, 5, 10, -1, -2, -3, i32::MAX, i32::MIN].map(Code::IntegerPow));
    all.extend([HALF, HYPOT, TIMES]);
    all
}

/// `z[i] = code(x[i], ..)` on arrays of that many elements.
fn map_program(code: Code, dtype: Dtype, n: usize) -> Program {
    let mut m = Make::new("map");
    let arity = codes::arity(code);
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
    m.step(vec![Stmt::For { index: i, extent: n, body }]);
    m.p
}

#[test]
fn every_code_at_the_edges() {
    for code in all_codes() {
        for dtype in Dtype::ALL {
            if !codes::defined_on(code, dtype) {
                continue;
            }
            let values = edges(dtype);
            // All pairs, so that each value meets each.
            let n = values.len() * values.len();
            let first: Vec<_> = (0..n).map(|i| values[i / values.len()]).collect();
            let second: Vec<_> = (0..n).map(|i| values[i % values.len()]).collect();
            let args = match codes::arity(code) {
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
            check(&map_program(code, dtype, n), &args, 0.0);
        }
    }
}

#[test]
fn every_size() {
    for n in [0, 1, 2, 3, 4, 5, 7, 8, 17] {
        for code in [Code::Add, Code::Max, Code::Lt, HALF, Code::Convert(Dtype::I32)] {
            for dtype in [Dtype::F64, Dtype::F32, Dtype::I64] {
                if !codes::defined_on(code, dtype) {
                    continue;
                }
                let values: Vec<_> = edges(dtype).into_iter().cycle().take(n).collect();
                let turned: Vec<_> = edges(dtype).into_iter().cycle().skip(5).take(n).collect();
                let args: Vec<_> = [tensor(dtype, &values), tensor(dtype, &turned)]
                    .into_iter()
                    .take(codes::arity(code))
                    .collect();
                check(&map_program(code, dtype, n), &args, 0.0);
            }
        }
    }
}
