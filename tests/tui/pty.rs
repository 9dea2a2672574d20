//! The real program on a real pseudo-terminal: what a user sees, and the terminal that it leaves.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::{arg, cluster, copy_of, copy_tree, dwbinspect, run};
use pgforensics::analysis::verdict::judge::Verdict;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// Longest time that something may take to appear.
const PATIENCE: Duration = Duration::from_secs(60);

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("cells")
}

/// A program on a terminal of 80 by 24.
pub struct Session {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    input: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    raw: Arc<Mutex<Vec<u8>>>,
    /// Takes what the program writes, until nobody has the terminal open any more.
    reader: thread::JoinHandle<()>,
    /// Settings of the terminal before the program ran.
    before: String,
    pub directory: tempfile::TempDir,
}

impl Session {
    pub fn start(program: &str, args: &[&str]) -> Self {
        Self::start_with(program, args, &[])
    }

    fn start_with(program: &str, args: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().expect("temporary directory"), program, args, environment)
    }

    fn start_in(directory: tempfile::TempDir, program: &str, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("pseudo-terminal");
        let mut command = CommandBuilder::new(assert_cmd::cargo::cargo_bin(program));
        command.args(args);
        command.cwd(directory.path());
        command.env("TERM", "xterm-256color");
        command.env("XDG_CONFIG_HOME", directory.path());
        command.env("LANG", "C.UTF-8");
        command.env_remove("LC_ALL");
        command.env_remove("NO_COLOR");
        for (name, value) in environment {
            command.env(name, value);
        }
        let before = format!("{:?}", pair.master.get_termios());
        let child = pair.slave.spawn_command(command).expect("program starts");
        let mut output = pair.master.try_clone_reader().expect("reader");
        let input = pair.master.take_writer().expect("writer");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(cells(24), cells(80), 0)));
        let raw = Arc::new(Mutex::new(Vec::new()));
        let (drawn, kept) = (Arc::clone(&screen), Arc::clone(&raw));
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = output.read(&mut bytes) {
                if count == 0 {
                    break;
                }
                drawn.lock().expect("screen").process(&bytes[..count]);
                kept.lock().expect("output").extend_from_slice(&bytes[..count]);
            }
        });
        Self { child, master: pair.master, input, screen, raw, reader, before, directory }
    }

    fn picture(&self) -> String {
        self.screen.lock().expect("screen").screen().contents()
    }

    /// Waits until the words are on the screen.
    pub fn see(&self, words: &str) {
        self.wait(words, |picture| picture.contains(words));
    }

    fn wait(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let start = Instant::now();
        while !holds(&self.picture()) {
            assert!(start.elapsed() < PATIENCE, "never seen: {what}\n{}", self.picture());
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn send(&mut self, keys: &str) {
        self.input.write_all(keys.as_bytes()).and_then(|()| self.input.flush()).expect("terminal takes keys");
    }

    /// Waits for the end; the exit status.
    pub fn end(&mut self) -> u32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("status") {
                // What was written last may still be on its way, on a busy machine for long.
                while !self.reader.is_finished() {
                    assert!(start.elapsed() < PATIENCE, "the terminal stays open\n{}", self.picture());
                    thread::sleep(Duration::from_millis(1));
                }
                return status.exit_code();
            }
            assert!(start.elapsed() < PATIENCE, "does not end\n{}", self.picture());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let process = self.child.process_id().and_then(|id| rustix::process::Pid::from_raw(id as i32));
        rustix::process::kill_process(process.expect("process"), signal).expect("signal");
    }

    /// The terminal is as it was: own screen left, cursor shown, mouse let go, settings restored.
    pub fn assert_given_back(&self) {
        let parser = self.screen.lock().expect("screen");
        let screen = parser.screen();
        assert!(!screen.alternate_screen(), "the other screen is still there");
        assert!(!screen.hide_cursor(), "the cursor is hidden");
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        assert_eq!(format!("{:?}", self.master.get_termios()), self.before, "settings of the terminal");
    }
}

/// Keys and colours of the user's file, and its faults, in the real program.
#[test]
fn settings_of_the_user_are_read() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let place = directory.path().join("pgforensics");
    fs::create_dir(&place).expect("directory");
    fs::write(place.join("screen.toml"), "[keys]\nmark = \"x\"\nquite = \"Q\"\n").expect("settings");
    let mut session = Session::start_in(directory, "pg_dwbinspect", &["tui", arg(&cluster("checkpoint"))], &[]);
    session.see("screen.toml line 3: unknown action quite");
    session.see("6 restore");
    session.send("jx");
    session.see("1 page is marked");
    session.send("qq");
    session.end();
    session.assert_given_back();
}

