//! A proof whose process is killed goes on where it was.

use crate::run::{program, run};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tg_compile::suite::Architecture;
use tg_types::codec::Encode;

/// Head of a file of steps: magic, version, what proof it is of.
const HEAD: usize = 38;
/// Before the bytes of a step: its length as four bytes, and its digest.
const BEFORE_STEP: usize = 4 + 32;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The file's bytes up to where its last whole step ends: a process is killed in the midst of a write.
fn whole_steps(file: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(file).unwrap_or_default();
    let mut end = HEAD;
    while let Some(length) = bytes.get(end..end + 4) {
        let length = u32::from_le_bytes(length.try_into().unwrap());
        let next = end + BEFORE_STEP + length as usize;
        if next > bytes.len() {
            break;
        }
        end = next;
    }
    bytes.truncate(end);
    bytes
}

/// Starts a command and kills it as soon as a file has a step; false if it was faster.
fn killed_after_a_step(arguments: &[&str], file: &Path) -> bool {
    let mut child = program()
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let has_a_step = || whole_steps(file).len() > HEAD;
    while !has_a_step() && child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    has_a_step()
}

#[test]
fn a_killed_proof_goes_on_and_has_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let [model, input, whole, proof, kept] =
        ["gpt.tgm", "in.json", "whole.bin", "proof.bin", "kept"].map(path);
    let (compiled, tokens) = Architecture::Gpt250k.model(1);
    std::fs::write(&model, compiled.to_bytes()).unwrap();
    let document = serde_json::json!({ "input_data": [tokens.widened()] });
    std::fs::write(&input, document.to_string()).unwrap();
    let prove = |to: &Path| {
        ["prove", text(&model), text(&input), "-o", text(to)]
            .map(str::to_owned)
            .to_vec()
    };
    let of = |list: &[String]| run(&list.iter().map(String::as_str).collect::<Vec<_>>());
    of(&prove(&whole)).ends(0);
    assert!(
        !path("whole.bin.partial").exists(),
        "it took no ten seconds"
    );

    let mut again = prove(&proof);
    again.extend(["--partial", text(&kept)].map(str::to_owned));
    let arguments: Vec<&str> = again.iter().map(String::as_str).collect();
    // The process may be done before anybody sees its first step.
    assert!((0..5).any(|_| killed_after_a_step(&arguments, &kept)));
    assert!(
        !proof.exists(),
        "nothing is written before the proof is whole"
    );
    let steps = whole_steps(&kept);

    // A torn end is cut off; the rest is gone on from, and gone when the proof is there.
    std::fs::write(&kept, [steps.as_slice(), &[7; 50]].concat()).unwrap();
    let ran = of(&again).ends(0);
    let said = ran
        .stderr
        .lines()
        .find(|line| line.contains("going on from"));
    let said = said.unwrap_or_else(|| panic!("{}", ran.stderr)).to_owned();
    assert_eq!(
        std::fs::read(&proof).unwrap(),
        std::fs::read(&whole).unwrap()
    );
    assert!(!kept.exists());

    // Steps of another input, or damaged ones, are not taken; neither with --restart.
    let mut damaged = steps.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut other = steps.clone();
    other[10] ^= 1;
    for (bytes, more) in [
        (&damaged, None),
        (&other, None),
        (&steps, Some("--restart")),
    ] {
        std::fs::write(&kept, bytes).unwrap();
        let mut flags = again.clone();
        flags.extend(more.map(str::to_owned));
        let ran = of(&flags).ends(0);
        assert!(!ran.stderr.contains(&said), "{}", ran.stderr);
        let some = ran.stderr.contains("going on from");
        assert!(!some || bytes == &damaged, "{}", ran.stderr);
        assert_eq!(
            std::fs::read(&proof).unwrap(),
            std::fs::read(&whole).unwrap()
        );
    }

    // A file of something else is left alone.
    let mut taken = prove(&proof);
    taken.extend(["--restart", "--partial", text(&model)].map(str::to_owned));
    of(&taken).ends(2);
    assert_eq!(std::fs::read(&model).unwrap(), compiled.to_bytes());

    // A place that cannot be written to costs a sentence, not the proof.
    let mut nowhere = prove(&proof);
    let missing = path("missing/kept");
    nowhere.extend(["--partial", text(&missing)].map(str::to_owned));
    let ran = of(&nowhere).ends(0);
    assert!(ran.stderr.contains("cannot be written"), "{}", ran.stderr);
}
