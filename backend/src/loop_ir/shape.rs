//! The shape of a statement: its blocks and how they run, its operands, its memory accesses and other effects.
//!
//! Passes and analyses ask a statement for its [`Shape`] instead of matching on its kind. So a new kind of statement
//! is described here once, and all passes and analyses handle it. Only code that must treat each kind separately
//! (text, verifier, interpreter, machine code) matches on all kinds.

use super::{
    Address, Arg, BufferId, BufferVersion, Call, CallExternal, Carry, Contract, CursorId, Expr,
    Extent, IndexId, LimitStmt, Matrix, Origins, Parallelism, ScalarId, Stmt, TapeStmt, TimerId,
    VarId, View,
};
use smallvec::{SmallVec, smallvec};
use std::slice::from_ref;
use tapeloom_ir::Code;

/// The elements that one access of a statement reads or writes: those at `address + Σ i * stride`, where the sum is
/// over the pairs (extent, stride) of `reach`, and each `i` counts from 0 to below its extent.
#[derive(Clone, Debug)]
pub struct Access<'a> {
    /// The version of the buffer that the statement accesses.
    pub held: BufferVersion,
    /// Whether the elements are written; otherwise they are read.
    pub write: bool,
    /// The address of the access's first element.
    pub address: &'a Address,
    /// Pairs of an extent and a stride (in elements), which lead from the first element to the others; empty for a
    /// load or a store of one element.
    // A vector, which has 24 bytes and is empty for most statements. A small vector with four pairs in place makes
    // shapes three times as large, and compiling takes 3 % longer.
    pub reach: Vec<(usize, i64)>,
    /// A bool scalar: the access happens only if it is true.
    pub guard: Option<Arg>,
}

/// The way in which a statement assigns a variable: declaration, assignment or fold.
#[derive(Clone, Copy, Debug)]
pub enum Assign {
    /// The statement declares the variable and gives it its first value.
    Declare,
    /// The statement assigns another value to the variable.
    Set,
    /// Combines the variable's old value with another value by this scalar code.
    Fold(Code),
}

/// The control flow of a statement: which of its inner blocks run, and how often.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Flow {
    /// The statement has no inner blocks.
    Straight,
    /// One inner block, which runs once.
    Nest,
    /// One inner block, which runs in each iteration of a counted loop.
    For {
        /// The counter of the loop.
        index: IndexId,
        /// The trip count of the loop.
        extent: Extent,
        /// The claimed dependence between the iterations.
        parallelism: Parallelism,
        /// The number of vector lanes: iterations that execute side by side.
        lanes: usize,
    },
    /// Two inner blocks, a head and a body, which run alternately until the condition that the head computes is
    /// false.
    While,
    /// Two inner blocks; a condition selects the block that runs.
    If,
}

impl Flow {
    /// Returns whether the inner blocks may run more than once.
    pub fn is_loop(self) -> bool {
        matches!(self, Flow::For { .. } | Flow::While)
    }
}

