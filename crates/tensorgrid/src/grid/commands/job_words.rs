//! The commands that a job file stands for: their arguments, and what they ask for in words.

use clap::{Args, Command, FromArgMatches};
use tg_sdk::dto::ModeDto;
use tg_types::{
    Amount, CapacityTier, GpuLink, GpuModel, GpuModelSet, JobClass, JobNeeds, Lane, RegionSet,
    SharingMode,
};

use super::modes::assurance;
use crate::grid::endpoint_args::EndpointOpenArguments;
use crate::grid::infer_args::{InferArguments, WriteArguments};
use crate::grid::job_args::JobSubmitArguments;
use crate::grid::order_args::OrderArguments;
use crate::grid::program_args::ProgramSubmitArguments;
use tg_console::needs::NeedsArguments;
use tg_console::table::short;
use tg_jobfile::order::{JobFile, JobWork};
use tg_jobfile::problem::JobProblem;
use tg_jobfile::resources::MachineWish;

/// The arguments of the command of one alternative.
#[derive(Clone)]
pub(super) enum Ordered {
    /// `infer`.
    Infer(Box<InferArguments>),
    /// `write`.
    Write(Box<WriteArguments>),
    /// `program submit`.
    Program(Box<ProgramSubmitArguments>),
    /// `endpoint open`.
    Endpoint(Box<EndpointOpenArguments>),
}

impl Ordered {
    /// Sets what `job submit` is given: which grid, who signs, and whether anything is ordered.
    pub(super) fn set(&mut self, given: &JobSubmitArguments) {
        let (api, key) = match self {
            Self::Infer(it) => (&mut it.api, &mut it.key),
            Self::Write(it) => (&mut it.api, &mut it.key),
            Self::Program(it) => (&mut it.api, &mut it.key),
            Self::Endpoint(it) => (&mut it.api, &mut it.key),
        };
        *api = given.api.clone();
        *key = given.key.clone();
        let (yes, dry_run) = self.consent();
        *yes = given.yes;
        *dry_run = given.dry_run;
        match self {
            Self::Infer(it) => it.order.project.clone_from(&given.project),
            Self::Write(it) => it.order.project.clone_from(&given.project),
            Self::Program(it) => it.order.project.clone_from(&given.project),
            Self::Endpoint(it) => it.project.clone_from(&given.project),
        }
    }

    /// Orders nothing.
    pub(super) fn set_dry_run(&mut self) {
        *self.consent().1 = true;
    }

    fn consent(&mut self) -> (&mut bool, &mut bool) {
        match self {
            Self::Infer(it) => (&mut it.order.yes, &mut it.order.dry_run),
            Self::Write(it) => (&mut it.order.yes, &mut it.order.dry_run),
            Self::Program(it) => (&mut it.order.yes, &mut it.order.dry_run),
            Self::Endpoint(it) => (&mut it.yes, &mut it.dry_run),
        }
    }

    /// What every order says; an endpoint says less.
    fn order(&self) -> Option<&OrderArguments> {
        match self {
            Self::Infer(it) => Some(&it.order),
            Self::Write(it) => Some(&it.order),
            Self::Program(it) => Some(&it.order),
            Self::Endpoint(_) => None,
        }
    }

    fn needs(&self) -> &NeedsArguments {
        match self {
            Self::Infer(it) => &it.order.needs,
            Self::Write(it) => &it.order.needs,
            Self::Program(it) => &it.order.needs,
            Self::Endpoint(it) => &it.needs,
        }
    }
}

/// The arguments of every alternative, as the command itself reads them.
pub(super) fn ordered(job: &JobFile) -> Result<Vec<Ordered>, Vec<JobProblem>> {
    let each = job.machines.alternatives.iter().map(|machine| {
        Ok(match job.work {
            JobWork::Infer => Ordered::Infer(Box::new(parsed(job, machine)?)),
            JobWork::Write => Ordered::Write(Box::new(parsed(job, machine)?)),
            JobWork::Program => Ordered::Program(Box::new(parsed(job, machine)?)),
            JobWork::Endpoint => Ordered::Endpoint(Box::new(parsed(job, machine)?)),
        })
    });
    each.collect()
}

