//! Groups of endpoints: a provider of one is killed, a queue grows, nobody asks, the money ends.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tg_sdk::dto::JobDto;
use tg_sdk::endpoint::group::{
    GroupAnswer, GroupEvent, GroupHost, GroupPatience, HostError, ReplicaGroup,
};
use tg_sdk::endpoint::record::{GroupRecord, GroupTerms};
use tg_sdk::endpoint::replica::LeaveReason;
use tg_sdk::endpoint::scaling::{OpenReason, ScalingRules};
use tg_sdk::endpoint::session::ServedBy;
use tg_sdk::{Amount, CheckedModel, Client, Wallet, jobs};
use tg_types::JobNeeds;

use crate::endpoints::{by_api, conserved, units};
use crate::run::{Grid, Provider, Ran, program, root, until};

fn digit() -> String {
    let path = root().join("examples/digit.json");
    path.to_str().unwrap().to_owned()
}

/// The providers that have an offer.
fn offering(grid: &Grid) -> BTreeSet<String> {
    let listed = grid.run(&["--json", "provider", "list"]).ends(0).json();
    let offers = listed.as_array().unwrap().iter();
    let providers = offers.map(|it| it["provider"].as_str().unwrap().to_owned());
    providers.collect()
}

/// A provider in a process of its own, and its account.
fn provider(grid: &Grid, key: &Path, price: &str, more: &[&str]) -> (String, Provider) {
    let before = offering(grid);
    let started = Provider::start(grid, key, price, more);
    let mut account = None;
    until("its offer stands", || {
        account = offering(grid).difference(&before).next().cloned();
        account.is_some()
    });
    (account.unwrap(), started)
}

/// The words of a command.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Groups that are kept in a folder.
struct Groups<'a> {
    grid: &'a Grid,
    folder: PathBuf,
}

impl<'a> Groups<'a> {
    fn of(grid: &'a Grid, folder: &Path) -> Self {
        let folder = folder.join("groups");
        Self { grid, folder }
    }

    /// The words of a command about them.
    fn words<'b>(&'b self, text: &'b str) -> Vec<&'b str> {
        let folder = self.folder.to_str().unwrap();
        [words(text), vec!["--groups", folder]].concat()
    }

    fn run(&self, text: &str) -> Ran {
        self.grid.run(&self.words(text))
    }

    fn json(&self, text: &str) -> Value {
        self.run(text).ends(0).json()
    }
}

/// A command that goes on while the test does something else.
struct Going {
    child: Child,
    told: JoinHandle<String>,
    said: Arc<Mutex<String>>,
}

impl Going {
    fn start(grid: &Grid, arguments: &[&str]) -> Self {
        let mut child = program()
            .env("TENSORGRID_API", &grid.url)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let told = std::thread::spawn(move || {
            let mut told = String::new();
            stdout.read_to_string(&mut told).unwrap();
            told
        });
        let said = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&said);
        // It ends with the process's stream.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let mut kept = kept.lock().unwrap();
                kept.push_str(&line.unwrap());
                kept.push('\n');
            }
        });
        Self { child, told, said }
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Waits until it says something on its error stream.
    fn until_it_says(&self, text: &str) {
        until(text, || self.said().contains(text));
    }

    fn wait(mut self) -> Ran {
        let status = self.child.wait().unwrap();
        Ran {
            code: status.code().unwrap_or(-1),
            stdout: self.told.join().unwrap(),
            stderr: self.said.lock().unwrap().clone(),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

/// Events of a kind.
fn events<'a>(told: &'a Value, kind: &str) -> Vec<&'a Value> {
    let all = array(&told["events"]).iter();
    all.filter(|it| it["event"] == kind).collect()
}

