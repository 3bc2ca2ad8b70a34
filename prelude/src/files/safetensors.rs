//! The format safetensors: a JSON header with names, dtypes, shapes and offsets, then the bytes of all tensors.
//!
//! The crate `safetensors` reads the header, and checks that the offsets cover the file without overlap.

use super::arrays::{Arrays, TypedLeaf};
use super::elements::{self, Layout, Stored};
use super::{damaged, in_file, replace};
use crate::Error;
use crate::tree::Tree;
use crate::var::caller;
use ::safetensors::tensor::{Metadata, TensorInfo};
use std::cmp::Reverse;
use std::path::Path;
use tapeloom_ir::{Dtype, Kind, Problem, Tensor};

/// The key of the metadata in the header, which no tensor may have.
const RESERVED: &str = "__metadata__";

/// Saves a tree of tensors as a safetensors file. The names are the paths of the leaves; see the [module](super).
///
/// # Errors
/// [`Kind::File`] if the file cannot be written.
///
/// ```
/// use tapeloom::{files, prelude::*};
/// let path = std::env::temp_dir().join(format!("save-{}.safetensors", std::process::id()));
/// let run = (Tensor::from([1.0, 2.0]), Tensor::from(3i64));
/// files::save_safetensors(&path, &run)?;
/// assert_eq!(files::load_safetensors(&path, &run)?.1.item::<i64>()?, 3);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "save", alias = "state_dict", alias = "save_file", alias = "pickle")]
#[track_caller]
pub fn save_safetensors<A: Tree<Tensor>>(path: impl AsRef<Path>, tree: &A) -> Result<(), Error> {
    Arrays::of(tree).save_safetensors(path)
}

/// Loads a tree of tensors from a safetensors file. `like` is a tree of tensors or of
/// [`ArrayType`](crate::ArrayType)s with the expected structure, shapes and dtypes.
///
/// # Errors
/// [`Kind::File`] if the file cannot be read or is damaged, or if its arrays are not those of the tree: one error lists
/// all differences.
///
/// ```
/// use tapeloom::{files, prelude::*, Kind};
/// let path = std::env::temp_dir().join(format!("load-{}.safetensors", std::process::id()));
/// files::save_safetensors(&path, &vec![Tensor::from([1.0, 2.0])])?;
///
/// // Shapes and dtypes of a tree that nobody has computed yet.
/// let types = eval_shape(|seed: Var| vec![random::normal(random::key(seed), [2], Dtype::F64)], 0)?;
/// assert_eq!(files::load_safetensors(&path, &types)?[0].to_vec::<f64>()?, [1.0, 2.0]);
///
/// let error = files::load_safetensors(&path, &vec![Tensor::from([0.0, 0.0, 0.0])]).unwrap_err();
/// assert_eq!(error.kind(), Kind::File);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "load", alias = "load_state_dict", alias = "load_file", alias = "from_pretrained")]
#[track_caller]
pub fn load_safetensors<L: TypedLeaf, A: Tree<L>>(
    path: impl AsRef<Path>,
    like: &A,
) -> Result<A::With<Tensor>, Error> {
    Arrays::load_safetensors(path)?.tree(like)
}

impl Arrays {
    /// Saves the arrays and the metadata as a safetensors file, in place of an earlier one.
    ///
    /// # Errors
    /// [`Kind::File`] if the file cannot be written, or an array has the name `__metadata__`, which the format
    /// reserves.
    #[track_caller]
    pub fn save_safetensors(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let at = caller();
        let path = path.as_ref();
        let bytes = self.written().map_err(|problem| in_file(path, problem));
        let saved = bytes.and_then(|bytes| replace::write(path, &bytes));
        saved.map_err(|problem| Error::at(problem, at))
    }

    /// Reads all arrays and the metadata of a safetensors file.
    ///
    /// # Errors
    /// [`Kind::File`] if the file cannot be read or is damaged, or has a dtype that is not supported.
    #[track_caller]
    pub fn load_safetensors(path: impl AsRef<Path>) -> Result<Arrays, Error> {
        let at = caller();
        let path = path.as_ref();
        let read = || {
            let bytes = replace::read(path)?;
            Arrays::from_safetensors(&bytes).map_err(|problem| in_file(path, problem))
        };
        let arrays = read().map_err(|problem| Error::at(problem, at))?;
        Ok(Arrays { file: Some(path.display().to_string()), ..arrays })
    }

    /// Returns the arrays as the bytes of a safetensors file.
    ///
    /// # Errors
    /// [`Kind::File`] if an array has the name `__metadata__`, which the format reserves.
    #[track_caller]
    pub fn to_safetensors(&self) -> Result<Vec<u8>, Error> {
        let at = caller();
        self.written().map_err(|problem| Error::at(problem, at))
    }

