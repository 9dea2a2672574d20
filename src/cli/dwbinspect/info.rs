//! `pg_dwbinspect info`: the state of a cluster and its double write buffer.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use super::PROGRAM;
use crate::analysis::dwb::report::DwbReport;
use crate::cli::context::OutputArgs;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::values::PgData;
use crate::cluster::data_dir::DataDir;
use crate::cluster::running::ServerSign;
use crate::cluster::settings::Settings;
use crate::inspect::dwb_source::{ClusterSummary, InfoReport, info as inspect_info};
use crate::output::closing::{Closing, begin};
use crate::output::control_fields::{control_facts, control_fields, control_object};
use crate::output::json::{ClusterJson, FileJson, Item, RingJson, lsn_text};
use crate::output::sink::CsvShape;
use crate::output::table::write_files;
use crate::output::text::{Layout, write_described, write_fact, write_rings};
use crate::parsers::dwb::Knowledge;

/// Settings that say how pages are protected.
const SETTINGS: [&str; 5] = [
    "double_write_buffer",
    "double_write_buffer_size",
    "io_torn_pages_protection",
    "full_page_writes",
    "wal_log_hints",
];

/// Show the state of a cluster and of its double write buffer
///
/// Shows identity, state, checkpoint and redo point, data checksums, layout and geometry of the double write buffer, how
/// many slots are used, good and bad, and which batch they belong to; then what looks inconsistent, and why that
/// matters.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct InfoArgs {
    /// Data directory; also a double write buffer directory (pg_dwbuf or pg_dwb), or single files of one
    #[arg(value_name = "DATADIR")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    /// Print every field of pg_control as well
    #[arg(long)]
    control: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &InfoArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let paths = args.pgdata.choose_all(&args.paths)?;
    let InfoReport { source, cluster, dwb: report, findings } = inspect_info(&paths)?;
    let cluster = source
        .directory
        .as_ref()
        .zip(cluster.as_ref())
        .map(|(directory, cluster)| cluster_json(directory, &source.settings, cluster));
    let files: Vec<FileJson> =
        source.set.files.iter().zip(&report.files).map(|(file, counts)| FileJson::new(file, counts)).collect();
    let closing = Closing::new(findings, &report.coverage);
    if let Some(format) = args.output.machine() {
        let paths = paths.iter().map(|path| path.display().to_string()).collect();
        let mut sink = begin(format, CsvShape::Pairs, out, (PROGRAM, "info"), paths)?;
        if let Some(cluster) = cluster {
            sink.item(&Item::Cluster(cluster))?;
        }
        let shown = files.len() as u64;
        for summary in report.staleness.summaries() {
            sink.item(&Item::Ring(RingJson::new(&summary)))?;
        }
        for file in files {
            sink.item(&Item::File(file))?;
        }
        return Ok(closing.end(sink, shown, counts(&report))?.into());
    }
    let layout = args.output.layout();
    if let Some((directory, cluster)) = source.directory.as_ref().zip(cluster) {
        write_cluster(out, layout, directory, &cluster, args.control)?;
    }
    write_described(out, &source.set)?;
    write_rings(out, layout, &report.staleness.summaries())?;
    write_buffer(out, layout, &report, &files)?;
    Ok(closing.end_text(out, layout)?.into())
}

fn cluster_json(directory: &DataDir, settings: &Settings, cluster: &ClusterSummary) -> ClusterJson {
    ClusterJson {
        path: directory.root().display().to_string(),
        major: directory.major().number(),
        state_in_words: Some(&cluster.condition).filter(|state| state.is_known()).map(ToString::to_string),
        state_code: cluster.condition.code(),
        server: server_name(&cluster.server),
        control: directory.control().known().map(control_object),
        settings: SETTINGS.into_iter().filter_map(|name| Some((name.to_owned(), json!(settings.get(name)?)))).collect(),
        databases: cluster.databases,
        relation_files: cluster.relation_files,
        relation_bytes: cluster.relation_bytes,
        tablespaces: cluster.tablespaces,
    }
}

