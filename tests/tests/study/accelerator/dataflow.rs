//! The timing of operations on the simulated machine: small programs whose ticks (clock cycles) are counted by hand.

use crate::accelerator::kernel::{At, Emit};
use tapeloom_backend::accelerator::*;

/// Returns the number of ticks of a program on arrays `x` and `y` of 1024 elements of 8 bytes.
fn ticks(machine: &Machine, system: System, program: impl FnOnce(&mut Emit<'_>)) -> u64 {
    let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
    arrays.push("x", 1024, 8);
    arrays.push("y", 1024, 8);
    let tape = Tape::at(Tape::BASE);
    let mut e = Emit::new(Simulation::new(machine, system, &arrays, &tape).unwrap());
    program(&mut e);
    e.finish().unwrap().forward.ticks
}

/// Returns a machine on which every cache line from memory has the same latency, whichever lines were accessed before.
fn flat() -> Machine {
    Machine { row: 0, ..Machine::cal() }
}

fn x() -> ArrayId {
    ArrayId::from_u32(0)
}

#[track_caller]
fn check(expected: u64, program: impl FnOnce(&mut Emit<'_>)) {
    check_on(&flat(), expected, program);
}

#[track_caller]
fn check_on(machine: &Machine, expected: u64, program: impl FnOnce(&mut Emit<'_>)) {
    assert_eq!(ticks(machine, System::ENZYME, program), expected);
}

fn loads(e: &mut Emit<'_>, elements: impl IntoIterator<Item = usize>) {
    for element in elements {
        e.load(x(), element);
    }
}

#[test]
fn operations_wait_for_operands_and_units() {
    check(0, |_| {});
    check(15, |e| {
        (0..3).fold(Token::READY, |value, _| e.add(value, value));
    });
    let many = |opcode, n| {
        move |e: &mut Emit<'_>| {
            for _ in 0..n {
                e.op(opcode, &[]);
            }
        }
    };
    check(5, many(Opcode::Add, 16));
    check(6, many(Opcode::Add, 17));
    // A function unit that divides must accept no other operation until the division has ended.
    check(16, many(Opcode::Div, 16));
    check(32, many(Opcode::Div, 17));
    check(0, many(Opcode::Free, 1000));
    let realistic = Machine { latencies: Latencies::REALISTIC, ..flat() };
    check_on(&realistic, 30, many(Opcode::Tanh, 1));
    check_on(&Machine { window: 4, ..flat() }, 10, many(Opcode::Add, 8));
    // With `strict: 1`, instances of one operation of the program's text issue one after the other, and instances of
    // three operations in parallel.
    check_on(&Machine { strict: 1, ..flat() }, 15, many(Opcode::Add, 3));
    check_on(&Machine { strict: 1, ..flat() }, 5, |e| {
        for site in 0..3 {
            e.push(site, Work::Compute(Opcode::Add), &[]);
        }
    });
}

#[test]
fn a_port_has_one_read_and_one_write_under_way() {
    check(10, |e| loads(e, [0]));
    check(10, |e| loads(e, [0, 8]));
    check(20, |e| loads(e, [0, 8, 16]));
    // If both ports are busy, the fourth load must wait only for the port that becomes free first.
    check(13, |e| loads(e, [0, 1, 2, 3]));
    let other_set = [0, 8, 16, 24];
    check(20, |e| loads(e, other_set));
    let free = Machine { burst: 0, ..flat() };
    check_on(&free, 10, |e| {
        loads(e, [0, 8]);
        e.store(x(), 16, Token::READY);
        e.store(x(), 24, Token::READY);
    });
    let open = Machine { blocking: 0, ..free };
    check_on(&open, 11, |e| loads(e, other_set));
    check_on(&Machine { mshrs: 1, ..open.clone() }, 40, |e| loads(e, other_set));
    // A load of a cache line that is being fetched waits for that line, if fewer than `targets` loads wait already.
    check_on(&open, 10, |e| loads(e, [0, 1, 2]));
    check_on(&Machine { targets: 1, ..open }, 13, |e| loads(e, [0, 1, 2]));
    let at_once = Machine { targets: 0, ports: 1, ..flat() };
    check_on(&at_once, 16, |e| loads(e, [0, 1, 2]));
}

/// Latencies of loads that run one after the other. A row of memory has 8 kB, 1,024 elements of 8 bytes; x and y are in
/// two banks.
#[test]
fn a_row_of_memory_stays_open() {
    let one = Machine { ports: 1, ..Machine::cal() };
    let of =
        |elements: &'static [usize]| move |e: &mut Emit<'_>| loads(e, elements.iter().copied());
    // A tick is 10 ns. A memory access takes 96 ns (10 ticks) if it opens the row of memory, and 82 ns if the row is
    // already open.
    check_on(&one, 10, of(&[0]));
    check_on(&one, 10 + 9 + 9, of(&[0, 8, 16]));
    check_on(&Machine { row: 64, row_banks: 4, ..one.clone() }, 10 + 10 + 10, of(&[0, 8, 16]));
    // If another row of the bank is open, an access takes 110.2 ns, which end in the twelfth tick.
    let narrow = Machine { row: 64, row_banks: 2, ..one.clone() };
    check_on(&narrow, 10 + 10 + 12 + 12, of(&[0, 8, 16, 24]));
    // Writing a cache line back to memory also opens its row. The store runs in parallel to the first load.
    let tiny = Machine { row: 1 << 10, row_banks: 1, ..one.with_cache(1 << 10, 1) };
    check_on(&tiny, 10 + 12 + 9, of(&[0, 128, 136]));
    check_on(&tiny, 12 + 12, |e| {
        e.store(x(), 0, Token::READY);
        loads(e, [128, 136]);
    });
}

#[test]
fn memory_moves_a_line_at_a_time() {
    let lines = |n: usize| move |e: &mut Emit<'_>| loads(e, (0..n).map(|i| 8 * i));
    let wide = Machine { ports: 16, ..flat() };
    // Memory delivers three cache lines per tick, the fourth 10 ns after the first: 96, 99.3, 102.7, 106 ns.
    check_on(&wide, 10, lines(2));
    check_on(&wide, 11, lines(4));
    let fast = Machine { ports: 16, row: 0, ..Machine::fast() };
    assert_eq!((flat().missed(), fast.missed()), (10, 136));
    check_on(&fast, 136, lines(1));
    // A cache line takes 6.67 ticks. Nineteen lines precede the last one; for more than twenty lines, an earlier fetch
    // must finish first.
    check_on(&fast, 263, lines(20));
    check_on(&fast, 272, lines(21));
    // Changed lines are written back when there are no reads, or when the write buffers are full.
    let conflict = |e: &mut Emit<'_>| {
        let store = |e: &mut Emit<'_>, i: usize| e.store(x(), 8 * i, Token::READY);
        (0..32).for_each(|i| store(e, i));
    };
    let tiny = Machine { burst: 100_000, ..flat().with_cache(1 << 10, 2) };
    // Fifteen changed cache lines must be written back. Eight of them can wait in write buffers, so the last line is
    // read after seven have been written.
    check_on(&tiny, 320 + 7 * 10, conflict);
    check_on(&Machine { write_buffers: 40, ..tiny }, 320, conflict);
}

#[test]
fn accesses_to_a_word_keep_their_order() {
    // Accesses to one word keep their order: a load waits for the store before, a store for the load or store before.
    check(13, |e| {
        e.store(x(), 0, Token::READY);
        loads(e, [0]);
    });
    check(13, |e| {
        loads(e, [0]);
        e.store(x(), 0, Token::READY);
    });
    check(13, |e| {
        e.store(x(), 0, Token::READY);
        e.store(x(), 0, Token::READY);
    });
    // The expected time of 18 ticks is ten for the load, five for the sum, and three for the store.
    check(18, |e| e.accumulate(x(), 0, Token::READY));
    // An access to the next word must not wait for an access to this word.
    check(18, |e| {
        e.accumulate(x(), 0, Token::READY);
        e.accumulate(x(), 1, Token::READY);
    });
}

#[test]
fn a_block_is_known_when_its_branch_is() {
    let program = |branch: bool| {
        move |e: &mut Emit<'_>| {
            let condition = e.op(Opcode::Compare, &[]);
            if branch {
                e.push(0, Work::Branch, &[condition]);
            }
            loads(e, [0]);
        }
    };
    check(10, program(false));
    check(11, program(true));
}

