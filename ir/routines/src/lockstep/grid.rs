//! [`Grid`]: the matrices of several batch members, stored element by element in packs; and [`Group`], these
//! members.

use rustfft::num_traits::{One, Zero};

use crate::lockstep::pack::{Lanes, Pack, Truth};
use crate::real::{Failed, Real, Scaling};
use crate::scratch::{Scratch, ScratchSize};

/// The size in bytes of the widest vector register. Scratch memory reserves these bytes for each pack (a vector
/// register with one number of each batch member), also on machines with narrower registers, so that its size is the
/// same on every machine.
const WIDEST: usize = 64;

/// The largest number of lanes of a register, reached with 4-byte numbers.
const MOST_LANES: usize = WIDEST / size_of::<f32>();

/// Returns the scratch memory of a matrix with `rows` rows and `columns` columns whose entries are vector registers
/// (one lane per batch member).
pub(super) fn need(rows: usize, columns: usize) -> ScratchSize {
    ScratchSize::new().array::<[u8; WIDEST]>(rows * columns)
}

/// Consecutive batch members that are processed together, at most one for each lane.
pub(super) struct Group<T> {
    first: usize,
    count: usize,
    /// The scaling of each member's input by lane; `None` for a member that has failed.
    scalings: [Option<Scaling<T>>; MOST_LANES],
}

impl<T: Real> Group<T> {
    /// Splits all batch members into groups of at most `lanes`.
    #[inline(always)]
    pub(super) fn all(members: usize, lanes: usize) -> impl Iterator<Item = Self> {
        (0..members).step_by(lanes).map(move |first| Group {
            first,
            count: lanes.min(members - first),
            scalings: [Some(Scaling::of(T::zero())); MOST_LANES],
        })
    }

    /// Sets each member's scaling from its largest absolute value, given by `largest`; a member for which that
    /// fails (a number is not finite) is marked as failed.
    #[inline(always)]
    pub(super) fn scale(&mut self, largest: impl Fn(usize) -> Result<T, Failed>) {
        let members = self.first..self.first + self.count;
        for (scaling, member) in self.scalings.iter_mut().zip(members) {
            *scaling = largest(member).ok().map(Scaling::of);
        }
    }

    /// Marks the batch members for which `passes` returns false as failed.
    #[inline(always)]
    pub(super) fn check(&mut self, passes: impl Fn(usize) -> bool) {
        let members = self.first..self.first + self.count;
        for (scaling, member) in self.scalings.iter_mut().zip(members) {
            *scaling = scaling.filter(|_| passes(member));
        }
    }

    /// Marks the batch members in the lanes where `failed` is true as failed.
    #[inline(always)]
    pub(super) fn fail<L: Lanes<Number = T>>(&mut self, failed: Truth<L>) {
        if failed.any() {
            let numbers = failed
                .select(Pack::of(failed.lanes, T::one()), Pack::of(failed.lanes, T::zero()))
                .numbers;
            let numbers: &[T] = bytemuck::cast_slice(std::slice::from_ref(&numbers));
            for (scaling, &failed) in self.scalings.iter_mut().zip(numbers) {
                if failed != T::zero() {
                    *scaling = None;
                }
            }
        }
    }

    /// Iterates over the members of the group: the lane, the start of the member's `length` numbers, and its
    /// scaling.
    #[inline(always)]
    fn members(&self, length: usize) -> impl Iterator<Item = (usize, usize, Option<Scaling<T>>)> {
        let scalings = self.scalings[..self.count].iter().enumerate();
        scalings.map(move |(lane, &scaling)| (lane, (self.first + lane) * length, scaling))
    }
}

/// The memory layout of the members' matrices: row by row, or column by column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Rows,
    Columns,
}

/// Whether a result is linear in the input, so that the scaling of the input must be reversed in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Undo,
    Keep,
}

/// A matrix of packs (vector registers): element `[i, j]` holds element `[i, j]` of one batch member per lane.
pub(super) struct Grid<'a, L: Lanes> {
    lanes: L,
    pub(super) rows: usize,
    pub(super) columns: usize,
    packs: &'a mut [L::Vector],
}

impl<'a, L: Lanes> Grid<'a, L> {
    /// Takes memory for a matrix with `rows` rows and `columns` columns of vector registers from the scratch memory.
    #[inline(always)]
    pub(super) fn take(
        lanes: L,
        [rows, columns]: [usize; 2],
        scratch: &mut Scratch<'a>,
    ) -> Result<Self, Failed> {
        Ok(Grid { lanes, rows, columns, packs: scratch.take(rows * columns)? })
    }

    /// Returns the pack (vector register, one lane per batch member) of row `i` and column `j`.
    #[inline(always)]
    pub(super) fn at(&self, i: usize, j: usize) -> Pack<L> {
        Pack { lanes: self.lanes, numbers: self.packs[i * self.columns + j] }
    }