#[test]
fn a_provider_is_killed_in_the_middle_and_every_request_is_answered_and_paid_once() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("grid"), 0);
    let mut providers: Vec<(String, Provider)> = Vec::new();
    for name in ["a", "b", "c"] {
        providers.push(provider(&grid, &folder.path().join(name), "0.01", &[]));
    }
    let groups = Groups::of(&grid, folder.path());
    let open = "--json endpoint open mlp-digits --replicas 2..3 --money 9 --yes --name digits";
    let opened = groups.json(open);
    let replicas = array(&opened["replicas"]);
    let at = replicas.iter().map(|it| it["provider"].as_str().unwrap());
    assert_eq!(at.collect::<BTreeSet<&str>>().len(), 2, "{opened}");
    assert_eq!(units(&replicas[0]["locked"]), 3 * 10_u128.pow(18));
    let listed = groups.json("--json endpoint list");
    let is_one = |it: &Value| it["group"] == "digits";
    assert!(array(&listed).iter().all(is_one), "{listed}");
    assert_eq!(array(&listed).len(), 2);

    let digit = digit();
    let ask =
        format!("--json endpoint ask digits {digit} --times 200 --parallel 8 --prove --patience 5");
    let going = Going::start(&grid, &groups.words(&ask));
    going.until_it_says(" of 200 answered");
    // Of two commands that count apart what is owed one does not begin.
    let id = opened["id"].as_str().unwrap();
    let other = groups.run(&format!("endpoint ask {id} {digit}")).ends(5);
    assert!(other.stderr.contains("another command uses"), "{other:?}");
    let killed = replicas[0]["provider"].as_str().unwrap();
    let place = providers.iter().position(|(account, _)| account == killed);
    providers.remove(place.unwrap()).1.kill();
    let ran = going.wait().ends(0);
    let told = ran.json();
    assert_eq!(told["asked"], 200, "{}", ran.stderr);
    let mut sums = Sums::default();
    assert_eq!(sums.add(&told), 200);
    let mut left = events(&told, "left").into_iter();
    let lost = left.find(|it| it["reason"] == "lost");
    assert_eq!(lost.unwrap()["provider"], killed, "{told}");
    conserved(&grid);
    // Another one takes its place, in the same command or the next one.
    let more = format!("--json endpoint ask digits {digit} --times 16 --parallel 8 --prove");
    until("another one takes its place", || {
        assert_eq!(sums.add(&groups.json(&more)), 16);
        let by: BTreeSet<&String> = sums.0.values().map(|it| &it.provider).collect();
        by.len() == 3
    });
    let closed = groups.json("--json endpoint close digits");
    assert_eq!(array(&closed["replicas"]).len(), 0);
    sums.are_paid(&grid, killed);
    groups.run("endpoint close digits").ends(4);
    assert_eq!(std::fs::read_dir(&groups.folder).unwrap().count(), 0);
}

/// What came of a replica.
#[derive(Default)]
struct Sum {
    provider: String,
    answered: u64,
    price: u128,
}

/// What came, by the jobs of the replicas.
#[derive(Default)]
struct Sums(BTreeMap<String, Sum>);

impl Sums {
    /// Adds what a command told; how many answers it had.
    fn add(&mut self, told: &Value) -> u64 {
        let mut all = 0;
        for tally in array(&told["replicas"]) {
            let sum = self.0.entry(text(&tally["job"])).or_default();
            let answered = tally["answered"].as_u64().unwrap();
            sum.provider = text(&tally["provider"]);
            sum.answered += answered;
            sum.price += units(&tally["price"]);
            all += answered;
        }
        all
    }

    /// What the ledger paid for answers is what the vouchers say, and that is the sum of the prices of the answers that came.
    fn are_paid(&self, grid: &Grid, killed: &str) {
        for (job, sum) in &self.0 {
            let job = by_api(grid, job);
            let meter = &job["leases"][0]["meter"];
            let paid = units(&meter["vouchers"]);
            if sum.provider == killed {
                // It claimed what it had when it was killed, or nothing.
                assert!(paid <= sum.price, "{} {meter}", sum.price);
            } else {
                assert_eq!(paid, sum.price, "{meter}");
                assert_eq!(meter["answered"], sum.answered);
            }
            let settled = &job["settlement"];
            let all = units(&settled["price"]) + units(&settled["refund"]);
            assert_eq!(all, units(&job["max_price"]), "{job}");
        }
        conserved(grid);
    }
}

