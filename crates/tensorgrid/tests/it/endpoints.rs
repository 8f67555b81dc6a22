//! Endpoints by the command line: opened, asked, out of money, topped up, closed; through a crash of the grid.

use std::path::Path;

use crate::http::{call, post};
use crate::run::{Grid, Provider, root, until};
use serde_json::{Value, json};

/// TGRID of a text in base units of 10^-18, so that sums are exact.
pub(crate) fn units(amount: &Value) -> u128 {
    let text = amount.as_str().unwrap();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: u128 = format!("{part:0<18}").parse().unwrap();
    whole.parse::<u128>().unwrap() * 10_u128.pow(18) + part
}

fn digit() -> String {
    let path = root().join("examples/digit.json");
    path.to_str().unwrap().to_owned()
}

/// What an endpoint's job says.
fn job(grid: &Grid, id: &str) -> Value {
    grid.run(&["--json", "job", "show", id]).ends(0).json()
}

/// What cannot be asked of endpoints, and what is said of it.
fn refused(grid: &Grid, ended: &str) {
    let digit = digit();
    for (arguments, code, told) in [
        (
            &["endpoint", "ask", ended, &digit][..],
            5,
            "nobody serves endpoint",
        ),
        (&["endpoint", "close", "0x1234"], 4, "there is no job"),
        (
            &["endpoint", "open", "nothing", "--money", "1", "--yes"],
            4,
            "nothing",
        ),
        (
            &[
                "endpoint",
                "open",
                "mlp-digits",
                "--money",
                "1",
                "--hours",
                "0",
            ],
            2,
            "--hours 0",
        ),
    ] {
        let refused = grid.run(arguments).ends(code);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
}

/// What the ledger has not seen of what is owed is said with answers, and nothing is left out.
fn unclaimed_is_said((grid, folder): (&Grid, &Path), id: &str, asked: &Value) {
    let (owed, unclaimed) = (units(&asked["owed"]), units(&asked["unclaimed"]));
    let claimed = units(&job(grid, id)["leases"][0]["meter"]["vouchers"]);
    assert!(
        unclaimed <= owed && claimed >= owed - unclaimed,
        "{claimed} {asked}"
    );
    // With a genesis it is what a final state has.
    let genesis = folder.join("genesis.bin");
    let genesis = ["--genesis", genesis.to_str().unwrap()];
    let people = grid.run(&[&["endpoint", "ask", id, &digit()][..], &genesis].concat());
    let people = people.ends(0);
    for says in ["1 answers", "TGRID of vouchers not claimed yet"] {
        assert!(people.stdout.contains(says), "{}", people.stdout);
    }
}

#[test]
fn an_endpoint_is_opened_asked_and_closed_and_all_its_money_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(folder.path(), 2);
    let open = [
        "--json",
        "endpoint",
        "open",
        "mlp-digits",
        "--money",
        "3",
        "--yes",
    ];
    let opened = grid.run(&open).ends(0).json();
    let id = opened["id"].as_str().unwrap().to_owned();
    assert_eq!(opened["state"], "running");
    let digit = digit();
    let asked = grid.run(&[
        "--json",
        "endpoint",
        "ask",
        &id,
        &digit,
        "--times",
        "40",
        "--parallel",
        "4",
    ]);
    let asked = asked.ends(0).json();
    assert_eq!(
        (&asked["asked"], &asked["answered"]),
        (&40.into(), &40.into())
    );
    unclaimed_is_said((&grid, folder.path()), &id, &asked);
    // The same answer as a job over blocks.
    let once = grid.run(&[
        "--json",
        "infer",
        "mlp-digits",
        &digit,
        "--yes",
        "--verify",
        "recompute",
    ]);
    assert_eq!(asked["values"], once.ends(0).json()["values"]);
    let proved = grid
        .run(&["endpoint", "ask", &id, &digit, "--prove"])
        .ends(0);
    let says = &proved.stdout;
    assert!(says.contains("each proved and checked here"), "{says}");
    let listed = grid.run(&["endpoint", "list"]).ends(0);
    assert!(listed.stdout.contains("served"), "{}", listed.stdout);
    let more = grid
        .run(&["--json", "endpoint", "top-up", &id, "2"])
        .ends(0)
        .json();
    assert_eq!(units(&more["max_price"]), 5 * 10_u128.pow(18));
    let closed = grid
        .run(&["--json", "endpoint", "close", &id])
        .ends(0)
        .json();
    assert_eq!(closed["state"], "paid");
    let settled = &closed["settlement"];
    assert_eq!(
        units(&settled["price"]) + units(&settled["refund"]),
        5 * 10_u128.pow(18)
    );
    let meter = &closed["leases"][0]["meter"];
    assert_eq!(meter["answered"], 42);
    assert!(units(&meter["paid"]) > units(&meter["vouchers"]));
    refused(&grid, &id);
    assert!(grid.interrupt().success());
}

