//! How many calls a key may make in a minute, with the headers that say what is left of them, and how many of them may be at work at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use super::access;
use super::error::OpenAiError;
use crate::port::GridPort;

/// Calls of a key in a minute: as many as one-shot jobs that a grid on two cores is meant to take, 50 a second.
const CALLS_PER_MINUTE: u32 = 3_000;

/// The minute.
const WINDOW: Duration = Duration::from_secs(60);

/// Calls of each key since its minute began.
#[derive(Debug, Default)]
pub(crate) struct RateLimits(Mutex<BTreeMap<String, CallWindow>>);

#[derive(Debug, Clone, Copy)]
struct CallWindow {
    began: Instant,
    calls: u32,
}

/// What is left of a key's minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateState {
    remaining: u32,
    reset: Duration,
    refused: bool,
}

/// The caller of a call.
///
/// # Errors
/// If nobody orders here, or the key is not known.
pub(crate) fn caller(port: &dyn GridPort, headers: &HeaderMap) -> Result<String, OpenAiError> {
    access::caller(port, headers)
}

/// Calls of each key at work.
#[derive(Debug, Default, Clone)]
pub(crate) struct ApiKeyShares(Arc<Mutex<BTreeMap<String, usize>>>);

/// A call of a key at work; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct ApiKeyPlace {
    shares: ApiKeyShares,
    caller: String,
}

impl ApiKeyShares {
    /// A place of a key that has `most` of them.
    pub(crate) fn take(&self, caller: &str, most: usize) -> Result<ApiKeyPlace, OpenAiError> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(caller.to_owned()).or_default();
        if *count >= most {
            let message =
                format!("{most} requests of the key are being answered, which is the most");
            return Err(OpenAiError::rate(message));
        }
        *count += 1;
        Ok(ApiKeyPlace {
            shares: self.clone(),
            caller: caller.to_owned(),
        })
    }
}

impl Drop for ApiKeyPlace {
    fn drop(&mut self) {
        let mut counts = self.shares.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.caller) {
            *count = count.saturating_sub(1);
        }
    }
}

impl RateLimits {
    /// Counts a call of the key in the headers; nothing if the key is not known or nobody orders here.
    pub(crate) fn count(&self, port: &dyn GridPort, headers: &HeaderMap) -> Option<RateState> {
        let caller = caller(port, headers).ok()?;
        Some(self.call(&caller, Instant::now()))
    }

    fn call(&self, caller: &str, now: Instant) -> RateState {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // There are as many as keys, which the operator made.
        let fresh = CallWindow {
            began: now,
            calls: 0,
        };
        let window = windows.entry(caller.to_owned()).or_insert(fresh);
        if now.duration_since(window.began) >= WINDOW {
            *window = fresh;
        }
        let refused = window.calls >= CALLS_PER_MINUTE;
        window.calls = window.calls.saturating_add(u32::from(!refused));
        RateState {
            remaining: CALLS_PER_MINUTE.saturating_sub(window.calls),
            reset: WINDOW.saturating_sub(now.duration_since(window.began)),
            refused,
        }
    }
}

impl RateState {
    /// The refusal of a call beyond the limit.
    pub(crate) fn refusal(&self) -> Option<OpenAiError> {
        let message = format!("the key may make {CALLS_PER_MINUTE} calls a minute");
        self.refused.then(|| OpenAiError::rate(message))
    }

    /// Writes OpenAI's headers.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let seconds = self.reset.as_secs_f64();
        let mut put = |name: &'static str, value: String| {
            // Digits, a point and letters are a header's value.
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        };
        put("x-ratelimit-limit-requests", CALLS_PER_MINUTE.to_string());
        put("x-ratelimit-remaining-requests", self.remaining.to_string());
        put("x-ratelimit-reset-requests", format!("{seconds:.3}s"));
        if self.refused {
            put("retry-after", seconds.ceil().to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_take_the_places_of_others() {
        let shares = ApiKeyShares::default();
        let held: Vec<_> = (0..3).map(|_| shares.take("a", 2)).collect();
        assert_eq!(held.iter().filter(|it| it.is_ok()).count(), 2);
        assert!(shares.take("b", 2).is_ok());
        drop(held);
        assert!(shares.take("a", 2).is_ok());
    }

    #[test]
    fn a_key_makes_so_many_calls_a_minute() {
        let (limits, now) = (RateLimits::default(), Instant::now());
        let first = limits.call("a", now);
        assert_eq!(first.remaining, CALLS_PER_MINUTE - 1);
        assert!(first.refusal().is_none());
        for _ in 1..CALLS_PER_MINUTE {
            assert!(limits.call("a", now).refusal().is_none());
        }
        let over = limits.call("a", now + Duration::from_secs(20));
        assert_eq!((over.remaining, over.reset), (0, Duration::from_secs(40)));
        assert_eq!(over.refusal().map(|error| error.status), Some(429));
        let mut headers = HeaderMap::new();
        over.tell(&mut headers);
        assert_eq!(headers["retry-after"], "40");
        assert_eq!(headers["x-ratelimit-remaining-requests"], "0");
        // Another key, and the next minute.
        assert!(limits.call("b", now).refusal().is_none());
        assert!(limits.call("a", now + WINDOW).refusal().is_none());
    }
}