/// An effect of a statement, apart from computing scalars and accessing the elements of its operands.
#[derive(Clone, Copy, Debug)]
pub enum Effect<'a> {
    /// The statement only computes scalars and accesses elements.
    None,
    /// The statement calls a kernel. Besides the operands, the called kernel reads and writes its own buffers in the
    /// workspace.
    Call(&'a Call),
    /// The statement calls a Rust function or a library routine.
    External(&'a CallExternal),
    /// The statement moves a cursor, reads the length of a dynamic tape, or truncates the tape.
    Tape(&'a TapeStmt),
    /// The statement counts runs or iterations of a limited loop.
    Limit(&'a LimitStmt),
    /// The statement reads the clock, for a timer.
    Lap(TimerId),
}

/// A description of a statement that has the same fields for all kinds of statements.
#[derive(Clone, Debug)]
pub struct Shape<'a> {
    /// The inner blocks of the statement, in program order.
    pub blocks: SmallVec<[&'a [Stmt]; 2]>,
    /// The control flow of the inner blocks.
    pub flow: Flow,
    /// The arrays that each iteration of a loop passes to the next; empty for other statements.
    pub carries: &'a [Carry],
    /// The scalar that the statement defines.
    pub defines: Option<ScalarId>,
    /// The variable that the statement assigns, and how.
    pub assigns: Option<(VarId, Assign)>,
    /// The scalar code that the statement computes.
    pub code: Option<Code>,
    /// The scalar operands that are not part of an address, a view or an effect. The variable into which a fold
    /// combines its value is not included.
    pub operands: &'a [Arg],
    /// The element that a load or a store accesses.
    pub element: Option<Access<'a>>,
    /// The contraction that the statement performs.
    pub contract: Option<&'a Contract>,
    /// The views of a call: those that it reads (`views[0]`) and those that it writes (`views[1]`).
    pub views: [&'a [View]; 2],
    /// The effect of the statement apart from its definitions and accesses.
    pub effect: Effect<'a>,
}

/// The parts of a statement that passes change in place: inner blocks and the accessed element.
#[derive(Default)]
pub struct ShapeMut<'a> {
    /// The inner blocks of the statement as mutable references, in program order.
    pub blocks: SmallVec<[&'a mut Vec<Stmt>; 2]>,
    /// The element that a load or a store accesses.
    pub element: Option<ElementMut<'a>>,
}

/// The element that a load or a store accesses, as mutable references to its parts.
pub struct ElementMut<'a> {
    /// The version of the buffer that is accessed.
    pub held: &'a mut BufferVersion,
    /// The address of the accessed element in its buffer.
    pub address: &'a mut Address,
    /// A bool scalar: the access happens only if it is true.
    pub guard: &'a mut Option<Arg>,
}

impl Shape<'_> {
    /// Returns the shape of a statement without blocks, operands, accesses and effects.
    #[inline]
    fn nothing<'a>() -> Shape<'a> {
        Shape {
            blocks: SmallVec::new(),
            flow: Flow::Straight,
            carries: &[],
            defines: None,
            assigns: None,
            code: None,
            operands: &[],
            element: None,
            contract: None,
            views: [&[], &[]],
            effect: Effect::None,
        }
    }

    /// Returns whether the statement only computes scalars, and loads or stores at most one element.
    pub fn is_scalar(&self) -> bool {
        let alone = self.contract.is_none() && matches!(self.effect, Effect::None);
        self.flow == Flow::Straight && alone
    }
}

impl Stmt {
    /// Returns the shape of the statement.
    // Inline, since most callers use one field, and the compiler then drops the others.
    #[inline]
    pub fn shape(&self) -> Shape<'_> {
        let nothing = Shape::nothing();
        let element = |held: &BufferVersion, write, address, guard: &Option<Arg>| {
            Some(Access { held: *held, write, address, reach: Vec::new(), guard: *guard })
        };
        match self {
            Stmt::Nest { .. } => Shape { blocks: self.blocks(), flow: Flow::Nest, ..nothing },
            Stmt::For { index, extent, parallelism, lanes, carries, .. } => {
                let (index, parallelism, lanes) = (*index, *parallelism, *lanes);
                let operands = match extent {
                    Extent::Constant(_) => &[],
                    Extent::Scalar(a) => from_ref(a),
                };
                let flow = Flow::For { index, extent: *extent, parallelism, lanes };
                Shape { blocks: self.blocks(), flow, carries, operands, ..nothing }
            }
            Stmt::While { condition, carries, .. } => {
                let (blocks, operands) = (self.blocks(), from_ref(condition));
                Shape { blocks, flow: Flow::While, carries, operands, ..nothing }
            }
            Stmt::If { condition, .. } => {
                let (blocks, operands) = (self.blocks(), from_ref(condition));
                Shape { blocks, flow: Flow::If, operands, ..nothing }
            }
            Stmt::Let { value, expr: Expr::Code(code, args) } => {
                Shape { defines: Some(*value), code: Some(*code), operands: args, ..nothing }
            }
            Stmt::Let { value, expr: Expr::Load { held, address, guard } } => {
                let element = element(held, false, address, guard);
                Shape { defines: Some(*value), element, ..nothing }
            }
            Stmt::Var { var, init } => {
                let assigns = Some((*var, Assign::Declare));
                Shape { assigns, operands: from_ref(init), ..nothing }
            }
            Stmt::Set { var, value } => {
                Shape { assigns: Some((*var, Assign::Set)), operands: from_ref(value), ..nothing }
            }
            Stmt::Fold { var, code, value } => {
                let assigns = Some((*var, Assign::Fold(*code)));
                Shape { assigns, code: Some(*code), operands: from_ref(value), ..nothing }
            }
            Stmt::Store { held, address, value, guard } => {
                let element = element(held, true, address, guard);
                Shape { operands: from_ref(value), element, ..nothing }
            }
            Stmt::Contract(c) => Shape { contract: Some(c), ..nothing },
            Stmt::Call(c) => {
                Shape { views: [&c.operands, &c.outputs], effect: Effect::Call(c), ..nothing }
            }
            Stmt::CallExternal(c) => {
                Shape { views: [&c.operands, &c.outputs], effect: Effect::External(c), ..nothing }
            }
            Stmt::Tape(t) => {
                let defines =
                    if let TapeStmt::Length { value, .. } = t { Some(*value) } else { None };
                Shape { defines, effect: Effect::Tape(t), ..nothing }
            }
            Stmt::Limit(l) => Shape { effect: Effect::Limit(l), ..nothing },
            Stmt::Lap(timer) => Shape { effect: Effect::Lap(*timer), ..nothing },
        }
    }

    /// Returns mutable references to the inner blocks of the statement, and to the element that it loads or stores.
    pub fn shape_mut(&mut self) -> ShapeMut<'_> {
        match self {
            Stmt::Nest { body, .. } | Stmt::For { body, .. } => {
                ShapeMut { blocks: smallvec![body], element: None }
            }
            Stmt::While { head: first, body: second, .. }
            | Stmt::If { then: first, otherwise: second, .. } => {
                ShapeMut { blocks: smallvec![first, second], element: None }
            }
            Stmt::Let { expr: Expr::Load { held, address, guard }, .. }
            | Stmt::Store { held, address, guard, .. } => {
                let element = Some(ElementMut { held, address, guard });
                ShapeMut { blocks: SmallVec::new(), element }
            }
            Stmt::Let { expr: Expr::Code(..), .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::CallExternal(_)
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::Lap(_) => ShapeMut::default(),
        }
    }

    /// Returns the equations that the statement computes; `None` for scalar statements, which have no origins of their
    /// own, and for statements that compute nothing.
    pub fn origins(&self) -> Option<&Origins> {
        match self {
            Stmt::Nest { origins, .. }
            | Stmt::For { origins, .. }
            | Stmt::While { origins, .. }
            | Stmt::If { origins, .. }
            | Stmt::Contract(Contract { origins, .. })
            | Stmt::Call(Call { origins, .. })
            | Stmt::CallExternal(CallExternal { origins, .. }) => Some(origins),
            Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. }
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::Lap(_) => None,
        }
    }

    /// Returns the equations that the statement computes; none if it has no origins of its own.
    pub(crate) fn own_origins(&self) -> Origins {
        self.origins().cloned().unwrap_or_default()
    }

    /// Returns the inner blocks of the statement, in program order.
    // Not `self.shape().blocks`: every walk asks each statement for its blocks, and building the other fields of a shape
    // takes longer.
    #[inline]
    pub fn blocks(&self) -> SmallVec<[&[Stmt]; 2]> {
        match self {
            Stmt::Nest { body, .. } | Stmt::For { body, .. } => smallvec![&body[..]],
            Stmt::While { head: first, body: second, .. }
            | Stmt::If { then: first, otherwise: second, .. } => {
                smallvec![&first[..], &second[..]]
            }
            Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::CallExternal(_)
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::Lap(_) => SmallVec::new(),
        }
    }

    /// Returns the inner blocks of the statement as mutable references, in program order.
    pub fn blocks_mut(&mut self) -> SmallVec<[&mut Vec<Stmt>; 2]> {
        self.shape_mut().blocks
    }

    /// Returns the arrays that each iteration of a loop passes to the next; empty for other statements.
    pub fn carries(&self) -> &[Carry] {
        self.shape().carries
    }

    /// Returns the variable that the statement assigns, and how; `None` if it assigns none.
    pub fn assigned(&self) -> Option<(VarId, Assign)> {
        self.shape().assigns
    }

    /// Returns the scalar that the statement defines; `None` if it defines none.
    pub fn defined(&self) -> Option<ScalarId> {
        self.shape().defines
    }

    /// Returns the cursor that the statement moves, if it moves one.
    pub fn moved_cursor(&self) -> Option<CursorId> {
        match self.shape().effect {
            Effect::Tape(TapeStmt::MoveCursor { cursor, .. }) => Some(*cursor),
            Effect::None
            | Effect::Call(_)
            | Effect::External(_)
            | Effect::Tape(_)
            | Effect::Limit(_)
            | Effect::Lap(_) => None,
        }
    }

    /// Calls `f` with each scalar operand of the statement, including those of addresses and guards, but not those of
    /// statements in inner blocks.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        let shape = self.shape();
        if let Some((var, Assign::Fold(_))) = shape.assigns {
            f(Arg::Var(var));
        }
        shape.operands.iter().for_each(|a| f(*a));
        if let Some(element) = shape.element {
            element.address.args(f);
            element.guard.into_iter().for_each(&mut *f);
        }
        for m in shape.contract.iter().flat_map(|c| [&c.lhs, &c.rhs, &c.out]) {
            m.at.args(f);
        }
        shape.views.into_iter().flatten().for_each(|v| v.at.args(f));
        match shape.effect {
            Effect::None | Effect::Call(_) | Effect::External(_) | Effect::Lap(_) => {}
            Effect::Tape(t) => t.args(f),
            Effect::Limit(l) => l.args(f),
        }
    }

    /// Calls `f` with each memory access of the statement, reads before writes. The accesses of statements in inner
    /// blocks are not included, nor the accesses of a called kernel to its frame (its workspace).
    pub fn accesses<'a>(&'a self, f: &mut dyn FnMut(Access<'a>)) {
        let Shape { element, contract, views: [operands, outputs], .. } = self.shape();
        element.into_iter().for_each(&mut *f);
        contract.into_iter().flat_map(Contract::accesses).for_each(&mut *f);
        operands.iter().for_each(|v| f(v.access(false)));
        outputs.iter().for_each(|v| f(v.access(true)));
    }
}

