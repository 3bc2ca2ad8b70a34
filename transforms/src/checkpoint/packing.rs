//! Packs residuals in fewer bits.
//!
//! A plan chooses the values that the linear function reads. A value saved for the linear function alone may take fewer
//! bytes than its dtype. The forward function then packs it right after its definition, and the linear function unpacks
//! it ([`Packing`]). Packing and unpacking are ordinary equations, so the result is again a linearization of the
//! function:
//!
//! ```text
//! func @f.fwd(..) -> (.., bool[100])        func @f.fwd(..) -> (.., u32[4])
//!   %7: bool[100] = le %5, %6                 %7: bool[100] = le %5, %6
//!   return .., %7                             .. shift_left, reduce_or: %9: u32[4]
//! }                                           %10: u32[4] = barrier{mark=packed} %9
//!                                             return .., %10
//!                                           }
//! ```
//!
//! [`Bits`] selects the packing:
//!
//! | | |
//! |---|---|
//! | `Whole` | nothing |
//! | `Cheap` | if the arithmetic costs less than the saved bytes: for example, indices as 32 bits, but not masks |
//! | `Few` | the fewest bytes |
//! | `Rounded` | as `Cheap`, and f64 as f32 unless [`decisions`](super::decisions) of the linear function read it |
//!
//! The residual of one iteration of a loop is a row. A row that fills its words is packed in the iteration, so no
//! unpacked stack exists. A row that would leave more than a quarter of its words empty (a truth value alone) is packed
//! by the function that has the stack of all rows; within a budget, that is a block of iterations, whose rows fill
//! words together ([`budget`](super::budget)). In both cases the price is that of the packed bits.

use super::cost::{MOVES, UNIT, constants, is_little};
use super::decisions::decisive;
use crate::loops::integers;
use crate::passes::cost::FLOPS_PER_BYTE;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::lang::query::{LinearizeOf, Residual};
use tapeloom_ir::prim::{Op, Packing};
use tapeloom_ir::{
    ArrayType, Atom, Bits, Builder, Draft, Dtype, Function, Module, OrderedMap, Origin,
    PlanRequest, Price, Problem, RecomputePrice, Type, ValueId, ValueRemap,
};

/// The cost of integer arithmetic on single numbers, as a multiple of the cost in the table of codes. That table has
/// the costs of floats in vector registers.
const SCALAR: u32 = 2;

/// The possible packings of each value of a function, with their prices.
pub(super) struct Widths {
    bits: Bits,
    together: bool,
    /// Whether the arithmetic of packing and unpacking counts in the price; if not, only bytes count.
    weighed: bool,
    /// The intervals of the function's integer values; empty if no packing depends on them.
    ranges: SecondaryMap<ValueId, Option<Interval>>,
}

impl Widths {
    pub(super) fn of(module: &Module, f: &Function, terms: &PlanRequest) -> Widths {
        let integer = |ty: &Type| ty.as_array().is_some_and(|ty| ty.dtype.is_integer());
        let asked = terms.bits != Bits::Whole && f.types.values().any(integer);
        let ranges = if asked { integers(module, f) } else { SecondaryMap::new() };
        Widths {
            bits: terms.bits,
            together: terms.together,
            weighed: terms.policy.row().recompute == RecomputePrice::Weighed,
            ranges,
        }
    }

    /// Returns the price of saving value `v` in its cheapest exact packing or unpacked, in the units of
    /// [`super::cost`].
    pub(super) fn price(&self, v: ValueId, ty: &ArrayType) -> u64 {
        // A value that will be rounded is priced at its full size, so that the choice of saved values does not depend
        // on the rounding.
        let ways = self.ways(v, ty).into_iter().filter(|way| way.is_exact());
        let prices = ways.map(|way| match (way, self.bits) {
            // The packed rows (one iteration's residual each) of several iterations share words, so the price is that
            // of the packed bits, not of whole words. If arithmetic has a price, a comparison is recomputed rather than
            // packed.
            (Packing::Words { width, .. }, Bits::Few) => {
                let bits = moved(ty.shape.elements() as f64 * width as f64 / 8.0);
                if self.weighed { bits + work(way, ty) } else { bits }
            }
            _ => self.cost(way, ty),
        });
        prices.fold(moved(ty.bytes() as f64), f64::min).ceil() as u64
    }

