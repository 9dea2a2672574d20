//! Next steps in words, each with its risk and its commands.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::escape::{printable, quoted};
use super::figures::many;
use super::last_resorts::{copy_first, get_past, newer_release, reset_by_wal, reset_past_pages, run_as_owner};
use super::sql::{rebuild, salvage};
use super::text::{Layout, wrapped};
use crate::analysis::start::missing_wal::MissingSegments;
use crate::analysis::verdict::next_step::{ArchivedSegment, NextStep, Rebuilt};
use crate::cluster::data_dir::DirectoryLink;
use crate::repair::blocker::{Blocker, Overrides};
use crate::types::{ForkNumber, PageId};

/// Pages that a command names one by one.
const MAX_NAMED: usize = 16;

const MAX_COPIED: usize = 32;

/// What commands call the copy of the data directory.
pub(super) const COPY: &str = "COPY";

/// Relations and commands of one step that text lists.
const MAX_LISTED: usize = 6;

/// Context of the words.
#[derive(Clone, Copy, Debug)]
pub struct StepContext<'a> {
    /// The data directory as it was named.
    pub data_dir: &'a str,
    /// Additional evidence, as arguments: ` --wal PATH --donor PATH`, or nothing.
    pub evidence: &'a str,
    /// Bytes of a page.
    pub block_size: usize,
    /// Blockers of a repair: each has a flag that overrides it, or makes a repair impossible for now.
    pub blockers: &'a [Blocker],
    /// Links in the data directory; `None` where they could not be read.
    pub links: Option<&'a [DirectoryLink]>,
    /// Flags that were given: their blockers are known, and not told again.
    pub allowed: Overrides,
}

impl StepContext<'_> {
    /// The flags without which a repair is refused, as arguments: ` --allow-shut-down`, or nothing.
    pub fn flags(&self) -> String {
        flags_of(self.blockers.iter())
    }

    /// Reason why a repair needs flags that were not given or is refused for now; empty without blockers. A flag of which
    /// another step gives the reason, `known`, has none here.
    pub(crate) fn repair_words(&self, known: Option<&str>) -> String {
        let word = |blocker: &Blocker| match blocker.flag {
            _ if blocker.run_as.is_some() => "Run it as the owner of the data directory.".to_owned(),
            Some(flag) if known == Some(flag) => format!("Repair needs {flag}."),
            Some(flag) => format!("Repair needs {flag}: {}; {}.", blocker.what, blocker.advice),
            None => format!("Repair is refused: {}; {}.", blocker.what, blocker.advice),
        };
        let is_allowed = |flag| self.allowed.with_flag(flag) == self.allowed;
        let left = self.blockers.iter().filter(|blocker| !blocker.flag.is_some_and(is_allowed));
        let mut words: Vec<String> = left.map(word).collect();
        words.dedup();
        words.join(" ")
    }

    /// No flag lets a repair write.
    pub fn is_refused(&self) -> bool {
        self.blockers.iter().any(|blocker| blocker.flag.is_none())
    }
}

/// One step: sentences, and commands that belong to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The action, with its consequence for data.
    pub what: String,
    /// The reason, and conditions of the action; may be empty.
    pub why: String,
    /// Its objects, one by one.
    pub items: Vec<String>,
    /// Lines to be copied, each whole.
    pub commands: Vec<String>,
    /// A repair is among the commands.
    is_repair: bool,
}

impl Words {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    pub(super) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Action and reason.
    pub fn sentence(&self) -> String {
        format!("{} {}", self.what, self.why).trim_end().to_owned()
    }

