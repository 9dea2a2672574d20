//! `pg_dwbinspect repair`: put proven images back.
//! Also here: the output of `repair` and `undo`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::PROGRAM;
use super::check::Bars;
use super::undo::{OverrideArgs, ReplayArgs, run_replay};
use crate::analysis::skipped::Coverage;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::outlook::{Outlook, StartConditions};
use crate::cli::context::OutputArgs;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop, UsageError};
use crate::cli::values::PgData;
use crate::cli::work::{DonorArgs, JobsArg, ProgressArg, RebuildArg, ServerArgs};
use crate::inspect::next::{other_problems, step_context, steps_for};
use crate::inspect::page_name::PageName;
use crate::inspect::page_target::RelationChoice;
use crate::inspect::repair::replay::ReplayRequest;
use crate::inspect::repair::{Repair, RepairRequest, Written, apply, propose};
use crate::output::check_text::page_title;
use crate::output::closing::{Headline, begin};
use crate::output::escape::{printable, quoted};
use crate::output::json::{Item, SkippedJson, SummaryJson};
use crate::output::next_step_text;
use crate::output::plan_text::{stays_damaged, write_left, write_plan_text, write_steps};
use crate::output::sink::CsvShape;
use crate::output::start_words::StartWords;
use crate::output::text::{wrapped, write_command, write_fact, write_findings};
use crate::repair::apply::{Applied, Direction, Left, LeftWhy};
use crate::repair::blocker::{Blocker, Overrides};
use crate::repair::journal::Journal;
use crate::repair::plan::{Plan, PlanStep, SourceKind};

/// Source of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SourceChoice {
    /// Those of the double write buffer.
    Dwb,
    /// Full-page images in WAL.
    Wal,
    /// Pages of donors.
    Donor,
    /// Pages that were rebuilt.
    Rebuilt,
}

/// Restore proven images, offline, with a journal and an undo
///
/// Without --apply or --resume no page is written; the plan is shown, page by page. With --apply the old bytes first go
/// into a journal, then each page is overwritten, synced and read back. Only images that `check` calls safe are used
/// unless a flag says otherwise. PAGE is the path of a file below the data directory and a block, as in base/5/1259:0 or
/// base/5/1259_vm:0; numbers (5/1259:0) and names (public.note:0) work too.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct RepairArgs {
    /// Data directory of a stopped server
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    /// Apply the plan
    #[arg(long, conflicts_with = "dry_run")]
    apply: bool,
    /// Show the plan and write no page: the default
    #[arg(short = 'n', long, hide_short_help = true)]
    dry_run: bool,
    /// Save the plan as JSON; with --apply: apply this saved plan, or only the selected part of it
    ///
    /// With --apply the cluster is checked again, and nothing is written if the result differs from the plan. So pass
    /// again the evidence of the plan: --wal, --donor, --rebuild.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Only these pages
    #[arg(long, value_name = "PAGE", help_heading = "Selection", value_delimiter = ',')]
    page: Vec<PageName>,
    /// Only these relations, by name (relation, schema.relation, database.schema.relation) or numbers (REL, DB/REL,
    /// SPC/DB/REL)
    #[arg(long, value_name = "REL", help_heading = "Selection", value_delimiter = ',')]
    relation: Vec<RelationChoice>,
    /// Only from this source
    #[arg(long, value_enum, help_heading = "Selection")]
    source: Option<SourceChoice>,
    /// Also restore unproven images of these pages, or of "all"; changes may be lost
    #[arg(long, value_name = "PAGE|all", help_heading = "Selection", value_delimiter = ',')]
    allow_unproven: Vec<PageName>,
    /// Restore an image of this page, and lose committed changes
    #[arg(long, value_name = "PAGE", help_heading = "Selection", value_delimiter = ',')]
    lose_changes: Vec<PageName>,
    /// Zero damaged pages of visibility and free space maps: the server treats such a page as empty
    #[arg(long, help_heading = "Selection", hide_short_help = true)]
    blank_maps: bool,
    /// New directory for the old bytes [default: pgforensics_undo_TIME_ID next to the data directory]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Finish an interrupted repair; with --page: only these pages of it
    #[arg(long, value_name = "JOURNAL_DIR", conflicts_with_all = ["apply", "dry_run", "plan", "journal", "relation",
        "source", "allow_unproven", "lose_changes", "wal", "donors", "rebuild"])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    replay: ReplayArgs,
    /// More WAL: archive directory, segments, tar archives, patterns; plain or compressed
    #[arg(long, value_name = "PATH")]
    wal: Vec<PathBuf>,
    #[command(flatten)]
    donor: DonorArgs,
    #[command(flatten)]
    rebuild: RebuildArg,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// Print no plan; the exit status is the answer
    #[arg(short, long, hide_short_help = true, conflicts_with_all = ["apply", "resume"])]
    quiet: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  pg_dwbinspect repair DATADIR                     show the plan; no page is written
  pg_dwbinspect repair DATADIR --apply             apply the plan  pg_dwbinspect repair DATADIR --plan plan.json    save the plan; edit it, then apply it with
  pg_dwbinspect repair DATADIR --apply --plan plan.json
  pg_dwbinspect repair DATADIR --rebuild --wal ARCHIVE --donor BACKUP    rebuild pages without an image
  pg_dwbinspect undo DATADIR JOURNAL_DIR           write the old bytes back
  pg_dwbinspect repair DATADIR --resume JOURNAL_DIR    finish an interrupted repair
  pg_dwbinspect repair DATADIR --resume JOURNAL_DIR --skip-changed