const fn server_name(server: &ServerSign) -> &'static str {
    match server {
        ServerSign::NoPidFile => "none",
        ServerSign::ProcessGone { .. } => "gone",
        ServerSign::OtherProcess { .. } => "other_process",
        ServerSign::Running { .. } => "running",
        ServerSign::Zombie { .. } => "zombie",
        ServerSign::MayRun { .. } | ServerSign::Unclear { .. } | ServerSign::Hidden { .. } => "unclear",
        ServerSign::Unreadable(_) => "unreadable",
    }
}

fn counts(report: &DwbReport) -> Map<String, Value> {
    let sum = |of: fn(&crate::analysis::dwb::report::FileReport) -> u64| report.files.iter().map(of).sum::<u64>();
    let horizon = report.staleness.horizon().map(|horizon| lsn_text(horizon.lsn));
    [
        ("used", json!(sum(|file| file.counts.used()))),
        ("good", json!(sum(|file| file.counts.good))),
        ("bad", json!(sum(|file| file.counts.bad()))),
        ("current", json!(sum(|file| file.current))),
        ("stale", json!(sum(|file| file.stale))),
        ("undecided", json!(sum(|file| file.undecided))),
        ("horizon_lsn", json!(horizon)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn write_cluster(
    out: &mut dyn Write,
    layout: Layout,
    directory: &DataDir,
    cluster: &ClusterJson,
    every_field: bool,
) -> std::io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("Cluster"))?;
    let mut fact = |label: &str, value: &str| write_fact(out, layout, label, value);
    fact("data directory", &cluster.path)?;
    fact("version", directory.version())?;
    if let Some(words) = &cluster.state_in_words {
        fact("what happened", words)?;
    }
    if let Some(control) = directory.control().known() {
        for (label, value) in control_facts(control) {
            fact(label, &value)?;
        }
    }
    let (files, bytes, databases) = (cluster.relation_files, cluster.relation_bytes, cluster.databases);
    let elsewhere = match cluster.tablespaces {
        0 => String::new(),
        1 => ", 1 tablespace elsewhere".to_owned(),
        count => format!(", {count} tablespaces elsewhere"),
    };
    fact("relations", &format!("{files} files, {bytes} bytes, {databases} databases{elsewhere}"))?;
    for (name, value) in &cluster.settings {
        fact(name, value.as_str().unwrap_or_default())?;
    }
    if let Some(control) = directory.control().known().filter(|_| every_field) {
        writeln!(out, "\n{}", layout.paint.heading("pg_control"))?;
        for field in control_fields(control) {
            let label = format!("{}:", field.label.unwrap_or(field.key));
            writeln!(out, "  {label:<38}{}", field.text)?;
        }
    }
    writeln!(out)
}

fn write_buffer(out: &mut dyn Write, layout: Layout, report: &DwbReport, files: &[FileJson]) -> std::io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", layout.paint.heading("Double write buffer"))?;
    let mut fact = |label: &str, value: &str| write_fact(out, layout, label, value);
    match report.staleness.horizon() {
        Some(horizon) => {
            let from = if horizon.from_control { "pg_control" } else { "the file headers" };
            fact(
                "last checkpoint",
                &format!("ended at {}, by {from}; slots with a higher LSN are newer", horizon.lsn),
            )?;
        }
        None if files.iter().all(|file| file.knowledge == Knowledge::SeenBuilt.code()) => {}
        None => fact("last checkpoint", "unknown: neither the file headers nor pg_control say")?,
    }
    let sum = |of: fn(&FileJson) -> u64| files.iter().map(of).sum::<u64>();
    let (used, slots) = (sum(|file| file.used), sum(|file| file.slots));
    fact("slots", &format!("{slots}, of which {used} were ever written"))?;
    let (good, bad, unverifiable) = (sum(|file| file.good), sum(|file| file.bad), sum(|file| file.unverifiable));
    fact("slot CRC", &format!("{good} good, {bad} bad, {unverifiable} unverifiable"))?;
    let (current, stale, undecided) = (sum(|f| f.current), sum(|f| f.stale), sum(|f| f.undecided));
    fact("batch", &format!("{current} current, {stale} stale, {undecided} undecided"))?;
    let (checkpoint, eviction) = (sum(|f| f.from_checkpoint), sum(|f| f.from_eviction));
    if checkpoint + eviction > 0 {
        fact("written by", &format!("checkpoint {checkpoint}, eviction {eviction}, by page checksum"))?;
    }
    writeln!(out)?;
    write_files(out, files)
}
