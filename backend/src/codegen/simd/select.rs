//! From a nest of loops to the wide form: what is taken, and by which instructions.
//!
//! A nest is taken whole or not at all ([`Refused`] says why not). It consists of loops of constant extent around loops
//! in lanes, with values, variables, loads and stores; what lies outside of it comes in the words of a row
//! ([`Word`]).
//!
//! In a loop in lanes a value has a register for every [`Strip`] of elements, or one for all where it is uniform.
//! A loop that folds takes as many elements at once as its kernel says, since bits depend on it; one that does not takes
//! what a vector of its widest elements holds. In the last vector fewer elements are active.

use super::form::{
    Access, At, Binary, Class, Conversion, Form, Inst, Lane, Logic, LoopId, Order, Reg, Stream, Ty,
    Unary, When,
};
use super::recorded;
use crate::loop_ir::analysis::dependence::folds;
use crate::loop_ir::legal_lanes::refused;
use crate::loop_ir::{
    Address, Arg, BufferId, Expr, Extent, Flow, IndexId, Kernel, Parallelism, ScalarId, Stmt,
    VarId, visit,
};
use smallvec::{SmallVec, smallvec};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Library, LibraryFn, power};
use tapeloom_ir::{Code, Dtype, Literal, OrderedMap, OrderedSet};

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
}

/// Bytes of the widest vector.
const VECTOR_BYTES: usize = 64;

/// So many instructions at most: code grows with them, and the time that registers take.
const MOST_INSTRUCTIONS: usize = 2500;

/// A nest of fewer elements is not worth a call.
const LEAST_ELEMENTS: usize = 32;

/// Takes a nest, if it can be. `in_memory` says of which buffers the elements are in memory.
pub(crate) fn select(
    k: &Kernel,
    stmt: &Stmt,
    in_memory: &dyn Fn(BufferId) -> bool,
) -> Result<Unit, Refused> {
    acceptable(k, stmt, in_memory)?;
    let mut assigned = OrderedSet::default();
    let mut made = OrderedSet::default();
    visit(std::slice::from_ref(stmt), &mut |s| {
        assigned.extend(s.assigned().map(|(var, _)| var));
        made.extend(s.defined());
    });
    let mut s = Select {
        k,
        form: Form::default(),
        row: Vec::new(),
        values: OrderedMap::default(),
        vars: OrderedMap::default(),
        open: Vec::new(),
        lanes: None,
        streams: Vec::new(),
        constants: OrderedMap::default(),
        prologue: Vec::new(),
        merge: None,
        uniform: true,
        assigned,
        made,
    };
    s.stmt(stmt)?;
    s.finish()
}

/// What can be seen of a nest before anything is made for it.
fn acceptable(
    k: &Kernel,
    stmt: &Stmt,
    in_memory: &dyn Fn(BufferId) -> bool,
) -> Result<(), Refused> {
    if !matches!(stmt, Stmt::For { .. }) {
        return Err(Refused("it is no loop"));
    }
    let mut refusal = None;
    let mut elements = 0usize;
    visit(std::slice::from_ref(stmt), &mut |s| {
        let why = match s {
            Stmt::For { extent: Extent::Scalar(_), .. } => {
                Some("an extent is known at run time only")
            }
            Stmt::For { carries, .. } if !carries.is_empty() => Some("a loop hands arrays on"),
            Stmt::For { lanes: 1, body, .. } if !has_lanes(body) => Some("a loop has no lanes"),
            Stmt::For { .. }
            | Stmt::Nest { .. }
            | Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::Store { .. } => None,
            Stmt::While { .. } => Some("there is a `while`"),
            Stmt::If { .. } => Some("there is a branch"),
            Stmt::Contract(_) => Some("there is a contraction"),
            Stmt::Call(_) | Stmt::CallExternal(_) => Some("there is a call"),
            Stmt::Tape(_) | Stmt::Limit(_) => Some("a tape or a limit is there"),
        };
        refusal = refusal.or(why);
        s.accesses(&mut |a| {
            if !in_memory(a.held.buffer) {
                refusal = refusal.or(Some("an array is in registers"));
            }
        });
    });
    if let Some(why) = refusal {
        return Err(Refused(why));
    }
    count(std::slice::from_ref(stmt), 1, &mut elements);
    if elements < LEAST_ELEMENTS {
        return Err(Refused("it has few elements"));
    }
    let _ = k;
    Ok(())
}

