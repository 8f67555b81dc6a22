//! Every field of a job file: SkyPilot's and ours, and what becomes of each.

use tg_types::resources::{GANG_MEMBERS_MAX, PRIORITY_MAX, REGIONS_MAX};
use tg_types::{CapacityTier, GpuLink, JobClass, SharingMode};

use super::shape::{FieldRule, FieldShape, JobBlock};
use tg_console::draw::Seed;
use tg_console::needs;
use tg_console::verify::VerifyChoice;

/// The ways of checking, as `--verify` names them.
const MODES: [&str; 6] = [
    "proof",
    "sync",
    "recompute",
    "optimistic",
    "replicate",
    "none",
];

/// What a command in a container would need.
const NO_CONTAINERS: &str =
    "it needs containers with a shell and files of their own, which the grid does not have yet";

/// Every block, by name, the inner ones first: where a field of another block belongs.
static BLOCKS: [&JobBlock; 7] = [&INPUT, &WRITE, &ENDPOINT, &OFFER, &VERIFY, &RESOURCES, &JOB];

/// The block that a field belongs into.
fn elsewhere(field: &str) -> Option<&'static str> {
    let mut blocks = BLOCKS.iter();
    let found = blocks.find(|block| block.names().contains(&field))?;
    Some(found.name)
}

/// The top of a file.
pub(crate) static JOB: JobBlock = JobBlock {
    name: "job",
    elsewhere,
    rules: &[
        FieldRule::used(
            "name",
            FieldShape::Text,
            "What the job is called in messages; the grid knows jobs by their ids.",
        ),
        FieldRule::used(
            "model",
            FieldShape::Text,
            "The model of the grid that runs: its name, its id, or the beginning of its id. With `input`, `write` or `endpoint`.",
        ),
        FieldRule::used(
            "program",
            FieldShape::Text,
            "The WebAssembly program of the grid that runs: its name, its id, or the beginning of its id. With `input`.",
        ),
        FieldRule::used(
            "input",
            FieldShape::TextsOr(&INPUT),
            "What the model or program is given: a file, a list of files, or the fields of `input`. Paths are read from the folder in which the command runs.",
        ),
        FieldRule::used(
            "output",
            FieldShape::Text,
            "File to write the output of a program to.",
        ),
        FieldRule::used(
            "write",
            FieldShape::Block(&WRITE),
            "What the model is to write: for language models.",
        ),
        FieldRule::used(
            "endpoint",
            FieldShape::Block(&ENDPOINT),
            "Have a provider serve the model for some time, instead of one job.",
        ),
        FieldRule::used(
            "resources",
            FieldShape::Block(&RESOURCES),
            "What the machine needs, by SkyPilot's names.",
        ),
        FieldRule::used(
            "num_nodes",
            FieldShape::Whole(1, GANG_MEMBERS_MAX as u64),
            "Machines that must run it together.",
        ),
        FieldRule::used(
            "offer",
            FieldShape::Block(&OFFER),
            "What is paid, how long it may take, and from whom it is taken.",
        ),
        FieldRule::used(
            "verify",
            FieldShape::TextOr(&VERIFY),
            "How the result is checked.",
        ),
        FieldRule::used(
            "envs",
            FieldShape::Texts,
            "Values for `$NAME` and `${NAME}` in `input`, `model`, `program`, `output`, `write`, `endpoint`, `offer` and `verify`.",
        ),
        FieldRule::nothing(
            "secrets",
            "no command runs that could read them, and nothing of a secret is sent to the grid",
        ),
        FieldRule::nothing("managed_secrets", "no command runs that could read them"),
        FieldRule::refused(
            "run",
            NO_CONTAINERS,
            "make the work a WebAssembly module, register it with `tensorgrid program add` and name it under `program`, or name a model of the grid under `model`",
        ),
        FieldRule::refused(
            "setup",
            NO_CONTAINERS,
            "a model or a program has nothing to set up: `model` or `program` names it",
        ),
        FieldRule::refused(
            "workdir",
            NO_CONTAINERS,
            "name the files that the work reads under `input`, and its code, as a WebAssembly module, under `program`",
        ),
        FieldRule::refused(
            "file_mounts",
            NO_CONTAINERS,
            "name the files that the work reads under `input`",
        ),
        FieldRule::refused(
            "storage_mounts",
            NO_CONTAINERS,
            "name the files that the work reads under `input`",
        ),
        FieldRule::refused(
            "volumes",
            NO_CONTAINERS,
            "name the files that the work reads under `input`",
        ),
        FieldRule::refused(
            "volume_mounts",
            NO_CONTAINERS,
            "name the files that the work reads under `input`",
        ),
        FieldRule::refused(
            "service",
            "a server of your own needs a container, which the grid does not have yet",
            "`endpoint` with `model` has a provider serve a model of the grid; `tensorgrid endpoint open` is the same",
        ),
        FieldRule::refused(
            "pool",
            "workers that wait need containers, which the grid does not have yet",
            "order each job by itself; `endpoint` has a provider serve a model",
        ),
        FieldRule::refused(
            "event_callback",
            "no command runs when a job changes its state",
            "`tensorgrid job show` says the state, and `GET /v1/events` streams it",
        ),
        FieldRule::refused(
            "execution",
            "a file is one job: there are no pipelines and no job groups",
            "put each job into a file of its own",
        ),
        FieldRule::nothing("config", "it configures SkyPilot's clouds"),
        FieldRule::nothing("experimental", "it configures SkyPilot's clouds"),
        FieldRule::nothing(
            "inputs",
            "it estimates a size for SkyPilot's optimizer, and the size of `input` is known",
        ),
        FieldRule::nothing("outputs", "it estimates a size for SkyPilot's optimizer"),
        FieldRule::nothing("api_server_access", "there is no SkyPilot server"),
        FieldRule::nothing("file_mounts_mapping", "it is internal to SkyPilot"),
        FieldRule::nothing("_metadata", "it is internal to SkyPilot"),
        FieldRule::nothing("_user_specified_yaml", "it is internal to SkyPilot"),
    ],
};

