//! Steps for clusters that no repair helps, in words: each on a copy, with its losses.
//! Also here: ways to continue after an incomplete repair or undo; how to look at a base backup in tar format: the
//! commands that unpack it.

use std::path::Path;

use super::escape::quoted;
use super::next_step_text::{COPY, StepContext, Words};
use super::words::doubt::named_version;
use crate::analysis::verdict::next_step::UnknownVersion;
use crate::analysis::wal::last_checkpoint::LastCheckpoint;
use crate::cluster::tar_backup::{TarArchive, TarBackup, TarCompression};
use crate::parsers::control_layout::ControlLayout;
use crate::repair::apply::{ApplyError, Stopped};
use crate::repair::blocker::Overrides;

/// A copy that shares no file with the original.
pub(super) fn copy_first(context: StepContext<'_>) -> Words {
    let words = match context.links {
        Some([]) => Words::new("Copy the data directory first."),
        _ => Words::new("Copy the data directory first, and the directories behind its links.")
            .because("A plain copy keeps the links: it would write into the tablespaces and WAL of the original."),
    };
    let why = match context.links {
        Some(_) => words.why.as_str(),
        None => {
            "Its links could not be read: look for them in it, in base and in pg_tblspc, and give the copy its own."
        }
    };
    let why = format!("{why} Set archive_mode = off in the copy.").trim_start().to_owned();
    let words = Words::new(words.what).because(why).with(format!("cp -a {} {COPY}", quoted(context.data_dir)));
    context.links.unwrap_or_default().iter().fold(words, |words, link| {
        let path = link.path.display().to_string();
        let own = quoted(&format!("{COPY}.{}", path.replace('/', ".")));
        let (target, link) = (quoted(&link.target.display().to_string()), quoted(&format!("{COPY}/{path}")));
        words.with(format!("cp -a {target}/. {own} && ln -sfn \"$(realpath {own})\" {link}"))
    })
}

/// Files that this user may not open. `owner`: that of the data directory, if it is another user.
pub(super) fn run_as_owner(files: usize, owner: Option<&str>, dir: &str) -> Words {
    let noun = if files == 1 { "1 file" } else { &format!("{files} files") };
    match owner {
        Some(owner) => Words::new(format!(
            "Run the check again as {owner}, the owner of the data directory. Repair nothing before that."
        ))
        .because(format!(
            "This user cannot read {noun} (see \"Not checked\"), so any answer may change. If the owner cannot read them \
             either, fix their permissions; the server needs them too:"
        ))
        .with(format!("sudo -u {owner} pg_dwbinspect check {dir}")),
        None => Words::new(format!(
            "Fix the permissions of {noun} (see \"Not checked\"), then check again. Repair nothing before that."
        ))
        .because("You own the data directory and cannot read them, so the server cannot either:")
        .with(format!("pg_dwbinspect check {dir}")),
    }
}

/// Dumps a cluster whose pages are newer than its WAL.
pub(super) fn reset_past_pages(next_file: &str) -> Words {
    Words::new(
        "If that WAL no longer exists, everything committed in it is lost. Start and stop a server on the copy, move its \
         WAL position past every page, and dump. Load the dump into a new cluster.",
    )
    .because("Pages of both times remain side by side, so compare important data:")
    .with("pg_ctl start -w -D COPY -o '-c archive_mode=off'")
    .with("pg_ctl stop -m fast -D COPY")
    .with(format!("pg_resetwal -l {next_file} -D COPY"))
    .with("pg_ctl start -w -D COPY -o '-c archive_mode=off'")
    .with("pg_dumpall -f dump.sql")
}

/// Recreates `pg_control`, with the losses.
pub(super) fn reset_by_wal(last: &LastCheckpoint) -> Words {
    let LastCheckpoint { record_lsn, is_clean, checkpoint, .. } = last;
    let costs = if *is_clean {
        "It is a shutdown checkpoint and nothing follows it: no change is lost with pg_control."
    } else {
        "The cluster was not shut down after it: WAL after the redo point is discarded, and pages of both times \
         remain side by side. Dump the tables, compare important data, and load the dump into a new cluster."
    };
    Words::new(format!(
        "If no copy of pg_control exists, create one on the copy, as its owner, from the last checkpoint in pg_wal: at \
         {record_lsn}, with redo point {}.",
        checkpoint.redo_lsn
    ))
    .because(format!("{costs} Data checksums are off afterwards, and standbys and archives need a new base backup."))
    .with("touch COPY/global/pg_control")
    .with(format!("pg_resetwal -D COPY {}", last.reset_arguments()))
}