    /// Returns the arrays that the bytes of a safetensors file hold.
    ///
    /// # Errors
    /// [`Kind::File`] if the bytes are damaged, or have a dtype that is not supported.
    pub fn from_safetensors(bytes: &[u8]) -> Result<Arrays, Problem> {
        // Parse the header here instead of by `SafeTensors::deserialize`, which adds sizes before it compares them with
        // the number of bytes, and so overflows on damaged files.
        let no = |why: &str| damaged(format!("no safetensors file: {why}"));
        let (size, rest) = bytes.split_first_chunk().ok_or_else(|| no("fewer than 8 bytes"))?;
        let size = usize::try_from(u64::from_le_bytes(*size)).unwrap_or(usize::MAX);
        let (header, all) =
            rest.split_at_checked(size).ok_or_else(|| no("its header is longer than the file"))?;
        let about: Metadata =
            serde_json::from_slice(header).map_err(|e| no(&format!("its header: {e}")))?;
        if about.data_len() != all.len() {
            let (said, are) = (about.data_len(), all.len());
            return Err(damaged(format!("the header describes {said} bytes, and there are {are}")));
        }
        let mut arrays = Arrays::new();
        for (name, info) in about.tensors() {
            let (start, end) = info.data_offsets;
            let part = all.get(start..end).ok_or_else(|| damaged("an offset beyond the end"))?;
            let layout =
                Layout { stored: stored(&name, info.dtype)?, big_endian: false, fortran: false };
            let tensor = elements::tensor(&info.shape, layout, part)
                .map_err(|p| damaged(format!("`{name}`: {}", p.message)))?;
            arrays.insert(name, tensor);
        }
        arrays.metadata.extend(about.metadata().clone().into_iter().flatten());
        Ok(arrays)
    }

    fn written(&self) -> Result<Vec<u8>, Problem> {
        if self.arrays.contains_key(RESERVED) {
            let message = format!("no array of a safetensors file may have the name `{RESERVED}`");
            return Err(Problem::new(Kind::File, message, "give it another name"));
        }
        // The writer of the crate is not used, because it takes the metadata in a map of random order, and equal arrays
        // would give different files. As in that writer, tensors of the widest dtype come first, so that all tensors
        // are aligned.
        let mut order: Vec<(&String, &Tensor)> = self.arrays.iter().collect();
        order.sort_by_key(|(_, tensor)| Reverse(tensor.dtype().bytes()));
        let json = |e: serde_json::Error| Problem::internal(e.to_string());
        let mut header = serde_json::Map::new();
        if !self.metadata.is_empty() {
            header.insert(RESERVED.to_owned(), serde_json::to_value(&self.metadata).map_err(json)?);
        }
        let mut end = 0;
        for (name, tensor) in &order {
            let start = end;
            end += tensor.bytes().len();
            let (dtype, shape) = (written(tensor.dtype()), tensor.shape().to_vec());
            let info = TensorInfo { dtype, shape, data_offsets: (start, end) };
            header.insert((*name).clone(), serde_json::to_value(&info).map_err(json)?);
        }
        let mut header = serde_json::Value::Object(header).to_string();
        header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.reserve_exact(header.len() + end);
        bytes.extend(header.as_bytes());
        order.iter().for_each(|(_, tensor)| bytes.extend(&*elements::little_endian(tensor)));
        Ok(bytes)
    }
}

/// Returns the format's name for a dtype.
fn written(dtype: Dtype) -> ::safetensors::Dtype {
    match dtype {
        Dtype::Bool => ::safetensors::Dtype::BOOL,
        Dtype::I32 => ::safetensors::Dtype::I32,
        Dtype::I64 => ::safetensors::Dtype::I64,
        Dtype::U32 => ::safetensors::Dtype::U32,
        Dtype::U64 => ::safetensors::Dtype::U64,
        Dtype::F32 => ::safetensors::Dtype::F32,
        Dtype::F64 => ::safetensors::Dtype::F64,
    }
}

/// Returns the dtype of the elements of the array `name` in a file, or an error if this dtype is not supported.
fn stored(name: &str, dtype: ::safetensors::Dtype) -> Result<Stored, Problem> {
    use ::safetensors::Dtype as D;
    Ok(match dtype {
        D::BOOL => Stored::Bool,
        D::I8 => Stored::I8,
        D::I16 => Stored::I16,
        D::I32 => Stored::I32,
        D::I64 => Stored::I64,
        D::U8 => Stored::U8,
        D::U16 => Stored::U16,
        D::U32 => Stored::U32,
        D::U64 => Stored::U64,
        D::F16 => Stored::F16,
        D::BF16 => Stored::Bf16,
        D::F32 => Stored::F32,
        D::F64 => Stored::F64,
        other => {
            let message = format!("the array `{name}` has the dtype {other:?}");
            return Err(Problem::new(
                Kind::File,
                message,
                "supported are bool, integers and floats from float16 on",
            ));
        }
    })
}
