//! The repository keeps its structure: crate edges, no leftovers, short files, crate docs, live links.

#[test]
fn the_repository_is_tidy() {
    let findings = xtask::tidy::check(&xtask::root()).expect("the repository can be read");
    let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "\n{}\n", list.join("\n"));
}

#[test]
fn the_gate_runs_the_test_command_of_the_readme() {
    let readme = std::fs::read_to_string(xtask::root().join("README.md")).expect("README.md");
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(
            readme.contains(command),
            "README.md does not show `{command}`"
        );
    }
    let tests = xtask::gate::STEPS.last().expect("steps").arguments;
    assert_eq!(tests[..2], ["test", "--workspace"]);
}
