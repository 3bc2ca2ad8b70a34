//! The residuals of a branch: the values that the linear function reads, whichever branch ran.
//!
//! Every branch has its own residuals. The `cond` returns one record of fields; each branch writes its residuals and
//! fills the fields that it does not need with zeros. Branches share fields of equal type. An array larger than
//! [`LITTLE`] is packed into a larger field of its dtype, after the elements that its branch already has there, if
//! there is room. So the record is about as large as the largest branch needs, not as their sum, and a branch that
//! needs a whole field writes it without a copy. Operands and results that a linear function reads are not in the
//! record.
//!
//! ```text
//! branch   saves                        in field f64[1000,100]              in field f64[]
//! first    f64[1000,100], f64[]         its array                           its scalar
//! second   f64[500,100], f64[9,100]     both arrays in succession, zeros    zero
//! ```

use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::problem::Problem;
use crate::lang::query::{LinearizeOf, Residual};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::rules::region_helpers::{function, instantiate};
use crate::prim::{Concatenate, Pad, Reshape, RuleCx, Slice};

/// The largest array, in bytes, that always gets a field of its own type and is never packed into another field.
const LITTLE: usize = 4096;

/// The record of the residuals of a `cond`: the fields in which every branch returns its saved residuals.
pub(super) struct Record {
    /// The types of the record's fields, in order.
    fields: Vec<Type>,
    /// For each branch, the place of each of its saved values in the record.
    places: Vec<Vec<Place>>,
    /// The residuals that the linear function of at least one branch reads. Fields of the record are returned after the
    /// results of the `cond`, and are counted as outputs in this order.
    pub(super) read: Vec<Residual>,
    /// For each branch, the index in `read` of each of its residuals, and its place in the record if it is only a
    /// part of a field.
    picked: Vec<Vec<(usize, Option<Place>)>>,
}

/// The place of a saved value in the record.
#[derive(Clone)]
struct Place {
    /// The index of the record's field.
    field: usize,
    /// The offset of the value within the field, in elements, if it shares the field with others; otherwise
    /// `None`.
    behind: Option<usize>,
    /// The type of the saved value.
    ty: Type,
}

impl Record {
    pub(super) fn new(cx: &RuleCx<'_, '_>, derived: &[LinearizeOf]) -> Record {
        let kept = |of: &LinearizeOf| {
            let results = of.active_out.len();
            cx.b.with_module(|m| m.function(of.fwd).result_types().split_off(results))
        };
        let (fields, places) = places(&derived.iter().map(kept).collect::<Vec<_>>());
        let (mut read, mut picked) = (Vec::new(), Vec::new());
        for (of, places) in derived.iter().zip(&places) {
            let results = of.active_out.len();
            let position = |residual: &Residual| {
                let (residual, place) = match *residual {
                    Residual::Kept(i) => {
                        let place = &places[i - results];
                        (Residual::Kept(results + place.field), Some(place.clone()))
                    }
                    Residual::Parameter(_) | Residual::Result(_) => (*residual, None),
                };
                let at = read.iter().position(|r| *r == residual).unwrap_or_else(|| {
                    read.push(residual);
                    read.len() - 1
                });
                (at, place)
            };
            picked.push(of.residuals.iter().map(position).collect());
        }
        Record { fields, places, read, picked }
    }

    /// Returns the forward function of each branch, changed to return the branch's results and then the whole record.
    pub(super) fn written(
        &self,
        cx: &RuleCx<'_, '_>,
        derived: &[LinearizeOf],
    ) -> Result<Vec<FuncId>, Problem> {
        let whole = |(of, places): (&LinearizeOf, &Vec<Place>)| {
            cx.b.with_module(|m| {
                let f = m.get(of.fwd);
                function(m, &f.name, [&f.param_types(), &[]], |b, x, _| {
                    let mut y = b.inline(of.fwd, x);
                    let kept = y.split_off(of.active_out.len());
                    y.extend(self.fields.iter().enumerate().map(|(field, ty)| {
                        let own = places.iter().zip(&kept).filter(|(p, _)| p.field == field);
                        let (parts, own): (Vec<_>, Vec<_>) =
                            own.map(|(p, x)| (p.behind.is_some(), *x)).unzip();
                        match (parts.contains(&true), ty.as_array()) {
                            (true, Some(ty)) => concatenated(b, &own, ty),
                            _ => instantiate(b, own.first().copied(), ty),
                        }
                    }));
                    y
                })
            })
        };
        derived.iter().zip(&self.places).map(whole).collect()
    }

    /// Returns the linear function of each branch, changed to take all residuals in `read`; `given` holds their values.
    pub(super) fn reading(
        &self,
        cx: &RuleCx<'_, '_>,
        derived: &[LinearizeOf],
        given: &[Atom],
    ) -> Result<Vec<FuncId>, Problem> {
        let types: Vec<Type> = given.iter().map(|a| cx.b.type_of(*a)).collect();
        let whole = |(of, picked): (&LinearizeOf, &Vec<(usize, Option<Place>)>)| {
            cx.b.with_module(|m| {
                let f = m.get(of.lin);
                let linear: Vec<Type> =
                    f.linear_params.iter().map(|p| f.types[*p].clone()).collect();
                function(m, &f.name, [&types, &linear], |b, k, dx| {
                    let own = |(i, place): &(usize, Option<Place>)| match place {
                        Some(Place { behind: Some(behind), ty: Type::Array(ty), .. }) => {
                            part(b, k[*i], *behind, ty)
                        }
                        Some(_) | None => k[*i],
                    };
                    let args: Vec<Atom> =
                        picked.iter().map(own).chain(dx.iter().copied()).collect();
                    b.inline(of.lin, &args)
                })
            })
        };
        derived.iter().zip(&self.picked).map(whole).collect()
    }
}