#[test]
fn a_language_model_writes_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(folder.path(), 2);
    let open = [
        "--json",
        "endpoint",
        "open",
        "gpt-bytes",
        "--money",
        "3",
        "--yes",
    ];
    let opened = grid.run(&open).ends(0).json();
    let id = opened["id"].as_str().unwrap().to_owned();
    let drawn = [
        "--text",
        "ROMEO:",
        "--tokens",
        "24",
        "--seed",
        &"7".repeat(64),
    ];
    let told = grid.run(&[&["--json", "endpoint", "write", &id][..], &drawn].concat());
    let told = told.ends(0).json();
    let plain = grid
        .run(&[&["endpoint", "write", &id][..], &drawn].concat())
        .ends(0);
    assert_eq!(
        plain.stdout.trim_end(),
        told["text"].as_str().unwrap().trim_end()
    );
    // The same tokens as a job over blocks, and the price of its share of the window.
    let job_written = [&["--json", "write", "gpt-bytes", "--yes"][..], &drawn].concat();
    let written = grid.run(&job_written).ends(0).json();
    assert_eq!(told["tokens"], written["tokens"]);
    let run = units(&job(&grid, &id)["leases"][0]["price"]);
    assert!(units(&told["price"]) <= run);
    grid.run(&["endpoint", "close", &id]).ends(0);
}

#[test]
fn an_endpoint_goes_on_after_its_provider_and_the_grid_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("grid");
    let grid = Grid::up(&data, 0);
    let key = folder.path().join("key");
    let provider = Provider::start(&grid, &key, "0.01", &[]);
    until("its offer stands", || {
        let listed = grid.run(&["--json", "provider", "list"]).ends(0).json();
        listed.as_array().is_some_and(|it| !it.is_empty())
    });
    let open = [
        "--json",
        "endpoint",
        "open",
        "mlp-digits",
        "--money",
        "3",
        "--yes",
    ];
    let opened = grid.run(&open).ends(0).json();
    let id = opened["id"].as_str().unwrap().to_owned();
    let digit = digit();
    let ask = ["--json", "endpoint", "ask", &id, &digit, "--times", "3"];
    let before = grid.run(&ask).ends(0).json();
    provider.kill();
    let provider = Provider::start(&grid, &key, "0.01", &[]);
    let mut after = Value::Null;
    until("the endpoint is served again", || {
        let ran = grid.run(&ask);
        let served = ran.code == 0;
        if served {
            after = ran.json();
        }
        served
    });
    assert_eq!(before["values"], after["values"]);
    assert_eq!(before["lease"], after["lease"]);
    grid.kill();
    provider.kill();
    let grid = Grid::up(&data, 0);
    let _provider = Provider::start(&grid, &key, "0.01", &[]);
    until(
        "the endpoint is served by the grid that was started again",
        || grid.run(&ask).code == 0,
    );
    let closed = grid
        .run(&["--json", "endpoint", "close", &id])
        .ends(0)
        .json();
    let settled = &closed["settlement"];
    assert_eq!(
        units(&settled["price"]) + units(&settled["refund"]),
        3 * 10_u128.pow(18)
    );
}

