//! Expressions of Rust as text. Each has the precedence of its outermost operator, so that parentheses are printed only
//! where they are needed.

use crate::loop_ir::{BufferId, VarId};
use std::collections::BTreeSet;
use tapeloom_ir::{Dtype, Literal};

/// The precedence of an expression's outermost operator. The variants are ordered from the weakest to the strongest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    /// `if c { x } else { y }`, which needs parentheses wherever an operator is next to it.
    Branch,
    /// `x || y`
    Either,
    /// `x && y`
    Both,
    /// `x < y` and the other comparisons, which cannot be chained.
    Comparison,
    /// `x | y`
    Or,
    /// `x ^ y`
    Xor,
    /// `x & y`
    And,
    /// `x << n`
    Shift,
    /// `x + y`, `x - y`
    Sum,
    /// `x * y`, `x / y`, `x % y`
    Product,
    /// `x as f64`
    Cast,
    /// `-x`, `!x`, `*x`
    Unary,
    /// Names, calls, array elements and literals.
    Postfix,
}

/// The memory and the variables that an expression reads. If a statement writes one of them, the expression must not be
/// printed after that statement.
#[derive(Clone, Default, Debug)]
pub(super) struct Reads {
    pub(super) buffers: BTreeSet<BufferId>,
    pub(super) vars: BTreeSet<VarId>,
}

impl Reads {
    pub(super) fn add(&mut self, other: &Reads) {
        self.buffers.extend(&other.buffers);
        self.vars.extend(&other.vars);
    }
}

/// An expression of Rust.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    text: String,
    level: Level,
    /// If the expression is a literal without a suffix: its dtype. Rust cannot call a method on such a literal.
    literal: Option<Dtype>,
    /// For a binary expression `x + y`: its operands and its operator, from which `x += y` can be printed.
    binary: Option<(String, &'static str, String)>,
    /// For `if c { x } else { y }`: the condition `c` and the expression `x`.
    choice: Option<(String, Box<Expression>)>,
    pub(super) reads: Reads,
}

impl Expression {
    pub(super) fn new(text: impl Into<String>, level: Level) -> Expression {
        let (literal, binary, choice, reads) = (None, None, None, Reads::default());
        Expression { text: text.into(), level, literal, binary, choice, reads }
    }

    /// Returns an expression that never needs parentheses: a name, a call or an element.
    pub(super) fn atom(text: impl Into<String>) -> Expression {
        Expression::new(text, Level::Postfix)
    }

    /// Returns a constant as an expression that Rust parses to the same bits.
    pub(super) fn literal(literal: Literal) -> Expression {
        let (text, plain) = literal_text(literal);
        let level = if text.starts_with('-') { Level::Unary } else { Level::Postfix };
        let literal = plain.then_some(literal.dtype);
        Expression { literal, ..Expression::new(text, level) }
    }

    /// Returns the expression `x op y`.
    pub(super) fn binary(
        x: Expression,
        op: &'static str,
        y: Expression,
        level: Level,
    ) -> Expression {
        let compares = matches!(level, Level::Comparison | Level::Shift);
        // Put a cast in parentheses if it is the left side of a comparison: Rust parses `x as i64 < y` as the beginning
        // of generic arguments.
        let left = match x.ends_with_a_type() && compares {
            true => format!("({})", x.text),
            false if compares || (x.literal.is_some() && y.literal.is_some()) => {
                x.suffixed().within(above(level))
            }
            false => x.clone().within(level),
        };
        let right = y.clone().within(above(level));
        let text = format!("{left} {op} {right}");
        let mut both = Expression::new(text, level);
        both.reads = x.reads;
        both.reads.add(&y.reads);
        both.binary = Some((left, op, right));
        both
    }

    /// Returns the expression `-x` or `!x`, by the operator `op`.
    pub(super) fn unary(op: &str, x: Expression) -> Expression {
        // Put an operand `-x` in parentheses, because the compiler warns about `--x`.
        let level =
            if op == "-" && x.text.starts_with('-') { Level::Postfix } else { Level::Unary };
        let text = format!("{op}{}", x.suffixed().within(level));
        Expression { reads: x.reads, ..Expression::new(text, Level::Unary) }
    }

    /// Returns the expression `x as ty`.
    pub(super) fn cast(x: Expression, ty: &str) -> Expression {
        let text = format!("{} as {ty}", x.suffixed().within(Level::Cast));
        Expression { reads: x.reads, ..Expression::new(text, Level::Cast) }
    }

    /// Returns the expression `x.method(arguments)`.
    pub(super) fn method(x: Expression, method: &str, arguments: &[Expression]) -> Expression {
        let texts: Vec<&str> = arguments.iter().map(|a| a.text.as_str()).collect();
        let text =
            format!("{}.{method}({})", x.suffixed().within(Level::Postfix), texts.join(", "));
        Expression::atom(text).reading(&[&[x], arguments].concat())
    }