#[test]
fn lines_of_the_tape_are_fetched_ahead() {
    let run = |system| {
        let arrays = Arrays::bump(Arrays::BASE, 0, 0);
        let mut tape = Tape::at(Tape::BASE);
        let region = tape.push(1, 80);
        let machine = flat();
        let mut e = Emit::new(Simulation::new(&machine, system, &arrays, &tape).unwrap());
        for i in 0..80 {
            e.tape_store(At::tape(region, 0, i, 0), 1.0, Token::READY);
        }
        e.finish().unwrap()
    };
    let (plain, ahead) = (run(System::AOS), run(System::PREFETCH));
    assert_eq!((plain.forward.tape.misses, plain.forward.prefetched), (10, 0));
    // Without prefetching, a store to a line that is being fetched merges with the fetch, which happens once for each
    // of the ten lines.
    assert_eq!(plain.forward.merged, 10);
    // The prefetcher fetches the nine lines after the first one, and one line beyond the end of the tape. Only the
    // first store misses.
    assert_eq!((ahead.forward.tape.misses, ahead.forward.prefetched), (1, 10));
    assert!(ahead.forward.ticks < plain.forward.ticks);
}

/// Checks the ticks of the forward and the reverse pass for layers (parts of the tape that fill the scratchpad at
/// once), with these numbers of entries, that are stored forward and loaded in reverse order.
#[track_caller]
fn check_layers(machine: &Machine, layers: &[usize], expected: (u64, u64)) {
    let mut tape = Tape::at(Tape::BASE);
    let total: usize = layers.iter().sum();
    let region = tape.push(1, total as u64);
    let arrays = Arrays::bump(Arrays::BASE, 0, 0);
    let mut e = Emit::new(Simulation::new(machine, System::TFLOW, &arrays, &tape).unwrap());
    let mut first = 0;
    for entries in layers {
        e.layer(*entries, false);
        for i in 0..*entries {
            e.tape_store(At::tape(region, 0, first + i, i), i as f64, Token::READY);
        }
        e.barrier();
        first += entries;
    }
    e.reverse();
    for entries in layers.iter().rev() {
        first -= entries;
        e.layer(*entries, false);
        for i in 0..*entries {
            e.tape_load(At::tape(region, 0, first + i, i), i as f64);
        }
        e.barrier();
    }
    let s = e.finish().unwrap();
    assert_eq!((s.forward.ticks, s.reverse.ticks), expected);
}