    pub(super) fn with(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    /// Adds the command that shows the plan, and the one that applies it, unless it is refused.
    fn with_repair(mut self, arguments: &str, context: StepContext<'_>) -> Self {
        self.is_repair = true;
        let owner = context.blockers.iter().find_map(|blocker| blocker.run_as.as_deref());
        let sudo = owner.map_or_else(String::new, |owner| format!("sudo -u {owner} "));
        let flags = flags_of(context.blockers.iter().filter(|blocker| blocker.run_as.is_none()));
        let begin = format!("{sudo}pg_dwbinspect repair {arguments}{flags}");
        self.commands.push(begin.clone());
        if !context.is_refused() {
            self.commands.push(format!("{begin} --apply"));
        }
        self
    }
}

/// The flags that override these blockers, each once, as arguments.
fn flags_of<'a>(blockers: impl Iterator<Item = &'a Blocker>) -> String {
    let flags: BTreeSet<&str> = blockers.filter_map(|blocker| blocker.flag).collect();
    flags.iter().map(|flag| format!(" {flag}")).collect()
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
    let all = all_words(steps, context);
    let mut written = BTreeSet::new();
    for (index, words) in all.iter().enumerate() {
        let lead = if steps.len() > 1 { format!("  {}. ", index + 1) } else { "  ".to_owned() };
        wrapped(out, layout, &lead, lead.len(), &printable(&words.sentence()))?;
        // Commands of indexes and views name them, and the table below has their blocks.
        let has_command_each = matches!(steps.get(index), Some(NextStep::Rebuild { .. }));
        let items = if has_command_each { &[][..] } else { &words.items };
        for item in items.iter().take(MAX_LISTED) {
            wrapped(out, layout, "     - ", 7, &printable(item))?;
        }
        // All relations are salvaged by one command.
        let is_salvage = matches!(steps.get(index), Some(NextStep::Salvage { .. }));
        let is_new = |command: &&String| !is_salvage || written.insert((*command).clone());
        let commands: Vec<&String> = words.commands.iter().filter(is_new).collect();
        for command in commands.iter().take(MAX_LISTED) {
            writeln!(out, "       {}", printable(command))?;
        }
        let left = items.len().max(commands.len()).saturating_sub(MAX_LISTED);
        if left > 0 {
            writeln!(out, "       and {left} more (--format json lists them all)")?;
        }
    }
    Ok(())
}

/// Steps for programs: facts with stable codes, and their words.
pub(crate) fn steps_value(steps: &[NextStep], context: StepContext<'_>) -> Value {
    let one = |(step, words): (&NextStep, Words)| {
        let sentence = words.sentence();
        let Words { what, why, items, commands, .. } = words;
        let mut value = json!({"step": step.code(), "risk": <&str>::from(step.risk()), "what": what, "why": why,
            "sentence": sentence, "relations": items, "commands": commands});
        if let Some(pages) = step.pages() {
            value["pages"] = json!(pages);
        }
        value
    };
    steps.iter().zip(all_words(steps, context)).map(one).collect()
}

/// All that these steps write is written in a copy: one of them may lose what the original still holds.
fn is_in_copy(steps: &[NextStep]) -> bool {
    steps.contains(&NextStep::CopyFirst) && steps.iter().any(NextStep::is_for_copy)
}

/// The directory that these steps write into.
pub(crate) fn work_dir<'a>(steps: &[NextStep], data_dir: &'a str) -> &'a str {
    if is_in_copy(steps) { COPY } else { data_dir }
}

