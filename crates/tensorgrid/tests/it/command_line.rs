//! Help, exit codes, streams.

use std::fmt::Write;

use crate::run::{Ran, program, root, run};
use tg_types::codec::Encode;

/// A page of the documentation.
struct HelpPage {
    file: &'static str,
    /// What it says first.
    first: &'static str,
    /// Its commands, with all that are below them and on no other page.
    commands: &'static [&'static str],
}

const PAGES: [HelpPage; 5] = [
    HelpPage {
        file: "CLI.md",
        first: "# The command line\n\nWritten by `cargo xtask bless` from the program's own help. Commands for models and programs: \
                [CLI_MODELS.md](CLI_MODELS.md); that order work: [CLI_ORDERS.md](CLI_ORDERS.md); that run nodes: [CLI_NODES.md](CLI_NODES.md); that need no grid: \
                [CLI_OFFLINE.md](CLI_OFFLINE.md).\n",
        commands: &[
            "",
            "demo",
            "job",
            "rent",
            "balance",
            "wallet",
            "faucet",
            "transfer",
            "checkpoint",
            "status",
            "doctor",
        ],
    },
    HelpPage {
        file: "CLI_MODELS.md",
        first: "# Commands for models and programs\n\nWritten by `cargo xtask bless` from the program's own help. The others: \
                [CLI.md](CLI.md).\n",
        commands: &["model", "program"],
    },
    HelpPage {
        file: "CLI_ORDERS.md",
        first: "# Commands that order work\n\nWritten by `cargo xtask bless` from the program's own help. The others: \
                [CLI.md](CLI.md).\n",
        commands: &["infer", "write", "program submit", "endpoint", "job submit"],
    },
    HelpPage {
        file: "CLI_NODES.md",
        first: "# Commands that run nodes\n\nWritten by `cargo xtask bless` from the program's own help. The others: \
                [CLI.md](CLI.md).\n",
        commands: &[
            "up",
            "network",
            "validator",
            "gateway",
            "seat",
            "provider",
            "api-key",
        ],
    },
    HelpPage {
        file: "CLI_OFFLINE.md",
        first: "# Commands that need no grid\n\nWritten by `cargo xtask bless` from the program's own help. The others: \
                [CLI.md](CLI.md).\n",
        commands: &[
            "model compile",
            "model explain",
            "program check",
            "program run",
            "run",
            "generate",
            "prove",
            "verify",
            "market",
            "sim",
            "device",
            "bench",
            "job validate",
            "job schema",
            "completions",
            "man",
        ],
    },
];

/// The page of a command: the one that names it, or else the command above it.
fn page_of(command: &[String]) -> usize {
    // All commands are below the program: that it is on a page puts no other one there.
    let least = usize::from(!command.is_empty());
    let named = (least..=command.len()).rev().find_map(|count| {
        let name = command[..count].join(" ");
        let is_named = |page: &HelpPage| page.commands.contains(&name.as_str());
        PAGES.iter().position(is_named)
    });
    named.unwrap_or_else(|| panic!("`{}` is on no page: name it in PAGES", command.join(" ")))
}

/// The commands that a help lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    names.map(str::to_owned).collect()
}

/// Writes the help of a command and of all below it to their pages.
fn write_help(command: &[String], pages: &mut [String]) {
    let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
    arguments.push("--help");
    let help = run(&arguments).ends(0);
    assert!(help.stderr.is_empty(), "{}", help.stderr);
    arguments.pop();
    arguments.insert(0, "tensorgrid");
    let name = arguments.join(" ");
    let body = help.stdout.lines().map(str::trim_end);
    let body = body.collect::<Vec<_>>().join("\n");
    let page = &mut pages[page_of(command)];
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", body.trim_end()).unwrap();
    for inner in listed(&help.stdout) {
        write_help(&[command, &[inner]].concat(), pages);
    }
}