/// The arguments of a command; what it does not take is refused where the file says it.
fn parsed<T: Args + FromArgMatches>(
    job: &JobFile,
    machine: &MachineWish,
) -> Result<T, Vec<JobProblem>> {
    let command = T::augment_args(Command::new("tensorgrid")).no_binary_name(true);
    let name = job.work.command().join(" ");
    let flags = job.flags_of(machine);
    let unknown = flags.iter().filter(|flag| {
        let mut known = command.get_arguments();
        // Of `endpoint open` it bounds a minute of a replica; of `offer` it is what a job costs at most, which is an endpoint's `money`.
        let is_another = job.work == JobWork::Endpoint && flag.flag == "max-price";
        is_another || !known.any(|it| it.get_long() == Some(flag.flag))
    });
    let unknown: Vec<JobProblem> = unknown
        .map(|flag| {
            let text = format!(
                "`{}` is nothing that `{name}` takes, which this job is",
                flag.field
            );
            JobProblem::new(flag.place, text, instead(job.work, flag.field))
        })
        .collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let words = job.words(machine);
    let words = words.iter().skip(job.work.command().len());
    let matches = command.try_get_matches_from(words);
    let read = matches.and_then(|matches| T::from_arg_matches(&matches));
    read.map_err(|error| {
        let text = error.to_string();
        let text = text.trim_start_matches("error: ");
        let text: Vec<&str> = text
            .split("\n\n")
            .next()
            .unwrap_or("")
            .lines()
            .map(str::trim)
            .collect();
        let text = text.join(" ");
        let named = flags
            .iter()
            .find(|flag| text.contains(&format!("--{}", flag.flag)));
        let place = named.map_or(job.place, |flag| flag.place);
        vec![JobProblem::new(
            place,
            text,
            format!("`tensorgrid {name} --help` says what goes together"),
        )]
    })
}

/// What to do about a field that a command does not take.
fn instead(work: JobWork, field: &str) -> &'static str {
    match (work, field) {
        (JobWork::Endpoint, "max_price") => "`money` of `endpoint` bounds what is spent",
        (JobWork::Endpoint, "deadline") => "`hours` of `endpoint` says how long it lasts",
        (JobWork::Endpoint, "mode") => {
            "nobody checks the answers of an endpoint but you: leave `verify` out"
        }
        (_, "deposit") => "only models of integers are ordered by a sealed bid: leave it out",
        (_, "chunks" | "merge") => "it is for programs: leave it out",
        (_, "seal" | "reveal") => "only a model with `input` is sealed: leave it out",
        (JobWork::Program, "text" | "text_pair" | "tokenizer") => {
            "a program takes files: write the text to one"
        }
        _ => "leave it out",
    }
}

/// A command line that a shell takes.
pub(super) fn shell(words: &[String]) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./=:,+@%".contains(it);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(is_plain) {
            return word.clone();
        }
        format!("'{}'", word.replace('\'', "'\\''"))
    });
    let quoted: Vec<String> = std::iter::once("tensorgrid".to_owned())
        .chain(quoted)
        .collect();
    quoted.join(" ")
}

/// What a job asks for, in lines.
pub(super) fn described(job: &JobFile, choices: &[Ordered]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(name) = &job.name {
        lines.push(format!("job      {name}"));
    }
    lines.push(format!("work     {}", work(job)));
    for (index, choice) in choices.iter().enumerate() {
        let first = if index == 0 { "machine  " } else { "     or  " };
        lines.push(format!("{first}{}", machine(choice)));
    }
    if choices.len() > 1 {
        lines.push(
            match job.machines.ordered {
                true => "         the first of these that is offered is ordered",
                false => "         each is asked for its price, and the cheapest that is offered is ordered",
            }
            .to_owned(),
        );
    }
    let Some(choice) = choices.first() else {
        return lines;
    };
    lines.push(format!("price    {}", price(choice)));
    lines.push(format!("checked  {}", checked(choice)));
    lines.push(format!("time     {}", time(choice)));
    for machine in &job.machines.alternatives {
        lines.push(format!("command  {}", shell(&job.words(machine))));
    }
    lines
}

fn work(job: &JobFile) -> String {
    let subject = &job.subject;
    let listed = |flag: &str| {
        let words = job.flags.iter().filter(|it| it.flag == flag);
        let values =
            words.filter_map(|it| it.word.split_once('=').map(|(_, value)| value.to_owned()));
        values.collect::<Vec<_>>()
    };
    let files = if job.files.is_empty() {
        listed("input")
    } else {
        job.files.clone()
    };
    let on = match (files.is_empty(), listed("text").first()) {
        (true, Some(text)) => format!("the text {text:?}"),
        _ => files.join(", "),
    };
    match job.work {
        JobWork::Infer => format!("runs the model {subject} on {on}"),
        JobWork::Program => format!("runs the WebAssembly program {subject} on {on}"),
        JobWork::Write => format!("has the language model {subject} write"),
        JobWork::Endpoint => format!("has a provider serve the model {subject}"),
    }
}

