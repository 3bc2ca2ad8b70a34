//! `callback{host, results, lanes, shared}`: calls a Rust function with the operands.
//!
//! ```text
//! %1: f64[3] = callback{host=&spline, results=[f64[3]]} %0     // pure: nothing but the result matters
//! callback{host=&print, results=[]} %1                         // performed once, in program order
//! ```
//!
//! A callback with results is a pure function, and one without results is an ordered effect ([`HostCall`]). The
//! function's derivative is unknown; a [`custom_call`](crate::prim::CustomCall) around it supplies rules. An
//! effect does not change derivatives: its operands are differentiated as if it were absent. Its transpose is
//! empty, since the values that it would observe do not exist in the reverse pass.
//!
//! Over a batch (`lanes`) the function is called for one member after the other, or once for all members if the
//! host supports that. Nested batches are one batch, the outer members first:
//!
//! ```text
//! %2: f64[8] = callback{host=&interpolate, results=[f64[]], lanes=8, shared=[0]} %0, %1
//! ```
//!
//! Model: JAX's `pure_callback` and `debug_callback`; here the number of results distinguishes the two.

use crate::lang::function::{Atom, FuncId};
use crate::lang::host::{Host, HostCall};
use crate::lang::module::Module;
use crate::lang::problem::Kind;
use crate::lang::types::{ArrayType, Dtype, Shape, Type};
use crate::lang::value::Value;
use crate::prim::elementwise::materialize_lead;
use crate::prim::facet::Facet;
use crate::prim::syntax::{Field, Problem, Written};
use crate::prim::{
    Arg, Attributes, Batched, Cotangents, Doc, Dual, Effects, Family, Linearity, Lowering, Op,
    Operand, Primitive, Prune, RegionList, Regions, Reshape, Rewrite, RuleCx, Sample, Types,
};
use crate::tensor::Tensor;
use std::sync::LazyLock;

/// A call of a Rust function. Its text is `callback{host, results, lanes, shared}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Callback {
    /// The Rust function, the types of its results, and the batch over which it is called.
    pub call: HostCall,
}

notation!(Callback = "callback" { call(host, results, lanes, shared) });

impl Field<4> for HostCall {
    fn write(&self, [host, results, lanes, shared]: [&'static str; 4]) -> Written {
        let several = (!self.shared.is_empty()).then(|| self.shared.clone());
        let written =
            [self.host.write([host]), self.results.write([results]), self.lanes.write([lanes])];
        [written.concat(), several.write([shared])].concat()
    }

    fn read(
        [host, results, lanes, shared]: [&str; 4],
        from: &mut Attributes,
    ) -> Result<HostCall, Problem> {
        Ok(HostCall {
            host: Field::read([host], from)?,
            results: Field::read([results], from)?,
            lanes: Field::read([lanes], from)?,
            shared: Option::read([shared], from)?.unwrap_or_default(),
        })
    }
}

impl Op {
    /// Returns the Rust function that the equation calls.
    pub fn host(&self) -> Option<&Host> {
        let Facet::Host(of) = self.facet() else { return None };
        Some(&of.call.host)
    }
}

impl Callback {
    /// Returns a callback of `host` with results of these types, without a batch.
    pub fn new(host: Host, results: Vec<ArrayType>) -> Callback {
        Callback { call: HostCall { host, results, lanes: None, shared: Vec::new() } }
    }

