//! The book in `docs/`: every command in it does what is printed there, and every link leads somewhere.
//!
//! A block of the language `console` has commands after `$ ` and what each prints. They are run in one directory a page, with the
//! fixtures that a comment of the page names (`<!-- fixtures: crashed=dwb/checkpoint/data -->`: the directory `crashed` is a
//! copy). A line `...` stands for any lines. `<!-- server: 15 -->`: blocks after it need the programs of that major.
//! `UPDATE_DOCS=1` writes what the programs print into the pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::live;
use crate::common::{copy_tree, skipped, unpack};
use assert_cmd::cargo::cargo_bin;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// Pages of the book, by its table of contents.
fn pages() -> Vec<String> {
    let contents = fs::read_to_string(docs().join("SUMMARY.md")).expect("table of contents");
    links(&contents).into_iter().filter(|link| link.ends_with(".md")).collect()
}

/// What stands in the round brackets of links, outside of code.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            links.extend(rest.split_once(')').map(|(link, _)| link.to_owned()));
        }
    }
    links
}

/// The value of a comment `<!-- NAME: VALUE -->`.
fn comment<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix("<!-- ")?.strip_prefix(name)?.strip_prefix(": ")?.strip_suffix(" -->")
}

/// A directory with copies of fixtures.
fn directory(page: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("temporary directory");
    for given in page.lines().filter_map(|line| comment(line, "fixtures")).flat_map(str::split_whitespace) {
        let (name, fixture) = given.split_once('=').expect("NAME=FIXTURE");
        let to = directory.path().join(name);
        if fixture.ends_with(".tar.zst") {
            fs::copy(unpack::fixtures().join(fixture), to).expect("copy");
            continue;
        }
        let mut parts = fixture.splitn(3, '/');
        let archive = format!("{}/{}", parts.next().expect("folder"), parts.next().expect("archive"));
        copy_tree(&unpack::unpack(&archive).expect("unpack").join(parts.next().unwrap_or_default()), &to);
    }
    directory
}

fn run(command: &str, directory: &Path) -> String {
    let programs = cargo_bin("pg_dwbinspect").parent().expect("directory of the programs").to_owned();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(directory);
    shell.env("PATH", path).env("TZ", "UTC").env("COLUMNS", "100").env_remove("NO_COLOR").env_remove("PGDATA");
    let output = shell.output().expect("a shell");
    String::from_utf8(output.stdout).expect("UTF-8").replace(directory.to_str().expect("UTF-8"), "")
}

/// True when the lines are those expected, where `...` stands for any.
fn fits(expected: &[&str], lines: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, lines)| minor_hidden(line) == minor_hidden(first) && fits(rest, lines)),
    }
}

/// A line without minor versions of servers: whichever is installed will do.
fn minor_hidden(line: &str) -> String {
    let mut parts = line.split("PostgreSQL ");
    let mut hidden = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
        let (version, rest) = part.split_at(end);
        hidden += &format!("PostgreSQL {}{rest}", version.split('.').next().unwrap_or_default());
    }
    hidden
}

/// The page with what its commands print, the commands that were run, and those whose output is another.
fn played(page: &str, server: impl Fn(u32) -> bool) -> (String, usize, Vec<String>) {
    let directory = directory(page);
    let (mut text, mut commands, mut wrong) = (String::new(), 0, Vec::new());
    let mut lines = page.lines().peekable();
    let (mut in_console, mut can_run) = (false, true);
    while let Some(line) = lines.next() {
        text += line;
        text.push('\n');
        if let Some(major) = comment(line, "server") {
            can_run = major.parse().is_ok_and(&server);
        }
        if line.starts_with("```") {
            in_console = line == "```console";
            continue;
        }
        let Some(first) = line.strip_prefix("$ ").filter(|_| in_console && can_run) else { continue };
        let mut command = first.to_owned();
        while command.ends_with('\\') {
            let next = lines.next().expect("a line that goes on");
            text += &format!("{next}\n");
            command += &format!("\n{next}");
        }
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ") && *line != "```") {
            expected.push(line);
        }
        commands += 1;
        let printed = run(&command, directory.path());
        let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
        let is_elided = expected.contains(&"...");
        if !fits(&expected, &printed) {
            wrong.push(format!("$ {command}\n{}", printed.join("\n")));
        }
        for line in if is_elided { expected } else { printed } {
            text += &format!("{line}\n");
        }
    }
    (text, commands, wrong)
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_command_prints_what_the_book_says() {
    let mut all = 0;
    for name in pages() {
        let path = docs().join(&name);
        let page = fs::read_to_string(&path).expect("page");
        if !page.contains("```console") {
            continue;
        }
        let server = |major: u32| {
            let is_there = live::find_programs().is_some_and(|bin| live::version_of(&bin).first() == Some(&major));
            if !is_there {
                skipped(&format!("{name}: no programs of PostgreSQL {major}"));
            }
            is_there
        };
        let (text, commands, wrong) = played(&page, server);
        all += commands;
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, text).expect("page");
        } else {
            assert!(wrong.is_empty(), "{name}: {} commands print something else:\n{}", wrong.len(), wrong.join("\n"));
        }
    }
    assert!(all >= 30, "{all} commands");
}

