//! The tokenizers that this node holds, by the digests that programs name.
//!
//! They are looked for in the operator's folder: files `*.json` in it, and the `tokenizer.json` of folders in it, so that a folder of
//! Hugging Face models serves as it is. A blob of that digest on the grid is taken too, which `model add` stores, and kept
//! in this node's data folder, because the grid lets go of it after a while.
//!
//! Strangers register models, and each names a tokenizer. Those that callers asked for are kept apart from those that were only seen: of both
//! so many, of the first those that were used last, of the others those of owners who have few.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tg_api::OpenAiError;
use tg_api::openai::on_blocking_thread;
use tg_sdk::Client;
use tg_text::{ChatTemplate, FILE_BYTES_MAX, TEMPLATE_BYTES_MAX, TextTokenizer};
use tg_types::{Address, Digest};

use tg_console::files;
use tg_console::outcome::say;

/// Most files that are looked at in the operator's folder: each is read once to know its digest.
const FILES_MAX: usize = 1_024;

/// Most tokenizers of the grid that are kept because callers asked for them.
const TAKEN_MAX: usize = 64;

/// Most that are kept because a model names them, in a folder of their own.
const SEEN_MAX: usize = 64;

/// Most tokenizers whose owners are known.
const OWNERS_MAX: usize = 4_096;

/// How often it is noted on the disk that a tokenizer is used.
const NOTED: Duration = Duration::from_secs(600);

/// Most tokenizers that are held in memory; each may take some ten times its file.
const HELD_MAX: usize = 16;

/// Largest file beside a tokenizer that says which token ends a text.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// How long the grid is not asked again for a tokenizer that it does not have.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// A tokenizer, and the token that ends a text.
#[derive(Debug)]
pub(super) struct HeldTokenizer {
    pub(super) tokenizer: TextTokenizer,
    pub(super) end: Option<u32>,
    /// The form of conversations, if the folder says it.
    pub(super) template: Option<ChatTemplate>,
}

/// A file as it was when its digest was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenFile {
    bytes: u64,
    modified: Option<SystemTime>,
    digest: Digest,
}

/// A tokenizer in memory, when it was used last, and when that was noted on the disk.
#[derive(Debug)]
struct UsedTokenizer {
    held: Arc<HeldTokenizer>,
    used: Instant,
    noted: Instant,
}

/// Why a tokenizer is taken from the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakenFor {
    /// A caller asked for it.
    Caller,
    /// A model names it.
    Model,
}

/// The tokenizers of a node.
#[derive(Debug)]
pub(crate) struct Tokenizers {
    client: Client,
    /// The operator's folder.
    folder: Option<PathBuf>,
    /// Where those of the grid are kept.
    taken: PathBuf,
    seen: Mutex<BTreeMap<PathBuf, SeenFile>>,
    held: Mutex<BTreeMap<Digest, UsedTokenizer>>,
    /// Whose model was the first to name one that was seen.
    owners: Mutex<BTreeMap<Digest, Address>>,
    /// When the grid was asked for one lately.
    asked: Mutex<BTreeMap<Digest, Instant>>,
}

