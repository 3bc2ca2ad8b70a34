//! Writes functions: their equations, and the calls between them.
//!
//! A function that another function calls is written as a private function. The body of a loop and the branches of a
//! `cond` are written into their regions. If they run in several places, they are private functions, too, so that the
//! length of the text is in proportion to the program.
//!
//! XLA copies a function for each of its calls, even if the calls have the attribute `inlineable = "false"`. So if
//! functions call one another twice, level by level, the text is short, but the compile time grows exponentially with
//! the number of levels.

use super::accumulation::Accumulation;
use super::control::{self, grouped};
use super::convolution::{Convolution, Definitions};
use super::gather::{self, Addressing};
use super::host_calls;
use super::options::{Options, Shardings};
use super::types::{ClientFunction, HostFunction, Text, arrays, tensor, tensors};
use super::writer::{Value, Writer, names};
use super::{codes, reduce, routines, scan, scatter, sharding, views};
use cranelift_entity::SecondaryMap;
use std::collections::{BTreeMap, BTreeSet};
use tapeloom_ir::prim::{Lowering, Mark};
use tapeloom_ir::{
    ArrayType, Atom, Dtype, Equation, FuncId, Function, Literal, Module, PartitionSpec, Problem,
    Shape, Type, ValueId,
};

/// The arrays that represent a value: for an array the array itself, for a tape one for each array in its records.
pub(super) type Arrays = Vec<Value>;

/// The attributes of a function's arguments and results as text, such as ` {jax.buffer_donor = true}`. Arguments and
/// results beyond the ends of the lists have no attributes.
#[derive(Default)]
struct Ends {
    arguments: Vec<String>,
    results: Vec<String>,
}

/// A program that is written as text.
pub(super) struct Program<'a> {
    pub(super) module: &'a Module,
    pub(super) options: &'a Options,
    /// The function that is written as `main`.
    pub(super) main: FuncId,
    /// Per function: the number of places in which it runs.
    uses: BTreeMap<FuncId, usize>,
    symbols: BTreeMap<FuncId, String>,
    taken: BTreeSet<String>,
    /// The functions of which a call has been written, but not yet the function itself.
    pending: Vec<FuncId>,
    /// The functions that the text calls and the client has to provide, by name.
    client: BTreeMap<String, ClientFunction>,
    /// The calls of Rust functions. A call's index in this list is its number in the text.
    pub(super) host_functions: Vec<HostFunction>,
}

/// Returns the text of a function and of all functions that it calls.
pub(crate) fn text(
    module: &Module,
    f: FuncId,
    options: &Options,
    donated: &[bool],
) -> Result<Text, Problem> {
    let mut p = Program {
        module,
        options,
        main: f,
        uses: uses(module, f),
        symbols: BTreeMap::new(),
        taken: BTreeSet::from(["main".to_owned()]),
        pending: Vec::new(),
        client: BTreeMap::new(),
        host_functions: Vec::new(),
    };
    let name = symbol(&module.function(f).name);
    let mut all = match &options.shardings {
        Some(shardings) => sharding::module_start(&name, &shardings.mesh, p.takes_token(f)),
        None => format!("module @{name} {{\n"),
    };
    let ends = p.ends_of_main(f, donated)?;
    all += &p.function(f, "public @main", &ends)?;
    let mut done = 0;
    while done < p.pending.len() {
        let next = p.pending[done];
        let name = format!("private @{}", p.symbols[&next]);
        all += &p.function(next, &name, &Ends::default())?;
        done += 1;
    }
    all += "}\n";
    let Program { client, host_functions, .. } = p;
    Ok(Text { text: all, client: client.into_values().collect(), host_functions })
}

/// Returns for `f`, and for each function that `f` runs, the number of places in which the function runs.
fn uses(module: &Module, f: FuncId) -> BTreeMap<FuncId, usize> {
    let mut uses = BTreeMap::from([(f, 0)]);
    let mut open = vec![f];
    while let Some(f) = open.pop() {
        for callee in module.function(f).equations.iter().flat_map(Equation::runs) {
            let count = uses.entry(callee).or_insert_with(|| {
                open.push(callee);
                0
            });
            *count += 1;
        }
    }
    uses
}

/// Returns the name of a function as a symbol: characters that a symbol cannot have are replaced.
fn symbol(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name
    } else {
        format!("f{name}")
    }
}

