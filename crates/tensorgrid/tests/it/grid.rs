//! A grid that stays: jobs from other processes, a power cut, a provider that joins and leaves.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tg_types::{Decode as _, Encode as _};

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

/// A balance and a job are proved from the genesis on; under the genesis of another network nothing is.
fn shown_without_trust(grid: &Grid, data: &Path, job: &str) {
    let genesis = data.join("genesis.bin");
    let accounts = grid.run(&["balance", "--json"]).ends(0).json();
    let address = accounts[0]["address"].as_str().unwrap();
    let asked = ["balance", address, "--genesis"];
    let ran = grid.run(&[&asked[..], &[text(&genesis)]].concat()).ends(0);
    assert!(ran.stdout.contains("proved at height"), "{}", ran.stdout);
    let ran = grid
        .run(&[&asked[..], &[text(&genesis), "--json"]].concat())
        .ends(0);
    let json = ran.json();
    assert_eq!(json["proved"]["balance"], json["balance"]);
    let nobody = ["balance", "0x0000000000000000000000000000000000000009"];
    let ran = grid
        .run(&[&nobody[..], &["--genesis", text(&genesis)]].concat())
        .ends(0);
    assert!(ran.stdout.starts_with("0 TGRID"), "{}", ran.stdout);
    let ran = grid
        .run(&["job", "show", job, "--genesis", text(&genesis)])
        .ends(0);
    assert!(
        ran.stdout.contains("is paid (proved at height"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("nothing is locked for it"),
        "{}",
        ran.stdout
    );

    begun_at_a_checkpoint(grid, &genesis, &asked);

    let bytes = std::fs::read(&genesis).unwrap();
    let mut other = tg_ledger::Genesis::from_bytes(&bytes).unwrap();
    other.timestamp = tg_types::TimestampMs::new(1);
    let path = data.join("other.bin");
    std::fs::write(&path, other.to_bytes()).unwrap();
    let ran = grid.run(&[&asked[..], &[text(&path)]].concat()).ends(3);
    // 1970 is too long ago to follow a chain from; that it is another network's shows only after that.
    assert!(ran.stderr.contains("is genesis of"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("tensorgrid checkpoint"),
        "{}",
        ran.stderr
    );
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = u64::try_from(now.unwrap().as_millis()).unwrap();
    other.timestamp = tg_types::TimestampMs::new(now - 1_000);
    std::fs::write(&path, other.to_bytes()).unwrap();
    let ran = grid.run(&[&asked[..], &[text(&path)]].concat()).ends(3);
    assert!(
        ran.stderr.contains("not shown to be true"),
        "{}",
        ran.stderr
    );
    grid.run(&[&asked[..], &[text(&data.join("lock"))]].concat())
        .ends(2);
}

/// What a client knows is kept beside the genesis; where nothing is, it begins at a block that somebody vouches for.
fn begun_at_a_checkpoint(grid: &Grid, genesis: &Path, asked: &[&str]) {
    let kept = ["checkpoint", "--genesis", text(genesis)];
    let before = grid.run(&[&kept[..], &["--kept"]].concat()).ends(0).stdout;
    let newest = grid.run(&kept).ends(0).stdout;
    let height = |text: &str| -> u64 { text.split(':').next().unwrap().parse().unwrap() };
    assert!(height(&newest) >= height(&before), "{before} {newest}");
    let after = grid.run(&[&kept[..], &["--kept"]].concat()).ends(0).stdout;
    assert_eq!(after, newest);
    // One that a node names, for somebody who knows nothing yet.
    let said = grid.run(&["checkpoint"]).ends(0);
    assert!(said.stderr.contains("trusts that node"), "{}", said.stderr);
    let json = grid
        .run(&["checkpoint", "--height", "2", "--json"])
        .ends(0)
        .json();
    assert_eq!(json["height"], 2);
    let fresh = genesis.with_extension("fresh");
    let begin = |checkpoint: &str| {
        let rest = ["--checkpoint", checkpoint, "--trusted", text(&fresh)];
        grid.run(&[asked, &[text(genesis)], &rest].concat())
    };
    // A block that the chain does not have: refused, and nothing is kept.
    let wrong = format!("2:0x{}", "7".repeat(64));
    let ran = begin(&wrong).ends(3);
    assert!(ran.stderr.contains("the checkpoint says"), "{}", ran.stderr);
    assert!(!fresh.exists());
    begin("2").ends(2);
    let ran = begin(said.stdout.trim()).ends(0);
    assert!(ran.stdout.contains("proved at height"), "{}", ran.stdout);
    assert!(fresh.exists());
}

/// Who does not wait fetches the answer later; what nobody puts up enough for is proved.
fn fetched_later(grid: &Grid, values: &serde_json::Value) {
    let detached = infer(grid, &["--detach", "--value-at-risk", "1000000"]).ends(0);
    let why = "for no offer puts up the twenty times its price and the value at risk";
    assert!(detached.stderr.contains(why), "{}", detached.stderr);
    let job = detached.json()["job"].as_str().unwrap().to_owned();
    let fetched = grid.run(&["job", "fetch", &job, "--json"]).ends(0).json();
    assert_eq!(&fetched["values"], values);
    assert_eq!(fetched["proof"]["verified"], true);
    let shown = grid.run(&["job", "show", &job, "--json"]).ends(0).json();
    assert_eq!(shown["needs"]["value_at_risk"], "1000000");
    grid.run(&["infer", "mlp-digits", "--value-at-risk", "much", "x.json"])
        .ends(2);
}

/// A person sees what was paid and what shows the result; hashes are on request, and always in JSON.
fn receipts_have_hashes_if_asked(grid: &Grid, job: &str) {
    let receipt = ["job", "receipt", job];
    let brief = grid.run(&receipt).ends(0).stdout;
    let verbose = grid.run(&[&receipt[..], &["-v"]].concat());
    let verbose = verbose.ends(0).stdout;
    let whole = grid.run(&[&receipt[..], &["--json", "-v"]].concat());
    let whole = whole.ends(0).json();
    for text in [&brief, &verbose] {
        assert!(text.starts_with("money      "), "{text}");
        assert!(text.contains("ran it again"), "{text}");
        assert!(text.contains(&job[..14]), "{text}");
    }
    for key in ["program", "model", "input", "output"] {
        let hash = whole["receipt"][key].as_str().unwrap();
        assert!(verbose.contains(hash), "{key}: {verbose}");
        assert!(!brief.contains(key), "{key}: {brief}");
        assert!(!brief.contains(&hash[..14]), "{key}: {brief}");
    }
    assert!(verbose.contains(job) && !brief.contains(job), "{brief}");
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
    let sampled = infer(&grid, &[]).ends(0);
    let by_sync = "--verify sync: drawn validators";
    assert!(sampled.stderr.contains(by_sync), "{}", sampled.stderr);
    assert_eq!(sampled.json()["receipt"]["job"]["mode"], "sync");
    assert_eq!(sampled.json()["values"], ran["values"]);
    let prices = grid.run(&["model", "modes", "mlp-digits", "--json"]);
    let prices = prices.ends(0).json();
    let modes = prices[0]["modes"].as_array().unwrap();
    assert_eq!(modes.len(), 8, "{prices}");
    assert!(modes.iter().all(|it| it["offers"] == 1), "{prices}");
    fetched_later(&grid, &ran["values"]);
    let repeated = infer(&grid, &["--verify", "recompute"]).ends(0).json();
    assert_eq!(repeated["proof"], serde_json::Value::Null);
    assert_eq!(repeated["values"], ran["values"]);
    let repeated = repeated["job"].as_str().unwrap();
    receipts_have_hashes_if_asked(&grid, repeated);

    shown_without_trust(&grid, &data, &job);
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

/// How long the first paid job may take on a machine that builds beside it; by itself it is a matter of seconds.
const FIRST_JOB_MAX: Duration = Duration::from_secs(40);

/// From nothing to a paid answer with no wallet, no key and no configuration.
#[test]
fn a_fresh_machine_has_its_first_paid_job_soon() {
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let grid = Grid::up(&folder.path().join("data"), 2);
    let ran = infer(&grid, &[]).ends(0).json();
    let took = started.elapsed();
    assert_eq!(ran["greatest"], 7);
    assert_eq!(ran["receipt"]["job"]["state"], "paid");
    assert!(took < FIRST_JOB_MAX, "{took:?}");
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
    let provider = Provider::start(&grid, &key, "0.01", &[]);
    until("the offer stands", || offers(&grid) == 1);
    let ran = infer(&grid, &[]).ends(0).json();
    assert_eq!(ran["receipt"]["settlement"]["price"], "0.01");

    let status = ["provider", "status", "--key", text(&key)];
    let stands = grid.run(&status).ends(0).stdout;
    assert!(stands.contains("1 accepted, 0 rejected"), "{stands}");
    assert!(stands.contains("0 of 1 leases taken"), "{stands}");
    let earned = grid.run(&[&status[..], &["--json"]].concat()).ends(0);
    assert_ne!(earned.json()["reputation"]["earned"], "0");
    grid.run(&["provider", "status", "somebody"]).ends(2);

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

/// The burned part of all money.
fn burned(grid: &Grid) -> u128 {
    let status = grid.run(&["status", "--json"]).ends(0).json();
    let burned = status["totals"]["burned"].as_str().unwrap();
    burned.parse::<tg_types::Amount>().unwrap().get()
}

#[test]
fn a_batch_job_bids_sealed_and_an_unopened_bid_loses_its_deposit() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 0);
    let key = folder.path().join("key");
    let machine = [
        "--gpus",
        "1",
        "--simulated-gpu",
        "--gpu-model",
        "t4",
        "--price-per-gpu-second",
        "0.02",
    ];
    let _provider = Provider::start(&grid, &key, "0.01", &machine);
    until("the offer stands", || offers(&grid) == 1);
    let bid = ["--class", "batch", "--gpus", "1", "--gpu-seconds", "2"];
    let money_before = money(&grid);

    // What would be refused when it is opened is refused before anything is locked.
    let wrong = infer(&grid, &["--class", "batch", "--max-price", "0.5"]).ends(3);
    assert!(wrong.stderr.contains("TG-LED-034"), "{}", wrong.stderr);
    assert!(!wrong.stderr.contains("sealed;"), "{}", wrong.stderr);

    let ran = infer(&grid, &[&bid[..], &["--max-price", "0.5"]].concat()).ends(0);
    assert!(ran.stderr.contains("is sealed"), "{}", ran.stderr);
    assert!(ran.stderr.contains("the deposit is back"), "{}", ran.stderr);
    let ran = ran.json();
    assert_eq!(ran["greatest"], 7);
    let price: tg_types::Amount = ran["receipt"]["settlement"]["price"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    // Nobody pays more than it bid, no machine gets less than it asks.
    let cents = |count: u128| count * 10_000_000_000_000_000;
    assert!((cents(5)..=cents(50)).contains(&price.get()), "{price}");

    // Whoever goes away before its slot loses the deposit, and nothing else.
    let before = burned(&grid);
    let jobs = || {
        let mut listed = grid.run(&["job", "list", "--json"]).ends(0).json();
        // Who keeps an answer is stated after it is paid, by one validator after the other.
        for job in listed.as_array_mut().unwrap() {
            job["kept"] = serde_json::Value::Null;
        }
        listed
    };
    let listed = jobs();
    let digit = root().join("examples/digit.json");
    let more = ["--max-price", "0.5", "--deposit", "0.03", "--yes"];
    let arguments = [&["infer", "mlp-digits", text(&digit)], &bid[..], &more].concat();
    grid.run_until(&arguments, "is sealed");
    until("the deposit is burned", || {
        burned(&grid) >= before + cents(3)
    });
    assert_eq!(jobs(), listed);
    assert_eq!(money(&grid).1, money_before.1);
    assert_eq!(money(&grid).0, money(&grid).1);
}

#[test]
fn a_killed_provider_loses_its_job_to_another_in_one_block() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 0);
    let machine = ["--gpus", "1", "--simulated-gpu", "--gpu-model", "t4"];
    // It says that it is slow, and is.
    let slow = [&machine[..], &["--throttle-mmac-per-s", "1"]].concat();
    let mut first = Provider::start(&grid, &folder.path().join("one"), "0.01", &slow);
    let _second = Provider::start(&grid, &folder.path().join("two"), "0.05", &machine);
    until("both offers stand", || offers(&grid) == 2);
    let input = folder.path().join("image.json");
    let image = serde_json::json!({ "input_data": [vec![0.25; 784]] });
    std::fs::write(&input, image.to_string()).unwrap();
    // The lease may take minutes: that it is lost is not a matter of its own limits.
    let order = [
        "infer",
        "lenet-digits",
        text(&input),
        "--verify",
        "none",
        "--yes",
        "--json",
    ];
    let needs = ["--gpus", "1", "--gpu-seconds", "60", "--max-price", "5"];
    let ran = std::thread::scope(|scope| {
        let run = scope.spawn(|| grid.run(&[&order[..], &needs].concat()));
        first.read_until("working");
        first.kill();
        run.join().unwrap()
    });
    let ran = ran.ends(0).json();
    let job = ran["job"].as_str().unwrap();
    let job = grid.run(&["job", "show", job, "--json"]).ends(0).json();
    let leases = job["leases"].as_array().unwrap();
    assert_eq!(leases.len(), 2, "{job}");
    assert_ne!(leases[0]["provider"], leases[1]["provider"]);
    let end = leases[0]["end_text"].as_str().unwrap();
    assert!(end.contains("reach"), "{end}");
    // It waited again and was leased again in the block that found the provider lost.
    let steps = job["history"].as_array().unwrap();
    let of = |state: &str| {
        let steps = steps.iter().filter(|it| it["state"] == state);
        steps
            .map(|it| it["height"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("queued").len(), 2, "{job}");
    assert_eq!(of("queued")[1], of("leased")[1], "{job}");
    assert_eq!(of("paid").len(), 1, "{job}");
    // The other is paid its price, and what the one that went lost is burned.
    let settlement = &ran["receipt"]["settlement"];
    assert_eq!(settlement["price"], "0.05");
    assert_eq!(ran["receipt"]["lease"]["provider"], leases[1]["provider"]);
    let (sum, minted) = money(&grid);
    assert_eq!(sum, minted);
}

#[test]
fn a_busy_port_is_told_before_a_folder_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let ran = crate::run::run(&["up", "--listen", &address, "--data-dir", text(&data)]).ends(1);
    assert!(ran.stderr.contains("--listen"), "{}", ran.stderr);
    assert!(!data.exists());
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
    // What it would cost is asked without a price.
    let gpu = [
        "infer",
        "mlp-digits",
        text(&digit),
        "--gpus",
        "1",
        "--dry-run",
    ];
    let dry = grid.run(&gpu).ends(0);
    assert!(dry.stdout.contains("nothing was ordered"), "{}", dry.stdout);
    // What cannot be served is said at once, and nothing is ordered.
    let start = Instant::now();
    let refused = infer(&grid, &["--gpus", "1"]).ends(3);
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    let says = &refused.stderr;
    assert!(says.contains("no offer serves this order now"), "{says}");
    assert_eq!(grid.run(&["balance", "--json"]).ends(0).json(), before);
}

/// An order that is refused within two seconds, of which nothing is left: no job, no lease, no money.
fn refused_at_once(grid: &Grid, needs: &[&str], why: &str) {
    let balances = || grid.run(&["balance", "--json"]).ends(0).json();
    let before = balances();
    let start = Instant::now();
    let refused = infer(grid, needs).ends(3);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    let says = &refused.stderr;
    assert!(says.contains("no offer serves this order now"), "{says}");
    assert!(says.contains(why), "{says}");
    assert!(says.contains("nothing was ordered"), "{says}");
    assert_eq!(balances(), before);
    let jobs = grid.run(&["job", "list", "--json"]).ends(0).json();
    assert_eq!(jobs, serde_json::json!([]));
    let offers = grid.run(&["provider", "list", "--json"]).ends(0).json();
    let offers = offers.as_array().unwrap();
    assert!(offers.iter().all(|it| it["leases"] == 0), "{offers:?}");
}

/// Until validators hold the model, nothing can be said of any order of it.
fn model_is_held(grid: &Grid) {
    until("the model is held", || {
        let asked = infer(grid, &["--dry-run"]).ends(0).json();
        asked["charge"].is_string()
    });
}

#[test]
fn a_gang_that_is_larger_than_what_is_offered_is_explained_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 3);
    model_is_held(&grid);
    let why = "3 of 4 members would have a place";
    refused_at_once(&grid, &["--gang", "4"], why);
    let dry = infer(&grid, &["--gang", "3", "--dry-run"]).ends(0).json();
    assert!(dry["charge"].is_string(), "{dry}");
}

