//! Walks over statements, each written once.
//!
//! Whoever asks about a program asks a statement for its blocks, its operands or the memory that it
//! touches, and need not know the others: a new kind of statement is described here and found by all.
//!
//! ```
//! use tapeloom_backend::loop_ir::{Stmt, parse, visit};
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
//! visit(&program.entry.body, &mut |stmt: &Stmt| {
//!     statements += 1;
//!     stmt.accesses(&mut |a| written.extend(a.write.then(|| a.buffer.to_string())));
//! });
//! assert_eq!((statements, written), (3, vec!["b1".to_owned()]));
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use super::{
    Address, Arg, BufferId, BufferVersion, Call, CallHost, Carry, Contract, CursorId, CursorTarget,
    Expr, Extent, IndexId, LimitStmt, Matrix, ScalarId, Stmt, TapeStmt, VarId, View,
};
use smallvec::SmallVec;
use tapeloom_ir::Code;

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
    pub address: &'a Address,
    /// Extents and strides of the others; none for a load or a store.
    pub reach: SmallVec<[(usize, i64); 4]>,
    /// Touched only if true.
    pub guard: Option<Arg>,
}

/// How a variable gets a value.
#[derive(Clone, Copy, Debug)]
pub enum Assign {
    /// Its first one: here it is declared.
    Declare,
    /// Another one.
    Set,
    /// What it holds with something folded in.
    Fold(Code),
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
        let mut blocks: SmallVec<[&[Stmt]; 2]> = SmallVec::new();
        match self {
            Stmt::Nest { body } | Stmt::For { body, .. } => blocks.push(body),
            Stmt::While { head: first, body: second, .. }
            | Stmt::If { then: first, otherwise: second, .. } => {
                blocks.push(first);
                blocks.push(second);
            }
            Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::CallHost(_) => {}
        }
        blocks
    }

    /// The blocks inside, to be changed.
    pub fn blocks_mut(&mut self) -> SmallVec<[&mut Vec<Stmt>; 2]> {
        let mut blocks: SmallVec<[&mut Vec<Stmt>; 2]> = SmallVec::new();
        match self {
            Stmt::Nest { body } | Stmt::For { body, .. } => blocks.push(body),
            Stmt::While { head: first, body: second, .. }
            | Stmt::If { then: first, otherwise: second, .. } => {
                blocks.push(first);
                blocks.push(second);
            }
            Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::CallHost(_) => {}
        }
        blocks
    }

    /// The arrays that a loop carries.
    pub fn carries(&self) -> &[Carry] {
        match self {
            Stmt::For { carries, .. } | Stmt::While { carries, .. } => carries,
            Stmt::Nest { .. }
            | Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::CallHost(_) => &[],
        }
    }

    /// The variable that a statement gives a value, and how.
    pub fn assigned(&self) -> Option<(VarId, Assign)> {
        match self {
            Stmt::Var { var, .. } => Some((*var, Assign::Declare)),
            Stmt::Set { var, .. } => Some((*var, Assign::Set)),
            Stmt::Fold { var, code, .. } => Some((*var, Assign::Fold(*code))),
            Stmt::Nest { .. }
            | Stmt::For { .. }
            | Stmt::While { .. }
            | Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::Store { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::CallHost(_) => None,
        }
    }

    /// The value that a statement defines.
    pub fn defined(&self) -> Option<ScalarId> {
        match self {
            Stmt::Let { value, .. } | Stmt::Tape(TapeStmt::Length { value, .. }) => Some(*value),
            Stmt::Nest { .. }
            | Stmt::For { .. }
            | Stmt::While { .. }
            | Stmt::If { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::CallHost(_) => None,
        }
    }

    /// The cursor that a statement turns.
    pub fn turned(&self) -> Option<CursorId> {
        match self {
            Stmt::Tape(TapeStmt::Turn { cursor, .. }) => Some(*cursor),
            Stmt::Nest { .. }
            | Stmt::For { .. }
            | Stmt::While { .. }
            | Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::CallHost(_) => None,
        }
    }

    /// The scalar operands, those of addresses and guards included; not those of statements inside.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        match self {
            Stmt::Nest { .. } | Stmt::For { extent: Extent::Constant(_), .. } => {}
            Stmt::For { extent: Extent::Scalar(a), .. } => f(*a),
            Stmt::While { condition, .. } | Stmt::If { condition, .. } => f(*condition),
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
            Stmt::Contract(c) => [&c.lhs, &c.rhs, &c.out].into_iter().for_each(|m| m.at.args(f)),
            Stmt::Call(c) => c.operands.iter().chain(&c.outputs).for_each(|v| v.at.args(f)),
            Stmt::Tape(t) => t.args(f),
            Stmt::Limit(w) => w.args(f),
            Stmt::CallHost(a) => a.operands.iter().chain(&a.outputs).for_each(|v| v.at.args(f)),
        }
    }

    /// The memory touched, what is read before what is written; not by statements inside, and not the
    /// frame of a call.
    pub fn accesses<'a>(&'a self, f: &mut dyn FnMut(Access<'a>)) {
        let mut element =
            |buffer: &BufferId, version: &u32, write, address, guard: &Option<Arg>| {
                let (buffer, version, reach) = (*buffer, *version, SmallVec::new());
                f(Access { buffer, version, write, address, reach, guard: *guard });
            };
        match self {
            Stmt::Let { expr: Expr::Load { buffer, version, address, guard }, .. } => {
                element(buffer, version, false, address, guard);
            }
            Stmt::Store { buffer, version, address, guard, .. } => {
                element(buffer, version, true, address, guard);
            }
            Stmt::Contract(c) => c.accesses().into_iter().for_each(f),
            Stmt::Call(c) => {
                c.operands.iter().for_each(|v| f(v.access(false)));
                c.outputs.iter().for_each(|v| f(v.access(true)));
            }
            Stmt::CallHost(a) => {
                a.operands.iter().for_each(|v| f(v.access(false)));
                a.outputs.iter().for_each(|v| f(v.access(true)));
            }
            Stmt::Nest { .. }
            | Stmt::For { .. }
            | Stmt::While { .. }
            | Stmt::If { .. }
            | Stmt::Let { expr: Expr::Code(..), .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::Fold { .. } => {}
        }
    }
}

