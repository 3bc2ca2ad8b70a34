//! Values in a loop with lanes (a vectorized loop).
//!
//! In such a loop, a scalar of the program stands for one value per lane. [`Lanes`] is its representation, one of
//! several: one value if all lanes agree, 128-bit registers for floats, masks for comparisons of floats, and otherwise
//! one scalar per lane. Every operation accepts every representation. An operation without a vector instruction is
//! emitted lane by lane by [`scalar::emit`]. So the meaning of a code is defined in one place, and vectors only compute
//! it faster.

use super::symbols::Functions;
use super::{float, scalar};
use crate::loop_ir::combine;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use smallvec::SmallVec;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::math::EIGHT;
use tapeloom_ir::prim::{Library, ResultDtype};
use tapeloom_ir::{Code, Dtype, Literal, Problem};

/// The value of a program's scalar in all lanes of a loop.
#[derive(Clone, Debug)]
pub(super) enum Lanes {
    /// All lanes have this value.
    One(Value),
    /// Floats, lanes in order: `f64x2` or `f32x4` registers.
    Vector(Registers),
    /// Truth values, each with all bits set or none, lanes in order: `i64x2` or `i32x4` registers.
    Mask(Registers),
    /// One value per lane, each in a scalar register.
    Each(Registers),
}

impl Lanes {
    /// Returns all registers of the value.
    pub(super) fn registers(&self) -> &[Value] {
        match self {
            Lanes::One(x) => std::slice::from_ref(x),
            Lanes::Vector(xs) | Lanes::Mask(xs) | Lanes::Each(xs) => xs,
        }
    }

    /// Returns all registers of the value, mutably.
    pub(super) fn registers_mut(&mut self) -> &mut [Value] {
        match self {
            Lanes::One(x) => std::slice::from_mut(x),
            Lanes::Vector(xs) | Lanes::Mask(xs) | Lanes::Each(xs) => xs,
        }
    }
}

/// The registers of a value; those with the first lanes come first.
pub(super) type Registers = SmallVec<[Value; 4]>;

/// Returns the 128-bit vector type of a dtype, if the machine has one and `width` lanes fill at least one register.
pub(super) fn vector(vectors: bool, dtype: Dtype, width: usize) -> Option<Type> {
    match dtype {
        Dtype::F64 if vectors && width >= 2 => Some(types::F64X2),
        Dtype::F32 if vectors && width >= 4 => Some(types::F32X4),
        Dtype::F64
        | Dtype::F32
        | Dtype::Bool
        | Dtype::I32
        | Dtype::I64
        | Dtype::U32
        | Dtype::U64 => None,
    }
}

/// An emitter of scalar codes on values in all lanes.
pub(super) struct LaneBuilder<'a, 'f, 'm> {
    pub(super) b: &'a mut FunctionBuilder<'f>,
    pub(super) functions: &'a mut Functions<'m>,
    /// The number of lanes.
    pub(super) width: usize,
    /// Whether the machine has the vector instructions that are emitted.
    pub(super) vectors: bool,
}