    /// Writes the pack (vector register, one lane per batch member) of row `i` and column `j`.
    #[inline(always)]
    pub(super) fn set(&mut self, i: usize, j: usize, x: Pack<L>) {
        self.packs[i * self.columns + j] = x.numbers;
    }

    /// Returns a pack with `x` in every lane.
    #[inline(always)]
    pub(super) fn splat(&self, x: L::Number) -> Pack<L> {
        Pack::of(self.lanes, x)
    }

    /// Returns a pack with 0 in every lane.
    #[inline(always)]
    pub(super) fn zero(&self) -> Pack<L> {
        self.splat(L::Number::zero())
    }

    /// Returns a pack with 1 in every lane.
    #[inline(always)]
    pub(super) fn one(&self) -> Pack<L> {
        self.splat(L::Number::one())
    }

    /// Returns a pack with `i`, converted to a float, in every lane.
    #[inline(always)]
    pub(super) fn index(&self, i: usize) -> Pack<L> {
        self.splat(L::Number::of_f64(i as f64))
    }

    /// Exchanges the elements at the positions `x` and `y`, each `[row, column]`, in the lanes where `which` is
    /// true.
    #[inline(always)]
    pub(super) fn exchange(&mut self, x: [usize; 2], y: [usize; 2], which: Truth<L>) {
        let (first, second) = (self.at(x[0], x[1]), self.at(y[0], y[1]));
        self.set(x[0], x[1], which.select(second, first));
        self.set(y[0], y[1], which.select(first, second));
    }

    /// Overwrites the matrix with the identity, in every lane.
    #[inline(always)]
    pub(super) fn set_identity(&mut self) {
        for i in 0..self.rows {
            for j in 0..self.columns {
                self.set(i, j, if i == j { self.one() } else { self.zero() });
            }
        }
    }

    /// Reads the matrices of a group's members into the grid, scaled. Lanes without a member, or with a failed
    /// one, get zeros.
    #[inline(always)]
    pub(super) fn load(&mut self, group: &Group<L::Number>, from: &[L::Number], layout: Layout) {
        let (rows, columns) = (self.rows, self.columns);
        if group.scalings[..L::COUNT].iter().any(Option::is_none) || group.count < L::COUNT {
            self.packs.fill(self.lanes.splat(L::Number::zero()));
        }
        let numbers: &mut [L::Number] = bytemuck::cast_slice_mut(self.packs);
        for (lane, start, scaling) in group.members(rows * columns) {
            let Some(scaling) = scaling else { continue };
            let member = &from[start..start + rows * columns];
            match layout {
                Layout::Rows => {
                    for (pack, &x) in numbers.chunks_exact_mut(L::COUNT).zip(member) {
                        pack[lane] = x * scaling.factor;
                    }
                }
                Layout::Columns => {
                    for (i, row) in numbers.chunks_exact_mut(columns * L::COUNT).enumerate() {
                        let column = member[i..].iter().step_by(rows);
                        for (pack, &x) in row.chunks_exact_mut(L::COUNT).zip(column) {
                            pack[lane] = x * scaling.factor;
                        }
                    }
                }
            }
        }
    }

    /// Writes the first `rows` rows of the grid to the results of a group's members; NaN for members that have
    /// failed.
    #[inline(always)]
    pub(super) fn store(
        &self,
        group: &Group<L::Number>,
        rows: usize,
        to: &mut [L::Number],
        layout: Layout,
        scale: Scale,
    ) {
        let columns = self.columns;
        let numbers: &[L::Number] = bytemuck::cast_slice(self.packs);
        for (lane, start, scaling) in group.members(rows * columns) {
            let member = &mut to[start..start + rows * columns];
            let Some(scaling) = scaling else {
                member.fill(L::Number::NAN);
                continue;
            };
            let factor = if scale == Scale::Undo { scaling.back } else { L::Number::one() };
            match layout {
                Layout::Rows => {
                    for (x, pack) in member.iter_mut().zip(numbers.chunks_exact(L::COUNT)) {
                        *x = pack[lane] * factor;
                    }
                }
                Layout::Columns => {
                    let all = numbers.chunks_exact(columns * L::COUNT);
                    for (i, row) in all.take(rows).enumerate() {
                        let column = member[i..].iter_mut().step_by(rows);
                        for (x, pack) in column.zip(row.chunks_exact(L::COUNT)) {
                            *x = pack[lane] * factor;
                        }
                    }
                }
            }
        }
    }

    /// Writes the first row of the grid as integers to the results of a group's members; 0, 1, 2 and so on for
    /// members that have failed.
    #[inline(always)]
    pub(super) fn store_indices(&self, group: &Group<L::Number>, to: &mut [i32]) {
        let numbers: &[L::Number] = bytemuck::cast_slice(self.packs);
        for (lane, start, scaling) in group.members(self.columns) {
            let member = &mut to[start..start + self.columns];
            for ((x, pack), place) in member.iter_mut().zip(numbers.chunks_exact(L::COUNT)).zip(0..)
            {
                *x = if scaling.is_some() { pack[lane].to_index() } else { place };
            }
        }
    }
}