/// Without an endpoint each completion is a job; with one they go to its provider, and a stream begins before the text has ended.
#[test]
fn completions_of_the_openai_api_go_to_the_endpoint_of_their_caller() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(folder.path(), 1);
    let body = |stream: bool| json!({"model": "gpt-bytes", "prompt": "ROMEO:", "max_tokens": 30, "temperature": 0, "stream": stream});
    let by_job = post(&grid, "completions", &[], &body(false)).json();
    assert_eq!(by_job["tensorgrid"]["verify"], "none");
    let open = [
        "--json",
        "endpoint",
        "open",
        "gpt-bytes",
        "--money",
        "3",
        "--yes",
    ];
    let id = grid.run(&open).ends(0).json()["id"].clone();
    let mut served = Value::Null;
    until("completions go to the endpoint", || {
        served = post(&grid, "completions", &[], &body(false)).json();
        served["tensorgrid"]["verify"] == "endpoint"
    });
    assert_eq!(served["choices"], by_job["choices"]);
    assert_eq!(served["usage"], by_job["usage"]);
    assert_eq!(served["tensorgrid"]["job"], id);
    assert_eq!(served["tensorgrid"]["receipt"], Value::Null);
    assert!(by_job["tensorgrid"].get("signature").is_none(), "{by_job}");
    assert!(is_signed(&served["tensorgrid"]), "{served}");
    // It is the first of the endpoint, and nobody claimed it yet.
    assert_eq!(
        served["tensorgrid"]["unclaimed"],
        served["tensorgrid"]["price"]
    );
    assert!(units(&served["tensorgrid"]["price"]) < units(&by_job["tensorgrid"]["price"]));
    let (parts, ended) = post(&grid, "completions", &[], &body(true)).parts();
    assert!(ended && parts.len() > 3, "{parts:?}");
    let text = parts
        .iter()
        .filter_map(|it| it["choices"][0]["text"].as_str());
    assert_eq!(text.collect::<String>(), by_job["choices"][0]["text"]);
    let id = id.as_str().unwrap();
    several_by_the_endpoint(&grid, id);
    // The last answer is paid for within a second or two, by itself.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let closed = grid
        .run(&["--json", "endpoint", "close", id])
        .ends(0)
        .json();
    let meter = &closed["leases"][0]["meter"];
    assert!(meter["answered"].as_u64().unwrap() >= 2);
    // What is to be checked is a job, and so is everything without an endpoint.
    let mut checked = body(false);
    checked["tensorgrid"] = json!({"verify": "recompute"});
    let checked = post(&grid, "completions", &[], &checked).json();
    assert_eq!(checked["tensorgrid"]["verify"], "recompute");
    assert_eq!(checked["choices"], by_job["choices"]);
}

/// Whether what stands behind an answer says who signed it.
fn is_signed(ours: &Value) -> bool {
    let length = |field: &str| ours[field].as_str().map(str::len);
    let lengths = ["provider", "lease", "signature"].map(length);
    lengths == [Some(42), Some(66), Some(132)] && ours["number"].is_u64()
}

