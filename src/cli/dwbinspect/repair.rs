//! `pg_dwbinspect repair`: put proven images back.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::PROGRAM;
use super::bars::Bars;
use super::repair_text::{Ending, write_applied, write_plan};
use super::undo::{OverrideArgs, ReplayArgs, run_replay};
use crate::cli::context::OutputArgs;
use crate::cli::data_dir_arg::PgData;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::usage::UsageError;
use crate::cli::work::{DonorArgs, JobsArg, ProgressArg, RebuildArg, ServerArgs};
use crate::inspect::page_name::PageName;
use crate::inspect::relation_name::RelationChoice;
use crate::inspect::repair::replay::ReplayRequest;
use crate::inspect::repair::{RepairRequest, apply, propose};
use crate::output::shell::quoted;
use crate::repair::apply::Direction;
use crate::repair::blocker::Blocker;
use crate::repair::plan::SourceKind;

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
