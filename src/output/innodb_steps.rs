//! What to do about a directory of MySQL or MariaDB. Nothing is repaired here: a start, or a backup, gives pages back.

use crate::analysis::innodb::judge::{InnodbPage, InnodbVerdict};
use crate::analysis::innodb::recovery::InnodbStart;

/// Something to do, in words; with a command where a command does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnodbStep {
    /// What, and why.
    pub words: String,
    /// The command.
    pub command: Option<String>,
}

fn count_of(count: usize) -> String {
    if count == 1 { "1 page".to_owned() } else { format!("{count} pages") }
}

/// What to do, in order. `arguments`: the directory as arguments of a command. `is_complete`: everything was examined.
#[must_use]
pub fn innodb_steps(pages: &[InnodbPage], start: InnodbStart, is_complete: bool, arguments: &str) -> Vec<InnodbStep> {
    let wrong: Vec<&InnodbPage> = pages.iter().filter(|page| page.is_wrong()).collect();
    let step = |words: String, command: Option<String>| InnodbStep { words, command };
    if wrong.is_empty() {
        let words = match (is_complete, start) {
            (false, _) => {
                "No damaged page was found in what was examined; something was not examined, as findings say."
            }
            (true, InnodbStart::NothingAgainst) => "No page is damaged: nothing has to be done.",
            (true, _) => "No page is damaged; findings say what else is in the way of a start.",
        };
        return vec![step(words.to_owned(), None)];
    }
    let dump = format!("pg_dwbinspect innodb dump --images NEW_DIR {arguments}");
    let mut steps = vec![step(
        "Copy the directory, and save the images, before any start: a start overwrites slots.".to_owned(),
        Some(dump),
    )];
    let of = |verdict| wrong.iter().filter(|page| page.verdict == verdict).count();
    let (restored, unproven, lost) =
        (of(InnodbVerdict::ServerRestores), of(InnodbVerdict::RestoreUnproven), of(InnodbVerdict::NoImage));
    if start == InnodbStart::Refuses {
        steps.push(step("The server does not start on it: take damaged pages from a backup.".to_owned(), None));
    } else if restored > 0 {
        let rule = format!("by its own rule it restores {}", count_of(restored));
        let doubt = match start {
            InnodbStart::MayStop => ", and may stop at another page",
            InnodbStart::Unknown => "; whether it starts is unknown",
            InnodbStart::NothingAgainst | InnodbStart::Refuses => "",
        };
        let words = format!("Start a server on the copy alone: {rule}{doubt}.");
        let verify = "pg_dwbinspect innodb verify COPY".to_owned();
        steps.push(step(format!("{words} Verify the copy after a clean shutdown."), Some(verify)));
    }
    if unproven > 0 {
        let words = format!("{}: an image is there and may be outdated; compare it with a backup.", count_of(unproven));
        steps.push(step(words, None));
    }
    let unknown = of(InnodbVerdict::Unknown);
    if unknown > 0 {
        let words = "whether an image is there is unknown: find the doublewrite buffer (--doublewrite-dir, --my-cnf).";
        steps.push(step(format!("{}: {words}", count_of(unknown)), None));
    }
    if lost > 0 {
        steps.push(step(format!("{}: no whole image; only a backup may have the contents.", count_of(lost)), None));
    }
    steps
}
