//! Finds out which commit this is, for `-V`, and what is built into it, for `--version`.
#![allow(clippy::print_stdout, reason = "that is how a build script speaks to cargo")]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PGFORENSICS_COMMIT");
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = Path::new(&root);
    let given = std::env::var("PGFORENSICS_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = match given {
        Some(commit) => Some(commit),
        // Others are built again and again between commits: what they would say is soon false.
        None if is_release => {
            watch(root);
            commit_of(root)
        }
        None => None,
    };
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let text = match commit {
        Some(commit) => format!("{version} (commit {commit})"),
        None if is_release => format!("{version} (commit not known)"),
        None => format!("{version} (development build)"),
    };
    println!("cargo::rustc-env=PGFORENSICS_VERSION={text}");
    let has = |feature: &&str| std::env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_some();
    let features = FEATURES.into_iter().filter(has).collect::<Vec<_>>().join(", ");
    println!("cargo::rustc-env=PGFORENSICS_FEATURES={}", if features.is_empty() { "none" } else { &features });
    println!("cargo::rustc-env=PGFORENSICS_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}

/// Those of Cargo.toml that add what a user sees; `cli` is in every program, and `tables` comes with it.
const FEATURES: [&str; 2] = ["parquet", "tui"];

/// Has this run again when another commit is checked out or made.
fn watch(root: &Path) {
    for name in ["HEAD", "logs/HEAD", "index"] {
        if let Some(path) = git(root, &["rev-parse", "--git-path", name]) {
            let path = root.join(path);
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
}

/// The commit of a work tree, with a mark when files differ from it; that of a packed crate, which has no git; or none.
pub fn commit_of(root: &Path) -> Option<String> {
    if root.join(".git").exists() {
        let commit = git(root, &["rev-parse", "--short=10", "HEAD"])?;
        let changed = git(root, &["status", "--porcelain", "--untracked-files=no"])?;
        return Some(if changed.is_empty() { commit } else { format!("{commit}, changed") });
    }
    // Written by `cargo package`.
    let packed = std::fs::read_to_string(root.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = packed.split_once("\"sha1\": \"")?;
    let commit: String = rest.chars().take_while(char::is_ascii_hexdigit).take(10).collect();
    // As for a work tree: it was packed with `--allow-dirty`.
    let mark = if packed.contains("\"dirty\": true") { ", changed" } else { "" };
    (commit.len() == 10).then(|| format!("{commit}{mark}"))
}

/// What git prints, if there is a git and it succeeds.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