    /// Returns the expression `function(arguments)`.
    pub(super) fn call(function: &str, arguments: &[Expression]) -> Expression {
        let texts: Vec<&str> = arguments.iter().map(|a| a.text.as_str()).collect();
        Expression::atom(format!("{function}({})", texts.join(", "))).reading(arguments)
    }

    /// Returns the expression `if c { x } else { y }`. If `x` itself is `if c { a } else { b }` with the same
    /// condition, it is replaced by `a`.
    pub(super) fn choice(c: Expression, x: Expression, y: Expression) -> Expression {
        let x = match &x.choice {
            Some((same, inner)) if *same == c.text => (**inner).clone(),
            // If both sides were literals without a suffix, a method could not be called on the result, so give one of
            // them a suffix.
            _ if y.literal.is_some() => x.suffixed(),
            _ => x,
        };
        let text = format!("if {} {{ {} }} else {{ {} }}", c.text, x.text, y.text);
        let choice = Some((c.text.clone(), Box::new(x.clone())));
        Expression { choice, ..Expression::new(text, Level::Branch) }.reading(&[c, x, y])
    }

    /// Returns whether the expression is a sum `x + y`.
    pub(super) fn is_sum(&self) -> bool {
        matches!(self.binary, Some((_, "+", _)))
    }

    /// Returns the expression, whose reads now include the memory and variables that the operands read.
    #[must_use]
    pub(super) fn reading(mut self, operands: &[Expression]) -> Expression {
        operands.iter().for_each(|x| self.reads.add(&x.reads));
        self
    }

    /// Returns the text of the expression without parentheses, for a place where no operator is next to it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text of the expression as an operand of an operator of this level: in parentheses if the expression
    /// has a weaker operator.
    pub(super) fn within(self, level: Level) -> String {
        if self.level < level { format!("({})", self.text) } else { self.text }
    }

    /// Returns the expression. If it is a literal, it gets the suffix of its type: `2.0_f64`.
    pub(super) fn suffixed(&self) -> Expression {
        match self.literal {
            Some(dtype) => Expression {
                text: format!("{}_{}", self.text, dtype.name()),
                literal: None,
                ..self.clone()
            },
            None => self.clone(),
        }
    }

    /// Returns the text of an assignment of the expression to `place`. If the expression is `place + y`, this is the
    /// short form `place += y`.
    pub(super) fn assigned_to(&self, place: &str) -> String {
        match &self.binary {
            Some((x, op, y)) if x == place && COMPOUND.contains(op) => {
                format!("{place} {op}= {}", bare(y))
            }
            Some((x, op, y)) if y == place && matches!(*op, "+" | "*") => {
                format!("{place} {op}= {}", bare(x))
            }
            _ => format!("{place} = {}", self.text),
        }
    }

    fn ends_with_a_type(&self) -> bool {
        self.text.rsplit(' ').nth(1) == Some("as")
    }
}

/// The operators `op` for which Rust has an assignment operator `op=`.
const COMPOUND: [&str; 8] = ["+", "-", "*", "/", "%", "|", "^", "&"];

/// Returns a text without the parentheses around the whole text, if it has such.
fn bare(text: &str) -> &str {
    let Some(inside) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) else {
        return text;
    };
    let mut depth = 0;
    for c in inside.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth < 0 {
            return text;
        }
    }
    inside
}

/// Returns the next stronger level.
fn above(level: Level) -> Level {
    match level {
        Level::Branch => Level::Either,
        Level::Either => Level::Both,
        Level::Both => Level::Comparison,
        Level::Comparison => Level::Or,
        Level::Or => Level::Xor,
        Level::Xor => Level::And,
        Level::And => Level::Shift,
        Level::Shift => Level::Sum,
        Level::Sum => Level::Product,
        Level::Product => Level::Cast,
        Level::Cast => Level::Unary,
        Level::Unary | Level::Postfix => Level::Postfix,
    }
}

/// Returns the text of a constant, and whether the text has no suffix, so that Rust infers the constant's type.
fn literal_text(literal: Literal) -> (String, bool) {
    let Literal { dtype, bits } = literal;
    match dtype {
        Dtype::Bool => ((bits != 0).to_string(), false),
        Dtype::I32 => integer(i64::from(bits as u32 as i32), i64::from(i32::MIN), "i32"),
        Dtype::I64 => integer(bits as i64, i64::MIN, "i64"),
        Dtype::U32 => ((bits as u32).to_string(), true),
        Dtype::U64 => (bits.to_string(), true),
        Dtype::F32 => {
            let x = f32::from_bits(bits as u32);
            match named(x.into(), "f32") {
                Some(text) => (text, false),
                None if x.is_nan() => (format!("f32::from_bits({bits:#x})"), false),
                None => (format!("{x:?}"), true),
            }
        }
        Dtype::F64 => {
            let x = f64::from_bits(bits);
            match named(x, "f64") {
                Some(text) => (text, false),
                None if x.is_nan() => (format!("f64::from_bits({bits:#x})"), false),
                None => (format!("{x:?}"), true),
            }
        }
    }
}

