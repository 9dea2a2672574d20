//! `pg_dwbinspect repair`: put proven images back.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::PROGRAM;
use super::bars::Bars;
use super::repair_text::{Ending, write_applied, write_plan};
use super::replay::{OverrideArgs, ReplayArgs, Replaying, guarded, told};
use crate::analysis::verdict::candidate::ImageSource;
use crate::analysis::verdict::fetch::fetch_image;
use crate::analysis::verdict::survey::PageReport;
use crate::cli::context::OutputArgs;
use crate::cli::data_dir_arg::PgData;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{JobsArg, ProgressArg};
use crate::cluster::data_dir::DataDir;
use crate::cluster::open::{Links, read_small};
use crate::cluster::page_source::{PageRead, PageSource, RelationPages};
use crate::inspect::error::{InspectError, open_data_dir};
use crate::inspect::examination::{Examination, Request, Watch};
use crate::inspect::page_name::PageName;
use crate::inspect::relation_name::RelationChoice;
use crate::inspect::repair_select::{Selection, relations_of};
use crate::output::shell::quoted;
use crate::parsers::control::ControlFile;
use crate::repair::apply::{Applied, Cluster, Direction, Order, carry_out};
use crate::repair::blocker::{Blocker, Overrides, RepairLock, find_blockers, unopened};
use crate::repair::journal::{Journal, NewJournal, beside};
use crate::repair::manifest::{JournalEntry, Manifest};
use crate::repair::plan::{PLAN_LIMIT_BYTES, Permission, Plan, PlanSource, PlanStep, SourceKind};
use crate::repair::prepare::{Material, PrepareError, final_bytes};
use crate::repair::witness::{ControlMark, WalMark, Witness};
use crate::types::PageId;

/// Room that a journal needs besides the pages, in bytes.
const JOURNAL_EXTRA_BYTES: u64 = 1 << 20;

/// Room that it needs for the words about each page: in the plan, in the manifest and in the log.
const WORDS_PER_PAGE_BYTES: u64 = 2 << 10;

/// Which images are put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SourceChoice {
    /// Those of the double write buffer.
    Dwb,
    /// Full-page images in WAL.
    Wal,
}

/// Put proven images back, offline, with a journal and an undo
///
/// Without --apply nothing is written: the plan is shown, page by page. With --apply the old bytes of every page go into
/// a journal first, then each page is overwritten, synced and read back. Only images that `check` calls safe are used
/// unless a flag says otherwise. PAGE is the path of a file below the data directory and a block, as in
/// base/5/1259:0 or base/5/1259_vm:0; numbers (5/1259:0) and names (public.note:0) will do too.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub struct RepairArgs {
    /// Data directory of a stopped server
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    /// Carry the plan out
    #[arg(long, conflicts_with = "dry_run")]
    apply: bool,
    /// Show the plan and write nothing: the default
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Save the plan as JSON; with --apply: carry out this saved plan, or what is selected of it
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Only these pages
    #[arg(long, value_name = "PAGE", help_heading = "Selection", value_delimiter = ',')]
    page: Vec<PageName>,
    /// Only these relations, by name (relation, schema.relation, database.schema.relation) or numbers (REL, DB/REL,
    /// SPC/DB/REL)
    #[arg(long, value_name = "REL", help_heading = "Selection", value_delimiter = ',')]
    relation: Vec<RelationChoice>,
    /// Only images from here
    #[arg(long, value_enum, help_heading = "Selection")]
    source: Option<SourceChoice>,
    /// Put unproven images back as well: of these pages, or of "all"
    #[arg(long, value_name = "PAGE|all", help_heading = "Selection", value_delimiter = ',')]
    allow_unproven: Vec<PageName>,
    /// Put an image back although committed changes are lost, for this page
    #[arg(long, value_name = "PAGE", help_heading = "Selection", value_delimiter = ',')]
    lose_changes: Vec<PageName>,
    /// Overwrite damaged pages of visibility and free space maps with zeros, which servers take for empty ones
    #[arg(long, help_heading = "Selection", hide_short_help = true)]
    blank_maps: bool,
    /// Where the old bytes are kept [default: pgforensics_undo_TIME_ID beside the data directory]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Finish a repair that was cut off, or only the pages named by --page
    #[arg(long, value_name = "JOURNAL_DIR", conflicts_with_all = ["apply", "dry_run", "plan", "journal", "relation",
        "source", "allow_unproven", "lose_changes", "wal"])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    replay: ReplayArgs,
    /// More WAL: archive directory, segments, tar archives, patterns; plain or compressed
    #[arg(long, value_name = "PATH")]
    wal: Vec<PathBuf>,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// Print no plan: the exit status is the answer
    #[arg(short, long, hide_short_help = true, conflicts_with_all = ["apply", "resume"])]
    quiet: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  pg_dwbinspect repair DATADIR                     the plan; nothing is written
  pg_dwbinspect repair DATADIR --apply             carry it out
  pg_dwbinspect repair DATADIR --plan plan.json    save it, to be edited and carried out with
  pg_dwbinspect repair DATADIR --apply --plan plan.json
  pg_dwbinspect undo DATADIR JOURNAL_DIR           take it back
  pg_dwbinspect repair DATADIR --resume JOURNAL_DIR
  pg_dwbinspect repair DATADIR --resume JOURNAL_DIR --skip-changed