#[test]
fn open_look_around_save_a_plan_and_leave() {
    let mut session = Session::start("pg_dwbinspect", &["tui", arg(&cluster("checkpoint"))]);
    session.see("6 restore");
    session.see("WILL NOT START");
    assert!(session.screen.lock().expect("screen").screen().alternate_screen());
    assert_ne!(format!("{:?}", session.master.get_termios()), session.before, "raw mode");
    session.send("j\r");
    session.see("pg_class block 0");
    session.see("dwbuf_000 slot 1584");
    session.send("pn");
    session.see("on disk");
    session.send("\u{1b}");
    session.see("6 restore");
    session.send("3");
    session.see("3057 of 3057 slots");
    session.send("/torn\r");
    session.see("match \"torn\"");
    session.send("?");
    session.see("Keys in Slots");
    session.send("?6");
    session.see("6 pages would be overwritten");
    session.send("w");
    session.see("plan saved");
    session.send("y");
    session.see("sent to the clipboard of the terminal: pg_dwbinspect repair");
    // First the screen that is drawn on: what is drawn beyond its edge is lost.
    session.screen.lock().expect("screen").screen_mut().set_size(cells(45), cells(140));
    session.master.resize(PtySize { rows: 45, cols: 140, pixel_width: 0, pixel_height: 0 }).expect("resize");
    session.send("1");
    session.see("replay      0/");
    session.send("q");
    assert_eq!(session.end(), 1, "as check");
    session.assert_given_back();
    session.see("damaged pages: 7");
    let plan = fs::read_to_string(session.directory.path().join("repair_plan.json")).expect("plan");
    assert!(plan.contains("\"steps\""));
    let raw = session.raw.lock().expect("output").clone();
    assert!(String::from_utf8_lossy(&raw).contains("\u{1b}]52;c;"), "the command line went to the clipboard");
}

#[test]
fn first_picture_and_answers_come_at_once() {
    let start = Instant::now();
    let mut session = Session::start("pg_dwbinspect", &["tui", arg(&cluster("wrapped"))]);
    session.see("1 Triage");
    let first = start.elapsed();
    // Whether or not the cluster has been read by now.
    let start = Instant::now();
    session.send("?");
    session.see("Keys in Triage");
    let answer = start.elapsed();
    // The first closes the help.
    session.send("qq");
    session.end();
    // Far more than is wanted, for a machine that is busy with other tests: the bench measures.
    assert!(first < Duration::from_secs(5) && answer < Duration::from_secs(2), "{first:?} {answer:?}");
}

#[test]
fn signals_leave_a_whole_terminal() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::HUP, rustix::process::Signal::INT] {
        let mut session = Session::start("pg_dwbinspect", &["tui", arg(&cluster("checkpoint"))]);
        session.see("1 Triage");
        session.signal(signal);
        assert_ne!(session.end(), 0, "{signal:?}");
        session.assert_given_back();
    }
}

#[test]
fn crash_report_is_written_with_what_was_pressed() {
    let data = cluster("checkpoint");
    let mut session = Session::start("pg_dwbinspect", &["tui", arg(&data)]);
    session.see("6 restore");
    session.send("j3");
    session.see("slot");
    session.send("R");
    session.see("crash report written");
    session.send("q");
    assert_eq!(session.end(), 1);
    let read = |name: &str| std::fs::read_to_string(session.directory.path().join(name)).expect("report");
    let (page, markdown) = (read("crash_report.html"), read("crash_report.md"));
    assert!(page.starts_with("<!DOCTYPE html>"));
    // Counts by verdict are those of the command, and the keys stand there in their views.
    let check = common::dwbinspect(&["check", arg(&data), "--format", "ndjson"]);
    let verdicts = &check.of_type("summary")[0]["verdicts"];
    for (name, count) in verdicts.as_object().expect("verdicts").iter().filter(|(_, count)| **count != 0) {
        let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.name() == name).expect("a verdict");
        let row = format!("| **{}** | {count} |", verdict.facts().label);
        assert!(markdown.contains(&row), "{row}\n{markdown}");
    }
    for (view, key) in [("Triage", "j"), ("Triage", "3"), ("Slots", "R")] {
        assert!(markdown.contains(&format!("| {view} | `{key}` |")), "{view} {key}\n{markdown}");
    }
    // What is in one is in the other.
    let sections = page.matches("<h2>").count();
    assert!(sections > 8 && markdown.matches("\n## ").count() + markdown.matches("\n**").count() >= sections - 1);
}

