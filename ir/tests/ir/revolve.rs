//! Tests of `revolve`.

use tapeloom_ir::Schedule;
use tapeloom_ir::revolve::{reach, steps};

/// Computes the smallest number of forward iterations from the definition: the first saved carry after the initial one
/// may be at any iteration, and the iterations after it have one slot less.
fn least(iterations: usize, carries: usize) -> Vec<Vec<u128>> {
    let mut best = vec![vec![0; iterations + 1]; carries + 1];
    for s in 1..=carries {
        for n in 2..=iterations {
            let alone = (n * (n - 1) / 2) as u128;
            let at = |m: usize| m as u128 + best[s - 1][n - m] + best[s][m];
            let split = (1..n).filter(|_| s > 1).map(at);
            best[s][n] = split.chain([alone]).min().unwrap();
        }
    }
    best
}

#[test]
fn schedules_go_forward_as_little_as_can_be() {
    let best = least(200, 8);
    for (carries, best) in best.into_iter().enumerate().skip(1) {
        for (iterations, want) in best.into_iter().enumerate() {
            let schedule = Schedule::binomial(iterations, carries);
            schedule.check(iterations).unwrap();
            assert_eq!(
                schedule.steps(),
                want,
                "{iterations} iterations, {carries} carries: {schedule}"
            );
            assert_eq!(
                steps(iterations, carries),
                want,
                "{iterations} iterations, {carries} carries"
            );
            assert!(schedule.highest() <= carries);
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
    }
}

/// For long chains, with few and with many carries, schedules must run as many iterations as the formula `steps` says.
#[test]
fn long_schedules_are_those_of_the_formula() {
    for (iterations, carries) in [(682, 36), (1000, 2), (5000, 7), (20_000, 150), (300, 299)] {
        let schedule = Schedule::binomial(iterations, carries);
        schedule.check(iterations).unwrap();
        assert_eq!(schedule.steps(), steps(iterations, carries), "{iterations} {carries}");
        assert!(schedule.highest() <= carries);
    }
    // With 36 carries, two forward runs per iteration suffice for 682 iterations; with 35 they do not.
    assert_eq!((reach(36, 2), reach(35, 2)), (703, 666));
}

/// If the trip count is unknown, all iterations first run once, to find it. In total, at most twice as many iterations
/// may run forward as with a known trip count.
#[test]
fn unknown_lengths_cost_one_more_time_at_most() {
    let iterations = 100_000;
    for carries in [1, 2, 3, 5, 10, 30, 100, 300, 1000] {
        let offline = steps(iterations, carries);
        let online = iterations as u128 + offline;
        assert!(online <= 2 * offline, "{carries}: {online} and {offline}");
    }
}

#[test]
fn invalid_schedules_are_refused() {
    let wrong = [
        ("keep 0, ahead 1, back 1", 2, "the reverse pass of 1 iterations is missing"),
        ("keep 0, ahead 2, back 1, take 0, back 0", 2, "action 1"),
        ("keep 0, ahead 1, back 1, take 1, back 0", 2, "action 3"),
        ("keep 0, back 0, take 0, ahead 1, back 1", 2, "action 1"),
    ];
    for (text, iterations, found) in wrong {
        let problem = text.parse::<Schedule>().unwrap().check(iterations).unwrap_err();
        assert!(problem.message.starts_with(found), "{text}: {}", problem.message);
    }
    assert!("keep 0, jump 3".parse::<Schedule>().is_err());
}