/// The cheapest provider would have both: its second place is held until another one is chosen.
#[test]
fn replicas_are_at_distinct_providers_or_it_is_said_that_they_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("grid"), 0);
    let (cheap, _cheap) = provider(&grid, &folder.path().join("a"), "0.01", &["--slots", "4"]);
    let groups = Groups::of(&grid, folder.path());
    let open = |more: &str| {
        let open = "--json endpoint open mlp-digits --money 6 --yes";
        groups.run(&format!("{open} {more}"))
    };
    let refused = open("--replicas 2").ends(3);
    for told in [
        "2 distinct providers, and 1",
        "nothing was ordered",
        "--fewer",
    ] {
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
    let none = grid.run(&["--json", "endpoint", "list"]).ends(0).json();
    assert_eq!(array(&none).len(), 0);
    let dear = open("--replicas 1 --max-price 0.1").ends(5);
    let told = "more than this group allows";
    assert!(dear.stderr.contains(told), "{}", dear.stderr);
    let fewer = open("--replicas 2 --fewer --name fewer").ends(0).json();
    let serves = |it: &&Value| it["part"] == "serves";
    let serving = array(&fewer["replicas"]).iter().filter(serves);
    assert_eq!(serving.count(), 1, "{fewer}");
    // The places that were held meanwhile are free again.
    let is_one = || array(&groups.json("--json endpoint list")).len() == 1;
    until("they have ended", is_one);
    let same = open("--replicas 2 --same-provider --name same")
        .ends(0)
        .json();
    assert_eq!(array(&same["replicas"]).len(), 2, "{same}");
    for name in ["fewer", "same"] {
        groups.run(&format!("endpoint close {name}")).ends(0);
    }

    let (other, _other) = provider(&grid, &folder.path().join("b"), "0.02", &[]);
    let both = open("--replicas 2").ends(0).json();
    let serving = array(&both["replicas"]).iter().filter(serves);
    let at = serving.map(|it| it["provider"].as_str().unwrap());
    let distinct = BTreeSet::from([cheap.as_str(), other.as_str()]);
    assert_eq!(at.collect::<BTreeSet<&str>>(), distinct, "{both}");
    each_input_is_asked_for(&groups, folder.path());
    groups.run("endpoint close mlp-digits").ends(0);
    conserved(&grid);
}

