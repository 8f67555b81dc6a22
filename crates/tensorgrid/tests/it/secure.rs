//! A grid whose API speaks TLS, beside the address where it does not.

use std::path::Path;
use std::process::Command;

use crate::run::{Grid, Ran, program, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A command against an address, with the certificates of a file trusted, or those of the system.
fn ask(url: &str, trusted: Option<&Path>) -> Ran {
    let mut command: Command = program();
    command
        .env("TENSORGRID_API", url)
        .args(["status", "--json"]);
    match trusted {
        Some(file) => command.env("SSL_CERT_FILE", file),
        None => command.env_remove("SSL_CERT_FILE"),
    };
    Ran::of(&command.output().unwrap())
}

#[test]
fn a_grid_speaks_tls_to_those_who_trust_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let data = folder.path().join("data");
    let files = [
        "--tls-certificate",
        text(&certificate),
        "--tls-key",
        text(&key),
    ];
    let listen = ["--no-models", "--tls-listen", "127.0.0.1:0"];
    let grid = Grid::up_with(&data, 0, &[&listen[..], &files].concat());
    let url = grid.secure_url.clone().unwrap();
    let json = ask(&url, Some(&certificate)).ends(0).json();
    assert!(json["height"].as_u64().unwrap() > 0, "{json}");
    let ran = ask(&url, None);
    assert!([2, 5].contains(&ran.code), "{}", ran.stderr);
    assert!(ran.stderr.contains("SSL_CERT_FILE"), "{}", ran.stderr);
    grid.run(&["status"]).ends(0);

    // A part of it alone, and files that do not fit, are told before anything is made.
    let other = folder.path().join("other");
    let up = ["up", "--listen", "127.0.0.1:0", "--data-dir", text(&other)];
    run(&[&up[..], &listen[1..]].concat()).ends(2);
    run(&[&up[..], &files].concat()).ends(2);
    let swapped = [
        "--tls-certificate",
        text(&key),
        "--tls-key",
        text(&certificate),
    ];
    let ran = run(&[&up[..], &listen[1..], &swapped].concat()).ends(2);
    assert!(ran.stderr.contains("key.pem"), "{}", ran.stderr);
    assert!(!other.exists());
}