/// `input` with its fields.
pub(crate) static INPUT: JobBlock = JobBlock {
    name: "input",
    elsewhere,
    rules: &[
        FieldRule::used(
            "files",
            FieldShape::Files,
            "A file, a list of files in the model's order, or a mapping from the names of the model's inputs to files. Of a program each file is a chunk.",
        ),
        FieldRule::flag(
            "text",
            "text",
            FieldShape::Text,
            "The input as text, for models of tokens.",
        ),
        FieldRule::flag(
            "text_pair",
            "text-pair",
            FieldShape::Text,
            "The second text of a pair.",
        ),
        FieldRule::flag(
            "tokenizer",
            "tokenizer",
            FieldShape::Text,
            "The model's tokenizer.json.",
        ),
        FieldRule::flag(
            "chunks",
            "chunks",
            FieldShape::Whole(1, 1024),
            "Cut each file into so many chunks of nearly one length (programs).",
        ),
        FieldRule::flag(
            "merge",
            "merge",
            FieldShape::Boolean,
            "The files are outputs of other runs of this program: merge them.",
        ),
    ],
};

/// What a language model is to write.
pub(crate) static WRITE: JobBlock = JobBlock {
    name: "write",
    elsewhere,
    rules: &[
        FieldRule::flag(
            "text",
            "text",
            FieldShape::Text,
            "The text to begin with, for models whose tokens are bytes, or with `tokenizer`.",
        ),
        FieldRule::flag(
            "prompt",
            "prompt",
            FieldShape::Several(&FieldShape::Whole(0, u32::MAX as u64)),
            "The tokens to begin with.",
        ),
        FieldRule::flag(
            "tokenizer",
            "tokenizer",
            FieldShape::Text,
            "The model's tokenizer.json.",
        ),
        FieldRule::flag(
            "tokens",
            "tokens",
            FieldShape::Whole(1, u32::MAX as u64),
            "Most tokens to write; 32 if absent.",
        ),
        FieldRule::flag(
            "temperature",
            "temperature",
            FieldShape::Number(0.0, 1e6),
            "How evenly tokens are drawn: 1 as the model says, 0 the likeliest always.",
        ),
        FieldRule::flag(
            "top_k",
            "top-k",
            FieldShape::Whole(1, u32::MAX as u64),
            "Draw among so many likeliest tokens.",
        ),
        FieldRule::flag(
            "top_p",
            "top-p",
            FieldShape::Number(0.0, 1.0),
            "Of those, draw among the fewest that have this share of the probability.",
        ),
        FieldRule::flag(
            "seed",
            "seed",
            FieldShape::Parsed(
                seed,
                &["0000000000000000000000000000000000000000000000000000000000000007"],
            ),
            "32 bytes in hexadecimal that decide every draw; from the operating system if absent.",
        ),
        FieldRule::flag(
            "stop",
            "stop",
            FieldShape::Whole(0, u32::MAX as u64),
            "Write nothing after this token.",
        ),
    ],
};

