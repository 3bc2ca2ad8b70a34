//! Properties of every simulated machine: its text form, and that its scratchpad loses no values.

use crate::accelerator::kernel::{At, Emit, Kernel, noise, replay, run, try_run};
use tapeloom_backend::accelerator::*;
use tapeloom_ir::Kind;

#[test]
fn the_text_of_a_machine_is_the_machine() {
    let realistic = Machine { latencies: Latencies::REALISTIC, ..Machine::cal() };
    let table = TABLE_III.map(|row| Machine::fast().with_cache(row.bytes, row.ways));
    for machine in [Machine::cal(), Machine::fast(), replay(), realistic].iter().chain(&table) {
        assert_eq!(machine.check(), Ok(()));
        assert_eq!(Machine::parse(&machine.to_string()).as_ref(), Ok(machine));
    }
}

/// Replaces `from` by `to` in the printed description of a simulated machine, and checks that parsing the result fails
/// with the expected error.
#[track_caller]
fn refused(from: &str, to: &str, expected: &str) {
    let text = Machine::cal().to_string();
    assert!(text.contains(from), "{text}");
    let problem = Machine::parse(&text.replacen(from, to, 1)).unwrap_err();
    assert!(matches!(problem.kind, Kind::Parse | Kind::Target));
    assert_eq!(problem.message, expected);
}

#[test]
fn machines_that_make_no_sense_are_errors() {
    let cannot = |why: &str| format!("the machine cal is invalid: {why}");
    let line = |n: usize, what: &str| format!("text of a machine, line {n}: {what}");
    refused("machine cal {", "cal", &line(1, "expected `machine name {`"));
    refused("  tick 10000\n", "", &line(52, "the text ends without tick"));
    refused(
        "  tick 10000\n",
        "  tick 1 ns\n",
        &line(2, "expected `name number`, found `  tick 1 ns`"),
    );
    refused("tick 10000", "tick -1", &line(2, "expected a number, found `-1`"));
    refused("tick 10000", "tack 10000", &line(2, "a machine has no `tack`"));
    refused("units 16", "tick 16", &line(3, "`tick` is given twice"));
    refused("latency add 5", "latency plus 5", &line(34, "there is no opcode `plus`"));
    refused("}\n", "", &line(52, "the text ends without `}`"));
    refused("}\n", "}\nmore\n", &line(53, "expected the end, found `more`"));
    let both = "`units` must be 1 to 65536, got 0";
    refused("units 16", "units 0", &cannot(both));
    refused(
        "ways 2",
        "ways 3",
        &cannot("a cache of 32768 bytes is not made of sets of 3 lines of 64"),
    );
    refused(
        "cache 32768",
        "cache 3072",
        &cannot(
            "`energies` has 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072 bytes, and no cache of 3072",
        ),
    );
    refused(
        "machine cal",
        "machine 1",
        "the machine 1 is invalid: its name must be a word, got `1`",
    );
    let twice = "the energy of a cache of 1024 bytes is given twice";
    refused("energy 2048 440", "energy 1024 440", &cannot(twice));
    refused(
        "energy 2048 440",
        "energy 2048 99999999",
        &cannot("`energy 2048` must be 0 to 16777216, got 99999999"),
    );
    refused("entries 64", "entries 63", &cannot("63 entries are not 2 halves"));
    refused(
        "line 64",
        "line 60",
        &cannot(
            "a line of 60 bytes is no multiple of words of 8; a cache of 32768 bytes is not made \
             of sets of 2 lines of 60",
        ),
    );
    refused(
        "row_opens 14160",
        "row_opens 70000",
        &cannot("a row opens in 70000 ps, within the 66000 ps of a miss"),
    );
    refused("request 64", "request 60", &cannot("a request of 60 bytes is not entries of 8"));
}

