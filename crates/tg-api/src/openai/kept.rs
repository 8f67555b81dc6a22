//! Responses that are kept, so that they can be asked for again.
//!
//! They are in memory: a restart forgets them. Of more than fit the oldest of the caller that has most are forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::conversation::ChatTurn;

/// Most responses that are kept.
const KEPT_MAX: usize = 1_024;

/// Most bytes of all of them: what a node may hold of other people's texts.
const KEPT_BYTES_MAX: usize = 32 << 20;

struct KeptResponse {
    caller: String,
    id: String,
    text: String,
    /// The conversation up to its end.
    said: Vec<ChatTurn>,
}

impl KeptResponse {
    fn bytes(&self) -> usize {
        self.text.len() + self.said.iter().map(ChatTurn::bytes).sum::<usize>()
    }
}

/// The responses of all callers.
#[derive(Default)]
pub(crate) struct KeptResponses(Mutex<VecDeque<KeptResponse>>);

impl KeptResponses {
    /// Keeps one with the conversation up to its end; one of that name is replaced.
    pub(super) fn keep(&self, caller: &str, id: &str, (response, said): (&Value, Vec<ChatTurn>)) {
        self.remove(caller, id);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back(KeptResponse {
            caller: caller.to_owned(),
            id: id.to_owned(),
            text: response.to_string(),
            said,
        });
        let mut bytes: usize = all.iter().map(KeptResponse::bytes).sum();
        while all.len() > KEPT_MAX || bytes > KEPT_BYTES_MAX {
            let by_bytes = bytes > KEPT_BYTES_MAX;
            let Some(oldest) = oldest_of_most(&all, by_bytes).and_then(|at| all.remove(at)) else {
                return;
            };
            bytes -= oldest.bytes();
        }
    }

    /// The response of a caller, as JSON.
    pub(super) fn get(&self, caller: &str, id: &str) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().find(|it| it.caller == caller && it.id == id)?;
        Some(found.text.clone())
    }

    /// What was said up to the end of a response of a caller.
    pub(super) fn said(&self, caller: &str, id: &str) -> Option<Vec<ChatTurn>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().find(|it| it.caller == caller && it.id == id)?;
        Some(found.said.clone())
    }

    /// Forgets one; whether it was there.
    pub(super) fn remove(&self, caller: &str, id: &str) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.len();
        all.retain(|it| it.caller != caller || it.id != id);
        all.len() < before
    }
}

/// Where the oldest response of the caller stands that has most of them, or most bytes. Stops: a key that makes those of others go.
fn oldest_of_most(all: &VecDeque<KeptResponse>, by_bytes: bool) -> Option<usize> {
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for kept in all {
        *held.entry(kept.caller.as_str()).or_default() += if by_bytes { kept.bytes() } else { 1 };
    }
    let (most, _) = held.into_iter().max_by_key(|(_, held)| *held)?;
    all.iter().position(|it| it.caller == most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(text: &str) -> Vec<ChatTurn> {
        vec![ChatTurn::of("user", text)]
    }

    #[test]
    fn a_caller_finds_its_own_and_the_oldest_go() {
        let kept = KeptResponses::default();
        kept.keep("a", "1", (&json!({ "of": "a" }), said("hark")));
        assert_eq!(kept.said("a", "1"), Some(said("hark")));
        assert_eq!(kept.said("b", "1"), None);
        assert_eq!(kept.get("a", "1").as_deref(), Some("{\"of\":\"a\"}"));
        assert_eq!(kept.get("b", "1"), None);
        assert!(!kept.remove("b", "1") && kept.remove("a", "1") && !kept.remove("a", "1"));
        for index in 0..=KEPT_MAX {
            kept.keep("a", &index.to_string(), (&json!(index), Vec::new()));
        }
        assert_eq!(kept.get("a", "0"), None);
        assert!(kept.get("a", "1").is_some());
        kept.keep("a", "large", (&json!(1), said(&"x".repeat(KEPT_BYTES_MAX))));
        assert!(kept.get("a", "1").is_none() && kept.get("a", "large").is_none());
    }
}
