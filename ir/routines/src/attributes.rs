//! The text form of a routine, with its attributes after the name: `cholesky{n=9}`.

use crate::{QrBasis, Routine, SvdVectors};
use std::fmt;
use std::str::FromStr;

impl SvdVectors {
    /// All variants of `SvdVectors`.
    pub const ALL: [SvdVectors; 3] = [SvdVectors::None, SvdVectors::Thin, SvdVectors::Full];

    /// Returns the variant's word in the text form of a routine.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            SvdVectors::None => "none",
            SvdVectors::Thin => "thin",
            SvdVectors::Full => "full",
        }
    }
}

impl fmt::Display for SvdVectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for SvdVectors {
    type Err = ();

    fn from_str(word: &str) -> Result<SvdVectors, ()> {
        SvdVectors::ALL.into_iter().find(|v| v.word() == word).ok_or(())
    }
}

impl QrBasis {
    /// All variants of `QrBasis`.
    pub const ALL: [QrBasis; 3] = [QrBasis::None, QrBasis::Thin, QrBasis::Full];

    /// Returns the variant's word in the text form of a routine.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            QrBasis::None => "none",
            QrBasis::Thin => "thin",
            QrBasis::Full => "full",
        }
    }
}

impl fmt::Display for QrBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for QrBasis {
    type Err = ();

    fn from_str(word: &str) -> Result<QrBasis, ()> {
        QrBasis::ALL.into_iter().find(|b| b.word() == word).ok_or(())
    }
}

impl Routine {
    /// Returns the routine's attributes with their names, in the order of the text form.
    #[must_use]
    pub fn attributes(&self) -> Vec<(&'static str, String)> {
        let size = |name, x: usize| (name, x.to_string());
        let flag = |name, x: bool| (name, x.to_string());
        match *self {
            Routine::Cholesky { n } | Routine::Schur { n } => vec![size("n", n)],
            Routine::TriangularSolve { n, columns, lower, transposed, unit_diagonal } => vec![
                size("n", n),
                size("columns", columns),
                flag("lower", lower),
                flag("transposed", transposed),
                flag("unit_diagonal", unit_diagonal),
            ],
            Routine::TridiagonalSolve { n, columns } => {
                vec![size("n", n), size("columns", columns)]
            }
            Routine::Lu { m, n } => vec![size("m", m), size("n", n)],
            Routine::Qr { m, n, basis } => {
                vec![size("m", m), size("n", n), ("basis", basis.to_string())]
            }
            Routine::Eigh { n, vectors } | Routine::Eig { n, vectors } => {
                vec![size("n", n), flag("vectors", vectors)]
            }
            Routine::Svd { m, n, vectors } => {
                vec![size("m", m), size("n", n), ("vectors", vectors.to_string())]
            }
            Routine::Fft { rows, n, columns, inverse } => vec![
                size("rows", rows),
                size("n", n),
                size("columns", columns),
                flag("inverse", inverse),
            ],
            Routine::RealFft { rows, n, columns }
            | Routine::InverseRealFft { rows, n, columns } => {
                vec![size("rows", rows), size("n", n), size("columns", columns)]
            }
        }
    }

    /// Parses a routine from its name and attributes; `None` if one is missing or invalid.
    #[must_use]
    pub fn named(name: &str, attributes: &[(&str, &str)]) -> Option<Routine> {
        fn get<T: FromStr>(attributes: &[(&str, &str)], name: &str) -> Option<T> {
            attributes.iter().find(|(n, _)| *n == name)?.1.parse().ok()
        }
        let size = |name| get::<usize>(attributes, name);
        let flag = |name| get::<bool>(attributes, name);
        Some(match name {
            "cholesky" => Routine::Cholesky { n: size("n")? },
            "triangular_solve" => Routine::TriangularSolve {
                n: size("n")?,
                columns: size("columns")?,
                lower: flag("lower")?,
                transposed: flag("transposed")?,
                unit_diagonal: flag("unit_diagonal")?,
            },
            "tridiagonal_solve" => {
                Routine::TridiagonalSolve { n: size("n")?, columns: size("columns")? }
            }
            "lu" => Routine::Lu { m: size("m")?, n: size("n")? },
            "qr" => Routine::Qr { m: size("m")?, n: size("n")?, basis: get(attributes, "basis")? },
            "eigh" => Routine::Eigh { n: size("n")?, vectors: flag("vectors")? },
            "svd" => {
                Routine::Svd { m: size("m")?, n: size("n")?, vectors: get(attributes, "vectors")? }
            }
            "eig" => Routine::Eig { n: size("n")?, vectors: flag("vectors")? },
            "schur" => Routine::Schur { n: size("n")? },
            "fft" => Routine::Fft {
                rows: size("rows")?,
                n: size("n")?,
                columns: size("columns")?,
                inverse: flag("inverse")?,
            },
            "real_fft" => {
                Routine::RealFft { rows: size("rows")?, n: size("n")?, columns: size("columns")? }
            }
            "inverse_real_fft" => Routine::InverseRealFft {
                rows: size("rows")?,
                n: size("n")?,
                columns: size("columns")?,
            },
            _ => return None,
        })
    }
}

/// Parses the text form: `cholesky{n=9}`. The error has no content.
impl FromStr for Routine {
    type Err = ();

    fn from_str(text: &str) -> Result<Routine, ()> {
        let (name, attributes) = text.strip_suffix('}').and_then(|t| t.split_once('{')).ok_or(())?;
        let attributes: Option<Vec<_>> =
            attributes.split(", ").map(|of| of.split_once('=')).collect();
        Routine::named(name, &attributes.ok_or(())?).ok_or(())
    }
}

/// The text form: `cholesky{n=9}`.
impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{{", self.name())?;
        for (i, (name, value)) in self.attributes().iter().enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("}")
    }
}
