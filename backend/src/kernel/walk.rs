//! Walks over statements, each written once.
//!
//! Whoever asks about a program asks a statement for its blocks, its operands or the memory that it
//! touches, and need not know the others: a new kind of statement is described here and found by all.
//!
//! ```
//! use tapeloom_backend::kernel::{Stmt, parse, visit};
//! let text = "program @f {
//!   buffer b0: f64[8] input 0
//!   buffer b1: f64[8] output 0
//!   for i0 in 8 {
//!     %0: f64 = load b0[i0]
//!     store b1[i0], %0
//!   }
//! }";
//! let program = parse(text, &|_| None)?;
//! let (mut statements, mut written) = (0, Vec::new());
//! visit(&program.body, &mut |stmt: &Stmt| {
//!     statements += 1;
//!     stmt.accesses(&mut |a| written.extend(a.write.then(|| a.buffer.to_string())));
//! });
//! assert_eq!((statements, written), (3, vec!["b1".to_owned()]));
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use super::{Address, Arg, BufferId, Contract, Expr, IndexId, Matrix, ScalarId, Stmt, VarId};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Memory that a statement touches: the elements `address + Σ i * stride` with i below each extent.
#[derive(Clone, Debug)]
pub struct Access<'a> {
    /// Which buffer.
    pub buffer: BufferId,
    /// Which of its values.
    pub version: u32,
    /// Whether it is written; otherwise it is read.
    pub write: bool,
    /// The first element.
    pub address: Cow<'a, Address>,
    /// Extents and strides of the others; none for a load or a store.
    pub reach: SmallVec<[(usize, i64); 4]>,
    /// Touched only if true.
    pub guard: Option<Arg>,
}

/// Calls `f` with every statement of a block and of the blocks inside, outer ones first.
pub fn visit<'a>(body: &'a [Stmt], f: &mut dyn FnMut(&'a Stmt)) {
    for stmt in body {
        f(stmt);
        for block in stmt.blocks() {
            visit(block, f);
        }
    }
}

impl Stmt {
    /// The blocks inside, in order.
    pub fn blocks(&self) -> SmallVec<[&[Stmt]; 2]> {
        match self {
            Stmt::Nest { body } | Stmt::For { body, .. } => {
                std::iter::once(body.as_slice()).collect()
            }
            Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. }
            | Stmt::Contract(_) => SmallVec::new(),
        }
    }

    /// The scalar operands, those of addresses and guards included; not those of statements inside.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        match self {
            Stmt::Nest { .. } | Stmt::For { .. } | Stmt::Contract(_) => {}
            Stmt::Let { expr: Expr::Code(_, args), .. } => args.iter().for_each(|a| f(*a)),
            Stmt::Let { expr: Expr::Load { address, guard, .. }, .. } => {
                address.args(f);
                guard.iter().for_each(|g| f(*g));
            }
            Stmt::Var { init: value, .. } | Stmt::Set { value, .. } => f(*value),
            Stmt::Fold { var, value, .. } => {
                f(Arg::Var(*var));
                f(*value);
            }
            Stmt::Store { address, value, guard, .. } => {
                f(*value);
                address.args(f);
                guard.iter().for_each(|g| f(*g));
            }
        }
    }

    /// The memory touched, what is read before what is written; not by statements inside.
    pub fn accesses<'a>(&'a self, f: &mut dyn FnMut(Access<'a>)) {
        match self {
            Stmt::Let { expr: Expr::Load { buffer, version, address, guard }, .. } => f(Access {
                buffer: *buffer,
                version: *version,
                write: false,
                address: Cow::Borrowed(address),
                reach: SmallVec::new(),
                guard: *guard,
            }),
            Stmt::Store { buffer, version, address, guard, .. } => f(Access {
                buffer: *buffer,
                version: *version,
                write: true,
                address: Cow::Borrowed(address),
                reach: SmallVec::new(),
                guard: *guard,
            }),
            Stmt::Contract(c) => c.accesses().into_iter().for_each(f),
            Stmt::Nest { .. }
            | Stmt::For { .. }
            | Stmt::Let { expr: Expr::Code(..), .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. } => {}
        }
    }
}

