//! A network of separate processes: founded, started, killed, emptied, stopped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::run::{Ran, program, root, run, signal, until, wait};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Takes so many ports in a row, below those that validators of one process and systems choose.
fn free_ports(count: u16) -> u16 {
    static NETWORKS: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id() % 97).unwrap();
    let first = 10_000 + process * 100 + NETWORKS.fetch_add(1, Ordering::Relaxed) * count;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let mut starts = (first..20_000).step_by(usize::from(count));
    starts
        .find(|start| (*start..start + count).all(is_free))
        .unwrap()
}

/// A process of the network, and the JSON objects that it told.
pub(crate) struct Process {
    child: Child,
    told: Arc<Mutex<Vec<Value>>>,
}

impl Process {
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_with(arguments, variables, Stdio::null())
    }

    /// The same, with what it says written to a file, which is emptied first.
    pub(crate) fn start_saying(arguments: &[&str], file: &Path) -> Self {
        Self::start_with(arguments, &[], fs::File::create(file).unwrap().into())
    }

    fn start_with(arguments: &[&str], variables: &[(&str, &str)], stderr: Stdio) -> Self {
        let mut child = program()
            .args(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let (stdout, kept) = (child.stdout.take().unwrap(), Arc::clone(&told));
        // It ends with the process's stream.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let value = serde_json::from_str(&line.unwrap()).unwrap();
                kept.lock().unwrap().push(value);
            }
        });
        Self { child, told }
    }

    /// What it told, an object a line.
    pub(crate) fn told(&self) -> Vec<Value> {
        self.told.lock().unwrap().clone()
    }

    /// Whether it told a state since it started.
    pub(crate) fn told_state(&self, state: &str) -> bool {
        self.told().iter().any(|it| it["state"] == state)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn terminate(&mut self) -> ExitStatus {
        signal(&self.child, "-TERM");
        wait(&mut self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A network in a folder, as `network new` told it.
pub(crate) struct Net {
    pub(crate) told: Value,
}

impl Net {
    pub(crate) fn found(folder: &Path, more: &[&str]) -> Self {
        let port = free_ports(12).to_string();
        let new = [
            "network",
            "new",
            text(folder),
            "--json",
            "--first-port",
            &port,
        ];
        let told = run(&[&new[..], more].concat()).ends(0).json();
        Self { told }
    }

    pub(crate) fn validator(&self, index: usize) -> Process {
        let config = self.config(index);
        Process::start(&["validator", "--json", "--config", text(&config)], &[])
    }

    fn config(&self, index: usize) -> PathBuf {
        self.told["validators"][index]["config"]
            .as_str()
            .unwrap()
            .into()
    }

    pub(crate) fn api(&self, index: usize) -> &str {
        self.told["validators"][index]["api"].as_str().unwrap()
    }

    pub(crate) fn provider(&self, index: usize) -> Process {
        Self::provider_as(&self.told["providers"][index])
    }

    /// Starts the provider whose key and settings a command told to have made.
    fn provider_as(told: &Value) -> Process {
        let config = told["config"].as_str().unwrap();
        let provider = ["provider", "--json", "--device", "cpu", "--config", config];
        Process::start(&provider, &[])
    }

    /// The same with other arguments.
    pub(crate) fn provider_with(&self, index: usize, more: &[&str]) -> Process {
        let config = self.told["providers"][index]["config"].as_str().unwrap();
        let provider = ["provider", "--json", "--config", config];
        Process::start(&[&provider[..], more].concat(), &[])
    }

    fn gateway(&self, index: usize) -> Process {
        self.gateway_with(index, &[])
    }

    /// The same with more arguments.
    pub(crate) fn gateway_with(&self, index: usize, more: &[&str]) -> Process {
        let config = self.told["gateways"][index]["config"].as_str().unwrap();
        let gateway = ["gateway", "--json", "--config", config];
        Process::start(&[&gateway[..], more].concat(), &[])
    }

    /// Runs a command against the API of a validator, with the requestor's key.
    pub(crate) fn ask(&self, index: usize, arguments: &[&str]) -> Ran {
        self.ask_at(self.api(index), arguments)
    }

    /// The same against the API of a gateway.
    pub(crate) fn ask_gateway(&self, index: usize, arguments: &[&str]) -> Ran {
        let api = self.told["gateways"][index]["api"].as_str().unwrap();
        self.ask_at(api, arguments)
    }

    pub(crate) fn ask_at(&self, api: &str, arguments: &[&str]) -> Ran {
        let mut command = program();
        let key = self.told["requestor"]["key"].as_str().unwrap();
        command
            .env("TENSORGRID_API", api)
            .env("TENSORGRID_KEY", key)
            .args(arguments);
        Ran::of(&command.output().unwrap())
    }

    fn infer(&self, index: usize) -> Value {
        self.infer_as(index, &["--verify", "proof"])
    }

    fn infer_as(&self, index: usize, verify: &[&str]) -> Value {
        let digit = root().join("examples/digit.json");
        let infer = ["infer", "mlp-digits", text(&digit), "--yes", "--json"];
        self.ask(index, &[&infer, verify].concat()).ends(0).json()
    }

    fn status(&self, index: usize) -> Option<Value> {
        let ran = self.ask(index, &["status", "--json"]);
        (ran.code == 0).then(|| ran.json())
    }

    pub(crate) fn height(&self, index: usize) -> u64 {
        let status = self.status(index);
        status.map_or(0, |status| status["height"].as_u64().unwrap())
    }

    fn balance(&self, index: usize, address: &Value) -> String {
        let balance = ["balance", address.as_str().unwrap(), "--json"];
        let account = self.ask(index, &balance).ends(0).json();
        account["balance"].as_str().unwrap().to_owned()
    }

    /// The states of all jobs, as one validator knows them.
    pub(crate) fn jobs(&self, index: usize) -> Vec<String> {
        let jobs = self.ask(index, &["job", "list", "--limit", "100", "--json"]);
        let jobs = jobs.ends(0).json();
        let state = |job: &Value| job["state"].as_str().unwrap().to_owned();
        jobs.as_array().unwrap().iter().map(state).collect()
    }

    /// How many jobs are paid, as one validator knows them.
    fn paid(&self, index: usize) -> usize {
        let jobs = self.jobs(index).into_iter();
        jobs.filter(|state| state == "paid").count()
    }

    /// All parts of money make what was minted.
    fn check_money(&self, index: usize) {
        let totals = &self.status(index).unwrap()["totals"];
        let units = |name: &str| {
            let amount: tg_types::Amount = totals[name].as_str().unwrap().parse().unwrap();
            amount.get()
        };
        let parts = ["balances", "escrow", "stake", "collateral", "burned"];
        let sum: u128 = parts.iter().map(|name| units(name)).sum();
        assert_eq!(sum, units("minted"));
    }
}

pub(crate) fn offers(net: &Net) -> usize {
    let offers = net.ask(3, &["provider", "list", "--json"]).ends(0).json();
    offers.as_array().unwrap().len()
}

/// A provider joins that the network did not know, and asks less than the others; gives its address too.
fn joins(net: &Net, folder: &Path) -> (Process, Value) {
    let other = Net::found(
        &folder.join("other"),
        &["--validators", "1", "--no-encryption"],
    );
    let join = |genesis: &Net, home: &str| {
        let genesis = genesis.told["folder"].as_str().unwrap();
        let genesis = format!("{genesis}/genesis.bin");
        let home = folder.join(home);
        let join = ["network", "join", text(&home), "--genesis", &genesis];
        let more = ["--api", net.api(3), "--no-encryption", "--json"];
        run(&[&join[..], &more[..]].concat())
    };
    let refused = join(&other, "refused").ends(3);
    assert!(
        refused.stderr.contains("not of that of"),
        "{}",
        refused.stderr
    );
    let told = join(net, "joined").ends(0).json();
    let address = told["address"].as_str().unwrap();
    let again = join(net, "joined").ends(2);
    assert!(again.stderr.contains("not empty"), "{}", again.stderr);
    let asked = net.ask(3, &["transfer", address, "5"]).ends(2);
    assert!(asked.stderr.contains("--yes"), "{}", asked.stderr);
    net.ask(3, &["transfer", address, "5", "--yes"]).ends(0);
    assert_eq!(net.balance(3, &told["address"]), "5");
    let file = told["config"].as_str().unwrap();
    let settings = fs::read_to_string(file).unwrap();
    assert!(settings.contains("# price =\n"), "{settings}");
    let settings = settings.replace("# price =\n", "price = \"0.005\"\n");
    fs::write(file, settings).unwrap();
    (Net::provider_as(&told), told["address"].clone())
}

/// Who says nothing of checking gets a committee of validators: each in a process of its own, which dealt the seed's key among
/// themselves, found the drawn parts right: in this network no run is short enough to be run whole.
fn by_committee(net: &Net, values: &Value) {
    let sampled = net.infer_as(1, &[]);
    assert_eq!(sampled["values"], *values);
    assert_eq!(sampled["receipt"]["job"]["mode"], "sync");
    assert_eq!(sampled["receipt"]["lease"]["run_whole"], false);
    let check = &sampled["receipt"]["lease"]["check"];
    assert_eq!(check["members"], 4, "{check}");
    assert!(check["right"].as_u64().unwrap() >= 3, "{check}");
}

#[test]
fn four_validators_and_two_providers_in_processes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let flags = "--providers 2 --gateways 0 --no-encryption --whole-run-macs 0";
    let flags: Vec<&str> = flags.split(' ').collect();
    let net = Net::found(&folder.path().join("net"), &flags);
    let mut validators: Vec<Process> = (0..4).map(|index| net.validator(index)).collect();
    until("all validators see blocks", || {
        validators.iter().all(|it| it.told_state("final"))
    });
    net.ask(0, &["model", "add-builtin"]).ends(0);
    let mut providers: Vec<Process> = (0..2).map(|index| net.provider(index)).collect();
    until("both offers stand", || offers(&net) == 2);

    // Ordered at the third validator, worked on at the first, answered with a proof that is checked here again.
    let ran = net.infer(2);
    assert_eq!(ran["greatest"], 7);
    assert_eq!(ran["proof"]["verified"], true);
    assert_eq!(ran["receipt"]["settlement"]["price"], "0.01");
    by_committee(&net, &ran["values"]);
    let address = &net.told["providers"][0]["address"];
    let paid = net.balance(2, address);
    until("all validators know the payment", || {
        (0..4).all(|index| net.balance(index, address) == paid)
    });

    let mut joined = joins(&net, folder.path());
    until("three offers stand", || offers(&net) == 3);
    let ran = net.infer(0);
    assert_eq!(ran["receipt"]["lease"]["provider"], joined.1);
    assert!(joined.0.terminate().success());

    // One is killed while jobs run, and comes back. One account orders at one API, which gives out its nonces.
    thread::scope(|scope| {
        let net = &net;
        let jobs: Vec<_> = (0..3).map(|_| scope.spawn(move || net.infer(0))).collect();
        until("more jobs are there", || net.jobs(0).len() > 2);
        validators[3].kill();
        for job in jobs {
            assert_eq!(job.join().unwrap()["greatest"], 7);
        }
    });
    let height = net.height(0);
    validators[3] = net.validator(3);
    until("the killed one is back", || net.height(3) >= height);
    assert_eq!(net.paid(3), 6);
    until("it knows what it signed", || {
        validators[3].told_state("final")
    });
    assert!(!validators[3].told_state("abstaining"));

    // Another loses all its data: the rest goes on, it is rebuilt, and says that it does not vote yet.
    assert!(validators[1].terminate().success());
    let data = net.config(1).with_file_name("data");
    fs::remove_dir_all(&data).unwrap();
    let height = net.height(0);
    validators[1] = net.validator(1);
    until("the emptied one has the chain", || net.height(1) >= height);
    until("it says what it waits for", || {
        validators[1].told().iter().any(|it| {
            let line = it["text"].as_str().unwrap_or_default();
            line.contains("its votes are lost") && it["abstains_until"].as_u64() > Some(0)
        })
    });
    assert_eq!(net.infer(1)["greatest"], 7);
    until("all know it", || (0..4).all(|index| net.paid(index) == 7));
    (0..4).for_each(|index| net.check_money(index));

    for provider in &mut providers {
        assert!(provider.terminate().success());
        // The thread that reads its stream may be a line behind.
        until("it told that it withdrew", || {
            provider.told().iter().any(|it| it["event"] == "withdrawn")
        });
    }
    for validator in &mut validators {
        assert!(validator.terminate().success());
    }
}

/// An inference ordered at a gateway.
fn infer_at(net: &Net, gateway: usize) -> Value {
    let digit = root().join("examples/digit.json");
    let infer = ["infer", "mlp-digits", text(&digit), "--yes", "--json"];
    let infer = [&infer[..], &["--verify", "proof"]].concat();
    net.ask_gateway(gateway, &infer).ends(0).json()
}

pub(crate) fn gateway_height(net: &Net, gateway: usize) -> u64 {
    let ran = net.ask_gateway(gateway, &["status", "--json"]);
    if ran.code != 0 {
        return 0;
    }
    ran.json()["height"].as_u64().unwrap()
}

#[test]
fn clients_and_providers_ask_gateways_alone() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--providers", "2", "--gateways", "2", "--no-encryption"];
    let net = Net::found(&folder.path().join("net"), &flags);
    let mut validators: Vec<Process> = (0..4).map(|index| net.validator(index)).collect();
    let mut gateways: Vec<Process> = (0..2).map(|index| net.gateway(index)).collect();
    until("the gateways see blocks", || {
        (0..2).all(|index| gateway_height(&net, index) > 0)
    });
    // Models and inputs are uploaded to a gateway, and validators state that they hold them.
    net.ask_gateway(0, &["model", "add-builtin"]).ends(0);
    let mut providers: Vec<Process> = (0..2).map(|index| net.provider(index)).collect();
    until("both offers stand", || offers(&net) == 2);
    for provider in 0..2 {
        let told = &net.told["providers"][provider]["api"];
        assert_eq!(*told, net.told["gateways"][provider]["api"]);
    }
    let ran = infer_at(&net, 1);
    assert_eq!(ran["greatest"], 7);
    assert_eq!(ran["proof"]["verified"], true);
    let first = &net.told["providers"][0]["address"];
    assert_eq!(ran["receipt"]["lease"]["provider"], *first);
    // What a gateway says is shown to be true, as what a validator says.
    let genesis = format!("{}/genesis.bin", net.told["folder"].as_str().unwrap());
    let balance = ["balance", first.as_str().unwrap(), "--genesis", &genesis];
    let shown = net.ask_gateway(0, &balance).ends(0);
    assert!(
        shown.stdout.contains("proved at height"),
        "{}",
        shown.stdout
    );

    // A gateway is killed: the other one serves, and the killed one comes back where it was.
    gateways[0].kill();
    let height = net.height(2);
    gateways[0] = net.gateway(0);
    until("the killed one is back", || {
        gateway_height(&net, 0) >= height
    });
    // A validator is killed: both gateways have others.
    validators[0].kill();
    assert_eq!(infer_at(&net, 0)["greatest"], 7);
    assert_eq!(infer_at(&net, 1)["greatest"], 7);

    // Heartbeats reach validators that the provider never spoke to: when it is killed, its offer gets no jobs.
    providers[0].kill();
    until("validators found it lost", || {
        let offers = net.ask_gateway(1, &["provider", "list", "--json"]).ends(0);
        let offers = offers.json();
        let mut offers = offers.as_array().unwrap().iter();
        offers.any(|it| it["provider"] == *first && it["offline"] == true)
    });
    let ran = infer_at(&net, 0);
    assert_eq!(
        ran["receipt"]["lease"]["provider"],
        net.told["providers"][1]["address"]
    );

    // One that lost its folder begins at a snapshot.
    assert!(gateways[1].terminate().success());
    let config: PathBuf = net.told["gateways"][1]["config"].as_str().unwrap().into();
    fs::remove_dir_all(config.with_file_name("data")).unwrap();
    let height = net.height(2);
    assert!(height > 64, "no snapshot yet at {height}");
    gateways[1] = net.gateway(1);
    until("the emptied one is back", || {
        gateway_height(&net, 1) >= height
    });
    let began = gateways[1].told()[0]["height"].as_u64().unwrap();
    assert!(began > 0, "it executed everything since genesis");
    net.check_money(2);
    assert_eq!(net.paid(2), 4);
    for process in providers.iter_mut().skip(1).chain(&mut gateways) {
        assert!(process.terminate().success());
    }
    for validator in validators.iter_mut().skip(1) {
        assert!(validator.terminate().success());
    }
}

#[test]
fn a_gateway_that_cannot_start_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--providers", "0", "--no-encryption"];
    let net = Net::found(&folder.path().join("net"), &flags);
    let config = net.told["gateways"][0]["config"].as_str().unwrap();
    let start = ["gateway", "--config", config];
    let told = |more: &[&str], code: i32, words: &str| {
        let ran = run(&[&start[..], more].concat()).ends(code);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint:"), "{}", ran.stderr);
    };
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = busy.local_addr().unwrap().to_string();
    told(&["--api-listen", &taken], 1, "--api-listen");
    told(&["--source", "ftp://nowhere"], 2, "nowhere");
    let mut running = net.gateway(0);
    until("it says that it is alone", || running.told_state("alone"));
    told(&["--api-listen", "127.0.0.1:0"], 1, "in use");
    assert!(running.terminate().success());
    let written = fs::read_to_string(config).unwrap();
    fs::write(config, written.replace("sources =", "source =")).unwrap();
    told(&[], 2, "is it sources?");
    let none = written
        .lines()
        .map(|line| match line.starts_with("sources") {
            true => "sources = []",
            false => line,
        });
    fs::write(config, none.collect::<Vec<_>>().join("\n")).unwrap();
    told(&[], 2, "there is no source");
    let sample = run(&["gateway", "--sample"]).ends(0).stdout;
    assert!(sample.contains("\nsources = [") && sample.contains("\n# log =\n"));
}

