//! The scalar table: elementwise functions, one row each.
//!
//! A row is name, mathematics, types, code, partial derivatives, linearity, domain and edge
//! conventions, samples and rewrites. Everything else (both AD modes, batching, printing, parsing,
//! interpretation, code generation, documentation, tests) is derived from it. To add a function,
//! write a row in the file of its family and name it in the list below.
//!
//! ```
//! use tapeloom_ir::Scalar;
//! assert_eq!(Scalar::Sin.row().math, "sin x");
//! ```

mod arithmetic;
mod exponential;
mod logic;
mod special;
mod trigonometric;

use super::elementwise::{self, Linear, Partial};
use super::{
    Arg, Attr, Attributes, Batched, Code, Cotangents, Discharge, Doc, Dual, Effects, Expr,
    Linearity, Lowering, Operand, Primitive, Prune, Regions, Rewrite, RuleCx, Sample, Types,
};
use crate::builder::{Builder, Draft};
use crate::function::Atom;
use crate::literal::Literal;
use crate::module::Module;
use crate::problem::{Kind, Problem};
use crate::tensor::Tensor;
use crate::types::{Dtype, Type};

/// Which dtypes a function takes and gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signature {
    /// Floats of one dtype to the same.
    Float,
    /// Numbers of one dtype to the same.
    Number,
    /// Signed numbers of one dtype to the same.
    Signed,
    /// Operands of one dtype to bool.
    Compare,
    /// Floats to bool.
    Test,
    /// Bool or integers of one dtype to the same.
    Bits,
    /// Integers of one dtype to the same.
    Integer,
    /// A bool and two operands of one dtype to that dtype.
    Choose,
}

/// Everything about one scalar function.
pub struct Row {
    /// Name in the text format.
    pub name: &'static str,
    /// The mathematics, in terms of x (and y, z).
    pub math: &'static str,
    /// Number of operands.
    pub arity: usize,
    /// Dtypes.
    pub signature: Signature,
    /// The meaning on single elements.
    pub code: Code,
    /// One partial derivative per operand.
    pub partials: &'static [Partial],
    /// In which operands the function is linear.
    pub linear: Linear,
    /// Conventions at domain edges, ties, infinities and nan.
    pub edges: &'static str,
    /// Points (one number per operand) inside the domain, where the function is smooth.
    pub smooth: &'static [&'static [f64]],
    /// Points at ties and edges, where only values are compared.
    pub edge: &'static [&'static [f64]],
    /// Equalities with this function on the left.
    pub rewrites: &'static [Rewrite],
}

/// Makes [`Scalar`] from the list of rows.
macro_rules! scalars {
    ($($variant:ident $method:ident = $row:path),* $(,)?) => {
        /// A scalar function, applied element by element.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum Scalar {
            $(#[doc = concat!("The row [`", stringify!($row), "`].")] $variant,)*
        }

        impl Scalar {
            /// Every scalar function, in the order of the list.
            pub const ALL: &'static [Scalar] = &[$(Scalar::$variant),*];

            /// The row of the table.
            pub fn row(self) -> &'static Row {
                match self {
                    $(Scalar::$variant => { static ROW: Row = $row; &ROW })*
                }
            }
        }

        /// Functions of one operand, as methods for formulas. (Others go through `binary`.)
        #[allow(dead_code, reason = "which functions formulas need changes with the table")]
        impl<'b, 'm> Expr<'b, 'm> {
            $(#[doc = concat!("Applies `", stringify!($method), "`.")]
            pub fn $method(self) -> Expr<'b, 'm> { self.unary(Scalar::$variant) })*
        }
    };
}

scalars! {
    Add add_ = arithmetic::ADD,
    Mul mul_ = arithmetic::MUL,
    Neg neg_ = arithmetic::NEG,
    Select select_ = arithmetic::SELECT,
    Sub sub_ = arithmetic::SUB,
    Div div_ = arithmetic::DIV,
    Eq eq_ = logic::EQ,
}