impl Address {
    /// That element.
    pub fn constant(offset: i64) -> Address {
        Address { offset, ..Address::default() }
    }

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
    pub fn accesses(&self) -> [Access<'_>; 3] {
        [
            self.access(&self.lhs, false, [self.m, self.k], |b| b.1),
            self.access(&self.rhs, false, [self.k, self.n], |b| b.2),
            self.access(&self.out, true, [self.m, self.n], |b| b.3),
        ]
    }

    fn access<'a>(
        &'a self,
        m: &'a Matrix,
        write: bool,
        [rows, columns]: [usize; 2],
        step: fn(&(usize, i64, i64, i64)) -> i64,
    ) -> Access<'a> {
        let mut reach: SmallVec<[(usize, i64); 4]> = SmallVec::new();
        reach.extend([(rows, m.row), (columns, m.column)]);
        reach.extend(self.batch.iter().map(|b| (b.0, step(b))));
        let (buffer, version) = (m.buffer, m.version);
        Access { buffer, version, write, address: &m.at, reach, guard: None }
    }
}

impl View {
    /// The memory touched.
    pub fn access(&self, write: bool) -> Access<'_> {
        Access {
            buffer: self.buffer,
            version: self.version,
            write,
            address: &self.at,
            reach: SmallVec::from_slice(&[(self.elements, 1)]),
            guard: None,
        }
    }
}

/// The part of a [`Rewriter`] that leaves all names but those of values as they are.
macro_rules! same_places {
    () => {
        fn frame(&mut self, frame: usize) -> usize {
            frame
        }

        fn var(&mut self, var: VarId, _: bool) -> VarId {
            var
        }

        fn index(&mut self, index: IndexId) -> IndexId {
            index
        }

        fn cursor(&mut self, cursor: CursorId) -> CursorId {
            cursor
        }
    };
}
pub(crate) use same_places;

/// The part of a [`Rewriter`] that leaves all names as they are.
macro_rules! same_names {
    () => {
        crate::loop_ir::visit::same_places!();

        fn scalar(&mut self, value: ScalarId) -> ScalarId {
            value
        }
    };
}
pub(crate) use same_names;

/// The part of a [`Rewriter`] that leaves what loops carry as it is.
macro_rules! same_carries {
    () => {
        fn carries(&mut self, carries: &[Carry]) -> Vec<Carry> {
            carries.to_vec()
        }
    };
}
pub(crate) use same_carries;

/// A copy of statements in which names stand for others.
pub trait Rewriter {
    /// What an operand becomes.
    fn arg(&mut self, arg: Arg) -> Arg;
    /// What an element of a buffer becomes.
    fn element(&mut self, held: BufferVersion, address: &Address) -> (BufferVersion, Address);
    /// What is carried, in the place of that.
    fn carries(&mut self, carries: &[Carry]) -> Vec<Carry>;
    /// Where a callee works.
    fn frame(&mut self, frame: usize) -> usize;
    /// The value defined in the place of one.
    fn scalar(&mut self, value: ScalarId) -> ScalarId;
    /// The variable, where it is declared (`fresh`) or set.
    fn var(&mut self, var: VarId, fresh: bool) -> VarId;
    /// The index of a loop in the place of one.
    fn index(&mut self, index: IndexId) -> IndexId;
    /// The cursor in the place of one.
    fn cursor(&mut self, cursor: CursorId) -> CursorId;
    /// The statements of a block inside.
    fn block(&mut self, body: &[Stmt]) -> Vec<Stmt>;