#[test]
fn more_gpu_memory_than_any_machine_has_is_explained_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 0);
    let machine = "--gpus 1 --simulated-gpu --gpu-model rtx3090 --gpu-memory 24576";
    let machine: Vec<&str> = machine.split(' ').collect();
    let _provider = Provider::start(&grid, &folder.path().join("key"), "0.01", &machine);
    until("the offer stands", || offers(&grid) == 1);
    let listed = grid.run(&["provider", "list"]).ends(0).stdout;
    assert!(listed.contains("1 x rtx3090, 24 GiB"), "{listed}");
    model_is_held(&grid);
    let needs = ["--gpus", "1", "--gpu-memory", "81920"];
    refused_at_once(&grid, &needs, "1 offer: has GPUs with less memory");
    let needs = ["--gpus", "1", "--gpu-memory", "24576", "--dry-run"];
    let dry = infer(&grid, &needs).ends(0).json();
    assert!(dry["charge"].is_string(), "{dry}");
}

/// Needs that the quotes do not know have a price all the same: that of a dry run. Where one says that an offer has the stake for it, a committee
/// checks the job as it does usual ones.
#[test]
fn an_order_with_needs_of_its_own_needs_no_price() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 0);
    let machine = [
        "--gpus",
        "1",
        "--simulated-gpu",
        "--gpu-model",
        "t4",
        "--price-per-gpu-second",
        "0.02",
    ];
    let _provider = Provider::start(&grid, &folder.path().join("key"), "0.01", &machine);
    until("the offer stands", || offers(&grid) == 1);
    // A hundredth for the job and two or three fiftieths for the time: of twenty times that the offer puts up one, not seven fifths.
    for (seconds, price, mode, why) in [
        ("2", "0.05", "sync", "--verify sync: drawn validators"),
        ("3", "0.07", "proof", "--verify proof, for no offer serves"),
    ] {
        let ran = infer(&grid, &["--gpus", "1", "--gpu-seconds", seconds]).ends(0);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
        let ran = ran.json();
        assert_eq!(ran["greatest"], 7);
        assert_eq!(ran["receipt"]["settlement"]["price"], price);
        assert_eq!(ran["receipt"]["job"]["mode"], mode);
    }
    let both = ["--priority", "2", "--dry-run"];
    let dry = infer(&grid, &both).ends(0).json();
    assert_eq!(dry["job"]["mode"], "sync", "{dry}");
    // A committee has no proof, and a bid no price.
    let file = folder.path().join("proof.bin");
    let kept = ["--priority", "2", "--dry-run", "--proof-out", text(&file)];
    let dry = infer(&grid, &kept).ends(0).json();
    assert_eq!(dry["job"]["mode"], "proof", "{dry}");
    let bid = ["--class", "batch", "--dry-run", "--max-price", "0.5"];
    let dry = infer(&grid, &bid);
    let why = "--verify proof, for nobody knows before its auction";
    assert!(dry.stderr.contains(why), "{}", dry.stderr);
}