/// Lays out the record: returns its fields, and for each branch the places of its saved values, whose types are
/// `kept`.
fn places(kept: &[Vec<Type>]) -> (Vec<Type>, Vec<Vec<Place>>) {
    let mut fields: Vec<Type> = Vec::new();
    let mut places: Vec<Vec<Place>> = Vec::new();
    for kept in kept {
        let mut free: Vec<bool> = fields.iter().map(|_| true).collect();
        let place = |ty: &Type| {
            // A tape gets its own field, which stays empty if another branch runs.
            let shared = |i: &usize| free[*i] && fields[*i] == *ty;
            let found = ty.as_array().and_then(|_| (0..free.len()).find(shared));
            let field = found.unwrap_or_else(|| {
                fields.push(ty.clone());
                free.push(true);
                free.len() - 1
            });
            free[field] = false;
            Place { field, behind: None, ty: ty.clone() }
        };
        places.push(kept.iter().map(place).collect());
    }
    let moved = within(&fields, &places);
    let left: Vec<usize> = (0..fields.len()).filter(|i| moved[*i].is_none()).collect();
    for places in &mut places {
        // The number of elements of each field that values of this branch already occupy.
        let mut has: Vec<usize> = fields.iter().map(|_| 0).collect();
        let stay = places.iter().filter(|p| moved[p.field].is_none());
        stay.for_each(|p| has[p.field] = elements(&p.ty));
        for place in places.iter_mut() {
            if let Some(to) = moved[place.field] {
                (place.field, place.behind) = (to, Some(has[to]));
                has[to] += elements(&place.ty);
            }
            place.field = left.iter().position(|i| *i == place.field).unwrap_or(place.field);
        }
    }
    (left.into_iter().map(|i| fields[i].clone()).collect(), places)
}

/// Returns, for each field, the larger field of its dtype into which it is packed; `None` if no larger field has
/// room for the values of every branch. Goes from the largest field to smaller ones, and chooses the field with
/// the least room left.
fn within(fields: &[Type], places: &[Vec<Place>]) -> Vec<Option<usize>> {
    let large = |i: &usize| fields[*i].as_array().is_some_and(|ty| ty.bytes() > LITTLE);
    let mut order: Vec<usize> = (0..fields.len()).filter(large).collect();
    order.sort_by_key(|i| std::cmp::Reverse(elements(&fields[*i])));
    let has = |places: &Vec<Place>, i: usize| match places.iter().any(|p| p.field == i) {
        true => elements(&fields[i]),
        false => 0,
    };
    // The number of elements of each field that the values of each branch occupy.
    let mut taken: Vec<Vec<usize>> =
        (0..fields.len()).map(|i| places.iter().map(|p| has(p, i)).collect()).collect();
    let mut moved: Vec<Option<usize>> = fields.iter().map(|_| None).collect();
    let dtype = |i: usize| fields[i].as_array().map(|ty| ty.dtype);
    for (n, i) in order.iter().copied().enumerate() {
        let both = |to: usize| taken[to].iter().zip(&taken[i]).map(|(a, b)| a + b).max();
        let room = |to: usize| elements(&fields[to]).checked_sub(both(to)?);
        let others = order[..n].iter().copied();
        let others = others.filter(|to| moved[*to].is_none() && dtype(*to) == dtype(i));
        let Some((_, to)) = others.filter_map(|to| Some((room(to)?, to))).min() else { continue };
        moved[i] = Some(to);
        let own = std::mem::take(&mut taken[i]);
        taken[to].iter_mut().zip(own).for_each(|(all, own)| *all += own);
    }
    moved
}

fn elements(ty: &Type) -> usize {
    ty.as_array().map_or(0, |ty| ty.shape.elements())
}

/// Emits a value for a packed field: the elements of the arrays `x` one after the other, then zeros.
fn concatenated(b: &Builder<'_>, x: &[Atom], field: &ArrayType) -> Atom {
    let parts: Vec<Atom> = x.iter().map(|x| flat(b, *x)).collect();
    let all = match parts[..] {
        [one] => one,
        _ => b.emit1(Concatenate { axis: 0 }, &parts),
    };
    let rest = field.shape.elements() - elements(&b.type_of(all));
    let pad = Pad { low: vec![0], high: vec![rest as i64], interior: vec![0] };
    let all = b.emit1(pad, &[all, Literal::zero(field.dtype).into()]);
    b.emit1(Reshape { shape: field.shape.clone() }, &[all])
}

/// Emits the array of type `ty` that starts at offset `behind`, in elements, of a packed field `x`.
fn part(b: &Builder<'_>, x: Atom, behind: usize, ty: &ArrayType) -> Atom {
    let end = behind + ty.shape.elements();
    let x = b.emit1(Slice::dense(vec![behind], vec![end]), &[flat(b, x)]);
    b.emit1(Reshape { shape: ty.shape.clone() }, &[x])
}

fn flat(b: &Builder<'_>, x: Atom) -> Atom {
    b.emit1(Reshape { shape: Shape::from([elements(&b.type_of(x))]) }, &[x])
}