impl Program<'_> {
    /// Returns the largest number of records (residuals of one iteration) for which a tape has room; `None` if there is
    /// no bound.
    pub(super) fn most_records(&self) -> Option<usize> {
        self.options.max_steps
    }

    /// Returns whether a call of a client's function can end the program with an error. XLA's partitioner refuses
    /// functions without results, so programs that are divided among devices cannot call such a function.
    pub(super) fn can_end(&self) -> bool {
        self.options.custom_calls && self.options.shardings.is_none()
    }

    /// Returns, for each of the types, the types of the arrays that represent a value of this type.
    pub(super) fn arrays(&self, types: &[Type]) -> Result<Vec<Vec<ArrayType>>, Problem> {
        types.iter().map(|ty| arrays(ty, self.most_records())).collect()
    }

    /// Returns the attributes of arguments and results of `main`. They say that the engine may take over the memory of
    /// the `donated` arguments, and how arrays are divided among devices.
    fn ends_of_main(&self, f: FuncId, donated: &[bool]) -> Result<Ends, Problem> {
        let f = self.module.function(f);
        let all = |types: Vec<Type>, of: fn(&Shardings) -> &[PartitionSpec], donated: &[bool]| {
            let arrays = self.arrays(&types)?.concat();
            let specs = self.options.shardings.as_deref().map(|all| (all, of(all)));
            let attributes = arrays.iter().enumerate().map(|(i, ty)| {
                let replicated = PartitionSpec::replicated();
                let sharding = specs.map(|(all, specs)| {
                    let spec = specs.get(i).unwrap_or(&replicated);
                    sharding::text(spec, &ty.shape, &all.mesh)
                });
                let sharding =
                    sharding.transpose()?.map(|text| format!("sdy.sharding = #sdy.sharding{text}"));
                let donor = donated.get(i).is_some_and(|donated| *donated);
                let donor = donor.then(|| "jax.buffer_donor = true".to_owned());
                let listed: Vec<String> = donor.into_iter().chain(sharding).collect();
                Ok(if listed.is_empty() {
                    String::new()
                } else {
                    format!(" {{{}}}", listed.join(", "))
                })
            });
            attributes.collect::<Result<Vec<String>, Problem>>()
        };
        let mut arguments = all(f.param_types(), |all| &all.arguments, donated)?;
        if self.options.shardings.is_some() && self.takes_token(self.main) {
            arguments.push(" {sdy.sharding = #sdy.sharding<@mesh, []>}".to_owned());
        }
        Ok(Ends { arguments, results: all(f.result_types(), |all| &all.results, &[])? })
    }

    /// Returns the text of one function; `name` is its visibility and its symbol, `ends` the attributes of its arguments
    /// and results.
    fn function(&mut self, id: FuncId, name: &str, ends: &Ends) -> Result<String, Problem> {
        let attribute = |all: &[String], i: usize| all.get(i).cloned().unwrap_or_default();
        let f = self.module.function(id);
        let mut w = Writer::new(self.options);
        let mut args = Vec::new();
        for types in self.arrays(&f.param_types())? {
            args.push(types.into_iter().map(|ty| w.parameter(ty)).collect::<Arrays>());
        }
        w.token = self.takes_token(id).then(|| w.parameter(host_calls::token()));
        let list: Vec<String> = args
            .iter()
            .flatten()
            .chain(&w.token)
            .enumerate()
            .map(|(i, x)| format!("{x}: {}{}", tensor(&x.ty), attribute(&ends.arguments, i)))
            .collect();
        let declared = self.arrays(&f.result_types())?.concat();
        let results = self.body(&mut w, id, &args)?.concat();
        let mut results = control::padded(&mut w, results, &declared)?;
        if id != self.main {
            results.extend(w.token.take());
        }
        let types: Vec<String> = results
            .iter()
            .enumerate()
            .map(|(i, y)| format!("{}{}", tensor(&y.ty), attribute(&ends.results, i)))
            .collect();
        let types = types.join(", ");
        w.loc = None;
        w.end(&results);
        for called in std::mem::take(&mut w.client) {
            self.client.entry(called.name()).or_insert(called);
        }
        Ok(format!("  func.func {name}({}) -> ({types}) {{\n{}  }}\n", list.join(", "), w.finish()))
    }

    /// Runs a function in a region: writes its equations if the function runs only in this place, and otherwise a call.
    /// Returns the results.
    pub(super) fn run(
        &mut self,
        w: &mut Writer,
        f: FuncId,
        args: &[Arrays],
    ) -> Result<Vec<Arrays>, Problem> {
        match self.uses.get(&f) {
            Some(0 | 1) | None => tapeloom_ir::deeper(|| self.body(w, f, args)),
            Some(_) => self.call(w, f, args),
        }
    }

    /// Appends a call of `f`. Returns its results.
    fn call(&mut self, w: &mut Writer, f: FuncId, args: &[Arrays]) -> Result<Vec<Arrays>, Problem> {
        let types = self.arrays(&self.module.function(f).result_types())?;
        let token = w.token.clone().filter(|_| self.takes_token(f));
        let args: Vec<Value> = args.iter().flatten().chain(&token).cloned().collect();
        let results: Vec<ArrayType> =
            types.iter().flatten().chain(token.as_ref().map(|t| &t.ty)).cloned().collect();
        let text = format!(
            "func.call @{}({}) : ({}) -> ({})",
            self.symbol_of(f),
            names(&args),
            tensors(args.iter().map(|x| &x.ty)),
            tensors(&results),
        );
        let mut results = w.free(&text, results);
        if token.is_some() {
            w.token = results.pop();
        }
        Ok(grouped(results, &types))
    }

    /// Returns the symbol of a function. At the first use, chooses the symbol, and adds the function to the list of
    /// functions to write.
    fn symbol_of(&mut self, f: FuncId) -> String {
        if let Some(known) = self.symbols.get(&f) {
            return known.clone();
        }
        let base = symbol(&self.module.function(f).name);
        let mut name = base.clone();
        let mut n = 1;
        while !self.taken.insert(name.clone()) {
            n += 1;
            name = format!("{base}_{n}");
        }
        self.symbols.insert(f, name.clone());
        self.pending.push(f);
        name
    }

    /// Appends the equations of a function. Returns its results.
    fn body(
        &mut self,
        w: &mut Writer,
        id: FuncId,
        args: &[Arrays],
    ) -> Result<Vec<Arrays>, Problem> {
        let module = self.module;
        let f = module.function(id);
        let mut values = Values { f, of: SecondaryMap::new() };
        for (param, x) in f.all_params().zip(args) {
            values.of[param] = x.clone();
        }
        let outside = w.loc;
        let lowerings: Vec<Lowering> = f.equations.iter().map(|e| e.lower(module, f)).collect();
        let definitions = Definitions::of(module, f);
        let pattern = |(e, lowering): (&Equation, &Lowering)| match lowering {
            Lowering::Contract { batch, contract } => {
                definitions.convolution(e, batch, contract).map(Pattern::Convolution)
            }
            Lowering::DynamicUpdateSlice => definitions.accumulation(e).map(Pattern::Accumulation),
            _ => None,
        };
        let patterns: Vec<Option<Pattern>> =
            f.equations.iter().zip(&lowerings).map(pattern).collect();
        let needed = needed(f, &definitions, &patterns);
        for (i, (e, lowering)) in f.equations.iter().zip(lowerings).enumerate() {
            if !needed[i] {
                continue;
            }
            w.loc = f.location(i).or(outside);
            let outputs = match &patterns[i] {
                Some(of) => {
                    let [x, y] = of.operands().map(|x| values.array(w, x));
                    let (x, y) = (x?, y?);
                    let ty = f.types[e.outputs[0]].as_array().cloned();
                    let ty = ty.ok_or_else(|| Problem::internal("a product that is no array"))?;
                    vec![vec![match of {
                        Pattern::Convolution(of) => of.emit(w, &x, &y, &ty),
                        Pattern::Accumulation(of) => of.emit(w, &x, &y),
                    }]]
                }
                None => {
                    let outputs = self.equation(w, &values, e, lowering);
                    outputs.map_err(|p| p.at(f.location(i)))?
                }
            };
            for (output, y) in e.outputs.iter().zip(outputs) {
                values.of[*output] = y;
            }
        }
        w.loc = outside;
        Ok(f.results.iter().map(|y| values.arrays(w, *y)).collect())
    }

    /// Appends an equation. Returns the arrays of each of its outputs.
    fn equation(
        &mut self,
        w: &mut Writer,
        values: &Values<'_>,
        e: &Equation,
        lowering: Lowering,
    ) -> Result<Vec<Arrays>, Problem> {
        let custom = self.options.custom_calls;
        let types: Vec<&Type> = e.outputs.iter().map(|v| &values.f.types[*v]).collect();
        let ty = types.first().and_then(|ty| ty.as_array()).cloned();
        let ty = ty.unwrap_or(ArrayType::new(Dtype::Bool, Shape::scalar()));
        let all = |w: &mut Writer, from: usize| -> Result<Vec<Value>, Problem> {
            e.operands[from..].iter().map(|a| values.array(w, *a)).collect()
        };
        let y = match lowering {
            Lowering::Elementwise(code) => {
                let x: Vec<Value> = e
                    .operands
                    .iter()
                    .map(|a| values.shaped(w, *a, &ty.shape))
                    .collect::<Result<_, _>>()?;
                codes::emit(w, code, &x, custom)?
            }
            Lowering::View { pieces, fill } => {
                let x = all(w, 0)?;
                views::view(w, &pieces, fill.map(|i| &x[i]), &x, &ty)?
            }
            Lowering::Reshape => {
                let x = values.array(w, e.operands[0])?;
                w.reshape(&x, ty.shape)
            }
            Lowering::Alias { mark: Some(mark), .. } => {
                let x = values.arrays(w, e.operands[0]);
                return Ok(vec![if holds_plan(&mark) { w.barrier(&x) } else { x }]);
            }
            Lowering::Alias { mark: None, sharding } => {
                let x = values.arrays(w, e.operands[0]);
                let Some((spec, of)) = sharding.as_ref().zip(self.options.shardings.as_deref())
                else {
                    return Ok(vec![x]);
                };
                sharding::constrain(w, &x[0], spec, &of.mesh)?
            }
            Lowering::Iota { axis } => {
                let counted = match ty.dtype {
                    Dtype::Bool => Dtype::I64,
                    dtype => dtype,
                };
                let y = w.iota(ArrayType::new(counted, ty.shape.clone()), axis);
                w.convert(&y, ty.dtype)
            }
            Lowering::Reduce { code, identity, axes } => {
                let x = values.array(w, e.operands[0])?;
                reduce::reduce(w, code, identity, &axes, &x)?
            }
            Lowering::ArgReduce { axis, largest } => {
                let x = values.array(w, e.operands[0])?;
                reduce::arg_reduce(w, axis, largest, &x)
            }
            Lowering::Cumulate { axis, reverse, step } => {
                let x = all(w, 0)?;
                scan::scan(w, axis, reverse, step, &x)?
            }
            Lowering::ArgSort { axis, descending, first } => {
                let x = values.array(w, e.operands[0])?;
                reduce::arg_sort(w, axis, descending, first, &x)
            }
            Lowering::Contract { batch, contract } => {
                let x = all(w, 0)?;
                reduce::contract(w, &batch, &contract, [&x[0], &x[1]])
            }
            Lowering::DynamicSlice => {
                let x = values.array(w, e.operands[0])?;
                let starts = all(w, 1)?;
                let starts = starts_of(w, &x.ty.shape, &ty.shape, starts);
                w.dynamic_slice(&x, &starts.iter().collect::<Vec<_>>(), &ty.shape)
            }
            Lowering::DynamicUpdateSlice => {
                let [x, part] = [0, 1].map(|i| values.array(w, e.operands[i]));
                let (x, part) = (x?, part?);
                let starts = all(w, 2)?;
                let starts = starts_of(w, &x.ty.shape, &part.ty.shape, starts);
                w.dynamic_update(&x, &part, &starts.iter().collect::<Vec<_>>())
            }
            Lowering::Gather { batch, axes, bounds } => {
                let x = all(w, 0)?;
                let of = Addressing { batch, axes: &axes, bounds };
                gather::gather(w, &of, &x[0], &x[1], &ty)
            }
            Lowering::Scatter { combine, batch, axes, bounds } => {
                let x = all(w, 0)?;
                let of = Addressing { batch, axes: &axes, bounds };
                scatter::scatter(w, combine, &of, [&x[0], &x[1], &x[2]])?
            }
            Lowering::Host(call) => {
                let x = all(w, 0)?;
                let y = self.host_call(w, &call, &x)?;
                return Ok(y.into_iter().map(|y| vec![y]).collect());
            }
            Lowering::Routine(call) => {
                let x = all(w, 0)?;
                let types: Vec<ArrayType> =
                    types.iter().filter_map(|ty| ty.as_array().cloned()).collect();
                let y = routines::routine(w, &call, &x, &types, custom)?;
                return Ok(y.into_iter().map(|y| vec![y]).collect());
            }
            Lowering::Call(f) => {
                let args: Vec<Arrays> = e.operands.iter().map(|a| values.arrays(w, *a)).collect();
                return self.call(w, f, &args);
            }
            Lowering::Branch { branches } => {
                let which = values.array(w, e.operands[0])?;
                let args: Vec<Arrays> =
                    e.operands[1..].iter().map(|a| values.arrays(w, *a)).collect();
                return control::branch(self, w, &branches, &which, &args);
            }
            Lowering::Loop { body, spec } => {
                let x: Vec<Arrays> = e.operands.iter().map(|a| values.arrays(w, *a)).collect();
                return control::run_loop(self, w, body, &spec, &x);
            }
            Lowering::Missing(problem) => return Err(problem),
        };
        Ok(vec![vec![y]])
    }
}