";

/// Runs `repair`.
pub(super) fn run(args: &RepairArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    if let Some(journal) = &args.resume {
        return run_replay(&args.resume_request(journal.clone())?, &args.output, out);
    }
    if args.replay.skip_changed || args.replay.allow_old_journal || args.replay.moved {
        return Err(UsageError::NoJournal.into());
    }
    let request = args.request()?;
    let watch = Bars::new(args.progress);
    if args.apply {
        let repair = apply(&request, &watch)?;
        let examined = &repair.examined;
        let answer = examined.answer_without(|page| repair.has_repaired(page));
        let ending = Ending::new(answer, &examined.coverage);
        match &repair.written {
            Some(written) => write_applied(out, &args.output, &repair, written, &ending, request.overrides)?,
            None => write_plan(out, &args.output, (&repair.plan, &request.data_dir), &[], None, None, &ending)?,
        }
        return Ok(ending.outcome);
    }
    let proposal = propose(&request, &watch)?;
    if let Some(file) = &args.plan {
        proposal.save(file)?;
    }
    let ending = Ending::new(proposal.examined.answer(), &proposal.examined.coverage);
    if !args.quiet {
        let (plan, blockers) = (&proposal.plan, &proposal.blockers);
        let apply = args.apply_command(blockers)?;
        let plan = (plan, &*request.data_dir);
        write_plan(out, &args.output, plan, blockers, args.plan.as_deref(), apply.as_deref(), &ending)?;
    }
    Ok(ending.outcome)
}

impl RepairArgs {
    fn request(&self) -> Result<RepairRequest, Stop> {
        Ok(RepairRequest {
            data_dir: self.directory()?,
            wal: self.wal.clone(),
            donors: self.donor.donors.clone(),
            rebuild: self.rebuild.with(&self.server, (false, "--rebuild"))?,
            jobs: self.jobs.count(),
            pages: self.page.clone(),
            relations: self.relation.clone(),
            source: self.source.map(|source| match source {
                SourceChoice::Dwb => SourceKind::Dwb,
                SourceChoice::Wal => SourceKind::Wal,
                SourceChoice::Donor => SourceKind::Donor,
                SourceChoice::Rebuilt => SourceKind::Rebuilt,
            }),
            allow_unproven: self.allow_unproven.clone(),
            lose_changes: self.lose_changes.clone(),
            blank_maps: self.blank_maps,
            saved_plan: self.plan.clone().filter(|_| self.apply),
            journal: self.journal.clone(),
            overrides: self.overrides.overrides(),
        })
    }

