//! What is drawn for one crash: the server, its settings, and when it crashes.

use std::path::PathBuf;
use std::process::Command;

use super::draw::Draw;
use crate::common::live;

/// Server programs that can be used.
#[derive(Clone)]
pub struct Programs {
    pub bin: PathBuf,
    pub client: PathBuf,
    pub major: u32,
    /// It has a double write buffer.
    pub has_buffer: bool,
    /// Tablespaces can lie in the data directory.
    pub has_in_place: bool,
    /// There is a program that makes base backups of it: one of the same major, or of a later one.
    pub can_back_up: bool,
}

impl Programs {
    /// Asks the programs in `bin` what they are; `None` when they do not say.
    pub fn of(bin: PathBuf, client: PathBuf) -> Option<Self> {
        let ask = |argument: &str| {
            let output = Command::new(bin.join("postgres")).arg(argument).output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let version = ask("--version")?;
        let number = version.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
        let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
        // Root may not ask for the settings; their names are in the program.
        let program = std::fs::read(bin.join("postgres")).ok()?;
        let has = |name: &[u8]| program.windows(name.len()).any(|part| part == name);
        let (has_buffer, has_in_place) = (has(b"double_write_buffer_size\0"), has(b"allow_in_place_tablespaces\0"));
        let major = digits.parse().ok()?;
        let own = bin.join("pg_basebackup").exists();
        let can_back_up = own || live::version_of(&client).first().is_some_and(|client| *client >= major);
        Some(Self { major, bin, client, has_buffer, has_in_place, can_back_up })
    }

    /// The major, and whether it has a double write buffer, for people.
    pub fn name(&self) -> String {
        format!("{}{}", self.major, if self.has_buffer { " with a buffer" } else { "" })
    }
}

/// What kind of cluster the crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A server under load.
    Load,
    /// A second crash while the server recovers from the first.
    Recovery,
    /// A standby that replays the WAL of a server.
    Standby,
}

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Recovery => "recovery",
            Self::Standby => "standby",
        }
    }
}

/// What becomes of WAL that was written and not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalTail {
    Whole,
    Lost,
    Sectors,
}

impl WalTail {
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Lost => "lost",
            Self::Sectors => "sectors",
        }
    }
}

/// All that one crash is made with.
#[derive(Clone)]
pub struct Settings {
    pub programs: Programs,
    pub checksums: bool,
    pub full_page_writes: bool,
    /// The server's own double write buffer is on.
    pub own_buffer: bool,
    /// A double write buffer of the same page writes is put in.
    pub put_buffer: bool,
    pub family: Family,
    pub wal_tail: WalTail,
    /// A copy of the stopped server from before the load is at hand.
    pub donor: bool,
    /// That copy is a base backup of the running server, where there is a program that makes one.
    pub backup: bool,
    /// Pages without an image are rebuilt.
    pub rebuild: bool,
    pub segment_megabytes: u32,
    /// What is counted until the crash, and how many.
    pub crash_kind: &'static str,
    pub crash_count: usize,
    /// Lines of the configuration.
    pub configuration: String,
}

impl Settings {
    /// What crash number `run` of a campaign is made with.
    pub fn draw(seed: u64, run: u64, programs: &[Programs]) -> Self {
        let mut draw = Draw::of(&[seed, run, 1]);
        let programs = programs[(run % programs.len() as u64) as usize].clone();
        let round = run / 4;
        // Both are varied evenly, whatever else is drawn.
        let (checksums, full_page_writes) =
            (draw.next().is_multiple_of(2), draw.next().wrapping_add(round).is_multiple_of(3));
        let own_buffer = programs.has_buffer && draw.percent(80);
        let put_buffer = !own_buffer && !full_page_writes && draw.percent(50);
        let family = match draw.below(10) {
            0..=5 => Family::Load,
            6..=8 => Family::Recovery,
            _ => Family::Standby,
        };
        let wal_tail = draw.one_of(&[WalTail::Whole, WalTail::Lost, WalTail::Sectors]);
        let donor = family == Family::Standby || draw.percent(40);
        let rebuild = draw.percent(50);
        let segment_megabytes = if programs.major < 11 { 16 } else { draw.one_of(&[1, 1, 2, 4]) };
        let (crash_kind, crash_count) = match draw.below(8) {
            0..=4 => ("page", draw.between(60, 2500)),
            5 => ("wal", draw.between(100, 1500)),
            6 if own_buffer => ("buffer", draw.between(60, 1500)),
            _ => ("sync", draw.between(2, 120)),
        };
        let on = |is_on: bool| if is_on { "on" } else { "off" };
        let mut lines = vec![
            format!("full_page_writes = {}", on(full_page_writes)),
            format!("wal_compression = {}", on(draw.percent(40))),
            format!("shared_buffers = {}", draw.one_of(&["1MB", "2MB", "8MB", "32MB"])),
            format!("wal_buffers = {}", draw.one_of(&["64kB", "256kB", "1MB"])),
            format!("synchronous_commit = {}", on(draw.percent(50))),
            format!("wal_log_hints = {}", on(draw.percent(20))),
            format!("wal_level = {}", draw.one_of(&["replica", "replica", "logical"])),
            format!("min_wal_size = {}MB", 4 * segment_megabytes),
            "max_wal_size = 2GB\ncheckpoint_timeout = 1h\nmax_prepared_transactions = 8\nmax_wal_senders = 2"
                .to_owned(),
            "bgwriter_lru_maxpages = 0\nfsync = on\nstatement_timeout = 60s\nlock_timeout = 200ms\nmax_connections = 20".to_owned(),
            "dynamic_shared_memory_type = mmap\nhot_standby = on\nlog_checkpoints = on".to_owned(),
            // All of it is kept: the donor is from before.
            if programs.major < 13 { "wal_keep_segments = 400" } else { "wal_keep_size = 2GB" }.to_owned(),
        ];
        if programs.has_in_place {
            lines.push("allow_in_place_tablespaces = on".to_owned());
        }
        if programs.has_buffer {
            let size = draw.one_of(&[1, 4, 16]);
            lines.push(format!("double_write_buffer = {}\ndouble_write_buffer_size = {size}", on(own_buffer)));
        }
        let configuration = lines.join("\n");
        let backup = donor && programs.can_back_up && draw.percent(50);
        Self {
            programs,
            checksums,
            full_page_writes,
            own_buffer,
            put_buffer,
            family,
            wal_tail,
            donor,
            backup,
            rebuild,
            segment_megabytes,
            crash_kind,
            crash_count,
            configuration,
        }
    }

    /// Arguments of `initdb`.
    pub fn initdb(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.checksums {
            arguments.push("-k".to_owned());
        } else if self.programs.major >= 18 {
            arguments.push("--no-data-checksums".to_owned());
        }
        if self.programs.major >= 11 {
            arguments.push(format!("--wal-segsize={}", self.segment_megabytes));
        }
        arguments
    }
}