/// Its digests would be those of other files than the ones that were examined.
#[test]
fn crash_report_of_files_that_changed_since_is_not_written() {
    let kept = tempfile::tempdir().expect("temporary directory");
    let data = kept.path().join("data");
    copy_tree(&cluster("checkpoint"), &data);
    let mut session = Session::start("pg_dwbinspect", &["tui", arg(&data)]);
    session.see("6 restore");
    let control = data.join("global/pg_control");
    std::fs::write(&control, std::fs::read(&control).expect("file")).expect("file");
    session.send("R");
    session.see("files have changed: r reads them again, then R writes the report");
    session.send("q");
    session.end();
    assert!(!session.directory.path().join("crash_report.html").exists());
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn demo_is_gone_however_it_is_left() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let environment = [("TMPDIR", arg(temporary.path()))];
    let left = || std::fs::read_dir(temporary.path()).expect("directory").count();
    for signal in [None, Some(rustix::process::Signal::TERM), Some(rustix::process::Signal::HUP)] {
        let mut session = Session::start_with("pg_dwbinspect", &["demo"], &environment);
        session.see("6 restore");
        assert_eq!(left(), 1);
        match signal {
            Some(signal) => session.signal(signal),
            None => session.send("q"),
        }
        assert_eq!(session.end() == 0, signal.is_none(), "{signal:?}");
        session.assert_given_back();
        assert_eq!(left(), 0, "{signal:?}");
    }
}

#[test]
fn suspended_program_gives_the_terminal_back_and_takes_it_again() {
    let mut session = Session::start("pg_dwbinspect", &["tui", arg(&cluster("checkpoint"))]);
    session.see("6 restore");
    session.send("\u{1a}");
    let start = Instant::now();
    while session.screen.lock().expect("screen").screen().alternate_screen() {
        assert!(start.elapsed() < PATIENCE, "never suspended");
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(200));
    session.assert_given_back();
    session.signal(rustix::process::Signal::CONT);
    session.see("6 restore");
    assert!(session.screen.lock().expect("screen").screen().alternate_screen());
    session.send("2");
    session.see("a current");
    session.send("q");
    assert_eq!(session.end(), 1);
    session.assert_given_back();
}

/// Directories that no screen can be shown of, and a word of what is said.
fn bad_directories(place: &Path) -> Vec<(PathBuf, &'static str)> {
    let damaged = place.join("damaged");
    copy_tree(&cluster("clean").join("global"), &damaged.join("global"));
    fs::write(damaged.join("PG_VERSION"), "19\n").expect("write");
    let control = damaged.join("global/pg_control");
    let mut bytes = fs::read(&control).expect("read");
    bytes[20] ^= 1;
    fs::write(&control, bytes).expect("write");
    fs::create_dir(place.join("empty")).expect("directory");
    fs::create_dir(place.join("other")).expect("directory");
    fs::write(place.join("other/file"), "x").expect("write");
    fs::write(place.join("file"), "x").expect("write");
    let mut bad = vec![
        (damaged, "pg_control is missing or damaged"),
        (place.join("empty"), "PG_VERSION"),
        (place.join("other"), "PG_VERSION"),
        (place.join("file"), "file"),
        (place.join("nowhere"), "nowhere"),
    ];
    if rustix::process::geteuid().is_root() {
        common::skipped("root may read what nobody else may");
    } else {
        let closed = place.join("closed");
        fs::create_dir(&closed).expect("directory");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("mode");
        bad.push((closed, "closed"));
    }
    bad
}