    /// Returns the packings that may take fewer bytes for value `v` of type `ty` than its dtype.
    fn ways(&self, v: ValueId, ty: &ArrayType) -> Vec<Packing> {
        match (self.bits, ty.dtype) {
            // A single number that one function computes and reads takes almost no memory, so the number is not
            // rounded.
            (Bits::Rounded, Dtype::F64) if self.together && ty.shape.elements() == 1 => Vec::new(),
            (Bits::Rounded, Dtype::F64) => vec![Packing::As(Dtype::F32)],
            (Bits::Whole, _) | (_, Dtype::F64 | Dtype::F32) => Vec::new(),
            (_, Dtype::Bool) => Packing::exact(Dtype::Bool, 0, 1),
            (_, dtype @ (Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64)) => {
                let exact = |r: Interval| Packing::exact(dtype, r.least, r.most);
                self.ranges[v].map_or_else(Vec::new, exact)
            }
        }
    }

    /// Returns the price of saving an array in the packing `way`: of its packed bytes, and of packing and unpacking
    /// if arithmetic counts.
    fn cost(&self, way: Packing, ty: &ArrayType) -> f64 {
        let bytes = moved(way.packed(ty).bytes() as f64);
        match (self.bits, way.is_exact()) {
            (Bits::Cheap | Bits::Rounded, true) => bytes + work(way, ty),
            // Under a byte budget, or without a price of arithmetic, only bytes count.
            (Bits::Few | Bits::Whole, _) | (Bits::Cheap | Bits::Rounded, false) => bytes,
        }
    }

    /// Returns the packing in which value `v` of the function is saved; `None` if it is saved unpacked.
    fn way(&self, v: ValueId, ty: &ArrayType) -> Option<Packing> {
        if self.bits == Bits::Cheap && is_little(ty, self.together) {
            return None;
        }
        let fills = |way: &Packing| match way {
            Packing::As(_) => true,
            Packing::Words { width, .. } => {
                self.together || 24 * way.packed(ty).bytes() <= 4 * width * ty.shape.elements()
            }
        };
        let ways = self.ways(v, ty).into_iter().filter(fills);
        let fewer = ways.filter(|way| way.packed(ty).bytes() < ty.bytes());
        let costs = fewer.map(|way| (self.cost(way, ty), way));
        let cheapest = costs.min_by(|(a, _), (b, _)| a.total_cmp(b));
        cheapest.filter(|(cost, _)| *cost < moved(ty.bytes() as f64)).map(|(_, way)| way)
    }
}

/// Returns the price of saving `bytes` bytes of residuals: of writing and reading them.
fn moved(bytes: f64) -> f64 {
    bytes * MOVES * FLOPS_PER_BYTE * UNIT
}

/// Returns the price of the arithmetic that packs an array and unpacks it again.
fn work(way: Packing, ty: &ArrayType) -> f64 {
    UNIT * f64::from(SCALAR * way.work()) * ty.shape.elements() as f64
}