#[test]
fn a_bank_takes_one_access_in_a_tick() {
    // The forward pass takes 1 tick for the stores, 1 for the barrier, and 10 for one request to memory. The reverse
    // pass takes as many: the request 10, the loads 1, the barrier 1.
    check_layers(&flat(), &[8], (12, 12));
    check_layers(&flat(), &[16], (2 + 1 + 11, 11 + 2 + 1));
    check_layers(&Machine { banks: 4, ..flat() }, &[8], (13, 13));
    check_layers(&Machine { banks: 1, ..flat() }, &[8], (19, 19));
    check_layers(&Machine { scratchpad: 5, barrier: 0, ..flat() }, &[8], (15, 15));
}

#[test]
fn a_half_is_used_while_the_other_one_is_streamed() {
    // To store or load the 32 entries of a layer (the tape entries that are in the scratchpad at one time) takes 5
    // ticks. To stream them to or from memory takes 3 + 10 ticks, for four requests.
    let cal = flat();
    check_layers(&cal, &[32], (5 + 13, 13 + 5));
    check_layers(&cal, &[32, 32], (5 + 5 + 13, 13 + 5 + 5));
    // The third layer of the tape waits for the half of the scratchpad that the first layer used. That half is free 13
    // ticks after the first layer, in the forward and in the reverse pass.
    check_layers(&cal, &[32, 32, 32], (5 + 13 + 5 + 13, 13 + 5 + 13 + 5));
    // If the scratchpad has a single half, the second layer of the tape must already wait.
    let single = Machine { halves: 1, entries: 32, ..cal };
    check_layers(&single, &[32, 32], (5 + 13 + 5 + 13, 13 + 5 + 13 + 5));
    let slow = Machine { outstanding: 1, ..single };
    check_layers(&slow, &[32], (5 + 40, 40 + 5));
}
