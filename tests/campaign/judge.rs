//! One variant of a crash: faults, `check`, repair, start; compared with the same crash whose data pages are whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pgforensics::analysis::pages::page_mask::differences;
use pgforensics::parsers::page::PageHeader;
use pgforensics::parsers::page_kind::PageKind;
use pgforensics::types::{ForkNumber, PageId, RelFileLocator};
use serde_json::{Value, json};

use super::buffer;
use super::crash::{Crash, text};
use super::draw::Draw;
use super::faults::{self, Fault, Place, Versions};
use super::settings::Family;
use super::state;
use crate::common::live::Server;

/// How `pg_dwbinspect` is run: a program and its first arguments.
#[derive(Clone)]
pub struct Inspector(pub Vec<String>);

/// Longest time that one command may take.
const SECONDS: &str = "300";

/// What a command said.
pub struct Said {
    pub status: i32,
    pub lines: Vec<Value>,
    pub errors: String,
}

impl Inspector {
    /// Runs a command in this directory with NDJSON; a status of 124 when it takes too long.
    pub fn run(&self, at: &Path, arguments: &[&str]) -> Said {
        let mut command = Command::new("timeout");
        command.current_dir(at);
        command.args(["-k", "5", SECONDS]).args(&self.0).args(arguments).args(["--format", "ndjson"]);
        command.env("TZ", "UTC").env("LC_ALL", "C");
        let output = command.output().expect("timeout runs");
        let lines = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Said { status: output.status.code().unwrap_or(-1), lines, errors }
    }
}

impl Said {
    fn of_type(&self, wanted: &str) -> Vec<&Value> {
        self.lines.iter().filter(|line| line["type"] == *wanted).collect()
    }

    fn summary(&self) -> Value {
        self.of_type("summary").pop().cloned().unwrap_or_default()
    }
}

/// The same crash with whole pages: what `check` says of it, and what its server holds.
pub struct Reference {
    pub reported: BTreeSet<Place>,
    pub state: String,
    pub predicted: String,
    pub pages: BTreeMap<Place, Versions>,
}

/// A start of a copy, and what came of it.
struct Start {
    server: Server,
    is_up: bool,
    log: String,
    state: String,
    wrong_checksums: BTreeSet<Place>,
}

fn start(server: Server, checksums: bool) -> Start {
    // The machine stays up, and syncs take most of the time of a start.
    server.configure("fsync = off\n");
    let is_up = server.launch(&[]);
    let state = if is_up { state::ask(&server) } else { String::new() };
    // One that neither comes up nor ends would be called one that does not start.
    assert!(is_up || server.processes().is_empty(), "the server neither starts nor ends: {}", tail(&server.log()));
    if is_up {
        server.run("pg_ctl", &["stop", "-w", "-t", "60", "-m", "fast", "-D", text(&server.data())]);
    }
    let wrong_checksums = if is_up && checksums { state::wrong_checksums(&server.data()) } else { BTreeSet::new() };
    let log = server.log();
    Start { server, is_up, log, state, wrong_checksums }
}

fn place_of(page: &Value) -> Place {
    (PathBuf::from(page["path"].as_str().unwrap_or_default()), page["block"].as_u64().unwrap_or(u64::MAX))
}

/// More WAL and copies, as arguments.
fn more(crash: &Crash) -> Vec<String> {
    let mut more = Vec::new();
    if let Some(primary) = &crash.primary {
        more.extend(["--wal".to_owned(), text(&primary.data().join("pg_wal")).to_owned()]);
    }
    if let Some(donor) = crash.donor.as_ref().filter(|_| crash.settings.donor) {
        more.extend(["--donor".to_owned(), text(&donor.data()).to_owned()]);
    }
    more
}

