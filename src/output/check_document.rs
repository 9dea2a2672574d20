//! Text output of `check` about a judged cluster: the answer, what to do, the damaged pages, then the evidence.
//! Also here: how to get replay past records that need a page which is missing: commands of every Unix, one a page.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use textwrap::core::display_width;

use super::check_text::{
    Label, block_words, compared_words, page_title, replay_words, verdict_word, write_evidence, write_slots,
};
use super::closing::{Closing, Headline};
use super::documents::JudgedCluster;
use super::escape::{printable, quoted};
use super::json::{FindingJson, time_text};
use super::next_step_text::{work_dir, write_steps};
use super::start_words::StartWords;
use super::text::{Layout, wrapped, write_note_facts, write_problems, write_short_fact, write_skips};
use super::words::cluster::checksum_words;
use crate::analysis::dwb::staleness::Confidence;
use crate::analysis::pages::checksum_witness::CHECKSUMS_OFF;
use crate::analysis::pages::page_scan::ScannedFiles;
use crate::analysis::start::cluster_condition::ClusterCondition;
use crate::analysis::start::doubt::Doubt;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::next_step::NextStep;
use crate::analysis::verdict::step_risk::StandIn;
use crate::analysis::verdict::survey::PageReport;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::version::Major;
use crate::types::{BlockNumber, ForkNumber, PageId};

/// Rows of the table of damaged pages that are shown unasked.
const MAX_ROWS: usize = 20;

/// Columns that blocks get at most.
const BLOCK_COLUMNS: usize = 22;

/// Columns that names of relations get at most.
const NAME_COLUMNS: usize = 34;

/// Everything that the text of `check` is made from.
#[derive(Clone, Copy)]
pub struct CheckText<'a> {
    pub cluster: JudgedCluster<'a>,
    pub state: &'a ClusterCondition,
    pub control: Option<&'a ControlFile>,
    pub major: Option<Major>,
    /// How much the page scan read, if it ran.
    pub scanned: Option<&'a ScannedFiles>,
}

#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The evidence for every verdict, and why notes matter.
    pub explain: bool,
    /// All damaged pages, and pages that are not damaged and that the double write buffer holds.
    pub all: bool,
}

