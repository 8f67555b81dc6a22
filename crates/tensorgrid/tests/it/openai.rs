//! Text from the grid: the command that pays for it, and the OpenAI routes as a plain HTTP client sees them.

use std::path::Path;

use serde_json::{Value, json};
use tg_types::Digest;

use crate::http::{KEY, call, post, with_key};
use crate::run::{Grid, program, until};

fn jobs(grid: &Grid) -> usize {
    let list = grid.run(&["job", "list", "--json"]).ends(0);
    list.json().as_array().unwrap().len()
}

#[test]
fn text_is_written_paid_and_proved() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("data"), 1);
    written_by_the_command(&grid, folder.path());
    listed_and_completed(&grid);
    streamed(&grid);
    refused_in_openai_s_words(&grid);
    charged_once(&grid);
    several_at_once(&grid);
    likely(&grid);
    ended_by_strings(&grid);
    responded(&grid);
    measured(&grid);
}

/// The same request gives the same text with and without a proof, and the proof is accepted offline.
fn written_by_the_command(grid: &Grid, folder: &Path) {
    let seed = "07".repeat(32);
    let base = [
        "write",
        "gpt-bytes",
        "--text",
        "KING RICHARD:\n",
        "--yes",
        "--json",
        "-n",
        "40",
    ];
    let drawn = ["--temperature", "0.8", "--seed", &seed];
    let base = [&base[..], &drawn].concat();
    let plain = grid.run(&base).ends(0).json();
    assert_eq!(plain["tokens"].as_array().unwrap().len(), 40);
    let proof = folder.join("sequence.bin");
    let proved = ["--verify", "proof", "--proof-out", proof.to_str().unwrap()];
    let proved = grid.run(&[&base[..], &proved].concat()).ends(0).json();
    assert_eq!(plain["text"], proved["text"]);
    assert_eq!(proved["proof"]["verified"], true);
    let repeated = [&base[..], &["--verify", "recompute"]].concat();
    let repeated = grid.run(&repeated).ends(0).json();
    assert_eq!(plain["text"], repeated["text"]);
    let job = proved["job"].as_str().unwrap();
    let fetched = grid.run(&["job", "fetch", job, "--json"]).ends(0).json();
    assert_eq!(fetched["text"], proved["text"]);
    assert_eq!(fetched["proof"]["verified"], true);
    let public = folder.join("gpt.tgv");
    grid.run(&[
        "model",
        "show",
        "gpt-bytes",
        "--public-out",
        public.to_str().unwrap(),
    ])
    .ends(0);
    let verify = [
        "verify",
        proof.to_str().unwrap(),
        "--model",
        public.to_str().unwrap(),
    ];
    let verified = grid.run(&verify).ends(0);
    assert!(
        verified.stdout.contains("wrote 40 tokens"),
        "{}",
        verified.stdout
    );
    grid.run(&[&verify[..], &["--flip-byte", "300"]].concat())
        .ends(3);
    // A prompt that leaves no room for the request is refused before anything is ordered.
    let long = "x".repeat(250);
    let before = jobs(grid);
    grid.run(&["write", "gpt-bytes", "--text", &long, "--yes"])
        .ends(2);
    assert_eq!(jobs(grid), before);
}

fn listed_and_completed(grid: &Grid) {
    let models = call(grid, ("GET", "/openai/v1/models"), &[], "").json();
    let names: Vec<&str> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"gpt-bytes"), "{names:?}");
    // Who read the model says what it can be asked.
    let is_read = || {
        let one = call(grid, ("GET", "/openai/v1/models/gpt-bytes"), &[], "").json();
        assert_eq!(one["object"], "model");
        one["tensorgrid"]["calls"] == json!(["chat", "completions"])
    };
    until("the calls of gpt-bytes are listed", is_read);
    // Ours are where they were.
    assert!(call(grid, ("GET", "/v1/models"), &[], "").json()["items"].is_array());
    let body = json!({"model": "gpt-bytes", "prompt": "ROMEO:\n", "max_tokens": 12, "seed": 5, "temperature": 0.7});
    let answer = post(grid, "completions", &[], &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let first = answer.json();
    assert_eq!(first["object"], "text_completion");
    assert_eq!(first["choices"][0]["finish_reason"], "length");
    assert_eq!(
        first["usage"],
        json!({"prompt_tokens": 7, "completion_tokens": 12, "total_tokens": 19})
    );
    let ours = &first["tensorgrid"];
    assert_eq!(ours["verify"], "none");
    assert!(ours["price"].as_str().unwrap().parse::<f64>().unwrap() > 0.0);
    let receipt = call(grid, ("GET", ours["receipt"].as_str().unwrap()), &[], "").json();
    assert_eq!(receipt["job"]["id"], ours["job"]);
    // The seed decides the text.
    let again = post(grid, "completions", &[], &body).json();
    assert_eq!(first["choices"], again["choices"]);
    assert_ne!(ours["job"], again["tensorgrid"]["job"]);
    let tokens: Vec<u8> = b"ROMEO:\n".to_vec();
    let body = json!({"model": "gpt-bytes", "prompt": tokens, "max_tokens": 12, "seed": 5, "temperature": 0.7});
    assert_eq!(
        post(grid, "completions", &[], &body).json()["choices"],
        first["choices"]
    );
}