#[test]
fn every_page_is_in_the_table_of_contents_and_every_link_leads_somewhere() {
    let listed: BTreeSet<String> = pages().into_iter().collect();
    for entry in fs::read_dir(docs()).expect("list").map(|entry| entry.expect("entry")) {
        let name = entry.file_name().into_string().expect("UTF-8");
        let is_page = name.ends_with(".md") && name != "SUMMARY.md";
        assert!(!is_page || listed.contains(&name), "{name} is not in SUMMARY.md");
    }
    let readme = docs().join("../README.md");
    for path in listed.iter().map(|name| docs().join(name)).chain([docs().join("SUMMARY.md"), readme]) {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for link in links(&text).iter().filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().expect("folder").join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&target).expect("page");
                assert!(text.lines().any(|line| anchor(line).is_some_and(|anchor| anchor == heading)), "{link}");
            }
        }
    }
}

#[test]
fn commands_of_the_readme_do_what_it_says_of_them() {
    let text = fs::read_to_string(docs().join("../README.md")).expect("README");
    let directory = tempfile::tempdir().expect("temporary directory");
    let fixtures = format!("{}/", unpack::fixtures().display());
    let commands =
        text.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| line.starts_with("cargo run "));
    let printed: Vec<String> = commands
        .map(|command| {
            // cargo has built the programs for this test already.
            let command = command.replace("cargo run --bin ", "").replace(" -- ", " ");
            let command = command.replace("/tmp/", "").replace("fixtures/", &fixtures);
            run(&format!("{command}; echo status $?"), directory.path())
        })
        .collect();
    let [crashed, repaired, undone, counted] = &printed[..] else { panic!("{printed:#?}") };
    // "Finds the pages that keep it from starting, and names the images that save it."
    assert!(crashed.contains("\nWILL NOT START ") && crashed.contains("7 damaged pages: 6 restore"));
    assert!(crashed.ends_with("status 1\n"), "{crashed}");
    assert!(repaired.ends_with("status 0\n"), "{repaired}");
    assert!(undone.contains("Repair undone") && undone.ends_with("status 0\n"), "{undone}");
    assert!(counted.ends_with("status 0\n"), "{counted}");
    assert!(text.lines().any(|line| line == "    cargo test"));
}

/// The anchor of a heading, as mdBook and GitHub make it.
fn anchor(line: &str) -> Option<String> {
    let title = line.starts_with('#').then(|| line.trim_start_matches('#').trim())?;
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect())
}

#[test]
fn lines_that_differ_are_seen() {
    assert!(fits(&["a", "...", "d"], &["a", "b", "c", "d"]) && fits(&["..."], &[]));
    assert!(!fits(&["a", "...", "d"], &["a", "b"]) && !fits(&["a"], &["a", "b"]) && !fits(&["a"], &["b"]));
    let page = "```console\n$ printf 'one\\ntwo\\n'; exit 3\none\n```\n";
    let (text, commands, wrong) = played(page, |_| true);
    assert_eq!((commands, wrong.len()), (1, 1));
    assert_eq!(text, "```console\n$ printf 'one\\ntwo\\n'; exit 3\none\ntwo\n```\n");
}