/// Ctrl-C ends a command and not the job that it waits for, and it is said how to go on with it.
#[test]
fn an_interrupted_order_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    let digit = root().join("examples/digit.json");
    // No machine has so much, so they wait.
    let waits = "--gpus 8 --max-price 1 --deadline-s 600 --yes";
    let infer = ["infer", "mlp-digits", text(&digit)];
    let of_text = ["write", "gpt-bytes", "--text", "JULIET:"];
    let mut jobs = 0;
    for (command, flag) in [
        (&infer[..], None),
        (&infer[..], Some("--seal")),
        (&of_text[..], None),
    ] {
        let command = command.iter().copied().chain(waits.split(' '));
        let command: Vec<&str> = command.chain(flag).collect();
        // The first state that is told: it follows the job.
        let (code, said) = grid.interrupted_at(&command, " ms  ");
        assert_eq!(code, Some(130), "{said}");
        jobs += 1;
        let listed = grid.run(&["job", "list", "--json"]).ends(0).json();
        assert_eq!(listed.as_array().unwrap().len(), jobs, "{listed}");
        let listed = listed.as_array().unwrap();
        let open = listed.iter().find(|it| it["state"] != "cancelled").unwrap();
        let job = open["id"].as_str().unwrap();
        for says in [
            format!("job {job}, which goes on"),
            format!("tensorgrid job fetch {job} --order 0x"),
            format!("tensorgrid job cancel {job}"),
        ] {
            assert!(said.contains(&says), "{says}: {said}");
        }
        // Who waits for it anew may leave it again; what only the API says of the order is not handed on.
        let (code, said) = grid.interrupted_at(&["job", "fetch", job], " ms  ");
        assert_eq!(code, Some(130), "{said}");
        let again = format!("tensorgrid job fetch {job} waits");
        assert!(said.contains(&again), "{said}");
        grid.run(&["job", "cancel", job]).ends(0);
    }
}

