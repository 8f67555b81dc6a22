//! `cargo xtask`: the project's automation.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use xtask::gate;

const HELP: &str = "\
usage: cargo xtask COMMAND

  ci [STEP]   the whole gate, or one step of it: format, tidy, build (with lints), simulate, test
  nightly [STEP]
              what is too long for the gate, in release builds: statistics, verifier-cost (an hour's search),
              hostile, crowd, simulate (10,000 seeds), prover, canaries, modules, markets, network, schemathesis,
              openai-client, documentation, dashboard
  circles     every import that is part of a circle of files, a line each
  tidy        crate edges, leftovers, file sizes, crate docs, dead links
  accuracy    float and integer accuracy of the shipped models on unseen digits;
              --mnist DIR adds a LeNet on MNIST (--model FILE or --python PATH, see models/train/requirements.txt)
  corpus      what exporters write, with onnxruntime's answers, into target/corpus (or --out DIR); --data DIR holds
              mnist/ and text/, --only NAME makes some entries, --require makes a missing Python an error
  bring-your-model
              runs docs/BRING_YOUR_MODEL.md where PyTorch can be installed; --binary FILE names a built tensorgrid
  wheel       the Python package of sdk/python with a built tensorgrid as a wheel in target/wheel, installed and tested;
              --binary FILE and --require as above
  openai-client
              OpenAI's own Python client against the OpenAI routes of a grid; --binary FILE and --require as above
  schemathesis
              the OpenAPI document of a grid under a validator, and calls drawn from it under schemathesis: no answer with 5xx,
              none that the document does not describe; --binary FILE and --require as above
  served-models
              a real llama.cpp server behind a provider, asked by that client; --binary FILE and --require as above
  gateway-bench
              requests for its status that a node answers a second on loopback, and completions by the OpenAI routes, a paid
              job each; --binary FILE as above
  monitoring  a Prometheus server scrapes a grid: alert rules and panels of ops/ are tried; --binary FILE and --require as above
  network-test
              four validators, two gateways, five providers and three cheats as processes on hosts of their own (network
              namespaces, which need root; else loopback), while each is killed, one loses its disk and one its cable;
              --seed S draws delays and orders, --loopback makes no hosts, --only WORD plays the events with that word,
              --binary FILE as above and --cheat FILE are built programs, --require makes it an error that no hosts can be made
  dispute-test
              disputes about ResNet-18 and a transformer in both tiers, over four validators, two gateways and providers as
              processes on loopback: who withholds must pay; --model WORD and --only WORD play some, --write writes
              docs/DISPUTES.md, --binary FILE and --require as above (Python writes the models)
  corpus-report
              runs the corpus (--corpus DIR, or made now with --data DIR) beside onnxruntime; writes docs/CORPUS.md
  tosa-conformance
              TGX-1 against Arm's TOSA integer reference model, bit for bit, on the tests of its generator; --cases DIR
              reads cases written before, --require makes a missing Python an error
  compare-ort our speed beside onnxruntime's (float32 and int8), by processor time; writes docs/SPEED.md; --require
              makes a missing Python an error
  compare-ezkl
              one proof of the shipped MLP beside EZKL's: processor time, keys, bytes, memory; --require as above
  onnx-conformance
              tier TGF-1 on the ONNX backend node tests: passed, refused with reason, wrong; --cases DIR reads cases
              written before, --bless rewrites xtask/onnx-conformance.txt, --require makes a missing Python an error
  coverage    ONNX backend node tests compiled, proved and verified; writes docs/COVERAGE.md with --bless, else fails if a
              case is lost; --sample N --seed S draws some, --resume goes on after a run that was cut off; --runner FILE
              is the built example, --cases DIR and --require as above
  exporters   graphs of PyTorch, transformers, scikit-learn, boosted trees and Keras, drawn from a seed, compiled, proved
              and verified; writes docs/EXPORTERS.md with --bless, else fails if one of seed 1 is lost; --seed S draws
              others, --dir DIR and --runner FILE as above, --require makes a missing Python an error; --widths compares
              proofs in 16 bits with those in 8 instead, and writes a section of docs/CORPUS.md with --bless
  pretrained  folders as Hugging Face's save_pretrained writes them, drawn from a seed, with transformers as the judge;
              --seed S draws others, --bless writes the tiny ones that the tests read, --require as above
  market-judge --data DIR [--judge FILE] [--policy NAME]
              placements of the openb trace under the outside judge, beside the published ones
  market-report --data DIR
              the placement rules side by side: a table and plots in target/market
  attack-table
              plays every attack and writes what it costs whom to docs/ATTACKS.md; fails if a row is worse than there,
              which --bless takes; --ledger keeps the rows that are not the ledger's as they are
  cheat-table [SEEDS]
              each cheat against each way of checking, in SEEDS runs of the simulator (4 if absent), and how often a lie in one
              tile is found with real commitments; writes docs/CHEATS.md
  sdk         builds each feature of tg-sdk without the other, and `verify` for wasm32 where the toolchain can;
              --require makes a missing wasm32 an error
  processors  prover and executor built and tested for plain x86-64, x86-64-v3 and (with a cross compiler and QEMU)
              aarch64; --require makes a missing tool an error
  dashboard   builds dashboard/ (TypeScript; needs npm) into the files that the API serves; --check compares instead,
              --verifier builds the module that verifies in the page too (wasm32), --require as above
  browser [--binary FILE]
              the dashboard of a grid in headless Chromium: orders, verifies, chats, looks at every page with axe; --pictures
              writes docs/pictures, --require as above
  mutants     changes of the code of tg-ledger, tg-market and tg-proof, drawn from a seed: which of them do tests catch?
              --seed S, --count N of each (40), --crate NAME, --again asks about those that were missed, --report only
              prints the sums of xtask/mutants.txt, --dir DIR has the copy that is built
  programs    builds examples/programs for wasm32 and writes the modules; --check compares instead, --require as above
  bless       rewrite the generated files that tests compare (OpenAPI document, command line help, fixtures)
";

#[expect(clippy::print_stderr, reason = "this is a command line tool")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn run(words: &[&str]) -> Result<()> {
    let root = xtask::root();
    match words {
        ["ci"] => gate::run(&root, gate::STEPS, None),
        ["ci", step] => gate::run(&root, gate::STEPS, Some(step)),
        ["nightly"] => gate::run(&root, gate::NIGHTLY, None),
        ["nightly", step] => gate::run(&root, gate::NIGHTLY, Some(step)),
        ["accuracy", rest @ ..] => {
            xtask::accuracy::run(&root, &xtask::accuracy::Options::parse(rest)?)
        }
        ["corpus", rest @ ..] => {
            xtask::corpus::run(&root, &xtask::corpus::Options::parse(&root, rest)?)
        }
        ["corpus-report", rest @ ..] => {
            xtask::corpus_report::run(&root, &xtask::corpus_report::Options::parse(rest)?)
        }
        [
            name @ ("bring-your-model" | "gateway-bench" | "openai-client" | "schemathesis"
            | "served-models" | "wheel" | "monitoring"),
            rest @ ..,
        ] => with_binary(&root, name, &xtask::bring::Options::parse(rest)?),
        ["network-test", rest @ ..] => xtask::network::command(&root, rest),
        ["dispute-test", rest @ ..] => xtask::dispute::command(&root, rest),
        ["tosa-conformance", rest @ ..] => {
            xtask::tosa::run(&root, &xtask::tosa::Options::parse(rest)?)
        }
        ["compare-ort", rest @ ..] => xtask::compare_ort::run(&root, only_require(rest)?),
        ["compare-ezkl", rest @ ..] => xtask::compare_ezkl::run(&root, only_require(rest)?),
        ["onnx-conformance", rest @ ..] => {
            xtask::onnx_conformance::run(&root, &xtask::onnx_conformance::Options::parse(rest)?)
        }
        ["coverage", rest @ ..] => {
            xtask::coverage::run(&root, &xtask::coverage::CoverageOptions::parse(rest)?)
        }
        ["exporters", rest @ ..] => {
            xtask::exporters::run(&root, &xtask::exporters::ExporterOptions::parse(rest)?)
        }
        ["pretrained", rest @ ..] => xtask::pretrained::command(&root, rest),
        ["market-judge", rest @ ..] => {
            xtask::market::run(&root, &xtask::market::Options::parse(rest)?)
        }
        ["market-report", rest @ ..] => {
            xtask::market_report::run(&root, &xtask::market::Options::parse(rest)?)
        }
        ["attack-table", rest @ ..] => {
            xtask::attacks::run(&root, xtask::attacks::Options::parse(rest)?)
        }
        ["cheat-table", rest @ ..] => xtask::cheats::command(&root, rest),
        ["sdk"] => xtask::sdk::run(&root, false),
        ["sdk", "--require"] => xtask::sdk::run(&root, true),
        ["mutants", rest @ ..] => {
            xtask::mutants::run(&root, &xtask::mutants::MutantOptions::parse(rest)?)
        }
        ["browser", rest @ ..] => xtask::browser::run(&root, rest),
        ["dashboard", rest @ ..] => xtask::dashboard::command(&root, rest),
        ["programs", rest @ ..] => xtask::programs::command(&root, rest),
        ["processors"] => xtask::processors::run(&root, false),
        ["processors", "--require"] => xtask::processors::run(&root, true),
        ["bless"] => gate::run_step(&root, &gate::BLESS),
        ["circles"] => circles(&root),
        ["tidy"] => tidy(&root),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [other, ..] => bail!("no such command: {other}\n\n{HELP}"),
    }
}