#[test]
fn bad_directory_is_told_on_the_normal_screen() {
    let place = tempfile::tempdir().expect("temporary directory");
    for (path, words) in bad_directories(place.path()) {
        let mut session = Session::start("pg_dwbinspect", &["tui", arg(&path)]);
        assert_eq!(session.end(), 2, "{}", path.display());
        session.assert_given_back();
        let raw = String::from_utf8_lossy(&session.raw.lock().expect("output")).into_owned();
        assert!(!raw.contains("\u{1b}[?1049h"), "{}: the other screen was shown", path.display());
        // A line that is full ends in the middle of a word, or loses the space at its end.
        let without_spaces = |text: &str| text.split_whitespace().collect::<String>();
        let (picture, words) = (without_spaces(&session.picture()), without_spaces(words));
        assert!(picture.contains(&words), "{}: {}", path.display(), session.picture());
    }
    let mut session = Session::start("pg_walfpi", &["tui", arg(&place.path().join("empty"))]);
    assert_eq!(session.end(), 2);
    session.assert_given_back();
    // WAL that was named and is none is found only while the cluster is read.
    let wal = place.path().join("nowhere");
    let mut session = Session::start("pg_dwbinspect", &["tui", arg(&cluster("checkpoint")), "--wal", arg(&wal)]);
    assert_eq!(session.end(), 2);
    session.assert_given_back();
    assert!(session.picture().contains("pg_dwbinspect: "), "{}", session.picture());
}

#[test]
fn no_terminal_is_an_error_that_says_so() {
    for ran in
        [dwbinspect(&["tui", arg(&cluster("checkpoint"))]), run("pg_walfpi", &["tui", arg(&cluster("checkpoint"))])]
    {
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
        assert!(ran.stderr.contains("needs a terminal"), "{}", ran.stderr);
    }
    let mut session = Session::start_with("pg_dwbinspect", &["tui", arg(&cluster("checkpoint"))], &[("TERM", "dumb")]);
    assert_eq!(session.end(), 2);
    assert!(session.picture().contains("TERM=dumb"), "{}", session.picture());
}

#[test]
fn colours_and_characters_follow_the_wish() {
    let path = cluster("checkpoint");
    let coloured = |session: &Session| {
        let raw = String::from_utf8_lossy(&session.raw.lock().expect("output")).into_owned();
        (30..38)
            .chain(90..98)
            .any(|code| raw.contains(&format!("\u{1b}[{code}m")) || raw.contains(&format!(";{code}m")))
            || raw.contains("\u{1b}[38;")
    };
    let mut session = Session::start_with("pg_dwbinspect", &["tui", arg(&path)], &[("NO_COLOR", "1")]);
    session.see("6 restore");
    assert!(!coloured(&session));
    session.send("q");
    session.end();
    let mut session = Session::start("pg_dwbinspect", &["tui", "--ascii", "--color", "always", arg(&path)]);
    session.see("6 restore");
    assert!(coloured(&session));
    assert!(session.picture().is_ascii(), "{}", session.picture());
    session.send("q");
    session.end();
}

#[test]
fn wal_alone_is_shown_with_the_figures_of_stats() {
    let wal = cluster("checkpoint").join("pg_wal");
    let mut session = Session::start("pg_walfpi", &["tui", arg(&wal)]);
    session.see("full-page images");
    session.wait("causes are counted", |picture| !picture.contains("being counted"));
    let total = run("pg_walfpi", &["stats", arg(&wal), "--format", "ndjson"]).of_type("summary")[0].clone();
    let words = format!("{} records, {} full-page images", total["records"], total["fpi_count"]);
    session.see(&words);
    session.send("2");
    session.see("relation ");
    session.send("3");
    session.see("first change of the page");
    session.send("461?");
    session.see("Keys in WAL");
    assert!(!session.picture().contains("Triage"), "{}", session.picture());
    session.send("?e");
    session.see("written: ");
    session.send("q");
    let status = run("pg_walfpi", &["stats", arg(&wal)]).status;
    assert_eq!(i64::from(session.end()), i64::from(status));
    session.assert_given_back();
    assert!(session.directory.path().join("pg_walfpi_wal.json").exists());
}

/// The tab says what `kept` prints; where the catalogs are damaged, relations are numbers, and how to name them is said.
#[test]
fn wal_of_a_data_directory_shows_what_keeps_it() {
    let data = cluster("checkpoint");
    let kept = run("pg_walfpi", &["kept", "--width", "80", arg(&data)]).stdout;
    let mut session = Session::start("pg_walfpi", &["tui", arg(&data)]);
    session.see("full-page images");
    session.wait("causes are counted", |picture| !picture.contains("being counted"));
    session.send("2");
    session.see("numbers, not names");
    session.send("5");
    for line in kept.lines() {
        session.see(line.trim_end());
    }
    session.send("q");
    session.end();
}