/// An array of two axes in the format of numpy.
fn npy(rows: &[Vec<f32>]) -> Vec<u8> {
    let shape = format!("({}, {})", rows.len(), rows[0].len());
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend_from_slice(&(header.len() as u16).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    rows.iter()
        .flatten()
        .for_each(|it| file.extend_from_slice(&it.to_le_bytes()));
    file
}

/// A folder and an array of rows are as many requests, each with its receipt.
fn each_input_is_asked_for(groups: &Groups<'_>, folder: &Path) {
    let file = std::fs::read(root().join("examples/digit.json")).unwrap();
    let value: Value = serde_json::from_slice(&file).unwrap();
    let row: Vec<f32> = serde_json::from_value(value["input_data"][0].clone()).unwrap();
    let blank = vec![0.0; row.len()];
    let inputs = folder.join("inputs");
    std::fs::create_dir(&inputs).unwrap();
    for name in ["one.json", "two.json"] {
        std::fs::write(inputs.join(name), &file).unwrap();
    }
    std::fs::write(inputs.join("ignored.txt"), "no input").unwrap();
    let rows: Vec<Vec<f32>> = (0..15).flat_map(|_| [row.clone(), blank.clone()]).collect();
    let file = folder.join("rows.npy");
    std::fs::write(&file, npy(&rows)).unwrap();
    let (inputs, rows) = (inputs.to_str().unwrap(), file.to_str().unwrap());
    let told = groups.json(&format!(
        "--json endpoint ask mlp-digits --each {inputs} {rows}"
    ));
    let requests = array(&told["requests"]);
    assert_eq!((requests.len(), &told["asked"]), (32, &32.into()));
    for (index, name) in [
        (0, "one.json"),
        (1, "two.json"),
        (2, "rows.npy[0]"),
        (31, "rows.npy[29]"),
    ] {
        let told = requests[index]["input"].as_str().unwrap();
        assert!(told.ends_with(name), "{told}");
    }
    assert_ne!(requests[3]["values"], requests[0]["values"]);
    for index in 1..32 {
        let same = if index > 2 && index % 2 == 1 { 3 } else { 0 };
        assert_eq!(
            requests[index]["values"], requests[same]["values"],
            "{index}"
        );
    }
    // Each says who gave it, and both gave some.
    let by = requests.iter().map(|it| it["provider"].as_str().unwrap());
    assert_eq!(by.collect::<BTreeSet<&str>>().len(), 2, "{told}");
    let prices: u128 = requests.iter().map(|it| units(&it["price"])).sum();
    assert_eq!(units(&told["owed"]), prices);
    let is_signed = |it: &Value| it["signature"].as_str().unwrap().len() > 100;
    assert!(requests.iter().all(is_signed));
    let people = groups.run(&format!("endpoint ask mlp-digits --each {inputs} {rows}"));
    let people = people.ends(0).stdout;
    assert!(
        people.contains("rows.npy[7]: ") && people.contains("32 answers"),
        "{people}"
    );
    let folder = groups
        .run(&format!("endpoint ask mlp-digits {inputs}"))
        .ends(2);
    assert!(folder.stderr.contains("--each"), "{}", folder.stderr);
}

#[test]
fn the_money_of_a_group_ends_it_waits_and_goes_on_with_more() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("grid"), 0);
    let dear = ["--price-per-mmac", "0.02"];
    let (_, _provider) = provider(&grid, &folder.path().join("a"), "0.01", &dear);
    let groups = Groups::of(&grid, folder.path());
    let open = "--json endpoint open mlp-digits --replicas 1 --money 0.6 --yes";
    let opened = groups.json(open);
    let run = units(&events(&opened, "opened")[0]["run"]);
    // Twice what there is money for.
    let times = 2 * 6 * 10_u128.pow(17) / run;
    let digit = digit();
    let ask =
        format!("--json endpoint ask mlp-digits {digit} --times {times} --parallel 2 --wait 60");
    let going = Going::start(&grid, &groups.words(&ask));
    going.until_it_says("paused: ");
    conserved(&grid);
    let added = groups.json("--json endpoint top-up mlp-digits 5");
    assert_eq!(units(&added["money"]), 56 * 10_u128.pow(17));
    let told = going.wait().ends(0).json();
    assert_eq!(u128::from(told["asked"].as_u64().unwrap()), times);
    let tallies = array(&told["replicas"]);
    assert!(tallies.len() >= 2, "what was spent ended its lease: {told}");
    let mut left = events(&told, "left").into_iter();
    assert!(left.any(|it| it["reason"] == "spent"), "{told}");
    let closed = groups.json("--json endpoint close mlp-digits");
    let mut paid = 0;
    for tally in tallies {
        let job = by_api(&grid, tally["job"].as_str().unwrap());
        let vouchers = units(&job["leases"][0]["meter"]["vouchers"]);
        assert_eq!(vouchers, units(&tally["price"]), "{tally}");
        paid += units(&job["settlement"]["price"]);
    }
    assert_eq!(units(&closed["spent"]), paid);
    conserved(&grid);
}

/// A program's own record and ears.
#[derive(Default)]
struct Program {
    record: Mutex<Option<GroupRecord>>,
    events: Mutex<Vec<GroupEvent>>,
}

impl Program {
    fn has(&self, is_it: impl Fn(&GroupEvent) -> bool) -> bool {
        self.events.lock().unwrap().iter().any(is_it)
    }
}

impl GroupHost for Program {
    fn keep(&self, record: &GroupRecord) -> std::io::Result<()> {
        *self.record.lock().unwrap() = Some(record.clone());
        Ok(())
    }

    fn money(&self) -> Option<Amount> {
        None
    }

    fn served_by<'a>(
        &'a self,
        _: &'a JobDto,
    ) -> Pin<Box<dyn Future<Output = Result<ServedBy, HostError>> + Send + 'a>> {
        Box::pin(std::future::ready(Ok(ServedBy::AsTold)))
    }

    fn tell(&self, event: &GroupEvent) {
        self.events.lock().unwrap().push(event.clone());
    }
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < Duration::from_secs(40),
            "not in time: {what}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn terms(wallet: &Wallet, model: tg_sdk::ModelId) -> GroupTerms {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    GroupTerms {
        name: "program".to_owned(),
        id: "g1".to_owned(),
        account: wallet.address(),
        model,
        model_name: "mlp-digits".to_owned(),
        rules: ScalingRules {
            min: 1,
            max: 2,
            queue_max: 4,
            queue_ms: 300,
            idle_ms: 1_500,
        },
        money: Amount::from_tgrid(200),
        minute_max: None,
        run_max: None,
        same_provider: false,
        until_ms: now.unwrap().as_millis() as u64 + 600_000,
        needs: JobNeeds::ANY_MACHINE,
    }
}