#[test]
fn a_validator_that_cannot_start_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let passphrase = folder.path().join("passphrase");
    fs::write(&passphrase, "correct horse battery\n").unwrap();
    let home = folder.path().join("net");
    let undecided = run(&["network", "new", text(&home)]).ends(2);
    assert!(
        undecided.stderr.contains("--no-encryption"),
        "{}",
        undecided.stderr
    );
    assert!(!home.exists());
    let flags = ["--providers", "0", "--passphrase-file", text(&passphrase)];
    let net = Net::found(&home, &flags);
    let again = run(&[&["network", "new", text(&home)], &flags[..]].concat()).ends(2);
    assert!(
        again.stderr.contains("never overwritten"),
        "{}",
        again.stderr
    );

    let config = net.config(0);
    let start = ["validator", "--config", text(&config)];
    let told = |more: &[&str], code: i32, words: &str| {
        let ran = run(&[&start[..], more].concat()).ends(code);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint:"), "{}", ran.stderr);
    };
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = busy.local_addr().unwrap().to_string();
    told(&["--listen", &taken], 1, "--listen");
    told(&["--api-listen", &taken], 1, "--api-listen");
    drop(busy);

    let mut running = net.validator(0);
    until("it waits for the others", || running.told_state("waiting"));
    let state = running.told()[1].clone();
    assert_eq!(state["peers_needed"], 2);
    let elsewhere = ["--listen", "127.0.0.1:0", "--api-listen", "off"];
    told(&elsewhere, 1, "in use");
    // Nor with data of its own: one key would vote twice.
    let data = folder.path().join("other-data");
    let other = [&elsewhere[..], &["--data-dir", text(&data)]].concat();
    told(&other, 1, "the key of votes");
    assert!(!data.exists());
    assert!(running.terminate().success());

    let written = fs::read_to_string(&config).unwrap();
    fs::write(&config, written.replace("listen =", "lisen =")).unwrap();
    told(&[], 2, "is it listen?");
    fs::write(&passphrase, "wrong horse battery\n").unwrap();
    fs::write(&config, &written).unwrap();
    let ran = run(&start).ends(2);
    assert!(
        ran.stderr.contains("passphrase is not that of"),
        "{}",
        ran.stderr
    );
    let sample = run(&["validator", "--sample"]).ends(0).stdout;
    assert!(sample.contains("\n[seats]\n") && sample.contains("\n# passphrase_file =\n"));
}