/// The committed help of every command is the one the program prints. `cargo xtask bless` rewrites it.
#[test]
fn help_drift() {
    let mut texts = PAGES.each_ref().map(|page| page.first.to_owned());
    write_help(&[], &mut texts);
    for (page, text) in PAGES.iter().zip(texts) {
        let file = page.file;
        for command in page.commands {
            let heading = format!("\n## tensorgrid {command}").trim_end().to_owned() + "\n";
            assert!(text.contains(&heading), "there is no command `{command}`");
        }
        let path = root().join("docs").join(file);
        if std::env::var_os("TENSORGRID_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "docs/{file} differs from the help; `cargo xtask bless` rewrites it"
        );
    }
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

/// Whether a GPU can be used, and whether there is a driver.
fn cuda() -> (bool, bool) {
    let found = run(&["device", "--json"]).ends(0).json();
    let usable = found["gpus_missing"].as_array().unwrap().is_empty();
    (usable, !found["cuda_driver"].is_null())
}

/// What is missing, and what to do: the same words wherever a GPU is asked for.
#[test]
fn a_gpu_that_is_not_there_ends_with_4_and_says_what_is_missing() {
    let (_, has_driver) = cuda();
    let (_folder, private, _) = writer();
    let input = "/nonexistent.json";
    let commands: [&[&str]; 2] = [
        &["device", "--check", "--device", "cuda:99"],
        // Before the grid is called and the key is made.
        &[
            "provider",
            "--device",
            "cuda:99",
            "--key",
            "/nonexistent/key",
            "--api",
            "http://127.0.0.1:9",
        ],
    ];
    for command in commands {
        let ran = run(command).ends(4);
        assert!(ran.stdout.is_empty());
        let words = if has_driver {
            "there is no device cuda:99"
        } else {
            "no CUDA driver: libcuda.so.1 is not found"
        };
        let error = &ran.stderr;
        assert!(error.contains(words) && error.contains("hint: "), "{error}");
    }
    // A model that is not read is not executed anywhere.
    run(&["run", &private, input, "--device", "cuda:99"]).ends(2);
}

/// Without a GPU there is no report that could be taken for one.
#[test]
fn a_check_without_a_gpu_is_no_check() {
    let (usable, has_driver) = cuda();
    let ran = run(&["device", "--check"]).ends(if usable { 0 } else { 4 });
    if usable {
        assert!(ran.stdout.contains("result     equal: "), "{}", ran.stdout);
    } else {
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
        let driver = ran.stderr.contains("libcuda.so.1 is not found");
        assert_eq!(driver, !has_driver, "{}", ran.stderr);
    }
    run(&["device", "--check", "--device", "cpu"]).ends(2);
    run(&["device", "--check", "--device", "cuda"]).ends(2);
    run(&["device", "--device", "cuda:0"]).ends(2);
}

#[test]
fn auto_executes_on_the_cpu_where_no_gpu_can_be_used_and_says_so() {
    let (usable, has_driver) = cuda();
    let absent = [
        "provider",
        "--device",
        "auto",
        "--api",
        "http://127.0.0.1:9",
    ];
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let ran = run(&[&absent[..], &["--key", key.to_str().unwrap()]].concat()).ends(5);
    let first = ran.stderr.lines().next().unwrap();
    assert!(first.starts_with("executing on "), "{}", ran.stderr);
    assert_eq!(
        first.starts_with("executing on the CPU: "),
        !usable,
        "{first}"
    );
    assert_eq!(
        first.contains("libcuda.so.1 is not found"),
        !has_driver,
        "{first}"
    );
}

/// The device changes where a model is executed and nothing of what it gives.
#[test]
fn run_on_a_device_gives_the_same_trace() {
    let (folder, private, _) = writer();
    let input = folder.path().join("tokens.json");
    std::fs::write(&input, r#"{"input_data": [[7, 1, 30, 4, 0, 0, 0, 31]]}"#).unwrap();
    let command = ["run", &private, input.to_str().unwrap(), "--json"];
    let by_default = run(&command).ends(0);
    assert!(by_default.stderr.is_empty(), "{}", by_default.stderr);
    let by_default = by_default.json();
    assert_eq!(by_default["device"], "the CPU");
    for device in ["cpu", "auto"] {
        let ran = run(&[&command[..], &["--device", device]].concat())
            .ends(0)
            .json();
        assert_eq!(ran["trace"], by_default["trace"]);
        assert_eq!(ran["values"], by_default["values"]);
    }
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

/// A model that writes, its public part, and the folder they are in.
fn writer() -> (tempfile::TempDir, String, String) {
    let (mut model, _) = tg_compile::suite::tiny_transformer(5);
    tg_ir::generation::rank(&mut model.program, 4).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (private, public) = (path("gpt.tgm"), path("gpt.tgv"));
    std::fs::write(&private, model.to_bytes()).unwrap();
    let proving = tg_prover::ProvingModel::new(model).unwrap();
    std::fs::write(&public, proving.register().unwrap().encode()).unwrap();
    (folder, private, public)
}

#[test]
fn a_model_writes_and_proves_it() {
    let (folder, private, public) = writer();
    let file = folder.path().join("story.bin");
    let file = file.to_str().unwrap();
    let seed = "07".repeat(32);
    let common = ["generate", &private, "--prompt", "7,1,30", "--seed", &seed];
    let with = |more: &[&str]| run(&[&common[..], more].concat());
    let written = with(&["-n", "3", "-o", file, "--json"]).ends(0).json();
    assert_eq!(written["tokens"].as_array().unwrap().len(), 3);
    assert_eq!(written["seed"], seed);
    let temperature = written["sampling"]["temperature"].as_f64().unwrap();
    assert!((temperature - 1.0).abs() < 1e-3, "{temperature}");
    let again = with(&["-n", "3", "--json"]).ends(0).json();
    assert_eq!(again["tokens"], written["tokens"]);
    let verify = ["verify", file, "--model", &public];
    let verdict = run(&[&verify[..], &["--json"]].concat()).ends(0).json();
    let sequence = &verdict["sequence"];
    assert_eq!(sequence["prompt"], serde_json::json!([7, 1, 30]));
    assert_eq!(sequence["tokens"], written["tokens"]);
    let text = run(&verify).ends(0).stdout;
    assert!(text.contains("wrote 3 tokens after these 3"), "{text}");
    assert!(
        text.contains("drawn at temperature 1.000 (top-k "),
        "{text}"
    );
    let forged = run(&[&verify[..], &["--flip-byte", "300"]].concat()).ends(3);
    assert!(forged.stdout.is_empty());
    let greatest = with(&["--temperature", "0", "--top-k", "2", "--json"]);
    let greatest = greatest.ends(0).json();
    assert_eq!(
        greatest["tokens"].as_array().unwrap().len(),
        5,
        "to the window's end"
    );
    for wrong in [
        &["--temperature", "-1"][..],
        &["--temperature", "1e300"],
        &["--top-k", "9"],
        &["--top-p", "1.5"],
        &["--seed", "00"],
        &["-n", "0"],
    ] {
        with(wrong).ends(2);
    }
    // Nothing is proved for nowhere.
    let nowhere = with(&["-o", "/nonexistent/story.bin"]).ends(2);
    assert!(!nowhere.stderr.contains("committing"), "{}", nowhere.stderr);
    run(&["generate", &private, "--prompt", "99"]).ends(2);
    run(&["generate", &private, "--text", "abc"]).ends(2);
    run(&["generate", &private]).ends(2);
}

/// What is most often given in the place of a compiled model is named.
#[test]
fn an_onnx_file_is_no_compiled_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    // The version of the format, and the name of what wrote it.
    std::fs::write(&path, b"\x08\x08\x12\x07pytorch").unwrap();
    let path = path.to_str().unwrap();
    let refused = run(&["run", path, "x.json"]).ends(2).stderr;
    assert!(refused.contains("is an ONNX file"), "{refused}");
    assert!(refused.contains("model compile"), "{refused}");
}

/// A model of tokens is proved as any other.
#[test]
fn tokens_are_an_input_of_a_proof() {
    let (folder, private, public) = writer();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (input, file) = (path("tokens.json"), path("proof.bin"));
    std::fs::write(&input, r#"{"input_data": [[7, 1, 30, 4, 0, 0, 0, 31]]}"#).unwrap();
    run(&["prove", &private, &input, "-o", &file]).ends(0);
    run(&["verify", &file, "--model", &public]).ends(0);
    std::fs::write(&input, r#"{"input_data": [[7, 1, 30, 4, 0, 0, 0, 32]]}"#).unwrap();
    let nowhere = run(&["prove", &private, &input, "-o", "/nonexistent/proof.bin"]).ends(2);
    assert!(!nowhere.stderr.contains("committing"), "{}", nowhere.stderr);
    let refused = run(&["prove", &private, &input, "-o", &file]).ends(2);
    assert!(refused.stderr.contains("32"), "{}", refused.stderr);
}

/// Every way of checking is measured, by evidence that a validator accepts.
#[test]
fn ways_of_checking_are_compared() {
    let measured = run(&[
        "bench",
        "modes",
        "--quick",
        "--runs",
        "1",
        "--members",
        "4",
        "--json",
    ]);
    let rows = measured.ends(0).json();
    let rows = rows.as_array().unwrap().iter();
    let (disputes, rows): (Vec<_>, Vec<_>) = rows.partition(|it| !it["dispute"].is_null());
    assert_eq!((disputes.len(), rows.len()), (2, 6 + 6 + 5));
    for dispute in disputes {
        assert!(
            dispute["chain_bytes"].as_u64() < Some(64 << 10),
            "{dispute}"
        );
        assert!(dispute["answer_bytes"].as_u64() > Some(0), "{dispute}");
    }
    for row in rows {
        let (mode, number) = (row["mode"].as_str().unwrap(), |key: &str| {
            row[key].as_f64().unwrap()
        });
        let checks = mode != "none";
        assert!(number("provider_cpu_ms") > 0.0, "{row}");
        assert_eq!(number("validators") > 0.0, checks, "{row}");
        // Of a short run of mode sync nothing is handed in but the receipt.
        let is_program = row["model"].as_str().unwrap().contains("WebAssembly");
        let is_shown = checks && (mode != "sync" || is_program);
        assert_eq!(number("evidence_bytes") > 0.0, is_shown, "{row}");
        assert_eq!(number("providers") == 4.0, mode == "replicate", "{row}");
        assert!(number("total_times_one_run") > 0.0, "{row}");
    }
}

/// Without short runs every result of mode sync is by drawn parts, which are shown.
#[test]
fn ways_of_checking_are_compared_by_drawn_parts() {
    let bench = ["bench", "modes", "--quick", "--runs", "1", "--json"];
    let drawn = [&bench[..], &["--whole-run-macs", "0"]].concat();
    let rows = run(&drawn).ends(0).json();
    let rows = rows.as_array().unwrap().iter();
    let sync: Vec<_> = rows.filter(|it| it["mode"] == "sync").collect();
    assert_eq!(sync.len(), 3);
    for row in sync {
        assert!(row["evidence_bytes"].as_u64() > Some(0), "{row}");
        assert!(row["validator_cpu_ms"].as_f64() > Some(0.0), "{row}");
    }
}

/// A small ledger in the place of the large one: the same code, a snapshot that a second process takes, and figures for all of it.
#[test]
fn accounts_and_a_join_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program();
    command.current_dir(folder.path()).args(["--json", "bench"]);
    command.args(["accounts", "--accounts", "2000"]);
    command.args(["--transactions", "250", "--runs", "1"]);
    let measured = Ran::of(&command.output().unwrap()).ends(0).json();
    let number = |path: &str| measured.pointer(path).and_then(serde_json::Value::as_f64);
    for ledger in ["small", "large"] {
        for cost in ["propose_ms", "apply_ms", "apply_known_ms"] {
            assert!(
                number(&format!("/{ledger}/{cost}")) > Some(0.0),
                "{measured}"
            );
        }
    }
    assert_eq!(number("/large_accounts"), Some(2_000.0));
    // An account has more bytes than its address and balance.
    assert!(number("/join/snapshot_bytes") > Some(2_000.0 * 36.0));
    assert!(number("/join/newcomer/height") >= Some(32.0), "{measured}");
    assert!(number("/join/newcomer/wall_ms") > number("/join/newcomer/open_wall_ms"));
    // What it wrote is gone.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The figures say that they are simulated, and from where the round trips are.
#[test]
fn regions_are_simulated() {
    let few = ["--seats-per-region", "1", "--blocks", "4"];
    let measured = run(&[["bench", "regions"].as_slice(), &few, &["--json"]].concat());
    let measured = measured.ends(0).json();
    assert_eq!(measured["simulated"], true);
    assert_eq!(measured["validators"], 10);
    assert!(measured["source"].as_str().unwrap().contains("cloudping"));
    let p50 = measured["at_all_seats"]["p50_ms"].as_f64().unwrap();
    assert!((150.0..600.0).contains(&p50), "{measured}");
    let shown = run(&[["bench", "regions"].as_slice(), &few].concat()).ends(0);
    assert!(shown.stdout.contains("simulated"), "{}", shown.stdout);
    assert!(shown.stdout.contains("cloudping"), "{}", shown.stdout);
}
