//! How many files and connections this process may have open, and how many event streams its API serves by that.

use tg_api::ApiConfig;
use tg_api::config::STREAMS_MAX;

use tg_console::outcome::{Exit, Failure};

/// The limits of an API with so many event streams, or with as many as this process may well have.
///
/// # Errors
/// If there are to be more than it may have.
pub(crate) fn with_streams(config: ApiConfig, streams: Option<u32>) -> Result<ApiConfig, Failure> {
    let allowed = raised();
    let Some(streams) = streams else {
        return Ok(config.with_streams(ApiConfig::streams_of(allowed)));
    };
    let streams = streams as usize;
    let needed = ApiConfig::descriptors_of(streams);
    if streams > STREAMS_MAX {
        let text = format!("{streams} event streams are more than {STREAMS_MAX}");
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("run another gateway beside this one for more"));
    }
    if needed > allowed {
        let text = format!(
            "{streams} event streams need {needed} descriptors, and this process may have {allowed} open"
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(format!(
            "`ulimit -n {needed}` before it is started, or LimitNOFILE={needed} of its unit for systemd, allows them; or fewer streams"
        )));
    }
    Ok(config.with_streams(streams))
}

/// Raises how many descriptors this process may have open as far as the system lets it; how many these are.
#[cfg(unix)]
fn raised() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let most = Rlimit {
            current: limit.maximum,
            ..limit
        };
        // Where it cannot be raised, what is allowed now stands.
        let _kept = setrlimit(Resource::Nofile, most);
    }
    let limit = getrlimit(Resource::Nofile);
    limit.current.unwrap_or(u64::MAX)
}

/// The system has no such limit.
#[cfg(not(unix))]
const fn raised() -> u64 {
    u64::MAX
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn streams_are_those_that_are_asked_for_or_that_descriptors_allow() {
        let usual = ApiConfig::default();
        let by_limit = with_streams(usual, None).unwrap();
        assert!((usual.streams_max..=STREAMS_MAX).contains(&by_limit.streams_max));
        assert_eq!(with_streams(usual, Some(1)).unwrap().streams_max, 1);
        let refused = with_streams(usual, Some(10_001)).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
    }
}
