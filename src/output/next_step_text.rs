//! What to do next, in words, each step with its risk and the commands that do it.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::escape::printable;
use super::relation_steps::{MAX_RUNS, rebuild, salvage};
use super::shell::quoted;
use super::text::{Layout, wrapped};
use super::words::doubt::named_version;
use crate::analysis::verdict::missing_wal::MissingSegments;
use crate::analysis::verdict::next_step::{ArchivedSegment, NextStep, UnknownVersion};
use crate::analysis::wal::last_checkpoint::LastCheckpoint;
use crate::parsers::control_layout::ControlLayout;
use crate::repair::blocker::Blocker;
use crate::types::{ForkNumber, PageId};

/// Pages that a command names one by one.
const MAX_NAMED: usize = 16;

const MAX_COPIED: usize = 32;

/// What the words speak of.
#[derive(Clone, Copy, Debug)]
pub struct StepContext<'a> {
    /// The data directory as it was named.
    pub data_dir: &'a str,
    /// What was examined with it, as arguments: ` --wal PATH --donor PATH`, or nothing.
    pub evidence: &'a str,
    /// Bytes of a page.
    pub block_size: usize,
    /// What forbids a repair: each has the flag that overrides it, or makes a repair impossible for now.
    pub blockers: &'a [Blocker],
}

impl StepContext<'_> {
    /// The flags without which a repair is refused, as arguments: ` --allow-shut-down`, or nothing.
    #[must_use]
    pub fn flags(&self) -> String {
        let flags: BTreeSet<&str> = self.blockers.iter().filter_map(|blocker| blocker.flag).collect();
        flags.iter().map(|flag| format!(" {flag}")).collect()
    }

    /// Why a repair needs those flags, or cannot be carried out for now; empty when nothing forbids it.
    pub(crate) fn repair_words(&self) -> String {
        let word = |blocker: &Blocker| match blocker.flag {
            Some(flag) => format!(" A repair needs {flag}, since {}; {}.", blocker.what, blocker.advice),
            None => format!(" For now a repair is refused: {}; {}.", blocker.what, blocker.advice),
        };
        self.blockers.iter().map(word).collect()
    }

    /// No flag lets a repair write.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.blockers.iter().any(|blocker| blocker.flag.is_none())
    }
}

/// One step: sentences, and commands that belong to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// What and why.
    pub sentence: String,
    /// What it is about, one by one.
    pub items: Vec<String>,
    /// Lines to be copied, each whole.
    pub commands: Vec<String>,
}

impl Words {
    pub(super) fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), items: Vec::new(), commands: Vec::new() }
    }

    fn with(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    /// The command that shows what a repair does, if it is to be shown, and the one that carries it out, where it can be.
    fn with_repair(mut self, arguments: &str, is_shown: bool, context: StepContext<'_>) -> Self {
        let begin = format!("pg_dwbinspect repair {arguments}{}", context.flags());
        let why = context.repair_words();
        if !why.is_empty() {
            let sentence = self.sentence.trim_end_matches(':');
            self.sentence = format!("{}.{why}", sentence.trim_end_matches('.'));
        }
        if is_shown || context.is_refused() {
            self.commands.push(begin.clone());
        }
        if !context.is_refused() {
            self.commands.push(format!("{begin} --apply"));
        }
        self
    }
}

/// The command that starts the server.
pub(crate) fn start_command(data_dir: &str) -> String {
    format!("pg_ctl start -D {}", quoted(data_dir))
}

/// Steps one after the other, numbered where there are several. Commands stand on lines of their own and are never broken.
pub(crate) fn write_steps(
    out: &mut dyn Write,
    layout: Layout,
    steps: &[NextStep],
    context: StepContext<'_>,
) -> io::Result<()> {
    writeln!(out, "\n{}", layout.paint.heading("What to do"))?;
    for (index, step) in steps.iter().enumerate() {
        let words = words_of(step, context);
        let lead = if steps.len() > 1 { format!("  {}. ", index + 1) } else { "  ".to_owned() };
        wrapped(out, layout, &lead, lead.len(), &printable(&words.sentence))?;
        for item in &words.items {
            wrapped(out, layout, "     - ", 7, &printable(item))?;
        }
        for command in &words.commands {
            writeln!(out, "       {}", printable(command))?;
        }
    }
    Ok(())
}

