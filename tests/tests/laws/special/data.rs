//! The recorded values of `tests/data/special/values.jsonl`; its script says how arguments are drawn.

use serde_json::Value;

/// A recorded function with its arguments and values.
pub(super) struct Recorded {
    pub(super) name: String,
    /// Rows of arguments; rows with an odd index are exactly representable in f32.
    pub(super) rows: Vec<Vec<f64>>,
    /// The recorded value for each row of arguments; nan if no value is recorded.
    pub(super) values: Vec<f64>,
}

pub(super) fn recorded() -> Vec<Recorded> {
    let text = include_str!("../../../data/special/values.jsonl");
    text.lines().skip(1).map(|line| read(&serde_json::from_str(line).unwrap())).collect()
}

fn read(entry: &Value) -> Recorded {
    let count = entry["count"].as_u64().unwrap() as usize;
    let mut dice = Dice(entry["seed"].as_u64().unwrap());
    let kinds = entry["arguments"].as_array().unwrap();
    let rows = (0..count).map(|i| row(&mut dice, i, kinds)).collect();
    let bytes = base64(entry["values"].as_str().unwrap());
    let values: Vec<f64> =
        bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(values.len(), count);
    Recorded { name: entry["name"].as_str().unwrap().to_owned(), rows, values }
}

/// A linear congruential generator, the same as in the script that recorded the values. The upper 53 bits of its state,
/// as a fraction, are a number below 1.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 * 2f64.powi(-53)
    }
}

fn row(dice: &mut Dice, i: usize, kinds: &[Value]) -> Vec<f64> {
    let (mut row, mut turn) = (Vec::new(), i / 2);
    for choices in kinds {
        let choices = choices.as_array().unwrap();
        let x = draw(dice, &choices[turn % choices.len()], &row);
        turn /= choices.len();
        row.push(if i % 2 == 1 { f64::from(x as f32) } else { x });
    }
    row
}

fn draw(dice: &mut Dice, piece: &Value, before: &[f64]) -> f64 {
    let number = |i: usize| piece[i].as_f64().unwrap();
    let (low, high) = (number(1), number(2));
    let u = dice.roll();
    match (piece[0].as_str().unwrap(), before) {
        ("even", _) => low + (high - low) * u,
        ("scale", _) => {
            let k = (low + (high - low) * dice.roll()).floor();
            (1.0 + u) * 2f64.powi(k as i32)
        }
        ("gamma", [a]) => (a + (low + (high - low) * u) * a.sqrt()).abs(),
        ("beta", [a, b]) => {
            let mean = a / (a + b);
            let x = mean + (low + (high - low) * u) * (mean * (1.0 - mean) / (a + b)).sqrt();
            if 0.0 < x && x < 1.0 { x } else { u }
        }
        (kind, _) => panic!("{kind}"),
    }
}

/// Decodes base64.
fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("no digit of base64: {c}"),
    };
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::new();
    for four in text.chunks(4) {
        let bits = four.iter().fold(0u32, |bits, c| bits << 6 | u32::from(digit(*c)));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}