/// Returns the text of an integer, and whether Rust infers its type. The least integer of a type is printed as the
/// constant `MIN`, because its digits without the minus sign overflow the type.
fn integer(x: i64, least: i64, ty: &str) -> (String, bool) {
    if x == least { (format!("{ty}::MIN"), false) } else { (x.to_string(), true) }
}

/// Returns the name of a float that cannot be written in digits (nan or an infinity); `None` for other floats.
fn named(x: f64, ty: &str) -> Option<String> {
    let name = if x == f64::INFINITY {
        "INFINITY"
    } else if x == f64::NEG_INFINITY {
        "NEG_INFINITY"
    } else if x.to_bits() == f64::NAN.to_bits() {
        "NAN"
    } else {
        return None;
    };
    Some(format!("{ty}::{name}"))
}

/// Returns the Rust type of the elements of a dtype.
pub(super) fn rust_type(dtype: Dtype) -> &'static str {
    dtype.name()
}

/// Returns the zero of a dtype as a literal without a suffix.
pub(super) fn zero(dtype: Dtype) -> String {
    Expression::literal(Literal::zero(dtype)).text
}

/// Returns the text of a constant with the suffix of its type.
pub(super) fn typed_literal(literal: Literal) -> String {
    Expression::literal(literal).suffixed().text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Expression {
        Expression::atom(text)
    }

    fn plus(x: Expression, y: Expression) -> Expression {
        Expression::binary(x, "+", y, Level::Sum)
    }

    fn times(x: Expression, y: Expression) -> Expression {
        Expression::binary(x, "*", y, Level::Product)
    }

    #[test]
    fn parentheses_stand_where_they_are_needed() {
        let [a, b, c] = ["a", "b", "c"].map(name);
        let sum = plus(a.clone(), b.clone());
        assert_eq!(times(sum.clone(), c.clone()).text(), "(a + b) * c");
        assert_eq!(plus(sum.clone(), c.clone()).text(), "a + b + c");
        assert_eq!(plus(c.clone(), sum.clone()).text(), "c + (a + b)");
        assert_eq!(Expression::method(sum.clone(), "exp", &[]).text(), "(a + b).exp()");
        assert_eq!(Expression::unary("-", sum.clone()).text(), "-(a + b)");
        let negative = Expression::literal(Literal::f64(-2.0));
        assert_eq!(Expression::unary("-", negative).text(), "-(-2.0_f64)");
        let [one, two] = [1, 2].map(|x| Expression::literal(Literal::i64(x)));
        let sides = Expression::choice(a.clone(), one, two);
        assert_eq!(sides.text(), "if a { 1_i64 } else { 2 }");
        let cast = Expression::cast(a.clone(), "i64");
        let less = Expression::binary(cast, "<", b, Level::Comparison);
        assert_eq!(less.text(), "(a as i64) < b");
        assert_eq!(plus(sum, c).assigned_to("a + b"), "a + b += c");
        let choice = Expression::choice(name("c"), a, name("b"));
        assert_eq!(plus(choice, name("d")).text(), "(if c { a } else { b }) + d");
    }

    #[test]
    fn literals_have_their_bits() {
        for (literal, text) in [
            (Literal::f64(0.1), "0.1"),
            (Literal::f64(-0.0), "-0.0"),
            (Literal::f64(f64::NEG_INFINITY), "f64::NEG_INFINITY"),
            (
                Literal { dtype: Dtype::F64, bits: 0x7ff8_0000_0000_0001 },
                "f64::from_bits(0x7ff8000000000001)",
            ),
            (Literal::of(Dtype::F32, 1e-3), "0.001"),
            (Literal::i64(i64::MIN), "i64::MIN"),
            (Literal::bool(true), "true"),
        ] {
            assert_eq!(Expression::literal(literal).text(), text);
        }
        let two = Expression::literal(Literal::f64(-2.0));
        assert_eq!(Expression::method(two, "exp", &[]).text(), "(-2.0_f64).exp()");
        let x = plus(name("x"), name("y"));
        assert_eq!(x.assigned_to("x"), "x += y");
        assert_eq!(x.assigned_to("y"), "y += x");
        let product = times(plus(name("a"), name("b")), name("y"));
        assert_eq!(product.assigned_to("y"), "y *= a + b");
    }
}