impl CheckText<'_> {
    /// Writes all of it.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn write(
        &self,
        out: &mut dyn Write,
        layout: Layout,
        shown: Shown,
        closing: &Closing,
        steps: &[NextStep],
    ) -> io::Result<()> {
        let JudgedCluster { report, context, dwb, problems, .. } = self.cluster;
        let title = |page: PageId| page_title(&self.called(page), page);
        let start = StartWords::of(&report.replay, &report.outlook, &report.pages, &title).with(problems);
        // A base backup is recovered as its server expects; only images of damaged pages are less certain.
        let is_expected = |doubt: &&Doubt| matches!(doubt, Doubt::BaseBackup) && report.pages.is_empty();
        let doubts = report
            .replay
            .doubts
            .iter()
            // A problem says that files do not belong together.
            .filter(|doubt| !is_expected(doubt) && !matches!(doubt, Doubt::NotOneCluster { .. }))
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        let rest = &mut |out: &mut dyn Write| {
            if !report.pages.is_empty() {
                wrapped(out, layout, "  ", 2, &counts_words(&report.pages))?;
            }
            write_steps(out, layout, steps, context)?;
            self.write_stand_ins(out, layout, &title, work_dir(steps, context.data_dir))?;
            self.write_pages(out, layout, shown)?;
            write_problems(out, layout, "Problems", &closing.findings)?;
            write_list(out, layout, "Cannot be sure because", &doubts)?;
            write_skips(out, layout, &closing.skipped)?;
            self.write_basis(out, layout, &closing.findings, shown.explain)?;
            if shown.explain {
                for page in &report.pages {
                    let path = self.cluster.paths.path_and_block(page.page).0;
                    write_evidence(out, layout, page, &format!("{} ({})", title(page.page), path.display()))?;
                }
            }
            if shown.all {
                let file_name = |file: usize| dwb.files.get(file).map_or_else(String::new, |file| file.name.clone());
                write_slots(out, layout, &report.slots, &|page| self.called(page), &file_name)?;
            }
            Ok(())
        };
        Headline::of_start(&start, closing.answer()).write_around(out, layout, rest)
    }

    fn write_stand_ins(
        &self,
        out: &mut dyn Write,
        layout: Layout,
        title: Label<'_>,
        directory: &str,
    ) -> io::Result<()> {
        let JudgedCluster { report, paths, .. } = self.cluster;
        let location_of = |page: PageId| {
            let (path, block) = paths.path_and_block(page);
            (Path::new(directory).join(path), block)
        };
        write_stand_ins(out, layout, &report.pages, title, &location_of)
    }

    /// Damaged pages by database and schema, those of one relation, damage and verdict in one row.
    fn write_pages(&self, out: &mut dyn Write, layout: Layout, shown: Shown) -> io::Result<()> {
        let pages = &self.cluster.report.pages;
        if pages.is_empty() {
            return Ok(());
        }
        let hint = if shown.explain { "" } else { " (proof of each: --explain)" };
        writeln!(out, "\n{}{hint}", layout.paint.heading("Damaged pages"))?;
        let mut groups = BTreeMap::<String, Vec<Row<'_>>>::new();
        for report in pages {
            let (home, name) = self.home_and_name(report.page);
            let rows = groups.entry(home).or_default();
            let is_taken = rows.iter_mut().rfind(|row| row.is_like(report)).is_some_and(|row| row.takes(report));
            if !is_taken {
                let runs = vec![(report.page.block, report.page.block)];
                rows.push(Row { name, first: report, least: report.strength, runs });
            }
        }
        let (mut left, mut hidden) = (if shown.all { usize::MAX } else { MAX_ROWS }, 0);
        for (home, rows) in groups {
            let shown = rows.len().min(left);
            left -= shown;
            hidden += rows[shown..].iter().map(Row::pages).sum::<u64>();
            if shown == 0 {
                continue;
            }
            write_group(out, layout, &home, &rows[..shown])?;
        }
        if hidden > 0 {
            writeln!(out, "  and {hidden} more pages (--all)")?;
        }
        let is_doubtful =
            |report: &PageReport| self.cluster.names.get(report.page.rel).is_some_and(|name| name.doubt.is_some());
        if pages.iter().any(is_doubtful) {
            writeln!(out, "  ?: the name is uncertain, because the catalogs are damaged")?;
        }
        Ok(())
    }

    /// Database and schema of the relation of a page, and what it is called there.
    fn home_and_name(&self, page: PageId) -> (String, String) {
        let Some(name) = self.cluster.names.get(page.rel) else {
            return ("without a name".to_owned(), page.rel.to_string());
        };
        let called = self.called(page);
        let doubt = if name.doubt.is_some() { "?" } else { "" };
        let relation = format!("{}{doubt}", name.relation);
        let home = called.strip_suffix(&relation).unwrap_or(&called).trim_end_matches('.');
        (printable(home), printable(&format!("  {relation}")))
    }

    /// Evidence for the answer.
    fn write_basis(
        &self,
        out: &mut dyn Write,
        layout: Layout,
        findings: &[FindingJson],
        explain: bool,
    ) -> io::Result<()> {
        let JudgedCluster { report, proof, .. } = self.cluster;
        writeln!(out, "\n{}", layout.paint.heading("Evidence"))?;
        let mut fact = |label: &str, words: &str| write_short_fact(out, layout, label, words);
        let mut cluster = self.state.to_string();
        if let Some(major) = self.major {
            cluster = format!("PostgreSQL {major}, {cluster}");
        }
        if let Some(control) = self.control {
            cluster.push_str(&format!("; last checkpoint {}", time_text(control.checkpoint.time_s)));
        }
        fact("cluster", &cluster)?;
        if let Some(words) = replay_words(&report.replay) {
            fact("recovery", &words)?;
        }
        let checksums = checksum_words(self.control.map(|control| control.checksums));
        match self.scanned {
            Some(scanned) => fact("checked", &format!("{scanned}; data checksums {checksums}"))?,
            None => fact("checksums", &checksums)?,
        }
        if let Some(proof) = proof {
            fact("proven", &proof.to_string())?;
        }
        if let Some(words) = compared_words(&report.slots).filter(|_| explain) {
            fact("images", &words)?;
        }
        // The line above tells it.
        let further = findings.iter().filter(|finding| finding.kind != CHECKSUMS_OFF.code);
        write_note_facts(out, layout, further, explain)
    }

    /// How a page's relation is called: by name where there is one, else by its numbers.
    fn called(&self, page: PageId) -> String {
        self.cluster.names.called(page.rel)
    }
}

/// The rows of one schema. A name that is too long for its column has a line of its own.
fn write_group(out: &mut dyn Write, layout: Layout, home: &str, rows: &[Row<'_>]) -> io::Result<()> {
    let cells = rows.iter().map(|row| {
        let first = row.first;
        (row.name.as_str(), row.blocks(), row.damage(), first)
    });
    let cells: Vec<_> = cells.collect();
    let widest = |widths: &mut dyn Iterator<Item = usize>, least: usize| widths.fold(least, usize::max);
    let fitting = cells.iter().map(|(name, ..)| display_width(name)).filter(|width| *width <= NAME_COLUMNS);
    let name_columns = widest(&mut fitting.chain([display_width(home).min(NAME_COLUMNS)]), 24);
    let block_columns = widest(&mut cells.iter().map(|(_, block, ..)| block.len()), 5);
    let damage_columns = widest(&mut cells.iter().map(|(.., damage, _)| damage.len()), 6);
    let padded = |text: &str| format!("{text}{:1$}", "", name_columns.saturating_sub(display_width(text)));
    writeln!(out, "  {}  {:>block_columns$}  {:<damage_columns$}  verdict", padded(home), "block", "damage")?;
    for (name, block, damage, first) in &cells {
        let name = if display_width(name) > name_columns {
            writeln!(out, "  {name}")?;
            ""
        } else {
            name
        };
        let action = verdict_word(layout.paint, first.verdict.verdict);
        writeln!(out, "  {}  {block:>block_columns$}  {damage:<damage_columns$}  {action}", padded(name))?;
    }
    Ok(())
}

/// Damaged pages of one fork with equal damage and verdict, and their blocks as runs, as many as fit their column.
struct Row<'a> {
    name: String,
    first: &'a PageReport,
    /// How sure the damage of all of them is.
    least: Confidence,
    runs: Vec<(BlockNumber, BlockNumber)>,
}