/// An endpoint.
pub(crate) static ENDPOINT: JobBlock = JobBlock {
    name: "endpoint",
    elsewhere,
    rules: &[
        FieldRule::flag(
            "money",
            "money",
            FieldShape::Amount,
            "What is locked for it, in TGRID; what is not used comes back. Required.",
        ),
        FieldRule::flag(
            "hours",
            "hours",
            FieldShape::Number(0.001, 8_784.0),
            "How long it may last; an hour if absent.",
        ),
        FieldRule::flag(
            "replicas",
            "replicas",
            FieldShape::Text,
            "Endpoints at distinct providers that take each other's place: a number, or MIN..MAX such as `2..4`; `money` is for all of them together. One endpoint if absent.",
        ),
    ],
};

/// What is paid, how long it may take, and from whom it is taken.
pub(crate) static OFFER: JobBlock = JobBlock {
    name: "offer",
    elsewhere,
    rules: &[
        FieldRule::flag(
            "max_price",
            "max-price",
            FieldShape::Amount,
            "Most that is paid to the provider, in TGRID; twice what the third cheapest asks if absent and any machine will do.",
        ),
        FieldRule::flag(
            "deadline",
            "deadline-s",
            FieldShape::Seconds(1, 604_800),
            "How long the job may take, in seconds or as 10m, 2h, 1d; 300 s if absent.",
        ),
        FieldRule::flag(
            "attempts",
            "attempts",
            FieldShape::Whole(1, 16),
            "Providers to try at most; 3 if absent.",
        ),
        FieldRule::flag(
            "retention",
            "retention",
            FieldShape::Seconds(0, 2_592_000),
            "For how long validators keep the answer once it is paid, from 10m to 30d; 0 if they need not, a day if absent.",
        ),
        FieldRule::flag(
            "priority",
            "priority",
            FieldShape::Whole(1, PRIORITY_MAX as u64),
            "Pays so many times the price, and goes first.",
        ),
        FieldRule::flag(
            "tier",
            "tier",
            FieldShape::Word(tiers),
            "on-demand; spot: cheaper, and others may push it out; reserved: its deadline is guaranteed or it is refused.",
        ),
        FieldRule::flag(
            "class",
            "class",
            FieldShape::Word(classes),
            "What kind of work it is. Batch work bids in a sealed auction: `max_price` is the bid.",
        ),
        FieldRule::flag(
            "deposit",
            "deposit",
            FieldShape::Amount,
            "What a sealed bid locks until it is opened, in TGRID.",
        ),
        FieldRule::flag(
            "gang",
            "gang",
            FieldShape::Whole(1, GANG_MEMBERS_MAX as u64),
            "Machines that must run it together; SkyPilot's name is `num_nodes`.",
        ),
        FieldRule::flag(
            "neighbourhood",
            "neighbourhood",
            FieldShape::Whole(0, u32::MAX as u64),
            "Side of the square of network coordinates that a gang must fit in, in microseconds.",
        ),
        FieldRule::flag(
            "region",
            "region",
            FieldShape::Several(&FieldShape::Whole(0, REGIONS_MAX as u64 - 1)),
            "Regions of the grid that will do.",
        ),
        FieldRule::flag(
            "gpu_share",
            "gpu-share",
            FieldShape::Whole(1, 1_000),
            "Share of a single GPU in thousandths.",
        ),
        FieldRule::flag(
            "gpu_memory",
            "gpu-memory",
            FieldShape::Whole(1, u32::MAX as u64),
            "Memory of each GPU in MiB.",
        ),
        FieldRule::flag(
            "mig",
            "mig",
            FieldShape::Parsed(mig, &["1g.10gb", "3g.40gb"]),
            "A hardware partition at least like this one.",
        ),
        FieldRule::flag(
            "capability",
            "capability",
            FieldShape::Parsed(capability, &["8.0", "9.0"]),
            "Least compute capability.",
        ),
        FieldRule::flag(
            "tensor_cores",
            "tensor-cores",
            FieldShape::Boolean,
            "Only GPUs with tensor cores.",
        ),
        FieldRule::flag(
            "link",
            "link",
            FieldShape::Word(links),
            "Least link between the GPUs of a machine.",
        ),
        FieldRule::flag(
            "isolation",
            "isolation",
            FieldShape::Word(isolations),
            "How strictly it is kept apart from jobs on the same GPU.",
        ),
        FieldRule::flag(
            "gpu_seconds",
            "gpu-seconds",
            FieldShape::Whole(0, 31_536_000),
            "Seconds of a whole T4 that it takes.",
        ),
        FieldRule::refused(
            "ramp",
            "prices of the grid do not rise with time",
            "`max_price` bounds what is paid; `tensorgrid job raise` raises it for a job that waits",
        ),
        FieldRule::refused(
            "min_price",
            "the cheapest offer that fits is taken",
            "`max_price` bounds what is paid",
        ),
        FieldRule::refused(
            "lock_timeout",
            "a lease ends by the job's deadline",
            "`deadline` says how long the job may take",
        ),
        FieldRule::refused(
            "timeout",
            "a job has one time limit",
            "`deadline` says how long the job may take",
        ),
    ],
};