";

/// Runs `repair`.
pub(super) fn run(args: &RepairArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let overrides = args.overrides.overrides();
    if let Some(journal) = &args.resume {
        let (data_dir, pages) = (args.pgdata.choose_to_write(args.data_dir.as_deref())?, &args.page);
        let (data_dir, direction) = (data_dir.as_path(), Direction::Forward);
        let replay = Replaying { data_dir, journal, pages, overrides, args: args.replay, direction };
        return replay.run(&args.output, out);
    }
    if args.replay.skip_changed || args.replay.allow_old_journal {
        return Err(Stop::Input("--skip-changed and --allow-old-journal are for --resume and undo".to_owned()));
    }
    let directory = open_data_dir(&args.directory()?)?;
    let (locked, examined) = args.examine(args.apply, &Bars::new(args.progress))?;
    let session = Session::new(&examined)?;
    let permission = session.permission(args)?;
    let plan = session.plan(args, &permission)?;
    let Some(locked) = locked else {
        if let Some(file) = &args.plan {
            crate::repair::plan_file::save(file, &plan, &examined.source.protected()?)
                .map_err(|error| Stop::Input(error.to_string()))?;
        }
        let blockers = find_blockers(&directory, overrides);
        let ending = Ending::new(examined.answer(), &examined.coverage);
        if args.quiet {
            return Ok(ending.outcome);
        }
        let apply = args.apply_command(&blockers)?;
        write_plan(out, &args.output, &plan, &blockers, args.plan.as_deref(), apply.as_deref(), &ending)?;
        return Ok(ending.outcome);
    };
    if plan.steps.is_empty() {
        let ending = Ending::new(examined.answer(), &examined.coverage);
        write_plan(out, &args.output, &plan, &[], None, None, &ending)?;
        return Ok(ending.outcome);
    }
    let (journal, applied) = session.apply(args, &plan, &locked)?;
    let is_repaired = |page| plan.steps.iter().any(|step| step.page.page_id() == Some(page));
    let ending = Ending::new(examined.answer_without(is_repaired), &examined.coverage);
    write_applied(out, &args.output, &examined, &plan, (&journal, &applied), &ending)?;
    Ok(ending.outcome)
}

impl RepairArgs {
    /// A repair of these pages, or of every proven one when there are none; `unproven`: those that may be put back
    /// although a part of the proof is missing.
    pub(super) fn of_pages(
        data_dir: &Path,
        wal: &[PathBuf],
        jobs: JobsArg,
        page: Vec<PageName>,
        allow_unproven: Vec<PageName>,
    ) -> Self {
        Self {
            data_dir: Some(data_dir.to_owned()),
            pgdata: PgData::default(),
            apply: false,
            dry_run: false,
            plan: None,
            allow_unproven,
            page,
            relation: Vec::new(),
            source: None,
            lose_changes: Vec::new(),
            blank_maps: false,
            journal: None,
            resume: None,
            replay: ReplayArgs::default(),
            wal: wal.to_vec(),
            jobs,
            progress: ProgressArg::default(),
            overrides: OverrideArgs::default(),
            quiet: false,
            output: OutputArgs::plain(),
        }
    }

