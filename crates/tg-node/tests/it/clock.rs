//! Validators of one machine whose wall clock jumps, in simulations.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use commonware_runtime::{Clock as _, Runner as _, deterministic};
use tg_node::{BlobStore, NodeHandle, WallClock};

use crate::simulation::{Context, World};
use crate::support::{NoEvidence, assert_agree};

const HOUR: i64 = 3_600_000;

/// How far the wall clock is from the right time, in milliseconds, at seconds after the start.
type Script = fn(i64) -> i64;

fn millis(time: SystemTime) -> i64 {
    i64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The time of the last final block less the right time, in milliseconds.
fn ahead(handle: &NodeHandle, context: &Context) -> i64 {
    handle.status().timestamp.get().cast_signed() - millis(context.current())
}

/// Four validators on a wall clock that follows `script`; `check` is called every 100 ms with the seconds since the start
/// until it has been for `seconds`.
fn run(
    script: Script,
    seconds: i64,
    mut check: impl FnMut(i64, &[NodeHandle], &Context) + Send + 'static,
) {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Arc::new(BlobStore::open(folder.path(), 0).unwrap());
    let config = deterministic::Config::new()
        .with_seed(7)
        // Years after 1970, so that clocks can be set back.
        .with_start_time(UNIX_EPOCH + Duration::from_secs(3 * 365 * 86_400))
        .with_timeout(Some(Duration::from_secs(1_000)));
    deterministic::Runner::new(config).start(|context| async move {
        let start = millis(context.current());
        let wall = WallClock::new(move |steady| {
            let now = millis(steady);
            let wall = now + script((now - start) / 1_000);
            UNIX_EPOCH + Duration::from_millis(wall.unsigned_abs())
        });
        let world = World::new(context, vec![blobs], Arc::new(NoEvidence), wall).await;
        let mut handles = Vec::new();
        for index in 0..4 {
            handles.push(world.honest(index).await);
        }
        loop {
            let now = (millis(world.context.current()) - start) / 1_000;
            check(now, &handles, &world.context);
            if now >= seconds {
                break;
            }
            world.context.sleep(Duration::from_millis(100)).await;
        }
        assert_agree(&handles);
    });
}

#[test]
fn a_clock_an_hour_ahead_for_five_seconds_makes_no_block_an_hour_ahead() {
    let script: Script = |now| if (10..15).contains(&now) { HOUR } else { 0 };
    let mut at_jump = 0;
    run(script, 25, move |now, handles, context| {
        for handle in handles {
            let status = handle.status();
            if status.height > 0 {
                assert!(ahead(handle, context) <= 2_000, "at {now} s: {status:?}");
            }
            match now {
                12..=13 => assert_eq!(status.clock_jumped_ms.map(|by| by / 1_000), Some(3_600)),
                17.. => assert_eq!(status.clock_jumped_ms, None),
                _ => {}
            }
        }
        let height = handles[0].status().height;
        match now {
            12 => at_jump = height,
            // Two blocks may have been on their way.
            13 => assert!(height <= at_jump + 2, "blocks while the time is not known"),
            25 => assert!(height > at_jump + 10, "the chain stands still at {height}"),
            _ => {}
        }
    });
}

#[test]
fn half_a_minute_back_and_a_day_ahead_recover_without_restart() {
    let script: Script = |now| match now {
        ..10 => 0,
        10..20 => -30_000,
        _ => 24 * HOUR,
    };
    let mut before = 0;
    run(script, 110, move |now, handles, context| {
        let height = handles[0].status().height;
        match now {
            9 => before = height,
            // The new time has stood for a minute: it is believed.
            110 => {
                for handle in handles {
                    let status = handle.status();
                    assert_eq!(status.clock_jumped_ms, None);
                    assert!(status.height > before + 20, "{status:?}");
                    let ahead = ahead(handle, context) - 24 * HOUR;
                    assert!(ahead.abs() <= 3_000, "{ahead}");
                }
            }
            _ => {}
        }
    });
}
