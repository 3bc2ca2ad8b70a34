//! Writes library functions, each in the form that the function's table row states ([`StableHlo`]).

use super::codes::{self, bitcast};
use super::types::ClientFunction;
use super::writer::{Value, Writer};
use tapeloom_ir::math::{Noted, Operation, Recording};
use tapeloom_ir::prim::{Expr, Formula, Library, Lowering, Parameter, StableHlo};
use tapeloom_ir::{Atom, Builder, Code, Draft, Dtype, Kind, Literal, Module, Problem, Type};

/// Appends a library function, applied to operands of one shape, and returns the result. `custom` says whether
/// functions of the client may be called.
pub(super) fn emit(
    w: &mut Writer,
    function: Library,
    x: &[Value],
    custom: bool,
) -> Result<Value, Problem> {
    let parameter = Code::Library(function).row().parameter;
    match function.stablehlo {
        StableHlo::Operation(name) => Ok(match (parameter, x) {
            (Some(Parameter::N(n)), [x]) => {
                let order = w.number(n as f64, x);
                operation(w, name, &[&order, x])
            }
            _ => operation(w, name, &x.iter().collect::<Vec<_>>()),
        }),
        StableHlo::Formula(formula) => inlined(w, formula, x, custom),
        StableHlo::Recording => match function.recording(x[0].ty.dtype) {
            Some(recording) => Ok(recorded(w, recording, x)),
            None => Err(Problem::internal(format!("`{}` has no recording", function.name))),
        },
        StableHlo::CustomCall if custom => {
            let order = match parameter {
                Some(Parameter::N(n)) => format!("backend_config = {{n = {n} : i64}}, "),
                Some(Parameter::To(_)) | None => String::new(),
            };
            let called = ClientFunction::Elementwise(function);
            Ok(w.custom_call(called, x, &order, vec![x[0].ty.clone()]).remove(0))
        }
        StableHlo::CustomCall => Err(Problem::new(
            Kind::Target,
            format!("StableHLO has no operation for `{}`", function.name),
            "allow calls of functions of the client by the option `custom_calls`, or compute the function on this machine",
        )),
    }
}

/// Appends an operation of StableHLO or CHLO. Returns the result.
fn operation(w: &mut Writer, name: &str, x: &[&Value]) -> Value {
    match name.starts_with("chlo.") {
        true => w.op(name, x, "", x[0].ty.clone()),
        false => w.same(name, x),
    }
}

/// Appends the equations of a formula for a library function. Returns the result.
fn inlined(w: &mut Writer, formula: Formula, x: &[Value], custom: bool) -> Result<Value, Problem> {
    let mut module = Module::new();
    let mut draft = Draft::new("formula");
    let params: Vec<Atom> = x.iter().map(|x| draft.param(Type::Array(x.ty.clone()))).collect();
    let b = Builder::new(&mut module, &mut draft);
    let exprs: Vec<Expr<'_, '_>> = params.iter().map(|x| Expr::new(&b, *x)).collect();
    let result = formula(&exprs).atom;
    let id = draft.finish(&mut module, vec![result])?;
    let f = module.function(id);
    let mut values = cranelift_entity::SecondaryMap::<_, Option<Value>>::new();
    for (param, x) in f.params.iter().zip(x) {
        values[*param] = Some(x.clone());
    }
    let shape = &x[0].ty.shape;
    for e in &f.equations {
        let Lowering::Elementwise(code) = e.lower(&module, f) else {
            return Err(Problem::internal("a formula is not elementwise"));
        };
        let operands: Option<Vec<Value>> = (e.operands.iter())
            .map(|a| match a {
                Atom::Value(v) => values[*v].clone(),
                Atom::Literal(x) => Some(w.constant(*x, shape)),
            })
            .collect();
        let operands = operands.ok_or_else(|| Problem::internal("a formula is not in order"))?;
        let y = tapeloom_ir::deeper(|| codes::emit(w, code, &operands, custom))?;
        values[e.outputs[0]] = Some(y);
    }
    match f.results[0] {
        Atom::Literal(y) => Ok(w.constant(y, shape)),
        Atom::Value(v) => {
            values[v].clone().ok_or_else(|| Problem::internal("a formula has no result"))
        }
    }
}

/// A value of a recording (a list of operations): a truth value, or a number. The bits of a number are appended when an
/// operation first needs them.
struct Recorded {
    value: Value,
    bits: Option<Value>,
}

