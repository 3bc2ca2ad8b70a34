//! Traversal of statements: a visitor and a rewriter, which handle every kind of statement.
//!
//! Both use the [shape](super::shape) of a statement, which lists its blocks, operands and accesses.
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
//!     stmt.accesses(&mut |a| written.extend(a.write.then(|| a.held.buffer.to_string())));
//! });
//! assert_eq!((statements, written), (3, vec!["b1".to_owned()]));
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use super::{
    Address, Arg, BufferVersion, Call, CallExternal, Carry, Contract, CursorId, CursorTarget, Expr,
    Extent, IndexId, LimitStmt, Matrix, ScalarId, Stmt, TapeStmt, VarId, View,
};

/// Calls `f` with every statement of a block and of all blocks inside it, each statement before the statements inside
/// it.
pub fn visit<'a>(body: &'a [Stmt], f: &mut dyn FnMut(&'a Stmt)) {
    for stmt in body {
        f(stmt);
        for block in stmt.blocks() {
            visit(block, f);
        }
    }
}

/// A rewriter copies statements and replaces the ids in them. The default methods copy each id unchanged.
pub trait Rewriter {
    /// Returns the replacement of a scalar operand.
    fn arg(&mut self, arg: Arg) -> Arg;

    /// Returns the replacement of the element that a statement accesses: buffer version and address.
    fn element(&mut self, held: BufferVersion, address: &Address) -> (BufferVersion, Address) {
        (held, address.renamed(&mut |a| self.arg(a)))
    }

    /// Returns the replacement of the carries of a loop: the arrays that each iteration passes to the next.
    fn carries(&mut self, carries: &[Carry]) -> Vec<Carry> {
        carries.to_vec()
    }

    /// Returns the replacement of the offset of a callee's workspace in the workspace of the caller, in bytes.
    fn frame(&mut self, frame: usize) -> usize {
        frame
    }

    /// Returns the replacement of a scalar where a statement defines it.
    fn scalar(&mut self, value: ScalarId) -> ScalarId {
        value
    }

    /// Returns the replacement of a variable that a statement assigns; `_fresh` is true at the variable's declaration.
    fn var(&mut self, var: VarId, _fresh: bool) -> VarId {
        var
    }

    /// Returns the replacement of the index that a loop declares.
    fn index(&mut self, index: IndexId) -> IndexId {
        index
    }

    /// Returns the replacement of the cursor that a statement moves.
    fn cursor(&mut self, cursor: CursorId) -> CursorId {
        cursor
    }

    /// Returns the rewritten statements of an inner block.
    fn block(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        body.iter().map(|stmt| self.stmt(stmt)).collect()
    }

    /// Returns the rewritten statement: operands are replaced first, then the defined id, then the inner blocks.
    fn stmt(&mut self, stmt: &Stmt) -> Stmt {
        match stmt {
            Stmt::Nest { body, origins } => {
                Stmt::Nest { body: self.block(body), origins: origins.clone() }
            }
            Stmt::For { index, extent, parallelism, lanes, carries, body, origins } => {
                let extent = match extent {
                    Extent::Constant(n) => Extent::Constant(*n),
                    Extent::Scalar(a) => Extent::Scalar(self.arg(*a)),
                };
                let (index, parallelism, lanes) = (self.index(*index), *parallelism, *lanes);
                let (carries, body) = (self.carries(carries), self.block(body));
                let origins = origins.clone();
                Stmt::For { index, extent, parallelism, lanes, carries, body, origins }
            }
            Stmt::While { head, condition, carries, body, origins } => {
                // Rewrite the head before the condition, which the head defines.
                let head = self.block(head);
                let (condition, carries) = (self.arg(*condition), self.carries(carries));
                let (body, origins) = (self.block(body), origins.clone());
                Stmt::While { head, condition, carries, body, origins }
            }
            Stmt::If { condition, then, otherwise, origins } => {
                let condition = self.arg(*condition);
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                Stmt::If { condition, then, otherwise, origins: origins.clone() }
            }
            Stmt::Let { value, expr } => {
                let expr = match expr {
                    Expr::Code(code, args) => {
                        Expr::Code(*code, args.iter().map(|a| self.arg(*a)).collect())
                    }
                    Expr::Load { held, address, guard } => {
                        let (held, address) = self.element(*held, address);
                        Expr::Load { held, address, guard: guard.map(|g| self.arg(g)) }
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
            Stmt::Store { held, address, value, guard } => {
                let (held, address) = self.element(*held, address);
                let (value, guard) = (self.arg(*value), guard.map(|g| self.arg(g)));
                Stmt::Store { held, address, value, guard }
            }
            Stmt::Contract(c) => {
                let mut matrix = |m: &Matrix| {
                    let (held, at) = self.element(m.held, &m.at);
                    Matrix { held, at, ..*m }
                };
                let (lhs, rhs, out) = (matrix(&c.lhs), matrix(&c.rhs), matrix(&c.out));
                Stmt::Contract(Contract { lhs, rhs, out, ..c.clone() })
            }
            Stmt::Call(c) => {
                let operands = c.operands.iter().map(|v| self.view(v)).collect();
                let outputs = c.outputs.iter().map(|v| self.view(v)).collect();
                let (frame, origins) = (self.frame(c.frame), c.origins.clone());
                Stmt::Call(Call { operands, outputs, frame, origins, ..*c })
            }
            Stmt::Tape(t) => Stmt::Tape(match t {
                TapeStmt::MoveCursor { cursor, to, index } => {
                    let to = match to {
                        CursorTarget::Tape(tape) => CursorTarget::Tape(*tape),
                        CursorTarget::Handle(word) => CursorTarget::Handle(self.arg(*word)),
                    };
                    let index = self.arg(*index);
                    TapeStmt::MoveCursor { cursor: self.cursor(*cursor), to, index }
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
            Stmt::Lap(timer) => Stmt::Lap(*timer),
            Stmt::CallExternal(a) => Stmt::CallExternal(CallExternal {
                signature: a.signature.clone(),
                operands: a.operands.iter().map(|v| self.view(v)).collect(),
                outputs: a.outputs.iter().map(|v| self.view(v)).collect(),
                origins: a.origins.clone(),
            }),
        }
    }

    /// Returns the rewritten view: its buffer version and address are replaced.
    fn view(&mut self, v: &View) -> View {
        let (held, at) = self.element(v.held, &v.at);
        View { held, at, elements: v.elements }
    }
}
