//! Gateways that lie to the command line: what is signed, kept and printed then.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::http::call;
use crate::run::{Grid, Ran, root, run, until};

/// What a gateway answers to a path; nothing is status 404.
type Answer = dyn Fn(&str) -> Option<Value> + Send + Sync;

/// A gateway, and what was sent to it.
struct Gateway {
    url: String,
    sent: Arc<Mutex<Vec<String>>>,
}

impl Gateway {
    /// Listens on a free port, for a network of a chain id.
    fn start(
        chain_id: u64,
        answer: impl Fn(&str) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::start_before(None, chain_id, answer)
    }

    /// The same before a grid, whose blobs it hands on: their names say what they have to be.
    fn start_before(
        behind: Option<String>,
        chain_id: u64,
        answer: impl Fn(&str) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sent = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer): (_, Arc<Answer>) = (Arc::clone(&sent), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                let behind = behind.clone();
                std::thread::spawn(move || {
                    let network = (chain_id, behind.as_deref());
                    one(stream.unwrap(), &seen, network, &*answer);
                });
            }
        });
        Self { url, sent }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        run(&[arguments, &["--api", &self.url]].concat())
    }

    /// What was sent, and not only asked.
    fn sent(&self) -> Vec<String> {
        self.sent.lock().unwrap().clone()
    }
}

fn one(
    mut stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    (chain_id, behind): (u64, Option<&str>),
    answer: &Answer,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        let line = line.to_lowercase();
        if let Some(bytes) = line.strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut words = first.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return;
    };
    if method != "GET" {
        seen.lock().unwrap().push(format!("{method} {path}"));
    }
    if let Some(url) = behind.filter(|_| path.starts_with("/v1/blobs/")) {
        return hand_on(&mut stream, url, path);
    }
    let told = answer(path).or_else(|| (path == "/v1/status").then(|| status(chain_id)));
    let (status, told) = match told {
        Some(told) => (200, told),
        None => (
            404,
            json!({ "code": "TG-API-004", "message": "there is none", "hint": "" }),
        ),
    };
    let told = told.to_string();
    let length = told.len();
    let head =
        format!("HTTP/1.1 {status} told\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    // Whoever has gone needs no answer.
    let _gone = stream.write_all((head + &told).as_bytes());
}

/// Answers what a grid answers.
fn hand_on(stream: &mut TcpStream, url: &str, path: &str) {
    let host = url.trim_start_matches("http://");
    let mut grid = TcpStream::connect(host).unwrap();
    let asked = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    grid.write_all(asked.as_bytes()).unwrap();
    let mut told = Vec::new();
    grid.read_to_end(&mut told).unwrap();
    // Whoever has gone needs no answer.
    let _gone = stream.write_all(&told);
}

fn zeros() -> String {
    format!("0x{}", "0".repeat(64))
}

/// What a gateway of a network with real money says of itself.
fn status(chain_id: u64) -> Value {
    json!({
        "network": "main", "development": false, "height": 9, "block": zeros(), "state_root": zeros(),
        "domain": { "chain_id": chain_id, "rollup": format!("0x{}", "7".repeat(40)), "salt": zeros() },
        "timestamp_ms": 1_000, "ledger_time_ms": 1_000, "validators": 4, "base_fee_per_gas": "0.00000000005",
        "parameters": {
            "base_fee_min": "0", "registration_fee": "0", "zk_verification_fee": "0", "job_price_min": "0",
            "collateral_min": "0", "unverified_jobs": false, "job_horizon_ms": 0, "auction_slot_ms": 0, "bid_deposit_min": "0",
        },
        "totals": {
            "minted": "0", "balances": "0", "escrow": "0", "stake": "0", "collateral": "0", "burned": "0",
        },
        "jobs": { "submitted": 0, "queued": 0, "active": 0, "ended": 0 },
    })
}

/// A key in a file of its own.
fn key(folder: &Path) -> PathBuf {
    let key = folder.join("key");
    let made = ["wallet", "new", key.to_str().unwrap(), "--no-encryption"];
    run(&made).ends(0);
    key
}

const JOB: &str = "0x0101010101010101010101010101010101010101010101010101010101010101";

