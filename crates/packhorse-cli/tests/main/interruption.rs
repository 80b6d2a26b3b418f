use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use packhorse_testkit::{fill, read};

use super::Sealed;

/// Rounds of kills; `PACKHORSE_KILLS=50` for the long run.
fn rounds() -> u32 {
    std::env::var("PACKHORSE_KILLS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12)
}

#[test]
fn killed_at_any_moment_the_next_run_ends_with_the_same_bytes() {
    killed("shard", rounds());
}

#[test]
fn killed_at_any_moment_the_next_run_into_another_container_ends_with_the_same_bytes() {
    for container in ["hdf5", "lmdb", "tar", "tfrecord"] {
        killed(container, rounds().div_ceil(4));
    }
}

fn killed(container: &str, rounds: u32) {
    let sealed = Sealed::new(&fill(3000, 5 << 20));
    let pack = |out: &str| {
        let mut command: Command = sealed.command(env!("CARGO_BIN_EXE_packhorse"));
        let options = ["--quiet", "--shard-size", "16KiB", "--container", container];
        command.args(["pack", "src", out]).args(options).stderr(Stdio::null());
        command
    };
    let began = Instant::now();
    assert!(pack("clean").status().unwrap().success());
    let whole = began.elapsed();
    let clean = read(&sealed.at("clean"), &["derived"]);
    let mut unfinished = 0;
    for round in 0..rounds {
        let mut child = pack("killed").spawn().unwrap();
        std::thread::sleep(whole.mul_f64(f64::from(round + 1) / f64::from(rounds + 1)));
        child.kill().unwrap();
        child.wait().unwrap();
        if !sealed.at("killed/dataset.phm").exists() {
            unfinished += 1;
            sealed.run(&["verify", "killed"]).says(2, &[], &["is not a pack"]);
        }
        assert!(pack("killed").status().unwrap().success(), "round {round}");
        assert!(read(&sealed.at("killed"), &["derived"]) == clean, "round {round}");
        sealed.run(&["verify", "killed"]).says(0, &[], &[]);
        fs::remove_dir_all(sealed.at("killed")).unwrap();
    }
    assert!(unfinished > 0, "no round was killed in time");
}

#[test]
fn an_interrupted_run_says_how_it_goes_on() {
    let sealed = Sealed::new(&fill(20, 40));

    let line = "$packhorse pack src out --shard-size 4KiB & pid=$!; kill -INT $pid; wait $pid; echo $?";
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let ran = sealed.shell(&format!("trap '' TERM; {line}"));
        if ran.out.ends_with("130\n") && ran.err.contains("interrupted; the same command goes on from here") {
            break;
        }
        assert!(Instant::now() < deadline, "{ran:#?}");
        let _ = fs::remove_dir_all(sealed.at("out"));
    }
    sealed.run(&["pack", "src", "out", "--shard-size", "4KiB"]).says(0, &["packed 20 samples"], &[]);
}
