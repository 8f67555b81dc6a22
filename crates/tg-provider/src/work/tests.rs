//! What failures of work mean.

use tg_sdk::ErrorBody;

use super::*;

fn refused(status: u16) -> PullError {
    let body = ErrorBody {
        code: "TG-API-005".to_owned(),
        message: "it is not here".to_owned(),
        hint: String::new(),
    };
    PullError::Client(Arc::new(ClientError::Refused { status, body }))
}

/// Stops: all of the collateral is lost because an agent and its gateway were started again, and the gateway lacked the input at first.
#[test]
fn what_is_not_found_is_missing_before_the_start_and_out_of_reach_after_it() {
    let missing = Some(DeclineReason::InputMissing);
    let before = Report::of_pull(false, (&refused(404), missing));
    assert!(
        matches!(before, Report::Failed(_, Some(DeclineReason::InputMissing))),
        "{before:?}"
    );
    let after = Report::of_pull(true, (&refused(404), missing));
    assert!(matches!(after, Report::Unreachable(_)), "{after:?}");
}

/// The error of the client is behind one that several who wait share.
#[test]
fn a_grid_that_is_busy_is_out_of_reach() {
    for is_started in [false, true] {
        let busy = Report::of_pull(is_started, (&refused(503), None));
        assert!(matches!(busy, Report::Unreachable(_)), "{busy:?}");
        let other = Report::of_pull(is_started, (&refused(422), None));
        assert!(matches!(other, Report::Failed(_, None)), "{other:?}");
    }
}

/// An input that is not as long as the order says is no fault of whoever gave it.
#[test]
fn the_reason_is_kept_after_the_start() {
    let error = PullError::Length {
        expected: 3,
        got: 4,
    };
    let missing = Some(DeclineReason::InputMissing);
    for is_started in [false, true] {
        let report = Report::of_pull(is_started, (&error, missing));
        let kept = matches!(&report, Report::Failed(_, reason) if *reason == missing);
        assert!(kept, "{report:?}");
    }
}
