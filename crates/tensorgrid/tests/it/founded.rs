//! A network that was founded: its scripts start and stop it, others join it, and what was copied of it is started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::processes::{Net, Process, gateway_height, offers};
use crate::run::{Ran, program, run, until};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What the scripts of a network have started, which ends with this.
struct Scripts {
    folder: PathBuf,
}

impl Scripts {
    fn of(net: &Net) -> Self {
        let folder = net.told["folder"].as_str().unwrap();
        Self {
            folder: folder.into(),
        }
    }

    fn run(&self, name: &str) -> Ran {
        let output = Command::new(self.folder.join(name))
            .env("TENSORGRID", program().get_program())
            .stdin(Stdio::null())
            .output();
        Ran::of(&output.unwrap())
    }

    /// The processes that it has started and not stopped, by the files that say which they are.
    fn started(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.folder.join("run")) else {
            return Vec::new();
        };
        let paths = entries.map(|it| it.unwrap().path());
        paths
            .filter(|it| it.extension().is_some_and(|it| it == "pid"))
            .collect()
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        for file in self.started() {
            let id = fs::read_to_string(file).unwrap_or_default();
            // It may have ended already.
            let _gone = Command::new("kill").args(["-KILL", id.trim()]).status();
        }
    }
}

/// Whoever orders by the environment that the network has for it is shown what is proved.
fn shows_what_is_proved(net: &Net) {
    let environment = format!("{}/requestor.env", net.told["folder"].as_str().unwrap());
    let balance = "set -a; . \"$1\"; set +a; exec \"$0\" balance";
    let output = Command::new("sh")
        .args(["-c", balance])
        .arg(program().get_program())
        .arg(environment)
        .output();
    let ran = Ran::of(&output.unwrap()).ends(0);
    assert!(ran.stdout.contains("proved at height"), "{}", ran.stdout);
}

/// Joins a network in a folder of its own, by the API of its first validator.
fn join(net: &Net, folder: &Path, more: &[&str]) -> serde_json::Value {
    let genesis = format!("{}/genesis.bin", net.told["folder"].as_str().unwrap());
    let join = ["network", "join", text(folder), "--genesis", &genesis];
    let how = ["--api", net.api(0), "--json"];
    run(&[&join[..], &how, more].concat()).ends(0).json()
}

/// A gateway that joined follows, and serves.
fn a_gateway_joins(net: &Net, folder: &Path) {
    let joined = join(net, &folder.join("joined-gateway"), &["--gateway"]);
    let config = joined["config"].as_str().unwrap();
    let gateway = ["gateway", "--json", "--config", config];
    let listen = ["--api-listen", "127.0.0.1:0"];
    let mut gateway = Process::start(&[&gateway[..], &listen].concat(), &[]);
    until("it serves", || !gateway.told().is_empty());
    let api = gateway.told()[0]["api"].as_str().unwrap().to_owned();
    let height = net.height(0);
    until("the gateway that joined follows", || {
        let status = net.ask_at(&api, &["status", "--json"]).ends(0).json();
        status["height"].as_u64() >= Some(height)
    });
    assert!(gateway.terminate().success());
}

/// A validator that joined follows, is bonded while it runs, and knows that from the chain.
fn a_validator_joins(net: &Net, folder: &Path) {
    // Above those that the network has.
    let api = net.api(0).rsplit(':').next().unwrap();
    let port = api.parse::<u16>().unwrap() + 9;
    let (endpoint, port) = (format!("127.0.0.1:{port}"), port.to_string());
    let how = ["--validator", "--port", &port, "--no-encryption"];
    let joined = join(net, &folder.join("joined-validator"), &how);
    let config = joined["config"].as_str().unwrap();
    let address = joined["address"].as_str().unwrap();
    let said = folder.join("joined-validator.log");
    let start = || {
        let validator = ["validator", "--json", "--config", config];
        let started = Process::start_saying(&validator, &said);
        until("it says that it follows", || {
            fs::read_to_string(&said).unwrap().contains(" at height ")
        });
        started
    };
    let mut validator = start();
    let told = fs::read_to_string(&said).unwrap();
    assert!(told.contains("has no seat; follows"), "{told}");
    net.ask(0, &["transfer", address, "1001", "--yes"]).ends(0);
    let join = ["seat", "join", &endpoint, "--config", config, "--yes"];
    let asked = net.ask(0, &join).ends(0);
    assert!(asked.stdout.contains(address), "{}", asked.stdout);
    until("it knows of its bond", || {
        thread::sleep(Duration::from_secs(1));
        assert!(validator.terminate().success());
        validator = start();
        let told = fs::read_to_string(&said).unwrap();
        told.contains("waits for its seat, 0 before it") || told.contains("has a seat")
    });
    assert!(validator.terminate().success());
}