impl Tokenizers {
    /// Those of a folder, if one is given, and those that are taken from the grid and kept in another.
    pub(crate) fn new(client: Client, folder: Option<PathBuf>, taken: PathBuf) -> Self {
        Self {
            client,
            folder,
            taken,
            seen: Mutex::default(),
            held: Mutex::default(),
            owners: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    /// The tokenizer of a digest.
    pub(super) async fn find(
        self: &Arc<Self>,
        digest: Digest,
    ) -> Result<Arc<HeldTokenizer>, OpenAiError> {
        if let Some(found) = self.in_memory(digest) {
            return Ok(found);
        }
        if !self.has_file(digest).await {
            self.take(digest, TakenFor::Caller).await?;
        }
        let this = Arc::clone(self);
        let read = on_blocking_thread(move || {
            this.note_use(digest);
            this.read(digest).ok_or_else(|| missing(digest))
        });
        let found = Arc::new(read.await?);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let used = UsedTokenizer {
            held: Arc::clone(&found),
            used: now,
            noted: now,
        };
        held.insert(digest, used);
        while held.len() > HELD_MAX {
            let oldest = held.iter().min_by_key(|(_, it)| it.used);
            let Some(oldest) = oldest.map(|(digest, _)| *digest) else {
                break;
            };
            held.remove(&oldest);
        }
        Ok(found)
    }

    fn in_memory(&self, digest: Digest) -> Option<Arc<HeldTokenizer>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let found = held.get_mut(&digest)?;
        found.used = Instant::now();
        if found.noted.elapsed() >= NOTED {
            found.noted = found.used;
            self.note_use(digest);
        }
        Some(Arc::clone(&found.held))
    }

    /// Notes that callers use one that was taken from the grid: it goes after those that they do not, after a restart, too.
    fn note_use(&self, digest: Digest) {
        let (own, seen) = (self.own(digest), self.seen_file(digest));
        if seen.is_file() {
            make_room(&self.taken, TAKEN_MAX, |_| 0);
            // One that stays where it is may be forgotten earlier.
            let _left = std::fs::rename(&seen, &own);
        }
        // One that is the operator's is not there.
        let noted = std::fs::File::options().append(true).open(&own);
        let _unnoted = noted.and_then(|file| file.set_modified(SystemTime::now()));
    }

    async fn has_file(self: &Arc<Self>, digest: Digest) -> bool {
        let this = Arc::clone(self);
        let found = tokio::task::spawn_blocking(move || this.file(digest).is_some()).await;
        found.unwrap_or(false)
    }

    /// Takes it from the grid and keeps it.
    async fn take(self: &Arc<Self>, digest: Digest, taken: TakenFor) -> Result<(), OpenAiError> {
        if !self.may_ask(digest) {
            return Err(missing(digest));
        }
        let bytes = self.client.blob(digest, FILE_BYTES_MAX).await;
        let bytes = bytes.map_err(|_| missing(digest))?;
        let this = Arc::clone(self);
        on_blocking_thread(move || this.keep(digest, (&bytes, taken))).await
    }

    /// Whether the grid is asked for it: every request of a model whose tokenizer is nowhere would ask again.
    fn may_ask(&self, digest: Digest) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|_, at| at.elapsed() < ASK_AGAIN);
        if asked.contains_key(&digest) {
            return false;
        }
        asked.insert(digest, Instant::now());
        true
    }

    /// Keeps what came from the grid if it is read as a tokenizer, and nothing else: its digest was compared when it came. Of more than are
    /// kept others go.
    fn keep(&self, digest: Digest, (bytes, taken): (&[u8], TakenFor)) -> Result<(), OpenAiError> {
        if TextTokenizer::read(bytes).is_err() {
            return Err(missing(digest));
        }
        let path = match taken {
            TakenFor::Caller => {
                make_room(&self.taken, TAKEN_MAX, |_| 0);
                self.own(digest)
            }
            TakenFor::Model => {
                let own: Vec<PathBuf> = kept(&self.seen_folder());
                let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
                let owner = |path: &Path| owners.get(&digest_of(path)?).copied();
                // Stops: one who registers many models, so that the tokenizers of others go.
                let of_same = |path: &Path| {
                    let this = owner(path);
                    own.iter().filter(|it| owner(it) == this).count()
                };
                make_room(&self.seen_folder(), SEEN_MAX, of_same);
                self.seen_file(digest)
            }
        };
        let kept = std::fs::create_dir_all(self.seen_folder())
            .map_err(anyhow::Error::from)
            .and_then(|()| files::write(&path, bytes).map_err(|it| it.error));
        kept.map_err(|error| OpenAiError::unavailable(format!("keep a tokenizer: {error:#}")))
    }

    /// Takes the tokenizer that a program of an owner names from the grid, if it is there and not held yet.
    pub(super) async fn prepare(self: &Arc<Self>, digest: Digest, owner: Address) {
        {
            let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
            if owners.len() >= OWNERS_MAX {
                // Those whose files are kept are told again at the next start.
                owners.clear();
            }
            owners.entry(digest).or_insert(owner);
        }
        if !self.has_file(digest).await && self.take(digest, TakenFor::Model).await.is_ok() {
            say(format_args!("holds the tokenizer {digest}"));
        }
    }

    fn own(&self, digest: Digest) -> PathBuf {
        self.taken.join(format!("{digest}.json"))
    }

    fn seen_folder(&self) -> PathBuf {
        self.taken.join("seen")
    }

    fn seen_file(&self, digest: Digest) -> PathBuf {
        self.seen_folder().join(format!("{digest}.json"))
    }

    /// The file of a digest.
    fn file(&self, digest: Digest) -> Option<PathBuf> {
        let own = [self.own(digest), self.seen_file(digest)];
        if let Some(own) = own.into_iter().find(|path| path.is_file()) {
            return Some(own);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let all = candidates(self.folder.as_deref()?);
        seen.retain(|path, _| all.contains(path));
        for path in all {
            let Ok(about) = std::fs::metadata(&path) else {
                continue;
            };
            let (bytes, modified) = (about.len(), about.modified().ok());
            let known = seen.get(&path);
            let known = known.filter(|it| it.bytes == bytes && it.modified == modified);
            let found = match known {
                Some(known) => known.digest,
                None => {
                    let Ok(content) = files::read(&path, FILE_BYTES_MAX as u64) else {
                        continue;
                    };
                    Digest::of_blob(&content)
                }
            };
            let file = SeenFile {
                bytes,
                modified,
                digest: found,
            };
            seen.insert(path.clone(), file);
            if found == digest {
                return Some(path);
            }
        }
        None
    }

    fn read(&self, digest: Digest) -> Option<HeldTokenizer> {
        let path = self.file(digest)?;
        let bytes = files::read(&path, FILE_BYTES_MAX as u64).ok()?;
        let tokenizer = TextTokenizer::read(&bytes).ok()?;
        // The file may have been changed since it was looked at.
        if tokenizer.digest() != digest {
            return None;
        }
        let stated = path.parent().and_then(|folder| end(folder, &tokenizer));
        let end = stated.or_else(|| tokenizer.end());
        let template = path.parent().and_then(template);
        Some(HeldTokenizer {
            tokenizer,
            end,
            template,
        })
    }
}

