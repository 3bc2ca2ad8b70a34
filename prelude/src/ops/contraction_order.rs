//! The order in which [`einsum`](super::products::einsum) multiplies its operands.
//!
//! A product of several arrays may be computed pair by pair in any order. The costs of the orders differ by powers of
//! the extents:
//!
//! ```text
//! ij,jk,kl,l -> i      n by n each:   ((A B) C) x costs 2 n³ + n²,   A (B (C x)) costs 3 n²
//! ```
//!
//! The cost of a pair is the product of the extents of all labels of both, one multiplication each. Up to [`EXACT`]
//! operands the cheapest order is found by dynamic programming over subsets; of orders with equal costs, the one whose
//! largest intermediate is smallest is chosen, and then the written order. For more operands, each step multiplies the
//! cheapest pair.
//!
//! Source: Pfeifer, Haegeman, Verstraete, *Faster identification of optimal contraction sequences for tensor
//! networks* (2014), without its pruning.

/// The largest number n of operands for which all orders are compared, which takes about 3ⁿ splits of subsets.
const EXACT: usize = 10;

/// A set of labels. Bit i is set if label number i is in the set.
type Labels = u128;

/// Returns the cheapest order of multiplications, as pairs of array numbers. The operands are numbered from 0 in their
/// order, and the product of each pair gets the next number. `extents` contains the extent of each label. If there are
/// more labels than [`Labels`] has bits, the order is from left to right.
pub(super) fn cheapest(
    operands: &[Vec<usize>],
    extents: &[usize],
    result: &[usize],
) -> Vec<(usize, usize)> {
    if operands.len() < 3 || extents.len() > Labels::BITS as usize {
        return left_to_right(operands.len());
    }
    let set = |labels: &Vec<usize>| labels.iter().fold(0, |set: Labels, l| set | 1 << l);
    let all = Network {
        operands: operands.iter().map(set).collect(),
        extents,
        result: result.iter().fold(0, |set, l| set | 1 << l),
    };
    if operands.len() <= EXACT { all.exact() } else { all.greedy() }
}

/// Returns the pairs for multiplying the operands in their written order, from left to right.
pub(super) fn left_to_right(operands: usize) -> Vec<(usize, usize)> {
    let product = |k: usize| if k == 1 { 0 } else { operands + k - 2 };
    (1..operands).map(|k| (product(k), k)).collect()
}

struct Network<'a> {
    operands: Vec<Labels>,
    extents: &'a [usize],
    result: Labels,
}

/// The cheapest order of a subset of the operands.
#[derive(Clone, Copy)]
struct Best {
    cost: f64,
    largest: f64,
    /// The operands of the first factor, as a set of bits. The second factor has all other operands of the subset.
    first: usize,
}

impl Network<'_> {
    /// Returns the number of elements of an array with these labels.
    fn size(&self, labels: Labels) -> f64 {
        let extents = self.extents.iter().enumerate();
        extents.filter(|(l, _)| (labels >> l) & 1 == 1).map(|(_, n)| *n as f64).product()
    }

    /// Returns the axis labels of the product of a subset of the operands. A label of the subset remains if the result
    /// has it, or an operand outside of the subset.
    fn labels(&self, subset: usize) -> Labels {
        let (mut own, mut others) = (0, self.result);
        for (i, labels) in self.operands.iter().enumerate() {
            if (subset >> i) & 1 == 1 { own |= labels } else { others |= labels }
        }
        own & others
    }

    fn exact(&self) -> Vec<(usize, usize)> {
        let n = self.operands.len();
        let labels: Vec<Labels> = (0..1 << n).map(|subset| self.labels(subset)).collect();
        let mut best = vec![Best { cost: 0.0, largest: 0.0, first: 0 }; 1 << n];
        for subset in (1usize..1 << n).filter(|s| s.count_ones() > 1) {
            let written = subset & !(1 << subset.ilog2());
            let of = |first: usize| {
                let (a, b) = (best[first], best[subset & !first]);
                let own = self.size(labels[first] | labels[subset & !first]);
                let largest = a.largest.max(b.largest).max(self.size(labels[subset]));
                Best { cost: a.cost + b.cost + own, largest, first }
            };
            let mut found = of(written);
            // Try each split into two parts once: the part that contains the first operand of the subset is `first`.
            let lowest = subset & subset.wrapping_neg();
            let mut first = written;
            while first > 0 {
                first = (first - 1) & subset;
                if first & lowest != 0 {
                    let other = of(first);
                    if (other.cost, other.largest) < (found.cost, found.largest) {
                        found = other;
                    }
                }
            }
            best[subset] = found;
        }
        let mut pairs = Vec::with_capacity(n - 1);
        self.pairs(&best, (1 << n) - 1, &mut pairs);
        pairs
    }

    /// Appends the multiplications of a subset of the operands to `pairs`, and returns the array number of the subset's
    /// product.
    fn pairs(&self, best: &[Best], subset: usize, pairs: &mut Vec<(usize, usize)>) -> usize {
        if subset.is_power_of_two() {
            return subset.ilog2() as usize;
        }
        let first = best[subset].first;
        let pair = (self.pairs(best, first, pairs), self.pairs(best, subset & !first, pairs));
        pairs.push(pair);
        self.operands.len() + pairs.len() - 1
    }

    fn greedy(&self) -> Vec<(usize, usize)> {
        let mut open: Vec<(usize, Labels)> = self.operands.iter().copied().enumerate().collect();
        let mut pairs = Vec::with_capacity(open.len() - 1);
        while open.len() > 1 {
            let all = (0..open.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
            let cost = |(i, j): &(usize, usize)| self.size(open[*i].1 | open[*j].1);
            let Some((i, j)) = all.min_by(|a, b| cost(a).total_cmp(&cost(b))) else { break };
            let (second, first) = (open.remove(j), open.remove(i));
            let others = open.iter().fold(self.result, |set, (_, labels)| set | labels);
            open.insert(i, (self.operands.len() + pairs.len(), (first.1 | second.1) & others));
            pairs.push((first.0, second.0));
        }
        pairs
    }
}