impl Row<'_> {
    fn is_like(&self, next: &PageReport) -> bool {
        let of = |report: &PageReport| (report.page.rel, report.page.fork, report.verdict.verdict, report.disk);
        of(self.first) == of(next)
    }

    /// Adds the next damaged page, if it fits.
    fn takes(&mut self, next: &PageReport) -> bool {
        let block = next.page.block;
        match self.runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(block) => *last = block,
            _ => self.runs.push((block, block)),
        }
        let fits = self.blocks().len() <= BLOCK_COLUMNS || self.runs.len() == 1;
        if fits {
            self.least = self.least.min(next.strength);
        } else {
            match self.runs.last_mut() {
                Some((first, last)) if *first < *last => *last -= 1,
                _ => drop(self.runs.pop()),
            }
        }
        fits
    }

    fn blocks(&self) -> String {
        let fork = |at: usize| if at == 0 { self.first.page.fork } else { ForkNumber::Main };
        let runs = self.runs.iter().enumerate();
        runs.map(|(at, (first, last))| block_words(fork(at), *first, *last)).collect::<Vec<_>>().join(", ")
    }

    fn damage(&self) -> String {
        let name = self.first.disk.name().replace('_', " ");
        match self.least {
            Confidence::Proven => name,
            Confidence::Likely | Confidence::Possible => format!("{name}, {}", self.least.name()),
        }
    }

    fn pages(&self) -> u64 {
        self.runs.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }
}

/// `7 damaged pages: 6 restore, 1 fixed by recovery`.
pub(crate) fn counts_words(pages: &[PageReport]) -> String {
    let count = |verdict: Verdict| pages.iter().filter(|page| page.verdict.verdict == verdict).count();
    let counts = Verdict::ALL.map(|verdict| (count(verdict), verdict.facts().label));
    let parts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, label)| format!("{count} {label}")).collect();
    let noun = if pages.len() == 1 { "page" } else { "pages" };
    format!("{} damaged {noun}: {}", pages.len(), parts.join(", "))
}

/// Items below a heading; nothing if the list is empty.
fn write_list(out: &mut dyn Write, layout: Layout, heading: &str, items: &[String]) -> io::Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading(heading))?;
    items.iter().try_for_each(|item| wrapped(out, layout, "  ", 2, &printable(item)))
}

/// Pages that replay needs, each with the command that makes an empty one. `location_of`: the file and
/// the number of the block in it.
pub(crate) fn write_stand_ins(
    out: &mut dyn Write,
    layout: Layout,
    pages: &[PageReport],
    label: Label<'_>,
    location_of: &dyn Fn(PageId) -> (PathBuf, BlockNumber),
) -> io::Result<()> {
    let found: Vec<(PageId, &StandIn)> =
        pages.iter().filter_map(|report| Some((report.page, report.stand_in.as_ref()?))).collect();
    if found.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading("Pages that recovery needs"))?;
    let why = "An empty page with the LSN of the end of WAL lets recovery pass: recovery treats all records of the \
        page as applied. A zero-filled page does not help. Keep a copy of the data directory, then run, as the user \
        that owns it:";
    wrapped(out, layout, "  ", 2, why)?;
    for (page, stand_in) in found {
        let after = if stand_in.is_removed {
            "recovery removes it again; no data is lost"
        } else {
            "REINDEX the index at once after the start: what recovery would have put into this page is missing"
        };
        wrapped(out, layout, "  ", 2, &printable(&format!("{}: {after}", label(page))))?;
        let (path, block) = location_of(page);
        writeln!(out, "    {}", printable(&command(stand_in, &path.display().to_string(), block)))?;
    }
    Ok(())
}

/// `printf` gives the header, `dd` fills up with zeros and writes it there.
fn command(stand_in: &StandIn, path: &str, block: BlockNumber) -> String {
    let header: String = stand_in.header.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let (path, bytes) = (quoted(path), stand_in.page_bytes);
    format!("printf '{header}' | dd of={path} bs={bytes} seek={block} conv=notrunc,sync status=none")
}