fn has_lanes(body: &[Stmt]) -> bool {
    let mut found = false;
    visit(body, &mut |s| found |= matches!(s, Stmt::For { lanes: 2.., .. }));
    found
}

/// The elements of all loops in lanes.
fn count(body: &[Stmt], times: usize, elements: &mut usize) {
    for stmt in body {
        let mut inner = times;
        if let Stmt::For { extent: Extent::Constant(extent), lanes, .. } = stmt {
            inner = times.saturating_mul(*extent);
            if *lanes > 1 {
                *elements = elements.saturating_add(inner);
                continue;
            }
        }
        stmt.blocks().iter().for_each(|b| count(b, inner, elements));
    }
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
    form: Form,
    row: Vec<Word>,
    values: OrderedMap<ScalarId, Val>,
    vars: OrderedMap<VarId, Val>,
    /// Loops around, outermost first.
    open: Vec<(IndexId, LoopId)>,
    lanes: Option<Strip>,
    /// Where accesses of the loop in lanes go.
    streams: Vec<Stream>,
    constants: OrderedMap<(Lane, u64), Reg>,
    /// What is made before everything else.
    prologue: Vec<Inst>,
    /// Where fewer elements are active than a vector has: those, and the variables that others fold into.
    merge: Option<(Reg, OrderedSet<VarId>)>,
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

fn whole(lane: Lane) -> Ty {
    Ty { lane, n: VECTOR_BYTES / lane.bytes() }
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
            return Err(Refused("it is long"));
        }
        Ok(Unit { form: self.form, row: self.row })
    }

    fn push(&mut self, inst: Inst) {
        self.form.body.push(inst);
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
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Refused> {
        if self.form.body.len() > MOST_INSTRUCTIONS {
            return Err(Refused("it is long"));
        }
        match stmt {
            Stmt::Nest { body } => self.block(body),
            Stmt::For { index, extent: Extent::Constant(extent), lanes, body, .. } => {
                match (*extent, *lanes) {
                    (0, _) => Ok(()),
                    (_, 1) if self.lanes.is_some() => Err(Refused("a loop is in one in lanes")),
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
                let regs: SmallVec<[Reg; 2]> =
                    (0..units).map(|_| self.form.regs.push(class)).collect();
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
                let mut new = self.code(*code, self.k.vars[*var], &[old.clone(), value])?;
                if let Some((mask, _)) = self.merge.clone().filter(|m| m.1.contains(var)) {
                    new = self.merged(mask, self.k.vars[*var], &new, &old)?;
                }
                self.set_new(*var, &new)
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
        let homes = |reg: &Reg| self.vars.values().any(|home| home.regs.contains(reg));
        if !x.regs.iter().any(homes) {
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

    /// A loop in lanes: full strips, and what is left.
    fn in_lanes(
        &mut self,
        stmt: &Stmt,
        index: IndexId,
        extent: usize,
        lanes: usize,
        body: &[Stmt],
    ) -> Result<(), Refused> {
        if self.lanes.is_some() {
            return Err(Refused("lanes are in lanes"));
        }
        let folds = folds(body);
        let sizes = self.sizes(index, body);
        let natural = VECTOR_BYTES / sizes.1;
        let (n, units) = match folds.is_empty() {
            true => (natural, 1),
            false if lanes <= natural => (lanes, 1),
            false => (natural, lanes / natural),
        };
        if n * sizes.0 < 16 {
            return Err(Refused("its lanes are fewer than a vector has"));
        }
        if extent < n / 2 {
            return Err(Refused("its rows are short"));
        }
        let strip = n * units;
        let Stmt::For { parallelism, .. } = stmt else { return Err(Refused("it is no loop")) };
        if *parallelism == Parallelism::Serial
            && strip > lanes
            && refused(self.k, stmt, strip.min(extent)).is_some()
        {
            return Err(Refused("iterations touch what those beside them write"));
        }
        let (full, rest) = (extent - extent % strip, extent % strip);

        // Folded variables have a partial value for each element of a strip.
        let mut partial = Vec::new();
        if !folds.is_empty() && full > 0 {
            for (var, code) in &folds {
                let dtype = self.k.vars[*var];
                let mut neutral =
                    code.neutral(dtype).ok_or(Refused("a fold has no neutral element"))?;
                if planted(Fault::MinIdentity) && matches!(code, Code::Min) && dtype == Dtype::I32 {
                    neutral = Literal::zero(dtype);
                }
                let outer = self.var(*var)?;
                let class = class(dtype);
                let regs: SmallVec<[Reg; 2]> =
                    (0..units).map(|_| self.form.regs.push(class)).collect();
                let neutral = self.arg(Arg::Literal(neutral))?;
                self.vars.insert(*var, Val { regs, uniform: false });
                self.set(*var, &neutral)?;
                partial.push((*var, *code, outer));
            }
        }
        if full > 0 {
            self.push(Inst::Active { n });
            self.lanes = Some(Strip { index, n, units });
            self.strips(0, full, strip, body)?;
        }
        // What is left goes vector by vector, the last one with fewer elements; each folds into its own partial values.
        for unit in 0..rest.div_ceil(n) {
            let from = full + unit * n;
            let mut active = n.min(extent - from);
            let narrow = sizes.1 == 4;
            if planted(Fault::LaneTail) && !narrow || planted(Fault::LaneTailNarrow) && narrow {
                active = (active - 1).max(1);
            }
            self.push(Inst::Active { n: active });
            self.lanes = Some(Strip { index, n, units: 1 });
            let whole: Vec<Val> = partial.iter().map(|(var, ..)| self.vars[var].clone()).collect();
            for ((var, ..), val) in partial.iter().zip(&whole) {
                let regs = smallvec![val.regs[unit]];
                self.vars.insert(*var, Val { regs, uniform: false });
            }
            if active < n && !partial.is_empty() && !planted(Fault::WideMerge) {
                let mask = self.mask();
                self.push(Inst::ActiveMask { to: mask });
                self.merge = Some((mask, partial.iter().map(|p| p.0).collect()));
            }
            self.strips(from, from + active, n, body)?;
            self.merge = None;
            for ((var, ..), val) in partial.iter().zip(whole) {
                self.vars.insert(*var, val);
            }
        }
        self.lanes = None;
        for (var, code, outer) in partial {
            let dtype = self.k.vars[var];
            let lanes = self.vars[&var].clone();
            let all = self.combine(code, dtype, n, &lanes)?;
            self.vars.insert(var, outer.clone());
            let new = self.code(code, dtype, &[outer, all])?;
            self.set_new(var, &new)?;
        }
        Ok(())
    }

    fn strips(&mut self, from: usize, to: usize, by: usize, body: &[Stmt]) -> Result<(), Refused> {
        let at = self.form.body.len();
        self.push(Inst::Lanes { streams: Vec::new(), from, to, by });
        self.block(body)?;
        self.push(Inst::LanesEnd { to, by });
        let found = std::mem::take(&mut self.streams);
        if let Inst::Lanes { streams, .. } = &mut self.form.body[at] {
            *streams = found;
        }
        Ok(())
    }

    /// The least and the most bytes of an element in a loop; bools have none.
    fn sizes(&self, index: IndexId, body: &[Stmt]) -> (usize, usize) {
        let (mut least, mut most) = (8, 4);
        let mut dtype = |d: Dtype| {
            if let Some(lane) = lane(d) {
                least = least.min(lane.bytes());
                most = most.max(lane.bytes());
            }
        };
        visit(body, &mut |s| {
            let shape = s.shape();
            shape.defines.iter().for_each(|v| dtype(self.k.scalars[*v]));
            shape.assigns.iter().for_each(|(v, _)| dtype(self.k.vars[*v]));
            if matches!(shape.flow, Flow::Straight) {
                s.args(&mut |a| match a {
                    // An index of a loop around is uniform, but converted where it stands.
                    Arg::Index(_) | Arg::Scalar(_) | Arg::Var(_) => dtype(self.k.dtype(a)),
                    Arg::Literal(_) => {}
                });
            }
            s.accesses(&mut |a| dtype(self.k.buffers[a.held.buffer].ty.dtype));
        });
        let _ = index;
        (least, most)
    }

    /// What is new where elements are active, and old elsewhere.
    fn merged(&mut self, mask: Reg, dtype: Dtype, new: &Val, old: &Val) -> Result<Val, Refused> {
        let (Some(lane), Some(strip)) = (lane(dtype), self.lanes) else {
            return Err(Refused("a truth is folded"));
        };
        let to = self.pick(Ty { lane, n: strip.n }, mask, new.at(0), old.at(0));
        Ok(Val { regs: smallvec![to], uniform: false })
    }

    /// Partial values as one, uniform: halves first.
    fn combine(&mut self, code: Code, dtype: Dtype, n: usize, x: &Val) -> Result<Val, Refused> {
        let Some(lane) = lane(dtype) else { return Err(Refused("a truth is folded")) };
        self.uniform = false;
        let mut regs: Vec<Reg> = x.regs.to_vec();
        if planted(Fault::LaneOrder) && regs.len() > 1 {
            let of = |s: &mut Self, reg: Reg| {
                s.combine(code, dtype, n, &Val { regs: smallvec![reg], uniform: false })
            };
            let (first, last) = (of(self, regs[0])?, of(self, regs[1])?);
            return self.code(code, dtype, &[first, last]);
        }
        while regs.len() > 1 {
            let high = regs.split_off(regs.len() / 2);
            for (x, y) in regs.iter_mut().zip(high) {
                *x = self.one(code, dtype, Ty { lane, n }, &[*x, y])?;
            }
        }
        let mut last = regs[0];
        let mut left = n;
        while left > 1 {
            let high = self.vector();
            self.push(Inst::UpperHalf { ty: Ty { lane, n: left }, to: high, x: last });
            left /= 2;
            // Never less than a register of 128 bits: what is beyond the elements does not matter.
            let ty = Ty { lane, n: left.max(16 / lane.bytes()) };
            last = self.one(code, dtype, ty, &[last, high])?;
        }
        let to = self.vector();
        self.push(Inst::Broadcast { lane, to, x: last });
        Ok(Val::one(to))
    }

    /// The registers of a variable; one from outside comes from the row.
    fn var(&mut self, var: VarId) -> Result<Val, Refused> {
        if let Some(val) = self.vars.get(&var) {
            return Ok(val.clone());
        }
        let changed = self.assigned.contains(&var);
        let word = self.word(Word::Var { var, changed });
        let to = self.form.regs.push(class(self.k.vars[var]));
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

    /// As [`Self::set`], to what has just been made and has no other name: it is made in the variable's register.
    fn set_new(&mut self, var: VarId, x: &Val) -> Result<(), Refused> {
        if let ([to], [x]) = (self.vars[&var].regs.as_slice(), x.regs.as_slice())
            && let Some(made) = self.form.body.last_mut().and_then(|last| last.made(*x))
        {
            *made = *to;
            return Ok(());
        }
        self.set(var, x)
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
                let to = self.vector();
                self.push(Inst::Counter { to, of: Some(of) });
                Ok(Val::one(to))
            }
        }
    }

    fn lane_index(&mut self, strip: Strip) -> Val {
        let first = self.vector();
        self.push(Inst::Counter { to: first, of: None });
        let ramp = self.vector();
        self.push(Inst::Ramp { to: ramp, step: 1 });
        let ty = Ty { lane: Lane::I64, n: strip.n };
        let mut regs: SmallVec<[Reg; 2]> = SmallVec::new();
        for unit in 0..strip.units {
            let mut to = self.vector();
            self.push(Inst::Binary { op: Binary::Add, ty, to, x: first, y: ramp });
            if unit > 0 {
                let by = self.constant(Lane::I64, (unit * strip.n) as u64);
                let next = self.vector();
                self.push(Inst::Binary { op: Binary::Add, ty, to: next, x: to, y: by });
                to = next;
            }
            regs.push(to);
        }
        Val { regs, uniform: false }
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
            None => {
                let to = self.mask();
                self.push(Inst::Truth { to, all: l.bits != 0 });
                to
            }
        }
    }

    // Memory.

    /// Where an access goes, and how its elements lie.
    fn place(&mut self, buffer: BufferId, address: &Address) -> Result<(At, i64), Refused> {
        let size = self.k.buffers[buffer].ty.dtype.bytes() as i64;
        let mut outside = Address { offset: 0, terms: Vec::new(), dynamic: None };
        let mut stream = Stream { word: 0, outer: SmallVec::new() };
        let mut stride = 0i64;
        let bytes = |elements: i64| elements.wrapping_mul(size);
        for (index, step) in &address.terms {
            if self.lanes.is_some_and(|s| s.index == *index) {
                stride = stride.wrapping_add(bytes(*step));
            } else if let Some((_, of)) = self.open.iter().find(|o| o.0 == *index) {
                stream.outer.push((*of, bytes(*step)));
            } else {
                outside.terms.push((*index, *step));
            }
        }
        match address.dynamic {
            None => {}
            Some(Arg::Scalar(s)) if self.made.contains(&s) => {
                return Err(Refused("a place is computed"));
            }
            Some(Arg::Var(v)) if self.assigned.contains(&v) => {
                return Err(Refused("a place is computed"));
            }
            Some(Arg::Index(_)) => return Err(Refused("a place is an index")),
            Some(from_outside) => outside.dynamic = Some(from_outside),
        }
        let offset = match i32::try_from(bytes(address.offset)) {
            Ok(small) if small.unsigned_abs() < 1 << 30 => small,
            _ => {
                outside.offset = address.offset;
                0
            }
        };
        if stride.unsigned_abs() >= 1 << 30 {
            return Err(Refused("a stride is long"));
        }
        stream.word = self.word(Word::Pointer(buffer, outside));
        if self.lanes.is_none() {
            return Ok((At::Outer { stream, offset }, 0));
        }
        let stream = match self.streams.iter().position(|s| *s == stream) {
            Some(i) => i,
            None => {
                self.streams.push(stream);
                self.streams.len() - 1
            }
        };
        Ok((At::Lane { stream, stride, offset }, stride))
    }

    /// The place of a vector of the strip, and how its elements lie.
    fn unit(&self, at: &At, unit: usize, size: usize) -> Result<(At, Access), Refused> {
        let Some(strip) = self.lanes else { return Ok((at.clone(), Access::One)) };
        let At::Lane { stream, stride, offset } = *at else { return Err(Refused("a place")) };
        if stride == 0 {
            return Ok((at.clone(), Access::One));
        }
        let moved = i64::from(offset) + stride * (unit * strip.n) as i64;
        let offset = i32::try_from(moved).map_err(|_| Refused("a stride is long"))?;
        let access = if stride == size as i64 { Access::Unit } else { Access::Strided(stride) };
        Ok((At::Lane { stream, stride, offset }, access))
    }

    fn load(
        &mut self,
        buffer: BufferId,
        address: &Address,
        guard: Option<Arg>,
    ) -> Result<Val, Refused> {
        let guard = guard.map(|g| self.arg(g)).transpose()?;
        let dtype = self.k.buffers[buffer].ty.dtype;
        let (at, stride) = self.place(buffer, address)?;
        let single = self.lanes.is_none();
        let uniform = single || (stride == 0 && guard.as_ref().is_none_or(|g| g.uniform));
        let units = if uniform { 1 } else { self.lanes.map_or(1, |s| s.units) };
        let n = if uniform { 1 } else { self.lanes.map_or(1, |s| s.n) };
        let mut regs: SmallVec<[Reg; 2]> = SmallVec::new();
        for unit in 0..units {
            let (at, access) = self.unit(&at, unit, dtype.bytes())?;
            let guard = guard.as_ref().map(|g| g.at(unit));
            let to = self.form.regs.push(class(dtype));
            self.push(match lane(dtype) {
                Some(lane) => {
                    let ty = if uniform { whole(lane) } else { Ty { lane, n } };
                    Inst::Load { ty, to, at, access, guard }
                }
                None if matches!(access, Access::Strided(_)) => {
                    return Err(Refused("truths are strided"));
                }
                None => Inst::LoadTruth { n, to, at, access, guard },
            });
            regs.push(to);
        }
        Ok(Val { regs, uniform })
    }

    fn store(
        &mut self,
        buffer: BufferId,
        address: &Address,
        value: Arg,
        guard: Option<Arg>,
    ) -> Result<(), Refused> {
        let value = self.arg(value)?;
        let guard = guard.map(|g| self.arg(g)).transpose()?;
        let dtype = self.k.buffers[buffer].ty.dtype;
        let (at, stride) = self.place(buffer, address)?;
        let strip = self.lanes;
        if strip.is_some() && stride == 0 {
            return Err(Refused("iterations store to one element"));
        }
        for unit in 0..strip.map_or(1, |s| s.units) {
            let n = strip.map_or(1, |s| s.n);
            let (at, access) = self.unit(&at, unit, dtype.bytes())?;
            let (x, guard) = (value.at(unit), guard.as_ref().map(|g| g.at(unit)));
            self.push(match lane(dtype) {
                Some(lane) => Inst::Store { ty: Ty { lane, n }, x, at, access, guard },
                None if matches!(access, Access::Strided(_)) => {
                    return Err(Refused("truths are strided"));
                }
                None => Inst::StoreTruth { n, x, at, access, guard },
            });
        }
        Ok(())
    }

    // Codes.

    /// A code on operands, the last of which is of `dtype`.
    fn code(&mut self, code: Code, dtype: Dtype, args: &[Val]) -> Result<Val, Refused> {
        let uniform = args.iter().all(|a| a.uniform);
        self.uniform = uniform;
        let (units, n) = match self.lanes.filter(|_| !uniform) {
            Some(strip) => (strip.units, Some(strip.n)),
            None => (1, None),
        };
        let mut regs: SmallVec<[Reg; 2]> = SmallVec::new();
        for unit in 0..units {
            let args: SmallVec<[Reg; 3]> = args.iter().map(|a| a.at(unit)).collect();
            let lane = lane(dtype).unwrap_or(Lane::I32);
            let ty = n.map_or(whole(lane), |n| Ty { lane, n });
            regs.push(self.one(code, dtype, ty, &args)?);
        }
        Ok(Val { regs, uniform })
    }

    /// The same on a register each, of `ty`.
    fn one(&mut self, code: Code, dtype: Dtype, ty: Ty, x: &[Reg]) -> Result<Reg, Refused> {
        if let Some(library) = code.called(dtype) {
            return self.library(library, dtype, ty, x);
        }
        match (code, x) {
            (Code::Select, [c, x, y]) => return Ok(self.select(dtype, ty, *c, *x, *y)),
            (Code::Convert(to), [x]) => return self.convert(*x, dtype, to, ty),
            (Code::Clamp, [low, x, high]) => {
                let x = self.one(Code::Max, dtype, ty, &[*x, *low])?;
                if planted(Fault::ClampF32) && dtype == Dtype::F32 {
                    return Ok(x);
                }
                return self.one(Code::Min, dtype, ty, &[x, *high]);
            }
            _ => {}
        }
        let (Some(first), Some(last)) = (x.first().copied(), x.last().copied()) else {
            return Err(Refused("it has a code without operands"));
        };
        match dtype {
            Dtype::Bool => self.truth(code, first, last),
            Dtype::F64 | Dtype::F32 => self.on_floats(code, ty, first, last),
            Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => {
                self.on_integers(code, dtype, ty, first, last)
            }
        }
    }

    pub(super) fn binary(&mut self, op: Binary, ty: Ty, x: Reg, y: Reg) -> Reg {
        let to = self.vector();
        self.push(Inst::Binary { op, ty, to, x, y });
        to
    }

    pub(super) fn unary(&mut self, op: Unary, ty: Ty, x: Reg) -> Reg {
        let to = self.vector();
        self.push(Inst::Unary { op, ty, to, x });
        to
    }

    pub(super) fn fma(&mut self, ty: Ty, x: Reg, y: Reg, z: Reg) -> Reg {
        let to = self.vector();
        self.push(Inst::Fma { ty, to, x, y, z });
        to
    }

    pub(super) fn pick(&mut self, ty: Ty, mask: Reg, x: Reg, y: Reg) -> Reg {
        let to = self.vector();
        self.push(Inst::Pick { ty, to, mask, x, y });
        to
    }

    pub(super) fn logic(&mut self, op: Logic, x: Reg, y: Reg) -> Reg {
        let to = self.mask();
        self.push(Inst::Logic { op, to, x, y });
        to
    }

    pub(super) fn all(&mut self, all: bool) -> Reg {
        let to = self.mask();
        self.push(Inst::Truth { to, all });
        to
    }

    /// A comparison; of whole registers it holds for sixteen elements.
    pub(super) fn compare(&mut self, order: Order, signed: bool, ty: Ty, x: Reg, y: Reg) -> Reg {
        let to = self.mask();
        self.push(Inst::Compare { order, signed, ty, to, x, y });
        if self.uniform && ty.n == 8 {
            let wide = self.mask();
            self.push(Inst::Widen { to: wide, x: to });
            return wide;
        }
        to
    }

    fn select(&mut self, dtype: Dtype, ty: Ty, c: Reg, x: Reg, y: Reg) -> Reg {
        if dtype != Dtype::Bool {
            return self.pick(ty, c, x, y);
        }
        let (yes, no) = (self.logic(Logic::And, c, x), self.logic(Logic::AndNot, c, y));
        self.logic(Logic::Or, yes, no)
    }

    fn truth(&mut self, code: Code, x: Reg, y: Reg) -> Result<Reg, Refused> {
        Ok(match code {
            Code::And | Code::Min | Code::Mul => self.logic(Logic::And, x, y),
            Code::Or | Code::Max | Code::Add => self.logic(Logic::Or, x, y),
            Code::Xor | Code::Ne => self.logic(Logic::Xor, x, y),
            Code::Not => self.not(x),
            Code::Lt => self.logic(Logic::AndNot, x, y),
            Code::Gt => self.logic(Logic::AndNot, y, x),
            Code::Eq => {
                let differ = self.logic(Logic::Xor, x, y);
                self.not(differ)
            }
            Code::Le => {
                let above = self.logic(Logic::AndNot, y, x);
                self.not(above)
            }
            Code::Ge => {
                let below = self.logic(Logic::AndNot, x, y);
                self.not(below)
            }
            _ => return Err(Refused("a code on truths is not there")),
        })
    }

    pub(super) fn not(&mut self, x: Reg) -> Reg {
        let all = self.all(true);
        self.logic(Logic::Xor, x, all)
    }

    fn on_floats(&mut self, code: Code, ty: Ty, x: Reg, y: Reg) -> Result<Reg, Refused> {
        let sign = match ty.lane {
            Lane::F32 => 1 << 31,
            _ => 1 << 63,
        };
        let rest = match ty.lane {
            Lane::F32 => (1 << 31) - 1,
            _ => (1 << 63) - 1,
        };
        Ok(match code {
            Code::Add => self.binary(Binary::Add, ty, x, y),
            Code::Sub => self.binary(Binary::Sub, ty, x, y),
            Code::Mul => self.binary(Binary::Mul, ty, x, y),
            Code::Div => self.binary(Binary::Div, ty, x, y),
            Code::Neg => {
                let sign = self.constant(ty.lane, sign);
                self.binary(Binary::Xor, ty, x, sign)
            }
            Code::Abs => {
                let rest = self.constant(ty.lane, rest);
                self.binary(Binary::And, ty, x, rest)
            }
            Code::Floor => self.unary(Unary::Floor, ty, x),
            Code::Ceil => self.unary(Unary::Ceil, ty, x),
            Code::Sqrt => self.unary(Unary::Sqrt, ty, x),
            Code::Max | Code::Min => {
                let largest = matches!(code, Code::Max);
                let op = if largest { Binary::Largest } else { Binary::Smallest };
                let number = self.binary(op, ty, x, y);
                let nan = self.compare(Order::Unordered, true, ty, x, y);
                let sum = self.binary(Binary::Add, ty, x, y);
                self.pick(ty, nan, sum, number)
            }
            Code::Sign => {
                let [zero, one, minus_one] = [0.0, 1.0, -1.0].map(|c| self.float(ty.lane, c));
                let below = self.compare(Order::Lt, true, ty, x, zero);
                let above = self.compare(Order::Gt, true, ty, x, zero);
                let low = self.pick(ty, below, minus_one, x);
                self.pick(ty, above, one, low)
            }
            Code::IntegerPow(n) => {
                let one = self.float(ty.lane, 1.0);
                let power = power(x, n.unsigned_abs(), |x, y| self.binary(Binary::Mul, ty, x, y));
                match power {
                    Some(power) if n >= 0 => power,
                    Some(power) => self.binary(Binary::Div, ty, one, power),
                    None => one,
                }
            }
            Code::IsFinite => {
                let rest = self.constant(ty.lane, rest);
                let size = self.binary(Binary::And, ty, x, rest);
                let infinity = self.float(ty.lane, f64::INFINITY);
                self.compare(Order::Lt, true, ty, size, infinity)
            }
            Code::Eq | Code::Ne | Code::Lt | Code::Le | Code::Gt | Code::Ge => {
                self.compare(order(code)?, true, ty, x, y)
            }
            _ => return Err(Refused("a code on floats is not there")),
        })
    }

    fn on_integers(
        &mut self,
        code: Code,
        dtype: Dtype,
        ty: Ty,
        x: Reg,
        y: Reg,
    ) -> Result<Reg, Refused> {
        let signed = dtype.is_signed();
        Ok(match code {
            Code::Add => self.binary(Binary::Add, ty, x, y),
            Code::Sub => self.binary(Binary::Sub, ty, x, y),
            Code::Mul => self.binary(Binary::Mul, ty, x, y),
            Code::And => self.binary(Binary::And, ty, x, y),
            Code::Or => self.binary(Binary::Or, ty, x, y),
            Code::Xor => self.binary(Binary::Xor, ty, x, y),
            Code::Neg => {
                let zero = self.constant(ty.lane, 0);
                self.binary(Binary::Sub, ty, zero, x)
            }
            Code::Max | Code::Min => {
                let order = if matches!(code, Code::Max) { Order::Gt } else { Order::Lt };
                let first = self.compare(order, signed, ty, x, y);
                self.pick(ty, first, x, y)
            }
            Code::Eq | Code::Ne | Code::Lt | Code::Le | Code::Gt | Code::Ge => {
                self.compare(order(code)?, signed, ty, x, y)
            }
            _ => return Err(Refused("a code on integers is not there")),
        })
    }

    fn convert(&mut self, x: Reg, from: Dtype, to: Dtype, ty: Ty) -> Result<Reg, Refused> {
        use Dtype::{Bool, F32, F64, I32, I64, U32, U64};
        if from == to {
            return Ok(x);
        }
        let by = match (from, to) {
            (Bool, _) => {
                let Some(lane) = lane(to) else { return Ok(x) };
                let one = self.constant(lane, Literal::one(to).bits);
                let zero = self.constant(lane, 0);
                let ty = if self.uniform { whole(lane) } else { Ty { lane, n: ty.n } };
                return Ok(self.pick(ty, x, one, zero));
            }
            (_, Bool) => {
                let zero = self.constant(ty.lane, 0);
                return Ok(self.compare(Order::Ne, true, ty, x, zero));
            }
            (I32, U32) | (U32, I32) | (I64, U64) | (U64, I64) => return Ok(x),
            (F32, F64) => Conversion::F32ToF64,
            (F64, F32) => Conversion::F64ToF32,
            (I64, F64) => Conversion::I64ToF64,
            (I32, F64) => Conversion::I32ToF64,
            (I32, F32) => Conversion::I32ToF32,
            (I32, I64 | U64) => Conversion::I32ToI64,
            _ => return Err(Refused("a conversion is not there")),
        };
        let result = self.vector();
        let halves = by == Conversion::F64ToF32;
        let n = if self.uniform && by != Conversion::I32ToF32 { 8 } else { ty.n };
        self.push(Inst::Convert { by, n, to: result, x });
        if self.uniform && halves {
            // A uniform value is in all elements of a whole register.
            let all = self.vector();
            self.push(Inst::Broadcast { lane: Lane::F32, to: all, x: result });
            return Ok(all);
        }
        Ok(result)
    }

    /// A function: its recording where there is one, with calls where elements are beyond; otherwise calls.
    fn library(
        &mut self,
        library: Library,
        dtype: Dtype,
        ty: Ty,
        x: &[Reg],
    ) -> Result<Reg, Refused> {
        let number = match library.function {
            LibraryFn::Unary { .. } | LibraryFn::Binary { .. } | LibraryFn::Ternary { .. } => None,
            LibraryFn::Indexed { n, .. } => Some(n),
        };
        let of = FunctionOf { library, dtype };
        let single = self.uniform;
        let (to, inside) = match recorded::of(self, library, dtype, ty, x) {
            Some((to, inside)) => (to, Some(inside)),
            None => (self.vector(), None),
        };
        let when = match inside {
            None => When::Always,
            Some(_) if planted(Fault::EightInside) => return Ok(to),
            Some(None) => return Ok(to),
            Some(Some(mask)) => When::Outside(mask),
        };
        let word = self.word(Word::Function(library.name, of));
        let args: SmallVec<[Reg; 3]> = x.iter().copied().collect();
        let n = if single { 1 } else { ty.n };
        self.push(Inst::Call { ty: Ty { lane: ty.lane, n }, word, number, to, args, when });
        if !single {
            return Ok(to);
        }
        let all = self.vector();
        self.push(Inst::Broadcast { lane: ty.lane, to: all, x: to });
        Ok(all)
    }
}

fn class(dtype: Dtype) -> Class {
    if dtype == Dtype::Bool { Class::Mask } else { Class::Vector }
}

fn order(code: Code) -> Result<Order, Refused> {
    Ok(match code {
        Code::Eq => Order::Eq,
        Code::Ne => Order::Ne,
        Code::Lt => Order::Lt,
        Code::Le => Order::Le,
        Code::Gt => Order::Gt,
        Code::Ge => Order::Ge,
        _ => return Err(Refused("it is no comparison")),
    })
}
