//! Writes library routines. Three of them are StableHLO operations; all others become calls of the client's functions.

use super::types::{ClientFunction, element, list, tensor, tensor_of};
use super::writer::{Value, Writer};
use super::{codes, reduce};
use tapeloom_ir::prim::RoutineCall;
use tapeloom_ir::{ArrayType, Code, Dtype, Kind, Literal, Problem, Shape};
use tapeloom_routines::Routine;

/// Appends a routine, and returns its results, which have the types `types`. `custom` says whether functions of the
/// client may be called.
pub(super) fn routine(
    w: &mut Writer,
    call: &RoutineCall,
    x: &[Value],
    types: &[ArrayType],
    custom: bool,
) -> Result<Vec<Value>, Problem> {
    let own = call.result_types();
    if own.iter().all(|ty| ty.shape.elements() == 0) {
        let empty = |ty: &ArrayType| w.constant(Literal::zero(ty.dtype), &ty.shape);
        return Ok(types.iter().map(empty).collect());
    }
    // A routine has a single batch axis, axis 0, so reshape the operands to merge their batch axes.
    let operands: Vec<Value> =
        (call.operand_types().into_iter().zip(x)).map(|(ty, x)| w.reshape(x, ty.shape)).collect();
    let results = match (&call.routine, operands.as_slice()) {
        (Routine::Cholesky { n }, [a]) => vec![cholesky(w, a, *n)],
        (Routine::TriangularSolve { lower, transposed, unit_diagonal, .. }, [t, b]) => {
            let way = if *transposed { "TRANSPOSE" } else { "NO_TRANSPOSE" };
            let attributes = format!(
                "{{left_side = true, lower = {lower}, unit_diagonal = {unit_diagonal}, transpose_a = #stablehlo<transpose {way}>}}"
            );
            vec![w.generic("stablehlo.triangular_solve", &[t, b], &attributes, b.ty.clone())]
        }
        (Routine::Fft { n, inverse, .. }, [x]) => {
            let z = complex(w, x);
            let kind = if *inverse { "IFFT" } else { "FFT" };
            let z = transform(w, z, kind, *n);
            let y = parts(w, &z);
            let y = if *inverse { unscaled(w, y, *n) } else { y };
            vec![spoiled(w, x, &[1, 3], &[0, 2, 4], y)?]
        }
        (Routine::RealFft { n, .. }, [x]) => {
            let (name, shape, dtype) = (x.to_string(), x.ty.shape.clone(), x.ty.dtype);
            let z = Numbers { name, shape, dtype, complex: false };
            let z = transform(w, z, "RFFT", *n);
            let y = parts(w, &z);
            vec![spoiled(w, x, &[2], &[0, 2, 4], y)?]
        }
        (Routine::InverseRealFft { n, .. }, [x]) => {
            let z = complex(w, x);
            let z = transform(w, z, "IRFFT", *n);
            let y = z.real(w);
            let y = unscaled(w, y, *n);
            // The transform does not read the imaginary part of entry 0 and, for even n, of the last entry.
            let read = (n - 1) / 2;
            let (re, im) = (w.part(x, 1, 0, 1), w.part(x, 1, 1, 1));
            let im = w.part(&im, 3, read.min(1), read);
            let read = w.concatenate(&[&re, &im], 3);
            vec![spoiled(w, &read, &[1, 3], &[0, 1, 3], y)?]
        }
        _ if custom => {
            let called = ClientFunction::Routine(call.routine.clone());
            let config = format!("backend_config = {}, ", attributes(&call.routine));
            w.custom_call(called, &operands, &config, own)
        }
        _ => {
            return Err(Problem::new(
                Kind::Target,
                format!("StableHLO has no operation for `{}`", call.routine.name()),
                "allow calls of functions of the client by the option `custom_calls`, or compute it on this machine",
            ));
        }
    };
    Ok(results.iter().zip(types).map(|(y, ty)| w.reshape(y, ty.shape.clone())).collect())
}

/// Returns the routine's extents and flags as the attributes of a call: `{m = 3 : i64, full = true}`.
fn attributes(routine: &Routine) -> String {
    let one = |(name, value): (&str, String)| {
        if value.parse::<u64>().is_ok() {
            format!("{name} = {value} : i64")
        } else if value.parse::<bool>().is_ok() {
            format!("{name} = {value}")
        } else {
            format!("{name} = {value:?}")
        }
    };
    let all: Vec<String> = routine.attributes().into_iter().map(one).collect();
    format!("{{{}}}", all.join(", "))
}

/// Appends the Cholesky decomposition of `a`, and returns the lower triangular factor with zeros above the diagonal,
/// where StableHLO leaves the elements open.
fn cholesky(w: &mut Writer, a: &Value, n: usize) -> Value {
    let t = tensor(&a.ty);
    let text = format!("stablehlo.cholesky {a}, lower = true : {t}");
    let l = w.free(&text, vec![a.ty.clone()]).remove(0);
    let square = ArrayType::new(Dtype::I64, [n, n]);
    let [row, column] = [0, 1].map(|axis| w.iota(square.clone(), axis));
    let lower = w.compare("GE", &row, &column);
    let lower = w.broadcast(&lower, &[1, 2], &a.ty.shape);
    let zero = w.number(0.0, &l);
    w.select(&lower, &l, &zero)
}