impl Scalar {
    fn accepts(self, dtypes: &[Dtype]) -> Result<Dtype, String> {
        let row = self.row();
        let equal = |d: &[Dtype]| d.windows(2).all(|w| w[0] == w[1]);
        let last = dtypes[dtypes.len() - 1];
        let (ok, want) = match row.signature {
            Signature::Float => (equal(dtypes) && last.is_float(), "floats of one dtype"),
            Signature::Number => (equal(dtypes) && last != Dtype::Bool, "numbers of one dtype"),
            Signature::Signed => (equal(dtypes) && last.is_signed(), "signed numbers of one dtype"),
            Signature::Compare => (equal(dtypes), "operands of one dtype"),
            Signature::Test => (equal(dtypes) && last.is_float(), "floats"),
            Signature::Bits => {
                (equal(dtypes) && !last.is_float(), "bools or integers of one dtype")
            }
            Signature::Integer => (equal(dtypes) && last.is_integer(), "integers of one dtype"),
            Signature::Choose => (
                dtypes[0] == Dtype::Bool && equal(&dtypes[1..]),
                "a bool and two operands of one dtype",
            ),
        };
        if ok { Ok(row.code.result(last)) } else { Err(want.to_owned()) }
    }
}

impl Primitive for Scalar {
    fn docs() -> Vec<Doc> {
        let entry = |s: &Scalar| {
            let row = s.row();
            Doc {
                name: row.name.to_owned(),
                math: row.math.to_owned(),
                types: format!("{:?}, {} operand(s)", row.signature, row.arity),
                derivative: derivative(*s),
                edges: row.edges.to_owned(),
            }
        };
        Scalar::ALL.iter().map(entry).collect()
    }

