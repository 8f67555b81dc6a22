//! Job files as people and strangers write them.

#![allow(clippy::unwrap_used, reason = "tests")]

use tg_exec::sample::Numbers;

use super::order::{JobFile, JobWork, given_values, read_job};
use super::problem::JobProblem;

/// A job that is fine but for what is added.
const DIGIT: &str = "model: mlp-digits\ninput: digit.json\n";

fn fine(text: &str) -> JobFile {
    let read = read_job(text.as_bytes(), &[]);
    assert!(read.problems.is_empty(), "{text}\n{:?}", read.problems);
    read.order.unwrap()
}

fn commands(text: &str) -> Vec<String> {
    let job = fine(text);
    let machines = job.machines.alternatives.iter();
    machines
        .map(|machine| job.words(machine).join(" "))
        .collect()
}

fn problems(text: &str) -> Vec<JobProblem> {
    let read = read_job(text.as_bytes(), &[]);
    assert!(read.order.is_none(), "taken:\n{text}");
    assert!(!read.problems.is_empty(), "{text}");
    assert!(
        read.problems.iter().all(|it| !it.hint.is_empty()),
        "{:?}",
        read.problems
    );
    read.problems
}

/// One problem, with its place and words of its text and hint.
fn refuses(text: &str, place: &str, words: &[&str]) {
    let found = problems(text);
    let said = found.iter().find(|it| {
        let all = format!("{} {}", it.text, it.hint);
        it.place.to_string() == place && words.iter().all(|word| all.contains(word))
    });
    assert!(said.is_some(), "{text}\n{place} {words:?}\n{found:#?}");
}

fn notes(text: &str) -> Vec<String> {
    let read = read_job(text.as_bytes(), &[]);
    assert!(read.problems.is_empty(), "{text}\n{:?}", read.problems);
    let notes = read.notes.into_iter();
    notes
        .map(|it| format!("{} {}", it.place, it.text))
        .collect()
}

#[test]
fn a_job_is_the_command_that_it_stands_for() {
    let check = |text: &str, command: &str| assert_eq!(commands(text), [command], "{text}");
    check(DIGIT, "infer mlp-digits digit.json");
    check(
        "model: m\ninput: {files: {ids: a.npy, mask: b.npy}}\nverify: proof\n",
        "infer --verify=proof m ids=a.npy mask=b.npy",
    );
    check(
        "model: m\ninput: {text: one two, tokenizer: t.json}\nverify: {mode: sync, value_at_risk: 5}\n",
        "infer --verify=sync --value-at-risk=5 --text=one two --tokenizer=t.json m",
    );
    check(
        "program: words\ninput: {files: [a, b], chunks: 4}\noutput: out\nverify: {mode: optimistic, trust: yes}\n",
        "program submit --verify=optimistic --trust --output=out --chunks=4 --input=a --input=b words",
    );
    check(
        "model: gpt-bytes\nwrite: {text: 'ROMEO:', tokens: 60, temperature: 0}\noffer: {max_price: 0.50, deadline: 10m}\n",
        "write --max-price=0.5 --deadline-s=600 --text=ROMEO: --tokens=60 --temperature=0 gpt-bytes",
    );
    check(
        "model: gpt-bytes\nendpoint: {money: 1, hours: 2}\n",
        "endpoint open --money=1 --hours=2 gpt-bytes",
    );
    check("model: -m\ninput: [--a, b]\n", "infer -- -m --a b");
    check(
        "model: m\ninput: x\nverify: {seal: true, reveal: yes}\n",
        "infer --seal --reveal m x",
    );
    check("model: m\ninput: x\nverify: {seal: no}\n", "infer m x");
    assert_eq!(fine(DIGIT).work, JobWork::Infer);
}

#[test]
fn what_is_sealed_is_checked_by_nobody_who_would_read_it() {
    let check = |verify: &str, place: &str, words: &[&str]| {
        refuses(&format!("{DIGIT}verify:\n{verify}"), place, words);
    };
    check(
        "  seal: true\n  mode: proof\n",
        "5:3",
        &["`verify.mode`", "reads what is sealed", "`reveal: true`"],
    );
    check(
        "  proof_out: p\n  seal: true\n",
        "4:3",
        &["`verify.proof_out`"],
    );
    check(
        "  mode: proof\n  reveal: true\n",
        "5:3",
        &["not sealed", "`seal: true`"],
    );
}