    fn resume_request(&self, journal: PathBuf) -> Result<ReplayRequest, Stop> {
        Ok(ReplayRequest {
            data_dir: self.pgdata.choose_to_write(self.data_dir.as_deref())?,
            journal,
            direction: Direction::Forward,
            pages: self.page.clone(),
            skip_changed: self.replay.skip_changed,
            allow_old_journal: self.replay.allow_old_journal,
            overrides: self.replay.overrides(self.overrides),
        })
    }

    /// The data directory: a command that writes needs it spelled out.
    fn directory(&self) -> Result<PathBuf, Stop> {
        let data_dir = self.data_dir.as_deref();
        if self.apply { self.pgdata.choose_to_write(data_dir) } else { self.pgdata.choose(data_dir) }
    }

    /// The command that applies the plan; `None` if a blocker has no flag that overrides it.
    fn apply_command(&self, blockers: &[Blocker]) -> Result<Option<String>, Stop> {
        let Some(flags) = blockers.iter().map(|blocker| blocker.flag).collect::<Option<BTreeSet<_>>>() else {
            return Ok(None);
        };
        let given = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        let mut words: Vec<String> = given.filter(|word| word != "-n" && word != "--dry-run").collect();
        let is_named = self.pgdata.choose_to_write(self.data_dir.as_deref()).is_ok();
        if !is_named {
            words.extend(["-D".to_owned(), self.directory()?.display().to_string()]);
        }
        words.extend(flags.into_iter().map(str::to_owned));
        words.push("--apply".to_owned());
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        Ok(Some(format!("{PROGRAM} {}", words.join(" "))))
    }
}

/// Columns of a step in CSV.
const STEP_COLUMNS: &[&str] = &[
    "spc_oid",
    "db_oid",
    "rel_number",
    "fork",
    "block",
    "relation",
    "path",
    "source",
    "file",
    "slot_index",
    "lsn",
    "donor",
    "redo_lsn",
    "page_lsn",
    "verdict",
    "before_crc",
    "after_crc",
    "warnings",
    "warning_codes",
    "base",
    "base_lsn",
    "records",
    "as_of",
    "server",
];

fn row(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(row)) => row,
        _ => Map::new(),
    }
}

/// A step as one flat row: the image's fields next to the page's.
fn step_row(step: &PlanStep) -> Map<String, Value> {
    let mut flat = row(step);
    if let Some(Value::Object(image)) = flat.remove("image") {
        flat.extend(image);
    }
    flat
}

/// How a repair ends: what the check before it could not examine, and the exit status.
pub(super) struct Ending {
    skipped: Vec<SkippedJson>,
    answer: Answer,
    /// The exit status; what was not examined may need a repair as well.
    pub outcome: Outcome,
}

impl Ending {
    /// `answer`: that of the cluster as the repair leaves it.
    pub(super) fn new(answer: Answer, coverage: &Coverage) -> Self {
        Self { skipped: coverage.skipped.iter().map(SkippedJson::from).collect(), answer, outcome: answer.into() }
    }
}

/// Steps and pages left alone in a machine format; `None` for text.
fn machine(
    out: &mut dyn Write,
    output: &OutputArgs,
    command: &'static str,
    plan: &Plan,
    counts: Value,
    ending: &Ending,
) -> Result<bool, Stop> {
    let Some(format) = output.machine() else { return Ok(false) };
    let shape = CsvShape::Rows { plural: "steps", columns: STEP_COLUMNS };
    let mut sink = begin(format, shape, out, (PROGRAM, command), Vec::new())?;
    for step in &plan.steps {
        sink.item(&Item::Step(step_row(step)))?;
    }
    for left in &plan.left {
        sink.item(&Item::Left(row(left)))?;
    }
    for skipped in &ending.skipped {
        sink.item(&Item::Skipped(skipped.clone()))?;
    }
    let counts = counts.as_object().cloned().unwrap_or_default();
    let shown = plan.steps.len() as u64;
    sink.end(&SummaryJson {
        examined: shown + plan.left.len() as u64,
        shown,
        skipped: ending.skipped.len(),
        exit_status: ending.outcome.status(),
        counts,
        ..SummaryJson::default()
    })?;
    Ok(true)
}

