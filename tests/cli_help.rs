//! Help texts and manual pages: snapshots, and the committed manual pages are those of this version.

mod common;

use std::fs;
use std::path::Path;

use common::run;

/// The programs with a manual page.
const PROGRAMS: [&str; 2] = ["pg_dwbinspect", "pg_walfpi"];

#[test]
fn help_of_every_command() {
    for (program, commands) in [
        (
            "pg_dwbinspect",
            ["", "tui", "check", "page", "repair", "undo", "info", "dump", "batches", "verify", "report"].as_slice(),
        ),
        (
            "pg_walfpi",
            [
                "", "advise", "stats", "merge", "whatif", "compare", "dwb-size", "report", "list", "extract", "export",
                "verify", "tui",
            ]
            .as_slice(),
        ),
    ] {
        for command in commands {
            for flag in ["-h", "--help"] {
                let args: Vec<&str> = [*command, flag].into_iter().filter(|arg| !arg.is_empty()).collect();
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

#[test]
fn manual_pages_are_those_of_this_version() {
    for program in PROGRAMS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("man/{program}.1"));
        let made = run(program, &["man"]).stdout;
        if std::env::var_os("UPDATE_MAN").is_some() {
            fs::write(&path, &made).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), made, "run the tests once with UPDATE_MAN=1");
    }
}

#[test]
fn completions_of_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run("pg_dwbinspect", &["completions", shell]);
        assert!(ran.status == 0 && ran.stdout.contains("dump"), "{shell}");
    }
}
