//! Helper functions of the printed source. If the program needs a helper, it is printed once, in a module `math`.
//!
//! The text of a helper is written for any dtype: `T` stands for the type of its elements, `UNSIGNED` and `SIGNED` for
//! the integer types of the same width, and `NAME` for the helper's name.

use tapeloom_ir::Dtype;

/// A helper function.
#[derive(Debug)]
pub(super) struct Helper {
    name: &'static str,
    /// The dtype for which the helper's name has no suffix. For other dtypes, the suffix is the dtype.
    usual: Dtype,
    text: &'static str,
}

macro_rules! helpers {
    ($($name:ident = $word:literal, $usual:ident, $text:literal;)*) => {
        $(pub(super) const $name: Helper = Helper { name: $word, usual: Dtype::$usual, text: $text };)*
    };
}

helpers! {
    MAX = "max", F64, "/// Returns the larger of two numbers; nan if one of them is nan, and 0 for -0 and 0.
fn NAME(x: T, y: T) -> T {
    if x.is_nan() || x > y || (x == y && y.is_sign_negative()) { x } else { y }
}
";
    MIN = "min", F64, "/// Returns the smaller of two numbers; nan if one of them is nan, and -0 for -0 and 0.
fn NAME(x: T, y: T) -> T {
    if x.is_nan() || x < y || (x == y && x.is_sign_negative()) { x } else { y }
}
";
    SIGN = "sign", F64, "/// Returns -1, 0 or 1; zeros and nan as they are.
fn NAME(x: T) -> T {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x
    }
}
";
    DIVIDE = "divide", I64, "/// Returns `x / y`, truncated towards 0. If `y` is 0, all bits are set.
fn NAME(x: T, y: T) -> T {
    if y == 0 { !0 } else { x.wrapping_div(y) }
}
";
    REMAINDER = "remainder", I64, "/// Returns the remainder of `x / y`, with the sign of `x`. If `y` is 0, it is `x`.
fn NAME(x: T, y: T) -> T {
    if y == 0 { x } else { x.wrapping_rem(y) }
}
";
    SHIFT_LEFT = "shift_left", I64, "/// Returns `x << by`; 0 if all bits are shifted out.
fn NAME(x: T, by: T) -> T {
    if (by as UNSIGNED) < T::BITS as UNSIGNED { x << by } else { 0 }
}
";
    SHIFT_RIGHT = "shift_right", I64, "/// Returns `x >> by`, filled with copies of the top bit.
fn NAME(x: T, by: T) -> T {
    ((x as SIGNED) >> (by as UNSIGNED).min(T::BITS as UNSIGNED - 1)) as T
}
";
    SHIFT_RIGHT_LOGICAL = "shift_right_logical", I64, "/// Returns `x >> by`, filled with zeros; 0 if all bits are shifted out.
fn NAME(x: T, by: T) -> T {
    if (by as UNSIGNED) < T::BITS as UNSIGNED { ((x as UNSIGNED) >> by) as T } else { 0 }
}
";
    RANDOM_BITS = "random_bits", U64, "/// Returns 64 random bits for a key and a counter: the block function Threefry-2x32 with 20 rounds.
fn NAME(key: u64, counter: u64) -> u64 {
    let words = |x: u64| [(x >> 32) as u32, x as u32];
    let [k, mut x] = [words(key), words(counter)];
    let keys = [k[0], k[1], k[0] ^ k[1] ^ 0x1bd1_1bda];
    x = [x[0].wrapping_add(keys[0]), x[1].wrapping_add(keys[1])];
    for round in 0..5 {
        for by in [[13, 15, 26, 6], [17, 29, 16, 24]][round % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[0] ^ x[1].rotate_left(by);
        }
        x[0] = x[0].wrapping_add(keys[(round + 1) % 3]);
        x[1] = x[1].wrapping_add(keys[(round + 2) % 3]).wrapping_add(round as u32 + 1);
    }
    u64::from(x[0]) << 32 | u64::from(x[1])
}
";
    LOGISTIC = "logistic", F64, "/// Returns `1 / (1 + exp(-x))`.
