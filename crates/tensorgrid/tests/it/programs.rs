//! Programs of WebAssembly: without a grid, and as jobs that validators and this program run again.

use std::path::{Path, PathBuf};

use crate::run::{Grid, root, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn example(name: &str) -> PathBuf {
    root()
        .join("examples/programs")
        .join(format!("{name}.wasm"))
}

/// A chunk for pi: seed and number of points.
fn points(folder: &Path, name: &str, seed: u64, points: u64) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, [seed, points].map(u64::to_le_bytes).concat()).unwrap();
    path
}

#[test]
fn a_module_is_checked_and_run_without_a_grid() {
    let folder = tempfile::tempdir().unwrap();
    let shard = folder.path().join("shard");
    std::fs::write(&shard, "one two two").unwrap();
    let words = example("words");
    let base = ["program", "run", text(&words), "--input", text(&shard)];
    let ran = run(&base).ends(0);
    assert!(
        ran.stdout
            .starts_with("one 1\ntwo 2\nfinished after 1 chunks;"),
        "{}",
        ran.stdout
    );
    let checked = run(&["program", "check", text(&words), "--json"])
        .ends(0)
        .json();
    assert_eq!(checked["merge"], true);
    // What nobody repeats has states that can be shown.
    let long = ["program", "check", text(&words), "--fuel", "300000000"];
    let checked = run(&[&long[..], &["--json"]].concat()).ends(0).json();
    assert_eq!(checked["pages_max"], 191);
    let refused = run(&[&long[..], &["--pages", "192"]].concat()).ends(3);
    assert!(refused.stderr.contains("pages"), "{}", refused.stderr);
    // Little fuel: an end with a bill.
    let ran = run(&[&base[..], &["--fuel", "1000", "--json"]].concat()).ends(3);
    assert!(ran.stderr.contains("out of fuel"), "{}", ran.stderr);
    assert_eq!(ran.json()["fuel"], 1_000);
    let refused = run(&["program", "check", text(&shard)]).ends(3);
    assert!(refused.stderr.contains("module"), "{}", refused.stderr);
}

/// The same by one command: two jobs with a chunk each, which two providers may take, and one that merges them.
fn in_parts_by_one_command(grid: &Grid, folder: &Path, merged: &[u8]) {
    let whole = folder.join("whole");
    let chunks = ["one", "two"].map(|name| folder.join(name));
    let inputs = ["--input", text(&chunks[0]), "--input", text(&chunks[1])];
    let submit = [
        "program",
        "submit",
        "pi",
        "--yes",
        "--json",
        "--parts",
        "2",
        "--output",
        text(&whole),
    ];
    let ran = grid.run(&[&submit[..], &inputs].concat()).ends(0).json();
    assert_eq!(std::fs::read(&whole).unwrap(), *merged);
    assert_eq!(ran["parts"].as_array().unwrap().len(), 2);
    let three = ["program", "submit", "pi", "--yes", "--parts", "3"];
    let refused = grid.run(&[&three[..], &inputs].concat()).ends(2);
    assert!(refused.stderr.contains("--chunks 3"), "{}", refused.stderr);
}

#[test]
fn a_program_runs_on_a_grid_in_parts_that_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 2);
    let pi = example("pi");
    let add = ["program", "add", text(&pi), "--fuel", "20000000", "--json"];
    assert_eq!(grid.run(&add).ends(0).json()["facts"]["tier"], "WASM-1");
    let mut parts = Vec::new();
    for (seed, name) in [(1, "one"), (2, "two")] {
        let chunk = points(folder.path(), name, seed, 50_000);
        let out = folder.path().join(format!("{name}.out"));
        let submit = [
            "program",
            "submit",
            "pi",
            "--yes",
            "--json",
            "--input",
            text(&chunk),
        ];
        let ran = grid
            .run(&[&submit[..], &["--output", text(&out)]].concat())
            .ends(0)
            .json();
        assert_eq!(
            (&ran["run_again"], &ran["answer"]["finished"]),
            (&true.into(), &true.into())
        );
        parts.push(out);
    }
    let merged = folder.path().join("merged");
    let merge = [
        "program",
        "submit",
        "pi",
        "--yes",
        "--merge",
        "--output",
        text(&merged),
    ];
    let inputs = ["--input", text(&parts[0]), "--input", text(&parts[1])];
    let ran = grid.run(&[&merge[..], &inputs].concat()).ends(0);
    assert!(ran.stdout.contains("run here again"), "{}", ran.stdout);
    let merged = std::fs::read(merged).unwrap();
    assert_eq!(merged[8..], 100_000_u64.to_le_bytes());
    in_parts_by_one_command(&grid, folder.path(), &merged);
    // More points than it has fuel for: paid, and said so.
    let endless = points(folder.path(), "endless", 3, u64::MAX);
    let ran = grid
        .run(&[
            "program",
            "submit",
            "pi",
            "--yes",
            "--trust",
            "--input",
            text(&endless),
        ])
        .ends(3);
    assert!(ran.stderr.contains("out of fuel"), "{}", ran.stderr);
    assert!(ran.stdout.contains("to the provider"), "{}", ran.stdout);
    // A model is no program.
    let chunk = folder.path().join("one");
    grid.run(&[
        "program",
        "submit",
        "mlp-digits",
        "--yes",
        "--input",
        text(&chunk),
    ])
    .ends(2);
    assert!(grid.interrupt().success());
}