/// The machine of a choice.
pub(super) fn machine(choice: &Ordered) -> String {
    let needs = choice.needs().needs();
    let mut parts = Vec::new();
    parts.extend(gpus(&needs));
    if needs.cpu_milli > 0 {
        let plural = if needs.cpu_milli == 1_000 { "" } else { "s" };
        let cores = f64::from(needs.cpu_milli) / 1e3;
        parts.push(format!("{cores} core{plural} or more"));
    }
    if needs.memory_mib > 0 {
        parts.push(format!(
            "{} GiB of memory or more",
            f64::from(needs.memory_mib) / 1_024.0
        ));
    }
    if needs.disk_gib > 0 {
        parts.push(format!("{} GiB of disk or more", needs.disk_gib));
    }
    if parts.is_empty() {
        parts.push("any".to_owned());
    }
    if needs.gang > 1 {
        parts.push(format!("{} such machines together", needs.gang));
    }
    if needs.regions != RegionSet::ANY {
        let regions = (0..64).filter(|region| needs.regions.contains(*region));
        let regions: Vec<String> = regions.map(|it| it.to_string()).collect();
        parts.push(format!("in region {}", regions.join(" or ")));
    }
    match needs.tier {
        CapacityTier::Spot => parts.push("spot: others may push the job out".to_owned()),
        CapacityTier::Reserved => {
            parts.push("reserved: the deadline is guaranteed or the job refused".to_owned())
        }
        CapacityTier::OnDemand => {}
    }
    parts.join("; ")
}

fn gpus(needs: &JobNeeds) -> Option<String> {
    if needs.gpus == 0 && needs.models == GpuModelSet::ANY {
        return None;
    }
    let count = match (needs.gpus, needs.gpu_milli) {
        (1, share) if share < 1_000 => format!("{} of a GPU", f64::from(share) / 1e3),
        (1, _) => "1 GPU".to_owned(),
        (count, _) => format!("{count} GPUs"),
    };
    let mut text = count;
    if needs.models != GpuModelSet::ANY {
        let models = GpuModel::ALL
            .iter()
            .filter(|model| needs.models.contains(**model));
        let models: Vec<&str> = models.map(|it| it.as_str()).collect();
        text.push_str(&format!(", {}", models.join(" or ")));
    }
    if needs.gpu_memory_mib > 0 {
        text.push_str(&format!(", {} MiB each", needs.gpu_memory_mib));
    }
    if needs.capability_min > 0 {
        text.push_str(&format!(
            ", compute capability {}.{}",
            needs.capability_min / 10,
            needs.capability_min % 10
        ));
    }
    if needs.tensor_cores {
        text.push_str(", with tensor cores");
    }
    if needs.link_min != GpuLink::Pcie {
        text.push_str(&format!(", joined by {}", needs.link_min.as_str()));
    }
    if needs.isolation != SharingMode::TimeSlice {
        text.push_str(&format!(", kept apart by {}", needs.isolation.as_str()));
    }
    Some(text)
}

fn price(choice: &Ordered) -> String {
    let Some(order) = choice.order() else {
        return match choice {
            Ordered::Endpoint(it) => format!(
                "{} TGRID are locked; what is not used comes back",
                short(it.money)
            ),
            _ => String::new(),
        };
    };
    let needs = order.needs.needs();
    let mut text = match order.max_price {
        Some(price) => format!("at most {} TGRID to the provider, and the verification fee", short(price)),
        None if order.needs.are_usual() => {
            "no limit is named: at most twice what the third cheapest offer asks".to_owned()
        }
        None => "no limit is named, which `job submit` needs for this machine: `job submit --dry-run` says what it would come to, \
                 `max_price` of `offer` bounds it"
            .to_owned(),
    };
    if needs.priority > 1 {
        text.push_str(&format!(
            "; {} times the price, to go first",
            needs.priority
        ));
    }
    if needs.class == JobClass::Batch {
        text.push_str("; a sealed bid in the auction of batch work");
    }
    text
}

fn checked(choice: &Ordered) -> String {
    let (mode, usual) = match choice {
        Ordered::Infer(it) if it.seal.seal => (Some(ModeDto::Sealed), ""),
        Ordered::Infer(it) => {
            let is_bid = it.order.needs.needs().lane() == Lane::Auction;
            let usual = match it.proof_out.is_none() && !is_bid {
                true => {
                    "by sync where an offer has the stake for it, else by a proof; a float model by recompute"
                }
                false => "by a proof; a float model by recompute",
            };
            (it.verify.map(|it| it.mode()), usual)
        }
        Ordered::Write(it) => (Some(it.verify.mode()), ""),
        Ordered::Program(it) => {
            let usual = "by sync where an offer has the stake for it, else by recompute";
            (it.verify.map(|it| it.mode()), usual)
        }
        Ordered::Endpoint(_) => (Some(ModeDto::Endpoint), ""),
    };
    let at_risk = choice.needs().value_at_risk;
    let mut text = match mode {
        Some(mode) => format!("{mode}: {}", assurance(mode)),
        None => usual.to_owned(),
    };
    if at_risk != Amount::ZERO {
        text.push_str(&format!(
            "; a wrong answer would cost {} TGRID more than the price",
            short(at_risk)
        ));
    }
    text
}

fn time(choice: &Ordered) -> String {
    match (choice.order(), choice) {
        (Some(order), _) => format!(
            "{} s at most; {} providers are tried at most; the answer is kept for {} s",
            order.deadline_s,
            order.attempts,
            order.retention.get() / 1_000
        ),
        (None, Ordered::Endpoint(it)) => format!("{} h at most", it.hours),
        (None, _) => String::new(),
    }
}