fn streamed(grid: &Grid) {
    let mut body = json!({
        "model": "gpt-bytes", "messages": [{"role": "user", "content": "Speak."}], "max_tokens": 10, "seed": 1,
        "temperature": 0,
    });
    let whole = post(grid, "chat/completions", &[], &body).json();
    assert_eq!(whole["object"], "chat.completion");
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let answer = post(grid, "chat/completions", &[], &body);
    assert!(answer.head.contains("text/event-stream"), "{answer:?}");
    let (parts, ended) = answer.parts();
    assert!(ended);
    let text = parts
        .iter()
        .filter_map(|part| part["choices"][0]["delta"]["content"].as_str());
    assert_eq!(
        text.collect::<String>(),
        whole["choices"][0]["message"]["content"]
    );
    let usage = parts.iter().find(|part| part["usage"].is_object()).unwrap();
    assert_eq!(usage["usage"], whole["usage"]);
    assert!(
        parts
            .iter()
            .any(|part| part["tensorgrid"]["job"].is_string())
    );
}

fn refused_in_openai_s_words(grid: &Grid) {
    let good = json!({"model": "gpt-bytes", "prompt": "a", "max_tokens": 2});
    let with = |name: &str, value: Value| {
        let mut body = good.clone();
        body[name] = value;
        body
    };
    let before = jobs(grid);
    for (body, status, code) in [
        (with("n", json!(9)), 400, "invalid_value"),
        (with("logprobs", json!(2)), 400, "unsupported_parameter"),
        (with("tools", json!([{}])), 400, "unsupported_parameter"),
        (with("model", json!("gpt-5")), 404, "model_not_found"),
        (with("model", json!("mlp-digits")), 400, "invalid_value"),
        (
            with("prompt", json!("x".repeat(256))),
            400,
            "context_length_exceeded",
        ),
        (with("prompt", json!([70_000])), 400, "invalid_value"),
        (
            with("tensorgrid", json!({"max_price": "100000"})),
            429,
            "insufficient_quota",
        ),
    ] {
        let answer = post(grid, "completions", &[], &body);
        let error = &answer.json()["error"];
        assert_eq!(
            (answer.status, error["code"].as_str()),
            (status, Some(code)),
            "{answer:?}"
        );
        assert!(error["message"].is_string() && error["type"].is_string());
    }
    for header in [&[][..], &[("authorization", "Bearer nobody")]] {
        let path = ("POST", "/openai/v1/completions");
        let answer = call(grid, path, header, &good.to_string());
        assert_eq!(answer.status, 401);
        assert_eq!(answer.json()["error"]["code"], "invalid_api_key");
    }
    let bearer = format!("Bearer {KEY}");
    let malformed = call(
        grid,
        ("POST", "/openai/v1/completions"),
        &[("authorization", &bearer)],
        "{",
    );
    assert_eq!(malformed.status, 400);
    // Refused by its length, before the body is read; no more of it is sent.
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-length", "9000000"),
    ];
    let large = call(grid, ("POST", "/openai/v1/completions"), &headers, "");
    assert_eq!(large.status, 413, "{large:?}");
    assert_eq!(large.json()["error"]["code"], "TG-API-003");
    refused_by_their_route(grid, &good);
    assert_eq!(jobs(grid), before, "nothing was ordered");
}

fn refused_by_their_route(grid: &Grid, good: &Value) {
    let words = json!({"model": "gpt-bytes", "input": "a"});
    let refused = post(grid, "embeddings", &[], &words);
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("it writes text"), "{refused:?}");
    let digits = json!({"model": "mlp-digits", "input": [1, 2]});
    let refused = post(grid, "embeddings", &[], &digits);
    assert!(refused.body.contains("it takes numbers"), "{refused:?}");
    assert_eq!(
        post(grid, "audio/speech", &[], good).json()["error"]["code"],
        "unknown_url"
    );
    let wrong_method = call(grid, ("GET", "/openai/v1/completions"), &[], "");
    assert_eq!(wrong_method.status, 405, "{wrong_method:?}");
    assert_eq!(
        wrong_method.json()["error"]["code"],
        "method_not_supported",
        "OpenAI's clients read no other form"
    );
}