impl Reference {
    /// # Errors
    /// When even this does not start, or does not hold together.
    pub fn of(crash: &Crash, inspector: &Inspector) -> Result<Self, String> {
        let data = crash.image.data();
        let pages = faults::pages(&crash.unsynced, &data);
        let more = more(crash);
        let arguments: Vec<&str> = ["check", text(&data)].into_iter().chain(more.iter().map(String::as_str)).collect();
        let said = inspector.run(crash.image.host(), &arguments);
        let summary = said.summary();
        let predicted = summary["on_start"]["start"].as_str().unwrap_or("nothing").to_owned();
        let begun = start(crash.image.copy(), crash.settings.checksums);
        if !begun.is_up {
            return Err(format!("the whole crash does not start (foretold: {predicted}): {}", tail(&begun.log)));
        }
        if begun.state.contains("ERROR") {
            let lines: Vec<&str> = begun.state.lines().filter(|line| line.contains("ERROR")).take(3).collect();
            return Err(format!("the whole crash has damage (foretold: {predicted}): {lines:?}"));
        }
        if ["stops", "cannot_begin", "invalid_pages", "backup_incomplete"].contains(&predicted.as_str()) {
            return Err(format!("wrong prediction: {predicted} of the whole crash, which starts"));
        }
        let reported = said.of_type("page").into_iter().map(place_of).collect();
        Ok(Self { reported, state: begun.state, predicted, pages })
    }
}

/// The last lines of a log.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.contains(" LOG:  checkpoint ")).collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

