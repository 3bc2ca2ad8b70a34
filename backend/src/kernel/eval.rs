//! The interpreter: the meaning of a program.
//!
//! It runs one statement after the other, checks every access, and is as slow as that sounds. Code
//! generators are tested against it. The workspace starts as a pattern that no program means to
//! read, so that a read before the first write shows; [`shadow`] makes an error of it.

use super::shadow::Shadow;
use super::{Address, Arg, BufferId, Contract, Expr, IndexId, Matrix, Place, Program, Stmt};
use super::{ScalarId, VarId};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::{Code, Kind, Literal, Problem, Tensor};

/// Runs a program on concrete arguments.
///
/// # Errors
/// [`Kind::Verify`] when the program breaks an invariant, [`Kind::Arguments`] when arguments do not
/// fit the inputs, [`Kind::Internal`] when an access leaves its buffer, [`Kind::TooLarge`] when there
/// is no memory for results or workspace.
pub fn eval(program: &Program, args: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
    run(program, args, false)
}

/// As [`eval`], and checks that every load finds what it means: an element of that version of that
/// buffer, which nothing else was written over since. See [`super::Version`].
///
/// ```
/// use tapeloom_backend::kernel;
/// use tapeloom_ir::Kind;
/// let text = "program @late {
///   buffer b0: f64[2] output 0
///   version b0.1 continues b0
///   buffer b1: f64[] output 1
///   nest {
///     store b0[0], 1.0
///     store b0[1], 2.0
///     store b0.1[0], 3.0
///     %0: f64 = load b0[1]
///     store b1[0], %0
///   }
/// }";
/// let program = kernel::parse(text, &|_| None)?;
/// assert!(kernel::eval(&program, &[]).is_ok());
/// let problem = kernel::shadow(&program, &[]).map(|_| ()).unwrap_err();
/// assert_eq!(problem.kind, Kind::Internal);
/// assert!(problem.message.contains("b0[1] is read, but b0.1 has taken it over"));
/// # Ok::<(), tapeloom_ir::Problem>(())
/// ```
///
/// # Errors
/// Those of [`eval`]; [`Kind::Internal`] names what a load means and what it finds.
pub fn shadow(program: &Program, args: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
    run(program, args, true)
}

fn run(program: &Program, args: &[Tensor], shadow: bool) -> Result<Vec<Tensor>, Problem> {
    super::check(program)?;
    let mut outputs = Vec::new();
    for (id, b) in &program.buffers {
        match b.place {
            Place::Input(n) => match args.get(n) {
                Some(x) if *x.ty() == b.ty => {}
                Some(x) => {
                    let message = format!("input {n} ({id}) must be {}, got {}", b.ty, x.ty());
                    return Err(Problem::new(Kind::Arguments, message, ""));
                }
                None => {
                    let message = format!("input {n} ({id}) is missing");
                    return Err(Problem::new(Kind::Arguments, message, ""));
                }
            },
            Place::Output(n) => outputs.push((n, Tensor::zeros_of(&b.ty)?)),
            Place::Workspace(_) => {}
        }
    }
    outputs.sort_by_key(|(n, _)| *n);
    let mut machine = Machine {
        p: program,
        args,
        outputs: outputs.into_iter().map(|(_, t)| t).collect(),
        workspace: filled(0xa5, program.workspace)?,
        shadow: if shadow { Some(Shadow::of(program)?) } else { None },
        scalars: SecondaryMap::with_default(Literal::bool(false)),
        vars: SecondaryMap::with_default(Literal::bool(false)),
        indices: SecondaryMap::with_default(0),
    };
    machine.block(&program.body)?;
    Ok(machine.outputs)
}

/// That many of one value.
pub(super) fn filled<T: Clone>(value: T, n: usize) -> Result<Vec<T>, Problem> {
    let mut all = Vec::new();
    if all.try_reserve_exact(n).is_err() {
        return Err(crate::no_memory(
            "the interpreter of kernels",
            n.saturating_mul(size_of::<T>()),
        ));
    }
    all.resize(n, value);
    Ok(all)
}

struct Machine<'a> {
    p: &'a Program,
    args: &'a [Tensor],
    outputs: Vec<Tensor>,
    workspace: Vec<u8>,
    shadow: Option<Shadow<'a>>,
    scalars: SecondaryMap<ScalarId, Literal>,
    vars: SecondaryMap<VarId, Literal>,
    indices: SecondaryMap<IndexId, i64>,
}