#[test]
fn resources_are_needs_of_the_machine() {
    let check = |resources: &str, flags: &str| {
        let text = format!("{DIGIT}resources: {resources}\n");
        let expected = format!("infer {flags}mlp-digits digit.json");
        assert_eq!(commands(&text), [expected], "{resources}");
    };
    check("", "");
    check("{}", "");
    check("{accelerators: A100:8}", "--gpus=8 --gpu-model=a100-40 ");
    check("{accelerators: null, cpus: null}", "");
    check("{gpus: 'H100'}", "--gpus=1 --gpu-model=h100 ");
    check(
        "{accelerators: {V100: 1, T4: 1}}",
        "--gpus=1 --gpu-model=t4,v100 ",
    );
    check(
        "{accelerators: {'V100:2', 'T4:2'}}",
        "--gpus=2 --gpu-model=t4,v100 ",
    );
    check(
        "{accelerators: [A100-80GB:4]}",
        "--gpus=4 --gpu-model=a100-80 ",
    );
    check(
        "{accelerators: 'V100:0.5'}",
        "--gpu-share=500 --gpu-model=v100 ",
    );
    check(
        "{accelerators: 80GB+}",
        "--gpus=1 --gpu-model=a100-80,h100,h200 ",
    );
    check(
        "{cpus: 4+, memory: 16+, disk_size: 100, use_spot: on}",
        "--cpu-milli=4000 --memory=16384 --disk=100 --tier=spot ",
    );
    check("{cpus: 2, memory: 512MB}", "--cpu-milli=2000 --memory=512 ");
    let with =
        format!("{DIGIT}num_nodes: 4\noffer: {{region: [1, 2], priority: 3, class: Training}}\n");
    assert_eq!(
        commands(&with),
        ["infer --region=1,2 --priority=3 --class=training --gang=4 mlp-digits digit.json"]
    );
}