/// All steps in words. Blockers of a repair are in the first step with one.
pub(crate) fn all_words(steps: &[NextStep], context: StepContext<'_>) -> Vec<Words> {
    let is_standby = steps.contains(&NextStep::CopyPrimary);
    let mut blockers = context.repair_words(is_standby.then_some("--allow-standby"));
    let starts = |step: &NextStep| matches!(step, NextStep::CheckAgain | NextStep::GetPast { .. });
    let start = steps.iter().rposition(starts).filter(|_| steps.len() > 1);
    let is_in_copy = is_in_copy(steps);
    let may_remain = steps.iter().any(NextStep::needs_server);
    let one = |step: &NextStep| {
        let is_single_user = matches!(step, NextStep::Rebuild { kind: Rebuilt::SystemIndexes, .. });
        let data_dir = if is_in_copy && step.follows_copy() { COPY } else { context.data_dir };
        let mut words = words_of(step, StepContext { data_dir, ..context });
        match step {
            NextStep::CopyFirst if is_in_copy => words.why.push_str(" All steps that write are done in the copy."),
            NextStep::CheckAgain if may_remain => {
                let copy = if is_in_copy { "the copy" } else { "a copy" };
                words.why = format!("With WILL START, DAMAGE REMAINS, start {copy} for the steps below.");
            }
            NextStep::Rebuild { .. } if is_single_user && is_in_copy => {
                words.why.push_str(&format!(" Stop its server first: pg_ctl stop -D {COPY}."));
            }
            _ => {}
        }
        if words.is_repair {
            words.why = format!("{} {}", std::mem::take(&mut blockers), words.why).trim().to_owned();
        }
        let program = if is_single_user { "it" } else { "psql" };
        if let Some(start) = start.filter(|_| step.needs_server()) {
            words.why =
                format!("{} Run {program} only after step {}.", words.why, start.saturating_add(1)).trim().to_owned();
        }
        words
    };
    steps.iter().map(one).collect()
}

