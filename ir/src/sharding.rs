//! Meshes of devices, and partition specs: how arrays are divided among the devices of a mesh.
//!
//! A [`Mesh`] arranges devices along named axes. A [`PartitionSpec`] names, for each axis of an array, the mesh axes among
//! which the array is divided. Devices whose numbers differ along other mesh axes have copies.
//!
//! ```
//! use tapeloom_ir::{Mesh, PartitionSpec};
//! let mesh = Mesh::new([("data", 2), ("model", 2)])?;
//! let spec = PartitionSpec::new(["data", "_"]);
//! assert_eq!((mesh.to_string(), spec.to_string()), ("data=2, model=2".into(), "[data, _]".into()));
//! // Devices 0 and 1 have rows 0 to 3, devices 2 and 3 have rows 4 to 7.
//! let parts = spec.parts(&[8, 4], &mesh)?;
//! assert_eq!((parts.shape(), parts.start(1), parts.start(2)), (&[4, 4][..], &[0, 0][..], &[4, 0][..]));
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```
//!
//! Source: `jax.sharding.Mesh` and `PartitionSpec` of JAX, `sdy.mesh` and `sdy.sharding` of Shardy.

use crate::lang::problem::{Kind, Problem};
use crate::lang::spelling::closest_name;
use crate::lang::types::Shape;
use crate::lex::is_word;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The word of a partition spec for an axis of an array that is not divided.
const WHOLE: &str = "_";

/// The word of a partition spec for an axis of an array whose division the compiler chooses.
const OPEN: &str = "open";

/// The largest number of devices of a mesh. With this limit, the numbers of devices and parts cannot overflow.
const MOST_DEVICES: usize = 1 << 20;

/// Devices along named axes. A mesh prints as `data=4, model=2`, and is parsed from this text.
///
/// Devices are numbered in row-major order: the last axis varies fastest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mesh {
    axes: Arc<[(Arc<str>, usize)]>,
}

impl Mesh {
    /// Makes a mesh from names and sizes of its axes.
    ///
    /// # Errors
    /// [`Kind::Arguments`] if a name is no word of letters, digits and `_`, is `_` or `open`, or occurs twice; if a size is
    /// 0; if there are more than 2^20 devices.
    pub fn new<N: Into<Arc<str>>>(
        axes: impl IntoIterator<Item = (N, usize)>,
    ) -> Result<Mesh, Problem> {
        let axes: Vec<(Arc<str>, usize)> = axes.into_iter().map(|(n, k)| (n.into(), k)).collect();
        let wrong = |message: String, fix: &str| {
            Err(Problem::new(Kind::Arguments, format!("in a mesh, {message}"), fix))
        };
        for (i, (name, size)) in axes.iter().enumerate() {
            let plain = is_word(name) && !name.contains('.');
            if !plain || **name == *WHOLE || **name == *OPEN {
                let fix = "a name is a word of letters, digits and `_`, and not `_` or `open`";
                return wrong(format!("an axis cannot have the name {name:?}"), fix);
            }
            if axes[..i].iter().any(|(other, _)| other == name) {
                return wrong(format!("the axis `{name}` occurs twice"), "give each its own name");
            }
            if *size == 0 {
                return wrong(
                    format!("the axis `{name}` has no devices"),
                    "give it a positive size",
                );
            }
        }
        let devices = axes.iter().try_fold(1, |all: usize, (_, size)| all.checked_mul(*size));
        if devices.is_none_or(|devices| devices > MOST_DEVICES) {
            return wrong("there are more than 2^20 devices".to_owned(), "make its axes shorter");
        }
        Ok(Mesh { axes: axes.into() })
    }

    /// Returns the names and sizes of the axes.
    pub fn axes(&self) -> impl ExactSizeIterator<Item = (&str, usize)> {
        self.axes.iter().map(|(name, size)| (&**name, *size))
    }

    /// Returns the number of devices.
    pub fn devices(&self) -> usize {
        self.axes.iter().map(|(_, size)| size).product()
    }

    /// Returns the position and the size of the axis with this name.
    fn axis(&self, name: &str) -> Option<(usize, usize)> {
        self.axes().enumerate().find_map(|(i, (n, size))| (n == name).then_some((i, size)))
    }

    /// Returns the position of a device along each axis of the mesh.
    fn coordinates(&self, device: usize) -> Vec<usize> {
        let mut rest = device;
        let mut all: Vec<usize> = (self.axes.iter().rev())
            .map(|(_, size)| {
                let at = rest % size;
                rest /= size;
                at
            })
            .collect();
        all.reverse();
        all
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.axes().map(|(name, size)| format!("{name}={size}")).collect();
        f.write_str(&axes.join(", "))
    }
}

impl FromStr for Mesh {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Mesh, Problem> {
        let axis = |part: &str| {
            let (name, size) = part.split_once('=')?;
            Some((name.trim().to_owned(), size.trim().parse().ok()?))
        };
        let wrong = |part: &str| {
            let message = format!("expected an axis of a mesh such as `data=4`, found `{part}`");
            Problem::new(Kind::Parse, message, "separate axes by commas")
        };
        let parts = text.split(',').filter(|_| !text.trim().is_empty());
        let axes = parts.map(|part| axis(part).ok_or_else(|| wrong(part.trim())));
        Mesh::new(axes.collect::<Result<Vec<_>, _>>()?)
    }
}

/// The division of an array among the devices of a mesh: one word for each axis of the array.
///
/// | word | the axis of the array is |
/// |---|---|
/// | `data` | divided among the devices along the mesh axis `data`, in parts of equal size |
/// | `data.model` | divided along `data`, and each part along `model` |
/// | `_` | not divided: each part has all of it |
/// | `open` | divided as the compiler chooses (not for arguments and results) |
///
/// Axes of the array behind the last word are not divided. A spec prints as `[data, _]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
pub struct PartitionSpec {
    words: Arc<[Arc<str>]>,
}

