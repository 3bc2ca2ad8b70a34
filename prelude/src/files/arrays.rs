//! `Arrays`: named tensors, the content of a file, and their conversion from and to a tree.

use super::in_file;
use crate::tree::{Leaf, Tree, leaf_paths};
use crate::var::caller;
use crate::{Error, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tapeloom_ir::trace::{Diagnostic, Note};
use tapeloom_ir::{ArrayType, Kind, Loc, Problem, Tensor, closest_name};

/// The name in a file of a tensor that is the whole tree and therefore has an empty path.
const ALONE: &str = "tensor";

/// The largest number of differences that an error lists.
const SHOWN: usize = 20;

/// The longest name, in bytes, for which a similar name is searched. The time of a search grows with the square of the
/// length.
const LONGEST: usize = 200;

/// A leaf with a shape and a dtype: a [`Tensor`], a reference to one, or an [`ArrayType`].
pub trait TypedLeaf: Leaf {
    /// Returns the shape and the dtype.
    fn array_type(&self) -> ArrayType;
}

impl TypedLeaf for Tensor {
    fn array_type(&self) -> ArrayType {
        self.ty().clone()
    }
}

impl TypedLeaf for &Tensor {
    fn array_type(&self) -> ArrayType {
        self.ty().clone()
    }
}

impl TypedLeaf for ArrayType {
    fn array_type(&self) -> ArrayType {
        self.clone()
    }
}

/// The content of a file: named tensors, and metadata, which are named texts.
///
/// ```
/// use tapeloom::{files::Arrays, prelude::*};
/// let net = vec![(Tensor::from([1.0, 2.0]), Tensor::from(0.5))];
/// let arrays = Arrays::of(&(net, Tensor::from(7i64)));
/// assert_eq!(arrays.names().collect::<Vec<_>>(), ["0[0].0", "0[0].1", "1"]);
///
/// // A part of it as a tree, without the name in front.
/// let zeros = vec![(Tensor::from([0.0, 0.0]), Tensor::from(0.0))];
/// let net = arrays.under("0").tree(&zeros)?;
/// assert_eq!(net[0].1.item::<f64>()?, 0.5);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Names of another library become those of your tree by [`renamed`](Arrays::renamed).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays {
    pub(super) arrays: BTreeMap<String, Tensor>,
    pub(super) metadata: BTreeMap<String, String>,
    /// The path of the file from which the arrays were read, for messages.
    pub(super) file: Option<String>,
}

impl Arrays {
    /// Returns no arrays.
    pub fn new() -> Arrays {
        Arrays::default()
    }

    /// Returns the leaves of a tree under their paths, as [`tree_paths`](crate::tree_paths) prints them. A tensor that
    /// is the whole tree has an empty path and gets the name `tensor`.
    pub fn of<A: Tree<Tensor>>(tree: &A) -> Arrays {
        let (structure, leaves) = tree::flatten(tree);
        let names = names(leaf_paths::<Tensor, A>(&structure, ""));
        Arrays { arrays: names.into_iter().zip(leaves).collect(), ..Arrays::default() }
    }

    /// Adds a tensor under a name. If another tensor had this name, it is replaced and returned.
    pub fn insert(&mut self, name: impl Into<String>, tensor: impl Into<Tensor>) -> Option<Tensor> {
        self.arrays.insert(name.into(), tensor.into())
    }

    /// Returns the tensor with this name.
    ///
    /// # Errors
    /// [`Kind::File`] if there is none; the message proposes a similar name.
    #[track_caller]
    pub fn get(&self, name: &str) -> Result<&Tensor, Error> {
        self.arrays.get(name).ok_or_else(|| {
            let help = match similar(name, self.arrays.keys()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("there are {}", listed(self.arrays.keys())),
            };
            let problem = Problem::new(Kind::File, format!("no array has the name `{name}`"), help);
            Error::at(self.named(problem), caller())
        })
    }

