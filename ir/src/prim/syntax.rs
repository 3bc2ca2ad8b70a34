//! Notation: the text form of primitives.
//!
//! A primitive is a name and a list of attributes, which are the fields of its struct. [`notation!`] takes both
//! once and generates printing and parsing; a missing field does not compile:
//! ```text
//! notation!(Slice = "slice" { start, limit, strides });
//! notation!(Dot = "dot" { batch(lhs_batch, rhs_batch), contract(lhs_contract, rhs_contract) });
//! notation!(Reduce = reducer { axes });
//! ```
//!
//! An attribute has the name of its field, unless names follow the field. A field before the braces is a
//! [`Word`] that names the primitive.

pub(super) use super::{Attr, Attributes};
use crate::lang::function::FuncId;
use crate::lang::host::Host;
use crate::lang::problem::Kind;
pub(super) use crate::lang::problem::Problem;
use crate::lang::types::{ArrayType, Dtype, Shape};
use crate::policy_table::Policy;
use crate::sharding::PartitionSpec;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The text form of a primitive.
pub trait Notation {
    /// Returns the primitive's name in the text format, for example `slice`.
    fn name(&self) -> &'static str;

    /// Returns the attributes in the text format, each with its name, in print order.
    fn attributes(&self) -> Written;

    /// Parses this primitive from a name and attributes; `None` if `name` is not a name of this
    /// primitive.
    fn parse(name: &str, attributes: &mut Attributes) -> Option<Result<Self, Problem>>
    where
        Self: Sized;
}

