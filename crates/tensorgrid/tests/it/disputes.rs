//! Disputes that end at a part of a run, between the command line and a provider of a grid.

use tg_float::{FloatTensor, npy};

use crate::http::call;
use crate::run::{Grid, root, until};

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

    a_challenge_of_a_right_result_fails(&grid, &inferred(&grid, &infer));
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
    a_challenge_of_a_right_result_fails(&grid, &inferred(&grid, &infer));
    // Of programs what each call gives.
    let words = root().join("examples/programs/words.wasm");
    let add = ["program", "add", words.to_str().unwrap()];
    grid.run(&[&add[..], &["--fuel", "20000000"]].concat())
        .ends(0);
    let text = root().join("docs/PROGRAMS.md");
    let given = ["--input", text.to_str().unwrap(), "--chunks", "8"];
    let submit = [
        "program",
        "submit",
        "words",
        "--yes",
        "--trust",
        "--verify",
        "optimistic",
    ];
    // Whoever ordered goes away.
    grid.run_until(&[&submit[..], &given].concat(), "verifying");
    let listed = grid.run(&["job", "list", "--json"]).ends(0).json();
    let job = listed[0]["id"].as_str().unwrap();
    a_challenge_of_a_right_result_fails(&grid, job);
    assert!(grid.interrupt().success());
}

/// Orders a run of a model, and goes away.
fn inferred(grid: &Grid, infer: &[&str]) -> String {
    let more = ["--verify", "optimistic", "--detach", "--json"];
    let ordered = grid.run(&[infer, &more].concat()).ends(0);
    ordered.json()["job"].as_str().unwrap().to_owned()
}

/// Challenges the result of a job, and follows the dispute to its end.
fn a_challenge_of_a_right_result_fails(grid: &Grid, job: &str) {
    let shown = || grid.run(&["job", "show", job, "--json"]).ends(0).json();
    let watched = |shown: &serde_json::Value| {
        let check = &shown["leases"][0]["check"];
        shown["state"] == "verifying" && check["members"].as_u64() >= Some(1)
    };
    until("a watcher", || watched(&shown()));
    let challenged = grid.run(&["job", "challenge", job]).ends(0);
    // A step that is over within a look may not be told: of the provider's turn one of two is.
    for step in ["running the model here", "the provider"] {
        assert!(challenged.stderr.contains(step), "{}", challenged.stderr);
    }
    let stands = "what you claimed is wrong, and the result stands";
    assert!(challenged.stdout.contains(stands), "{}", challenged.stdout);
    until("the payment", || shown()["state"] == "paid");
    remembered(grid, job, &shown()["leases"][0]["provider"]);
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