/// The division of one axis of an array, as a word of a [`PartitionSpec`] states it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word<'a> {
    /// The axis is divided along the mesh axes with these names, which the text separates by dots.
    Along(&'a str),
    Whole,
    Open,
}

impl PartitionSpec {
    /// Makes a spec from one word for each axis of an array. Words are checked where the spec is used.
    pub fn new<W: Into<Arc<str>>>(words: impl IntoIterator<Item = W>) -> PartitionSpec {
        PartitionSpec { words: words.into_iter().map(Into::into).collect() }
    }

    /// Returns the spec of arrays of which each device has a copy.
    pub fn replicated() -> PartitionSpec {
        PartitionSpec::default()
    }

    /// Returns the words.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &str> {
        self.words.iter().map(|word| &**word)
    }

    fn divisions(&self) -> impl ExactSizeIterator<Item = Word<'_>> {
        self.words().map(|word| match word {
            WHOLE => Word::Whole,
            OPEN => Word::Open,
            names => Word::Along(names),
        })
    }

    /// Returns, for each axis of an array of this rank, the mesh axes along which the array's axis is divided; `None`
    /// if its word is `open`, so that the compiler chooses.
    pub fn axes(&self, rank: usize) -> Vec<Option<Vec<&str>>> {
        let given = self.divisions().map(|division| match division {
            Word::Along(names) => Some(names.split('.').collect()),
            Word::Whole => Some(Vec::new()),
            Word::Open => None,
        });
        given.chain(std::iter::repeat_with(|| Some(Vec::new()))).take(rank).collect()
    }

    /// Returns the same spec for a batch of arrays along a new first axis, whose division the compiler chooses.
    pub(crate) fn batched(&self) -> PartitionSpec {
        PartitionSpec::new([OPEN].into_iter().chain(self.words()))
    }

    /// Checks that each word is well-formed, that no mesh axis occurs twice, and that an array of this rank has an axis
    /// for each word.
    ///
    /// # Errors
    /// [`Kind::Arguments`] or, for the rank, [`Kind::Shape`].
    pub fn check(&self, rank: usize) -> Result<(), Problem> {
        if self.words.len() > rank {
            let (words, axes) = (self.words.len(), if rank == 1 { "axis" } else { "axes" });
            return Err(Problem::new(
                Kind::Shape,
                format!(
                    "the partition spec {self} is for {words} axes, and the array has {rank} {axes}"
                ),
                "give a word for each axis: the name of a mesh axis, or `_`",
            ));
        }
        let mut seen: Vec<&str> = Vec::new();
        for name in self.axes(rank).into_iter().flatten().flatten() {
            if !is_word(name) {
                return Err(Problem::new(
                    Kind::Arguments,
                    format!("in the partition spec {self}, {name:?} is no name of a mesh axis"),
                    "write `data`, `data.model` for two mesh axes, `_` for an axis that is not divided",
                ));
            }
            if seen.contains(&name) {
                return Err(Problem::new(
                    Kind::Arguments,
                    format!("the partition spec {self} divides along the mesh axis `{name}` twice"),
                    "use each mesh axis for one axis of the array",
                ));
            }
            seen.push(name);
        }
        Ok(())
    }

    /// Returns the parts of an array of this shape on the devices of a mesh. Axes with the word `open` are not divided.
    ///
    /// # Errors
    /// Those of [`PartitionSpec::check`]; [`Kind::Arguments`] if the mesh has no axis of a name; [`Kind::Shape`] if an
    /// extent of the array is no multiple of the number of parts.
    pub fn parts(&self, shape: &[usize], mesh: &Mesh) -> Result<Parts, Problem> {
        self.check(shape.len())?;
        let mut part: Shape = shape.into();
        // For each axis of the array: the mesh axes along which it is divided, as (position in the mesh, size).
        let mut along: Vec<Vec<(usize, usize)>> = Vec::new();
        for (i, names) in self.axes(shape.len()).into_iter().enumerate() {
            let mut of = Vec::new();
            for name in names.into_iter().flatten() {
                of.push(mesh.axis(name).ok_or_else(|| self.unknown(name, mesh))?);
            }
            let count: usize = of.iter().map(|(_, size)| size).product();
            if !shape[i].is_multiple_of(count) {
                let (word, n) = (&self.words[i], shape[i]);
                return Err(Problem::new(
                    Kind::Shape,
                    format!(
                        "axis {i} of the array has {n} elements and cannot be divided into {count} equal parts along `{word}`"
                    ),
                    format!("pad the axis to a multiple of {count}, or do not divide it: `_`"),
                ));
            }
            part[i] /= count;
            along.push(of);
        }
        let start = |device: usize| -> Vec<usize> {
            let at = mesh.coordinates(device);
            let number =
                |of: &Vec<(usize, usize)>| of.iter().fold(0, |n, (i, size)| n * size + at[*i]);
            along.iter().zip(part.iter()).map(|(of, extent)| number(of) * extent).collect()
        };
        let starts = (0..mesh.devices()).map(start).collect();
        Ok(Parts { whole: shape.into(), shape: part, starts })
    }

    /// Returns the error that a name in the spec is not an axis of the mesh.
    fn unknown(&self, name: &str, mesh: &Mesh) -> Problem {
        let names = mesh.axes().map(|(name, _)| name);
        let fix = match closest_name(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "name an axis of the mesh, or `_` for an axis that is not divided".to_owned(),
        };
        let message = format!(
            "the mesh ({mesh}) has no axis `{name}`, which the partition spec {self} names"
        );
        Problem::new(Kind::Arguments, message, fix)
    }
}

