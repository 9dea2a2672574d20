//! Help texts and manual pages: snapshots, and the committed manual pages are those of this version.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{run, skipped};

/// The programs with a manual page.
const PROGRAMS: [&str; 2] = ["pg_dwbinspect", "pg_walfpi"];

#[test]
fn help_of_every_command() {
    for (program, commands) in [
        (
            "pg_dwbinspect",
            [
                "",
                "tui",
                "check",
                "page",
                "repair",
                "undo",
                "info",
                "dump",
                "batches",
                "verify",
                "report",
                "innodb",
                "innodb tui",
                "innodb check",
                "innodb page",
                "innodb info",
                "innodb dump",
                "innodb batches",
                "innodb verify",
            ]
            .as_slice(),
        ),
        (
            "pg_walfpi",
            [
                "", "advise", "stats", "whatif", "compare", "dwb-size", "report", "list", "extract", "export",
                "verify", "tui",
            ]
            .as_slice(),
        ),
    ] {
        for command in commands {
            for flag in ["-h", "--help"] {
                let args: Vec<&str> = command.split(' ').chain([flag]).filter(|arg| !arg.is_empty()).collect();
                let ran = run(program, &args);
                assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{program} {args:?}");
                assert!(ran.stdout.contains("Exit status:"), "{program} {args:?}");
                if flag == "-h" {
                    assert!(ran.stdout.lines().count() <= 50, "{program} {args:?}: fits a screen");
                }
                insta::assert_snapshot!(format!("{program} {}", args.join(" ")), ran.stdout);
            }
        }
    }
}

/// The commands that the help of a program lists.
fn commands(program: &str) -> Vec<String> {
    commands_of(program, &[])
}

/// The commands that the help of a command lists, or of the program itself.
fn commands_of(program: &str, command: &[&str]) -> Vec<String> {
    let help = run(program, &[command, &["--help"]].concat()).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let starts = listed.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names = starts.map(|line| line.split(' ').next().expect("a name").to_owned());
    names.filter(|name| name != "help").collect()
}

fn man_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("man")
}

#[test]
fn manual_pages_are_those_of_this_version() {
    let mut made = BTreeMap::new();
    for program in PROGRAMS {
        made.insert(format!("{program}.1"), run(program, &["man"]).stdout);
        let commands = commands(program);
        assert!(commands.len() > 9 && commands.contains(&"verify".to_owned()), "{program}: {commands:?}");
        for command in commands {
            made.insert(format!("{program}-{command}.1"), run(program, &["man", &command]).stdout);
            for inner in commands_of(program, &[&command]) {
                let page = run(program, &["man", &command, &inner]).stdout;
                made.insert(format!("{program}-{command}-{inner}.1"), page);
            }
        }
    }
    if std::env::var_os("UPDATE_MAN").is_some() {
        for entry in fs::read_dir(man_dir()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (name, page) in &made {
            fs::write(man_dir().join(name), page).unwrap();
        }
    }
    let entries = fs::read_dir(man_dir()).unwrap().map(|entry| entry.unwrap().path());
    let kept = entries
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap()));
    assert!(kept.collect::<BTreeMap<_, _>>() == made, "run the tests once with UPDATE_MAN=1");
}

/// Pages that a text names, such as `pg_walfpi-stats(1)`.
fn cited(page: &str) -> BTreeSet<String> {
    let plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "");
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    let sections = plain.match_indices('(').filter_map(|(at, _)| {
        let (before, after) = plain.split_at(at);
        let section = after.strip_prefix('(')?.split(')').next()?;
        let name = before.rsplit(|letter| !is_of_name(letter)).next()?;
        let is_page = section.len() == 1 && section.starts_with(|digit: char| digit.is_ascii_digit());
        (is_page && !name.is_empty()).then(|| format!("{name}.{section}"))
    });
    sections.collect()
}