/// The tokenizers that are kept in a folder.
fn kept(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| digest_of(path).is_some()).collect()
}

/// The digest that a file is named by.
fn digest_of(path: &Path) -> Option<Digest> {
    let name = path.file_name()?.to_str()?;
    Digest::from_hex(name.strip_suffix(".json")?)
}

/// Removes files of a folder until there is room for one more of `most`: those of the greatest `weight` first, of equals the one that is
/// unchanged for longest.
fn make_room(folder: &Path, most: usize, weight: impl Fn(&Path) -> usize) {
    let age = |path: &Path| {
        let changed = std::fs::metadata(path).and_then(|it| it.modified());
        let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
        SystemTime::now()
            .duration_since(changed)
            .unwrap_or_default()
    };
    let mut all: Vec<_> = kept(folder)
        .into_iter()
        .map(|path| ((weight(&path), age(&path)), path))
        .collect();
    all.sort();
    while all.len() >= most {
        let Some((_, path)) = all.pop() else {
            return;
        };
        // One that cannot be removed is tried again with the next.
        let _left = std::fs::remove_file(path);
    }
}

/// The files of a folder that may be tokenizers.
fn candidates(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let one = |path: PathBuf| match path.is_dir() {
        true => Some(path.join("tokenizer.json")).filter(|path| path.is_file()),
        false => Some(path).filter(|path| path.extension().is_some_and(|it| it == "json")),
    };
    let all = entries.filter_map(|entry| one(entry.ok()?.path()));
    let mut all: Vec<PathBuf> = all.take(FILES_MAX).collect();
    all.sort();
    all
}

