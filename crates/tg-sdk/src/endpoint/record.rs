//! What is kept of a group of endpoints between two commands: its bounds, its money, and the jobs that are its replicas.
//!
//! A job is in the record before its order is sent, so that no command that is killed leaves an endpoint behind that nobody knows of and that is
//! paid by the minute. Amounts that are locked or spent are the requestor's own sums: no API is believed for them.

use serde::{Deserialize, Serialize};
use tg_types::{Address, Amount, JobId, JobNeeds, ModelId};

use super::scaling::{REPLICAS_MAX, ScalingRules};
use crate::text;

/// The form of the file.
const VERSION: u32 = 1;

/// Bytes of the file, at most.
pub const GROUP_FILE_BYTES_MAX: u64 = 256 << 10;

/// Jobs in a record, at most: replicas, and those that are being closed.
const JOBS_MAX: usize = 4 * REPLICAS_MAX;

/// Bytes of a group's name, at most.
const NAME_BYTES_MAX: usize = 64;

/// What a replica is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaPart {
    /// It answers requests.
    Serves,
    /// It holds the place of a provider that the group has already, while another one is looked for.
    Holds,
    /// It is being closed.
    Closes,
}

/// A job of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaRecord {
    /// The job.
    #[serde(with = "text")]
    pub job: JobId,
    /// Who serves it, once that is known.
    #[serde(with = "text::option", default)]
    pub provider: Option<Address>,
    /// What was locked for it.
    #[serde(with = "text")]
    pub locked: Amount,
    /// What it is for.
    pub part: ReplicaPart,
    /// When it was ordered, by this machine's clock.
    pub ordered_ms: u64,
}

/// A group of endpoints of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRecord {
    version: u32,
    /// Its name, of its owner's choice.
    pub name: String,
    /// What names it beside that.
    pub id: String,
    /// Who pays.
    #[serde(with = "text")]
    pub account: Address,
    /// The model.
    #[serde(with = "text")]
    pub model: ModelId,
    /// What the model is called.
    pub model_name: String,
    /// Replicas that there are always.
    pub min: usize,
    /// Replicas that there are at most.
    pub max: usize,
    /// All that may be paid for it, by whichever replicas.
    #[serde(with = "text")]
    pub money: Amount,
    /// What replicas were paid that have ended.
    #[serde(with = "text")]
    pub spent: Amount,
    /// Most that a minute of a replica may cost.
    #[serde(with = "text::option", default)]
    pub minute_max: Option<Amount>,
    /// Most that a run of the model may cost.
    #[serde(with = "text::option", default)]
    pub run_max: Option<Amount>,
    /// Whether several replicas may be of one provider.
    pub same_provider: bool,
    /// When it ends, by this machine's clock.
    pub until_ms: u64,
    /// See [`ScalingRules`].
    pub queue_max: usize,
    /// See [`ScalingRules`].
    pub queue_ms: u64,
    /// See [`ScalingRules`].
    pub idle_ms: u64,
    /// What a machine needs, in canonical bytes.
    #[serde(with = "needs_text")]
    pub needs: JobNeeds,
    /// Its jobs that have not ended.
    pub replicas: Vec<ReplicaRecord>,
}

/// What a group is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupTerms {
    /// Its name.
    pub name: String,
    /// What names it beside that.
    pub id: String,
    /// Who pays.
    pub account: Address,
    /// The model.
    pub model: ModelId,
    /// What the model is called.
    pub model_name: String,
    /// How many replicas, and when there are more or fewer.
    pub rules: ScalingRules,
    /// All that may be paid.
    pub money: Amount,
    /// Most that a minute of a replica may cost.
    pub minute_max: Option<Amount>,
    /// Most that a run of the model may cost.
    pub run_max: Option<Amount>,
    /// Whether several replicas may be of one provider.
    pub same_provider: bool,
    /// When it ends, by this machine's clock.
    pub until_ms: u64,
    /// What a machine needs.
    pub needs: JobNeeds,
}

