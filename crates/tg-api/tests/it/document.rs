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

#[test]
fn every_operation_says_what_it_is() {
    let document: serde_json::Value = serde_json::from_str(&tg_api::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 18, "{}", paths.len());
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            let summary = operation["summary"].as_str().unwrap_or_default();
            assert!(!summary.is_empty(), "{method} {path} has no summary");
        }
    }
}
