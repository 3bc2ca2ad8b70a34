//! The writer, which appends the operations of one function to its text and numbers their results.
//!
//! An operation is one line, such as `%5 = stablehlo.add %3, %4 : tensor<3xf64>`. An operation with regions is opened,
//! gets the blocks of its regions in order, and is closed:
//!
//! ```text
//! %7:2 = "stablehlo.while"(%5, %6) ({
//! ^bb0(%8: tensor<i64>, %9: tensor<f64>):
//!   ..
//!   stablehlo.return %10 : tensor<i1>
//! }, {
//!   ..
//! }) : (tensor<i64>, tensor<f64>) -> (tensor<i64>, tensor<f64>)
//! ```

use super::options::Options;
use super::types::{ClientFunction, number, row_major, tensor, tensors};
use std::collections::BTreeMap;
use std::fmt;
use tapeloom_ir::{ArrayType, Dtype, Literal, Loc, Mesh, Shape};

/// A result of an operation, or a parameter of a function or a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Value {
    number: u32,
    /// The index of this result among the results of its operation, if there are several.
    part: Option<usize>,
    pub(super) ty: ArrayType,
}

/// Prints the name of the value: `%5`, or `%5#1` for one of several results.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.number)?;
        self.part.map_or(Ok(()), |part| write!(f, "#{part}"))
    }
}

/// An operation with regions that is not closed yet.
pub(super) struct Open {
    operands: String,
    results: Vec<Value>,
}

/// The text of one function, to which operations are appended.
pub(super) struct Writer {
    text: String,
    depth: usize,
    /// The number that the next value gets.
    next: u32,
    /// The user's line, which the operations that follow get as their location.
    pub(super) loc: Loc,
    /// Whether each operation is written with the user's line.
    locations: bool,
    /// The mesh among whose devices arrays are divided; `None` for one device.
    mesh: Option<Mesh>,
    /// For each open block, the constants that it defines, so that a block defines each constant only once.
    constants: Vec<BTreeMap<(Literal, Shape), Value>>,
    /// The token that the next call of a Rust function takes; `None` in functions without such calls.
    pub(super) token: Option<Value>,
    /// The functions of the client that the text calls.
    pub(super) client: Vec<ClientFunction>,
}

impl Writer {
    /// Makes a writer for the body of a function.
    pub(super) fn new(options: &Options) -> Writer {
        let locations = options.locations;
        let mesh = options.shardings.as_ref().map(|all| all.mesh.clone());
        let constants = vec![BTreeMap::new()];
        let (text, client) = (String::new(), Vec::new());
        Writer {
            text,
            depth: 2,
            next: 0,
            loc: None,
            locations,
            mesh,
            constants,
            token: None,
            client,
        }
    }

    /// Returns the text of the operations.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Returns a new value for a parameter of the function or of a block.
    pub(super) fn parameter(&mut self, ty: ArrayType) -> Value {
        self.next += 1;
        Value { number: self.next - 1, part: None, ty }
    }

    /// Returns new values for the results of an operation.
    fn results(&mut self, types: Vec<ArrayType>) -> Vec<Value> {
        self.next += 1;
        let (number, several) = (self.next - 1, types.len() > 1);
        let value = |(i, ty)| Value { number, part: several.then_some(i), ty };
        types.into_iter().enumerate().map(value).collect()
    }

    /// Appends a line without a location.
    fn line(&mut self, text: &str) {
        self.text += &"  ".repeat(self.depth);
        self.text += text;
        self.text.push('\n');
    }

    /// Appends a line, followed by the user's line as its location if locations are written.
    fn located(&mut self, text: &str) {
        let shown = self.loc.filter(|_| self.locations);
        match shown {
            Some(at) => {
                let at = format!("loc({:?}:{}:{})", at.file(), at.line(), at.column());
                self.line(&format!("{text} {at}"));
            }
            None => self.line(text),
        }
    }