/// The form of conversations that the files beside a tokenizer say: `chat_template.jinja`, else `chat_template` in
/// `tokenizer_config.json`, of several the one that is named `default`. One that cannot be read is said in the log and left out.
fn template(folder: &Path) -> Option<ChatTemplate> {
    let config = files::read(&folder.join("tokenizer_config.json"), CONFIG_BYTES_MAX).ok();
    let config = config.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let config = config.unwrap_or_default();
    let own = folder.join("chat_template.jinja");
    let own = files::read(&own, TEMPLATE_BYTES_MAX as u64).ok();
    let own = own.and_then(|bytes| String::from_utf8(bytes).ok());
    let stated = &config["chat_template"];
    let named = stated.as_array().and_then(|all| {
        let default = all.iter().find(|it| it["name"] == "default")?;
        default["template"].as_str()
    });
    let source = own.or_else(|| stated.as_str().or(named).map(str::to_owned))?;
    let token = |name: &str| {
        let stated = &config[name];
        let text = stated.as_str().or_else(|| stated["content"].as_str());
        text.unwrap_or_default().to_owned()
    };
    let read = ChatTemplate::read(source, token("bos_token"), token("eos_token"));
    read.inspect_err(|error| say(format_args!("{}: {error}", folder.display())))
        .ok()
}

/// The token that ends a text, as the files beside a tokenizer say: the first number of `eos_token_id`, or the name in `eos_token`.
fn end(folder: &Path, tokenizer: &TextTokenizer) -> Option<u32> {
    let read = |name: &str| {
        let bytes = files::read(&folder.join(name), CONFIG_BYTES_MAX).ok()?;
        serde_json::from_slice::<Value>(&bytes).ok()
    };
    let number = |config: Value| {
        let stated = &config["eos_token_id"];
        let first = stated.as_array().and_then(|list| list.first());
        u32::try_from(first.unwrap_or(stated).as_u64()?).ok()
    };
    let numbers = ["generation_config.json", "config.json"].into_iter();
    let by_number = numbers.filter_map(read).find_map(number);
    by_number.or_else(|| {
        let config = read("tokenizer_config.json")?;
        let stated = &config["eos_token"];
        let name = stated.as_str().or_else(|| stated["content"].as_str());
        tokenizer.id(name?)
    })
}