#[test]
fn a_watched_program_is_billed_and_cannot_be_challenged_once_it_is_paid() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    let pi = example("pi");
    let add = ["program", "add", text(&pi), "--fuel", "20000000", "--json"];
    grid.run(&add).ends(0);
    // One validator runs it again, and nobody doubts what it found.
    let chunk = points(folder.path(), "watched", 4, 50_000);
    let submit = ["program", "submit", "pi", "--yes", "--input", text(&chunk)];
    let watched = [&submit[..], &["--verify", "optimistic", "--json"]].concat();
    let ran = grid.run(&watched).ends(0).json();
    assert_eq!(ran["run_again"], true);
    let receipt = &ran["receipt"];
    assert_eq!(receipt["job"]["mode"], "optimistic");
    // More than one only where the first were too slow.
    assert!(receipt["lease"]["check"]["right"].as_u64() >= Some(1));
    let price = |ran: &serde_json::Value| {
        let text = ran["receipt"]["settlement"]["price"].as_str();
        text.unwrap().parse::<tg_types::Amount>().unwrap()
    };
    let whole = grid.run(&[&submit[..], &["--verify", "none", "--json"]].concat());
    assert!(
        price(&ran) < price(&whole.ends(0).json()),
        "billed by what it took"
    );
    let done = ran["job"].as_str().unwrap();
    let late = grid.run(&["job", "challenge", done]).ends(2);
    assert!(late.stderr.contains("not accepted yet"), "{}", late.stderr);
    let refused = grid.run(&[&submit[..], &["--verify", "proof"]].concat());
    let refused = refused.ends(2);
    assert!(refused.stderr.contains("optimistic"), "{}", refused.stderr);
    // More than validators repeat: watched, as no other way is possible.
    let add = ["program", "add", text(&pi), "--name", "long"];
    grid.run(&[&add[..], &["--fuel", "300000000"]].concat())
        .ends(0);
    let submit = ["program", "submit", "long", "--yes", "--json"];
    let ran = grid.run(&[&submit[..], &["--input", text(&chunk)]].concat());
    assert_eq!(ran.ends(0).json()["receipt"]["job"]["mode"], "optimistic");
    assert!(grid.interrupt().success());
}

/// What is taken by itself where an offer has the stake: drawn sections of a run of many chunks, and all of a run of one.
#[test]
fn a_committee_checks_a_program_in_parts_or_whole() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    let pi = example("pi");
    let add = ["program", "add", text(&pi), "--fuel", "20000000", "--json"];
    grid.run(&add).ends(0);
    let chunks = (0..12).map(|seed| points(folder.path(), &format!("c{seed}"), seed, 1_000));
    let chunks: Vec<PathBuf> = chunks.collect();
    let submit = ["program", "submit", "pi", "--yes", "--json"];
    let inputs = |chunks: &'_ [PathBuf]| {
        let each = chunks
            .iter()
            .flat_map(|it| ["--input".to_owned(), text(it).to_owned()]);
        each.collect::<Vec<_>>()
    };
    for (chunks, verify) in [
        (&chunks[..], &["--verify", "sync"][..]),
        (&chunks[..1], &[]),
    ] {
        let inputs = inputs(chunks);
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let ran = grid.run(&[&submit[..], &inputs, verify].concat());
        let ran = ran.ends(0).json();
        assert_eq!(ran["run_again"], true);
        assert_eq!(ran["answer"]["finished"], true);
        let receipt = &ran["receipt"];
        assert_eq!(receipt["job"]["mode"], "sync");
        assert!(receipt["lease"]["check"]["right"].as_u64() >= Some(1));
    }
    // Of another way it is said what it takes in its place.
    let modes = grid.run(&["model", "modes", "pi", "--json"]).ends(0).json();
    let modes = modes[0]["modes"].as_array().unwrap();
    let sync = modes.iter().find(|it| it["mode"] == "sync").unwrap();
    assert!(sync["refused"].is_null(), "{sync}");
    assert!(grid.interrupt().success());
}

