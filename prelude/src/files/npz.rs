//! The format `.npz` of numpy: a zip archive with one `.npy` file per array.
//!
//! The crate `rawzip` reads and writes archives, `flate2` decompresses their members. Members are written without
//! compression, as `numpy.savez` does: floats hardly shrink.

use super::arrays::{Arrays, TypedLeaf};
use super::{damaged, in_file, npy, replace};
use crate::Error;
use crate::tree::Tree;
use crate::var::caller;
use rawzip::path::{EntryPath, ZipFilePath};
use rawzip::{CompressionMethod, ZipArchive, ZipArchiveWriter};
use std::io::{Read, Write};
use std::path::Path;
use tapeloom_ir::{Kind, Problem, Tensor};

/// Saves a tree of tensors as an `.npz` file, which `numpy.load` reads. The names are the paths of the leaves; see the
/// [module](super).
///
/// # Errors
/// [`Kind::File`] if the file cannot be written.
///
/// ```
/// use tapeloom::{files, prelude::*};
/// let path = std::env::temp_dir().join(format!("save-{}.npz", std::process::id()));
/// let run = (Tensor::from([1.0, 2.0]), Tensor::from(3i64));
/// files::save_npz(&path, &run)?;
/// assert_eq!(files::load_npz(&path, &run)?.1.item::<i64>()?, 3);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "savez", alias = "savez_compressed")]
#[track_caller]
pub fn save_npz<A: Tree<Tensor>>(path: impl AsRef<Path>, tree: &A) -> Result<(), Error> {
    Arrays::of(tree).save_npz(path)
}

/// Loads a tree of tensors from an `.npz` file, as `numpy.savez` and `numpy.savez_compressed` write it. `like` is a
/// tree of tensors or of [`ArrayType`](crate::ArrayType)s with the expected structure, shapes and dtypes.
///
/// # Errors
/// [`Kind::File`] if the file cannot be read or is damaged, or if its arrays are not those of the tree: one error lists
/// all differences.
#[doc(alias = "load")]
#[track_caller]
pub fn load_npz<L: TypedLeaf, A: Tree<L>>(
    path: impl AsRef<Path>,
    like: &A,
) -> Result<A::With<Tensor>, Error> {
    Arrays::load_npz(path)?.tree(like)
}

impl Arrays {
    /// Saves the arrays as an `.npz` file, in place of an earlier one. The metadata are not saved: the format has none.
    ///
    /// # Errors
    /// [`Kind::File`] if the file cannot be written, or a name cannot be that of a member of an archive: one that is
    /// not ASCII and contains a backslash or begins with a slash.
    #[track_caller]
    pub fn save_npz(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let at = caller();
        let path = path.as_ref();
        let bytes = self.zipped().map_err(|problem| in_file(path, problem));
        let saved = bytes.and_then(|bytes| replace::write(path, &bytes));
        saved.map_err(|problem| Error::at(problem, at))
    }

    /// Reads all arrays of an `.npz` file.
    ///
    /// # Errors
    /// [`Kind::File`] if the file cannot be read or is damaged, has a member that is no array, or a dtype that is not
    /// supported.
    #[track_caller]
    pub fn load_npz(path: impl AsRef<Path>) -> Result<Arrays, Error> {
        let at = caller();
        let path = path.as_ref();
        let read = || {
            let bytes = replace::read(path)?;
            Arrays::from_npz(&bytes).map_err(|problem| in_file(path, problem))
        };
        let arrays = read().map_err(|problem| Error::at(problem, at))?;
        Ok(Arrays { file: Some(path.display().to_string()), ..arrays })
    }

    /// Returns the arrays as the bytes of an `.npz` file.
    ///
    /// # Errors
    /// As [`save_npz`](Arrays::save_npz), except those of the file system.
    #[track_caller]
    pub fn to_npz(&self) -> Result<Vec<u8>, Error> {
        let at = caller();
        self.zipped().map_err(|problem| Error::at(problem, at))
    }