    /// Appends an elementwise operation whose operands and result have the same type. Returns the result.
    pub(super) fn same(&mut self, name: &str, x: &[&Value]) -> Value {
        let ty = x[0].ty.clone();
        let (names, t) = (names(x.iter().copied()), tensor(&ty));
        let y = self.results(vec![ty]).remove(0);
        self.located(&format!("{y} = {name} {names} : {t}"));
        y
    }

    /// Appends an operation, and returns its result. `rest` is the text between operands and types, such as
    /// `, dims = [1, 0]`.
    pub(super) fn op(&mut self, name: &str, x: &[&Value], rest: &str, ty: ArrayType) -> Value {
        let types = tensors(x.iter().map(|x| &x.ty));
        let (names, t) = (names(x.iter().copied()), tensor(&ty));
        let y = self.results(vec![ty]).remove(0);
        // The text of a CHLO operation has no parentheses around the types.
        let types = if name.starts_with("chlo.") { types } else { format!("({types})") };
        self.located(&format!("{y} = {name} {names}{rest} : {types} -> {t}"));
        y
    }

    /// Appends an operation in the generic form, with its attributes in braces. Returns the result.
    pub(super) fn generic(
        &mut self,
        name: &str,
        x: &[&Value],
        attributes: &str,
        ty: ArrayType,
    ) -> Value {
        let types = tensors(x.iter().map(|x| &x.ty));
        let (names, t) = (names(x.iter().copied()), tensor(&ty));
        let y = self.results(vec![ty]).remove(0);
        self.located(&format!("{y} = \"{name}\"({names}) {attributes} : ({types}) -> {t}"));
        y
    }

    /// Appends a line `results = text`. Returns the results, which have the types `types`.
    pub(super) fn free(&mut self, text: &str, types: Vec<ArrayType>) -> Vec<Value> {
        let results = self.results(types);
        let defined = defined(&results);
        self.located(&format!("{defined}{text}"));
        results
    }

    /// Appends a call of a function of the client, and returns its results. `attributes` is empty, or ends with a comma
    /// and a space.
    ///
    /// The function reads and writes arrays in row-major order, and the text says so. Otherwise XLA chooses the
    /// layouts, and in a program for several devices, elements of results would be in other places.
    pub(super) fn custom_call(
        &mut self,
        function: ClientFunction,
        operands: &[Value],
        attributes: &str,
        results: Vec<ArrayType>,
    ) -> Vec<Value> {
        let (own, found) = (operands.iter().map(|x| &x.ty), results.iter());
        let text = format!(
            "stablehlo.custom_call @{}({}) {{api_version = 4 : i32, {attributes}operand_layouts = {}, result_layouts = {}}} : \
             ({}) -> ({})",
            function.name(),
            names(operands),
            row_major(own.clone()),
            row_major(found.clone()),
            tensors(own),
            tensors(found),
        );
        self.client.push(function);
        self.free(&text, results)
    }

    /// Appends a line that defines one value whose type is no array of the language, such as complex numbers. Returns
    /// the name of the value.
    pub(super) fn foreign(&mut self, text: &str) -> String {
        self.next += 1;
        let name = format!("%{}", self.next - 1);
        self.located(&format!("{name} = {text}"));
        name
    }

    /// Returns an array of this shape whose elements are all `x`.
    pub(super) fn constant(&mut self, x: Literal, shape: &Shape) -> Value {
        let key = (x, shape.clone());
        if let Some(known) = self.constants.last().and_then(|block| block.get(&key)) {
            return known.clone();
        }
        let ty = ArrayType::new(x.dtype, shape.clone());
        let (x, t) = (number(x), tensor(&ty));
        let text = format!("stablehlo.constant dense<{x}> : {t}");
        let value = self.free(&text, vec![ty]).remove(0);
        if let Some(block) = self.constants.last_mut() {
            block.insert(key, value.clone());
        }
        value
    }