/// A program that stores layers of the tape (groups of entries that are in the scratchpad at one time), one loop nest
/// after the other, and then loads them all.
struct Layers {
    /// Per loop nest: the order in which its layers (groups of tape entries) are loaded, whether their values are in
    /// arrays already, and the number of entries of each layer.
    nests: Vec<(Order, bool, Vec<u64>)>,
    /// The planted mistake, which the scratchpad must report.
    wrong: Option<Wrong>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Wrong {
    /// Mistake: the tape layers of a nest that should be read in order are read backward, and vice versa.
    Order,
    /// Mistake: the first entry of a tape layer is stored at the offset of the second entry.
    Offset,
    /// Mistake: loads of the tape expect other bits than were stored.
    Bits,
    /// Mistake: the program loads an entry beyond the end of a tape layer.
    Beyond,
    /// Mistake: the last entry of each tape layer is not stored.
    Short,
    /// Mistake: no barrier ends a tape layer.
    Open,
    /// Mistake: the reverse pass does not read the tape layers of the first nest.
    Left,
    /// Mistake: a value is stored on the tape in the reverse pass.
    Late,
    /// Mistake: the reverse pass reads more tape layers than were stored.
    More,
    /// Mistake: values of a tape layer are loaded after the barrier that ends the layer.
    Closed,
}

const CASES: [Wrong; 10] = [
    Wrong::Order,
    Wrong::Offset,
    Wrong::Bits,
    Wrong::Beyond,
    Wrong::Short,
    Wrong::Open,
    Wrong::Left,
    Wrong::Late,
    Wrong::More,
    Wrong::Closed,
];

impl Layers {
    fn is(&self, wrong: Wrong) -> bool {
        self.wrong == Some(wrong)
    }

    fn entry(&self, in_array: bool, n: u64, offset: u64, bits: f64) -> Entry {
        let identity = match in_array {
            true => EntryIdentity::Array(ArrayId::from_u32(0), n),
            false => EntryIdentity::Tape(RegionId::from_u32(0), 0, n),
        };
        At { identity, offset: offset as usize }.entry(bits)
    }

    fn total(&self) -> u64 {
        self.nests.iter().map(|(.., layers)| layers.iter().sum::<u64>()).sum()
    }

    fn end(&self, e: &mut Emit<'_>) {
        if !self.is(Wrong::Open) {
            e.barrier();
        }
    }
}

impl Kernel for Layers {
    fn arrays(&self) -> Arrays {
        let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
        arrays.push("x", self.total(), 8);
        arrays
    }

    fn tape(&self) -> Tape {
        let mut tape = Tape::at(Tape::BASE);
        tape.push(1, self.total());
        tape
    }

    fn forward(&self, e: &mut Emit<'_>) {
        let mut n = 0;
        for (order, in_array, layers) in &self.nests {
            for entries in layers {
                let (entries, in_array, order) = (*entries, *in_array, *order);
                e.push(0, Work::Layer(Layer { stream: 0, entries, in_array, order }), &[]);
                for offset in 0..entries - u64::from(self.is(Wrong::Short)) {
                    let value = e.op(Opcode::Div, &[]);
                    let at = if self.is(Wrong::Offset) && offset == 0 { 1 } else { offset };
                    let entry = self.entry(in_array, n + offset, at, noise((n + offset) as usize));
                    e.push(0, Work::TapeStore(entry), &[value]);
                }
                self.end(e);
                n += entries;
            }
        }
    }

