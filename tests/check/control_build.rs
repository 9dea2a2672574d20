//! A `pg_control` that is signed, and of a server that was built as none is today.

use std::path::PathBuf;

use crate::common::{arg, copy_tree, dwbinspect, edit_control, temporary, unpack};

/// Offsets of `float4ByVal`, which 13 and later have no more, and of `float8ByVal`.
fn offsets(major: u32) -> (Option<usize>, usize) {
    match major {
        10 | 12 => (Some(248), 249),
        11 => (Some(240), 241),
        13..=18 => (None, 248),
        _ => (None, 260),
    }
}

fn copy(major: u32) -> (tempfile::TempDir, PathBuf) {
    let from = unpack::data_dir(&format!("names/pg{major}")).expect("unpack fixture");
    let temporary = temporary();
    let place = temporary.path().join("place");
    copy_tree(from.parent().expect("a place"), &place);
    (temporary, place.join(format!("pg{major}")))
}

/// Servers compare each byte with what they were built with; of the fields of 10 to 12 both were an option once.
#[test]
fn way_of_passing_floats_that_no_usual_server_has_is_named() {
    for major in 10..=19 {
        let kind = if major < 13 { "unusual_build" } else { "control_sizes" };
        let (_keep, data) = copy(major);
        let named = || {
            let ran = dwbinspect(&["check", arg(&data), "--format", "ndjson"]);
            let start = ran.of_type("summary").pop().expect("summary")["on_start"]["start"].clone();
            (ran.of_type("finding").iter().any(|found| found["kind"] == kind), start)
        };
        assert!(!named().0, "{major}");
        let (float4, float8) = offsets(major);
        for offset in float4.into_iter().chain([float8]) {
            for byte in [0, 2, 0xFF] {
                edit_control(&data, offset, &[byte]);
                let (is_named, start) = named();
                assert!(
                    is_named && start != "completes" && start != "without_replay",
                    "{major} {offset} {byte}: {start}"
                );
            }
            edit_control(&data, offset, &[1]);
            assert!(!named().0, "{major} {offset}");
        }
    }
}
