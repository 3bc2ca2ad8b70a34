//! Argsorts must return the indices of a stable comparison sort, for rows of every length at which the method
//! changes.

use std::cmp::Ordering;
use tapeloom_routines::{Argsort, Key};

/// A generator of pseudo-random numbers.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Returns the indices that `argsort` must return, by a stable comparison sort with `compare`.
fn expected<T: Copy>(argsort: &Argsort, x: &[T], compare: &dyn Fn(T, T) -> Ordering) -> Vec<i64> {
    let Argsort { rows, n, columns, first, descending, .. } = *argsort;
    let mut y = vec![0; rows * first * columns];
    for row in 0..rows {
        for column in 0..columns {
            let at = |place: usize| x[(row * n + place) * columns + column];
            let mut places: Vec<usize> = (0..n).collect();
            places.sort_by(|i, j| {
                let order = compare(at(*i), at(*j));
                if descending { order.reverse() } else { order }
            });
            for (k, place) in places.iter().take(first).enumerate() {
                y[(row * first + k) * columns + column] = *place as i64;
            }
        }
    }
    y
}

fn check<T: bytemuck::Pod>(
    key: Key,
    x: &[T],
    rows: usize,
    columns: usize,
    compare: &dyn Fn(T, T) -> Ordering,
) {
    let n = x.len() / rows / columns;
    for descending in [false, true] {
        let all = [n, n / 9, n / 8, n / 3, 1, 2, 0];
        for first in &all[..if n > 6000 { 2 } else { 7 }] {
            let argsort = Argsort { key, rows, n, columns, first: n.min(*first), descending };
            let mut places = vec![-1; rows * argsort.first * columns];
            let mut scratch = vec![u64::MAX; argsort.scratch_words()];
            assert!(argsort.run(bytemuck::cast_slice(x), &mut places, &mut scratch), "{argsort}");
            assert!(places == expected(&argsort, x, compare), "{argsort}");
        }
    }
}

/// Compares two floats; NaN is larger than every number and equal to another NaN.
fn floats(x: f64, y: f64) -> Ordering {
    x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()))
}

/// A function that returns the next element of a row.
type Source = Box<dyn FnMut() -> f64>;

/// The row lengths around which the method changes: comparisons, radix digits, partition by leading bits.
const LENGTHS: [usize; 12] = [0, 1, 2, 3, 7, 8, 9, 100, 1023, 1024, 5000, 65_537];

#[test]
fn floats_are_in_order_whatever_their_bits() {
    let specials =
        [f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, -f64::NAN];
    let mut noise = Noise(7);
    let mut kinds: Vec<(&str, Source)> = Vec::new();
    let mut random = Noise(3);
    kinds.push(("in [0, 1)", Box::new(move || (random.next() >> 11) as f64 / 2f64.powi(53))));
    let mut random = Noise(5);
    kinds.push(("any bits", Box::new(move || f64::from_bits(random.next()))));
    let mut random = Noise(9);
    kinds.push(("few", Box::new(move || (random.next() % 40) as f64 - 20.0)));
    let mut random = Noise(11);
    // A word holds only the leading bits of a key. The keys range from that of -1e300 to that of 1e300, so the elements
    // near 1 agree in these bits. The row must therefore be sorted again by whole keys.
    kinds.push((
        "near one another",
        Box::new(move || match random.next() % 50 {
            0 => 1e300,
            1 => -1e300,
            k => 1.0 + (k + random.next() % 1000) as f64 * f64::EPSILON,
        }),
    ));
    let mut random = Noise(13);
    // Only a few elements agree in all key bits of their words: just the runs of these elements must be sorted again.
    kinds.push((
        "pairs",
        Box::new(move || match random.next() % 100 {
            0 => 1.0 + (random.next() % 8) as f64 * f64::EPSILON,
            _ => f64::from_bits(random.next()),
        }),
    ));
    let mut random = Noise(15);
    kinds.push(("specials", Box::new(move || specials[(random.next() % 7) as usize])));
    kinds.push(("one", Box::new(|| 0.25)));
    for (kind, make) in &mut kinds {
        for n in LENGTHS {
            let mut x: Vec<f64> = (0..n).map(|_| make()).collect();
            if noise.next().is_multiple_of(2) {
                x.iter_mut().step_by(17).for_each(|x| *x = specials[(noise.next() % 7) as usize]);
            }
            println!("{kind}, {n}");
            check(Key::F64, &x, 1, 1, &floats);
            let x: Vec<f32> = x.iter().map(|x| *x as f32).collect();
            check(Key::F32, &x, 1, 1, &|x, y| floats(x.into(), y.into()));
        }
    }
}