    /// The data directory: to be written into it must be spelled out.
    fn directory(&self) -> Result<PathBuf, Stop> {
        let data_dir = self.data_dir.as_deref();
        if self.apply { self.pgdata.choose_to_write(data_dir) } else { self.pgdata.choose(data_dir) }
    }

    /// The command that carries out what this one shows; `None` when something forbids it that no flag overrides.
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

    /// Reads and judges the cluster. The lock is taken before, so that what was checked is what is written.
    fn examine(&self, lock: bool, watch: &dyn Watch) -> Result<(Option<Locked>, Examination), Stop> {
        let data_dir = self.directory()?;
        let locked = lock.then(|| Locked::take(&data_dir, self.overrides.overrides())).transpose()?;
        let request =
            Request { dwb_only: false, page: None, wal: self.wal.clone(), jobs: self.jobs.count(), keep_slots: false };
        let examined = Examination::run(&data_dir, &request, watch)?;
        if examined.interrupted() {
            return Err(Stop::Input("interrupted: nothing was written".to_owned()));
        }
        Ok((locked, examined))
    }

    /// The plan for a cluster that was judged already, and what forbids carrying it out.
    pub(super) fn plan_for(&self, examined: &Examination) -> Result<(Plan, Vec<Blocker>), Stop> {
        let session = Session::new(examined)?;
        let plan = session.plan(self, &session.permission(self)?)?;
        let blockers = match DataDir::open(&self.directory()?) {
            Ok(fresh) => find_blockers(&fresh, self.overrides.overrides()),
            Err(error) => vec![unopened(&error)],
        };
        Ok((plan, blockers))
    }

    /// Judges the cluster again, holds the plan against it, and carries it out unless `dry`.
    pub(super) fn carry_out(
        &self,
        plan: &Plan,
        dry: bool,
        watch: &dyn Watch,
    ) -> Result<Option<(Journal, Applied)>, Stop> {
        let (locked, examined) = self.examine(true, watch)?;
        let session = Session::new(&examined)?;
        session.confirm(plan, &session.permission(self)?)?;
        match locked.filter(|_| !dry) {
            Some(locked) => session.apply(self, plan, &locked).map(Some),
            None => Ok(None),
        }
    }
}

/// A data directory that is locked, and what was in its `pg_control` before it was judged.
struct Locked {
    lock: RepairLock,
    control: ControlMark,
}

impl Locked {
    fn take(data_dir: &Path, overrides: Overrides) -> Result<Self, Stop> {
        let (lock, _) = guarded(data_dir, overrides)?;
        let control = ControlMark::read(lock.root()).map_err(|error| Stop::Input(error.to_string()))?;
        Ok(Self { lock, control })
    }
}

/// A repair in progress.
struct Session<'a> {
    examined: &'a Examination,
    root: &'a Path,
    control: &'a ControlFile,
    pages: RelationPages,
}

impl<'a> Session<'a> {
    fn new(examined: &'a Examination) -> Result<Self, Stop> {
        let directory = examined.source.directory.as_ref();
        let directory = directory.ok_or_else(|| Stop::Input("there is no data directory".to_owned()))?;
        let control = directory.control().trusted();
        let control = control
            .ok_or_else(|| Stop::Input("refused: pg_control cannot be trusted, so nothing can be proven".to_owned()))?;
        let pages = RelationPages::new(directory.root(), examined.paths.clone());
        Ok(Self { examined, root: directory.root(), control, pages })
    }