/// A retry, and a key that is used again, are the same order.
fn charged_once(grid: &Grid) {
    let before = jobs(grid);
    let body = json!({"model": "gpt-bytes", "prompt": "once", "max_tokens": 3});
    let first = post(
        grid,
        "completions",
        &[("x-stainless-retry-count", "0")],
        &body,
    )
    .json();
    let again = post(
        grid,
        "completions",
        &[("x-stainless-retry-count", "1")],
        &body,
    )
    .json();
    assert_eq!(first["tensorgrid"]["job"], again["tensorgrid"]["job"]);
    assert_eq!(jobs(grid), before + 1);
    let key = [("idempotency-key", "k1")];
    let first = post(grid, "completions", &key, &body).json();
    assert_eq!(
        first["tensorgrid"],
        post(grid, "completions", &key, &body).json()["tensorgrid"]
    );
    assert_eq!(jobs(grid), before + 2);
    let other = json!({"model": "gpt-bytes", "prompt": "other", "max_tokens": 3});
    assert_eq!(post(grid, "completions", &key, &other).status, 400);
}

/// A text ends before the strings that are asked for; what was computed is counted.
fn ended_by_strings(grid: &Grid) {
    let mut body = json!({"model": "gpt-bytes", "prompt": "ROMEO:\n", "max_tokens": 12, "seed": 5, "temperature": 0.7});
    let whole = post(grid, "completions", &[], &body).json();
    let text = whole["choices"][0]["text"].as_str().unwrap();
    let letters: Vec<char> = text.chars().collect();
    let stop: String = letters[4..7].iter().collect();
    let before = text.find(&stop).unwrap();
    body["stop"] = json!(["never, never", stop]);
    let cut = post(grid, "completions", &[], &body).json();
    assert_eq!(cut["choices"][0]["text"], text[..before]);
    assert_eq!(cut["choices"][0]["finish_reason"], "stop");
    assert_eq!(cut["usage"], whole["usage"]);
    // A single byte is a token: the model stops there and computes nothing more.
    body["stop"] = json!(letters[4].to_string());
    let early = post(grid, "completions", &[], &body).json();
    let computed = early["usage"]["completion_tokens"].as_u64().unwrap();
    assert!(computed <= 5, "{early}");
    assert_eq!(early["choices"][0]["finish_reason"], "stop");
}

fn responded(grid: &Grid) {
    let mut body = json!({
        "model": "gpt-bytes", "input": "Speak.", "instructions": "Be brief.", "max_output_tokens": 6, "temperature": 0,
        "metadata": {"a": "b"},
    });
    let whole = post(grid, "responses", &[], &body).json();
    assert_eq!(whole["object"], "response", "{whole}");
    assert_eq!(whole["status"], "incomplete");
    assert_eq!(
        whole["incomplete_details"]["reason"], "max_output_tokens",
        "the model has no token that ends a text"
    );
    assert_eq!(whole["metadata"]["a"], "b");
    assert!(whole["tensorgrid"]["receipt"].is_string());
    let path = format!("responses/{}", whole["id"].as_str().unwrap());
    let kept = with_key(grid, "GET", &path);
    assert_eq!((kept.status, kept.json()), (200, whole.clone()));
    assert!(
        kept.head.contains("x-ratelimit-remaining-requests: "),
        "{kept:?}"
    );
    let stranger = call(grid, ("GET", &format!("/openai/v1/{path}")), &[], "");
    assert_eq!(stranger.status, 401);
    followed(grid, &whole);
    assert_eq!(with_key(grid, "DELETE", &path).json()["deleted"], true);
    for method in ["GET", "DELETE"] {
        let gone = with_key(grid, method, &path);
        assert_eq!(
            (gone.status, &gone.json()["error"]["code"]),
            (404, &json!("not_found"))
        );
    }
    body["stream"] = json!(true);
    body["store"] = json!(false);
    let streamed = post(grid, "responses", &[], &body);
    let data = streamed
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|it| serde_json::from_str(it).unwrap()).collect();
    let names = streamed
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("event: "));
    let names: Vec<&str> = names.collect();
    assert_eq!(names.len(), events.len());
    assert_eq!(
        names[..3],
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added"
        ]
    );
    assert!(names.contains(&"response.output_text.delta"), "{names:?}");
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    let text = |response: &Value| response["output"][0]["content"][0]["text"].clone();
    assert_eq!(text(&last["response"]), text(&whole));
    let path = format!("responses/{}", last["response"]["id"].as_str().unwrap());
    assert_eq!(
        with_key(grid, "GET", &path).status,
        404,
        "it was not to be stored"
    );
    body["previous_response_id"] = json!("resp_1");
    let error = post(grid, "responses", &[], &body);
    let error = (error.status, error.json()["error"]["param"].clone());
    assert_eq!(error, (404, json!("previous_response_id")));
}