/// Why a group is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupRecordError {
    /// It is not JSON of this form.
    #[error("it is not the record of a group: {0}")]
    Unreadable(String),
    /// It is of another version of this program.
    #[error("it is of version {found}, and this program knows version {VERSION}")]
    Version {
        /// The version.
        found: u32,
    },
    /// A number is out of bounds.
    #[error("{what} is out of bounds")]
    Bounds {
        /// Which one.
        what: &'static str,
    },
}

impl GroupRecord {
    /// A group without replicas.
    ///
    /// # Errors
    /// If a bound does not hold.
    pub fn new(terms: GroupTerms) -> Result<Self, GroupRecordError> {
        let record = Self {
            version: VERSION,
            name: terms.name,
            id: terms.id,
            account: terms.account,
            model: terms.model,
            model_name: terms.model_name,
            min: terms.rules.min,
            max: terms.rules.max,
            money: terms.money,
            spent: Amount::ZERO,
            minute_max: terms.minute_max,
            run_max: terms.run_max,
            same_provider: terms.same_provider,
            until_ms: terms.until_ms,
            queue_max: terms.rules.queue_max,
            queue_ms: terms.rules.queue_ms,
            idle_ms: terms.rules.idle_ms,
            needs: terms.needs,
            replicas: Vec::new(),
        };
        record.check()?;
        Ok(record)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// If it is none, or a bound does not hold.
    pub fn read(bytes: &[u8]) -> Result<Self, GroupRecordError> {
        let read: Result<Self, _> = serde_json::from_slice(bytes);
        let record = read.map_err(|error| GroupRecordError::Unreadable(error.to_string()))?;
        record.check()?;
        Ok(record)
    }

    /// The record as it is kept.
    ///
    /// # Panics
    /// Never: it is text and numbers.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("text and numbers");
        bytes.push(b'\n');
        bytes
    }

    fn check(&self) -> Result<(), GroupRecordError> {
        if self.version != VERSION {
            return Err(GroupRecordError::Version {
                found: self.version,
            });
        }
        let bounds = [
            (is_name(&self.name), "its name"),
            (is_name(&self.id), "its id"),
            (
                self.min >= 1 && self.min <= self.max,
                "the least number of replicas",
            ),
            (self.max <= REPLICAS_MAX, "the most replicas"),
            (self.queue_max >= 1, "the queue of a replica"),
            (self.replicas.len() <= JOBS_MAX, "the number of its jobs"),
        ];
        match bounds.into_iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(GroupRecordError::Bounds { what }),
            None => Ok(()),
        }
    }

    /// When replicas are opened and closed.
    #[must_use]
    pub const fn rules(&self) -> ScalingRules {
        ScalingRules {
            min: self.min,
            max: self.max,
            queue_max: self.queue_max,
            queue_ms: self.queue_ms,
            idle_ms: self.idle_ms,
        }
    }

    /// What is neither spent nor locked.
    #[must_use]
    pub fn left(&self) -> Amount {
        let locked = self.replicas.iter().map(|it| it.locked);
        let used = locked.fold(self.spent, Amount::saturating_add);
        self.money.saturating_sub(used)
    }

    /// What is locked for the next replica: an equal part of all money, so that there is some for the most replicas, and never more than is
    /// left.
    #[must_use]
    pub fn share(&self) -> Amount {
        let most = u64::try_from(self.max).unwrap_or(u64::MAX);
        let part = self.money.checked_mul_div_ceil(1, most);
        part.unwrap_or(self.money).min(self.left())
    }

    /// A job of it.
    pub fn replica_mut(&mut self, job: JobId) -> Option<&mut ReplicaRecord> {
        self.replicas.iter_mut().find(|it| it.job == job)
    }

    /// Takes a job out that has ended and was paid so much.
    pub fn ended(&mut self, job: JobId, paid: Amount) {
        let before = self.replicas.len();
        self.replicas.retain(|it| it.job != job);
        if self.replicas.len() < before {
            self.spent = self.spent.saturating_add(paid);
        }
    }
}

/// Whether a text can name a group and its file.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let begins = text.starts_with(|it: char| it.is_ascii_alphanumeric());
    // A job's id begins so.
    begins && text.len() <= NAME_BYTES_MAX && text.chars().all(fits) && !text.starts_with("0x")
}

