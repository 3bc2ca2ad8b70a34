//! Instruction selection: from a nest of loops of the loop IR to the vector IR.
//!
//! Instructions are selected for the whole nest or not at all ([`Refused`] holds the reason). A nest consists of loops
//! with constant trip counts around loops with lanes, with values, variables, loads and stores. Values from outside of
//! the nest come in the words of a *row* ([`Word`]), the argument of the nest's function.
//!
//! In a loop with lanes, a value has one register for every vector of a [`Strip`], or one register if it is
//! uniform. A folding loop processes the number of elements at once that its program states, because bits depend on
//! it. Any other loop processes one vector of its widest type, or [several](super::interleave). In the last vector
//! fewer elements may be active.

mod accept;
mod codes;
mod lanes;
mod memory;

use super::form::{
    Binary, Class, Inst, Lane, Logic, LoopId, Order, Reg, Stream, Ty, Unary, VectorProgram,
};
use crate::loop_ir::{
    Address, Arg, BufferId, Expr, Extent, IndexId, Kernel, ScalarId, Stmt, VarId, visit,
};
use accept::acceptable;
use cranelift_entity::EntityRef;
use smallvec::{SmallVec, smallvec};
use tapeloom_ir::prim::Library;
use tapeloom_ir::{Dtype, Literal, OrderedMap, OrderedSet};

/// The reason why a nest of loops has no SIMD code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused(pub(crate) &'static str);

/// A word of the row: one argument of the nest's code.
#[derive(Clone, PartialEq, Hash, Debug)]
pub(crate) enum Word {
    /// A pointer to the element that an access reads or writes in the first iteration of all loops of the nest.
    Pointer(BufferId, Address),
    /// A scalar that is defined outside of the nest.
    Scalar(Arg),
    /// A variable that is declared outside of the nest: its value before the nest, and, if `changed`, after the nest.
    Var { var: VarId, changed: bool },
    /// The address of a scalar function, which is called element by element: the symbol's name, the library function
    /// and its dtype.
    Function(&'static str, FunctionOf),
}

/// A library function, on elements of one dtype, whose address is a word of the row (the nest's arguments).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionOf {
    pub(crate) library: Library,
    pub(crate) dtype: Dtype,
}

impl PartialEq for FunctionOf {
    fn eq(&self, other: &FunctionOf) -> bool {
        self.library.name == other.library.name && self.dtype == other.dtype
    }
}

impl std::hash::Hash for FunctionOf {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.library.name, self.dtype).hash(state);
    }
}

/// A nest after instruction selection: its vector program, and the words of its row (its arguments).
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) program: VectorProgram,
    pub(crate) row: Vec<Word>,
    /// For each vectorized loop, the number of elements of a vector; loops of no iterations are absent.
    pub(crate) elements: Vec<(IndexId, usize)>,
}

/// The most vector instructions of a nest. The limit bounds the code size and the time of register allocation.
const MOST_INSTRUCTIONS: usize = 60_000;

/// Selects instructions for a nest, for vectors of `vector_bytes` bytes (32 or 64). `in_memory` returns whether the
/// elements of a buffer are in memory (not promoted to registers). An iteration of a loop that does not fold processes
/// at most `most_vectors` vectors.
pub(crate) fn select(
    k: &Kernel,
    stmt: &Stmt,
    vector_bytes: usize,
    most_vectors: usize,
    in_memory: &dyn Fn(BufferId) -> bool,
) -> Result<Unit, Refused> {
    acceptable(k, stmt, in_memory)?;
    let mut assigned = OrderedSet::default();
    let mut defined = OrderedSet::default();
    visit(std::slice::from_ref(stmt), &mut |s| {
        assigned.extend(s.assigned().map(|(var, _)| var));
        defined.extend(s.defined());
    });
    let mut s = Select {
        k,
        vector_bytes,
        most_vectors,
        program: VectorProgram::default(),
        row: Vec::new(),
        values: OrderedMap::default(),
        vars: OrderedMap::default(),
        open: Vec::new(),
        lanes: None,
        streams: Vec::new(),
        before: (0, 0),
        constants: OrderedMap::default(),
        numbers: OrderedMap::default(),
        homes: OrderedSet::default(),
        elements: Vec::new(),
        prologue: Vec::new(),
        merge: None,
        nans: OrderedMap::default(),
        uniform: true,
        assigned,
        defined,
    };
    s.stmt(stmt)?;
    s.finish()
}