/// A machine with a session key alone changes orders of its account, and moves none of its money.
#[test]
fn a_session_key_signs_for_a_machine_until_it_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    // No machine has so much, so it waits.
    let waits = "--gpus 8 --max-price 1 --deadline-s 600 --detach";
    let waits: Vec<&str> = waits.split(' ').collect();
    let job = infer(&grid, &waits).ends(0).json();
    let job = job["job"].as_str().unwrap();
    let file = folder.path().join("gateway.session");
    let new = [
        "wallet",
        "session",
        "new",
        text(&file),
        "--cap",
        "2",
        "--json",
    ];
    grid.run(&[&new[..], &["--scope", "everything"]].concat())
        .ends(2);
    let made = grid
        .run(&[&new[..], &["--scope", "order"]].concat())
        .ends(0)
        .json();
    assert_eq!(made["session"]["scope"], "order");
    assert_eq!(made["session"]["spent"], "0");
    // One that exists is left as it is.
    grid.run(&[&new[..], &["--scope", "order"]].concat())
        .ends(2);
    let raise_to = |price| {
        let raise = ["job", "raise", job, "--max-price", price];
        grid.run(&[&raise[..], &["--session", text(&file)]].concat())
    };
    raise_to("1.5").ends(0);
    let over = raise_to("9").ends(3);
    assert!(
        over.stderr.contains("of the session key's cap"),
        "{}",
        over.stderr
    );
    let list = ["wallet", "session", "list", "--json"];
    let listed = grid.run(&list).ends(0).json();
    let spent: tg_types::Amount = listed[0]["spent"].as_str().unwrap().parse().unwrap();
    let half = tg_types::Amount::new(500_000_000_000_000_000);
    assert!(
        spent > half && spent < tg_types::Amount::from_tgrid(1),
        "{spent}"
    );
    grid.run(&["wallet", "session", "revoke", text(&file)])
        .ends(0);
    assert_eq!(grid.run(&list).ends(0).json(), serde_json::json!([]));
    let cancel = ["job", "cancel", job];
    let late = grid
        .run(&[&cancel[..], &["--session", text(&file)]].concat())
        .ends(3);
    assert!(
        late.stderr.contains("has no session key"),
        "{}",
        late.stderr
    );
    grid.run(&cancel).ends(0);
}