fn NAME(x: T) -> T {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}
";
    LOGISTIC_DENSITY = "logistic_density", F64, "/// Returns the derivative of `1 / (1 + exp(-x))`.
fn NAME(x: T) -> T {
    let e = (-x.abs()).exp();
    e / ((1.0 + e) * (1.0 + e))
}
";
    SOFTPLUS = "softplus", F64, "/// Returns `ln(1 + exp(x))`.
fn NAME(x: T) -> T {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
";
    LOGADDEXP = "logaddexp", F64, "/// Returns `ln(exp(x) + exp(y))`.
fn NAME(x: T, y: T) -> T {
    if x == y { x + std::T::consts::LN_2 } else { x.max(y) + (-(x - y).abs()).exp().ln_1p() }
}
";
    SECH = "sech", F64, "/// Returns `1 / cosh(x)`.
fn NAME(x: T) -> T {
    let e = (-x.abs()).exp();
    2.0 * e / (1.0 + e * e)
}
";
    SECH_SQUARE = "sech_square", F64, "/// Returns `1 / cosh(x)^2`, the derivative of `tanh`.
fn NAME(x: T) -> T {
    let e = (-2.0 * x.abs()).exp();
    4.0 * e / ((1.0 + e) * (1.0 + e))
}
";
    NEXT_AFTER = "nextafter", F64, "/// Returns the number next to `x` in the direction of `y`.
fn NAME(x: T, y: T) -> T {
    if x < y {
        x.next_up()
    } else if x > y {
        x.next_down()
    } else {
        y + (x - x)
    }
}
";
}

/// The helper functions that the printed text calls.
#[derive(Default, Debug)]
pub(super) struct Helpers {
    /// The names of the helpers with their texts, in the order of first use.
    wanted: Vec<(String, String)>,
}

impl Helpers {
    /// Returns the path of a helper for this dtype, such as `math::sign`, and adds the helper to the module.
    pub(super) fn of(&mut self, helper: &Helper, dtype: Dtype) -> String {
        let ty = dtype.name();
        let name = name(helper.name, dtype, helper.usual);
        let width = 8 * dtype.bytes();
        let text = helper.text.replace("NAME", &name);
        let text = text.replace("UNSIGNED", &format!("u{width}"));
        let text = text.replace("SIGNED", &format!("i{width}"));
        let text = text.replace(": T", &format!(": {ty}")).replace("-> T", &format!("-> {ty}"));
        let text = text.replace("T::", &format!("{ty}::")).replace("as T", &format!("as {ty}"));
        self.add(&name, || text)
    }

    /// Adds a function with this name to the module, unless the module already has it. Returns the function's path.
    pub(super) fn add(&mut self, name: &str, text: impl FnOnce() -> String) -> String {
        if !self.wanted.iter().any(|(known, _)| known == name) {
            self.wanted.push((name.to_owned(), text()));
        }
        format!("math::{name}")
    }

    /// Returns the text of the module with all helpers; `None` if no helper is needed.
    pub(super) fn module(&self) -> Option<String> {
        let texts: Vec<&str> = self.wanted.iter().map(|(_, text)| text.as_str()).collect();
        if texts.is_empty() {
            return None;
        }
        let mut text =
            String::from("/// Functions of numbers that the standard library lacks.\nmod math {\n");
        for line in texts.join("\n").lines() {
            let public = if line.starts_with("fn ") { "pub " } else { "" };
            let indented =
                if line.is_empty() { String::new() } else { format!("    {public}{line}") };
            text += &indented;
            text.push('\n');
        }
        Some(text + "}\n")
    }
}

/// Returns the name of a helper for a dtype: `name`, with the dtype as a suffix unless the dtype is `usual`.
pub(super) fn name(name: &str, dtype: Dtype, usual: Dtype) -> String {
    if dtype == usual { name.to_owned() } else { format!("{name}_{dtype}") }
}