/// A value during selection: one virtual register for every vector of a strip (the vectors of one iteration), or one
/// register for a uniform value.
#[derive(Clone, Debug)]
struct Val {
    regs: SmallVec<[Reg; 2]>,
    uniform: bool,
}

impl Val {
    fn one(reg: Reg) -> Val {
        Val { regs: smallvec![reg], uniform: true }
    }

    /// Returns the register of vector number `unit` of the strip (the vectors of one iteration); a uniform value has
    /// one register for all vectors.
    fn at(&self, unit: usize) -> Reg {
        if self.uniform { self.regs[0] } else { self.regs[unit] }
    }
}

/// A key of value numbering: an instruction without its result register, or a library function with its operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Numbered {
    Inst(Inst),
    Function(&'static str, Option<i64>, Ty, SmallVec<[Reg; 3]>),
}

/// The elements that one iteration of the vectorized loop processes: one or more vectors.
#[derive(Clone, Copy, Debug)]
struct Strip {
    index: IndexId,
    /// The number of elements of one vector.
    n: usize,
    /// The number of vectors that one iteration of the vectorized loop processes.
    units: usize,
}

pub(super) struct Select<'a> {
    k: &'a Kernel,
    /// The bytes of a vector register of the machine: 32 or 64.
    vector_bytes: usize,
    /// The most vectors that an iteration of a loop without folds processes.
    most_vectors: usize,
    program: VectorProgram,
    row: Vec<Word>,
    values: OrderedMap<ScalarId, Val>,
    vars: OrderedMap<VarId, Val>,
    /// The loops around the statement being selected, outermost first.
    open: Vec<(IndexId, LoopId)>,
    lanes: Option<Strip>,
    /// The streams (base pointers of accesses) of the loop with lanes.
    streams: Vec<Stream>,
    /// The number of surrounding loops, and the number of virtual registers, at the start of the loop with lanes. A
    /// virtual register with a smaller number was defined before that loop.
    before: (usize, usize),
    constants: OrderedMap<(Lane, u64), Reg>,
    /// The values computed in the surrounding blocks, for value numbering. `None` if the register has been reused.
    numbers: OrderedMap<Numbered, Option<Reg>>,
    /// The virtual registers of variables. They are assigned several times, so value numbering excludes them.
    homes: OrderedSet<Reg>,
    /// The number of elements of a vector, for each loop with lanes.
    elements: Vec<(IndexId, usize)>,
    /// Instructions that are placed before all others.
    prologue: Vec<Inst>,
    /// For a last vector with fewer active elements: their mask, and the variables that the loop folds into.
    merge: Option<(Reg, OrderedSet<VarId>)>,
    /// Per variable that floats are folded into by `max` or `min`: the mask of elements that were nan so far.
    nans: OrderedMap<VarId, Val>,
    /// Whether the result of the instruction being selected is uniform, that is, equal in all elements.
    uniform: bool,
    /// The variables that the nest assigns.
    assigned: OrderedSet<VarId>,
    /// The values that the nest defines.
    defined: OrderedSet<ScalarId>,
}

fn lane(dtype: Dtype) -> Option<Lane> {
    match dtype {
        Dtype::F64 => Some(Lane::F64),
        Dtype::F32 => Some(Lane::F32),
        Dtype::I64 | Dtype::U64 => Some(Lane::I64),
        Dtype::I32 | Dtype::U32 => Some(Lane::I32),
        Dtype::Bool => None,
    }
}