    /// What a statement becomes: operands first, then what it defines, then the blocks inside.
    fn stmt(&mut self, stmt: &Stmt) -> Stmt {
        match stmt {
            Stmt::Nest { body } => Stmt::Nest { body: self.block(body) },
            Stmt::For { index, extent, parallelism, lanes, carries, body } => {
                let extent = match extent {
                    Extent::Constant(n) => Extent::Constant(*n),
                    Extent::Scalar(a) => Extent::Scalar(self.arg(*a)),
                };
                let (index, parallelism, lanes) = (self.index(*index), *parallelism, *lanes);
                let (carries, body) = (self.carries(carries), self.block(body));
                Stmt::For { index, extent, parallelism, lanes, carries, body }
            }
            Stmt::While { head, condition, carries, body } => {
                // The condition is defined by the head.
                let head = self.block(head);
                let (condition, carries) = (self.arg(*condition), self.carries(carries));
                Stmt::While { head, condition, carries, body: self.block(body) }
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.arg(*condition);
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                Stmt::If { condition, then, otherwise }
            }
            Stmt::Let { value, expr } => {
                let expr = match expr {
                    Expr::Code(code, args) => {
                        Expr::Code(*code, args.iter().map(|a| self.arg(*a)).collect())
                    }
                    Expr::Load { buffer, version, address, guard } => {
                        let (BufferVersion { buffer, version }, address) = self
                            .element(BufferVersion { buffer: *buffer, version: *version }, address);
                        Expr::Load { buffer, version, address, guard: guard.map(|g| self.arg(g)) }
                    }
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
            Stmt::Store { buffer, version, address, value, guard } => {
                let (BufferVersion { buffer, version }, address) =
                    self.element(BufferVersion { buffer: *buffer, version: *version }, address);
                let (value, guard) = (self.arg(*value), guard.map(|g| self.arg(g)));
                Stmt::Store { buffer, version, address, value, guard }
            }
            Stmt::Contract(c) => {
                let mut matrix = |m: &Matrix| {
                    let (buffer, version) = (m.buffer, m.version);
                    let (BufferVersion { buffer, version }, at) =
                        self.element(BufferVersion { buffer, version }, &m.at);
                    Matrix { buffer, version, at, ..*m }
                };
                let (lhs, rhs, out) = (matrix(&c.lhs), matrix(&c.rhs), matrix(&c.out));
                Stmt::Contract(Contract { lhs, rhs, out, ..c.clone() })
            }
            Stmt::Call(c) => {
                let operands = c.operands.iter().map(|v| self.view(v)).collect();
                let outputs = c.outputs.iter().map(|v| self.view(v)).collect();
                Stmt::Call(Call { operands, outputs, frame: self.frame(c.frame), ..*c })
            }
            Stmt::Tape(t) => Stmt::Tape(match t {
                TapeStmt::Turn { cursor, to, index } => {
                    let to = match to {
                        CursorTarget::Tape(tape) => CursorTarget::Tape(*tape),
                        CursorTarget::Handle(word) => CursorTarget::Handle(self.arg(*word)),
                    };
                    let index = self.arg(*index);
                    TapeStmt::Turn { cursor: self.cursor(*cursor), to, index }
                }
                TapeStmt::Length { value, tape } => {
                    TapeStmt::Length { value: self.scalar(*value), tape: *tape }
                }
                TapeStmt::Cut { tape, to } => TapeStmt::Cut { tape: *tape, to: self.arg(*to) },
            }),
            Stmt::Limit(w) => Stmt::Limit(match w {
                LimitStmt::Enter { limit, trip } => {
                    LimitStmt::Enter { limit: *limit, trip: trip.map(|n| self.arg(n)) }
                }
                LimitStmt::Count(limit) => LimitStmt::Count(*limit),
            }),
            Stmt::CallHost(a) => Stmt::CallHost(CallHost {
                asked: a.asked.clone(),
                operands: a.operands.iter().map(|v| self.view(v)).collect(),
                outputs: a.outputs.iter().map(|v| self.view(v)).collect(),
            }),
        }
    }

    /// What consecutive elements become.
    fn view(&mut self, v: &View) -> View {
        let held = BufferVersion { buffer: v.buffer, version: v.version };
        let (BufferVersion { buffer, version }, at) = self.element(held, &v.at);
        View { buffer, version, at, elements: v.elements }
    }
}
