//! A grid that stays: jobs from other processes, a power cut, a provider that joins and leaves.

use std::path::Path;
use std::process::Command;

use crate::run::{Grid, Provider, Ran, root, until};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn infer(grid: &Grid, more: &[&str]) -> Ran {
    let digit = root().join("examples/digit.json");
    let base = ["infer", "mlp-digits", text(&digit), "--yes", "--json"];
    grid.run(&[&base, more].concat())
}

fn offers(grid: &Grid) -> usize {
    let list = grid.run(&["provider", "list", "--json"]).ends(0);
    list.json().as_array().unwrap().len()
}

/// The sum of all parts of money, and what was minted, in base units.
fn money(grid: &Grid) -> (u128, u128) {
    let status = grid.run(&["status", "--json"]).ends(0).json();
    let totals = &status["totals"];
    let units = |name: &str| {
        let amount: tg_types::Amount = totals[name].as_str().unwrap().parse().unwrap();
        amount.get()
    };
    let parts = ["balances", "escrow", "stake", "collateral", "burned"];
    (parts.iter().map(|name| units(name)).sum(), units("minted"))
}

/// A proof made on the grid is accepted offline, and refused with one bit changed.
fn check_offline(grid: &Grid, folder: &Path, proof: &Path) {
    let public = folder.join("mlp.tgv");
    grid.run(&["model", "show", "mlp-digits", "--public-out", text(&public)])
        .ends(0);
    let verify = ["verify", text(proof), "--model", text(&public)];
    grid.run(&verify).ends(0);
    let flipped = grid.run(&[&verify[..], &["--flip-byte", "5000"]].concat());
    assert!(flipped.ends(3).stderr.contains("REJECTED"));
}

#[test]
fn a_grid_serves_other_processes_and_survives_a_power_cut() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let grid = Grid::up(&data, 1);

    let proof = folder.path().join("proof.bin");
    let ran = infer(&grid, &["--proof-out", text(&proof)]).ends(0).json();
    assert_eq!(ran["greatest"], 7);
    assert_eq!(ran["proof"]["verified"], true);
    let job = ran["job"].as_str().unwrap().to_owned();
    check_offline(&grid, folder.path(), &proof);
    let unverified = infer(&grid, &["--verify", "none"]).ends(0).json();
    assert_eq!(unverified["proof"], serde_json::Value::Null);
    assert_eq!(unverified["values"], ran["values"]);

    let receipt = grid
        .run(&["job", "receipt", &job[..14], "--json"])
        .ends(0)
        .json();
    let balances = grid.run(&["balance", "--json"]).ends(0).json();
    let (sum, minted) = money(&grid);
    assert_eq!(sum, minted);
    grid.kill();

    let grid = Grid::up(&data, 0);
    let again = grid.run(&["job", "receipt", &job, "--json"]).ends(0).json();
    assert_eq!(again, receipt);
    let after = grid.run(&["balance", "--json"]).ends(0).json();
    assert_eq!(after, balances);
    assert!(grid.interrupt().success());
}

#[test]
fn a_provider_joins_from_another_process_and_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 0);
    let refused = infer(&grid, &[]).ends(3);
    assert!(
        refused.stderr.contains("no provider offers"),
        "{}",
        refused.stderr
    );
    let cheap = infer(&grid, &["--max-price", "0.0000000001"]).ends(3);
    assert!(cheap.stderr.contains("TG-LED-025"), "{}", cheap.stderr);
    let waiting = infer(&grid, &["--max-price", "0.05", "--deadline-s", "3"]);
    let waiting = waiting.ends(3);
    assert!(
        waiting.stderr.contains("before any provider"),
        "{}",
        waiting.stderr
    );

    let key = folder.path().join("keys/provider");
    let provider = Provider::start(&grid, &key, "0.01");
    until("the offer stands", || offers(&grid) == 1);
    let ran = infer(&grid, &[]).ends(0).json();
    assert_eq!(ran["receipt"]["settlement"]["price"], "0.01");

    let python = Command::new("python3")
        .arg(root().join("examples/infer.py"))
        .env("TENSORGRID_API", &grid.url)
        .output();
    // A machine without Python has nothing to show here.
    if let Ok(output) = python {
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{failed}");
        assert!(told.contains("answer     7"), "{told}");
    }

    let (status, told) = provider.interrupt();
    assert!(status.success(), "{told}");
    assert!(told.contains("withdrawn"), "{told}");
    until("the offer is gone", || offers(&grid) == 0);
    assert!(grid.interrupt().success());
}

#[test]
fn wrong_orders_are_refused_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    let before = grid.run(&["balance", "--json"]).ends(0).json();
    let digit = root().join("examples/digit.json");
    grid.run(&["infer", "no-such-model", text(&digit), "--yes"])
        .ends(4);
    grid.run(&["infer", "lenet-digits", text(&digit), "--yes"])
        .ends(2);
    let cheap = infer(&grid, &["--max-price", "0.0000000001"]).ends(3);
    assert!(cheap.stderr.contains("too low"), "{}", cheap.stderr);
    let pauper = infer(&grid, &["--account", "nobody"]).ends(3);
    assert!(pauper.stderr.contains("TG-LED-005"), "{}", pauper.stderr);
    assert!(pauper.stderr.contains("hint"), "{}", pauper.stderr);
    grid.run(&["job", "show", &format!("0x{}", "0".repeat(64))])
        .ends(4);
    grid.run(&["job", "why", "0xabcd"]).ends(4);
    let undecided = grid.run(&["infer", "mlp-digits", text(&digit)]).ends(2);
    assert!(
        undecided.stderr.contains("cheapest that fits"),
        "{}",
        undecided.stderr
    );
    assert!(undecided.stderr.contains("--yes"), "{}", undecided.stderr);
    assert_eq!(grid.run(&["balance", "--json"]).ends(0).json(), before);
}
