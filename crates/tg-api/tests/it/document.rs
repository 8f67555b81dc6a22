//! The committed OpenAPI document is the one the routes describe. `cargo xtask bless` rewrites it.

use std::path::Path;

#[test]
fn openapi_drift() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let described = tg_api::openapi();
    if std::env::var_os("TENSORGRID_BLESS").is_some() {
        std::fs::write(&path, &described).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == described,
        "docs/openapi.json differs from the routes; `cargo xtask bless` rewrites it"
    );
}

/// Programs that make clients from the document name their methods by these.
#[test]
fn operation_ids_are_unique() {
    let document: serde_json::Value = serde_json::from_str(&tg_api::openapi()).unwrap();
    let mut places = std::collections::BTreeMap::new();
    for (path, calls) in document["paths"].as_object().unwrap() {
        for (method, call) in calls.as_object().unwrap() {
            let id = call["operationId"].as_str().unwrap().to_owned();
            let place = format!("{method} {path}");
            let other = places.insert(id.clone(), place.clone());
            assert_eq!(other, None, "{place} is called {id}, too");
        }
    }
    assert!(places.len() > 40, "{}", places.len());
}

#[test]
fn calls_that_need_a_key_say_so() {
    let document: serde_json::Value = serde_json::from_str(&tg_api::openapi()).unwrap();
    let scheme = &document["components"]["securitySchemes"]["api_key"];
    assert_eq!(scheme["type"], "http");
    assert_eq!(scheme["scheme"], "bearer");
    let key = serde_json::json!([{ "api_key": [] }]);
    let mut with_key = 0;
    for (path, calls) in document["paths"].as_object().unwrap() {
        for (method, call) in calls.as_object().unwrap() {
            let is_openai = path.starts_with("/openai/");
            let needs_one = is_openai && !call["responses"]["401"].is_null();
            assert_eq!(call["security"] == key, needs_one, "{method} {path}");
            with_key += usize::from(needs_one);
        }
    }
    assert!(with_key > 10, "{with_key}");
    assert!(document["paths"]["/healthz"]["get"].is_object());
    for path in ["completions", "chat/completions", "responses"] {
        let call = &document["paths"][format!("/openai/v1/{path}")]["post"];
        let answer = &call["responses"]["200"]["content"];
        assert!(answer["text/event-stream"].is_object(), "{path}: {answer}");
    }
}

/// The specification demands a description of every answer; readers want one of every parameter, too.
#[test]
fn every_answer_and_parameter_is_described() {
    let document: serde_json::Value = serde_json::from_str(&tg_api::openapi()).unwrap();
    let mut answers = 0;
    for (path, calls) in document["paths"].as_object().unwrap() {
        for (method, call) in calls.as_object().unwrap() {
            let is_said = |it: &serde_json::Value| {
                let text = it["description"].as_str();
                text.is_some_and(|text| !text.trim().is_empty())
            };
            let summary = call["summary"].as_str().unwrap_or_default();
            assert!(!summary.is_empty(), "{method} {path} has no summary");
            for (status, answer) in call["responses"].as_object().unwrap() {
                answers += 1;
                assert!(is_said(answer), "{method} {path} {status}");
            }
            let parameters = call["parameters"].as_array();
            for parameter in parameters.into_iter().flatten() {
                assert!(is_said(parameter), "{method} {path} {parameter}");
            }
        }
    }
    assert!(answers > 50, "{answers}");
}