/// A file with an unknown version.
pub(super) fn newer_release(unknown: UnknownVersion) -> String {
    match unknown {
        UnknownVersion::Control { version, .. } if ControlLayout::meaning(version).is_some() => format!(
            "No release of this program reads version {}: leave the file as it is, and use the server that wrote it.",
            named_version(version)
        ),
        UnknownVersion::Control { version, is_signed: true } => format!(
            "Use a newer release of this program: it does not know version {version} of pg_control. The file is \
             intact (its CRC is valid): leave it as it is, and do not run pg_resetwal."
        ),
        UnknownVersion::Control { version, is_signed: false } => format!(
            "Use a newer release of this program: it does not know version {version} of pg_control, and cannot say \
             whether the file is intact. It is probably only newer than this program: leave it as it is, and do not \
             run pg_resetwal."
        ),
        UnknownVersion::Wal { magic } if magic.is_unreleased() => format!(
            "No release of this program reads WAL that recovery needs ({magic}): leave it where it is, and use the \
                server that wrote it."
        ),
        UnknownVersion::Wal { magic } => format!(
            "Use a newer release of this program: WAL that recovery needs is in pg_wal, in a version that it does not \
             know ({magic}). Leave that WAL where it is; a server of the version that wrote it may well replay it."
        ),
    }
}

/// Relations that are named where recovery stops at them.
const MAX_STOPPING: usize = 2;

/// Starts a server although recovery cannot read a page.
pub(super) fn get_past(relations: &[String]) -> Words {
    let more = relations.len().saturating_sub(MAX_STOPPING);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named: Vec<&str> = relations.iter().take(MAX_STOPPING).map(String::as_str).collect();
    Words::new(
        "Restore a base backup if you can: with all WAL since then, also that of pg_wal, no data is lost. Otherwise start \
         the copy only, with ignore_checksum_failure. If that start stops too, and only then, use zero_damaged_pages: it \
         loses everything on unreadable pages, also changes in WAL.",
    )
    .because(format!("Recovery stops at pages without an image: {}{more}.", named.join(", ")))
    .with("pg_ctl start -D COPY -o '-c archive_mode=off -c ignore_checksum_failure=on'")
    .with("pg_ctl start -D COPY -o '-c archive_mode=off -c zero_damaged_pages=on'")
}

/// Written pages, location of the old bytes, and the commands that finish or undo the work.
pub(crate) fn ways_on(stopped: &Stopped, data_dir: &Path, journal: &Path, overrides: Overrides) -> String {
    let (data, undo) = (quoted(&data_dir.display().to_string()), quoted(&journal.display().to_string()));
    let skip = match &stopped.error {
        ApplyError::Changed(_) => " --skip-changed",
        ApplyError::Journal(_) | ApplyError::Access(_) | ApplyError::CutOff => "",
        // A server that got as far as pg_control rules out both for good.
        ApplyError::ServerAppeared(_) => {
            return format!("{stopped}\nthe old bytes are in {undo}; stop the server before anything else");
        }
        // Neither is possible.
        _ => return stopped.to_string(),
    };
    let what = if skip.is_empty() { "" } else { "; pages that something else has changed stay as they are" };
    let allow = overrides.arguments();
    format!(
        "{stopped}\nthe old bytes are in {undo}{what}\nto finish:       pg_dwbinspect repair {data} --resume {undo}{skip}{allow}\n\
         to undo it:      pg_dwbinspect undo {data} {undo}{skip}{allow}"
    )
}

/// Kind of the directory, and the commands, one a line.
pub(crate) fn tar_backup_words(backup: &TarBackup) -> String {
    let directory = std::path::absolute(&backup.directory).unwrap_or_else(|_| backup.directory.clone());
    let name = directory.file_name().map_or_else(|| "backup".to_owned(), |name| name.to_string_lossy().into_owned());
    let target = directory.with_file_name(format!("{name}.unpacked"));
    let mut lines = vec![format!(
        "{} is a base backup in tar format ({}), not a data directory; unpack it and check the result:",
        backup.directory.display(),
        backup.base.name
    )];
    let mut unpack = |archive: &TarArchive, into: &Path| {
        lines.push(format!("  mkdir -p -m 700 {}", word(into)));
        lines.push(format!("  {}", command(&directory.join(&archive.name), archive.compression, into)));
    };
    unpack(&backup.base, &target);
    if let Some(wal) = &backup.wal {
        unpack(wal, &target.join("pg_wal"));
    }
    let spaces = directory.with_file_name(format!("{name}.tablespaces"));
    for tablespace in &backup.tablespaces {
        unpack(tablespace, &spaces.join(&tablespace.stem));
    }
    for tablespace in &backup.tablespaces {
        let (from, link) = (spaces.join(&tablespace.stem), target.join("pg_tblspc").join(&tablespace.stem));
        lines.push(format!("  ln -s {} {}", word(&from), word(&link)));
    }
    lines.push(format!("  pg_dwbinspect check {}", word(&target)));
    if !backup.tablespaces.is_empty() {
        lines.push(
            "before you start a server there: tablespace_map makes it use the directories of the original tablespaces"
                .to_owned(),
        );
    }
    lines.join("\n")
}

fn command(archive: &Path, compression: TarCompression, into: &Path) -> String {
    let (archive, into) = (word(archive), word(into));
    match compression {
        TarCompression::None => format!("tar -xf {archive} -C {into}"),
        TarCompression::Gzip => format!("gzip -dc {archive} | tar -xf - -C {into}"),
        TarCompression::Lz4 => format!("lz4 -dc {archive} | tar -xf - -C {into}"),
        TarCompression::Zstd => format!("zstd -dc {archive} | tar -xf - -C {into}"),
    }
}

fn word(path: &Path) -> String {
    quoted(&path.display().to_string())
}
