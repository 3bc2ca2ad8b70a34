//! From a nest of loops to the wide form: what is taken, and by which instructions.
//!
//! A nest is taken whole or not at all ([`Refused`] says why not). It consists of loops of constant extent around loops
//! in lanes, with values, variables, loads and stores; what lies outside of it comes in the words of a row
//! ([`Word`]).
//!
//! In a loop in lanes a value has a register for every [`Strip`] of elements, or one for all where it is uniform.
//! A loop that folds takes as many elements at once as its kernel says, since bits depend on it; one that does not takes
//! what a vector of its widest elements holds. In the last vector fewer elements are active.

mod accept;
mod codes;
mod lanes;
mod memory;

use super::form::{Binary, Class, Form, Inst, Lane, Logic, LoopId, Order, Reg, Stream, Ty, Unary};
use crate::loop_ir::{
    Address, Arg, BufferId, Expr, Extent, IndexId, Kernel, ScalarId, Stmt, VarId, visit,
};
use accept::acceptable;
use cranelift_entity::EntityRef;
use smallvec::{SmallVec, smallvec};
use tapeloom_ir::prim::Library;
use tapeloom_ir::{Dtype, Literal, OrderedMap, OrderedSet};

/// Why a nest is left to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused(pub(crate) &'static str);

/// A word that the nest finds in its row.
#[derive(Clone, PartialEq, Hash, Debug)]
pub(crate) enum Word {
    /// A pointer to that element, of which loops of the nest are in their first iterations.
    Pointer(BufferId, Address),
    /// A scalar from outside.
    Scalar(Arg),
    /// A variable from outside: its value before, and where the nest changes it, after.
    Var { var: VarId, changed: bool },
    /// The address of a function on single elements.
    Function(&'static str, FunctionOf),
}

/// Which function a word points to.
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

/// A nest that is taken.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) form: Form,
    pub(crate) row: Vec<Word>,
    /// How many elements a vector of each loop in lanes has that is not empty.
    pub(crate) elements: Vec<(IndexId, usize)>,
}

/// So many instructions at most: code grows with them, and the time that registers take.
const MOST_INSTRUCTIONS: usize = 2500;

/// Takes a nest for vectors of so many bytes, if it can be. `in_memory` says of which buffers the elements are in memory.
pub(crate) fn select(
    k: &Kernel,
    stmt: &Stmt,
    vector_bytes: usize,
    in_memory: &dyn Fn(BufferId) -> bool,
) -> Result<Unit, Refused> {
    acceptable(stmt, in_memory)?;
    let mut assigned = OrderedSet::default();
    let mut made = OrderedSet::default();
    visit(std::slice::from_ref(stmt), &mut |s| {
        assigned.extend(s.assigned().map(|(var, _)| var));
        made.extend(s.defined());
    });
    let mut s = Select {
        k,
        vector_bytes,
        form: Form::default(),
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
        made,
    };
    s.stmt(stmt)?;
    s.finish()
}

/// A value: a register for every vector of a strip, or one for all.
#[derive(Clone, Debug)]
struct Val {
    regs: SmallVec<[Reg; 2]>,
    uniform: bool,
}

impl Val {
    fn one(reg: Reg) -> Val {
        Val { regs: smallvec![reg], uniform: true }
    }

    /// The register of a vector of the strip.
    fn at(&self, unit: usize) -> Reg {
        if self.uniform { self.regs[0] } else { self.regs[unit] }
    }
}

/// What is made once: an instruction, with the register it makes left out, or a function on registers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Numbered {
    Inst(Inst),
    Function(&'static str, Option<u32>, Ty, SmallVec<[Reg; 3]>),
}

/// What iterations of a loop in lanes take at once.
#[derive(Clone, Copy, Debug)]
struct Strip {
    index: IndexId,
    /// Elements of a vector.
    n: usize,
    /// Vectors.
    units: usize,
}