/// A plan that was not applied.
pub(super) fn write_plan(
    out: &mut dyn Write,
    output: &OutputArgs,
    (plan, root): (&Plan, &Path),
    blockers: &[Blocker],
    saved: Option<&Path>,
    apply: Option<&str>,
    ending: &Ending,
) -> Result<(), Stop> {
    let blocker_list: Vec<Value> =
        blockers.iter().map(|blocker| json!({"kind": blocker.kind, "what": blocker.to_string()})).collect();
    let counts = json!({
        "steps": plan.steps.len(),
        "left": plan.left.len(),
        "blockers": blocker_list,
        "applied": false,
        "written": 0,
        "journal": null,
    });
    if machine(out, output, "repair", plan, counts, ending)? {
        return Ok(());
    }
    let layout = output.layout();
    write_plan_text(out, layout, plan, blockers)?;
    if let Some(path) = saved {
        writeln!(out, "\nThe plan was saved as {}.", printable(&path.display().to_string()))?;
    }
    write_findings(out, layout, &[], &ending.skipped)?;
    // Last, where they stay in view.
    let steps = plan_steps(plan, root, !blockers.is_empty(), apply, ending.answer);
    if !steps.is_empty() {
        writeln!(out, "\n{}", layout.paint.heading("What to do"))?;
    }
    for (index, (what, command)) in steps.iter().enumerate() {
        let lead = if steps.len() > 1 { format!("  {}. ", index + 1) } else { "  ".to_owned() };
        wrapped(out, layout, &lead, lead.len(), what)?;
        writeln!(out, "       {}", printable(command))?;
    }
    out.flush()?;
    Ok(())
}

/// Steps from a plan to a startup, each with its command.
fn plan_steps(
    plan: &Plan,
    root: &Path,
    is_blocked: bool,
    apply: Option<&str>,
    answer: Answer,
) -> Vec<(String, String)> {
    let root = quoted(&root.display().to_string());
    let mut steps = Vec::new();
    if let Some(apply) = apply.filter(|_| !plan.steps.is_empty()) {
        let condition = if is_blocked { "If you accept the risk of what blocks it, apply" } else { "Apply" };
        steps.push(("Copy the data directory first:".to_owned(), format!("cp -a {root} COPY")));
        steps.push((format!("{condition} the plan (the old bytes are kept in a journal):"), apply.to_owned()));
    }
    let left = plan.left.iter().filter(|left| stays_damaged(&left.verdict)).count();
    let then = "Start the server only if the answer is WILL START:";
    let what = match left {
        0 if plan.steps.is_empty() && answer == Answer::Fine => return steps,
        0 if plan.steps.is_empty() => "The plan writes no page. See what else was found:".to_owned(),
        0 => format!("Check again. {then}"),
        1 => format!("Check again: it says what to do about 1 page that stays damaged (see Not changed). {then}"),
        left => {
            format!("Check again: it says what to do about {left} pages that stay damaged (see Not changed). {then}")
        }
    };
    steps.push((what, format!("{PROGRAM} check {root}")));
    steps
}

pub(super) fn write_applied(
    out: &mut dyn Write,
    output: &OutputArgs,
    repair: &Repair,
    written: &Written,
    ending: &Ending,
    overrides: Overrides,
) -> Result<(), Stop> {
    let (examined, plan, Written { journal, applied }) = (&repair.examined, &repair.plan, written);
    let directory = journal.directory().display().to_string();
    let counts = json!({
        "steps": plan.steps.len(),
        "left": plan.left.len(),
        "blockers": [],
        "applied": true,
        "written": applied.written.len(),
        "journal": directory,
    });
    if machine(out, output, "repair", plan, counts, ending)? {
        return Ok(());
    }
    let layout = output.layout();
    let root = examined.source.directory.as_ref().map_or_else(String::new, |dir| dir.root().display().to_string());
    let remaining: Vec<_> =
        examined.report.pages.iter().filter(|page| !repair.has_repaired(page.page)).cloned().collect();
    let given = StartConditions { may_be_running: false, ..examined.report.outlook.given.clone() };
    let outlook = Outlook::of(&remaining, &examined.report.replay, given);
    let label = |page: crate::types::PageId| page_title(&examined.called(page), page);
    let start = StartWords::of(&examined.report.replay, &outlook, &remaining, &label).with(other_problems(examined));
    let head = Headline::of_start(&start, ending.answer);
    head.write(out, layout)?;
    next_step_text::write_steps(
        out,
        layout,
        &steps_for(examined, &remaining, &outlook),
        step_context(examined, &root),
    )?;
    writeln!(out, "\n{}", layout.paint.heading("Repaired"))?;
    write_fact(out, layout, "pages written", &applied.written.len().to_string())?;
    write_fact(out, layout, "old bytes", &directory)?;
    let undo = format!("{PROGRAM} undo {} {}{}", quoted(&root), quoted(&directory), overrides.arguments());
    write_command(out, "to undo it", &undo)?;
    write_steps(out, layout, plan)?;
    write_left(out, layout, plan)?;
    write_findings(out, layout, &[], &ending.skipped)?;
    head.write_end(out, layout, 0)?;
    out.flush()?;
    Ok(())
}

