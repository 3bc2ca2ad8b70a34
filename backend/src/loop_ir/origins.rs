//! Origins: the equations that a statement computes, with the user's lines.
//!
//! Lowering attaches origins to loops, contractions, calls and other statements with blocks. A pass that replaces a
//! statement gives its origins to each replacement; a pass that merges statements unites their origins. Origins are no
//! part of a program's meaning: they are not printed or hashed, and never count in equality.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tapeloom_ir::{Loc, Origin};

/// An equation of the function that was lowered: its primitive, its source line, and its phase (forward or reverse
/// pass).
#[derive(Clone, Copy, Debug)]
pub struct Computed {
    /// The name of the primitive.
    pub primitive: &'static str,
    /// The user's line and the phase (forward or reverse pass) of the equation.
    pub origin: Origin,
}

/// The equations that a statement computes, in the order of the function, without repetition. Equations that agree in
/// primitive, line and phase count as one.
///
/// Any two `Origins` compare equal, so that two statements that differ only in their origins are equal.
///
/// ```
/// use tapeloom_backend::loop_ir::{Computed, Origins};
/// let of = |primitive| Origins::of([Computed { primitive, origin: Default::default() }]);
/// let both = of("mul").united(&of("add")).united(&of("mul"));
/// assert_eq!(both.iter().map(|c| c.primitive).collect::<Vec<_>>(), ["mul", "add"]);
/// assert_eq!(both, Origins::default());
/// ```
#[derive(Clone, Default, Debug)]
pub struct Origins(Option<Arc<[Computed]>>);

impl Origins {
    /// The origins of a statement that computes no equation.
    pub const NONE: Origins = Origins(None);

    /// Returns the origins of a statement that computes these equations. Repeated equations are dropped.
    pub fn of(all: impl IntoIterator<Item = Computed>) -> Origins {
        let mut known = tapeloom_ir::OrderedMap::default();
        for computed in all {
            known.entry(key(&computed)).or_insert(computed);
        }
        let all: Arc<[Computed]> = known.into_values().collect();
        Origins((!all.is_empty()).then_some(all))
    }

    /// Returns the equations of `self` followed by the equations of `other`, for a statement that does the work of two
    /// statements.
    #[must_use]
    pub fn united(&self, other: &Origins) -> Origins {
        match (&self.0, &other.0) {
            (_, None) => self.clone(),
            (None, _) => other.clone(),
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => self.clone(),
            (Some(_), Some(_)) => Origins::of(self.iter().chain(other.iter()).copied()),
        }
    }

    /// Returns the equations, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Computed> {
        self.0.iter().flat_map(|all| all.iter())
    }
}

type Key = (&'static str, Option<(&'static str, u32, u32)>, tapeloom_ir::Phase);

fn key(Computed { primitive, origin }: &Computed) -> Key {
    let at = |loc: Loc| loc.map(|l| (l.file(), l.line(), l.column()));
    (primitive, at(origin.loc), origin.phase)
}

impl PartialEq for Origins {
    fn eq(&self, _: &Origins) -> bool {
        true
    }
}

impl Eq for Origins {}

impl Hash for Origins {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