/// A response goes on with the conversation of another; instructions are not handed on.
fn followed(grid: &Grid, first: &Value) {
    let said = first["output"][0]["content"][0]["text"].as_str().unwrap();
    let base = json!({"model": "gpt-bytes", "max_output_tokens": 4, "temperature": 0});
    let with = |name: &str, input: Value| {
        let mut body = base.clone();
        body["input"] = input;
        body["previous_response_id"] = json!(name);
        post(grid, "responses", &[], &body).json()
    };
    let next = with(first["id"].as_str().unwrap(), json!("Again."));
    assert_eq!(next["previous_response_id"], first["id"], "{next}");
    let mut spelled = base.clone();
    spelled["input"] = json!([
        {"role": "user", "content": "Speak."}, {"role": "assistant", "content": said}, {"role": "user", "content": "Again."},
    ]);
    let spelled = post(grid, "responses", &[], &spelled).json();
    assert_eq!(
        next["output"][0]["content"],
        spelled["output"][0]["content"]
    );
    assert_eq!(next["usage"], spelled["usage"]);
}

fn measured(grid: &Grid) {
    let answer = call(grid, ("GET", "/metrics"), &[], "");
    assert_eq!(answer.status, 200);
    for name in [
        "tensorgrid_block_height ",
        "tensorgrid_jobs{state=\"queued\"} ",
        "tensorgrid_api_calls_total{class=\"2xx\"} ",
    ] {
        assert!(answer.body.contains(name), "{name}: {}", answer.body);
    }
    assert_eq!(call(grid, ("GET", "/healthz"), &[], "").status, 200);
}

#[test]
fn keys_are_shown_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let make = |name: &str| {
        let mut command = program();
        command
            .args(["api-key", "new"])
            .arg(&file)
            .args(["--name", name, "--limit", "2", "--json"]);
        crate::run::Ran::of(&command.output().unwrap())
    };
    let made = make("alice").ends(0).json();
    let key = made["key"].as_str().unwrap();
    assert!(key.starts_with("tg-") && key.len() == 67, "{key}");
    assert!(!std::fs::read_to_string(&file).unwrap().contains(&key[3..]));
    make("alice").ends(2);
    make("bob").ends(0);
}

/// Several choices are several jobs, each with draws of its own that follow from the seed and its index.
fn several_at_once(grid: &Grid) {
    let mut body = json!({"model": "gpt-bytes", "prompt": "ROMEO:\n", "max_tokens": 12, "seed": 5, "temperature": 0.9});
    let one = post(grid, "completions", &[], &body).json();
    let before = jobs(grid);
    body["n"] = json!(3);
    let key = [("idempotency-key", "three")];
    let three = post(grid, "completions", &key, &body).json();
    let choices = three["choices"].as_array().unwrap();
    let texts: Vec<&Value> = choices.iter().map(|it| &it["text"]).collect();
    assert_eq!(texts.len(), 3, "{three}");
    assert_eq!(
        texts[0], &one["choices"][0]["text"],
        "the first is that of a request for one"
    );
    assert!(texts[1] != texts[0] && texts[2] != texts[1], "{three}");
    assert_eq!(
        three["usage"],
        json!({"prompt_tokens": 21, "completion_tokens": 36, "total_tokens": 57})
    );
    // Each is a job that is paid, and they cost what they cost together.
    assert_eq!(jobs(grid), before + 3);
    let ours = three["tensorgrid"]["choices"].as_array().unwrap();
    let price = |it: &Value| it["price"].as_str().unwrap().parse::<f64>().unwrap();
    let sum: f64 = ours.iter().map(price).sum();
    assert!((sum - price(&three["tensorgrid"])).abs() < 1e-12 && sum > 0.0);
    for (index, it) in ours.iter().enumerate() {
        let receipt = call(grid, ("GET", it["receipt"].as_str().unwrap()), &[], "").json();
        assert_eq!(
            (&receipt["job"]["id"], &it["index"]),
            (&it["job"], &json!(index))
        );
    }
    // The same request is the same order.
    assert_eq!(post(grid, "completions", &key, &body).json(), three);
    assert_eq!(jobs(grid), before + 3);
    // The second by its own seed, as the documents say it.
    let seed = Digest::of_blob(&5_i64.to_le_bytes());
    let second = Digest::of_blob(&[&seed.as_bytes()[..], &1_u32.to_le_bytes()].concat());
    let words = [
        "write",
        "gpt-bytes",
        "--text",
        "ROMEO:\n",
        "-n",
        "12",
        "--temperature",
        "0.9",
    ];
    let seed = second.to_string();
    let written = [
        &words[..],
        &["--seed", seed.trim_start_matches("0x"), "--yes", "--json"],
    ];
    let written = grid.run(&written.concat()).ends(0).json();
    assert_eq!(&written["text"], texts[1]);
    several_streamed(grid, &body, &texts);
    body["tensorgrid"] = json!({"max_price": "40000"});
    let before = jobs(grid);
    let refused = post(grid, "completions", &[], &body);
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(
        jobs(grid),
        before,
        "none is ordered of several that the limit does not allow"
    );
}