impl fmt::Display for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.words().collect::<Vec<_>>().join(", "))
    }
}

/// Makes a spec from an array of words, such as `["data", "_"]`.
impl<const N: usize> From<[&str; N]> for PartitionSpec {
    fn from(words: [&str; N]) -> PartitionSpec {
        PartitionSpec::new(words)
    }
}

/// The parts of an array on the devices of a mesh: boxes of one shape.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Parts {
    whole: Shape,
    shape: Shape,
    /// Per device: the first index of its part along each axis.
    starts: Vec<Vec<usize>>,
}

impl Parts {
    /// Returns the single part of an array that is not divided, for one device.
    pub fn one(shape: &[usize]) -> Parts {
        Parts { whole: shape.into(), shape: shape.into(), starts: vec![vec![0; shape.len()]] }
    }

    /// Returns the shape of each part.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of devices.
    pub fn devices(&self) -> usize {
        self.starts.len()
    }

    /// Returns the first index of the part of a device along each axis.
    pub fn start(&self, device: usize) -> &[usize] {
        &self.starts[device]
    }

    /// Returns, for each distinct part, the first device that holds it.
    pub fn distinct(&self) -> impl Iterator<Item = usize> {
        (0..self.devices()).filter(|d| !self.starts[..*d].contains(&self.starts[*d]))
    }

    /// A *stretch* is a run of elements that are adjacent both in a device's part and in the whole array. Calls `each`
    /// for every stretch, with the index of its first element in the whole array, the index in the part, and the number
    /// of elements. Both arrays are in row-major order.
    pub fn stretches(&self, device: usize, each: &mut dyn FnMut(usize, usize, usize)) {
        let (whole, part, start) = (&self.whole, &self.shape, &self.starts[device]);
        if part.iter().product::<usize>() == 0 {
            return;
        }
        // Along the axes behind the last divided axis, elements are adjacent in both arrays.
        let split = (0..part.len()).rev().find(|i| part[*i] != whole[*i]).unwrap_or(0);
        let inner: usize = part.iter().skip(split).product();
        let rows: usize = part.iter().take(split).product();
        for row in 0..rows {
            let (mut rest, mut from, mut stride) = (row, 0, 1);
            for i in (0..part.len()).rev() {
                let at = if i < split {
                    let at = rest % part[i];
                    rest /= part[i];
                    at
                } else {
                    0
                };
                from += (start[i] + at) * stride;
                stride *= whole[i];
            }
            each(from, row * inner, inner);
        }
    }
}
