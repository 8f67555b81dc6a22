//! Help, exit codes, streams.

use std::fmt::Write;

use crate::run::{program, root, run};

/// Every command, in the order of the help.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["demo"],
    &["up"],
    &["infer"],
    &["provider"],
    &["provider", "list"],
    &["job"],
    &["job", "list"],
    &["job", "show"],
    &["job", "why"],
    &["job", "receipt"],
    &["job", "cancel"],
    &["balance"],
    &["status"],
    &["model"],
    &["model", "compile"],
    &["model", "explain"],
    &["model", "add"],
    &["model", "list"],
    &["model", "show"],
    &["run"],
    &["prove"],
    &["verify"],
    &["market"],
    &["market", "simulate"],
    &["device"],
    &["bench"],
    &["bench", "prove"],
];

/// The committed help of every command is the one the program prints. `cargo xtask bless` rewrites it.
#[test]
fn help_drift() {
    let mut text = String::from(
        "# The command line\n\nWritten by `cargo xtask bless` from the program's own help.\n",
    );
    for command in COMMANDS {
        let mut arguments = command.to_vec();
        arguments.push("--help");
        let help = run(&arguments).ends(0);
        assert!(help.stderr.is_empty(), "{}", help.stderr);
        let name = ["tensorgrid"].iter().chain(*command).copied();
        let name = name.collect::<Vec<_>>().join(" ");
        let body = help.stdout.lines().map(str::trim_end);
        let body = body.collect::<Vec<_>>().join("\n");
        write!(text, "\n## {name}\n\n```text\n{}\n```\n", body.trim_end()).unwrap();
    }
    let path = root().join("docs/CLI.md");
    if std::env::var_os("TENSORGRID_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/CLI.md differs from the help; `cargo xtask bless` rewrites it"
    );
}

/// Rates are positive and GPUs are either listed or said to be missing.
#[test]
fn the_device_is_described() {
    let found = run(&["device", "--json"]).ends(0).json();
    let level = found["level"].as_str().unwrap();
    let levels = found["levels"].as_array().unwrap();
    assert!(levels.iter().any(|name| name == "scalar"));
    assert_eq!(levels.last().unwrap(), level);
    let rates = found["rates"].as_array().unwrap();
    assert_eq!(rates[0]["threads"], 1);
    for rate in rates {
        assert!(rate["int8_gop_per_s"].as_f64().unwrap() > 0.0);
        assert!(rate["float32_gflop_per_s"].as_f64().unwrap() > 0.0);
    }
    let gpus = found["gpus"].as_array().unwrap();
    let missing = found["gpus_missing"].as_array().unwrap();
    let usable = gpus.iter().any(|gpu| gpu["usable"] == true);
    assert_eq!(usable, missing.is_empty(), "{found}");
    let text = run(&["device"]).ends(0).stdout;
    assert!(text.contains(level) && text.contains("GPU"), "{text}");
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    run(&["nothing"]).ends(2);
    run(&[]).ends(2);
    run(&["infer"]).ends(2);
    run(&["infer", "m", "i", "--max-price", "1e9"]).ends(2);
    run(&["provider", "--slots", "0"]).ends(2);
    run(&["balance", "0x12", "--api", "not an address"]).ends(2);
    let missing = run(&["verify", "/nonexistent", "--model", "/nonexistent"]).ends(2);
    assert!(missing.stdout.is_empty());
    assert!(missing.stderr.starts_with("error: "), "{}", missing.stderr);
}

#[test]
fn an_absent_grid_ends_with_5_and_a_hint() {
    let absent = ["--api", "http://127.0.0.1:9"];
    let lists: [&[&str]; 5] = [
        &["model", "list"],
        &["job", "list"],
        &["provider", "list"],
        &["balance"],
        &["status"],
    ];
    for command in lists {
        let ran = run(&[command, &absent].concat()).ends(5);
        assert!(ran.stdout.is_empty());
        assert!(
            ran.stderr.contains("hint: is the grid running?"),
            "{}",
            ran.stderr
        );
    }
    let ran = run(&[&["status", "--json"], &absent[..]].concat()).ends(5);
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["exit"], 5);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::process::Stdio;
    let mut child = program()
        .arg("--help")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
