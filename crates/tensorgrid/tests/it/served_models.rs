//! Served models end to end: providers with servers of their own, asked through the OpenAI API of a gateway.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tg_provider::{
    Agent, AgentConfig, Execution, PieceTaker, Progress, ServedFuture, Shutdown, Task, WorkError,
    Worker,
};
use tg_sdk::dto::{FaucetRequestDto, ModelStateDto};
use tg_sdk::endpoint::served::ServedAnswer;
use tg_sdk::{Client, Transaction, Wallet};
use tg_types::{
    Amount, Digest, DurationMs, Encode as _, Label, Machine, ModeSet, OfferTerms, Pricing,
    ServedCard, TimestampMs, TokenUsage, VerificationMode,
};

use crate::http::{Answer, Served, call, post};
use crate::openai_gateway::keys;
use crate::processes::{Net, Process, gateway_height};
use crate::run::{Grid, Provider, until};
use crate::stub::{Behaviour, StubServer};

/// Base units of a TGRID.
const TGRID: u128 = 1_000_000_000_000_000_000;

/// Base units of a text of TGRID, so that sums are exact.
fn units(amount: &Value) -> u128 {
    let text = amount.as_str().unwrap();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: u128 = format!("{part:0<18}").parse().unwrap();
    whole.parse::<u128>().unwrap() * TGRID + part
}

/// What a usage costs at so many TGRID for a million tokens of prompts and of answers.
fn price(usage: &Value, (prompt, completion): (u128, u128)) -> u128 {
    let count = |name: &str| u128::from(usage[name].as_u64().unwrap());
    let millionth = TGRID / 1_000_000;
    (count("prompt_tokens") * prompt + count("completion_tokens") * completion) * millionth
}

/// A provider that serves `name` by a stub, for so many TGRID a million tokens of prompts and of answers.
fn provider(
    grid: &Grid,
    (folder, name): (&Path, &str),
    stub: &StubServer,
    (prompt, completion): (u32, u32),
    more: &[&str],
) -> Provider {
    let served = format!("{name}={}#its-own", stub.url());
    let prices = [prompt.to_string(), completion.to_string()];
    let flags = [
        "--serve-openai",
        &served,
        "--prompt-price",
        &prices[0],
        "--completion-price",
        &prices[1],
        "--context",
        "4096",
        "--calls",
        "chat,completions,embeddings",
        "--upstream-timeout",
        "3",
        "--accounts-at-once",
        "4",
    ];
    let key = folder.join(format!("key-{prompt}-{completion}"));
    Provider::start(grid, &key, "0", &[&flags[..], more].concat())
}

/// How the list of models shows a name.
fn listed(grid: &impl Served, name: &str) -> Option<Value> {
    let models = call(grid, ("GET", "/openai/v1/models"), &[], "").json();
    let data = models["data"].as_array().unwrap().clone();
    data.into_iter().find(|it| it["id"] == name)
}

fn served_by(grid: &impl Served, name: &str, providers: u64) {
    until("the model is served", || {
        listed(grid, name).is_some_and(|it| it["tensorgrid"]["providers"] == providers)
    });
}

fn chat(grid: &impl Served, text: &str, more: &Value) -> Answer {
    let mut body = json!({"model": "parrot", "messages": [{"role": "user", "content": text}]});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    post(grid, "chat/completions", &[], &body)
}