#[test]
fn alternatives_that_differ_by_their_gpu_alone_are_one() {
    let check = |resources: &str, ordered: bool, flags: &[&str]| {
        let job = fine(&format!("{DIGIT}resources:\n{resources}"));
        assert_eq!(job.machines.ordered, ordered, "{resources}");
        let machines = job.machines.alternatives.iter();
        let words = machines.map(|machine| {
            let flags = machine.flags().into_iter().map(|it| it.word);
            flags.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(words.collect::<Vec<_>>(), flags, "{resources}");
    };
    check(
        "  cpus: 4\n  any_of:\n    - accelerators: H100\n    - accelerators: {A100: 1}\n",
        false,
        &["--gpus=1 --gpu-model=a100-40,h100 --cpu-milli=4000"],
    );
    check(
        "  any_of:\n    - {accelerators: H100:2, use_spot: true}\n    - {accelerators: 'H100:2', use_spot: false}\n    - accelerators: A100:4\n",
        false,
        &[
            "--gpus=2 --gpu-model=h100 --tier=spot",
            "--gpus=2 --gpu-model=h100",
            "--gpus=4 --gpu-model=a100-40",
        ],
    );
    check(
        "  ordered:\n    - accelerators: H100\n    - accelerators: A100\n      cpus: 2\n  cpus: 8\n",
        true,
        &[
            "--gpus=1 --gpu-model=h100 --cpu-milli=8000",
            "--gpus=1 --gpu-model=a100-40 --cpu-milli=2000",
        ],
    );
    check(
        "  accelerators: [H100, A100]\n",
        true,
        &["--gpus=1 --gpu-model=h100", "--gpus=1 --gpu-model=a100-40"],
    );
    // What no machine of the grid can say that it has is left out, and said.
    let text = format!("{DIGIT}resources: {{accelerators: {{L40S: 1, L4: 1}}}}\n");
    assert_eq!(
        commands(&text),
        ["infer --gpus=1 --gpu-model=l4 mlp-digits digit.json"]
    );
    assert!(notes(&text)[0].contains("`L40S`: this alternative is left out"));
}

#[test]
fn what_the_grid_does_not_have_is_refused_by_name_with_what_to_do() {
    let check = |added: &str, words: &[&str]| refuses(&format!("{DIGIT}{added}"), "3:1", words);
    check(
        "run: python train.py\n",
        &["`run`", "containers", "`program`"],
    );
    check(
        "setup: |\n  pip install torch\n",
        &["`setup`", "containers", "`program`"],
    );
    check("workdir: .\n", &["`workdir`", "containers", "`input`"]);
    check("file_mounts: {/a: s3://b}\n", &["`file_mounts`", "`input`"]);
    check("service: {replicas: 2}\n", &["`service`", "`endpoint`"]);
    check("pool: {workers: 2}\n", &["`pool`"]);
    check("event_callback: x\n", &["`event_callback`"]);
    let check = |added: &str, words: &[&str]| {
        refuses(&format!("{DIGIT}resources:\n  {added}\n"), "4:3", words);
    };
    check(
        "instance_type: p4d.24xlarge",
        &["`resources.instance_type`", "`cpus`"],
    );
    check("cloud: aws", &["`resources.cloud`", "leave it out"]);
    check("region: us-east-1", &["`offer`"]);
    check("infra: aws/us-east-1", &["leave it out"]);
    check("image_id: docker:ubuntu", &["containers"]);
    check("ports: 8080", &["`endpoint`"]);
    check("max_hourly_cost: 3", &["`max_price`"]);
}

#[test]
fn what_changes_nothing_is_said() {
    let text = format!(
        "{DIGIT}secrets: {{TOKEN: x}}\nenvs: {{A: 1}}\nconfig: {{docker: {{}}}}\nresources:\n  labels: {{a: b}}\n  \
         autostop: 10\n  job_recovery: FAILOVER\n  disk_tier: best\n  priority: 10\n  any_of:\n    - cpus: 2\n    - cpus: 4\n"
    );
    let said = notes(&text);
    for name in [
        "secrets",
        "envs.A",
        "config",
        "resources.labels",
        "resources.autostop",
        "resources.job_recovery",
        "resources.disk_tier",
        "resources.priority",
    ] {
        let about = said
            .iter()
            .filter(|it| it.contains(&format!("`{name}` changes nothing here")));
        assert_eq!(about.count(), 1, "{name}: {said:?}");
    }
}

#[test]
fn unknown_names_are_refused_where_they_are_with_the_nearest_one() {
    refuses("modle: m\ninput: x\n", "1:1", &["`modle`", "`model`"]);
    refuses(
        &format!("{DIGIT}resources:\n  accelerator: H100\n"),
        "4:3",
        &["`accelerators`"],
    );
    refuses(
        &format!("{DIGIT}resources:\n  any_of:\n  - acelerators: H100\n"),
        "5:5",
        &["`accelerators`"],
    );
    refuses(
        &format!("{DIGIT}offer: {{max-price: 1}}\n"),
        "3:9",
        &["`max_price`"],
    );
    refuses(
        &format!("{DIGIT}offer: {{value_at_risk: 1}}\n"),
        "3:9",
        &["belongs into `verify`"],
    );
    refuses(
        &format!("{DIGIT}resources: {{num_nodes: 2}}\n"),
        "3:13",
        &["left margin"],
    );
    refuses(
        &format!("{DIGIT}resources: {{accelerators: H1OO}}\n"),
        "3:27",
        &["`H100`"],
    );
    refuses(&format!("{DIGIT}verify: zk\n"), "3:9", &["`proof`"]);
    refuses(
        &format!("{DIGIT}verify: {{mode: tee}}\n"),
        "3:16",
        &["not there yet"],
    );
    refuses(&format!("{DIGIT}verify: prof\n"), "3:9", &["proof, sync"]);
}

#[test]
fn wrong_values_are_refused_where_they_are() {
    let check = |added: &str, place: &str, words: &[&str]| {
        refuses(&format!("{DIGIT}{added}\n"), place, words);
    };
    check("num_nodes: 0", "3:12", &["1 to 32"]);
    check("num_nodes: two", "3:12", &["1 to 32"]);
    check("offer: {priority: 9}", "3:19", &["1 to 8"]);
    check("offer: {max_price: much}", "3:20", &["TGRID"]);
    check("offer: {deadline: 8d}", "3:19", &["604800"]);
    check(
        "offer: {tier: cheap}",
        "3:15",
        &["on-demand, spot, reserved"],
    );
    check("offer: 5", "3:8", &["not a mapping"]);
    check("resources: [a]", "3:12", &["not a mapping"]);
    check("resources: {any_of: [], ordered: []}", "3:25", &["both"]);
    check("resources: {cpus: lots}", "3:19", &["cores"]);
    check("resources: {memory: 3x}", "3:21", &["GiB"]);
    check("resources: {accelerators: A100:16}", "3:27", &["num_nodes"]);
    check(
        "resources: {accelerators: tpu-v5e-8}",
        "3:27",
        &["does not know"],
    );
    check(
        "resources: {use_spot: true}\noffer: {tier: spot}",
        "4:9",
        &["same thing"],
    );
    check("num_nodes: 2\noffer: {gang: 2}", "3:1", &["the same"]);
    check("program: p", "3:1", &["one of them"]);
    check("write: {text: a}", "3:1", &["has one"]);
    check("output: x", "3:1", &["programs"]);
    refuses("model: m\n", "1:1", &["`input`"]);
    refuses("program: p\n", "1:1", &["`input`"]);
    refuses("model: net.onnx\ninput: x\n", "1:8", &["model compile"]);
    refuses("program: pi.wasm\ninput: x\n", "1:10", &["program add"]);
    refuses("name: x\n", "1:1", &["nothing is named"]);
    refuses("name: x\nrun:\n", "1:1", &["nothing is named"]);
    refuses("model: m\nwrite: {tokens: 3}\n", "2:8", &["begin with"]);
    refuses("model: m\nendpoint: {hours: 3}\n", "2:11", &["money"]);
    refuses("model: m\ninput: []\n", "2:8", &["names nothing"]);
    refuses("- a\n- b\n", "1:1", &["not a mapping"]);
    refuses("", "1:1", &["says nothing"]);
    refuses("~\n", "1:1", &["says nothing"]);
    refuses("a: [\n", "2:1", &["not YAML"]);
}

#[test]
fn all_problems_of_a_file_are_said_at_once() {
    let found = problems("run: x\nsetup: y\nworkdir: .\nresources: {cloud: aws, cpuz: 4}\n");
    assert_eq!(found.len(), 5, "{found:#?}");
}

#[test]
fn several_documents_are_a_pipeline_but_for_a_header() {
    let one = format!("name: digits\n---\n{DIGIT}");
    assert_eq!(fine(&one).name.as_deref(), Some("digits"));
    assert_eq!(commands(&one), commands(DIGIT));
    assert_eq!(commands(&format!("---\n{DIGIT}---\n")), commands(DIGIT));
    refuses(
        &format!("{DIGIT}---\n{DIGIT}"),
        "4:1",
        &["pipeline of 2 jobs", "file of its own"],
    );
    refuses(
        &format!("name: x\n---\n{DIGIT}---\n{DIGIT}"),
        "6:1",
        &["pipeline of 2"],
    );
    refuses(
        &format!("name: x\nexecution: parallel\n---\n{DIGIT}"),
        "1:1",
        &["job group"],
    );
}

#[test]
fn names_are_replaced_by_their_values() {
    let text = "envs: {DIR: examples, PRICE: '0.25', N: 2}\nmodel: mlp-digits\ninput: ${DIR}/digit.json\noffer: {max_price: $PRICE, attempts: $N}\n";
    assert_eq!(
        commands(text),
        ["infer --max-price=0.25 --attempts=2 mlp-digits examples/digit.json"]
    );
    assert!(notes(text).is_empty());
    let given = given_values(&["DIR=a".to_owned(), "HOME".to_owned()], |name| {
        (name == "HOME").then(|| "b".to_owned())
    });
    let given = given.unwrap();
    let read = read_job(b"envs: {DIR: }\nmodel: m\ninput: [$DIR, $HOME]\n", &given);
    assert_eq!(read.order.unwrap().files, ["a", "b"]);
    assert!(given_values(&["1=2".to_owned()], |_| None).is_err());
    assert!(given_values(&["NOWHERE".to_owned()], |_| None).is_err());
    refuses(
        "envs: {A: }\nmodel: m\ninput: $A\n",
        "1:8",
        &["--env A=VALUE"],
    );
    refuses("model: m\ninput: $A\n", "2:8", &["no value"]);
    refuses("envs: {1A: x}\nmodel: m\ninput: x\n", "1:8", &["no name"]);
    refuses("secrets: {A: x}\nmodel: m\ninput: $A\n", "3:8", &["secret"]);
    // In a text a dollar may be meant.
    let text = "model: m\nwrite: {text: it costs $FIVE}\n";
    assert!(
        notes(text)[0].contains("left as it is"),
        "{:?}",
        notes(text)
    );
    // As SkyPilot does, nothing is replaced in what says which machine.
    let text = format!("envs: {{G: H100}}\n{DIGIT}resources: {{accelerators: $G}}\n");
    refuses(&text, "4:27", &["no accelerator"]);
}

#[test]
fn replacing_names_is_bounded() {
    let big = "x".repeat(500_000);
    let text = format!(
        "envs: {{A: {big}}}\nmodel: m\nwrite: {{text: '{}'}}\n",
        "$A".repeat(10_000)
    );
    refuses(&text, "3:15", &["bytes"]);
}

/// Files that a stranger sends: a verdict with places, never a panic.
#[test]
#[expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]
fn strangers_job_files_give_verdicts() {
    let setting = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap())
    };
    let seed = setting("TENSORGRID_FUZZ_SEED", 20_261_126);
    let rounds = 200 * setting("TENSORGRID_FUZZ_ROUNDS", 25);
    println!("TENSORGRID_FUZZ_SEED={seed}");
    let mut numbers = Numbers::new(seed);
    let files = SEEDS.map(str::as_bytes);
    for round in 0..rounds {
        let mut bytes = files[pick(&mut numbers, files.len())].to_vec();
        for _ in 0..=pick(&mut numbers, 4) {
            mutate(&mut bytes, &mut numbers);
        }
        let read = read_job(&bytes, &[]);
        assert!(
            read.order.is_some() == read.problems.is_empty(),
            "round {round}"
        );
        let lines = 1 + bytes
            .iter()
            .filter(|&&it| it == b'\n' || it == b'\r')
            .count();
        for problem in &read.problems {
            assert!(
                (1..=lines + 1).contains(&problem.place.line),
                "round {round}: {problem:?}"
            );
            assert!(!problem.text.contains('\u{1b}'), "round {round}");
        }
    }
}

