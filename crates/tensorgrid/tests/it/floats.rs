//! An ONNX file as it is, as a model of the grid: the same bits as without a grid, run again by validators and by this program.

use std::path::Path;

use tg_float::{FloatTensor, npy};

use crate::run::{Grid, root, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_onnx_file_runs_on_a_grid_with_the_bits_it_has_without_one() {
    let folder = tempfile::tempdir().unwrap();
    // No run is short enough to be run whole by its committee, which executes drawn sections again.
    let drawn = ["--whole-run-macs", "0"];
    let grid = Grid::up_with(&folder.path().join("data"), 3, &drawn);
    let model = root().join("models/lenet-digits.onnx");
    let input = folder.path().join("x.npy");
    let pixels = (0..784u16).map(|k| f32::from(k % 13) / 13.0).collect();
    let x = FloatTensor::of(vec![1, 1, 28, 28], pixels).unwrap();
    std::fs::write(&input, npy::write_npy(&x).unwrap()).unwrap();
    let alone = run(&["run", text(&model), text(&input), "--json"]).ends(0);
    let expected = alone.json()["outputs"][0]["values"].clone();

    let add = [
        "model",
        "add",
        text(&model),
        "--tier",
        "tgf1",
        "--name",
        "float-lenet",
        "--json",
    ];
    let added = grid.run(&add).ends(0).json();
    assert_eq!(added["facts"]["tier"], "TGF-1");
    assert_eq!(added["facts"]["provable"], false);
    let listed = grid.run(&["model", "list"]).ends(0).stdout;
    assert!(
        listed.contains("TGF-1") && listed.contains("TGX-1"),
        "{listed}"
    );

    let infer = ["infer", "float-lenet", text(&input), "--yes"];
    let ran = grid.run(&[&infer[..], &["--json"]].concat()).ends(0).json();
    assert_eq!(ran["outputs"][0]["values"], expected);
    assert!(ran["run_again_ms"].as_f64().is_some(), "{ran}");
    assert!(ran["work"].as_u64().unwrap() <= added["facts"]["macs"].as_u64().unwrap());
    let job = ran["job"].as_str().unwrap();
    let fetched = grid.run(&["job", "fetch", job, "--json"]).ends(0).json();
    assert_eq!(fetched["outputs"], ran["outputs"]);
    // Nobody checks on a development network, if asked.
    let unchecked = [&infer[..], &["--verify", "none", "--trust"]].concat();
    let unchecked = grid.run(&unchecked).ends(0);
    assert!(
        unchecked.stdout.contains("output `"),
        "{}",
        unchecked.stdout
    );
    let refused = grid.run(&[&infer[..], &["--verify", "proof"]].concat());
    let refused = refused.ends(2).stderr;
    assert!(refused.contains("TGF-1"), "{refused}");
    // A committee executes drawn sections again, which is what is taken where nothing is said.
    let drawn = [&infer[..], &["--verify", "sync", "--json"]].concat();
    let drawn = grid.run(&drawn).ends(0).json();
    for sync in [&ran, &drawn] {
        assert_eq!(sync["outputs"][0]["values"], expected);
        assert!(sync["run_again_ms"].as_f64().is_some(), "{sync}");
        assert_eq!(sync["receipt"]["job"]["mode"], "sync");
        assert_eq!(sync["receipt"]["lease"]["run_whole"], false);
        assert!(sync["receipt"]["lease"]["check"]["right"].as_u64() >= Some(1));
    }
    // One validator runs it again; then it may be challenged for some seconds.
    let watched = [&infer[..], &["--verify", "optimistic", "--json"]].concat();
    let watched = grid.run(&watched).ends(0).json();
    assert_eq!(watched["outputs"][0]["values"], expected);
    assert!(watched["run_again_ms"].as_f64().is_some(), "{watched}");
    assert!(watched["receipt"]["lease"]["check"]["right"].as_u64() >= Some(1));
    assert_drawn_providers_agree(&grid, &infer, &expected);
    // Another shape is an answer too, and costs nothing but the least.
    let flat = folder.path().join("flat.npy");
    let x = FloatTensor::of(vec![784], vec![0f32; 784]).unwrap();
    std::fs::write(&flat, npy::write_npy(&x).unwrap()).unwrap();
    let bad = grid
        .run(&["infer", "float-lenet", text(&flat), "--yes"])
        .ends(3);
    assert!(bad.stderr.contains("the input is none"), "{}", bad.stderr);
    assert!(grid.interrupt().success());
}

/// Two providers that a seed draws run the model and find the same bits, which are those of a run without a grid.
fn assert_drawn_providers_agree(grid: &Grid, infer: &[&str], expected: &serde_json::Value) {
    let by_two = [infer, &["--verify", "replicate:2", "--json"]].concat();
    let by_two = grid.run(&by_two).ends(0).json();
    assert_eq!(by_two["outputs"][0]["values"], *expected);
    assert!(by_two["run_again_ms"].as_f64().is_some(), "{by_two}");
    let receipt = &by_two["receipt"];
    assert_eq!(receipt["job"]["mode"], "replicate");
    let members = receipt["members"].as_array().unwrap();
    assert_eq!(members.len(), 1);
    assert_ne!(members[0]["provider"], receipt["lease"]["provider"]);
    assert_ne!(members[0]["price"], "0");
    let job = by_two["job"].as_str().unwrap();
    let shown = grid.run(&["job", "receipt", job]).ends(0).stdout;
    assert!(
        shown.contains("2 drawn providers found the same"),
        "{shown}"
    );
}
