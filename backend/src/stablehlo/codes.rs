//! Writes scalar codes (such as `add`) as elementwise operations.
//!
//! Most codes are written as the operation with the same meaning. The exceptions are:
//!
//! | code | is written as |
//! |---|---|
//! | `add`, `mul`, `max`, `min` of bools | `or`, `and` |
//! | `abs`, `sign` of unsigned numbers | `x`, `min(x, 1)` |
//! | `convert` of floats to integers | StableHLO leaves numbers outside the range and nan open: selects |
//! | `random_bits` | the operations of Threefry on words of 32 bits |
//! | `integer_pow` | products, as in every other engine |
//!
//! Integer divisions by zero, and shifts by at least the number's bits, have the same results in XLA as in the
//! language.

use super::library;
use super::writer::{Value, Writer};
use tapeloom_ir::prim::{Words, power, threefry2x32};
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, Problem};

/// Appends operations that apply a code to operands of one shape. Returns the result.
pub(super) fn emit(
    w: &mut Writer,
    code: Code,
    x: &[Value],
    custom: bool,
) -> Result<Value, Problem> {
    let last = &x[x.len() - 1];
    let dtype = last.ty.dtype;
    let is_bool = dtype == Dtype::Bool;
    let unary = |w: &mut Writer, name: &str| w.same(name, &[&x[0]]);
    let binary = |w: &mut Writer, name: &str| w.same(name, &[&x[0], &x[1]]);
    Ok(match code {
        Code::Add | Code::Max if is_bool => binary(w, "stablehlo.or"),
        Code::Mul | Code::Min if is_bool => binary(w, "stablehlo.and"),
        Code::Add => binary(w, "stablehlo.add"),
        Code::Sub => binary(w, "stablehlo.subtract"),
        Code::Mul => binary(w, "stablehlo.multiply"),
        Code::Div => binary(w, "stablehlo.divide"),
        Code::Rem => binary(w, "stablehlo.remainder"),
        Code::Neg => unary(w, "stablehlo.negate"),
        Code::Abs if !dtype.is_signed() => x[0].clone(),
        Code::Abs => unary(w, "stablehlo.abs"),
        Code::Sign if !dtype.is_signed() => {
            let one = w.number(1.0, &x[0]);
            w.same("stablehlo.minimum", &[&x[0], &one])
        }
        Code::Sign => unary(w, "stablehlo.sign"),
        Code::Floor => unary(w, "stablehlo.floor"),
        Code::Ceil => unary(w, "stablehlo.ceil"),
        Code::Sqrt => unary(w, "stablehlo.sqrt"),
        Code::Max => binary(w, "stablehlo.maximum"),
        Code::Min => binary(w, "stablehlo.minimum"),
        Code::Eq => w.compare("EQ", &x[0], &x[1]),
        Code::Ne => w.compare("NE", &x[0], &x[1]),
        Code::Lt => w.compare("LT", &x[0], &x[1]),
        Code::Le => w.compare("LE", &x[0], &x[1]),
        Code::Gt => w.compare("GT", &x[0], &x[1]),
        Code::Ge => w.compare("GE", &x[0], &x[1]),
        Code::And => binary(w, "stablehlo.and"),
        Code::Or => binary(w, "stablehlo.or"),
        Code::Xor => binary(w, "stablehlo.xor"),
        Code::Not => unary(w, "stablehlo.not"),
        Code::ShiftLeft => binary(w, "stablehlo.shift_left"),
        Code::ShiftRightArithmetic => binary(w, "stablehlo.shift_right_arithmetic"),
        Code::ShiftRightLogical => binary(w, "stablehlo.shift_right_logical"),
        Code::RandomBits => random_bits(w, &x[0], &x[1]),
        Code::Clamp => {
            let raised = w.same("stablehlo.maximum", &[&x[1], &x[0]]);
            w.same("stablehlo.minimum", &[&raised, &x[2]])
        }
        Code::Select => w.select(&x[0], &x[1], &x[2]),
        Code::IsFinite => {
            let ty = ArrayType::new(Dtype::Bool, last.ty.shape.clone());
            w.op("stablehlo.is_finite", &[&x[0]], "", ty)
        }
        Code::Convert(to) => convert(w, &x[0], to),
        Code::Bitcast(to) => bitcast(w, &x[0], to),
        Code::IntegerPow(n) => {
            // `power` copies its values, and `Value` is not `Copy`, so its values here are indices into the list `all`.
            let mut all = vec![x[0].clone()];
            let last = power(0, n.unsigned_abs(), |x: usize, y| {
                all.push(w.same("stablehlo.multiply", &[&all[x], &all[y]]));
                all.len() - 1
            });
            match last {
                Some(i) if n > 0 => all.swap_remove(i),
                Some(i) => {
                    let one = w.number(1.0, &x[0]);
                    w.same("stablehlo.divide", &[&one, &all[i]])
                }
                None => w.number(1.0, &x[0]),
            }
        }
        Code::Library(function) => library::emit(w, function, x, custom)?,
    })
}

