//! The record of a branch: what the linear half reads of the forward half, whichever branch ran.
//!
//! Every branch keeps values of its own. The whole keeps one record, in which each branch writes its
//! values and zeros in the fields that it does not need; branches share fields of equal type, so the
//! record is as large as the largest of them and not as their sum. Operands and results that a linear
//! half reads again are in no record.

use super::super::RuleCx;
use super::super::toolbox::{function, instantiate};
use crate::function::{Atom, FuncId};
use crate::problem::Problem;
use crate::question::{LinearizeOf, Residual};
use crate::types::Type;

/// What linear halves of branches read.
pub(super) struct Record {
    /// The types of its fields.
    fields: Vec<Type>,
    /// For each branch, the fields of the values that it keeps.
    places: Vec<Vec<usize>>,
    /// What any linear half reads, fields among it as outputs behind the results.
    pub(super) read: Vec<Residual>,
    /// For each branch, which of those its residuals are.
    picked: Vec<Vec<usize>>,
}

impl Record {
    pub(super) fn new(cx: &RuleCx<'_, '_>, derived: &[LinearizeOf]) -> Record {
        let mut record =
            Record { fields: Vec::new(), places: Vec::new(), read: Vec::new(), picked: Vec::new() };
        for of in derived {
            let results = of.active_out.len();
            let kept = cx.b.with_module(|m| m.function(of.fwd).result_types().split_off(results));
            let mut free: Vec<bool> = record.fields.iter().map(|_| true).collect();
            let place = |ty: Type| {
                // A tape has a field to itself, which is empty where other branches ran.
                let shared = |i: &usize| free[*i] && record.fields[*i] == ty;
                let found = ty.as_array().and_then(|_| (0..free.len()).find(shared));
                let field = found.unwrap_or_else(|| {
                    record.fields.push(ty);
                    free.push(true);
                    free.len() - 1
                });
                free[field] = false;
                field
            };
            let places: Vec<usize> = kept.into_iter().map(place).collect();
            let position = |residual: &Residual| {
                let residual = match *residual {
                    Residual::Kept(i) => Residual::Kept(results + places[i - results]),
                    Residual::Parameter(_) | Residual::Result(_) => *residual,
                };
                record.read.iter().position(|r| *r == residual).unwrap_or_else(|| {
                    record.read.push(residual);
                    record.read.len() - 1
                })
            };
            record.picked.push(of.residuals.iter().map(position).collect());
            record.places.push(places);
        }
        record
    }

    /// The forward halves, each giving the results and the whole record.
    pub(super) fn written(
        &self,
        cx: &RuleCx<'_, '_>,
        derived: &[LinearizeOf],
    ) -> Result<Vec<FuncId>, Problem> {
        let whole = |(of, places): (&LinearizeOf, &Vec<usize>)| {
            cx.b.with_module(|m| {
                let f = m.get(of.fwd);
                function(m, &f.name, [&f.param_types(), &[]], |b, x, _| {
                    let mut y = b.inline(of.fwd, x);
                    let kept = y.split_off(of.active_out.len());
                    y.extend(self.fields.iter().enumerate().map(|(field, ty)| {
                        let own = places.iter().position(|p| *p == field);
                        instantiate(b, own.map(|k| kept[k]), ty)
                    }));
                    y
                })
            })
        };
        derived.iter().zip(&self.places).map(whole).collect()
    }

    /// The linear halves, each taking all that any reads, which is `given`.
    pub(super) fn reading(
        &self,
        cx: &RuleCx<'_, '_>,
        derived: &[LinearizeOf],
        given: &[Atom],
    ) -> Result<Vec<FuncId>, Problem> {
        let types: Vec<Type> = given.iter().map(|a| cx.b.type_of(*a)).collect();
        let whole = |(of, picked): (&LinearizeOf, &Vec<usize>)| {
            cx.b.with_module(|m| {
                let f = m.get(of.lin);
                let linear: Vec<Type> =
                    f.linear_params.iter().map(|p| f.types[*p].clone()).collect();
                function(m, &f.name, [&types, &linear], |b, k, dx| {
                    let args: Vec<Atom> =
                        picked.iter().map(|i| k[*i]).chain(dx.iter().copied()).collect();
                    b.inline(of.lin, &args)
                })
            })
        };
        derived.iter().zip(&self.picked).map(whole).collect()
    }
}