/// An endpoint that runs, as a gateway tells it.
fn endpoint(path: &str) -> Option<Value> {
    let needs = serde_json::to_value(tg_sdk::dto::JobNeedsDto::from(
        &tg_types::JobNeeds::ANY_MACHINE,
    ));
    let lease = json!({
        "id": zeros(), "job": JOB, "offer": zeros(), "provider": format!("0x{}", "6".repeat(40)), "price": "1",
        "collateral": "0", "state": "running", "matched_ms": 1, "started": true, "start_by_ms": 2, "finish_by_ms": 3,
        "receipt": null, "end": null, "end_text": null, "rejection": null,
        "meter": { "minute": "1", "vouchers": "999", "answered": 9, "paid": "0", "started_ms": 1, "ends_ms": null },
    });
    path.starts_with("/v1/jobs/").then(|| {
        json!({
            "id": JOB, "requestor": format!("0x{}", "3".repeat(40)), "model": zeros(), "input": zeros(), "input_len": 0,
            "needs": needs.unwrap(), "mode": "endpoint", "state": "running", "max_price": "999", "deadline_ms": 9_000,
            "sequence": 1, "macs": 1, "max_attempts": 3, "escrow": "999", "served": "0", "verification_fee": "0",
            "history": [], "leases": [lease], "reason": null, "settlement": null,
        })
    })
}

#[test]
fn a_key_signs_for_no_network_that_it_was_not_used_for() {
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path());
    let key = key.to_str().unwrap();
    let to = format!("0x{}", "5".repeat(40));
    let pay = ["transfer", &to, "1", "--yes", "--key", key];
    // The first use says for which network the key is, and keeps it; this gateway has no accounts, so nothing is paid.
    let main = Gateway::start(1, |_| None);
    let ran = main.run(&pay).ends(4);
    assert!(ran.stderr.contains("from now on"), "{}", ran.stderr);
    let kept = std::fs::read_to_string(format!("{key}.networks")).unwrap();
    assert!(kept.starts_with("1 0x7777"), "{kept}");
    assert!(!main.run(&pay).ends(4).stderr.contains("from now on"));
    // Another network, by another gateway.
    let other = Gateway::start(2, |_| None);
    let ran = other.run(&pay).ends(3);
    assert!(ran.stderr.contains("nothing was signed"), "{}", ran.stderr);
    assert!(ran.stderr.contains("2 0x7777"), "{}", ran.stderr);
    assert_eq!(other.sent(), Vec::<String>::new());
    // And another one than the same gateway said before.
    let kept = kept.replace(&main.url, &other.url);
    std::fs::write(format!("{key}.networks"), kept).unwrap();
    other.run(&pay).ends(3);
}

#[test]
fn an_endpoint_is_not_asked_and_nothing_raised_on_the_word_of_a_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path());
    let key = key.to_str().unwrap();
    let gateway = Gateway::start(1, endpoint);
    for (command, told) in [
        (
            &["endpoint", "ask", JOB, "input.json"][..],
            "nothing was sealed",
        ),
        (
            &["endpoint", "write", JOB, "--text", "a secret"],
            "nothing was sealed",
        ),
        (&["endpoint", "top-up", JOB, "1"], "nothing was signed"),
        (
            &["job", "raise", JOB, "--attempts", "4"],
            "nothing was signed",
        ),
    ] {
        let ran = gateway.run(&[command, &["--key", key]].concat()).ends(2);
        assert!(ran.stderr.contains(told), "{command:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("--genesis"), "{}", ran.stderr);
    }
    assert_eq!(gateway.sent(), Vec::<String>::new());
}

#[test]
fn a_key_is_neither_granted_nor_shown_on_the_word_of_a_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path());
    let key = key.to_str().unwrap();
    let gateway = Gateway::start(1, |path| {
        endpoint(path).map(|mut job| {
            job["mode"] = json!("sealed");
            job
        })
    });
    let digit = root().join("examples/digit.json");
    let digit = digit.to_str().unwrap();
    for command in [
        &["infer", "mlp-digits", digit, "--seal", "--yes"][..],
        &["job", "grant", JOB],
        &["job", "grant", JOB, "--trust-gateway"],
        &["job", "reveal", JOB, "--yes"],
    ] {
        let ran = gateway.run(&[command, &["--key", key]].concat()).ends(2);
        let told = "no key is granted or shown";
        assert!(ran.stderr.contains(told), "{command:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("--genesis"), "{}", ran.stderr);
    }
    assert_eq!(gateway.sent(), Vec::<String>::new());
}