/// Appends an operation that reads the bits of `x` as numbers of another dtype of the same width. Returns the result.
pub(super) fn bitcast(w: &mut Writer, x: &Value, to: Dtype) -> Value {
    let ty = ArrayType::new(to, x.ty.shape.clone());
    w.op("stablehlo.bitcast_convert", &[x], "", ty)
}

/// Appends operations that convert elements to another dtype. From floats to integers, numbers outside the range become
/// the nearest integer, and nan becomes 0; from integers to integers, numbers wrap; to bool, the result is `x != 0`.
fn convert(w: &mut Writer, x: &Value, to: Dtype) -> Value {
    let from = x.ty.dtype;
    if from == to {
        return x.clone();
    }
    if to == Dtype::Bool {
        let zero = w.number(0.0, x);
        return w.compare("NE", x, &zero);
    }
    if !from.is_float() || to.is_float() {
        return w.convert(x, to);
    }
    // If `least <= x < above`, the result is `x` without its fraction. Any other number becomes the nearest number of
    // the dtype, and nan becomes 0. Both bounds are floats.
    let bits = i32::try_from(8 * to.bytes()).unwrap_or(64);
    let (least, above) = match to.is_signed() {
        true => (-2f64.powi(bits - 1), 2f64.powi(bits - 1)),
        false => (0.0, 2f64.powi(bits)),
    };
    let [least, above, zero] = [least, above, 0.0].map(|bound| w.number(bound, x));
    let reaches = w.compare("GE", x, &least);
    let exceeds = w.compare("GE", x, &above);
    let fits = w.compare("LT", x, &above);
    let fits = w.same("stablehlo.and", &[&reaches, &fits]);
    let safe = w.select(&fits, x, &zero);
    let inside = w.convert(&safe, to);
    let bound = |x: f64| Literal::of(to, x);
    let [lowest, highest] =
        [f64::NEG_INFINITY, f64::INFINITY].map(|end| w.constant(bound(end), &x.ty.shape));
    let y = w.select(&exceeds, &highest, &inside);
    if !to.is_signed() {
        return y;
    }
    let below = w.compare("LT", x, &least);
    w.select(&below, &lowest, &y)
}

/// Appends operations that compute 64 random bits for each pair of a key and a counter. Returns the bits.
fn random_bits(w: &mut Writer, key: &Value, counter: &Value) -> Value {
    let mut words = ArrayWords { w, like: key, all: Vec::new() };
    let [key, counter] = [key, counter].map(|x| words.halves(x));
    let halves = threefry2x32(&mut words, key, counter);
    let [high, low] = halves.map(|word| words.w.convert(&words.all[word], Dtype::U64));
    let by = w.number(32.0, &high);
    let high = w.same("stablehlo.shift_left", &[&high, &by]);
    w.same("stablehlo.or", &[&high, &low])
}

/// The words of 32 bits that the generator computes, each for all elements of an array. A word is named by its index in
/// `all`.
struct ArrayWords<'a> {
    w: &'a mut Writer,
    /// An array of u64 whose shape is that of every word.
    like: &'a Value,
    all: Vec<Value>,
}

impl ArrayWords<'_> {
    fn add_word(&mut self, word: Value) -> usize {
        self.all.push(word);
        self.all.len() - 1
    }

    /// Returns the words with the upper and the lower halves of 64-bit numbers.
    fn halves(&mut self, x: &Value) -> [usize; 2] {
        let by = self.w.number(32.0, x);
        let high = self.w.same("stablehlo.shift_right_logical", &[x, &by]);
        [&high, x].map(|x| {
            let word = self.w.convert(x, Dtype::U32);
            self.add_word(word)
        })
    }

    fn binary(&mut self, name: &str, x: usize, y: usize) -> usize {
        let word = self.w.same(name, &[&self.all[x], &self.all[y]]);
        self.add_word(word)
    }
}

impl Words for ArrayWords<'_> {
    type Word = usize;

    fn word(&mut self, x: u32) -> usize {
        let literal = Literal { dtype: Dtype::U32, bits: x.into() };
        let word = self.w.constant(literal, &self.like.ty.shape);
        self.add_word(word)
    }
    fn add(&mut self, x: usize, y: usize) -> usize {
        self.binary("stablehlo.add", x, y)
    }
    fn xor(&mut self, x: usize, y: usize) -> usize {
        self.binary("stablehlo.xor", x, y)
    }
    fn rotate(&mut self, x: usize, by: u32) -> usize {
        let (left, right) = (self.word(by), self.word(32 - by));
        let left = self.binary("stablehlo.shift_left", x, left);
        let right = self.binary("stablehlo.shift_right_logical", x, right);
        self.binary("stablehlo.or", left, right)
    }
}