/// Windows are as long as so many validators need them to be.
#[test]
fn seven_validators_are_founded() {
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("net");
    let new = ["network", "new", text(&net), "--validators", "7"];
    run(&[&new[..], &["--no-encryption"]].concat()).ends(0);
    assert!(net.join("genesis.bin").is_file());
}

/// Who has bonded, and how much.
fn bonds(net: &Net) -> Vec<(Value, Value)> {
    let told = net.ask(0, &["seat", "list", "--json"]).ends(0).json();
    let seats = told["validators"].as_array().unwrap();
    assert_eq!(seats.len(), 4);
    let of = |seat: &Value| (seat["account"].clone(), seat["stake"].clone());
    seats.iter().map(of).collect()
}

#[test]
fn a_validator_is_restored_from_an_old_copy_and_loses_no_stake() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--providers", "1", "--gateways", "1", "--no-encryption"];
    let net = Net::found(&folder.path().join("net"), &flags);
    let mut validators: Vec<Process> = (0..4).map(|index| net.validator(index)).collect();
    until("all validators see blocks", || {
        validators.iter().all(|it| it.told_state("final"))
    });
    let config = net.config(3);
    let copy = folder.path().join("copy");
    let back_up = ["validator", "--config", text(&config), "--backup"];
    let back_up = || run(&[&back_up[..], &[text(&copy), "--json"]].concat());
    // Not of one that runs.
    let busy = back_up().ends(1);
    assert!(busy.stderr.contains("stop the process"), "{}", busy.stderr);
    assert!(validators[3].terminate().success());
    let copied = back_up().ends(0).json();
    let restored = copied["config"].as_str().unwrap();
    assert_eq!(Path::new(restored), copy.join("validator.toml"));
    assert!(!copy.join("data/consensus").exists());
    let again = back_up().ends(2);
    assert!(again.stderr.contains("not empty"), "{}", again.stderr);

    // It goes on and votes; then its disk is lost.
    validators[3] = net.validator(3);
    until("it votes again", || validators[3].told_state("final"));
    let address = &net.told["providers"][0]["address"];
    let pay = ["transfer", address.as_str().unwrap(), "1", "--yes"];
    net.ask(0, &pay).ends(0);
    let bonded = bonds(&net);
    validators[3].kill();
    fs::remove_dir_all(config.parent().unwrap()).unwrap();
    let height = net.height(0);
    validators[3] = Process::start(&["validator", "--json", "--config", restored], &[]);
    until("the restored one has the chain", || net.height(3) >= height);
    until("it says that its votes are lost", || {
        validators[3].told().iter().any(|it| {
            let line = it["text"].as_str().unwrap_or_default();
            line.contains("its votes are lost") && it["abstains_until"].as_u64() > Some(0)
        })
    });
    // It follows, and has contradicted nobody.
    net.ask(3, &pay).ends(0);
    let height = net.height(0);
    until("it follows", || net.height(3) >= height);
    assert_eq!(bonds(&net), bonded);
    (0..4).for_each(|index| net.check_money(index));

    // What a gateway and a provider need, of which nothing else is theirs.
    let gateway = net.told["gateways"][0]["config"].as_str().unwrap();
    let to = folder.path().join("gateway");
    run(&["gateway", "--config", gateway, "--backup", text(&to)]).ends(0);
    assert!(to.join("gateway.toml").exists() && to.join("genesis.bin").exists());
    assert!(!to.join("data/chain.redb").exists());
    let provider = net.told["providers"][0]["config"].as_str().unwrap();
    let to = folder.path().join("provider");
    run(&["provider", "--config", provider, "--backup", text(&to)]).ends(0);
    let key = fs::read(Path::new(provider).with_file_name("account.key")).unwrap();
    assert_eq!(fs::read(to.join("account.key")).unwrap(), key);
    let settings = fs::read_to_string(to.join("provider.toml")).unwrap();
    assert!(settings.contains("key = \"account.key\""), "{settings}");
    run(&["provider", "--backup", text(&to)]).ends(2);
}