/// Several equations that are written together as one operation. The operation is written in the place of the last
/// equation.
enum Pattern {
    Convolution(Convolution),
    Accumulation(Accumulation),
}

impl Pattern {
    /// Returns the arrays that the operation reads.
    fn operands(&self) -> [Atom; 2] {
        match self {
            Pattern::Convolution(of) => [of.x, of.kernel],
            Pattern::Accumulation(of) => [of.x, of.added],
        }
    }
}

/// Returns, for each equation, whether the text needs it. Not needed, for example, are windows that only convolutions
/// read.
fn needed(f: &Function, definitions: &Definitions<'_>, patterns: &[Option<Pattern>]) -> Vec<bool> {
    if patterns.iter().all(Option::is_none) {
        return vec![true; f.equations.len()];
    }
    let mut read = vec![0usize; f.equations.len()];
    let operands = |i: usize| match &patterns[i] {
        Some(of) => of.operands().to_vec(),
        None => f.equations[i].operands.to_vec(),
    };
    let all = (0..f.equations.len()).flat_map(operands).chain(f.results.iter().copied());
    all.filter_map(|x| definitions.index(x)).for_each(|i| read[i] += 1);
    // An equation that a pattern replaces is not written, so it reads its operands no more. If an operand has no other
    // reader, it is not written either.
    let mut needed = vec![true; f.equations.len()];
    let replaced = patterns.iter().enumerate().filter(|(_, of)| of.is_some());
    let mut open: Vec<usize> = replaced
        .flat_map(|(i, _)| &f.equations[i].operands)
        .filter_map(|x| definitions.index(*x))
        .collect();
    while let Some(i) = open.pop() {
        if needed[i] && read[i] == 0 {
            needed[i] = false;
            for x in operands(i).into_iter().filter_map(|x| definitions.index(x)) {
                read[x] -= 1;
                open.push(x);
            }
        }
    }
    needed
}