#[test]
fn names_that_cannot_be_read_are_shown_and_decide_the_status() {
    let data = cluster("checkpoint");
    let wal = data.join("pg_wal");
    // A page of its catalogs is torn, so a name is doubtful; WAL itself is whole.
    let arguments = [arg(&wal), "--names", arg(&data)];
    assert_eq!(run("pg_walfpi", &["stats", arguments[0]]).status, 0);
    assert_eq!(run("pg_walfpi", &["stats", arguments[0], arguments[1], arguments[2]]).status, 2);
    let mut session = Session::start("pg_walfpi", &["tui", arguments[0], arguments[1], arguments[2]]);
    session.wait("causes are counted", |picture| {
        picture.contains("full-page images") && !picture.contains("being counted")
    });
    session.see("not checked: names of relations:");
    session.send("q");
    assert_eq!(session.end(), 2);
    session.assert_given_back();
}

#[test]
fn range_without_a_record_is_shown_and_decides_the_status() {
    let wal = cluster("checkpoint").join("pg_wal");
    let range = ["--start", "7/00000000", "--end", "7/00000100"];
    let arguments = [arg(&wal), range[0], range[1], range[2], range[3]];
    let stats: Vec<&str> = std::iter::once("stats").chain(arguments).collect();
    assert_eq!(run("pg_walfpi", &stats).status, 2);
    let tui: Vec<&str> = std::iter::once("tui").chain(arguments).collect();
    let mut session = Session::start("pg_walfpi", &tui);
    session.see("no record in this range");
    session.send("q");
    assert_eq!(session.end(), 2);
    session.assert_given_back();
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn crash_is_rehearsed_repaired_checked_again_and_taken_back() {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let data = temporary.path().join("data");
    copy_tree(&cluster("checkpoint"), &data);
    let class = data.join("base/5/1259");
    let torn = fs::read(&class).expect("read");
    let mut session = Session::start("pg_dwbinspect", &["tui", arg(&data)]);
    session.see("6 restore");
    session.see("WILL NOT START");
    session.send("6");
    session.see("6 pages would be overwritten");
    session.send("a");
    session.see("can be opened for writing");
    session.send("d");
    session.see("6 pages could be written now");
    assert_eq!(fs::read(&class).expect("read"), torn);
    session.send("a");
    session.see("type apply, then enter");
    session.send("apply\r");
    // Checked again: what a start would do now.
    session.see("6 pages written");
    session.see("no page would be written");
    assert_ne!(fs::read(&class).expect("read"), torn);
    let checked = dwbinspect(&["check", arg(&data), "--format", "json"]);
    assert_eq!(checked.status, 0, "{}", checked.stdout);
    session.send("qq");
    session.end();
    session.assert_given_back();
    // Another day: the journal is found.
    let mut session = Session::start("pg_dwbinspect", &["tui", arg(&data)]);
    session.see("u in Plan takes back a repair of 6 pages");
    session.send("6");
    session.see("undoes it");
    session.send("u");
    session.see("would get the old bytes back");
    session.send("u");
    session.see("type undo, then enter");
    session.send("undo\r");
    session.see("6 pages as before the repair");
    session.see("6 pages would be overwritten");
    assert_eq!(fs::read(&class).expect("read"), torn);
    session.send("qq");
    session.end();
    session.assert_given_back();
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn guided_mode_leads_from_the_first_key_to_a_repaired_cluster() {
    let (_kept, data) = copy_of("checkpoint");
    let mut session = Session::start("pg_dwbinspect", &["tui", "--guide", arg(&data)]);
    // What it says is pressed, and nothing else.
    for (says, pressed) in [
        ("next: enter  opens the page", "\r"),
        ("next: p  its rows", "p"),
        ("next: 6  the repair plan", "6"),
        ("next: d  rehearses the repair", "d"),
        ("next: a  the check before writing", "a"),
        ("next: a  asks to confirm", "a"),
        ("next: apply  type it", "apply\r"),
        ("next: 1  predicted startup now", "1"),
        ("next: q  leaves", "q"),
    ] {
        // From the plan the rehearsal shows already what is written.
        if says == "next: a  the check before writing" {
            session.wait("an answer of the rehearsal", |picture| picture.contains("next: a  "));
            if !session.picture().contains(says) {
                continue;
            }
        }
        session.see(says);
        session.send(pressed);
    }
    assert_eq!(session.end(), 0, "as check of the repaired cluster");
    session.assert_given_back();
    assert_eq!(dwbinspect(&["check", arg(&data)]).status, 0);
}

#[test]
fn palette_filter_bookmarks_and_mouse_lead_about() {
    let mut session = Session::start("pg_dwbinspect", &["tui", arg(&cluster("checkpoint"))]);
    session.see("6 restore");
    session.send(":every slot");
    session.see("commands in Triage");
    session.send("\r");
    session.see("3057 of 3057 slots");
    // The list follows what is typed.
    session.send("/torn");
    session.see("7 of 3057 slots match");
    session.send("\rb");
    session.see("kept: slot");
    session.send("1");
    session.see("6 restore");
    session.send("'");
    session.see("History");
    session.send("\r");
    session.see("match \"torn\"");
    session.send("6/pg_class");
    session.wait("a count of what matches", |picture| picture.contains(" of 7 match"));
    session.send("\u{1b}");
    session.wait("all again", |picture| !picture.contains(" of 7 match"));
    // A tab, a line, the line once more, and the wheel.
    let press = |session: &mut Session, words: &str| {
        let picture = session.picture();
        let (row, line) = picture.lines().enumerate().find(|(_, line)| line.contains(words)).expect("on the screen");
        let column = line[..line.find(words).expect("there")].chars().count();
        session.send(&format!("\u{1b}[<0;{};{}M", column + 2, row + 1));
    };
    press(&mut session, "1 Triage");
    session.see("by relation+");
    press(&mut session, "   postgres.pg_catalog.pg_class ");
    session.wait("the line is selected", |picture| picture.contains("▶  postgres.pg_catalog.pg_class "));
    press(&mut session, "▶  postgres.pg_catalog.pg_class ");
    session.see("pg_class block 0 (base/5/1259)");
    session.send("p");
    session.see("after restore");
    let selected = |picture: &str| picture.lines().find(|line| line.starts_with('▶')).map(str::to_owned);
    let before = selected(&session.picture());
    session.send("\u{1b}[<65;10;10M");
    session.wait("the wheel moves", |picture| selected(picture).is_some_and(|line| Some(line) != before));
    session.send("q");
    assert_eq!(session.end(), 1);
    session.assert_given_back();
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn journal_elsewhere_is_named_at_leaving_and_found_by_that_command() {
    let (kept, data) = copy_of("checkpoint");
    let journal = kept.path().join("kept");
    let torn = fs::read(data.join("base/5/1259")).expect("read");
    let arguments = ["tui", arg(&data), "--journal", arg(&journal)];
    let mut session = Session::start("pg_dwbinspect", &arguments);
    session.see("6 restore");
    session.send("6");
    session.see("6 pages would be overwritten");
    session.send("a");
    session.see("can be opened for writing");
    session.send("a");
    session.see("type apply, then enter");
    session.send("apply\r");
    session.see("no page would be written");
    session.send("q");
    assert_eq!(session.end(), 0);
    session.assert_given_back();
    // A line that is full is broken by the terminal.
    let flat = session.picture().replace(['\n', ' '], "");
    assert!(flat.contains(&format!("tui{}--journal{}", arg(&data), arg(&journal))), "{}", session.picture());
    let mut session = Session::start("pg_dwbinspect", &arguments);
    session.see("u in Plan takes back a repair of 6 pages");
    session.send("6");
    session.see("undoes it");
    session.send("u");
    session.see("would get the old bytes back");
    session.send("u");
    session.see("type undo, then enter");
    session.send("undo\r");
    session.see("6 pages would be overwritten");
    assert_eq!(fs::read(data.join("base/5/1259")).expect("read"), torn);
    session.send("q");
    assert_eq!(session.end(), 1);
    session.assert_given_back();
}

/// Status 1 would say that what is wrong is known.
#[test]
fn answer_of_before_files_changed_is_not_certain() {
    let (_kept, data) = copy_of("checkpoint");
    let mut session = Session::start("pg_dwbinspect", &["tui", arg(&data)]);
    session.see("6 restore");
    fs::write(data.join("standby.signal"), "").expect("write");
    session.see("files have changed since they were read");
    session.send("q");
    assert_eq!(session.end(), 2);
    session.assert_given_back();
    session.see("outdated since then");
}
