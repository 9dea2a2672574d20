//! Volumes without room for what a start writes.

use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::common::{arg, cluster, skipped, temporary};

/// Copies a cluster to a volume with so many kilobytes more than it takes, which is gone with the shell, and checks it there.
const ON_A_VOLUME: &str = r#"
    size=$(($(du -sk "$1" | cut -f1) + $2))
    mount -t tmpfs -o "size=${size}k,mode=700" tmpfs "$3" 2> /dev/null || exit 99
    cp -a "$1" "$3/data" && exec "$4" check "$3/data" --format ndjson"#;

#[test]
fn volume_without_room_for_a_segment_is_noted() {
    let (data, place) = (cluster("clean"), temporary());
    let program = cargo_bin("pg_dwbinspect");
    for (kilobytes, expected) in [("512", &["pg_wal"][..]), ("65536", &[])] {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", ON_A_VOLUME, "sh", arg(&data), kilobytes, arg(place.path())]);
        let Ok(ran) = command.arg(&program).output() else {
            return skipped("unshare is not installed here");
        };
        if ran.stdout.is_empty() {
            return skipped("this user may not mount a volume");
        }
        let text = String::from_utf8(ran.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found: Vec<Value> = lines.filter(|line| line["kind"] == "no_room").collect();
        let files: Vec<&Value> = found.iter().map(|finding| &finding["file"]).collect();
        assert_eq!(files, expected, "{text}");
        // A full volume damages nothing: no status says so.
        assert!(found.iter().all(|finding| finding["severity"] == "note"), "{found:?}");
        assert_eq!(ran.status.code(), Some(0), "{text}");
    }
}
