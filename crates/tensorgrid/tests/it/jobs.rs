//! Job files, from the examples to orders on a grid; what jobs cost; and the commands around accounts and shells.

use std::path::Path;

use crate::http::call;
use crate::run::{Grid, Ran, program, root, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Writes a job file.
fn file(folder: &Path, name: &str, body: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, body).unwrap();
    text(&path).to_owned()
}

/// The committed schema is the one that the program prints. `cargo xtask bless` rewrites it.
#[test]
fn job_schema_drift() {
    let printed = run(&["job", "schema"]).ends(0).stdout;
    let path = root().join("docs/job.schema.json");
    if std::env::var_os("TENSORGRID_BLESS").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == printed,
        "docs/job.schema.json differs; `cargo xtask bless` rewrites it"
    );
}

/// Names of the fields of a schema's block.
fn names(block: &serde_json::Value) -> Vec<&String> {
    block["properties"].as_object().unwrap().keys().collect()
}

#[test]
fn the_page_names_every_field_of_the_schema() {
    let schema = run(&["job", "schema"]).ends(0).json();
    let page = std::fs::read_to_string(root().join("docs/JOBS.md")).unwrap();
    let resources = &schema["properties"]["resources"];
    for name in names(&schema).into_iter().chain(names(resources)) {
        let is_internal = name.starts_with('_');
        assert!(is_internal || page.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_examples_are_fine_and_say_what_they_ask_for() {
    let folder = root().join("examples/jobs");
    let files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| text(&entry.unwrap().path()).to_owned())
        .collect();
    assert!(files.len() >= 6, "{files:?}");
    let mut command = vec!["job", "validate"];
    command.extend(files.iter().map(String::as_str));
    let ran = run(&command).ends(0);
    for words in [
        "runs the model mlp-digits on examples/digit.json",
        "2 GPUs, t4; 4 cores or more; 16 GiB of memory or more; spot: others may push the job out",
        "the cheapest that is offered is ordered",
        "at most 0.05 TGRID to the provider",
        "proof: a proof, which every validator and you check",
        "runs the WebAssembly program words on README.md",
        "has a provider serve the model gpt-bytes",
        "command  tensorgrid write --max-price=0.5",
        "4 such machines together; in region 1 or 2",
        "sealed: only the provider and you read input and answer",
        "command  tensorgrid infer --max-price=0.05 --seal --reveal mlp-digits",
    ] {
        assert!(ran.stdout.contains(words), "{words}\n{}", ran.stdout);
    }
    command.push("--json");
    let listed = run(&command).ends(0).json();
    let listed = listed.as_array().unwrap();
    assert!(listed.iter().all(|it| it["valid"] == true), "{listed:?}");
}

#[test]
fn a_file_is_refused_with_line_and_column_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(
        folder.path(),
        "sky.yaml",
        "name: train\nresources:\n  accelerators: A100:8\n  cloud: aws\nsetup: pip install torch\nrun: python train.py\n",
    );
    let ran = run(&["job", "validate", &path]).ends(2);
    for words in [
        "sky.yaml:4:3: `resources.cloud` is refused",
        "sky.yaml:5:1: `setup` is refused",
        "sky.yaml:6:1: `run` is refused: it needs containers",
        "name it under `program`",
        "hint: ",
    ] {
        assert!(ran.stderr.contains(words), "{words}\n{}", ran.stderr);
    }
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    // Nothing is asked of a grid for a file that is refused.
    run(&["job", "submit", &path, "--api", "http://127.0.0.1:9"]).ends(2);
    let listed = run(&["job", "validate", &path, "--json"]).ends(2).json();
    assert_eq!(listed[0]["problems"][0]["line"], 4);
    // What a command does not take is said where the file has it.
    let path = file(
        folder.path(),
        "more.yaml",
        "model: m\nendpoint: {money: 1}\noffer:\n  max_price: 1\nverify: proof\n",
    );
    let ran = run(&["job", "validate", &path]).ends(2);
    assert!(ran.stderr.contains(":4:3: `max_price`"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("`money` of `endpoint`"),
        "{}",
        ran.stderr
    );
    let path = file(
        folder.path(),
        "mig.yaml",
        "model: m\ninput: x\noffer: {mig: 1g.10gb, gpu_memory: 5}\n",
    );
    let ran = run(&["job", "validate", &path]).ends(2);
    assert!(ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
    run(&["job", "validate", "/nonexistent.yaml"]).ends(2);
    let path = file(folder.path(), "long.yaml", &" ".repeat((1 << 20) + 1));
    run(&["job", "validate", &path]).ends(2);
}

fn submit(grid: &Grid, file: &str, more: &[&str]) -> Ran {
    grid.run(&[&["job", "submit", file], more].concat())
}

/// The cheapest of alternatives is ordered, and said.
fn orders_the_cheapest(grid: &Grid, folder: &Path) {
    let digit = root().join("examples/digit.json");
    let body = format!(
        "model: mlp-digits\ninput: {}\nresources:\n  any_of:\n    - accelerators: H100\n    - use_spot: false\noffer: {{max_price: 1}}\nverify: recompute\n",
        text(&digit)
    );
    let path = file(folder, "any.yaml", &body);
    let ran = submit(grid, &path, &["--yes", "--json"]).ends(0);
    assert_eq!(ran.json()["greatest"], 7);
    assert!(ran.stderr.contains("not offered now"), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("alternative 2 is ordered, the cheapest that is offered"),
        "{}",
        ran.stderr
    );
    let none = body.replace("    - use_spot: false\n", "    - accelerators: T4:4\n");
    let path = file(folder, "none.yaml", &none);
    let ran = submit(grid, &path, &["--yes"]).ends(3);
    assert!(ran.stderr.contains("nothing was ordered"), "{}", ran.stderr);
}

/// Base units of an amount.
fn units(value: &serde_json::Value) -> u128 {
    let text = value.as_str().unwrap_or("0");
    text.parse::<tg_types::Amount>().unwrap().get()
}

/// What was spent is what the receipts say, in a table, as JSON and as CSV.
fn costs_add_up(grid: &Grid, settled: &[&serde_json::Value]) {
    let parts = [
        "price",
        "members",
        "verification_fee",
        "burned",
        "bonus",
        "compensation",
    ];
    let receipts = settled.iter().map(|receipt| &receipt["settlement"]);
    let spent: u128 = receipts
        .map(|it| parts.iter().map(|part| units(&it[*part])).sum::<u128>())
        .sum();
    let cost = grid.run(&["job", "cost", "--json"]).ends(0).json();
    assert_eq!(cost["jobs"], settled.len());
    assert_eq!(units(&cost["spent"]), spent, "{cost}");
    assert_eq!(cost["locked"], "0");
    let table = grid.run(&["job", "cost", "--days", "2"]).ends(0).stdout;
    assert!(
        table.contains("mlp-digits") && table.contains("pi"),
        "{table}"
    );
    let csv = grid.run(&["job", "cost", "--csv"]).ends(0).stdout;
    assert!(
        csv.starts_with("day,model,model_id,jobs,spent_tgrid,locked_tgrid\n"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 3, "{csv}");
    beside_clouds(grid);
    told_of_clouds(grid);
    by_project(grid);
}

/// A node tells the rows that come with the program; one that is to tell those of a file that cannot be read does not start.
fn told_of_clouds(grid: &Grid) {
    let told = call(grid, ("GET", "/v1/clouds"), &[], "").json();
    let printed = run(&["market", "cloud-prices"]).ends(0).stdout;
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), printed.matches("[[price]]").count());
    for row in rows {
        for field in ["cloud", "product", "read_on", "source"] {
            let text = row[field].as_str().unwrap();
            assert!(printed.contains(&format!("\"{text}\"")), "{row}");
        }
        assert!(row["usd_per_hour"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["gpu"].is_string(), row["vcpus"] == 0, "{row}");
    }
    let folder = tempfile::tempdir().unwrap();
    let wrong = file(folder.path(), "prices.toml", "[[price]]\n");
    let data = folder.path().join("data");
    let up = ["up", "--cloud-prices", &wrong, "--data-dir", text(&data)];
    let refused = run(&up).ends(2);
    assert!(
        refused.stderr.contains("prices.toml: "),
        "{}",
        refused.stderr
    );
    assert!(!data.exists());
}

/// Jobs that were ordered for a project are summed up by themselves; labels that cannot be read are told before anything is ordered.
fn by_project(grid: &Grid) {
    let folder = tempfile::tempdir().unwrap();
    let here = |words: &[&str]| {
        let mut command = program();
        command.env("TENSORGRID_API", &grid.url).args(words);
        Ran::of(&command.current_dir(folder.path()).output().unwrap())
    };
    let jobs = || here(&["job", "cost", "--json"]).ends(0).json()["jobs"].clone();
    let before = jobs();
    let digit = root().join("examples/digit.json");
    let digit = digit.canonicalize().unwrap();
    let order = ["infer", "mlp-digits", text(&digit), "--yes", "--json"];
    let with = |project| here(&[&order[..], &["--project", project]].concat());
    with("a b").ends(2);
    let receipt = with("vision").ends(0).json()["receipt"].clone();
    let all = here(&["job", "cost", "--project", "--json"]).ends(0).json();
    let rows = all["rows"].as_array().unwrap();
    let of = |project: serde_json::Value| rows.iter().filter(move |it| it["project"] == project);
    assert_eq!(of("vision".into()).count(), 1, "{all}");
    assert!(of(serde_json::Value::Null).count() > 0, "{all}");
    let own = here(&["job", "cost", "--project=vision", "--json"]);
    let own = own.ends(0).json();
    assert_eq!(own["jobs"], 1, "{own}");
    assert_eq!(own["rows"][0]["model_id"], receipt["job"]["model"]);
    let csv = here(&["job", "cost", "--project=vision", "--csv"]).ends(0);
    assert!(csv.stdout.ends_with(",vision\n"), "{}", csv.stdout);
    let table = here(&["job", "cost", "--project"]).ends(0).stdout;
    assert!(table.contains("vision"), "{table}");

    let kept = folder.path().join("tensorgrid-projects/requestor");
    std::fs::write(&kept, "vision\n").unwrap();
    let damaged = with("vision").ends(2).stderr;
    assert!(damaged.contains("JOB-ID PROJECT"), "{damaged}");
    here(&["job", "cost", "--project"]).ends(2);
    let after = jobs().as_u64();
    assert_eq!(after, before.as_u64().map(|it| it + 1));
}

/// Costs and quotes beside what clouds would take, by a file that comes with the program and is not written over.
fn beside_clouds(grid: &Grid) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud-prices.toml");
    let prices = text(&path);
    run(&["market", "cloud-prices", prices]).ends(0);
    let again = run(&["market", "cloud-prices", prices]).ends(2);
    assert!(
        again.stderr.contains("is there already"),
        "{}",
        again.stderr
    );
    let printed = run(&["market", "cloud-prices"]).ends(0).stdout;
    assert_eq!(printed, std::fs::read_to_string(&path).unwrap());
    let clouds = ["--cloud-prices", prices];
    let with = |words: &[&str]| grid.run(&[words, &clouds[..]].concat());
    let cost = with(&["job", "cost", "--json"]).ends(0).json();
    let rows = cost["rows"].as_array().unwrap();
    assert!(
        rows.iter().all(|it| it["cloud_usd"].as_f64() > Some(0.0)),
        "{cost}"
    );
    assert!(cost["cloud_ages_days"][1].as_u64() > Some(0), "{cost}");
    let table = with(&["job", "cost"]).ends(0).stdout;
    assert!(
        table.contains("in a cloud") && table.contains("days ago"),
        "{table}"
    );
    let csv = with(&["job", "cost", "--csv"]).ends(0).stdout;
    assert!(
        csv.starts_with(
            "day,model,model_id,jobs,spent_tgrid,locked_tgrid,cloud_usd,cloud_unknown_jobs\n"
        ),
        "{csv}"
    );
    let modes = with(&["model", "modes", "mlp-digits", "--json"])
        .ends(0)
        .json();
    let first = &modes[0]["clouds"]["rows"][0];
    assert!(
        first["usd"].as_f64() < first["usd_per_hour"].as_f64(),
        "{modes}"
    );
    assert!(
        first["read_on"].is_string() && first["age_days"].is_u64(),
        "{modes}"
    );
    let open = [
        "endpoint",
        "open",
        "mlp-digits",
        "--money",
        "3",
        "--dry-run",
    ];
    let endpoint = with(&open).ends(0).stderr;
    assert!(endpoint.contains("for 60 min elsewhere"), "{endpoint}");
    let digit = root().join("examples/digit.json");
    let quoted = with(&["infer", "mlp-digits", text(&digit), "--yes", "--dry-run"]).ends(0);
    let told = &quoted.stderr;
    assert!(
        told.contains("elsewhere") && told.contains("days ago"),
        "{told}"
    );
    std::fs::write(&path, "[[price]]\ncloud = \"C\"\n").unwrap();
    let refused = with(&["model", "modes"]).ends(2);
    assert!(
        refused.stderr.contains("missing field `product`"),
        "{}",
        refused.stderr
    );
}

#[test]
fn job_files_order_models_and_programs() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    let digit = root().join("examples/digit.json");
    let body = "envs: {FILE: }\nmodel: mlp-digits\ninput: $FILE\noffer: {max_price: 0.05, deadline: 5m}\nverify: proof\n";
    let path = file(folder.path(), "digit.yaml", body);
    submit(&grid, &path, &["--yes"]).ends(2);
    let given = format!("FILE={}", text(&digit));
    let dry = submit(&grid, &path, &["--env", &given, "--dry-run"]).ends(0);
    assert!(dry.stdout.contains("nothing was ordered"), "{}", dry.stdout);
    let dry = submit(&grid, &path, &["--env", &given, "--dry-run", "--json"]);
    let dry = dry.ends(0).json();
    let (charge, kept) = (dry["charge"].clone(), units(&dry["job"]["retention_fee"]));
    let model = submit(&grid, &path, &["--env", &given, "--yes", "--json"]).ends(0);
    assert!(
        model.stderr.contains("the order of: tensorgrid infer"),
        "{}",
        model.stderr
    );
    let model = model.json();
    assert_eq!(
        (&model["greatest"], &model["proof"]["verified"]),
        (&7.into(), &true.into())
    );

    // An input that nobody holds yet has its price as any other.
    let settled = &model["receipt"]["settlement"];
    let parts = ["price", "verification_fee", "burned"];
    let sum: u128 = parts.iter().map(|part| units(&settled[*part])).sum();
    // What it costs that the answer is kept is no part of the settlement.
    assert_eq!(units(&charge), sum + kept, "{charge} {settled}");
    assert!(kept > 0);

    let pi = root().join("examples/programs/pi.wasm");
    grid.run(&["program", "add", text(&pi), "--fuel", "20000000"])
        .ends(0);
    let points = folder.path().join("points");
    std::fs::write(&points, [1_u64, 50_000].map(u64::to_le_bytes).concat()).unwrap();
    let out = folder.path().join("out");
    let body = format!(
        "program: pi\ninput: {}\noutput: {}\noffer: {{max_price: 1}}\n",
        text(&points),
        text(&out)
    );
    let path = file(folder.path(), "pi.yaml", &body);
    let dry = submit(&grid, &path, &["--dry-run", "--json"])
        .ends(0)
        .json();
    assert!(dry["charge"].is_string(), "{dry}");
    let program = submit(&grid, &path, &["--yes", "--json"]).ends(0).json();
    assert_eq!(
        (&program["run_again"], &program["answer"]["finished"]),
        (&true.into(), &true.into())
    );
    assert_eq!(std::fs::read(&out).unwrap()[8..], 50_000_u64.to_le_bytes());
    costs_add_up(&grid, &[&model["receipt"], &program["receipt"]]);
    orders_the_cheapest(&grid, folder.path());

    let body = "envs: {WHO: ROMEO}\nmodel: gpt-bytes\nwrite: {text: '${WHO}:', tokens: 3}\noffer: {attempts: 2}\nverify: none\n";
    let path = file(folder.path(), "write.yaml", body);
    let written = submit(&grid, &path, &["--yes", "--json"]).ends(0).json();
    assert_eq!(written["tokens"].as_array().unwrap().len(), 3);
    assert_eq!(written["prompt"].as_array().unwrap().len(), 6);
    assert_eq!(written["receipt"]["job"]["max_attempts"], 2);
    let body = "model: mlp-digits\nendpoint: {money: 1, hours: 0.1}\n";
    let path = file(folder.path(), "endpoint.yaml", body);
    let open = submit(&grid, &path, &["--yes", "--json"]).ends(0).json();
    assert_eq!(open["state"], "running");
    assert!(grid.interrupt().success());
}

#[test]
fn accounts_are_made_filled_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    let path = |name: &str| folder.path().join(name);
    let (key, copy) = (path("my.key"), path("copy.key"));
    let secret = file(folder.path(), "secret", "correct horse\n");
    let made = run(&["wallet", "new", text(&key), "--no-encryption", "--json"])
        .ends(0)
        .json();
    let address = made["address"].as_str().unwrap();
    let given = grid.run(&["faucet", address, "5", "--json"]).ends(0).json();
    assert_eq!(given["balance"], "5");
    let signs = ["--key", text(&key)];
    grid.run(&[&["faucet"], &signs[..]].concat()).ends(0);
    // The first paid job of a key file says that it has no backup, once.
    let digit = root().join("examples/digit.json");
    let infer = [
        "infer",
        "mlp-digits",
        text(&digit),
        "--yes",
        "--key",
        text(&key),
    ];
    let first = grid.run(&infer).ends(0);
    assert!(
        first.stderr.contains("next: tensorgrid wallet backup"),
        "{}",
        first.stderr
    );
    let second = grid.run(&infer).ends(0);
    assert!(
        !second.stderr.contains("wallet backup"),
        "{}",
        second.stderr
    );
    let backup = ["wallet", "backup", text(&copy), "--key", text(&key)];
    run(&backup).ends(2);
    run(&[&backup[..], &["--backup-passphrase-file", &secret]].concat()).ends(0);
    let shown = ["wallet", "show", "--json", "--key"];
    let shown = run(&[&shown[..], &[text(&copy), "--passphrase-file", &secret]].concat())
        .ends(0)
        .json();
    assert_eq!(
        (&shown["address"], &shown["passphrase"]),
        (&made["address"], &true.into())
    );
    well_and_ill(&grid, &key);
    assert!(grid.interrupt().success());
}