/// An account with some money.
async fn funded(client: &Client, seed: &[u8]) -> Wallet {
    let wallet = Wallet::from_seed(seed);
    let request = tg_sdk::dto::FaucetRequestDto {
        address: wallet.address(),
        amount: Amount::from_tgrid(300),
    };
    client.faucet(&request).await.unwrap();
    while client.account(wallet.address()).await.unwrap().balance == Amount::ZERO {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    wallet
}

/// Asks for so many proofs at once, which take their time.
async fn proofs(
    group: &Arc<ReplicaGroup>,
    (checked, input): (&Arc<CheckedModel>, &[u8]),
    count: usize,
) -> Vec<GroupAnswer> {
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..count {
        let (group, checked) = (Arc::clone(group), Arc::clone(checked));
        let input = input.to_vec();
        asking.spawn(async move {
            group
                .ask(&input, Some(&checked), &mut |_| {})
                .await
                .unwrap()
        });
    }
    asking.join_all().await
}

/// As a program of somebody else uses the SDK.
#[test]
fn a_queue_opens_a_replica_and_idleness_closes_it() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::up(&folder.path().join("grid"), 2);
    let digit = std::fs::read(root().join("examples/digit.json")).unwrap();
    let digit: Value = serde_json::from_slice(&digit).unwrap();
    let reals: Vec<f32> = serde_json::from_value(digit["input_data"][0].clone()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::new(&grid.url).unwrap();
        client.believe();
        let wallet = funded(&client, b"a program with a group").await;
        let model = jobs::find_model(&client, "mlp-digits").await.unwrap();
        let checked = Arc::new(jobs::public_model(&client, &model).await.unwrap());
        let input = checked.input(&reals).unwrap();
        let record = GroupRecord::new(terms(&wallet, model.id)).unwrap();
        let host = Arc::new(Program::default());
        let shown: Arc<dyn GroupHost> = Arc::<Program>::clone(&host);
        let patience = GroupPatience::default();
        let group = ReplicaGroup::found((&client, &wallet), record, shown, patience, false).await;
        let group = Arc::new(group.unwrap());
        assert_eq!(group.replicas().len(), 1);
        let tending = Arc::clone(&group);
        let tended = tokio::spawn(async move { tending.tend().await });

        // The queue stays above four for each replica until a second one works on it, however fast the machine is.
        let (mut answers, mut by) = (Vec::new(), BTreeSet::new());
        while by.len() < 2 {
            assert!(answers.len() < 2_400, "no second replica was opened");
            answers.extend(proofs(&group, (&checked, &input), 60).await);
            by = answers.iter().map(|it: &GroupAnswer| it.provider).collect();
        }
        let queue = OpenReason::Queue;
        let by_queue =
            |it: &GroupEvent| matches!(it, GroupEvent::Opened { reason, .. } if *reason == queue);
        assert!(host.has(by_queue));
        let owed: Vec<_> = group.replicas().iter().map(|it| it.owed).collect();
        let prices: u128 = answers.iter().map(|it| it.answer.price.get()).sum();
        assert_eq!(owed.iter().map(|it| it.amount.get()).sum::<u128>(), prices);
        let answered: u64 = owed.iter().map(|it| it.answered).sum();
        assert_eq!(answered, answers.len() as u64);

        eventually("what is asked nothing is closed", || {
            group.replicas().len() == 1
        })
        .await;
        let idle = LeaveReason::Idle;
        let is_idle =
            |it: &GroupEvent| matches!(it, GroupEvent::Left { reason, .. } if *reason == idle);
        assert!(host.has(is_idle));
        eventually("its job ends", || group.record().replicas.len() == 1).await;
        // It was paid all that was owed to it, and the last one stays and answers.
        let stays = group.replicas()[0];
        let left = owed.iter().find(|it| it.lease != stays.lease).unwrap();
        assert!(group.record().spent >= left.amount, "{left:?}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let answer = group.ask(&input, None, &mut |_| {}).await.unwrap();
        assert_eq!((answer.tries, answer.job), (1, stays.job));

        tended.abort();
        let closed = group.close().await.unwrap();
        assert_eq!(closed.replicas, Vec::new());
        assert_eq!(host.record.lock().unwrap().as_ref(), Some(&closed));
    });
    conserved(&grid);
}