/// Returns whether a barrier with this mark enforces a decision of the plan of residuals, such as a recomputation. Such
/// barriers are written, because the engine would otherwise revert the decision by merging equal equations.
fn holds_plan(mark: &Mark) -> bool {
    match mark {
        Mark::Rematerialize
        | Mark::AfterForward
        | Mark::Residual
        | Mark::Tape
        | Mark::Packed
        | Mark::Rounded => true,
        Mark::Draw(_) | Mark::Split(_) | Mark::Named(_) => false,
    }
}

/// Appends operations that convert the starts of a box, with extents `sizes` in an array of extents `shape`, to i64.
/// Returns them.
fn starts_of(w: &mut Writer, shape: &Shape, sizes: &Shape, starts: Vec<Value>) -> Vec<Value> {
    let room = shape.iter().zip(sizes.iter()).map(|(n, size)| n.saturating_sub(*size));
    let convert = |(start, most): (Value, usize)| match start.ty.dtype {
        // A number of u64 may exceed the range of i64, so clamp before the conversion.
        Dtype::U64 => {
            let most = Literal { dtype: Dtype::U64, bits: most as u64 };
            let most = w.constant(most, &Shape::scalar());
            let start = w.same("stablehlo.minimum", &[&start, &most]);
            w.convert(&start, Dtype::I64)
        }
        _ => w.convert(&start, Dtype::I64),
    };
    starts.into_iter().zip(room).map(convert).collect()
}

/// The values of a function that have been written, each as its arrays.
struct Values<'a> {
    f: &'a Function,
    of: SecondaryMap<ValueId, Arrays>,
}

impl Values<'_> {
    /// Returns the arrays that represent an operand; a literal becomes a constant of one element.
    fn arrays(&self, w: &mut Writer, x: Atom) -> Arrays {
        match x {
            Atom::Value(v) => self.of[v].clone(),
            Atom::Literal(x) => vec![w.constant(x, &Shape::scalar())],
        }
    }

    /// Returns the array that represents an operand; it is an error if the operand has no array.
    fn array(&self, w: &mut Writer, x: Atom) -> Result<Value, Problem> {
        self.arrays(w, x).pop().ok_or_else(|| Problem::internal("an operand without arrays"))
    }

    /// Returns an operand of an elementwise operation; a literal becomes a constant of the shape `shape`.
    fn shaped(&self, w: &mut Writer, x: Atom, shape: &Shape) -> Result<Value, Problem> {
        match x {
            Atom::Value(_) => self.array(w, x),
            Atom::Literal(x) => Ok(w.constant(x, shape)),
        }
    }
}
