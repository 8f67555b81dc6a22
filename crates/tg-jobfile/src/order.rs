//! A job file that was read: the command that it stands for, with its words.

use super::envs::{JobEnvs, is_name};
use super::fields::BlockFields;
use super::fields::JobFlag;
use super::problem::{Findings, JobNote, JobPlace, JobProblem};
use super::resources::{MachineWish, MachineWishes, machines};
use super::scalar::PlainScalar;
use super::shape::FieldShape;
use super::tables::{ENDPOINT, INPUT, JOB, OFFER, VERIFY, WRITE};
use super::yaml::{JobEntry, JobNode, JobValue, documents, shown};
use std::rc::Rc;

/// Which command a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobWork {
    /// `infer`.
    Infer,
    /// `write`.
    Write,
    /// `program submit`.
    Program,
    /// `endpoint open`.
    Endpoint,
}

impl JobWork {
    /// The words of the command.
    pub const fn command(self) -> &'static [&'static str] {
        match self {
            Self::Infer => &["infer"],
            Self::Write => &["write"],
            Self::Program => &["program", "submit"],
            Self::Endpoint => &["endpoint", "open"],
        }
    }
}

/// A job as its file says it.
#[derive(Debug, Clone)]
pub struct JobFile {
    /// What it is called.
    pub name: Option<String>,
    /// Which command it is.
    pub work: JobWork,
    /// The model or the program.
    pub subject: String,
    /// Where the subject is named.
    pub place: JobPlace,
    /// Files of the input that are no flags.
    pub files: Vec<String>,
    /// The flags, but for those of the machine.
    pub flags: Vec<JobFlag>,
    /// The machines that will do.
    pub machines: MachineWishes,
}

impl JobFile {
    /// All flags of an alternative.
    pub fn flags_of(&self, machine: &MachineWish) -> Vec<JobFlag> {
        let mut flags = self.flags.clone();
        flags.extend(machine.flags());
        flags
    }

    /// The command line of an alternative, after the program's name.
    pub fn words(&self, machine: &MachineWish) -> Vec<String> {
        let command = self.work.command().iter().map(|&it| it.to_owned());
        let flags = self.flags_of(machine).into_iter().map(|flag| flag.word);
        let mut positional = vec![self.subject.clone()];
        positional.extend(self.files.iter().cloned());
        let guard = positional.iter().any(|it| it.starts_with('-'));
        command
            .chain(flags)
            .chain(guard.then(|| "--".to_owned()))
            .chain(positional)
            .collect()
    }
}

/// What a job file came to.
#[derive(Debug)]
pub struct ReadJob {
    /// The job, if nothing is wrong.
    pub order: Option<JobFile>,
    /// What is wrong.
    pub problems: Vec<JobProblem>,
    /// What is accepted and said.
    pub notes: Vec<JobNote>,
}

/// Reads a job file. `given`: values of the command line for `$NAME`.
pub fn read_job(bytes: &[u8], given: &[(String, String)]) -> ReadJob {
    let mut findings = Findings::default();
    let order = order(bytes, given, &mut findings);
    let order = order.filter(|_| findings.is_fine());
    let (problems, notes) = findings.into_sorted();
    ReadJob {
        order,
        problems,
        notes,
    }
}

fn order(bytes: &[u8], given: &[(String, String)], findings: &mut Findings) -> Option<JobFile> {
    let documents = findings.take(documents(bytes))?;
    let (header, document) = findings.take(one_document(&documents))?;
    let JobValue::Map(entries) = &document.value else {
        let text = format!("the file is {}, not a mapping", document.kind());
        let hint = format!("its fields are {}", JOB.names().join(", "));
        findings.problem(JobProblem::new(document.place, text, hint));
        return None;
    };
    let inner = |name: &str| document.get(name).map(|entry| entry.node.as_ref());
    let mut envs = JobEnvs::read((inner("envs"), inner("secrets")), given, findings);
    let entries: Vec<JobEntry> = entries
        .iter()
        .map(|entry| match entry.key.as_str() {
            "model" | "program" | "input" | "output" | "write" | "endpoint" | "offer"
            | "verify" => JobEntry {
                node: envs.replaced(&entry.node, false, findings),
                ..entry.clone()
            },
            _ => entry.clone(),
        })
        .collect();
    envs.tell_unused(inner("envs"), findings);
    let fields = JOB.walk(&entries, findings);
    let machines = machines(fields.get("resources"), findings);
    let mut flags = Vec::new();
    let offer = fields
        .get("offer")
        .map(|node| OFFER.walk_node(node, findings));
    if let Some(offer) = &offer {
        flags.extend(offer.flags(findings));
    }
    flags.extend(verify(fields.get("verify"), findings));
    flags.extend(gang(&fields, &flags, findings));
    refuse_twice(&machines, &flags, findings);
    let name = fields.one("name", findings);
    let (work, subject, place) = work(&fields, document, findings)?;
    let mut order = JobFile {
        name: name.or(header),
        work,
        subject,
        place,
        files: Vec::new(),
        flags,
        machines,
    };
    given_to(&mut order, &fields, findings);
    Some(order)
}