/// Pages that were left as they are, and why.
fn named_left(journal: &Journal, applied: &Applied) -> Vec<(String, String)> {
    let entries = &journal.manifest().entries;
    let named = |left: &Left| Some((entries.get(left.index)?.to_string(), left.why.to_string()));
    applied.left.iter().filter_map(named).collect()
}

fn left_rows(journal: &Journal, applied: &Applied) -> Vec<Value> {
    let entries = &journal.manifest().entries;
    let row = |left: &Left| {
        let entry = entries.get(left.index)?;
        let kind = match left.why {
            LeftWhy::Changed => "changed",
            LeftWhy::NoBytes(_) => "no_bytes",
            LeftWhy::Unreadable(_) => "unreadable",
        };
        Some(json!({"path": entry.path, "block": entry.page.block, "kind": kind, "why": left.why.to_string()}))
    };
    applied.left.iter().filter_map(row).collect()
}

/// A journal that was finished or undone.
pub(super) fn write_undone(
    out: &mut dyn Write,
    output: &OutputArgs,
    journal: &Journal,
    applied: &Applied,
    direction: Direction,
) -> Result<(), Stop> {
    let (command, title) = match direction {
        Direction::Forward => ("repair", "Repair finished"),
        Direction::Back => ("undo", "Repair undone"),
    };
    let directory = journal.directory().display().to_string();
    if let Some(format) = output.machine() {
        let sink = begin(format, CsvShape::Pairs, out, (PROGRAM, command), Vec::new())?;
        let counts = json!({
            "written": applied.written.len(),
            "already": applied.already,
            "journal": directory,
            "unlogged": applied.unlogged,
            "left_unchanged": left_rows(journal, applied),
            "newer_files": applied.newer_files,
        });
        let counts = counts.as_object().cloned().unwrap_or_default();
        let shown = (applied.written.len() + applied.already) as u64;
        let (examined, exit_status) = (shown + applied.left.len() as u64, Outcome::of(applied.left.len(), 0).status());
        sink.end(&SummaryJson { examined, shown, exit_status, counts, ..SummaryJson::default() })?;
        return Ok(());
    }
    let layout = output.layout();
    writeln!(out, "{}", layout.paint.heading(title))?;
    write_fact(out, layout, "pages written", &applied.written.len().to_string())?;
    if applied.already > 0 {
        write_fact(out, layout, "no change needed", &applied.already.to_string())?;
    }
    write_fact(out, layout, "journal", &directory)?;
    if let Some(why) = &applied.unlogged {
        write_fact(out, layout, "not in the log", why)?;
    }
    if !applied.newer_files.is_empty() {
        let files: Vec<String> = applied.newer_files.iter().map(|file| file.display().to_string()).collect();
        let what = "written after the repair began, although pg_control shows that no server was started; copying the \
                    data directory also changes these times";
        write_fact(out, layout, "check", &format!("{}: {what}", files.join(", ")))?;
    }
    if !applied.left.is_empty() {
        writeln!(out, "\n{}", layout.paint.heading("Pages that were left as they are"))?;
        for (name, why) in named_left(journal, applied) {
            write_fact(out, layout, &name, &why)?;
        }
    }
    out.flush()?;
    Ok(())
}