#[test]
fn rent_is_shown_and_paid_for_days_or_by_amount() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    let model = ["rent", "show", "lenet-digits"];
    let before = grid.run(&[&model[..], &["--json"]].concat()).ends(0).json();
    assert_eq!(before["kind"], "model");
    let days = |rent: &serde_json::Value| rent["lasts_ms"].as_u64().unwrap() / 86_400_000;
    assert!((6..=7).contains(&days(&before)), "{before}");
    // Nobody is at the terminal, so nothing is paid without --yes.
    let pay = ["rent", "pay", "lenet-digits", "--days", "30"];
    let asked = grid.run(&pay).ends(2);
    assert!(asked.stderr.contains("--yes"), "{}", asked.stderr);
    let paid = grid.run(&[&pay[..], &["--yes", "--json"]].concat()).ends(0);
    assert!((36..=37).contains(&days(&paid.json())), "{}", paid.stdout);
    let shown = grid.run(&model).ends(0);
    assert!(shown.stdout.contains("lasts    3"), "{}", shown.stdout);

    let offers = grid.run(&["provider", "list", "--json"]).ends(0).json();
    let (offer, provider) = (&offers[0]["id"], &offers[0]["provider"]);
    let show = |record: &str| grid.run(&["rent", "show", record, "--json"]).ends(0).json();
    assert_eq!(show(provider.as_str().unwrap())["kind"], "provider");
    let short = &offer.as_str().unwrap()[..12];
    assert_eq!(show(short)["record"], *offer);
    let amount = ["rent", "pay", short, "--amount", "0.5", "--yes"];
    grid.run(&amount).ends(0);
    assert!(days(&show(short)) > 1_000);
    let missing = grid.run(&["rent", "show", "no-such-model"]).ends(4);
    assert!(
        missing.stderr.contains("no model, offer or job"),
        "{}",
        missing.stderr
    );
}

/// Inferences that are ordered at once, by one account.
const CROWD: usize = 50;

#[test]
fn fifty_orders_at_once_wait_for_the_slots_that_are_taken_and_each_is_paid_once() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    let ran: Vec<Ran> = std::thread::scope(|scope| {
        let one = || infer(&grid, &["--verify", "none", "--deadline-s", "600"]);
        let running: Vec<_> = (0..CROWD).map(|_| scope.spawn(one)).collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let jobs: std::collections::BTreeSet<String> = ran
        .into_iter()
        .map(|ran| ran.ends(0).json()["job"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(jobs.len(), CROWD);
    let list = ["job", "list", "--limit", "1000", "--json"];
    let listed = grid.run(&list).ends(0).json();
    let listed = listed.as_array().unwrap();
    // Who signed again because of a nonce ordered nothing twice.
    assert_eq!(listed.len(), CROWD);
    assert!(listed.iter().all(|job| job["state"] == "paid"));
    let (sum, minted) = money(&grid);
    assert_eq!(sum, minted);
}