    fn name(&self) -> &'static str {
        self.row().name
    }

    fn attributes(&self) -> Vec<(&'static str, Attr)> {
        Vec::new()
    }

    fn parse(name: &str, _: &mut Attributes) -> Option<Result<Scalar, Problem>> {
        Scalar::ALL.iter().find(|s| s.row().name == name).map(|s| Ok(*s))
    }

    fn outputs(&self, _: &Module) -> usize {
        1
    }

    fn infer(&self, _: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        let row = self.row();
        if operands.len() != row.arity {
            return Err(Problem::new(
                Kind::Arguments,
                format!("`{}` takes {} operands, got {}", row.name, row.arity, operands.len()),
                "",
            ));
        }
        let (shape, dtypes) = elementwise::common_shape(row.name, operands)?;
        let dtype = self.accepts(&dtypes).map_err(|want| {
            let list: Vec<String> = operands.iter().map(|o| o.ty.to_string()).collect();
            Problem::new(
                Kind::Dtype,
                format!("`{}` needs {want}, got {}", row.name, list.join(" and ")),
                "bring the operands to one dtype with `convert`",
            )
        })?;
        Ok(elementwise::one_type(dtype, shape))
    }

    fn eval(&self, _: &Module, operands: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
        elementwise::eval(self.row().code, operands)
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        elementwise::jvp(cx, (*self).into(), self.row().partials, x, dx)
    }

    fn is_linear(&self, _: &Module, operands: &[Linearity]) -> bool {
        self.row().linear.admits(operands)
    }

    fn transpose(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Arg],
        ct: &[Option<Atom>],
        into: &mut Cotangents,
    ) -> Result<(), Problem> {
        elementwise::transpose(cx, self.name(), self.row().partials, x, ct, into)
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem> {
        elementwise::batch(cx, (*self).into(), size, x, batched)
    }

    fn discharge(&self) -> Discharge {
        Discharge::Stateless
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        Ok(Prune::Whole)
    }

    fn lower(&self, _: &Module, _: &[Operand<'_>]) -> Lowering {
        Lowering::Elementwise(self.row().code)
    }

    fn effects(&self, _: &Module) -> Effects {
        Effects::Pure
    }

    fn rewrites() -> Vec<Rewrite> {
        Scalar::ALL.iter().flat_map(|s| s.row().rewrites).copied().collect()
    }

    fn samples(_: &mut Module) -> Vec<Sample> {
        Scalar::ALL.iter().flat_map(|s| row_samples(*s)).collect()
    }
}

/// The row's points as tensors: all of them in one vector per dtype, and the first as scalars.
fn row_samples(scalar: Scalar) -> Vec<Sample> {
    let row = scalar.row();
    let column = |points: &[&[f64]], i: usize, dtype: Dtype| {
        let ty = crate::types::ArrayType::new(dtype, [points.len()]);
        let mut t = Tensor::zeros(&ty);
        for (k, p) in points.iter().enumerate() {
            t.set(k, Literal::of(dtype, p[i]));
        }
        t
    };
    let dtypes: &[Dtype] = match row.signature {
        Signature::Float | Signature::Test => &[Dtype::F64, Dtype::F32],
        Signature::Number | Signature::Signed | Signature::Choose => {
            &[Dtype::F64, Dtype::F32, Dtype::I64, Dtype::I32]
        }
        Signature::Compare => &Dtype::ALL,
        Signature::Bits => &[Dtype::Bool, Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64],
        Signature::Integer => &[Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64],
    };
    let operand = |points: &[&[f64]], i: usize, dtype: Dtype| {
        let choice = row.signature == Signature::Choose && i == 0;
        column(points, i, if choice { Dtype::Bool } else { dtype })
    };
    let mut samples = Vec::new();
    for dtype in dtypes {
        for (points, smooth) in [(row.smooth, true), (row.edge, false)] {
            if points.is_empty() {
                continue;
            }
            let vectors = (0..row.arity).map(|i| operand(points, i, *dtype)).collect();
            let scalars = (0..row.arity)
                .map(|i| Tensor::full(&[], operand(points, i, *dtype).get(0)))
                .collect();
            let differentiable =
                smooth && *dtype == Dtype::F64 && row.code.result(*dtype).is_float();
            for operands in [vectors, scalars] {
                samples.push(Sample { op: scalar.into(), operands, smooth: differentiable });
            }
        }
    }
    samples
}

/// The derivative as program text, from the partials themselves: one formula per operand.
fn derivative(scalar: Scalar) -> String {
    let row = scalar.row();
    let mut lines = Vec::new();
    for (i, partial) in row.partials.iter().enumerate() {
        let name = ["x", "y", "z"][i];
        lines.push(match partial {
            Partial::Zero(why) => format!("∂{name}: 0, {why}"),
            Partial::Missing(why) => format!("∂{name}: none, {why}"),
            Partial::Of(f) => format!("∂{name}: {}", formula(scalar, *f)),
        });
    }
    lines.join("; ")
}

/// Runs a partial on symbols and writes what it emitted as one formula, `t` being the tangent.
fn formula(scalar: Scalar, partial: elementwise::PartialFn) -> String {
    let mut module = Module::new();
    let mut draft = Draft::new("partial");
    let row = scalar.row();
    let mut names: Vec<String> = Vec::new();
    let operands: Vec<Atom> = (0..row.arity)
        .map(|i| {
            names.push(["x", "y", "z"][i].to_owned());
            let choice = row.signature == Signature::Choose && i == 0;
            draft.param(Type::scalar(if choice { Dtype::Bool } else { Dtype::F64 }))
        })
        .collect();
    let output = draft.param(Type::scalar(Dtype::F64));
    names.push("f".to_owned());
    let t = draft.param(Type::scalar(Dtype::F64));
    names.push("t".to_owned());
    let result = {
        let b = Builder::new(&mut module, &mut draft);
        let exprs: Vec<Expr<'_, '_>> = operands.iter().map(|a| Expr::new(&b, *a)).collect();
        partial(Expr::new(&b, t), &exprs, Expr::new(&b, output)).atom
    };
    for e in draft.equations() {
        let args: Vec<String> = e.operands.iter().map(|a| show(&names, *a)).collect();
        names.push(match (e.op.name(), args.as_slice()) {
            ("add", [x, y]) => format!("({x} + {y})"),
            ("sub", [x, y]) => format!("({x} - {y})"),
            ("mul", [x, y]) => format!("{x} · {y}"),
            ("div", [x, y]) => format!("{x} / ({y})"),
            ("neg", [x]) => format!("-{x}"),
            (name, _) => {
                let attributes: Vec<String> =
                    e.op.attributes()
                        .iter()
                        .map(|(k, v)| match v {
                            Attr::Int(i) => format!("{k}={i}"),
                            other => format!("{k}={other:?}"),
                        })
                        .collect();
                let braces = if attributes.is_empty() {
                    String::new()
                } else {
                    format!("{{{}}}", attributes.join(", "))
                };
                format!("{name}{braces}({})", args.join(", "))
            }
        });
    }
    show(&names, result)
}

fn show(names: &[String], a: Atom) -> String {
    use cranelift_entity::EntityRef;
    match a {
        Atom::Value(v) => names.get(v.index()).cloned().unwrap_or_default(),
        Atom::Literal(l) => l.to_string(),
    }
}