/// Where mutations begin.
const SEEDS: [&str; 4] = [
    "name: a\nenvs: &e {A: 1, B: x}\nmodel: mlp-digits\ninput: {files: {x: $A/b.npy}}\nresources:\n  accelerators: {A100: 8, H100: 4}\n  cpus: 4+\n  any_of:\n    - use_spot: true\n    - memory: 16GB+\noffer: {max_price: 0.05, deadline: 10m, region: [1, 2]}\nverify: {mode: proof, value_at_risk: 2}\n",
    "program: words\ninput:\n  files:\n    - README.md\n    - \"b\\u0041\"\n  chunks: 4\noutput: out\nverify: optimistic\nnum_nodes: 1\n",
    "base: &b\n  <<: {cpus: 2}\nmodel: gpt-bytes\nwrite:\n  text: |\n    ROMEO:\n      x\n  tokens: 60\nresources: *b\n",
    "name: x\n---\nmodel: m\nendpoint: {money: 1, hours: 2}\n--- # two\nrun: echo hi\nsetup: >-\n  a\n  b\n",
];

/// A number below `count`.
fn pick(numbers: &mut Numbers, count: usize) -> usize {
    usize::try_from(numbers.next() % count as u64).unwrap()
}

/// Changes a file a little: a byte, a piece that is doubled or cut, or a word of YAML.
fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    const WORDS: [&str; 16] = [
        "&a ",
        "*a",
        "<<: ",
        "- ",
        ": ",
        "\n",
        "  ",
        "{",
        "}",
        "[",
        "]",
        "!!str ",
        "? ",
        "'",
        "\u{1b}[2J",
        "---\n",
    ];
    let at = pick(numbers, bytes.len() + 1);
    match pick(numbers, 4) {
        0 if at < bytes.len() => bytes[at] = u8::try_from(pick(numbers, 256)).unwrap(),
        1 => {
            let end = (at + pick(numbers, 40)).min(bytes.len());
            bytes.drain(at..end);
        }
        2 => {
            let end = (at + pick(numbers, 40)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => {
            let word = WORDS[pick(numbers, 16)];
            bytes.splice(at..at, word.bytes());
        }
    }
}