impl Select<'_> {
    /// Returns the selected nest: the prologue is placed first, and changed variables are stored to the row at the end.
    fn finish(mut self) -> Result<Unit, Refused> {
        let mut back = Vec::new();
        for (i, word) in self.row.iter().enumerate() {
            if let Word::Var { var, changed: true } = word {
                let (x, dtype) = (self.vars[var].at(0), self.k.vars[*var]);
                back.push(match lane(dtype) {
                    Some(lane) => Inst::SetWord { word: i, x, lane },
                    None => Inst::SetWordTruth { word: i, x },
                });
            }
        }
        let body = std::mem::take(&mut self.program.body);
        self.program.body = self.prologue;
        self.program.body.extend(body);
        self.program.body.extend(back);
        if self.program.body.len() > MOST_INSTRUCTIONS {
            return Err(Refused("its code would be too long"));
        }
        Ok(Unit { program: self.program, row: self.row, elements: self.elements })
    }

    /// Returns the type of a vector that fills a machine register.
    fn whole(&self, lane: Lane) -> Ty {
        Ty { lane, n: self.vector_bytes / lane.bytes() }
    }

    fn push(&mut self, inst: Inst) {
        self.program.body.push(inst);
    }

    /// Returns the register of an instruction's result. The instruction is emitted unless the same instruction was
    /// emitted before in this block or a surrounding block.
    fn make(&mut self, class: Class, inst: impl Fn(Reg) -> Inst) -> Reg {
        let key = inst(Reg::new(0));
        if let Some(Some(reg)) = self.numbers.get(&Numbered::Inst(key.clone())) {
            return *reg;
        }
        let to = self.program.regs.push(class);
        self.push(inst(to));
        let read = key.registers().1;
        self.record_value(Numbered::Inst(key), &read, to);
        to
    }

    /// Records, for value numbering until the end of the block, that register `to` holds the result of an instruction.
    fn record_value(&mut self, what: Numbered, read: &[Reg], to: Reg) {
        // Do not record instructions that read variables, which may change later. An entry that was set to `None` is
        // not replaced, because it may belong to a surrounding block.
        if !read.iter().any(|x| self.homes.contains(x)) {
            self.numbers.entry(what).or_insert(Some(to));
        }
    }

    /// Removes the instruction of register `reg` from value numbering, because the register is reused.
    fn drop_record(&mut self, reg: Reg) {
        if let Some((_, made)) = self.numbers.iter_mut().rev().find(|(_, made)| **made == Some(reg))
        {
            *made = None;
        }
    }

    fn vector(&mut self) -> Reg {
        self.program.regs.push(Class::Vector)
    }

    fn mask(&mut self) -> Reg {
        self.program.regs.push(Class::Mask)
    }

    fn word(&mut self, word: Word) -> usize {
        if let Some(i) = self.row.iter().position(|w| *w == word) {
            return i;
        }
        self.row.push(word);
        self.row.len() - 1
    }

    /// Returns the register with the same bits in every element; all uses of a constant share one register.
    pub(super) fn constant(&mut self, lane: Lane, bits: u64) -> Reg {
        if let Some(reg) = self.constants.get(&(lane, bits)) {
            return *reg;
        }
        let to = self.vector();
        self.constants.insert((lane, bits), to);
        self.prologue.push(Inst::Constant { to, lane, bits });
        to
    }

    fn float(&mut self, lane: Lane, x: f64) -> Reg {
        let bits = if lane == Lane::F32 { u64::from((x as f32).to_bits()) } else { x.to_bits() };
        self.constant(lane, bits)
    }

    fn block(&mut self, body: &[Stmt]) -> Result<(), Refused> {
        let around = self.numbers.len();
        body.iter().try_for_each(|stmt| self.stmt(stmt))?;
        self.numbers.truncate(around);
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Refused> {
        if self.program.body.len() > MOST_INSTRUCTIONS {
            return Err(Refused("its code would be too long"));
        }
        match stmt {
            Stmt::Nest { body, .. } => self.block(body),
            Stmt::For { index, extent: Extent::Constant(extent), lanes, body, .. } => {
                match (*extent, *lanes) {
                    (0, _) => Ok(()),
                    (extent, 1) => {
                        let of = self.program.loops.push(());
                        self.push(Inst::Loop { of, extent });
                        self.open.push((*index, of));
                        self.block(body)?;
                        self.open.pop();
                        self.push(Inst::LoopEnd { of, extent });
                        Ok(())
                    }
                    (extent, lanes) => self.in_lanes(stmt, *index, extent, lanes, body),
                }
            }
            Stmt::Let { value, expr } => {
                let x = match expr {
                    Expr::Code(code, args) => {
                        let dtype = args.last().map(|a| self.k.dtype(*a));
                        let dtype = dtype.ok_or(Refused("it has a code without operands"))?;
                        let args: SmallVec<[Val; 3]> =
                            args.iter().map(|a| self.arg(*a)).collect::<Result<_, _>>()?;
                        self.code(*code, dtype, &args)?
                    }
                    Expr::Load { held, address, guard } => {
                        self.load(held.buffer, address, *guard)?
                    }
                };
                let x = self.own(x);
                self.values.insert(*value, x);
                Ok(())
            }
            Stmt::Var { var, init } => {
                let init = self.arg(*init)?;
                let units = self.lanes.map_or(1, |s| s.units);
                let class = class(self.k.vars[*var]);
                let regs = self.new_homes(class, units);
                self.vars.insert(*var, Val { regs, uniform: self.lanes.is_none() });
                self.set(*var, &init)
            }
            Stmt::Set { var, value } => {
                let value = self.arg(*value)?;
                self.var(*var)?;
                self.set(*var, &value)
            }
            Stmt::Fold { var, code, value } => {
                let (value, old) = (self.arg(*value)?, self.var(*var)?);
                if let Some(nans) = self.nans.get(var).cloned() {
                    return self.fold_extreme(*code, *var, &value, &old, &nans);
                }
                let first = self.program.regs.len();
                let mut new = self.code(*code, self.k.vars[*var], &[old.clone(), value])?;
                if let Some((mask, _)) = self.merge.clone().filter(|m| m.1.contains(var)) {
                    new = self.merged(mask, self.k.vars[*var], &new, &old)?;
                }
                self.set_new(*var, &new, first)
            }
            Stmt::Store { held, address, value, guard } => {
                self.store(held.buffer, address, *value, *guard)
            }
            Stmt::For { .. }
            | Stmt::While { .. }
            | Stmt::If { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::Lap(_)
            | Stmt::CallExternal(_) => Err(Refused("a statement is not supported")),
        }
    }

    /// Copies a value to new registers if its registers are those of a variable, which may change. (A code without
    /// effect, such as a conversion to the same type, returns the registers of its operand.)
    fn own(&mut self, x: Val) -> Val {
        if !x.regs.iter().any(|reg| self.homes.contains(reg)) {
            return x;
        }
        let Val { regs, uniform } = x;
        let copy = |x: Reg| {
            let class = self.program.regs[x];
            let to = self.program.regs.push(class);
            self.program.body.push(match class {
                Class::Vector => Inst::Move { to, x },
                Class::Mask => Inst::MoveMask { to, x },
            });
            to
        };
        Val { regs: regs.into_iter().map(copy).collect(), uniform }
    }

    /// Returns the registers of a variable. A variable from outside of the nest is loaded from the row (the nest's
    /// arguments).
    fn var(&mut self, var: VarId) -> Result<Val, Refused> {
        if let Some(val) = self.vars.get(&var) {
            return Ok(val.clone());
        }
        let changed = self.assigned.contains(&var);
        let word = self.word(Word::Var { var, changed });
        let to = self.program.regs.push(class(self.k.vars[var]));
        if changed {
            self.homes.insert(to);
        }
        self.prologue.push(match lane(self.k.vars[var]) {
            Some(lane) => Inst::Word { to, lane, word },
            None => Inst::WordTruth { to, word },
        });
        self.vars.insert(var, Val::one(to));
        Ok(Val::one(to))
    }

    fn set(&mut self, var: VarId, x: &Val) -> Result<(), Refused> {
        let home = self.vars[&var].clone();
        if home.uniform && !x.uniform {
            return Err(Refused("a variable is set in lanes but not per lane"));
        }
        for (unit, to) in home.regs.iter().enumerate() {
            let x = x.at(unit);
            self.push(match self.program.regs[*to] {
                Class::Vector => Inst::Move { to: *to, x },
                Class::Mask => Inst::MoveMask { to: *to, x },
            });
        }
        Ok(())
    }

    /// Assigns a value to a variable, like [`Self::set`]. If the value's register was created after there were `first`
    /// registers, and the last instruction computes the value, that instruction writes directly to the variable's
    /// register.
    fn set_new(&mut self, var: VarId, x: &Val, first: usize) -> Result<(), Refused> {
        if let ([to], [x]) = (self.vars[&var].regs.as_slice(), x.regs.as_slice())
            && x.index() >= first
            && let Some(made) =
                self.program.body.last_mut().and_then(|last| last.replaceable_result(*x))
        {
            *made = *to;
            self.drop_record(*x);
            return Ok(());
        }
        self.set(var, x)
    }

    /// Returns `units` new registers for a variable.
    fn new_homes(&mut self, class: Class, units: usize) -> SmallVec<[Reg; 2]> {
        let regs: SmallVec<[Reg; 2]> = (0..units).map(|_| self.program.regs.push(class)).collect();
        self.homes.extend(regs.iter().copied());
        regs
    }

    fn arg(&mut self, arg: Arg) -> Result<Val, Refused> {
        match arg {
            Arg::Literal(l) => Ok(Val::one(self.literal(l))),
            Arg::Var(v) => self.var(v),
            Arg::Scalar(s) => match self.values.get(&s) {
                Some(val) => Ok(val.clone()),
                None => self.outside(arg, self.k.scalars[s]),
            },
            Arg::Index(i) => {
                if let Some(strip) = self.lanes.filter(|s| s.index == i) {
                    return Ok(self.lane_index(strip));
                }
                let Some(of) = self.open.iter().find(|o| o.0 == i).map(|o| o.1) else {
                    return self.outside(arg, Dtype::I64);
                };
                Ok(Val::one(self.make(Class::Vector, |to| Inst::Counter { to, of: Some(of) })))
            }
        }
    }

    fn outside(&mut self, arg: Arg, dtype: Dtype) -> Result<Val, Refused> {
        let word = self.word(Word::Scalar(arg));
        let to = self.program.regs.push(class(dtype));
        self.prologue.push(match lane(dtype) {
            Some(lane) => Inst::Word { to, lane, word },
            None => Inst::WordTruth { to, word },
        });
        if let Arg::Scalar(s) = arg {
            self.values.insert(s, Val::one(to));
        }
        Ok(Val::one(to))
    }

    fn literal(&mut self, l: Literal) -> Reg {
        match lane(l.dtype) {
            Some(lane) => self.constant(lane, l.bits),
            None => self.all(l.bits != 0),
        }
    }

    pub(super) fn binary(&mut self, op: Binary, ty: Ty, x: Reg, y: Reg) -> Reg {
        self.make(Class::Vector, |to| Inst::Binary { op, ty, to, x, y })
    }

    pub(super) fn unary(&mut self, op: Unary, ty: Ty, x: Reg) -> Reg {
        self.make(Class::Vector, |to| Inst::Unary { op, ty, to, x })
    }

    pub(super) fn fma(&mut self, ty: Ty, x: Reg, y: Reg, z: Reg) -> Reg {
        self.make(Class::Vector, |to| Inst::Fma { ty, to, x, y, z })
    }

    pub(super) fn pick(&mut self, ty: Ty, mask: Reg, x: Reg, y: Reg) -> Reg {
        self.make(Class::Vector, |to| Inst::Pick { ty, to, mask, x, y })
    }

    pub(super) fn logic(&mut self, op: Logic, x: Reg, y: Reg) -> Reg {
        self.make(Class::Mask, |to| Inst::Logic { op, to, x, y })
    }

    pub(super) fn all(&mut self, all: bool) -> Reg {
        self.make(Class::Mask, |to| Inst::Truth { to, all })
    }

    /// Emits a comparison. A uniform mask (equal for all elements) must have a truth value for each four-byte element
    /// of a whole register.
    pub(super) fn compare(&mut self, order: Order, signed: bool, ty: Ty, x: Reg, y: Reg) -> Reg {
        let to = self.make(Class::Mask, |to| Inst::Compare { order, signed, ty, to, x, y });
        if self.uniform && ty.lane.bytes() == 8 {
            return self.make(Class::Mask, |wide| Inst::Widen { to: wide, x: to });
        }
        to
    }

    pub(super) fn not(&mut self, x: Reg) -> Reg {
        let all = self.all(true);
        self.logic(Logic::Xor, x, all)
    }
}

fn class(dtype: Dtype) -> Class {
    if dtype == Dtype::Bool { Class::Mask } else { Class::Vector }
}