/// A loop with a static trip count, with the fields of `Stmt::For`.
#[derive(Clone, Copy)]
pub(crate) struct Loop<'a> {
    pub(crate) index: IndexId,
    pub(crate) extent: usize,
    pub(crate) parallelism: Parallelism,
    pub(crate) lanes: usize,
    pub(crate) carries: &'a [Carry],
    pub(crate) body: &'a [Stmt],
    pub(crate) origins: &'a Origins,
}

impl Stmt {
    /// Returns the parts of the statement if it is a loop with a static trip count.
    pub(crate) fn counted(&self) -> Option<Loop<'_>> {
        let Stmt::For {
            index,
            extent: Extent::Constant(extent),
            parallelism,
            lanes,
            carries,
            body,
            origins,
        } = self
        else {
            return None;
        };
        let (index, extent, parallelism, lanes) = (*index, *extent, *parallelism, *lanes);
        Some(Loop { index, extent, parallelism, lanes, carries, body, origins })
    }

    /// Calls `f` with each buffer that the statement accesses or carries, possibly repeatedly. Buffers of statements
    /// in inner blocks are not included.
    pub fn buffers(&self, f: &mut dyn FnMut(BufferId)) {
        self.accesses(&mut |a| f(a.held.buffer));
        self.carries().iter().for_each(|c| [c.input, c.output].iter().for_each(|h| f(h.buffer)));
    }
}