/// Has an API tell something else of the sealed leases of a job, and give no proof of a lease at first.
fn lying_of_sealed(
    grid: &Grid,
    (job, unproved): (&str, u32),
    lie: impl Fn(&mut Value) + Send + Sync + 'static,
) -> Gateway {
    let of_job = format!("/v1/jobs/{job}");
    let (url, asked) = (grid.url.clone(), AtomicU32::new(0));
    Gateway::start_before(Some(grid.url.clone()), 1, move |path| {
        let is_proof = path.starts_with("/v1/proofs/lease/");
        if is_proof && asked.fetch_add(1, Ordering::Relaxed) < unproved {
            return None;
        }
        let mut told = honest(&url, path)?;
        if path == of_job {
            let leases = told["leases"].as_array_mut().unwrap();
            let sealed = leases.iter_mut().filter(|it| it["sealing"].is_object());
            sealed.for_each(&lie);
        }
        Some(told)
    })
}

#[test]
fn a_key_is_granted_and_shown_as_final_states_have_its_lease() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(folder.path(), 1);
    let genesis = folder.path().join("genesis.bin");
    let genesis = ["--genesis", genesis.to_str().unwrap()];
    let digit = root().join("examples/digit.json");
    let digit = digit.to_str().unwrap();
    let order = ["infer", "mlp-digits", digit, "--seal", "--yes", "--detach"];
    let ordered = grid.run(&[&order[..], &["--json"]].concat()).ends(0).json();
    let job = ordered["job"].as_str().unwrap();
    until("a lease waits for the key", || {
        let shown = grid.run(&["job", "show", job, "--json"]).ends(0).json();
        shown["leases"][0]["sealing"]["stage"] == json!("awaits_key")
    });

    // The gateway's own sealing key, with a call for a proof that fails first; its own lease of another job.
    let zeros_key = format!("0x{}", "00".repeat(tg_types::sealing::SEALING_KEY_BYTES));
    let own_key = lying_of_sealed(&grid, (job, 2), move |lease| {
        lease["sealing"]["key"] = json!(zeros_key);
    });
    let own_lease = lying_of_sealed(&grid, (job, 0), |lease| lease["id"] = json!(JOB));
    let grant = [&["job", "grant", job][..], &genesis].concat();
    for (liar, told, fails) in [
        (own_key, "no final state has the sealing key", true),
        (own_lease, "and it is none", false),
    ] {
        let ran = liar.run(&grant).ends(3);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
        let failed = ran.stderr.matches("is not proved yet").count();
        assert_eq!(failed, usize::from(fails), "{}", ran.stderr);
        assert!(!ran.stderr.contains("is granted"), "{}", ran.stderr);
        assert_eq!(liar.sent(), Vec::<String>::new());
    }
    // A question that its provider did not ask.
    let question = lying_of_sealed(&grid, (job, 0), |lease| {
        lease["sealing"]["stage"] = json!("questioned");
        lease["sealing"]["may_reveal"] = json!(true);
    });
    let reveal = [&["job", "reveal", job, "--yes"][..], &genesis].concat();
    let ran = question.run(&reveal).ends(3);
    assert!(ran.stderr.contains("nothing was shown"), "{}", ran.stderr);
    assert_eq!(question.sent(), Vec::<String>::new());
}

