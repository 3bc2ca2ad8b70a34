//! The derivative of a row of the scalar table as a formula, for the page of primitives.
//!
//! A partial is a function on expressions. Called with symbols it emits equations, and these are printed as one
//! formula: for `sin`, `t · cos(x)`. So the page cannot disagree with the program. `t` is the tangent, `x, y, z` are
//! the operands and `f` is the value.

use super::{Row, Signature};
use crate::lang::builder::{Builder, Draft};
use crate::lang::function::{Atom, Equation};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::types::{Dtype, Type};
use crate::prim::elementwise::{Partial, PartialFn};
use crate::prim::{Attr, Expr};
use cranelift_entity::EntityRef;

/// Returns the derivative of the row's function: one formula per operand, where operands with equal formulas
/// share a line.
pub(super) fn derivative(row: &Row) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (partial, name) in row.partials.iter().zip(["∂x", "∂y", "∂z"]) {
        let text = match partial {
            Partial::Zero(why) => format!("0, {why}"),
            Partial::Missing(why) => format!("none, {why}"),
            Partial::Of(f) => formula(row, *f, false),
            Partial::Minus(f) | Partial::MinusJoined(f, _) => formula(row, *f, true),
        };
        match lines.last_mut() {
            Some((names, same)) if *same == text => *names += &format!(", {name}"),
            _ => lines.push((name.to_owned(), text)),
        }
    }
    let lines: Vec<String> = lines.iter().map(|(names, text)| format!("{names}: {text}")).collect();
    lines.join("; ")
}

/// The precedence of the outermost operator of a formula's text, lowest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Choice,
    Or,
    And,
    Comparison,
    Sum,
    Product,
    Atom,
}

/// The text of a formula, and its precedence: as an operand of an operator with higher precedence it needs
/// parentheses.
#[derive(Clone)]
struct Text(String, Level);

impl Text {
    fn within(&self, level: Level) -> String {
        if self.1 >= level { self.0.clone() } else { format!("({})", self.0) }
    }
}

fn formula(row: &Row, partial: PartialFn, negative: bool) -> String {
    let mut module = Module::new();
    let mut draft = Draft::new("partial");
    let dtype = |i: usize| match row.signature {
        Signature::Choose if i == 0 => Dtype::Bool,
        _ => Dtype::F64,
    };
    let operands: Vec<Atom> =
        (0..row.arity()).map(|i| draft.param(Type::scalar(dtype(i)))).collect();
    let f = draft.param(Type::scalar(Dtype::F64));
    let t = draft.param(Type::scalar(Dtype::F64));
    let symbols = ["x", "y", "z"].into_iter().take(row.arity()).chain(["f", "t"]);
    let mut texts: Vec<Text> = symbols.map(|s| Text(s.to_owned(), Level::Atom)).collect();
    let result = {
        let b = Builder::new(&mut module, &mut draft);
        let x: Vec<Expr<'_, '_>> = operands.iter().map(|a| Expr::new(&b, *a)).collect();
        let t = Expr::new(&b, t);
        // A subtracted partial is printed in the usual notation, with the sign in front: negate the tangent.
        partial(if negative { -t } else { t }, &x, Expr::new(&b, f)).atom
    };
    for e in draft.equations() {
        let x: Vec<Text> = e.operands.iter().map(|a| of_atom(&texts, *a)).collect();
        texts.push(of_equation(e, &x));
    }
    of_atom(&texts, result).0
}

fn of_atom(texts: &[Text], a: Atom) -> Text {
    match a {
        Atom::Value(v) => texts.get(v.index()).cloned().unwrap_or(Text(String::new(), Level::Atom)),
        Atom::Literal(l) => Text(constant(l), Level::Atom),
    }
}

/// Returns the text of a number. Some well-known constants are printed by name, and powers of two below 2⁻²⁰ as powers.
fn constant(l: Literal) -> String {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, LOG2_E, LOG10_E};
    let known = [
        (LN_2, "ln 2"),
        (LOG2_E, "log₂ e"),
        (LOG10_E, "log₁₀ e"),
        (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2, "1/√(2π)"),
        (FRAC_2_SQRT_PI, "2/√π"),
        (-FRAC_2_SQRT_PI, "-2/√π"),
        (1.0 / FRAC_2_SQRT_PI, "√π/2"),
        (1.0 / 3.0, "1/3"),
        (0.5, "1/2"),
        (-0.5, "-1/2"),
    ];
    match known.iter().find(|(x, _)| *x == l.to_f64()) {
        Some((_, name)) => (*name).to_owned(),
        None => {
            let power = l.to_f64().log2();
            let is_small = power.is_finite() && power < -20.0 && power == power.round();
            if is_small { format!("2^{power}") } else { l.to_f64().to_string() }
        }
    }
}

fn of_equation(e: &Equation, x: &[Text]) -> Text {
    use Level::{And, Atom, Choice, Comparison, Or, Product, Sum};
    // The right operand of a minus or a division needs parentheses already at equal precedence.
    let infix = |sign: &str, level: Level, right: Level| {
        Text(format!("{} {sign} {}", x[0].within(level), x[1].within(right)), level)
    };
    match (e.op.name(), x.len()) {
        ("add", 2) => infix("+", Sum, Sum),
        ("sub", 2) => infix("-", Sum, Product),
        ("mul", 2) => infix("·", Product, Product),
        ("div", 2) => infix("/", Product, Atom),
        ("neg", 1) => Text(format!("-{}", x[0].within(Product)), Product),
        ("eq", 2) => infix("=", Comparison, Sum),
        ("lt", 2) => infix("<", Comparison, Sum),
        ("le", 2) => infix("≤", Comparison, Sum),
        ("gt", 2) => infix(">", Comparison, Sum),
        ("ge", 2) => infix("≥", Comparison, Sum),
        ("and", 2) => infix("∧", And, And),
        ("or", 2) => infix("∨", Or, Or),
        ("select", 3) => {
            let [p, a, b] = [0, 1, 2].map(|i| x[i].within(Or));
            Text(format!("{p} ? {a} : {b}"), Choice)
        }
        (name, _) => {
            let attributes: Vec<String> = e.op.attributes().iter().map(of_attribute).collect();
            let braces = if attributes.is_empty() {
                String::new()
            } else {
                format!("{{{}}}", attributes.join(", "))
            };
            let args: Vec<String> = x.iter().map(|x| x.0.clone()).collect();
            Text(format!("{name}{braces}({})", args.join(", ")), Atom)
        }
    }
}

fn of_attribute((name, value): &(&'static str, Attr)) -> String {
    match value {
        Attr::Int(i) => format!("{name}={i}"),
        other => format!("{name}={other:?}"),
    }
}