/// Packs the residuals of the linearization `of`. The field `bits` of the request `terms` selects the packing (see
/// [`Bits`]).
pub(super) fn pack(
    module: &mut Module,
    of: LinearizeOf,
    terms: &PlanRequest,
) -> Result<LinearizeOf, Problem> {
    let ways = ways(module, &of, terms);
    if ways.is_empty() {
        return Ok(of);
    }
    let (fwd, lin) = (module.get(of.fwd), module.get(of.lin));
    let (mut draft, mut copying) = ValueRemap::same_signature(&fwd);
    let b = Builder::new(module, &mut draft);
    let mut way_of: SecondaryMap<ValueId, Option<&PackingChoice>> = SecondaryMap::new();
    ways.values().for_each(|way| way_of[way.value] = Some(way));
    let mut packed: SecondaryMap<ValueId, Option<Atom>> = SecondaryMap::new();
    let mut pack = |made: &[ValueId], copying: &ValueRemap| {
        for PackingChoice { value, way, at } in made.iter().filter_map(|v| way_of[*v]) {
            b.at(*at);
            let bits = way.pack(&b, copying.read((*value).into()));
            packed[*value] = Some(b.emit1(Op::barrier(way.mark()), &[bits]));
        }
    };
    // Pack a residual right after its definition, so that the unpacked value is freed early.
    pack(&fwd.params, &copying);
    for (i, e) in fwd.equations.iter().enumerate() {
        copying.define(e, b.copy(&fwd, i, copying.all(&e.operands)));
        pack(&e.outputs, &copying);
    }
    let mut results = copying.results(&fwd);
    let mut kept: OrderedMap<Residual, Residual> = OrderedMap::default();
    for (residual, PackingChoice { value, .. }) in &ways {
        let Some(packed) = packed[*value] else { continue };
        let place = match *residual {
            Residual::Kept(i) => i,
            // The unpacked value remains a parameter or a result, so the packed value becomes another result.
            Residual::Parameter(_) | Residual::Result(_) => {
                results.push(packed);
                results.len() - 1
            }
        };
        results[place] = packed;
        kept.insert(*residual, Residual::Kept(place));
    }
    let forward = draft.close(results)?;

    let mut draft = Draft::new(lin.name.clone());
    let mut residuals = Vec::with_capacity(of.residuals.len());
    let mut args = Vec::with_capacity(of.residuals.len());
    for (residual, p) in of.residuals.iter().zip(&lin.params) {
        let ty = lin.types[*p].clone();
        let way = ways.get(residual).zip(ty.as_array());
        let packed = way.map_or_else(|| ty.clone(), |(way, ty)| way.way.packed(ty).into());
        let param = draft.param(packed);
        residuals.push(kept.get(residual).copied().unwrap_or(*residual));
        args.push((param, way.map(|(way, ty)| (way, ty.clone()))));
    }
    let dx = lin.linear_params.iter().map(|p| lin.types[*p].clone());
    let dx: Vec<Atom> = dx.map(|ty| draft.linear_param(ty)).collect();
    let b = Builder::new(module, &mut draft);
    let unpacked = args.into_iter().map(|(y, way)| match way {
        Some((PackingChoice { way, at, .. }, ty)) => {
            b.at(*at);
            way.unpack(&b, y, &ty)
        }
        None => y,
    });
    let args: Vec<Atom> = unpacked.chain(dx).collect();
    let dy = b.inline(of.lin, &args);
    let linear = draft.close(dy)?;
    let (fwd, lin) = (module.add(forward)?, module.add(linear)?);
    Ok(LinearizeOf { fwd, lin, active_out: of.active_out, residuals })
}

/// The packing chosen for one residual.
struct PackingChoice {
    /// The residual's value in the forward function.
    value: ValueId,
    way: Packing,
    /// The source line and the phase (forward or reverse pass) of the equation that defines the value.
    at: Origin,
}

/// Returns the residuals to pack, each with its packing.
fn ways(
    module: &Module,
    of: &LinearizeOf,
    terms: &PlanRequest,
) -> OrderedMap<Residual, PackingChoice> {
    let mut found = OrderedMap::default();
    if terms.bits == Bits::Whole {
        return found;
    }
    let fwd = module.function(of.fwd);
    let widths = Widths::of(module, fwd, terms);
    let constant = constants(module, fwd, &terms.params);
    let own = |prices: &[Price], i: usize| prices.get(i).is_some_and(|price| price.is_own());
    let rounds = terms.bits == Bits::Rounded;
    let decisive = if rounds { decisive(module, of.lin) } else { Vec::new() };
    for (k, residual) in of.residuals.iter().enumerate() {
        let value = match *residual {
            Residual::Kept(i) => fwd.results[i].value(),
            Residual::Result(i) if own(&terms.results, i) => fwd.results[i].value(),
            Residual::Parameter(i) if own(&terms.params, i) => Some(fwd.params[i]),
            Residual::Result(_) | Residual::Parameter(_) => None,
        };
        // A value that depends on constants of the loop alone is the same in all iterations; an enclosing function
        // saves and packs it once.
        let Some(value) = value.filter(|v| !constant[*v]) else { continue };
        let Some(ty) = fwd.types[value].as_array() else { continue };
        let exact = decisive.get(k) == Some(&true);
        if let Some(way) = widths.way(value, ty).filter(|way| way.is_exact() || !exact) {
            let made = fwd.equations.iter().position(|e| e.outputs.contains(&value));
            let at = made.map_or(Origin::default(), |i| fwd.origin(i));
            found.insert(*residual, PackingChoice { value, way, at });
        }
    }
    found
}