    /// Returns an array with the type of `like` whose elements are all the number `x`, converted to the dtype of
    /// `like`.
    pub(super) fn number(&mut self, x: f64, like: &Value) -> Value {
        self.constant(Literal::of(like.ty.dtype, x), &like.ty.shape)
    }

    /// Returns an integer as a scalar of i64.
    pub(super) fn index(&mut self, i: usize) -> Value {
        self.constant(Literal::i64(i64::try_from(i).unwrap_or(i64::MAX)), &Shape::scalar())
    }

    /// Appends an elementwise comparison, and returns the result. `how` is `LT`, `LE`, `EQ`, `NE`, `GT` or `GE`.
    pub(super) fn compare(&mut self, how: &str, x: &Value, y: &Value) -> Value {
        let kind = match x.ty.dtype {
            Dtype::F32 | Dtype::F64 => "FLOAT",
            Dtype::I32 | Dtype::I64 => "SIGNED",
            Dtype::Bool | Dtype::U32 | Dtype::U64 => "UNSIGNED",
        };
        let ty = ArrayType::new(Dtype::Bool, x.ty.shape.clone());
        let (operands, t) = (tensors([&x.ty, &y.ty]), tensor(&ty));
        let text = format!("stablehlo.compare {how}, {x}, {y}, {kind} : ({operands}) -> {t}");
        self.free(&text, vec![ty]).remove(0)
    }

    /// Appends the selection `mask ? x : y`, elementwise or with a scalar mask. Returns the result.
    pub(super) fn select(&mut self, mask: &Value, x: &Value, y: &Value) -> Value {
        let types = tensors([&mask.ty, &x.ty]);
        let text = format!("stablehlo.select {mask}, {x}, {y} : {types}");
        self.free(&text, vec![x.ty.clone()]).remove(0)
    }

    /// Appends a conversion of elements to another dtype. Returns the result.
    pub(super) fn convert(&mut self, x: &Value, to: Dtype) -> Value {
        if x.ty.dtype == to {
            return x.clone();
        }
        self.op("stablehlo.convert", &[x], "", ArrayType::new(to, x.ty.shape.clone()))
    }

    /// Appends a reshape, which gives the elements of `x` another shape. Returns the result.
    pub(super) fn reshape(&mut self, x: &Value, shape: Shape) -> Value {
        if x.ty.shape == shape {
            return x.clone();
        }
        self.op("stablehlo.reshape", &[x], "", ArrayType::new(x.ty.dtype, shape))
    }

    /// Appends a broadcast, which repeats `x` to `shape`: axis `i` of `x` becomes axis `axes[i]`. Returns the result.
    pub(super) fn broadcast(&mut self, x: &Value, axes: &[usize], shape: &Shape) -> Value {
        if x.ty.shape == *shape && axes.iter().copied().eq(0..shape.len()) {
            return x.clone();
        }
        let rest = format!(", dims = {}", super::types::list(axes));
        let ty = ArrayType::new(x.ty.dtype, shape.clone());
        self.op("stablehlo.broadcast_in_dim", &[x], &rest, ty)
    }

    /// Appends a slice with the elements `start .. start + extent` along `axis`. Returns the result.
    pub(super) fn part(&mut self, x: &Value, axis: usize, start: usize, extent: usize) -> Value {
        let ranges: Vec<(usize, usize, usize)> = (x.ty.shape.iter().enumerate())
            .map(|(i, n)| if i == axis { (start, start + extent, 1) } else { (0, *n, 1) })
            .collect();
        self.slice(x, &ranges)
    }

