//! Policies: what reverse mode keeps of the forward pass.
//!
//! ```
//! use tapeloom_ir::Policy;
//! assert_eq!("everything".parse(), Ok(Policy::Everything));
//! assert_eq!(Policy::Everything.to_string(), "everything");
//! ```

use crate::problem::{Kind, Problem};
use std::fmt;
use std::str::FromStr;

/// What reverse mode keeps of the forward pass. Plain data: a part of the question that is asked of
/// a function, and so of the key under which a module remembers the answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Policy {
    /// Every value that the backward pass reads.
    #[default]
    Everything,
    /// Nothing but the function's arguments: the backward pass computes the rest again.
    Nothing,
}

impl Policy {
    /// Every policy.
    pub const ALL: &[Policy] = &[Policy::Everything, Policy::Nothing];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Everything => "everything",
            Policy::Nothing => "nothing",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Policy, Problem> {
        Policy::ALL.iter().copied().find(|p| p.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Policy::ALL.iter().map(|p| p.name()).collect();
            Problem::new(
                Kind::Parse,
                format!("there is no policy `{text}`"),
                format!("the policies are {}", names.join(", ")),
            )
        })
    }
}
