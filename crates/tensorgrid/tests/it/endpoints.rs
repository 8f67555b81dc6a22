//! Endpoints by the command line: opened, asked, out of money, topped up, closed; through a crash of the grid.

use crate::http::post;
use crate::run::{Grid, Provider, root, until};
use serde_json::{Value, json};

/// TGRID of a text in base units of 10^-18, so that sums are exact.
fn units(amount: &Value) -> u128 {
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
    let people = grid.run(&["endpoint", "ask", &id, &digit]).ends(0);
    assert!(people.stdout.contains("1 answers"), "{}", people.stdout);
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
    assert!(units(&served["tensorgrid"]["price"]) < units(&by_job["tensorgrid"]["price"]));
    let (parts, ended) = post(&grid, "completions", &[], &body(true)).parts();
    assert!(ended && parts.len() > 3, "{parts:?}");
    let text = parts
        .iter()
        .filter_map(|it| it["choices"][0]["text"].as_str());
    assert_eq!(text.collect::<String>(), by_job["choices"][0]["text"]);
    let id = id.as_str().unwrap();
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