fn right(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The endpoint's job, ended, with all its money accounted for.
fn closed(grid: &Grid, id: &str) -> Value {
    // The last answer is paid for within a second or two, by itself.
    std::thread::sleep(Duration::from_secs(3));
    let closed = grid
        .run(&["--json", "endpoint", "close", id])
        .ends(0)
        .json();
    assert_eq!(closed["state"], "paid");
    closed
}

#[test]
fn the_cheaper_of_two_providers_is_asked_until_it_is_killed_and_each_token_is_paid() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("grid"), 0);
    let (cheap, dear) = (StubServer::start("its-own"), StubServer::start("its-own"));
    let own = folder.path();
    let first = provider(&grid, (own, "parrot"), &cheap, (1, 2), &[]);
    let second = provider(&grid, (own, "parrot"), &dear, (3, 5), &[]);
    served_by(&grid, "parrot", 2);
    let shown = listed(&grid, "parrot").unwrap()["tensorgrid"].clone();
    assert_eq!(shown["verify"], "none");
    assert_eq!(shown["checked"], false);
    assert_eq!(shown["prompt_price_per_million"], "1");
    assert_eq!(shown["calls"], json!(["chat", "completions", "embeddings"]));
    let mut due = 0;
    let mut pay = |answer: &Value| {
        let paid = units(&answer["tensorgrid"]["price"]);
        assert_eq!(paid, price(&answer["usage"], (1, 2)), "{answer}");
        due += paid;
    };
    let whole = right(&chat(&grid, "one two three", &json!({})));
    assert_eq!(whole["choices"][0]["message"]["content"], "three two one ");
    assert_eq!(whole["usage"]["total_tokens"], 8);
    assert_eq!(
        (&whole["model"], &whole["object"]),
        (&json!("parrot"), &json!("y"))
    );
    let ours = &whole["tensorgrid"];
    assert_eq!(ours["verify"], "none");
    assert_eq!(
        (&ours["receipt"], &ours["failed"]),
        (&Value::Null, &json!([]))
    );
    pay(&whole);
    for answer in passed_through(&grid, &cheap) {
        pay(&answer);
    }
    streamed(&grid, &mut pay);
    charged_once(&grid, &cheap, &mut pay);
    written_by_responses(&grid, &mut pay);
    assert!(dear.requests().is_empty(), "the cheaper one was asked");
    pinned(&grid, &ours["provider"], &dear);
    let job = ours["job"].as_str().unwrap();
    let settled = closed(&grid, job);
    assert_eq!(units(&settled["settlement"]["price"]), due);
    let all = units(&settled["max_price"]);
    assert_eq!(units(&settled["settlement"]["refund"]), all - due);
    first.kill();
    let began = Instant::now();
    let moved = right(&chat(&grid, "four five", &json!({})));
    assert_eq!(moved["choices"][0]["message"]["content"], "five four ");
    assert_ne!(moved["tensorgrid"]["provider"], ours["provider"]);
    assert!(
        began.elapsed() < Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(dear.requests().len(), 3);
    let settled = closed(&grid, moved["tensorgrid"]["job"].as_str().unwrap());
    let paid = units(&settled["settlement"]["price"]);
    // With the two that named it: a word of a prompt has three tokens here, and its answer one.
    let named = json!({"prompt_tokens": 3, "completion_tokens": 1});
    let due = price(&moved["usage"], (3, 5)) + 2 * price(&named, (3, 5));
    assert_eq!(paid, due);
    let (status, told) = second.interrupt();
    assert!(status.success(), "{told}");
}

/// Who names a provider, or its card, asks no other.
fn pinned(grid: &Grid, cheap: &Value, stub: &StubServer) {
    let models = grid.run(&["--json", "model", "list"]).ends(0).json();
    let models = models.as_array().unwrap();
    let other = models
        .iter()
        .find(|it| it["name"] == "parrot" && it["owner"] != *cheap);
    let other = other.unwrap();
    for named in [
        json!({"tensorgrid": {"providers": [other["owner"]]}}),
        json!({"model": other["id"]}),
    ] {
        let answer = right(&chat(grid, "word", &named));
        assert_eq!(answer["tensorgrid"]["provider"], other["owner"]);
    }
    assert_eq!(stub.requests().len(), 2);
    let nobody = json!({"tensorgrid": {"providers": [format!("0x{}", "1".repeat(40))]}});
    let refused = chat(grid, "word", &nobody);
    assert_eq!(refused.status, 503, "{refused:?}");
}