    fn reports(&self) -> &'a [PageReport] {
        &self.examined.report.pages
    }

    fn find(&self, name: &PageName) -> Result<PageId, Stop> {
        let matches = |report: &&PageReport| {
            let page = report.page;
            name.matches(page, &self.examined.paths, self.examined.relation_name(page.rel).as_deref())
        };
        let found: Vec<PageId> = self.reports().iter().filter(matches).map(|report| report.page).collect();
        match found[..] {
            [page] => Ok(page),
            [] => Err(Stop::Input(format!("no damaged page is called {name}; `check` lists them"))),
            _ => {
                let rels: Vec<_> = found.iter().map(|page| page.rel).collect();
                Err(InspectError::ambiguous(&name.to_string(), &rels, &self.examined.names).into())
            }
        }
    }

    fn permission(&self, args: &RepairArgs) -> Result<Permission, Stop> {
        let (all, named): (Vec<&PageName>, Vec<&PageName>) = args.allow_unproven.iter().partition(|name| name.is_all());
        let find = |names: &[&PageName]| names.iter().map(|name| self.find(name)).collect::<Result<Vec<_>, _>>();
        Ok(Permission {
            source: args.source.map(|source| match source {
                SourceChoice::Dwb => SourceKind::Dwb,
                SourceChoice::Wal => SourceKind::Wal,
            }),
            all_unproven: !all.is_empty(),
            unproven: find(&named)?,
            lose_changes: find(&args.lose_changes.iter().collect::<Vec<_>>())?,
            blank_maps: args.blank_maps,
        })
    }

    /// Has something done with all that plans are made from.
    fn with_material<T>(&self, work: impl FnOnce(&Material<'_>) -> Result<T, PrepareError>) -> Result<T, Stop> {
        let fetch = |source: &ImageSource, page: PageId| self.fetch(source, page);
        let disk = |page: PageId| {
            let mut bytes = vec![0; self.examined.block_size];
            let read = self.pages.read_page(page, &mut bytes)?;
            Ok((read == PageRead::Whole).then_some(bytes))
        };
        let path = |page: PageId| self.examined.path_of(page);
        let name = |rel| self.examined.relation_name(rel);
        let material = Material {
            system_identifier: self.control.prefix.system_identifier,
            redo_lsn: self.control.checkpoint.redo_lsn,
            checksums: self.control.checksums.is_written(),
            pages: self.reports(),
            fetch: &fetch,
            disk: &disk,
            path: &path,
            name: &name,
        };
        work(&material).map_err(|error| Stop::Input(error.to_string()))
    }

    fn confirm(&self, plan: &Plan, permission: &Permission) -> Result<Vec<PlanStep>, Stop> {
        self.with_material(|material| material.confirm(plan, permission))
    }

    fn plan(&self, args: &RepairArgs, permission: &Permission) -> Result<Plan, Stop> {
        let pages = args.page.iter().map(|name| Ok((self.find(name)?, name))).collect::<Result<Vec<_>, Stop>>()?;
        let selection =
            Selection { pages, relations: relations_of(self.examined, &args.relation)?, source: permission.source };
        if let Some(file) = args.plan.as_ref().filter(|_| args.apply) {
            let text =
                read_small(file, Links::Follow, PLAN_LIMIT_BYTES).map_err(|error| Stop::Input(error.to_string()))?;
            let mut plan: Plan = serde_json::from_slice(&text)
                .map_err(|error| Stop::Input(format!("{} is no plan: {error}", file.display())))?;
            selection.narrow(&mut plan)?;
            plan.steps = self.confirm(&plan, permission)?;
            return Ok(plan);
        }
        self.with_material(|material| material.plan(permission, &|report| selection.takes_report(report)))
    }

    fn fetch(
        &self,
        source: &ImageSource,
        page: PageId,
    ) -> Result<Vec<u8>, crate::analysis::verdict::fetch::FetchError> {
        let wal = self.examined.wal.all.as_ref().or(self.examined.wal.own.as_ref());
        fetch_image(source, page, self.examined.block_size, &self.examined.source.set, wal)
    }

    /// Writes the journal, then the pages.
    fn apply(&self, args: &RepairArgs, plan: &Plan, locked: &Locked) -> Result<(Journal, Applied), Stop> {
        let stop = |error: &dyn std::fmt::Display| Stop::Input(error.to_string());
        let (system, block_size) = (self.control.prefix.system_identifier, self.examined.block_size);
        let directory = args.journal.clone().map_or_else(|| beside(self.root), Ok).map_err(|error| stop(&error))?;
        let protected = self.examined.source.protected()?;
        let manifest = Manifest::new(self.root, system, self.witness(locked)?, block_size);
        let each = (block_size as u64 * 2).saturating_add(WORDS_PER_PAGE_BYTES);
        let needed = (plan.steps.len() as u64).saturating_mul(each).saturating_add(JOURNAL_EXTRA_BYTES);
        let unbegun = |error| Stop::Input(format!("{error}\nno page was written"));
        let mut journal = NewJournal::create(&directory, &protected, manifest, plan, needed).map_err(unbegun)?;
        self.fill(&mut journal, plan).map_err(|stop| {
            let unfinished = journal.directory().display();
            Stop::Input(format!("{stop}\nno page was written; {unfinished} holds a journal that was not finished"))
        })?;
        let journal = journal.finish().map_err(unbegun)?;
        let cluster =
            Cluster { lock: &locked.lock, system_identifier: system, block_size, paths: &self.examined.paths };
        match carry_out(cluster, &journal, &Order::whole(Direction::Forward), |_| true) {
            Ok(applied) => Ok((journal, applied)),
            Err(stopped) => Err(told(&stopped, self.root, &journal)),
        }
    }

    /// What tells later whether a server was started: `pg_control` as it was before anything was judged, and the end of
    /// WAL.
    fn witness(&self, locked: &Locked) -> Result<Witness, Stop> {
        let end_lsn = self.examined.report.replay.end_lsn.unwrap_or(self.control.checkpoint_lsn);
        let wal_end = WalMark::read(locked.lock.root(), self.control, end_lsn);
        let wal_end = wal_end.map_err(|error| Stop::Input(error.to_string()))?;
        let witness = Witness::now(locked.control.clone(), wal_end);
        match witness.control_contradicted_by(locked.lock.root()) {
            Ok(None) => Ok(witness),
            Ok(Some(sign)) => Err(Stop::Input(format!(
                "a server was started while the cluster was being judged: {sign}; no page was written"
            ))),
            Err(error) => Err(Stop::Input(error.to_string())),
        }
    }

    /// Puts the old and the new bytes of every step into the journal.
    fn fill(&self, journal: &mut NewJournal, plan: &Plan) -> Result<(), Stop> {
        let stop = |error: &dyn std::fmt::Display| Stop::Input(error.to_string());
        let block_size = self.examined.block_size;
        let checksums = self.control.checksums.is_written();
        for step in &plan.steps {
            let changed = |what: &str| Stop::Input(format!("{} block {}: {what}", step.path, step.page.block));
            let page = step.page.page_id().ok_or_else(|| changed("no such fork"))?;
            let report = self.reports().iter().find(|report| report.page == page);
            let candidates = report.map_or(&[][..], |report| &report.verdict.candidates);
            let mut sources = candidates.iter().map(|judged| &judged.candidate.source);
            let image = if step.image == PlanSource::Blank {
                vec![0; block_size]
            } else {
                let source = sources.find(|source| PlanSource::of(source) == step.image);
                let source = source.ok_or_else(|| changed("its image is gone"))?;
                self.fetch(source, page).map_err(|error| stop(&error))?
            };
            let after = final_bytes(image, page.block, checksums);
            let mut before = vec![0; block_size];
            let read = self.pages.read_page(page, &mut before).map_err(|error| stop(&error))?;
            let crc = crate::repair::plan::crc_text;
            if read != PageRead::Whole || crc(&before) != step.before_crc {
                return Err(changed("the page has changed"));
            }
            if crc(&after) != step.after_crc {
                return Err(changed("its image has changed"));
            }
            let (path, at) = self.examined.paths.place(page);
            let entry = JournalEntry {
                page: step.page.clone(),
                path: path.display().to_string(),
                offset: u64::from(at) * block_size as u64,
                before_crc: step.before_crc.clone(),
                after_crc: step.after_crc.clone(),
            };
            journal.add(entry, &before, &after).map_err(|error| stop(&error))?;
        }
        Ok(())
    }
}