#[test]
fn what_a_gateway_says_does_not_reach_the_terminal_raw() {
    let forged = "waits\u{1b}[8A\u{1b}[2Kjob 1 is paid\r\u{9b}2J\u{202e}";
    let gateway = Gateway::start(1, move |path| {
        path.ends_with("/why").then(|| {
            json!({
                "job": JOB, "state": "queued", "summary": forged, "constraints": [], "offers": [], "relaxations": [],
                "queue_position": null, "hint": forged,
            })
        })
    });
    let is_raw = |it: char| it.is_control() && it != '\n' && it != '\t' || it == '\u{202e}';
    for json in [&["job", "why", JOB][..], &["job", "why", JOB, "--json"]] {
        let ran = gateway.run(json).ends(0);
        assert!(ran.stdout.contains("waits"), "{}", ran.stdout);
        assert!(!ran.stdout.contains(is_raw), "{:?}", ran.stdout);
        assert!(!ran.stderr.contains(is_raw), "{:?}", ran.stderr);
    }
}

#[test]
fn lists_say_that_they_are_the_word_of_whoever_serves_them() {
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path());
    let key = key.to_str().unwrap();
    let page = |items: Vec<Value>| json!({ "total": items.len(), "items": items, "next": null });
    let gateway = Gateway::start(1, move |path| match path.split('?').next()? {
        "/v1/jobs" => Some(page(vec![endpoint("/v1/jobs/1")?])),
        "/v1/models" | "/v1/offers" => Some(page(Vec::new())),
        "/v1/seats" => Some(json!({
            "term": 0, "since": 0, "next_change": 64, "bond": "10000", "unbonding_ms": 1,
            "validators": [], "applicants": [], "unbonding": [],
        })),
        _ => None,
    });
    let said = format!("unproved list: as {} says", gateway.url);
    let lists = [
        &["job", "list"][..],
        &["model", "list"],
        &["provider", "list"],
        &["seat", "list"],
        &["endpoint", "list", "--key", key],
        &["job", "cost", "--key", key],
        &["job", "cost", "--key", key, "--csv"],
    ];
    for list in lists {
        let ran = gateway.run(list).ends(0);
        assert!(ran.stderr.contains(&said), "{list:?}: {}", ran.stderr);
        assert!(!ran.stdout.contains("unproved"), "{list:?}: {}", ran.stdout);
    }
    for whole in [&["seat", "list"][..], &["job", "cost", "--key", key]] {
        let ran = gateway.run(&[whole, &["--json"]].concat()).ends(0);
        assert!(!ran.stderr.contains("unproved"), "{}", ran.stderr);
        assert_eq!(ran.json()["proved"], json!(false), "{whole:?}");
    }
    let listed = ["endpoint", "list", "--key", key, "--json"];
    let listed = gateway.run(&listed).ends(0).json();
    assert_eq!(listed[0]["id"], JOB);
    assert_eq!(listed[0]["proved"], json!(false));
    let ran = gateway.run(&["job", "list", "--json"]).ends(0);
    assert!(!ran.stderr.contains("unproved"), "{}", ran.stderr);
    let listed = ran.json();
    assert_eq!(listed[0]["id"], JOB);
    assert_eq!(listed[0]["proved"], json!(false));
    let listed = gateway.run(&["provider", "list", "--json"]).ends(0);
    assert_eq!(listed.json(), json!([]));
}

#[test]
fn what_is_shown_without_a_genesis_says_whose_word_it_is() {
    let gateway = Gateway::start(1, endpoint);
    let show = ["job", "show", JOB];
    let said = format!(
        "as {} says, unproved: --genesis FILE checks it",
        gateway.url
    );
    let ran = gateway.run(&show).ends(0);
    assert_eq!(ran.stderr.matches(&said).count(), 1, "{}", ran.stderr);
    assert!(!ran.stdout.contains("unproved"), "{}", ran.stdout);
    let ran = gateway.run(&["job", "show", JOB, "--json"]).ends(0);
    assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    // Whoever asks may know whom it asks, which is said too; but not both.
    let ran = gateway.run(&[&show[..], &["--trust-gateway"]].concat());
    let said = format!(
        "as {} says, unproved: --trust-gateway has it believed\n",
        gateway.url
    );
    assert_eq!(ran.ends(0).stderr, said);
    let both = ["--trust-gateway", "--genesis", "genesis.bin"];
    gateway.run(&[&show[..], &both].concat()).ends(2);
    // Of play money nothing is lost.
    let play = Gateway::start(1, |path| match path {
        "/v1/status" => {
            let mut status = status(1);
            status["development"] = json!(true);
            Some(status)
        }
        path => endpoint(path),
    });
    assert_eq!(play.run(&show).ends(0).stderr, "");
}

