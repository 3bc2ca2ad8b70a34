//! Selection of vector instructions for scalar codes (the loop IR's operations on single elements).

use super::{FunctionOf, Numbered, Refused, Select, Val, Word, lane};
use crate::codegen::simd::form::{
    Binary, Class, Conversion, Inst, Lane, Logic, Order, Reg, Ty, Unary, When,
};
use crate::codegen::simd::recorded;
use cranelift_entity::EntityRef;
use smallvec::SmallVec;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Library, Words, power, threefry2x32};
use tapeloom_ir::{Code, Dtype, Literal};

impl Select<'_> {
    /// Selects instructions for a scalar code (an operation on single elements). `dtype` is that of the last operand.
    pub(super) fn code(&mut self, code: Code, dtype: Dtype, args: &[Val]) -> Result<Val, Refused> {
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
            let ty = n.map_or(self.whole(lane), |n| Ty { lane, n });
            regs.push(self.one(code, dtype, ty, &args)?);
        }
        Ok(Val { regs, uniform })
    }

    /// Selects instructions for a scalar code on one vector of each operand, whose elements have type `ty`.
    pub(super) fn one(
        &mut self,
        code: Code,
        dtype: Dtype,
        ty: Ty,
        x: &[Reg],
    ) -> Result<Reg, Refused> {
        if let Some(library) = code.called(dtype) {
            return self.library(library, dtype, ty, x);
        }
        match (code, x) {
            (Code::Select, [c, x, y]) => return Ok(self.select(dtype, ty, *c, *x, *y)),
            (Code::Convert(to), [x]) => return self.convert(*x, dtype, to, ty),
            (Code::Bitcast(_), [x]) => return Ok(*x),
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

    pub(super) fn select(&mut self, dtype: Dtype, ty: Ty, c: Reg, x: Reg, y: Reg) -> Reg {
        if dtype != Dtype::Bool {
            return self.pick(ty, c, x, y);
        }
        let (yes, no) = (self.logic(Logic::And, c, x), self.logic(Logic::AndNot, c, y));
        self.logic(Logic::Or, yes, no)
    }

    pub(super) fn truth(&mut self, code: Code, x: Reg, y: Reg) -> Result<Reg, Refused> {
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
            _ => return Err(Refused("a code on bools is not supported")),
        })
    }

    pub(super) fn on_floats(&mut self, code: Code, ty: Ty, x: Reg, y: Reg) -> Result<Reg, Refused> {
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
            _ => return Err(Refused("a code on floats is not supported")),
        })
    }

    pub(super) fn on_integers(
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
            Code::Not => {
                let ones = self.constant(ty.lane, u64::MAX);
                self.binary(Binary::Xor, ty, x, ones)
            }
            Code::Abs => {
                let zero = self.constant(ty.lane, 0);
                let below = self.compare(Order::Lt, signed, ty, x, zero);
                let negative = self.binary(Binary::Sub, ty, zero, x);
                self.pick(ty, below, negative, x)
            }
            Code::Sign => {
                let [zero, one, minus_one] = [0, 1, u64::MAX].map(|c| self.constant(ty.lane, c));
                let below = self.compare(Order::Lt, signed, ty, x, zero);
                let above = self.compare(Order::Gt, signed, ty, x, zero);
                let low = self.pick(ty, below, minus_one, x);
                self.pick(ty, above, one, low)
            }
            Code::ShiftLeft => self.binary(Binary::ShiftLeft, ty, x, y),
            Code::ShiftRightLogical => self.binary(Binary::ShiftRight, ty, x, y),
            Code::ShiftRightArithmetic => self.binary(Binary::ShiftRightArithmetic, ty, x, y),
            Code::RandomBits if ty.lane == Lane::I64 => self.random_bits(ty, x, y),
            Code::IntegerPow(n) if n >= 0 => {
                let power = power(x, n.unsigned_abs(), |x, y| self.binary(Binary::Mul, ty, x, y));
                power.unwrap_or_else(|| self.constant(ty.lane, 1))
            }
            Code::Max | Code::Min => {
                let order = if matches!(code, Code::Max) { Order::Gt } else { Order::Lt };
                let first = self.compare(order, signed, ty, x, y);
                self.pick(ty, first, x, y)
            }
            Code::Eq | Code::Ne | Code::Lt | Code::Le | Code::Gt | Code::Ge => {
                self.compare(order(code)?, signed, ty, x, y)
            }
            _ => return Err(Refused("a code on integers is not supported")),
        })
    }

    pub(super) fn convert(
        &mut self,
        x: Reg,
        from: Dtype,
        to: Dtype,
        ty: Ty,
    ) -> Result<Reg, Refused> {
        use Dtype::{Bool, F32, F64, I32, I64, U32, U64};
        let by = match (from, to) {
            (Bool, Bool) => return Ok(x),
            (Bool, _) => {
                let Some(lane) = lane(to) else { return Ok(x) };
                let one = self.constant(lane, Literal::one(to).bits);
                let zero = self.constant(lane, 0);
                let ty = if self.uniform { self.whole(lane) } else { Ty { lane, n: ty.n } };
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
            (U64, F64) => Conversion::U64ToF64,
            (I64, F32) => Conversion::I64ToF32,
            (U64, F32) => Conversion::U64ToF32,
            (I32, F64) => Conversion::I32ToF64,
            (U32, F64) => Conversion::U32ToF64,
            (I32, F32) => Conversion::I32ToF32,
            (U32, F32) => Conversion::U32ToF32,
            (I32, I64 | U64) => Conversion::I32ToI64,
            (U32, I64 | U64) => Conversion::U32ToI64,
            (I64 | U64, I32 | U32) => Conversion::I64ToI32,
            (F64, I64) => Conversion::F64ToI64,
            (F64, U64) => Conversion::F64ToU64,
            (F32, I64) => Conversion::F32ToI64,
            (F32, U64) => Conversion::F32ToU64,
            (F64, I32) => Conversion::F64ToI32,
            (F64, U32) => Conversion::F64ToU32,
            (F32, I32) => Conversion::F32ToI32,
            (F32, U32) => Conversion::F32ToU32,
            (F64, F64) | (F32, F32) | (I64, I64) | (I32, I32) | (U64, U64) | (U32, U32) => {
                return Ok(x);
            }
        };
        if from.is_float() && !to.is_float() {
            return Ok(self.saturated(by, to, ty, x));
        }
        Ok(self.converted(by, ty, x))
    }

    /// Emits a conversion of one vector. If the value is uniform (equal in all elements), its result must fill a whole
    /// machine register with equal elements.
    fn converted(&mut self, by: Conversion, ty: Ty, x: Reg) -> Reg {
        let (from, to) = by.lanes();
        let wide = from.bytes().max(to.bytes());
        let n = if self.uniform { self.vector_bytes / wide } else { ty.n };
        let result = self.make(Class::Vector, |to| Inst::Convert { by, n, to, x });
        if !self.uniform || to.bytes() == wide {
            return result;
        }
        self.make(Class::Vector, |all| Inst::Broadcast { lane: to, to: all, x: result })
    }

    /// Emits the conversion of a float, rounded towards zero and clamped to the range of dtype `to`; nan becomes 0.
    fn saturated(&mut self, by: Conversion, to: Dtype, ty: Ty, x: Reg) -> Reg {
        let (lane, unsigned) = (by.lanes().1, !to.is_signed());
        let bits = lane.bytes() as i32 * 8;
        let result = if self.uniform { self.whole(lane) } else { Ty { lane, n: ty.n } };
        let zero = self.float(ty.lane, 0.0);
        let x = if unsigned {
            let below = self.compare(Order::Lt, true, ty, x, zero);
            self.pick(ty, below, zero, x)
        } else {
            x
        };
        let whole = self.converted(by, ty, x);
        let none = self.constant(lane, 0);
        let nan = self.compare(Order::Unordered, true, ty, x, x);
        if unsigned {
            return self.pick(result, nan, none, whole);
        }
        // The instruction already returns the least integer for values below the range, so correct only values above
        // the range.
        let end = self.float(ty.lane, 2f64.powi(bits - 1));
        let beyond = self.compare(Order::Ge, true, ty, x, end);
        let greatest = self.constant(lane, (1 << (bits - 1)) - 1);
        let number = self.pick(result, beyond, greatest, whole);
        self.pick(result, nan, none, number)
    }

    /// Emits the block function of the Threefry generator for a key and a counter, each two 32-bit words in a 64-bit
    /// element.
    fn random_bits(&mut self, ty: Ty, key: Reg, counter: Reg) -> Reg {
        let mut words = |x: Reg| [self.unary(Unary::ShiftRight(32), ty, x), x];
        let (key, counter) = (words(key), words(counter));
        let ty = Ty { lane: Lane::I32, n: 2 * ty.n };
        let [high, low] = threefry2x32(&mut InLanes { s: self, ty }, key, counter);
        let ty = Ty { lane: Lane::I64, n: ty.n / 2 };
        let half = self.constant(Lane::I64, u64::from(u32::MAX));
        let high = self.unary(Unary::ShiftLeft(32), ty, high);
        let low = self.binary(Binary::And, ty, low, half);
        self.binary(Binary::Or, ty, high, low)
    }

    /// Emits a library function. If the function has a recording (an inlined list of operations), calls only handle the
    /// elements outside of the recording's domain; otherwise calls handle all elements.
    pub(super) fn library(
        &mut self,
        library: Library,
        dtype: Dtype,
        ty: Ty,
        x: &[Reg],
    ) -> Result<Reg, Refused> {
        let single = self.uniform;
        let n = if single { 1 } else { ty.n };
        let args: SmallVec<[Reg; 3]> = x.iter().copied().collect();
        let key = Numbered::Function(
            library.name,
            library.number(),
            Ty { lane: ty.lane, n },
            args.clone(),
        );
        if let Some(Some(made)) = self.numbers.get(&key) {
            return Ok(*made);
        }
        let first = self.program.regs.len();
        let (to, when) = match recorded::inline_recording(self, library, dtype, ty, x) {
            None => (self.vector(), When::Always),
            Some((to, None)) => return Ok(to),
            Some((to, Some(_))) if planted(Fault::EightInside) => return Ok(to),
            // Copy the recording's result: the calls overwrite some of its elements, and other code may read its
            // register.
            Some((x, Some(mask))) if x.index() < first => {
                let to = self.vector();
                self.push(Inst::Move { to, x });
                (to, When::Outside(mask))
            }
            Some((to, Some(mask))) => {
                self.drop_record(to);
                (to, When::Outside(mask))
            }
        };
        let word = self.word(Word::Function(library.name, FunctionOf { library, dtype }));
        let called = Ty { lane: ty.lane, n };
        let number = library.number();
        self.push(Inst::Call { ty: called, word, number, to, args, when });
        let all = match single {
            false => to,
            true => {
                let all = self.vector();
                self.push(Inst::Broadcast { lane: ty.lane, to: all, x: to });
                all
            }
        };
        self.record_value(key, x, all);
        Ok(all)
    }
}

/// An emitter of Threefry's operations on vectors of 32-bit words, of which every second word is used (one per 64-bit
/// element).
struct InLanes<'s, 'k> {
    s: &'s mut Select<'k>,
    ty: Ty,
}

impl Words for InLanes<'_, '_> {
    type Word = Reg;
    fn word(&mut self, x: u32) -> Reg {
        self.s.constant(Lane::I32, x.into())
    }
    fn add(&mut self, x: Reg, y: Reg) -> Reg {
        self.s.binary(Binary::Add, self.ty, x, y)
    }
    fn xor(&mut self, x: Reg, y: Reg) -> Reg {
        self.s.binary(Binary::Xor, self.ty, x, y)
    }
    fn rotate(&mut self, x: Reg, by: u32) -> Reg {
        self.s.unary(Unary::Rotate(by as u8), self.ty, x)
    }
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