    /// Appends a slice of an array, with (start, limit, stride) along each axis. Returns the result.
    pub(super) fn slice(&mut self, x: &Value, ranges: &[(usize, usize, usize)]) -> Value {
        let all =
            ranges.iter().zip(x.ty.shape.iter()).all(|((s, l, t), n)| (*s, *t) == (0, 1) && l == n);
        if all {
            return x.clone();
        }
        let extent = |(s, l, t): &(usize, usize, usize)| l.saturating_sub(*s).div_ceil(*t);
        let ty = ArrayType::new(x.ty.dtype, ranges.iter().map(extent).collect::<Shape>());
        let range = |(s, l, t): &(usize, usize, usize)| match t {
            1 => format!("{s}:{l}"),
            t => format!("{s}:{l}:{t}"),
        };
        let rest = format!(" {}", super::types::list(ranges.iter().map(range)));
        // XLA's partitioner has an error (versions of the C API up to 0.115): if a slice whose extents no mesh axis
        // divides is gathered, readers of the sliced array get the slice. Behind a barrier, the sliced array is another
        // value, so its readers are not affected.
        let x = std::slice::from_ref(x);
        let x = if self.is_uneven(&ty.shape) { self.barrier(x) } else { x.to_vec() };
        self.op("stablehlo.slice", &[&x[0]], &rest, ty)
    }

    /// Appends a barrier, through which no pass of the engine moves or merges operations. Returns the values after it.
    pub(super) fn barrier(&mut self, x: &[Value]) -> Vec<Value> {
        if x.is_empty() {
            return Vec::new();
        }
        let types: Vec<ArrayType> = x.iter().map(|x| x.ty.clone()).collect();
        let text = format!("stablehlo.optimization_barrier {} : {}", names(x), tensors(&types));
        self.free(&text, types)
    }

    /// Returns whether arrays are divided among devices.
    pub(super) fn is_divided(&self) -> bool {
        self.mesh.is_some()
    }

    /// Returns whether an extent in `shape` is divisible by no mesh axis.
    fn is_uneven(&self, shape: &Shape) -> bool {
        let Some(mesh) = &self.mesh else { return false };
        let sizes: Vec<usize> = mesh.axes().map(|(_, size)| size).filter(|n| *n > 1).collect();
        !sizes.is_empty() && shape.iter().any(|n| !sizes.iter().any(|size| n.is_multiple_of(*size)))
    }

    /// Appends a concatenation of arrays along `axis`. Returns the result.
    pub(super) fn concatenate(&mut self, x: &[&Value], axis: usize) -> Value {
        if let [one] = x {
            return (*one).clone();
        }
        let mut ty = x[0].ty.clone();
        ty.shape[axis] = x.iter().map(|x| x.ty.shape[axis]).sum();
        self.op("stablehlo.concatenate", x, &format!(", dim = {axis}"), ty)
    }

    /// Appends a reversal of the order of elements along `axes`. Returns the result.
    pub(super) fn reverse(&mut self, x: &Value, axes: &[usize]) -> Value {
        if axes.is_empty() {
            return x.clone();
        }
        let (t, axes) = (tensor(&x.ty), super::types::list(axes));
        let text = format!("stablehlo.reverse {x}, dims = {axes} : {t}");
        self.free(&text, vec![x.ty.clone()]).remove(0)
    }

    /// Returns an array of i64 whose elements are their own index along `axis`.
    pub(super) fn iota(&mut self, ty: ArrayType, axis: usize) -> Value {
        let t = tensor(&ty);
        self.free(&format!("stablehlo.iota dim = {axis} : {t}"), vec![ty]).remove(0)
    }

    /// Appends a slice of `x` with extents `sizes` at scalar starts, which are clamped to fit. Returns the result.
    pub(super) fn dynamic_slice(&mut self, x: &Value, starts: &[&Value], sizes: &Shape) -> Value {
        let starts = self.clamped(&x.ty.shape, sizes, starts);
        let operands: Vec<&Value> = [x].into_iter().chain(&starts).collect();
        let rest = format!(", sizes = {}", super::types::list(sizes.iter()));
        let ty = ArrayType::new(x.ty.dtype, sizes.clone());
        self.op("stablehlo.dynamic_slice", &operands, &rest, ty)
    }