/// Prints imports that are parts of circles.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn circles(root: &Path) -> Result<()> {
    for arrow in xtask::tidy::arrows_in_circles(root)? {
        println!("{arrow}");
    }
    Ok(())
}

/// Prints what breaks the rules of structure.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn tidy(root: &Path) -> Result<()> {
    let findings = xtask::tidy::check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} rules of structure are broken", findings.len());
    }
    Ok(())
}

/// The one option of a comparison.
fn only_require(words: &[&str]) -> Result<xtask::python::Missing> {
    let mut rest = words.to_vec();
    let missing = xtask::python::Missing::take(&mut rest);
    if let Some(word) = rest.first() {
        bail!("a comparison does not know `{word}`; it takes --require");
    }
    Ok(missing)
}

/// The commands that take a built `tensorgrid`.
fn with_binary(root: &Path, name: &str, options: &xtask::bring::Options) -> Result<()> {
    match name {
        "bring-your-model" => xtask::bring::run(root, options),
        "openai-client" => xtask::openai_client::run(root, options),
        "schemathesis" => xtask::schemathesis::run(root, options),
        "served-models" => xtask::served_models::run(root, options),
        "wheel" => xtask::wheel::run(root, options),
        "monitoring" => xtask::monitoring::run(root, options),
        "gateway-bench" => xtask::gateway_bench::run(root, options),
        other => bail!("`{other}` takes no built tensorgrid"),
    }
}