#[test]
fn a_gateway_on_another_machine_is_believed_only_where_that_was_said() {
    let address = format!("0x{}", "5".repeat(40));
    // Not loopback, and nobody answers there at once.
    let nobody = ["--api", "http://0.0.0.0:1"];
    for show in [
        &["balance", &address][..],
        &["job", "show", JOB],
        &["job", "fetch", JOB],
        &["provider", "show", JOB],
    ] {
        // Before it is asked anything.
        let ran = run(&[show, &nobody].concat()).ends(2);
        let told = "what http://0.0.0.0:1 says is not shown";
        assert!(ran.stderr.contains(told), "{show:?}: {}", ran.stderr);
        for way in ["--genesis", "--trust-gateway"] {
            assert!(ran.stderr.contains(way), "{show:?}: {}", ran.stderr);
        }
        assert_eq!(ran.stdout, "");
        let ran = run(&[show, &nobody, &["--trust-gateway"]].concat()).ends(5);
        let said = ran.stderr.matches("unproved: --trust-gateway").count();
        assert_eq!(said, 1, "{show:?}: {}", ran.stderr);
    }
}

#[test]
fn the_answer_of_another_job_is_not_shown() {
    let other = JOB.replace("01", "02");
    let gateway = Gateway::start(1, |path| {
        endpoint(path).map(|mut job| {
            job["id"] = json!(JOB);
            job
        })
    });
    let ran = gateway.run(&["job", "show", &other]).ends(3);
    assert!(ran.stderr.contains(JOB), "{}", ran.stderr);
    assert!(ran.stderr.contains(&other), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
}

/// What a grid answers to a GET request, if it is JSON.
fn honest(url: &str, path: &str) -> Option<Value> {
    let answer = call(&url.to_owned(), ("GET", path), &[], "");
    let json = (answer.status == 200).then(|| serde_json::from_str(&answer.body).ok());
    json.flatten()
}

/// A grid's answers with one lie: `lie` changes what is told of a path.
fn lying(grid: &Grid, lie: impl Fn(&str, &mut Value) + Send + Sync + 'static) -> Gateway {
    let url = grid.url.clone();
    Gateway::start_before(Some(grid.url.clone()), 1, move |path| {
        let mut told = honest(&url, path)?;
        lie(path, &mut told);
        Some(told)
    })
}

/// Has the record that comes with a proof be another one.
fn change_content(told: &mut Value) {
    let content = told["content"].as_str().unwrap();
    let changed = match content.strip_suffix('0') {
        Some(start) => format!("{start}1"),
        None => format!("{}0", &content[..content.len() - 1]),
    };
    told["content"] = json!(changed);
}

#[test]
fn a_job_is_shown_and_fetched_as_it_was_ordered_and_as_final_states_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(folder.path(), 1);
    let genesis = folder.path().join("genesis.bin");
    let genesis = ["--genesis", genesis.to_str().unwrap()];
    let digit = root().join("examples/digit.json");
    let digit = digit.to_str().unwrap();
    let order = ["infer", "mlp-digits", digit, "--yes", "--detach", "--json"];
    let ordered = grid.run(&order).ends(0).json();
    let (job, order) = (&ordered["job"], &ordered["order"]);
    let (job, order) = (job.as_str().unwrap(), order.as_str().unwrap());

    // What was signed is compared, and what a final state has of it.
    let fetch = ["job", "fetch", job, "--json"];
    let signed = grid.run(&[&fetch[..], &["--order", order]].concat());
    assert_eq!(signed.ends(0).json()["ordered"]["by"], "signed here");
    let proved = grid.run(&[&fetch[..], &genesis].concat()).ends(0).json();
    assert_eq!(proved["ordered"]["by"], "as a final state has it");
    let input = proved["ordered"]["input"].as_str().unwrap();
    assert!(order.contains(input), "{order} {input}");
    let told = grid.run(&fetch).ends(0).json();
    assert_eq!(told["ordered"]["by"], "as the API says");
    let other = order.replace(input, &zeros());
    let ran = grid.run(&[&fetch[..], &["--order", &other]].concat());
    let ran = ran.ends(3);
    assert!(ran.stderr.contains("its input is"), "{}", ran.stderr);
    grid.run(&[&fetch[..], &["--order", "proof"]].concat())
        .ends(2);

    // Who orders and waits may ask for the same.
    let order = ["infer", "mlp-digits", digit, "--yes", "--verify", "none"];
    let ran = grid.run(&[&order[..], &genesis].concat()).ends(0);
    let proved = "a final block has this result";
    assert!(ran.stderr.contains(proved), "{}", ran.stderr);

    // What is proved is in the JSON, and an API that tells otherwise is refused.
    let show = [&["job", "show", job, "--json"][..], &genesis].concat();
    let shown = grid.run(&show).ends(0).json();
    assert_eq!(shown["proved"]["state"], "paid");
    assert_eq!(shown["proved"]["escrow"], shown["escrow"]);
    assert_eq!(shown["proved"]["requestor"], shown["requestor"]);
    let of_job = format!("/v1/jobs/{job}");
    let liar = lying(&grid, move |path, told| {
        if path == of_job {
            told["state"] = json!("refunded");
        }
    });
    let ran = liar.run(&show).ends(3);
    assert!(ran.stderr.contains("it is refunded"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");

    // A record that is not the one of the proof.
    let liar = lying(&grid, |path, told| {
        if path.starts_with("/v1/proofs/job/") {
            change_content(told);
        }
    });
    let ran = liar.run(&[&fetch[..], &genesis].concat()).ends(3);
    assert!(ran.stderr.contains("is not the one"), "{}", ran.stderr);
}

#[test]
fn an_offer_is_shown_as_a_final_state_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(folder.path(), 1);
    let genesis = folder.path().join("genesis.bin");
    let genesis = ["--genesis", genesis.to_str().unwrap()];
    let list = ["provider", "list", "--json"];
    until("the offer stands", || {
        grid.run(&list).ends(0).json()[0]["id"].is_string()
    });
    let listed = grid.run(&list).ends(0).json();
    let offer = listed[0]["id"].as_str().unwrap();
    let show = [&["provider", "show", offer, "--json"][..], &genesis].concat();
    let shown = grid.run(&show).ends(0).json();
    assert!(shown["proved"]["height"].as_u64().unwrap() > 0);
    assert_eq!(shown["terms"], listed[0]["terms"]);
    let short = ["provider", "show", &offer[..10]];
    let told = grid.run(&short).ends(0);
    assert!(told.stdout.contains(offer), "{}", told.stdout);
    assert!(!told.stdout.contains("proved"), "{}", told.stdout);
    let proved = grid.run(&[&short[..], &genesis].concat()).ends(0);
    assert!(proved.stdout.contains("proved at"), "{}", proved.stdout);

    // A price, an owner and leases that it does not have.
    let path_of = format!("/v1/offers/{offer}");
    type Lie = fn(&mut Value);
    let lies: [(&str, Lie); 4] = [
        ("asks 0.000001 TGRID", |told| {
            told["terms"]["price_base"] = json!("0.000001");
        }),
        ("it is of 0x5", |told| {
            told["provider"] = json!(format!("0x{}", "5".repeat(40)));
        }),
        ("other terms", |told| told["terms"]["slots"] = json!(60)),
        ("7 leases", |told| told["leases"] = json!(7)),
    ];
    for (word, lie) in lies {
        let path_of = path_of.clone();
        let liar = lying(&grid, move |path, told| {
            if path == path_of {
                lie(told);
            }
        });
        let ran = liar.run(&show).ends(3);
        assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
    // A record that is not the one of the proof.
    let liar = lying(&grid, |path, told| {
        if path.starts_with("/v1/proofs/offer/") {
            change_content(told);
        }
    });
    let ran = liar.run(&show).ends(3);
    assert!(ran.stderr.contains("is not the one"), "{}", ran.stderr);
    grid.run(&["provider", "show", &zeros()]).ends(4);
}

/// A job that is paid, and the lease that it was paid for.
fn paid(grid: &Grid, genesis: &[&str]) -> (String, String) {
    let digit = root().join("examples/digit.json");
    let digit = digit.to_str().unwrap();
    let order = ["infer", "mlp-digits", digit, "--yes", "--detach", "--json"];
    let ordered = grid.run(&order).ends(0).json();
    let job = ordered["job"].as_str().unwrap().to_owned();
    let fetch = ["job", "fetch", &job, "--json"];
    grid.run(&[&fetch[..], genesis].concat()).ends(0);
    let shown = grid.run(&["job", "show", &job, "--json"]).ends(0).json();
    let leases = shown["leases"].as_array().unwrap();
    let ends = leases.iter().find(|it| it["end"] == json!("fulfilled"));
    let lease = ends.unwrap_or(&leases[0])["id"].as_str().unwrap();
    (job, lease.to_owned())
}

/// A job is shown with the price, the fee and the provider that were paid, or not at all.
fn shows_its_payment(grid: &Grid, genesis: &[&str], job: &str) {
    let show = ["job", "show", job];
    let proved = [&show[..], &["--json"], genesis].concat();
    let shown = grid.run(&proved).ends(0).json();
    assert_eq!(shown["proved"]["settlement"], shown["settlement"]);
    assert!(shown["settlement"]["price"].is_string(), "{shown}");
    let lease = shown["leases"].as_array().unwrap().last().unwrap();
    assert_eq!(shown["proved"]["provider"], lease["provider"]);
    let provider = lease["provider"].as_str().unwrap();
    let told = grid.run(&[&show[..], genesis].concat()).ends(0);
    let line = told.stdout.lines().find(|it| it.contains("its money"));
    let line = line.unwrap_or_default();
    assert!(line.contains("proved at"), "{}", told.stdout);
    assert!(line.contains(provider), "{}", told.stdout);

    type Lie = fn(&mut Value);
    let lies: [(&str, Lie); 5] = [
        ("its money went so: 7 TGRID", |told| {
            told["settlement"]["price"] = json!("7");
        }),
        ("its money went so", |told| {
            told["settlement"]["verification_fee"] = json!("7");
        }),
        ("its money went nowhere", |told| {
            told["settlement"] = Value::Null;
        }),
        ("5555 was paid for it", |told| {
            for lease in told["leases"].as_array_mut().unwrap() {
                lease["provider"] = json!(format!("0x{}", "5".repeat(40)));
            }
        }),
        ("something else was ordered", |told| {
            told["max_price"] = json!("7");
        }),
    ];
    let of_job = format!("/v1/jobs/{job}");
    for (word, lie) in lies {
        let of_job = of_job.clone();
        let liar = lying(grid, move |path, told| {
            if path == of_job {
                lie(told);
            }
        });
        let ran = liar.run(&proved).ends(3);
        assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn what_was_paid_to_whom_is_shown_as_final_states_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(folder.path(), 1);
    let genesis = folder.path().join("genesis.bin");
    let genesis = ["--genesis", genesis.to_str().unwrap()];
    let ((job, lease), (_, other)) = (paid(&grid, &genesis), paid(&grid, &genesis));
    assert_ne!(lease, other);
    shows_its_payment(&grid, &genesis, &job);
    // A receipt with another price.
    let of_receipt = format!("/v1/jobs/{job}/receipt");
    let liar = lying(&grid, move |path, told| {
        if path == of_receipt {
            told["settlement"]["price"] = json!("0.001");
        }
    });
    let fetch = ["job", "fetch", &job, "--json"];
    let ran = liar.run(&[&fetch[..], &genesis].concat()).ends(3);
    let told = "the API tells of";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");

    // The API shows that another lease was paid, which is true, and no payment of this job.
    let url = grid.url.clone();
    let other = format!("/v1/proofs/lease/{other}");
    let liar = lying(&grid, move |path, told| {
        if path == format!("/v1/proofs/lease/{lease}") {
            *told = honest(&url, &other).unwrap();
        }
    });
    let ran = liar.run(&[&fetch[..], &genesis].concat()).ends(3);
    assert!(
        ran.stderr.contains("not shown to be true"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stdout, "");
}