/// Several choices are several requests to the endpoint, each paid, and a stream has the pieces of all as they are written.
fn several_by_the_endpoint(grid: &Grid, id: &str) {
    let mut body = json!({
        "model": "gpt-bytes", "messages": [{"role": "user", "content": "Speak."}], "max_tokens": 20, "seed": 3, "n": 3,
    });
    let whole = post(grid, "chat/completions", &[], &body).json();
    let ours = &whole["tensorgrid"];
    let choices = ours["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3, "{whole}");
    let prices: u128 = choices.iter().map(|it| units(&it["price"])).sum();
    assert_eq!(units(&ours["price"]), prices);
    let by_it =
        |it: &Value| it["verify"] == "endpoint" && it["job"] == id && it["receipt"].is_null();
    assert!(choices.iter().all(by_it), "{whole}");
    let is_told = |it: &Value| is_signed(it) && units(&it["unclaimed"]) >= units(&it["price"]);
    assert!(choices.iter().all(is_told), "{whole}");
    assert_eq!(whole["usage"]["completion_tokens"], 60);
    body["stream"] = json!(true);
    let (parts, ended) = post(grid, "chat/completions", &[], &body).parts();
    assert!(ended);
    let mut written = [const { String::new() }; 3];
    let (mut order, mut roles) = (Vec::new(), 0);
    for part in &parts {
        let choice = &part["choices"][0];
        let index = choice["index"].as_u64().unwrap() as usize;
        roles += usize::from(choice["delta"]["role"] == "assistant");
        if let Some(piece) = choice["delta"]["content"]
            .as_str()
            .filter(|it| !it.is_empty())
        {
            written[index].push_str(piece);
            order.push(index);
        }
    }
    for (index, text) in written.iter().enumerate() {
        assert_eq!(whole["choices"][index]["message"]["content"], text.as_str());
    }
    assert_eq!(roles, 3);
    // The provider writes one after the other here: each comes in pieces, whichever it begins with.
    for index in 0..3 {
        let pieces = order.iter().filter(|it| **it == index).count();
        assert!(pieces > 1, "choice {index} came whole: {order:?}");
    }
}

/// A call of the development routes, which sign for the requestor account.
fn development(grid: &Grid, path: &str, body: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/json")];
    let path = format!("/v1/dev/endpoints{path}");
    let answer = call(grid, ("POST", &path), &headers, &body.to_string());
    (answer.status, answer.json())
}

/// All money that was made is somewhere.
pub(crate) fn conserved(grid: &Grid) {
    let status = call(grid, ("GET", "/v1/status"), &[], "").json();
    let totals = status["totals"].as_object().unwrap();
    let of = |name: &str| units(&totals[name]);
    let parts = totals.keys().filter(|name| *name != "minted");
    assert_eq!(of("minted"), parts.map(|name| of(name)).sum::<u128>());
}

/// What an endpoint's job says by the API.
pub(crate) fn by_api(grid: &Grid, id: &str) -> Value {
    call(grid, ("GET", &format!("/v1/jobs/{id}")), &[], "").json()
}

fn decimal(units: u128) -> String {
    let one = 10_u128.pow(18);
    format!("{}.{:018}", units / one, units % one)
}

#[test]
fn the_money_of_an_endpoint_ends_it_waits_and_goes_on_with_more() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(folder.path(), 1);
    let open = |money: &str, minutes: u64| {
        let body = json!({"model": "mlp-digits", "money": money, "minutes": minutes});
        development(&grid, "", &body)
    };
    let (status, opened) = open("3", 10);
    assert_eq!(status, 200, "{opened}");
    let first = opened["id"].as_str().unwrap().to_owned();
    until("it is served", || {
        by_api(&grid, &first)["state"] == "running"
    });
    let lease = by_api(&grid, &first)["leases"][0].clone();
    let minute = units(&lease["meter"]["minute"]);
    let (status, closing) = development(&grid, &format!("/{first}/close"), &json!({}));
    assert_eq!(status, 200, "{closing}");
    until("it has ended", || by_api(&grid, &first)["state"] == "paid");
    conserved(&grid);

    // Money for some seconds.
    let money = minute / 6 + units(&lease["price"]);
    let (status, opened) = open(&decimal(money), 10);
    assert_eq!(status, 200, "{opened}");
    let id = opened["id"].as_str().unwrap().to_owned();
    until("it is served", || by_api(&grid, &id)["state"] == "running");
    let digit = digit();
    let ask = ["--json", "endpoint", "ask", &id, &digit];
    let before = grid.run(&ask).ends(0).json();
    until("its money is spent", || {
        conserved(&grid);
        let job = by_api(&grid, &id);
        job["state"] == "queued" && units(&job["escrow"]) == 0
    });
    let spent = by_api(&grid, &id);
    assert_eq!(units(&spent["served"]), money);
    assert_eq!(spent["leases"][0]["end"], "fulfilled");
    let listed = grid.run(&["endpoint", "list"]).ends(0);
    assert!(
        listed.stdout.contains("waits for money"),
        "{}",
        listed.stdout
    );
    let refused = grid.run(&ask).ends(5);
    assert!(refused.stderr.contains("top-up"), "{}", refused.stderr);

    let more = json!({"money": "2"});
    let (status, raised) = development(&grid, &format!("/{id}/top-up"), &more);
    assert_eq!(status, 200, "{raised}");
    until("it is served again", || {
        by_api(&grid, &id)["state"] == "running"
    });
    conserved(&grid);
    let after = grid.run(&ask).ends(0).json();
    assert_eq!(before["values"], after["values"]);
    assert_ne!(
        before["lease"], after["lease"],
        "what was spent ended its lease"
    );
    let (status, _) = development(&grid, &format!("/{id}/close"), &json!({}));
    assert_eq!(status, 200);
    until("it has ended", || by_api(&grid, &id)["state"] == "paid");
    let settled = by_api(&grid, &id)["settlement"].clone();
    let all = money + 2 * 10_u128.pow(18);
    assert_eq!(units(&settled["price"]) + units(&settled["refund"]), all);
    conserved(&grid);
    remembered(&grid, &id);
    refused_on_behalf(&grid, &id);
}