impl LaneBuilder<'_, '_, '_> {
    /// Emits a scalar code in all lanes, on operands the last of which has the dtype `dtype`.
    pub(super) fn code(&mut self, code: Code, dtype: Dtype, x: &[Lanes]) -> Result<Lanes, Problem> {
        let ones: SmallVec<[Value; 3]> =
            x.iter().filter_map(|x| if let Lanes::One(v) = x { Some(*v) } else { None }).collect();
        if ones.len() == x.len() {
            return Ok(Lanes::One(scalar::emit(self.b, self.functions, code, dtype, &ones)?));
        }
        if let Some(y) = self.in_vectors(code, dtype, x)? {
            return Ok(y);
        }
        if let ([x], Some(library)) = (x, code.of_eight(dtype))
            && self.width >= EIGHT / 2
        {
            return self.in_eights(library, dtype, x);
        }
        let mut each: SmallVec<[Registers; 3]> = SmallVec::new();
        for (i, x) in x.iter().enumerate() {
            each.push(self.each(x, code.row().takes.dtype(i, dtype)));
        }
        let mut y = Registers::new();
        for lane in 0..self.width {
            let x: SmallVec<[Value; 3]> = each.iter().map(|x| x[lane]).collect();
            y.push(scalar::emit(self.b, self.functions, code, dtype, &x)?);
        }
        Ok(Lanes::Each(y))
    }

    /// Emits calls of the version of a library function for eight lanes. If there are only four lanes, they are passed
    /// twice, which is still faster than four scalar calls. Arguments are passed in registers and results in memory,
    /// because reading parts of a larger store does not stall, but reading several smaller stores at once would.
    fn in_eights(&mut self, library: Library, dtype: Dtype, x: &Lanes) -> Result<Lanes, Problem> {
        let f = self.functions.library_of_eight(self.b.func, library, dtype)?;
        let scalar = scalar::register(dtype);
        let bytes = EIGHT as u32 * scalar.bytes();
        // The slot is aligned to a cache line, 2⁶ bytes.
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 6);
        let slot = self.b.create_sized_stack_slot(data);
        let ty = self.vector(dtype).unwrap_or(scalar);
        let mut y = Registers::new();
        for eight in self.each(x, dtype).chunks(EIGHT) {
            let place = self.b.ins().stack_addr(types::I64, slot, 0);
            let lanes = eight.iter().copied().cycle().take(EIGHT);
            let args: SmallVec<[Value; 9]> = std::iter::once(place).chain(lanes).collect();
            self.b.ins().call(f, &args);
            let pieces = (0..eight.len() as u32 * scalar.bytes()).step_by(ty.bytes() as usize);
            y.extend(pieces.map(|at| self.b.ins().stack_load(types::I64, ty, slot, at as i32)));
        }
        Ok(if ty.is_vector() { Lanes::Vector(y) } else { Lanes::Each(y) })
    }

    fn vector(&self, dtype: Dtype) -> Option<Type> {
        vector(self.vectors, dtype, self.width)
    }

    /// Emits a scalar code by vector instructions; returns `None` if the code has no vector instructions.
    fn in_vectors(
        &mut self,
        code: Code,
        dtype: Dtype,
        x: &[Lanes],
    ) -> Result<Option<Lanes>, Problem> {
        match (code, x) {
            (Code::Convert(to), [x]) => return Ok(self.convert(x, dtype, to)),
            (Code::Clamp, [low, x, high]) if self.vector(dtype).is_some() => {
                let x = self.code(Code::Max, dtype, &[x.clone(), low.clone()])?;
                if planted(Fault::ClampF32) && dtype == Dtype::F32 {
                    return Ok(Some(x));
                }
                return self.code(Code::Min, dtype, &[x, high.clone()]).map(Some);
            }
            (_, [Lanes::Mask(_), ..] | [_, Lanes::Mask(_)]) if dtype == Dtype::Bool => {
                return Ok(self.logic(code, x));
            }
            _ => {}
        }
        let Some(ty) = self.vector(dtype) else { return Ok(None) };
        if let (Code::Select, [c, x, y]) = (code, x) {
            let (x, y) = (self.vectors(x, dtype, ty), self.vectors(y, dtype, ty));
            if let Lanes::One(c) = c {
                return Ok(Some(Lanes::Vector(
                    x.iter().zip(&y).map(|(x, y)| self.b.ins().select(*c, *x, *y)).collect(),
                )));
            }
            let mask = self.mask(c, ty.as_truthy());
            return Ok(Some(Lanes::Vector(self.choose(&mask, ty, &x, &y))));
        }
        if code.called(dtype).is_some() {
            return Ok(None);
        }
        let x: SmallVec<[Registers; 2]> = x.iter().map(|x| self.vectors(x, dtype, ty)).collect();
        let (Some(first), Some(last)) = (x.first(), x.last()) else { return Ok(None) };
        let each = first.iter().zip(last);
        let y = each.map(|(x, y)| float::emit(self.b, ty, code, *x, *y)).collect();
        let Some(y) = y else { return Ok(None) };
        let truth = code.row().gives == ResultDtype::Truth;
        Ok(Some(if truth { Lanes::Mask(y) } else { Lanes::Vector(y) }))
    }

    fn convert(&mut self, x: &Lanes, from: Dtype, to: Dtype) -> Option<Lanes> {
        if from == to {
            return Some(x.clone());
        }
        match (x, self.vector(from), self.vector(to)) {
            // A conversion of floats to bool: `x != 0`.
            (_, Some(ty), _) if to == Dtype::Bool => {
                let zero = self.splat(Literal::zero(from), ty);
                let x = self.vectors(x, from, ty);
                Some(Lanes::Mask(
                    x.iter().map(|x| self.b.ins().fcmp(FloatCC::NotEqual, *x, zero)).collect(),
                ))
            }
            // Convert the truth values, which are masks, to the numbers 0 and 1.
            (Lanes::Mask(_), _, Some(ty)) => {
                let mask = self.mask(x, ty.as_truthy());
                let one = self.splat(Literal::one(to), ty);
                let zero = self.splat(Literal::zero(to), ty);
                let (ones, zeros): (Registers, Registers) =
                    mask.iter().map(|_| (one, zero)).unzip();
                Some(Lanes::Vector(self.choose(&mask, ty, &ones, &zeros)))
            }
            _ => None,
        }
    }

    /// Emits a logical operation on masks.
    fn logic(&mut self, code: Code, x: &[Lanes]) -> Option<Lanes> {
        let ty = x.iter().find_map(|x| match x {
            Lanes::Mask(m) => Some(self.b.func.dfg.value_type(m[0])),
            Lanes::One(_) | Lanes::Vector(_) | Lanes::Each(_) => None,
        })?;
        let (x, y) = (self.mask(x.first()?, ty), self.mask(x.last()?, ty));
        let mut z = Registers::new();
        for (x, y) in x.iter().copied().zip(y) {
            let ins = self.b.ins();
            z.push(match code {
                Code::And | Code::Min | Code::Mul => ins.band(x, y),
                Code::Or | Code::Max | Code::Add => ins.bor(x, y),
                Code::Xor | Code::Ne => ins.bxor(x, y),
                Code::Not => ins.bnot(x),
                Code::Lt => ins.band_not(y, x),
                Code::Gt => ins.band_not(x, y),
                Code::Eq => {
                    let differ = ins.bxor(x, y);
                    self.b.ins().bnot(differ)
                }
                Code::Le => {
                    let above = ins.band_not(x, y);
                    self.b.ins().bnot(above)
                }
                Code::Ge => {
                    let below = ins.band_not(y, x);
                    self.b.ins().bnot(below)
                }
                Code::Sub
                | Code::Div
                | Code::Rem
                | Code::Neg
                | Code::Abs
                | Code::Sign
                | Code::Floor
                | Code::Ceil
                | Code::Sqrt
                | Code::ShiftLeft
                | Code::ShiftRightArithmetic
                | Code::ShiftRightLogical
                | Code::RandomBits
                | Code::Clamp
                | Code::Select
                | Code::IsFinite
                | Code::Convert(_)
                | Code::Bitcast(_)
                | Code::IntegerPow(_)
                | Code::Library(_) => return None,
            });
        }
        Some(Lanes::Mask(z))
    }

    /// Returns a value's lanes as scalars, one per lane.
    pub(super) fn each(&mut self, x: &Lanes, dtype: Dtype) -> Registers {
        match x {
            Lanes::One(v) => std::iter::repeat_n(*v, self.width).collect(),
            Lanes::Each(each) => each.clone(),
            Lanes::Vector(registers) | Lanes::Mask(registers) => {
                let mut each = Registers::new();
                for r in registers {
                    let lanes = self.b.func.dfg.value_type(*r).lane_count();
                    for lane in 0..lanes {
                        let v = self.b.ins().extractlane(*r, lane as u8);
                        each.push(if dtype == Dtype::Bool {
                            let bit = self.b.ins().band_imm_u(v, 1);
                            self.b.ins().ireduce(types::I8, bit)
                        } else {
                            v
                        });
                    }
                }
                each
            }
        }
    }

    /// Returns a value's lanes in vector registers of type `ty`.
    pub(super) fn vectors(&mut self, x: &Lanes, dtype: Dtype, ty: Type) -> Registers {
        let count = self.width / ty.lane_count() as usize;
        match x {
            Lanes::Vector(registers) => registers.clone(),
            Lanes::One(v) => {
                let v = self.b.ins().splat(ty, *v);
                std::iter::repeat_n(v, count).collect()
            }
            Lanes::Each(_) | Lanes::Mask(_) => {
                let each = self.each(x, dtype);
                each.chunks(ty.lane_count() as usize).map(|lanes| self.join(ty, lanes)).collect()
            }
        }
    }

    /// Returns truth values as masks in registers of type `ty`, a vector of integers.
    fn mask(&mut self, x: &Lanes, ty: Type) -> Registers {
        if let Lanes::Mask(m) = x
            && self.b.func.dfg.value_type(m[0]) == ty
        {
            return m.clone();
        }
        let lane = ty.lane_type();
        let spread = |e: &mut Self, v: Value| {
            let wide = e.b.ins().uextend(lane, v);
            e.b.ins().ineg(wide)
        };
        if let Lanes::One(v) = x {
            let v = spread(self, *v);
            let v = self.b.ins().splat(ty, v);
            return std::iter::repeat_n(v, self.width / ty.lane_count() as usize).collect();
        }
        let each = self.each(x, Dtype::Bool);
        let each: Registers = each.iter().map(|v| spread(self, *v)).collect();
        each.chunks(ty.lane_count() as usize).map(|lanes| self.join(ty, lanes)).collect()
    }

    /// Joins the scalars `lanes` into one vector register of type `ty`.
    fn join(&mut self, ty: Type, lanes: &[Value]) -> Value {
        let mut register = self.b.ins().scalar_to_vector(ty, lanes[0]);
        for (i, v) in lanes.iter().enumerate().skip(1) {
            register = self.b.ins().insertlane(register, *v, i as u8);
        }
        register
    }

    fn choose(&mut self, mask: &[Value], ty: Type, x: &[Value], y: &[Value]) -> Registers {
        let lanes = mask.iter().zip(x).zip(y);
        lanes.map(|((m, x), y)| float::choose(self.b, ty, *m, *x, *y)).collect()
    }

    /// Returns a vector register of type `ty` with the constant `x` in every lane.
    pub(super) fn splat(&mut self, x: Literal, ty: Type) -> Value {
        let x = scalar::literal(self.b, x);
        self.b.ins().splat(ty, x)
    }

    /// Folds all lanes into one scalar: first whole registers, until one register is left, and then its lanes.
    pub(super) fn reduce(
        &mut self,
        code: Code,
        dtype: Dtype,
        registers: &[Value],
    ) -> Result<Value, Problem> {
        let empty = || Problem::internal("no lanes");
        let mut registers = Registers::from(registers);
        if planted(Fault::LaneOrder) && registers.len() > 1 && dtype.is_float() {
            registers = self.each(&Lanes::Vector(registers), dtype);
            registers.swap(1, 2);
        }
        let ty = registers.first().map(|r| self.b.func.dfg.value_type(*r)).ok_or_else(empty)?;
        let last = combine(registers, |x, y| {
            if ty.is_vector()
                && let Some(v) = float::emit(self.b, ty, code, x, y)
            {
                return Ok(v);
            }
            scalar::emit(self.b, self.functions, code, dtype, &[x, y])
        })?;
        let last = last.ok_or_else(empty)?;
        if !ty.is_vector() {
            return Ok(last);
        }
        let lanes: Registers =
            (0..ty.lane_count()).map(|i| self.b.ins().extractlane(last, i as u8)).collect();
        let fold = |x, y| scalar::emit(self.b, self.functions, code, dtype, &[x, y]);
        combine(lanes, fold)?.ok_or_else(empty)
    }
}