#[test]
fn integers_are_in_order() {
    let mut noise = Noise(21);
    for n in LENGTHS {
        for bits in [0, 3, 17, 33, 45, 63] {
            let x: Vec<i64> = (0..n).map(|_| noise.next() as i64 >> (63 - bits)).collect();
            check(Key::I64, &x, 1, 1, &|x, y| x.cmp(&y));
            let unsigned: Vec<u64> = x.iter().map(|x| *x as u64).collect();
            check(Key::U64, &unsigned, 1, 1, &|x, y| x.cmp(&y));
            let x: Vec<i32> = x.iter().map(|x| *x as i32).collect();
            check(Key::I32, &x, 1, 1, &|x, y| x.cmp(&y));
            let unsigned: Vec<u32> = x.iter().map(|x| *x as u32).collect();
            check(Key::U32, &unsigned, 1, 1, &|x, y| x.cmp(&y));
            let x: Vec<u8> = x.iter().map(|x| u8::from(*x > 0)).collect();
            check(Key::Bool, &x, 1, 1, &|x, y| x.cmp(&y));
        }
    }
}

/// Tests rows in which every element comes before all elements to its left, and rows in which no element does. The
/// indices must equal those of the comparison sort.
#[test]
fn ascending_and_descending_rows() {
    for n in LENGTHS {
        let mut x: Vec<f64> = (0..n).map(|i| i as f64 - 100.0).collect();
        check(Key::F64, &x, 1, 1, &floats);
        x.reverse();
        check(Key::F64, &x, 1, 1, &floats);
    }
}

#[test]
fn rows_lie_along_any_axis() {
    let mut noise = Noise(33);
    for (rows, n, columns) in [(3, 5, 2), (2, 1100, 3), (1, 1, 4), (5, 70, 1), (0, 3, 2), (2, 3, 0)]
    {
        let x: Vec<f64> = (0..rows * n * columns).map(|_| (noise.next() % 30) as f64).collect();
        let argsort = Argsort { key: Key::F64, rows, n, columns, first: n / 2, descending: true };
        let mut places = vec![-1; rows * (n / 2) * columns];
        let mut scratch = vec![0; argsort.scratch_words()];
        assert!(argsort.run(bytemuck::cast_slice(&x), &mut places, &mut scratch), "{argsort}");
        assert_eq!(places, expected(&argsort, &x, &floats), "{argsort}");
        if rows * columns > 0 {
            check(Key::F64, &x, rows, columns, &floats);
        }
    }
}

#[test]
fn wrong_buffers_are_refused_and_text_is_read_back() {
    let argsort = Argsort { key: Key::F64, rows: 2, n: 3, columns: 1, first: 2, descending: true };
    let (x, mut y, mut scratch) = ([0.0f64; 6], [7i64; 4], vec![0; argsort.scratch_words()]);
    let x: &[u8] = bytemuck::cast_slice(&x);
    assert!(!argsort.run(&x[8..], &mut y, &mut scratch));
    assert!(!argsort.run(x, &mut y[1..], &mut scratch));
    assert!(!argsort.run(x, &mut y, &mut scratch[1..]));
    assert!(!Argsort { first: 4, ..argsort }.run(x, &mut [0; 8], &mut scratch));
    assert_eq!(y, [7; 4]);
    assert!(argsort.run(x, &mut y, &mut scratch));
    let text = argsort.to_string();
    assert_eq!(text, "argsort{key=f64, rows=2, n=3, columns=1, first=2, descending=true}");
    let words = text.trim_start_matches("argsort{").trim_end_matches('}');
    let attributes: Vec<(&str, &str)> =
        words.split(", ").filter_map(|word| word.split_once('=')).collect();
    assert_eq!(Argsort::named(&attributes), Some(argsort));
    assert_eq!(Argsort::named(&attributes[1..]), None);
}
