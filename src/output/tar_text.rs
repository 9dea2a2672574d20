//! How to look at a base backup in tar format: the commands that unpack it.

use std::path::Path;

use super::shell::quoted;
use crate::cluster::tar_backup::{TarArchive, TarBackup, TarCompression};

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
