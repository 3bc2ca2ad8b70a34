//! The text form of codes in loop programs: `add`, `exp`, `convert{to=f32}`, `integer_pow{n=3}`.

use super::{Code, Library, LibraryFn, Parameter};
use std::fmt;

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.row();
        match row.parameter {
            None => f.write_str(row.name),
            Some(Parameter::To(to)) => write!(f, "{}{{to={to}}}", row.name),
            Some(Parameter::N(n)) => write!(f, "{}{{n={n}}}", row.name),
        }
    }
}

impl Code {
    /// Parses a code from its name and parameter; `library` finds library functions by name.
    pub fn named(
        name: &str,
        parameter: Option<Parameter>,
        library: &dyn Fn(&str) -> Option<Library>,
    ) -> Option<Code> {
        let is = |code: &Code| code.row().name == name;
        match parameter {
            None => {
                let plain = Code::PLAIN.iter().copied().find(is);
                plain.or_else(|| library(name).map(Code::Library))
            }
            Some(Parameter::To(to)) => [Code::Convert(to), Code::Bitcast(to)].into_iter().find(is),
            Some(Parameter::N(n)) => {
                let power = i32::try_from(n).ok().map(Code::IntegerPow).filter(is);
                power.or_else(|| Some(Code::Library(library(name)?.indexed(n)?)))
            }
        }
    }
}

impl Library {
    /// Returns the indexed function with `n` as its constant; `None` if the function is not indexed.
    fn indexed(self, n: i64) -> Option<Library> {
        match self.function {
            LibraryFn::Indexed { n: _, f64, f32, recording } => {
                let function = LibraryFn::Indexed { n, f64, f32, recording };
                Some(Library { function, ..self })
            }
            LibraryFn::Unary { .. } | LibraryFn::Binary { .. } | LibraryFn::Ternary { .. } => None,
        }
    }
}