fn several_streamed(grid: &Grid, body: &Value, texts: &[&Value]) {
    let mut body = body.clone();
    body["stream"] = json!(true);
    let (parts, ended) = post(grid, "completions", &[], &body).parts();
    assert!(ended);
    let mut written = vec![String::new(); texts.len()];
    let mut finished = Vec::new();
    for part in &parts {
        let choice = &part["choices"][0];
        let index = choice["index"].as_u64().unwrap();
        written[index as usize].push_str(choice["text"].as_str().unwrap());
        if choice["finish_reason"].is_string() {
            finished.push(index);
        }
    }
    let expected: Vec<&str> = texts.iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(written, expected);
    finished.sort_unstable();
    assert_eq!(finished, [0, 1, 2]);
}

/// Log probabilities are those of the scores that a proof shows; without one there are none.
fn likely(grid: &Grid) {
    let body = json!({
        "model": "gpt-bytes", "prompt": "ROMEO:\n", "max_tokens": 6, "temperature": 0, "logprobs": 3,
        "tensorgrid": {"verify": "proof"},
    });
    let text = post(grid, "completions", &[], &body).json();
    let logprobs = &text["choices"][0]["logprobs"];
    let tokens = logprobs["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 6, "{text}");
    let joined: String = tokens.iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(text["choices"][0]["text"], joined);
    assert_eq!(logprobs["text_offset"], json!([0, 1, 2, 3, 4, 5]));
    let top = logprobs["top_logprobs"].as_array().unwrap();
    for (index, it) in top.iter().enumerate() {
        let own = logprobs["token_logprobs"][index].as_f64().unwrap();
        let all: Vec<f64> = it
            .as_object()
            .unwrap()
            .values()
            .map(|it| it.as_f64().unwrap())
            .collect();
        // At temperature 0 the likeliest is written.
        assert!(
            all.len() == 3 && all.iter().all(|it| *it <= own && *it <= 0.0),
            "{it}"
        );
        assert!(all.iter().map(|it| it.exp()).sum::<f64>() <= 1.0 + 1e-9);
    }
    let ours = &text["tensorgrid"]["logprobs"];
    assert!(
        ours["among"].as_u64() <= ours["vocabulary"].as_u64(),
        "{ours}"
    );
    let chat = json!({
        "model": "gpt-bytes", "messages": [{"role": "user", "content": "Speak."}], "max_tokens": 4, "temperature": 0,
        "logprobs": true, "top_logprobs": 2, "stream": true, "tensorgrid": {"verify": "proof"},
    });
    let (parts, ended) = post(grid, "chat/completions", &[], &chat).parts();
    assert!(ended);
    let listed = parts
        .iter()
        .find(|it| it["choices"][0]["logprobs"].is_object());
    let choice = &listed.unwrap()["choices"][0];
    let content = choice["logprobs"]["content"].as_array().unwrap();
    let joined: String = content
        .iter()
        .map(|it| it["token"].as_str().unwrap())
        .collect();
    assert_eq!(
        (content.len(), &choice["delta"]["content"]),
        (4, &json!(joined))
    );
    assert_eq!(content[0]["top_logprobs"].as_array().unwrap().len(), 2);
    assert_eq!(content[0]["top_logprobs"][0]["token"], content[0]["token"]);
}