/// How the result is checked.
pub(crate) static VERIFY: JobBlock = JobBlock {
    name: "verify",
    elsewhere,
    rules: &[
        FieldRule::flag(
            "mode",
            "verify",
            FieldShape::WordOr(modes, is_choice, "^replicate:([2-9]|[12][0-9]|3[0-2])$"),
            "proof, sync, recompute, optimistic, replicate (replicate:N names the number of providers) or none; `tensorgrid model modes` says what each costs and assures.",
        ),
        FieldRule::flag(
            "value_at_risk",
            "value-at-risk",
            FieldShape::Amount,
            "What a wrong answer would cost you beside the price, in TGRID.",
        ),
        FieldRule::flag(
            "trust",
            "trust",
            FieldShape::Boolean,
            "Believe the validators that ran it again, and do not run it here (float models and programs).",
        ),
        FieldRule::flag(
            "proof_out",
            "proof-out",
            FieldShape::Text,
            "File to write the proof to, for `tensorgrid verify`.",
        ),
        FieldRule::flag(
            "seal",
            "seal",
            FieldShape::Boolean,
            "Seal the input to the provider that is found, and the answer back: nobody else reads them, and nobody else checks the answer. Instead of `mode`.",
        ),
        FieldRule::flag(
            "reveal",
            "reveal",
            FieldShape::Boolean,
            "With `seal`: run the model here too, and show the key to everybody if the answer is another one or the provider says that the key opens nothing.",
        ),
    ],
};