impl Address {
    /// Returns the address of the element with the constant index `offset`.
    pub fn constant(offset: i64) -> Address {
        Address { offset, ..Address::default() }
    }

    /// Calls `f` with each scalar operand of the address: loop indices and the dynamic scalar.
    pub fn args(&self, f: &mut dyn FnMut(Arg)) {
        self.terms.iter().for_each(|(i, _)| f(Arg::Index(*i)));
        self.dynamic.iter().for_each(|d| f(*d));
    }

    /// Returns the address with its operands renamed by `f`, which must map an index to an index.
    pub fn renamed(&self, f: &mut dyn FnMut(Arg) -> Arg) -> Address {
        let mut index = |i| if let Arg::Index(to) = f(Arg::Index(i)) { to } else { i };
        let terms = self.terms.iter().map(|(i, stride)| (index(*i), *stride)).collect();
        Address { terms, dynamic: self.dynamic.map(f), ..*self }
    }

    /// Returns the distance `self - other` in elements, if it is the same for all values of loop indices and scalars.
    pub fn behind(&self, other: &Address) -> Option<i64> {
        let sorted = |a: &Address| {
            let mut terms = a.terms.clone();
            terms.sort_unstable();
            terms
        };
        let terms = self.terms == other.terms || sorted(self) == sorted(other);
        (terms && self.dynamic == other.dynamic).then(|| self.offset.checked_sub(other.offset))?
    }

    /// Returns the stride along a loop index, in elements; 0 if the address does not depend on the index.
    pub fn stride(&self, index: IndexId) -> i64 {
        self.terms.iter().filter(|t| t.0 == index).map(|t| t.1).sum()
    }
}

impl Contract {
    /// Returns the memory accesses of the contraction: reads of lhs and rhs, and the write of out.
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
        let mut reach = Vec::new();
        reach.extend([(rows, m.row), (columns, m.column)]);
        reach.extend(self.batch.iter().map(|b| (b.0, step(b))));
        Access { held: m.held, write, address: &m.at, reach, guard: None }
    }
}

impl View {
    /// Returns a view of the first `elements` elements of a buffer version.
    pub fn whole(held: BufferVersion, elements: usize) -> View {
        View { held, at: Address::default(), elements }
    }

    /// Returns the memory access to the elements of the view: a write if `write` is true, otherwise a read.
    pub fn access(&self, write: bool) -> Access<'_> {
        Access {
            held: self.held,
            write,
            address: &self.at,
            reach: vec![(self.elements, 1)],
            guard: None,
        }
    }
}