/// What is asked of a served model goes to its server as it was written, but for what is ours.
fn passed_through(grid: &Grid, stub: &StubServer) -> Vec<Value> {
    let tools = json!([{"type": "function", "function": {"name": "look"}}]);
    let asked = json!({"tools": tools, "user": "someone", "response_format": {"type": "json_object"},
        "tensorgrid": {"verify": "none", "max_price": "0.5"}});
    let called = right(&chat(grid, "look", &asked));
    assert_eq!(called["choices"][0]["finish_reason"], "tool_calls");
    let function = &called["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(function["name"], "look");
    let sent = stub.requests().pop().unwrap();
    assert_eq!(
        (&sent["tools"], &sent["model"]),
        (&tools, &json!("its-own"))
    );
    assert_eq!(
        (&sent["user"], &sent["tensorgrid"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(sent["response_format"]["type"], "json_object");
    let body = json!({"model": "parrot", "prompt": "a b c", "max_tokens": 2});
    let text = right(&post(grid, "completions", &[], &body));
    assert_eq!(text["choices"][0]["text"], "c b ");
    assert_eq!(text["choices"][0]["finish_reason"], "length");
    let body = json!({"model": "parrot", "input": ["a", "bcd"]});
    let mut vectors = right(&post(grid, "embeddings", &[], &body));
    assert_eq!(vectors["data"][1]["embedding"], json!([3, 1.0]));
    assert_eq!(vectors["tensorgrid"]["verify"], "none");
    vectors["usage"]["completion_tokens"] = json!(0);
    // What cannot be checked is not said to be, and a price that is too low is.
    for (asked, param) in [
        (json!({"verify": "proof"}), "tensorgrid.verify"),
        (json!({"max_price": "0.0000001"}), "tensorgrid.max_price"),
    ] {
        let refused = chat(grid, "x", &json!({"tensorgrid": asked}));
        assert_eq!(refused.status, 400);
        assert_eq!(refused.json()["error"]["param"], param);
    }
    vec![called, text, vectors]
}

fn streamed(grid: &Grid, pay: &mut impl FnMut(&Value)) {
    let asked = json!({"stream": true, "stream_options": {"include_usage": true}});
    let (parts, ended) = chat(grid, "one two three four", &asked).parts();
    assert!(ended && parts.len() > 4, "{parts:?}");
    let text = parts
        .iter()
        .filter_map(|it| it["choices"][0]["delta"]["content"].as_str());
    assert_eq!(text.collect::<String>(), "four three two one ");
    let behind = parts
        .iter()
        .find(|it| it["tensorgrid"].is_object())
        .unwrap();
    assert_eq!(behind["choices"][0]["finish_reason"], "stop");
    let mut last = parts.last().unwrap().clone();
    last["tensorgrid"] = behind["tensorgrid"].clone();
    pay(&last);
    let asked = json!({"model": "parrot", "prompt": "a b", "stream": true});
    let (parts, _) = post(grid, "completions", &[], &asked).parts();
    let text = parts
        .iter()
        .filter_map(|it| it["choices"][0]["text"].as_str());
    assert_eq!(text.collect::<String>(), "b a ");
    let mut paid = parts
        .iter()
        .find(|it| it["tensorgrid"].is_object())
        .unwrap()
        .clone();
    paid["usage"] = json!({"prompt_tokens": 4, "completion_tokens": 2});
    pay(&paid);
}

/// A request with an idempotency key is asked and paid once.
fn charged_once(grid: &Grid, stub: &StubServer, pay: &mut impl FnMut(&Value)) {
    let before = stub.requests().len();
    let body = json!({"model": "parrot", "messages": [{"role": "user", "content": "once"}]});
    let ask = || {
        post(
            grid,
            "chat/completions",
            &[("idempotency-key", "k1")],
            &body,
        )
    };
    let (one, two) = (right(&ask()), right(&ask()));
    assert_eq!(one, two);
    assert_eq!(stub.requests().len(), before + 1);
    pay(&one);
}

fn written_by_responses(grid: &Grid, pay: &mut impl FnMut(&Value)) {
    let body = json!({"model": "parrot", "input": "ping pong", "instructions": "Speak."});
    let mut answer = right(&post(grid, "responses", &[], &body));
    assert_eq!(answer["output"][0]["content"][0]["text"], "pong ping ");
    assert_eq!(answer["tensorgrid"]["verify"], "none");
    let usage = answer["usage"].clone();
    answer["usage"] = json!({
        "prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"],
    });
    pay(&answer);
}

/// A server is asked for what is charged, and what it says beyond that is not given; the price of the one answer that is.
fn bounded(grid: &Grid, stub: &StubServer) -> u128 {
    // An answer of more tokens than were asked for is not given, and nothing is charged for it.
    stub.behave(Behaviour::Exaggerates);
    let large = chat(grid, "a b", &json!({"max_tokens": 2}));
    assert_eq!(large.status, 503, "{large:?}");
    let text = large.json()["error"]["message"].to_string();
    assert!(text.contains("none was paid"), "{text}");
    stub.behave(Behaviour::Right);
    // Limits under names that only some servers know reach none.
    for name in ["n_predict", "min_tokens"] {
        let before = stub.requests().len();
        let refused = chat(grid, "a b", &json!({"max_tokens": 1, name: 8_000}));
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(
            refused.json()["error"]["message"]
                .to_string()
                .contains(name)
        );
        assert_eq!(stub.requests().len(), before);
    }
    let asked = json!({"max_tokens": 1, "max_completion_tokens": 8_000});
    let least = right(&chat(grid, "a b", &asked));
    let sent = stub.requests().pop().unwrap();
    assert_eq!(
        (&sent["max_tokens"], &sent["max_completion_tokens"]),
        (&json!(1), &json!(1))
    );
    units(&least["tensorgrid"]["price"])
}

#[test]
fn a_server_that_misbehaves_costs_nothing_and_takes_nothing_down() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("grid"), 0);
    let stub = StubServer::start("its-own");
    let key = folder.path().join("server-key");
    std::fs::write(&key, "secret\n").unwrap();
    let more = ["--upstream-key-file", key.to_str().unwrap()];
    let _provider = provider(&grid, (folder.path(), "parrot"), &stub, (1, 1), &more);
    served_by(&grid, "parrot", 1);
    let first = right(&chat(&grid, "a b", &json!({})));
    let job = first["tensorgrid"]["job"].as_str().unwrap().to_owned();
    assert!(stub.keys().iter().all(|it| it == "bearer secret"));
    let mut due = units(&first["tensorgrid"]["price"]);
    for (behaviour, stream) in [
        (Behaviour::Rubbish, false),
        (Behaviour::Rubbish, true),
        (Behaviour::OtherJson, false),
        (Behaviour::Oversized, false),
        (Behaviour::Hangs, false),
        (Behaviour::Endless, true),
        (Behaviour::Breaks, true),
    ] {
        stub.behave(behaviour);
        let asked = json!({"stream": stream, "max_tokens": 50});
        let answer = chat(&grid, "a b", &asked);
        match stream {
            false => {
                assert_eq!(answer.status, 503, "{behaviour:?}: {answer:?}");
                let error = &answer.json()["error"];
                assert_eq!(error["code"], "service_unavailable");
                let text = error["message"].as_str().unwrap();
                assert!(text.contains("none was paid"), "{text}");
            }
            true => {
                let (parts, ended) = answer.parts();
                assert!(ended, "{behaviour:?}");
                assert!(parts.last().unwrap()["error"].is_object(), "{parts:?}");
            }
        }
        stub.behave(Behaviour::Right);
        let again = right(&chat(&grid, "a b", &json!({})));
        assert_eq!(again["choices"][0]["message"]["content"], "b a ");
        assert_eq!(
            again["tensorgrid"]["job"],
            job.as_str(),
            "the lease goes on"
        );
        due += units(&again["tensorgrid"]["price"]);
    }
    // What the server refuses is the caller's to read, and costs nothing.
    stub.behave(Behaviour::Refuses);
    let refused = chat(&grid, "a b", &json!({}));
    assert_eq!(refused.status, 400);
    let error = &refused.json()["error"];
    assert_eq!(error["message"], "the context is too small for this");
    due += bounded(&grid, &stub);
    let settled = closed(&grid, &job);
    assert_eq!(units(&settled["settlement"]["price"]), due);
}

#[test]
fn what_a_server_does_not_have_is_not_offered() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("grid"), 0);
    let stub = StubServer::start("its-own");
    let served = format!("parrot={}#another", stub.url());
    let key = folder.path().join("key");
    let key = key.to_str().unwrap();
    let refused = grid.run(&["provider", "--key", key, "--serve-openai", &served]);
    let refused = refused.ends(5);
    assert!(
        refused.stderr.contains("no model `another`"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("its-own"), "{}", refused.stderr);
    for (wrong, told) in [
        ("parrot", "names no model"),
        ("parrot=ftp://example.org/v1", "https://HOST:PORT/v1"),
        (
            "parrot=http://127.0.0.1:1/v1",
            "reach http://127.0.0.1:1/v1",
        ),
    ] {
        let refused = grid.run(&["provider", "--key", key, "--serve-openai", wrong]);
        assert!(
            refused.code != 0 && refused.stderr.contains(told),
            "{}",
            refused.stderr
        );
    }
    let _provider = provider(&grid, (folder.path(), "parrot"), &stub, (1, 1), &[]);
    served_by(&grid, "parrot", 1);
    right(&chat(&grid, "a", &json!({})));
    for behaviour in [Behaviour::Down, Behaviour::OtherModel] {
        stub.behave(behaviour);
        until("the offer is withdrawn", || {
            listed(&grid, "parrot").is_none()
        });
        let answer = chat(&grid, "a", &json!({}));
        assert_eq!(answer.status, 503, "{answer:?}");
        let message = answer.json()["error"]["message"].clone();
        assert_eq!(message, "no provider serves `parrot` now");
        stub.behave(Behaviour::Right);
        served_by(&grid, "parrot", 1);
        right(&chat(&grid, "a", &json!({})));
    }
}