#[test]
fn every_manual_page_that_is_cited_exists() {
    assert_eq!(cited("of \\fBpg_a\\-b\\fR(1), f(x) and (2)"), BTreeSet::from(["pg_a-b.1".to_owned()]));
    for program in PROGRAMS {
        let of_program = fs::read_to_string(man_dir().join(format!("{program}.1"))).unwrap();
        for command in commands(program) {
            let name = format!("{program}-{command}.1");
            assert!(cited(&of_program).contains(&name), "{program}.1 does not lead to {name}");
            let page = fs::read_to_string(man_dir().join(&name)).unwrap();
            assert!(cited(&page).contains(&format!("{program}.1")), "{name} does not lead back");
            // A short help leaves options out; the manual does not, and no entry is empty.
            let help = run(program, &[&command, "--help"]).stdout;
            let options = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
            for option in options.flat_map(|line| line.split([' ', ',', '='])).filter(|word| word.starts_with("--")) {
                assert!(page.contains(&option.replace('-', "\\-")), "{name} has no {option}");
            }
            assert!(!page.contains("\n.TP\n.") && !page.contains("\n\n"), "{name}");
            for entry in page.split("\n.TP\n").skip(1) {
                let meaning = entry.lines().nth(1).unwrap_or_default();
                assert!(!meaning.is_empty() && !meaning.starts_with('.'), "{name}: {entry}");
            }
        }
    }
    for entry in fs::read_dir(man_dir()).unwrap() {
        let path = entry.unwrap().path();
        for name in cited(&fs::read_to_string(&path).unwrap()) {
            assert!(man_dir().join(&name).exists(), "{} cites {name}", path.display());
        }
    }
}

#[test]
fn manual_pages_are_set_without_a_warning() {
    if Command::new("mandoc").arg("/dev/null").output().is_err() {
        return skipped("no mandoc here");
    }
    let pages = fs::read_dir(man_dir()).unwrap().map(|entry| entry.unwrap().path());
    let checked = Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).args(pages).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn there_is_no_manual_page_of_what_is_not_a_command() {
    for name in ["help", "man", "chec", ""] {
        let ran = run("pg_dwbinspect", &["man", name]);
        assert!(
            ran.status == 2 && ran.stdout.is_empty() && ran.stderr.contains(&format!("\"{name}\"")),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn completions_of_every_shell() {
    let directory = tempfile::tempdir().unwrap();
    for program in PROGRAMS {
        for shell in ["bash", "zsh", "fish"] {
            let ran = run(program, &["completions", shell]);
            assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{shell}");
            for command in commands(program) {
                assert!(ran.stdout.contains(&command), "{program} {command}: {shell}");
            }
            let script = directory.path().join(format!("{program}.{shell}"));
            fs::write(&script, ran.stdout).unwrap();
            match Command::new(shell).arg("-n").arg(&script).output() {
                Ok(read) => assert!(read.status.success() && read.stderr.is_empty(), "{script:?}: {read:?}"),
                Err(_) => skipped(&format!("no {shell} here that reads its completions")),
            }
        }
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let directory = tempfile::tempdir().unwrap();
    let complete = |program: &str, words: &[&str]| {
        let script = directory.path().join(program);
        fs::write(&script, run(program, &["completions", "bash"]).stdout).unwrap();
        // As the shell does it after a tab: the words, which of them is being typed, and the function that `complete` registered.
        let function = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                        f=$(complete -p \"$1\" | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $f \"$1\" \"${@: -1}\" \"${@: -2:1}\"; \
                        printf '%s\\n' \"${COMPREPLY[@]}\"";
        let ran = Command::new("bash").args(["--norc", "-c", function, "bash"]).arg(&script).args(words).output();
        let text = String::from_utf8(ran.expect("bash").stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("pg_dwbinspect", &["pg_dwbinspect", "rep"]), ["repair", "report"]);
    assert_eq!(complete("pg_dwbinspect", &["pg_dwbinspect", "check", "--ex"]), ["--explain"]);
    assert_eq!(complete("pg_walfpi", &["pg_walfpi", "wha"]), ["whatif"]);
    assert_eq!(complete("pg_walfpi", &["pg_walfpi", "list", "--format", "c"]), ["csv"]);
}