/// Makes the variant with this number of a crash; says what came of it, as JSON. Wrong answers are in `wrong`.
pub fn judge(
    crash: &Crash,
    reference: &Reference,
    inspector: &Inspector,
    draw: &mut Draw,
    keep: bool,
) -> Result<Value, String> {
    let fails = |error: std::io::Error| error.to_string();
    let (settings, checksums) = (&crash.settings, crash.settings.checksums);
    let mut damaged = crash.image.copy();
    let data = damaged.data();
    let faults = faults::tear(&data, &reference.pages, draw).map_err(fails)?;
    let slots = if settings.own_buffer {
        faults::tear_buffer(&data, &crash.unsynced, draw).map_err(fails)?
    } else if settings.put_buffer {
        buffer::put_in(&data, &reference.pages, settings.programs.major, draw).map_err(fails)?
    } else {
        0
    };
    let more = more(crash);
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let said = inspector.run(damaged.host(), &[&["check", text(&data)], &more[..]].concat());
    let summary = said.summary();
    let mut wrong: Vec<String> = Vec::new();
    if said.status == 124 || !(0..=2).contains(&said.status) || said.errors.contains("panicked") || summary.is_null() {
        wrong.push(format!("check: status {}: {}", said.status, said.errors));
    }
    let found: BTreeMap<Place, &Value> = said.of_type("page").into_iter().map(|page| (place_of(page), page)).collect();

    let torn: BTreeMap<&Place, &Fault> = faults.iter().filter(|(_, fault)| fault.torn).collect();
    let fails_checksum = |place: &Place, fault: &Fault| checksums && state::is_wrong(&fault.on_disk, place.1);
    let missed: Vec<String> = torn
        .iter()
        .filter(|(place, fault)| fails_checksum(place, fault) && !found.contains_key(**place))
        .map(|(place, _)| name(place))
        .collect();
    if !missed.is_empty() {
        wrong.push(format!("missed: {missed:?}"));
    }
    let changed: Vec<&Place> =
        torn.iter().filter(|(place, fault)| changes_a_row(place, fault)).map(|(place, _)| *place).collect();
    let is_unseen = |place: &&&Place| !found.contains_key(**place);
    let unseen: Vec<String> =
        changed.iter().filter(is_unseen).map(|place| format!("{} {}", name(place), kind(&faults[*place]))).collect();
    let alarms: Vec<String> = found
        .keys()
        .filter(|place| !torn.contains_key(place) && !reference.reported.contains(place))
        .map(name)
        .collect();
    if !alarms.is_empty() {
        wrong.push(format!("false alarms: {alarms:?}"));
    }
    let verdict = |place: &Place| found.get(place).and_then(|page| page["verdict"].as_str()).unwrap_or("");
    let of_verdict = |wanted: &[&str]| found.keys().filter(|place| wanted.contains(&verdict(place))).count();

    // What the server does with it as it is.
    let before = start(damaged.copy(), checksums);
    let on_start = &summary["on_start"];
    let predicted = on_start["start"].as_str().unwrap_or("nothing");
    if let Some(why) = contradiction(on_start, &before) {
        wrong.push(format!("prediction: {why}: {}", tail(&before.log)));
    }
    if summary["exit_status"] == 0 && (!before.is_up || before.state != reference.state) {
        wrong.push(format!("safe as it is: {}", difference(&reference.state, &before.state)));
    }
    if let Some(place) = before.wrong_checksums.iter().find(|place| verdict(place) == "heals_in_replay") {
        wrong.push(format!("heals not: {}", name(place)));
    }

    // What is proven is put back; all other torn pages get what the server meant to write, so that only claims are tested.
    let repaired = damaged.copy();
    let journal = repaired.host().join("journal");
    let data_of_repaired = repaired.data();
    let mut arguments = vec!["repair", text(&data_of_repaired)];
    arguments.extend(["--apply", "--allow-other-user", "--journal", text(&journal)]);
    arguments.extend(&more);
    if settings.family == Family::Standby {
        arguments.push("--allow-standby");
    }
    let bin = text(&settings.programs.bin).to_owned();
    if settings.rebuild {
        arguments.extend(["--rebuild", "--pg-bin", &bin]);
    }
    let done = inspector.run(repaired.host(), &arguments);
    if done.status == 124 || !(0..=2).contains(&done.status) || done.errors.contains("panicked") {
        wrong.push(format!("repair: status {}: {}", done.status, done.errors));
    }
    let steps: BTreeSet<Place> = done.of_type("step").into_iter().map(place_of).collect();
    let rebuilt = done.of_type("step").into_iter().filter(|step| step["source"] == "rebuilt").count();
    let written: BTreeSet<&Place> = steps.iter().filter(|place| differs(&data, &data_of_repaired, place)).collect();
    let claims = |place: &Place| ["heals_in_replay", "leave"].contains(&verdict(place)) || written.contains(place);
    let mut filled = 0;
    for place in torn.keys().filter(|place| !claims(place)) {
        let whole = reference.pages.get(*place).and_then(|versions| versions.all.last()).ok_or("no versions")?;
        faults::write_at(&data_of_repaired, place, whole).map_err(fails)?;
        filled += 1;
    }
    let nothing_done = written.is_empty() && filled == 0;
    let after = if nothing_done { None } else { Some(start(repaired, checksums)) };
    let last = after.as_ref().unwrap_or(&before);
    if !last.is_up {
        wrong.push(format!("does not start after the repair: {}", tail(&last.log)));
    } else if last.state != reference.state {
        wrong.push(format!("other rows after the repair: {}", difference(&reference.state, &last.state)));
    } else if let Some(place) = last.wrong_checksums.iter().find(|place| verdict(place) != "leave") {
        wrong.push(format!("wrong checksum after the repair: {} ({})", name(place), verdict(place)));
    }

    // Replay makes of some torn pages what it makes of whole ones; that of the other start had them whole. Unlogged tables are
    // emptied.
    let is_harmless = |place: &&&Place| match &after {
        Some(after) if before.is_up && after.is_up => {
            is_unlogged(&data, place) || is_same_page(place, &before.server.data(), &after.server.data())
        }
        _ => false,
    };
    let harmless = changed.iter().filter(is_unseen).filter(is_harmless).count();
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    for (place, page) in found.iter().filter(|(place, _)| !claims(place)) {
        let why =
            page["reason_codes"].as_array().and_then(|codes| codes.first()).and_then(Value::as_str).unwrap_or("-");
        *refused.entry(format!("{}: {why}", verdict(place))).or_default() += 1;
    }
    let mut result = json!({
        "torn": torn.len(), "old": faults.len() - torn.len(), "slots": slots,
        "failing": torn.iter().filter(|(place, fault)| fails_checksum(place, fault)).count(),
        "changed": changed.len(), "found": found.len(), "missed": missed.len(), "unseen": unseen.len(),
        "unseen_pages": unseen, "harmless": harmless, "false_alarms": alarms.len(), "healed": of_verdict(&["heals_in_replay"]),
        "left": of_verdict(&["leave"]), "restored": written.len() - rebuilt.min(written.len()), "rebuilt": rebuilt,
        "refused": refused, "predicted": predicted, "started": before.is_up, "status": said.status,
        "doubts": summary["doubt_codes"], "wrong": wrong,
    });
    if keep || !wrong.is_empty() {
        let check: String = said.lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(damaged.host().join("check.ndjson"), check).map_err(fails)?;
        fs::write(damaged.host().join("whole_state"), &reference.state).map_err(fails)?;
        damaged.keep();
        let mut kept = vec![damaged.host().display().to_string()];
        for mut start in [before].into_iter().chain(after) {
            fs::write(start.server.host().join("state"), &start.state).map_err(fails)?;
            start.server.keep();
            kept.push(start.server.host().display().to_string());
        }
        result["kept"] = json!(kept);
    }
    Ok(result)
}

