//! Sealed jobs by the command line: ordered, granted, served and opened again later by the key that ordered them, and by no other.

use tg_float::{FloatTensor, npy};

use crate::run::{Grid, root, run};

#[test]
fn a_sealed_job_is_served_and_opened_by_the_key_that_ordered_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    let input = folder.path().join("x.npy");
    let pixels = (0..784u16).map(|k| f32::from(k % 13) / 13.0).collect();
    let x = FloatTensor::of(vec![1, 1, 28, 28], pixels).unwrap();
    std::fs::write(&input, npy::write_npy(&x).unwrap()).unwrap();
    let infer = ["infer", "lenet-digits", input.to_str().unwrap(), "--yes"];

    let open = [&infer[..], &["--verify", "none", "--json"]].concat();
    let expected = grid.run(&open).ends(0).json()["values"].clone();
    let genesis = folder.path().join("data/genesis.bin");
    let genesis = ["--genesis", genesis.to_str().unwrap()];
    let told = grid.run(&[&infer[..], &["--seal"], &genesis].concat());
    let told = told.ends(0);
    assert!(
        told.stderr.contains("reads the input and the answer"),
        "{}",
        told.stderr
    );
    assert!(
        told.stderr.contains("the key is granted"),
        "{}",
        told.stderr
    );
    let sealed = [&infer[..], &["--seal", "--reveal", "--json"]].concat();
    let sealed = grid.run(&sealed).ends(0).json();
    assert_eq!(sealed["values"], expected);
    assert_eq!(sealed["sealed"], true);
    let receipt = &sealed["receipt"];
    assert_eq!(receipt["job"]["mode"], "sealed");
    // What follows from the run would let others try out inputs.
    let zeros = format!("0x{}", "0".repeat(64));
    assert_eq!(receipt["receipt"]["trace"], zeros.as_str());

    // Later, by the key that ordered it; another account's opens nothing.
    let job = sealed["job"].as_str().unwrap();
    let fetched = grid.run(&["job", "fetch", job, "--json"]).ends(0).json();
    assert_eq!(fetched["values"], expected);
    let bob = grid.run(&["job", "fetch", job, "--account", "bob"]);
    assert_ne!(bob.code, 0);
    assert!(bob.stderr.contains("--key"), "{}", bob.stderr);
    let shown = grid.run(&["job", "reveal", job, "--yes"]).ends(2).stderr;
    assert!(shown.contains("its key is shown only while"), "{shown}");

    // Left alone, it waits for whoever goes on.
    let detached = [&infer[..], &["--seal", "--detach", "--json"]].concat();
    let detached = grid.run(&detached).ends(0).json();
    let job = detached["job"].as_str().unwrap();
    grid.run(&["job", "grant", job]).ends(0);
    let fetched = grid.run(&["job", "fetch", job, "--json"]).ends(0).json();
    assert_eq!(fetched["values"], expected);
}

#[test]
fn what_others_would_have_to_read_is_not_sealed() {
    for (verify, reader) in [
        ("none", "validators would hold"),
        ("sync", "a drawn committee"),
        ("proof", "every validator"),
        ("recompute", "every validator"),
        ("optimistic", "a drawn validator"),
        ("replicate:3", "several providers"),
    ] {
        let input = root().join("examples/inputs/seven.png");
        let arguments = [
            "infer",
            "lenet-digits",
            input.to_str().unwrap(),
            "--seal",
            "--verify",
            verify,
        ];
        let refused = run(&arguments).ends(2).stderr;
        assert!(refused.contains(reader), "{verify}: {refused}");
    }
}