#[test]
fn several_models_stand_in_a_file_each_with_its_own_price() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("grid"), 0);
    let (parrot, owl) = (StubServer::start("p"), StubServer::start("owl"));
    let file = folder.path().join("serve.toml");
    let text = format!(
        "[[model]]\nname = \"parrot\"\nurl = \"{}\"\nmodel = \"p\"\nprompt_price = \"7\"\n\n\
         [[model]]\nname = \"owl\"\nurl = \"{}\"\ncalls = [\"completions\"]\ncontext = 100\n",
        parrot.url(),
        owl.url()
    );
    std::fs::write(&file, text).unwrap();
    let key = folder.path().join("key");
    let flags = ["--serve-config", file.to_str().unwrap()];
    let started = Provider::start(&grid, &key, "0", &flags);
    served_by(&grid, "parrot", 1);
    served_by(&grid, "owl", 1);
    let shown = |name: &str| listed(&grid, name).unwrap()["tensorgrid"].clone();
    assert_eq!(shown("parrot")["prompt_price_per_million"], "7");
    assert_eq!(shown("parrot")["completion_price_per_million"], "1.5");
    assert_eq!(shown("owl")["calls"], json!(["completions"]));
    assert_eq!(shown("owl")["context"], 100);
    let answer = chat(&grid, "a", &json!({"model": "owl"}));
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json()["error"]["message"],
        "`owl` does not serve chat"
    );
    right(&chat(&grid, "a b", &json!({})));
    // The same again is the same card; another price is another one.
    let before = shown("parrot")["model"].clone();
    assert!(started.interrupt().0.success());
    until("its offer is gone", || listed(&grid, "parrot").is_none());
    let again = Provider::start(&grid, &key, "0", &flags);
    served_by(&grid, "parrot", 1);
    assert_eq!(shown("parrot")["model"], before);
    assert!(again.interrupt().0.success());
    until("its offer is gone again", || {
        listed(&grid, "parrot").is_none()
    });
    let text = std::fs::read_to_string(&file)
        .unwrap()
        .replace("\"7\"", "\"9\"");
    std::fs::write(&file, text).unwrap();
    let _dearer = Provider::start(&grid, &key, "0", &flags);
    until("the new price is shown", || {
        listed(&grid, "parrot")
            .is_some_and(|it| it["tensorgrid"]["prompt_price_per_million"] == "9")
    });
    let answer = right(&chat(&grid, "a b", &json!({})));
    assert_eq!(answer["tensorgrid"]["prompt_price_per_million"], "9");
}