/// The same as one sentence, for a line of a screen.
pub(crate) fn steps_sentence(steps: &[NextStep], context: StepContext<'_>) -> String {
    let one = |step: &NextStep| {
        let Words { sentence, items, commands } = words_of(step, context);
        let sentence = sentence.trim_end_matches(['.', ':']);
        let rest: Vec<String> = items.into_iter().take(MAX_RUNS).chain(commands.into_iter().take(1)).collect();
        if rest.is_empty() { sentence.to_owned() } else { format!("{sentence}: {}", rest.join(", ")) }
    };
    steps.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Steps for programs: a stable word beside what people read.
pub(crate) fn steps_value(steps: &[NextStep], context: StepContext<'_>) -> Value {
    let one = |step: &NextStep| {
        let Words { sentence, items, commands } = words_of(step, context);
        json!({"step": step.code(), "sentence": sentence, "relations": items, "commands": commands})
    };
    steps.iter().map(one).collect()
}

fn count(pages: usize) -> String {
    if pages == 1 { "1 page".to_owned() } else { format!("{pages} pages") }
}

/// Adds the command that copies segments into `pg_wal`, where that is all they need, and the one that checks again. `dir`: the
/// arguments of a check.
fn with_copies(words: Words, files: Option<Vec<String>>, dir: &str, context: StepContext<'_>) -> Words {
    let words = match files {
        Some(files) => {
            words.with(format!("cp -p {} {}", files.join(" "), quoted(&format!("{}/pg_wal/", context.data_dir))))
        }
        None => words,
    };
    words.with(format!("pg_dwbinspect check {dir}"))
}

/// What segments that were found elsewhere are called, the files of those that only need to be copied, and what the others need
/// besides.
fn found_elsewhere(archived: &[ArchivedSegment]) -> (String, Option<Vec<String>>, &'static str) {
    let named = match archived {
        [only] => only.name.clone(),
        [first, .., last] => format!("{} segments, {} to {}", archived.len(), first.name, last.name),
        [] => String::new(),
    };
    let files: Option<Vec<String>> =
        archived.iter().map(|segment| segment.path.as_ref().map(|path| quoted(&path.display().to_string()))).collect();
    let files = files.filter(|files| files.len() <= MAX_COPIED);
    let how = if files.is_some() { "" } else { ", unpacked and each under the name that begins its WAL" };
    (named, files, how)
}

/// What to do with WAL that was found elsewhere.
fn bring_archived(archived: &[ArchivedSegment], dir: &str, context: StepContext<'_>) -> Words {
    let (named, files, how) = found_elsewhere(archived);
    let words = Words::new(format!(
        "What was examined with the directory holds WAL that the start needs and pg_wal lacks, or has damaged: {named}. Copy it into \
         pg_wal (make that directory if it is gone){how}, readable for the owner of the directory, and check again. \
         Whether WAL after it was written and never archived is not known from here: if so, changes are lost, and \
         pages may be newer than all WAL. The check names those that show it.",
    ));
    with_copies(words, files, dir, context)
}

/// What to do about WAL that was written after the end of `pg_wal`.
fn bring_rest(archived: &[ArchivedSegment], missing: &MissingSegments, dir: &str, context: StepContext<'_>) -> Words {
    let mut sentence = "Do not start the server yet: WAL in pg_wal ends too early, or may do so (see the doubts). A start ends replay \
        there, gives up what was committed later, and writes new WAL in its place."
        .to_owned();
    if archived.is_empty() {
        if !missing.is_empty() {
            sentence.push_str(&format!(" Missing: {missing}."));
        }
        sentence.push_str(
            " Look for that WAL where the server archives it, on standbys (their pg_wal) and in other copies of the directory, and \
             name the place:",
        );
        return Words::new(sentence).with(format!("pg_dwbinspect check --wal ARCHIVE {dir}"));
    }
    let (named, files, how) = found_elsewhere(archived);
    sentence.push_str(&format!(
        " What was examined with the directory holds WAL that pg_wal lacks, or has damaged: {named}. Copy it into pg_wal{how}, \
         readable for the owner of the directory, and check again.",
    ));
    if !missing.is_empty() {
        sentence.push_str(&format!(" Still missing: {missing}."));
    }
    with_copies(Words::new(sentence), files, dir, context)
}

/// A step in words.
#[must_use]
pub fn words_of(step: &NextStep, context: StepContext<'_>) -> Words {
    let dir = quoted(context.data_dir) + context.evidence;
    match step {
        NextStep::StopServer => Words::new(
            "Stop the server, or examine a copy or snapshot: while files change, nothing said about them is certain.",
        ),
        NextStep::LookAtProcess { pid } => Words::new(format!(
            "A server does not start while process {pid} lives. Examine it; if no server uses the data directory, the \
             second command removes the stale file:"
        ))
        .with(format!("ps -fp {pid}"))
        .with(format!("rm {}", quoted(&format!("{}/postmaster.pid", context.data_dir)))),
        NextStep::BringFiles => Words::new(
            "Bring back the files and directories that the problems name, as they were at this time: an older map, relation \
             file or pg_xact does not fit, and an older pg_xact takes committed rows away. What is gone for good has to come from a \
             backup with its WAL. Then run this again. Do not start the server before that.",
        )
        .with(format!("pg_dwbinspect check {dir}")),
        NextStep::LookAtProblems => Words::new(
            "No page has to be repaired. Look into the problems that are listed before the server is started.",
        ),
        NextStep::KeepStopped => Words::new(
            "Do not start the server: the problems above say why, and nothing here repairs them. Bring the files that \
             belong together back, or restore a base backup with its WAL.",
        ),
        NextStep::BringControl { is_outdated: true } => Words::new(
            "Do not start the server yet: pg_control is older than the WAL beside it (see the doubts), and a start would pass over that \
             WAL, which loses what was committed there. Bring the pg_control back that belongs to the other files. Do not run \
             pg_resetwal.",
        ),
        NextStep::BringControl { is_outdated: false } => Words::new(
            "The file that says where replay begins, global/pg_control or backup_label, could not be used. If it only \
             cannot be opened, run this again as the owner of the data directory. If it is damaged or gone, bring it \
             back from the latest backup of this cluster. Without it no image can be proven. Do not run pg_resetwal: \
             it gives up all changes that are only in WAL.",
        ),
        NextStep::ResetByWal { last } => reset_by_wal(last),
        NextStep::UseNewerRelease { unknown } => Words::new(newer_release(*unknown)),
        NextStep::UseSameByteOrder => Words::new(
            "pg_control was written by a machine with the other byte order: look at the cluster on such a machine. No server of \
             this one starts with it, and this program cannot read it.",
        ),
        NextStep::BringWal { archived, was_sought } if archived.is_empty() => Words::new(if *was_sought {
            "Put the WAL that the start needs back into pg_wal, readable for the owner of the directory. What was \
             examined with the directory does not hold it either. Another archive that may can be examined first:"
        } else {
            "Put the WAL that the start needs back into pg_wal, readable for the owner of the directory. An archive \
             that may hold it can be examined first:"
        })
        .with(format!("pg_dwbinspect check --wal ARCHIVE {dir}")),
        NextStep::BringWal { archived, .. } => bring_archived(archived, &dir, context),
        NextStep::BringRestOfWal { archived, missing } => bring_rest(archived, missing, &dir, context),
        NextStep::ResetPastPages { next_file } => reset_past_pages(next_file),
        NextStep::CompleteBackup => Words::new(
            "Give recovery the rest of the WAL: recovery.signal with a restore_command, or the missing segments in \
             pg_wal. If this is an incremental backup, run pg_combinebackup first.",
        ),
        NextStep::MakeStandIns { pages } => Words::new(format!(
            "Do not start the server yet: replay needs {} to be there; the commands under \"Pages that replay needs\" \
             create them.",
            if *pages == 1 { "an empty page".to_owned() } else { format!("{pages} empty pages") }
        )),
        NextStep::Repair { pages } => Words::new(format!(
            "Do not start the server yet: {} can be put back, which loses nothing. This shows the plan; with --apply it \
             is carried out:",
            count(*pages)
        ))
        .with_repair(&dir, true, context),
        NextStep::RebuildPages { pages } => {
            Words::new(format!(
                "Do not start the server yet: {} can be rebuilt from older copies and WAL, which loses nothing. It takes the \
                 server program of this major, which replays in a temporary directory of its own. This shows the \
                 plan; with --apply it is carried out:",
                count(*pages)
            ))
            .with_repair(&format!("{dir} --rebuild"), true, context)
        }
        NextStep::RebuildAgain { pages } => Words::new(format!(
            "Do not start the server yet, and give up no page: {} could be rebuilt from older copies and WAL, which loses \
             nothing, but the replay did not take place. The finding above says why. Install the server program of this \
             major or name its directory (--pg-bin DIR), or name a directory for the sandbox (--sandbox DIR), as the \
             finding demands, and run this again with it:",
            count(*pages)
        ))
        .with(format!("pg_dwbinspect check {dir}")),
        NextStep::LookForSegments { pages, segments } => Words::new(format!(
            "Look for WAL that is missing: with it {} could be rebuilt. Missing: {segments}",
            count(*pages)
        ))
        .with(format!("pg_dwbinspect check --wal ARCHIVE {dir}")),
        NextStep::Decide { pages } => Words::new(format!(
            "Decide about {}: there is an image, but a part of its proof is missing. The first command shows what is missing, \
             page by page; the others put the images back (--allow-unproven). Work on a copy with archiving off:",
            count(pages.len())
        ))
        .with(format!("pg_dwbinspect check --explain {dir}"))
        .with_repair(&format!("{dir} --allow-unproven {}", names_of(pages)), true, context),
        NextStep::RebuildDoubtful { pages } => Words::new(format!(
            "Do not start the server yet: {} can be rebuilt from older copies and WAL, but a doubt stays (see the doubts). \
             Work on a copy with archiving off, and compare the rows afterwards. This shows the plan; with --apply it is carried out:",
            count(pages.len())
        ))
        .with_repair(&format!("{dir} --rebuild --allow-unproven {}", names_of(pages)), true, context),
        NextStep::ResetAfterShutdown => Words::new(
            "If that WAL is gone for good: the cluster was shut down cleanly and no page is newer, so no change is lost with it. \
             Standbys and archives need a new base backup after this. On a copy, as its owner:",
        )
        .with("pg_resetwal -D COPY"),
        NextStep::LookIntoArchive { pages } => Words::new(format!(
            "Look for images of {} in archived WAL, and for older copies of the cluster: base backups, snapshots, stopped \
             standbys. With all WAL since then a page can be put back or rebuilt without loss.",
            count(*pages)
        ))
        .with(format!("pg_dwbinspect check --wal ARCHIVE --donor BACKUP {dir}")),
        NextStep::GetPast { relations } => get_past(relations),
        NextStep::CopyFirst => {
            Words::new("Make a copy of the data directory before the server is started: replay may stop half way.")
        }
        NextStep::Rebuild { kind, relations } => rebuild(*kind, relations, context),
        NextStep::Salvage { kind, relations } => salvage(*kind, relations, context),
        NextStep::BlankMapsOfReplay { pages } => Words::new(format!(
            "Do not start the server yet: replay stops at {} of visibility maps. Overwrite with zeros what has no image; \
             that costs no row (VACUUM fills the maps again):",
            count(*pages)
        ))
        .with_repair(&format!("{dir} --blank-maps"), false, context),
        NextStep::BlankMaps { pages } => Words::new(format!(
            "So that base backups work, blank {} of maps before the server is started; this loses nothing (or start \
             it, VACUUM the tables, then CHECKPOINT):",
            count(*pages)
        ))
        .with_repair(&format!("{dir} --blank-maps"), false, context),
        NextStep::RunAsOwner { files } => Words::new(format!(
            "Run this as the owner of the data directory: the system does not let this user open {} (see \"Not examined\"), \
             which may change every answer. What the owner may not open either is closed to the server as well: make it \
             readable for the owner. Decide and repair nothing before that.",
            if *files == 1 { "1 file".to_owned() } else { format!("{files} files") }
        ))
        .with(format!("sudo -u OWNER pg_dwbinspect check {dir}")),
        NextStep::CheckAll => Words::new(
            "Nothing that has to be repaired was found on the pages that were examined. Before the server is started, \
             examine all of them:",
        )
        .with(format!("pg_dwbinspect check {dir}")),
        NextStep::Start { is_proven: true } => {
            Words::new("Nothing has to be repaired; the server can be started:").with(start_command(context.data_dir))
        }
        NextStep::Start { is_proven: false } => Words::new(
            "Nothing was found that has to be repaired. That does not prove that all is well: read the doubts, \
             where there are any; in a cluster without data checksums, a torn page whose halves fit together goes unnoticed. Copy the data directory \
             before the server is started, and compare what matters with a backup or a standby.",
        )
        .with(start_command(context.data_dir)),
    }
}

/// How a cluster is emptied whose pages are newer than its WAL.
fn reset_past_pages(next_file: &str) -> Words {
    Words::new(
        "If that WAL is gone for good, what was committed in it is lost, and pages of both times stay side by side. On a copy, with \
         archiving off: start and stop the server, put the position of WAL past every page, and dump. Compare the dump with what matters, and \
         load it into a new cluster:",
    )
    .with("pg_ctl start -w -D COPY -o '-c archive_mode=off'")
    .with("pg_ctl stop -m fast -D COPY")
    .with(format!("pg_resetwal -l {next_file} -D COPY"))
    .with("pg_ctl start -w -D COPY -o '-c archive_mode=off'")
    .with("pg_dumpall -f dump.sql")
}

/// How `pg_control` is made anew, and what that costs.
fn reset_by_wal(last: &LastCheckpoint) -> Words {
    let LastCheckpoint { record_lsn, is_clean, checkpoint, .. } = last;
    let costs = if *is_clean {
        "It is that of a shutdown and nothing follows it: no change is lost with pg_control."
    } else {
        "The cluster was not shut down after it: what WAL has from the redo point on is given up, and pages of both times stay side \
         by side. Dump the tables, compare what matters, and restore the dump into a new cluster."
    };
    Words::new(format!(
        "If pg_control is gone for good: the last checkpoint in pg_wal is at {record_lsn}, with redo point {}. {costs} Data checksums \
         are off after this, and standbys and archives need a new base backup. Run it on a copy with archiving off, as its owner:",
        checkpoint.redo_lsn
    ))
    .with("touch COPY/global/pg_control")
    .with(format!("pg_resetwal -D COPY {}", last.reset_arguments()))
}

/// What to do about a file in a version that is not known.
fn newer_release(unknown: UnknownVersion) -> String {
    match unknown {
        UnknownVersion::Control { version, .. } if ControlLayout::meaning(version).is_some() => format!(
            "No release of this program reads version {}: leave the file as it is, and use the server that wrote it.",
            named_version(version)
        ),
        UnknownVersion::Control { version, is_signed: true } => format!(
            "Use a newer release of this program: it does not know version {version} of pg_control. The file is whole (its CRC \
             is right): leave it as it is, and do not run pg_resetwal."
        ),
        UnknownVersion::Control { version, is_signed: false } => format!(
            "Use a newer release of this program: it does not know version {version} of pg_control, and cannot say whether the \
             file is whole. Probably it is only newer than this program: leave it as it is, and do not run pg_resetwal."
        ),
        UnknownVersion::Wal { magic } if magic.is_unreleased() => format!(
            "No release of this program reads WAL that replay needs ({magic}): leave it where it is, and use the server that wrote it."
        ),
        UnknownVersion::Wal { magic } => format!(
            "Use a newer release of this program: WAL that replay needs is in pg_wal, of a version that it does not know \
             ({magic}). Leave that WAL where it is; a server of the version that wrote it may well replay it."
        ),
    }
}

/// Pages as `repair` takes them; of many all.
fn names_of(pages: &[PageId]) -> String {
    if pages.len() > MAX_NAMED {
        return "all".to_owned();
    }
    let fork = |page: &PageId| if page.fork == ForkNumber::Main { String::new() } else { format!("_{}", page.fork) };
    let one = |page: &PageId| format!("{}{}:{}", page.rel, fork(page), page.block);
    pages.iter().map(one).collect::<Vec<_>>().join(",")
}

/// How a server is started although replay cannot read a page.
fn get_past(relations: &[String]) -> Words {
    Words::new(format!(
        "Replay stops at pages of {}, and there is no image to replace them. Restoring a base backup with its WAL loses \
         nothing: prefer that. Otherwise copy the data directory and start the copy with archiving off: first so that pages whose \
         checksum alone is wrong are read as they are. Where that does not help, every page that cannot be read is treated as empty: \
         everything on it is lost, including what replay would have changed.",
        relations.join(", ")
    ))
    .with("pg_ctl start -D COPY -o '-c archive_mode=off -c ignore_checksum_failure=on'")
    .with("pg_ctl start -D COPY -o '-c archive_mode=off -c zero_damaged_pages=on'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::verdict::next_step::{Affected, NamedRelation, Owner, Rebuilt};
    use crate::output::relation_steps::most_items;

    fn index(is_catalog: bool) -> NextStep {
        let affected = Affected {
            subject: NamedRelation {
                owner: Owner::Index { method: Some("btree"), table: Some("my app.public.orders".to_owned()) },
                name: "my app.public.orders_pkey".to_owned(),
                database: Some("my app".to_owned()),
                sql_name: Some("public.\"Orders_pkey\"".to_owned()),
                is_catalog,
            },
            blocks: vec![(3, 3), (7, 9)],
            stops_start: false,
        };
        let kind = if is_catalog { Rebuilt::SystemIndexes } else { Rebuilt::Indexes };
        NextStep::Rebuild { kind, relations: vec![affected] }
    }

    const CONTEXT: StepContext<'_> =
        StepContext { data_dir: "/my data", evidence: "", block_size: 8192, blockers: &[] };

    #[test]
    fn commands_are_whole_words_of_a_shell() {
        let user = words_of(&index(false), CONTEXT);
        assert_eq!(user.commands, [r#"psql -d 'my app' -c 'REINDEX INDEX public."Orders_pkey"'"#]);
        assert_eq!(user.items, ["my app.public.orders_pkey (blocks 3, 7-9), a btree index of my app.public.orders"]);
        let system = words_of(&index(true), CONTEXT);
        let expected = r#"echo 'REINDEX INDEX public."Orders_pkey"' | postgres --single -P -D '/my data' 'my app'"#;
        assert_eq!(system.commands, [expected]);
        assert_eq!(start_command("/my data"), "pg_ctl start -D '/my data'");
    }

    #[test]
    fn an_item_takes_28_bytes_at_least() {
        // MaxHeapTuplesPerPage of servers with pages of 8 and 32 kB.
        assert_eq!((most_items(8192), most_items(32_768)), (291, 1169));
    }

    #[test]
    fn steps_are_numbered_and_commands_not_broken() {
        let mut out = Vec::new();
        let paint = crate::output::colour::Paint::new(false);
        write_steps(&mut out, Layout { width: 40, paint }, &[index(false), index(true)], CONTEXT).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("\n  1. These are indexes") && text.contains("\n  2. These are indexes of system"),
            "{text}"
        );
        assert!(text.lines().any(|line| line.len() > 60 && line.contains("--single")), "{text}");
        assert!(text.lines().filter(|line| !line.starts_with("       ")).all(|line| line.len() <= 60), "{text}");
    }
}