    /// Returns the arrays that the bytes of an `.npz` file hold.
    ///
    /// # Errors
    /// [`Kind::File`] if the bytes are damaged, a member is no array, or a dtype is not supported.
    pub fn from_npz(bytes: &[u8]) -> Result<Arrays, Problem> {
        let no = |e: rawzip::Error| damaged(format!("no zip archive: {e}"));
        let archive = ZipArchive::from_slice(bytes).map_err(no)?;
        let mut members = Vec::new();
        let mut entries = archive.entries();
        while let Some(entry) = entries.next_entry().map_err(no)? {
            let name = str::from_utf8(entry.file_path().as_bytes())
                .map_err(|_| damaged("the name of a member is no text"))?;
            let member = archive.get_entry(entry.wayfinder()).map_err(no)?;
            members.push((name.to_owned(), entry.compression_method(), member));
        }
        // In a damaged archive, the directory may list fewer or more members than the end record counts.
        if members.len() as u64 != archive.entries_hint() {
            return Err(damaged(
                "the archive has another number of members than its header states",
            ));
        }
        // If members shared bytes, a small file could decompress to an unlimited number of bytes, so overlaps are an
        // error.
        let mut ranges: Vec<(u64, u64)> =
            members.iter().map(|(_, _, member)| member.compressed_data_range()).collect();
        ranges.sort_unstable();
        if ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
            return Err(damaged("members of the archive overlap"));
        }
        let mut arrays = Arrays::new();
        for (name, method, member) in members {
            let Some(array) = name.strip_suffix(".npy") else {
                return Err(damaged(format!("the member `{name}` is no array")));
            };
            let in_member = |why: String| damaged(format!("`{name}`: {why}"));
            let mut content = Vec::new();
            // The verifying reader compares size and checksum. The buffer grows as bytes are decompressed and not by
            // the size in the header, which may be wrong. A compressed byte gives at most about a thousand bytes.
            let read = match method {
                CompressionMethod::STORE => {
                    member.verifying_reader(member.data()).read_to_end(&mut content)
                }
                CompressionMethod::DEFLATE => {
                    let inflated = flate2::bufread::DeflateDecoder::new(member.data());
                    member.verifying_reader(inflated).read_to_end(&mut content)
                }
                other => return Err(in_member(format!("compressed by {other:?}"))),
            };
            read.map_err(|e| in_member(e.to_string()))?;
            let tensor = npy::from_npy(&content)
                .map_err(|p| Problem { message: format!("`{name}`: {}", p.message), ..p })?;
            if arrays.insert(array, tensor).is_some() {
                return Err(damaged(format!("two members have the name `{name}`")));
            }
        }
        Ok(arrays)
    }

    fn zipped(&self) -> Result<Vec<u8>, Problem> {
        let mut archive = ZipArchiveWriter::new(Vec::new());
        for (name, tensor) in &self.arrays {
            let name = format!("{name}.npy");
            let written = add(&mut archive, &name, &npy::to_npy(tensor));
            written.ok_or_else(|| {
                let message = format!("an archive cannot have a member of the name `{name}`");
                Problem::new(Kind::File, message, "give the array another name")
            })?;
        }
        archive.finish().map_err(|e| Problem::internal(e.to_string()))
    }
}

/// Adds a member to an archive. Returns `None` if the format does not allow its name.
fn add(archive: &mut ZipArchiveWriter<Vec<u8>>, name: &str, content: &[u8]) -> Option<()> {
    // The crate rewrites names that contain `..` or a backslash, unless they are given as bytes. Bytes must be ASCII,
    // so another name is accepted only if the crate does not rewrite it.
    let path = if name.is_ascii() {
        EntryPath::verbatim(name.as_bytes())
    } else if ZipFilePath::from_str(name).as_str() == name {
        EntryPath::conformant(name)
    } else {
        return None;
    };
    let (mut entry, config) = archive.new_file(path).start().ok()?;
    let mut data = config.wrap(&mut entry);
    data.write_all(content).ok()?;
    let (_, descriptor) = data.finish().ok()?;
    entry.finish(descriptor).ok()?;
    Some(())
}
