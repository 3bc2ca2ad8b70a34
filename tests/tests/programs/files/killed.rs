//! The example `language_model` is killed at random moments. Its checkpoint is whole after each kill, and the resumed
//! run ends with the bits of an uninterrupted one.

#[allow(dead_code, reason = "tests have no command line")]
#[path = "../../../../prelude/examples/language_model.rs"]
mod language_model;

use super::Folder;
use language_model::{Encoded, Options, load, perform, train};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use tapeloom_tests::Sweep;

/// The environment variable that names the file which a child process saves.
const WITHIN: &str = "TAPELOOM_TEST_WITHIN";

/// Returns the options of a run that saves after every step, so that many kills fall into a save.
fn options(checkpoint: &Path) -> Options {
    let checkpoint = Some(checkpoint.to_owned());
    Options { steps: 30, blocks: 1, checkpoint, every: 1, resume: true, svg: None }
}

/// The work of a child process, which the parent test kills: a run of the example that saves after every step.
#[test]
fn child() {
    if let Some(file) = std::env::var_os(WITHIN) {
        train(&options(file.as_ref()), &Encoded::new()).unwrap();
    }
}

fn start(file: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "files::killed::child"])
        .env(WITHIN, file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for the end of the process, and returns whether the process was killed.
///
/// # Panics
/// If the process failed by itself.
fn killed(mut child: Child) -> bool {
    let status = child.wait().unwrap();
    assert!(status.success() || status.code().is_none(), "{status}");
    !status.success()
}

fn written(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).ok().map(|data| data.modified().unwrap())
}

#[test]
fn a_killed_run_ends_with_the_same_bits() {
    let (folder, data) = (Folder::new(), Encoded::new());
    let (whole, file) = (folder.file("whole"), folder.file("killed"));
    let began = Instant::now();
    train(&options(&whole), &data).unwrap();
    let duration = began.elapsed();
    let whole = std::fs::read(whole).unwrap();

    let mut state = Sweep::Kills.seed();
    let mut random = |below: Duration| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        below.mul_f64((state >> 11) as f64 / (1_u64 << 53) as f64)
    };
    let (mut kills, mut steps, mut inside) = (0, 0, 0);
    while kills < Sweep::Kills.cases() {
        let (before, mut child) = (written(&file), start(&file));
        // One kill in four happens at a random moment, even before the first step of its process. The others happen
        // right after a save.
        if kills % 4 == 3 {
            std::thread::sleep(random(duration));
        } else {
            while written(&file) == before && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_micros(200));
            }
            std::thread::sleep(random(duration / 8));
        }
        child.kill().unwrap();
        let was_killed = killed(child);
        kills += u64::from(was_killed);
        let parts = folder.names().iter().filter(|name| name.ends_with(".part")).count();
        assert!(parts <= 1, "{:?}", folder.names());
        inside += parts;
        if !file.exists() {
            continue;
        }
        let step = load(&file, &options(&file), &data).unwrap().step.item::<i64>().unwrap();
        assert!(step >= steps, "step {steps} was saved, and now the checkpoint has step {step}");
        steps = step;
        if !was_killed {
            assert!(std::fs::read(&file).unwrap() == whole, "after {kills} kills");
            std::fs::remove_file(&file).unwrap();
            steps = 0;
        }
    }
    println!("{kills} kills, {inside} of them within a save; the last one after step {steps}");
    assert!(!killed(start(&file)));
    assert!(std::fs::read(&file).unwrap() == whole, "after {kills} kills");
    let mut names = folder.names();
    names.sort();
    assert_eq!(names, ["killed", "whole"]);
}

#[test]
fn the_example_draws_its_losses_and_refuses_to_overwrite_a_run() {
    let folder = Folder::new();
    let file = folder.file("run");
    let svg = Some(folder.file("loss.svg"));
    let new = Options { svg, resume: false, steps: 40, ..options(&file) };
    perform(&new).unwrap();
    let picture = std::fs::read_to_string(folder.file("loss.svg")).unwrap();
    assert!(picture.contains("40 steps") && picture.ends_with("</svg>\n"));
    let again = perform(&new).unwrap_err().to_string();
    assert!(again.contains("go on with `--resume`"), "{again}");
    // A run with another number of steps has another learning rate schedule, so it must not resume from this
    // checkpoint.
    let longer = Options { resume: true, steps: 50, ..new };
    let error = perform(&longer).unwrap_err().to_string();
    assert!(error.contains("`losses` is f32[40], expected f32[50]"), "{error}");
}