    /// Returns the names, in alphabetical order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.arrays.keys().map(String::as_str)
    }

    /// Returns the names with their tensors, in alphabetical order of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Tensor)> {
        self.arrays.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Returns the metadata. Only safetensors files have metadata.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Adds a text to the metadata.
    pub fn with_metadata(mut self, key: impl Into<String>, text: impl Into<String>) -> Arrays {
        self.metadata.insert(key.into(), text.into());
        self
    }

    /// Returns the arrays whose path begins with `path`, without that beginning: `net[0].w` becomes `[0].w` under
    /// `net`, and `w` under `net[0]`. If an array has the name `path` itself, its new name is `tensor`, the name of a
    /// tensor that is a whole tree. The metadata stay.
    pub fn under(&self, path: &str) -> Arrays {
        let part = |(name, tensor): (&String, &Tensor)| {
            let rest = match name.strip_prefix(path)? {
                "" => ALONE,
                rest if path.is_empty() || rest.starts_with('[') => rest,
                rest => rest.strip_prefix('.')?,
            };
            Some((rest.to_owned(), tensor.clone()))
        };
        Arrays { arrays: self.arrays.iter().filter_map(part).collect(), ..self.clone() }
    }

    /// Returns the arrays under the names that `rename` returns. If it returns `None`, the array is left out. If
    /// several arrays get the same name, the last of them in alphabetical order of the old names stays.
    ///
    /// ```
    /// use tapeloom::{files::Arrays, prelude::*};
    /// let mut theirs = Arrays::new();
    /// theirs.insert("layers.0.weight", [[1.0, 2.0]]);
    /// theirs.insert("optimizer.step", 3i64);
    /// let ours = theirs.renamed(|name| Some(name.strip_prefix("layers.")?.replace("0.weight", "[0].w")));
    /// assert_eq!(ours.names().collect::<Vec<_>>(), ["[0].w"]);
    /// ```
    pub fn renamed(&self, mut rename: impl FnMut(&str) -> Option<String>) -> Arrays {
        let part = |(name, tensor): (&String, &Tensor)| Some((rename(name)?, tensor.clone()));
        Arrays { arrays: self.arrays.iter().filter_map(part).collect(), ..self.clone() }
    }

    /// Returns the tree of these arrays with the structure of `like`, whose leaves specify the shapes and dtypes.
    ///
    /// # Errors
    /// [`Kind::File`] if an array of the tree is missing, if there is one more, or if a shape or a dtype differs. One
    /// error lists all differences, and proposes similar names.
    ///
    /// ```
    /// use tapeloom::{files::Arrays, prelude::*};
    /// let arrays = Arrays::of(&vec![Tensor::from([1.0, 2.0])]);
    /// let types = vec![tapeloom::ArrayType::new(Dtype::F64, [2])];
    /// assert_eq!(arrays.tree(&types)?[0].to_vec::<f64>()?, [1.0, 2.0]);
    /// assert!(arrays.tree(&vec![Tensor::from([0.0, 0.0, 0.0])]).is_err());
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn tree<L: TypedLeaf, A: Tree<L>>(&self, like: &A) -> Result<A::With<Tensor>, Error> {
        let at = caller();
        let (structure, leaves) = tree::flatten(like);
        let types: Vec<ArrayType> = leaves.iter().map(L::array_type).collect();
        let tensors = self.fit(names(leaf_paths::<L, A>(&structure, "")), &types, at)?;
        let mut tensors = tensors.into_iter();
        Ok(A::with_leaves(&structure, &mut || tensors.next().unwrap_or_else(Tensor::stand_in)))
    }

    /// Returns the tensors with the given names, in the order of the names. Returns an error if a name is missing, if
    /// there are further arrays, or if a type differs from that in `types`.
    fn fit(&self, names: Vec<String>, types: &[ArrayType], at: Loc) -> Result<Vec<Tensor>, Error> {
        let expected: BTreeSet<&String> = names.iter().collect();
        let mut more = self.arrays.keys().filter(|name| !expected.contains(name)).peekable();
        // One entry per difference: its kind, its text, and the name of the array if it is missing.
        let mut wrong: Vec<(&str, String, Option<&str>)> = Vec::new();
        let mut tensors = Vec::new();
        for (name, ty) in names.iter().zip(types) {
            match self.arrays.get(name) {
                Some(tensor) if tensor.ty() == ty => tensors.push(tensor.clone()),
                Some(tensor) => {
                    let role = if tensor.dtype() == ty.dtype { "shape" } else { "dtype" };
                    wrong.push((role, format!("`{name}` is {}, expected {ty}", tensor.ty()), None));
                }
                None => wrong.push(("missing", format!("`{name}` {ty}"), Some(name))),
            }
        }
        if wrong.is_empty() && more.peek().is_none() {
            return Ok(tensors);
        }
        let more: Vec<&String> = more.collect();
        let all = wrong.len() + more.len();
        wrong.truncate(SHOWN);
        // For a missing name, search a similar one among the unexpected arrays.
        for (_, text, missing) in &mut wrong {
            if let Some(known) = missing.and_then(|name| similar(name, more.iter().copied())) {
                *text += &format!("; did you mean `{known}`?");
            }
        }
        let extra = |name: &&String| format!("`{name}` {}", self.arrays[*name].ty());
        let rest = SHOWN - wrong.len();
        wrong.extend(more.iter().take(rest).map(|name| ("unexpected", extra(name), None)));
        if all > wrong.len() {
            wrong.push(("...", format!("and {} more", all - wrong.len()), None));
        }
        let message = format!(
            "the arrays are not those of the tree: {all} difference{}",
            if all == 1 { "" } else { "s" }
        );
        let help = "pass a tree of the same form; or read `Arrays`, take a part by `under`, and change names by `renamed`";
        let mut diagnostic =
            Diagnostic::new(self.named(Problem::new(Kind::File, message, help)), at);
        let note = |(role, what, _): (&str, String, Option<&str>)| Note {
            role: role.to_owned(),
            what,
            born: None,
        };
        diagnostic.notes = wrong.into_iter().map(note).collect();
        Err(Error::from_diagnostics(vec![diagnostic]))
    }

    /// If the arrays were read from a file, puts the name of the file in front of a message.
    fn named(&self, problem: Problem) -> Problem {
        match &self.file {
            Some(file) => in_file(Path::new(file), problem),
            None => problem,
        }
    }
}

/// Returns the names of leaves in a file: their paths without a leading dot, or `tensor` for an empty path.
fn names(paths: Vec<String>) -> Vec<String> {
    let name = |path: String| match path.strip_prefix('.').unwrap_or(&path) {
        "" => ALONE.to_owned(),
        name => name.to_owned(),
    };
    paths.into_iter().map(name).collect()
}

/// Returns the known name that is most similar to `name`. Only names with the same digits are considered, so that an
/// index of a layer is not taken for that of another layer.
fn similar<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    let digits = |name: &'_ str| name.bytes().filter(u8::is_ascii_digit).collect::<Vec<u8>>();
    let indices = digits(name);
    let near = |known: &&str| known.len() <= LONGEST && digits(known) == indices;
    let known = known.map(String::as_str).filter(near);
    if name.len() <= LONGEST { closest_name(name, known) } else { None }
}

/// Returns the first eight names and the number of further ones, for a message.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let n = names.len();
    let first: Vec<String> = names.take(8).map(|name| format!("`{name}`")).collect();
    match n {
        0 => "no arrays".to_owned(),
        _ if n > first.len() => format!("{}, and {} more", first.join(", "), n - first.len()),
        _ => first.join(", "),
    }
}