/// The document that is the job, and the name in a header before it. SkyPilot's pipelines and job groups are refused.
fn one_document(documents: &[Rc<JobNode>]) -> Result<(Option<String>, &Rc<JobNode>), JobProblem> {
    let mut jobs: Vec<&Rc<JobNode>> = documents.iter().filter(|it| !it.is_null()).collect();
    let mut header = None;
    if let Some(JobValue::Map(entries)) = jobs.first().map(|it| &it.value)
        && jobs.len() > 1
        && entries.iter().any(|entry| entry.key == "name")
        && entries
            .iter()
            .all(|it| matches!(it.key.as_str(), "name" | "execution"))
    {
        let name = jobs[0].get("name").map(|entry| &entry.node.value);
        if let Some(JobValue::Scalar(_, text)) = name {
            header = Some(text.clone());
        }
        let is_parallel = jobs[0].get("execution").is_some_and(
            |entry| matches!(&entry.node.value, JobValue::Scalar(_, text) if text != "serial"),
        );
        if is_parallel {
            let text = "the file is a job group (`execution: parallel`): a file is one job";
            let hint = "put each job into a file of its own, and submit them one by one";
            return Err(JobProblem::new(jobs[0].place, text, hint));
        }
        jobs.remove(0);
    }
    match jobs.as_slice() {
        [] => {
            let place = JobPlace { line: 1, column: 1 };
            let hint = "name a `model` or a `program`, with `input`";
            Err(JobProblem::new(place, "the file says nothing", hint))
        }
        [job] => Ok((header, job)),
        [_, second, ..] => {
            let text = format!(
                "the file is a pipeline of {} jobs: a file is one job, since nothing passes the output of one to the next",
                jobs.len()
            );
            let hint = "put each job into a file of its own, and submit them one by one";
            Err(JobProblem::new(second.place, text, hint))
        }
    }
}

/// The flags of `verify`.
fn verify(node: Option<&JobNode>, findings: &mut Findings) -> Vec<JobFlag> {
    let Some(node) = node else {
        return Vec::new();
    };
    let mode = match &node.value {
        JobValue::Map(_) => node.get("mode").map(|entry| entry.node.as_ref()),
        _ => Some(node),
    };
    if let Some(mode) = mode
        && let JobValue::Scalar(_, text) = &mode.value
        && let Some(instead) = other_word(text)
    {
        let text = format!("there is no way of checking `{}`", shown(text));
        findings.problem(JobProblem::new(mode.place, text, instead));
        return Vec::new();
    }
    if matches!(node.value, JobValue::Map(_)) {
        let flags = VERIFY.walk_node(node, findings).flags(findings);
        refuse_beside_seal(&flags, findings);
        return flags;
    }
    let entry = JobEntry {
        key: "mode".to_owned(),
        place: node.place,
        node: Rc::new(node.clone()),
    };
    VERIFY.walk([&entry], findings).flags(findings)
}

/// Refuses what does not go with a seal, or not without one: whoever checks a result reads its input.
fn refuse_beside_seal(flags: &[JobFlag], findings: &mut Findings) {
    let find = |name: &str| flags.iter().find(|it| it.flag == name);
    let checked = find("verify").or_else(|| find("proof-out"));
    let (at, text, hint) = match (find("seal"), find("reveal"), checked) {
        (Some(_), _, Some(checked)) => (
            checked,
            format!(
                "`verify.seal` and `verify.{}`: whoever checks a result, or reads its proof, reads what is sealed",
                checked.field
            ),
            "keep one of them; with `reveal: true` the answer is checked here, and by validators if it is another one",
        ),
        (None, Some(reveal), _) => (
            reveal,
            "`verify.reveal` shows the key of a sealed job, and this one is not sealed".to_owned(),
            "`seal: true` seals it; else leave it out",
        ),
        _ => return,
    };
    findings.problem(JobProblem::new(at.place, text, hint));
}

/// What the words of others for ways of checking are here.
fn other_word(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "zk" | "zkml" | "snark" | "stark" => Some("it is called `proof`"),
        "sample" | "sampling" => Some("drawn parts are checked by `sync`"),
        "replication" | "replicated" | "redundant" => {
            Some("it is called `replicate`, or `replicate:3` with the number of providers")
        }
        "tee" | "sgx" | "tdx" | "attestation" => Some(
            "attested execution is not there yet: `proof`, `sync`, `recompute` or `optimistic`",
        ),
        _ => None,
    }
}