/// A provider that claims more tokens than there can be.
struct Liar;

impl Worker for Liar {
    fn execute(&self, _: &Task, _: &dyn Fn(Progress)) -> Result<Execution, WorkError> {
        Err(WorkError::Execute("no other work".into()))
    }

    fn answer(&self, _: &Task, _: &mut dyn FnMut(&[u8]) -> bool) -> Result<Vec<u8>, WorkError> {
        Err(WorkError::Execute("no other work".into()))
    }

    fn serve(&self, _: &Task, _: PieceTaker) -> Option<ServedFuture> {
        let body = json!({"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "lies"}}]});
        let answer = ServedAnswer {
            status: 200,
            usage: TokenUsage {
                prompt: 5,
                completion: 4_000,
            },
            body: body.to_string().into_bytes(),
        };
        Some(Box::pin(async move { Ok(answer.to_bytes()) }))
    }

    fn open(&self, _: &Task, _: &Execution, _: &Digest) -> Result<Vec<u8>, WorkError> {
        Err(WorkError::Execute("no other work".into()))
    }

    fn prove(
        &self,
        _: &Task,
        _: &Execution,
        _: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<u8>, WorkError> {
        Err(WorkError::Execute("no other work".into()))
    }
}

/// Registers a card of `wallet` for the name `parrot`, and waits until it is decided about; whether it is active.
async fn registered(client: &Client, wallet: &Wallet, card: &ServedCard) -> bool {
    let file = card.file();
    let uploader = client.uploading_as(wallet);
    let blob = uploader.put_blob(file).await.unwrap().digest;
    let register = Transaction::RegisterModel {
        model: card.model_id(),
        public_blob: blob,
        weights_blob: blob,
        name: card.name.clone(),
    };
    client.sign_and_submit(wallet, register).await.unwrap();
    for _ in 0..200 {
        match client.model(card.model_id()).await {
            // What another registered before is still shown for a while.
            Ok(model) if model.owner != wallet.address() => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(model) if model.state == ModelStateDto::Active => return true,
            Ok(model) if model.state == ModelStateDto::Refused => return false,
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    panic!("nobody decided about the card");
}

async fn funded(client: &Client, name: &str) -> Wallet {
    let wallet = Wallet::from_seed(name.as_bytes());
    let request = FaucetRequestDto {
        address: wallet.address(),
        amount: Amount::from_tgrid(50),
    };
    client.faucet(&request).await.unwrap();
    while client
        .account(wallet.address())
        .await
        .unwrap()
        .balance
        .is_zero()
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    wallet
}

fn card_of(wallet: &Wallet) -> ServedCard {
    ServedCard {
        provider: wallet.address(),
        name: Label::lossy("parrot"),
        context: 4_096,
        calls: 3,
        prompt_price: Amount::from_tgrid(1),
        completion_price: Amount::from_tgrid(1),
        issued: TimestampMs::new(1),
    }
}

/// The offer of a provider that serves models.
fn serving_terms() -> OfferTerms {
    OfferTerms {
        hardware: Label::lossy("a server"),
        price_base: Amount::ZERO,
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::from_secs(1),
        speed_mmac_per_s: 1,
        memory_bytes: 0,
        slots: 4,
        collateral_per_lease: Amount::from_tgrid(1),
        modes: ModeSet::of(&[VerificationMode::Endpoint]),
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

#[test]
fn what_claims_more_tokens_than_there_can_be_is_not_paid_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("grid"), 0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = Client::new(&grid.url).unwrap();
    let (_trigger, shutdown) = Shutdown::channel();
    let liar = runtime.block_on(async {
        let liar = funded(&client, "liar").await;
        let card = card_of(&liar);
        // Nobody registers the card of another, and the other still can afterwards.
        let thief = funded(&client, "thief").await;
        assert!(!registered(&client, &thief, &card).await);
        assert!(registered(&client, &liar, &card).await);
        let (events, _) = tokio::sync::mpsc::channel(1);
        let config = AgentConfig::new(serving_terms());
        let agent = Agent::new(
            &client,
            liar.clone(),
            std::sync::Arc::new(Liar),
            config,
            events,
        );
        tokio::spawn(agent.run(shutdown));
        liar.address()
    });
    served_by(&grid, "parrot", 1);
    let answer = chat(&grid, "a b", &json!({"max_tokens": 10}));
    assert_eq!(answer.status, 503, "{answer:?}");
    let error = answer.json()["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        error.contains("claims 5 tokens of prompt and 4000 of answer"),
        "{error}"
    );
    assert!(
        error.contains(&liar.to_string()) && error.contains("none was paid"),
        "{error}"
    );
    // An honest provider is asked although it is dearer, and what it is asked says who failed.
    let stub = StubServer::start("its-own");
    let _honest = provider(&grid, (folder.path(), "parrot"), &stub, (9, 9), &[]);
    served_by(&grid, "parrot", 2);
    let honest = right(&chat(&grid, "a b", &json!({"max_tokens": 10})));
    assert_eq!(honest["choices"][0]["message"]["content"], "b a ");
    let provider = runtime.block_on(client.provider(liar)).unwrap();
    assert_eq!(
        provider.reputation.earned,
        Amount::ZERO,
        "the liar got nothing"
    );
}

/// Validators, a gateway and a provider in processes of their own: the gateway orders a lease by the account of a key, within its limit, and
/// finds it again when it is started again.
#[test]
fn a_gateway_of_a_network_asks_a_providers_server() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--providers", "1", "--gateways", "1", "--no-encryption"];
    let net = Net::found(&folder.path().join("net"), &flags);
    let _validators: Vec<Process> = (0..4).map(|index| net.validator(index)).collect();
    let keys = keys(folder.path(), &net, "0.03");
    let more = ["--openai-keys", keys.to_str().unwrap()];
    let mut gateway = net.gateway_with(0, &more);
    until("the gateway sees blocks", || gateway_height(&net, 0) > 0);
    let api = net.told["gateways"][0]["api"].as_str().unwrap().to_owned();
    let stub = StubServer::start("its-own");
    let served = format!("parrot={}#its-own", stub.url());
    let serving = [
        "--api",
        &api,
        "--serve-openai",
        &served,
        "--context",
        "4096",
    ];
    let prices = ["--prompt-price", "3", "--completion-price", "5"];
    let small = ["--accounts-at-once", "2", "--collateral", "0.1"];
    let _provider = net.provider_with(0, &[&serving[..], &prices, &small].concat());
    served_by(&api, "parrot", 1);
    let first = right(&chat(&api, "a b c", &json!({})));
    assert_eq!(first["choices"][0]["message"]["content"], "c b a ");
    assert_eq!(
        units(&first["tensorgrid"]["price"]),
        price(&first["usage"], (3, 5))
    );
    // Two answers of the whole context may cost more than the key may spend.
    let refused = chat(&api, "a", &json!({"n": 2}));
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], "insufficient_quota");
    gateway.kill();
    gateway = net.gateway_with(0, &more);
    until("the gateway is back", || gateway_height(&net, 0) > 0);
    let mut again = None;
    until("it is answered again", || {
        let answer = chat(&api, "d e", &json!({"max_tokens": 5}));
        again = (answer.status == 200).then(|| answer.json());
        again.is_some()
    });
    let again = again.unwrap();
    assert_eq!(again["tensorgrid"]["job"], first["tensorgrid"]["job"]);
    assert!(gateway.terminate().success());
}