/// A run is fetched later, too, by whoever was interrupted while it waited.
fn fetched_later(grid: &Grid, ran: &serde_json::Value, submit: &[&str]) {
    let job = ran["job"].as_str().unwrap();
    let fetched = grid.run(&["job", "fetch", job, "--json"]).ends(0).json();
    assert_eq!(fetched["answer"], ran["answer"]);
    assert_eq!(fetched["run_again"], true);
    // No machine has so much, so it waits.
    let waits = ["--gpus", "8", "--max-price", "1", "--deadline-s", "600"];
    let waits = [submit, &waits].concat();
    let (code, said) = grid.interrupted_at(&waits, "job 0x");
    assert_eq!(code, Some(130), "{said}");
    for says in [
        "nobody waits any more for job 0x",
        "tensorgrid job fetch 0x",
        "tensorgrid job cancel 0x",
    ] {
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn drawn_providers_run_a_program_and_a_model_and_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 3);
    let pi = example("pi");
    let add = ["program", "add", text(&pi), "--fuel", "20000000", "--json"];
    grid.run(&add).ends(0);
    let chunk = points(folder.path(), "compared", 4, 50_000);
    let submit = ["program", "submit", "pi", "--yes", "--input", text(&chunk)];
    let compared = |mode: &str| {
        let ran = grid.run(&[&submit[..], &["--verify", mode, "--json"]].concat());
        ran.ends(0).json()
    };
    let ran = compared("replicate:2");
    assert_eq!(ran["run_again"], true);
    let receipt = &ran["receipt"];
    assert_eq!(receipt["job"]["mode"], "replicate");
    let members = receipt["members"].as_array().unwrap();
    assert_eq!(members.len(), 1);
    assert_ne!(members[0]["provider"], receipt["lease"]["provider"]);
    assert_ne!(members[0]["price"], "0");
    // As many as are usual, or as --gang says; not two numbers at once.
    let usual = compared("replicate");
    assert_eq!(usual["receipt"]["members"].as_array().unwrap().len(), 2);
    let both = ["--verify", "replicate:2", "--gang", "3"];
    let both = grid.run(&[&submit[..], &both].concat()).ends(2);
    assert!(both.stderr.contains("contradict"), "{}", both.stderr);
    for wrong in ["replicate:1", "replicate:33", "replicate:", "sync:3"] {
        grid.run(&[&submit[..], &["--verify", wrong]].concat())
            .ends(2);
    }
    // Four cannot be drawn of three, which is said at once and costs nothing.
    let started = std::time::Instant::now();
    let four = [&submit[..], &["--verify", "replicate:4", "--dry-run"]].concat();
    let four = grid.run(&four).ends(0);
    assert!(four.stdout.contains("3 of 4 members"), "{}", four.stdout);
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
    let four = grid.run(&[&submit[..], &["--verify", "replicate:4"]].concat());
    let four = four.ends(3).stderr;
    assert!(four.contains("3 have an offer that fits"), "{four}");
    assert!(four.contains("replicate:3"), "{four}");

    let digit = folder.path().join("digit.json");
    std::fs::write(
        &digit,
        serde_json::json!({ "input_data": [vec![0.5; 64]] }).to_string(),
    )
    .unwrap();
    let infer = ["infer", "mlp-digits", text(&digit), "--yes", "--json"];
    let by = |mode: &str| {
        grid.run(&[&infer[..], &["--verify", mode]].concat())
            .ends(0)
            .json()
    };
    assert_eq!(by("replicate")["values"], by("recompute")["values"]);
    let job = ran["job"].as_str().unwrap();
    let shown = grid.run(&["job", "receipt", job]).ends(0);
    let said = "2 drawn providers found the same";
    assert!(shown.stdout.contains(said), "{}", shown.stdout);
    fetched_later(&grid, &ran, &submit);
    assert!(grid.interrupt().success());
}
