//! A dispute that ends at one tile, between the command line and a provider of a grid.

use std::time::{Duration, Instant};

use tg_float::{FloatTensor, npy};

use crate::http::call;
use crate::run::{Grid, root};

#[test]
fn who_challenges_a_right_result_runs_it_loses_the_fee_and_the_provider_is_paid() {
    let folder = tempfile::tempdir().unwrap();
    // The model counts as too long for all validators to repeat.
    let more = ["--repeat-macs", "1000"];
    let grid = Grid::up_with(&folder.path().join("data"), 1, &more);
    let digit = root().join("examples/digit.json");
    let infer = ["infer", "mlp-digits", digit.to_str().unwrap(), "--yes"];
    let refused = grid.run(&[&infer[..], &["--verify", "recompute"]].concat());
    assert!(refused.stderr.contains("too large"), "{}", refused.stderr);

    a_challenge_of_a_right_result_fails(&grid, &infer);
    // Of floats the accuser says what each node gives.
    let model = root().join("models/lenet-digits.onnx");
    let named = ["--tier", "tgf1", "--name", "float-lenet"];
    let add = ["model", "add", model.to_str().unwrap()];
    grid.run(&[&add[..], &named].concat()).ends(0);
    let pixels = (0..784u16).map(|k| f32::from(k % 13) / 13.0).collect();
    let x = FloatTensor::of(vec![1, 1, 28, 28], pixels).unwrap();
    let input = folder.path().join("x.npy");
    std::fs::write(&input, npy::write_npy(&x).unwrap()).unwrap();
    let infer = ["infer", "float-lenet", input.to_str().unwrap(), "--yes"];
    a_challenge_of_a_right_result_fails(&grid, &infer);
    assert!(grid.interrupt().success());
}

/// Orders a run, challenges its result, and follows the dispute to its end.
fn a_challenge_of_a_right_result_fails(grid: &Grid, infer: &[&str]) {
    let more = ["--verify", "optimistic", "--detach", "--json"];
    let ordered = grid.run(&[infer, &more].concat()).ends(0);
    let job = ordered.json()["job"].as_str().unwrap().to_owned();
    let shown = || grid.run(&["job", "show", &job, "--json"]).ends(0).json();
    let began = Instant::now();
    let watched = |shown: &serde_json::Value| {
        let check = &shown["leases"][0]["check"];
        shown["state"] == "verifying" && check["members"].as_u64() >= Some(1)
    };
    while !watched(&shown()) {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", shown());
        std::thread::sleep(Duration::from_millis(100));
    }
    let challenged = grid.run(&["job", "challenge", &job]).ends(0);
    // A step that is over within a look may not be told: of the provider's turn one of two is.
    for step in ["running the model here", "the provider"] {
        assert!(challenged.stderr.contains(step), "{}", challenged.stderr);
    }
    let stands = "what you claimed is wrong, and the result stands";
    assert!(challenged.stdout.contains(stands), "{}", challenged.stdout);
    let fetched = grid.run(&["job", "fetch", &job, "--json"]).ends(0).json();
    assert_eq!(fetched["receipt"]["job"]["state"], "paid", "{fetched}");
    remembered(grid, &job, &fetched["receipt"]["lease"]["provider"]);
}

/// The node remembers who accused, who handed in which file, and the files can be had.
fn remembered(grid: &Grid, job: &str, provider: &serde_json::Value) {
    let told = call(grid, ("GET", &format!("/v1/jobs/{job}/events")), &[], "").json();
    let of = |kind: &str| -> Vec<serde_json::Value> {
        let events = told["items"].as_array().unwrap().iter();
        events.filter(|it| it["kind"] == kind).cloned().collect()
    };
    let accused = of("result_disputed");
    let argued = of("result_argued");
    assert_eq!((accused.len(), argued.len()), (1, 2), "{told}");
    assert_eq!(argued[0]["account"], accused[0]["account"]);
    assert_eq!(&argued[1]["account"], provider);
    for step in &argued {
        let file = step["file"].as_str().unwrap();
        let found = call(grid, ("HEAD", &format!("/v1/blobs/{file}")), &[], "");
        assert_eq!(found.status, 200, "{step}");
    }
}