/// Appends the operations of a recording, applied to `x`. Returns the last result.
fn recorded(w: &mut Writer, recording: &Recording, x: &[Value]) -> Value {
    let mut list = Emitted { w, like: &x[0], all: Vec::new() };
    for operation in &recording.list {
        let value = match *operation {
            Operation::Argument(i) => x[usize::from(i)].clone(),
            Operation::Constant(bits) => {
                let literal = Literal { dtype: x[0].ty.dtype, bits };
                list.w.constant(literal, &x[0].ty.shape)
            }
            Operation::Add(x, y) => list.same("stablehlo.add", &[x, y]),
            Operation::Sub(x, y) => list.same("stablehlo.subtract", &[x, y]),
            Operation::Mul(x, y) => list.same("stablehlo.multiply", &[x, y]),
            Operation::Div(x, y) => list.same("stablehlo.divide", &[x, y]),
            Operation::Fma(x, y, z) => {
                let product = list.same("stablehlo.multiply", &[x, y]);
                list.w.same("stablehlo.add", &[&product, &list.all[z.0 as usize].value])
            }
            Operation::Sqrt(x) => list.same("stablehlo.sqrt", &[x]),
            Operation::Lt(x, y) => list.compare("LT", x, y),
            Operation::Le(x, y) => list.compare("LE", x, y),
            Operation::Eq(x, y) => list.compare("EQ", x, y),
            Operation::Always(holds) => list.w.constant(Literal::bool(holds), &x[0].ty.shape),
            Operation::Both(x, y) => list.same("stablehlo.and", &[x, y]),
            Operation::Either(x, y) => list.same("stablehlo.or", &[x, y]),
            Operation::Not(x) => list.same("stablehlo.not", &[x]),
            Operation::Pick(mask, x, y) => {
                let [mask, x, y] = [mask, x, y].map(|i| list.all[i.0 as usize].value.clone());
                list.w.select(&mask, &x, &y)
            }
            Operation::PlusBits(x, y) => list.on_bits("stablehlo.add", x, y),
            Operation::And(x, y) => list.on_bits("stablehlo.and", x, y),
            Operation::Or(x, y) => list.on_bits("stablehlo.or", x, y),
            Operation::Xor(x, y) => list.on_bits("stablehlo.xor", x, y),
            Operation::ShiftLeft(x, by) => list.shifted("stablehlo.shift_left", x, by),
            Operation::ShiftRight(x, by) => list.shifted("stablehlo.shift_right_logical", x, by),
        };
        list.all.push(Recorded { value, bits: None });
    }
    list.all.swap_remove(recording.result.0 as usize).value
}

/// The results of those operations of a recording that have been appended.
struct Emitted<'a> {
    w: &'a mut Writer,
    /// The first argument; every number of the recording has its type.
    like: &'a Value,
    all: Vec<Recorded>,
}

impl Emitted<'_> {
    fn same(&mut self, name: &str, x: &[Noted]) -> Value {
        let x: Vec<&Value> = x.iter().map(|x| &self.all[x.0 as usize].value).collect();
        self.w.same(name, &x)
    }

    fn compare(&mut self, how: &str, x: Noted, y: Noted) -> Value {
        self.w.compare(how, &self.all[x.0 as usize].value, &self.all[y.0 as usize].value)
    }

    /// Returns the bits of a number, as unsigned integers.
    fn bits(&mut self, x: Noted) -> Value {
        let x = &mut self.all[x.0 as usize];
        let dtype = if self.like.ty.dtype == Dtype::F32 { Dtype::U32 } else { Dtype::U64 };
        x.bits.get_or_insert_with(|| bitcast(self.w, &x.value, dtype)).clone()
    }

    fn on_bits(&mut self, name: &str, x: Noted, y: Noted) -> Value {
        let [x, y] = [x, y].map(|x| self.bits(x));
        let y = self.w.same(name, &[&x, &y]);
        bitcast(self.w, &y, self.like.ty.dtype)
    }

    fn shifted(&mut self, name: &str, x: Noted, by: u32) -> Value {
        let x = self.bits(x);
        let by = self.w.number(f64::from(by), &x);
        let y = self.w.same(name, &[&x, &by]);
        bitcast(self.w, &y, self.like.ty.dtype)
    }
}