pub(super) struct Select<'a> {
    k: &'a Kernel,
    /// Bytes of a whole vector.
    vector_bytes: usize,
    form: Form,
    row: Vec<Word>,
    values: OrderedMap<ScalarId, Val>,
    vars: OrderedMap<VarId, Val>,
    /// Loops around, outermost first.
    open: Vec<(IndexId, LoopId)>,
    lanes: Option<Strip>,
    /// Where accesses of the loop in lanes go.
    streams: Vec<Stream>,
    /// How many loops around it, and registers, there were before it.
    before: (usize, usize),
    constants: OrderedMap<(Lane, u64), Reg>,
    /// What has been made in the blocks around, in order; nothing where it got another use.
    numbers: OrderedMap<Numbered, Option<Reg>>,
    /// Registers of variables: they are assigned again.
    homes: OrderedSet<Reg>,
    /// Elements of the vectors of loops in lanes.
    elements: Vec<(IndexId, usize)>,
    /// What is made before everything else.
    prologue: Vec<Inst>,
    /// Where fewer elements are active than a vector has: those, and the variables that others fold into.
    merge: Option<(Reg, OrderedSet<VarId>)>,
    /// Variables into which floats are folded by `max` or `min`: where one was nan.
    nans: OrderedMap<VarId, Val>,
    /// Whether what is made is uniform.
    uniform: bool,
    /// Variables and values of the nest.
    assigned: OrderedSet<VarId>,
    made: OrderedSet<ScalarId>,
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
    /// Moves what is made first to the front, and writes variables back.
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
        let body = std::mem::take(&mut self.form.body);
        self.form.body = self.prologue;
        self.form.body.extend(body);
        self.form.body.extend(back);
        if self.form.body.len() > MOST_INSTRUCTIONS {
            return Err(Refused("its code would be too long"));
        }
        Ok(Unit { form: self.form, row: self.row, elements: self.elements })
    }

    /// A whole vector.
    fn whole(&self, lane: Lane) -> Ty {
        Ty { lane, n: self.vector_bytes / lane.bytes() }
    }

    fn push(&mut self, inst: Inst) {
        self.form.body.push(inst);
    }

    /// The register of an instruction, which is made unless a block around has made the same.
    fn make(&mut self, class: Class, inst: impl Fn(Reg) -> Inst) -> Reg {
        let key = inst(Reg::new(0));
        if let Some(Some(reg)) = self.numbers.get(&Numbered::Inst(key.clone())) {
            return *reg;
        }
        let to = self.form.regs.push(class);
        self.push(inst(to));
        let read = key.registers().1;
        self.number(Numbered::Inst(key), &read, to);
        to
    }

    /// Notes what a register holds, for the rest of the block.
    fn number(&mut self, what: Numbered, read: &[Reg], to: Reg) {
        // A variable that is read may have another value later. What was forgotten once stays so: its place in the list
        // may be that of a block around.
        if !read.iter().any(|x| self.homes.contains(x)) {
            self.numbers.entry(what).or_insert(Some(to));
        }
    }

    /// That register gets another use: it is no longer what its instruction makes.
    fn forget(&mut self, reg: Reg) {
        if let Some((_, made)) = self.numbers.iter_mut().rev().find(|(_, made)| **made == Some(reg))
        {
            *made = None;
        }
    }

    fn vector(&mut self) -> Reg {
        self.form.regs.push(Class::Vector)
    }

    fn mask(&mut self) -> Reg {
        self.form.regs.push(Class::Mask)
    }

    fn word(&mut self, word: Word) -> usize {
        if let Some(i) = self.row.iter().position(|w| *w == word) {
            return i;
        }
        self.row.push(word);
        self.row.len() - 1
    }

    /// The same bits in every element; made once.
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
        if self.form.body.len() > MOST_INSTRUCTIONS {
            return Err(Refused("its code would be too long"));
        }
        match stmt {
            Stmt::Nest { body } => self.block(body),
            Stmt::For { index, extent: Extent::Constant(extent), lanes, body, .. } => {
                match (*extent, *lanes) {
                    (0, _) => Ok(()),
                    (extent, 1) => {
                        let of = self.form.loops.push(());
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
                let first = self.form.regs.len();
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
            | Stmt::CallExternal(_) => Err(Refused("a statement is of another kind")),
        }
    }

    /// A value in registers of its own: a code that changes nothing gives those of its operand, and variables change.
    fn own(&mut self, x: Val) -> Val {
        if !x.regs.iter().any(|reg| self.homes.contains(reg)) {
            return x;
        }
        let Val { regs, uniform } = x;
        let copy = |x: Reg| {
            let class = self.form.regs[x];
            let to = self.form.regs.push(class);
            self.form.body.push(match class {
                Class::Vector => Inst::Move { to, x },
                Class::Mask => Inst::MoveMask { to, x },
            });
            to
        };
        Val { regs: regs.into_iter().map(copy).collect(), uniform }
    }

    /// The registers of a variable; one from outside comes from the row.
    fn var(&mut self, var: VarId) -> Result<Val, Refused> {
        if let Some(val) = self.vars.get(&var) {
            return Ok(val.clone());
        }
        let changed = self.assigned.contains(&var);
        let word = self.word(Word::Var { var, changed });
        let to = self.form.regs.push(class(self.k.vars[var]));
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
            self.push(match self.form.regs[*to] {
                Class::Vector => Inst::Move { to: *to, x },
                Class::Mask => Inst::MoveMask { to: *to, x },
            });
        }
        Ok(())
    }

    /// As [`Self::set`]; where the value has just been made, after the register `first`, and has no other name, it is made
    /// in the variable's register.
    fn set_new(&mut self, var: VarId, x: &Val, first: usize) -> Result<(), Refused> {
        if let ([to], [x]) = (self.vars[&var].regs.as_slice(), x.regs.as_slice())
            && x.index() >= first
            && let Some(made) = self.form.body.last_mut().and_then(|last| last.made(*x))
        {
            *made = *to;
            self.forget(*x);
            return Ok(());
        }
        self.set(var, x)
    }

    /// Registers of a variable.
    fn new_homes(&mut self, class: Class, units: usize) -> SmallVec<[Reg; 2]> {
        let regs: SmallVec<[Reg; 2]> = (0..units).map(|_| self.form.regs.push(class)).collect();
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
        let to = self.form.regs.push(class(dtype));
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

    /// A comparison; of whole registers it holds for as many elements as a register of four bytes each has.
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