/// The doctor finds nothing that fails, then a key that others may read and a grid that is not there.
fn well_and_ill(grid: &Grid, key: &Path) {
    let doctor = ["doctor", "--key", text(key)];
    let found = grid
        .run(&[&doctor[..], &["--json"]].concat())
        .ends(0)
        .json();
    let health = |found: &serde_json::Value, check: &str| {
        let all = found.as_array().unwrap();
        let one = all.iter().find(|it| it["check"] == check);
        one.map(|it| it["health"].as_str().unwrap().to_owned())
    };
    for check in [
        "processor",
        "key",
        "api",
        "version",
        "clock",
        "balance",
        "offers",
    ] {
        assert_eq!(
            health(&found, check).as_deref(),
            Some("ok"),
            "{check}: {found}"
        );
    }
    std::process::Command::new("chmod")
        .args(["644", text(key)])
        .status()
        .unwrap();
    let ran = grid.run(&doctor).ends(1);
    assert!(ran.stdout.contains("chmod 600"), "{}", ran.stdout);
    let ran = run(&["doctor", "--api", "http://127.0.0.1:9"]).ends(1);
    assert!(ran.stdout.contains("fail  api"), "{}", ran.stdout);
}

#[test]
fn shells_get_completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]).ends(0).stdout;
        assert!(
            script.contains("tensorgrid") && script.contains("validate"),
            "{shell}"
        );
    }
    let page = run(&["man"]).ends(0).stdout;
    assert!(page.contains(".TH tensorgrid 1"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    run(&["man", text(folder.path())]).ends(0);
    for name in [
        "tensorgrid",
        "tensorgrid-job-submit",
        "tensorgrid-endpoint-open",
    ] {
        let page = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
}