/// A value of the text that is an array `[members, rows, n, columns]` of real or complex numbers, for Fourier
/// transforms along axis 2.
struct Numbers {
    name: String,
    shape: Shape,
    dtype: Dtype,
    complex: bool,
}

impl Numbers {
    fn ty(&self) -> String {
        let element = element(self.dtype);
        match self.complex {
            true => tensor_of(&self.shape, &format!("complex<{element}>")),
            false => tensor_of(&self.shape, element),
        }
    }

    /// Appends the exchange of the last two axes, because StableHLO transforms the last axis. Returns the result.
    fn transposed(self, w: &mut Writer) -> Numbers {
        let [members, rows, n, columns] = [0, 1, 2, 3].map(|axis| self.shape[axis]);
        if columns == 1 || n == 1 {
            return self.reshaped(w, Shape::from([members, rows, columns, n]));
        }
        let before = self.ty();
        let shape = Shape::from([members, rows, columns, n]);
        let y = Numbers { shape, name: String::new(), ..self };
        let (x, after) = (&self.name, y.ty());
        let name = w.foreign(&format!(
            "stablehlo.transpose {x}, dims = [0, 1, 3, 2] : ({before}) -> {after}"
        ));
        Numbers { name, ..y }
    }

    fn reshaped(self, w: &mut Writer, shape: Shape) -> Numbers {
        if self.shape == shape {
            return self;
        }
        let before = self.ty();
        let y = Numbers { shape, name: String::new(), ..self };
        let (x, after) = (&self.name, y.ty());
        let name = w.foreign(&format!("stablehlo.reshape {x} : ({before}) -> {after}"));
        Numbers { name, ..y }
    }

    /// Appends an operation that takes the real parts. Returns them.
    fn real(&self, w: &mut Writer) -> Value {
        self.part(w, "stablehlo.real")
    }

    fn part(&self, w: &mut Writer, operation: &str) -> Value {
        let ty = ArrayType::new(self.dtype, self.shape.clone());
        let (x, from, to) = (&self.name, self.ty(), tensor(&ty));
        let text = match self.complex {
            true => format!("{operation} {x} : ({from}) -> {to}"),
            false => format!("stablehlo.reshape {x} : ({from}) -> {to}"),
        };
        w.free(&text, vec![ty]).remove(0)
    }
}

/// Appends operations that combine `x`, an array `[members, 2, rows, n, columns]` with real parts before imaginary
/// parts, to complex numbers. Returns these.
fn complex(w: &mut Writer, x: &Value) -> Numbers {
    let shape = x.ty.shape.without(&[1]);
    let [re, im] = [0, 1].map(|i| {
        let part = w.part(x, 1, i, 1);
        w.reshape(&part, shape.clone())
    });
    let mut z = Numbers { name: String::new(), shape, dtype: x.ty.dtype, complex: true };
    z.name = w.foreign(&format!("stablehlo.complex {re}, {im} : {}", z.ty()));
    z
}

/// Appends operations that separate complex numbers into an array `[members, 2, rows, n, columns]`, real parts before
/// imaginary parts. Returns the array.
fn parts(w: &mut Writer, z: &Numbers) -> Value {
    let shape = z.shape[1..].iter().copied();
    let shape: Shape = [z.shape[0], 1].into_iter().chain(shape).collect();
    let both = ["stablehlo.real", "stablehlo.imag"].map(|operation| {
        let part = z.part(w, operation);
        w.reshape(&part, shape.clone())
    });
    w.concatenate(&[&both[0], &both[1]], 1)
}

/// Appends a Fourier transform of the given kind along axis 2, and returns the result. `n` is the length of the
/// sequences in the time domain.
fn transform(w: &mut Writer, z: Numbers, kind: &str, n: usize) -> Numbers {
    let z = z.transposed(w);
    let mut shape = z.shape.clone();
    let complex = kind != "IRFFT";
    shape[3] = if kind == "RFFT" { tapeloom_routines::half(n) } else { n };
    let y = Numbers { name: String::new(), shape, dtype: z.dtype, complex };
    let (x, from, to) = (&z.name, z.ty(), y.ty());
    let name = w.foreign(&format!(
        "stablehlo.fft {x}, type = {kind}, length = {} : ({from}) -> {to}",
        list([n])
    ));
    Numbers { name, ..y }.transposed(w)
}

/// Appends operations that replace, in `y`, the transform of each sequence that has a nan or infinite element by nan,
/// and returns the result. `x` has the sequences: the elements of a sequence lie along `axes`, and the other axes of
/// `x` are the axes `kept` of `y`.
fn spoiled(
    w: &mut Writer,
    x: &Value,
    axes: &[usize],
    kept: &[usize],
    y: Value,
) -> Result<Value, Problem> {
    let finite = codes::emit(w, Code::IsFinite, std::slice::from_ref(x), false)?;
    let finite = reduce::reduce(w, Code::And, Literal::bool(true), axes, &finite)?;
    let finite = w.broadcast(&finite, kept, &y.ty.shape);
    let nan = w.number(f64::NAN, &y);
    Ok(w.select(&finite, &y, &nan))
}

/// Appends the product of `y` and `n`, and returns it: the inverse transforms of StableHLO divide by the number of
/// elements `n`, those of the language do not.
fn unscaled(w: &mut Writer, y: Value, n: usize) -> Value {
    let n = w.number(n as f64, &y);
    w.same("stablehlo.multiply", &[&y, &n])
}