impl Machine<'_> {
    fn block(&mut self, body: &[Stmt]) -> Result<(), Problem> {
        for stmt in body {
            match stmt {
                Stmt::Nest { body } => self.block(body)?,
                Stmt::Contract(c) => self.contract(c)?,
                Stmt::For { index, extent, body } => {
                    for i in 0..*extent {
                        self.indices[*index] = i as i64;
                        self.block(body)?;
                    }
                }
                Stmt::Let { value, expr } => {
                    self.scalars[*value] = match expr {
                        Expr::Code(code, args) => {
                            let args: Vec<_> = args.iter().map(|a| self.arg(*a)).collect();
                            code.eval(&args)
                        }
                        Expr::Load { buffer, version, address, guard } => {
                            if self.holds(*guard) {
                                self.read(*buffer, *version, self.address(address))?
                            } else {
                                Literal::zero(self.p.buffers[*buffer].ty.dtype)
                            }
                        }
                    };
                }
                Stmt::Var { var, init: value } | Stmt::Set { var, value } => {
                    self.vars[*var] = self.arg(*value);
                }
                Stmt::Fold { var, code, value } => {
                    self.vars[*var] = code.eval(&[self.vars[*var], self.arg(*value)]);
                }
                Stmt::Store { buffer, version, address, value, guard } => {
                    if self.holds(*guard) {
                        let (address, value) = (self.address(address), self.arg(*value));
                        self.write(*buffer, *version, address, value)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn holds(&self, guard: Option<Arg>) -> bool {
        guard.is_none_or(|g| self.arg(g).bits != 0)
    }

    fn arg(&self, arg: Arg) -> Literal {
        match arg {
            Arg::Scalar(s) => self.scalars[s],
            Arg::Var(v) => self.vars[v],
            Arg::Index(i) => Literal::i64(self.indices[i]),
            Arg::Literal(l) => l,
        }
    }

    fn address(&self, a: &Address) -> i64 {
        let terms = a.terms.iter().map(|(i, stride)| self.indices[*i].wrapping_mul(*stride));
        let dynamic = a.dynamic.map_or(0, |d| self.arg(d).bits as i64);
        terms.fold(a.offset.wrapping_add(dynamic), i64::wrapping_add)
    }

    /// The position of an element that exists.
    fn position(&self, buffer: BufferId, element: i64) -> Result<usize, Problem> {
        let elements = self.p.buffers[buffer].ty.shape.elements();
        usize::try_from(element).ok().filter(|i| *i < elements).ok_or_else(|| {
            Problem::internal(format!("element {element} of {buffer} with {elements} elements"))
        })
    }

    fn read(&self, buffer: BufferId, version: u32, element: i64) -> Result<Literal, Problem> {
        let i = self.position(buffer, element)?;
        if let Some(shadow) = &self.shadow {
            shadow.read(buffer, version, i)?;
        }
        let b = &self.p.buffers[buffer];
        Ok(match b.place {
            Place::Input(n) => self.args[n].literal(i)?,
            Place::Output(n) => self.outputs[n].literal(i)?,
            Place::Workspace(offset) => {
                let size = b.ty.dtype.bytes();
                let mut bits = [0; 8];
                bits[..size].copy_from_slice(&self.workspace[offset + i * size..][..size]);
                Literal { dtype: b.ty.dtype, bits: u64::from_le_bytes(bits) }
            }
        })
    }

    fn write(
        &mut self,
        buffer: BufferId,
        version: u32,
        element: i64,
        x: Literal,
    ) -> Result<(), Problem> {
        let i = self.position(buffer, element)?;
        if let Some(shadow) = &mut self.shadow {
            shadow.write(buffer, version, i)?;
        }
        let b = &self.p.buffers[buffer];
        match b.place {
            Place::Input(_) => return Err(Problem::internal(format!("input {buffer} is written"))),
            Place::Output(n) => self.outputs[n].set_literal(i, x)?,
            Place::Workspace(offset) => {
                let size = b.ty.dtype.bytes();
                let bits = x.bits.to_le_bytes();
                self.workspace[offset + i * size..][..size].copy_from_slice(&bits[..size]);
            }
        }
        Ok(())
    }

    /// `out[m, n] = sum_k lhs[m, k] rhs[k, n]`, terms in order, from 0.
    fn contract(&mut self, c: &Contract) -> Result<(), Problem> {
        let count: usize = c.batch.iter().map(|b| b.0).product();
        for flat in 0..count {
            let (mut rest, mut at) = (flat as i64, (0, 0, 0));
            for (extent, lhs, rhs, out) in c.batch.iter().rev() {
                let i = rest % *extent as i64;
                rest /= *extent as i64;
                at = (at.0 + i * lhs, at.1 + i * rhs, at.2 + i * out);
            }
            let element = |m: &Matrix, start: i64, row: usize, column: usize| {
                m.offset + start + row as i64 * m.row + column as i64 * m.column
            };
            for row in 0..c.m {
                for column in 0..c.n {
                    let mut sum = Literal::zero(c.dtype);
                    for k in 0..c.k {
                        let (lhs, rhs) = (&c.lhs, &c.rhs);
                        let x = self.read(lhs.buffer, lhs.version, element(lhs, at.0, row, k))?;
                        let y =
                            self.read(rhs.buffer, rhs.version, element(rhs, at.1, k, column))?;
                        sum = Code::Add.eval(&[sum, Code::Mul.eval(&[x, y])]);
                    }
                    let to = element(&c.out, at.2, row, column);
                    self.write(c.out.buffer, c.out.version, to, sum)?;
                }
            }
        }
        Ok(())
    }
}