/// How a start was not what was foretold.
fn contradiction(on_start: &Value, start: &Start) -> Option<String> {
    let predicted = on_start["start"].as_str().unwrap_or("nothing");
    let at = on_start["stops_at"].as_str().unwrap_or_default();
    let contradicts = match predicted {
        "completes" | "without_replay" | "not_usable" => !start.is_up,
        // Servers before 19 print LSNs without leading zeros; one that dies says nothing.
        "stops" => {
            let (high, low) = at.split_once('/').unwrap_or_default();
            let short = format!("redo at {high}/{:X} ", u32::from_str_radix(low, 16).unwrap_or(0));
            let says = on_start["may_stop_before"] == true
                || [short, format!("redo at {at} ")].iter().any(|redo| start.log.contains(redo.as_str()));
            start.is_up || !(says || start.log.contains("terminated by signal"))
        }
        "invalid_pages" => start.is_up || !start.log.contains("WAL contains references to invalid pages"),
        "cannot_begin" | "backup_incomplete" => start.is_up,
        "may_stop" | "depends_on_dwb" | "unknown" => false,
        _ => true,
    };
    let is_up = if start.is_up { "starts" } else { "does not start" };
    contradicts.then(|| format!("{predicted} {at}, and the server {is_up}"))
}

fn name((path, block): &Place) -> String {
    format!("{}:{block}", path.display())
}

/// True when a page has other bytes in two directories.
fn differs(one: &Path, other: &Path, place: &Place) -> bool {
    read_at(one, place) != read_at(other, place)
}

/// True when a page is gone from both, or says the same in both but for hint bits and unused space.
fn is_same_page(place: &Place, one: &Path, other: &Path) -> bool {
    match (read_at(one, place), read_at(other, place)) {
        (Some(one), Some(other)) => page_id(place).is_some_and(|page| differences(page, &one, &other).is_empty()),
        (one, other) => one == other,
    }
}

/// True when a relation has an initial fork, with which a start after a crash replaces it.
fn is_unlogged(data: &Path, (path, _): &Place) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let relation: String = name.chars().take_while(char::is_ascii_digit).collect();
    data.join(path).with_file_name(format!("{relation}_init")).exists()
}

fn read_at(data: &Path, (path, block): &Place) -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut page = vec![0; faults::PAGE];
    let file = fs::File::open(data.join(path)).ok()?;
    file.read_exact_at(&mut page, block * faults::PAGE as u64).ok()?;
    Some(page)
}

fn page_id(place: &Place) -> Option<PageId> {
    let ([spc, db, rel], fork) = buffer::locator(&place.0)?;
    let forks = [ForkNumber::Main, ForkNumber::Fsm, ForkNumber::Vm, ForkNumber::Init];
    let rel = RelFileLocator { spc_oid: spc, db_oid: db, rel_number: rel };
    let fork = *forks.get(usize::from(fork))?;
    Some(PageId { rel, fork, block: u32::try_from(place.1).unwrap_or(u32::MAX) })
}

/// What kind of page it was to be.
fn kind(fault: &Fault) -> String {
    let page = fault.versions.last().map(Vec::as_slice).unwrap_or_default();
    let header = PageHeader::decode(0, page).ok();
    header.map_or_else(String::new, |header| format!("{:?}", PageKind::of(&header, page, ForkNumber::Main)))
}

/// True when more than hints and unused space keeps a torn page from being one of its versions.
fn changes_a_row(place: &Place, fault: &Fault) -> bool {
    let Some(page) = page_id(place) else { return true };
    // A free space map holds no rows, and corrects itself.
    page.fork != ForkNumber::Fsm
        && fault.versions.iter().all(|version| !differences(page, version, &fault.on_disk).is_empty())
}

/// The first lines in which two states differ.
fn difference(whole: &str, other: &str) -> String {
    let (whole, other): (Vec<&str>, Vec<&str>) = (whole.lines().collect(), other.lines().collect());
    let missing: Vec<&&str> = whole.iter().filter(|line| !other.contains(line)).take(3).collect();
    let new: Vec<&&str> = other.iter().filter(|line| !whole.contains(line)).take(3).collect();
    format!("whole: {missing:?}, here: {new:?}")
}