impl Address {
    /// The scalar operands.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        self.terms.iter().for_each(|(i, _)| f(Arg::Index(*i)));
        self.dynamic.iter().for_each(|d| f(*d));
    }

    /// The stride along an index, in elements.
    pub fn stride(&self, index: IndexId) -> i64 {
        self.terms.iter().filter(|t| t.0 == index).map(|t| t.1).sum()
    }
}

impl Contract {
    /// The memory touched: lhs, rhs, out.
    pub fn accesses<'a>(&self) -> [Access<'a>; 3] {
        let access =
            |m: &Matrix, write, sizes: [usize; 2], step: fn(&(usize, i64, i64, i64)) -> i64| {
                let mut reach: SmallVec<[(usize, i64); 4]> = SmallVec::new();
                reach.extend([(sizes[0], m.row), (sizes[1], m.column)]);
                reach.extend(self.batch.iter().map(|b| (b.0, step(b))));
                let address = Address { offset: m.offset, ..Address::default() };
                let (buffer, version) = (m.buffer, m.version);
                Access { buffer, version, write, address: Cow::Owned(address), reach, guard: None }
            };
        [
            access(&self.lhs, false, [self.m, self.k], |b| b.1),
            access(&self.rhs, false, [self.k, self.n], |b| b.2),
            access(&self.out, true, [self.m, self.n], |b| b.3),
        ]
    }
}

/// A copy of statements in which names stand for others.
pub trait Map {
    /// What an operand becomes.
    fn arg(&mut self, arg: Arg) -> Arg;
    /// What an address becomes.
    fn address(&mut self, address: &Address) -> Address;
    /// The value defined in the place of one.
    fn scalar(&mut self, value: ScalarId) -> ScalarId;
    /// The variable, where it is declared (`fresh`) or set.
    fn var(&mut self, var: VarId, fresh: bool) -> VarId;
    /// The index of a loop in the place of one.
    fn index(&mut self, index: IndexId) -> IndexId;
    /// The statements of a block inside.
    fn block(&mut self, body: &[Stmt]) -> Vec<Stmt>;

    /// What a statement becomes: operands first, then what it defines, then the blocks inside.
    fn stmt(&mut self, stmt: &Stmt) -> Stmt {
        match stmt {
            Stmt::Nest { body } => Stmt::Nest { body: self.block(body) },
            Stmt::For { index, extent, body } => {
                let index = self.index(*index);
                Stmt::For { index, extent: *extent, body: self.block(body) }
            }
            Stmt::Let { value, expr } => {
                let expr = match expr {
                    Expr::Code(code, args) => {
                        Expr::Code(*code, args.iter().map(|a| self.arg(*a)).collect())
                    }
                    Expr::Load { buffer, version, address, guard } => Expr::Load {
                        buffer: *buffer,
                        version: *version,
                        address: self.address(address),
                        guard: guard.map(|g| self.arg(g)),
                    },
                };
                Stmt::Let { value: self.scalar(*value), expr }
            }
            Stmt::Var { var, init } => {
                let init = self.arg(*init);
                Stmt::Var { var: self.var(*var, true), init }
            }
            Stmt::Set { var, value } => {
                Stmt::Set { var: self.var(*var, false), value: self.arg(*value) }
            }
            Stmt::Fold { var, code, value } => {
                Stmt::Fold { var: self.var(*var, false), code: *code, value: self.arg(*value) }
            }
            Stmt::Store { buffer, version, address, value, guard } => Stmt::Store {
                buffer: *buffer,
                version: *version,
                address: self.address(address),
                value: self.arg(*value),
                guard: guard.map(|g| self.arg(g)),
            },
            Stmt::Contract(c) => Stmt::Contract(c.clone()),
        }
    }
}