/// `num_nodes`, which is `offer.gang` by SkyPilot's name.
fn gang(fields: &BlockFields<'_>, flags: &[JobFlag], findings: &mut Findings) -> Option<JobFlag> {
    let entry = fields.entry("num_nodes")?;
    let count = fields.one("num_nodes", findings)?;
    if flags.iter().any(|flag| flag.flag == "gang") {
        let text = "`num_nodes` and `offer.gang` are the same, and both are there";
        findings.problem(JobProblem::new(entry.place, text, "keep one of them"));
    }
    (count != "1").then(|| JobFlag {
        place: entry.place,
        field: "num_nodes",
        flag: "gang",
        word: format!("--gang={count}"),
    })
}

/// Refuses what `offer` and `resources` both say.
fn refuse_twice(machines: &MachineWishes, flags: &[JobFlag], findings: &mut Findings) {
    for machine in &machines.alternatives {
        for asked in machine.flags() {
            let clash = flags
                .iter()
                .find(|it| it.flag == asked.flag || it.flag == "mig" && asked.flag == "gpu-share");
            if let Some(clash) = clash {
                let text = format!(
                    "`offer.{}` and `resources.{}` of line {} say the same thing",
                    clash.field, asked.field, asked.place.line
                );
                findings.problem(JobProblem::new(clash.place, text, "keep one of them"));
            }
        }
        let tier = flags.iter().find(|flag| flag.word == "--tier=spot");
        if let Some(tier) = tier.filter(|_| machine.spot == Some(false)) {
            let text = "`offer.tier` is spot, and `resources.use_spot` is false";
            findings.problem(JobProblem::new(tier.place, text, "keep one of them"));
        }
    }
}

/// Which command the job is, and its model or program.
fn work(
    fields: &BlockFields<'_>,
    document: &JobNode,
    findings: &mut Findings,
) -> Option<(JobWork, String, JobPlace)> {
    let (model, program) = (fields.entry("model"), fields.entry("program"));
    let (entry, name) = match (model, program) {
        (Some(entry), None) => (entry, "model"),
        (None, Some(entry)) => (entry, "program"),
        (Some(_), Some(second)) => {
            let text = "`model` and `program` are both there: a job runs one of them";
            findings.problem(JobProblem::new(second.place, text, "keep one of them"));
            return None;
        }
        (None, None) => {
            // A refused command says what to name.
            if document.get("run").is_none_or(|entry| entry.node.is_null()) {
                let text = "nothing is named that runs";
                let hint = "`model`: a model of the grid, or `program`: a WebAssembly program; `tensorgrid model list` shows them";
                findings.problem(JobProblem::new(document.place, text, hint));
            }
            return None;
        }
    };
    let subject = fields.one(name, findings)?;
    findings.take(refuse_files(&subject, entry.node.place))?;
    let others = ["input", "write", "endpoint"];
    let named: Vec<&JobEntry> = others.iter().filter_map(|it| fields.entry(it)).collect();
    let work = match (name, named.as_slice()) {
        ("program", [one]) if one.key == "input" => JobWork::Program,
        ("model", [one]) if one.key == "input" => JobWork::Infer,
        ("model", [one]) if one.key == "write" => JobWork::Write,
        ("model", [one]) if one.key == "endpoint" => JobWork::Endpoint,
        ("program", _) => {
            let text = "a program needs `input`, and takes neither `write` nor `endpoint`";
            let hint = "`input: FILE`, or a list of files";
            findings.problem(JobProblem::new(entry.place, text, hint));
            return None;
        }
        (_, []) => {
            let text = "a model needs `input`, `write` or `endpoint`: what it is to do";
            let hint = "`input: FILE` runs it on a file";
            findings.problem(JobProblem::new(entry.place, text, hint));
            return None;
        }
        (_, [_, second, ..] | [second]) => {
            let text = "of `input`, `write` and `endpoint` a job has one";
            findings.problem(JobProblem::new(second.place, text, "keep one of them"));
            return None;
        }
    };
    Some((work, subject, entry.node.place))
}

/// Files of models and programs are registered first.
fn refuse_files(subject: &str, place: JobPlace) -> Result<(), JobProblem> {
    let hint = match subject.rsplit_once('.').map(|(_, ending)| ending) {
        Some("wasm" | "tgw") => {
            "`tensorgrid program add FILE` registers it: name it here as it is called there"
        }
        Some("onnx") => {
            "`tensorgrid model compile` and `model add` register it, or `model add FILE --tier tgf1`: name it here as it is called there"
        }
        Some("tgm" | "tgv") => {
            "`tensorgrid model add` registers it: name it here as it is called there"
        }
        _ if subject.is_empty() => "name a model or program of the grid",
        _ => return Ok(()),
    };
    let text = format!(
        "`{}` is not the name of a model or program of the grid",
        shown(subject)
    );
    Err(JobProblem::new(place, text, hint))
}