    fn reverse(&self, e: &mut Emit<'_>) {
        let mut end = self.total();
        for (at, (order, in_array, layers)) in self.nests.iter().enumerate().rev() {
            if at == 0 && self.is(Wrong::Left) {
                return;
            }
            let total: u64 = layers.iter().sum();
            end -= total;
            let mut starts: Vec<(u64, u64)> = Vec::new();
            for entries in layers {
                let start = starts.last().map_or(end, |(start, before)| start + before);
                starts.push((start, *entries));
            }
            if matches!(order, Order::Mirrored) != self.is(Wrong::Order) {
                starts.reverse();
            }
            for (start, entries) in starts {
                let (in_array, order) = (*in_array, *order);
                e.push(0, Work::Layer(Layer { stream: 0, entries, in_array, order }), &[]);
                for offset in 0..entries {
                    let x =
                        if self.is(Wrong::Bits) { 0.25 } else { noise((start + offset) as usize) };
                    let behind = if self.is(Wrong::Beyond) { entries } else { 0 };
                    let entry = self.entry(in_array, start + offset, offset + behind, x);
                    match self.is(Wrong::Late) {
                        true => e.push(0, Work::TapeStore(entry), &[]),
                        false => e.push(0, Work::TapeLoad(entry), &[]),
                    };
                }
                self.end(e);
            }
        }
        if self.is(Wrong::More) {
            let (order, in_array, layers) = &self.nests[0];
            e.push(
                0,
                Work::Layer(Layer {
                    stream: 0,
                    entries: layers[0],
                    in_array: *in_array,
                    order: *order,
                }),
                &[],
            );
            e.tape_load(At::tape(RegionId::from_u32(0), 0, 0, 0), noise(0));
            self.end(e);
        }
        if self.is(Wrong::Closed) {
            e.tape_load(At::tape(RegionId::from_u32(0), 0, 0, 0), noise(0));
        }
    }
}

/// Returns the nests of several programs, as in [`Layers::nests`]. Tape layers have 2 to 32 entries, and are loaded in
/// the order of their stores or in reverse. Some programs have nests of both orders, and nests whose values are in
/// arrays already.
fn programs() -> Vec<Vec<(Order, bool, Vec<u64>)>> {
    let same = |nest| Order::Same { nest };
    let many = |n: u64, size: u64| (0..n).map(|i| 2 + (i * 7) % size).collect::<Vec<_>>();
    vec![
        vec![(Order::Mirrored, false, many(40, 30))],
        vec![(Order::Mirrored, false, vec![32; 9])],
        vec![(Order::Mirrored, false, vec![2])],
        vec![(same(0), false, many(40, 12))],
        vec![(same(0), false, many(9, 5)), (same(1), false, many(30, 20))],
        vec![
            (Order::Mirrored, false, many(20, 9)),
            (same(0), false, many(9, 31)),
            (Order::Mirrored, false, many(20, 3)),
        ],
        vec![(Order::Mirrored, true, many(40, 30))],
        vec![
            (Order::Mirrored, false, many(3, 9)),
            (Order::Mirrored, true, many(20, 31)),
            (same(0), true, many(9, 5)),
            (Order::Mirrored, false, many(20, 30)),
        ],
    ]
}

fn machines() -> [Machine; 6] {
    let slow = Machine { outstanding: 1, pace: 5, request: 8, ..Machine::cal() };
    [
        Machine::cal(),
        replay(),
        Machine::fast(),
        Machine { halves: 1, entries: 32, ..Machine::cal() },
        Machine { strict: 1, ..slow.clone() },
        Machine { banks: 1, window: 20, ..slow },
    ]
}

#[test]
fn every_entry_comes_back() {
    for nests in programs() {
        let layers = Layers { nests, wrong: None };
        let lying = layers.nests.iter().filter(|n| n.1).flat_map(|n| &n.2).sum::<u64>();
        let total = layers.total();
        for (machine, system) in pairs() {
            let s = run(&layers, &machine, system);
            let stored = s.forward.taped();
            assert_eq!((stored, s.reverse.taped()), (total - lying, total));
            assert_eq!(s.lifetimes.len() as u64, total - lying);
            if let Route::Scratchpad { .. } = system.tape {
                assert_eq!((s.forward.streamed, s.reverse.streamed), (total - lying, total));
            }
        }
    }
}

fn pairs() -> impl Iterator<Item = (Machine, System)> {
    machines().into_iter().flat_map(|m| System::ALL.map(|s| (m.clone(), s)))
}

#[test]
fn scratchpad_faults_end_the_run() {
    for wrong in CASES {
        let mut seen = false;
        for nests in programs() {
            // With one tape layer per nest, all orders are equal, so the planted mistake `Order` has no effect.
            let blind = wrong == Wrong::Order && nests.iter().all(|n| n.2.len() < 2);
            let layers = Layers { nests, wrong: Some(wrong) };
            for (machine, system) in pairs() {
                let Route::Scratchpad { .. } = system.tape else { continue };
                let result = try_run(&layers, &machine, system);
                assert_eq!(result.is_err(), !blind, "{wrong:?} of {:?}: {result:?}", layers.nests);
                seen |= result.is_err();
            }
        }
        assert!(seen, "{wrong:?}");
    }
}

#[test]
fn absurd_programs_are_errors() {
    let machine = Machine::cal();
    let mut arrays = Arrays::bump(u64::MAX - 100, 8, 8);
    let x = arrays.push("x", u64::MAX, u64::MAX);
    let y = arrays.place("y", u64::MAX - 7, 4, 8);
    let mut tape = Tape::at(u64::MAX);
    let region = tape.push(1, 2);
    let skewed = TapeForm::Arrays { skew: u64::MAX };
    let skewed = System {
        name: "x",
        tape: Route::Cache { form: skewed, prefetch: true },
        ..System::PREFETCH
    };
    for system in System::ALL.into_iter().chain([skewed]) {
        let mut run = Simulation::new(&machine, system, &arrays, &tape).unwrap();
        let mut other = Simulation::new(&machine, system, &arrays, &tape).unwrap();
        let op = |work, operands| Op { site: 0, work, operands };
        let stranger = (0..9).map(|_| other.push(&op(Work::Compute(Opcode::Add), &[])).unwrap());
        let strangers: Vec<Token> = stranger.collect();
        for work in [Work::Compute(Opcode::Add), Work::Store(y, 0), Work::Branch] {
            assert!(run.push(&op(work, &strangers)).is_err());
        }
        run.push(&op(Work::Store(y, 0), &[])).unwrap();
        for work in [
            Work::Load(x, u64::MAX),
            Work::Load(y, 1),
            Work::Load(ArrayId::from_u32(7), 0),
            Work::TapeStore(At::tape(region, 1, 0, 0).entry(0.0)),
            Work::TapeStore(At::tape(RegionId::from_u32(9), 0, 0, 0).entry(0.0)),
            Work::TapeLoad(At::tape(region, 0, 0, 0).entry(0.0)),
        ] {
            assert!(run.push(&op(work, &[])).is_err(), "{work:?} on {}", system.name);
        }
        run.reverse().unwrap();
        assert!(run.reverse().is_err());
        run.finish().unwrap();
    }
    let mut endless = Tape::at(0);
    endless.push(u64::MAX, u64::MAX);
    let problem = Simulation::new(&machine, System::ENZYME, &arrays, &endless).err().unwrap();
    assert_eq!(problem.kind, Kind::TooLarge);
}

#[test]
fn loads_without_a_store_are_errors() {
    let (machine, arrays) = (Machine::cal(), Arrays::bump(Arrays::BASE, 0, 0));
    let mut tape = Tape::at(Tape::BASE);
    let entry = At::tape(tape.push(1, 1), 0, 0, 0).entry(0.0);
    let mut run = Simulation::new(&machine, System::ENZYME, &arrays, &tape).unwrap();
    run.reverse().unwrap();
    run.push(&Op { site: 0, work: Work::TapeLoad(entry), operands: &[] }).unwrap();
    assert!(run.finish().unwrap_err().message.contains("was never stored"));
}

#[test]
fn layers_beyond_the_scratchpad_are_refused() {
    let layers = Layers { nests: vec![(Order::Mirrored, false, vec![33])], wrong: None };
    let problem = try_run(&layers, &Machine::cal(), System::TFLOW).unwrap_err();
    assert_eq!(problem.message, "a layer has 1 to 32 entries, got 33");
    assert!(try_run(&layers, &Machine::cal(), System::AOS).is_ok());
}