/// Attributes with their names, in print order.
pub type Written = Vec<(&'static str, Attr)>;

/// Implements [`Notation`] for a struct from its name in text and its fields.
macro_rules! notation {
    ($prim:ident = $name:literal { $($field:ident $(($($key:ident),+))?),* }) => {
        const _: () = {
            use crate::prim::syntax::*;
            impl Notation for $prim {
                fn name(&self) -> &'static str { $name }
                fn attributes(&self) -> Written {
                    <[Written]>::concat(&[$(self.$field.write(keys!($field $($($key)+)?))),*])
                }
                fn parse(name: &str, _all: &mut Attributes) -> Option<Result<$prim, Problem>> {
                    (name == $name).then(|| {
                        Ok($prim { $($field: Field::read(keys!($field $($($key)+)?), _all)?),* })
                    })
                }
            }
        };
    };
    ($prim:ident = $word:ident { $($field:ident),+ }) => {
        const _: () = {
            use crate::prim::syntax::*;
            impl Notation for $prim {
                fn name(&self) -> &'static str { self.$word.word() }
                fn attributes(&self) -> Written { [$(self.$field.write(keys!($field))),+].concat() }
                fn parse(name: &str, all: &mut Attributes) -> Option<Result<$prim, Problem>> {
                    let read = |$word| Ok($prim { $word, $($field: Field::read(keys!($field), all)?),+ });
                    Word::named(name).map(read)
                }
            }
        };
    };
}

/// The names of a field's attributes in the text format: the names given in parentheses, or the field's
/// own name.
macro_rules! keys {
    ($field:ident) => { [stringify!($field)] };
    ($field:ident $($key:ident)+) => { [$(stringify!($key)),+] };
}

/// A field of a primitive with a text form of `N` attributes.
pub(super) trait Field<const N: usize>: Sized {
    /// Returns the field as `N` attributes with these names.
    fn write(&self, names: [&'static str; N]) -> Written;

    /// Parses the field from the attributes with these names, and removes them from `from`.
    fn read(names: [&str; N], from: &mut Attributes) -> Result<Self, Problem>;
}

/// A field whose text form is one attribute.
pub(super) trait SingleField: Sized {
    /// Returns a description of valid values (`an integer`), for error messages.
    fn wanted() -> String;
    fn to_attr(&self) -> Attr;
    fn from_attr(attr: &Attr) -> Option<Self>;
}

impl<V: SingleField> Field<1> for V {
    fn write(&self, [name]: [&'static str; 1]) -> Written {
        vec![(name, self.to_attr())]
    }

    fn read([name]: [&str; 1], from: &mut Attributes) -> Result<V, Problem> {
        let problem = |message: String| Problem::new(Kind::Parse, message, "");
        let Some(found) = from.take(name) else {
            return Err(problem(format!("attribute `{name}` is missing")));
        };
        V::from_attr(&found).ok_or_else(|| {
            problem(format!("attribute `{name}` must be {}, found {found}", V::wanted()))
        })
    }
}

/// The text form of an optional field: the attribute is left out for `None`.
impl<V: SingleField> Field<1> for Option<V> {
    fn write(&self, names: [&'static str; 1]) -> Written {
        self.iter().flat_map(|value| value.write(names)).collect()
    }

    fn read([name]: [&str; 1], from: &mut Attributes) -> Result<Option<V>, Problem> {
        from.has(name).then(|| V::read([name], from)).transpose()
    }
}

/// The text form of pairs: one list of the first members and one list of the second members.
impl Field<2> for Vec<(usize, usize)> {
    fn write(&self, [first, second]: [&'static str; 2]) -> Written {
        let (l, r): (Vec<usize>, Vec<usize>) = self.iter().copied().unzip();
        vec![(first, l.to_attr()), (second, r.to_attr())]
    }

    fn read([first, second]: [&str; 2], from: &mut Attributes) -> Result<Self, Problem> {
        let (l, r): (Vec<usize>, _) = (Field::read([first], from)?, Vec::read([second], from)?);
        if l.len() != r.len() {
            return Err(Problem::new(
                Kind::Parse,
                format!("`{first}` and `{second}` pair up axes, but name {l:?} and {r:?}"),
                "name as many axes of one operand as of the other",
            ));
        }
        Ok(l.into_iter().zip(r).collect())
    }
}

/// An enum each of whose variants is written as one word, for example `clip`.
pub(super) trait Word: Copy + 'static {
    const ALL: &'static [Self];
    fn word(self) -> &'static str;

    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|w| w.word() == word)
    }
}

impl<W: Word> SingleField for W {
    fn wanted() -> String {
        let words: Vec<&str> = W::ALL.iter().map(|w| w.word()).collect();
        words.join(" or ")
    }
    fn to_attr(&self) -> Attr {
        Attr::Word(self.word().into())
    }
    fn from_attr(attr: &Attr) -> Option<W> {
        match attr {
            Attr::Word(word) => W::named(word),
            Attr::Int(_)
            | Attr::Ints(_)
            | Attr::Bool(_)
            | Attr::Dtype(_)
            | Attr::Words(_)
            | Attr::Func(_)
            | Attr::Funcs(_)
            | Attr::Host(_)
            | Attr::Types(_) => None,
        }
    }
}

/// Implements [`SingleField`] for a type, from the variant of [`Attr`] that holds it and the two conversions.
macro_rules! value {
    ($ty:ty, $wanted:literal, $variant:ident, $to:expr, $from:expr) => {
        impl SingleField for $ty {
            fn wanted() -> String {
                $wanted.to_owned()
            }
            fn to_attr(&self) -> Attr {
                Attr::$variant($to(self))
            }
            fn from_attr(attr: &Attr) -> Option<$ty> {
                if let Attr::$variant(found) = attr { $from(found) } else { None }
            }
        }
    };
}

value!(bool, "true or false", Bool, |x: &bool| *x, |x: &bool| Some(*x));
value!(Dtype, "a dtype", Dtype, |x: &Dtype| *x, |x: &Dtype| Some(*x));
value!(FuncId, "a function", Func, |x: &FuncId| *x, |x: &FuncId| Some(*x));
value!(i32, "an integer of 32 bits", Int, |x: &i32| (*x).into(), |x: &i64| (*x).try_into().ok());
value!(u32, "a natural number of 32 bits", Int, |x: &u32| (*x).into(), |x: &i64| (*x)
    .try_into()
    .ok());
value!(usize, "a natural number", Int, |x: &usize| *x as i64, |x: &i64| (*x).try_into().ok());
value!(
    NonZeroU32,
    "a positive number of 32 bits",
    Int,
    |x: &NonZeroU32| x.get().into(),
    |x: &i64| { u32::try_from(*x).ok().and_then(NonZeroU32::new) }
);
value!(Vec<i64>, "a list of integers", Ints, Vec::clone, |x: &Vec<i64>| Some(x.clone()));
value!(Vec<usize>, "a list of natural numbers", Ints, |x: &[usize]| signed(x), |x: &Vec<i64>| {
    natural(x)
});
value!(Shape, "a list of natural numbers", Ints, |x: &[usize]| signed(x), |x: &Vec<i64>| natural(
    x
));

value!(Vec<FuncId>, "a list of functions", Funcs, Vec::clone, |x: &Vec<FuncId>| Some(x.clone()));
value!(Host, "a Rust function", Host, Host::clone, |x: &Host| Some(x.clone()));
value!(Arc<str>, "a word", Word, |x: &Arc<str>| x.to_string().into(), |x: &str| Some(x.into()));

impl SingleField for Vec<ArrayType> {
    fn wanted() -> String {
        "a list of types of arrays".to_owned()
    }
    fn to_attr(&self) -> Attr {
        Attr::Types(self.clone())
    }
    fn from_attr(attr: &Attr) -> Option<Vec<ArrayType>> {
        match attr {
            Attr::Types(types) => Some(types.clone()),
            Attr::Ints(none) if none.is_empty() => Some(Vec::new()),
            _ => None,
        }
    }
}

/// The text form of a checkpointing policy: `nothing`, or a list such as `[named,a,b]`.
impl SingleField for Policy {
    fn wanted() -> String {
        let all: Vec<String> = Policy::samples().iter().map(|p| p.to_attr().to_string()).collect();
        all.join(" or ")
    }
    fn to_attr(&self) -> Attr {
        let words = self.names().iter().map(|name| name.to_string().into());
        match (self.bytes(), self.names()) {
            (Some(bytes), _) => Attr::Word(format!("{}.{bytes}", self.word()).into()),
            (_, []) => Attr::Word(self.word().into()),
            _ => Attr::Words([self.word().into()].into_iter().chain(words).collect()),
        }
    }
    fn from_attr(attr: &Attr) -> Option<Policy> {
        match attr {
            Attr::Word(word) => match word.split_once('.') {
                Some((word, bytes)) => Policy::of_bytes(word, bytes.parse().ok()?),
                None => Policy::of(word, Vec::new()),
            },
            Attr::Words(words) => {
                let (word, names) = words.split_first()?;
                Policy::of(word, names.iter().map(|name| name.as_ref().into()).collect())
            }
            _ => None,
        }
    }
}

impl SingleField for PartitionSpec {
    fn wanted() -> String {
        "a list of names of mesh axes, such as `[data,_]`".to_owned()
    }
    fn to_attr(&self) -> Attr {
        Attr::Words(self.words().map(|word| word.to_owned().into()).collect())
    }
    fn from_attr(attr: &Attr) -> Option<PartitionSpec> {
        match attr {
            Attr::Words(words) => Some(PartitionSpec::new(words.iter().map(AsRef::as_ref))),
            Attr::Ints(none) if none.is_empty() => Some(PartitionSpec::replicated()),
            _ => None,
        }
    }
}

fn signed(x: &[usize]) -> Vec<i64> {
    x.iter().map(|n| *n as i64).collect()
}

fn natural<T: FromIterator<usize>>(x: &[i64]) -> Option<T> {
    x.iter().map(|n| usize::try_from(*n).ok()).collect()
}