    /// Checks the types of the operands: each batched operand must have the batch members on axis 0.
    fn check(&self, operands: &[Operand<'_>]) -> Result<(), Problem> {
        let arguments = |message: String, help: &str| {
            Err(Problem::new(Kind::Arguments, message, help.to_owned()))
        };
        if let Some(bad) = self.call.shared.iter().find(|i| **i >= operands.len()) {
            let message = format!("`callback` shares operand {bad} of {}", operands.len());
            return arguments(message, "operands are counted from 0");
        }
        for (i, operand) in operands.iter().enumerate() {
            let Some(array) = operand.ty.as_array() else {
                let message = format!("operand {i} of `callback` is {}", operand.ty);
                return arguments(message, "a Rust function takes arrays");
            };
            let lane = self.call.lanes.filter(|_| !self.call.shared.contains(&i));
            if lane.is_some_and(|n| array.shape.first() != Some(&n)) {
                let n = lane.unwrap_or_default();
                let message = format!("operand {i} of `callback` is {array}, over {n} lanes");
                return arguments(message, "axis 0 has the lanes, unless the operand is `shared`");
            }
        }
        Ok(())
    }
}

impl Primitive for Callback {
    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Outside,
            name: "callback{host, results, lanes, shared}".into(),
            math: "y.. = host(x..), where `host` is a Rust function".into(),
            types: "any arrays to the declared results; with `lanes`, all have the lanes on axis \
                    0, except the `shared` operands"
                .into(),
            derivative: "none of its own: the custom rule around it has one".into(),
            edges:
                "without results it is an ordered effect: performed once, in program order, for \
                 each active batch member; panics and results of other types are errors"
                    .into(),
        }]
    }

    fn outputs(&self, _: &Module) -> usize {
        self.call.results.len()
    }

    fn infer(&self, _: &Module, operands: &[Operand<'_>]) -> Result<Types, Problem> {
        self.check(operands)?;
        Ok(self.call.result_types().into_iter().map(Type::Array).collect())
    }

    fn run(&self, _: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem> {
        let results = self.call.run(&Value::arrays(operands)?)?;
        Ok(results.into_iter().map(Value::from).collect())
    }

    fn jvp(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        let moves = dx.iter().any(Option::is_some);
        if moves && self.call.results.iter().any(|ty| ty.dtype.is_float()) {
            return Err(Problem::new(
                Kind::NotDifferentiable,
                format!("`{}` is a Rust function without a derivative rule", self.call.host.name()),
                "put it inside `custom_jvp` or `custom_vjp`, or stop the gradient of its arguments",
            ));
        }
        let y = cx.b.emit(self.clone(), x);
        Ok(Dual { dy: y.iter().map(|_| None).collect(), y })
    }

    fn linearize(
        &self,
        cx: &mut RuleCx<'_, '_>,
        x: &[Atom],
        dx: &[Option<Atom>],
    ) -> Result<Dual, Problem> {
        self.jvp(cx, x, dx)
    }

    /// A callback without results is an effect, which is linear in all operands. A callback with results is linear in
    /// no operand.
    fn is_linear(&self, _: &Module, _: &[Linearity]) -> bool {
        self.call.is_ordered()
    }

    /// Adds nothing: the transpose of `x -> ()` is `() -> 0`.
    fn transpose(
        &self,
        _: &mut RuleCx<'_, '_>,
        _: &[Arg],
        _: &[Option<Atom>],
        _: &mut Cotangents,
    ) -> Result<(), Problem> {
        Ok(())
    }

    fn batch(
        &self,
        cx: &mut RuleCx<'_, '_>,
        size: usize,
        x: &[Atom],
        batched: &[bool],
    ) -> Result<Batched, Problem> {
        let b = cx.b;
        let mut call = self.call.clone();
        let outputs = call.results.len();
        let lifted = Batched {
            y: Default::default(),
            batched: std::iter::repeat_n(true, outputs).collect(),
        };
        let Some(inner) = call.lanes else {
            call.lanes = Some(size);
            call.shared = (0..x.len()).filter(|i| !batched[*i]).collect();
            return Ok(Batched { y: b.emit(Callback { call }, x), ..lifted });
        };
        // Two nested batches become one batch. If the members of only one of the two share an operand, the operand is
        // repeated for these members.
        let all = size.checked_mul(inner).ok_or_else(|| {
            let message = format!("{size} times {inner} batch members are too many to count");
            Problem::new(Kind::TooLarge, message, "batch over fewer axes")
        })?;
        let flat = |x: Atom, from: usize| {
            let rest = b.shape_of(x)[from..].to_vec();
            b.emit1(Reshape { shape: Shape::from(&rest[..]).with_leading(all) }, &[x])
        };
        let mut shared = Vec::new();
        let mut operands = Vec::new();
        for (i, (x, on)) in x.iter().zip(batched).enumerate() {
            let alike = call.shared.contains(&i);
            operands.push(match (on, alike) {
                (false, true) => {
                    shared.push(i);
                    *x
                }
                (true, false) => flat(*x, 2),
                (false, false) => flat(materialize_lead(b, size, *x), 2),
                (true, true) => {
                    let shape = b.shape_of(*x);
                    let mut wide = vec![size, inner];
                    wide.extend(&shape[1..]);
                    let dims = std::iter::once(0).chain(2..wide.len()).collect();
                    let x = b.emit1(crate::prim::Broadcast { shape: wide[..].into(), dims }, &[*x]);
                    flat(x, 2)
                }
            });
        }
        (call.lanes, call.shared) = (Some(all), shared);
        let y = b.emit(Callback { call }, &operands);
        let apart = |(y, ty): (&Atom, &ArrayType)| {
            let shape = ty.shape.with_leading(inner).with_leading(size);
            b.emit1(Reshape { shape }, &[*y])
        };
        Ok(Batched { y: y.iter().zip(&self.call.results).map(apart).collect(), ..lifted })
    }

    fn regions(&self) -> RegionList {
        RegionList::new()
    }

    fn with_regions(&self, _: &[FuncId]) -> Op {
        self.clone().into()
    }

    fn prune(&self, _: &mut dyn Regions, _: &mut Module, _: &[bool]) -> Result<Prune, Problem> {
        Ok(Prune::Whole)
    }

    fn lower(&self, _: &Module, _: &[Operand<'_>]) -> Lowering {
        Lowering::Host(self.call.clone())
    }

    fn effects(&self, _: &Module) -> Effects {
        match self.call.is_ordered() {
            true => Effects::Ordered,
            false => Effects::Pure,
        }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples(_: &mut Module) -> Vec<Sample> {
        samples()
    }
}

/// Samples: a function alone and over a batch, a host function that supports batches, and an effect.
fn samples() -> Vec<Sample> {
    fn sum(x: &Tensor) -> f64 {
        x.numbers().sum()
    }
    // The host function `(x, n) -> (sum of x, total number of elements)`, for operands of any shape.
    static SUM: LazyLock<Host> = LazyLock::new(|| {
        let count = |x: &Tensor| x.elements() as i64;
        let one = move |_, x: &[Tensor]| {
            Ok(vec![Tensor::from(sum(&x[0])), Tensor::from([count(&x[0]), count(&x[1])])])
        };
        Host::new("sum", one, None)
    });
    static SUMS: LazyLock<Host> = LazyLock::new(|| {
        let all = |_, x: &[Tensor]| {
            Ok(vec![Tensor::vector(&x[0].rows().map(|x| sum(&x)).collect::<Vec<f64>>())])
        };
        let one = |_, x: &[Tensor]| Ok(vec![Tensor::from(sum(&x[0]))]);
        Host::new("sums", one, Some(Box::new(all)))
    });
    static SEE: LazyLock<Host> = LazyLock::new(|| Host::new("see", |_, _| Ok(Vec::new()), None));
    let ty = |dtype, shape: &[usize]| ArrayType::new(dtype, shape);
    let over = |call: Callback, lanes, shared: &[usize]| Callback {
        call: HostCall { lanes: Some(lanes), shared: shared.to_vec(), ..call.call },
    };
    let (x, n) = (Tensor::from([[1.0, 2.0, 4.0], [0.5, 0.25, 8.0]]), Tensor::from([3i64, 4]));
    let sum = || Callback::new(SUM.clone(), vec![ty(Dtype::F64, &[]), ty(Dtype::I64, &[2])]);
    let sums = || Callback::new(SUMS.clone(), vec![ty(Dtype::F64, &[])]);
    let see = || Callback::new(SEE.clone(), Vec::new());
    vec![
        Sample::edge(sum(), vec![x.clone(), n.clone()]),
        Sample::edge(over(sum(), 2, &[1]), vec![x.clone(), n.clone()]),
        Sample::edge(sums(), vec![x.clone()]),
        Sample::edge(over(sums(), 2, &[]), vec![x.clone()]),
        Sample::edge(over(sums(), 3, &[0]), vec![x.clone()]),
        Sample::edge(see(), vec![x.clone(), n]),
        Sample::edge(over(see(), 2, &[]), vec![x]),
    ]
}