/// Adds what the model or program is given.
fn given_to(order: &mut JobFile, fields: &BlockFields<'_>, findings: &mut Findings) {
    if let Some(output) = fields.entry("output") {
        match (order.work, fields.one("output", findings)) {
            (JobWork::Program, Some(file)) => order.flags.push(JobFlag {
                place: output.place,
                field: "output",
                flag: "output",
                word: format!("--output={file}"),
            }),
            (JobWork::Program, None) => {}
            _ => {
                let text = "`output` is for programs";
                let hint =
                    "the answer of a model is printed; `proof_out` of `verify` writes its proof";
                findings.problem(JobProblem::new(output.place, text, hint));
            }
        }
    }
    let (name, block) = match order.work {
        JobWork::Infer | JobWork::Program => ("input", &INPUT),
        JobWork::Write => ("write", &WRITE),
        JobWork::Endpoint => ("endpoint", &ENDPOINT),
    };
    let Some(node) = fields.get(name) else {
        return;
    };
    let is_block = matches!(node.value, JobValue::Map(_));
    let mut files = Vec::new();
    if is_block {
        let inner = block.walk_node(node, findings);
        order.flags.extend(inner.flags(findings));
        if let Some(node) = inner.get("files") {
            files = named_files(node, order.work, findings);
        }
    } else if name == "input" {
        files = named_files(node, order.work, findings);
    } else {
        block.walk_node(node, findings);
    }
    let place = node.place;
    if order.work == JobWork::Program {
        let flags = files.into_iter().map(|file| JobFlag {
            place,
            field: "input",
            flag: "input",
            word: format!("--input={file}"),
        });
        order.flags.extend(flags);
    } else {
        order.files = files;
    }
    refuse_missing(order, place, findings);
}

/// What a command needs that is not there.
fn refuse_missing(order: &JobFile, place: JobPlace, findings: &mut Findings) {
    let has = |flag: &str| order.flags.iter().any(|it| it.flag == flag);
    let (is_there, text, hint) = match order.work {
        JobWork::Infer => (
            !order.files.is_empty() || has("text"),
            "`input` names nothing",
            "`files` or `text`",
        ),
        JobWork::Program => (
            has("input"),
            "`input` names no file",
            "`files`: one or several",
        ),
        JobWork::Write => (
            has("text") || has("prompt"),
            "`write` has nothing to begin with",
            "`text`, or `prompt` with tokens",
        ),
        JobWork::Endpoint => (
            has("money"),
            "`endpoint` names no money",
            "`money` is locked for it, in TGRID; what is not used comes back",
        ),
    };
    // What is there and wrong has a problem of its own.
    if !is_there && findings.is_fine() {
        findings.problem(JobProblem::new(place, text, hint));
    }
}

/// The files of an input.
fn named_files(node: &JobNode, work: JobWork, findings: &mut Findings) -> Vec<String> {
    let read = |node: &JobNode, findings: &mut Findings| {
        let read = findings
            .take(FieldShape::Text.read(node))
            .unwrap_or_default();
        read.into_iter().next().filter(|file| {
            if file.is_empty() {
                let text = "a file without a name";
                findings.problem(JobProblem::new(node.place, text, "name a file"));
            }
            !file.is_empty()
        })
    };
    match &node.value {
        JobValue::List(items) => {
            let files = items.iter().filter_map(|item| read(item, findings));
            files.collect()
        }
        JobValue::Map(entries) if work == JobWork::Infer => entries
            .iter()
            .filter_map(|entry| {
                let file = read(&entry.node, findings)?;
                Some(format!("{}={file}", entry.key))
            })
            .collect(),
        JobValue::Map(_) => {
            let text = "the files of a program have no names";
            findings.problem(JobProblem::new(node.place, text, "a list of files"));
            Vec::new()
        }
        JobValue::Scalar(PlainScalar::Null, _) => Vec::new(),
        JobValue::Scalar(..) => read(node, findings).into_iter().collect(),
    }
}

/// The values that a command line gives: `NAME=VALUE`, or `NAME` for that of the environment, as SkyPilot takes them.
///
/// # Errors
/// What is wrong with one.
pub fn given_values(
    given: &[String],
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, String> {
    let mut values = Vec::with_capacity(given.len());
    for text in given {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text.as_str(), environment(text)),
        };
        if !is_name(name) {
            return Err(format!("--env {text}: `{name}` is no name of a variable"));
        }
        let Some(value) = value else {
            return Err(format!("--env {name}: the environment has no {name}"));
        };
        values.push((name.to_owned(), value));
    }
    Ok(values)
}