/// Needs as the hexadecimal digits of their canonical bytes.
mod needs_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use tg_types::{Decode as _, Encode as _, JobNeeds};

    pub(super) fn serialize<S: Serializer>(
        needs: &JobNeeds,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let digits = needs.to_bytes().into_iter();
        let digits = digits.map(|byte| format!("{byte:02x}"));
        serializer.serialize_str(&digits.collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<JobNeeds, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let byte = |pair: &[u8; 2]| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        };
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        let bytes = bytes.filter(|_| rest.is_empty());
        let needs = bytes.and_then(|it| JobNeeds::from_bytes(&it).ok());
        needs
            .ok_or_else(|| D::Error::custom("expected what a machine needs, in hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn terms() -> GroupTerms {
        GroupTerms {
            name: "digits".to_owned(),
            id: "g12345678".to_owned(),
            account: Address::new([1; 20]),
            model: ModelId::new([2; 32]),
            model_name: "mlp-digits".to_owned(),
            rules: ScalingRules {
                min: 2,
                max: 3,
                queue_max: 8,
                queue_ms: 2_000,
                idle_ms: 60_000,
            },
            money: Amount::from_tgrid(9),
            minute_max: Some(Amount::from_tgrid(1)),
            run_max: None,
            same_provider: false,
            until_ms: 1_000,
            needs: JobNeeds::ANY_MACHINE,
        }
    }

    fn job(name: u8, locked: u64) -> ReplicaRecord {
        ReplicaRecord {
            job: JobId::new([name; 32]),
            provider: Some(Address::new([name; 20])),
            locked: Amount::from_tgrid(locked),
            part: ReplicaPart::Serves,
            ordered_ms: 5,
        }
    }

    #[test]
    fn what_is_kept_is_read_back_and_nothing_else_is() {
        let mut record = GroupRecord::new(terms()).unwrap();
        record.replicas = vec![job(1, 3), job(2, 3)];
        let bytes = record.to_bytes();
        assert_eq!(GroupRecord::read(&bytes), Ok(record));
        let text = String::from_utf8(bytes).unwrap();
        for (from, to, told) in [
            ("\"version\": 1", "\"version\": 2", "version 2"),
            ("\"min\": 2", "\"min\": 4", "least number"),
            ("\"min\": 2", "\"min\": 0", "least number"),
            ("\"max\": 3", "\"max\": 65", "most replicas"),
            ("\"name\": \"digits\"", "\"name\": \"../x\"", "its name"),
            ("\"name\": \"digits\"", "\"other\": \"x\"", "not the record"),
            ("\"money\": \"9\"", "\"money\": 9", "not the record"),
            ("\"needs\": \"", "\"needs\": \"0", "not the record"),
            (
                "\"part\": \"serves\"",
                "\"part\": \"rests\"",
                "not the record",
            ),
        ] {
            let other = text.replacen(from, to, 1);
            assert_ne!(other, text, "{from}");
            let error = GroupRecord::read(other.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        for cut in 0..text.trim_end().len() {
            assert!(GroupRecord::read(&text.as_bytes()[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn names_are_names_of_files_and_no_ids_of_jobs() {
        for good in ["a", "mlp-digits", "9.x_y"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "-a",
            "a/b",
            "a b",
            "0x12",
            "\u{e9}",
            &"a".repeat(65),
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn no_more_is_locked_than_is_there() {
        let mut record = GroupRecord::new(terms()).unwrap();
        let tgrid = Amount::from_tgrid;
        assert_eq!((record.left(), record.share()), (tgrid(9), tgrid(3)));
        record.replicas = vec![job(1, 3), job(2, 3), job(3, 3)];
        assert_eq!((record.left(), record.share()), (tgrid(0), tgrid(0)));
        // What was not paid of a replica is there again.
        record.ended(JobId::new([2; 32]), tgrid(1));
        assert_eq!((record.spent, record.left()), (tgrid(1), tgrid(2)));
        assert_eq!(record.share(), tgrid(2));
        // It ended once.
        record.ended(JobId::new([2; 32]), tgrid(1));
        assert_eq!(record.spent, tgrid(1));
        record.money = tgrid(12);
        assert_eq!((record.left(), record.share()), (tgrid(5), tgrid(4)));
    }
}
