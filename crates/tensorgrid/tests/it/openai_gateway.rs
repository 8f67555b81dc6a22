//! The OpenAI routes of a gateway, which orders by its own view of the chain and is killed in the middle of a batch.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tg_types::Digest;

use crate::http::{KEY, post, with_key};
use crate::openai_batches::{begin, line, lines, until};
use crate::processes::{Net, Process, gateway_height, offers};

fn completion(seed: usize) -> Value {
    // Without a check nothing is ordered on a network that is not one for development.
    json!({
        "model": "gpt-bytes", "prompt": "ROMEO:\n", "max_tokens": 3, "seed": seed,
        "tensorgrid": {"verify": "recompute"},
    })
}

/// A key of the requestor's account, which may spend so much.
pub(crate) fn keys(folder: &Path, net: &Net, limit: &str) -> PathBuf {
    let path = folder.join("keys.json");
    let digest = Digest::of_blob(KEY.as_bytes()).to_string();
    let key = json!({"name": "tester", "digest": digest, "limit": limit, "wallet": net.told["requestor"]["key"]});
    std::fs::write(&path, json!({"keys": [key]}).to_string()).unwrap();
    path
}

/// What the session keys of the requestor have cost.
fn spent(net: &Net) -> Vec<String> {
    let address = net.told["requestor"]["address"].as_str().unwrap();
    let list = ["wallet", "session", "list", address, "--json"];
    let keys = net.ask_gateway(0, &list).ends(0).json();
    let keys = keys.as_array().unwrap().iter();
    keys.filter(|it| it["scope"] == "order")
        .map(|it| it["spent"].as_str().unwrap().to_owned())
        .collect()
}

/// A gateway makes a session key for an account that orders, which signs the orders after that.
fn orders_by_a_session_key(net: &Net, api: &str) {
    let (api, mut seed) = (api.to_owned(), 100);
    crate::run::until("a session key signs orders", || {
        seed += 1;
        let answer = post(&api, "completions", &[], &completion(seed));
        assert_eq!(answer.status, 200, "{answer:?}");
        spent(net).iter().any(|it| it != "0")
    });
}

#[test]
fn a_gateway_orders_for_callers_and_is_killed_in_a_batch() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--providers", "1", "--gateways", "1", "--no-encryption"];
    let net = Net::found(&folder.path().join("net"), &flags);
    let _validators: Vec<Process> = (0..4).map(|index| net.validator(index)).collect();
    let keys = keys(folder.path(), &net, "20");
    let more = ["--openai-keys", keys.to_str().unwrap()];
    let mut gateway = net.gateway_with(0, &more);
    crate::run::until("the gateway sees blocks", || gateway_height(&net, 0) > 0);
    net.ask_gateway(0, &["model", "add-builtin"]).ends(0);
    let _provider = net.provider(0);
    crate::run::until("the offer stands", || offers(&net) == 1);
    let api = net.told["gateways"][0]["api"].as_str().unwrap().to_owned();
    let answer = post(&api, "completions", &[], &completion(0));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["tensorgrid"]["verify"], "recompute");
    let before = net.jobs(0).len();
    let content: String = (0..8)
        .map(|seed| line(&seed.to_string(), &completion(seed)))
        .collect();
    let id = begin(&api, &content);
    until(&api, &id, |batch| {
        batch["request_counts"]["completed"].as_u64() >= Some(1)
    });
    gateway.kill();
    gateway = net.gateway_with(0, &more);
    crate::run::until("the gateway is back", || gateway_height(&net, 0) > 0);
    let batch = until(&api, &id, |batch| batch["status"] == "completed");
    assert_eq!(
        batch["request_counts"],
        json!({"total": 8, "completed": 8, "failed": 0}),
        "{:?}",
        with_key(&api, "GET", "files")
    );
    let all = lines(&api, &batch["output_file_id"]);
    // The seed decides the text, whichever process ordered it.
    let text = |body: &Value| body["choices"][0]["text"].clone();
    assert_eq!(text(&all[0]["response"]["body"]), text(&answer.json()));
    assert_eq!(net.jobs(0).len(), before + 8, "nothing was ordered twice");
    orders_by_a_session_key(&net, &api);
    assert!(gateway.terminate().success());
}