fn count(pages: usize) -> String {
    many(pages as u64, "page")
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

/// Names of segments found elsewhere, the files of those that only need to be copied, and the preparation of the
/// others.
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

/// The missing segments in a sentence of their own; empty where none is known.
fn missing_words(missing: &MissingSegments) -> String {
    if missing.is_empty() { String::new() } else { format!(" Missing: {missing}.") }
}

/// WAL that recovery begins with, and that was found nowhere.
fn bring_wal(missing: &MissingSegments, was_sought: bool) -> Words {
    let search = if was_sought {
        "None of the WAL sources given has it. To search another archive first:"
    } else {
        "To search an archive first:"
    };
    Words::new(format!(
        "Copy the WAL that startup needs into pg_wal, with all segments after it.{}",
        missing_words(missing)
    ))
    .because(format!("The owner of the directory must be able to read it. {search}"))
}

/// WAL that was found elsewhere.
fn bring_archived(
    archived: &[ArchivedSegment],
    missing: &MissingSegments,
    dir: &str,
    context: StepContext<'_>,
) -> Words {
    let (named, files, how) = found_elsewhere(archived);
    let missing = missing_words(missing);
    let words = Words::new(format!(
        "Copy {named} into pg_wal (create that directory if it is missing){how}, and check again.{missing}"
    ))
    .because(
        "Startup needs this WAL, which was found elsewhere; pg_wal lacks it or has it damaged. The owner of the directory \
         must be able to read it. WAL written after it may never have been archived. If so, changes are lost, and the \
         check lists pages that are newer than all WAL.",
    );
    with_copies(words, files, dir, context)
}

/// WAL that was written after the end of `pg_wal`.
fn bring_rest(archived: &[ArchivedSegment], missing: &MissingSegments, dir: &str, context: StepContext<'_>) -> Words {
    let why = "WAL in pg_wal ends too early, or may do so (see the doubts). Recovery would end there, discard everything \
        committed later, and write new WAL over it.";
    if archived.is_empty() {
        return Words::new(format!(
            "Do not start the server yet. Find the missing WAL in the archive, on standbys (their pg_wal) or in other \
             copies.{}",
            missing_words(missing)
        ))
        .because(why)
        .with(format!("pg_dwbinspect check --wal ARCHIVE {dir}"));
    }
    let (named, files, how) = found_elsewhere(archived);
    let mut what = format!("Do not start the server yet. Copy {named} into pg_wal{how}, and check again.");
    if !missing.is_empty() {
        what.push_str(&format!(" Still missing: {missing}."));
    }
    let why = format!("{why} This WAL was found elsewhere. The owner of the directory must be able to read it.");
    with_copies(Words::new(what).because(why), files, dir, context)
}

/// A step in words.
pub fn words_of(step: &NextStep, context: StepContext<'_>) -> Words {
    let dir = quoted(context.data_dir) + context.evidence;
    match step {
        NextStep::StopServer => Words::new(
            "Stop the server, or check a copy or snapshot.",
        )
        .because("While the server runs, every answer may be outdated."),
        NextStep::LookAtProcess { pid } => Words::new(format!(
            "Check what process {pid} is. If no server uses this data directory, remove the stale postmaster.pid:"
        ))
        .with(format!("ps -fp {pid}"))
        .with(format!("rm {}", quoted(&format!("{}/postmaster.pid", context.data_dir)))),
        NextStep::BringFiles => Words::new(
            "Restore the files and directories under Problems, as they were at this time, then check again. Do not start \
             the server before that.",
        )
        .because(
            "Do not use an older map, relation file or pg_xact: it does not fit, and an older pg_xact makes committed rows \
             disappear. If no such copy exists, recover the data from a backup and its WAL.",
        )
        .with(format!("pg_dwbinspect check {dir}")),
        NextStep::LookAtProblems => {
            Words::new("Resolve the listed problems, each as it says; no command here repairs them.")
                .because("If that needs a running server, copy the data directory and start the copy only.")
        }
        NextStep::KeepStopped => Words::new(
            "Do not start the server. Restore the files that belong together, or a base backup with its WAL.",
        )
        .because("No command here repairs the listed problems."),
        NextStep::BringControl { is_outdated: true } => Words::new(
            "Do not start the server and do not run pg_resetwal. Restore the pg_control that belongs to these files.",
        )
        .because(
            "pg_control is older than the WAL in pg_wal (see the doubts). Starting now discards everything committed in \
             that WAL.",
        ),
        NextStep::BringControl { is_outdated: false } => Words::new(
            "Do not run pg_resetwal: it discards every change that is only in WAL. Restore global/pg_control or \
             backup_label from a copy taken together with these files.",
        )
        .because(
            "The file is unusable, so the redo point is unknown and no image can be proven. An older pg_control is safe \
             only if pg_wal has all WAL since its redo point; otherwise restore the whole backup with its WAL.",
        ),
        NextStep::ResetByWal { last } => reset_by_wal(last),
        NextStep::UseNewerRelease { unknown } => Words::new(newer_release(*unknown)),
        NextStep::UseSameByteOrder => Words::new(
            "Check this cluster on a machine with the other byte order.",
        )
        .because(
            "pg_control was written there. No server of this machine starts with it, and this program cannot read it.",
        ),
        NextStep::BringWal { archived, was_sought, missing } if archived.is_empty() => {
            bring_wal(missing, *was_sought).with(format!("pg_dwbinspect check --wal ARCHIVE {dir}"))
        }
        NextStep::BringWal { archived, missing, .. } => bring_archived(archived, missing, &dir, context),
        NextStep::BringRestOfWal { archived, missing } => bring_rest(archived, missing, &dir, context),
        NextStep::ResetPastPages { next_file } => reset_past_pages(next_file),
        NextStep::CompleteBackup => Words::new(
            "Complete the backup: create recovery.signal and set restore_command, or copy the missing segments into pg_wal. For an \
             incremental backup, run pg_combinebackup first.",
        ),
        NextStep::CopyPrimary => Words::new(
            "Prefer a new copy to a repair: this is a standby, or recovery from an archive was interrupted.",
        )
        .because(
            "Copy the primary, or restore the base backup again. Leave signal files in place: without them the server \
             starts as a separate primary.",
        )
        .with("pg_basebackup -h PRIMARY -D NEW_DIR -R"),
        NextStep::CheckAgain => Words::new("Check again. Start the server only if the answer is WILL START.")
            .with(format!("pg_dwbinspect check {dir}")),
        NextStep::MakeStandIns { pages } => Words::new(format!(
            "Do not start the server yet. Create {} that recovery expects.",
            if *pages == 1 { "the missing page".to_owned() } else { format!("the {pages} missing pages") }
        ))
        .because("The commands are under \"Pages that recovery needs\"."),
        NextStep::Repair { pages, is_precaution: true } => {
            Words::new(format!("Restore {} first; no data is lost.", count(*pages)))
                .because("Startup would restore them, too, without an undo. Show the plan, then apply it:")
                .with_repair(&dir, context)
        }
        NextStep::Repair { pages, .. } => {
            Words::new(format!("Do not start the server yet. Restore {} first; no data is lost.", count(*pages)))
                .because("Show the plan, then apply it (a journal is kept for undo):")
                .with_repair(&dir, context)
        }
        NextStep::RebuildPages { pages } => Words::new(format!(
            "Do not start the server yet. Rebuild {} from older copies and WAL; no data is lost.",
            count(*pages)
        ))
        .because(
            "This runs the server binary of this PostgreSQL version in a temporary sandbox. Show the plan, then apply it \
             (a journal is kept for undo):",
        )
        .with_repair(&format!("{dir} --rebuild"), context),
        NextStep::RebuildAgain { pages } => Words::new(format!(
            "Do not start the server yet. Install the PostgreSQL server of this version, or pass --pg-bin DIR or \
             --sandbox DIR, then check again: {} can probably be rebuilt without data loss.",
            count(*pages)
        ))
        .because("The sandbox could not run (see the problems).")
        .with(format!("pg_dwbinspect check {dir}")),
        NextStep::LookForSegments { pages, segments } => {
            Words::new(format!("Find the missing WAL; with it {} can be rebuilt. Missing: {segments}", count(*pages)))
                .with(format!("pg_dwbinspect check --wal ARCHIVE {dir}"))
        }
        NextStep::Decide { pages } => Words::new(format!(
            "Decide about {}: an image exists, but the proof has a gap. Restore images on the copy only.",
            count(pages.len())
        ))
        .because("The first command shows the gaps, page by page. The others use --allow-unproven to restore the images in COPY:")
        .with(format!("pg_dwbinspect check --explain {dir}"))
        .with_repair(&format!("COPY{} --allow-unproven {}", context.evidence, names_of(pages)), context),
        NextStep::RebuildDoubtful { pages } => Words::new(format!(
            "Do not start the server yet. Rebuild {} in the copy from older copies and WAL, and compare the rows afterwards.",
            count(pages.len())
        ))
        .because("A doubt remains (see the doubts), so the commands have --allow-unproven. Show the plan, then apply it:")
        .with_repair(
            &format!("COPY{} --rebuild --allow-unproven {}", context.evidence, names_of(pages)),
            context,
        ),
        NextStep::ResetAfterShutdown => Words::new(
            "If that WAL no longer exists, run pg_resetwal on the copy, as its owner; no change is lost.",
        )
        .because(
            "The cluster was shut down cleanly, and no page is newer. Standbys and archives need a new base backup \
             afterwards.",
        )
        .with("pg_resetwal -D COPY"),
        NextStep::LookIntoArchive { pages } => Words::new(format!(
            "Find an older copy (base backup, snapshot, stopped standby) and all WAL since then. With both, {} can be \
             restored or rebuilt without data loss.",
            count(*pages)
        ))
        .with(format!("pg_dwbinspect check --wal ARCHIVE --donor BACKUP {dir}")),
        NextStep::GetPast { relations } => get_past(relations),
        NextStep::CopyFirst => copy_first(context),
        NextStep::Rebuild { kind, relations } => rebuild(*kind, relations, context),
        NextStep::Salvage { kind, relations } => salvage(*kind, relations, context),
        NextStep::BlankMapsOfReplay { pages } => Words::new(format!(
            "Do not start the server yet. Zero {} of visibility maps; no row is lost (VACUUM fills the maps again).",
            count(*pages)
        ))
        .because("Recovery stops at them, and they have no image:")
        .with_repair(&format!("{dir} --blank-maps"), context),
        NextStep::BlankMaps { pages, has_checksums } => Words::new(format!(
            "Zero {} of free space or visibility maps{}; no data is lost.",
            count(*pages),
            if *has_checksums { " so that base backups work" } else { "" }
        ))
        .because("Or start the server, VACUUM the tables, then CHECKPOINT.")
        .with_repair(&format!("{dir} --blank-maps"), context),
        NextStep::RunAsOwner { files, owner } => run_as_owner(*files, owner.as_deref(), &dir),
        NextStep::CheckAll => {
            Words::new("No page that was checked needs repair. Check all pages before you start the server:")
                .with(format!("pg_dwbinspect check {dir}"))
        }
        NextStep::Start { is_proven: true, .. } => {
            Words::new("Nothing to repair. Start the server:").with(start_command(context.data_dir))
        }
        NextStep::Start { in_copy, has_checksums, .. } => Words::new(format!(
            "Start the {}, and compare important data with a backup or standby.",
            if *in_copy { "copy" } else { "server" }
        ))
        .because(match (in_copy, has_checksums) {
            (true, true) => "No damage was found, but not everything could be checked.",
            (true, false) => {
                "No damage was found, but not everything could be checked, and without data checksums some torn pages \
                 are invisible."
            }
            (false, _) => "No damage was found, but without data checksums some torn pages are invisible.",
        })
        .with(start_command(context.data_dir)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::verdict::next_step::{Affected, NamedRelation, Owner, Rebuilt};

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

    const CONTEXT: StepContext<'_> = StepContext {
        data_dir: "/my data",
        evidence: "",
        block_size: 8192,
        blockers: &[],
        links: Some(&[]),
        allowed: Overrides { shut_down: false, standby: false, other_user: false, moved: false },
    };

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
    fn copy_of_unread_links_says_so_and_commands_name_the_copy() {
        let steps = [NextStep::CopyFirst, NextStep::CheckAgain, NextStep::GetPast { relations: Vec::new() }];
        let words = all_words(&steps, StepContext { links: None, ..CONTEXT });
        assert!(words[0].why.contains("links could not be read"), "{words:?}");
        assert_eq!(words[1].commands, ["pg_dwbinspect check COPY"]);
        assert_eq!(work_dir(&steps, "/my data"), "COPY");
        // Nothing is lost there: the copy is a copy.
        assert_eq!(work_dir(&steps[..2], "/my data"), "/my data");
        let links = [DirectoryLink { path: "pg_tblspc/1 2".into(), target: "/a space".into() }];
        let words = all_words(&steps, StepContext { links: Some(&links), ..CONTEXT });
        let expected = "cp -a '/a space'/. 'COPY.pg_tblspc.1 2' && ln -sfn \"$(realpath 'COPY.pg_tblspc.1 2')\" 'COPY/pg_tblspc/1 2'";
        assert_eq!(words[0].commands, ["cp -a '/my data' COPY", expected]);
    }

    #[test]
    fn steps_are_numbered_and_commands_not_broken() {
        let mut out = Vec::new();
        let paint = crate::output::text::Paint::new(false);
        write_steps(&mut out, Layout { width: 40, paint }, &[index(false), index(true)], CONTEXT).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("\n  1. Rebuild these indexes after")
                && text.contains("\n  2. Rebuild these indexes of system"),
            "{text}"
        );
        assert!(text.lines().any(|line| line.len() > 60 && line.contains("--single")), "{text}");
        assert!(text.lines().filter(|line| !line.starts_with("       ")).all(|line| line.len() <= 60), "{text}");
    }
}