/// Copies of a gateway and of a provider that were stopped take their places.
fn copies_are_started(net: &Net, folder: &Path) {
    let copy = |kind: &str| {
        let config = net.told[format!("{kind}s")][0]["config"].as_str().unwrap();
        let to = folder.join(format!("copied-{kind}"));
        let back_up = [kind, "--config", config, "--backup", text(&to), "--json"];
        let copied = run(&back_up).ends(0).json();
        // What is not in the copy is lost.
        fs::remove_dir_all(Path::new(config).parent().unwrap()).unwrap();
        copied["config"].as_str().unwrap().to_owned()
    };
    let (gateway, provider) = (copy("gateway"), copy("provider"));
    let height = net.height(0);
    let gateway = ["gateway", "--json", "--config", &gateway];
    let mut gateway = Process::start(&gateway, &[]);
    until("the copied gateway follows", || {
        gateway_height(net, 0) >= height
    });
    let provider = ["provider", "--json", "--config", &provider];
    let mut provider = Process::start(&[&provider[..], &["--device", "cpu"]].concat(), &[]);
    until("the offer of the copied provider stands", || {
        let offered = provider.told().iter().any(|it| it["event"] == "offered");
        offered && offers(net) == 1
    });
    let listed = net.ask_gateway(0, &["provider", "list", "--json"]);
    let address = &net.told["providers"][0]["address"];
    assert_eq!(listed.ends(0).json()[0]["provider"], *address);
    assert!(provider.terminate().success());
    assert!(gateway.terminate().success());
}

/// The sample of a provider's settings is taken as it is printed, but for the API that it names.
fn the_sample_is_taken(net: &Net, folder: &Path) {
    let sample = run(&["provider", "--sample"]).ends(0).stdout;
    let named = "http://gateway.example.org:7070";
    assert!(sample.contains(named), "{sample}");
    let file = folder.join("sample.toml");
    fs::write(&file, sample.replace(named, net.api(0))).unwrap();
    let start = ["provider", "--config", text(&file), "--device", "cpu"];
    // It has a new key, which has no money.
    let ran = run(&start).ends(3);
    assert!(ran.stderr.contains("has 0 TGRID"), "{}", ran.stderr);
    assert!(folder.join("account.key").exists());
}

#[test]
fn a_network_is_started_by_its_script_joined_stopped_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let flags = ["--providers", "1", "--gateways", "1", "--no-encryption"];
    let net = Net::found(&folder.join("net"), &flags);
    let scripts = Scripts::of(&net);
    scripts.run("start.sh").ends(0);
    assert_eq!(scripts.started().len(), 6);
    until("the offer stands", || offers(&net) == 1);
    let again = scripts.run("start.sh").ends(0);
    let runs = again.stdout.matches("runs already").count();
    assert_eq!(runs, 6, "{}", again.stdout);

    shows_what_is_proved(&net);
    the_sample_is_taken(&net, folder);
    a_gateway_joins(&net, folder);
    a_validator_joins(&net, folder);

    let height = net.height(0);
    let stopped = scripts.run("stop.sh");
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert_eq!(scripts.started(), Vec::<PathBuf>::new());
    assert_eq!(net.height(0), 0, "it still answers");

    let mut validators: Vec<Process> = (0..4).map(|index| net.validator(index)).collect();
    until("all validators see blocks", || {
        validators.iter().all(|it| it.told_state("final"))
    });
    assert!(net.height(0) >= height);
    copies_are_started(&net, folder);
    for validator in &mut validators {
        assert!(validator.terminate().success());
    }
}
