//! Errors of the client, and errors that a plugin returns.

use std::fmt;

/// An error: its kind and a message that says what happened, what was expected and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no plugin: no file at the path, no library, no function `GetPjrtApi` in the library, or a variable of the
    /// environment that is not set.
    NoPlugin,
    /// The plugin's version of the C API is not one that this client understands.
    Version,
    /// The number, type, shape or device of an argument does not fit, or an index or a name is wrong.
    Argument,
    /// A buffer was deleted or donated before.
    Deleted,
    /// The plugin does not offer the feature.
    Unsupported,
    /// The plugin broke a rule of its interface, for example by a result of null.
    Interface,
    /// The plugin returned an error with this code.
    Plugin(Code),
}

impl Error {
    /// Makes an error of a kind. Handlers of custom calls make the errors that they return by this function.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Makes an error about an argument, such as that of a handler.
    pub fn argument(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Argument, message)
    }

    pub(crate) fn interface(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Interface, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Plugin(code) => write!(f, "the plugin returned {code}: {}", self.message),
            ErrorKind::NoPlugin
            | ErrorKind::Version
            | ErrorKind::Argument
            | ErrorKind::Deleted
            | ErrorKind::Unsupported
            | ErrorKind::Interface => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}

/// Declares the codes of errors: the variant, its number in the C API, its name.
macro_rules! codes {
    ($($name:ident $number:literal $text:literal,)*) => {
        /// A code of an error of a plugin: a code of the library Abseil.
        #[allow(missing_docs, reason = "the names are those of Abseil, whose guide to statuses \
                                        explains them")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            /// Returns the code with a number; numbers that Abseil does not define are [`Code::Unknown`].
            pub(crate) fn from_number(number: i32) -> Code {
                match number {
                    $($number => Code::$name,)*
                    _ => Code::Unknown,
                }
            }

            /// Returns the number.
            pub(crate) fn number(self) -> i32 {
                match self {
                    $(Code::$name => $number,)*
                }
            }

            /// Returns the name, such as `INVALID_ARGUMENT`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)*
                }
            }
        }
    };
}

codes! {
    Cancelled 1 "CANCELLED",
    Unknown 2 "UNKNOWN",
    InvalidArgument 3 "INVALID_ARGUMENT",
    DeadlineExceeded 4 "DEADLINE_EXCEEDED",
    NotFound 5 "NOT_FOUND",
    AlreadyExists 6 "ALREADY_EXISTS",
    PermissionDenied 7 "PERMISSION_DENIED",
    ResourceExhausted 8 "RESOURCE_EXHAUSTED",
    FailedPrecondition 9 "FAILED_PRECONDITION",
    Aborted 10 "ABORTED",
    OutOfRange 11 "OUT_OF_RANGE",
    Unimplemented 12 "UNIMPLEMENTED",
    Internal 13 "INTERNAL",
    Unavailable 14 "UNAVAILABLE",
    DataLoss 15 "DATA_LOSS",
    Unauthenticated 16 "UNAUTHENTICATED",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