    /// Appends an update that writes `part` into `x` at scalar starts, which are clamped to fit. Returns the updated
    /// array.
    pub(super) fn dynamic_update(&mut self, x: &Value, part: &Value, starts: &[&Value]) -> Value {
        let starts = self.clamped(&x.ty.shape, &part.ty.shape, starts);
        let operands: Vec<&Value> = [x, part].into_iter().chain(&starts).collect();
        self.op("stablehlo.dynamic_update_slice", &operands, "", x.ty.clone())
    }

    /// Returns the starts of a box of extents `sizes` in an array of extents `shape`. If arrays are divided among
    /// devices, the starts are clamped to fit, because XLA's partitioner does not clamp along a divided axis (versions
    /// of the C API up to 0.115).
    fn clamped(&mut self, shape: &Shape, sizes: &Shape, starts: &[&Value]) -> Vec<Value> {
        let clamp = |(i, start): (usize, &&Value)| {
            let start = (*start).clone();
            if !self.is_divided() {
                return start;
            }
            let most = self.number((shape[i] - sizes[i]) as f64, &start);
            let least = self.number(0.0, &start);
            let start = self.same("stablehlo.minimum", &[&start, &most]);
            self.same("stablehlo.maximum", &[&start, &least])
        };
        starts.iter().enumerate().map(clamp).collect()
    }

    /// Opens an operation with regions. [`Writer::close`] ends it and returns its results.
    pub(super) fn open(&mut self, name: &str, x: &[Value], results: Vec<ArrayType>) -> Open {
        let results = self.results(results);
        let (defined, names) = (defined(&results), names(x));
        self.line(&format!("{defined}\"{name}\"({names}) ({{"));
        Open { operands: tensors(x.iter().map(|x| &x.ty)), results }
    }

    /// Begins the block of the first region, and returns its parameters, which have these types.
    pub(super) fn block(&mut self, types: &[ArrayType]) -> Vec<Value> {
        let params: Vec<Value> = types.iter().map(|ty| self.parameter(ty.clone())).collect();
        if !params.is_empty() {
            let list: Vec<String> =
                params.iter().map(|x| format!("{x}: {}", tensor(&x.ty))).collect();
            self.line(&format!("^bb0({}):", list.join(", ")));
        }
        self.depth += 1;
        self.constants.push(BTreeMap::new());
        params
    }

    /// Ends the block of a region, which returns `x`.
    pub(super) fn returns(&mut self, x: &[Value]) {
        let text = match x {
            [] => "stablehlo.return".to_owned(),
            x => format!("stablehlo.return {} : {}", names(x), tensors(x.iter().map(|x| &x.ty))),
        };
        self.line(&text);
        self.depth -= 1;
        self.constants.pop();
    }

    /// Ends a region and begins the block of the next region. Returns the block's parameters, which have these types.
    pub(super) fn next_block(&mut self, types: &[ArrayType]) -> Vec<Value> {
        self.line("}, {");
        self.block(types)
    }

    /// Closes an operation with regions, and returns its results; `attributes` is the text between the regions and the
    /// types.
    pub(super) fn close(&mut self, open: Open, attributes: &str) -> Vec<Value> {
        let Open { operands, results } = open;
        let space = if attributes.is_empty() { "" } else { " " };
        let types = tensors(results.iter().map(|y| &y.ty));
        self.located(&format!("}}){space}{attributes} : ({operands}) -> ({types})"));
        results
    }

    /// Ends the function, which returns `x`.
    pub(super) fn end(&mut self, x: &[Value]) {
        let text = match x {
            [] => "return".to_owned(),
            x => format!("return {} : {}", names(x), tensors(x.iter().map(|x| &x.ty))),
        };
        self.line(&text);
    }
}

/// Returns the names of values: `%1, %2`.
pub(super) fn names<'a>(x: impl IntoIterator<Item = &'a Value>) -> String {
    x.into_iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the left side of the line of an operation with these results: `%5 = `, `%5:2 = `, or nothing.
fn defined(results: &[Value]) -> String {
    match results {
        [] => String::new(),
        [one] => format!("{one} = "),
        [first, ..] => format!("%{}:{} = ", first.number, results.len()),
    }
}