/// What the node remembers of the job: it was served twice, and paid for each.
fn remembered(grid: &Grid, id: &str) {
    let path = format!("/v1/jobs/{id}/events");
    let told = call(grid, ("GET", &path), &[], "").json();
    let ordered = by_api(grid, id)["history"][0]["height"].as_u64().unwrap();
    assert!(told["since"].as_u64().unwrap() <= ordered, "{told}");
    let events = told["items"].as_array().unwrap();
    let of = |kind: &str| events.iter().filter(|it| it["kind"] == kind).count();
    assert!(of("endpoint_paid") >= 2, "{told}");
    let heights: Vec<u64> = events
        .iter()
        .map(|it| it["height"].as_u64().unwrap())
        .collect();
    assert!(
        heights.is_sorted() && heights.first() == Some(&ordered),
        "{told}"
    );
    let nobody = call(
        grid,
        ("GET", &format!("/v1/jobs/0x{}/events", "00".repeat(32))),
        &[],
        "",
    );
    assert_eq!(nobody.status, 404);
}

/// What is not done for clients, and why.
fn refused_on_behalf(grid: &Grid, ended: &str) {
    let digit = digit();
    let infer = [
        "--json",
        "infer",
        "mlp-digits",
        &digit,
        "--yes",
        "--verify",
        "recompute",
    ];
    let job = grid.run(&infer).ends(0).json()["receipt"]["job"]["id"].clone();
    let job = job.as_str().unwrap();
    let of = |money: &str, minutes: u64| json!({"model": "mlp-digits", "money": money, "minutes": minutes});
    for (path, body, told) in [
        (String::new(), of("1", 0), "1 to 10080 minutes"),
        (
            String::new(),
            json!({"model": "none", "money": "1"}),
            "there is no model",
        ),
        (format!("/{job}/close"), json!({}), "is no endpoint"),
        (
            format!("/{job}/top-up"),
            json!({"money": "1"}),
            "is no endpoint",
        ),
        (
            format!("/{ended}/top-up"),
            json!({"money": "1"}),
            "lock more money",
        ),
    ] {
        let (status, refused) = development(grid, &path, &body);
        assert!((400..500).contains(&status), "{path}: {refused}");
        assert!(
            refused["message"].as_str().unwrap().contains(told),
            "{path}: {refused}"
        );
    }
}