fn missing(digest: Digest) -> OpenAiError {
    OpenAiError {
        code: "tokenizer_not_held".to_owned(),
        ..OpenAiError::invalid(
            "model",
            format!(
                "this node does not hold the tokenizer of the model (BLAKE3 {digest}): give tokens instead of text, or ask its \
                 operator to put the tokenizer.json into the folder of --tokenizers, or whoever adds the model to use `tensorgrid \
                 model add --tokenizer`"
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const WORDS: &str = r#"{"model": {"type": "WordLevel", "vocab": {"no": 0, "yes": 1, "</s>": 2, "stop": 3}, "unk_token": "no"},
        "pre_tokenizer": {"type": "Whitespace"}}"#;

    /// A tokenizer like others, and its digest.
    fn numbered(number: usize) -> (String, Digest) {
        let words = WORDS.replace("stop", &format!("stop{number}"));
        let digest = Digest::of_blob(words.as_bytes());
        (words, digest)
    }

    /// 0.1 TGRID for each registration.
    #[test]
    fn strangers_do_not_shut_out_the_tokenizers_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let all = Tokenizers::new(nowhere(), None, folder.path().join("taken"));
        let keep = |number: usize, taken: TakenFor, owner: u8| {
            let (words, digest) = numbered(number);
            let owner = Address::new([owner; 20]);
            all.owners.lock().unwrap().insert(digest, owner);
            all.keep(digest, (words.as_bytes(), taken)).unwrap();
            digest
        };
        let asked = keep(0, TakenFor::Caller, 1);
        let seen = keep(1, TakenFor::Model, 1);
        let others: Vec<Digest> = (2..SEEN_MAX + 20)
            .map(|number| keep(number, TakenFor::Model, 9))
            .collect();
        assert!(all.read(asked).is_some() && all.read(seen).is_some());
        assert_eq!(kept(&all.seen_folder()).len(), SEEN_MAX);
        // The last one found room.
        assert!(all.read(*others.last().unwrap()).is_some());
        // What callers ask for is kept apart, and of that what was used last.
        all.note_use(seen);
        assert_eq!(all.file(seen), Some(all.own(seen)));
        let hour = SystemTime::now() - Duration::from_secs(3_600);
        for digest in [asked, seen] {
            let file = std::fs::File::options().append(true).open(all.own(digest));
            file.unwrap().set_modified(hour).unwrap();
        }
        all.note_use(asked);
        for number in 1_000..1_000 + TAKEN_MAX - 1 {
            keep(number, TakenFor::Caller, 9);
        }
        assert!(all.read(asked).is_some() && all.read(seen).is_none());
        assert_eq!(kept(&all.taken).len(), TAKEN_MAX);
    }

    fn nowhere() -> Client {
        Client::new("http://127.0.0.1:1").unwrap()
    }

    #[tokio::test]
    async fn a_folder_of_models_has_tokenizers_and_says_what_ends_a_text() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        let taken = folder.path().join("taken");
        let all = Tokenizers::new(nowhere(), Some(folder.path().to_owned()), taken);
        let all = Arc::new(all);
        let digest = Digest::of_blob(WORDS.as_bytes());
        let refused = all.find(digest).await.unwrap_err();
        assert_eq!(
            (refused.status, refused.code.as_str()),
            (400, "tokenizer_not_held")
        );
        assert!(refused.message.contains(&digest.to_string()), "{refused}");
        // Files that are none, and one that is found without a restart.
        std::fs::create_dir(&model).unwrap();
        std::fs::write(folder.path().join("other.json"), "{").unwrap();
        std::fs::write(model.join("tokenizer.json"), WORDS).unwrap();
        assert_eq!(all.find(digest).await.unwrap().end, Some(2));
        for (name, text, expected) in [
            (
                "tokenizer_config.json",
                r#"{"eos_token": {"content": "stop"}}"#,
                Some(3),
            ),
            ("config.json", r#"{"eos_token_id": [1, 2]}"#, Some(1)),
            ("generation_config.json", r#"{"eos_token_id": 0}"#, Some(0)),
        ] {
            std::fs::write(model.join(name), text).unwrap();
            assert_eq!(all.read(digest).unwrap().end, expected);
        }
        // The form of conversations: a file of its own goes before the one in the configuration.
        assert_eq!(all.read(digest).unwrap().template, None);
        let config = r#"{"eos_token": "stop", "bos_token": {"content": "yes"}, "chat_template": [
            {"name": "tools", "template": "x"},
            {"name": "default", "template": "{{ bos_token }}{% for it in messages %}{{ it.content }}{{ eos_token }}{% endfor %}"}
        ]}"#;
        let line = [tg_text::ChatLine {
            role: "user",
            name: None,
            content: " no ",
        }];
        std::fs::write(model.join("tokenizer_config.json"), config).unwrap();
        let rendered = || all.read(digest).unwrap().template?.render(&line).ok();
        assert_eq!(rendered().as_deref(), Some("yes no stop"));
        std::fs::write(model.join("chat_template.jinja"), "{% for %}").unwrap();
        assert_eq!(rendered(), None);
        std::fs::write(model.join("chat_template.jinja"), "own").unwrap();
        assert_eq!(rendered().as_deref(), Some("own"));
        // A file that says another thing than its digest is not that tokenizer any more.
        std::fs::write(model.join("tokenizer.json"), WORDS.replace("yes", "yea")).unwrap();
        assert!(all.read(digest).is_none());
    }
}