/// The fields of one machine, and more.
macro_rules! machine_rules {
    ($($more:expr),*) => { &[
        FieldRule::used("accelerators", FieldShape::Accelerators, "GPUs: `H100`, `A100:8`, `80GB+`; a list in the order of preference; a mapping of alternatives."),
        FieldRule::used("gpus", FieldShape::Accelerators, "The same as `accelerators`."),
        FieldRule::used("cpus", FieldShape::Quantity("^[0-9]+(\\.[0-9]+)?\\+?$"), "Cores, at least: 4 and 4+ are the same here."),
        FieldRule::used("memory", FieldShape::Quantity("^[0-9]+(\\.[0-9]+)?([KMGTPkmgtp][Bbi])?\\+?$"), "Memory in GiB, at least: 16 and 16+ are the same here."),
        FieldRule::used("disk_size", FieldShape::Quantity("^[0-9]+([KMGTPkmgtp][Bbi])?$"), "Disk in GiB, at least."),
        FieldRule::used("use_spot", FieldShape::Boolean, "Cheaper machines from which others may push it out; the same as `tier: spot` of `offer`."),
        FieldRule::refused("cloud", "the grid's machines are strangers' and of no cloud", "leave it out; `accelerators`, `cpus` and `memory` say what the machine needs"),
        FieldRule::refused("infra", "the grid's machines are strangers' and of no cloud", "leave it out; `accelerators`, `cpus` and `memory` say what the machine needs"),
        FieldRule::refused("region", "the grid does not know the regions of clouds", "`offer` takes the grid's own as `region`, numbers from 0 to 63"),
        FieldRule::refused("zone", "the grid does not know the zones of clouds", "`offer` takes the grid's own as `region`, numbers from 0 to 63"),
        FieldRule::refused("instance_type", "the grid does not know the machines of clouds by name", "`accelerators`, `cpus` and `memory` say what the machine needs"),
        FieldRule::refused("image_id", NO_CONTAINERS, "`model` or `program` says what runs"),
        FieldRule::refused("ports", "nothing on a provider's machine can be reached", "`endpoint` with `model` has a provider serve a model, over the grid's gateways"),
        FieldRule::refused("volumes", NO_CONTAINERS, "name the files that the work reads under `input`"),
        FieldRule::refused("accelerator_args", "they are for TPUs, which the grid does not have", "name a GPU under `accelerators`"),
        FieldRule::refused("max_hourly_cost", "the grid is paid by the job, in TGRID", "`offer` bounds it by `max_price`"),
        FieldRule::refused("local_disk", "the grid does not tell disks apart", "`disk_size` says how much is needed"),
        FieldRule::refused("ephemeral_storage", "SkyPilot replaced it", "`disk_size` says how much is needed"),
        FieldRule::refused("hooks", "no command runs beside a job", "leave it out"),
        FieldRule::nothing("disk_tier", "the grid does not tell disks apart by their speed"),
        FieldRule::nothing("network_tier", "the grid does not tell networks apart by their speed; `offer` takes `link` for the GPUs of a machine"),
        FieldRule::nothing("labels", "the grid keeps no labels"),
        FieldRule::nothing("autostop", "a job ends by itself, and nothing is paid after it"),
        FieldRule::nothing("job_recovery", "a job whose provider fails goes to the next by itself; `attempts` of `offer` bounds how often"),
        FieldRule::nothing("spot_recovery", "a job that is pushed out goes to the next provider by itself"),
        FieldRule::nothing("priority", "SkyPilot's priorities cost nothing; `priority` of `offer`, 1 to 8, pays so many times the price"),
        FieldRule::nothing("priority_class", "SkyPilot's priorities cost nothing; `priority` of `offer`, 1 to 8, pays so many times the price"),
        FieldRule::nothing("_no_missing_accel_warnings", "it is internal to SkyPilot"),
        FieldRule::nothing("_docker_login_config", "it is internal to SkyPilot"),
        FieldRule::nothing("_is_image_managed", "it is internal to SkyPilot"),
        FieldRule::nothing("_requires_fuse", "it is internal to SkyPilot"),
        FieldRule::nothing("_cluster_config_overrides", "it is internal to SkyPilot"),
        $($more),*
    ] };
}

/// `resources`.
pub(crate) static RESOURCES: JobBlock = JobBlock {
    name: "resources",
    elsewhere,
    rules: machine_rules!(
        FieldRule::used(
            "any_of",
            FieldShape::Blocks(&CANDIDATE),
            "Alternatives: each says what it has instead of the fields beside it. The cheapest that is offered is ordered."
        ),
        FieldRule::used(
            "ordered",
            FieldShape::Blocks(&CANDIDATE),
            "Alternatives in the order of preference: the first that is offered is ordered."
        )
    ),
};

/// An alternative of `resources`.
pub(crate) static CANDIDATE: JobBlock = JobBlock {
    name: "resources",
    elsewhere,
    rules: machine_rules!(),
};

fn modes() -> Vec<&'static str> {
    MODES.to_vec()
}

fn is_choice(text: &str) -> bool {
    VerifyChoice::named(text).is_some()
}

fn tiers() -> Vec<&'static str> {
    CapacityTier::ALL.iter().map(|it| it.as_str()).collect()
}

fn classes() -> Vec<&'static str> {
    JobClass::ALL.iter().map(|it| it.as_str()).collect()
}

fn links() -> Vec<&'static str> {
    GpuLink::ALL.iter().map(|it| it.as_str()).collect()
}

fn isolations() -> Vec<&'static str> {
    SharingMode::ALL.iter().map(|it| it.as_str()).collect()
}

fn seed(text: &str) -> Result<(), String> {
    text.parse::<Seed>().map(|_| ()).map_err(str::to_owned)
}

fn mig(text: &str) -> Result<(), String> {
    needs::mig_profile(text).map(|_| ())
}

fn capability(text: &str) -> Result<(), String> {
    needs::capability(text).map(|_| ())
}
