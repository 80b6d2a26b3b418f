use packhorse_testkit::{Content, fill, read};

use super::Sealed;

#[test]
fn a_file_size_limit_is_named_and_a_run_without_it_finishes() {
    let content: Content =
        (0..60).map(|i| (format!("a/{i:03}").into_bytes(), vec![i as u8; 20_000])).collect();
    let sealed = Sealed::new(&content);
    let limited = sealed.shell("ulimit -f 256; $packhorse pack src out");
    limited.says(2, &[], &["out/derived/partial", "File too large", "262144 bytes", "--shard-size"]);
    assert!(!sealed.at("out/dataset.phm").exists());
    assert!(!sealed.at("out/shard").exists(), "nothing has a final name");
    sealed.shell("ulimit -f 256; $packhorse pack src out --shard-size 64KiB").says(
        0,
        &["packed 60 samples"],
        &[],
    );
    sealed.run(&["verify", "out"]).says(0, &[], &[]);
    for container in ["hdf5", "lmdb", "tfrecord"] {
        let line = format!("$packhorse pack src {container} --container {container}");
        let limited = sealed.shell(&format!("ulimit -f 256; {line}"));
        limited.says(2, &[], &[&format!("{container}/derived/partial"), "ile too large", "--shard-size"]);
        assert!(!sealed.at(container).exists(), "nothing has a final name");
        sealed.shell(&line).says(0, &["packed 60 samples"], &[]);
        sealed.run(&["verify", container]).says(0, &[], &[]);
    }
}

#[test]
fn few_descriptors_are_enough_for_many_segments() {
    let sealed = Sealed::new(&fill(2000, 40));
    sealed.shell("ulimit -n 96; $packhorse pack src out --shard-size 4KiB -q").says(0, &[], &[]);
    sealed.shell("ulimit -n 32; $packhorse verify out").says(0, &[], &[]);
    sealed.shell("ulimit -n 32; $packhorse ls out | wc -l").says(0, &["2000"], &[]);
    sealed.shell("ulimit -n 32; $packhorse unpack out back").says(0, &[], &[]);
    assert_eq!(read(&sealed.at("back"), &[]).len(), 2000);
}

/// Runs a line with `small` a file system of so many bytes and inodes; none where this is not allowed.
fn on_small_disk(sealed: &Sealed, size: &str, inodes: u32, line: &str) -> Option<super::Ran> {
    let mount =
        format!("mkdir -p small; mount -t tmpfs -o size={size},nr_inodes={inodes} none small || exit 99");
    let ran = sealed.shell(&format!("unshare -rm bash -c '{mount}; {line}' || exit $?"));
    (!matches!(ran.code, Some(99) | Some(1 | 127)) || !ran.err.contains("unshare")).then_some(ran)
}

#[test]
fn a_full_disk_and_used_up_inodes_are_told_apart() {
    let content: Content =
        (0..100).map(|i| (format!("a/{i:03}").into_bytes(), vec![i as u8; 10_000])).collect();
    let sealed = Sealed::new(&content);
    let cases = [
        ("256k", 0, "$packhorse pack src small/out", "bytes are needed"),
        ("64m", 8, "$packhorse pack src small/out --shard-size 16KiB", "inodes are needed"),
    ];
    for (size, inodes, line, expected) in cases {
        let Some(ran) =
            on_small_disk(&sealed, size, inodes, &format!("{line}; rc=$?; ls small/out 2>&1; exit $rc"))
        else {
            return;
        };
        ran.says(2, &[], &[expected, "are free", "hint: "]);
        assert!(!ran.out.contains("dataset.phm"), "{ran:#?}");
    }
    sealed.run(&["pack", "src", "p", "-q"]).says(0, &[], &[]);
    if let Some(ran) = on_small_disk(&sealed, "64m", 20, "$packhorse unpack p small/back; exit $?") {
        ran.says(2, &[], &["100 inodes are needed"]);
    }
}

#[test]
fn a_disk_that_fills_up_meanwhile_is_an_error_and_the_rest_is_resumed() {
    // Noise, so that the compressed pack needs as much room as the source, which no check can know beforehand.
    let mut state = 1u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    let content: Content = (0..100)
        .map(|i| (format!("a/{i:03}").into_bytes(), (0..10_000).map(|_| noise()).collect()))
        .collect();
    let sealed = Sealed::new(&content);
    let line = "$packhorse pack src small/out --compress zstd:1 --shard-size 64KiB; first=$?; ls small/out/dataset.phm; \
                mount -o remount,size=64m small; $packhorse pack src small/out --compress zstd:1 --shard-size 64KiB && \
                $packhorse verify small/out && echo first $first";
    if let Some(ran) = on_small_disk(&sealed, "512k", 0, line) {
        ran.says(
            0,
            &["first 2", "packed 100 samples", "resumed: ", "every byte"],
            &["No space left", "bytes are free"],
        );
    }
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let sealed = Sealed::new(&fill(5, 40));
    let line = "mkdir ro; mount -t tmpfs -o ro none ro || exit 99; $packhorse pack src ro/out";
    let ran = sealed.shell(&format!("unshare -rm bash -c '{line}'"));
    if ran.code != Some(99) && !ran.err.contains("unshare") {
        ran.says(2, &[], &["cannot create ro/out: Read-only file system"]);
    }
}
